//! `maxitive infer --valid`: cuts that cover the truth at every sample size.

use crate::common::{Place, assert_close, number, split};

/// Quantiles from SciPy, and roots to the last digits.
const TOLERANCE: f64 = 1e-9;

#[test]
fn valid_cuts_of_normal_numbers_are_the_classical_intervals() {
    let place = Place::new().with("d.csv", "x\n4.1\n5.3\n3.9\n6.0\n5.1\n");
    let report = place.json("infer normal d.csv --valid --alpha 0.05 --event 'mean > 4'");
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
    let known = place.json("infer normal d.csv --variance 2 --valid --alpha 0.05");
    let half = 1.959_963_984_540_054 * (2.0_f64 / 5.0).sqrt();
    assert!((number(&known["alpha_cuts"][0]["lower"]) - (mean - half)).abs() < TOLERANCE);
    // a regression on nothing but a constant is the same
    let linear =
        place.json("infer linear d.csv --target x --valid --alpha 0.05 --event 'intercept > 4'");
    let same = &linear["coefficients"][0];
    assert_eq!(same["alpha_cuts"][0], *cut);
    assert_eq!(
        same["events"][0]["necessity"],
        report["coefficients"][0]["events"][0]["necessity"]
    );
    let text = place.run("infer linear d.csv --target x --valid");
    text.stdout_has("covers the truth with probability at least");
}

#[test]
fn valid_cuts_of_counts_are_enumerated() {
    let place = Place::new().with("d.csv", "ok\n1\n1\n1\n1\n1\n1\n1\n1\n1\n1\n");
    let report =
        place.json("infer bernoulli d.csv --valid --alpha 0.05 --event 'p < 0.6' --plot p.svg");
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
        let mut arguments =
            split("infer multivariate-normal d.csv --covariance c.csv --valid --alpha 0.05");
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
    let report = place.json(
        "infer multivariate-normal d.csv --covariance c.csv --valid --event 'a > 2' \
         --event '2*a > 4 or a > 3' --event 'a > 2 and b > 1' \
         --event 'a > 2 and (b > 1 or a + b > 3)' --event 'a > 1 and a < 0'",
    );
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
    let curve = place.succeed(
        "infer multivariate-normal d.csv --covariance c.csv --valid --export curve.csv \
         --plot p.svg --forest f.svg",
    );
    curve.stdout_has("covers the truth with probability at least");
}

/// Twenty rows whose slope is uncertain.
fn twenty_rows() -> String {
    let responses = "00100101001101011011";
    let rows = responses.chars().enumerate();
    let rows: String = rows.map(|(i, y)| format!("{i},{},{y}\n", i % 3)).collect();
    format!("x,z,y\n{rows}")
}

#[test]
fn coefficients_are_simulated_with_stated_errors() {
    let place = Place::new().with("d.csv", twenty_rows());
    let arguments = split(
        "infer logistic d.csv --target y --valid --simulations 199 --seed 5 --alpha 0.1 \
         --event 'x > 0' --event 'x > z'",
    );
    let report = place.json(&arguments);
    assert_eq!(report["valid"], true);
    let simulation = &report["simulation"];
    assert_eq!(simulation["simulations"], 199);
    assert_eq!(simulation["seed"], 5);
    assert_eq!(simulation["unresolved"], 0);
    assert_eq!(simulation["approximate"], true);
    assert!(report["certified_to"].is_null());
    let x = &report["coefficients"][1];
    let cut = &x["alpha_cuts"][0];
    let [lower, upper, lower_error, upper_error] =
        ["lower", "upper", "lower_error", "upper_error"].map(|key| number(&cut[key]));
    assert!(
        lower < number(&x["mode"]) && number(&x["mode"]) < upper,
        "{cut}"
    );
    assert!(
        lower_error > 0.0 && lower_error < 0.2 * (upper - lower),
        "{cut}"
    );
    assert!(
        upper_error > 0.0 && upper_error < 0.2 * (upper - lower),
        "{cut}"
    );
    let event = &x["events"][0];
    let necessity = number(&event["necessity"]);
    assert!(necessity > 0.5 && necessity < 1.0, "{event}");
    // √(π(1-π)/N)
    let error = (necessity * (1.0 - necessity) / 199.0).sqrt();
    assert_close(&event["necessity_error"], error);
    assert_close(&event["possibility"], 1.0);
    assert_close(&event["possibility_error"], 0.0);
    let contrast = &report["events"][0];
    assert_eq!(contrast["event"], "x > z");
    assert!(contrast["possibility_error"].is_number(), "{contrast}");
    // a multiple of 1/200, the same for any number of threads, and another one for another seed
    assert_close(&(200.0 * necessity).fract().into(), 0.0);
    let again = place.json(&[&arguments[..], &["--threads", "1"]].concat());
    assert_eq!(again, report);
    let mut other = arguments.clone();
    other[9] = "6";
    assert_ne!(place.json(&other)["coefficients"], report["coefficients"]);
    let text = place.run(&arguments).stdout;
    for words in [
        "199 data sets",
        "seed 5",
        "±",
        "approximate",
        "small samples",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(
        !text.contains("certified") && !text.contains("laplace"),
        "{text}"
    );
}

#[test]
fn simulated_curves_are_drawn_at_the_values_that_were_simulated() {
    let place = Place::new().with("d.csv", twenty_rows());
    place.succeed(
        "infer poisson-regression d.csv --target y --covariates x --valid \
         --simulations 99 --alpha 0.2 --export c.csv --plot p.svg --forest f.svg",
    );
    for picture in ["p.svg", "f.svg"] {
        let svg = place.text(picture);
        assert!(svg.contains("simulated, approximate"), "{picture}");
    }
    let text = place.text("c.csv");
    let rows: Vec<(String, f64, f64)> = text
        .lines()
        .skip(1)
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let [x, y] = [1, 2].map(|i| fields[i].parse().unwrap());
            (fields[0].to_owned(), x, y)
        })
        .collect();
    for name in ["intercept", "x"] {
        let curve: Vec<_> = rows.iter().filter(|row| row.0 == name).collect();
        assert!(curve.len() > 20, "{text}");
        assert!(curve.windows(2).all(|pair| pair[0].1 < pair[1].1), "{text}");
        // every possibility is a share of a hundred, that of the mode is 1
        assert!(
            curve
                .iter()
                .all(|row| (100.0 * row.2 - (100.0 * row.2).round()).abs() < 1e-9)
        );
        assert!(curve.iter().any(|row| row.2 == 1.0) && curve.iter().any(|row| row.2 < 0.2));
    }
}

/// Intercepts alone are the exact families: a rate, and by the link its logarithm.
#[test]
fn a_simulated_rate_agrees_with_the_exact_one() {
    let place = Place::new().with("d.csv", "y\n3\n0\n1\n2\n2\n");
    let exact = place.json("infer poisson d.csv --valid --event 'rate < 0.6' --event 'rate > 2.5'");
    // log 0.6 and log 2.5
    let found = place.json(
        "infer poisson-regression d.csv --target y --valid --simulations 1999 \
         --event 'intercept < -0.5108256237659907' \
         --event 'intercept > 0.9162907318741551'",
    );
    assert_eq!(found["simulation"]["approximate"], false);
    for i in 0..2 {
        let event = &found["coefficients"][0]["events"][i];
        let expected = number(&exact["events"][i]["possibility"]);
        let off = (number(&event["possibility"]) - expected).abs();
        // four standard errors, and the data set that was seen
        let allowed = 4.0 * number(&event["possibility_error"]) + 1e-3;
        assert!(off < allowed, "{event} {expected}");
    }
}

/// The number of one class is binomial; that of several with the same factor, too.
#[test]
fn classes_are_exact_and_differences_simulated() {
    let colors = [("red", 9), ("green", 3), ("blue", 5)];
    let (mut words, mut reds, mut pairs) = (String::new(), String::new(), String::new());
    for (color, count) in colors {
        for _ in 0..count {
            words.push_str(&format!("{color}\n"));
            reds.push_str(if color == "red" { "1\n" } else { "0\n" });
            pairs.push_str(if color == "blue" { "0\n" } else { "1\n" });
        }
    }
    let place = Place::new()
        .with("c.csv", format!("color\n{words}"))
        .with("red.csv", format!("ok\n{reds}"))
        .with("pair.csv", format!("ok\n{pairs}"));
    let found = place.json(
        "infer categorical c.csv --valid --event 'red > 0.7' \
         --event 'red + green > 0.9' --event '2*red + 2*green - blue < 1.4'",
    );
    assert!(found.get("simulation").is_none(), "{found}");
    let exact = place.json("infer bernoulli red.csv --valid --event 'p > 0.7'");
    for i in 0..3 {
        let (found, exact) = (&found["alpha_cuts"][i], &exact["alpha_cuts"][i]);
        // classes are sorted: red is the last
        assert_eq!(found["lower"][2], exact["lower"]);
        assert_eq!(found["upper"][2], exact["upper"]);
    }
    assert_eq!(
        found["events"][0]["possibility"],
        exact["events"][0]["possibility"]
    );
    let pair = place.json("infer bernoulli pair.csv --valid --event 'p > 0.9' --event 'p < 0.8'");
    assert_close(
        &found["events"][1]["possibility"],
        number(&pair["events"][0]["possibility"]),
    );
    // 2p - (1 - p) < 1.4
    assert_close(
        &found["events"][2]["necessity"],
        number(&pair["events"][1]["necessity"]),
    );
    let arguments = split(
        "infer categorical c.csv --valid --event 'red > green' --seed 2 \
         --simulations 499",
    );
    let simulated = place.json(&arguments);
    assert_eq!(simulated["simulation"]["approximate"], true);
    assert_eq!(simulated["simulation"]["simulations"], 499);
    let event = &simulated["events"][0];
    let necessity = number(&event["necessity"]);
    assert!(necessity > 0.7 && necessity < 1.0, "{event}");
    let error = (necessity * (1.0 - necessity) / 499.0).sqrt();
    assert_close(&event["necessity_error"], error);
    assert_eq!(place.json(&arguments), simulated);
    let text = place.run(&arguments).stdout;
    assert!(text.contains("±") && text.contains("approximate"), "{text}");
}

/// What is refused, and the words that say why.
const MISTAKES: &str = r#"
poisson d.csv --column x --valid --prior-mean 1 --prior-weight 1 => --valid & a prior
poisson d.csv --column x --valid --by y => --valid & --by
poisson d.csv --column x --valid --weight w => --valid & --weight
poisson d.csv --column x --valid --parameter natural => --valid & --parameter natural
normal d.csv --column x --valid --prior-mean 1 --prior-weight 1 => --valid & a prior
linear d.csv --target x --valid --prior-precision 1 => --valid & a prior
linear d.csv --target x --valid --intercept-precision 1 => --valid & a prior
multivariate-normal d.csv --covariance c.csv --valid --prior-mean 0,0 --prior-weight 1 => --valid & a prior
multivariate-normal d.csv --covariance c.csv --valid --parameter natural => --valid & --parameter natural
multivariate-normal d.csv --covariance c.csv --valid --weight w => --valid & --weight
logistic two.csv --target y --valid --prior-precision 1 => --valid & a prior
logistic two.csv --target y --valid --intercept-precision 0.5 => --valid & a prior
poisson-regression two.csv --target y --valid --prior-precision 1 => --valid & a prior
logistic two.csv --target y --covariates x --valid --weight w => --valid & --weight
logistic split.csv --target y --valid => split.csv & no finite mode & --valid
logistic two.csv --target y --valid --simulations 0 => --simulations & '0' & from 1 to 1000000
logistic two.csv --target y --valid --simulations -5 => --simulations & '-5' & from 1 to 1000000
logistic two.csv --target y --valid --simulations 1000001 => --simulations & from 1 to 1000000
logistic two.csv --target y --valid --simulations 99999999999999999999999 => --simulations & from 1 to 1000000
poisson-regression two.csv --target y --valid --simulations many => --simulations & 'many' & from 1 to 1000000
categorical two.csv --column y --valid --simulations 2.5 => --simulations & '2.5'
logistic two.csv --target y --valid --simulations 19 --alpha 0.05 => --simulations & 19 & 0.05 & more than 19
logistic two.csv --target y --valid --seed -1 => --seed & '-1' & from 0 to 18446744073709551615
logistic two.csv --target y --valid --seed 18446744073709551616 => --seed & from 0 to 18446744073709551615
categorical two.csv --column y --valid --seed x => --seed & 'x'
logistic two.csv --target y --simulations 99 => --valid
categorical two.csv --column y --seed 3 => --valid
bernoulli two.csv --column y --valid --simulations 99 => --simulations
categorical two.csv --column y --valid --weight w => --valid & --weight
categorical two.csv --column y --valid --prior-mean 0.5,0.5 --prior-weight 1 => --valid & a prior
categorical two.csv --column y --valid --parameter natural => --valid & --parameter natural
predict logistic two.csv --target y --new two.csv --valid => --valid
merge two.csv --valid => --valid
predict linear d.csv --target x --new d.csv --valid => --valid
"#;

#[test]
fn mistakes_about_valid_possibilities_are_named() {
    let place = Place::new()
        .with("d.csv", "x,y,w\n1,2,1\n2,4,1\n4,5,2\n")
        .with("c.csv", "x,y\n1,0\n0,1\n")
        .with("two.csv", "x,y,w\n1,0,1\n2,1,1\n3,0,2\n4,1,1\n")
        .with("split.csv", "x,y\n1,0\n2,0\n3,1\n4,1\n");
    place.refuse_each("infer *", MISTAKES);
}
