//! The exponential family on a finite set: `A(λ) = max_i λᵀT_i - B_i`, exactly. Paper: Section 5.

use super::ExponentialForm;
use crate::error::{Error, Result, check_entries, check_finite, check_size};
use crate::finite::{Finite, IndexSet};
use crate::function::{Measure, Mode, Possibility};
use crate::numeric::log_sum_exp;

/// Statistics `T_i` and base measure `B_i` of the points `i = 0, …, n - 1`.
///
/// ```
/// use possibility::Mode;
/// use possibility::family::exponential::FiniteFamily;
/// // T(i) = i and B(i) = i² over {0, 1, 2, 3}
/// let family = FiniteFamily::new(
///     (0..4).map(|i| vec![f64::from(i)]).collect(),
///     (0..4).map(|i| f64::from(i * i)).collect(),
/// )?;
/// assert_eq!(family.log_partition(&[3.0])?, 2.0);
/// assert_eq!(family.member(&[3.0])?.mode(), Mode::Finite(vec![1, 2]));
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FiniteFamily {
    statistics: Vec<Vec<f64>>,
    base: Vec<f64>,
}

impl FiniteFamily {
    /// The family with the statistic `statistics[i]` and the base measure `base[i]` at point `i`.
    ///
    /// `base[i] = +∞` leaves the point out of the support.
    ///
    /// # Errors
    /// No point, statistics of different lengths or not finite, a base measure that is NaN or `-∞`,
    /// or `+∞` everywhere.
    pub fn new(statistics: Vec<Vec<f64>>, base: Vec<f64>) -> Result<Self> {
        let dimension = statistics
            .first()
            .ok_or(Error::Empty { name: "statistics" })?
            .len();
        check_size("base", base.len(), statistics.len())?;
        for row in &statistics {
            check_size("statistic", row.len(), dimension)?;
            check_finite("statistic", row)?;
        }
        check_entries("base", &base, "(-inf, inf]", |b| b > f64::NEG_INFINITY)?;
        if base.iter().all(|b| b.is_infinite()) {
            return Err(Error::Impossible {
                what: "every point",
            });
        }
        Ok(Self { statistics, base })
    }

    /// Number of points.
    pub fn size(&self) -> usize {
        self.base.len()
    }

    /// Length of `λ` and of each statistic.
    pub fn dimension(&self) -> usize {
        self.statistics[0].len()
    }

    /// `A(λ) = max_i λᵀT_i - B_i`.
    ///
    /// # Errors
    /// `λ` has the wrong length, or an entry that is not finite.
    pub fn log_partition(&self, natural: &[f64]) -> Result<f64> {
        Ok(self
            .exponents(natural)?
            .into_iter()
            .fold(f64::NEG_INFINITY, f64::max))
    }

    /// The member `g_λ`.
    ///
    /// # Errors
    /// As [`Self::log_partition`].
    pub fn member(&self, natural: &[f64]) -> Result<FiniteMember> {
        let (function, log_partition) = Finite::normalize_log(&self.exponents(natural)?)?;
        Ok(FiniteMember {
            family: self.clone(),
            natural: natural.to_vec(),
            log_partition,
            function,
        })
    }

    fn exponents(&self, natural: &[f64]) -> Result<Vec<f64>> {
        check_size("natural parameter", natural.len(), self.dimension())?;
        check_finite("natural parameter", natural)?;
        Ok(self
            .statistics
            .iter()
            .zip(&self.base)
            .map(|(row, base)| row.iter().zip(natural).map(|(t, l)| t * l).sum::<f64>() - base)
            .collect())
    }
}

/// A member `g_λ` of a [`FiniteFamily`]; points and events are indices.
#[derive(Debug, Clone, PartialEq)]
pub struct FiniteMember {
    family: FiniteFamily,
    natural: Vec<f64>,
    log_partition: f64,
    function: Finite,
}

impl FiniteMember {
    /// The values as a function on a finite set, with all that such functions can do.
    pub fn as_finite(&self) -> &Finite {
        &self.function
    }

    /// The maximizers.
    pub fn mode(&self) -> Mode<usize> {
        self.function.mode()
    }

    /// The points of possibility at least `alpha`, in increasing order.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`.
    pub fn alpha_cut(&self, alpha: f64) -> Result<Vec<usize>> {
        self.function.alpha_cut(alpha)
    }
}

impl Possibility for FiniteMember {
    type Point = usize;

    fn log_possibility(&self, point: &usize) -> f64 {
        self.function.log_possibility(point)
    }
}

impl Measure<IndexSet> for FiniteMember {
    fn log_possibility_of(&self, event: &IndexSet) -> Result<f64> {
        self.function.log_possibility_of(event)
    }

    fn log_possibility_of_complement(&self, event: &IndexSet) -> Result<f64> {
        self.function.log_possibility_of_complement(event)
    }
}

impl Measure<[usize]> for FiniteMember {
    fn log_possibility_of(&self, event: &[usize]) -> Result<f64> {
        self.function.log_possibility_of(event)
    }

    fn log_possibility_of_complement(&self, event: &[usize]) -> Result<f64> {
        self.function.log_possibility_of_complement(event)
    }
}

impl ExponentialForm for FiniteMember {
    fn natural(&self) -> Vec<f64> {
        self.natural.clone()
    }

    /// `T_i`; zeros for a point outside the set.
    fn statistic(&self, point: &usize) -> Vec<f64> {
        self.family
            .statistics
            .get(*point)
            .cloned()
            .unwrap_or_else(|| vec![0.0; self.natural.len()])
    }

    /// `B_i`; `+∞` for a point outside the set.
    fn base(&self, point: &usize) -> f64 {
        self.family
            .base
            .get(*point)
            .copied()
            .unwrap_or(f64::INFINITY)
    }

    fn log_partition(&self) -> f64 {
        self.log_partition
    }

    /// `log Σ_i exp(λᵀT_i - B_i)`.
    fn additive_log_partition(&self) -> f64 {
        self.log_partition + log_sum_exp(self.function.log_values().iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_family() {
        assert!(FiniteFamily::new(vec![], vec![]).is_err());
        assert!(FiniteFamily::new(vec![vec![1.0], vec![]], vec![0.0, 0.0]).is_err());
        assert!(FiniteFamily::new(vec![vec![f64::NAN]], vec![0.0]).is_err());
        assert!(FiniteFamily::new(vec![vec![1.0]], vec![f64::NEG_INFINITY]).is_err());
        assert!(FiniteFamily::new(vec![vec![1.0]], vec![f64::INFINITY]).is_err());
        let family = FiniteFamily::new(vec![vec![1.0]], vec![0.0]).unwrap();
        assert!(family.member(&[1.0, 2.0]).is_err());
        assert!(family.member(&[f64::INFINITY]).is_err());
    }

    #[test]
    fn a_base_of_infinity_leaves_the_support() {
        let family = FiniteFamily::new(
            vec![vec![0.0], vec![1.0], vec![2.0]],
            vec![0.0, 0.5, f64::INFINITY],
        )
        .unwrap();
        let member = family.member(&[2.0]).unwrap();
        assert_eq!(member.mode(), Mode::Point(1));
        assert!(!member.is_in_support(&2) && !member.is_in_support(&3));
        assert!((member.log_possibility(&0) + 1.5).abs() < 1e-15);
        assert_eq!(member.alpha_cut(0.5).unwrap(), vec![1]);
        assert_eq!(member.possibility_of(&[1, 2][..]).unwrap(), 1.0);
        let necessity = member.necessity_of(&[1, 2][..]).unwrap();
        assert!((necessity - (1.0 - (-1.5f64).exp())).abs() < 1e-15);
        assert!(member.possibility_of(&[3][..]).is_err());
    }
}
