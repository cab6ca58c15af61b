//! What a record says of the bounds of predictions: how well scores tell right from wrong answers
//! and test images from others, and how large sets of classes are that hold the label with a
//! guaranteed probability.
//!
//! The sets are those of [`possibility::prediction::Calibrated`]. Every second test image with
//! bounds, from the first, calibrates them, and the others measure them: neither training nor the
//! choice of the weights or of the factor has seen any of these. A class is ranked by
//!
//! - `possibility`: `log Π_k`, the possibility that it has the largest logit; that of the answer is
//!   always 1, and so answers are ranked among each other by `-log max_{k≠ŷ} Π_k`, their necessity;
//!   classes that the bounds are not about follow behind the last of the others by `log p_k`;
//! - `probability`: `p_k`, the usual score `1 - p_y`;
//! - `aps`: minus the probability of all more probable classes and of a random share of its own,
//!   one share an image (adaptive prediction sets).

use evaluation::results::{Bounds, ClassSets, Scored, SetLevel, ShownClass};
use evaluation::{Ranking, Scores};
use possibility::prediction::Calibrated;
use random::Seeds;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::evaluated::bits;
use crate::predictive::{self, Allowed, AllowedImage, ClassBounds};

/// Levels of the sets.
const LEVELS: [f64; 5] = [0.01, 0.02, 0.05, 0.1, 0.2];

/// What ranks the classes of an image: the higher, the sooner they are in a set. The number is
/// random, from 0 to 1.
type Contour = fn(&AllowedImage, f64) -> Vec<f64>;

/// The contours, with their names.
const CONTOURS: [(&str, Contour); 3] = [
    ("possibility", |image, _| by_possibility(image)),
    ("probability", |image, _| image.probabilities.clone()),
    ("aps", aps),
];

/// Right against wrong answers of test images, whose labels are all given.
pub(crate) fn right_wrong(allowed: &Allowed, labels: &[u32]) -> Result<Bounds> {
    let images = allowed.images.iter().zip(&allowed.places);
    let (right, wrong): (Vec<_>, Vec<_>) =
        images.partition(|(image, place)| image.answer == labels[**place] as usize);
    let [right, wrong] = [right, wrong].map(|side| Side::of(side.iter().map(|(image, _)| *image)));
    let labels: Vec<usize> = (allowed.places.iter())
        .map(|&place| labels[place] as usize)
        .collect();
    Ok(Bounds {
        sets: class_sets(&allowed.images, &labels)?,
        ..bounds(&right, &wrong)?
    })
}

/// Test images against those of another set.
pub(crate) fn out_of_domain(inside: &Side, outside: &Allowed) -> Result<Bounds> {
    bounds(inside, &Side::of(outside.images.iter()))
}

/// Images that are told from others: the scores of each, one after the other, and how many of them
/// are vacuous.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Side {
    #[serde(with = "bits")]
    scores: Vec<f64>,
    vacuous: usize,
}

impl Side {
    /// These images.
    pub fn of<'a>(images: impl Iterator<Item = &'a AllowedImage> + Clone) -> Self {
        let vacuous = images.clone().filter(|image| image.is_vacuous).count();
        let scores = images.flat_map(|image| image.scores.each().map(|score| *score));
        Self {
            scores: scores.collect(),
            vacuous,
        }
    }

    fn images(&self) -> usize {
        self.scores.len() / Scores::METRICS.len()
    }

    /// One score of all images.
    fn scores(&self, place: usize) -> Vec<f64> {
        let scores = self.scores.iter().skip(place);
        scores.step_by(Scores::METRICS.len()).copied().collect()
    }
}

/// How well the scores tell two sides apart.
fn bounds(ins: &Side, outs: &Side) -> Result<Bounds> {
    let mut auroc = Vec::new();
    for place in 0..Scores::METRICS.len() {
        auroc.push(Ranking::new(&ins.scores(place), &outs.scores(place))?.auroc());
    }
    Ok(Bounds {
        scored: Scored {
            auroc: Scores::from_fn(|place| auroc[place]),
            in_samples: ins.images(),
            out_samples: outs.images(),
            vacuous: ins.vacuous + outs.vacuous,
        },
        sets: Vec::new(),
        shown: Vec::new(),
    })
}

/// Images shown from either end.
const SHOWN: usize = 4;
/// Classes shown of an image.
const CLASSES: usize = 4;

/// Places of the images with the highest and with the lowest lower probability of the answer, from
/// the surest to the most doubtful; of equal ones those that come first.
pub(crate) fn ends(allowed: &Allowed) -> Vec<usize> {
    let mut places: Vec<(f64, usize)> = (allowed.images.iter().zip(&allowed.places))
        .map(|(image, &place)| (image.lower, place))
        .collect();
    places.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (sure, rest) = places.split_at(SHOWN.min(places.len()));
    let doubtful = &rest[rest.len().saturating_sub(SHOWN)..];
    let ends = sure.iter().chain(doubtful);
    ends.map(|(_, place)| *place).collect()
}

/// The most probable classes with their bounds.
pub(crate) fn shown_classes(bounds: &ClassBounds, probabilities: &[f32]) -> Vec<ShownClass> {
    let mut classes: Vec<ShownClass> = (probabilities.iter().enumerate())
        .filter_map(|(class, &p)| {
            Some(ShownClass {
                class,
                lower: bounds.lower[class]?,
                probability: p.into(),
                upper: bounds.upper[class]?,
            })
        })
        .collect();
    // stable: of equal ones the first
    classes.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    classes.truncate(CLASSES);
    classes
}

/// The possibilities, without ties at 1 and at 0.
fn by_possibility(image: &AllowedImage) -> Vec<f64> {
    let known = image.log_possibility.iter().copied();
    let last = (known.filter(|log| log.is_finite())).fold(0.0, f64::min);
    let pairs = image.log_possibility.iter().zip(&image.probabilities);
    let ranked = pairs.map(|(&log, p)| if log.is_finite() { log } else { last + p.ln() });
    let mut contour: Vec<f64> = ranked.collect();
    contour[image.answer] = image.scores.necessity;
    contour
}

/// Minus the probability of all more probable classes and of a share of its own.
fn aps(image: &AllowedImage, share: f64) -> Vec<f64> {
    let p = &image.probabilities;
    let above = |own: f64| -> f64 { p.iter().filter(|other| **other > own).sum() };
    p.iter().map(|&own| -(above(own) + share * own)).collect()
}

/// The sets of every contour and level; none where there are too few images to calibrate and
/// measure.
fn class_sets(images: &[AllowedImage], labels: &[usize]) -> Result<Vec<ClassSets>> {
    if images.len() < 2 {
        return Ok(Vec::new());
    }
    let sets = CONTOURS.iter().map(|(name, contour)| {
        // the same for the same image, wherever it stands
        let random =
            |image: &AllowedImage| uniform(Seeds::new(image.probability().to_bits()).stream("aps"));
        let contours = images.iter().map(|image| contour(image, random(image)));
        let contours: Vec<Vec<f64>> = contours.collect();
        measure(name, &contours, labels)
    });
    let sets: possibility::Result<_> = sets.collect();
    Ok(sets.map_err(predictive::Error::from)?)
}

/// A number from 0 to 1.
fn uniform(seed: u64) -> f64 {
    (random::mix(seed) >> 11) as f64 / (1u64 << 53) as f64
}

/// The sets of one contour.
fn measure(name: &str, contours: &[Vec<f64>], labels: &[usize]) -> possibility::Result<ClassSets> {
    let held_out = contours.iter().zip(labels).step_by(2);
    let calibrated = Calibrated::new(held_out.map(|(contour, &label)| contour[label]).collect())?;
    let measured: Vec<_> = contours.iter().zip(labels).skip(1).step_by(2).collect();
    let mut levels = Vec::new();
    for alpha in LEVELS {
        let classes = contours.first().map_or(0, Vec::len);
        let mut by_class = vec![(0, 0, 0); classes];
        for (contour, label) in &measured {
            let set = calibrated.set(contour, alpha)?;
            let (images, covered, classes) = &mut by_class[**label];
            *images += 1;
            *covered += usize::from(set.contains(label));
            *classes += set.len();
        }
        levels.push(SetLevel {
            alpha,
            covered: by_class.iter().map(|(_, covered, _)| covered).sum(),
            classes: by_class.iter().map(|(_, _, classes)| classes).sum(),
            by_class,
        });
    }
    Ok(ClassSets {
        contour: name.into(),
        calibration: contours.len().div_ceil(2),
        images: measured.len(),
        levels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use possibility::prediction::Logits;

    /// An image whose label is drawn from probabilities near, but not equal to, those it has.
    fn drawn(seed: u64) -> (AllowedImage, usize) {
        let uniform = |what: &str| uniform(Seeds::new(seed).stream(what));
        let z: Vec<f64> = (0..4).map(|k| 5.0 * uniform(&format!("z{k}"))).collect();
        let c: Vec<f64> = (0..16)
            .map(|at| {
                if at % 5 == 0 {
                    0.3 + uniform(&format!("c{at}"))
                } else {
                    0.0
                }
            })
            .collect();
        let logits = Logits::new(&z, &c).unwrap();
        let truth: Vec<f64> = z.iter().map(|z| (0.6 * z).exp()).collect();
        let mut left = uniform("label") * truth.iter().sum::<f64>();
        let label = truth.iter().position(|p| {
            left -= p;
            left < 0.0
        });
        let log_possibility = (0..4).map(|k| logits.log_possibility(k).unwrap());
        let log_possibility: Vec<f64> = log_possibility.collect();
        let rivals = (0..4).filter(|&k| k != logits.answer());
        let rival = rivals
            .map(|k| log_possibility[k])
            .fold(f64::NEG_INFINITY, f64::max);
        let image = AllowedImage {
            answer: logits.answer(),
            // the sets do not look at them
            lower: 0.0,
            upper: 1.0,
            probabilities: logits.probabilities(),
            log_possibility,
            scores: Scores {
                necessity: -rival,
                ..Scores::default()
            },
            is_vacuous: false,
        };
        (image, label.unwrap_or(3))
    }

    /// Over 400 splits of 99 images that calibrate and 99 that measure, the mean coverage is
    /// `⌈(1-α)·100⌉/100` to three deviations of the mean.
    #[test]
    fn coverage_is_what_is_promised_at_every_level() {
        const SPLITS: u64 = 400;
        const IMAGES: usize = 198;
        let images: Vec<(AllowedImage, usize)> = (0..20_000).map(drawn).collect();
        let mut covered = [[0.0f64; LEVELS.len()]; 3];
        let mut squares = [[0.0f64; LEVELS.len()]; 3];
        for split in 0..SPLITS {
            let chosen = (0..IMAGES as u64).map(|n| {
                let at = random::mix(split << 20 | n) % images.len() as u64;
                images[at as usize].clone()
            });
            let (images, labels): (Vec<AllowedImage>, Vec<usize>) = chosen.unzip();
            for (c, sets) in class_sets(&images, &labels).unwrap().iter().enumerate() {
                assert_eq!((sets.calibration, sets.images), (99, 99));
                for (l, level) in sets.levels.iter().enumerate() {
                    let share = level.covered as f64 / 99.0;
                    covered[c][l] += share / SPLITS as f64;
                    squares[c][l] += share * share / SPLITS as f64;
                }
            }
        }
        for (c, (name, _)) in CONTOURS.iter().enumerate() {
            for (l, alpha) in LEVELS.iter().enumerate() {
                let mean = covered[c][l];
                let deviation = ((squares[c][l] - mean * mean) / SPLITS as f64).sqrt();
                let promised = 1.0 - alpha;
                assert!(
                    (mean - promised).abs() <= 3.0 * deviation,
                    "{name} {alpha}: {mean}"
                );
            }
        }
    }

    #[test]
    fn sets_by_hand() {
        // the label's contour on the images 0, 2, 4 is 0.9, 0.2, 0.6; on 1, 3 it is 0.3 and 0.1
        let contours = [0.9, 0.3, 0.2, 0.1, 0.6].map(|own: f64| vec![own, 1.0 - own, 0.25]);
        let found = measure("x", &contours, &[0, 0, 0, 0, 0]).unwrap();
        assert_eq!((found.calibration, found.images), (3, 2));
        // rank ⌊α·4⌋ is 0 at every level: all classes
        for level in &found.levels {
            assert_eq!((level.covered, level.classes), (2, 6));
            assert_eq!(level.by_class, [(2, 2, 6), (0, 0, 0), (0, 0, 0)]);
        }
        // nine images calibrate with 0.1 to 0.9: at α = 0.2 the rank is 2 and the threshold 0.2
        let contours: Vec<Vec<f64>> = (0..18)
            .map(|n| vec![f64::from(n / 2 + 1) / 10.0, 0.15])
            .collect();
        let found = measure("x", &contours, &[0; 18]).unwrap();
        let level = found.levels.last().unwrap();
        assert_eq!((level.alpha, level.covered, level.classes), (0.2, 8, 8));
        assert!(class_sets(&[], &[]).unwrap().is_empty());
    }

    #[test]
    fn the_surest_and_the_most_doubtful_are_shown() {
        let allowed = |lower: &[f64]| Allowed {
            places: (0..lower.len()).map(|place| 10 * place).collect(),
            images: (lower.iter())
                .map(|&lower| AllowedImage {
                    lower,
                    ..drawn(0).0
                })
                .collect(),
        };
        let lower = [0.1, 0.9, 0.5, 0.9, 0.2, 0.3, 0.4, 0.6, 0.7, 0.0];
        assert_eq!(ends(&allowed(&lower)), [10, 30, 80, 70, 50, 40, 0, 90]);
        assert_eq!(ends(&allowed(&lower[..5])), [10, 30, 20, 40, 0]);
        assert_eq!(ends(&allowed(&lower[..2])), [10, 0]);
        assert!(ends(&allowed(&[])).is_empty());
    }

    #[test]
    fn the_most_probable_classes_come_first() {
        let bounds = ClassBounds {
            answer: 1,
            upper: vec![Some(0.5), Some(0.75), None],
            lower: vec![Some(0.25), Some(0.5), None],
            possibility: vec![Some(0.5), Some(1.0), None],
            necessity: 0.5,
            is_vacuous: false,
        };
        let shown = shown_classes(&bounds, &[0.375, 0.625, 0.0]);
        let classes: Vec<usize> = shown.iter().map(|class| class.class).collect();
        assert_eq!(classes, [1, 0]);
        assert_eq!((shown[0].lower, shown[0].upper), (0.5, 0.75));
    }

    /// Also where the bounds are about fewer classes than there are.
    #[test]
    fn classes_without_bounds_follow_by_their_probability() {
        let (mut image, _) = drawn(0);
        image.answer = 1;
        image.scores.necessity = 3.0;
        image.probabilities = vec![0.25, 0.5, 0.125, 0.0625, 0.0625];
        image.log_possibility = vec![-2.0, 0.0, f64::NEG_INFINITY, -7.0, f64::NEG_INFINITY];
        let behind = [0.125f64, 0.0625].map(|p| -7.0 + p.ln());
        let expected = [-2.0, 3.0, behind[0], -7.0, behind[1]];
        assert_eq!(by_possibility(&image), expected);
    }

    #[test]
    fn adaptive_sets_add_up_the_more_probable_classes() {
        let (mut image, _) = drawn(0);
        image.probabilities = vec![0.25, 0.5, 0.125, 0.125];
        assert_eq!(aps(&image, 1.0), [-0.75, -0.5, -0.875, -0.875]);
        assert_eq!(aps(&image, 0.0), [-0.5, 0.0, -0.75, -0.75]);
    }
}
