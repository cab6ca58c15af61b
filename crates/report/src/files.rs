//! Records found in folders: every `record.json` at any depth, or the files that are named; and the
//! searches beside them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use evaluation::record::{RecordError, RunRecord, SEARCH_SCHEMA, read_plain};

use crate::search::{SEARCH, Search};

/// Name of the file that holds the record of a run.
pub const RECORD: &str = "record.json";

/// Why records could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder cannot be read.
    #[error("{}: cannot be read", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is no record of the version that is read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A file is no search of the version that is read.
    #[error("{}: {problem}", path.display())]
    Search {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A folder without a record at any depth.
    #[error("{}: no {RECORD} in this folder or below it", path.display())]
    NoRecord {
        /// The folder.
        path: PathBuf,
    },
}

/// Reads the records at these places, folders searched at any depth, files read whatever their
/// name.
///
/// A file that is met twice is read once. Records come in the order of the places, those of a
/// folder by path. Folders behind symbolic links inside a place are not entered.
///
/// # Errors
/// A place cannot be read, a folder holds no record, or a file is no record of the version that is
/// read.
///
/// ```
/// let error = report::files::read(&["no/such/place".into()]).unwrap_err();
/// assert_eq!(error.to_string(), "no/such/place: cannot be read");
/// ```
pub fn read(places: &[PathBuf]) -> Result<Vec<RunRecord>, Error> {
    let mut files = Vec::new();
    for place in places {
        let unreadable = |source| Error::Unreadable {
            path: place.clone(),
            source,
        };
        if !fs::metadata(place).map_err(unreadable)?.is_dir() {
            files.push(place.clone());
            continue;
        }
        let before = files.len();
        find(place, RECORD, &mut files)?;
        if files.len() == before {
            return Err(Error::NoRecord {
                path: place.clone(),
            });
        }
    }
    let files = each_once(files);
    files
        .iter()
        .map(|file| Ok(RunRecord::read(file)?))
        .collect()
}

/// Reads the searches in these folders, at any depth.
///
/// # Errors
/// A folder cannot be read, or a file is no search of the version that is read.
pub fn searches(places: &[PathBuf]) -> Result<Vec<Search>, Error> {
    let mut files = Vec::new();
    for place in places.iter().filter(|place| place.is_dir()) {
        find(place, SEARCH, &mut files)?;
    }
    each_once(files)
        .iter()
        .map(|file| read_search(file))
        .collect()
}

/// The files without those that came before under another name.
fn each_once(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(fs::canonicalize(file).unwrap_or_else(|_| file.clone())));
    files
}

fn read_search(path: &Path) -> Result<Search, Error> {
    let text = read_plain(path).map_err(|source| Error::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let refuse = |problem: String| Error::Search {
        path: path.to_owned(),
        problem,
    };
    let search: Search = serde_json::from_str(&text).map_err(|error| refuse(error.to_string()))?;
    match search.schema == SEARCH_SCHEMA {
        true => Ok(search),
        false => Err(refuse(format!(
            "has the schema \"{}\", expected \"{SEARCH_SCHEMA}\"",
            search.schema
        ))),
    }
}

/// Files of this name at any depth.
fn find(folder: &Path, wanted: &str, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let unreadable = |source| Error::Unreadable {
        path: folder.to_owned(),
        source,
    };
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let kind = entry.file_type().map_err(unreadable)?;
        entries.push((entry.path(), kind.is_dir()));
    }
    entries.sort();
    for (path, is_folder) in entries {
        if is_folder {
            find(&path, wanted, files)?;
        } else if path.file_name().is_some_and(|name| name == wanted) {
            files.push(path);
        }
    }
    Ok(())
}
