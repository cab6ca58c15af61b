//! Tables and arrays from files: CSV and Parquet row by row or column by column, NPY and NPZ whole.
//!
//! Every mistake in a file is a [`UserError`] that names the file, the place and the rule; memory
//! grows with what is read, not with what a file announces.
#![forbid(unsafe_code)]

pub mod arrays;
pub mod csv;

pub use questions::user_error::UserError;
