//! What can be wrong with a predictive method, its state or what it is given.

/// The result of everything in this module that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: lower case, with the value and what was allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number outside its range, a slice of the wrong length, a label that is not a class.
    #[error(transparent)]
    Input(#[from] images::Error),
    /// An entry that is NaN or infinite.
    #[error("{what}[{index}] is {value}, which is not finite")]
    NotFinite {
        /// The slice.
        what: &'static str,
        /// Position of the first such entry.
        index: usize,
        /// The entry.
        value: f64,
    },
    /// The method needs something that was not given.
    #[error("predictive method '{method}' needs {needs}")]
    Missing {
        /// The method.
        method: &'static str,
        /// What is missing.
        needs: &'static str,
    },
    /// The method cannot be used with this network or these weights.
    #[error("predictive method '{method}' {problem}")]
    Unsuited {
        /// The method.
        method: &'static str,
        /// What is in the way.
        problem: String,
    },
    /// The eigenvalues of a Kronecker factor were not found.
    #[error("the eigenvalues of factor {factor} did not converge")]
    Eigenvalues {
        /// `A` (features) or `B` (classes).
        factor: &'static str,
    },
    /// Saved bytes that are no state of this kind.
    #[error("not a saved {what} state: {reason}")]
    Malformed {
        /// The kind of state.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Saved bytes of a version that this program does not read.
    #[error("the saved {what} state has version {found}, expected {expected}")]
    Version {
        /// The kind of state.
        what: &'static str,
        /// Version of the bytes.
        found: u64,
        /// The version this program reads.
        expected: u64,
    },
    /// The engine refused the network, the weights or the images.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// Logits and their covariance are not those of a normal possibility function.
    #[error(transparent)]
    Possibility(#[from] possibility::Error),
    /// Scores that cannot be compared.
    #[error(transparent)]
    Evaluation(#[from] evaluation::Error),
    /// The update rule refused its state.
    #[error(transparent)]
    Rule(#[from] cbopt::Error),
}

/// `Ok` if all entries are finite.
pub(crate) fn check_finite<T: Copy + Into<f64>>(what: &'static str, values: &[T]) -> Result<()> {
    match values.iter().position(|&v| !v.into().is_finite()) {
        None => Ok(()),
        Some(index) => Err(Error::NotFinite {
            what,
            index,
            value: values[index].into(),
        }),
    }
}
