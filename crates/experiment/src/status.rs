//! How the runs of a sweep are, whoever works on them, from what they leave in their folders.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::files;
use crate::lock::Holder;
use crate::run::{self, CONFIG};
use crate::search;

/// Name of the file in the folder of a sweep that lists its runs.
pub const SWEEP: &str = "sweep.json";

/// What the file says.
#[derive(Debug, Serialize, Deserialize)]
struct Listed {
    schema: String,
    name: String,
    runs: Vec<String>,
}

/// Writes down which runs a sweep has.
pub(crate) fn list(directory: &Path, name: &str, runs: Vec<String>) -> Result<()> {
    let listed = Listed {
        schema: "maxitive-sweep/1".into(),
        name: name.into(),
        runs,
    };
    let path = directory.join(SWEEP);
    files::write_changed(&path, &files::json(&path, &listed)?)
}

/// How a run is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum State {
    /// It has its record.
    Finished,
    /// A process is at work on it.
    Running(Holder),
    /// A search goes on without it.
    Dropped {
        /// Why.
        reason: String,
    },
    /// It failed and was not tried again.
    Failed {
        /// Why.
        reason: String,
    },
    /// Nobody works on it: it was not begun, or stopped, or killed.
    Left,
}

/// A run and how it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunStatus {
    /// Name of the run.
    pub run: String,
    /// How it is.
    #[serde(flatten)]
    pub state: State,
    /// Epochs in all; none if it was not begun.
    pub epochs: Option<usize>,
    /// Epochs behind it, as far as they are saved.
    pub epochs_done: usize,
}

/// The runs of the sweep in a folder, in the order of the sweep; runs that belong to no sweep
/// follow by name.
///
/// # Errors
/// The folder is not there, or holds neither a sweep nor a run.
pub fn status(directory: &Path) -> Result<Vec<RunStatus>> {
    let mut names = Vec::new();
    let path = directory.join(SWEEP);
    if path.exists() {
        let listed: std::result::Result<Listed, _> = files::from_json(&files::read_text(&path)?);
        names = listed.map_err(|error| Error::malformed(&path, error))?.runs;
    }
    let mut others = Vec::new();
    for entry in fs::read_dir(directory).map_err(Error::file(directory, "read"))? {
        let entry = entry.map_err(Error::file(directory, "read"))?;
        let name = entry.file_name().into_string();
        if let Ok(name) = name
            && !names.contains(&name)
            && entry.path().join(CONFIG).is_file()
        {
            others.push(name);
        }
    }
    others.sort_unstable();
    names.extend(others);
    if names.is_empty() {
        let problem = format!("holds no sweep (no {SWEEP}, no folder of a run)");
        return Err(Error::malformed(directory, problem));
    }
    let dropped: HashMap<String, String> = search::dropped(directory).into_iter().collect();
    names
        .into_iter()
        .map(|name| of_run(directory, name, &dropped))
        .collect()
}

fn of_run(directory: &Path, run: String, dropped: &HashMap<String, String>) -> Result<RunStatus> {
    let folder = directory.join(&run);
    if !folder.join(CONFIG).exists() {
        return Ok(RunStatus {
            run,
            state: State::Left,
            epochs: None,
            epochs_done: 0,
        });
    }
    let seen = run::glance(&folder)?;
    let dropped = dropped.get(&run).cloned();
    let state = match (seen.finished, seen.holder, dropped, seen.failed) {
        (true, ..) => State::Finished,
        (_, Some(holder), ..) => State::Running(holder),
        (_, _, Some(reason), _) => State::Dropped { reason },
        (_, _, _, Some(reason)) => State::Failed { reason },
        _ => State::Left,
    };
    Ok(RunStatus {
        run,
        state,
        epochs: Some(seen.epochs),
        epochs_done: seen.curve.len(),
    })
}
