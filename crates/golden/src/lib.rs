//! Reads golden files and compares with them, and says how long a test may take; for tests only.
//!
//! Files come from the folder that `MAXITIVE_GOLDEN` names, or from the repository's `golden/` for
//! a part (the first name of a path: `optimizers`, `schedules.json`) that the folder lacks, and for
//! all parts if the variable is not set. What cannot be read, or holds no case, fails the test.
#![forbid(unsafe_code)]

pub mod optimizers;

use std::path::{Path, PathBuf};

pub use serde_json::Value;

/// How often or how large: `usual`, and `small` where `MAXITIVE_SHORT` is set, as `cargo xtask
/// sanitize` and `cargo xtask arm` do. There a test takes up to a hundred times as long, and what
/// counts is that the same code runs, not how many numbers go through it.
pub fn short(usual: usize, small: usize) -> usize {
    match std::env::var_os("MAXITIVE_SHORT") {
        Some(_) => small,
        None => usual,
    }
}

/// The cases of a file, for example `layers/conv2d.json`; there is at least one.
///
/// # Panics
/// If the file cannot be read, is no JSON, or has no cases.
pub fn cases(path: &str) -> Vec<Value> {
    let cases = list(&read(path)["cases"]).to_vec();
    assert!(!cases.is_empty(), "{path} has no cases");
    cases
}

/// A whole file.
///
/// # Panics
/// If the file cannot be read or is no JSON.
pub fn read(path: &str) -> Value {
    let set = std::env::var_os("MAXITIVE_GOLDEN").map(PathBuf::from);
    let file = folder(set, path).join(path);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// `set` if it has the part that `path` begins with, else the repository's own. A set that is no
/// folder is a mistake, and is kept so that reading from it fails.
fn folder(set: Option<PathBuf>, path: &str) -> PathBuf {
    let part = Path::new(path).components().next().expect("a path");
    set.filter(|set| !set.is_dir() || set.join(part).exists())
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")))
}

/// The items of a list.
///
/// # Panics
/// If the value is no list.
#[track_caller]
pub fn list(value: &Value) -> &[Value] {
    let list = value.as_array();
    list.unwrap_or_else(|| panic!("not a list: {value}"))
}

/// A number; those that JSON cannot say are the strings `inf`, `-inf` and `nan`.
///
/// # Panics
/// If the value is no number.
#[track_caller]
pub fn number(value: &Value) -> f64 {
    let number = match value {
        Value::String(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    number.unwrap_or_else(|| panic!("not a number: {value}"))
}

/// A number that may be undefined: `null`, absent or `nan`.
///
/// # Panics
/// If the value is anything else but a number.
#[track_caller]
pub fn optional(value: &Value) -> Option<f64> {
    (!value.is_null())
        .then(|| number(value))
        .filter(|x| !x.is_nan())
}

/// A whole number that counts or sizes something.
///
/// # Panics
/// If the value is no such number.
#[track_caller]
pub fn size(value: &Value) -> usize {
    let size = value.as_u64().and_then(|size| usize::try_from(size).ok());
    size.unwrap_or_else(|| panic!("not a size: {value}"))
}

/// All numbers of nested lists, or of a tensor `{"shape", "data"}`, row-major.
///
/// # Panics
/// If an entry is no number.
#[track_caller]
pub fn numbers(value: &Value) -> Vec<f64> {
    match value.get("data").unwrap_or(value) {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        single => vec![number(single)],
    }
}

/// Counts over their denominator.
///
/// # Panics
/// If one of them is no number.
#[track_caller]
pub fn quotients(counts: &Value, denominator: &Value) -> Vec<f64> {
    let denominator = number(denominator);
    let counts = numbers(counts).into_iter();
    counts.map(|count| count / denominator).collect()
}

/// [`numbers`] in single precision.
///
/// # Panics
/// If an entry is no number.
#[track_caller]
pub fn singles(value: &Value) -> Vec<f32> {
    numbers(value).into_iter().map(|x| x as f32).collect()
}

/// In double precision.
pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

/// The rows of a list of lists.
///
/// # Panics
/// If the value is no list, or an entry of a row no number.
#[track_caller]
pub fn matrix(value: &Value) -> Vec<Vec<f64>> {
    list(value).iter().map(numbers).collect()
}

/// `max |x|` over the finite numbers; 0 if there are none.
pub fn largest(numbers: &[f64]) -> f64 {
    let finite = numbers.iter().filter(|x| x.is_finite());
    finite.fold(0.0, |most, x| most.max(x.abs()))
}

/// Fails unless `|got - want| ≤ allowed` for every entry; entries that are not finite must agree
/// exactly.
///
/// # Panics
/// If an entry is further off, or the lengths differ.
#[track_caller]
pub fn assert_within(what: &str, got: &[f64], want: &[f64], allowed: f64) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let agrees = if w.is_finite() {
            (g - w).abs() <= allowed
        } else {
            g == w
        };
        assert!(
            agrees,
            "{what}[{i}]: {g:e} instead of {w:e} (allowed {allowed:e})"
        );
    }
}

/// [`assert_within`] `tolerance` times the largest entry of `want`: single entries may pass through
/// zero. Where all of them are zero, `tolerance` itself is allowed.
///
/// # Panics
/// As [`assert_within`].
#[track_caller]
pub fn assert_close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    let scale = largest(want);
    let scale = if scale == 0.0 { 1.0 } else { scale };
    assert_within(what, got, want, tolerance * scale);
}

/// [`assert_close`] for one number.
///
/// # Panics
/// As [`assert_within`].
#[track_caller]
pub fn assert_number(what: &str, got: f64, want: &Value, tolerance: f64) {
    assert_close(what, &[got], &[number(want)], tolerance);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_set_is_read_where_it_has_the_part() {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let own = folder(None, "schedules.json");
        assert!(own.join("schedules.json").is_file());
        assert_eq!(folder(Some(here.clone()), "src/lib.rs"), here);
        assert_eq!(folder(Some(here.clone()), "schedules.json"), own);
        let missing = here.join("missing");
        assert_eq!(folder(Some(missing.clone()), "schedules.json"), missing);
        assert!(!cases("schedules.json").is_empty());
    }

    #[test]
    fn every_form_of_a_number_is_read() {
        assert_eq!(number(&json!(1.5)), 1.5);
        assert_eq!(number(&json!("-inf")), f64::NEG_INFINITY);
        assert!(number(&json!("nan")).is_nan());
        assert_eq!(optional(&json!(null)), None);
        assert_eq!(optional(&json!("nan")), None);
        assert_eq!(optional(&json!("inf")), Some(f64::INFINITY));
        let tensor = json!({"shape": [2, 2], "data": [1, "inf", 3.0, 4]});
        assert_eq!(numbers(&tensor), [1.0, f64::INFINITY, 3.0, 4.0]);
        assert_eq!(numbers(&json!([[1, 2], [3]])), [1.0, 2.0, 3.0]);
        assert_eq!(matrix(&json!([[1, 2], [3]])), [vec![1.0, 2.0], vec![3.0]]);
        assert_eq!(numbers(&json!(7)), [7.0]);
        assert_eq!(quotients(&json!([1, 3]), &json!(4)), [0.25, 0.75]);
    }

    #[test]
    fn comparisons_fail_where_they_should() {
        let close = |got: &[f64], want: &[f64]| {
            std::panic::catch_unwind(|| assert_close("x", got, want, 1e-3)).is_ok()
        };
        assert!(close(&[1.001, 0.001], &[1.0, 0.0]));
        assert!(!close(&[1.002, 0.0], &[1.0, 0.0]));
        assert!(close(&[0.001], &[0.0]));
        assert!(close(&[f64::INFINITY, 1.0], &[f64::INFINITY, 1.0]));
        assert!(!close(&[1e300, 1.0], &[f64::INFINITY, 1.0]));
        assert!(!close(&[f64::NAN], &[1.0]));
        assert!(!close(&[1.0], &[1.0, 1.0]));
    }
}
