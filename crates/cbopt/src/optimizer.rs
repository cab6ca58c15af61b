//! One optimizer for every rule: the rule with its state, the gradients of a step under way and the
//! executor, driven by three verbs.
//!
//! ```text
//! for each gradient of the step:  point    the weights at which to take it, and a place to write it to
//!                                 gather   it is there: the mean over this many examples
//! then                            step     changes the weights
//! ```
//!
//! A rule takes one sample of the weights per step, which is the weights themselves but for `ivon`;
//! then several gradients are micro-batches, and their mean, weighted by their examples, is the
//! gradient of the step. A rule that takes more samples ([`Optimizer::samples`]) takes one gradient
//! at each. A single gradient is used where it was written, without a copy.

use crate::baseline::ivon::MeanKernel;
use crate::error::{Error, Result, check_count, check_length, check_nonnegative};
use crate::executor::{Executor, StepReport};
use crate::kernel::{Span, filled};
use crate::rule::Rule;
use crate::state::State;
use crate::update::sealed::Started;
use crate::update::{SQUARE_LIMIT, Update, check_samples, check_state, skip, step_by};

/// A rule at work on one vector of parameters.
///
/// ```
/// use cbopt::{Executor, Optimizer, RuleConfig};
/// for id in RuleConfig::IDS {
///     let mut config = RuleConfig::by_id(id).expect("an identifier of the list");
///     config.fill_examples(1000);
///     let mut params = vec![0.7_f32, -0.3, 0.1];
///     let mut optimizer = Optimizer::new(config.build()?, params.len(), Executor::single());
///     for _ in 0..2000 {
///         let (at, gradient) = optimizer.point(&params)?;
///         for (g, w) in gradient.iter_mut().zip(at) {
///             *g = w - 1.0;
///         }
///         optimizer.gather(1)?;
///         optimizer.step(0.003, &mut params)?;
///     }
///     assert!(params.iter().all(|w| (w - 1.0).abs() < 0.2), "{id}: {params:?}");
/// }
/// # Ok::<(), cbopt::Error>(())
/// ```
#[derive(Debug)]
pub struct Optimizer {
    rule: Rule,
    state: State,
    executor: Executor,
    /// A sample of the weights, for rules that take one.
    sampled: Vec<f32>,
    /// Where the second and later micro-batches of a sample are written.
    micro_batch: Vec<f32>,
    /// Whether a gradient was asked for and not gathered yet.
    is_asked: bool,
    /// Whether a sample of this step had an unusable gradient, so that the step is to be skipped.
    is_spoiled: bool,
}

impl Optimizer {
    /// The rule before its first step, for `len` parameters.
    pub fn new(rule: impl Into<Rule>, len: usize, executor: Executor) -> Self {
        let rule = rule.into();
        Self {
            state: rule.state(len),
            rule,
            executor,
            sampled: Vec::new(),
            micro_batch: Vec::new(),
            is_asked: false,
            is_spoiled: false,
        }
    }

    /// The rule.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Its state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Continues from this state.
    ///
    /// # Errors
    /// [`Error::WrongRule`] or [`Error::Length`] if it is not one of this rule and these
    /// parameters.
    pub fn set_state(&mut self, state: State) -> Result<()> {
        check_state(&self.rule, &state)?;
        check_length("state", state.len, self.state.len)?;
        self.state = state;
        self.is_asked = false;
        self.is_spoiled = false;
        Ok(())
    }

    /// Takes over what a device made of the state, so many steps further: `write` fills each buffer
    /// that the state has between two steps, by its name (see [`State::buffers`]). The steps must
    /// have been made with the rule's [constants](Update::constants); gradients gathered since the
    /// last step are forgotten.
    pub fn adopt(&mut self, steps: u64, mut write: impl FnMut(&'static str, &mut [f32])) {
        self.discard();
        self.state.step += steps;
        for (name, buffer) in self.state.buffers_mut() {
            write(name, buffer);
        }
    }

    /// The error that a step with this gradient is refused with, if it is refused.
    pub fn refusal(&self, gradient: &[f32]) -> Option<Error> {
        let limit = self.rule.constants(0.0, 1).limit();
        self.executor.admit(gradient, limit).err()
    }

    /// Samples of the weights that a step takes a gradient at; 1 for all rules but `ivon`.
    pub fn samples(&self) -> u32 {
        self.rule.start().samples
    }

    /// Whether gradients were gathered since the last step.
    pub fn is_gathering(&self) -> bool {
        self.state.gathered.samples > 0 || self.state.gathered.weight > 0.0
    }

    /// The gradient of the last sample, the mean over its micro-batches; empty before the first.
    pub fn gradient(&self) -> &[f32] {
        &self.state.gathered.gradient
    }

    /// Forgets the gradients gathered since the last step: the step begins anew, with the same
    /// samples.
    pub fn discard(&mut self) {
        self.state.gathered.forget();
        self.is_asked = false;
        self.is_spoiled = false;
    }

    /// The weights at which the next gradient is to be taken, and the place to write it to.
    ///
    /// The weights are `params`, or a sample of them if the rule takes samples. What the place
    /// holds before is of no use.
    ///
    /// # Errors
    /// [`Error::Length`] for other parameters; [`Error::SampleCount`] if the step has all its
    /// samples; [`Error::NonFiniteGradient`] if the sample before had an unusable gradient and the
    /// executor is to refuse it: then everything gathered is forgotten.
    pub fn point<'a>(&'a mut self, params: &'a [f32]) -> Result<(&'a [f32], &'a mut [f32])> {
        let len = self.state.len;
        check_length("params", params.len(), len)?;
        let expected = self.samples();
        if expected > 1 {
            self.close_sample()?;
            let found = self.state.gathered.samples;
            if found >= expected {
                let found = found + 1;
                return Err(Error::SampleCount { found, expected });
            }
        }
        let mut at = params;
        if let Rule::Ivon(rule) = &self.rule {
            let key = rule.noise_key(&self.state);
            make_place(&mut self.sampled, len);
            rule.sample(&self.executor, params, &self.state, key, &mut self.sampled)?;
            at = &self.sampled;
        }
        let gathered = &mut self.state.gathered;
        let place = if gathered.weight > 0.0 {
            &mut self.micro_batch
        } else {
            &mut gathered.gradient
        };
        make_place(place, len);
        self.is_asked = true;
        Ok((at, place))
    }

    /// Takes in the gradient that was written where [`Optimizer::point`] said: the mean over
    /// `examples` examples.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] unless there is an example, [`Error::NoPoint`] if no gradient was
    /// asked for.
    pub fn gather(&mut self, examples: usize) -> Result<()> {
        check_count("examples", examples as u64)?;
        if !self.is_asked {
            return Err(Error::NoPoint);
        }
        self.is_asked = false;
        let gathered = &mut self.state.gathered;
        let (before, weight) = (gathered.weight, examples as f64);
        gathered.weight = before + weight;
        if before > 0.0 {
            let kernel = MeanKernel {
                share: (weight / gathered.weight) as f32,
                is_first: false,
            };
            let span = Span {
                theta: &mut gathered.gradient,
                gradient: &self.micro_batch,
                ..Span::default()
            };
            self.executor.sweep(&kernel, span);
        }
        Ok(())
    }

    /// One step in place with the gradients that were gathered, which are forgotten then. A step
    /// that is refused for another reason than its gradient, such as a learning rate out of range,
    /// can be tried again.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a learning rate outside `[0, inf)`, [`Error::Length`] for other
    /// parameters, [`Error::SampleCount`] unless all samples are there,
    /// [`Error::NonFiniteGradient`] for an unusable gradient if the executor is to refuse it. Then
    /// parameters and moments are as before.
    pub fn step(&mut self, lr: f64, params: &mut [f32]) -> Result<StepReport> {
        check_nonnegative("lr", lr)?;
        check_length("params", params.len(), self.state.len)?;
        let pending = u32::from(self.state.gathered.weight > 0.0);
        let expected = self.samples();
        check_samples(self.state.gathered.samples + pending, expected)?;
        if expected > 1 {
            self.close_sample()?;
        }
        let report = if self.is_spoiled {
            Ok(skip(&mut self.state))
        } else {
            self.advance(lr, params)
        };
        self.discard();
        report
    }

    fn advance(&mut self, lr: f64, params: &mut [f32]) -> Result<StepReport> {
        let samples = self.samples();
        let (state, executor) = (&mut self.state, &self.executor);
        let constants = self.rule.constants(lr, state.step + 1);
        if samples == 1 {
            let grads = std::mem::take(&mut state.gathered.gradient);
            let report = step_by(&constants, executor, params, &grads, state);
            state.gathered.gradient = grads;
            return report;
        }
        // The samples were admitted one by one.
        let grads = std::mem::take(&mut state.gathered.gradient_mean);
        let report = constants.advance(executor, params, &grads, state);
        state.gathered.gradient_mean = grads;
        Ok(report)
    }

    /// Adds the current sample to the means over the samples, if it has a gradient.
    fn close_sample(&mut self) -> Result<()> {
        if self.state.gathered.weight == 0.0 {
            return Ok(());
        }
        match (
            self.executor
                .admit(&self.state.gathered.gradient, SQUARE_LIMIT),
            &self.rule,
        ) {
            (Err(error), _) => {
                self.discard();
                return Err(error);
            }
            (Ok(true), Rule::Ivon(rule)) => rule.fold(&self.executor, &mut self.state),
            (Ok(_), _) => {
                self.is_spoiled = true;
                self.state.gathered.samples += 1;
                self.state.gathered.weight = 0.0;
            }
        }
        Ok(())
    }
}

/// Makes room for `len` numbers.
fn make_place(place: &mut Vec<f32>, len: usize) {
    if place.len() != len {
        *place = filled(len, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::NoiseKey;
    use crate::{HessianEstimate, IvonConfig, NonFinite, SgdConfig};

    fn ivon(mc_samples: u32) -> IvonConfig {
        IvonConfig {
            mc_samples,
            ..IvonConfig::new(10.0)
        }
    }

    fn optimizer(config: IvonConfig, len: usize) -> Optimizer {
        Optimizer::new(config.build().unwrap(), len, Executor::single())
    }

    /// Hands in one gradient as a function of the weights at which it is taken.
    fn give(
        optimizer: &mut Optimizer,
        params: &[f32],
        examples: usize,
        gradient: impl Fn(f32) -> f32,
    ) -> Result<()> {
        let (at, place) = optimizer.point(params)?;
        for (g, w) in place.iter_mut().zip(at) {
            *g = gradient(*w);
        }
        optimizer.gather(examples)
    }

    #[test]
    fn a_single_gradient_makes_the_bits_of_a_plain_step() {
        let rule: Rule = SgdConfig::default().build().unwrap().into();
        let mut optimizer = Optimizer::new(rule, 3, Executor::single());
        let (mut params, mut plain) = ([0.5, -0.25, 2.0], [0.5, -0.25, 2.0]);
        let mut state = rule.state(3);
        for _ in 0..3 {
            let grads = plain.map(|w: f32| 0.3 * w - 0.1);
            give(&mut optimizer, &params, 7, |w| 0.3 * w - 0.1).unwrap();
            let report = optimizer.step(0.1, &mut params).unwrap();
            assert_eq!(rule.step(0.1, &mut plain, &grads, &mut state), Ok(report));
            assert_eq!((params, optimizer.state()), (plain, &state));
            assert_eq!(optimizer.gradient(), grads);
        }
    }

    #[test]
    fn a_step_allocates_nothing() {
        for samples in [1, 2] {
            let mut optimizer = optimizer(ivon(samples), 1000);
            let mut params = vec![0.5; 1000];
            let mut step = || {
                for _ in 0..samples {
                    give(&mut optimizer, &params, 1, |w| w - 1.0).unwrap();
                }
                optimizer.step(0.1, &mut params).unwrap();
            };
            step();
            assert_eq!(allocation_counter::measure(&mut step).count_total, 0);
        }
    }

    /// A gradient that is linear in the weights has the same mean over micro-batches as over the
    /// whole batch, so the two ways to hand it in must agree.
    #[test]
    fn micro_batches_are_one_sample() {
        const LEN: usize = 100;
        for hessian in [HessianEstimate::Price, HessianEstimate::SquaredGradient] {
            let config = IvonConfig {
                hessian,
                beta2: 0.9,
                ..IvonConfig::new(50.0)
            };
            let (mut whole, mut parts) = (optimizer(config, LEN), optimizer(config, LEN));
            let (mut theta, mut theta_parts) = (vec![0.5; LEN], vec![0.5; LEN]);
            for step in 0..4 {
                give(&mut whole, &theta, 4, |w| w - 1.0).unwrap();
                // Three and one examples, with gradients w and w - 4: the mean is w - 1.
                give(&mut parts, &theta_parts, 3, |w| w).unwrap();
                give(&mut parts, &theta_parts, 1, |w| w - 4.0).unwrap();
                whole.step(0.1, &mut theta).unwrap();
                parts.step(0.1, &mut theta_parts).unwrap();
                assert_eq!(whole.state().steps(), step + 1);
                for (a, b) in theta.iter().zip(&theta_parts) {
                    assert!((a - b).abs() < 1e-5, "{a} {b}");
                }
                let (state, state_parts) = (&whole.state, &mut parts.state);
                for (a, b) in state.curvature.iter().zip(&state_parts.curvature) {
                    assert!((a - b).abs() < 1e-4 * a.abs().max(1.0), "{a} {b}");
                }
                theta_parts.copy_from_slice(&theta);
                state_parts.momentum.copy_from_slice(&state.momentum);
                state_parts.curvature.copy_from_slice(&state.curvature);
            }
        }
    }

    /// A state that was carried elsewhere and back goes on to the same bits.
    #[test]
    fn a_state_is_adopted_with_its_steps() {
        for samples in [1, 2] {
            let mut here = optimizer(ivon(samples), 5);
            let mut there = optimizer(ivon(samples), 5);
            let mut params = [0.5; 5];
            let step = |optimizer: &mut Optimizer, params: &mut [f32; 5]| {
                for _ in 0..samples {
                    give(optimizer, params, 1, |w| w - 1.0).unwrap();
                }
                optimizer.step(0.1, params).unwrap();
            };
            step(&mut here, &mut params);
            let state = here.state().clone();
            there.adopt(1, |name, buffer| {
                let found = state
                    .buffers()
                    .into_iter()
                    .find(|(other, _)| *other == name);
                buffer.copy_from_slice(found.unwrap().1);
            });
            assert_eq!(there.state(), &state);
            let mut other = params;
            step(&mut here, &mut params);
            step(&mut there, &mut other);
            assert_eq!((params, here.state()), (other, there.state()));
        }
    }

    #[test]
    fn a_refusal_names_the_gradient() {
        let optimizer = optimizer(ivon(1), 3);
        assert_eq!(optimizer.refusal(&[0.0, 1.0, -2.0]), None);
        let error = optimizer.refusal(&[0.0, f32::INFINITY, f32::NAN]).unwrap();
        assert!(matches!(error, Error::NonFiniteGradient { index: 1, .. }));
    }

    #[test]
    fn samples_are_counted() {
        let mut optimizer = optimizer(ivon(3), 2);
        let mut params = [0.0; 2];
        let missing = |found| Error::SampleCount { found, expected: 3 };
        let key = |step, sample| NoiseKey {
            seed: 0,
            step,
            sample,
        };
        let next_key = |optimizer: &Optimizer| match optimizer.rule() {
            Rule::Ivon(rule) => rule.noise_key(optimizer.state()),
            other => panic!("{other:?}"),
        };
        assert_eq!(optimizer.step(0.1, &mut params), Err(missing(0)));
        assert_eq!(optimizer.gather(1), Err(Error::NoPoint));
        let mut state = optimizer.rule().state(2);
        let plain = optimizer
            .rule()
            .step(0.1, &mut params, &[1.0; 2], &mut state);
        assert_eq!(plain, Err(missing(1)));
        for sample in 0..3 {
            optimizer.point(&params).unwrap();
            assert_eq!(next_key(&optimizer), key(1, sample));
            give(&mut optimizer, &params, 1, |_| 1.0).unwrap();
        }
        assert_eq!(optimizer.point(&params).map(|_| ()), Err(missing(4)));
        assert!(optimizer.is_gathering());
        assert_eq!(optimizer.step(0.1, &mut params).unwrap().step, 1);
        assert!(!optimizer.is_gathering());
        assert_eq!(next_key(&optimizer), key(2, 0));
    }

    #[test]
    fn an_unusable_sample_spoils_only_its_coordinate() {
        let executor = Executor::single().non_finite(NonFinite::SkipCoordinates);
        let mut optimizer = Optimizer::new(ivon(2).build().unwrap(), 3, executor);
        let mut params = [1.0; 3];
        let (_, place) = optimizer.point(&params).unwrap();
        place.copy_from_slice(&[1.0, f32::INFINITY, 1.0]);
        optimizer.gather(1).unwrap();
        give(&mut optimizer, &params, 1, |_| 1.0).unwrap();
        let report = optimizer.step(0.1, &mut params).unwrap();
        assert_eq!(report.skipped_coordinates, 1);
        assert_eq!((params[1], optimizer.state().momentum()[1]), (1.0, 0.0));
        assert!(params[0] != 1.0 && params[2] != 1.0);
        // The next step is whole again.
        for _ in 0..2 {
            give(&mut optimizer, &params, 1, |_| 1.0).unwrap();
        }
        let report = optimizer.step(0.1, &mut params).unwrap();
        assert_eq!(report.skipped_coordinates, 0);
    }

    #[test]
    fn an_unusable_sample_ends_the_step() {
        for (policy, place) in [
            (NonFinite::Refuse, 0),
            (NonFinite::Refuse, 1),
            (NonFinite::SkipStep, 0),
            (NonFinite::SkipStep, 1),
        ] {
            let executor = Executor::single().non_finite(policy);
            let mut optimizer = Optimizer::new(ivon(2).build().unwrap(), 3, executor);
            let fresh = optimizer.rule().state(3);
            let mut params = [1.0; 3];
            let mut gather = || {
                for sample in 0..2 {
                    let g = if sample == place { f32::NAN } else { 1.0 };
                    give(&mut optimizer, &params, 1, |_| g)?;
                }
                optimizer.step(0.1, &mut params)
            };
            let report = gather();
            if policy == NonFinite::Refuse {
                assert!(matches!(
                    report,
                    Err(Error::NonFiniteGradient { index: 0, .. })
                ));
            } else {
                assert!(report.unwrap().skipped);
                assert_eq!(optimizer.state().skipped_steps(), 1);
            }
            assert!(!optimizer.is_gathering());
            assert_eq!((params, optimizer.state().steps()), ([1.0; 3], 0));
            assert_eq!(optimizer.state().momentum(), fresh.momentum());
        }
    }
}
