//! From trained weights to class probabilities.
//!
//! | method | prediction | passes | needs |
//! |---|---|---|---|
//! | `point` | softmax of the logits at the weights; with `ivon` these are the mean of its distribution | 1 | |
//! | `ivon` | mean over samples of the weights ([`ivon`](Method::Ivon)) | samples | rule `ivon` and its state |
//! | `mc-dropout` | mean over dropout masks | passes | a network with dropout that stays on |
//! | `swag` | mean over samples of the weights ([`swag`]) | samples | a [`Swag`] with snapshots |
//! | `laplace` | softmax of logits that are tempered by their variance ([`laplace`]) | 1 | a [`Laplace`] fitted at these weights |
//! | `possibilistic` | as `point`, and bounds of what the weights allow ([`possibilistic`]) | 1, and one backward per class | the rule, its state where its precisions are there |
//!
//! Which rule trained the weights does not matter unless the table says so: CBOpt with Monte Carlo
//! dropout is a CBOpt rule on a network with dropout and `mc-dropout`. In a network with dropout
//! that stays on, each sample of the weights has its own mask, and `point` is one pass with one
//! mask. Paper: Section 6, Appendices H and K.
//!
//! Costs: a pass is a forward pass over all images. Weights are sampled one at a time on the
//! processor and 16 at a time on a GPU, so that besides the engine's own buffers (and, for
//! `mc-dropout`, its 64 MiB of transformed weights) there are 4 bytes per parameter of each, and 12
//! per image and class. All randomness is a function of the seed, the number of the sample and the
//! place of the image; the number of threads and how samples are taken together change no bit.
//!
//! A method is a file of this folder, a variant of [`Method`] and a line of its `approach`.

mod error;
mod ivon;
pub mod laplace;
mod mc_dropout;
mod point;
pub mod possibilistic;
mod saved;
pub mod swag;

use std::num::NonZero;
use std::sync::Arc;
use std::time::Instant;

use cbopt::{Executor, Rule, State};
use datasets::Augmentation;
use engine::network::LayerKind;
use engine::{Device, Input, Network, Predictor, PredictorConfig, Sample};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::RunConfig;
pub use error::{Error, Result};
use images::check;
pub use ivon::IvonSamples;
pub use laplace::{Laplace, LaplaceConfig, LaplaceFactors, LaplaceFit, LaplaceMethod, LastLayer};
pub use mc_dropout::McDropout;
pub use point::Point;
pub use possibilistic::{Allowed, AllowedImage, ClassBounds, Criterion, Factor, Possibilistic};
pub use swag::{Swag, SwagForm, SwagSamples};

/// Step of the noise of predictions; training counts its steps from 1.
const PREDICTION_STEP: u64 = 0;
/// Images whose features are held at a time.
const IMAGES: usize = 4096;
/// What methods need that take the state of the rule at the best weights: those of a run with
/// `[swag]` are SWAG's mean, to which the state does not belong.
const WITHOUT_SWAG: &str = "a run without the section [swag]";
/// Most samples of a prediction.
const MAX_SAMPLES: usize = 100_000;

/// A predictive method, as rows of a config name it.
///
/// ```
/// use experiment::predictive::{Method, SwagSamples};
/// let method = Method::Swag(SwagSamples { samples: 64, ..Default::default() });
/// assert_eq!((method.id(), method.passes()), ("swag", 64));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "predictive", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Method {
    /// One pass at the weights, or at IVON's mean weights.
    Point(Point),
    /// Mean over samples of IVON's distribution.
    Ivon(IvonSamples),
    /// Mean over dropout masks.
    McDropout(McDropout),
    /// Mean over samples of SWAG's distribution.
    Swag(SwagSamples),
    /// The last layer's Laplace approximation, in closed form.
    Laplace(LaplaceMethod),
    /// Bounds of what the weights still allow to be said, in closed form.
    Possibilistic(Possibilistic),
}

impl Method {
    fn approach(&self) -> &dyn Approach {
        match self {
            Self::Point(method) => method,
            Self::Ivon(method) => method,
            Self::McDropout(method) => method,
            Self::Swag(method) => method,
            Self::Laplace(method) => method,
            Self::Possibilistic(method) => method,
        }
    }

    /// Name in configs and records.
    pub fn id(&self) -> &'static str {
        self.approach().id()
    }

    /// Forward passes per image.
    pub fn passes(&self) -> usize {
        self.approach().passes()
    }

    /// What predicting an image of so many classes costs, in forward passes; roughly.
    pub(crate) fn cost(&self, classes: usize) -> f64 {
        self.approach().cost(classes)
    }

    /// Whether every number is in its range.
    ///
    /// # Errors
    /// [`Error::Input`] for the first that is not.
    pub fn check(&self) -> images::Result<()> {
        self.approach().check()
    }

    /// What the method needs that a run with this network does not have.
    pub(crate) fn needs(&self, run: &RunConfig, network: &Network) -> Option<&'static str> {
        self.approach().needs(run, network)
    }

    /// Whether it is fitted to images of the training set that nothing of the training replaces.
    pub(crate) fn takes_images(&self, trained: &Trained) -> bool {
        self.approach().takes_images(trained)
    }

    /// The method with what it chose when it was fitted, as the details in a record tell.
    pub(crate) fn settled(self, details: &Map<String, Value>) -> Self {
        match self {
            Self::Possibilistic(method) => Self::Possibilistic(method.settled(details)),
            other => other,
        }
    }

    /// Whether it takes the state of the run's rule.
    pub(crate) fn takes_state(&self, run: &RunConfig) -> bool {
        self.approach().takes_state(run)
    }
}

/// What every method answers, each in its own file.
trait Approach {
    /// Name in configs and records.
    fn id(&self) -> &'static str;

    /// Forward passes per image.
    fn passes(&self) -> usize {
        1
    }

    /// What predicting an image of so many classes costs, in forward passes; roughly.
    fn cost(&self, _classes: usize) -> f64 {
        self.passes() as f64
    }

    /// Whether every number is in its range.
    fn check(&self) -> images::Result<()> {
        let passes = self.passes();
        let allowed = (1..=MAX_SAMPLES).contains(&passes);
        check("samples", passes as f64, "1..=100000", allowed)
    }

    /// What the method needs that a run with this network does not have.
    fn needs(&self, run: &RunConfig, network: &Network) -> Option<&'static str>;

    /// Whether it is fitted to images of the training set that nothing of the training replaces.
    fn takes_images(&self, _: &Trained) -> bool {
        false
    }

    /// Whether it takes the state of the run's rule.
    fn takes_state(&self, _: &RunConfig) -> bool {
        false
    }

    /// All that predictions at these weights take.
    fn fit<'a>(
        &self,
        predictive: &mut Predictive,
        trained: &'a Trained,
        material: Material<'_>,
    ) -> Result<Box<dyn Fitted + 'a>>;
}

/// A method that has all it needs to predict.
pub trait Fitted {
    /// Class probabilities `[n, classes]`; call it through [`Predictive::predict`].
    ///
    /// # Errors
    /// As [`Predictive::predict`].
    fn predict(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
    ) -> Result<Vec<f32>>;

    /// Calls `take` with the logits `[n, classes]` of every pass, in order: the mean of their
    /// softmax is what [`Fitted::predict`] gives.
    ///
    /// # Errors
    /// As [`Predictive::predict`].
    fn logits(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
        take: &mut dyn FnMut(&[f64]),
    ) -> Result<()>;

    /// What the weights still allow to be said of the images; `None` for methods without bounds.
    ///
    /// # Errors
    /// As [`Predictive::predict`].
    fn allowed(&self, _: &Predictive, _seed: u64, _: Input<'_>) -> Result<Option<Allowed>> {
        Ok(None)
    }

    /// All bounds of all images; `None` for methods without bounds.
    ///
    /// # Errors
    /// As [`Predictive::predict`].
    fn bounds(&self, _: &Predictive, _seed: u64, _: Input<'_>) -> Result<Option<Vec<ClassBounds>>> {
        Ok(None)
    }

    /// What the record says of the fit.
    fn details(&self) -> Map<String, Value> {
        Map::new()
    }

    /// What it took from the training images, as a safetensors file, and what that is called.
    fn posterior(&self) -> Option<(&'static str, Vec<u8>)> {
        None
    }
}

/// What methods are fitted to; each takes what it needs.
#[derive(Debug, Clone, Copy)]
pub struct Material<'a> {
    /// What was trained on.
    pub training: Labeled<'a>,
    /// What was validated on.
    pub validation: Labeled<'a>,
    /// The rule that trained, and the number of images.
    pub rule: Option<(Rule, usize)>,
    /// How the training images are augmented, and by which seed, for methods that ask for it.
    pub augmentation: Option<(Augmentation, u64)>,
}

impl<'a> From<Labeled<'a>> for Material<'a> {
    /// Training images alone.
    fn from(training: Labeled<'a>) -> Self {
        Self {
            training,
            validation: Labeled::NONE,
            rule: None,
            augmentation: None,
        }
    }
}

/// Images and their labels, for methods that are fitted to them.
#[derive(Debug, Clone, Copy)]
pub struct Labeled<'a> {
    /// The images.
    pub images: Input<'a>,
    /// Their classes.
    pub labels: &'a [u32],
}

impl Labeled<'_> {
    /// No images.
    pub const NONE: Self = Labeled {
        images: Input::Floats(&[]),
        labels: &[],
    };
}

/// What a training left: the weights, and what belongs to them.
///
/// ```
/// use experiment::predictive::Trained;
/// assert!(Trained::new(vec![0.5; 7]).swag.is_none());
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// The weights, flat.
    pub parameters: Vec<f32>,
    /// The rule that trained them and its state at these weights; kept where training goes on from
    /// here or a row takes it.
    pub optimizer: Option<(Rule, State)>,
    /// SWAG's moments, where they are collected; shared, for they are large.
    pub swag: Option<Arc<Swag>>,
    /// What `laplace` takes from the training images, where it was fitted to them before.
    pub laplace: Option<Arc<LaplaceFactors>>,
}

impl Trained {
    /// Weights alone.
    pub fn new(parameters: Vec<f32>) -> Self {
        Self {
            parameters,
            optimizer: None,
            swag: None,
            laplace: None,
        }
    }
}

/// Predictions of one network by any method.
///
/// ```
/// use engine::{Device, PredictorConfig, zoo};
/// use experiment::predictive::{Labeled, McDropout, Method, Predictive, Trained};
/// let net = zoo::lenet_dropout(10, 0.05)?;
/// let trained = Trained::new(net.initial_parameters(1));
/// let device = Device::cpu().threads(1);
/// let mut predictive = Predictive::new(&net, PredictorConfig { device, ..Default::default() })?;
/// let method = Method::McDropout(McDropout { samples: 8 });
/// // only `laplace` is fitted to training images
/// let fitted = predictive.fit(&method, &trained, Labeled::NONE)?;
/// let p = predictive.predict(&*fitted, 7, &vec![0.5; 2 * 784])?;
/// assert_eq!(p.len(), 2 * 10);
/// assert!((p[..10].iter().sum::<f32>() - 1.0).abs() < 1e-5);
/// # Ok::<(), experiment::predictive::Error>(())
/// ```
#[derive(Debug)]
pub struct Predictive {
    network: Network,
    engine: Predictor,
    executor: Executor,
    stays_random: bool,
    device: Device,
    looks: possibilistic::Looks,
}

impl Predictive {
    /// Predictions of `network`.
    ///
    /// # Errors
    /// [`Error::Engine`] for a config outside its ranges.
    pub fn new(network: &Network, config: PredictorConfig) -> Result<Self> {
        Ok(Self {
            engine: config.build(network)?,
            network: network.clone(),
            executor: Executor::single(),
            stays_random: stays_random(network),
            device: config.device,
            looks: possibilistic::Looks::default(),
        })
    }

    /// Threads for what is computed on the processor, whatever the device.
    fn threads(&self) -> NonZero<usize> {
        NonZero::new(self.device.thread_count()).unwrap_or(NonZero::<usize>::MIN)
    }

    /// The method with all it needs to predict at these weights; of the material it takes what it
    /// needs.
    ///
    /// # Errors
    /// [`Error::Input`] for a method outside its ranges, [`Error::Missing`] or
    /// [`Error::Unsuited`] if network or weights lack what it needs,
    /// [`Error::Input`], [`Error::NotFinite`] or [`Error::Engine`] for what does not fit the
    /// network.
    pub fn fit<'a, 'm>(
        &mut self,
        method: &Method,
        trained: &'a Trained,
        material: impl Into<Material<'m>>,
    ) -> Result<Box<dyn Fitted + 'a>> {
        method.check()?;
        method.approach().fit(self, trained, material.into())
    }

    /// What the weights still allow to be said of the images; `None` for methods without bounds.
    ///
    /// # Errors
    /// As [`Predictive::predict`], or a bound whose numbers are beyond all range.
    pub fn allowed<'a>(
        &self,
        fitted: &dyn Fitted,
        seed: u64,
        images: impl Into<Input<'a>>,
    ) -> Result<Option<Allowed>> {
        fitted.allowed(self, seed, images.into())
    }

    /// Class probabilities `[n, classes]`.
    ///
    /// The seed matters to methods that sample and to networks with dropout that stays on. Masks go
    /// by the place of an image in `images`, so one set of images is one call.
    ///
    /// # Errors
    /// [`Error::Input`] or [`Error::Engine`] for slices that do not fit the network.
    pub fn predict<'a>(
        &mut self,
        fitted: &dyn Fitted,
        seed: u64,
        images: impl Into<Input<'a>>,
    ) -> Result<Vec<f32>> {
        fitted.predict(self, seed, images.into())
    }

    /// `-log p(label)` of the images at these places, from logits in `f64`: also where `p` is below
    /// all numbers of `f32`, and [`Predictive::predict`] gives 0. Costs the passes over these
    /// images, or over all of them where masks go by their place.
    ///
    /// # Errors
    /// As [`Predictive::predict`].
    ///
    /// # Panics
    /// If there are not as many labels as places, or one of them names no image or no class.
    pub fn log_losses<'a>(
        &mut self,
        fitted: &dyn Fitted,
        seed: u64,
        images: impl Into<Input<'a>>,
        places: &[usize],
        labels: &[u32],
    ) -> Result<Vec<f64>> {
        assert_eq!(places.len(), labels.len(), "a label for each place");
        let (images, classes) = (images.into(), self.network.classes());
        let (chosen, values);
        let (rows, images) = match images {
            _ if self.stays_random => (places.to_vec(), images),
            Input::Bytes {
                images,
                normalization,
                indices,
            } => {
                chosen = places.iter().map(|&at| indices[at]).collect::<Vec<_>>();
                let images = Input::bytes(images, normalization, &chosen);
                ((0..places.len()).collect(), images)
            }
            Input::Floats(_) => {
                values = take(images, self.network.input_shape().len(), places);
                ((0..places.len()).collect(), Input::Floats(&values))
            }
        };
        let mut passes = 0;
        // of every image: the smallest log loss of a pass, and Σ exp(smallest - log loss)
        let mut sums = vec![(f64::INFINITY, 0.0); rows.len()];
        fitted.logits(self, seed, images, &mut |logits| {
            passes += 1;
            for ((&row, &label), (smallest, sum)) in rows.iter().zip(labels).zip(&mut sums) {
                let row = &logits[row * classes..][..classes];
                let loss = evaluation::log_loss(row, label as usize);
                if loss < *smallest {
                    *sum = *sum * (loss - *smallest).exp() + 1.0;
                    *smallest = loss;
                } else if loss < f64::INFINITY {
                    *sum += (*smallest - loss).exp();
                }
            }
        })?;
        let mean = |(smallest, sum): (f64, f64)| smallest - (sum / f64::from(passes)).ln();
        Ok(sums.into_iter().map(mean).collect())
    }

    /// Seconds of a single pass at these weights, the least of a few.
    pub(crate) fn seconds_of_a_pass(
        &mut self,
        parameters: &[f32],
        images: Input<'_>,
    ) -> Result<f64> {
        let mut least = f64::INFINITY;
        for _ in 0..3 {
            let start = Instant::now();
            self.engine.probabilities(parameters, 0, images)?;
            least = least.min(start.elapsed().as_secs_f64());
        }
        Ok(least)
    }

    /// Whether two passes of the same weights differ: the network has dropout that stays on.
    pub fn is_random(&self) -> bool {
        self.stays_random
    }

    /// All bounds of all images; `None` for methods without bounds.
    ///
    /// # Errors
    /// As [`Predictive::allowed`].
    pub fn bounds<'a>(
        &self,
        fitted: &dyn Fitted,
        seed: u64,
        images: impl Into<Input<'a>>,
    ) -> Result<Option<Vec<ClassBounds>>> {
        fitted.bounds(self, seed, images.into())
    }

    /// Mean over samples of the weights that `make(executor, number, weights)` writes.
    fn mean_of_samples(
        &mut self,
        samples: usize,
        seed: u64,
        images: Input<'_>,
        make: impl Fn(&Executor, u32, &mut [f32]) -> Result<()>,
    ) -> Result<Vec<f32>> {
        let mut sum = Vec::new();
        self.of_samples(samples, seed, make, |engine, chosen| {
            Ok(engine.add_probabilities(chosen, images, &mut sum)?)
        })?;
        let count = samples as f64;
        Ok(sum.into_iter().map(|s| (s / count) as f32).collect())
    }

    /// Calls `take` with the logits of samples of the weights, one after the other.
    fn logits_of_samples(
        &mut self,
        (samples, seed): (usize, u64),
        images: Input<'_>,
        make: impl Fn(&Executor, u32, &mut [f32]) -> Result<()>,
        take: &mut dyn FnMut(&[f64]),
    ) -> Result<()> {
        self.of_samples(samples, seed, make, |engine, chosen| {
            for sample in chosen {
                let logits = engine.logits(sample.parameters, sample.seed, images)?;
                take(&wide(&logits));
            }
            Ok(())
        })
    }

    /// Makes samples of the weights by `make(executor, number, weights)` and hands them to `work`,
    /// some at a time.
    fn of_samples(
        &mut self,
        samples: usize,
        seed: u64,
        make: impl Fn(&Executor, u32, &mut [f32]) -> Result<()>,
        mut work: impl FnMut(&mut Predictor, &[Sample<'_>]) -> Result<()>,
    ) -> Result<()> {
        let together = self.engine.samples_together().min(samples);
        let mut weights = vec![vec![0.0; self.network.parameter_count()]; together];
        // the range of the samples was checked
        let numbers: Vec<u32> = (0..samples as u32).collect();
        for numbers in numbers.chunks(together) {
            for (&sample, weights) in numbers.iter().zip(&mut weights) {
                make(&self.executor, sample, weights)?;
            }
            let chosen = numbers.iter().zip(&weights);
            let chosen: Vec<Sample<'_>> = chosen
                .map(|(&sample, parameters)| Sample {
                    parameters,
                    seed: seed_of_sample(seed, sample),
                })
                .collect();
            work(&mut self.engine, &chosen)?;
        }
        Ok(())
    }
}

/// The same numbers as doubles.
fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}

/// How many images there are, of `size` numbers each.
fn count(images: Input<'_>, size: usize) -> usize {
    match images {
        Input::Floats(images) => images.len() / size,
        Input::Bytes { indices, .. } => indices.len(),
    }
}

/// The images at these places, as numbers.
fn take(images: Input<'_>, size: usize, places: &[usize]) -> Vec<f32> {
    match images {
        Input::Floats(values) => {
            let chosen = places
                .iter()
                .flat_map(|&at| &values[at * size..(at + 1) * size]);
            chosen.copied().collect()
        }
        Input::Bytes {
            images,
            normalization,
            indices,
        } => {
            let chosen: Vec<u32> = places.iter().map(|&at| indices[at]).collect();
            images.normalized_at(&chosen, normalization)
        }
    }
}

/// `Ok` for a finite number above zero.
fn check_positive(name: &'static str, value: f64) -> images::Result<()> {
    let allowed = value > 0.0 && value.is_finite();
    check(name, value, "(0, inf)", allowed)
}

/// Samples where a config does not say how many, as in the paper.
fn default_samples() -> usize {
    64
}

/// Whether two passes of the same weights differ.
fn stays_random(network: &Network) -> bool {
    let always_on = |kind: &LayerKind| {
        let LayerKind::Dropout { always_on, .. } = kind else {
            return false;
        };
        *always_on
    };
    network.layers().iter().any(|layer| always_on(&layer.kind))
}

/// Seed of the masks that go with a sample of the weights; the first has that of a single pass.
fn seed_of_sample(seed: u64, sample: u32) -> u64 {
    // Odd multiples of 2⁶⁴/φ are distinct; the engine mixes the bits.
    seed ^ u64::from(sample).wrapping_mul(random::GOLDEN)
}
