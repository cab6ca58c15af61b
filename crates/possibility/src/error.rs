//! What can go wrong, as data: the offending quantity, its value and the allowed range.

/// Result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Every error of this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number lies outside its range (NaN always does).
    #[error("{field} {value} is not in {range}")]
    OutOfRange {
        /// The quantity.
        field: &'static str,
        /// The value that was given.
        value: f64,
        /// The allowed range, in interval notation.
        range: &'static str,
    },
    /// An entry of a vector lies outside its range.
    #[error("{field}[{index}] {value} is not in {range}")]
    EntryOutOfRange {
        /// The vector.
        field: &'static str,
        /// Position of the entry, from 0.
        index: usize,
        /// The value that was given.
        value: f64,
        /// The allowed range, in interval notation.
        range: &'static str,
    },
    /// A vector or matrix has the wrong size.
    #[error("{name} has {found} entries, expected {expected}")]
    Dimension {
        /// The quantity.
        name: &'static str,
        /// Its size.
        found: usize,
        /// The size it must have.
        expected: usize,
    },
    /// Something that must have at least one element has none.
    #[error("{name} is empty")]
    Empty {
        /// The quantity.
        name: &'static str,
    },
    /// A matrix is not symmetric.
    #[error("{name} is not symmetric: entries ({row}, {column}) and ({column}, {row}) differ")]
    NotSymmetric {
        /// The matrix.
        name: &'static str,
        /// Row of the first entry that differs from its mirror image.
        row: usize,
        /// Column of that entry.
        column: usize,
    },
    /// A matrix is not positive definite.
    #[error("{name} is not positive definite: its smallest eigenvalue is {}", short(*smallest))]
    NotPositiveDefinite {
        /// The matrix.
        name: &'static str,
        /// Its smallest eigenvalue.
        smallest: f64,
    },
    /// The numbers of a regression's column are too large or too small to be squared.
    #[error(
        "the numbers in {} are too large or too small for their squares to be summed in f64; give \
         them in another unit",
        column_name(*column)
    )]
    ColumnScale {
        /// The column, the intercept counted where there is one; `None` for the responses.
        column: Option<usize>,
    },
    /// The given values are no possibility function: their supremum is not 1.
    #[error("not a possibility function: its supremum is {supremum}, expected 1")]
    NotNormalized {
        /// The supremum of the given values.
        supremum: f64,
    },
    /// Conditioning on, or combining into, something of possibility zero.
    #[error("{what} has possibility zero")]
    Impossible {
        /// What is impossible.
        what: &'static str,
    },
    /// A posterior without a finite mode: nothing can be said of it.
    #[error("there is no finite mode: {reason}")]
    NoMode {
        /// What keeps the mode away.
        reason: &'static str,
    },
    /// Something that is not defined, or not known, for what it is asked of.
    #[error("not supported: {what}")]
    Unsupported {
        /// What was asked for.
        what: &'static str,
    },
    /// A bound could not be certified to the requested accuracy; the truth lies in
    /// `[lower, upper]`.
    #[error("not certified ({reason}): the value lies in [{lower}, {upper}]")]
    NotCertified {
        /// Why the certificate failed.
        reason: &'static str,
        /// Certified lower end.
        lower: f64,
        /// Certified upper end.
        upper: f64,
    },
    /// The curvature gap `H_s(η) = s(∇²ℓ̂(η) - ∇²A(η))` is not positive definite.
    #[error(
        "the curvature gap H_s is not positive definite: its smallest eigenvalue is {}",
        short(*smallest)
    )]
    CurvatureGap {
        /// Smallest eigenvalue of `H_s`.
        smallest: f64,
    },
    /// An iteration stopped before it converged.
    #[error("{what} did not converge in {steps} steps: residual {}", short(*residual))]
    NotConverged {
        /// The iteration.
        what: &'static str,
        /// Steps made.
        steps: usize,
        /// What was left.
        residual: f64,
    },
}

/// A number in a message: plain near 1, else one digit and the power of ten.
fn short(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-3..1e6).contains(&size) || !size.is_finite() {
        value.to_string()
    } else {
        format!("{value:.0e}")
    }
}

fn column_name(column: Option<usize>) -> String {
    column.map_or_else(
        || "the responses".to_owned(),
        |index| format!("column {index}"),
    )
}

/// `Ok(value)` if `accept(value)`, otherwise the range error. NaN is refused without asking
/// `accept`.
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

/// `α` in `(0, 1]`, as `log α`.
pub(crate) fn check_alpha(alpha: f64) -> Result<f64> {
    check("alpha", alpha, "(0, 1]", |a| a > 0.0 && a <= 1.0).map(f64::ln)
}

/// `Ok(value)` if it is finite.
pub(crate) fn check_real(field: &'static str, value: f64) -> Result<f64> {
    check(field, value, "(-inf, inf)", f64::is_finite)
}

/// `Ok(value)` if it is finite and above zero.
pub(crate) fn check_positive(field: &'static str, value: f64) -> Result<f64> {
    check(field, value, "(0, inf)", |v| v > 0.0 && v.is_finite())
}

/// `Ok(value)` if it is finite and not below zero.
pub(crate) fn check_not_negative(field: &'static str, value: f64) -> Result<f64> {
    check(field, value, "[0, inf)", |v| v >= 0.0 && v.is_finite())
}

/// `Ok(())` if the entry is `accepted`, otherwise its range error.
pub(crate) fn check_entry(
    field: &'static str,
    index: usize,
    value: f64,
    range: &'static str,
    accepted: bool,
) -> Result<()> {
    if accepted {
        return Ok(());
    }
    Err(Error::EntryOutOfRange {
        field,
        index,
        value,
        range,
    })
}

/// `Ok(())` if `accept` holds for every entry, otherwise the range error of the first that fails.
pub(crate) fn check_entries(
    field: &'static str,
    values: &[f64],
    range: &'static str,
    accept: impl Fn(f64) -> bool,
) -> Result<()> {
    let mut entries = values.iter().enumerate();
    entries.try_for_each(|(index, &value)| check_entry(field, index, value, range, accept(value)))
}

/// `Ok(())` if every entry is finite.
pub(crate) fn check_finite(name: &'static str, values: &[f64]) -> Result<()> {
    check_entries(name, values, "(-inf, inf)", f64::is_finite)
}

/// `Ok(())` if no entry is NaN.
pub(crate) fn check_numbers(name: &'static str, values: &[f64]) -> Result<()> {
    check_entries(name, values, "[-inf, inf]", |value| !value.is_nan())
}

/// Nothing at all could be certified.
pub(crate) fn unknown(reason: &'static str) -> Error {
    not_certified(reason, f64::NEG_INFINITY, f64::INFINITY)
}

/// A bound that could not be certified.
pub(crate) fn not_certified(reason: &'static str, lower: f64, upper: f64) -> Error {
    Error::NotCertified {
        reason,
        lower,
        upper,
    }
}

/// `Ok(())` if `found == expected`.
pub(crate) fn check_size(name: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::Dimension {
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
    fn range_check_names_the_quantity_and_refuses_nan() {
        let error = check("alpha", 1.5, "(0, 1]", |a| a > 0.0 && a <= 1.0).unwrap_err();
        assert_eq!(error.to_string(), "alpha 1.5 is not in (0, 1]");
        assert!(check("alpha", f64::NAN, "anything", |_| true).is_err());
        assert_eq!(
            check("alpha", 0.5, "(0, 1]", |a| a > 0.0 && a <= 1.0),
            Ok(0.5)
        );
    }

    #[test]
    fn residuals_and_eigenvalues_are_short() {
        let text = |residual| {
            let what = "the search";
            let error = Error::NotConverged {
                what,
                steps: 7,
                residual,
            };
            error.to_string()
        };
        let start = "the search did not converge in 7 steps: residual ";
        assert_eq!(text(4.958e-27), format!("{start}5e-27"));
        assert_eq!(text(-2e300), format!("{start}-2e300"));
        for (value, shown) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (f64::NAN, "NaN"),
            (1e5, "100000"),
        ] {
            assert_eq!(text(value), format!("{start}{shown}"));
        }
        let smallest = -3e-12;
        let name = "m";
        let error = Error::NotPositiveDefinite { name, smallest };
        assert!(
            error
                .to_string()
                .ends_with("its smallest eigenvalue is -3e-12")
        );
        let error = Error::ColumnScale { column: None };
        assert!(
            error
                .to_string()
                .starts_with("the numbers in the responses are")
        );
    }

    #[test]
    fn finite_check_names_the_entry() {
        let error = check_finite("mode", &[1.0, f64::INFINITY]).unwrap_err();
        assert_eq!(error.to_string(), "mode[1] inf is not in (-inf, inf)");
    }
}
