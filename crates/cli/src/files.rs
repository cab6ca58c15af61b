//! Files and folders that a command writes.

use std::fs;
use std::path::Path;

use crate::user_error::UserError;

/// Creates a folder and what leads to it.
///
/// # Errors
/// Something that is no folder has this name, or the folder cannot be created.
pub fn create_folder(path: &Path) -> anyhow::Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(UserError::new(format!("{}: is a file, not a folder", path.display())).into());
    }
    fs::create_dir_all(path).map_err(|error| {
        UserError::new(format!("{}: cannot be created: {error}", path.display())).into()
    })
}

/// Replaces the file by these bytes; see [`experiment::files::write_atomically`].
///
/// # Errors
/// The file cannot be written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    experiment::files::write_atomically(path, bytes).map_err(|error| {
        let reason = std::error::Error::source(&error).map(|source| format!(": {source}"));
        UserError::new(format!("{error}{}", reason.unwrap_or_default())).into()
    })
}
