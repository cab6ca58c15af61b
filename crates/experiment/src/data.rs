//! The network and the data of a run, looked at before anything is trained.

use std::sync::Arc;

use datasets::{ImageSet, Library, Normalization, Part, SplitOrder};
use engine::{Input, Network, Shape};
use random::Seeds;

use crate::config::{DataConfig, OodNormalization, RunConfig, SplitKind};
use crate::error::{Error, Result};
use crate::predictive::{Labeled, Material};
use crate::remarks;

/// The network of a run and its datasets, those included that only the evaluation needs.
#[derive(Debug, Clone)]
pub struct RunData {
    pub(crate) network: Network,
    /// The set that is trained on, validation images included.
    pub(crate) set: Arc<ImageSet>,
    pub(crate) test: Arc<ImageSet>,
    /// The sets to be told apart, in the order of the config.
    pub(crate) out_of_domain: Vec<Arc<ImageSet>>,
    pub(crate) normalization: Normalization,
    /// What is said of the data, as `set: remark`.
    pub(crate) notes: Vec<String>,
    /// Images of `set` to train on.
    pub(crate) train: Vec<u32>,
    /// Images of `set` to validate on.
    pub(crate) validation: Vec<u32>,
}

/// Images that a run is judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// `validation`, `test`, or the name of a set to be told apart.
    pub name: String,
    /// As the network takes them, one image after the other.
    pub pixels: Vec<f32>,
    /// One for each image.
    pub labels: Vec<u32>,
}

impl RunData {
    /// Loads the datasets of a config and builds its network; what is decoded stays with the
    /// library.
    ///
    /// # Errors
    /// The first dataset that cannot be had, has other images than the network takes, or too few.
    pub fn load(config: &RunConfig, library: &Library) -> Result<Self> {
        let dataset = &config.data.dataset;
        let form = config.data.form();
        let set = library.load_as(dataset, Part::Train, form)?;
        if set.classes() < 2 {
            let problem = format!("{dataset} has {} class, expected 2 or more", set.classes());
            return Err(Error::setting("data.dataset", problem));
        }
        let network = config.network.build(set.shape(), set.classes())?;
        config.check_rows(Some(&network))?;
        if network.classes() != set.classes() {
            let (name, found) = (network.name(), network.classes());
            let problem = format!("{name} has {found} classes, {dataset} {}", set.classes());
            return Err(Error::setting("network", problem));
        }
        check_images("data.dataset", &network, dataset, &set)?;
        let test = library.load_as(dataset, Part::Test, form)?;
        check_images("data.dataset", &network, dataset, &test)?;
        let mut out_of_domain = Vec::new();
        for name in &config.data.out_of_domain {
            let other = library.load_as(name, Part::Test, form)?;
            check_images("data.out_of_domain", &network, name, &other)?;
            out_of_domain.push(other);
        }
        let mut notes = Vec::new();
        for set in [&set, &test].into_iter().chain(&out_of_domain) {
            for note in set.notes() {
                let note = format!("{}: {note}", set.name());
                if !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        let (train, validation) = split(config, set.labels())?;
        remarks::check_classes(config, &set, &train)?;
        notes.extend(remarks::of_classes(
            &set,
            &test,
            &train,
            &validation,
            config.data.balance,
        ));
        notes.extend(remarks::of_schedule(config));
        Ok(Self {
            network,
            normalization: normalization_of(&config.data, dataset, &set),
            set,
            test,
            out_of_domain,
            notes,
            train,
            validation,
        })
    }

    /// What records call the sets to be told apart: by their names, not their paths, as long as
    /// these differ.
    pub(crate) fn names_out_of_domain(&self, paths: &[String]) -> Vec<String> {
        let names = self.out_of_domain.iter().map(|set| set.name());
        let is_unique = |name: &str| names.clone().filter(|other| *other == name).count() == 1;
        let choose = |(name, path): (&str, &String)| match is_unique(name) {
            true => name.to_owned(),
            false => path.clone(),
        };
        names.clone().zip(paths).map(choose).collect()
    }

    /// The labels of these images of the training set.
    pub(crate) fn labels(&self, indices: &[u32]) -> Vec<u32> {
        let labels = self.set.labels();
        indices.iter().map(|&i| labels[i as usize]).collect()
    }

    /// The labels of the images to train and to validate on, for [`RunData::material`].
    pub(crate) fn fit_labels(&self) -> [Vec<u32>; 2] {
        [&self.train, &self.validation].map(|indices| self.labels(indices))
    }

    /// What methods are fitted to, as it is, and how this run would augment it.
    pub(crate) fn material<'a>(
        &'a self,
        config: &RunConfig,
        labels: &'a [Vec<u32>; 2],
    ) -> Material<'a> {
        let [training, validation] = [(&self.train, &labels[0]), (&self.validation, &labels[1])]
            .map(|(indices, labels)| {
                let images = Input::bytes(self.set.images(), &self.normalization, indices);
                Labeled { images, labels }
            });
        Material {
            training,
            validation,
            rule: None,
            augmentation: Some((
                config.data.augmentation(),
                Seeds::new(config.seed).stream("fit"),
            )),
        }
    }

    /// The images that a run is judged by, at most `most` of each set, evenly spread: those to
    /// validate on, the test set, and the sets to be told apart.
    pub fn judged_by(&self, config: &RunConfig, most: usize) -> Vec<Judged> {
        let of = |name: &str, set: &ImageSet, indices: &[u32], normalization: &Normalization| {
            let places = spread(indices.len(), most);
            let indices: Vec<u32> = places.iter().map(|&place| indices[place]).collect();
            let labels = indices.iter().map(|&i| set.labels()[i as usize]);
            Judged {
                name: name.to_owned(),
                pixels: set.normalized_at(&indices, normalization),
                labels: labels.collect(),
            }
        };
        let all = |set: &ImageSet| (0..set.len() as u32).collect::<Vec<u32>>();
        let mut judged = vec![
            of(
                "validation",
                &self.set,
                &self.validation,
                &self.normalization,
            ),
            of("test", &self.test, &all(&self.test), &self.normalization),
        ];
        let names = self.names_out_of_domain(&config.data.out_of_domain);
        for (name, set) in names.iter().zip(&self.out_of_domain) {
            let normalization = self.ood_normalization(&config.data, name, set);
            judged.push(of(name, set, &all(set), &normalization));
        }
        judged
    }

    /// The constants for a set to be told apart.
    pub(crate) fn ood_normalization(
        &self,
        config: &DataConfig,
        name: &str,
        set: &ImageSet,
    ) -> Normalization {
        match config.ood_normalization {
            OodNormalization::Own => normalization_of(config, name, set),
            OodNormalization::Training => self.normalization.clone(),
        }
    }
}

impl DataConfig {
    /// Shape of the images and number of classes that a network for these data has to do with. The
    /// files of a dataset that is known by its name are not looked at.
    ///
    /// # Errors
    /// A dataset of the user's own cannot be had.
    pub fn shape_and_classes(&self, library: &Library) -> Result<(Shape, usize)> {
        if let Some(entry) = datasets::manifest::find(&self.dataset) {
            return Ok((self.form().shape(entry.shape), entry.classes));
        }
        let set = library.load_as(&self.dataset, Part::Train, self.form())?;
        Ok((set.shape(), set.classes()))
    }
}

/// At most so many of the places below `total`, evenly spread, in order.
pub(crate) fn spread(total: usize, most: usize) -> Vec<usize> {
    let taken = most.min(total);
    (0..taken).map(|place| place * total / taken).collect()
}

/// The images to train on and those to validate on, of all with these labels.
fn split(config: &RunConfig, labels: &[u32]) -> Result<(Vec<u32>, Vec<u32>)> {
    let data = &config.data;
    let seed = data.split_seed;
    let order = match data.split_kind() {
        SplitKind::Index => SplitOrder::Index,
        SplitKind::Shuffled => SplitOrder::Shuffled { seed },
        SplitKind::Stratified => SplitOrder::Stratified { seed },
    };
    let images = data.limit.map_or(labels.len(), |l| l.min(labels.len()));
    let used = match order {
        SplitOrder::Stratified { .. } => datasets::stratified_part(labels, images),
        _ => (0..images as u32).collect(),
    };
    let used_labels: Vec<u32> = used.iter().map(|&image| labels[image as usize]).collect();
    let parts = datasets::split(&used_labels, data.validation_share, order)?;
    if parts.0.is_empty() {
        let share = data.validation_share;
        let problem = format!("{share} of {images} images leaves none to train on");
        return Err(Error::setting("data.validation_share", problem));
    }
    let images_at = |places: Vec<u32>| places.iter().map(|&at| used[at as usize]).collect();
    Ok((images_at(parts.0), images_at(parts.1)))
}

/// The constants that go with a known dataset in its own form; else those of the images.
fn normalization_of(config: &DataConfig, name: &str, set: &ImageSet) -> Normalization {
    let known = datasets::manifest::normalization(name).filter(|_| config.form().is_own());
    known.unwrap_or_else(|| Normalization::measured(set.images()))
}

/// `Ok` if there are images, and the network takes them.
fn check_images(field: &str, network: &Network, name: &str, set: &ImageSet) -> Result<()> {
    if set.is_empty() {
        return Err(Error::setting(field, format!("{name} has no images")));
    }
    let (takes, has) = (network.input_shape(), set.shape());
    if takes == has {
        return Ok(());
    }
    let problem = format!(
        "{name} has images of {has}, {} takes {takes}; data.resize and data.channels change images",
        network.name()
    );
    Err(Error::setting(field, problem))
}
