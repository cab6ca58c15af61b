//! `g_λ^ν` as a function of one number, natural or mean parameter: `log f(x) = -ν KL(λ‖x)`,
//! `α`-cuts `{KL(λ‖x) ≤ -log(α)/ν}`, and events by the distance of the set from the mode. Paper:
//! Section 5.1.

use super::{Conjugate, Parameter, ScalarFamily};
use crate::error::{Error, Result, check_alpha};
use crate::function::{Measure, Possibility};
use crate::set::{Interval, RealSet};
use crate::univariate::Univariate;

/// The conjugate possibility function of a one-dimensional family, read in one parameter: what
/// [`ScalarFamily::prior`] and [`ScalarFamily::observe`] give.
///
/// ```
/// use possibility::prelude::*;
/// // ten successes in ten trials: the mode is on the boundary, the cut one-sided
/// let p = Bernoulli.observe(&[true; 10])?;
/// assert_eq!(p.mode(), Some(1.0));
/// let cut = p.cut(0.05)?;
/// assert!((cut.lower() - 0.05f64.powf(0.1)).abs() < 1e-15 && cut.upper() == 1.0);
/// // the natural parameter sees the same events
/// let log_odds = p.in_parameter(Parameter::Natural);
/// assert_eq!(log_odds.mode(), Some(f64::INFINITY));
/// assert_eq!(p.possibility_of(..0.5)?, log_odds.possibility_of(..0.0)?);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ScalarPosterior<F> {
    conjugate: Conjugate<F>,
    parameter: Parameter,
}

impl<F: ScalarFamily + Clone> ScalarPosterior<F> {
    pub(super) fn new(conjugate: Conjugate<F>, parameter: Parameter) -> Self {
        Self {
            conjugate,
            parameter,
        }
    }

    /// The posterior after `data`, read in the same parameter: `λ' = (νλ + Σxᵢ)/(ν + n)`,
    /// `ν' = ν + n`.
    ///
    /// # Errors
    /// An observation that breaks the family's rule (the error names its index), or data that leave
    /// no posterior (an exponential sample of zeros).
    pub fn observe<X: Copy + Into<f64>>(&self, data: &[X]) -> Result<Self> {
        let posterior = self.conjugate.observe(data.iter().map(|&x| x.into()))?;
        Ok(Self::new(posterior, self.parameter))
    }

    /// `log sup_θ p(x₁…xₙ|θ) g_λ^ν(θ)`, base measure included, with `self` as the prior: how well
    /// it agrees with the data.
    ///
    /// # Errors
    /// As [`Self::observe`].
    pub fn log_consistency<X: Copy + Into<f64>>(&self, data: &[X]) -> Result<f64> {
        self.conjugate
            .log_consistency(data.iter().map(|&x| x.into()))
    }

    /// The same function in coordinates, for what is the same in any dimension.
    pub fn conjugate(&self) -> &Conjugate<F> {
        &self.conjugate
    }

    /// The likelihood's family.
    pub fn family(&self) -> &F {
        self.conjugate.family()
    }

    /// `λ`, the mean statistic; `None` at weight 0.
    pub fn mean_statistic(&self) -> Option<f64> {
        self.conjugate.mean_statistic().map(|mean| mean[0])
    }

    /// `ν`, the number of observations it is worth.
    pub fn weight(&self) -> f64 {
        self.conjugate.weight()
    }

    /// Which parameter the points are.
    pub fn parameter(&self) -> Parameter {
        self.parameter
    }

    /// The same function, read in `parameter`.
    pub fn in_parameter(&self, parameter: Parameter) -> Self {
        self.conjugate.in_parameter(parameter)
    }
    /// The log at a point of the closed domain.
    fn log_value(&self, point: f64) -> f64 {
        let Some(mean) = self.mean_statistic() else {
            return 0.0;
        };
        let divergence = match self.parameter {
            Parameter::Natural => self.family().divergence(mean, point),
            Parameter::Mean => self.family().divergence_between_means(mean, point),
        };
        0.0 - self.weight() * divergence
    }
}

impl<F: ScalarFamily + Clone> Possibility for ScalarPosterior<F> {
    type Point = f64;

    /// `-ν KL(λ‖x)`; `-∞` outside the domain.
    fn log_possibility(&self, point: &f64) -> f64 {
        if self.domain().contains(*point) {
            self.log_value(*point)
        } else {
            f64::NEG_INFINITY
        }
    }
}

impl<F: ScalarFamily + Clone> Measure<RealSet> for ScalarPosterior<F> {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        let domain = self.domain();
        let inside = event.parts().iter().filter_map(|p| p.intersection(&domain));
        Ok(match self.mode() {
            None => inside.map(|_| 0.0).fold(f64::NEG_INFINITY, f64::max),
            Some(mode) => inside
                .map(|part| {
                    // continuous and unimodal: the end nearest to the mode, attained or approached
                    let nearest = part.clamp(mode);
                    if nearest == mode {
                        0.0
                    } else {
                        self.log_value(nearest)
                    }
                })
                .fold(f64::NEG_INFINITY, f64::max),
        })
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

impl<F: ScalarFamily + Clone> Univariate for ScalarPosterior<F> {
    fn domain(&self) -> Interval {
        match self.parameter {
            Parameter::Natural => self.family().natural_domain(),
            Parameter::Mean => self.family().mean_domain(),
        }
    }

    /// `A†'(λ)` or `λ`; infinite in the natural parameter for boundary data; `None` at `ν = 0`.
    fn mode(&self) -> Option<f64> {
        self.mean_statistic().map(|mean| match self.parameter {
            Parameter::Natural => self.family().natural_of(mean),
            Parameter::Mean => mean,
        })
    }

    /// `νA''(θ*)`, or `νA†''(λ)`; `None` for a mode on the boundary, 0 at `ν = 0`.
    fn precision(&self) -> Option<f64> {
        let Some(mean) = self.mean_statistic() else {
            return Some(0.0);
        };
        if self.family().natural_of(mean).is_infinite() {
            return None;
        }
        Some(match self.parameter {
            Parameter::Natural => self.weight() * self.family().variance(mean),
            Parameter::Mean => self.weight() * self.family().dual_curvature(mean),
        })
    }

    fn cut(&self, alpha: f64) -> Result<Interval> {
        let log_alpha = check_alpha(alpha)?;
        let Some((mean, mode)) = self.mean_statistic().zip(self.mode()) else {
            return Ok(self.domain());
        };
        if log_alpha == 0.0 {
            return Interval::point(mode);
        }
        let radius = -log_alpha / self.weight();
        let (lower, upper) = self.family().ball(mean, radius, self.parameter);
        // rounding must not push an end to the wrong side of the mode
        Interval::closed(lower.min(mode), upper.max(mode))?
            .intersection(&self.domain())
            .ok_or(Error::Empty { name: "alpha-cut" })
    }
}
