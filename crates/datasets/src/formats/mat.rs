//! MATLAB's MAT files of version 5: a header of 128 bytes, then elements of a type, a length and
//! data padded to 8 bytes; an element may be a zlib stream that holds another.
//!
//! Read are full real arrays of numbers in either byte order; other variables (text, cells,
//! structures, sparse and complex arrays) are passed over. The first index runs fastest, as MATLAB
//! has it. The format of SVHN.

use std::io::Read;

use flate2::read::ZlibDecoder;

use super::Source;
use crate::error::Malformed;

type Result<T> = std::result::Result<T, Malformed>;

const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;

/// A variable: an array of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Sizes; the first index runs fastest.
    pub dimensions: Vec<usize>,
    /// The numbers.
    pub numbers: Numbers,
}

/// Numbers of an array.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Numbers {
    /// Unsigned bytes.
    Bytes(Vec<u8>),
    /// Everything else; exact but for integers beyond 2⁵³.
    Doubles(Vec<f64>),
}

impl Numbers {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(values) => values.len(),
            Self::Doubles(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Reads all numeric variables of a file.
///
/// # Errors
/// The header is not one of version 5, or an element is cut off or contradicts itself. Offsets
/// within a compressed element count from its uncompressed beginning.
pub fn read(reader: impl Read) -> Result<Vec<Variable>> {
    read_within(reader, u64::MAX)
}

/// As [`read`]; elements of more than `most` bytes in all are refused before they are inflated.
///
/// # Errors
/// As [`read`], or there are more.
pub fn read_within(reader: impl Read, most: u64) -> Result<Vec<Variable>> {
    let mut left = most;
    let mut source = Source::new(reader);
    let header: [u8; 128] = source.array("header")?;
    let big_endian = match &header[126..] {
        b"IM" => false,
        b"MI" => true,
        mark => {
            let mark = mark.escape_ascii();
            let problem =
                format!("\"{mark}\", expected \"IM\" or \"MI\": not a MAT file of version 5");
            return Err(Malformed::new("byte order", 126, problem));
        }
    };
    let order = Order { big_endian };
    let version = order.u16([header[124], header[125]]);
    if version != 0x0100 {
        let problem = format!("{version:#06x}, expected 0x0100");
        return Err(Malformed::new("version", 124, problem));
    }
    let mut variables = Vec::new();
    let mut tag = [0; 8];
    while source.whole("element", &mut tag)? {
        let start = source.offset();
        let (kind, length) = order.tag(tag);
        source.expect_at_most("element", length.into(), left)?;
        let body = source.bytes("element", length.into())?;
        if kind == COMPRESSED {
            let mut inner = Source::new(ZlibDecoder::new(&body[..]));
            let (kind, length) = order.tag(inner.array("compressed element")?);
            if kind == MATRIX {
                inner.expect_at_most("compressed element", length.into(), left)?;
                left -= u64::from(length);
                let body = inner.bytes("compressed element", length.into())?;
                inner.end()?;
                variables.extend(variable(&body, 8, order)?);
            }
        } else if kind == MATRIX {
            left -= u64::from(length);
            variables.extend(variable(&body, start, order)?);
        }
    }
    Ok(variables)
}

/// The array in the body of a matrix element, or `None` if it is not a full real array of numbers.
fn variable(body: &[u8], start: u64, order: Order) -> Result<Option<Variable>> {
    let mut parts = Parts {
        body,
        at: 0,
        start,
        order,
    };
    let flags = parts.next("array flags")?;
    if flags.kind != 6 || flags.data.len() != 8 {
        let problem = format!(
            "type {} of {} bytes, expected type 6 of 8",
            flags.kind,
            flags.data.len()
        );
        return Err(Malformed::new("array flags", flags.offset, problem));
    }
    let flags = order.u32([flags.data[0], flags.data[1], flags.data[2], flags.data[3]]);
    let (class, complex) = (flags & 0xff, flags & 0x0800 != 0);
    // 6 to 15 are the numeric classes
    if !(6..=15).contains(&class) || complex {
        return Ok(None);
    }
    let sizes = parts.next("dimensions")?;
    let wrong = |problem: String| Malformed::new("dimensions", sizes.offset, problem);
    if sizes.kind != 5 || sizes.data.len() % 4 != 0 {
        let problem = format!("type {} of {} bytes", sizes.kind, sizes.data.len());
        return Err(wrong(problem));
    }
    let (sizes_read, _) = sizes.data.as_chunks();
    let dimensions: Vec<usize> = sizes_read
        .iter()
        .map(|&bytes| order.u32(bytes) as usize)
        .collect();
    let total = dimensions
        .iter()
        .try_fold(1_usize, |total, &size| total.checked_mul(size))
        .ok_or_else(|| wrong("the sizes multiply to too much".into()))?;
    let name = parts.next("name")?;
    let name = String::from_utf8_lossy(name.data).into_owned();
    let real = parts.next("numbers")?;
    let numbers = numbers(real.kind, real.data, order).ok_or_else(|| {
        let problem = format!("type {}, expected an integer or a float", real.kind);
        Malformed::new("numbers", real.offset, problem)
    })?;
    if numbers.len() != total {
        let problem = format!("{} numbers for an array of {total}", numbers.len());
        return Err(Malformed::new("numbers", real.offset, problem));
    }
    Ok(Some(Variable {
        name,
        dimensions,
        numbers,
    }))
}

fn numbers(kind: u32, data: &[u8], order: Order) -> Option<Numbers> {
    fn each<const N: usize>(data: &[u8], value: impl Fn([u8; N]) -> f64) -> Numbers {
        let (parts, _) = data.as_chunks();
        Numbers::Doubles(parts.iter().map(|&bytes| value(bytes)).collect())
    }
    Some(match kind {
        1 => each(data, |[byte]| f64::from(byte as i8)),
        2 => Numbers::Bytes(data.to_vec()),
        3 => each(data, |b| f64::from(order.u16(b) as i16)),
        4 => each(data, |b| f64::from(order.u16(b))),
        5 => each(data, |b| f64::from(order.u32(b) as i32)),
        6 => each(data, |b| f64::from(order.u32(b))),
        7 => each(data, |b| f64::from(f32::from_bits(order.u32(b)))),
        9 => each(data, |b| f64::from_bits(order.u64(b))),
        12 => each(data, |b| order.u64(b) as i64 as f64),
        13 => each(data, |b| order.u64(b) as f64),
        _ => return None,
    })
}

/// Byte order of a file.
#[derive(Debug, Clone, Copy)]
struct Order {
    big_endian: bool,
}

impl Order {
    /// The bytes of a number, the lowest first.
    fn lowest_first<const N: usize>(self, mut bytes: [u8; N]) -> [u8; N] {
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }

    fn u16(self, bytes: [u8; 2]) -> u16 {
        u16::from_le_bytes(self.lowest_first(bytes))
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        u32::from_le_bytes(self.lowest_first(bytes))
    }

    fn u64(self, bytes: [u8; 8]) -> u64 {
        u64::from_le_bytes(self.lowest_first(bytes))
    }

    /// Type and length.
    fn tag(self, [a, b, c, d, e, f, g, h]: [u8; 8]) -> (u32, u32) {
        (self.u32([a, b, c, d]), self.u32([e, f, g, h]))
    }
}

/// The elements inside a matrix element.
struct Parts<'a> {
    body: &'a [u8],
    at: usize,
    start: u64,
    order: Order,
}

struct Piece<'a> {
    kind: u32,
    data: &'a [u8],
    offset: u64,
}

impl<'a> Parts<'a> {
    fn next(&mut self, field: &'static str) -> Result<Piece<'a>> {
        let offset = self.start + self.at as u64;
        let rest = &self.body[self.at..];
        let cut = |problem: String| Malformed::new(field, offset, problem);
        let Some((&tag, data)) = rest.split_first_chunk::<8>() else {
            return Err(cut("the variable ends before it".into()));
        };
        let (kind, length) = self.order.tag(tag);
        if kind >> 16 != 0 {
            // a small element: length and type share four bytes, up to four bytes of data follow
            let length = (kind >> 16) as usize;
            let data = rest[4..8].get(..length).ok_or_else(|| {
                cut(format!(
                    "{length} bytes in a small element, expected up to 4"
                ))
            })?;
            self.at += 8;
            let kind = kind & 0xffff;
            return Ok(Piece { kind, data, offset });
        }
        let length = length as usize;
        let data = data.get(..length).ok_or_else(|| {
            let rest = data.len();
            cut(format!(
                "{length} bytes announced, the variable has {rest} left"
            ))
        })?;
        self.at = (self.at + 8 + length.next_multiple_of(8)).min(self.body.len());
        Ok(Piece { kind, data, offset })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    pub(crate) struct Writer {
        pub(crate) big_endian: bool,
        pub(crate) compressed: bool,
    }

    impl Writer {
        fn u32(&self, value: u32) -> [u8; 4] {
            if self.big_endian {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        }

        fn element(&self, kind: u32, data: &[u8]) -> Vec<u8> {
            let mut out = [self.u32(kind), self.u32(data.len() as u32)].concat();
            out.extend(data);
            out.resize(out.len().next_multiple_of(8), 0);
            out
        }

        pub(crate) fn header(&self) -> Vec<u8> {
            let mut out = vec![b' '; 124];
            out.extend(if self.big_endian {
                *b"\x01\x00MI"
            } else {
                *b"\x00\x01IM"
            });
            out
        }

        /// A variable of class `class` whose data have type `kind`.
        pub(crate) fn variable(
            &self,
            name: &str,
            class: u32,
            sizes: &[u32],
            kind: u32,
            data: &[u8],
        ) -> Vec<u8> {
            let mut body = self.element(6, &[self.u32(class), [0; 4]].concat());
            let sizes: Vec<u8> = sizes.iter().flat_map(|&size| self.u32(size)).collect();
            body.extend(self.element(5, &sizes));
            if name.len() <= 4 {
                // a small element
                body.extend(self.u32((name.len() as u32) << 16 | 1));
                body.extend(name.as_bytes());
                body.resize(body.len().next_multiple_of(8), 0);
            } else {
                body.extend(self.element(1, name.as_bytes()));
            }
            body.extend(self.element(kind, data));
            let matrix = self.element(MATRIX, &body);
            if !self.compressed {
                return matrix;
            }
            let mut encoder =
                flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(&matrix).unwrap();
            let packed = encoder.finish().unwrap();
            let mut out = [self.u32(COMPRESSED), self.u32(packed.len() as u32)].concat();
            out.extend(packed);
            out
        }
    }

    /// Plain and compressed, of either byte order.
    fn forms() -> [Writer; 4] {
        [(false, false), (false, true), (true, false), (true, true)].map(
            |(big_endian, compressed)| Writer {
                big_endian,
                compressed,
            },
        )
    }

    #[test]
    fn every_form_of_a_file_is_read() {
        for writer in forms() {
            let doubles = [1.5_f64, -2.0].map(|value| {
                let bits = value.to_bits();
                if writer.big_endian {
                    bits.to_be_bytes()
                } else {
                    bits.to_le_bytes()
                }
            });
            let mut file = writer.header();
            file.extend(writer.variable("X", 9, &[2, 1, 3], 2, &[1, 2, 3, 4, 5, 6]));
            // text is passed over
            file.extend(writer.variable("remark", 4, &[1, 2], 4, &[0, 65, 0, 66]));
            // doubles that are stored in fewer bytes
            file.extend(writer.variable("labels", 6, &[3, 1], 1, &[1, 255, 10]));
            file.extend(writer.variable("d", 6, &[2, 1], 9, &doubles.concat()));
            let variables = read(&file[..]).unwrap();
            let expected = [
                ("X", vec![2, 1, 3], Numbers::Bytes(vec![1, 2, 3, 4, 5, 6])),
                (
                    "labels",
                    vec![3, 1],
                    Numbers::Doubles(vec![1.0, -1.0, 10.0]),
                ),
                ("d", vec![2, 1], Numbers::Doubles(vec![1.5, -2.0])),
            ];
            assert_eq!(variables.len(), expected.len());
            for (found, (name, dimensions, numbers)) in variables.into_iter().zip(expected) {
                assert_eq!((found.name.as_str(), found.dimensions), (name, dimensions));
                assert_eq!(found.numbers, numbers);
            }
        }
    }

    #[test]
    fn every_defect_is_named() {
        let writer = &forms()[0];
        let mut good = writer.header();
        good.extend(writer.variable("X", 9, &[2, 3], 2, &[1, 2, 3, 4, 5, 6]));
        let message = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            read(&bytes[..]).unwrap_err().to_string()
        };
        assert_eq!(
            message(&|b| b.truncate(100)),
            "header at byte 0: 128 bytes announced, the data end after 100"
        );
        assert_eq!(
            message(&|b| b[126] = b'X'),
            "byte order at byte 126: \"XM\", expected \"IM\" or \"MI\": not a MAT file of version 5"
        );
        assert_eq!(
            message(&|b| b[125] = 2),
            "version at byte 124: 0x0200, expected 0x0100"
        );
        assert_eq!(
            message(&|b| b.truncate(150)),
            "element at byte 136: 56 bytes announced, the data end after 14"
        );
        assert_eq!(
            message(&|b| b[132] = 8),
            "array flags at byte 136: 8 bytes announced, the variable has 0 left"
        );
        assert_eq!(
            message(&|b| b[160] = 9),
            "numbers at byte 176: 6 numbers for an array of 27"
        );
        assert_eq!(
            message(&|b| b[160..168].fill(0xff)),
            "numbers at byte 176: 6 numbers for an array of 18446744065119617025"
        );
        assert_eq!(
            message(&|b| b[176] = 8),
            "numbers at byte 176: type 8, expected an integer or a float"
        );
        assert_eq!(
            message(&|b| b[170] = 9),
            "name at byte 168: 9 bytes in a small element, expected up to 4"
        );
    }

    #[test]
    fn a_promise_of_gigabytes_takes_no_memory() {
        let writer = &forms()[1];
        let mut file = writer.header();
        file.extend([15, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3]);
        let info = allocation_counter::measure(|| assert!(read(&file[..]).is_err()));
        assert!(info.bytes_max < 1 << 26, "{info:?}");
    }
}
