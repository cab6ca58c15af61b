//! `sgd`, gradient descent with momentum µ, coupled L2 decay δ and optionally Nesterov's look-ahead:
//!
//! ```text
//! ĝ ← g + δ θ        m ← µ m + ĝ        θ ← θ - ρ m        (Nesterov: θ ← θ - ρ (ĝ + µ m))
//! ```
//!
//! The buffer starts at zero, so after the first step it is the first gradient; there is no dampening. State: momentum,
//! 4 bytes per parameter, or nothing if µ = 0.

use crate::error::{Error, Result, check_nonnegative, check_rate};
use crate::executor::{Executor, StepReport};
use crate::kernel::{Kernel, Marks, Point, filled};
use crate::state::State;
use crate::update::{Coordinate, Update, check_buffer, sealed, sweep};

/// Hyper-parameters of `sgd`; the default is the paper's CIFAR setting.
#[derive(Debug, Clone, PartialEq)]
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
    /// [`Error::OutOfRange`] for the first field outside its range.
    pub fn build(&self) -> Result<Sgd> {
        check_rate("momentum", self.momentum)?;
        check_nonnegative("weight_decay", self.weight_decay)?;
        if self.nesterov && self.momentum == 0.0 {
            let (field, range) = ("momentum", "(0, 1) with nesterov");
            return Err(Error::OutOfRange {
                field,
                value: self.momentum,
                range,
            });
        }
        Ok(Sgd {
            config: self.clone(),
        })
    }
}

/// The rule `sgd`.
#[derive(Debug, Clone, PartialEq)]
pub struct Sgd {
    config: SgdConfig,
}

impl Sgd {
    /// Its hyper-parameters.
    pub fn config(&self) -> &SgdConfig {
        &self.config
    }
}

impl Update for Sgd {
    fn id(&self) -> &'static str {
        "sgd"
    }

    fn state(&self, len: usize) -> State {
        let momentum = if self.config.momentum > 0.0 {
            filled(len, 0.0)
        } else {
            Vec::new()
        };
        State {
            momentum,
            ..State::new(self.id(), len)
        }
    }

    fn coordinate(&self, theta: f64) -> Coordinate {
        Coordinate {
            theta,
            momentum: 0.0,
            curvature: 0.0,
            envelope: 0.0,
        }
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
}

impl sealed::Advance for Sgd {
    fn limit(&self) -> f32 {
        f32::MAX
    }

    fn check_state(&self, state: &State) -> Result<()> {
        check_buffer(
            "momentum",
            &state.momentum,
            self.config.momentum > 0.0,
            state,
        )
    }

    fn advance(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> StepReport {
        let (momentum, decay, lr) = (
            self.config.momentum as f32,
            self.config.weight_decay as f32,
            lr as f32,
        );
        if self.config.momentum == 0.0 {
            return sweep(executor, &PlainKernel { decay, lr }, params, grads, state);
        }
        let ahead = if self.config.nesterov { 1.0 } else { 0.0 };
        let kernel = MomentumKernel {
            momentum,
            decay,
            lr,
            ahead,
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
        for (config, name) in [
            (
                SgdConfig {
                    momentum: 1.0,
                    ..Default::default()
                },
                "momentum",
            ),
            (
                SgdConfig {
                    momentum: f64::NAN,
                    ..Default::default()
                },
                "momentum",
            ),
            (
                SgdConfig {
                    momentum: 0.0,
                    nesterov: true,
                    ..Default::default()
                },
                "momentum",
            ),
            (
                SgdConfig {
                    weight_decay: -1.0,
                    ..Default::default()
                },
                "weight_decay",
            ),
        ] {
            match config.build() {
                Err(Error::OutOfRange { field, .. }) => assert_eq!(field, name),
                other => panic!("{name}: {other:?}"),
            }
        }
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
