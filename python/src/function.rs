//! Possibility functions of one number, whatever made them: closed forms, coordinates of a
//! posterior, exact profiles of a regression.

use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use plot::{Curve, Figure};
use possibility::valid::Pivot;
use possibility::{Credence, Interval, RealSet, Result, Univariate};
use pyo3::prelude::*;

use crate::event::{Event, pair};
use crate::mistake;

/// Width and height of a curve in a notebook, in points.
const PANEL: (u32, u32) = (480, 300);
/// Curves that stand side by side.
const COLUMNS: usize = 2;

/// What Python asks of a function.
pub trait Line: Send + Sync {
    /// The value of possibility 1; `None` where all are.
    fn mode(&self) -> Option<f64>;
    /// Minus the second derivative of the log at the mode; `None` for a mode on the boundary.
    fn precision(&self) -> Option<f64>;
    /// Where the number lives.
    fn domain(&self) -> Interval;
    /// The values of possibility at least `alpha`.
    fn cut(&self, alpha: f64) -> Result<Interval>;
    /// The possibility of each value.
    fn possibilities(&self, values: &[f64]) -> Result<Vec<f64>>;
    /// Possibility and necessity of an event.
    fn credence(&self, event: &RealSet) -> Result<Credence>;
    /// The function to be drawn, with these cuts.
    fn curve(&self, name: &str, alphas: &[f64]) -> Result<Curve>;
}

impl<F: Univariate + Send + Sync> Line for F {
    fn mode(&self) -> Option<f64> {
        Univariate::mode(self)
    }

    fn precision(&self) -> Option<f64> {
        Univariate::precision(self)
    }

    fn domain(&self) -> Interval {
        Univariate::domain(self)
    }

    fn cut(&self, alpha: f64) -> Result<Interval> {
        Univariate::cut(self, alpha)
    }

    fn possibilities(&self, values: &[f64]) -> Result<Vec<f64>> {
        Ok(values.iter().map(|x| self.possibility(x)).collect())
    }

    fn credence(&self, event: &RealSet) -> Result<Credence> {
        self.credence_of(event)
    }

    fn curve(&self, name: &str, alphas: &[f64]) -> Result<Curve> {
        Curve::of(self, name, alphas)
    }
}

/// The valid possibility function of a plain one that has a law of its own.
pub struct ValidLine {
    plain: Arc<dyn Line>,
    pivot: Pivot,
}

impl ValidLine {
    /// Reads a plain function as a valid one.
    pub fn new(plain: impl Line + 'static, pivot: Pivot) -> Self {
        Self {
            plain: Arc::new(plain),
            pivot,
        }
    }
}

impl Line for ValidLine {
    fn mode(&self) -> Option<f64> {
        self.plain.mode()
    }

    fn precision(&self) -> Option<f64> {
        None
    }

    fn domain(&self) -> Interval {
        self.plain.domain()
    }

    fn cut(&self, alpha: f64) -> Result<Interval> {
        self.plain.cut(self.pivot.plain_level(alpha)?)
    }

    fn possibilities(&self, values: &[f64]) -> Result<Vec<f64>> {
        let plain = self.plain.possibilities(values)?.into_iter();
        Ok(plain.map(|p| self.pivot.possibility(p.ln())).collect())
    }

    fn credence(&self, event: &RealSet) -> Result<Credence> {
        Ok(self.pivot.credence(self.plain.credence(event)?))
    }

    fn curve(&self, name: &str, alphas: &[f64]) -> Result<Curve> {
        let plain = alphas.iter().map(|&alpha| self.pivot.plain_level(alpha));
        let plain = plain.collect::<Result<Vec<_>>>()?;
        let mut curve = self.plain.curve(name, &plain)?;
        for ((level, _), &alpha) in curve.cuts.iter_mut().zip(alphas) {
            *level = alpha;
        }
        curve.make_valid(self.pivot);
        Ok(curve)
    }
}

/// A possibility function of one number.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Function {
    /// What the number is.
    #[pyo3(get)]
    name: String,
    inner: Arc<dyn Line>,
}

impl Function {
    /// A function with the name of its number.
    pub fn new(name: impl Into<String>, inner: impl Line + 'static) -> Self {
        Self::shared(name, Arc::new(inner))
    }

    /// A function that others hold, too.
    pub fn shared(name: impl Into<String>, inner: Arc<dyn Line>) -> Self {
        Self {
            name: name.into(),
            inner,
        }
    }

    fn curve(&self, alphas: &[f64]) -> Result<Curve> {
        self.inner.curve(&self.name, alphas)
    }
}

#[pymethods]
impl Function {
    #[getter]
    fn mode(&self) -> Option<f64> {
        self.inner.mode()
    }

    #[getter]
    fn precision(&self) -> Option<f64> {
        self.inner.precision()
    }

    #[getter]
    fn domain(&self) -> (f64, f64) {
        let domain = self.inner.domain();
        (domain.lower(), domain.upper())
    }

    /// The values with possibility of at least `alpha`, an interval.
    fn cut(&self, py: Python<'_>, alpha: f64) -> PyResult<(f64, f64)> {
        let cut = py.detach(|| self.inner.cut(alpha)).map_err(mistake)?;
        Ok((cut.lower(), cut.upper()))
    }

    /// The possibility of each value.
    fn at<'py>(
        &self,
        py: Python<'py>,
        values: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let values = values.as_slice().map_err(mistake)?;
        let found = py.detach(|| self.inner.possibilities(values));
        Ok(found.map_err(mistake)?.into_pyarray(py))
    }

    /// Possibility and necessity of an event.
    fn credence(&self, py: Python<'_>, event: &Event) -> PyResult<(f64, f64)> {
        let found = py.detach(|| self.inner.credence(event.set()));
        found.map(pair).map_err(mistake)
    }

    /// The curve with its cuts and its mode, as an SVG document.
    fn svg(&self, py: Python<'_>, alphas: Vec<f64>) -> PyResult<String> {
        py.detach(|| picture(vec![self.curve(&alphas).map_err(mistake)?]))
    }
}

/// Several curves on one page, as an SVG document.
#[pyfunction]
pub fn svg_of_functions(
    py: Python<'_>,
    functions: Vec<PyRef<'_, Function>>,
    alphas: Vec<f64>,
) -> PyResult<String> {
    let functions: Vec<&Function> = functions.iter().map(|function| &**function).collect();
    py.detach(|| {
        let curves = functions.iter().map(|function| function.curve(&alphas));
        picture(curves.collect::<Result<_>>().map_err(mistake)?)
    })
}

fn picture(curves: Vec<Curve>) -> PyResult<String> {
    let panels = curves.iter().map(Curve::panel).collect();
    let (width, height) = PANEL;
    let figure = Figure::grid(COLUMNS, panels).panel_size(width, height);
    figure.to_svg().map_err(mistake)
}
