//! Sizes that compressed pages of Parquet files announce, looked at before the decoder makes room
//! for them: it reserves up to 2 GiB for what a header of a few bytes says.
//!
//! A page is refused that announces more than its codec can make of its bytes, or becomes more than
//! it announces. With c bytes Snappy makes at most 64/3 c (a copy of 64 bytes takes three), LZ4
//! 255 c (a byte that lengthens a match), DEFLATE 1032 c (a match of 258 bytes takes two bits);
//! Zstandard has no such ratio, but blocks of at most 128 KiB, which are counted.
//!
//! The headers are those of the format's Thrift schema in the compact protocol. A field of another
//! type than there is refused, since the decoder would go on at another place than this does.

use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;

use super::pages::number;

/// A page that announces no more than this is never out of proportion.
const SMALL: u64 = 1 << 20;

/// How often a page may announce its own size before its blocks are counted.
const ORDINARY_RATIO: u64 = 64;

/// How often a page may announce its own size if it announces more than [`LARGE`].
const LARGE_RATIO: u64 = 2000;

/// What a page of a few bytes may announce, if its codec can make that of them.
const LARGE: u64 = 256 << 20;

/// By how much a page may become larger than it announces before that is measured.
const BEYOND: u64 = 64 << 20;

/// The most that a block of Zstandard becomes.
const ZSTD_BLOCK: u64 = 128 << 10;

/// How the two kinds of frames of LZ4 begin.
const LZ4_FRAMES: [[u8; 4]; 2] = [[0x04, 0x22, 0x4d, 0x18], [0x02, 0x21, 0x4c, 0x18]];

/// Bytes of a header that are read at first; it is longer where its statistics are long texts.
const HEADER: u64 = 1 << 10;

/// A file, on a disk or in memory.
pub trait Source: Send + Sync {
    /// Bytes of the file.
    fn size(&self) -> u64;

    /// Bytes from a place on.
    fn bytes(&self, start: u64, length: u64) -> Result<Bytes>;
}

impl<R: ChunkReader> Source for R {
    fn size(&self) -> u64 {
        self.len()
    }

    fn bytes(&self, start: u64, length: u64) -> Result<Bytes> {
        self.get_bytes(start, usize::try_from(length)?)
    }
}

/// The pages of a column of a row group, in their order.
pub struct Sizes {
    source: Arc<dyn Source>,
    codec: Compression,
    offset: u64,
    end: u64,
}

impl Sizes {
    /// Before the first page of a column.
    ///
    /// # Errors
    /// The column lies outside of the file.
    pub fn new(source: Arc<dyn Source>, column: &ColumnChunkMetaData) -> Result<Self> {
        let (offset, length) = column.byte_range();
        let end = offset.saturating_add(length).min(source.size());
        if offset > end {
            return Err(refusal(format!(
                "its pages begin at {offset}, behind the file"
            )));
        }
        Ok(Self {
            source,
            codec: column.compression(),
            offset,
            end,
        })
    }

    /// Looks at the next page, if there is one.
    ///
    /// # Errors
    /// It may not be decoded.
    pub fn advance(&mut self) -> Result<()> {
        if self.offset == self.end {
            return Ok(());
        }
        let header = self.header()?;
        let start = self.offset + header.length;
        let end = start.saturating_add(header.compressed);
        if end > self.end {
            return Err(refusal(format!(
                "a page of {} bytes is announced where {} are left",
                header.compressed,
                self.end.saturating_sub(start)
            )));
        }
        self.offset = end;
        let (Some(start), true) = (start.checked_add(header.levels), header.is_compressed) else {
            return Ok(());
        };
        let announced = header.uncompressed.saturating_sub(header.levels);
        check(self.codec, end.saturating_sub(start), announced, || {
            self.source.bytes(start, end.saturating_sub(start))
        })
    }

    /// The header at this place.
    fn header(&self) -> Result<Header> {
        let left = self.end - self.offset;
        let mut length = HEADER.min(left);
        loop {
            let bytes = self.source.bytes(self.offset, length)?;
            match Header::read(&bytes) {
                Some(header) => return Ok(header),
                None if length == left => break,
                None => length = left.min(8 * length),
            }
        }
        Err(refusal(format!(
            "the page at {} has no valid header",
            self.offset
        )))
    }
}

/// Refuses a page that announces what it cannot become, or may become more than it announces.
fn check(
    codec: Compression,
    length: u64,
    announced: u64,
    bytes: impl Fn() -> Result<Bytes>,
) -> Result<()> {
    let refuse = |most: u64| {
        Err(refusal(format!(
            "a page of {length} bytes announces {announced} and can become {most} at most"
        )))
    };
    let ratio = match codec {
        Compression::UNCOMPRESSED => return Ok(()),
        Compression::SNAPPY => Some(22),
        Compression::LZ4 | Compression::LZ4_RAW => Some(255),
        Compression::GZIP(_) => Some(1032),
        // others are refused by the decoder
        _ => None,
    };
    if let Some(ratio) = ratio {
        let most = length.saturating_mul(ratio);
        if announced > most {
            return refuse(most);
        }
        if most <= announced.saturating_add(BEYOND) {
            return Ok(());
        }
    } else if announced > SMALL.max(length.saturating_mul(ORDINARY_RATIO)) {
        if announced > LARGE.max(length.saturating_mul(LARGE_RATIO)) {
            return Err(refusal(format!(
                "a page of {length} bytes announces {announced}; more than {LARGE_RATIO} times \
                 its size are read up to {LARGE} bytes"
            )));
        }
        let most = zstd_limit(&bytes()?);
        if announced > most {
            return refuse(most);
        }
    }
    // of these two the decoder makes whatever comes out
    let becomes_more = match codec {
        Compression::GZIP(_) => {
            let bytes = bytes()?;
            let mut inflated = MultiGzDecoder::new(&bytes[..]).take(announced + 1);
            // where it is damaged the decoder ends, too, and has no more of it than this
            io::copy(&mut inflated, &mut io::sink()).is_ok_and(|size| size > announced)
        }
        // Frames, as early versions of one writer made them: what they become is not measured, and
        // larger pages of them are refused.
        Compression::LZ4 => {
            let bytes = bytes()?;
            LZ4_FRAMES.iter().any(|magic| bytes.starts_with(magic))
        }
        _ => false,
    };
    if becomes_more {
        return Err(refusal(format!(
            "a page of {length} bytes announces {announced} and may become more"
        )));
    }
    Ok(())
}

/// The most bytes that these become: the blocks of all frames, each at its largest.
fn zstd_limit(bytes: &[u8]) -> u64 {
    let mut left = bytes;
    let mut sum = 0u64;
    // what does not go on like a frame is refused by the decoder
    while let Some(rest) = zstd_frame(left, &mut sum) {
        left = rest;
    }
    sum
}

/// Adds the blocks of a frame, and gives what follows it.
fn zstd_frame<'a>(bytes: &'a [u8], sum: &mut u64) -> Option<&'a [u8]> {
    let (magic, rest) = bytes.split_first_chunk()?;
    let magic = u32::from_le_bytes(*magic);
    if magic & !0xf == 0x184d_2a50 {
        let (length, rest) = rest.split_first_chunk()?;
        return rest.get(u32::from_le_bytes(*length) as usize..);
    }
    if magic != 0xfd2f_b528 {
        return None;
    }
    let (&descriptor, rest) = rest.split_first()?;
    let is_single = descriptor & 0x20 != 0;
    let window = usize::from(!is_single);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = [usize::from(is_single), 2, 4, 8][usize::from(descriptor >> 6)];
    let mut left = rest.get(window + dictionary + content..)?;
    loop {
        let (&[low, middle, high], rest) = left.split_first_chunk()?;
        let block = u32::from_le_bytes([low, middle, high, 0]);
        let size = block >> 3;
        let (taken, made) = match block >> 1 & 3 {
            0 => (size, u64::from(size)),
            1 => (1, u64::from(size)),
            2 => (size, ZSTD_BLOCK),
            _ => return None,
        };
        left = rest.get(taken as usize..)?;
        *sum += made.min(ZSTD_BLOCK);
        if block & 1 == 1 {
            let checksum = if descriptor & 4 != 0 { 4 } else { 0 };
            return left.get(checksum..);
        }
    }
}

/// What a header says of its page.
#[derive(Debug, PartialEq)]
struct Header {
    /// Its own bytes.
    length: u64,
    uncompressed: u64,
    compressed: u64,
    /// Bytes of levels before what is compressed.
    levels: u64,
    is_compressed: bool,
}

/// Types of the compact protocol that the headers have.
mod kind {
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const I32: u8 = 5;
    pub const STRUCT: u8 = 12;
}

/// Structs of the schema whose fields are known.
#[derive(Clone, Copy)]
enum Struct {
    Page,
    Data,
    Dictionary,
    DataV2,
}

/// What is gathered from the fields of a header.
#[derive(Default)]
struct Fields {
    page: Option<u64>,
    uncompressed: Option<u64>,
    compressed: Option<u64>,
    definition_levels: u64,
    repetition_levels: u64,
    is_raw: bool,
}

impl Header {
    /// The header at the front of these bytes; nothing where they are cut or not as the schema has
    /// them.
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut left = bytes;
        let mut fields = Fields::default();
        fields.read(Struct::Page, &mut left)?;
        // data, dictionary, data of version 2; nobody writes pages of an index
        if !matches!(fields.page?, 0 | 2 | 3) {
            return None;
        }
        Some(Self {
            length: (bytes.len() - left.len()) as u64,
            uncompressed: fields.uncompressed?,
            compressed: fields.compressed?,
            levels: fields.definition_levels + fields.repetition_levels,
            is_compressed: !fields.is_raw,
        })
    }
}

impl Fields {
    /// Reads a struct to its end.
    fn read(&mut self, of: Struct, left: &mut &[u8]) -> Option<()> {
        let mut id = 0i16;
        loop {
            let first = byte(left)?;
            let kind = first & 0xf;
            if kind == 0 {
                return Some(());
            }
            id = match first >> 4 {
                0 => i16::try_from(signed(left)?).ok()?,
                step => id.checked_add(i16::from(step))?,
            };
            match (of, id, kind) {
                (Struct::Page, 1, kind::I32) => self.page = Some(size(left)?),
                (Struct::Page, 2, kind::I32) => self.uncompressed = Some(size(left)?),
                (Struct::Page, 3, kind::I32) => self.compressed = Some(size(left)?),
                (Struct::Page, 4, kind::I32) => drop(signed(left)?),
                (Struct::Page, 5, kind::STRUCT) => self.read(Struct::Data, left)?,
                (Struct::Page, 7, kind::STRUCT) => self.read(Struct::Dictionary, left)?,
                (Struct::Page, 8, kind::STRUCT) => {
                    self.is_raw = false;
                    self.read(Struct::DataV2, left)?;
                }
                (Struct::Data, 1..=4, kind::I32) => drop(signed(left)?),
                (Struct::Data, 5, kind::STRUCT) => skip(kind, left, DEPTH)?,
                (Struct::Dictionary, 1..=2, kind::I32) => drop(signed(left)?),
                (Struct::Dictionary, 3, kind::TRUE | kind::FALSE) => (),
                (Struct::DataV2, 1..=4, kind::I32) => drop(signed(left)?),
                (Struct::DataV2, 5, kind::I32) => self.definition_levels = size(left)?,
                (Struct::DataV2, 6, kind::I32) => self.repetition_levels = size(left)?,
                (Struct::DataV2, 7, kind::TRUE) => self.is_raw = false,
                (Struct::DataV2, 7, kind::FALSE) => self.is_raw = true,
                (Struct::DataV2, 8, kind::STRUCT) => skip(kind, left, DEPTH)?,
                // a known field of another type
                (Struct::Page | Struct::DataV2, 1..=8, _)
                | (Struct::Data, 1..=5, _)
                | (Struct::Dictionary, 1..=3, _) => return None,
                _ => skip(kind, left, DEPTH)?,
            }
        }
    }
}

/// Structs and lists inside of each other.
const DEPTH: usize = 8;

/// Goes past a field of this type.
fn skip(kind: u8, left: &mut &[u8], depth: usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let length = match kind {
        1 | 2 => 0,
        3 => 1,
        4..=6 => return number(left).map(drop),
        7 => 8,
        8 => number(left)?,
        // a list or a set
        9 | 10 => {
            let first = byte(left)?;
            let count = match first >> 4 {
                15 => number(left)?,
                count => usize::from(count),
            };
            for _ in 0..count {
                // truth values are refused: the decoder takes none of their bytes
                skip(first & 0xf, left, depth).filter(|()| first & 0xf > kind::FALSE)?;
            }
            0
        }
        12 => loop {
            let first = byte(left)?;
            if first & 0xf == 0 {
                break 0;
            }
            if first >> 4 == 0 {
                signed(left)?;
            }
            skip(first & 0xf, left, depth)?;
        },
        _ => return None,
    };
    *left = left.get(length..)?;
    Some(())
}

fn byte(left: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = left.split_first()?;
    *left = rest;
    Some(first)
}

/// A signed number: 0, -1, 1, -2, ... as 0, 1, 2, 3, ...
fn signed(left: &mut &[u8]) -> Option<i32> {
    let bits = u64::try_from(number(left)?).ok()?;
    let half = i64::try_from(bits >> 1).ok()?;
    i32::try_from(half ^ -i64::from(bits & 1 == 1)).ok()
}

/// A signed number that is not negative.
fn size(left: &mut &[u8]) -> Option<u64> {
    u64::try_from(signed(left)?).ok()
}

fn refusal(problem: String) -> ParquetError {
    ParquetError::General(problem)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::write::GzEncoder;
    use parquet::basic::{GzipLevel, ZstdLevel};
    use parquet::data_type::DoubleType;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::csv::parquet::Parquet;

    fn gzip() -> Compression {
        Compression::GZIP(GzipLevel::default())
    }

    fn zstd() -> Compression {
        Compression::ZSTD(ZstdLevel::default())
    }

    #[test]
    fn headers_are_read_as_the_schema_has_them() {
        // 40 values, plain, with statistics of a text and a count; 300 bytes of 600
        let statistics = b"\x1c\x18\x02ab\x16\x08\x00";
        let data = [
            &b"\x2c\x15\x50\x15\x00\x15\x06\x15\x06"[..],
            statistics,
            b"\x00\x00",
        ];
        let version_1 = [&b"\x15\x00\x15\xb0\x09\x15\xd8\x04"[..], &data.concat()].concat();
        let read = Header::read(&[&version_1[..], b"body"].concat());
        let plain = Header {
            length: version_1.len() as u64,
            uncompressed: 600,
            compressed: 300,
            levels: 0,
            is_compressed: true,
        };
        assert_eq!(read, Some(plain));
        for length in 0..version_1.len() {
            assert_eq!(Header::read(&version_1[..length]), None, "cut at {length}");
        }
        // 5 and 7 bytes of levels, not compressed
        let levels = b"\x15\x50\x15\x00\x15\x50\x15\x00\x15\x0a\x15\x0e\x12\x00\x00";
        let version_2 = [&b"\x15\x06\x15\xb0\x09\x15\xd8\x04\x5c"[..], levels].concat();
        let read = Header::read(&version_2).expect("a header");
        assert_eq!((read.levels, read.is_compressed), (12, false));
        // an index; a size that is a text for us and a number for the decoder; one below zero
        for (at, byte) in [(1, 2), (2, 0x18), (4, 0x01)] {
            let mut other = version_1.clone();
            other[at] = byte;
            if at == 4 {
                other[3] |= 1;
            }
            assert_eq!(Header::read(&other), None, "byte {at}");
        }
    }

    #[test]
    fn a_page_announces_what_its_codec_can_make() {
        let none = || -> Result<Bytes> { panic!("no need to look at its bytes") };
        let codecs = [
            (Compression::SNAPPY, 22),
            (Compression::LZ4, 255),
            (Compression::LZ4_RAW, 255),
            (gzip(), 1032),
        ];
        for (codec, ratio) in codecs {
            check(codec, 1000, 1000 * ratio, none).expect("it may");
            let error = check(codec, 1000, 1000 * ratio + 1, none).expect_err("it cannot");
            let expected = format!("can become {} at most", 1000 * ratio);
            assert!(error.to_string().contains(&expected), "{error}");
        }
        check(Compression::UNCOMPRESSED, 1, u64::MAX, none).expect("it is not believed");
        check(zstd(), 10, SMALL, none).expect("it is small");
        let many = LARGE / LARGE_RATIO - 1;
        let error = check(zstd(), many, LARGE + 1, none).expect_err("too many");
        assert!(error.to_string().contains("2000 times"), "{error}");
    }

    #[test]
    fn blocks_of_zstandard_are_counted() {
        let block = |last: u32, kind: u32, size: u32| {
            let header: u32 = last | kind << 1 | size << 3;
            header.to_le_bytes()[..3].to_vec()
        };
        // a frame without a window but with a sum, behind one to be skipped
        let mut bytes = b"\x5a\x2a\x4d\x18\x02\x00\x00\x00xx".to_vec();
        bytes.extend(b"\x28\xb5\x2f\xfd\x24\x07");
        bytes.extend(
            [
                block(0, 0, 3),
                b"abc".to_vec(),
                block(0, 1, 1000),
                b"x".to_vec(),
            ]
            .concat(),
        );
        bytes.extend([block(1, 2, 4), b"????sums".to_vec()].concat());
        assert_eq!(zstd_limit(&bytes), 3 + 1000 + ZSTD_BLOCK);
        // another frame with a window, a dictionary of two bytes and a size of eight
        let mut two = bytes.clone();
        two.extend(b"\x28\xb5\x2f\xfd\xc2w\x01\x02sssssss\x00");
        two.extend([block(1, 1, 0x1f_ffff), b"x".to_vec()].concat());
        assert_eq!(
            zstd_limit(&two),
            3 + 1000 + 2 * ZSTD_BLOCK,
            "no block is larger"
        );
        assert_eq!(
            zstd_limit(&bytes[..bytes.len() - 9]),
            1003,
            "the last is cut"
        );
        assert_eq!(zstd_limit(b"no frame"), 0);
    }

    #[test]
    fn a_page_that_becomes_more_than_it_announces_is_refused() {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        let zeros = vec![0; 1 << 20];
        for _ in 0..66 {
            encoder.write_all(&zeros).expect("into memory");
        }
        let made = Bytes::from(encoder.finish().expect("into memory"));
        let length = made.len() as u64;
        let bytes = || Ok(made.clone());
        check(gzip(), length, 66 << 20, bytes).expect("as it is");
        let error = check(gzip(), length, SMALL, bytes).expect_err("too small");
        assert!(error.to_string().contains("may become more"), "{error}");
        let frame = Bytes::from([&LZ4_FRAMES[0][..], &[0; 1 << 20]].concat());
        let check = |codec| check(codec, frame.len() as u64, SMALL, || Ok(frame.clone()));
        assert!(check(Compression::LZ4).is_err());
        check(Compression::LZ4_RAW).expect("the decoder knows no frames there");
    }

    /// A column of one number in one page of two million bytes: a hundred bytes for Zstandard.
    #[test]
    fn pages_that_compress_well_are_read() {
        const ROWS: usize = 1 << 18;
        let schema = parse_message_type("message m { required double x; }").expect("a schema");
        let schema = Arc::new(schema);
        for codec in [
            Compression::SNAPPY,
            Compression::LZ4,
            Compression::LZ4_RAW,
            gzip(),
            zstd(),
        ] {
            let properties = WriterProperties::builder()
                .set_compression(codec)
                .set_dictionary_enabled(false)
                .set_data_page_size_limit(1 << 30)
                .set_data_page_row_count_limit(usize::MAX)
                .set_write_batch_size(ROWS)
                .build();
            let mut made = Vec::new();
            let properties = Arc::new(properties);
            let mut file = SerializedFileWriter::new(&mut made, Arc::clone(&schema), properties)
                .expect("a file");
            let mut group = file.next_row_group().expect("a group");
            let mut column = group.next_column().expect("no error").expect("a column");
            let numbers = vec![0.25; ROWS];
            column
                .typed::<DoubleType>()
                .write_batch(&numbers, None, None)
                .expect("numbers");
            column.close().expect("no error");
            group.close().expect("no error");
            file.close().expect("no error");
            assert!(made.len() < 100_000, "{codec}: {}", made.len());
            let (mut table, _) = Parquet::from_bytes(made).expect("a table");
            let mut rows = 0;
            while table.advance() {
                rows += 1;
                assert!(
                    matches!(table.number(0), Ok(Some(0.25))),
                    "{codec}: row {rows}"
                );
            }
            assert_eq!(rows, ROWS, "{codec}");
        }
    }
}
