//! Samples of IVON's distribution: `θ + z/√(N(h + δ))`, z standard normal; predictions are the mean
//! over the samples.
//!
//! N, δ are those of the rule, h is the curvature in its state; both are only read. Paper: Section
//! 6 (64 samples; "IVON@mean" is the prediction at θ itself).

use cbopt::noise::NoiseKey;
use cbopt::{Executor, Rule, State, Update};

use engine::{Input, Network};
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::{
    Approach, Fitted, Material, PREDICTION_STEP, Predictive, Trained, WITHOUT_SWAG, default_samples,
};
use crate::config::RunConfig;

/// The method `ivon`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IvonSamples {
    /// Samples of the weights, `1..=100000`. Default 64.
    #[serde(default = "default_samples")]
    pub samples: usize,
}

impl Approach for IvonSamples {
    fn id(&self) -> &'static str {
        "ivon"
    }

    fn passes(&self) -> usize {
        self.samples
    }

    fn needs(&self, run: &RunConfig, _: &Network) -> Option<&'static str> {
        if !run.optimizer.rule.predicts_with_state() {
            return Some("optimizer.rule = \"ivon\"");
        }
        run.swag.is_some().then_some(WITHOUT_SWAG)
    }

    fn takes_state(&self, _: &RunConfig) -> bool {
        true
    }

    fn fit<'a>(
        &self,
        _: &mut Predictive,
        trained: &'a Trained,
        _: Material<'_>,
    ) -> Result<Box<dyn Fitted + 'a>> {
        let Some((rule, state)) = &trained.optimizer else {
            return Err(Error::Missing {
                method: self.id(),
                needs: "the rule ivon and its state",
            });
        };
        check_rule(rule)?;
        Ok(Box::new(Samples {
            rule,
            state,
            mean: &trained.parameters,
            samples: self.samples,
        }))
    }
}

struct Samples<'a> {
    rule: &'a Rule,
    state: &'a State,
    mean: &'a [f32],
    samples: usize,
}

impl Fitted for Samples<'_> {
    fn predict(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
    ) -> Result<Vec<f32>> {
        let fitted = (self.rule, self.state);
        predictive.mean_of_samples(self.samples, seed, images, |executor, sample, out| {
            sample_into(executor, fitted, self.mean, seed, sample, out)
        })
    }

    fn logits(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
        take: &mut dyn FnMut(&[f64]),
    ) -> Result<()> {
        let fitted = (self.rule, self.state);
        let make = |executor: &Executor, sample, out: &mut [f32]| {
            sample_into(executor, fitted, self.mean, seed, sample, out)
        };
        predictive.logits_of_samples((self.samples, seed), images, make, take)
    }
}

/// `Ok` if the rule has samples to predict with.
fn check_rule(rule: &Rule) -> Result<()> {
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
/// Its noise is the vector (seed, step 0, sample); training counts its steps from 1 and shares none
/// of it.
fn sample_into(
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
