//! The gap of `ucbopt-adapt`, upper CBO optimization with adaptive curvature, γ in `[0, 1)` and
//! β₃ > 1:
//!
//! ```text
//! h̃ = h + δ        c ← min(β₃ c, h̃), c₀ = +∞        H_s = h̃ - γ c
//! ```
//!
//! The envelope `c` is a running minimum of `h̃` that may grow by the factor β₃ per step. Since
//! `c ≤ h̃`, the curvature gap `h̃ - γ c ≥ (1-γ) c` is positive. Paper: Appendix "Algorithms",
//! Algorithm 2, uCBOpt-adapt.

use serde::{Deserialize, Serialize};

use super::{FusedGap, Gap, GapConstants};
use crate::error::{Result, check_above_one, check_rate};
use crate::stabilizer::EpsPolicy;

/// Hyper-parameter of the upper gap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Upper {
    /// Strength of the correction, γ in `[0, 1)`. Default 0.9.
    pub gamma: f64,
}

impl Default for Upper {
    fn default() -> Self {
        Self { gamma: 0.9 }
    }
}

/// How fast the envelope grows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Growth {
    /// Growth of the envelope per step, β₃ > 1. Default 1.001.
    pub beta3: f64,
}

impl Default for Growth {
    fn default() -> Self {
        Self { beta3: 1.001 }
    }
}

impl Gap for Upper {
    type Envelope = Growth;

    const ID: &'static str = "ucbopt-adapt";
    const HESS_INIT: f64 = 0.05;
    const EPS_POLICY: EpsPolicy = EpsPolicy::Add;
    const RELEASED_EPS_POLICY: EpsPolicy = EpsPolicy::Clamp;

    fn check(&self, growth: &Growth, _weight_decay: f64) -> Result<()> {
        check_above_one("beta3", growth.beta3)?;
        check_rate("gamma", self.gamma)
    }

    fn start(_total: f64) -> Option<f64> {
        Some(f64::INFINITY)
    }

    fn twin(&self, growth: &Growth, total: f64, envelope: f64) -> (f64, f64) {
        // c ← min(β₃ c, h̃)
        let envelope = (growth.beta3 * envelope).min(total);
        // H_s = h̃ - γ c
        (envelope, total - self.gamma * envelope)
    }

    fn constants(&self, growth: &Growth, weight_decay: f64) -> GapConstants {
        GapConstants::Upper(UpperGap {
            growth: growth.beta3 as f32,
            decay: weight_decay as f32,
            complement: (1.0 - self.gamma) as f32,
        })
    }
}

/// `h̃ - γ c`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpperGap {
    /// β₃.
    pub growth: f32,
    /// δ.
    pub decay: f32,
    /// 1 - γ, formed in `f64`.
    pub complement: f32,
}

impl FusedGap for UpperGap {
    const BUFFERS: usize = 3;

    #[inline(always)]
    fn envelope(&self, curvature: f32, envelope: f32) -> f32 {
        let (total, grown) = (curvature + self.decay, self.growth * envelope);
        if grown < total { grown } else { total }
    }

    #[inline(always)]
    fn gap(&self, curvature: f32, envelope: f32) -> f32 {
        // h̃ - γ c = (h̃ - c) + (1-γ) c: both terms are at least 0, so nothing cancels.
        (curvature + self.decay - envelope) + self.complement * envelope
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::assert_refused;
    use crate::{Update, UpperAdaptCboConfig};

    /// Values worked out apart from this code: θ₀ = 0.7, gradients 0.3, -0.2, 0.5.
    #[test]
    fn three_steps_by_hand() {
        let config = UpperAdaptCboConfig {
            beta2: 0.99,
            eps_policy: EpsPolicy::None,
            ..Default::default()
        };
        let rule = config.build().unwrap();
        let mut x = rule.coordinate(0.7);
        let want = [0.124_809_160_31, 0.053_882_658_12, -0.235_628_745_19];
        for (t, (g, want)) in [0.3, -0.2, 0.5].into_iter().zip(want).enumerate() {
            rule.step_scalar(0.01, t as u64 + 1, g, 0.0, &mut x);
            assert!((x.theta - want).abs() < 1e-11, "{} {want}", x.theta);
        }
        assert!((x.envelope - 0.052_348_296).abs() < 1e-9, "{}", x.envelope);
    }

    #[test]
    fn beta3_and_gamma_are_checked() {
        assert_refused(
            UpperAdaptCboConfig::default(),
            |config| config.build().map(|_| ()),
            &[
                ("beta3", |c| c.envelope.beta3 = 1.0),
                ("beta3", |c| c.envelope.beta3 = f64::INFINITY),
                ("gamma", |c| c.gap.gamma = 1.0),
                ("gamma", |c| c.gap.gamma = -0.1),
                ("gamma", |c| c.gap.gamma = f64::NAN),
            ],
        );
    }
}
