//! The run record: one versioned JSON file per training run that everything downstream reads.
//!
//! Reading refuses unknown fields and versions, and fills in what older versions did not say;
//! writing refuses NaN, which JSON would turn into `null`. The last field, `sha256`, is a sum over
//! the others that is checked when the file is read. `docs/run-record.md` describes the fields.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::json;
use crate::results::{
    Bounds, ByClass, Classification, Detection, DetectionCurves, Reliability, Risk,
};

/// Name and version of the schema, the first field of every record.
pub const SCHEMA: &str = "maxitive-run/2";

/// Name of the file in the folder of a sweep that says what a search dropped and why.
pub const SEARCH: &str = "search.json";

/// Its schema.
pub const SEARCH_SCHEMA: &str = "maxitive-search/1";
/// The version before devices were named: all runs were made on the CPU in `f32`.
const SCHEMA_1: &str = "maxitive-run/1";
/// Predictive method of predictions that another program made.
pub const GIVEN: &str = "given";

/// A training run and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the run, unique within a sweep: `ucbopt-seed0`.
    pub name: String,
    /// What the run belongs to: `fmnist`, `ablation-vartheta`, `quickstart` or a name of the
    /// user's. Paper values are looked up by it.
    pub experiment: String,
    /// Dataset trained on: `fashion-mnist`.
    pub dataset: String,
    /// Network: `lenet`.
    pub network: String,
    /// Parameters of the network.
    pub parameters: usize,
    /// Update rule: `ucbopt`.
    pub rule: String,
    /// Root seed.
    pub seed: u64,
    /// The resolved config: every key with the value used.
    pub config: Value,
    /// What made the record.
    pub code: Code,
    /// Device that trained and predicted: `cpu`.
    pub device: String,
    /// Numbers it computed with: `f32`.
    pub precision: String,
    /// What it ran on.
    pub hardware: Hardware,
    /// When and how long.
    pub timings: Timings,
    /// How the data differ from the published ones, or were not checked, as `set: remark`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Per-epoch curves.
    pub curves: Vec<EpochPoint>,
    /// Evaluations: one per table row and checkpoint.
    pub evaluations: Vec<Evaluation>,
}

/// The program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// Version of Maxitive.
    pub version: String,
    /// Commit, where it was known when the program was built.
    pub commit: Option<String>,
}

/// The machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hardware {
    /// Processor or accelerator, in the words of the system.
    pub device: String,
    /// Processors the system offers.
    pub cores: usize,
    /// Threads used by the run.
    pub threads: usize,
    /// Instruction set of the kernels: `avx512`.
    pub isa: String,
}

/// When the run began, in seconds since 1970, and seconds spent; a resumed run adds up its parts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timings {
    /// Seconds since 1970 at the first start.
    pub started_unix: u64,
    /// Training, validation excluded.
    #[serde(with = "crate::number")]
    pub train_s: f64,
    /// Validation after every epoch.
    #[serde(with = "crate::number")]
    pub validation_s: f64,
    /// Final evaluation, all rows.
    #[serde(with = "crate::number")]
    pub evaluation_s: f64,
    /// Training steps.
    pub steps: u64,
    /// How often the run was resumed.
    pub resumed: u32,
    /// Largest resident memory of the process in bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// Most bytes of a GPU's memory that the process held at a time, of all runs that it trained
    /// and evaluated there; absent for the processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_device_bytes: Option<u64>,
}

/// One epoch. Losses are mean cross-entropies; training values are those met by the steps, before
/// each update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochPoint {
    /// From 0.
    pub epoch: usize,
    /// Learning rate of the epoch.
    #[serde(with = "crate::number")]
    pub lr: f64,
    /// Mean loss of the steps.
    #[serde(with = "crate::number")]
    pub train_loss: f64,
    /// Share of right predictions of the steps.
    #[serde(with = "crate::number")]
    pub train_accuracy: f64,
    /// Validation loss, absent where there is no validation set.
    #[serde(with = "crate::number::option")]
    pub validation_loss: Option<f64>,
    /// Validation accuracy.
    #[serde(with = "crate::number::option")]
    pub validation_accuracy: Option<f64>,
    /// Seconds of the epoch, validation included.
    #[serde(with = "crate::number")]
    pub seconds: f64,
    /// What the updates of the epoch met; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updates: Option<Updates>,
}

/// What the updates of one epoch met, summed over its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Updates {
    /// Weights updated: weights times steps.
    pub coordinates: u64,
    /// Updates that were cut at the clip radius.
    pub clipped: u64,
    /// Updates whose curvature gap was not positive.
    pub gap_not_positive: u64,
    /// Updates left out because of an unusable gradient.
    pub skipped: u64,
    /// Whole steps left out because of an unusable gradient.
    pub skipped_steps: u64,
}

/// Which weights were evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Checkpoint {
    /// Lowest validation loss.
    Best,
    /// End of the last epoch.
    Final,
}

/// One evaluation: a row of a table at one checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// Row of the table this belongs to: `uCBOpt`, `IVON@mean`, `Laplace`. Runs of other seeds have
    /// the same row.
    pub row: String,
    /// Predictive method: `point`, `ivon`, `mc-dropout`, `swag`, `laplace` or `possibilistic`.
    pub predictive: String,
    /// Weight samples or stochastic passes averaged; 1 for a single pass.
    pub samples: usize,
    /// Which weights.
    pub checkpoint: Checkpoint,
    /// Epoch of the weights, from 0.
    pub epoch: usize,
    /// Seconds of this evaluation.
    #[serde(with = "crate::number")]
    pub seconds: f64,
    /// On the test set.
    pub in_domain: Classification,
    /// Calibration on the test set.
    pub reliability: Reliability,
    /// Mistakes among the surest images of the test set; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// On the test set, class by class; absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_class: Option<ByClass>,
    /// What the weights still allow to be said of the test set: right against wrong answers; absent
    /// for methods without bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
    /// On other datasets.
    pub out_of_domain: Vec<OutOfDomainEvaluation>,
    /// Further facts of the method: `prior_precision` of Laplace, `rank` of SWAG.
    #[serde(default)]
    pub details: serde_json::Map<String, Value>,
    /// File with the predictions, relative to the record, if they were kept.
    pub predictions: Option<String>,
}

/// One out-of-domain dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutOfDomainEvaluation {
    /// Dataset: `kmnist`.
    pub dataset: String,
    /// Whose constants normalized the images: a [`OodNormalization`], or words of the caller's.
    pub normalization: String,
    /// The numbers.
    pub metrics: Detection,
    /// Curves for drawing.
    pub curves: DetectionCurves,
    /// What the weights still allow to be said: test images against these; absent for methods
    /// without bounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
}

impl OutOfDomainEvaluation {
    /// Predictions on another set that any program made.
    pub fn of_predictions(
        dataset: impl Into<String>,
        metrics: Detection,
        curves: DetectionCurves,
    ) -> Self {
        Self {
            dataset: dataset.into(),
            normalization: "the program that made the predictions".to_owned(),
            metrics,
            curves,
            bounds: None,
        }
    }
}

/// What a record of predictions calls itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Names {
    /// Row of the tables.
    pub row: String,
    /// Experiment, dataset and network; rows that have them in common stand in one table.
    #[serde(default)]
    pub experiment: String,
    /// See [`Names::experiment`].
    #[serde(default)]
    pub dataset: String,
    /// See [`Names::experiment`].
    #[serde(default)]
    pub network: String,
    /// Seed of the training.
    #[serde(default)]
    pub seed: u64,
}

/// Whose constants normalize out-of-domain images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OodNormalization {
    /// Those of the out-of-domain set, as in the paper's experiments.
    #[default]
    Own,
    /// Those of the training set: what a deployed model would do.
    Training,
}

impl OodNormalization {
    /// The name in configs and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Training => "training",
        }
    }

    /// What has this name.
    pub fn by_name(name: &str) -> Option<Self> {
        let all = [Self::Own, Self::Training];
        all.into_iter().find(|known| known.name() == name)
    }
}

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The system refused.
    #[error("{path}: the run record cannot be read", path = path.display())]
    File {
        /// File of the record.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not JSON, or not an object with a schema.
    #[error("{path}: this is no run record: {reason}", path = path.display())]
    NoRecord {
        /// File of the record.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The record has another version.
    #[error(
        "{path}: the schema is \"{found}\", this program reads \"{SCHEMA_1}\" and \"{SCHEMA}\"",
        path = path.display()
    )]
    Schema {
        /// File of the record.
        path: PathBuf,
        /// The schema of the file.
        found: String,
    },
    /// The record does not have the sum that it names.
    #[error(
        "{path}: is damaged, or was changed by hand: the sha256 of its fields is {found}, it says \
         {expected}; without the field \"sha256\" it is read as it is",
        path = path.display()
    )]
    Damaged {
        /// File of the record.
        path: PathBuf,
        /// The sum of its fields.
        found: String,
        /// What the file says.
        expected: String,
    },
    /// A field is unknown, missing, or of the wrong kind.
    #[error("{path}: {field}: {source}", path = path.display())]
    Field {
        /// File of the record.
        path: PathBuf,
        /// Where: `evaluations[0].in_domain`.
        field: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A field cannot be written: it is not a number, or the schema of another version.
    #[error("{field}: {source}")]
    Unwritable {
        /// Where: `timings.train_s`.
        field: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

/// The text of a plain file. A pipe would be waited for without end and a device read until memory
/// ends, so that both are refused, and links to them.
///
/// # Errors
/// As the system says, and for what is no plain file.
pub fn read_plain(path: &Path) -> io::Result<String> {
    let kind = fs::metadata(path)?.file_type();
    match kind.is_file() || kind.is_dir() {
        true => fs::read_to_string(path),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "is no plain file",
        )),
    }
}

impl RunRecord {
    /// Seconds of an epoch, validation included; `None` for a run without epochs.
    pub fn seconds_per_epoch(&self) -> Option<f64> {
        let epochs = self.curves.len();
        let seconds = self.timings.train_s + self.timings.validation_s;
        (epochs > 0).then(|| seconds / epochs as f64)
    }

    /// The record of predictions that any program made: an evaluation without a training. What is
    /// known of the training may be filled in.
    pub fn of_predictions(
        names: &Names,
        config: Value,
        (in_domain, reliability): (Classification, Reliability),
        by_class: Option<ByClass>,
        out_of_domain: Vec<OutOfDomainEvaluation>,
    ) -> Self {
        let evaluation = Evaluation {
            row: names.row.clone(),
            predictive: GIVEN.to_owned(),
            samples: 1,
            checkpoint: Checkpoint::Final,
            epoch: 0,
            seconds: 0.0,
            in_domain,
            reliability,
            risk: None,
            by_class,
            bounds: None,
            out_of_domain,
            details: serde_json::Map::new(),
            predictions: None,
        };
        Self {
            evaluations: vec![evaluation],
            ..Self::without_evaluation(names, config)
        }
    }

    /// The record of a training of which nothing but its names and its config is known yet.
    pub fn without_evaluation(names: &Names, config: Value) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            name: names.row.clone(),
            experiment: names.experiment.clone(),
            dataset: names.dataset.clone(),
            network: names.network.clone(),
            parameters: 0,
            rule: String::new(),
            seed: names.seed,
            config,
            code: Code {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                commit: None,
            },
            device: String::new(),
            precision: String::new(),
            hardware: Hardware::default(),
            timings: Timings::default(),
            notes: Vec::new(),
            curves: Vec::new(),
            evaluations: Vec::new(),
        }
    }

    /// Reads a record of this version, or of an older one as if it had been written today.
    ///
    /// # Errors
    /// The file cannot be read, is no record, is one of an unknown version, or has a field that is
    /// unknown, missing, of the wrong kind or there twice.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, RecordError> {
        let path = path.as_ref();
        let text = read_plain(path).map_err(|source| RecordError::File {
            path: path.to_owned(),
            source,
        })?;
        Self::parse_as(&text, path)
    }

    /// Reads the text of a record; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`Self::read`], but for the file.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<Self, RecordError> {
        Self::parse_as(text, path.as_ref())
    }

    /// The same, compiled here and not in each crate that reads records.
    fn parse_as(text: &str, path: &Path) -> Result<Self, RecordError> {
        let no_record = |reason: String| RecordError::NoRecord {
            path: path.to_owned(),
            reason,
        };
        let mut value = json::parse(text).map_err(|error| no_record(error.to_string()))?;
        let expected = value.as_object_mut().and_then(|map| map.shift_remove(SUM));
        let found = expected.as_ref().map(|_| sum(&value));
        match value.get("schema") {
            Some(Value::String(found)) if found == SCHEMA => {}
            Some(Value::String(found)) if found == SCHEMA_1 => {
                for (key, filled) in [("schema", SCHEMA), ("device", "cpu"), ("precision", "f32")] {
                    value[key] = filled.into();
                }
            }
            Some(Value::String(found)) => {
                return Err(RecordError::Schema {
                    path: path.to_owned(),
                    found: found.clone(),
                });
            }
            _ => return Err(no_record("it has no field \"schema\"".to_owned())),
        }
        let record = serde_path_to_error::deserialize(value);
        let record = record.map_err(|error| RecordError::Field {
            path: path.to_owned(),
            field: error.path().to_string(),
            source: error.into_inner(),
        })?;
        match (expected, found) {
            (Some(expected), Some(found)) if expected != found.as_str() => {
                Err(RecordError::Damaged {
                    path: path.to_owned(),
                    found,
                    expected: expected.to_string(),
                })
            }
            _ => Ok(record),
        }
    }

    /// The record as the text of its file.
    ///
    /// ```
    /// use evaluation::record::{Code, Hardware, RunRecord, SCHEMA, Timings};
    ///
    /// let record = RunRecord {
    ///     schema: SCHEMA.to_owned(),
    ///     name: "ucbopt-seed0".to_owned(),
    ///     experiment: "example".to_owned(),
    ///     dataset: "fashion-mnist".to_owned(),
    ///     network: "lenet".to_owned(),
    ///     parameters: 44_426,
    ///     rule: "ucbopt".to_owned(),
    ///     seed: 0,
    ///     config: serde_json::json!({"lr": 0.1}),
    ///     code: Code { version: "0.1.0".to_owned(), commit: None },
    ///     device: "cpu".to_owned(),
    ///     precision: "f32".to_owned(),
    ///     hardware: Hardware { device: "cpu".to_owned(), cores: 2, threads: 2, isa: "avx2".to_owned() },
    ///     timings: Timings {
    ///         started_unix: 0,
    ///         train_s: 1.5,
    ///         validation_s: 0.5,
    ///         evaluation_s: 0.25,
    ///         steps: 100,
    ///         resumed: 0,
    ///         peak_memory_bytes: None,
    ///         peak_device_bytes: None,
    ///     },
    ///     notes: Vec::new(),
    ///     curves: Vec::new(),
    ///     evaluations: Vec::new(),
    /// };
    /// let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("record.json");
    /// std::fs::write(&path, record.to_json()?)?;
    /// assert_eq!(RunRecord::read(&path)?, record);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The schema is not [`SCHEMA`], or a number is NaN.
    pub fn to_json(&self) -> Result<String, RecordError> {
        let unwritable = |field: String, source| RecordError::Unwritable { field, source };
        if self.schema != SCHEMA {
            let message = format!("\"{}\" is not \"{SCHEMA}\"", self.schema);
            let source = serde::ser::Error::custom(message);
            return Err(unwritable("schema".to_owned(), source));
        }
        let mut track = serde_path_to_error::Track::new();
        let serializer =
            serde_path_to_error::Serializer::new(serde_json::value::Serializer, &mut track);
        let mut value = self
            .serialize(serializer)
            .map_err(|source| unwritable(track.path().to_string(), source))?;
        value[SUM] = sum(&value).into();
        let mut text = String::new();
        pretty(&value, 0, &mut text);
        text.push('\n');
        Ok(text)
    }
}

/// Name of the field with the sum.
const SUM: &str = "sha256";

/// SHA-256 of the fields as JSON without blanks, in the order of the file.
fn sum(value: &Value) -> String {
    let sum = Sha256::digest(value.to_string());
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// JSON for people: an object that holds others, and a list of objects, is spread over lines;
/// everything else is one line, so that curves do not fill pages.
fn pretty(value: &Value, depth: usize, text: &mut String) {
    let is_long = |value: &Value| value.is_object() || value.is_array();
    let (brackets, spread) = match value {
        Value::Object(fields) => (['{', '}'], fields.values().any(is_long)),
        Value::Array(items) => (['[', ']'], items.iter().any(Value::is_object)),
        plain => return text.push_str(&plain.to_string()),
    };
    let indent = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    let separator = |i: usize, text: &mut String| {
        if i > 0 {
            text.push(',');
        }
        if spread {
            indent(text, depth + 1);
        } else if i > 0 {
            text.push(' ');
        }
    };
    text.push(brackets[0]);
    if let Value::Object(fields) = value {
        for (i, (key, field)) in fields.iter().enumerate() {
            separator(i, text);
            text.push_str(&Value::from(key.as_str()).to_string());
            text.push_str(": ");
            pretty(field, depth + 1, text);
        }
    }
    if let Value::Array(items) = value {
        for (i, item) in items.iter().enumerate() {
            separator(i, text);
            pretty(item, depth + 1, text);
        }
    }
    if spread {
        indent(text, depth);
    }
    text.push(brackets[1]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::metric::{InDomain, OutOfDomain, Scores};
    use crate::results::{
        ClassSets, Mistake, ReliabilityBin, ScoreHistogram, Scored, SetLevel, Shown, ShownClass,
    };

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => any::<f64>().prop_filter("NaN is refused", |x| !x.is_nan()),
            1 => Just(f64::INFINITY),
            1 => Just(-0.0),
        ]
    }

    fn maybe() -> impl Strategy<Value = Option<f64>> {
        prop::option::of(number())
    }

    fn points() -> impl Strategy<Value = Vec<(f64, f64)>> {
        prop::collection::vec((number(), number()), 0..5)
    }

    fn word() -> impl Strategy<Value = String> {
        "[ -~äπ\"\\\\\n]{0,12}"
    }

    prop_compose! {
        fn in_domain()(
            (accuracy, nll, ece, brier) in (number(), number(), number(), number()),
            top5 in maybe(), auroc in maybe(), samples in any::<usize>(), classes in any::<usize>(),
        ) -> Classification {
            let [accuracy, nll, ece, brier] = [accuracy, nll, ece, brier].map(Some);
            Classification { values: InDomain { accuracy, top5, nll, ece, brier, auroc }, samples, classes }
        }
    }

    prop_compose! {
        fn bounds()(
            values in prop::collection::vec(maybe(), Scores::METRICS.len()),
            (in_samples, out_samples, vacuous) in any::<(usize, usize, usize)>(),
            contour in word(), alpha in number(), (covered, classes) in any::<(usize, usize)>(),
        ) -> Bounds {
            let auroc = Scores::from_fn(|place| values[place]);
            let level = SetLevel { alpha, covered, classes, by_class: vec![(covered, classes, 1)] };
            let sets = ClassSets { contour, calibration: classes, images: covered, levels: vec![level] };
            let sets = if covered % 2 == 0 { vec![sets] } else { Vec::new() };
            let class = ShownClass { class: classes, lower: alpha, probability: alpha, upper: alpha };
            let shown = Shown { image: covered, class: None, classes: vec![class], picture: String::new() };
            let shown = if classes % 2 == 0 { vec![shown] } else { Vec::new() };
            Bounds { scored: Scored { auroc, in_samples, out_samples, vacuous }, sets, shown }
        }
    }

    prop_compose! {
        fn out_of_domain()(
            values in prop::collection::vec(maybe(), OutOfDomain::METRICS.len()), score in word(), in_samples in any::<usize>(), out_samples in any::<usize>(),
            (roc, precision_recall_in, precision_recall_out) in (points(), points(), points()),
            (from, to) in (number(), number()), counts in prop::collection::vec(any::<usize>(), 0..4),
            dataset in word(), normalization in word(), bounds in prop::option::of(bounds()),
        ) -> OutOfDomainEvaluation {
            OutOfDomainEvaluation {
                dataset,
                normalization,
                metrics: Detection {
                    values: OutOfDomain::from_fn(|place| values[place]),
                    score,
                    in_samples,
                    out_samples,
                },
                curves: DetectionCurves {
                    roc,
                    precision_recall_in,
                    precision_recall_out,
                    histogram: ScoreHistogram { from, to, in_counts: counts.clone(), out_counts: counts },
                },
                bounds,
            }
        }
    }

    prop_compose! {
        fn by_class()(
            names in prop::collection::vec(word(), 0..3),
            counts in prop::collection::vec(any::<(usize, usize)>(), 0..3),
            confused in prop::collection::vec(any::<(usize, usize, usize)>(), 0..3),
            (image, class, predicted) in any::<(usize, usize, usize)>(),
            probability in number(), picture in prop::option::of(word()),
        ) -> ByClass {
            let (images, right) = counts.into_iter().unzip();
            let mistakes = vec![Mistake { image, class, predicted, probability, picture }];
            ByClass { names, images, right, confused, mistakes }
        }
    }

    prop_compose! {
        fn evaluation()(
            (row, predictive, scheme) in (word(), word(), word()), samples in any::<usize>(), best in any::<bool>(),
            epoch in any::<usize>(), seconds in number(), in_domain in in_domain(),
            bins in prop::collection::vec((any::<usize>(), any::<usize>(), maybe()), 0..4),
            out_of_domain in prop::collection::vec(out_of_domain(), 0..3),
            (key, value) in (word(), any::<u64>()), predictions in prop::option::of(word()),
            by_class in prop::option::of(by_class()), bounds in prop::option::of(bounds()),
            risk in prop::option::of((number(), number(), points())),
        ) -> Evaluation {
            let bin = |(count, right, confidence)| ReliabilityBin { count, right, confidence };
            Evaluation {
                row,
                predictive,
                samples,
                checkpoint: if best { Checkpoint::Best } else { Checkpoint::Final },
                epoch,
                seconds,
                in_domain,
                reliability: Reliability { scheme, bins: bins.into_iter().map(bin).collect() },
                risk: risk.map(|(aurc, excess_aurc, curve)| Risk { aurc, excess_aurc, curve }),
                by_class,
                bounds,
                out_of_domain,
                details: [(key, json!(value))].into_iter().collect(),
                predictions,
            }
        }
    }

    fn updates() -> impl Strategy<Value = Option<Updates>> {
        let counts = any::<(u64, u64, u64, u64, u64)>();
        let made = counts.prop_map(
            |(coordinates, clipped, gap_not_positive, skipped, skipped_steps)| Updates {
                coordinates,
                clipped,
                gap_not_positive,
                skipped,
                skipped_steps,
            },
        );
        prop::option::of(made)
    }

    prop_compose! {
        fn record()(
            (name, experiment, dataset, network, rule) in (word(), word(), word(), word(), word()),
            (parameters, seed, started_unix, steps, resumed) in any::<(usize, u64, u64, u64, u32)>(),
            (train_s, validation_s, evaluation_s) in (number(), number(), number()),
            (version, commit, device, isa) in (word(), prop::option::of(word()), word(), word()),
            (cores, threads, peak_memory_bytes, peak_device_bytes)
                in any::<(usize, usize, Option<u64>, Option<u64>)>(),
            rate in -1e300..1e300f64,
            epochs in prop::collection::vec((any::<usize>(), number(), number(), number(), maybe(), maybe(), number(), updates()), 0..4),
            evaluations in prop::collection::vec(evaluation(), 0..3),
        ) -> RunRecord {
            let curves = epochs.into_iter().map(|(epoch, lr, train_loss, train_accuracy, validation_loss, validation_accuracy, seconds, updates)| {
                EpochPoint { epoch, lr, train_loss, train_accuracy, validation_loss, validation_accuracy, seconds, updates }
            });
            RunRecord {
                schema: SCHEMA.to_owned(),
                config: json!({"name": name, "lr": rate, "list": [1, 2.5, null], "nested": {"on": true}}),
                name,
                experiment,
                dataset,
                network,
                parameters,
                rule,
                seed,
                code: Code { version, commit },
                device: device.clone(),
                precision: isa.clone(),
                hardware: Hardware { device, cores, threads, isa },
                timings: Timings { started_unix, train_s, validation_s, evaluation_s, steps, resumed, peak_memory_bytes, peak_device_bytes },
                notes: vec!["svhn: cut out again".to_owned()],
                curves: curves.collect(),
                evaluations,
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn what_is_written_is_read(record in record()) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("record.json");
            let text = record.to_json().unwrap();
            fs::write(&path, &text).unwrap();
            let read = RunRecord::read(&path).unwrap();
            prop_assert_eq!(&read, &record);
            // equal numbers may differ in the sign of a zero; the bytes do not
            prop_assert_eq!(read.to_json().unwrap(), text);
        }
    }

    /// A record in which every kind of field occurs.
    fn example() -> RunRecord {
        parse(include_str!("../tests/record.json"))
    }

    fn parse(text: &str) -> RunRecord {
        let mut value: Value = serde_json::from_str(text).unwrap();
        value.as_object_mut().unwrap().shift_remove(SUM).unwrap();
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn every_number_of_a_record_is_guarded_by_its_sum() {
        let text = include_str!("../tests/record.json");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        let mut changed = 0;
        for (at, digit) in text.bytes().enumerate() {
            if !digit.is_ascii_digit() {
                continue;
            }
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = b'0' + (digit - b'0' + 1) % 10;
            fs::write(&path, bytes).unwrap();
            match RunRecord::read(&path) {
                // a last digit that says nothing
                Ok(found) => assert_eq!(found, example()),
                Err(RecordError::Damaged { .. }) => changed += 1,
                Err(_) => {}
            }
        }
        assert!(changed > 200, "{changed}");
        let mut value: Value = serde_json::from_str(text).unwrap();
        value["seed"] = 77.into();
        value.as_object_mut().unwrap().shift_remove(SUM);
        fs::write(&path, value.to_string()).unwrap();
        assert_eq!(RunRecord::read(&path).unwrap().seed, 77);
    }

    /// The last one counted, and the sum was that of the last.
    #[test]
    fn a_record_with_a_field_twice_is_refused() {
        let text = include_str!("../tests/record.json");
        let twice = text.replacen("\"seed\":", "\"seed\": 77, \"seed\":", 1);
        assert_ne!(twice, text);
        let error = RunRecord::parse(&twice, "record.json").unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("record.json") && error.contains("\"seed\""),
            "{error}"
        );
    }

    #[test]
    fn the_format_does_not_change_unnoticed() {
        assert_eq!(
            example().to_json().unwrap(),
            include_str!("../tests/record.json")
        );
    }

    #[test]
    fn records_of_the_first_version_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        fs::write(&path, include_str!("../tests/record-v1.json")).unwrap();
        let old = RunRecord::read(&path).unwrap();
        assert_eq!(
            (old.device.as_str(), old.precision.as_str()),
            ("cpu", "f32")
        );
        assert_eq!(old, example());
    }

    #[test]
    fn a_metric_that_a_record_does_not_have_is_undefined() {
        let text = include_str!("../tests/record.json").replace("\"brier\": 0.375, ", "");
        let read = parse(&text);
        assert_eq!(read.evaluations[0].in_domain.values.brier, None);
        let mut expected = example();
        expected.evaluations[0].in_domain.values.brier = None;
        assert_eq!(read, expected);
    }

    fn refuse_to_read(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        fs::write(&path, text).unwrap();
        let error = RunRecord::read(&path).unwrap_err().to_string();
        let name = format!("{}: ", path.display());
        error.strip_prefix(&name).unwrap().to_owned()
    }

    #[test]
    fn other_versions_and_fields_are_refused_by_name() {
        let text = include_str!("../tests/record.json");
        assert_eq!(
            refuse_to_read(&text.replace("maxitive-run/2", "maxitive-run/3")),
            "the schema is \"maxitive-run/3\", this program reads \"maxitive-run/1\" and \
             \"maxitive-run/2\""
        );
        assert_eq!(
            refuse_to_read(&text.replace("\"parameters\"", "\"weights\"")),
            "weights: unknown field `weights`, expected one of `schema`, `name`, `experiment`, `dataset`, `network`, \
             `parameters`, `rule`, `seed`, `config`, `code`, `device`, `precision`, `hardware`, `timings`, `notes`, \
             `curves`, `evaluations`"
        );
        assert_eq!(
            refuse_to_read(&text.replace("\"accuracy\": ", "\"accuracies\": ")),
            "evaluations[0].in_domain: unknown field `accuracies`, expected one of `accuracy`, `top5`, `nll`, `ece`, \
             `brier`, `auroc`, `samples`, `classes`"
        );
        assert_eq!(
            refuse_to_read(&text.replace("\"brier\": 0.375", "\"brier\": true")),
            "evaluations[0].in_domain: brier: invalid type: boolean `true`, expected a number, \"inf\" or \"-inf\""
        );
        assert_eq!(
            refuse_to_read(&text.replace("\"in_samples\": 4, ", "")),
            "evaluations[0].out_of_domain[0].metrics: missing field `in_samples`"
        );
        assert_eq!(
            refuse_to_read(&text.replace("\"lr\": 0.1", "\"lr\": \"fast\"")),
            "curves[0].lr: invalid value: string \"fast\", expected a number, \"inf\" or \"-inf\""
        );
        assert_eq!(
            refuse_to_read(&text.replace("in-domain; out", "out-of-domain; in")),
            "evaluations[0].out_of_domain[0].metrics: positive_class \"out-of-domain; in-of-domain for aupr_out\" \
             is not \"in-domain; out-of-domain for aupr_out\""
        );
        assert!(refuse_to_read("{\"a\": 1").starts_with("this is no run record: EOF"));
        for text in ["[1]", "{\"a\": 1}", "7", "{\"schema\": 1}"] {
            assert_eq!(
                refuse_to_read(text),
                "this is no run record: it has no field \"schema\""
            );
        }
        let missing = RunRecord::read("nowhere/record.json").unwrap_err();
        assert_eq!(
            missing.to_string(),
            "nowhere/record.json: the run record cannot be read"
        );
    }

    #[test]
    fn not_a_number_is_refused_by_name() {
        let nan = f64::NAN;
        type Damage = fn(&mut RunRecord, f64);
        let cases: [(Damage, &str); 8] = [
            (|r, x| r.timings.train_s = x, "timings.train_s"),
            (|r, x| r.curves[0].train_loss = x, "curves[0].train_loss"),
            (
                |r, x| r.curves[0].validation_loss = Some(x),
                "curves[0].validation_loss",
            ),
            (
                |r, x| r.evaluations[0].in_domain.values.nll = Some(x),
                "evaluations[0].in_domain.nll",
            ),
            (
                |r, x| r.evaluations[0].reliability.bins[0].confidence = Some(x),
                "evaluations[0].reliability.bins[0].confidence",
            ),
            (
                |r, x| r.evaluations[0].out_of_domain[0].metrics.values.auroc = Some(x),
                "evaluations[0].out_of_domain[0].metrics.auroc",
            ),
            (
                |r, x| r.evaluations[0].out_of_domain[0].curves.roc[0].1 = x,
                "evaluations[0].out_of_domain[0].curves.roc",
            ),
            (
                |r, x| r.evaluations[0].out_of_domain[0].curves.histogram.to = x,
                "evaluations[0].out_of_domain[0].curves.histogram.to",
            ),
        ];
        for (damage, field) in cases {
            let mut record = example();
            damage(&mut record, nan);
            let error = record.to_json().unwrap_err().to_string();
            assert!(error.starts_with(field), "{error}");
            assert!(error.ends_with(": not a number"), "{error}");
        }
    }

    #[test]
    fn another_schema_is_not_written() {
        let mut other = example();
        other.schema = "maxitive-run/0".to_owned();
        assert_eq!(
            other.to_json().unwrap_err().to_string(),
            "schema: \"maxitive-run/0\" is not \"maxitive-run/2\""
        );
    }
}
