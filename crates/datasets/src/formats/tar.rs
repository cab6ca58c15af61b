//! Tar archives, as far as the publishers of datasets write them: headers of 512 bytes with the
//! name and the size in octal digits, data padded to 512 bytes, two empty headers at the end; long
//! names as GNU tar writes them.

use std::io::Read;

use super::Source;
use crate::error::Malformed;

const BLOCK: usize = 512;

/// What is done with a member: its name and its content, of which as much is read as is wanted.
pub type Visit<'a, E> = dyn FnMut(&str, &mut dyn Read) -> Result<(), E> + 'a;

/// Calls `visit` for every regular file of an archive, in order.
///
/// # Errors
/// A header is damaged, the archive is cut off, or `visit` refuses.
pub fn each<E: From<Malformed>>(reader: impl Read, visit: &mut Visit<'_, E>) -> Result<(), E> {
    let mut source = Source::new(reader);
    let mut long_name = None;
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
        let padding = size.next_multiple_of(BLOCK as u64) - size;
        match header[156] {
            // a regular file
            0 | b'0' => {
                let name = long_name.take().unwrap_or_else(|| name(&header));
                let start = source.offset();
                let mut content = source.part(size);
                visit(&name, &mut content)?;
                let rest = content.limit();
                source.skip("content", rest + padding).map_err(|_| {
                    let problem = format!("{size} bytes announced, the archive ends before");
                    Malformed::new("content", start, problem)
                })?;
            }
            // the name of the next member, too long for its header
            b'L' => {
                const LONGEST: u64 = 1 << 16;
                if size > LONGEST {
                    let problem = format!("a name of {size} bytes, expected at most {LONGEST}");
                    return Err(Malformed::new("size", offset + 124, problem).into());
                }
                let bytes = source.bytes("long name", size)?;
                long_name = Some(text(&bytes));
                source.skip("long name", padding)?;
            }
            // a folder, a link, a remark
            _ => {
                long_name = None;
                source.skip("content", size + padding)?;
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

fn name(header: &[u8; BLOCK]) -> String {
    let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
    let is_ustar = &header[257..262] == b"ustar";
    if is_ustar && !prefix.is_empty() {
        format!("{prefix}/{name}")
    } else {
        name
    }
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
    let digits = text(field);
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

/// Bytes of an archive of these members, for tests and small exports.
#[cfg(test)]
pub(crate) fn write(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut member = |name: &str, kind: u8, content: &[u8]| {
        let mut header = [0; BLOCK];
        header[..name.len().min(100)].copy_from_slice(&name.as_bytes()[..name.len().min(100)]);
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = kind;
        header[257..262].copy_from_slice(b"ustar");
        let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        out.extend(header);
        out.extend(content);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
    };
    for (name, content) in members {
        if name.ends_with('/') {
            member(name, b'5', b"");
            continue;
        }
        if name.len() > 100 {
            member("././@LongLink", b'L', format!("{name}\0").as_bytes());
        }
        member(name, b'0', content);
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
        each(bytes, &mut |name, content| {
            let mut bytes = Vec::new();
            let read = content.read_to_end(&mut bytes);
            read.map_err(|error| Malformed::new("content", 0, error.to_string()))?;
            members.push((name.to_owned(), bytes));
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
        each(&archive[..], &mut |name, _| {
            names.push(name.len());
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

    #[test]
    fn every_defect_is_named() {
        let good = write(&[("one", &[1; 700])]);
        let message = |bytes: &[u8]| members(bytes).unwrap_err().to_string();
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
