//! What can go wrong, as data: the field or buffer, what it held and what was allowed.

/// Result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A hyper-parameter or argument lies outside its range (NaN always does).
    #[error("{field} {value} is not in {range}")]
    OutOfRange {
        /// The field of the config, or the argument.
        field: &'static str,
        /// The value that was given.
        value: f64,
        /// The allowed range, in interval notation.
        range: &'static str,
    },
    /// A slice has the wrong length.
    #[error("{name} has {found} entries, expected {expected}")]
    Length {
        /// The slice.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The length it must have.
        expected: usize,
    },
    /// A gradient is NaN, infinite, or so large that its square is infinite in `f32`. Nothing was
    /// changed.
    #[error("gradient[{index}] {value} is not in [-{limit:e}, {limit:e}]")]
    NonFiniteGradient {
        /// Position of the first such entry, from 0, in the gradient that was given.
        index: usize,
        /// The entry.
        value: f32,
        /// The largest magnitude this rule accepts.
        limit: f32,
    },
    /// A state of one rule was given to another.
    #[error("the state belongs to rule '{found}', expected '{expected}'")]
    WrongRule {
        /// The rule of the state.
        found: String,
        /// The rule that was to use it.
        expected: &'static str,
    },
    /// A hyper-parameter that has no default was not given.
    #[error("{field} is not given")]
    Missing {
        /// The field of the config.
        field: &'static str,
    },
    /// A step was asked for with the wrong number of Monte Carlo samples.
    #[error("{found} Monte Carlo samples were gathered, expected {expected}")]
    SampleCount {
        /// Samples in the state.
        found: u32,
        /// Samples the next call needs.
        expected: u32,
    },
    /// A gradient was handed in that nobody had asked for.
    #[error("there is no gradient to gather: point has to be called first")]
    NoPoint,
    /// Saved bytes are not a state of this crate, or were damaged.
    #[error("not a saved optimizer state: {reason}")]
    Malformed {
        /// What is wrong.
        reason: String,
    },
    /// Saved bytes have another version of the layout.
    #[error("the saved state has version '{found}', expected '{expected}'")]
    Version {
        /// The version found.
        found: String,
        /// The version this crate writes and reads.
        expected: &'static str,
    },
}

/// `Ok(())` if `accept(value)`; NaN is always refused.
pub(crate) fn check(
    field: &'static str,
    value: f64,
    range: &'static str,
    accept: impl FnOnce(f64) -> bool,
) -> Result<()> {
    if !value.is_nan() && accept(value) {
        return Ok(());
    }
    Err(Error::OutOfRange {
        field,
        value,
        range,
    })
}

/// A rate of an exponential average: `[0, 1)`.
pub(crate) fn check_rate(field: &'static str, value: f64) -> Result<()> {
    check(field, value, "[0, 1)", |v| (0.0..1.0).contains(&v))
}

/// A finite number above zero: `(0, inf)`.
pub(crate) fn check_positive(field: &'static str, value: f64) -> Result<()> {
    check(field, value, "(0, inf)", |v| v > 0.0 && v.is_finite())
}

/// A finite number not below zero: `[0, inf)`.
pub(crate) fn check_nonnegative(field: &'static str, value: f64) -> Result<()> {
    check(field, value, "[0, inf)", |v| v >= 0.0 && v.is_finite())
}

/// A finite number above one: `(1, inf)`.
pub(crate) fn check_above_one(field: &'static str, value: f64) -> Result<()> {
    check(field, value, "(1, inf)", |v| v > 1.0 && v.is_finite())
}

/// A clip radius, if there is one: `(0, inf]`.
pub(crate) fn check_radius(field: &'static str, value: Option<f64>) -> Result<()> {
    value.map_or(Ok(()), |radius| {
        check(field, radius, "(0, inf]", |r| r > 0.0)
    })
}

/// A count of at least one.
pub(crate) fn check_count(field: &'static str, value: u64) -> Result<()> {
    check(field, value as f64, "1..", |v| v >= 1.0)
}

/// `Ok(())` if `found == expected`.
pub(crate) fn check_length(name: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::Length {
            name,
            found,
            expected,
        })
    }
}

/// The field that is to be refused, and a change that takes it out of its range.
#[cfg(test)]
pub(crate) type Refused<C> = (&'static str, fn(&mut C));

/// Checks that `build` refuses every changed config and names the field.
#[cfg(test)]
pub(crate) fn assert_refused<C: Clone>(
    good: C,
    build: impl Fn(&C) -> Result<()>,
    bad: &[Refused<C>],
) {
    assert_eq!(build(&good), Ok(()));
    for (number, (name, change)) in bad.iter().enumerate() {
        let mut config = good.clone();
        change(&mut config);
        match build(&config) {
            Err(Error::OutOfRange { field, .. }) => assert_eq!(field, *name, "case {number}"),
            other => panic!("case {number}, {name}: {other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_errors_name_field_value_and_range_and_refuse_nan() {
        let error = check_rate("beta1", 1.0).unwrap_err();
        assert_eq!(error.to_string(), "beta1 1 is not in [0, 1)");
        for checked in [check_rate, check_positive, check_nonnegative] {
            assert!(checked("x", f64::NAN).is_err());
            assert!(checked("x", f64::INFINITY).is_err());
            assert!(checked("x", -0.5).is_err());
            assert_eq!(checked("x", 0.5), Ok(()));
        }
        assert!(check("x", f64::NAN, "anything", |_| true).is_err());
        assert!(check_positive("x", 0.0).is_err());
        assert_eq!(check_nonnegative("x", 0.0), Ok(()));
    }
}
