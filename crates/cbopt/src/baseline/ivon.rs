//! `ivon`, improved variational online Newton: a normal distribution over the weights, learned from gradients at samples.
//!
//! ```text
//! for each of K samples: z ~ N(0, I),  n = z / √(N (h + δ)),  g = ∇ℓ(θ + n), averaged over the batch
//! m ← β₁ m + (1-β₁) mean g
//! f = N (h + δ) mean(n g)  (price)   or   N mean(g²)  (squared gradient)
//! h ← β₂ h + (1-β₂) f + ½ (1-β₂)² (h - f)² / (h + δ)      (old h on the right; keeps h + δ > 0)
//! θ ← θ - ρ' clip((m/(1-β₁ᵗ) + δ θ) / (h + δ), r)         (new h; ρ' = ρ (h₀ + δ) with rescaling)
//! ```
//!
//! `h` starts at h₀ and is not bias-corrected. Since `N (h + δ) n = √(N (h + δ)) z`, the product is gathered as
//! `mean(z g)`, which does not depend on `h`.
//!
//! The noise is a function of (seed, step, sample, coordinate), see [`crate::noise`]: it is never stored, and the
//! perturbed weights live in a buffer of the caller, so θ itself is never perturbed. Micro-batches of one sample share
//! one perturbation: their gradients are averaged (by weight) before they are multiplied by the noise or squared.

use crate::error::{
    Error, Result, check, check_length, check_nonnegative, check_positive, check_rate,
};
use crate::executor::{Executor, StepReport};
use crate::kernel::{Kernel, Marks, Point, Span, filled};
use crate::noise::{NoiseKey, fill_inline};
use crate::state::{Sampler, State};
use crate::update::{
    Average, Coordinate, SQUARE_LIMIT, Update, bias_correction, check_buffer, check_step, clip,
    clip_scalar, finish, sealed,
};

/// How the diagonal Hessian is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HessianEstimate {
    /// `N (h + δ) mean(n g)`, Price's theorem: the one the paper uses.
    Price,
    /// `N mean(g²)`.
    SquaredGradient,
    /// `mean(g²)`: the variant of the authors' released code.
    SquaredGradientUnscaled,
}

/// Hyper-parameters of `ivon`. There is no default for the effective sample size: start from [`IvonConfig::new`].
#[derive(Debug, Clone, PartialEq)]
pub struct IvonConfig {
    /// Effective sample size N > 0, usually the number of training examples.
    pub ess: f64,
    /// Initial curvature h₀ > 0. Default 1; the paper uses 0.5.
    pub hess_init: f64,
    /// Weight decay, the prior precision δ ≥ 0. Default 1e-4.
    pub weight_decay: f64,
    /// Rate of the first moment, β₁ in `[0, 1)`. Default 0.9.
    pub beta1: f64,
    /// Rate of the curvature average, β₂ in `[0, 1)`. Default 0.99999.
    pub beta2: f64,
    /// Monte Carlo samples per step, K ≥ 1. Default 1.
    pub mc_samples: u32,
    /// Whether the gradient of a sample may come in several micro-batches; costs 4 bytes per parameter. Default off.
    pub micro_batches: bool,
    /// Default: price.
    pub hessian: HessianEstimate,
    /// Clips the preconditioned step to `[-r, r]`, r > 0. Default none.
    pub clip_radius: Option<f64>,
    /// Multiplies the learning rate by `h₀ + δ`. Default on.
    pub rescale_lr: bool,
    /// Divides the first moment by `1 - β₁ᵗ`. Default on.
    pub debias: bool,
    /// Seed of the noise. Default 0.
    pub seed: u64,
}

impl IvonConfig {
    /// The usual setting for an effective sample size.
    pub fn new(ess: f64) -> Self {
        Self {
            ess,
            hess_init: 1.0,
            weight_decay: 1e-4,
            beta1: 0.9,
            beta2: 0.99999,
            mc_samples: 1,
            micro_batches: false,
            hessian: HessianEstimate::Price,
            clip_radius: None,
            rescale_lr: true,
            debias: true,
            seed: 0,
        }
    }

    /// The rule.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for the first field outside its range.
    pub fn build(&self) -> Result<Ivon> {
        check_positive("ess", self.ess)?;
        check_positive("hess_init", self.hess_init)?;
        check_nonnegative("weight_decay", self.weight_decay)?;
        check_rate("beta1", self.beta1)?;
        check_rate("beta2", self.beta2)?;
        check("mc_samples", self.mc_samples.into(), "1..", |k| k >= 1.0)?;
        self.clip_radius.map_or(Ok(0.0), |r| {
            check("clip_radius", r, "(0, inf]", |r| r > 0.0)
        })?;
        Ok(Ivon {
            config: self.clone(),
        })
    }
}

/// Where the standard normal numbers of a sample come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise<'a> {
    /// The noise of the sample that the state is waiting for: what training uses.
    Current,
    /// The noise of some key: what prediction uses.
    Key(NoiseKey),
    /// Given numbers, one per parameter.
    Given(&'a [f32]),
}

/// The rule `ivon`.
///
/// ```
/// use cbopt::{Executor, IvonConfig, Noise, Update};
/// let rule = IvonConfig { mc_samples: 2, hess_init: 0.5, ..IvonConfig::new(1000.0) }.build()?;
/// let executor = Executor::single();
/// let mut params = vec![1.0_f32; 4];
/// let mut perturbed = vec![0.0; 4];
/// let mut state = rule.state(4);
/// for _ in 0..10 {
///     for _ in 0..2 {
///         rule.perturb(&executor, &params, &state, Noise::Current, &mut perturbed)?;
///         let grads: Vec<f32> = perturbed.iter().map(|w| w - 3.0).collect();
///         rule.add_sample(&executor, &grads, Noise::Current, &mut state)?;
///     }
///     rule.apply(&executor, 0.1, &mut params, &mut state)?;
/// }
/// assert_eq!(state.steps(), 10);
/// assert!(params.iter().all(|w| *w > 1.0));
/// # Ok::<(), cbopt::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Ivon {
    config: IvonConfig,
}

impl Ivon {
    /// Its hyper-parameters.
    pub fn config(&self) -> &IvonConfig {
        &self.config
    }

    /// The state before the first step of `len` parameters that are the coordinates `first..first + len` of the noise.
    ///
    /// Groups of one network take the noise at their own place, so that it does not depend on the grouping.
    pub fn state_at(&self, len: usize, first: u64) -> State {
        let buffer = |used: bool| if used { filled(len, 0.0) } else { Vec::new() };
        let many = self.config.mc_samples > 1;
        State {
            momentum: filled(len, 0.0),
            curvature: filled(len, self.config.hess_init as f32),
            sampler: Some(Sampler {
                seed: self.config.seed,
                first,
                samples: 0,
                weight: 0.0,
                gradient_mean: buffer(many),
                second_mean: buffer(many),
                sample_gradient: buffer(self.config.micro_batches),
            }),
            ..State::new(self.id(), len)
        }
    }

    /// Key of the noise that the next gradient belongs to.
    ///
    /// # Errors
    /// [`Error::WrongRule`] if the state is not one of `ivon`.
    pub fn noise_key(&self, state: &State) -> Result<NoiseKey> {
        let sampler = self.sampler(state)?;
        Ok(NoiseKey {
            seed: sampler.seed,
            step: state.step + 1,
            sample: sampler.samples,
        })
    }

    /// Writes one sample of the weights, `θ + z/√(N (h + δ))`, to `out`; `params` stays as it is.
    ///
    /// # Errors
    /// [`Error::Length`] or [`Error::WrongRule`] if the arguments do not belong together.
    pub fn perturb(
        &self,
        executor: &Executor,
        params: &[f32],
        state: &State,
        noise: Noise<'_>,
        out: &mut [f32],
    ) -> Result<()> {
        let first = self.sampler(state)?.first;
        check_length("params", params.len(), state.len)?;
        check_length("out", out.len(), state.len)?;
        check_buffer("curvature", &state.curvature, true, state)?;
        let kernel = PerturbKernel {
            noise: self.source(noise, state)?,
            curvature: &state.curvature,
            first,
            ess: self.config.ess as f32,
            decay: self.config.weight_decay as f32,
        };
        executor.sweep(
            &kernel,
            Span {
                first,
                theta: out,
                gradient: params,
                second: &[],
                momentum: &mut [],
                curvature: &mut [],
                envelope: &mut [],
            },
        );
        Ok(())
    }

    /// The twin of [`Ivon::perturb`]: one coordinate, in `f64`.
    pub fn perturb_scalar(&self, z: f64, x: &Coordinate) -> f64 {
        x.theta + z / (self.config.ess * (x.curvature + self.config.weight_decay)).sqrt()
    }

    /// Adds a micro-batch to the gradient of the current sample, with a weight such as its number of examples.
    ///
    /// Returns `false` if the micro-batch was left out because of an unusable gradient. The weighted mean of the
    /// micro-batches is the gradient of the sample.
    ///
    /// # Errors
    /// [`Error::Accumulation`] if the config has no micro-batches, otherwise as [`Ivon::add_sample`].
    pub fn add_micro_batch(
        &self,
        executor: &Executor,
        grads: &[f32],
        weight: f64,
        state: &mut State,
    ) -> Result<bool> {
        check_positive("weight", weight)?;
        self.check_layout(state)?;
        check_length("grads", grads.len(), state.len)?;
        if !self.config.micro_batches {
            return Err(Error::Accumulation {
                what: "the config says that there are no micro-batches",
            });
        }
        self.check_room(state)?;
        if !executor.admit(grads, SQUARE_LIMIT)? {
            state.skipped_steps += 1;
            return Ok(false);
        }
        let sampler = self.sampler_mut(state)?;
        let total = sampler.weight + weight;
        let kernel = MeanKernel {
            share: (weight / total) as f32,
            is_first: sampler.weight == 0.0,
        };
        executor.sweep(
            &kernel,
            Span {
                first: 0,
                theta: &mut sampler.sample_gradient,
                gradient: grads,
                second: &[],
                momentum: &mut [],
                curvature: &mut [],
                envelope: &mut [],
            },
        );
        sampler.weight = total;
        Ok(true)
    }

    /// Forgets the samples and micro-batches gathered since the last step: the step begins anew, with the same noise.
    ///
    /// # Errors
    /// [`Error::WrongRule`] for a state of another rule.
    pub fn discard(&self, state: &mut State) -> Result<()> {
        let sampler = self.sampler_mut(state)?;
        sampler.samples = 0;
        sampler.weight = 0.0;
        Ok(())
    }

    /// Closes the current sample: its micro-batches are complete, the next ones belong to the next sample.
    ///
    /// # Errors
    /// [`Error::Accumulation`] if there was no micro-batch.
    pub fn end_sample(
        &self,
        executor: &Executor,
        noise: Noise<'_>,
        state: &mut State,
    ) -> Result<()> {
        self.check_layout(state)?;
        let sampler = self.sampler(state)?;
        if sampler.weight == 0.0 {
            return Err(Error::Accumulation {
                what: "a sample was ended without a micro-batch",
            });
        }
        if self.config.mc_samples == 1 {
            return Err(Error::Accumulation {
                what: "the only sample of a step is ended by the step",
            });
        }
        let source = self.source(noise, state)?;
        let sampler = self.sampler_mut(state)?;
        let grads = std::mem::take(&mut sampler.sample_gradient);
        self.fold(executor, &grads, source, sampler);
        sampler.sample_gradient = grads;
        sampler.weight = 0.0;
        Ok(())
    }

    /// Adds the whole gradient of one sample.
    ///
    /// Returns `false` if the sample was left out because of an unusable gradient; then nothing else changed, and the
    /// same noise is offered again.
    ///
    /// # Errors
    /// [`Error::NonFiniteGradient`] if the executor is to refuse it, [`Error::SampleCount`] if the step has all its samples
    /// or takes only one (then call [`Update::step`]), [`Error::Accumulation`] while micro-batches are pending.
    pub fn add_sample(
        &self,
        executor: &Executor,
        grads: &[f32],
        noise: Noise<'_>,
        state: &mut State,
    ) -> Result<bool> {
        self.check_sample(grads.len(), noise, state)?;
        if !executor.admit(grads, SQUARE_LIMIT)? {
            state.skipped_steps += 1;
            return Ok(false);
        }
        self.take_sample(executor, grads, noise, state)?;
        Ok(true)
    }

    /// Whether a sample of `len` gradients can be added.
    pub(crate) fn check_sample(&self, len: usize, noise: Noise<'_>, state: &State) -> Result<()> {
        self.check_layout(state)?;
        check_length("grads", len, state.len)?;
        self.check_no_pending(state)?;
        if self.config.mc_samples == 1 {
            return Err(Error::Accumulation {
                what: "the only sample of a step is added by the step",
            });
        }
        self.source(noise, state)?;
        self.check_room(state)
    }

    /// Adds a sample that was checked.
    pub(crate) fn take_sample(
        &self,
        executor: &Executor,
        grads: &[f32],
        noise: Noise<'_>,
        state: &mut State,
    ) -> Result<()> {
        let source = self.source(noise, state)?;
        let sampler = self.sampler_mut(state)?;
        self.fold(executor, grads, source, sampler);
        Ok(())
    }

    /// Makes the step from what was gathered by [`Ivon::add_sample`] or [`Ivon::add_micro_batch`].
    ///
    /// # Errors
    /// [`Error::SampleCount`] unless all samples are there; [`Error::OutOfRange`], [`Error::Length`],
    /// [`Error::WrongRule`] for arguments that do not fit.
    pub fn apply(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        state: &mut State,
    ) -> Result<StepReport> {
        self.apply_with(executor, lr, params, Noise::Current, state)
    }

    /// [`Ivon::apply`] with the noise of the last sample, if that is closed only now.
    ///
    /// # Errors
    /// As [`Ivon::apply`].
    pub fn apply_with(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        noise: Noise<'_>,
        state: &mut State,
    ) -> Result<StepReport> {
        check_nonnegative("lr", lr)?;
        self.check_layout(state)?;
        check_length("params", params.len(), state.len)?;
        let expected = self.config.mc_samples;
        let sampler = self.sampler(state)?;
        let pending = u32::from(sampler.weight > 0.0);
        let found = sampler.samples + pending;
        if found != expected {
            return Err(Error::SampleCount { found, expected });
        }
        if expected == 1 {
            // The single sample came in micro-batches: its product with the noise is formed on the way.
            let source = self.source(noise, state)?;
            let grads = std::mem::take(&mut self.sampler_mut(state)?.sample_gradient);
            let report = self.advance_one(executor, lr, params, &grads, source, state);
            self.sampler_mut(state)?.sample_gradient = grads;
            return Ok(report);
        }
        if pending == 1 {
            self.end_sample(executor, noise, state)?;
        }
        Ok(self.advance_means(executor, lr, params, state))
    }

    /// [`Update::step_on`] with given noise, for a step of one sample without micro-batches.
    ///
    /// # Errors
    /// As [`Update::step_on`]; [`Error::Length`] if the noise has another length.
    pub fn step_with(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        noise: Noise<'_>,
        state: &mut State,
    ) -> Result<StepReport> {
        check_step(self, lr, params.len(), grads.len(), state)?;
        let source = self.source(noise, state)?;
        if !executor.admit(grads, SQUARE_LIMIT)? {
            state.skipped_steps += 1;
            return Ok(StepReport {
                step: state.step,
                skipped: true,
                ..StepReport::default()
            });
        }
        Ok(self.advance_last(executor, lr, params, grads, source, state))
    }

    fn sampler<'s>(&self, state: &'s State) -> Result<&'s Sampler> {
        let wrong = || Error::WrongRule {
            found: state.rule.into(),
            expected: self.id(),
        };
        state.sampler.as_ref().ok_or_else(wrong)
    }

    fn sampler_mut<'s>(&self, state: &'s mut State) -> Result<&'s mut Sampler> {
        let (found, expected) = (state.rule, self.id());
        state.sampler.as_mut().ok_or_else(|| Error::WrongRule {
            found: found.into(),
            expected,
        })
    }

    fn check_layout(&self, state: &State) -> Result<()> {
        let many = self.config.mc_samples > 1;
        let sampler = self.sampler(state)?;
        check_buffer("momentum", &state.momentum, true, state)?;
        check_buffer("curvature", &state.curvature, true, state)?;
        check_buffer("gradient_mean", &sampler.gradient_mean, many, state)?;
        check_buffer("second_mean", &sampler.second_mean, many, state)?;
        check_buffer(
            "sample_gradient",
            &sampler.sample_gradient,
            self.config.micro_batches,
            state,
        )
    }

    fn check_no_pending(&self, state: &State) -> Result<()> {
        if self.sampler(state)?.weight > 0.0 {
            return Err(Error::Accumulation {
                what: "micro-batches of a sample are still pending",
            });
        }
        Ok(())
    }

    /// Whether the step can take another sample.
    fn check_room(&self, state: &State) -> Result<()> {
        let found = self.sampler(state)?.samples;
        if found >= self.config.mc_samples {
            return Err(Error::SampleCount {
                found,
                expected: self.config.mc_samples - 1,
            });
        }
        Ok(())
    }

    fn source<'n>(&self, noise: Noise<'n>, state: &State) -> Result<Source<'n>> {
        Ok(match noise {
            Noise::Current => Source::Key(self.noise_key(state)?),
            Noise::Key(key) => Source::Key(key),
            Noise::Given(z) => {
                check_length("noise", z.len(), state.len)?;
                Source::Given {
                    z,
                    first: self.sampler(state)?.first,
                }
            }
        })
    }

    /// Running means over samples.
    fn fold(&self, executor: &Executor, grads: &[f32], source: Source<'_>, sampler: &mut Sampler) {
        sampler.samples += 1;
        let kernel = FoldKernel {
            product: self.product(source),
            mean: MeanKernel {
                share: (1.0 / f64::from(sampler.samples)) as f32,
                is_first: sampler.samples == 1,
            },
        };
        executor.sweep(
            &kernel,
            Span {
                first: sampler.first,
                theta: &mut sampler.gradient_mean,
                gradient: grads,
                second: &[],
                momentum: &mut sampler.second_mean,
                curvature: &mut [],
                envelope: &mut [],
            },
        );
    }

    fn product<'n>(&self, source: Source<'n>) -> Product<'n> {
        Product {
            source,
            squared: self.config.hessian != HessianEstimate::Price,
        }
    }

    fn constants(&self, lr: f64, state: &State) -> Constants {
        let config = &self.config;
        let total = config.hess_init + config.weight_decay;
        let correction = if config.debias {
            bias_correction(config.beta1, state.step + 1)
        } else {
            1.0
        };
        Constants {
            momentum: Average::new(config.beta1),
            rate: (1.0 - config.beta2) as f32,
            correction: (1.0 / correction) as f32,
            decay: config.weight_decay as f32,
            ess: config.ess as f32,
            fixed_scale: match config.hessian {
                HessianEstimate::Price => None,
                HessianEstimate::SquaredGradient => Some(config.ess as f32),
                HessianEstimate::SquaredGradientUnscaled => Some(1.0),
            },
            radius: config
                .clip_radius
                .map_or(f32::INFINITY, |radius| radius as f32),
            lr: if config.rescale_lr { lr * total } else { lr } as f32,
        }
    }

    /// The step whose last sample is `grads`.
    fn advance_last(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        source: Source<'_>,
        state: &mut State,
    ) -> StepReport {
        if self.config.mc_samples == 1 {
            return self.advance_one(executor, lr, params, grads, source, state);
        }
        if let Some(sampler) = &mut state.sampler {
            self.fold(executor, grads, source, sampler);
        }
        self.advance_means(executor, lr, params, state)
    }

    /// The step of a single sample: noise, product and update in one pass.
    fn advance_one(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        source: Source<'_>,
        state: &mut State,
    ) -> StepReport {
        let kernel = OneKernel {
            product: self.product(source),
            constants: self.constants(lr, state),
        };
        let tally = executor.sweep(
            &kernel,
            Span {
                first: state.sampler.as_ref().map_or(0, |sampler| sampler.first),
                theta: params,
                gradient: grads,
                second: &[],
                momentum: &mut state.momentum,
                curvature: &mut state.curvature,
                envelope: &mut [],
            },
        );
        self.close(state);
        finish(state, params.len(), tally)
    }

    /// The step from the means over several samples.
    fn advance_means(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        state: &mut State,
    ) -> StepReport {
        let kernel = MeansKernel {
            constants: self.constants(lr, state),
        };
        let (gradient, second): (&[f32], &[f32]) = match &state.sampler {
            Some(sampler) => (&sampler.gradient_mean, &sampler.second_mean),
            None => (&[], &[]),
        };
        let tally = executor.sweep(
            &kernel,
            Span {
                first: 0,
                theta: params,
                gradient,
                second,
                momentum: &mut state.momentum,
                curvature: &mut state.curvature,
                envelope: &mut [],
            },
        );
        self.close(state);
        finish(state, params.len(), tally)
    }

    /// Forgets the samples of the step that was made.
    fn close(&self, state: &mut State) {
        if let Some(sampler) = &mut state.sampler {
            sampler.samples = 0;
            sampler.weight = 0.0;
        }
    }
}

impl Update for Ivon {
    fn id(&self) -> &'static str {
        "ivon"
    }

    fn state(&self, len: usize) -> State {
        self.state_at(len, 0)
    }

    fn coordinate(&self, theta: f64) -> Coordinate {
        Coordinate {
            theta,
            momentum: 0.0,
            curvature: self.config.hess_init,
            envelope: 0.0,
        }
    }

    fn step_scalar(&self, lr: f64, step: u64, gradient: f64, second: f64, x: &mut Coordinate) {
        let config = &self.config;
        let total = x.curvature + config.weight_decay;
        // f = N (h + δ) mean(n g), or N mean(g²)
        let estimate = match config.hessian {
            HessianEstimate::Price => (config.ess * total).sqrt() * second,
            HessianEstimate::SquaredGradient => config.ess * second,
            HessianEstimate::SquaredGradientUnscaled => second,
        };
        // m ← β₁ m + (1-β₁) mean g
        x.momentum = config.beta1 * x.momentum + (1.0 - config.beta1) * gradient;
        // h ← β₂ h + (1-β₂) f + ½ (1-β₂)² (h - f)² / (h + δ)
        let (rate, distance) = (1.0 - config.beta2, x.curvature - estimate);
        x.curvature = config.beta2 * x.curvature
            + rate * estimate
            + 0.5 * (rate * rate) * (distance * distance) / total;
        // θ ← θ - ρ' clip((m/(1-β₁ᵗ) + δ θ) / (h + δ), r)
        let correction = if config.debias {
            bias_correction(config.beta1, step)
        } else {
            1.0
        };
        let direction = (x.momentum / correction + config.weight_decay * x.theta)
            / (x.curvature + config.weight_decay);
        let radius = config.clip_radius.unwrap_or(f64::INFINITY);
        let lr = if config.rescale_lr {
            lr * (config.hess_init + config.weight_decay)
        } else {
            lr
        };
        x.theta -= lr * clip_scalar(direction, radius);
    }
}

impl sealed::Advance for Ivon {
    fn limit(&self) -> f32 {
        SQUARE_LIMIT
    }

    /// For a step that brings its last sample along.
    fn check_state(&self, state: &State) -> Result<()> {
        self.check_layout(state)?;
        self.check_no_pending(state)?;
        let (found, expected) = (self.sampler(state)?.samples, self.config.mc_samples - 1);
        if found == expected {
            Ok(())
        } else {
            Err(Error::SampleCount { found, expected })
        }
    }

    fn advance(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> StepReport {
        let (seed, sample) = state
            .sampler
            .as_ref()
            .map_or((0, 0), |sampler| (sampler.seed, sampler.samples));
        let source = Source::Key(NoiseKey {
            seed,
            step: state.step + 1,
            sample,
        });
        self.advance_last(executor, lr, params, grads, source, state)
    }
}

/// [`Noise`] after the state was looked at.
#[derive(Debug, Clone, Copy)]
enum Source<'a> {
    Key(NoiseKey),
    Given { z: &'a [f32], first: u64 },
}

impl Source<'_> {
    #[inline(always)]
    fn fill(&self, first: u64, out: &mut [f32]) {
        match *self {
            Self::Key(key) => fill_inline(key, first, out),
            Self::Given { z, first: origin } => {
                let start = (first - origin) as usize;
                out.copy_from_slice(&z[start..start + out.len()]);
            }
        }
    }
}

/// `z g` or `g²`.
#[derive(Debug, Clone, Copy)]
struct Product<'a> {
    source: Source<'a>,
    squared: bool,
}

impl Product<'_> {
    #[inline(always)]
    fn fill(&self, first: u64, gradient: &[f32], out: &mut [f32]) {
        if self.squared {
            out.copy_from_slice(gradient);
        } else {
            self.source.fill(first, out);
        }
        for (second, g) in out.iter_mut().zip(gradient) {
            *second *= *g;
        }
    }
}

/// `θ + z/√(N (h + δ))`.
#[derive(Debug, Clone, Copy)]
struct PerturbKernel<'a> {
    noise: Source<'a>,
    curvature: &'a [f32],
    first: u64,
    ess: f32,
    decay: f32,
}

impl Kernel for PerturbKernel<'_> {
    const BUFFERS: usize = 0;
    const SECOND: bool = true;
    const PREPARED: bool = true;
    const CHECKED: bool = false;
    const LIMIT: f32 = f32::MAX;

    #[inline(always)]
    fn update(&self, gradient: f32, second: f32, x: Point) -> (Point, Marks) {
        (
            Point {
                theta: gradient + second,
                ..x
            },
            Marks::default(),
        )
    }

    #[inline(always)]
    fn prepare(&self, first: u64, _gradient: &[f32], second: &mut [f32]) {
        self.noise.fill(first, second);
        let start = (first - self.first) as usize;
        for (n, h) in second.iter_mut().zip(&self.curvature[start..]) {
            *n /= (self.ess * (*h + self.decay)).sqrt();
        }
    }
}

/// Running mean: `x + share (g - x)`, or `g` if it is the first.
#[derive(Debug, Clone, Copy)]
struct MeanKernel {
    share: f32,
    is_first: bool,
}

impl MeanKernel {
    #[inline(always)]
    fn next(self, mean: f32, value: f32) -> f32 {
        let moved = mean + self.share * (value - mean);
        if self.is_first { value } else { moved }
    }
}

// Unusable gradients are let into the means: they make the mean unusable, and the step then skips the coordinate.
impl Kernel for MeanKernel {
    const BUFFERS: usize = 0;
    const SECOND: bool = false;
    const CHECKED: bool = false;
    const LIMIT: f32 = f32::MAX;

    #[inline(always)]
    fn update(&self, gradient: f32, _second: f32, x: Point) -> (Point, Marks) {
        (
            Point {
                theta: self.next(x.theta, gradient),
                ..x
            },
            Marks::default(),
        )
    }
}

/// Means of the gradient (in place of θ) and of the product (in place of the momentum).
#[derive(Debug, Clone, Copy)]
struct FoldKernel<'a> {
    product: Product<'a>,
    mean: MeanKernel,
}

impl Kernel for FoldKernel<'_> {
    const BUFFERS: usize = 1;
    const SECOND: bool = true;
    const PREPARED: bool = true;
    const CHECKED: bool = false;
    const LIMIT: f32 = f32::MAX;

    #[inline(always)]
    fn update(&self, gradient: f32, second: f32, x: Point) -> (Point, Marks) {
        let theta = self.mean.next(x.theta, gradient);
        let momentum = self.mean.next(x.momentum, second);
        (
            Point {
                theta,
                momentum,
                ..x
            },
            Marks::default(),
        )
    }

    #[inline(always)]
    fn prepare(&self, first: u64, gradient: &[f32], second: &mut [f32]) {
        self.product.fill(first, gradient, second);
    }
}

#[derive(Debug, Clone, Copy)]
struct Constants {
    momentum: Average,
    /// 1 - β₂.
    rate: f32,
    correction: f32,
    decay: f32,
    ess: f32,
    /// What the second mean is multiplied by; none for √(N (h + δ)).
    fixed_scale: Option<f32>,
    radius: f32,
    lr: f32,
}

impl Constants {
    #[inline(always)]
    fn update(&self, gradient: f32, second: f32, x: Point) -> (Point, Marks) {
        let total = x.curvature + self.decay;
        let scale = match self.fixed_scale {
            Some(scale) => scale,
            None => (self.ess * total).sqrt(),
        };
        let momentum = self.momentum.next(x.momentum, gradient);
        // With t = (1-β₂)(h - f): h ← h - t + ½ t²/(h + δ).
        let t = self.rate * (x.curvature - scale * second);
        let curvature = (x.curvature - t) + 0.5 * t * (t / total);
        let gap = curvature + self.decay;
        let direction = (momentum * self.correction + self.decay * x.theta) / gap;
        let (direction, clipped) = clip(direction, self.radius);
        let theta = x.theta - self.lr * direction;
        let marks = Marks {
            floored: false,
            gap_not_positive: gap <= 0.0,
            clipped,
        };
        (
            Point {
                theta,
                momentum,
                curvature,
                ..x
            },
            marks,
        )
    }
}

/// The update with means that lie in memory.
#[derive(Debug, Clone, Copy)]
struct MeansKernel {
    constants: Constants,
}

impl Kernel for MeansKernel {
    const BUFFERS: usize = 2;
    const SECOND: bool = true;
    const LIMIT: f32 = SQUARE_LIMIT;

    #[inline(always)]
    fn update(&self, gradient: f32, second: f32, x: Point) -> (Point, Marks) {
        self.constants.update(gradient, second, x)
    }
}

/// The update of a single sample.
#[derive(Debug, Clone, Copy)]
struct OneKernel<'a> {
    product: Product<'a>,
    constants: Constants,
}

impl Kernel for OneKernel<'_> {
    const BUFFERS: usize = 2;
    const SECOND: bool = true;
    const PREPARED: bool = true;
    const LIMIT: f32 = SQUARE_LIMIT;

    #[inline(always)]
    fn update(&self, gradient: f32, second: f32, x: Point) -> (Point, Marks) {
        self.constants.update(gradient, second, x)
    }

    #[inline(always)]
    fn prepare(&self, first: u64, gradient: &[f32], second: &mut [f32]) {
        self.product.fill(first, gradient, second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values worked out apart from this code: θ₀ = 0.7, gradients 0.3, -0.2, 0.5, noise 0.5, -1, 0.25.
    #[test]
    fn three_steps_by_hand() {
        let config = IvonConfig {
            hess_init: 0.5,
            beta2: 0.999,
            weight_decay: 2e-3,
            ..IvonConfig::new(100.0)
        };
        let rule = config.build().unwrap();
        let mut x = rule.coordinate(0.7);
        let data = [(0.3, 0.5), (-0.2, -1.0), (0.5, 0.25)];
        let theta = [0.639_787_540_49, 0.632_185_634_62, 0.590_537_823_62];
        let h = [0.500_563_094_83, 0.501_481_202_53, 0.501_866_824_00];
        for (t, (g, z)) in data.into_iter().enumerate() {
            rule.step_scalar(0.2, t as u64 + 1, g, z * g, &mut x);
            assert!((x.theta - theta[t]).abs() < 1e-11, "{}", x.theta);
            assert!((x.curvature - h[t]).abs() < 1e-11, "{}", x.curvature);
        }
    }

    #[test]
    fn fields_are_checked() {
        let good = IvonConfig::new(100.0);
        for (config, name) in [
            (IvonConfig::new(0.0), "ess"),
            (IvonConfig::new(f64::NAN), "ess"),
            (
                IvonConfig {
                    hess_init: 0.0,
                    ..good.clone()
                },
                "hess_init",
            ),
            (
                IvonConfig {
                    weight_decay: -1e-4,
                    ..good.clone()
                },
                "weight_decay",
            ),
            (
                IvonConfig {
                    beta1: 1.0,
                    ..good.clone()
                },
                "beta1",
            ),
            (
                IvonConfig {
                    beta2: f64::NAN,
                    ..good.clone()
                },
                "beta2",
            ),
            (
                IvonConfig {
                    mc_samples: 0,
                    ..good.clone()
                },
                "mc_samples",
            ),
            (
                IvonConfig {
                    clip_radius: Some(-1.0),
                    ..good.clone()
                },
                "clip_radius",
            ),
        ] {
            match config.build() {
                Err(Error::OutOfRange { field, .. }) => assert_eq!(field, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    /// A gradient that is linear in the weights has the same mean over micro-batches as over the whole batch, so the
    /// two ways to hand it in must agree; adding micro-batches as if each were a sample must not.
    #[test]
    fn micro_batches_are_one_sample() {
        const LEN: usize = 100;
        let executor = Executor::single();
        for hessian in [HessianEstimate::Price, HessianEstimate::SquaredGradient] {
            for mc_samples in [1, 2] {
                let whole = IvonConfig {
                    hessian,
                    mc_samples,
                    beta2: 0.9,
                    ..IvonConfig::new(50.0)
                };
                let parts = IvonConfig {
                    micro_batches: true,
                    ..whole.clone()
                }
                .build()
                .unwrap();
                let whole = whole.build().unwrap();
                let (mut theta, mut theta_parts) = (vec![0.5; LEN], vec![0.5; LEN]);
                let mut state = whole.state(LEN);
                let mut state_parts = parts.state(LEN);
                let mut point = vec![0.0; LEN];
                for step in 0..4 {
                    for sample in 0..mc_samples {
                        whole
                            .perturb(&executor, &theta, &state, Noise::Current, &mut point)
                            .unwrap();
                        // Three and one examples, with gradients w and w - 4: the mean is w - 1.
                        let first: Vec<f32> = point.to_vec();
                        let second: Vec<f32> = point.iter().map(|w| w - 4.0).collect();
                        let mean: Vec<f32> = point.iter().map(|w| w - 1.0).collect();
                        parts
                            .add_micro_batch(&executor, &first, 3.0, &mut state_parts)
                            .unwrap();
                        parts
                            .add_micro_batch(&executor, &second, 1.0, &mut state_parts)
                            .unwrap();
                        if sample + 1 < mc_samples {
                            whole
                                .add_sample(&executor, &mean, Noise::Current, &mut state)
                                .unwrap();
                            parts
                                .end_sample(&executor, Noise::Current, &mut state_parts)
                                .unwrap();
                        } else {
                            whole.step(0.1, &mut theta, &mean, &mut state).unwrap();
                            parts
                                .apply(&executor, 0.1, &mut theta_parts, &mut state_parts)
                                .unwrap();
                        }
                    }
                    assert_eq!(state.steps(), step + 1);
                    for (a, b) in theta.iter().zip(&theta_parts) {
                        assert!((a - b).abs() < 1e-5, "{a} {b}");
                    }
                    for (a, b) in state.curvature().iter().zip(state_parts.curvature()) {
                        assert!((a - b).abs() < 1e-4 * a.abs().max(1.0), "{a} {b}");
                    }
                    theta_parts.copy_from_slice(&theta);
                    state_parts.momentum.copy_from_slice(&state.momentum);
                    state_parts.curvature.copy_from_slice(&state.curvature);
                }
            }
        }
    }

    #[test]
    fn samples_are_counted() {
        let rule = IvonConfig {
            mc_samples: 3,
            ..IvonConfig::new(10.0)
        }
        .build()
        .unwrap();
        let executor = Executor::single();
        let mut state = rule.state(2);
        let mut params = [0.0; 2];
        let early = rule
            .apply(&executor, 0.1, &mut params, &mut state)
            .unwrap_err();
        assert_eq!(
            early,
            Error::SampleCount {
                found: 0,
                expected: 3
            }
        );
        let early = rule
            .step(0.1, &mut params, &[1.0; 2], &mut state)
            .unwrap_err();
        assert_eq!(
            early,
            Error::SampleCount {
                found: 0,
                expected: 2
            }
        );
        for sample in 0..3 {
            assert_eq!(
                rule.noise_key(&state).unwrap(),
                NoiseKey {
                    seed: 0,
                    step: 1,
                    sample
                }
            );
            assert_eq!(
                rule.add_sample(&executor, &[1.0; 2], Noise::Current, &mut state),
                Ok(true)
            );
        }
        assert!(
            rule.add_sample(&executor, &[1.0; 2], Noise::Current, &mut state)
                .is_err()
        );
        assert_eq!(
            rule.apply(&executor, 0.1, &mut params, &mut state)
                .unwrap()
                .step,
            1
        );
        assert_eq!(
            rule.noise_key(&state).unwrap(),
            NoiseKey {
                seed: 0,
                step: 2,
                sample: 0
            }
        );
    }

    /// The law behind the correction term: `h + δ` stays positive whatever the estimate is.
    #[test]
    fn curvature_stays_positive() {
        let config = IvonConfig {
            beta2: 0.3,
            hess_init: 0.1,
            ..IvonConfig::new(1e4)
        };
        let rule = config.build().unwrap();
        let mut state = rule.state(1000);
        let mut params = vec![0.1; 1000];
        for t in 0..30 {
            let grads: Vec<f32> = (0..1000)
                .map(|i| ((i * 37 + t * 11) % 101 - 50) as f32)
                .collect();
            let report = rule.step(0.01, &mut params, &grads, &mut state).unwrap();
            assert_eq!((report.gap_not_positive, report.overflowed), (0, 0));
        }
    }

    #[test]
    fn an_unusable_sample_spoils_only_its_coordinate() {
        let rule = IvonConfig {
            mc_samples: 2,
            ..IvonConfig::new(10.0)
        }
        .build()
        .unwrap();
        let executor = Executor::single().non_finite(crate::NonFinite::SkipCoordinates);
        let mut state = rule.state(3);
        let mut params = [1.0; 3];
        rule.add_sample(
            &executor,
            &[1.0, f32::INFINITY, 1.0],
            Noise::Current,
            &mut state,
        )
        .unwrap();
        rule.add_sample(&executor, &[1.0; 3], Noise::Current, &mut state)
            .unwrap();
        let report = rule.apply(&executor, 0.1, &mut params, &mut state).unwrap();
        assert_eq!(report.skipped_coordinates, 1);
        assert_eq!((params[1], state.momentum()[1]), (1.0, 0.0));
        assert!(params[0] != 1.0 && params[2] != 1.0);
        // The next step is whole again.
        rule.add_sample(&executor, &[1.0; 3], Noise::Current, &mut state)
            .unwrap();
        rule.add_sample(&executor, &[1.0; 3], Noise::Current, &mut state)
            .unwrap();
        assert_eq!(
            rule.apply(&executor, 0.1, &mut params, &mut state)
                .unwrap()
                .skipped_coordinates,
            0
        );
    }
}
