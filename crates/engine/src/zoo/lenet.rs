//! LeNet for 28×28 gray images: conv 5×5 (6), ReLU, max-pool 2, conv 5×5 (16), ReLU, max-pool 2,
//! dense 120, 84, classes.

use super::check_classes;
use crate::error::Result;
use crate::network::{Conv2d, Network, NetworkBuilder, Shape};

/// LeNet.
///
/// # Errors
/// [`crate::Error::Input`] for 0 classes.
pub fn lenet(classes: usize) -> Result<Network> {
    build("lenet", classes, None)
}

/// LeNet with dropout that stays on, after each of the two hidden dense layers.
///
/// # Errors
/// [`crate::Error::Input`] for 0 classes, [`crate::Error::Layer`] for a rate outside `[0, 1)`.
pub fn lenet_dropout(classes: usize, rate: f64) -> Result<Network> {
    build("lenet-dropout", classes, Some(rate))
}

fn build(name: &str, classes: usize, dropout: Option<f64>) -> Result<Network> {
    check_classes(classes)?;
    let mut net = NetworkBuilder::new(name, Shape::new(1, 28, 28));
    let mut x = net.input();
    for (i, channels) in [(1, 6), (2, 16)] {
        x = net.conv2d(&format!("conv{i}"), x, Conv2d::new(channels, 5));
        x = net.relu(&format!("relu{i}"), x);
        x = net.max_pool(&format!("pool{i}"), x, 2, 2);
    }
    x = net.flatten("flatten", x);
    for (i, features) in [(1, 120), (2, 84)] {
        x = net.linear(&format!("fc{i}"), x, features);
        x = net.relu(&format!("fc{i}.relu"), x);
        if let Some(rate) = dropout {
            x = net.dropout(&format!("fc{i}.dropout"), x, rate, true);
        }
    }
    x = net.linear("fc3", x, classes);
    net.build(x)
}
