//! What an evaluation that was stopped has done: finished rows and sets, from which the next
//! command goes on to the same numbers.
//!
//! `evaluated.json` in the folder of a run, replaced as a whole and removed when the record is
//! there. It has a sum over everything in it, and names what it was made from: the sums of
//! `model.json` (config, weights, states), the test sets, the program and the way it computes. Of
//! other things, or damaged, it is not used.
//!
//! A piece is one row at one checkpoint on one set. It begins only if it can end in the time that
//! is left, by what the row took before, by what the training took, or by what some images take.
//! Where a command could do nothing but begin a piece for which the time is too short, no other
//! could, and it says so.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::Instant;

use engine::Device;
use evaluation::record::{Checkpoint, Evaluation};
use serde::{Deserialize, Serialize};

use crate::bounds::Side;
use crate::checkpoint::Progress;
use crate::data::RunData;
use crate::error::{Error, Result};
use crate::files;
use crate::hardware;
use crate::model::MODEL;
use crate::observer::Event;
use crate::run::RunOptions;

/// Name of the file.
pub(crate) const EVALUATED: &str = "evaluated.json";
const SCHEMA: &str = "maxitive-evaluated/1";
/// How much longer a piece may take than is expected of it.
const MARGIN: f64 = 1.5;

/// What was found on the test images, to be told from those of other sets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Inside {
    #[serde(with = "bits")]
    pub scores: Vec<f64>,
    pub bounded: Option<Side>,
}

/// A row at a checkpoint, on the test images and on as many other sets as its evaluation has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub evaluation: Evaluation,
    pub inside: Inside,
    /// The most seconds that a piece of it took for each of its forward passes.
    pub seconds_per_pass: f64,
}

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    schema: String,
    /// SHA-256 of what it was made from.
    made_from: String,
    /// Seconds of evaluation behind.
    seconds: f64,
    rows: Vec<Row>,
    /// SHA-256 of all this as JSON without blanks.
    sha256: Option<String>,
}

impl Content {
    fn sum(&self) -> Option<String> {
        let without = Self {
            sha256: None,
            ..self.clone()
        };
        let text = serde_json::to_string(&without).ok()?;
        Some(files::sha256(text.as_bytes()))
    }
}

/// What is evaluated at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub row: &'a str,
    pub checkpoint: Checkpoint,
    pub set: &'a str,
    /// Forward passes of single images, or what takes as long.
    pub passes: f64,
}

/// The evaluation of one run, piece by piece.
pub(crate) struct Evaluated<'a> {
    name: &'a str,
    options: &'a RunOptions<'a>,
    /// Where it is kept, if anywhere.
    place: Option<Place<'a>>,
    /// What is done.
    pub rows: Vec<Row>,
    /// Seconds of the commands before.
    pub seconds: f64,
    /// Seconds of a forward pass of an image, as the training took, if that is known.
    seconds_per_pass: Option<f64>,
    began: Instant,
    saved: Instant,
    piece_began: Instant,
}

/// Where an evaluation is kept, and what it goes with.
struct Place<'a> {
    path: PathBuf,
    directory: &'a Path,
    data: &'a RunData,
    device: Device,
    made_from: OnceCell<String>,
}

impl Place<'_> {
    /// Sum of what an evaluation is made from; the model's file is there.
    fn made_from(&self) -> Result<&str> {
        if let Some(known) = self.made_from.get() {
            return Ok(known);
        }
        let mut text = files::read_text(&self.directory.join(MODEL))?;
        for set in [&self.data.test]
            .into_iter()
            .chain(&self.data.out_of_domain)
        {
            text.push_str(&format!("{} {}\n", set.name(), set.digest()));
        }
        let device = self.device;
        let code = hardware::code();
        text.push_str(&format!("{} {:?}\n", code.version, code.commit));
        text.push_str(&format!("{} {}", device.name(), device.precision().name()));
        if device.is_cpu() {
            text.push_str(device.instruction_set().name());
        }
        Ok(self
            .made_from
            .get_or_init(|| files::sha256(text.as_bytes())))
    }

    /// What is there, if it belongs here and is whole.
    fn read(&self) -> Result<Option<Content>> {
        if !self.path.exists() {
            return Ok(None);
        }
        let text = files::read_text(&self.path)?;
        let Ok(content) = files::from_json::<Content>(&text) else {
            return Ok(None);
        };
        let is_ours = content.schema == SCHEMA && content.made_from == self.made_from()?;
        let is_whole = content.sha256.is_some() && content.sha256 == content.sum();
        // whoever removed predictions wants them again
        let has_files = content.rows.iter().all(|row| {
            let folder = row.evaluation.predictions.as_ref();
            folder.is_none_or(|folder| self.directory.join(folder).is_dir())
        });
        Ok((is_ours && is_whole && has_files).then_some(content))
    }
}

impl<'a> Evaluated<'a> {
    /// An evaluation that is kept nowhere.
    pub fn unkept(name: &'a str, options: &'a RunOptions<'a>) -> Self {
        let now = Instant::now();
        Self {
            name,
            options,
            place: None,
            rows: Vec::new(),
            seconds: 0.0,
            seconds_per_pass: None,
            began: now,
            saved: now,
            piece_began: now,
        }
    }

    /// What is done of the evaluation of a run whose weights and `model.json` are in its folder.
    ///
    /// # Errors
    /// A file is there and cannot be read.
    pub fn open(
        (name, directory): (&'a str, &'a Path),
        data: &'a RunData,
        (device, progress): (Device, &Progress),
        options: &'a RunOptions<'a>,
    ) -> Result<Self> {
        let place = Place {
            path: directory.join(EVALUATED),
            directory,
            data,
            device,
            made_from: OnceCell::new(),
        };
        let (rows, seconds) = match place.read()? {
            Some(content) => (content.rows, content.seconds),
            None => (Vec::new(), 0.0),
        };
        Ok(Self {
            place: Some(place),
            rows,
            seconds,
            seconds_per_pass: seconds_per_pass(progress, data),
            ..Self::unkept(name, options)
        })
    }

    /// Seconds of the evaluation so far, those of the commands before included.
    pub fn elapsed(&self) -> f64 {
        self.seconds + self.began.elapsed().as_secs_f64()
    }

    /// Begins a piece, or saves and says that nothing more may begin. Where it is doubtful whether
    /// the piece can end in time, `probe` measures the seconds of a forward pass of an image.
    ///
    /// # Errors
    /// The file cannot be written, the probe fails, or the time is too short for any command.
    pub fn begin(
        &mut self,
        piece: &Piece<'_>,
        probe: impl FnOnce() -> Result<f64>,
    ) -> Result<bool> {
        let (row, checkpoint) = (piece.row, piece.checkpoint);
        let event = Event::Evaluating { row, checkpoint };
        self.options.observer.event(self.name, event);
        let stop = self.options.stop;
        let known = self.rows.iter().filter(|known| known.evaluation.row == row);
        let known = known.map(|known| known.seconds_per_pass).reduce(f64::max);
        // with all of the time there is nothing to be gained by waiting
        let margin = if stop.has_worked() { MARGIN } else { 1.0 };
        let mut each = known.or(self.seconds_per_pass).unwrap_or(0.0);
        // what was measured may have been while the machine was busy
        let is_doubtful = known.is_none() || !stop.has_worked();
        if is_doubtful && !stop.is_raised() && !stop.leaves(margin * each * piece.passes) {
            each = each.min(probe()?);
        }
        let seconds = each * piece.passes;
        if !stop.is_raised() && stop.leaves(margin * seconds) {
            self.piece_began = Instant::now();
            return Ok(true);
        }
        self.save()?;
        if let Some(limit) = stop.seconds()
            && !stop.is_asked()
            && !stop.has_worked()
        {
            return Err(Error::TimeTooShort {
                what: format!("row \"{row}\" on {}", piece.set),
                seconds,
                limit,
                left: stop.left().unwrap_or_default().as_secs_f64(),
            });
        }
        Ok(false)
    }

    /// Takes in that a piece of this row is done, and saves where it is time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, row: usize, piece: &Piece<'_>) -> Result<()> {
        let taken = self.piece_began.elapsed().as_secs_f64() / piece.passes.max(1.0);
        let row = &mut self.rows[row];
        row.seconds_per_pass = row.seconds_per_pass.max(taken);
        self.options.stop.did_work();
        if self.saved.elapsed().as_secs_f64() >= self.options.checkpoint_seconds {
            self.save()?;
        }
        Ok(())
    }

    fn save(&mut self) -> Result<()> {
        let Some(place) = self.place.as_ref().filter(|_| !self.rows.is_empty()) else {
            return Ok(());
        };
        let content = Content {
            schema: SCHEMA.into(),
            made_from: place.made_from()?.to_owned(),
            seconds: self.elapsed(),
            rows: self.rows.clone(),
            sha256: None,
        };
        let sha256 = content.sum();
        let content = Content { sha256, ..content };
        let text = files::json(&place.path, &content)?;
        files::write_atomically(&place.path, text.as_bytes())?;
        self.saved = Instant::now();
        Ok(())
    }

    /// Removes the file: the record has it all.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn forget(self) -> Result<()> {
        match &self.place {
            Some(place) => files::remove(&place.path),
            None => Ok(()),
        }
    }
}

/// Seconds of a forward pass of one image, at most: what validation took, or training if that was
/// less, as where a device had to be made ready.
fn seconds_per_pass(progress: &Progress, data: &RunData) -> Option<f64> {
    let times = [
        (progress.validation_s, data.validation.len()),
        (progress.train_s, data.train.len()),
    ];
    let known = times
        .iter()
        .filter(|(_, images)| progress.epoch * images > 0);
    let each = known.map(|(seconds, images)| seconds / (progress.epoch * images) as f64);
    each.reduce(f64::min)
}

/// Numbers by their bits, all of them: 16 hexadecimal digits each.
pub(crate) mod bits {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        let digits = values
            .iter()
            .map(|value| format!("{:016x}", value.to_bits()));
        serializer.serialize_str(&digits.collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.as_bytes().chunks(16).map(|digits| {
            let digits = std::str::from_utf8(digits)
                .ok()
                .filter(|some| some.len() == 16);
            let bits = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            bits.map(f64::from_bits)
        });
        let values: Option<Vec<f64>> = digits.collect();
        values.ok_or_else(|| D::Error::custom("not 16 hexadecimal digits for each number"))
    }
}
