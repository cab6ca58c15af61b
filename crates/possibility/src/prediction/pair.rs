//! One number that moves, `log sup_t exp(-½t²/v) σ(m+t)`: two classes whose logits differ by `m`,
//! with variance `v` between them.
//!
//! `log σ` is concave, and its conjugate is the entropy `h` of a coin: the supremum is
//! `min_{0≤s≤1} s m + ½ s² v - h(s)`, where `s = σ(-x)` at the maximizer `x = m + s v`.

use crate::numeric::{sigmoid, softplus};

/// The maximizer of the problem above, as `s`, and the log of its supremum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    /// The share `s` of the way `v`: the maximizer is `m + s v`.
    pub share: f64,
    /// Log of the supremum, at most 0.
    pub log_supremum: f64,
}

impl Pair {
    /// Solves `x = m + v σ(-x)`, an increasing equation whose root lies in `[m, m + v]`, by
    /// Newton's method kept inside a shrinking bracket.
    pub(super) fn new(margin: f64, variance: f64) -> Self {
        let (mut low, mut high) = (margin, margin + variance);
        let mut x = margin.clamp(-1.0, 1.0).clamp(low, high);
        for _ in 0..200 {
            let share = sigmoid(-x);
            let excess = x - margin - variance * share;
            if excess > 0.0 {
                high = x;
            } else {
                low = x;
            }
            let newton = x - excess / (1.0 + variance * share * sigmoid(x));
            let next = if newton > low && newton < high {
                newton
            } else {
                0.5 * low + 0.5 * high
            };
            if next == x || (next - x).abs() <= f64::EPSILON * x.abs() {
                break;
            }
            x = next;
        }
        let share = sigmoid(-x);
        Self {
            share,
            log_supremum: -0.5 * share * (share * variance) - softplus(-x),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The objective that `Pair` maximizes.
    fn log_value(margin: f64, variance: f64, t: f64) -> f64 {
        -0.5 * t * t / variance - softplus(-(margin + t))
    }

    #[test]
    fn without_variance_nothing_moves() {
        for margin in [-800.0, -1.5, 0.0, 3.0, 800.0] {
            assert_eq!(Pair::new(margin, 0.0).log_supremum, -softplus(-margin));
        }
    }

    #[test]
    fn by_hand_where_the_maximizer_is_zero() {
        // x = 0 has share ½, so margin = -v/2 and the log supremum -v/8 - log 2
        let pair = Pair::new(-2.0, 4.0);
        assert!((pair.share - 0.5).abs() < 1e-15);
        assert!((pair.log_supremum + 0.5 + std::f64::consts::LN_2).abs() < 1e-15);
    }

    #[test]
    fn extremes_stay_finite() {
        for margin in [-1e100, -1e8, 0.0, 1e8, 1e100] {
            for variance in [1e-100, 1.0, 1e8, 1e100] {
                let pair = Pair::new(margin, variance);
                assert!(pair.log_supremum <= 0.0 && pair.log_supremum.is_finite());
                assert!((0.0..=1.0).contains(&pair.share));
            }
        }
        // far enough to move at no price, and not at all
        assert!(Pair::new(-1e3, 1e12).log_supremum > -1e-5);
        assert!((Pair::new(-1e3, 1e-6).log_supremum + 1e3).abs() < 1e-5);
    }

    proptest! {
        #[test]
        fn no_other_move_is_better(
            margin in -30.0f64..30.0,
            log_variance in -8.0f64..8.0,
            other in -50.0f64..50.0,
        ) {
            let variance = log_variance.exp();
            let pair = Pair::new(margin, variance);
            let there = log_value(margin, variance, pair.share * variance);
            prop_assert!((there - pair.log_supremum).abs() <= 1e-12 * (1.0 + there.abs()));
            prop_assert!(log_value(margin, variance, other) <= pair.log_supremum + 1e-12);
        }
    }
}
