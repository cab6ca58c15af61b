//! The compiled half of the Python package `maxitive`: arrays in without a copy, answers out as
//! numbers or as JSON that the Python half reads. Errors become `ValueError` with the same text.

mod bounds;
mod evaluate;
mod event;
mod function;
mod infer;
mod normal;
mod record;
mod regression;
mod rule;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A mistake of the caller, in the words of the crate that found it.
fn mistake(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The same with what caused it, as far as that says something new.
fn mistake_and_causes(error: impl std::error::Error) -> PyErr {
    mistake(evaluation::reason(&error))
}

#[pymodule]
fn _maxitive(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<rule::Rule>()?;
    module.add_function(wrap_pyfunction!(rule::filled, module)?)?;
    module.add_function(wrap_pyfunction!(rule::move_to_large_pages, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate::in_domain, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate::scores, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate::detection, module)?)?;
    module.add_function(wrap_pyfunction!(record::record_of_predictions, module)?)?;
    module.add_function(wrap_pyfunction!(record::checked_record, module)?)?;
    module.add_function(wrap_pyfunction!(record::report_page, module)?)?;
    module.add_class::<event::Event>()?;
    module.add_class::<event::Region>()?;
    module.add_class::<function::Function>()?;
    module.add_function(wrap_pyfunction!(function::svg_of_functions, module)?)?;
    module.add_class::<normal::Normal>()?;
    module.add_class::<infer::Posterior>()?;
    module.add_class::<infer::Shares>()?;
    module.add_class::<infer::Means>()?;
    module.add_class::<infer::Groups>()?;
    module.add_function(wrap_pyfunction!(infer::merge, module)?)?;
    module.add_function(wrap_pyfunction!(infer::restore, module)?)?;
    module.add_class::<regression::Regression>()?;
    module.add_class::<bounds::Bounds>()
}
