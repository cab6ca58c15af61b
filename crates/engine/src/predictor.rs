//! Prediction: logits, probabilities and features, for one set of weights or the mean over many.

use machine::Isa;
use random::mix;

use crate::cpu::{Cpu, LANES};
use crate::error::{Error, Result};
use crate::network::{Network, Value, check_length};
use crate::plan::{Plan, PlanOptions};
use crate::trainer::{MAX_THREADS, check_range, default_threads};
use crate::twin::DropoutMode;

/// Numbers of transformed weights kept at a time when many samples are evaluated: 64 MiB.
const TRANSFORMED: usize = 1 << 24;

/// How to predict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictorConfig {
    /// Threads, `1..=64`. Default: as many as the machine has, at most 8. The result does not depend on it.
    pub threads: usize,
    /// Instruction set. Default: the widest of the machine.
    pub isa: Isa,
    /// Whether 3×3 convolutions use Winograd's form where it pays. Default yes.
    pub winograd: bool,
    /// Seed of dropout that stays on. Default 0.
    pub seed: u64,
    /// What [`Predictor::features`] gives, a value of the network (see [`Network::output`]). Default: the input of the last layer.
    pub features: Option<Value>,
}

impl Default for PredictorConfig {
    fn default() -> Self {
        Self {
            threads: default_threads(),
            isa: Isa::detect(),
            winograd: true,
            seed: 0,
            features: None,
        }
    }
}

impl PredictorConfig {
    /// A predictor for `network`.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] for a number of threads outside its range, or features that the network does not have.
    pub fn build(&self, network: &Network) -> Result<Predictor> {
        check_range("threads", self.threads, MAX_THREADS, "1..=64")?;
        if let Some(value) = self.features
            && value.index() >= network.shapes().len()
        {
            return Err(Error::OutOfRange {
                field: "features",
                value: value.index() as f64,
                range: "the values of the network",
            });
        }
        let plan = Plan::new(
            network,
            PlanOptions {
                training: false,
                winograd: self.winograd,
                winograd_everywhere: false,
                fuse_pooling: true,
                features: self.features,
            },
        );
        Ok(Predictor {
            cpu: Cpu::new(plan, LANES, self.threads, self.isa),
            seed: self.seed,
        })
    }
}

/// Evaluates one network. Images are `[n, channels, height, width]`, row-major, any number of them.
///
/// ```
/// use engine::{PredictorConfig, zoo};
/// let net = zoo::lenet(10)?;
/// let mut predictor = PredictorConfig { threads: 1, ..Default::default() }.build(&net)?;
/// let images = vec![0.5; 3 * 784];
/// let p = predictor.probabilities(&net.initial_parameters(1), &images)?;
/// assert_eq!(p.len(), 3 * 10);
/// assert!((p[..10].iter().sum::<f32>() - 1.0).abs() < 1e-5);
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Predictor {
    cpu: Cpu,
    seed: u64,
}

impl std::fmt::Debug for Predictor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Predictor")
            .field("isa", &self.cpu.isa())
            .field("threads", &self.cpu.workers().count())
            .finish_non_exhaustive()
    }
}

/// Softmax of one image of a block.
fn softmax(logits: &[f32], lane: usize, out: &mut [f32]) {
    let z = |k: usize| logits[k * LANES + lane];
    let top = (0..out.len()).map(z).fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (k, value) in out.iter_mut().enumerate() {
        *value = (z(k) - top).exp();
        sum += *value;
    }
    out.iter_mut().for_each(|value| *value /= sum);
}

impl Predictor {
    fn check(&self, parameters: &[f32], images: &[f32]) -> Result<usize> {
        check_length("parameters", parameters.len(), self.cpu.plan().parameters)?;
        let size = self.cpu.plan().input_shape.len();
        let count = images.len() / size;
        check_length("images", images.len(), count * size)?;
        Ok(count)
    }

    /// Features that [`Predictor::features`] gives per image.
    pub fn feature_count(&self) -> usize {
        self.cpu.plan().features.1
    }

    /// Logits `[n, classes]`.
    ///
    /// # Errors
    /// [`crate::Error::Length`] for slices that do not fit the network.
    pub fn logits(&mut self, parameters: &[f32], images: &[f32]) -> Result<Vec<f32>> {
        let classes = self.cpu.plan().classes;
        let mut out = vec![0.0; self.check(parameters, images)? * classes];
        let mode = DropoutMode::Predict(self.seed);
        self.cpu.forward(
            &[parameters],
            images,
            |_| mode,
            (&mut out, classes),
            |_, z, _, out| {
                copy_rows(z, classes, out);
            },
        );
        Ok(out)
    }

    /// Inputs of the last layer, or the value that was asked for, `[n, features]`.
    ///
    /// # Errors
    /// [`crate::Error::Length`] for slices that do not fit the network.
    pub fn features(&mut self, parameters: &[f32], images: &[f32]) -> Result<Vec<f32>> {
        let width = self.feature_count();
        let mut out = vec![0.0; self.check(parameters, images)? * width];
        let mode = DropoutMode::Predict(self.seed);
        self.cpu.forward(
            &[parameters],
            images,
            |_| mode,
            (&mut out, width),
            |_, _, x, out| {
                copy_rows(x, width, out);
            },
        );
        Ok(out)
    }

    /// Class probabilities `[n, classes]`.
    ///
    /// # Errors
    /// [`crate::Error::Length`] for slices that do not fit the network.
    pub fn probabilities(&mut self, parameters: &[f32], images: &[f32]) -> Result<Vec<f32>> {
        self.mean_probabilities(&[parameters], images)
    }

    /// Class probabilities `[n, classes]`, the mean over samples of the weights; dropout that stays on has another mask for each.
    ///
    /// Monte Carlo dropout is the same weights many times.
    ///
    /// # Errors
    /// [`crate::Error::Length`] for slices that do not fit the network, [`crate::Error::OutOfRange`] without samples.
    pub fn mean_probabilities(&mut self, samples: &[&[f32]], images: &[f32]) -> Result<Vec<f32>> {
        check_range("samples", samples.len(), usize::MAX, "1..")?;
        let classes = self.cpu.plan().classes;
        let mut count = 0;
        for sample in samples {
            count = self.check(sample, images)?;
        }
        let mut out = vec![0.0; count * classes];
        let share = 1.0 / samples.len() as f32;
        let seed = self.seed;
        let together = (TRANSFORMED / self.cpu.transformed_len().max(1)).max(1);
        for (c, sets) in samples.chunks(together).enumerate() {
            let mode = |set: usize| {
                let number = c * together + set;
                // The first sample has the mask of a single prediction.
                DropoutMode::Predict(if number == 0 {
                    seed
                } else {
                    mix(seed ^ mix(number as u64))
                })
            };
            self.cpu
                .forward(sets, images, mode, (&mut out, classes), |_, z, _, out| {
                    let mut row = [0.0f32; 128];
                    let mut heap;
                    let row = if classes <= row.len() {
                        &mut row[..classes]
                    } else {
                        heap = vec![0.0; classes];
                        &mut heap[..]
                    };
                    for (lane, out) in out.chunks_mut(classes).enumerate() {
                        softmax(z, lane, row);
                        out.iter_mut().zip(&*row).for_each(|(a, b)| *a += share * b);
                    }
                });
        }
        Ok(out)
    }
}

/// `[width][16]` to rows per image.
fn copy_rows(block: &[f32], width: usize, out: &mut [f32]) {
    for (lane, row) in out.chunks_mut(width).enumerate() {
        for (k, value) in row.iter_mut().enumerate() {
            *value = block[k * LANES + lane];
        }
    }
}
