//! A finished run as a model: what it needs to predict for images that nobody has seen.
//!
//! Beside the weights a run leaves `model.json` (shape of the images, names of the classes,
//! constants of the normalization), and where the method needs it the state of the rule
//! (`last.state.safetensors` for rules that have the precisions of the weights there, and
//! `best.state.safetensors` at the best weights for `ivon` and for runs with a row that takes it),
//! the moments of SWAG, which are of all its snapshots (`last.swag.safetensors`), and what a row
//! with `laplace` took from the training images (`best.laplace.safetensors` and `last`). A factor
//! that `possibilistic` chose is in the record. So the folder alone predicts by any row; a method
//! that no row has, and older folders lack the file of, is fitted to the training images again,
//! which then have to be there. `model.json` has the sums of these files and of itself, and they
//! are checked when a file is read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cbopt::{Precision, Rule};
use datasets::{Images, Library, Normalization};
use engine::{Device, Input, Network, PredictorConfig, Shape};
use evaluation::record::{Checkpoint, RunRecord};
use serde::{Deserialize, Serialize};

use crate::config::{RowConfig, RunConfig};
use crate::data::RunData;
use crate::error::{Error, Result};
use crate::evaluate::Candidates;
use crate::files;
use crate::predictive::{
    ClassBounds, Labeled, LaplaceFactors, Material, Method, Predictive, Swag, Trained, laplace,
};
use crate::reading;
use crate::run::{BEST, CONFIG, LAST, RECORD, Run};
use crate::weights;

/// The file in the directory of a run.
pub const MODEL: &str = "model.json";
const SCHEMA: &str = "maxitive-model/1";

/// What `model.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Version of the format.
    pub schema: String,
    /// Name of the dataset.
    pub dataset: String,
    /// Name of the network.
    pub network: String,
    /// Channels, height and width of an image.
    pub input: [usize; 3],
    /// Whether images of another size were scaled until they covered this one, and their middle
    /// cut out.
    #[serde(default)]
    pub resize: bool,
    /// Number of classes.
    pub classes: usize,
    /// Their names in order, where they have any.
    pub class_names: Option<Vec<String>>,
    /// A byte `v` of channel `c` becomes `(v / 255 - mean[c]) / std[c]`.
    pub mean: Vec<f32>,
    /// See [`ModelFile::mean`].
    pub std: Vec<f32>,
    /// Images that it was trained on.
    pub training_images: usize,
    /// SHA-256 of the config and of the files with weights and states; empty in older files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// SHA-256 of all this as JSON without blanks; absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl ModelFile {
    pub(crate) fn of(config: &RunConfig, data: &RunData) -> Self {
        let Shape {
            channels,
            height,
            width,
        } = data.set.shape();
        Self {
            schema: SCHEMA.into(),
            dataset: data.set.name().into(),
            network: data.network.name().into(),
            input: [channels, height, width],
            resize: config.data.resize.is_some(),
            classes: data.set.classes(),
            class_names: data.set.class_names().map(<[String]>::to_vec),
            mean: data.normalization.mean().to_vec(),
            std: data.normalization.std().to_vec(),
            training_images: data.train.len(),
            files: BTreeMap::new(),
            sha256: None,
        }
    }

    /// Writes it with the sums of the files that are there.
    pub(crate) fn write(mut self, directory: &Path) -> Result<()> {
        let path = directory.join(MODEL);
        let states = ["best", "last"]
            .map(|which| [state_path, laplace_path].map(|path| path(directory, which)));
        let weights = [BEST, LAST].map(|name| directory.join(name));
        let config = directory.join(CONFIG);
        for file in weights
            .into_iter()
            .chain(states.into_iter().flatten())
            .chain([swag_path(directory), config])
        {
            if let Some(name) = file.file_name().filter(|_| file.exists()) {
                let name = name.to_string_lossy().into_owned();
                self.files.insert(name, files::sha256(&files::read(&file)?));
            }
        }
        self.sha256 = Some(self.sum(&path)?);
        files::write_atomically(&path, files::json(&path, &self)?.as_bytes())
    }

    /// Refuses the content of a file that does not have the sum that is named here.
    fn check(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let name = path.file_name().and_then(|name| name.to_str());
        match name.and_then(|name| self.files.get(name)) {
            Some(sum) => check_sum(path, &files::sha256(bytes), sum),
            None => Ok(()),
        }
    }

    /// Refuses a finished run of which a file has another sum than the one that is named here. A
    /// file that is gone may have been removed to save room, and whoever needs it will say so.
    pub(crate) fn check_files(directory: &Path) -> Result<()> {
        let path = directory.join(MODEL);
        if !path.exists() {
            return Ok(());
        }
        let file = Self::read(&path)?;
        for name in file.files.keys() {
            let known = directory.join(name);
            // a name with folders in it is nothing that we wrote
            if known.parent() == Some(directory) && known.exists() {
                file.check(&known, &files::read(&known)?)?;
            }
        }
        Ok(())
    }

    /// The sum of everything but the sum.
    fn sum(&self, path: &Path) -> Result<String> {
        let without = Self {
            sha256: None,
            ..self.clone()
        };
        let text = serde_json::to_string(&without);
        let text = text.map_err(|error| Error::malformed(path, error))?;
        Ok(files::sha256(text.as_bytes()))
    }

    fn read(path: &Path) -> Result<Self> {
        let file: Self = files::from_json(&files::read_text(path)?)
            .map_err(|error| Error::malformed(path, error))?;
        if file.schema != SCHEMA {
            let problem = format!("has the schema \"{}\", expected \"{SCHEMA}\"", file.schema);
            return Err(Error::malformed(path, problem));
        }
        if let Some(sum) = &file.sha256 {
            check_sum(path, &file.sum(path)?, sum)?;
        }
        let names = file.class_names.as_ref();
        if names.is_some_and(|names| names.len() != file.classes) {
            let problem = format!("does not name each of its {} classes", file.classes);
            return Err(Error::malformed(path, problem));
        }
        Ok(file)
    }
}

/// Refuses a file that does not have the sum it should.
fn check_sum(path: &Path, found: &str, expected: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let problem =
        format!("is damaged, or of another run: its sha256 is {found}, {MODEL} says {expected}");
    Err(Error::malformed(path, problem))
}

/// Writes what predictions need beside the weights; `which` is `best` or `last`.
pub(crate) fn write_posterior(directory: &Path, which: &str, trained: &Trained) -> Result<()> {
    if let Some((rule, state)) = &trained.optimizer
        && rule.precision_needs_state()
    {
        files::write_atomically(&state_path(directory, which), &state.to_bytes())?;
    }
    if let (Some(swag), "last") = (&trained.swag, which) {
        files::write_atomically(&swag_path(directory), &swag.to_bytes())?;
    }
    Ok(())
}

/// Writes what methods took from the training images.
pub(crate) fn write_fitted(directory: &Path, candidates: &Candidates<'_>) -> Result<()> {
    for (checkpoint, name, bytes) in candidates.posteriors() {
        files::write_atomically(&fitted_path(directory, word(checkpoint), name), &bytes)?;
    }
    Ok(())
}

fn fitted_path(directory: &Path, which: &str, name: &str) -> PathBuf {
    directory.join(format!("{which}.{name}.safetensors"))
}

fn laplace_path(directory: &Path, which: &str) -> PathBuf {
    fitted_path(directory, which, laplace::FILE)
}

fn state_path(directory: &Path, which: &str) -> PathBuf {
    directory.join(format!("{which}.state.safetensors"))
}

fn swag_path(directory: &Path) -> PathBuf {
    directory.join("last.swag.safetensors")
}

/// What the files of a checkpoint are called.
fn word(checkpoint: Checkpoint) -> &'static str {
    match checkpoint {
        Checkpoint::Best => "best",
        Checkpoint::Final => "last",
    }
}

/// A finished run, opened to predict.
#[derive(Debug)]
pub struct Model {
    directory: PathBuf,
    config: RunConfig,
    file: ModelFile,
    network: Network,
    normalization: Normalization,
}

impl Model {
    /// The model in the directory of a run.
    ///
    /// # Errors
    /// There is no run, it is not finished, or a file of it cannot be read.
    pub fn open(directory: &Path) -> Result<Self> {
        Self::open_checked(directory, None)
    }

    /// The same for a run of a network that was given to it, see [`Run::create_with`].
    ///
    /// # Errors
    /// As [`Model::open`], or it is a run of another network.
    pub fn open_with(directory: &Path, network: &Network) -> Result<Self> {
        Self::open_checked(directory, Some(network))
    }

    fn open_checked(directory: &Path, network: Option<&Network>) -> Result<Self> {
        let (path, config) = (directory.join(MODEL), directory.join(CONFIG));
        if !config.exists() {
            return Err(Error::no_run(directory));
        }
        if !path.exists() {
            let problem = "holds no model.json: the run is not finished, or was made by an older \
                           version; `maxitive resume` finishes it, an older one after its \
                           record.json is removed";
            return Err(Error::malformed(directory, problem));
        }
        let file = ModelFile::read(&path)?;
        file.check(&config, &files::read(&config)?)?;
        let run = Run::open_checked(directory, network)?;
        let [channels, height, width] = file.input;
        let config = run.config().clone();
        let input = Shape::new(channels, height, width);
        let network = config.network.build(input, file.classes)?;
        if network.input_shape() != input {
            let takes = network.input_shape();
            let problem = format!("says images of {input}, the network takes {takes}");
            return Err(Error::malformed(&path, problem));
        }
        let normalization = Normalization::new(file.mean.clone(), file.std.clone())
            .map_err(|error| Error::malformed(&path, error))?;
        if normalization.channels() != channels {
            let problem = format!("has constants for {} channels", normalization.channels());
            return Err(Error::malformed(&path, problem));
        }
        Ok(Self {
            directory: directory.into(),
            config,
            file,
            network,
            normalization,
        })
    }

    /// What `model.json` says.
    pub fn file(&self) -> &ModelFile {
        &self.file
    }

    /// The config of the run.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// Shape of the images it takes.
    pub fn input(&self) -> Shape {
        self.network.input_shape()
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What its images are normalized by.
    pub fn normalization(&self) -> &Normalization {
        &self.normalization
    }

    /// The weights of a checkpoint.
    ///
    /// # Errors
    /// They are not there, or damaged.
    pub fn weights(&self, checkpoint: Checkpoint) -> Result<Vec<f32>> {
        let path = self
            .directory
            .join(format!("{}.safetensors", word(checkpoint)));
        if checkpoint == Checkpoint::Best && !path.exists() {
            let problem = "is not there: the run had no validation images; take the last weights \
                           (--checkpoint final)";
            return Err(Error::malformed(&path, problem));
        }
        weights::decode(&path, &self.read(&path)?, &self.network)
    }

    /// The content of a file of the run, if it has the sum that `model.json` names.
    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        let bytes = files::read(path)?;
        self.file.check(path, &bytes)?;
        Ok(bytes)
    }

    /// How firmly its rule holds each weight of a checkpoint, see [`cbopt::precision`].
    ///
    /// # Errors
    /// The state of the rule is not there, or damaged.
    pub fn precision(&self, checkpoint: Checkpoint) -> Result<Precision> {
        let trained = self.trained(&[self.row_by("possibilistic")?], checkpoint)?;
        let state = trained.optimizer.as_ref().map(|(_, state)| state);
        let precision = self.rule()?.precision(self.file.training_images, state);
        precision.map_err(|error| crate::predictive::Error::from(error).into())
    }

    /// What a class is called: its name, or its number.
    pub fn class_name(&self, class: usize) -> String {
        let names = self.file.class_names.as_ref();
        names.map_or_else(|| class.to_string(), |names| names[class].clone())
    }

    /// Class probabilities `[n, classes]` of all `images`, by the method of a row, and where it
    /// bounds them what the weights still allow.
    ///
    /// The seed of samples and masks is that of the run's own evaluation, so that its test images
    /// get the probabilities that its record speaks of.
    ///
    /// # Errors
    /// Images of another shape, weights or states that are missing or damaged, or for a method
    /// that is fitted to the training set and was none of the run's, images that cannot be had.
    pub fn predict(
        &self,
        row: &RowConfig,
        checkpoint: Checkpoint,
        images: &Images,
        (device, library): (Device, &Library),
    ) -> Result<(Vec<f32>, Option<Vec<ClassBounds>>)> {
        let trained = self.trained(std::slice::from_ref(row), checkpoint)?;
        let config = PredictorConfig {
            device,
            ..PredictorConfig::default()
        };
        let mut predictive = Predictive::new(&self.network, config)?;
        let method = self.settled(row, checkpoint)?;
        let data = match method.takes_images(&trained) {
            true => Some(RunData::load(&self.config, library)?),
            false => None,
        };
        let labels = data.as_ref().map(RunData::fit_labels);
        let material = Material {
            rule: Some((self.rule()?, self.file.training_images)),
            ..match (&data, &labels) {
                (Some(data), Some(labels)) => data.material(&self.config, labels),
                _ => Labeled::NONE.into(),
            }
        };
        let fitted = predictive.fit(&method, &trained, material)?;
        let all: Vec<u32> = (0..images.len() as u32).collect();
        let input = Input::bytes(images, &self.normalization, &all);
        let seed = self.config.prediction_seed();
        let probabilities = predictive.predict(&*fitted, seed, input)?;
        Ok((probabilities, predictive.bounds(&*fitted, seed, input)?))
    }

    /// The method of a row with what it chose on images of the training set, if the record tells.
    fn settled(&self, row: &RowConfig, checkpoint: Checkpoint) -> Result<Method> {
        if !self.config.rows.contains(row) {
            return Ok(row.method);
        }
        let path = self.directory.join(RECORD);
        let record = path.exists().then(|| RunRecord::read(&path)).transpose()?;
        let evaluations = record.iter().flat_map(|record| &record.evaluations);
        let mut own =
            evaluations.filter(|found| found.row == row.row && found.checkpoint == checkpoint);
        let method = own.next().map(|found| row.method.settled(&found.details));
        Ok(method.unwrap_or(row.method))
    }

    /// A row with a method and its defaults, whether or not the config has one.
    ///
    /// # Errors
    /// There is no such method, or it needs what the run does not have.
    pub fn row_by(&self, method: &str) -> Result<RowConfig> {
        let keys = ["row", "predictive"].map(|key| (key.to_owned(), method.into()));
        let row: RowConfig = reading::from_table(&keys.into_iter().collect(), None)
            .map_err(|problem| Error::setting("method", problem.replacen("predictive: ", "", 1)))?;
        match row.method.needs(&self.config, &self.network) {
            Some(needs) => Err(Error::setting(
                "method",
                format!("\"{method}\" needs {needs}"),
            )),
            None => Ok(row),
        }
    }

    /// The row of this name; without one, the first.
    ///
    /// # Errors
    /// The config has no such row; the message has those it has.
    pub fn row(&self, name: Option<&str>) -> Result<&RowConfig> {
        let rows = &self.config.rows;
        let found = rows
            .iter()
            .find(|row| name.is_none_or(|name| row.row == name));
        found.ok_or_else(|| {
            let known: Vec<String> = rows.iter().map(|row| format!("\"{}\"", row.row)).collect();
            let name = name.unwrap_or_default();
            let path = self.directory.join(CONFIG);
            let known = known.join(", ");
            Error::malformed(&path, format!("has no row \"{name}\"; there are {known}"))
        })
    }

    /// Whether a file that [`Model::trained`] reads is not there.
    pub(crate) fn lacks(&self, rows: &[RowConfig], checkpoint: Checkpoint) -> bool {
        let which = word(checkpoint);
        let takes_state = rows.iter().any(|row| row.method.takes_state(&self.config));
        let weights = self.directory.join(format!("{which}.safetensors"));
        !weights.exists() || takes_state && !state_path(&self.directory, which).exists()
    }

    /// The weights, and what the methods of the rows need beside them.
    pub(crate) fn trained(&self, rows: &[RowConfig], checkpoint: Checkpoint) -> Result<Trained> {
        let which = word(checkpoint);
        let mut trained = Trained::new(self.weights(checkpoint)?);
        let parameters = trained.parameters.len();
        if rows.iter().any(|row| row.method.takes_state(&self.config)) {
            let rule = self.rule()?;
            let path = state_path(&self.directory, which);
            if checkpoint == Checkpoint::Best && !path.exists() {
                let problem = "is not there: none of the run's rows took the state of its rule; \
                               take the last weights (--checkpoint final)";
                return Err(Error::malformed(&path, problem));
            }
            let state = rule
                .state_from_bytes(parameters, &self.read(&path)?)
                .map_err(|error| Error::malformed(&path, error))?;
            trained.optimizer = Some((rule, state));
        }
        if rows.iter().any(|row| matches!(row.method, Method::Swag(_))) {
            let path = swag_path(&self.directory);
            let swag = Swag::from_bytes(parameters, &self.read(&path)?)
                .map_err(|error| Error::malformed(&path, error))?;
            trained.swag = Some(Arc::new(swag));
        }
        let path = laplace_path(&self.directory, which);
        let is_laplace = |row: &RowConfig| matches!(row.method, Method::Laplace(_));
        if rows.iter().any(is_laplace) && path.exists() {
            let factors = LaplaceFactors::from_bytes(&self.read(&path)?)
                .map_err(|error| Error::malformed(&path, error))?;
            trained.laplace = Some(Arc::new(factors));
        }
        Ok(trained)
    }

    /// The rule that trained the weights.
    fn rule(&self) -> Result<Rule> {
        self.config.rule(self.file.training_images)
    }
}
