//! What the parts of the reader share, and the document around the root.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cursor::Cursor;
use crate::objects::{Cache, Objects};
use crate::outcome::{Object, Read, Stop};
use crate::spots::Spots;

/// Maps and lists nested deeper are for the other reader.
const MAX_DEPTH: usize = 60;
/// Libyaml takes no key that is longer than 1024 characters.
pub const LONGEST_KEY: usize = 1000;

/// Reads one document.
pub struct Reader<'a, 'py, 'c> {
    pub cursor: Cursor<'a>,
    pub objects: Objects<'py, 'c>,
    pub spots: Spots,
    /// A scalar that the text does not have as it is.
    pub scratch: String,
    depth: usize,
}

impl<'a, 'py, 'c> Reader<'a, 'py, 'c> {
    pub fn new(py: Python<'py>, text: &'a str, cache: &'c mut Cache, spots: Spots) -> Self {
        Reader { cursor: Cursor::new(text), objects: Objects::new(py, cache), spots, scratch: String::new(), depth: 0 }
    }

    /// Read the whole text, which has to be one map that is not empty.
    pub fn document(&mut self) -> Read<Object<'py>> {
        if self.cursor.text.starts_with("---") {
            self.cursor.at = 3;
            self.cursor.end_line()?;
        } else {
            self.cursor.next_content();
        }
        let root = match self.cursor.column {
            0.. if !self.cursor.is_dash() => self.node(-1, true)?,
            _ => return Err(Stop::Unsure),
        };
        let is_map = root.cast::<PyDict>().is_ok_and(|map| !map.is_empty());
        if is_map && self.cursor.column < 0 { Ok(root) } else { Err(Stop::Unsure) }
    }

    /// Begin a map or a list.
    pub fn enter(&mut self) -> Read<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(Stop::Unsure) } else { Ok(()) }
    }

    /// End a map or a list.
    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Return the text that was put together.
    pub fn scratch_object(&mut self) -> Object<'py> {
        self.objects.long_text(&self.scratch)
    }
}
