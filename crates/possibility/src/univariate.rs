//! Possibility functions of one number with a single peak, or none: what a posterior of one
//! parameter is, whatever made it. Paper: Section 2.

use crate::error::Result;
use crate::function::{Measure, Possibility};
use crate::set::{Interval, RealSet};

/// A possibility function of one number whose α-cuts are intervals.
///
/// With [`Possibility`] for values and [`Measure`] for events it says all there is to report of a
/// parameter, and it can be made into an object.
///
/// ```
/// use possibility::prelude::*;
/// let functions: [Box<dyn Univariate>; 2] = [
///     Box::new(Poisson.observe(&[2, 3, 7])?),
///     Box::new(possibility::regression::Marginal::new(4.0, 1.2)?),
/// ];
/// for function in functions {
///     assert_eq!(function.mode(), Some(4.0));
///     assert!(function.cut(0.05)?.contains(4.0));
/// }
/// # Ok::<(), possibility::Error>(())
/// ```
pub trait Univariate: Possibility<Point = f64> + Measure<RealSet> {
    /// Where the number lives.
    fn domain(&self) -> Interval;

    /// The peak, at an infinite end of the domain if it is only approached there; `None` if every
    /// number is fully possible.
    fn mode(&self) -> Option<f64>;

    /// Minus the second derivative of the log at the mode; `None` for a mode on the boundary.
    fn precision(&self) -> Option<f64>;

    /// The α-cut `{x : f(x) ≥ alpha}`, an interval around the mode and never empty.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`.
    fn cut(&self, alpha: f64) -> Result<Interval>;
}
