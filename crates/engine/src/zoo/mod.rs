//! The networks of the paper.
//!
//! | name | layers | parameters |
//! |---|---|---|
//! | `lenet` | two 5×5 convolutions, three dense layers; 28×28 gray | 44,426 (10 classes) |
//! | `resnet20` | ResNet-20 with FRN; 32×32 color | 274,042 (10 classes) |
//! | `densenet121` | DenseNet-121 with FRN, growth 12 | 1,050,928 (100 classes) |
//! | `densenet101` | the same with blocks 6/12/24/8 | 863,776 (100 classes) |
//!
//! The names `lenet-dropout`, `resnet20-dropout`, `densenet121-dropout` and `densenet101-dropout`
//! have dropout that stays on when predicting, at the places where Monte Carlo dropout has it;
//! [`densenet121_inner_dropout`] and [`densenet101_inner_dropout`] have it at others.

mod densenet;
mod lenet;
mod resnet20;

pub use densenet::{
    densenet, densenet_inner_dropout, densenet101, densenet101_inner_dropout, densenet121,
    densenet121_inner_dropout,
};
pub use lenet::{lenet, lenet_dropout};
pub use resnet20::{resnet20, resnet20_dropout};

use crate::error::{Error, Result, check_range};
use crate::network::Network;

/// Names that [`by_name`] knows.
pub const NAMES: [&str; 8] = [
    "lenet",
    "resnet20",
    "densenet121",
    "densenet101",
    "lenet-dropout",
    "resnet20-dropout",
    "densenet121-dropout",
    "densenet101-dropout",
];

/// Rate of the dropout variants.
pub const DROPOUT_RATE: f64 = 0.05;

/// The network of this name, with the paper's number of classes unless told otherwise.
///
/// ```
/// assert_eq!(engine::zoo::by_name("resnet20", None)?.parameter_count(), 274_042);
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// [`Error::UnknownNetwork`], or [`Error::Input`] for 0 classes.
pub fn by_name(name: &str, classes: Option<usize>) -> Result<Network> {
    let ten = classes.unwrap_or(10);
    let hundred = classes.unwrap_or(100);
    match name {
        "lenet" => lenet(ten),
        "resnet20" => resnet20(ten),
        "densenet121" => densenet121(hundred, None),
        "densenet101" => densenet101(hundred, None),
        "lenet-dropout" => lenet_dropout(ten, DROPOUT_RATE),
        "resnet20-dropout" => resnet20_dropout(ten, DROPOUT_RATE),
        "densenet121-dropout" => densenet121(hundred, Some(DROPOUT_RATE)),
        "densenet101-dropout" => densenet101(hundred, Some(DROPOUT_RATE)),
        _ => Err(Error::UnknownNetwork {
            name: name.into(),
            known: NAMES.join(", "),
        }),
    }
}

fn check_classes(classes: usize) -> Result<()> {
    check_range("classes", classes, 100_000, "1..=100000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted_as_in_the_paper() {
        for (name, classes, want) in [
            ("lenet", None, 44_426),
            ("resnet20", None, 274_042),
            ("densenet121", None, 1_050_928),
            ("densenet121", Some(10), 1_016_278),
            ("densenet101", None, 863_776),
            ("lenet-dropout", None, 44_426),
            ("resnet20-dropout", None, 274_042),
            ("densenet121-dropout", None, 1_050_928),
            ("densenet101-dropout", None, 863_776),
        ] {
            assert_eq!(
                by_name(name, classes).unwrap().parameter_count(),
                want,
                "{name}"
            );
        }
        assert!(NAMES.iter().all(|name| by_name(name, None).is_ok()));
    }

    #[test]
    fn unknown_names_and_no_classes_are_refused() {
        let message = by_name("vgg", None).unwrap_err().to_string();
        assert!(
            message.starts_with("no network \"vgg\"; known are lenet, "),
            "{message}"
        );
        let message = by_name("lenet", Some(0)).unwrap_err().to_string();
        assert_eq!(message, "classes 0 is not in 1..=100000");
    }

    #[test]
    fn dropout_layers_are_counted() {
        let count = |name| {
            let net = by_name(name, None).unwrap();
            let label = |layer: &&crate::network::Layer| layer.kind.label() == "dropout";
            net.layers().iter().filter(label).count()
        };
        assert_eq!(NAMES.map(count), [0, 0, 0, 0, 2, 18, 1, 1]);
    }

    /// One in each layer of the blocks, on its twelve new maps, and none before the dense layer.
    #[test]
    fn inner_dropout_is_on_what_a_layer_adds() {
        for (net, plain, layers) in [
            (
                densenet121_inner_dropout(100, 0.05),
                densenet121(100, None),
                58,
            ),
            (
                densenet101_inner_dropout(10, 0.05),
                densenet101(10, None),
                50,
            ),
        ] {
            let (net, plain) = (net.unwrap(), plain.unwrap());
            let parameters = |net: &Network| -> Vec<String> {
                net.parameters().iter().map(|p| p.name.clone()).collect()
            };
            assert_eq!(parameters(&net), parameters(&plain));
            let found: Vec<_> = net
                .layers()
                .iter()
                .filter(|layer| layer.kind.label() == "dropout")
                .collect();
            assert_eq!(found.len(), layers);
            for layer in found {
                assert!(layer.name.starts_with("dense"), "{}", layer.name);
                let value = net.output(&layer.name).unwrap();
                assert_eq!(net.shapes[value.index()].channels, 12);
            }
            assert_eq!(net.layers().len(), plain.layers().len() + layers);
        }
        assert!(densenet121_inner_dropout(10, 1.0).is_err());
    }
}
