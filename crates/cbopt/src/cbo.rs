//! What the three CBOpt rules have in common. With moments `m`, `h` and a curvature gap `H_s` that each rule forms in its own way:
//!
//! ```text
//! m ← β₁ m + (1-β₁) ĝ        h ← β₂ h + (1-β₂) ĝ²        θ ← θ - ρ clip((m/(1-β₁ᵗ) + δ θ) / stabilized(H_s), r)
//! ```
//!
//! Paper: Section "Experiments" and Appendix "Algorithms".

use crate::error::{Result, check, check_nonnegative, check_positive, check_rate};
use crate::executor::{Executor, StepReport};
use crate::kernel::{Kernel, Marks, Point};
use crate::stabilizer::{EpsPolicy, Stabilizer};
use crate::state::State;
use crate::update::{Average, SQUARE_LIMIT, bias_correction, clip, sweep};

/// Hyper-parameters of every CBOpt rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    pub beta1: f64,
    pub beta2: f64,
    pub weight_decay: f64,
    pub hess_init: f64,
    pub eps: f64,
    pub eps_policy: EpsPolicy,
    pub rescale_lr: bool,
    pub clip_radius: Option<f64>,
}

impl Common {
    /// Checks every range.
    pub fn check(&self) -> Result<()> {
        check_rate("beta1", self.beta1)?;
        check_rate("beta2", self.beta2)?;
        check_positive("weight_decay", self.weight_decay)?;
        check_positive("hess_init", self.hess_init)?;
        check_nonnegative("eps", self.eps)?;
        self.clip_radius.map_or(Ok(0.0), |radius| {
            check("clip_radius", radius, "(0, inf]", |r| r > 0.0)
        })?;
        Ok(())
    }

    /// Learning rate as it multiplies the step.
    pub fn effective_lr(&self, lr: f64) -> f64 {
        if self.rescale_lr {
            lr * (self.hess_init + self.weight_decay)
        } else {
            lr
        }
    }

    /// Makes the step.
    pub fn advance<G: Gap>(
        &self,
        gap: G,
        executor: &Executor,
        lr: f64,
        (params, grads): (&mut [f32], &[f32]),
        state: &mut State,
    ) -> StepReport {
        let lr = self.effective_lr(lr);
        let kernel = CboKernel::<G, false> {
            gap,
            momentum: Average::new(self.beta1),
            curvature: Average::new(self.beta2),
            push: (lr / bias_correction(self.beta1, state.step + 1)) as f32,
            pull: (lr * self.weight_decay) as f32,
            stabilizer: self.eps_policy.stabilizer(self.eps),
            radius: match self.clip_radius {
                Some(radius) if radius.is_finite() => (lr * radius) as f32,
                _ => f32::INFINITY,
            },
        };
        let is_plain = self.clip_radius.is_none()
            && !self.eps_policy.clamps()
            && kernel.momentum.is_slow()
            && kernel.curvature.is_slow();
        if is_plain {
            sweep(executor, &kernel.plain(), params, grads, state)
        } else {
            sweep(executor, &kernel, params, grads, state)
        }
    }
}

/// The curvature gap `H_s` of one rule in `f32`, with its constants.
pub(crate) trait Gap: Copy + Send + Sync {
    /// State buffers of the rule.
    const BUFFERS: usize;

    /// The envelope after the curvature was renewed; as it was, if the rule has none.
    fn envelope(&self, curvature: f32, envelope: f32) -> f32;

    /// `H_s` for the new curvature and the new envelope.
    fn gap(&self, curvature: f32, envelope: f32) -> f32;
}

/// One step of a rule. `PLAIN` is the paper's form with slow averages: no floor, no clip, rates of at least one half.
#[derive(Debug, Clone, Copy)]
struct CboKernel<G, const PLAIN: bool> {
    gap: G,
    momentum: Average,
    curvature: Average,
    /// ρ / (1-β₁ᵗ).
    push: f32,
    /// ρ δ.
    pull: f32,
    stabilizer: Stabilizer,
    /// ρ r.
    radius: f32,
}

impl<G> CboKernel<G, false> {
    fn plain(self) -> CboKernel<G, true> {
        CboKernel {
            gap: self.gap,
            momentum: self.momentum,
            curvature: self.curvature,
            push: self.push,
            pull: self.pull,
            stabilizer: self.stabilizer,
            radius: self.radius,
        }
    }
}

impl<G: Gap, const PLAIN: bool> Kernel for CboKernel<G, PLAIN> {
    const BUFFERS: usize = G::BUFFERS;
    const SECOND: bool = false;
    const QUIET: bool = PLAIN;
    const LIMIT: f32 = SQUARE_LIMIT;

    #[inline(always)]
    fn update(&self, gradient: f32, _second: f32, x: Point) -> (Point, Marks) {
        let square = gradient * gradient;
        let (momentum, curvature) = if PLAIN {
            (
                self.momentum.next_slow(x.momentum, gradient),
                self.curvature.next_slow(x.curvature, square),
            )
        } else {
            (
                self.momentum.next(x.momentum, gradient),
                self.curvature.next(x.curvature, square),
            )
        };
        let envelope = self.gap.envelope(curvature, x.envelope);
        let gap = self.gap.gap(curvature, envelope);
        let (denominator, floored) = if PLAIN {
            self.stabilizer.add(gap)
        } else {
            self.stabilizer.apply(gap)
        };
        let step = (momentum * self.push + self.pull * x.theta) / denominator;
        let (step, clipped) = if PLAIN {
            (step, false)
        } else {
            clip(step, self.radius)
        };
        let new = Point {
            theta: x.theta - step,
            momentum,
            curvature,
            envelope,
        };
        let marks = Marks {
            floored,
            gap_not_positive: gap <= 0.0,
            clipped,
        };
        (new, marks)
    }

    #[inline(always)]
    fn witness(&self, new: Point) -> f32 {
        // Not finite if the curvature is not.
        self.gap.gap(new.curvature, new.envelope)
    }

    #[inline(always)]
    fn gap_not_positive(&self, new: Point) -> bool {
        self.witness(new) <= 0.0
    }
}
