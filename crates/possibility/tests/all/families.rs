//! Golden numbers of the exponential and conjugate families.

use crate::{CLOSED_FORM, NUMERICAL, assert_absolute, cases};
use golden::{Value, assert_close, assert_number, matrix, number, numbers};
use possibility::family::conjugate::{
    Bernoulli, Categorical, Conjugate, ConjugateFamily, Exponential, NormalNoise, Parameter,
    Poisson, ScalarFamily,
};
use possibility::family::exponential::{
    BernoulliStyle, ExponentialForm, NormalStyle, PointMassStyle, PoissonStyle,
};
use possibility::set::{Interval, RealSet};
use possibility::{Measure, Mode, Possibility, Univariate};

/// The items of a list that may be absent.
fn items<'a>(case: &'a Value, key: &str) -> &'a [Value] {
    case[key].as_array().map_or(&[], Vec::as_slice)
}

fn cut_ends(g: &impl Univariate, alpha: f64) -> (f64, f64) {
    let cut = g.cut(alpha).unwrap();
    (cut.lower(), cut.upper())
}

fn assert_event(what: &str, g: &impl Measure<RealSet>, set: &RealSet, event: &Value) {
    let possibility = g.possibility_of(set).unwrap();
    assert_number(what, possibility, &event["possibility"], CLOSED_FORM);
    let necessity = g.necessity_of(set).unwrap();
    assert_number(what, necessity, &event["necessity"], CLOSED_FORM);
}

#[test]
fn golden_bernoulli_style() {
    for case in cases("bernoulli_style") {
        let natural = numbers(&case["lambda"]);
        let f = BernoulliStyle::new([natural[0], natural[1]]).unwrap();
        let eta_form = BernoulliStyle::from_eta(number(&case["eta"])).unwrap();
        assert_number("A", f.log_partition(), &case["A"], CLOSED_FORM);
        assert_number("eta", f.eta(), &case["eta"], CLOSED_FORM);
        let of_eta = f.log_partition_of_eta();
        assert_number("A_eta", of_eta, &case["A_eta"], CLOSED_FORM);
        let of_eta = eta_form.log_partition();
        assert_number("A_eta", of_eta, &case["A_eta"], CLOSED_FORM);
        for g in [f, eta_form] {
            let (zero, one) = g.possibilities();
            assert_number("alpha0", zero, &case["alpha0"], CLOSED_FORM);
            assert_number("alpha1", one, &case["alpha1"], CLOSED_FORM);
        }
    }
}

/// Ends agree, or differ by counts whose possibility is exactly `alpha`: the generator decides such
/// a tie by the rounding of its logarithms, we include it.
fn assert_cut_end(f: &PoissonStyle, got: u64, want: f64, alpha: f64) {
    let want = want as u64;
    for k in got.min(want)..=got.max(want) {
        let tie = (f.possibility(&k) / alpha - 1.0).abs() < 1e-15;
        assert!(
            got == want || k == want || tie,
            "rate {}, alpha {alpha}: {got} instead of {want}",
            f.rate()
        );
    }
}

#[test]
fn golden_poisson_style() {
    for case in cases("poisson_style") {
        let f = PoissonStyle::new(number(&case["rate"])).unwrap();
        assert_number("lambda", f.natural()[0], &case["lambda"], CLOSED_FORM);
        assert_eq!(f.floor() as f64, number(&case["floor"]));
        assert_number("A", f.log_partition(), &case["A"], CLOSED_FORM);
        let modes: Vec<f64> = match f.mode() {
            Mode::Point(mode) => vec![mode as f64],
            Mode::Finite(modes) => modes.iter().map(|&mode| mode as f64).collect(),
            other => panic!("{other:?}"),
        };
        assert_eq!(modes, numbers(&case["modes"]));
        for (k, want) in items(&case, "possibility").iter().enumerate() {
            let got = f.possibility(&(k as u64));
            assert_number("possibility", got, want, CLOSED_FORM);
        }
        for (k, want) in items(&case, "B").iter().enumerate() {
            assert_number("B", f.base(&(k as u64)), want, CLOSED_FORM);
        }
        for cut in items(&case, "alpha_cuts") {
            let found = f.alpha_cut(number(&cut["alpha"])).unwrap();
            assert_cut_end(
                &f,
                *found.start(),
                number(&cut["low"]),
                number(&cut["alpha"]),
            );
            assert_cut_end(
                &f,
                *found.end(),
                number(&cut["high"]),
                number(&cut["alpha"]),
            );
        }
    }
}

#[test]
fn golden_normal_style() {
    for case in cases("normal_style") {
        let sigma = number(&case["sigma"]);
        let g = NormalStyle::new(number(&case["mu"]), sigma * sigma).unwrap();
        for point in items(&case, "points") {
            let got = g.possibility(&number(&point["theta"]));
            assert_number("possibility", got, &point["possibility"], CLOSED_FORM);
        }
        for cut in items(&case, "alpha_cuts") {
            let (low, high) = cut_ends(&g, number(&cut["alpha"]));
            let want = [number(&cut["low"]), number(&cut["high"])];
            assert_close("alpha cut", &[low, high], &want, CLOSED_FORM);
        }
        for event in items(&case, "intervals") {
            let ends = numbers(&event["interval"]);
            let set = Interval::closed(ends[0], ends[1]).unwrap().into();
            assert_event("interval", &g, &set, event);
        }
    }
}

#[test]
fn golden_point_mass_style() {
    for case in cases("point_mass_style") {
        let natural = numbers(&case["lambda"]);
        let g = PointMassStyle::new([natural[0], natural[1]]).unwrap();
        assert_number("A", g.log_partition(), &case["A"], CLOSED_FORM);
        for point in items(&case, "points") {
            let theta = number(&point["theta"]);
            let want = &point["possibility"];
            assert_number("possibility", g.possibility(&theta), want, CLOSED_FORM);
            let by_parts = g.exponential_form(&theta).exp();
            assert_number("exponential form", by_parts, want, CLOSED_FORM);
        }
    }
}

/// Runs a check with the family that a case names.
macro_rules! with_family {
    ($case:expr, $family:ident => $scalar:expr, $vector:expr) => {
        match $case["family"].as_str().expect("a family name") {
            "bernoulli" => {
                let $family = Bernoulli;
                $scalar
            }
            "poisson" => {
                let $family = Poisson;
                $scalar
            }
            "exponential" => {
                let $family = Exponential;
                $scalar
            }
            "normal" => {
                let $family = NormalNoise::new(number(&$case["known_variance"])).unwrap();
                $scalar
            }
            "categorical3" => {
                let $family = Categorical::new(3).unwrap();
                $vector
            }
            other => panic!("unknown family {other}"),
        }
    };
}

#[test]
fn golden_bregman() {
    fn check<F: ConjugateFamily + Clone>(family: F, case: &Value) {
        let (theta, eta) = (numbers(&case["theta"]), numbers(&case["eta"]));
        for (natural, a, mean, dual) in [
            (&theta, "A_theta", "lambda_theta", "dual_A_lambda_theta"),
            (&eta, "A_eta", "lambda_eta", "dual_A_lambda_eta"),
        ] {
            family.check_natural(natural).unwrap();
            let got = family.log_partition_at(natural);
            assert_number(a, got, &case[a], CLOSED_FORM);
            let got = family.mean_at(natural);
            assert_close(mean, &got, &numbers(&case[mean]), CLOSED_FORM);
            assert_number(
                dual,
                family.dual_of_natural_at(natural),
                &case[dual],
                CLOSED_FORM,
            );
            // the mean parameter is rounded on its way
            assert_absolute(dual, family.dual_at(&got), &case[dual], CLOSED_FORM);
        }
        let there = family.bregman_between(&theta, &eta);
        assert_number("there", there, &case["bregman_theta_eta"], CLOSED_FORM);
        let back = family.bregman_between(&eta, &theta);
        assert_number("back", back, &case["bregman_eta_theta"], CLOSED_FORM);
        let want = &case["log_possibility_theta_given_eta_mode"];
        assert_number("log possibility", 0.0 - there, want, CLOSED_FORM);
        // the mean parameter is rounded on its way
        let g = Conjugate::new(family.clone(), &family.mean_at(&eta), 1.0).unwrap();
        assert_absolute(
            "log possibility",
            g.log_possibility(&theta),
            want,
            CLOSED_FORM,
        );
    }
    for case in cases("bregman") {
        with_family!(case, family => check(family, &case), check(family, &case));
    }
}

/// The prior of a case: uninformative, or `g_λ^ν`.
fn prior<F: ConjugateFamily>(family: F, case: &Value) -> Conjugate<F> {
    let weight = number(&case["prior"]["nu"]);
    if weight > 0.0 {
        Conjugate::new(family, &numbers(&case["prior"]["lambda"]), weight).unwrap()
    } else {
        Conjugate::uninformative(family)
    }
}

fn check_conjugate<F: ConjugateFamily + Clone>(posterior: &Conjugate<F>, case: &Value) {
    let name = case["name"].as_str().expect("a name");
    let family = posterior.family();
    let weight = posterior.weight();
    assert_number(name, weight, &case["posterior"]["nu"], CLOSED_FORM);
    let mean = posterior.mean_statistic().unwrap();
    let want = numbers(&case["posterior"]["lambda"]);
    assert_close(name, mean, &want, CLOSED_FORM);
    let dual = family.dual_at(mean);
    assert_number(name, dual, &case["dual_A_at_lambda"], CLOSED_FORM);
    let Mode::Point(mode) = posterior.mode(Parameter::Natural) else {
        panic!("{name}: no mode");
    };
    let want = numbers(&case["mode"]);
    // a mode near zero is the log of a ratio near one: the rounding of the ratio decides it
    let rounding = |g: &f64, w: &f64| (g - w).abs() <= 4.0 * f64::EPSILON;
    if !mode.iter().zip(&want).all(|(g, w)| rounding(g, w)) {
        assert_close(name, &mode, &want, CLOSED_FORM);
    }
    assert_eq!(posterior.mode(Parameter::Mean), Mode::Point(mean.to_vec()));
    match posterior.precision(Parameter::Natural) {
        Some(got) => {
            let got: Vec<f64> = (0..got.nrows())
                .flat_map(|i| (0..got.ncols()).map(move |j| (i, j)))
                .map(|at| got[at])
                .collect();
            assert_close(
                name,
                &got,
                &matrix(&case["precision"]).concat(),
                CLOSED_FORM,
            );
        }
        None => {
            assert!(case["precision"].is_null(), "{name}: no precision");
            assert!(posterior.precision(Parameter::Mean).is_none());
        }
    }
    let mut found: [Vec<f64>; 6] = Default::default();
    let mut wanted: [Vec<f64>; 6] = Default::default();
    for point in items(case, "points") {
        let theta = numbers(&point["theta"]);
        assert_number(
            name,
            family.log_partition_at(&theta),
            &point["A"],
            CLOSED_FORM,
        );
        let at = family.mean_at(&theta);
        assert_close(name, &at, &numbers(&point["grad_A"]), CLOSED_FORM);
        found[0].push(posterior.log_possibility(&theta));
        // the mean parameter holds the point up to its own rounding, which is coarse near the
        // boundary
        let back = family.natural_at(&at);
        let holds = theta
            .iter()
            .zip(&back)
            .all(|(t, b)| (t - b).abs() <= 1e-13 * t.abs().max(1.0));
        let at_mean = posterior.log_possibility_at_mean(&at);
        found[1].push(if holds {
            at_mean
        } else {
            found[0][found[0].len() - 1]
        });
        if back.iter().all(|b| b.is_finite()) {
            let there = posterior.log_possibility(&back);
            let scale = there.abs().max(1e-3);
            assert!(
                (at_mean - there).abs() <= 1e-9 * scale,
                "{name}: {at_mean} {there}"
            );
        }
        found[2].push(posterior.possibility(&theta));
        let log_possibility = number(&point["log_possibility"]);
        wanted[0].push(log_possibility);
        wanted[1].push(log_possibility);
        wanted[2].push(number(&point["possibility"]));
        if !point["bregman_to_mode"].is_null() {
            found[3].push(family.bregman_between(&theta, &mode));
            found[4].push(family.divergence_at(mean, &theta));
            let between = family.divergence_between_means_at(mean, &at);
            found[5].push(if holds {
                between
            } else {
                found[4][found[4].len() - 1]
            });
            for list in &mut wanted[3..] {
                list.push(number(&point["bregman_to_mode"]));
            }
        }
    }
    // a point next to the mode has a log that the rounding of the mode decides: compared as vectors
    for (got, want) in found.iter().zip(&wanted) {
        assert_close(name, got, want, CLOSED_FORM);
    }
}

/// Cuts and events in one dimension, in both parameters.
fn check_scalar<F: ScalarFamily + Clone>(posterior: &Conjugate<F>, case: &Value) {
    let name = case["name"].as_str().expect("a name");
    check_conjugate(posterior, case);
    let family = posterior.family();
    let natural = posterior.in_parameter(Parameter::Natural);
    let mean = posterior.in_parameter(Parameter::Mean);
    for cut in items(case, "alpha_cuts") {
        let alpha = number(&cut["alpha"]);
        let (low, high) = cut_ends(&natural, alpha);
        let (mean_low, mean_high) = cut_ends(&mean, alpha);
        // the generator's bisection leaves 1e-36 where the end is zero
        let end = |key: &str| Some(number(&cut[key])).filter(|x| x.abs() > 1e-30);
        let (mut got, mut want) = (vec![low], vec![end("low").unwrap_or(0.0)]);
        let mut got_mean = vec![mean_low];
        if cut["high"].is_null() {
            // nearer to the end of the domain than the generator looked
            let mode = numbers(&case["mode"])[0];
            assert!(high >= mode * 1e-12 && high <= 0.0, "{name}: {high}");
        } else {
            got.push(high);
            got_mean.push(mean_high);
            want.push(end("high").unwrap_or(0.0));
        }
        assert_close(name, &got, &want, NUMERICAL);
        let want_mean: Vec<f64> = want.iter().map(|&x| family.mean_of(x)).collect();
        assert_close(name, &got_mean, &want_mean, NUMERICAL);
    }
    for event in items(case, "intervals") {
        let ends = numbers(&event["interval"]);
        let set = Interval::closed(ends[0], ends[1]).unwrap().into();
        assert_event(name, &natural, &set, event);
        let natural_ends = ends.clone();
        let ends = [family.mean_of(ends[0]), family.mean_of(ends[1])];
        // near the boundary the mean parameter rounds an end away
        let rounded = ends.iter().zip(&natural_ends).any(|(&mean, natural)| {
            (family.natural_of(mean) - natural).abs() > 1e-13 * natural.abs().max(1.0)
        });
        if rounded {
            continue;
        }
        let set = Interval::closed(ends[0], ends[1]).unwrap().into();
        assert_event(name, &mean, &set, event);
    }
}

#[test]
fn golden_conjugate() {
    for case in cases("conjugate") {
        let observations = numbers(&case["observations"]);
        with_family!(
            case,
            family => check_scalar(&prior(family, &case).observe(&observations).unwrap(), &case),
            {
                let classes: Vec<usize> = observations.iter().map(|&x| x as usize).collect();
                check_conjugate(&prior(family, &case).observe(&classes).unwrap(), &case);
            }
        );
    }
}
