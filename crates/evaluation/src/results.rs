//! What an evaluation gives, with the conventions it was made by. Undefined values are `None` and `null` in JSON.

use serde::{Deserialize, Serialize};

/// Predictions against labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

/// Calibration: confidence against accuracy in equal-width bins of the maximum probability, `bin = min(B-1, ⌊confidence·B⌋)`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reliability {
    /// How the bins are laid out: `equal-width`.
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
#[serde(deny_unknown_fields)]
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
    pub roc: Vec<(f64, f64)>,
    /// Precision-recall with in-domain positive: (recall, precision).
    pub precision_recall_in: Vec<(f64, f64)>,
    /// Precision-recall with out-of-domain positive: (recall, precision).
    pub precision_recall_out: Vec<(f64, f64)>,
    /// Histogram of the scores over equal-width bins.
    pub histogram: ScoreHistogram,
}

/// Counts of scores over equal-width bins of `[from, to]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreHistogram {
    /// Lower end of the first bin.
    pub from: f64,
    /// Upper end of the last bin.
    pub to: f64,
    /// In-domain images per bin.
    pub in_counts: Vec<usize>,
    /// Out-of-domain images per bin.
    pub out_counts: Vec<usize>,
}
