//! What can be wrong with a dataset, its files or the way it is asked for.

use std::path::PathBuf;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// A place in a file that does not say what its format demands.
///
/// Readers work on bytes and return this; [`Error::Malformed`] adds the name of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} at byte {offset}: {problem}")]
pub struct Malformed {
    /// The part of the format that was being read.
    pub field: &'static str,
    /// Where it begins, counted in the uncompressed content.
    pub offset: u64,
    /// What is there, and what was allowed.
    pub problem: String,
}

impl Malformed {
    pub(crate) fn new(field: &'static str, offset: u64, problem: impl Into<String>) -> Self {
        Self {
            field,
            offset,
            problem: problem.into(),
        }
    }
}

/// An error: lower case, with the file or the value and what was allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused to read or write.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried: "read", "create", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A file that breaks the rules of its format.
    #[error("{}: {malformed}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where and how.
        malformed: Malformed,
    },
    /// A file whose content is not the one the manifest knows.
    #[error(
        "{}: sha256 is {found}, expected {expected}; this is not the file that was published: \
         fetch it again, or ask for unverified data if it is meant to differ", path.display()
    )]
    Checksum {
        /// The file.
        path: PathBuf,
        /// Every sum that would have been accepted, separated by " or ".
        expected: String,
        /// The sum of the content found.
        found: String,
    },
    /// A file or an array of the wrong size.
    #[error("{}: {what} is {found}, expected {expected}", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// The quantity.
        what: &'static str,
        /// Its value.
        found: String,
        /// What was allowed.
        expected: String,
    },
    /// A name that is neither a known dataset nor a path.
    #[error(
        "unknown dataset \"{name}\"; known are {known}; or give the path of an image folder or an NPZ file"
    )]
    UnknownSet {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A known dataset that is nowhere to be found; the message says how to get it.
    #[error("{name} is not on this machine\n{advice}")]
    NotFound {
        /// The name of the dataset.
        name: String,
        /// Where it was looked for and how to get it, several lines.
        advice: String,
    },
    /// A dataset without this part.
    #[error("{name} has no {part} part: {reason}")]
    NoSuchPart {
        /// The name of the dataset.
        name: String,
        /// The part asked for.
        part: &'static str,
        /// Why.
        reason: String,
    },
    /// A dataset that cannot be fetched.
    #[error("{name} cannot be fetched: {reason}")]
    NotFetchable {
        /// The name of the dataset.
        name: String,
        /// Why.
        reason: String,
    },
    /// A download that failed for good.
    #[error("cannot fetch {address}: {problem}")]
    Fetch {
        /// The last address that was tried.
        address: String,
        /// What went wrong there.
        problem: String,
    },
    /// A file that another process is fetching.
    #[error("another process is writing {}", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// A label that is not a class.
    #[error("{name}: label {label} of image {index} is not in {allowed}")]
    Label {
        /// The dataset or file.
        name: String,
        /// Position of the image.
        index: usize,
        /// The label.
        label: i64,
        /// The labels there may be.
        allowed: String,
    },
    /// Pixels and labels that do not belong together.
    #[error("{name}: {source}")]
    Images {
        /// The dataset.
        name: String,
        /// What does not fit.
        source: images::Error,
    },
    /// A number outside its range.
    #[error(transparent)]
    Input(#[from] images::Error),
}

impl Error {
    /// There is no dataset of this name.
    pub(crate) fn unknown(name: &str) -> Self {
        Self::UnknownSet {
            name: name.into(),
            known: crate::manifest::names().collect::<Vec<_>>().join(", "),
        }
    }

    /// The file has something of another size or kind than it should.
    pub(crate) fn size(
        path: impl Into<PathBuf>,
        what: &'static str,
        found: impl ToString,
        expected: impl ToString,
    ) -> Self {
        Self::Size {
            path: path.into(),
            what,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }

    /// For `map_err`: the system refused `action` on `path`.
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// For `map_err`: `path` breaks its format.
    pub(crate) fn malformed(path: impl Into<PathBuf>) -> impl FnOnce(Malformed) -> Self {
        let path = path.into();
        move |malformed| Self::Malformed { path, malformed }
    }
}
