//! What the weights still allow to be said: upper and lower probability, possibility and necessity,
//! from one forward and one backward pass per class, without a sample.
//!
//! Training leaves weights `m` and precisions `Λ` around them ([`cbopt::precision`]). With logits
//! linear in the weights, `g(θ) = exp(-½ Σ Λᵢ(θᵢ-mᵢ)²)` becomes a normal possibility function of
//! the logits with covariance `C = JΛ⁻¹Jᵀ` ([`engine::gram_matrices`]), and the bounds are those
//! of [`possibility::prediction`]. `Λ` is multiplied by a `factor`, given or chosen on validation
//! images by a [`Criterion`]. The class probabilities are those at `m`.
//!
//! `C` is computed once: rows of one training that differ in the factor alone share it. The device
//! computes it, in `f32` whatever the precision of training; the bounds are the processor's. For
//! more classes than `classes`, the bounds are about the most probable ones of each image, as if
//! there were no others.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

use cbopt::Precision;
use engine::{GRAM_CLASSES, GramConfig, Input, Network, Precisions, gram_matrices};
use evaluation::{Ranking, Scores};
use images::check;
use possibility::prediction::Logits;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::error::{Error, Result};
use super::point::AtWeights;
use super::{
    Approach, Fitted, Labeled, Material, Predictive, Trained, WITHOUT_SWAG, check_positive, count,
    take,
};
use crate::config::RunConfig;
use crate::data::spread;

/// Numbers of pixels that are held at a time, 32 MiB: memory for all classes is taken once for as
/// many images.
const TOGETHER: usize = 8 << 20;
/// Validation images that choose the factor, evenly spread.
const VALIDATION: usize = 2000;
/// Halvings of the step between two factors, where a criterion asks how far one may go.
const HALVINGS: usize = 4;
/// The factor among the details of a record.
const FACTOR: &str = "factor";
/// Area under the ROC curve that the criterion `right-wrong` gives away.
const GIVEN_AWAY: f64 = 0.01;

/// The method `possibilistic`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Possibilistic {
    /// What the rule's precisions are multiplied by: a number above 0, or the criterion that
    /// chooses it. Default 1.
    pub factor: Factor,
    /// The most probable classes of an image that the bounds are about, `2..=1000`. Default 10.
    pub classes: usize,
    /// Only the weights of the last layer may move. Default off.
    pub last_layer: bool,
    /// Most images of a set that get bounds, evenly spread. Default all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images: Option<usize>,
}

impl Default for Possibilistic {
    fn default() -> Self {
        Self {
            factor: Factor::Given(1.0),
            classes: 10,
            last_layer: false,
            images: None,
        }
    }
}

/// The factor of the precisions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a number above 0, \"nll\" or \"right-wrong\""
)]
pub enum Factor {
    /// This one.
    Given(f64),
    /// The one that a criterion chooses.
    Chosen(Criterion),
}

/// What chooses the factor, of `10^(k/2)` from 1e-4 to 1e6, on up to 2000 validation images; for
/// `right-wrong` to `10^(1/32)`, by halving the step four times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Criterion {
    /// The least mean of `-log P̄(label)/Σ_k P̄(k)`, the log loss of the normalized upper
    /// probabilities.
    Nll,
    /// The smallest from which on the lower probability tells right from wrong answers as well as
    /// the maximum probability does, to 0.01 of the area under the ROC curve.
    RightWrong,
}

impl Possibilistic {
    /// With the factor that was chosen, if the details of a record tell one.
    pub(super) fn settled(mut self, details: &Map<String, Value>) -> Self {
        let known = details.get(FACTOR).and_then(Value::as_f64);
        if let (Factor::Chosen(_), Some(factor)) = (self.factor, known) {
            self.factor = Factor::Given(factor);
        }
        self
    }
}

impl Approach for Possibilistic {
    fn id(&self) -> &'static str {
        "possibilistic"
    }

    /// One backward pass per class, which is as dear as two forward ones.
    fn cost(&self, classes: usize) -> f64 {
        let backward = if self.last_layer {
            0
        } else {
            self.classes.min(classes)
        };
        1.0 + 2.0 * backward as f64
    }

    fn check(&self) -> images::Result<()> {
        if let Factor::Given(factor) = self.factor {
            check_positive("factor", factor)?;
        }
        let allowed = (2..=GRAM_CLASSES).contains(&self.classes);
        check("classes", self.classes as f64, "2..=1000", allowed)?;
        let images = self.images.unwrap_or(1);
        check("images", images as f64, "1..", images > 0)
    }

    fn needs(&self, run: &RunConfig, _: &Network) -> Option<&'static str> {
        let rule = run.optimizer.build(1, 0).ok()?;
        if run.swag.is_some() && rule.precision_needs_state() {
            return Some(WITHOUT_SWAG);
        }
        if let Ok(Precision::Common(0.0)) = rule.precision(1, None) {
            return Some("optimizer.weight_decay above 0");
        }
        let chosen = matches!(self.factor, Factor::Chosen(_));
        (chosen && run.data.validation_share == 0.0)
            .then_some("validation images to choose the factor, data.validation_share above 0")
    }

    fn takes_images(&self, _: &Trained) -> bool {
        matches!(self.factor, Factor::Chosen(_))
    }

    fn takes_state(&self, run: &RunConfig) -> bool {
        let rule = run.optimizer.build(1, 0);
        rule.is_ok_and(|rule| rule.precision_needs_state())
    }

    fn fit<'a>(
        &self,
        predictive: &mut Predictive,
        trained: &'a Trained,
        material: Material<'_>,
    ) -> Result<Box<dyn Fitted + 'a>> {
        let Some((rule, examples)) = material.rule else {
            return Err(Error::Missing {
                method: self.id(),
                needs: "the rule that trained the weights",
            });
        };
        let state = trained.optimizer.as_ref().map(|(_, state)| state);
        let mut fitted = Around {
            method: *self,
            parameters: &trained.parameters,
            precision: rule.precision(examples, state)?,
            factor: 1.0,
            choice: None,
        };
        match self.factor {
            Factor::Given(factor) => fitted.factor = factor,
            Factor::Chosen(criterion) => {
                let choice = fitted.choose(criterion, predictive, material.validation)?;
                fitted.factor = choice.factor;
                fitted.choice = Some(choice);
            }
        }
        Ok(Box::new(fitted))
    }
}

/// What is allowed to be said of some images.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowed {
    /// Places of the images among those that were given.
    pub places: Vec<usize>,
    /// One for each of them.
    pub images: Vec<AllowedImage>,
}

/// What is allowed to be said of an image.
#[derive(Debug, Clone, PartialEq)]
pub struct AllowedImage {
    /// The class with the largest logit; of equal ones the first.
    pub answer: usize,
    /// Probabilities of all classes at the weights.
    pub probabilities: Vec<f64>,
    /// Its lower probability.
    pub lower: f64,
    /// Its upper probability.
    pub upper: f64,
    /// Log of the possibility that a class has the largest logit; minus infinity for classes that
    /// the bounds are not about.
    pub log_possibility: Vec<f64>,
    /// All scores. That of the necessity is `-log max_{k≠ŷ} Π_k`, which has the same order and no
    /// ties at 1.
    pub scores: Scores<f64>,
    /// The bounds were not certified: they are 0 and 1.
    pub is_vacuous: bool,
}

impl AllowedImage {
    /// The probability of the answer at the weights.
    pub fn probability(&self) -> f64 {
        self.probabilities[self.answer]
    }
}

/// All bounds of an image; entries for all classes, `None` for those that the bounds are not about.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassBounds {
    /// The class with the largest logit; of equal ones the first.
    pub answer: usize,
    /// Upper probabilities.
    pub upper: Vec<Option<f64>>,
    /// Lower probabilities.
    pub lower: Vec<Option<f64>>,
    /// Possibilities that a class has the largest logit.
    pub possibility: Vec<Option<f64>>,
    /// One minus the largest possibility of another answer.
    pub necessity: f64,
    /// The bounds were not certified: they are 0 and 1.
    pub is_vacuous: bool,
}

/// The weights, with what may move around them.
struct Around<'a> {
    method: Possibilistic,
    parameters: &'a [f32],
    /// The rule's own, without the factor.
    precision: Precision,
    factor: f64,
    choice: Option<Choice>,
}

/// How the factor was chosen.
struct Choice {
    criterion: Criterion,
    factor: f64,
    /// The factors that were tried, and what the criterion gave.
    tried: Vec<(f64, f64)>,
    images: usize,
}

/// Looks at images that rows of one training share, by what they depend on.
#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<HashMap<u64, Vec<Look>>>);

impl Looks {
    fn get(&self, key: u64) -> Option<Vec<Look>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key).cloned()
    }

    fn keep(&self, key: u64, looks: Vec<Look>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, looks);
    }
}

fn hash_bits(values: &[f32], hasher: &mut DefaultHasher) {
    values.len().hash(hasher);
    for value in values {
        value.to_bits().hash(hasher);
    }
}

/// An image's logits and their covariance.
#[derive(Debug, Clone, PartialEq)]
struct Look {
    logits: Vec<f64>,
    /// What the covariance is about.
    classes: Vec<u32>,
    covariance: Vec<f64>,
}

impl Fitted for Around<'_> {
    fn predict(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
    ) -> Result<Vec<f32>> {
        AtWeights(self.parameters).predict(predictive, seed, images)
    }

    fn logits(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
        take: &mut dyn FnMut(&[f64]),
    ) -> Result<()> {
        AtWeights(self.parameters).logits(predictive, seed, images, take)
    }

    fn allowed(
        &self,
        predictive: &Predictive,
        seed: u64,
        images: Input<'_>,
    ) -> Result<Option<Allowed>> {
        let total = count(images, predictive.network.input_shape().len());
        let places = spread(total, self.method.images.unwrap_or(total));
        let looks = self.look(predictive, seed, images, &places, true)?;
        let images = side_by_side(&looks, predictive.threads(), |look| {
            look.allowed(self.factor)
        });
        let images = images.into_iter().collect::<Result<_>>()?;
        Ok(Some(Allowed { places, images }))
    }

    fn bounds(
        &self,
        predictive: &Predictive,
        seed: u64,
        images: Input<'_>,
    ) -> Result<Option<Vec<ClassBounds>>> {
        let total = count(images, predictive.network.input_shape().len());
        let places: Vec<usize> = (0..total).collect();
        let looks = self.look(predictive, seed, images, &places, false)?;
        let found = side_by_side(&looks, predictive.threads(), |look| {
            look.bounds(self.factor)
        });
        found.into_iter().collect::<Result<_>>().map(Some)
    }

    fn details(&self) -> Map<String, Value> {
        let mut details = Map::new();
        details.insert(FACTOR.into(), self.factor.into());
        if let Some(choice) = &self.choice {
            details.insert("criterion".into(), json!(choice.criterion));
            details.insert("validation_images".into(), choice.images.into());
            let tried = choice.tried.iter().filter(|(_, value)| value.is_finite());
            let tried: Vec<_> = tried
                .map(|(factor, value)| json!([factor, value]))
                .collect();
            details.insert("tried".into(), tried.into());
        }
        let precisions = match self.precision.clone().scaled(self.factor) {
            Precision::Common(value) => [value; 3],
            Precision::Each(mut values) => {
                values.sort_by(f32::total_cmp);
                [0, values.len() / 2, values.len() - 1].map(|place| values[place].into())
            }
        };
        for (name, value) in ["smallest", "median", "largest"].iter().zip(precisions) {
            details.insert(format!("{name}_precision"), value.into());
        }
        let weights = match self.method.last_layer {
            true => "last layer",
            false => "all",
        };
        details.insert("weights".into(), weights.into());
        details.insert("classes".into(), self.method.classes.into());
        details
    }
}

impl Around<'_> {
    /// Logits and covariances of the images at these places; for other rows, too, where they are
    /// `kept`.
    fn look(
        &self,
        predictive: &Predictive,
        seed: u64,
        images: Input<'_>,
        places: &[usize],
        kept: bool,
    ) -> Result<Vec<Look>> {
        let mut looks = Vec::with_capacity(places.len());
        let weights = self.hash(seed);
        let size = predictive.network.input_shape().len();
        for places in places.chunks((TOGETHER / size).max(1)) {
            let pixels = take(images, size, places);
            if !kept {
                looks.extend(self.look_at(predictive, seed, &pixels)?);
                continue;
            }
            let mut hasher = weights.clone();
            hash_bits(&pixels, &mut hasher);
            let key = hasher.finish();
            let known = predictive.looks.get(key);
            looks.extend(match known {
                Some(known) => known,
                None => {
                    let found = self.look_at(predictive, seed, &pixels)?;
                    predictive.looks.keep(key, found.clone());
                    found
                }
            });
        }
        Ok(looks)
    }

    /// All that looks depend on besides network and images.
    fn hash(&self, seed: u64) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        (seed, self.method.classes, self.method.last_layer).hash(&mut hasher);
        hash_bits(self.parameters, &mut hasher);
        match &self.precision {
            Precision::Common(value) => value.to_bits().hash(&mut hasher),
            Precision::Each(values) => hash_bits(values, &mut hasher),
        }
        hasher
    }

    /// Logits and covariances of these images.
    fn look_at(&self, predictive: &Predictive, seed: u64, pixels: &[f32]) -> Result<Vec<Look>> {
        let network = &predictive.network;
        let precisions = match &self.precision {
            Precision::Common(value) => Precisions::Common(*value),
            Precision::Each(values) => Precisions::Each(values),
        };
        let config = GramConfig {
            classes: self.method.classes,
            last_layer: self.method.last_layer,
            device: predictive.device,
        };
        let all = network.classes();
        let m = self.method.classes.min(all);
        let found = gram_matrices(network, self.parameters, precisions, seed, pixels, &config)?;
        let rows = found
            .logits
            .chunks_exact(all)
            .zip(found.classes.chunks_exact(m))
            .zip(found.matrices.chunks_exact(m * m));
        let looks = rows.map(|((logits, classes), covariance)| Look {
            logits: logits.iter().map(|&z| z.into()).collect(),
            classes: classes.to_vec(),
            covariance: covariance.to_vec(),
        });
        Ok(looks.collect())
    }

    /// The factor of a criterion, on validation images.
    fn choose(
        &self,
        criterion: Criterion,
        predictive: &Predictive,
        validation: Labeled<'_>,
    ) -> Result<Choice> {
        let places = spread(validation.labels.len(), VALIDATION);
        if places.is_empty() {
            return Err(Error::Missing {
                method: self.method.id(),
                needs: "validation images to choose the factor",
            });
        }
        let looks = self.look(predictive, 0, validation.images, &places, true)?;
        let labels = places
            .iter()
            .map(|&place| validation.labels[place] as usize);
        let labeled: Vec<(Look, usize)> = looks.into_iter().zip(labels).collect();
        let value = |factor: f64| match criterion {
            Criterion::Nll => nll(&labeled, factor, predictive.threads()),
            Criterion::RightWrong => right_wrong(&labeled, factor, predictive.threads()),
        };
        let mut tried = Vec::new();
        for factor in (-8..=12).map(|k| 10f64.powf(f64::from(k) / 2.0)) {
            tried.push((factor, value(factor)?));
        }
        for _ in 0..HALVINGS {
            if let Some((place, factor)) = criterion.between(&tried) {
                tried.insert(place, (factor, value(factor)?));
            }
        }
        Ok(Choice {
            criterion,
            factor: criterion.best(&tried),
            tried,
            images: places.len(),
        })
    }
}

impl Criterion {
    /// The factor chosen among those that were tried, in increasing order.
    fn best(self, tried: &[(f64, f64)]) -> f64 {
        let chosen = match self {
            Self::Nll => {
                let better = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
                tried.iter().min_by(better)
            }
            // undefined is below nothing: then the precisions stay large
            Self::RightWrong => {
                let enough = |(_, lost): &&(f64, f64)| *lost <= GIVEN_AWAY;
                tried
                    .iter()
                    .rev()
                    .take_while(enough)
                    .last()
                    .or(tried.last())
            }
        };
        chosen.map_or(1.0, |(factor, _)| *factor)
    }

    /// The next factor to try, between the one chosen and the largest that is not good enough,
    /// and its place among those that were tried: pairs of factor and value, in increasing order.
    pub fn between(self, tried: &[(f64, f64)]) -> Option<(usize, f64)> {
        let best = self.best(tried);
        let place = tried.iter().position(|(factor, _)| *factor == best)?;
        let below = tried.get(place.checked_sub(1)?)?;
        (self == Self::RightWrong).then(|| (place, (below.0 * best).sqrt()))
    }
}

/// Mean of `-log P̄(label)/Σ_k P̄(k)`; a class that the bounds are not about has its probability.
fn nll(labeled: &[(Look, usize)], factor: f64, threads: NonZero<usize>) -> Result<f64> {
    let losses = side_by_side(labeled, threads, |(look, label)| -> Result<f64> {
        let logits = look.moving(factor)?;
        let mut upper = evaluation::softmax(&look.logits, look.logits.len())?;
        for (k, &class) in look.classes.iter().enumerate() {
            upper[class as usize] = certified(logits.upper(k))?.unwrap_or(1.0);
        }
        let sum: f64 = upper.iter().sum();
        Ok((sum / upper[*label]).ln())
    });
    let losses = losses.into_iter().collect::<Result<Vec<f64>>>()?;
    Ok(losses.iter().sum::<f64>() / losses.len() as f64)
}

/// How much smaller the area under the ROC curve of right against wrong answers is by the lower
/// than by the maximum probability; infinite where it is undefined.
fn right_wrong(labeled: &[(Look, usize)], factor: f64, threads: NonZero<usize>) -> Result<f64> {
    let found = side_by_side(labeled, threads, |(look, label)| -> Result<_> {
        let logits = look.moving(factor)?;
        let answer = logits.answer();
        let (lower, p) = (logits.lower(answer).value, logits.probabilities()[answer]);
        Ok((look.classes[answer] as usize == *label, lower, p))
    });
    let found = found.into_iter().collect::<Result<Vec<_>>>()?;
    let auroc = |score: fn(&(bool, f64, f64)) -> f64| -> Result<Option<f64>> {
        let side = |right: bool| {
            found
                .iter()
                .filter(move |image| image.0 == right)
                .map(score)
        };
        let (right, wrong): (Vec<f64>, Vec<f64>) = (side(true).collect(), side(false).collect());
        Ok(Ranking::new(&right, &wrong)?.auroc())
    };
    let (lower, p) = (auroc(|image| image.1)?, auroc(|image| image.2)?);
    Ok(p.zip(lower).map_or(f64::INFINITY, |(p, lower)| p - lower))
}

impl Look {
    /// The normal possibility function of the logits, its covariance divided by a factor.
    fn moving(&self, factor: f64) -> Result<Logits> {
        let logits: Vec<f64> = (self.classes.iter())
            .map(|&class| self.logits[class as usize])
            .collect();
        let covariance: Vec<f64> = self.covariance.iter().map(|c| c / factor).collect();
        Ok(Logits::new(&logits, &covariance)?)
    }

    /// All bounds of all classes.
    fn bounds(&self, factor: f64) -> Result<ClassBounds> {
        let logits = self.moving(factor)?;
        let found = certified(logits.predict())?;
        let spread = |entries: Option<Vec<f64>>, vacuous: f64| {
            let mut all = vec![None; self.logits.len()];
            for (k, &class) in self.classes.iter().enumerate() {
                let value = entries.as_ref().map_or(vacuous, |entries| entries[k]);
                all[class as usize] = Some(value);
            }
            all
        };
        let found = found.as_ref();
        Ok(ClassBounds {
            answer: self.classes[logits.answer()] as usize,
            upper: spread(found.map(|found| found.upper.clone()), 1.0),
            lower: spread(found.map(|found| found.lower.clone()), 0.0),
            possibility: spread(found.map(|found| found.possibility()), 1.0),
            necessity: found.map_or(0.0, |found| found.necessity()),
            is_vacuous: found.is_none(),
        })
    }

    /// All that is allowed to be said.
    fn allowed(&self, factor: f64) -> Result<AllowedImage> {
        let logits = self.moving(factor)?;
        let answer = logits.answer();
        let upper = certified(logits.upper(answer))?;
        let possible = certified(logits.log_possibilities())?;
        let (is_vacuous, lower, upper, possible) = match (upper, possible) {
            (Some(upper), Some(possible)) => {
                let lower = logits.lower(answer).value;
                (false, lower, upper.min(1.0), possible)
            }
            _ => (true, 0.0, 1.0, vec![0.0; self.classes.len()]),
        };
        let mut log_possibility = vec![f64::NEG_INFINITY; self.logits.len()];
        for (&class, log) in self.classes.iter().zip(possible) {
            log_possibility[class as usize] = log;
        }
        let answer = self.classes[answer] as usize;
        let rivals = log_possibility.iter().enumerate();
        let rival = rivals
            .filter(|(class, _)| *class != answer)
            .fold(f64::NEG_INFINITY, |most, (_, log)| most.max(*log));
        let largest = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let max_logit = largest(&self.logits);
        // in whatever order the classes stand, so that equal scores are ties
        let energy = evaluation::energy(&self.logits);
        let probabilities = evaluation::softmax(&self.logits, self.logits.len())?;
        let m = self.classes.len();
        let tempered = self.classes.iter().enumerate().map(|(k, &class)| {
            let variance = self.covariance[k * m + k] / factor;
            self.logits[class as usize] / (1.0 + std::f64::consts::PI / 8.0 * variance).sqrt()
        });
        let tempered: Vec<f64> = tempered.collect();
        Ok(AllowedImage {
            answer,
            lower,
            upper,
            log_possibility,
            scores: Scores {
                max_probability: largest(&probabilities),
                energy,
                max_logit,
                probit: largest(&evaluation::softmax(&tempered, m)?),
                necessity: -rival,
                lower,
                width: lower - upper,
            },
            probabilities,
            is_vacuous,
        })
    }
}

/// What was found, or nothing where it could not be certified.
fn certified<T>(found: possibility::Result<T>) -> Result<Option<T>> {
    use possibility::Error::{NotCertified, NotConverged};
    match found {
        Ok(value) => Ok(Some(value)),
        Err(NotCertified { .. } | NotConverged { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Something of each item, on several threads; in the order of the items.
fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    threads: NonZero<usize>,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let share = items.len().div_ceil(threads.get()).max(1);
    std::thread::scope(|scope| {
        let work = &work;
        let parts = items.chunks(share);
        let handles: Vec<_> = parts
            .map(|part| scope.spawn(move || part.iter().map(work).collect::<Vec<R>>()))
            .collect();
        let results = handles.into_iter().flat_map(|handle| {
            handle
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        results.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two classes: everything is closed or one-dimensional.
    fn two() -> Look {
        Look {
            logits: vec![1.5, 0.5],
            classes: vec![0, 1],
            covariance: vec![0.9, 0.1, 0.1, 0.4],
        }
    }

    #[test]
    fn two_classes_by_hand() {
        let found = two().allowed(2.0).unwrap();
        // v = (0.9 + 0.4 - 0.2) / 2, Π₁ = exp(-½ 1²/v)
        let v = 0.55;
        assert_eq!(found.answer, 0);
        assert!((found.log_possibility[1] + 0.5 / v).abs() < 1e-12);
        assert_eq!(found.log_possibility[0], 0.0);
        assert!((found.scores.necessity - 0.5 / v).abs() < 1e-12);
        let p = 1.0 / (1.0 + (-1.0f64).exp());
        assert!((found.probability() - p).abs() < 1e-15);
        assert!((found.scores.energy - (1.5f64.exp() + 0.5f64.exp()).ln()).abs() < 1e-12);
        assert_eq!(found.scores.max_logit, 1.5);
        // the difference d of the logits, on a grid
        let sup = |sign: f64| {
            let grid = (-40_000..40_000).map(|i| f64::from(i) * 1e-3 + 1.0);
            let value = |d: f64| (-0.5 * (d - 1.0).powi(2) / v).exp() / (1.0 + (-sign * d).exp());
            grid.map(value).fold(0.0, f64::max)
        };
        assert!((found.upper - sup(1.0)).abs() < 1e-6, "{}", found.upper);
        assert!((found.lower - (1.0 - sup(-1.0))).abs() < 1e-6);
        assert_eq!(found.scores.width, found.lower - found.upper);
        let kappa = |c: f64| 1.0 / (1.0 + std::f64::consts::PI / 8.0 * c / 2.0).sqrt();
        let (a, b) = (1.5 * kappa(0.9), 0.5 * kappa(0.4));
        let probit = 1.0 / (1.0 + (b - a).exp());
        assert!((found.scores.probit - probit).abs() < 1e-14);
        assert!(!found.is_vacuous);
    }

    #[test]
    fn classes_left_out_are_impossible_and_still_weigh() {
        let look = Look {
            logits: vec![0.5, -1.0, 1.5],
            classes: vec![0, 2],
            covariance: vec![0.4, 0.1, 0.1, 0.9],
        };
        let found = look.allowed(2.0).unwrap();
        assert_eq!(found.answer, 2);
        assert_eq!(found.log_possibility[1], f64::NEG_INFINITY);
        assert_eq!(
            found.scores.necessity,
            two().allowed(2.0).unwrap().scores.necessity
        );
        assert!(found.probability() < two().allowed(2.0).unwrap().probability());
    }

    #[test]
    fn criteria_choose_among_what_was_tried() {
        let tried = [(0.1, 0.4), (1.0, 0.2), (10.0, 0.3)];
        assert_eq!(Criterion::Nll.best(&tried), 1.0);
        // a small factor that is good by accident is not taken
        let tried = [(0.1, 0.001), (1.0, 0.02), (10.0, 0.01), (100.0, -0.002)];
        assert_eq!(Criterion::RightWrong.best(&tried), 10.0);
        let tried = [(0.1, 0.2), (1.0, f64::INFINITY)];
        assert_eq!(Criterion::RightWrong.best(&tried), 1.0);
    }

    #[test]
    fn how_far_one_may_go_is_found_between_the_factors() {
        let lost = |factor: f64| 0.02 - 0.01 * (factor / 2.0).log10();
        let mut tried: Vec<(f64, f64)> = [1.0, 10.0, 100.0].map(|f| (f, lost(f))).into();
        assert_eq!(Criterion::Nll.between(&tried), None);
        for _ in 0..6 {
            let (place, factor) = Criterion::RightWrong.between(&tried).unwrap();
            tried.insert(place, (factor, lost(factor)));
            assert!(tried.is_sorted_by(|a, b| a.0 < b.0));
        }
        // 0.01 is lost at 20 exactly
        let best = Criterion::RightWrong.best(&tried);
        assert!(
            (20.0..20.0 * 10f64.powf(1.0 / 64.0)).contains(&best),
            "{best}"
        );
        // nothing below that is not good enough
        assert_eq!(
            Criterion::RightWrong.between(&tried[tried.len() - 1..]),
            None
        );
    }

    #[test]
    fn losses_of_validation_images_by_hand() {
        let threads = NonZero::<usize>::MIN;
        // without doubt they are those of the probabilities
        let labeled = [(two(), 0), (two(), 1)];
        let p = 1.0 / (1.0 + (-1.0f64).exp());
        let found = nll(&labeled, 1e12, threads).unwrap();
        assert!((found + 0.5 * (p.ln() + (1.0 - p).ln())).abs() < 1e-6);
        // one right and one wrong answer of the same score: both areas are a half
        assert_eq!(right_wrong(&labeled, 1.0, threads).unwrap(), 0.0);
        assert_eq!(
            right_wrong(&labeled[..1], 1.0, threads).unwrap(),
            f64::INFINITY
        );
        // the covariance makes the wrong answer the surer one
        let doubtful = Look {
            logits: vec![1.6, 0.5],
            covariance: vec![90.0, 0.0, 0.0, 90.0],
            ..two()
        };
        let labeled = [(doubtful, 0), (two(), 1)];
        assert_eq!(right_wrong(&labeled, 1.0, threads).unwrap(), 1.0);
    }

    #[test]
    fn rows_that_differ_in_the_factor_share_their_looks() {
        let network = engine::zoo::lenet(10).unwrap();
        let trained = Trained::new(network.initial_parameters(3));
        let rule = cbopt::RuleConfig::by_id("ucbopt").unwrap();
        let rule = rule.build().unwrap();
        let material = Material {
            rule: Some((rule, 1000)),
            ..Labeled::NONE.into()
        };
        let pixels: Vec<f32> = (0..2 * 784).map(|i| (i % 11) as f32 / 11.0).collect();
        let device = engine::Device::cpu().threads(1);
        let config = engine::PredictorConfig {
            device,
            ..Default::default()
        };
        let mut shared = Predictive::new(&network, config).unwrap();
        let mut looked = |factor: f64, last_layer: bool| {
            let method = super::super::Method::Possibilistic(Possibilistic {
                factor: Factor::Given(factor),
                last_layer,
                ..Default::default()
            });
            let mut alone = Predictive::new(&network, config).unwrap();
            let fitted = alone.fit(&method, &trained, material).unwrap();
            let expected = alone.allowed(&*fitted, 5, &pixels).unwrap();
            let fitted = shared.fit(&method, &trained, material).unwrap();
            assert_eq!(shared.allowed(&*fitted, 5, &pixels).unwrap(), expected);
            shared.looks.0.lock().unwrap().len()
        };
        assert_eq!(looked(1.0, false), 1);
        assert_eq!(looked(30.0, false), 1);
        // other weights may move
        assert_eq!(looked(30.0, true), 2);
    }

    #[test]
    fn images_are_spread_evenly() {
        assert_eq!(spread(10, 4), [0, 2, 5, 7]);
        assert_eq!(spread(3, 7), [0, 1, 2]);
        assert!(spread(0, 7).is_empty());
    }
}
