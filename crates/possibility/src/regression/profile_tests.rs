//! Profiles against closed forms, golden numbers and laws.

use golden::number;
use proptest::prelude::*;

use super::tests::{build, with_prior};
use super::*;
use crate::function::Possibility;
use crate::set::{Interval, RealSet};

/// Rows of covariates with their responses, an intercept before them.
fn design(response: Response, rows: &[(Vec<f64>, f64)]) -> Design {
    let mut design = Design::with_intercept(response, rows[0].0.len());
    for (x, y) in rows {
        design.push(x, *y).unwrap();
    }
    design
}

fn unknown_variance(columns: usize) -> Regression {
    let config = RegressionConfig {
        dispersion: Dispersion::Unknown,
        ..with_prior(PriorPrecision::Scalar(0.0))
    };
    config.build(columns).unwrap()
}

/// The golden numbers come from extended precision (`golden/generate/gen_regression.py`).
const GOLDEN: f64 = 1e-9;

#[test]
fn golden_regression() {
    for case in golden::cases("regression/profiles.json") {
        let name = case["name"].as_str().unwrap();
        let what = |field: &str| format!("{name}: {field}");
        let response = match case["response"].as_str().unwrap() {
            "bernoulli" => Response::Bernoulli,
            "poisson" => Response::Poisson,
            "normal" => Response::Normal,
            other => panic!("unknown response {other}"),
        };
        let rows = golden::matrix(&case["x"]);
        let responses = golden::numbers(&case["y"]);
        let rows: Vec<(Vec<f64>, f64)> = rows.into_iter().zip(responses).collect();
        let design = design(response, &rows);
        let config = RegressionConfig {
            dispersion: golden::optional(&case["variance"])
                .map_or(Dispersion::Unknown, Dispersion::Known),
            ..with_prior(PriorPrecision::Diagonal(golden::numbers(
                &case["prior_precision"],
            )))
        };
        let model = config.build(design.columns()).unwrap();
        let posterior = model.fit(&design).unwrap();
        golden::assert_close(
            &what("mode"),
            posterior.mode(),
            &golden::numbers(&case["mode"]),
            GOLDEN,
        );
        golden::assert_number(
            &what("log consistency"),
            posterior.log_consistency(),
            &case["log_consistency"],
            GOLDEN,
        );
        let profiles = Profiles::new(&model, &design, &posterior).unwrap();
        for profile in golden::list(&case["profiles"]) {
            let form = golden::numbers(&profile["form"]);
            for point in golden::list(&profile["points"]) {
                let target = Target::Value(number(&point["value"]));
                let got = profiles.solve(&[(&form, target)]).unwrap()[0];
                let want = number(&point["log_possibility"]);
                // in the log, so that small possibilities are held to as many digits
                let allowed = GOLDEN * want.abs().max(1.0);
                golden::assert_within(&what("point"), &[got.log_possibility], &[want], allowed);
                assert!(got.gap.is_some_and(|gap| gap < allowed), "{name}: {got:?}");
            }
            let questions = FormQuestions {
                form: form.clone(),
                alphas: vec![0.05],
                ..FormQuestions::default()
            };
            let answers = profiles.answer(&[questions]).unwrap();
            assert!(
                answers[0].gap.is_some_and(|gap| gap < GOLDEN),
                "{name}: {answers:?}"
            );
            for cut in golden::list(&profile["cuts"]) {
                let got = profiles.cut(&form, number(&cut["alpha"])).unwrap();
                let want = [number(&cut["lower"]), number(&cut["upper"])];
                golden::assert_close(&what("cut"), &[got.lower(), got.upper()], &want, GOLDEN);
            }
        }
    }
}

#[test]
fn the_slope_of_four_separated_points_by_hand() {
    // with x = 0 the profile is the best intercept alone: two of four labels are 1
    let rows = [(1.0, 0.0), (2.0, 0.0), (3.0, 1.0), (4.0, 1.0)].map(|(x, y)| (vec![x], y));
    let design = design(Response::Bernoulli, &rows);
    let model = build(PriorPrecision::Diagonal(vec![0.0, 1e-6]), 2);
    let posterior = model.fit(&design).unwrap();
    let profiles = Profiles::new(&model, &design, &posterior).unwrap();
    let at_zero = profiles
        .solve(&[(&[0.0, 1.0], Target::Value(0.0))])
        .unwrap()[0];
    let by_hand = -4.0 * std::f64::consts::LN_2 - posterior.log_consistency();
    assert!((at_zero.log_possibility - by_hand).abs() < 1e-12);
    assert!(at_zero.gap.unwrap() < 1e-12);
    let positive = profiles.credence_of(&[0.0, 1.0], 0.0..).unwrap();
    assert!((positive.necessity - 0.937_482_871_7).abs() < 1e-9);
}

#[test]
fn without_a_prior_separated_data_are_refused() {
    let separated: Vec<(Vec<f64>, f64)> = (1..=6)
        .map(|i| (vec![f64::from(i)], f64::from(u8::from(i > 3))))
        .collect();
    let no_prior = build(PriorPrecision::Scalar(0.0), 2);
    let refuse = |model: &Regression, response, rows: &[(Vec<f64>, f64)]| {
        let error = model.fit(&design(response, rows)).unwrap_err();
        assert!(matches!(error, Error::NoMode { .. }), "{error}");
    };
    refuse(&no_prior, Response::Bernoulli, &separated);
    let one_class: Vec<(Vec<f64>, f64)> = separated.iter().map(|(x, _)| (x.clone(), 1.0)).collect();
    refuse(&no_prior, Response::Bernoulli, &one_class);
    // a group without a single count
    let empty_group = [(0.0, 3.0), (0.0, 2.0), (1.0, 0.0), (1.0, 0.0)].map(|(x, y)| (vec![x], y));
    refuse(&no_prior, Response::Poisson, &empty_group);
    // a column that is constant, and so a multiple of the intercept
    let constant: Vec<(Vec<f64>, f64)> = separated
        .iter()
        .map(|(x, _)| (vec![2.0], x[0] % 2.0))
        .collect();
    assert!(matches!(
        no_prior.fit(&design(Response::Bernoulli, &constant)),
        Err(Error::NotPositiveDefinite { .. })
    ));
    // exact fits leave no variance
    let line: Vec<(Vec<f64>, f64)> = separated
        .iter()
        .map(|(x, _)| (x.clone(), 2.0 * x[0] + 1.0))
        .collect();
    let model = unknown_variance(2);
    refuse(&model, Response::Normal, &line);
    assert!(matches!(
        model.fit(&design(Response::Bernoulli, &separated)),
        Err(Error::Unsupported { .. })
    ));
}

#[test]
fn the_mean_of_numbers_of_unknown_variance_by_hand() {
    // 1, 2, 6: mean 3, squares 4 + 1 + 9 = 14
    let mut design = Design::with_intercept(Response::Normal, 0);
    for y in [1.0, 2.0, 6.0] {
        design.push(&[], y).unwrap();
    }
    let model = unknown_variance(1);
    let posterior = model.fit(&design).unwrap();
    assert!((posterior.dispersion() - 14.0 / 3.0).abs() < 1e-14);
    let profiles = Profiles::new(&model, &design, &posterior).unwrap();
    // around 0 the squares sum to 41
    let at_zero = profiles.solve(&[(&[1.0], Target::Value(0.0))]).unwrap()[0];
    let want = -1.5 * (41.0f64 / 14.0).ln();
    assert!((at_zero.log_possibility - want).abs() < 1e-14);
    let cut = profiles.cut(&[1.0], want.exp()).unwrap();
    assert!(cut.lower().abs() < 1e-13 && (cut.upper() - 6.0).abs() < 1e-13);
    let likelihood = -1.5 * ((2.0 * std::f64::consts::PI * 14.0 / 3.0).ln() + 1.0);
    assert!((posterior.log_consistency() - likelihood).abs() < 1e-13);
    // and the variance itself: at twice its mode, ½ e^½ to the power n/2
    let variance = posterior.dispersion_profile().unwrap();
    let spread = variance
        .coordinate(0, crate::family::conjugate::Parameter::Mean)
        .unwrap();
    let twice = spread.log_possibility(&(28.0 / 3.0));
    assert!((twice - 1.5 * (0.5 - 2f64.ln())).abs() < 1e-13);
}

#[test]
fn a_standardized_prior_is_that_of_standardized_covariates() {
    let rows: Vec<(Vec<f64>, f64)> = [(3.0, 120.0, 0.0), (5.0, 80.0, 1.0), (4.0, 95.0, 1.0)]
        .into_iter()
        .chain([(8.0, 130.0, 0.0), (7.0, 60.0, 1.0)])
        .map(|(a, b, y)| (vec![a, b], y))
        .collect();
    let original = design(Response::Bernoulli, &rows);
    let moments = original.column_moments();
    let scaled: Vec<(Vec<f64>, f64)> = rows
        .iter()
        .map(|(x, y)| {
            let scale = |j: usize| (x[j] - moments.means[j]) / moments.deviations[j];
            (vec![scale(0), scale(1)], *y)
        })
        .collect();
    let scaled = design(Response::Bernoulli, &scaled);
    let prior = PriorPrecision::standardized(&moments, 0.7, Some(0.2)).unwrap();
    let (one, other) = (
        build(prior, 3),
        build(PriorPrecision::Diagonal(vec![0.2, 0.7, 0.7]), 3),
    );
    let (a, b) = (one.fit(&original).unwrap(), other.fit(&scaled).unwrap());
    assert!((a.log_consistency() - b.log_consistency()).abs() < 1e-12);
    for j in 0..2 {
        let back = b.mode()[j + 1] / moments.deviations[j];
        assert!((a.mode()[j + 1] - back).abs() < 1e-10 * back.abs());
    }
    assert!(PriorPrecision::standardized(&moments, -1.0, None).is_err());
    assert!(PriorPrecision::standardized(&moments, 1.0, Some(f64::NAN)).is_err());
}

#[test]
fn what_is_no_question_is_an_error() {
    let rows = [(vec![0.5], 1.0), (vec![-1.0], 0.0)];
    let design = design(Response::Bernoulli, &rows);
    let model = build(PriorPrecision::Scalar(1.0), 2);
    let posterior = model.fit(&design).unwrap();
    let profiles = Profiles::new(&model, &design, &posterior).unwrap();
    assert!(profiles.cut(&[0.0, 0.0], 0.5).is_err());
    assert!(profiles.cut(&[1.0], 0.5).is_err());
    assert!(profiles.cut(&[1.0, f64::INFINITY], 0.5).is_err());
    for alpha in [0.0, -0.1, 1.1, f64::NAN] {
        assert!(profiles.cut(&[0.0, 1.0], alpha).is_err());
    }
    assert!(
        profiles
            .solve(&[(&[0.0, 1.0], Target::Value(f64::NAN))])
            .is_err()
    );
    assert_eq!(
        profiles.cut(&[0.0, 1.0], 1.0).unwrap(),
        Interval::point(posterior.mode()[1]).unwrap()
    );
    let nothing = profiles
        .credence_of(&[0.0, 1.0], &RealSet::empty())
        .unwrap();
    assert_eq!((nothing.possibility, nothing.necessity), (0.0, 0.0));
    for alpha in [0.0, 1.0, f64::NAN] {
        assert!(model.bounds_above(&design, &posterior, alpha).is_err());
    }
}

#[test]
fn a_far_value_is_exact_too() {
    // one column, no data in it: the profile is the prior, at any distance
    let rows = [(vec![0.0], 1.0), (vec![0.0], 0.0)];
    let design = design(Response::Bernoulli, &rows);
    let model = build(PriorPrecision::Diagonal(vec![0.0, 2.0]), 2);
    let posterior = model.fit(&design).unwrap();
    let profiles = Profiles::new(&model, &design, &posterior).unwrap();
    for t in [1e-6, 1.0, 40.0, 1e6] {
        let got = profiles.solve(&[(&[0.0, 1.0], Target::Value(t))]).unwrap()[0];
        let off = (got.log_possibility + t * t).abs();
        assert!(off <= got.gap.unwrap() + 1e-12 * t * t, "{t}: {got:?}");
    }
}

/// A response with rows that it can have; every column varies, and both labels are there.
#[derive(Debug, Clone)]
struct Problem {
    response: Response,
    rows: Vec<(Vec<f64>, f64)>,
    precision: f64,
}

fn problems() -> impl Strategy<Value = Problem> {
    let response = prop::sample::select(vec![
        Response::Bernoulli,
        Response::Poisson,
        Response::Normal,
    ]);
    (response, 1usize..4, 3usize..25, -4.0..1.0f64).prop_flat_map(|(response, d, n, log)| {
        let row = (prop::collection::vec(-2.0..2.0f64, d), 0u8..6);
        prop::collection::vec(row, n).prop_map(move |rows| Problem {
            response,
            rows: rows
                .into_iter()
                .enumerate()
                .map(|(i, (x, y))| match response {
                    Response::Bernoulli if i < 2 => (x, i as f64),
                    Response::Bernoulli => (x, f64::from(y % 2)),
                    _ if i == 0 => (x, 1.0),
                    _ => (x, f64::from(y)),
                })
                .collect(),
            precision: 10f64.powf(log),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_profile_is_a_possibility_function_around_its_mode(
        problem in problems(),
        form in prop::collection::vec(-1.0..1.0f64, 4),
        alpha in 0.01..0.9f64,
    ) {
        let design = design(problem.response, &problem.rows);
        let d = design.columns();
        let mut precision = vec![problem.precision; d];
        precision[0] = 0.0;
        let model = build(PriorPrecision::Diagonal(precision), d);
        let posterior = model.fit(&design).unwrap();
        let profiles = Profiles::new(&model, &design, &posterior).unwrap();
        let mut form = form[..d].to_vec();
        form[d - 1] += 1.5;
        let cut = profiles.cut(&form, alpha).unwrap();
        let wider = profiles.cut(&form, 0.5 * alpha).unwrap();
        prop_assert!(wider.lower() < cut.lower() && cut.upper() < wider.upper());
        let mode = profiles.answer(&[FormQuestions {
            form: form.clone(),
            ..FormQuestions::default()
        }]).unwrap()[0].mode;
        prop_assert!(cut.contains(mode));
        // the ends of a cut have its level, and the slope there is the derivative
        for end in [cut.lower(), cut.upper()] {
            let h = 1e-5 * (end - mode);
            let targets = [end, end - h, end + h].map(|t| (&form[..], Target::Value(t)));
            let [at, below, above] = profiles.solve(&targets).unwrap()[..] else { unreachable!() };
            let gap = at.gap.expect("certified");
            prop_assert!(gap < 1e-9, "gap {}", gap);
            prop_assert!((at.log_possibility - alpha.ln()).abs() < 1e-9, "{:?}", at);
            let slope = (above.log_possibility - below.log_possibility) / (2.0 * h);
            prop_assert!((slope / at.slope - 1.0).abs() < 1e-4, "{} and {:?}", slope, at);
        }
    }

    #[test]
    fn no_point_of_the_hyperplane_is_above_the_profile(
        problem in problems(),
        t in -3.0..3.0f64,
        direction in prop::collection::vec(-1.0..1.0f64, 4),
    ) {
        let design = design(problem.response, &problem.rows);
        let d = design.columns();
        let model = build(PriorPrecision::Scalar(problem.precision), d);
        let posterior = model.fit(&design).unwrap();
        let profiles = Profiles::new(&model, &design, &posterior).unwrap();
        let mut form = vec![0.0; d];
        form[d - 1] = 1.0;
        let at = profiles.solve(&[(&form, Target::Value(t))]).unwrap()[0];
        for reach in [1e-4, 0.1, 1.0, 5.0] {
            let mut point: Vec<f64> = posterior
                .mode()
                .iter()
                .zip(&direction)
                .map(|(m, v)| m + reach * v)
                .collect();
            point[d - 1] = t;
            let there = model.log_possibility(&design, &posterior, &point).unwrap();
            prop_assert!(there <= at.log_possibility + at.gap.unwrap() + 1e-9);
        }
        // a log possibility lies between the bounds that hold down to a level below it
        let level = 0.9 * at.log_possibility.exp();
        let bounds = model.bounds_above(&design, &posterior, level.clamp(1e-9, 0.999));
        if let Ok(bounds) = bounds
            && at.log_possibility > -20.0
            && at.log_possibility < -1e-3
        {
            let bounds = bounds.marginal(&posterior, &form).unwrap();
            let upper = bounds.upper.log_possibility(&t);
            let lower = bounds.lower.log_possibility(&t);
            prop_assert!(lower <= at.log_possibility + 1e-9, "{} {:?}", lower, at);
            prop_assert!(at.log_possibility <= upper + 1e-9, "{} {:?}", upper, at);
            let cut = profiles.cut(&form, 0.95 * at.log_possibility.exp()).unwrap();
            let (inner, outer) = bounds.cut(0.95 * at.log_possibility.exp()).unwrap();
            let slack = 1e-9 * (1.0 + cut.width());
            prop_assert!(outer.lower() <= cut.lower() + slack);
            prop_assert!(cut.upper() <= outer.upper() + slack);
            prop_assert!(cut.lower() <= inner.lower() + slack);
            prop_assert!(inner.upper() <= cut.upper() + slack);
        }
    }

    #[test]
    fn company_and_units_change_nothing(problem in problems(), scale in 0.01..100.0f64) {
        prop_assume!(problem.response != Response::Normal);
        let model = |unit: f64, d: usize| {
            let mut precision = vec![problem.precision; d];
            precision[0] = 0.0;
            precision[1] *= unit * unit;
            build(PriorPrecision::Diagonal(precision), d)
        };
        let original = design(problem.response, &problem.rows);
        let d = original.columns();
        let scaled: Vec<(Vec<f64>, f64)> = problem
            .rows
            .iter()
            .map(|(x, y)| {
                let mut x = x.clone();
                x[0] *= scale;
                (x, *y)
            })
            .collect();
        let scaled = design(problem.response, &scaled);
        let (first, second) = (model(1.0, d), model(scale, d));
        let (a, b) = (first.fit(&original).unwrap(), second.fit(&scaled).unwrap());
        let one = Profiles::new(&first, &original, &a).unwrap();
        let other = Profiles::new(&second, &scaled, &b).unwrap();
        let form: Vec<f64> = (0..d).map(|j| f64::from(u8::from(j == 1))).collect();
        let (x, y) = (one.cut(&form, 0.1).unwrap(), other.cut(&form, 0.1).unwrap());
        let slack = 1e-7 * (x.lower().abs() + x.upper().abs());
        prop_assert!((x.lower() - scale * y.lower()).abs() <= slack);
        prop_assert!((x.upper() - scale * y.upper()).abs() <= slack);
        // alone or together: the same bits
        let targets = [Target::UpperEnd(0.1), Target::Value(0.3), Target::LowerEnd(0.4)];
        let together = one.solve(&targets.map(|target| (&form[..], target))).unwrap();
        for (target, point) in targets.into_iter().zip(together) {
            prop_assert_eq!(one.solve(&[(&form, target)]).unwrap()[0], point);
        }
    }

    #[test]
    fn a_drawn_curve_is_close_between_its_points(problem in problems()) {
        let design = design(problem.response, &problem.rows);
        let d = design.columns();
        let model = build(PriorPrecision::Scalar(problem.precision), d);
        let posterior = model.fit(&design).unwrap();
        let profiles = Profiles::new(&model, &design, &posterior).unwrap();
        let mut form = vec![0.0; d];
        form[d - 1] = 1.0;
        let curves = profiles.curves(&[form.clone()], 0.01).unwrap();
        let curve = &curves[0];
        for pair in curve.points().windows(2) {
            let middle = 0.5 * (pair[0].value + pair[1].value);
            let exact = profiles.solve(&[(&form, Target::Value(middle))]).unwrap()[0];
            let drawn = curve.possibility(middle);
            let off = (drawn - exact.log_possibility.exp()).abs();
            prop_assert!(off < 2e-3, "{} instead of {}", drawn, exact.log_possibility.exp());
        }
    }
}

/// Rounding of numbers that are computed in twice the precision, relative to the width of a cut.
const EXACT: f64 = 4e-15;

/// Both ends of the 0.05-cut, each off by a small part of half the width, and what is certified.
fn assert_cut(profiles: &Profiles<'_>, form: &[f64], certified: f64, want: [f64; 2]) {
    let questions = FormQuestions {
        form: form.to_vec(),
        alphas: vec![0.05],
        ..FormQuestions::default()
    };
    let answer = profiles.answer(&[questions]).unwrap().remove(0);
    let half = 0.5 * (want[1] - want[0]);
    for (end, want) in answer.cuts[0].iter().zip(want) {
        let off = (end.value - want).abs();
        assert!(
            off <= EXACT * half + f64::EPSILON * want.abs(),
            "{end:?}: {want}"
        );
    }
    assert!(answer.gap.unwrap() < certified, "{:?}", answer.gap);
}

/// Times in seconds beside a constant term; the numbers come from mpmath with 60 digits.
#[test]
fn a_time_is_as_good_as_its_offset() {
    let responses = [
        3.041, 3.625, 2.859, 3.833, 4.566, 4.211, 5.522, 3.235, 4.347, 3.735, 3.816, 4.576,
    ];
    let rows: Vec<(Vec<f64>, f64)> = (0..)
        .zip(responses)
        .map(|(i, y)| (vec![1.7e9 + 40.0 * f64::from(i)], y))
        .collect();
    let design = design(Response::Normal, &rows);
    let model = unknown_variance(2);
    let posterior = model.fit(&design).unwrap();
    let profiles = Profiles::new(&model, &design, &posterior).unwrap();
    let slope = [-0.0016539801842966532, 0.005958875289191757];
    assert_cut(&profiles, &[0.0, 1.0], 1e-13, slope);
    let intercept = [-10130085.355411906, 2811770.624346639];
    assert_cut(&profiles, &[1.0, 0.0], 1e-13, intercept);
    let first = [2.484933482427739, 4.462322927828671];
    assert_cut(&profiles, &[1.0, 1.7e9], 1e-13, first);
    let negative = profiles.credence_of(&[0.0, 1.0], ..0.0).unwrap();
    assert!((negative.possibility - 0.3233108481028605).abs() < 1e-15);
    // the approximation is the same normal
    let laplace = posterior.laplace_marginal(&[0.0, 1.0]).unwrap();
    let known = 0.5 * (slope[1] - slope[0]) / (12.0 * (0.05f64.ln() / -6.0).exp_m1()).sqrt();
    assert!((laplace.standard_deviation() / known - 1.0).abs() < 1e-14);
    // the slope knows nothing of the offset, as long as the differences are numbers
    for shift in [-1.7e9, 1e12, 2f64.powi(55)] {
        let shifted: Vec<_> = rows.iter().map(|(x, y)| (vec![x[0] + shift], *y)).collect();
        let design = self::design(Response::Normal, &shifted);
        let posterior = model.fit(&design).unwrap();
        let profiles = Profiles::new(&model, &design, &posterior).unwrap();
        assert_cut(&profiles, &[0.0, 1.0], 1e-13, slope);
    }
}

/// Powers of `k/16`, `k = 0, …, 16`, from mpmath with 60 digits.
#[test]
fn powers_keep_their_digits() {
    let mut rows = Vec::new();
    for k in 0..17 {
        let x = f64::from(k) / 16.0;
        let powers = (1..9).map(|j| x.powi(j)).collect();
        rows.push((powers, f64::from((k * k * 7) % 11) / 4.0));
    }
    let design = design(Response::Normal, &rows);
    let model = unknown_variance(9);
    let posterior = model.fit(&design).unwrap();
    let profiles = Profiles::new(&model, &design, &posterior).unwrap();
    let mut last = [0.0; 9];
    last[8] = 1.0;
    assert!((posterior.mode()[8] / 6301.1301238603755 - 1.0).abs() < 1e-15);
    assert!((17.0 * posterior.dispersion() / 6.767872526585005 - 1.0).abs() < 1e-15);
    assert_cut(
        &profiles,
        &last,
        0.05,
        [-13348.604838575819, 25950.86508629657],
    );
    let at_three = [0.34333073682397575, 2.7042194045140238];
    assert_cut(&profiles, &design.row(3), 1e-13, at_three);
    let zero = profiles.solve(&[(&last[..], Target::Value(0.0))]).unwrap()[0];
    assert!((zero.log_possibility + 0.3615219173052905).abs() < 1e-15);
    assert!(zero.gap.unwrap() < 1e-14);
}

/// Weights, a known variance and a prior beside times, from mpmath with 60 digits.
#[test]
fn weights_and_priors_keep_the_digits_of_times() {
    let time = |k: i32| 1.7e9 + 5.0 * f64::from(k);
    let response = |k: i32| f64::from((5 * k) % 7) / 2.0;
    let fit = |config: &RegressionConfig, design: &Design| {
        let config = RegressionConfig {
            dispersion: Dispersion::Known(0.75),
            ..config.clone()
        };
        let model = config.build(2).unwrap();
        let posterior = model.fit(design).unwrap();
        (model, posterior)
    };
    let mut design = Design::with_intercept(Response::Normal, 1);
    let mut plain = design.clone();
    for k in 0..8 {
        let weight = f64::from(1 + k % 3) / 2.0;
        design
            .push_weighted(&[time(k)], response(k), weight)
            .unwrap();
        plain.push(&[time(k)], response(k)).unwrap();
    }
    let config = RegressionConfig {
        prior_mode: Some(vec![0.0, 0.125]),
        ..with_prior(PriorPrecision::Diagonal(vec![0.0, 2000.0]))
    };
    let (model, posterior) = fit(&config, &design);
    let profiles = Profiles::new(&model, &design, &posterior).unwrap();
    let slope = [0.02787004009153431, 0.11495696412787497];
    assert_cut(&profiles, &[0.0, 1.0], 1e-13, slope);
    let row = [0.11320697775148318, 1.8108436551599092];
    assert_cut(&profiles, &[1.0, time(2)], 1e-13, row);
    let squares = 18.967431434599156;
    let weight = design.total_weight();
    let log = -0.5 * (weight * (1.5 * std::f64::consts::PI).ln() + squares / 0.75);
    assert!((posterior.log_consistency() / log - 1.0).abs() < 1e-15);
    // a standardized prior that says something of the constant term as well
    let moments = plain.column_moments();
    assert_eq!(moments.means, [1700000017.5]);
    let prior = PriorPrecision::standardized(&moments, 2.0, Some(0.5)).unwrap();
    let (model, posterior) = fit(&with_prior(prior), &plain);
    let profiles = Profiles::new(&model, &plain, &posterior).unwrap();
    let slope = [-0.0670499388592513, 0.05301485113995305];
    assert_cut(&profiles, &[0.0, 1.0], 1e-11, slope);
    let row = [0.44655608973995004, 2.166169754721951];
    assert_cut(&profiles, &[1.0, time(2)], 1e-11, row);
}

/// What varies in its last digits varies: 26/9 is the variance of -5/3, -2/3 and 7/3.
#[test]
fn responses_far_from_zero_have_a_variance() {
    let mut design = Design::with_intercept(Response::Normal, 0);
    for y in [1e9 + 1.0, 1e9 + 2.0, 1e9 + 5.0] {
        design.push(&[], y).unwrap();
    }
    let posterior = unknown_variance(1).fit(&design).unwrap();
    assert!((posterior.dispersion() - 26.0 / 9.0).abs() < 1e-15);
    assert_eq!(posterior.mode(), [1e9 + 8.0 / 3.0]);
    // a line but for the last bit of decimal numbers
    let rows = (0..9).map(|i| (vec![f64::from(i)], 1e9 + 0.1 * f64::from(i)));
    let design = self::design(Response::Normal, &rows.collect::<Vec<_>>());
    let fitted = unknown_variance(2).fit(&design);
    assert!(matches!(fitted, Err(Error::NoMode { .. })), "{fitted:?}");
}

/// Far in the tail almost every row has settled on a straight line; mpmath with 60 digits.
#[test]
fn events_in_the_tail_are_found() {
    let rows = |rows: [(f64, f64); 4]| rows.map(|(x, y)| (vec![x], y));
    let labels = rows([(1.0, 0.0), (2.0, 0.0), (1.5, 1.0), (30.0, 1.0)]);
    let labels = design(Response::Bernoulli, &labels);
    let counts = rows([(-100.0, 2.0), (100.0, 2.0), (5.0, 1.0), (50.0, 0.0)]);
    let counts = design(Response::Poisson, &counts);
    let of_labels = [
        (19.0, -7.602738748085148),
        (20.0, -8.09894013585511),
        (25.0, -10.589366326580683),
        (30.0, -13.08661499609803),
        (60.0, -28.085509744782666),
        (-5.0, -143.61189584304506),
    ];
    let of_counts = [
        (0.1, -42.67537175219933),
        (0.2, -92.1416502815572),
        (0.3, -141.64142478856186),
        (0.5, -240.64142325911783),
        (1.0, -488.1414232590484),
    ];
    let model = build(PriorPrecision::Scalar(0.0), 2);
    for (design, cases) in [(labels, &of_labels[..]), (counts, &of_counts[..])] {
        let posterior = model.fit(&design).unwrap();
        let profiles = Profiles::new(&model, &design, &posterior).unwrap();
        for &(t, want) in cases {
            let found = profiles.solve(&[(&[0.0, 1.0], Target::Value(t))]).unwrap()[0];
            assert_eq!(found.value, t);
            let off = (found.log_possibility - want).abs();
            assert!(off < 4e-15 * want.abs(), "{t}: {found:?} {want}");
            assert!(
                found.gap.is_none_or(|gap| off <= gap),
                "{t}: {found:?} {off}"
            );
        }
    }
}

/// Forms of any size: the answers of a multiple are multiples.
#[test]
fn huge_and_tiny_forms_are_scaled() {
    let rows: Vec<(Vec<f64>, f64)> = [(1.0, 0.0), (2.0, 1.0), (3.0, 0.0), (4.0, 1.0), (2.5, 1.0)]
        .map(|(x, y)| (vec![x], y))
        .to_vec();
    for response in [Response::Bernoulli, Response::Poisson, Response::Normal] {
        let design = design(response, &rows);
        let model = build(PriorPrecision::Scalar(0.5), 2);
        let posterior = model.fit(&design).unwrap();
        let profiles = Profiles::new(&model, &design, &posterior).unwrap();
        let want = profiles.cut(&[0.0, 1.0], 0.05).unwrap();
        for scale in [2f64.powi(990), 2f64.powi(-990), 1e300, 1e-300] {
            let cut = profiles.cut(&[0.0, scale], 0.05).unwrap();
            for (got, want) in [(cut.lower(), want.lower()), (cut.upper(), want.upper())] {
                assert!(
                    (got / (want * scale) - 1.0).abs() < 1e-14,
                    "{response:?} {scale:e}"
                );
            }
            let value = profiles.solve(&[(&[0.0, scale], Target::Value(2.0 * scale))]);
            let plain = profiles.solve(&[(&[0.0, 1.0], Target::Value(2.0))]);
            let (value, plain) = (value.unwrap()[0], plain.unwrap()[0]);
            assert_eq!(value.value, 2.0 * scale);
            assert!((value.log_possibility / plain.log_possibility - 1.0).abs() < 1e-14);
            assert!((value.slope * scale / plain.slope - 1.0).abs() < 1e-14);
        }
        let sure = RealSet::from(Interval::at_least(0.5).unwrap());
        let found = profiles.mean_responses(&[vec![1e300], vec![2.0]], &[0.05], &[sure]);
        assert_eq!(found.unwrap().len(), 2);
        // a value beyond f64 is refused, not made up
        let beyond = profiles.cut(&[0.0, 1.7e308], 1e-300);
        assert!(
            matches!(beyond, Err(Error::OutOfRange { .. })),
            "{response:?} {beyond:?}"
        );
    }
}

#[test]
fn a_column_whose_squares_overflow_is_named() {
    let rows: Vec<(Vec<f64>, f64)> = [(1e200, 0.0), (2e200, 1.0), (-3e200, 0.0)]
        .map(|(x, y)| (vec![1.0 + y, x], y))
        .to_vec();
    let named = Err(Error::ColumnScale { column: Some(2) });
    for response in [Response::Bernoulli, Response::Poisson, Response::Normal] {
        let design = design(response, &rows);
        let model = build(PriorPrecision::Scalar(0.5), 3);
        assert_eq!(model.fit(&design).map(|_| ()), named, "{response:?}");
        let moments = design.column_moments();
        assert!(moments.deviations[1] > 1e200 && moments.deviations[1].is_finite());
        let prior = PriorPrecision::standardized(&moments, 1.0, Some(1.0)).unwrap();
        let config = with_prior(prior);
        assert_eq!(config.build(3).map(|_| ()), named);
    }
}

/// Labels and counts beside times: everything but the constant term is that of moved times.
#[test]
fn offsets_change_nothing_but_the_constant() {
    let labels = [0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0];
    let with_offset = |response, step: f64, offset: f64| {
        let rows = (0..).zip(labels).map(|(i, y)| {
            let time = step * f64::from(i);
            (
                vec![offset + time, f64::from(i * i % 5)],
                y + f64::from(i % 2),
            )
        });
        let rows = rows.map(|(x, y)| match response {
            Response::Bernoulli => (x, f64::from(u8::from(y > 1.0))),
            _ => (x, y),
        });
        design(response, &rows.collect::<Vec<_>>())
    };
    let model = build(PriorPrecision::Diagonal(vec![0.0, 1e-9, 0.5]), 3);
    for response in [Response::Bernoulli, Response::Poisson] {
        for (step, offset) in [(40.0, 1.7e9), (5.0, 1.7e9), (1.0, 2f64.powi(45))] {
            let (plain, moved) = (
                with_offset(response, step, 0.0),
                with_offset(response, step, offset),
            );
            let (a, b) = (model.fit(&plain).unwrap(), model.fit(&moved).unwrap());
            assert!((a.log_consistency() / b.log_consistency() - 1.0).abs() < 1e-13);
            let of_plain = Profiles::new(&model, &plain, &a).unwrap();
            let of_moved = Profiles::new(&model, &moved, &b).unwrap();
            let bounds = |design: &Design, posterior: &RegressionPosterior| {
                model.bounds_above(design, posterior, 0.05).unwrap()
            };
            let (above, below) = (bounds(&plain, &a), bounds(&moved, &b));
            let forms = [
                ([0.0, 1.0, 0.0], [0.0, 1.0, 0.0]),
                ([0.0, -step, 2.0], [0.0, -step, 2.0]),
                ([1.0, 3.0, 1.0], [1.0, offset + 3.0, 1.0]),
            ];
            for (form, same) in forms {
                let (want, got) = (
                    of_plain.cut(&form, 0.05).unwrap(),
                    of_moved.cut(&same, 0.05).unwrap(),
                );
                let slack = 1e-11 * (want.upper() - want.lower());
                assert!(
                    (got.lower() - want.lower()).abs() < slack,
                    "{response:?} {step}: {got} {want}"
                );
                assert!(
                    (got.upper() - want.upper()).abs() < slack,
                    "{response:?} {step}: {got} {want}"
                );
                if form[0] == 0.0 {
                    let (want, got) = (
                        above.marginal(&a, &form).unwrap(),
                        below.marginal(&b, &same).unwrap(),
                    );
                    let pairs = [
                        (want.laplace, got.laplace),
                        (want.upper, got.upper),
                        (want.lower, got.lower),
                    ];
                    for (want, got) in pairs {
                        let ratio = want.standard_deviation() / got.standard_deviation();
                        // the rounded factor loses the offset's digits once, not twice
                        assert!(
                            (ratio - 1.0).abs() < 4.0 * f64::EPSILON * offset / step,
                            "{ratio}"
                        );
                    }
                }
            }
        }
    }
}
