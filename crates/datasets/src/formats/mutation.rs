//! No file, however damaged, makes a reader panic or take memory out of all proportion.

use std::io::Cursor;

use proptest::prelude::*;
use proptest::sample::Index;

use super::npy::{Array, Npz, Values};
use super::picture::Picture;
use super::zip::Archive;
use super::{cifar, idx, mat, npy, zip};
use crate::image_set::Shape;

/// A reader and a file it accepts.
type Row = (&'static str, fn(&[u8]) -> bool, Vec<u8>);

fn rows() -> Vec<Row> {
    let array = idx::Idx {
        dimensions: vec![3, 4, 5],
        data: (0..60).collect(),
    };
    let numbers = Array::new(
        vec![4, 6],
        Values::Doubles((0..24).map(f64::from).collect()),
    );
    let mut npy_file = Vec::new();
    npy::write(&mut npy_file, &numbers.unwrap()).unwrap();
    let members = [("x.npy", &npy_file[..]), ("y.npy", &npy_file)];
    let mat_file = |big_endian, compressed| {
        let writer = mat::tests::Writer {
            big_endian,
            compressed,
        };
        let mut file = writer.header();
        file.extend(writer.variable("X", 9, &[2, 3, 4], 2, &(0..24).collect::<Vec<u8>>()));
        file.extend(writer.variable("labels", 6, &[3, 1], 2, &[1, 2, 3]));
        file
    };
    let npz = |bytes: &[u8]| {
        let Ok(mut npz) = Npz::new(Cursor::new(bytes)) else {
            return false;
        };
        let names: Vec<String> = npz.names().map(Into::into).collect();
        names.iter().all(|name| npz.array(name).is_ok())
    };
    let picture = Picture::new(Shape::new(3, 4, 5), vec![90; 60]);
    let others = super::decoders::tests::WRITERS.map(|(kind, write)| {
        let read: fn(&[u8]) -> bool = |b| Picture::decode(b).is_ok();
        (kind, read, write(&picture))
    });
    let png = super::picture::tests::write_png(png::ColorType::Rgb, 5, 4, &[90; 60]);
    let own: Vec<Row> = vec![
        ("idx", |b| idx::read(b).is_ok(), idx::write(&array)),
        ("npy", |b| npy::read(b).is_ok(), npy_file.clone()),
        ("npz stored", npz, zip::tests::write(&members, false, false)),
        ("npz deflated", npz, zip::tests::write(&members, true, true)),
        (
            "zip",
            |b| {
                Archive::new(Cursor::new(b)).is_ok_and(|mut archive| {
                    (0..archive.names().count()).all(|index| archive.read_at(index).is_ok())
                })
            },
            zip::tests::write(&members, true, false),
        ),
        ("cifar", |b| cifar::read(b, 1).is_ok(), vec![3; 2 * 3073]),
        ("mat", |b| mat::read(b).is_ok(), mat_file(false, false)),
        (
            "mat big-endian",
            |b| mat::read(b).is_ok(),
            mat_file(true, false),
        ),
        (
            "mat compressed",
            |b| mat::read(b).is_ok(),
            mat_file(false, true),
        ),
        ("png", |b| Picture::decode(b).is_ok(), png),
        (
            "jpeg",
            |b| Picture::decode(b).is_ok(),
            include_bytes!("../../tests/fixtures/color.jpeg").to_vec(),
        ),
        (
            "gray jpeg",
            |b| Picture::decode(b).is_ok(),
            include_bytes!("../../tests/fixtures/gray.jpeg").to_vec(),
        ),
    ];
    own.into_iter().chain(others).collect()
}

/// What may be held at once while reading a file of a few kilobytes: a picture of the largest size
/// with its working copies.
const MOST: u64 = 400 << 20;

#[test]
fn the_undamaged_files_are_accepted() {
    for (name, read, file) in rows() {
        assert!(read(&file), "{name}");
    }
}

#[derive(Debug, Clone)]
enum Damage {
    Set(Index, u8),
    Flip(Index, u8),
    Word(Index, [u8; 4]),
    Cut(Index),
    Remove(Index),
    Insert(Index, u8),
    Repeat(Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let extreme = prop_oneof![
        Just([0xff; 4]),
        Just([0; 4]),
        Just([0x7f, 0xff, 0xff, 0xff]),
        Just([0xff, 0xff, 0xff, 0x7f]),
        any::<[u8; 4]>(),
    ];
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (any::<Index>(), extreme).prop_map(|(at, word)| Damage::Word(at, word)),
        any::<Index>().prop_map(Damage::Cut),
        any::<Index>().prop_map(Damage::Remove),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Damage::Repeat(from, to)),
    ]
}

fn apply(file: &mut Vec<u8>, damage: &Damage) {
    if file.is_empty() {
        return;
    }
    let length = file.len();
    match damage {
        Damage::Set(at, byte) => file[at.index(length)] = *byte,
        Damage::Flip(at, bit) => file[at.index(length)] ^= 1 << bit,
        Damage::Word(at, word) => {
            let at = at.index(length);
            let end = (at + 4).min(length);
            file[at..end].copy_from_slice(&word[..end - at]);
        }
        Damage::Cut(at) => file.truncate(at.index(length)),
        Damage::Remove(at) => drop(file.remove(at.index(length))),
        Damage::Insert(at, byte) => file.insert(at.index(length), *byte),
        Damage::Repeat(from, to) => {
            let (from, to) = (from.index(length), to.index(length));
            let part = file[from.min(to)..from.max(to)].to_vec();
            file.extend(part);
        }
    }
}

fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases.div_ceil(4),
        ..usual
    }
}

proptest! {
    // each case is sixteen files; PROPTEST_CASES decides how many
    #![proptest_config(cases())]

    #[test]
    fn damaged_files_are_refused_or_read(damages in prop::collection::vec(damage(), 1..6)) {
        for (name, read, mut file) in rows() {
            for damage in &damages {
                apply(&mut file, damage);
            }
            let info = allocation_counter::measure(|| {
                read(&file);
            });
            prop_assert!(info.bytes_max < MOST, "{}: {} bytes", name, info.bytes_max);
        }
    }

    #[test]
    fn noise_is_refused_or_read(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        for (_, read, file) in rows() {
            read(&noise);
            // noise behind a good beginning gets further
            let mut file = file;
            file.truncate(noise.len() % 64);
            file.extend(&noise);
            read(&file);
        }
    }
}
