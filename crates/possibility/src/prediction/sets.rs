//! Sets of classes with a guaranteed coverage, from any contour of what is possible.
//!
//! Let `V₁, …, V_n` be the contour (`Π`, `P̄`, `p`) of the true class on held-out images, and
//! `q` the `⌊α(n+1)⌋`-th smallest of them. For exchangeable images the set `{k : Π_k ≥ q}` holds
//! the true class with probability at least `1 - α` (split conformal prediction). Values equal to
//! `q` belong to the set: the contour of a right answer is 1, and without these ties the
//! guarantee would be lost. The sets of all levels are the cuts `{k : π_k > α}` of one function,
//! `π_k = (1 + #{i : Vᵢ ≤ Π_k}) / (n + 1)`.

use crate::error::{Error, Result, check, check_numbers};

/// The contour of the true class on held-out images.
///
/// ```
/// use possibility::prediction::Calibrated;
/// let held_out = Calibrated::new(vec![1.0, 0.2, 1.0, 0.6, 1.0, 1.0, 0.9, 1.0, 1.0])?;
/// assert_eq!(held_out.threshold(0.2)?, Some(0.6)); // the second smallest of nine
/// assert_eq!(held_out.set(&[1.0, 0.7, 0.3], 0.2)?, [0, 1]);
/// assert_eq!(held_out.threshold(0.05)?, None); // too few images: all classes
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    sorted: Vec<f64>,
}

impl Calibrated {
    /// From the contour of the true class on held-out images, in any order.
    ///
    /// # Errors
    /// There is none, or one is NaN.
    pub fn new(mut held_out: Vec<f64>) -> Result<Self> {
        let name = "the contour of held-out images";
        if held_out.is_empty() {
            return Err(Error::Empty { name });
        }
        check_numbers(name, &held_out)?;
        held_out.sort_by(f64::total_cmp);
        Ok(Self { sorted: held_out })
    }

    /// The smallest contour of a class in the set of this level; `None` where every class is in it.
    ///
    /// # Errors
    /// A level outside `(0, 1)`.
    pub fn threshold(&self, alpha: f64) -> Result<Option<f64>> {
        check("alpha", alpha, "(0, 1)", |a| a > 0.0 && a < 1.0)?;
        // rounding must not make the rank one larger than it is
        let exact = alpha * (self.sorted.len() + 1) as f64;
        let near = exact.round();
        let rank = if (exact - near).abs() <= 1e-12 * near {
            near
        } else {
            exact.floor()
        };
        Ok((rank >= 1.0).then(|| self.sorted[(rank as usize).min(self.sorted.len()) - 1]))
    }

    /// The classes whose contour reaches the threshold of a level.
    ///
    /// # Errors
    /// A level outside `(0, 1)`.
    pub fn set(&self, contour: &[f64], alpha: f64) -> Result<Vec<usize>> {
        let threshold = self.threshold(alpha)?.unwrap_or(f64::NEG_INFINITY);
        let classes = contour.iter().enumerate();
        Ok(classes
            .filter(|(_, value)| **value >= threshold)
            .map(|(class, _)| class)
            .collect())
    }

    /// The function whose cuts `{k : π_k > α}` are the sets of all levels.
    pub fn contour(&self, contour: &[f64]) -> Vec<f64> {
        let total = (self.sorted.len() + 1) as f64;
        let below = |value: &f64| self.sorted.partition_point(|v| v <= value);
        contour
            .iter()
            .map(|value| (1 + below(value)) as f64 / total)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_and_nan_are_refused() {
        assert!(matches!(Calibrated::new(vec![]), Err(Error::Empty { .. })));
        assert!(Calibrated::new(vec![0.5, f64::NAN]).is_err());
        let one = Calibrated::new(vec![0.5]).unwrap();
        assert!(one.threshold(0.0).is_err() && one.threshold(1.0).is_err());
        assert!(one.threshold(f64::NAN).is_err());
    }

    #[test]
    fn a_rank_that_rounding_misses_is_found() {
        // 0.1 · 30 and 0.3 · 10 are whole, though not in floating point
        let held_out = Calibrated::new((1..=29).map(f64::from).collect()).unwrap();
        assert_eq!(held_out.threshold(0.1).unwrap(), Some(3.0));
        let held_out = Calibrated::new((1..=9).map(f64::from).collect()).unwrap();
        assert_eq!(held_out.threshold(0.3).unwrap(), Some(3.0));
        assert_eq!(held_out.threshold(0.999).unwrap(), Some(9.0));
    }

    proptest! {
        /// Over all choices of the test image among n + 1, the share that is covered is at least
        /// 1 - α, and without ties the least such share.
        #[test]
        fn coverage_is_exact_over_exchangeable_images(
            values in prop::collection::vec(0u8..12, 2..40),
            distinct in any::<bool>(),
            alpha in 0.01f64..0.99,
        ) {
            let mut values: Vec<f64> = values.into_iter().map(f64::from).collect();
            if distinct {
                let all = values.iter_mut().enumerate();
                all.for_each(|(i, value)| *value = *value * 100.0 + i as f64);
            }
            let total = values.len();
            let covered = (0..total).filter(|&test| {
                let mut held_out = values.clone();
                let own = held_out.remove(test);
                let sets = Calibrated::new(held_out).unwrap();
                !sets.set(&[own], alpha).unwrap().is_empty()
            }).count();
            let least = total - (alpha * total as f64).floor() as usize;
            prop_assert!(covered >= least);
            prop_assert!(!distinct || covered == least);
        }

        #[test]
        fn sets_are_the_cuts_of_one_function(
            held_out in prop::collection::vec(0u8..20, 1..30),
            contour in prop::collection::vec(0u8..20, 1..6),
            alpha in 0.011f64..0.99,
        ) {
            let sets = Calibrated::new(held_out.into_iter().map(f64::from).collect()).unwrap();
            let contour: Vec<f64> = contour.into_iter().map(f64::from).collect();
            let cut: Vec<usize> = sets
                .contour(&contour)
                .iter()
                .enumerate()
                .filter(|(_, value)| **value > alpha)
                .map(|(class, _)| class)
                .collect();
            prop_assert_eq!(sets.set(&contour, alpha).unwrap(), cut);
        }
    }
}
