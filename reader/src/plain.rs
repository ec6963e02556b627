//! Scalars without quotes, outside brackets.

use crate::cursor::Passed;
use crate::outcome::{Object, Read, Stop};
use crate::reader::Reader;

/// What ends a plain scalar on its line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    Line,
    Comment,
    Colon,
}

/// A plain scalar's part on one line: it ends at `end`, and after spaces `stop` is where the line, a comment or a colon is.
#[derive(Clone, Copy)]
pub struct Piece {
    pub end: usize,
    pub stop: usize,
    pub by: End,
}

/// The bytes at which a plain scalar may end, or is none.
const SIGNS: [bool; 256] = {
    let mut signs = [false; 256];
    signs[b'\n' as usize] = true;
    signs[b':' as usize] = true;
    signs[b'#' as usize] = true;
    signs[b'\t' as usize] = true;
    signs
};

impl<'py> Reader<'_, 'py, '_> {
    /// Say whether a plain scalar begins here; outside brackets.
    pub fn is_plain(&self) -> bool {
        let at = self.cursor.at;
        match self.cursor.byte(at) {
            // These two begin other things too, and so do the marks of documents.
            b'-' | b'?' | b':' => !self.cursor.is_blank(at + 1) && !self.is_mark(b"---"),
            b'.' => !self.is_mark(b"..."),
            b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@'
            | b'`' => false,
            byte => byte > b' ',
        }
    }

    fn is_mark(&self, mark: &[u8]) -> bool {
        self.cursor.at == self.cursor.line && self.cursor.rest(self.cursor.at).starts_with(mark)
    }

    /// Find where the plain scalar that begins or goes on here ends on this line.
    pub fn plain_piece(&self) -> Read<Piece> {
        let start = self.cursor.at;
        let rest = self.cursor.rest(start);
        for (offset, &byte) in rest.iter().enumerate() {
            if !SIGNS[usize::from(byte)] {
                continue;
            }
            let stop = start + offset;
            let by = match byte {
                b'\n' => End::Line,
                b':' if self.cursor.is_blank(stop + 1) => End::Colon,
                b'#' if rest[..offset].ends_with(b" ") => End::Comment,
                b'\t' if !is_inside_word(rest, offset) => break,
                _ => continue,
            };
            let spaces = rest[..offset].iter().rev().take_while(|&&byte| byte == b' ').count();
            return Ok(Piece { end: stop - spaces, stop, by });
        }
        Err(Stop::Unsure)
    }

    /// Read a plain scalar of which the part on its first line is known.
    pub fn plain(&mut self, first: Piece, parent: isize) -> Read<Object<'py>> {
        let start = self.cursor.at;
        let text = self.cursor.slice(start, first.end)?;
        let Some(blank_lines) = self.continues(first, parent)? else {
            self.spots.scalar(start, first.end);
            return self.objects.plain(text);
        };
        self.scratch.clear();
        self.scratch.push_str(text);
        self.push_fold(blank_lines);
        loop {
            let piece = self.plain_piece()?;
            self.scratch.push_str(self.cursor.slice(self.cursor.at, piece.end)?);
            match self.continues(piece, parent)? {
                Some(blank_lines) => self.push_fold(blank_lines),
                None => {
                    self.spots.scalar(start, piece.end);
                    return Ok(self.scratch_object());
                }
            }
        }
    }

    /// Go to the next content, and return how many blank lines were passed if the plain scalar goes on there.
    fn continues(&mut self, piece: Piece, parent: isize) -> Read<Option<usize>> {
        self.cursor.at = piece.stop;
        let Passed { blank_lines, comments } = match piece.by {
            End::Line => self.cursor.next_line(),
            End::Comment => self.cursor.end_line()?,
            // A key goes over one line, and stands not behind another one.
            End::Colon => return Err(Stop::Unsure),
        };
        if self.cursor.column <= parent {
            return Ok(None);
        }
        // A comment ends the scalar, and nothing may follow it there.
        if comments || piece.by == End::Comment { Err(Stop::Unsure) } else { Ok(Some(blank_lines)) }
    }

    /// Put what line breaks become into the scratch: one is a space, of more each but the first stays.
    pub fn push_fold(&mut self, blank_lines: usize) {
        if blank_lines == 0 {
            self.scratch.push(' ');
        }
        self.push_breaks(blank_lines);
    }

    pub fn push_breaks(&mut self, count: usize) {
        self.scratch.extend(std::iter::repeat_n('\n', count));
    }
}

/// Say whether a tab stands between two letters: all readers take it for a part of the text.
pub fn is_inside_word(bytes: &[u8], at: usize) -> bool {
    let is_letter = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_alphanumeric);
    is_letter(at.checked_sub(1)) && is_letter(Some(at + 1))
}
