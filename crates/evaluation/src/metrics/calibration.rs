//! Calibration: is the confidence, the maximum probability, the share of right predictions? Images
//! are put into bins by their confidence; the expected calibration error is
//! `Σ_b |right_b - Σ confidence_b| / n`.

use std::fmt;
use std::str::FromStr;

use super::Outcomes;
use super::sum::BLOCK;
use crate::error::{Error, Result};
use crate::results::{Reliability, ReliabilityBin};

/// Bins allowed.
const MOST_BINS: usize = 10_000;

/// How the bins are laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Bins of equal width: `min(B-1, ⌊confidence·B⌋)`.
    #[default]
    EqualWidth,
    /// Bins of nearly equal numbers of images, by rank of the confidence: `⌊rank·B/n⌋`. Images of
    /// equal confidence stay together, in the bin of the lowest rank among them, so that bins can
    /// be empty.
    EqualMass,
}

impl Scheme {
    /// `equal-width` or `equal-mass`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EqualWidth => "equal-width",
            Self::EqualMass => "equal-mass",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        [Self::EqualWidth, Self::EqualMass]
            .into_iter()
            .find(|scheme| scheme.name() == text)
            .ok_or_else(|| format!("\"{text}\" is neither equal-width nor equal-mass"))
    }
}

/// Number and layout of the bins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CalibrationConfig {
    /// Number of bins, 1 to 10,000; by default 20, as in the paper's experiments.
    pub bins: usize,
    /// Layout; by default of equal width.
    pub scheme: Scheme,
}

impl Default for CalibrationConfig {
    fn default() -> Self {
        Self {
            bins: 20,
            scheme: Scheme::EqualWidth,
        }
    }
}

impl CalibrationConfig {
    /// Checks the range of the number of bins.
    ///
    /// # Errors
    /// It is not in 1 to 10,000.
    pub fn check(&self) -> Result<()> {
        if (1..=MOST_BINS).contains(&self.bins) {
            return Ok(());
        }
        Err(Error::Setting {
            field: "number of bins",
            value: self.bins as f64,
            range: "1..=10000",
        })
    }
}

/// Bin of a confidence, for bins of equal width.
pub(super) fn equal_width(confidence: f64, bins: usize) -> usize {
    ((confidence * bins as f64) as usize).min(bins - 1)
}

/// Bin of a confidence with `rank` of `samples` below it, for bins of equal mass.
pub(super) fn equal_mass(rank: usize, samples: usize, bins: usize) -> usize {
    (rank as u64 * bins as u64 / samples as u64) as usize
}

/// Images, right predictions and sum of confidences of a bin.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    count: usize,
    right: usize,
    confidence: f64,
}

/// Expected calibration error, in `[0, 1]`, and the bins behind it. O(n) for bins of equal width,
/// O(n log n) for equal mass.
///
/// # Errors
/// The number of bins is out of range.
pub fn reliability(outcomes: &Outcomes, config: &CalibrationConfig) -> Result<(f64, Reliability)> {
    let confidence = outcomes.confidence();
    let image = |image: usize| (confidence[image], outcomes.is_right(image));
    reliability_of(confidence.len(), image, config)
}

/// The same from the confidence of every image, and whether it was right.
pub(super) fn reliability_of(
    samples: usize,
    image: impl Fn(usize) -> (f64, bool),
    config: &CalibrationConfig,
) -> Result<(f64, Reliability)> {
    config.check()?;
    let mut bins = vec![Bin::default(); config.bins];
    match config.scheme {
        Scheme::EqualWidth => {
            let images = (0..samples).map(|number| {
                let (confidence, right) = image(number);
                (equal_width(confidence, config.bins), confidence, right)
            });
            fill(&mut bins, images);
        }
        Scheme::EqualMass => {
            let mut order: Vec<u32> = (0..samples as u32).collect();
            let value = |number: u32| image(number as usize).0;
            order.sort_by(|&a, &b| value(a).total_cmp(&value(b)));
            let mut lowest = 0;
            let images = (0..order.len()).map(|rank| {
                if value(order[rank]) != value(order[lowest]) {
                    lowest = rank;
                }
                let bin = equal_mass(lowest, samples, config.bins);
                let (confidence, right) = image(order[rank] as usize);
                (bin, confidence, right)
            });
            fill(&mut bins, images);
        }
    }
    let gap = |bin: &Bin| (bin.right as f64 - bin.confidence).abs();
    let ece = bins.iter().map(gap).sum::<f64>() / samples as f64;
    let bins = bins.iter().map(|bin| ReliabilityBin {
        count: bin.count,
        right: bin.right,
        confidence: (bin.count > 0).then(|| bin.confidence / bin.count as f64),
    });
    let reliability = Reliability {
        scheme: config.scheme.name().to_owned(),
        bins: bins.collect(),
    };
    Ok((ece, reliability))
}

/// Adds images, each with its bin, its confidence and whether it was right, block by block for the
/// sake of precision.
fn fill(bins: &mut [Bin], images: impl Iterator<Item = (usize, f64, bool)>) {
    let mut images = images.peekable();
    let mut block = vec![Bin::default(); bins.len()];
    while images.peek().is_some() {
        // with more bins than images in a block nothing would be gained
        for (bin, confidence, right) in images.by_ref().take(BLOCK.max(bins.len())) {
            let bin = &mut block[bin];
            bin.count += 1;
            bin.right += usize::from(right);
            bin.confidence += confidence;
        }
        for (total, part) in bins.iter_mut().zip(&mut block) {
            total.count += part.count;
            total.right += part.right;
            total.confidence += part.confidence;
            *part = Bin::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two classes; confidences and whether right.
    fn outcomes(images: &[(f64, bool)]) -> Outcomes {
        let probabilities: Vec<f64> = images.iter().flat_map(|&(p, _)| [p, 1.0 - p]).collect();
        let labels: Vec<u8> = images.iter().map(|&(_, right)| u8::from(!right)).collect();
        Outcomes::new(&probabilities, 2, &labels).unwrap()
    }

    fn counts(reliability: &Reliability) -> Vec<usize> {
        reliability.bins.iter().map(|bin| bin.count).collect()
    }

    #[test]
    fn the_edges_of_equal_widths_belong_to_the_upper_bin() {
        let outcomes = outcomes(&[(0.5, true), (0.625, false), (0.75, true), (1.0, true)]);
        let config = CalibrationConfig {
            bins: 4,
            scheme: Scheme::EqualWidth,
        };
        let (ece, reliability) = super::reliability(&outcomes, &config).unwrap();
        assert_eq!(counts(&reliability), [0, 0, 2, 2]);
        assert_eq!(reliability.bins[0].confidence, None);
        assert_eq!(reliability.bins[2].confidence, Some(0.5625));
        assert_eq!(reliability.bins[2].right, 1);
        assert_eq!(ece, (0.125 + 0.25) / 4.0);
        assert_eq!(reliability.scheme, "equal-width");
    }

    #[test]
    fn equal_masses_keep_ties_together() {
        let config = CalibrationConfig {
            bins: 3,
            scheme: Scheme::EqualMass,
        };
        let apart: Vec<_> = (0..6).map(|i| (0.9 - 0.05 * f64::from(i), true)).collect();
        let (_, reliability) = super::reliability(&outcomes(&apart), &config).unwrap();
        assert_eq!(counts(&reliability), [2, 2, 2]);
        let low = reliability.bins[0].confidence.unwrap();
        assert!((low - 0.675).abs() < 1e-15);
        assert_eq!(reliability.scheme, "equal-mass");
        // ranks 1 to 4 are tied: they go where rank 1 goes
        let tied = [0.6, 0.7, 0.7, 0.7, 0.7, 0.9].map(|p| (p, true));
        let (_, reliability) = super::reliability(&outcomes(&tied), &config).unwrap();
        assert_eq!(counts(&reliability), [5, 0, 1]);
        // more bins than images
        let config = CalibrationConfig { bins: 20, ..config };
        let (_, reliability) = super::reliability(&outcomes(&apart), &config).unwrap();
        assert_eq!(counts(&reliability).iter().sum::<usize>(), 6);
    }

    #[test]
    fn perfect_calibration_has_no_error() {
        let images: Vec<_> = (0..3000).map(|i| (0.75, i % 4 != 0)).collect();
        for scheme in [Scheme::EqualWidth, Scheme::EqualMass] {
            let config = CalibrationConfig { bins: 20, scheme };
            let (ece, _) = super::reliability(&outcomes(&images), &config).unwrap();
            assert_eq!(ece, 0.0);
        }
    }

    #[test]
    fn the_number_of_bins_is_checked_and_names_are_read() {
        for bins in [0, 10_001] {
            let config = CalibrationConfig {
                bins,
                ..CalibrationConfig::default()
            };
            let error = super::reliability(&outcomes(&[(1.0, true)]), &config).unwrap_err();
            let message = format!("number of bins {bins} is not in 1..=10000");
            assert_eq!(error.to_string(), message);
        }
        for scheme in [Scheme::EqualWidth, Scheme::EqualMass] {
            assert_eq!(scheme.name().parse(), Ok(scheme));
        }
        assert!("equal".parse::<Scheme>().is_err());
    }
}
