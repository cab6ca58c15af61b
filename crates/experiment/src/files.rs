//! Files that are whole or not there: written under a temporary name, flushed to the disk, then renamed.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};

/// Replaces the file by these bytes; a reader sees the old content or the new one.
///
/// Unlike that of [`evaluation::write_atomically`] the temporary name is always the same: a run's folder belongs to one process, and what
/// a killed one leaves behind is overwritten by the next.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&temporary, path)
    };
    write()
        .inspect_err(|_| {
            // the failure to report is the first one
            let _ = fs::remove_file(&temporary);
        })
        .map_err(Error::file(path, "written"))
}

/// The content of a file.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(Error::file(path, "read"))
}

/// The content of a text file.
pub fn read_text(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::file(path, "read"))
}

/// The folder, made if it is not there.
pub fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(Error::file(path, "created"))
}
