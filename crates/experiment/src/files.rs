//! Files that are whole or not there: written under a temporary name, flushed to the disk, then
//! renamed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Replaces the file by these bytes: they go to a temporary name beside the path and onto the disk,
/// then the name is changed. A reader sees the old content or the new one, never half a file.
///
/// The temporary name is that of the process, so that two of them do not write into the same one.
///
/// # Errors
/// The path names no file, or it cannot be written; the temporary file is removed.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        let mut name = path
            .file_name()
            .ok_or(io::ErrorKind::InvalidFilename)?
            .to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_data()
        });
        written
            .and_then(|()| fs::rename(&temporary, path))
            .inspect_err(|_| {
                // the failure to report is the first one
                let _ = fs::remove_file(&temporary);
            })
    };
    write().map_err(Error::file(path, "written"))
}

/// The content of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(Error::file(path, "read"))
}

/// The content of a text file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::file(path, "read"))
}

/// The folder, made if it is not there.
pub(crate) fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::file(path, "created"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        for bytes in [b"old".as_slice(), b"new content"] {
            write_atomically(&path, bytes).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        let error = write_atomically(&taken, b"new").unwrap_err();
        let message = format!("{}: cannot be written", taken.display());
        assert_eq!(error.to_string(), message);
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let nowhere = folder.path().join("nowhere/file");
        assert!(write_atomically(&nowhere, b"new").is_err());
        assert!(write_atomically(Path::new("/"), b"new").is_err());
    }
}
