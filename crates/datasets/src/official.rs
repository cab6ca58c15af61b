//! The official layouts: from the files of the manifest to decoded images.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use crate::check::{Opened, Verified, judge, locate};
use crate::digest::sha256;
use crate::disk;
use crate::error::{Error, Malformed, Result};
use crate::formats::mat::{self, Numbers};
use crate::formats::picture::Picture;
use crate::formats::{cifar, idx};
use crate::image_set::{ImageSet, Shape};
use crate::manifest::{Entry, File, Files, Layout};

/// Pixels, labels and how each file was checked.
struct Decoded {
    pixels: Vec<u8>,
    labels: Vec<u32>,
    class_names: Option<Vec<String>>,
    verified: Vec<Verified>,
}

/// Reads the files of a part from a folder. Without `verify`, sums are not compared and there may
/// be more or fewer images.
pub(crate) fn read(
    entry: &'static Entry,
    files: &'static Files,
    folder: &Path,
    verify: bool,
) -> Result<ImageSet> {
    let decoded = match entry.layout {
        Layout::Idx {
            first_label,
            transposed,
        } => read_idx(entry, files, folder, verify, first_label, transposed)?,
        Layout::Cifar { label_bytes } => read_cifar(entry, files, folder, verify, label_bytes)?,
        Layout::Svhn => read_svhn(entry, files, folder, verify)?,
        Layout::TinyImageNet => read_tiny_imagenet(entry, files, folder, verify)?,
        Layout::Embedded | Layout::Drawn => unreachable!("built-in sets have no files"),
    };
    let count = decoded.labels.len();
    if verify && count != files.images {
        return Err(Error::size(folder, "number of images", count, files.images));
    }
    let names = decoded.class_names.or_else(|| {
        let names = entry.class_names.iter().map(ToString::to_string);
        Some(names.collect()).filter(|names: &Vec<String>| !names.is_empty())
    });
    let set = ImageSet::new(
        entry.name,
        entry.shape,
        entry.classes,
        names,
        decoded.pixels,
        decoded.labels,
    )?;
    let notes = decoded.verified.into_iter().filter_map(Verified::note);
    Ok(set.with_notes(notes.map(Into::into)))
}

/// Compares the sums of the files of a part, without decoding.
pub(crate) fn verify(files: &'static Files, folder: &Path) -> Vec<(PathBuf, Result<Verified>)> {
    let check = |file: &'static File| {
        let path = locate(folder, file).unwrap_or_else(|| folder.join(file.path));
        (path, verify_file(folder, file))
    };
    files.files.iter().map(check).collect()
}

/// Compares the sum of one file, without decoding.
pub(crate) fn verify_file(folder: &Path, file: &'static File) -> Result<Verified> {
    let path = folder.join(file.path);
    if path.is_dir() {
        verify_folder(&path, file)
    } else {
        Opened::new(folder, file, true).and_then(Opened::finish)
    }
}

/// The pictures of a folder in the order of the numbers in their names, as the annotations have
/// them.
fn verify_folder(folder: &Path, file: &File) -> Result<Verified> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort_by_key(|name| (name.len(), name.clone()));
    let mut sums = String::new();
    for name in names {
        let path = folder.join(&name);
        let bytes = disk::read_plain(&path).map_err(Error::io("read", &path))?;
        sums += &format!("{}  {name}\n", sha256(&bytes));
    }
    judge(folder, file, sha256(sums.as_bytes()))
}

/// The label that is stored as `label`, counted from `first`.
fn class(entry: &Entry, path: &Path, index: usize, label: i64, first: i64) -> Result<u32> {
    let classes = entry.classes as i64;
    if (first..first + classes).contains(&label) {
        return Ok((label - first) as u32);
    }
    Err(Error::Label {
        name: path.display().to_string(),
        index,
        label,
        allowed: format!("{first}..={}", first + classes - 1),
    })
}

pub(crate) fn wrong_shape(path: &Path, found: &[usize], expected: impl Into<String>) -> Error {
    Error::size(path, "shape", format!("{found:?}"), expected.into())
}

/// Bytes of an array of a part whose sums are compared: pixels, labels as wide as they come, names.
/// Whatever announces more is another file, and need not be inflated to be known as one.
fn most_bytes(entry: &Entry, files: &Files, verify: bool) -> u64 {
    const NAMES: u64 = 1 << 16;
    if !verify {
        return u64::MAX;
    }
    let each = entry.shape.len() as u64 + 8;
    files.images as u64 * each + NAMES
}

fn read_idx(
    entry: &Entry,
    files: &'static Files,
    folder: &Path,
    verify: bool,
    first_label: u8,
    transposed: bool,
) -> Result<Decoded> {
    let [images_file, labels_file] = &files.files[..] else {
        unreachable!("an IDX set has two files a part");
    };
    let most = most_bytes(entry, files, verify);
    let array = |file: &'static File| -> Result<_> {
        let mut opened = Opened::new(folder, file, verify)?;
        let path = opened.path.clone();
        let array = idx::read_within(&mut opened.content, most).map_err(Error::malformed(&path))?;
        Ok((array, opened.finish()?, path))
    };
    let (images, images_verified, path) = array(images_file)?;
    let Shape { height, width, .. } = entry.shape;
    let count = match images.dimensions[..] {
        [count, h, w] if (h, w) == (height, width) => count,
        _ => {
            let expected = format!("[{}, {height}, {width}]", files.images);
            return Err(wrong_shape(&path, &images.dimensions, expected));
        }
    };
    let (labels, labels_verified, path) = array(labels_file)?;
    if labels.dimensions != [count] {
        return Err(wrong_shape(&path, &labels.dimensions, format!("[{count}]")));
    }
    let mut pixels = images.data;
    if transposed {
        transpose(&mut pixels, entry.shape);
    }
    let labels = labels.data.iter().enumerate();
    Ok(Decoded {
        pixels,
        labels: labels
            .map(|(index, &label)| class(entry, &path, index, label.into(), first_label.into()))
            .collect::<Result<_>>()?,
        class_names: None,
        verified: vec![images_verified, labels_verified],
    })
}

/// Exchanges rows and columns of every image.
fn transpose(pixels: &mut [u8], shape: Shape) {
    let Shape { height, width, .. } = shape;
    let mut plane = vec![0; shape.plane()];
    for image in pixels.chunks_exact_mut(shape.plane()) {
        for (i, &pixel) in image.iter().enumerate() {
            // the file runs down the columns
            plane[i % height * width + i / height] = pixel;
        }
        image.copy_from_slice(&plane);
    }
}

fn read_cifar(
    entry: &Entry,
    files: &'static Files,
    folder: &Path,
    verify: bool,
    label_bytes: usize,
) -> Result<Decoded> {
    let mut decoded = Decoded {
        pixels: Vec::new(),
        labels: Vec::new(),
        class_names: None,
        verified: Vec::new(),
    };
    for file in &files.files {
        let mut opened = Opened::new(folder, file, verify)?;
        let (pixels, labels) = cifar::read(&mut opened.content, label_bytes)
            .map_err(Error::malformed(&opened.path))?;
        for (index, &label) in labels.iter().enumerate() {
            let label = class(entry, &opened.path, index, label.into(), 0)?;
            decoded.labels.push(label);
        }
        decoded.verified.push(opened.finish()?);
        if decoded.pixels.is_empty() {
            decoded.pixels = pixels;
            decoded
                .pixels
                .reserve_exact(decoded.pixels.len() * (files.files.len() - 1));
        } else {
            decoded.pixels.extend_from_slice(&pixels);
        }
    }
    Ok(decoded)
}

fn read_svhn(entry: &Entry, files: &'static Files, folder: &Path, verify: bool) -> Result<Decoded> {
    let [file] = &files.files[..] else {
        unreachable!("a part of SVHN is one file");
    };
    let mut opened = Opened::new(folder, file, verify)?;
    let path = opened.path.clone();
    let most = most_bytes(entry, files, verify);
    let mut variables =
        mat::read_within(&mut opened.content, most).map_err(Error::malformed(&path))?;
    let verified = opened.finish()?;
    let mut take = |name: &'static str| -> Result<_> {
        let place = variables.iter().position(|variable| variable.name == name);
        let missing = || Malformed::new(name, 0, "there is no such variable");
        let place = place.ok_or_else(missing).map_err(Error::malformed(&path))?;
        Ok(variables.swap_remove(place))
    };
    let (x, y) = (take("X")?, take("y")?);
    let shape = entry.shape;
    let (count, columns) = match (&x.dimensions[..], &x.numbers) {
        (&[h, w, c, n], Numbers::Bytes(bytes)) if Shape::new(c, h, w) == shape => (n, bytes),
        // MATLAB drops a last dimension of one
        (&[h, w, c], Numbers::Bytes(bytes)) if Shape::new(c, h, w) == shape => (1, bytes),
        (dimensions, _) => {
            let Shape {
                channels,
                height,
                width,
            } = shape;
            let expected = format!("[{height}, {width}, {channels}, {}] of bytes", files.images);
            return Err(wrong_shape(&path, dimensions, expected));
        }
    };
    if y.numbers.len() != count {
        return Err(wrong_shape(&path, &y.dimensions, format!("[{count}, 1]")));
    }
    // within an image the file runs down the columns, then through the channels
    let mut pixels = columns.clone();
    let plane = Shape::new(1, shape.height, shape.width);
    transpose(&mut pixels, plane);
    let labels: Vec<f64> = match y.numbers {
        Numbers::Bytes(bytes) => bytes.into_iter().map(f64::from).collect(),
        Numbers::Doubles(numbers) => numbers,
    };
    let labels = labels.iter().enumerate().map(|(index, &label)| {
        // a label that is not whole is out of range
        let label = if label.fract() == 0.0 {
            label as i64
        } else {
            -1
        };
        Ok(match class(entry, &path, index, label, 1)? {
            9 => 0,
            class => class + 1,
        })
    });
    Ok(Decoded {
        labels: labels.collect::<Result<_>>()?,
        pixels,
        class_names: None,
        verified: vec![verified],
    })
}

fn read_tiny_imagenet(
    entry: &Entry,
    files: &'static Files,
    folder: &Path,
    verify: bool,
) -> Result<Decoded> {
    let [ids_file, annotations_file, pictures] = &files.files[..] else {
        unreachable!("the validation part of Tiny ImageNet is two lists and a folder");
    };
    let text = |file: &'static File| -> Result<_> {
        let mut opened = Opened::new(folder, file, verify)?;
        let path = opened.path.clone();
        let text =
            std::io::read_to_string(&mut opened.content).map_err(Error::io("read", &path))?;
        Ok((text, opened.finish()?, path))
    };
    let (ids, ids_verified, path) = text(ids_file)?;
    let mut ids: Vec<&str> = ids.split_whitespace().collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() != entry.classes {
        let (found, expected) = (ids.len(), entry.classes);
        return Err(Error::size(path, "number of classes", found, expected));
    }
    let (annotations, annotations_verified, path) = text(annotations_file)?;
    let mut names = Vec::new();
    let mut labels = Vec::new();
    let mut offset = 0;
    for line in annotations.split_inclusive('\n') {
        let wrong = |field, problem: String| {
            Error::malformed(&path)(Malformed::new(field, offset as u64, problem))
        };
        let mut fields = line.trim_end().split('\t');
        let (Some(name), Some(id)) = (fields.next(), fields.next()) else {
            return Err(wrong("line", "expected a file name and a class id".into()));
        };
        if name.is_empty() || name.contains(['/', '\\']) {
            return Err(wrong(
                "file name",
                format!("{name:?}, expected a name without folders"),
            ));
        }
        let label = ids
            .binary_search(&id)
            .map_err(|_| wrong("class id", format!("{id:?} is not in wnids.txt")))?;
        names.push(name);
        labels.push(label as u32);
        offset += line.len();
    }
    let images = folder.join(pictures.path);
    let read = pictures_in(&images, &names, entry.shape, verify)?;
    let images_verified = match read.sum {
        Some(sum) => judge(&images, pictures, sum)?,
        None => Verified::Unchecked,
    };
    Ok(Decoded {
        pixels: read.pixels,
        labels,
        class_names: Some(ids.iter().map(ToString::to_string).collect()),
        verified: vec![ids_verified, annotations_verified, images_verified],
    })
}

struct Pictures {
    pixels: Vec<u8>,
    /// Sum of the list of sums.
    sum: Option<String>,
}

/// Decodes the named pictures of a folder, a share on every core.
fn pictures_in(folder: &Path, names: &[&str], shape: Shape, verify: bool) -> Result<Pictures> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = names.len().div_ceil(cores).max(1);
    let decode = |names: &[&str]| -> Result<(Vec<u8>, String)> {
        let mut pixels = Vec::with_capacity(names.len() * shape.len());
        let mut sums = String::new();
        for name in names {
            let path = folder.join(name);
            let bytes = disk::read_plain(&path).map_err(Error::io("read", &path))?;
            if verify {
                sums += &format!("{}  {name}\n", sha256(&bytes));
            }
            let picture = Picture::decode(&bytes).map_err(Error::malformed(&path))?;
            pixels.extend(
                picture
                    .resized_to(shape.height, shape.width)
                    .planes(shape.channels),
            );
        }
        Ok((pixels, sums))
    };
    let parts = thread::scope(|scope| {
        let threads: Vec<_> = names
            .chunks(share)
            .map(|names| scope.spawn(move || decode(names)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("decoding does not panic"))
            .collect::<Result<Vec<_>>>()
    })?;
    let (pixels, sums): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    Ok(Pictures {
        pixels: pixels.concat(),
        sum: verify.then(|| sha256(sums.concat().as_bytes())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::mat::tests::Writer;
    use crate::image_set::ImageSet;
    use crate::library::Part;
    use crate::testing::{assert_ends, assert_says, gzip, library};
    use std::sync::Arc;

    /// A set of one's own size, whose sums are not those of the official one.
    fn load(folder: &Path, name: &str, part: Part) -> Result<Arc<ImageSet>> {
        library(folder).unverified().load(name, part)
    }

    /// A part whose pixel in row r and column c is 7 r + c and whose labels count up from `first`.
    fn write_idx(folder: &Path, stem: &str, images: usize, first: u8, classes: usize) {
        fs::create_dir_all(folder).unwrap();
        let pixels = (0..images * 784).map(|i| (i % 784 / 28 * 7 + i % 28) as u8);
        let pixels = idx::write(&idx::Idx {
            dimensions: vec![images, 28, 28],
            data: pixels.collect(),
        });
        let labels = idx::write(&idx::Idx {
            dimensions: vec![images],
            data: (0..images).map(|i| first + (i % classes) as u8).collect(),
        });
        // one file gzipped, the other plain
        let write = |name: String, bytes| fs::write(folder.join(name), bytes).unwrap();
        write(format!("{stem}-images-idx3-ubyte.gz"), gzip(&pixels));
        write(format!("{stem}-labels-idx1-ubyte"), labels);
    }

    #[test]
    fn idx_sets_keep_their_rows() {
        let folder = tempfile::tempdir().unwrap();
        write_idx(&folder.path().join("fashion-mnist"), "train", 12, 0, 10);
        let set = load(folder.path(), "fashion-mnist", Part::Train).unwrap();
        assert_eq!((set.len(), set.classes(), set.labels()[11]), (12, 10, 1));
        // row 3, column 5 and row 5, column 3
        let image = set.image(2);
        assert_eq!((image[3 * 28 + 5], image[5 * 28 + 3]), (26, 38));
        assert_eq!(set.class_names().unwrap()[9], "Ankle boot");
        assert_eq!(set.notes(), ["unverified: the checksums were not compared"]);
    }

    #[test]
    fn a_file_that_inflates_beyond_its_part_is_refused_first() {
        let folder = tempfile::tempdir().unwrap();
        let raw = folder.path().join("fashion-mnist");
        write_idx(&raw, "train", 12, 0, 10);
        // announces a gigabyte
        let mut file = [[0, 0, 8, 3], [0, 20, 0, 0], [0, 0, 0, 28], [0, 0, 0, 28]].concat();
        file.resize(16 + (1 << 20), 0);
        fs::write(raw.join("train-images-idx3-ubyte.gz"), gzip(&file)).unwrap();
        let announced = "1027604480 bytes are announced, expected at most 47585536";
        let official = library(folder.path()).load("fashion-mnist", Part::Train);
        assert_says(official, announced);
        // sets of one's own size are read as far as they go
        let own = load(folder.path(), "fashion-mnist", Part::Train);
        assert_says(own, "1048576");
    }

    #[test]
    fn emnist_letters_are_turned_and_counted_from_one() {
        let folder = tempfile::tempdir().unwrap();
        let emnist = folder.path().join("emnist");
        write_idx(&emnist, "emnist-letters-test", 30, 1, 26);
        let set = load(folder.path(), "emnist-letters", Part::Test).unwrap();
        // what the file has in row 5, column 3 belongs into row 3, column 5
        let (image, labels) = (set.image(2), set.labels());
        assert_eq!((image[3 * 28 + 5], image[5 * 28 + 3]), (38, 26));
        assert_eq!((labels[0], labels[25], labels[26]), (0, 25, 0));
        assert_eq!(set.class_names().unwrap()[25], "Z");
        // a label 0 does not exist there
        write_idx(&emnist, "emnist-letters-train", 2, 0, 26);
        let train = load(folder.path(), "emnist-letters", Part::Train);
        assert_ends(train, "label 0 of image 0 is not in 1..=26");
    }

    #[test]
    fn a_content_that_is_not_the_published_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        write_idx(&folder.path().join("FashionMNIST/raw"), "train", 12, 0, 10);
        let loaded = library(folder.path()).load("fashion-mnist", Part::Train);
        let error = loaded.unwrap_err();
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
        // where the sum is not known, the number of images must be right
        let emnist = folder.path().join("emnist");
        write_idx(&emnist, "emnist-letters-test", 30, 1, 26);
        let loaded = library(folder.path()).load("emnist-letters", Part::Test);
        assert_says(loaded, "number of images is 30, expected 20800");
    }

    #[test]
    fn a_damaged_wrapper_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mnist");
        write_idx(&path, "t10k", 3, 0, 10);
        let file = path.join("t10k-images-idx3-ubyte.gz");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        let cut = library(folder.path()).load("mnist", Part::Test);
        assert_says(cut, "t10k-images-idx3-ubyte.gz: ");
        // labels of another length
        write_idx(&path, "t10k", 3, 0, 10);
        let labels = path.join("t10k-labels-idx1-ubyte");
        fs::write(labels, [0, 0, 8, 1, 0, 0, 0, 1, 5]).unwrap();
        let other = load(folder.path(), "mnist", Part::Test);
        assert_says(other, "shape is [1], expected [3]");
    }

    #[test]
    fn cifar_batches_follow_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("cifar-10-batches-bin");
        fs::create_dir(&root).unwrap();
        for batch in 1..=5 {
            // one record: red is the row, green the column, blue the batch
            let mut record = vec![batch];
            record.extend((0..1024).map(|i| (i / 32) as u8));
            record.extend((0..1024).map(|i| (i % 32) as u8));
            record.extend([batch; 1024]);
            fs::write(root.join(format!("data_batch_{batch}.bin")), record).unwrap();
        }
        let set = load(folder.path(), "cifar-10", Part::Train).unwrap();
        assert_eq!(set.labels(), [1, 2, 3, 4, 5]);
        let at = |image: usize, channel: usize, row: usize, column: usize| {
            set.image(image)[channel * 1024 + row * 32 + column]
        };
        assert_eq!([at(3, 0, 2, 9), at(3, 1, 2, 9), at(3, 2, 2, 9)], [2, 9, 4]);
        assert_eq!(set.class_names().unwrap()[5], "dog");
        fs::write(root.join("data_batch_3.bin"), vec![10; 3073]).unwrap();
        let problem = "data_batch_3.bin: label 10 of image 0 is not in 0..=9";
        assert_ends(load(folder.path(), "cifar-10", Part::Train), problem);
    }

    #[test]
    fn svhn_is_turned_upright_and_ten_is_zero() {
        for compressed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("svhn");
            fs::create_dir(&root).unwrap();
            let writer = Writer {
                big_endian: false,
                compressed,
            };
            // X[row, column, channel, image], the row fastest
            let x: Vec<u8> = (0..2 * 3072)
                .map(|i| (i % 32 * 5 + i / 32 % 32 + 50 * (i / 1024 % 3) + 7 * (i / 3072)) as u8)
                .collect();
            let mut file = writer.header();
            file.extend(writer.variable("X", 9, &[32, 32, 3, 2], 2, &x));
            file.extend(writer.variable("y", 6, &[2, 1], 2, &[10, 4]));
            fs::write(root.join("test_32x32.mat"), &file).unwrap();
            let set = load(folder.path(), "svhn", Part::Test).unwrap();
            assert_eq!(set.labels(), [0, 4]);
            // row 3, column 17, green, second image
            let expected = (3 * 5 + 17 + 50 + 7) as u8;
            assert_eq!(set.image(1)[1024 + 3 * 32 + 17], expected);
            let mut short = writer.header();
            short.extend(writer.variable("X", 9, &[32, 32, 3, 2], 2, &x));
            fs::write(root.join("test_32x32.mat"), &short).unwrap();
            let problem = "y at byte 0: there is no such variable";
            assert_says(load(folder.path(), "svhn", Part::Test), problem);
        }
    }

    /// The decoder may round otherwise than the one that the expected values come from; see
    /// [`crate::formats::picture`].
    const JPEG_ROUNDING: u8 = 3;

    #[test]
    fn tiny_imagenet_is_resized_and_gray_becomes_color() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tiny-imagenet-200");
        fs::create_dir_all(root.join("val/images")).unwrap();
        let ids: Vec<String> = (0..200).rev().map(|id| format!("n{id:08}")).collect();
        fs::write(root.join("wnids.txt"), ids.join("\n")).unwrap();
        fs::write(
            root.join("val/val_annotations.txt"),
            "val_0.JPEG\tn00000007\t0\t0\t1\t1\nval_1.JPEG\tn00000199\t0\t0\t1\t1\nval_2.JPEG\tn00000000\t0\t0\t1\t1\n",
        )
        .unwrap();
        let pictures: [&[u8]; 3] = [
            include_bytes!("../tests/fixtures/color.jpeg"),
            include_bytes!("../tests/fixtures/gray.jpeg"),
            include_bytes!("../tests/fixtures/wide.jpeg"),
        ];
        for (index, bytes) in pictures.iter().enumerate() {
            fs::write(root.join(format!("val/images/val_{index}.JPEG")), bytes).unwrap();
        }
        let set = load(folder.path(), "tiny-imagenet", Part::Test).unwrap();
        assert_eq!(set.labels(), [7, 199, 0]);
        assert_eq!(set.class_names().unwrap()[7], "n00000007");
        // printed by tests/fixtures/make.py: image, row, column, red, green, blue
        let expected = [
            (0, 3, 17, [87, 27, 58]),
            (0, 17, 3, [16, 135, 58]),
            (0, 30, 9, [47, 236, 160]),
            (0, 9, 30, [157, 72, 121]),
            (1, 3, 17, [55, 55, 55]),
            (1, 17, 3, [56, 56, 56]),
            (1, 30, 9, [158, 158, 158]),
            (1, 9, 30, [121, 121, 121]),
            (2, 3, 17, [132, 25, 184]),
            (2, 17, 3, [60, 135, 136]),
            (2, 30, 9, [89, 236, 68]),
            (2, 9, 30, [199, 73, 138]),
        ];
        for (image, row, column, color) in expected {
            for (channel, value) in color.into_iter().enumerate() {
                let found = set.image(image)[channel * 1024 + row * 32 + column];
                let place = (image, row, column, channel);
                assert!(
                    found.abs_diff(value) <= JPEG_ROUNDING,
                    "{place:?}: {found}, {value}"
                );
            }
        }
        let annotations = root.join("val/val_annotations.txt");
        let with = |text: &str| {
            fs::write(&annotations, text).unwrap();
            load(folder.path(), "tiny-imagenet", Part::Test)
        };
        let unknown = with("val_0.JPEG\tn00000007\nval_1.JPEG\tn9\n");
        assert_ends(unknown, "class id at byte 21: \"n9\" is not in wnids.txt");
        for (text, part) in [
            ("../secret\tn00000007\n", "expected a name without folders"),
            ("val_0.JPEG\n", "expected a file name and a class id"),
            ("val_7.JPEG\tn00000007\n", "cannot read"),
        ] {
            assert_says(with(text), part);
        }
    }

    #[test]
    fn a_transposed_image_is_turned() {
        // columns (1 4), (2 5), (3 6)
        let mut pixels = vec![1, 4, 2, 5, 3, 6];
        transpose(&mut pixels, Shape::new(1, 2, 3));
        assert_eq!(pixels, [1, 2, 3, 4, 5, 6]);
    }
}
