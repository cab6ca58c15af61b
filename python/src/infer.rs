//! Posteriors of the conjugate families.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use possibility::Credence;
use possibility::compare::Comparable;
use possibility::family::conjugate::{
    Bernoulli, Categorical, Conjugate, ConjugateFamily, Evidence, Exponential, Gamma,
    MultivariateNormal, NormalNoise, Parameter, Poisson, Sample, ScalarFamily, ShareForm,
};
use possibility::prelude::*;
use possibility::regression::{Design, Marginal, Response};
use possibility::valid::Valid;
use pyo3::prelude::*;
use questions::event::{Event as TextEvent, Variables};
use questions::levels::Levels;
use questions::saved::{self, Saved};
use questions::simulation::Simulations;
use questions::{Unmeasured, means, shares};
use serde_json::{Value, json};

use crate::event::{Event, pair};
use crate::function::{Function, Line};
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

/// What was known before, what was observed, and what follows.
struct Observed<F: ConjugateFamily> {
    prior: Conjugate<F>,
    posterior: Conjugate<F>,
    /// What all data say, for a file; or why they cannot be stored.
    evidence: Result<Option<Evidence>, String>,
    rows: usize,
    log_consistency: f64,
}

impl<F: ConjugateFamily> Observed<F> {
    fn nothing(prior: Conjugate<F>) -> Self {
        Self {
            posterior: prior.clone(),
            prior,
            evidence: Ok(None),
            rows: 0,
            log_consistency: 0.0,
        }
    }

    /// What files that belong together say.
    fn of_files(family: &F, files: &[Saved]) -> PyResult<Self> {
        let merged = saved::merge(family, files).map_err(mistake)?;
        let found = merged.prior.observe_evidence(&merged.evidence);
        let (posterior, log_consistency) = found.map_err(mistake)?;
        Ok(Self {
            prior: merged.prior,
            posterior,
            evidence: Ok(Some(merged.evidence)),
            rows: merged.rows,
            log_consistency,
        })
    }

    /// The posterior after more data.
    fn observe<'a>(
        &self,
        data: impl ExactSizeIterator<Item = &'a F::Observation>,
        weights: Option<&[f64]>,
    ) -> possibility::Result<Self>
    where
        F::Observation: 'a,
    {
        let family = self.prior.family();
        let mut sample = Sample::new(family.clone());
        for (index, observation) in data.enumerate() {
            let weight = weights.map_or(1.0, |weights| weights[index]);
            sample.push_weighted(observation, weight)?;
        }
        let (posterior, log_consistency) = self.posterior.observe_sample(&sample)?;
        let evidence = match &self.evidence {
            Ok(known) if sample.total_weight() > 0.0 => {
                let parts: possibility::Result<Vec<Evidence>> = known
                    .iter()
                    .map(|known| Ok(known.clone()))
                    .chain([Evidence::of_sample(&sample)])
                    .collect();
                let merged = parts.and_then(|parts| match &parts[..] {
                    [only] => Ok(only.clone()),
                    parts => Evidence::merged(family, parts),
                });
                merged.map(Some).map_err(|error| error.to_string())
            }
            known => known.clone(),
        };
        Ok(Self {
            prior: self.prior.clone(),
            posterior,
            evidence,
            rows: self.rows + sample.observations().len(),
            log_consistency,
        })
    }

    fn has_prior(&self) -> bool {
        self.prior.mean_statistic().is_some()
    }

    /// Refuses a prior, where validity is asked for.
    fn check_valid(&self) -> PyResult<()> {
        if self.has_prior() {
            let text = "a valid possibility is one of the data alone, without a prior";
            return Err(mistake(text));
        }
        Ok(())
    }

    /// An event about the numbers of these names, as text; `own` is what they are called together.
    fn event(&self, own: &str, text: &str, names: &[String], valid: bool) -> PyResult<TextEvent> {
        if valid {
            self.check_valid()?;
        }
        TextEvent::parse(text, &Variables::vector(&[own, "x"], names)).map_err(mistake)
    }

    /// One coordinate of the mean parameter.
    fn coordinate(&self, index: usize, name: String) -> PyResult<Function>
    where
        F::Coordinate: Send + Sync + 'static,
    {
        let marginal = self.posterior.coordinate(index, Parameter::Mean);
        Ok(Function::new(name, marginal.map_err(mistake)?))
    }

    /// Writes a file that `maxitive infer merge` reads.
    fn bytes(&self, settings: Value) -> PyResult<Vec<u8>> {
        match &self.evidence {
            Err(reason) => Err(mistake(reason)),
            Ok(None) => Err(mistake("there are no data to save")),
            Ok(Some(evidence)) => {
                Ok(Saved::new(&self.prior, settings, self.rows, evidence).bytes())
            }
        }
    }
}

/// A number whose posterior can be compared with those of other groups.
pub trait Member: Comparable + Line {}

impl<T: Comparable + Send + Sync> Member for T {}

/// What Python asks of a posterior of one parameter, of whichever family.
trait Questions: Send + Sync {
    fn observe(
        &self,
        data: &[f64],
        weights: Option<&[f64]>,
    ) -> possibility::Result<Box<dyn Questions>>;
    fn name(&self) -> &'static str;
    fn member(&self) -> Arc<dyn Member>;
    fn valid(&self) -> PyResult<Function>;
    fn weight(&self) -> f64;
    fn log_consistency(&self) -> f64;
    fn bytes(&self) -> PyResult<Vec<u8>>;
}

impl<F> Questions for Observed<F>
where
    F: ScalarFamily + Clone + Send + Sync + 'static,
{
    fn observe(
        &self,
        data: &[f64],
        weights: Option<&[f64]>,
    ) -> possibility::Result<Box<dyn Questions>> {
        Ok(Box::new(Observed::observe(self, data.iter(), weights)?))
    }

    fn name(&self) -> &'static str {
        self.prior.family().mean_name()
    }

    fn member(&self) -> Arc<dyn Member> {
        Arc::new(self.posterior.clone().in_parameter(Parameter::Mean))
    }

    fn valid(&self) -> PyResult<Function> {
        self.check_valid()?;
        let plain = self.posterior.clone().in_parameter(Parameter::Mean);
        let valid = Valid::new(plain).map_err(mistake)?;
        Ok(Function::new(self.name(), valid))
    }

    fn weight(&self) -> f64 {
        self.posterior.weight()
    }

    fn log_consistency(&self) -> f64 {
        self.log_consistency
    }

    fn bytes(&self) -> PyResult<Vec<u8>> {
        Observed::bytes(self, saved::settings(self.prior.family()))
    }
}

/// What a posterior begins with.
enum Start<'a> {
    /// A mode worth some observations, or nothing.
    Prior(Option<(f64, f64)>),
    /// Posteriors of files.
    Files(&'a [Saved]),
}

fn start<F>(family: F, start: &Start<'_>) -> PyResult<Box<dyn Questions>>
where
    F: ScalarFamily + Clone + Send + Sync + 'static,
{
    let observed = match *start {
        Start::Prior(Some((mean, weight))) => {
            let prior = family.prior(mean, weight).map_err(mistake)?;
            Observed::nothing(prior.conjugate().clone())
        }
        Start::Prior(None) => Observed::nothing(Conjugate::uninformative(family)),
        Start::Files(files) => Observed::of_files(&family, files)?,
    };
    Ok(Box::new(observed))
}

/// A posterior of the family of this name; `known` is its setting, where it has one.
fn begin(family: &str, known: f64, begin: &Start<'_>) -> PyResult<Box<dyn Questions>> {
    match family {
        "bernoulli" => start(Bernoulli, begin),
        "binomial" => {
            let family = Binomial::new(whole("trials", known)?).map_err(mistake)?;
            start(family, begin)
        }
        "poisson" => start(Poisson, begin),
        "exponential" => start(Exponential, begin),
        "gamma" => start(Gamma::new(known).map_err(mistake)?, begin),
        "normal" => start(NormalNoise::new(known).map_err(mistake)?, begin),
        other => Err(mistake(format!("there is no family \"{other}\""))),
    }
}

/// The possibility function of the mean parameter of a family of one parameter, given data.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Posterior {
    #[pyo3(get)]
    family: String,
    inner: Box<dyn Questions>,
}

#[pymethods]
impl Posterior {
    /// The prior; `prior` is its mode and the number of observations that it is worth.
    #[new]
    fn new(family: String, known: f64, prior: Option<(f64, f64)>) -> PyResult<Self> {
        let inner = begin(&family, known, &Start::Prior(prior))?;
        Ok(Self { family, inner })
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
        Ok(Self {
            family: self.family.clone(),
            inner: found.map_err(mistake)?,
        })
    }

    /// How many observations it is worth, those of the prior included.
    #[getter]
    fn weight(&self) -> f64 {
        self.inner.weight()
    }

    /// Log of how well the data fit the prior: 0 where they agree.
    #[getter]
    fn log_consistency(&self) -> f64 {
        self.inner.log_consistency()
    }

    /// It as a function of one number.
    fn function(&self) -> Function {
        Function::shared(self.inner.name(), self.inner.member())
    }

    /// The valid possibility function of the same data.
    fn valid(&self, py: Python<'_>) -> PyResult<Function> {
        py.detach(|| self.inner.valid())
    }

    /// What a file of it holds.
    fn bytes(&self) -> PyResult<Vec<u8>> {
        self.inner.bytes()
    }
}

/// A posterior of files, of whichever kind.
// it becomes an object of Python at once
#[allow(clippy::large_enum_variant)]
#[derive(IntoPyObject)]
pub enum Loaded {
    /// Of one parameter.
    One(Posterior),
    /// Of the probabilities of these classes.
    Classes(Shares, Vec<String>),
    /// Of the means of these columns.
    Columns(Means, Vec<String>),
}

/// Posteriors of parts of the data, saved in files, as one.
#[pyfunction]
pub fn merge(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<Loaded> {
    py.detach(|| {
        let files = paths.iter().map(|path| Saved::read(path));
        of_files(files.collect::<Result<Vec<_>, _>>().map_err(mistake)?)
    })
}

/// A posterior, from what a file of it holds.
#[pyfunction]
pub fn restore(content: &[u8]) -> PyResult<Loaded> {
    let saved = Saved::parse(Path::new("pickle"), content);
    of_files(vec![saved.map_err(mistake)?])
}

fn of_files(files: Vec<Saved>) -> PyResult<Loaded> {
    let files = saved::unify(files).map_err(mistake)?;
    let first = &files[0];
    let known = |key: &str| first.number(key).map_err(mistake);
    let family = first.family.clone();
    let known = match &*family {
        "categorical" => {
            let classes = first.classes().map_err(mistake)?;
            let family = Categorical::new(classes.len()).map_err(mistake)?;
            let inner = Observed::of_files(&family, &files)?;
            return Ok(Loaded::Classes(Shares { inner }, classes));
        }
        "multivariate-normal" => {
            let columns = first.strings("columns").map_err(mistake)?;
            let rows = first.matrix("covariance").map_err(mistake)?;
            let size = rows.len();
            let covariance = faer::Mat::from_fn(size, size, |i, j| rows[i][j]);
            let family = MultivariateNormal::new(covariance).map_err(mistake)?;
            let inner = Observed::of_files(&family, &files)?;
            return Ok(Loaded::Columns(Means { inner }, columns));
        }
        "binomial" => known("trials")?,
        "gamma" => known("shape")?,
        "normal" => known("variance")?,
        _ => 0.0,
    };
    let inner = begin(&family, known, &Start::Files(&files))?;
    Ok(Loaded::One(Posterior { family, inner }))
}

/// One posterior for each group of observations.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Groups {
    parameters: Vec<&'static str>,
    #[pyo3(get)]
    names: Vec<String>,
    /// How many observations each group has.
    #[pyo3(get)]
    sizes: Vec<usize>,
    /// The first parameter of all groups, then the second.
    members: Vec<Arc<dyn Member>>,
}

#[pymethods]
impl Groups {
    /// Posteriors of a family; `words` are the names of the groups and `codes` say which of them an
    /// observation has. A normal without a variance has two parameters.
    #[new]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        family: &str,
        known: Option<f64>,
        prior: Option<(f64, f64)>,
        data: PyReadonlyArray1<'_, f64>,
        weights: Weights<'_>,
        words: Vec<String>,
        codes: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<Self> {
        let data = data.as_slice().map_err(mistake)?;
        let weights = slice(&weights, data.len())?;
        let codes = codes.as_slice().map_err(mistake)?;
        if codes.len() != data.len() {
            let text = format!(
                "there are {} groups for {} observations",
                codes.len(),
                data.len()
            );
            return Err(mistake(text));
        }
        py.detach(|| {
            let mut levels = Levels::default();
            let words: Vec<usize> = words.iter().map(|word| levels.code(word)).collect();
            let (names, places) = levels.sorted();
            let mut parts = vec![(Vec::new(), Vec::new()); names.len()];
            for (row, &code) in codes.iter().enumerate() {
                let word = usize::try_from(code).ok().and_then(|code| words.get(code));
                let word = *word.ok_or_else(|| mistake(format!("there is no group {code}")))?;
                let (values, counts) = &mut parts[places[word]];
                values.push(data[row]);
                counts.push(weights.map_or(1.0, |weights| weights[row]));
            }
            let mut posteriors = Vec::with_capacity(names.len());
            for (name, (values, counts)) in names.iter().zip(&parts) {
                let fail =
                    |error: &dyn std::fmt::Display| mistake(format!("group \"{name}\": {error}"));
                if counts.iter().sum::<f64>() <= 0.0 {
                    return Err(fail(&"the weights add up to 0"));
                }
                posteriors.push(match (family, known) {
                    ("normal", None) => {
                        let mut design = Design::with_intercept(Response::Normal, 0);
                        for (&value, &count) in values.iter().zip(counts) {
                            let pushed = design.push_weighted(&[], value, count);
                            pushed.map_err(|error| fail(&error))?;
                        }
                        let found = questions::groups::normal(&design, prior);
                        let (mean, variance) = found.map_err(|error| fail(&error))?;
                        let members: [Arc<dyn Member>; 2] = [Arc::new(mean), Arc::new(variance)];
                        (vec!["mean", "variance"], members.to_vec())
                    }
                    _ => {
                        let start = begin(family, known.unwrap_or_default(), &Start::Prior(prior))?;
                        let found = start.observe(values, Some(counts));
                        let found = found.map_err(|error| fail(&error))?;
                        (vec![found.name()], vec![found.member()])
                    }
                });
            }
            let Some((parameters, _)) = posteriors.first() else {
                return Err(mistake("there are no groups"));
            };
            let parameters = parameters.clone();
            let kinds = 0..parameters.len();
            let members = kinds.flat_map(|kind| {
                let members = posteriors.iter();
                members.map(move |(_, members)| Arc::clone(&members[kind]))
            });
            Ok(Self {
                members: members.collect(),
                sizes: parts.iter().map(|(values, _)| values.len()).collect(),
                parameters,
                names,
            })
        })
    }

    #[getter]
    fn parameters(&self) -> Vec<&'static str> {
        self.parameters.clone()
    }

    /// A parameter of one group.
    fn function(&self, group: usize, parameter: usize) -> Function {
        let name = format!("{}[{}]", self.parameters[parameter], self.names[group]);
        let member = &self.members[parameter * self.names.len() + group];
        Function::shared(name, member.clone() as Arc<dyn Line>)
    }

    /// Possibility and necessity of an event about named groups.
    fn credence(&self, py: Python<'_>, text: &str) -> PyResult<(f64, f64)> {
        py.detach(|| {
            let all = questions::groups::Groups {
                parameters: &self.parameters,
                names: self.names.iter().map(String::as_str).collect(),
                functions: self
                    .members
                    .iter()
                    .map(|one| &**one as &dyn Comparable)
                    .collect(),
            };
            let event = TextEvent::parse(text, &all.variables()).map_err(mistake)?;
            let found = all.measure(&event);
            found.map(pair).map_err(|rule| refused(text, &rule))
        })
    }
}

/// An event that cannot be answered, with the rule.
pub fn refused(text: &str, rule: &dyn std::fmt::Display) -> PyErr {
    mistake(format!("event \"{text}\": {rule}"))
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
    inner: Observed<Categorical>,
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
            inner: Observed::nothing(inner.map_err(mistake)?),
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
        let inner = py.detach(|| {
            let index = |&class: &i64| {
                usize::try_from(class).map_err(|_| mistake(format!("class {class} is negative")))
            };
            let data = data.iter().map(index).collect::<PyResult<Vec<_>>>()?;
            self.inner.observe(data.iter(), weights).map_err(mistake)
        })?;
        Ok(Self { inner })
    }

    #[getter]
    fn weight(&self) -> f64 {
        self.inner.posterior.weight()
    }

    #[getter]
    fn log_consistency(&self) -> f64 {
        self.inner.log_consistency
    }

    /// The probability of one class.
    fn coordinate(&self, index: usize, name: String) -> PyResult<Function> {
        self.inner.coordinate(index, name)
    }

    /// Possibility and necessity of an event about a linear form of the probabilities.
    fn credence(&self, py: Python<'_>, factors: Vec<f64>, event: &Event) -> PyResult<(f64, f64)> {
        let set = event.set();
        let found = py.detach(|| ShareForm::new(&self.inner.posterior, &factors)?.credence_of(set));
        found.map(pair).map_err(mistake)
    }

    /// Possibility and necessity of an event about these classes, as text.
    fn credence_of(
        &self,
        py: Python<'_>,
        text: &str,
        names: Vec<String>,
        valid: bool,
    ) -> PyResult<(f64, f64)> {
        let event = self.inner.event("p", text, &names, valid)?;
        let posterior = &self.inner.posterior;
        let measure = || -> Result<Credence, Unmeasured> {
            if let Some((index, set)) = event.place() {
                if valid {
                    return Ok(self.valid_share(index)?.credence_of(&set)?);
                }
                let share = posterior.coordinate(index, Parameter::Mean)?;
                return Ok(share.credence_of(&set)?);
            }
            let (form, set) = shares::form(posterior, &event)?;
            if valid {
                let (measured, _) = shares::valid_form(&form, &set, Simulations::default())?;
                return Ok(measured.credence);
            }
            Ok(form.credence_of(&set)?)
        };
        let found = py.detach(measure);
        found.map(pair).map_err(|reason| match reason {
            Unmeasured::Library(error) => mistake(error),
            Unmeasured::Event(rule) => refused(text, &rule),
        })
    }

    /// The valid possibility function of the probability of one class.
    fn valid(&self, index: usize, name: String) -> PyResult<Function> {
        self.inner.check_valid()?;
        let share = self.valid_share(index).map_err(mistake)?;
        Ok(Function::new(name, share))
    }

    /// What a file of it holds, with the names of the classes.
    fn bytes(&self, names: Vec<String>) -> PyResult<Vec<u8>> {
        self.inner.bytes(json!({ "classes": names }))
    }
}

impl Shares {
    fn valid_share(&self, index: usize) -> possibility::Result<Valid<Bernoulli>> {
        let posterior = &self.inner.posterior;
        let share = posterior.coordinate(index, Parameter::Mean)?;
        let share = share.mean_statistic().unwrap_or(f64::NAN);
        shares::valid(share, posterior.weight())
    }
}

/// The possibility function of a mean in `ℝᵈ`, given data of known covariance.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Means {
    inner: Observed<MultivariateNormal>,
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
            inner: Observed::nothing(inner.map_err(mistake)?),
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
        let expected = self.inner.prior.family().dimension();
        if columns != expected {
            let text = format!("the data have {columns} columns, the covariance {expected}");
            return Err(mistake(text));
        }
        let data = data.as_slice().map_err(mistake)?;
        let weights = slice(&weights, rows)?;
        let found = py.detach(|| self.inner.observe(data.chunks_exact(columns), weights));
        Ok(Self {
            inner: found.map_err(mistake)?,
        })
    }

    #[getter]
    fn weight(&self) -> f64 {
        self.inner.posterior.weight()
    }

    #[getter]
    fn log_consistency(&self) -> f64 {
        self.inner.log_consistency
    }

    #[getter]
    fn mode<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        let mean = self.inner.posterior.mean_statistic()?;
        Some(mean.to_vec().into_pyarray(py))
    }

    /// All coordinates together.
    fn normal(&self) -> PyResult<Normal> {
        let normal = self.inner.posterior.normal(Parameter::Mean);
        let known = normal.map_err(mistake)?;
        Ok(known.ok_or_else(|| mistake("nothing is known"))?.into())
    }

    /// One coordinate.
    fn coordinate(&self, index: usize, name: String) -> PyResult<Function> {
        self.inner.coordinate(index, name)
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

    /// Possibility and necessity of an event about these coordinates, as text.
    fn credence_of(
        &self,
        py: Python<'_>,
        text: &str,
        names: Vec<String>,
        valid: bool,
    ) -> PyResult<(f64, f64)> {
        let event = self.inner.event("mean", text, &names, valid)?;
        let normal = self.normal()?;
        let found = py.detach(|| means::credence(normal.inner(), &event, valid));
        found.map(pair).map_err(|rule| refused(text, &rule))
    }

    /// The valid possibility function of one coordinate.
    fn valid(&self, index: usize, name: String) -> PyResult<Function> {
        self.inner.check_valid()?;
        let posterior = &self.inner.posterior;
        let means = posterior.mean_statistic().unwrap_or_default();
        let mean = (means.get(index)).ok_or_else(|| mistake("nothing is known"))?;
        let found = means::valid(posterior.family(), index, *mean, posterior.weight());
        Ok(Function::new(name, found.map_err(mistake)?))
    }

    /// What a file of it holds, with the names of the coordinates.
    fn bytes(&self, names: Vec<String>) -> PyResult<Vec<u8>> {
        let covariance = self.inner.prior.family().covariance();
        let rows = covariance.row_iter();
        let rows: Vec<Vec<f64>> = rows.map(|row| row.iter().copied().collect()).collect();
        self.inner
            .bytes(json!({ "columns": names, "covariance": rows }))
    }
}
