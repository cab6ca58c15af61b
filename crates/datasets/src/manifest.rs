//! The datasets that are known by name: their files, sums, addresses, licenses and constants.
//!
//! A sum is here only if it was published with the data or measured on a copy whose origin is known; a file whose official
//! sum is not known to us is checked by size and structure, and the library says so.

use crate::image_set::Shape;

/// One dataset.
#[derive(Debug)]
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
    /// Size of an image.
    pub shape: Shape,
    /// Number of classes.
    pub classes: usize,
    /// Names of the classes; empty where they have none or the files bring them.
    pub class_names: &'static [&'static str],
    /// Mean of each channel, pixels in `[0, 1]`.
    pub mean: &'static [f32],
    /// Standard deviation of each channel.
    pub std: &'static [f32],
    /// Where the two come from.
    pub constants_from: &'static str,
    /// Folders under a data root in which its files may lie, the official one first.
    pub folders: &'static [&'static str],
    /// How its files are read.
    pub layout: Layout,
    /// Training images.
    pub train: Option<Files>,
    /// Test images.
    pub test: Option<Files>,
}

/// How the files of a dataset are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// A file of images and one of labels, each perhaps gzipped.
    Idx {
        /// What the labels count from.
        first_label: u8,
        /// Whether columns come before rows.
        transposed: bool,
    },
}

/// The files of one part of a dataset.
#[derive(Debug)]
#[non_exhaustive]
pub struct Files {
    /// Number of images.
    pub images: usize,
    /// The files, in the order in which they are read.
    pub files: &'static [File],
}

/// One file.
#[derive(Debug)]
#[non_exhaustive]
pub struct File {
    /// Its name within the folder, without `.gz`.
    pub path: &'static str,
    /// Size of its uncompressed content.
    pub bytes: u64,
    /// Contents that are known, the official one first.
    pub known: &'static [Known],
}

/// A content that is known.
#[derive(Debug)]
#[non_exhaustive]
pub struct Known {
    /// Its SHA-256, in lower-case hexadecimal digits.
    pub sha256: &'static str,
    /// Empty for the official file, otherwise how this one differs.
    pub note: &'static str,
}

const fn official(sha256: &'static str) -> Known {
    Known { sha256, note: "" }
}

const GREY: Shape = Shape::new(1, 28, 28);
const IDX: Layout = Layout::Idx {
    first_label: 0,
    transposed: false,
};
const DIGITS: &[&str] = &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// Every dataset that is known by name.
pub const ENTRIES: &[Entry] = &[
    Entry {
        name: "fashion-mnist",
        title: "Fashion-MNIST: articles of clothing, 28x28 grey",
        homepage: "https://github.com/zalandoresearch/fashion-mnist",
        license: "MIT",
        citation: "Xiao, Rasul, Vollgraf: Fashion-MNIST (2017), arXiv:1708.07747",
        shape: GREY,
        classes: 10,
        class_names: FASHION,
        mean: &[0.2860],
        std: &[0.3530],
        constants_from: "paper",
        folders: &["fashion-mnist", "FashionMNIST/raw"],
        layout: IDX,
        train: Some(Files {
            images: 60_000,
            files: &[
                File {
                    path: "train-images-idx3-ubyte",
                    bytes: 47_040_016,
                    known: &[official(
                        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                    )],
                },
                File {
                    path: "train-labels-idx1-ubyte",
                    bytes: 60_008,
                    known: &[official(
                        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                    )],
                },
            ],
        }),
        test: Some(Files {
            images: 10_000,
            files: &[
                File {
                    path: "t10k-images-idx3-ubyte",
                    bytes: 7_840_016,
                    known: &[official(
                        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                    )],
                },
                File {
                    path: "t10k-labels-idx1-ubyte",
                    bytes: 10_008,
                    known: &[official(
                        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                    )],
                },
            ],
        }),
    },
    Entry {
        name: "mnist",
        title: "MNIST: handwritten digits, 28x28 grey",
        homepage: "http://yann.lecun.com/exdb/mnist/",
        license: "none stated",
        citation: "LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition (1998)",
        shape: GREY,
        classes: 10,
        class_names: DIGITS,
        mean: &[0.1307],
        std: &[0.3081],
        constants_from: "measured on the training images",
        folders: &["mnist", "MNIST/raw"],
        layout: IDX,
        train: Some(Files {
            images: 60_000,
            files: &[
                File {
                    path: "train-images-idx3-ubyte",
                    bytes: 47_040_016,
                    known: &[official(
                        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                    )],
                },
                File {
                    path: "train-labels-idx1-ubyte",
                    bytes: 60_008,
                    known: &[official(
                        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                    )],
                },
            ],
        }),
        test: Some(Files {
            images: 10_000,
            files: &[
                File {
                    path: "t10k-images-idx3-ubyte",
                    bytes: 7_840_016,
                    known: &[official(
                        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                    )],
                },
                File {
                    path: "t10k-labels-idx1-ubyte",
                    bytes: 10_008,
                    known: &[official(
                        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                    )],
                },
            ],
        }),
    },
    Entry {
        name: "kmnist",
        title: "Kuzushiji-MNIST: cursive Japanese characters, 28x28 grey",
        homepage: "http://codh.rois.ac.jp/kmnist/",
        license: "CC BY-SA 4.0",
        citation: "Clanuwat et al.: Deep Learning for Classical Japanese Literature (2018), arXiv:1812.01718",
        shape: GREY,
        classes: 10,
        class_names: &["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"],
        mean: &[0.1846],
        std: &[0.3416],
        constants_from: "measured on the test images",
        folders: &["kmnist", "KMNIST/raw"],
        layout: IDX,
        train: None,
        test: Some(Files {
            images: 10_000,
            files: &[
                File {
                    path: "t10k-images-idx3-ubyte",
                    bytes: 7_840_016,
                    known: &[official(
                        "76fbd229ce87db80dd281af5e6670de4ad0e42fb30a7bd643972994c47c1f42e",
                    )],
                },
                File {
                    path: "t10k-labels-idx1-ubyte",
                    bytes: 10_008,
                    known: &[official(
                        "a11dc742be8e781a40a92f53d6a4957e7b7d36df2faa097659131ebfd8fd60c6",
                    )],
                },
            ],
        }),
    },
    Entry {
        name: "notmnist",
        title: "notMNIST: letters A to J in many typefaces, 28x28 grey",
        homepage: "https://github.com/davidflanagan/notMNIST-to-MNIST",
        license: "MIT (the files in this form)",
        citation: "Bulatov: notMNIST dataset (2011)",
        shape: GREY,
        classes: 10,
        class_names: &["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"],
        mean: &[0.4266],
        std: &[0.4589],
        constants_from: "measured on the test images",
        folders: &["notmnist", "notMNIST/raw"],
        layout: IDX,
        train: None,
        test: Some(Files {
            images: 10_000,
            files: &[
                File {
                    path: "t10k-images-idx3-ubyte",
                    bytes: 7_840_016,
                    known: &[official(
                        "8e7f38ae95cc8f48e0986175ffc9137e5007ebcf3d8fdf6656c904eb9dab198b",
                    )],
                },
                File {
                    path: "t10k-labels-idx1-ubyte",
                    bytes: 10_008,
                    known: &[official(
                        "5f8e6012f2ce730700d8d05fca098bc47f71d25b890e4bec7ac5ebfd614a4001",
                    )],
                },
            ],
        }),
    },
];

const FASHION: &[&str] = &[
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
];

/// The dataset of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// The names of all datasets.
pub fn names() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_consistent() {
        for entry in ENTRIES {
            let Entry { name, .. } = entry;
            assert_eq!(names().filter(|other| other == name).count(), 1, "{name}");
            assert_eq!(entry.mean.len(), entry.shape.channels, "{name}");
            assert_eq!(entry.std.len(), entry.shape.channels, "{name}");
            assert!(
                [0, entry.classes].contains(&entry.class_names.len()),
                "{name}"
            );
            let files = [&entry.train, &entry.test].into_iter().flatten();
            for file in files.flat_map(|part| part.files) {
                for known in file.known {
                    assert_eq!(known.sha256.len(), 64, "{name}: {}", file.path);
                    assert!(known.sha256.chars().all(|c| "0123456789abcdef".contains(c)));
                }
            }
        }
    }
}
