//! The training of runs that share network, data and batch, in lock step: steps, epochs,
//! validation, the best weights, checkpoints. Each run keeps its own place and ends on its own;
//! none of its bits depend on the others.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cbopt::{Rule, Schedule, StepReport};
use datasets::{Order, OrderConfig};
use engine::{
    Input, Predictor, PredictorConfig, Sample, Step, Stretch, Stretched, Trainer, TrainerConfig,
};
use evaluation::record::{EpochPoint, Updates};
use images::Visit;
use random::Seeds;

use crate::checkpoint::{Expected, Progress, Snapshot, Writer};
use crate::config::{Balance, RunConfig};
use crate::data::RunData;
use crate::error::{Error, Result};
use crate::observer::Event;
use crate::predictive::{Swag, Trained};
use crate::run::{CHECKPOINT, Run, RunOptions};

/// Time between two events about steps.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Seconds that saving may take when time is limited.
const SAVING: f64 = 1.0;

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
        Err(error) => return fail_all(error, count).map(Err).collect(),
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
        } else if options.stop.is_after(member.progress.epoch) {
            results[run] = Some(Ok(None));
        }
    }
    while results.iter().any(Option::is_none) {
        let clock = Instant::now();
        let active = results.iter().filter(|result| result.is_none()).count();
        for (member, result) in members.iter_mut().zip(&results) {
            member.prepare(if result.is_none() { group.stretch } else { 0 });
        }
        let stretches: Vec<Stretch<'_>> = members.iter().map(Member::stretch).collect();
        let stretched = match group.trainer.advance_there(&stretches) {
            Ok(stretched) => stretched,
            Err(error) => {
                let empty = results.iter_mut().filter(|result| result.is_none());
                empty
                    .zip(fail_all(error.into(), active))
                    .for_each(|(place, error)| *place = Some(Err(error)));
                break;
            }
        };
        options.stop.did_work();
        // the runs share the time
        let seconds = clock.elapsed().as_secs_f64() / active as f64;
        let mut ended = Vec::new();
        for (run, stretched) in stretched.iter().enumerate() {
            if results[run].is_some() {
                continue;
            }
            match members[run].take(stretched, seconds) {
                Ok(true) => ended.push(run),
                Ok(false) => {}
                Err(error) => results[run] = Some(Err(error)),
            }
        }
        for (run, error) in end_epochs(&mut members, &mut group, &ended) {
            results[run] = Some(Err(error));
        }
        group.slowest = group.slowest.max(clock.elapsed().as_secs_f64());
        let stop = options.stop;
        let stop = stop.is_raised() || !stop.leaves(2.0 * group.slowest + SAVING);
        for (run, result) in results.iter_mut().enumerate() {
            if result.is_some() {
                continue;
            }
            let member = &mut members[run];
            let stop = stop || options.stop.is_after(member.progress.epoch);
            *result = match member.next(run, &mut group.trainer, stop) {
                Ok(Next::Train) => None,
                Ok(Next::Stop) => Some(member.writer.finish().map(|()| None)),
                Ok(Next::Finish) => Some(member.finish(run, &group.trainer).map(Some)),
                Err(error) => Some(Err(error)),
            };
        }
    }
    results.into_iter().flatten().collect()
}

/// Ends the epoch of the members that came there, validated together; those that failed.
fn end_epochs(
    members: &mut [Member<'_>],
    group: &mut Group,
    ended: &[usize],
) -> Vec<(usize, Error)> {
    let start = Instant::now();
    let (mut ready, mut failed) = (Vec::new(), Vec::new());
    for &run in ended {
        let fetched = group.trainer.fetch(run).map_err(Error::from);
        match fetched.and_then(|()| members[run].collect(group.trainer.parameters(run))) {
            Ok(mean) => ready.push((run, mean)),
            Err(error) => failed.push((run, error)),
        }
    }
    let losses = match validate(members, group, &ready) {
        Ok(losses) => losses,
        Err(error) => {
            let runs = ready.iter().map(|(run, _)| *run);
            failed.extend(runs.zip(fail_all(error, ready.len())));
            return failed;
        }
    };
    let seconds = start.elapsed().as_secs_f64() / ended.len().max(1) as f64;
    for ((run, mean), loss) in ready.into_iter().zip(losses) {
        let validated = (loss, mean, seconds);
        if let Err(error) = members[run].finish_epoch(run, &group.trainer, validated) {
            failed.push((run, error));
        }
    }
    failed
}

/// Loss and correct predictions of members on their validation images, for those that have some, at
/// the weights of the trainer or the given ones. Members with the same images share a launch.
fn validate(
    members: &[Member<'_>],
    group: &mut Group,
    ready: &[(usize, Option<Vec<f32>>)],
) -> Result<Vec<Option<(f64, usize)>>> {
    let mut losses = vec![None; ready.len()];
    let has_images = |&place: &usize| !members[ready[place].0].validation_labels.is_empty();
    let mut left: Vec<usize> = (0..ready.len()).filter(has_images).collect();
    while let Some(&first) = left.first() {
        let leader = &members[ready[first].0];
        let same =
            |place: &usize| members[ready[*place].0].data.validation == leader.data.validation;
        let (together, others) = left.into_iter().partition::<Vec<usize>, _>(same);
        let samples: Vec<Sample<'_>> = together
            .iter()
            .map(|&place| {
                let (run, mean) = &ready[place];
                let weights = group.trainer.parameters(*run);
                Sample {
                    parameters: mean.as_deref().unwrap_or(weights),
                    seed: members[*run].validation_seed,
                }
            })
            .collect();
        let data = leader.data;
        let input = Input::bytes(data.set.images(), &data.normalization, &data.validation);
        let labels = &leader.validation_labels;
        let found = group.predictor.losses(&samples, input, labels)?;
        for (place, loss) in together.into_iter().zip(found) {
            losses[place] = Some(loss);
        }
        left = others;
    }
    Ok(losses)
}

/// The same failure for everybody.
fn fail_all(error: Error, count: usize) -> impl Iterator<Item = Error> {
    let message = error.to_string();
    let others = (1..count).map(move |_| Error::Together(message.clone()));
    std::iter::once(error).chain(others)
}

/// What the members share.
struct Group {
    trainer: Trainer,
    predictor: Predictor,
    /// Steps that are handed over together.
    stretch: usize,
    /// Seconds of the slowest stretch so far, with its validation.
    slowest: f64,
}

impl Group {
    fn start(members: &mut [Member<'_>], options: &RunOptions<'_>) -> Result<Self> {
        let data = members.first().map(|member| member.data);
        let data = data.expect("a training has members");
        let batch = members[0].config.train.batch;
        let device = members[0].config.on(options.device);
        let device = members[0].progress.keep(device);
        for member in members.iter_mut() {
            if let Some(note) = member.progress.go_on_with(device) {
                options.observer.event(member.name, Event::Note(note));
            }
        }
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
            slowest: 0.0,
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
        let rule = config.rule(data.train.len())?;
        let order = order(config, data, seeds)?;
        let path = run.directory().join(CHECKPOINT);
        let (progress, now, best) = if Snapshot::is_there(&path) {
            let note = |note: &str| options.observer.event(name, Event::Note(note));
            resume(&path, (config, &rule), data, order.steps(), note)?
        } else {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.map_or(0, |now| now.as_secs());
            let progress = Progress::new(now, data.train.len());
            (progress, begin(config, data, seeds)?, None)
        };
        let progress = Progress {
            data: Some(data.set.digest().to_owned()),
            ..progress
        };
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

    /// Takes in what became of a stretch; whether the epoch is at its end.
    fn take(&mut self, stretched: &Stretched, seconds: f64) -> Result<bool> {
        self.progress.train_s += seconds;
        self.progress.epoch_s += seconds;
        self.add_steps(stretched)?;
        Ok(self.progress.step == self.order.steps())
    }

    /// Saves where it is time, and says what comes next; `stop` if that is nothing.
    fn next(&mut self, run: usize, trainer: &mut Trainer, stop: bool) -> Result<Next> {
        let over = self.is_over();
        if over || stop || self.is_save_due() {
            trainer.fetch(run)?;
            self.save(run, trainer)?;
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

    /// SWAG's snapshot of these weights; its mean where it collects, for that is validated.
    fn collect(&mut self, parameters: &[f32]) -> Result<Option<Vec<f32>>> {
        if let (Some(config), Some(swag)) = (&self.config.swag, &mut self.swag)
            && self.progress.epoch >= config.start
        {
            let swag = Arc::make_mut(swag);
            swag.collect(parameters)?;
            return Ok(Some(swag.mean().iter().map(|&x| x as f32).collect()));
        }
        Ok(None)
    }

    /// The best weights, and the point of the curves. Given are loss and correct predictions on the
    /// validation images, SWAG's mean where it was validated, and the seconds it took.
    fn finish_epoch(
        &mut self,
        run: usize,
        trainer: &Trainer,
        (validated, mean, seconds): (Option<(f64, usize)>, Option<Vec<f32>>, f64),
    ) -> Result<()> {
        let epoch = self.progress.epoch;
        let candidate = self.config.swag.is_none() || mean.is_some();
        let (mut validation_loss, mut validation_accuracy) = (None, None);
        if let Some((loss, correct)) = validated {
            self.check_validation(loss)?;
            validation_loss = Some(loss);
            validation_accuracy = Some(correct as f64 / self.validation_labels.len() as f64);
            if candidate && self.progress.best.is_none_or(|(_, best)| loss < best) {
                self.progress.best = Some((epoch, loss));
                let rule = trainer.rule(run);
                let state = || (*rule, trainer.state(run).clone());
                self.best = Some(Arc::new(Trained {
                    parameters: mean.unwrap_or_else(|| trainer.parameters(run).to_vec()),
                    optimizer: self.config.keeps_state().then(state),
                    swag: self.swag.clone(),
                    laplace: None,
                }));
            }
        }
        let lr = self.rate(epoch, 0);
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

    /// `Ok` if the loss on the validation images is a number.
    fn check_validation(&self, loss: f64) -> Result<()> {
        if loss.is_finite() {
            return Ok(());
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
            laplace: None,
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
        let last = trainer.parameters(run);
        if let Some(weight) = last.iter().find(|weight| !weight.is_finite()) {
            let epoch = self.progress.epoch.saturating_sub(1);
            return Err(Error::Diverged {
                what: format!("a weight is {weight} after the last step"),
                step: (self.progress.epoch * self.order.steps()) as u64,
                epoch,
                lr: self.rate(epoch, 0),
            });
        }
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
        augmentation: config.data.augmentation(),
        balance: match config.data.balance {
            Balance::None => None,
            Balance::Sampling => Some(data.labels(&data.train)),
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
