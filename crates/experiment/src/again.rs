//! A finished run evaluated again: with other rows, or told from other sets.
//!
//! The weights stay as they are. Samples and masks are those of the run's own evaluation, so that
//! without new settings the same numbers come out. What is found goes into a record of its own; the
//! run's folder is not touched.

use std::path::Path;
use std::time::Instant;

use evaluation::record::{Checkpoint, RunRecord};

use crate::config::RunConfig;
use crate::data::RunData;
use crate::error::{Error, Result};
use crate::evaluate::Evaluator;
use crate::evaluated::Evaluated;
use crate::files;
use crate::hardware;
use crate::model::Model;
use crate::run::{CONFIG, RECORD, Run, RunOptions, write_record};

/// What may be another than in training.
const FREE: &str = "rows, data.out_of_domain, data.ood_normalization, evaluation and experiment";

/// Evaluates the run in `directory` with its config changed by `settings`, such as `rows=[...]`,
/// and writes the record into the folder `out`; `None` if it was stopped.
///
/// # Errors
/// The run is not finished, a setting belongs to the training, data or a state that a row needs
/// are not there, or `out` holds a record already.
pub fn reevaluate(
    directory: &Path,
    settings: &[String],
    out: &Path,
    options: &RunOptions<'_>,
) -> Result<Option<RunRecord>> {
    if out.join(RECORD).exists() || out.join(CONFIG).exists() {
        return Err(Error::Occupied { path: out.into() });
    }
    let model = Model::open(directory)?;
    let Some(record) = Run::open(directory)?.record()? else {
        let problem =
            "holds no record.json: the run is not finished; `maxitive resume` finishes it";
        return Err(Error::malformed(directory, problem));
    };
    let config = changed(directory, settings)?;
    let data = RunData::load(&config, options.library)?;
    let start = Instant::now();
    let last = model.trained(&config.rows, Checkpoint::Final)?;
    let mut notes = data.notes.clone();
    let best =
        best_epoch(&record).map(|epoch| (epoch, model.trained(&config.rows, Checkpoint::Best)));
    let best = match best {
        // what is there and cannot be read is no reason to go on without it
        Some((_, Err(error))) if !model.lacks(&config.rows, Checkpoint::Best) => return Err(error),
        Some((_, Err(error))) => {
            notes.push(format!("only the last weights were evaluated: {error}"));
            None
        }
        Some((epoch, Ok(trained))) => Some((epoch, trained)),
        None => None,
    };
    files::create_folder(out)?;
    let evaluator = Evaluator {
        config: &config,
        directory: out,
        data: &data,
        device: config.on(options.device),
    };
    let best = best.as_ref().map(|(epoch, trained)| (*epoch, trained));
    let last = (record.curves.len().saturating_sub(1), &last);
    let candidates = evaluator.fit(best, last)?;
    let mut evaluated = Evaluated::unkept(&record.name, options);
    let evaluations = evaluator.evaluate(candidates, &mut evaluated)?;
    let Some(evaluations) = evaluations else {
        return Ok(None);
    };
    notes.push(format!("evaluated again on {}", evaluator.device.name()));
    let mut timings = record.timings;
    timings.evaluation_s = start.elapsed().as_secs_f64();
    let record = RunRecord {
        experiment: config.experiment.clone(),
        config: config.to_value(),
        code: hardware::code(),
        timings,
        notes,
        evaluations,
        ..record
    };
    write_record(out, &record)?;
    Ok(Some(record))
}

/// The config of a run with other settings, which must not be those of the training; `{row}` in
/// the names of rows is the name of the run's first.
///
/// # Errors
/// There is no run, or a setting is refused.
pub fn changed(directory: &Path, settings: &[String]) -> Result<RunConfig> {
    let run = Run::open(directory)?;
    let trained = run.config();
    let path = directory.join(CONFIG);
    let origin = path.display().to_string();
    let mut config = RunConfig::parse(&files::read_text(&path)?, &origin, settings)?;
    let first = trained.rows.first().map_or("", |row| &row.row);
    for row in &mut config.rows {
        row.row = row.row.replace("{row}", first);
    }
    let as_trained = RunConfig {
        experiment: trained.experiment.clone(),
        rows: trained.rows.clone(),
        evaluation: trained.evaluation.clone(),
        data: crate::config::DataConfig {
            out_of_domain: trained.data.out_of_domain.clone(),
            ood_normalization: trained.data.ood_normalization,
            ..config.data.clone()
        },
        ..config.clone()
    };
    if as_trained != *trained {
        let problem = format!("the run was trained already: what can be set is {FREE}");
        return Err(Error::setting("--set", problem));
    }
    Ok(config)
}

/// The epoch of the best weights.
fn best_epoch(record: &RunRecord) -> Option<usize> {
    let known = record.evaluations.iter();
    let known = known.filter(|evaluation| evaluation.checkpoint == Checkpoint::Best);
    known.map(|evaluation| evaluation.epoch).next()
}
