//! CIFAR binary: records of one label byte (CIFAR-10) or two (CIFAR-100: coarse, then fine) and
//! 3072 pixels, red, green, blue, each row by row.

use std::io::Read;

use super::Source;
use crate::error::Malformed;
use crate::image_set::Shape;

/// Size of an image.
pub const SHAPE: Shape = Shape::new(3, 32, 32);

/// Reads all records; returns the pixels, `[images, 3, 32, 32]`, and the last label of each record.
///
/// ```
/// use datasets::formats::cifar;
///
/// let record = [[7; 1].as_slice(), &[200; 3072]].concat();
/// let (pixels, labels) = cifar::read(&record[..], 1)?;
/// assert_eq!((pixels.len(), labels), (3072, vec![7]));
/// # Ok::<(), datasets::Malformed>(())
/// ```
///
/// # Errors
/// The data end within a record.
///
/// # Panics
/// If a record has no label.
pub fn read(reader: impl Read, label_bytes: usize) -> Result<(Vec<u8>, Vec<u8>), Malformed> {
    assert!(label_bytes > 0, "a record has a label");
    let mut source = Source::new(reader);
    let mut record = vec![0; label_bytes + SHAPE.len()];
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    while source.whole("record", &mut record)? {
        labels.push(record[label_bytes - 1]);
        pixels.extend_from_slice(&record[label_bytes..]);
    }
    Ok((pixels, labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_rows_and_labels_are_where_they_belong() {
        // coarse 9, fine 4; red is the row, green the column, blue their sum
        let mut record = vec![9, 4];
        record.extend((0..1024).map(|i| (i / 32) as u8));
        record.extend((0..1024).map(|i| (i % 32) as u8));
        record.extend((0..1024).map(|i| (i / 32 + i % 32) as u8));
        let (pixels, labels) = read(&[&record[..], &record].concat()[..], 2).unwrap();
        assert_eq!(labels, [4, 4]);
        // second image, row 3, column 17
        let at = |channel: usize| pixels[3072 + channel * 1024 + 3 * 32 + 17];
        assert_eq!([at(0), at(1), at(2)], [3, 17, 20]);
    }

    #[test]
    fn a_cut_record_is_named() {
        let bytes = vec![0; 3073 + 100];
        assert_eq!(
            read(&bytes[..], 1).unwrap_err().to_string(),
            "record at byte 3073: 3073 bytes announced, the data end after 100"
        );
        assert_eq!(read(&[][..], 1).unwrap(), (vec![], vec![]));
    }
}
