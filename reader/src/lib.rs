//! Read one document of plain YAML into Python's objects, as Helm and Kubernetes read it, or say that it is not certain.
//!
//! What is read here is what libyaml, Go's port of it and every other reader of YAML take for the same. Anchors, tags,
//! odd characters, a key that stands twice and whatever else they may differ on make the answer None: the caller has a
//! slower reader for that.

#![forbid(unsafe_code)]

mod block;
mod characters;
mod cursor;
mod flow;
mod literal;
mod objects;
mod outcome;
mod plain;
mod quoted;
mod reader;
mod scalars;
mod spots;

use std::sync::Mutex;

use pyo3::prelude::*;

use objects::Cache;
use outcome::{Object, Stop};
use reader::Reader;
use spots::Spots;

/// The objects of keys and short scalars live on between the documents of a stream, which have most of them in common.
static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

/// Read one document, and collect the places of its parts where they are wanted; None where another reader is needed.
///
/// Raises MemoryError where Python has no memory; the process ends where there is none for a long scalar.
fn read_document<'py>(
    py: Python<'py>,
    text: &str,
    spots: Spots,
    cache: &mut Cache,
) -> PyResult<Option<(Object<'py>, Spots)>> {
    if !text.ends_with('\n') || characters::are_odd(text.as_bytes()) {
        return Ok(None);
    }
    let mut reader = Reader::new(py, text, cache, spots);
    match reader.document() {
        Ok(object) => Ok(Some((object, reader.spots))),
        Err(Stop::Unsure) => Ok(None),
        Err(Stop::Failed(error)) => Err(*error),
    }
}

/// Read one document with the objects that are at hand.
fn read_cached<'py>(py: Python<'py>, text: &str, spots: Spots) -> PyResult<Option<(Object<'py>, Spots)>> {
    // They are taken already where the garbage collector runs a finalizer that reads YAML, or another thread does.
    match CACHE.try_lock() {
        Ok(mut cache) => read_document(py, text, spots, cache.get_or_insert_with(Cache::new)),
        Err(_) => read_document(py, text, spots, &mut Cache::new()),
    }
}

/// The module `grpo_reader`.
#[pymodule]
mod grpo_reader {
    #[pymodule_export]
    use super::spots::Spot;
    use super::{Object, PyResult, Python, Spots, pyfunction, read_cached};
    use memchr::memmem;
    use pyo3::prelude::*;
    use pyo3::types::PyString;

    /// Return the object of one document of YAML, or None where another reader is needed.
    #[pyfunction]
    fn read<'py>(py: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Option<Object<'py>>> {
        // Half a surrogate pair is no text.
        let Ok(text) = text.to_str() else { return Ok(None) };
        Ok(read_cached(py, text, Spots::new(false))?.map(|(object, _)| object))
    }

    /// Return where a word first stands in a stream, from an offset on, or -1: `bytes.find`, several times as fast.
    #[pyfunction]
    fn find(data: &[u8], word: &[u8], start: usize) -> isize {
        let found = data.get(start..).and_then(|rest| memmem::find(rest, word));
        found.and_then(|at| isize::try_from(start + at).ok()).unwrap_or(-1)
    }

    /// Return the object of one document and its place, or None where `read` does.
    #[pyfunction]
    fn locate<'py>(py: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Option<(Object<'py>, Spot)>> {
        let Ok(text) = text.to_str() else { return Ok(None) };
        Ok(read_cached(py, text, Spots::new(true))?.and_then(|(object, spots)| Some((object, spots.root(text)?))))
    }
}
