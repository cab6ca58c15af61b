//! The datasets that are known by name: their files, sums, addresses, licenses and constants.
//!
//! A sum is here only if it was published or measured on a copy whose origin is known. For IDX files it is the sum of
//! the uncompressed content, because gzip wrappers differ between distributors; the published sum of a wrapper is accepted too.
//! Where a changed copy of a file is in circulation, its sum is listed with a note that goes along with the decoded set.
//! A file whose official sum is not known here is checked by size and structure, and the decoded set says so.
//!
//! The sums of the CIFAR, SVHN, KMNIST and EMNIST files are those of TensorFlow Datasets and torchvision; those of MNIST,
//! Fashion-MNIST and notMNIST were measured and agree with the published ones of the wrappers.

use crate::image_set::Shape;
use crate::library::Part;

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
    /// Size of an image as it is decoded.
    pub shape: Shape,
    /// Number of classes.
    pub classes: usize,
    /// Names of the classes; empty where the files bring them.
    pub class_names: &'static [&'static str],
    /// Mean of each channel, pixels in `[0, 1]`.
    pub mean: &'static [f32],
    /// Standard deviation of each channel.
    pub std: &'static [f32],
    /// Where the two come from.
    pub constants_from: &'static str,
    /// Folders under a data root in which its files may lie, the official one first; none if it is built in.
    pub folders: &'static [&'static str],
    /// Folders of a form of the dataset that is not read, and what to say about them.
    pub mistaken: &'static [(&'static str, &'static str)],
    /// How its files are read.
    pub layout: Layout,
    /// Training images.
    pub train: Option<Files>,
    /// Test images.
    pub test: Option<Files>,
    /// Where it can be had.
    pub downloads: &'static [Download],
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
    /// CIFAR binary.
    Cifar {
        /// Label bytes of a record; the last one counts.
        label_bytes: usize,
    },
    /// SVHN's cropped digits in a MAT file; label 10 is digit 0.
    Svhn,
    /// The validation folder of Tiny ImageNet, resized to 32x32; classes in the order of their sorted ids.
    TinyImageNet,
    /// Part of this program.
    Embedded,
    /// Drawn by this program.
    Drawn,
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

/// One file, or a folder of pictures that is summed up as one.
#[derive(Debug)]
#[non_exhaustive]
pub struct File {
    /// Its name within the folder, without `.gz`.
    pub path: &'static str,
    /// Contents that are known, the official one first.
    pub known: &'static [Known],
}

impl File {
    /// Whether the sum of the official content is known.
    pub fn is_official_known(&self) -> bool {
        self.known.iter().any(|known| known.note.is_empty())
    }
}

/// A content that is known.
#[derive(Debug)]
#[non_exhaustive]
pub struct Known {
    /// SHA-256 in lower-case hexadecimal digits. For a folder: that of the lines "sum, two spaces, file name", as `sha256sum` prints them.
    pub sha256: &'static str,
    /// What was summed up.
    pub of: SumOf,
    /// Empty for the official file, otherwise how this one differs.
    pub note: &'static str,
}

/// What a sum is taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SumOf {
    /// The content, uncompressed if it is gzipped.
    Content,
    /// The gzipped file as published.
    Gzip,
}

/// A file to be fetched.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Download {
    /// Addresses of the same bytes, tried in this order.
    pub addresses: &'static [&'static str],
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// It is kept under this path below the data root.
    File(&'static str),
    /// A gzipped tar archive, unpacked: members that begin with a first text are kept under the second in its place.
    TarGz(&'static [(&'static str, &'static str)]),
    /// A ZIP archive, unpacked alike.
    Zip(&'static [(&'static str, &'static str)]),
}

const fn official(sha256: &'static str) -> Known {
    Known {
        sha256,
        of: SumOf::Content,
        note: "",
    }
}

const fn official_gzip(sha256: &'static str) -> Known {
    Known {
        sha256,
        of: SumOf::Gzip,
        note: "",
    }
}

const fn variant(sha256: &'static str, note: &'static str) -> Known {
    Known {
        sha256,
        of: SumOf::Content,
        note,
    }
}

const GRAY: Shape = Shape::new(1, 28, 28);
const COLOR: Shape = Shape::new(3, 32, 32);
const IDX: Layout = Layout::Idx {
    first_label: 0,
    transposed: false,
};
const DIGITS: &[&str] = &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
const CAPITALS: &[&str] = &[
    "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P", "Q", "R", "S",
    "T", "U", "V", "W", "X", "Y", "Z",
];
const IMAGENET_MEAN: &[f32] = &[0.485, 0.456, 0.406];
const IMAGENET_STD: &[f32] = &[0.229, 0.224, 0.225];
const PAPER: &str = "paper";

/// Every dataset that is known by name.
pub static ENTRIES: &[Entry] = &[
    Entry {
        name: "fashion-mnist",
        title: "Fashion-MNIST: articles of clothing, 28x28 gray",
        homepage: "https://github.com/zalandoresearch/fashion-mnist",
        license: "MIT",
        citation: "Xiao, Rasul, Vollgraf: Fashion-MNIST (2017), arXiv:1708.07747",
        shape: GRAY,
        classes: 10,
        class_names: FASHION,
        mean: &[0.2860],
        std: &[0.3530],
        constants_from: PAPER,
        folders: &["fashion-mnist", "FashionMNIST/raw"],
        mistaken: &[],
        layout: IDX,
        train: Some(Files {
            images: 60_000,
            files: &[
                File {
                    path: "train-images-idx3-ubyte",
                    known: &[official(
                        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                    )],
                },
                File {
                    path: "train-labels-idx1-ubyte",
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
                    known: &[official(
                        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                    )],
                },
                File {
                    path: "t10k-labels-idx1-ubyte",
                    known: &[official(
                        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                    )],
                },
            ],
        }),
        downloads: &[
            Download {
                addresses: &[
                    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-images-idx3-ubyte.gz",
                    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/train-images-idx3-ubyte.gz",
                ],
                bytes: 26_421_880,
                sha256: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                part: Some(Part::Train),
                target: Target::File("fashion-mnist/train-images-idx3-ubyte.gz"),
            },
            Download {
                addresses: &[
                    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/train-labels-idx1-ubyte.gz",
                    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/train-labels-idx1-ubyte.gz",
                ],
                bytes: 29_515,
                sha256: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                part: Some(Part::Train),
                target: Target::File("fashion-mnist/train-labels-idx1-ubyte.gz"),
            },
            Download {
                addresses: &[
                    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-images-idx3-ubyte.gz",
                    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/t10k-images-idx3-ubyte.gz",
                ],
                bytes: 4_422_102,
                sha256: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                part: Some(Part::Test),
                target: Target::File("fashion-mnist/t10k-images-idx3-ubyte.gz"),
            },
            Download {
                addresses: &[
                    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/t10k-labels-idx1-ubyte.gz",
                    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/t10k-labels-idx1-ubyte.gz",
                ],
                bytes: 5_148,
                sha256: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                part: Some(Part::Test),
                target: Target::File("fashion-mnist/t10k-labels-idx1-ubyte.gz"),
            },
        ],
    },
    Entry {
        name: "fashion-mnist-mini",
        title: "6,000 + 2,000 images of Fashion-MNIST, built in",
        homepage: "https://github.com/zalandoresearch/fashion-mnist",
        license: "MIT",
        citation: "Xiao, Rasul, Vollgraf: Fashion-MNIST (2017), arXiv:1708.07747",
        shape: GRAY,
        classes: 10,
        class_names: FASHION,
        mean: &[0.2860],
        std: &[0.3530],
        constants_from: "paper (those of the full set)",
        folders: &[],
        mistaken: &[],
        layout: Layout::Embedded,
        train: Some(Files {
            images: 6_000,
            files: &[],
        }),
        test: Some(Files {
            images: 2_000,
            files: &[],
        }),
        downloads: &[],
    },
    Entry {
        name: "letters",
        title: "capital letters drawn by this program, 28x28 gray",
        homepage: "",
        license: "MIT OR Apache-2.0",
        citation: "none",
        shape: GRAY,
        classes: 26,
        class_names: CAPITALS,
        mean: &[0.1198],
        std: &[0.2770],
        constants_from: "measured",
        folders: &[],
        mistaken: &[],
        layout: Layout::Drawn,
        train: None,
        test: Some(Files {
            images: 2_600,
            files: &[],
        }),
        downloads: &[],
    },
    Entry {
        name: "mnist",
        title: "MNIST: handwritten digits, 28x28 gray",
        homepage: "http://yann.lecun.com/exdb/mnist/",
        license: "none stated",
        citation: "LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition (1998)",
        shape: GRAY,
        classes: 10,
        class_names: DIGITS,
        mean: &[0.1307],
        std: &[0.3081],
        constants_from: "measured on the training images",
        folders: &["mnist", "MNIST/raw"],
        mistaken: &[],
        layout: IDX,
        train: Some(Files {
            images: 60_000,
            files: &[
                File {
                    path: "train-images-idx3-ubyte",
                    known: &[official(
                        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                    )],
                },
                File {
                    path: "train-labels-idx1-ubyte",
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
                    known: &[official(
                        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                    )],
                },
                File {
                    path: "t10k-labels-idx1-ubyte",
                    known: &[official(
                        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
                    )],
                },
            ],
        }),
        downloads: &[
            Download {
                addresses: &[
                    "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
                    "https://storage.googleapis.com/cvdf-datasets/mnist/train-images-idx3-ubyte.gz",
                ],
                bytes: 9_912_422,
                sha256: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                part: Some(Part::Train),
                target: Target::File("mnist/train-images-idx3-ubyte.gz"),
            },
            Download {
                addresses: &[
                    "https://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz",
                    "https://storage.googleapis.com/cvdf-datasets/mnist/train-labels-idx1-ubyte.gz",
                ],
                bytes: 28_881,
                sha256: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                part: Some(Part::Train),
                target: Target::File("mnist/train-labels-idx1-ubyte.gz"),
            },
            Download {
                addresses: &[
                    "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-images-idx3-ubyte.gz",
                    "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-images-idx3-ubyte.gz",
                ],
                bytes: 1_648_877,
                sha256: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                part: Some(Part::Test),
                target: Target::File("mnist/t10k-images-idx3-ubyte.gz"),
            },
            Download {
                addresses: &[
                    "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz",
                    "https://storage.googleapis.com/cvdf-datasets/mnist/t10k-labels-idx1-ubyte.gz",
                ],
                bytes: 4_542,
                sha256: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                part: Some(Part::Test),
                target: Target::File("mnist/t10k-labels-idx1-ubyte.gz"),
            },
        ],
    },
    Entry {
        name: "kmnist",
        title: "Kuzushiji-MNIST: cursive Japanese characters, 28x28 gray",
        homepage: "http://codh.rois.ac.jp/kmnist/",
        license: "CC BY-SA 4.0",
        citation: "Clanuwat et al.: Deep Learning for Classical Japanese Literature (2018), arXiv:1812.01718",
        shape: GRAY,
        classes: 10,
        class_names: &["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"],
        mean: &[0.1846],
        std: &[0.3416],
        constants_from: "measured on the test images",
        folders: &["kmnist", "KMNIST/raw"],
        mistaken: &[],
        layout: IDX,
        train: Some(Files {
            images: 60_000,
            files: &[
                File {
                    path: "train-images-idx3-ubyte",
                    known: &[official_gzip(
                        "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
                    )],
                },
                File {
                    path: "train-labels-idx1-ubyte",
                    known: &[official_gzip(
                        "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
                    )],
                },
            ],
        }),
        test: Some(Files {
            images: 10_000,
            files: &[
                File {
                    path: "t10k-images-idx3-ubyte",
                    known: &[official(
                        "76fbd229ce87db80dd281af5e6670de4ad0e42fb30a7bd643972994c47c1f42e",
                    )],
                },
                File {
                    path: "t10k-labels-idx1-ubyte",
                    known: &[official(
                        "a11dc742be8e781a40a92f53d6a4957e7b7d36df2faa097659131ebfd8fd60c6",
                    )],
                },
            ],
        }),
        downloads: &[
            Download {
                addresses: &[
                    "http://codh.rois.ac.jp/kmnist/dataset/kmnist/train-images-idx3-ubyte.gz",
                ],
                bytes: 18_165_135,
                sha256: "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
                part: Some(Part::Train),
                target: Target::File("kmnist/train-images-idx3-ubyte.gz"),
            },
            Download {
                addresses: &[
                    "http://codh.rois.ac.jp/kmnist/dataset/kmnist/train-labels-idx1-ubyte.gz",
                ],
                bytes: 29_497,
                sha256: "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
                part: Some(Part::Train),
                target: Target::File("kmnist/train-labels-idx1-ubyte.gz"),
            },
            Download {
                addresses: &[
                    "http://codh.rois.ac.jp/kmnist/dataset/kmnist/t10k-images-idx3-ubyte.gz",
                ],
                bytes: 3_041_136,
                sha256: "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
                part: Some(Part::Test),
                target: Target::File("kmnist/t10k-images-idx3-ubyte.gz"),
            },
            Download {
                addresses: &[
                    "http://codh.rois.ac.jp/kmnist/dataset/kmnist/t10k-labels-idx1-ubyte.gz",
                ],
                bytes: 5_120,
                sha256: "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
                part: Some(Part::Test),
                target: Target::File("kmnist/t10k-labels-idx1-ubyte.gz"),
            },
        ],
    },
    Entry {
        name: "emnist-letters",
        title: "EMNIST letters: handwritten letters of both cases, 28x28 gray",
        homepage: "https://www.nist.gov/itl/products-and-services/emnist-dataset",
        license: "none stated",
        citation: "Cohen, Afshar, Tapson, van Schaik: EMNIST (2017), arXiv:1702.05373",
        shape: GRAY,
        classes: 26,
        class_names: CAPITALS,
        mean: &[0.1736],
        std: &[0.3317],
        constants_from: PAPER,
        folders: &["emnist", "EMNIST/raw", "gzip"],
        mistaken: &[],
        layout: Layout::Idx {
            first_label: 1,
            transposed: true,
        },
        train: Some(Files {
            images: 124_800,
            files: &[
                File {
                    path: "emnist-letters-train-images-idx3-ubyte",
                    known: &[],
                },
                File {
                    path: "emnist-letters-train-labels-idx1-ubyte",
                    known: &[],
                },
            ],
        }),
        test: Some(Files {
            images: 20_800,
            files: &[
                File {
                    path: "emnist-letters-test-images-idx3-ubyte",
                    known: &[],
                },
                File {
                    path: "emnist-letters-test-labels-idx1-ubyte",
                    known: &[],
                },
            ],
        }),
        downloads: &[Download {
            addresses: &["https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"],
            bytes: 561_753_746,
            sha256: "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
            part: None,
            target: Target::Zip(&[("gzip/emnist-letters-", "emnist/emnist-letters-")]),
        }],
    },
    Entry {
        name: "notmnist",
        title: "notMNIST: letters A to J in many typefaces, 28x28 gray",
        homepage: "https://github.com/davidflanagan/notMNIST-to-MNIST",
        license: "MIT (the files in this form)",
        citation: "Bulatov: notMNIST dataset (2011)",
        shape: GRAY,
        classes: 10,
        class_names: &["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"],
        mean: &[0.4266],
        std: &[0.4589],
        constants_from: "measured on the test images",
        folders: &["notmnist", "notMNIST/raw"],
        mistaken: &[],
        layout: IDX,
        train: None,
        test: Some(Files {
            images: 10_000,
            files: &[
                File {
                    path: "t10k-images-idx3-ubyte",
                    known: &[official(
                        "8e7f38ae95cc8f48e0986175ffc9137e5007ebcf3d8fdf6656c904eb9dab198b",
                    )],
                },
                File {
                    path: "t10k-labels-idx1-ubyte",
                    known: &[official(
                        "5f8e6012f2ce730700d8d05fca098bc47f71d25b890e4bec7ac5ebfd614a4001",
                    )],
                },
            ],
        }),
        downloads: &[
            Download {
                addresses: &[
                    "https://github.com/davidflanagan/notMNIST-to-MNIST/raw/master/t10k-images-idx3-ubyte.gz",
                ],
                bytes: 3_172_375,
                sha256: "70ae9e06201f2827e5b0a3781a3169d735dd2efc69996b9eeaee7f10ed4044d7",
                part: Some(Part::Test),
                target: Target::File("notmnist/t10k-images-idx3-ubyte.gz"),
            },
            Download {
                addresses: &[
                    "https://github.com/davidflanagan/notMNIST-to-MNIST/raw/master/t10k-labels-idx1-ubyte.gz",
                ],
                bytes: 5_118,
                sha256: "1fa03836e01c862542f8eb83463bb951bebec6fcb3efa28dad748c6b38a9021b",
                part: Some(Part::Test),
                target: Target::File("notmnist/t10k-labels-idx1-ubyte.gz"),
            },
        ],
    },
    Entry {
        name: "sse-letters",
        title: "SSE letters: 15 handwritten capitals, 28x28 black and white",
        homepage: "https://github.com/spaghetti-enjoyer/SSE-letters",
        license: "MIT",
        citation: "Ivanov: SSE letters (2025)",
        shape: GRAY,
        classes: 15,
        class_names: &[
            "A", "B", "C", "D", "E", "H", "I", "K", "L", "M", "O", "R", "T", "W", "X",
        ],
        mean: &[0.2785],
        std: &[0.4482],
        constants_from: "measured on all images",
        folders: &["sse-letters"],
        mistaken: &[],
        layout: IDX,
        train: None,
        test: Some(Files {
            images: 2_833,
            files: &[
                File {
                    path: "t10k-images-idx3-ubyte",
                    known: &[variant(
                        "d3b1c1cc12e18b02d9ecf02b5a19645adf89b61878af0fefdc8b15603f59abf2",
                        "rewritten as IDX from the published PNG files",
                    )],
                },
                File {
                    path: "t10k-labels-idx1-ubyte",
                    known: &[variant(
                        "7641e2a89a9de2354a4c5ae5a33af0945de620c039741f3c5fcab6d46ef881f2",
                        "rewritten as IDX from the published PNG files",
                    )],
                },
            ],
        }),
        downloads: &[],
    },
    Entry {
        name: "cifar-10",
        title: "CIFAR-10: ten kinds of things, 32x32 color",
        homepage: "https://www.cs.toronto.edu/~kriz/cifar.html",
        license: "none stated",
        citation: "Krizhevsky: Learning Multiple Layers of Features from Tiny Images (2009)",
        shape: COLOR,
        classes: 10,
        class_names: &[
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ],
        mean: IMAGENET_MEAN,
        std: IMAGENET_STD,
        constants_from: "paper (those of ImageNet)",
        folders: &["cifar-10-batches-bin", "cifar-10"],
        mistaken: &[(
            "cifar-10-batches-py",
            "the Python version; the binary version is read",
        )],
        layout: Layout::Cifar { label_bytes: 1 },
        train: Some(Files {
            images: 50_000,
            files: &[
                File {
                    path: "data_batch_1.bin",
                    known: &[official(
                        "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                    )],
                },
                File {
                    path: "data_batch_2.bin",
                    known: &[official(
                        "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                    )],
                },
                File {
                    path: "data_batch_3.bin",
                    known: &[official(
                        "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                    )],
                },
                File {
                    path: "data_batch_4.bin",
                    known: &[official(
                        "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                    )],
                },
                File {
                    path: "data_batch_5.bin",
                    known: &[official(
                        "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                    )],
                },
            ],
        }),
        test: Some(Files {
            images: 10_000,
            files: &[File {
                path: "test_batch.bin",
                known: &[official(
                    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
                )],
            }],
        }),
        downloads: &[Download {
            addresses: &["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"],
            bytes: 170_052_171,
            sha256: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            part: None,
            target: Target::TarGz(&[("cifar-10-batches-bin/", "cifar-10-batches-bin/")]),
        }],
    },
    Entry {
        name: "cifar-100",
        title: "CIFAR-100: a hundred kinds of things, 32x32 color",
        homepage: "https://www.cs.toronto.edu/~kriz/cifar.html",
        license: "none stated",
        citation: "Krizhevsky: Learning Multiple Layers of Features from Tiny Images (2009)",
        shape: COLOR,
        classes: 100,
        class_names: FINE,
        mean: IMAGENET_MEAN,
        std: IMAGENET_STD,
        constants_from: "paper (those of ImageNet)",
        folders: &["cifar-100-binary", "cifar-100"],
        mistaken: &[(
            "cifar-100-python",
            "the Python version; the binary version is read",
        )],
        layout: Layout::Cifar { label_bytes: 2 },
        train: Some(Files {
            images: 50_000,
            files: &[File {
                path: "train.bin",
                known: &[official(
                    "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
                )],
            }],
        }),
        test: Some(Files {
            images: 10_000,
            files: &[File {
                path: "test.bin",
                known: &[
                    official("d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),
                    variant(
                        "e685f15745c31f2e12cef79be67f3d48cf67acf68b63b8eb9a5b824b6f17ef2b",
                        "the images are those of the official file, in another order",
                    ),
                ],
            }],
        }),
        downloads: &[Download {
            addresses: &["https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"],
            bytes: 168_513_733,
            sha256: "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            part: None,
            target: Target::TarGz(&[("cifar-100-binary/", "cifar-100-binary/")]),
        }],
    },
    Entry {
        name: "svhn",
        title: "SVHN: house numbers cropped to digits, 32x32 color",
        homepage: "http://ufldl.stanford.edu/housenumbers/",
        license: "for non-commercial use only",
        citation: "Netzer et al.: Reading Digits in Natural Images (2011)",
        shape: COLOR,
        classes: 10,
        class_names: DIGITS,
        mean: &[0.4377, 0.4438, 0.4728],
        std: &[0.1980, 0.2010, 0.1970],
        constants_from: PAPER,
        folders: &["svhn", "SVHN"],
        mistaken: &[],
        layout: Layout::Svhn,
        train: Some(Files {
            images: 73_257,
            files: &[File {
                path: "train_32x32.mat",
                known: &[official(
                    "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                )],
            }],
        }),
        test: Some(Files {
            images: 26_032,
            files: &[File {
                path: "test_32x32.mat",
                known: &[
                    official("cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
                    variant(
                        "2fb9f0ae67f715109d3c784ed0261b1550ee08b85514062fd3936e1fbbea0a71",
                        "cropped anew from the full house numbers: not the official pixels",
                    ),
                ],
            }],
        }),
        downloads: &[
            Download {
                addresses: &["http://ufldl.stanford.edu/housenumbers/train_32x32.mat"],
                bytes: 182_040_794,
                sha256: "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
                part: Some(Part::Train),
                target: Target::File("svhn/train_32x32.mat"),
            },
            Download {
                addresses: &["http://ufldl.stanford.edu/housenumbers/test_32x32.mat"],
                bytes: 64_275_384,
                sha256: "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
                part: Some(Part::Test),
                target: Target::File("svhn/test_32x32.mat"),
            },
        ],
    },
    Entry {
        name: "tiny-imagenet",
        title: "Tiny ImageNet: 200 kinds of things, resized to 32x32 color",
        homepage: "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        license: "terms of ImageNet: non-commercial research",
        citation: "Le, Yang: Tiny ImageNet Visual Recognition Challenge (2015)",
        shape: COLOR,
        classes: 200,
        class_names: &[],
        mean: &[0.4802, 0.4481, 0.3975],
        std: &[0.2302, 0.2265, 0.2262],
        constants_from: PAPER,
        folders: &["tiny-imagenet-200", "tiny-imagenet"],
        mistaken: &[],
        layout: Layout::TinyImageNet,
        train: None,
        test: Some(Files {
            images: 10_000,
            files: &[
                File {
                    path: "wnids.txt",
                    known: &[variant(
                        "a36eb4b603007f1985cdfbfc5987166a2710b3c6f0f6d3e29636fc129bba527b",
                        "a public copy that was not compared with the official archive",
                    )],
                },
                File {
                    path: "val/val_annotations.txt",
                    known: &[variant(
                        "c37765a8b40fce4f28962bf1847a2537e2781753974cbb2447eeb50ff31130a2",
                        "a public copy that was not compared with the official archive",
                    )],
                },
                File {
                    path: "val/images",
                    known: &[variant(
                        "fd964cf210e262785599b945fc0211413b401d09c7946998922af073cad6de5f",
                        "a public copy that was not compared with the official archive",
                    )],
                },
            ],
        }),
        downloads: &[Download {
            addresses: &["http://cs231n.stanford.edu/tiny-imagenet-200.zip"],
            bytes: 248_100_043,
            sha256: "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
            part: None,
            target: Target::Zip(&[
                ("tiny-imagenet-200/wnids.txt", "tiny-imagenet-200/wnids.txt"),
                ("tiny-imagenet-200/words.txt", "tiny-imagenet-200/words.txt"),
                ("tiny-imagenet-200/val/", "tiny-imagenet-200/val/"),
            ]),
        }],
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

const FINE: &[&str] = &[
    "apple",
    "aquarium_fish",
    "baby",
    "bear",
    "beaver",
    "bed",
    "bee",
    "beetle",
    "bicycle",
    "bottle",
    "bowl",
    "boy",
    "bridge",
    "bus",
    "butterfly",
    "camel",
    "can",
    "castle",
    "caterpillar",
    "cattle",
    "chair",
    "chimpanzee",
    "clock",
    "cloud",
    "cockroach",
    "couch",
    "crab",
    "crocodile",
    "cup",
    "dinosaur",
    "dolphin",
    "elephant",
    "flatfish",
    "forest",
    "fox",
    "girl",
    "hamster",
    "house",
    "kangaroo",
    "keyboard",
    "lamp",
    "lawn_mower",
    "leopard",
    "lion",
    "lizard",
    "lobster",
    "man",
    "maple_tree",
    "motorcycle",
    "mountain",
    "mouse",
    "mushroom",
    "oak_tree",
    "orange",
    "orchid",
    "otter",
    "palm_tree",
    "pear",
    "pickup_truck",
    "pine_tree",
    "plain",
    "plate",
    "poppy",
    "porcupine",
    "possum",
    "rabbit",
    "raccoon",
    "ray",
    "road",
    "rocket",
    "rose",
    "sea",
    "seal",
    "shark",
    "shrew",
    "skunk",
    "skyscraper",
    "snail",
    "snake",
    "spider",
    "squirrel",
    "streetcar",
    "sunflower",
    "sweet_pepper",
    "table",
    "tank",
    "telephone",
    "television",
    "tiger",
    "tractor",
    "train",
    "trout",
    "tulip",
    "turtle",
    "wardrobe",
    "whale",
    "willow_tree",
    "wolf",
    "woman",
    "worm",
];

/// The dataset of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
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
        for entry in ENTRIES {
            let Entry { name, .. } = entry;
            assert_eq!(names().filter(|other| other == name).count(), 1, "{name}");
            assert_eq!(entry.mean.len(), entry.shape.channels, "{name}");
            assert_eq!(entry.std.len(), entry.shape.channels, "{name}");
            assert!(
                [0, entry.classes].contains(&entry.class_names.len()),
                "{name}"
            );
            assert_eq!(entry.folders.is_empty(), entry.is_built_in(), "{name}");
            let files = [&entry.train, &entry.test].into_iter().flatten();
            for file in files.flat_map(|part| part.files) {
                assert!(
                    file.known.iter().all(|known| is_sum(known.sha256)),
                    "{name}"
                );
            }
            for download in entry.downloads {
                assert!(is_sum(download.sha256), "{name}");
                let folder = entry.folders[0];
                let inside = |path: &str| path.starts_with(folder) && !path.contains("..");
                match download.target {
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
        for entry in ENTRIES {
            for download in entry.downloads {
                let Target::File(path) = download.target else {
                    continue;
                };
                let part = download.part.expect("a single file belongs to a part");
                let files = entry.part(part).expect("the part exists").files;
                let found = files.iter().any(|file| {
                    let plain = format!("{}/{}", entry.folders[0], file.path);
                    path == plain || path == plain + ".gz"
                });
                assert!(found, "{path}");
            }
        }
    }
}
