//! `maxitive infer --export`, and what a picture says beside its curve.

use std::collections::BTreeMap;

use crate::common::Place;

/// A possibility that is printed in full and computed in a handful of operations.
const TOLERANCE: f64 = 1e-12;

/// Values and possibilities by the name of the parameter.
type Curves = BTreeMap<String, Vec<(f64, f64)>>;

/// Runs `infer` with an export and reads the file.
#[track_caller]
fn export(place: &Place, arguments: &str) -> Curves {
    place.succeed(&format!("infer {arguments} --export curve.csv"));
    let text = place.text("curve.csv");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("name,parameter,possibility"));
    let mut curves = Curves::new();
    for line in lines {
        let (rest, possibility) = line.rsplit_once(',').unwrap();
        let (name, value) = rest.rsplit_once(',').unwrap();
        let point = (value.parse().unwrap(), possibility.parse().unwrap());
        curves.entry(name.to_owned()).or_default().push(point);
    }
    for (name, points) in &curves {
        assert!(points.len() > 20, "{arguments}: {name}");
        assert!(
            points.is_sorted_by(|a, b| a.0 < b.0),
            "{arguments}: {name} by increasing value"
        );
        let top = points.iter().map(|p| p.1).fold(0.0, f64::max);
        let ends = points[0].1.min(points[points.len() - 1].1);
        assert!(top > 0.98 && ends < 0.03, "{arguments}: {name}");
        assert!(points.iter().all(|p| (0.0..=1.0).contains(&p.1)));
    }
    curves
}

#[track_caller]
fn follows(curves: &Curves, name: &str, formula: impl Fn(f64) -> f64) {
    for &(x, found) in &curves[name] {
        let expected = formula(x);
        assert!(
            (found - expected).abs() < TOLERANCE,
            "{name} at {x}: {found} {expected}"
        );
    }
}

/// `(λ/x)^-nλ exp(-n(x-λ))`, the relative likelihood of a rate.
fn rate(n: f64, mean: f64) -> impl Fn(f64) -> f64 {
    move |x| (n * (mean * (x / mean).ln() - (x - mean))).exp()
}

#[test]
fn exported_curves_follow_their_formulas() {
    let place = Place::new()
        .with("k.csv", "k,g\n2,\"a,b\"\n3,\"a,b\"\n7,c\n9,c\n")
        .with("x.csv", "x,y\n1,5\n2,4\n6,9\n")
        .with("cov.csv", "x,y\n2,1\n1,3\n");
    let curves = export(&place, "poisson k.csv --column k --alpha 0.3");
    assert_eq!(curves.keys().collect::<Vec<_>>(), ["rate"]);
    follows(&curves, "rate", rate(4.0, 5.25));
    // mode and ends of the cut are among the points
    assert!(curves["rate"].contains(&(5.25, 1.0)));
    let at_level = |p: &&(f64, f64)| (p.1 - 0.3).abs() < TOLERANCE;
    assert_eq!(curves["rate"].iter().filter(at_level).count(), 2);

    let curves = export(&place, "poisson k.csv --column k --by g");
    follows(&curves, "\"rate[a,b]\"", rate(2.0, 2.5));
    follows(&curves, "rate[c]", rate(2.0, 8.0));

    let curves = export(&place, "categorical k.csv --column g");
    let half = |p: f64| (4.0 * p * (1.0 - p)).powi(2);
    follows(&curves, "p[c]", half);
    follows(&curves, "\"p[a,b]\"", half);

    let curves = export(&place, "multivariate-normal x.csv --covariance cov.csv");
    follows(&curves, "mean[x]", |x| (-0.75 * (x - 3.0).powi(2)).exp());
    follows(&curves, "mean[y]", |y| (-0.5 * (y - 6.0).powi(2)).exp());
}

#[test]
fn exported_profiles_of_regressions_follow_their_formulas() {
    let place = Place::new()
        .with("x.csv", "x\n1\n2\n6\n")
        .with("l.csv", "y\n1\n1\n1\n0\n");
    // mean 3, sum of squares 14: the profile of the mean, and that of the variance
    let z2 = |x: f64| (x - 3.0).powi(2) / (14.0 / 3.0);
    let curves = export(&place, "normal x.csv");
    assert_eq!(curves.keys().collect::<Vec<_>>(), ["mean", "variance"]);
    follows(&curves, "mean", |x| (1.0 + z2(x)).powf(-1.5));
    follows(&curves, "variance", |v| {
        let ratio = 14.0 / 3.0 / v;
        (ratio * (1.0 - ratio).exp()).powf(1.5)
    });
    // Student's law with two degrees of freedom has a closed form: t² = 2 z²
    let curves = export(&place, "normal x.csv --valid");
    follows(&curves, "mean", |x| {
        let t2 = 2.0 * z2(x);
        1.0 - (t2 / (2.0 + t2)).sqrt()
    });
    assert!(curves.contains_key("variance"));
    // a logistic regression on a constant: the relative likelihood of p
    let curves = export(&place, "logistic l.csv --target y");
    follows(&curves, "intercept", |b| {
        let p = 1.0 / (1.0 + (-b).exp());
        p.powi(3) * (1.0 - p) / (0.75_f64.powi(3) * 0.25)
    });
}

#[test]
fn a_posterior_that_was_merged_is_exported_too() {
    let place = Place::new()
        .with("a.csv", "k\n2\n3\n")
        .with("b.csv", "k\n7\n");
    for part in ["a", "b"] {
        place.succeed(&format!("infer poisson {part}.csv --save {part}.json"));
    }
    let curves = export(&place, "merge a.json b.json");
    follows(&curves, "rate", rate(3.0, 4.0));
}

/// The texts of a picture, each in one line.
fn texts(place: &Place, file: &str) -> String {
    let svg = place.text(file);
    assert!(!svg.contains("NaN"), "{file}");
    svg.replace('\n', "")
        .replace("&gt;", ">")
        .replace("&lt;", "<")
        .replace("&quot;", "\"")
}

/// Command lines, and the words of their pictures.
const PICTURES: &str = r#"
poisson d.csv --column k --alpha 0.3 --alpha 0.02 --alpha 0.7 --coverage 0.9 => d.csv, column "k" & 0.3-cut & 0.02-cut & 0.7-cut & 0.258523-cut
poisson d.csv --column k --event rate>6 --event rate=5 => rate>6: possibility 0.822143, necessity 0 & rate=5: possibility 0.975707, necessity 0
poisson d.csv --column k --by g --event rate>6 --event rate[a]<rate[b] => d.csv, column "k" by "g" & rate>6: possibility  & rate[a]<rate[b]: possibility 1, necessity 0.
linear d.csv --target k --covariates x --event x>0 --event variance<9 => d.csv, target "k" & x>0: possibility 1 & variance<9: possibility 1
multivariate-normal d.csv --covariance cov.csv --event k>5 --event k>x => d.csv, columns k, x & k>5: possibility 1 & k>x: possibility 1
"#;

#[test]
fn pictures_name_data_levels_and_events() {
    let place = Place::new()
        .with("d.csv", "k,g,x\n2,a,1\n3,a,2\n7,b,5\n9,b,3\n")
        .with("cov.csv", "k,x\n1,0\n0,1\n");
    for line in PICTURES.trim().lines() {
        let (arguments, words) = line.split_once(" => ").unwrap();
        place.succeed(&format!("infer {arguments} --plot p.svg --forest f.svg"));
        let svg = texts(&place, "p.svg");
        for word in words.split(" & ") {
            assert!(svg.contains(word), "{arguments}: {word}");
        }
        assert!(texts(&place, "f.svg").contains("d.csv, "), "{arguments}");
    }
    // without events the signs that a regression reports are not drawn
    place.succeed("infer linear d.csv --target k --covariates x --plot p.svg");
    assert!(!texts(&place, "p.svg").contains("necessity"));
}

#[test]
fn reports_explain_their_symbols_and_print_no_noise() {
    let place = Place::new()
        .with("x.csv", "x,g,y\n0.1,a,1\n0.2,a,0\n-0.3,a,1\n")
        .with("c.csv", "c\na\nb\n");
    let scalar = place.run("infer poisson x.csv --column y");
    scalar.stdout_has("(lambda: mean statistic of data and prior; nu: ");
    let vector = place.run("infer categorical c.csv");
    vector.stdout_has("(nu: observations that data and prior are worth)");
    for arguments in [
        "normal x.csv --column x --variance 1",
        "normal x.csv --column x --variance 1 --parameter natural",
        "normal x.csv --column x",
        "normal x.csv --column x --by g",
    ] {
        let stdout = place
            .succeed(&format!("infer {arguments} --plot p.svg"))
            .stdout;
        for noise in ["e-16", "e-17", "e-18"] {
            // a certificate is small in earnest
            let mut lines = stdout.lines().filter(|line| !line.contains("certified"));
            assert!(!lines.any(|line| line.contains(noise)), "{stdout}");
        }
        assert!(texts(&place, "p.svg").contains("mode 0<"), "{arguments}");
    }
    // programs get what was computed
    let report = place.json("infer normal x.csv --column x --variance 1");
    let mode = report["mode"].as_f64().unwrap();
    assert!(mode != 0.0 && mode.abs() < 1e-16, "{mode}");
}

#[test]
fn mistakes_about_exports_write_nothing() {
    let place = Place::new()
        .with("d.csv", "k\n2\n3\n")
        .with("t.csv", "y,x\n1,0\n0,1\n");
    std::fs::create_dir(place.path("folder.csv")).unwrap();
    let events: String = (0..25).map(|i| format!(" --event rate>{i}")).collect();
    let many = format!("poisson d.csv{events} --plot p.svg --export c.csv");
    let lines = r#"
poisson d.csv --export => --export
poisson d.csv --export c.txt => c.txt & .csv
poisson d.csv --export curve => curve & .csv
poisson d.csv --export none/c.csv => no folder none
poisson d.csv --export folder.csv => folder.csv & is a folder
poisson d.csv --export c.csv --event rate> => event "rate>"
predict logistic t.csv --target y --new t.csv --export c.csv => --export
"#;
    place.refuse_each("infer *", lines);
    place.refuse_each(
        "infer *",
        &format!("{many} => --plot: 25 events do not fit"),
    );
}
