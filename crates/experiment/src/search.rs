//! Which runs a sweep tries beside a grid, and which of them it carries on with.
//!
//! **Random search.** Values are drawn from ranges or lists. Each key has a stream of its own, so
//! that another key moves no value, and more trials begin with the same ones. Numbers are rounded
//! to four digits: what the config says is what was tried.
//!
//! **Successive halving.** All runs train for a few epochs, the best `1/eta` of them for `eta`
//! times as many, and so on up to `train.epochs`. Schedules keep their full length: a run rests at
//! the end of an epoch and goes on from its checkpoint, so that what survives has the bits of a run
//! that was never interrupted.

use std::cmp::Ordering;
use std::path::Path;

use evaluation::record::{EpochPoint, RunRecord, SEARCH_SCHEMA};
use random::Stream;
use serde::{Deserialize, Serialize};
use toml::Value;

use crate::error::{Error, Result as Outcome};
use crate::files;
use crate::reading;

pub use evaluation::record::SEARCH;

/// Most runs of a sweep.
pub(crate) const MAX_RUNS: usize = 100_000;

/// The section `[random]` of a sweep.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RandomConfig {
    trials: usize,
    #[serde(default)]
    seed: u64,
    pub keys: toml::Table,
}

/// What a key is drawn from.
#[derive(Debug)]
enum Source {
    Choice(Vec<Value>),
    Whole { low: i64, high: i64, log: bool },
    Real { low: f64, high: f64, log: bool },
}

/// How a range is covered.
#[derive(Debug, Default, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scale {
    #[default]
    Linear,
    Log,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RangeConfig {
    low: Value,
    high: Value,
    #[serde(default)]
    scale: Scale,
}

/// Whether a table is a range, and not a section with keys in it.
pub(crate) fn is_range(table: &toml::Table) -> bool {
    ["low", "high", "scale"]
        .iter()
        .any(|key| table.contains_key(*key))
}

impl Source {
    fn new(value: &Value) -> Result<Self, String> {
        let range: RangeConfig = match value {
            Value::Array(values) if !values.is_empty() => return Ok(Self::Choice(values.clone())),
            Value::Table(table) if is_range(table) => reading::from_table(table, None)?,
            _ => return Err("expected { low = …, high = … } or a list with values".into()),
        };
        let log = range.scale == Scale::Log;
        let real = |value: &Value| match value {
            Value::Integer(number) => Some(*number as f64),
            Value::Float(number) => Some(*number).filter(|number| number.is_finite()),
            _ => None,
        };
        let ends = [&range.low, &range.high];
        let [Some(low), Some(high)] = ends.map(real) else {
            return Err("low and high: expected finite numbers".into());
        };
        if low >= high {
            return Err(format!("low {low} is not below high {high}"));
        }
        if log && low <= 0.0 {
            return Err(format!(
                "low {low} is not above 0, which scale = \"log\" needs"
            ));
        }
        Ok(match ends {
            [&Value::Integer(low), &Value::Integer(high)] => Self::Whole { low, high, log },
            _ => Self::Real { low, high, log },
        })
    }

    /// The value at a share of the way, in `[0, 1)`.
    fn at(&self, share: f64) -> Value {
        let between = |low: f64, high: f64, log: bool| match log {
            true => low * (high / low).powf(share),
            false => low + (high - low) * share,
        };
        match self {
            Self::Choice(values) => {
                let place = (share * values.len() as f64) as usize;
                values[place.min(values.len() - 1)].clone()
            }
            &Self::Whole { low, high, log } => {
                let drawn = between(low as f64, high as f64 + 1.0, log).floor();
                Value::Integer((drawn as i64).clamp(low, high))
            }
            &Self::Real { low, high, log } => {
                let drawn = between(low, high, log);
                let rounded = format!("{drawn:.3e}").parse().unwrap_or(drawn);
                Value::Float(f64::clamp(rounded, low, high))
            }
        }
    }
}

impl RandomConfig {
    /// The values of all trials, in the order of the keys; no two trials have the same.
    pub fn draw(&self, keys: &[(String, Value)]) -> Result<Vec<Vec<Value>>, String> {
        let trials = self.trials;
        if !(1..=MAX_RUNS).contains(&trials) {
            return Err(format!("random.trials: {trials} is not in 1..={MAX_RUNS}"));
        }
        if keys.is_empty() {
            return Err("random.keys: there has to be at least one".into());
        }
        let mut sources = Vec::new();
        for (key, value) in keys {
            let source =
                Source::new(value).map_err(|problem| format!("random.keys.{key}: {problem}"))?;
            sources.push((source, Stream::named(self.seed, key)));
        }
        let mut drawn: Vec<Vec<Value>> = Vec::new();
        // combinations of lists may come twice
        for attempt in 0..100 * trials as u64 {
            let values = sources
                .iter()
                .map(|(source, stream)| source.at(stream.uniform(attempt)));
            let values: Vec<Value> = values.collect();
            if !drawn.contains(&values) {
                drawn.push(values);
            }
            if drawn.len() == trials {
                return Ok(drawn);
            }
        }
        let found = drawn.len();
        Err(format!(
            "random.trials: {trials}, but only {found} different trials were found"
        ))
    }
}

/// The section `[halving]` of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halving {
    /// One run in so many goes on, each for so many times the epochs; `2..=100`. Default 3.
    #[serde(default = "three")]
    pub eta: usize,
    /// Epochs of the first round, below `train.epochs`. Default 1.
    #[serde(default = "one")]
    pub epochs: usize,
    /// What runs are compared by: its best value so far.
    #[serde(default)]
    pub metric: Metric,
}

fn three() -> usize {
    3
}

fn one() -> usize {
    1
}

/// What runs of a search are compared by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The lower the better.
    #[default]
    ValidationLoss,
    /// The higher the better.
    ValidationAccuracy,
}

impl Metric {
    /// Its name in configs.
    pub fn name(self) -> &'static str {
        match self {
            Self::ValidationLoss => "validation_loss",
            Self::ValidationAccuracy => "validation_accuracy",
        }
    }

    /// The best value of these epochs; none without validation images.
    fn best(self, curve: &[EpochPoint]) -> Option<f64> {
        match self {
            Self::ValidationLoss => {
                let losses = curve.iter().filter_map(|point| point.validation_loss);
                losses.min_by(f64::total_cmp)
            }
            Self::ValidationAccuracy => {
                let shares = curve.iter().filter_map(|point| point.validation_accuracy);
                shares.max_by(f64::total_cmp)
            }
        }
    }

    fn compare(self, a: f64, b: f64) -> Ordering {
        match self {
            Self::ValidationLoss => a.total_cmp(&b),
            Self::ValidationAccuracy => b.total_cmp(&a),
        }
    }
}

/// The best of the finished runs on one dataset.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Best {
    /// Name of the run; the first in the order of the sweep, if several are as good.
    pub run: String,
    /// What it was trained on; losses on different data are not compared.
    pub dataset: String,
    /// What runs were compared by.
    pub metric: Metric,
    /// Its best value.
    pub value: f64,
    /// How many runs were compared: the finished ones with validation images.
    pub compared: usize,
    /// Names of the other runs with this value.
    pub ties: Vec<String>,
}

impl Best {
    /// The best run of each dataset, in the order of the records; none of those without validation
    /// images.
    pub(crate) fn of(metric: Metric, records: &[RunRecord]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for record in records {
            let value = metric.best(&record.curves);
            let Some(value) = value.filter(|value| value.is_finite()) else {
                continue;
            };
            let run = record.name.clone();
            let Some(best) = all.iter_mut().find(|best| best.dataset == record.dataset) else {
                all.push(Self {
                    run,
                    dataset: record.dataset.clone(),
                    metric,
                    value,
                    compared: 1,
                    ties: Vec::new(),
                });
                continue;
            };
            best.compared += 1;
            match metric.compare(value, best.value) {
                Ordering::Less => (best.run, best.value, best.ties) = (run, value, Vec::new()),
                Ordering::Equal => best.ties.push(run),
                Ordering::Greater => {}
            }
        }
        all
    }
}

/// One round of a search: who was compared, by what, and who goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Epochs behind each run.
    pub epochs: usize,
    /// How many go on.
    pub kept: usize,
    /// All of them, the best first.
    pub runs: Vec<Ranked>,
}

/// A run in a round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Name of the run.
    pub run: String,
    /// Its best value so far.
    pub value: f64,
    /// Whether it goes on.
    pub kept: bool,
    /// Why, in words.
    pub reason: String,
}

impl Halving {
    /// `Ok` if all numbers are in range for runs of so many epochs.
    pub(crate) fn check(&self, epochs: usize) -> Result<(), String> {
        if !(2..=100).contains(&self.eta) {
            return Err(format!("halving.eta: {} is not in 2..=100", self.eta));
        }
        if !(1..epochs).contains(&self.epochs) {
            let first = self.epochs;
            return Err(format!(
                "halving.epochs: {first} is not at least 1 and below train.epochs, {epochs}"
            ));
        }
        Ok(())
    }

    /// Compares runs of this many epochs, equal ones in the order given.
    pub(crate) fn rank(
        &self,
        epochs: usize,
        curves: &[(String, Vec<EpochPoint>)],
    ) -> Result<Round, String> {
        let mut values = Vec::new();
        for (run, curve) in curves {
            let value = self.metric.best(&curve[..epochs.min(curve.len())]);
            let value = value.ok_or_else(|| {
                format!("halving: {run} has no validation images (data.validation_share)")
            })?;
            values.push((run, value));
        }
        values.sort_by(|(_, a), (_, b)| self.metric.compare(*a, *b));
        let (all, kept) = (values.len(), values.len().div_ceil(self.eta));
        let s = if epochs == 1 { "" } else { "s" };
        let runs = values
            .into_iter()
            .enumerate()
            .map(|(place, (run, value))| Ranked {
                run: run.clone(),
                value,
                kept: place < kept,
                reason: format!(
                    "{} {value} after {epochs} epoch{s} is rank {} of {all}; {kept} went on",
                    self.metric.name(),
                    place + 1
                ),
            });
        let runs = runs.collect();
        Ok(Round { epochs, kept, runs })
    }
}

/// Names of the runs that a search in this folder has dropped, and why; none without a search.
pub fn dropped(directory: &Path) -> Vec<(String, String)> {
    #[derive(Deserialize)]
    struct Search {
        rounds: Vec<Round>,
    }
    let text = files::read_text(&directory.join(SEARCH)).unwrap_or_default();
    let search: Option<Search> = files::from_json(&text).ok();
    let rounds = search.into_iter().flat_map(|search| search.rounds);
    let dropped = rounds.flat_map(|round| round.runs).filter(|run| !run.kept);
    dropped.map(|run| (run.run, run.reason)).collect()
}

/// Writes down what was compared, dropped and why.
pub(crate) fn write(
    directory: &Path,
    name: &str,
    halving: &Halving,
    rounds: &[Round],
    failed: &[(String, Error)],
) -> Outcome<()> {
    let failed = failed
        .iter()
        .map(|(run, error)| serde_json::json!({ "run": run, "reason": reason(error) }));
    let search = serde_json::json!({
        "schema": SEARCH_SCHEMA,
        "name": name,
        "halving": halving,
        "rounds": rounds,
        "failed": failed.collect::<Vec<_>>(),
    });
    let path = directory.join(SEARCH);
    files::write_changed(&path, &files::json(&path, &search)?)
}

/// Why a run failed; the same words whenever it is asked.
fn reason(error: &Error) -> String {
    match error {
        Error::DivergedBefore { reason, .. } => reason.clone(),
        error => error.with_causes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(trials: usize, seed: u64, keys: &str) -> Result<Vec<Vec<Value>>, String> {
        let keys: toml::Table = toml::from_str(keys).unwrap();
        let list: Vec<_> = keys.clone().into_iter().collect();
        RandomConfig { trials, seed, keys }.draw(&list)
    }

    const KEYS: &str = "lr = { low = 1e-4, high = 1, scale = 'log' }
        batch = { low = 3, high = 5 }
        flip = [true, false]";

    #[test]
    fn ranges_are_covered_and_kept() {
        let trials = draw(400, 0, KEYS).unwrap();
        let mut batches = [0; 3];
        let mut below = 0;
        for trial in &trials {
            let [Value::Float(lr), Value::Integer(batch), Value::Boolean(_)] = trial[..] else {
                panic!("{trial:?}");
            };
            assert!((1e-4..=1.0).contains(&lr));
            assert_eq!(format!("{lr:.3e}").parse(), Ok(lr), "four digits");
            batches[usize::try_from(batch - 3).unwrap()] += 1;
            below += usize::from(lr < 1e-2);
        }
        // half of the decades; five standard deviations of 400 draws with p = 1/2 and 1/3
        assert!(below.abs_diff(200) < 50, "{below}");
        assert!(
            batches.iter().all(|count: &usize| count.abs_diff(133) < 48),
            "{batches:?}"
        );
    }

    #[test]
    fn more_trials_and_more_keys_move_no_value() {
        let trials = draw(9, 7, KEYS).unwrap();
        assert_eq!(draw(5, 7, KEYS).unwrap(), trials[..5]);
        assert_ne!(draw(9, 8, KEYS).unwrap(), trials);
        let fewer = draw(9, 7, "lr = { low = 1e-4, high = 1, scale = 'log' }").unwrap();
        let rates = |trials: &[Vec<Value>]| trials.iter().map(|t| t[0].clone()).collect::<Vec<_>>();
        assert_eq!(rates(&fewer), rates(&trials));
        // part of the format: a search that goes on must draw the same
        assert_eq!(rates(&trials[..2]), PINNED.map(Value::Float));
    }

    const PINNED: [f64; 2] = [0.008609, 0.0005157];

    #[test]
    fn mistakes_are_named() {
        for (trials, keys, expected) in [
            (0, KEYS, "random.trials: 0 is not in 1..=100000"),
            (3, "", "random.keys: there has to be at least one"),
            (
                3,
                "a = [1, 2]",
                "random.trials: 3, but only 2 different trials were found",
            ),
            (
                3,
                "a = []",
                "random.keys.a: expected { low = …, high = … } or a list with values",
            ),
            (
                3,
                "a = 3",
                "random.keys.a: expected { low = …, high = … } or a list with values",
            ),
            (
                3,
                "a = { low = 2, high = 1 }",
                "random.keys.a: low 2 is not below high 1",
            ),
            (
                3,
                "a = { low = 1, high = 1.0 }",
                "random.keys.a: low 1 is not below high 1",
            ),
            (
                3,
                "a = { low = 1, high = inf }",
                "random.keys.a: low and high: expected finite numbers",
            ),
            (
                3,
                "a = { low = 'x', high = 1 }",
                "random.keys.a: low and high: expected finite numbers",
            ),
            (3, "a = { low = 1 }", "random.keys.a: high: is missing"),
            (
                3,
                "a = { low = 0, high = 1, scale = 'log' }",
                "random.keys.a: low 0 is not above 0, which scale = \"log\" needs",
            ),
            (
                3,
                "a = { low = 0, high = 1, scale = 'exp' }",
                "random.keys.a: scale: expected one of \"linear\", \"log\", found \"exp\"",
            ),
            (
                3,
                "a = { low = 0, high = 1, step = 1 }",
                "random.keys.a: step: no such key; others are low, high, scale",
            ),
        ] {
            assert_eq!(draw(trials, 0, keys).unwrap_err(), expected, "{keys}");
        }
        let halving = |eta, epochs| Halving {
            eta,
            epochs,
            metric: Metric::default(),
        };
        assert_eq!(
            halving(1, 1).check(9).unwrap_err(),
            "halving.eta: 1 is not in 2..=100"
        );
        for epochs in [0, 9] {
            let expected =
                format!("halving.epochs: {epochs} is not at least 1 and below train.epochs, 9");
            assert_eq!(halving(2, epochs).check(9).unwrap_err(), expected);
        }
        assert_eq!(halving(2, 8).check(9), Ok(()));
    }
}
