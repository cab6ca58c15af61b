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

#[test]
fn mistakes_about_valid_possibilities_are_named() {
    let place = Place::new()
        .with("d.csv", "x,y,w\n1,2,1\n2,4,1\n4,5,2\n")
        .with("one.csv", "x\n3\n");
    let cases: [(&str, &[&str]); 10] = [
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
