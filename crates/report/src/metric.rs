//! The columns: what each number means, how to read it off a result, and which way is better.

use evaluation::results::{InDomain, OutOfDomain};

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name of the field in the record: `mean_fpr_below_95_tpr`.
    pub id: &'static str,
    /// Head of the column.
    pub name: &'static str,
    /// One sentence for people.
    pub meaning: &'static str,
    /// Whether more is better.
    pub higher_is_better: bool,
}

impl Metric {
    /// `↑` where more is better, else `↓`.
    pub fn arrow(&self) -> &'static str {
        if self.higher_is_better { "↑" } else { "↓" }
    }

    /// Whether `a` is better than `b`.
    pub(crate) fn is_better(&self, a: f64, b: f64) -> bool {
        if self.higher_is_better { a > b } else { a < b }
    }
}

/// Columns of the test set.
pub static IN_DOMAIN: [Metric; 6] = [
    Metric {
        id: "accuracy",
        name: "Acc.",
        meaning: "Accuracy: share of test images whose most probable class is the label.",
        higher_is_better: true,
    },
    Metric {
        id: "top5",
        name: "Top-5",
        meaning: "Share of test images whose label is among the five most probable classes.",
        higher_is_better: true,
    },
    Metric {
        id: "nll",
        name: "NLL",
        meaning: "Negative log-likelihood: mean of -log p(label). It punishes confident mistakes; ∞ where a label had \
                  probability 0.",
        higher_is_better: false,
    },
    Metric {
        id: "ece",
        name: "ECE",
        meaning: "Expected calibration error: how far confidence and accuracy lie apart, averaged over bins of confidence. \
                  0 means that of predictions made with 80 % confidence 80 % are right.",
        higher_is_better: false,
    },
    Metric {
        id: "brier",
        name: "Brier",
        meaning: "Brier score: squared distance of the probabilities from the right answer, summed over the classes, \
                  between 0 and 2.",
        higher_is_better: false,
    },
    Metric {
        id: "auroc",
        name: "AUROC",
        meaning: "Chance that a right prediction is made with more confidence than a wrong one.",
        higher_is_better: true,
    },
];

/// Columns of an out-of-domain set.
pub static OUT_OF_DOMAIN: [Metric; 6] = [
    Metric {
        id: "auroc",
        name: "AUROC",
        meaning: "Area under the ROC curve: chance that a test image has a higher score than an out-of-domain image.",
        higher_is_better: true,
    },
    Metric {
        id: "aupr_in",
        name: "AUPR-In",
        meaning: "Average precision with test images as the positive class. It depends on how many images either side has.",
        higher_is_better: true,
    },
    Metric {
        id: "aupr_out",
        name: "AUPR-Out",
        meaning: "Average precision with out-of-domain images as the positive class. It depends on how many images either \
                  side has.",
        higher_is_better: true,
    },
    Metric {
        id: "fpr_at_95_tpr",
        name: "FPR@95",
        meaning: "The standard definition: share of out-of-domain images that pass at the first threshold which lets at least \
                  95 % of the test images pass.",
        higher_is_better: false,
    },
    Metric {
        id: "mean_fpr_below_95_tpr",
        name: "Mean FPR ≤ 95",
        meaning: "What the paper's column FPR@95 holds: the false positive rate averaged over all corners of the ROC curve up \
                  to a true positive rate of 95 %. Two to four times smaller than the standard definition; compare the \
                  paper's figures with this column only.",
        higher_is_better: false,
    },
    Metric {
        id: "detection_error",
        name: "Det. err.",
        meaning: "Detection error: smallest share of mistakes of any threshold when both sides are equally likely.",
        higher_is_better: false,
    },
];

/// The value of each of [`IN_DOMAIN`]; a result of no images has none.
pub(crate) fn in_domain(result: &InDomain) -> [Option<f64>; 6] {
    if result.samples == 0 {
        return [None; 6];
    }
    [
        Some(result.accuracy),
        result.top5,
        Some(result.nll),
        Some(result.ece),
        Some(result.brier),
        result.auroc,
    ]
    .map(defined)
}

/// The value of each of [`OUT_OF_DOMAIN`].
pub(crate) fn out_of_domain(result: &OutOfDomain) -> [Option<f64>; 6] {
    [
        result.auroc,
        result.aupr_in,
        result.aupr_out,
        result.fpr_at_95_tpr,
        result.mean_fpr_below_95_tpr,
        result.detection_error,
    ]
    .map(defined)
}

fn defined(value: Option<f64>) -> Option<f64> {
    value.filter(|value| !value.is_nan())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_under_their_heads() {
        let result = InDomain {
            accuracy: 0.1,
            top5: Some(0.2),
            nll: 0.3,
            ece: 0.4,
            brier: 0.5,
            auroc: Some(0.6),
            samples: 7,
            classes: 8,
        };
        let json = serde_json::to_value(&result).unwrap();
        for (metric, value) in IN_DOMAIN.iter().zip(in_domain(&result)) {
            assert_eq!(json[metric.id].as_f64(), value, "{}", metric.id);
        }
        let empty = InDomain {
            samples: 0,
            ..result
        };
        assert_eq!(in_domain(&empty), [None; 6]);

        let result = OutOfDomain {
            auroc: Some(0.1),
            aupr_in: Some(0.2),
            aupr_out: None,
            fpr_at_95_tpr: Some(0.4),
            mean_fpr_below_95_tpr: Some(0.5),
            detection_error: Some(0.6),
            score: "maximum probability".to_owned(),
            in_samples: 1,
            out_samples: 1,
        };
        let json = serde_json::to_value(&result).unwrap();
        for (metric, value) in OUT_OF_DOMAIN.iter().zip(out_of_domain(&result)) {
            assert_eq!(json[metric.id].as_f64(), value, "{}", metric.id);
        }
    }
}
