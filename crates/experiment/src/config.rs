//! A run as a TOML file. Unknown keys are refused, ranges are checked before anything starts, and
//! every run stores its config with all values spelled out.
//!
//! ```toml
//! name = "ucbopt"                 # runs are called ucbopt-seed0, ucbopt-seed1, …
//! experiment = "fmnist"           # what the run belongs to; the paper's values are looked up by it
//! seed = 0
//!
//! [data]
//! dataset = "fashion-mnist"
//! out_of_domain = ["notmnist", "kmnist", "mnist"]
//!
//! [network]
//! name = "lenet"
//!
//! [train]
//! epochs = 100
//!
//! [optimizer]
//! rule = "ucbopt"
//! lr = 0.01
//! vartheta = 8e-6
//!
//! [schedule]
//! shape = "warmup-cosine"
//!
//! [[rows]]                        # the rows of the table that this run gives
//! row = "uCBOpt"
//! predictive = "point"
//! ```

use std::path::Path;

use cbopt::{Rule, RuleConfig, Schedule, ScheduleConfig};
use datasets::Augmentation;
use engine::{Device, Network, Precision, Shape, zoo};
pub use evaluation::Score;
pub use evaluation::record::OodNormalization;
use random::Seeds;
use serde::de::DeserializeOwned;
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, Result};
use crate::files;
use crate::layers::{self, LayerConfig};
use crate::predictive::{Method, Point, swag};
use crate::reading;

/// Why writing a config does not fail.
const PLAIN: &str = "a checked config has only tables, numbers and words";

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// Name of the method; the name of the run is made of it and the seed. Letters, digits and
    /// `.+-_=`.
    pub name: String,
    /// What the run belongs to. Default `custom`.
    #[serde(default = "default_experiment")]
    pub experiment: String,
    /// Root seed, up to 2⁶³ - 1. Default 0.
    #[serde(default)]
    pub seed: u64,
    /// What is learned.
    pub data: DataConfig,
    /// What learns.
    pub network: NetworkConfig,
    /// How long.
    pub train: TrainConfig,
    /// The update rule.
    pub optimizer: OptimizerConfig,
    /// The course of the learning rate. Default `warmup-cosine`, of a section without `shape`, too.
    #[serde(default, deserialize_with = "schedule")]
    pub schedule: ScheduleConfig,
    /// Collects the moments of the weights for rows with the predictive method `swag`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swag: Option<SwagConfig>,
    /// How it is evaluated.
    #[serde(default)]
    pub evaluation: EvaluationConfig,
    /// The rows of the table that this run gives, each with a predictive method. By default one,
    /// called by the name of the run, with `point`.
    #[serde(default)]
    pub rows: Vec<RowConfig>,
}

/// A schedule whose shape may be left out.
fn schedule<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<ScheduleConfig, D::Error> {
    use serde::de::Error as _;
    let mut keys = toml::Table::deserialize(from)?;
    let shape = keys.entry("shape");
    shape.or_insert_with(|| toml::Value::String("warmup-cosine".into()));
    ScheduleConfig::deserialize(keys).map_err(|error| D::Error::custom(error.message()))
}

fn default_experiment() -> String {
    "custom".into()
}

/// Datasets and what is done with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataConfig {
    /// Dataset to train and test on: a name `maxitive data list` shows, or a folder of the user's
    /// own.
    pub dataset: String,
    /// Datasets that are not of this kind, to be told apart. Default none.
    #[serde(default)]
    pub out_of_domain: Vec<String>,
    /// Whose constants normalize the out-of-domain images: `own` as in the paper's experiments
    /// (default) or `training`.
    #[serde(default)]
    pub ood_normalization: OodNormalization,
    /// Share of the training images kept for validation, in `[0, 0.9]`. Default 0.1.
    #[serde(default = "default_share")]
    pub validation_share: f64,
    /// Which images validate: the last ones by `index`, a `shuffled` choice, or a `stratified` one
    /// with the same share of every class. Default `index` for the datasets that the program
    /// knows, which are shuffled as they are, and `stratified` for one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<SplitKind>,
    /// Seed of the shuffled and the stratified split. Default 0.
    #[serde(default)]
    pub split_seed: u64,
    /// Seed of the order of the batches; by default it follows from the seed of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle_seed: Option<u64>,
    /// `sampling` to visit every class equally often while training: an epoch has as many visits
    /// as there are images, the images of small classes several times. Default `none`.
    #[serde(default, skip_serializing_if = "Balance::is_none")]
    pub balance: Balance,
    /// Size that all images get, `side` or `[height, width]`, up to 1024: they are scaled until
    /// they cover it, and their middle is cut out. Default: they stay as they are.
    #[serde(
        default,
        deserialize_with = "size",
        skip_serializing_if = "Option::is_none"
    )]
    pub resize: Option<[usize; 2]>,
    /// 1 to make all images gray, 3 to make them color. Default: they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<usize>,
    /// Random horizontal flips while training. Default off.
    #[serde(default)]
    pub flip: bool,
    /// Random crops after padding by this many black pixels on each side while training, up to 16.
    /// Default 0.
    #[serde(default)]
    pub pad: usize,
    /// Use at most this many training images, validation included; for trials. The first ones, or
    /// with the stratified split the first ones of every class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

fn default_share() -> f64 {
    0.1
}

/// One side of a square, or height and width.
fn size<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<[usize; 2]>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a side like 32, or [height, width]")]
    enum Size {
        Side(usize),
        Sides([usize; 2]),
    }
    Ok(Some(match Size::deserialize(from)? {
        Size::Side(side) => [side, side],
        Size::Sides(sides) => sides,
    }))
}

/// How classes of different size are trained on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// Every image once an epoch.
    #[default]
    None,
    /// Every class equally often.
    Sampling,
}

impl Balance {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// Which images validate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitKind {
    /// The last ones, as in the paper's experiments.
    Index,
    /// A seeded choice.
    Shuffled,
    /// A seeded choice with the same share of every class.
    Stratified,
}

impl DataConfig {
    /// What is done to an image before each visit.
    pub fn augmentation(&self) -> Augmentation {
        Augmentation {
            flip: self.flip,
            pad: self.pad,
        }
    }

    /// The section `[data]` in the TOML file of a run; none if there is no such section.
    ///
    /// # Errors
    /// The file cannot be read, or says something else.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Section {
            data: Option<DataConfig>,
        }
        let origin = path.display().to_string();
        let section: Section = read_text(&files::read_text(path)?, &origin)?;
        Ok(section.data)
    }

    /// The form that all images get.
    pub fn form(&self) -> datasets::Form {
        datasets::Form {
            size: self.resize,
            channels: self.channels,
        }
    }

    /// Which images validate, the default included.
    pub fn split_kind(&self) -> SplitKind {
        let known = datasets::manifest::find(&self.dataset).is_some();
        self.split.unwrap_or(match known {
            true => SplitKind::Index,
            false => SplitKind::Stratified,
        })
    }

    /// Spells out what depends on where and when the config is read: the split, and the paths of
    /// datasets in the working folder, so that a run can go on from another folder.
    pub(crate) fn settle(&mut self) {
        self.split = Some(self.split_kind());
        let names = std::iter::once(&mut self.dataset).chain(&mut self.out_of_domain);
        for name in names.filter(|name| datasets::manifest::find(name).is_none()) {
            if let Ok(path) = std::path::absolute(&*name)
                && path.exists()
                && let Some(path) = path.to_str()
            {
                *name = path.into();
            }
        }
    }
}

/// The network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkConfig {
    /// `lenet`, `resnet20`, `densenet121` or `densenet101`; any other name if there are layers.
    #[serde(default)]
    pub name: String,
    /// Rate of dropout that stays on when predicting, in `(0, 1)`. Default: no dropout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Where a DenseNet has its dropout: once before the last layer (`last`), as in the code of the
    /// paper's authors, or in every layer of its blocks (`inner`), as in the paper's text. Default
    /// `last`.
    #[serde(default, skip_serializing_if = "DropoutPlace::is_default")]
    pub dropout_at: DropoutPlace,
    /// Fingerprint of a network that is none of these; the program that trains it has to give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<String>,
    /// A TOML file with `[[layers]]`, relative to the working folder; they are stored as
    /// [`NetworkConfig::layers`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The layers of a network of one's own, see [`layers`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerConfig>,
    /// The network that the fingerprint stands for, where the program gave it.
    #[serde(skip)]
    given: Option<Box<Network>>,
}

/// Where the dropout of a DenseNet is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DropoutPlace {
    /// Once, before the last layer.
    #[default]
    Last,
    /// In every layer of the blocks, on the maps that it adds.
    Inner,
}

impl DropoutPlace {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What a file of layers holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayersFile {
    layers: Vec<LayerConfig>,
}

impl NetworkConfig {
    /// A network that was built elsewhere. A file keeps its name and fingerprint alone.
    pub fn custom(network: &Network) -> Self {
        Self {
            name: network.name().to_owned(),
            custom: Some(fingerprint(network)),
            given: Some(Box::new(network.clone())),
            ..Self::default()
        }
    }

    /// The network that was given, if one was.
    pub fn given(&self) -> Option<&Network> {
        self.given.as_deref()
    }

    /// Takes the network that this section of a file is about.
    fn take(&mut self, network: &Network) -> Result<()> {
        let given = Self::custom(network);
        let written = Self {
            given: None,
            ..given.clone()
        };
        if *self != written {
            let name = network.name();
            let problem = format!("the run has another network than the \"{name}\" given");
            return Err(Error::setting("network", problem));
        }
        *self = given;
        Ok(())
    }

    /// The network in a TOML file: the config of a run, or `[[layers]]` alone.
    ///
    /// # Errors
    /// The file cannot be read, or says something else.
    pub fn read(path: &Path) -> Result<Self> {
        /// What is read of a config of a run.
        #[derive(Deserialize)]
        struct Section {
            network: Option<NetworkConfig>,
        }
        let origin = path.display().to_string();
        let section: Section = read_text(&files::read_text(path)?, &origin)?;
        let mut config = section.network.unwrap_or_else(|| Self {
            file: Some(origin),
            ..Self::default()
        });
        config.settle()?;
        Ok(config)
    }

    /// Reads the file of layers, if there is one, and gives layers without a name of the network
    /// one.
    fn settle(&mut self) -> Result<()> {
        if let Some(file) = self.file.take() {
            if !self.layers.is_empty() {
                let problem = "network.layers is given, too; give one of them";
                return Err(Error::setting("network.file", problem));
            }
            let path = Path::new(&file);
            let read: LayersFile = read_text(&files::read_text(path)?, &file)?;
            if read.layers.is_empty() {
                let problem = format!("{file} has no layer");
                return Err(Error::setting("network.file", problem));
            }
            self.layers = read.layers;
            if self.name.is_empty()
                && let Some(stem) = path.file_stem()
            {
                self.name = stem.to_string_lossy().into_owned();
            }
        }
        if self.name.is_empty() && !self.layers.is_empty() {
            self.name = "custom".into();
        }
        Ok(())
    }

    /// The network as far as it is known without the data: a built-in one for ten classes. One of
    /// layers takes its input from the data.
    ///
    /// # Errors
    /// As [`NetworkConfig::build`].
    pub(crate) fn without_data(&self) -> Result<Option<Network>> {
        if self.layers.is_empty() {
            // a network that was given is what it is
            return self.build(Shape::new(3, 32, 32), 10).map(Some);
        }
        if zoo::NAMES.contains(&self.name.as_str()) {
            let name = &self.name;
            let problem = format!("\"{name}\" is a built-in network; give yours another name");
            return Err(Error::setting("network.name", problem));
        }
        for (key, is_set) in [
            ("network.dropout", self.dropout.is_some()),
            ("network.dropout_at", !self.dropout_at.is_default()),
        ] {
            if is_set {
                let problem = "is for the built-in networks; add layers with layer = \"dropout\"";
                return Err(Error::setting(key, problem));
            }
        }
        Ok(None)
    }

    /// The network for this many classes, and if it is made of layers for images of this shape.
    ///
    /// # Errors
    /// An unknown name, a rate out of range, or a layer that does not fit.
    pub fn build(&self, input: Shape, classes: usize) -> Result<Network> {
        if !self.layers.is_empty() {
            return layers::build(&self.name, &self.layers, input, classes);
        }
        if let Some(network) = self.given() {
            return Ok(network.clone());
        }
        if self.custom.is_some() {
            let problem = "the network is custom; open the run with the program that made it";
            return Err(Error::setting("network.custom", problem));
        }
        if let Some(rate) = self.dropout
            && !(rate > 0.0 && rate < 1.0)
        {
            let problem = format!("{rate} is not in (0, 1)");
            return Err(Error::setting("network.dropout", problem));
        }
        if self.dropout_at == DropoutPlace::Inner {
            let network = match (self.name.as_str(), self.dropout) {
                ("densenet121", Some(rate)) => zoo::densenet121_inner_dropout(classes, rate),
                ("densenet101", Some(rate)) => zoo::densenet101_inner_dropout(classes, rate),
                _ => {
                    let problem =
                        "\"inner\" is for densenet121 and densenet101 with network.dropout";
                    return Err(Error::setting("network.dropout_at", problem));
                }
            };
            return network.map_err(|error| Error::setting("network.name", error.to_string()));
        }
        let network = match (self.name.as_str(), self.dropout) {
            (name, None) if networks().any(|known| known == name) => {
                zoo::by_name(name, Some(classes))
            }
            ("lenet", Some(rate)) => zoo::lenet_dropout(classes, rate),
            ("resnet20", Some(rate)) => zoo::resnet20_dropout(classes, rate),
            ("densenet121", rate) => zoo::densenet121(classes, rate),
            ("densenet101", rate) => zoo::densenet101(classes, rate),
            (name, _) => {
                let known = networks().collect::<Vec<_>>().join(", ");
                let problem =
                    format!("no network \"{name}\"; known are {known}, or give network.layers");
                return Err(Error::setting("network.name", problem));
            }
        };
        network.map_err(|error| Error::setting("network.name", error.to_string()))
    }
}

/// What `network.name` may be without layers; dropout is a key of its own.
pub fn networks() -> impl Iterator<Item = &'static str> {
    zoo::NAMES
        .into_iter()
        .filter(|name| !name.ends_with("-dropout"))
}

/// 16 hexadecimal digits that stand for the layers of a network and its parameters: FNV-1a.
fn fingerprint(network: &Network) -> String {
    let parameters = network.parameters().iter().map(|p| (&p.name, &p.shape));
    let parameters: Vec<_> = parameters.collect();
    let text = format!("{:?} {:?}", network.layers(), parameters);
    let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    format!("{hash:016x}")
}

/// Length of the training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// Epochs, `1..=100000`.
    pub epochs: usize,
    /// Images per step, `1..=4096`. Default 128.
    #[serde(default = "default_batch")]
    pub batch: usize,
    /// Least precision of products: `f32`, or `tf32`, which GPUs take where they have it and which
    /// the processor exceeds: it computes in `f32`. The record says which it was. Default `f32`.
    // not written where it is the default: configs stay as they were written before it was there
    #[serde(
        default,
        with = "precision",
        skip_serializing_if = "precision::is_default"
    )]
    pub precision: Precision,
}

/// A precision as its name.
mod precision {
    use engine::Precision;
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn is_default(value: &Precision) -> bool {
        *value == Precision::default()
    }

    pub fn serialize<S: Serializer>(value: &Precision, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Precision, D::Error> {
        let name = String::deserialize(from)?;
        Precision::by_name(&name).map_err(D::Error::custom)
    }
}

fn default_batch() -> usize {
    128
}

/// The update rule with its base learning rate: the keys `rule`, `lr` and the hyper-parameters of
/// the rule.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct OptimizerConfig {
    /// Base learning rate ρ > 0.
    pub lr: f64,
    /// The rule; keys that are left out have the defaults of `cbopt`.
    // an unknown key is refused by the rule, which is given all keys but `lr`
    #[serde(flatten)]
    pub rule: RuleConfig,
}

impl Serialize for OptimizerConfig {
    /// The rule's identifier comes first, then the rate, then the rest.
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Keys<P> {
            rule: &'static str,
            lr: f64,
            #[serde(flatten)]
            parameters: P,
        }
        let keys = Keys {
            rule: self.rule.id(),
            lr: self.lr,
            parameters: self.rule.parameters(),
        };
        keys.serialize(serializer)
    }
}

impl OptimizerConfig {
    /// The rule; `images` and `seed` are for rules whose sample size follows from the data and
    /// which draw noise.
    ///
    /// # Errors
    /// The first field outside its range.
    pub fn build(&self, images: usize, seed: u64) -> Result<Rule> {
        let mut rule = self.rule;
        rule.fill_examples(images);
        rule.set_seed(seed);
        rule.build()
            .map_err(|error| Error::setting("optimizer", error.to_string()))
    }
}

/// Collection of SWAG's moments, once at the end of an epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwagConfig {
    /// First epoch to collect, from 0; below `train.epochs`.
    pub start: usize,
    /// Deviations kept, `1..=1000`. Default 20.
    #[serde(default = "default_rank")]
    pub rank: usize,
}

fn default_rank() -> usize {
    swag::DEFAULT_RANK
}

/// How a run is evaluated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EvaluationConfig {
    /// Bins of the calibration error, `1..=1000`. Default 20.
    pub bins: usize,
    /// The score that tells out-of-domain images: `max-probability` (default) or `entropy`.
    pub score: Score,
    /// Whether the predicted probabilities are kept as NPY files. Default no.
    pub keep_predictions: bool,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        Self {
            bins: 20,
            score: Score::default(),
            keep_predictions: false,
        }
    }
}

/// One row of the table: a name and a predictive method with its settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RowConfig {
    /// Name of the row.
    pub row: String,
    /// The predictive method; it refuses the keys it does not know.
    #[serde(flatten)]
    pub method: Method,
}

impl Serialize for RowConfig {
    /// The method comes first, then the row, then the settings of the method.
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let method = serde_json::to_value(self.method).map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in method.as_object().into_iter().flatten() {
            map.serialize_entry(key, value)?;
            if key == "predictive" {
                map.serialize_entry("row", &self.row)?;
            }
        }
        map.end()
    }
}

/// `Ok` if the value is in the range.
fn within<T: PartialOrd + std::fmt::Display>(field: &str, value: T, low: T, high: T) -> Result<()> {
    if value >= low && value <= high {
        return Ok(());
    }
    Err(Error::setting(
        field,
        format!("{value} is not in {low}..={high}"),
    ))
}

impl RunConfig {
    /// The config in a TOML file, with `key=value` settings on top.
    ///
    /// # Errors
    /// A file that cannot be read, no TOML, an unknown key, a value out of range.
    pub fn read(path: &Path, settings: &[String]) -> Result<Self> {
        Self::parse(
            &files::read_given(path)?,
            &path.display().to_string(),
            settings,
        )
    }

    /// The config in a TOML text; `origin` names it in errors.
    ///
    /// ```
    /// use experiment::RunConfig;
    /// let text = r#"
    ///     name = "sgd"
    ///     data = { dataset = "fashion-mnist" }
    ///     network = { name = "lenet" }
    ///     train = { epochs = 3 }
    ///     optimizer = { rule = "sgd", lr = 0.005, momentum = 0.9, weight_decay = 1e-5 }
    ///     rows = [{ row = "SGD", predictive = "point" }]
    /// "#;
    /// let config = RunConfig::parse(text, "example", &["train.epochs=5".into()])?;
    /// assert_eq!((config.train.epochs, config.train.batch), (5, 128));
    /// assert_eq!(config.run_name(), "sgd-seed0");
    /// assert!(RunConfig::parse(text, "example", &["optimizer.lrate=1".into()]).is_err());
    /// # Ok::<(), experiment::Error>(())
    /// ```
    ///
    /// # Errors
    /// No TOML, an unknown key, a value out of range.
    pub fn parse(text: &str, origin: &str, settings: &[String]) -> Result<Self> {
        Self::parse_with(text, origin, settings, None)
    }

    /// The same for a network that is given, if one is. The text then has no section `network`, or
    /// one that this takes the place of.
    ///
    /// # Errors
    /// As [`RunConfig::parse`].
    pub fn parse_with(
        text: &str,
        origin: &str,
        settings: &[String],
        network: Option<&Network>,
    ) -> Result<Self> {
        if settings.is_empty() && network.is_none() {
            // as the text has it: the error knows the line
            let table = parse_table(text, origin)?;
            let config = reading::from_table(&table, Some(text)).map_err(Error::config(origin));
            return config.and_then(|config: Self| config.settled(&table, origin));
        }
        let mut table = parse_table(text, origin)?;
        for setting in settings {
            apply_setting(&mut table, setting).map_err(Error::config(origin))?;
        }
        Self::from_table(table, origin, network)
    }

    /// The config of a run whose network was given, in a TOML file.
    pub(crate) fn read_with(path: &Path, network: &Network) -> Result<Self> {
        let origin = path.display().to_string();
        let mut config: Self = read_text(&files::read_text(path)?, &origin)?;
        let taken = config.network.take(network);
        let settled = taken.and_then(|()| config.settle());
        settled.map_err(|error| Error::config(&origin)(error.to_string()))?;
        Ok(config)
    }

    /// The config in a TOML table, with a network if one is given; `origin` names it in errors.
    pub(crate) fn from_table(
        mut table: toml::Table,
        origin: &str,
        network: Option<&Network>,
    ) -> Result<Self> {
        let given = network.map(NetworkConfig::custom);
        if let Some(given) = &given {
            let section = toml::Value::try_from(given).expect(PLAIN);
            table.insert("network".into(), section);
        }
        let config: std::result::Result<Self, String> = reading::from_table(&table, None);
        let mut config = config.map_err(Error::config(origin))?;
        if let Some(given) = given {
            config.network = given;
        }
        config.settled(&table, origin)
    }

    /// The config that was read from this table, filled in and checked.
    fn settled(mut self, table: &toml::Table, origin: &str) -> Result<Self> {
        let problem = Error::config(origin);
        let whole = toml::Table::try_from(&self).unwrap_or_default();
        if let Some(found) = reading::list_for_table(table, &whole) {
            return Err(problem(found));
        }
        self.settle().map_err(|error| problem(error.to_string()))?;
        Ok(self)
    }

    /// Fills in what was left out, and checks everything.
    fn settle(&mut self) -> Result<()> {
        self.network.settle()?;
        if self.rows.is_empty() {
            self.rows.push(RowConfig {
                row: self.name.clone(),
                method: Method::Point(Point {}),
            });
        }
        self.check()?;
        self.data.settle();
        Ok(())
    }

    /// The update rule of a training on so many images.
    pub(crate) fn rule(&self, images: usize) -> Result<Rule> {
        let seed = Seeds::new(self.seed).stream("ivon");
        self.optimizer.build(images, seed)
    }

    /// Seed of the samples and masks of predictions.
    pub(crate) fn prediction_seed(&self) -> u64 {
        Seeds::new(self.seed).stream("predict")
    }

    /// The first key, dotted, in which two configs differ.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let value = |config| serde_json::to_value(config).unwrap_or_default();
        difference(&value(self), &value(other))
    }

    /// The part of the config that the weights depend on; what is evaluated, and how, may change
    /// while a run rests.
    pub(crate) fn of_training(&self) -> Self {
        let mut config = self.clone();
        config.name = String::new();
        config.experiment = String::new();
        config.data.out_of_domain = Vec::new();
        config.data.ood_normalization = OodNormalization::default();
        config.evaluation = EvaluationConfig::default();
        config.rows = Vec::new();
        config
    }

    /// The device with the precision that the config asks for.
    ///
    /// # Errors
    /// The device does not have it.
    pub(crate) fn on(&self, device: Device) -> Device {
        device.with_precision_or_better(self.train.precision)
    }

    /// Equal for configs whose runs can be trained together: same network, data, split, batch and
    /// precision.
    pub(crate) fn group(&self) -> String {
        let data = &self.data;
        let split = (
            data.limit,
            data.validation_share,
            data.split_kind(),
            data.split_seed,
            (data.resize, data.channels),
        );
        let train = (self.train.batch, self.train.precision.name());
        let shared = (&self.network, &data.dataset, split, train);
        serde_json::to_string(&shared).unwrap_or_default()
    }

    /// Whether the state of the rule is kept with the best weights: where it is part of what was
    /// learned, or a row takes it.
    pub(crate) fn keeps_state(&self) -> bool {
        let mut rows = self.rows.iter();
        self.optimizer.rule.predicts_with_state() || rows.any(|row| row.method.takes_state(self))
    }

    /// The whole config as TOML, every value spelled out.
    pub fn to_toml(&self) -> String {
        toml::Table::try_from(self).expect(PLAIN).to_string()
    }

    /// The config as it stands in a record.
    pub(crate) fn to_value(&self) -> serde_json::Value {
        serde_json::to_value(self).expect(PLAIN)
    }

    /// Another number of epochs, with everything that is counted in epochs shortened or stretched
    /// likewise; a warm-up is only ever shortened.
    pub fn stretch(&mut self, epochs: usize) {
        let old = self.train.epochs as u64;
        let scale = |time: u64| (time * epochs as u64 + old / 2) / old;
        match &mut self.schedule {
            ScheduleConfig::WarmupCosine { warmup, .. } => *warmup = scale(*warmup).min(*warmup),
            ScheduleConfig::Swag { start, .. } => *start = scale(*start).max(1),
            ScheduleConfig::Step { every, .. } => *every = scale(*every).max(1),
            _ => {}
        }
        if let Some(swag) = &mut self.swag {
            swag.start = (scale(swag.start as u64) as usize).min(epochs.saturating_sub(1));
        }
        self.train.epochs = epochs;
    }

    /// The course of the learning rate.
    ///
    /// # Errors
    /// The first field outside its range.
    pub fn build_schedule(&self) -> Result<Schedule> {
        self.schedule
            .build(self.optimizer.lr, self.train.epochs as u64)
            .map_err(|error| Error::setting("schedule", error.to_string()))
    }

    /// Name of the run: the method's with the seed.
    pub fn run_name(&self) -> String {
        run_name(&self.name, self.seed)
    }

    /// Checks everything that can be checked without the data.
    ///
    /// # Errors
    /// The first setting that is out of range or does not go with the others.
    pub fn check(&self) -> Result<()> {
        // how many classes there are only the data say; what is checked here is the same for all
        self.check_with(self.network.without_data()?.as_ref())
    }

    /// The same for a network that was given or built; without one, what rows need of it is left
    /// to be checked.
    fn check_with(&self, network: Option<&Network>) -> Result<()> {
        short("name", &self.name)?;
        short("experiment", &self.experiment)?;
        let is_name = self.name.chars().all(is_letter_of_a_name);
        if self.name.is_empty() || self.name.starts_with('.') || !is_name {
            let problem = format!(
                "\"{}\" is not a name of letters, digits and .+-_= that does not begin with a point",
                self.name
            );
            return Err(Error::setting("name", problem));
        }
        within("seed", self.seed, 0, i64::MAX as u64)?;
        let data = &self.data;
        if !(data.validation_share >= 0.0 && data.validation_share <= 0.9) {
            let problem = format!("{} is not in [0, 0.9]", data.validation_share);
            return Err(Error::setting("data.validation_share", problem));
        }
        within("data.pad", data.pad, 0, 16)?;
        for side in data.resize.into_iter().flatten() {
            within("data.resize", side, 1, 1024)?;
        }
        if let Some(channels) = data.channels.filter(|channels| ![1, 3].contains(channels)) {
            let problem = format!("{channels} is neither 1 (gray) nor 3 (color)");
            return Err(Error::setting("data.channels", problem));
        }
        if data.limit == Some(0) {
            return Err(Error::setting("data.limit", "0 is not at least 1"));
        }
        for (number, name) in data.out_of_domain.iter().enumerate() {
            if data.out_of_domain[..number].contains(name) {
                let problem = format!("\"{name}\" is listed twice");
                return Err(Error::setting("data.out_of_domain", problem));
            }
        }
        within("train.epochs", self.train.epochs, 1, 100_000)?;
        within("train.batch", self.train.batch, 1, engine::MAX_BATCH)?;
        let lr = self.optimizer.lr;
        if !(lr > 0.0 && lr.is_finite()) {
            let problem = format!("{lr} is not in (0, inf)");
            return Err(Error::setting("optimizer.lr", problem));
        }
        // no range depends on the number of images or on the seed
        self.optimizer.build(1, 0)?;
        self.build_schedule()?;
        if let Some(swag) = &self.swag {
            if swag.start >= self.train.epochs {
                let (start, epochs) = (swag.start, self.train.epochs);
                let problem = format!("{start} is not below train.epochs, {epochs}");
                return Err(Error::setting("swag.start", problem));
            }
            within("swag.rank", swag.rank, 1, 1000)?;
        }
        within("evaluation.bins", self.evaluation.bins, 1, 1000)?;
        self.check_rows(network)
    }

    pub(crate) fn check_rows(&self, network: Option<&Network>) -> Result<()> {
        if self.rows.is_empty() {
            return Err(Error::setting("rows", "there has to be at least one"));
        }
        for (number, RowConfig { row, method }) in self.rows.iter().enumerate() {
            let refuse = |name: &str, problem: String| {
                Err(Error::setting(&format!("rows.{number}.{name}"), problem))
            };
            if row.is_empty() {
                return refuse("row", "the name is empty".into());
            }
            short(&format!("rows.{number}.row"), row)?;
            if self.rows[..number].iter().any(|other| other.row == *row) {
                return refuse("row", format!("the name \"{row}\" is listed twice"));
            }
            if let Err(images::Error::OutOfRange {
                field,
                value,
                range,
            }) = method.check()
            {
                return refuse(field, format!("{value} is not in {range}"));
            }
            if let Some(needs) = network.and_then(|network| method.needs(self, network)) {
                return refuse("predictive", format!("\"{}\" needs {needs}", method.id()));
            }
        }
        Ok(())
    }
}

/// Bytes of the longest name: with the seed it still is the name of a folder.
const LONGEST_NAME: usize = 200;

/// Refuses a name that is longer than any table or folder can show.
fn short(field: &str, name: &str) -> Result<()> {
    if name.len() <= LONGEST_NAME {
        return Ok(());
    }
    let problem = format!("{} bytes, expected at most {LONGEST_NAME}", name.len());
    Err(Error::setting(field, problem))
}

/// Name of a run of this method and seed.
pub(crate) fn run_name(method: &str, seed: u64) -> String {
    format!("{method}-seed{seed}")
}

/// Whether the name of a run, and of its folder, may have it.
pub(crate) fn is_letter_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || ".+-_=".contains(c)
}

/// The first key, dotted, in which two values differ; empty if it is the values themselves.
fn difference(a: &serde_json::Value, b: &serde_json::Value) -> Option<String> {
    if a == b {
        return None;
    }
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return Some(String::new());
    };
    let null = serde_json::Value::Null;
    a.keys().chain(b.keys()).find_map(|key| {
        let [a, b] = [a, b].map(|map| map.get(key).unwrap_or(&null));
        let below = difference(a, b)?;
        let dot = if below.is_empty() { "" } else { "." };
        Some(format!("{key}{dot}{below}"))
    })
}

/// What a TOML text holds.
pub(crate) fn read_text<T: DeserializeOwned>(text: &str, origin: &str) -> Result<T> {
    reading::from_text(text).map_err(Error::config(origin))
}

/// A TOML text as a table.
pub(crate) fn parse_table(text: &str, origin: &str) -> Result<toml::Table> {
    reading::table(text).map_err(Error::config(origin))
}

/// Puts `key=value` into the table; the value is TOML, or else a word.
pub(crate) fn apply_setting(
    table: &mut toml::Table,
    setting: &str,
) -> std::result::Result<(), String> {
    let Some((key, text)) = setting.split_once('=') else {
        return Err(format!(
            "setting \"{setting}\" is not of the form key=value"
        ));
    };
    let (key, text) = (key.trim(), text.trim());
    let value = format!("x = {text}").parse::<toml::Table>();
    let value = value
        .ok()
        // a text of several lines is a word, too
        .filter(|table| table.len() == 1)
        .and_then(|mut table| table.remove("x"))
        .unwrap_or_else(|| toml::Value::String(text.to_owned()));
    set(table, key, value)
}

/// Puts a value at a dotted key; numbers are places in a list.
pub(crate) fn set(
    table: &mut toml::Table,
    key: &str,
    value: toml::Value,
) -> std::result::Result<(), String> {
    let no_place = || format!("setting \"{key}\": no such key");
    let (parents, last) = match key.rsplit_once('.') {
        Some((parents, last)) => (Some(parents), last),
        None => (None, key),
    };
    if last.is_empty() {
        return Err(format!("setting \"{key}\" has an empty key"));
    }
    let mut place = table;
    let mut words = parents.map_or(Vec::new(), |parents| parents.split('.').collect());
    words.reverse();
    while let Some(word) = words.pop() {
        let entry = place
            .entry(word)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        place = match entry {
            toml::Value::Table(table) => table,
            toml::Value::Array(list) => {
                let number: usize = words
                    .pop()
                    .and_then(|word| word.parse().ok())
                    .ok_or_else(no_place)?;
                list.get_mut(number)
                    .and_then(toml::Value::as_table_mut)
                    .ok_or_else(no_place)?
            }
            _ => return Err(no_place()),
        };
    }
    place.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"
        name = "mine"
        data = { dataset = "fashion-mnist", out_of_domain = ["kmnist"] }
        network = { name = "lenet" }
        train = { epochs = 9 }
        optimizer = { rule = "adamw", lr = 0.01 }
        rows = [{ row = "a", predictive = "point" }, { row = "b", predictive = "laplace" }]
    "#;

    fn parse(settings: &[&str]) -> Result<RunConfig> {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        RunConfig::parse(CONFIG, "mine.toml", &settings)
    }

    #[test]
    fn settings_are_toml_or_words() {
        let config = parse(&[
            "seed = 7",
            "data.out_of_domain=[\"letters\", 'my set']",
            "rows.1.row=two words",
            "rows.1.prior_precision=2",
            "schedule={shape=\"step\", every=3, factor=0.5}",
            "swag.start=8",
            "optimizer.lr=1",
        ])
        .unwrap();
        assert_eq!(config.seed, 7);
        assert_eq!(config.data.out_of_domain, ["letters", "my set"]);
        let row = RowConfig {
            row: "two words".into(),
            method: Method::Laplace(crate::predictive::LaplaceMethod {
                prior_precision: Some(2.0),
                ..Default::default()
            }),
        };
        assert_eq!(config.rows[1], row);
        let step = ScheduleConfig::Step {
            every: 3,
            factor: 0.5,
        };
        assert_eq!(config.schedule, step);
        assert_eq!(config.swag, Some(SwagConfig { start: 8, rank: 20 }));
        assert_eq!(config.optimizer.lr, 1.0);
        // what a run stores is read back as it was
        let again = RunConfig::parse(&config.to_toml(), "again", &[]).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn a_densenet_has_its_dropout_where_it_is_asked_for() {
        let shape = Shape::new(3, 32, 32);
        let of = |at: &str| {
            let text = format!("name = \"densenet121\"\ndropout = 0.05\n{at}");
            let config: NetworkConfig = toml::from_str(&text).unwrap();
            (config.build(shape, 100).unwrap(), config)
        };
        let (last, config) = of("");
        assert_eq!(config.dropout_at, DropoutPlace::Last);
        assert_eq!(last, zoo::densenet121(100, Some(0.05)).unwrap());
        let (inner, config) = of("dropout_at = \"inner\"");
        assert_eq!(inner, zoo::densenet121_inner_dropout(100, 0.05).unwrap());
        assert_eq!(inner.name(), last.name());
        // what is usual is not written, what is not usual is
        let written = toml::to_string(&config).unwrap();
        assert!(written.contains("dropout_at = \"inner\""), "{written}");
        let written = toml::to_string(&of("").1).unwrap();
        assert!(!written.contains("dropout_at"), "{written}");
    }

    /// 100,000 characters were accepted, and stood in every table.
    #[test]
    fn names_of_no_end_are_refused() {
        for (field, most) in [("name", 200), ("experiment", 200), ("rows.0.row", 200)] {
            let of_length = |length: usize| parse(&[&format!("{field}={}", "a".repeat(length))]);
            of_length(most).unwrap();
            let message = of_length(most + 1).unwrap_err().to_string();
            let problem = format!("{field}: 201 bytes, expected at most {most}");
            assert!(message.ends_with(&problem), "{message}");
        }
    }

    #[test]
    fn mistakes_are_named_with_what_is_allowed() {
        for (settings, message) in [
            (&["data.limit=0"][..], "data.limit: 0 is not at least 1"),
            (
                &["data.out_of_domain=['mnist', 'mnist']"],
                "data.out_of_domain: \"mnist\" is listed twice",
            ),
            (&["optimizer={rule='sgd'}"], "optimizer.lr: is missing"),
            (
                &["swag.start=9"],
                "swag.start: 9 is not below train.epochs, 9",
            ),
            (
                &["network.dropout=0.1"],
                "rows.1.predictive: \"laplace\" needs a network without dropout",
            ),
            (
                &[
                    "optimizer.rule=ivon",
                    "rows.0.predictive=ivon",
                    "swag.start=1",
                ],
                "rows.0.predictive: \"ivon\" needs a run without the section [swag]",
            ),
            (
                &["rows.0.predictive=mc-dropout"],
                "rows.0.predictive: \"mc-dropout\" needs network.dropout",
            ),
            (
                &["rows.0.predictive=swag"],
                "rows.0.predictive: \"swag\" needs the section [swag]",
            ),
            (
                &["rows.1.prior_precision=-1"],
                "rows.1.prior_precision: -1 is not in (0, inf)",
            ),
            (
                &["rows.1.initial_precision=0"],
                "rows.1.initial_precision: 0 is not in (0, inf)",
            ),
            (
                &["rows.1.initial_precision=9", "rows.1.prior_precision=9"],
                "rows.1.predictive: \"laplace\" needs prior_precision or initial_precision, not both",
            ),
            (
                &["rows.1.augmented=true"],
                "rows.1.predictive: \"laplace\" needs data.flip or data.pad to be augmented",
            ),
            (
                &["network.dropout_at=inner"],
                "network.dropout_at: \"inner\" is for densenet121 and densenet101 with network.dropout",
            ),
            (
                &["network.dropout_at=outside"],
                "network.dropout_at: expected one of \"last\", \"inner\", found \"outside\"",
            ),
            (
                &["rows.0.predictive=mc-dropout", "rows.0.samples=5000000000"],
                "rows.0.samples: 5000000000 is not in 1..=100000",
            ),
            (&["rows.0.samples=3"], "rows.0.samples: no such key"),
            (
                &["rows.1.samples=3"],
                "rows.1.samples: no such key; others are prior_precision, initial_precision, augmented",
            ),
            (
                &["rows.1.predictive=laplase"],
                "rows.1.predictive: expected one of \"point\", \"ivon\", \"mc-dropout\", \"swag\", \"laplace\", \"possibilistic\", found \"laplase\"",
            ),
            (
                &["schedule={shape='constant', warmup=3}"],
                "schedule.warmup: no such key",
            ),
            (&["rows.2.row=c"], "setting \"rows.2.row\": no such key"),
            (
                &["train.epochs=3\nseed=1"],
                "train.epochs: expected a whole number from 0 on, found \"3\\nseed=1\"",
            ),
            (&["=3"], "setting \"\" has an empty key"),
        ] {
            let found = parse(settings).unwrap_err().to_string();
            assert_eq!(found, format!("mine.toml: {message}"), "{settings:?}");
        }
    }

    #[test]
    fn differences_are_named_by_their_key() {
        let config = parse(&[]).unwrap();
        let differs = |settings: &[&str]| config.difference(&parse(settings).unwrap());
        assert_eq!(differs(&[]), None);
        for (setting, key) in [
            ("train.epochs=3", "train.epochs"),
            ("data.limit=3", "data.limit"),
            ("optimizer={rule='sgd', lr=0.01}", "optimizer.rule"),
        ] {
            assert_eq!(differs(&[setting]).as_deref(), Some(key));
        }
        // what is evaluated does not matter to the training
        let other = parse(&[
            "rows.0.row=c",
            "evaluation.bins=7",
            "data.out_of_domain=[]",
            "name=other",
        ]);
        let other = other.unwrap().of_training();
        assert_eq!(config.of_training().difference(&other), None);
        let other = parse(&["seed=3"]).unwrap().of_training();
        let seed = config.of_training().difference(&other);
        assert_eq!(seed.as_deref(), Some("seed"));
    }

    #[test]
    fn precisions_are_known_and_asked_of_the_device() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.train.precision, Precision::F32);
        let of = |config: &RunConfig| config.on(Device::cpu()).precision();
        assert_eq!(of(&config), Precision::F32);
        let rounded = parse(&["train.precision='tf32'"]).unwrap();
        assert!(rounded.to_toml().contains("precision = \"tf32\""));
        assert_ne!(rounded.group(), config.group());
        // the processor has nothing less than f32
        assert_eq!(of(&rounded), Precision::F32);
        let message = parse(&["train.precision='f64'"]).unwrap_err().to_string();
        assert!(
            message.contains("no precision \"f64\"; there are f32, tf32"),
            "{message}"
        );
    }
}
