//! `maxitive infer --valid`: cuts that cover the truth at every sample size.

use crate::common::{Place, assert_close, number};
use crate::infer_data::refuse;

/// Quantiles from SciPy, and roots to the last digits.
const TOLERANCE: f64 = 1e-9;

#[test]
fn valid_cuts_of_normal_numbers_are_the_classical_intervals() {
    let place = Place::new().with("d.csv", "x\n4.1\n5.3\n3.9\n6.0\n5.1\n");
    let report = place.json(&[
        "infer", "normal", "d.csv", "--valid", "--alpha", "0.05", "--event", "mean > 4",
    ]);
    assert_eq!(report["valid"], true);
    // scipy.stats.t.interval(0.95, 4, mean, sem)
    let cut = &report["coefficients"][0]["alpha_cuts"][0];
    let data = [4.1, 5.3, 3.9, 6.0, 5.1];
    let mean = data.iter().sum::<f64>() / 5.0;
    let squares: f64 = data.iter().map(|x: &f64| (x - mean).powi(2)).sum();
    let half = 2.776_445_105_197_793 * (squares / 4.0 / 5.0).sqrt();
    assert!(
        (number(&cut["lower"]) - (mean - half)).abs() < TOLERANCE,
        "{cut}"
    );
    assert!(
        (number(&cut["upper"]) - (mean + half)).abs() < TOLERANCE,
        "{cut}"
    );
    let known = place.json(&[
        "infer",
        "normal",
        "d.csv",
        "--variance",
        "2",
        "--valid",
        "--alpha",
        "0.05",
    ]);
    let half = 1.959_963_984_540_054 * (2.0_f64 / 5.0).sqrt();
    assert!((number(&known["alpha_cuts"][0]["lower"]) - (mean - half)).abs() < TOLERANCE);
    // a regression on nothing but a constant is the same
    let linear = place.json(&[
        "infer",
        "linear",
        "d.csv",
        "--target",
        "x",
        "--valid",
        "--alpha",
        "0.05",
        "--event",
        "intercept > 4",
    ]);
    let same = &linear["coefficients"][0];
    assert_eq!(same["alpha_cuts"][0], *cut);
    assert_eq!(
        same["events"][0]["necessity"],
        report["coefficients"][0]["events"][0]["necessity"]
    );
    let text = place
        .run(&["infer", "linear", "d.csv", "--target", "x", "--valid"])
        .stdout;
    assert!(
        text.contains("covers the truth with probability at least"),
        "{text}"
    );
}

#[test]
fn valid_cuts_of_counts_are_enumerated() {
    let place = Place::new().with("d.csv", "ok\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n");
    let report = place.json(&[
        "infer",
        "bernoulli",
        "d.csv",
        "--valid",
        "--alpha",
        "0.05",
        "--event",
        "p < 0.6",
        "--plot",
        "p.svg",
    ]);
    // ten successes, or at most three, which agree less well with this p
    let p = number(&report["alpha_cuts"][0]["lower"]);
    let below: f64 = [1.0, 10.0, 45.0, 120.0]
        .iter()
        .zip(0..)
        .map(|(ways, k)| ways * p.powi(k) * (1.0 - p).powi(10 - k))
        .sum();
    assert!((p.powi(10) + below - 0.05).abs() < TOLERANCE, "{p}");
    assert_close(&report["alpha_cuts"][0]["upper"], 1.0);
    // at 0.6 the sums that agree no better are 10 and 0 to 1
    let tail = 0.6_f64.powi(10) + 0.4_f64.powi(10) + 10.0 * 0.6 * 0.4_f64.powi(9);
    let found = number(&report["events"][0]["possibility"]);
    assert!(found >= tail - 1e-12, "{found} {tail}");
}

/// A matrix as a CSV file with this header.
fn csv(names: &[&str], rows: &[Vec<f64>]) -> String {
    let line = |row: &Vec<f64>| row.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
    let rows: Vec<String> = rows.iter().map(line).collect();
    format!("{}\n{}\n", names.join(","), rows.join("\n"))
}

/// Numbers from SciPy (`golden/generate/gen_vectors.py`).
#[test]
fn golden_valid_possibilities_of_vectors() {
    for case in golden::cases("vectors/valid.json") {
        let names: Vec<&str> = golden::list(&case["names"])
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        let place = Place::new()
            .with("d.csv", csv(&names, &golden::matrix(&case["data"])))
            .with("c.csv", csv(&names, &golden::matrix(&case["covariance"])));
        let mut arguments = vec!["infer", "multivariate-normal", "d.csv", "--covariance"];
        arguments.extend(["c.csv", "--valid", "--alpha", "0.05"]);
        let events = golden::list(&case["events"]);
        for event in events {
            arguments.extend(["--event", event["event"].as_str().unwrap()]);
        }
        let report = place.json(&arguments);
        assert_eq!(report["valid"], true);
        let near = |found: &golden::Value, expected: f64| {
            let off = (number(found) - expected).abs();
            assert!(off <= TOLERANCE, "{found} {expected}");
        };
        for end in ["lower", "upper"] {
            let expected = golden::numbers(&case[end]);
            let found = report["alpha_cuts"][0][end].as_array().unwrap();
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                near(found, expected);
            }
        }
        for (found, expected) in report["events"].as_array().unwrap().iter().zip(events) {
            for key in ["possibility", "necessity"] {
                near(&found[key], golden::number(&expected[key]));
            }
        }
    }
}

/// One form however it is written: the degrees of freedom are those of independent forms.
#[test]
fn the_same_event_about_a_vector_has_one_possibility() {
    let place = Place::new()
        .with("d.csv", "a,b\n1,2\n0,1\n2,4\n")
        .with("c.csv", "a,b\n1,0.5\n0.5,2\n");
    let report = place.json(&[
        "infer",
        "multivariate-normal",
        "d.csv",
        "--covariance",
        "c.csv",
        "--valid",
        "--event",
        "a > 2",
        "--event",
        "2*a > 4 or a > 3",
        "--event",
        "a > 2 and b > 1",
        "--event",
        "a > 2 and (b > 1 or a + b > 3)",
        "--event",
        "a > 1 and a < 0",
    ]);
    let found: Vec<f64> = (0..5)
        .map(|i| number(&report["events"][i]["possibility"]))
        .collect();
    // √3 standard deviations, in one dimension and in two
    assert!(
        (found[0] - 0.083_264_516_663_550_4).abs() < TOLERANCE,
        "{found:?}"
    );
    assert!((found[0] - found[1]).abs() < TOLERANCE, "{found:?}");
    assert!((found[2] - (-1.5_f64).exp()).abs() < TOLERANCE, "{found:?}");
    assert!((found[2] - found[3]).abs() < TOLERANCE, "{found:?}");
    assert_eq!(found[4], 0.0);
    let curve = place.run(&[
        "infer",
        "multivariate-normal",
        "d.csv",
        "--covariance",
        "c.csv",
        "--valid",
        "--export",
        "curve.csv",
        "--plot",
        "p.svg",
        "--forest",
        "f.svg",
    ]);
    assert_eq!(curve.code, Some(0), "{}", curve.stderr);
    assert!(
        curve
            .stdout
            .contains("covers the truth with probability at least")
    );
}

#[test]
fn mistakes_about_valid_possibilities_are_named() {
    let place = Place::new()
        .with("d.csv", "x,y,w\n1,2,1\n2,4,1\n4,5,2\n")
        .with("c.csv", "x,y\n1,0\n0,1\n");
    let cases: [(&str, &[&str]); 13] = [
        (
            "poisson d.csv --column x --valid --prior-mean 1 --prior-weight 1",
            &["--valid", "a prior"],
        ),
        (
            "poisson d.csv --column x --valid --by y",
            &["--valid", "--by"],
        ),
        (
            "poisson d.csv --column x --valid --weight w",
            &["--valid", "--weight"],
        ),
        (
            "poisson d.csv --column x --valid --parameter natural",
            &["--valid", "--parameter natural"],
        ),
        (
            "normal d.csv --column x --valid --prior-mean 1 --prior-weight 1",
            &["--valid", "a prior"],
        ),
        (
            "linear d.csv --target x --valid --prior-precision 1",
            &["--valid", "a prior"],
        ),
        (
            "linear d.csv --target x --valid --intercept-precision 1",
            &["--valid", "a prior"],
        ),
        (
            "multivariate-normal d.csv --covariance c.csv --valid --prior-mean 0,0 --prior-weight 1",
            &["--valid", "a prior"],
        ),
        (
            "multivariate-normal d.csv --covariance c.csv --valid --parameter natural",
            &["--valid", "--parameter natural"],
        ),
        (
            "multivariate-normal d.csv --covariance c.csv --valid --weight w",
            &["--valid", "--weight"],
        ),
        ("logistic d.csv --target x --valid", &["--valid"]),
        ("categorical d.csv --column x --valid", &["--valid"]),
        (
            "predict linear d.csv --target x --new d.csv --valid",
            &["--valid"],
        ),
    ];
    for (arguments, words) in cases {
        refuse(&place, arguments, words);
    }
}
