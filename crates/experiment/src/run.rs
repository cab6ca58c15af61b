//! One run in one directory: train, save, resume, evaluate.
//!
//! ```text
//! DIR/config.toml              the config, every value spelled out
//! DIR/checkpoint.safetensors   the state between two steps: weights, rule, moments, position, curves; replaced as a whole
//! DIR/best.safetensors         weights of lowest validation loss, named as in PyTorch's state dict; written at the end
//! DIR/last.safetensors         weights after the last step, likewise
//! DIR/evaluated.json           rows that are evaluated, where an evaluation was stopped
//! DIR/record.json              the run record, written last: a run with a record is finished
//! DIR/predictions/             probabilities as NPY files, where the config asks for them
//! DIR/failed.json              why the run failed, until it is tried again
//! DIR/lock                     who is at work here
//! ```
//!
//! A run killed at any moment goes on from its checkpoint to the same bits: the order of the
//! images, augmentation, dropout masks and noise are functions of the seed and the position, and
//! the position is part of the checkpoint. Saving costs about `4 · parameters · (1 + state + best)`
//! bytes each time, at most once per [`RunOptions::checkpoint_seconds`].

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use datasets::Library;
use engine::{Device, Network};
use evaluation::record::{EpochPoint, RunRecord, SCHEMA, Timings};
use serde::{Deserialize, Serialize};

use crate::checkpoint::Progress;
use crate::config::{NetworkConfig, RunConfig, read_text, run_name};
use crate::data::RunData;
use crate::error::{Error, Result};
use crate::evaluate::{Evaluator, PREDICTIONS};
use crate::evaluated::{EVALUATED, Evaluated};
use crate::files;
use crate::hardware;
use crate::lock::{self, Holder, Lock};
use crate::model::{self, ModelFile};
use crate::observer::{Event, Observer, Stop};
use crate::remarks;
use crate::training::{self, Finished, Member};
use crate::weights;

/// Name of the config in the directory of a run.
pub const CONFIG: &str = "config.toml";
/// Name of the checkpoint.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// Name of the record.
pub const RECORD: &str = "record.json";
/// Name of the file that says why a run failed.
pub const FAILED: &str = "failed.json";
/// Weights of lowest validation loss.
pub const BEST: &str = "best.safetensors";
/// Weights after the last step.
pub const LAST: &str = "last.safetensors";

/// What a run needs that does not change its result.
#[derive(Clone, Copy)]
pub struct RunOptions<'a> {
    /// Where datasets come from; decoded sets are shared.
    pub library: &'a Library,
    /// Where the runs are trained and evaluated.
    pub device: Device,
    /// Hears what happens.
    pub observer: &'a dyn Observer,
    /// Stops the run after the current step.
    pub stop: &'a Stop,
    /// A checkpoint is written beside the training when this many seconds have passed since the
    /// last one began and it is whole; 0 for one after the other.
    pub checkpoint_seconds: f64,
}

impl std::fmt::Debug for RunOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("device", &self.device)
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
    pub fn create(directory: &Path, mut config: RunConfig) -> Result<Self> {
        config.check()?;
        config.data.settle();
        files::create_folder(directory)?;
        // of several that make the same folder one comes first, and the others see its config
        let _lock = lock::keep_out(directory)?;
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
        files::write_atomically(&directory.join(CONFIG), config.to_toml().as_bytes())?;
        Ok(Self {
            directory: directory.into(),
            config,
        })
    }

    /// A new run of a network that is none of the built-in ones. The section `network` of the
    /// config is replaced by its name and a fingerprint; to resume the run, see [`Run::open_with`].
    ///
    /// # Errors
    /// As [`Run::create`].
    pub fn create_with(directory: &Path, mut config: RunConfig, network: Network) -> Result<Self> {
        config.network = NetworkConfig::custom(&network);
        Self::create(directory, config)
    }

    /// The run in a directory.
    ///
    /// # Errors
    /// There is none, or its config cannot be read.
    pub fn open(directory: &Path) -> Result<Self> {
        Self::open_checked(directory, None)
    }

    /// The run in a directory, whose network is the one that [`Run::create_with`] was given.
    ///
    /// # Errors
    /// There is none, its config cannot be read, or it is a run of another network.
    pub fn open_with(directory: &Path, network: Network) -> Result<Self> {
        Self::open_checked(directory, Some(&network))
    }

    /// The run in a directory; its network is the one that was given, if one was.
    pub(crate) fn open_checked(directory: &Path, network: Option<&Network>) -> Result<Self> {
        let path = directory.join(CONFIG);
        if !path.exists() {
            return Err(Error::no_run(directory));
        }
        files::check_plain(&path)?;
        Ok(Self {
            directory: directory.into(),
            config: match network {
                Some(network) => RunConfig::read_with(&path, network)?,
                None => RunConfig::read(&path, &[])?,
            },
        })
    }

    /// The run in a directory if it has this config, or a new one if there is none.
    ///
    /// # Errors
    /// There is a run with another config.
    pub fn open_or_create(directory: &Path, mut config: RunConfig) -> Result<Self> {
        config.data.settle();
        if !directory.join(CONFIG).exists() {
            match Self::create(directory, config.clone()) {
                // another process came first
                Err(Error::Occupied { .. }) => {}
                created => return created,
            }
        }
        let run = Self::open_checked(directory, config.network.given())?;
        if let Some(key) = run.config.difference(&config) {
            let path = directory.join(CONFIG);
            let problem = format!(
                "is the config of another run, {key} differs; choose another folder or begin this \
                 one anew with --restart"
            );
            return Err(Error::malformed(&path, problem));
        }
        Ok(run)
    }

    /// A new run in a directory, in the place of the one that is there, of which nothing is left.
    ///
    /// # Errors
    /// Another process is at work in the directory, or it cannot be written.
    pub fn restart(directory: &Path, config: RunConfig) -> Result<Self> {
        config.check()?;
        if directory.join(CONFIG).exists() {
            let _lock = Lock::take(directory)?;
            // the config last: what is interrupted in between is begun anew once more
            for entry in fs::read_dir(directory).map_err(Error::file(directory, "read"))? {
                let path = entry.map_err(Error::file(directory, "read"))?.path();
                if is_of_a_run(&path) {
                    files::remove(&path)?;
                }
            }
            files::remove(&directory.join(CONFIG))?;
        }
        Self::open_or_create(directory, config)
    }

    /// Why the run failed, if it did and was not tried again.
    fn failure(&self) -> Option<Failure> {
        Failure::read(&self.directory)
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
    /// The record is there but cannot be read, or is one of another run.
    pub fn record(&self) -> Result<Option<RunRecord>> {
        let path = self.directory.join(RECORD);
        if !path.exists() {
            return Ok(None);
        }
        let record = RunRecord::read(&path)?;
        let name = self.config.run_name();
        if record.name != name {
            let problem = format!("is the record of {:?}, this run is {name:?}", record.name);
            return Err(Error::malformed(&path, problem));
        }
        Ok(Some(record))
    }

    /// Trains from where the run is to the end, evaluates and writes the record.
    ///
    /// # Errors
    /// Data that cannot be had or do not fit, a training that diverged, a file that cannot be
    /// written.
    pub fn execute(&self, options: &RunOptions<'_>) -> Result<Outcome> {
        self.execute_with(None, options)
    }

    /// The same with data that are loaded already, if they are.
    ///
    /// # Errors
    /// As [`Run::execute`].
    pub fn execute_with(&self, data: Option<RunData>, options: &RunOptions<'_>) -> Result<Outcome> {
        // nothing is left to be done, and what is there has to be what was trained
        if let Ok(Some(_)) = self.record() {
            ModelFile::check_files(&self.directory)?;
        }
        let mut outcomes = execute_together(vec![(self, data)], options);
        let outcome = outcomes.pop().expect("there is one outcome for each run");
        if let Err(Error::Locked { holder, .. }) = &outcome {
            let name = self.config.run_name();
            let event = Event::Taken(holder.as_deref());
            options.observer.event(&name, event);
        }
        outcome
    }

    /// The record of a run that is finished; otherwise its data, and the lock of its directory.
    fn begin(&self, data: Option<RunData>, options: &RunOptions<'_>) -> Result<Begun> {
        let record = || -> Result<_> { Ok(self.record()?.map(|r| Begun::Finished(Box::new(r)))) };
        if let Some(finished) = record()? {
            return Ok(finished);
        }
        let lock = Lock::take(&self.directory)?;
        files::remove_temporaries(&self.directory)?;
        // whoever held the lock before may have finished it
        if let Some(finished) = record()? {
            return Ok(finished);
        }
        if let Some(failure) = self.failure().filter(|failure| failure.diverged) {
            return Err(Error::DivergedBefore {
                path: self.directory.clone(),
                reason: failure.reason,
            });
        }
        let data = match data {
            Some(data) => data,
            None => RunData::load(&self.config, options.library)?,
        };
        files::remove(&self.directory.join(FAILED))?;
        Ok(Begun::Unfinished(lock, Box::new(data)))
    }

    /// Writes the weights, evaluates them and writes the record.
    fn evaluate(
        &self,
        name: &str,
        data: &RunData,
        trained: Finished,
        options: &RunOptions<'_>,
    ) -> Result<Outcome> {
        let Finished {
            progress,
            best,
            last,
        } = trained;
        weights::write(&self.directory.join(LAST), &data.network, &last.parameters)?;
        if let Some(best) = &best {
            weights::write(&self.directory.join(BEST), &data.network, &best.parameters)?;
            model::write_posterior(&self.directory, "best", best)?;
        }
        model::write_posterior(&self.directory, "last", &last)?;
        let useless = remarks::of_weights(&self.config, &progress.curves, data);
        if let Some(note) = &useless {
            options.observer.event(name, Event::Note(note));
        }
        let device = progress.keep(self.config.on(options.device));
        let evaluator = Evaluator {
            config: &self.config,
            directory: &self.directory,
            data,
            device,
        };
        let best = best.as_deref().zip(progress.best);
        let best = best.map(|(trained, (epoch, _))| (epoch, trained));
        let last = (progress.epoch - 1, &last);
        let start = Instant::now();
        let candidates = evaluator.fit(best, last)?;
        let fitted = start.elapsed().as_secs_f64();
        model::write_fitted(&self.directory, &candidates)?;
        ModelFile::of(&self.config, data).write(&self.directory)?;
        let place = (name, &*self.directory);
        let mut evaluated = Evaluated::open(place, data, (device, &progress), options)?;
        let evaluations = evaluator.evaluate(candidates, &mut evaluated)?;
        let Some(evaluations) = evaluations else {
            return Ok(Outcome::Stopped);
        };
        let fallback = device.fallback();
        let fallback =
            fallback.map(|problem| format!("device: not the GPU that is there: {problem}"));
        let mut config = self.config.clone();
        config.optimizer.rule.fill_examples(data.train.len());
        let steps_per_epoch = data.train.len().div_ceil(config.train.batch) as u64;
        let record = RunRecord {
            schema: SCHEMA.into(),
            name: name.into(),
            experiment: config.experiment.clone(),
            dataset: data.set.name().to_owned(),
            network: data.network.name().to_owned(),
            parameters: data.network.parameter_count(),
            rule: config.optimizer.rule.id().into(),
            seed: config.seed,
            config: config.to_value(),
            code: hardware::code(),
            device: device.name().to_owned(),
            precision: device.precision().name().to_owned(),
            hardware: hardware::hardware(device.thread_count(), device.instruction_set()),
            timings: Timings {
                started_unix: progress.started_unix,
                train_s: progress.train_s,
                validation_s: progress.validation_s,
                evaluation_s: evaluated.elapsed() + fitted,
                steps: progress.epoch as u64 * steps_per_epoch,
                resumed: progress.resumed,
                peak_memory_bytes: hardware::peak_memory(),
                peak_device_bytes: device.peak_memory().map(|bytes| bytes as u64),
            },
            notes: [
                &data.notes[..],
                &progress.switches,
                useless.as_slice(),
                fallback.as_slice(),
            ]
            .concat(),
            curves: progress.curves,
            evaluations,
        };
        write_record(&self.directory, &record)?;
        evaluated.forget()?;
        Ok(Outcome::Finished(Box::new(record)))
    }
}

/// Writes the record of a run into a folder.
pub(crate) fn write_record(directory: &Path, record: &RunRecord) -> Result<()> {
    let path = directory.join(RECORD);
    let text = record.to_json();
    let text = text.map_err(|error| Error::malformed(&path, error))?;
    files::write_atomically(&path, text.as_bytes())
}

/// Whether a file in the folder of a run was made by the run, its config and lock left out.
fn is_of_a_run(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        [RECORD, FAILED, EVALUATED, model::MODEL, PREDICTIONS].contains(&name)
            || name.ends_with(".safetensors")
            || name.ends_with(".tmp")
    })
}

/// Why a run failed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    schema: String,
    /// Whether it would do so again.
    diverged: bool,
    reason: String,
}

impl Failure {
    /// Leaves the reason in the folder of the run, as well as that can be done: the error itself is
    /// told in any case.
    pub(crate) fn write(directory: &Path, error: &Error) {
        let failure = Self {
            schema: "maxitive-failed/1".into(),
            diverged: error.is_divergence(),
            reason: error.with_causes(),
        };
        let path = directory.join(FAILED);
        let text = files::json(&path, &failure);
        let _ = text.and_then(|text| files::write_atomically(&path, text.as_bytes()));
    }

    fn read(directory: &Path) -> Option<Self> {
        let text = files::read_text(&directory.join(FAILED)).ok()?;
        files::from_json(&text).ok()
    }
}

/// What the folder of a run tells at a glance, whoever is at work in it.
#[derive(Debug, Clone)]
pub struct Glance {
    /// Name of the run.
    pub name: String,
    /// Epochs in all.
    pub epochs: usize,
    /// The epochs behind it, as far as they are saved.
    pub curve: Vec<EpochPoint>,
    /// Whether it has its record.
    pub finished: bool,
    /// Why it failed, if it did and was not tried again.
    pub failed: Option<String>,
    /// Who is at work in it, as far as that is told.
    pub holder: Option<Holder>,
}

/// Looks at the run in a directory; its network need not be known.
///
/// # Errors
/// There is none, or a file of it cannot be read.
pub fn glance(directory: &Path) -> Result<Glance> {
    #[derive(Deserialize)]
    struct Config {
        name: String,
        seed: u64,
        train: Train,
    }
    #[derive(Deserialize)]
    struct Train {
        epochs: usize,
    }
    let path = directory.join(CONFIG);
    if !path.exists() {
        return Err(Error::no_run(directory));
    }
    let config: Config = read_text(&files::read_text(&path)?, &path.display().to_string())?;
    let record = directory.join(RECORD);
    let finished = record.exists();
    let curve = match finished {
        true => RunRecord::read(&record)?.curves,
        false => Progress::read(&directory.join(CHECKPOINT))?
            .map_or(Vec::new(), |progress| progress.curves),
    };
    Ok(Glance {
        name: run_name(&config.name, config.seed),
        epochs: config.train.epochs,
        curve,
        finished,
        failed: Failure::read(directory).map(|failure| failure.reason),
        holder: lock::holder(directory),
    })
}

/// How a run is before it is executed.
enum Begun {
    /// It was finished before.
    Finished(Box<RunRecord>),
    /// There is something left to do.
    Unfinished(Lock, Box<RunData>),
}

/// Most evaluations that share a GPU: each keeps one core busy beside it.
const EVALUATIONS: usize = 8;

/// How many runs are evaluated at a time. On the processor each takes all threads.
fn evaluations_at_a_time(device: Device) -> usize {
    if device.is_cpu() {
        return 1;
    }
    device.thread_count().min(EVALUATIONS)
}

/// Does all work on so many threads; the results are in the order of the work.
fn side_by_side<T: Send>(
    work: Vec<(usize, impl FnOnce() -> T + Send)>,
    threads: usize,
) -> Vec<(usize, T)> {
    let count = work.len();
    let places: Vec<Mutex<Option<(usize, T)>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let left = Mutex::new(work.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || {
        while let Some((place, (number, work))) = next() {
            let result = work();
            let mut place = places[place].lock().unwrap_or_else(PoisonError::into_inner);
            *place = Some((number, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(worker);
        }
        worker();
    });
    let places = places.into_iter().map(Mutex::into_inner);
    let results = places.map(|place| place.unwrap_or_else(PoisonError::into_inner));
    results.flatten().collect()
}

/// Executes runs that share network, data, split and batch in one training; the outcomes are in the
/// order of the runs, and one that fails does not disturb the others. Of a run that another process
/// has there is no event.
pub(crate) fn execute_together(
    runs: Vec<(&Run, Option<RunData>)>,
    options: &RunOptions<'_>,
) -> Vec<Result<Outcome>> {
    let names: Vec<String> = runs.iter().map(|(run, _)| run.config.run_name()).collect();
    let folders: Vec<&Path> = runs.iter().map(|(run, _)| run.directory()).collect();
    let mut outcomes: Vec<Option<Result<Outcome>>> = runs.iter().map(|_| None).collect();
    let mut end = |run: usize, outcome: Result<Outcome>| {
        let event = match &outcome {
            Ok(Outcome::Finished(record)) => Some(Event::Finished(record)),
            Ok(Outcome::Stopped) if options.stop.is_raised() => Some(Event::Stopped),
            Ok(Outcome::Stopped) => Some(Event::Paused),
            Err(Error::Locked { .. }) => None,
            Err(error) => {
                if !matches!(error, Error::DivergedBefore { .. }) {
                    Failure::write(folders[run], error);
                }
                Some(Event::Failed(error))
            }
        };
        if let Some(event) = event {
            options.observer.event(&names[run], event);
        }
        outcomes[run] = Some(outcome);
    };
    let mut skipped = Vec::new();
    let mut unfinished = Vec::new();
    for (number, (run, data)) in runs.into_iter().enumerate() {
        match run.begin(data, options) {
            Ok(Begun::Finished(record)) => skipped.push((number, record)),
            Ok(Begun::Unfinished(lock, data)) => unfinished.push((number, run, lock, data)),
            Err(error) => end(number, Err(error)),
        }
    }
    let (mut members, mut at_work) = (Vec::new(), Vec::new());
    for (number, run, _, data) in &unfinished {
        match Member::new(run, &names[*number], data, options) {
            Ok(member) => {
                for note in &data.notes {
                    options.observer.event(&names[*number], Event::Note(note));
                }
                members.push(member);
                at_work.push((*number, *run, &**data));
            }
            Err(error) => end(*number, Err(error)),
        }
    }
    if !members.is_empty() {
        let trained = training::train(members, options);
        let work = at_work.into_iter().zip(trained).map(|(run, trained)| {
            let (number, run, data) = run;
            let name = &names[number];
            let work = move || {
                trained.and_then(|trained| match trained {
                    Some(trained) => run.evaluate(name, data, trained, options),
                    None => Ok(Outcome::Stopped),
                })
            };
            (number, work)
        });
        let threads = evaluations_at_a_time(options.device);
        for (number, outcome) in side_by_side(work.collect(), threads) {
            end(number, outcome);
        }
    }
    for (number, record) in skipped {
        options
            .observer
            .event(&names[number], Event::Skipped(&record));
        outcomes[number] = Some(Ok(Outcome::Finished(record)));
    }
    outcomes.into_iter().flatten().collect()
}
