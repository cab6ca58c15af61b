//! The compiled half of the Python package `maxitive`: arrays in without a copy, answers out as
//! numbers or as JSON that the Python half reads. Errors become `ValueError` with the same text.

mod evaluate;
mod infer;
mod rule;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A mistake of the caller, in the words of the crate that found it.
fn mistake(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

#[pymodule]
fn _maxitive(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<rule::Rule>()?;
    module.add_class::<evaluate::Outcomes>()?;
    module.add_function(wrap_pyfunction!(evaluate::scores, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate::detection, module)?)?;
    module.add_class::<infer::Posterior>()
}
