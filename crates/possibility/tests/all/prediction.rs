//! Bounds of what a classifier may say: golden numbers of an independent implementation, and laws.

use golden::{assert_within, numbers};
use possibility::Normal;
use possibility::prediction::Logits;
use proptest::prelude::*;

use crate::NUMERICAL;

/// Laws hold up to the certified distance of a log to its dual bound.
const LAW: f64 = 1e-8;

#[test]
fn golden_bounds_of_small_cases() {
    for case in golden::cases("prediction/bounds.json") {
        let name = case["name"].as_str().unwrap();
        let precision = golden::number(&case["precision"]);
        let gram = numbers(&case["gram"]);
        let covariance: Vec<f64> = gram.iter().map(|g| g / precision).collect();
        let found = Logits::new(&numbers(&case["logits"]), &covariance).unwrap();
        let found = found.predict().unwrap();
        for (what, got) in [
            ("upper", found.upper.clone()),
            ("lower", found.lower.clone()),
            ("possibility", found.possibility()),
            ("necessity", vec![found.necessity()]),
        ] {
            assert_within(
                &format!("{name}: {what}"),
                &got,
                &numbers(&case[what]),
                NUMERICAL,
            );
        }
        for (value, least) in found.lower.iter().zip(&found.lower_at_least) {
            assert!(least <= value, "{name}");
        }
    }
}

#[test]
fn golden_bounds_of_hard_cases() {
    for case in golden::cases("prediction/hard.json") {
        let name = case["name"].as_str().unwrap();
        let jacobian = numbers(&case["jacobian"]);
        let logits = numbers(&case["logits"]);
        let precisions = vec![golden::number(&case["precision"]); jacobian.len() / logits.len()];
        let found = Logits::image(&logits, &jacobian, &precisions).unwrap();
        let classes: Vec<usize> = numbers(&case["classes"])
            .iter()
            .map(|k| *k as usize)
            .collect();
        let each = |value: &dyn Fn(usize) -> f64| classes.iter().map(|&k| value(k)).collect();
        let lower: Vec<f64> = each(&|k| found.lower(k).value);
        let upper: Vec<f64> = each(&|k| found.upper(k).unwrap());
        let possibility: Vec<f64> = each(&|k| found.possibility(k).unwrap());
        for (what, got) in [
            ("upper", &upper),
            ("lower", &lower),
            ("possibility", &possibility),
        ] {
            let name = format!("{name}: {what}");
            assert_within(&name, got, &numbers(&case[what]), NUMERICAL);
        }
        // one number at a time and all at once are the same
        if classes.len() == logits.len() {
            let all = found.predict().unwrap();
            let mut whole = all.log_possibility.iter().map(|log| log.exp());
            assert!(possibility.iter().all(|own| Some(*own) == whole.next()));
            assert_within(name, &all.upper, &upper, NUMERICAL);
            assert_within(name, &all.lower, &lower, NUMERICAL);
        }
    }
}

#[test]
fn by_hand_two_classes() {
    // margin -v/2 with v = 4: the move of 2 makes the logits equal, at the price exp(-½)
    let logits = Logits::new(&[1.0, -1.0], &[1.0, -1.0, -1.0, 1.0]).unwrap();
    assert!((logits.upper(1).unwrap() - 0.5 * (-0.5f64).exp()).abs() < 1e-15);
    assert!((logits.lower(0).value - 1.0 + 0.5 * (-0.5f64).exp()).abs() < 1e-15);
    // the two are one number: nothing to bracket
    assert!((logits.lower(0).at_least - logits.lower(0).value).abs() < 1e-11);
    assert!((logits.possibility(1).unwrap() - (-0.5f64).exp()).abs() < 1e-15);
}

#[test]
fn logits_that_move_together_never_change_places() {
    let ones = [1.0; 9];
    let found = Logits::new(&[1.0, 0.5, 0.5], &ones)
        .unwrap()
        .predict()
        .unwrap();
    assert_eq!(found.possibility(), [1.0, 0.0, 0.0]);
    assert_eq!(found.necessity(), 1.0);
    for (upper, p) in found.upper.iter().zip(&found.probabilities) {
        assert!((upper - p).abs() < 1e-15);
    }
    assert!(found.width() < 1e-12);
}

#[test]
fn extreme_logits_and_variances_are_right_or_refused() {
    for z in [1e-300, 1.0, 1e3, 1e8, 1e100] {
        for v in [0.0, 1e-300, 1e-8, 1.0, 1e8, 1e100] {
            let covariance = [v, 0.0, 0.0, 0.0, v, 0.0, 0.0, 0.0, 2.0 * v];
            let logits = Logits::new(&[z, 0.0, -z], &covariance).unwrap();
            let found = logits.predict().unwrap();
            for class in 0..3 {
                let (p, lower, upper) = (
                    found.probabilities[class],
                    found.lower[class],
                    found.upper[class],
                );
                assert!(
                    lower <= p + LAW && p <= upper + LAW,
                    "{z} {v} {class}: {found:?}"
                );
                assert!((0.0..=1.0).contains(&lower) && (0.0..=1.0).contains(&upper));
            }
            // one rival at a time is closed, and the second is as near as the cone
            let want = if v == 0.0 {
                0.0
            } else {
                (-0.25 * z / v * z).exp()
            };
            assert!(
                (found.possibility()[1] - want).abs() < 1e-12,
                "{z} {v}: {found:?}"
            );
        }
    }
    assert!(Logits::new(&[1e151, 0.0], &[0.0; 4]).is_err());
    assert!(Logits::new(&[0.0, 0.0], &[1e151, 0.0, 0.0, 1.0]).is_err());
}

#[test]
fn what_is_no_covariance_is_refused() {
    let text = |z: &[f64], c: &[f64]| Logits::new(z, c).unwrap_err().to_string();
    assert_eq!(
        text(&[1.0], &[1.0]),
        "number of classes 1 is not in [2, inf)"
    );
    assert_eq!(
        text(&[1.0, 2.0], &[1.0; 3]),
        "covariance has 3 entries, expected 4"
    );
    assert_eq!(
        text(&[1.0, f64::NAN], &[1.0; 4]),
        "logits[1] NaN is not in [-1e150, 1e150]"
    );
    let nan = [1.0, f64::NAN, f64::NAN, 1.0];
    assert!(text(&[1.0, 2.0], &nan).starts_with("covariance[1] NaN"));
    let skew = [1.0, 0.5, 0.4, 1.0];
    assert!(text(&[1.0, 2.0], &skew).starts_with("covariance is not symmetric"));
    let indefinite = [1.0, 2.0, 2.0, 1.0];
    assert!(text(&[1.0, 2.0], &indefinite).contains("not positive definite"));
    assert!(text(&[1.0, 2.0], &[-1.0, 0.0, 0.0, -1.0]).contains("not positive definite"));
    assert!(text(&[1.0, 2.0], &[0.0, 1.0, 1.0, 1.0]).contains("not positive definite"));
    // what single precision leaves of a singular matrix is no mistake
    let rounded = [1.0, 1.0 + 1e-7, 1.0, 1.0];
    let found = Logits::new(&[1.0, 0.0], &rounded).unwrap();
    assert_eq!(found.possibility(1).unwrap(), 0.0);
    assert!(Logits::image(&[0.0, 0.0], &[1.0, 1.0], &[0.0]).is_err());
    assert!(Logits::image(&[0.0, 0.0], &[1.0], &[1.0]).is_err());
}

#[test]
fn small_variances_keep_their_digits_beside_large_ones() {
    // two classes that hardly move, and two that move a million times as far, all correlated
    let (small, large) = (1e-3, 1e3);
    let jacobian = [small, 0.0, 0.0, small, large, large, -large, 2.0 * large];
    let logits = Logits::image(&[0.001, 0.0, -1e9, -1e9], &jacobian, &[1.0, 1.0]).unwrap();
    let want = (-0.5 * 1e-6 / 2e-6f64).exp();
    assert!((logits.possibility(1).unwrap() - want).abs() < 1e-9);
}

#[test]
fn a_thousand_classes() {
    let n = 1000;
    // logits that repeat, and weights that move a class in one of three directions
    let logits: Vec<f64> = (0..n).map(|k| ((k * 37) % 101) as f64 * 0.1).collect();
    let weight = |k: usize, i: usize| {
        if k % 3 == i {
            1.0 + (k % 7) as f64 * 0.1
        } else {
            0.0
        }
    };
    let jacobian: Vec<f64> = (0..n * 3).map(|at| weight(at / 3, at % 3)).collect();
    let found = Logits::image(&logits, &jacobian, &[2.0, 1.0, 4.0]).unwrap();
    let answer = found.answer();
    assert_eq!(answer, 30); // 37 · 30 = 100 modulo 101
    let p = found.probabilities()[answer];
    let (lower, upper) = (found.lower(answer), found.upper(answer).unwrap());
    assert!(lower.at_least <= lower.value && lower.value < p && p < upper && upper < 1.0);
    assert_eq!(found.possibility(answer).unwrap(), 1.0);
    let rival = found.possibility(131).unwrap();
    // equally probable (131 = 30 modulo 101): nothing speaks against it
    assert_eq!(rival, 1.0);
    // 0 moves with 21, which is ahead of it
    assert_eq!(found.log_possibility(0).unwrap(), f64::NEG_INFINITY);
    // of those that move farthest in their direction, the one that is ahead can pass all others
    let farthest = (0..n).filter(|k| k % 21 == 6);
    let first = farthest.max_by(|&a, &b| logits[a].total_cmp(&logits[b]));
    let log = found.log_possibility(first.unwrap()).unwrap();
    assert!(log <= 0.0 && log.is_finite(), "{log}");
}

/// Logits and a Jacobian, of full rank or not.
fn networks() -> impl Strategy<Value = (Vec<f64>, Vec<f64>, usize)> {
    (2usize..6, 1usize..6).prop_flat_map(|(classes, weights)| {
        (
            prop::collection::vec(-4.0f64..4.0, classes),
            prop::collection::vec(-2.0f64..2.0, classes * weights),
            Just(weights),
        )
    })
}

fn image(logits: &[f64], jacobian: &[f64], weights: usize, precision: f64) -> Logits {
    Logits::image(logits, jacobian, &vec![precision; weights]).unwrap()
}

/// `log softmax` at the logits `z₀ + J(θ-m)`, directly from the weights, less the price of the
/// move.
fn log_at(z: &[f64], jacobian: &[f64], move_by: &[f64], precision: f64) -> (Vec<f64>, f64) {
    let rows = jacobian.chunks_exact(move_by.len());
    let moved: Vec<f64> = rows
        .zip(z)
        .map(|(row, z)| z + row.iter().zip(move_by).map(|(j, m)| j * m).sum::<f64>())
        .collect();
    let price = 0.5 * precision * move_by.iter().map(|m| m * m).sum::<f64>();
    let top = moved.iter().fold(f64::MIN, |most, z| most.max(*z));
    let total: f64 = moved.iter().map(|z| (z - top).exp()).sum();
    (
        moved.iter().map(|z| (z - top).exp() / total).collect(),
        price,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bounds_hold_the_probability_and_nest(
        (z, j, weights) in networks(),
        log_precision in -4.0f64..4.0,
        factor in 1.0f64..20.0,
    ) {
        let precision = log_precision.exp();
        let wide = image(&z, &j, weights, precision).predict().unwrap();
        let narrow = image(&z, &j, weights, precision * factor).predict().unwrap();
        let mut most = 0.0f64;
        for k in 0..z.len() {
            let p = wide.probabilities[k];
            prop_assert!(wide.lower_at_least[k] <= wide.lower[k]);
            prop_assert!(wide.lower[k] <= narrow.lower[k] + LAW);
            prop_assert!(narrow.lower[k] <= p + LAW && p <= narrow.upper[k] + LAW);
            prop_assert!(narrow.upper[k] <= wide.upper[k] + LAW);
            prop_assert!(narrow.log_possibility[k] <= wide.log_possibility[k] + LAW);
            most = most.max(wide.possibility()[k]);
        }
        prop_assert_eq!(most, 1.0);
        prop_assert!(wide.width() >= -LAW && (0.0..=1.0).contains(&wide.necessity()));
        // necessity ranks by distance, which the scale of the precision only multiplies
        let ratio = narrow.log_rival() / wide.log_rival();
        prop_assert!(wide.log_rival() > -1e-6 || ratio.is_nan() || (ratio / factor - 1.0).abs() < LAW);
    }

    #[test]
    fn limits_of_the_precision((z, j, weights) in networks()) {
        let sure = image(&z, &j, weights, 1e12).predict().unwrap();
        for k in 0..z.len() {
            prop_assert!((sure.upper[k] - sure.probabilities[k]).abs() < 1e-9);
            prop_assert!((sure.lower[k] - sure.probabilities[k]).abs() < 1e-9);
        }
        // a class that some direction sets before all others reaches 1, and no class is sure then
        let open = image(&z, &j, weights, 1e-14).predict().unwrap();
        let row = |k: usize| &j[k * weights..(k + 1) * weights];
        for k in 0..z.len() {
            let ahead = |i: usize| {
                let step: f64 = row(k).iter().zip(row(i)).map(|(a, b)| (a - b) * a).sum();
                i == k || step > 0.1
            };
            if (0..z.len()).all(ahead) {
                prop_assert!(open.upper[k] > 1.0 - 1e-6, "{:?}", open);
                prop_assert!(open.possibility()[k] > 1.0 - 1e-6, "{:?}", open);
                for other in (0..z.len()).filter(|&other| other != k) {
                    prop_assert!(open.lower[other] < 1e-6, "{:?}", open);
                }
            }
        }
    }

    #[test]
    fn only_differences_of_logits_count(
        (z, j, weights) in networks(),
        shift in -100.0f64..100.0,
        common in prop::collection::vec(-3.0f64..3.0, 5),
    ) {
        let plain = image(&z, &j, weights, 0.7).predict().unwrap();
        let moved: Vec<f64> = z.iter().map(|z| z + shift).collect();
        // every class moves by the same with every weight
        let tilted: Vec<f64> = j.iter().enumerate().map(|(i, j)| j + common[i % weights]).collect();
        let other = image(&moved, &tilted, weights, 0.7).predict().unwrap();
        for k in 0..z.len() {
            prop_assert!((plain.upper[k] - other.upper[k]).abs() < LAW);
            prop_assert!((plain.lower[k] - other.lower[k]).abs() < LAW);
            prop_assert!((plain.possibility()[k] - other.possibility()[k]).abs() < LAW);
        }
    }

    #[test]
    fn no_weights_do_better(
        (z, j, weights) in networks(),
        log_precision in -3.0f64..3.0,
        seeds in prop::collection::vec(prop::collection::vec(-3.0f64..3.0, 5), 40),
    ) {
        let precision = log_precision.exp();
        let found = image(&z, &j, weights, precision).predict().unwrap();
        for seed in &seeds {
            let move_by: Vec<f64> = seed[..weights].iter().map(|m| m / precision.sqrt()).collect();
            let (p, price) = log_at(&z, &j, &move_by, precision);
            let g = (-price).exp();
            let first = (0..p.len()).max_by(|&a, &b| p[a].total_cmp(&p[b])).unwrap();
            prop_assert!(g <= found.possibility()[first] + LAW);
            for (k, p) in p.iter().enumerate() {
                prop_assert!(g * p <= found.upper[k] + LAW);
                prop_assert!(g * (1.0 - p) <= 1.0 - found.lower[k] + LAW);
            }
        }
    }

    #[test]
    fn two_classes_agree_with_brute_force(
        margin in -5.0f64..5.0,
        log_variance in -3.0f64..3.0,
    ) {
        let variance = log_variance.exp();
        let logits = Logits::new(&[margin, 0.0], &[variance, 0.0, 0.0, 0.0]).unwrap();
        let step = 1e-3 * variance.sqrt();
        let grid = (-8000..=8000).map(|i| f64::from(i) * step);
        let best = grid
            .map(|t| (-0.5 * t * t / variance).exp() / (1.0 + (-(margin + t)).exp()))
            .fold(0.0, f64::max);
        // a parabola misses its top by at most half a step: 1e-6/8 of the curvature
        prop_assert!((logits.upper(0).unwrap() - best).abs() < 1e-6);
        prop_assert!((1.0 - logits.lower(1).value - logits.upper(0).unwrap()).abs() < LAW);
    }

    #[test]
    fn the_image_is_that_of_a_normal(
        z in prop::collection::vec(-2.0f64..2.0, 3),
        j in prop::collection::vec(-2.0f64..2.0, 12),
        precisions in prop::collection::vec(0.2f64..5.0, 4),
    ) {
        let weights = Normal::diagonal(vec![0.0; 4], &precisions).unwrap();
        let map = faer::Mat::from_fn(3, 4, |k, i| j[k * 4 + i]);
        let Ok(normal) = weights.affine_image(map.as_ref(), &z) else { return Ok(()) };
        let c = normal.covariance();
        let logits = Logits::image(&z, &j, &precisions).unwrap();
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let want = c[(a, a)] + c[(b, b)] - 2.0 * c[(a, b)];
            prop_assert!((logits.variance_between(a, b) - want).abs() <= 1e-12 * (1.0 + want));
        }
    }
}
