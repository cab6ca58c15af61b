//! Possibility functions `f: Θ → [0, 1]` with `sup f = 1`, the events they measure, and where they
//! peak. Paper: Section 2 and the appendix "More on Possibility Theory".
//!
//! | notion | here |
//! |---|---|
//! | value `f(θ)`, kept as a log | [`Possibility::log_possibility`] |
//! | `sup_{θ ∈ A} f(θ)` | [`Measure::possibility_of`] |
//! | necessity `1 - sup_{θ ∉ A} f(θ)` | [`Measure::necessity_of`] |
//! | expected value `E*_f[θ] = argmax f`, a set | [`Mode`] |
//! | the uninformative function **1** | [`Uninformative`] |

use std::borrow::Cow;
use std::marker::PhantomData;

use crate::error::Result;

/// A possibility function over points of type `Self::Point`.
///
/// Implementors keep `log f` because possibilities of interest span hundreds of orders of
/// magnitude.
pub trait Possibility {
    /// An element of the space Θ: an index, a count, a number, or a slice of coordinates.
    type Point: ?Sized;

    /// `log f(θ)`, in `[-∞, 0]`.
    fn log_possibility(&self, point: &Self::Point) -> f64;

    /// `f(θ)`, in `[0, 1]`.
    fn possibility(&self, point: &Self::Point) -> f64 {
        self.log_possibility(point).exp()
    }

    /// Whether `θ` belongs to the support `{θ : f(θ) > 0}`.
    fn is_in_support(&self, point: &Self::Point) -> bool {
        self.log_possibility(point) > f64::NEG_INFINITY
    }
}

/// The possibility measure `Π(A) = sup_A f` and its dual necessity `N(A) = 1 - Π(Aᶜ)` for events of
/// type `E`.
///
/// Laws: `max(Π(A), Π(Aᶜ)) = 1`, `N(A) ≤ Π(A)`, `Π(A ∪ B) = max(Π(A), Π(B))`. The supremum over the
/// empty set is 0.
pub trait Measure<E: ?Sized>: Possibility {
    /// `log sup_{θ ∈ A} f(θ)`.
    ///
    /// # Errors
    /// The event does not fit the space, or the supremum cannot be certified.
    fn log_possibility_of(&self, event: &E) -> Result<f64>;

    /// `log sup_{θ ∉ A} f(θ)`.
    ///
    /// # Errors
    /// The event does not fit the space, or the supremum cannot be certified.
    fn log_possibility_of_complement(&self, event: &E) -> Result<f64>;

    /// `Π(A) = sup_{θ ∈ A} f(θ)`.
    ///
    /// # Errors
    /// What is given is no event, or as [`Self::log_possibility_of`].
    fn possibility_of(&self, event: impl AsEvent<E>) -> Result<f64>
    where
        E: ToOwned,
        Self: Sized,
    {
        Ok(self.log_possibility_of(&*event.as_event()?)?.exp())
    }

    /// `N(A) = 1 - sup_{θ ∉ A} f(θ)`.
    ///
    /// # Errors
    /// What is given is no event, or as [`Self::log_possibility_of_complement`].
    fn necessity_of(&self, event: impl AsEvent<E>) -> Result<f64>
    where
        E: ToOwned,
        Self: Sized,
    {
        let outside = self.log_possibility_of_complement(&*event.as_event()?)?;
        Ok(Credence::from_logs(0.0, outside).necessity)
    }

    /// `Π(A)` and `N(A)`; also of a function known as a trait object only.
    ///
    /// # Errors
    /// As [`Self::log_possibility_of`].
    fn credence_of(&self, event: &E) -> Result<Credence> {
        Ok(Credence::from_logs(
            self.log_possibility_of(event)?,
            self.log_possibility_of_complement(event)?,
        ))
    }
}

/// Possibility and necessity of one event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Credence {
    /// `Π(A) = sup_A f`.
    pub possibility: f64,
    /// `N(A) = 1 - Π(Aᶜ)`.
    pub necessity: f64,
}

impl Credence {
    /// From `log sup_A f` and `log sup_{Aᶜ} f`.
    pub fn from_logs(inside: f64, outside: f64) -> Self {
        Self {
            possibility: inside.exp(),
            // `0.0 -` instead of unary minus: an impossible event has necessity 0, not -0
            necessity: 0.0 - outside.exp_m1(),
        }
    }
}

/// What can be given for an event of type `E`: a reference to one, and for a set of numbers also an
/// [`Interval`](crate::set::Interval) or a range such as `0.5..` or `..=0.3`.
pub trait AsEvent<E: ToOwned + ?Sized> {
    /// The event.
    ///
    /// # Errors
    /// A range with a NaN end, or without a point.
    fn as_event(&self) -> Result<Cow<'_, E>>;
}

impl<E: ToOwned + ?Sized> AsEvent<E> for &E {
    fn as_event(&self) -> Result<Cow<'_, E>> {
        Ok(Cow::Borrowed(self))
    }
}

/// The expected value `E*_f[θ] = argmax_θ f(θ)`: a set in general.
///
/// A supremum that is only approached at an infinite end of the space is the point at infinity.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode<P> {
    /// The usual case, a single maximizer.
    Point(P),
    /// Several isolated maximizers, in increasing order where the space is ordered.
    Finite(Vec<P>),
    /// All points from the first to the second, ends included.
    Interval(P, P),
    /// Every point: the function is **1**.
    Everything,
    /// No maximizer: the supremum is only approached, next to this point of the space.
    Approached(P),
}

impl<P> Mode<P> {
    /// The maximizer if there is exactly one.
    pub fn as_point(&self) -> Option<&P> {
        match self {
            Self::Point(point) => Some(point),
            _ => None,
        }
    }

    /// `E*[T(θ)] = T(E*[θ])`: the expected value of a transformed variable is the transformed
    /// expected value.
    ///
    /// `map` must be continuous and monotone on an interval of maximizers, because the image of an
    /// interval is given by its ends; it may be anything on points. The image of the whole space is
    /// not known here, so that `Everything` has none.
    ///
    /// ```
    /// use possibility::Mode;
    /// let mode = Mode::Finite(vec![-1.0, 1.0]);
    /// assert_eq!(mode.transform(|x| x * x), Some(Mode::Point(1.0)));
    /// ```
    pub fn transform<Q: PartialOrd>(&self, mut map: impl FnMut(&P) -> Q) -> Option<Mode<Q>> {
        match self {
            Self::Point(point) => Some(Mode::Point(map(point))),
            Self::Finite(points) => {
                let mut images: Vec<Q> = Vec::with_capacity(points.len());
                for image in points.iter().map(&mut map) {
                    if images.iter().all(|other| *other != image) {
                        images.push(image);
                    }
                }
                if images.len() == 1 {
                    images.pop().map(Mode::Point)
                } else {
                    images.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
                    Some(Mode::Finite(images))
                }
            }
            Self::Interval(lower, upper) => {
                let (a, b) = (map(lower), map(upper));
                Some(if a == b {
                    Mode::Point(a)
                } else if a < b {
                    Mode::Interval(a, b)
                } else {
                    Mode::Interval(b, a)
                })
            }
            Self::Everything => None,
            Self::Approached(point) => Some(Mode::Approached(map(point))),
        }
    }
}

/// The uninformative possibility function **1**: nothing is known, everything is fully possible.
///
/// It is the greatest element of the order ⪯, and as a prior it leaves the likelihood as it is.
///
/// ```
/// use possibility::{Possibility, Uninformative};
/// let nothing_known = Uninformative::<f64>::new();
/// assert_eq!(nothing_known.possibility(&1e300), 1.0);
/// ```
#[derive(Debug)]
pub struct Uninformative<P: ?Sized>(PhantomData<fn(&P)>);

impl<P: ?Sized> Uninformative<P> {
    /// The function equal to 1 everywhere.
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// `E*[θ]`: every point.
    pub fn mode(&self) -> Mode<f64> {
        Mode::Everything
    }
}

impl<P: ?Sized> Clone for Uninformative<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: ?Sized> Copy for Uninformative<P> {}

impl<P: ?Sized> Default for Uninformative<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: ?Sized> Possibility for Uninformative<P> {
    type Point = P;

    fn log_possibility(&self, _point: &P) -> f64 {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transform_keeps_each_kind_of_mode() {
        assert_eq!(
            Mode::Point(2.0).transform(|x| x + 1.0),
            Some(Mode::Point(3.0))
        );
        assert_eq!(
            Mode::Finite(vec![-2.0, 1.0]).transform(|x| x * x),
            Some(Mode::Finite(vec![1.0, 4.0]))
        );
        assert_eq!(
            Mode::Interval(1.0, 2.0).transform(|x| -x),
            Some(Mode::Interval(-2.0, -1.0))
        );
        assert_eq!(
            Mode::Interval(1.0, 2.0).transform(|_| 7),
            Some(Mode::Point(7))
        );
        assert_eq!(Mode::<f64>::Everything.transform(|x| *x), None);
        assert_eq!(
            Mode::Approached(0.0).transform(|x| x + 1.0),
            Some(Mode::Approached(1.0))
        );
    }
}
