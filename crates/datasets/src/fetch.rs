//! Downloads: resumed where they broke off, checked against the manifest, put in place by renaming.
//!
//! A file grows under the name `NAME.part` beside its target. When it has as many bytes as the
//! manifest says, its SHA-256 decides: it is renamed, or removed. A broken connection is taken up
//! again with a `Range` request; a server that does not know these starts over. A file that is
//! already there is fetched again only if it is not the official one. The next address is tried
//! when one does not have the file or serves other bytes. Archives are unpacked, each file written
//! under a temporary name and renamed, and then removed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use ureq::http::Uri;

use crate::check::{self, Verified};
use crate::digest::Hashing;
use crate::disk;
use crate::error::{Error, Malformed, Result};
use crate::formats::{tar, zip};
use crate::library::Part;
use crate::manifest::{self, Download, Entry, Target};
use crate::official;

/// What a download reports while it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A file is about to be fetched from an address; some of it may be here already.
    Start {
        /// The address.
        address: &'a str,
        /// Bytes that are here.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// More of it is here.
    Advance {
        /// Bytes that are here.
        done: u64,
        /// Bytes in all.
        total: u64,
    },
    /// Something went wrong and is tried again, here or elsewhere.
    Retry {
        /// What went wrong.
        problem: &'a str,
    },
    /// A file was already in place.
    Present {
        /// The file.
        path: &'a Path,
    },
    /// An archive is being unpacked.
    Unpack {
        /// Files so far.
        files: usize,
    },
    /// A file is in place, or an archive is unpacked.
    Done {
        /// The file or folder.
        path: &'a Path,
    },
}

/// Redirects that are followed.
const REDIRECTS: usize = 5;
/// Bytes per second below which a server is left.
const SLOWEST: f64 = 1000.0;

/// Fetches datasets of the manifest into a folder.
///
/// ```no_run
/// use datasets::{Event, Fetcher, cache_folder};
///
/// let root = cache_folder().expect("there is a home folder");
/// Fetcher::new(root).fetch("mnist", None, &mut |event| {
///     if let Event::Done { path } = event {
///         eprintln!("{}", path.display());
///     }
/// })?;
/// # Ok::<(), datasets::Error>(())
/// ```
#[derive(Debug)]
pub struct Fetcher {
    root: PathBuf,
    mirror: Option<String>,
    agent: ureq::Agent,
    /// Attempts in a row that bring nothing before an address is given up.
    attempts: u32,
    /// Pause before the second attempt; it doubles from there.
    pause: Duration,
    /// How long a server may be silent, and how often its pace is looked at.
    patience: Duration,
}

impl Fetcher {
    /// A fetcher that lays datasets out below `root`, each in its official folder. A proxy is taken
    /// from the environment.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self::with(
            root.into(),
            ureq::Proxy::try_from_env(),
            Duration::from_secs(60),
        )
    }

    fn with(root: PathBuf, proxy: Option<ureq::Proxy>, patience: Duration) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(proxy)
            .timeout_connect(Some(patience))
            .timeout_recv_response(Some(patience))
            .timeout_per_read(Some(patience))
            .user_agent(concat!("maxitive/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            root,
            mirror: None,
            agent: config.into(),
            attempts: 5,
            pause: Duration::from_secs(1),
            patience,
        }
    }

    /// The same fetcher, but files come from `BASE/DATASET/FILE` instead of the official addresses.
    /// Sums are checked all the same.
    #[must_use]
    pub fn with_mirror(mut self, base: impl Into<String>) -> Self {
        self.mirror = Some(base.into());
        self
    }

    /// The same fetcher with this pause before a second attempt; it doubles with every further one.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// The folder below which datasets are laid out.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Fetches a dataset, or one part of it where the parts are separate files.
    ///
    /// # Errors
    /// The name is unknown, there is no address for it, no address serves the right bytes, or a
    /// file cannot be written.
    pub fn fetch(
        &self,
        name: &str,
        part: Option<Part>,
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let entry = manifest::find(name).ok_or_else(|| Error::unknown(name))?;
        let wanted = |download: &&Download| {
            part.is_none() || download.part.is_none() || download.part == part
        };
        let downloads: Vec<&Download> = entry.downloads.iter().filter(wanted).collect();
        if downloads.is_empty() {
            let reason = if entry.is_built_in() {
                "it is built in".to_owned()
            } else if entry.downloads.is_empty() {
                format!(
                    "there is no address to fetch it from; see {}",
                    entry.homepage
                )
            } else {
                format!(
                    "there is no address for the {} part",
                    part.map_or("", Part::name)
                )
            };
            return Err(Error::NotFetchable {
                name: name.into(),
                reason,
            });
        }
        for download in downloads {
            self.one(entry, download, report)?;
        }
        Ok(())
    }

    fn one(
        &self,
        entry: &'static Entry,
        download: &Download,
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let addresses: Vec<String> = match &self.mirror {
            Some(base) => {
                let file = file_name(download.addresses[0]);
                vec![format!(
                    "{}/{}/{file}",
                    base.trim_end_matches('/'),
                    entry.name
                )]
            }
            None => download.addresses.iter().map(ToString::to_string).collect(),
        };
        let job = Job {
            addresses,
            bytes: download.bytes,
            sha256: download.sha256.into(),
        };
        let folder = self.root.join(entry.folders[0]);
        match &download.target {
            Target::File(path) => {
                let path = self.root.join(path);
                if files_of(entry, download).any(|file| is_present(&folder, file, Some(&path))) {
                    report(Event::Present { path: &path });
                    return Ok(());
                }
                let part = self.download(&job, &path, report)?;
                disk::rename(&part, &path).map_err(Error::io("rename to", &path))?;
                report(Event::Done { path: &path });
            }
            Target::TarGz(rules) | Target::Zip(rules) => {
                if files_of(entry, download).all(|file| is_present(&folder, file, None)) {
                    report(Event::Present { path: &folder });
                    return Ok(());
                }
                let archive = self.root.join(file_name(download.addresses[0]));
                let part = self.download(&job, &archive, report)?;
                match download.target {
                    Target::Zip(_) => self.unzip(&part, rules, report)?,
                    _ => self.untar(&part, rules, report)?,
                }
                disk::remove(&part).map_err(Error::io("remove", &part))?;
                report(Event::Done { path: &folder });
            }
        }
        Ok(())
    }

    /// Fetches a file to `TARGET.part`, whole and checked.
    fn download(
        &self,
        job: &Job,
        target: &Path,
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<PathBuf> {
        let path = with_suffix(target, ".part");
        if let Some(folder) = path.parent() {
            disk::create_folder(folder).map_err(Error::io("create", folder))?;
        }
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            let problem = "is not a plain file; remove it".to_owned();
            return Err(Error::malformed(&path)(Malformed::new("part", 0, problem)));
        }
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = disk::open(&path, &options).map_err(Error::io("create", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(Error::Busy { path }),
            // a file system without locks; the sum still guards the result
            Err(fs::TryLockError::Error(_)) => {}
        }
        let mut failed = failure("", "there is no address");
        for (place, address) in job.addresses.iter().enumerate() {
            match self.fetch_from(job, address, &mut file, &path, report) {
                Ok(()) => return Ok(path),
                Err(error @ Error::Fetch { .. }) => {
                    if place + 1 < job.addresses.len() {
                        let problem = error.to_string();
                        report(Event::Retry { problem: &problem });
                    }
                    failed = error;
                }
                Err(error) => return Err(error),
            }
        }
        drop(file);
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == 0) {
            // an empty file is no use to the next run; whether it can be removed does not matter
            let _ = disk::remove(&path);
        }
        Err(failed)
    }

    fn fetch_from(
        &self,
        job: &Job,
        address: &str,
        file: &mut File,
        path: &Path,
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let mut done = file.metadata().map_err(Error::io("read", path))?.len();
        if done > job.bytes {
            // not of this file
            done = empty(file, path)?;
        }
        report(Event::Start {
            address,
            done,
            total: job.bytes,
        });
        let mut furthest = done;
        let mut fruitless = 0;
        let mut pause = self.pause;
        while done < job.bytes {
            let problem = match self.request(job, address, file, path, done, report) {
                Ok(()) => None,
                Err(Trouble::Fatal(error)) => return Err(error),
                Err(Trouble::NotThere(problem)) => return Err(failure(address, problem)),
                Err(Trouble::Passing(problem)) => Some(problem),
            };
            done = file.metadata().map_err(Error::io("read", path))?.len();
            if let Some(problem) = problem {
                if done > furthest {
                    (fruitless, pause) = (0, self.pause);
                } else {
                    fruitless += 1;
                }
                furthest = furthest.max(done);
                if fruitless >= self.attempts {
                    let problem = format!(
                        "{problem}; gave up after {fruitless} attempts, run the command again to go on"
                    );
                    return Err(failure(address, problem));
                }
                report(Event::Retry { problem: &problem });
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_secs(30));
            }
        }
        file.seek(SeekFrom::Start(0))
            .map_err(Error::io("read", path))?;
        let sum = Hashing::new(BufReader::with_capacity(1 << 16, &*file), true).finish();
        let found = sum.map_err(Error::io("read", path))?.unwrap_or_default();
        if found != job.sha256 {
            empty(file, path)?;
            let problem = format!(
                "sha256 of what it serves is {found}, expected {}",
                job.sha256
            );
            return Err(failure(address, problem));
        }
        disk::flush(file, path).map_err(Error::io("write", path))
    }

    /// The answer to a request for the bytes from `done` on; redirects within the same host are
    /// followed.
    fn ask(
        &self,
        address: &str,
        done: u64,
    ) -> std::result::Result<ureq::http::Response<ureq::Body>, Trouble> {
        let mut target = address.to_owned();
        for _ in 0..=REDIRECTS {
            let mut request = self.agent.get(&target);
            if done > 0 {
                request = request.header("Range", format!("bytes={done}-"));
            }
            let response = request
                .call()
                .map_err(|error| Trouble::Passing(error.to_string()))?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = response.headers().get("location");
            let location = location.and_then(|value| value.to_str().ok());
            target = redirect(&target, location.unwrap_or_default()).map_err(Trouble::NotThere)?;
        }
        let problem = format!("more than {REDIRECTS} redirects");
        Err(Trouble::NotThere(problem))
    }

    /// One request for what is missing; what arrives is appended.
    fn request(
        &self,
        job: &Job,
        address: &str,
        file: &mut File,
        path: &Path,
        done: u64,
        report: &mut dyn FnMut(Event<'_>),
    ) -> std::result::Result<(), Trouble> {
        let fatal = |action| {
            let path = path.to_owned();
            move |error| Trouble::Fatal(Error::io(action, path)(error))
        };
        let response = self.ask(address, done)?;
        let status = response.status().as_u16();
        let mut at = match status {
            200 => 0,
            206 => {
                let range = response.headers().get("content-range");
                let range = range
                    .and_then(|value| value.to_str().ok())
                    .unwrap_or_default();
                if range_start(range) != Some(done) {
                    empty(file, path).map_err(Trouble::Fatal)?;
                    let problem =
                        format!("asked for bytes from {done}, got \"{range}\"; starting over");
                    return Err(Trouble::Passing(problem));
                }
                done
            }
            416 => {
                empty(file, path).map_err(Trouble::Fatal)?;
                let problem = format!("it has no more than {done} bytes, expected {}", job.bytes);
                return Err(Trouble::Passing(problem));
            }
            408 | 425 | 429 | 500..=599 => {
                return Err(Trouble::Passing(format!("status {status}")));
            }
            _ => return Err(Trouble::NotThere(format!("status {status}"))),
        };
        disk::cut(file, path, at).map_err(fatal("write"))?;
        file.seek(SeekFrom::Start(at)).map_err(fatal("write"))?;
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 1 << 16];
        let mut pace = Pace::new(self.patience, at);
        while at < job.bytes {
            // no more than is missing, however much the server would send
            let wanted = buffer
                .len()
                .min(usize::try_from(job.bytes - at).unwrap_or(usize::MAX));
            let got = match body.read(&mut buffer[..wanted]) {
                Ok(0) => {
                    let problem = format!("the connection ended after {at} of {} bytes", job.bytes);
                    return Err(Trouble::Passing(problem));
                }
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    let problem = format!(
                        "the connection broke after {at} of {} bytes: {error}",
                        job.bytes
                    );
                    return Err(Trouble::Passing(problem));
                }
            };
            disk::write(file, path, &buffer[..got]).map_err(fatal("write"))?;
            at += got as u64;
            pace.check(at).map_err(Trouble::NotThere)?;
            report(Event::Advance {
                done: at,
                total: job.bytes,
            });
        }
        Ok(())
    }

    fn untar(
        &self,
        archive: &Path,
        rules: &[(&str, &str)],
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let file = File::open(archive).map_err(Error::io("read", archive))?;
        let mut unpacked = BTreeSet::new();
        let result = tar::each(
            GzDecoder::new(BufReader::new(file)),
            &mut |member| -> std::result::Result<(), Unpacking> {
                let Some(path) = self.place(member.name, rules, &mut unpacked)? else {
                    return Ok(());
                };
                if member.kind != tar::Kind::File {
                    let problem = format!("{:?} is {}, expected a file", member.name, member.kind);
                    return Err(Malformed::new("member", 0, problem).into());
                }
                write_file(&path, member.content).map_err(Unpacking::Other)?;
                let files = unpacked.len();
                report(Event::Unpack { files });
                Ok(())
            },
        );
        result.map_err(|error| match error {
            Unpacking::Malformed(malformed) => Error::malformed(archive)(malformed),
            Unpacking::Other(error) => error,
        })
    }

    fn unzip(
        &self,
        archive: &Path,
        rules: &[(&str, &str)],
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let file = File::open(archive).map_err(Error::io("read", archive))?;
        let malformed = |error| Error::malformed(archive)(error);
        let mut zip = zip::Archive::new(BufReader::new(file)).map_err(malformed)?;
        let names: Vec<String> = zip.names().map(Into::into).collect();
        let mut unpacked = BTreeSet::new();
        for (index, name) in names.iter().enumerate() {
            if name.ends_with('/') {
                continue;
            }
            let place = self.place(name, rules, &mut unpacked);
            let Some(path) = place.map_err(malformed)? else {
                continue;
            };
            let content = zip.read_at(index).map_err(malformed)?;
            write_file(&path, &mut &content[..])?;
            let files = unpacked.len();
            report(Event::Unpack { files });
        }
        Ok(())
    }

    /// Where a member of an archive goes, if it is wanted; those before it went elsewhere.
    fn place(
        &self,
        name: &str,
        rules: &[(&str, &str)],
        before: &mut BTreeSet<PathBuf>,
    ) -> std::result::Result<Option<PathBuf>, Malformed> {
        let renamed = rules
            .iter()
            .find_map(|(from, to)| Some(format!("{to}{}", name.strip_prefix(from)?)));
        let Some(renamed) = renamed else {
            return Ok(None);
        };
        let path = Path::new(&renamed);
        let inside = path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if !inside {
            let problem = format!("{name:?} leads out of the archive");
            return Err(Malformed::new("name of a member", 0, problem));
        }
        if renamed.contains(char::is_control) {
            let problem = format!("{name:?} has control characters");
            return Err(Malformed::new("name of a member", 0, problem));
        }
        let path = self.root.join(path);
        if !before.insert(path.clone()) {
            let problem = format!("{name:?} is there twice");
            return Err(Malformed::new("name of a member", 0, problem));
        }
        Ok(Some(path))
    }
}

/// A file, and where it may come from.
struct Job {
    addresses: Vec<String>,
    bytes: u64,
    sha256: String,
}

/// Where a redirect leads, if it stays on the host and does not give up encryption.
fn redirect(from: &str, location: &str) -> std::result::Result<String, String> {
    let refuse = || format!("it redirects to \"{location}\", which is another host or no address");
    let from: Uri = from.parse().map_err(|_| refuse())?;
    let parts = (from.scheme_str(), from.authority());
    let (Some(scheme), Some(authority)) = parts else {
        return Err(refuse());
    };
    if location.starts_with('/') && !location.starts_with("//") {
        return Ok(format!("{scheme}://{authority}{location}"));
    }
    let to: Uri = location.parse().map_err(|_| refuse())?;
    let is_as_safe = match to.scheme_str() {
        Some("https") => true,
        Some("http") => scheme == "http",
        _ => false,
    };
    if !is_as_safe || to.host() != from.host() {
        return Err(refuse());
    }
    Ok(location.to_owned())
}

/// Whether a server sends in earnest.
struct Pace {
    patience: Duration,
    since: Instant,
    at: u64,
}

impl Pace {
    fn new(patience: Duration, at: u64) -> Self {
        Self {
            patience,
            since: Instant::now(),
            at,
        }
    }

    fn check(&mut self, at: u64) -> std::result::Result<(), String> {
        let waited = self.since.elapsed();
        if waited < self.patience {
            return Ok(());
        }
        let (came, waited) = ((at - self.at) as f64, waited.as_secs_f64());
        if came < waited * SLOWEST {
            return Err(format!(
                "only {came} bytes came in {waited:.0} s; run the command again to go on"
            ));
        }
        *self = Self::new(self.patience, at);
        Ok(())
    }
}

/// What a request may end in.
enum Trouble {
    /// Trying again may help.
    Passing(String),
    /// This address does not have the file.
    NotThere(String),
    /// Nothing can be written.
    Fatal(Error),
}

enum Unpacking {
    Malformed(Malformed),
    Other(Error),
}

impl From<Malformed> for Unpacking {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

fn failure(address: &str, problem: impl Into<String>) -> Error {
    Error::Fetch {
        address: address.into(),
        problem: problem.into(),
    }
}

/// The first byte of "bytes FIRST-LAST/TOTAL".
fn range_start(range: &str) -> Option<u64> {
    let range = range.trim().strip_prefix("bytes")?.trim_start();
    range.split_once('-')?.0.trim().parse().ok()
}

fn file_name(address: &str) -> &str {
    address.rsplit('/').next().unwrap_or(address)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn empty(file: &mut File, path: &Path) -> Result<u64> {
    disk::cut(file, path, 0).map_err(Error::io("write", path))?;
    Ok(0)
}

/// Writes a file under a temporary name, puts it onto the disk, then renames it. What has the
/// temporary name, of a process that was killed say, is removed, and never written through.
fn write_file(path: &Path, content: &mut dyn Read) -> Result<()> {
    if let Some(folder) = path.parent() {
        disk::create_folder(folder).map_err(Error::io("create", folder))?;
    }
    let part = with_suffix(path, ".part");
    if fs::symlink_metadata(&part).is_ok() {
        disk::remove(&part).map_err(Error::io("remove", &part))?;
    }
    let file = disk::create(&part).map_err(Error::io("create", &part))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let got = match content.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // half a file is of no use
            got => got.map_err(Error::io("write", &part)).inspect_err(|_| {
                let _ = disk::remove(&part);
            })?,
        };
        if got == 0 {
            break;
        }
        disk::write(&file, &part, &buffer[..got]).map_err(Error::io("write", &part))?;
    }
    disk::flush(&file, &part).map_err(Error::io("write", &part))?;
    drop(file);
    disk::rename(&part, path).map_err(Error::io("rename to", path))
}

/// The files of the manifest that a download brings.
fn files_of(
    entry: &'static Entry,
    download: &Download,
) -> impl Iterator<Item = &'static manifest::File> {
    let part = download.part;
    [Part::Train, Part::Test]
        .into_iter()
        .filter(move |&each| part.is_none() || part == Some(each))
        .filter_map(|part| entry.part(part))
        .flat_map(|files| &files.files)
}

/// Whether a file, or the one at `path`, is in place and official, as far as that can be known.
fn is_present(folder: &Path, file: &'static manifest::File, path: Option<&Path>) -> bool {
    let Some(found) = check::locate(folder, file) else {
        return false;
    };
    // gzipped or not, it is the same file
    let plain = |path: &Path| path.with_extension("");
    if path.is_some_and(|path| plain(path) != plain(&found)) {
        return false;
    }
    let verdict = official::verify_file(folder, file);
    verdict.is_ok_and(|verdict| verdict == Verified::Official || !file.is_official_known())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::sha256;
    use crate::disk::faults::{Fault, Watch};
    use crate::image_set::Shape;
    use crate::manifest::Layout;
    use crate::testing::{assert_ends, assert_says, gzip};
    use std::io::{BufRead, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};

    /// A file and two archives, each with the operations that bring it.
    fn downloads() -> [(Vec<u8>, Target, Vec<&'static str>); 3] {
        let begun = [
            "mkdir ",
            "open archive.part",
            "cut archive.part",
            "write archive.part",
            "flush archive.part",
        ];
        let unpacked = [
            "mkdir toy",
            "create toy/readme.part",
            "write toy/readme.part",
            "flush toy/readme.part",
            "rename toy/readme",
            "mkdir toy/inner",
            "create toy/inner/data.bin.part",
            "write toy/inner/data.bin.part",
            "flush toy/inner/data.bin.part",
            "rename toy/inner/data.bin",
            "remove archive.part",
        ];
        let archive = [&begun[..], &unpacked[..]].concat();
        let file = vec![
            "mkdir toy",
            "open toy/file.part",
            "cut toy/file.part",
            "write toy/file.part",
            "flush toy/file.part",
            "rename toy/file",
        ];
        [
            (b"some bytes".to_vec(), Target::File("toy/file"), file),
            (tar_gz(), Target::TarGz(RULES.to_vec()), archive.clone()),
            (
                zip::tests::write(&MEMBERS, true, false),
                Target::Zip(RULES.to_vec()),
                archive,
            ),
        ]
    }

    fn tar_gz() -> Vec<u8> {
        gzip(&tar::write(&MEMBERS))
    }

    /// The disk is full, or the process ends, at every operation of a download: what stands under
    /// its name is whole, and another try brings the rest.
    #[test]
    fn a_download_survives_a_fault_at_every_file_operation() {
        for (bytes, target, operations) in downloads() {
            let entry = entry(&bytes, target);
            let server = serve(bytes.clone(), &[Way::Well]);
            let attempt = |root: &Path, fault: Fault| {
                let watch = Watch::new(root, fault);
                let fetcher = fetcher(root).with_mirror(&server.base);
                let result = fetcher.one(entry, &entry.downloads[0], &mut |_| {});
                let mut happened = watch.happened();
                // the network may bring the bytes in several parts
                happened.dedup();
                (result, happened)
            };
            let content = |root: &Path| -> Vec<(String, Vec<u8>)> {
                let names = files_in(root).into_iter();
                let names = names.filter(|name| !name.ends_with(".part"));
                let read = |name: String| (name.clone(), fs::read(root.join(name)).unwrap());
                names.map(read).collect()
            };
            let whole = tempfile::tempdir().unwrap();
            let (result, happened) = attempt(whole.path(), Fault::None);
            result.unwrap();
            assert_eq!(happened, operations);
            let want = content(whole.path());
            for at in 0..operations.len() {
                for fault in [Fault::Full(at), Fault::Killed(at)] {
                    let folder = tempfile::tempdir().unwrap();
                    let error = attempt(folder.path(), fault).0.unwrap_err();
                    assert!(matches!(error, Error::Io { .. }), "{fault:?}: {error}");
                    let found = content(folder.path());
                    assert!(found.iter().all(|file| want.contains(file)), "{fault:?}");
                    attempt(folder.path(), Fault::None).0.unwrap();
                    assert_eq!(content(folder.path()), want, "{fault:?}");
                }
            }
        }
    }

    /// Beside a download there may be what someone else put there.
    #[test]
    #[cfg(unix)]
    fn a_download_is_not_written_through_a_link() {
        for (bytes, target, _) in downloads() {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::create_dir_all(at("toy/inner")).unwrap();
            fs::write(at("victim"), "precious").unwrap();
            for name in ["toy/file.part", "toy/inner/data.bin.part"] {
                std::os::unix::fs::symlink(at("victim"), at(name)).unwrap();
            }
            let is_file = matches!(target, Target::File(_));
            let entry = entry(&bytes, target);
            let server = serve(bytes.clone(), &[Way::Well]);
            let fetcher = fetcher(folder.path()).with_mirror(&server.base);
            let result = fetcher.one(entry, &entry.downloads[0], &mut |_| {});
            match result {
                Err(error) if is_file => {
                    let error = error.to_string();
                    assert!(error.contains("not a plain file; remove it"), "{error}");
                }
                result => {
                    result.unwrap();
                    assert_eq!(fs::read(at("toy/inner/data.bin")).unwrap(), b"abc");
                }
            }
            assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
        }
    }

    /// How the server treats one request; the last way is kept for all further ones.
    #[derive(Debug, Clone, Copy)]
    enum Way {
        /// As it should, ranges included.
        Well,
        /// The connection is closed after so many bytes of the body.
        Drop(usize),
        /// Ranges are ignored.
        NoRange,
        /// Ranges are ignored, and the connection is closed after so many bytes.
        NoRangeDrop(usize),
        /// The answer to a range begins elsewhere.
        WrongRange,
        /// The announced length is longer than the body by so much.
        TooLong(usize),
        /// The announced length is shorter than the body by so much.
        TooShort(usize),
        /// The file has other bytes.
        OtherBytes,
        /// The file is cut, and the server believes that is all.
        OtherLength(usize),
        /// More bytes than the file has.
        Longer,
        /// An answer without a body.
        Status(u16),
        /// The connection is closed without an answer.
        Silence,
        /// After so many bytes nothing more comes, but the connection stays.
        Stall(usize),
        /// A byte now and then.
        Trickle,
        /// Sends elsewhere on the same host.
        Elsewhere,
        /// Sends to another host.
        OtherHost,
    }

    struct Server {
        base: String,
        /// The path and the range of every request.
        requests: Arc<Mutex<Vec<String>>>,
    }

    fn serve(content: Vec<u8>, ways: &[Way]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let ways = ways.to_vec();
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let way = ways[number.min(ways.len() - 1)];
                let (content, log) = (content.clone(), Arc::clone(&log));
                thread::spawn(move || {
                    // a client that hangs up is no concern of the server
                    let _ = answer(&mut stream.unwrap(), &content, way, &log);
                });
            }
        });
        Server { base, requests }
    }

    /// The path of a request and the first byte it asks for.
    fn request_of(stream: &mut TcpStream) -> io::Result<(String, Option<usize>)> {
        let mut path = String::new();
        let mut range = None;
        for line in BufReader::new(&mut *stream).lines() {
            let line = line?;
            if let Some(rest) = line.strip_prefix("GET ") {
                path = rest.split(' ').next().unwrap_or_default().to_owned();
            }
            if let Some(rest) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                range = rest.trim_end_matches('-').parse::<usize>().ok();
            }
            if line.is_empty() {
                break;
            }
        }
        Ok((path, range))
    }

    fn refuse(stream: &mut TcpStream, status: u16) -> io::Result<()> {
        write!(
            stream,
            "HTTP/1.1 {status} No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    }

    fn answer(
        stream: &mut TcpStream,
        content: &[u8],
        way: Way,
        log: &Mutex<Vec<String>>,
    ) -> io::Result<()> {
        let (path, mut range) = request_of(stream)?;
        log.lock().unwrap().push(format!("{path} {range:?}"));
        let mut content = content.to_vec();
        match way {
            Way::OtherBytes => content[0] ^= 1,
            Way::OtherLength(length) => content.truncate(length),
            Way::Longer => content.extend([1; 1000]),
            _ => {}
        }
        if matches!(way, Way::NoRange | Way::NoRangeDrop(_)) {
            range = None;
        }
        match way {
            Way::Silence => return Ok(()),
            Way::Elsewhere | Way::OtherHost => {
                let port = stream.local_addr()?.port();
                let location = match way {
                    Way::Elsewhere => "/moved/file".to_owned(),
                    _ => format!("http://localhost:{port}/file"),
                };
                return write!(
                    stream,
                    "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                );
            }
            Way::Status(status) => return refuse(stream, status),
            _ => {}
        }
        let total = content.len();
        let start = range.unwrap_or(0);
        if start >= total && range.is_some() {
            return refuse(stream, 416);
        }
        let body = &content[start..];
        let announced = match way {
            Way::TooLong(extra) => body.len() + extra,
            Way::TooShort(less) => body.len().saturating_sub(less).max(1),
            _ => body.len(),
        };
        let head = match range {
            Some(start) => {
                let first = if matches!(way, Way::WrongRange) {
                    start + 1
                } else {
                    start
                };
                format!(
                    "206 Partial\r\nContent-Range: bytes {first}-{}/{total}",
                    total - 1
                )
            }
            None => "200 OK".to_owned(),
        };
        write!(
            stream,
            "HTTP/1.1 {head}\r\nContent-Length: {announced}\r\nConnection: close\r\n\r\n"
        )?;
        let sent = match way {
            Way::Drop(bytes) | Way::NoRangeDrop(bytes) | Way::Stall(bytes) => bytes.min(body.len()),
            _ => body.len(),
        };
        if matches!(way, Way::Trickle) {
            for byte in &body[..200] {
                stream.write_all(&[*byte])?;
                thread::sleep(Duration::from_millis(20));
            }
            return Ok(());
        }
        stream.write_all(&body[..sent])?;
        if matches!(way, Way::Stall(_)) {
            thread::sleep(Duration::from_secs(2));
        }
        Ok(())
    }

    fn content() -> Vec<u8> {
        (0..300_000_u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect()
    }

    fn fetcher(root: &Path) -> Fetcher {
        patient(root, Duration::from_secs(20))
    }

    fn patient(root: &Path, patience: Duration) -> Fetcher {
        Fetcher::with(root.into(), None, patience).with_pause(Duration::ZERO)
    }

    /// Fetches `content` from servers of these ways; the events tell what happened.
    fn run(root: &Path, servers: &[&Server]) -> (Result<PathBuf>, Vec<String>) {
        run_with(&fetcher(root), servers)
    }

    fn run_with(fetcher: &Fetcher, servers: &[&Server]) -> (Result<PathBuf>, Vec<String>) {
        let job = Job {
            addresses: servers
                .iter()
                .map(|server| format!("{}/file", server.base))
                .collect(),
            bytes: content().len() as u64,
            sha256: sha256(&content()),
        };
        let mut retries = Vec::new();
        let target = fetcher.root().join("file");
        let result = fetcher.download(&job, &target, &mut |event| {
            if let Event::Retry { problem } = event {
                retries.push(problem.to_owned());
            }
        });
        (result, retries)
    }

    fn fetched(ways: &[Way]) -> (Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(content(), ways);
        let (result, retries) = run(folder.path(), &[&server]);
        assert_eq!(fs::read(result.unwrap()).unwrap(), content(), "{ways:?}");
        let requests = server.requests.lock().unwrap().clone();
        (requests, retries)
    }

    #[test]
    fn a_file_is_fetched() {
        let (requests, retries) = fetched(&[Way::Well]);
        assert_eq!((requests, retries), (vec!["/file None".to_owned()], vec![]));
    }

    #[test]
    fn a_dropped_connection_is_taken_up_again() {
        let (requests, retries) = fetched(&[Way::Drop(100_000), Way::Drop(50_000), Way::Well]);
        let expected = ["/file None", "/file Some(100000)", "/file Some(150000)"];
        assert_eq!(requests, expected);
        assert_eq!(retries.len(), 2);
        assert!(
            retries[0].contains("after 100000 of 300000 bytes"),
            "{retries:?}"
        );
    }

    #[test]
    fn silence_and_busy_servers_are_asked_again() {
        let (requests, _) = fetched(&[Way::Silence, Way::Status(503), Way::Status(429), Way::Well]);
        assert_eq!(requests.len(), 4);
    }

    #[test]
    fn a_server_that_falls_asleep_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(content(), &[Way::Stall(100_000), Way::Well]);
        let fetcher = patient(folder.path(), Duration::from_millis(500));
        let (result, _) = run_with(&fetcher, &[&server]);
        assert_eq!(fs::read(result.unwrap()).unwrap(), content());
        let requests = server.requests.lock().unwrap();
        assert!(requests.len() > 1);
        let mut later = requests[1..].iter();
        assert!(later.all(|request| request == "/file Some(100000)"));
    }

    #[test]
    fn a_server_that_sends_a_byte_now_and_then_is_left() {
        let folder = tempfile::tempdir().unwrap();
        // who is patient without end gets the rest at once, and does not wait for hours
        let server = serve(content(), &[Way::Trickle, Way::Well]);
        let fetcher = patient(folder.path(), Duration::from_secs(1));
        let error = run_with(&fetcher, &[&server]).0.unwrap_err().to_string();
        let is_named = error.contains("bytes came in") && error.contains("again");
        assert!(is_named, "{error}");
    }

    #[test]
    fn redirects_stay_on_the_host() {
        let (requests, _) = fetched(&[Way::Elsewhere, Way::Well]);
        assert_eq!(requests, ["/file None", "/moved/file None"]);
        let folder = tempfile::tempdir().unwrap();
        let server = serve(content(), &[Way::OtherHost, Way::Well]);
        let elsewhere = run(folder.path(), &[&server]).0;
        assert_says(elsewhere, "redirects to \"http://localhost:");
        assert_eq!(server.requests.lock().unwrap().len(), 1);
        let server = serve(content(), &[Way::Elsewhere]);
        let circle = run(folder.path(), &[&server]).0;
        assert_says(circle, "more than 5 redirects");
        assert!(redirect("https://a.org/x", "https://a.org/y").is_ok());
        assert!(redirect("http://a.org/x", "https://a.org/y").is_ok());
        for location in [
            "http://a.org/y",
            "https://b.org/y",
            "//b.org/y",
            "ftp://a.org/y",
            "y",
            "",
        ] {
            assert!(redirect("https://a.org/x", location).is_err(), "{location}");
        }
    }

    #[test]
    fn a_server_that_ignores_ranges_starts_over() {
        let (requests, _) = fetched(&[Way::Drop(100_000), Way::NoRangeDrop(120_000), Way::NoRange]);
        assert_eq!(requests.len(), 3);
    }

    #[test]
    fn a_wrong_range_starts_over() {
        let (requests, retries) = fetched(&[Way::Drop(100_000), Way::WrongRange, Way::Well]);
        assert_eq!(requests[2], "/file None");
        assert!(
            retries[1].contains("asked for bytes from 100000"),
            "{retries:?}"
        );
    }

    #[test]
    fn a_lie_about_the_length_does_no_harm() {
        let (requests, _) = fetched(&[Way::TooLong(5_000)]);
        assert_eq!(requests.len(), 1);
        let (requests, _) = fetched(&[Way::TooShort(5_000), Way::Well]);
        assert_eq!(requests[1], "/file Some(295000)");
        let (requests, _) = fetched(&[Way::Longer]);
        assert_eq!(requests.len(), 1);
    }

    #[test]
    fn wrong_bytes_are_refused_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(content(), &[Way::OtherBytes]);
        let (result, _) = run(folder.path(), &[&server]);
        assert_says(result, &format!("expected {}", sha256(&content())));
        assert_eq!(files_in(folder.path()), [""; 0]);
    }

    #[test]
    fn a_file_that_is_too_short_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let server = serve(content(), &[Way::OtherLength(1_000)]);
        let (result, _) = run(folder.path(), &[&server]);
        assert_says(result, "gave up after 5 attempts");
    }

    #[test]
    fn the_next_address_helps_out() {
        let folder = tempfile::tempdir().unwrap();
        for first in [Way::Status(404), Way::OtherBytes] {
            let servers = [serve(content(), &[first]), serve(content(), &[Way::Well])];
            let (result, retries) = run(folder.path(), &[&servers[0], &servers[1]]);
            assert_eq!(fs::read(result.unwrap()).unwrap(), content());
            assert_eq!(retries.len(), 1, "{retries:?}");
            fs::remove_file(folder.path().join("file.part")).unwrap();
        }
        let server = serve(content(), &[Way::Status(404)]);
        assert_ends(run(folder.path(), &[&server]).0, "/file: status 404");
        assert_eq!(server.requests.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_later_run_goes_on_where_the_first_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file.part"), &content()[..123_456]).unwrap();
        let server = serve(content(), &[Way::Well]);
        let (result, _) = run(folder.path(), &[&server]);
        assert_eq!(fs::read(result.unwrap()).unwrap(), content());
        assert_eq!(*server.requests.lock().unwrap(), ["/file Some(123456)"]);
        // a whole one needs no request, one of another file is thrown away
        let quiet = serve(content(), &[Way::Silence]);
        run(folder.path(), &[&quiet]).0.unwrap();
        assert!(quiet.requests.lock().unwrap().is_empty());
        fs::write(folder.path().join("file.part"), vec![9; 400_000]).unwrap();
        let (result, _) = run(folder.path(), &[&server]);
        assert_eq!(fs::read(result.unwrap()).unwrap(), content());
    }

    #[test]
    fn two_at_once_are_kept_apart() {
        let folder = tempfile::tempdir().unwrap();
        let held = File::create(folder.path().join("file.part")).unwrap();
        held.lock().unwrap();
        let server = serve(content(), &[Way::Well]);
        let error = run(folder.path(), &[&server]).0.unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error}");
    }

    /// An entry with one download of these bytes.
    fn entry(bytes: &[u8], target: Target) -> &'static Entry {
        let files = vec![manifest::File {
            path: "inner/data.bin",
            known: vec![],
        }];
        let sha256: &'static str = sha256(bytes).leak();
        let download = Download {
            addresses: vec!["http://127.0.0.1:1/archive"],
            bytes: bytes.len() as u64,
            sha256,
            part: None,
            target,
        };
        Box::leak(Box::new(Entry {
            name: "toy",
            title: "",
            homepage: "",
            license: "",
            citation: "",
            shape: Shape::new(1, 1, 1),
            classes: 1,
            class_names: vec![],
            mean: vec![0.0],
            std: vec![1.0],
            constants_from: "",
            folders: vec!["toy"],
            mistaken: vec![],
            layout: Layout::Cifar { label_bytes: 1 },
            train: None,
            test: Some(manifest::Files { images: 1, files }),
            debian_package: None,
            downloads: vec![download],
        }))
    }

    fn unpacked(archive: Vec<u8>, target: Target) -> (Result<()>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let entry = entry(&archive, target);
        let server = serve(archive, &[Way::Well]);
        let fetcher = fetcher(folder.path()).with_mirror(&server.base);
        let result = fetcher.one(entry, &entry.downloads[0], &mut |_| {});
        if result.is_ok() {
            assert_eq!(*server.requests.lock().unwrap(), ["/toy/archive None"]);
            // a second time nothing is left to be done
            let mut events = Vec::new();
            let again = fetcher.one(entry, &entry.downloads[0], &mut |event| {
                events.push(matches!(event, Event::Present { .. }));
            });
            again.unwrap();
            assert_eq!(events, [true]);
            assert_eq!(server.requests.lock().unwrap().len(), 1);
        }
        (result, folder)
    }

    fn files_in(folder: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let inner = files_in(&path);
                let name = path.file_name().unwrap().to_string_lossy();
                names.extend(inner.iter().map(|file| format!("{name}/{file}")));
            } else {
                names.push(path.file_name().unwrap().to_string_lossy().into_owned());
            }
        }
        names.sort();
        names
    }

    const MEMBERS: [(&str, &[u8]); 4] = [
        ("top/", b""),
        ("top/readme", b"r"),
        ("top/inner/data.bin", b"abc"),
        ("other/junk", b"j"),
    ];
    const RULES: [(&str, &str); 1] = [("top/", "toy/")];

    #[test]
    fn archives_are_unpacked_to_the_official_layout() {
        let tar_gz = tar_gz();
        let zip = zip::tests::write(&MEMBERS, true, false);
        for (archive, target) in [
            (tar_gz, Target::TarGz(RULES.to_vec())),
            (zip, Target::Zip(RULES.to_vec())),
        ] {
            let (result, folder) = unpacked(archive, target);
            result.unwrap();
            let files = files_in(folder.path());
            assert_eq!(files, ["toy/inner/data.bin", "toy/readme"]);
            let data = folder.path().join("toy/inner/data.bin");
            assert_eq!(fs::read(data).unwrap(), b"abc");
        }
    }

    #[test]
    fn a_member_cannot_leave_the_folder() {
        let rules = vec![("top/", "toy/"), ("/", "/"), ("../", "../")];
        for name in ["top/../../evil", "../evil", "/tmp/evil", "top/./../../evil"] {
            let zip = zip::tests::write(&[(name, b"x")], false, false);
            let tar = gzip(&tar::write(&[(name, b"x")]));
            for (archive, target) in [
                (zip, Target::Zip(rules.clone())),
                (tar, Target::TarGz(rules.clone())),
            ] {
                let (result, folder) = unpacked(archive, target);
                let error = result.unwrap_err().to_string();
                let told = format!("{name:?} leads out of the archive");
                assert!(error.contains(&told), "{error}");
                assert!(error.contains("archive.part"), "{error}");
                assert_eq!(files_in(folder.path()), ["archive.part"]);
            }
        }
    }

    /// An archive with the right sum is trusted no more than one without.
    #[test]
    fn hostile_members_of_archives_are_refused() {
        let file = |name: &str, content: &[u8]| {
            tar::member(name.as_bytes(), b'0', content.len() as u64, content)
        };
        let of = |kind: u8| tar::member(b"top/readme", kind, 0, b"");
        let cases = [
            (of(b'1'), r#""top/readme" is a hard link, expected a file"#),
            (of(b'2'), r#""top/readme" is a symbolic link, expected"#),
            (of(b'3'), r#""top/readme" is a device or a pipe, expected"#),
            (of(b'6'), r#""top/readme" is a device or a pipe, expected"#),
            (
                of(b'S'),
                r#""top/readme" is a sparse file, expected a file"#,
            ),
            (
                [file("top/a", b"1"), file("top/a", b"2")].concat(),
                r#""top/a" is there twice"#,
            ),
            (
                [file("top/a", b"1"), file("top//./a", b"2")].concat(),
                r#""top//./a" is there twice"#,
            ),
            (file("top/\u{1b}[2J", b""), r"has control characters"),
            (
                tar::member(b"top/\xff", b'0', 0, b""),
                r#""top/\xff", expected UTF-8"#,
            ),
            (
                tar::member(b"top/a", b'0', 1 << 32, b"few"),
                "4294967296 bytes announced, the archive ends before",
            ),
            (
                file("top/a", b"cut off")[..515].to_vec(),
                "7 bytes announced",
            ),
            // a folder in the place of a file, and the other way around
            (
                [file("top/a/b", b"1"), file("top/a", b"2")].concat(),
                "rename to",
            ),
            (
                [file("top/a", b"1"), file("top/a/b", b"2")].concat(),
                "create",
            ),
        ];
        for (archive, told) in cases {
            let (result, folder) = unpacked(gzip(&archive), Target::TarGz(RULES.to_vec()));
            let error = result.unwrap_err().to_string();
            assert!(error.contains(told), "{told}: {error}");
            let path = folder.path().display().to_string();
            assert!(error.contains(&path), "{error}");
            // nothing that is not whole stands under its name
            let whole = |name: &String| !name.ends_with(".part");
            let left: Vec<String> = files_in(folder.path()).into_iter().filter(whole).collect();
            let allowed = [vec![], vec!["toy/a".to_owned()], vec!["toy/a/b".to_owned()]];
            assert!(allowed.contains(&left), "{told}: {left:?}");
            if told.contains("announced") {
                assert_eq!(files_in(folder.path()), ["archive.part"]);
            }
        }
    }

    #[test]
    fn what_cannot_be_fetched_says_why() {
        let fetcher = fetcher(Path::new("nowhere"));
        let message = |name, part| {
            let error = fetcher.fetch(name, part, &mut |_| {}).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            message("letters", None),
            "letters cannot be fetched: it is built in"
        );
        assert!(message("sse-letters", None).contains("there is no address to fetch it from"));
        assert!(message("notmnist", Some(Part::Train)).contains("no address for the train part"));
        assert!(message("nothing", None).starts_with("unknown dataset \"nothing\""));
    }

    #[test]
    fn the_start_of_a_range_is_read() {
        assert_eq!(range_start("bytes 100-299/300"), Some(100));
        assert_eq!(range_start("bytes */300"), None);
        assert_eq!(range_start(""), None);
    }
}
