//! Evaluation of a finished training: every row at the best and at the last weights, on the test set and on what is out of domain.
//!
//! Cost: `samples` forward passes over every set per row and checkpoint. Memory: the images of one set at a time, four bytes per pixel, and
//! two sets of class probabilities.

use std::path::Path;

use cbopt::{Rule, State};
use datasets::formats::npy::{self, Array, Values};
use datasets::{ImageSet, Library, Normalization, Part};
use engine::PredictorConfig;
use evaluation::CalibrationConfig;
use evaluation::record::{Checkpoint, Evaluation, OutOfDomainEvaluation};
use random::Seeds;
use serde_json::{Map, Value, json};

use crate::config::{OodNormalization, RowConfig, RunConfig};
use crate::error::{Error, Result};
use crate::files;
use crate::observer::Event;
use crate::predictive::{
    Laplace, LaplaceConfig, LaplaceFit, LastLayer, Method, Predictive, Swag, SwagForm, Trained,
};
use crate::run::{Material, normalization_of};
use crate::snapshot::{Progress, Weights};

/// Training images whose pixels are held at a time when Laplace's factors are gathered.
const CHUNK: usize = 4096;

/// Folder of the predictions in the directory of a run.
const PREDICTIONS: &str = "predictions";

/// What an evaluation needs.
pub(crate) struct Evaluator<'a> {
    pub config: &'a RunConfig,
    pub directory: &'a Path,
    pub material: &'a Material,
    pub library: &'a Library,
    pub device: engine::Device,
    pub rule: &'a Rule,
}

/// A row at a checkpoint, ready to predict.
struct Candidate<'a> {
    row: &'a RowConfig,
    method: Method,
    checkpoint: Checkpoint,
    epoch: usize,
    /// Folder of its predictions.
    folder: String,
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
            device: self.device,
            ..PredictorConfig::default()
        };
        let mut predictive = Predictive::new(&self.material.network, predictor)?;
        let mut candidates = self.candidates(progress, best, last, &mut predictive)?;

        let test = self.library.load(&self.config.data.dataset, Part::Test)?;
        let images = test.normalized(&self.material.normalization);
        self.keep_labels(test.labels())?;
        let calibration = CalibrationConfig {
            bins: self.config.evaluation.bins,
            ..CalibrationConfig::default()
        };
        let score = self.config.evaluation.score;
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
            candidate.scores = score.of(&probabilities, test.classes())?;
            candidate.seconds += start.elapsed().as_secs_f64();
            let predictions = self.keep(candidate, "test", &probabilities)?;
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
        let names = &self.config.data.out_of_domain;
        let file_names = file_names(names.iter().map(|name| stem(name)), &["test"]);
        for (name, file) in names.iter().zip(&file_names) {
            let set = self.library.load(name, Part::Test)?;
            let images = set.normalized(&self.ood_normalization(name, &set));
            for (candidate, evaluation) in candidates.iter().zip(&mut evaluations) {
                let (row, checkpoint) = (candidate.row.row(), candidate.checkpoint);
                if tell(Event::Evaluating { row, checkpoint }) {
                    return Ok(None);
                }
                let start = std::time::Instant::now();
                let probabilities = candidate.predict(&mut predictive, self.rule, seed, &images)?;
                let classes = self.material.network.classes();
                let scores = score.of(&probabilities, classes)?;
                let detection =
                    evaluation::out_of_domain(score.name(), &candidate.scores, &scores)?;
                evaluation.seconds += start.elapsed().as_secs_f64();
                self.keep(candidate, file, &probabilities)?;
                evaluation.out_of_domain.push(OutOfDomainEvaluation {
                    dataset: name.clone(),
                    normalization: self.config.data.ood_normalization.name().into(),
                    metrics: detection,
                    // the range of the score, so that rows can be compared
                    curves: evaluation::detection_curves(
                        &candidate.scores,
                        &scores,
                        Some(score.range(classes)),
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
        let folders = file_names(self.config.rows.iter().map(RowConfig::row), &[]);
        for (checkpoint, epoch, weights) in best.into_iter().chain([last]) {
            for (row, folder) in self.config.rows.iter().zip(&folders) {
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
                    folder: match checkpoint {
                        Checkpoint::Best => format!("{folder}-best"),
                        Checkpoint::Final => format!("{folder}-final"),
                    },
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

    fn ood_normalization(&self, name: &str, set: &ImageSet) -> Normalization {
        match self.config.data.ood_normalization {
            OodNormalization::Own => normalization_of(name, set),
            OodNormalization::Training => self.material.normalization.clone(),
        }
    }

    /// Keeps the probabilities `[n, classes]` if the config asks for it; the folder relative to the record.
    fn keep(
        &self,
        candidate: &Candidate<'_>,
        set: &str,
        probabilities: &[f32],
    ) -> Result<Option<String>> {
        if !self.config.evaluation.keep_predictions {
            return Ok(None);
        }
        let classes = self.material.network.classes();
        let shape = vec![probabilities.len() / classes, classes];
        let folder = format!("{PREDICTIONS}/{}", candidate.folder);
        let file = format!("{folder}/{set}.npy");
        self.write_array(&file, shape, Values::Singles(probabilities.to_vec()))?;
        Ok(Some(folder))
    }

    /// Keeps the labels of the test set beside the probabilities.
    fn keep_labels(&self, labels: &[u32]) -> Result<()> {
        if !self.config.evaluation.keep_predictions {
            return Ok(());
        }
        let labels: Vec<i64> = labels.iter().map(|&label| label.into()).collect();
        let file = format!("{PREDICTIONS}/labels.npy");
        self.write_array(&file, vec![labels.len()], Values::Integers(labels))
    }

    fn write_array(&self, file: &str, shape: Vec<usize>, values: Values) -> Result<()> {
        let path = self.directory.join(file);
        let malformed = |error: &dyn std::fmt::Display| Error::malformed(&path, error.to_string());
        let array = Array::new(shape, values).map_err(|error| malformed(&error))?;
        let mut bytes = Vec::new();
        npy::write(&mut bytes, &array).map_err(|error| malformed(&error))?;
        if let Some(folder) = path.parent() {
            files::create_folder(folder)?;
        }
        files::write_atomically(&path, &bytes)
    }
}

/// Names of files for rows and datasets: lower case, without folders and ending, each another than the `taken` ones.
fn file_names<'a>(names: impl IntoIterator<Item = &'a str>, taken: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = taken.iter().map(ToString::to_string).collect();
    for name in names {
        let letter = |c: char| match c.to_ascii_lowercase() {
            c if c.is_alphanumeric() || c == '-' || c == '_' => c,
            _ => '-',
        };
        let plain: String = name.chars().map(letter).collect();
        let mut own = plain.clone();
        let mut number = 2;
        while all.contains(&own) {
            own = format!("{plain}-{number}");
            number += 1;
        }
        all.push(own);
    }
    all.split_off(taken.len())
}

/// The last part of a path without its ending; a name is itself.
fn stem(name: &str) -> &str {
    let path = Path::new(name);
    let stem = if path.extension().is_some_and(|end| end == "npz") {
        path.file_stem()
    } else {
        path.file_name()
    };
    stem.and_then(|stem| stem.to_str()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_names_of_their_own_without_folders() {
        let rows = ["uCBOpt + MC-D", "ucbopt - mc-d", "ϑ = 8e-6"];
        assert_eq!(
            file_names(rows, &[]),
            ["ucbopt---mc-d", "ucbopt---mc-d-2", "ϑ---8e-6"]
        );
        let sets = ["mnist", "/a/b/mnist", "../mnist.npz", "test", "a.b/"].map(stem);
        assert_eq!(
            file_names(sets, &["test"]),
            ["mnist", "mnist-2", "mnist-3", "test-2", "a-b"]
        );
    }
}
