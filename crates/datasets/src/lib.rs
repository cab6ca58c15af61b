//! Image datasets in their official formats: found, fetched, checked, decoded, split, augmented.

mod augment;
mod batches;
mod digest;
mod error;
pub mod formats;
mod image_set;
mod library;
pub mod manifest;
mod normalization;
mod random;
mod split;

pub use augment::Augmentation;
pub use batches::{Batch, Batches, BatchesConfig};
pub use error::{Error, Malformed, Result};
pub use image_set::{ImageSet, Shape};
pub use library::{ENVIRONMENT, Library, Origin, Part, Root, cache_folder};
pub use normalization::Normalization;
pub use split::{SplitOrder, split};
