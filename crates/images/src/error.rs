//! What can be wrong with images or their normalization.

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
        range: &'static str,
    },
    /// Arrays that do not belong together.
    #[error("{what} has {found} entries, expected {expected}")]
    Length {
        /// The array.
        what: &'static str,
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

/// `Ok` if the lengths agree.
pub(crate) fn check_length(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Length {
        what,
        found,
        expected,
    })
}
