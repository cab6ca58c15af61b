//! Files and folders that a command writes.

use std::fs;
use std::path::Path;

use plot::Figure;

use crate::user_error::UserError;

/// Creates a folder and what leads to it.
///
/// # Errors
/// Something that is no folder has this name, or the folder cannot be created.
pub fn create_folder(path: &Path) -> anyhow::Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(UserError::new(format!("{}: is a file, not a folder", path.display())).into());
    }
    experiment::files::create_folder(path).map_err(failure)
}

/// Exit code 2 for a mistake in the path, and 1 for a full disk, which is none.
fn failure(error: experiment::Error) -> anyhow::Error {
    if !error.is_mistake() {
        return error.into();
    }
    let reason = std::error::Error::source(&error).map(|source| format!(": {source}"));
    UserError::new(format!("{error}{}", reason.unwrap_or_default())).into()
}

/// Refuses a file for a page whose ending promises something else.
///
/// # Errors
/// The ending is neither `.html` nor `.htm`.
pub fn check_page(path: &Path) -> anyhow::Result<()> {
    let ending = path.extension().and_then(|end| end.to_str());
    if ending.is_some_and(|end| ["html", "htm"].contains(&end.to_ascii_lowercase().as_str())) {
        return Ok(());
    }
    let problem = format!("{}: a page ends in .html", path.display());
    Err(UserError::new(problem).into())
}

/// Replaces the file by these bytes; see [`experiment::files::write_atomically`]. A pipe or a
/// device of this name would be lost, and is refused.
///
/// # Errors
/// The file cannot be written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let problem = format!("{}: is no plain file and is not replaced", path.display());
        return Err(UserError::new(problem).into());
    }
    experiment::files::write_atomically(path, bytes).map_err(failure)
}

/// Writes a picture in the format that the ending of the path names.
///
/// # Errors
/// The ending is no format, the picture cannot be drawn, or the file cannot be written.
pub fn save_picture(figure: &Figure, path: &Path) -> anyhow::Result<()> {
    write_atomically(path, &figure.bytes(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datasets::disk::faults::{Fault, Watch};
    use plot::Panel;

    #[test]
    fn a_picture_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let figure = Figure::single(Panel::new("empty", 0.0..1.0, 0.0..1.0));
        let path = folder.path().join("a.svg");
        save_picture(&figure, &path).unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with("</svg>\n"));
        assert!(save_picture(&figure, &folder.path().join("none/a.svg")).is_err());
        assert!(save_picture(&figure, &folder.path().join("a.gif")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// `report`, `infer` and `figures` ended with 2, as for a mistake.
    #[test]
    fn a_full_disk_is_no_mistake_of_any_command() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.html");
        let mut tried = 0;
        for at in 0.. {
            let watch = Watch::new(folder.path(), Fault::Full(at));
            let done = create_folder(folder.path()).and_then(|()| write_atomically(&path, b"x"));
            if watch.happened().len() <= at {
                done.unwrap();
                break;
            }
            let error = done.unwrap_err();
            assert!(!error.chain().any(|cause| cause.is::<UserError>()), "{at}");
            let message = format!("{error:#}");
            let told = message.contains("cannot be") && message.ends_with("no storage space");
            assert!(told, "{message}");
            tried += 1;
        }
        // mkdir, create, write, flush, rename
        assert_eq!(tried, 5);
        let missing = write_atomically(&folder.path().join("none/a"), b"x").unwrap_err();
        assert!(missing.is::<UserError>());
    }
}
