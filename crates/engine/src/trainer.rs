//! Training: runs of one network in lock step, each with its own rule, weights and seed, from byte
//! images or from batches of the host.

use std::sync::Arc;

use cbopt::{NonFinite, Optimizer, Rule, State, StepReport};
use images::{Images, Normalization, Table, Visit, check_labels, check_length};
use random::mix;

use crate::backend::{Backend, BatchResult, Job, Source, Task};
use crate::device::Device;
use crate::error::{Error, Result, check_range};
use crate::network::Network;
use crate::predictor::{check_image, check_images};

/// Largest batch.
pub const MAX_BATCH: usize = 4096;

/// How to train.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainerConfig {
    /// Most images of a step, `1..=4096`. Default 128.
    pub batch: usize,
    /// Where. Default: [`Device::default`].
    pub device: Device,
    /// What happens with a gradient that is not finite. Default: the step is refused.
    pub non_finite: NonFinite,
}

impl Default for TrainerConfig {
    fn default() -> Self {
        Self {
            batch: 128,
            device: Device::default(),
            non_finite: NonFinite::Refuse,
        }
    }
}

impl TrainerConfig {
    /// A trainer of `network` with these members, which keep their order.
    ///
    /// # Errors
    /// [`Error::Input`] for a batch or number of threads outside its range, or without
    /// members, or unless every member has one entry per parameter; [`Error::Rule`]
    /// for a state of another rule or length.
    pub fn build(
        &self,
        network: &Network,
        members: impl IntoIterator<Item = Member>,
    ) -> Result<Trainer> {
        check_range("batch", self.batch, MAX_BATCH, "1..=4096")?;
        let count = network.parameter_count();
        let members: Vec<Member> = members.into_iter().collect();
        check_range("members", members.len(), usize::MAX, "1..")?;
        let task = Task::Train {
            batch: self.batch,
            runs: members.len(),
            refuses: self.non_finite == NonFinite::Refuse,
        };
        let backend = self.device.start(&Job { network, task })?;
        let members = members.into_iter().map(|member| {
            check_length("parameters", member.parameters.len(), count)?;
            let executor = backend.executor().non_finite(self.non_finite);
            let mut optimizer = Optimizer::new(member.rule, count, executor);
            if let Some(state) = member.state {
                optimizer.set_state(state)?;
            }
            Ok(Run {
                optimizer,
                parameters: member.parameters,
                seed: member.seed,
                draws: member.draws,
                on_device: false,
                on_host: true,
            })
        });
        let members = members.collect::<Result<Vec<_>>>()?;
        Ok(Trainer {
            config: *self,
            network: network.clone(),
            backend,
            members,
            held: None,
        })
    }
}

/// A run to be trained: from the beginning, or from a [`Snapshot`].
#[derive(Debug, Clone)]
pub struct Member {
    /// Its rule.
    pub rule: Rule,
    /// Its weights, flat, see [`Network::parameters`].
    pub parameters: Vec<f32>,
    /// The state of its rule; `None` before the first step.
    pub state: Option<State>,
    /// Seed of its dropout masks.
    pub seed: u64,
    /// Gradients taken so far, which choose the next dropout mask.
    pub draws: u64,
}

impl Member {
    /// A run before its first step, with seed 0.
    pub fn new(rule: impl Into<Rule>, parameters: Vec<f32>) -> Self {
        Self {
            rule: rule.into(),
            parameters,
            state: None,
            seed: 0,
            draws: 0,
        }
    }

    /// With this seed of the dropout masks.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
}

/// Where a run is: what a [`Member`] needs to go on from here to the same bits.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Its weights.
    pub parameters: Vec<f32>,
    /// The state of its rule.
    pub state: State,
    /// Gradients taken so far.
    pub draws: u64,
}

/// One step of a stretch. What else it needs of the rule follows from the rate and the state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Images of the batch: so many of the stretch's visits.
    pub images: u32,
    /// Learning rate.
    pub lr: f64,
}

/// Steps of one run that are handed over together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stretch<'a> {
    /// Visits to the images that are held, step after step.
    pub visits: &'a [Visit],
    /// The steps; none for a run that rests.
    pub steps: &'a [Step],
}

/// What became of a stretch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stretched {
    /// The steps that were made.
    pub steps: Vec<TrainStep>,
    /// Why the run did not make the next one: its rule refused the gradient, or the rate. Weights
    /// and state are as before it.
    pub stopped: Option<cbopt::Error>,
}

/// Mean loss and correct predictions of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchLoss {
    /// Mean cross-entropy.
    pub loss: f64,
    /// Images whose largest logit is the label's.
    pub correct: usize,
    /// Images.
    pub images: usize,
}

impl BatchLoss {
    fn of(result: BatchResult, labels: &[u32]) -> Self {
        Self {
            loss: result.loss / labels.len() as f64,
            correct: result.correct,
            images: labels.len(),
        }
    }
}

/// What a training step met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainStep {
    /// Loss and correct predictions of the batch before the step.
    pub batch: BatchLoss,
    /// What the rule reports.
    pub report: StepReport,
}

/// One run at work.
pub(crate) struct Run {
    pub optimizer: Optimizer,
    pub parameters: Vec<f32>,
    pub seed: u64,
    pub draws: u64,
    /// Whether the device has the same weights and state, for one with a memory of its own.
    pub on_device: bool,
    /// Whether the host has the weights and state of its last step.
    pub on_host: bool,
}

impl Run {
    /// Seed of the masks of the next gradient.
    fn masks(&self) -> u64 {
        self.masks_of(self.draws)
    }

    /// Seed of the masks of a gradient, by its number.
    pub fn masks_of(&self, draw: u64) -> u64 {
        mix(self.seed ^ mix(draw))
    }

    /// Takes one gradient where the rule wants it.
    fn gather(
        &mut self,
        backend: &mut (impl Backend + ?Sized),
        source: Source<'_>,
        labels: &[u32],
    ) -> Result<BatchLoss> {
        let masks = self.masks();
        let (at, place) = self.optimizer.point(&self.parameters)?;
        self.draws += 1;
        let result = backend.gradient(at, source, labels, masks, place)?;
        self.optimizer.gather(labels.len())?;
        Ok(BatchLoss::of(result, labels))
    }

    /// One step of the rule on a batch, with as many gradients as it takes samples; all or nothing.
    fn step(
        &mut self,
        backend: &mut (impl Backend + ?Sized),
        lr: f64,
        source: Source<'_>,
        labels: &[u32],
    ) -> Result<TrainStep> {
        let samples = self.optimizer.samples();
        let (mut loss, mut correct) = (0.0, 0);
        self.on_device = false;
        let mut attempt = || {
            for _ in 0..samples {
                let batch = self.gather(&mut *backend, source, labels)?;
                loss += batch.loss / f64::from(samples);
                correct += batch.correct;
            }
            Ok(self.optimizer.step(lr, &mut self.parameters)?)
        };
        let report: Result<StepReport> = attempt();
        if report.is_err() {
            self.optimizer.discard();
        }
        Ok(TrainStep {
            report: report?,
            batch: BatchLoss {
                loss,
                correct: correct / samples as usize,
                images: labels.len(),
            },
        })
    }
}

/// The images that visits go to.
pub(crate) struct Held {
    pub images: Arc<Images>,
    pub tables: Vec<Table>,
    /// Labels of the current batch.
    labels: Vec<u32>,
}

/// Trains one network, one or more runs of it in lock step; a run's bits do not depend on the
/// others.
///
/// Training from byte images: [`Trainer::hold`] them once, then [`Trainer::advance`] by stretches
/// of visits. Training from batches of `f32`, `[batch, channels, height, width]`, row-major:
/// [`Trainer::step`].
///
/// ```
/// use engine::{Device, Member, TrainerConfig, zoo};
/// let net = zoo::lenet(10)?;
/// let rule = cbopt::SgdConfig { momentum: 0.9, ..Default::default() }.build()?;
/// let config = TrainerConfig { batch: 16, device: Device::cpu().threads(1), ..Default::default() };
/// let mut trainer = config.build(&net, [Member::new(rule, net.initial_parameters(1))])?;
/// let images: Vec<f32> = (0..16 * 784).map(|i| (i * 31 % 97) as f32 / 97.0).collect();
/// let labels: Vec<u32> = (0..16).map(|i| i % 10).collect();
/// let first = trainer.step(0, 0.1, &images, &labels)?.batch.loss;
/// for _ in 0..20 {
///     trainer.step(0, 0.1, &images, &labels)?;
/// }
/// assert!(trainer.step(0, 0.1, &images, &labels)?.batch.loss < first);
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Trainer {
    config: TrainerConfig,
    network: Network,
    backend: Box<dyn Backend>,
    members: Vec<Run>,
    held: Option<Held>,
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("network", &self.network.name())
            .field("config", &self.config)
            .field("members", &self.members.len())
            .finish_non_exhaustive()
    }
}

/// Methods with a `run` panic if there is no such member; [`Trainer::parameters`],
/// [`Trainer::state`] and [`Trainer::snapshot`] also after [`Trainer::advance_there`] without
/// [`Trainer::fetch`].
impl Trainer {
    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Number of members.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// The rule of a run.
    pub fn rule(&self, run: usize) -> &Rule {
        self.members[run].optimizer.rule()
    }

    /// The state of its rule.
    pub fn state(&self, run: usize) -> &State {
        self.here(run).optimizer.state()
    }

    /// Its weights, flat.
    pub fn parameters(&self, run: usize) -> &[f32] {
        &self.here(run).parameters
    }

    /// A run whose weights and state the host has.
    fn here(&self, run: usize) -> &Run {
        let member = &self.members[run];
        assert!(member.on_host, "run {run} was fetched");
        member
    }

    /// Brings weights and state of a run from the device, unless they are here.
    ///
    /// # Errors
    /// [`Error::Device`] if the device fails.
    pub fn fetch(&mut self, run: usize) -> Result<()> {
        self.backend.fetch(run, &mut self.members[run])
    }

    /// Gradients it has taken so far, which choose the next dropout mask.
    pub fn draws(&self, run: usize) -> u64 {
        self.members[run].draws
    }

    /// Where a run is.
    pub fn snapshot(&self, run: usize) -> Snapshot {
        Snapshot {
            parameters: self.parameters(run).to_vec(),
            state: self.state(run).clone(),
            draws: self.draws(run),
        }
    }

    /// Bytes of values, gradients and scratch memory; weights and the states of the rules not
    /// counted.
    pub fn working_bytes(&self) -> usize {
        self.backend.bytes()
    }

    /// Holds the images that visits go to, instead of those held before.
    ///
    /// # Errors
    /// [`Error::Images`] for images of another shape, [`Error::Input`] for a normalization of
    /// other channels or a label that is not a class of the network.
    pub fn hold(&mut self, images: Arc<Images>, normalization: &Normalization) -> Result<()> {
        check_images(&images, normalization, self.network.input_shape())?;
        check_labels(images.labels(), self.network.classes())?;
        self.held = Some(Held {
            images,
            tables: normalization.tables(),
            labels: Vec::with_capacity(self.config.batch),
        });
        Ok(())
    }

    /// Makes the steps of every run's stretch. A run that its rule stops leaves alone, the others
    /// go on.
    ///
    /// # Errors
    /// [`Error::Order`] if no images are held; [`Error::Input`] unless there is one stretch per
    /// member and its steps take all its visits, or for a batch outside its
    /// range or a visit to no image. Then no step was made.
    pub fn advance(&mut self, stretches: &[Stretch<'_>]) -> Result<Vec<Stretched>> {
        let stretched = self.advance_there(stretches)?;
        for run in 0..self.members.len() {
            self.fetch(run)?;
        }
        Ok(stretched)
    }

    /// As [`Trainer::advance`], but weights and states may stay on the device: for stretches whose
    /// end nobody looks at. [`Trainer::fetch`] brings them.
    ///
    /// # Errors
    /// As [`Trainer::advance`].
    pub fn advance_there(&mut self, stretches: &[Stretch<'_>]) -> Result<Vec<Stretched>> {
        let Some(held) = &mut self.held else {
            return Err(Error::Order("no images are held: call hold first"));
        };
        check_length("stretches", stretches.len(), self.members.len())?;
        for stretch in stretches {
            let mut images = 0;
            for step in stretch.steps {
                check_batch(step.images as usize, self.config.batch)?;
                images += step.images as usize;
            }
            check_length("visits", stretch.visits.len(), images)?;
            for visit in stretch.visits {
                check_image(visit.image, &held.images)?;
            }
        }
        self.backend.advance(&mut self.members, held, stretches)
    }

    fn check_images(&self, images: &[f32], labels: &[u32]) -> Result<()> {
        check_batch(labels.len(), self.config.batch)?;
        let size = self.network.input_shape().len();
        check_length("images", images.len(), labels.len() * size)?;
        Ok(check_labels(labels, self.network.classes())?)
    }

    /// One step of a run on a batch of the host, with as many gradients as its rule takes samples.
    ///
    /// # Errors
    /// [`Error::Input`] for data that do not fit;
    /// [`Error::Rule`] if the rule refuses the step.
    pub fn step(
        &mut self,
        run: usize,
        lr: f64,
        images: &[f32],
        labels: &[u32],
    ) -> Result<TrainStep> {
        self.check_images(images, labels)?;
        self.fetch(run)?;
        let run = &mut self.members[run];
        if run.optimizer.is_gathering() {
            return Err(Error::Order("micro-batches are pending: call apply first"));
        }
        run.step(&mut *self.backend, lr, Source::Floats(images), labels)
    }

    /// Adds the gradient of a micro-batch, weighted by its images; [`Trainer::apply`] then makes
    /// the step with the mean. For a rule that takes several samples of the weights it is the
    /// gradient at the next of them.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn accumulate(&mut self, run: usize, images: &[f32], labels: &[u32]) -> Result<BatchLoss> {
        self.check_images(images, labels)?;
        self.fetch(run)?;
        let source = Source::Floats(images);
        self.members[run].gather(&mut *self.backend, source, labels)
    }

    /// One step of the rule with the mean gradient of the micro-batches, which are forgotten then.
    /// A step that is refused for another reason than their gradient, such as a learning rate out
    /// of range, can be tried again.
    ///
    /// # Errors
    /// [`Error::Order`] if there is none, [`Error::Rule`] if the rule refuses the step.
    pub fn apply(&mut self, run: usize, lr: f64) -> Result<StepReport> {
        let run = &mut self.members[run];
        if !run.optimizer.is_gathering() {
            return Err(Error::Order("no micro-batch was accumulated"));
        }
        run.on_device = false;
        Ok(run.optimizer.step(lr, &mut run.parameters)?)
    }

    /// The gradient that the last step of a run was made with; empty before the first.
    pub fn last_gradient(&self, run: usize) -> &[f32] {
        self.members[run].optimizer.gradient()
    }

    /// Gradient of the mean loss of a batch at the weights of a run, into `out`; no step is made.
    /// It counts as a draw of the dropout masks, see [`Trainer::draws`].
    ///
    /// # Errors
    /// As [`Trainer::step`]; [`Error::Input`] unless `out` has one entry per parameter.
    pub fn gradient(
        &mut self,
        run: usize,
        images: &[f32],
        labels: &[u32],
        out: &mut [f32],
    ) -> Result<BatchLoss> {
        self.check_images(images, labels)?;
        check_length("gradient", out.len(), self.network.parameter_count())?;
        self.fetch(run)?;
        let run = &mut self.members[run];
        let (masks, source) = (run.masks(), Source::Floats(images));
        run.draws += 1;
        let parameters = &run.parameters;
        let result = self
            .backend
            .gradient(parameters, source, labels, masks, out)?;
        Ok(BatchLoss::of(result, labels))
    }
}

/// Makes the steps of one run after another, every gradient by the device and every update by the
/// host.
pub(crate) fn in_turn(
    backend: &mut (impl Backend + ?Sized),
    runs: &mut [Run],
    held: &mut Held,
    stretches: &[Stretch<'_>],
) -> Result<Vec<Stretched>> {
    let runs = runs.iter_mut().zip(stretches);
    runs.map(|(run, stretch)| held.stretch(run, backend, stretch))
        .collect()
}

impl Held {
    fn stretch(
        &mut self,
        run: &mut Run,
        backend: &mut (impl Backend + ?Sized),
        stretch: &Stretch<'_>,
    ) -> Result<Stretched> {
        let mut stretched = Stretched {
            steps: Vec::with_capacity(stretch.steps.len()),
            stopped: None,
        };
        let mut visits = stretch.visits;
        for step in stretch.steps {
            let (batch, later) = visits.split_at(step.images as usize);
            visits = later;
            let labels = self.images.labels();
            self.labels.clear();
            self.labels
                .extend(batch.iter().map(|visit| labels[visit.image as usize]));
            let source = Source::Bytes {
                images: &self.images,
                tables: &self.tables,
                visits: batch,
            };
            match run.step(&mut *backend, step.lr, source, &self.labels) {
                Ok(step) => stretched.steps.push(step),
                Err(Error::Rule(error)) => {
                    stretched.stopped = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(stretched)
    }
}

/// `Ok` if a batch has so many images.
fn check_batch(images: usize, most: usize) -> Result<()> {
    check_range("images of a batch", images, most, "1..=batch")
}
