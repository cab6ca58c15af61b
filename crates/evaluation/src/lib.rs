//! Metrics of predictions, in-domain and out-of-domain, and the record of a run.
//!
//! - [`metrics`]: pure functions over slices of probabilities, labels and scores.
//! - [`metric`]: what each of them is called and means, one table for all.
//! - [`results`]: what an evaluation gives, with the conventions it was made by.
//! - [`record`]: the run record, one versioned JSON file that everything downstream reads.
//!
//! ```
//! use evaluation::{CalibrationConfig, Score};
//!
//! // probabilities [3, 2] on the test set and [2, 2] on images of another kind
//! let test = [0.9, 0.1, 0.2, 0.8, 0.6, 0.4];
//! let other = [0.7f32, 0.3, 0.5, 0.5];
//! let calibration = CalibrationConfig::default();
//! let (found, _) = evaluation::in_domain(&test, 2, &[0u8, 1, 1], &calibration)?;
//! assert_eq!(found.values.accuracy, Some(2.0 / 3.0));
//!
//! let score = Score::MaximumProbability;
//! let (ins, outs) = (score.of(&test, 2)?, score.of(&other, 2)?);
//! let detection = evaluation::out_of_domain(score.name(), &ins, &outs)?;
//! assert_eq!(detection.values.auroc, Some(5.0 / 6.0));
//! # Ok::<(), evaluation::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod error;
pub mod json;
pub mod metric;
pub mod metrics;
pub mod number;
pub mod record;
pub mod results;

pub use error::{Error, Result, reason};
pub use metric::{Better, InDomain, Metric, OutOfDomain, Scores};
pub use metrics::{
    BootstrapConfig, CalibrationConfig, Outcomes, Ranking, RiskCoverage, SUM_TOLERANCE, Scheme,
    Score, by_class, detection_curves, energy, in_domain, log_loss, maximum_probability,
    negative_entropy, out_of_domain, softmax, temperature,
};
pub use record::{RecordError, RunRecord};
