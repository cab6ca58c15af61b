//! Normal and finite possibility functions against golden numbers computed with 40 digits.

use crate::CLOSED_FORM;
use faer::Mat;
use golden::{Value, matrix, number, numbers};
use possibility::set::{Interval, RealSet};
use possibility::{Finite, Measure, Normal, Possibility, Region};

/// The cases of a file, whose schema is named, too.
fn cases(name: &str, schema: &str) -> Vec<Value> {
    let path = format!("possibility/{name}.json");
    assert_eq!(golden::read(&path)["schema"], schema);
    golden::cases(&path)
}

#[track_caller]
fn assert_close(what: &str, got: f64, want: &Value) {
    golden::assert_number(what, got, want, CLOSED_FORM);
}

fn normal(value: &Value) -> (Vec<f64>, Mat<f64>) {
    let mode = numbers(&value["mu"]);
    let rows = matrix(&value["cov"]);
    let covariance = Mat::from_fn(rows.len(), rows.len(), |i, j| rows[i][j]);
    (mode, covariance)
}

#[test]
fn golden_gaussian_max_relative_entropy() {
    for (k, case) in cases("gaussian_dmax", "possibility-gaussian-dmax")
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
    for case in &cases("normal_style", "possibility-normal-style") {
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
            let ends = [interval.lower(), interval.upper()];
            golden::assert_close(&cut.to_string(), &ends, &want, CLOSED_FORM);
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
    for case in &cases("finite_space", "possibility-finite") {
        let name = case["name"].as_str().unwrap();
        let logs: Vec<f64> = numbers(&case["loss"])
            .iter()
            .zip(numbers(&case["prior"]))
            .map(|(loss, prior)| prior.ln() - loss)
            .collect();
        let (posterior, log_consistency) = Finite::normalize_log(&logs).unwrap();
        assert_close(name, log_consistency, &case["log_z_max"]);
        let want = numbers(&case["posterior"]);
        golden::assert_close(name, &posterior.values(), &want, CLOSED_FORM);
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
