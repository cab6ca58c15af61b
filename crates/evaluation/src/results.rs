//! What an evaluation gives, with the conventions it was made by. Undefined values are `None`, and
//! `null` in JSON.
//!
//! In JSON the conventions, which are the same for all results, stand beside the numbers: the
//! positive class, the score and what a tie does. Reading accepts them and refuses others.

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value};

use crate::metric::{InDomain, Metric, OutOfDomain, Scores};
use crate::number::Number;

/// Predictions against labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Classification {
    /// The metrics.
    pub values: InDomain,
    /// Number of images.
    pub samples: usize,
    /// Number of classes.
    pub classes: usize,
}

/// Calibration: confidence against accuracy in bins of the maximum probability; see
/// [`Scheme`](crate::Scheme) for their layout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reliability {
    /// How the bins are laid out: `equal-width` or `equal-mass`.
    pub scheme: String,
    /// The bins, from confidence 0 to 1.
    pub bins: Vec<ReliabilityBin>,
}

/// One bin of a [`Reliability`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReliabilityBin {
    /// Images in the bin.
    pub count: usize,
    /// Right predictions among them.
    pub right: usize,
    /// Mean confidence of the images; undefined for an empty bin.
    #[serde(with = "crate::number::option")]
    pub confidence: Option<f64>,
}

/// Mistakes that are left if only the surest predictions are given, by maximum probability.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Risk {
    /// Area under the whole curve (AURC): the mean error rate of the surest 1, 2, … images.
    #[serde(with = "crate::number")]
    pub aurc: f64,
    /// What a perfect order of the same mistakes would have less.
    #[serde(with = "crate::number")]
    pub excess_aurc: f64,
    /// (coverage, risk), from few images to all: the share of the images that is answered, and the
    /// error rate among them; thinned, for drawing.
    #[serde(with = "crate::number::points")]
    pub curve: Vec<(f64, f64)>,
}

/// What became of each class of the test set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ByClass {
    /// Names of the classes; empty where they have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Images of each class.
    pub images: Vec<usize>,
    /// Right predictions among them.
    pub right: Vec<usize>,
    /// `(class, predicted class, images)`, most images first: all pairs up to twenty classes, else
    /// the most frequent ones.
    pub confused: Vec<(usize, usize, usize)>,
    /// The mistakes of highest probability, the surest first.
    pub mistakes: Vec<Mistake>,
}

/// A wrong prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mistake {
    /// Place of the image in the test set, from 0.
    pub image: usize,
    /// Its class.
    pub class: usize,
    /// What it was taken for.
    pub predicted: usize,
    /// Probability of the predicted class.
    #[serde(with = "crate::number")]
    pub probability: f64,
    /// The image, small, as a `data:` address of a PNG file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
}

/// How well a score tells in-domain images from others.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// The metrics.
    pub values: OutOfDomain,
    /// The score: that of a [`Score`](crate::Score), or a name of the caller's.
    pub score: String,
    /// In-domain images.
    pub in_samples: usize,
    /// Out-of-domain images.
    pub out_samples: usize,
}

/// What the weights still allow to be said of the images of a set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// How well the scores tell the two sides apart.
    pub scored: Scored,
    /// Sets of classes with a guaranteed coverage, one family per contour; of the test set alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<ClassSets>,
    /// The images with the highest and those with the lowest lower probability of the answer, from
    /// the surest to the most doubtful; of the checkpoint that comes first alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<Shown>,
}

/// An image and what the weights still allow to be said of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    /// Its place in the set, from 0.
    pub image: usize,
    /// Its class, where it is one of those that are told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<usize>,
    /// The most probable classes, the most probable first.
    pub classes: Vec<ShownClass>,
    /// The image, small, as a `data:` address of a PNG file.
    pub picture: String,
}

/// A class and its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShownClass {
    /// The class.
    pub class: usize,
    /// Its lower probability.
    #[serde(with = "crate::number")]
    pub lower: f64,
    /// Its probability at the weights.
    #[serde(with = "crate::number")]
    pub probability: f64,
    /// Its upper probability.
    #[serde(with = "crate::number")]
    pub upper: f64,
}

/// Sets of classes from one contour by split conformal prediction: some of the test images
/// calibrate them, the others measure them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSets {
    /// What ranks the classes of an image: `possibility`, `probability` or `aps`.
    pub contour: String,
    /// Images that calibrate: every second one with bounds, from the first.
    pub calibration: usize,
    /// The others, which measure.
    pub images: usize,
    /// One entry per level.
    pub levels: Vec<SetLevel>,
}

/// The sets of one level, measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetLevel {
    /// The sets are made to miss the label with at most this probability.
    #[serde(with = "crate::number")]
    pub alpha: f64,
    /// Images whose set holds the label.
    pub covered: usize,
    /// Classes in all sets together.
    pub classes: usize,
    /// The same by the class of the images: images, covered, classes in their sets.
    pub by_class: Vec<(usize, usize, usize)>,
}

/// Areas under the ROC curve of all [`Scores`]: right against wrong answers, or in-domain against
/// other images.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// One per score; undefined if a side is empty.
    pub auroc: Scores,
    /// Images with a right answer, or in-domain ones.
    pub in_samples: usize,
    /// The others.
    pub out_samples: usize,
    /// Images among them whose bounds were not certified; they count as 0 and 1.
    pub vacuous: usize,
}

/// Curves for drawing, thinned to a few hundred points; the numbers in [`Detection`] come from the
/// full curves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetectionCurves {
    /// ROC: (false positive rate, true positive rate), from (0, 0) to (1, 1).
    #[serde(with = "crate::number::points")]
    pub roc: Vec<(f64, f64)>,
    /// Precision-recall with in-domain positive: (recall, precision), from recall 0 to 1.
    #[serde(with = "crate::number::points")]
    pub precision_recall_in: Vec<(f64, f64)>,
    /// Precision-recall with out-of-domain positive: (recall, precision), from recall 0 to 1.
    #[serde(with = "crate::number::points")]
    pub precision_recall_out: Vec<(f64, f64)>,
    /// Histogram of the scores over equal-width bins.
    pub histogram: ScoreHistogram,
}

/// Counts of scores over equal-width bins of `[from, to]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreHistogram {
    /// Lower end of the first bin.
    #[serde(with = "crate::number")]
    pub from: f64,
    /// Upper end of the last bin.
    #[serde(with = "crate::number")]
    pub to: f64,
    /// In-domain images per bin.
    pub in_counts: Vec<usize>,
    /// Out-of-domain images per bin.
    pub out_counts: Vec<usize>,
}

/// A bootstrap interval; see [`metrics::bootstrap`](crate::metrics::bootstrap).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfidenceInterval {
    /// Lower end.
    #[serde(with = "crate::number")]
    pub low: f64,
    /// Upper end.
    #[serde(with = "crate::number")]
    pub high: f64,
    /// Share of the replicates between the ends: 0.95.
    #[serde(with = "crate::number")]
    pub level: f64,
    /// Replicates in which the metric was defined.
    pub replicates: usize,
    /// Seed of the draws.
    pub seed: u64,
}

/// Keys of JSON that say how a result was made.
type Conventions = [(&'static str, &'static str)];

impl Classification {
    /// What all in-domain results have in common: keys and values of their JSON.
    pub const CONVENTIONS: &'static Conventions = &[
        ("ties", "the lowest class comes first"),
        ("auroc_positive_class", "right predictions"),
        ("auroc_score", "maximum probability"),
    ];
}

impl Detection {
    /// What all out-of-domain results have in common: keys and values of their JSON.
    pub const CONVENTIONS: &'static Conventions = &[
        ("positive_class", "in-domain; out-of-domain for aupr_out"),
        ("ties", "equal scores are accepted or refused together"),
    ];
}

/// Writes values under the ids of their metrics.
fn write_values<M: SerializeMap>(
    map: &mut M,
    metrics: &[Metric],
    values: &[&Option<f64>],
) -> Result<(), M::Error> {
    let mut pairs = metrics.iter().zip(values);
    pairs.try_for_each(|(metric, value)| map.serialize_entry(metric.id, &value.map(Number)))
}

fn write_conventions<M: SerializeMap>(
    map: &mut M,
    conventions: &Conventions,
) -> Result<(), M::Error> {
    let mut pairs = conventions.iter();
    pairs.try_for_each(|(key, value)| map.serialize_entry(key, value))
}

/// The fields of an object on their way from JSON.
struct Fields {
    left: Map<String, Value>,
    taken: Vec<&'static str>,
}

impl Fields {
    /// Takes an object, and the conventions out of it.
    fn read<'de, D: Deserializer<'de>>(
        deserializer: D,
        conventions: &Conventions,
    ) -> Result<Self, D::Error> {
        let mut left = Map::deserialize(deserializer)?;
        for &(key, expected) in conventions {
            if let Some(found) = left.shift_remove(key)
                && found != expected
            {
                let message = format!("{key} {found} is not \"{expected}\"");
                return Err(D::Error::custom(message));
            }
        }
        let taken = Vec::new();
        Ok(Self { left, taken })
    }

    fn take<T: DeserializeOwned, E: de::Error>(&mut self, key: &'static str) -> Result<T, E> {
        let found = self.take_if_there(key)?;
        found.ok_or_else(|| E::missing_field(key))
    }

    fn take_if_there<T: DeserializeOwned, E: de::Error>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<T>, E> {
        self.taken.push(key);
        let Some(value) = self.left.shift_remove(key) else {
            return Ok(None);
        };
        let found = T::deserialize(value).map_err(|e| E::custom(format!("{key}: {e}")))?;
        Ok(Some(found))
    }

    /// Values of metrics. One that is absent was not known to the program that wrote the object: it
    /// is undefined.
    fn take_values<E: de::Error>(&mut self, metrics: &[Metric]) -> Result<Vec<Option<f64>>, E> {
        let value = |metric: &Metric| {
            let found: Option<Option<Number>> = self.take_if_there(metric.id)?;
            Ok(found.flatten().map(|number| number.0))
        };
        metrics.iter().map(value).collect()
    }

    /// Refuses what nobody asked for.
    fn finish<E: de::Error>(self) -> Result<(), E> {
        let Some(unknown) = self.left.keys().next() else {
            return Ok(());
        };
        let known: Vec<String> = self.taken.iter().map(|key| format!("`{key}`")).collect();
        let known = known.join(", ");
        let message = format!("unknown field `{unknown}`, expected one of {known}");
        Err(E::custom(message))
    }
}

impl Serialize for Classification {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        write_values(&mut map, InDomain::METRICS, &self.values.each())?;
        map.serialize_entry("samples", &self.samples)?;
        map.serialize_entry("classes", &self.classes)?;
        write_conventions(&mut map, Self::CONVENTIONS)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Classification {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::read(deserializer, Self::CONVENTIONS)?;
        let values = fields.take_values(InDomain::METRICS)?;
        let read = Self {
            values: InDomain::from_fn(|place| values[place]),
            samples: fields.take("samples")?,
            classes: fields.take("classes")?,
        };
        fields.finish()?;
        Ok(read)
    }
}

impl Serialize for Detection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        write_values(&mut map, OutOfDomain::METRICS, &self.values.each())?;
        map.serialize_entry("score", &self.score)?;
        map.serialize_entry("in_samples", &self.in_samples)?;
        map.serialize_entry("out_samples", &self.out_samples)?;
        write_conventions(&mut map, Self::CONVENTIONS)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Detection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::read(deserializer, Self::CONVENTIONS)?;
        let values = fields.take_values(OutOfDomain::METRICS)?;
        let read = Self {
            values: OutOfDomain::from_fn(|place| values[place]),
            score: fields.take("score")?,
            in_samples: fields.take("in_samples")?,
            out_samples: fields.take("out_samples")?,
        };
        fields.finish()?;
        Ok(read)
    }
}

impl Serialize for Scored {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        write_values(&mut map, Scores::METRICS, &self.auroc.each())?;
        map.serialize_entry("in_samples", &self.in_samples)?;
        map.serialize_entry("out_samples", &self.out_samples)?;
        map.serialize_entry("vacuous", &self.vacuous)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Scored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::read(deserializer, &[])?;
        let values = fields.take_values(Scores::METRICS)?;
        let read = Self {
            auroc: Scores::from_fn(|place| values[place]),
            in_samples: fields.take("in_samples")?,
            out_samples: fields.take("out_samples")?,
            vacuous: fields.take("vacuous")?,
        };
        fields.finish()?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_under_their_ids() {
        let found = Classification {
            values: InDomain::from_fn(|place| (place != 1).then_some(place as f64)),
            samples: 7,
            classes: 8,
        };
        let json = serde_json::to_value(&found).unwrap();
        for (metric, value) in InDomain::METRICS.iter().zip(found.values.each()) {
            assert_eq!(json[metric.id].as_f64(), *value, "{}", metric.id);
        }
        assert_eq!((&json["nll"], &json["brier"]), (&2.0.into(), &4.0.into()));
        let found = Detection {
            values: OutOfDomain::from_fn(|place| (place != 2).then_some(place as f64)),
            score: "distance".to_owned(),
            in_samples: 1,
            out_samples: 1,
        };
        let json = serde_json::to_value(&found).unwrap();
        for (metric, value) in OutOfDomain::METRICS.iter().zip(found.values.each()) {
            assert_eq!(json[metric.id].as_f64(), *value, "{}", metric.id);
        }
        assert_eq!(
            (&json["aupr_in"], &json["aupr_out"]),
            (&1.0.into(), &Value::Null)
        );
    }
}
