//! The bits of short trainings: every network with every rule and every predictive method that
//! fits.
//!
//! `digest.txt` holds one line per training and part: weights, state of the rule, curves, metrics
//! and predictions. A change that is meant to keep every result must keep every line; a change that
//! is meant to move them writes the file anew with `MAXITIVE_DIGEST=write` and says why. Without
//! `MAXITIVE_DIGEST=all`, two trainings stand for the twelve of the DenseNets, which take minutes.
//!
//! The engine uses fused multiply-adds where the machine has them, so that bits belong to an
//! instruction set. The file names the one it was written on; on another the test compares two
//! trainings of the small nets with each other, one thread against two, instead.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::common::Place;

/// Where the lines are kept.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/digest.txt");

const RULES: [&str; 6] = [
    "rule = \"ucbopt\", lr = 0.02, vartheta = 1e-4, eps = 1e-3, eps_policy = \"add_then_clamp\", clip_radius = 0.7",
    "rule = \"ucbopt-adapt\", lr = 0.02, gamma = 0.3, beta3 = 1.002, clip_radius = 0.5",
    "rule = \"lcbopt-adapt\", lr = 0.02, gamma = 1.3, beta3 = 0.98",
    "rule = \"sgd\", lr = 0.05, momentum = 0.9, weight_decay = 1e-3, nesterov = true",
    "rule = \"adamw\", lr = 0.003, weight_decay = 0.02",
    "rule = \"ivon\", lr = 0.1, mc_samples = 2",
];

/// The trainings, each with its name and its config; without `all`, those that are quick, and a
/// DenseNet with dropout and one with samples of the weights.
fn trainings(all_of_them: bool) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for net in ["lenet", "resnet20", "densenet121", "densenet101"] {
        let small = net.starts_with("densenet");
        for rule in RULES {
            let id = rule.split('"').nth(1).expect("a rule has its id in quotes");
            for dropout in [false, true] {
                // the large nets take the methods in turn, the small ones all that fit
                if small && dropout != matches!(id, "ucbopt-adapt" | "sgd") {
                    continue;
                }
                let stands_for_all = net == "densenet121" && matches!(id, "ucbopt-adapt" | "ivon");
                if small && !all_of_them && !stands_for_all {
                    continue;
                }
                let name = format!("{net}{} {id}", if dropout { "-dropout" } else { "" });
                all.push((name, config(net, rule, id, dropout, small)));
            }
        }
    }
    all
}

fn config(net: &str, rule: &str, id: &str, dropout: bool, small: bool) -> String {
    let mut rows = vec!["{ row = \"point\", predictive = \"point\" }".to_owned()];
    let sampled =
        |method: &str| format!("{{ row = \"{method}\", predictive = \"{method}\", samples = 2 }}");
    if dropout {
        rows.push(sampled("mc-dropout"));
    } else if !small {
        rows.push("{ row = \"laplace\", predictive = \"laplace\" }".to_owned());
    }
    // IVON's samples and SWAG's do not go together
    let swag = dropout && id != "ivon";
    if swag {
        rows.push(sampled("swag"));
    } else if id == "ivon" {
        rows.push(sampled("ivon"));
    }
    let data = if net == "lenet" { "gray" } else { "color" };
    let augmentation = if net == "lenet" {
        ""
    } else {
        ", flip = true, pad = 3"
    };
    let epochs = if small { 2 } else { 3 };
    let rate = if dropout { ", dropout = 0.1" } else { "" };
    let swag = if swag {
        "swag = { start = 1, rank = 2 }\n"
    } else {
        ""
    };
    format!(
        "name = \"run\"\nseed = 5\n\
         data = {{ dataset = \"{data}\", out_of_domain = [\"{data}-other\"], split = \"shuffled\"{augmentation} }}\n\
         network = {{ name = \"{net}\"{rate} }}\n\
         train = {{ epochs = {epochs}, batch = 19 }}\n\
         optimizer = {{ {rule} }}\n\
         schedule = {{ shape = \"warmup-cosine\", warmup = 1, lr_final = 0.001 }}\n\
         evaluation = {{ keep_predictions = true }}\n{swag}rows = [{}]\n",
        rows.join(", ")
    )
}

/// Images with a bright square whose place is the class, and some noise;
/// `[n, size, size, channels]`.
fn write_images(
    folder: &Path,
    part: &str,
    count: usize,
    (size, channels): (usize, usize),
    salt: u32,
) {
    std::fs::create_dir_all(folder).unwrap();
    let mut pixels = Vec::new();
    for image in 0..count {
        let class = image * 7 % 10;
        let (x0, y0) = (class % 5 * 5 + 1, class / 5 * 13 + 3);
        for at in 0..size * size * channels {
            let (y, x) = (at / channels / size, at / channels % size);
            let place = (image * size * size * channels + at) as u32;
            let noise = place.wrapping_add(salt).wrapping_mul(2_654_435_761) >> 26;
            let inside = (x0..x0 + 5).contains(&x) && (y0..y0 + 8).contains(&y);
            pixels.push(noise as u8 + if inside { 120 } else { 0 });
        }
    }
    let labels: Vec<u8> = (0..count).map(|image| (image * 7 % 10) as u8).collect();
    let shape = format!("({count}, {size}, {size}, {channels})");
    write_bytes(&folder.join(format!("{part}_images.npy")), &shape, &pixels);
    write_bytes(
        &folder.join(format!("{part}_labels.npy")),
        &format!("({count},)"),
        &labels,
    );
}

/// An NPY file of unsigned bytes.
pub fn write_bytes(path: &Path, shape: &str, values: &[u8]) {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values);
    std::fs::write(path, bytes).unwrap();
}

/// FNV-1a over words of 64 bits: weights and states of the large nets are hundreds of megabytes.
#[derive(Clone, Copy)]
struct Digest(u64);

impl Digest {
    fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let mut hash = self.0 ^ bytes.len() as u64;
        let mut mix = |word: u64| {
            // the upper half reaches the lower one, too
            hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01B3);
            hash ^= hash >> 29;
        };
        for &word in words {
            mix(u64::from_le_bytes(word));
        }
        mix(u64::from_le_bytes(last));
        self.0 = hash;
    }
}

/// The tensors of a safetensors file with their bytes, those of files inside it included.
fn tensors(prefix: &str, file: &[u8], all: &mut BTreeMap<String, Vec<u8>>) -> Option<()> {
    let length = u64::from_le_bytes(*file.first_chunk()?);
    let end = usize::try_from(length).ok()?.checked_add(8)?;
    let header: BTreeMap<String, Value> = serde_json::from_slice(file.get(8..end)?).ok()?;
    for (name, tensor) in header {
        let Some(place) = tensor.get("data_offsets") else {
            continue;
        };
        let at = |k: usize| place[k].as_u64().map(|offset| end + offset as usize);
        let bytes = file.get(at(0)?..at(1)?)?;
        let name = format!("{prefix}{name}");
        if tensors(&format!("{name}."), bytes, all).is_none() {
            all.insert(name, bytes.to_vec());
        }
    }
    Some(())
}

fn of_tensors(paths: &[&str], run: &Path) -> Digest {
    let mut all = BTreeMap::new();
    for path in paths {
        let bytes = std::fs::read(run.join(path)).unwrap();
        tensors(&format!("{path} "), &bytes, &mut all).expect("a safetensors file");
    }
    let mut digest = Digest::new();
    for (name, bytes) in all {
        digest.add(name.as_bytes());
        digest.add(&bytes);
    }
    digest
}

/// Every number and word of a record's part, seconds left out, in the order of their names.
fn of_value(path: &str, value: &Value, digest: &mut Digest) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<_, _> = fields.iter().collect();
            for (name, value) in sorted {
                if name != "seconds" {
                    of_value(&format!("{path}.{name}"), value, digest);
                }
            }
        }
        Value::Array(values) => {
            for (k, value) in values.iter().enumerate() {
                of_value(&format!("{path}.{k}"), value, digest);
            }
        }
        other => digest.add(format!("{path}={other}\n").as_bytes()),
    }
}

/// The points of the curves that belong to the result.
fn of_curves(record: &Value) -> Digest {
    let mut digest = Digest::new();
    for point in record["curves"].as_array().unwrap() {
        for name in [
            "lr",
            "train_loss",
            "train_accuracy",
            "validation_loss",
            "validation_accuracy",
        ] {
            assert!(point[name].is_number(), "{name} of {point}");
            of_value(name, &point[name], &mut digest);
        }
    }
    digest
}

fn of_predictions(run: &Path) -> Digest {
    let mut files: Vec<_> = walk(&run.join("predictions"));
    files.sort();
    assert!(!files.is_empty());
    let mut digest = Digest::new();
    for file in files {
        digest.add(file.strip_prefix(run).unwrap().to_str().unwrap().as_bytes());
        digest.add(&std::fs::read(&file).unwrap());
    }
    digest
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// The lines of one training, and the instruction set it ran on.
fn train(place: &Place, name: &str, config: &str, threads: &str) -> (String, String) {
    let out = format!("{}-{threads}", name.replace(' ', "-"));
    std::fs::write(place.path("config.toml"), config).unwrap();
    let outcome = place.run(&[
        "train",
        "config.toml",
        "--out",
        &out,
        "--threads",
        threads,
        "--quiet",
    ]);
    assert_eq!(outcome.code, Some(0), "{name}: {}", outcome.stderr);
    let run = place.path(&out);
    let mut record: Value =
        serde_json::from_slice(&std::fs::read(run.join("record.json")).unwrap()).unwrap();
    // younger than the digests, and made from the predictions, which are part of them
    for evaluation in record["evaluations"].as_array_mut().unwrap() {
        let object = evaluation.as_object_mut().unwrap();
        for part in ["by_class", "risk"] {
            assert!(object.remove(part).is_some(), "{part}");
        }
    }
    let mut metrics = Digest::new();
    of_value("", &record["evaluations"], &mut metrics);
    let parts = [
        (
            "weights",
            of_tensors(&["best.safetensors", "last.safetensors"], &run),
        ),
        ("state", of_tensors(&["checkpoint.safetensors"], &run)),
        ("curves", of_curves(&record)),
        ("metrics", metrics),
        ("predictions", of_predictions(&run)),
    ];
    let mut lines = String::new();
    for (part, digest) in parts {
        writeln!(lines, "{name} {part} {:016x}", digest.0).unwrap();
    }
    std::fs::remove_dir_all(&run).unwrap();
    (
        lines,
        record["hardware"]["isa"].as_str().unwrap().to_owned(),
    )
}

#[test]
fn every_result_keeps_its_bits() {
    let place = Place::new();
    for (set, size) in [("gray", (28, 1)), ("color", (32, 3))] {
        write_images(&place.path(set), "train", 40, size, 1);
        write_images(&place.path(set), "test", 19, size, 70_001);
        write_images(
            &place.path(&format!("{set}-other")),
            "test",
            17,
            size,
            990_001,
        );
    }
    let kept = std::fs::read_to_string(FILE).unwrap_or_default();
    let asked = std::env::var("MAXITIVE_DIGEST").unwrap_or_default();
    let (write, all) = (asked == "write", asked == "write" || asked == "all");
    let mut found = String::new();
    for (name, config) in trainings(all) {
        let (lines, isa) = train(&place, &name, &config, "1");
        if found.is_empty() {
            writeln!(found, "instruction set {isa}").unwrap();
        }
        let is_pinned = kept.lines().next() == found.lines().next();
        // twice the large nets would take too long
        if !write && !is_pinned && !name.starts_with("densenet") {
            let (shared, _) = train(&place, &name, &config, "2");
            assert_eq!(lines, shared, "one thread against two");
        }
        found.push_str(&lines);
    }
    if write {
        std::fs::write(FILE, &found).unwrap();
    } else if kept.lines().next() == found.lines().next() {
        let differences: Vec<_> = found
            .lines()
            .filter(|line| !kept.lines().any(|other| other == *line))
            .collect();
        assert!(differences.is_empty(), "other bits: {differences:#?}");
        assert!(
            !all || kept.lines().count() == found.lines().count(),
            "digest.txt has a training that is no more"
        );
    }
}
