//! `maxitive infer`: events about several classes, several groups, and mixed events.

use crate::common::{Place, number};
use serde_json::Value;

/// Golden numbers have thirty digits (`golden/generate/gen_shares.py`, `gen_combine.py`).
const GOLDEN: f64 = 1e-9;

#[track_caller]
fn near(found: &Value, expected: f64, what: &str) {
    let found = number(found);
    assert!(
        (found - expected).abs() < GOLDEN,
        "{what}: {found} {expected}"
    );
}

#[test]
fn golden_forms_of_classes() {
    let names = ["setosa", "versicolor", "virginica", "other"];
    for case in golden::cases("shares/forms.json") {
        let (counts, factors) = (
            golden::numbers(&case["counts"]),
            golden::numbers(&case["factors"]),
        );
        let mut data = "class\n".to_owned();
        let mut form = Vec::new();
        for ((name, count), factor) in names.iter().zip(&counts).zip(&factors) {
            data.push_str(&format!("{name}\n").repeat(*count as usize));
            form.push(format!("{factor}*{name}").replace("+ -", "- "));
        }
        let place = Place::new().with("d.csv", data);
        let event = format!(
            "{} = {}",
            form.join(" + ").replace("+ -", "- "),
            case["value"]
        );
        let classes = names[..counts.len()].join(",");
        let report = place.json(&format!(
            "infer categorical d.csv --classes {classes} --event '{event}'"
        ));
        let expected = golden::number(&case["possibility"]);
        near(&report["events"][0]["possibility"], expected, &event);
    }
}

#[test]
fn classes_are_compared_with_classes() {
    let data = "class\n".to_owned() + &"setosa\n".repeat(5) + &"virginica\n".repeat(3) + "b\nb\n";
    let place = Place::new().with("d.csv", data);
    let report = place.json(
        "infer categorical d.csv --event 'setosa > virginica' \
         --event 'setosa + virginica > 0.6' --event 'setosa + virginica + b > 0.999' \
         --event 'p[setosa] - p[b] > 2' --event 'setosa < virginica or setosa > virginica'",
    );
    let events = &report["events"];
    // equal shares of 8/10 are the nearest
    let equal = (0.4_f64 / 0.5).powi(5) * (0.4_f64 / 0.3).powi(3);
    near(&events[0]["possibility"], 1.0, "setosa > virginica");
    near(&events[0]["necessity"], 1.0 - equal, "setosa > virginica");
    // the rest has 0.4 instead of 0.2
    let less = (0.6_f64 / 0.8).powi(8) * (0.4_f64 / 0.2).powi(2);
    near(&events[1]["necessity"], 1.0 - less, "sum > 0.6");
    near(&events[2]["necessity"], 1.0, "everything");
    near(&events[3]["possibility"], 0.0, "nothing");
    near(&events[4]["necessity"], 1.0 - equal, "different");
}

#[test]
fn golden_forms_of_three_groups() {
    for case in golden::cases("compare/combinations.json") {
        let functions = golden::list(&case["functions"]);
        let mut rows = "x,w,g\n".to_owned();
        let family = functions[0]["family"].as_str().unwrap();
        for (function, group) in functions.iter().zip(["a", "b", "c"]) {
            let (mode, weight) = (
                golden::number(&function["mode"]),
                golden::number(&function["weight"]),
            );
            // two rows of this mean and total weight
            let values = match family {
                "bernoulli" => [(1.0, mode * weight), (0.0, (1.0 - mode) * weight)],
                "poisson" => {
                    let above = mode.ceil();
                    [
                        (above, weight * (1.0 - (above - mode))),
                        (above - 1.0, weight * (above - mode)),
                    ]
                }
                _ => [(mode - 1.0, weight / 2.0), (mode + 1.0, weight / 2.0)],
            };
            for (x, weight) in values.into_iter().filter(|(_, weight)| *weight > 0.0) {
                rows.push_str(&format!("{x},{weight},{group}\n"));
            }
        }
        let place = Place::new().with("d.csv", rows);
        let is_natural = functions[0]["parameter"] == "natural";
        let [a, b, c] = <[f64; 3]>::try_from(golden::numbers(&case["factors"])).unwrap();
        for point in golden::list(&case["points"]) {
            let event = format!("{a}*a + {b}*b + {c}*c = {}", point["value"]).replace("+ -", "- ");
            let mut command =
                format!("infer {family} d.csv --column x --weight w --by g --event '{event}'");
            if family == "normal" {
                command += " --variance 2";
            }
            if is_natural {
                command += " --parameter natural";
            }
            let report = place.json(&command);
            let expected = golden::number(&point["log_possibility"]).exp();
            near(&report["events"][0]["possibility"], expected, &event);
        }
    }
}

#[test]
fn conditions_on_a_normal_vector_may_be_mixed() {
    // one observation (1, -2) with variances 1 and 4
    let place = Place::new()
        .with("d.csv", "a,b\n1,-2\n")
        .with("c.csv", "a,b\n1,0\n0,4\n");
    let report = place.json(
        "infer multivariate-normal d.csv --covariance c.csv \
         --event 'a > 2 and (b > 0 or b < -6)' --event 'a > 0 and (b < 0 or a + b < 4)'",
    );
    near(
        &report["events"][0]["possibility"],
        (-1.0_f64).exp(),
        "mixed",
    );
    near(
        &report["events"][1]["necessity"],
        1.0 - (-0.5_f64).exp(),
        "mixed",
    );
}

/// What is refused, and the words that say why.
const MISTAKES: &str = r#"
categorical c.csv --event a>b+d => unknown variable "d"
categorical c.csv --event a>b+ => event "a>b+" & the event ends
categorical c.csv --event a>b>c => one linear form
categorical c.csv --event a*b>0 => event "a*b>0"
categorical c.csv --event a-a>0 => a variable is needed
categorical c.csv --parameter natural --event a>b => --parameter mean
exponential d.csv --column x --by g --event a+b>c => only two groups & "a", "b", "c"
normal d.csv --column x --by g --event mean[a]+mean[b]>mean[c] => only two groups & "c"
poisson d.csv --column x --by g --event a+b**c>1 => event "a+b**c>1"
poisson d.csv --column x --by g --event a+b>c, => event "a+b>c,"
multivariate-normal v.csv --covariance cov.csv --event a>0&b>0 => unexpected character '&'
multivariate-normal v.csv --covariance cov.csv --event a+c>0 => unknown variable "c"
"#;

#[test]
fn mistakes_about_events_are_named() {
    let place = Place::new()
        .with("c.csv", "class\na\nb\nc\na\n")
        .with("d.csv", "x,g\n1,a\n2,a\n3,b\n5,b\n4,c\n7,c\n")
        .with("v.csv", "a,b\n1,-2\n")
        .with("cov.csv", "a,b\n1,0\n0,4\n");
    place.refuse_each("infer *", MISTAKES);
}

/// Numbers from the log likelihood on a fine grid, written down by another program.
#[test]
fn mean_and_variance_are_asked_together() {
    let place = Place::new().with("n.csv", "x\n5.1\n4.9\n6.2\n5.8\n5.5\n6.0\n");
    let report = place.json(
        "infer normal n.csv --event 'mean > 6 and variance < 0.3' \
         --event 'variance < 1 and mean > 5'",
    );
    let events = report["events"].as_array().unwrap();
    let found = |event: usize, what: &str| number(&events[event][what]);
    assert!((found(0, "possibility") - 0.153_544_558_041_991_35).abs() < 1e-12);
    assert_eq!(found(0, "necessity"), 0.0);
    assert_eq!(found(1, "possibility"), 1.0);
    assert!((found(1, "necessity") - 0.891_736_032_094_220_7).abs() < 1e-12);
    // the region stands beside the two curves
    place.succeed("infer normal n.csv --plot n.svg");
    let picture = place.text("n.svg");
    assert_eq!(picture.matches("variance").count(), 2);
    place.refuse_each(
        "infer normal n.csv --event 'mean > 5 and variance < 1' *",
        r#"
--valid => --valid: a coefficient and the variance together
--variance=1 => unknown variable "variance"
"#,
    );
}

/// The mean of three numbers lies (1 + z²/n)^(-n/2) from what is asked, whatever the column is
/// called; what a covariate is called like, the noise variance gives way to.
#[test]
fn columns_may_be_called_like_parameters() {
    let place = Place::new()
        .with("m.csv", "mean\n1\n2\n5\n")
        .with("x.csv", "x\n1\n2\n5\n")
        .with("v.csv", "y,variance\n1,0\n2,1\n2,2\n4,3\n");
    let [named, plain] = ["m", "x"].map(|file| {
        let report = place.json(&format!("infer normal {file}.csv --event 'mean > 4'"));
        number(&report["coefficients"][0]["events"][0]["possibility"])
    });
    assert_eq!(named, plain);
    // the variance of the numbers is 26/9, and 4 lies 4/3 from their mean
    let z2 = (16.0 / 9.0) / (26.0 / 9.0);
    assert!((plain - (1.0_f64 + z2).powf(-1.5)).abs() < GOLDEN);

    let report = place
        .json("infer linear v.csv --target y --event 'variance > 1' --event '\"(variance)\" > 1'");
    let slope = &report["coefficients"][1];
    assert_eq!(slope["name"], "variance");
    let asked = |answers: &Value| answers["events"][0]["event"].clone();
    assert_eq!(asked(slope), "variance > 1");
    assert_eq!(asked(&report["variance"]), "\"(variance)\" > 1");
    let text = place.succeed("infer linear v.csv --target y").stdout;
    assert!(
        text.contains("\nvariance ") && text.contains("\n(variance) "),
        "{text}"
    );
}
