//! `ucbopt-adapt`, upper CBO optimization with adaptive curvature, γ in `[0, 1)` and β₃ > 1:
//!
//! ```text
//! m ← β₁ m + (1-β₁) ĝ        h ← β₂ h + (1-β₂) ĝ²        h̃ = h + δ        m̄ = m / (1-β₁ᵗ)
//! c ← min(β₃ c, h̃), c₀ = +∞
//! θ ← θ - ρ (m̄ + δ θ) / (h̃ - γ c + ε)
//! ```
//!
//! The envelope `c` is a running minimum of `h̃` that may grow by the factor β₃ per step. Since `c ≤ h̃`, the curvature gap
//! `h̃ - γ c ≥ (1-γ) c` is positive. Paper: Appendix "Algorithms", uCBOpt-adapt. State: momentum, curvature and envelope,
//! 12 bytes per parameter; a step moves 36 bytes per parameter.

use crate::cbo::{Common, Gap};
use crate::error::{Result, check};
use crate::executor::{Executor, StepReport};
use crate::kernel::filled;
use crate::stabilizer::EpsPolicy;
use crate::state::State;
use crate::update::{
    Coordinate, SQUARE_LIMIT, Update, bias_correction, check_buffer, clip_scalar, sealed,
};

/// Hyper-parameters of `ucbopt-adapt`; the default is the paper's Fashion-MNIST setting.
#[derive(Debug, Clone, PartialEq)]
pub struct UpperAdaptCboConfig {
    /// Rate of the first moment, β₁ in `[0, 1)`. Default 0.9.
    pub beta1: f64,
    /// Rate of the curvature average, β₂ in `[0, 1)`. Default 0.99999.
    pub beta2: f64,
    /// Growth of the envelope per step, β₃ > 1. Default 1.001.
    pub beta3: f64,
    /// Weight decay, the prior precision δ > 0. Default 0.002.
    pub weight_decay: f64,
    /// Initial curvature h₀ > 0. Default 0.05.
    pub hess_init: f64,
    /// Strength of the correction, γ in `[0, 1)`. Default 0.9.
    pub gamma: f64,
    /// Stability constant ε ≥ 0, used as `eps_policy` says. Default 1e-8.
    pub eps: f64,
    /// Default: added, as the paper says. The authors' code clamps.
    pub eps_policy: EpsPolicy,
    /// Multiplies the learning rate by `h₀ + δ`; not in the paper. Default off.
    pub rescale_lr: bool,
    /// Clips `(m̄ + δθ)/(h̃ - γc + ε)` to `[-r, r]`, r > 0; not in the paper. Default none.
    pub clip_radius: Option<f64>,
}

impl Default for UpperAdaptCboConfig {
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.99999,
            beta3: 1.001,
            weight_decay: 2e-3,
            hess_init: 0.05,
            gamma: 0.9,
            eps: 1e-8,
            eps_policy: EpsPolicy::Add,
            rescale_lr: false,
            clip_radius: None,
        }
    }
}

impl UpperAdaptCboConfig {
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
    /// use cbopt::UpperAdaptCboConfig;
    /// let error = UpperAdaptCboConfig { gamma: 1.0, ..Default::default() }.build().unwrap_err();
    /// assert_eq!(error.to_string(), "gamma is 1, allowed: [0, 1)");
    /// ```
    pub fn build(&self) -> Result<UpperAdaptCbo> {
        self.common().check()?;
        check("beta3", self.beta3, "(1, inf)", |b| {
            b > 1.0 && b.is_finite()
        })?;
        check("gamma", self.gamma, "[0, 1)", |g| (0.0..1.0).contains(&g))?;
        Ok(UpperAdaptCbo {
            config: self.clone(),
        })
    }
}

/// The rule `ucbopt-adapt`.
#[derive(Debug, Clone, PartialEq)]
pub struct UpperAdaptCbo {
    config: UpperAdaptCboConfig,
}

impl UpperAdaptCbo {
    /// Its hyper-parameters.
    pub fn config(&self) -> &UpperAdaptCboConfig {
        &self.config
    }

    fn common(&self) -> Common {
        self.config.common()
    }
}

impl Update for UpperAdaptCbo {
    fn id(&self) -> &'static str {
        "ucbopt-adapt"
    }

    fn state(&self, len: usize) -> State {
        State {
            momentum: filled(len, 0.0),
            curvature: filled(len, self.config.hess_init as f32),
            envelope: filled(len, f32::INFINITY),
            ..State::new(self.id(), len)
        }
    }

    fn coordinate(&self, theta: f64) -> Coordinate {
        let envelope = f64::INFINITY;
        Coordinate {
            theta,
            momentum: 0.0,
            curvature: self.config.hess_init,
            envelope,
        }
    }

    fn step_scalar(&self, lr: f64, step: u64, gradient: f64, _second: f64, x: &mut Coordinate) {
        let config = &self.config;
        // m ← β₁ m + (1-β₁) ĝ
        x.momentum = config.beta1 * x.momentum + (1.0 - config.beta1) * gradient;
        // h ← β₂ h + (1-β₂) ĝ²
        x.curvature = config.beta2 * x.curvature + (1.0 - config.beta2) * (gradient * gradient);
        // h̃ = h + δ
        let total = x.curvature + config.weight_decay;
        // c ← min(β₃ c, h̃)
        x.envelope = (config.beta3 * x.envelope).min(total);
        // H_s = h̃ - γ c
        let gap = total - config.gamma * x.envelope;
        let denominator = config.eps_policy.apply(gap, config.eps);
        // θ ← θ - ρ (m̄ + δ θ) / (H_s + ε)
        let corrected = x.momentum / bias_correction(config.beta1, step);
        let direction = (corrected + config.weight_decay * x.theta) / denominator;
        let radius = config.clip_radius.unwrap_or(f64::INFINITY);
        x.theta -= self.common().effective_lr(lr) * clip_scalar(direction, radius);
    }
}

impl sealed::Advance for UpperAdaptCbo {
    fn limit(&self) -> f32 {
        SQUARE_LIMIT
    }

    fn check_state(&self, state: &State) -> Result<()> {
        check_buffer("momentum", &state.momentum, true, state)?;
        check_buffer("curvature", &state.curvature, true, state)?;
        check_buffer("envelope", &state.envelope, true, state)
    }

    fn advance(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> StepReport {
        let config = &self.config;
        let gap = UpperGap {
            growth: config.beta3 as f32,
            decay: config.weight_decay as f32,
            complement: (1.0 - config.gamma) as f32,
        };
        self.common()
            .advance(gap, executor, lr, (params, grads), state)
    }
}

/// `h̃ - γ c`.
#[derive(Debug, Clone, Copy)]
struct UpperGap {
    /// β₃.
    growth: f32,
    /// δ.
    decay: f32,
    /// 1 - γ, formed in `f64`.
    complement: f32,
}

impl Gap for UpperGap {
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
    use crate::error::Error;

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
    fn every_field_is_checked() {
        let good = UpperAdaptCboConfig::default();
        let bad: [(&str, UpperAdaptCboConfig); 11] = [
            (
                "beta1",
                UpperAdaptCboConfig {
                    beta1: 1.0,
                    ..good.clone()
                },
            ),
            (
                "beta2",
                UpperAdaptCboConfig {
                    beta2: -0.1,
                    ..good.clone()
                },
            ),
            (
                "beta3",
                UpperAdaptCboConfig {
                    beta3: 1.0,
                    ..good.clone()
                },
            ),
            (
                "beta3",
                UpperAdaptCboConfig {
                    beta3: f64::INFINITY,
                    ..good.clone()
                },
            ),
            (
                "gamma",
                UpperAdaptCboConfig {
                    gamma: 1.0,
                    ..good.clone()
                },
            ),
            (
                "gamma",
                UpperAdaptCboConfig {
                    gamma: -0.1,
                    ..good.clone()
                },
            ),
            (
                "gamma",
                UpperAdaptCboConfig {
                    gamma: f64::NAN,
                    ..good.clone()
                },
            ),
            (
                "weight_decay",
                UpperAdaptCboConfig {
                    weight_decay: 0.0,
                    ..good.clone()
                },
            ),
            (
                "hess_init",
                UpperAdaptCboConfig {
                    hess_init: -1.0,
                    ..good.clone()
                },
            ),
            (
                "eps",
                UpperAdaptCboConfig {
                    eps: f64::NAN,
                    ..good.clone()
                },
            ),
            (
                "clip_radius",
                UpperAdaptCboConfig {
                    clip_radius: Some(f64::NAN),
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
    }

    /// The law that makes the step well defined: the gap stays positive whatever the gradients are.
    #[test]
    fn the_gap_stays_positive() {
        let rule = UpperAdaptCboConfig {
            beta2: 0.6,
            ..Default::default()
        }
        .build()
        .unwrap();
        let mut state = rule.state(64);
        let mut params = vec![0.3; 64];
        for t in 0..40 {
            let grads: Vec<f32> = (0..64)
                .map(|i| 10f32.powi((i * 7 + t * 5) % 17 - 8) * (i - 31) as f32)
                .collect();
            let report = rule.step(1e-3, &mut params, &grads, &mut state).unwrap();
            assert_eq!(
                (report.gap_not_positive, report.floored, report.overflowed),
                (0, 0, 0)
            );
        }
    }
}
