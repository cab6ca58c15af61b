//! What can be wrong with a network, its data or its parameters.

use crate::network::Shape;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: lower case, with the value and what was allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A layer cannot be applied to what it is given.
    #[error("layer \"{layer}\": {problem}")]
    Layer {
        /// Name of the layer.
        layer: String,
        /// What does not fit.
        problem: String,
    },
    /// A number outside its range, a slice of the wrong length, a label that is not a class.
    #[error(transparent)]
    Input(#[from] images::Error),
    /// A parameter that the network does not have.
    #[error("the network has no parameter \"{name}\"")]
    UnknownParameter {
        /// The name asked for.
        name: String,
    },
    /// A parameter that is needed and was not given.
    #[error("parameter \"{name}\" is missing")]
    MissingParameter {
        /// The name of the parameter.
        name: String,
    },
    /// A network that is not in the zoo.
    #[error("no network \"{name}\"; known are {known}")]
    UnknownNetwork {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A device that is not there.
    #[error("no device \"{name}\"; there are {known}")]
    UnknownDevice {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A device that cannot be used, or that failed.
    #[error("{0}")]
    Device(String),
    /// A precision that there is not.
    #[error("no precision \"{name}\"; there are f32, tf32")]
    UnknownPrecision {
        /// The name asked for.
        name: String,
    },
    /// A precision that a device does not have.
    #[error("precision \"{precision}\" is not one of the device {device}, which has f32")]
    Precision {
        /// The precision asked for.
        precision: &'static str,
        /// The device.
        device: &'static str,
    },
    /// Images of another shape than the network takes.
    #[error("the images are {found}, the network takes {expected}")]
    Images {
        /// Shape of the images.
        found: Shape,
        /// Shape of the network's input.
        expected: Shape,
    },
    /// A call that does not fit what was done before.
    #[error("{0}")]
    Order(&'static str),
    /// The update rule refused the step.
    #[error(transparent)]
    Rule(#[from] cbopt::Error),
}

impl Error {
    pub(crate) fn device(problem: String) -> Self {
        Self::Device(problem)
    }
}

/// `Ok` if `value` is in `1..=most`.
pub(crate) fn check_range(
    field: &'static str,
    value: usize,
    most: usize,
    range: &'static str,
) -> Result<()> {
    let allowed = (1..=most).contains(&value);
    Ok(images::check(field, value as f64, range, allowed)?)
}
