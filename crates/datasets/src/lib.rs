//! Image datasets in their official formats: found, fetched, checked, decoded, split, augmented.
//!
//! ```
//! use datasets::{Augmentation, Library, OrderConfig, Part, SplitOrder, split};
//!
//! // built in: nothing to fetch
//! let library = Library::new(None);
//! let set = library.load("fashion-mnist-mini", Part::Train)?;
//! let (train, validation) = split(set.labels(), 0.1, SplitOrder::Index)?;
//! assert_eq!((train.len(), validation.len()), (5_400, 600));
//!
//! let order = OrderConfig {
//!     indices: train,
//!     batch: 128,
//!     shuffle: true,
//!     seed: 0,
//!     balance: None,
//!     augmentation: Augmentation::none(),
//! }
//! .build(set.len())?;
//! let tables = datasets::manifest::normalization("fashion-mnist-mini").expect("known").tables();
//! let (mut visits, mut image) = (Vec::new(), vec![0.0; set.shape().len()]);
//! order.visits(0, &mut visits);
//! for step in 0..order.steps() {
//!     for visit in &visits[order.step(step)] {
//!         visit.write(set.images(), &tables, &mut image);
//!     }
//! }
//! # Ok::<(), datasets::Error>(())
//! ```
//!
//! # What there is
//!
//! | idea | where |
//! |---|---|
//! | a decoded set, one byte a pixel, shared by all runs | [`ImageSet`] |
//! | the datasets known by name: files, sums, addresses, licenses, constants | [`manifest`] |
//! | where datasets are looked for; each decoded once | [`Library`] |
//! | downloads: resumed, checked, renamed into place | [`Fetcher`] |
//! | is what lies in a folder what was published? | [`verify()`] |
//! | readers: IDX, CIFAR, MAT, NPY and NPZ, pictures, ZIP, tar | [`formats`] |
//! | training and validation images | [`split()`] |
//! | mean and deviation | [`Normalization`] |
//! | flips and crops | [`Augmentation`] |
//! | the order of a training: which image is visited when | [`Order`] |
//! | drawn letters, for out-of-domain tests | [`letters()`] |
//!
//! # Which data are accepted
//!
//! A file of a known dataset must have the SHA-256 of the published one, or of a changed copy that
//! the manifest knows; the difference is then in [`ImageSet::notes`]. Where the published sum is
//! not known here (EMNIST, Tiny ImageNet), size and structure are checked, and the notes say so.
//! [`Library::unverified`] lets other contents pass, never other formats.
//!
//! # Custom datasets
//!
//! Where a name is asked for, a path will do: a folder with `train` and `test` in it, and in each a
//! folder of pictures (PNG, JPEG, BMP, GIF, TIFF, WebP) per class, of one size unless a
//! [`Form`] gives them one; or an NPZ file with the arrays
//! `train_images`, `train_labels`, `test_images` and `test_labels` (also `x_train`, `y_train`,
//! `x_test`, `y_test`), images as bytes `[n, h, w]`, `[n, c, h, w]` or `[n, h, w, c]`, labels whole
//! numbers from 0; or a folder with these arrays as NPY files. Class folders alone, or `images` and
//! `labels` alone, are a test part.
//!
//! # Randomness
//!
//! The order of an epoch is a pure function of (seed, epoch), an augmentation one of (seed, epoch,
//! image), the shuffled split one of its seed, a drawn letter one of (seed, index): Philox4x32-10,
//! a stream per purpose. A run can stop and go on anywhere.
#![forbid(unsafe_code)]

mod augment;
mod check;
mod custom;
mod digest;
#[doc(hidden)]
pub mod disk;
mod embedded;
mod error;
#[cfg(feature = "download")]
mod fetch;
mod form;
pub mod formats;
mod image_set;
mod letters;
mod library;
pub mod manifest;
mod official;
mod random;
mod split;
#[cfg(test)]
mod testing;
mod verify;
mod visits;

pub use augment::Augmentation;
pub use check::Verified;
pub use custom::some_of;
pub use embedded::FASHION_MNIST_LICENSE;
pub use error::{Error, Malformed, Result};
#[cfg(feature = "download")]
pub use fetch::{Event, Fetcher};
pub use form::Form;
pub use image_set::ImageSet;
pub use images::{Images, Normalization, Shape, Visit};
pub use letters::letters;
pub use library::{ENVIRONMENT, Library, Location, Origin, Part, Root, cache_folder};
pub use split::{SplitOrder, split, stratified_part};
pub use verify::{Check, verify};
pub use visits::{Order, OrderConfig};
