//! `maxitive infer`: predictions at new covariates, and what a file may hold.

use crate::common::{Difference, Place, assert_close, number, same};
use serde_json::Value;

/// Golden numbers come from extended precision (`golden/generate/gen_regression.py`).
const GOLDEN: f64 = 1e-9;

/// A fit in other steps.
const FITTED: Difference = (1e-11, &["certified_to", "newton_steps"]);

#[track_caller]
fn near(found: &Value, expected: &Value, what: &str) {
    let (found, expected) = (number(found), golden::number(expected));
    let off = (found - expected).abs();
    assert!(
        off <= GOLDEN * expected.abs().max(1.0),
        "{what}: {found} {expected}"
    );
}

#[test]
fn golden_predictions() {
    for case in golden::cases("regression/predictions.json") {
        let name = case["name"].as_str().unwrap();
        let place = Place::new()
            .with("data.csv", case["data"].as_str().unwrap())
            .with("new.csv", case["new"].as_str().unwrap());
        let mut arguments = vec!["infer", "predict", case["command"].as_str().unwrap()];
        arguments.extend(["data.csv", "--new", "new.csv"]);
        arguments.extend(
            golden::list(&case["arguments"])
                .iter()
                .map(|a| a.as_str().unwrap()),
        );
        let alphas: Vec<String> = golden::list(&case["alphas"])
            .iter()
            .map(Value::to_string)
            .collect();
        for alpha in &alphas {
            arguments.extend(["--alpha", alpha]);
        }
        let event = format!("x > {}", case["threshold"]);
        arguments.extend(["--event", &event]);
        let report = place.json(&arguments);
        let found = report["predictions"].as_array().unwrap();
        let expected = golden::list(&case["expected"]);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            near(&found["mode"], &expected["mode"], name);
            for (i, cut) in golden::list(&expected["cuts"]).iter().enumerate() {
                for key in ["alpha", "lower", "upper"] {
                    near(&found["alpha_cuts"][i][key], &cut[key], name);
                }
            }
            let event = &found["events"][0];
            near(&event["possibility"], &expected["possibility_above"], name);
            near(&event["necessity"], &expected["necessity_above"], name);
        }
        // the table for spreadsheets holds the same numbers
        let outcome = place.succeed(&arguments);
        let delimiter = if arguments.contains(&";") { ';' } else { ',' };
        let rows: Vec<Vec<&str>> = outcome
            .stdout
            .lines()
            .map(|line| line.split(delimiter).collect())
            .collect();
        assert_eq!(rows.len(), expected.len() + 1);
        let mode = rows[0].iter().position(|&name| name == "mode").unwrap();
        for (row, found) in rows[1..].iter().zip(found) {
            assert_eq!(row[mode].parse::<f64>().unwrap(), number(&found["mode"]));
            let necessity = row.last().unwrap().parse::<f64>().unwrap();
            assert_eq!(necessity, number(&found["events"][0]["necessity"]));
        }
    }
}

#[test]
fn without_intercept_the_origin_is_certain() {
    let place = Place::new()
        .with("d.csv", "x,y\n1,1\n2,1\n-1,0\n3,0\n")
        .with("n.csv", "x\n0\n1\n");
    let report = place.json(
        "infer predict logistic d.csv --target y --no-intercept --new n.csv \
         --event 'p > 0.4' --event 'p = 0.5' --event 'p > 2' --event 'p < 1'",
    );
    let origin = &report["predictions"][0];
    assert_close(&origin["mode"], 0.5);
    assert_close(&origin["alpha_cuts"][0]["lower"], 0.5);
    assert_close(&origin["alpha_cuts"][0]["upper"], 0.5);
    let sure: Vec<f64> = origin["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| number(&event["necessity"]))
        .collect();
    assert_eq!(sure, [1.0, 1.0, 0.0, 1.0]);
    // elsewhere the ends of the range of p are approached, never reached
    let events = &report["predictions"][1]["events"];
    assert_close(&events[2]["possibility"], 0.0);
    assert_close(&events[3]["necessity"], 1.0);
}

#[test]
fn a_weight_is_worth_so_many_rows() {
    let weighted = Place::new().with("d.csv", "k,times,word\n2,3,a\n7,1,b\n4,2,a\n");
    let repeated = Place::new().with("d.csv", "k,word\n2,a\n2,a\n2,a\n7,b\n4,a\n4,a\n");
    for command in [
        "infer poisson d.csv --column k --event 'rate > 3'",
        "infer exponential d.csv --column k",
        "infer normal d.csv --column k --variance 2",
        "infer normal d.csv --column k --event 'variance > 3'",
        "infer categorical d.csv --column word",
    ] {
        let plain = repeated.json(command);
        let mut found = weighted.json(&format!("{command} --weight times"));
        assert_close(&found["total_weight"], 6.0);
        assert_eq!(found["n"], 3);
        let object = found.as_object_mut().unwrap();
        object.remove("total_weight");
        object.insert("n".to_owned(), 6.into());
        same(&found, &plain, FITTED, command);
    }
    let text = weighted.run("infer poisson d.csv --column k --weight times");
    text.stdout_has("3 observations of total weight 6 from d.csv");
}

#[test]
fn rows_with_missing_values_are_dropped_and_counted() {
    let place = Place::new()
        .with(
            "d.csv",
            "y,x,note\n1,1,\n0,NA,b\n,2,c\n0,3,d\n1,2,\n0,1.5,\n",
        )
        .with("whole.csv", "y,x\n1,1\n0,3\n1,2\n0,1.5\n");
    let dropping = "infer logistic d.csv --target y --covariates x --missing drop";
    let mut found = place.json(dropping);
    assert_eq!(found["dropped"], 2);
    found.as_object_mut().unwrap().remove("dropped");
    let whole = place.json("infer logistic whole.csv --target y --covariates x");
    same(&found, &whole, FITTED, "dropped");
    let text = place.run(dropping).stdout;
    let head = "logistic: 4 observations of \"y\" from d.csv; 2 rows with a missing value dropped";
    assert!(text.starts_with(head), "{text}");
    let report = place.json("infer bernoulli d.csv --column y --missing drop");
    assert_eq!((&report["n"], &report["dropped"]), (&5.into(), &1.into()));
}

#[test]
fn categorical_covariates_have_a_coefficient_for_each_level_but_the_reference() {
    let place = Place::new().with(
        "d.csv",
        "ward,\"dose, mg\",calls\nb,1,3\na,2,4\nc,1,9\nb,0,2\na,1,1\nc,3,12\n",
    );
    let command = r#"infer poisson-regression d.csv --target calls
        --covariates '"dose, mg",ward' --categorical ward
        --event 'ward[c] > ward[b]' --event '"dose, mg" > 0'"#;
    let report = place.json(command);
    assert_eq!(report["references"]["ward"], "a");
    let names: Vec<&str> = report["coefficients"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["intercept", "dose, mg", "ward[b]", "ward[c]"]);
    // another reference shifts the coefficients and leaves what can be observed as it was
    let other = command.replace("ward[c] > ward[b]", "ward[c] > 0");
    let shifted = place.json(&(other + " --reference ward=b"));
    assert_eq!(shifted["references"]["ward"], "b");
    let mode = |report: &Value, i: usize| number(&report["coefficients"][i]["mode"]);
    let contrast = mode(&report, 3) - mode(&report, 2);
    assert!((mode(&shifted, 3) - contrast).abs() < 1e-9);
    let event = &report["events"][0];
    let single = &shifted["coefficients"][3]["events"][0];
    let off = number(&event["necessity"]) - number(&single["necessity"]);
    assert!(off.abs() < 1e-9, "{event} {single}");
    place.run(command).stdout_has("reference of ward");
}

#[test]
fn delimiters_are_named() {
    for (name, sign) in [
        (";", ";"),
        ("|", "|"),
        ("tab", "\t"),
        (":", ":"),
        ("space", " "),
    ] {
        let data = format!("a{sign}\"b{sign}c\"\n1{sign}4\n2{sign}\"6\"\n");
        let place = Place::new().with("d.csv", data);
        let column = format!("b{sign}c");
        let report = place.json(&format!(
            "infer poisson d.csv --delimiter {name} --column '{column}'"
        ));
        assert_close(&report["mode"], 5.0);
    }
}

#[test]
fn data_cannot_write_to_the_terminal() {
    let place = Place::new().with("d.csv", "w\n\u{1b}[2Ja\n\u{1b}[2Ja\nb\n");
    let outcome = place.succeed("infer categorical d.csv");
    assert!(!outcome.stdout.contains('\u{1b}'), "{:?}", outcome.stdout);
    outcome.stdout_has("\\u{1b}[2Ja");
    let outcome = place.refuse("infer poisson d.csv");
    assert!(!outcome.stderr.contains('\u{1b}'), "{:?}", outcome.stderr);
}

/// All of it was printed, 50 MB for a file of 50 MB.
#[test]
fn a_field_without_end_is_told_in_few_words() {
    let field = "1".repeat(200_000);
    let place = Place::new().with("d.csv", format!("w\n3\n{field}\n"));
    let error = place.refuse("infer poisson d.csv").stderr;
    assert!(error.starts_with("error: d.csv: line 3"), "{error}");
    assert!(error.ends_with("is not a finite number\n"), "{error}");
    assert!(error.contains("111 … 111"), "{error}");
    assert!(error.len() < 4200, "{}", error.len());
}

/// What is refused, and the words that say why.
const MISTAKES: &str = r#"
poisson d.csv --column y --missing keep => --missing & keep
poisson d.csv --column y --delimiter :: => --delimiter & tab
poisson d.csv --column y --delimiter x => --delimiter
poisson d.csv --column y --delimiter => --delimiter
poisson semi.csv --column y => unknown column "y" & --delimiter
poisson semi.csv --column y --delimiter | => unknown column & --delimiter
poisson d.csv --column y --weight v => unknown column "v" & "w"
poisson d.csv --column y --weight y => --weight & column of the observations
bernoulli zero.csv --weight w => zero.csv & weights add up to 0
normal zero.csv --weight w => zero.csv & "w" add up to 0
bernoulli negative.csv --column y --weight w => negative.csv: line 3, column "w" & -1 is not in [0, inf)
logistic negative.csv --target y --weight w => negative.csv: line 3, column "w" & -1 is not in [0, inf)
bernoulli words.csv --column y --weight w => line 3, column "w" & "two"
bernoulli none.csv --column x --missing refuse => line 3, column "x" & missing
linear none.csv --target y --missing drop => none.csv & every row lacks
logistic d.csv --target y --covariates x --weight y => --weight & "y" is the target
logistic d.csv --target y --covariates x --weight x => --covariates & "x" is the weight
logistic d.csv --target y --covariates x --categorical y => "y" is the target
logistic d.csv --target y --covariates x --categorical z => unknown column "z"
logistic d.csv --target y --covariates x --categorical g,g => "g" is asked for twice
logistic d.csv --target y --covariates x --categorical w --weight w => "w" is the weight
logistic d.csv --target y --covariates x --reference g=a => --categorical
logistic d.csv --target y --covariates x --categorical g --reference g => --reference & COLUMN=LEVEL
logistic d.csv --target y --covariates x --categorical g --reference x=1 => --reference & unknown categorical covariate "x" & "g"
logistic d.csv --target y --covariates x --categorical g --reference g=c => --reference & column "g" & unknown level "c" & "a", "b"
logistic d.csv --target y --covariates x --categorical g --reference g=a --reference g=b => two references
logistic d.csv --target y --covariates x --categorical "g => --categorical & never closed
logistic d.csv --target y --covariates x --categorical g --event g[c]>0 => unknown variable "g[c]" & g[b]
logistic d.csv --target y --covariates x --categorical g --event g>0 => unknown variable "g"
logistic one.csv --target y --categorical g => one.csv, column "g" & the only level is "a"
logistic d.csv --target y --covariates x,g => line 2, column "g" & not a number
predict logistic d.csv --target y --covariates x => --new
predict poisson d.csv --column y --new new.csv => unrecognized subcommand
predict logistic d.csv --target y --covariates x --new nowhere.csv => nowhere.csv: there is no such file
predict logistic - --target y --covariates x --new - => --new: standard input has the data already
predict logistic d.csv --target y --covariates x --new lacks.csv => lacks.csv: unknown column "x"
predict logistic d.csv --target y --covariates x --categorical g --new strange.csv => strange.csv: line 3, column "g" & unknown level "z" & "a", "b"
predict logistic d.csv --target y --covariates x --categorical g --new holes.csv => holes.csv: line 2, column "g" & missing
predict logistic d.csv --target y --covariates x --categorical g --new text.csv => text.csv: line 2, column "x" & not a number
predict logistic d.csv --target y --covariates x --categorical g --new mode.csv => --new & "mode" is called like one of the answers
predict logistic d.csv --target y --covariates x --categorical g --new new.csv --event rate>1 => unknown variable "rate" & "p"
predict logistic d.csv --target y --covariates x --categorical g --new new.csv --alpha 0 => --alpha
predict logistic d.csv --target y --covariates x --categorical g --new new.csv --plot p.svg => --plot
"#;

#[test]
fn mistakes_in_data_options_are_named() {
    let place = Place::new()
        .with(
            "d.csv",
            "y,x,g,w\n1,1,a,1\n0,2,b,2\n1,3,a,1\n0,4,b,0\n0,1,a,1\n",
        )
        .with("zero.csv", "y,w\n1,0\n0,0\n")
        .with("negative.csv", "y,w\n1,2\n0,-1\n")
        .with("words.csv", "y,w\n1,2\n0,two\n")
        .with("none.csv", "y,x\nNA,1\n1,\n")
        .with("one.csv", "y,g\n1,a\n0,a\n")
        .with("semi.csv", "y;x\n1;2\n0;3\n")
        .with("new.csv", "x,g\n1,a\n")
        .with("lacks.csv", "g\na\n")
        .with("strange.csv", "x,g\n1,a\n1,z\n")
        .with("holes.csv", "x,g\n1,\n")
        .with("text.csv", "x,g\none,a\n")
        .with("mode.csv", "x,g,mode\n1,a,3\n");
    place.refuse_each("infer *", MISTAKES);
}
