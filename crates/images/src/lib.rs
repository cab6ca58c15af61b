//! Images as bytes: their shape, their normalization, and the visits of a training.
//!
//! ```
//! use images::{Images, Normalization, Shape, Visit};
//!
//! let images = Images::new(Shape::new(1, 1, 2), 2, vec![0, 255, 51, 0], vec![0, 1])?;
//! let tables = Normalization::identity(1).tables();
//! let mut out = [0.0; 2];
//! // the second image, one column to the left: black comes in from the right
//! Visit::new(1, 0, -1, false).write(&images, &tables, &mut out);
//! assert_eq!(out, [0.0, 0.2]);
//! # Ok::<(), images::Error>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod normalization;
mod set;
mod shape;
mod visit;

pub use error::{Error, Result, check, check_labels, check_length};
pub use normalization::{Normalization, Table};
pub use set::Images;
pub use shape::Shape;
pub use visit::{MAX_SHIFT, Visit};
