//! One run in one directory: train, save, resume, evaluate.
//!
//! ```text
//! DIR/config.toml              the config, every value spelled out
//! DIR/checkpoint.safetensors   the state between two steps: weights, rule, moments, position, curves; replaced as a whole
//! DIR/best.safetensors         weights of lowest validation loss, named as in PyTorch's state dict; written at the end
//! DIR/last.safetensors         weights after the last step, likewise
//! DIR/record.json              the run record, written last: a run with a record is finished
//! DIR/predictions/             probabilities as NPY files, where the config asks for them
//! ```
//!
//! A run killed at any moment goes on from its checkpoint to the same bits: the order of the images, augmentation, dropout masks and noise are
//! functions of the seed and the position, and the position is part of the checkpoint. Saving costs about
//! `4 · parameters · (1 + state + best)` bytes each time, at most once per [`RunOptions::checkpoint_seconds`].

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cbopt::{Rule, Schedule, StepReport};
use datasets::{
    Augmentation, Batches, BatchesConfig, ImageSet, Library, Normalization, Part, SplitOrder,
};
use engine::{Device, Member, Network, Predictor, PredictorConfig, Trainer, TrainerConfig};
use evaluation::record::{EpochPoint, RunRecord, SCHEMA, Timings, Updates};
use random::Seeds;

use crate::config::{RunConfig, SplitKind};
use crate::error::{Error, Result};
use crate::evaluate::Evaluator;
use crate::files;
use crate::hardware;
use crate::observer::{Event, Observer, Stop};
use crate::predictive::swag::Swag;
use crate::snapshot::{Progress, Snapshot, Weights};
use crate::weights;

/// Name of the config in the directory of a run.
pub const CONFIG: &str = "config.toml";
/// Name of the checkpoint.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// Name of the record.
pub const RECORD: &str = "record.json";
/// Weights of lowest validation loss.
pub const BEST: &str = "best.safetensors";
/// Weights after the last step.
pub const LAST: &str = "last.safetensors";

/// What a run needs that does not change its result.
#[derive(Clone, Copy)]
pub struct RunOptions<'a> {
    /// Where datasets come from; decoded sets are shared.
    pub library: &'a Library,
    /// Threads of the engine, `1..=64`.
    pub threads: usize,
    /// Hears what happens.
    pub observer: &'a dyn Observer,
    /// Stops the run after the current step.
    pub stop: &'a Stop,
    /// A checkpoint is written after a step when this many seconds have passed since the last; 0 for every step.
    pub checkpoint_seconds: f64,
}

impl RunOptions<'_> {
    fn device(&self) -> Device {
        Device::cpu().threads(self.threads)
    }
}

impl std::fmt::Debug for RunOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("threads", &self.threads)
            .field("checkpoint_seconds", &self.checkpoint_seconds)
            .finish_non_exhaustive()
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// It is finished, now or before.
    Finished(Box<RunRecord>),
    /// It was asked to stop; its state is saved.
    Stopped,
}

/// A run and its directory.
#[derive(Debug)]
pub struct Run {
    directory: PathBuf,
    config: RunConfig,
}

impl Run {
    /// A new run in a directory that holds nothing of another one.
    ///
    /// # Errors
    /// The directory holds a run already, or cannot be written.
    pub fn create(directory: &Path, config: RunConfig) -> Result<Self> {
        config.check()?;
        if directory.join(CONFIG).exists() {
            return Err(Error::Occupied {
                path: directory.into(),
            });
        }
        for name in [CHECKPOINT, RECORD] {
            let path = directory.join(name);
            if path.exists() {
                let problem =
                    "is left from another run without its config.toml; choose another folder";
                return Err(Error::malformed(&path, problem));
            }
        }
        files::create_folder(directory)?;
        files::write_atomically(&directory.join(CONFIG), config.to_toml().as_bytes())?;
        Ok(Self {
            directory: directory.into(),
            config,
        })
    }

    /// The run in a directory.
    ///
    /// # Errors
    /// There is none, or its config cannot be read.
    pub fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(CONFIG);
        if !path.exists() {
            return Err(Error::NoRun {
                path: directory.into(),
            });
        }
        Ok(Self {
            directory: directory.into(),
            config: RunConfig::read(&path, &[])?,
        })
    }

    /// The run in a directory if it has this config, or a new one if there is none.
    ///
    /// # Errors
    /// There is a run with another config.
    pub fn open_or_create(directory: &Path, config: RunConfig) -> Result<Self> {
        if !directory.join(CONFIG).exists() {
            return Self::create(directory, config);
        }
        let run = Self::open(directory)?;
        if let Some(key) = run.config.difference(&config) {
            let path = directory.join(CONFIG);
            let problem = format!(
                "is the config of another run, {key} differs; choose another folder or remove this one"
            );
            return Err(Error::malformed(&path, problem));
        }
        Ok(run)
    }

    /// The config.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The record, if the run is finished.
    ///
    /// # Errors
    /// The record is there but cannot be read.
    pub fn record(&self) -> Result<Option<RunRecord>> {
        let path = self.directory.join(RECORD);
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(RunRecord::read(&path)?))
    }

    /// Trains from where the run is to the end, evaluates and writes the record.
    ///
    /// # Errors
    /// Data that cannot be had or do not fit, a training that diverged, a file that cannot be written.
    pub fn execute(&self, options: &RunOptions<'_>) -> Result<Outcome> {
        let name = self.config.run_name();
        let found = self.find_or_work(&name, options);
        let event = match &found {
            Ok((Outcome::Finished(record), true)) => Event::Skipped(record),
            Ok((Outcome::Finished(record), false)) => Event::Finished(record),
            Ok((Outcome::Stopped, _)) => Event::Stopped,
            Err(error) => Event::Failed(error),
        };
        options.observer.event(&name, event);
        found.map(|(outcome, _)| outcome)
    }

    /// The outcome, and whether it was there before.
    fn find_or_work(&self, name: &str, options: &RunOptions<'_>) -> Result<(Outcome, bool)> {
        let finished = |record| (Outcome::Finished(Box::new(record)), true);
        if let Some(record) = self.record()? {
            return Ok(finished(record));
        }
        let lock = self.lock()?;
        // whoever held the lock before may have finished it
        if let Some(record) = self.record()? {
            return Ok(finished(record));
        }
        let outcome = self.work(name, options)?;
        drop(lock);
        Ok((outcome, false))
    }

    /// Whether a checkpoint is one of this run: of the same training, on as many images, with all that is needed to go on.
    fn check_snapshot(
        &self,
        snapshot: &Snapshot,
        material: &Material,
    ) -> std::result::Result<(), String> {
        let training = self.config.of_training();
        if let Some(key) = snapshot.config.difference(&training) {
            return Err(format!(
                "belongs to a run with another config, {key} differs; restore {CONFIG} or begin anew elsewhere"
            ));
        }
        let (was, is) = (snapshot.progress.train_images, material.train.len());
        if was != is {
            return Err(format!(
                "belongs to a run with {was} training images, now there are {is}"
            ));
        }
        let with_state = self.config.optimizer.rule.predicts_with_state();
        let count = material.network.parameter_count();
        let parts = [
            ("", Some(&snapshot.now), true),
            ("best.", snapshot.best.as_ref(), with_state),
        ];
        for (prefix, weights, optimizer) in parts {
            let Some(weights) = weights else { continue };
            let found = weights.parameters.len();
            if found != count {
                return Err(format!(
                    "tensor \"{prefix}parameters\" has {found} entries, expected {count}"
                ));
            }
            for (name, needed, there) in [
                ("optimizer", optimizer, weights.optimizer.is_some()),
                ("swag", training.swag.is_some(), weights.swag.is_some()),
            ] {
                if needed && !there {
                    return Err(format!("tensor \"{prefix}{name}\" is missing"));
                }
            }
        }
        if snapshot.progress.best.is_some() != snapshot.best.is_some() {
            return Err("tensor \"best.parameters\" does not go with the progress".into());
        }
        Ok(())
    }

    /// Keeps other processes out until the file is closed; the system lets go when the process dies.
    fn lock(&self) -> Result<File> {
        let path = self.directory.join("lock");
        let file = File::create(&path).map_err(Error::file(&path, "created"))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => Err(Error::Locked {
                path: self.directory.clone(),
            }),
            Err(fs::TryLockError::Error(source)) => Err(Error::file(&path, "locked")(source)),
        }
    }

    fn work(&self, name: &str, options: &RunOptions<'_>) -> Result<Outcome> {
        let material = Material::load(&self.config, options.library)?;
        let mut training = Training::start(self, &material, options)?;
        options.observer.event(
            name,
            Event::Started {
                epochs: self.config.train.epochs,
                epochs_done: training.progress.epoch,
                steps_per_epoch: training.batches.steps(),
            },
        );
        if !training.train(name, options)? {
            return Ok(Outcome::Stopped);
        }
        let Training {
            progress,
            trainer,
            best,
            swag,
            ..
        } = training;
        let last = Weights {
            parameters: trainer.parameters(0).to_vec(),
            optimizer: Some(trainer.state(0).to_bytes()),
            swag: swag.as_ref().map(Swag::to_bytes),
        };
        let rule = *trainer.rule(0);
        drop(trainer);
        weights::write(
            &self.directory.join(LAST),
            &material.network,
            &last.parameters,
        )?;
        if let Some(best) = &best {
            weights::write(
                &self.directory.join(BEST),
                &material.network,
                &best.parameters,
            )?;
        }
        let start = Instant::now();
        let evaluator = Evaluator {
            config: &self.config,
            directory: &self.directory,
            material: &material,
            library: options.library,
            device: options.device(),
            rule: &rule,
        };
        let Some(evaluations) = evaluator.evaluate(&progress, best.as_ref(), &last, |event| {
            options.observer.event(name, event);
            options.stop.is_raised()
        })?
        else {
            return Ok(Outcome::Stopped);
        };
        let mut config = self.config.clone();
        config.optimizer.rule.fill_examples(material.train.len());
        let steps_per_epoch = material.train.len().div_ceil(config.train.batch) as u64;
        let record = RunRecord {
            schema: SCHEMA.into(),
            name: name.into(),
            experiment: config.experiment.clone(),
            dataset: config.data.dataset.clone(),
            network: material.network.name().to_owned(),
            parameters: material.network.parameter_count(),
            rule: config.optimizer.rule.id().into(),
            seed: config.seed,
            config: serde_json::to_value(&config)
                .expect("a checked config has only tables, numbers and words"),
            code: hardware::code(),
            device: options.device().name().to_owned(),
            precision: options.device().precision().to_owned(),
            hardware: hardware::hardware(options.threads, options.device().instruction_set()),
            timings: Timings {
                started_unix: progress.started_unix,
                train_s: progress.train_s,
                validation_s: progress.validation_s,
                evaluation_s: start.elapsed().as_secs_f64(),
                steps: progress.epoch as u64 * steps_per_epoch,
                resumed: progress.resumed,
                peak_memory_bytes: hardware::peak_memory(),
            },
            notes: material.notes.clone(),
            curves: progress.curves,
            evaluations,
        };
        let path = self.directory.join(RECORD);
        let text = record.to_json();
        let text = text.map_err(|error| Error::malformed(&path, error.to_string()))?;
        files::write_atomically(&path, text.as_bytes())?;
        Ok(Outcome::Finished(Box::new(record)))
    }
}

/// Whether the datasets of a config are there and fit its network; what is decoded stays with the library.
///
/// # Errors
/// The first dataset that cannot be had, has other images than the network takes, or too few.
pub fn check_data(config: &RunConfig, library: &Library) -> Result<()> {
    Material::load(config, library).map(drop)
}

/// The network and the data of a run.
pub(crate) struct Material {
    pub network: Network,
    pub set: Arc<ImageSet>,
    pub normalization: Normalization,
    /// What is said of the data, as `set: remark`.
    pub notes: Vec<String>,
    /// Training images.
    pub train: Vec<u32>,
    validation_images: Vec<f32>,
    validation_labels: Vec<u32>,
}

impl Material {
    /// Everything is looked at before the training, that which is needed only after it, too.
    fn load(config: &RunConfig, library: &Library) -> Result<Self> {
        let dataset = &config.data.dataset;
        let set = library.load(dataset, Part::Train)?;
        if set.classes() < 2 {
            let problem = format!("{dataset} has {} class, expected 2 or more", set.classes());
            return Err(Error::setting("data.dataset", problem));
        }
        let network = config.network.build(set.classes())?;
        check_images("data.dataset", &network, dataset, &set)?;
        let mut notes = Vec::new();
        let mut take_notes = |name: &str, set: &ImageSet| {
            for note in set.notes() {
                let note = format!("{name}: {note}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        };
        take_notes(dataset, &set);
        let test = library.load(dataset, Part::Test)?;
        check_images("data.dataset", &network, dataset, &test)?;
        take_notes(dataset, &test);
        for name in &config.data.out_of_domain {
            let other = library.load(name, Part::Test)?;
            check_images("data.out_of_domain", &network, name, &other)?;
            take_notes(name, &other);
        }
        let normalization = normalization_of(dataset, &set);
        let images = config
            .data
            .limit
            .map_or(set.len(), |limit| limit.min(set.len()));
        let order = match config.data.split {
            SplitKind::Index => SplitOrder::Index,
            SplitKind::Shuffled => SplitOrder::Shuffled {
                seed: config.data.split_seed,
            },
        };
        let (train, validation) = datasets::split(images, config.data.validation_share, order)?;
        if train.is_empty() {
            let share = config.data.validation_share;
            let problem = format!("{share} of {images} images leaves none to train on");
            return Err(Error::setting("data.validation_share", problem));
        }
        Ok(Self {
            validation_images: set.normalized_at(&validation, &normalization),
            validation_labels: validation
                .iter()
                .map(|&index| set.labels()[index as usize])
                .collect(),
            network,
            set,
            normalization,
            notes,
            train,
        })
    }
}

/// The constants that go with a known dataset; for one of the user's own, those of its images.
pub(crate) fn normalization_of(name: &str, set: &ImageSet) -> Normalization {
    datasets::manifest::normalization(name).unwrap_or_else(|| Normalization::measured(set.images()))
}

/// `Ok` if there are images, and the network takes them.
fn check_images(field: &str, network: &Network, name: &str, set: &ImageSet) -> Result<()> {
    if set.is_empty() {
        return Err(Error::setting(field, format!("{name} has no images")));
    }
    let (takes, has) = (network.input_shape(), set.shape());
    if takes == has {
        return Ok(());
    }
    let problem = format!(
        "{name} has images of {has}, {} takes {takes}",
        network.name()
    );
    Err(Error::setting(field, problem))
}

/// A training between two steps.
struct Training<'a> {
    run: &'a Run,
    material: &'a Material,
    schedule: Schedule,
    trainer: Trainer,
    predictor: Predictor,
    batches: Batches,
    swag: Option<Swag>,
    best: Option<Weights>,
    progress: Progress,
    /// Seed of the masks of dropout that stays on when validating.
    validation_seed: u64,
    saved: Instant,
}

impl<'a> Training<'a> {
    /// The beginning, or where the checkpoint is.
    fn start(run: &'a Run, material: &'a Material, options: &RunOptions<'_>) -> Result<Self> {
        let config = &run.config;
        let seeds = Seeds::new(config.seed);
        let rule: Rule = config
            .optimizer
            .build(material.train.len(), seeds.stream("ivon"))?;
        let path = run.directory.join(CHECKPOINT);
        let count = material.network.parameter_count();
        let (mut progress, now, best) = if path.exists() {
            let snapshot = Snapshot::read(&path)?;
            run.check_snapshot(&snapshot, material)
                .map_err(|problem| Error::malformed(&path, problem))?;
            let mut progress = snapshot.progress;
            progress.resumed += 1;
            (progress, Some(snapshot.now), snapshot.best)
        } else {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.map_or(0, |now| now.as_secs());
            let progress = Progress::new(now, material.train.len());
            (progress, None, None)
        };
        let parameters = match &now {
            Some(now) => now.parameters.clone(),
            None => material.network.initial_parameters(seeds.stream("init")),
        };
        let mut member = Member::new(rule, parameters).seed(seeds.stream("dropout"));
        let mut swag = match &config.swag {
            Some(swag) => Some(Swag::new(count, swag.rank)?),
            None => None,
        };
        if let Some(now) = &now {
            let malformed =
                |error: &dyn std::fmt::Display| Error::malformed(&path, error.to_string());
            let bytes = now.optimizer.as_deref().unwrap_or_default();
            let state = member
                .rule
                .state_from_bytes(count, bytes)
                .map_err(|error| malformed(&error))?;
            member.state = Some(state);
            member.draws = progress.draws;
            if let (Some(swag), Some(bytes)) = (&mut swag, &now.swag) {
                *swag = Swag::from_bytes(count, bytes).map_err(|error| malformed(&error))?;
            }
        }
        let trainer = TrainerConfig {
            batch: config.train.batch,
            device: options.device(),
            ..TrainerConfig::default()
        }
        .build(&material.network, [member])?;
        let batches = BatchesConfig {
            set: Arc::clone(&material.set),
            indices: material.train.clone(),
            batch: config.train.batch,
            shuffle: true,
            seed: config.data.shuffle_seed.unwrap_or(seeds.stream("shuffle")),
            normalization: material.normalization.clone(),
            augmentation: Augmentation {
                flip: config.data.flip,
                pad: config.data.pad,
            },
        }
        .build()?;
        if progress.step > batches.steps() || progress.epoch > config.train.epochs {
            let (step, epoch) = (progress.step, progress.epoch);
            let problem = format!("step {step} of epoch {epoch} is not in this run");
            return Err(Error::malformed(&path, problem));
        }
        progress.curves.truncate(progress.epoch);
        let predictor = PredictorConfig {
            device: options.device(),
            ..PredictorConfig::default()
        }
        .build(&material.network)?;
        Ok(Self {
            run,
            material,
            schedule: config.build_schedule()?,
            validation_seed: seeds.stream("validation"),
            trainer,
            predictor,
            batches,
            swag,
            best,
            progress,
            saved: Instant::now(),
        })
    }

    /// Trains to the end; `false` if it was asked to stop before.
    fn train(&mut self, name: &str, options: &RunOptions<'_>) -> Result<bool> {
        let epochs = self.run.config.train.epochs;
        while self.progress.epoch < epochs {
            if !self.epoch(name, options)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The rest of the epoch; `false` if it was asked to stop before its end.
    fn epoch(&mut self, name: &str, options: &RunOptions<'_>) -> Result<bool> {
        let epoch = self.progress.epoch;
        let steps = self.batches.steps();
        self.batches.start(epoch as u64, self.progress.step);
        let mut clock = Instant::now();
        // The time since the clock was last read goes to training.
        let mut tick = |progress: &mut Progress| {
            let seconds = clock.elapsed().as_secs_f64();
            progress.train_s += seconds;
            progress.epoch_s += seconds;
            clock = Instant::now();
        };
        let mut told = Instant::now();
        while let Some(batch) = self.batches.next() {
            let step = (epoch * steps + self.progress.step) as u64;
            let lr = self.schedule.rate_at_step(step, steps as u64);
            let diverged = |what: String| Error::Diverged {
                what,
                step,
                epoch,
                lr,
            };
            let (result, report) = match self.trainer.step(0, lr, batch.images, batch.labels) {
                Ok(step) => (step.batch, step.report),
                Err(engine::Error::Rule(error)) => return Err(diverged(error.to_string())),
                Err(error) => return Err(error.into()),
            };
            if !result.loss.is_finite() {
                return Err(diverged(format!("the loss is {}", result.loss)));
            }
            let progress = &mut self.progress;
            progress.step += 1;
            progress.loss_sum += result.loss * result.images as f64;
            progress.right += result.correct as u64;
            progress.images += result.images as u64;
            add_report(&mut progress.updates, &report);
            if told.elapsed() > Duration::from_millis(100) {
                let (step, loss) = (progress.step, result.loss);
                options
                    .observer
                    .event(name, Event::Step { epoch, step, loss });
                told = Instant::now();
            }
            let last = progress.step == steps;
            let stop = options.stop.is_raised();
            // the end of an epoch is saved with the epoch's own work done
            if !last && (stop || self.saved.elapsed().as_secs_f64() >= options.checkpoint_seconds) {
                tick(progress);
                self.save()?;
                if stop {
                    return Ok(false);
                }
            }
        }
        tick(&mut self.progress);
        let start = Instant::now();
        self.finish_epoch(epoch, name, options, start)?;
        let over = self.progress.epoch == self.run.config.train.epochs;
        let stop = options.stop.is_raised();
        if over || stop || self.saved.elapsed().as_secs_f64() >= options.checkpoint_seconds {
            self.save()?;
        }
        Ok(!stop || over)
    }

    /// SWAG's snapshot, validation, the best weights, the point of the curves.
    fn finish_epoch(
        &mut self,
        epoch: usize,
        name: &str,
        options: &RunOptions<'_>,
        start: Instant,
    ) -> Result<()> {
        let mut collecting = None;
        if let (Some(config), Some(swag)) = (&self.run.config.swag, &mut self.swag)
            && epoch >= config.start
        {
            swag.collect(self.trainer.parameters(0))?;
            collecting = Some(swag.mean().iter().map(|&x| x as f32).collect::<Vec<f32>>());
        }
        // Where SWAG collects, its mean is validated.
        let parameters = collecting.as_deref().unwrap_or(self.trainer.parameters(0));
        let (mut validation_loss, mut validation_accuracy) = (None, None);
        if !self.material.validation_labels.is_empty() {
            let labels = &self.material.validation_labels;
            let (loss, correct) = self.predictor.loss(
                parameters,
                self.validation_seed,
                &self.material.validation_images,
                labels,
            )?;
            if !loss.is_finite() {
                return Err(Error::Diverged {
                    what: format!("the validation loss is {loss}"),
                    step: ((epoch + 1) * self.batches.steps()) as u64,
                    epoch,
                    lr: self.rate(epoch),
                });
            }
            validation_loss = Some(loss);
            validation_accuracy = Some(correct as f64 / labels.len() as f64);
            let candidate = self.run.config.swag.is_none() || collecting.is_some();
            if candidate && self.progress.best.is_none_or(|(_, best)| loss < best) {
                self.progress.best = Some((epoch, loss));
                let with_state = self.trainer.rule(0).predicts_with_state();
                self.best = Some(Weights {
                    parameters: parameters.to_vec(),
                    optimizer: with_state.then(|| self.trainer.state(0).to_bytes()),
                    swag: self.swag.as_ref().map(Swag::to_bytes),
                });
            }
        }
        let lr = self.rate(epoch);
        let progress = &mut self.progress;
        let seconds = start.elapsed().as_secs_f64();
        progress.validation_s += seconds;
        let images = progress.images as f64;
        let point = EpochPoint {
            epoch,
            lr,
            train_loss: progress.loss_sum / images,
            train_accuracy: progress.right as f64 / images,
            validation_loss,
            validation_accuracy,
            seconds: progress.epoch_s + seconds,
            updates: Some(progress.updates),
        };
        progress.curves.push(point);
        progress.epoch += 1;
        progress.step = 0;
        (progress.loss_sum, progress.epoch_s) = (0.0, 0.0);
        (progress.right, progress.images) = (0, 0);
        progress.updates = Updates::default();
        options.observer.event(name, Event::Epoch(&point));
        Ok(())
    }

    /// The learning rate at the start of an epoch.
    fn rate(&self, epoch: usize) -> f64 {
        let steps = self.batches.steps();
        self.schedule
            .rate_at_step((epoch * steps) as u64, steps as u64)
    }

    fn save(&mut self) -> Result<()> {
        self.progress.draws = self.trainer.draws(0);
        let snapshot = Snapshot {
            config: self.run.config.of_training(),
            progress: self.progress.clone(),
            now: Weights {
                parameters: self.trainer.parameters(0).to_vec(),
                optimizer: Some(self.trainer.state(0).to_bytes()),
                swag: self.swag.as_ref().map(Swag::to_bytes),
            },
            best: self.best.take(),
        };
        let written = snapshot.write(&self.run.directory.join(CHECKPOINT));
        self.best = snapshot.best;
        self.saved = Instant::now();
        written
    }
}

/// Adds what a step met.
fn add_report(updates: &mut Updates, report: &StepReport) {
    updates.coordinates += report.coordinates;
    updates.clipped += report.clipped;
    updates.gap_not_positive += report.gap_not_positive;
    updates.skipped += report.skipped_coordinates;
    updates.skipped_steps += u64::from(report.skipped);
}
