//! Who is at work in a folder: one process at a time, on one machine or on several that share the
//! folder.
//!
//! The file `lock` is locked as the system has it, which ends with the process, and says who holds
//! it: machine, process, job. A lock that is held somewhere else is *taken*. Where a machine was
//! killed, or where locks do not reach other machines (NFS mounted with `nolock` or `local_lock`,
//! Lustre without `flock`), what the file says decides:
//!
//! ```text
//! the same boot of the same machine   the system's lock; without one, whether the process lives
//! the same machine, another boot      nobody: it was restarted
//! another machine                     whether the holder still touches the file, every BEAT
//! ```
//!
//! Without locks of the system two processes that come in the same moment settle it by writing
//! their name and looking again.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use datasets::disk;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files;

/// Name of the file.
const LOCK: &str = "lock";

/// Bytes of it that are read.
const LONGEST: u64 = 1 << 16;

/// Time between two signs of life of a holder.
const BEAT: Duration = Duration::from_secs(5);

/// How long a holder without a name may take.
const MOMENT: Duration = Duration::from_secs(1);

/// A process that holds a folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// Name of its machine.
    pub host: String,
    /// Number of the process.
    pub pid: u32,
    /// Job of a scheduler that it belongs to.
    pub job: Option<String>,
    /// What the system calls the time since it was started; empty where it has no name for it.
    boot: String,
    /// When the process was started, in ticks of the system; 0 where that is not told.
    started: u64,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)?;
        match &self.job {
            Some(job) => write!(f, ", job {job}"),
            None => Ok(()),
        }
    }
}

/// The first line of a file of the system, if it is there.
fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// When a process of this machine was started; none if it does not live.
fn started(pid: u32) -> Option<u64> {
    let stat = line(&format!("/proc/{pid}/stat"))?;
    // the name, which may hold anything, ends with the last parenthesis
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok();
    started.filter(|_| !matches!(state, "Z" | "X"))
}

/// The job of Slurm that this process belongs to; of an array, its number there.
fn job() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let array = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID"));
    let array = array.map(|(job, task)| format!("{job}_{task}"));
    array.or_else(|| variable("SLURM_JOB_ID"))
}

impl Holder {
    /// This process.
    fn here() -> Self {
        let pid = std::process::id();
        let named = || std::env::var("COMPUTERNAME").ok();
        Self {
            host: line("/proc/sys/kernel/hostname")
                .or_else(named)
                .unwrap_or_else(|| "this machine".into()),
            pid,
            job: job(),
            boot: line("/proc/sys/kernel/random/boot_id").unwrap_or_default(),
            started: started(pid).unwrap_or_default(),
        }
    }

    /// What the file says; none if nobody holds it.
    fn read(path: &Path) -> Option<Self> {
        let mut text = String::new();
        // opened again and again, for other machines' writes are seen by whoever opens
        let file = disk::open_plain(path).ok()?;
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        files::from_json(&text).ok()
    }

    /// Whether a holder of this boot lives.
    fn lives(&self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Whether both are of the same boot of one machine.
    fn is_beside(&self, other: &Self) -> bool {
        self.host == other.host && self.boot == other.boot
    }
}

/// What was found out about holders on other machines, and when.
static KNOWN: LazyLock<Mutex<HashMap<Holder, (bool, Instant)>>> = LazyLock::new(Mutex::default);

/// Whether a holder on another machine gives signs of life: waits for the next one. What was found
/// holds for all folders of the same holder.
fn beats(path: &Path, holder: &Holder, beat: Duration) -> bool {
    let patience = beat * 5 / 2;
    let touched = || fs::metadata(path).and_then(|found| found.modified()).ok();
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((lives, when)) = known().get(holder)
        && (!lives || when.elapsed() < patience)
    {
        return *lives;
    }
    let (before, start) = (touched(), Instant::now());
    let lives = loop {
        thread::sleep(beat / 10);
        match Holder::read(path) {
            None => return false,
            Some(found) if found != *holder => return true,
            Some(_) => {}
        }
        if touched() != before {
            break true;
        }
        if start.elapsed() > patience {
            break false;
        }
    };
    known().insert(holder.clone(), (lives, Instant::now()));
    lives
}

/// Who is at work in a folder, as far as the file tells, without touching it. Of another machine a
/// holder counts that gave a sign of life within a minute.
pub(crate) fn holder(directory: &Path) -> Option<Holder> {
    let path = directory.join(LOCK);
    let (holder, here) = (Holder::read(&path)?, Holder::here());
    if holder.is_beside(&here) {
        return (holder.started == 0 || holder.lives()).then_some(holder);
    }
    let touched = fs::metadata(&path).and_then(|found| found.modified()).ok();
    let silent = touched.and_then(|touched| SystemTime::now().duration_since(touched).ok());
    let recent = silent.is_none_or(|silent| silent < Duration::from_secs(60));
    (recent && holder.host != here.host).then_some(holder)
}

/// A folder that this process holds until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
    /// Closed to end the signs of life.
    beating: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Lock {
    /// Takes a folder.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it; the file cannot be made or locked.
    pub fn take(directory: &Path) -> Result<Self> {
        Self::take_as(directory, &Holder::here(), File::try_lock, BEAT)
    }

    fn take_as(
        directory: &Path,
        me: &Holder,
        try_lock: fn(&File) -> std::result::Result<(), TryLockError>,
        beat: Duration,
    ) -> Result<Self> {
        let (file, by_system) = open(directory, try_lock)?;
        let path = directory.join(LOCK);
        let locked = |holder| Error::Locked {
            path: directory.into(),
            holder,
        };
        if let Some(holder) = Holder::read(&path) {
            let at_work = match (holder.is_beside(me), holder.host == me.host) {
                (true, _) => !by_system && holder != *me && holder.lives(),
                (false, true) => false,
                (false, false) => beats(&path, &holder, beat),
            };
            if at_work {
                return Err(locked(Some(Box::new(holder))));
            }
        }
        write(&file, &path, me).map_err(Error::file(&path, "written"))?;
        if !by_system {
            thread::sleep(beat / 10);
            if let Some(other) = Holder::read(&path).filter(|other| other != me) {
                return Err(locked(Some(Box::new(other))));
            }
        }
        let beating = beating(&file, beat).map_err(Error::file(&path, "locked"))?;
        Ok(Self {
            file,
            beating: Some(beating),
        })
    }
}

/// Keeps others out for a moment, while a file is made; nobody is named as the holder.
///
/// # Errors
/// As [`Lock::take`].
pub(crate) fn keep_out(directory: &Path) -> Result<File> {
    Ok(open(directory, File::try_lock)?.0)
}

/// The file of a folder, locked by the system, and whether it does that. Who holds it for a moment
/// and is not named is waited for.
fn open(
    directory: &Path,
    try_lock: fn(&File) -> std::result::Result<(), TryLockError>,
) -> Result<(File, bool)> {
    let path = directory.join(LOCK);
    let file = files::open_lock(&path)?;
    let start = Instant::now();
    loop {
        match try_lock(&file) {
            Ok(()) => return Ok((file, true)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) if has_no_locks(&error) => return Ok((file, false)),
            Err(TryLockError::Error(source)) => return Err(Error::file(&path, "locked")(source)),
        }
        let holder = Holder::read(&path);
        if holder.is_some() || start.elapsed() > MOMENT {
            return Err(Error::Locked {
                path: directory.into(),
                holder: holder.map(Box::new),
            });
        }
        thread::sleep(MOMENT / 100);
    }
}

/// Whether a file system says that it has no locks.
fn has_no_locks(error: &io::Error) -> bool {
    // "no locks available" is what NFS says without its lock service
    const ENOLCK: i32 = 37;
    error.kind() == io::ErrorKind::Unsupported
        || cfg!(target_os = "linux") && error.raw_os_error() == Some(ENOLCK)
}

/// Writes down who holds the file, for other machines to see.
fn write(mut file: &File, path: &Path, holder: &Holder) -> io::Result<()> {
    let text = serde_json::to_string(holder)?;
    disk::cut(file, path, 0)?;
    file.seek(SeekFrom::Start(0))?;
    disk::write(file, path, text.as_bytes())?;
    disk::flush(file, path)
}

/// Touches the file now and then until the sender is dropped.
fn beating(file: &File, beat: Duration) -> io::Result<(Sender<()>, JoinHandle<()>)> {
    let (sender, receiver) = mpsc::channel();
    let file = file.try_clone()?;
    let work = move || {
        while receiver.recv_timeout(beat) == Err(RecvTimeoutError::Timeout) {
            // a beat that fails is one that others do not see
            let _ = file.set_modified(SystemTime::now());
        }
    };
    let thread = thread::Builder::new().name("lock".into()).spawn(work)?;
    Ok((sender, thread))
}

impl Drop for Lock {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.beating.take() {
            drop(sender);
            // it holds the file open, and with it the lock
            let _ = thread.join();
        }
        // what stays is told from a holder at work by those who come
        let _ = self.file.set_len(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(400);

    fn unsupported(_: &File) -> std::result::Result<(), TryLockError> {
        Err(TryLockError::Error(io::ErrorKind::Unsupported.into()))
    }

    /// As on a mount whose locks do not reach other machines.
    fn granted(_: &File) -> std::result::Result<(), TryLockError> {
        Ok(())
    }

    fn there(host: &str, pid: u32) -> Holder {
        Holder {
            host: host.into(),
            pid,
            boot: format!("boot of {host}"),
            ..Holder::here()
        }
    }

    fn left_by(holder: &Holder) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let text = serde_json::to_string(holder).unwrap();
        fs::write(folder.path().join(LOCK), text).unwrap();
        folder
    }

    fn locked_by(result: Result<Lock>) -> Option<Holder> {
        match result {
            Err(Error::Locked { holder, .. }) => holder.map(|holder| *holder),
            Err(error) => panic!("{error}"),
            Ok(_) => None,
        }
    }

    #[test]
    fn a_folder_has_one_holder_and_says_who() {
        let folder = tempfile::tempdir().unwrap();
        let held = Lock::take(folder.path()).unwrap();
        assert_eq!(holder(folder.path()), Some(Holder::here()));
        let other = Lock::take(folder.path());
        let message = other.as_ref().unwrap_err().to_string();
        assert_eq!(locked_by(other), Some(Holder::here()));
        let words = format!("process {} on ", std::process::id());
        assert!(message.contains(&words), "{message}");
        drop(held);
        assert_eq!(holder(folder.path()), None);
        drop(Lock::take(folder.path()).unwrap());
    }

    /// A process that was killed leaves its name; so does a machine that was restarted.
    #[test]
    fn what_a_killed_holder_left_is_taken_over_at_once() {
        let here = Holder::here();
        let dead = Holder {
            pid: u32::MAX,
            ..here.clone()
        };
        let reused = Holder {
            started: here.started + 1,
            ..here.clone()
        };
        let before = Holder {
            boot: "another".into(),
            ..here.clone()
        };
        for left in [dead, reused, before] {
            for lock in [granted, unsupported] {
                let folder = left_by(&left);
                assert_eq!(holder(folder.path()), None, "{left:?}");
                let start = Instant::now();
                let taken = Lock::take_as(folder.path(), &here, lock, QUICK);
                assert_eq!(locked_by(taken), None, "{left:?}");
                assert!(start.elapsed() < QUICK, "{left:?}");
            }
        }
        // without locks of the system a process that lives is believed
        let folder = left_by(&here);
        let me = Holder {
            pid: u32::MAX - 1,
            ..here.clone()
        };
        let taken = Lock::take_as(folder.path(), &me, unsupported, QUICK);
        assert_eq!(locked_by(taken), Some(here));
    }

    #[test]
    fn of_another_machine_only_a_holder_that_beats_is_at_work() {
        let (near, far) = (there("near", 1), there("far", 2));
        for lock in [granted, unsupported] {
            let folder = tempfile::tempdir().unwrap();
            let held = Lock::take_as(folder.path(), &far, lock, QUICK).unwrap();
            let other = Lock::take_as(folder.path(), &near, lock, QUICK);
            assert_eq!(locked_by(other), Some(far.clone()));
            drop(held);
            assert_eq!(
                locked_by(Lock::take_as(folder.path(), &near, lock, QUICK)),
                None
            );
        }
        // killed: nothing moves, which is found out once for all its folders
        let gone = there("far", 3);
        let folders = [left_by(&gone), left_by(&gone), left_by(&gone)];
        assert_eq!(holder(folders[0].path()), Some(gone));
        let start = Instant::now();
        for folder in &folders {
            let taken = Lock::take_as(folder.path(), &near, granted, QUICK);
            assert_eq!(locked_by(taken), None);
        }
        let waited = start.elapsed();
        assert!(waited > 2 * QUICK && waited < 6 * QUICK, "{waited:?}");
    }
}
