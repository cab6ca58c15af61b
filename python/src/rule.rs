//! The CBOpt rules on tensors that Python holds.

use std::sync::Mutex;

use cbopt::cbo::Borrowed;
use cbopt::{Constants, Executor, RuleConfig, Update};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;

use crate::mistake;

/// Parameters, gradients, momentum, curvature and envelope of one tensor, flat.
type Tensor<'py> = (
    PyReadwriteArray1<'py, f32>,
    PyReadonlyArray1<'py, f32>,
    PyReadwriteArray1<'py, f32>,
    PyReadwriteArray1<'py, f32>,
    Option<PyReadwriteArray1<'py, f32>>,
);

/// One of the three CBOpt rules with its hyper-parameters.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Rule {
    config: RuleConfig,
    rule: cbopt::Rule,
    /// Threads and their executor, as of the last step.
    executor: Mutex<Option<(usize, Executor)>>,
}

impl Rule {
    fn constants(&self, lr: f64, step: u64) -> PyResult<cbopt::cbo::CboConstants> {
        match self.rule.constants(lr, step) {
            Constants::Cbo(constants) => Ok(constants),
            _ => Err(mistake(format!("{} is no CBOpt rule", self.config.id()))),
        }
    }
}

#[pymethods]
impl Rule {
    /// From JSON: `rule`, its identifier, and the hyper-parameters that are not the default.
    #[new]
    fn new(config: &str) -> PyResult<Self> {
        let config: RuleConfig = serde_json::from_str(config).map_err(mistake)?;
        let rule = Self {
            config,
            rule: config.build().map_err(mistake)?,
            executor: Mutex::new(None),
        };
        rule.constants(0.0, 1)?;
        Ok(rule)
    }

    /// All hyper-parameters, as JSON.
    fn parameters(&self) -> PyResult<String> {
        serde_json::to_string(&self.config.parameters()).map_err(mistake)
    }

    /// Makes step number `step` in place, without the interpreter's lock. Nothing has changed where
    /// a gradient is refused.
    fn step(
        &self,
        py: Python<'_>,
        lr: f64,
        step: u64,
        threads: usize,
        mut tensors: Vec<Tensor<'_>>,
    ) -> PyResult<()> {
        if !(lr >= 0.0 && lr.is_finite()) {
            return Err(mistake(format!("lr {lr} is not in [0, inf)")));
        }
        let constants = self.constants(lr, step)?;
        let mut borrowed = tensors
            .iter_mut()
            .map(|(params, grads, momentum, curvature, envelope)| {
                Ok(Borrowed {
                    params: params.as_slice_mut().map_err(mistake)?,
                    grads: grads.as_slice().map_err(mistake)?,
                    momentum: momentum.as_slice_mut().map_err(mistake)?,
                    curvature: curvature.as_slice_mut().map_err(mistake)?,
                    envelope: match envelope {
                        Some(envelope) => envelope.as_slice_mut().map_err(mistake)?,
                        None => &mut [],
                    },
                })
            })
            .collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            let mut kept = self.executor.lock().map_err(mistake)?;
            if kept.as_ref().is_none_or(|(count, _)| *count != threads) {
                let executor = Executor::with_threads(threads).map_err(mistake)?;
                *kept = Some((threads, executor));
            }
            let (_, executor) = kept.as_ref().expect("it was just made");
            constants
                .step_borrowed(executor, step, &mut borrowed)
                .map_err(mistake)
        })?;
        Ok(())
    }
}

/// `count` times `value`, in large pages where there are many.
#[pyfunction]
pub fn filled(py: Python<'_>, count: usize, value: f32) -> Bound<'_, PyArray1<f32>> {
    py.detach(|| machine::filled(count, value)).into_pyarray(py)
}

/// Moves numbers into large pages where there are many and the system can; nothing else changes.
#[pyfunction]
pub fn move_to_large_pages(
    py: Python<'_>,
    mut numbers: PyReadwriteArray1<'_, f32>,
) -> PyResult<()> {
    let numbers = numbers.as_slice_mut().map_err(mistake)?;
    py.detach(|| machine::move_to_large_pages(numbers));
    Ok(())
}
