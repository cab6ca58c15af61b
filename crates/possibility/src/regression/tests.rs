//! Laws of the whole regression: golden numbers, finite differences, certified bounds, invariances.

use std::num::NonZero;

use faer::Mat;
use golden::number;
use proptest::prelude::*;

use super::kernel::Demand;
use super::*;
use crate::function::Possibility;
use crate::set::{Interval, RealSet};

/// Closed forms, and roots found to full precision.
const CLOSED_FORM: f64 = 1e-12;

fn label(is_one: bool) -> f64 {
    f64::from(u8::from(is_one))
}

/// Coefficient `j` under the Gaussians that bound a Bernoulli posterior everywhere.
fn everywhere(posterior: &RegressionPosterior, j: usize) -> MarginalBounds {
    let bounds = GaussianBounds {
        alpha: 0.0,
        upper: posterior.upper().unwrap().clone(),
        lower: posterior.lower().unwrap().clone(),
    };
    bounds
        .marginal(posterior, &unit(posterior.columns(), j))
        .unwrap()
}

/// The form of one coefficient.
fn unit(columns: usize, j: usize) -> Vec<f64> {
    (0..columns).map(|k| label(k == j)).collect()
}

/// A config with this prior around zero.
pub(super) fn with_prior(precision: PriorPrecision) -> RegressionConfig {
    RegressionConfig {
        prior_precision: precision,
        ..RegressionConfig::default()
    }
}

pub(super) fn build(precision: PriorPrecision, columns: usize) -> Regression {
    with_prior(precision).build(columns).unwrap()
}

/// A model with a prior around this mode.
pub(super) fn around(mode: &[f64], precision: PriorPrecision) -> Regression {
    let config = RegressionConfig {
        prior_mode: Some(mode.to_vec()),
        ..with_prior(precision)
    };
    config.build(mode.len()).unwrap()
}

#[track_caller]
fn assert_close(what: &str, got: f64, want: f64) {
    golden::assert_close(what, &[got], &[want], CLOSED_FORM);
}

#[test]
fn golden_logistic_1d() {
    for case in golden::cases("possibility/logistic_1d.json") {
        let name = case["name"].as_str().unwrap();
        let what = |field: &str| format!("{name}: {field}");
        let mut design = Design::new(Response::Bernoulli, 1).unwrap();
        design
            .push(&[1.0], label(number(&case["y"]) > 0.0))
            .unwrap();
        let precision = PriorPrecision::Scalar(number(&case["prior_precision"]));
        let model = around(&[number(&case["prior_mean"])], precision);
        let posterior = model.fit(&design).unwrap();
        let close = |field: &str, got: f64, want: &golden::Value| {
            assert_close(&what(field), got, number(want));
        };
        let precision = |normal: &crate::normal::Normal| normal.precision()[(0, 0)];
        let sigma = Marginal::standard_deviation;
        close("mode", posterior.mode()[0], &case["mode"]);
        let curvature = precision(posterior.laplace());
        close("curvature", curvature, &case["curvature_at_mode"]);
        close("log_z_max", posterior.log_consistency(), &case["log_z_max"]);
        let coefficient = everywhere(&posterior, 0);
        let laplace = &case["laplace"];
        close("mu", coefficient.laplace.mode(), &laplace["mu"]);
        close("sigma", sigma(&coefficient.laplace), &laplace["sigma"]);
        let upper = &case["tightest_upper_at_mode"];
        let found = precision(posterior.upper().unwrap());
        close("upper precision", found, &upper["precision"]);
        close("upper sigma", sigma(&coefficient.upper), &upper["sigma"]);
        let lower = &case["widest_lower_at_mode"];
        let found = precision(posterior.lower().unwrap());
        close("lower precision", found, &lower["precision"]);
        close("lower sigma", sigma(&coefficient.lower), &lower["sigma"]);
        let widest = model.widest_lower_precision(&design, &posterior).unwrap();
        close("widest, below", widest.lower, &lower["precision"]);
        close("widest, above", widest.upper, &lower["precision"]);
        for touch in lower["touches_at"].as_array().unwrap() {
            let at = number(touch);
            let exact = model.log_possibility(&design, &posterior, &[at]).unwrap();
            let bound = posterior.lower().unwrap().log_possibility(&[at]);
            assert!(
                (exact - bound).abs() <= CLOSED_FORM,
                "{name}: touches at {at}"
            );
        }
        let points = case["posterior"].as_array().unwrap();
        let column =
            |field: &str| -> Vec<f64> { points.iter().map(|p| number(&p[field])).collect() };
        let got: Vec<f64> = column("f")
            .iter()
            .map(|&at| model.log_possibility(&design, &posterior, &[at]).unwrap())
            .collect();
        let want = column("log_possibility");
        golden::assert_close(&what("log possibility"), &got, &want, CLOSED_FORM);
        let got: Vec<f64> = got.iter().map(|log| log.exp()).collect();
        let want = column("possibility");
        golden::assert_close(&what("possibility"), &got, &want, CLOSED_FORM);
        for cut in case["alpha_cuts"].as_array().unwrap() {
            let (inner, outer) = coefficient.cut(number(&cut["alpha"])).unwrap();
            let (low, high) = (number(&cut["low"]), number(&cut["high"]));
            let slack = CLOSED_FORM * (low.abs() + high.abs());
            assert!(
                outer.lower() <= low + slack && low <= inner.lower() + slack,
                "{name}: {low}"
            );
            assert!(
                inner.upper() <= high + slack && high <= outer.upper() + slack,
                "{name}: {high}"
            );
        }
    }
}

/// Rows with labels, a prior mode and a full prior precision `BBᵀ + ½I`.
#[derive(Debug, Clone)]
struct Problem {
    rows: Vec<(Vec<f64>, bool)>,
    prior_mode: Vec<f64>,
    root: Vec<f64>,
}

impl Problem {
    fn design(&self) -> Design {
        let mut design = Design::new(Response::Bernoulli, self.prior_mode.len()).unwrap();
        for (x, y) in &self.rows {
            design.push(x, label(*y)).unwrap();
        }
        design
    }

    fn model(&self) -> Regression {
        let d = self.prior_mode.len();
        let root = Mat::from_fn(d, d, |i, j| self.root[i * d + j]);
        let mut precision = &root * root.transpose();
        for i in 0..d {
            precision[(i, i)] += 0.5;
            for j in 0..i {
                precision[(j, i)] = precision[(i, j)];
            }
        }
        around(&self.prior_mode, PriorPrecision::Full(precision))
    }
}

fn problems() -> impl Strategy<Value = Problem> {
    (1usize..5, 0usize..30).prop_flat_map(|(d, n)| {
        let row = (prop::collection::vec(-3.0..3.0f64, d), any::<bool>());
        (
            prop::collection::vec(row, n),
            prop::collection::vec(-1.0..1.0f64, d),
            prop::collection::vec(-1.0..1.0f64, d * d),
        )
            .prop_map(|(rows, prior_mode, root)| Problem {
                rows,
                prior_mode,
                root,
            })
    })
}

fn direction() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1.0..1.0f64, 5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn gradient_and_hessian_are_finite_differences(problem in problems(), at in direction()) {
        let (design, model) = (problem.design(), problem.model());
        let d = model.columns();
        let point = at[..d].to_vec();
        let here = model.regularize(&design, &point, Demand::Curvature);
        let h = 1e-5;
        let scale = 1.0 + problem.rows.len() as f64;
        for j in 0..d {
            let (mut right, mut left) = (point.clone(), point.clone());
            right[j] += h;
            left[j] -= h;
            let right = model.regularize(&design, &right, Demand::Gradient);
            let left = model.regularize(&design, &left, Demand::Gradient);
            let slope = (right.loss - left.loss) / (2.0 * h);
            prop_assert!((slope - here.gradient[j]).abs() < 1e-8 * scale);
            for i in 0..d {
                let slope = (right.gradient[i] - left.gradient[i]) / (2.0 * h);
                prop_assert!((slope - here.hessian[(i, j)]).abs() < 1e-8 * scale);
                prop_assert_eq!(here.hessian[(i, j)], here.hessian[(j, i)]);
            }
        }
    }

    #[test]
    fn the_posterior_lies_between_its_gaussians(problem in problems(), along in direction()) {
        let (design, model) = (problem.design(), problem.model());
        let posterior = model.fit(&design).unwrap();
        prop_assert!(posterior.gradient_norm() < 1e-12 * (1.0 + 10.0 * problem.rows.len() as f64));
        let scaled = posterior.certified_scaling().unwrap();
        prop_assert!(scaled >= 1.0 - 1e-12);
        for reach in [0.01, 0.3, 1.0, 3.0, 20.0, 1e3, 1e6] {
            for side in [-1.0, 1.0] {
                let point: Vec<f64> = posterior
                    .mode()
                    .iter()
                    .zip(&along)
                    .map(|(m, v)| m + side * reach * v)
                    .collect();
                let exact = model.log_possibility(&design, &posterior, &point).unwrap();
                let upper = posterior.upper().unwrap().log_possibility(&point);
                let lower = posterior.lower().unwrap().log_possibility(&point);
                let laplace = posterior.laplace().log_possibility(&point);
                // rounding of the two losses whose difference `exact` is
                let slack = 1e-13 * (posterior.log_consistency().abs() + exact.abs());
                prop_assert!(exact <= upper + slack, "{} above {} at {}", exact, upper, reach);
                prop_assert!(lower <= exact + slack, "{} above {} at {}", lower, exact, reach);
                prop_assert!(scaled * laplace <= exact + slack);
            }
        }
    }

    #[test]
    fn possibilities_of_events_are_ordered(
        problem in problems(),
        event in (-3.0..3.0f64, 0.0..2.0f64),
        alpha in 0.01..1.0f64,
    ) {
        let posterior = problem.model().fit(&problem.design()).unwrap();
        let set: RealSet = Interval::closed(event.0, event.0 + event.1).unwrap().into();
        for j in 0..posterior.columns() {
            let coefficient = everywhere(&posterior, j);
            let possibility = coefficient.possibility_of(&set).unwrap();
            let necessity = coefficient.necessity_of(&set).unwrap();
            prop_assert!(possibility.lower <= possibility.upper);
            prop_assert!(necessity.lower <= necessity.upper);
            prop_assert!(necessity.upper <= possibility.upper);
            let (inner, outer) = coefficient.cut(alpha).unwrap();
            prop_assert!(outer.lower() <= inner.lower() && inner.upper() <= outer.upper());
        }
    }

    #[test]
    fn the_marginal_of_the_posterior_lies_between_the_marginals(problem in problems(), reach in -4.0..4.0f64) {
        // a point of the hyperplane w₀ = x gives a lower value of the supremum over it
        let (design, model) = (problem.design(), problem.model());
        let posterior = model.fit(&design).unwrap();
        let coefficient = everywhere(&posterior, 0);
        let x = posterior.mode()[0] + reach;
        let covariance = posterior.lower().unwrap().covariance();
        // where the lower Gaussian has its supremum over the hyperplane
        let point: Vec<f64> = (0..posterior.columns())
            .map(|j| posterior.mode()[j] + reach * covariance[(j, 0)] / covariance[(0, 0)])
            .collect();
        let exact = model.log_possibility(&design, &posterior, &point).unwrap();
        let slack = 1e-12 * (1.0 + posterior.log_consistency().abs() + exact.abs());
        prop_assert!(coefficient.lower.log_possibility(&x) <= exact + slack);
        prop_assert!(exact <= coefficient.upper.log_possibility(&x) + slack);
    }

    #[test]
    fn duplicated_rows_are_weights(problem in problems(), copies in 1usize..4) {
        let model = problem.model();
        let mut repeated = Design::new(Response::Bernoulli, model.columns()).unwrap();
        let mut weighted = Design::new(Response::Bernoulli, model.columns()).unwrap();
        for (x, y) in &problem.rows {
            for _ in 0..copies {
                repeated.push(x, label(*y)).unwrap();
            }
            weighted.push_weighted(x, label(*y), copies as f64).unwrap();
        }
        let (a, b) = (model.fit(&repeated).unwrap(), model.fit(&weighted).unwrap());
        assert_same(&a, &b);
    }

    #[test]
    fn the_order_of_rows_does_not_matter(problem in problems(), turn in 0usize..30) {
        let mut turned = problem.clone();
        if !turned.rows.is_empty() {
            let by = turn % turned.rows.len();
            turned.rows.rotate_left(by);
        }
        let model = problem.model();
        assert_same(
            &model.fit(&problem.design()).unwrap(),
            &model.fit(&turned.design()).unwrap(),
        );
    }
}

/// Two posteriors that differ only by rounding.
fn assert_same(a: &RegressionPosterior, b: &RegressionPosterior) {
    let close = |x: f64, y: f64, scale: f64| {
        assert!((x - y).abs() <= 1e-12 * (1.0 + scale), "{x} and {y}");
    };
    close(
        a.log_consistency(),
        b.log_consistency(),
        a.log_consistency().abs(),
    );
    for i in 0..a.columns() {
        close(a.mode()[i], b.mode()[i], 1.0);
        for j in 0..a.columns() {
            for (p, q) in [
                (a.laplace(), b.laplace()),
                (a.lower().unwrap(), b.lower().unwrap()),
                (a.upper().unwrap(), b.upper().unwrap()),
            ] {
                let scale = p.precision()[(i, i)].abs() + p.precision()[(j, j)].abs();
                close(p.precision()[(i, j)], q.precision()[(i, j)], scale);
            }
        }
    }
}

#[test]
fn one_row_by_hand() {
    // w minimizes softplus(-2w) + w²/2·δ: at w = 1 the slope is -2σ(-2) + δ
    let slope = 2.0 / (1.0 + 2f64.exp());
    let mut design = Design::new(Response::Bernoulli, 1).unwrap();
    design.push(&[2.0], 1.0).unwrap();
    let model = build(PriorPrecision::Scalar(slope), 1);
    let posterior = model.fit(&design).unwrap();
    assert_close("mode", posterior.mode()[0], 1.0);
    let loss = (-2f64).exp().ln_1p() + 0.5 * slope;
    assert_close("log consistency", posterior.log_consistency(), -loss);
    let sigma = 1.0 / (1.0 + (-2f64).exp());
    let laplace = posterior.laplace().precision()[(0, 0)];
    assert_close("Laplace", laplace, slope + 4.0 * sigma * (1.0 - sigma));
    let lower = posterior.lower().unwrap().precision()[(0, 0)];
    assert_close("lower", lower, slope + 4.0 * 1f64.tanh() / 4.0);
}

#[test]
fn separable_data_have_a_finite_mode() {
    for precision in [1.0, 1e-3, 1e-8] {
        let mut design = Design::with_intercept(Response::Bernoulli, 1);
        for i in 1..200 {
            design.push(&[f64::from(i)], 1.0).unwrap();
            design.push(&[-f64::from(i)], 0.0).unwrap();
        }
        let model = build(PriorPrecision::Scalar(precision), 2);
        let posterior = model.fit(&design).unwrap();
        assert!(posterior.mode()[1] > 0.0 && posterior.mode()[1].is_finite());
        let norm = posterior.gradient_norm();
        assert!(norm < 1e-9, "{norm}");
        assert!(everywhere(&posterior, 1).laplace.positive().necessity > 0.0);
    }
}

#[test]
fn a_far_prior_and_huge_covariates_converge() {
    let mut design = Design::new(Response::Bernoulli, 2).unwrap();
    for i in 0..50 {
        let x = f64::from(i) - 25.0;
        design
            .push(&[1e4 * x, 1e-4 * x], label(i % 3 == 0))
            .unwrap();
    }
    let model = around(&[50.0, -50.0], PriorPrecision::Diagonal(vec![1e-6, 2.0]));
    let posterior = model.fit(&design).unwrap();
    // the gradient is a sum of terms of size 1e5
    let norm = posterior.gradient_norm();
    assert!(norm < 1e-8, "{norm}");
    assert!(posterior.steps() < 60);
}

#[test]
fn separable_data_under_a_faint_prior_have_their_mode() {
    // one column, one success at x = 1: σ(-w) = δw
    for delta in [1e-3, 1e-10, 1e-20, 1e-35] {
        let mut design = Design::new(Response::Bernoulli, 1).unwrap();
        design.push(&[1.0], 1.0).unwrap();
        let model = build(PriorPrecision::Scalar(delta), 1);
        let posterior = model.fit(&design).unwrap();
        let w = posterior.mode()[0];
        let balance = (-w - w.exp().recip().ln_1p()) - (delta * w).ln();
        assert!(balance.abs() < 1e-10, "{delta}: {w}, off by {balance}");
    }
}

#[test]
fn no_data_leave_the_prior() {
    let model = around(&[0.5, -2.0], PriorPrecision::Diagonal(vec![3.0, 0.2]));
    let posterior = model
        .fit(&Design::with_intercept(Response::Bernoulli, 1))
        .unwrap();
    assert_eq!(posterior.mode(), [0.5, -2.0]);
    assert_eq!(posterior.log_consistency(), 0.0);
    assert_eq!(
        posterior.lower().unwrap().precision(),
        posterior.upper().unwrap().precision()
    );
    assert_close("scaling", posterior.certified_scaling().unwrap(), 1.0);
}

#[test]
fn a_direction_without_data_keeps_the_prior() {
    let mut design = Design::new(Response::Bernoulli, 2).unwrap();
    design.push(&[1.0, 0.0], 1.0).unwrap();
    design.push(&[-2.0, 0.0], 1.0).unwrap();
    let model = RegressionConfig::default().build(2).unwrap();
    let posterior = model.fit(&design).unwrap();
    let free = everywhere(&posterior, 1);
    assert_eq!((free.laplace, free.upper), (free.lower, free.lower));
    assert_eq!(posterior.mode()[1], 0.0);
}

#[test]
fn threads_do_not_change_the_fit() {
    let mut design = Design::with_intercept(Response::Bernoulli, 3);
    for i in 0..30_000 {
        let x = f64::from(i);
        let row = [x.sin(), (1.7 * x).cos(), (0.3 * x * x).sin()];
        design
            .push(&row, label(row[0] + row[1] > 0.4 * (7.1 * x).sin()))
            .unwrap();
    }
    let fit = |threads| {
        let config = RegressionConfig {
            threads: NonZero::new(threads),
            ..RegressionConfig::default()
        };
        config.build(4).unwrap().fit(&design).unwrap()
    };
    let one = fit(1);
    for threads in [2, 3, 4] {
        let other = fit(threads);
        assert_eq!(other.mode(), one.mode());
        assert_eq!(
            other.log_consistency().to_bits(),
            one.log_consistency().to_bits()
        );
        assert_eq!(
            other.lower().unwrap().precision(),
            one.lower().unwrap().precision()
        );
    }
}

#[test]
fn configurations_out_of_range_are_refused() {
    let build = |change: &dyn Fn(&mut RegressionConfig)| {
        let mut config = RegressionConfig::default();
        change(&mut config);
        config.build(2).unwrap_err()
    };
    build(&|c| c.tolerance = 0.0);
    build(&|c| c.dispersion = Dispersion::Known(0.0));
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        build(&|c| c.prior_precision = PriorPrecision::Scalar(bad));
        build(&|c| c.tolerance = bad);
        build(&|c| c.dispersion = Dispersion::Known(bad));
        let error = build(&|c| c.prior_precision = PriorPrecision::Diagonal(vec![1.0, bad]));
        assert!(matches!(error, Error::EntryOutOfRange { index: 1, .. }));
    }
    let full = |entries: [f64; 4]| {
        build(&|c| {
            c.prior_precision = PriorPrecision::Full(Mat::from_fn(2, 2, |i, j| entries[2 * i + j]));
        })
    };
    // indefinite, not symmetric, not finite
    assert!(
        matches!(full([1.0, 2.0, 2.0, 1.0]), Error::NotPositiveDefinite { smallest, .. }
        if (smallest + 1.0).abs() < 1e-12)
    );
    assert!(matches!(
        full([1.0, 0.5, 0.4, 1.0]),
        Error::NotSymmetric { .. }
    ));
    assert!(matches!(
        full([1.0, 0.0, 0.0, f64::NAN]),
        Error::EntryOutOfRange { .. }
    ));
    assert!(matches!(
        build(&|c| c.prior_mode = Some(vec![0.0])),
        Error::Dimension { .. }
    ));
    build(&|c| c.prior_mode = Some(vec![0.0, f64::NAN]));
    build(&|c| c.max_steps = 0);
    assert!(RegressionConfig::default().build(0).is_err());
}

#[test]
fn what_does_not_fit_is_an_error() {
    let model = RegressionConfig::default().build(2).unwrap();
    assert!(
        model
            .fit(&Design::new(Response::Bernoulli, 3).unwrap())
            .is_err()
    );
    let mut design = Design::with_intercept(Response::Bernoulli, 1);
    design.push(&[1.0], 1.0).unwrap();
    let posterior = model.fit(&design).unwrap();
    assert!(posterior.laplace_marginal(&[1.0]).is_err());
    assert!(posterior.laplace_marginal(&[1.0, f64::NAN]).is_err());
    assert!(
        model
            .regularized_loss(&design, &[1.0, f64::INFINITY])
            .is_err()
    );
    // covariates whose squares leave the range
    let mut design = Design::with_intercept(Response::Bernoulli, 1);
    design.push(&[1e200], 1.0).unwrap();
    assert!(matches!(
        model.fit(&design),
        Err(Error::ColumnScale { column: Some(1) })
    ));
    // one step is not enough
    let mut design = Design::with_intercept(Response::Bernoulli, 1);
    design.push(&[3.0], 1.0).unwrap();
    let hasty = RegressionConfig {
        max_steps: 1,
        ..RegressionConfig::default()
    }
    .build(2)
    .unwrap();
    assert!(matches!(
        hasty.fit(&design),
        Err(Error::NotConverged { steps: 1, .. })
    ));
}
