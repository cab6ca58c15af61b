//! `g_λ^ν` as a function of one number, natural or mean parameter: `log f(x) = -ν KL(λ‖x)`, `α`-cuts
//! `{KL(λ‖x) ≤ -log(α)/ν}`, and events by the distance of the set from the mode. Paper: Section 5.1.

use super::{Parameter, ScalarFamily, check_weight};
use crate::error::{Result, check};
use crate::family::exponential::check_alpha;
use crate::function::{Measure, Mode, Possibility};
use crate::set::{Interval, RealSet};

/// The conjugate possibility function of a one-dimensional family, read in one parameter.
///
/// ```
/// use possibility::{Measure, Mode, Possibility};
/// use possibility::family::conjugate::{Bernoulli, Parameter, ScalarPosterior};
/// use possibility::set::Interval;
/// // ten successes in ten trials: the mode is on the boundary, the cut one-sided
/// let p = ScalarPosterior::new(Bernoulli, 1.0, 10.0, Parameter::Mean)?;
/// assert_eq!(p.mode(), Mode::Point(1.0));
/// let cut = p.alpha_cut(0.05)?.hull().unwrap();
/// assert!((cut.lower() - 0.05f64.powf(0.1)).abs() < 1e-15 && cut.upper() == 1.0);
/// // the natural parameter sees the same events
/// let log_odds = p.in_parameter(Parameter::Natural);
/// assert_eq!(log_odds.mode(), Mode::Point(f64::INFINITY));
/// let possible = p.possibility_of(&Interval::below(0.5)?.into())?;
/// assert_eq!(possible, log_odds.possibility_of(&Interval::below(0.0)?.into())?);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ScalarPosterior<F> {
    family: F,
    /// `None` exactly if the weight is 0.
    mean: Option<f64>,
    weight: f64,
    parameter: Parameter,
}

impl<F: ScalarFamily> ScalarPosterior<F> {
    /// `g_λ^ν` with `λ = mean` and `ν = weight`, as a function of `parameter`.
    ///
    /// # Errors
    /// `λ` outside the mean domain, or `ν` negative or not finite.
    pub fn new(family: F, mean: f64, weight: f64, parameter: Parameter) -> Result<Self> {
        let domain = family.mean_domain();
        check("mean parameter", mean, "the family's mean domain", |x| {
            domain.contains(x)
        })?;
        check_weight("weight", weight)?;
        Ok(Self::from_parts(family, Some(mean), weight, parameter))
    }

    /// The uninformative **1** on the family's domain.
    pub fn uninformative(family: F, parameter: Parameter) -> Self {
        Self::from_parts(family, None, 0.0, parameter)
    }

    /// Parts that were checked before.
    pub(crate) fn from_parts(
        family: F,
        mean: Option<f64>,
        weight: f64,
        parameter: Parameter,
    ) -> Self {
        Self {
            family,
            mean: mean.filter(|_| weight > 0.0),
            weight,
            parameter,
        }
    }

    /// The likelihood's family.
    pub fn family(&self) -> &F {
        &self.family
    }

    /// `λ`, the mean statistic; `None` at weight 0.
    pub fn mean_statistic(&self) -> Option<f64> {
        self.mean
    }

    /// `ν`, the number of observations it is worth.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Which parameter the points are.
    pub fn parameter(&self) -> Parameter {
        self.parameter
    }

    /// Name of the parameter: `natural`, or the family's `p`, `rate` or `mean`.
    pub fn parameter_name(&self) -> &'static str {
        match self.parameter {
            Parameter::Natural => "natural",
            Parameter::Mean => self.family.mean_name(),
        }
    }

    /// The same function, read in `parameter`.
    pub fn in_parameter(&self, parameter: Parameter) -> Self
    where
        F: Clone,
    {
        Self {
            parameter,
            ..self.clone()
        }
    }

    /// Where the parameter lives.
    pub fn domain(&self) -> Interval {
        match self.parameter {
            Parameter::Natural => self.family.natural_domain(),
            Parameter::Mean => self.family.mean_domain(),
        }
    }

    /// The mode: `A†'(λ)` or `λ`; infinite in the natural parameter for boundary data; everything at `ν = 0`.
    pub fn mode(&self) -> Mode<f64> {
        match self.mode_point() {
            None => Mode::Everything,
            Some(point) => Mode::Point(point),
        }
    }

    fn mode_point(&self) -> Option<f64> {
        self.mean.map(|mean| match self.parameter {
            Parameter::Natural => self.family.natural_of(mean),
            Parameter::Mean => mean,
        })
    }

    /// Minus the second derivative of the log at the mode: `νA''(θ*)`, or `νA†''(λ)`. `None` for a mode on the
    /// boundary, 0 at `ν = 0`.
    pub fn precision(&self) -> Option<f64> {
        let Some(mean) = self.mean else {
            return Some(0.0);
        };
        if self.family.natural_of(mean).is_infinite() {
            return None;
        }
        Some(match self.parameter {
            Parameter::Natural => self.weight * self.family.variance(mean),
            Parameter::Mean => self.weight * self.family.dual_curvature(mean),
        })
    }

    /// `{x : f(x) ≥ alpha}`, one interval around the mode.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`.
    pub fn alpha_cut(&self, alpha: f64) -> Result<RealSet> {
        let log_alpha = check_alpha(alpha)?;
        let domain = self.domain();
        let Some((mean, mode)) = self.mean.zip(self.mode_point()) else {
            return Ok(domain.into());
        };
        if log_alpha == 0.0 {
            return Ok(Interval::point(mode)?.into());
        }
        let (lower, upper) = self
            .family
            .ball(mean, -log_alpha / self.weight, self.parameter);
        // rounding must not push an end to the wrong side of the mode
        let cut = Interval::closed(lower.min(mode), upper.max(mode))?;
        Ok(cut.intersection(&domain).into_iter().collect())
    }

    fn supremum(&self, event: &RealSet) -> f64 {
        let domain = self.domain();
        let inside = event.parts().iter().filter_map(|p| p.intersection(&domain));
        match self.mode_point() {
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
        }
    }

    /// The log at a point of the closed domain.
    fn log_value(&self, point: f64) -> f64 {
        let Some(mean) = self.mean else {
            return 0.0;
        };
        let divergence = match self.parameter {
            Parameter::Natural => self.family.divergence(mean, point),
            Parameter::Mean => self.family.divergence_between_means(mean, point),
        };
        0.0 - self.weight * divergence
    }
}

impl<F: ScalarFamily> Possibility for ScalarPosterior<F> {
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

impl<F: ScalarFamily> Measure<RealSet> for ScalarPosterior<F> {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        Ok(self.supremum(event))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        Ok(self.supremum(&event.complement()))
    }
}
