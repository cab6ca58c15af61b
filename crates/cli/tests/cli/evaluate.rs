//! `maxitive evaluate` on files of every kind, against worked values and the golden ones.

use std::fmt::Write as _;

use golden::{Value, numbers, quotients, size};
use serde_json::json;

use crate::common::{Place, assert_close, number, split};

/// An NPY file.
fn npy(descr: &str, fortran: bool, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let sizes: String = shape.iter().map(|size| format!("{size},")).collect();
    let header =
        format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({sizes}), }}\n");
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

pub fn doubles(shape: &[usize], values: &[f64]) -> Vec<u8> {
    npy(
        "<f8",
        false,
        shape,
        &values
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<_>>(),
    )
}

pub fn singles(shape: &[usize], values: &[f64]) -> Vec<u8> {
    let bytes: Vec<u8> = values
        .iter()
        .flat_map(|&v| (v as f32).to_le_bytes())
        .collect();
    npy("<f4", false, shape, &bytes)
}

/// The same matrix with the first index fastest.
fn fortran(shape: [usize; 2], values: &[f64], big: bool) -> Vec<u8> {
    let [rows, columns] = shape;
    let turned = (0..columns).flat_map(|j| (0..rows).map(move |i| values[i * columns + j]));
    let bytes: Vec<u8> = turned
        .flat_map(|v| {
            if big {
                v.to_be_bytes()
            } else {
                v.to_le_bytes()
            }
        })
        .collect();
    npy(if big { ">f8" } else { "<f8" }, true, &shape, &bytes)
}

/// A ZIP archive of files that are only stored.
pub fn zip(files: &[(&str, &[u8])]) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        !bytes.iter().fold(!0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
            })
        })
    };
    let (mut archive, mut contents) = (Vec::new(), Vec::new());
    for (name, bytes) in files {
        let offset = archive.len() as u32;
        let (size, length) = (bytes.len() as u32, name.len() as u16);
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for word in [crc(bytes), size, size] {
            common.extend(word.to_le_bytes());
        }
        common.extend(length.to_le_bytes());
        common.extend([0, 0]);
        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(name.as_bytes());
        archive.extend(*bytes);
        contents.extend(b"PK\x01\x02\x14\x00");
        contents.extend(&common);
        contents.extend([0; 10]);
        contents.extend(offset.to_le_bytes());
        contents.extend(name.as_bytes());
    }
    let (start, size, count) = (
        archive.len() as u32,
        contents.len() as u32,
        files.len() as u16,
    );
    archive.extend(contents);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend(count.to_le_bytes());
    archive.extend(count.to_le_bytes());
    archive.extend(size.to_le_bytes());
    archive.extend(start.to_le_bytes());
    archive.extend([0, 0]);
    archive
}

fn csv(header: Option<&str>, columns: usize, values: &[f64]) -> String {
    let mut text = header.map_or_else(String::new, |header| format!("{header}\n"));
    for row in values.chunks(columns) {
        let cells: Vec<String> = row.iter().map(f64::to_string).collect();
        writeln!(text, "{}", cells.join(",")).unwrap();
    }
    text
}

/// Four images of three classes, multiples of 1/16: right, right, wrong, wrong.
const PROBABILITIES: [f64; 12] = [
    0.5, 0.25, 0.25, 0.125, 0.75, 0.125, 0.25, 0.625, 0.125, 0.875, 0.0625, 0.0625,
];
const LABELS: [i64; 4] = [0, 1, 0, 2];
/// Two images.
const OTHERS: [f64; 6] = [0.625, 0.25, 0.125, 0.25, 0.375, 0.375];

/// Worked by hand. Confidences 1/2, 3/4 right, 5/8, 7/8 wrong; others 5/8 and 3/8.
#[track_caller]
fn assert_in_domain(value: &Value) {
    assert_close(&value["accuracy"], 0.5);
    assert_eq!(value["top5"], Value::Null);
    let nll = -(0.5f64.ln() + 0.75f64.ln() + 0.25f64.ln() + 0.0625f64.ln()) / 4.0;
    assert_close(&value["nll"], nll);
    assert_close(&value["ece"], (0.5 + 0.25 + 0.625 + 0.875) / 4.0);
    let brier = [
        0.375,
        0.09375,
        0.75 * 0.75 + 0.625 * 0.625 + 0.125 * 0.125,
        0.875 * 0.875 + 0.0625 * 0.0625 + 0.9375 * 0.9375,
    ];
    assert_close(&value["brier"], brier.iter().sum::<f64>() / 4.0);
    assert_close(&value["auroc"], 0.25);
    assert_eq!(value["samples"], 4);
    assert_eq!(value["classes"], 3);
    assert_eq!(value["bins"]["number"], 20);
    assert_eq!(value["bins"]["scheme"], "equal-width");
    assert_eq!(value["auroc_positive_class"], "right predictions");
}

/// In order: in 7/8, in 3/4, in and out 5/8, in 1/2, out 3/8.
#[track_caller]
fn assert_out_of_domain(value: &Value) {
    assert_close(&value["auroc"], (2.5 + 4.0) / 8.0);
    assert_close(&value["aupr_in"], (1.0 + 1.0 + 0.75 + 0.8) / 4.0);
    assert_close(&value["aupr_out"], (1.0 + 2.0 / 4.0) / 2.0);
    assert_close(&value["fpr_at_95_tpr"], 0.5);
    // (0, 0), and vertices with 1, 2, 3 accepted; the first and the second are followed by equal
    // steps
    assert_close(&value["mean_fpr_below_95_tpr"], 0.5 / 4.0);
    assert_close(&value["detection_error"], 0.25);
    assert_eq!(value["in_samples"], 4);
    assert_eq!(value["out_samples"], 2);
    assert_eq!(
        value["positive_class"],
        "in-domain; out-of-domain for aupr_out"
    );
    assert_eq!(
        value["ties"],
        "equal scores are accepted or refused together"
    );
}

fn place() -> Place {
    let labels: Vec<u8> = LABELS.iter().flat_map(|y| y.to_le_bytes()).collect();
    Place::new()
        .with("p.npy", doubles(&[4, 3], &PROBABILITIES))
        .with("y.npy", npy("<i8", false, &[4], &labels))
        .with("o.npy", doubles(&[2, 3], &OTHERS))
}

#[test]
fn files_of_every_kind_give_the_same() {
    let short = |y: i64| (y as i32).to_le_bytes();
    let whole: Vec<f64> = LABELS.iter().map(|&y| y as f64).collect();
    let long: Vec<u8> = LABELS.iter().flat_map(|y| y.to_be_bytes()).collect();
    let labels = [
        (
            "i4.npy",
            npy(
                "<i4",
                false,
                &[4],
                &LABELS.iter().flat_map(|&y| short(y)).collect::<Vec<_>>(),
            ),
        ),
        ("u1.npy", npy("|u1", false, &[4], &LABELS.map(|y| y as u8))),
        ("big.npy", npy(">i8", false, &[4, 1], &long)),
        ("f8.npy", doubles(&[4], &whole)),
        ("plain.csv", csv(None, 1, &whole).into_bytes()),
        ("header.csv", csv(Some("label"), 1, &whole).into_bytes()),
        (
            "no-ending",
            csv(Some("# mine\n\nlabel"), 1, &whole).into_bytes(),
        ),
    ];
    let half = |v: f64| -> [u8; 2] {
        // multiples of 1/16 up to 1 in half precision
        if v == 0.0 {
            return [0, 0];
        }
        let exponent = v.log2().floor();
        let fraction = (v / exponent.exp2() - 1.0) * 1024.0;
        (((exponent as i32 + 15) as u16) << 10 | fraction as u16).to_le_bytes()
    };
    let files = |rows: usize, values: &[f64]| -> Vec<(&'static str, Vec<u8>)> {
        let shape = [rows, 3];
        let halves: Vec<u8> = values.iter().flat_map(|&v| half(v)).collect();
        vec![
            ("f8.npy", doubles(&shape, values)),
            ("f4.npy", singles(&shape, values)),
            ("f2.npy", npy("<f2", false, &shape, &halves)),
            ("fortran.npy", fortran([rows, 3], values, false)),
            ("big.npy", fortran([rows, 3], values, true)),
            ("plain.csv", csv(None, 3, values).into_bytes()),
            (
                "header.csv",
                csv(Some("shirt, coat ,\"bag\""), 3, values).into_bytes(),
            ),
            ("numbered.csv", csv(Some("0,1,2"), 3, values).into_bytes()),
            ("no-ending", doubles(&shape, values)),
        ]
    };
    let mut place = place();
    for (name, bytes) in &labels {
        place = place.with(&format!("y-{name}"), bytes);
    }
    let all = files(4, &PROBABILITIES).into_iter().zip(files(2, &OTHERS));
    for (i, ((name, probabilities), (_, others))) in all.enumerate() {
        let (p, o) = (format!("p-{name}"), format!("o-{name}"));
        place = place.with(&p, &probabilities).with(&o, &others);
        let y = format!("y-{}", labels[i % labels.len()].0);
        let value = place.json(&["evaluate", "--probs", &p, "--labels", &y, "--ood", &o]);
        assert_in_domain(&value["in_domain"]);
        assert_out_of_domain(&value["ood"]);
        assert_eq!(value["ood"]["score"], "maximum probability");
        assert_eq!(value.as_object().unwrap().len(), 2);
    }
}

#[test]
fn arrays_of_an_archive_are_named() {
    let labels: Vec<u8> = LABELS.iter().flat_map(|y| y.to_le_bytes()).collect();
    let files = [
        ("probs.npy", doubles(&[4, 3], &PROBABILITIES)),
        ("y.npy", npy("<i8", false, &[4], &labels)),
        ("kmnist.npy", singles(&[2, 3], &OTHERS)),
    ];
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (*name, &bytes[..]))
        .collect();
    let place = place()
        .with("run.npz", zip(&files))
        .with("one.npz", zip(&files[..1]));
    let value = place.json("evaluate --probs one.npz --labels run.npz:y --ood run.npz:kmnist");
    assert_in_domain(&value["in_domain"]);
    assert_out_of_domain(&value["ood"]);
    assert_eq!(value["ood"]["name"], "kmnist");
    // the array called like the option
    let value = place.json("evaluate --probs run.npz --labels run.npz:y");
    assert_in_domain(&value["in_domain"]);
    place.refuse_each(
        "evaluate *",
        r#"
--probs run.npz --labels run.npz => run.npz: choose an array, like run.npz:probs & "kmnist"
--probs run.npz:prob --labels y.npy => run.npz: unknown array "prob", did you mean "probs"?
"#,
    );
}

#[test]
fn parts_without_data_are_null() {
    let place = place().with("empty.npy", doubles(&[0, 3], &[]));
    let value = place.json("evaluate --probs p.npy --labels y.npy");
    assert_in_domain(&value["in_domain"]);
    assert_eq!(value["ood"], Value::Null);
    let value = place.json("evaluate --probs p.npy --ood o.npy");
    assert_eq!(value["in_domain"], Value::Null);
    assert_out_of_domain(&value["ood"]);
    let value = place.json("evaluate --probs p.npy --ood empty.npy");
    for key in split("auroc aupr_in aupr_out fpr_at_95_tpr mean_fpr_below_95_tpr detection_error") {
        assert_eq!(value["ood"][key], Value::Null, "{key}");
    }
}

#[test]
fn undefined_values_are_null_and_infinite_ones_words() {
    let place = Place::new()
        .with("p.csv", "a,b\n1,0\n0,1\n")
        .with("right.csv", "0\n1\n")
        .with("wrong.csv", "1\n0\n");
    let value = place.run("evaluate --probs p.csv --labels wrong.csv --json");
    let value: Value = serde_json::from_str(&value.stdout).unwrap();
    assert_eq!(value["in_domain"]["nll"], "inf");
    assert_eq!(value["in_domain"]["auroc"], Value::Null);
    let outcome = place.succeed("evaluate --probs p.csv --labels right.csv");
    outcome.stdout_has("auroc     undefined");
    // a first label 0 is no header, because the numbers of rows agree
    assert_eq!(outcome.stderr, "");
}

#[test]
fn numbers_as_headers_are_told_apart_by_the_number_of_rows() {
    let place = Place::new()
        .with("p.csv", "0,1\n0.75,0.25\n0.5,0.5\n")
        .with("y.csv", "1\n0\n")
        .with("numbered.csv", "0\n1\n0\n")
        .with("named.csv", "a,b\n0.75,0.25\n0.5,0.5\n");
    for (probs, labels) in [("p.csv", "y.csv"), ("named.csv", "numbered.csv")] {
        let outcome = place.succeed(&["evaluate", "--probs", probs, "--labels", labels, "--json"]);
        let value: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(value["in_domain"]["samples"], 2);
        assert_close(&value["in_domain"]["accuracy"], 0.5);
        outcome.stderr_has("the first line is taken as a header");
    }
}

/// As pandas writes unnamed columns: `0,1` above the probabilities and `0` above the labels.
#[test]
fn headers_of_unnamed_columns_are_told_from_data() {
    let place = Place::new()
        .with("p.csv", "0,1\n0.9,0.1\n0.2,0.8\n0.6,0.4\n")
        .with("y.csv", "0\n0\n1\n1\n")
        .with("s.csv", "0\n0.5\n")
        .with("o.csv", "0.25\n")
        .with("hard.csv", "0,1\n1,0\n1,0\n");
    let pair = "evaluate --probs p.csv --labels y.csv";
    let taken = |files: &[&str], what: &str| {
        let note = |file: &&str| format!("{file}: the first line is taken as {what}");
        files.iter().map(note).collect::<Vec<_>>()
    };
    for (command, accuracy, nll, what) in [
        (
            pair.to_owned(),
            2.0 / 3.0,
            json!(0.414_931_599_615_397),
            "a header",
        ),
        (
            format!("{pair} --header yes"),
            2.0 / 3.0,
            json!(0.414_931_599_615_397),
            "a header",
        ),
        (
            format!("{pair} --header no"),
            0.5,
            json!("inf"),
            "data, not as a header",
        ),
    ] {
        let outcome = place.succeed(&format!("{command} --json"));
        let value: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_close(&value["in_domain"]["accuracy"], accuracy);
        match nll.as_f64() {
            Some(nll) => assert_close(&value["in_domain"]["nll"], nll),
            None => assert_eq!(value["in_domain"]["nll"], nll),
        }
        let notes = taken(&["p.csv", "y.csv"], what);
        assert_eq!(value["notes"], json!(notes));
        let notes: String = notes.iter().map(|note| format!("note: {note}\n")).collect();
        assert_eq!(outcome.stderr, notes);
    }
    let json = |command: &str| {
        let outcome = place.succeed(&format!("{command} --json"));
        serde_json::from_str::<Value>(&outcome.stdout).unwrap()
    };
    // the same for a file by itself, and for those of a validation
    let value = json("evaluate --scores s.csv --ood-scores o.csv");
    assert_eq!(value["notes"], json!(taken(&["s.csv"], "a header")));
    assert_eq!(value["ood"]["in_samples"], 1);
    let value = json(&format!("{pair} --ood p.csv"));
    assert_eq!(
        (&value["ood"]["in_samples"], &value["ood"]["out_samples"]),
        (&json!(3), &json!(3))
    );
    let value = json(&format!(
        "{pair} --validation p.csv --validation-labels y.csv"
    ));
    assert_eq!(value["temperature"]["validation_images"], 3);
    // where nothing tells, the option has to
    let hard = "evaluate --probs hard.csv --labels y.csv";
    let bad = place.refuse(&hard.replace("y.csv", "hard_y.csv"));
    bad.stderr_has("hard_y.csv");
    let place = place.with("hard_y.csv", "0\n0\n1\n");
    let hard = hard.replace("y.csv", "hard_y.csv");
    let bad = place.refuse(&hard);
    bad.stderr_has("hard.csv and hard_y.csv: the first line may be a header or data");
    bad.stderr_has("--header yes or --header no");
    for (header, samples, accuracy) in [("yes", 2, 0.5), ("no", 3, 1.0 / 3.0)] {
        let outcome = place.succeed(&format!("{hard} --header {header} --json"));
        let value: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(value["in_domain"]["samples"], samples);
        assert_close(&value["in_domain"]["accuracy"], accuracy);
    }
}

/// 800 nats are beyond all numbers as a probability, and not as a logit.
#[test]
fn the_log_loss_of_logits_has_no_end() {
    let place = Place::new()
        .with("z.csv", "0,800\n800,0\n")
        .with("y.csv", "0\n0\n")
        .with("v.csv", "5.0,0\n5.0,0\n5.0,0\n5.0,0\n")
        .with("vy.csv", "0\n0\n0\n1\n")
        .with("p.csv", "0.0,1.0\n1.0,0.0\n");
    let pair = "evaluate --logits --probs z.csv --labels y.csv";
    for command in [
        pair.to_owned(),
        format!("{pair} --ood z.csv --score energy"),
    ] {
        let value = place.json(&command);
        assert_eq!(value["in_domain"]["nll"], 400.0);
        assert_eq!(value["in_domain"]["accuracy"], 0.5);
    }
    let value = place.json(&format!("{pair} --bootstrap 50"));
    assert_eq!(value["in_domain"]["intervals"]["nll"]["high"], 800.0);
    let validation = "--validation v.csv --validation-labels vy.csv";
    let value = place.json(&format!("{pair} {validation}"));
    assert_close(&value["in_domain"]["nll"], 400.0 * 3f64.ln() / 5.0);
    // a probability of 0 stays one, with a temperature, too
    let probs = "evaluate --probs p.csv --labels y.csv";
    assert_eq!(place.json(probs)["in_domain"]["nll"], "inf");
    let place = place.with("v.csv", "0.9,0.1\n0.9,0.1\n0.9,0.1\n0.9,0.1\n");
    let value = place.json(&format!("{probs} {validation}"));
    assert_eq!(value["in_domain"]["nll"], "inf");
}

/// Classes in another order are the same score.
#[test]
fn equal_scores_in_another_order_of_the_classes_are_ties() {
    let place = Place::new()
        .with("i.csv", "0.7,0.2,0.1\n")
        .with("o.csv", "0.7,0.1,0.2\n");
    for command in [
        "evaluate --probs i.csv --ood o.csv --score entropy",
        "evaluate --probs i.csv --ood o.csv",
        "evaluate --logits --probs inz.csv --ood outz.csv --score energy",
        "evaluate --logits --probs inz.csv --ood outz.csv --score entropy",
        "evaluate --logits --probs inz.csv --ood outz.csv",
    ] {
        for logits in [
            ["0.7,0.2,0.1", "0.7,0.1,0.2"],
            ["0.1,0.3,-1.7", "-1.7,0.1,0.3"],
        ] {
            let [ins, outs] = logits.map(|row| format!("{row}\n{row}\n9,1.5,1\n"));
            std::fs::write(place.path("inz.csv"), ins).unwrap();
            std::fs::write(place.path("outz.csv"), outs).unwrap();
            let value = &place.json(command)["ood"];
            let metrics = ["auroc", "fpr_at_95_tpr", "detection_error"];
            assert_eq!(
                metrics.map(|metric| value[metric].as_f64().unwrap()),
                [0.5, 1.0, 0.5]
            );
        }
    }
}

#[test]
fn several_sets_make_a_list() {
    let place = place();
    let one = place.json("evaluate --probs p.npy --ood letters=o.npy");
    assert_out_of_domain(&one["ood"]);
    assert_eq!(one["ood"]["name"], "letters");
    let several = place.json("evaluate --probs p.npy --ood letters=o.npy --ood p.npy");
    let list = several["ood"].as_array().unwrap();
    assert_eq!(list.len(), 2);
    assert_eq!(list[0], one["ood"]);
    assert_eq!(list[1]["name"], "p");
    assert_close(&list[1]["auroc"], 0.5);
}

#[test]
fn ready_made_scores_can_point_either_way() {
    let place = place()
        .with("s.npy", singles(&[4], &[0.875, 0.75, 0.625, 0.5]))
        .with("o.csv", "score\n0.625\n0.375\n")
        .with(
            "distance.npy",
            doubles(&[4, 1], &[-0.875, -0.75, -0.625, -0.5]),
        )
        .with("distances.csv", "-0.625\n-0.375\n");
    let value = place.json("evaluate --scores s.npy --ood-scores o.csv");
    assert_eq!(value["in_domain"], Value::Null);
    assert_out_of_domain(&value["ood"]);
    assert_eq!(value["ood"]["score"], "given");
    let value =
        place.json("evaluate --scores distance.npy --ood-scores distances.csv --higher-is-out");
    assert_out_of_domain(&value["ood"]);
    assert_eq!(value["ood"]["score"], "given, negated");
    // both parts at once, the score from elsewhere
    let value =
        place.json("evaluate --probs p.npy --labels y.npy --scores s.npy --ood-scores o.csv");
    assert_in_domain(&value["in_domain"]);
    assert_out_of_domain(&value["ood"]);
}

#[test]
fn logits_entropy_and_bins() {
    let logs = |values: &[f64]| values.iter().map(|p| p.ln() + 3.5).collect::<Vec<_>>();
    let place = place()
        .with("logits.npy", doubles(&[4, 3], &logs(&PROBABILITIES)))
        .with("others.npy", doubles(&[2, 3], &logs(&OTHERS)));
    let value = place.json("evaluate --logits --probs logits.npy --labels y.npy --ood others.npy");
    let found = &value["in_domain"];
    let expected = place.json("evaluate --probs p.npy --labels y.npy");
    for key in ["accuracy", "nll", "brier", "auroc"] {
        assert_close(&found[key], number(&expected["in_domain"][key]));
    }
    let value = place.json("evaluate --probs p.npy --ood o.npy --score entropy");
    assert_eq!(value["ood"]["score"], "negative entropy");
    // entropies in nats: 1.04, 0.74, 0.90, 0.46 within, 0.90 and 1.08 without
    assert_close(&value["ood"]["auroc"], (4.0 + 2.5) / 8.0);
    let value = place.json("evaluate --probs p.npy --labels y.npy --bins 1 --scheme equal-mass");
    assert_close(
        &value["in_domain"]["ece"],
        (0.5 + 0.75 + 0.625 + 0.875 - 2.0) / 4.0,
    );
    assert_eq!(value["in_domain"]["bins"]["number"], 1);
    assert_eq!(value["in_domain"]["bins"]["scheme"], "equal-mass");
}

#[test]
fn intervals_come_with_their_seed() {
    let place = place();
    let run = |seed: &str| {
        let sets = "--probs p.npy --labels y.npy --ood o.npy";
        place.json(&format!("evaluate {sets} --bootstrap 200 --seed {seed}"))
    };
    let value = run("5");
    assert_in_domain(&value["in_domain"]);
    assert_out_of_domain(&value["ood"]);
    let interval = &value["in_domain"]["intervals"]["accuracy"];
    assert_eq!(
        (number(&interval["low"]), number(&interval["high"])),
        (0.0, 1.0)
    );
    assert_eq!(
        (interval["replicates"].as_u64(), interval["seed"].as_u64()),
        (Some(200), Some(5))
    );
    assert_close(&interval["level"], 0.95);
    assert_eq!(value["in_domain"]["intervals"]["top5"], Value::Null);
    assert!(number(&value["ood"]["intervals"]["auroc"]["high"]) > 0.8125);
    assert_eq!(value, run("5"));
    assert_ne!(value, run("6"));
    let outcome = place.run("evaluate --probs p.npy --labels y.npy --bootstrap 50 --level 0.5");
    outcome.stdout_has("in brackets 50 % bootstrap intervals");
}

#[test]
fn people_get_a_table() {
    let outcome = place().succeed("evaluate --probs p.npy --labels y.npy --ood o.npy");
    assert_eq!(
        outcome.stdout,
        "\
In-domain: 4 images, 3 classes
  accuracy  0.5        right predictions; higher is better
  top5      undefined  label among the five most probable; higher is better
  nll       1.28493    mean of -log p(label); lower is better
  ece       0.5625     calibration error over 20 equal-width bins; lower is better
  brier     0.771484   squared distance from the label, 0 to 2; lower is better
  auroc     0.25       right predictions are surer than wrong ones; 0.5 is chance
  wrong: 0.5 of the surest 50%, 0.666667 of the surest 80%, 0.5 of the surest 90%, 0.5 of the surest 100%
  aurc 0.666667, area under this risk over coverage; 0.458333 more than the best order

Out-of-domain, o: 4 images in, 2 out, by maximum probability
  auroc                  0.8125  in-domain scores higher; 0.5 is chance
  aupr_in                0.8875  average precision, in-domain positive; 0.666667 is chance
  aupr_out               0.75    average precision, out-of-domain positive; 0.333333 is chance
  fpr_at_95_tpr          0.5     others accepted where 95 % of in-domain are; lower is better
  mean_fpr_below_95_tpr  0.125   the same averaged up to there: the paper's FPR@95
  detection_error        0.25    error of the best threshold, both sides alike; lower is better
"
    );
    assert_eq!(outcome.stderr, "");
}

#[test]
fn risk_over_coverage_is_worked_by_hand() {
    // surest first: wrong, right, wrong, right
    let value = place().json("evaluate --probs p.npy --labels y.npy");
    let found = &value["in_domain"];
    assert_close(
        &found["aurc"],
        (1.0 + 1.0 / 2.0 + 2.0 / 3.0 + 1.0 / 2.0) / 4.0,
    );
    assert_close(&found["excess_aurc"], (1.0 + 1.0 / 2.0 + 1.0 / 3.0) / 4.0);
    assert_close(&found["risk_at_coverage"][1][1], 2.0 / 3.0);
}

#[test]
fn a_temperature_is_fitted_to_validation_predictions() {
    let place = place()
        .with(
            "z.npy",
            doubles(&[4, 2], &[5.0, 0.0, 5.0, 0.0, 0.0, 5.0, 5.0, 0.0]),
        )
        .with("v.npy", doubles(&[4, 2], &[5.0, 0.0].repeat(4)))
        .with("vy.csv", "0\n0\n0\n1\n")
        .with("right.csv", "0\n0\n0\n0\n");
    let fitted = "evaluate --logits --probs z.npy --labels vy.csv --validation v.npy \
                  --validation-labels";
    let value = place.json(&format!("{fitted} vy.csv"));
    assert_close(&value["temperature"]["value"], 5.0 / 3f64.ln());
    // two of four right with probability 3/4 each
    assert_close(
        &value["in_domain"]["nll"],
        -(0.75f64.ln() * 2.0 + 0.25f64.ln() * 2.0) / 4.0,
    );
    let bad = place.refuse(&format!("{fitted} right.csv"));
    bad.stderr_has("v.npy: no temperature in 0.001 to 1000");
    // probabilities as logits are refused, whichever file they are in
    let bad = place.refuse("evaluate --logits --probs z.npy --ood p.npy");
    let expected = "p.npy: every row is one of probabilities that add up to 1; leave out --logits";
    bad.stderr_has(expected);
}

#[test]
fn scores_of_logits_tell_sets_apart() {
    // the same probabilities, other sizes
    let place = Place::new()
        .with("z.npy", doubles(&[2, 2], &[9.0, 8.0, 7.0, 8.0]))
        .with("o.npy", doubles(&[2, 2], &[1.0, 0.0, -1.0, 0.0]));
    for (score, auroc) in [
        ("energy", 1.0),
        ("max-logit", 1.0),
        ("max-probability", 0.5),
    ] {
        let sets = "--logits --probs z.npy --ood o.npy";
        let value = place.json(&format!("evaluate {sets} --score {score}"));
        assert_close(&value["ood"]["auroc"], auroc);
    }
    let bad = place.refuse("evaluate --probs z.npy --ood o.npy --score energy");
    bad.stderr_has("add --logits");
}

#[test]
fn sets_are_averaged_in_groups() {
    let place = place().with("far.npy", doubles(&[1, 3], &[0.375, 0.3125, 0.3125]));
    let arguments = split("evaluate --probs p.npy --ood near/a=o.npy --ood far/b=far.npy");
    let value = place.json(&arguments);
    assert_close(&value["ood_mean"]["near"]["auroc"], 0.8125);
    assert_close(&value["ood_mean"]["far"]["auroc"], 1.0);
    assert_close(&value["ood_mean"]["all"]["auroc"], 1.8125 / 2.0);
    assert_eq!(value["ood_mean"]["all"]["sets"], 2);
    let text = place.run(&arguments).stdout;
    assert!(text.contains("means over sets"), "{text}");
    assert!(text.contains("all (2)"), "{text}");
}

#[test]
fn predictions_of_any_program_become_a_record() {
    let place = place();
    let arguments = split(
        "evaluate --probs p.npy --labels y.npy --record runs/torch \
         --row 'SGD (PyTorch)' --experiment mine --dataset shapes --network lenet \
         --run-seed 3",
    );
    place.succeed(&arguments);
    let text = std::fs::read(place.path("runs/torch/record.json")).unwrap();
    let record: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(record["seed"], 3);
    assert_eq!(record["evaluations"][0]["row"], "SGD (PyTorch)");
    assert_eq!(
        record["evaluations"][0]["by_class"]["images"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    place.succeed("report runs -o page.html");
    let page = place.text("page.html");
    assert!(page.contains("SGD (PyTorch)"));
    // nothing is overwritten
    let again = place.refuse(&arguments);
    again.stderr_has("there is a record already");
}

#[test]
fn a_page_can_be_written_beside() {
    let place = place();
    let value = place.json(
        "evaluate --bootstrap 20 --report out.html --probs p.npy --labels y.npy \
         --ood letters=o.npy",
    );
    assert_in_domain(&value["in_domain"]);
    let page = place.text("out.html");
    for words in [
        "Predictions in p.npy",
        "20 resamples, seed 0",
        "drawn letters",
        "0.812",
        "</html>",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // under the figures, those of the test set and of the other one
    assert_eq!(
        page.matches("<span class=\"theirs interval\">[").count(),
        10
    );
    assert!(page.contains("In brackets 95 % bootstrap intervals (20 resamples, seed 0)."));
    assert_eq!(place.files(), ["o.npy", "out.html", "p.npy", "y.npy"]);
    // ready-made scores have a page, too
    let place = place.with("s.npy", doubles(&[2], &[3.0, f64::INFINITY]));
    place.succeed(
        "evaluate --probs p.npy --labels y.npy --scores s.npy --ood-scores s.npy \
         --report two.html",
    );
    place.refuse_each(
        "evaluate --probs p.npy *",
        r#"
--ood o.npy --report x.html => --labels
--labels y.npy --report x.pdf => x.pdf: a page ends in .html
--labels y.npy --ood o.npy --ood o=p.npy => two out-of-domain sets are called "o"; say NAME=FILE
--labels y.npy --report none/x.html => none/x.html: cannot be written
"#,
    );
    assert_eq!(
        place.files(),
        ["o.npy", "out.html", "p.npy", "s.npy", "two.html", "y.npy"]
    );
}

/// What is refused, and the words that say why.
const MISTAKES: &str = r#"
--probs nan.npy --labels y.npy => nan.npy: row 1: probability NaN of class 1 is not in [0, 1]\n
--probs negative.npy --labels y.npy => negative.npy: row 1: probability -2.5 of class 1 & add --logits
--probs loose.npy --labels y.npy => loose.npy: row 3: sum of the probabilities 1.1875 is not in 1 ± 0.001 & --logits
--probs flat.npy --labels y.npy => flat.npy: probabilities need the shape [images, classes], found [12]
--probs one.npy --labels y.npy => one.npy: number of classes 1 is not in 2..
--probs nowhere.npy --labels y.npy => nowhere.npy: there is no such file
--probs . --labels y.npy => .: is a folder, not a file
--probs cut.npy --labels y.npy => cut.npy: data at byte
--probs words.csv --labels y.npy => words.csv: line 3, column "b": "half" is not a number
--probs p.npy --labels short.npy => short.npy: labels has 3 entries, expected 4, one for each row of probabilities in p.npy
--probs p.npy --labels high.npy => high.npy: row 3: label 3 is not in 0..=2
--probs p.npy --labels low.npy => low.npy: row 2: label -1 is not in 0..=2
--probs p.npy --labels part.npy => part.npy: row 2: 0.5 is not a whole number; labels are
--probs p.npy --labels p.npy => p.npy: labels need the shape [images], one number each, found [4, 3]
--probs p.npy => nothing to compare with & --labels & --ood
--probs p.npy --ood two.npy => two.npy has 2 classes, but p.npy has 3
--scores scores.npy --ood-scores fine.npy => scores.npy: row 1 is not a number
--scores fine.npy --ood-scores scores.npy => scores.npy: row 1 is not a number
--scores fine.npy => --ood-scores
--probs p.npy --labels y.npy --bins 0 => number of bins 0 is not in 1..=10000
--probs p.npy --ood o.npy --bootstrap 9 --level 1 => level of the intervals 1 is not in (0, 1)
"#;

#[test]
fn mistakes_name_file_row_and_value() {
    let mut bad = PROBABILITIES;
    bad[4] = f64::NAN;
    let mut negative = PROBABILITIES;
    negative[4] = -2.5;
    let mut loose = PROBABILITIES;
    loose[11] = 0.25;
    let place = place()
        .with("nan.npy", doubles(&[4, 3], &bad))
        .with("negative.npy", doubles(&[4, 3], &negative))
        .with("loose.npy", doubles(&[4, 3], &loose))
        .with("flat.npy", doubles(&[12], &PROBABILITIES))
        .with("two.npy", doubles(&[2, 2], &[0.5; 4]))
        .with("one.npy", doubles(&[4, 1], &[1.0; 4]))
        .with("short.npy", npy("|u1", false, &[3], &[0, 1, 2]))
        .with("high.npy", npy("|u1", false, &[4], &[0, 1, 2, 3]))
        .with("low.npy", npy("|i1", false, &[4], &[0, 1, 255, 0]))
        .with("part.npy", doubles(&[4], &[0.0, 1.0, 0.5, 0.0]))
        .with("cut.npy", &doubles(&[4, 3], &PROBABILITIES)[..100])
        .with("words.csv", "a,b\n0.5,0.5\n0.5,half\n")
        .with("scores.npy", doubles(&[3], &[0.5, f64::NAN, 0.25]))
        .with("fine.npy", doubles(&[2], &[0.5, 0.25]));
    place.refuse_each("evaluate *", MISTAKES);
    place.refuse_each("*", "evaluate => --probs");
}

#[track_caller]
fn assert_golden(case: &Value, found: &Value, keys: &[(&str, &str)]) {
    for (key, golden) in keys {
        let wanted = &case["expected"][golden];
        if wanted.is_null() || wanted == "nan" {
            assert_eq!(found[key], Value::Null, "{} {key}", case["name"]);
        } else {
            let (a, b) = (number(&found[key]), number(wanted));
            assert!(
                a == b || (a - b).abs() <= 1e-12,
                "{} {key}: {a} {b}",
                case["name"]
            );
        }
    }
}

#[test]
fn golden_metrics_through_the_command() {
    for case in golden::cases("metrics/indomain.json") {
        let classes = size(&case["classes"]);
        let values = match case.get("probs") {
            Some(values) => numbers(values),
            None => quotients(&case["prob_counts"], &case["denominator"]),
        };
        let labels = numbers(&case["labels"]);
        let rows = labels.len();
        let place = Place::new()
            .with("p.npy", fortran([rows, classes], &values, false))
            .with(
                "p.csv",
                csv(
                    Some(
                        &(0..classes)
                            .map(|i| format!("p{i}"))
                            .collect::<Vec<_>>()
                            .join(","),
                    ),
                    classes,
                    &values,
                ),
            )
            .with("y.npy", doubles(&[rows], &labels));
        for file in ["p.npy", "p.csv"] {
            let value = place.json(&["evaluate", "--probs", file, "--labels", "y.npy"]);
            let keys = [
                ("accuracy", "accuracy"),
                ("top5", "top5"),
                ("nll", "nll"),
                ("ece", "ece20"),
                ("brier", "brier"),
                ("auroc", "auroc_correct_vs_confidence"),
            ];
            assert_golden(&case, &value["in_domain"], &keys);
        }
    }
    for case in golden::cases("metrics/ood.json") {
        let [ins, outs] = ["in_counts", "out_counts"]
            .map(|counts| quotients(&case[counts], &case["denominator"]));
        let place = Place::new()
            .with("s.npy", doubles(&[ins.len()], &ins))
            .with("o.npy", doubles(&[outs.len()], &outs));
        let value = place.json("evaluate --scores s.npy --ood-scores o.npy");
        let keys = [
            ("auroc", "auroc"),
            ("aupr_in", "aupr_in"),
            ("aupr_out", "aupr_out"),
            ("fpr_at_95_tpr", "fpr95_standard"),
            ("mean_fpr_below_95_tpr", "fpr95_averaged"),
            ("detection_error", "detection_error"),
        ];
        assert_golden(&case, &value["ood"], &keys);
    }
}
