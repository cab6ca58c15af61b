//! `maxitive infer --by`: one posterior for each group, events across groups, forest plots.

use crate::common::{Place, assert_close, number, split};
use serde_json::Value;

/// Two results of a few operations and a root to the last digit.
const TOLERANCE: f64 = 1e-9;

fn near(found: &Value, expected: f64) {
    let found = number(found);
    assert!((found - expected).abs() < TOLERANCE, "{found} {expected}");
}

#[test]
fn rates_of_groups_are_compared_exactly() {
    let place = Place::new().with("d.csv", "k,day\n7,b\n9,b\n4,b\n3,a\n2,a\n");
    let arguments = split(
        "infer poisson d.csv --column k --by day --event 'rate[b] > rate[a]' \
         --event 'rate[a] > 3' --event 'rate > 5' --event 'b = a' \
         --event 'rate[a] < 2 and rate[b] > 6' --event 'rate[a] > 3 or rate[b] < 5' \
         --alpha 0.1",
    );
    let report = place.json(&arguments);
    assert_eq!((&report["n"], &report["by"]), (&5.into(), &"day".into()));
    let groups = report["groups"].as_array().unwrap();
    let names: Vec<&Value> = groups.iter().map(|group| &group["group"]).collect();
    assert_eq!(names, ["a", "b"]);
    assert_close(&groups[0]["mode"], 2.5);
    assert_close(&groups[1]["mode"], 20.0 / 3.0);
    // a group alone is inferred like a file of its own
    let alone = Place::new().with("d.csv", "k\n7\n9\n4\n");
    let alone = alone.json("infer poisson d.csv --alpha 0.1 --event 'x > 5'");
    assert_eq!(groups[1]["alpha_cuts"], alone["alpha_cuts"]);
    assert_eq!(
        groups[1]["events"][0]["necessity"],
        alone["events"][0]["necessity"]
    );
    let log = |n: f64, m: f64, x: f64| -n * (x - m + m * (m / x).ln());
    let (a, b) = (|x: f64| log(2.0, 2.5, x), |x: f64| log(3.0, 20.0 / 3.0, x));
    let events = &report["events"];
    near(&events[0]["necessity"], 1.0 - (a(5.0) + b(5.0)).exp());
    near(&events[1]["possibility"], a(3.0).exp());
    near(&events[2]["possibility"], (a(5.0) + b(5.0)).exp());
    near(&events[3]["possibility"], a(2.0).exp());
    near(&events[3]["necessity"], 0.0);
    near(&events[4]["possibility"], a(3.0).exp().max(b(5.0).exp()));
    let text = place.run(&arguments).stdout;
    assert!(text.contains("in 2 groups by \"day\""), "{text}");
    assert!(text.contains("a: rate > 5"), "{text}");
}

#[test]
fn means_of_unknown_variance_and_variances_are_compared() {
    let place = Place::new().with("d.csv", "x,g\n1,u\n2,u\n4,u\n5,v\n6,v\n6.5,v\n9,v\n");
    let report = place.json(
        "infer normal d.csv --column x --by g --event 'mean[v] - mean[u] > 0.5' \
         --event 'variance[u] > variance[v]' --event 'mean[u] > 0' \
         --event 'variance > 1'",
    );
    let (m, n): ([f64; 2], [f64; 2]) = ([7.0 / 3.0, 26.5 / 4.0], [3.0, 4.0]);
    let squares = |data: &[f64], m: f64| data.iter().map(|x| (x - m).powi(2)).sum::<f64>();
    let q = [
        squares(&[1.0, 2.0, 4.0], m[0]),
        squares(&[5.0, 6.0, 6.5, 9.0], m[1]),
    ];
    let cost = |i: usize, x: f64| 0.5 * n[i] * (n[i] * (x - m[i]).powi(2) / q[i]).ln_1p();
    // the least cost on mean[v] = mean[u] + 0.5, by a fine grid
    let best = (0..400_000)
        .map(|i| m[0] + 4.5 * f64::from(i) / 400_000.0)
        .map(|x| cost(0, x) + cost(1, x + 0.5))
        .fold(f64::INFINITY, f64::min);
    near(&report["events"][0]["necessity"], 1.0 - (-best).exp());
    near(
        &report["events"][2]["necessity"],
        1.0 - (-cost(0, 0.0)).exp(),
    );
    let groups = &report["groups"];
    assert_close(&groups[0]["variance"]["mode"], q[0] / 3.0);
    assert_close(&groups[1]["variance"]["mode"], q[1] / 4.0);
    assert_eq!(groups[0]["variance"]["events"][0]["event"], "variance > 1");
    // equal variances: the pooled one
    let pooled = (q[0] + q[1]) / 7.0;
    let log = |i: usize| 0.5 * n[i] * (1.0 + (q[i] / n[i] / pooled).ln() - q[i] / n[i] / pooled);
    near(&report["events"][1]["possibility"], (log(0) + log(1)).exp());
}

#[test]
fn the_log_odds_ratio_is_a_difference_of_natural_parameters() {
    let rows = |yes: usize, no: usize, group: &str| -> String {
        let row = |y: &str| format!("{y},{group}\n");
        row("1").repeat(yes) + &row("0").repeat(no)
    };
    let data = format!("y,g\n{}{}", rows(7, 3, "a"), rows(6, 9, "b"));
    let place = Place::new().with("d.csv", data);
    let report = place.json(
        "infer bernoulli d.csv --column y --by g --parameter natural \
         --event 'theta[a] > theta[b]'",
    );
    let mean = place.json("infer bernoulli d.csv --column y --by g --event 'p[a] > p[b]'");
    let necessity = |report: &Value| number(&report["events"][0]["necessity"]);
    assert!((necessity(&report) - necessity(&mean)).abs() < TOLERANCE);
}

#[test]
fn groups_and_coefficients_can_be_drawn() {
    let rows: String = (0..120)
        .map(|i| format!("{},{},g{},{}\n", i % 7, i % 11, i % 40, (i * i) % 5))
        .collect();
    let place = Place::new()
        .with("many.csv", format!("k,x,g,z\n{rows}"))
        .with("few.csv", "k,g\n3,a\n4,a\n9,b\n0,c\n");
    let pictures = r"
poisson few.csv --column k --by g --plot => rate[a] & rate[c]
normal few.csv --column k --by g --variance 1 --forest => mode & >b<
poisson many.csv --column k --by g --alpha 0.05 --alpha 0.5 --forest => >g39< & 0.5-cut
poisson-regression many.csv --target k --categorical g --prior-precision 1 --forest => g[g7] & intercept
categorical many.csv --column g --forest => p[g12]
";
    for line in pictures.trim().lines() {
        let (arguments, names) = line.split_once(" => ").unwrap();
        place.succeed(&format!("infer {arguments} p.svg"));
        let svg = place.text("p.svg").replace('\n', "");
        for name in names.split(" & ") {
            assert!(svg.contains(name), "{arguments}: {name}");
        }
    }
}

/// What is refused, and the words that say why.
const MISTAKES: &str = r#"
poisson d.csv --column k --by h => unknown column "h" & "g"
poisson d.csv --column k --by k => --by & "k" is the column of the
poisson d.csv --column k --by w --weight w => --by & "w" is the column of
poisson d.csv --column k --by g --weight w => group "b" & weights add up to 0
poisson holes.csv --column k --by g => line 3, column "g" & missing
poisson text.csv --column k --by g => line 3, column "k" & -4 is not in
poisson d.csv --column k --by g --event rate[d]>1 => unknown label "d" & "a", "b", "c"
poisson d.csv --column k --by g --event rate>rate[a] => name the group & rate[a]
poisson d.csv --column k --by g --event p[a]>1 => unknown variable "p"
poisson d.csv --column k --by g --event variance[a]>1 => unknown variable "variance"
normal d.csv --column k --by g => d.csv, column "k", group "b"
normal d.csv --column k --by g --parameter natural => needs --variance
bernoulli d.csv --column k --by g => line 2, column "k" & {0, 1}
poisson many.csv --column k --by g --plot p.svg => --plot: 300 & --forest
poisson many.csv --column k --by g --forest p.svg => --forest: 300 rows
poisson d.csv --column k --by g --forest p.gif => --forest & .svg, .pdf or .png
poisson d.csv --column k --by g --prior-mean 1,2 --prior-weight 1 => one number is expected
categorical d.csv --column g --by k => --by
"#;

#[test]
fn mistakes_about_groups_are_named() {
    let place = Place::new()
        .with("d.csv", "k,g,w\n3,a,1\n4,a,1\n9,b,0\n2,c,1\n")
        .with("holes.csv", "k,g\n3,a\n4,\n")
        .with("text.csv", "k,g\n3,a\n-4,b\n");
    let many: String = (0..300).map(|i| format!("1,g{i}\n")).collect();
    let place = place.with("many.csv", format!("k,g\n{many}"));
    place.refuse_each("infer *", MISTAKES);
    // quoted spaces: parts that speak of one group twice
    let outcome = place.refuse(
        "infer normal d.csv --column k --by g --variance 1 \
         --event 'mean[a] > mean[b] and mean[a] > 1'",
    );
    outcome.stderr_has("group \"a\" comes twice");
}
