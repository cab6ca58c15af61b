//! Regression: a target column and covariates in, a report on every coefficient out.

mod columns;
pub mod predict;
pub mod simulate;

use std::num::NonZero;

use possibility::regression::{
    Design, Dispersion, FormAndVariance, FormAnswers, FormQuestions, GaussianBounds, Marginal,
    PriorPrecision, ProfileCurve, Profiles, Regression, RegressionConfig, RegressionPosterior,
    Response,
};
use possibility::valid::Pivot;
use possibility::{Credence, Interval, Measure, RealSet, Univariate};
use questions::coefficients::{self, Question};
use questions::simulation::{Simulated, Simulations};
use serde_json::{Map, Value, json};

use self::columns::Columns;
use super::report::{closed, counted, cut_names};
use super::{Answer, Questions, Timings, curves, cuts_json, option_error, parse_events, timed};
use questions::text::{
    TextTable, number, optional, reading_of, reading_of_simulated, significant, significant_on,
    with_error,
};
use questions::user_error::UserError;
use tabular::csv::Table;

/// What is fitted.
#[derive(Debug)]
pub struct Model {
    /// Name of the family on the command line.
    pub family: &'static str,
    /// How the target is distributed.
    pub response: Response,
    /// Known variance of a normal target, or that it is unknown.
    pub dispersion: Dispersion,
    /// Column of the target.
    pub target: String,
    /// Column that says how often a row counts.
    pub weight: Option<String>,
    /// Columns of covariates; `None` takes all other columns.
    pub covariates: Option<Vec<String>>,
    /// Those that hold levels, each with an indicator; also where `covariates` does not name them.
    pub categorical: Vec<String>,
    /// Categorical columns and their reference levels, where not the first.
    pub references: Vec<(String, String)>,
    /// Precision of the prior of every covariate's coefficient.
    pub prior_precision: f64,
    /// Precision of the prior of the constant term.
    pub intercept_precision: f64,
    /// Whether the prior is that of covariates of mean 0 and standard deviation 1.
    pub standardize: bool,
    /// Name of the constant term; `None` leaves it out.
    pub intercept: Option<&'static str>,
    /// Mode of the prior of the constant term.
    pub intercept_mode: f64,
    /// Number of threads; `None` takes what the system offers.
    pub threads: Option<NonZero<usize>>,
}

/// A model with its data and its posterior.
struct Fitted {
    columns: Columns,
    /// What the coefficients are called.
    names: Vec<String>,
    design: Design,
    regression: Regression,
    posterior: RegressionPosterior,
}

/// A normal possibility function beside the exact profile: an approximation or a bound.
struct View {
    /// `laplace`, `upper` or `lower`.
    name: &'static str,
    marginal: Marginal,
    cuts: Vec<Interval>,
    answers: Vec<Answer>,
}

/// One coefficient.
struct Coefficient {
    name: String,
    exact: FormAnswers,
    cuts: Vec<Interval>,
    /// Standard errors of the ends of the cuts, where they were simulated.
    cut_errors: Option<Vec<[f64; 2]>>,
    answers: Vec<Answer>,
    views: Vec<View>,
}

/// An event about several coefficients.
struct Contrast {
    answer: Answer,
    gap: Option<f64>,
}

/// An unknown variance: its profile, cuts and events.
pub struct Variance {
    /// The plain profile.
    pub function: Box<dyn Univariate>,
    /// The cuts.
    pub cuts: Vec<Interval>,
    answers: Vec<Answer>,
    /// What makes the possibilities valid, where they are.
    pub pivot: Option<Pivot>,
}

/// Everything about the posterior of a regression.
pub struct Report {
    family: &'static str,
    origin: String,
    target: String,
    /// Whether a column says how often each row counts.
    is_weighted: bool,
    /// What makes the possibilities of coefficients valid, where they are.
    pivot: Option<Pivot>,
    /// What was simulated for that, where no law is known.
    simulated: Option<Simulated>,
    /// Rows left out, where that is allowed.
    dropped: Option<usize>,
    alphas: Vec<f64>,
    /// Whether events were asked for; else they are the signs of the coefficients.
    has_events: bool,
    coefficients: Vec<Coefficient>,
    /// Events about several coefficients.
    contrasts: Vec<Contrast>,
    /// An unknown variance.
    pub variance: Option<Variance>,
    /// Level down to which the Gaussian bounds hold, where there are any.
    bounds_above: Option<f64>,
    fitted: Fitted,
    /// Seconds.
    pub timings: Timings,
}

/// An event about one linear form, as it was typed.
#[derive(Debug, Clone)]
struct Asked {
    text: String,
    form: Vec<f64>,
    set: RealSet,
    /// The coefficient it is about, or behind them the variance; `None` for several.
    place: Option<usize>,
}

impl Asked {
    /// An event about a linear form of the coefficients.
    fn about(text: &str, form: Vec<f64>, set: RealSet) -> Self {
        Self {
            text: text.to_owned(),
            form,
            set,
            place: None,
        }
    }
}

/// Reads the columns, fits, and reports.
///
/// # Errors
/// A mistake in the file, an option or an event.
pub fn report(
    table: &mut Table,
    model: &Model,
    questions: &Questions,
) -> Result<Report, UserError> {
    let mut columns = Columns::find(table, model)?;
    let ask = |columns: &Columns| {
        let names = columns.coefficient_names(model.intercept);
        Questioned::parse(&names, &questions.events, model.dispersion)
    };
    // a mistake in an event is found before the rows are read, where that can be
    if !columns.has_levels() {
        ask(&columns)?;
    }
    let (design, reading) = timed(|| columns.read(table, model));
    let design = design?;
    let asked = ask(&columns)?;
    let (fitted, fitting) = timed(|| fit_design(table, model, columns, design));
    let fitted = fitted?;
    let fail = |error: possibility::Error| {
        let text = explain(&error, &fitted.names, &model.target);
        UserError::new(format!("{}: {text}", table.name()))
    };
    let alphas = &questions.alphas;
    let simulations = model.simulations(questions);
    // the bounds are those of the plain posterior
    let bounds = match simulations {
        Some(_) => None,
        None => fitted.bounds(alphas).map_err(fail)?,
    };
    let bounds_above = bounds.as_ref().map(|bounds| bounds.alpha);
    let pivots = questions.valid.then(|| model.pivots(&fitted)).transpose()?;
    let pivot = pivots.map(|pivots| pivots.0);
    let (mut coefficients, mut contrasts) = fitted
        .answer(alphas, &asked, bounds.as_ref(), pivot)
        .map_err(fail)?;
    if questions.valid && !asked.together.is_empty() {
        return Err(UserError::new(
            "--valid: a coefficient and the variance together have no valid possibility here",
        ));
    }
    contrasts.extend(fitted.together(&asked.together).map_err(fail)?);
    let simulated = simulations.map(|simulations| {
        fitted.simulate(
            simulations,
            alphas,
            &asked,
            &mut coefficients,
            &mut contrasts,
        )
    });
    let simulated = simulated.transpose().map_err(fail)?;
    let pivot = pivot.filter(|_| simulated.is_none());
    let variance_pivot = pivots.and_then(|pivots| pivots.1);
    let variance = fitted.variance(alphas, &asked.variance, variance_pivot);
    Ok(Report {
        family: model.family,
        origin: table.name().to_owned(),
        target: model.target.clone(),
        is_weighted: model.weight.is_some(),
        dropped: table.dropped(),
        alphas: alphas.clone(),
        coefficients,
        contrasts,
        variance: variance.map_err(fail)?,
        pivot,
        simulated,
        has_events: !questions.events.is_empty(),
        bounds_above,
        fitted,
        timings: Timings { reading, fitting },
    })
}

/// Reads the columns and fits.
///
/// # Errors
/// A mistake in the file or an option.
fn fit(table: &mut Table, model: &Model) -> Result<Fitted, UserError> {
    let mut columns = Columns::find(table, model)?;
    let design = columns.read(table, model)?;
    fit_design(table, model, columns, design)
}

fn fit_design(
    table: &Table,
    model: &Model,
    columns: Columns,
    design: Design,
) -> Result<Fitted, UserError> {
    let names = columns.coefficient_names(model.intercept);
    let mut prior_mode = vec![0.0; names.len()];
    if model.intercept.is_some() {
        prior_mode[0] = model.intercept_mode;
    }
    let config = RegressionConfig {
        prior_mode: Some(prior_mode),
        prior_precision: model.prior(&design, &names)?,
        dispersion: model.dispersion,
        threads: model.threads,
        ..RegressionConfig::default()
    };
    let fit = || {
        let regression = config.build(design.columns())?;
        let posterior = regression.fit(&design)?;
        Ok((regression, posterior))
    };
    let (regression, posterior) = fit().map_err(|error: possibility::Error| {
        let text = explain(&error, &names, &model.target);
        UserError::new(format!("{}: {text}", table.name()))
    })?;
    Ok(Fitted {
        columns,
        names,
        design,
        regression,
        posterior,
    })
}

/// What to do about an error of the library, given the names of the coefficients and the target.
fn explain(error: &possibility::Error, names: &[String], target: &str) -> String {
    use possibility::Error;
    if let Error::ColumnScale { column } = error {
        let name = column.map_or(target, |column| &names[column]);
        return format!(
            "the numbers in column \"{name}\" are too large or too small for their squares to be \
             summed; give them in another unit"
        );
    }
    let advice = match error {
        Error::NoMode { .. } => {
            "; a prior makes it finite, without --valid: --prior-precision, --intercept-precision"
        }
        Error::NotPositiveDefinite { .. } => {
            "; columns depend on each other: leave one out, or give --prior-precision"
        }
        _ => "",
    };
    format!("{error}{advice}")
}

impl Model {
    /// The data sets to simulate, where valid possibilities have no known law.
    fn simulations(&self, questions: &Questions) -> Option<Simulations> {
        let is_needed = questions.valid && self.response != Response::Normal;
        is_needed.then_some(questions.simulations)
    }

    /// The laws of the coefficients and of an unknown variance, for valid possibilities; where a
    /// simulation is to find them, those of large samples.
    fn pivots(&self, fitted: &Fitted) -> Result<(Pivot, Option<Pivot>), UserError> {
        let has_prior = self.prior_precision > 0.0 || self.intercept_precision > 0.0;
        coefficients::pivots(has_prior, self.dispersion, &fitted.design)
            .map_err(|rule| UserError::new(format!("--valid: {rule}")))
    }

    /// The prior's precision for the coefficients as they are reported.
    fn prior(&self, design: &Design, names: &[String]) -> Result<PriorPrecision, UserError> {
        let first = usize::from(self.intercept.is_some());
        let covariates = design.covariates();
        if !self.standardize {
            let mut precision = vec![self.prior_precision; covariates + first];
            if self.intercept.is_some() {
                precision[0] = self.intercept_precision;
            }
            return Ok(PriorPrecision::Diagonal(precision));
        }
        let moments = design.column_moments();
        // a difference this small beside the mean is rounding
        let is_constant =
            |j: usize| moments.deviations[j] <= 4.0 * f64::EPSILON * moments.means[j].abs();
        if let Some(j) = (0..covariates).find(|&j| is_constant(j)) {
            return Err(UserError::new(format!(
                "--standardize: column \"{}\" is constant",
                names[first + j]
            )));
        }
        PriorPrecision::standardized(
            &moments,
            self.prior_precision,
            self.intercept.map(|_| self.intercept_precision),
        )
        .map_err(|error| option_error("--standardize", &error))
    }
}

/// The form of one coefficient.
fn unit(count: usize, index: usize) -> Vec<f64> {
    (0..count)
        .map(|j| if j == index { 1.0 } else { 0.0 })
        .collect()
}

/// The events, by what they speak of.
struct Questioned {
    /// For each coefficient those that name it and those that speak of any `coefficient`; without
    /// events, its sign.
    single: Vec<Vec<Asked>>,
    /// Those about a linear form of several coefficients.
    several: Vec<Asked>,
    /// Those about an unknown variance.
    variance: Vec<Asked>,
    /// Those about a linear form and an unknown variance, with where the variance must lie.
    together: Vec<(Asked, RealSet)>,
}

impl Questioned {
    fn parse(
        names: &[String],
        events: &[String],
        dispersion: Dispersion,
    ) -> Result<Self, UserError> {
        let any = names.len();
        let variables = coefficients::variables(names, dispersion);
        let mut questioned = Self {
            single: vec![vec![]; any],
            several: Vec::new(),
            variance: Vec::new(),
            together: Vec::new(),
        };
        for (text, event) in parse_events(events, &variables)? {
            let question = coefficients::question(&event, any);
            let question =
                question.map_err(|rule| UserError::new(format!("event \"{text}\": {rule}")))?;
            match question {
                Question::Every(set) => (0..any).for_each(|j| questioned.push(j, &text, &set)),
                Question::One(index, set) => questioned.push(index, &text, &set),
                Question::Form(form, set) => {
                    questioned.several.push(Asked::about(&text, form, set));
                }
                Question::Variance(set) => questioned.variance.push(Asked {
                    text: text.clone(),
                    form: Vec::new(),
                    set,
                    place: Some(any),
                }),
                Question::Together(form, set, variances) => {
                    let asked = Asked::about(&text, form, set);
                    questioned.together.push((asked, variances));
                }
            }
        }
        if events.is_empty() {
            questioned.ask_signs(names)?;
        }
        Ok(questioned)
    }

    fn push(&mut self, index: usize, text: &str, set: &RealSet) {
        let form = unit(self.single.len(), index);
        self.single[index].push(Asked {
            text: text.to_owned(),
            form,
            set: set.clone(),
            place: Some(index),
        });
    }

    fn ask_signs(&mut self, names: &[String]) -> Result<(), UserError> {
        let fail = |error: possibility::Error| UserError::new(error.to_string());
        let positive: RealSet = Interval::above(0.0).map_err(fail)?.into();
        let negative: RealSet = Interval::below(0.0).map_err(fail)?.into();
        let zero: RealSet = Interval::point(0.0).map_err(fail)?.into();
        for (index, name) in names.iter().enumerate() {
            self.push(index, &format!("{name} > 0"), &positive);
            self.push(index, &format!("{name} < 0"), &negative);
            self.push(index, &format!("{name} = 0"), &zero);
        }
        Ok(())
    }
}

/// The level at which the plain profile is cut for this level.
///
/// # Errors
/// A level outside `(0, 1]`.
pub fn plain_level(alpha: f64, pivot: Option<Pivot>) -> possibility::Result<f64> {
    pivot.map_or(Ok(alpha), |pivot| pivot.plain_level(alpha))
}

fn plain_levels(alphas: &[f64], pivot: Option<Pivot>) -> possibility::Result<Vec<f64>> {
    let levels = alphas.iter().map(|&alpha| plain_level(alpha, pivot));
    levels.collect()
}

/// Events beside their credences.
fn answers<'a>(
    asked: impl IntoIterator<Item = &'a Asked>,
    credences: impl IntoIterator<Item = Credence>,
) -> Vec<Answer> {
    let pairs = asked.into_iter().zip(credences);
    let answer = |(asked, credence): (&Asked, Credence)| Answer {
        event: asked.text.clone(),
        credence,
        errors: None,
        place: asked.place.map(|index| (index, asked.set.clone())),
    };
    pairs.map(answer).collect()
}

impl Fitted {
    fn profiles(&self) -> possibility::Result<Profiles<'_>> {
        Profiles::new(&self.regression, &self.design, &self.posterior)
    }

    /// Gaussian bounds down to the smallest level asked for, where the posterior is not normal.
    fn bounds(&self, alphas: &[f64]) -> possibility::Result<Option<GaussianBounds>> {
        let smallest = alphas.iter().copied().fold(1.0, f64::min);
        if self.design.response() == Response::Normal || smallest >= 1.0 {
            return Ok(None);
        }
        let bounds = self
            .regression
            .bounds_above(&self.design, &self.posterior, smallest);
        match bounds {
            Ok(bounds) => Ok(Some(bounds)),
            // the profiles are exact without them
            Err(possibility::Error::NotCertified { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn variance(
        &self,
        alphas: &[f64],
        asked: &[Asked],
        pivot: Option<Pivot>,
    ) -> possibility::Result<Option<Variance>> {
        if self.regression.dispersion() != Dispersion::Unknown {
            return Ok(None);
        }
        let mean = possibility::family::conjugate::Parameter::Mean;
        let variance = self.posterior.dispersion_profile()?.coordinate(0, mean)?;
        let credence = |one: &Asked| {
            let plain = Measure::credence_of(&variance, &one.set)?;
            Ok(pivot.map_or(plain, |pivot| pivot.credence(plain)))
        };
        let credences = asked
            .iter()
            .map(credence)
            .collect::<possibility::Result<Vec<_>>>()?;
        Ok(Some(Variance {
            cuts: plain_levels(alphas, pivot)?
                .iter()
                .map(|&alpha| variance.cut(alpha))
                .collect::<Result<_, _>>()?,
            answers: answers(asked, credences),
            function: Box::new(variance),
            pivot,
        }))
    }

    /// Events about a linear form and an unknown variance.
    fn together(&self, asked: &[(Asked, RealSet)]) -> possibility::Result<Vec<Contrast>> {
        let contrast = |(asked, variances): &(Asked, RealSet)| {
            let together = self.posterior.with_variance(&asked.form)?;
            let credence = together.credence_of(&asked.set, variances);
            Ok(Contrast {
                answer: answers([asked], [credence]).remove(0),
                gap: Some(together.error_of(credence)),
            })
        };
        asked.iter().map(contrast).collect()
    }

    /// All answers, by searches that share their passes over the data.
    fn answer(
        &self,
        alphas: &[f64],
        asked: &Questioned,
        bounds: Option<&GaussianBounds>,
        pivot: Option<Pivot>,
    ) -> possibility::Result<(Vec<Coefficient>, Vec<Contrast>)> {
        let levels = plain_levels(alphas, pivot)?;
        let Questioned {
            single, several, ..
        } = asked;
        let names = &self.names;
        let mut questions: Vec<FormQuestions> = single
            .iter()
            .enumerate()
            .map(|(index, asked)| FormQuestions {
                form: unit(names.len(), index),
                alphas: levels.clone(),
                events: asked.iter().map(|one| one.set.clone()).collect(),
            })
            .collect();
        questions.extend(several.iter().map(|asked| FormQuestions {
            form: asked.form.clone(),
            alphas: Vec::new(),
            events: vec![asked.set.clone()],
        }));
        let mut exact = self.profiles()?.answer(&questions)?;
        for one in exact.iter_mut().flat_map(|one| &mut one.credences) {
            *one = pivot.map_or(*one, |pivot| pivot.credence(*one));
        }
        let contrasts = several
            .iter()
            .zip(exact.split_off(names.len()))
            .flat_map(|(asked, exact)| {
                let gap = exact.gap;
                answers([asked], exact.credences)
                    .into_iter()
                    .map(move |answer| Contrast { answer, gap })
            })
            .collect();
        let mut coefficients = Vec::with_capacity(names.len());
        for (index, (name, asked)) in names.iter().zip(single).enumerate() {
            let exact = exact[index].clone();
            coefficients.push(Coefficient {
                name: name.clone(),
                cuts: exact.intervals()?,
                cut_errors: None,
                answers: answers(asked, exact.credences.iter().copied()),
                views: self.views(&questions[index].form, asked, alphas, bounds)?,
                exact,
            });
        }
        Ok((coefficients, contrasts))
    }

    /// The approximation and the bounds of one coefficient.
    fn views(
        &self,
        form: &[f64],
        asked: &[Asked],
        alphas: &[f64],
        bounds: Option<&GaussianBounds>,
    ) -> possibility::Result<Vec<View>> {
        let mut marginals = vec![("laplace", self.posterior.laplace_marginal(form)?)];
        if let Some(bounds) = bounds {
            let bounds = bounds.marginal(&self.posterior, form)?;
            marginals.extend([("upper", bounds.upper), ("lower", bounds.lower)]);
        }
        let view = |(name, marginal): (&'static str, Marginal)| {
            let credence = |one: &Asked| Measure::credence_of(&marginal, &one.set);
            let credences = asked
                .iter()
                .map(credence)
                .collect::<possibility::Result<Vec<_>>>()?;
            // a bound says nothing of possibilities below its level: only the approximation
            // answers events
            let answered = if name == "laplace" { asked } else { &[] };
            Ok(View {
                name,
                marginal,
                cuts: alphas
                    .iter()
                    .map(|&alpha| marginal.cut(alpha))
                    .collect::<Result<_, _>>()?,
                answers: answers(answered, credences),
            })
        };
        marginals.into_iter().map(view).collect()
    }
}

/// The exact profile of a coefficient.
pub struct Profile<'a> {
    /// Name of the coefficient.
    pub name: &'a str,
    /// The plain profile.
    pub curve: ProfileCurve,
    /// What makes it valid, where it is.
    pub pivot: Option<Pivot>,
    /// The Laplace approximation, whose mode is that of the profile.
    pub laplace: &'a Marginal,
    /// The α-cuts.
    pub cuts: &'a [Interval],
}

impl Coefficient {
    fn cuts_json(&self, alphas: &[f64]) -> Value {
        let mut cuts = cuts_json(alphas, &self.cuts);
        for (i, [lower, upper]) in self.cut_errors.iter().flatten().enumerate() {
            cuts[i]["lower_error"] = number(*lower);
            cuts[i]["upper_error"] = number(*upper);
        }
        cuts
    }

    fn cuts_text(&self) -> Vec<String> {
        let Some(errors) = &self.cut_errors else {
            return self.cuts.iter().map(closed).collect();
        };
        let pairs = self.cuts.iter().zip(errors);
        let text = |(cut, errors): (&Interval, &[f64; 2])| {
            let [lower, upper] = errors;
            let (lower, upper) = (
                with_error(cut.lower(), *lower),
                with_error(cut.upper(), *upper),
            );
            format!("[{lower}, {upper}]")
        };
        pairs.map(text).collect()
    }
}

impl Report {
    /// A certificate, which a simulated answer does not have.
    fn certified(&self, gap: Option<f64>) -> Option<f64> {
        gap.filter(|_| self.simulated.is_none())
    }

    /// Whether the possibilities are valid ones.
    fn is_valid(&self) -> bool {
        self.pivot.is_some() || self.simulated.is_some()
    }

    /// Title of a picture.
    pub fn title(&self) -> String {
        let label = self.simulated.as_ref().map_or("", Simulated::label);
        format!("{} posterior{label}", self.family)
    }

    /// File and target.
    pub fn origin(&self) -> String {
        format!("{}, target \"{}\"", self.origin, self.target)
    }

    /// Levels of the α-cuts.
    pub fn alphas(&self) -> &[f64] {
        &self.alphas
    }

    /// Name, mode and α-cuts of each coefficient.
    pub fn coefficients(&self) -> impl Iterator<Item = (&str, f64, &[Interval])> {
        let coefficients = self.coefficients.iter();
        coefficients.map(|one| (one.name.as_str(), one.exact.mode, &one.cuts[..]))
    }

    /// The answers to what was asked.
    pub fn asked_answers(&self) -> impl Iterator<Item = &Answer> {
        let single = self.coefficients.iter().flat_map(|one| &one.answers);
        let single = single.filter(|_| self.has_events);
        let several = self.contrasts.iter().map(|one| &one.answer);
        let variance = self.variance.iter().flat_map(|one| &one.answers);
        single.chain(several).chain(variance)
    }

    /// The exact profiles down to the possibility `smallest`.
    ///
    /// # Errors
    /// A profile that cannot be found.
    pub fn profiles(&self, smallest: f64) -> possibility::Result<Vec<Profile<'_>>> {
        let count = self.coefficients.len();
        let forms: Vec<Vec<f64>> = (0..count).map(|index| unit(count, index)).collect();
        let smallest = plain_level(smallest, self.pivot)?;
        let curves = self.fitted.profiles()?.curves(&forms, smallest)?;
        let pairs = self.coefficients.iter().zip(curves);
        let profiles = pairs.map(|(coefficient, curve)| Profile {
            name: &coefficient.name,
            curve,
            pivot: self.pivot,
            laplace: &coefficient.views[0].marginal,
            cuts: &coefficient.cuts,
        });
        Ok(profiles.collect())
    }

    /// A single coefficient, the mean say, and an unknown variance together.
    pub fn region(&self) -> possibility::Result<Option<FormAndVariance>> {
        if self.coefficients.len() != 1 || self.variance.is_none() || self.is_valid() {
            return Ok(None);
        }
        self.fitted.posterior.with_variance(&[1.0]).map(Some)
    }

    /// The largest gap of all answers; `None` if one is not certified.
    fn gap(&self) -> Option<f64> {
        let gaps = self.coefficients.iter().map(|one| one.exact.gap);
        let all = gaps.chain(self.contrasts.iter().map(|one| one.gap));
        all.reduce(|a, b| a.zip(b).map(|(a, b)| a.max(b))).flatten()
    }

    /// The report for programs.
    pub fn json(&self) -> Value {
        let posterior = &self.fitted.posterior;
        let coefficients = self.coefficients.iter().map(|coefficient| {
            let mut value = json!({
                "name": coefficient.name,
                "mode": number(coefficient.exact.mode),
                "alpha_cuts": coefficient.cuts_json(&self.alphas),
                "events": coefficient.answers.iter().map(Answer::json).collect::<Value>(),
                "certified_to": optional(self.certified(coefficient.exact.gap)),
            });
            for view in &coefficient.views {
                value[view.name] = json!({
                    "precision": optional(view.marginal.precision()),
                    "alpha_cuts": cuts_json(&self.alphas, &view.cuts),
                });
                if view.name == "laplace" {
                    let events = view.answers.iter().map(Answer::json);
                    value[view.name]["events"] = events.collect();
                }
            }
            value
        });
        let contrasts = self.contrasts.iter().map(|Contrast { answer, gap }| {
            let mut value = answer.json();
            value["certified_to"] = optional(self.certified(*gap));
            value
        });
        let mut report = json!({
            "family": self.family,
            "n": posterior.rows(),
            "parameter": "coefficient",
            "target": self.target,
            "coefficients": coefficients.collect::<Value>(),
            "events": contrasts.collect::<Value>(),
            "log_consistency": number(posterior.log_consistency()),
            "newton_steps": posterior.steps(),
            "certified_to": optional(self.certified(self.gap())),
            "bounds_hold_above": optional(self.bounds_above),
        });
        if self.is_valid() {
            report["valid"] = true.into();
        }
        if let Some(simulated) = &self.simulated {
            report["simulation"] = simulated.json();
        }
        if self.is_weighted {
            report["total_weight"] = number(self.fitted.design.total_weight());
        }
        if let Some(dropped) = self.dropped {
            report["dropped"] = dropped.into();
        }
        let references = self.fitted.columns.references();
        let references: Map<String, Value> = references
            .map(|(column, level)| (column.to_owned(), level.into()))
            .collect();
        if !references.is_empty() {
            report["references"] = references.into();
        }
        if let Some(Variance { cuts, answers, .. }) = &self.variance {
            report["variance"] = json!({
                "mode": number(posterior.dispersion()),
                "alpha_cuts": cuts_json(&self.alphas, cuts),
                "events": answers.iter().map(Answer::json).collect::<Value>(),
            });
        }
        report
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let posterior = &self.fitted.posterior;
        let mut table = TextTable::default();
        table.row(["log consistency", &significant(posterior.log_consistency())]);
        table.row(["Newton steps", &posterior.steps().to_string()]);
        let weight = self.is_weighted.then(|| self.fitted.design.total_weight());
        let counted = counted(posterior.rows(), weight, self.dropped);
        for (column, level) in self.fitted.columns.references() {
            table.row([&format!("reference of {column}"), level]);
        }
        let mut text = format!(
            "{}: {} of \"{}\" from {}{}\n\n{}\n",
            self.family,
            counted.observations,
            self.target,
            self.origin,
            counted.dropped,
            table.render()
        );
        text.push_str(&self.exact_table());
        text.push_str(&match self.gap() {
            _ if self.simulated.is_some() => "\n".to_owned(),
            Some(gap) => format!(
                "(exact: profiles of the posterior, certified to {gap:.0e} in the log of the \
                 possibility)\n\n"
            ),
            None => {
                "(profiles of the posterior, not certified: no bound of their error is known)\n\n"
                    .to_owned()
            }
        });
        text.push_str(&self.gaussian_table());
        text.push_str(&self.event_table());
        text.push_str(&match &self.simulated {
            Some(simulated) => {
                let reading = reading_of_simulated(simulated.held.is_some());
                format!("{}\n{reading}\n", simulated.text())
            }
            None => format!("\n{}\n", reading_of(&self.alphas, self.is_valid())),
        });
        text
    }

    fn exact_table(&self) -> String {
        let mut header = ["coefficient", "mode"].map(str::to_owned).to_vec();
        header.extend(cut_names(&self.alphas));
        let mut table = TextTable::new(header);
        for coefficient in &self.coefficients {
            let scale = curves::scale(coefficient.views[0].marginal.precision());
            let mode = significant_on(coefficient.exact.mode, scale);
            let mut row = vec![coefficient.name.clone(), mode];
            row.extend(coefficient.cuts_text());
            table.row(row);
        }
        if let Some(Variance { cuts, .. }) = &self.variance {
            let mode = significant(self.fitted.posterior.dispersion());
            let name = coefficients::variance_name(&self.fitted.names);
            let mut row = vec![name, mode];
            row.extend(cuts.iter().map(closed));
            table.row(row);
        }
        table.render()
    }

    /// The approximation and the bounds; nothing where the posterior is normal itself.
    fn gaussian_table(&self) -> String {
        let Some(alpha) = self.bounds_above else {
            return String::new();
        };
        let mut header = ["coefficient", "normal", "precision"]
            .map(str::to_owned)
            .to_vec();
        header.extend(cut_names(&self.alphas));
        let mut table = TextTable::new(header);
        for coefficient in &self.coefficients {
            for (i, view) in coefficient.views.iter().enumerate() {
                let name = if i == 0 {
                    coefficient.name.as_str()
                } else {
                    ""
                };
                let precision = view.marginal.precision();
                let mut row = vec![
                    name.to_owned(),
                    view.name.to_owned(),
                    precision.map_or_else(String::new, significant),
                ];
                row.extend(view.cuts.iter().map(closed));
                table.row(row);
            }
        }
        let mut text = table.render();
        text.push_str(&format!(
            "(laplace: an approximation, same curvature at the mode; upper and lower: bounds, certain \
             for possibilities of at least {})\n\n",
            significant(alpha)
        ));
        text
    }

    fn event_table(&self) -> String {
        let mut table = TextTable::new(["event", "possibility", "necessity"]);
        let mut row = |event: String, answer: &Answer| {
            let [possibility, necessity] = answer.numbers();
            table.row([event, possibility, necessity]);
        };
        for coefficient in &self.coefficients {
            for answer in &coefficient.answers {
                let name = &coefficient.name;
                let event = if answer.event.contains(name.as_str()) {
                    answer.event.clone()
                } else {
                    format!("{name}: {}", answer.event)
                };
                row(event, answer);
            }
        }
        let others = self.contrasts.iter().map(|one| &one.answer);
        let variance = self.variance.iter().flat_map(|one| &one.answers);
        for answer in others.chain(variance) {
            row(answer.event.clone(), answer);
        }
        table.render()
    }
}
