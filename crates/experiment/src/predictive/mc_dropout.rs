//! Mean over dropout masks at the same weights: the engine takes another mask for each pass. Paper:
//! Appendix K.

use engine::{Input, Network, Predictor};
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::{Approach, Fitted, Material, Predictive, Trained, default_samples, stays_random, wide};
use crate::config::RunConfig;

/// The method `mc-dropout`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McDropout {
    /// Passes, `1..=100000`. Default 64.
    #[serde(default = "default_samples")]
    pub samples: usize,
}

impl Approach for McDropout {
    fn id(&self) -> &'static str {
        "mc-dropout"
    }

    fn passes(&self) -> usize {
        self.samples
    }

    fn needs(&self, _: &RunConfig, network: &Network) -> Option<&'static str> {
        (!stays_random(network)).then_some("network.dropout")
    }

    fn fit<'a>(
        &self,
        predictive: &mut Predictive,
        trained: &'a Trained,
        _: Material<'_>,
    ) -> Result<Box<dyn Fitted + 'a>> {
        if !predictive.stays_random {
            let name = predictive.network.name();
            return Err(Error::Unsuited {
                method: self.id(),
                problem: format!(
                    "needs a network with dropout that stays on, such as lenet-dropout, but \
                     '{name}' has none"
                ),
            });
        }
        Ok(Box::new(Masks {
            parameters: &trained.parameters,
            samples: self.samples,
        }))
    }
}

struct Masks<'a> {
    parameters: &'a [f32],
    samples: usize,
}

impl Fitted for Masks<'_> {
    fn predict(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
    ) -> Result<Vec<f32>> {
        let weights = vec![self.parameters; self.samples];
        Ok(predictive
            .engine
            .mean_probabilities(&weights, seed, images)?)
    }

    fn logits(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
        take: &mut dyn FnMut(&[f64]),
    ) -> Result<()> {
        for number in 0..self.samples {
            let seed = Predictor::seed_of_pass(seed, number);
            let logits = predictive.engine.logits(self.parameters, seed, images)?;
            take(&wide(&logits));
        }
        Ok(())
    }
}
