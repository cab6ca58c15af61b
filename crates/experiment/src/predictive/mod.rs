//! From trained weights to class probabilities.
//!
//! | method | prediction | passes | needs |
//! |---|---|---|---|
//! | `point` | softmax of the logits at the weights; with `ivon` these are the mean of its distribution | 1 | |
//! | `ivon` | mean over samples of the weights ([`ivon`](Method::Ivon)) | samples | rule `ivon` and its state |
//! | `mc-dropout` | mean over dropout masks | passes | a network with dropout that stays on |
//! | `swag` | mean over samples of the weights ([`swag`]) | samples | a [`Swag`] with snapshots |
//! | `laplace` | softmax of logits that are tempered by their variance ([`laplace`]) | 1 | a [`Laplace`] fitted at these weights |
//!
//! Which rule trained the weights does not matter unless the table says so: CBOpt with Monte Carlo dropout is a CBOpt rule on a network with
//! dropout and `mc-dropout`. In a network with dropout that stays on, each sample of the weights has a mask of its own, and `point` is one pass
//! with one mask. Paper: Section 6, Appendices H and K.
//!
//! Costs: a pass is a forward pass over all images. Weights are sampled one at a time, so that besides the engine's own buffers (and, for
//! `mc-dropout`, its 64 MiB of transformed weights) there are 4 bytes per parameter, and 12 per image and class. All randomness is a
//! function of the seed, the number of the sample and the place of the image; the number of threads and how samples are taken
//! together change no bit.

mod error;
mod ivon;
pub mod laplace;
pub mod swag;

pub use error::{Error, Result};
pub use laplace::{Laplace, LaplaceConfig, LaplaceFit, LastLayer};
pub use swag::{Swag, SwagForm};

use cbopt::{Executor, Rule, State};
use engine::network::LayerKind;
use engine::{Network, Predictor, PredictorConfig};

use error::{check, check_length};

/// Step of the noise of predictions; training counts its steps from 1.
const PREDICTION_STEP: u64 = 0;
/// Images whose features are held at a time.
const IMAGES: usize = 4096;

/// A predictive method.
///
/// ```
/// use experiment::predictive::{Method, SwagForm};
/// let method = Method::Swag { samples: 64, form: SwagForm::LowRank };
/// assert_eq!((method.id(), method.passes()), ("swag", 64));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Method {
    /// One pass at the weights.
    Point,
    /// Mean over samples of IVON's distribution.
    Ivon {
        /// Samples of the weights, ≥ 1; the paper has 64.
        samples: u32,
    },
    /// Mean over dropout masks.
    McDropout {
        /// Passes, ≥ 1; the paper has 64.
        passes: u32,
    },
    /// Mean over samples of SWAG's distribution.
    Swag {
        /// Samples of the weights, ≥ 1; the paper has 64.
        samples: u32,
        /// How they are made.
        form: SwagForm,
    },
    /// The last layer's Laplace approximation, in closed form.
    Laplace(LaplaceConfig),
}

impl Method {
    /// Name in configs and records.
    pub fn id(&self) -> &'static str {
        match self {
            Self::Point => "point",
            Self::Ivon { .. } => "ivon",
            Self::McDropout { .. } => "mc-dropout",
            Self::Swag { .. } => "swag",
            Self::Laplace(_) => "laplace",
        }
    }

    /// Forward passes per image.
    pub fn passes(&self) -> usize {
        match *self {
            Self::Point | Self::Laplace(_) => 1,
            Self::Ivon { samples } | Self::Swag { samples, .. } => samples as usize,
            Self::McDropout { passes } => passes as usize,
        }
    }

    /// Whether every number is in its range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for the first that is not.
    pub fn check(&self) -> Result<()> {
        let (field, passes) = match self {
            Self::Laplace(config) => return config.check(),
            Self::McDropout { .. } => ("passes", self.passes()),
            _ => ("samples", self.passes()),
        };
        check(field, passes as f64, "1..", passes >= 1)
    }
}

/// What training left: the weights, and what the method needs besides.
///
/// ```
/// use experiment::predictive::Trained;
/// let weights = [0.5; 7];
/// assert!(Trained::new(&weights).swag.is_none());
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Trained<'a> {
    /// The weights, flat.
    pub parameters: &'a [f32],
    /// The rule that trained them and its state at these weights, for `ivon`.
    pub rule: Option<(&'a Rule, &'a State)>,
    /// The snapshots, for `swag`.
    pub swag: Option<&'a Swag>,
    /// The distribution fitted at these weights, for `laplace`.
    pub laplace: Option<&'a Laplace>,
}

impl<'a> Trained<'a> {
    /// Weights alone.
    pub fn new(parameters: &'a [f32]) -> Self {
        Self {
            parameters,
            rule: None,
            swag: None,
            laplace: None,
        }
    }
}

/// Predictions of one network by any method. Images are `[n, channels, height, width]`, row-major, any number of them.
///
/// ```
/// use engine::{Device, PredictorConfig, zoo};
/// use experiment::predictive::{Method, Predictive, Trained};
/// let net = zoo::lenet_dropout(10, 0.05)?;
/// let weights = net.initial_parameters(1);
/// let device = Device::cpu().threads(1);
/// let mut predictive = Predictive::new(&net, PredictorConfig { device, ..Default::default() })?;
/// let method = Method::McDropout { passes: 8 };
/// let p = predictive.predict(&method, &Trained::new(&weights), 7, &vec![0.5; 2 * 784])?;
/// assert_eq!(p.len(), 2 * 10);
/// assert!((p[..10].iter().sum::<f32>() - 1.0).abs() < 1e-5);
/// # Ok::<(), experiment::predictive::Error>(())
/// ```
#[derive(Debug)]
pub struct Predictive {
    network: Network,
    engine: Predictor,
    /// Seed of the masks of dropout that stays on, as last used; features are taken with it.
    masks: u64,
    executor: Executor,
    stays_random: bool,
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
            masks: 0,
            executor: Executor::single(),
            stays_random: stays_random(network),
        })
    }

    /// Class probabilities `[n, classes]`.
    ///
    /// The seed matters to methods that sample and to networks with dropout that stays on. Masks go by the place of an image in
    /// `images`, so one set of images is one call.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a method outside its ranges, [`Error::Missing`] or [`Error::Unsuited`] if network or weights lack what it needs,
    /// [`Error::Length`] or [`Error::Engine`] for slices that do not fit the network.
    pub fn predict(
        &mut self,
        method: &Method,
        trained: &Trained<'_>,
        seed: u64,
        images: &[f32],
    ) -> Result<Vec<f32>> {
        method.check()?;
        let id = method.id();
        let missing = |needs| Error::Missing { method: id, needs };
        let parameters = trained.parameters;
        match *method {
            Method::Point => self.point(parameters, seed, images),
            Method::Ivon { samples } => {
                let rule = trained.rule;
                let (rule, state) = rule.ok_or_else(|| missing("the rule ivon and its state"))?;
                ivon::check_rule(rule)?;
                self.mean_of_samples(samples, seed, images, |executor, sample, out| {
                    ivon::sample_into(executor, (rule, state), parameters, seed, sample, out)
                })
            }
            Method::McDropout { passes } => self.mc_dropout(parameters, passes, seed, images),
            Method::Swag { samples, form } => {
                let swag = trained.swag.ok_or_else(|| missing("a SWAG collector"))?;
                check_length(
                    "SWAG collector",
                    swag.parameters(),
                    self.network.parameter_count(),
                )?;
                self.mean_of_samples(samples, seed, images, |_, sample, out| {
                    swag.sample_into(form, seed, sample, out)
                })
            }
            Method::Laplace(_) => {
                let laplace = trained
                    .laplace
                    .ok_or_else(|| missing("a fitted Laplace approximation"))?;
                self.laplace(laplace, parameters, images)
            }
        }
    }

    /// Adds training images to a Laplace approximation at these weights.
    ///
    /// # Errors
    /// [`Error::Unsuited`] if the fit is of another layer; [`Error::Engine`], [`Error::Length`], [`Error::NotFinite`] or [`Error::Label`] for data
    /// that do not fit.
    pub fn add_features(
        &mut self,
        fit: &mut LaplaceFit,
        parameters: &[f32],
        images: &[f32],
        labels: &[u32],
    ) -> Result<()> {
        let size = self.network.input_shape().len();
        check_length("images", images.len(), labels.len() * size)?;
        self.check_layer(fit.layer(), parameters)?;
        for (images, labels) in images.chunks(IMAGES * size).zip(labels.chunks(IMAGES)) {
            let features = self.engine.features(parameters, self.masks, images)?;
            fit.add(&features, labels)?;
        }
        Ok(())
    }

    /// Fits a Laplace approximation at these weights to training images. For images in parts, see [`Predictive::add_features`].
    ///
    /// # Errors
    /// As [`Predictive::add_features`] and [`LaplaceFit::finish`].
    pub fn fit_laplace(
        &mut self,
        config: &LaplaceConfig,
        parameters: &[f32],
        images: &[f32],
        labels: &[u32],
    ) -> Result<Laplace> {
        config.check()?;
        let mut fit = LaplaceFit::new(LastLayer::of(&self.network, parameters)?);
        self.add_features(&mut fit, parameters, images, labels)?;
        fit.finish(config)
    }

    fn point(&mut self, parameters: &[f32], seed: u64, images: &[f32]) -> Result<Vec<f32>> {
        self.masks = seed;
        Ok(self.engine.probabilities(parameters, seed, images)?)
    }

    /// The same weights many times: the engine takes another mask for each.
    fn mc_dropout(
        &mut self,
        parameters: &[f32],
        passes: u32,
        seed: u64,
        images: &[f32],
    ) -> Result<Vec<f32>> {
        if !self.stays_random {
            return Err(Error::Unsuited {
                method: "mc-dropout",
                problem: format!(
                    "needs a network with dropout that stays on, such as lenet-dropout, but '{}' has none",
                    self.network.name()
                ),
            });
        }
        self.masks = seed;
        let weights = vec![parameters; passes as usize];
        Ok(self.engine.mean_probabilities(&weights, seed, images)?)
    }

    /// Mean over samples of the weights that `make(executor, number, weights)` writes one after another.
    fn mean_of_samples(
        &mut self,
        samples: u32,
        seed: u64,
        images: &[f32],
        make: impl Fn(&Executor, u32, &mut [f32]) -> Result<()>,
    ) -> Result<Vec<f32>> {
        let mut weights = vec![0.0; self.network.parameter_count()];
        let mut sum = Vec::new();
        for sample in 0..samples {
            make(&self.executor, sample, &mut weights)?;
            self.masks = seed_of_sample(seed, sample);
            let p = self.engine.probabilities(&weights, self.masks, images)?;
            sum.resize(p.len(), 0.0f64);
            sum.iter_mut().zip(p).for_each(|(s, p)| *s += f64::from(p));
        }
        let count = f64::from(samples);
        Ok(sum.into_iter().map(|s| (s / count) as f32).collect())
    }

    fn laplace(
        &mut self,
        laplace: &Laplace,
        parameters: &[f32],
        images: &[f32],
    ) -> Result<Vec<f32>> {
        self.check_layer(laplace.layer(), parameters)?;
        let size = self.network.input_shape().len();
        let mut all = Vec::new();
        for images in images.chunks(IMAGES * size) {
            let features = self.engine.features(parameters, self.masks, images)?;
            let p = laplace.probabilities(&features)?;
            all.extend(p.into_iter().map(|p| p as f32));
        }
        Ok(all)
    }

    /// A fit belongs to one set of weights.
    fn check_layer(&self, layer: &LastLayer, parameters: &[f32]) -> Result<()> {
        if *layer == LastLayer::of(&self.network, parameters)? {
            return Ok(());
        }
        Err(Error::Unsuited {
            method: "laplace",
            problem: "was fitted at other weights than these".into(),
        })
    }
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
    seed ^ u64::from(sample).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
