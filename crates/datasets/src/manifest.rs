//! The datasets that are known by name: their files, sums, addresses, licenses and constants.
//!
//! A sum is here only if it was published or measured on a copy whose origin is known. For IDX
//! files it is the sum of the uncompressed content, because gzip wrappers differ between
//! distributors; the published sum of a wrapper is accepted too. Where a changed copy of a file is
//! in circulation, its sum is listed with a note that goes along with the decoded set. A file whose
//! official sum is not known here is checked by size and structure, and the decoded set says so.
//!
//! The sums of the CIFAR, SVHN, KMNIST and EMNIST files are those of TensorFlow Datasets and
//! torchvision; those of MNIST, Fashion-MNIST and notMNIST were measured and agree with the
//! published ones of the wrappers.

use std::sync::LazyLock;

use serde::{Deserialize, Deserializer};

use images::{Normalization, Shape};

use crate::library::Part;

/// One dataset.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Entry {
    /// Its name everywhere in this project: lower case, words joined by hyphens.
    pub name: &'static str,
    /// What it is, in one line.
    pub title: &'static str,
    /// Where it is published.
    pub homepage: &'static str,
    /// Its license, as far as its publishers state one.
    pub license: &'static str,
    /// Whom to cite.
    pub citation: &'static str,
    /// Size of an image as it is decoded.
    #[serde(deserialize_with = "shape")]
    pub shape: Shape,
    /// Number of classes.
    pub classes: usize,
    /// Names of the classes; empty where the files bring them.
    #[serde(default)]
    pub class_names: Vec<&'static str>,
    /// Mean of each channel, pixels in `[0, 1]`.
    pub mean: Vec<f32>,
    /// Standard deviation of each channel.
    pub std: Vec<f32>,
    /// Where the two come from.
    pub constants_from: &'static str,
    /// Folders under a data root in which its files may lie, the official one first; none if it is
    /// built in.
    #[serde(default)]
    pub folders: Vec<&'static str>,
    /// Folders of a form of the dataset that is not read, and what to say about them.
    #[serde(default)]
    pub mistaken: Vec<(&'static str, &'static str)>,
    /// How its files are read.
    pub layout: Layout,
    /// Training images.
    pub train: Option<Files>,
    /// Test images.
    pub test: Option<Files>,
    /// The name of Debian's package of it, where there is one.
    pub debian_package: Option<&'static str>,
    /// Where it can be had.
    #[serde(default)]
    pub downloads: Vec<Download>,
}

impl Entry {
    /// The files of a part.
    pub fn part(&self, part: Part) -> Option<&Files> {
        match part {
            Part::Train => self.train.as_ref(),
            Part::Test => self.test.as_ref(),
        }
    }

    /// Whether it needs no files.
    pub fn is_built_in(&self) -> bool {
        matches!(self.layout, Layout::Embedded | Layout::Drawn)
    }
}

/// How the files of a dataset are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Layout {
    /// A file of images and one of labels, each perhaps gzipped.
    Idx {
        /// What the labels count from.
        #[serde(default)]
        first_label: u8,
        /// Whether columns come before rows.
        #[serde(default)]
        transposed: bool,
    },
    /// CIFAR binary.
    Cifar {
        /// Label bytes of a record; the last one counts.
        label_bytes: usize,
    },
    /// SVHN's cropped digits in a MAT file; label 10 is digit 0.
    Svhn,
    /// The validation folder of Tiny ImageNet, resized to 32x32; classes in the order of their
    /// sorted ids.
    #[serde(rename = "tiny-imagenet")]
    TinyImageNet,
    /// Part of this program.
    Embedded,
    /// Drawn by this program.
    Drawn,
}

/// The files of one part of a dataset.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
#[non_exhaustive]
pub struct Files {
    /// Number of images.
    pub images: usize,
    /// The files, in the order in which they are read.
    #[serde(default)]
    pub files: Vec<File>,
}

/// One file, or a folder of pictures that is summed up as one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct File {
    /// Its name within the folder, without `.gz`.
    pub path: &'static str,
    /// Contents that are known, the official one first.
    #[serde(default)]
    pub known: Vec<Known>,
}

impl File {
    /// Whether the sum of the official content is known.
    pub fn is_official_known(&self) -> bool {
        self.known.iter().any(|known| known.note.is_empty())
    }
}

/// A content that is known.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Known {
    /// SHA-256 in lower-case hexadecimal digits. For a folder: that of the lines "sum, two spaces,
    /// file name", as `sha256sum` prints them.
    pub sha256: &'static str,
    /// What was summed up.
    #[serde(default)]
    pub of: SumOf,
    /// Empty for the official file, otherwise how this one differs.
    #[serde(default)]
    pub note: &'static str,
}

/// What a sum is taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SumOf {
    /// The content, uncompressed if it is gzipped.
    #[default]
    Content,
    /// The gzipped file as published.
    Gzip,
}

/// A file to be fetched.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Download {
    /// Addresses of the same bytes, tried in this order.
    pub addresses: Vec<&'static str>,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: &'static str,
    /// The part it holds, or both.
    pub part: Option<Part>,
    /// What becomes of it.
    pub target: Target,
}

/// What becomes of a fetched file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Target {
    /// It is kept under this path below the data root.
    File(&'static str),
    /// A gzipped tar archive, unpacked: members that begin with a first text are kept under the
    /// second in its place.
    TarGz(Vec<(&'static str, &'static str)>),
    /// A ZIP archive, unpacked alike.
    Zip(Vec<(&'static str, &'static str)>),
}

/// Every dataset that is known by name, in the order of `manifest.toml`.
pub static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
    struct Manifest {
        datasets: Vec<Entry>,
    }
    let manifest: Manifest =
        toml::from_str(include_str!("manifest.toml")).expect("a test reads the manifest");
    manifest.datasets
});

/// A shape from `[channels, height, width]`.
fn shape<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Shape, D::Error> {
    let [channels, height, width] = Deserialize::deserialize(deserializer)?;
    Ok(Shape::new(channels, height, width))
}

/// The dataset of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// The constants that go with a dataset: those of the authors' code where it has some, measured
/// ones otherwise. The paper itself only speaks of standard constants.
///
/// ```
/// let known = datasets::manifest::normalization("fashion-mnist").expect("in the manifest");
/// assert_eq!(known.mean(), [0.2860]);
/// assert_eq!(known.std(), [0.3530]);
/// ```
pub fn normalization(name: &str) -> Option<Normalization> {
    let entry = find(name)?;
    // a test builds all of them
    Normalization::new(entry.mean.to_vec(), entry.std.to_vec()).ok()
}

/// The names of all datasets.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    ENTRIES.iter().map(|entry| entry.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_sum(text: &str) -> bool {
        text.len() == 64 && text.chars().all(|c| "0123456789abcdef".contains(c))
    }

    #[test]
    fn every_entry_is_consistent() {
        for entry in ENTRIES.iter() {
            let Entry { name, .. } = entry;
            assert_eq!(names().filter(|other| other == name).count(), 1, "{name}");
            assert_eq!(entry.mean.len(), entry.shape.channels, "{name}");
            assert_eq!(entry.std.len(), entry.shape.channels, "{name}");
            assert!(normalization(name).is_some(), "{name}");
            assert!(
                [0, entry.classes].contains(&entry.class_names.len()),
                "{name}"
            );
            assert_eq!(entry.folders.is_empty(), entry.is_built_in(), "{name}");
            let files = [&entry.train, &entry.test].into_iter().flatten();
            for file in files.flat_map(|part| &part.files) {
                assert!(
                    file.known.iter().all(|known| is_sum(known.sha256)),
                    "{name}"
                );
            }
            for download in &entry.downloads {
                assert!(is_sum(download.sha256), "{name}");
                let folder = entry.folders[0];
                let inside = |path: &str| path.starts_with(folder) && !path.contains("..");
                match &download.target {
                    Target::File(path) => assert!(inside(path), "{name}"),
                    Target::TarGz(rules) | Target::Zip(rules) => {
                        assert!(rules.iter().all(|(_, path)| inside(path)), "{name}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_fetched_is_what_is_looked_for() {
        for entry in ENTRIES.iter() {
            for download in &entry.downloads {
                let Target::File(path) = &download.target else {
                    continue;
                };
                let part = download.part.expect("a single file belongs to a part");
                let files = &entry.part(part).expect("the part exists").files;
                let found = files.iter().any(|file| {
                    let plain = format!("{}/{}", entry.folders[0], file.path);
                    *path == plain || *path == plain + ".gz"
                });
                assert!(found, "{path}");
            }
        }
    }
}
