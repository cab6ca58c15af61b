//! Posteriors of files as observations of a report.

use possibility::family::conjugate::{Conjugate, ConjugateFamily};
pub use questions::saved::{Saved, settings, unify};

use super::report::Labels;
use super::{Data, Observations, timed};
use questions::user_error::UserError;

/// The prior of the files and all their evidence.
///
/// # Errors
/// Numbers that the family cannot have.
pub fn merge<F: ConjugateFamily>(
    family: &F,
    files: &[Saved],
    labels: Option<Labels>,
) -> Result<(Conjugate<F>, Observations<F>), UserError> {
    let (merged, reading) = timed(|| questions::saved::merge(family, files));
    let merged = merged?;
    let observations = Observations {
        origin: merged.origin,
        is_weighted: merged.evidence.count() != merged.rows as f64,
        data: Data::Evidence(merged.evidence, merged.rows),
        settings: files[0].settings.clone(),
        labels,
        dropped: None,
        reading,
    };
    Ok((merged.prior, observations))
}
