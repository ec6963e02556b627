//! Where the parts of a document stand in its text, as the reader comes past them.

use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::sync::Arc;

use crate::outcome::{Object, Read, Stop};

/// So many keys are looked through one by one.
const FEW: usize = 16;

#[derive(Clone, Copy)]
pub enum Kind {
    Map,
    List,
    Scalar,
}

/// A key of a map.
struct Key {
    name: String,
    start: usize,
}

/// The place of one value; offsets count bytes first, and characters in the end.
pub struct Node {
    kind: Kind,
    is_flow: bool,
    start: usize,
    end: usize,
    column: usize,
    /// The keys of a map, and if they are not few their numbers in the order of their names.
    keys: Vec<Key>,
    sorted: Vec<usize>,
    /// The values of a map in the order of its keys, or the items of a list.
    values: Vec<usize>,
}

impl Node {
    fn new(kind: Kind, start: usize, end: usize) -> Self {
        let (keys, sorted, values) = (Vec::new(), Vec::new(), Vec::new());
        Node { kind, is_flow: false, start, end, column: 0, keys, sorted, values }
    }

    /// Return the number of a key.
    fn find(&self, name: &str) -> Option<usize> {
        if self.keys.len() <= FEW {
            return self.keys.iter().position(|key| key.name == name);
        }
        let found = self.sorted.binary_search_by(|&number| self.keys[number].name.as_str().cmp(name));
        found.ok().map(|at| self.sorted[at])
    }
}

/// Collects the places, where somebody wants them. A value is done when its parts are, and the root is the last one.
pub struct Spots {
    is_wanted: bool,
    done: Vec<Node>,
    open: Vec<Node>,
}

impl Spots {
    pub fn new(is_wanted: bool) -> Self {
        Spots { is_wanted, done: Vec::new(), open: Vec::new() }
    }

    pub fn scalar(&mut self, start: usize, end: usize) {
        if self.is_wanted {
            self.done.push(Node::new(Kind::Scalar, start, end));
        }
    }

    /// A block text ends with its last sign: the white space behind that belongs to what follows as well.
    pub fn block_text(&mut self, text: &str, start: usize, end: usize) {
        if self.is_wanted {
            let found = text.get(start..end.min(text.len())).unwrap_or("");
            self.scalar(start, start + found.trim_end_matches([' ', '\t', '\n']).len());
        }
    }

    /// Begin a map or list; its column is that of its keys or signs.
    pub fn open(&mut self, kind: Kind, start: usize, column: isize) {
        if self.is_wanted {
            let column = usize::try_from(column).unwrap_or(0);
            self.open.push(Node { column, ..Node::new(kind, start, start) });
        }
    }

    /// Begin a map or list in brackets.
    pub fn open_flow(&mut self, kind: Kind, start: usize) {
        if self.is_wanted {
            self.open.push(Node { is_flow: true, ..Node::new(kind, start, start) });
        }
    }

    /// Put the value that was done last into the map that is open.
    pub fn entry(&mut self, key: &Object, start: usize) -> Read<()> {
        if let Some(map) = self.open.last_mut() {
            let name = key.cast::<PyString>().map_err(|_| Stop::Unsure)?.to_str()?.to_owned();
            map.keys.push(Key { name, start });
        }
        self.item();
        Ok(())
    }

    /// Put the value that was done last into the list that is open.
    pub fn item(&mut self) {
        if let (Some(node), Some(last)) = (self.open.last_mut(), self.done.len().checked_sub(1)) {
            node.values.push(last);
        }
    }

    /// End the map or list that is open: it ends with its last value, and one in brackets there.
    pub fn close(&mut self, at: usize) {
        let Some(mut node) = self.open.pop() else { return };
        node.end = if node.is_flow { at } else { self.done.last().map_or(at, |last| last.end) };
        if node.keys.len() > FEW {
            node.sorted = (0..node.keys.len()).collect();
            node.sorted.sort_unstable_by(|&left, &right| node.keys[left].name.cmp(&node.keys[right].name));
        }
        self.done.push(node);
    }

    /// Return the root, with all offsets in characters.
    pub fn root(self, text: &str) -> Option<Spot> {
        let mut nodes = self.done;
        if !text.is_ascii() {
            count_characters(&mut nodes, text);
        }
        let at = nodes.len().checked_sub(1)?;
        Some(Spot { nodes: Arc::new(nodes), at })
    }
}

/// Turn offsets in bytes into offsets in characters. In front of a column there are spaces and signs only.
fn count_characters(nodes: &mut [Node], text: &str) {
    let steps = Steps::new(text.as_bytes());
    for node in nodes {
        node.start = steps.characters(node.start);
        node.end = steps.characters(node.end);
        for key in &mut node.keys {
            key.start = steps.characters(key.start);
        }
    }
}

/// So many bytes are counted anew for each offset.
const STEP: usize = 64;

/// Knows how many characters stand in front of every so many bytes.
struct Steps<'a> {
    bytes: &'a [u8],
    before: Vec<usize>,
}

impl<'a> Steps<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let mut count = 0;
        let mut before = vec![0];
        for step in bytes.chunks(STEP) {
            count += characters(step);
            before.push(count);
        }
        Steps { bytes, before }
    }

    /// Return how many characters stand in front of an offset.
    fn characters(&self, offset: usize) -> usize {
        let step = offset / STEP;
        self.before[step] + characters(&self.bytes[step * STEP..offset])
    }
}

/// Count characters by their first bytes: each further one is like 10xxxxxx.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

/// The place of one value; `postrender/spots.py` says what all this means.
#[pyclass(frozen, module = "grpo_reader")]
pub struct Spot {
    nodes: Arc<Vec<Node>>,
    at: usize,
}

impl Spot {
    fn node(&self) -> &Node {
        &self.nodes[self.at]
    }

    fn value(&self, number: usize) -> Option<Spot> {
        let &at = self.node().values.get(number)?;
        Some(Spot { nodes: Arc::clone(&self.nodes), at })
    }

    fn number(&self, key: &str) -> PyResult<usize> {
        self.node().find(key).ok_or_else(|| PyKeyError::new_err(key.to_owned()))
    }
}

#[pymethods]
impl Spot {
    #[getter]
    fn kind(&self) -> &'static str {
        match self.node().kind {
            Kind::Map => "map",
            Kind::List => "list",
            Kind::Scalar => "scalar",
        }
    }

    #[getter]
    fn flow(&self) -> bool {
        self.node().is_flow
    }

    #[getter]
    fn start(&self) -> usize {
        self.node().start
    }

    #[getter]
    fn end(&self) -> usize {
        self.node().end
    }

    #[getter]
    fn col(&self) -> usize {
        self.node().column
    }

    /// A map or list in block style starts with its first key or sign.
    #[getter]
    fn first(&self) -> usize {
        self.node().start
    }

    fn names(&self) -> Vec<&str> {
        self.node().keys.iter().map(|key| key.name.as_str()).collect()
    }

    fn has(&self, key: &str) -> bool {
        self.node().find(key).is_some()
    }

    fn key_start(&self, key: &str) -> PyResult<usize> {
        Ok(self.node().keys[self.number(key)?].start)
    }

    fn child(&self, key: &str) -> PyResult<Spot> {
        let number = self.number(key)?;
        self.value(number).ok_or_else(|| PyKeyError::new_err(key.to_owned()))
    }

    fn count(&self) -> usize {
        self.node().values.len()
    }

    fn item(&self, number: usize) -> PyResult<Spot> {
        self.value(number).ok_or_else(|| PyIndexError::new_err(number))
    }
}
