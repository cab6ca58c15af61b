//! Builds networks layer by layer and refuses what does not fit, naming the layer.

use std::collections::HashSet;

use super::{
    Conv, Init, Layer, LayerKind, Network, Padding, PaddingRule, Parameter, Pool, Shape, Value,
};
use crate::error::{Error, Result};

/// Settings of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv2d {
    /// Output channels.
    pub channels: usize,
    /// Side of the square kernel.
    pub kernel: usize,
    /// Step in both directions. Default 1.
    pub stride: usize,
    /// Zeros around the input. Default none.
    pub padding: PaddingRule,
    /// Whether a bias is added. Default yes.
    pub bias: bool,
}

impl Conv2d {
    /// Stride 1, no padding, with bias.
    pub const fn new(channels: usize, kernel: usize) -> Self {
        Self {
            channels,
            kernel,
            stride: 1,
            padding: PaddingRule::Symmetric(0),
            bias: true,
        }
    }

    /// With this stride.
    #[must_use]
    pub const fn stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    /// With this many zeros on every side.
    #[must_use]
    pub const fn padding(self, zeros: usize) -> Self {
        let padding = PaddingRule::Symmetric(zeros);
        Self { padding, ..self }
    }

    /// With TensorFlow's "SAME" padding.
    #[must_use]
    pub const fn same(self) -> Self {
        let padding = PaddingRule::Same;
        Self { padding, ..self }
    }

    /// Without bias.
    #[must_use]
    pub const fn no_bias(self) -> Self {
        Self {
            bias: false,
            ..self
        }
    }

    /// The convolution of an input of this shape, or what does not fit.
    fn resolve(self, input: Shape) -> std::result::Result<Conv, String> {
        let Self {
            channels,
            kernel,
            stride,
            ..
        } = self;
        if channels == 0 || kernel == 0 || stride == 0 {
            return Err(format!(
                "channels {channels}, kernel {kernel} and stride {stride} must be at least 1"
            ));
        }
        let (top, bottom) = self.padding.resolve(input.height, kernel, stride);
        let (left, right) = self.padding.resolve(input.width, kernel, stride);
        let height = input.height.saturating_add(top).saturating_add(bottom);
        let width = input.width.saturating_add(left).saturating_add(right);
        if !is_good(Shape::new(input.channels, height, width)) {
            return Err(format!(
                "the padded input of {height} x {width} is too large"
            ));
        }
        if height < kernel || width < kernel {
            return Err(format!(
                "kernel {kernel} does not fit the padded input of {height} x {width}"
            ));
        }
        let count = |size: usize| (size - kernel) / stride + 1;
        Ok(Conv {
            input,
            output: Shape::new(channels, count(height), count(width)),
            kernel,
            stride,
            padding: Padding {
                left,
                right,
                top,
                bottom,
            },
        })
    }
}

/// Builds a [`Network`]. Methods return the output of the layer they add; the first mistake is
/// reported by [`NetworkBuilder::build`].
///
/// ```
/// use engine::{Conv2d, NetworkBuilder, Shape};
/// let mut net = NetworkBuilder::new("small", Shape::new(3, 8, 8));
/// let x = net.input();
/// let x = net.conv2d("conv", x, Conv2d::new(4, 3).same());
/// let x = net.frn_tlu("frn", x);
/// let x = net.global_avg_pool("pool", x);
/// let x = net.linear("fc", x, 10);
/// assert_eq!(net.build(x)?.parameter_count(), 4 * 27 + 4 + 12 + 50);
///
/// let mut net = NetworkBuilder::new("wrong", Shape::new(3, 8, 8));
/// let x = net.input();
/// let x = net.linear("fc", x, 10);
/// let message = net.build(x).unwrap_err().to_string();
/// assert_eq!(message, "layer \"fc\": needs a flat input, got 3x8x8 (flatten it first)");
/// # Ok::<(), engine::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NetworkBuilder {
    name: String,
    layers: Vec<Layer>,
    /// Of the layers, to find one that is used twice without a look at each.
    names: HashSet<String>,
    shapes: Vec<Shape>,
    parameters: Vec<Parameter>,
    error: Option<(String, String)>,
}

/// Largest number of entries of one image's value, so that no index overflows.
const LARGEST: usize = 1 << 28;
/// Most parameters, for the same reason.
const MOST_PARAMETERS: usize = 1 << 32;

/// Shape of a value that was refused, so that building can go on.
const STAND_IN: Shape = Shape::new(1, 1, 1);

/// Product of sizes; very large instead of too large.
fn product(sizes: &[usize]) -> usize {
    sizes.iter().fold(1, |a, &b| a.saturating_mul(b))
}

/// Whether a value of this shape is neither empty nor too large.
fn is_good(shape: Shape) -> bool {
    let sizes = [shape.channels, shape.height, shape.width];
    sizes.iter().all(|&n| n > 0) && product(&sizes) <= LARGEST
}

impl NetworkBuilder {
    /// A network for images of this shape.
    pub fn new(name: &str, input: Shape) -> Self {
        let mut builder = Self {
            name: name.into(),
            layers: Vec::new(),
            names: HashSet::new(),
            shapes: vec![input],
            parameters: Vec::new(),
            error: None,
        };
        if !is_good(input) {
            builder.fail("input", format!("shape {input} is empty or too large"));
            builder.shapes[0] = STAND_IN;
        }
        builder
    }

    /// The input.
    pub fn input(&self) -> Value {
        Value(0)
    }

    /// Shape of a value.
    ///
    /// # Panics
    /// If the value belongs to another network.
    pub fn shape(&self, value: Value) -> Shape {
        self.shapes[value.0]
    }

    /// The first mistake so far, which [`NetworkBuilder::build`] will report.
    pub fn problem(&self) -> Option<&str> {
        self.error.as_ref().map(|(_, problem)| problem.as_str())
    }

    /// Adds a layer with one input: `make` gives what it computes and its output's shape from the
    /// shape of the input, or has said what does not fit. Whatever is wrong, building goes on with
    /// another value, and the first mistake is reported at the end.
    fn layer(
        &mut self,
        name: &str,
        x: Value,
        make: impl FnOnce(&mut Self, Shape) -> std::result::Result<(LayerKind, Shape), String>,
    ) -> Value {
        self.layer_of(name, &[x], |net, shapes| make(net, shapes[0]))
    }

    /// The same for any number of inputs.
    fn layer_of(
        &mut self,
        name: &str,
        inputs: &[Value],
        make: impl FnOnce(&mut Self, &[Shape]) -> std::result::Result<(LayerKind, Shape), String>,
    ) -> Value {
        let shapes: Option<Vec<Shape>> = inputs
            .iter()
            .map(|x| self.shapes.get(x.0).copied())
            .collect();
        let Some(shapes) = shapes else {
            self.fail(name, "its input belongs to another network".into());
            return self.input();
        };
        match make(self, &shapes) {
            Ok((kind, shape)) => self.push(name, kind, inputs, shape),
            Err(problem) => {
                self.fail(name, problem);
                inputs.first().copied().unwrap_or_else(|| self.input())
            }
        }
    }

    fn fail(&mut self, layer: &str, problem: String) {
        self.error.get_or_insert((layer.into(), problem));
    }

    /// `Ok` if the layer's parameters can be counted.
    fn check_parameters(&self, shape: &[usize]) -> std::result::Result<(), String> {
        let so_far = self.parameters.last().map_or(0, |p| p.range().end);
        if product(shape) <= MOST_PARAMETERS - so_far {
            return Ok(());
        }
        Err(format!(
            "a weight {shape:?} is too large: {MOST_PARAMETERS} parameters are allowed"
        ))
    }

    fn parameter(&mut self, name: String, shape: Vec<usize>, init: Init) -> usize {
        let offset = self.parameters.last().map_or(0, |p| p.range().end);
        self.parameters.push(Parameter {
            name,
            shape,
            offset,
            init,
        });
        self.parameters.len() - 1
    }

    fn push(&mut self, name: &str, kind: LayerKind, inputs: &[Value], shape: Shape) -> Value {
        if !self.names.insert(name.into()) {
            self.fail(name, "the name is used twice".into());
        }
        let good = is_good(shape);
        if !good {
            self.fail(name, format!("the output {shape} is empty or too large"));
        }
        self.layers.push(Layer {
            name: name.into(),
            kind,
            inputs: inputs.to_vec(),
        });
        self.shapes.push(if good { shape } else { STAND_IN });
        Value(self.layers.len())
    }

    /// Convolution; parameters `name.weight` and `name.bias`.
    pub fn conv2d(&mut self, name: &str, x: Value, settings: Conv2d) -> Value {
        self.layer(name, x, |net, input| {
            let conv = settings.resolve(input)?;
            let fan_in = input.channels * conv.kernel * conv.kernel;
            // A weight and a bias.
            net.check_parameters(&[settings.channels, fan_in + 1])?;
            let init = Init::Uniform {
                bound: 1.0 / (fan_in as f64).sqrt(),
            };
            let shape = vec![settings.channels, input.channels, conv.kernel, conv.kernel];
            let weight = net.parameter(format!("{name}.weight"), shape, init);
            let bias = settings
                .bias
                .then(|| net.parameter(format!("{name}.bias"), vec![settings.channels], init));
            Ok((LayerKind::Conv2d { conv, weight, bias }, conv.output))
        })
    }

    /// Filter response normalization with threshold; parameters `name.gamma`, `name.beta`,
    /// `name.tau`.
    pub fn frn_tlu(&mut self, name: &str, x: Value) -> Value {
        self.layer(name, x, |net, shape| {
            net.check_parameters(&[3, shape.channels])?;
            let mut part = |part: &str, value: f64| {
                let init = Init::Constant(value);
                net.parameter(format!("{name}.{part}"), vec![shape.channels], init)
            };
            let kind = LayerKind::FrnTlu {
                gamma: part("gamma", 1.0),
                beta: part("beta", 0.0),
                tau: part("tau", 0.0),
            };
            Ok((kind, shape))
        })
    }

    /// Dense layer with bias; parameters `name.weight` and `name.bias`.
    pub fn linear(&mut self, name: &str, x: Value, features: usize) -> Value {
        self.layer(name, x, |net, shape| {
            if !shape.is_flat() {
                return Err(format!(
                    "needs a flat input, got {shape} (flatten it first)"
                ));
            }
            let inputs = shape.channels;
            net.check_parameters(&[features, inputs + 1])?;
            let init = Init::Uniform {
                bound: 1.0 / (inputs as f64).sqrt(),
            };
            let weight = net.parameter(format!("{name}.weight"), vec![features, inputs], init);
            let bias = Some(net.parameter(format!("{name}.bias"), vec![features], init));
            Ok((
                LayerKind::Linear { weight, bias },
                Shape::new(features, 1, 1),
            ))
        })
    }

    /// `max(x, 0)`.
    pub fn relu(&mut self, name: &str, x: Value) -> Value {
        self.layer(name, x, |_, shape| Ok((LayerKind::Relu, shape)))
    }

    fn pool(
        &mut self,
        name: &str,
        x: Value,
        (kernel, stride): (usize, usize),
        kind: fn(Pool) -> LayerKind,
    ) -> Value {
        self.layer(name, x, |_, shape| {
            if kernel == 0 || stride == 0 {
                return Err(format!(
                    "kernel {kernel} and stride {stride} must be at least 1"
                ));
            }
            if kernel > shape.height || kernel > shape.width {
                return Err(format!("window {kernel} does not fit the input {shape}"));
            }
            let pool = Pool::square(shape, kernel, stride);
            Ok((kind(pool), pool.output))
        })
    }

    /// Maximum over square windows; an incomplete last row or column is dropped.
    pub fn max_pool(&mut self, name: &str, x: Value, kernel: usize, stride: usize) -> Value {
        self.pool(name, x, (kernel, stride), LayerKind::MaxPool)
    }

    /// Mean over square windows; an incomplete last row or column is dropped.
    pub fn avg_pool(&mut self, name: &str, x: Value, kernel: usize, stride: usize) -> Value {
        self.pool(name, x, (kernel, stride), LayerKind::AvgPool)
    }

    /// Mean over all pixels; the output is flat.
    pub fn global_avg_pool(&mut self, name: &str, x: Value) -> Value {
        self.layer(name, x, |_, shape| {
            let pool = Pool::global(shape);
            Ok((LayerKind::AvgPool(pool), pool.output))
        })
    }

    /// Dropout with probability `rate`; `always_on` also when predicting.
    pub fn dropout(&mut self, name: &str, x: Value, rate: f64, always_on: bool) -> Value {
        self.layer(name, x, |_, shape| {
            if !(0.0..1.0).contains(&rate) {
                return Err(format!("dropout rate {rate} is not in [0, 1)"));
            }
            Ok((LayerKind::Dropout { rate, always_on }, shape))
        })
    }

    /// Sum of two values.
    pub fn add(&mut self, name: &str, x: Value, y: Value) -> Value {
        self.layer_of(name, &[x, y], |_, shapes| match *shapes {
            [a, b] if a != b => Err(format!("cannot add {a} and {b}")),
            _ => Ok((LayerKind::Add, shapes[0])),
        })
    }

    /// Channels of the values one after another.
    pub fn concat(&mut self, name: &str, values: &[Value]) -> Value {
        self.layer_of(name, values, |_, shapes| {
            let Some(a) = shapes.first() else {
                return Err("nothing to concatenate".into());
            };
            let other = |b: &&Shape| (a.height, a.width) != (b.height, b.width);
            if let Some(b) = shapes.iter().find(other) {
                return Err(format!("cannot concatenate {a} and {b}"));
            }
            let channels = shapes.iter().map(|shape| shape.channels).sum();
            Ok((LayerKind::Concat, Shape::new(channels, a.height, a.width)))
        })
    }

    /// All entries as one flat vector: channel, then row, then column.
    pub fn flatten(&mut self, name: &str, x: Value) -> Value {
        self.layer(name, x, |_, shape| {
            Ok((LayerKind::Flatten, Shape::new(shape.len(), 1, 1)))
        })
    }

    /// The finished network, whose `logits` must be flat and the output of the last layer.
    ///
    /// # Errors
    /// [`Error::Layer`]: the first mistake.
    pub fn build(mut self, logits: Value) -> Result<Network> {
        if self.layers.is_empty() {
            self.fail("input", "the network has no layer".into());
        } else {
            let last = self.layers[self.layers.len() - 1].name.clone();
            let shape = self.shapes.get(logits.0).copied();
            let shape = shape.unwrap_or(self.shapes[0]);
            if logits.0 > self.layers.len() {
                self.fail(&last, "its input belongs to another network".into());
            }
            if logits.0 != self.layers.len() {
                self.fail(&last, "comes after the logits".into());
            }
            if !shape.is_flat() {
                self.fail(&last, format!("the logits {shape} are not flat"));
            }
            let mut used = vec![false; self.shapes.len()];
            used[self.layers.len()] = true;
            for layer in &self.layers {
                layer.inputs.iter().for_each(|input| used[input.0] = true);
            }
            if let Some(unused) = used.iter().skip(1).position(|&u| !u) {
                let name = self.layers[unused].name.clone();
                self.fail(&name, "its output is not used".into());
            }
        }
        if let Some((layer, problem)) = self.error {
            return Err(Error::Layer { layer, problem });
        }
        Ok(Network {
            name: self.name,
            layers: self.layers,
            shapes: self.shapes,
            parameters: self.parameters,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Build = fn(&mut NetworkBuilder, Value) -> Value;

    fn message(build: Build) -> String {
        let mut net = NetworkBuilder::new("net", Shape::new(3, 8, 8));
        let input = net.input();
        let last = build(&mut net, input);
        net.build(last).expect_err("must be refused").to_string()
    }

    #[test]
    fn mistakes_name_the_layer() {
        let cases: [(Build, &str); 6] = [
            (
                |n, x| n.conv2d("big", x, Conv2d::new(4, 9)),
                "layer \"big\": kernel 9 does not fit the padded input of 8 x 8",
            ),
            (
                |n, x| {
                    let y = n.max_pool("pool", x, 2, 2);
                    n.add("sum", x, y)
                },
                "layer \"sum\": cannot add 3x8x8 and 3x4x4",
            ),
            (
                |n, x| {
                    let x = n.flatten("flat", x);
                    n.dropout("drop", x, 1.0, false)
                },
                "layer \"drop\": dropout rate 1 is not in [0, 1)",
            ),
            (
                |n, x| {
                    let x = n.relu("twice", x);
                    n.relu("twice", x)
                },
                "layer \"twice\": the name is used twice",
            ),
            (
                |n, x| {
                    n.relu("lost", x);
                    n.flatten("flat", x)
                },
                "layer \"lost\": its output is not used",
            ),
            (
                |n, x| n.relu("relu", x),
                "layer \"relu\": the logits 3x8x8 are not flat",
            ),
        ];
        for (build, said) in cases {
            assert_eq!(message(build), said);
        }
    }

    #[test]
    fn sizes_beyond_reason_are_refused() {
        let huge = usize::MAX;
        let cases: [(&str, Build); 6] = [
            ("conv channels", |n, x| {
                n.conv2d("bad", x, Conv2d::new(usize::MAX, 3))
            }),
            ("conv kernel", |n, x| {
                n.conv2d("bad", x, Conv2d::new(4, usize::MAX).same())
            }),
            ("conv padding", |n, x| {
                n.conv2d("bad", x, Conv2d::new(4, 3).padding(usize::MAX))
            }),
            ("conv stride", |n, x| {
                n.conv2d("bad", x, Conv2d::new(4, 9).stride(usize::MAX))
            }),
            ("features", |n, x| {
                let x = n.flatten("flat", x);
                n.linear("bad", x, usize::MAX)
            }),
            ("window", |n, x| {
                n.max_pool("bad", x, usize::MAX, usize::MAX)
            }),
        ];
        for (what, build) in cases {
            let message = message(build);
            assert!(message.starts_with("layer \"bad\": "), "{what}: {message}");
        }
        let mut net = NetworkBuilder::new("net", Shape::new(huge, huge, 2));
        let x = net.input();
        let x = net.flatten("flat", x);
        let message = net.build(x).unwrap_err().to_string();
        assert!(message.starts_with("layer \"input\": "), "{message}");
    }

    #[test]
    fn values_of_another_network_are_refused() {
        let mut other = NetworkBuilder::new("other", Shape::new(3, 8, 8));
        let mut far = other.input();
        for i in 0..5 {
            far = other.relu(&i.to_string(), far);
        }
        let uses: [Build; 10] = [
            |n, far| n.conv2d("bad", far, Conv2d::new(1, 1)),
            |n, far| n.frn_tlu("bad", far),
            |n, far| n.linear("bad", far, 3),
            |n, far| n.relu("bad", far),
            |n, far| n.avg_pool("bad", far, 2, 2),
            |n, far| n.global_avg_pool("bad", far),
            |n, far| n.dropout("bad", far, 0.5, false),
            |n, far| {
                let x = n.input();
                n.add("bad", x, far)
            },
            |n, far| n.concat("bad", &[far]),
            |n, far| n.flatten("bad", far),
        ];
        for (i, build) in uses.into_iter().enumerate() {
            let mut net = NetworkBuilder::new("net", Shape::new(3, 8, 8));
            let last = build(&mut net, far);
            let x = net.flatten("end", last);
            let message = net.build(x).unwrap_err().to_string();
            let want = "layer \"bad\": its input belongs to another network";
            assert_eq!(message, want, "{i}");
        }
        let mut net = NetworkBuilder::new("net", Shape::new(3, 8, 8));
        let x = net.input();
        net.flatten("end", x);
        assert!(net.build(far).is_err());
    }
}
