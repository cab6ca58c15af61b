//! ZIP archives, as far as NumPy and the publishers of datasets write them: stored or deflated
//! members, ZIP64 sizes, no encryption, one volume.
//!
//! The table of contents at the end of the file is what counts. The CRC-32 of a member is checked
//! when it has been read. Deflate expands at most 1032-fold and a stored member not at all, so a
//! size that promises more is refused before memory is taken; so are members that together are
//! larger than the file, and a name that stands there twice.

use std::collections::HashSet;
use std::io::{self, Read, Seek, SeekFrom};

use flate2::Crc;
use flate2::read::DeflateDecoder;

use crate::error::Malformed;

type Result<T> = std::result::Result<T, Malformed>;

const END: u32 = 0x0605_4b50;
const END_64_LOCATOR: u32 = 0x0706_4b50;
const END_64: u32 = 0x0606_4b50;
const ENTRY: u32 = 0x0201_4b50;
const LOCAL: u32 = 0x0403_4b50;

/// No deflated byte becomes more than this many.
const EXPANSION: u64 = 1032;

/// An open archive.
///
/// ```no_run
/// use datasets::formats::zip::Archive;
///
/// let file = std::fs::File::open("archive.zip")?;
/// let mut archive = Archive::new(std::io::BufReader::new(file))?;
/// let names: Vec<String> = archive.names().map(Into::into).collect();
/// let first = archive.read(&names[0])?.expect("it is in the table of contents");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Archive<R> {
    reader: R,
    length: u64,
    members: Vec<Member>,
}

#[derive(Debug, Clone)]
struct Member {
    name: String,
    raw_name: Vec<u8>,
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    local_header: u64,
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the table of contents.
    ///
    /// # Errors
    /// There is none, or it points outside the file.
    pub fn new(mut reader: R) -> Result<Self> {
        let length = reader
            .seek(SeekFrom::End(0))
            .map_err(|error| Malformed::new("archive", 0, error.to_string()))?;
        let mut archive = Self {
            reader,
            length,
            members: Vec::new(),
        };
        let (start, size, count) = archive.directory()?;
        let table = archive.bytes("table of contents", start, size)?;
        archive.members = parse_table(&table, start, count)?;
        let packed = archive.members.iter().map(|member| member.packed);
        let packed = packed.fold(0, u64::saturating_add);
        if packed > length {
            let problem = format!("members of {packed} bytes announced, the file has {length}");
            return Err(Malformed::new("table of contents", start, problem));
        }
        Ok(archive)
    }

    /// Names of the members, in the order of the table of contents; folders end in a slash.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| &member.name[..])
    }

    /// Uncompressed size of a member, as the table of contents has it.
    pub fn size(&self, name: &str) -> Option<u64> {
        let member = self.members.iter().find(|member| member.name == name)?;
        Some(member.size)
    }

    /// The content of a member, or `None` if there is no such member. Memory: packed and unpacked
    /// size.
    ///
    /// # Errors
    /// The member is encrypted, packed by another method, cut off, or its sum is wrong.
    pub fn read(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.members.iter().position(|member| member.name == name) {
            Some(index) => self.read_at(index).map(Some),
            None => Ok(None),
        }
    }

    /// The content of the member at this place of the table of contents.
    ///
    /// # Errors
    /// As for [`Archive::read`].
    ///
    /// # Panics
    /// If there is no such place.
    pub fn read_at(&mut self, index: usize) -> Result<Vec<u8>> {
        let mut content = self.open_at(index)?;
        let mut bytes = Vec::with_capacity(content.size as usize);
        let start = content.start;
        content
            .read_to_end(&mut bytes)
            .map_err(|error| Malformed::new("member", start, error.to_string()))?;
        Ok(bytes)
    }

    /// A reader of the member of this name, or `None` if there is no such member. What it gives is
    /// right once it says that nothing is left.
    ///
    /// # Errors
    /// The member is encrypted, packed by another method or cut off; the reader itself fails where
    /// the content is other than announced.
    pub fn open(&mut self, name: &str) -> Result<Option<Content<'_, R>>> {
        match self.members.iter().position(|member| member.name == name) {
            Some(index) => self.open_at(index).map(Some),
            None => Ok(None),
        }
    }

    fn open_at(&mut self, index: usize) -> Result<Content<'_, R>> {
        let member = self.members[index].clone();
        let at = member.local_header;
        let refuse = |problem: String| Err(Malformed::new("member", at, problem));
        if member.flags & 1 != 0 {
            return refuse("it is encrypted".into());
        }
        if ![0, 8].contains(&member.method) {
            return refuse(format!(
                "compression method {}, expected 0 or 8",
                member.method
            ));
        }
        let (fits, packed) = if member.method == 8 {
            (member.size / EXPANSION <= member.packed, "deflated")
        } else {
            (member.size == member.packed, "stored")
        };
        if !fits {
            return refuse(format!(
                "{} bytes cannot come from {} {packed} ones",
                member.size, member.packed
            ));
        }
        let header = self.bytes("local header", at, 30)?;
        let signature = u32_at(&header, 0);
        if signature != LOCAL {
            let problem = format!("signature {signature:#010x}, expected {LOCAL:#010x}");
            return Err(Malformed::new("local header", at, problem));
        }
        let name_length = u64::from(u16_at(&header, 26));
        let name = self.bytes("local header", at + 30, name_length)?;
        if name != member.raw_name {
            let problem = format!(
                "it is of \"{}\", expected \"{}\"",
                name.escape_ascii(),
                member.raw_name.escape_ascii()
            );
            return Err(Malformed::new("local header", at, problem));
        }
        let start = at + 30 + name_length + u64::from(u16_at(&header, 28));
        self.seek("member", start, member.packed)?;
        let packed = (&mut self.reader).take(member.packed);
        Ok(Content {
            inner: if member.method == 0 {
                Packed::Stored(packed)
            } else {
                Packed::Deflated(DeflateDecoder::new(packed))
            },
            start,
            size: member.size,
            left: member.size,
            crc: Crc::new(),
            expected: member.crc,
        })
    }

    /// Start, size and number of entries of the table of contents.
    fn directory(&mut self) -> Result<(u64, u64, u64)> {
        // the record is 22 bytes and a comment of up to 65535
        let tail_length = self.length.min(22 + 65_535);
        let tail_start = self.length - tail_length;
        let tail = self.bytes("end of the archive", tail_start, tail_length)?;
        let end = (0..tail.len().saturating_sub(21)).rev().find(|&at| {
            u32_at(&tail, at) == END && at + 22 + usize::from(u16_at(&tail, at + 20)) == tail.len()
        });
        let Some(end) = end else {
            let problem = "no end record: this is not a ZIP archive, or it is cut off";
            return Err(Malformed::new("end of the archive", tail_start, problem));
        };
        let count = u16_at(&tail, end + 10);
        let size = u32_at(&tail, end + 12);
        let start = u32_at(&tail, end + 16);
        let end = tail_start + end as u64;
        if count != u16::MAX && size != u32::MAX && start != u32::MAX {
            return Ok((start.into(), size.into(), count.into()));
        }
        let Some(locator_at) = end.checked_sub(20) else {
            return Ok((start.into(), size.into(), count.into()));
        };
        let locator = self.bytes("ZIP64 locator", locator_at, 20)?;
        if u32_at(&locator, 0) != END_64_LOCATOR {
            return Ok((start.into(), size.into(), count.into()));
        }
        let record_at = u64_at(&locator, 8);
        let record = self.bytes("ZIP64 end record", record_at, 56)?;
        let signature = u32_at(&record, 0);
        if signature != END_64 {
            let problem = format!("signature {signature:#010x}, expected {END_64:#010x}");
            return Err(Malformed::new("ZIP64 end record", record_at, problem));
        }
        Ok((
            u64_at(&record, 48),
            u64_at(&record, 40),
            u64_at(&record, 32),
        ))
    }

    /// Bytes of the file; a range outside it is refused before memory is taken.
    fn bytes(&mut self, field: &'static str, start: u64, size: u64) -> Result<Vec<u8>> {
        self.seek(field, start, size)?;
        let mut bytes = vec![0; size as usize];
        self.reader
            .read_exact(&mut bytes)
            .map_err(|error| Malformed::new(field, start, error.to_string()))?;
        Ok(bytes)
    }

    /// Goes to a place of the file from which on there are so many bytes.
    fn seek(&mut self, field: &'static str, start: u64, size: u64) -> Result<()> {
        if start.checked_add(size).is_none_or(|end| end > self.length) {
            let problem = format!("{size} bytes announced, the file has {}", self.length);
            return Err(Malformed::new(field, start, problem));
        }
        self.reader
            .seek(SeekFrom::Start(start))
            .map_err(|error| Malformed::new(field, start, error.to_string()))?;
        Ok(())
    }
}

/// The content of a member, piece by piece; its length and its sum are checked at its end.
#[derive(Debug)]
pub struct Content<'a, R> {
    inner: Packed<io::Take<&'a mut R>>,
    start: u64,
    size: u64,
    left: u64,
    crc: Crc,
    expected: u32,
}

#[derive(Debug)]
enum Packed<R> {
    Stored(R),
    Deflated(DeflateDecoder<R>),
}

impl<R: Read> Read for Packed<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stored(inner) => inner.read(target),
            Self::Deflated(inner) => inner.read(target),
        }
    }
}

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let wanted = (target.len() as u64).min(self.left) as usize;
        if wanted > 0 {
            let got = self.inner.read(&mut target[..wanted])?;
            self.left -= got as u64;
            self.crc.update(&target[..got]);
            if got > 0 {
                return Ok(got);
            }
        } else if target.is_empty() {
            return Ok(0);
        }
        let problem = if self.left > 0 || self.inner.read(&mut [0])? > 0 {
            format!("{} bytes announced, other than found", self.size)
        } else if self.crc.sum() != self.expected {
            let (found, expected) = (self.crc.sum(), self.expected);
            format!("CRC-32 is {found:#010x}, expected {expected:#010x}")
        } else {
            return Ok(0);
        };
        Err(io::Error::new(io::ErrorKind::InvalidData, problem))
    }
}

fn parse_table(table: &[u8], start: u64, count: u64) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    let mut names = HashSet::new();
    let mut at = 0;
    while (members.len() as u64) < count {
        let offset = start + at as u64;
        let cut = || Malformed::new("table of contents", offset, "it is cut off");
        let entry = table.get(at..at + 46).ok_or_else(cut)?;
        let signature = u32_at(entry, 0);
        if signature != ENTRY {
            let problem = format!("signature {signature:#010x}, expected {ENTRY:#010x}");
            return Err(Malformed::new("table of contents", offset, problem));
        }
        let [name, extra, comment] = [28, 30, 32].map(|place| usize::from(u16_at(entry, place)));
        let rest = table
            .get(at + 46..at + 46 + name + extra + comment)
            .ok_or_else(cut)?;
        let mut sizes = [
            u64::from(u32_at(entry, 24)),
            u64::from(u32_at(entry, 20)),
            u64::from(u32_at(entry, 42)),
        ];
        widen(&mut sizes, &rest[name..name + extra]);
        // of two, each reader would take another
        if !names.insert(&rest[..name]) {
            let problem = format!("\"{}\" stands there twice", rest[..name].escape_ascii());
            return Err(Malformed::new("table of contents", offset, problem));
        }
        let [size, packed, local_header] = sizes;
        members.push(Member {
            name: String::from_utf8_lossy(&rest[..name]).into_owned(),
            raw_name: rest[..name].to_vec(),
            flags: u16_at(entry, 8),
            method: u16_at(entry, 10),
            crc: u32_at(entry, 16),
            packed,
            size,
            local_header,
        });
        at += 46 + rest.len();
    }
    Ok(members)
}

/// Replaces the sizes that do not fit into 32 bits by those of the ZIP64 field.
fn widen(sizes: &mut [u64; 3], mut extra: &[u8]) {
    while extra.len() >= 4 {
        let (kind, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let Some(mut field) = extra.get(4..4 + length) else {
            return;
        };
        if kind == 1 {
            for size in sizes.iter_mut().filter(|size| **size == u32::MAX.into()) {
                if field.len() < 8 {
                    return;
                }
                *size = u64_at(field, 0);
                field = &field[8..];
            }
            return;
        }
        extra = &extra[4 + length..];
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::{Cursor, Write};

    /// A small archive: each member stored or deflated, sizes in ZIP64 fields if asked for.
    pub(crate) fn write(members: &[(&str, &[u8])], deflate: bool, zip64: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let mut table = Vec::new();
        for (name, content) in members {
            let mut crc = Crc::new();
            crc.update(content);
            let packed = if deflate {
                let level = flate2::Compression::best();
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
                encoder.write_all(content).unwrap();
                encoder.finish().unwrap()
            } else {
                content.to_vec()
            };
            let at = out.len() as u32;
            let method = if deflate { 8_u16 } else { 0 };
            let sizes = if zip64 {
                [u32::MAX; 2]
            } else {
                [packed.len() as u32, content.len() as u32]
            };
            let mut extra = Vec::new();
            if zip64 {
                // another field first, to be skipped
                extra.extend([9, 9, 2, 0, 7, 7]);
                extra.extend([1, 0, 16, 0]);
                extra.extend((content.len() as u64).to_le_bytes());
                extra.extend((packed.len() as u64).to_le_bytes());
            }
            let mut common = Vec::new();
            common.extend(20_u16.to_le_bytes());
            common.extend(0_u16.to_le_bytes());
            common.extend(method.to_le_bytes());
            common.extend([0; 4]);
            common.extend(crc.sum().to_le_bytes());
            common.extend(sizes.map(u32::to_le_bytes).concat());
            common.extend((name.len() as u16).to_le_bytes());
            out.extend(LOCAL.to_le_bytes());
            out.extend(&common);
            out.extend(3_u16.to_le_bytes());
            out.extend(name.as_bytes());
            out.extend([1, 2, 3]);
            out.extend(&packed);
            table.extend(ENTRY.to_le_bytes());
            table.extend(20_u16.to_le_bytes());
            table.extend(&common);
            table.extend((extra.len() as u16).to_le_bytes());
            table.extend([0; 10]);
            table.extend(at.to_le_bytes());
            table.extend(name.as_bytes());
            table.extend(extra);
        }
        let start = out.len() as u64;
        out.extend(&table);
        if zip64 {
            let record = out.len() as u64;
            out.extend(END_64.to_le_bytes());
            out.extend([0; 28]);
            out.extend((members.len() as u64).to_le_bytes());
            out.extend((table.len() as u64).to_le_bytes());
            out.extend(start.to_le_bytes());
            out.extend(END_64_LOCATOR.to_le_bytes());
            out.extend([0; 4]);
            out.extend(record.to_le_bytes());
            out.extend([0; 4]);
        }
        let count = if zip64 {
            u16::MAX
        } else {
            members.len() as u16
        };
        out.extend(END.to_le_bytes());
        out.extend([0; 4]);
        out.extend([count, count].map(u16::to_le_bytes).concat());
        out.extend((table.len() as u32).to_le_bytes());
        out.extend((start as u32).to_le_bytes());
        out.extend(7_u16.to_le_bytes());
        out.extend(b"comment");
        out
    }

    #[test]
    fn stored_deflated_and_zip64_members_are_read() {
        let long = b"abc".repeat(1000);
        let members = [
            ("a.npy", &long[..]),
            ("folder/b", b"second"),
            ("empty", b""),
        ];
        for (deflate, zip64) in [(false, false), (true, false), (false, true), (true, true)] {
            let bytes = write(&members, deflate, zip64);
            let mut archive = Archive::new(Cursor::new(bytes)).unwrap();
            assert_eq!(
                archive.names().collect::<Vec<_>>(),
                members.map(|member| member.0)
            );
            for (name, content) in members {
                assert_eq!(archive.size(name), Some(content.len() as u64));
                assert_eq!(archive.read(name).unwrap().unwrap(), content);
            }
            assert_eq!(archive.read("nothing").unwrap(), None);
        }
    }

    #[test]
    fn every_defect_is_named() {
        let content = b"abc".repeat(1000);
        let good = write(&[("a", &content)], true, false);
        let message = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = good.clone();
            change(&mut bytes);
            match Archive::new(Cursor::new(bytes)) {
                Ok(mut archive) => archive.read("a").unwrap_err().to_string(),
                Err(error) => error.to_string(),
            }
        };
        let table = good.len() - 29 - 47;
        let not_zip = "no end record: this is not a ZIP archive, or it is cut off";
        assert!(message(&|b| b.truncate(b.len() - 1)).ends_with(not_zip));
        assert!(message(&|b| b.clear()).ends_with(not_zip));
        assert!(message(&|b| b[table] = 0).contains("expected 0x02014b50"));
        assert!(message(&|b| b[table + 8] = 1).ends_with("it is encrypted"));
        assert!(
            message(&|b| b[table + 10] = 12).ends_with("compression method 12, expected 0 or 8")
        );
        assert!(message(&|b| b[table + 16] ^= 1).contains("CRC-32"));
        assert!(message(&|b| b[table + 24] ^= 1).contains("announced"));
        assert!(message(&|b| b[table + 27] = 0x7f).contains("cannot come from"));
        assert!(message(&|b| b[table + 23] = 0x7f).contains("bytes announced, the file has"));
        assert!(message(&|b| b[0] = 0).contains("expected 0x04034b50"));
        assert!(message(&|b| b[40] ^= 0xff).contains("member at byte 34"));
        // the name before the member itself is another
        assert!(message(&|b| b[30] = b'z').ends_with("it is of \"z\", expected \"a\""));
        // a stored member that announces 512 MiB
        assert!(
            message(&|b| {
                *b = write(&[("a", b"abc")], false, false);
                let table = b.len() - 29 - 47;
                b[table + 27] = 0x20;
            })
            .ends_with("536870915 bytes cannot come from 3 stored ones")
        );
        let twice = write(&[("a", b"1"), ("a", b"2")], false, false);
        let error = Archive::new(Cursor::new(twice)).unwrap_err().to_string();
        assert!(error.ends_with("\"a\" stands there twice"), "{error}");
        // two members that are one place of the file
        let mut overlap = write(&[("a", &content), ("b", &content)], false, false);
        let table = overlap.len() - 29 - 47 - 47;
        let second: Vec<u8> = overlap[table..table + 47].to_vec();
        overlap.drain(3000 + 34..table);
        let table = 3000 + 34;
        overlap[table + 47..table + 47 + 46].copy_from_slice(&second[..46]);
        let end = overlap.len() - 29;
        overlap[end + 16..end + 20].copy_from_slice(&(table as u32).to_le_bytes());
        let error = Archive::new(Cursor::new(overlap)).unwrap_err().to_string();
        let told = "members of 6000 bytes announced, the file has 3157";
        assert!(error.ends_with(told), "{error}");
    }
}
