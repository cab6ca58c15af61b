//! Posteriors that travel: `--save`, `--prior-from`, `infer merge`.

use crate::common::{Place, ROUNDED, same};
use serde_json::json;

/// What a family is asked with, an event of it, and a row of data for a number.
type Case = (&'static str, &'static str, fn(u32) -> String);

const CASES: [Case; 7] = [
    ("bernoulli", "p > 0.4", |i| {
        format!("{}", u32::from(i % 7 < 3))
    }),
    ("poisson", "rate > 2.9", |i| format!("{}", (i * i) % 7)),
    ("exponential", "mean < 3", |i| {
        format!("{}.{:02}1", i % 5, (i * 37) % 100)
    }),
    ("gamma --shape 2.5", "mean < 3", |i| {
        format!("{}.{:02}1", i % 5, (i * 37) % 100)
    }),
    ("normal --variance 2", "mean > 1000", |i| {
        format!("1000.{:03}", (i * 7919) % 1000)
    }),
    ("categorical --classes a,b,c", "b > 0.3", |i| {
        ["a", "b", "c", "a"][i as usize % 4].to_owned()
    }),
    ("multivariate-normal --covariance cov.csv", "u > v", |i| {
        format!("{},{}", i % 13, (i * 5) % 11)
    }),
];

fn header(family: &str) -> &'static str {
    if family.starts_with("multi") {
        "u,v\n"
    } else {
        "x\n"
    }
}

fn arguments<'a>(family: &'a str, file: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    let mut words = family.split_whitespace();
    let mut all = vec!["infer", words.next().unwrap(), file];
    all.extend(words);
    all.extend(rest);
    all
}

#[test]
fn shards_add_up_to_one_file_in_any_order() {
    for (family, event, row) in CASES {
        let mut place = Place::new().with("cov.csv", "u,v\n2,0.5\n0.5,1\n");
        let rows: Vec<String> = (0..60).map(|i| row(i) + "\n").collect();
        place = place.with("all.csv", header(family).to_owned() + &rows.concat());
        let mut files = Vec::new();
        for (i, shard) in rows.chunks(11).enumerate() {
            let csv = format!("{i}.csv");
            place = place.with(&csv, header(family).to_owned() + &shard.concat());
            files.push(format!("{i}.json"));
            place.json(&arguments(family, &csv, &["--save", &files[i]]));
        }
        let whole = place.json(&arguments(family, "all.csv", &["--event", event]));
        for _ in 0..2 {
            let mut all = vec!["infer", "merge"];
            all.extend(files.iter().map(String::as_str));
            all.extend(["--event", event, "--save", "merged.json"]);
            same(&place.json(&all), &whole, ROUNDED, family);
            files.reverse();
        }
        // what was merged is a posterior like any other
        let again = place.json(&["infer", "merge", "merged.json", "--event", event]);
        same(&again, &whole, ROUNDED, family);
    }
}

#[test]
fn a_thousand_shards_equal_one_file() {
    // evidence as `--save` writes it, of shards whose sums are exact
    let place = Place::new();
    let value = |i: u32| 1000.0 + f64::from((i * 7919) % 4096) / 4096.0;
    let mut names = Vec::new();
    let (mut all, count) = (String::from("x\n"), 3);
    for shard in 0..1000 {
        let data: Vec<f64> = (0..count).map(|i| value(shard * count + i)).collect();
        all.extend(data.iter().map(|x| format!("{x}\n")));
        let mean = data.iter().sum::<f64>() / f64::from(count);
        let squares: f64 = data.iter().map(|x| (x - mean).powi(2)).sum();
        let log = -0.25 * squares - 0.5 * f64::from(count) * (4.0 * std::f64::consts::PI).ln();
        let file = json!({
            "format": "maxitive-posterior/1",
            "family": "normal",
            "settings": {"variance": 2.0},
            "prior": null,
            "data": {"rows": count, "count": 3.0, "mean": [mean], "log_likelihood": log},
        });
        names.push(format!("{shard}.json"));
        std::fs::write(place.path(&names[shard as usize]), file.to_string()).unwrap();
    }
    let place = place.with("all.csv", all);
    let whole = place.json("infer normal all.csv --variance 2");
    let mut merge = vec!["infer", "merge"];
    merge.extend(names.iter().rev().map(String::as_str));
    same(&place.json(&merge), &whole, ROUNDED, "a thousand shards");
}

#[test]
fn yesterdays_posterior_is_todays_prior() {
    for (family, event, row) in CASES {
        let rows: Vec<String> = (0..23).map(|i| row(i) + "\n").collect();
        let text = |rows: &[String]| header(family).to_owned() + &rows.concat();
        let place = Place::new()
            .with("cov.csv", "u,v\n2,0.5\n0.5,1\n")
            .with("first.csv", text(&rows[..9]))
            .with("second.csv", text(&rows[9..]))
            .with("all.csv", text(&rows));
        place.json(&arguments(family, "first.csv", &["--save", "p.json"]));
        let rest = ["--prior-from", "p.json", "--save", "q.json"];
        let rest = [&rest[..], &["--event", event]].concat();
        let found = place.json(&arguments(family, "second.csv", &rest));
        let whole = place.json(&arguments(family, "all.csv", &["--event", event]));
        for key in ["mode", "precision", "lambda", "nu", "alpha_cuts", "events"] {
            same(
                &found[key],
                &whole[key],
                ROUNDED,
                &format!("{family} {key}"),
            );
        }
        assert!(place.files().contains(&"q.json".to_owned()));
    }
}

#[test]
fn classes_that_a_part_has_not_seen_are_added() {
    let place = Place::new()
        .with("a.csv", "w\nx\ny\nx\n")
        .with("b.csv", "w\nz\ny\n")
        .with("all.csv", "w\nx\ny\nx\nz\ny\n");
    for part in ["a", "b"] {
        place.json(&format!("infer categorical {part}.csv --save {part}.json"));
    }
    let merged = place.json("infer merge b.json a.json --event 'z > 0.1'");
    let whole = place.json("infer categorical all.csv --event 'z > 0.1'");
    same(&merged, &whole, ROUNDED, "classes");
}

/// What is refused, and the words that say why.
const MISTAKES: &str = r#"
merge => FILE
merge nowhere.json => nowhere.json: there is no such file
merge no.json => no.json & "format" is null
merge list.json => list.json & "format" is null
merge bad.json => bad.json & not the JSON of a posterior
merge format.json => posterior/9 & expected "maxitive-posterior/1"
merge family.json => family.json & no family "binomial"
merge count.json => count.json & count -2 is not in (0, inf)
merge words.json => words.json & "data.count" is "two", expected a number
merge mean.json => mean.json & -3.5
merge twice.json => twice.json & the field "count" stands there twice
merge rows.json => rows.json & "data.rows" is not a count
merge p.json g.json => g.json holds a posterior of the family gamma & p.json is poisson
merge g.json h.json => h.json has the settings {"shape":3.0} & g.json
merge p.json q.json => q.json and p.json & different priors
merge p.json p.json => "p.json" is given twice
merge p.json --event p>1 => unknown variable "p"
merge p.json --save nowhere/x.json => --save & there is no folder nowhere
merge p.json --alpha 2 => --alpha
poisson k.csv --prior-from g.json => --prior-from & family gamma & poisson
gamma k.csv --shape 3 --prior-from g.json => --prior-from & {"shape":2.0} & {"shape":3.0}
poisson k.csv --prior-from p.json --prior-mean 1 --prior-weight 1 => --prior-from
categorical k.csv --prior-from c.json --classes 3,4,5 => --prior-from & classes
normal k.csv --save x.json => --save & --variance
poisson k.csv --by k --save x.json => --by & --save
linear k.csv --target k --save x.json => --save
poisson k.csv --save . => --save & folder
"#;

#[test]
fn mistakes_about_saved_posteriors_are_named() {
    let place = Place::new()
        .with("k.csv", "k\n3\n4\n")
        .with("cov.csv", "u,v\n1,0\n0,1\n")
        .with("no.json", "{}")
        .with("bad.json", "not json")
        .with("list.json", "[]");
    for (arguments, file) in [
        ("poisson k.csv", "p.json"),
        ("poisson k.csv --prior-mean 2 --prior-weight 1", "q.json"),
        ("gamma k.csv --shape 2", "g.json"),
        ("gamma k.csv --shape 3", "h.json"),
        ("categorical k.csv", "c.json"),
    ] {
        place.json(&format!("infer {arguments} --save {file}"));
    }
    let text = place.text("p.json");
    let mut place = place;
    for (name, from, to) in [
        ("family", "poisson", "binomial"),
        ("count", "\"count\": 2.0", "\"count\": -2.0"),
        ("words", "\"count\": 2.0", "\"count\": \"two\""),
        ("mean", "3.5", "-3.5"),
        ("rows", "\"rows\": 2", "\"rows\": 1.5"),
        ("format", "posterior/1", "posterior/9"),
        ("twice", "\"count\": 2.0", "\"count\": 20.0, \"count\": 2.0"),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        place = place.with(&format!("{name}.json"), text.replace(from, to));
    }
    place.refuse_each("infer *", MISTAKES);
}

/// Means around 1.7e9 are rounded to 1e-7; what is taken from them travels beside them.
#[test]
fn parts_far_from_zero_equal_one_file() {
    // their mean is 4, and their squares around it add up to 56
    let digits = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5];
    let text = |digits: &[u32]| {
        let rows = digits
            .iter()
            .map(|digit| format!("{}\n", 1_700_000_000 + digit));
        format!("x\n{}", rows.collect::<String>())
    };
    let place = Place::new()
        .with("1.csv", text(&digits[..3]))
        .with("2.csv", text(&digits[3..4]))
        .with("3.csv", text(&digits[4..]));
    for part in ["1", "2", "3"] {
        place.json(&format!(
            "infer normal {part}.csv --variance 2 --save {part}.json"
        ));
    }
    let saved = std::fs::read_to_string(place.path("1.json")).unwrap();
    assert!(saved.contains("rest_of_mean"), "{saved}");
    let merged = place.json("infer merge 1.json 2.json 3.json --save whole.json");
    let want = -5.5 * (4.0 * std::f64::consts::PI).ln() - 14.0;
    for found in [merged, place.json("infer merge whole.json")] {
        let found = found["log_consistency"].as_f64().unwrap();
        assert!((found / want - 1.0).abs() < 1e-14, "{found} {want}");
    }
}
