//! Where the reader is in the text: lines, columns, spaces and comments.

use crate::outcome::{Read, Stop};

/// A place in the text. Between nodes it is at the first character of a line that has more than a comment.
pub struct Cursor<'a> {
    pub text: &'a str,
    pub at: usize,
    /// Where the line begins.
    pub line: usize,
    /// The column of the node that comes next, from 0; -1 at the end of the text.
    pub column: isize,
}

/// What was passed on the way to the next line with content.
pub struct Passed {
    pub blank_lines: usize,
    pub comments: bool,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Cursor { text, at: 0, line: 0, column: 0 }
    }

    /// Return the byte at a place; NUL, which the text has nowhere, behind its end.
    pub fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    pub fn peek(&self) -> u8 {
        self.byte(self.at)
    }

    /// Return a part of the text; an offset inside a character would be an error of this crate, and is no certain text.
    pub fn slice(&self, start: usize, end: usize) -> Read<&'a str> {
        self.text.get(start..end).ok_or(Stop::Unsure)
    }

    /// Return the bytes from a place on.
    pub fn rest(&self, at: usize) -> &'a [u8] {
        self.text.as_bytes().get(at..).unwrap_or(&[])
    }

    /// Say whether a word ends in front of a place. A tab is no end: where one stands the text is not plain.
    pub fn is_blank(&self, at: usize) -> bool {
        matches!(self.byte(at), b' ' | b'\n')
    }

    /// Say whether the next node is an item of a list.
    pub fn is_dash(&self) -> bool {
        self.peek() == b'-' && self.is_blank(self.at + 1)
    }

    pub fn skip_spaces(&mut self) {
        self.at += spaces(self.rest(self.at));
    }

    /// Return the place of the next line break; the end of the text has one.
    pub fn line_end(&self, from: usize) -> usize {
        let rest = self.text.get(from..).unwrap_or("");
        from + rest.find('\n').unwrap_or(rest.len())
    }

    /// Pass spaces and a comment up to the end of the line, and go on to the next content.
    pub fn end_line(&mut self) -> Read<Passed> {
        self.skip_spaces();
        match self.peek() {
            b'\n' => {}
            b'#' if self.is_comment() => self.at = self.line_end(self.at),
            _ => return Err(Stop::Unsure),
        }
        Ok(self.next_line())
    }

    /// Say whether the sign `#` at this place begins a comment.
    pub fn is_comment(&self) -> bool {
        self.at == self.line || self.byte(self.at - 1) == b' '
    }

    /// Go from the end of a line to the next content, past blank lines and comments.
    pub fn next_line(&mut self) -> Passed {
        self.at += 1;
        self.next_content()
    }

    /// Go from the beginning of a line to the next content, past blank lines and comments.
    pub fn next_content(&mut self) -> Passed {
        let mut passed = Passed { blank_lines: 0, comments: false };
        loop {
            self.line = self.at;
            self.skip_spaces();
            match self.peek() {
                b'\n' => passed.blank_lines += 1,
                b'#' => {
                    passed.comments = true;
                    self.at = self.line_end(self.at);
                }
                0 => {
                    self.column = -1;
                    return passed;
                }
                _ => {
                    self.mark_column();
                    return passed;
                }
            }
            self.at += 1;
        }
    }

    /// Take this place for the column of the node that comes next.
    pub fn mark_column(&mut self) {
        self.column = (self.at - self.line).cast_signed();
    }
}

/// Count the spaces at the beginning.
pub fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| byte != b' ').unwrap_or(bytes.len())
}
