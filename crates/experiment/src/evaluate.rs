//! Evaluation of a finished training: every row at the best and at the last weights, on the test
//! set and on what is out of domain. SWAG is evaluated once, from all its snapshots, and the record
//! has the same numbers at both.
//!
//! Cost: `samples` forward passes over every set per row and checkpoint. Memory: two sets of
//! class probabilities beside the images, which are bytes.

use std::path::Path;
use std::time::Instant;

use datasets::ImageSet;
use datasets::formats::npy::{self, Array, Values};
use datasets::formats::picture::Picture;
use engine::{Device, Input, PredictorConfig};
use evaluation::record::{Checkpoint, Evaluation, OutOfDomainEvaluation};
use evaluation::results::{ByClass, Shown};
use evaluation::{CalibrationConfig, Outcomes};

use crate::bounds::{self, Side};
use crate::config::RunConfig;
use crate::data::RunData;
use crate::error::{Error, Result};
use crate::evaluated::{Evaluated, Inside, Piece, Row};
use crate::files;
use crate::predictive::{Allowed, Fitted, Material, Method, Predictive, Trained};

/// Folder of the predictions in the directory of a run.
pub(crate) const PREDICTIONS: &str = "predictions";
/// Images that are looked at to see how long all of them take.
const PROBED: usize = 512;
/// Longest side of the pictures of mistakes in a record.
const THUMBNAIL: usize = 32;

/// What an evaluation needs.
pub(crate) struct Evaluator<'a> {
    pub config: &'a RunConfig,
    pub directory: &'a Path,
    pub data: &'a RunData,
    pub device: Device,
}

/// The rows at the best and at the last weights, ready to predict.
pub(crate) struct Candidates<'a> {
    predictive: Predictive,
    all: Vec<Candidate<'a>>,
    has_best: bool,
}

impl Candidates<'_> {
    /// What methods took from the training images, as files: the checkpoint, what the file is
    /// called after it, and its bytes.
    pub fn posteriors(&self) -> impl Iterator<Item = (Checkpoint, &'static str, Vec<u8>)> {
        self.all
            .iter()
            .enumerate()
            .filter_map(|(place, candidate)| {
                let (checkpoint, method) = (candidate.checkpoint, candidate.method.id());
                // rows of one method and checkpoint have the same
                let is_same = |other: &Candidate<'_>| {
                    other.checkpoint == checkpoint && other.method.id() == method
                };
                if self.all[..place].iter().any(is_same) {
                    return None;
                }
                let (name, bytes) = candidate.fitted.posterior()?;
                Some((checkpoint, name, bytes))
            })
    }
}

/// A row at a checkpoint, ready to predict.
struct Candidate<'a> {
    row: &'a str,
    method: Method,
    checkpoint: Checkpoint,
    epoch: usize,
    /// Folder of its predictions.
    folder: String,
    fitted: Box<dyn Fitted + 'a>,
    /// The weights that it is fitted at.
    parameters: &'a [f32],
    /// Whether its mistakes are shown in the record.
    has_pictures: bool,
    /// Seconds that the fit took.
    seconds: f64,
}

impl Candidate<'_> {
    /// The work on so many images of a set.
    fn piece<'s>(&'s self, set: &'s str, (images, classes): (usize, usize)) -> Piece<'s> {
        Piece {
            row: self.row,
            checkpoint: self.checkpoint,
            set,
            passes: images as f64 * self.method.cost(classes),
        }
    }
}

impl<'a> Evaluator<'a> {
    /// The rows at the best and the last weights, each with its epoch, fitted to what they need.
    pub fn fit(
        &self,
        best: Option<(usize, &'a Trained)>,
        last: (usize, &'a Trained),
    ) -> Result<Candidates<'a>> {
        let predictor = PredictorConfig {
            device: self.device,
            ..PredictorConfig::default()
        };
        let mut predictive = Predictive::new(&self.data.network, predictor)?;
        Ok(Candidates {
            all: self.candidates(best, last, &mut predictive)?,
            predictive,
            has_best: best.is_some(),
        })
    }

    /// All evaluations, of which some may be done already; `None` if it was stopped.
    pub fn evaluate(
        &self,
        candidates: Candidates<'a>,
        evaluated: &mut Evaluated<'_>,
    ) -> Result<Option<Vec<Evaluation>>> {
        let Candidates {
            mut predictive,
            all: candidates,
            has_best,
        } = candidates;
        let classes = self.data.network.classes();
        let all = all_of(&self.data.test);
        let images = Input::bytes(self.data.test.images(), &self.data.normalization, &all);
        self.keep_labels(self.data.test.labels())?;
        for (place, candidate) in candidates.iter().enumerate().skip(evaluated.rows.len()) {
            let piece = candidate.piece("the test images", (all.len(), classes));
            let probe = || self.probe(candidate, &mut predictive, images);
            if !evaluated.begin(&piece, probe)? {
                return Ok(None);
            }
            let (evaluation, inside) = self.in_domain(candidate, &mut predictive, images)?;
            evaluated.rows.push(Row {
                evaluation,
                inside,
                seconds_per_pass: 0.0,
            });
            evaluated.end(place, &piece)?;
        }
        let names = self
            .data
            .names_out_of_domain(&self.config.data.out_of_domain);
        let file_names = file_names(names.iter().map(|name| stem(name)), &["test"]);
        let sets = names.iter().zip(&self.data.out_of_domain).zip(&file_names);
        for (number, ((name, set), file)) in sets.enumerate() {
            let config = &self.config.data;
            let all = all_of(set);
            let normalization = self.data.ood_normalization(config, name, set);
            let images = Input::bytes(set.images(), &normalization, &all);
            for (place, candidate) in candidates.iter().enumerate() {
                if evaluated.rows[place].evaluation.out_of_domain.len() > number {
                    continue;
                }
                let piece = candidate.piece(name, (all.len(), classes));
                let probe = || self.probe(candidate, &mut predictive, images);
                if !evaluated.begin(&piece, probe)? {
                    return Ok(None);
                }
                let start = Instant::now();
                let probabilities = self.predict(candidate, &mut predictive, images)?;
                let allowed = self.allowed(candidate, &predictive, images)?;
                let Row {
                    evaluation, inside, ..
                } = &mut evaluated.rows[place];
                let mut found = self.out_of_domain(name, inside, (&probabilities, &allowed))?;
                if let (Some(bounds), Some(allowed)) = (&mut found.bounds, &allowed) {
                    bounds.shown = self.shown(candidate, &mut predictive, images, allowed)?;
                }
                evaluation.seconds += start.elapsed().as_secs_f64();
                self.keep(candidate, file, &probabilities)?;
                evaluation.out_of_domain.push(found);
                evaluated.end(place, &piece)?;
            }
        }
        let evaluations = evaluated.rows.iter().map(|row| row.evaluation.clone());
        let mut evaluations = evaluations.collect();
        if has_best {
            self.tell_at_both(&mut evaluations);
        }
        Ok(Some(evaluations))
    }

    /// SWAG speaks of all its snapshots and of no single epoch: what it gives at the end is told
    /// for the best weights, too.
    fn tell_at_both(&self, evaluations: &mut Vec<Evaluation>) {
        for (place, row) in self.config.rows.iter().enumerate() {
            let found = evaluations.iter().find(|found| found.row == row.row);
            if let (Method::Swag(_), Some(found)) = (row.method, found) {
                let checkpoint = Checkpoint::Best;
                let again = Evaluation {
                    checkpoint,
                    ..found.clone()
                };
                evaluations.insert(place, again);
            }
        }
    }

    fn predict(
        &self,
        candidate: &Candidate<'_>,
        predictive: &mut Predictive,
        images: Input<'_>,
    ) -> Result<Vec<f32>> {
        let seed = self.config.prediction_seed();
        Ok(predictive.predict(&*candidate.fitted, seed, images)?)
    }

    /// Seconds of a forward pass of an image, by a few of the images.
    fn probe(
        &self,
        candidate: &Candidate<'_>,
        predictive: &mut Predictive,
        images: Input<'_>,
    ) -> Result<f64> {
        let Input::Bytes {
            images,
            normalization,
            indices,
        } = images
        else {
            return Ok(f64::INFINITY);
        };
        let some = &indices[..indices.len().min(PROBED)];
        let images = Input::bytes(images, normalization, some);
        let seconds = predictive.seconds_of_a_pass(candidate.parameters, images)?;
        Ok(seconds / some.len().max(1) as f64)
    }

    /// What the weights still allow to be said, for methods that bound it.
    fn allowed(
        &self,
        candidate: &Candidate<'_>,
        predictive: &Predictive,
        images: Input<'_>,
    ) -> Result<Option<Allowed>> {
        let seed = self.config.prediction_seed();
        Ok(predictive.allowed(&*candidate.fitted, seed, images)?)
    }

    /// The surest and the most doubtful images with all their bounds, at the checkpoint that comes
    /// first. None where each pass has other masks: it would be about other predictions.
    fn shown(
        &self,
        candidate: &Candidate<'_>,
        predictive: &mut Predictive,
        images: Input<'_>,
        allowed: &Allowed,
    ) -> Result<Vec<Shown>> {
        let Input::Bytes {
            images,
            normalization,
            indices,
        } = images
        else {
            return Ok(Vec::new());
        };
        if !candidate.has_pictures || predictive.is_random() {
            return Ok(Vec::new());
        }
        let chosen = bounds::ends(allowed);
        let chosen: Vec<u32> = chosen.iter().map(|&place| indices[place]).collect();
        let input = Input::bytes(images, normalization, &chosen);
        let seed = self.config.prediction_seed();
        let probabilities = self.predict(candidate, predictive, input)?;
        let found = predictive.bounds(&*candidate.fitted, seed, input)?;
        let rows = probabilities.chunks_exact(self.data.network.classes());
        let found = found.iter().flatten().zip(rows).zip(&chosen);
        let shown = found.map(|((bounds, probabilities), &image)| {
            let image = image as usize;
            let picture = Picture::from_planes(images.shape(), images.image(image));
            Shown {
                image,
                class: None,
                classes: bounds::shown_classes(bounds, probabilities),
                picture: picture.data_address(THUMBNAIL),
            }
        });
        Ok(shown.collect())
    }

    /// The evaluation on the test set, and what was found there.
    fn in_domain(
        &self,
        candidate: &Candidate<'_>,
        predictive: &mut Predictive,
        images: Input<'_>,
    ) -> Result<(Evaluation, Inside)> {
        let test = &self.data.test;
        let calibration = CalibrationConfig {
            bins: self.config.evaluation.bins,
            ..CalibrationConfig::default()
        };
        let start = Instant::now();
        let probabilities = self.predict(candidate, predictive, images)?;
        let mut outcomes = Outcomes::new(&probabilities, test.classes(), test.labels())?;
        // below this f32 has no digits left, and then no number but 0
        outcomes.refine(f32::MIN_POSITIVE.into(), |places| {
            let labels: Vec<u32> = places.iter().map(|&place| test.labels()[place]).collect();
            let (fitted, seed) = (&*candidate.fitted, self.config.prediction_seed());
            predictive.log_losses(fitted, seed, images, places, &labels)
        })?;
        let (in_domain, reliability) = outcomes.in_domain(&calibration)?;
        let scores = self
            .config
            .evaluation
            .score
            .of(&probabilities, test.classes())?;
        let by_class = self.by_class(candidate, &probabilities)?;
        let allowed = self.allowed(candidate, predictive, images)?;
        let mut bounds = None;
        if let Some(allowed) = &allowed {
            let mut found = bounds::right_wrong(allowed, test.labels())?;
            found.shown = self.shown(candidate, predictive, images, allowed)?;
            for shown in &mut found.shown {
                shown.class = Some(test.labels()[shown.image] as usize);
            }
            bounds = Some(found);
        }
        let seconds = candidate.seconds + start.elapsed().as_secs_f64();
        let evaluation = Evaluation {
            row: candidate.row.into(),
            predictive: candidate.method.id().into(),
            samples: candidate.method.passes(),
            checkpoint: candidate.checkpoint,
            epoch: candidate.epoch,
            seconds,
            in_domain,
            reliability,
            risk: Some(outcomes.risk_coverage().summary()),
            by_class: Some(by_class),
            bounds,
            out_of_domain: Vec::new(),
            details: candidate.fitted.details(),
            predictions: self.keep(candidate, "test", &probabilities)?,
        };
        let bounded = allowed.map(|allowed| Side::of(allowed.images.iter()));
        Ok((evaluation, Inside { scores, bounded }))
    }

    /// The test set class by class; the mistakes of the checkpoint that comes first are shown.
    fn by_class(&self, candidate: &Candidate<'_>, probabilities: &[f32]) -> Result<ByClass> {
        let test = &self.data.test;
        let mut found = evaluation::by_class(probabilities, test.classes(), test.labels())?;
        let names = test.class_names().or(self.data.set.class_names());
        found.names = names.map(<[String]>::to_vec).unwrap_or_default();
        if candidate.has_pictures {
            for mistake in &mut found.mistakes {
                let picture = Picture::from_planes(test.shape(), test.image(mistake.image));
                mistake.picture = Some(picture.data_address(THUMBNAIL));
            }
        }
        Ok(found)
    }

    /// How well images of another set, with these probabilities, are told from the test images.
    fn out_of_domain(
        &self,
        name: &str,
        inside: &Inside,
        (probabilities, allowed): (&[f32], &Option<Allowed>),
    ) -> Result<OutOfDomainEvaluation> {
        let (score, classes) = (self.config.evaluation.score, self.data.network.classes());
        let scores = score.of(probabilities, classes)?;
        // the same for all rows, so that they can be compared
        let range = Some(score.range(classes));
        Ok(OutOfDomainEvaluation {
            dataset: name.to_owned(),
            normalization: self.config.data.ood_normalization.name().into(),
            metrics: evaluation::out_of_domain(score.name(), &inside.scores, &scores)?,
            curves: evaluation::detection_curves(&inside.scores, &scores, range)?,
            bounds: inside
                .bounded
                .as_ref()
                .zip(allowed.as_ref())
                .map(|(inside, outside)| bounds::out_of_domain(inside, outside))
                .transpose()?,
        })
    }

    fn candidates(
        &self,
        best: Option<(usize, &'a Trained)>,
        last: (usize, &'a Trained),
        predictive: &mut Predictive,
    ) -> Result<Vec<Candidate<'a>>> {
        let best = best.map(|weights| (Checkpoint::Best, "best", weights));
        let last = (Checkpoint::Final, "final", last);
        let labels = self.data.fit_labels();
        let images = self.data.train.len();
        let material = Material {
            rule: Some((self.config.optimizer.build(images, 0)?, images)),
            ..self.data.material(self.config, &labels)
        };
        let mut candidates = Vec::new();
        let rows = &self.config.rows;
        let folders = file_names(rows.iter().map(|row| row.row.as_str()), &[]);
        let checkpoints = best.into_iter().chain([last]).enumerate();
        for (number, (checkpoint, ending, (epoch, trained))) in checkpoints {
            for (row, folder) in rows.iter().zip(&folders) {
                if checkpoint == Checkpoint::Best && matches!(row.method, Method::Swag(_)) {
                    continue;
                }
                let start = Instant::now();
                let fitted = predictive.fit(&row.method, trained, material)?;
                candidates.push(Candidate {
                    row: &row.row,
                    method: row.method,
                    checkpoint,
                    epoch,
                    folder: format!("{folder}-{ending}"),
                    fitted,
                    parameters: &trained.parameters,
                    has_pictures: number == 0,
                    seconds: start.elapsed().as_secs_f64(),
                });
            }
        }
        Ok(candidates)
    }

    /// Keeps the probabilities `[n, classes]` if the config asks for it; the folder relative to the
    /// record.
    fn keep(
        &self,
        candidate: &Candidate<'_>,
        set: &str,
        probabilities: &[f32],
    ) -> Result<Option<String>> {
        if !self.config.evaluation.keep_predictions {
            return Ok(None);
        }
        let classes = self.data.network.classes();
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
        let array = Array::new(shape, values).map_err(|error| Error::malformed(&path, error))?;
        let mut bytes = Vec::new();
        npy::write(&mut bytes, &array).map_err(|error| Error::malformed(&path, error))?;
        files::check_folders(self.directory, &path)?;
        if let Some(folder) = path.parent() {
            files::create_folder(folder)?;
        }
        files::write_atomically(&path, &bytes)
    }
}

/// The positions of all images of a set.
fn all_of(set: &ImageSet) -> Vec<u32> {
    (0..set.len() as u32).collect()
}

/// Names of files for rows and datasets: lower case, without folders and ending, each another than
/// the `taken` ones.
fn file_names<'a>(names: impl IntoIterator<Item = &'a str>, taken: &[&str]) -> Vec<String> {
    let mut all: Vec<String> = taken.iter().map(ToString::to_string).collect();
    for name in names {
        let letter = |c: char| match c.to_ascii_lowercase() {
            c if c.is_alphanumeric() || c == '-' || c == '_' => c,
            _ => '-',
        };
        let plain: String = name.chars().map(letter).collect();
        let mut unique = plain.clone();
        let mut number = 2;
        while all.contains(&unique) {
            unique = format!("{plain}-{number}");
            number += 1;
        }
        all.push(unique);
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
    fn files_have_different_names_without_folders() {
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
