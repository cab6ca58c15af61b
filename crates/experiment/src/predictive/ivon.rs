//! Samples of IVON's distribution: `θ + z/√(N(h + δ))`, z standard normal; predictions are the mean over the samples.
//!
//! N, δ are those of the rule, h is the curvature in its state; both are only read. Paper: Section 6 (64 samples; "IVON@mean" is
//! the prediction at θ itself).

use cbopt::noise::NoiseKey;
use cbopt::{Executor, Rule, State, Update};

use super::PREDICTION_STEP;
use super::error::{Error, Result};

/// `Ok` if the rule has samples to predict with.
pub(crate) fn check_rule(rule: &Rule) -> Result<()> {
    if rule.predicts_with_state() {
        return Ok(());
    }
    Err(Error::Unsuited {
        method: "ivon",
        problem: format!("needs weights trained with ivon, not with {}", rule.id()),
    })
}

/// Writes sample number `sample` under `seed` to `out`.
///
/// Its noise is the vector (seed, step 0, sample); training counts its steps from 1 and shares none of it.
pub(crate) fn sample_into(
    executor: &Executor,
    (rule, state): (&Rule, &State),
    mean: &[f32],
    seed: u64,
    sample: u32,
    out: &mut [f32],
) -> Result<()> {
    let key = NoiseKey {
        seed,
        step: PREDICTION_STEP,
        sample,
    };
    rule.sample(executor, mean, state, key, out)?;
    Ok(())
}
