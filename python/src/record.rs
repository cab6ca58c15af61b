//! Run records and the page about them.

use std::path::PathBuf;

use evaluation::RunRecord;
use evaluation::record::{Names, OutOfDomainEvaluation};
use evaluation::results::{ByClass, Classification, Detection, DetectionCurves, Reliability};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use crate::{mistake, mistake_and_causes};

/// What `evaluate` found, as its JSON.
#[derive(Deserialize)]
struct Inside {
    metrics: Classification,
    reliability: Reliability,
    by_class: Option<ByClass>,
}

/// The same of another set.
#[derive(Deserialize)]
struct Outside {
    metrics: Detection,
    curves: Option<DetectionCurves>,
}

/// The record of an evaluation, or of none, as the text of its file. `inside` and each of `outside`
/// are what `in_domain` and `detection` gave, `names` and `config` are JSON.
#[pyfunction]
pub fn record_of_predictions(
    inside: Option<&str>,
    outside: Vec<(String, String)>,
    names: &str,
    config: &str,
) -> PyResult<String> {
    let names: Names = serde_json::from_str(names).map_err(mistake)?;
    let config: Value = serde_json::from_str(config).map_err(mistake)?;
    let set = |(name, found): (String, String)| {
        let found: Outside = serde_json::from_str(&found).map_err(mistake)?;
        let curves = found.curves.unwrap_or_default();
        Ok(OutOfDomainEvaluation::of_predictions(
            name,
            found.metrics,
            curves,
        ))
    };
    let Some(inside) = inside else {
        let record = RunRecord::without_evaluation(&names, config);
        return record.to_json().map_err(mistake);
    };
    let inside: Inside = serde_json::from_str(inside).map_err(mistake)?;
    let record = RunRecord::of_predictions(
        &names,
        config,
        (inside.metrics, inside.reliability),
        inside.by_class,
        outside.into_iter().map(set).collect::<PyResult<_>>()?,
    );
    record.to_json().map_err(mistake)
}

/// The text of a record after the text of another with other fields: checked, its sum renewed.
#[pyfunction]
pub fn checked_record(text: &str) -> PyResult<String> {
    let record = RunRecord::parse(text, "record").map_err(mistake_and_causes)?;
    record.to_json().map_err(mistake)
}

/// One page about the records at these places and those given as text.
#[pyfunction]
pub fn report_page(
    py: Python<'_>,
    places: Vec<PathBuf>,
    texts: Vec<String>,
    title: Option<String>,
) -> PyResult<String> {
    py.detach(|| {
        let mut records = report::files::read(&places).map_err(mistake_and_causes)?;
        for text in &texts {
            records.push(RunRecord::parse(text, "record").map_err(mistake_and_causes)?);
        }
        let options = report::Options {
            title,
            searches: report::files::searches(&places).map_err(mistake_and_causes)?,
            ..report::Options::default()
        };
        Ok(report::html(&records, &options))
    })
}
