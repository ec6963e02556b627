//! Python's objects: maps, lists and scalars. Short texts, which a stream has many times, are made once.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::outcome::{Object, Read, Stop};
use crate::scalars::{Scalar, resolve};

/// The other reader refuses a document of more keys and values.
const MAX_NODES: usize = 1_000_000;
/// Texts that are longer are made anew each time.
const LONGEST: usize = 54;
/// The memory of many slots takes longer to get than a small document to read: they are made when there are texts.
const FEWEST_SLOTS: usize = 1 << 9;
const MOST_SLOTS: usize = 1 << 12;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a text was taken for: the same letters are different objects with and without quotes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Plain,
    PlainKey,
}

/// An object and what it was made of, in one line of the processor's cache.
#[repr(align(64))]
struct Slot {
    bytes: [u8; LONGEST],
    length: u8,
    kind: Kind,
    object: Option<Py<PyAny>>,
}

/// Holds the objects of some texts; a newer one takes the place of an older one, so that it does not grow for ever.
pub struct Cache {
    slots: Box<[Slot]>,
    /// Texts that were put there.
    taken: usize,
}

impl Cache {
    pub fn new() -> Self {
        Cache::with(FEWEST_SLOTS)
    }

    fn with(slots: usize) -> Self {
        let empty = || Slot { bytes: [0; LONGEST], length: 0, kind: Kind::Text, object: None };
        Cache { slots: (0..slots).map(|_| empty()).collect(), taken: 0 }
    }

    /// Make room for one more text; what is there is forgotten when the room becomes larger.
    fn take(&mut self) {
        self.taken += 1;
        if self.taken > 2 * FEWEST_SLOTS && self.slots.len() == FEWEST_SLOTS {
            *self = Cache::with(MOST_SLOTS);
        }
    }
}

/// Return a number that texts have to be found by.
fn hash_of(bytes: &[u8], kind: Kind) -> usize {
    let mut hash = bytes.len() as u64 ^ ((kind as u64) << 8);
    let (words, rest) = bytes.as_chunks::<8>();
    for &word in words {
        hash = (hash.rotate_left(5) ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    for &byte in rest {
        hash = hash.rotate_left(8) ^ u64::from(byte);
    }
    (hash.wrapping_mul(FACTOR) >> 40) as usize
}

/// Makes objects, and counts the keys and values.
pub struct Objects<'py, 'c> {
    py: Python<'py>,
    cache: &'c mut Cache,
    /// The root counts too.
    count: usize,
}

impl<'py, 'c> Objects<'py, 'c> {
    pub fn new(py: Python<'py>, cache: &'c mut Cache) -> Self {
        Objects { py, cache, count: 1 }
    }

    pub fn map(&self) -> Bound<'py, PyDict> {
        PyDict::new(self.py)
    }

    pub fn list(&self) -> Bound<'py, PyList> {
        PyList::empty(self.py)
    }

    pub fn null(&self) -> Object<'py> {
        self.py.None().into_bound(self.py)
    }

    pub fn put(&mut self, map: &Bound<'py, PyDict>, key: &Object<'py>, value: &Object<'py>) -> Read<()> {
        self.count(2)?;
        Ok(map.set_item(key, value)?)
    }

    pub fn append(&mut self, list: &Bound<'py, PyList>, item: &Object<'py>) -> Read<()> {
        self.count(1)?;
        Ok(list.append(item)?)
    }

    fn count(&mut self, more: usize) -> Read<()> {
        self.count += more;
        if self.count > MAX_NODES { Err(Stop::Unsure) } else { Ok(()) }
    }

    /// Return the map as it is to be, or stop where a key stands twice.
    pub fn close_map(&self, map: Bound<'py, PyDict>, keys: usize) -> Read<Object<'py>> {
        if map.len() == keys { Ok(map.into_any()) } else { Err(Stop::Unsure) }
    }

    /// Return a scalar that has no quotes.
    pub fn plain(&mut self, text: &str) -> Read<Object<'py>> {
        self.cached(text, Kind::Plain)
    }

    /// Return a key that has no quotes.
    pub fn plain_key(&mut self, text: &str) -> Read<Object<'py>> {
        self.cached(text, Kind::PlainKey)
    }

    /// Return a text that has quotes.
    pub fn text(&mut self, text: &str) -> Read<Object<'py>> {
        self.cached(text, Kind::Text)
    }

    /// Return a text that stands hardly twice.
    pub fn long_text(&self, text: &str) -> Object<'py> {
        PyString::new(self.py, text).into_any()
    }

    fn cached(&mut self, text: &str, kind: Kind) -> Read<Object<'py>> {
        let bytes = text.as_bytes();
        if bytes.len() > LONGEST {
            return self.new_object(text, kind);
        }
        let hash = hash_of(bytes, kind);
        let slot = &self.cache.slots[hash % self.cache.slots.len()];
        if let Some(object) = &slot.object
            && usize::from(slot.length) == bytes.len()
            && slot.kind == kind
            && slot.bytes[..bytes.len()] == *bytes
        {
            return Ok(object.bind(self.py).clone());
        }
        let object = self.new_object(text, kind)?;
        self.cache.take();
        let at = hash % self.cache.slots.len();
        let slot = &mut self.cache.slots[at];
        slot.bytes[..bytes.len()].copy_from_slice(bytes);
        slot.length = bytes.len() as u8;
        slot.kind = kind;
        slot.object = Some(object.clone().unbind());
        Ok(object)
    }

    fn new_object(&self, text: &str, kind: Kind) -> Read<Object<'py>> {
        match kind {
            Kind::Text => Ok(self.long_text(text)),
            Kind::Plain => self.resolved(text),
            Kind::PlainKey => self.key(text),
        }
    }

    fn resolved(&self, text: &str) -> Read<Object<'py>> {
        Ok(match resolve(text) {
            Scalar::Text => self.long_text(text),
            Scalar::Null => self.null(),
            Scalar::Bool(value) => PyBool::new(self.py, value).to_owned().into_any(),
            Scalar::Int(value) => PyInt::new(self.py, value).into_any(),
            Scalar::Float(value) => PyFloat::new(self.py, value).into_any(),
            Scalar::Unsure => return Err(Stop::Unsure),
        })
    }

    /// Return a key, which is text to Kubernetes. A boolean, and a number that it may write otherwise, is not certain.
    fn key(&self, text: &str) -> Read<Object<'py>> {
        match resolve(text) {
            Scalar::Text => Ok(self.long_text(text)),
            Scalar::Int(value) if value.to_string() == text => Ok(self.long_text(text)),
            _ => Err(Stop::Unsure),
        }
    }
}
