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
mod plain;
mod quoted;
mod reader;
mod scalars;

use std::sync::Mutex;

use pyo3::prelude::*;

use objects::Cache;
use reader::{Reader, Stop};

/// The objects of keys and short scalars live on between the documents of a stream, which have most of them in common.
static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

/// Return the object of one document, or None where another reader is needed.
///
/// Raises MemoryError only.
fn read_document<'py>(py: Python<'py>, text: &str, cache: &mut Cache) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !text.ends_with('\n') || characters::are_odd(text.as_bytes()) {
        return Ok(None);
    }
    match Reader::new(py, text, cache).document() {
        Ok(object) => Ok(Some(object)),
        Err(Stop::Unsure) => Ok(None),
        Err(Stop::Failed(error)) => Err(*error),
    }
}

/// The module `grpo_reader`.
#[pymodule]
mod grpo_reader {
    use super::{Bound, CACHE, Cache, PyAny, PyResult, Python, pyfunction, read_document};
    use pyo3::types::{PyString, PyStringMethods};

    /// Return the object of one document of YAML, or None where another reader is needed.
    #[pyfunction]
    fn read<'py>(py: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Half a surrogate pair is no text.
        let Ok(text) = text.to_str() else { return Ok(None) };
        // It is taken already where the garbage collector runs a finalizer that reads YAML, or another thread does.
        match CACHE.try_lock() {
            Ok(mut cache) => read_document(py, text, cache.get_or_insert_with(Cache::new)),
            Err(_) => read_document(py, text, &mut Cache::new()),
        }
    }
}
