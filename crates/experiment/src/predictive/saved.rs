//! States as safetensors files of `F64` tensors, with one entry in the header: a JSON object that
//! has the version.

use std::borrow::Cow;
use std::collections::HashMap;

use safetensors::tensor::View;
use safetensors::{Dtype, SafeTensors};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use crate::files;

/// A kind of state.
pub(super) struct Kind {
    /// What it is called in errors.
    pub what: &'static str,
    /// The entry of the header.
    pub entry: &'static str,
    /// The version that is written and read.
    pub version: u64,
}

#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

impl Kind {
    /// The bytes of a state; the header has the version.
    pub fn to_bytes(&self, header: &impl Serialize, tensors: Vec<(String, Tensor<'_>)>) -> Vec<u8> {
        let header = serde_json::to_string(header).expect("plain numbers are always written");
        let entries = HashMap::from([(self.entry.to_owned(), header)]);
        safetensors::serialize(tensors, Some(entries))
            .expect("names are distinct and the header is small")
    }

    /// Header and tensors of a state.
    pub fn open<'a, H: DeserializeOwned>(&'a self, bytes: &'a [u8]) -> Result<(H, File<'a>)> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| self.malformed(e))?;
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| self.malformed(e))?;
        let entry = self.entry;
        let entries = metadata.metadata().as_ref();
        let header = entries
            .and_then(|entries| entries.get(entry))
            .ok_or_else(|| self.malformed(format!("the entry '{entry}' is missing")))?;
        let wrong = |e: serde_json::Error| self.malformed(format!("the entry '{entry}': {e}"));
        let Versioned { version } = files::from_json(header).map_err(wrong)?;
        if version != self.version {
            return Err(Error::Version {
                what: self.what,
                found: version,
                expected: self.version,
            });
        }
        let header = files::from_json(header).map_err(wrong)?;
        let kind = self;
        Ok((header, File { kind, tensors }))
    }

    pub fn malformed(&self, reason: impl ToString) -> Error {
        Error::Malformed {
            what: self.what,
            reason: reason.to_string(),
        }
    }
}

/// A state whose header was read.
pub(super) struct File<'a> {
    kind: &'a Kind,
    tensors: SafeTensors<'a>,
}

impl File<'_> {
    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// The numbers of a tensor whose shape is accepted.
    pub fn tensor(&self, name: &str, accept: impl Fn(&[usize]) -> bool) -> Result<Vec<f64>> {
        let tensor = self.tensors.tensor(name);
        let tensor = tensor.map_err(|e| self.kind.malformed(e))?;
        let (dtype, shape) = (tensor.dtype(), tensor.shape());
        if dtype != Dtype::F64 || !accept(shape) {
            let reason = format!("'{name}' is {dtype:?} {shape:?}");
            return Err(self.kind.malformed(reason));
        }
        let numbers = tensor.data().as_chunks::<8>().0;
        Ok(numbers.iter().map(|b| f64::from_le_bytes(*b)).collect())
    }
}

/// A tensor that is turned to bytes only when it is written.
pub(super) struct Tensor<'a> {
    pub shape: Vec<usize>,
    pub values: &'a [f64],
}

impl View for Tensor<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F64
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    fn data_len(&self) -> usize {
        8 * self.values.len()
    }
}
