//! The run record: one versioned JSON file per training run that everything downstream reads.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::results::{DetectionCurves, InDomain, OutOfDomain, Reliability};

/// Name and version of the schema, the first field of every record.
pub const SCHEMA: &str = "maxitive-run/1";

/// A training run and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// [`SCHEMA`].
    pub schema: String,
    /// Name of the run, unique within a sweep: `ucbopt-seed0`.
    pub name: String,
    /// What the run belongs to: `fmnist`, `ablation-vartheta`, `quickstart` or a name of the user's. Paper values are looked up by it.
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
    /// What it ran on.
    pub hardware: Hardware,
    /// When and how long.
    pub timings: Timings,
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timings {
    /// Seconds since 1970 at the first start.
    pub started_unix: u64,
    /// Training, validation excluded.
    pub train_s: f64,
    /// Validation after every epoch.
    pub validation_s: f64,
    /// Final evaluation, all rows.
    pub evaluation_s: f64,
    /// Training steps.
    pub steps: u64,
    /// How often the run was resumed.
    pub resumed: u32,
    /// Largest resident memory of the process in bytes, where the system tells.
    pub peak_memory_bytes: Option<u64>,
}

/// One epoch. Losses are mean cross-entropies; training values are those met by the steps, before each update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochPoint {
    /// From 0.
    pub epoch: usize,
    /// Learning rate of the epoch.
    pub lr: f64,
    /// Mean loss of the steps.
    pub train_loss: f64,
    /// Share of right predictions of the steps.
    pub train_accuracy: f64,
    /// Validation loss, absent where there is no validation set.
    pub validation_loss: Option<f64>,
    /// Validation accuracy.
    pub validation_accuracy: Option<f64>,
    /// Seconds of the epoch, validation included.
    pub seconds: f64,
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
    /// Row of the table this belongs to: `uCBOpt`, `IVON@mean`, `Laplace`. Runs of other seeds have the same row.
    pub row: String,
    /// Predictive method: `point`, `ivon`, `mc-dropout`, `swag` or `laplace`.
    pub predictive: String,
    /// Weight samples or stochastic passes averaged; 1 for a single pass.
    pub samples: usize,
    /// Which weights.
    pub checkpoint: Checkpoint,
    /// Epoch of the weights, from 0.
    pub epoch: usize,
    /// Seconds of this evaluation.
    pub seconds: f64,
    /// On the test set.
    pub in_domain: InDomain,
    /// Calibration on the test set.
    pub reliability: Reliability,
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
    /// Whose constants normalized the images: `own` as in the paper's experiments, or `training`.
    pub normalization: String,
    /// The numbers.
    pub metrics: OutOfDomain,
    /// Curves for drawing.
    pub curves: DetectionCurves,
}
