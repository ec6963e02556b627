//! Maps and lists that are written by indentation.

use crate::outcome::{Object, Read, Stop};
use crate::plain::{End, Piece};
use crate::reader::{LONGEST_KEY, Reader};
use crate::spots::Kind;

impl<'py> Reader<'_, 'py, '_> {
    /// Read the node that begins here, and go on to the next content.
    ///
    /// `parent` is the column of the map or list around it. Behind a key on its line no map and no list can begin.
    pub fn node(&mut self, parent: isize, may_nest: bool) -> Read<Object<'py>> {
        match self.cursor.peek() {
            b'"' | b'\'' => self.quoted_node(may_nest),
            b'[' | b'{' => {
                let object = self.flow()?;
                self.cursor.end_line()?;
                Ok(object)
            }
            b'|' | b'>' => self.block_text(parent),
            b'-' if may_nest && self.cursor.is_dash() => self.list(self.cursor.column),
            _ if self.is_plain() => self.plain_node(parent, may_nest),
            _ => Err(Stop::Unsure),
        }
    }

    /// Read a plain scalar, or the map of which it is the first key.
    fn plain_node(&mut self, parent: isize, may_nest: bool) -> Read<Object<'py>> {
        let piece = self.plain_piece()?;
        if piece.by == End::Colon && may_nest {
            let key = self.plain_key(piece)?;
            return self.map(self.cursor.column, key);
        }
        self.plain(piece, parent)
    }

    /// Read a text in quotes, or the map of which it is the first key.
    fn quoted_node(&mut self, may_nest: bool) -> Read<Object<'py>> {
        let (start, line) = (self.cursor.at, self.cursor.line);
        let object = self.quoted_object()?;
        let end = self.cursor.at;
        if may_nest && self.is_colon() {
            self.end_key(start, line)?;
            return self.map(self.cursor.column, object);
        }
        self.spots.scalar(start, end);
        self.cursor.end_line()?;
        Ok(object)
    }

    /// Say whether a colon follows behind spaces.
    fn is_colon(&mut self) -> bool {
        self.cursor.skip_spaces();
        self.cursor.peek() == b':' && self.cursor.is_blank(self.cursor.at + 1)
    }

    /// Read a map of which the first key was read; the cursor is behind its colon.
    fn map(&mut self, column: isize, first: Object<'py>) -> Read<Object<'py>> {
        self.enter()?;
        let map = self.objects.map();
        let mut key = first;
        let mut start = self.cursor.line + column.cast_unsigned();
        self.spots.open(Kind::Map, start, column);
        let mut keys = 0;
        loop {
            keys += 1;
            let value = self.value(column)?;
            self.objects.put(&map, &key, &value)?;
            self.spots.entry(&key, start)?;
            if self.cursor.column != column {
                break;
            }
            start = self.cursor.at;
            key = self.key()?;
        }
        self.leave();
        self.spots.close(start);
        self.objects.close_map(map, keys)
    }

    /// Read a key and its colon.
    fn key(&mut self) -> Read<Object<'py>> {
        if self.is_plain() {
            let piece = self.plain_piece()?;
            return if piece.by == End::Colon { self.plain_key(piece) } else { Err(Stop::Unsure) };
        }
        if !matches!(self.cursor.peek(), b'"' | b'\'') {
            return Err(Stop::Unsure);
        }
        let (start, line) = (self.cursor.at, self.cursor.line);
        let key = self.quoted_object()?;
        if !self.is_colon() {
            return Err(Stop::Unsure);
        }
        self.end_key(start, line)?;
        Ok(key)
    }

    fn plain_key(&mut self, piece: Piece) -> Read<Object<'py>> {
        let start = self.cursor.at;
        let key = self.objects.plain_key(self.cursor.slice(start, piece.end)?)?;
        self.cursor.at = piece.stop;
        self.end_key(start, self.cursor.line)?;
        Ok(key)
    }

    /// Go over the colon of a key that began there, on that line.
    pub fn end_key(&mut self, start: usize, line: usize) -> Read<()> {
        if self.cursor.line != line || self.cursor.at - start > LONGEST_KEY {
            return Err(Stop::Unsure);
        }
        self.cursor.at += 1;
        Ok(())
    }

    /// Read the value behind a key's colon.
    fn value(&mut self, column: isize) -> Read<Object<'py>> {
        let start = self.cursor.at;
        self.cursor.skip_spaces();
        if !matches!(self.cursor.peek(), b'\n' | b'#') {
            return self.node(column, false);
        }
        self.cursor.end_line()?;
        if self.cursor.column > column {
            self.node(column, true)
        } else if self.cursor.column == column && self.cursor.is_dash() {
            self.list(column)
        } else {
            self.spots.scalar(start, start);
            Ok(self.objects.null())
        }
    }

    /// Read a list with its signs in that column.
    fn list(&mut self, column: isize) -> Read<Object<'py>> {
        self.enter()?;
        let list = self.objects.list();
        self.spots.open(Kind::List, self.cursor.at, column);
        loop {
            self.cursor.at += 1;
            let item = self.item(column)?;
            self.objects.append(&list, &item)?;
            self.spots.item();
            if self.cursor.column != column || !self.cursor.is_dash() {
                break;
            }
        }
        self.leave();
        self.spots.close(self.cursor.at);
        Ok(list.into_any())
    }

    /// Read an item of a list, behind its sign.
    fn item(&mut self, column: isize) -> Read<Object<'py>> {
        let start = self.cursor.at;
        self.cursor.skip_spaces();
        if matches!(self.cursor.peek(), b'\n' | b'#') {
            self.cursor.end_line()?;
            if self.cursor.column <= column {
                self.spots.scalar(start, start);
                return Ok(self.objects.null());
            }
        } else {
            self.cursor.mark_column();
        }
        self.node(column, true)
    }
}
