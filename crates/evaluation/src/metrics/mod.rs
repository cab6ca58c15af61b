//! Metrics as pure functions over slices. Each says what is positive, what a tie does, and when it
//! is undefined.
//!
//! - [`probability`]: what counts as a row of probabilities, and the scores made from one.
//! - [`classification`]: accuracy, top-5, log loss, Brier score.
//! - [`mod@by_class`]: what became of each class, and the surest mistakes.
//! - [`calibration`]: reliability diagram and expected calibration error.
//! - [`detection`]: how well a score tells two groups apart: ROC, precision-recall, FPR at 95 %
//!   TPR, detection error.
//! - [`curves`]: the same as curves for drawing, thinned.
//! - [`risk`]: mistakes that are left if only the surest predictions are given.
//! - [`mod@temperature`]: one number that makes logits fit validation labels.
//! - [`bootstrap`]: confidence intervals of all of them.

pub mod bootstrap;
pub mod by_class;
pub mod calibration;
pub mod classification;
pub mod curves;
pub mod detection;
mod mark;
pub mod probability;
pub mod risk;
mod sort;
mod sum;
pub mod temperature;

pub use bootstrap::BootstrapConfig;
pub use by_class::by_class;
pub use calibration::{CalibrationConfig, Scheme};
pub use classification::{Outcomes, in_domain};
pub use curves::detection_curves;
pub use detection::{Ranking, out_of_domain};
pub use probability::{
    SUM_TOLERANCE, Score, energy, log_loss, maximum_probability, negative_entropy, softmax,
};
pub use risk::RiskCoverage;
pub use temperature::temperature;

use std::thread::{self, available_parallelism};

use crate::error::Result;

/// Work, in values touched, that is worth a thread of its own.
const WORK_PER_THREAD: usize = 1 << 17;

/// How many threads to use for this many values; the results do not depend on it.
fn threads_for(work: usize) -> usize {
    let most = (work / WORK_PER_THREAD).max(1);
    if most == 1 {
        return 1;
    }
    available_parallelism().map_or(1, |n| n.get().min(most))
}

/// Does pieces of work, each in a thread of its own if there is to be more than one, and returns
/// the first error by piece.
fn in_threads<W>(threads: usize, pieces: impl Iterator<Item = W>) -> Result<()>
where
    W: FnOnce() -> Result<()> + Send,
{
    if threads == 1 {
        let mut pieces = pieces;
        return pieces.try_for_each(|piece| piece());
    }
    thread::scope(|scope| {
        let handles: Vec<_> = pieces.map(|piece| scope.spawn(piece)).collect();
        let mut results = handles.into_iter().map(|handle| {
            handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        results.find(Result::is_err).unwrap_or(Ok(()))
    })
}
