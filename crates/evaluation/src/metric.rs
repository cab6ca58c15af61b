//! The metrics: one table for predictions against labels, one for telling other inputs apart.
//!
//! Everything that is said of a metric is said here: its field, its name, its meaning and which way
//! is better. [`InDomain`] and [`OutOfDomain`] hold one thing per metric: values (`Option<f64>`,
//! undefined is `None`), bootstrap intervals, or whatever a caller makes of them. A new metric is
//! an entry of a table and the formula that fills it.

use serde::{Serialize, Serializer};

use crate::results::ConfidenceInterval;

/// What is said of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Name of the field, in the record, too: `mean_fpr_below_95_tpr`.
    pub id: &'static str,
    /// Head of a column.
    pub name: &'static str,
    /// Which way is better.
    pub better: Better,
    /// A few words for a terminal. `{bins}`, `{in_share}` and `{out_share}` stand for what an
    /// evaluation knows: how the bins of the calibration are laid out, and the shares of the two
    /// sides.
    pub brief: &'static str,
    /// One sentence or two.
    pub meaning: &'static str,
}

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

impl Better {
    /// `higher` or `lower`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Higher => "higher",
            Self::Lower => "lower",
        }
    }

    /// `↑` or `↓`.
    pub fn arrow(self) -> &'static str {
        match self {
            Self::Higher => "↑",
            Self::Lower => "↓",
        }
    }

    /// Whether `a` is better than `b`.
    pub fn prefers(self, a: f64, b: f64) -> bool {
        match self {
            Self::Higher => a > b,
            Self::Lower => a < b,
        }
    }
}

/// Makes a struct with one field per metric, and the table of what is said of them.
macro_rules! metrics {
    (
        $(#[$about:meta])*
        $type:ident:
        $(
            $(#[$definition:meta])*
            $id:ident($name:literal, $better:ident, $brief:literal, $meaning:literal);
        )*
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        pub struct $type<T = Option<f64>> {
            $($(#[$definition])* pub $id: T,)*
        }

        impl $type {
            /// What is said of the metrics, in the order of the fields.
            pub const METRICS: &'static [Metric; [$(stringify!($id)),*].len()] = &[$(
                Metric {
                    id: stringify!($id),
                    name: $name,
                    better: Better::$better,
                    brief: $brief,
                    meaning: $meaning,
                },
            )*];
        }

        impl<T> $type<T> {
            /// One thing per metric, in the order of [`METRICS`](Self::METRICS).
            pub fn each(&self) -> [&T; [$(stringify!($id)),*].len()] {
                [$(&self.$id),*]
            }

            /// Something else per metric.
            pub fn map<U>(self, mut change: impl FnMut(T) -> U) -> $type<U> {
                $type { $($id: change(self.$id),)* }
            }

            /// Something per metric, made from its place in [`METRICS`](Self::METRICS).
            pub fn from_fn(mut make: impl FnMut(usize) -> T) -> Self {
                let mut places = 0..;
                $(let $id = make(places.next().unwrap_or_default());)*
                Self { $($id),* }
            }
        }

        impl Serialize for $type<Option<ConfidenceInterval>> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let ids = $type::METRICS.iter().map(|metric| metric.id);
                serializer.collect_map(ids.zip(self.each()))
            }
        }
    };
}

metrics! {
    /// Predictions against labels, one thing per metric.
    InDomain:
    /// Share of images whose most probable class is the label.
    accuracy(
        "Acc.", Higher, "right predictions; higher is better",
        "Accuracy: share of test images whose most probable class is the label."
    );
    /// Share of images whose label is among the five most probable classes; undefined below five
    /// classes.
    top5(
        "Top-5", Higher, "label among the five most probable; higher is better",
        "Share of test images whose label is among the five most probable classes."
    );
    /// Mean of `-log p(label)`; infinite if a label has probability 0.
    nll(
        "NLL", Lower, "mean of -log p(label); lower is better",
        "Negative log-likelihood: mean of -log p(label). It punishes confident mistakes; ∞ where a \
         label had probability 0."
    );
    /// Expected calibration error, see [`Reliability`](crate::results::Reliability).
    ece(
        "ECE", Lower, "calibration error over {bins} bins; lower is better",
        "Expected calibration error: how far confidence and accuracy lie apart, averaged over bins \
         of confidence. 0 means that of predictions made with 80 % confidence 80 % are right."
    );
    /// Mean over images of `Σ (p - onehot)²`, between 0 and 2.
    brier(
        "Brier", Lower, "squared distance from the label, 0 to 2; lower is better",
        "Brier score: squared distance of the probabilities from the right answer, summed over the \
         classes, between 0 and 2."
    );
    /// Area under the ROC curve of right against wrong predictions by maximum probability;
    /// undefined if all are right or all wrong.
    auroc(
        "AUROC", Higher, "right predictions are surer than wrong ones; 0.5 is chance",
        "Chance that a right prediction is made with more confidence than a wrong one."
    );
}

metrics! {
    /// How well a score tells in-domain images from others, one thing per metric. The higher the
    /// score, the more in-domain.
    ///
    /// In-domain is the positive class for everything but `aupr_out`, where it is out-of-domain
    /// with the score negated. Images of equal score are accepted or refused together. If a side is
    /// empty, every metric is undefined.
    OutOfDomain:
    /// Area under the ROC curve.
    auroc(
        "AUROC", Higher, "in-domain scores higher; 0.5 is chance",
        "Area under the ROC curve: chance that a test image has a higher score than an \
         out-of-domain image."
    );
    /// Average precision, in-domain positive.
    aupr_in(
        "AUPR-In", Higher, "average precision, in-domain positive; {in_share} is chance",
        "Average precision with test images as the positive class. It depends on how many images \
         either side has."
    );
    /// Average precision, out-of-domain positive.
    aupr_out(
        "AUPR-Out", Higher, "average precision, out-of-domain positive; {out_share} is chance",
        "Average precision with out-of-domain images as the positive class. It depends on how many \
         images either side has."
    );
    /// False positive rate at the first threshold that accepts at least 95 % of the in-domain
    /// images: the standard definition.
    fpr_at_95_tpr(
        "FPR@95", Lower, "others accepted where 95 % of in-domain are; lower is better",
        "The standard definition: share of out-of-domain images that pass at the first threshold \
         which lets at least 95 % of the test images pass."
    );
    /// Mean false positive rate over the vertices of the reduced ROC curve with true positive rate
    /// up to 0.9505: what the paper's column FPR@95 holds.
    mean_fpr_below_95_tpr(
        "Mean FPR ≤ 95", Lower, "the same averaged up to there: the paper's FPR@95",
        "What the paper's column FPR@95 holds: the false positive rate averaged over all corners of \
         the ROC curve up to a true positive rate of 95 %. Two to four times smaller than the standard \
         definition; compare the paper's figures with this column only."
    );
    /// Smallest error of a threshold when both sides are equally likely.
    detection_error(
        "Det. err.", Lower, "error of the best threshold, both sides alike; lower is better",
        "Detection error: smallest share of mistakes of any threshold when both sides are equally \
         likely."
    );
}

metrics! {
    /// What tells right answers from wrong ones, and in-domain images from others, where the
    /// weights may move; one thing per score, as its area under the ROC curve. The higher a score,
    /// the surer.
    Scores:
    /// The largest class probability.
    max_probability(
        "Max. prob.", Higher, "the largest probability, the paper's score",
        "The largest probability at the weights themselves: the paper's score."
    );
    /// `log Σ exp z` of the logits.
    energy(
        "Energy", Higher, "log-sum-exp of the logits",
        "Log-sum-exp of the logits: the log of what the softmax divides by."
    );
    /// The largest logit.
    max_logit(
        "Max. logit", Higher, "the largest logit",
        "The largest logit."
    );
    /// The largest entry of `softmax(z_k / √(1 + π C_kk / 8))`.
    probit(
        "Probit", Higher, "the largest probability, averaged over normal weights",
        "The largest probability if the weights are random with the same covariance, averaged by the \
         probit approximation: the probabilistic rival."
    );
    /// `1 - max_{k≠ŷ} Π_k`.
    necessity(
        "Necessity", Higher, "1 - possibility of another answer",
        "How far from possible it is that the weights give another answer. Its order does not depend on \
         the scale of their precisions."
    );
    /// `P̲(ŷ) = 1 - P̄(not ŷ)`.
    lower(
        "Lower prob.", Higher, "lower probability of the answer",
        "Lower probability of the answer: one minus the most that all other classes together get, \
         weighed by the possibility of the weights that give it."
    );
    /// `P̲(ŷ) - P̄(ŷ)`.
    width(
        "-Width", Higher, "upper - lower probability of the answer, negated",
        "Upper less lower probability of the answer, negated: how much of the doubt comes from the \
         weights rather than from the image."
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_table() {
        let places = OutOfDomain::from_fn(|place| place);
        assert_eq!(places.each(), [&0, &1, &2, &3, &4, &5]);
        assert_eq!((places.auroc, places.detection_error), (0, 5));
        assert_eq!(places.map(|place| place + 1).aupr_in, 2);
        assert_eq!(OutOfDomain::METRICS[3].id, "fpr_at_95_tpr");
        assert_eq!(
            InDomain::METRICS.map(|metric| metric.better.word())[2],
            "lower"
        );
    }

    #[test]
    fn either_way_can_be_better() {
        assert!(Better::Higher.prefers(2.0, 1.0) && !Better::Higher.prefers(1.0, 1.0));
        assert!(Better::Lower.prefers(1.0, 2.0) && !Better::Lower.prefers(f64::INFINITY, 2.0));
    }
}
