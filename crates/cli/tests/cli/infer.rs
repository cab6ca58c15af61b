//! Reports of `maxitive infer` against values worked by hand.

use std::f64::consts::PI;

use crate::common::{Place, assert_close, number, split};
use serde_json::Value;

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn bernoulli_report_has_the_promised_shape_and_values() {
    let place = Place::new().with("d.csv", "id,ok\n1,1\n2,yes\n3,TRUE\n4,no\n");
    let report = place.json(
        "infer bernoulli d.csv --column ok --event 'p > 0.5' --event 'x = 0.5' \
         --alpha 0.25",
    );
    assert_eq!(
        keys(&report),
        split("family n parameter mode precision lambda nu alpha_cuts events log_consistency")
    );
    assert_eq!(report["family"], "bernoulli");
    assert_eq!(report["n"], 4);
    assert_eq!(report["parameter"], "p");
    assert_close(&report["mode"], 0.75);
    assert_close(&report["lambda"], 0.75);
    assert_close(&report["nu"], 4.0);
    assert_close(&report["precision"], 4.0 / (0.75 * 0.25));
    assert_close(
        &report["log_consistency"],
        3.0 * 0.75_f64.ln() + 0.25_f64.ln(),
    );
    let value = |p: f64| p.powi(3) * (1.0 - p) / (0.75_f64.powi(3) * 0.25);
    let cuts = report["alpha_cuts"].as_array().unwrap();
    assert_eq!(cuts.len(), 1);
    assert_eq!(keys(&cuts[0]), ["alpha", "lower", "upper"]);
    assert_close(&cuts[0]["alpha"], 0.25);
    let (lower, upper) = (number(&cuts[0]["lower"]), number(&cuts[0]["upper"]));
    assert!(lower < 0.75 && 0.75 < upper);
    assert!((value(lower) - 0.25).abs() < 1e-12 && (value(upper) - 0.25).abs() < 1e-12);
    let events = report["events"].as_array().unwrap();
    assert_eq!(keys(&events[0]), ["event", "possibility", "necessity"]);
    assert_eq!(events[0]["event"], "p > 0.5");
    assert_close(&events[0]["possibility"], 1.0);
    assert_close(&events[0]["necessity"], 1.0 - value(0.5));
    assert_close(&events[1]["possibility"], value(0.5));
    assert_close(&events[1]["necessity"], 0.0);
}

#[test]
fn a_prior_is_worth_its_weight_in_observations() {
    let place = Place::new().with("d.csv", "ok\n1\n1\n1\n0\n");
    let report = place.json("infer bernoulli d.csv --prior-mean 0.5 --prior-weight 2");
    assert_close(&report["lambda"], 4.0 / 6.0);
    assert_close(&report["nu"], 6.0);
    // sup p⁴(1-p)² / (1/4), at p = 2/3
    assert_close(&report["log_consistency"], (64.0_f64 / 729.0).ln());
    let levels: Vec<f64> = report["alpha_cuts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cut| number(&cut["alpha"]))
        .collect();
    assert_eq!(levels, [0.05, 0.1, 0.5]);
}

#[test]
fn poisson_values() {
    let place = Place::new().with("d.csv", "# calls\nk\n2\n3\n7\n");
    let report = place.json("infer poisson d.csv --event 'rate <= 3'");
    assert_eq!(report["parameter"], "rate");
    assert_close(&report["mode"], 4.0);
    assert_close(&report["precision"], 0.75);
    let factorials: f64 = 2.0 * 6.0 * 5040.0;
    assert_close(
        &report["log_consistency"],
        12.0 * 4.0_f64.ln() - 12.0 - factorials.ln(),
    );
    let log = -3.0 * (4.0 * (4.0_f64 / 3.0).ln() - 1.0);
    assert_close(&report["events"][0]["possibility"], log.exp());
    let natural = place.json("infer poisson d.csv --parameter natural");
    assert_eq!(natural["parameter"], "theta");
    assert_close(&natural["mode"], 4.0_f64.ln());
    assert_close(&natural["precision"], 12.0);
    assert_close(&natural["lambda"], 4.0);
}

#[test]
fn exponential_and_gamma_values() {
    let place = Place::new().with("d.csv", "t\n1\n2\n6\n");
    let report = place.json("infer exponential d.csv --event 'mean > 6'");
    assert_eq!(report["parameter"], "mean");
    assert_close(&report["mode"], 3.0);
    assert_close(&report["precision"], 1.0 / 3.0);
    assert_close(&report["log_consistency"], -3.0 * 3.0_f64.ln() - 3.0);
    let log = -3.0 * (2.0_f64.ln() + 0.5 - 1.0);
    assert_close(&report["events"][0]["possibility"], log.exp());

    let report = place.json("infer gamma d.csv --shape 2");
    assert_close(&report["mode"], 3.0);
    assert_close(&report["precision"], 6.0 / 9.0);
    let log = 12.0_f64.ln() - 6.0 - 6.0 * 1.5_f64.ln();
    assert_close(&report["log_consistency"], log);
    let natural = place.json("infer gamma d.csv --shape 2 --parameter natural");
    assert_close(&natural["mode"], -2.0 / 3.0);
    assert_close(&natural["precision"], 13.5);
}

#[test]
fn normal_values() {
    let place = Place::new().with("d.csv", "x\n1\n2\n6\n");
    let report = place.json("infer normal d.csv --variance 2 --alpha 0.5 --event '2 <= mean <= 5'");
    assert_close(&report["mode"], 3.0);
    assert_close(&report["precision"], 1.5);
    let reach = (2.0 * 2.0_f64.ln() / 1.5).sqrt();
    assert_close(&report["alpha_cuts"][0]["lower"], 3.0 - reach);
    assert_close(&report["alpha_cuts"][0]["upper"], 3.0 + reach);
    assert_close(
        &report["log_consistency"],
        -1.5 * (4.0 * PI).ln() - 14.0 / 4.0,
    );
    assert_close(&report["events"][0]["necessity"], 1.0 - (-0.75_f64).exp());
    let natural = place.json(
        "infer normal d.csv --variance 2 --parameter natural --prior-mean -1 \
         --prior-weight 1",
    );
    assert_close(&natural["lambda"], 2.0);
    assert_close(&natural["mode"], 1.0);
    assert_close(&natural["precision"], 8.0);
}

#[test]
fn categorical_values() {
    let place = Place::new().with("d.csv", "color\nred\n blue \nred\ngreen\n");
    let report =
        place.json("infer categorical d.csv --event 'p[red] < 0.25' --event 'blue > 0.25'");
    assert_eq!(
        report["classes"],
        serde_json::json!(["blue", "green", "red"])
    );
    assert_eq!(report["parameter"], "p");
    for (i, share) in [0.25, 0.25, 0.5].into_iter().enumerate() {
        assert_close(&report["mode"][i], share);
        assert_close(&report["lambda"][i], share);
        let cut = &report["alpha_cuts"][2];
        assert!(number(&cut["lower"][i]) < share && share < number(&cut["upper"][i]));
    }
    // ν(diag(1/p) + 1/p_last) on the free classes
    for (i, row) in [[24.0, 8.0], [8.0, 24.0]].into_iter().enumerate() {
        for (j, entry) in row.into_iter().enumerate() {
            assert_close(&report["precision"][i][j], entry);
        }
    }
    assert_close(
        &report["log_consistency"],
        2.0 * 0.5_f64.ln() + 2.0 * 0.25_f64.ln(),
    );
    assert_close(&report["events"][0]["possibility"], 0.5625);
    assert_close(&report["events"][1]["possibility"], 1.0);
    assert_close(&report["events"][1]["necessity"], 0.0);

    let report = place.json(
        "infer categorical d.csv --classes 'red, green, blue, black' \
         --parameter natural --prior-mean 0.1,0.2,0.3,0.4 --prior-weight 10",
    );
    assert_eq!(report["mode"].as_array().unwrap().len(), 3);
    assert_eq!(report["lambda"].as_array().unwrap().len(), 4);
    assert_close(&report["lambda"][0], 3.0 / 14.0);
    assert_close(&report["mode"][2], (4.0_f64 / 4.0).ln());
    assert_close(&report["nu"], 14.0);
}

#[test]
fn classes_that_are_numbers_are_sorted_as_numbers() {
    let place = Place::new().with("d.csv", "c\n10\n9\n-1\n9\n");
    let report = place.json("infer categorical d.csv --event 'p[9] > 0.1'");
    assert_eq!(report["classes"], serde_json::json!(["-1", "9", "10"]));
    assert_close(&report["events"][0]["possibility"], 1.0);
}

#[test]
fn multivariate_normal_values() {
    let place = Place::new()
        .with("d.csv", "b,skip,a\n0,x,1\n2,y,3\n")
        .with("cov.csv", "a,b\n2,1\n1,3\n");
    let report = place.json(
        "infer multivariate-normal d.csv --columns a,b --covariance cov.csv \
         --event 'a > 3' --event 'mean[a] - mean[b] >= 2' --event 'a > 1 and b < 10'",
    );
    assert_eq!(report["columns"], serde_json::json!(["a", "b"]));
    for (i, mean) in [2.0, 1.0].into_iter().enumerate() {
        assert_close(&report["mode"][i], mean);
        assert_close(&report["lambda"][i], mean);
    }
    for (i, row) in [[1.2, -0.4], [-0.4, 0.8]].into_iter().enumerate() {
        for (j, entry) in row.into_iter().enumerate() {
            assert_close(&report["precision"][i][j], entry);
        }
    }
    let log = -2.0 * (2.0 * PI).ln() - 5.0_f64.ln() - 0.6;
    assert_close(&report["log_consistency"], log);
    assert_close(&report["events"][0]["possibility"], (-0.5_f64).exp());
    // a - b has mode 1 and variance (2 + 3 - 2)/2
    assert_close(&report["events"][1]["possibility"], (-1.0_f64 / 3.0).exp());
    assert_close(&report["events"][2]["necessity"], 1.0 - (-0.5_f64).exp());
    let reach = (2.0 * 2.0_f64.ln()).sqrt();
    assert_close(&report["alpha_cuts"][2]["upper"][0], 2.0 + reach);
}

#[test]
fn a_covariance_without_header_is_in_the_order_of_the_columns() {
    let place = Place::new()
        .with("d.csv", "b,a\n0,1\n2,3\n")
        .with("named.csv", "b,a\n3,1\n1,2\n")
        .with("plain.csv", "# covariance of a and b\n2,1\n1,3\n");
    let report = |covariance: &str| {
        let command = "infer multivariate-normal d.csv --columns a,b --covariance";
        place.json(&format!("{command} {covariance}"))
    };
    assert_eq!(report("plain.csv"), report("named.csv"));
}

#[test]
fn logistic_values_solve_their_equations() {
    let place = Place::new().with("d.csv", "x,y\n1,yes\n");
    let report = place.json(
        "infer logistic d.csv --target y --no-intercept --prior-precision 0.5 \
         --threads 1 --alpha 0.1",
    );
    assert_eq!(report["family"], "logistic");
    assert_eq!(report["n"], 1);
    let coefficients = report["coefficients"].as_array().unwrap();
    assert_eq!(coefficients.len(), 1);
    let slope = &coefficients[0];
    let names = split("name mode alpha_cuts events certified_to laplace upper lower");
    assert_eq!(keys(slope), names);
    assert_eq!(slope["name"], "x");
    let w = number(&slope["mode"]);
    let sigma = 1.0 / (1.0 + (-w).exp());
    assert!(
        (0.5 * w - (1.0 - sigma)).abs() < 1e-12,
        "the gradient vanishes at {w}"
    );
    // in one dimension the profile is the posterior itself
    let log_posterior = |w: f64| -((-w).exp().ln_1p() + 0.25 * w * w);
    let at_zero = (log_posterior(0.0) - log_posterior(w)).exp();
    let events = slope["events"].as_array().unwrap();
    let names: Vec<&str> = events
        .iter()
        .map(|e| e["event"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["x > 0", "x < 0", "x = 0"]);
    assert_close(&events[0]["necessity"], 1.0 - at_zero);
    assert_close(&events[1]["possibility"], at_zero);
    assert_close(&events[2]["possibility"], at_zero);
    for end in ["lower", "upper"] {
        let end = number(&slope["alpha_cuts"][0][end]);
        let level = (log_posterior(end) - log_posterior(w)).exp();
        assert!((level - 0.1).abs() < 1e-9, "{level} at {end}");
    }
    assert!(number(&slope["certified_to"]) < 1e-12);
    let laplace = &slope["laplace"];
    assert_eq!(keys(laplace), ["precision", "alpha_cuts", "events"]);
    assert_close(&laplace["precision"], 0.5 + sigma * (1.0 - sigma));
    for (bound, order) in [("upper", -1.0), ("lower", 1.0)] {
        assert_eq!(keys(&slope[bound]), ["precision", "alpha_cuts"]);
        let off = number(&slope[bound]["alpha_cuts"][0]["lower"])
            - number(&slope["alpha_cuts"][0]["lower"]);
        assert!(order * off > 0.0, "{bound} by {off}");
    }
    assert_close(&report["bounds_hold_above"], 0.1);
    assert_close(&report["log_consistency"], sigma.ln() - 0.25 * w * w);
}

/// The data of Spector and Mazzeo (1980): GPA, TUCE, PSI, GRADE.
const SPECTOR: &str = "\
2.66,20,0,0 2.89,22,0,0 3.28,24,0,0 2.92,12,0,0 4.00,21,0,1 2.86,17,0,0 2.76,17,0,0 2.87,21,0,0 \
3.03,25,0,0 3.92,29,0,1 2.63,20,0,0 3.32,23,0,0 3.57,23,0,0 3.26,25,0,1 3.53,26,0,0 2.74,19,0,0 \
2.75,25,0,0 2.83,19,0,0 3.12,23,1,0 3.16,25,1,1 2.06,22,1,0 3.62,28,1,1 2.89,14,1,0 3.51,26,1,0 \
3.54,24,1,1 2.83,27,1,1 3.39,17,1,1 2.67,24,1,0 3.65,21,1,1 4.00,23,1,1 3.10,21,1,0 2.39,19,1,1";

#[test]
fn logistic_profiles_are_exact_where_laplace_is_far_off() {
    let spector = format!("GPA,TUCE,PSI,GRADE\n{}\n", SPECTOR.replace(' ', "\n"));
    let place = Place::new()
        .with("separated.csv", "x,y\n1,0\n2,0\n3,1\n4,1\n")
        .with("spector.csv", spector);
    let separated = "infer logistic separated.csv --target y --prior-precision 1e-6";
    let grades = "infer logistic spector.csv --target GRADE --prior-precision 1e-4";
    for (command, event, digits) in [
        (separated, "x > 0", "0.937"),
        (grades, "GPA < 0", "0.0336544"),
    ] {
        let stdout = place.run(command).stdout;
        let line = stdout.lines().find(|line| line.starts_with(event));
        assert!(line.unwrap().contains(digits), "{stdout}");
    }
    let outcome = place.run(grades);
    outcome.stdout_has("certified to");
    // one coefficient against another, and a prediction
    let events = "--event 'GPA > PSI' --event 'intercept + 3*GPA + 20*TUCE < 0'";
    let report = place.json(&format!("{grades} {events}"));
    let events = report["events"].as_array().unwrap();
    assert_eq!(events.len(), 2);
    let credence = |i: usize| {
        let [possibility, necessity] = ["possibility", "necessity"].map(|key| &events[i][key]);
        (number(possibility), number(necessity))
    };
    assert!(credence(0).0 == 1.0 && credence(0).1 > 0.0 && credence(0).1 < 0.5);
    assert!(credence(1).0 == 1.0 && credence(1).1 > 0.9);
}

#[test]
fn a_coverage_asks_for_its_cut() {
    // relative likelihood of the mean of numbers of known variance: the cut is the z interval
    let place = Place::new().with("d.csv", "x\n1\n2\n6\n");
    let command = "infer normal d.csv --variance 3 --coverage 0.95";
    let cut = &place.json(command)["alpha_cuts"][0];
    assert_close(&cut["upper"], 3.0 + 1.959_963_984_540_054);
    assert_close(
        &cut["alpha"],
        (-0.5 * 1.959_963_984_540_054_f64.powi(2)).exp(),
    );
    place.run(command).stdout_has("a 0.1465-cut 95.0 %");
}

#[test]
fn standardizing_makes_units_irrelevant() {
    let rows = [
        (1.2, 7.0, 0),
        (3.4, 2.0, 1),
        (2.2, 9.0, 0),
        (5.0, 4.0, 1),
        (0.4, 3.0, 0),
        (4.1, 8.0, 1),
    ];
    let table = |unit: f64| {
        let rows = rows.map(|(a, b, y)| format!("{},{b},{y}\n", unit * a));
        format!("a,b,y\n{}", rows.concat())
    };
    let place = Place::new()
        .with("m.csv", table(1.0))
        .with("mm.csv", table(1000.0));
    let slope = |file: &str| {
        let settings = "--target y --standardize --intercept-precision 0.3";
        let report = place.json(&format!("infer logistic {file} {settings}"));
        report["coefficients"][1].clone()
    };
    let (m, mm) = (slope("m.csv"), slope("mm.csv"));
    let ratio = number(&m["alpha_cuts"][0]["upper"]) / number(&mm["alpha_cuts"][0]["upper"]);
    assert!((ratio / 1000.0 - 1.0).abs() < 1e-9, "{ratio}");
    assert_close(
        &mm["events"][0]["necessity"],
        number(&m["events"][0]["necessity"]),
    );
}

#[test]
fn linear_regression_has_its_closed_forms() {
    // y = 1, 2, 6 without covariates: mean 3, squared deviations 14, and 41 around 0
    let place = Place::new().with("d.csv", "y\n1\n2\n6\n");
    let at_zero = (41.0f64 / 14.0).powf(-1.5);
    for command in ["infer normal d.csv", "infer linear d.csv --target y"] {
        // the second is 28/3
        let events = "--event 'coefficient > 0' --event 'variance < 9.333333333333334'";
        let report = place.json(&format!("{command} {events}"));
        let mean = &report["coefficients"][0];
        assert_close(&mean["mode"], 3.0);
        assert_close(&mean["events"][0]["necessity"], 1.0 - at_zero);
        assert_close(&report["variance"]["mode"], 14.0 / 3.0);
        let twice = (0.5 * 0.5f64.exp()).powf(1.5);
        assert_close(&report["variance"]["events"][0]["necessity"], 1.0 - twice);
    }
    let known = place.json("infer linear d.csv --target y --variance 2");
    // n/variance times the squared distance
    let event = &known["coefficients"][0]["events"][1];
    assert_close(&event["possibility"], (-0.5 * 9.0 * 3.0 / 2.0f64).exp());
    assert!(known.get("variance").is_none());
}

#[test]
fn poisson_regression_on_a_group_is_the_rate_of_the_group() {
    // rates 2 and 6: with one indicator the coefficients are log 2 and log 3
    let place = Place::new().with("d.csv", "group,calls\n0,1\n0,3\n1,7\n1,5\n");
    let report = place.json("infer poisson-regression d.csv --target calls");
    assert_eq!(report["family"], "poisson-regression");
    let mode = |i: usize| number(&report["coefficients"][i]["mode"]);
    assert!((mode(0) - 2f64.ln()).abs() < 1e-12 && (mode(1) - 3f64.ln()).abs() < 1e-12);
    // both rates equal, 4 each: log likelihood ratio of the two fits
    let log = |x: f64, rate: f64| x * rate.ln() - 2.0 * rate;
    let equal = (log(4.0, 4.0) + log(12.0, 4.0) - log(4.0, 2.0) - log(12.0, 6.0)).exp();
    let event = &report["coefficients"][1]["events"][2];
    assert_eq!(event["event"], "group = 0");
    assert_close(&event["possibility"], equal);
}

#[test]
fn logistic_takes_all_other_columns_and_asks_events_of_those_they_name() {
    let place = Place::new().with("d.csv", "a,y,b\n1,1,0\n-1,0,2\n0.5,0,1\n2,1,-1\n-2,1,0\n");
    let report = place.json(
        "infer logistic d.csv --target y --event 'a > 0.1' \
         --event 'coefficient in [-1, 1]'",
    );
    let coefficients = report["coefficients"].as_array().unwrap();
    let names: Vec<&str> = coefficients
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["intercept", "a", "b"]);
    let asked = |i: usize| coefficients[i]["events"].as_array().unwrap().len();
    assert_eq!([asked(0), asked(1), asked(2)], [1, 2, 1]);
    for coefficient in coefficients {
        let precision = |view: &str| number(&coefficient[view]["precision"]);
        assert!(
            precision("upper") <= precision("laplace")
                && precision("laplace") <= precision("lower")
        );
    }
    let chosen = place.json("infer logistic d.csv --target y --covariates b");
    assert_eq!(chosen["coefficients"].as_array().unwrap().len(), 2);
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let rows: String = (0..500)
        .map(|i| format!("{},{}\n", (f64::from(i) * 0.7).sin(), u8::from(i % 3 == 0)))
        .collect();
    let place = Place::new().with("d.csv", format!("x,y\n{rows}"));
    let run = |threads: &str| {
        place.json(&format!(
            "infer logistic d.csv --target y --threads {threads}"
        ))
    };
    assert_eq!(run("1"), run("3"));
}

/// A possibility function needs no Jacobian: an event has the same possibility in both parameters,
/// and the cuts are images of each other.
#[test]
fn both_parameters_agree() {
    type Link = fn(f64) -> f64;
    let logit: Link = |p| (p / (1.0 - p)).ln();
    let times = "t\n0.5\n0.3\n0.7\n";
    let cases: [(&str, &str, Link); 5] = [
        ("bernoulli d.csv", "ok\n1\n0\n1\n1\n0\n1\n", logit),
        ("poisson d.csv", "k\n2\n3\n7\n0\n", f64::ln),
        ("exponential d.csv", times, |mean| -1.0 / mean),
        ("gamma d.csv --shape 2.5", times, |mean| -2.5 / mean),
        (
            "normal d.csv --variance 1.7",
            "x\n0.5\n-0.3\n0.7\n",
            |mean| mean / 1.7,
        ),
    ];
    for (family, data, link) in cases {
        let place = Place::new().with("d.csv", data);
        let run = |parameter: &str, map: Link| {
            let (a, b) = (map(0.4), map(0.6));
            place.json(&format!(
                "infer {family} --parameter {parameter} --prior-mean 0.45 --prior-weight 1.5 \
                 --event 'x > {a}' --event 'x in ({a}, {b}]' --event 'x < {a} or x > {b}' \
                 --event 'not (x = {b})'"
            ))
        };
        let (mean, natural) = (run("mean", |x| x), run("natural", link));
        let relative = |found: &Value, expected: f64| {
            let (found, scale) = (number(found), expected.abs().max(1.0));
            assert!(
                (found - expected).abs() < 1e-9 * scale,
                "{family:?}: {found} {expected}"
            );
        };
        for i in 0..4 {
            for key in ["possibility", "necessity"] {
                relative(&natural["events"][i][key], number(&mean["events"][i][key]));
            }
        }
        for i in 0..3 {
            for end in ["lower", "upper"] {
                let expected = link(number(&mean["alpha_cuts"][i][end]));
                relative(&natural["alpha_cuts"][i][end], expected);
            }
        }
        relative(&natural["mode"], link(number(&mean["mode"])));
        relative(
            &natural["log_consistency"],
            number(&mean["log_consistency"]),
        );
    }
}

#[test]
fn boundary_data_have_one_sided_cuts_and_infinities_are_strings() {
    let place = Place::new().with("d.csv", "ok\n1\n1\n1\n");
    let report = place.json("infer bernoulli d.csv --alpha 0.125 --event 'p <= 0.5'");
    assert_close(&report["mode"], 1.0);
    assert_close(&report["alpha_cuts"][0]["lower"], 0.5);
    assert_close(&report["alpha_cuts"][0]["upper"], 1.0);
    assert_close(&report["events"][0]["possibility"], 0.125);
    assert_eq!(report["precision"], Value::Null);
    assert_close(&report["log_consistency"], 0.0);
    let natural = place.json("infer bernoulli d.csv --parameter natural --alpha 0.125");
    assert_eq!(natural["mode"], "inf");
    assert_eq!(natural["alpha_cuts"][0]["upper"], "inf");
    assert_close(&natural["alpha_cuts"][0]["lower"], 0.0);
}

#[test]
fn the_table_for_people_shows_the_same_numbers() {
    let place = Place::new().with("d.csv", "ok\n1\n1\n1\n0\n");
    let outcome = place.succeed("infer bernoulli d.csv --event 'p > 0.5' --timings");
    // one blank between the words of a line: alignment is tested elsewhere
    let lines: Vec<String> = outcome
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for line in [
        "bernoulli: 4 observations from d.csv, column \"ok\"",
        "parameter p",
        "mode 0.75",
        "precision 21.3333",
        "log consistency -2.24934",
        "alpha-cut lower upper",
        "event possibility necessity",
        "p > 0.5 1 0.407407",
    ] {
        assert!(
            lines.iter().any(|found| found == line),
            "{line}\n{}",
            outcome.stdout
        );
    }
    outcome.stdout_has("Possibility says");
    assert!(outcome.stderr.starts_with("reading ") && outcome.stderr.contains(" s, fitting "));
}

#[test]
fn tables_of_vectors_and_of_logistic_regression_name_every_coordinate() {
    let place = Place::new()
        .with("c.csv", "color\nred\nblue\nred\n")
        .with("l.csv", "dose,cured\n1,1\n2,1\n-1,0\n0,1\n");
    let outcome = place.run("infer categorical c.csv");
    outcome.stdout_has("\nblue ");
    outcome.stdout_has("\nred ");
    let outcome = place.run("infer logistic l.csv --target cured");
    for text in [
        "\nintercept ",
        "\ndose ",
        "laplace",
        "upper",
        "lower",
        "dose > 0",
        "certified to",
    ] {
        outcome.stdout_has(text);
    }
}

#[test]
fn plots_are_written_and_hold_what_they_should() {
    let place = Place::new()
        .with("d.csv", "ok\n1\n1\n1\n0\n")
        .with("l.csv", "dose,cured\n1,1\n2,1\n-1,0\n0,1\n");
    place.succeed("infer bernoulli d.csv --plot p.svg");
    let svg = place.text("p.svg");
    for text in split("<svg <polyline <polygon possibility 0.05-cut 'mode 0.75'") {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains("NaN") && svg.trim_end().ends_with("</svg>"));
    place.succeed("infer logistic l.csv --target cured --plot l.png");
    let png = std::fs::read(place.path("l.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 20_000);
    assert_eq!(place.files(), ["d.csv", "l.csv", "l.png", "p.svg"]);
}

#[test]
fn boundary_posteriors_can_be_drawn() {
    let place = Place::new().with("d.csv", "k\n0\n0\n");
    for parameter in ["mean", "natural"] {
        let command = format!("infer poisson d.csv --parameter {parameter} --plot z.svg");
        place.succeed(&command);
        let svg = place.text("z.svg");
        assert!(svg.contains("<polyline") && !svg.contains("NaN"));
    }
}
