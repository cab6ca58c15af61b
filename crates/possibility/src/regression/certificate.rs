//! How far from the minimum: certificates that need no prior.
//!
//! Let `f` be a sum of convex functions of linear predictors `xᵢᵀw` with `abs(b''') ≤ b''` and of a
//! quadratic, `H = ∇²f(w)`, `λ² = ∇f(w)ᵀH⁻¹∇f(w)` the squared Newton decrement and
//! `ρ = maxᵢ (xᵢᵀH⁻¹xᵢ)^½` the greatest leverage. Along a step `v` the curvature falls by no more
//! than `exp(-maxᵢ abs(xᵢᵀv))`, and `abs(xᵢᵀv) ≤ ρ‖v‖_H`, so that with `r = ‖v‖_H`
//!
//! `f(w+v) ≥ f(w) - λr + (e^{-ρr} - 1 + ρr)/ρ²`.
//!
//! The right-hand side is least at `ρr = -log(1 - λρ)` if `u = λρ < 1`, and then
//!
//! `f(w) - min f ≤ ((1-u) log(1-u) + u)/ρ² = λ²(1/2 + u/6 + u²/12 + …)`.
//!
//! The same holds on a hyperplane, with the decrement of the gradient along it; the leverage of the
//! whole space bounds that of the hyperplane. At the minimum itself (`λ = 0`) the first formula
//! bounds the set `{f ≤ min f + L}`: `‖v‖_H ≤ r` with `e^{-ρr} - 1 + ρr = Lρ²`.

use crate::family::special::exp_m1_minus_roots;

/// `f(w) - min f` at most, from `λ²` and `ρ`; `None` if `λρ ≥ 1`, where nothing is known.
pub(super) fn gap(squared_decrement: f64, leverage: f64) -> Option<f64> {
    /// Below it three terms of the series are exact to rounding.
    const SMALL: f64 = 1e-5;
    let u = squared_decrement.sqrt() * leverage;
    if u < SMALL {
        Some(squared_decrement * (0.5 + u / 6.0 + u * u / 12.0))
    } else if u < 1.0 {
        Some(((1.0 - u) * (-u).ln_1p() + u) / (leverage * leverage))
    } else {
        None
    }
}

/// The largest `‖v‖_H` with `f(w+v) ≤ f(w) + level`, at most, around a minimum `w`.
pub(super) fn reach(level: f64, leverage: f64) -> f64 {
    /// Below it the loss is quadratic to rounding.
    const SMALL: f64 = 1e-12;
    let scaled = level * leverage * leverage;
    if scaled < SMALL {
        (2.0 * level).sqrt() * (1.0 + scaled.sqrt())
    } else {
        -exp_m1_minus_roots(scaled).0 / leverage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::{sigmoid, softplus};
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        // (1-u) log(1-u) + u at u = 1/2, with ρ = 1/2 and λ = 1
        let want = 4.0 * (0.5 * 0.5f64.ln() + 0.5);
        assert!((gap(1.0, 0.5).unwrap() - want).abs() < 1e-15);
        assert_eq!(gap(0.04, 0.0), Some(0.02));
        assert_eq!(gap(4.0, 0.5), None);
        assert_eq!(gap(f64::NAN, 0.5), None);
        // e^-1 - 1 + 1 = e^-1
        assert!((reach((-1f64).exp(), 1.0) - 1.0).abs() < 1e-14);
        assert!((reach(2.0, 0.0) - 2.0).abs() < 1e-15);
    }

    #[test]
    fn both_forms_meet() {
        for leverage in [0.3, 2.0] {
            let at = |u: f64| gap((u / leverage).powi(2), leverage).unwrap();
            assert!((at(1.000_000_1e-5) / at(0.999_999_9e-5) - 1.0).abs() < 1e-5);
            let level = 1e-12 / (leverage * leverage);
            let (below, above) = (
                reach(0.999 * level, leverage),
                reach(1.001 * level, leverage),
            );
            assert!(below < above && above < 1.002 * below);
        }
    }

    proptest! {
        /// `f(w) = softplus(w) - pw + δw²/2` in one dimension, its minimum found by bisection.
        #[test]
        fn the_gap_is_an_upper_bound(w in -4.0..4.0f64, p in 0.05..0.95f64, delta in 0.0..0.5f64) {
            let f = |w: f64| softplus(w) - p * w + 0.5 * delta * w * w;
            let slope = |w: f64| sigmoid(w) - p + delta * w;
            let (mut low, mut high) = (-60.0, 60.0);
            for _ in 0..200 {
                let middle = 0.5 * (low + high);
                if slope(middle) > 0.0 { high = middle } else { low = middle }
            }
            let curvature = |w: f64| sigmoid(w) * sigmoid(-w) + delta;
            let decrement = slope(w) * slope(w) / curvature(w);
            if let Some(gap) = gap(decrement, curvature(w).sqrt().recip()) {
                let true_gap = f(w) - f(low);
                prop_assert!(true_gap <= gap * (1.0 + 1e-9) + 1e-14, "{} above {}", true_gap, gap);
            }
            // the level set around the minimum
            let leverage = curvature(low).sqrt().recip();
            let level = f(w) - f(low);
            let distance = (w - low).abs() * curvature(low).sqrt();
            prop_assert!(distance <= reach(level, leverage) * (1.0 + 1e-9) + 1e-6);
        }
    }
}
