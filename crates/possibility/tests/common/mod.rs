//! Reading golden files and comparing with them.
//!
//! The folder is `MAXITIVE_GOLDEN`, or the project's own copy.
#![allow(dead_code)]

use std::path::PathBuf;

use serde_json::Value;

/// Both sides are closed forms: a few roundings apart.
pub const CLOSED_FORM: f64 = 1e-12;
/// One side is a root or an extremum.
pub const NUMERICAL: f64 = 1e-9;

/// The cases of `possibility/<name>.json`; fails if there are none.
pub fn cases(name: &str) -> Vec<Value> {
    let folder = std::env::var_os("MAXITIVE_GOLDEN").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")),
        PathBuf::from,
    );
    let path = folder.join("possibility").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()));
    let file: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{} is not JSON: {error}", path.display()));
    let cases = file["cases"]
        .as_array()
        .expect("a golden file has a list of cases")
        .clone();
    assert!(!cases.is_empty(), "{} has no cases", path.display());
    cases
}

/// A number, or one of the strings for non-finite ones.
pub fn number(value: &Value) -> f64 {
    match value {
        Value::Number(number) => number.as_f64().expect("golden numbers are doubles"),
        Value::String(text) => match text.as_str() {
            "inf" => f64::INFINITY,
            "-inf" => f64::NEG_INFINITY,
            "nan" => f64::NAN,
            other => panic!("not a number: {other}"),
        },
        other => panic!("not a number: {other}"),
    }
}

/// A list of numbers.
pub fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .expect("a list of numbers")
        .iter()
        .map(number)
        .collect()
}

/// A list of lists of numbers.
pub fn matrix(value: &Value) -> Vec<Vec<f64>> {
    value
        .as_array()
        .expect("a list of rows")
        .iter()
        .map(numbers)
        .collect()
}

/// Fails unless `max|got - want| ≤ tolerance · max(max|want|, floor)`; infinities must agree exactly.
#[track_caller]
pub fn assert_close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    let finite = |v: &f64| v.is_finite();
    let scale = want
        .iter()
        .copied()
        .filter(finite)
        .fold(0.0f64, |m, v| m.max(v.abs()));
    // zero compares absolutely
    let scale = if scale == 0.0 { 1.0 } else { scale };
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let agrees = if w.is_finite() {
            (g - w).abs() <= tolerance * scale
        } else {
            g == w
        };
        assert!(
            agrees,
            "{what}[{i}]: {g:e} instead of {w:e} (tolerance {tolerance:e})"
        );
    }
}

/// [`assert_close`] for one number.
#[track_caller]
pub fn assert_number(what: &str, got: f64, want: &Value, tolerance: f64) {
    assert_close(what, &[got], &[number(want)], tolerance);
}

/// [`assert_close`] with an absolute floor: for values that may be zero up to rounding.
#[track_caller]
pub fn assert_absolute(what: &str, got: f64, want: &Value, tolerance: f64) {
    let want = number(want);
    let agrees = if want.is_finite() {
        (got - want).abs() <= tolerance * want.abs().max(1.0)
    } else {
        got == want
    };
    assert!(
        agrees,
        "{what}: {got:e} instead of {want:e} (tolerance {tolerance:e})"
    );
}
