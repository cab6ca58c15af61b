//! Read, infer, report: observations from a table, a posterior from the library, answers for people
//! and programs.
//!
//! The command says what is asked; nothing here is generic for it, so that what runs once a row is
//! compiled here.
#![forbid(unsafe_code)]

pub mod categorical;
pub mod curves;
pub mod groups;
pub mod multivariate_normal;
pub mod picture;
pub mod regression;
pub mod report;
pub mod saved;
pub mod scalar;

use std::time::Instant;

use possibility::family::conjugate::{Conjugate, ConjugateFamily, Evidence, Parameter, Sample};
use possibility::summary::Summary;
use possibility::{Credence, Interval, RealSet};
use questions::simulation::{Measured, Simulations};
pub use questions::{Prior, Unmeasured, option_error};
use serde_json::{Value, json};

use self::report::{Labels, Report};
use self::saved::Saved;
use questions::event::{Event, Variables};
use questions::text::{number, with_error};
use questions::user_error::UserError;

/// What is asked about a posterior.
#[derive(Debug, Clone)]
pub struct Questions {
    /// Levels of the α-cuts.
    pub alphas: Vec<f64>,
    /// Events, as they were typed.
    pub events: Vec<String>,
    /// The parameter that cuts and events speak of.
    pub parameter: Parameter,
    /// Whether the posterior is to be stored.
    pub save: bool,
    /// Whether a cut must cover the truth with probability 1 - alpha at every sample size.
    pub valid: bool,
    /// The data sets that are simulated for that, where no law is known.
    pub simulations: Simulations,
}

/// Columns of a file, by position.
#[derive(Debug, Clone, Copy)]
pub struct Chosen {
    /// The observations.
    pub column: usize,
    /// How often each row counts.
    pub weight: Option<usize>,
}

/// What is observed.
pub enum Data<F: ConjugateFamily> {
    /// Every observation.
    Sample(Sample<F>),
    /// The evidence of so many rows.
    Evidence(Evidence, usize),
}

impl<F: ConjugateFamily> Data<F> {
    fn rows(&self) -> usize {
        match self {
            Self::Sample(sample) => sample.observations().len(),
            Self::Evidence(_, rows) => *rows,
        }
    }

    fn total_weight(&self) -> f64 {
        match self {
            Self::Sample(sample) => sample.total_weight(),
            Self::Evidence(evidence, _) => evidence.count(),
        }
    }

    fn observed_by(&self, prior: &Conjugate<F>) -> possibility::Result<(Conjugate<F>, f64)> {
        match self {
            Self::Sample(sample) => prior.observe_sample(sample),
            Self::Evidence(evidence, _) => prior.observe_evidence(evidence),
        }
    }

    fn saved(&self, prior: &Conjugate<F>, settings: Value) -> possibility::Result<Saved> {
        let evidence = match self {
            Self::Sample(sample) => Evidence::of_sample(sample)?,
            Self::Evidence(evidence, _) => evidence.clone(),
        };
        Ok(Saved::new(prior, settings, self.rows(), &evidence))
    }
}

/// What is known before the data: numbers that were typed, or a posterior of a file.
pub struct Known<'a> {
    /// A mean and a weight.
    pub prior: Option<&'a Prior>,
    /// Yesterday's posterior.
    pub from: Option<&'a Saved>,
}

impl Known<'_> {
    fn build<F: ConjugateFamily>(
        &self,
        family: &F,
        settings: &Value,
    ) -> Result<Conjugate<F>, UserError> {
        match self.from {
            Some(saved) => saved.as_prior(family, settings),
            None => Prior::build(self.prior, family.clone()),
        }
    }
}

/// Observations and where they come from.
pub struct Observations<F: ConjugateFamily> {
    /// File and columns, for messages.
    pub origin: String,
    /// The observations themselves, or what is left of them.
    pub data: Data<F>,
    /// What defines the family beside its name, for a file that is saved.
    pub settings: Value,
    /// What the coordinates are called; `None` for a scalar family.
    pub labels: Option<Labels>,
    /// Whether a column says how often each row counts.
    pub is_weighted: bool,
    /// Rows left out for a missing value, where that is allowed.
    pub dropped: Option<usize>,
    /// Seconds spent on reading.
    pub reading: f64,
}

impl<F: ConjugateFamily> Observations<F> {
    /// Names of the coordinates; none for a scalar family.
    fn names(&self) -> &[String] {
        let labels = self.labels.as_ref();
        labels.map_or(&[], |labels| &labels.all)
    }
}

/// An event, as it was typed, with its possibility and necessity.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The event.
    pub event: String,
    /// `Π(A)` and `N(A)`.
    pub credence: Credence,
    /// Their standard errors, where they were simulated.
    pub errors: Option<[f64; 2]>,
    /// The parameter it is about, by position, and where it holds; `None` for several.
    pub place: Option<(usize, RealSet)>,
}

impl Answer {
    /// As JSON.
    pub fn json(&self) -> Value {
        let mut value = json!({
            "event": self.event,
            "possibility": number(self.credence.possibility),
            "necessity": number(self.credence.necessity),
        });
        if let Some([possibility, necessity]) = self.errors {
            value["possibility_error"] = number(possibility);
            value["necessity_error"] = number(necessity);
        }
        value
    }

    /// An event with its possibility and necessity, in one line.
    pub fn describe(&self) -> String {
        let [possibility, necessity] = self.numbers();
        format!(
            "{}: possibility {possibility}, necessity {necessity}",
            self.event
        )
    }

    /// Possibility and necessity for people, each with its error.
    pub fn numbers(&self) -> [String; 2] {
        let [possibility, necessity] = self.errors.unwrap_or_default();
        [
            with_error(self.credence.possibility, possibility),
            with_error(self.credence.necessity, necessity),
        ]
    }
}

/// Cuts of these levels, as JSON.
pub fn cuts_json(alphas: &[f64], cuts: &[Interval]) -> Value {
    let cut = |(&alpha, cut): (&f64, &Interval)| {
        json!({
            "alpha": number(alpha),
            "lower": number(cut.lower()),
            "upper": number(cut.upper()),
        })
    };
    alphas.iter().zip(cuts).map(cut).collect()
}

/// Seconds spent on the two parts of the work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timings {
    /// Reading the file.
    pub reading: f64,
    /// Finding the posterior.
    pub fitting: f64,
}

/// The value of a call and the seconds it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed().as_secs_f64())
}

/// Name of the parameter on the command line.
pub fn parameter_name(parameter: Parameter, mean_name: &'static str) -> &'static str {
    match parameter {
        Parameter::Natural => "theta",
        Parameter::Mean => mean_name,
    }
}

/// Events as they were typed and as they were understood.
pub type Events = Vec<(String, Event)>;

/// Reads every event before any work is done.
///
/// # Errors
/// A mistake in an event.
pub fn parse_events(events: &[String], variables: &Variables) -> Result<Events, UserError> {
    events
        .iter()
        .map(|text| Ok((text.clone(), Event::parse(text, variables)?)))
        .collect()
}

/// Infers from what was read, and reports; `measure` answers one event.
///
/// # Errors
/// Data that leave no posterior, or an event that cannot be measured.
fn infer<F: ConjugateFamily<Coordinate: 'static>>(
    prior: &Conjugate<F>,
    observations: Observations<F>,
    questions: &Questions,
    events: Events,
    measure: impl Fn(&Conjugate<F>, &Summary, &Event) -> Result<Measured, Unmeasured>,
) -> Result<Report, UserError> {
    let Observations {
        origin,
        data,
        settings,
        labels,
        is_weighted,
        dropped,
        reading,
    } = observations;
    if is_weighted && data.total_weight() <= 0.0 {
        return Err(UserError::new(format!("{origin}: the weights add up to 0")));
    }
    let fail = |error: possibility::Error| option_error(&origin, &error);
    let (result, fitting) = timed(|| data.observed_by(prior));
    let (posterior, log_consistency) = result.map_err(fail)?;
    let summary = Summary::new(&posterior, questions.parameter, &questions.alphas).map_err(fail)?;
    let answers = events
        .into_iter()
        .map(
            |(text, event)| match measure(&posterior, &summary, &event) {
                Ok(Measured { credence, errors }) => Ok(Answer {
                    place: event.place(),
                    event: text,
                    credence,
                    errors,
                }),
                Err(Unmeasured::Library(error)) => Err(fail(error)),
                Err(Unmeasured::Event(problem)) => {
                    Err(UserError::new(format!("event \"{text}\": {problem}")))
                }
            },
        )
        .collect::<Result<_, _>>()?;
    // evidence costs a pass over the data: it is taken only for a file
    let saved = questions.save.then(|| data.saved(prior, settings));
    let saved = saved.transpose().map_err(fail)?;
    Ok(Report {
        n: data.rows(),
        total_weight: is_weighted.then(|| data.total_weight()),
        saved,
        valid: questions.valid,
        simulated: None,
        dropped,
        origin,
        labels,
        summary,
        answers,
        log_consistency,
        timings: Timings { reading, fitting },
    })
}
