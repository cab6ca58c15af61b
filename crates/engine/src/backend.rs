//! What stands behind trainer and predictor: something that runs a plan on a device.

use images::{Images, Table, Visit};

use crate::error::Result;
use crate::network::{Network, Value};
use crate::plan::{Plan, Purpose};
use crate::predictor::cross_entropy;
use crate::trainer::{Held, Run, Stretch, Stretched, in_turn};

/// Images of a batch, wherever they lie.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// `[n, channels, height, width]`, row-major.
    Floats(&'a [f32]),
    /// Visits to byte images; a byte becomes its entry in the table of its channel.
    Bytes {
        images: &'a Images,
        tables: &'a [Table],
        visits: &'a [Visit],
    },
}

impl Source<'_> {
    /// Number of images of `size` entries.
    ///
    /// # Panics
    /// If the images have another size, there are fewer tables than channels, or a visit goes to no
    /// image.
    pub fn count(&self, size: usize) -> usize {
        match self {
            Self::Floats(values) => {
                assert!(values.len().is_multiple_of(size), "whole images");
                values.len() / size
            }
            Self::Bytes {
                images,
                tables,
                visits,
            } => {
                assert_eq!(images.shape().len(), size, "size of the images");
                assert!(tables.len() >= images.shape().channels, "tables");
                let inside = |visit: &Visit| (visit.image as usize) < images.len();
                assert!(visits.iter().all(inside), "visits to images that are there");
                visits.len()
            }
        }
    }
}

/// Loss and correct predictions of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct BatchResult {
    /// Sum of the cross-entropies.
    pub loss: f64,
    /// Images whose largest logit is the label's.
    pub correct: usize,
}

/// A set of weights to predict with.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The weights, flat.
    pub parameters: &'a [f32],
    /// Seed of the masks of dropout that stays on.
    pub seed: u64,
}

/// What a prediction is to give.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wanted {
    /// `[n, classes]`, of the last sample.
    Logits,
    /// `[n, features]`, of the last sample.
    Features,
    /// `[n, classes]`: each sample adds its share.
    Probabilities { share: f32 },
}

/// Runs one plan. Lengths are checked by the callers; a backend may assert them.
pub(crate) trait Backend: Send {
    /// Gradient of the mean loss of a batch of `labels.len()` images, with dropout masks from
    /// `seed`.
    fn gradient(
        &mut self,
        parameters: &[f32],
        source: Source<'_>,
        labels: &[u32],
        seed: u64,
        gradient: &mut [f32],
    ) -> Result<BatchResult>;

    /// Writes or adds what is wanted to the rows of `out`, one per image, for each sample in turn.
    fn forward(
        &mut self,
        samples: &[Sample<'_>],
        source: Source<'_>,
        wanted: Wanted,
        out: &mut [f32],
    ) -> Result<()>;

    /// Loss and hits of each sample on the images of these labels, of `classes` classes.
    fn losses(
        &mut self,
        samples: &[Sample<'_>],
        source: Source<'_>,
        labels: &[u32],
        classes: usize,
    ) -> Result<Vec<BatchResult>> {
        let mut logits = vec![0.0; labels.len() * classes];
        let losses = samples.chunks(1).map(|sample| {
            self.forward(sample, source, Wanted::Logits, &mut logits)?;
            Ok(cross_entropy(&logits, labels, classes))
        });
        losses.collect()
    }

    /// Adds the probabilities of every sample, in their order, to the rows of `sums`.
    fn add_probabilities(
        &mut self,
        samples: &[Sample<'_>],
        source: Source<'_>,
        sums: &mut [f64],
    ) -> Result<()> {
        let mut rows = vec![0.0; sums.len()];
        for sample in samples.chunks(1) {
            rows.fill(0.0);
            let wanted = Wanted::Probabilities { share: 1.0 };
            self.forward(sample, source, wanted, &mut rows)?;
            let added = sums.iter_mut().zip(&rows);
            added.for_each(|(sum, p)| *sum += f64::from(*p));
        }
        Ok(())
    }

    /// Sets of weights that are worth handing over at once.
    fn samples_together(&self) -> usize {
        1
    }

    /// Makes the steps of every run's stretch, one of them for each run. A run that its rule stops
    /// leaves alone. A device with a memory of its own may keep weights and states there
    /// ([`Run::on_host`] says so) until [`Backend::fetch`].
    fn advance(
        &mut self,
        runs: &mut [Run],
        held: &mut Held,
        stretches: &[Stretch<'_>],
    ) -> Result<Vec<Stretched>> {
        in_turn(self, runs, held, stretches)
    }

    /// Brings weights and state of the run of this number to the host.
    fn fetch(&mut self, _number: usize, _run: &mut Run) -> Result<()> {
        Ok(())
    }

    /// What updates weights and states that lie in the host's memory.
    fn executor(&self) -> cbopt::Executor;

    /// Bytes of values, gradients and scratch memory.
    fn bytes(&self) -> usize;
}

/// What a device is asked to run.
pub(crate) struct Job<'a> {
    pub network: &'a Network,
    pub task: Task,
}

/// What it is to do with the network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Task {
    /// Gradients of at most `batch` images, for `runs` runs at a time; whether an unusable one is
    /// refused.
    Train {
        batch: usize,
        runs: usize,
        refuses: bool,
    },
    /// The forward pass, with this value as features.
    Predict { features: Option<Value> },
}

impl Job<'_> {
    /// The plan of the task.
    pub fn plan(&self) -> Plan {
        Plan::new(
            self.network,
            match self.task {
                Task::Train { .. } => Purpose::TRAINING,
                Task::Predict { features } => Purpose {
                    training: false,
                    features,
                },
            },
        )
    }

    /// Most images of a gradient.
    pub fn batch(&self) -> usize {
        match self.task {
            Task::Train { batch, .. } => batch,
            Task::Predict { .. } => 1,
        }
    }
}
