//! Normal and finite possibility functions against golden numbers computed with 40 digits.
//! The folder `MAXITIVE_GOLDEN` replaces the one that comes with the repository.

// a test may unwrap, and helpers of tests are tests
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use faer::Mat;
use possibility::set::{Interval, RealSet};
use possibility::{Finite, Measure, Normal, Possibility, Region};
use serde_json::Value;

/// Both sides are closed forms; the golden one is rounded once.
const CLOSED: f64 = 1e-12;

fn cases(name: &str, schema: &str) -> Vec<Value> {
    let root = std::env::var_os("MAXITIVE_GOLDEN").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")),
        PathBuf::from,
    );
    let path = root.join("possibility").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["schema"], schema);
    let cases = file["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{path:?} holds no case");
    cases
}

/// A number, or one of the strings for what is not finite.
fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some("inf") => f64::INFINITY,
        Some("-inf") => f64::NEG_INFINITY,
        Some(other) => panic!("{other} is no number"),
        None => value.as_f64().unwrap_or_else(|| panic!("{value}")),
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

/// `max |got - want| / max |want|`, absolute where `want` is zero; infinities must agree.
fn error(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let mut difference = 0.0f64;
    let mut scale = 0.0f64;
    for (&g, &w) in got.iter().zip(want) {
        if g == w {
            scale = if w.is_finite() {
                scale.max(w.abs())
            } else {
                scale
            };
        } else {
            // NaN or an infinity on one side only makes the error infinite
            let gap = (g - w).abs();
            difference = difference.max(if gap.is_nan() { f64::INFINITY } else { gap });
            scale = scale.max(w.abs());
        }
    }
    if difference == 0.0 {
        0.0
    } else if scale == 0.0 || difference.is_infinite() {
        difference
    } else {
        difference / scale
    }
}

#[track_caller]
fn assert_close(what: &str, got: f64, want: &Value) {
    let want = number(want);
    let error = error(&[got], &[want]);
    assert!(
        error <= CLOSED,
        "{what}: {got}, golden {want}, error {error:e}"
    );
}

fn normal(value: &Value) -> (Vec<f64>, Mat<f64>) {
    let mode = numbers(&value["mu"]);
    let rows: Vec<Vec<f64>> = value["cov"]
        .as_array()
        .unwrap()
        .iter()
        .map(numbers)
        .collect();
    let covariance = Mat::from_fn(rows.len(), rows.len(), |i, j| rows[i][j]);
    (mode, covariance)
}

#[test]
fn golden_gaussian_max_relative_entropy() {
    for (k, case) in cases("gaussian_dmax.json", "possibility-gaussian-dmax")
        .iter()
        .enumerate()
    {
        let (g, f) = (normal(&case["g"]), normal(&case["f"]));
        let g = Normal::new(g.0, g.1).unwrap();
        let f = Normal::new(f.0, f.1).unwrap();
        let value = g.max_relative_entropy(&f).unwrap();
        assert_close(&format!("case {k}"), value, &case["dmax_g_to_f"]);
        assert_eq!(g.precedes(&f).unwrap(), number(&case["dmax_g_to_f"]) == 0.0);
    }
}

#[test]
fn golden_normal_style() {
    for case in &cases("normal_style.json", "possibility-normal-style") {
        let (mode, sigma) = (number(&case["mu"]), number(&case["sigma"]));
        let f = Normal::univariate(mode, sigma * sigma).unwrap();
        for point in case["points"].as_array().unwrap() {
            let theta = number(&point["theta"]);
            assert_close(
                "possibility",
                f.possibility(&[theta]),
                &point["possibility"],
            );
        }
        for cut in case["alpha_cuts"].as_array().unwrap() {
            let interval = f.alpha_interval(number(&cut["alpha"])).unwrap();
            let want = [number(&cut["low"]), number(&cut["high"])];
            assert!(
                error(&[interval.lower(), interval.upper()], &want) <= CLOSED,
                "{cut}"
            );
        }
        for event in case["intervals"].as_array().unwrap() {
            let ends = numbers(&event["interval"]);
            let interval = Interval::closed(ends[0], ends[1]).unwrap();
            let (set, region) = (RealSet::from(interval), Region::Box(vec![interval]));
            for (possibility, necessity) in [
                (f.possibility_of(&set), f.necessity_of(&set)),
                (f.possibility_of(&region), f.necessity_of(&region)),
            ] {
                assert_close("possibility", possibility.unwrap(), &event["possibility"]);
                assert_close("necessity", necessity.unwrap(), &event["necessity"]);
            }
        }
    }
}

#[test]
fn golden_finite_space() {
    for case in &cases("finite_space.json", "possibility-finite") {
        let name = case["name"].as_str().unwrap();
        let logs: Vec<f64> = numbers(&case["loss"])
            .iter()
            .zip(numbers(&case["prior"]))
            .map(|(loss, prior)| prior.ln() - loss)
            .collect();
        let (posterior, log_consistency) = Finite::normalize_log(&logs).unwrap();
        assert_close(name, log_consistency, &case["log_z_max"]);
        let want = numbers(&case["posterior"]);
        assert!(error(&posterior.values(), &want) <= CLOSED, "{name}");
        let candidates = case["candidates"].as_array().unwrap();
        assert!(!candidates.is_empty(), "{name} has no candidate");
        for candidate in candidates {
            let what = format!("{name} {}", candidate["kind"]);
            let g = Finite::from_values(&numbers(&candidate["g"])).unwrap();
            let there = g.max_relative_entropy(&posterior).unwrap();
            let back = posterior.max_relative_entropy(&g).unwrap();
            assert_close(&what, there, &candidate["dmax_g_to_posterior"]);
            assert_close(&what, back, &candidate["dmax_posterior_to_g"]);
            let below = g.precedes(&posterior).unwrap();
            let above = posterior.precedes(&g).unwrap();
            assert_eq!(candidate["g_below_posterior"], below, "{what}");
            assert_eq!(candidate["g_above_posterior"], above, "{what}");
        }
        let event: Vec<usize> = numbers(&case["event"])
            .iter()
            .map(|&i| i as usize)
            .collect();
        let possibility = posterior.possibility_of(&event[..]).unwrap();
        let necessity = posterior.necessity_of(&event[..]).unwrap();
        assert_close(name, possibility, &case["event_possibility"]);
        assert_close(name, necessity, &case["event_necessity"]);
    }
}
