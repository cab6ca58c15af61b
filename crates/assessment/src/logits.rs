//! What `maxitive evaluate` does with logits: whether they are some, scores made from them, and the
//! temperature that divides them.

use evaluation::{Error, SUM_TOLERANCE};

use questions::user_error::UserError;
use tabular::arrays::{Floats, Loaded};

/// A score that is made from logits; the higher, the more in-domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogitScore {
    /// `log Σ exp z`: the negative free energy.
    Energy,
    /// The largest logit.
    Maximum,
}

impl LogitScore {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Energy, Self::Maximum];

    /// The word on the command line.
    pub fn id(self) -> &'static str {
        match self {
            Self::Energy => "energy",
            Self::Maximum => "max-logit",
        }
    }

    /// What it is.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Energy => "log of the sum of exp(logits), the negative energy; needs --logits",
            Self::Maximum => "the largest logit; needs --logits",
        }
    }

    /// What records call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Energy => "negative energy",
            Self::Maximum => "maximum logit",
        }
    }

    /// The scores of logits `[n, classes]`.
    pub fn of(self, logits: &Floats, classes: usize) -> Vec<f64> {
        let score = |row: &[f64]| match self {
            Self::Maximum => row.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            Self::Energy => evaluation::energy(row),
        };
        doubles(logits).chunks_exact(classes).map(score).collect()
    }
}

/// The numbers as doubles.
pub fn doubles(values: &Floats) -> Vec<f64> {
    match values {
        Floats::Single(values) => values.iter().map(|&value| value.into()).collect(),
        Floats::Double(values) => values.clone(),
    }
}

/// Whether every row is one of probabilities, as no file of logits is.
fn are_probabilities(values: &[f64], classes: usize) -> bool {
    let row = |row: &[f64]| {
        let sum: f64 = row.iter().sum();
        row.iter().all(|p| (0.0..=1.0).contains(p)) && (sum - 1.0).abs() <= SUM_TOLERANCE
    };
    !values.is_empty() && values.chunks_exact(classes).all(row)
}

/// Refuses probabilities that were given as logits.
///
/// # Errors
/// They are probabilities, all rows of them.
pub fn check(name: &str, logits: &Floats, classes: usize) -> Result<(), UserError> {
    if are_probabilities(&doubles(logits), classes) {
        return Err(UserError::new(format!(
            "{name}: every row is one of probabilities that add up to 1; leave out --logits"
        )));
    }
    Ok(())
}

/// Probabilities as logits: their logarithms, `-inf` for a class that is ruled out.
pub fn logarithms(probabilities: &[f64]) -> Vec<f64> {
    probabilities.iter().map(|p| p.ln()).collect()
}

/// A temperature and what it was fitted to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temperature {
    /// What logits are divided by.
    pub value: f64,
    /// Validation images.
    pub images: usize,
}

impl Temperature {
    /// The temperature for validation predictions, logits or probabilities, and their labels.
    ///
    /// # Errors
    /// They do not belong together, or no temperature is best.
    pub fn fit(loaded: Loaded, labels: Loaded, logits: bool) -> Result<Self, UserError> {
        let (probabilities, name) = (&loaded.name.clone(), labels.name.clone());
        let known = labels.whole_column("labels")?;
        let what = if logits { "logits" } else { "probabilities" };
        let (values, classes) = loaded.matrix(what)?;
        let mut numbers = doubles(&values);
        if logits {
            check(probabilities, &values, classes)?;
        } else {
            if !are_probabilities(&numbers, classes) {
                return Err(UserError::new(format!(
                    "{probabilities}: not all rows are probabilities that add up to 1; are these \
                     logits? then add --logits"
                )));
            }
            // as far as numbers reach: what is ruled out says nothing of the temperature
            numbers = logarithms(&numbers);
            (numbers.iter_mut()).for_each(|z| *z = z.max(f64::MIN_POSITIVE.ln()));
        }
        let found = evaluation::temperature(&numbers, classes, &known);
        let value = found.map_err(|error| match error {
            Error::Setting { .. } => UserError::new(format!(
                "{probabilities}: no temperature in 0.001 to 1000 is best; are all predictions \
                 right, or are these the labels of other images?"
            )),
            Error::Label { .. } | Error::Labels { .. } => {
                UserError::new(format!("{name}: {error}"))
            }
            _ => UserError::new(format!("{probabilities}: {error}")),
        })?;
        Ok(Self {
            value,
            images: known.len(),
        })
    }

    /// What the reader should know.
    pub fn text(&self) -> String {
        let Self { value, images } = self;
        format!("Temperature {value:.4}, fitted to {images} validation images\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_logits() {
        let logits = Floats::Double(vec![0.0, 3f64.ln(), 1000.0, 1000.0]);
        let energy = LogitScore::Energy.of(&logits, 2);
        assert!((energy[0] - 4f64.ln()).abs() < 1e-12);
        assert!((energy[1] - (1000.0 + 2f64.ln())).abs() < 1e-9);
        assert_eq!(LogitScore::Maximum.of(&logits, 2), [3f64.ln(), 1000.0]);
    }

    #[test]
    fn probabilities_are_told_from_logits() {
        let ask = |values: &[f64]| check("p.npy", &Floats::Double(values.to_vec()), 2).is_err();
        assert!(ask(&[0.25, 0.75, 1.0, 0.0]));
        // one row that is none will do
        assert!(!ask(&[0.25, 0.75, 1.5, 0.0]));
        assert!(!ask(&[]));
        assert_eq!(logarithms(&[1.0]), [0.0]);
        assert_eq!(logarithms(&[0.0]), [f64::NEG_INFINITY]);
    }
}
