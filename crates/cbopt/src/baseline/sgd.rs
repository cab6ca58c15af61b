//! `sgd`, gradient descent with momentum µ, coupled L2 decay δ and optionally Nesterov's
//! look-ahead:
//!
//! ```text
//! ĝ ← g + δ θ        m ← µ m + ĝ        θ ← θ - ρ m        (Nesterov: θ ← θ - ρ (ĝ + µ m))
//! ```
//!
//! The buffer starts at zero, so after the first step it is the first gradient; there is no
//! dampening. State: momentum, 4 bytes per parameter, or nothing if µ = 0.

use serde::{Deserialize, Serialize};

use crate::error::{Result, check, check_nonnegative, check_rate};
use crate::executor::{Executor, StepReport};
use crate::kernel::{Kernel, Marks, Point};
use crate::rule::Constants;
use crate::state::State;
use crate::update::{Coordinate, Update, sealed, sweep};

/// Hyper-parameters of `sgd`; the default is the paper's CIFAR setting.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SgdConfig {
    /// Momentum µ in `[0, 1)`. Default 0.9.
    pub momentum: f64,
    /// Coupled L2 decay δ ≥ 0. Default 2e-4.
    pub weight_decay: f64,
    /// Nesterov's form; needs µ > 0. Default off.
    pub nesterov: bool,
}

impl Default for SgdConfig {
    fn default() -> Self {
        Self {
            momentum: 0.9,
            weight_decay: 2e-4,
            nesterov: false,
        }
    }
}

impl SgdConfig {
    /// The rule.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] for the first field outside its range.
    pub fn build(&self) -> Result<Sgd> {
        check_rate("momentum", self.momentum)?;
        check_nonnegative("weight_decay", self.weight_decay)?;
        if self.nesterov {
            check("momentum", self.momentum, "(0, 1) with nesterov", |m| {
                m > 0.0
            })?;
        }
        Ok(Sgd { config: *self })
    }
}

/// The rule `sgd`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sgd {
    config: SgdConfig,
}

impl Sgd {
    /// Its identifier.
    pub const ID: &'static str = "sgd";

    /// Its hyper-parameters.
    pub fn config(&self) -> &SgdConfig {
        &self.config
    }
}

impl Update for Sgd {
    fn id(&self) -> &'static str {
        Self::ID
    }

    fn step_scalar(&self, lr: f64, _step: u64, gradient: f64, _second: f64, x: &mut Coordinate) {
        let config = &self.config;
        let gradient = gradient + config.weight_decay * x.theta;
        x.momentum = config.momentum * x.momentum + gradient;
        let direction = if config.nesterov {
            gradient + config.momentum * x.momentum
        } else {
            x.momentum
        };
        x.theta -= lr * direction;
    }

    fn constants(&self, lr: f64, _step: u64) -> Constants {
        Constants::Sgd(SgdConstants {
            momentum: self.config.momentum as f32,
            decay: self.config.weight_decay as f32,
            lr: lr as f32,
            nesterov: self.config.nesterov,
        })
    }
}

impl sealed::Started for Sgd {
    fn start(&self) -> sealed::Start {
        sealed::Start {
            momentum: (self.config.momentum > 0.0).then_some(0.0),
            ..sealed::Start::default()
        }
    }
}

/// What a step of `sgd` depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SgdConstants {
    /// µ.
    pub momentum: f32,
    /// δ.
    pub decay: f32,
    /// ρ.
    pub lr: f32,
    /// Whether the step is Nesterov's.
    pub nesterov: bool,
}

impl SgdConstants {
    /// Makes the step; without momentum there is no buffer for it.
    pub(crate) fn advance(
        self,
        executor: &Executor,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> StepReport {
        let Self {
            momentum,
            decay,
            lr,
            nesterov,
        } = self;
        if state.momentum.is_empty() {
            return sweep(executor, &PlainKernel { decay, lr }, params, grads, state);
        }
        let kernel = MomentumKernel {
            momentum,
            decay,
            lr,
            ahead: if nesterov { 1.0 } else { 0.0 },
        };
        sweep(executor, &kernel, params, grads, state)
    }
}

#[derive(Debug, Clone, Copy)]
struct PlainKernel {
    decay: f32,
    lr: f32,
}

impl Kernel for PlainKernel {
    const BUFFERS: usize = 0;
    const SECOND: bool = false;
    const QUIET: bool = true;
    const LIMIT: f32 = f32::MAX;

    #[inline(always)]
    fn update(&self, gradient: f32, _second: f32, x: Point) -> (Point, Marks) {
        let theta = x.theta - self.lr * (gradient + self.decay * x.theta);
        (Point { theta, ..x }, Marks::default())
    }
}

#[derive(Debug, Clone, Copy)]
struct MomentumKernel {
    momentum: f32,
    decay: f32,
    lr: f32,
    /// 1 for Nesterov's form, else 0.
    ahead: f32,
}

impl Kernel for MomentumKernel {
    const BUFFERS: usize = 1;
    const SECOND: bool = false;
    const QUIET: bool = true;
    const LIMIT: f32 = f32::MAX;

    #[inline(always)]
    fn update(&self, gradient: f32, _second: f32, x: Point) -> (Point, Marks) {
        let gradient = gradient + self.decay * x.theta;
        let momentum = self.momentum * x.momentum + gradient;
        let nesterov = gradient + self.momentum * momentum;
        let direction = if self.ahead > 0.0 { nesterov } else { momentum };
        (
            Point {
                theta: x.theta - self.lr * direction,
                momentum,
                ..x
            },
            Marks::default(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::assert_refused;

    #[test]
    fn two_steps_by_hand() {
        // µ = 1/2, δ = 1/4, ρ = 1/2, θ₀ = 2, g = 1: ĝ = 3/2, m = 3/2, θ = 5/4.
        // Then g = 1: ĝ = 21/16, m = 33/16, θ = 5/4 - 33/32 = 7/32.
        let config = SgdConfig {
            momentum: 0.5,
            weight_decay: 0.25,
            nesterov: false,
        };
        let rule = config.build().unwrap();
        let mut x = rule.coordinate(2.0);
        rule.step_scalar(0.5, 1, 1.0, 0.0, &mut x);
        assert_eq!((x.theta, x.momentum), (1.25, 1.5));
        rule.step_scalar(0.5, 2, 1.0, 0.0, &mut x);
        assert_eq!((x.theta, x.momentum), (7.0 / 32.0, 33.0 / 16.0));
        // Nesterov: the first step is ρ (ĝ + µ ĝ) = 9/8, so θ = 7/8.
        let rule = SgdConfig {
            nesterov: true,
            ..config
        }
        .build()
        .unwrap();
        let mut x = rule.coordinate(2.0);
        rule.step_scalar(0.5, 1, 1.0, 0.0, &mut x);
        assert_eq!((x.theta, x.momentum), (0.875, 1.5));
    }

    #[test]
    fn fields_are_checked() {
        assert_refused(
            SgdConfig::default(),
            |config| config.build().map(|_| ()),
            &[
                ("momentum", |c| c.momentum = 1.0),
                ("momentum", |c| c.momentum = f64::NAN),
                ("momentum", |c| (c.momentum, c.nesterov) = (0.0, true)),
                ("weight_decay", |c| c.weight_decay = -1.0),
            ],
        );
    }

    #[test]
    fn without_momentum_there_is_no_state() {
        let rule = SgdConfig {
            momentum: 0.0,
            ..Default::default()
        }
        .build()
        .unwrap();
        assert_eq!(rule.state(10).buffer_bytes(), 0);
    }
}
