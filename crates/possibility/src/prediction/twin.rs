//! All bounds written the obvious way: one class after another, by ascents with the root of `C`
//! and library functions, from every rival whose own problem is among the 16 highest.

use super::ascent::{Climber, Event};
use super::cone::{Active, HalfSpaces};
use super::{Logits, Pair, STARTS};

/// Upper probability, lower probability and log of the possibility of a class.
pub(super) fn bounds(logits: &Logits, class: usize) -> (f64, f64, f64) {
    let mut climber = Climber::new(logits);
    let top = logits.top(class, &mut climber).unwrap();
    let pair = |j: usize| {
        let margin = logits.mode[j] - logits.mode[class];
        (j, Pair::new(margin, logits.variance_between(j, class)))
    };
    let mut rivals: Vec<_> = (0..logits.classes())
        .filter(|&j| j != class)
        .map(pair)
        .collect();
    rivals.sort_by(|a, b| b.1.log_supremum.total_cmp(&a.1.log_supremum));
    let starts = rivals.iter().take(STARTS);
    let starts = starts.map(|(j, pair)| Some((*j, class, pair.share)));
    let log = std::iter::once(None)
        .chain(starts)
        .map(|start| climber.ascend(Event::Not(class), start).log_value)
        .fold(f64::NEG_INFINITY, f64::max);
    let (mut spaces, mut active) = (HalfSpaces::default(), Active::default());
    let possible = logits.log_possibility_in(class, &mut spaces, &mut active);
    (
        top.log_value.exp().min(1.0),
        -log.min(0.0).exp_m1(),
        possible.unwrap(),
    )
}

/// A number from -1 to 1.
pub(super) fn number(seed: &mut u64) -> f64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// Logits of an image whose weights are as many as said.
pub(super) fn drawn(classes: usize, weights: usize, apart: f64, variance: f64) -> Logits {
    let mut seed = (classes * 1009 + weights * 31) as u64 + variance.to_bits() % 997;
    let z: Vec<f64> = (0..classes).map(|_| apart * number(&mut seed)).collect();
    let j: Vec<f64> = (0..classes * weights).map(|_| number(&mut seed)).collect();
    Logits::image(&z, &j, &vec![weights as f64 / variance; weights]).unwrap()
}

#[test]
fn all_bounds_are_those_of_the_twin() {
    for (classes, weights) in [
        (2, 1),
        (2, 5),
        (3, 2),
        (8, 11),
        (9, 3),
        (10, 14),
        (17, 20),
        (32, 12),
        (33, 12),
        (33, 5),
        (50, 20),
    ] {
        for (apart, variance) in [
            (1.0, 1e-4),
            (3.0, 1.0),
            (6.0, 10.0),
            (10.0, 300.0),
            (1e3, 1e4),
            (5.0, 1e8),
        ] {
            // the twin takes its time
            if classes > 10 && variance > 1e3 {
                continue;
            }
            let logits = drawn(classes, weights, apart, variance);
            let found = logits.predict().unwrap();
            for class in (0..classes).step_by(1 + classes * classes / 100) {
                let (upper, lower, possible) = bounds(&logits, class);
                let name = format!("{classes} {weights} {apart} {variance} {class}");
                assert!((found.upper[class] - upper).abs() < 1e-12, "{name}: upper");
                // more starts of the twin find no more, and fewer of ours no less
                let off = (found.lower[class] - lower).abs();
                assert!(off < 1e-12, "{name}: lower {} {lower}", found.lower[class]);
                assert!(found.lower_at_least[class] <= found.lower[class], "{name}");
                let off = (found.log_possibility[class].exp() - possible.exp()).abs();
                assert!(off < 1e-12, "{name}: possibility");
            }
        }
    }
}
