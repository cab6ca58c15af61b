//! Metrics of predictions.

use evaluation::metrics::curves::histogram;
use evaluation::{BootstrapConfig, CalibrationConfig, Outcomes, Ranking, Scheme, Score};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use serde_json::json;

use crate::mistake;

/// Probabilities `[n, classes]` of either width.
#[derive(FromPyObject)]
pub enum Probabilities<'py> {
    Single(PyReadonlyArray2<'py, f32>),
    Double(PyReadonlyArray2<'py, f64>),
}

/// Calls a function with the numbers of an array, of whichever width, and the number of classes.
macro_rules! with_rows {
    ($array:expr, |$values:ident, $classes:ident| $body:expr) => {
        match $array {
            Probabilities::Single(array) => {
                let $classes = array.as_array().ncols();
                let $values = array.as_slice().map_err(mistake)?;
                $body
            }
            Probabilities::Double(array) => {
                let $classes = array.as_array().ncols();
                let $values = array.as_slice().map_err(mistake)?;
                $body
            }
        }
    };
}

fn bootstrap(replicates: usize, level: f64, seed: u64) -> Option<BootstrapConfig> {
    (replicates > 0).then_some(BootstrapConfig {
        replicates,
        level,
        seed,
        threads: None,
    })
}

/// The in-domain metrics, the reliability diagram and, where asked for, intervals and what became
/// of each class, as JSON. What became of every image is kept only for intervals.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn in_domain(
    py: Python<'_>,
    probabilities: Probabilities<'_>,
    labels: PyReadonlyArray1<'_, i64>,
    by_class: bool,
    bins: usize,
    scheme: &str,
    replicates: usize,
    level: f64,
    seed: u64,
) -> PyResult<String> {
    let labels = labels.as_slice().map_err(mistake)?;
    let scheme = scheme.parse::<Scheme>().map_err(mistake)?;
    let calibration = CalibrationConfig { bins, scheme };
    let config = bootstrap(replicates, level, seed);
    let all = with_rows!(&probabilities, |values, classes| {
        py.detach(|| {
            let (found, reliability, intervals) = match config {
                None => {
                    let (found, reliability) =
                        evaluation::in_domain(values, classes, labels, &calibration)?;
                    (found, reliability, None)
                }
                Some(config) => {
                    let outcomes = Outcomes::new(values, classes, labels)?;
                    let (found, reliability) = outcomes.in_domain(&calibration)?;
                    let intervals = outcomes.bootstrap(&calibration, &config)?;
                    (found, reliability, Some(intervals))
                }
            };
            // they are labels, or the lines above had said so
            let known = || labels.iter().map(|&label| label as u32).collect::<Vec<_>>();
            let by_class = by_class.then(|| evaluation::by_class(values, classes, &known()));
            let all = json!({
                "metrics": found,
                "reliability": reliability,
                "intervals": intervals,
                "by_class": by_class.transpose()?,
            });
            Ok(all.to_string())
        })
    });
    all.map_err(|error: evaluation::Error| mistake(error))
}

/// A score of every row of probabilities, higher for in-domain.
#[pyfunction]
pub fn scores<'py>(
    py: Python<'py>,
    probabilities: Probabilities<'py>,
    score: &str,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let score = Score::by_name(score)
        .ok_or_else(|| mistake(format!("score \"{score}\" is none of {}", known())))?;
    let found = with_rows!(&probabilities, |values, classes| {
        py.detach(|| score.of(values, classes))
    });
    Ok(found.map_err(mistake)?.into_pyarray(py))
}

fn known() -> String {
    let names: Vec<_> = Score::ALL.iter().map(|score| score.name()).collect();
    names.join(", ")
}

/// How well scores of this name, of so many classes, tell in-domain images from others, as JSON.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn detection(
    py: Python<'_>,
    name: &str,
    classes: usize,
    curves: bool,
    ins: PyReadonlyArray1<'_, f64>,
    outs: PyReadonlyArray1<'_, f64>,
    replicates: usize,
    level: f64,
    seed: u64,
) -> PyResult<String> {
    let (ins, outs) = (
        ins.as_slice().map_err(mistake)?,
        outs.as_slice().map_err(mistake)?,
    );
    py.detach(|| {
        let ranking = Ranking::new(ins, outs).map_err(mistake)?;
        let intervals = bootstrap(replicates, level, seed)
            .map(|config| ranking.bootstrap(&config).map_err(mistake))
            .transpose()?;
        let range = Score::by_name(name).map(|score| score.range(classes));
        let drawn = curves.then(|| ranking.curves(histogram(ins, outs, range)));
        let all = json!({
            "metrics": ranking.detection(name),
            "intervals": intervals,
            "curves": drawn,
        });
        Ok(all.to_string())
    })
}
