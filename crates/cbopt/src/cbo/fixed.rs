//! The gap of `ucbopt`, upper CBO optimization with a fixed curvature parameter ϑ in `[0, δ]`:
//!
//! ```text
//! H_s = h + δ - ϑ
//! ```
//!
//! Paper: Section "Experiments", Algorithm 1, uCBOpt (which asks ϑ > 0; ϑ = 0, the base of its
//! ablation, is allowed too).

use serde::{Deserialize, Serialize};

use super::{FusedGap, Gap, GapConstants};
use crate::error::{Result, check};
use crate::stabilizer::EpsPolicy;

/// Hyper-parameter of the fixed gap.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fixed {
    /// Candidate curvature ϑ in `[0, δ]`. Default 8e-6.
    pub vartheta: f64,
}

impl Default for Fixed {
    fn default() -> Self {
        Self { vartheta: 8e-6 }
    }
}

/// There is no envelope.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct NoEnvelope {}

impl Gap for Fixed {
    type Envelope = NoEnvelope;

    const ID: &'static str = "ucbopt";
    const HESS_INIT: f64 = 0.05;
    const EPS_POLICY: EpsPolicy = EpsPolicy::None;
    const RELEASED_EPS_POLICY: EpsPolicy = EpsPolicy::Clamp;

    fn check(&self, _: &NoEnvelope, weight_decay: f64) -> Result<()> {
        check("vartheta", self.vartheta, "[0, weight_decay]", |v| {
            (0.0..=weight_decay).contains(&v)
        })
    }

    fn start(_total: f64) -> Option<f64> {
        None
    }

    fn twin(&self, _: &NoEnvelope, total: f64, envelope: f64) -> (f64, f64) {
        (envelope, total - self.vartheta)
    }

    fn constants(&self, _: &NoEnvelope, weight_decay: f64) -> GapConstants {
        GapConstants::Fixed(FixedGap {
            residual: (weight_decay - self.vartheta) as f32,
        })
    }
}

/// `h + δ - ϑ`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FixedGap {
    /// δ - ϑ, formed in `f64`: no cancellation is left for `f32`.
    pub residual: f32,
}

impl FusedGap for FixedGap {
    const BUFFERS: usize = 2;

    #[inline(always)]
    fn envelope(&self, _curvature: f32, envelope: f32) -> f32 {
        envelope
    }

    #[inline(always)]
    fn gap(&self, curvature: f32, _envelope: f32) -> f32 {
        curvature + self.residual
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::assert_refused;
    use crate::{Update, UpperCboConfig};

    /// Values worked out apart from this code: θ₀ = 0.7, gradients 0.3, -0.2, 0.5, ρ = 0.1.
    #[test]
    fn three_steps_by_hand() {
        let rule = UpperCboConfig::default().build().unwrap();
        let mut x = rule.coordinate(0.7);
        let want = [0.120_299_889_98, 0.048_976_434_31, -0.350_773_212_07];
        for (t, (g, want)) in [0.3, -0.2, 0.5].into_iter().zip(want).enumerate() {
            rule.step_scalar(0.1, t as u64 + 1, g, 0.0, &mut x);
            assert!((x.theta - want).abs() < 1e-11, "{} {want}", x.theta);
        }
        assert!((x.curvature - 0.050_002_299_993).abs() < 1e-13);
    }

    #[test]
    fn vartheta_is_checked_on_both_edges() {
        assert_refused(
            UpperCboConfig::default(),
            |config| config.build().map(|_| ()),
            &[
                ("vartheta", |c| c.gap.vartheta = 2.001e-3),
                ("vartheta", |c| c.gap.vartheta = -1e-9),
                ("vartheta", |c| c.gap.vartheta = f64::NAN),
            ],
        );
        for vartheta in [0.0, 2e-3] {
            let gap = Fixed { vartheta };
            let config = UpperCboConfig {
                gap,
                ..Default::default()
            };
            assert!(config.build().is_ok());
        }
    }

    #[test]
    fn the_released_form_floors_and_counts() {
        let config = UpperCboConfig {
            weight_decay: 1e-3,
            gap: Fixed { vartheta: 1e-3 },
            hess_init: 1e-9,
            ..Default::default()
        };
        let rule = config.as_released().build().unwrap();
        let mut state = rule.state(5);
        let report = rule
            .step(1e-6, &mut [1.0; 5], &[0.0; 5], &mut state)
            .unwrap();
        assert_eq!(
            (report.floored, report.gap_not_positive, report.coordinates),
            (5, 0, 5)
        );
    }
}
