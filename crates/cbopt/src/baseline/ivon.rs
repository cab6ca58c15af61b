//! `ivon`, improved variational online Newton: a normal distribution over the weights, learned from
//! gradients at samples.
//!
//! ```text
//! for each of K samples: z ~ N(0, I),  n = z / √(N (h + δ)),  g = ∇ℓ(θ + n), averaged over the batch
//! m ← β₁ m + (1-β₁) mean g
//! f = N (h + δ) mean(n g)  (price)   or   N mean(g²)  (squared gradient)
//! h ← β₂ h + (1-β₂) f + ½ (1-β₂)² (h - f)² / (h + δ)      (old h on the right; keeps h + δ > 0)
//! θ ← θ - ρ' clip((m/(1-β₁ᵗ) + δ θ) / (h + δ), r)         (new h; ρ' = ρ (h₀ + δ) with rescaling)
//! ```
//!
//! `h` starts at h₀ and is not bias-corrected. Since `N (h + δ) n = √(N (h + δ)) z`, the product is
//! gathered as `mean(z g)`, which does not depend on `h`.
//!
//! The noise is a function of (seed, step, sample, coordinate), see [`crate::noise`]: it is never
//! stored, and the perturbed weights live in a buffer of their own, so θ itself is never perturbed.
//! An [`crate::Optimizer`] takes the samples in turn; micro-batches of one sample share one
//! perturbation, and their gradients are averaged (by weight) before they are multiplied by the
//! noise or squared.

use serde::{Deserialize, Serialize};

use crate::error::{
    Error, Result, check, check_length, check_nonnegative, check_positive, check_radius, check_rate,
};
use crate::executor::{Executor, StepReport};
use crate::kernel::{Kernel, Marks, Point, Span};
use crate::noise::{NoiseKey, fill_inline};
use crate::rule::Constants;
use crate::state::{Gathered, State};
use crate::update::{
    Average, Coordinate, SQUARE_LIMIT, Update, bias_correction, check_state, clip, clip_scalar,
    finish, sealed,
};

/// How the diagonal Hessian is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HessianEstimate {
    /// `N (h + δ) mean(n g)`, Price's theorem: that of the authors' code; the paper names none.
    Price,
    /// `N mean(g²)`.
    SquaredGradient,
    /// `mean(g²)`: the variant of the authors' released code.
    SquaredGradientUnscaled,
}

/// Hyper-parameters of `ivon`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IvonConfig {
    /// Effective sample size N > 0, usually the number of training examples. No default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ess: Option<f64>,
    /// Initial curvature h₀ > 0. Default 1; the paper uses 0.5.
    pub hess_init: f64,
    /// Weight decay, the prior precision δ ≥ 0. Default 1e-4.
    pub weight_decay: f64,
    /// Rate of the first moment, β₁ in `[0, 1)`. Default 0.9.
    pub beta1: f64,
    /// Rate of the curvature average, β₂ in `[0, 1)`. Default 0.99999.
    pub beta2: f64,
    /// Monte Carlo samples per step, K in `1..=100`: a step takes a gradient at each, and is not
    /// interrupted. Default 1.
    pub mc_samples: u32,
    /// Default: price.
    pub hessian: HessianEstimate,
    /// Clips the preconditioned step to `[-r, r]`, r > 0. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_radius: Option<f64>,
    /// Multiplies the learning rate by `h₀ + δ`. Default on.
    pub rescale_lr: bool,
    /// Divides the first moment by `1 - β₁ᵗ`. Default on.
    pub debias: bool,
    /// Seed of the noise; no part of a config file. Default 0.
    #[serde(skip)]
    pub seed: u64,
}

impl Default for IvonConfig {
    fn default() -> Self {
        Self {
            ess: None,
            hess_init: 1.0,
            weight_decay: 1e-4,
            beta1: 0.9,
            beta2: 0.99999,
            mc_samples: 1,
            hessian: HessianEstimate::Price,
            clip_radius: None,
            rescale_lr: true,
            debias: true,
            seed: 0,
        }
    }
}

impl IvonConfig {
    /// The defaults for an effective sample size.
    pub fn new(ess: f64) -> Self {
        Self {
            ess: Some(ess),
            ..Self::default()
        }
    }

    /// The rule.
    ///
    /// # Errors
    /// [`Error::Missing`] without an effective sample size, [`Error::OutOfRange`] for the first
    /// field outside its range.
    pub fn build(&self) -> Result<Ivon> {
        let ess = self.ess.ok_or(Error::Missing { field: "ess" })?;
        check_positive("ess", ess)?;
        check_positive("hess_init", self.hess_init)?;
        check_nonnegative("weight_decay", self.weight_decay)?;
        check_rate("beta1", self.beta1)?;
        check_rate("beta2", self.beta2)?;
        let samples = f64::from(self.mc_samples);
        check("mc_samples", samples, "1..=100", |k| {
            (1.0..=100.0).contains(&k)
        })?;
        check_radius("clip_radius", self.clip_radius)?;
        Ok(Ivon { config: *self, ess })
    }

    /// Learning rate as it multiplies the step.
    pub fn effective_lr(&self, lr: f64) -> f64 {
        if self.rescale_lr {
            lr * (self.hess_init + self.weight_decay)
        } else {
            lr
        }
    }

    /// What the first moment is divided by in this step, from 1.
    pub fn correction(&self, step: u64) -> f64 {
        if self.debias {
            bias_correction(self.beta1, step)
        } else {
            1.0
        }
    }
}

/// The rule `ivon`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ivon {
    config: IvonConfig,
    /// N.
    ess: f64,
}

impl Ivon {
    /// Its identifier.
    pub const ID: &'static str = "ivon";

    /// Its hyper-parameters.
    pub fn config(&self) -> &IvonConfig {
        &self.config
    }

    /// Effective sample size N.
    pub fn ess(&self) -> f64 {
        self.ess
    }

    /// Key of the noise that the next gradient belongs to.
    pub fn noise_key(&self, state: &State) -> NoiseKey {
        state.noise_key()
    }

    /// Writes one sample of the weights, `θ + z/√(N (h + δ))` with the noise of `key`, to `out`.
    ///
    /// # Errors
    /// [`Error::Length`] or [`Error::WrongRule`] if the arguments do not belong together.
    pub fn sample(
        &self,
        executor: &Executor,
        params: &[f32],
        state: &State,
        key: NoiseKey,
        out: &mut [f32],
    ) -> Result<()> {
        self.perturb(executor, params, state, Noise::Key(key), out)
    }

    /// The twin of [`Ivon::sample`]: one coordinate, in `f64`.
    pub fn perturb_scalar(&self, z: f64, x: &Coordinate) -> f64 {
        x.theta + z / (self.ess * (x.curvature + self.config.weight_decay)).sqrt()
    }

    fn perturb(
        &self,
        executor: &Executor,
        params: &[f32],
        state: &State,
        noise: Noise<'_>,
        out: &mut [f32],
    ) -> Result<()> {
        check_state(self, state)?;
        check_length("params", params.len(), state.len)?;
        check_length("out", out.len(), state.len)?;
        let kernel = PerturbKernel {
            noise,
            curvature: &state.curvature,
            ess: self.ess as f32,
            decay: self.config.weight_decay as f32,
        };
        executor.sweep(
            &kernel,
            Span {
                theta: out,
                gradient: params,
                ..Span::default()
            },
        );
        Ok(())
    }

    /// Adds the gradient of the current sample to the means over the samples.
    pub(crate) fn fold(&self, executor: &Executor, state: &mut State) {
        let noise = Noise::Key(state.noise_key());
        self.fold_with(executor, noise, &mut state.gathered);
    }

    fn fold_with(&self, executor: &Executor, noise: Noise<'_>, gathered: &mut Gathered) {
        gathered.samples += 1;
        gathered.weight = 0.0;
        let kernel = FoldKernel {
            product: Product {
                noise,
                squared: self.config.hessian != HessianEstimate::Price,
            },
            mean: MeanKernel {
                share: (1.0 / f64::from(gathered.samples)) as f32,
                is_first: gathered.samples == 1,
            },
        };
        executor.sweep(
            &kernel,
            Span {
                theta: &mut gathered.gradient_mean,
                gradient: &gathered.gradient,
                momentum: &mut gathered.second_mean,
                ..Span::default()
            },
        );
    }
}

impl Update for Ivon {
    fn id(&self) -> &'static str {
        Self::ID
    }

    fn step_scalar(&self, lr: f64, step: u64, gradient: f64, second: f64, x: &mut Coordinate) {
        let config = &self.config;
        let total = x.curvature + config.weight_decay;
        // f = N (h + δ) mean(n g), or N mean(g²)
        let estimate = match config.hessian {
            HessianEstimate::Price => (self.ess * total).sqrt() * second,
            HessianEstimate::SquaredGradient => self.ess * second,
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
        let corrected = x.momentum / config.correction(step);
        let direction =
            (corrected + config.weight_decay * x.theta) / (x.curvature + config.weight_decay);
        let radius = config.clip_radius.unwrap_or(f64::INFINITY);
        x.theta -= config.effective_lr(lr) * clip_scalar(direction, radius);
    }

    fn constants(&self, lr: f64, step: u64) -> Constants {
        let config = &self.config;
        Constants::Ivon(IvonConstants {
            samples: config.mc_samples,
            momentum: Average::new(config.beta1),
            rate: (1.0 - config.beta2) as f32,
            correction: (1.0 / config.correction(step)) as f32,
            decay: config.weight_decay as f32,
            ess: self.ess as f32,
            fixed_scale: match config.hessian {
                HessianEstimate::Price => None,
                HessianEstimate::SquaredGradient => Some(self.ess as f32),
                HessianEstimate::SquaredGradientUnscaled => Some(1.0),
            },
            radius: config
                .clip_radius
                .map_or(f32::INFINITY, |radius| radius as f32),
            lr: config.effective_lr(lr) as f32,
        })
    }
}

impl sealed::Started for Ivon {
    fn start(&self) -> sealed::Start {
        sealed::Start {
            momentum: Some(0.0),
            curvature: Some(self.config.hess_init),
            envelope: None,
            seed: Some(self.config.seed),
            samples: self.config.mc_samples,
        }
    }
}

/// What a step of `ivon` depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IvonConstants {
    /// K.
    pub samples: u32,
    /// β₁.
    pub momentum: Average,
    /// 1 - β₂.
    pub rate: f32,
    /// `1/(1-β₁ᵗ)`, or 1.
    pub correction: f32,
    /// δ.
    pub decay: f32,
    /// N.
    pub ess: f32,
    /// What the mean of `g²` is multiplied by; none for price, which multiplies the mean of `z g`
    /// by √(N (h + δ)).
    pub fixed_scale: Option<f32>,
    /// r, infinite without a clip.
    pub radius: f32,
    /// ρ'.
    pub lr: f32,
}

impl IvonConstants {
    /// Makes the step. `grads` is the gradient at the only sample, or the mean over the samples.
    pub(crate) fn advance(
        &self,
        executor: &Executor,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> StepReport {
        let noise = Noise::Key(state.noise_key());
        self.advance_with(executor, params, grads, noise, state)
    }

    fn advance_with(
        &self,
        executor: &Executor,
        params: &mut [f32],
        grads: &[f32],
        noise: Noise<'_>,
        state: &mut State,
    ) -> StepReport {
        let len = params.len();
        let span = Span {
            theta: params,
            gradient: grads,
            second: &state.gathered.second_mean,
            momentum: &mut state.momentum,
            curvature: &mut state.curvature,
            ..Span::default()
        };
        let tally = if self.samples > 1 {
            executor.sweep(&MeansKernel { constants: *self }, span)
        } else {
            // Noise, product and update in one pass.
            let product = Product {
                noise,
                squared: self.fixed_scale.is_some(),
            };
            let kernel = OneKernel {
                product,
                constants: *self,
            };
            executor.sweep(&kernel, span)
        };
        finish(state, len, tally)
    }

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

/// Where the standard normal numbers of a sample come from.
#[derive(Debug, Clone, Copy)]
enum Noise<'a> {
    /// The noise of a key.
    Key(NoiseKey),
    /// Given numbers, one per parameter: those of the reference trajectories.
    #[cfg_attr(not(test), allow(dead_code))]
    Given(&'a [f32]),
}

impl Noise<'_> {
    #[inline(always)]
    fn fill(&self, first: u64, out: &mut [f32]) {
        match *self {
            Self::Key(key) => fill_inline(key, first, out),
            Self::Given(z) => out.copy_from_slice(&z[first as usize..first as usize + out.len()]),
        }
    }
}

/// `z g` or `g²`.
#[derive(Debug, Clone, Copy)]
struct Product<'a> {
    noise: Noise<'a>,
    squared: bool,
}

impl Product<'_> {
    #[inline(always)]
    fn fill(&self, first: u64, gradient: &[f32], out: &mut [f32]) {
        if self.squared {
            out.copy_from_slice(gradient);
        } else {
            self.noise.fill(first, out);
        }
        for (second, g) in out.iter_mut().zip(gradient) {
            *second *= *g;
        }
    }
}

/// `θ + z/√(N (h + δ))`.
#[derive(Debug, Clone, Copy)]
struct PerturbKernel<'a> {
    noise: Noise<'a>,
    curvature: &'a [f32],
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
        for (n, h) in second.iter_mut().zip(&self.curvature[first as usize..]) {
            *n /= (self.ess * (*h + self.decay)).sqrt();
        }
    }
}

/// Running mean: `x + share (g - x)`, or `g` if it is the first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeanKernel {
    pub share: f32,
    pub is_first: bool,
}

impl MeanKernel {
    #[inline(always)]
    fn next(self, mean: f32, value: f32) -> f32 {
        let moved = mean + self.share * (value - mean);
        if self.is_first { value } else { moved }
    }
}

// Unusable gradients are let into the means: they make the mean unusable, and the step then skips
// the coordinate.
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

/// The update with means that lie in memory.
#[derive(Debug, Clone, Copy)]
struct MeansKernel {
    constants: IvonConstants,
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
    constants: IvonConstants,
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
    use crate::error::assert_refused;

    /// Values worked out apart from this code: θ₀ = 0.7, gradients 0.3, -0.2, 0.5, noise 0.5, -1,
    /// 0.25.
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
        assert_refused(
            IvonConfig::new(100.0),
            |config| config.build().map(|_| ()),
            &[
                ("ess", |c| c.ess = Some(0.0)),
                ("ess", |c| c.ess = Some(f64::NAN)),
                ("hess_init", |c| c.hess_init = 0.0),
                ("weight_decay", |c| c.weight_decay = -1e-4),
                ("beta1", |c| c.beta1 = 1.0),
                ("beta2", |c| c.beta2 = f64::NAN),
                ("mc_samples", |c| c.mc_samples = 0),
                ("mc_samples", |c| c.mc_samples = 101),
                ("clip_radius", |c| c.clip_radius = Some(-1.0)),
            ],
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

    /// Reference trajectories, `golden/optimizers/ivon.json`, with the noise of the reference.
    #[test]
    fn golden_trajectories() {
        /// A dozen elementwise steps in `f32`.
        const TOLERANCE: f64 = 1e-5;
        let cases = golden::cases("optimizers/ivon.json");
        for (case, isa) in cases.iter().flat_map(|case| {
            crate::Isa::available()
                .into_iter()
                .map(move |isa| (case, isa))
        }) {
            let config = golden::optimizers::hyper_parameters(case);
            let config: IvonConfig = serde_json::from_value(config).unwrap();
            let rule = config.build().unwrap();
            let executor = Executor::single().isa(isa);
            let mut params = golden::singles(&case["theta0"]);
            let mut sampled = params.clone();
            let mut state = rule.state(params.len());
            let mut courses: [golden::optimizers::Course; 4] = Default::default();
            for (t, lr, want) in golden::optimizers::steps(case) {
                let what = format!("{}, {}, step {t}", case["name"], isa.name());
                let Constants::Ivon(constants) = rule.constants(lr, t as u64 + 1) else {
                    panic!("the rule is ivon")
                };
                for k in 0..config.mc_samples as usize {
                    let z = golden::singles(&case["z"][t][k]);
                    let noise = Noise::Given(&z);
                    rule.perturb(&executor, &params, &state, noise, &mut sampled)
                        .unwrap();
                    courses[3].assert_close(&what, &sampled, &want["sampled"][k], TOLERANCE);
                    state.gathered.gradient = golden::singles(&case["grads"][t][k]);
                    if config.mc_samples > 1 {
                        rule.fold_with(&executor, noise, &mut state.gathered);
                    }
                }
                let gathered = &mut state.gathered;
                let (grads, z) = if config.mc_samples > 1 {
                    (gathered.gradient_mean.clone(), Vec::new())
                } else {
                    (gathered.gradient.clone(), golden::singles(&case["z"][t][0]))
                };
                let noise = Noise::Given(&z);
                constants.advance_with(&executor, &mut params, &grads, noise, &mut state);
                let vectors = [
                    ("theta", &params),
                    ("m", &state.momentum),
                    ("h", &state.curvature),
                ];
                for ((key, got), course) in vectors.into_iter().zip(&mut courses) {
                    course.assert_close(&format!("{what}, {key}"), got, &want[key], TOLERANCE);
                }
            }
        }
    }
}
