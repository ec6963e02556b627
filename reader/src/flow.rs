//! Maps and lists in brackets.

use crate::outcome::{Object, Read, Stop};
use crate::plain::is_inside_word;
use crate::reader::Reader;
use crate::spots::Kind;

impl<'py> Reader<'_, 'py, '_> {
    /// Read a map or list in brackets; the cursor is left behind the closing one.
    pub fn flow(&mut self) -> Read<Object<'py>> {
        self.enter()?;
        let is_map = self.cursor.peek() == b'{';
        self.spots.open_flow(if is_map { Kind::Map } else { Kind::List }, self.cursor.at);
        self.cursor.at += 1;
        let object = if is_map { self.flow_map() } else { self.flow_list() };
        self.leave();
        self.spots.close(self.cursor.at);
        object
    }

    fn flow_list(&mut self) -> Read<Object<'py>> {
        let list = self.objects.list();
        while self.has_more(b']')? {
            let item = self.flow_value()?;
            self.objects.append(&list, &item)?;
            self.spots.item();
            self.end_entry(b']')?;
        }
        Ok(list.into_any())
    }

    fn flow_map(&mut self) -> Read<Object<'py>> {
        let map = self.objects.map();
        let mut keys = 0;
        while self.has_more(b'}')? {
            let start = self.cursor.at;
            let key = self.flow_key()?;
            let value = self.flow_map_value()?;
            self.objects.put(&map, &key, &value)?;
            self.spots.entry(&key, start)?;
            keys += 1;
            self.end_entry(b'}')?;
        }
        self.objects.close_map(map, keys)
    }

    /// Say whether another entry follows; if not, go over the closing bracket.
    fn has_more(&mut self, closing: u8) -> Read<bool> {
        self.flow_space()?;
        let ends = self.cursor.peek() == closing;
        self.cursor.at += usize::from(ends);
        Ok(!ends)
    }

    /// Go over the comma behind an entry; the last one needs none.
    fn end_entry(&mut self, closing: u8) -> Read<()> {
        self.flow_space()?;
        match self.cursor.peek() {
            b',' => self.cursor.at += 1,
            byte if byte == closing => {}
            _ => return Err(Stop::Unsure),
        }
        Ok(())
    }

    /// Pass spaces, line breaks and comments.
    fn flow_space(&mut self) -> Read<()> {
        loop {
            self.cursor.skip_spaces();
            match self.cursor.peek() {
                b'\n' => {
                    self.cursor.at += 1;
                    self.cursor.line = self.cursor.at;
                    // The mark of a document ends even what is in brackets.
                    if matches!(self.cursor.peek(), b'-' | b'.') {
                        return Err(Stop::Unsure);
                    }
                }
                b'#' if self.cursor.is_comment() => self.cursor.at = self.cursor.line_end(self.cursor.at),
                _ => return Ok(()),
            }
        }
    }

    /// Read the value behind a key's colon; where there is none, it is null if the colon has a space behind it.
    fn flow_map_value(&mut self) -> Read<Object<'py>> {
        let is_apart = self.cursor.is_blank(self.cursor.at);
        self.flow_space()?;
        match self.cursor.peek() {
            b',' | b'}' if is_apart => {
                self.spots.scalar(self.cursor.at, self.cursor.at);
                Ok(self.objects.null())
            }
            _ => self.flow_value(),
        }
    }

    fn flow_value(&mut self) -> Read<Object<'py>> {
        match self.cursor.peek() {
            b'[' | b'{' => self.flow(),
            b'"' | b'\'' => {
                let start = self.cursor.at;
                let object = self.quoted_object()?;
                self.spots.scalar(start, self.cursor.at);
                Ok(object)
            }
            _ => {
                let (start, end) = (self.cursor.at, self.flow_plain()?);
                self.spots.scalar(start, end);
                self.objects.plain(self.cursor.slice(start, end)?)
            }
        }
    }

    /// Read a key and its colon.
    fn flow_key(&mut self) -> Read<Object<'py>> {
        let (start, line) = (self.cursor.at, self.cursor.line);
        let key = if matches!(self.cursor.peek(), b'"' | b'\'') {
            let key = self.quoted_object()?;
            self.cursor.skip_spaces();
            key
        } else {
            let end = self.flow_plain()?;
            self.objects.plain_key(self.cursor.slice(start, end)?)?
        };
        if self.cursor.peek() != b':' {
            return Err(Stop::Unsure);
        }
        self.end_key(start, line)?;
        Ok(key)
    }

    /// Go over a plain scalar in brackets up to what ends it, and return its end.
    fn flow_plain(&mut self) -> Read<usize> {
        let start = self.cursor.at;
        if !self.begins_flow_plain() {
            return Err(Stop::Unsure);
        }
        let rest = self.cursor.rest(start);
        for (offset, &byte) in rest.iter().enumerate() {
            let stop = start + offset;
            match byte {
                b'\n' | b',' | b']' | b'}' => {}
                b':' if self.cursor.is_blank(stop + 1) => {}
                b'#' if rest[..offset].ends_with(b" ") => {}
                // Readers differ on these, and on a colon in front of one that ends a scalar.
                b'\t' if is_inside_word(rest, offset) => continue,
                b'\t' | b'?' | b'[' | b'{' => break,
                b':' if matches!(self.cursor.byte(stop + 1), b',' | b'[' | b']' | b'{' | b'}' | b'?' | b'\t') => break,
                _ => continue,
            }
            self.cursor.at = stop;
            return Ok(start + rest[..offset].trim_ascii_end().len());
        }
        Err(Stop::Unsure)
    }

    fn begins_flow_plain(&self) -> bool {
        let at = self.cursor.at;
        match self.cursor.byte(at) {
            b'-' => {
                self.cursor.byte(at + 1).is_ascii_alphanumeric()
                    || matches!(self.cursor.byte(at + 1), b'-' | b'.' | b'_' | b'/')
            }
            b':' | b'?' => false,
            _ => self.is_plain(),
        }
    }
}
