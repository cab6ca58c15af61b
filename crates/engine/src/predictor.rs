//! Prediction: logits, probabilities, features and the loss, for one set of weights or the mean
//! over many.

use images::{Images, Normalization, Visit, check_labels, check_length};
use random::mix;

use crate::backend::{Backend, BatchResult, Job, Sample, Source, Task, Wanted};
use crate::device::Device;
use crate::error::{Error, Result, check_range};
use crate::network::{Network, Shape, Value};

/// How to predict.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PredictorConfig {
    /// Where. Default: [`Device::default`].
    pub device: Device,
    /// What [`Predictor::features`] gives, a value of the network (see [`Network::output`]).
    /// Default: the input of the last layer.
    pub features: Option<Value>,
}

impl PredictorConfig {
    /// A predictor for `network`.
    ///
    /// # Errors
    /// [`Error::Input`] for a number of threads outside its range, or features that the
    /// network does not have.
    pub fn build(&self, network: &Network) -> Result<Predictor> {
        if let Some(value) = self.features {
            let (index, values) = (value.index(), network.shapes().len());
            let range = "the values of the network";
            images::check("features", index as f64, range, index < values)?;
        }
        let task = Task::Predict {
            features: self.features,
        };
        let job = Job { network, task };
        let plan = job.plan();
        Ok(Predictor {
            config: *self,
            input: plan.input_shape,
            classes: plan.classes,
            features: plan.features.1,
            parameters: plan.parameters,
            backend: self.device.start(&job)?,
        })
    }
}

/// Images to predict.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// `[n, channels, height, width]`, row-major, any number of them.
    Floats(&'a [f32]),
    /// Some of the images of a set, in this order, normalized as they are read: no copy in `f32` is
    /// made.
    Bytes {
        /// The set.
        images: &'a Images,
        /// What a byte becomes.
        normalization: &'a Normalization,
        /// Which of them.
        indices: &'a [u32],
    },
}

impl<'a> Input<'a> {
    /// These images of a set.
    pub fn bytes(images: &'a Images, normalization: &'a Normalization, indices: &'a [u32]) -> Self {
        Self::Bytes {
            images,
            normalization,
            indices,
        }
    }
}

impl<'a> From<&'a [f32]> for Input<'a> {
    fn from(images: &'a [f32]) -> Self {
        Self::Floats(images)
    }
}

impl<'a> From<&'a Vec<f32>> for Input<'a> {
    fn from(images: &'a Vec<f32>) -> Self {
        Self::Floats(images)
    }
}

/// Evaluates one network.
///
/// Seeds choose the masks of dropout that stays on; networks without it ignore them.
///
/// ```
/// use engine::{Device, PredictorConfig, zoo};
/// let net = zoo::lenet(10)?;
/// let device = Device::cpu().threads(1);
/// let mut predictor = PredictorConfig { device, ..Default::default() }.build(&net)?;
/// let images = vec![0.5; 3 * 784];
/// let p = predictor.probabilities(&net.initial_parameters(1), 0, &images)?;
/// assert_eq!(p.len(), 3 * 10);
/// assert!((p[..10].iter().sum::<f32>() - 1.0).abs() < 1e-5);
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Predictor {
    config: PredictorConfig,
    input: Shape,
    classes: usize,
    features: usize,
    parameters: usize,
    backend: Box<dyn Backend>,
}

impl std::fmt::Debug for Predictor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Predictor")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Predictor {
    /// Features that [`Predictor::features`] gives per image.
    pub fn feature_count(&self) -> usize {
        self.features
    }

    /// Checks everything, then lets `work` have the backend and the images.
    fn with_source<T>(
        &mut self,
        samples: &[Sample<'_>],
        input: Input<'_>,
        work: impl FnOnce(&mut dyn Backend, Source<'_>, usize) -> Result<T>,
    ) -> Result<T> {
        for sample in samples {
            check_length("parameters", sample.parameters.len(), self.parameters)?;
        }
        let (tables, visits);
        let source = match input {
            Input::Floats(values) => {
                let count = values.len() / self.input.len();
                check_length("images", values.len(), count * self.input.len())?;
                Source::Floats(values)
            }
            Input::Bytes {
                images,
                normalization,
                indices,
            } => {
                check_images(images, normalization, self.input)?;
                for &index in indices {
                    check_image(index, images)?;
                }
                tables = normalization.tables();
                visits = indices
                    .iter()
                    .map(|&index| Visit::new(index, 0, 0, false))
                    .collect::<Vec<_>>();
                Source::Bytes {
                    images,
                    tables: &tables,
                    visits: &visits,
                }
            }
        };
        let count = source.count(self.input.len());
        work(&mut *self.backend, source, count)
    }

    /// Rows of `width` numbers, one per image.
    fn predict(
        &mut self,
        samples: &[Sample<'_>],
        input: Input<'_>,
        width: usize,
        wanted: Wanted,
    ) -> Result<Vec<f32>> {
        self.with_source(samples, input, |backend, source, count| {
            let mut out = vec![0.0; count * width];
            backend.forward(samples, source, wanted, &mut out)?;
            Ok(out)
        })
    }

    /// Sets of weights that [`Predictor::add_probabilities`] and [`Predictor::losses`] are best
    /// given at once.
    pub fn samples_together(&self) -> usize {
        self.backend.samples_together()
    }

    /// Logits `[n, classes]`.
    ///
    /// # Errors
    /// [`Error::Input`] for parameters or images that do not fit the
    /// network.
    pub fn logits<'a>(
        &mut self,
        parameters: &[f32],
        seed: u64,
        input: impl Into<Input<'a>>,
    ) -> Result<Vec<f32>> {
        let sample = Sample { parameters, seed };
        self.predict(&[sample], input.into(), self.classes, Wanted::Logits)
    }

    /// Inputs of the last layer, or the value that was asked for, `[n, features]`.
    ///
    /// # Errors
    /// As [`Predictor::logits`].
    pub fn features<'a>(
        &mut self,
        parameters: &[f32],
        seed: u64,
        input: impl Into<Input<'a>>,
    ) -> Result<Vec<f32>> {
        let sample = Sample { parameters, seed };
        self.predict(&[sample], input.into(), self.features, Wanted::Features)
    }

    /// Class probabilities `[n, classes]`.
    ///
    /// # Errors
    /// As [`Predictor::logits`].
    pub fn probabilities<'a>(
        &mut self,
        parameters: &[f32],
        seed: u64,
        input: impl Into<Input<'a>>,
    ) -> Result<Vec<f32>> {
        self.mean_probabilities(&[parameters], seed, input)
    }

    /// Class probabilities `[n, classes]`, the mean over samples of the weights; dropout that stays
    /// on has another mask for each.
    ///
    /// Monte Carlo dropout is the same weights many times.
    ///
    /// # Errors
    /// As [`Predictor::logits`]; [`Error::Input`] without samples.
    pub fn mean_probabilities<'a>(
        &mut self,
        samples: &[&[f32]],
        seed: u64,
        input: impl Into<Input<'a>>,
    ) -> Result<Vec<f32>> {
        check_range("samples", samples.len(), usize::MAX, "1..")?;
        let share = 1.0 / samples.len() as f32;
        let samples = samples.iter().enumerate().map(|(number, parameters)| {
            let seed = Self::seed_of_pass(seed, number);
            Sample { parameters, seed }
        });
        let samples: Vec<_> = samples.collect();
        let wanted = Wanted::Probabilities { share };
        self.predict(&samples, input.into(), self.classes, wanted)
    }

    /// The seed that [`Predictor::mean_probabilities`] gives to one of its passes, from 0. The
    /// first has the masks of a single prediction.
    pub fn seed_of_pass(seed: u64, number: usize) -> u64 {
        match number {
            0 => seed,
            number => mix(seed ^ mix(number as u64)),
        }
    }

    /// Adds the class probabilities `[n, classes]` of every sample to `sums`, in the order of the
    /// samples; empty sums begin at 0.
    ///
    /// # Errors
    /// As [`Predictor::logits`]; [`Error::Input`] for sums of another length.
    pub fn add_probabilities<'a>(
        &mut self,
        samples: &[Sample<'_>],
        input: impl Into<Input<'a>>,
        sums: &mut Vec<f64>,
    ) -> Result<()> {
        let classes = self.classes;
        self.with_source(samples, input.into(), |backend, source, count| {
            if sums.is_empty() {
                sums.resize(count * classes, 0.0);
            }
            check_length("sums", sums.len(), count * classes)?;
            backend.add_probabilities(samples, source, sums)
        })
    }

    /// Mean cross-entropy in `f64`, and how many images have their label's logit as the first
    /// largest.
    ///
    /// # Errors
    /// As [`Predictor::logits`]; [`Error::Input`] for labels that do not fit.
    pub fn loss<'a>(
        &mut self,
        parameters: &[f32],
        seed: u64,
        input: impl Into<Input<'a>>,
        labels: &[u32],
    ) -> Result<(f64, usize)> {
        let mut losses = self.losses(&[Sample { parameters, seed }], input, labels)?;
        Ok(losses.pop().expect("there is one loss for each sample"))
    }

    /// The same for every sample. What a sample gets does not depend on the others.
    ///
    /// # Errors
    /// As [`Predictor::loss`].
    pub fn losses<'a>(
        &mut self,
        samples: &[Sample<'_>],
        input: impl Into<Input<'a>>,
        labels: &[u32],
    ) -> Result<Vec<(f64, usize)>> {
        let classes = self.classes;
        check_labels(labels, classes)?;
        self.with_source(samples, input.into(), |backend, source, count| {
            check_length("labels", labels.len(), count)?;
            let losses = backend.losses(samples, source, labels, classes)?;
            let mean = |result: BatchResult| (result.loss / count as f64, result.correct);
            Ok(losses.into_iter().map(mean).collect())
        })
    }
}

/// Summed cross-entropy and correct predictions of logits `[n, classes]`, in `f64`.
pub(crate) fn cross_entropy(logits: &[f32], labels: &[u32], classes: usize) -> BatchResult {
    let mut result = BatchResult::default();
    for (row, &label) in logits.chunks_exact(classes).zip(labels) {
        let mut top = 0;
        for (k, z) in row.iter().enumerate() {
            if *z > row[top] {
                top = k;
            }
        }
        let peak = f64::from(row[top]);
        let total: f64 = row.iter().map(|&z| (f64::from(z) - peak).exp()).sum();
        result.loss += total.ln() + peak - f64::from(row[label as usize]);
        result.correct += usize::from(top == label as usize);
    }
    result
}

/// `Ok` if byte images fit a network.
pub(crate) fn check_images(
    images: &Images,
    normalization: &Normalization,
    input: Shape,
) -> Result<()> {
    if images.shape() != input {
        return Err(Error::Images {
            found: images.shape(),
            expected: input,
        });
    }
    let channels = normalization.channels();
    Ok(check_length("normalization", channels, input.channels)?)
}

/// `Ok` if there is such an image.
pub(crate) fn check_image(index: u32, images: &Images) -> Result<()> {
    let (range, there) = ("the images of the set", (index as usize) < images.len());
    Ok(images::check(
        "index of an image",
        index.into(),
        range,
        there,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_entropy_by_hand() {
        let result = cross_entropy(&[0.0, 2.0, -1.0, 1.0, 1.0, 1.0], &[1, 2], 3);
        let first = (1.0 + (-2.0_f64).exp() + (-3.0_f64).exp()).ln();
        assert!((result.loss - (first + 3.0_f64.ln())).abs() < 1e-12);
        // a tie goes to the first class
        assert_eq!(result.correct, 1);
    }
}
