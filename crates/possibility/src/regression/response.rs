//! What is observed at a linear predictor `z = xᵀw`, in canonical form
//! `p(y | z) = h(y) exp((yz - b(z))/φ)`. Paper: Section 5, Proposition 1.
//!
//! | response | `y` | `b(z)` | mean `b'(z)` | curvature `b''(z)` | regression |
//! |---|---|---|---|---|---|
//! | Bernoulli | 0 or 1 | `log(1 + e^z)` | `σ(z)` | `σ(z)σ(-z)` | logistic |
//! | Poisson | 0, 1, 2, … | `e^z` | `e^z` | `e^z` | Poisson |
//! | normal | any number | `z²/2` | `z` | 1 | linear |
//!
//! Each of them has `abs(b''') ≤ b''`: within a distance `r` of `z` the curvature changes by a
//! factor between `e⁻ʳ` and `eʳ`. The certificates of [`super::profile`] rest on this alone.

use super::kernel::majorizer_curvature;
use super::widest::softplus_remainder;
use crate::family::special::{exp_m1_minus, log_factorial, logit};
use crate::numeric::sigmoid;
#[cfg(test)]
use crate::numeric::softplus;

/// The distribution of an observation given its linear predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Response {
    /// A label 0 or 1 with probability `σ(z)` of 1.
    Bernoulli,
    /// A count with mean `e^z`.
    Poisson,
    /// A number with mean `z` and variance `φ`.
    Normal,
}

impl Response {
    /// Whether `y` can be observed.
    pub fn accepts(self, y: f64) -> bool {
        match self {
            Self::Bernoulli => y == 0.0 || y == 1.0,
            Self::Poisson => y >= 0.0 && y.fract() == 0.0 && y <= LARGEST_COUNT,
            Self::Normal => y.is_finite(),
        }
    }

    /// The values that [`Self::accepts`] accepts.
    pub fn range(self) -> &'static str {
        match self {
            Self::Bernoulli => "{0, 1}",
            Self::Poisson => "{0, 1, 2, ..., 2^53}",
            Self::Normal => "(-inf, inf)",
        }
    }

    /// Precision of the prior of a covariate's coefficient where none is asked for: 1 for labels,
    /// which may be separated and then have no mode without a prior, else 0.
    pub fn usual_prior_precision(self) -> f64 {
        match self {
            Self::Bernoulli => 1.0,
            Self::Poisson | Self::Normal => 0.0,
        }
    }

    /// The mean `b'(z)` of an observation; it increases with `z`.
    pub fn mean(self, z: f64) -> f64 {
        match self {
            Self::Bernoulli => sigmoid(z),
            Self::Poisson => z.exp(),
            Self::Normal => z,
        }
    }

    /// The linear predictor whose mean is `mean`, infinite at the ends of the means.
    pub fn link(self, mean: f64) -> f64 {
        match self {
            Self::Bernoulli => logit(mean),
            Self::Poisson => mean.ln(),
            Self::Normal => mean,
        }
    }

    /// The curvature `b''(z)`.
    pub(super) fn curvature(self, z: f64) -> f64 {
        match self {
            Self::Bernoulli => sigmoid(z) * sigmoid(-z),
            Self::Poisson => z.exp(),
            Self::Normal => 1.0,
        }
    }

    /// Whether the loss is a parabola, so that profiles have closed forms.
    pub(super) fn is_quadratic(self) -> bool {
        self == Self::Normal
    }

    /// The part of `-log p(y|z)` that `z` moves, times `φ`: `b(z) - yz`, for a normal response with
    /// `y²/2` added.
    #[cfg(test)]
    pub(super) fn loss(self, y: f64, z: f64) -> f64 {
        match self {
            // y is 0 or 1: nothing cancels
            Self::Bernoulli => softplus((1.0 - 2.0 * y) * z),
            Self::Poisson => z.exp() - y * z,
            Self::Normal => 0.5 * (z - y) * (z - y),
        }
    }

    /// What [`Self::loss`] leaves out of `log p(y|z)`.
    pub(super) fn log_base(self, y: f64, dispersion: f64) -> f64 {
        match self {
            Self::Bernoulli => 0.0,
            Self::Poisson => 0.0 - log_factorial(y),
            Self::Normal => -0.5 * (2.0 * std::f64::consts::PI * dispersion).ln(),
        }
    }

    /// Size of the terms that make up [`Self::loss`] where they cancel: its rounding is that of
    /// this much more.
    pub(super) fn cancelled(self, y: f64) -> f64 {
        match self {
            Self::Bernoulli => 0.0,
            Self::Poisson => y,
            Self::Normal => 0.5 * y * y,
        }
    }

    /// `inf 2(b(z+h) - b(z) - b'(z)h)/h²` over `abs(h) ≤ reach`: the greatest curvature of a
    /// parabola that touches `b` at `z` and lies below it within reach.
    pub(super) fn least_chord(self, z: f64, reach: f64) -> f64 {
        match self {
            // b'' is even and falls away from 0: outward is the worst direction, the end the worst
            // place
            Self::Bernoulli => 2.0 * softplus_remainder(z.abs(), reach),
            Self::Poisson => z.exp() * exponential_chord(-reach),
            Self::Normal => 1.0,
        }
    }

    /// `sup 2(b(z+h) - b(z) - b'(z)h)/h²` over `abs(h) ≤ reach`; for a Bernoulli response over all
    /// `h`.
    pub(super) fn greatest_chord(self, z: f64, reach: f64) -> f64 {
        match self {
            Self::Bernoulli => majorizer_curvature(z),
            Self::Poisson => z.exp() * exponential_chord(reach),
            Self::Normal => 1.0,
        }
    }
}

/// Beyond it not every count is a number.
const LARGEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// `2(e^h - 1 - h)/h²`, 1 at 0.
fn exponential_chord(h: f64) -> f64 {
    if h.abs() < 1e-8 {
        1.0 + h / 3.0
    } else {
        2.0 * exp_m1_minus(h) / h / h
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Response; 3] = [Response::Bernoulli, Response::Poisson, Response::Normal];

    #[test]
    fn losses_by_hand() {
        let ln_2 = std::f64::consts::LN_2;
        assert_eq!(Response::Bernoulli.loss(1.0, 0.0), ln_2);
        assert_eq!(Response::Poisson.loss(3.0, 0.0), 1.0);
        assert_eq!(Response::Normal.loss(3.0, 1.0), 2.0);
        // log(e^-1/3!)
        assert_eq!(Response::Poisson.log_base(3.0, 1.0), -6f64.ln());
        assert_eq!(Response::Normal.range(), "(-inf, inf)");
        assert!(!Response::Poisson.accepts(1.5) && !Response::Bernoulli.accepts(2.0));
        assert!(!Response::Poisson.accepts(f64::NAN) && !Response::Normal.accepts(f64::INFINITY));
    }

    proptest! {
        #[test]
        fn the_link_inverts_the_mean(z in -5.0..5.0f64) {
            for response in ALL {
                let back = response.link(response.mean(z));
                prop_assert!((back - z).abs() < 1e-12, "{:?}: {} for {}", response, back, z);
            }
        }

        #[test]
        fn the_mean_is_the_slope_of_the_loss(z in -5.0..5.0f64) {
            let h = 1e-6;
            for response in ALL {
                let slope = (response.loss(1.0, z + h) - response.loss(1.0, z - h)) / (2.0 * h);
                prop_assert!((slope - (response.mean(z) - 1.0)).abs() < 1e-7);
            }
        }

        #[test]
        fn chords_hold_within_reach(z in -6.0..6.0f64, reach in 1e-3..6.0f64, share in -1.0..1.0f64) {
            let h = share * reach;
            for response in ALL {
                let remainder = response.loss(0.0, z + h)
                    - response.loss(0.0, z)
                    - response.mean(z) * h;
                let slack = 1e-13 * (1.0 + response.loss(0.0, z).abs() + response.loss(0.0, z + h).abs());
                let least = 0.5 * response.least_chord(z, reach) * h * h;
                let greatest = 0.5 * response.greatest_chord(z, reach) * h * h;
                prop_assert!(least <= remainder + slack, "{:?}", response);
                prop_assert!(remainder <= greatest + slack, "{:?}", response);
            }
        }
    }
}
