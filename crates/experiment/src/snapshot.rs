//! The state of a run between two steps: one file, replaced as a whole, from which the run goes on to the same bits.
//!
//! A safetensors file. `__metadata__.progress` is a JSON object ([`Progress`]), `__metadata__.config` the config as far as the training
//! depends on it; tensors are `parameters`, `optimizer`, and as far as they are
//! there `swag`, `best.parameters`, `best.optimizer`, `best.swag`. `optimizer` and `swag` are the bytes of safetensors files of their own.

use std::collections::HashMap;
use std::path::Path;

use evaluation::record::{EpochPoint, Updates};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::files;
use crate::weights::{from_bytes, to_bytes};

/// Version of the file.
const FORMAT: &str = "maxitive-checkpoint/1";

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// `maxitive-checkpoint/1`.
    pub format: String,
    /// Epoch at work, from 0; the number of epochs when all are done.
    pub epoch: usize,
    /// Steps of the epoch that are done.
    pub step: usize,
    /// Gradients taken, which choose the dropout masks.
    pub draws: u64,
    /// Sum over the images of the epoch's losses.
    pub loss_sum: f64,
    /// Right predictions of the epoch.
    pub right: u64,
    /// Images of the epoch.
    pub images: u64,
    /// What the updates of the epoch met; nothing in older checkpoints.
    #[serde(default)]
    pub updates: Updates,
    /// Seconds of the epoch so far.
    pub epoch_s: f64,
    /// Epochs behind.
    pub curves: Vec<EpochPoint>,
    /// Epoch and validation loss of the best weights.
    pub best: Option<(usize, f64)>,
    /// Seconds since 1970 at the first start.
    pub started_unix: u64,
    /// Seconds of training so far.
    pub train_s: f64,
    /// Seconds of validation so far.
    pub validation_s: f64,
    /// How often the run was resumed.
    pub resumed: u32,
    /// Images the run trains on.
    pub train_images: usize,
}

impl Progress {
    /// The start of a run.
    pub fn new(started_unix: u64, train_images: usize) -> Self {
        Self {
            format: FORMAT.into(),
            epoch: 0,
            step: 0,
            draws: 0,
            loss_sum: 0.0,
            right: 0,
            images: 0,
            updates: Updates::default(),
            epoch_s: 0.0,
            curves: Vec::new(),
            best: None,
            started_unix,
            train_s: 0.0,
            validation_s: 0.0,
            resumed: 0,
            train_images,
        }
    }
}

/// Weights with what belongs to them.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    /// The weights.
    pub parameters: Vec<f32>,
    /// The state of the rule.
    pub optimizer: Option<Vec<u8>>,
    /// SWAG's moments.
    pub swag: Option<Vec<u8>>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The config, as far as the training depends on it.
    pub config: RunConfig,
    /// Where the run is.
    pub progress: Progress,
    /// The weights now.
    pub now: Weights,
    /// The weights of lowest validation loss.
    pub best: Option<Weights>,
}

impl Snapshot {
    /// Replaces the file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut tensors = Vec::new();
        let mut add = |prefix: &str, weights: &Weights| {
            let bytes = to_bytes(&weights.parameters);
            let shape = vec![weights.parameters.len()];
            tensors.push((format!("{prefix}parameters"), Dtype::F32, shape, bytes));
            for (name, part) in [("optimizer", &weights.optimizer), ("swag", &weights.swag)] {
                if let Some(bytes) = part {
                    let shape = vec![bytes.len()];
                    tensors.push((format!("{prefix}{name}"), Dtype::U8, shape, bytes.clone()));
                }
            }
        };
        add("", &self.now);
        if let Some(best) = &self.best {
            add("best.", best);
        }
        let malformed = |error: &dyn std::fmt::Display| Error::malformed(path, error.to_string());
        let progress = serde_json::to_string(&self.progress).map_err(|error| malformed(&error))?;
        let config = serde_json::to_string(&self.config).map_err(|error| malformed(&error))?;
        let metadata = HashMap::from([
            ("progress".to_owned(), progress),
            ("config".to_owned(), config),
        ]);
        let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
            let view = TensorView::new(*dtype, shape.clone(), bytes)
                .expect("a tensor has as many entries as its shape says");
            (name.as_str(), view)
        });
        let bytes =
            safetensors::serialize(views, Some(metadata)).map_err(|error| malformed(&error))?;
        files::write_atomically(path, &bytes)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// A file that is not a snapshot, or one of another version.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = files::read(path)?;
        let malformed = |problem: String| Error::malformed(path, problem);
        let (_, header) = SafeTensors::read_metadata(&bytes)
            .map_err(|error| malformed(format!("no safetensors file: {error}")))?;
        let file = SafeTensors::deserialize(&bytes)
            .map_err(|error| malformed(format!("no safetensors file: {error}")))?;
        let text = |name: &str| {
            header
                .metadata()
                .as_ref()
                .and_then(|metadata| metadata.get(name))
                .ok_or_else(|| malformed("no checkpoint of a run".into()))
        };
        let value: serde_json::Value = serde_json::from_str(text("progress")?)
            .map_err(|error| malformed(error.to_string()))?;
        let format = value.get("format").and_then(|value| value.as_str());
        if format != Some(FORMAT) {
            let found = format.unwrap_or("none");
            return Err(malformed(format!("format {found}, expected {FORMAT}")));
        }
        let progress: Progress =
            serde_json::from_value(value).map_err(|error| malformed(error.to_string()))?;
        let part = |name: &str, dtype: Dtype| match file.tensor(name) {
            Ok(view) if view.dtype() == dtype => Ok(Some(view.data().to_vec())),
            Ok(_) => Err(malformed(format!("tensor \"{name}\" is not {dtype:?}"))),
            Err(_) => Ok(None),
        };
        let weights = |prefix: &str| -> Result<Option<Weights>> {
            let Some(bytes) = part(&format!("{prefix}parameters"), Dtype::F32)? else {
                return Ok(None);
            };
            Ok(Some(Weights {
                parameters: from_bytes(&bytes),
                optimizer: part(&format!("{prefix}optimizer"), Dtype::U8)?,
                swag: part(&format!("{prefix}swag"), Dtype::U8)?,
            }))
        };
        Ok(Self {
            config: serde_json::from_str(text("config")?)
                .map_err(|error| malformed(error.to_string()))?,
            now: weights("")?
                .ok_or_else(|| malformed("tensor \"parameters\" is missing".into()))?,
            best: weights("best.")?,
            progress,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> RunConfig {
        let config = crate::preset::run("fashion-mnist-lenet/ivon", &[]).unwrap();
        config.of_training()
    }

    #[test]
    fn a_snapshot_comes_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint.safetensors");
        let mut progress = Progress::new(17, 540);
        progress.loss_sum = 0.1 + 0.2;
        progress.best = Some((3, 1.0 / 3.0));
        let weights = |x: f32| Weights {
            parameters: vec![x, f32::MIN_POSITIVE, -0.0],
            optimizer: Some(vec![1, 2, 3]),
            swag: None,
        };
        let snapshot = Snapshot {
            config: config(),
            progress,
            now: weights(0.1),
            best: Some(weights(0.3)),
        };
        snapshot.write(&path).unwrap();
        assert_eq!(Snapshot::read(&path).unwrap(), snapshot);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint.safetensors");
        std::fs::write(&path, "hello").unwrap();
        let message = Snapshot::read(&path).unwrap_err().to_string();
        assert!(
            message.contains("checkpoint.safetensors: no safetensors file"),
            "{message}"
        );
        let lenet = engine::zoo::lenet(10).unwrap();
        crate::weights::write(&path, &lenet, &lenet.initial_parameters(0)).unwrap();
        let message = Snapshot::read(&path).unwrap_err().to_string();
        assert!(message.ends_with("no checkpoint of a run"), "{message}");
        let mut progress = Progress::new(0, 1);
        progress.format = "maxitive-checkpoint/99".into();
        let now = Weights {
            parameters: vec![0.0],
            optimizer: None,
            swag: None,
        };
        let best = None;
        Snapshot {
            config: config(),
            progress,
            now,
            best,
        }
        .write(&path)
        .unwrap();
        let message = Snapshot::read(&path).unwrap_err().to_string();
        assert!(
            message.contains("format maxitive-checkpoint/99, expected"),
            "{message}"
        );
    }
}
