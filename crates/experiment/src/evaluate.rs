//! Evaluation of a finished training: every row at the best and at the last weights, on the test set and on what is out of domain.
//!
//! Cost: `samples` forward passes over every set per row and checkpoint. Memory: the images of one set at a time, four bytes per pixel, and
//! two sets of class probabilities.

use std::path::Path;

use cbopt::{Rule, State};
use datasets::{ImageSet, Library, Normalization, Part};
use engine::PredictorConfig;
use evaluation::CalibrationConfig;
use evaluation::record::{Checkpoint, Evaluation, OutOfDomainEvaluation};
use serde_json::{Map, Value, json};

use crate::config::{OodNormalization, RowConfig, RunConfig, Score};
use crate::error::Result;
use crate::files;
use crate::observer::Event;
use crate::predictive::{
    Laplace, LaplaceConfig, LaplaceFit, LastLayer, Method, Predictive, Swag, SwagForm, Trained,
};
use crate::run::{Material, check_shape, normalization_of};
use crate::seeds::Seeds;
use crate::snapshot::{Progress, Weights};

/// Training images whose pixels are held at a time when Laplace's factors are gathered.
const CHUNK: usize = 4096;

/// What an evaluation needs.
pub(crate) struct Evaluator<'a> {
    pub config: &'a RunConfig,
    pub directory: &'a Path,
    pub material: &'a Material,
    pub library: &'a Library,
    pub threads: usize,
    pub rule: &'a Rule,
}

/// A row at a checkpoint, ready to predict.
struct Candidate<'a> {
    row: &'a RowConfig,
    method: Method,
    checkpoint: Checkpoint,
    epoch: usize,
    parameters: &'a [f32],
    state: Option<State>,
    swag: Option<Swag>,
    laplace: Option<Laplace>,
    scores: Vec<f64>,
    seconds: f64,
}

impl Candidate<'_> {
    fn predict(
        &self,
        predictive: &mut Predictive,
        rule: &Rule,
        seed: u64,
        images: &[f32],
    ) -> Result<Vec<f32>> {
        let trained = Trained {
            parameters: self.parameters,
            rule: self.state.as_ref().map(|state| (rule, state)),
            swag: self.swag.as_ref(),
            laplace: self.laplace.as_ref(),
        };
        Ok(predictive.predict(&self.method, &trained, seed, images)?)
    }

    fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        if let Some(laplace) = &self.laplace {
            let precision = laplace.prior_precision();
            details.insert("prior_precision".into(), json!(precision));
            if let Ok(value) = laplace.log_marginal_likelihood(precision) {
                details.insert("log_marginal_likelihood".into(), json!(value));
            }
        }
        if let Some(swag) = &self.swag {
            details.insert("rank".into(), json!(swag.rank()));
            details.insert("snapshots".into(), json!(swag.snapshots()));
        }
        details
    }
}

/// The method of a row.
fn method(row: &RowConfig) -> Method {
    let count = |samples: usize| u32::try_from(samples).unwrap_or(u32::MAX);
    match *row {
        RowConfig::Point { .. } => Method::Point {},
        RowConfig::Ivon { samples, .. } => Method::Ivon {
            samples: count(samples),
        },
        RowConfig::McDropout { samples, .. } => Method::McDropout {
            passes: count(samples),
        },
        RowConfig::Swag { samples, .. } => Method::Swag {
            samples: count(samples),
            form: SwagForm::LowRank,
        },
        RowConfig::Laplace {
            prior_precision, ..
        } => Method::Laplace(match prior_precision {
            Some(precision) => LaplaceConfig::fixed(precision),
            None => LaplaceConfig::default(),
        }),
    }
}

impl<'a> Evaluator<'a> {
    /// All evaluations; `None` if `tell` says to stop.
    pub fn evaluate(
        &self,
        progress: &Progress,
        best: Option<&'a Weights>,
        last: &'a Weights,
        mut tell: impl FnMut(Event<'_>) -> bool,
    ) -> Result<Option<Vec<Evaluation>>> {
        let seed = Seeds::new(self.config.seed).stream("predict");
        let predictor = PredictorConfig {
            threads: self.threads,
            ..PredictorConfig::default()
        };
        let mut predictive = Predictive::new(&self.material.network, predictor)?;
        let mut candidates = self.candidates(progress, best, last, &mut predictive)?;

        let test = self.library.load(&self.config.data.dataset, Part::Test)?;
        check_shape(&self.material.network, &test)?;
        let images = test.normalized(&self.material.normalization);
        let calibration = CalibrationConfig {
            bins: self.config.evaluation.bins,
            ..CalibrationConfig::default()
        };
        let mut evaluations = Vec::new();
        for candidate in &mut candidates {
            let (row, checkpoint) = (candidate.row.row(), candidate.checkpoint);
            if tell(Event::Evaluating { row, checkpoint }) {
                return Ok(None);
            }
            let start = std::time::Instant::now();
            let probabilities = candidate.predict(&mut predictive, self.rule, seed, &images)?;
            let (in_domain, reliability) =
                evaluation::in_domain(&probabilities, test.classes(), test.labels(), &calibration)?;
            candidate.scores = self.scores(&probabilities, test.classes())?;
            candidate.seconds += start.elapsed().as_secs_f64();
            let predictions = self.keep(candidate, "test", &probabilities, test.classes())?;
            evaluations.push(Evaluation {
                row: row.into(),
                predictive: candidate.row.predictive().into(),
                samples: candidate.row.samples(),
                checkpoint,
                epoch: candidate.epoch,
                seconds: candidate.seconds,
                in_domain,
                reliability,
                out_of_domain: Vec::new(),
                details: candidate.details(),
                predictions,
            });
        }
        drop(images);
        for name in &self.config.data.out_of_domain {
            let set = self.library.load(name, Part::Test)?;
            check_shape(&self.material.network, &set)?;
            let images = set.normalized(&self.ood_normalization(&set));
            for (candidate, evaluation) in candidates.iter().zip(&mut evaluations) {
                let (row, checkpoint) = (candidate.row.row(), candidate.checkpoint);
                if tell(Event::Evaluating { row, checkpoint }) {
                    return Ok(None);
                }
                let start = std::time::Instant::now();
                let probabilities = candidate.predict(&mut predictive, self.rule, seed, &images)?;
                let classes = self.material.network.classes();
                let scores = self.scores(&probabilities, classes)?;
                let detection =
                    evaluation::out_of_domain(self.score_name(), &candidate.scores, &scores)?;
                evaluation.seconds += start.elapsed().as_secs_f64();
                self.keep(candidate, name, &probabilities, classes)?;
                evaluation.out_of_domain.push(OutOfDomainEvaluation {
                    dataset: name.clone(),
                    normalization: self.config.data.ood_normalization.name().into(),
                    metrics: detection,
                    curves: evaluation::detection_curves(
                        &candidate.scores,
                        &scores,
                        self.score_range(),
                    )?,
                });
            }
        }
        Ok(Some(evaluations))
    }

    fn candidates(
        &self,
        progress: &Progress,
        best: Option<&'a Weights>,
        last: &'a Weights,
        predictive: &mut Predictive,
    ) -> Result<Vec<Candidate<'a>>> {
        let best = best
            .zip(progress.best)
            .map(|(weights, (epoch, _))| (Checkpoint::Best, epoch, weights));
        let last = (Checkpoint::Final, progress.epoch - 1, last);
        let mut candidates = Vec::new();
        for (checkpoint, epoch, weights) in best.into_iter().chain([last]) {
            for row in &self.config.rows {
                let count = weights.parameters.len();
                let start = std::time::Instant::now();
                let method = method(row);
                let state = match (&method, &weights.optimizer) {
                    (Method::Ivon { .. }, Some(bytes)) => {
                        Some(self.rule.state_from_bytes(count, bytes)?)
                    }
                    _ => None,
                };
                let swag = match (&method, &weights.swag) {
                    (Method::Swag { .. }, Some(bytes)) => Some(Swag::from_bytes(count, bytes)?),
                    _ => None,
                };
                let laplace = match &method {
                    Method::Laplace(config) => {
                        Some(self.fit_laplace(config, &weights.parameters, predictive)?)
                    }
                    _ => None,
                };
                candidates.push(Candidate {
                    row,
                    method,
                    checkpoint,
                    epoch,
                    parameters: &weights.parameters,
                    state,
                    swag,
                    laplace,
                    scores: Vec::new(),
                    seconds: start.elapsed().as_secs_f64(),
                });
            }
        }
        Ok(candidates)
    }

    /// The factors come from the training images as they are, without augmentation.
    fn fit_laplace(
        &self,
        config: &LaplaceConfig,
        parameters: &[f32],
        predictive: &mut Predictive,
    ) -> Result<Laplace> {
        let material = self.material;
        let mut fit = LaplaceFit::new(LastLayer::of(&material.network, parameters)?);
        for indices in material.train.chunks(CHUNK) {
            let images = material.set.normalized_at(indices, &material.normalization);
            let labels: Vec<u32> = indices
                .iter()
                .map(|&index| material.set.labels()[index as usize])
                .collect();
            predictive.add_features(&mut fit, parameters, &images, &labels)?;
        }
        Ok(fit.finish(config)?)
    }

    fn ood_normalization(&self, set: &ImageSet) -> Normalization {
        match self.config.data.ood_normalization {
            OodNormalization::Own => normalization_of(set),
            OodNormalization::Training => self.material.normalization.clone(),
        }
    }

    fn scores(&self, probabilities: &[f32], classes: usize) -> Result<Vec<f64>> {
        Ok(match self.config.evaluation.score {
            Score::MaxProbability => evaluation::maximum_probability(probabilities, classes)?,
            Score::Entropy => evaluation::negative_entropy(probabilities, classes)?,
        })
    }

    fn score_name(&self) -> &'static str {
        match self.config.evaluation.score {
            Score::MaxProbability => "maximum probability",
            Score::Entropy => "negative entropy",
        }
    }

    /// Range of the histograms: that of the score where it has one, so that rows can be compared.
    fn score_range(&self) -> Option<(f64, f64)> {
        let classes = self.material.network.classes() as f64;
        Some(match self.config.evaluation.score {
            Score::MaxProbability => (0.0, 1.0),
            Score::Entropy => (-classes.ln(), 0.0),
        })
    }

    /// Keeps the probabilities `[n, classes]` if the config asks for it; the folder relative to the record.
    fn keep(
        &self,
        candidate: &Candidate<'_>,
        set: &str,
        probabilities: &[f32],
        classes: usize,
    ) -> Result<Option<String>> {
        if !self.config.evaluation.keep_predictions {
            return Ok(None);
        }
        let checkpoint = match candidate.checkpoint {
            Checkpoint::Best => "best",
            Checkpoint::Final => "final",
        };
        let row: String = candidate
            .row
            .row()
            .chars()
            .map(|c| {
                if c.is_alphanumeric() {
                    c.to_ascii_lowercase()
                } else {
                    '-'
                }
            })
            .collect();
        let folder = format!("predictions/{row}-{checkpoint}");
        files::create_folder(&self.directory.join(&folder))?;
        let path = self.directory.join(&folder).join(format!("{set}.npy"));
        files::write_atomically(&path, &npy(probabilities, classes))?;
        Ok(Some(folder))
    }
}

/// A NumPy file of `f32`, `[n, classes]`, version 1.0.
fn npy(values: &[f32], classes: usize) -> Vec<u8> {
    let rows = values.len() / classes.max(1);
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {classes}), }}");
    // magic, version, length and header together are a multiple of 64 and end with a new line
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(crate::weights::to_bytes(values));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_an_array_is_aligned() {
        let bytes = npy(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3);
        let length = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
        assert_eq!((10 + length) % 64, 0);
        assert_eq!(bytes.len(), 10 + length + 24);
        let header = std::str::from_utf8(&bytes[10..10 + length]).unwrap();
        assert!(header.contains("'shape': (2, 3)") && header.ends_with('\n'));
    }
}
