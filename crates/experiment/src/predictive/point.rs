//! One pass at the weights; with `ivon` these are the mean of its distribution. Where dropout stays
//! on, it is one pass with one mask.

use engine::{Input, Network};
use serde::{Deserialize, Serialize};

use super::error::Result;
use super::{Approach, Fitted, Material, Predictive, Trained, wide};
use crate::config::RunConfig;

/// The method `point`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {}

impl Approach for Point {
    fn id(&self) -> &'static str {
        "point"
    }

    fn needs(&self, _: &RunConfig, _: &Network) -> Option<&'static str> {
        None
    }

    fn fit<'a>(
        &self,
        _: &mut Predictive,
        trained: &'a Trained,
        _: Material<'_>,
    ) -> Result<Box<dyn Fitted + 'a>> {
        Ok(Box::new(AtWeights(&trained.parameters)))
    }
}

/// Predictions at these weights.
pub(super) struct AtWeights<'a>(pub(super) &'a [f32]);

impl Fitted for AtWeights<'_> {
    fn predict(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
    ) -> Result<Vec<f32>> {
        Ok(predictive.engine.probabilities(self.0, seed, images)?)
    }

    fn logits(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
        take: &mut dyn FnMut(&[f64]),
    ) -> Result<()> {
        take(&wide(&predictive.engine.logits(self.0, seed, images)?));
        Ok(())
    }
}
