//! `adamw`, Adam with decoupled weight decay:
//!
//! ```text
//! m ← β₁ m + (1-β₁) g        v ← β₂ v + (1-β₂) g²
//! θ ← (1 - ρ δ) θ - ρ m/(1-β₁ᵗ) / (√(v/(1-β₂ᵗ)) + ε)
//! ```
//!
//! State: momentum and curvature (here `v`), 8 bytes per parameter; a step moves 28 bytes per
//! parameter.

use serde::{Deserialize, Serialize};

use crate::error::{Result, check_nonnegative, check_positive, check_rate};
use crate::executor::{Executor, StepReport};
use crate::kernel::{Kernel, Marks, Point};
use crate::rule::Constants;
use crate::state::State;
use crate::update::{Average, Coordinate, SQUARE_LIMIT, Update, bias_correction, sealed, sweep};

/// Hyper-parameters of `adamw`; the default is the paper's CIFAR setting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdamWConfig {
    /// Rate of the first moment, β₁ in `[0, 1)`. Default 0.9.
    pub beta1: f64,
    /// Rate of the second moment, β₂ in `[0, 1)`. Default 0.999.
    pub beta2: f64,
    /// Stability constant ε > 0, added after the square root. Default 1e-8.
    pub eps: f64,
    /// Decoupled weight decay δ ≥ 0. Default 2e-4.
    pub weight_decay: f64,
}

impl Default for AdamWConfig {
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 2e-4,
        }
    }
}

impl AdamWConfig {
    /// The rule.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] for the first field outside its range.
    pub fn build(&self) -> Result<AdamW> {
        check_rate("beta1", self.beta1)?;
        check_rate("beta2", self.beta2)?;
        check_positive("eps", self.eps)?;
        check_nonnegative("weight_decay", self.weight_decay)?;
        Ok(AdamW { config: *self })
    }
}

/// The rule `adamw`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamW {
    config: AdamWConfig,
}

impl AdamW {
    /// Its identifier.
    pub const ID: &'static str = "adamw";

    /// Its hyper-parameters.
    pub fn config(&self) -> &AdamWConfig {
        &self.config
    }
}

impl Update for AdamW {
    fn id(&self) -> &'static str {
        Self::ID
    }

    fn step_scalar(&self, lr: f64, step: u64, gradient: f64, _second: f64, x: &mut Coordinate) {
        let config = &self.config;
        x.theta *= 1.0 - lr * config.weight_decay;
        x.momentum = config.beta1 * x.momentum + (1.0 - config.beta1) * gradient;
        x.curvature = config.beta2 * x.curvature + (1.0 - config.beta2) * (gradient * gradient);
        let corrected = x.momentum / bias_correction(config.beta1, step);
        let scale = (x.curvature / bias_correction(config.beta2, step)).sqrt() + config.eps;
        x.theta -= lr * corrected / scale;
    }

    fn constants(&self, lr: f64, step: u64) -> Constants {
        let config = &self.config;
        Constants::AdamW(AdamWConstants {
            momentum: Average::new(config.beta1),
            curvature: Average::new(config.beta2),
            shrink: (lr * config.weight_decay) as f32,
            scale: (1.0 / bias_correction(config.beta2, step).sqrt()) as f32,
            eps: config.eps as f32,
            lr: (lr / bias_correction(config.beta1, step)) as f32,
        })
    }
}

impl sealed::Started for AdamW {
    fn start(&self) -> sealed::Start {
        sealed::Start {
            momentum: Some(0.0),
            curvature: Some(0.0),
            ..sealed::Start::default()
        }
    }
}

/// What a step of `adamw` depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWConstants {
    /// β₁.
    pub momentum: Average,
    /// β₂.
    pub curvature: Average,
    /// ρ δ.
    pub shrink: f32,
    /// `1/√(1-β₂ᵗ)`.
    pub scale: f32,
    /// ε.
    pub eps: f32,
    /// `ρ/(1-β₁ᵗ)`.
    pub lr: f32,
}

impl AdamWConstants {
    /// Makes the step.
    pub(crate) fn advance(
        self,
        executor: &Executor,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> StepReport {
        if self.momentum.from_old && self.curvature.from_old {
            sweep(executor, &AdamWKernel::<true>(self), params, grads, state)
        } else {
            sweep(executor, &AdamWKernel::<false>(self), params, grads, state)
        }
    }

    #[inline(always)]
    fn denominator(&self, curvature: f32) -> f32 {
        curvature.sqrt() * self.scale + self.eps
    }
}

/// One step; `SLOW` is the form for rates of at least one half.
#[derive(Debug, Clone, Copy)]
struct AdamWKernel<const SLOW: bool>(AdamWConstants);

impl<const SLOW: bool> Kernel for AdamWKernel<SLOW> {
    const BUFFERS: usize = 2;
    const SECOND: bool = false;
    const QUIET: bool = SLOW;
    const LIMIT: f32 = SQUARE_LIMIT;

    #[inline(always)]
    fn update(&self, gradient: f32, _second: f32, x: Point) -> (Point, Marks) {
        let constants = &self.0;
        let square = gradient * gradient;
        let (momentum, curvature) = if SLOW {
            (
                constants.momentum.next_slow(x.momentum, gradient),
                constants.curvature.next_slow(x.curvature, square),
            )
        } else {
            (
                constants.momentum.next(x.momentum, gradient),
                constants.curvature.next(x.curvature, square),
            )
        };
        let ratio = momentum / constants.denominator(curvature);
        let new = Point {
            theta: x.theta - (constants.shrink * x.theta + constants.lr * ratio),
            momentum,
            curvature,
            ..x
        };
        (new, Marks::default())
    }

    #[inline(always)]
    fn witness(&self, new: Point) -> f32 {
        self.0.denominator(new.curvature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::assert_refused;

    #[test]
    fn first_step_by_hand() {
        // β₁ = β₂ = 1/2, ε = 1, δ = 1/4, ρ = 1/2, θ = 2, g = 3: m̄ = 3, √v̄ = 3, θ = 7/8·2 - 3/8 =
        // 11/8.
        let config = AdamWConfig {
            beta1: 0.5,
            beta2: 0.5,
            eps: 1.0,
            weight_decay: 0.25,
        };
        let rule = config.build().unwrap();
        let mut x = rule.coordinate(2.0);
        rule.step_scalar(0.5, 1, 3.0, 0.0, &mut x);
        assert_eq!((x.theta, x.momentum, x.curvature), (1.375, 1.5, 4.5));
    }

    #[test]
    fn fields_are_checked() {
        assert_refused(
            AdamWConfig::default(),
            |config| config.build().map(|_| ()),
            &[
                ("beta1", |c| c.beta1 = 1.0),
                ("beta2", |c| c.beta2 = 1.0),
                ("eps", |c| c.eps = 0.0),
                ("weight_decay", |c| c.weight_decay = f64::NAN),
            ],
        );
    }
}
