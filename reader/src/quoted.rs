//! Scalars in single or double quotes.

use crate::outcome::{Object, Read, Stop};
use crate::reader::Reader;

/// A text in quotes: a part of the document, or what was put together in the scratch.
pub enum Quoted<'a> {
    Slice(&'a str),
    Scratch,
}

impl<'a, 'py> Reader<'a, 'py, '_> {
    /// Read a text in quotes into an object; the cursor is left behind the closing one.
    pub fn quoted_object(&mut self) -> Read<Object<'py>> {
        match self.quoted()? {
            Quoted::Slice(text) => self.objects.text(text),
            Quoted::Scratch => Ok(self.scratch_object()),
        }
    }

    fn quoted(&mut self) -> Read<Quoted<'a>> {
        let quote = self.cursor.peek();
        let start = self.cursor.at + 1;
        let end = start + self.ordinary(start, quote);
        self.cursor.at = end;
        let closes = self.cursor.byte(end) == quote;
        if closes && (quote == b'"' || self.cursor.byte(end + 1) != quote) {
            self.cursor.at += 1;
            return Ok(Quoted::Slice(self.cursor.slice(start, end)?));
        }
        self.scratch.clear();
        self.scratch.push_str(self.cursor.slice(start, end)?);
        self.put_together(quote)?;
        Ok(Quoted::Scratch)
    }

    /// Count the bytes up to the next one that may not stand in quotes as it is.
    fn ordinary(&self, from: usize, quote: u8) -> usize {
        let rest = self.cursor.rest(from);
        let ends = |&byte: &u8| byte == quote || byte == b'\n' || (byte == b'\\' && quote == b'"');
        rest.iter().position(ends).unwrap_or(rest.len())
    }

    /// Read on from the first byte that is not ordinary.
    fn put_together(&mut self, quote: u8) -> Read<()> {
        // White space up to here was written as an escape, or is followed by something, and stays at the line's end.
        let mut kept = 0;
        loop {
            let byte = self.cursor.peek();
            if byte == quote {
                self.cursor.at += 1;
                if quote == b'"' || self.cursor.peek() != quote {
                    return Ok(());
                }
                self.scratch.push('\'');
                self.cursor.at += 1;
            } else if byte == b'\\' && quote == b'"' {
                self.escape()?;
                kept = self.scratch.len();
            } else if byte == b'\n' {
                self.fold(kept)?;
                kept = self.scratch.len();
            } else {
                // The text ends.
                return Err(Stop::Unsure);
            }
            let start = self.cursor.at;
            self.cursor.at += self.ordinary(start, quote);
            self.scratch.push_str(self.cursor.slice(start, self.cursor.at)?);
        }
    }

    /// Go over a line break, without the white space around it.
    fn fold(&mut self, kept: usize) -> Read<()> {
        let length = kept + self.scratch.get(kept..).unwrap_or("").trim_end_matches(' ').len();
        self.scratch.truncate(length);
        // A tab there is white space to some readers.
        if length > kept && self.scratch.ends_with('\t') {
            return Err(Stop::Unsure);
        }
        let blank_lines = self.next_line_in_quotes()?;
        self.push_fold(blank_lines);
        Ok(())
    }

    /// Go to the next line with content, however it is indented, and return how many blank lines were passed.
    fn next_line_in_quotes(&mut self) -> Read<usize> {
        let mut blank_lines = 0;
        loop {
            self.cursor.at += 1;
            self.cursor.line = self.cursor.at;
            self.cursor.skip_spaces();
            if self.cursor.peek() != b'\n' {
                break;
            }
            blank_lines += 1;
        }
        // The mark of a document ends even what is in quotes.
        let is_mark = self.cursor.at == self.cursor.line && matches!(self.cursor.peek(), b'-' | b'.');
        if is_mark || self.cursor.peek() == b'\t' { Err(Stop::Unsure) } else { Ok(blank_lines) }
    }

    /// Put the character that an escape stands for into the scratch.
    fn escape(&mut self) -> Read<()> {
        let sign = self.cursor.byte(self.cursor.at + 1);
        self.cursor.at += 1;
        if sign == b'\n' {
            let blank_lines = self.next_line_in_quotes()?;
            self.push_breaks(blank_lines);
            return Ok(());
        }
        self.cursor.at += 1;
        let character = match sign {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'"' => '"',
            b'\\' => '\\',
            b' ' => ' ',
            b'0' => '\0',
            b'a' => '\x07',
            b'b' => '\x08',
            b'v' => '\x0b',
            b'f' => '\x0c',
            b'e' => '\x1b',
            b'N' => '\u{85}',
            b'_' => '\u{a0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' => self.code(2)?,
            b'u' => self.code(4)?,
            b'U' => self.code(8)?,
            _ => return Err(Stop::Unsure),
        };
        self.scratch.push(character);
        Ok(())
    }

    /// Read a character's number of so many hexadecimal digits.
    fn code(&mut self, length: usize) -> Read<char> {
        let digits = self.cursor.rest(self.cursor.at).get(..length).ok_or(Stop::Unsure)?;
        let mut code = 0;
        for &digit in digits {
            code = code * 16 + char::from(digit).to_digit(16).ok_or(Stop::Unsure)?;
        }
        self.cursor.at += length;
        char::from_u32(code).ok_or(Stop::Unsure)
    }
}
