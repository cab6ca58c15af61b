//! A finished run for other programs: `model.onnx` (see [`crate::onnx`]), or
//! `weights.safetensors`, named as in PyTorch's state dict, and `network.json`, which says how they
//! are used.
//!
//! A layer of `network.json` has a `name`, a `kind` (as `maxitive net` prints it), the names of
//! its `inputs` (`input` is the image, other names are layers), the shape of its `output`
//! (channels, height, width), its `parameters` by name, and its settings: `kernel`, `stride` and
//! `padding` (`[top, left, bottom, right]`) of convolutions, `size` and `stride` of pools, `rate`
//! and `always_on` of dropout. The last layer gives the logits.

use std::path::Path;

use engine::network::{Layer, LayerKind, Network, Shape};
use evaluation::record::Checkpoint;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::files;
use crate::model::Model;
use crate::onnx;
use crate::weights;

/// The weights.
pub const WEIGHTS: &str = "weights.safetensors";
/// The description.
pub const NETWORK: &str = "network.json";
/// All in one file.
pub const ONNX: &str = "model.onnx";
const SCHEMA: &str = "maxitive-export/1";

/// Writes both files into a folder that has neither.
///
/// # Errors
/// The folder has one of them, the weights are not there, or a file cannot be written.
pub fn write(model: &Model, checkpoint: Checkpoint, folder: &Path) -> Result<()> {
    refuse_existing(folder, &[WEIGHTS, NETWORK])?;
    let parameters = model.weights(checkpoint)?;
    let path = folder.join(NETWORK);
    let text = files::json(&path, &describe(model, checkpoint))?;
    files::create_folder(folder)?;
    weights::write(&folder.join(WEIGHTS), model.network(), &parameters)?;
    files::write_atomically(&path, text.as_bytes())
}

/// Writes `model.onnx` into a folder that has none; its metadata have `classes`, a JSON list of
/// their names, `dataset`, `checkpoint` and `version`, that of this program.
///
/// # Errors
/// The folder has one, the weights are not there, or the file cannot be written.
pub fn write_onnx(model: &Model, checkpoint: Checkpoint, folder: &Path) -> Result<()> {
    refuse_existing(folder, &[ONNX])?;
    let classes: Vec<String> = (0..model.file().classes)
        .map(|c| model.class_name(c))
        .collect();
    let metadata = [
        ("classes", json!(classes).to_string()),
        ("dataset", model.file().dataset.clone()),
        (
            "checkpoint",
            json!(checkpoint).as_str().unwrap_or_default().into(),
        ),
        ("version", env!("CARGO_PKG_VERSION").into()),
    ];
    let parameters = model.weights(checkpoint)?;
    let bytes = onnx::encode(
        model.network(),
        &parameters,
        model.normalization(),
        &metadata,
    )?;
    files::create_folder(folder)?;
    files::write_atomically(&folder.join(ONNX), &bytes)
}

fn refuse_existing(folder: &Path, names: &[&str]) -> Result<()> {
    let mut paths = names.iter().map(|name| folder.join(name));
    match paths.find(|path| path.exists()) {
        Some(path) => Err(Error::malformed(&path, "is there already")),
        None => Ok(()),
    }
}

fn describe(model: &Model, checkpoint: Checkpoint) -> Value {
    let (file, network) = (model.file(), model.network());
    let name = |value: usize| match value {
        0 => "input",
        layer => network.layers()[layer - 1].name.as_str(),
    };
    let layers = network.layers().iter().zip(&network.shapes()[1..]);
    let layers: Vec<Value> = layers
        .map(|(layer, &output)| {
            let inputs: Vec<&str> = layer.inputs.iter().map(|v| name(v.index())).collect();
            describe_layer(network, layer, &inputs, output)
        })
        .collect();
    json!({
        "schema": SCHEMA,
        "weights": WEIGHTS,
        "checkpoint": checkpoint,
        "dataset": file.dataset,
        "images": {
            "channels": file.input[0],
            "height": file.input[1],
            "width": file.input[2],
            "resized": file.resize,
            "normalization": "(byte / 255 - mean) / std",
            "mean": file.mean,
            "std": file.std,
        },
        "classes": (0..file.classes).map(|class| model.class_name(class)).collect::<Vec<_>>(),
        "network": {
            "name": network.name(),
            "parameters": network.parameter_count(),
            "layers": layers,
        },
        "optimizer": model.config().optimizer,
    })
}

fn describe_layer(network: &Network, layer: &Layer, inputs: &[&str], output: Shape) -> Value {
    let parameters = layer.kind.parameters().into_iter();
    let parameters: Vec<&str> = parameters
        .map(|index| network.parameters()[index].name.as_str())
        .collect();
    let mut value = json!({
        "name": layer.name,
        "kind": layer.kind.label(),
        "inputs": inputs,
        "output": [output.channels, output.height, output.width],
        "parameters": parameters,
    });
    match &layer.kind {
        LayerKind::Conv2d { conv, .. } => {
            let padding = conv.padding;
            value["kernel"] = conv.kernel.into();
            value["stride"] = conv.stride.into();
            value["padding"] = json!([padding.top, padding.left, padding.bottom, padding.right]);
        }
        LayerKind::MaxPool(pool) | LayerKind::AvgPool(pool) => {
            value["size"] = json!([pool.height, pool.width]);
            value["stride"] = pool.stride.into();
        }
        LayerKind::Dropout { rate, always_on } => {
            value["rate"] = json!(rate);
            value["always_on"] = json!(always_on);
        }
        _ => {}
    }
    value
}
