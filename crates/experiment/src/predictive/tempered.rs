//! Softmax of logits that are divided by a temperature: `softmax(z / T)`.

use engine::{Input, Network};
use serde::{Deserialize, Serialize};

use super::error::Result;
use super::{Approach, Fitted, Labeled, Predictive, Trained};
use crate::config::RunConfig;

/// The method `tempered`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tempered {
    /// Temperature T in `(0, inf)`; above 1 the probabilities are flatter.
    pub temperature: f64,
}

impl Approach for Tempered {
    fn id(&self) -> &'static str {
        "tempered"
    }

    fn check(&self) -> images::Result<()> {
        let t = self.temperature;
        images::check("temperature", t, "(0, inf)", t > 0.0 && t.is_finite())
    }

    fn needs(&self, _: &RunConfig, _: &Network) -> Option<&'static str> {
        None
    }

    fn fit<'a>(
        &self,
        _: &mut Predictive,
        trained: &'a Trained,
        _: Labeled<'_>,
    ) -> Result<Box<dyn Fitted + 'a>> {
        Ok(Box::new(Cooled {
            parameters: &trained.parameters,
            temperature: self.temperature as f32,
        }))
    }
}

struct Cooled<'a> {
    parameters: &'a [f32],
    temperature: f32,
}

impl Fitted for Cooled<'_> {
    fn predict(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
    ) -> Result<Vec<f32>> {
        let mut rows = predictive.engine.logits(self.parameters, seed, images)?;
        for row in rows.chunks_exact_mut(predictive.network.classes()) {
            let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter_mut()
                .for_each(|z| *z = ((*z - largest) / self.temperature).exp());
            let sum: f32 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= sum);
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Method, Point};
    use super::*;

    #[test]
    fn a_high_temperature_levels_and_one_is_the_softmax() {
        let net = engine::zoo::lenet(10).unwrap();
        let trained = Trained::new(net.initial_parameters(3));
        let mut predictive = Predictive::new(&net, engine::PredictorConfig::default()).unwrap();
        let images: Vec<f32> = (0..2 * 784).map(|i| (i % 7) as f32).collect();
        let mut probabilities = |method: Method| {
            let nothing = Labeled {
                images: Input::Floats(&[]),
                labels: &[],
            };
            let fitted = predictive.fit(&method, &trained, nothing).unwrap();
            predictive.predict(&*fitted, 0, &images).unwrap()
        };
        let at = |temperature| Method::Tempered(Tempered { temperature });
        let plain = probabilities(Method::Point(Point {}));
        for (p, q) in probabilities(at(1.0)).iter().zip(&plain) {
            assert!((p - q).abs() < 1e-6, "{p} {q}");
        }
        for p in probabilities(at(1e6)) {
            assert!((p - 0.1).abs() < 1e-5, "{p}");
        }
        assert!(at(0.0).check().is_err() && at(f64::NAN).check().is_err());
    }
}
