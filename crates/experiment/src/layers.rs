//! Networks written down in a config, one table a layer:
//!
//! ```toml
//! [network]
//! name = "mine"
//!
//! [[network.layers]]
//! layer = "conv"
//! channels = 16
//! kernel = 3
//! padding = 1
//!
//! [[network.layers]]
//! layer = "frn"
//!
//! [[network.layers]]
//! layer = "residual"
//! channels = 32
//! stride = 2
//!
//! [[network.layers]]
//! layer = "global-avg-pool"
//!
//! [[network.layers]]
//! layer = "dense"
//! ```
//!
//! A layer reads what the one before it gives; the first reads the image, and the last gives one
//! number per class. Shape of the images and number of classes come from the data. Names of
//! parameters begin with the name of the layer: `conv1.weight`.

use std::collections::HashMap;

use engine::network::{Conv2d, Value};
use engine::{Network, NetworkBuilder, Shape};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A layer with its name; without one it is called by its kind and its number among these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerConfig {
    /// Begins the names of its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it computes.
    #[serde(flatten)]
    pub kind: LayerKind,
}

/// Layers and blocks of layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "layer", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum LayerKind {
    /// Convolution with a square kernel.
    Conv {
        /// Output channels.
        channels: usize,
        /// Side of the kernel.
        kernel: usize,
        /// Step between windows. Default 1.
        #[serde(default = "one")]
        stride: usize,
        /// Zeros on each side: a number, or `"same"` for an output of the input's size divided by
        /// the stride. Default 0.
        #[serde(default)]
        padding: PaddingConfig,
        /// Default true.
        #[serde(default = "yes")]
        bias: bool,
    },
    /// Filter response normalization with its threshold (TLU).
    Frn {},
    /// The threshold of the `frn` before it, which has it already: for those who write both.
    Tlu {},
    /// `max(x, 0)`.
    Relu {},
    /// Maximum over windows of this size.
    MaxPool {
        /// Side of a window.
        size: usize,
        /// Step between windows. Default: its size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<usize>,
    },
    /// Mean over windows of this size.
    AvgPool {
        /// Side of a window.
        size: usize,
        /// Step between windows. Default: its size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stride: Option<usize>,
    },
    /// Mean over all pixels of a channel; what it gives is flat.
    GlobalAvgPool {},
    /// Zeroes entries with probability `rate`.
    Dropout {
        /// In `[0, 1)`.
        rate: f64,
        /// Also when predicting, which `mc-dropout` needs. Default false.
        #[serde(default)]
        always_on: bool,
    },
    /// `[c, h, w]` to a flat vector.
    Flatten {},
    /// Dense layer.
    Dense {
        /// Number of outputs; in the last layer by default the number of classes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outputs: Option<usize>,
    },
    /// Twice convolution 3×3 and FRN, added to the input, which passes a convolution 1×1 and FRN
    /// where its shape changes: the block of ResNet-20.
    Residual {
        /// Output channels.
        channels: usize,
        /// Stride of the first convolution. Default 1.
        #[serde(default = "one")]
        stride: usize,
    },
    /// Layers of FRN, convolution 1×1, FRN and convolution 3×3, each of which adds its output to
    /// what the next one reads: the block of DenseNet.
    DenseBlock {
        /// Number of layers.
        layers: usize,
        /// Channels that each adds.
        growth: usize,
    },
    /// FRN, convolution 1×1 to half the channels, mean over windows of 2: between blocks of
    /// DenseNet.
    Transition {},
}

/// Zeros around an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "padding: expected a whole number from 0 on, or \"same\""
)]
pub enum PaddingConfig {
    /// On each side.
    Zeros(usize),
    /// As many as keep the size.
    Same(Same),
}

/// The word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Same {
    /// `"same"`.
    Same,
}

impl Default for PaddingConfig {
    fn default() -> Self {
        Self::Zeros(0)
    }
}

fn one() -> usize {
    1
}

fn yes() -> bool {
    true
}

impl LayerKind {
    /// Its word in configs.
    fn id(&self) -> &'static str {
        match self {
            Self::Conv { .. } => "conv",
            Self::Frn {} => "frn",
            Self::Tlu {} => "tlu",
            Self::Relu {} => "relu",
            Self::MaxPool { .. } => "max-pool",
            Self::AvgPool { .. } => "avg-pool",
            Self::GlobalAvgPool {} => "global-avg-pool",
            Self::Dropout { .. } => "dropout",
            Self::Flatten {} => "flatten",
            Self::Dense { .. } => "dense",
            Self::Residual { .. } => "residual",
            Self::DenseBlock { .. } => "dense-block",
            Self::Transition {} => "transition",
        }
    }

    /// Adds the layer to `net`; `classes` is what a dense layer without outputs gives, if it may.
    fn add(
        &self,
        net: &mut NetworkBuilder,
        name: &str,
        x: Value,
        classes: Option<usize>,
    ) -> std::result::Result<Value, String> {
        Ok(match *self {
            Self::Conv {
                channels,
                kernel,
                stride,
                padding,
                bias,
            } => {
                let conv = Conv2d::new(channels, kernel).stride(stride);
                let conv = match padding {
                    PaddingConfig::Zeros(zeros) => conv.padding(zeros),
                    PaddingConfig::Same(Same::Same) => conv.same(),
                };
                net.conv2d(name, x, if bias { conv } else { conv.no_bias() })
            }
            Self::Frn {} => net.frn_tlu(name, x),
            Self::Tlu {} => x,
            Self::Relu {} => net.relu(name, x),
            Self::MaxPool { size, stride } => net.max_pool(name, x, size, stride.unwrap_or(size)),
            Self::AvgPool { size, stride } => net.avg_pool(name, x, size, stride.unwrap_or(size)),
            Self::GlobalAvgPool {} => net.global_avg_pool(name, x),
            Self::Dropout { rate, always_on } => net.dropout(name, x, rate, always_on),
            Self::Flatten {} => net.flatten(name, x),
            Self::Dense { outputs } => {
                let outputs = outputs
                    .or(classes)
                    .ok_or("outputs is missing: only the last layer takes the number of classes")?;
                net.linear(name, x, outputs)
            }
            Self::Residual { channels, stride } => residual(net, name, x, channels, stride),
            Self::DenseBlock { layers, growth } => dense_block(net, name, x, layers, growth),
            Self::Transition {} => {
                let half = net.shape(x).channels / 2;
                let x = net.frn_tlu(&format!("{name}.frn"), x);
                let conv = Conv2d::new(half, 1).no_bias();
                let x = net.conv2d(&format!("{name}.conv"), x, conv);
                net.avg_pool(&format!("{name}.pool"), x, 2, 2)
            }
        })
    }
}

fn residual(
    net: &mut NetworkBuilder,
    name: &str,
    x: Value,
    channels: usize,
    stride: usize,
) -> Value {
    let at = |part: &str| format!("{name}.{part}");
    let conv = Conv2d::new(channels, 3).same();
    let mut y = net.conv2d(&at("conv1"), x, conv.stride(stride));
    y = net.frn_tlu(&at("frn1"), y);
    y = net.conv2d(&at("conv2"), y, conv);
    y = net.frn_tlu(&at("frn2"), y);
    let mut x = x;
    if stride != 1 || net.shape(x).channels != channels {
        let conv = Conv2d::new(channels, 1).stride(stride).same();
        x = net.conv2d(&at("shortcut.conv"), x, conv);
        x = net.frn_tlu(&at("shortcut.frn"), x);
    }
    net.add(name, x, y)
}

fn dense_block(
    net: &mut NetworkBuilder,
    name: &str,
    mut x: Value,
    layers: usize,
    growth: usize,
) -> Value {
    let conv = |channels, kernel| Conv2d::new(channels, kernel).no_bias();
    for layer in 1..=layers {
        let at = |part: &str| format!("{name}.layer{layer}.{part}");
        let mut y = net.frn_tlu(&at("frn1"), x);
        y = net.conv2d(&at("conv1"), y, conv(growth.saturating_mul(4), 1));
        y = net.frn_tlu(&at("frn2"), y);
        y = net.conv2d(&at("conv2"), y, conv(growth, 3).padding(1));
        x = net.concat(&at("concat"), &[y, x]);
    }
    x
}

/// Most layers of a block: more is a slip of the keyboard.
const MAX_LAYERS: usize = 1000;

/// The network of these layers for images of this shape.
///
/// # Errors
/// The first layer that does not fit, with its number and name.
pub(crate) fn build(
    name: &str,
    layers: &[LayerConfig],
    input: Shape,
    classes: usize,
) -> Result<Network> {
    let mut net = NetworkBuilder::new(name, input);
    let mut x = net.input();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for (place, layer) in layers.iter().enumerate() {
        let id = layer.kind.id();
        let number = numbers.entry(id).or_default();
        *number += 1;
        let name = layer
            .name
            .clone()
            .unwrap_or_else(|| format!("{id}{number}"));
        let refuse = |problem: &str| {
            let field = format!("network.layers: layer {} ({name})", place + 1);
            Err(Error::setting(&field, problem.to_owned()))
        };
        if let LayerKind::DenseBlock { layers, .. } = layer.kind
            && !(1..=MAX_LAYERS).contains(&layers)
        {
            return refuse(&format!("layers {layers} is not in 1..={MAX_LAYERS}"));
        }
        let after_frn = place > 0 && layers[place - 1].kind == LayerKind::Frn {};
        if layer.kind == (LayerKind::Tlu {}) && !after_frn {
            return refuse("is the threshold of frn: it stands right after layer = \"frn\"");
        }
        let is_last = place + 1 == layers.len();
        x = match layer
            .kind
            .add(&mut net, &name, x, is_last.then_some(classes))
        {
            Ok(x) => x,
            Err(problem) => return refuse(&problem),
        };
        if let Some(problem) = net.problem() {
            return refuse(problem);
        }
    }
    let found = net.shape(x);
    if found != Shape::new(classes, 1, 1) {
        let problem = format!(
            "the last layer gives {found}, expected one number for each of {classes} classes: end \
             with layer = \"dense\" without outputs"
        );
        return Err(Error::setting("network.layers", problem));
    }
    net.build(x)
        .map_err(|error| Error::setting("network.layers", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NetworkConfig;
    use engine::zoo;

    fn of(text: &str, input: Shape, classes: usize) -> Result<Network> {
        let network: NetworkConfig = toml::from_str(text).unwrap();
        network.build(input, classes)
    }

    #[test]
    fn the_zoo_can_be_written_down() {
        let (gray, color) = (Shape::new(1, 28, 28), Shape::new(3, 32, 32));
        for (text, zoo, input) in [
            (include_str!("../networks/lenet.toml"), zoo::lenet(10), gray),
            (
                include_str!("../networks/resnet20.toml"),
                zoo::resnet20(10),
                color,
            ),
            (
                include_str!("../networks/densenet121.toml"),
                zoo::densenet121(10, None),
                color,
            ),
        ] {
            let (found, zoo) = (of(text, input, 10).unwrap(), zoo.unwrap());
            assert_eq!(found.layers(), zoo.layers());
            assert_eq!(found.shapes(), zoo.shapes());
            assert_eq!(found.parameters(), zoo.parameters());
        }
    }

    #[test]
    fn layers_fit_images_of_any_size() {
        let text = r#"
            layers = [
                { layer = "conv", channels = 8, kernel = 3, stride = 2, padding = "same" },
                { layer = "frn" },
                { layer = "dense-block", layers = 2, growth = 4 },
                { layer = "transition" },
                { layer = "residual", channels = 12 },
                { layer = "dropout", rate = 0.1, always_on = true },
                { layer = "global-avg-pool" },
                { layer = "dense" },
            ]
        "#;
        let network = of(text, Shape::new(3, 65, 40), 7).unwrap();
        assert_eq!(network.classes(), 7);
        // 33 x 20 after the convolution, 16 channels after the block, half of all after it
        assert_eq!(
            network
                .parameter("residual1.shortcut.conv.weight")
                .unwrap()
                .shape,
            [12, 8, 1, 1]
        );
        let value = network.output("transition1.pool").unwrap();
        assert_eq!(network.shapes()[value.index()], Shape::new(8, 16, 10));
    }

    #[test]
    fn mistakes_name_the_layer() {
        let dense = "{ layer = \"dense\" }";
        for (layers, expected) in [
            (
                "{ layer = \"relu\" }",
                "network.layers: the last layer gives 1x8x8, expected one number",
            ),
            (
                dense,
                "network.layers: layer 1 (dense1): needs a flat input, got 1x8x8",
            ),
            (
                "{ layer = \"flatten\" }, { layer = \"dense\" }, { layer = \"relu\" }",
                "network.layers: layer 2 (dense1): outputs is missing",
            ),
            (
                "{ layer = \"flatten\" }, { layer = \"dense\", outputs = 4 }",
                "network.layers: the last layer gives 4x1x1, expected one number for each of 3",
            ),
            (
                "{ layer = \"conv\", channels = 4, kernel = 9 }",
                "network.layers: layer 1 (conv1): kernel 9 does not fit",
            ),
            (
                "{ layer = \"relu\", name = \"a\" }, { layer = \"frn\", name = \"a\" }",
                "network.layers: layer 2 (a): the name is used twice",
            ),
            (
                "{ layer = \"dense-block\", layers = 0, growth = 3 }",
                "layer 1 (dense-block1): layers 0 is not in 1..=1000",
            ),
            (
                "{ layer = \"dropout\", rate = 1.0 }",
                "network.layers: layer 1 (dropout1): ",
            ),
            (
                "{ layer = \"relu\" }, { layer = \"tlu\" }",
                "network.layers: layer 2 (tlu1): is the threshold of frn",
            ),
        ] {
            let error = of(&format!("layers = [{layers}]"), Shape::new(1, 8, 8), 3).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        for (layer, expected) in [
            (
                "{ layer = \"batch-norm\" }",
                "unknown variant `batch-norm`, expected one of `conv`, `frn`, `tlu`",
            ),
            ("{ layer = \"relu\", slope = 1 }", "unknown field `slope`"),
            (
                "{ layer = \"conv\", channels = 3 }",
                "missing field `kernel`",
            ),
            (
                "{ layer = \"conv\", channels = 3, kernel = 3, padding = \"half\" }",
                "padding: expected a whole number from 0 on, or \"same\"",
            ),
        ] {
            let error =
                toml::from_str::<NetworkConfig>(&format!("layers = [{layer}]")).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    /// Each was quadratic once: half a minute for 100,000 layers that are built, and longer for
    /// those that are refused.
    #[test]
    fn long_networks_are_built_or_refused_in_linear_time() {
        let start = std::time::Instant::now();
        let relu = LayerConfig {
            name: None,
            kind: LayerKind::Relu {},
        };
        let mut config: NetworkConfig = toml::from_str("layers = []").unwrap();
        config.layers = vec![relu; 100_000];
        let problem = config.build(Shape::new(1, 8, 8), 3).unwrap_err();
        let said = problem.to_string();
        assert!(said.contains("the last layer gives 1x8x8"), "{said}");
        let layers = "{ layer = \"relu\" }, ".repeat(2000);
        let text = format!("network = {{ layers = [{layers} {{ layer = \"blue\" }}] }}");
        let problem = crate::RunConfig::parse(&text, "test", &[]).unwrap_err();
        let said = problem.to_string();
        assert!(said.contains("layer 2001"), "{said}");
        assert!(start.elapsed().as_secs() < 15, "{:?}", start.elapsed());
    }

    /// A line of the file, a value and a name, each of a million letters.
    #[test]
    fn messages_do_not_repeat_a_million_letters() {
        let long = "x".repeat(1_000_000);
        for text in [
            format!("a = \"{long}\" b"),
            format!("seed = \"{long}\""),
            format!("{long} = 1"),
            format!("[train]\n{long} = 1"),
            format!("[train]\n{long} = 1\n{long} = 2"),
            format!("network = {{ layers = [{{ layer = \"{long}\" }}] }}"),
            format!("optimizer = {{ rule = \"{long}\" }}"),
        ] {
            let said = crate::RunConfig::parse(&text, "test", &[]).unwrap_err();
            let said = said.with_causes();
            assert!(said.len() < 2000, "{}: {}", said.len(), &said[..2000]);
        }
        let said = crate::RunConfig::parse("a = 1 b", "test", &[]).unwrap_err();
        assert!(said.to_string().contains("1 | a = 1 b\n"), "{said}");
    }

    #[test]
    fn a_config_of_ones_own_is_short_and_is_stored_whole() {
        let text = r#"
            name = "mine"
            data = { dataset = "fashion-mnist-mini" }
            train = { epochs = 2 }
            optimizer = { rule = "adamw", lr = 0.001 }
            network = { layers = [{ layer = "flatten" }, { layer = "dense" }] }
        "#;
        let config = crate::RunConfig::parse(text, "test", &[]).unwrap();
        assert_eq!(
            (config.network.name.as_str(), config.rows.len()),
            ("custom", 1)
        );
        assert_eq!(config.rows[0].row, "mine");
        let again = crate::RunConfig::parse(&config.to_toml(), "again", &[]).unwrap();
        assert_eq!(again, config);
        for (setting, expected) in [
            ("network.name=lenet", "\"lenet\" is a built-in network"),
            (
                "network.dropout=0.1",
                "network.dropout: is for the built-in networks",
            ),
            ("network.file=none.toml", "network.layers is given, too"),
        ] {
            let error = crate::RunConfig::parse(text, "test", &[setting.into()]).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
