//! What a conjugate possibility function says, collected: mode, precision and α-cuts of every
//! coordinate.

use faer::Mat;

use crate::error::Result;
use crate::family::conjugate::{Conjugate, ConjugateFamily, Parameter};
use crate::set::Interval;
use crate::univariate::Univariate;

/// One coordinate of a parameter.
pub struct Coordinate {
    /// Its sup-marginal: mode, precision, values and events.
    pub function: Box<dyn Univariate>,
    /// The α-cut at each of the levels asked for, in their order.
    pub cuts: Vec<Interval>,
}

impl Coordinate {
    /// Cuts the function at each level.
    ///
    /// # Errors
    /// A level outside `(0, 1]`.
    pub fn new(function: impl Univariate + 'static, alphas: &[f64]) -> Result<Self> {
        let cuts = alphas.iter().map(|&alpha| function.cut(alpha));
        Ok(Self {
            cuts: cuts.collect::<Result<_>>()?,
            function: Box::new(function),
        })
    }
}

/// A prior or posterior of any dimension, read in one parameter.
///
/// ```
/// use possibility::prelude::*;
/// use possibility::summary::Summary;
/// let shares = Categorical::new(3)?.observe(&[0, 0, 1, 2])?;
/// let summary = Summary::new(&shares, Parameter::Mean, &[0.05, 0.5])?;
/// assert_eq!(summary.mean_statistic, [0.5, 0.25, 0.25]);
/// for (share, coordinate) in summary.mean_statistic.iter().zip(&summary.coordinates) {
///     assert_eq!(coordinate.function.mode(), Some(*share));
///     assert!(coordinate.cuts[0].contains(*share));
/// }
/// # Ok::<(), possibility::Error>(())
/// ```
pub struct Summary {
    /// The family's name.
    pub family: &'static str,
    /// Name of a coordinate of the mean parameter: `p`, `rate` or `mean`.
    pub mean_name: &'static str,
    /// The parameter that precision and coordinates speak of.
    pub parameter: Parameter,
    /// `λ`, one number for each coordinate of the mean parameter; NaN where nothing is known.
    pub mean_statistic: Vec<f64>,
    /// `ν`, the number of observations it is worth.
    pub weight: f64,
    /// Minus the Hessian of the log at the mode; `None` on the boundary.
    pub precision: Option<Mat<f64>>,
    /// The levels of the α-cuts.
    pub alphas: Vec<f64>,
    /// The coordinates of the parameter.
    pub coordinates: Vec<Coordinate>,
}

impl Summary {
    /// Reads `function` in `parameter` and cuts it at the levels `alphas`.
    ///
    /// # Errors
    /// A level outside `(0, 1]`.
    pub fn new<F>(function: &Conjugate<F>, parameter: Parameter, alphas: &[f64]) -> Result<Self>
    where
        F: ConjugateFamily<Coordinate: 'static>,
    {
        let family = function.family();
        let coordinates = (0..family.coordinates(parameter))
            .map(|index| Coordinate::new(function.coordinate(index, parameter)?, alphas))
            .collect::<Result<_>>()?;
        let mean_statistic = (0..family.coordinates(Parameter::Mean))
            .map(|index| {
                let marginal = function.coordinate(index, Parameter::Mean)?;
                Ok(marginal.mean_statistic().unwrap_or(f64::NAN))
            })
            .collect::<Result<_>>()?;
        Ok(Self {
            family: family.family_name(),
            mean_name: family.mean_parameter_name(),
            parameter,
            mean_statistic,
            weight: function.weight(),
            precision: function.precision(parameter),
            alphas: alphas.to_vec(),
            coordinates,
        })
    }
}
