//! Possibility functions on a finite set `{0, …, n-1}`: values in `[0, 1]` whose maximum is 1, kept
//! as logs. Everything is exact up to the rounding of single operations. Paper: Section 2, and
//! Section 4 for `D_max(g‖f) = max log(g/f)`.

use std::collections::BTreeSet;

use crate::error::{Error, Result, check, check_alpha, check_entries, check_size};
use crate::function::{Measure, Mode, Possibility};

/// A possibility function on `{0, …, n-1}`.
///
/// ```
/// use possibility::{Finite, Measure, Mode, Possibility};
/// let f = Finite::from_values(&[0.5, 1.0, 0.25])?;
/// assert_eq!(f.mode(), Mode::Point(1));
/// assert_eq!(f.possibility(&0), 0.5);
/// assert_eq!(f.possibility_of(&[0usize, 2][..])?, 0.5);
/// assert_eq!(f.necessity_of(&[0usize, 1][..])?, 0.75);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Finite {
    log_values: Vec<f64>,
}

impl Finite {
    /// From possibilities, whose maximum must be exactly 1.
    ///
    /// # Errors
    /// No value, a value outside `[0, 1]`, or [`Error::NotNormalized`].
    pub fn from_values(values: &[f64]) -> Result<Self> {
        check_elements("values", values, "[0, 1]", |v| (0.0..=1.0).contains(&v))?;
        let supremum = maximum(values);
        if supremum == 1.0 {
            Ok(Self {
                log_values: values.iter().map(|v| v.ln()).collect(),
            })
        } else {
            Err(Error::NotNormalized { supremum })
        }
    }

    /// From log possibilities, whose maximum must be exactly 0.
    ///
    /// # Errors
    /// No value, a value outside `[-∞, 0]`, or [`Error::NotNormalized`].
    pub fn from_log_values(log_values: Vec<f64>) -> Result<Self> {
        check_elements("log_values", &log_values, "[-inf, 0]", |v| v <= 0.0)?;
        let supremum = maximum(&log_values);
        if supremum == 0.0 {
            Ok(Self { log_values })
        } else {
            Err(Error::NotNormalized {
                supremum: supremum.exp(),
            })
        }
    }

    /// Any nonnegative values over their maximum.
    ///
    /// # Errors
    /// No value, a value that is negative or not finite, or [`Error::Impossible`] if all are 0.
    pub fn normalize(values: &[f64]) -> Result<Self> {
        check_elements("values", values, "[0, inf)", |v| v >= 0.0 && v.is_finite())?;
        let supremum = maximum(values);
        if supremum == 0.0 {
            return Err(Error::Impossible {
                what: "every element",
            });
        }
        let log_ratio = |v: f64| {
            let ratio = v / supremum;
            if ratio >= f64::MIN_POSITIVE || v == 0.0 {
                ratio.ln()
            } else {
                v.ln() - supremum.ln() // the ratio itself is too small
            }
        };
        Self::from_log_values(values.iter().map(|&v| log_ratio(v)).collect())
    }

    /// `exp(log_values)` over its maximum, and the log of that maximum (the log consistency when
    /// the values are a likelihood times a prior).
    ///
    /// # Errors
    /// No value, NaN or `+∞`, or [`Error::Impossible`] if all are `-∞`.
    ///
    /// ```
    /// use possibility::{Finite, Possibility};
    /// let (posterior, log_consistency) = Finite::normalize_log(&[-3.0, -1.0])?;
    /// assert_eq!(posterior.log_possibility(&0), -2.0);
    /// assert_eq!(log_consistency, -1.0);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn normalize_log(log_values: &[f64]) -> Result<(Self, f64)> {
        check_elements("log_values", log_values, "[-inf, inf)", |v| {
            v < f64::INFINITY
        })?;
        let log_supremum = maximum(log_values);
        if log_supremum == f64::NEG_INFINITY {
            return Err(Error::Impossible {
                what: "every element",
            });
        }
        let log_values = log_values.iter().map(|v| v - log_supremum).collect();
        Ok((Self { log_values }, log_supremum))
    }

    /// The uninformative function **1** on `n` elements.
    ///
    /// # Errors
    /// `n = 0`.
    pub fn uninformative(n: usize) -> Result<Self> {
        Self::from_log_values(vec![0.0; n])
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        self.log_values.len()
    }

    /// `log f`, element by element.
    pub fn log_values(&self) -> &[f64] {
        &self.log_values
    }

    /// `f`, element by element.
    pub fn values(&self) -> Vec<f64> {
        self.log_values.iter().map(|v| v.exp()).collect()
    }

    /// The elements of possibility above zero, in increasing order.
    pub fn support(&self) -> Vec<usize> {
        self.indices(|log| log > f64::NEG_INFINITY)
    }

    /// `E*[θ] = argmax f`: one element or a finite set of them. The function **1** has all
    /// elements.
    pub fn mode(&self) -> Mode<usize> {
        let modes = self.indices(|log| log == 0.0);
        match modes[..] {
            [only] => Mode::Point(only),
            _ => Mode::Finite(modes),
        }
    }

    /// `E*[T(θ)] = T(E*[θ])`.
    pub fn expected_value<Q: PartialOrd>(&self, map: impl Fn(usize) -> Q) -> Mode<Q> {
        self.mode()
            .transform(|&i| map(i))
            .expect("the mode of a finite function is a point or a finite set")
    }

    /// The image `f_T(y) = sup {f(θ) : T(θ) = y}` on `{0, …, size-1}`; elements without a preimage
    /// have possibility 0.
    ///
    /// # Errors
    /// `map` leaves `0..size`.
    pub fn image(&self, size: usize, map: impl Fn(usize) -> usize) -> Result<Self> {
        let mut log_values = vec![f64::NEG_INFINITY; size];
        for (i, &log) in self.log_values.iter().enumerate() {
            let y = map(i);
            check_index("image", y, size)?;
            log_values[y] = log_values[y].max(log);
        }
        Self::from_log_values(log_values)
    }

    /// α-cut `{θ : f(θ) ≥ α}`, in increasing order.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`.
    pub fn alpha_cut(&self, alpha: f64) -> Result<Vec<usize>> {
        check_alpha(alpha)?;
        let log_alpha = alpha.ln();
        Ok(self.indices(|log| log >= log_alpha))
    }

    /// Whether `self ⪯ other`: `self(θ) ≤ other(θ)` for every `θ`.
    ///
    /// # Errors
    /// The sizes differ.
    pub fn precedes(&self, other: &Self) -> Result<bool> {
        check_size("size of the other function", other.size(), self.size())?;
        Ok(self
            .log_values
            .iter()
            .zip(&other.log_values)
            .all(|(g, f)| g <= f))
    }

    /// The product `f₁f₂` over its maximum, and the log of that maximum, the log consistency.
    ///
    /// # Errors
    /// The sizes differ, or [`Error::Impossible`] if the supports are disjoint.
    pub fn fuse(&self, other: &Self) -> Result<(Self, f64)> {
        check_size("size of the other function", other.size(), self.size())?;
        let logs: Vec<f64> = self
            .log_values
            .iter()
            .zip(&other.log_values)
            .map(|(a, b)| a + b)
            .collect();
        Self::normalize_log(&logs).map_err(|_| Error::Impossible {
            what: "the product of functions with disjoint supports",
        })
    }

    /// Max-relative entropy `D_max(g‖f) = max_{f > 0} log(g/f)` with `g = self` and `f = other`,
    /// and `+∞` if `g > 0` somewhere outside the support of `f`. It is 0 exactly when `g ⪯ f`,
    /// never below.
    ///
    /// # Errors
    /// The sizes differ.
    ///
    /// ```
    /// use possibility::Finite;
    /// let g = Finite::from_values(&[0.5, 1.0, 0.0])?;
    /// let f = Finite::from_values(&[1.0, 0.25, 0.5])?;
    /// assert_eq!(g.max_relative_entropy(&f)?, 4f64.ln());
    /// assert_eq!(f.max_relative_entropy(&g)?, f64::INFINITY);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn max_relative_entropy(&self, other: &Self) -> Result<f64> {
        check_size("size of the other function", other.size(), self.size())?;
        Ok(self
            .log_values
            .iter()
            .zip(&other.log_values)
            // where g = 0 the ratio is 0 or, outside the support of f, not asked for
            .filter(|(g, _)| **g > f64::NEG_INFINITY)
            .map(|(g, f)| g - f)
            .fold(0.0, f64::max))
    }

    fn indices(&self, accept: impl Fn(f64) -> bool) -> Vec<usize> {
        (0..self.size())
            .filter(|&i| accept(self.log_values[i]))
            .collect()
    }
}

impl Possibility for Finite {
    type Point = usize;

    /// Elements outside `0..n` have possibility zero.
    fn log_possibility(&self, point: &usize) -> f64 {
        self.log_values
            .get(*point)
            .copied()
            .unwrap_or(f64::NEG_INFINITY)
    }
}

/// A set of indices, or all indices but those of a set.
///
/// ```
/// use possibility::finite::IndexSet;
/// let odd = IndexSet::from([1, 3]);
/// assert!(odd.contains(3) && !odd.contains(2));
/// assert!(odd.complement().contains(2));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexSet {
    listed: BTreeSet<usize>,
    is_complement: bool,
}

impl IndexSet {
    /// The empty set.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Every index.
    pub fn everything() -> Self {
        Self::default().complement()
    }

    /// The indices outside the set.
    pub fn complement(&self) -> Self {
        Self {
            listed: self.listed.clone(),
            is_complement: !self.is_complement,
        }
    }

    /// Whether the index belongs to the set.
    pub fn contains(&self, index: usize) -> bool {
        self.listed.contains(&index) != self.is_complement
    }
}

impl FromIterator<usize> for IndexSet {
    fn from_iter<I: IntoIterator<Item = usize>>(indices: I) -> Self {
        Self {
            listed: indices.into_iter().collect(),
            is_complement: false,
        }
    }
}

impl<const N: usize> From<[usize; N]> for IndexSet {
    fn from(indices: [usize; N]) -> Self {
        indices.into_iter().collect()
    }
}

impl Measure<IndexSet> for Finite {
    /// # Errors
    /// The set lists an index outside `0..n`.
    fn log_possibility_of(&self, event: &IndexSet) -> Result<f64> {
        for &index in &event.listed {
            check_index("index", index, self.size())?;
        }
        Ok((0..self.size())
            .filter(|&i| event.contains(i))
            .map(|i| self.log_values[i])
            .fold(f64::NEG_INFINITY, f64::max))
    }

    fn log_possibility_of_complement(&self, event: &IndexSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

impl Measure<[usize]> for Finite {
    /// # Errors
    /// An index outside `0..n`.
    fn log_possibility_of(&self, event: &[usize]) -> Result<f64> {
        self.log_possibility_of(&event.iter().copied().collect::<IndexSet>())
    }

    fn log_possibility_of_complement(&self, event: &[usize]) -> Result<f64> {
        self.log_possibility_of_complement(&event.iter().copied().collect::<IndexSet>())
    }
}

/// `Ok(())` if there is an entry and every entry is accepted; NaN must be refused by `accept`.
fn check_elements(
    name: &'static str,
    values: &[f64],
    range: &'static str,
    accept: impl Fn(f64) -> bool,
) -> Result<()> {
    if values.is_empty() {
        return Err(Error::Empty { name });
    }
    check_entries(name, values, range, accept)
}

/// `Ok(())` if `index < size`.
pub(crate) fn check_index(name: &'static str, index: usize, size: usize) -> Result<()> {
    check(name, index as f64, "0..elements", |_| index < size).map(drop)
}

/// The largest value, `-∞` if there is none.
fn maximum(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_is_no_possibility_function() {
        assert_eq!(
            Finite::from_values(&[0.5, 0.75]),
            Err(Error::NotNormalized { supremum: 0.75 })
        );
        for bad in [f64::NAN, -0.1, 1.5] {
            assert!(Finite::from_values(&[1.0, bad]).is_err());
        }
        for bad in [f64::NAN, -0.1, f64::INFINITY] {
            assert!(Finite::normalize(&[1.0, bad]).is_err());
        }
        assert_eq!(
            Finite::from_values(&[]),
            Err(Error::Empty { name: "values" })
        );
        assert!(Finite::from_log_values(vec![-0.5]).is_err());
        assert!(Finite::from_log_values(vec![0.0, f64::NAN]).is_err());
        assert!(matches!(
            Finite::normalize(&[0.0, 0.0]),
            Err(Error::Impossible { .. })
        ));
    }

    #[test]
    fn hand_values_of_a_three_point_function() {
        let f = Finite::normalize(&[3.0, 6.0, 0.0]).unwrap();
        assert_eq!(f.values(), vec![0.5, 1.0, 0.0]);
        assert_eq!(f.support(), vec![0, 1]);
        let wide = Finite::normalize(&[1e-300, 1e300]).unwrap();
        assert!((wide.log_possibility(&0) + 600.0 * 10f64.ln()).abs() < 1e-12 * 1400.0);
        assert_eq!(f.alpha_cut(0.5).unwrap(), vec![0, 1]);
        assert_eq!(f.alpha_cut(0.51).unwrap(), vec![1]);
        assert!(f.alpha_cut(0.0).is_err() && f.alpha_cut(f64::NAN).is_err());
        assert_eq!(f.possibility(&7), 0.0);
        // an empty event is impossible, and index 5 does not exist
        assert_eq!(f.possibility_of(&IndexSet::empty()).unwrap(), 0.0);
        assert_eq!(f.necessity_of(&IndexSet::everything()).unwrap(), 1.0);
        assert!(f.possibility_of(&[5usize][..]).is_err());
        // two even elements collapse: sup over the preimage
        let parity = f.image(2, |i| i % 2).unwrap();
        assert_eq!(parity.values(), vec![0.5, 1.0]);
        assert!(f.image(1, |i| i).is_err());
        let one = Finite::uninformative(3).unwrap();
        assert_eq!(one.mode(), Mode::Finite(vec![0, 1, 2]));
        assert_eq!(
            one.expected_value(|i| i.abs_diff(1)),
            Mode::Finite(vec![0, 1])
        );
        assert!(f.precedes(&one).unwrap() && !one.precedes(&f).unwrap());
    }

    #[test]
    fn disjoint_supports_have_no_product() {
        let f = Finite::from_values(&[1.0, 0.0]).unwrap();
        let g = Finite::from_values(&[0.0, 1.0]).unwrap();
        assert!(matches!(f.fuse(&g), Err(Error::Impossible { .. })));
        assert_eq!(f.max_relative_entropy(&g).unwrap(), f64::INFINITY);
        let longer = Finite::uninformative(3).unwrap();
        assert!(f.fuse(&longer).is_err());
        assert!(f.precedes(&longer).is_err());
        assert!(f.max_relative_entropy(&longer).is_err());
    }

    /// Values on a coarse grid, zeros and ties included.
    fn functions(n: usize) -> impl Strategy<Value = Finite> {
        (prop::collection::vec(0u32..6, n), 0..n).prop_map(|(mut levels, top)| {
            levels[top] = 8;
            let values: Vec<f64> = levels.iter().map(|&k| f64::from(k) / 8.0).collect();
            Finite::from_values(&values).unwrap()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn possibility_and_necessity_laws(
            f in functions(6),
            a in prop::collection::vec(0usize..6, 0..6),
            b in prop::collection::vec(0usize..6, 0..6),
        ) {
            let union: Vec<usize> = a.iter().chain(&b).copied().collect();
            let (a, b, union) = (&a[..], &b[..], &union[..]);
            let outside = f.log_possibility_of_complement(a).unwrap();
            prop_assert_eq!(f.log_possibility_of(a).unwrap().max(outside), 0.0);
            prop_assert!(f.necessity_of(a).unwrap() <= f.possibility_of(a).unwrap());
            let larger = f.log_possibility_of(a).unwrap().max(f.log_possibility_of(b).unwrap());
            prop_assert_eq!(f.log_possibility_of(union).unwrap(), larger);
        }

        #[test]
        fn max_relative_entropy_is_zero_exactly_on_the_order(g in functions(4), f in functions(4)) {
            let d = g.max_relative_entropy(&f).unwrap();
            prop_assert!(d >= 0.0);
            prop_assert_eq!(d == 0.0, g.precedes(&f).unwrap());
            // g ≤ e^D f everywhere, with equality somewhere unless D = +∞
            if d.is_finite() {
                let slack: Vec<f64> = (0..4)
                    .filter(|i| g.log_possibility(i) > f64::NEG_INFINITY)
                    .map(|i| d + f.log_possibility(&i) - g.log_possibility(&i))
                    .collect();
                prop_assert!(slack.iter().all(|s| *s >= -1e-15));
                prop_assert!(slack.iter().any(|s| s.abs() < 1e-15));
            }
        }

        #[test]
        fn fusion_is_the_pointwise_product_over_its_maximum(f in functions(5), g in functions(5)) {
            let products: Vec<f64> =
                f.values().iter().zip(g.values()).map(|(a, b)| a * b).collect();
            let top = products.iter().copied().fold(0.0, f64::max);
            match f.fuse(&g) {
                Ok((both, log_consistency)) => {
                    prop_assert!((log_consistency - top.ln()).abs() < 1e-14);
                    for (i, p) in products.iter().enumerate() {
                        prop_assert!((both.possibility(&i) - p / top).abs() < 1e-14);
                    }
                }
                Err(_) => prop_assert_eq!(top, 0.0),
            }
        }

        #[test]
        fn expected_value_of_a_transform_is_the_mode_of_the_image(f in functions(6)) {
            let square = |i: usize| i.abs_diff(3);
            prop_assert_eq!(f.expected_value(square), f.image(4, square).unwrap().mode());
        }
    }
}
