//! A network is data: layers with names and shapes, in the order in which the forward pass runs
//! them.
//!
//! Values are `[channels, height, width]` per image; a flat vector of `n` features is `[n, 1, 1]`.
//! Parameters lie one after another in a single flat vector, in the order of first use, with the
//! names and shapes of PyTorch's state dict.

mod builder;
mod geometry;
mod summary;

pub use builder::{Conv2d, NetworkBuilder};
pub use geometry::{Conv, Padding, PaddingRule, Pool};
pub use images::Shape;
pub use summary::{Summary, SummaryRow};

use random::Stream;

use images::check_length;

use crate::error::{Error, Result};

/// A value in the network: the input or the output of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value(pub(crate) usize);

impl Value {
    /// Position in [`Network::shapes`]: 0 is the input, `i` the output of layer `i - 1`.
    pub const fn index(self) -> usize {
        self.0
    }
}

// To add a layer, five places: its kind, label and parameters here; its method in `builder`; its
// two arms in `twin`; its operations in `plan` (`op`, `emit`); its kernels in `cpu` (`simple`,
// `block`). The compiler names every `match` that lacks it, and the tests of `cpu` hold it against
// the twin once it is in `other_layers_of_any_size`.

/// What a layer computes. Parameters are indices into [`Network::parameters`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LayerKind {
    /// Cross-correlation with a square kernel.
    Conv2d {
        /// Shapes, stride and padding.
        conv: Conv,
        /// `[out, in, kernel, kernel]`.
        weight: usize,
        /// `[out]`.
        bias: Option<usize>,
    },
    /// Filter response normalization with threshold: `max(γ x / √(mean x² + 1e-6) + β, τ)`.
    FrnTlu {
        /// Scale γ, `[channels]`.
        gamma: usize,
        /// Shift β, `[channels]`.
        beta: usize,
        /// Threshold τ, `[channels]`.
        tau: usize,
    },
    /// `W x + b`.
    Linear {
        /// `[out, in]`.
        weight: usize,
        /// `[out]`.
        bias: Option<usize>,
    },
    /// `max(x, 0)`.
    Relu,
    /// Maximum over windows.
    MaxPool(Pool),
    /// Mean over windows; over all pixels if there is one window.
    AvgPool(Pool),
    /// Zeroes entries with probability `rate` and divides the others by `1 - rate`.
    Dropout {
        /// Probability of a zero.
        rate: f64,
        /// Also when predicting.
        always_on: bool,
    },
    /// Sum of two values of the same shape.
    Add,
    /// Channels of the inputs one after another.
    Concat,
    /// `[c, h, w]` to `[c h w, 1, 1]`.
    Flatten,
}

impl LayerKind {
    /// Short name for tables.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Conv2d { .. } => "conv2d",
            Self::FrnTlu { .. } => "frn+tlu",
            Self::Linear { .. } => "linear",
            Self::Relu => "relu",
            Self::MaxPool(_) => "max-pool",
            Self::AvgPool(pool) if *pool == Pool::global(pool.input) => "global-avg-pool",
            Self::AvgPool(_) => "avg-pool",
            Self::Dropout { .. } => "dropout",
            Self::Add => "add",
            Self::Concat => "concat",
            Self::Flatten => "flatten",
        }
    }
}

impl LayerKind {
    /// Its parameters, as indices into [`Network::parameters`].
    pub fn parameters(&self) -> Vec<usize> {
        match *self {
            Self::Conv2d { weight, bias, .. } | Self::Linear { weight, bias } => {
                [Some(weight), bias].into_iter().flatten().collect()
            }
            Self::FrnTlu { gamma, beta, tau } => vec![gamma, beta, tau],
            _ => Vec::new(),
        }
    }
}

/// One layer: `inputs` to the value with the layer's own position plus one.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Name, unique in the network.
    pub name: String,
    /// What is computed.
    pub kind: LayerKind,
    /// What it is computed from.
    pub inputs: Vec<Value>,
}

/// How a parameter starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// Uniform on `[-bound, bound]`.
    Uniform {
        /// `1/√fan_in` for weights and biases, as PyTorch's defaults have it.
        bound: f64,
    },
    /// The same number everywhere.
    Constant(f64),
}

/// A named part of the flat parameter vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name in the state dict, such as `conv1.weight`.
    pub name: String,
    /// Shape in the state dict; row-major.
    pub shape: Vec<usize>,
    /// Position of the first entry in the flat vector.
    pub offset: usize,
    /// How it starts.
    pub init: Init,
}

impl Parameter {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Positions in the flat vector.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// A checked network; made by a [`NetworkBuilder`].
///
/// ```
/// let net = engine::zoo::lenet(10)?;
/// assert_eq!(net.parameter_count(), 44_426);
/// assert_eq!(net.parameter("conv1.weight")?.shape, [6, 1, 5, 5]);
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    pub(crate) name: String,
    pub(crate) layers: Vec<Layer>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) parameters: Vec<Parameter>,
}

impl Network {
    /// Name of the network.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Layers in the order of the forward pass.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// Shape of the input and of the output of each layer.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// Shape of one input image.
    pub fn input_shape(&self) -> Shape {
        self.shapes[0]
    }

    /// Number of logits.
    pub fn classes(&self) -> usize {
        self.shapes[self.layers.len()].channels
    }

    /// Parameters in the order of the flat vector.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The output of the layer of this name.
    ///
    /// # Errors
    /// [`Error::Layer`].
    pub fn output(&self, layer: &str) -> Result<Value> {
        match self.layers.iter().position(|l| l.name == layer) {
            Some(index) => Ok(Value(index + 1)),
            None => Err(Error::Layer {
                layer: layer.into(),
                problem: "the network has no layer of this name".into(),
            }),
        }
    }

    /// Length of the flat vector.
    pub fn parameter_count(&self) -> usize {
        self.parameters.last().map_or(0, |p| p.range().end)
    }

    /// The parameter of this name.
    ///
    /// # Errors
    /// [`Error::UnknownParameter`].
    pub fn parameter(&self, name: &str) -> Result<&Parameter> {
        self.parameters
            .iter()
            .find(|p| p.name == name)
            .ok_or_else(|| Error::UnknownParameter { name: name.into() })
    }

    /// Initial parameters as PyTorch's defaults have them: weights and biases uniform on
    /// `±1/√fan_in`, γ = 1, β = τ = 0.
    ///
    /// Every parameter has its own stream, made from `seed` and its name, so that a layer more or
    /// less moves no other.
    pub fn initial_parameters(&self, seed: u64) -> Vec<f32> {
        let mut flat = vec![0.0; self.parameter_count()];
        for parameter in &self.parameters {
            let stream = Stream::named(seed, &parameter.name);
            let values = &mut flat[parameter.range()];
            match parameter.init {
                Init::Constant(value) => values.fill(value as f32),
                Init::Uniform { bound } => {
                    for (i, value) in values.iter_mut().enumerate() {
                        *value = (bound * (2.0 * stream.uniform(i as u64) - 1.0)) as f32;
                    }
                }
            }
        }
        flat
    }

    /// The flat vector from named parts, in any order.
    ///
    /// # Errors
    /// [`Error::UnknownParameter`], [`Error::MissingParameter`], or [`Error::Input`] for a part
    /// that does not fit.
    pub fn import<'a>(
        &self,
        parts: impl IntoIterator<Item = (&'a str, &'a [f32])>,
    ) -> Result<Vec<f32>> {
        let mut flat = vec![0.0; self.parameter_count()];
        let mut seen = vec![false; self.parameters.len()];
        for (name, values) in parts {
            let index = self
                .parameters
                .iter()
                .position(|p| p.name == name)
                .ok_or_else(|| Error::UnknownParameter { name: name.into() })?;
            let parameter = &self.parameters[index];
            let what = format!("parameter \"{name}\"");
            check_length(what, values.len(), parameter.len())?;
            flat[parameter.range()].copy_from_slice(values);
            seen[index] = true;
        }
        match seen.iter().position(|&s| !s) {
            None => Ok(flat),
            Some(index) => Err(Error::MissingParameter {
                name: self.parameters[index].name.clone(),
            }),
        }
    }

    /// Named parts of a flat vector, with their shapes, in the order of the state dict.
    ///
    /// # Errors
    /// [`Error::Input`] if `flat` is not one entry per parameter.
    pub fn export<'a>(
        &'a self,
        flat: &'a [f32],
    ) -> Result<impl Iterator<Item = (&'a str, &'a [usize], &'a [f32])>> {
        check_length("parameters", flat.len(), self.parameter_count())?;
        Ok(self
            .parameters
            .iter()
            .map(|p| (p.name.as_str(), p.shape.as_slice(), &flat[p.range()])))
    }

    /// The table of layers.
    pub fn summary(&self) -> Summary {
        Summary::of(self)
    }

    /// Multiplications and additions of one image's forward pass, counting convolutions and linear
    /// layers.
    pub fn forward_flops(&self) -> u64 {
        self.summary().rows.iter().map(|row| row.flops).sum()
    }

    /// Multiplications and additions of one image's training step: the forward pass, the gradients
    /// of the weights, and the gradients of the inputs except of the layers that read the image
    /// itself.
    pub fn training_flops(&self) -> u64 {
        let rows = self.summary().rows;
        let first: u64 = self
            .layers
            .iter()
            .zip(&rows)
            .filter(|(layer, _)| layer.inputs.contains(&Value(0)))
            .map(|(_, row)| row.flops)
            .sum();
        3 * rows.iter().map(|row| row.flops).sum::<u64>() - first
    }
}
