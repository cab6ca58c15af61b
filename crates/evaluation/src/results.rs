//! What an evaluation gives, with the conventions it was made by. Undefined values are `None` and `null` in JSON.
//!
//! In JSON the conventions, which are the same for all results, stand beside the numbers: the positive class, the
//! score and what a tie does. Reading accepts them and refuses others.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// Predictions against labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct InDomain {
    /// Share of images whose most probable class is the label.
    #[serde(with = "crate::number")]
    pub accuracy: f64,
    /// Share of images whose label is among the five most probable classes; undefined below five classes.
    #[serde(with = "crate::number::option")]
    pub top5: Option<f64>,
    /// Mean of `-log p(label)`; infinite if a label has probability 0.
    #[serde(with = "crate::number")]
    pub nll: f64,
    /// Expected calibration error, see [`Reliability`].
    #[serde(with = "crate::number")]
    pub ece: f64,
    /// Mean over images of `Σ (p - onehot)²`, between 0 and 2.
    #[serde(with = "crate::number")]
    pub brier: f64,
    /// Area under the ROC curve of right against wrong predictions by maximum probability; undefined if all are right or all wrong.
    #[serde(with = "crate::number::option")]
    pub auroc: Option<f64>,
    /// Number of images.
    pub samples: usize,
    /// Number of classes.
    pub classes: usize,
}

/// Calibration: confidence against accuracy in bins of the maximum probability; see [`Scheme`](crate::Scheme) for their layout.
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

/// How well a score tells in-domain images from others. The higher the score, the more in-domain.
///
/// In-domain is the positive class for everything but `aupr_out`, where it is out-of-domain with the score negated.
/// Images of equal score are accepted or refused together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct OutOfDomain {
    /// Area under the ROC curve.
    #[serde(with = "crate::number::option")]
    pub auroc: Option<f64>,
    /// Average precision, in-domain positive.
    #[serde(with = "crate::number::option")]
    pub aupr_in: Option<f64>,
    /// Average precision, out-of-domain positive.
    #[serde(with = "crate::number::option")]
    pub aupr_out: Option<f64>,
    /// False positive rate at the first threshold that accepts at least 95 % of the in-domain images: the standard definition.
    #[serde(with = "crate::number::option")]
    pub fpr_at_95_tpr: Option<f64>,
    /// Mean false positive rate over the vertices of the reduced ROC curve with true positive rate up to 0.9505: what the paper's
    /// column FPR@95 holds.
    #[serde(with = "crate::number::option")]
    pub mean_fpr_below_95_tpr: Option<f64>,
    /// Smallest error of a threshold when both sides are equally likely.
    #[serde(with = "crate::number::option")]
    pub detection_error: Option<f64>,
    /// The score: `maximum probability`, `negative entropy`, or a name of the caller's.
    pub score: String,
    /// In-domain images.
    pub in_samples: usize,
    /// Out-of-domain images.
    pub out_samples: usize,
}

/// Curves for drawing, thinned to a few hundred points; the numbers in [`OutOfDomain`] come from the full curves.
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
pub struct Interval {
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

/// Intervals of the metrics in [`InDomain`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InDomainIntervals {
    /// Of the accuracy.
    pub accuracy: Option<Interval>,
    /// Of the top-5 accuracy.
    pub top5: Option<Interval>,
    /// Of the mean log loss.
    pub nll: Option<Interval>,
    /// Of the expected calibration error.
    pub ece: Option<Interval>,
    /// Of the Brier score.
    pub brier: Option<Interval>,
    /// Of the AUROC of right against wrong predictions, over the replicates that have both.
    pub auroc: Option<Interval>,
}

/// Intervals of the metrics in [`OutOfDomain`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutOfDomainIntervals {
    /// Of the area under the ROC curve.
    pub auroc: Option<Interval>,
    /// Of the average precision, in-domain positive.
    pub aupr_in: Option<Interval>,
    /// Of the average precision, out-of-domain positive.
    pub aupr_out: Option<Interval>,
    /// Of the standard FPR@95.
    pub fpr_at_95_tpr: Option<Interval>,
    /// Of the averaged FPR.
    pub mean_fpr_below_95_tpr: Option<Interval>,
    /// Of the detection error.
    pub detection_error: Option<Interval>,
}

/// Keys of JSON that say how a result was made.
type Conventions = [(&'static str, &'static str)];

impl InDomain {
    /// What all in-domain results have in common: keys and values of their JSON.
    pub const CONVENTIONS: &'static Conventions = &[
        ("ties", "the lowest class comes first"),
        ("auroc_positive_class", "right predictions"),
        ("auroc_score", "maximum probability"),
    ];
}

impl OutOfDomain {
    /// What all out-of-domain results have in common: keys and values of their JSON.
    pub const CONVENTIONS: &'static Conventions = &[
        ("positive_class", "in-domain; out-of-domain for aupr_out"),
        ("ties", "equal scores are accepted or refused together"),
    ];
}

/// Writes an object that `fields` writes, and the conventions behind it.
fn write<S, F>(serializer: S, conventions: &Conventions, fields: F) -> Result<S::Ok, S::Error>
where
    S: Serializer,
    F: FnOnce(Fields<'_, '_>) -> serde_json::Result<Value>,
{
    let mut track = serde_path_to_error::Track::new();
    let object = fields(Fields::new(serde_json::value::Serializer, &mut track));
    let mut object =
        object.map_err(|error| serde::ser::Error::custom(format!("{}: {error}", track.path())))?;
    for &(key, value) in conventions {
        object[key] = value.into();
    }
    object.serialize(serializer)
}

/// Writes an object and knows the field on which it failed.
type Fields<'a, 'b> = serde_path_to_error::Serializer<'a, 'b, serde_json::value::Serializer>;

/// Reads an object, and takes the conventions out of it.
fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
    conventions: &Conventions,
) -> Result<Value, D::Error> {
    let mut object = Map::deserialize(deserializer)?;
    for &(key, expected) in conventions {
        if let Some(found) = object.shift_remove(key)
            && found != expected
        {
            let message = format!("{key} is {found}, allowed: \"{expected}\"");
            return Err(D::Error::custom(message));
        }
    }
    Ok(Value::Object(object))
}

impl Serialize for InDomain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(serializer, Self::CONVENTIONS, |fields| {
            Self::serialize(self, fields)
        })
    }
}

impl<'de> Deserialize<'de> for InDomain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = read(deserializer, Self::CONVENTIONS)?;
        Self::deserialize(object).map_err(D::Error::custom)
    }
}

impl Serialize for OutOfDomain {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write(serializer, Self::CONVENTIONS, |fields| {
            Self::serialize(self, fields)
        })
    }
}

impl<'de> Deserialize<'de> for OutOfDomain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = read(deserializer, Self::CONVENTIONS)?;
        Self::deserialize(object).map_err(D::Error::custom)
    }
}
