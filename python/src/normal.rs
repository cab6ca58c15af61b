//! Normal possibility functions `exp(-½(x-μ)ᵀΣ⁻¹(x-μ))` in any dimension.

use faer::{Mat, MatRef};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use possibility::regression::Marginal;
use possibility::{Measure, Possibility};
use pyo3::prelude::*;

use crate::event::{Event, Region, pair};
use crate::function::Function;
use crate::mistake;

/// A NumPy matrix as one of ours.
pub fn matrix(array: &PyReadonlyArray2<'_, f64>) -> Mat<f64> {
    let view = array.as_array();
    Mat::from_fn(view.nrows(), view.ncols(), |i, j| view[(i, j)])
}

/// One of our matrices as a NumPy matrix.
pub fn array<'py>(py: Python<'py>, matrix: MatRef<'_, f64>) -> Bound<'py, PyArray2<f64>> {
    let shape = (matrix.nrows(), matrix.ncols());
    Array2::from_shape_fn(shape, |(i, j)| matrix[(i, j)]).into_pyarray(py)
}

/// An event of the line, or of `ℝᵈ`.
#[derive(FromPyObject)]
pub enum AnyEvent<'py> {
    /// Numbers.
    Line(PyRef<'py, Event>),
    /// Points.
    Region(PyRef<'py, Region>),
}

/// A normal possibility function.
#[pyclass(frozen, module = "maxitive._maxitive")]
#[derive(Clone)]
pub struct Normal(possibility::Normal);

impl Normal {
    /// The function.
    pub fn inner(&self) -> &possibility::Normal {
        &self.0
    }

    fn check(&self, point: &[f64]) -> PyResult<()> {
        let (found, expected) = (point.len(), self.0.dimension());
        if found == expected {
            return Ok(());
        }
        let text = format!("a point has {found} coordinates, expected {expected}");
        Err(mistake(text))
    }
}

impl From<possibility::Normal> for Normal {
    fn from(inner: possibility::Normal) -> Self {
        Self(inner)
    }
}

#[pymethods]
impl Normal {
    /// From the mode and a covariance or a precision.
    #[new]
    fn new(mode: Vec<f64>, given: PyReadonlyArray2<'_, f64>, is_precision: bool) -> PyResult<Self> {
        let given = matrix(&given);
        let made = if is_precision {
            possibility::Normal::from_precision(mode, given)
        } else {
            possibility::Normal::new(mode, given)
        };
        Ok(Self(made.map_err(mistake)?))
    }

    #[getter]
    fn mode<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.0.mode().to_vec().into_pyarray(py)
    }

    #[getter]
    fn precision<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        array(py, self.0.precision())
    }

    #[getter]
    fn covariance<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray2<f64>> {
        array(py, self.0.covariance())
    }

    /// The log possibility of each row of points.
    fn log_at<'py>(
        &self,
        py: Python<'py>,
        points: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let width = points.as_array().ncols();
        let values = points.as_slice().map_err(mistake)?;
        self.check(&vec![0.0; width])?;
        let rows = values.chunks_exact(width);
        let found: Vec<f64> = py.detach(|| rows.map(|row| self.0.log_possibility(row)).collect());
        Ok(found.into_pyarray(py))
    }

    /// Possibility and necessity of an event.
    fn credence(&self, py: Python<'_>, event: AnyEvent<'_>) -> PyResult<(f64, f64)> {
        let found = match &event {
            AnyEvent::Line(event) => {
                let set = event.set();
                py.detach(|| self.0.credence_of(set))
            }
            AnyEvent::Region(region) => {
                let region = region.inner();
                py.detach(|| self.0.credence_of(region))
            }
        };
        found.map(pair).map_err(mistake)
    }

    /// The range of each coordinate over the points of possibility at least `alpha`.
    fn extents(&self, alpha: f64) -> PyResult<Vec<(f64, f64)>> {
        let cut = self.0.alpha_cut(alpha).map_err(mistake)?;
        let ends = cut.extents();
        Ok(ends
            .iter()
            .map(|side| (side.lower(), side.upper()))
            .collect())
    }

    fn marginal(&self, coordinates: Vec<usize>) -> PyResult<Self> {
        Ok(Self(self.0.marginal(&coordinates).map_err(mistake)?))
    }

    fn conditional(&self, coordinates: Vec<usize>, values: Vec<f64>) -> PyResult<Self> {
        let given = self.0.conditional(&coordinates, &values);
        Ok(Self(given.map_err(mistake)?))
    }

    fn fuse(&self, other: &Self) -> PyResult<(Self, f64)> {
        let (both, log_consistency) = self.0.fuse(&other.0).map_err(mistake)?;
        Ok((Self(both), log_consistency))
    }

    fn affine_image(
        &self,
        rows: PyReadonlyArray2<'_, f64>,
        offset: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let offset = offset.as_slice().map_err(mistake)?;
        let image = self.0.affine_image(matrix(&rows).as_ref(), offset);
        Ok(Self(image.map_err(mistake)?))
    }

    /// Whether it is nowhere above the other.
    fn precedes(&self, other: &Self) -> PyResult<bool> {
        self.0.precedes(&other.0).map_err(mistake)
    }

    fn max_relative_entropy(&self, other: &Self) -> PyResult<f64> {
        self.0.max_relative_entropy(&other.0).map_err(mistake)
    }

    /// One coordinate as a function of one number.
    fn coordinate(&self, index: usize, name: String) -> PyResult<Function> {
        let one = self.0.marginal(&[index]).map_err(mistake)?;
        let deviation = one.covariance()[(0, 0)].sqrt();
        let marginal = Marginal::new(one.mode()[0], deviation).map_err(mistake)?;
        Ok(Function::new(name, marginal))
    }
}
