//! What can go wrong with predictions and scores, as data: the row, the value and what was allowed.

/// Result of a metric.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of the metrics. Rows and classes are counted from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to evaluate.
    #[error("there are no {what}")]
    Empty {
        /// What is missing: `probabilities`.
        what: &'static str,
    },
    /// Fewer than two classes.
    #[error("number of classes {classes} is not in 2..")]
    Classes {
        /// The number given.
        classes: usize,
    },
    /// The probabilities do not fill whole rows.
    #[error("{values} values are not whole rows of {classes} classes")]
    Shape {
        /// Number of values.
        values: usize,
        /// Number of classes.
        classes: usize,
    },
    /// There must be one label for every row of probabilities.
    #[error("labels has {labels} entries, expected {rows}, one for each row of probabilities")]
    Labels {
        /// Number of labels.
        labels: usize,
        /// Number of rows.
        rows: usize,
    },
    /// More samples than can be counted in 32 bits.
    #[error("number of samples {samples} is not in 0..={}", u32::MAX)]
    TooMany {
        /// The number given.
        samples: usize,
    },
    /// A label names no class.
    #[error("row {row}: label {value} is not in 0..={}", classes - 1)]
    Label {
        /// Row of the label.
        row: usize,
        /// The label, as it was given.
        value: String,
        /// Number of classes.
        classes: usize,
    },
    /// A probability is no number or outside `[0, 1]`.
    #[error("row {row}: probability {value} of class {class} is not in [0, 1]")]
    Probability {
        /// Row of the probability.
        row: usize,
        /// Its class.
        class: usize,
        /// The value.
        value: f64,
    },
    /// The probabilities of a row do not add up to 1.
    #[error(
        "row {row}: sum of the probabilities {sum} is not in 1 ± {}",
        crate::SUM_TOLERANCE
    )]
    Sum {
        /// The row.
        row: usize,
        /// What they add up to.
        sum: f64,
    },
    /// A logit is NaN or plus infinity, or all of a row are minus infinity.
    #[error(
        "row {row}: logit {value} of class {class} is not a finite number, nor -inf beside one"
    )]
    Logit {
        /// Row of the logit.
        row: usize,
        /// Its class.
        class: usize,
        /// The value.
        value: f64,
    },
    /// A score is not a number.
    #[error("row {row} of the {side} scores is not a number")]
    Score {
        /// `in-domain` or `out-of-domain`.
        side: &'static str,
        /// Row of the score.
        row: usize,
    },
    /// A setting is out of its range.
    #[error("{field} {value} is not in {range}")]
    Setting {
        /// Name of the setting.
        field: &'static str,
        /// The value given.
        value: f64,
        /// What is allowed.
        range: &'static str,
    },
}

/// An error and its causes, as far as they say something new.
pub fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = next.source();
    }
    text
}
