//! Tar archives, as far as the publishers of datasets write them: headers of 512 bytes with the
//! name and the size in octal digits, data padded to 512 bytes, two empty headers at the end; long
//! names as GNU tar writes them, and names and sizes in the records of POSIX (pax).

use std::fmt;
use std::io::{self, Read};

use super::Source;
use crate::error::Malformed;

const BLOCK: usize = 512;

/// Bytes of the longest name or set of records that comes before a member.
const LONGEST: u64 = 1 << 16;

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A plain file.
    File,
    /// A second name of another member.
    HardLink,
    /// A name that stands for another.
    SymbolicLink,
    /// A device or a pipe.
    Device,
    /// A file that is stored without its zeros.
    Sparse,
    /// Anything else, with the byte that says what.
    Other(u8),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("a file"),
            Self::HardLink => f.write_str("a hard link"),
            Self::SymbolicLink => f.write_str("a symbolic link"),
            Self::Device => f.write_str("a device or a pipe"),
            Self::Sparse => f.write_str("a sparse file"),
            Self::Other(kind) => write!(f, "a member of type {kind:#04x}"),
        }
    }
}

/// A member of an archive.
pub struct Member<'a> {
    /// Its name, as it is written; it may lead anywhere.
    pub name: &'a str,
    /// What it is.
    pub kind: Kind,
    /// Its content, of which as much is read as is wanted. Where the archive is cut off, reading
    /// fails.
    pub content: &'a mut dyn Read,
}

/// What is done with a member.
pub type Visit<'a, E> = dyn FnMut(Member<'_>) -> Result<(), E> + 'a;

/// Calls `visit` for every member of an archive, in order; folders and remarks are left out.
///
/// # Errors
/// A header is damaged, the archive is cut off, or `visit` refuses.
pub fn each<E: From<Malformed>>(reader: impl Read, visit: &mut Visit<'_, E>) -> Result<(), E> {
    let mut source = Source::new(reader);
    let mut told = Told::default();
    loop {
        let offset = source.offset();
        let mut header = [0; BLOCK];
        if !source.whole("header", &mut header)? {
            return Ok(());
        }
        if header.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        check_sum(&header, offset)?;
        let size = number(&header[124..136])
            .ok_or_else(|| Malformed::new("size", offset + 124, "expected octal digits"))?;
        let kind = match header[156] {
            0 | b'0' | b'7' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::SymbolicLink,
            b'3' | b'4' | b'6' => Kind::Device,
            b'S' => Kind::Sparse,
            // what is said of the next member
            b'L' => {
                let bytes = before(&mut source, "long name", size, offset)?;
                told.name = Some(text(&bytes, "long name", offset + BLOCK as u64)?);
                continue;
            }
            b'x' => {
                let bytes = before(&mut source, "pax records", size, offset)?;
                told.read(&bytes, offset + BLOCK as u64)?;
                continue;
            }
            // where the next one leads, and what is said of all of them
            b'K' | b'g' => {
                source.skip("content", padded(size))?;
                continue;
            }
            b'5' => {
                told = Told::default();
                source.skip("content", padded(size))?;
                continue;
            }
            other => Kind::Other(other),
        };
        let Told {
            name: long,
            size: exact,
            is_sparse,
        } = std::mem::take(&mut told);
        let name = match long {
            Some(name) => name,
            None => name(&header, offset)?,
        };
        let kind = if is_sparse { Kind::Sparse } else { kind };
        // a link has no content, whatever size it tells
        let size = match kind {
            Kind::HardLink | Kind::SymbolicLink => 0,
            _ => exact.unwrap_or(size),
        };
        let start = source.offset();
        let mut content = Content {
            inner: source.part(size),
            is_cut: false,
        };
        // how folders were written before they had a type
        let is_folder = kind == Kind::File && name.ends_with('/');
        let visited = if is_folder {
            Ok(())
        } else {
            visit(Member {
                name: &name,
                kind,
                content: &mut content,
            })
        };
        let (is_cut, rest) = (content.is_cut, content.inner.limit());
        let cut = || Malformed::new("content", start, cut_off(size));
        if is_cut {
            return Err(cut().into());
        }
        visited?;
        source
            .skip("content", rest + padded(size) - size)
            .map_err(|_| cut())?;
    }
}

fn cut_off(size: u64) -> String {
    format!("{size} bytes announced, the archive ends before")
}

/// Bytes that content of this size takes.
fn padded(size: u64) -> u64 {
    size.next_multiple_of(BLOCK as u64)
}

/// The content of a member, which fails where the archive ends before.
struct Content<R> {
    inner: io::Take<R>,
    is_cut: bool,
}

impl<R: Read> Read for Content<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(target)?;
        if got == 0 && !target.is_empty() && self.inner.limit() > 0 {
            self.is_cut = true;
            let problem = cut_off(self.inner.limit());
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, problem));
        }
        Ok(got)
    }
}

/// What comes before a member, of its name say.
fn before<R: Read>(
    source: &mut Source<R>,
    field: &'static str,
    size: u64,
    header: u64,
) -> Result<Vec<u8>, Malformed> {
    if size > LONGEST {
        let problem = format!("{field} of {size} bytes, expected at most {LONGEST}");
        return Err(Malformed::new("size", header + 124, problem));
    }
    let bytes = source.bytes(field, size)?;
    source.skip(field, padded(size) - size)?;
    Ok(bytes)
}

/// What was said of the next member before its header.
#[derive(Default)]
struct Told {
    name: Option<String>,
    size: Option<u64>,
    is_sparse: bool,
}

impl Told {
    /// Reads records `LENGTH KEY=VALUE` and a line feed each, the length that of the whole record.
    fn read(&mut self, mut records: &[u8], mut offset: u64) -> Result<(), Malformed> {
        while !records.is_empty() {
            let wrong = || Malformed::new("pax record", offset, "expected LENGTH KEY=VALUE");
            let digits = records.iter().take_while(|byte| byte.is_ascii_digit());
            let digits = digits.count();
            let length = std::str::from_utf8(&records[..digits]).ok();
            let length: usize = length
                .and_then(|text| text.parse().ok())
                .ok_or_else(wrong)?;
            let record = records.get(digits..length).ok_or_else(wrong)?;
            let record = record.strip_prefix(b" ").ok_or_else(wrong)?;
            let record = record.strip_suffix(b"\n").ok_or_else(wrong)?;
            let equals = record.iter().position(|&byte| byte == b'=');
            let (key, value) = record.split_at(equals.ok_or_else(wrong)?);
            let value = &value[1..];
            if key == b"path" {
                self.name = Some(text(value, "pax record", offset)?);
            } else if key == b"size" {
                let size = std::str::from_utf8(value).ok();
                let size = size.and_then(|text| text.parse().ok());
                self.size = Some(
                    size.filter(|&size: &u64| size < 1 << 62)
                        .ok_or_else(wrong)?,
                );
            } else if key.starts_with(b"GNU.sparse.") {
                self.is_sparse = true;
            }
            records = &records[length..];
            offset += length as u64;
        }
        Ok(())
    }
}

/// A field up to the first zero.
fn until_zero(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// A name. One that is no UTF-8 is refused, since any other name would be a guess.
fn text(bytes: &[u8], field: &'static str, offset: u64) -> Result<String, Malformed> {
    let bytes = until_zero(bytes);
    let found = std::str::from_utf8(bytes).map_err(|_| {
        let problem = format!("\"{}\", expected UTF-8", bytes.escape_ascii());
        Malformed::new(field, offset, problem)
    })?;
    Ok(found.to_owned())
}

fn name(header: &[u8; BLOCK], offset: u64) -> Result<String, Malformed> {
    let name = text(&header[..100], "name of a member", offset)?;
    // GNU tar has times in the place of the prefix
    let has_prefix = &header[257..263] == b"ustar\0" && header[345] != 0;
    if !has_prefix {
        return Ok(name);
    }
    let prefix = text(&header[345..500], "name of a member", offset + 345)?;
    Ok(format!("{prefix}/{name}"))
}

/// Octal digits, or a binary number if the first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    let (&first, rest) = field.split_first()?;
    if first & 0x80 != 0 {
        let value = rest
            .iter()
            .try_fold(u64::from(first & 0x7f), |value, &byte| {
                Some(value.checked_mul(256)? + u64::from(byte))
            });
        return value.filter(|&value| value < 1 << 62);
    }
    let digits = std::str::from_utf8(until_zero(field)).ok()?;
    u64::from_str_radix(digits.trim(), 8).ok()
}

/// The sum of all bytes, those of the sum itself counted as spaces.
fn check_sum(header: &[u8; BLOCK], offset: u64) -> Result<(), Malformed> {
    let bytes = header.iter().enumerate();
    let sum: u64 = bytes
        .map(|(place, &byte)| {
            let byte = if (148..156).contains(&place) {
                b' '
            } else {
                byte
            };
            u64::from(byte)
        })
        .sum();
    match number(&header[148..156]) {
        Some(found) if found == sum => Ok(()),
        _ => {
            let problem = "wrong: this is not a tar archive, or it is damaged";
            Err(Malformed::new("sum of the header", offset + 148, problem))
        }
    }
}

/// The header of a member and its content, which may be another than it announces.
#[cfg(test)]
pub(crate) fn member(name: &[u8], kind: u8, announced: u64, content: &[u8]) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    out[..name.len()].copy_from_slice(name);
    out[124..135].copy_from_slice(format!("{announced:011o}").as_bytes());
    out[148..156].fill(b' ');
    out[156] = kind;
    out[257..262].copy_from_slice(b"ustar");
    let sum: u64 = out.iter().map(|&byte| u64::from(byte)).sum();
    out[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    out.extend(content);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    out
}

/// Bytes of an archive of these members, for tests.
#[cfg(test)]
pub(crate) fn write(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut add = |name: &[u8], kind, content: &[u8]| {
        out.extend(member(name, kind, content.len() as u64, content));
    };
    for (name, content) in members {
        if name.ends_with('/') {
            add(name.as_bytes(), b'5', b"");
            continue;
        }
        if name.len() > 100 {
            add(b"././@LongLink", b'L', format!("{name}\0").as_bytes());
        }
        add(&name.as_bytes()[..name.len().min(100)], b'0', content);
    }
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Malformed> {
        let mut members = Vec::new();
        each(bytes, &mut |member| {
            let mut bytes = Vec::new();
            let read = member.content.read_to_end(&mut bytes);
            read.map_err(|error| Malformed::new("content", 0, error.to_string()))?;
            members.push((member.name.to_owned(), bytes));
            Ok::<(), Malformed>(())
        })?;
        Ok(members)
    }

    #[test]
    fn files_are_visited_in_order() {
        let long = "a/".repeat(90) + "end";
        let archive = write(&[
            ("folder/", b""),
            ("folder/one", b"1"),
            (&long, &[7; 600]),
            ("empty", b""),
        ]);
        let expected = [
            ("folder/one".to_owned(), b"1".to_vec()),
            (long, vec![7; 600]),
            ("empty".to_owned(), vec![]),
        ];
        assert_eq!(members(&archive).unwrap(), expected);
        // what is not read is passed over
        let mut names = Vec::new();
        each(&archive[..], &mut |member| {
            names.push(member.name.len());
            Ok::<(), Malformed>(())
        })
        .unwrap();
        assert_eq!(names, [10, 183, 5]);
    }

    #[test]
    fn numbers_are_octal_or_binary_in_fields_of_any_length() {
        assert_eq!(number(b"0000017\0"), Some(15));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 1, 2]), Some(258));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]), Some(258));
        assert_eq!(number(&[0x85]), Some(5));
        // beyond 2⁶²
        assert_eq!(number(&[0xc0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(number(&[0xff; 12]), None);
        assert_eq!(number(b"12x"), None);
        assert_eq!(number(b""), None);
    }

    /// A sum in binary form, eight bytes long, once indexed an empty slice.
    #[test]
    fn a_binary_sum_is_refused() {
        let mut bad = write(&[("one", b"1")]);
        bad[148] = 0x80;
        let message = members(&bad).unwrap_err().to_string();
        assert!(
            message.starts_with("sum of the header at byte 148: wrong"),
            "{message}"
        );
    }

    /// Records of POSIX, as tar writes them since 2001 where a name or a size does not fit.
    #[test]
    fn names_and_sizes_of_pax_records_are_taken() {
        let path = "a/".repeat(90) + "end";
        let record = format!("path={path}\n");
        let record = format!("{} {record}", record.len() + 4);
        assert_eq!(record.len(), 193);
        let records = [&b"30 mtime=1700000000.123456789\n"[..], record.as_bytes()].concat();
        let mut archive = member(b"pax_global_header", b'g', 3, b"???");
        archive.extend(member(
            b"PaxHeaders/end",
            b'x',
            records.len() as u64,
            &records,
        ));
        archive.extend(member(b"short", b'0', 5, b"first"));
        // the size in the header does not count
        archive.extend(member(b"PaxHeaders/two", b'x', 10, b"10 size=6\n"));
        archive.extend(member(b"two", b'0', 0, b"second"));
        // a folder as it was written before folders had a type
        archive.extend(member(b"old/", 0, 0, b""));
        // what is said of a member is not said of the next
        archive.extend(member(b"three", b'7', 5, b"third"));
        let expected = [(&path[..], "first"), ("two", "second"), ("three", "third")]
            .map(|(name, content)| (name.to_owned(), content.as_bytes().to_vec()));
        assert_eq!(members(&archive).unwrap(), expected);
        for records in [
            "path=x\n",
            "99 path=x\n",
            "9 path=x\0",
            "9 path x\n",
            "9\n",
            "10 size=-\n",
        ] {
            let bad = member(b"x", b'x', records.len() as u64, records.as_bytes());
            let message = members(&bad).unwrap_err().to_string();
            assert!(message.ends_with("expected LENGTH KEY=VALUE"), "{message}");
        }
    }

    #[test]
    fn what_is_no_file_says_so() {
        let mut archive = Vec::new();
        for kind in *b"123456S!" {
            // what links announce is not there
            let announced = if b"12".contains(&kind) { 1 << 30 } else { 0 };
            archive.extend(member(&[kind], kind, announced, b""));
        }
        archive.extend(member(b"x", b'x', 22, b"22 GNU.sparse.major=1\n"));
        archive.extend(member(b"s", b'0', 1, b"s"));
        let mut kinds = Vec::new();
        each(&archive[..], &mut |member| {
            kinds.push((member.name.to_owned(), member.kind));
            Ok::<(), Malformed>(())
        })
        .unwrap();
        let expected = [
            ("1", Kind::HardLink),
            ("2", Kind::SymbolicLink),
            ("3", Kind::Device),
            ("4", Kind::Device),
            ("6", Kind::Device),
            ("S", Kind::Sparse),
            ("!", Kind::Other(b'!')),
            ("s", Kind::Sparse),
        ];
        assert_eq!(kinds, expected.map(|(name, kind)| (name.to_owned(), kind)));
    }

    #[test]
    fn every_defect_is_named() {
        let message = |bytes: &[u8]| members(bytes).unwrap_err().to_string();
        assert_eq!(
            message(&member(b"name\xe9", b'0', 0, b"")),
            r#"name of a member at byte 0: "name\xe9", expected UTF-8"#
        );
        assert_eq!(
            message(&member(b"L", b'L', 1 << 30, b"")),
            "size at byte 124: long name of 1073741824 bytes, expected at most 65536"
        );
        let good = write(&[("one", &[1; 700])]);
        let mut bad = good.clone();
        bad[3] = b'x';
        assert!(message(&bad).starts_with("sum of the header at byte 148: wrong"));
        assert_eq!(
            message(&good[..900]),
            "content at byte 512: 700 bytes announced, the archive ends before"
        );
        assert_eq!(
            message(&good[..100]),
            "header at byte 0: 512 bytes announced, the data end after 100"
        );
    }

    proptest! {
        #[test]
        fn damaged_archives_are_refused_or_read(place in 0_usize..2048, byte: u8, cut in 0_usize..3000) {
            let mut bytes = write(&[("one", &[1; 700]), ("two", b"2")]);
            let length = bytes.len();
            bytes[place % length] = byte;
            bytes.truncate(cut.max(1));
            let info = allocation_counter::measure(|| drop(members(&bytes)));
            prop_assert!(info.bytes_max < 1 << 20, "{}", info.bytes_max);
        }
    }
}
