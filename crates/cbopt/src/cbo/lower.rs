//! The gap of `lcbopt-adapt`, lower CBO optimization with adaptive curvature, γ > 1 and β₃ in
//! `[0, 1)`:
//!
//! ```text
//! h̃ = h + δ        c ← max(β₃ c, h̃), c₀ = h₀ + δ        H_s = γ c - h̃
//! ```
//!
//! The envelope `c` is a running maximum of `h̃` that may decay by the factor β₃ per step. Since
//! `c ≥ h̃`, the curvature gap `γ c - h̃ ≥ (γ-1) c` is positive. Paper: Appendix "Algorithms",
//! Algorithm 3, lCBOpt-adapt.

use serde::{Deserialize, Serialize};

use super::{FusedGap, Gap, GapConstants};
use crate::error::{Result, check_above_one, check_rate};
use crate::stabilizer::EpsPolicy;

/// Hyper-parameter of the lower gap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lower {
    /// Strength of the correction, γ > 1. Default 1.02.
    pub gamma: f64,
}

impl Default for Lower {
    fn default() -> Self {
        Self { gamma: 1.02 }
    }
}

/// How fast the envelope decays.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Decay {
    /// Decay of the envelope per step, β₃ in `[0, 1)`. Default 0.999.
    pub beta3: f64,
}

impl Default for Decay {
    fn default() -> Self {
        Self { beta3: 0.999 }
    }
}

impl Gap for Lower {
    type Envelope = Decay;

    const ID: &'static str = "lcbopt-adapt";
    const HESS_INIT: f64 = 0.1;
    const EPS_POLICY: EpsPolicy = EpsPolicy::Add;
    // The same as the paper's form, since the gap is positive.
    const RELEASED_EPS_POLICY: EpsPolicy = EpsPolicy::AddThenClamp;

    fn check(&self, decay: &Decay, _weight_decay: f64) -> Result<()> {
        check_rate("beta3", decay.beta3)?;
        check_above_one("gamma", self.gamma)
    }

    fn start(total: f64) -> Option<f64> {
        Some(total)
    }

    fn twin(&self, decay: &Decay, total: f64, envelope: f64) -> (f64, f64) {
        // c ← max(β₃ c, h̃)
        let envelope = (decay.beta3 * envelope).max(total);
        // H_s = γ c - h̃
        (envelope, self.gamma * envelope - total)
    }

    fn constants(&self, decay: &Decay, weight_decay: f64) -> GapConstants {
        GapConstants::Lower(LowerGap {
            decline: decay.beta3 as f32,
            decay: weight_decay as f32,
            complement: (self.gamma - 1.0) as f32,
        })
    }
}

/// `γ c - h̃`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowerGap {
    /// β₃.
    pub decline: f32,
    /// δ.
    pub decay: f32,
    /// γ - 1, formed in `f64`.
    pub complement: f32,
}

impl FusedGap for LowerGap {
    const BUFFERS: usize = 3;

    #[inline(always)]
    fn envelope(&self, curvature: f32, envelope: f32) -> f32 {
        let (total, decayed) = (curvature + self.decay, self.decline * envelope);
        if decayed > total { decayed } else { total }
    }

    #[inline(always)]
    fn gap(&self, curvature: f32, envelope: f32) -> f32 {
        // γ c - h̃ = (c - h̃) + (γ-1) c: both terms are at least 0, so nothing cancels.
        (envelope - (curvature + self.decay)) + self.complement * envelope
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::assert_refused;
    use crate::{LowerAdaptCboConfig, Update};

    /// Values worked out apart from this code: θ₀ = 0.7, gradients 0.3, -0.2, 0.5.
    #[test]
    fn three_steps_by_hand() {
        let config = LowerAdaptCboConfig {
            beta2: 0.99,
            eps_policy: EpsPolicy::Add,
            ..Default::default()
        };
        let rule = config.build().unwrap();
        let mut x = rule.coordinate(0.7);
        let want = [0.404_221_274_67, 0.374_494_091_39, 0.171_691_710_31];
        for (t, (g, want)) in [0.3, -0.2, 0.5].into_iter().zip(want).enumerate() {
            rule.step_scalar(0.002, t as u64 + 1, g, 0.0, &mut x);
            assert!((x.theta - want).abs() < 1e-11, "{} {want}", x.theta);
        }
        assert!((x.envelope - 0.102_807_99).abs() < 1e-9, "{}", x.envelope);
    }

    #[test]
    fn beta3_and_gamma_are_checked() {
        assert_refused(
            LowerAdaptCboConfig::default(),
            |config| config.build().map(|_| ()),
            &[
                ("beta3", |c| c.envelope.beta3 = 1.0),
                ("beta3", |c| c.envelope.beta3 = -0.1),
                ("gamma", |c| c.gap.gamma = 1.0),
                ("gamma", |c| c.gap.gamma = f64::INFINITY),
                ("gamma", |c| c.gap.gamma = f64::NAN),
            ],
        );
    }
}
