//! NPY and NPZ, the array files of NumPy: magic `\x93NUMPY`, version, a header that is a Python
//! dictionary (`descr`, `fortran_order`, `shape`), then the numbers. An NPZ file is a ZIP archive
//! of them.
//!
//! Read are booleans, integers of 1 to 8 bytes and floats of 2 to 8, of either byte order, in
//! either memory order; what comes out is in row-major order. Objects, strings, complex numbers and
//! records are refused. The established crate for this brings a parser generator and big integers
//! along; the format is a page long, so the reader is our own.

use std::fs;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;

use super::Source;
use super::zip::Archive;
use crate::disk;
use crate::error::{Error, Malformed, Result};

/// Numbers of an array, in the narrowest of these kinds that holds what the file has.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Values {
    /// Unsigned bytes and booleans.
    Bytes(Vec<u8>),
    /// All other integers.
    Integers(Vec<i64>),
    /// Floats of 2 and 4 bytes.
    Singles(Vec<f32>),
    /// Floats of 8 bytes.
    Doubles(Vec<f64>),
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(values) => values.len(),
            Self::Integers(values) => values.len(),
            Self::Singles(values) => values.len(),
            Self::Doubles(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many more fit into the memory that was taken.
    fn room(&self) -> usize {
        match self {
            Self::Bytes(values) => values.capacity() - values.len(),
            Self::Integers(values) => values.capacity() - values.len(),
            Self::Singles(values) => values.capacity() - values.len(),
            Self::Doubles(values) => values.capacity() - values.len(),
        }
    }

    /// Takes memory for so many more and for none beyond.
    fn reserve(&mut self, more: usize) {
        match self {
            Self::Bytes(values) => values.reserve_exact(more),
            Self::Integers(values) => values.reserve_exact(more),
            Self::Singles(values) => values.reserve_exact(more),
            Self::Doubles(values) => values.reserve_exact(more),
        }
    }
}

/// An array in row-major order: the last index runs fastest.
///
/// ```
/// use datasets::formats::npy::{self, Array, Values};
///
/// let array = Array::new(vec![2, 3], Values::Singles(vec![0.5, 1.0, 1.5, 2.0, 2.5, 3.0]))?;
/// let mut file = Vec::new();
/// npy::write(&mut file, &array).expect("a vector takes everything");
/// let array = npy::read(&file[..])?;
/// assert_eq!(array.shape(), [2, 3]);
/// assert_eq!(array.to_f64()[3], 2.0);
/// # Ok::<(), datasets::Malformed>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    shape: Vec<usize>,
    values: Values,
}

impl Array {
    /// An array of this shape; `[]` is the shape of a single number.
    ///
    /// # Errors
    /// The shape does not multiply to the number of values.
    pub fn new(shape: Vec<usize>, values: Values) -> std::result::Result<Self, Malformed> {
        let total = shape.iter().try_fold(1_usize, |n, &d| n.checked_mul(d));
        if total == Some(values.len()) {
            return Ok(Self { shape, values });
        }
        let problem = format!("{shape:?} does not hold {} values", values.len());
        Err(Malformed::new("shape", 0, problem))
    }

    /// Sizes, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Shape and numbers, taken apart.
    pub fn into_parts(self) -> (Vec<usize>, Values) {
        (self.shape, self.values)
    }

    /// Every number as `f64`, exact but for integers beyond 2⁵³.
    pub fn to_f64(&self) -> Vec<f64> {
        match &self.values {
            Values::Bytes(values) => values.iter().map(|&v| v.into()).collect(),
            Values::Integers(values) => values.iter().map(|&v| v as f64).collect(),
            Values::Singles(values) => values.iter().map(|&v| v.into()).collect(),
            Values::Doubles(values) => values.clone(),
        }
    }

    /// Every number as an integer, or `None` if one of them is not whole. Floats are allowed:
    /// labels often come that way.
    pub fn to_integers(&self) -> Option<Vec<i64>> {
        let whole = |v: f64| (v.fract() == 0.0 && v.abs() < 9e15).then_some(v as i64);
        match &self.values {
            Values::Bytes(values) => Some(values.iter().map(|&v| v.into()).collect()),
            Values::Integers(values) => Some(values.clone()),
            Values::Singles(values) => values.iter().map(|&v| whole(v.into())).collect(),
            Values::Doubles(values) => values.iter().map(|&v| whole(v)).collect(),
        }
    }
}

/// Reads one array.
///
/// # Errors
/// The magic number, the version, the header or the type is not one of those described above, or
/// the data are shorter or longer than the header says.
pub fn read(reader: impl Read) -> std::result::Result<Array, Malformed> {
    let mut source = Source::new(reader);
    let magic: [u8; 6] = source.array("magic number")?;
    if magic != *b"\x93NUMPY" {
        let found = magic.escape_ascii();
        let problem = format!(r#""{found}", expected "\x93NUMPY""#);
        return Err(Malformed::new("magic number", 0, problem));
    }
    let [major, minor] = source.array("version")?;
    let length = match (major, minor) {
        (1, 0) => u16::from_le_bytes(source.array("header length")?).into(),
        (2 | 3, 0) => u32::from_le_bytes(source.array("header length")?),
        _ => {
            let problem = format!("{major}.{minor}, expected 1.0, 2.0 or 3.0");
            return Err(Malformed::new("version", 6, problem));
        }
    };
    const LONGEST: u32 = 1 << 20;
    if length > LONGEST {
        let problem = format!("{length}, expected at most {LONGEST}");
        return Err(Malformed::new("header length", 8, problem));
    }
    let start = source.offset();
    let header = source.bytes("header", length.into())?;
    let header = Header::parse(&header).map_err(|(position, problem)| {
        Malformed::new("header", start + position as u64, problem)
    })?;
    let count = header
        .shape
        .iter()
        .try_fold(1_u64, |n, &d| n.checked_mul(d));
    let bytes = count
        .and_then(|n| n.checked_mul(header.kind.size()))
        .filter(|&n| usize::try_from(n).is_ok())
        .ok_or_else(|| Malformed::new("header", start, "the shape multiplies to too much"))?;
    let data_at = source.offset();
    let size = header.kind.size();
    let mut values = header.kind.none();
    source.pieces("data", bytes, |piece| {
        let have = values.len() as u64;
        // exactly what the file has in the end, and before that no more than twice what arrived
        let more = (bytes / size - have).min(have.max(piece.len() as u64 / size));
        if values.room() < piece.len() / size as usize {
            values.reserve(more as usize);
        }
        let found = header.kind.decode(piece, header.big_endian, &mut values);
        found.map_err(|index| {
            let offset = data_at + (have + index as u64) * size;
            Malformed::new("data", offset, "the integer does not fit into 63 bits")
        })
    })?;
    source.end()?;
    // the total fits, so does every size unless another is zero
    let shape: Vec<usize> = header
        .shape
        .iter()
        .map(|&d| usize::try_from(d).unwrap_or(usize::MAX))
        .collect();
    let values = if header.column_major {
        match values {
            Values::Bytes(values) => Values::Bytes(to_row_major(&shape, values)),
            Values::Integers(values) => Values::Integers(to_row_major(&shape, values)),
            Values::Singles(values) => Values::Singles(to_row_major(&shape, values)),
            Values::Doubles(values) => Values::Doubles(to_row_major(&shape, values)),
        }
    } else {
        values
    };
    Ok(Array { shape, values })
}

/// Reads the array in a file.
///
/// # Errors
/// The file cannot be read or is not an NPY file.
pub fn open(path: impl AsRef<Path>) -> Result<Array> {
    let path = path.as_ref();
    let file = disk::open_plain(path).map_err(Error::io("read", path))?;
    read(BufReader::new(file)).map_err(Error::malformed(path))
}

/// Writes one array: version 1.0, little-endian, row-major.
///
/// # Errors
/// The writer refuses.
///
/// # Panics
/// If the array has so many dimensions (thousands) that the header does not fit into version 1.0.
pub fn write(mut out: impl Write, array: &Array) -> io::Result<()> {
    let descr = match array.values {
        Values::Bytes(_) => "|u1",
        Values::Integers(_) => "<i8",
        Values::Singles(_) => "<f4",
        Values::Doubles(_) => "<f8",
    };
    let sizes: String = array.shape.iter().map(|d| format!("{d}, ")).collect();
    // Python writes a tuple of one with a comma, one of several without a last one
    let sizes = match array.shape.len() {
        1 => sizes.trim_end(),
        _ => sizes.trim_end_matches(", "),
    };
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // the data begin at a multiple of 64
    let padding = 63 - (10 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let length = u16::try_from(header.len()).expect("fewer than thousands of dimensions");
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    match &array.values {
        Values::Bytes(values) => out.write_all(values),
        Values::Integers(values) => write_all(out, values, |v| v.to_le_bytes()),
        Values::Singles(values) => write_all(out, values, |v| v.to_le_bytes()),
        Values::Doubles(values) => write_all(out, values, |v| v.to_le_bytes()),
    }
}

fn write_all<T: Copy, const N: usize>(
    mut out: impl Write,
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(N * values.len().min(1 << 14));
    for part in values.chunks(1 << 14) {
        buffer.clear();
        buffer.extend(part.iter().flat_map(|&value| bytes(value)));
        out.write_all(&buffer)?;
    }
    Ok(())
}

/// An NPZ file: arrays by name.
#[derive(Debug)]
pub struct Npz<R> {
    archive: Archive<R>,
}

impl Npz<BufReader<fs::File>> {
    /// Opens a file; arrays are read when they are asked for.
    ///
    /// # Errors
    /// The file cannot be read or is not a ZIP archive.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = disk::open_plain(path).map_err(Error::io("read", path))?;
        Self::new(BufReader::new(file)).map_err(Error::malformed(path))
    }
}

impl<R: Read + Seek> Npz<R> {
    /// Reads the table of contents.
    ///
    /// # Errors
    /// The bytes are not a ZIP archive.
    pub fn new(reader: R) -> std::result::Result<Self, Malformed> {
        let archive = Archive::new(reader)?;
        Ok(Self { archive })
    }

    /// Names of the arrays, without `.npy`, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.archive
            .names()
            .filter_map(|name| name.strip_suffix(".npy"))
    }

    /// The array of this name, or `None` if there is none.
    ///
    /// # Errors
    /// The archive or the array is damaged.
    pub fn array(&mut self, name: &str) -> std::result::Result<Option<Array>, Malformed> {
        let content = self.archive.open(&format!("{name}.npy"))?;
        content.map(read).transpose()
    }
}

/// What an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Signed(u8),
    Unsigned(u8),
    Float(u8),
}

impl Kind {
    fn size(self) -> u64 {
        match self {
            Self::Boolean => 1,
            Self::Signed(size) | Self::Unsigned(size) | Self::Float(size) => size.into(),
        }
    }

    /// No numbers, of the kind that holds these.
    fn none(self) -> Values {
        match self {
            Self::Boolean | Self::Unsigned(1) => Values::Bytes(Vec::new()),
            Self::Signed(_) | Self::Unsigned(_) => Values::Integers(Vec::new()),
            Self::Float(2 | 4) => Values::Singles(Vec::new()),
            Self::Float(_) => Values::Doubles(Vec::new()),
        }
    }

    /// Appends numbers to values of their kind, or gives the index of one that does not fit.
    fn decode(
        self,
        data: &mut [u8],
        big_endian: bool,
        values: &mut Values,
    ) -> std::result::Result<(), usize> {
        let size = self.size() as usize;
        if big_endian && size > 1 {
            data.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        match (values, self) {
            (Values::Bytes(all), _) => all.extend_from_slice(data),
            (Values::Integers(all), Self::Signed(1)) => {
                all.extend(each(data, |[b]| i64::from(b as i8)));
            }
            (Values::Integers(all), Self::Signed(2)) => {
                all.extend(each(data, |b| i64::from(i16::from_le_bytes(b))));
            }
            (Values::Integers(all), Self::Signed(4)) => {
                all.extend(each(data, |b| i64::from(i32::from_le_bytes(b))));
            }
            (Values::Integers(all), Self::Unsigned(2)) => {
                all.extend(each(data, |b| i64::from(u16::from_le_bytes(b))));
            }
            (Values::Integers(all), Self::Unsigned(4)) => {
                all.extend(each(data, |b| i64::from(u32::from_le_bytes(b))));
            }
            (Values::Integers(all), kind) => {
                let first = all.len();
                all.extend(each(data, i64::from_le_bytes));
                let bad = all[first..].iter().position(|&value| value < 0);
                if let (Self::Unsigned(_), Some(index)) = (kind, bad) {
                    return Err(index);
                }
            }
            (Values::Singles(all), Self::Float(2)) => {
                all.extend(each(data, |b| half(u16::from_le_bytes(b))));
            }
            (Values::Singles(all), _) => all.extend(each(data, f32::from_le_bytes)),
            (Values::Doubles(all), _) => all.extend(each(data, f64::from_le_bytes)),
        }
        Ok(())
    }
}

fn each<T, const N: usize>(
    data: &[u8],
    value: impl Fn([u8; N]) -> T,
) -> impl ExactSizeIterator<Item = T> {
    let (parts, _) = data.as_chunks::<N>();
    parts.iter().map(move |&bytes| value(bytes))
}

/// A float of 16 bits: sign, 5 bits of exponent, 10 of fraction.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    let size = match exponent {
        0 => fraction * 2_f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2_f32.powi(exponent - 25),
    };
    sign * size
}

/// First index fastest in, last index fastest out.
fn to_row_major<T: Copy>(shape: &[usize], values: Vec<T>) -> Vec<T> {
    let strides: Vec<usize> = shape
        .iter()
        .scan(1, |stride, &size| {
            let this = *stride;
            *stride *= size;
            Some(this)
        })
        .collect();
    let mut index = vec![0; shape.len()];
    let mut place = 0;
    let mut out = Vec::with_capacity(values.len());
    for _ in 0..values.len() {
        out.push(values[place]);
        // the next index, counting from the last dimension
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            place += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            place -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    out
}

struct Header {
    kind: Kind,
    big_endian: bool,
    column_major: bool,
    shape: Vec<u64>,
}

/// Where in the header, and what is wrong.
type Problem = (usize, String);

impl Header {
    fn parse(text: &[u8]) -> std::result::Result<Self, Problem> {
        let mut parser = Parser { text, position: 0 };
        let (mut descr, mut order, mut shape) = (None, None, None);
        parser.expect(b'{')?;
        while !parser.take(b'}') {
            let at = parser.position;
            let key = parser.string()?;
            parser.expect(b':')?;
            match key {
                b"descr" => descr = Some(parser.descr()?),
                b"fortran_order" => order = Some(parser.boolean()?),
                b"shape" => shape = Some(parser.tuple()?),
                _ => {
                    let key = key.escape_ascii();
                    return Err((at, format!("unknown key '{key}'")));
                }
            }
            if !parser.take(b',') {
                parser.expect(b'}')?;
                break;
            }
        }
        parser.end()?;
        let missing = |key| move || (0, format!("the key '{key}' is missing"));
        let (kind, big_endian) = descr.ok_or_else(missing("descr"))?;
        Ok(Self {
            kind,
            big_endian,
            column_major: order.ok_or_else(missing("fortran_order"))?,
            shape: shape.ok_or_else(missing("shape"))?,
        })
    }
}

/// Just enough of Python's literals.
struct Parser<'a> {
    text: &'a [u8],
    position: usize,
}

impl<'a> Parser<'a> {
    fn skip_space(&mut self) {
        let rest = &self.text[self.position..];
        self.position += rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
    }

    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.text.get(self.position) == Some(&byte);
        self.position += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> std::result::Result<(), Problem> {
        if self.take(byte) {
            return Ok(());
        }
        Err(self.unexpected(&format!("'{}'", byte as char)))
    }

    fn unexpected(&self, expected: &str) -> Problem {
        let found = match self.text.get(self.position) {
            Some(byte) => format!("'{}'", byte.escape_ascii()),
            None => "the end".to_owned(),
        };
        (self.position, format!("{found}, expected {expected}"))
    }

    fn end(&mut self) -> std::result::Result<(), Problem> {
        self.skip_space();
        if self.position == self.text.len() {
            return Ok(());
        }
        Err(self.unexpected("the end"))
    }

    fn string(&mut self) -> std::result::Result<&'a [u8], Problem> {
        self.skip_space();
        let quote = match self.text.get(self.position) {
            Some(&quote @ (b'\'' | b'"')) => quote,
            _ => return Err(self.unexpected("a quoted word")),
        };
        let start = self.position + 1;
        let length = self.text[start..].iter().position(|&b| b == quote);
        let Some(length) = length else {
            return Err((self.position, "the quotation does not end".into()));
        };
        self.position = start + length + 1;
        Ok(&self.text[start..start + length])
    }

    fn word(&mut self) -> &'a [u8] {
        self.skip_space();
        let rest = &self.text[self.position..];
        let length = rest
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric())
            .count();
        self.position += length;
        &rest[..length]
    }

    fn boolean(&mut self) -> std::result::Result<bool, Problem> {
        self.skip_space();
        let at = self.position;
        match self.word() {
            b"True" => Ok(true),
            b"False" => Ok(false),
            _ => Err((at, "expected True or False".into())),
        }
    }

    fn tuple(&mut self) -> std::result::Result<Vec<u64>, Problem> {
        const MOST: usize = 32;
        let mut sizes = Vec::new();
        self.expect(b'(')?;
        while !self.take(b')') {
            self.skip_space();
            let at = self.position;
            let word = self.word();
            // Python 2 marks long integers
            let digits = word.strip_suffix(b"L").unwrap_or(word);
            let size = std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse().ok())
                .ok_or_else(|| (at, "expected a size".to_owned()))?;
            if sizes.len() == MOST {
                return Err((at, format!("more than {MOST} dimensions")));
            }
            sizes.push(size);
            if !self.take(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(sizes)
    }

    fn descr(&mut self) -> std::result::Result<(Kind, bool), Problem> {
        self.skip_space();
        let at = self.position;
        if self.text.get(at) == Some(&b'[') {
            return Err((at, "records are not supported".into()));
        }
        let descr = self.string()?;
        let unknown = || {
            let descr = descr.escape_ascii();
            (
                at,
                format!("type '{descr}', expected a boolean, an integer or a float"),
            )
        };
        let (order, kind, size) = match descr {
            [order @ (b'<' | b'>' | b'|' | b'='), kind, size] => (*order, *kind, *size),
            _ => return Err(unknown()),
        };
        let size = size.wrapping_sub(b'0');
        let kind = match (kind, size) {
            (b'b', 1) => Kind::Boolean,
            (b'i', 1 | 2 | 4 | 8) => Kind::Signed(size),
            (b'u', 1 | 2 | 4 | 8) => Kind::Unsigned(size),
            (b'f', 2 | 4 | 8) => Kind::Float(size),
            _ => return Err(unknown()),
        };
        let native_is_big = cfg!(target_endian = "big");
        Ok((kind, order == b'>' || (order == b'=' && native_is_big)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let length = header.len() as u16;
        [
            b"\x93NUMPY\x01\x00",
            &length.to_le_bytes()[..],
            header.as_bytes(),
            data,
        ]
        .concat()
    }

    fn simple(descr: &str, order: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}  \n");
        file(&header, data)
    }

    /// All that a member becomes was held before its header was looked at.
    #[test]
    fn an_array_that_becomes_more_than_its_header_says_takes_little() {
        let array = simple("|u1", "False", "(3,)", &vec![0; 40_000_000]);
        let bytes = super::super::zip::tests::write(&[("a.npy", &array)], true, false);
        let mut npz = Npz::new(io::Cursor::new(bytes)).unwrap();
        let info = allocation_counter::measure(|| {
            let error = npz.array("a").unwrap_err().to_string();
            assert!(error.contains("more data follow"), "{error}");
        });
        assert!(info.bytes_max < 1 << 20, "{}", info.bytes_max);
    }

    /// What follows the numbers is looked at, so that the sum is.
    #[test]
    fn an_array_of_another_sum_is_refused() {
        let array = simple("|u1", "False", "(3,)", &[1, 2, 3]);
        let mut bytes = super::super::zip::tests::write(&[("a.npy", &array)], false, false);
        let data = bytes.windows(3).position(|part| part == [1, 2, 3]).unwrap();
        bytes[data + 3 + array.len() - 1] ^= 1;
        let error = Npz::new(io::Cursor::new(bytes))
            .unwrap()
            .array("a")
            .unwrap_err();
        assert!(error.to_string().contains("CRC-32"), "{error}");
    }

    #[test]
    fn every_type_is_understood() {
        let values = |descr: &str, data: &[u8]| {
            let size: usize = descr[2..].parse().unwrap();
            let shape = format!("({},)", data.len() / size);
            read(&simple(descr, "False", &shape, data)[..])
                .unwrap()
                .values
        };
        assert_eq!(values("|b1", &[0, 1]), Values::Bytes(vec![0, 1]));
        assert_eq!(values("|u1", &[0, 255]), Values::Bytes(vec![0, 255]));
        assert_eq!(values("|i1", &[1, 255]), Values::Integers(vec![1, -1]));
        assert_eq!(
            values("<i2", &[1, 0, 254, 255]),
            Values::Integers(vec![1, -2])
        );
        assert_eq!(
            values(">i2", &[0, 1, 255, 254]),
            Values::Integers(vec![1, -2])
        );
        assert_eq!(values("<u2", &[254, 255]), Values::Integers(vec![65534]));
        assert_eq!(
            values("<i4", &(-7_i32).to_le_bytes()),
            Values::Integers(vec![-7])
        );
        assert_eq!(
            values(">u4", &u32::MAX.to_be_bytes()),
            Values::Integers(vec![4_294_967_295])
        );
        assert_eq!(
            values("<i8", &i64::MIN.to_le_bytes()),
            Values::Integers(vec![i64::MIN])
        );
        assert_eq!(
            values("<u8", &5_u64.to_le_bytes()),
            Values::Integers(vec![5])
        );
        assert_eq!(
            values("<f4", &0.1_f32.to_le_bytes()),
            Values::Singles(vec![0.1])
        );
        assert_eq!(
            values(">f8", &0.1_f64.to_be_bytes()),
            Values::Doubles(vec![0.1])
        );
        // 1, -2, smallest subnormal, largest, infinity: from the definition of the format
        let halves = [0x3c00_u16, 0xc000, 0x0001, 0x7bff, 0x7c00]
            .map(u16::to_le_bytes)
            .concat();
        assert_eq!(
            values("<f2", &halves),
            Values::Singles(vec![1.0, -2.0, 5.960_464_5e-8, 65504.0, f32::INFINITY])
        );
        assert!(half(0x7e00).is_nan());
    }

    #[test]
    fn column_major_arrays_are_turned() {
        // a[i, j, k] = 100 i + 10 j + k, shape [2, 3, 2], first index fastest
        let mut data = Vec::new();
        for k in 0..2 {
            for j in 0..3 {
                for i in 0..2 {
                    data.push(100 * i + 10 * j + k);
                }
            }
        }
        let array = read(&simple("|u1", "True", "(2, 3, 2)", &data)[..]).unwrap();
        let expected = vec![0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121];
        assert_eq!(array.values, Values::Bytes(expected));
    }

    #[test]
    fn odd_but_legal_headers_are_read() {
        let scalar = read(&simple("<f8", "False", "()", &1.5_f64.to_le_bytes())[..]).unwrap();
        assert_eq!((scalar.shape(), scalar.to_f64()), (&[][..], vec![1.5]));
        let empty = read(&simple("<f4", "False", "(0, 10)", &[])[..]).unwrap();
        assert_eq!(
            (empty.shape(), empty.values().is_empty()),
            (&[0, 10][..], true)
        );
        let header = r#"{"shape":(1L,),"fortran_order":False,"descr":"|u1"}"#;
        assert_eq!(read(&file(header, &[9])[..]).unwrap().to_f64(), [9.0]);
        // version 2 has a longer length
        let mut second = file(header, &[9]);
        second.splice(6..10, [2, 0, header.len() as u8, 0, 0, 0]);
        assert_eq!(read(&second[..]).unwrap().to_f64(), [9.0]);
    }

    #[test]
    fn every_defect_is_named() {
        let message = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        let array = |descr, shape, data: &[u8]| message(&simple(descr, "False", shape, data));
        assert_eq!(
            message(b"PK\x03\x04zipped"),
            r#"magic number at byte 0: "PK\x03\x04zi", expected "\x93NUMPY""#
        );
        assert_eq!(
            message(b"\x93NUMPY\x07\x00\x00\x00"),
            "version at byte 6: 7.0, expected 1.0, 2.0 or 3.0"
        );
        assert_eq!(
            array("<c8", "(1,)", &[0; 8]),
            "header at byte 20: type '<c8', expected a boolean, an integer or a float"
        );
        assert_eq!(
            array("|O", "(1,)", &[]),
            "header at byte 20: type '|O', expected a boolean, an integer or a float"
        );
        assert_eq!(
            array("<f4", "(2,)", &[0; 5]),
            "data at byte 70: 8 bytes announced, the data end after 5"
        );
        assert_eq!(
            array("<f4", "(1,)", &[0; 5]),
            "end at byte 74: more data follow than the header announces"
        );
        assert_eq!(
            array("<u8", "(2,)", &[[1; 8], [255; 8]].concat()),
            "data at byte 78: the integer does not fit into 63 bits"
        );
        assert_eq!(
            array("<f8", "(4294967296, 4294967296)", &[]),
            "header at byte 10: the shape multiplies to too much"
        );
        assert_eq!(
            array("<f4", "(-1,)", &[]),
            "header at byte 61: expected a size"
        );
        assert_eq!(
            message(&file("{'descr': '|u1', 'shape': (1,)}", &[1])),
            "header at byte 10: the key 'fortran_order' is missing"
        );
        assert_eq!(
            message(&file("{'descr': [('a', '<f4')]}", &[1])),
            "header at byte 20: records are not supported"
        );
        assert_eq!(
            message(&file("{'descr': '|u1", &[])),
            "header at byte 20: the quotation does not end"
        );
        assert_eq!(
            message(&file("{'a': 1}", &[])),
            "header at byte 11: unknown key 'a'"
        );
        assert_eq!(
            message(&file("[1]", &[])),
            "header at byte 10: '[', expected '{'"
        );
    }

    #[test]
    fn a_promise_of_terabytes_takes_no_memory() {
        let bytes = simple("<f8", "False", "(1099511627776,)", &[0; 100]);
        let info = allocation_counter::measure(|| assert!(read(&bytes[..]).is_err()));
        assert!(info.bytes_max < 1 << 26, "{info:?}");
    }

    /// Numbers are made piece by piece: the bytes of the file are never there as a whole.
    #[test]
    fn numbers_are_not_held_twice() {
        let numbers = 1_000_003;
        let shape = format!("({numbers},)");
        let bytes = simple("<f4", "False", &shape, &vec![1; 4 * numbers]);
        let mut array = None;
        let info = allocation_counter::measure(|| array = read(&bytes[..]).ok());
        let most = 7 * numbers as u64;
        assert!(info.bytes_max < most, "{info:?}");
        let Some(Values::Singles(values)) = array.map(|array| array.values) else {
            panic!("these are floats of 4 bytes");
        };
        assert_eq!(values.capacity(), numbers);
        assert!(values.iter().all(|v| v.to_le_bytes() == [1; 4]));
    }

    #[test]
    fn whole_floats_are_labels_and_others_are_not() {
        let array = |values| Array::new(vec![2], values).unwrap();
        assert_eq!(
            array(Values::Doubles(vec![1.0, -3.0])).to_integers(),
            Some(vec![1, -3])
        );
        assert_eq!(array(Values::Singles(vec![1.0, 2.5])).to_integers(), None);
        assert_eq!(
            array(Values::Doubles(vec![1.0, f64::NAN])).to_integers(),
            None
        );
        assert_eq!(array(Values::Doubles(vec![1.0, 1e300])).to_integers(), None);
        assert!(Array::new(vec![2, 2], Values::Bytes(vec![1])).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            shape in prop::collection::vec(0_usize..4, 0..5),
            kind in 0..4,
            seed: i64,
        ) {
            let count: usize = shape.iter().product();
            let numbers = (0..count as i64).map(|i| seed.wrapping_mul(i + 1));
            let values = match kind {
                0 => Values::Bytes(numbers.map(|n| n as u8).collect()),
                1 => Values::Integers(numbers.collect()),
                2 => Values::Singles(numbers.map(|n| n as f32).collect()),
                _ => Values::Doubles(numbers.map(|n| n as f64).collect()),
            };
            let array = Array::new(shape, values).unwrap();
            let mut bytes = Vec::new();
            write(&mut bytes, &array).unwrap();
            let header = u16::from_le_bytes([bytes[8], bytes[9]]);
            prop_assert_eq!((10 + header) % 64, 0);
            prop_assert_eq!(read(&bytes[..]).unwrap(), array);
        }
    }
}
