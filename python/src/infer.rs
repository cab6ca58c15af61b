//! Posteriors of the conjugate families of one parameter.

use numpy::PyReadonlyArray1;
use possibility::family::conjugate::{
    Bernoulli, Exponential, Gamma, NormalNoise, Poisson, ScalarFamily, ScalarPosterior,
};
use possibility::prelude::*;
use possibility::{Interval, RealSet};
use pyo3::prelude::*;

use crate::mistake;

/// What Python asks of a posterior, of whichever family.
trait Questions: Send + Sync {
    fn observe(&self, data: &[f64]) -> possibility::Result<(Box<dyn Questions>, f64)>;
    fn function(&self) -> &(dyn Univariate + Send + Sync);
    fn weight(&self) -> f64;
}

impl<F> Questions for ScalarPosterior<F>
where
    F: ScalarFamily + Clone + Send + Sync + 'static,
    Self: Send + Sync,
{
    fn observe(&self, data: &[f64]) -> possibility::Result<(Box<dyn Questions>, f64)> {
        let consistency = self.log_consistency(data)?;
        Ok((Box::new(ScalarPosterior::observe(self, data)?), consistency))
    }

    fn function(&self) -> &(dyn Univariate + Send + Sync) {
        self
    }

    fn weight(&self) -> f64 {
        ScalarPosterior::weight(self)
    }
}

/// The prior of a family: nothing known, or a mode worth some observations.
fn start<F>(family: F, prior: Option<(f64, f64)>) -> possibility::Result<Box<dyn Questions>>
where
    F: ScalarFamily + Clone + Send + Sync + 'static,
    ScalarPosterior<F>: Send + Sync,
{
    Ok(match prior {
        Some((mean, weight)) => Box::new(family.prior(mean, weight)?),
        None => Box::new(family.uninformative()),
    })
}

/// The possibility function of the mean parameter of a family, given data.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Posterior {
    #[pyo3(get)]
    family: String,
    inner: Box<dyn Questions>,
    /// Log of how well the data fit the prior: 0 where they agree.
    #[pyo3(get)]
    log_consistency: f64,
}

impl Posterior {
    fn interval(lower: f64, upper: f64) -> PyResult<RealSet> {
        let interval = Interval::closed(lower, upper).map_err(mistake)?;
        Ok(RealSet::from_iter([interval]))
    }
}

#[pymethods]
impl Posterior {
    /// The prior; `prior` is its mode and the number of observations that it is worth.
    #[new]
    fn new(family: &str, known: f64, prior: Option<(f64, f64)>) -> PyResult<Self> {
        let inner = match family {
            "bernoulli" => start(Bernoulli, prior),
            "poisson" => start(Poisson, prior),
            "exponential" => start(Exponential, prior),
            "gamma" => Gamma::new(known).and_then(|family| start(family, prior)),
            "normal" => NormalNoise::new(known).and_then(|family| start(family, prior)),
            other => return Err(mistake(format!("there is no family \"{other}\""))),
        };
        Ok(Self {
            family: family.into(),
            inner: inner.map_err(mistake)?,
            log_consistency: 0.0,
        })
    }

    /// The posterior after more data.
    fn observe(&self, py: Python<'_>, data: PyReadonlyArray1<'_, f64>) -> PyResult<Self> {
        let data = data.as_slice().map_err(mistake)?;
        let (inner, log_consistency) = py.detach(|| self.inner.observe(data)).map_err(mistake)?;
        Ok(Self {
            family: self.family.clone(),
            inner,
            log_consistency,
        })
    }

    /// How many observations it is worth, those of the prior included.
    #[getter]
    fn weight(&self) -> f64 {
        self.inner.weight()
    }

    /// The value that is fully possible; `None` where all are.
    #[getter]
    fn mode(&self) -> Option<f64> {
        self.inner.function().mode()
    }

    /// Minus the second derivative of the log at the mode; `None` for a mode on the boundary.
    #[getter]
    fn precision(&self) -> Option<f64> {
        self.inner.function().precision()
    }

    /// Where the parameter lives.
    #[getter]
    fn domain(&self) -> (f64, f64) {
        let domain = self.inner.function().domain();
        (domain.lower(), domain.upper())
    }

    /// The values with possibility of at least `alpha`, an interval.
    fn cut(&self, alpha: f64) -> PyResult<(f64, f64)> {
        let cut = self.inner.function().cut(alpha).map_err(mistake)?;
        Ok((cut.lower(), cut.upper()))
    }

    /// The possibility of a value.
    fn at(&self, value: f64) -> f64 {
        self.inner.function().log_possibility(&value).exp()
    }

    /// Possibility and necessity of `lower <= parameter <= upper`.
    fn credence(&self, lower: f64, upper: f64) -> PyResult<(f64, f64)> {
        let set = Self::interval(lower, upper)?;
        let found = self.inner.function().credence_of(&set).map_err(mistake)?;
        Ok((found.possibility, found.necessity))
    }
}
