//! Laws that every conjugate family obeys: one table of families, one suite.

use faer::{Mat, mat};
use possibility::family::conjugate::{
    Bernoulli, Binomial, Categorical, Conjugate, ConjugateFamily, Dual, Exponential, Gamma,
    Multinomial, MultivariateNormal, NormalNoise, Parameter, Poisson, ScalarFamily,
};
use possibility::set::{Interval, RealSet};
use possibility::{Error, Measure, Mode, Possibility, Univariate};
use proptest::prelude::*;

/// The families of one dimension, each with a range of natural parameters.
fn scalar_families() -> Vec<(Box<dyn ScalarFamily>, f64, f64)> {
    vec![
        (Box::new(Bernoulli), -6.0, 6.0),
        (Box::new(Binomial::new(7).unwrap()), -6.0, 6.0),
        (Box::new(Poisson), -5.0, 6.0),
        (Box::new(Exponential), -8.0, -0.02),
        (Box::new(Gamma::new(2.75).unwrap()), -8.0, -0.02),
        (Box::new(Gamma::new(0.3).unwrap()), -8.0, -0.02),
        (Box::new(NormalNoise::new(2.25).unwrap()), -6.0, 6.0),
    ]
}

const SCALAR_FAMILIES: usize = 7;

fn covariance() -> Mat<f64> {
    mat![[2.0, 0.6, -0.3], [0.6, 1.5, 0.4], [-0.3, 0.4, 0.9]]
}

fn between(lower: f64, upper: f64, unit: f64) -> f64 {
    lower + (upper - lower) * unit
}

/// `|got - want| ≤ tolerance · max(1, |want|)`.
fn close(got: f64, want: f64, tolerance: f64) -> bool {
    (got - want).abs() <= tolerance * want.abs().max(1.0)
}

/// `|got - want| ≤ tolerance · |want|`.
fn relatively_close(got: f64, want: f64, tolerance: f64) -> bool {
    (got - want).abs() <= tolerance * want.abs()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Legendre and Bregman identities at two natural points of a family of any dimension.
fn duality_holds<F: ConjugateFamily>(
    family: &F,
    theta: &[f64],
    eta: &[f64],
) -> std::result::Result<(), TestCaseError> {
    let (mean, other) = (family.mean_at(theta), family.mean_at(eta));
    family.check_natural(theta).unwrap();
    family.check_mean(&mean).unwrap();
    // A†† = A: the supremum of λᵀθ - A†(λ) is attained at ∇A(θ) and nowhere exceeded
    let at_mean = dot(&mean, theta) - family.dual_at(&mean);
    prop_assert!(close(at_mean, family.log_partition_at(theta), 1e-11));
    let dual = family.dual_of_natural_at(theta);
    prop_assert!(close(dual, family.dual_at(&mean), 1e-11), "{dual}");
    let elsewhere = dot(&other, theta) - family.dual_at(&other);
    prop_assert!(elsewhere <= family.log_partition_at(theta) + 1e-11 * (1.0 + at_mean.abs()));
    // ∇A†(∇A(θ)) = θ
    for (back, want) in family.natural_at(&mean).iter().zip(theta) {
        prop_assert!(close(*back, *want, 1e-11), "{back} {want}");
    }
    // ∇²A and ∇²A† are inverse to each other, and ∇²A is the covariance at the mean
    let product = family.curvature_at(theta) * family.dual_curvature_at(&mean);
    let covariance = family.covariance_at(&mean);
    for i in 0..theta.len() {
        for j in 0..theta.len() {
            let unit = if i == j { 1.0 } else { 0.0 };
            prop_assert!((product[(i, j)] - unit).abs() < 1e-9, "{product:?}");
            let want = family.curvature_at(theta)[(i, j)];
            prop_assert!(close(covariance[(i, j)], want, 1e-11));
        }
    }
    // the three forms of the divergence, and the definition
    let bregman = family.bregman_between(theta, eta);
    prop_assert!(bregman >= 0.0);
    let gap: Vec<f64> = theta.iter().zip(eta).map(|(a, b)| a - b).collect();
    let definition =
        family.log_partition_at(theta) - family.log_partition_at(eta) - dot(&other, &gap);
    let scale = family.log_partition_at(theta).abs() + family.log_partition_at(eta).abs() + 1.0;
    prop_assert!((bregman - definition).abs() <= 1e-12 * (scale + dot(&other, &gap).abs()));
    let from_mean = family.divergence_at(&other, theta);
    let between_means = family.divergence_between_means_at(&other, &mean);
    for form in [from_mean, between_means] {
        // near the diagonal the rounding of the mean parameter decides
        prop_assert!(
            (form - bregman).abs() <= 1e-10 * bregman.max(1e-4),
            "{form} {bregman}"
        );
    }
    prop_assert_eq!(family.bregman_between(theta, theta), 0.0);
    prop_assert_eq!(family.divergence_between_means_at(&mean, &mean), 0.0);
    // dual Bregman: D_A†(λ‖λ') = D_A(θ'‖θ), from the definition
    let gap: Vec<f64> = other.iter().zip(&mean).map(|(a, b)| a - b).collect();
    let dual_bregman = family.dual_at(&other) - family.dual_at(&mean) - dot(theta, &gap);
    let scale = family.dual_at(&other).abs() + family.dual_at(&mean).abs() + dot(theta, &gap).abs();
    prop_assert!((dual_bregman - bregman).abs() <= 1e-11 * (1.0 + scale));
    Ok(())
}

/// Central differences of `A` and `A†` against the gradients, of the gradients against the
/// Hessians.
fn derivatives_hold<F: ConjugateFamily>(
    family: &F,
    theta: &[f64],
) -> std::result::Result<(), TestCaseError> {
    let mean = family.mean_at(theta);
    let curvature = family.curvature_at(theta);
    let dual_curvature = family.dual_curvature_at(&mean);
    let shifted = |point: &[f64], k: usize, by: f64| {
        let mut moved = point.to_vec();
        moved[k] += by;
        moved
    };
    for k in 0..theta.len() {
        let h = 1e-5 * theta[k].abs().max(0.01);
        let (up, down) = (shifted(theta, k, h), shifted(theta, k, -h));
        let slope = (family.log_partition_at(&up) - family.log_partition_at(&down)) / (2.0 * h);
        prop_assert!(close(slope, mean[k], 1e-6), "A' {slope} {}", mean[k]);
        let (up, down) = (family.mean_at(&up), family.mean_at(&down));
        for i in 0..theta.len() {
            let second = (up[i] - down[i]) / (2.0 * h);
            prop_assert!(close(second, curvature[(i, k)], 1e-6));
        }
        // a step that stays inside the domain of every family: a thousandth of a standard deviation
        let h = 1e-4 / dual_curvature[(k, k)].sqrt() / dual_curvature[(k, k)].sqrt().max(1.0);
        let (up, down) = (shifted(&mean, k, h), shifted(&mean, k, -h));
        let natural = family.natural_at(&mean);
        let slope = (family.dual_at(&up) - family.dual_at(&down)) / (2.0 * h);
        prop_assert!(close(slope, natural[k], 1e-5), "A†' {slope} {}", natural[k]);
        let (up, down) = (family.natural_at(&up), family.natural_at(&down));
        for i in 0..theta.len() {
            let second = (up[i] - down[i]) / (2.0 * h);
            prop_assert!(close(second, dual_curvature[(i, k)], 1e-5));
        }
    }
    Ok(())
}

/// Precision of the posterior and of the dual function, dual value, and powers.
fn posterior_laws_hold<F: ConjugateFamily + Clone>(
    family: &F,
    theta: &[f64],
    eta: &[f64],
    weight: f64,
    exponent: f64,
) -> std::result::Result<(), TestCaseError> {
    let mean = family.mean_at(eta);
    let g = Conjugate::new(family.clone(), &mean, weight).unwrap();
    let log = g.log_possibility(theta);
    prop_assert!(log <= 0.0);
    // definition: ν(λᵀθ - A†(λ) - A(θ))
    let definition =
        weight * (dot(&mean, theta) - family.dual_at(&mean) - family.log_partition_at(theta));
    let scale = weight * (1.0 + dot(&mean, theta).abs() + family.log_partition_at(theta).abs());
    prop_assert!(
        (log - definition).abs() <= 1e-11 * scale,
        "{log} {definition}"
    );
    // no Jacobian
    let at_mean = g.log_possibility_at_mean(&family.mean_at(theta));
    prop_assert!((log - at_mean).abs() <= 1e-10 * log.abs().max(1e-4 * weight));
    // the dual function sees the same value, and peaks at ∇A(θ)
    let dual = Dual::new(family.clone(), theta, weight).unwrap();
    prop_assert_eq!(dual.log_possibility(&mean), log);
    let Mode::Point(peak) = dual.mode() else {
        panic!("a mode");
    };
    prop_assert_eq!(&peak, &family.mean_at(theta));
    prop_assert!(dual.log_possibility(&peak) >= -1e-12 * weight);
    let dual_precision = dual.precision().unwrap();
    // power law
    let powered = g.power(exponent).unwrap();
    prop_assert!(close(powered.log_possibility(theta), exponent * log, 1e-12));
    prop_assert_eq!(g.power(0.0).unwrap().log_possibility(theta), 0.0);
    // precisions
    let natural = g.precision(Parameter::Natural).unwrap();
    let in_mean = g.precision(Parameter::Mean).unwrap();
    let product = &natural * &in_mean;
    for i in 0..theta.len() {
        for j in 0..theta.len() {
            let want = if i == j { weight * weight } else { 0.0 };
            prop_assert!((product[(i, j)] - want).abs() <= 1e-9 * weight * weight);
            let curvature = weight * family.curvature_at(eta)[(i, j)];
            prop_assert!(close(natural[(i, j)], curvature, 1e-11));
            let own = weight * family.dual_curvature_at(&peak)[(i, j)];
            prop_assert!(relatively_close(dual_precision[(i, j)], own, 1e-12));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn scalar_families_are_dual(index in 0..SCALAR_FAMILIES, u in 0.0f64..1.0, v in 0.0f64..1.0) {
        let (family, lower, upper) = scalar_families().swap_remove(index);
        let (theta, eta) = (between(lower, upper, u), between(lower, upper, v));
        duality_holds(&family.as_ref(), &[theta], &[eta])?;
        derivatives_hold(&family.as_ref(), &[theta])?;
    }

    #[test]
    fn scalar_posteriors_obey_the_paper(
        index in 0..SCALAR_FAMILIES, u in 0.0f64..1.0, v in 0.0f64..1.0, log_weight in -3.0f64..6.0,
        exponent in 0.01f64..10.0,
    ) {
        let (family, lower, upper) = scalar_families().swap_remove(index);
        let (theta, eta) = (between(lower, upper, u), between(lower, upper, v));
        posterior_laws_hold(&family.as_ref(), &[theta], &[eta], log_weight.exp(), exponent)?;
    }

    #[test]
    fn cuts_are_exact_and_agree_in_both_parameters(
        index in 0..SCALAR_FAMILIES, u in 0.0f64..1.0, log_weight in -7.0f64..20.0,
        log_level in -9.0f64..6.0,
    ) {
        let (family, lower, upper) = scalar_families().swap_remove(index);
        let mean = family.mean_of(between(lower, upper, u));
        let alpha = (-log_level.exp()).exp().max(1e-300);
        let in_mean = family.as_ref().prior(mean, log_weight.exp()).unwrap();
        let natural = in_mean.in_parameter(Parameter::Natural);
        let (cut, mean_cut) = (natural.cut(alpha).unwrap(), in_mean.cut(alpha).unwrap());
        for g in [&natural, &in_mean] {
            let cut = g.cut(alpha).unwrap();
            let mode = g.mode().unwrap();
            prop_assert!(cut.contains(mode));
            for end in [cut.lower(), cut.upper()] {
                let domain = g.domain();
                if end == domain.lower() || end == domain.upper() || !end.is_finite() {
                    continue;
                }
                // the end is right to a few roundings of itself: moving it by 8 units crosses the
                // level
                let slack = 8.0 * f64::EPSILON * (end.abs() + mode.abs());
                let (inner, outer) = if end < mode {
                    (end + slack, end - slack)
                } else {
                    (end - slack, end + slack)
                };
                let value = |x: f64| g.log_possibility(&x);
                prop_assert!(value(inner) >= alpha.ln() * (1.0 + 1e-13), "inside {end} {cut}");
                prop_assert!(value(outer) <= alpha.ln() * (1.0 - 1e-13), "outside {end} {cut}");
            }
            // the complement of the cut is exactly alpha possible, the cut fully
            prop_assert_eq!(g.possibility_of(cut).unwrap(), 1.0);
        }
        let (a, b) = (cut, mean_cut);
        prop_assert!(close(family.mean_of(a.lower()), b.lower(), 1e-12));
        if b.upper().is_finite() && a.upper() < 0.0 || family.natural_domain().upper() > 0.0 {
            prop_assert!(relatively_close(family.mean_of(a.upper()), b.upper(), 1e-12));
        }
    }

    #[test]
    fn events_agree_in_both_parameters_and_one_side_is_certain(
        index in 0..SCALAR_FAMILIES, u in 0.0f64..1.0, v in 0.0f64..1.0, w in 0.0f64..1.0,
        weight in 0.0f64..20.0, informed in any::<bool>(), closed in any::<bool>(),
    ) {
        let (family, lower, upper) = scalar_families().swap_remove(index);
        let mean = family.mean_of(between(lower, upper, u));
        let weight = if informed { weight } else { 0.0 };
        let in_mean = family.as_ref().prior(mean, weight).unwrap();
        let natural = in_mean.in_parameter(Parameter::Natural);
        let (low, high) = (between(lower, upper, v.min(w)), between(lower, upper, v.max(w)));
        let event = RealSet::from(Interval::new(low, high, closed, true).unwrap());
        let image = RealSet::from(
            Interval::new(family.mean_of(low), family.mean_of(high), closed, true).unwrap(),
        );
        for set in [event.clone(), event.complement()] {
            let image = if set == event { image.clone() } else { image.complement() };
            let (a, b) = (natural.log_possibility_of(&set).unwrap(), in_mean.log_possibility_of(&image).unwrap());
            prop_assert!(close(a, b, 1e-11), "{a} {b}");
            prop_assert!(close(natural.necessity_of(&set).unwrap(), in_mean.necessity_of(&image).unwrap(), 1e-11));
            prop_assert!(natural.necessity_of(&set).unwrap() <= natural.possibility_of(&set).unwrap());
            // a point inside is at most as possible as the event
            prop_assert!(natural.log_possibility(&between(low, high, 0.3)) <= natural.log_possibility_of(&event).unwrap() + 1e-12);
        }
        for (g, set) in [(&natural, &event), (&in_mean, &image)] {
            let inside = g.possibility_of(set).unwrap();
            let outside = g.possibility_of(&set.complement()).unwrap();
            prop_assert_eq!(inside.max(outside), 1.0);
            if weight == 0.0 {
                prop_assert_eq!(inside, 1.0);
                prop_assert_eq!(g.necessity_of(set).unwrap(), 0.0);
            }
        }
    }

    #[test]
    fn updates_are_a_running_mean_in_any_order(
        counts in prop::collection::vec(0u32..7, 1..30), cut in 0usize..30, prior_weight in 0.0f64..5.0,
        index in 0..SCALAR_FAMILIES, u in 0.0f64..1.0,
    ) {
        let (family, lower, upper) = scalar_families().swap_remove(index);
        let family = family.as_ref();
        let data: Vec<f64> = counts.iter().map(|&c| {
            if family.accepts(0.5) { f64::from(c) * 0.7 + 0.1 } else if family.accepts(2.0) { f64::from(c) } else { f64::from(c % 2) }
        }).collect();
        let prior = Conjugate::new(family, &[family.mean_of(between(lower, upper, u))], prior_weight).unwrap();
        let batch = prior.observe(&data).unwrap();
        let split = cut.min(data.len());
        let in_two = prior.observe(&data[..split]).unwrap().observe(&data[split..]).unwrap();
        let mut reversed = data.clone();
        reversed.reverse();
        let backwards = prior.observe(&reversed).unwrap();
        let sum: f64 = data.iter().sum();
        let by_sum = prior.observe_statistics(&[sum], data.len() as f64).unwrap();
        let mut one_by_one = prior.clone();
        for x in &data {
            one_by_one = one_by_one.observe(std::iter::once(x)).unwrap();
        }
        let mean = batch.mean_statistic().unwrap()[0];
        let want = (prior_weight * prior.mean_statistic().map_or(0.0, |m| m[0]) + sum)
            / (prior_weight + data.len() as f64);
        // the prior and the data may cancel: relative to what was added up
        let scale = (prior_weight * prior.mean_statistic().map_or(0.0, |m| m[0].abs())
            + data.iter().map(|x| x.abs()).sum::<f64>())
            / (prior_weight + data.len() as f64);
        prop_assert!((mean - want).abs() <= 1e-14 * scale, "{mean} {want}");
        for other in [in_two, backwards, by_sum, one_by_one] {
            prop_assert!((other.mean_statistic().unwrap()[0] - mean).abs() <= 1e-13 * scale);
            prop_assert!(relatively_close(other.weight(), batch.weight(), 1e-13));
        }
        // consistency: by data, by statistics, and as a supremum over natural parameters
        let base: f64 = data.iter().map(|&x| family.log_base_measure(x)).sum();
        let by_data = prior.log_consistency(&data).unwrap();
        let by_statistics = prior.log_consistency_of_statistics(&[sum], data.len() as f64, base).unwrap();
        prop_assert!(close(by_data, by_statistics, 1e-10), "{by_data} {by_statistics}");
        let joint = |theta: f64| {
            let likelihood: f64 = data.iter().map(|x| theta * x - family.log_partition(theta) + family.log_base_measure(*x)).sum();
            likelihood + prior.log_possibility(&[theta])
        };
        prop_assert!(joint(between(lower, upper, 0.37)) <= by_data + 1e-9 * (1.0 + by_data.abs()));
        let mode = family.natural_of(mean);
        if mode.is_finite() {
            prop_assert!(close(joint(mode), by_data, 1e-10), "{} {by_data}", joint(mode));
        }
        // Bayes: posterior = joint / consistency
        let theta = between(lower, upper, 0.61);
        prop_assert!(close(batch.log_possibility(&[theta]), joint(theta) - by_data, 1e-9));
    }

    #[test]
    fn categorical_families_are_dual(
        theta in prop::collection::vec(-4.0f64..4.0, 3), eta in prop::collection::vec(-4.0f64..4.0, 3),
        weight in 0.1f64..50.0, exponent in 0.01f64..10.0,
    ) {
        let categorical = Categorical::new(4).unwrap();
        duality_holds(&categorical, &theta, &eta)?;
        derivatives_hold(&categorical, &theta)?;
        posterior_laws_hold(&categorical, &theta, &eta, weight, exponent)?;
        let multinomial = Multinomial::new(4, 5).unwrap();
        duality_holds(&multinomial, &theta, &eta)?;
        derivatives_hold(&multinomial, &theta)?;
        posterior_laws_hold(&multinomial, &theta, &eta, weight, exponent)?;
        let normal = MultivariateNormal::new(covariance()).unwrap();
        duality_holds(&normal, &theta, &eta)?;
        derivatives_hold(&normal, &theta)?;
        posterior_laws_hold(&normal, &theta, &eta, weight, exponent)?;
    }

    #[test]
    fn class_marginals_are_suprema(
        raw in prop::collection::vec(0u32..6, 4), other in prop::collection::vec(0.01f64..1.0, 4),
        weight in 0.1f64..20.0, class in 0usize..4, trials in 1u64..4,
    ) {
        let total: u32 = raw.iter().sum();
        prop_assume!(total > 0);
        let m = trials as f64;
        let share: Vec<f64> = raw.iter().map(|&x| f64::from(x) / f64::from(total)).collect();
        let sum: f64 = other.iter().sum();
        let point: Vec<f64> = other.iter().map(|x| x / sum).collect();
        let scaled = |p: &[f64], by: f64| p[..3].iter().map(|x| x * by).collect::<Vec<f64>>();
        let single = Conjugate::new(Categorical::new(4).unwrap(), &scaled(&share, 1.0), weight).unwrap();
        let several = Conjugate::new(Multinomial::new(4, trials).unwrap(), &scaled(&share, m), weight).unwrap();
        let p = single.coordinate(class, Parameter::Mean).unwrap();
        let count = several.coordinate(class, Parameter::Mean).unwrap();
        let marginal = p.log_possibility(&point[class]);
        prop_assert!(close(count.log_possibility(&(m * point[class])), m * marginal, 1e-11));
        prop_assert!(single.log_possibility_at_mean(&scaled(&point, 1.0)) <= marginal + 1e-11);
        // attained: the other classes keep their shares among themselves
        let mut best = share.clone();
        let rest = 1.0 - share[class];
        for (k, entry) in best.iter_mut().enumerate() {
            *entry = if k == class { point[class] }
                else if rest > 0.0 { *entry / rest * (1.0 - point[class]) }
                else { (1.0 - point[class]) / 3.0 };
        }
        prop_assert!(close(single.log_possibility_at_mean(&scaled(&best, 1.0)), marginal, 1e-11));
        prop_assert!(close(several.log_possibility_at_mean(&scaled(&best, m)), m * marginal, 1e-11));
        if class < 3 {
            let odds = single.coordinate(class, Parameter::Natural).unwrap();
            let odds_of_counts = several.coordinate(class, Parameter::Natural).unwrap();
            let theta = (point[class] / point[3]).ln();
            let marginal = odds.log_possibility(&theta);
            prop_assert!(close(odds_of_counts.log_possibility(&theta), m * marginal, 1e-11));
            prop_assert!(single.log_possibility_at_mean(&scaled(&point, 1.0)) <= marginal + 1e-11);
            // attained: the pair keeps its common share
            let both = share[class] + share[3];
            let mut best = share.clone();
            best[class] = both * point[class] / (point[class] + point[3]);
            if both > 0.0 {
                let attained = single.log_possibility_at_mean(&scaled(&best, 1.0));
                prop_assert!(close(attained, marginal, 1e-10), "{attained} {marginal}");
            } else {
                prop_assert_eq!(odds.mode(), None);
            }
        }
        prop_assert!(single.coordinate(4, Parameter::Mean).is_err());
        prop_assert!(single.coordinate(3, Parameter::Natural).is_err());
    }

    #[test]
    fn normal_marginals_are_suprema(
        mean in prop::collection::vec(-3.0f64..3.0, 3), point in prop::collection::vec(-3.0f64..3.0, 3),
        weight in 0.1f64..20.0, k in 0usize..3,
    ) {
        let family = MultivariateNormal::new(covariance()).unwrap();
        let (sigma, inverse) = (family.covariance().clone(), family.precision().clone());
        let g = Conjugate::new(family.clone(), &mean, weight).unwrap();
        let marginal = g.coordinate(k, Parameter::Mean).unwrap().log_possibility(&point[k]);
        prop_assert!(g.log_possibility_at_mean(&point) <= marginal + 1e-10);
        let best: Vec<f64> = (0..3)
            .map(|i| mean[i] + sigma[(i, k)] / sigma[(k, k)] * (point[k] - mean[k]))
            .collect();
        prop_assert!(close(g.log_possibility_at_mean(&best), marginal, 1e-11));
        let marginal = g.coordinate(k, Parameter::Natural).unwrap().log_possibility(&point[k]);
        prop_assert!(g.log_possibility(&point) <= marginal + 1e-10);
        let mode = family.natural_at(&mean);
        let best: Vec<f64> = (0..3)
            .map(|i| mode[i] + inverse[(i, k)] / inverse[(k, k)] * (point[k] - mode[k]))
            .collect();
        prop_assert!(close(g.log_possibility(&best), marginal, 1e-10));
    }

    #[test]
    fn bregman_is_the_kullback_leibler_divergence_of_discrete_families(
        u in 0.0f64..1.0, v in 0.0f64..1.0, eta in prop::collection::vec(-3.0f64..3.0, 2),
        theta in prop::collection::vec(-3.0f64..3.0, 2),
    ) {
        let sum = |family: &dyn ScalarFamily, outcomes: u32, a: f64, b: f64| -> f64 {
            let (p, q) = (family.mean_of(a), family.mean_of(b));
            (0..=outcomes).map(|x| {
                let (own, other) = (family.log_likelihood(f64::from(x), p), family.log_likelihood(f64::from(x), q));
                own.exp() * (own - other)
            }).sum()
        };
        let (a, b) = (between(-4.0, 3.0, u), between(-4.0, 3.0, v));
        for (family, outcomes) in [
            (&Bernoulli as &dyn ScalarFamily, 1), (&Binomial::new(9).unwrap(), 9), (&Poisson, 200),
        ] {
            let g = Conjugate::new(family, &[family.mean_of(a)], 1.0).unwrap();
            prop_assert!(close(-g.log_possibility(&[b]), sum(family, outcomes, a, b), 1e-11));
            // probabilities add up to one
            let total: f64 = (0..=outcomes).map(|x| family.log_likelihood(f64::from(x), family.mean_of(a)).exp()).sum();
            prop_assert!(close(total, 1.0, 1e-12), "{total}");
        }
        let family = Categorical::new(3).unwrap();
        let (p, q) = (family.mean_at(&eta), family.mean_at(&theta));
        let direct: f64 = (0..3usize).map(|x| {
            let own = family.log_likelihood_at(&x, &p);
            own.exp() * (own - family.log_likelihood_at(&x, &q))
        }).sum();
        let g = Conjugate::new(family, &p, 1.0).unwrap();
        prop_assert!(close(-g.log_possibility(&theta), direct, 1e-11));
        let family = Multinomial::new(3, 4).unwrap();
        let (p, q) = (family.mean_at(&eta), family.mean_at(&theta));
        let (mut direct, mut total) = (0.0, 0.0);
        for x in 0..=4u64 {
            for y in 0..=4 - x {
                let counts = [x, y, 4 - x - y];
                let own = family.log_likelihood_at(&counts, &p);
                direct += own.exp() * (own - family.log_likelihood_at(&counts, &q));
                total += own.exp();
            }
        }
        prop_assert!(close(total, 1.0, 1e-12), "{total}");
        let g = Conjugate::new(family, &p, 1.0).unwrap();
        prop_assert!(close(-g.log_possibility(&theta), direct, 1e-11));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn bregman_is_the_kullback_leibler_divergence_of_densities(u in 0.0f64..1.0, v in 0.0f64..1.0) {
        // trapezoids in log x (in x for the normal) converge faster than any power
        for (family, lower, upper) in [
            (&Exponential as &dyn ScalarFamily, -3.0, -0.3), (&Gamma::new(2.75).unwrap(), -3.0, -0.3),
        ] {
            let (a, b) = (between(lower, upper, u), between(lower, upper, v));
            let (p, q) = (family.mean_of(a), family.mean_of(b));
            let h = 0.02;
            let (mut direct, mut total) = (0.0, 0.0);
            for i in -2500..500 {
                let x = (h * f64::from(i)).exp();
                let own = family.log_likelihood(x, p);
                direct += h * x * own.exp() * (own - family.log_likelihood(x, q));
                total += h * x * own.exp();
            }
            prop_assert!(close(total, 1.0, 1e-10), "{total}");
            let g = Conjugate::new(family, &[p], 1.0).unwrap();
            prop_assert!(close(-g.log_possibility(&[b]), direct, 1e-9), "{direct}");
        }
        let family = NormalNoise::new(0.5).unwrap();
        let (p, q) = (between(-2.0, 2.0, u), between(-2.0, 2.0, v));
        let h = 0.01;
        let direct: f64 = (-1500..1500).map(|i| {
            let x = h * f64::from(i);
            let own = family.log_likelihood(x, p);
            h * own.exp() * (own - family.log_likelihood(x, q))
        }).sum();
        let g = Conjugate::new(family, &[p], 1.0).unwrap();
        prop_assert!(close(-g.log_possibility_at_mean(&[q]), direct, 1e-10));
    }
}

#[test]
fn tiny_divergences_keep_their_digits() {
    // (family, λ, μ, KL in 50-digit arithmetic)
    let gamma = Gamma::new(2.5).unwrap();
    for (family, mean, other, want) in [
        (
            &Bernoulli as &dyn ScalarFamily,
            0.3,
            0.300001,
            BERNOULLI_NEAR,
        ),
        (&Bernoulli, 1e-9, 1.00001e-9, BERNOULLI_RARE),
        (&Poisson, 4.0, 4.0000001, POISSON_NEAR),
        (&gamma, 1.5, 1.5000003, GAMMA_NEAR),
    ] {
        let got = family.divergence_between_means(mean, other);
        assert!(
            relatively_close(got, want, 1e-12),
            "{}: {got:e} {want:e}",
            family.name()
        );
    }
    // (family, θ, θ', D_A(θ‖θ'))
    for (family, theta, eta, want) in [
        (
            &Bernoulli as &dyn ScalarFamily,
            0.5000001,
            0.5,
            BERNOULLI_BREGMAN,
        ),
        (&Bernoulli, 30.0, 29.5, BERNOULLI_FAR),
        (&Poisson, 1.0000001, 1.0, POISSON_BREGMAN),
        (&gamma, -2.0000001, -2.0, GAMMA_BREGMAN),
        (&gamma, -1e-6, -5.0, GAMMA_FAR),
    ] {
        let got = family.bregman(theta, eta);
        assert!(
            relatively_close(got, want, 1e-12),
            "{}: {got:e} {want:e}",
            family.name()
        );
    }
    let three = Categorical::new(3).unwrap();
    let got = three.bregman_between(&[0.5000001, -0.25], &[0.5, -0.25]);
    assert!(relatively_close(got, CATEGORICAL_BREGMAN, 1e-12), "{got:e}");
}

const BERNOULLI_NEAR: f64 = 2.3809493576677057e-12;
const BERNOULLI_RARE: f64 = 4.999966671795656e-20;
const POISSON_NEAR: f64 = 1.24999998617745e-15;
const GAMMA_NEAR: f64 = 4.999998665104152e-14;
const BERNOULLI_BREGMAN: f64 = 1.175018550178217e-15;
const BERNOULLI_FAR: f64 = 1.6435669528802975e-14;
const POISSON_BREGMAN: f64 = 1.3591409611213365e-14;
const GAMMA_FAR: f64 = 36.062371675995934;
const GAMMA_BREGMAN: f64 = 3.12499988560472e-15;
const CATEGORICAL_BREGMAN: f64 = 1.248199607339652e-15;

#[test]
fn boundary_data_have_one_sided_cuts() {
    // ten failures: log f(p) = 10 log(1 - p)
    let none = Conjugate::uninformative(Bernoulli)
        .observe([0.0; 10])
        .unwrap();
    let p = none.in_parameter(Parameter::Mean);
    let theta = none.in_parameter(Parameter::Natural);
    assert_eq!(p.mode(), Some(0.0));
    assert_eq!(theta.mode(), Some(f64::NEG_INFINITY));
    assert_eq!((p.precision(), theta.precision()), (None, None));
    let cut = p.cut(0.05).unwrap();
    assert_eq!(cut.lower(), 0.0);
    let upper = 1.0 - 0.05f64.powf(0.1);
    assert!(relatively_close(cut.upper(), upper, 1e-14));
    let cut = theta.cut(0.05).unwrap();
    assert_eq!(cut.lower(), f64::NEG_INFINITY);
    assert!(close(cut.upper(), (upper / (1.0 - upper)).ln(), 1e-14));
    for (g, at) in [(&p, 0.0), (&theta, f64::NEG_INFINITY)] {
        assert_eq!(g.possibility(&at), 1.0);
        assert_eq!(
            g.possibility_of(&RealSet::points(&[at]).unwrap()).unwrap(),
            1.0
        );
    }
    assert_eq!(p.possibility(&1.0), 0.0);
    assert_eq!(theta.possibility(&f64::INFINITY), 0.0);
    assert_eq!(p.possibility(&-0.1), 0.0);
    assert_eq!(none.log_consistency([0.0]).unwrap(), 0.0);
    assert!(close(
        p.possibility_of(0.5..).unwrap(),
        0.5f64.powi(10),
        1e-15
    ));
    assert_eq!(p.necessity_of(0.5..).unwrap(), 0.0);

    // three zero counts: log f(rate) = -3 rate
    let zero = Conjugate::uninformative(Poisson).observe([0.0; 3]).unwrap();
    let rate = zero.in_parameter(Parameter::Mean);
    assert_eq!(rate.mode(), Some(0.0));
    let cut = rate.cut(0.5).unwrap();
    assert_eq!(cut.lower(), 0.0);
    assert!(relatively_close(cut.upper(), 2f64.ln() / 3.0, 1e-14));
    let log_rate = rate.in_parameter(Parameter::Natural);
    assert_eq!(log_rate.mode(), Some(f64::NEG_INFINITY));
    let cut = log_rate.cut(0.5).unwrap();
    assert!(close(cut.upper(), (2f64.ln() / 3.0).ln(), 1e-14));
    assert_eq!(log_rate.possibility(&f64::NEG_INFINITY), 1.0);

    // all successes of a binomial
    let all = Conjugate::uninformative(Binomial::new(4).unwrap())
        .observe([4.0, 4.0])
        .unwrap();
    let mean = all.in_parameter(Parameter::Mean);
    assert_eq!(mean.mode(), Some(4.0));
    let cut = mean.cut(0.1).unwrap();
    assert!(relatively_close(
        cut.lower(),
        4.0 * 0.1f64.powf(0.125),
        1e-14
    ));
    assert_eq!(cut.upper(), 4.0);

    // a class that never came up, then the reference class
    let family = Categorical::new(3).unwrap();
    let missing = Conjugate::uninformative(family).observe([0, 2, 0]).unwrap();
    let Mode::Point(mode) = missing.mode(Parameter::Natural) else {
        panic!("a mode")
    };
    assert_eq!(mode[1], f64::NEG_INFINITY);
    assert!(close(mode[0], 2f64.ln(), 1e-15));
    assert!(missing.precision(Parameter::Natural).is_none());
    let marginal = missing.coordinate(1, Parameter::Mean).unwrap();
    assert!(close(marginal.possibility(&0.5), 0.125, 1e-15));
    // log f(p) = 2 log p₀ + log p₂, less its greatest value
    let log = missing.log_possibility(&[0.0, 0.0]);
    assert!(
        close(log, 3.0 * (1f64 / 3.0).ln() - (4f64 / 27.0).ln(), 1e-14),
        "{log}"
    );
    let no_reference = Conjugate::uninformative(family).observe([0, 1, 0]).unwrap();
    let Mode::Point(mode) = no_reference.mode(Parameter::Natural) else {
        panic!("a mode")
    };
    assert_eq!(mode, [f64::INFINITY, f64::INFINITY]);
    let reference = no_reference.coordinate(2, Parameter::Mean).unwrap();
    assert_eq!(reference.mode(), Some(0.0));
    let only_first = Conjugate::uninformative(family).observe([0, 0]).unwrap();
    assert_eq!(only_first.log_possibility(&[f64::INFINITY, 0.0]), 0.0);
    assert_eq!(only_first.log_consistency([0]).unwrap(), 0.0);
    assert_eq!(
        only_first.coordinate(1, Parameter::Natural).unwrap().mode(),
        None
    );

    // a sample of zeros leaves the exponential without a posterior, one zero does not
    assert!(matches!(
        Conjugate::uninformative(Exponential).observe([0.0, 0.0]),
        Err(Error::OutOfRange {
            field: "mean parameter",
            ..
        })
    ));
    let one_zero = Conjugate::uninformative(Exponential)
        .log_consistency([0.0, 2.0])
        .unwrap();
    assert!(close(one_zero, -2.0, 1e-15));
}

#[test]
fn seven_sevenths_is_the_boundary() {
    // shares whose sum rounds: the reference class must still count as never seen
    let classes: Vec<usize> = (0..49).map(|i| i % 7).collect();
    let family = Categorical::new(8).unwrap();
    let posterior = Conjugate::uninformative(family).observe(&classes).unwrap();
    assert_eq!(
        posterior.coordinate(7, Parameter::Mean).unwrap().mode(),
        Some(0.0)
    );
    assert!(posterior.log_possibility_at_mean(&[1.0 / 7.0; 7]) > -1e-12);
    let prior = Conjugate::new(family, &[0.3, 0.1, 0.2, 0.1, 0.1, 0.1, 0.1], 0.7).unwrap();
    let posterior = prior.observe(&classes).unwrap();
    assert_eq!(
        posterior.coordinate(7, Parameter::Mean).unwrap().mode(),
        Some(0.0)
    );
}

#[test]
fn nothing_known_is_everything_possible() {
    let prior = Conjugate::uninformative(Exponential);
    assert_eq!(prior.mean_statistic(), None);
    assert_eq!(prior.mode(Parameter::Mean), Mode::Everything);
    assert_eq!(prior.precision(Parameter::Natural).unwrap()[(0, 0)], 0.0);
    assert_eq!(prior.log_consistency(&[] as &[f64]).unwrap(), 0.0);
    assert_eq!(prior.observe(&[] as &[f64]).unwrap(), prior);
    let mean = prior.in_parameter(Parameter::Mean);
    assert_eq!(mean.cut(0.5).unwrap().to_string(), "(0, inf)");
    assert_eq!(mean.possibility(&1e300), 1.0);
    assert_eq!(mean.possibility(&-1.0), 0.0);
    assert_eq!(mean.possibility_of(..0.0).unwrap(), 0.0);
    let bounded = Interval::closed(1.0, 2.0).unwrap().into();
    assert_eq!(mean.possibility_of(&bounded).unwrap(), 1.0);
    assert_eq!(mean.necessity_of(&bounded).unwrap(), 0.0);
    assert_eq!(mean.necessity_of(&RealSet::everything()).unwrap(), 1.0);
}

#[test]
fn bad_data_name_their_place_and_rule() {
    let check = |family: &dyn ScalarFamily, data: &[f64], text: &str| {
        let error = Conjugate::uninformative(family).observe(data).unwrap_err();
        assert_eq!(error.to_string(), text);
    };
    check(
        &Bernoulli,
        &[1.0, 0.0, 2.0],
        "observation[2] 2 is not in {0, 1}",
    );
    check(
        &Poisson,
        &[1.0, -1.0],
        "observation[1] -1 is not in {0, 1, 2, ...}",
    );
    check(
        &Poisson,
        &[1.5],
        "observation[0] 1.5 is not in {0, 1, 2, ...}",
    );
    check(
        &NormalNoise::new(1.0).unwrap(),
        &[f64::NAN],
        "observation[0] NaN is not in (-inf, inf)",
    );
    check(
        &Exponential,
        &[-0.5],
        "observation[0] -0.5 is not in [0, inf)",
    );
    check(
        &Gamma::new(2.0).unwrap(),
        &[1.0, 0.0],
        "observation[1] 0 is not in (0, inf)",
    );
    check(
        &Binomial::new(3).unwrap(),
        &[4.0],
        "observation[0] 4 is not in 0..=trials",
    );
    let categorical = Conjugate::uninformative(Categorical::new(3).unwrap());
    assert_eq!(
        categorical.observe([0, 3]).unwrap_err().to_string(),
        "observation[1] 3 is not in 0..classes"
    );
    let multinomial = Conjugate::uninformative(Multinomial::new(2, 3).unwrap());
    let rows: [&[u64]; 2] = [&[1, 2], &[1, 1]];
    assert_eq!(
        multinomial.observe(rows).unwrap_err().to_string(),
        "sum of the counts of observation[1] 2 is not in {trials}"
    );
    let normal = Conjugate::uninformative(MultivariateNormal::new(covariance()).unwrap());
    let rows: [&[f64]; 2] = [&[1.0, 2.0, 3.0], &[1.0, f64::INFINITY, 0.0]];
    assert_eq!(
        normal.observe(rows).unwrap_err().to_string(),
        "observation[1] inf is not in (-inf, inf)"
    );
    let short: [&[f64]; 1] = [&[1.0]];
    assert!(matches!(
        normal.observe(short),
        Err(Error::Dimension {
            found: 1,
            expected: 3,
            ..
        })
    ));
}

#[test]
fn bad_parameters_are_refused() {
    assert!(Conjugate::new(Bernoulli, &[1.2], 1.0).is_err());
    assert!(Conjugate::new(Bernoulli, &[f64::NAN], 1.0).is_err());
    assert!(Conjugate::new(Bernoulli, &[0.5], -1.0).is_err());
    assert!(Conjugate::new(Bernoulli, &[0.5], f64::INFINITY).is_err());
    assert!(Conjugate::new(Bernoulli, &[0.5, 0.5], 1.0).is_err());
    assert!(Conjugate::new(Exponential, &[0.0], 1.0).is_err());
    assert!(Conjugate::new(Poisson, &[-0.1], 1.0).is_err());
    assert!(Conjugate::new(Categorical::new(3).unwrap(), &[0.7, 0.4], 1.0).is_err());
    assert!(Categorical::new(1).is_err());
    assert!(Binomial::new(0).is_err() && Multinomial::new(3, 0).is_err());
    assert!(Gamma::new(0.0).is_err() && Gamma::new(f64::NAN).is_err());
    assert!(NormalNoise::new(-1.0).is_err());
    let g = Conjugate::new(Bernoulli, &[0.5], 2.0).unwrap();
    assert!(g.power(-1.0).is_err() && g.power(f64::NAN).is_err());
    assert!(g.observe_statistics(&[4.0], 3.0).is_err());
    assert!(g.observe_statistics(&[1.0], 0.0).is_err());
    assert!(g.observe_statistics(&[1.0], f64::NAN).is_err());
    assert!(g.in_parameter(Parameter::Mean).cut(0.0).is_err());
    assert!(g.in_parameter(Parameter::Mean).cut(1.5).is_err());
    assert!(Dual::new(Exponential, &[0.5], 1.0).is_err());
    assert!(matches!(
        MultivariateNormal::new(mat![[1.0, 0.5], [0.4, 1.0]]),
        Err(Error::NotSymmetric {
            row: 0,
            column: 1,
            ..
        })
    ));
    let Err(Error::NotPositiveDefinite { smallest, .. }) =
        MultivariateNormal::new(mat![[1.0, 2.0], [2.0, 1.0]])
    else {
        panic!("an indefinite covariance");
    };
    assert!(close(smallest, -1.0, 1e-12));
    assert!(MultivariateNormal::new(Mat::zeros(2, 3)).is_err());
    assert!(MultivariateNormal::new(Mat::zeros(0, 0)).is_err());
    assert!(MultivariateNormal::new(mat![[f64::NAN]]).is_err());
}

#[test]
fn normals_far_from_the_origin_keep_their_consistency() {
    // the same data, moved by 1e8: the statistics alone would lose every digit
    let near = [0.5, -1.25, 2.0];
    let far: Vec<f64> = near.iter().map(|x| x + 1e8).collect();
    let family = NormalNoise::new(2.25).unwrap();
    let want = Conjugate::new(family, &[0.5], 2.0)
        .unwrap()
        .log_consistency(near)
        .unwrap();
    let got = Conjugate::new(family, &[0.5 + 1e8], 2.0)
        .unwrap()
        .log_consistency(&far)
        .unwrap();
    // the mode itself is rounded at 1e8
    assert!(relatively_close(got, want, 1e-13), "{got} {want}");
    let family = MultivariateNormal::new(mat![[2.25]]).unwrap();
    let rows: Vec<[f64; 1]> = near.iter().map(|&x| [x]).collect();
    let vector = Conjugate::new(family, &[0.5], 2.0).unwrap();
    let got = vector
        .log_consistency(rows.iter().map(|row| &row[..]))
        .unwrap();
    assert!(relatively_close(got, want, 1e-14), "{got} {want}");
}

#[test]
fn large_counts_keep_their_consistency() {
    // one count of 1e12: log p is that of the peak, -log √(2πx) - 1/(12x)
    let got = Conjugate::uninformative(Poisson)
        .log_consistency([1e12])
        .unwrap();
    let want = -0.5 * (2.0 * std::f64::consts::PI * 1e12).ln() - 1.0 / 12e12;
    assert!(relatively_close(got, want, 1e-15), "{got} {want}");
    // 5e11 successes in 1e12 trials: log √(2/(πm))
    let family = Binomial::new(1_000_000_000_000).unwrap();
    let got = Conjugate::uninformative(family)
        .log_consistency([5e11])
        .unwrap();
    let want = 0.5 * (2.0 / (std::f64::consts::PI * 1e12)).ln();
    assert!(relatively_close(got, want, 1e-12), "{got} {want}");
}

#[test]
fn extreme_weights_and_levels_stay_finite() {
    for (family, lower, upper) in scalar_families() {
        for unit in [0.02, 0.5, 0.98] {
            let mean = family.mean_of(between(lower, upper, unit));
            for weight in [1e-9, 1e-3, 1e9, 1e15] {
                for alpha in [5e-324, 1e-300, 1e-3, 1.0 - 1e-16, 1.0] {
                    for parameter in [Parameter::Natural, Parameter::Mean] {
                        let g = family.as_ref().prior(mean, weight).unwrap();
                        let g = g.in_parameter(parameter);
                        let cut = g.cut(alpha).unwrap();
                        assert!(!cut.lower().is_nan() && !cut.upper().is_nan());
                        assert!(cut.contains(g.mode().unwrap()), "{cut}");
                    }
                }
            }
        }
    }
}

#[test]
fn means_next_to_the_boundary_have_finite_cuts() {
    for mean in [1e-300, 1e-20, 1e-9, 1.0 - 1e-16, 1.0 - 1e-9] {
        for weight in [1e-3, 1.0, 1e9] {
            let p = Bernoulli.prior(mean, weight).unwrap();
            let theta = p.in_parameter(Parameter::Natural);
            for alpha in [1e-10, 0.05, 0.9] {
                for g in [&p, &theta] {
                    let cut = g.cut(alpha).unwrap();
                    let mode = g.mode().unwrap();
                    assert!(
                        cut.lower() < mode && mode < cut.upper() || weight > 1e8,
                        "{cut}"
                    );
                    // both ends are at the level, up to the rounding of a coordinate near 1
                    for end in [cut.lower(), cut.upper()] {
                        let nearest = 2.0 * f64::EPSILON * end.abs();
                        let slope = weight
                            * (mean
                                - if g.parameter() == Parameter::Mean {
                                    end
                                } else {
                                    Bernoulli.mean_of(end)
                                })
                            .abs();
                        let scale = if g.parameter() == Parameter::Mean {
                            (end * (1.0 - end)).recip()
                        } else {
                            1.0
                        };
                        let log = g.log_possibility(&end);
                        if end > 0.0 && end < 1.0 || g.parameter() == Parameter::Natural {
                            let slack = 1e-12 * alpha.ln().abs() + 4.0 * nearest * slope * scale;
                            assert!(
                                (log - alpha.ln()).abs() <= slack,
                                "{mean} {weight} {alpha} {cut}: {log}"
                            );
                        }
                    }
                }
            }
        }
    }
}
