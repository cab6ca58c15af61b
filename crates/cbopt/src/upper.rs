//! `ucbopt`, upper CBO optimization with a fixed curvature parameter ϑ in `[0, δ]`:
//!
//! ```text
//! m ← β₁ m + (1-β₁) ĝ        h ← β₂ h + (1-β₂) ĝ²        m̄ = m / (1-β₁ᵗ)
//! θ ← θ - ρ (m̄ + δ θ) / (h + δ - ϑ)
//! ```
//!
//! `h` starts at h₀ and is not bias-corrected; δ θ uses θ before the step. Paper: Section "Experiments", algorithm uCBOpt
//! (which asks ϑ > 0; ϑ = 0, the base of its ablation, is allowed too). State: momentum and curvature, 8 bytes per
//! parameter; a step moves 28 bytes per parameter.

use crate::cbo::{Common, Gap};
use crate::error::{Result, check};
use crate::executor::{Executor, StepReport};
use crate::kernel::filled;
use crate::stabilizer::EpsPolicy;
use crate::state::State;
use crate::update::{
    Coordinate, SQUARE_LIMIT, Update, bias_correction, check_buffer, clip_scalar, sealed,
};

/// Hyper-parameters of `ucbopt`; the default is the paper's Fashion-MNIST setting.
#[derive(Debug, Clone, PartialEq)]
pub struct UpperCboConfig {
    /// Rate of the first moment, β₁ in `[0, 1)`. Default 0.9.
    pub beta1: f64,
    /// Rate of the curvature average, β₂ in `[0, 1)`. Default 0.99999.
    pub beta2: f64,
    /// Weight decay, the prior precision δ > 0. Default 0.002.
    pub weight_decay: f64,
    /// Initial curvature h₀ > 0. Default 0.05.
    pub hess_init: f64,
    /// Candidate curvature ϑ in `[0, δ]`. Default 8e-6.
    pub vartheta: f64,
    /// Stability constant ε ≥ 0, used as `eps_policy` says. Default 1e-8.
    pub eps: f64,
    /// Default: none, as the paper prints the rule. The authors' code clamps.
    pub eps_policy: EpsPolicy,
    /// Multiplies the learning rate by `h₀ + δ`; not in the paper. Default off.
    pub rescale_lr: bool,
    /// Clips `(m̄ + δθ)/(h + δ - ϑ)` to `[-r, r]`, r > 0; not in the paper. Default none.
    pub clip_radius: Option<f64>,
}

impl Default for UpperCboConfig {
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.99999,
            weight_decay: 2e-3,
            hess_init: 0.05,
            vartheta: 8e-6,
            eps: 1e-8,
            eps_policy: EpsPolicy::None,
            rescale_lr: false,
            clip_radius: None,
        }
    }
}

impl UpperCboConfig {
    fn common(&self) -> Common {
        Common {
            beta1: self.beta1,
            beta2: self.beta2,
            weight_decay: self.weight_decay,
            hess_init: self.hess_init,
            eps: self.eps,
            eps_policy: self.eps_policy,
            rescale_lr: self.rescale_lr,
            clip_radius: self.clip_radius,
        }
    }

    /// The same with the ε of the authors' released code: clamped.
    #[must_use]
    pub fn as_released(self) -> Self {
        Self {
            eps_policy: EpsPolicy::Clamp,
            ..self
        }
    }

    /// The rule.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] for the first field outside its range.
    ///
    /// ```
    /// use cbopt::UpperCboConfig;
    /// let error = UpperCboConfig { vartheta: 0.003, ..Default::default() }.build().unwrap_err();
    /// assert_eq!(error.to_string(), "vartheta is 0.003, allowed: [0, weight_decay]");
    /// ```
    pub fn build(&self) -> Result<UpperCbo> {
        self.common().check()?;
        check("vartheta", self.vartheta, "[0, weight_decay]", |v| {
            (0.0..=self.weight_decay).contains(&v)
        })?;
        Ok(UpperCbo {
            config: self.clone(),
        })
    }
}

/// The rule `ucbopt`.
#[derive(Debug, Clone, PartialEq)]
pub struct UpperCbo {
    config: UpperCboConfig,
}

impl UpperCbo {
    /// Its hyper-parameters.
    pub fn config(&self) -> &UpperCboConfig {
        &self.config
    }

    fn common(&self) -> Common {
        self.config.common()
    }
}

impl Update for UpperCbo {
    fn id(&self) -> &'static str {
        "ucbopt"
    }

    fn state(&self, len: usize) -> State {
        State {
            momentum: filled(len, 0.0),
            curvature: filled(len, self.config.hess_init as f32),
            ..State::new(self.id(), len)
        }
    }

    fn coordinate(&self, theta: f64) -> Coordinate {
        Coordinate {
            theta,
            momentum: 0.0,
            curvature: self.config.hess_init,
            envelope: 0.0,
        }
    }

    fn step_scalar(&self, lr: f64, step: u64, gradient: f64, _second: f64, x: &mut Coordinate) {
        let config = &self.config;
        // m ← β₁ m + (1-β₁) ĝ
        x.momentum = config.beta1 * x.momentum + (1.0 - config.beta1) * gradient;
        // h ← β₂ h + (1-β₂) ĝ²
        x.curvature = config.beta2 * x.curvature + (1.0 - config.beta2) * (gradient * gradient);
        // H_s = h + δ - ϑ
        let gap = x.curvature + config.weight_decay - config.vartheta;
        let denominator = config.eps_policy.apply(gap, config.eps);
        // θ ← θ - ρ (m̄ + δ θ) / H_s
        let corrected = x.momentum / bias_correction(config.beta1, step);
        let direction = (corrected + config.weight_decay * x.theta) / denominator;
        let radius = config.clip_radius.unwrap_or(f64::INFINITY);
        x.theta -= self.common().effective_lr(lr) * clip_scalar(direction, radius);
    }
}

impl sealed::Advance for UpperCbo {
    fn limit(&self) -> f32 {
        SQUARE_LIMIT
    }

    fn check_state(&self, state: &State) -> Result<()> {
        check_buffer("momentum", &state.momentum, true, state)?;
        check_buffer("curvature", &state.curvature, true, state)
    }

    fn advance(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> StepReport {
        let gap = FixedGap {
            residual: (self.config.weight_decay - self.config.vartheta) as f32,
        };
        self.common()
            .advance(gap, executor, lr, (params, grads), state)
    }
}

/// `h + δ - ϑ`.
#[derive(Debug, Clone, Copy)]
struct FixedGap {
    /// δ - ϑ, formed in `f64`: no cancellation is left for `f32`.
    residual: f32,
}

impl Gap for FixedGap {
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
    use crate::error::Error;

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
    fn every_field_is_checked_on_both_edges() {
        let good = UpperCboConfig::default();
        let bad: [(&str, UpperCboConfig); 12] = [
            (
                "beta1",
                UpperCboConfig {
                    beta1: 1.0,
                    ..good.clone()
                },
            ),
            (
                "beta1",
                UpperCboConfig {
                    beta1: -1e-9,
                    ..good.clone()
                },
            ),
            (
                "beta2",
                UpperCboConfig {
                    beta2: 1.0,
                    ..good.clone()
                },
            ),
            (
                "beta2",
                UpperCboConfig {
                    beta2: f64::NAN,
                    ..good.clone()
                },
            ),
            (
                "weight_decay",
                UpperCboConfig {
                    weight_decay: 0.0,
                    ..good.clone()
                },
            ),
            (
                "weight_decay",
                UpperCboConfig {
                    weight_decay: f64::INFINITY,
                    ..good.clone()
                },
            ),
            (
                "hess_init",
                UpperCboConfig {
                    hess_init: 0.0,
                    ..good.clone()
                },
            ),
            (
                "vartheta",
                UpperCboConfig {
                    vartheta: 2.001e-3,
                    ..good.clone()
                },
            ),
            (
                "vartheta",
                UpperCboConfig {
                    vartheta: -1e-9,
                    ..good.clone()
                },
            ),
            (
                "vartheta",
                UpperCboConfig {
                    vartheta: f64::NAN,
                    ..good.clone()
                },
            ),
            (
                "eps",
                UpperCboConfig {
                    eps: -1e-8,
                    ..good.clone()
                },
            ),
            (
                "clip_radius",
                UpperCboConfig {
                    clip_radius: Some(0.0),
                    ..good.clone()
                },
            ),
        ];
        for (name, config) in bad {
            match config.build() {
                Err(Error::OutOfRange { field, .. }) => assert_eq!(field, name),
                other => panic!("{name}: {other:?}"),
            }
        }
        for vartheta in [0.0, 2e-3] {
            assert!(
                UpperCboConfig {
                    vartheta,
                    ..good.clone()
                }
                .build()
                .is_ok()
            );
        }
    }

    #[test]
    fn the_released_form_floors_and_counts() {
        let config = UpperCboConfig {
            weight_decay: 1e-3,
            vartheta: 1e-3,
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
