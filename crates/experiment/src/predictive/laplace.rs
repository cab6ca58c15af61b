//! Last-layer Laplace: the weights of the last layer as a normal distribution around where training
//! left them, its precision the Kronecker-factored Gauss-Newton matrix plus a prior precision δ.
//!
//! With φ the input of the last layer, `f = Wφ + b` and `p = softmax(f)`, over N training images:
//!
//! ```text
//! A = (1/N) Σ φφᵀ = V diag(a) Vᵀ          B = Σ (diag(p) - ppᵀ) = U diag(u) Uᵀ
//! precision of W:  B ⊗ A + δI              of b:  B + δI              (no terms between W and b)
//! log evidence(δ) = Σ log p(label) - ½ [ Σ log(uᵢaⱼ + δ) + Σ log(uᵢ + δ) - P log δ + δ(|W|² + |b|²) ]
//! variance of f(x):  U diag( Σⱼ (vⱼ·φ)²/(uᵢaⱼ + δ) + 1/(uᵢ + δ) ) Uᵀ
//! prediction:        softmax( f / √(1 + π/8 · variance of f) ), class by class
//! ```
//!
//! δ is chosen by Adam on `log δ`, ascending the log evidence; its slope is `½ [ Σ λ/(λ + δ) -
//! δ(|W|² + |b|²) ]` over the eigenvalues λ = uᵢaⱼ and uᵢ. Nothing is sampled. Paper: Section 6 and
//! Appendix H; there the prior precision is said to start at 0.54 or 9, while the authors' code
//! starts at 1, which is the default here; and it fits to augmented images, which is an option.
//!
//! Costs for C classes and D features: fitting takes O(D² + CD + C²) per training image and O(D³ +
//! C³) once, a step of Adam O(CD), a prediction D² for the products `vⱼ·φ` and O(CD) for the rest.
//! Memory: O(D² + CD + C²) numbers; the CD × CD matrix is never formed. All in `f64` and on one
//! thread: next to the network's own forward pass this is little.

use std::f64::consts::PI;

use datasets::Augmentation;
use engine::network::LayerKind;
use engine::{Input, Network};
use faer::linalg::matmul::{matmul, triangular};
use faer::{Accum, Mat, MatMut, MatRef, Par};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use images::{check, check_labels, check_length};

use super::error::{Error, Result, check_finite};
use super::saved::{Kind, Tensor};
use super::{
    Approach, Fitted, IMAGES, Labeled, Material, Predictive, Trained, check_positive, count,
    stays_random,
};
use crate::config::RunConfig;

/// Images that are worked on together.
const BLOCK: usize = 256;
/// Most steps of Adam.
const MAX_STEPS: usize = 1_000_000;

/// The method `laplace`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaplaceMethod {
    /// Prior precision > 0; by default the one of largest marginal likelihood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_precision: Option<f64>,
    /// Prior precision > 0 from which that of largest marginal likelihood is sought. Default 1, as
    /// in the authors' code; the paper's text names 0.54 for Fashion-MNIST and 9 for CIFAR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_precision: Option<f64>,
    /// Whether the training images are augmented once more for the fit, as in the authors' code.
    /// Default: they are taken as they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub augmented: bool,
}

impl LaplaceMethod {
    fn config(self) -> LaplaceConfig {
        match (self.prior_precision, self.initial_precision) {
            (Some(precision), _) => LaplaceConfig::fixed(precision),
            (None, start) => LaplaceConfig {
                prior_precision: start.unwrap_or(LaplaceConfig::default().prior_precision),
                ..LaplaceConfig::default()
            },
        }
    }
}

impl Approach for LaplaceMethod {
    fn id(&self) -> &'static str {
        "laplace"
    }

    fn check(&self) -> images::Result<()> {
        if let Some(start) = self.initial_precision {
            check_positive("initial_precision", start)?;
        }
        self.config().check()
    }

    fn needs(&self, run: &RunConfig, network: &Network) -> Option<&'static str> {
        if self.prior_precision.is_some() && self.initial_precision.is_some() {
            return Some("prior_precision or initial_precision, not both");
        }
        if self.augmented && !run.data.flip && run.data.pad == 0 {
            return Some("data.flip or data.pad to be augmented");
        }
        stays_random(network).then_some("a network without dropout")
    }

    fn takes_images(&self, trained: &Trained) -> bool {
        self.augmented || trained.laplace.is_none()
    }

    fn fit<'a>(
        &self,
        predictive: &mut Predictive,
        trained: &'a Trained,
        material: Material<'_>,
    ) -> Result<Box<dyn Fitted + 'a>> {
        let parameters = &trained.parameters;
        let laplace = match &trained.laplace {
            Some(factors) if !self.augmented => {
                let layer = LastLayer::of(&predictive.network, parameters)?;
                factors.finish(layer, &self.config())?
            }
            _ => {
                let seen = material.augmentation.filter(|_| self.augmented);
                predictive.fit_seen(&self.config(), parameters, material.training, seen)?
            }
        };
        Ok(Box::new(AtWeights {
            parameters,
            laplace,
            is_kept: !self.augmented,
        }))
    }
}

impl Predictive {
    /// Fits a Laplace approximation at these weights to training images.
    ///
    /// # Errors
    /// As [`LastLayer::of`], [`LaplaceFit::add`] and [`LaplaceFit::finish`]; [`Error::Engine`] for
    /// images that do not fit the network.
    pub fn fit_laplace(
        &mut self,
        config: &LaplaceConfig,
        parameters: &[f32],
        training: Labeled<'_>,
    ) -> Result<Laplace> {
        self.fit_seen(config, parameters, training, None)
    }

    /// [`Predictive::fit_laplace`] to images that are augmented, if told so, by this seed.
    fn fit_seen(
        &mut self,
        config: &LaplaceConfig,
        parameters: &[f32],
        training: Labeled<'_>,
        augmentation: Option<(Augmentation, u64)>,
    ) -> Result<Laplace> {
        config.check()?;
        let mut fit = LaplaceFit::new(LastLayer::of(&self.network, parameters)?);
        let size = self.network.input_shape().len();
        let Labeled { images, labels } = training;
        check_length("labels", labels.len(), count(images, size))?;
        for (images, labels) in chunks(images, size).zip(labels.chunks(IMAGES)) {
            let seen = augmentation.and_then(|how| augment(how, images, size));
            let images = seen.as_deref().map_or(images, Input::Floats);
            let features = self.engine.features(parameters, 0, images)?;
            fit.add(&features, labels)?;
        }
        fit.finish(config)
    }
}

/// The images, shifted and mirrored as in an epoch of training by this seed; `None` for numbers,
/// which are no pictures.
fn augment(
    (augmentation, seed): (Augmentation, u64),
    images: Input<'_>,
    size: usize,
) -> Option<Vec<f32>> {
    let Input::Bytes {
        images,
        normalization,
        indices,
    } = images
    else {
        return None;
    };
    let tables = normalization.tables();
    let mut pixels = vec![0.0; indices.len() * size];
    for (&index, out) in indices.iter().zip(pixels.chunks_exact_mut(size)) {
        let visit = augmentation.draw(seed, 0, index);
        visit.write(images, &tables, out);
    }
    Some(pixels)
}

/// The images in parts whose features can be held.
fn chunks(images: Input<'_>, size: usize) -> impl Iterator<Item = Input<'_>> {
    (0..count(images, size)).step_by(IMAGES).map(move |first| {
        let last = (first + IMAGES).min(count(images, size));
        match images {
            Input::Floats(images) => Input::Floats(&images[first * size..last * size]),
            Input::Bytes {
                images,
                normalization,
                indices,
            } => Input::bytes(images, normalization, &indices[first..last]),
        }
    })
}

/// A fitted distribution beside the weights it was fitted at.
struct AtWeights<'a> {
    parameters: &'a [f32],
    laplace: Laplace,
    /// Whether the run's folder keeps what it took from the training images: it has one place for
    /// it, that of a fit to the images as they are.
    is_kept: bool,
}

impl AtWeights<'_> {
    /// Calls `work` with the features of some images at a time.
    fn visit(
        &self,
        predictive: &mut Predictive,
        images: Input<'_>,
        mut work: impl FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        if *self.laplace.layer() != LastLayer::of(&predictive.network, self.parameters)? {
            return Err(Error::Unsuited {
                method: "laplace",
                problem: "was fitted at other weights than these".into(),
            });
        }
        let size = predictive.network.input_shape().len();
        for images in chunks(images, size) {
            work(&predictive.engine.features(self.parameters, 0, images)?)?;
        }
        Ok(())
    }
}

impl Fitted for AtWeights<'_> {
    fn predict(&self, predictive: &mut Predictive, _: u64, images: Input<'_>) -> Result<Vec<f32>> {
        let mut all = Vec::new();
        self.visit(predictive, images, |features| {
            let p = self.laplace.probabilities(features)?;
            all.extend(p.into_iter().map(|p| p as f32));
            Ok(())
        })?;
        Ok(all)
    }

    fn logits(
        &self,
        predictive: &mut Predictive,
        _: u64,
        images: Input<'_>,
        take: &mut dyn FnMut(&[f64]),
    ) -> Result<()> {
        let mut all = Vec::new();
        self.visit(predictive, images, |features| {
            all.extend(self.laplace.logits(features)?);
            Ok(())
        })?;
        take(&all);
        Ok(())
    }

    fn details(&self) -> Map<String, Value> {
        let precision = self.laplace.prior_precision();
        let mut details = Map::new();
        details.insert("prior_precision".into(), json!(precision));
        if let Ok(value) = self.laplace.log_marginal_likelihood(precision) {
            details.insert("log_marginal_likelihood".into(), json!(value));
        }
        details
    }

    fn posterior(&self) -> Option<(&'static str, Vec<u8>)> {
        self.is_kept
            .then(|| (FILE, self.laplace.factors().to_bytes()))
    }
}

/// How the prior precision is found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaplaceConfig {
    /// Prior precision δ > 0 to start from, or to stay with if there are no steps. Default 1.
    pub prior_precision: f64,
    /// Steps of Adam on `log δ`, `0..=1000000`. Default 100; it need not have converged by then.
    pub steps: usize,
    /// Rate of Adam, > 0. Default 0.1.
    pub lr: f64,
}

impl Default for LaplaceConfig {
    fn default() -> Self {
        Self {
            prior_precision: 1.0,
            steps: 100,
            lr: 0.1,
        }
    }
}

impl LaplaceConfig {
    /// This prior precision and no other.
    pub fn fixed(prior_precision: f64) -> Self {
        Self {
            prior_precision,
            steps: 0,
            ..Self::default()
        }
    }

    /// Whether every field is in its range.
    ///
    /// # Errors
    /// [`Error::Input`] for the first that is not.
    pub fn check(&self) -> images::Result<()> {
        check_precision(self.prior_precision)?;
        let steps = self.steps;
        check("steps", steps as f64, "0..=1000000", steps <= MAX_STEPS)?;
        check_positive("lr", self.lr)
    }
}

fn check_precision(value: f64) -> images::Result<()> {
    check_positive("prior_precision", value)
}

/// The last layer, `f = Wφ + b`.
#[derive(Debug, Clone, PartialEq)]
pub struct LastLayer {
    features: usize,
    /// `[classes, features]`, row-major.
    weight: Vec<f64>,
    bias: Option<Vec<f64>>,
    classes: usize,
}

impl LastLayer {
    /// From weights `[classes, features]`, row-major, and a bias `[classes]` where there is one.
    ///
    /// # Errors
    /// [`Error::Input`] without features or classes, the same or [`Error::NotFinite`]
    /// for slices that do not fit.
    pub fn new<T: Copy + Into<f64>>(
        features: usize,
        weight: &[T],
        bias: Option<&[T]>,
    ) -> Result<Self> {
        check("features", features as f64, "1..", features >= 1)?;
        let classes = weight.len() / features;
        check("classes", classes as f64, "1..", classes >= 1)?;
        check_length("weight", weight.len(), classes * features)?;
        check_finite("weight", weight)?;
        if let Some(bias) = bias {
            check_length("bias", bias.len(), classes)?;
            check_finite("bias", bias)?;
        }
        let wide = |values: &[T]| values.iter().map(|&v| v.into()).collect();
        Ok(Self {
            features,
            weight: wide(weight),
            bias: bias.map(wide),
            classes,
        })
    }

    /// The last layer of a network with these parameters.
    ///
    /// # Errors
    /// [`Error::Unsuited`] unless it is a linear one, and unless the features are the same at every
    /// pass; [`Error::Input`] for another number of parameters.
    pub fn of(network: &Network, parameters: &[f32]) -> Result<Self> {
        let unsuited = |problem: String| Error::Unsuited {
            method: "laplace",
            problem,
        };
        check_length("parameters", parameters.len(), network.parameter_count())?;
        if stays_random(network) {
            return Err(unsuited(format!(
                "needs features that stay the same, but '{}' has dropout that stays on",
                network.name()
            )));
        }
        let last = network.layers().last().map(|layer| &layer.kind);
        let Some(LayerKind::Linear { weight, bias }) = last else {
            let label = last.map_or("nothing", LayerKind::label);
            return Err(unsuited(format!(
                "needs a linear last layer, the one of '{}' is {label}",
                network.name()
            )));
        };
        let part = |index: usize| &parameters[network.parameters()[index].range()];
        let features = network.parameters()[*weight].shape[1];
        Self::new(features, part(*weight), bias.map(part))
    }

    /// Number of features D.
    pub fn features(&self) -> usize {
        self.features
    }

    /// Number of classes C.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Number of weights, the bias included.
    pub fn parameters(&self) -> usize {
        self.weight.len() + self.bias.as_ref().map_or(0, Vec::len)
    }

    fn square_norm(&self) -> f64 {
        let all = self.weight.iter().chain(self.bias.iter().flatten());
        all.map(|w| w * w).sum()
    }

    /// Rows of features in a slice of them.
    fn rows<T: Copy + Into<f64>>(&self, features: &[T]) -> Result<usize> {
        let count = features.len() / self.features;
        check_length("features", features.len(), count * self.features)?;
        check_finite("features", features)?;
        Ok(count)
    }

    /// Logits `[n, classes]` of features `[n, D]`, both row-major.
    fn logits_into(&self, features: MatRef<'_, f64>, out: &mut [f64]) {
        for row in out.chunks_mut(self.classes) {
            match &self.bias {
                Some(bias) => row.copy_from_slice(bias),
                None => row.fill(0.0),
            }
        }
        let weight = MatRef::from_row_major_slice(&self.weight, self.classes, self.features);
        let out = MatMut::from_row_major_slice_mut(out, features.nrows(), self.classes);
        matmul(out, Accum::Add, features, weight.transpose(), 1.0, Par::Seq);
    }
}

/// `f ← softmax(f)` and `log Σ exp(f)`.
fn softmax(row: &mut [f64]) -> f64 {
    let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for value in &mut *row {
        *value = (*value - top).exp();
        sum += *value;
    }
    row.iter_mut().for_each(|value| *value /= sum);
    top + sum.ln()
}

/// Gathers the factors A and B over the training images, in any number of parts.
///
/// The sums run over blocks of 256 images within a part, so that other parts give other last
/// digits, and nothing else does.
#[derive(Debug, Clone)]
pub struct LaplaceFit {
    layer: LastLayer,
    count: usize,
    log_likelihood: f64,
    /// `Σ φφᵀ`, lower half.
    gram: Mat<f64>,
    /// `Σ ppᵀ`, lower half.
    outer: Mat<f64>,
}

impl LaplaceFit {
    /// Before the first image.
    pub fn new(layer: LastLayer) -> Self {
        let (features, classes) = (layer.features, layer.classes);
        Self {
            layer,
            count: 0,
            log_likelihood: 0.0,
            gram: Mat::zeros(features, features),
            outer: Mat::zeros(classes, classes),
        }
    }

    /// Adds images by their features `[n, D]` and labels.
    ///
    /// # Errors
    /// [`Error::Input`] or [`Error::NotFinite`] for data that do not fit; then
    /// nothing changed.
    pub fn add<T: Copy + Into<f64>>(&mut self, features: &[T], labels: &[u32]) -> Result<()> {
        let (width, classes) = (self.layer.features, self.layer.classes);
        let rows = self.layer.rows(features)?;
        check_length("labels", labels.len(), rows)?;
        check_labels(labels, classes)?;
        let mut block = Vec::with_capacity(BLOCK * width);
        let mut probabilities = vec![0.0; BLOCK * classes];
        for (features, labels) in features.chunks(BLOCK * width).zip(labels.chunks(BLOCK)) {
            let rows = labels.len();
            block.clear();
            block.extend(features.iter().map(|&v| v.into()));
            let block = MatRef::from_row_major_slice(&block, rows, width);
            let p = &mut probabilities[..rows * classes];
            self.layer.logits_into(block, p);
            for (row, &label) in p.chunks_mut(classes).zip(labels) {
                let logit = row[label as usize];
                self.log_likelihood += logit - softmax(row);
            }
            add_gram(&mut self.gram, block);
            add_gram(
                &mut self.outer,
                MatRef::from_row_major_slice(p, rows, classes),
            );
        }
        self.count += rows;
        Ok(())
    }

    /// The layer it is about.
    pub fn layer(&self) -> &LastLayer {
        &self.layer
    }

    /// Images so far.
    pub fn images(&self) -> usize {
        self.count
    }

    /// The distribution: decomposes the factors and settles the prior precision.
    ///
    /// # Errors
    /// As [`LaplaceFactors::finish`].
    pub fn finish(&self, config: &LaplaceConfig) -> Result<Laplace> {
        self.factors().finish(self.layer.clone(), config)
    }

    /// What is known of the training images so far.
    pub fn factors(&self) -> LaplaceFactors {
        LaplaceFactors {
            images: self.count,
            log_likelihood: self.log_likelihood,
            features: self.feature_factor(),
            classes: self.class_factor(),
        }
    }

    /// Factor A of the features, `[D, D]`.
    pub fn feature_factor(&self) -> Vec<f64> {
        let (n, width) = (self.count.max(1) as f64, self.layer.features);
        let pairs = (0..width).flat_map(|i| (0..width).map(move |j| (i, j)));
        pairs
            .map(|(i, j)| self.gram[(i.max(j), i.min(j))] / n)
            .collect()
    }

    /// Factor B of the classes, `[C, C]`.
    ///
    /// Its rows sum to zero, so that the diagonal `Σ p(1-p)` is taken from the other entries, where
    /// nothing cancels.
    pub fn class_factor(&self) -> Vec<f64> {
        let classes = self.layer.classes;
        let mut factor = vec![0.0; classes * classes];
        for i in 0..classes {
            for j in (0..classes).filter(|&j| j != i) {
                let together = self.outer[(i.max(j), i.min(j))];
                factor[i * classes + j] = -together;
                factor[i * classes + i] += together;
            }
        }
        factor
    }
}

/// All that the distribution takes from the training images: with it and the weights nobody needs
/// them any more.
///
/// ```
/// use experiment::predictive::{LaplaceConfig, LaplaceFactors, LaplaceFit, LastLayer};
/// let layer = LastLayer::new(2, &[1.0, -1.0, -1.0, 1.0], Some(&[0.0, 0.0]))?;
/// let mut fit = LaplaceFit::new(layer.clone());
/// fit.add(&[1.0, 0.0, 0.0, 1.0, 0.8, 0.1], &[0, 1, 0])?;
/// let stored = LaplaceFactors::from_bytes(&fit.factors().to_bytes())?;
/// let config = LaplaceConfig::default();
/// let again = stored.finish(layer, &config)?.probabilities(&[1.0, 0.0])?;
/// assert_eq!(again, fit.finish(&config)?.probabilities(&[1.0, 0.0])?);
/// # Ok::<(), experiment::predictive::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LaplaceFactors {
    /// Number of images N.
    pub images: usize,
    /// `Σ log p(label)` over them.
    pub log_likelihood: f64,
    /// A, `[D, D]`.
    pub features: Vec<f64>,
    /// B, `[C, C]`.
    pub classes: Vec<f64>,
}

/// What the file of the factors is called after the name of the checkpoint.
pub(crate) const FILE: &str = "laplace";
/// The saved form.
const KIND: Kind = Kind {
    what: "Laplace",
    entry: "maxitive-laplace",
    version: 1,
};

/// What the header says beside the tensors.
#[derive(Serialize, Deserialize)]
struct Header {
    version: u64,
    images: usize,
}

impl LaplaceFactors {
    /// The distribution of a layer: decomposes the factors and settles the prior precision.
    ///
    /// # Errors
    /// [`Error::Input`] for a config outside its ranges, factors of another layer or a prior
    /// precision that ran out of the numbers, [`Error::Missing`] without images,
    /// [`Error::Eigenvalues`].
    pub fn finish(&self, layer: LastLayer, config: &LaplaceConfig) -> Result<Laplace> {
        config.check()?;
        let (width, classes) = (layer.features, layer.classes);
        check_length("factor of the features", self.features.len(), width * width)?;
        check_length(
            "factor of the classes",
            self.classes.len(),
            classes * classes,
        )?;
        if self.images == 0 {
            return Err(Error::Missing {
                method: "laplace",
                needs: "the features of at least one training image",
            });
        }
        let (feature_values, feature_vectors) = eigen("A", &self.features, width)?;
        let (class_values, class_vectors) = eigen("B", &self.classes, classes)?;
        let mut laplace = Laplace {
            layer,
            factors: self.clone(),
            feature_values,
            feature_vectors,
            class_values,
            class_vectors,
            prior_precision: config.prior_precision,
            variance_of_features: Mat::zeros(0, 0),
            variance_of_bias: Vec::new(),
        };
        let path = laplace.prior_precision_path(config)?;
        laplace.set_prior_precision(path.last().copied().unwrap_or(config.prior_precision))?;
        Ok(laplace)
    }

    /// The factors as a safetensors file: one header entry, and `F64` tensors `feature_factor`
    /// `[D, D]`, `class_factor` `[C, C]` and `log_likelihood` `[1]`.
    /// [`LaplaceFactors::from_bytes`] gives the same bits back.
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = Header {
            version: KIND.version,
            images: self.images,
        };
        let (width, classes) = (self.features.len().isqrt(), self.classes.len().isqrt());
        let tensors: [(_, _, &[f64]); 3] = [
            (FEATURES, vec![width; 2], &self.features),
            (CLASSES, vec![classes; 2], &self.classes),
            (LIKELIHOOD, vec![1], &[self.log_likelihood]),
        ];
        let tensors = tensors.map(|(name, shape, values)| {
            assert_eq!(shape.iter().product::<usize>(), values.len());
            (name.to_owned(), Tensor { shape, values })
        });
        KIND.to_bytes(&header, tensors.into())
    }

    /// The factors that [`LaplaceFactors::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::Malformed`] or [`Error::Version`] for bytes that are no such file,
    /// [`Error::NotFinite`] for numbers that are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (header, file): (Header, _) = KIND.open(bytes)?;
        let tensor = |name: &str, sides: usize| {
            file.tensor(name, |shape| {
                let is_even = shape.windows(2).all(|pair| pair[0] == pair[1]);
                shape.len() == sides && is_even
            })
        };
        let (features, classes) = (tensor(FEATURES, 2)?, tensor(CLASSES, 2)?);
        let likelihood = tensor(LIKELIHOOD, 1)?;
        check_finite(FEATURES, &features)?;
        check_finite(CLASSES, &classes)?;
        check_finite(LIKELIHOOD, &likelihood)?;
        let [log_likelihood] = likelihood[..] else {
            let count = likelihood.len();
            return Err(KIND.malformed(format!("'{LIKELIHOOD}' has {count} entries")));
        };
        Ok(Self {
            images: header.images,
            log_likelihood,
            features,
            classes,
        })
    }
}

/// Names of the tensors.
const FEATURES: &str = "feature_factor";
const CLASSES: &str = "class_factor";
const LIKELIHOOD: &str = "log_likelihood";

/// `gram += XᵀX`, the lower half.
fn add_gram(gram: &mut Mat<f64>, rows: MatRef<'_, f64>) {
    use triangular::BlockStructure::{Rectangular, TriangularLower};
    triangular::matmul(
        gram.as_mut(),
        TriangularLower,
        Accum::Add,
        rows.transpose(),
        Rectangular,
        rows,
        Rectangular,
        1.0,
        Par::Seq,
    );
}

/// Eigenvalues, those below zero by rounding set to zero, and eigenvectors as columns, of a
/// symmetric matrix.
fn eigen(factor: &'static str, matrix: &[f64], size: usize) -> Result<(Vec<f64>, Mat<f64>)> {
    let matrix = MatRef::from_row_major_slice(matrix, size, size);
    let (mut values, vectors) = possibility::eigen(matrix).ok_or(Error::Eigenvalues { factor })?;
    values.iter_mut().for_each(|value| *value = value.max(0.0));
    Ok((values, vectors))
}

/// The fitted distribution and its predictions.
///
/// ```
/// use experiment::predictive::{LaplaceConfig, LaplaceFit, LastLayer};
/// let layer = LastLayer::new(2, &[1.0, -1.0, -1.0, 1.0], Some(&[0.0, 0.0]))?;
/// let mut fit = LaplaceFit::new(layer);
/// fit.add(&[1.0, 0.0, 0.0, 1.0, 0.8, 0.1], &[0, 1, 0])?;
/// let laplace = fit.finish(&LaplaceConfig::default())?;
/// let near = laplace.probabilities(&[1.0, 0.0])?;
/// let far = laplace.probabilities(&[100.0, 0.0])?;
/// assert!(near[0] > 0.5 && far[0] < 0.9999, "far from the data it stays unsure");
/// # Ok::<(), experiment::predictive::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Laplace {
    layer: LastLayer,
    factors: LaplaceFactors,
    /// `a`, and `V` by columns.
    feature_values: Vec<f64>,
    feature_vectors: Mat<f64>,
    /// `u`, and `U` by columns.
    class_values: Vec<f64>,
    class_vectors: Mat<f64>,
    prior_precision: f64,
    /// `Σᵢ Ucᵢ²/(uᵢaⱼ + δ)`, `[D, C]`: what `(vⱼ·φ)²` adds to the variance of logit `c`.
    variance_of_features: Mat<f64>,
    /// `Σᵢ Ucᵢ²/(uᵢ + δ)`, what the bias adds.
    variance_of_bias: Vec<f64>,
}

impl Laplace {
    /// The method `laplace` at the weights that this was fitted at.
    pub fn at(self, parameters: &[f32]) -> Box<dyn Fitted + '_> {
        Box::new(AtWeights {
            parameters,
            laplace: self,
            is_kept: true,
        })
    }

    /// The layer it is a distribution of.
    pub fn layer(&self) -> &LastLayer {
        &self.layer
    }

    /// Prior precision δ.
    pub fn prior_precision(&self) -> f64 {
        self.prior_precision
    }

    /// `Σ log p(label)` over the training images.
    pub fn log_likelihood(&self) -> f64 {
        self.factors.log_likelihood
    }

    /// What it was made of.
    pub fn factors(&self) -> &LaplaceFactors {
        &self.factors
    }

    /// Takes another prior precision.
    ///
    /// # Errors
    /// [`Error::Input`] unless it is positive and finite.
    pub fn set_prior_precision(&mut self, delta: f64) -> Result<()> {
        check_precision(delta)?;
        self.prior_precision = delta;
        let classes = self.layer.classes;
        let share = |c: usize, i: usize| self.class_vectors[(c, i)].powi(2);
        let sum = |c: usize, a: f64| -> f64 {
            let values = self.class_values.iter().enumerate();
            values.map(|(i, b)| share(c, i) / (b * a + delta)).sum()
        };
        let features = self.layer.features;
        let table = Mat::from_fn(features, classes, |j, c| sum(c, self.feature_values[j]));
        let bias = match self.layer.bias {
            Some(_) => (0..classes).map(|c| sum(c, 1.0)).collect(),
            None => vec![0.0; classes],
        };
        (self.variance_of_features, self.variance_of_bias) = (table, bias);
        Ok(())
    }

    /// The eigenvalues λ of the likelihood's part of the precision.
    fn eigenvalues(&self) -> impl Iterator<Item = f64> {
        let has_bias = self.layer.bias.is_some();
        self.class_values.iter().flat_map(move |b| {
            let bias = has_bias.then_some(*b);
            self.feature_values.iter().map(move |a| b * a).chain(bias)
        })
    }

    /// Logarithm of the marginal likelihood (evidence) at a prior precision.
    ///
    /// # Errors
    /// [`Error::Input`] unless it is positive and finite.
    pub fn log_marginal_likelihood(&self, delta: f64) -> Result<f64> {
        check_precision(delta)?;
        let volume: f64 = self.eigenvalues().map(|l| (l / delta).ln_1p()).sum();
        Ok(self.log_likelihood() - 0.5 * (volume + delta * self.layer.square_norm()))
    }

    /// Slope of [`Laplace::log_marginal_likelihood`] in `log δ`.
    fn slope(&self, delta: f64, square_norm: f64) -> f64 {
        let effective: f64 = self.eigenvalues().map(|l| l / (l + delta)).sum();
        0.5 * (effective - delta * square_norm)
    }

    /// Prior precisions after each step of Adam (rates 0.9 and 0.999, ε = 1e-8) on `log δ`; O(CD) a
    /// step.
    ///
    /// # Errors
    /// [`Error::Input`] for a config outside its ranges, or a path that leaves the positive
    /// numbers.
    pub fn prior_precision_path(&self, config: &LaplaceConfig) -> Result<Vec<f64>> {
        config.check()?;
        let square_norm = self.layer.square_norm();
        let mut log_delta = config.prior_precision.ln();
        let (mut first, mut second) = (0.0, 0.0);
        let mut path = Vec::with_capacity(config.steps);
        for step in 1..=config.steps {
            let gradient = -self.slope(log_delta.exp(), square_norm);
            first = 0.9 * first + 0.1 * gradient;
            second = 0.999 * second + 0.001 * gradient * gradient;
            let t = step as f64;
            let mean = first / (1.0 - 0.9f64.powf(t));
            let scale = (second / (1.0 - 0.999f64.powf(t))).sqrt();
            log_delta -= config.lr * mean / (scale + 1e-8);
            let delta = log_delta.exp();
            check_precision(delta)?;
            path.push(delta);
        }
        Ok(path)
    }

    /// Calls `each(logits, squares)` for blocks of features: logits `[n, C]` row-major, and
    /// `(vⱼ·φ)²` as `[D, n]`.
    fn blocks<T: Copy + Into<f64>>(
        &self,
        features: &[T],
        mut each: impl FnMut(&mut [f64], MatRef<'_, f64>),
    ) -> Result<()> {
        let (width, classes) = (self.layer.features, self.layer.classes);
        self.layer.rows(features)?;
        let mut block = Vec::with_capacity(BLOCK * width);
        let mut logits = vec![0.0; BLOCK * classes];
        let mut squares = Mat::zeros(width, BLOCK);
        for features in features.chunks(BLOCK * width) {
            let rows = features.len() / width;
            block.clear();
            block.extend(features.iter().map(|&v| v.into()));
            let phi = MatRef::from_row_major_slice(&block, rows, width);
            let logits = &mut logits[..rows * classes];
            self.layer.logits_into(phi, logits);
            let mut squares = squares.as_mut().subcols_mut(0, rows);
            let vectors = self.feature_vectors.transpose();
            let (to, from) = (squares.as_mut(), phi.transpose());
            matmul(to, Accum::Replace, vectors, from, 1.0, Par::Seq);
            for n in 0..rows {
                squares
                    .as_mut()
                    .col_mut(n)
                    .iter_mut()
                    .for_each(|v| *v *= *v);
            }
            each(logits, squares.as_ref());
        }
        Ok(())
    }

    /// Variances `[n, C]` of the logits, given squared projections `[D, n]`.
    fn variances_into(&self, squares: MatRef<'_, f64>, out: &mut [f64]) {
        for row in out.chunks_mut(self.layer.classes) {
            row.copy_from_slice(&self.variance_of_bias);
        }
        let out = MatMut::from_row_major_slice_mut(out, squares.ncols(), self.layer.classes);
        let table = &self.variance_of_features;
        matmul(out, Accum::Add, squares.transpose(), table, 1.0, Par::Seq);
    }

    /// Variances of the logits `[n, C]`, for features `[n, D]`.
    ///
    /// # Errors
    /// [`Error::Input`] or [`Error::NotFinite`] for features that do not fit.
    pub fn variances<T: Copy + Into<f64>>(&self, features: &[T]) -> Result<Vec<f64>> {
        let mut all = Vec::new();
        self.blocks(features, |logits, squares| {
            self.variances_into(squares, logits);
            all.extend_from_slice(logits);
        })?;
        Ok(all)
    }

    /// Covariances of the logits `[n, C, C]`, for features `[n, D]`; O(C³) each, and not needed for
    /// predictions.
    ///
    /// # Errors
    /// As [`Laplace::variances`].
    pub fn covariances<T: Copy + Into<f64>>(&self, features: &[T]) -> Result<Vec<f64>> {
        let (classes, delta) = (self.layer.classes, self.prior_precision);
        let mut all = Vec::new();
        self.blocks(features, |_, squares| {
            for n in 0..squares.ncols() {
                let along = |b: &f64| -> f64 {
                    let pairs = squares.col(n).iter().zip(&self.feature_values);
                    let weights: f64 = pairs.map(|(q, a)| q / (b * a + delta)).sum();
                    let bias = self.layer.bias.as_ref().map_or(0.0, |_| 1.0 / (b + delta));
                    weights + bias
                };
                let along: Vec<f64> = self.class_values.iter().map(along).collect();
                let u = &self.class_vectors;
                for c in 0..classes {
                    for d in 0..classes {
                        let terms = along.iter().enumerate();
                        all.push(terms.map(|(i, v)| u[(c, i)] * v * u[(d, i)]).sum());
                    }
                }
            }
        })?;
        Ok(all)
    }

    /// Class probabilities `[n, C]` with the variance of the logits taken into account, for
    /// features `[n, D]`.
    ///
    /// # Errors
    /// As [`Laplace::variances`].
    pub fn probabilities<T: Copy + Into<f64>>(&self, features: &[T]) -> Result<Vec<f64>> {
        let mut all = self.logits(features)?;
        all.chunks_mut(self.layer.classes).for_each(|row| {
            softmax(row);
        });
        Ok(all)
    }

    /// Logits `[n, C]`, each divided by what its variance takes from it: those of
    /// [`Laplace::probabilities`], for features `[n, D]`.
    ///
    /// # Errors
    /// As [`Laplace::variances`].
    pub fn logits<T: Copy + Into<f64>>(&self, features: &[T]) -> Result<Vec<f64>> {
        let classes = self.layer.classes;
        let mut all = Vec::with_capacity(features.len() / self.layer.features * classes);
        let mut variances = vec![0.0; BLOCK * classes];
        self.blocks(features, |logits, squares| {
            let variances = &mut variances[..logits.len()];
            self.variances_into(squares, variances);
            for (logit, variance) in logits.iter_mut().zip(variances) {
                *logit /= (1.0 + PI / 8.0 * *variance).sqrt();
            }
            all.extend_from_slice(logits);
        })?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faer::Side;
    use faer::linalg::solvers::SelfAdjointEigen;
    use proptest::prelude::*;

    /// The explicit matrices of a small problem lose a few digits in their inverse.
    const DENSE: f64 = 1e-9;

    /// A random problem: odd sizes, parts of uneven length, predictions from unsure to certain.
    #[derive(Debug, Clone)]
    struct Problem {
        layer: LastLayer,
        features: Vec<f64>,
        labels: Vec<u32>,
        test: Vec<f64>,
        delta: f64,
    }

    fn problem() -> impl Strategy<Value = Problem> {
        let sizes = (
            1usize..=7,
            1usize..=6,
            1usize..=40,
            1usize..=9,
            any::<bool>(),
        );
        sizes.prop_flat_map(|(width, classes, rows, tests, has_bias)| {
            let numbers = |count: usize, scale: f64| prop::collection::vec(-scale..scale, count);
            (
                numbers(width * classes, 2.0),
                numbers(classes, 1.0),
                numbers(rows * width, 2.0),
                prop::collection::vec(0..classes as u32, rows),
                numbers(tests * width, 3.0),
                -3.0..3.0f64,
            )
                .prop_map(move |(weight, bias, features, labels, test, log_delta)| {
                    let bias = has_bias.then_some(&bias[..]);
                    Problem {
                        layer: LastLayer::new(width, &weight, bias).unwrap(),
                        features,
                        labels,
                        test,
                        delta: log_delta.exp(),
                    }
                })
        })
    }

    fn fit(problem: &Problem) -> LaplaceFit {
        let mut fit = LaplaceFit::new(problem.layer.clone());
        fit.add(&problem.features, &problem.labels).unwrap();
        fit
    }

    /// Everything by its definition, with the precision matrix of all weights written out.
    struct Dense {
        a: Mat<f64>,
        b: Mat<f64>,
        log_evidence: f64,
        covariances: Vec<Mat<f64>>,
        probabilities: Vec<f64>,
    }

    fn dense(problem: &Problem) -> Dense {
        let layer = &problem.layer;
        let (width, classes) = (layer.features, layer.classes);
        let logits = |phi: &[f64]| -> Vec<f64> {
            (0..classes)
                .map(|c| {
                    let bias = layer.bias.as_ref().map_or(0.0, |b| b[c]);
                    let row = &layer.weight[c * width..(c + 1) * width];
                    row.iter().zip(phi).map(|(w, x)| w * x).sum::<f64>() + bias
                })
                .collect()
        };
        let soft = |f: &[f64]| -> Vec<f64> {
            let sum: f64 = f.iter().map(|v| v.exp()).sum();
            f.iter().map(|v| v.exp() / sum).collect()
        };
        let n = problem.labels.len() as f64;
        let (mut a, mut b) = (Mat::zeros(width, width), Mat::zeros(classes, classes));
        let mut log_likelihood = 0.0;
        for (phi, &label) in problem.features.chunks(width).zip(&problem.labels) {
            let p = soft(&logits(phi));
            log_likelihood += p[label as usize].ln();
            a += Mat::from_fn(width, width, |i, j| phi[i] * phi[j] / n);
            b += Mat::from_fn(classes, classes, |i, j| {
                if i == j {
                    p[i] - p[i] * p[i]
                } else {
                    -p[i] * p[j]
                }
            });
        }
        // weight (c, j) has place c·D + j, the bias of class c has place C·D + c
        let (weights, all) = (classes * width, layer.parameters());
        let precision = Mat::from_fn(all, all, |r, s| {
            let ridge = if r == s { problem.delta } else { 0.0 };
            let value = match (r < weights, s < weights) {
                (true, true) => b[(r / width, s / width)] * a[(r % width, s % width)],
                (false, false) => b[(r - weights, s - weights)],
                _ => 0.0,
            };
            value + ridge
        });
        let decomposition = SelfAdjointEigen::new(precision.as_ref(), Side::Lower).unwrap();
        let values: Vec<f64> = decomposition.S().column_vector().iter().copied().collect();
        let u = decomposition.U();
        let inverse = Mat::from_fn(all, all, |r, s| {
            (0..all)
                .map(|k| u[(r, k)] * u[(s, k)] / values[k])
                .sum::<f64>()
        });
        let log_det: f64 = values.iter().map(|v| v.ln()).sum();
        let norm: f64 = layer
            .weight
            .iter()
            .chain(layer.bias.iter().flatten())
            .map(|w| w * w)
            .sum();
        let log_evidence = log_likelihood
            - 0.5 * (log_det - all as f64 * problem.delta.ln() + problem.delta * norm);
        let (mut covariances, mut probabilities) = (Vec::new(), Vec::new());
        for phi in problem.test.chunks(width) {
            let jacobian = Mat::from_fn(classes, all, |c, r| {
                if r < weights && r / width == c {
                    phi[r % width]
                } else if r >= weights && r - weights == c {
                    1.0
                } else {
                    0.0
                }
            });
            let covariance = &jacobian * &inverse * jacobian.transpose();
            let tempered: Vec<f64> = logits(phi)
                .iter()
                .enumerate()
                .map(|(c, f)| f / (1.0 + PI / 8.0 * covariance[(c, c)]).sqrt())
                .collect();
            probabilities.extend(soft(&tempered));
            covariances.push(covariance);
        }
        Dense {
            a,
            b,
            log_evidence,
            covariances,
            probabilities,
        }
    }

    fn close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
        let scale = golden::largest(want).max(1e-12);
        golden::assert_within(what, got, want, tolerance * scale);
    }

    fn rows(matrix: &Mat<f64>) -> Vec<f64> {
        let at = |i: usize| (0..matrix.ncols()).map(move |j| matrix[(i, j)]);
        (0..matrix.nrows()).flat_map(at).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn the_factors_stand_for_the_matrix_of_all_weights(problem in problem()) {
            let fit = fit(&problem);
            let want = dense(&problem);
            close(&fit.feature_factor(), &rows(&want.a), DENSE, "A");
            close(&fit.class_factor(), &rows(&want.b), DENSE, "B");
            let laplace = fit.finish(&LaplaceConfig::fixed(problem.delta)).unwrap();
            let evidence = laplace.log_marginal_likelihood(problem.delta).unwrap();
            close(&[evidence], &[want.log_evidence], DENSE, "log evidence");
            let covariances: Vec<f64> = want.covariances.iter().flat_map(rows).collect();
            close(&laplace.covariances(&problem.test).unwrap(), &covariances, DENSE, "covariance");
            let classes = problem.layer.classes;
            let diagonal: Vec<f64> = want
                .covariances
                .iter()
                .flat_map(|m| (0..classes).map(move |c| m[(c, c)]))
                .collect();
            close(&laplace.variances(&problem.test).unwrap(), &diagonal, DENSE, "variance");
            let p = laplace.probabilities(&problem.test).unwrap();
            close(&p, &want.probabilities, DENSE, "probabilities");
        }

        #[test]
        fn the_slope_is_the_derivative_of_the_log_evidence(problem in problem()) {
            let laplace = fit(&problem).finish(&LaplaceConfig::fixed(1.0)).unwrap();
            let step = 1e-5f64;
            let at = |s: f64| laplace.log_marginal_likelihood(problem.delta * s.exp()).unwrap();
            let difference = (at(step) - at(-step)) / (2.0 * step);
            let slope = laplace.slope(problem.delta, problem.layer.square_norm());
            // a central difference of values of size |evidence| rounds to about 1e-11 of them
            let scale = at(0.0).abs().max(1.0);
            prop_assert!((difference - slope).abs() <= 1e-8 * scale, "{difference} {slope}");
        }
    }

    /// One class-balanced problem that is large enough for several blocks.
    fn large() -> Problem {
        let (width, classes, rows) = (33, 5, 3 * BLOCK + 17);
        let number = |i: usize| ((i * 7919 % 1009) as f64 / 1009.0 - 0.3) * 1.7;
        let weight: Vec<f64> = (0..width * classes).map(|i| number(i * 13 + 5)).collect();
        let bias: Vec<f64> = (0..classes).map(|i| number(i + 400)).collect();
        Problem {
            layer: LastLayer::new(width, &weight, Some(&bias)).unwrap(),
            features: (0..rows * width).map(|i| number(i * i / 3 + i)).collect(),
            labels: (0..rows).map(|i| (i % classes) as u32).collect(),
            test: (0..(BLOCK + 3) * width)
                .map(|i| number(i * 3 + 1))
                .collect(),
            delta: 0.7,
        }
    }

    #[test]
    fn blocks_and_parts_do_not_matter() {
        let problem = large();
        let whole = fit(&problem);
        let mut parts = LaplaceFit::new(problem.layer.clone());
        let width = problem.layer.features;
        for (x, y) in problem
            .features
            .chunks(101 * width)
            .zip(problem.labels.chunks(101))
        {
            parts.add(x, y).unwrap();
        }
        assert_eq!(parts.images(), whole.images());
        close(&parts.feature_factor(), &whole.feature_factor(), 1e-13, "A");
        close(&parts.class_factor(), &whole.class_factor(), 1e-13, "B");
        let want = dense(&problem);
        close(&whole.feature_factor(), &rows(&want.a), 1e-12, "A");
        let laplace = whole.finish(&LaplaceConfig::fixed(problem.delta)).unwrap();
        let p = laplace.probabilities(&problem.test).unwrap();
        close(&p, &want.probabilities, DENSE, "probabilities");
        // one image at a time is the same prediction
        for (n, phi) in problem.test.chunks(width).enumerate().step_by(50) {
            close(
                &laplace.probabilities(phi).unwrap(),
                &p[n * 5..n * 5 + 5],
                1e-13,
                "one",
            );
        }
    }

    #[test]
    fn adam_climbs_the_evidence_and_a_fixed_precision_stays() {
        let fit = fit(&large());
        let start = fit.finish(&LaplaceConfig::fixed(1.0)).unwrap();
        assert_eq!(start.prior_precision(), 1.0);
        let found = fit.finish(&LaplaceConfig::default()).unwrap();
        let value = |laplace: &Laplace| {
            let delta = laplace.prior_precision();
            laplace.log_marginal_likelihood(delta).unwrap()
        };
        assert!(value(&found) > value(&start));
        // the first step of Adam is its rate, whatever the slope
        let path = start
            .prior_precision_path(&LaplaceConfig::default())
            .unwrap();
        assert_eq!(path.len(), 100);
        assert!((path[0].ln().abs() - 0.1).abs() < 1e-6);
        assert_eq!(path.last(), Some(&found.prior_precision()));
        // long enough, it stands where the slope is zero
        let long = LaplaceConfig {
            steps: 3000,
            lr: 0.01,
            ..Default::default()
        };
        let end = *start.prior_precision_path(&long).unwrap().last().unwrap();
        let flat = start.slope(end, start.layer.square_norm());
        assert!(flat.abs() < 1e-3, "{flat}");
    }

    #[test]
    fn a_huge_prior_precision_is_the_point_prediction_and_a_small_one_is_unsure() {
        let problem = large();
        let fit = fit(&problem);
        let mut laplace = fit.finish(&LaplaceConfig::fixed(1e14)).unwrap();
        let (width, classes) = (problem.layer.features, problem.layer.classes);
        let count = problem.test.len() / width;
        let mut point = vec![0.0; count * classes];
        let phi = MatRef::from_row_major_slice(&problem.test, count, width);
        problem.layer.logits_into(phi, &mut point);
        point.chunks_mut(classes).for_each(|row| {
            softmax(row);
        });
        close(
            &laplace.probabilities(&problem.test).unwrap(),
            &point,
            1e-10,
            "point",
        );
        laplace.set_prior_precision(1e-12).unwrap();
        let p = laplace.probabilities(&vec![1e3; width]).unwrap();
        assert!(p.iter().all(|p| (p - 0.2).abs() < 0.1), "{p:?}");
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        fn said<T>(result: Result<T>) -> String {
            result.err().unwrap().to_string()
        }
        let layer = LastLayer::new(2, &[1.0, 0.0, 0.0, 1.0], Some(&[0.0, 0.0])).unwrap();
        let mut fit = LaplaceFit::new(layer);
        assert_eq!(
            said(fit.finish(&LaplaceConfig::default())),
            "predictive method 'laplace' needs the features of at least one training image",
        );
        for (features, label, want) in [
            (
                &[1.0, 2.0, 3.0][..],
                0,
                "features has 3 entries, expected 2",
            ),
            (
                &[1.0, f64::NAN],
                0,
                "features[1] is NaN, which is not finite",
            ),
            (&[1.0, 2.0], 2, "label 2 of image 0 is not in 0..2"),
        ] {
            assert_eq!(said(fit.add(features, &[label])), want);
        }
        assert_eq!(fit.images(), 0);
        fit.add(&[1.0, 2.0], &[1]).unwrap();
        let (mut lr, mut steps) = (LaplaceConfig::default(), LaplaceConfig::default());
        lr.lr = -0.1;
        steps.steps = 2_000_000;
        for (config, want) in [
            (
                LaplaceConfig::fixed(0.0),
                "prior_precision 0 is not in (0, inf)",
            ),
            (
                LaplaceConfig::fixed(f64::NAN),
                "prior_precision NaN is not in (0, inf)",
            ),
            (lr, "lr -0.1 is not in (0, inf)"),
            (steps, "steps 2000000 is not in 0..=1000000"),
        ] {
            assert_eq!(said(fit.finish(&config)), want);
        }
        assert_eq!(
            said(LastLayer::new(2, &[1.0, 0.0, 0.0], None)),
            "weight has 3 entries, expected 2",
        );
        // weights of zero bear any prior precision, so that it grows until it is no number
        let zero = LastLayer::new(2, &[0.0; 4], None).unwrap();
        let mut fit = LaplaceFit::new(zero);
        fit.add(&[1.0, 2.0], &[1]).unwrap();
        let run = LaplaceConfig {
            steps: 5,
            lr: 1000.0,
            ..Default::default()
        };
        let grown = "prior_precision inf is not in (0, inf)";
        assert_eq!(said(fit.finish(&run)), grown);
    }

    #[test]
    fn the_start_of_the_search_can_be_chosen() {
        let of = |text: &str| toml::from_str::<LaplaceMethod>(text).unwrap().config();
        assert_eq!(of(""), LaplaceConfig::default());
        assert_eq!(of("prior_precision = 3.0"), LaplaceConfig::fixed(3.0));
        let start = of("initial_precision = 0.54");
        assert_eq!((start.prior_precision, start.steps), (0.54, 100));
    }

    /// Fitted to augmented images is fitted to what the visits show.
    #[test]
    fn augmented_images_are_those_of_the_visits() {
        let network = engine::zoo::lenet(10).unwrap();
        let parameters = network.initial_parameters(5);
        let (count, size) = (12, 28 * 28);
        let pixels = (0..count * size).map(|i| (i * i % 251) as u8).collect();
        let labels: Vec<u32> = (0..count as u32).map(|i| i % 10).collect();
        let shape = engine::Shape::new(1, 28, 28);
        let images = images::Images::new(shape, 10, pixels, labels.clone()).unwrap();
        let normalization = images::Normalization::new(vec![0.25], vec![0.5]).unwrap();
        let indices: Vec<u32> = (0..count as u32).rev().collect();
        let training = Labeled {
            images: Input::bytes(&images, &normalization, &indices),
            labels: &labels,
        };
        let how = (Augmentation { flip: true, pad: 3 }, 11);
        // by hand, pixel by pixel: black outside, mirrored before it is shifted
        let mut seen = vec![0.0; count * size];
        let mut moved = 0;
        for (&index, out) in indices.iter().zip(seen.chunks_exact_mut(size)) {
            let visit = how.0.draw(how.1, 0, index);
            moved += usize::from(!visit.is_plain());
            let image = images.image(index as usize);
            for (i, value) in out.iter_mut().enumerate() {
                let y = (i / 28) as isize + isize::from(visit.down);
                let x = (i % 28) as isize + isize::from(visit.right);
                let is_inside = (0..28).contains(&y) && (0..28).contains(&x);
                let x = if visit.flip { 27 - x } else { x };
                let pixel = if is_inside {
                    image[(28 * y + x) as usize]
                } else {
                    0
                };
                *value = (f32::from(pixel) / 255.0 - 0.25) / 0.5;
            }
        }
        assert!(moved > count / 2);
        let device = engine::Device::cpu().threads(1);
        let config = engine::PredictorConfig {
            device,
            ..Default::default()
        };
        let mut predictive = Predictive::new(&network, config).unwrap();
        let fixed = LaplaceConfig::fixed(2.0);
        let by_hand = Labeled {
            images: Input::Floats(&seen),
            labels: &labels,
        };
        let by_hand = predictive
            .fit_laplace(&fixed, &parameters, by_hand)
            .unwrap();
        let found = predictive.fit_seen(&fixed, &parameters, training, Some(how));
        let plain = predictive.fit_seen(&fixed, &parameters, training, None);
        let evidence = |laplace: &Laplace| laplace.log_marginal_likelihood(2.0).unwrap();
        let (by_hand, found) = (evidence(&by_hand), evidence(&found.unwrap()));
        // pixels differ by the rounding of f32; not augmenting makes 1e-3
        const ROUNDING: f64 = 1e-5;
        let near = |a: f64, b: f64| (a - b).abs() < ROUNDING * a.abs();
        assert!(near(by_hand, found), "{by_hand} {found}");
        let plain = evidence(&plain.unwrap());
        assert!(
            (plain - found).abs() > 50.0 * ROUNDING * found.abs(),
            "{plain} {found}"
        );
    }
}
