//! Files that are whole or not there: written under a temporary name, flushed to the disk, then
//! renamed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use datasets::disk;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// Bytes of the longest text that is read, more than any config or status has.
const LONGEST_TEXT: u64 = 1 << 30;

/// Replaces the file by these bytes: they go to a temporary name beside the path and onto the disk,
/// then the name is changed. A reader sees the old content or the new one, never half a file.
///
/// The temporary file is a new one: nothing that is there already, a link say, is written through.
///
/// # Errors
/// The path names no file, or it cannot be written; the temporary file is removed.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, bytes, |temporary| disk::rename(temporary, path))
}

/// The same with a text, where the file holds another one: of several processes that write the same
/// the first does.
pub(crate) fn write_changed(path: &Path, text: &str) -> Result<()> {
    match read_text(path) {
        Ok(found) if found == text => Ok(()),
        _ => write_atomically(path, text.as_bytes()),
    }
}

/// The same, and what the file was before stays under another name.
pub(crate) fn write_keeping(path: &Path, previous: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, bytes, |temporary| {
        match disk::rename(path, previous) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        }
        .and_then(|()| disk::rename(temporary, path))
    })
}

fn replace(path: &Path, bytes: &[u8], put: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
    let write = || -> io::Result<()> {
        let (file, temporary) = create_temporary(path)?;
        disk::write(&file, &temporary, bytes)
            .and_then(|()| disk::flush(&file, &temporary))
            .and_then(|()| put(&temporary))
            .inspect_err(|_| {
                // the failure to report is the first one
                let _ = disk::remove(&temporary);
            })
    };
    write().map_err(Error::file(path, "written"))
}

/// A new file beside the path, named by the process; a name that is taken, by a killed process
/// with the same number say, is passed over.
fn create_temporary(path: &Path) -> io::Result<(File, PathBuf)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let mut number = 0;
    loop {
        let mut name = name.to_owned();
        name.push(format!(".{}-{number}.tmp", std::process::id()));
        let temporary = path.with_file_name(name);
        match disk::create(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            created => return Ok((created?, temporary)),
        }
    }
}

/// Removes temporary files that processes left which were killed; the caller has locked the folder.
pub(crate) fn remove_temporaries(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::file(folder, "read"))? {
        let path = entry.map_err(Error::file(folder, "read"))?.path();
        if path.extension().is_some_and(|end| end == "tmp") {
            disk::remove(&path).map_err(Error::file(&path, "removed"))?;
        }
    }
    Ok(())
}

/// Removes a file, or a folder with all that is in it; what is not there is no problem, and of a
/// link the link goes.
pub(crate) fn remove(path: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => disk::remove_folder(path),
        Ok(_) => disk::remove(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(Error::file(path, "removed")),
    }
}

/// Opens a file to be locked, made if it is not there. What it holds is left alone, and a link or
/// anything else that is no plain file is refused.
pub(crate) fn open_lock(path: &Path) -> Result<File> {
    let refuse = || Error::malformed(path, "is not a plain file; remove it");
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(refuse());
    }
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW);
    let file = disk::open(path, &options).map_err(Error::file(path, "created"))?;
    // a second name of a file elsewhere is as bad as a link to it
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(&file.metadata().map_err(Error::file(path, "read"))?)
        > 1
    {
        return Err(refuse());
    }
    Ok(file)
}

/// The content of a plain file; a pipe or a device in its place is refused.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    disk::read_plain(path).map_err(Error::file(path, "read"))
}

/// The content of a plain text file.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    text(disk::open_plain(path)).map_err(Error::file(path, "read"))
}

/// Refuses a file that [`read`] would.
pub(crate) fn check_plain(path: &Path) -> Result<()> {
    disk::open_plain(path)
        .map(drop)
        .map_err(Error::file(path, "read"))
}

/// Refuses a link in the place of a folder below `directory` that leads to `path`: what is written
/// there would be elsewhere.
pub(crate) fn check_folders(directory: &Path, path: &Path) -> Result<()> {
    let below = path
        .ancestors()
        .skip(1)
        .take_while(|folder| *folder != directory);
    for folder in below {
        if folder.is_symlink() {
            return Err(Error::malformed(folder, "is a link; remove it"));
        }
    }
    Ok(())
}

/// The content of a text file that was named by hand, which may be a pipe.
pub(crate) fn read_given(path: &Path) -> Result<String> {
    text(File::open(path)).map_err(Error::file(path, "read"))
}

fn text(file: io::Result<File>) -> io::Result<String> {
    let mut text = String::new();
    // one more than is allowed tells a longer one
    let read = file?.take(LONGEST_TEXT + 1).read_to_string(&mut text)?;
    if read as u64 > LONGEST_TEXT {
        let problem = format!("is longer than {LONGEST_TEXT} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
    }
    Ok(text)
}

/// What a file of JSON holds.
pub(crate) fn json(path: &Path, value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|error| Error::malformed(path, error))?;
    Ok(text + "\n")
}

/// What a text of JSON says; no field stands there twice. All types are read from JSON's values:
/// compiled for texts as well, they took a tenth of the code of this crate.
///
/// # Errors
/// It is no JSON, or is about something else.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_value(evaluation::json::parse(text)?)
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The folder, made with what leads to it if it is not there.
///
/// # Errors
/// It cannot be created.
pub fn create_folder(path: &Path) -> Result<()> {
    disk::create_folder(path).map_err(Error::file(path, "created"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datasets::disk::faults::{Fault, Watch};

    #[test]
    fn json_in_which_a_field_stands_twice_is_refused() {
        let read = |text| from_json::<std::collections::BTreeMap<String, u32>>(text);
        assert_eq!(read(r#"{"a": 2}"#).unwrap()["a"], 2);
        let error = read(r#"{"a": 1, "a": 2}"#).unwrap_err().to_string();
        assert!(error.contains("\"a\" stands there twice"), "{error}");
    }

    /// A name must not reach the disk before what it stands for.
    #[test]
    fn what_is_renamed_was_flushed_before() {
        let folder = tempfile::tempdir().unwrap();
        let (path, previous) = (folder.path().join("a"), folder.path().join("b"));
        let watch = Watch::new(folder.path(), Fault::None);
        write_atomically(&path, b"1").unwrap();
        let once = ["create a.tmp", "write a.tmp", "flush a.tmp", "rename a"];
        assert_eq!(watch.happened(), once);
        write_keeping(&path, &previous, b"2").unwrap();
        let again = [
            "create a.tmp",
            "write a.tmp",
            "flush a.tmp",
            "rename b",
            "rename a",
        ];
        assert_eq!(watch.happened()[4..], again);
    }

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
    #[cfg(unix)]
    fn a_folder_from_someone_else_cannot_overwrite_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("victim"), "precious").unwrap();
        let link = |name: &str| std::os::unix::fs::symlink(at("victim"), at(name)).unwrap();
        link("lock");
        let message = open_lock(&at("lock")).unwrap_err().to_string();
        assert!(
            message.ends_with("is not a plain file; remove it"),
            "{message}"
        );
        link(&format!("a.{}-0.tmp", std::process::id()));
        link("a");
        write_atomically(&at("a"), b"new").unwrap();
        assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
        assert_eq!(fs::read(at("a")).unwrap(), b"new");
        assert!(!fs::symlink_metadata(at("a")).unwrap().is_symlink());
        // only what is temporary is removed, and of a link the link
        remove_temporaries(folder.path()).unwrap();
        assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        // nor can a second name of a file
        fs::remove_file(at("lock")).unwrap();
        fs::hard_link(at("victim"), at("lock")).unwrap();
        let message = open_lock(&at("lock")).unwrap_err().to_string();
        assert!(message.ends_with("is not a plain file; remove it"));
        // nor a folder that is elsewhere
        fs::create_dir(at("elsewhere")).unwrap();
        std::os::unix::fs::symlink(at("elsewhere"), at("predictions")).unwrap();
        for (file, refused) in [
            ("predictions/a/x.npy", true),
            ("elsewhere/a/x.npy", false),
            ("x.npy", false),
        ] {
            let checked = check_folders(folder.path(), &at(file));
            assert_eq!(checked.is_err(), refused, "{file}");
        }
        // a lock keeps what it holds
        fs::remove_file(at("lock")).unwrap();
        fs::write(at("lock"), "x").unwrap();
        drop(open_lock(&at("lock")).unwrap());
        assert_eq!(fs::read(at("lock")).unwrap(), b"x");
    }

    /// A pipe has nobody who writes, a device no end.
    #[test]
    #[cfg(unix)]
    fn pipes_and_devices_in_the_place_of_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (pipe, zero) = (folder.path().join("pipe"), folder.path().join("zero"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
        for path in [pipe, zero] {
            for refused in [
                read(&path).map(drop),
                read_text(&path).map(drop),
                check_plain(&path),
            ] {
                let message = refused.unwrap_err().with_causes();
                assert!(message.ends_with("is no plain file"), "{message}");
            }
        }
    }

    #[test]
    fn what_was_there_before_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (path, previous) = (folder.path().join("a"), folder.path().join("b"));
        for (bytes, before) in [(b"1", None), (b"2", Some(b"1")), (b"3", Some(b"2"))] {
            write_keeping(&path, &previous, bytes).unwrap();
            assert_eq!(fs::read(&path).unwrap(), bytes);
            assert_eq!(fs::read(&previous).ok().as_deref(), before.map(|b| &b[..]));
        }
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
