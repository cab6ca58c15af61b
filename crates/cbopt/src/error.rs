//! What can go wrong, as data: the field or buffer, what it held and what was allowed.

/// Result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A hyper-parameter or argument lies outside its range (NaN always does).
    #[error("{field} is {value}, allowed: {range}")]
    OutOfRange {
        /// The field of the config, or the argument.
        field: &'static str,
        /// The value that was given.
        value: f64,
        /// The allowed range, in interval notation.
        range: &'static str,
    },
    /// A slice has the wrong length.
    #[error("{name} has length {found}, expected {expected}")]
    Length {
        /// The slice.
        name: &'static str,
        /// Its length.
        found: usize,
        /// The length it must have.
        expected: usize,
    },
    /// A gradient is NaN, infinite, or so large that its square is infinite in `f32`. Nothing was changed.
    #[error("gradient[{index}] is {value}, allowed: finite numbers of magnitude up to {limit:e}")]
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
    /// The groups do not tile the parameters.
    #[error("group {group} covers {start}..{end}, expected a range that starts at {expected}")]
    GroupRange {
        /// The group, from 0.
        group: usize,
        /// First parameter of the group.
        start: usize,
        /// One past its last parameter.
        end: usize,
        /// Where the group must start: groups follow one another without gap.
        expected: usize,
    },
    /// The number of groups of a state differs from that of its optimizer.
    #[error("the state has {found} groups, expected {expected}")]
    GroupCount {
        /// Groups of the state.
        found: usize,
        /// Groups of the optimizer.
        expected: usize,
    },
    /// A step was asked for with the wrong number of Monte Carlo samples.
    #[error("{found} Monte Carlo samples were gathered, expected {expected}")]
    SampleCount {
        /// Samples in the state.
        found: u32,
        /// Samples the next call needs.
        expected: u32,
    },
    /// A step or sample was closed at the wrong moment of gradient accumulation.
    #[error("{what}")]
    Accumulation {
        /// What is missing or too much.
        what: &'static str,
    },
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
    /// Saved bytes are for another number of parameters.
    #[error("the saved state is for {found} parameters, expected {expected}")]
    Size {
        /// Parameters of the saved state.
        found: usize,
        /// Parameters that were expected.
        expected: usize,
    },
}

/// `Ok(value)` if `accept(value)`; NaN is always refused.
pub(crate) fn check(
    field: &'static str,
    value: f64,
    range: &'static str,
    accept: impl FnOnce(f64) -> bool,
) -> Result<f64> {
    if !value.is_nan() && accept(value) {
        Ok(value)
    } else {
        Err(Error::OutOfRange {
            field,
            value,
            range,
        })
    }
}

/// A rate of an exponential average: `[0, 1)`.
pub(crate) fn check_rate(field: &'static str, value: f64) -> Result<f64> {
    check(field, value, "[0, 1)", |v| (0.0..1.0).contains(&v))
}

/// A finite number above zero: `(0, inf)`.
pub(crate) fn check_positive(field: &'static str, value: f64) -> Result<f64> {
    check(field, value, "(0, inf)", |v| v > 0.0 && v.is_finite())
}

/// A finite number not below zero: `[0, inf)`.
pub(crate) fn check_nonnegative(field: &'static str, value: f64) -> Result<f64> {
    check(field, value, "[0, inf)", |v| v >= 0.0 && v.is_finite())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_errors_name_field_value_and_range_and_refuse_nan() {
        let error = check_rate("beta1", 1.0).unwrap_err();
        assert_eq!(error.to_string(), "beta1 is 1, allowed: [0, 1)");
        for checked in [check_rate, check_positive, check_nonnegative] {
            assert!(checked("x", f64::NAN).is_err());
            assert!(checked("x", f64::INFINITY).is_err());
            assert!(checked("x", -0.5).is_err());
            assert_eq!(checked("x", 0.5), Ok(0.5));
        }
        assert!(check("x", f64::NAN, "anything", |_| true).is_err());
        assert!(check_positive("x", 0.0).is_err());
        assert_eq!(check_nonnegative("x", 0.0), Ok(0.0));
    }
}
