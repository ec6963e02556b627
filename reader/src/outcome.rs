//! What the parts of the reader return.

use pyo3::prelude::*;

/// Why the reader stopped.
pub enum Stop {
    /// The text is not plain.
    Unsure,
    /// Python has no memory.
    Failed(Box<PyErr>),
}

impl From<PyErr> for Stop {
    fn from(error: PyErr) -> Self {
        Stop::Failed(Box::new(error))
    }
}

pub type Read<T> = Result<T, Stop>;
pub type Object<'py> = Bound<'py, PyAny>;
