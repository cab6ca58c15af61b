//! The CBOpt rules: one update with moments `m`, `h` and a curvature gap `H_s` that is formed in
//! one of three ways.
//!
//! ```text
//! m ← β₁ m + (1-β₁) ĝ        h ← β₂ h + (1-β₂) ĝ²        m̄ = m / (1-β₁ᵗ)
//! θ ← θ - ρ clip((m̄ + δ θ) / stabilized(H_s), r)
//! ```
//!
//! | rule | gap | file |
//! |---|---|---|
//! | `ucbopt` (Algorithm 1) | `h + δ - ϑ` | [`fixed`] |
//! | `ucbopt-adapt` (Algorithm 2) | `h̃ - γ c`, `c` a running minimum of `h̃ = h + δ` | [`upper`] |
//! | `lcbopt-adapt` (Algorithm 3) | `γ c - h̃`, `c` a running maximum of `h̃` | [`lower`] |
//!
//! `h` starts at h₀ and is not bias-corrected; δ θ uses θ before the step. Paper: Section
//! "Experiments" and Appendix "Algorithms". State: momentum and curvature, 8 bytes per parameter,
//! and for the adaptive rules the envelope `c`, 12 bytes; a step moves 28 or 36 bytes per
//! parameter.

pub mod fixed;
pub mod lower;
pub mod upper;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{
    Result, check_length, check_nonnegative, check_positive, check_radius, check_rate,
};
use crate::executor::{Executor, StepReport};
use crate::kernel::{Kernel, Marks, Point, Span, Tally};
use crate::rule::Constants;
use crate::stabilizer::{EpsPolicy, Stabilizer};
use crate::state::State;
use crate::update::{
    Average, Coordinate, SQUARE_LIMIT, Update, bias_correction, clip, clip_scalar, finish, sealed,
    span,
};

use fixed::{Fixed, FixedGap};
use lower::{Lower, LowerGap};
use upper::{Upper, UpperGap};

/// Hyper-parameters of `ucbopt`.
pub type UpperCboConfig = CboConfig<Fixed>;
/// Hyper-parameters of `ucbopt-adapt`.
pub type UpperAdaptCboConfig = CboConfig<Upper>;
/// Hyper-parameters of `lcbopt-adapt`.
pub type LowerAdaptCboConfig = CboConfig<Lower>;

/// One of the three ways to form the curvature gap `H_s`, with its hyper-parameters.
pub trait Gap: Parameters {
    /// The hyper-parameter of the envelope, if the gap has one.
    type Envelope: Parameters;

    /// Identifier of the rule with this gap.
    const ID: &'static str;
    /// Default of the initial curvature h₀.
    const HESS_INIT: f64;
    /// How the paper uses ε.
    const EPS_POLICY: EpsPolicy;
    /// How the authors' released code uses ε.
    const RELEASED_EPS_POLICY: EpsPolicy;

    /// Whether the hyper-parameters are in their ranges.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] for the first that is not.
    fn check(&self, envelope: &Self::Envelope, weight_decay: f64) -> Result<()>;

    /// The envelope before the first step, if there is one; `total` is `h₀ + δ`.
    fn start(total: f64) -> Option<f64>;

    /// The twin: the new envelope and the gap `H_s` for `total`, which is `h + δ`, in `f64`.
    fn twin(&self, rate: &Self::Envelope, total: f64, envelope: f64) -> (f64, f64);

    /// The constants of the gap in the update loop.
    fn constants(&self, rate: &Self::Envelope, weight_decay: f64) -> GapConstants;
}

/// A set of hyper-parameters: plain data with defaults, read from and written to configs.
pub trait Parameters:
    std::fmt::Debug + Copy + PartialEq + Default + Send + Sync + Serialize + DeserializeOwned + 'static
{
}

impl<T> Parameters for T where
    T: std::fmt::Debug
        + Copy
        + PartialEq
        + Default
        + Send
        + Sync
        + Serialize
        + DeserializeOwned
        + 'static
{
}

/// Hyper-parameters of a CBOpt rule; the default is the paper's Fashion-MNIST setting.
///
/// ```
/// use cbopt::UpperAdaptCboConfig;
/// use cbopt::cbo::upper::{Growth, Upper};
/// let config = UpperAdaptCboConfig {
///     weight_decay: 2e-4,
///     envelope: Growth { beta3: 1.01 },
///     gap: Upper { gamma: 0.8 },
///     ..Default::default()
/// };
/// assert!(config.build().is_ok());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, bound = "")]
pub struct CboConfig<G: Gap> {
    /// Rate of the first moment, β₁ in `[0, 1)`. Default 0.9.
    pub beta1: f64,
    /// Rate of the curvature average, β₂ in `[0, 1)`. Default 0.99999.
    pub beta2: f64,
    /// Rate of the envelope, β₃, in the adaptive rules.
    #[serde(flatten)]
    pub envelope: G::Envelope,
    /// Weight decay, the prior precision δ > 0. Default 0.002.
    pub weight_decay: f64,
    /// Initial curvature h₀ > 0. Default 0.05, and 0.1 for `lcbopt-adapt`.
    pub hess_init: f64,
    /// What the curvature gap depends on: ϑ or γ.
    #[serde(flatten)]
    pub gap: G,
    /// Stability constant ε ≥ 0, used as `eps_policy` says. Default 1e-8.
    pub eps: f64,
    /// Default as in the paper: none in `ucbopt`, added in the adaptive rules.
    pub eps_policy: EpsPolicy,
    /// Multiplies the learning rate by `h₀ + δ`; not in the paper. Default off.
    pub rescale_lr: bool,
    /// Clips `(m̄ + δθ)/H_s` to `[-r, r]`, r > 0; not in the paper. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_radius: Option<f64>,
}

impl<G: Gap> Default for CboConfig<G> {
    fn default() -> Self {
        Self {
            beta1: 0.9,
            beta2: 0.99999,
            envelope: G::Envelope::default(),
            weight_decay: 2e-3,
            hess_init: G::HESS_INIT,
            gap: G::default(),
            eps: 1e-8,
            eps_policy: G::EPS_POLICY,
            rescale_lr: false,
            clip_radius: None,
        }
    }
}

impl<G: Gap> CboConfig<G> {
    /// The same with the ε of the authors' released code.
    #[must_use]
    pub fn as_released(self) -> Self {
        Self {
            eps_policy: G::RELEASED_EPS_POLICY,
            ..self
        }
    }

    /// The rule.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] for the first field outside its range.
    ///
    /// ```
    /// use cbopt::{UpperCboConfig, cbo::fixed::Fixed};
    /// let gap = Fixed { vartheta: 0.003 };
    /// let error = UpperCboConfig { gap, ..Default::default() }.build().unwrap_err();
    /// assert_eq!(error.to_string(), "vartheta 0.003 is not in [0, weight_decay]");
    /// ```
    pub fn build(&self) -> Result<Cbo<G>> {
        check_rate("beta1", self.beta1)?;
        check_rate("beta2", self.beta2)?;
        check_positive("weight_decay", self.weight_decay)?;
        check_positive("hess_init", self.hess_init)?;
        self.gap.check(&self.envelope, self.weight_decay)?;
        check_nonnegative("eps", self.eps)?;
        check_radius("clip_radius", self.clip_radius)?;
        Ok(Cbo { config: *self })
    }

    /// Learning rate as it multiplies the step.
    pub fn effective_lr(&self, lr: f64) -> f64 {
        if self.rescale_lr {
            lr * (self.hess_init + self.weight_decay)
        } else {
            lr
        }
    }
}

/// A CBOpt rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cbo<G: Gap> {
    config: CboConfig<G>,
}

impl<G: Gap> Cbo<G> {
    /// Its hyper-parameters.
    pub fn config(&self) -> &CboConfig<G> {
        &self.config
    }
}

impl<G: Gap> Update for Cbo<G> {
    fn id(&self) -> &'static str {
        G::ID
    }

    fn step_scalar(&self, lr: f64, step: u64, gradient: f64, _second: f64, x: &mut Coordinate) {
        let config = &self.config;
        // m ← β₁ m + (1-β₁) ĝ
        x.momentum = config.beta1 * x.momentum + (1.0 - config.beta1) * gradient;
        // h ← β₂ h + (1-β₂) ĝ²
        x.curvature = config.beta2 * x.curvature + (1.0 - config.beta2) * (gradient * gradient);
        // c and H_s
        let total = x.curvature + config.weight_decay;
        let (envelope, gap) = config.gap.twin(&config.envelope, total, x.envelope);
        x.envelope = envelope;
        let denominator = config.eps_policy.apply(gap, config.eps);
        // θ ← θ - ρ clip((m̄ + δ θ) / stabilized(H_s), r)
        let corrected = x.momentum / bias_correction(config.beta1, step);
        let direction = (corrected + config.weight_decay * x.theta) / denominator;
        let radius = config.clip_radius.unwrap_or(f64::INFINITY);
        x.theta -= config.effective_lr(lr) * clip_scalar(direction, radius);
    }

    fn constants(&self, lr: f64, step: u64) -> Constants {
        let config = &self.config;
        let lr = config.effective_lr(lr);
        let (momentum, curvature) = (Average::new(config.beta1), Average::new(config.beta2));
        Constants::Cbo(CboConstants {
            momentum,
            curvature,
            push: (lr / bias_correction(config.beta1, step)) as f32,
            pull: (lr * config.weight_decay) as f32,
            stabilizer: config.eps_policy.stabilizer(config.eps),
            radius: match config.clip_radius {
                Some(radius) if radius.is_finite() => (lr * radius) as f32,
                _ => f32::INFINITY,
            },
            plain: config.clip_radius.is_none()
                && !config.eps_policy.clamps()
                && momentum.from_old
                && curvature.from_old,
            gap: config.gap.constants(&config.envelope, config.weight_decay),
        })
    }
}

impl<G: Gap> sealed::Started for Cbo<G> {
    fn start(&self) -> sealed::Start {
        sealed::Start {
            momentum: Some(0.0),
            curvature: Some(self.config.hess_init),
            envelope: G::start(self.config.hess_init + self.config.weight_decay),
            ..sealed::Start::default()
        }
    }
}

/// What a step of a CBOpt rule depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CboConstants {
    /// β₁.
    pub momentum: Average,
    /// β₂.
    pub curvature: Average,
    /// ρ / (1-β₁ᵗ).
    pub push: f32,
    /// ρ δ.
    pub pull: f32,
    /// What is done with ε.
    pub stabilizer: Stabilizer,
    /// ρ r, infinite without a clip.
    pub radius: f32,
    /// Whether this is the paper's form with slow averages: no floor, no clip, rates of at least
    /// one half.
    pub plain: bool,
    /// The gap.
    pub gap: GapConstants,
}

/// What a curvature gap depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GapConstants {
    /// Of `ucbopt`.
    Fixed(FixedGap),
    /// Of `ucbopt-adapt`.
    Upper(UpperGap),
    /// Of `lcbopt-adapt`.
    Lower(LowerGap),
}

/// Parameters, gradients and buffers of a CBOpt rule that someone else holds, such as the tensors
/// of another framework; the envelope is empty where the rule has none.
#[derive(Debug)]
pub struct Borrowed<'a> {
    /// θ.
    pub params: &'a mut [f32],
    /// ĝ.
    pub grads: &'a [f32],
    /// m.
    pub momentum: &'a mut [f32],
    /// h.
    pub curvature: &'a mut [f32],
    /// c.
    pub envelope: &'a mut [f32],
}

impl CboConstants {
    /// Makes a step on several tensors in place; its number is `step`, for the report. Where the
    /// executor refuses a gradient or skips the step, none of the tensors has changed.
    ///
    /// # Errors
    /// [`crate::Error::Length`] for the first buffer whose length is not that of its parameters,
    /// [`crate::Error::NonFiniteGradient`] as the executor demands.
    ///
    /// ```
    /// use cbopt::cbo::Borrowed;
    /// use cbopt::{Constants, Executor, RuleConfig, Update};
    /// let rule = RuleConfig::by_id("ucbopt").unwrap().build()?;
    /// let (mut params, mut momentum, mut curvature) = ([0.7], [0.0], [0.05]);
    /// let Constants::Cbo(constants) = rule.constants(0.1, 1) else { panic!() };
    /// let tensor = Borrowed {
    ///     params: &mut params,
    ///     grads: &[0.3],
    ///     momentum: &mut momentum,
    ///     curvature: &mut curvature,
    ///     envelope: &mut [],
    /// };
    /// constants.step_borrowed(&Executor::single(), 1, &mut [tensor])?;
    /// assert!((params[0] - 0.120_299_89).abs() < 1e-6);
    /// # Ok::<(), cbopt::Error>(())
    /// ```
    pub fn step_borrowed(
        &self,
        executor: &Executor,
        step: u64,
        tensors: &mut [Borrowed<'_>],
    ) -> Result<StepReport> {
        let envelopes = usize::from(!matches!(self.gap, GapConstants::Fixed(_)));
        for tensor in tensors.iter() {
            let len = tensor.params.len();
            check_length("grads", tensor.grads.len(), len)?;
            check_length("momentum", tensor.momentum.len(), len)?;
            check_length("curvature", tensor.curvature.len(), len)?;
            check_length("envelope", tensor.envelope.len(), envelopes * len)?;
        }
        for tensor in tensors.iter() {
            if !executor.admit(tensor.grads, SQUARE_LIMIT)? {
                return Ok(StepReport::skipped(step));
            }
        }
        let (mut tally, mut coordinates) = (Tally::default(), 0);
        for tensor in tensors {
            coordinates += tensor.params.len();
            let span = Span {
                first: 0,
                theta: tensor.params,
                gradient: tensor.grads,
                second: &[],
                momentum: tensor.momentum,
                curvature: tensor.curvature,
                envelope: tensor.envelope,
            };
            tally.add(self.sweep(executor, span));
        }
        Ok(StepReport::new(step, coordinates, tally))
    }

    /// Makes the step, and counts it in `state`.
    pub(crate) fn advance(
        &self,
        executor: &Executor,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> StepReport {
        let len = state.len;
        let tally = self.sweep(executor, span(params, grads, state));
        finish(state, len, tally)
    }

    /// The loop over all coordinates. The gap is matched here, once: each has its own loop.
    fn sweep(&self, executor: &Executor, span: Span<'_>) -> Tally {
        match self.gap {
            GapConstants::Fixed(gap) => self.sweep_with(gap, executor, span),
            GapConstants::Upper(gap) => self.sweep_with(gap, executor, span),
            GapConstants::Lower(gap) => self.sweep_with(gap, executor, span),
        }
    }

    fn sweep_with<G: FusedGap>(&self, gap: G, executor: &Executor, span: Span<'_>) -> Tally {
        if self.plain {
            executor.sweep(&self.kernel::<G, true>(gap), span)
        } else {
            executor.sweep(&self.kernel::<G, false>(gap), span)
        }
    }

    fn kernel<G, const PLAIN: bool>(&self, gap: G) -> CboKernel<G, PLAIN> {
        CboKernel {
            gap,
            momentum: self.momentum,
            curvature: self.curvature,
            push: self.push,
            pull: self.pull,
            stabilizer: self.stabilizer,
            radius: self.radius,
        }
    }
}

/// The curvature gap `H_s` in `f32`, with its constants.
pub(crate) trait FusedGap: Copy + Send + Sync {
    /// State buffers of the rule.
    const BUFFERS: usize;

    /// The envelope after the curvature was renewed; as it was, if the rule has none.
    fn envelope(&self, curvature: f32, envelope: f32) -> f32;

    /// `H_s` for the new curvature and the new envelope.
    fn gap(&self, curvature: f32, envelope: f32) -> f32;
}

/// One step of a rule; see [`CboConstants`] for the fields and for `PLAIN`.
#[derive(Debug, Clone, Copy)]
struct CboKernel<G, const PLAIN: bool> {
    gap: G,
    momentum: Average,
    curvature: Average,
    push: f32,
    pull: f32,
    stabilizer: Stabilizer,
    radius: f32,
}

impl<G: FusedGap, const PLAIN: bool> Kernel for CboKernel<G, PLAIN> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::assert_refused;

    fn common<G: Gap>() {
        assert_refused(
            CboConfig::<G>::default(),
            |config| config.build().map(|_| ()),
            &[
                ("beta1", |c| c.beta1 = 1.0),
                ("beta1", |c| c.beta1 = -1e-9),
                ("beta2", |c| c.beta2 = 1.0),
                ("beta2", |c| c.beta2 = -0.1),
                ("beta2", |c| c.beta2 = f64::NAN),
                ("weight_decay", |c| c.weight_decay = 0.0),
                ("weight_decay", |c| c.weight_decay = f64::INFINITY),
                ("hess_init", |c| c.hess_init = 0.0),
                ("hess_init", |c| c.hess_init = -1.0),
                ("eps", |c| c.eps = -1e-8),
                ("eps", |c| c.eps = f64::NAN),
                ("clip_radius", |c| c.clip_radius = Some(0.0)),
                ("clip_radius", |c| c.clip_radius = Some(f64::NAN)),
            ],
        );
    }

    #[test]
    fn common_fields_are_checked_on_both_edges() {
        common::<Fixed>();
        common::<Upper>();
        common::<Lower>();
    }

    /// The law that makes the step well defined: the gap of an adaptive rule stays positive
    /// whatever the gradients are.
    fn gap_stays_positive<G: Gap>() {
        let config = CboConfig::<G> {
            beta2: 0.6,
            ..Default::default()
        };
        let rule = config.build().unwrap();
        let mut state = rule.state(64);
        let mut params = vec![0.3; 64];
        for t in 0..40 {
            let grads: Vec<f32> = (0..64)
                .map(|i| 10f32.powi((i * 7 + t * 5) % 17 - 8) * (i - 31) as f32)
                .collect();
            let report = rule.step(1e-3, &mut params, &grads, &mut state).unwrap();
            assert_eq!(
                (report.gap_not_positive, report.floored, report.overflowed),
                (0, 0, 0),
                "{}",
                G::ID
            );
        }
    }

    #[test]
    fn gaps_of_adaptive_rules_stay_positive() {
        gap_stays_positive::<Upper>();
        gap_stays_positive::<Lower>();
    }

    /// Tensors of someone else, cut anywhere, get the bits of the step on one slice.
    #[test]
    fn borrowed_tensors_step_as_one_slice_does() {
        for id in ["ucbopt", "ucbopt-adapt", "lcbopt-adapt"] {
            let rule = crate::RuleConfig::by_id(id).unwrap().build().unwrap();
            let mut params: Vec<f32> = (0..101).map(|i| (i as f32).sin()).collect();
            let mut state = rule.state(101);
            let (mut theirs, mut buffers) = (params.clone(), state.clone());
            for step in 1..=3 {
                let grads: Vec<f32> = (0..101).map(|i| ((i * step) as f32).cos()).collect();
                rule.step(0.01, &mut params, &grads, &mut state).unwrap();
                let Constants::Cbo(constants) = rule.constants(0.01, step as u64) else {
                    panic!("{id} is a CBOpt rule");
                };
                let mut tensors = cut(&mut theirs, &grads, &mut buffers, 37);
                let report = constants
                    .step_borrowed(&Executor::single(), step as u64, &mut tensors)
                    .unwrap();
                assert_eq!((report.step, report.coordinates), (step as u64, 101));
            }
            assert_eq!(theirs, params, "{id}");
            assert_eq!(buffers.buffers(), state.buffers(), "{id}");

            let mut grads = vec![0.1; 101];
            grads[100] = f32::NAN;
            let before = theirs.clone();
            let Constants::Cbo(constants) = rule.constants(0.01, 4) else {
                panic!("{id} is a CBOpt rule");
            };
            let mut tensors = cut(&mut theirs, &grads, &mut buffers, 37);
            let error = constants
                .step_borrowed(&Executor::single(), 4, &mut tensors)
                .unwrap_err();
            assert!(error.to_string().contains("NaN"), "{error}");
            tensors[0].momentum = &mut [];
            assert!(
                constants
                    .step_borrowed(&Executor::single(), 4, &mut tensors)
                    .unwrap_err()
                    .to_string()
                    .contains("momentum")
            );
            assert_eq!(theirs, before, "{id}: the first tensor was left alone, too");
        }
    }

    /// Two tensors, the first of `count` coordinates.
    fn cut<'a>(
        params: &'a mut [f32],
        grads: &'a [f32],
        state: &'a mut State,
        count: usize,
    ) -> Vec<Borrowed<'a>> {
        let (first, second) = span(params, grads, state).split_at(count);
        [first, second]
            .map(|span| Borrowed {
                params: span.theta,
                grads: span.gradient,
                momentum: span.momentum,
                curvature: span.curvature,
                envelope: span.envelope,
            })
            .into()
    }
}
