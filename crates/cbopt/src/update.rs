//! What every rule can do: make a state, make a step, and say in plain `f64` what a step is.

use crate::error::{Error, Result, check_length, check_nonnegative};
use crate::executor::{Executor, StepReport};
use crate::kernel::{Kernel, Span, Tally};
use crate::rule::Constants;
use crate::state::State;

/// One coordinate in `f64`: the parameter and its state. A rule leaves alone what it does not use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coordinate {
    /// The parameter θ.
    pub theta: f64,
    /// First moment `m`, or the momentum buffer of `sgd`.
    pub momentum: f64,
    /// Curvature `h`, or the second moment of `adamw`.
    pub curvature: f64,
    /// Envelope `c` of the adaptive rules.
    pub envelope: f64,
}

/// An update rule.
///
/// ```
/// use cbopt::{Update, UpperCboConfig};
/// let rule = UpperCboConfig { weight_decay: 2e-4, ..Default::default() }.build()?;
/// let mut params = vec![0.7_f32, -0.3];
/// let mut state = rule.state(params.len());
/// let grads = [0.3, -0.2];
/// let report = rule.step(0.1, &mut params, &grads, &mut state)?;
/// assert_eq!((state.steps(), report.gap_not_positive), (1, 0));
/// # Ok::<(), cbopt::Error>(())
/// ```
pub trait Update: sealed::Started {
    /// The paper's identifier of the rule: `ucbopt`, `ucbopt-adapt`, `lcbopt-adapt`, `sgd`, `adamw`
    /// or `ivon`.
    fn id(&self) -> &'static str;

    /// The state before the first step, for `len` parameters.
    fn state(&self, len: usize) -> State {
        State::new(self.id(), len, &self.start())
    }

    /// One coordinate before the first step.
    fn coordinate(&self, theta: f64) -> Coordinate {
        let start = self.start();
        Coordinate {
            theta,
            momentum: start.momentum.unwrap_or(0.0),
            curvature: start.curvature.unwrap_or(0.0),
            envelope: start.envelope.unwrap_or(0.0),
        }
    }

    /// The scalar twin: step number `step` (from 1) of one coordinate, written the obvious way in
    /// `f64`.
    ///
    /// `second` is used by `ivon` alone: the mean of `z g` (price) or `g²` over the samples,
    /// `gradient` being the mean of `g`.
    fn step_scalar(&self, lr: f64, step: u64, gradient: f64, second: f64, x: &mut Coordinate);

    /// Everything that step number `step` (from 1) depends on besides parameters, gradients and
    /// state, as plain data: computed in `f64`, kept as the update loops use it.
    fn constants(&self, lr: f64, step: u64) -> Constants;

    /// One step in place: `grads` are the gradients at `params`, averaged over the batch, without
    /// any decay term.
    ///
    /// Runs on one thread and refuses unusable gradients; see [`Update::step_on`] for other wishes.
    ///
    /// # Errors
    /// As [`Update::step_on`].
    fn step(
        &self,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> Result<StepReport> {
        self.step_on(&Executor::single(), lr, params, grads, state)
    }

    /// One step in place, run by `executor`.
    ///
    /// # Errors
    /// Before anything is changed: [`Error::OutOfRange`] for a learning rate outside `[0, inf)`,
    /// [`Error::Length`] for slices of different lengths, [`Error::WrongRule`] for a state of
    /// another rule, [`Error::NonFiniteGradient`] for an unusable gradient if the executor is to
    /// refuse it, and [`Error::SampleCount`] if the rule takes several gradients per step: then an
    /// [`crate::Optimizer`] gathers them.
    fn step_on(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> Result<StepReport> {
        check_nonnegative("lr", lr)?;
        check_state(self, state)?;
        check_length("params", params.len(), state.len)?;
        check_length("grads", grads.len(), state.len)?;
        check_samples(1, self.start().samples)?;
        let constants = self.constants(lr, state.step + 1);
        step_by(&constants, executor, params, grads, state)
    }
}

/// Whether `state` is one of `rule`.
pub(crate) fn check_state<U: Update + ?Sized>(rule: &U, state: &State) -> Result<()> {
    if state.rule != rule.id() {
        return Err(Error::WrongRule {
            found: state.rule.into(),
            expected: rule.id(),
        });
    }
    for ((name, buffer), start) in state.all_buffers().into_iter().zip(rule.start().buffers()) {
        check_length(name, buffer.len(), start.map_or(0, |_| state.len))?;
    }
    Ok(())
}

/// `Ok(())` if a step has as many samples as it takes.
pub(crate) fn check_samples(found: u32, expected: u32) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::SampleCount { found, expected })
}

/// Makes the step if the executor admits the gradients.
pub(crate) fn step_by(
    constants: &Constants,
    executor: &Executor,
    params: &mut [f32],
    grads: &[f32],
    state: &mut State,
) -> Result<StepReport> {
    if executor.admit(grads, constants.limit())? {
        Ok(constants.advance(executor, params, grads, state))
    } else {
        Ok(skip(state))
    }
}

/// Counts a step that is left out.
pub(crate) fn skip(state: &mut State) -> StepReport {
    state.skipped_steps += 1;
    StepReport::skipped(state.step)
}

/// The part of a rule that callers cannot reach.
pub(crate) mod sealed {
    /// What the state of a rule holds before its first step: the number that each buffer it has is
    /// filled with.
    #[derive(Debug, Clone, Copy)]
    pub struct Start {
        pub momentum: Option<f64>,
        pub curvature: Option<f64>,
        pub envelope: Option<f64>,
        /// Seed of the noise, for rules that sample the weights.
        pub seed: Option<u64>,
        /// Samples of the weights that a step takes a gradient at.
        pub samples: u32,
    }

    impl Default for Start {
        fn default() -> Self {
            Self {
                momentum: None,
                curvature: None,
                envelope: None,
                seed: None,
                samples: 1,
            }
        }
    }

    impl Start {
        /// In the order of `State::all_buffers`, with the means over the samples of rules that take
        /// several.
        pub fn buffers(&self) -> [Option<f64>; 5] {
            let mean = (self.samples > 1).then_some(0.0);
            [self.momentum, self.curvature, self.envelope, mean, mean]
        }
    }

    /// A rule that knows what its state begins with.
    pub trait Started {
        /// What the state holds before the first step.
        fn start(&self) -> Start;
    }
}

/// Runs `kernel` over all parameters, and counts the step in `state`.
pub(crate) fn sweep<K: Kernel>(
    executor: &Executor,
    kernel: &K,
    params: &mut [f32],
    grads: &[f32],
    state: &mut State,
) -> StepReport {
    let len = state.len;
    let tally = executor.sweep(kernel, span(params, grads, state));
    finish(state, len, tally)
}

/// The slices of a step without a second input.
pub(crate) fn span<'a>(params: &'a mut [f32], grads: &'a [f32], state: &'a mut State) -> Span<'a> {
    Span {
        first: 0,
        theta: params,
        gradient: grads,
        second: &[],
        momentum: &mut state.momentum,
        curvature: &mut state.curvature,
        envelope: &mut state.envelope,
    }
}

/// Counts a step that was made.
pub(crate) fn finish(state: &mut State, len: usize, tally: Tally) -> StepReport {
    state.step += 1;
    state.gathered.forget();
    state.skipped_coordinates += tally.skipped;
    StepReport::new(state.step, len, tally)
}

/// Exponential average `β·old + (1-β)·new` in `f32`.
///
/// Written as a small correction of the nearer end, whose weight (`1-β` or `β`, the smaller one) is
/// formed in `f64`: with β = 0.99999 the sum of products would decay at a rate wrong by 0.3 %,
/// because β itself does not fit `f32`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Average {
    /// `1-β` or `β`, the smaller one.
    pub weight: f32,
    /// Whether β is at least one half: the old value is the nearer end, and the weight is `1-β`.
    pub from_old: bool,
}

impl Average {
    pub(crate) fn new(rate: f64) -> Self {
        let from_old = rate >= 0.5;
        Self {
            weight: if from_old { 1.0 - rate } else { rate } as f32,
            from_old,
        }
    }

    /// `next` for a rate of at least one half.
    #[inline(always)]
    pub(crate) fn next_slow(self, old: f32, new: f32) -> f32 {
        old + self.weight * (new - old)
    }

    #[inline(always)]
    pub(crate) fn next(self, old: f32, new: f32) -> f32 {
        let (base, other) = if self.from_old {
            (old, new)
        } else {
            (new, old)
        };
        base + self.weight * (other - base)
    }
}

/// Clips to `[-radius, radius]` and says whether that changed anything. NaN stays NaN.
#[inline(always)]
pub(crate) fn clip(value: f32, radius: f32) -> (f32, bool) {
    let high = value > radius;
    let low = value < -radius;
    let value = if high { radius } else { value };
    (if low { -radius } else { value }, high | low)
}

/// The same in `f64`, for the twins.
pub(crate) fn clip_scalar(value: f64, radius: f64) -> f64 {
    if value > radius {
        radius
    } else if value < -radius {
        -radius
    } else {
        value
    }
}

/// `1 - βᵗ`.
pub(crate) fn bias_correction(rate: f64, step: u64) -> f64 {
    1.0 - rate.powf(step as f64)
}

/// Largest gradient whose square is finite in `f32`.
pub(crate) const SQUARE_LIMIT: f32 = 1.844_674_3e19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn square_limit_is_the_largest() {
        assert!((SQUARE_LIMIT * SQUARE_LIMIT).is_finite());
        let above = f32::from_bits(SQUARE_LIMIT.to_bits() + 1);
        assert!((above * above).is_infinite());
    }

    #[test]
    fn slow_averages_keep_their_rate() {
        // 10⁵ steps towards 0 at β = 0.99999: the exact value is β^100000.
        let average = Average::new(0.99999);
        let (mut value, mut plain) = (1.0f32, 1.0f32);
        for _ in 0..100_000 {
            value = average.next(value, 0.0);
            plain *= 0.99999;
        }
        let want = 0.99999f64.powi(100_000);
        assert!((f64::from(value) / want - 1.0).abs() < 2e-4, "{value}");
        assert!(
            (f64::from(plain) / want - 1.0).abs() > 1e-3,
            "the plain form would do: {plain}"
        );
    }

    #[test]
    fn averages_reach_their_ends() {
        assert_eq!(Average::new(0.0).next(3e4, 0.1), 0.1);
        assert_eq!(Average::new(0.25).next(4.0, 8.0), 7.0);
        assert_eq!(Average::new(0.75).next(4.0, 8.0), 5.0);
    }

    #[test]
    fn clipping_reports() {
        assert_eq!(clip(0.5, 0.8), (0.5, false));
        assert_eq!(clip(-0.9, 0.8), (-0.8, true));
        assert_eq!(clip(0.9, 0.8), (0.8, true));
        assert!(clip(f32::NAN, 0.8).0.is_nan());
        assert_eq!(
            (
                clip_scalar(2.0, 1.0),
                clip_scalar(-2.0, 1.0),
                clip_scalar(0.5, 1.0)
            ),
            (1.0, -1.0, 0.5)
        );
    }
}
