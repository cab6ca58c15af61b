//! Where datasets are looked for, and the shelf of those already decoded.
//!
//! Roots, in this order: the folder given on the command line, the one named by `MAXITIVE_DATA`, the cache folder of the user,
//! the system's packages. Under a root a dataset lies in the folder of its official archive.

use std::collections::HashMap;
use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::read::GzDecoder;

use crate::digest::Hashing;
use crate::error::{Error, Result};
use crate::formats::idx;
use crate::image_set::{ImageSet, Shape};
use crate::manifest::{self, Entry, Files, Layout};

/// Training or test images.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// Finds, checks, decodes and keeps datasets. Each is decoded once, whoever asks for it.
///
/// ```no_run
/// use datasets::{Library, Part};
///
/// let library = Library::new(None);
/// let train = library.load("fashion-mnist", Part::Train)?;
/// assert_eq!(train.len(), 60_000);
/// # Ok::<(), datasets::Error>(())
/// ```
#[derive(Debug)]
pub struct Library {
    roots: Vec<Root>,
    verify: bool,
    shelf: Mutex<HashMap<(String, Part), Arc<ImageSet>>>,
}

impl Library {
    /// A library that searches `data_dir` first, then the folders described at the top of this module.
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
            shelf: Mutex::default(),
        }
    }

    /// The same library, but sums and counts that differ from the manifest are let pass: for data that were
    /// changed on purpose. Whatever breaks the format is refused all the same.
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

    /// A part of a dataset, decoded on first use and shared afterwards. Others who ask meanwhile wait for it.
    ///
    /// # Errors
    /// The name is unknown, the files are nowhere to be found (the message says how to get them), or a file is not what
    /// it should be.
    pub fn load(&self, name: &str, part: Part) -> Result<Arc<ImageSet>> {
        // held while decoding: whoever wants the same set would decode it a second time
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), part);
        if let Some(set) = shelf.get(&key) {
            return Ok(Arc::clone(set));
        }
        let entry = manifest::find(name).ok_or_else(|| Error::UnknownSet {
            name: name.into(),
            known: manifest::names().collect::<Vec<_>>().join(", "),
        })?;
        let set = Arc::new(self.read(entry, part)?);
        shelf.insert(key, Arc::clone(&set));
        Ok(set)
    }

    fn read(&self, entry: &Entry, part: Part) -> Result<ImageSet> {
        let files = match part {
            Part::Train => &entry.train,
            Part::Test => &entry.test,
        };
        let files = files.as_ref().ok_or_else(|| Error::NoSuchPart {
            name: entry.name.into(),
            part: part.name(),
            reason: "it has only the other one".into(),
        })?;
        let folder = self.find(entry, files).ok_or_else(|| Error::NotFound {
            name: entry.name.into(),
            advice: String::new(),
        })?;
        let Layout::Idx {
            first_label,
            transposed,
        } = entry.layout;
        let [images_file, labels_file] = files.files else {
            unreachable!("an IDX set has two files a part");
        };
        let (images, path) = self.idx(&folder, images_file)?;
        let shape = entry.shape;
        let expected = [files.images, shape.height, shape.width];
        let count = images.dimensions[0];
        let fits = images.dimensions.len() == 3
            && images.dimensions[1..] == expected[1..]
            && (count == files.images || !self.verify);
        if !fits {
            return Err(Error::Size {
                path,
                what: "array",
                found: format!("{:?}", images.dimensions),
                expected: format!("{expected:?}"),
            });
        }
        let (labels, path) = self.idx(&folder, labels_file)?;
        if labels.dimensions != [count] {
            return Err(Error::Size {
                path,
                what: "array",
                found: format!("{:?}", labels.dimensions),
                expected: format!("[{count}]"),
            });
        }
        let mut pixels = images.data;
        if transposed {
            transpose(&mut pixels, shape);
        }
        let last = usize::from(first_label) + entry.classes;
        let labels = labels.data.iter().enumerate().map(|(index, &label)| {
            label
                .checked_sub(first_label)
                .map(u32::from)
                .filter(|&label| (label as usize) < entry.classes)
                .ok_or_else(|| Error::Label {
                    name: path.display().to_string(),
                    index,
                    label: label.into(),
                    allowed: format!("{first_label}..{last}"),
                })
        });
        let labels = labels.collect::<Result<Vec<u32>>>()?;
        let names = entry.class_names.iter().map(ToString::to_string).collect();
        let names = Some(names).filter(|names: &Vec<String>| !names.is_empty());
        ImageSet::new(entry.name, shape, entry.classes, names, pixels, labels)
    }

    fn find(&self, entry: &Entry, files: &Files) -> Option<PathBuf> {
        let folders = self
            .roots
            .iter()
            .flat_map(|root| entry.folders.iter().map(|folder| root.path.join(folder)));
        folders.into_iter().find(|folder| {
            files
                .files
                .iter()
                .all(|file| locate(folder, file.path).is_some())
        })
    }

    fn idx(&self, folder: &Path, file: &manifest::File) -> Result<(idx::Idx, PathBuf)> {
        let path = locate(folder, file.path).unwrap_or_else(|| folder.join(file.path));
        let opened = fs::File::open(&path).map_err(Error::io("read", &path))?;
        let opened = BufReader::with_capacity(1 << 16, opened);
        let content: Box<dyn Read> = if path.extension().is_some_and(|end| end == "gz") {
            Box::new(GzDecoder::new(opened))
        } else {
            Box::new(opened)
        };
        if !self.verify {
            let array = idx::read(content).map_err(Error::malformed(&path))?;
            return Ok((array, path));
        }
        let mut content = Hashing::new(content);
        let array = idx::read(&mut content).map_err(Error::malformed(&path))?;
        let found = content.finish().map_err(Error::io("read", &path))?;
        if !file.known.iter().any(|known| known.sha256 == found) {
            let expected: Vec<&str> = file.known.iter().map(|known| known.sha256).collect();
            return Err(Error::Checksum {
                path,
                expected: expected.join(" or "),
                found,
            });
        }
        Ok((array, path))
    }
}

/// The file itself or its gzipped form.
fn locate(folder: &Path, name: &str) -> Option<PathBuf> {
    [folder.join(format!("{name}.gz")), folder.join(name)]
        .into_iter()
        .find(|path| path.is_file())
}

/// Exchanges rows and columns of every image.
fn transpose(pixels: &mut [u8], shape: Shape) {
    let Shape { height, width, .. } = shape;
    let mut plane = vec![0; shape.area()];
    for image in pixels.chunks_exact_mut(shape.area()) {
        for (i, &pixel) in image.iter().enumerate() {
            // the file runs down the columns
            plane[i % height * width + i / height] = pixel;
        }
        image.copy_from_slice(&plane);
    }
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

    /// A training part whose pixel is its place, whose labels count up; the first file gzipped.
    fn write_set(folder: &Path, images: usize) {
        fs::create_dir_all(folder).unwrap();
        let data = (0..images * 784).map(|i| (i % 784 / 28 * 7 + i % 28) as u8);
        let data = idx::write(&idx::Idx {
            dimensions: vec![images, 28, 28],
            data: data.collect(),
        });
        let gz = fs::File::create(folder.join("train-images-idx3-ubyte.gz")).unwrap();
        let mut gz = flate2::write::GzEncoder::new(gz, flate2::Compression::fast());
        std::io::Write::write_all(&mut gz, &data).unwrap();
        gz.finish().unwrap();
        let labels = idx::write(&idx::Idx {
            dimensions: vec![images],
            data: (0..images).map(|i| (i % 10) as u8).collect(),
        });
        fs::write(folder.join("train-labels-idx1-ubyte"), labels).unwrap();
    }

    fn library(folder: &Path) -> Library {
        Library::with_roots(vec![Root {
            path: folder.into(),
            origin: Origin::Given,
        }])
    }

    #[test]
    fn a_set_is_decoded_once_and_rows_stay_rows() {
        let folder = tempfile::tempdir().unwrap();
        write_set(&folder.path().join("fashion-mnist"), 12);
        let library = library(folder.path()).unverified();
        let set = library.load("fashion-mnist", Part::Train).unwrap();
        assert_eq!((set.len(), set.classes()), (12, 10));
        // row 3, column 5 and row 5, column 3
        assert_eq!(
            (set.image(2)[3 * 28 + 5], set.image(2)[5 * 28 + 3]),
            (26, 38)
        );
        assert_eq!(set.labels()[11], 1);
        assert_eq!(set.class_names().unwrap()[9], "Ankle boot");
        let again = library.load("fashion-mnist", Part::Train).unwrap();
        assert!(Arc::ptr_eq(&set, &again));
    }

    #[test]
    fn a_content_that_is_not_the_published_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        write_set(&folder.path().join("FashionMNIST/raw"), 12);
        let error = library(folder.path())
            .load("fashion-mnist", Part::Train)
            .unwrap_err();
        let Error::Checksum {
            path,
            expected,
            found,
        } = &error
        else {
            panic!("{error}");
        };
        assert!(path.ends_with("FashionMNIST/raw/train-images-idx3-ubyte.gz"));
        assert!(expected.starts_with("c59f468a"), "{expected}");
        assert_eq!(found.len(), 64);
    }

    #[test]
    fn a_transposed_image_is_turned() {
        let shape = Shape::new(1, 2, 3);
        // columns (1 4), (2 5), (3 6)
        let mut pixels = vec![1, 4, 2, 5, 3, 6];
        transpose(&mut pixels, shape);
        assert_eq!(pixels, [1, 2, 3, 4, 5, 6]);
    }
}
