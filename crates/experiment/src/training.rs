//! The training of runs that share network, data and batch, in lock step: steps, epochs,
//! validation, the best weights, checkpoints. Each run keeps its own place and ends on its own;
//! none of its bits depend on the others.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cbopt::{Rule, Schedule, StepReport};
use datasets::{Augmentation, Order, OrderConfig};
use engine::{Input, Predictor, PredictorConfig, Step, Stretch, Stretched, Trainer, TrainerConfig};
use evaluation::record::{EpochPoint, Updates};
use images::Visit;
use random::Seeds;

use crate::checkpoint::{Expected, Progress, Snapshot, Writer};
use crate::config::RunConfig;
use crate::data::RunData;
use crate::error::{Error, Result};
use crate::observer::Event;
use crate::predictive::{Swag, Trained};
use crate::run::{CHECKPOINT, Run, RunOptions};

/// Time between two events about steps.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What a training that came to its end leaves.
#[derive(Debug)]
pub(crate) struct Finished {
    pub progress: Progress,
    /// The weights of lowest validation loss.
    pub best: Option<Arc<Trained>>,
    /// The weights after the last step.
    pub last: Trained,
}

/// What a member does next.
#[derive(Debug)]
enum Next {
    /// More steps.
    Train,
    /// Nothing: it was asked to stop, and its state is saved.
    Stop,
    /// Nothing: all epochs are over.
    Finish,
}

/// Trains members of one network, data and batch to the end; `None` for one that was asked to stop
/// before. A member that fails leaves alone.
pub(crate) fn train(
    mut members: Vec<Member<'_>>,
    options: &RunOptions<'_>,
) -> Vec<Result<Option<Finished>>> {
    let count = members.len();
    let mut group = match Group::start(&mut members, options) {
        Ok(group) => group,
        Err(error) => return fail_all(error, count),
    };
    let mut results: Vec<Option<Result<Option<Finished>>>> = (0..count).map(|_| None).collect();
    for (run, member) in members.iter_mut().enumerate() {
        member.tell(Event::Started {
            epochs: member.config.train.epochs,
            epochs_done: member.progress.epoch,
            steps_per_epoch: member.order.steps(),
        });
        if member.is_over() {
            results[run] = Some(member.finish(run, &group.trainer).map(Some));
        }
    }
    while results.iter().any(Option::is_none) {
        let clock = Instant::now();
        let active = results.iter().filter(|result| result.is_none()).count();
        for (member, result) in members.iter_mut().zip(&results) {
            member.prepare(if result.is_none() { group.stretch } else { 0 });
        }
        let stretches: Vec<Stretch<'_>> = members.iter().map(Member::stretch).collect();
        let stretched = match group.trainer.advance(&stretches) {
            Ok(stretched) => stretched,
            Err(error) => {
                let left = fail_all(error.into(), active);
                let empty = results.iter_mut().filter(|result| result.is_none());
                empty
                    .zip(left)
                    .for_each(|(place, error)| *place = Some(error));
                break;
            }
        };
        // the runs share the time
        let seconds = clock.elapsed().as_secs_f64() / active as f64;
        for (run, stretched) in stretched.iter().enumerate() {
            if results[run].is_some() {
                continue;
            }
            let member = &mut members[run];
            results[run] = match member.take(run, stretched, seconds, &mut group) {
                Ok(Next::Train) => None,
                Ok(Next::Stop) => Some(member.writer.finish().map(|()| None)),
                Ok(Next::Finish) => Some(member.finish(run, &group.trainer).map(Some)),
                Err(error) => Some(Err(error)),
            };
        }
    }
    results.into_iter().flatten().collect()
}

/// The same failure for everybody.
fn fail_all(error: Error, count: usize) -> Vec<Result<Option<Finished>>> {
    let message = error.to_string();
    let others = (1..count).map(|_| Error::Together(message.clone()));
    std::iter::once(error).chain(others).map(Err).collect()
}

/// What the members share.
struct Group {
    trainer: Trainer,
    predictor: Predictor,
    /// Steps that are handed over together.
    stretch: usize,
}

impl Group {
    fn start(members: &mut [Member<'_>], options: &RunOptions<'_>) -> Result<Self> {
        let data = members.first().map(|member| member.data);
        let data = data.expect("a training has members");
        let batch = members[0].config.train.batch;
        let device = members[0].config.on(options.device)?;
        let starts = members.iter_mut().filter_map(|member| member.start.take());
        let trainer = TrainerConfig {
            batch,
            device,
            ..TrainerConfig::default()
        };
        let mut trainer = trainer.build(&data.network, starts)?;
        trainer.hold(Arc::clone(data.set.images()), &data.normalization)?;
        let predictor = PredictorConfig {
            device,
            ..PredictorConfig::default()
        };
        Ok(Self {
            trainer,
            predictor: predictor.build(&data.network)?,
            stretch: device.stretch(&data.network, members.len()),
        })
    }
}

/// One run of a training, between two steps.
pub(crate) struct Member<'a> {
    config: &'a RunConfig,
    name: &'a str,
    data: &'a RunData,
    options: &'a RunOptions<'a>,
    schedule: Schedule,
    order: Order,
    /// The visits of the epoch at work, once it has begun.
    visits: Vec<Visit>,
    /// The steps that are handed over next.
    steps: Vec<Step>,
    validation_labels: Vec<u32>,
    /// Seed of the masks of dropout that stays on when validating.
    validation_seed: u64,
    /// What the trainer begins with.
    start: Option<engine::Member>,
    swag: Option<Arc<Swag>>,
    best: Option<Arc<Trained>>,
    progress: Progress,
    writer: Writer,
    saved: Instant,
    told: Instant,
}

impl<'a> Member<'a> {
    /// The beginning of a run, or where its checkpoint is.
    pub fn new(
        run: &'a Run,
        name: &'a str,
        data: &'a RunData,
        options: &'a RunOptions<'a>,
    ) -> Result<Self> {
        let config = run.config();
        let seeds = Seeds::new(config.seed);
        let rule: Rule = config
            .optimizer
            .build(data.train.len(), seeds.stream("ivon"))?;
        let order = order(config, data, seeds)?;
        let path = run.directory().join(CHECKPOINT);
        let (mut progress, now, best) = if Snapshot::is_there(&path) {
            let note = |note: &str| options.observer.event(name, Event::Note(note));
            resume(&path, (config, &rule), data, order.steps(), note)?
        } else {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.map_or(0, |now| now.as_secs());
            let progress = Progress::new(now, data.train.len());
            (progress, begin(config, data, seeds)?, None)
        };
        let device = config.on(options.device)?;
        progress.device = device.name().to_owned();
        progress.precision = device.precision().name().to_owned();
        progress.data = Some(data.set.digest().to_owned());
        Ok(Self {
            config,
            name,
            data,
            options,
            schedule: config.build_schedule()?,
            order,
            visits: Vec::new(),
            steps: Vec::new(),
            validation_labels: data.labels(&data.validation),
            validation_seed: seeds.stream("validation"),
            start: Some(engine::Member {
                rule,
                parameters: now.parameters,
                state: now.optimizer.map(|(_, state)| state),
                seed: seeds.stream("dropout"),
                draws: progress.draws,
            }),
            swag: now.swag,
            best,
            progress,
            writer: Writer::new(path),
            saved: Instant::now(),
            told: Instant::now(),
        })
    }

    fn tell(&self, event: Event<'_>) {
        self.options.observer.event(self.name, event);
    }

    fn is_over(&self) -> bool {
        self.progress.epoch == self.config.train.epochs
    }

    /// Gets at most so many steps of the epoch ready.
    fn prepare(&mut self, most: usize) {
        self.steps.clear();
        if most == 0 {
            return;
        }
        let (epoch, first) = (self.progress.epoch, self.progress.step);
        if self.visits.is_empty() {
            self.order.visits(epoch as u64, &mut self.visits);
        }
        for step in first..self.order.steps().min(first + most) {
            self.steps.push(Step {
                images: self.order.step(step).len() as u32,
                lr: self.rate(epoch, step),
            });
        }
    }

    /// The steps that are ready, with their visits.
    fn stretch(&self) -> Stretch<'_> {
        if self.steps.is_empty() {
            return Stretch::default();
        }
        let first = self.progress.step;
        let begin = self.order.step(first).start;
        let end = self.order.step(first + self.steps.len() - 1).end;
        Stretch {
            visits: &self.visits[begin..end],
            steps: &self.steps,
        }
    }

    /// The learning rate of a step of an epoch.
    fn rate(&self, epoch: usize, step: usize) -> f64 {
        let steps = self.order.steps();
        self.schedule
            .rate_at_step((epoch * steps + step) as u64, steps as u64)
    }

    /// Takes in what became of a stretch; ends the epoch and saves where it is time.
    fn take(
        &mut self,
        run: usize,
        stretched: &Stretched,
        seconds: f64,
        group: &mut Group,
    ) -> Result<Next> {
        self.progress.train_s += seconds;
        self.progress.epoch_s += seconds;
        self.add_steps(stretched)?;
        let ended = self.progress.step == self.order.steps();
        if ended {
            self.finish_epoch(run, group)?;
        }
        let (over, stop) = (self.is_over(), self.options.stop.is_raised());
        if over || stop || self.is_save_due() {
            self.save(run, &group.trainer)?;
        }
        Ok(match (over, stop) {
            (true, _) => Next::Finish,
            (false, true) => Next::Stop,
            (false, false) => Next::Train,
        })
    }

    /// Adds up the steps of a stretch; refuses what diverged.
    fn add_steps(&mut self, stretched: &Stretched) -> Result<()> {
        let epoch = self.progress.epoch;
        let diverged = |member: &Self, what: String| Error::Diverged {
            what,
            step: (epoch * member.order.steps() + member.progress.step) as u64,
            epoch,
            lr: member.rate(epoch, member.progress.step),
        };
        for step in &stretched.steps {
            let batch = step.batch;
            if !batch.loss.is_finite() {
                return Err(diverged(self, format!("the loss is {}", batch.loss)));
            }
            let progress = &mut self.progress;
            progress.step += 1;
            progress.loss_sum += batch.loss * batch.images as f64;
            progress.correct += batch.correct as u64;
            progress.images += batch.images as u64;
            add_report(&mut progress.updates, &step.report);
        }
        if let Some(error) = &stretched.stopped {
            return Err(diverged(self, error.to_string()));
        }
        if self.told.elapsed() > TELL_EVERY
            && let Some(last) = stretched.steps.last()
        {
            let (step, loss) = (self.progress.step, last.batch.loss);
            self.tell(Event::Step { epoch, step, loss });
            self.told = Instant::now();
        }
        Ok(())
    }

    /// SWAG's snapshot, validation, the best weights, the point of the curves.
    fn finish_epoch(&mut self, run: usize, group: &mut Group) -> Result<()> {
        let start = Instant::now();
        let epoch = self.progress.epoch;
        let parameters = group.trainer.parameters(run);
        let mut collecting = None;
        if let (Some(config), Some(swag)) = (&self.config.swag, &mut self.swag)
            && epoch >= config.start
        {
            let swag = Arc::make_mut(swag);
            swag.collect(parameters)?;
            collecting = Some(swag.mean().iter().map(|&x| x as f32).collect::<Vec<f32>>());
        }
        let candidate = self.config.swag.is_none() || collecting.is_some();
        // where SWAG collects, its mean is validated
        let parameters = collecting.as_deref().unwrap_or(parameters);
        let (mut validation_loss, mut validation_accuracy) = (None, None);
        if !self.validation_labels.is_empty() {
            let (loss, accuracy) = self.validate(parameters, &mut group.predictor)?;
            (validation_loss, validation_accuracy) = (Some(loss), Some(accuracy));
            if candidate && self.progress.best.is_none_or(|(_, best)| loss < best) {
                self.progress.best = Some((epoch, loss));
                let rule = group.trainer.rule(run);
                let state = || (*rule, group.trainer.state(run).clone());
                self.best = Some(Arc::new(Trained {
                    parameters: parameters.to_vec(),
                    optimizer: rule.predicts_with_state().then(state),
                    swag: self.swag.clone(),
                }));
            }
        }
        let lr = self.rate(epoch, 0);
        let seconds = start.elapsed().as_secs_f64();
        let progress = &mut self.progress;
        progress.validation_s += seconds;
        let images = progress.images as f64;
        let point = EpochPoint {
            epoch,
            lr,
            train_loss: progress.loss_sum / images,
            train_accuracy: progress.correct as f64 / images,
            validation_loss,
            validation_accuracy,
            seconds: progress.epoch_s + seconds,
            updates: Some(progress.updates),
        };
        progress.begin_epoch(point);
        self.visits.clear();
        self.tell(Event::Epoch(&point));
        Ok(())
    }

    /// Loss and accuracy on the validation images.
    fn validate(&self, parameters: &[f32], predictor: &mut Predictor) -> Result<(f64, f64)> {
        let input = Input::Bytes {
            images: self.data.set.images(),
            normalization: &self.data.normalization,
            indices: &self.data.validation,
        };
        let labels = &self.validation_labels;
        let (loss, correct) = predictor.loss(parameters, self.validation_seed, input, labels)?;
        if loss.is_finite() {
            return Ok((loss, correct as f64 / labels.len() as f64));
        }
        let epoch = self.progress.epoch;
        Err(Error::Diverged {
            what: format!("the validation loss is {loss}"),
            step: ((epoch + 1) * self.order.steps()) as u64,
            epoch,
            lr: self.rate(epoch, 0),
        })
    }

    /// The weights as they are, with all that is needed to go on.
    fn now(&self, run: usize, trainer: &Trainer) -> Trained {
        Trained {
            parameters: trainer.parameters(run).to_vec(),
            optimizer: Some((*trainer.rule(run), trainer.state(run).clone())),
            swag: self.swag.clone(),
        }
    }

    /// Whether it is time for a checkpoint and the last one is written.
    fn is_save_due(&self) -> bool {
        let waited = self.saved.elapsed().as_secs_f64();
        waited >= self.options.checkpoint_seconds && !self.writer.is_busy()
    }

    /// Has the state written beside the training.
    fn save(&mut self, run: usize, trainer: &Trainer) -> Result<()> {
        self.progress.draws = trainer.draws(run);
        self.saved = Instant::now();
        self.writer.begin(Snapshot {
            config: self.config.of_training(),
            progress: self.progress.clone(),
            now: self.now(run, trainer),
            best: self.best.clone(),
        })
    }

    /// What is left when all epochs are over and saved.
    fn finish(&mut self, run: usize, trainer: &Trainer) -> Result<Finished> {
        self.writer.finish()?;
        Ok(Finished {
            progress: self.progress.clone(),
            best: self.best.clone(),
            last: self.now(run, trainer),
        })
    }
}

/// The visits of a training.
fn order(config: &RunConfig, data: &RunData, seeds: Seeds) -> Result<Order> {
    let order = OrderConfig {
        indices: data.train.clone(),
        batch: config.train.batch,
        shuffle: true,
        seed: config.data.shuffle_seed.unwrap_or(seeds.stream("shuffle")),
        augmentation: Augmentation {
            flip: config.data.flip,
            pad: config.data.pad,
        },
    };
    Ok(order.build(data.set.len())?)
}

/// The weights a training begins with.
fn begin(config: &RunConfig, data: &RunData, seeds: Seeds) -> Result<Trained> {
    let mut trained = Trained::new(data.network.initial_parameters(seeds.stream("init")));
    if let Some(swag) = &config.swag {
        let swag = Swag::new(trained.parameters.len(), swag.rank)?;
        trained.swag = Some(Arc::new(swag));
    }
    Ok(trained)
}

/// The place of the checkpoint, the weights there, and the best ones so far.
fn resume(
    path: &Path,
    (config, rule): (&RunConfig, &Rule),
    data: &RunData,
    steps: usize,
    note: impl FnOnce(&str),
) -> Result<(Progress, Trained, Option<Arc<Trained>>)> {
    let expected = Expected {
        config: &config.of_training(),
        rule,
        parameters: data.network.parameter_count(),
        train_images: data.train.len(),
        data: data.set.digest(),
    };
    let (snapshot, remark) = Snapshot::read_latest(path, &expected)?;
    if let Some(remark) = remark {
        note(&remark);
    }
    let mut progress = snapshot.progress;
    let (step, epoch) = (progress.step, progress.epoch);
    // the last step of an epoch is saved as the beginning of the next
    if step >= steps || epoch > config.train.epochs {
        let problem = format!("step {step} of epoch {epoch} is not in this run");
        return Err(Error::malformed(path, problem));
    }
    progress.curves.truncate(epoch);
    progress.resumed += 1;
    Ok((progress, snapshot.now, snapshot.best))
}

/// Adds what a step met.
fn add_report(updates: &mut Updates, report: &StepReport) {
    updates.coordinates += report.coordinates;
    updates.clipped += report.clipped;
    updates.gap_not_positive += report.gap_not_positive;
    updates.skipped += report.skipped_coordinates;
    updates.skipped_steps += u64::from(report.skipped);
}
