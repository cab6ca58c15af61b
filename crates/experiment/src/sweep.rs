//! A grid of runs over methods, seeds and hyper-parameters, as a TOML file.
//!
//! ```toml
//! name = "ablation-vartheta"             # becomes `experiment` of every run
//! configs = ["ucbopt.toml"]              # the methods, relative to this file, or names of configs that are built in
//! row = "ϑ = {optimizer.vartheta}"       # optional: names the first row of a run by its values
//!
//! [set]                                  # optional: settings for all runs
//! train.epochs = 30
//!
//! [[rows]]                               # optional: a row that every run gives beside its own
//! row = "{row}, bounds"                  # {row} is the name of the run's first one
//! predictive = "possibilistic"
//!
//! [grid]                                 # all combinations
//! seed = [0, 1, 2]
//! optimizer.vartheta = [0.0, 8e-6]
//! ```
//!
//! Instead of a grid, or for each of its points, values can be drawn, and runs that others leave
//! behind can be dropped early ([`search`]):
//!
//! ```toml
//! [random]
//! trials = 27                            # the same seed gives the same trials
//! seed = 0                               # default 0
//! [random.keys]
//! optimizer.lr = { low = 1e-4, high = 0.1, scale = "log" }   # or "linear", the default
//! train.batch = { low = 16, high = 256 } # whole numbers give whole numbers
//! data.flip = [true, false]
//!
//! [halving]
//! eta = 3                                # one run in 3 goes on, for 3 times the epochs
//! epochs = 1                             # of the first round
//! metric = "validation_loss"             # or "validation_accuracy"; the best value so far
//! ```
//!
//! Rows are averaged over the seeds and over nothing else: where the grid has several values of
//! another key, the names of the rows say which, as in `uCBOpt, lr = 0.01`, and runs that would
//! still give one row twice are refused. A section in `[set]` that names its `rule` or `shape`
//! takes the place of the config's.
//!
//! Every run has a folder of its own, named after the method, the values of the grid and the seed.
//! Finished runs are skipped, interrupted ones go on, and one that fails does not stop the rest.
//! Several processes, on one machine or on many that share the folder, may work on one sweep: each
//! takes what no other has ([`lock`](crate::lock)), and each run is trained once. In a search they
//! wait for each other at the end of a round.
//! Where time is limited ([`Stop::within`](crate::Stop::within)), runs are left for the next time
//! that, by what the others took, could not end in what is left of it.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::{Device, Network};
use evaluation::record::{EpochPoint, RunRecord};
use serde::Deserialize;

use crate::config::{RunConfig, apply_setting, is_letter_of_a_name, parse_table, read_text, set};
use crate::error::{Error, Result};
use crate::files;
use crate::lock::Holder;
use crate::observer::Event;
use crate::preset;
use crate::run::{self, Failure, Outcome, Run, RunOptions};
use crate::search::{self, Best, Halving, MAX_RUNS, RandomConfig, Round};
use crate::status;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SweepFile {
    name: String,
    configs: Vec<String>,
    #[serde(default)]
    row: Option<String>,
    #[serde(default)]
    set: toml::Table,
    #[serde(default)]
    rows: Vec<toml::Table>,
    #[serde(default)]
    grid: toml::Table,
    random: Option<RandomConfig>,
    halving: Option<Halving>,
}

/// The runs of a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    name: String,
    runs: Vec<RunConfig>,
    halving: Option<Halving>,
}

/// What a sweep needs that does not change its results.
#[derive(Debug, Clone, Copy)]
pub struct SweepOptions<'a> {
    /// Trainings at a time, at least 1.
    pub jobs: usize,
    /// Most runs of a training, instead of what the device says.
    #[doc(hidden)]
    pub together: Option<usize>,
    /// Most runs of a training, where the device would take more.
    pub at_most: Option<usize>,
    /// Only each n-th run, from the i-th on; `1 <= i <= n`.
    pub shard: Option<(usize, usize)>,
    /// Begins runs anew that failed.
    pub restart: bool,
    /// What every run needs; the threads of the device are those of one training.
    pub run: RunOptions<'a>,
}

impl<'a> SweepOptions<'a> {
    /// All runs, one training at a time.
    pub fn new(run: RunOptions<'a>) -> Self {
        Self {
            jobs: 1,
            together: None,
            at_most: None,
            shard: None,
            restart: false,
            run,
        }
    }
}

/// How a sweep ended; runs in the order of the grid.
#[derive(Debug, Default)]
pub struct SweepOutcome {
    /// Records of the finished runs.
    pub finished: Vec<RunRecord>,
    /// Names of the runs that failed, and why.
    pub failed: Vec<(String, Error)>,
    /// Names of the runs that were stopped or not begun.
    pub stopped: Vec<String>,
    /// Names of the runs that a search dropped, and why.
    pub dropped: Vec<(String, String)>,
    /// Names of the runs that other processes are at work on, and which, where that is told.
    pub taken: Vec<(String, Option<Holder>)>,
    /// Whether there was anything to do.
    pub worked: bool,
}

impl Sweep {
    /// The sweep in a TOML file, with `key=value` settings for all runs on top.
    ///
    /// # Errors
    /// A file that cannot be read, no TOML, an unknown key, a run whose config is refused.
    pub fn read(path: &Path, settings: &[String]) -> Result<Self> {
        Self::read_with(path, settings, None)
    }

    /// The same for a network that is given, if one is: all runs train it, and their configs have
    /// no section `network`, or one that this takes the place of.
    ///
    /// # Errors
    /// As [`Sweep::read`].
    pub fn read_with(path: &Path, settings: &[String], network: Option<&Network>) -> Result<Self> {
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        let text = files::read_given(path)?;
        let load = |name: &str| {
            let path: PathBuf = folder.join(name);
            if !path.exists()
                && let Some(text) = preset::run_text(name)
            {
                return Ok((name.to_owned(), text.to_owned()));
            }
            Ok((path.display().to_string(), files::read_text(&path)?))
        };
        Self::parse_with(&text, &path.display().to_string(), settings, network, load)
    }

    /// The sweep in a TOML text; `load` gives origin and text of a config by its name.
    ///
    /// # Errors
    /// No TOML, an unknown key, a run whose config is refused.
    pub fn parse(
        text: &str,
        origin: &str,
        settings: &[String],
        load: impl FnMut(&str) -> Result<(String, String)>,
    ) -> Result<Self> {
        Self::parse_with(text, origin, settings, None, load)
    }

    /// The same for a network that is given, if one is; see [`Sweep::read_with`].
    ///
    /// # Errors
    /// As [`Sweep::parse`].
    pub fn parse_with(
        text: &str,
        origin: &str,
        settings: &[String],
        network: Option<&Network>,
        mut load: impl FnMut(&str) -> Result<(String, String)>,
    ) -> Result<Self> {
        let problem = &Error::config(origin);
        let file: SweepFile = read_text(text, origin)?;
        let drawn = drawn(file.random.as_ref()).map_err(problem)?;
        let axes = [drawn.clone(), flatten(&file.grid, &|_| false)].concat();
        let points = points(&axes, drawn.len()).map_err(problem)?;
        let settings_of_file = flatten(&file.set, &|section| {
            section.contains_key("rule") || section.contains_key("shape")
        });
        if file.configs.is_empty() {
            return Err(problem("configs: there has to be at least one".into()));
        }
        check_runs("grid", points.len(), file.configs.len()).map_err(problem)?;
        let mut runs: Vec<RunConfig> = Vec::new();
        let mut bases = Vec::new();
        for name in &file.configs {
            let (config_origin, text) = load(name)?;
            let base = parse_table(&text, &config_origin)?;
            bases.push((config_origin, base));
        }
        for (config_origin, base) in with_names_of_their_own(bases) {
            for point in &points {
                let mut table = base.clone();
                let experiment = toml::Value::String(file.name.clone());
                set(&mut table, "experiment", experiment).map_err(problem)?;
                let values = settings_of_file.iter().map(|(key, value)| (key, value));
                for (key, value) in values.chain(point.iter().copied()) {
                    set(&mut table, key, value.clone()).map_err(problem)?;
                }
                for setting in settings {
                    apply_setting(&mut table, setting).map_err(problem)?;
                }
                name_by_values(&mut table, point, &axes);
                if let Some(template) = &file.row {
                    let row = fill(template, &table).map_err(problem)?;
                    set(&mut table, "rows.0.row", toml::Value::String(row)).map_err(problem)?;
                }
                add_rows(&mut table, &file.rows).map_err(problem)?;
                let place = format!("{config_origin} (in {origin})");
                runs.push(RunConfig::from_table(table, &place, network)?);
            }
        }
        let mut names: Vec<String> = runs.iter().map(RunConfig::run_name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(problem(format!("two runs are called \"{}\"", pair[0])));
        }
        check_rows(&runs).map_err(problem)?;
        if let Some(halving) = &file.halving {
            check_halving(halving, &runs).map_err(problem)?;
        }
        Ok(Self {
            name: file.name,
            runs,
            halving: file.halving,
        })
    }

    /// A sweep of these runs.
    pub fn of(name: &str, runs: Vec<RunConfig>) -> Self {
        Self {
            name: name.into(),
            runs,
            halving: None,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its runs, methods first, then the grid in the order of its keys.
    pub fn runs(&self) -> &[RunConfig] {
        &self.runs
    }

    /// Its runs, to be changed before it is executed.
    pub fn runs_mut(&mut self) -> &mut Vec<RunConfig> {
        &mut self.runs
    }

    /// Its runs of a shard, by their numbers: each n-th from the i-th on.
    pub fn shard(&self, shard: Option<(usize, usize)>) -> Vec<usize> {
        let (first, of) = shard.unwrap_or((1, 1));
        (first - 1..self.runs.len()).step_by(of).collect()
    }

    /// The best of these finished runs by their validation images, one for each dataset: by the
    /// metric of the search, else by the lowest loss.
    pub fn best(&self, finished: &[RunRecord]) -> Vec<Best> {
        let metric = self.halving.as_ref().map(|halving| halving.metric);
        Best::of(metric.unwrap_or_default(), finished)
    }

    /// Writes down which runs there are, in a folder that is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn list(&self, directory: &Path) -> Result<()> {
        files::create_folder(directory)?;
        let names = self.runs.iter().map(RunConfig::run_name).collect();
        status::list(directory, &self.name, names)
    }

    /// Executes all runs in folders of `directory`, some at a time.
    ///
    /// # Errors
    /// The directory cannot be made, what a search needs of it cannot be read, or a search is to be
    /// cut into shards; what goes wrong in a run is part of the outcome.
    pub fn execute(&self, directory: &Path, options: &SweepOptions<'_>) -> Result<SweepOutcome> {
        if self.halving.is_some() && options.shard.is_some() {
            let problem = "a search compares all of its runs; start several processes without it";
            return Err(Error::setting("shard", problem));
        }
        self.list(directory)?;
        let mut outcome = SweepOutcome::default();
        let mut left = self.shard(options.shard);
        let mut rounds = Vec::new();
        if let Some(halving) = &self.halving {
            (left, rounds) = self.halve(halving, directory, options, &mut outcome)?;
        }
        let failed_before = outcome.failed.len();
        self.finish(left, directory, options, &mut outcome);
        if let Some(halving) = &self.halving
            && outcome.failed.len() > failed_before
        {
            search::write(directory, &self.name, halving, &rounds, &outcome.failed)?;
        }
        Ok(outcome)
    }

    /// Executes runs to their end. As long as there is something to do, runs that another process
    /// had are looked at again, for it may have let go.
    fn finish(
        &self,
        mut left: Vec<usize>,
        directory: &Path,
        options: &SweepOptions<'_>,
        outcome: &mut SweepOutcome,
    ) {
        let folder = |number: usize| directory.join(self.runs[number].run_name());
        let mut ended: Vec<(usize, Option<Result<Outcome>>)> = Vec::new();
        loop {
            let unfinished = |number: &usize| !folder(*number).join(run::RECORD).exists();
            let open: Vec<usize> = left.iter().copied().filter(unfinished).collect();
            let results = self.execute_some(&left, directory, options);
            let (taken, others): (Vec<_>, Vec<_>) = results
                .into_iter()
                .partition(|(_, result)| is_taken(result));
            let worked =
                |(number, result): &(usize, Option<_>)| result.is_some() && open.contains(number);
            let worked = others.iter().any(worked);
            outcome.worked |= worked;
            ended.extend(others);
            if !worked || taken.is_empty() || options.run.stop.is_raised() {
                ended.extend(taken);
                break;
            }
            left = taken.into_iter().map(|(number, _)| number).collect();
        }
        ended.sort_by_key(|(number, _)| *number);
        for (number, result) in ended {
            let name = self.runs[number].run_name();
            let unclear = result.is_none() || is_taken(&result);
            // another process may have finished it since
            let record = (unclear && !options.run.stop.is_raised()).then(|| {
                let given = self.runs[number].network.given();
                Run::open_checked(&folder(number), given).and_then(|run| run.record())
            });
            let result = match record {
                Some(Ok(Some(record))) => {
                    let event = Event::Skipped(&record);
                    options.run.observer.event(&name, event);
                    Some(Ok(Outcome::Finished(Box::new(record))))
                }
                _ => result,
            };
            if let Some(Err(Error::Locked { holder, .. })) = &result {
                let event = Event::Taken(holder.as_deref());
                options.run.observer.event(&name, event);
            }
            outcome.add(name, result);
        }
    }

    /// The epochs behind a run, as far as they are saved.
    fn curve(&self, number: usize, directory: &Path) -> Result<Vec<EpochPoint>> {
        let config = &self.runs[number];
        match directory.join(config.run_name()) {
            folder if folder.join(run::CONFIG).exists() => {
                Run::open_or_create(&folder, config.clone())?;
                run::glance(&folder).map(|run| run.curve)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Trains in rounds, and drops what is left behind; the runs that go on to the end, and the
    /// rounds. Where a round is not over, there are no such runs.
    fn halve(
        &self,
        halving: &Halving,
        directory: &Path,
        options: &SweepOptions<'_>,
        outcome: &mut SweepOutcome,
    ) -> Result<(Vec<usize>, Vec<Round>)> {
        let name = |number: &usize| self.runs[*number].run_name();
        let whole = self.runs.first().map_or(0, |run| run.train.epochs);
        let mut left: Vec<usize> = (0..self.runs.len()).collect();
        let (mut rounds, mut epochs) = (Vec::new(), halving.epochs);
        while epochs < whole {
            let stop = options.run.stop.clone().after_epochs(epochs);
            let run = RunOptions {
                stop: &stop,
                ..options.run
            };
            let round = SweepOptions { run, ..*options };
            let Some(curves) = self.round(&mut left, epochs, directory, &round, outcome)? else {
                outcome.stopped = left.iter().map(name).collect();
                return Ok((Vec::new(), rounds));
            };
            let ranked = halving.rank(epochs, &curves);
            let ranked = ranked.map_err(|problem| Error::Malformed {
                path: directory.into(),
                problem,
            })?;
            for dropped in ranked.runs.iter().filter(|run| !run.kept) {
                let reason = &dropped.reason;
                let event = Event::Dropped { reason };
                options.run.observer.event(&dropped.run, event);
                outcome.dropped.push((dropped.run.clone(), reason.clone()));
                left.retain(|number| name(number) != dropped.run);
            }
            rounds.push(ranked);
            search::write(directory, &self.name, halving, &rounds, &outcome.failed)?;
            epochs = epochs.saturating_mul(halving.eta);
        }
        Ok((left, rounds))
    }

    /// Trains all runs of a round for so many epochs, and waits for those that other processes are
    /// at work on; names and curves, or none if it was stopped. What fails is no longer left.
    fn round(
        &self,
        left: &mut Vec<usize>,
        epochs: usize,
        directory: &Path,
        options: &SweepOptions<'_>,
        outcome: &mut SweepOutcome,
    ) -> Result<Option<Vec<Curve>>> {
        let name = |number: usize| self.runs[number].run_name();
        let mut curves: BTreeMap<usize, Vec<EpochPoint>> = BTreeMap::new();
        let mut told = Vec::new();
        let first_failed = outcome.failed.len();
        loop {
            let mut unfinished = Vec::new();
            for &number in left.iter() {
                if curves.contains_key(&number) {
                    continue;
                }
                match self.curve(number, directory)? {
                    curve if curve.len() < epochs => unfinished.push(number),
                    curve => drop(curves.insert(number, curve)),
                }
            }
            if unfinished.is_empty() {
                break;
            }
            if options.run.stop.is_raised() {
                return Ok(None);
            }
            let (mut waits, mut stopped) = (true, false);
            for (number, result) in self.execute_some(&unfinished, directory, options) {
                waits &= is_taken(&result);
                match result {
                    Some(Err(Error::Locked { holder, .. })) if !told.contains(&number) => {
                        let event = Event::Taken(holder.as_deref());
                        options.run.observer.event(&name(number), event);
                        told.push(number);
                    }
                    Some(Err(Error::Locked { .. })) => {}
                    Some(Err(error)) => {
                        outcome.failed.push((name(number), error));
                        left.retain(|other| *other != number);
                    }
                    None => stopped = true,
                    Some(Ok(_)) => {
                        outcome.worked = true;
                        stopped |= self.curve(number, directory)?.len() < epochs;
                    }
                }
            }
            if stopped {
                return Ok(None);
            }
            if waits {
                std::thread::sleep(WAIT);
            }
        }
        let place = |run: &String| {
            self.runs
                .iter()
                .position(|config| config.run_name() == *run)
        };
        outcome.failed[first_failed..].sort_by_key(|(run, _)| place(run));
        let curves = curves.into_iter();
        let curves = curves.map(|(number, curve)| (name(number), curve));
        Ok(Some(curves.collect()))
    }

    /// Executes runs by their numbers; what is `None` was not begun.
    fn execute_some(
        &self,
        numbers: &[usize],
        directory: &Path,
        options: &SweepOptions<'_>,
    ) -> Vec<(usize, Option<Result<Outcome>>)> {
        let groups = self.groups(numbers, options);
        let next = AtomicUsize::new(0);
        let results: Mutex<HashMap<usize, Result<Outcome>>> = Mutex::default();
        let measured = Measured::default();
        let work = || {
            while let Some(group) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                let configs: Vec<&RunConfig> = group.iter().map(|&n| &self.runs[n]).collect();
                let stop = options.run.stop;
                if stop.is_raised() {
                    return;
                }
                if !stop.could_end(measured.seconds(&configs)) {
                    continue;
                }
                let outcomes = execute_guarded(configs, directory, options);
                for (&number, outcome) in group.iter().zip(outcomes) {
                    if let Ok(Outcome::Finished(record)) = &outcome {
                        measured.add(&self.runs[number], record, options.run.device);
                    }
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results.insert(number, outcome);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..options.jobs.clamp(1, groups.len().max(1)) {
                scope.spawn(work);
            }
            work();
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let results = numbers
            .iter()
            .map(|number| (*number, results.remove(number)));
        results.collect()
    }

    /// The numbers of the runs, those together that are trained together.
    fn groups(&self, numbers: &[usize], options: &SweepOptions<'_>) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        // for each kind of run, the group that was begun last and how many it takes
        let mut open: HashMap<String, (usize, usize)> = HashMap::new();
        for &number in numbers {
            let config = &self.runs[number];
            let (group, most) = open.entry(config.group()).or_insert_with(|| {
                // neither the number of classes nor, within limits, the input matters much
                let network = config.network.build(engine::Shape::new(3, 32, 32), 10).ok();
                let device = config.on(options.run.device);
                let fits = network.map_or(1, |network| device.together(&network));
                let fits = fits.min(options.at_most.unwrap_or(fits)).max(1);
                (usize::MAX, options.together.unwrap_or(fits))
            });
            match groups.get_mut(*group).filter(|group| group.len() < *most) {
                Some(group) => group.push(number),
                None => {
                    *group = groups.len();
                    groups.push(vec![number]);
                }
            }
        }
        groups
    }
}

/// A run and its epochs so far.
type Curve = (String, Vec<EpochPoint>);

/// Time between two looks at runs that other processes are at work on.
const WAIT: Duration = Duration::from_millis(500);

/// Whether another process is at work on a run.
fn is_taken(result: &Option<Result<Outcome>>) -> bool {
    matches!(result, Some(Err(Error::Locked { .. })))
}

impl SweepOutcome {
    fn add(&mut self, name: String, result: Option<Result<Outcome>>) {
        match result {
            Some(Ok(Outcome::Finished(record))) => self.finished.push(*record),
            Some(Ok(Outcome::Stopped)) | None => self.stopped.push(name),
            Some(Err(Error::Locked { holder, .. })) => {
                self.taken.push((name, holder.map(|holder| *holder)));
            }
            Some(Err(error)) => self.failed.push((name, error)),
        }
    }
}

/// Seconds of an epoch and of the evaluation of one run, the most that was measured, for runs that
/// could be trained together.
#[derive(Default)]
struct Measured(Mutex<HashMap<String, (f64, f64)>>);

impl Measured {
    /// Learns from a run of the same device.
    fn add(&self, config: &RunConfig, record: &RunRecord, device: Device) {
        let epochs = record.curves.len();
        if epochs == 0 || record.device != device.name() {
            return;
        }
        let timings = &record.timings;
        let epoch = (timings.train_s + timings.validation_s) / epochs as f64;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let most = all.entry(config.group()).or_default();
        *most = (most.0.max(epoch), most.1.max(timings.evaluation_s));
    }

    /// Seconds that these runs take together; 0 where nothing is known.
    fn seconds(&self, configs: &[&RunConfig]) -> f64 {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = configs.iter().map(|config| {
            let known = all.get(&config.group());
            known.map_or(0.0, |(epoch, evaluation)| {
                epoch * config.train.epochs as f64 + evaluation
            })
        });
        seconds.sum()
    }
}

/// Methods of the same name but for other networks get the network's name in front.
fn with_names_of_their_own(mut bases: Vec<(String, toml::Table)>) -> Vec<(String, toml::Table)> {
    let name = |base: &toml::Table| {
        base.get("name")
            .and_then(toml::Value::as_str)
            .map(str::to_owned)
    };
    let names: Vec<_> = bases.iter().map(|(_, base)| name(base)).collect();
    for ((_, base), own) in bases.iter_mut().zip(&names) {
        let shared = names.iter().filter(|other| *other == own).count() > 1;
        let network = base
            .get("network")
            .and_then(|network| network.get("name"))
            .and_then(toml::Value::as_str);
        if let (true, Some(network), Some(own)) = (shared, network, own) {
            let longer = format!("{network}-{own}");
            base.insert("name".into(), toml::Value::String(longer));
        }
    }
    bases
}

/// Runs that are trained together; a panic inside is an error of theirs.
fn execute_guarded(
    configs: Vec<&RunConfig>,
    directory: &Path,
    options: &SweepOptions<'_>,
) -> Vec<Result<Outcome>> {
    let folder = |config: &RunConfig| directory.join(config.run_name());
    let fail = |config: &RunConfig, error: Error| {
        if !matches!(error, Error::Locked { .. }) {
            let name = config.run_name();
            options.run.observer.event(&name, Event::Failed(&error));
        }
        Err(error)
    };
    let open = |config: &&RunConfig| match folder(config) {
        folder if options.restart && folder.join(run::FAILED).exists() => {
            Run::restart(&folder, (*config).clone())
        }
        folder => Run::open_or_create(&folder, (*config).clone()),
    };
    let runs: Vec<Result<Run>> = configs.iter().map(open).collect();
    let there = runs.iter().flatten().map(|run| (run, None)).collect();
    let execute = AssertUnwindSafe(|| run::execute_together(there, &options.run));
    let outcomes = catch_unwind(execute).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "panic".into());
        let there = configs.iter().zip(&runs).filter(|(_, run)| run.is_ok());
        let panicked = there.map(|(config, _)| {
            let error = Error::Panic(message.clone());
            Failure::write(&folder(config), &error);
            fail(config, error)
        });
        panicked.collect()
    });
    let mut outcomes = outcomes.into_iter();
    let all = configs.iter().zip(runs).map(|(config, run)| match run {
        Ok(_) => outcomes.next().expect("there is one outcome for each run"),
        Err(error) => fail(config, error),
    });
    all.collect()
}

/// The dotted keys of nested tables with their values; a table that is `whole` is a value itself.
fn flatten(
    table: &toml::Table,
    whole: &dyn Fn(&toml::Table) -> bool,
) -> Vec<(String, toml::Value)> {
    let mut all = Vec::new();
    for (key, value) in table {
        match value {
            toml::Value::Table(section) if !whole(section) => {
                let below = flatten(section, whole).into_iter();
                all.extend(below.map(|(word, value)| (format!("{key}.{word}"), value)));
            }
            value => all.push((key.clone(), value.clone())),
        }
    }
    all
}

/// `Ok` if so many times so many runs are not too many; `key` says where they come from.
fn check_runs(key: &str, count: usize, times: usize) -> std::result::Result<(), String> {
    if count.saturating_mul(times) <= MAX_RUNS {
        return Ok(());
    }
    Err(format!("{key}: more than {MAX_RUNS} runs"))
}

/// A value for each key of the grid.
type Point<'a> = Vec<(&'a String, &'a toml::Value)>;

/// All combinations of the lists; the first key varies slowest.
fn grid(axes: &[(String, toml::Value)]) -> std::result::Result<Vec<Point<'_>>, String> {
    let mut points: Vec<Point<'_>> = vec![Vec::new()];
    for (key, values) in axes {
        let values = match values {
            toml::Value::Array(values) if !values.is_empty() => values,
            _ => {
                return Err(format!(
                    "grid.\"{key}\": not a list with at least one value"
                ));
            }
        };
        check_runs("grid", points.len(), values.len())?;
        points = points
            .into_iter()
            .flat_map(|point| {
                values.iter().map(move |value| {
                    let mut longer = point.clone();
                    longer.push((key, value));
                    longer
                })
            })
            .collect();
    }
    Ok(points)
}

/// The keys that are drawn, each with its values in all trials.
fn drawn(random: Option<&RandomConfig>) -> std::result::Result<Vec<(String, toml::Value)>, String> {
    let Some(random) = random else {
        return Ok(Vec::new());
    };
    let keys = flatten(&random.keys, &search::is_range);
    let trials = random.draw(&keys)?;
    let columns = keys.into_iter().enumerate().map(|(place, (key, _))| {
        let values = trials.iter().map(|trial| trial[place].clone()).collect();
        (key, toml::Value::Array(values))
    });
    Ok(columns.collect())
}

/// Every trial at every point of the grid; the first keys are those that are drawn.
fn points(
    axes: &[(String, toml::Value)],
    drawn: usize,
) -> std::result::Result<Vec<Point<'_>>, String> {
    let (drawn, others) = axes.split_at(drawn);
    if let Some((key, _)) = others
        .iter()
        .find(|(key, _)| drawn.iter().any(|d| d.0 == *key))
    {
        return Err(format!("{key}: is in grid and in random.keys"));
    }
    let grid = grid(others)?;
    let column = |values: &'_ toml::Value| values.as_array().map_or(0, Vec::len);
    let trials = drawn.first().map_or(1, |(_, values)| column(values));
    check_runs("random.trials", trials, grid.len())?;
    let all = (0..trials).flat_map(|trial| {
        let values = drawn.iter().map(move |(key, values)| (key, &values[trial]));
        let values: Point<'_> = values.collect();
        grid.iter().map(move |point| [&values[..], point].concat())
    });
    Ok(all.collect())
}

/// `Ok` if all runs can be compared after the same epochs.
fn check_halving(halving: &Halving, runs: &[RunConfig]) -> std::result::Result<(), String> {
    let epochs = runs.first().map_or(0, |run| run.train.epochs);
    halving.check(epochs)?;
    for run in runs {
        if run.train.epochs != epochs {
            let (name, other) = (run.run_name(), run.train.epochs);
            return Err(format!(
                "halving: runs of {epochs} and of {other} epochs ({name}) cannot be compared"
            ));
        }
        if run.data.validation_share == 0.0 {
            let name = run.run_name();
            return Err(format!("halving: {name} has data.validation_share = 0"));
        }
    }
    Ok(())
}

/// Adds the values of a point of the grid to the name of the run, and those of which there are
/// several to the names of its rows.
fn name_by_values(table: &mut toml::Table, point: &Point<'_>, axes: &[(String, toml::Value)]) {
    let mut run = String::new();
    let mut row = String::new();
    for (key, value) in point.iter().filter(|(key, _)| *key != "seed") {
        let last = key.rsplit('.').next().unwrap_or(key);
        let text = show(value);
        let letters: String = text
            .chars()
            .map(|c| if is_letter_of_a_name(c) { c } else { '_' })
            .collect();
        run.push_str(&format!("-{last}={letters}"));
        let several = axes.iter().any(|(name, values)| {
            name == *key && values.as_array().is_some_and(|values| values.len() > 1)
        });
        // tables are of one dataset and network each
        if several && !["data.dataset", "network.name"].contains(&key.as_str()) {
            row.push_str(&format!(", {last} = {text}"));
        }
    }
    if let Some(toml::Value::String(name)) = table.get_mut("name") {
        name.push_str(&run);
    }
    let rows = table.get_mut("rows").and_then(toml::Value::as_array_mut);
    for entry in rows.into_iter().flatten() {
        if let Some(toml::Value::String(name)) = entry.get_mut("row") {
            name.push_str(&row);
        }
    }
}

/// Adds rows to those of a config; `{row}` in their names is the name of its first.
fn add_rows(table: &mut toml::Table, more: &[toml::Table]) -> std::result::Result<(), String> {
    if more.is_empty() {
        return Ok(());
    }
    let Some(rows) = table.get_mut("rows").and_then(toml::Value::as_array_mut) else {
        return Err("rows: a config without rows of its own gets no others".into());
    };
    let first = rows.first().and_then(|row| row.get("row"));
    let first = first.map(show).unwrap_or_default();
    for row in more {
        let mut row = row.clone();
        if let Some(toml::Value::String(name)) = row.get_mut("row") {
            *name = name.replace("{row}", &first);
        }
        rows.push(row.into());
    }
    Ok(())
}

/// Refuses runs that give the same row of a table for the same seed: their values would be
/// averaged.
///
/// # Errors
/// The message has both runs and the row.
pub fn check_rows(runs: &[RunConfig]) -> std::result::Result<(), String> {
    let mut seen: HashMap<(&str, &str, &str, u64), &RunConfig> = HashMap::new();
    for run in runs {
        for row in &run.rows {
            let (dataset, network) = (&run.data.dataset, &run.network.name);
            let key = (
                row.row.as_str(),
                dataset.as_str(),
                network.as_str(),
                run.seed,
            );
            if let Some(other) = seen.insert(key, run) {
                return Err(format!(
                    "the runs \"{}\" and \"{}\" both give the row \"{}\"; name the rows of the configs differently, or by `row`",
                    other.run_name(),
                    run.run_name(),
                    row.row
                ));
            }
        }
    }
    Ok(())
}

/// A value for names: small numbers as `8e-6`, others plainly.
fn show(value: &toml::Value) -> String {
    match value {
        toml::Value::Float(x) if *x != 0.0 && (x.abs() < 1e-3 || x.abs() >= 1e6) => {
            format!("{x:e}")
        }
        toml::Value::Float(x) => x.to_string(),
        toml::Value::String(word) => word.clone(),
        other => other.to_string(),
    }
}

/// The template with `{dotted.key}` replaced by the values of the table.
fn fill(template: &str, table: &toml::Table) -> std::result::Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((key, tail)) = after.split_once('}') else {
            return Err(format!(
                "row: \"{template}\" has a brace that is not closed"
            ));
        };
        let mut place: Option<&toml::Value> = None;
        for (depth, word) in key.split('.').enumerate() {
            place = if depth == 0 {
                table.get(word)
            } else {
                place.and_then(|value| value.get(word))
            };
        }
        let value = place.ok_or_else(|| format!("row: there is no \"{key}\" in the config"))?;
        out.push_str(before);
        out.push_str(&show(value));
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_added_to_every_run() {
        let rows = |name: &str| {
            let sweep = preset::sweep(name, &[]).unwrap();
            let rows = sweep.runs().iter().map(|run| {
                let names = run.rows.iter().map(|row| row.row.clone());
                names.collect::<Vec<_>>()
            });
            rows.collect::<Vec<_>>()
        };
        let (plain, more) = (rows("fmnist"), rows("possibilistic"));
        assert_eq!(plain.len(), more.len());
        for (plain, more) in plain.iter().zip(&more) {
            let added = ["rule's own", "NLL", "right-wrong"];
            let added = added.map(|which| format!("{}, bounds: {which}", plain[0]));
            assert_eq!(*more, [plain.clone(), added.to_vec()].concat());
        }
        let mut table = toml::Table::new();
        assert!(add_rows(&mut table, &[toml::Table::new()]).is_err());
    }

    const CONFIG: &str = r#"
        name = "ucbopt"
        data = { dataset = "fashion-mnist" }
        network = { name = "lenet" }
        train = { epochs = 3 }
        optimizer = { rule = "ucbopt", lr = 0.01, vartheta = 8e-6 }
        rows = [{ row = "uCBOpt", predictive = "point" }]
    "#;

    fn parse(text: &str, settings: &[String]) -> Result<Sweep> {
        Sweep::parse(text, "sweep.toml", settings, |name| match name {
            "ucbopt.toml" => Ok((name.into(), CONFIG.into())),
            _ => Err(Error::setting("configs", format!("no {name}"))),
        })
    }

    #[test]
    fn all_combinations_get_names_of_their_own() {
        let sweep = parse(
            r#"
            name = "ablation"
            configs = ["ucbopt.toml"]
            row = "ϑ = {optimizer.vartheta}"
            [set]
            "train.epochs" = 7
            [grid]
            "optimizer.vartheta" = [0.0, 8e-6]
            seed = [0, 1]
            "#,
            &["train.batch=64".into()],
        )
        .unwrap();
        let names: Vec<String> = sweep.runs().iter().map(RunConfig::run_name).collect();
        assert_eq!(
            names,
            [
                "ucbopt-vartheta=0-seed0",
                "ucbopt-vartheta=0-seed1",
                "ucbopt-vartheta=8e-6-seed0",
                "ucbopt-vartheta=8e-6-seed1"
            ]
        );
        let last = &sweep.runs()[3];
        assert_eq!(last.rows[0].row, "ϑ = 8e-6");
        assert_eq!((last.train.epochs, last.train.batch), (7, 64));
        assert_eq!((last.experiment.as_str(), last.seed), ("ablation", 1));
    }

    #[test]
    fn sections_of_a_sweep_may_be_nested() {
        let sweep = parse(
            r#"
            name = "rates"
            configs = ["ucbopt.toml"]
            [set]
            train.batch = 64
            schedule = { shape = "constant" }
            [grid]
            optimizer.lr = [0.1, 0.2]
            data.dataset = ["mnist", "a/b c"]
            "#,
            &[],
        )
        .unwrap();
        let runs: Vec<(String, &str)> = sweep
            .runs()
            .iter()
            .map(|run| (run.run_name(), run.rows[0].row.as_str()))
            .collect();
        // the row tells the rates apart; the dataset has tables of its own
        let expected = [
            ("ucbopt-lr=0.1-dataset=mnist-seed0", "uCBOpt, lr = 0.1"),
            ("ucbopt-lr=0.1-dataset=a_b_c-seed0", "uCBOpt, lr = 0.1"),
            ("ucbopt-lr=0.2-dataset=mnist-seed0", "uCBOpt, lr = 0.2"),
            ("ucbopt-lr=0.2-dataset=a_b_c-seed0", "uCBOpt, lr = 0.2"),
        ];
        assert_eq!(runs, expected.map(|(run, row)| (run.to_owned(), row)));
        for run in sweep.runs() {
            assert_eq!((run.train.epochs, run.train.batch), (3, 64));
            assert_eq!(run.schedule, cbopt::ScheduleConfig::Constant {});
            assert_eq!(run.optimizer.rule.id(), "ucbopt");
        }
    }

    #[test]
    fn runs_that_would_be_averaged_are_refused() {
        let text = "name = 'x'\nconfigs = ['ucbopt.toml']\nrow = 'all'\n[grid]\n\"optimizer.lr\" = [0.1, 0.2]";
        let message = parse(text, &[]).unwrap_err().to_string();
        assert_eq!(
            message,
            "sweep.toml: the runs \"ucbopt-lr=0.1-seed0\" and \"ucbopt-lr=0.2-seed0\" both give the row \"all\"; \
             name the rows of the configs differently, or by `row`"
        );
    }

    #[test]
    fn a_sweep_takes_configs_of_the_paper() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sweep.toml");
        std::fs::write(
            &path,
            "name = 'x'\nconfigs = ['fashion-mnist-lenet/sgd', 'fashion-mnist-lenet/ucbopt']",
        )
        .unwrap();
        let sweep = Sweep::read(&path, &[]).unwrap();
        let names: Vec<String> = sweep.runs().iter().map(RunConfig::run_name).collect();
        assert_eq!(names, ["sgd-seed0", "ucbopt-seed0"]);
    }

    #[test]
    fn searches_that_cannot_be_are_refused() {
        let base = "name = 'x'\nconfigs = ['ucbopt.toml']\n";
        for (text, expected) in [
            (
                "[random]\ntrials = 2\nkeys.optimizer.lrr = [0.1, 0.2]",
                "ucbopt.toml (in sweep.toml): optimizer.lrr: no such key",
            ),
            (
                "[random]\ntrials = 2\nkeys.seed = [1, 2]\n[grid]\nseed = [1]",
                "sweep.toml: seed: is in grid and in random.keys",
            ),
            (
                "[random]\nkeys.seed = [1, 2]",
                "sweep.toml: line 3: random.trials: is missing",
            ),
            (
                "[halving]\nmetric = 'loss'",
                "sweep.toml: line 4: halving.metric: expected one of \"validation_loss\", \"validation_accuracy\", found \"loss\"",
            ),
            (
                "[halving]\neta = 1",
                "sweep.toml: halving.eta: 1 is not in 2..=100",
            ),
            (
                "[halving]\n[grid]\ntrain.epochs = [3, 4]",
                "sweep.toml: halving: runs of 3 and of 4 epochs (ucbopt-epochs=4-seed0) cannot be compared",
            ),
            (
                "[halving]\n[set]\ndata.validation_share = 0",
                "sweep.toml: halving: ucbopt-seed0 has data.validation_share = 0",
            ),
        ] {
            let found = parse(&format!("{base}{text}"), &[]);
            let found = found.unwrap_err().to_string();
            assert!(found.starts_with(expected), "{found}");
        }
        let text = "[random]\ntrials = 2\nkeys.optimizer.lr = [0.1, 0.2]\n[grid]\nseed = [0, 1]";
        let sweep = parse(&format!("{base}{text}"), &[]).unwrap();
        let runs = sweep.runs().iter();
        let mut rows: Vec<_> = runs
            .map(|run| (run.rows[0].row.as_str(), run.seed))
            .collect();
        rows.sort_unstable();
        let (a, b) = ("uCBOpt, lr = 0.1", "uCBOpt, lr = 0.2");
        assert_eq!(rows, [(a, 0), (a, 1), (b, 0), (b, 1)]);
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| {
            let text = format!("name = 'x'\n{text}");
            parse(&text, &[]).unwrap_err().to_string()
        };
        assert_eq!(
            message("configs = ['ucbopt.toml']\n[grid]\nseed = 3"),
            "sweep.toml: grid.\"seed\": not a list with at least one value"
        );
        for (text, end) in [
            (
                "configs = ['ucbopt.toml', 'ucbopt.toml']",
                "two runs are called \"lenet-ucbopt-seed0\"",
            ),
            ("configs = []", "configs: there has to be at least one"),
        ] {
            let found = message(text);
            assert!(found.ends_with(end), "{found}");
        }
        for (text, part) in [
            (
                "configs = ['ucbopt.toml']\n[grid]\n\"optimizer.vartheta\" = [1.0]",
                "vartheta 1 is not in [0, weight_decay]",
            ),
            ("configs = ['other.toml']", "no other.toml"),
            (
                "configs = ['ucbopt.toml']\ngird = 1",
                "line 3: gird: no such key",
            ),
        ] {
            let found = message(text);
            assert!(found.contains(part), "{found}");
        }
    }
}
