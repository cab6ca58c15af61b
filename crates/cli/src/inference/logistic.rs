//! Logistic regression: a target column and covariates in, a report on every coefficient out.

use std::num::NonZero;

use possibility::logistic::{
    Design, LogisticConfig, LogisticPosterior, Marginal, MarginalBounds, PriorPrecision,
};
use possibility::summary::Coordinate;
use possibility::{Interval, RealSet};
use serde_json::{Value, json};

use super::report::{closed, cut_names};
use super::{Answer, Questions, Timings, option_error, parse_events, timed};
use crate::csv::{FieldError, Table};
use crate::event::Variables;
use crate::text::{READING, TextTable, interval, number, optional, significant};
use crate::user_error::UserError;

/// What is fitted.
#[derive(Debug)]
pub struct Model {
    /// Column of labels.
    pub target: String,
    /// Columns of covariates; `None` takes all other columns.
    pub covariates: Option<Vec<String>>,
    /// Precision of the prior of every coefficient.
    pub prior_precision: f64,
    /// Whether there is a constant term.
    pub intercept: bool,
    /// Number of threads; `None` takes what the system offers.
    pub threads: Option<NonZero<usize>>,
}

/// One coefficient under one of the three Gaussians.
pub struct View {
    /// `laplace`, `upper` or `lower`.
    pub name: &'static str,
    /// The normal possibility function and its cuts.
    pub coordinate: Coordinate,
    answers: Vec<Answer>,
}

/// One coefficient.
pub struct Coefficient {
    /// Name of its column.
    pub name: String,
    mode: f64,
    /// Laplace, upper, lower.
    pub views: [View; 3],
}

/// Everything about the posterior of a logistic regression.
pub struct Report {
    origin: String,
    target: String,
    n: usize,
    /// The levels asked for.
    pub alphas: Vec<f64>,
    /// The coefficients, the intercept first.
    pub coefficients: Vec<Coefficient>,
    log_consistency: f64,
    steps: usize,
    /// Seconds.
    pub timings: Timings,
}

/// The questions about one coefficient.
type Asked = Vec<(String, RealSet)>;

/// Reads the columns, fits, and reports.
///
/// # Errors
/// A mistake in the file, an option or an event.
pub fn report(
    table: &mut Table,
    model: &Model,
    questions: &Questions,
) -> Result<Report, UserError> {
    let target = table.column(&model.target)?;
    let covariates = match &model.covariates {
        Some(names) => table.columns(names)?,
        None => (0..table.header().len()).filter(|&i| i != target).collect(),
    };
    if covariates.contains(&target) {
        return Err(UserError::new(format!(
            "--covariates: \"{}\" is the target",
            model.target
        )));
    }
    let names = coefficient_names(table, &covariates, model.intercept);
    let asked = ask(&names, &questions.events)?;
    let mut design = if model.intercept {
        Design::with_intercept(covariates.len())
    } else {
        Design::new(covariates.len()).map_err(|error| option_error("--no-intercept", &error))?
    };
    let config = LogisticConfig {
        prior_precision: PriorPrecision::Scalar(model.prior_precision),
        threads: model.threads,
        ..LogisticConfig::default()
    };
    let logistic = config
        .build(design.columns())
        .map_err(|error| option_error("--prior-precision", &error))?;

    let (result, reading) = timed(|| {
        let mut row_values = vec![0.0; covariates.len()];
        table.for_each(|row| {
            let label = row.truth(target)? == 1.0;
            for (value, &column) in row_values.iter_mut().zip(&covariates) {
                *value = row.number(column)?;
            }
            design
                .push(&row_values, label)
                .map_err(|error| FieldError::new(target, error.to_string()))
        })
    });
    result?;
    let (posterior, fitting) = timed(|| logistic.fit(&design));
    let fail = |error: possibility::Error| option_error(table.name(), &error);
    let posterior = posterior.map_err(fail)?;
    let coefficients =
        report_coefficients(&posterior, names, asked, &questions.alphas).map_err(fail)?;
    Ok(Report {
        origin: table.name().to_owned(),
        target: model.target.clone(),
        n: design.rows(),
        alphas: questions.alphas.clone(),
        coefficients,
        log_consistency: posterior.log_consistency(),
        steps: posterior.steps(),
        timings: Timings { reading, fitting },
    })
}

fn coefficient_names(table: &Table, covariates: &[usize], intercept: bool) -> Vec<String> {
    let columns = covariates
        .iter()
        .map(|&column| table.header()[column].clone());
    let mut names: Vec<String> = Vec::with_capacity(covariates.len() + 1);
    if intercept {
        let mut name = "intercept".to_owned();
        while table.header().contains(&name) {
            name = format!("({name})");
        }
        names.push(name);
    }
    names.extend(columns);
    names
}

/// The events of each coefficient: those that name it and those that speak of any `coefficient`;
/// without events, its sign.
fn ask(names: &[String], events: &[String]) -> Result<Vec<Asked>, UserError> {
    // a name that is no column stands for every coefficient
    let any = names.len();
    let variables = Variables::vector(&["coefficient", "x"], names)
        .with_name("coefficient", any)
        .with_name("x", any);
    let mut asked: Vec<Asked> = vec![vec![]; names.len()];
    for (text, event) in parse_events(events, &variables)? {
        let coordinates = event.coordinates();
        let (Some(set), [index]) = (event.as_set(), &coordinates[..]) else {
            return Err(UserError::new(format!(
                "event \"{text}\": an event of logistic regression is about one coefficient"
            )));
        };
        if *index == any {
            for list in &mut asked {
                list.push((text.clone(), set.clone()));
            }
        } else {
            asked[*index].push((text, set));
        }
    }
    if events.is_empty() {
        let zero = || Interval::point(0.0).map(RealSet::from);
        let fail = |error: possibility::Error| UserError::new(error.to_string());
        for (name, list) in names.iter().zip(&mut asked) {
            let positive = Interval::above(0.0).map_err(fail)?.into();
            let negative = Interval::below(0.0).map_err(fail)?.into();
            list.push((format!("{name} > 0"), positive));
            list.push((format!("{name} < 0"), negative));
            list.push((format!("{name} = 0"), zero().map_err(fail)?));
        }
    }
    Ok(asked)
}

fn report_coefficients(
    posterior: &LogisticPosterior,
    names: Vec<String>,
    asked: Vec<Asked>,
    alphas: &[f64],
) -> possibility::Result<Vec<Coefficient>> {
    let view = |name: &'static str, marginal: Marginal, asked: &Asked| {
        let coordinate = Coordinate::new(marginal, alphas)?;
        let answers = asked
            .iter()
            .map(|(event, set)| {
                Ok(Answer {
                    event: event.clone(),
                    credence: coordinate.function.credence_of(set)?,
                })
            })
            .collect::<possibility::Result<_>>()?;
        Ok(View {
            name,
            coordinate,
            answers,
        })
    };
    let mut coefficients = Vec::with_capacity(names.len());
    for (index, (name, asked)) in names.into_iter().zip(asked).enumerate() {
        let MarginalBounds {
            laplace,
            upper,
            lower,
        } = posterior.coefficient(index)?;
        coefficients.push(Coefficient {
            name,
            mode: posterior.mode()[index],
            views: [
                view("laplace", laplace, &asked)?,
                view("upper", upper, &asked)?,
                view("lower", lower, &asked)?,
            ],
        });
    }
    Ok(coefficients)
}

impl Report {
    /// The report for programs.
    pub fn json(&self) -> Value {
        let view = |view: &View| {
            let Coordinate { function, cuts } = &view.coordinate;
            let cuts = self.alphas.iter().zip(cuts).map(|(&alpha, cut)| {
                json!({
                    "alpha": number(alpha),
                    "lower": number(cut.lower()),
                    "upper": number(cut.upper()),
                })
            });
            json!({
                "mode": optional(function.mode()),
                "precision": optional(function.precision()),
                "alpha_cuts": cuts.collect::<Value>(),
                "events": view.answers.iter().map(Answer::json).collect::<Value>(),
            })
        };
        let coefficients = self.coefficients.iter().map(|coefficient| {
            let mut value = json!({
                "name": coefficient.name,
                "mode": number(coefficient.mode),
            });
            for one in &coefficient.views {
                value[one.name] = view(one);
            }
            value
        });
        json!({
            "family": "logistic",
            "n": self.n,
            "parameter": "coefficient",
            "target": self.target,
            "coefficients": coefficients.collect::<Value>(),
            "log_consistency": number(self.log_consistency),
            "newton_steps": self.steps,
        })
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut table = TextTable::default();
        table.row(["log consistency", &significant(self.log_consistency)]);
        table.row(["Newton steps", &self.steps.to_string()]);
        let plural = if self.n == 1 { "" } else { "s" };
        let mut text = format!(
            "logistic: {} observation{plural} of \"{}\" from {}\n\n{}\n",
            self.n,
            self.target,
            self.origin,
            table.render()
        );
        let mut header = ["coefficient", "mode", "under", "precision"]
            .map(str::to_owned)
            .to_vec();
        header.extend(cut_names(&self.alphas));
        let mut table = TextTable::new(header);
        for coefficient in &self.coefficients {
            for (i, view) in coefficient.views.iter().enumerate() {
                let Coordinate { function, cuts } = &view.coordinate;
                let mut row = if i == 0 {
                    vec![coefficient.name.clone(), significant(coefficient.mode)]
                } else {
                    vec![String::new(), String::new()]
                };
                row.push(view.name.to_owned());
                row.push(function.precision().map_or_else(String::new, significant));
                row.extend(cuts.iter().map(closed));
                table.row(row);
            }
        }
        text.push_str(&table.render());
        text.push_str(
            "(laplace: same curvature at the mode; the posterior lies between lower and upper, for certain)\n\n",
        );
        let mut table = TextTable::new([
            "event",
            "possibility",
            "certainly in",
            "necessity",
            "certainly in",
        ]);
        for coefficient in &self.coefficients {
            let [laplace, upper, lower] = &coefficient.views;
            for (i, answer) in laplace.answers.iter().enumerate() {
                let (above, below) = (upper.answers[i].credence, lower.answers[i].credence);
                let name = &coefficient.name;
                let event = if answer.event.contains(name.as_str()) {
                    answer.event.clone()
                } else {
                    format!("{name}: {}", answer.event)
                };
                table.row([
                    event,
                    significant(answer.credence.possibility),
                    interval(below.possibility, above.possibility),
                    significant(answer.credence.necessity),
                    interval(above.necessity, below.necessity),
                ]);
            }
        }
        text.push_str(&table.render());
        text.push('\n');
        text.push_str(READING);
        text.push('\n');
        text
    }
}
