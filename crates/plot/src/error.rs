//! Why a picture cannot be made.

use std::fmt::Display;
use std::path::PathBuf;

/// Why a picture cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The letters cannot be read.
    #[error("the embedded font is damaged")]
    Font,
    /// The drawing backend fails.
    #[error("the picture cannot be drawn: {reason}")]
    Drawing {
        /// What it says.
        reason: String,
    },
    /// The pixels cannot be encoded.
    #[error("the picture cannot be encoded")]
    Encoding(#[from] png::EncodingError),
    /// The path has no ending that is a format.
    #[error("{}: {}", path.display(), crate::Format::EXPECTED)]
    Format {
        /// The path.
        path: PathBuf,
    },
}

/// What a picture is, or why there is none.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the drawing backend.
pub(crate) fn drawn(error: impl Display) -> Error {
    Error::Drawing {
        reason: error.to_string(),
    }
}
