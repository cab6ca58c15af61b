//! The state of a run between two steps: one file, replaced as a whole, from which the run goes on
//! to the same bits.
//!
//! A safetensors file. `__metadata__.progress` is a JSON object ([`Progress`]),
//! `__metadata__.config` the config as far as the training depends on it; tensors are `parameters`,
//! `optimizer`, and as far as they are there `swag`, `best.parameters`, `best.optimizer`,
//! `best.swag`. `optimizer` and `swag` are the bytes of safetensors files themselves.
//! `__metadata__.sha256` is a sum over everything else, checked when the file is read. The file
//! before the last one is kept, and read if the last one is missing or damaged.

use std::collections::HashMap;
use std::io::Read;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use cbopt::Rule;
use datasets::disk;
use engine::{Device, Isa};
use evaluation::record::{EpochPoint, Updates};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::files;
use crate::predictive::{Swag, Trained};
use crate::weights::{from_bytes, to_bytes};

/// Version of the file.
const FORMAT: &str = "maxitive-checkpoint/4";
/// Versions that are read: the first does not name device and precision, and counts no updates; the
/// first two have no sum, and do not know their data; the first three name no instruction set.
const READ: [&str; 4] = [
    "maxitive-checkpoint/1",
    "maxitive-checkpoint/2",
    "maxitive-checkpoint/3",
    FORMAT,
];

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// `maxitive-checkpoint/4`.
    pub format: String,
    /// Digest of the training set, see [`datasets::ImageSet::digest`].
    #[serde(default)]
    pub data: Option<String>,
    /// Where the run was trained last.
    #[serde(default = "cpu")]
    pub device: String,
    /// The numbers it was trained with.
    #[serde(default = "f32")]
    pub precision: String,
    /// The instruction set of a processor it was trained on.
    #[serde(default)]
    pub instructions: Option<String>,
    /// Where the run went on in another way than before, which changes the last bits; in words.
    #[serde(default)]
    pub switches: Vec<String>,
    /// Epoch at work, from 0; the number of epochs when all are done.
    pub epoch: usize,
    /// Steps of the epoch that are done.
    pub step: usize,
    /// Gradients taken, which choose the dropout masks.
    pub draws: u64,
    /// Sum over the images of the epoch's losses.
    pub loss_sum: f64,
    /// Correct predictions of the epoch.
    #[serde(alias = "right")]
    pub correct: u64,
    /// Images of the epoch.
    pub images: u64,
    /// What the updates of the epoch met.
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
    /// What the header of a checkpoint says, or of the one before it; none if there is none.
    ///
    /// # Errors
    /// Neither can be read.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let mut problem = None;
        for path in [path.to_owned(), previous(path)] {
            match Self::read_header(&path) {
                Ok(progress) => return Ok(Some(progress)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    problem.get_or_insert(Error::file(&path, "read")(error));
                }
            }
        }
        problem.map_or(Ok(None), Err)
    }

    fn read_header(path: &Path) -> std::io::Result<Self> {
        let mut file = disk::open_plain(path)?;
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let mut header = Vec::new();
        file.take(u64::from_le_bytes(length))
            .read_to_end(&mut header)?;
        let header: serde_json::Value = serde_json::from_slice(&header)?;
        let progress = header["__metadata__"]["progress"].as_str();
        Ok(files::from_json(progress.unwrap_or_default())?)
    }

    /// The start of a run.
    pub fn new(started_unix: u64, train_images: usize) -> Self {
        Self {
            format: FORMAT.into(),
            data: None,
            device: cpu(),
            precision: f32(),
            instructions: None,
            switches: Vec::new(),
            epoch: 0,
            step: 0,
            draws: 0,
            loss_sum: 0.0,
            correct: 0,
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

    /// The device with the instruction set that the run was trained with so far, where the machine
    /// has it.
    pub fn keep(&self, device: Device) -> Device {
        let known = self.instructions.as_deref().and_then(Isa::by_name);
        match known {
            Some(isa) if device.is_cpu() => device.isa(isa),
            _ => device,
        }
    }

    /// Goes on with this device. Where that is not what it was trained with before, the bits will
    /// be those of neither; then this is noted and returned.
    pub fn go_on_with(&mut self, device: Device) -> Option<&str> {
        let before = self.way();
        // a file of an older program does not say with which instructions
        let is_unknown = self.device == cpu() && self.instructions.is_none();
        self.device = device.name().to_owned();
        self.precision = device.precision().name().to_owned();
        self.instructions = device
            .is_cpu()
            .then(|| device.instruction_set().name().to_owned());
        let now = self.way();
        let is_same = before == now || (is_unknown && device.is_cpu());
        if self.resumed == 0 || is_same {
            return None;
        }
        self.switches.push(format!(
            "trained with {before} up to step {} of epoch {}, and with {now} from there: the last bits \
             are those of neither alone",
            self.step,
            self.epoch + 1,
        ));
        self.switches.last().map(String::as_str)
    }

    /// What the bits depend on; one card is as good as another of its kind.
    fn way(&self) -> String {
        let kind = self.device.split(':').next().unwrap_or_default();
        match &self.instructions {
            Some(instructions) => format!("{kind} ({instructions})"),
            None => format!("{kind} ({})", self.precision),
        }
    }

    /// Adds the point of an epoch to the curves and goes on to the next.
    pub fn begin_epoch(&mut self, point: EpochPoint) {
        self.curves.push(point);
        self.epoch += 1;
        self.step = 0;
        (self.loss_sum, self.epoch_s) = (0.0, 0.0);
        (self.correct, self.images) = (0, 0);
        self.updates = Updates::default();
    }
}

/// The device of checkpoints that do not name one.
fn cpu() -> String {
    "cpu".into()
}

/// The precision of checkpoints that do not name one.
fn f32() -> String {
    "f32".into()
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The config, as far as the training depends on it.
    pub config: RunConfig,
    /// Where the run is.
    pub progress: Progress,
    /// The weights now, with the state of the rule.
    pub now: Trained,
    /// The weights of lowest validation loss; with the state of the rule where a row takes it.
    pub best: Option<Arc<Trained>>,
}

/// What a checkpoint has to go with.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The config, as far as the training depends on it.
    pub config: &'a RunConfig,
    /// The rule of the config.
    pub rule: &'a Rule,
    /// Parameters of the network.
    pub parameters: usize,
    /// Images to train on.
    pub train_images: usize,
    /// Digest of the training set.
    pub data: &'a str,
}

/// Where the file before the last one is kept.
fn previous(path: &Path) -> PathBuf {
    path.with_extension("previous.safetensors")
}

/// SHA-256 over tensors, in the order of their names, and texts.
fn digest<'a>(parts: impl Iterator<Item = (&'a str, &'a [u8])>, texts: [&str; 2]) -> String {
    let mut parts: Vec<(&str, &[u8])> = parts.collect();
    parts.sort_by_key(|(name, _)| *name);
    let mut digest = Sha256::new();
    let mut add = |bytes: &[u8]| {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    for (name, bytes) in parts {
        add(name.as_bytes());
        add(bytes);
    }
    texts.iter().for_each(|text| add(text.as_bytes()));
    files::hex(&digest.finalize())
}

impl Snapshot {
    /// Replaces the file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let bytes = self
            .to_bytes()
            .map_err(|problem| Error::malformed(path, problem))?;
        files::write_keeping(path, &previous(path), &bytes)
    }

    fn to_bytes(&self) -> std::result::Result<Vec<u8>, String> {
        let mut tensors = Vec::new();
        let mut add = |prefix: &str, trained: &Trained| {
            let bytes = to_bytes(&trained.parameters);
            let shape = vec![trained.parameters.len()];
            tensors.push((format!("{prefix}parameters"), Dtype::F32, shape, bytes));
            let state = trained
                .optimizer
                .as_ref()
                .map(|(_, state)| state.to_bytes());
            let swag = trained.swag.as_ref().map(|swag| swag.to_bytes());
            for (name, part) in [("optimizer", state), ("swag", swag)] {
                if let Some(bytes) = part {
                    let shape = vec![bytes.len()];
                    tensors.push((format!("{prefix}{name}"), Dtype::U8, shape, bytes));
                }
            }
        };
        add("", &self.now);
        if let Some(best) = &self.best {
            add("best.", best);
        }
        let progress = serde_json::to_string(&self.progress).map_err(|error| error.to_string())?;
        let config = serde_json::to_string(&self.config).map_err(|error| error.to_string())?;
        let parts = tensors
            .iter()
            .map(|(name, _, _, bytes)| (name.as_str(), &bytes[..]));
        let mut metadata = HashMap::new();
        // the first two versions had no sum
        if !READ[..2].contains(&self.progress.format.as_str()) {
            metadata.insert("sha256".to_owned(), digest(parts, [&progress, &config]));
        }
        metadata.insert("progress".to_owned(), progress);
        metadata.insert("config".to_owned(), config);
        let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
            let view = TensorView::new(*dtype, shape.clone(), bytes)
                .expect("a tensor has as many entries as its shape says");
            (name.as_str(), view)
        });
        safetensors::serialize(views, Some(metadata)).map_err(|error| error.to_string())
    }

    /// Whether there is a file, or the one before it.
    pub fn is_there(path: &Path) -> bool {
        path.exists() || previous(path).exists()
    }

    /// Reads the file; if it can't be, the one before it, with a remark on that.
    ///
    /// # Errors
    /// Files that are damaged, not snapshots, of another version, or of another run.
    pub fn read_latest(path: &Path, expected: &Expected<'_>) -> Result<(Self, Option<String>)> {
        let error = match Self::read(path, expected) {
            Ok(snapshot) => return Ok((snapshot, None)),
            Err(error) => error,
        };
        match Self::read(&previous(path), expected) {
            Ok(snapshot) if path.exists() => {
                let remark = format!("{error}; the run goes on from the checkpoint before it");
                Ok((snapshot, Some(remark)))
            }
            // a process was killed between two names
            Ok(snapshot) => Ok((snapshot, None)),
            Err(_) => Err(error),
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    /// A file that is damaged, not a snapshot, one of another version, or of another run.
    pub fn read(path: &Path, expected: &Expected<'_>) -> Result<Self> {
        let bytes = files::read(path)?;
        Self::from_bytes(&bytes, expected).map_err(|problem| Error::malformed(path, problem))
    }

    fn from_bytes(bytes: &[u8], expected: &Expected<'_>) -> std::result::Result<Self, String> {
        let no_file = |error| format!("no safetensors file: {error}");
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(no_file)?;
        let file = SafeTensors::deserialize(bytes).map_err(no_file)?;
        let text = |name: &str| {
            let metadata = header.metadata().as_ref();
            metadata
                .and_then(|metadata| metadata.get(name))
                .ok_or("no checkpoint of a run")
        };
        let value =
            evaluation::json::parse(text("progress")?).map_err(|error| error.to_string())?;
        let format = value.get("format").and_then(|value| value.as_str());
        if !format.is_some_and(|format| READ.contains(&format)) {
            let found = format.unwrap_or("none");
            return Err(format!("format {found}, expected {FORMAT}"));
        }
        let mut tensors = file.tensors();
        tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
        let parts = tensors
            .iter()
            .map(|(name, view)| (name.as_str(), view.data()));
        let found = digest(parts, [text("progress")?, text("config")?]);
        match text("sha256") {
            Ok(sum) if *sum == found => {}
            Ok(sum) => return Err(format!("is damaged: its sha256 is {found}, expected {sum}")),
            Err(_) if format == Some(FORMAT) => return Err("is damaged: it has no sha256".into()),
            Err(_) => {}
        }
        let mut progress: Progress =
            serde_json::from_value(value).map_err(|error| error.to_string())?;
        progress.format = FORMAT.into();
        let mut config: RunConfig =
            files::from_json(text("config")?).map_err(|error| error.to_string())?;
        config.data.settle();
        if let Some(key) = config.difference(expected.config) {
            return Err(format!(
                "belongs to a run with another config, {key} differs; restore config.toml or \
                 begin anew elsewhere"
            ));
        }
        let (was, is) = (progress.train_images, expected.train_images);
        if was != is {
            return Err(format!(
                "belongs to a run with {was} training images, now there are {is}"
            ));
        }
        if progress
            .data
            .as_ref()
            .is_some_and(|was| was != expected.data)
        {
            return Err(
                "belongs to a run on other data: images or labels of the training set have changed \
                 since; restore them, or begin anew elsewhere"
                    .into(),
            );
        }
        let now =
            read_trained(&file, "", true, expected)?.ok_or("tensor \"parameters\" is missing")?;
        let with_state = expected.rule.predicts_with_state();
        let best = read_trained(&file, "best.", with_state, expected)?;
        if progress.best.is_some() != best.is_some() {
            return Err("tensor \"best.parameters\" does not go with the progress".into());
        }
        Ok(Self {
            config,
            progress,
            now,
            best: best.map(Arc::new),
        })
    }
}

/// The weights whose tensors begin with `prefix`, and what belongs to them; `None` if they are not
/// there. With `with_state`, the state of the rule has to be there, too.
fn read_trained(
    file: &SafeTensors<'_>,
    prefix: &str,
    with_state: bool,
    expected: &Expected<'_>,
) -> std::result::Result<Option<Trained>, String> {
    let part = |name: &str, dtype: Dtype| {
        let name = format!("{prefix}{name}");
        match file.tensor(&name) {
            Ok(view) if view.dtype() == dtype => Ok(Some(view.data().to_vec())),
            Ok(_) => Err(format!("tensor \"{name}\" is not {dtype:?}")),
            Err(_) => Ok(None),
        }
    };
    let needed = |name: &str| {
        part(name, Dtype::U8)?.ok_or_else(|| format!("tensor \"{prefix}{name}\" is missing"))
    };
    let Some(bytes) = part("parameters", Dtype::F32)? else {
        return Ok(None);
    };
    let count = expected.parameters;
    let mut trained = Trained::new(from_bytes(&bytes));
    let found = trained.parameters.len();
    if found != count {
        return Err(format!(
            "tensor \"{prefix}parameters\" has {found} entries, expected {count}"
        ));
    }
    let state = match with_state {
        true => Some(needed("optimizer")?),
        false => part("optimizer", Dtype::U8)?,
    };
    if let Some(bytes) = state {
        let rule = expected.rule;
        let state = rule.state_from_bytes(count, &bytes);
        let state = state.map_err(|error| error.to_string())?;
        trained.optimizer = Some((*rule, state));
    }
    if expected.config.swag.is_some() {
        let swag = Swag::from_bytes(count, &needed("swag")?).map_err(|error| error.to_string())?;
        trained.swag = Some(Arc::new(swag));
    }
    Ok(Some(trained))
}

/// Writes snapshots beside the training, at most one at a time.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    writing: Option<JoinHandle<Result<()>>>,
}

impl Writer {
    /// A writer that replaces this file.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            writing: None,
        }
    }

    /// Whether a snapshot is still being written.
    pub fn is_busy(&self) -> bool {
        let writing = self.writing.as_ref();
        writing.is_some_and(|thread| !thread.is_finished())
    }

    /// Begins to write a snapshot, after the one before.
    ///
    /// # Errors
    /// The one before could not be written.
    pub fn begin(&mut self, snapshot: Snapshot) -> Result<()> {
        self.finish()?;
        let path = self.path.clone();
        let thread = thread::Builder::new().name("checkpoint".into());
        let writing = thread.spawn(move || snapshot.write(&path));
        self.writing = Some(writing.map_err(Error::file(&self.path, "written"))?);
        Ok(())
    }

    /// Waits until everything is written.
    ///
    /// # Errors
    /// It could not be written.
    pub fn finish(&mut self) -> Result<()> {
        match self.writing.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(written)) => written,
            Some(Err(panic)) => resume_unwind(panic),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // the folder is locked as long as somebody writes there; what failed was not asked for any
        // more
        if let Some(thread) = self.writing.take() {
            let _ = thread.join();
        }
    }
}

#[doc(hidden)]
pub mod example {
    //! Small checkpoints, for tests with damaged ones. No part of the interface.

    use super::*;
    use cbopt::Update;
    use std::sync::LazyLock;

    /// Parameters of a network that is none.
    pub(super) const PARAMETERS: usize = 3;
    /// Images of a run that is none.
    pub(super) const IMAGES: usize = 540;
    const METHODS: [&str; 2] = ["ivon", "swag"];

    /// A run of this method of the paper between two steps, and its rule.
    pub(super) fn snapshot(method: &str) -> Result<(Snapshot, Rule)> {
        let config = crate::preset::run(&format!("fashion-mnist-lenet/{method}"), &[])?;
        let rule = config.optimizer.build(IMAGES, 1)?;
        let swag = match &config.swag {
            Some(swag) => {
                let mut swag = Swag::new(PARAMETERS, swag.rank)?;
                swag.collect(&[0.5; PARAMETERS])?;
                Some(Arc::new(swag))
            }
            None => None,
        };
        let trained = |x: f32| Trained {
            parameters: vec![x, f32::MIN_POSITIVE, -0.0],
            optimizer: Some((rule, rule.state(PARAMETERS))),
            swag: swag.clone(),
            laplace: None,
        };
        let mut progress = Progress::new(17, IMAGES);
        progress.loss_sum = 0.1 + 0.2;
        progress.best = Some((3, 1.0 / 3.0));
        let snapshot = Snapshot {
            config: config.of_training(),
            progress,
            now: trained(0.1),
            best: Some(Arc::new(trained(0.3))),
        };
        Ok((snapshot, rule))
    }

    /// Files of today, and of a version that had no sum, so that damage gets further.
    pub fn files() -> Vec<Vec<u8>> {
        let made = METHODS.into_iter().flat_map(|method| {
            let (now, _) = snapshot(method).expect("a method of the paper");
            let mut before = now.clone();
            before.progress.format = READ[1].into();
            [now, before].map(|snapshot| snapshot.to_bytes().expect("finite numbers"))
        });
        made.collect()
    }

    /// Whether the bytes are a checkpoint of one of these runs.
    pub fn read(bytes: &[u8]) -> bool {
        static RUNS: LazyLock<Vec<(Snapshot, Rule)>> = LazyLock::new(|| {
            let made = METHODS.map(|method| snapshot(method).expect("a method of the paper"));
            made.into()
        });
        let read = |(snapshot, rule): &&(Snapshot, Rule)| {
            let expected = Expected {
                config: &snapshot.config,
                rule,
                parameters: PARAMETERS,
                train_images: IMAGES,
                data: "",
            };
            Snapshot::from_bytes(bytes, &expected).is_ok()
        };
        RUNS.iter().filter(read).count() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::example::{IMAGES, PARAMETERS};

    fn snapshot() -> Snapshot {
        example::snapshot("ivon").unwrap().0
    }

    fn read(path: &Path, snapshot: &Snapshot) -> Result<Snapshot> {
        let (rule, _) = snapshot.now.optimizer.as_ref().unwrap();
        let expected = Expected {
            config: &snapshot.config,
            rule,
            parameters: PARAMETERS,
            train_images: IMAGES,
            data: "of the test",
        };
        Snapshot::read(path, &expected)
    }

    #[test]
    fn a_snapshot_comes_back_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint.safetensors");
        let snapshot = snapshot();
        let mut writer = Writer::new(path.clone());
        writer.begin(snapshot.clone()).unwrap();
        writer.finish().unwrap();
        assert_eq!(read(&path, &snapshot).unwrap(), snapshot);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn checkpoints_of_the_first_version_are_read() {
        let progress = Progress {
            correct: 7,
            ..Progress::new(17, 540)
        };
        let mut old = serde_json::to_value(&progress).unwrap();
        let keys = old.as_object_mut().unwrap();
        for key in ["device", "precision", "updates", "instructions", "switches"] {
            keys.remove(key).unwrap();
        }
        let correct = keys.remove("correct").unwrap();
        keys.insert("right".into(), correct);
        assert_eq!(serde_json::from_value::<Progress>(old).unwrap(), progress);
        let versions = [1, 2, 3, 4].map(|number| format!("maxitive-checkpoint/{number}"));
        assert_eq!(READ[..], versions);
    }

    #[test]
    fn a_run_says_where_it_went_on_in_another_way() {
        let (cpu, portable) = (Device::cpu(), Device::cpu().isa(Isa::portable()));
        let mut progress = Progress::new(17, 540);
        assert_eq!(progress.go_on_with(portable), None);
        progress.resumed = 1;
        // what it began with is kept
        assert_eq!(progress.keep(cpu), portable);
        assert_eq!(progress.go_on_with(portable), None);
        // another instruction set than this machine has
        progress.instructions = Some("avx9000".into());
        assert_eq!(progress.keep(cpu), cpu);
        (progress.epoch, progress.step) = (2, 7);
        let name = cpu.instruction_set().name();
        let said = format!(
            "trained with cpu (avx9000) up to step 7 of epoch 3, and with cpu ({name}) from there: the \
             last bits are those of neither alone"
        );
        assert_eq!(progress.go_on_with(cpu), Some(said.as_str()));
        assert_eq!(progress.go_on_with(cpu), None);
        assert_eq!(progress.switches, [said]);
        // from a card to the processor
        (progress.device, progress.instructions) = ("cuda:1".into(), None);
        let said = progress.go_on_with(cpu).unwrap();
        assert!(
            said.starts_with("trained with cuda (f32) up to step 7"),
            "{said}"
        );
        // files of older programs do not know
        progress.instructions = None;
        assert_eq!(progress.go_on_with(cpu), None);
    }

    #[test]
    fn a_damaged_checkpoint_is_noticed_and_the_one_before_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint.safetensors");
        let (rule, _) = snapshot().now.optimizer.unwrap();
        let mut first = snapshot();
        first.progress.data = Some("of the test".into());
        let mut second = first.clone();
        second.progress.draws = 9;
        let expected = Expected {
            config: &first.config,
            rule: &rule,
            parameters: PARAMETERS,
            train_images: IMAGES,
            data: "of the test",
        };
        first.write(&path).unwrap();
        second.write(&path).unwrap();
        let whole = std::fs::read(&path).unwrap();
        // every bit counts, but for some of the first eight bytes, which say how long the header is
        for at in (8..whole.len()).step_by(5) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(&path, &bytes).unwrap();
            let (found, remark) = Snapshot::read_latest(&path, &expected).unwrap();
            match remark {
                Some(remark) => {
                    assert_eq!(found, first);
                    assert!(
                        remark.ends_with("goes on from the checkpoint before it"),
                        "{remark}"
                    );
                }
                // blanks after the header say nothing
                None => assert!(found == second && whole[at] == b' ', "byte {at}"),
            }
        }
        std::fs::remove_file(&path).unwrap();
        let (found, remark) = Snapshot::read_latest(&path, &expected).unwrap();
        assert_eq!((found, remark), (first.clone(), None));
        let other = Expected {
            data: "of another set",
            ..expected
        };
        let refusal = || {
            Snapshot::read_latest(&path, &other)
                .unwrap_err()
                .to_string()
        };
        let message = refusal();
        assert!(message.contains("cannot be read"), "{message}");
        first.write(&path).unwrap();
        let message = refusal();
        let is_named = message.contains("belongs to a run on other data");
        assert!(is_named, "{message}");
    }

    #[test]
    fn a_failure_beside_the_training_comes_to_light() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nowhere/checkpoint.safetensors");
        let mut writer = Writer::new(path);
        writer.begin(snapshot()).unwrap();
        let message = writer.begin(snapshot()).unwrap_err().to_string();
        assert!(message.ends_with("cannot be written"), "{message}");
        writer.finish().unwrap();
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("checkpoint.safetensors");
        let mut snapshot = snapshot();
        let assert_refused = |snapshot: &Snapshot, end: &str| {
            let found = read(&path, snapshot).unwrap_err().to_string();
            assert!(found.ends_with(end), "{found}");
        };
        std::fs::write(&path, "hello").unwrap();
        let found = read(&path, &snapshot).unwrap_err().to_string();
        let is_named = found.contains("checkpoint.safetensors: no safetensors file");
        assert!(is_named, "{found}");
        let lenet = engine::zoo::lenet(10).unwrap();
        crate::weights::write(&path, &lenet, &lenet.initial_parameters(0)).unwrap();
        assert_refused(&snapshot, "no checkpoint of a run");
        snapshot.now.parameters.push(0.0);
        snapshot.write(&path).unwrap();
        let longer = "tensor \"parameters\" has 4 entries, expected 3";
        assert_refused(&snapshot, longer);
        snapshot.now.parameters.pop();
        snapshot.now.optimizer.take();
        snapshot.write(&path).unwrap();
        let missing = "tensor \"optimizer\" is missing";
        assert_refused(&self::snapshot(), missing);
        snapshot.progress.format = "maxitive-checkpoint/99".into();
        snapshot.write(&path).unwrap();
        let found = read(&path, &self::snapshot()).unwrap_err().to_string();
        let is_named = found.contains("format maxitive-checkpoint/99, expected");
        assert!(is_named, "{found}");
    }
}
