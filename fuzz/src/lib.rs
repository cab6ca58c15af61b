//! Damaged input for everything that reads files of strangers: what a reader does with any bytes,
//! and bytes that are almost right.
//!
//! Every [`Target`] has small valid files (`corpus/`, made by `corpus.py`) that [`mutate`] damages:
//! bits and bytes changed, runs removed, repeated or taken from another file, numbers of two, four
//! and eight bytes replaced by those at which sizes overflow, digits of text changed. It is not
//! guided by coverage. A reader must not panic, and must not take memory out of proportion to its
//! input, [`Target::allowed`].
//!
//! `cargo run --release -p maxitive-fuzz -- [TARGET...] [--executions N] [--seconds S] [--seed N]`
//! prints what was done and ends with status 1 and the file that did it where something is wrong;
//! the tests do the same a few thousand times.

use std::io::Cursor;
use std::path::Path;
use std::sync::LazyLock;

use cbopt::{Rule, RuleConfig, Update};
use datasets::formats::npy::Npz;
use datasets::formats::picture::Picture;
use datasets::formats::zip::Archive;
use datasets::formats::{cifar, idx, mat, npy, tar};
use datasets::{Malformed, Shape};
use engine::Network;
use evaluation::record::RunRecord;
use experiment::config::NetworkConfig;
use experiment::predictive::Swag;
use experiment::{RunConfig, Sweep, checkpoint, weights};
use random::Words;

/// A reader.
#[derive(Clone, Copy)]
pub struct Target {
    /// What it reads, and its folder in the corpus.
    pub name: &'static str,
    /// Reads any bytes; whether they were accepted.
    pub read: fn(&[u8]) -> bool,
    /// Valid files that are made rather than kept.
    made: fn() -> Vec<Vec<u8>>,
}

/// All readers.
pub const TARGETS: [Target; 20] = [
    kept("idx", |bytes| idx::read(bytes).is_ok()),
    kept("cifar", |bytes| cifar::read(bytes, 1).is_ok()),
    kept("mat", |bytes| mat::read(bytes).is_ok()),
    kept("npy", |bytes| npy::read(bytes).is_ok()),
    kept("npz", |bytes| {
        Npz::new(Cursor::new(bytes)).is_ok_and(|mut npz| {
            let names: Vec<String> = npz.names().map(Into::into).collect();
            names.iter().all(|name| npz.array(name).is_ok())
        })
    }),
    kept("zip", |bytes| {
        Archive::new(Cursor::new(bytes)).is_ok_and(|mut archive| {
            (0..archive.names().count()).all(|index| archive.read_at(index).is_ok())
        })
    }),
    kept("tar", |bytes| {
        let mut content = Vec::new();
        let mut visit = |member: tar::Member<'_>| -> Result<(), Malformed> {
            content.clear();
            // as much as is there
            let _ = member.content.read_to_end(&mut content);
            Ok(())
        };
        tar::each(bytes, &mut visit).is_ok()
    }),
    kept("picture", |bytes| Picture::decode(bytes).is_ok()),
    kept("config", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        RunConfig::parse(&text, "config", &[]).is_ok()
    }),
    kept("sweep", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let load = |name: &str| {
            let name = name.trim_start_matches("../").trim_end_matches(".toml");
            let text = experiment::preset::run_text(name);
            let text = text.ok_or_else(|| experiment::Error::Setting {
                field: "configs".to_owned(),
                problem: name.to_owned(),
            })?;
            Ok((name.to_owned(), text.to_owned()))
        };
        Sweep::parse(&text, "sweep", &[], load).is_ok()
    }),
    kept("network", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        toml::from_str::<NetworkConfig>(&text)
            .is_ok_and(|config| config.build(Shape::new(3, 32, 32), 10).is_ok())
    }),
    kept("csv", maxitive::readers::table),
    kept("parquet", maxitive::readers::table),
    kept("event", |bytes| {
        maxitive::readers::event(&String::from_utf8_lossy(bytes))
    }),
    kept("posterior", maxitive::readers::posterior),
    Target {
        name: "weights",
        read: |bytes| weights::decode(Path::new("weights"), bytes, &TINY).is_ok(),
        made: || {
            let weights = TINY.initial_parameters(1);
            let bytes = weights::encode(Path::new("weights"), &TINY, &weights);
            vec![bytes.expect("as many as it has")]
        },
    },
    Target {
        name: "checkpoint",
        read: checkpoint::example::read,
        made: checkpoint::example::files,
    },
    kept("record", |bytes| {
        serde_json::from_slice::<RunRecord>(bytes).is_ok()
    }),
    Target {
        name: "state",
        read: |bytes| {
            // by every rule, whichever it belongs to
            let read = |rule: &Rule| rule.state_from_bytes(LENGTH, bytes).is_ok();
            RULES.iter().map(read).fold(false, |one, other| one | other)
        },
        made: || {
            let state = |rule: &Rule| rule.state(LENGTH).to_bytes();
            RULES.iter().map(state).collect()
        },
    },
    Target {
        name: "swag",
        read: |bytes| Swag::from_bytes(LENGTH, bytes).is_ok(),
        made: || {
            let mut swag = Swag::new(LENGTH, 2).expect("a rank above 0");
            for snapshot in 0..3u8 {
                let weights = [f32::from(snapshot); LENGTH];
                swag.collect(&weights).expect("finite weights");
            }
            vec![swag.to_bytes()]
        },
    },
];

/// Weights of the states.
const LENGTH: usize = 5;

const fn kept(name: &'static str, read: fn(&[u8]) -> bool) -> Target {
    Target {
        name,
        read,
        made: Vec::new,
    }
}

/// A network of few weights.
static TINY: LazyLock<Network> = LazyLock::new(|| {
    let text = r#"
        name = "tiny"
        layers = [{ layer = "flatten" }, { layer = "dense" }]
    "#;
    let config: NetworkConfig = toml::from_str(text).expect("a network");
    let input = Shape::new(1, 4, 4);
    config.build(input, 2).expect("layers that fit")
});

/// Every rule with its defaults.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let by_id = |id: &str| RuleConfig::by_id(id)?.build().ok();
    RuleConfig::IDS.into_iter().filter_map(by_id).collect()
});

impl Target {
    /// The reader of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Its valid files.
    ///
    /// # Errors
    /// The corpus cannot be read.
    pub fn files(&self) -> std::io::Result<Vec<Vec<u8>>> {
        let made = (self.made)();
        if !made.is_empty() {
            return Ok(made);
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpus")
            .join(self.name);
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            paths.push(entry?.path());
        }
        paths.sort();
        paths.iter().map(std::fs::read).collect()
    }
}

impl Target {
    /// Bytes that it may hold at a time for an input of this length.
    ///
    /// A picture of a few bytes may be 4096 pixels wide and high, and is held twice when its
    /// colors are converted.
    pub fn allowed(&self, length: usize) -> u64 {
        let fixed: u64 = if self.name == "picture" {
            160 << 20
        } else {
            1 << 20
        };
        fixed + 2000 * length as u64
    }
}

/// What was seen of one input.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// The reader took it.
    pub accepted: bool,
    /// Most bytes held at a time.
    pub bytes: u64,
}

/// Reads once, and counts the memory that was taken.
///
/// # Errors
/// A panic, or memory out of proportion; in words.
pub fn execute(target: Target, input: &[u8]) -> Result<Seen, String> {
    let mut accepted = Ok(false);
    let counted = allocation_counter::measure(|| {
        accepted = std::panic::catch_unwind(|| (target.read)(input));
    });
    let Ok(accepted) = accepted else {
        return Err("it panicked".into());
    };
    let (bytes, allowed) = (counted.bytes_max, target.allowed(input.len()));
    if bytes > allowed {
        let length = input.len();
        return Err(format!("{bytes} bytes were held for an input of {length}"));
    }
    Ok(Seen { accepted, bytes })
}

/// Numbers at which sizes overflow.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x8000_0000,
    1 << 40,
    i64::MAX as u64,
    u64::MAX,
];

/// Random words of a seed.
pub fn words(seed: u32) -> Words {
    Words::new([seed, 0], [0; 3])
}

/// One of the files with one to eight damages.
pub fn mutate(files: &[Vec<u8>], random: &mut Words) -> Vec<u8> {
    let mut below = |limit: usize| random.below(limit.max(1) as u32) as usize;
    let mut bytes = files[below(files.len())].clone();
    for _ in 0..=below(8) {
        if bytes.is_empty() {
            bytes.push(0);
        }
        let at = below(bytes.len());
        let longest = 1 << below(10);
        let span = 1 + below((bytes.len() - at).min(longest));
        match below(8) {
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes[at] = below(256) as u8,
            2 => drop(bytes.drain(at..at + span)),
            3 => bytes.truncate(at),
            4 => {
                let again = bytes[at..at + span].to_vec();
                bytes.splice(at..at, again);
            }
            5 => {
                let other = &files[below(files.len())];
                let from = below(other.len());
                let part = other[from..(from + span).min(other.len())].to_vec();
                bytes.splice(at..at + span, part);
            }
            6 => {
                let (edge, width) = (EDGES[below(EDGES.len())], [2, 4, 8][below(3)]);
                let number = match below(2) {
                    0 => edge.to_le_bytes()[..width].to_vec(),
                    _ => edge.to_be_bytes()[8 - width..].to_vec(),
                };
                for (byte, new) in bytes[at..].iter_mut().zip(number) {
                    *byte = new;
                }
            }
            // a number in a text: another digit, a sign, an exponent
            _ => {
                let digit = |at: &usize| bytes[*at].is_ascii_digit();
                let digits: Vec<usize> = (0..bytes.len()).filter(digit).collect();
                if let Some(&at) = digits.get(below(digits.len())) {
                    bytes[at] = b"0123456789-.eE"[below(14)];
                }
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_takes_its_files_and_none_panics_at_damaged_ones() {
        // a printed backtrace takes tens of megabytes
        datasets::formats::guard::keep_quiet();
        for target in TARGETS {
            let files = target.files().expect("the corpus is there");
            assert!(!files.is_empty(), "{}", target.name);
            for file in &files {
                let seen = execute(target, file).expect("a valid file");
                assert!(seen.accepted, "{}", target.name);
            }
            let mut random = words(1);
            let mut accepted = 0;
            for number in 0..3000 {
                let input = mutate(&files, &mut random);
                match execute(target, &input) {
                    Ok(seen) => accepted += usize::from(seen.accepted),
                    Err(problem) => panic!("{} {number}: {problem}", target.name),
                }
            }
            assert!(accepted < 3000, "{}: everything is accepted", target.name);
        }
    }

    /// A TIFF file whose tag announces four million entries took 130 MB.
    #[test]
    fn a_small_picture_with_a_long_tag_takes_little() {
        let target = Target::by_name("picture").expect("it is there");
        let files = target.files().expect("the corpus is there");
        let tiff = files.iter().find(|file| file.starts_with(b"II*"));
        let mut tiff = tiff.expect("one of them").clone();
        let tag = tiff
            .windows(4)
            .position(|bytes| bytes == [0x1c, 0x01, 3, 0]);
        let count = tag.expect("its planes are told") + 4;
        tiff[count..count + 4].copy_from_slice(&0x003e_0001u32.to_le_bytes());
        let seen = execute(target, &tiff).expect("no panic");
        assert!(!seen.accepted && seen.bytes < 32 << 20, "{seen:?}");
    }

    /// Two buffers of 256 KiB took longer than the reading.
    #[test]
    fn a_small_table_takes_little() {
        let target = Target::by_name("csv").expect("it is there");
        let seen = execute(target, b"a,b\n1,2\n").expect("no panic");
        assert!(seen.accepted && seen.bytes < 64 << 10, "{seen:?}");
    }

    /// Each of 35,000 rows tried again to decode a batch that is damaged.
    #[test]
    fn a_damaged_column_is_tried_once_for_many_rows() {
        let path = "../crates/cli/tests/parquet/many.parquet";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let mut bytes = std::fs::read(path).expect("a file of the tests");
        let target = Target::by_name("parquet").expect("it is there");
        let total = |bytes: &[u8]| {
            let read = || assert!((target.read)(bytes), "all rows are there");
            allocation_counter::measure(read).bytes_total
        };
        let whole = total(&bytes);
        // the first page of the first column is compressed by Zstandard no more
        let magic = [0x28, 0xb5, 0x2f, 0xfd];
        let page = bytes.windows(4).position(|bytes| bytes == magic);
        bytes[page.expect("a page")] ^= 1;
        let damaged = total(&bytes);
        assert!(damaged < 2 * whole, "{damaged} bytes instead of {whole}");
    }

    /// One of them took a gigabyte; more would have ended the process.
    #[test]
    fn lengths_that_a_page_only_announces_take_little() {
        let target = Target::by_name("parquet").expect("it is there");
        let files = target.files().expect("the corpus is there");
        // both runs of lengths of 40 texts: those of their beginnings, and of what follows
        for (run, at) in [(&b"\x80\x01\x04(\0\0\0\0"[..], 3), (b"\x80\x01\x04(\n", 3)] {
            let has = |file: &&Vec<u8>| file.windows(run.len()).any(|bytes| bytes == run);
            let mut file = files.iter().find(has).expect("one of them").clone();
            let found = file.windows(run.len()).position(|bytes| bytes == run);
            let count = found.expect("it has it") + at;
            file[count..count + 4].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
            let seen = execute(target, &file).expect("little memory");
            assert!(seen.accepted, "the other columns are read");
        }
    }

    /// A few bytes of a header reserved 2 GiB, and those of Snappy and LZ4 were cleared, too.
    #[test]
    fn sizes_that_a_page_only_announces_take_little() {
        let target = Target::by_name("parquet").expect("it is there");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cli/tests/parquet");
        for codec in ["snappy", "lz4", "gzip", "zstd"] {
            let path = folder.join(format!("rows-{codec}.parquet"));
            let file = std::fs::read(path).expect("a file of the tests");
            let mut pages = 0;
            for start in 0..file.len() {
                let Some(hostile) = announcing_2_gib(&file, start) else {
                    continue;
                };
                pages += 1;
                assert_eq!(hostile.len(), file.len());
                let seen = execute(target, &hostile).expect("little memory");
                assert!(seen.accepted, "the other columns are read");
            }
            assert!(pages >= 8, "{codec}: {pages} pages");
        }
    }

    /// The file with 2 GiB in the header of the dictionary that begins here, and as many bytes of
    /// the dictionary less as the header has more; nothing where no such page begins.
    fn announcing_2_gib(file: &[u8], start: usize) -> Option<Vec<u8>> {
        // a dictionary; its size, in one or two bytes; its compressed size, in one; what it is
        let page = file.get(start..)?;
        let (old, compressed) = match *page {
            [
                0x15,
                4,
                0x15,
                0..0x80,
                0x15,
                compressed @ 40..0x80,
                0x4c,
                ..,
            ] => (1, compressed),
            [
                0x15,
                4,
                0x15,
                0x80..=0xff,
                _,
                0x15,
                compressed @ 40..0x80,
                0x4c,
                ..,
            ] => (2, compressed),
            _ => return None,
        };
        let added = 5 - old;
        let mut made = file[..start + 3].to_vec();
        made.extend([0xfe, 0xff, 0xff, 0xff, 0x0f, 0x15, compressed - 2 * added]);
        made.extend(&page[3 + usize::from(old) + 2..]);
        // the header has 19 bytes at most, and the dictionary 16 at least
        let cut = start + 20;
        made.drain(cut..cut + usize::from(added));
        Some(made)
    }

    /// Its rows were counted one by one, and each found that its columns have ended.
    #[test]
    fn rows_that_no_column_has_are_refused() {
        let target = Target::by_name("parquet").expect("it is there");
        let files = target.files().expect("the corpus is there");
        // 17 rows in a group
        let rows = [0x16, 34, 0x26];
        let at = |file: &Vec<u8>| file.windows(3).position(|bytes| bytes == rows);
        let file = files.iter().find(|file| at(file).is_some());
        let mut file = file.expect("one of them").clone();
        assert!(execute(target, &file).expect("no panic").accepted);
        let count = at(&file).expect("it has it") + 1;
        file[count] += 2;
        assert!(!execute(target, &file).expect("no panic").accepted);
    }

    /// Scaled to cover a square and cropped: 617 MB if all of it were made.
    #[test]
    fn a_picture_of_one_row_becomes_a_square_in_little_memory() {
        let row = Picture::new(Shape::new(3, 1, 4096), vec![7; 3 * 4096]);
        let mut pixels = Vec::new();
        let counted = allocation_counter::measure(|| {
            pixels = row.resized_to(224, 224).pixels().to_vec();
        });
        assert_eq!(pixels, vec![7; 3 * 224 * 224]);
        assert!(counted.bytes_max < 4 << 20, "{}", counted.bytes_max);
    }

    #[test]
    fn damage_is_the_same_for_the_same_seed_and_differs() {
        let files = [b"abcdefgh12345".to_vec()];
        let made = |seed| {
            let mut random = words(seed);
            (0..50)
                .map(|_| mutate(&files, &mut random))
                .collect::<Vec<_>>()
        };
        assert_eq!(made(3), made(3));
        assert_ne!(made(3), made(4));
        let distinct: std::collections::BTreeSet<_> = made(3).into_iter().collect();
        assert!(distinct.len() > 40);
    }
}
