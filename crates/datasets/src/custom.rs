//! Custom datasets: a folder of pictures, or arrays of NumPy.
//!
//! - A folder with `train` and `test` in it, and in each a folder of pictures per class (PNG, JPEG,
//!   BMP, GIF, TIFF, WebP). The classes are numbered in the order of their sorted names. All
//!   pictures must have the same size, unless the form that is asked for gives them one; gray ones
//!   become colored if there is a colored one. What cannot be decoded is left out, with a note; a
//!   class of which nothing is left is an error.
//! - A folder that has the class folders itself is a test part.
//! - An NPZ file with `train_images`, `train_labels`, `test_images`, `test_labels` (or `x_train`,
//!   `y_train`, `x_test`, `y_test`); with `images` and `labels` alone (or `x` and `y`) it is a test
//!   part.
//! - A folder with these names as NPY files.
//!
//! Images are bytes `[n, height, width]`, `[n, channels, height, width]` or `[n, height, width,
//! channels]`, with 1 or 3 channels; labels are whole numbers from 0, `[n]` or `[n, 1]`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Malformed, Result};
use crate::form::Form;
use crate::formats::npy::{self, Array, Npz, Values};
use crate::formats::picture::{KINDS, Picture};
use crate::image_set::{ImageSet, Shape};
use crate::library::Part;
use crate::official::wrong_shape;

/// Largest label of an array: more classes than any classifier here has, and few enough to count.
const LARGEST_LABEL: i64 = 65_535;

/// Reads a part of the dataset at `path`, its images in this form.
pub(crate) fn read(path: &Path, part: Part, form: Form) -> Result<ImageSet> {
    if let Some(set) = read_arrays(path, part)? {
        return form.apply(set);
    }
    pictures(path, part, form)
}

/// The part, if the dataset is made of arrays.
fn read_arrays(path: &Path, part: Part) -> Result<Option<ImageSet>> {
    if path.is_file() {
        let mut npz = Npz::open(path)?;
        let names: Vec<String> = npz.names().map(Into::into).collect();
        return arrays(path, part, &names, &mut |name| {
            let array = npz.array(name).map_err(Error::malformed(path))?;
            Ok((
                array.expect("the name is one of the archive's"),
                path.to_owned(),
            ))
        })
        .map(Some);
    }
    let entries = entries(path)?;
    let arrays_here: Vec<String> = entries
        .iter()
        .filter(|entry| entry.extension().is_some_and(|end| end == "npy"))
        .filter_map(|entry| Some(entry.file_stem()?.to_str()?.to_owned()))
        .collect();
    if arrays_here.is_empty() {
        return Ok(None);
    }
    arrays(path, part, &arrays_here, &mut |name| {
        let file = path.join(format!("{name}.npy"));
        Ok((npy::open(&file)?, file))
    })
    .map(Some)
}

/// What is in a folder, sorted; hidden files are left out.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let path = entry.map_err(Error::io("read", folder))?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn no_such_part(path: &Path, part: Part, reason: &str) -> Error {
    Error::NoSuchPart {
        name: path.display().to_string(),
        part: part.name(),
        reason: reason.into(),
    }
}

fn pictures(path: &Path, part: Part, form: Form) -> Result<ImageSet> {
    let (root, classes) = class_folders(path, part)?;
    let mut left_out = LeftOut::default();
    let (pictures, labels) = decode_pictures(&root, &classes, form, &mut left_out)?;
    let Some(sample) = pictures.first() else {
        let reason = format!("no class folder has a {KINDS} file");
        return Err(no_such_part(path, part, &reason));
    };
    let most = pictures.iter().map(|p| p.shape().channels).max();
    let channels = form.channels.or(most).unwrap_or(1);
    let shape = Shape {
        channels,
        ..sample.shape()
    };
    let pixels = pictures.iter().flat_map(|p| p.planes(channels)).collect();
    let set = ImageSet::new(
        file_name(path),
        shape,
        classes.len(),
        Some(classes),
        pixels,
        labels,
    )?;
    Ok(set.with_notes(left_out.notes(path, pictures.len())))
}

/// What lies in the folders of a part and is not used.
#[derive(Default)]
struct LeftOut {
    /// Pictures by their endings that cannot be decoded, and why.
    damaged: Vec<(PathBuf, Malformed)>,
    /// Files of other kinds, and what is not in the folder of a class, or too deep in it.
    others: Vec<PathBuf>,
}

/// The first five of these names, and how many more there are.
pub fn some_of(names: &[String]) -> String {
    const NAMED: usize = 5;
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    names[..names.len().min(NAMED)].join(", ") + &more
}

impl LeftOut {
    /// Remarks on a dataset at `path`, of which so many pictures were read.
    fn notes(&self, path: &Path, read: usize) -> Vec<String> {
        let short = |file: &Path| {
            file.strip_prefix(path)
                .unwrap_or(file)
                .display()
                .to_string()
        };
        let damaged = self.damaged.iter();
        let damaged = damaged.map(|(file, why)| format!("{} ({why})", short(file)));
        let others = self.others.iter().map(|file| match file.is_dir() {
            true => format!("{}/", short(file)),
            false => short(file),
        });
        let of = read + self.damaged.len();
        let all = [
            (
                format!("{} of {of} pictures cannot be read", self.damaged.len()),
                damaged.collect::<Vec<String>>(),
            ),
            (
                format!("no {KINDS} file in the folder of a class"),
                others.collect(),
            ),
        ];
        let told = all.into_iter().filter(|(_, names)| !names.is_empty());
        told.map(|(what, names)| format!("{what}, left out: {}", some_of(&names)))
            .collect()
    }
}

/// The folder that holds the class folders of a part, and the sorted names of all classes; a class
/// is numbered alike in both parts.
fn class_folders(path: &Path, part: Part) -> Result<(PathBuf, Vec<String>)> {
    let parts = ["train", "test"].map(|name| path.join(name));
    let parts: Vec<&Path> = parts
        .iter()
        .map(PathBuf::as_path)
        .filter(|part| part.is_dir())
        .collect();
    let root = if parts.is_empty() {
        if part == Part::Train {
            let reason = "put the classes into the folders train and test";
            return Err(no_such_part(path, part, reason));
        }
        path.to_owned()
    } else {
        path.join(part.name())
    };
    if !root.is_dir() {
        let reason = format!("there is no folder {}", root.display());
        return Err(no_such_part(path, part, &reason));
    }
    let mut classes = BTreeSet::new();
    for holder in if parts.is_empty() {
        vec![&*root]
    } else {
        parts
    } {
        let folders = entries(holder)?.into_iter().filter(|path| path.is_dir());
        classes.extend(folders.map(|path| file_name(&path)));
    }
    Ok((root, classes.into_iter().collect()))
}

/// The pictures of all classes that are there, of one size, and their labels.
fn decode_pictures(
    root: &Path,
    classes: &[String],
    form: Form,
    left_out: &mut LeftOut,
) -> Result<(Vec<Picture>, Vec<u32>)> {
    let size = |picture: &Picture| {
        let Shape { height, width, .. } = picture.shape();
        format!("{height}x{width}")
    };
    let mut pictures: Vec<Picture> = Vec::new();
    let mut labels = Vec::new();
    let mut first: Option<PathBuf> = None;
    let outside = entries(root)?.into_iter().filter(|path| !path.is_dir());
    left_out.others.extend(outside);
    for (label, class) in classes.iter().enumerate() {
        let folder = root.join(class);
        if !folder.is_dir() {
            continue;
        }
        let (before, damaged) = (pictures.len(), left_out.damaged.len());
        for file in entries(&folder)? {
            if !Picture::has_ending(&file) {
                left_out.others.push(file);
                continue;
            }
            let picture = match Picture::open(&file) {
                Err(Error::Malformed { path, malformed }) => {
                    left_out.damaged.push((path, malformed));
                    continue;
                }
                opened => form.sized(opened?),
            };
            if let (Some(known), Some(first)) = (pictures.first(), &first)
                && size(known) != size(&picture)
            {
                let (known, first) = (size(known), first.display());
                let expected =
                    format!("{known} like {first}; data.resize gives all of them one size");
                let found = size(&picture);
                return Err(Error::size(file, "size of the picture", found, expected));
            }
            first.get_or_insert(file);
            pictures.push(picture);
            labels.push(label as u32);
        }
        // a class that vanishes is no remark
        if let (true, Some((path, malformed))) =
            (pictures.len() == before, left_out.damaged.get(damaged))
        {
            return Err(Error::malformed(path)(malformed.clone()));
        }
    }
    Ok((pictures, labels))
}

type Load<'a> = dyn FnMut(&str) -> Result<(Array, PathBuf)> + 'a;

fn arrays(path: &Path, part: Part, names: &[String], load: &mut Load<'_>) -> Result<ImageSet> {
    let find = |part: &str, kinds: [&str; 2]| {
        let [word, letter] = kinds;
        let candidates = match part {
            "" => vec![word.to_owned(), letter.to_owned()],
            _ => vec![
                format!("{part}_{word}"),
                format!("{letter}_{part}"),
                format!("{part}_{letter}"),
            ],
        };
        candidates.into_iter().find(|name| names.contains(name))
    };
    let images = |part| find(part, ["images", "x"]);
    let labels = |part| find(part, ["labels", "y"]);
    let divided = images("train").is_some() || images("test").is_some();
    let prefix = if divided { part.name() } else { "" };
    if !divided && part == Part::Train {
        return Err(no_such_part(
            path,
            part,
            "there is no array \"train_images\"",
        ));
    }
    let (Some(images), Some(labels_name)) = (images(prefix), labels(prefix)) else {
        let found = names.join(", ");
        let reason = format!(
            "it needs the arrays \"{0}_images\" and \"{0}_labels\", and has {found}",
            part.name()
        );
        return Err(no_such_part(path, part, &reason));
    };
    let (array, file) = load(&images)?;
    let (shape, pixels) = pixels(array, &file)?;
    let (numbers, file) =
        load(&labels_name).and_then(|(array, file)| Ok((whole(array, &file)?, file)))?;
    let count = pixels.len() / shape.len().max(1);
    if numbers.len() != count {
        let expected = format!("{count}, one for each image");
        return Err(Error::size(
            file,
            "number of labels",
            numbers.len(),
            expected,
        ));
    }
    // the other part may have a class that this one lacks
    let mut largest = numbers.iter().copied().max().unwrap_or(0);
    for name in ["train", "test"].iter().filter_map(|part| labels(part)) {
        if name != labels_name {
            let (array, file) = load(&name)?;
            largest = largest.max(whole(array, &file)?.into_iter().max().unwrap_or(0));
            // one that is no class is refused where its part is read
            largest = largest.min(LARGEST_LABEL);
        }
    }
    let labels = numbers.iter().enumerate().map(|(index, &label)| {
        let is_class = (0..=LARGEST_LABEL).contains(&label);
        is_class
            .then_some(label as u32)
            .ok_or_else(|| Error::Label {
                name: file.display().to_string(),
                index,
                label,
                allowed: format!("0..={LARGEST_LABEL}"),
            })
    });
    let labels = labels.collect::<Result<_>>()?;
    let name = path
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned());
    let classes = usize::try_from(largest).unwrap_or(0) + 1;
    ImageSet::new(
        name.unwrap_or_default(),
        shape,
        classes,
        None,
        pixels,
        labels,
    )
}

/// Bytes as `[n, channels, height, width]`.
fn pixels(array: Array, path: &Path) -> Result<(Shape, Vec<u8>)> {
    let (dimensions, values) = array.into_parts();
    let expected = "[n, h, w], [n, c, h, w] or [n, h, w, c] with c 1 or 3";
    let Values::Bytes(bytes) = values else {
        let (found, expected) = ("not bytes", "unsigned bytes, 0 to 255 (uint8)");
        return Err(Error::size(path, "type of the images", found, expected));
    };
    match dimensions[..] {
        [_, height, width] => Ok((Shape::new(1, height, width), bytes)),
        [_, channels @ (1 | 3), height, width] => Ok((Shape::new(channels, height, width), bytes)),
        [_, height, width, 1] => Ok((Shape::new(1, height, width), bytes)),
        [n, height, width, 3] => {
            let shape = Shape::new(3, height, width);
            let mut planes = Vec::with_capacity(bytes.len());
            for image in bytes.chunks_exact(shape.len().max(1)).take(n) {
                for channel in 0..3 {
                    planes.extend(image.iter().skip(channel).step_by(3));
                }
            }
            Ok((shape, planes))
        }
        _ => Err(wrong_shape(path, &dimensions, expected)),
    }
}

/// Labels `[n]` or `[n, 1]`.
fn whole(array: Array, path: &Path) -> Result<Vec<i64>> {
    if !matches!(array.shape(), [_] | [_, 1]) {
        return Err(wrong_shape(path, array.shape(), "[n] or [n, 1]"));
    }
    array.to_integers().ok_or_else(|| {
        let (found, expected) = ("not whole numbers", "whole numbers");
        Error::size(path, "type of the labels", found, expected)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::picture::tests::write_png;
    use crate::formats::zip;
    use crate::testing::{assert_ends, assert_says};

    fn read(path: &Path, part: Part) -> Result<ImageSet> {
        super::read(path, part, Form::default())
    }

    fn png_in(folder: &Path, name: &str, color: png::ColorType, width: u32, data: &[u8]) {
        fs::create_dir_all(folder).unwrap();
        let height = (data.len() / color.samples()) as u32 / width;
        fs::write(folder.join(name), write_png(color, width, height, data)).unwrap();
    }

    #[test]
    fn a_folder_of_pictures_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("fruit");
        let (gray, color) = (png::ColorType::Grayscale, png::ColorType::Rgb);
        png_in(&root.join("train/pear"), "2.png", gray, 2, &[1, 2]);
        png_in(&root.join("train/pear"), "1.png", gray, 2, &[3, 4]);
        png_in(
            &root.join("train/apple"),
            "x.PNG",
            color,
            2,
            &[5, 6, 7, 8, 9, 10],
        );
        png_in(&root.join("test/quince"), "x.png", gray, 2, &[11, 12]);
        fs::write(root.join("train/pear/notes.txt"), "not a picture").unwrap();
        let train = read(&root, Part::Train).unwrap();
        assert_eq!(
            (train.name(), train.shape()),
            ("fruit", Shape::new(3, 1, 2))
        );
        let note = format!("no {KINDS} file in the folder of a class, left out: ");
        assert_eq!(train.notes(), [format!("{note}train/pear/notes.txt")]);
        assert_eq!(train.class_names().unwrap(), ["apple", "pear", "quince"]);
        assert_eq!(train.labels(), [0, 1, 1]);
        assert_eq!(train.image(0), [5, 8, 6, 9, 7, 10]);
        assert_eq!(train.image(1), [3, 4, 3, 4, 3, 4]);
        let test = read(&root, Part::Test).unwrap();
        assert_eq!(
            (test.shape(), test.labels()),
            (Shape::new(1, 1, 2), &[2][..])
        );
        // class folders alone are a test part
        let alone = read(&root.join("train"), Part::Test).unwrap();
        assert_eq!((alone.len(), alone.classes()), (3, 2));
        let advice = "put the classes into the folders train and test";
        assert_ends(read(&root.join("train"), Part::Train), advice);
        // another size is refused by name
        png_in(&root.join("test/quince"), "y.png", gray, 1, &[1, 2]);
        let size = "y.png: size of the picture is 2x1, expected 1x2 like";
        assert_says(read(&root, Part::Test), size);
        let empty = "no class folder has a PNG, JPEG, BMP, GIF, TIFF or WebP file";
        assert_ends(read(&root.join("train/pear"), Part::Test), empty);
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_told() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("fruit");
        let gray = png::ColorType::Grayscale;
        for (class, count) in [("apple", 4), ("pear", 1)] {
            for number in 0..count {
                let name = format!("{number}.png");
                png_in(&root.join("test").join(class), &name, gray, 2, &[1, 2]);
            }
        }
        for number in 0..6 {
            let name = format!("test/apple/broken{number}.jpg");
            fs::write(root.join(name), "hello").unwrap();
        }
        fs::create_dir(root.join("test/pear/more")).unwrap();
        fs::write(root.join("test/README"), "classes of fruit").unwrap();
        fs::write(root.join("test/pear/.hidden"), "").unwrap();
        let set = read(&root, Part::Test).unwrap();
        assert_eq!(set.labels(), [0, 0, 0, 0, 1]);
        let notes = set.notes();
        let why = format!("(picture at byte 0: \"hell\", expected a {KINDS} file)");
        let begin = format!(
            "6 of 11 pictures cannot be read, left out: test/apple/broken0.jpg {why}, \
             test/apple/broken1.jpg {why}, "
        );
        assert!(notes[0].starts_with(&begin), "{notes:?}");
        assert!(notes[0].ends_with(" and 1 more"), "{notes:?}");
        assert!(
            notes[1].ends_with("left out: test/README, test/pear/more/"),
            "{notes:?}"
        );
        // nothing is left of a class
        fs::write(root.join("test/pear/0.png"), "hello").unwrap();
        assert_says(read(&root, Part::Test), "0.png: picture at byte 0");
    }

    fn npy(shape: &[usize], values: Values) -> Vec<u8> {
        let mut out = Vec::new();
        npy::write(&mut out, &Array::new(shape.into(), values).unwrap()).unwrap();
        out
    }

    #[test]
    fn arrays_are_read_in_every_order_of_axes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toy.npz");
        let last = npy(&[2, 2, 1, 3], Values::Bytes((1..=12).collect()));
        let first = npy(&[1, 3, 2, 1], Values::Bytes((1..=6).collect()));
        let members = [
            ("x_train.npy", &last[..]),
            (
                "y_train.npy",
                &npy(&[2, 1], Values::Integers(vec![1, 0]))[..],
            ),
            ("x_test.npy", &first),
            ("y_test.npy", &npy(&[1], Values::Doubles(vec![3.0]))),
        ];
        fs::write(&path, zip::tests::write(&members, true, false)).unwrap();
        let train = read(&path, Part::Train).unwrap();
        assert_eq!((train.name(), train.shape()), ("toy", Shape::new(3, 2, 1)));
        assert_eq!(train.image(1), [7, 10, 8, 11, 9, 12]);
        assert_eq!((train.labels(), train.classes()), (&[1, 0][..], 4));
        let test = read(&path, Part::Test).unwrap();
        assert_eq!(
            (test.image(0), test.labels()),
            (&[1, 2, 3, 4, 5, 6][..], &[3][..])
        );
    }

    #[test]
    fn a_pair_of_files_is_a_test_part() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).unwrap();
        write(
            "images.npy",
            npy(&[2, 1, 2], Values::Bytes(vec![1, 2, 3, 4])),
        );
        write("labels.npy", npy(&[2], Values::Bytes(vec![0, 1])));
        let test = read(folder.path(), Part::Test).unwrap();
        assert_eq!((test.len(), test.shape()), (2, Shape::new(1, 1, 2)));
        assert!(read(folder.path(), Part::Train).is_err());
        write("labels.npy", npy(&[3], Values::Integers(vec![0, 1, 2])));
        let count = "labels.npy: number of labels is 3, expected 2, one for each image";
        assert_ends(read(folder.path(), Part::Test), count);
        for (name, shape, values, part) in [
            (
                "labels.npy",
                &[2][..],
                Values::Doubles(vec![0.5, 1.0]),
                "type of the labels",
            ),
            (
                "labels.npy",
                &[2],
                Values::Integers(vec![0, -1]),
                "label -1 of image 1",
            ),
            (
                "labels.npy",
                &[1, 2],
                Values::Integers(vec![0, 1]),
                "shape is [1, 2], expected [n] or [n, 1]",
            ),
            (
                "images.npy",
                &[2, 2],
                Values::Singles(vec![0.0; 4]),
                "expected unsigned bytes",
            ),
            (
                "images.npy",
                &[2, 2],
                Values::Bytes(vec![0; 4]),
                "shape is [2, 2]",
            ),
        ] {
            write(name, npy(shape, values));
            assert_says(read(folder.path(), Part::Test), part);
        }
    }

    #[test]
    fn a_form_makes_pictures_alike() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("fruit");
        let (gray, color) = (png::ColorType::Grayscale, png::ColorType::Rgb);
        png_in(&root.join("test/pear"), "1.png", gray, 2, &[8, 8, 8, 8]);
        png_in(
            &root.join("test/pear"),
            "2.png",
            color,
            1,
            &[9, 9, 9, 7, 7, 7],
        );
        let form = Form {
            size: Some([1, 1]),
            channels: Some(1),
        };
        let test = super::read(&root, Part::Test, form).unwrap();
        assert_eq!(
            (test.shape(), test.pixels()),
            (Shape::new(1, 1, 1), &[8, 9][..])
        );
        let advice = "data.resize gives all of them one size";
        assert_ends(read(&root, Part::Test), advice);
    }

    #[test]
    fn a_label_that_no_class_can_have_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toy.npz");
        let images = npy(&[2, 1, 1], Values::Bytes(vec![1, 2]));
        let good = npy(&[2], Values::Integers(vec![255, 255]));
        let bad = npy(&[2], Values::Integers(vec![0, 4_000_000_000]));
        let members = [
            ("x_train.npy", &images[..]),
            ("y_train.npy", &bad),
            ("x_test.npy", &images),
            ("y_test.npy", &good),
        ];
        fs::write(&path, zip::tests::write(&members, true, false)).unwrap();
        let problem = "toy.npz: label 4000000000 of image 1 is not in 0..=65535";
        assert_ends(read(&path, Part::Train), problem);
    }
}
