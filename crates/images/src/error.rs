//! What can be wrong with images, or with numbers and arrays that go with them: one wording for
//! every crate that works on images.

use std::borrow::Cow;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: lower case, with the value and what was allowed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number outside its range.
    #[error("{field} {value} is not in {range}")]
    OutOfRange {
        /// The quantity.
        field: &'static str,
        /// Its value.
        value: f64,
        /// What is allowed.
        range: Cow<'static, str>,
    },
    /// Arrays that do not belong together.
    #[error("{what} has {found} entries, expected {expected}")]
    Length {
        /// The array.
        what: Cow<'static, str>,
        /// Its length.
        found: usize,
        /// The length it should have.
        expected: usize,
    },
    /// A label that is not a class.
    #[error("label {label} of image {index} is not in 0..{classes}")]
    Label {
        /// Position of the image.
        index: usize,
        /// The label.
        label: u32,
        /// Number of classes.
        classes: usize,
    },
}

impl Error {
    /// A number outside its range.
    pub fn out_of_range(
        field: &'static str,
        value: f64,
        range: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::OutOfRange {
            field,
            value,
            range: range.into(),
        }
    }
}

/// `Ok` if `allowed` holds.
///
/// # Errors
/// [`Error::OutOfRange`] otherwise.
pub fn check(field: &'static str, value: f64, range: &'static str, allowed: bool) -> Result<()> {
    allowed
        .then_some(())
        .ok_or_else(|| Error::out_of_range(field, value, range))
}

/// `Ok` if the lengths agree.
///
/// # Errors
/// [`Error::Length`] otherwise.
pub fn check_length(
    what: impl Into<Cow<'static, str>>,
    found: usize,
    expected: usize,
) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Length {
        what: what.into(),
        found,
        expected,
    })
}

/// `Ok` if every label is a class.
///
/// # Errors
/// [`Error::Label`] with the first that is not.
pub fn check_labels(labels: &[u32], classes: usize) -> Result<()> {
    match labels.iter().position(|&label| label as usize >= classes) {
        None => Ok(()),
        Some(index) => Err(Error::Label {
            index,
            label: labels[index],
            classes,
        }),
    }
}
