//! Where datasets are looked for, and the cache of those already decoded.
//!
//! Roots, in this order: the folder given on the command line, the one named by `MAXITIVE_DATA`,
//! the cache folder of the user, the system's packages (Debian's `dataset-fashion-mnist`). Under a
//! root a dataset lies in the folder of its official archive; a root may also be that folder
//! itself.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;

use crate::check;
use crate::error::{Error, Result};
use crate::form::Form;
use crate::image_set::ImageSet;
use crate::manifest::{self, Entry, Files, Layout};
use crate::{custom, embedded, letters, official};

/// Training or test images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// The images to learn from.
    Train,
    /// The images to judge by.
    Test,
}

impl Part {
    /// "train" or "test".
    pub fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Test => "test",
        }
    }
}

/// Why a folder is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// It was given.
    Given,
    /// The environment variable `MAXITIVE_DATA` names it.
    Environment,
    /// The user's cache, where fetched data go.
    Cache,
    /// The system's packages put data there.
    System,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Given => "--data-dir",
            Self::Environment => "MAXITIVE_DATA",
            Self::Cache => "cache",
            Self::System => "system package",
        })
    }
}

/// A folder that is searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// The folder.
    pub path: PathBuf,
    /// Why it is searched.
    pub origin: Origin,
}

/// The name of the environment variable that names a data folder.
pub const ENVIRONMENT: &str = "MAXITIVE_DATA";

/// Where Debian's package `dataset-fashion-mnist` puts its files.
const SYSTEM: &str = "/usr/share/datasets";

/// Where a part of a dataset was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// In the program itself.
    BuiltIn,
    /// In a folder.
    Folder {
        /// The folder that holds the files.
        path: PathBuf,
        /// Why it was searched.
        origin: Origin,
        /// Size of the files of the part.
        bytes: u64,
    },
}

/// Finds, checks, decodes and keeps datasets. Each is decoded once, whoever asks for it.
///
/// ```
/// use datasets::{Library, Part};
///
/// let library = Library::new(None);
/// let train = library.load("fashion-mnist-mini", Part::Train)?;
/// assert_eq!(train.len(), 6_000);
/// assert_eq!(train.class_names().map(|names| &names[1][..]), Some("Trouser"));
/// # Ok::<(), datasets::Error>(())
/// ```
#[derive(Debug)]
pub struct Library {
    roots: Vec<Root>,
    verify: bool,
    cache: Mutex<HashMap<(String, Part, Form), Arc<ImageSet>>>,
}

impl Library {
    /// A library that searches `data_dir` first, then the folders described at the top of this
    /// module.
    pub fn new(data_dir: Option<PathBuf>) -> Self {
        let root = |origin| move |path| Root { path, origin };
        let environment = std::env::var_os(ENVIRONMENT)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        let roots = [
            data_dir.map(root(Origin::Given)),
            environment.map(root(Origin::Environment)),
            cache_folder().map(root(Origin::Cache)),
            Some(root(Origin::System)(SYSTEM.into())),
        ];
        Self::with_roots(roots.into_iter().flatten().collect())
    }

    /// A library that searches these folders only.
    pub fn with_roots(roots: Vec<Root>) -> Self {
        Self {
            roots,
            verify: true,
            cache: Mutex::default(),
        }
    }

    /// The same library, but sums and counts that differ from the manifest are let pass: for data
    /// that were changed on purpose. Whatever breaks the format is refused all the same, and
    /// [`ImageSet::notes`] says what was done.
    #[must_use]
    pub fn unverified(self) -> Self {
        Self {
            verify: false,
            ..self
        }
    }

    /// The folders that are searched, first to last.
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// A part of a dataset, decoded on first use and shared afterwards; others who ask meanwhile
    /// wait for it. The name is one of the [`manifest`], or the path of a custom dataset (a folder
    /// of pictures, an NPZ file), absolute, relative to the working folder or to one of the roots;
    /// one that was moved is found by its last name in a root.
    ///
    /// # Errors
    /// The name is unknown, the files are nowhere to be found (the message says how to get them),
    /// or a file is not what it should be.
    pub fn load(&self, name: &str, part: Part) -> Result<Arc<ImageSet>> {
        self.load_as(name, part, Form::default())
    }

    /// The same with all images in another form; the pictures of a folder may be of different
    /// sizes then.
    ///
    /// # Errors
    /// As [`Library::load`].
    pub fn load_as(&self, name: &str, part: Part, form: Form) -> Result<Arc<ImageSet>> {
        // held while decoding: whoever wants the same set would decode it a second time
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), part, form);
        if let Some(set) = cache.get(&key) {
            return Ok(Arc::clone(set));
        }
        let set = match manifest::find(name) {
            Some(entry) => form.apply(self.read(entry, part)?)?,
            None => custom::read(&self.custom_path(name)?, part, form)?,
        };
        let set = Arc::new(set);
        cache.insert(key, Arc::clone(&set));
        Ok(set)
    }

    fn read(&self, entry: &'static Entry, part: Part) -> Result<ImageSet> {
        let files = part_of(entry, part)?;
        match entry.layout {
            Layout::Embedded => return embedded::read(entry, part),
            Layout::Drawn => {
                let (seed, images) = letters::DEFAULT;
                return letters::letters(seed, images);
            }
            _ => {}
        }
        let (folder, _) = self
            .search(entry, files)
            .ok_or_else(|| self.not_found(entry, files))?;
        official::read(entry, files, &folder, self.verify)
    }

    /// The path of a custom dataset.
    fn custom_path(&self, name: &str) -> Result<PathBuf> {
        let roots = self.roots.iter().map(|root| &root.path);
        let last = Path::new(name).file_name().unwrap_or_default();
        let candidates = std::iter::once(PathBuf::from(name)).chain(roots.flat_map(|root| {
            let archive = root.join(format!("{name}.npz"));
            [root.join(name), archive, root.join(last)]
        }));
        // an empty name would be the working folder
        let found = candidates
            .filter(|_| !name.is_empty())
            .find(|path| path.exists());
        found.ok_or_else(|| Error::unknown(name))
    }

    /// Where a part of a dataset of the manifest is, if it is anywhere.
    ///
    /// # Errors
    /// The manifest does not have the name, or the dataset does not have the part.
    pub fn locate(&self, name: &str, part: Part) -> Result<Option<Location>> {
        let entry = manifest::find(name).ok_or_else(|| Error::unknown(name))?;
        let files = part_of(entry, part)?;
        if entry.is_built_in() {
            return Ok(Some(Location::BuiltIn));
        }
        let found = self.search(entry, files);
        Ok(found.map(|(path, origin)| {
            let sizes = files
                .files
                .iter()
                .filter_map(|file| check::size(&path, file));
            let bytes = sizes.sum();
            Location::Folder {
                path,
                origin,
                bytes,
            }
        }))
    }

    fn search(&self, entry: &Entry, files: &Files) -> Option<(PathBuf, Origin)> {
        for root in &self.roots {
            let found = folders(&root.path, entry).find(|folder| {
                let mut files = files.files.iter();
                files.all(|file| check::locate(folder, file).is_some())
            });
            if let Some(folder) = found {
                return Some((folder, root.origin));
            }
        }
        None
    }

    fn not_found(&self, entry: &Entry, files: &Files) -> Error {
        let mut advice = String::from("looked in");
        for Root { path, origin } in &self.roots {
            advice += &format!("\n  {} ({origin})", path.join(entry.folders[0]).display());
            for folder in folders(path, entry) {
                let missing = files
                    .files
                    .iter()
                    .filter(|file| check::locate(&folder, file).is_none());
                let missing: Vec<&str> = missing.map(|file| file.path).collect();
                if folder.is_dir() && !missing.is_empty() {
                    let missing = missing.join(", ");
                    advice += &format!("\n    {} lacks {missing}", folder.display());
                }
            }
            for (folder, what) in &entry.mistaken {
                if path.join(folder).exists() {
                    advice += &format!("\n    {folder} is {what}");
                }
            }
        }
        advice += "\nto get it, one of";
        if !entry.downloads.is_empty() {
            let bytes: u64 = entry.downloads.iter().map(|download| download.bytes).sum();
            let megabytes = bytes.div_ceil(1_000_000);
            advice += &format!("\n  maxitive data fetch {}  ({megabytes} MB)", entry.name);
        }
        if let Some(package) = entry.debian_package {
            advice += &format!("\n  apt-get install {package}  (Debian, Ubuntu)");
        }
        let names: Vec<&str> = files.files.iter().map(|file| file.path).collect();
        advice += &format!(
            "\n  put {} into FOLDER/{} and say --data-dir FOLDER or {ENVIRONMENT}=FOLDER  (from {})",
            names.join(", "),
            entry.folders[0],
            entry.homepage,
        );
        advice += "\nor use fashion-mnist-mini and letters, which are built in";
        Error::NotFound {
            name: entry.name.into(),
            advice,
        }
    }
}

fn part_of(entry: &'static Entry, part: Part) -> Result<&'static Files> {
    entry.part(part).ok_or_else(|| Error::NoSuchPart {
        name: entry.name.into(),
        part: part.name(),
        reason: "only the other part is supported".into(),
    })
}

/// The folders under a root in which a dataset may lie; the root itself if it has the dataset's
/// name.
pub(crate) fn folders<'a>(root: &'a Path, entry: &'a Entry) -> impl Iterator<Item = PathBuf> + 'a {
    let below = entry.folders.iter().map(|folder| root.join(folder));
    let itself = entry.folders.iter().any(|folder| root.ends_with(folder));
    below.chain(itself.then(|| root.to_owned()))
}

/// The folder for fetched data: `maxitive` in the user's cache.
pub fn cache_folder() -> Option<PathBuf> {
    let variable = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let base = if cfg!(windows) {
        variable("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        variable("HOME").map(|home| home.join("Library/Caches"))
    } else {
        variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")))
    };
    base.map(|base| base.join("maxitive"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::ENTRIES;
    use crate::testing::library;

    #[test]
    fn a_set_is_decoded_once() {
        let library = Library::with_roots(Vec::new());
        let first = library.load("letters", Part::Test).unwrap();
        let again = library.load("letters", Part::Test).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(first.len(), 2_600);
        let train = library.load("letters", Part::Train).unwrap_err();
        let problem = "letters has no train part: only the other part is supported";
        assert_eq!(train.to_string(), problem);
    }

    #[test]
    fn what_is_missing_is_explained() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("cifar-10-batches-py")).unwrap();
        let binary = folder.path().join("cifar-10-batches-bin");
        std::fs::create_dir_all(&binary).unwrap();
        std::fs::write(binary.join("data_batch_1.bin"), "").unwrap();
        let library = library(folder.path());
        let message = |name| library.load(name, Part::Train).unwrap_err().to_string();
        let text = message("cifar-10");
        for part in [
            "cifar-10 is not on this machine\nlooked in\n",
            "cifar-10-batches-bin (--data-dir)",
            "cifar-10-batches-bin lacks data_batch_2.bin, data_batch_3.bin",
            "cifar-10-batches-py is the Python version; the binary version is read",
            "maxitive data fetch cifar-10  (171 MB)",
            "put data_batch_1.bin, ",
            "into FOLDER/cifar-10-batches-bin and say --data-dir FOLDER or MAXITIVE_DATA=FOLDER",
            "fashion-mnist-mini and letters, which are built in",
        ] {
            assert!(text.contains(part), "{part}\nin\n{text}");
        }
        assert!(message("fashion-mnist").contains("apt-get install dataset-fashion-mnist"));
        let text = message("no-such-set");
        let known = "unknown dataset \"no-such-set\"; known are fashion-mnist, ";
        assert!(text.starts_with(known), "{text}");
        let nameless = library.load("", Part::Test);
        assert!(matches!(nameless, Err(Error::UnknownSet { .. })));
    }

    #[test]
    fn a_root_may_be_the_folder_itself_and_custom_data_lie_under_it() {
        let folder = tempfile::tempdir().unwrap();
        let mnist = folder.path().join("mnist");
        std::fs::create_dir(&mnist).unwrap();
        for name in ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte.gz"] {
            let content = if name.ends_with(".gz") { "four" } else { "six" };
            std::fs::write(mnist.join(name), content).unwrap();
        }
        let found = Location::Folder {
            path: mnist.clone(),
            origin: Origin::Given,
            bytes: 7,
        };
        for root in [folder.path(), &mnist] {
            let location = library(root).locate("mnist", Part::Test).unwrap();
            assert_eq!(location.as_ref(), Some(&found));
        }
        assert_eq!(library(&mnist).locate("kmnist", Part::Test).unwrap(), None);
        // a custom folder is found by its name
        std::fs::create_dir_all(folder.path().join("mine/test/a")).unwrap();
        let error = library(folder.path()).load("mine", Part::Test).unwrap_err();
        assert!(matches!(error, Error::NoSuchPart { .. }), "{error}");
    }

    #[test]
    fn every_entry_can_be_located() {
        let library = Library::with_roots(Vec::new());
        for entry in ENTRIES.iter() {
            for part in [Part::Train, Part::Test] {
                if entry.part(part).is_some() {
                    let location = library.locate(entry.name, part).unwrap();
                    assert_eq!(location.is_some(), entry.is_built_in(), "{}", entry.name);
                }
            }
        }
    }
}
