//! A part of Fashion-MNIST that comes with the program: 600 training and 200 test images of every
//! class, the images of a class chosen at random (`assets/fashion-mnist-mini/make.rs` made the
//! files), in the order of the original.
//!
//! Fashion-MNIST is Copyright (c) 2017 Zalando SE, under the MIT license; the files are from
//! Debian's package `dataset-fashion-mnist`. They are gzipped IDX files like the original ones, 3.5
//! MB together; decoding takes some tens of milliseconds.

use flate2::read::GzDecoder;

use crate::error::{Error, Result};
use crate::formats::idx;
use crate::image_set::{ImageSet, Shape};
use crate::library::Part;
use crate::manifest::Entry;

/// The license of the images that are built in.
pub const FASHION_MNIST_LICENSE: &str = include_str!("../assets/fashion-mnist-mini/LICENSE");

const TRAIN: [&[u8]; 2] = [
    include_bytes!("../assets/fashion-mnist-mini/train-images-idx3-ubyte.gz"),
    include_bytes!("../assets/fashion-mnist-mini/train-labels-idx1-ubyte.gz"),
];
const TEST: [&[u8]; 2] = [
    include_bytes!("../assets/fashion-mnist-mini/t10k-images-idx3-ubyte.gz"),
    include_bytes!("../assets/fashion-mnist-mini/t10k-labels-idx1-ubyte.gz"),
];

/// Decodes a part.
pub(crate) fn read(entry: &Entry, part: Part) -> Result<ImageSet> {
    let [images, labels] = match part {
        Part::Train => TRAIN,
        Part::Test => TEST,
    };
    let array = |bytes| idx::read(GzDecoder::new(bytes)).map_err(Error::malformed("(built in)"));
    let (images, labels) = (array(images)?, array(labels)?);
    let names = entry.class_names.iter().map(ToString::to_string).collect();
    let labels = labels.data.into_iter().map(u32::from).collect();
    let shape = Shape::new(1, 28, 28);
    ImageSet::new(
        entry.name,
        shape,
        entry.classes,
        Some(names),
        images.data,
        labels,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::sha256;
    use crate::manifest;

    #[test]
    fn every_class_has_its_share_and_the_files_are_small() {
        let entry = manifest::find("fashion-mnist-mini").unwrap();
        for (part, per_class) in [(Part::Train, 600), (Part::Test, 200)] {
            let set = read(entry, part).unwrap();
            let mut counts = [0; 10];
            for &label in set.labels() {
                counts[label as usize] += 1;
            }
            assert_eq!(counts, [per_class; 10]);
            // not sorted by class: a split by index must not leave out a class
            let tail = &set.labels()[set.len() - set.len() / 10..];
            assert!((0..10).all(|class| tail.contains(&class)));
        }
        let bytes: usize = TRAIN.iter().chain(&TEST).map(|file| file.len()).sum();
        assert!(bytes <= 4 << 20, "{bytes}");
        assert!(FASHION_MNIST_LICENSE.contains("Zalando"));
    }

    #[test]
    fn the_images_are_those_of_fashion_mnist() {
        let entry = manifest::find("fashion-mnist-mini").unwrap();
        let sums =
            [Part::Train, Part::Test].map(|part| sha256(read(entry, part).unwrap().pixels()));
        assert_eq!(sums, PIXELS);
    }

    /// Sums of all pixels. Every image was looked up in the full set, with its label, when they
    /// were taken down.
    const PIXELS: [&str; 2] = [
        "74a9e034022a40b33e45684e078abd8ac81995c28dc354749cfcf2e0c457a268",
        "b7e9d189256ebd0dea740d4bcf735527534b891f38dc307fd36f69577e5b4bd1",
    ];
}
