//! ResNet-20 with filter response normalization for 32×32 color images.
//!
//! Stem, three stages of three blocks (16, 32, 64 channels), global mean, dense layer. A block is
//! twice conv 3×3 + FRN, then the sum with the shortcut, and nothing after it. The first block of
//! stages 2 and 3 has stride 2 and the shortcut conv 1×1 + FRN.

use super::check_classes;
use crate::error::Result;
use crate::network::{Conv2d, Network, NetworkBuilder, Shape, Value};

/// ResNet-20-FRN.
///
/// # Errors
/// [`crate::Error::Input`] for 0 classes.
pub fn resnet20(classes: usize) -> Result<Network> {
    build("resnet20", classes, None)
}

/// ResNet-20-FRN with dropout that stays on: after the first FRN of each block and after the sum.
///
/// # Errors
/// [`crate::Error::Input`] for 0 classes, [`crate::Error::Layer`] for a rate outside `[0, 1)`.
pub fn resnet20_dropout(classes: usize, rate: f64) -> Result<Network> {
    build("resnet20-dropout", classes, Some(rate))
}

fn build(name: &str, classes: usize, dropout: Option<f64>) -> Result<Network> {
    check_classes(classes)?;
    let mut net = NetworkBuilder::new(name, Shape::new(3, 32, 32));
    let drop = |net: &mut NetworkBuilder, name: String, x: Value| match dropout {
        Some(rate) => net.dropout(&name, x, rate, true),
        None => x,
    };
    let mut x = net.input();
    x = net.conv2d("stem.conv", x, Conv2d::new(16, 3).same());
    x = net.frn_tlu("stem.frn", x);
    for (stage, width) in [(1, 16), (2, 32), (3, 64)] {
        for block in 1..=3 {
            let at = |part: &str| format!("stage{stage}.block{block}.{part}");
            let stride = if stage > 1 && block == 1 { 2 } else { 1 };
            let conv = Conv2d::new(width, 3).same();
            let mut y = net.conv2d(&at("conv1"), x, conv.stride(stride));
            y = net.frn_tlu(&at("frn1"), y);
            y = drop(&mut net, at("dropout1"), y);
            y = net.conv2d(&at("conv2"), y, conv);
            y = net.frn_tlu(&at("frn2"), y);
            if stride == 2 {
                let conv = Conv2d::new(width, 1).stride(2).same();
                x = net.conv2d(&at("shortcut.conv"), x, conv);
                x = net.frn_tlu(&at("shortcut.frn"), x);
            }
            x = net.add(&format!("stage{stage}.block{block}"), x, y);
            x = drop(&mut net, at("dropout2"), x);
        }
    }
    x = net.global_avg_pool("pool", x);
    x = net.linear("fc", x, classes);
    net.build(x)
}
