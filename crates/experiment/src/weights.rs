//! Weights as safetensors files with the names and shapes of PyTorch's state dict.

use std::path::Path;

use engine::Network;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::error::{Error, Result};
use crate::files;

/// Little-endian bytes.
pub fn to_bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect()
}

/// Numbers from little-endian bytes.
pub fn from_bytes(bytes: &[u8]) -> Vec<f32> {
    let numbers = bytes.as_chunks().0.iter();
    numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Writes the flat vector as named tensors.
pub fn write(path: &Path, network: &Network, flat: &[f32]) -> Result<()> {
    files::write_atomically(path, &encode(path, network, flat)?)
}

/// The content of the file that [`write()`] makes.
///
/// # Errors
/// Not as many weights as the network has.
pub fn encode(path: &Path, network: &Network, flat: &[f32]) -> Result<Vec<u8>> {
    let parts: Vec<_> = network
        .export(flat)?
        .map(|(name, shape, values)| (name, shape.to_vec(), to_bytes(values)))
        .collect();
    let views = parts.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes)
            .expect("a parameter has as many entries as its shape says");
        (*name, view)
    });
    safetensors::serialize(views, None).map_err(|error| Error::malformed(path, error))
}

/// Reads the flat vector of a network from named tensors.
///
/// # Errors
/// A file that is no safetensors file, or whose tensors are not those of the network.
pub fn read(path: &Path, network: &Network) -> Result<Vec<f32>> {
    decode(path, &files::read(path)?, network)
}

/// The same of a file whose content was read already.
///
/// # Errors
/// As [`read`].
pub fn decode(path: &Path, bytes: &[u8], network: &Network) -> Result<Vec<f32>> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|error| Error::malformed(path, format!("no safetensors file: {error}")))?;
    let mut parts = Vec::new();
    for (name, view) in file.tensors() {
        if view.dtype() != Dtype::F32 {
            let problem = format!("tensor \"{name}\" is {:?}, expected F32", view.dtype());
            return Err(Error::malformed(path, problem));
        }
        if let Ok(parameter) = network.parameter(&name)
            && parameter.shape != view.shape()
        {
            let (got, want) = (view.shape(), &parameter.shape);
            let problem = format!("tensor \"{name}\" has shape {got:?}, expected {want:?}");
            return Err(Error::malformed(path, problem));
        }
        parts.push((name, from_bytes(view.data())));
    }
    network
        .import(
            parts
                .iter()
                .map(|(name, values)| (name.as_str(), values.as_slice())),
        )
        .map_err(|error| Error::malformed(path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_come_back_and_those_of_another_network_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.safetensors");
        let lenet = engine::zoo::lenet(10).unwrap();
        let weights = lenet.initial_parameters(3);
        write(&path, &lenet, &weights).unwrap();
        assert_eq!(read(&path, &lenet).unwrap(), weights);
        let refusal = |network: &Network| read(&path, network).unwrap_err().to_string();
        let message = refusal(&engine::zoo::lenet(11).unwrap());
        let is_named = message.contains("expected [11, 84]") || message.contains("expected [11]");
        assert!(is_named, "{message}");
        let message = refusal(&engine::zoo::resnet20(10).unwrap());
        assert!(message.contains("no parameter"), "{message}");
        std::fs::write(&path, b"not a tensor").unwrap();
        let message = refusal(&lenet);
        assert!(message.contains("no safetensors file"), "{message}");
    }
}
