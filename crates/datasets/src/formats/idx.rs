//! IDX: two zero bytes, a type byte (8 for unsigned bytes), the number of dimensions, each
//! dimension as a big-endian 32-bit number, then the data row by row.
//!
//! The format of MNIST, Fashion-MNIST, KMNIST, EMNIST and notMNIST. Only unsigned bytes are read;
//! these sets have nothing else.

use std::io::Read;

use super::Source;
use crate::error::Malformed;

/// An array of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idx {
    /// Sizes, outermost first.
    pub dimensions: Vec<usize>,
    /// Row-major content.
    pub data: Vec<u8>,
}

/// Reads an array, uncompressed.
///
/// ```
/// let bytes = [0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9];
/// let idx = datasets::formats::idx::read(&bytes[..])?;
/// assert_eq!((idx.dimensions, idx.data), (vec![1, 3], vec![7, 8, 9]));
/// # Ok::<(), datasets::Malformed>(())
/// ```
///
/// # Errors
/// The magic number is wrong, the type is not unsigned byte, or the data are shorter or longer than
/// announced.
pub fn read(reader: impl Read) -> Result<Idx, Malformed> {
    read_within(reader, u64::MAX)
}

/// As [`read`]; data of more than `most` bytes are refused before they are read.
///
/// # Errors
/// As [`read`], or there are more.
pub fn read_within(reader: impl Read, most: u64) -> Result<Idx, Malformed> {
    let mut source = Source::new(reader);
    let magic: [u8; 4] = source.array("magic number")?;
    let rank = match magic {
        [0, 0, 8, rank @ 1..=4] => rank,
        [0, 0, 8, rank] => {
            let problem = format!("{rank} dimensions, expected 1 to 4");
            return Err(Malformed::new("magic number", 3, problem));
        }
        [0, 0, kind, _] => {
            let problem = format!("type {kind:#04x}, expected 0x08 (unsigned byte)");
            return Err(Malformed::new("magic number", 2, problem));
        }
        _ => {
            let found = u32::from_be_bytes(magic);
            let problem = format!("{found:#010x}, expected 0x00000801 to 0x00000804");
            return Err(Malformed::new("magic number", 0, problem));
        }
    };
    let mut dimensions = Vec::with_capacity(rank.into());
    let mut total: u64 = 1;
    for _ in 0..rank {
        let offset = source.offset();
        let size = u32::from_be_bytes(source.array("dimension")?);
        total = total
            .checked_mul(size.into())
            .filter(|&total| usize::try_from(total).is_ok())
            .ok_or_else(|| {
                Malformed::new(
                    "dimension",
                    offset,
                    "the sizes multiply to too much".to_string(),
                )
            })?;
        dimensions.push(size as usize);
    }
    source.expect_at_most("dimension", total, most)?;
    let data = source.bytes("data", total)?;
    source.end()?;
    Ok(Idx { dimensions, data })
}

/// Bytes of an array in this format, the inverse of [`read`].
///
/// # Panics
/// If there are not 1 to 4 dimensions below 2³² whose product is the length of the data.
pub fn write(idx: &Idx) -> Vec<u8> {
    let rank = idx.dimensions.len();
    assert!((1..=4).contains(&rank), "an array of 1 to 4 dimensions");
    assert_eq!(
        idx.dimensions.iter().product::<usize>(),
        idx.data.len(),
        "product of the dimensions"
    );
    let mut out = vec![0, 0, 8, rank as u8];
    for &size in &idx.dimensions {
        let size = u32::try_from(size).expect("a dimension below 2^32");
        out.extend(size.to_be_bytes());
    }
    out.extend(&idx.data);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn more_than_is_expected_is_refused_before_it_is_read() {
        let header = [[0, 0, 8, 3], [0, 0, 0, 9], [0, 0, 0, 5], [0, 0, 0, 2]].concat();
        let whole = [&header[..], &[7; 90]].concat();
        assert_eq!(
            read_within(&whole[..], 90).unwrap(),
            read(&whole[..]).unwrap()
        );
        // the data are not there at all
        let error = read_within(&header[..], 89).unwrap_err().to_string();
        assert!(
            error.contains("90 bytes are announced, expected at most 89"),
            "{error}"
        );
    }

    fn sample() -> Vec<u8> {
        write(&Idx {
            dimensions: vec![2, 2, 3],
            data: (0..12).collect(),
        })
    }

    #[test]
    fn rows_come_before_columns() {
        let idx = read(&sample()[..]).unwrap();
        assert_eq!(idx.dimensions, [2, 2, 3]);
        // image 1, row 0, column 2, and image 1, row 1, column 0
        assert_eq!((idx.data[6 + 2], idx.data[6 + 3]), (8, 9));
    }

    #[test]
    fn every_defect_is_named() {
        let message = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = sample();
            change(&mut bytes);
            read(&bytes[..]).unwrap_err().to_string()
        };
        assert_eq!(
            message(&|b| b.truncate(3)),
            "magic number at byte 0: 4 bytes announced, the data end after 3"
        );
        assert_eq!(
            message(&|b| b[0] = 0x1f),
            "magic number at byte 0: 0x1f000803, expected 0x00000801 to 0x00000804"
        );
        assert_eq!(
            message(&|b| b[2] = 0x0d),
            "magic number at byte 2: type 0x0d, expected 0x08 (unsigned byte)"
        );
        assert_eq!(
            message(&|b| b[3] = 9),
            "magic number at byte 3: 9 dimensions, expected 1 to 4"
        );
        assert_eq!(
            message(&|b| b.truncate(10)),
            "dimension at byte 8: 4 bytes announced, the data end after 2"
        );
        assert_eq!(
            message(&|b| b.truncate(20)),
            "data at byte 16: 12 bytes announced, the data end after 4"
        );
        assert_eq!(
            message(&|b| b.push(0)),
            "end at byte 28: more data follow than the header announces"
        );
        assert_eq!(
            message(&|b| b[4..16].fill(0xff)),
            "dimension at byte 12: the sizes multiply to too much"
        );
    }

    #[test]
    fn a_promise_of_terabytes_takes_no_memory() {
        let mut bytes = sample();
        bytes[4..6].fill(0xff);
        bytes[10] = 0xff;
        let info = allocation_counter::measure(|| assert!(read(&bytes[..]).is_err()));
        assert!(info.bytes_max < 1 << 26, "{info:?}");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(dimensions in prop::collection::vec(0_usize..5, 1..=4), byte: u8) {
            let data = vec![byte; dimensions.iter().product()];
            let idx = Idx { dimensions, data };
            prop_assert_eq!(read(&write(&idx)[..]).unwrap(), idx);
        }
    }
}
