//! What the weights of a classifier still allow to be said: bounds from logits and Gram matrices.

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2, PyReadonlyArray3};
use possibility::prediction::{Prediction, predict_each};
use pyo3::prelude::*;

use crate::mistake;

/// Bounds of every image.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Bounds(Vec<Prediction>);

impl Bounds {
    /// One number for each image and class.
    fn matrix<'py>(
        &self,
        py: Python<'py>,
        values: impl Fn(&Prediction) -> Vec<f64>,
    ) -> Bound<'py, PyArray2<f64>> {
        let rows: Vec<Vec<f64>> = self.0.iter().map(values).collect();
        let classes = rows.first().map_or(0, Vec::len);
        Array2::from_shape_fn((rows.len(), classes), |(i, k)| rows[i][k]).into_pyarray(py)
    }
}

#[pymethods]
impl Bounds {
    /// From logits `[n, classes]`, Gram matrices `[n, classes, classes]` and a precision.
    #[new]
    fn new(
        py: Python<'_>,
        logits: PyReadonlyArray2<'_, f64>,
        gram: PyReadonlyArray3<'_, f64>,
        precision: f64,
    ) -> PyResult<Self> {
        let classes = logits.as_array().ncols();
        let expected = [logits.as_array().nrows(), classes, classes];
        if gram.as_array().shape() != expected {
            let found = gram.as_array().shape().to_vec();
            let text = format!("gram has the shape {found:?}, expected {expected:?}");
            return Err(mistake(text));
        }
        let (logits, gram) = (
            logits.as_slice().map_err(mistake)?,
            gram.as_slice().map_err(mistake)?,
        );
        let found = py.detach(|| predict_each(logits, gram, classes, precision));
        let images = found.map_err(mistake)?.into_iter().enumerate();
        images
            .map(|(image, found)| found.map_err(|error| mistake(format!("image {image}: {error}"))))
            .collect::<PyResult<_>>()
            .map(Self)
    }

    #[getter]
    fn answer<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let answers: Vec<i64> = self.0.iter().map(|one| one.answer as i64).collect();
        answers.into_pyarray(py)
    }

    #[getter]
    fn probabilities<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        self.matrix(py, |one| one.probabilities.clone())
    }

    #[getter]
    fn upper<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        self.matrix(py, |one| one.upper.clone())
    }

    #[getter]
    fn lower<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        self.matrix(py, |one| one.lower.clone())
    }

    #[getter]
    fn lower_at_least<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        self.matrix(py, |one| one.lower_at_least.clone())
    }

    #[getter]
    fn possibility<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        self.matrix(py, Prediction::possibility)
    }

    #[getter]
    fn necessity<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let all: Vec<f64> = self.0.iter().map(Prediction::necessity).collect();
        all.into_pyarray(py)
    }

    #[getter]
    fn width<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        let all: Vec<f64> = self.0.iter().map(Prediction::width).collect();
        all.into_pyarray(py)
    }
}
