//! Training: gradients of batches, steps of any rule, accumulation over micro-batches.

use std::sync::Arc;

use cbopt::{Executor, Noise, NonFinite, Rule, State, StepReport, Update};
use machine::Isa;
use random::mix;

use crate::cpu::Cpu;
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
        let rule = rule.into();
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
            executor,
            state: rule.state(count),
            gradient: vec![0.0; count],
            gathered: Vec::new(),
            gathered_images: 0,
            sampled: if matches!(rule, Rule::Ivon(_)) {
                vec![0.0; count]
            } else {
                Vec::new()
            },
            network: network.clone(),
            rule,
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
    executor: Executor,
    rule: Rule,
    state: State,
    parameters: Vec<f32>,
    gradient: Vec<f32>,
    /// Sum of gradients times images, and images, of micro-batches.
    gathered: Vec<f32>,
    gathered_images: usize,
    /// Weights at which the gradient is taken, for rules that perturb them.
    sampled: Vec<f32>,
    /// Gradients taken, for the dropout masks.
    draws: u64,
}

impl std::fmt::Debug for Trainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trainer")
            .field("network", &self.network.name())
            .field("rule", &self.rule.id())
            .field("config", &self.config)
            .field("steps", &self.state.steps())
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
        &self.rule
    }

    /// The state of the rule.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Continues from this state of the rule.
    pub fn set_state(&mut self, state: State) {
        self.state = state;
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

    /// The gradient that was computed last, flat.
    pub fn gradients(&self) -> &[f32] {
        &self.gradient
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

    fn take_gradient(&mut self, sampled: bool, images: &[f32], labels: &[u32]) -> BatchLoss {
        let seed = mix(self.config.seed ^ mix(self.draws));
        self.draws += 1;
        let parameters = if sampled {
            &self.sampled
        } else {
            &self.parameters
        };
        let result = self
            .cpu
            .gradient(parameters, images, labels, seed, &mut self.gradient);
        BatchLoss {
            loss: result.loss / labels.len() as f64,
            right: result.right,
            images: labels.len(),
        }
    }

    /// Gradient of the mean loss of a batch at the parameters, left in [`Trainer::gradients`]; no step is made. It counts as a
    /// draw of the dropout masks, see [`Trainer::draws`].
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Length`] or [`Error::Label`] for data that do not fit.
    pub fn gradient(&mut self, images: &[f32], labels: &[u32]) -> Result<BatchLoss> {
        self.check_batch(images, labels)?;
        Ok(self.take_gradient(false, images, labels))
    }

    /// The gradient at perturbed weights for `ivon`, at the parameters for all other rules.
    fn gradient_for_rule(&mut self, images: &[f32], labels: &[u32]) -> Result<BatchLoss> {
        if let Rule::Ivon(ivon) = &self.rule {
            ivon.perturb(
                &self.executor,
                &self.parameters,
                &self.state,
                Noise::Current,
                &mut self.sampled,
            )?;
            return Ok(self.take_gradient(true, images, labels));
        }
        Ok(self.take_gradient(false, images, labels))
    }

    /// One step of the rule on a batch. `ivon` takes its gradients at perturbed weights, as many as it has samples.
    ///
    /// # Errors
    /// As [`Trainer::gradient`]; [`Error::Rule`] if the rule refuses the step; [`Error::Order`] while micro-batches are pending.
    pub fn step(&mut self, lr: f64, images: &[f32], labels: &[u32]) -> Result<TrainStep> {
        self.check_batch(images, labels)?;
        if self.gathered_images > 0 {
            return Err(Error::Order("micro-batches are pending: call apply first"));
        }
        if let Rule::Ivon(ivon) = &self.rule
            && ivon.config().mc_samples > 1
        {
            return self.step_of_samples(lr, images, labels);
        }
        let batch = self.gradient_for_rule(images, labels)?;
        let report = self.rule.step_on(
            &self.executor,
            lr,
            &mut self.parameters,
            &self.gradient,
            &mut self.state,
        )?;
        Ok(TrainStep { batch, report })
    }

    fn step_of_samples(&mut self, lr: f64, images: &[f32], labels: &[u32]) -> Result<TrainStep> {
        let Rule::Ivon(ivon) = self.rule.clone() else {
            unreachable!("only called for ivon")
        };
        let samples = ivon.config().mc_samples;
        let (mut loss, mut right) = (0.0, 0);
        // What a step that came to nothing has left behind belongs to other data.
        ivon.discard(&mut self.state)?;
        for _ in 0..samples {
            let batch = self.gradient_for_rule(images, labels)?;
            loss += batch.loss / samples as f64;
            right += batch.right;
            let noise = Noise::Current;
            let added = ivon.add_sample(&self.executor, &self.gradient, noise, &mut self.state);
            if !matches!(added, Ok(true)) {
                ivon.discard(&mut self.state)?;
                added?;
                let report = StepReport {
                    step: self.state.steps(),
                    skipped: true,
                    ..StepReport::default()
                };
                return Ok(TrainStep { batch, report });
            }
        }
        let report = ivon.apply(&self.executor, lr, &mut self.parameters, &mut self.state);
        if report.is_err() {
            ivon.discard(&mut self.state)?;
        }
        let report = report?;
        let batch = BatchLoss {
            loss,
            right: right / samples as usize,
            images: labels.len(),
        };
        Ok(TrainStep { batch, report })
    }

    /// Adds the gradient of a micro-batch, weighted by its images; [`Trainer::apply`] then makes the step.
    ///
    /// `ivon` needs `micro_batches` and one sample in its config. A micro-batch that `ivon` leaves out because of an unusable gradient
    /// is not counted; the other rules see the mean gradient when the step is made.
    ///
    /// # Errors
    /// As [`Trainer::gradient`]; [`Error::Rule`] if the rule refuses the micro-batch.
    pub fn accumulate(&mut self, images: &[f32], labels: &[u32]) -> Result<BatchLoss> {
        self.check_batch(images, labels)?;
        let batch = self.gradient_for_rule(images, labels)?;
        let weight = labels.len();
        if let Rule::Ivon(ivon) = &self.rule {
            let added = ivon.add_micro_batch(
                &self.executor,
                &self.gradient,
                weight as f64,
                &mut self.state,
            )?;
            if !added {
                return Ok(batch);
            }
        } else {
            if self.gathered_images == 0 {
                self.gathered.clear();
                self.gathered.resize(self.gradient.len(), 0.0);
            }
            for (sum, g) in self.gathered.iter_mut().zip(&self.gradient) {
                *sum += weight as f32 * g;
            }
        }
        self.gathered_images += weight;
        Ok(batch)
    }

    /// One step of the rule with the mean gradient of the micro-batches, which are forgotten then. A step that is refused for another
    /// reason than their gradient, such as a learning rate out of range, can be tried again.
    ///
    /// # Errors
    /// [`Error::Order`] if there is none, [`Error::Rule`] if the rule refuses the step.
    pub fn apply(&mut self, lr: f64) -> Result<StepReport> {
        if self.gathered_images == 0 {
            return Err(Error::Order("no micro-batch was accumulated"));
        }
        let report = if let Rule::Ivon(ivon) = &self.rule {
            ivon.apply(&self.executor, lr, &mut self.parameters, &mut self.state)
        } else {
            let share = 1.0 / self.gathered_images as f32;
            for (g, sum) in self.gradient.iter_mut().zip(&self.gathered) {
                *g = share * sum;
            }
            self.rule.step_on(
                &self.executor,
                lr,
                &mut self.parameters,
                &self.gradient,
                &mut self.state,
            )
        };
        if matches!(report, Ok(_) | Err(cbopt::Error::NonFiniteGradient { .. })) {
            self.gathered_images = 0;
        }
        Ok(report?)
    }
}
