//! Metrics of predictions.

use evaluation::metrics::curves::histogram;
use evaluation::results::ByClass;
use evaluation::{BootstrapConfig, CalibrationConfig, Ranking, Scheme, Score};
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

/// What became of every image.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Outcomes {
    inner: evaluation::Outcomes,
    by_class: Option<ByClass>,
}

#[pymethods]
impl Outcomes {
    #[new]
    fn new(
        py: Python<'_>,
        probabilities: Probabilities<'_>,
        labels: PyReadonlyArray1<'_, i64>,
        by_class: bool,
    ) -> PyResult<Self> {
        let labels = labels.as_slice().map_err(mistake)?;
        let outcomes = with_rows!(&probabilities, |values, classes| {
            py.detach(|| {
                let inner = evaluation::Outcomes::new(values, classes, labels)?;
                // they are labels, or the line above had said so
                let known = || labels.iter().map(|&label| label as u32).collect::<Vec<_>>();
                let by_class = by_class.then(|| evaluation::by_class(values, classes, &known()));
                Ok(Self {
                    inner,
                    by_class: by_class.transpose()?,
                })
            })
        });
        outcomes.map_err(|error: evaluation::Error| mistake(error))
    }

    /// The in-domain metrics, the reliability diagram and, where asked for, intervals, as JSON.
    fn metrics(
        &self,
        py: Python<'_>,
        bins: usize,
        scheme: &str,
        replicates: usize,
        level: f64,
        seed: u64,
    ) -> PyResult<String> {
        let scheme = scheme.parse::<Scheme>().map_err(mistake)?;
        let calibration = CalibrationConfig { bins, scheme };
        py.detach(|| {
            let (found, reliability) = self.inner.in_domain(&calibration).map_err(mistake)?;
            let intervals = bootstrap(replicates, level, seed)
                .map(|config| self.inner.bootstrap(&calibration, &config).map_err(mistake))
                .transpose()?;
            let all = json!({
                "metrics": found,
                "reliability": reliability,
                "intervals": intervals,
                "by_class": self.by_class,
            });
            Ok(all.to_string())
        })
    }
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
