//! Block texts, below `|` and `>`.

use crate::cursor::spaces;
use crate::outcome::{Object, Read, Stop};
use crate::reader::Reader;

/// What becomes of the line breaks at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

/// The line that says how the text is written.
struct Header {
    is_folded: bool,
    chomping: Chomping,
    /// How many columns behind its parent the text stands; 0 where its first line shows that.
    indent: usize,
}

/// What a line is to a block text.
enum Line {
    Blank,
    Content,
    Other,
}

impl<'py> Reader<'_, 'py, '_> {
    /// Read a block text, and go on to the next content.
    pub fn block_text(&mut self, parent: isize) -> Read<Object<'py>> {
        let start = self.cursor.at;
        let header = self.header()?;
        // The root is a map.
        let parent = usize::try_from(parent).map_err(|_| Stop::Unsure)?;
        self.scratch.clear();
        let (indent, blank_lines) = match header.indent {
            0 => self.find_indent(parent)?,
            more => (parent + more, 0),
        };
        self.lines(&header, indent, blank_lines)?;
        self.spots.block_text(self.cursor.text, start, self.cursor.at);
        self.cursor.next_content();
        Ok(self.scratch_object())
    }

    /// Read the header, and go to the line below.
    fn header(&mut self) -> Read<Header> {
        let mut header = Header { is_folded: self.cursor.peek() == b'>', chomping: Chomping::Clip, indent: 0 };
        self.cursor.at += 1;
        for _ in 0..2 {
            match self.cursor.peek() {
                b'-' if header.chomping == Chomping::Clip => header.chomping = Chomping::Strip,
                b'+' if header.chomping == Chomping::Clip => header.chomping = Chomping::Keep,
                digit @ b'1'..=b'9' if header.indent == 0 => header.indent = usize::from(digit - b'0'),
                _ => break,
            }
            self.cursor.at += 1;
        }
        self.cursor.skip_spaces();
        match self.cursor.peek() {
            b'\n' => {}
            b'#' if self.cursor.is_comment() => self.cursor.at = self.cursor.line_end(self.cursor.at),
            _ => return Err(Stop::Unsure),
        }
        self.cursor.at += 1;
        Ok(header)
    }

    /// Pass the blank lines in front of the text; return how far it is indented, and how many they were.
    fn find_indent(&mut self, parent: usize) -> Read<(usize, usize)> {
        let (mut deepest, mut blank_lines) = (0, 0);
        loop {
            let start = self.cursor.at;
            let column = spaces(self.cursor.rest(start));
            match self.cursor.byte(start + column) {
                b'\n' => {
                    deepest = deepest.max(column);
                    blank_lines += 1;
                    self.cursor.at += column + 1;
                }
                // A tab may be meant for indentation, and a blank line that is longer than the text's indentation for text.
                b'\t' => return Err(Stop::Unsure),
                byte if byte != 0 && column > parent => {
                    return if deepest > column { Err(Stop::Unsure) } else { Ok((column, blank_lines)) };
                }
                // There is no text.
                _ => return Ok((parent + 1, blank_lines)),
            }
        }
    }

    /// Put the lines of the text into the scratch, and go to the line below.
    fn lines(&mut self, header: &Header, indent: usize, blank_lines: usize) -> Read<()> {
        let mut blank_lines = blank_lines;
        let mut before: Option<u8> = None;
        loop {
            match self.line(indent)? {
                Line::Blank => {
                    blank_lines += 1;
                    self.cursor.at = self.cursor.line_end(self.cursor.at) + 1;
                }
                Line::Content => {
                    let start = self.cursor.at + indent;
                    let first = self.cursor.byte(start);
                    self.join(header, before, first, blank_lines);
                    let end = self.cursor.line_end(start);
                    self.scratch.push_str(self.cursor.slice(start, end)?);
                    self.cursor.at = end + 1;
                    before = Some(first);
                    blank_lines = 0;
                }
                Line::Other => return self.chomp(header, before.is_some(), blank_lines),
            }
        }
    }

    /// Say what the line that begins here is.
    fn line(&self, indent: usize) -> Read<Line> {
        let rest = self.cursor.rest(self.cursor.at);
        let column = spaces(rest.get(..indent).unwrap_or(rest));
        match self.cursor.byte(self.cursor.at + column) {
            b'\n' => Ok(Line::Blank),
            0 => Ok(Line::Other),
            _ if column == indent => Ok(Line::Content),
            b'\t' => Err(Stop::Unsure),
            _ => Ok(Line::Other),
        }
    }

    /// Put the line breaks between two lines into the scratch; a line that begins with white space is not folded.
    fn join(&mut self, header: &Header, before: Option<u8>, first: u8, blank_lines: usize) {
        let is_white = |byte: u8| byte == b' ' || byte == b'\t';
        match before {
            None => self.push_breaks(blank_lines),
            Some(last) if header.is_folded && !is_white(last) && !is_white(first) => self.push_fold(blank_lines),
            Some(_) => self.push_breaks(blank_lines + 1),
        }
    }

    /// End the text with the line breaks that the header says.
    fn chomp(&mut self, header: &Header, has_content: bool, blank_lines: usize) -> Read<()> {
        match header.chomping {
            Chomping::Keep if has_content => self.push_breaks(blank_lines + 1),
            // Readers count the lines of a text that has no other differently.
            Chomping::Keep if blank_lines > 0 => return Err(Stop::Unsure),
            Chomping::Clip if has_content => self.push_breaks(1),
            _ => {}
        }
        Ok(())
    }
}
