//! What changes files and folders: the operations of the system, one function each, so that tests
//! can list them and let each of them fail.
//!
//! Downloads and everything in the folders of runs are written by these. The list and the faults
//! are there for tests of this crate, and of others with the feature `faults`; otherwise the
//! functions are those of the standard library. Nothing in the environment reaches them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// Opens a plain file to be read. A pipe would be waited for without end and a device read until
/// memory ends, so that both are refused, and links to them.
///
/// # Errors
/// As the system says, and for what is no plain file.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    // of a folder the system says it itself
    if kind.is_file() || kind.is_dir() {
        return File::open(path);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "is no plain file",
    ))
}

/// The content of a plain file, see [`open_plain`].
///
/// # Errors
/// As [`open_plain`].
pub fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A new file; one that is there is an error, whatever it is.
///
/// # Errors
/// As the system says.
pub fn create(path: &Path) -> io::Result<File> {
    before("create", path)?;
    File::create_new(path)
}

/// Opens a file to be written, as the options say.
///
/// # Errors
/// As the system says.
pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    before("open", path)?;
    options.open(path)
}

/// Writes all bytes at the place where the file is.
///
/// # Errors
/// As the system says; some of them may have been written.
pub fn write(mut file: &File, path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Err(error) = before("write", path) {
        // as a full disk does it
        let _ = file.write_all(&bytes[..bytes.len() / 2]);
        return Err(error);
    }
    file.write_all(bytes)
}

/// Cuts a file at a length.
///
/// # Errors
/// As the system says.
pub fn cut(file: &File, path: &Path, length: u64) -> io::Result<()> {
    before("cut", path)?;
    file.set_len(length)
}

/// Puts what was written onto the disk.
///
/// # Errors
/// As the system says.
pub fn flush(file: &File, path: &Path) -> io::Result<()> {
    before("flush", path)?;
    file.sync_data()
}

/// Gives a file another name, in the place of the file that has it.
///
/// # Errors
/// As the system says.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    before("rename", to)?;
    fs::rename(from, to)
}

/// Removes a file.
///
/// # Errors
/// As the system says.
pub fn remove(path: &Path) -> io::Result<()> {
    before("remove", path)?;
    fs::remove_file(path)
}

/// Removes a folder with all that is in it.
///
/// # Errors
/// As the system says.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    before("remove", path)?;
    fs::remove_dir_all(path)
}

/// Makes a folder and what leads to it, as far as they are not there.
///
/// # Errors
/// As the system says.
pub fn create_folder(path: &Path) -> io::Result<()> {
    before("mkdir", path)?;
    fs::create_dir_all(path)
}

#[cfg(not(any(test, feature = "faults")))]
#[expect(clippy::unnecessary_wraps, reason = "in tests it fails")]
fn before(_: &str, _: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(any(test, feature = "faults"))]
use faults::before;

#[cfg(any(test, feature = "faults"))]
pub mod faults {
    //! Operations that are listed, and that fail.

    use std::io;
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// What is to happen.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Fault {
        /// Everything works.
        None,
        /// The disk is full at this operation, counted from 0, and not later.
        Full(usize),
        /// The process ends before this operation: it and all after it do nothing. Of a write the
        /// first half is done.
        Killed(usize),
    }

    #[derive(Debug)]
    struct Plan {
        folder: PathBuf,
        fault: Fault,
        happened: Vec<String>,
    }

    static PLANS: Mutex<Vec<Plan>> = Mutex::new(Vec::new());

    fn plans() -> MutexGuard<'static, Vec<Plan>> {
        PLANS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations below a folder, of all threads, until it is dropped.
    #[derive(Debug)]
    pub struct Watch(PathBuf);

    impl Watch {
        /// Lists what happens below a folder, and lets it fail.
        pub fn new(folder: &Path, fault: Fault) -> Self {
            plans().push(Plan {
                folder: folder.into(),
                fault,
                happened: Vec::new(),
            });
            Self(folder.into())
        }

        /// What happened so far or was tried: `rename record.json`. Temporary names end in `.tmp`
        /// without the number of the process.
        pub fn happened(&self) -> Vec<String> {
            let plans = plans();
            let plan = plans.iter().find(|plan| plan.folder == self.0);
            plan.map_or(Vec::new(), |plan| plan.happened.clone())
        }
    }

    impl Drop for Watch {
        fn drop(&mut self) {
            plans().retain(|plan| plan.folder != self.0);
        }
    }

    pub(super) fn before(what: &str, path: &Path) -> io::Result<()> {
        let mut plans = plans();
        let Some(plan) = plans.iter_mut().find(|plan| path.starts_with(&plan.folder)) else {
            return Ok(());
        };
        let place = path.strip_prefix(&plan.folder).unwrap_or(path);
        let number = plan.happened.len();
        plan.happened.push(format!("{what} {}", name(place)));
        match plan.fault {
            Fault::Full(at) if at == number => Err(io::ErrorKind::StorageFull.into()),
            Fault::Killed(at) if at <= number => Err(io::Error::other("killed by a test")),
            _ => Ok(()),
        }
    }

    /// The path without the number of a process.
    fn name(path: &Path) -> String {
        let name = path.display().to_string();
        let Some(stem) = name.strip_suffix(".tmp") else {
            return name;
        };
        let end = stem.rfind('.').unwrap_or(stem.len());
        format!("{}.tmp", &stem[..end])
    }
}
