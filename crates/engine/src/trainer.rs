//! Training: gradients of batches, steps of any rule, accumulation over micro-batches.

use std::sync::Arc;

use cbopt::{Executor, NonFinite, Optimizer, Rule, State, StepReport, Update};
use machine::Isa;
use random::mix;

use crate::cpu::{BatchResult, Cpu};
use crate::error::{Error, Result};
use crate::network::{Network, check_length};
use crate::plan::{Plan, PlanOptions};
use crate::twin::check_labels;

/// Largest batch.
pub const MAX_BATCH: usize = 4096;
/// Most threads.
pub const MAX_THREADS: usize = 64;

/// How to train.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainerConfig {
    /// Most images per call, `1..=4096`. Default 128.
    pub batch: usize,
    /// Threads, `1..=64`. Default: as many as the machine has, at most 8. The result does not depend on it.
    pub threads: usize,
    /// Instruction set. Default: the widest of the machine.
    pub isa: Isa,
    /// Whether 3×3 convolutions use Winograd's form where it pays. Default yes.
    pub winograd: bool,
    /// Seed of the dropout masks. Default 0.
    pub seed: u64,
    /// What happens with a gradient that is not finite. Default: the step is refused.
    pub non_finite: NonFinite,
}

impl Default for TrainerConfig {
    fn default() -> Self {
        Self {
            batch: 128,
            threads: default_threads(),
            isa: Isa::detect(),
            winograd: true,
            seed: 0,
            non_finite: NonFinite::Refuse,
        }
    }
}

/// Threads of the machine, at most 8.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(8))
}

/// `Ok` if `value` is in `1..=most`.
pub(crate) fn check_range(
    field: &'static str,
    value: usize,
    most: usize,
    range: &'static str,
) -> Result<()> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::OutOfRange {
        field,
        value: value as f64,
        range,
    })
}

impl TrainerConfig {
    /// A trainer of `network` with `rule`, starting from `parameters`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a batch or number of threads outside its range, [`Error::Length`] unless there is one entry per
    /// parameter.
    pub fn build(
        &self,
        network: &Network,
        rule: impl Into<Rule>,
        parameters: Vec<f32>,
    ) -> Result<Trainer> {
        check_range("batch", self.batch, MAX_BATCH, "1..=4096")?;
        check_range("threads", self.threads, MAX_THREADS, "1..=64")?;
        let count = network.parameter_count();
        check_length("parameters", parameters.len(), count)?;
        let plan = Plan::new(
            network,
            PlanOptions {
                training: true,
                winograd: self.winograd,
                winograd_everywhere: false,
                fuse_pooling: true,
                features: None,
            },
        );
        let cpu = Cpu::new(plan, self.batch, self.threads, self.isa);
        // The threads have just worked on the gradient when the update comes.
        let executor = Executor::sharing(Arc::clone(cpu.workers()))
            .isa(self.isa)
            .non_finite(self.non_finite);
        Ok(Trainer {
            config: *self,
            cpu,
            optimizer: Optimizer::new(rule, count, executor),
            gradient: None,
            network: network.clone(),
            parameters,
            draws: 0,
        })
    }
}

/// Mean loss and hits of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchLoss {
    /// Mean cross-entropy.
    pub loss: f64,
    /// Images whose largest logit is the label's.
    pub right: usize,
    /// Images.
    pub images: usize,
}

/// What a training step met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainStep {
    /// Loss and hits of the batch before the step.
    pub batch: BatchLoss,
    /// What the rule reports.
    pub report: StepReport,
}

/// Trains one network. Images are `[batch, channels, height, width]`, row-major.
///
/// The weights of a dense layer or convolution, γ, β and τ lie in one flat vector, see [`Network::parameters`].
///
/// ```
/// use engine::{TrainerConfig, zoo};
/// let net = zoo::lenet(10)?;
/// let rule = cbopt::SgdConfig { momentum: 0.9, ..Default::default() }.build()?;
/// let config = TrainerConfig { batch: 16, threads: 1, ..Default::default() };
/// let mut trainer = config.build(&net, rule, net.initial_parameters(1))?;
/// let images: Vec<f32> = (0..16 * 784).map(|i| (i * 31 % 97) as f32 / 97.0).collect();
/// let labels: Vec<u32> = (0..16).map(|i| i % 10).collect();
/// let first = trainer.step(0.1, &images, &labels)?.batch.loss;
/// for _ in 0..20 {
///     trainer.step(0.1, &images, &labels)?;
/// }
/// assert!(trainer.gradient(&images, &labels)?.loss < first);
/// # Ok::<(), engine::Error>(())
/// ```
pub struct Trainer {
    config: TrainerConfig,
    network: Network,
    cpu: Cpu,
    optimizer: Optimizer,
    parameters: Vec<f32>,
    /// The gradient of [`Trainer::gradient`], unless a step came after it.
    gradient: Option<Vec<f32>>,
    /// Gradients taken, for the dropout masks.
    draws: u64,
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("network", &self.network.name())
            .field("rule", &self.rule().id())
            .field("config", &self.config)
            .field("steps", &self.state().steps())
            .finish_non_exhaustive()
    }
}

impl Trainer {
    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The rule.
    pub fn rule(&self) -> &Rule {
        self.optimizer.rule()
    }

    /// The state of the rule.
    pub fn state(&self) -> &State {
        self.optimizer.state()
    }

    /// Continues from this state of the rule.
    ///
    /// # Errors
    /// [`Error::Rule`] if it is one of another rule or of other parameters.
    pub fn set_state(&mut self, state: State) -> Result<()> {
        Ok(self.optimizer.set_state(state)?)
    }

    /// The plan that is executed.
    pub fn plan(&self) -> &Plan {
        self.cpu.plan()
    }

    /// The instruction set that is used.
    pub fn isa(&self) -> Isa {
        self.cpu.isa()
    }

    /// Threads, the calling one included.
    pub fn threads(&self) -> usize {
        self.cpu.workers().count()
    }

    /// Bytes of values, gradients and scratch memory; parameters and the state of the rule not counted.
    pub fn working_bytes(&self) -> usize {
        self.cpu.bytes()
    }

    /// The parameters, flat.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// Replaces the parameters; the state of the rule stays.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn set_parameters(&mut self, parameters: &[f32]) -> Result<()> {
        check_length("parameters", parameters.len(), self.parameters.len())?;
        self.parameters.copy_from_slice(parameters);
        Ok(())
    }

    /// The gradient that was computed last, flat: the mean over the micro-batches of a step.
    pub fn gradients(&self) -> &[f32] {
        self.gradient
            .as_deref()
            .unwrap_or_else(|| self.optimizer.gradient())
    }

    /// Number of gradients taken so far, which chooses the next dropout mask; to be restored when a run continues.
    pub fn draws(&self) -> u64 {
        self.draws
    }

    /// Continues with the dropout masks after this many gradients.
    pub fn set_draws(&mut self, draws: u64) {
        self.draws = draws;
    }

    fn check_batch(&self, images: &[f32], labels: &[u32]) -> Result<()> {
        if !(1..=self.config.batch).contains(&labels.len()) {
            return Err(Error::OutOfRange {
                field: "number of labels",
                value: labels.len() as f64,
                range: "1..=batch",
            });
        }
        let size = self.network.input_shape().len();
        check_length("images", images.len(), labels.len() * size)?;
        check_labels(labels, self.network.classes())
    }

    /// Seed of the next dropout masks.
    fn draw(&mut self) -> u64 {
        let seed = mix(self.config.seed ^ mix(self.draws));
        self.draws += 1;
        seed
    }

    /// Gradient of the mean loss of a batch at the parameters, left in [`Trainer::gradients`]; no step is made. It counts as a
    /// draw of the dropout masks, see [`Trainer::draws`].
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Length`] or [`Error::Label`] for data that do not fit.
    pub fn gradient(&mut self, images: &[f32], labels: &[u32]) -> Result<BatchLoss> {
        self.check_batch(images, labels)?;
        let seed = self.draw();
        let count = self.parameters.len();
        let gradient = self.gradient.get_or_insert_with(|| vec![0.0; count]);
        let result = self
            .cpu
            .gradient(&self.parameters, images, labels, seed, gradient);
        Ok(mean_loss(&result, labels))
    }

    /// The next gradient that the optimizer asks for.
    fn gather(&mut self, images: &[f32], labels: &[u32]) -> Result<BatchLoss> {
        let seed = self.draw();
        self.gradient = None;
        let (at, gradient) = self.optimizer.point(&self.parameters)?;
        let result = self.cpu.gradient(at, images, labels, seed, gradient);
        self.optimizer.gather(labels.len())?;
        Ok(mean_loss(&result, labels))
    }

    /// One step of the rule on a batch. A rule that takes several samples of the weights gets the gradient at each.
    ///
    /// # Errors
    /// As [`Trainer::gradient`]; [`Error::Rule`] if the rule refuses the step; [`Error::Order`] while micro-batches are pending.
    pub fn step(&mut self, lr: f64, images: &[f32], labels: &[u32]) -> Result<TrainStep> {
        self.check_batch(images, labels)?;
        if self.optimizer.is_gathering() {
            return Err(Error::Order("micro-batches are pending: call apply first"));
        }
        let step = self.step_of_samples(lr, images, labels);
        if step.is_err() {
            // What a refused step has gathered belongs to other data than the next one.
            self.optimizer.discard();
        }
        step
    }

    fn step_of_samples(&mut self, lr: f64, images: &[f32], labels: &[u32]) -> Result<TrainStep> {
        let samples = self.optimizer.samples();
        let mut batch = self.gather(images, labels)?;
        if samples > 1 {
            batch.loss /= f64::from(samples);
            for _ in 1..samples {
                let next = self.gather(images, labels)?;
                batch.loss += next.loss / f64::from(samples);
                batch.right += next.right;
            }
            batch.right /= samples as usize;
        }
        let report = self.optimizer.step(lr, &mut self.parameters)?;
        Ok(TrainStep { batch, report })
    }

    /// Adds the gradient of a micro-batch, weighted by its images; [`Trainer::apply`] then makes the step with the mean. For a rule
    /// that takes several samples of the weights it is the gradient at the next of them.
    ///
    /// # Errors
    /// As [`Trainer::gradient`]; [`Error::Rule`] if the rule refuses the micro-batch.
    pub fn accumulate(&mut self, images: &[f32], labels: &[u32]) -> Result<BatchLoss> {
        self.check_batch(images, labels)?;
        self.gather(images, labels)
    }

    /// One step of the rule with the mean gradient of the micro-batches, which are forgotten then. A step that is refused for another
    /// reason than their gradient, such as a learning rate out of range, can be tried again.
    ///
    /// # Errors
    /// [`Error::Order`] if there is none, [`Error::Rule`] if the rule refuses the step.
    pub fn apply(&mut self, lr: f64) -> Result<StepReport> {
        if !self.optimizer.is_gathering() {
            return Err(Error::Order("no micro-batch was accumulated"));
        }
        Ok(self.optimizer.step(lr, &mut self.parameters)?)
    }
}

fn mean_loss(result: &BatchResult, labels: &[u32]) -> BatchLoss {
    BatchLoss {
        loss: result.loss / labels.len() as f64,
        right: result.right,
        images: labels.len(),
    }
}
