//! Possibility functions as sets of probability distributions: pointwise maxima and minima, and the
//! credal set `{P : P(A) ≤ sup_A f for all A}`. Paper: Section 2 and Appendix C.

use crate::error::{Error, Result, check, check_size};
use crate::finite::Finite;
use crate::function::{Measure, Possibility};
use crate::probability::Distribution;

/// The pointwise maximum of possibility functions, a possibility function again.
///
/// The possibility of an event is the greatest of theirs, because suprema commute.
///
/// ```
/// use possibility::credal::Envelope;
/// use possibility::family::exponential::NormalStyle;
/// use possibility::{Measure, Possibility};
/// let either = Envelope::new(vec![NormalStyle::new(-1.0, 1.0)?, NormalStyle::new(2.0, 1.0)?])?;
/// assert_eq!(either.possibility(&2.0), 1.0);
/// assert_eq!(either.possibility_of(4.0..)?, (-2.0f64).exp());
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope<F> {
    functions: Vec<F>,
}

impl<F> Envelope<F> {
    /// `θ ↦ max f(θ)` over the functions.
    ///
    /// # Errors
    /// There is none.
    pub fn new(functions: Vec<F>) -> Result<Self> {
        if functions.is_empty() {
            return Err(Error::Empty { name: "functions" });
        }
        Ok(Self { functions })
    }

    fn greatest(&self, value: impl Fn(&F) -> Result<f64>) -> Result<f64> {
        self.functions
            .iter()
            .try_fold(f64::NEG_INFINITY, |best, f| Ok(best.max(value(f)?)))
    }
}

impl<F: Possibility> Possibility for Envelope<F> {
    type Point = F::Point;

    fn log_possibility(&self, point: &F::Point) -> f64 {
        let values = self.functions.iter().map(|f| f.log_possibility(point));
        values.fold(f64::NEG_INFINITY, f64::max)
    }
}

impl<E: ?Sized, F: Measure<E>> Measure<E> for Envelope<F> {
    fn log_possibility_of(&self, event: &E) -> Result<f64> {
        self.greatest(|f| f.log_possibility_of(event))
    }

    fn log_possibility_of_complement(&self, event: &E) -> Result<f64> {
        self.greatest(|f| f.log_possibility_of_complement(event))
    }
}

/// Sets of possibility functions on a finite set.
impl Finite {
    /// The pointwise maximum, the smallest possibility function above all of them.
    ///
    /// # Errors
    /// There is no function, or the sizes differ.
    ///
    /// ```
    /// use possibility::Finite;
    /// let [f, g] = [[1.0, 0.25, 0.0], [0.5, 1.0, 0.0]].map(|v| Finite::from_values(&v).expect("one"));
    /// assert_eq!(Finite::pointwise_max(&[f.clone(), g.clone()])?.values(), [1.0, 1.0, 0.0]);
    /// // nothing is fully possible under both: the minimum is no possibility function
    /// assert!(Finite::pointwise_min(&[f, g]).is_err());
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn pointwise_max(functions: &[Self]) -> Result<Self> {
        Self::pointwise(functions, f64::max)
    }

    /// The pointwise minimum, the greatest possibility function below all of them where there is
    /// one: where some element is a mode of all.
    ///
    /// # Errors
    /// There is no function, the sizes differ, or [`Error::NotNormalized`] with the largest value
    /// of the minimum.
    pub fn pointwise_min(functions: &[Self]) -> Result<Self> {
        Self::pointwise(functions, f64::min)
    }

    fn pointwise(functions: &[Self], choose: impl Fn(f64, f64) -> f64) -> Result<Self> {
        let (first, others) = functions
            .split_first()
            .ok_or(Error::Empty { name: "functions" })?;
        let mut log_values = first.log_values().to_vec();
        for other in others {
            check_size("size of a function", other.size(), first.size())?;
            for (value, log) in log_values.iter_mut().zip(other.log_values()) {
                *value = choose(*value, *log);
            }
        }
        Self::from_log_values(log_values)
    }

    /// `max 𝒢`: the member of the set that is above all others in the order ⪯, if there is one.
    ///
    /// # Errors
    /// The sizes differ.
    pub fn greatest(functions: &[Self]) -> Result<Option<&Self>> {
        Self::extreme(functions, |f, other| other.precedes(f))
    }

    /// `min 𝒢`: the member of the set that is below all others, if there is one.
    ///
    /// # Errors
    /// The sizes differ.
    pub fn least(functions: &[Self]) -> Result<Option<&Self>> {
        Self::extreme(functions, Self::precedes)
    }

    fn extreme(
        functions: &[Self],
        beats: impl Fn(&Self, &Self) -> Result<bool>,
    ) -> Result<Option<&Self>> {
        for candidate in functions {
            let mut beats_all = true;
            for other in functions {
                beats_all &= beats(candidate, other)?;
            }
            if beats_all {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }
}

/// The credal set `{P : P(A) ≤ Π(A) for every event A}` of a possibility function on a finite set,
/// `Π(A) = max_A f`. It is never empty, and `Π` and the necessity `N` are its envelopes:
/// `max P(A) = Π(A)` and `min P(A) = N(A)`.
///
/// ```
/// use possibility::Finite;
/// use possibility::credal::CredalSet;
/// use possibility::probability::Distribution;
/// let f = Finite::from_values(&[0.25, 1.0, 0.5])?;
/// let credal = CredalSet::new(&f);
/// assert!(credal.contains(&Distribution::normalize(&[0.125, 0.625, 0.25])?)?);
/// // {0, 2} is possible to degree 0.5 only
/// assert!(!credal.contains(&Distribution::normalize(&[0.25, 0.375, 0.375])?)?);
/// // and no better bound holds
/// let widest = credal.most_probable(&[0, 2])?;
/// assert_eq!(widest.probability_of(&[0, 2])?, 0.5);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct CredalSet<'a> {
    function: &'a Finite,
}

impl<'a> CredalSet<'a> {
    /// The distributions that the function allows.
    pub fn new(function: &'a Finite) -> Self {
        Self { function }
    }

    /// `max_A P(A) - Π(A)`, which is 0 exactly for the members.
    ///
    /// The maximum over all `2ⁿ` events is attained by one of the `n` events `{f ≤ α}`, since every
    /// `A` lies in the one with `α = Π(A)`.
    ///
    /// # Errors
    /// The sizes differ.
    pub fn excess(&self, distribution: &Distribution) -> Result<f64> {
        let f = self.function;
        check_size("distribution", distribution.size(), f.size())?;
        let probabilities = distribution.values();
        let mut order: Vec<usize> = (0..f.size()).collect();
        order.sort_by(|&a, &b| f.log_values()[a].total_cmp(&f.log_values()[b]));
        let (mut sum, mut worst) = (0.0, 0.0f64);
        for (rank, &element) in order.iter().enumerate() {
            sum += probabilities[element];
            let next = order.get(rank + 1).map(|&i| f.log_values()[i]);
            // elements of the same possibility belong to the same event
            if next != Some(f.log_values()[element]) {
                worst = worst.max(sum - f.possibility(&element));
            }
        }
        Ok(worst)
    }

    /// Whether the distribution belongs to the set, up to the rounding of its sums (`4nε`).
    ///
    /// # Errors
    /// The sizes differ.
    pub fn contains(&self, distribution: &Distribution) -> Result<bool> {
        let rounding = 4.0 * self.function.size() as f64 * f64::EPSILON;
        Ok(self.excess(distribution)? <= rounding)
    }

    /// A member that gives the event the probability `Π(A)`: that much on the most possible element
    /// of `A`, and the rest on a mode.
    ///
    /// # Errors
    /// The event is empty, or an element is outside the set.
    pub fn most_probable(&self, event: &[usize]) -> Result<Distribution> {
        let f = self.function;
        let inside = event
            .iter()
            .copied()
            .max_by(|&a, &b| f.log_possibility(&a).total_cmp(&f.log_possibility(&b)))
            .ok_or(Error::Empty { name: "event" })?;
        check(
            "element of the event",
            inside as f64,
            "the elements",
            |_| event.iter().all(|&element| element < f.size()),
        )?;
        let mode = (0..f.size())
            .find(|&i| f.log_values()[i] == 0.0)
            .expect("a possibility function on a finite set has a mode");
        let possibility = f.possibility(&inside);
        let mut values = vec![0.0; f.size()];
        values[mode] = 1.0 - possibility;
        values[inside] += possibility;
        Distribution::normalize(&values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::exponential::NormalStyle;
    use crate::set::{Interval, RealSet};
    use proptest::prelude::*;

    /// All events of a set of `n` elements.
    fn events(n: usize) -> impl Iterator<Item = Vec<usize>> {
        (0..1usize << n).map(move |bits| (0..n).filter(|i| bits >> i & 1 == 1).collect())
    }

    fn values(n: usize) -> impl Strategy<Value = Vec<f64>> {
        // few different values: ties, and zeros
        let value = prop::sample::select(vec![0.0, 0.125, 0.25, 0.5, 0.75, 1.0]);
        (prop::collection::vec(value, n), 0..n).prop_map(|(mut values, mode)| {
            values[mode] = 1.0;
            values
        })
    }

    proptest! {
        /// Membership by the definition, over every event.
        #[test]
        fn the_credal_set_by_enumeration(
            (f, p) in (1usize..7).prop_flat_map(|n| (values(n), prop::collection::vec(0.0..1.0f64, n))),
            sharpness in 0..3i32,
        ) {
            let f = Finite::from_values(&f).unwrap();
            let n = f.size();
            let weights: Vec<f64> = p.iter().zip(f.values())
                // near the function itself there are members and others
                .map(|(p, f)| (p * f.powi(sharpness)).max(1e-12 * f)).collect();
            let p = Distribution::normalize(&weights).unwrap();
            let credal = CredalSet::new(&f);
            let worst = events(n)
                .map(|a| p.probability_of(&a).unwrap() - f.possibility_of(&a[..]).unwrap())
                .fold(0.0, f64::max);
            prop_assert!((credal.excess(&p).unwrap() - worst).abs() < 1e-14);
            prop_assert_eq!(credal.contains(&p).unwrap(), worst < 1e-13);
            for event in events(n).skip(1) {
                // Π is attained by a member, and N by the member for the complement
                let most = credal.most_probable(&event).unwrap();
                prop_assert!(credal.contains(&most).unwrap());
                let (possibility, necessity) = (
                    f.possibility_of(&event[..]).unwrap(), f.necessity_of(&event[..]).unwrap());
                prop_assert!((most.probability_of(&event).unwrap() - possibility).abs() < 1e-14);
                let rest: Vec<usize> = (0..n).filter(|i| !event.contains(i)).collect();
                if let Ok(least) = credal.most_probable(&rest) {
                    prop_assert!((least.probability_of(&event).unwrap() - necessity).abs() < 1e-14);
                }
                if credal.contains(&p).unwrap() {
                    let probability = p.probability_of(&event).unwrap();
                    prop_assert!(necessity - 1e-13 <= probability && probability <= possibility + 1e-13);
                }
            }
        }

        /// The pointwise maximum is the least function above all, the minimum the greatest below.
        #[test]
        fn envelopes_are_bounds_and_the_best_ones(
            (functions, other) in (1usize..6).prop_flat_map(|n| (
                prop::collection::vec(values(n), 1..5), values(n))),
        ) {
            let finite = |v: &Vec<f64>| Finite::from_values(v).unwrap();
            let functions: Vec<Finite> = functions.iter().map(finite).collect();
            let other = finite(&other);
            let above = Finite::pointwise_max(&functions).unwrap();
            prop_assert!(functions.iter().all(|f| f.precedes(&above).unwrap()));
            let is_above = functions.iter().all(|f| f.precedes(&other).unwrap());
            prop_assert_eq!(is_above, above.precedes(&other).unwrap());
            let shared = (0..other.size()).any(|i| functions.iter().all(|f| f.possibility(&i) == 1.0));
            match Finite::pointwise_min(&functions) {
                Ok(below) => {
                    prop_assert!(shared);
                    let is_below = functions.iter().all(|f| other.precedes(f).unwrap());
                    prop_assert_eq!(is_below, other.precedes(&below).unwrap());
                }
                Err(error) => {
                    let is_expected = matches!(error, Error::NotNormalized { .. });
                    prop_assert!(!shared && is_expected);
                }
            }
            // max 𝒢 and min 𝒢 exist exactly where the envelopes are members
            let greatest = Finite::greatest(&functions).unwrap();
            prop_assert_eq!(greatest.cloned(), functions.contains(&above).then_some(above.clone()));
            let least = Finite::least(&functions).unwrap();
            let below = Finite::pointwise_min(&functions).ok();
            prop_assert_eq!(least.cloned(), below.filter(|f| functions.contains(f)));
            // and the measure of the maximum is the maximum of the measures
            let envelope = Envelope::new(functions).unwrap();
            for event in events(other.size()) {
                let found = envelope.possibility_of(&event[..]).unwrap();
                prop_assert_eq!(found, above.possibility_of(&event[..]).unwrap());
                prop_assert_eq!(
                    envelope.necessity_of(&event[..]).unwrap(), above.necessity_of(&event[..]).unwrap());
            }
        }
    }

    #[test]
    fn envelopes_on_the_line_and_refusals() {
        let normal = |mode| NormalStyle::new(mode, 0.5).unwrap();
        let either = Envelope::new(vec![normal(-2.0), normal(1.0)]).unwrap();
        let event: RealSet = Interval::closed(-1.0, 0.5).unwrap().into();
        let expected = normal(1.0)
            .possibility(&0.5)
            .max(normal(-2.0).possibility(&-1.0));
        assert_eq!(either.possibility_of(&event).unwrap(), expected);
        assert_eq!(either.necessity_of(&event).unwrap(), 0.0);
        assert!(Envelope::<NormalStyle>::new(Vec::new()).is_err());
        assert!(Finite::pointwise_max(&[]).is_err());
        let [two, three] = [2, 3].map(|n| Finite::uninformative(n).unwrap());
        assert!(Finite::pointwise_max(&[two.clone(), three.clone()]).is_err());
        assert!(Finite::greatest(&[two.clone(), three]).is_err());
        let credal = CredalSet::new(&two);
        assert!(credal.most_probable(&[]).is_err() && credal.most_probable(&[2]).is_err());
        assert!(
            credal
                .contains(&Distribution::point_mass(3, 0).unwrap())
                .is_err()
        );
    }
}
