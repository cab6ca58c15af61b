//! DenseNet with filter response normalization for 32×32 color images, growth 12, reduction 1/2.
//!
//! Stem conv 3×3 (24). A layer is FRN, conv 1×1 (48), FRN, conv 3×3 (12), its output put *before*
//! what came in. A transition is FRN, conv 1×1 to half the channels, mean-pool 2. At the end FRN,
//! ReLU, mean-pool 4, dense layer. No convolution has a bias.
//!
//! Dropout stands once before the dense layer, as in the code of the paper's authors, or in every
//! layer on what it adds, before that is put to what came in, as in the paper's text.

use super::check_classes;
use crate::error::Result;
use crate::network::{Conv2d, Network, NetworkBuilder, Shape};

/// Channels that each layer adds.
const GROWTH: usize = 12;

/// DenseNet-121-FRN: blocks of 6, 12, 24 and 16 layers; `dropout` that stays on before the dense
/// layer.
///
/// # Errors
/// As [`densenet`].
pub fn densenet121(classes: usize, dropout: Option<f64>) -> Result<Network> {
    let name = ["densenet121", "densenet121-dropout"][usize::from(dropout.is_some())];
    densenet(name, classes, &[6, 12, 24, 16], dropout)
}

/// DenseNet-101-FRN: blocks of 6, 12, 24 and 8 layers; `dropout` that stays on before the dense
/// layer.
///
/// # Errors
/// As [`densenet`].
pub fn densenet101(classes: usize, dropout: Option<f64>) -> Result<Network> {
    let name = ["densenet101", "densenet101-dropout"][usize::from(dropout.is_some())];
    densenet(name, classes, &[6, 12, 24, 8], dropout)
}

/// DenseNet-121-FRN with dropout that stays on in every layer of the blocks, on the maps that it
/// adds.
///
/// # Errors
/// As [`densenet`].
pub fn densenet121_inner_dropout(classes: usize, rate: f64) -> Result<Network> {
    densenet_inner_dropout("densenet121-dropout", classes, &[6, 12, 24, 16], rate)
}

/// DenseNet-101-FRN with dropout that stays on in every layer of the blocks, on the maps that it
/// adds.
///
/// # Errors
/// As [`densenet`].
pub fn densenet101_inner_dropout(classes: usize, rate: f64) -> Result<Network> {
    densenet_inner_dropout("densenet101-dropout", classes, &[6, 12, 24, 8], rate)
}

/// A DenseNet with these blocks, and `dropout` that stays on before the dense layer.
///
/// # Errors
/// [`crate::Error::Input`] for 0 classes, [`crate::Error::Layer`] for a rate outside `[0, 1)`
/// or more blocks than the image can be halved for.
pub fn densenet(
    name: &str,
    classes: usize,
    blocks: &[usize],
    dropout: Option<f64>,
) -> Result<Network> {
    build(name, classes, blocks, None, dropout)
}

/// A DenseNet with these blocks, and dropout that stays on in every layer of them.
///
/// # Errors
/// As [`densenet`].
pub fn densenet_inner_dropout(
    name: &str,
    classes: usize,
    blocks: &[usize],
    rate: f64,
) -> Result<Network> {
    build(name, classes, blocks, Some(rate), None)
}

/// A DenseNet with rates of dropout inside its layers and before the dense layer.
fn build(
    name: &str,
    classes: usize,
    blocks: &[usize],
    inner: Option<f64>,
    last: Option<f64>,
) -> Result<Network> {
    check_classes(classes)?;
    let mut net = NetworkBuilder::new(name, Shape::new(3, 32, 32));
    let wide = |channels, kernel| Conv2d::new(channels, kernel).no_bias();
    let mut x = net.input();
    x = net.conv2d("stem.conv", x, wide(2 * GROWTH, 3).padding(1));
    for (block, &layers) in blocks.iter().enumerate() {
        for layer in 1..=layers {
            let at = |part: &str| format!("dense{}.layer{layer}.{part}", block + 1);
            let mut y = net.frn_tlu(&at("frn1"), x);
            y = net.conv2d(&at("conv1"), y, wide(4 * GROWTH, 1));
            y = net.frn_tlu(&at("frn2"), y);
            y = net.conv2d(&at("conv2"), y, wide(GROWTH, 3).padding(1));
            if let Some(rate) = inner {
                y = net.dropout(&at("dropout"), y, rate, true);
            }
            x = net.concat(&at("concat"), &[y, x]);
        }
        if block + 1 < blocks.len() {
            let at = |part: &str| format!("transition{}.{part}", block + 1);
            let half = net.shape(x).channels / 2;
            x = net.frn_tlu(&at("frn"), x);
            x = net.conv2d(&at("conv"), x, wide(half, 1));
            x = net.avg_pool(&at("pool"), x, 2, 2);
        }
    }
    x = net.frn_tlu("final.frn", x);
    x = net.relu("final.relu", x);
    x = net.avg_pool("pool", x, 4, 4);
    x = net.flatten("flatten", x);
    if let Some(rate) = last {
        x = net.dropout("dropout", x, rate, true);
    }
    x = net.linear("fc", x, classes);
    net.build(x)
}
