//! Posteriors of the conjugate families.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use possibility::family::conjugate::{
    Bernoulli, Categorical, Conjugate, ConjugateFamily, Exponential, Gamma, MultivariateNormal,
    NormalNoise, Parameter, Poisson, Sample, ScalarFamily, ScalarPosterior, ShareForm,
};
use possibility::prelude::*;
use possibility::regression::Marginal;
use possibility::valid::Valid;
use pyo3::prelude::*;

use crate::event::Event;
use crate::function::Function;
use crate::mistake;
use crate::normal::{Normal, matrix};

/// How often each observation counts; `None` is once.
type Weights<'py> = Option<PyReadonlyArray1<'py, f64>>;

/// Weights as a slice, one for each of `count` observations.
pub fn slice<'a>(weights: &'a Weights<'_>, count: usize) -> PyResult<Option<&'a [f64]>> {
    let Some(weights) = weights else {
        return Ok(None);
    };
    let weights = weights.as_slice().map_err(mistake)?;
    if weights.len() == count {
        return Ok(Some(weights));
    }
    let text = format!(
        "there are {} weights for {count} observations",
        weights.len()
    );
    Err(mistake(text))
}

/// The posterior after observations, and how well they fit what was known before.
fn observe<'a, F: ConjugateFamily>(
    prior: &Conjugate<F>,
    data: impl ExactSizeIterator<Item = &'a F::Observation>,
    weights: Option<&[f64]>,
) -> possibility::Result<(Conjugate<F>, f64)>
where
    F::Observation: 'a,
{
    let mut sample = Sample::new(prior.family().clone());
    for (index, observation) in data.enumerate() {
        let weight = weights.map_or(1.0, |weights| weights[index]);
        sample.push_weighted(observation, weight)?;
    }
    prior.observe_sample(&sample)
}

/// What Python asks of a posterior of one parameter, of whichever family.
trait Questions: Send + Sync {
    fn observe(
        &self,
        data: &[f64],
        weights: Option<&[f64]>,
    ) -> possibility::Result<(Box<dyn Questions>, f64)>;
    fn function(&self) -> Function;
    fn valid(&self) -> possibility::Result<Function>;
    fn weight(&self) -> f64;
}

impl<F> Questions for ScalarPosterior<F>
where
    F: ScalarFamily + Clone + Send + Sync + 'static,
{
    fn observe(
        &self,
        data: &[f64],
        weights: Option<&[f64]>,
    ) -> possibility::Result<(Box<dyn Questions>, f64)> {
        let (posterior, log_consistency) = observe(self.conjugate(), data.iter(), weights)?;
        let posterior = posterior.in_parameter(Parameter::Mean);
        Ok((Box::new(posterior), log_consistency))
    }

    fn function(&self) -> Function {
        Function::new(self.family().mean_name(), self.clone())
    }

    fn valid(&self) -> possibility::Result<Function> {
        let name = self.family().mean_name();
        Ok(Function::new(name, Valid::new(self.clone())?))
    }

    fn weight(&self) -> f64 {
        ScalarPosterior::weight(self)
    }
}

/// The prior of a family: nothing known, or a mode worth some observations.
fn start<F>(family: F, prior: Option<(f64, f64)>) -> possibility::Result<Box<dyn Questions>>
where
    F: ScalarFamily + Clone + Send + Sync + 'static,
{
    Ok(match prior {
        Some((mean, weight)) => Box::new(family.prior(mean, weight)?),
        None => Box::new(family.uninformative()),
    })
}

/// The possibility function of the mean parameter of a family of one parameter, given data.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Posterior {
    #[pyo3(get)]
    family: String,
    inner: Box<dyn Questions>,
    has_prior: bool,
    /// Log of how well the data fit the prior: 0 where they agree.
    #[pyo3(get)]
    log_consistency: f64,
}

#[pymethods]
impl Posterior {
    /// The prior; `prior` is its mode and the number of observations that it is worth.
    #[new]
    fn new(family: &str, known: f64, prior: Option<(f64, f64)>) -> PyResult<Self> {
        let inner = match family {
            "bernoulli" => start(Bernoulli, prior),
            "binomial" => {
                let trials = whole("trials", known)?;
                Binomial::new(trials).and_then(|family| start(family, prior))
            }
            "poisson" => start(Poisson, prior),
            "exponential" => start(Exponential, prior),
            "gamma" => Gamma::new(known).and_then(|family| start(family, prior)),
            "normal" => NormalNoise::new(known).and_then(|family| start(family, prior)),
            other => return Err(mistake(format!("there is no family \"{other}\""))),
        };
        Ok(Self {
            family: family.into(),
            inner: inner.map_err(mistake)?,
            has_prior: prior.is_some(),
            log_consistency: 0.0,
        })
    }

    /// The posterior after more data.
    fn observe(
        &self,
        py: Python<'_>,
        data: PyReadonlyArray1<'_, f64>,
        weights: Weights<'_>,
    ) -> PyResult<Self> {
        let data = data.as_slice().map_err(mistake)?;
        let weights = slice(&weights, data.len())?;
        let found = py.detach(|| self.inner.observe(data, weights));
        let (inner, log_consistency) = found.map_err(mistake)?;
        Ok(Self {
            family: self.family.clone(),
            inner,
            has_prior: self.has_prior,
            log_consistency,
        })
    }

    /// How many observations it is worth, those of the prior included.
    #[getter]
    fn weight(&self) -> f64 {
        self.inner.weight()
    }

    /// It as a function of one number.
    fn function(&self) -> Function {
        self.inner.function()
    }

    /// The valid possibility function of the same data.
    fn valid(&self, py: Python<'_>) -> PyResult<Function> {
        if self.has_prior {
            let text = "a valid possibility is one of the data alone, without a prior";
            return Err(mistake(text));
        }
        py.detach(|| self.inner.valid()).map_err(mistake)
    }
}

/// A whole number that was given as a float.
fn whole(name: &str, value: f64) -> PyResult<u64> {
    if value >= 1.0 && value.fract() == 0.0 && value <= 2f64.powi(53) {
        return Ok(value as u64);
    }
    Err(mistake(format!("{name} {value} is not in 1..=2^53")))
}

/// The possibility function of the probabilities of several classes, given data.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Shares {
    inner: Conjugate<Categorical>,
    #[pyo3(get)]
    log_consistency: f64,
}

#[pymethods]
impl Shares {
    /// The prior; `prior` is a share of every class and how many observations they are worth.
    #[new]
    fn new(classes: usize, prior: Option<(Vec<f64>, f64)>) -> PyResult<Self> {
        let family = Categorical::new(classes).map_err(mistake)?;
        let inner = match prior {
            Some((shares, weight)) => family.prior_of_shares(&shares, weight),
            None => Ok(family.uninformative()),
        };
        Ok(Self {
            inner: inner.map_err(mistake)?,
            log_consistency: 0.0,
        })
    }

    /// The posterior after more classes, numbered from 0.
    fn observe(
        &self,
        py: Python<'_>,
        data: PyReadonlyArray1<'_, i64>,
        weights: Weights<'_>,
    ) -> PyResult<Self> {
        let data = data.as_slice().map_err(mistake)?;
        let weights = slice(&weights, data.len())?;
        let (inner, log_consistency) = py.detach(|| {
            let index = |&class: &i64| {
                usize::try_from(class).map_err(|_| mistake(format!("class {class} is negative")))
            };
            let data = data.iter().map(index).collect::<PyResult<Vec<_>>>()?;
            observe(&self.inner, data.iter(), weights).map_err(mistake)
        })?;
        Ok(Self {
            inner,
            log_consistency,
        })
    }

    #[getter]
    fn weight(&self) -> f64 {
        self.inner.weight()
    }

    /// The probability of one class.
    fn coordinate(&self, index: usize, name: String) -> PyResult<Function> {
        let marginal = self.inner.coordinate(index, Parameter::Mean);
        Ok(Function::new(name, marginal.map_err(mistake)?))
    }

    /// Possibility and necessity of an event about a linear form of the probabilities.
    fn credence(&self, py: Python<'_>, factors: Vec<f64>, event: &Event) -> PyResult<(f64, f64)> {
        let set = event.set();
        let found = py.detach(|| ShareForm::new(&self.inner, &factors)?.credence_of(set));
        let found = found.map_err(mistake)?;
        Ok((found.possibility, found.necessity))
    }
}

/// The possibility function of a mean in `ℝᵈ`, given data of known covariance.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Means {
    inner: Conjugate<MultivariateNormal>,
    #[pyo3(get)]
    log_consistency: f64,
}

#[pymethods]
impl Means {
    /// The prior; `prior` is its mode and the number of observations that it is worth.
    #[new]
    fn new(
        covariance: PyReadonlyArray2<'_, f64>,
        prior: Option<(Vec<f64>, f64)>,
    ) -> PyResult<Self> {
        let family = MultivariateNormal::new(matrix(&covariance)).map_err(mistake)?;
        let inner = match prior {
            Some((mean, weight)) => family.prior(&mean, weight),
            None => Ok(family.uninformative()),
        };
        Ok(Self {
            inner: inner.map_err(mistake)?,
            log_consistency: 0.0,
        })
    }

    /// The posterior after more rows.
    fn observe(
        &self,
        py: Python<'_>,
        data: PyReadonlyArray2<'_, f64>,
        weights: Weights<'_>,
    ) -> PyResult<Self> {
        let (rows, columns) = (data.as_array().nrows(), data.as_array().ncols());
        let expected = self.inner.family().dimension();
        if columns != expected {
            let text = format!("the data have {columns} columns, the covariance {expected}");
            return Err(mistake(text));
        }
        let data = data.as_slice().map_err(mistake)?;
        let weights = slice(&weights, rows)?;
        let found = py.detach(|| observe(&self.inner, data.chunks_exact(columns), weights));
        let (inner, log_consistency) = found.map_err(mistake)?;
        Ok(Self {
            inner,
            log_consistency,
        })
    }

    #[getter]
    fn weight(&self) -> f64 {
        self.inner.weight()
    }

    #[getter]
    fn mode<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        let mean = self.inner.mean_statistic()?;
        Some(mean.to_vec().into_pyarray(py))
    }

    /// All coordinates together.
    fn normal(&self) -> PyResult<Normal> {
        let precision = self.inner.precision(Parameter::Mean);
        let known = self.inner.mean_statistic().zip(precision);
        let Some((mode, precision)) = known else {
            return Err(mistake("nothing is known"));
        };
        let normal = possibility::Normal::from_precision(mode.to_vec(), precision);
        Ok(normal.map_err(mistake)?.into())
    }

    /// One coordinate.
    fn coordinate(&self, index: usize, name: String) -> PyResult<Function> {
        let marginal = self.inner.coordinate(index, Parameter::Mean);
        Ok(Function::new(name, marginal.map_err(mistake)?))
    }

    /// A linear form of the coordinates.
    fn form(&self, factors: Vec<f64>, name: String) -> PyResult<Function> {
        let normal = self.normal()?;
        let normal = normal.inner();
        let row = faer::Mat::from_fn(1, factors.len(), |_, j| factors[j]);
        let image = normal.affine_image(row.as_ref(), &[0.0]).map_err(mistake)?;
        let deviation = image.covariance()[(0, 0)].sqrt();
        let marginal = Marginal::new(image.mode()[0], deviation).map_err(mistake)?;
        Ok(Function::new(name, marginal))
    }
}
