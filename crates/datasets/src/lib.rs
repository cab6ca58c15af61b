//! Image datasets in their official formats: found, fetched, checked, decoded, split, augmented.

mod augment;
mod batches;
mod check;
mod digest;
mod embedded;
mod error;
mod fetch;
pub mod formats;
mod image_set;
mod letters;
mod library;
pub mod manifest;
mod normalization;
mod official;
mod own;
mod random;
mod split;
mod verify;

pub use augment::Augmentation;
pub use batches::{Batch, Batches, BatchesConfig};
pub use check::Verified;
pub use embedded::FASHION_MNIST_LICENSE;
pub use error::{Error, Malformed, Result};
pub use fetch::{Event, Fetcher};
pub use image_set::{ImageSet, Shape};
pub use letters::letters;
pub use library::{ENVIRONMENT, Library, Location, Origin, Part, Root, cache_folder};
pub use normalization::Normalization;
pub use split::{SplitOrder, split};
pub use verify::{Check, verify};
