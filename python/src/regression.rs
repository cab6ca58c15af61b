//! Regressions with exact profiles.

use std::sync::Arc;

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use plot::Curve;
use plot::curve::smallest_shown;
use possibility::family::conjugate::{Gamma, Parameter, ScalarPosterior};
use possibility::regression::{
    Design, Dispersion, FormQuestions, PriorPrecision, Profiles, RegressionConfig,
    RegressionPosterior, Response, Target,
};
use possibility::valid::Pivot;
use possibility::{Credence, Interval, Measure, RealSet, Result, Univariate};
use pyo3::prelude::*;
use questions::coefficients::{self, Question};
use questions::event::Event as TextEvent;

use crate::event::{Event, pair};
use crate::function::{Function, Line, ValidLine};
use crate::infer::{refused, slice};
use crate::mistake;
use crate::normal::Normal;

/// A model with its data and its posterior.
struct Fitted {
    design: Design,
    model: possibility::regression::Regression,
    posterior: RegressionPosterior,
    has_prior: bool,
}

impl Fitted {
    /// The laws of the coefficients and of an unknown variance.
    fn pivots(&self) -> PyResult<(Pivot, Option<Pivot>)> {
        if self.design.response() != Response::Normal {
            let text = "the coefficients have no law of their own; `maxitive infer --valid` \
                        simulates it";
            return Err(mistake(text));
        }
        let dispersion = self.model.dispersion();
        coefficients::pivots(self.has_prior, dispersion, &self.design).map_err(mistake)
    }

    /// The profile of an unknown variance.
    fn variance(&self) -> Result<ScalarPosterior<Gamma>> {
        let profile = self.posterior.dispersion_profile()?;
        Ok(profile.in_parameter(Parameter::Mean))
    }

    fn profiles(&self) -> Result<Profiles<'_>> {
        Profiles::new(&self.model, &self.design, &self.posterior)
    }
}

/// The exact profile of a linear form of the coefficients.
struct Profile {
    fitted: Arc<Fitted>,
    form: Vec<f64>,
}

impl Profile {
    fn laplace(&self) -> Result<possibility::regression::Marginal> {
        self.fitted.posterior.laplace_marginal(&self.form)
    }
}

impl Line for Profile {
    fn mode(&self) -> Option<f64> {
        Some(self.laplace().ok()?.mode())
    }

    fn precision(&self) -> Option<f64> {
        Univariate::precision(&self.laplace().ok()?)
    }

    fn domain(&self) -> Interval {
        Interval::REAL_LINE
    }

    fn cut(&self, alpha: f64) -> Result<Interval> {
        self.fitted.profiles()?.cut(&self.form, alpha)
    }

    fn possibilities(&self, values: &[f64]) -> Result<Vec<f64>> {
        let targets = values.iter().map(|&x| (&self.form[..], Target::Value(x)));
        let targets: Vec<_> = targets.collect();
        let points = self.fitted.profiles()?.solve(&targets)?;
        Ok(points.iter().map(|p| p.log_possibility.exp()).collect())
    }

    fn credence(&self, event: &RealSet) -> Result<Credence> {
        self.fitted.profiles()?.credence_of(&self.form, event)
    }

    fn curve(&self, name: &str, alphas: &[f64]) -> Result<Curve> {
        let profiles = self.fitted.profiles()?;
        let forms = [self.form.clone()];
        let curves = profiles.curves(&forms, smallest_shown(alphas))?;
        let cuts = alphas.iter().map(|&alpha| profiles.cut(&self.form, alpha));
        let cuts = cuts.collect::<Result<Vec<_>>>()?;
        let laplace = self.laplace()?;
        Ok(Curve::of_profile(&curves[0], &laplace, name, alphas, &cuts))
    }
}

/// Settings of a fit, as Python gives them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    family: String,
    /// `None` is unknown, for a normal response.
    variance: Option<f64>,
    intercept: bool,
    intercept_mode: f64,
    intercept_precision: f64,
    /// `None` is the usual one.
    prior_precision: Option<f64>,
    standardize: bool,
    threads: Option<usize>,
}

impl Settings {
    fn response(&self) -> PyResult<Response> {
        match &*self.family {
            "logistic" => Ok(Response::Bernoulli),
            "poisson-regression" => Ok(Response::Poisson),
            "linear" | "normal" => Ok(Response::Normal),
            other => Err(mistake(format!("there is no regression \"{other}\""))),
        }
    }

    /// The precision of the prior of every covariate's coefficient.
    fn precision(&self, response: Response) -> f64 {
        let usual = response.usual_prior_precision();
        self.prior_precision.unwrap_or(usual)
    }

    fn config(&self, design: &Design) -> Result<RegressionConfig> {
        let response = design.response();
        let precision = self.precision(response);
        let first = usize::from(self.intercept);
        let own = self.intercept.then_some(self.intercept_precision);
        let prior_precision = if self.standardize {
            PriorPrecision::standardized(&design.column_moments(), precision, own)?
        } else {
            let mut all = vec![precision; design.covariates() + first];
            if let Some(own) = own {
                all[0] = own;
            }
            PriorPrecision::Diagonal(all)
        };
        let mut prior_mode = vec![0.0; design.columns()];
        if self.intercept {
            prior_mode[0] = self.intercept_mode;
        }
        Ok(RegressionConfig {
            prior_mode: Some(prior_mode),
            prior_precision,
            dispersion: match (response, self.variance) {
                (Response::Normal, None) => Dispersion::Unknown,
                (Response::Normal, Some(variance)) => Dispersion::Known(variance),
                _ => Dispersion::Known(1.0),
            },
            threads: self.threads.and_then(std::num::NonZero::new),
            ..RegressionConfig::default()
        })
    }
}

/// A regression and the posterior of its coefficients.
#[pyclass(frozen, module = "maxitive._maxitive")]
pub struct Regression(Arc<Fitted>);

#[pymethods]
impl Regression {
    /// Fits responses `[n]` to covariates `[n, columns]`.
    #[new]
    fn new(
        py: Python<'_>,
        responses: PyReadonlyArray1<'_, f64>,
        covariates: PyReadonlyArray2<'_, f64>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        settings: Settings,
    ) -> PyResult<Self> {
        let responses = responses.as_slice().map_err(mistake)?;
        let (rows, columns) = (covariates.as_array().nrows(), covariates.as_array().ncols());
        if rows != responses.len() {
            let text = format!(
                "there are {} responses for {rows} rows of covariates",
                responses.len()
            );
            return Err(mistake(text));
        }
        let values = covariates.as_slice().map_err(mistake)?;
        let weights = slice(&weights, rows)?;
        let response = settings.response()?;
        py.detach(|| {
            let mut design = if settings.intercept {
                Design::with_intercept(response, columns)
            } else {
                Design::new(response, columns).map_err(mistake)?
            };
            for (row, &observed) in responses.iter().enumerate() {
                let covariates = &values[row * columns..(row + 1) * columns];
                let weight = weights.map_or(1.0, |weights| weights[row]);
                design
                    .push_weighted(covariates, observed, weight)
                    .map_err(|error| mistake(format!("row {row}: {error}")))?;
            }
            let config = settings.config(&design).map_err(mistake)?;
            let model = config.build(design.columns()).map_err(mistake)?;
            let posterior = model.fit(&design).map_err(mistake)?;
            let has_prior =
                settings.precision(response) > 0.0 || settings.intercept_precision > 0.0;
            Ok(Self(Arc::new(Fitted {
                design,
                model,
                posterior,
                has_prior,
            })))
        })
    }

    #[getter]
    fn rows(&self) -> usize {
        self.0.posterior.rows()
    }

    #[getter]
    fn mode<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.0.posterior.mode().to_vec().into_pyarray(py)
    }

    #[getter]
    fn log_consistency(&self) -> f64 {
        self.0.posterior.log_consistency()
    }

    #[getter]
    fn steps(&self) -> usize {
        self.0.posterior.steps()
    }

    #[getter]
    fn mean_name(&self) -> &'static str {
        self.0.design.response().mean_name()
    }

    /// The normal approximation with the curvature at the mode.
    fn laplace(&self) -> Normal {
        self.0.posterior.laplace().clone().into()
    }

    /// Cuts of all coefficients `[columns, 2]`, and how far a log possibility may be off.
    fn cuts<'py>(
        &self,
        py: Python<'py>,
        alpha: f64,
    ) -> PyResult<(Bound<'py, PyArray2<f64>>, Option<f64>)> {
        let columns = self.0.design.columns();
        let answers = py.detach(|| {
            let questions: Vec<FormQuestions> = (0..columns)
                .map(|index| FormQuestions {
                    form: (0..columns)
                        .map(|j| if j == index { 1.0 } else { 0.0 })
                        .collect(),
                    alphas: vec![alpha],
                    events: Vec::new(),
                })
                .collect();
            self.0.profiles()?.answer(&questions)
        });
        let answers = answers.map_err(mistake)?;
        let end = |(index, end): (usize, usize)| answers[index].cuts[0][end].value;
        let cuts = Array2::from_shape_fn((columns, 2), end);
        let gap = largest(answers.iter().map(|one| one.gap));
        Ok((cuts.into_pyarray(py), gap))
    }

    /// The exact profile of a linear form of the coefficients.
    fn form(&self, factors: Vec<f64>, name: String) -> PyResult<Function> {
        Ok(Function::new(name, self.profile(factors)?))
    }

    /// Possibility and necessity of an event about these coefficients, as text.
    fn credence_of(
        &self,
        py: Python<'_>,
        text: &str,
        names: Vec<String>,
        valid: bool,
    ) -> PyResult<(f64, f64)> {
        let variables = coefficients::variables(&names, self.0.model.dispersion());
        let event = TextEvent::parse(text, &variables).map_err(mistake)?;
        let question = coefficients::question(&event, names.len());
        let question = question.map_err(|rule| refused(text, &rule))?;
        let pivots = valid.then(|| self.0.pivots()).transpose()?;
        let pivot = pivots.map(|pivots| pivots.0);
        let variance_pivot = pivots.and_then(|pivots| pivots.1);
        let read = |plain: Credence, pivot: Option<Pivot>| {
            pivot.map_or(plain, |pivot| pivot.credence(plain))
        };
        let of_form = |form: &[f64], set: &RealSet| {
            let plain = self.0.profiles()?.credence_of(form, set)?;
            Ok(read(plain, pivot))
        };
        let found = match question {
            Question::Every(_) => {
                let rule = format!("name the coefficient, as in coefficient[{}]", names[0]);
                return Err(refused(text, &rule));
            }
            Question::Together(..) if valid => {
                let rule = "a coefficient and the variance together have no valid possibility here";
                return Err(refused(text, &rule));
            }
            Question::One(index, set) => {
                let mut form = vec![0.0; names.len()];
                form[index] = 1.0;
                py.detach(|| of_form(&form, &set))
            }
            Question::Form(form, set) => py.detach(|| of_form(&form, &set)),
            Question::Variance(set) => {
                let plain = self.0.variance().and_then(|own| own.credence_of(&set));
                plain.map(|plain| read(plain, variance_pivot))
            }
            Question::Together(form, set, variances) => {
                let together = self.0.posterior.with_variance(&form);
                together.map(|together| together.credence_of(&set, &variances))
            }
        };
        found.map(pair).map_err(mistake)
    }

    /// The valid possibility function of a linear form of the coefficients.
    fn valid_form(&self, factors: Vec<f64>, name: String) -> PyResult<Function> {
        let (pivot, _) = self.0.pivots()?;
        let profile = self.profile(factors)?;
        Ok(Function::new(name, ValidLine::new(profile, pivot)))
    }

    /// The valid possibility function of an unknown variance.
    fn valid_variance(&self) -> PyResult<Option<Function>> {
        let (_, Some(pivot)) = self.0.pivots()? else {
            return Ok(None);
        };
        let valid = ValidLine::new(self.0.variance().map_err(mistake)?, pivot);
        Ok(Some(Function::new("variance", valid)))
    }

    /// The profile of an unknown variance.
    fn variance(&self) -> PyResult<Option<Function>> {
        if self.0.model.dispersion() != Dispersion::Unknown {
            return Ok(None);
        }
        let variance = self.0.variance().map_err(mistake)?;
        Ok(Some(Function::new("variance", variance)))
    }

    /// The mean response at rows of new covariates: modes, cuts `[alphas, rows, 2]` flat,
    /// possibilities and necessities of the event, and how far a log possibility may be off.
    #[allow(clippy::type_complexity)]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        covariates: PyReadonlyArray2<'py, f64>,
        alphas: Vec<f64>,
        event: Option<PyRef<'py, Event>>,
    ) -> PyResult<(
        Bound<'py, PyArray1<f64>>,
        Bound<'py, PyArray2<f64>>,
        Bound<'py, PyArray2<f64>>,
        Bound<'py, PyArray1<f64>>,
        Bound<'py, PyArray1<f64>>,
        Option<f64>,
    )> {
        let rows: Vec<Vec<f64>> = covariates
            .as_array()
            .rows()
            .into_iter()
            .map(|row| row.to_vec())
            .collect();
        let sets: Vec<RealSet> = event.iter().map(|event| event.set().clone()).collect();
        let found = py
            .detach(|| self.0.profiles()?.mean_responses(&rows, &alphas, &sets))
            .map_err(mistake)?;
        let modes: Vec<f64> = found.iter().map(|one| one.mode).collect();
        let shape = (rows.len(), alphas.len());
        let lower = Array2::from_shape_fn(shape, |(row, level)| found[row].cuts[level].lower());
        let upper = Array2::from_shape_fn(shape, |(row, level)| found[row].cuts[level].upper());
        let credences = || found.iter().flat_map(|one| &one.credences);
        let possibility: Vec<f64> = credences().map(|one| one.possibility).collect();
        let necessity: Vec<f64> = credences().map(|one| one.necessity).collect();
        Ok((
            modes.into_pyarray(py),
            lower.into_pyarray(py),
            upper.into_pyarray(py),
            possibility.into_pyarray(py),
            necessity.into_pyarray(py),
            largest(found.iter().map(|one| one.gap)),
        ))
    }
}

impl Regression {
    /// The profile of a form that the coefficients have.
    fn profile(&self, form: Vec<f64>) -> PyResult<Profile> {
        let fitted = Arc::clone(&self.0);
        let profile = Profile { fitted, form };
        profile.laplace().map_err(mistake)?;
        Ok(profile)
    }
}

/// The largest gap; none, where one of them is not known.
fn largest(gaps: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let both = |a: Option<f64>, b: Option<f64>| Some(a?.max(b?));
    gaps.reduce(both).flatten()
}
