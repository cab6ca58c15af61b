//! The categorical family: one column of classes in, a report out.
//!
//! With `--valid` the number of a class is binomial, and so is that of several classes with one
//! factor: a probability, or a sum of them, is answered exactly. For any other linear form numbers
//! of all classes are simulated.

use std::cell::Cell;
use std::collections::HashMap;

use possibility::Measure;
use possibility::family::conjugate::{Categorical, Conjugate, Parameter, Sample};
use possibility::summary::{Coordinate, Summary};
use questions::levels::Levels;
use questions::shares;
use serde_json::json;

use super::report::{Labels, Report};
use super::saved::{self, Saved};
use super::{
    Chosen, Data, Known, Observations, Prior, Questions, Unmeasured, infer, option_error,
    parameter_name, parse_events, timed,
};
use questions::event::Variables;
use questions::user_error::{UserError, list, unknown};
use tabular::csv::{FieldError, Table};

/// Reads the column and reports the posterior.
///
/// # Errors
/// A mistake in the file, the classes, the prior or an event.
pub fn report(
    table: &mut Table,
    chosen: &Chosen,
    classes: Option<&[String]>,
    known: &Known<'_>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let saved = known.from.map(Saved::classes).transpose()?;
    let classes = classes.or(saved.as_deref());
    let (columns, reading) = timed(|| read(table, chosen, classes));
    let (classes, data) = columns?;
    let origin = format!(
        "{}, column \"{}\"",
        table.name(),
        table.header()[chosen.column]
    );
    if classes.len() < 2 {
        return Err(UserError::new(format!(
            "{origin}: the only class is {}; name all possible classes with --classes",
            list(classes.iter().map(String::as_str))
        )));
    }
    let fail = |error: possibility::Error| option_error(&origin, &error);
    let family = Categorical::new(classes.len()).map_err(fail)?;
    let settings = json!({ "classes": classes });
    let prior = match known.from {
        Some(saved) => saved.as_prior(&family, &settings)?,
        None => build_prior(family, &classes, known.prior)?,
    };
    let mut sample = Sample::new(family);
    for (class, weight) in &data {
        sample.push_weighted(class, *weight).map_err(fail)?;
    }
    let observations = Observations {
        origin,
        data: Data::Sample(sample),
        settings,
        labels: Some(labels(classes)),
        is_weighted: chosen.weight.is_some(),
        dropped: table.dropped(),
        reading,
    };
    conclude(&prior, observations, questions)
}

fn labels(classes: Vec<String>) -> Labels {
    Labels {
        key: "classes",
        one: "class",
        all: classes,
    }
}

/// Infers from stored evidence and reports.
///
/// # Errors
/// Numbers in the files that cannot be, or a mistake in an event.
pub fn merge(files: &[Saved], questions: &Questions) -> Result<Report, UserError> {
    let classes = files[0].classes()?;
    let family = Categorical::new(classes.len());
    let family = family.map_err(|error| option_error(&files[0].file, &error))?;
    let (prior, observations) = saved::merge(&family, files, Some(labels(classes)))?;
    conclude(&prior, observations, questions)
}

fn conclude(
    prior: &Conjugate<Categorical>,
    observations: Observations<Categorical>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let all = observations.names();
    let shown = match questions.parameter {
        Parameter::Natural => &all[..all.len() - 1],
        Parameter::Mean => all,
    };
    let name = parameter_name(questions.parameter, "p");
    let events = parse_events(&questions.events, &Variables::vector(&[name, "x"], shown))?;
    let parameter = questions.parameter;
    let simulated = Cell::new(None);
    let mut report = infer(
        prior,
        observations,
        questions,
        events,
        |posterior, summary, event| match event.place() {
            Some((index, set)) if questions.valid => {
                let class = valid_class(summary, index)?;
                Ok(class.function.credence_of(&set)?.into())
            }
            Some((index, set)) => Ok(summary.coordinates[index]
                .function
                .credence_of(&set)?
                .into()),
            None => {
                if parameter == Parameter::Natural {
                    let rule = "classes are compared by their probabilities; use --parameter mean";
                    return Err(Unmeasured::Event(rule.to_owned()));
                }
                let (form, set) = shares::form(posterior, event)?;
                if !questions.valid {
                    return Ok(form.credence_of(&set)?.into());
                }
                let (measured, used) = shares::valid_form(&form, &set, questions.simulations)?;
                simulated.set(simulated.get().or(used));
                Ok(measured)
            }
        },
    )?;
    if questions.valid {
        let all = 0..report.summary.coordinates.len();
        let classes = all.map(|index| valid_class(&report.summary, index));
        let classes: possibility::Result<Vec<_>> = classes.collect();
        report.summary.coordinates = classes.map_err(|error| option_error("--valid", &error))?;
        report.simulated = simulated.get();
    }
    Ok(report)
}

/// The valid possibility function of one probability.
fn valid_class(summary: &Summary, index: usize) -> possibility::Result<Coordinate> {
    let share = shares::valid(summary.mean_statistic[index], summary.weight)?;
    Coordinate::new(share, &summary.alphas)
}

fn build_prior(
    family: Categorical,
    classes: &[String],
    prior: Option<&Prior>,
) -> Result<Conjugate<Categorical>, UserError> {
    let Some(prior) = prior else {
        return Prior::build(None, family);
    };
    let (found, expected) = (prior.mean.len(), classes.len());
    if found != expected {
        return Err(UserError::new(format!(
            "--prior-mean: {expected} numbers are expected, one for each of {}, found {found}",
            list(classes.iter().map(String::as_str))
        )));
    }
    let built = family.prior_of_shares(&prior.mean, prior.weight);
    built.map_err(|error| option_error("--prior-mean, --prior-weight", &error))
}

/// The classes and, for each row, the index of its class and how often it counts.
type Classes = (Vec<String>, Vec<(usize, f64)>);

/// Reads the column. The classes are those given, in their order, or those found: sorted, as
/// numbers if all are numbers.
fn read(
    table: &mut Table,
    chosen: &Chosen,
    fixed: Option<&[String]>,
) -> Result<Classes, UserError> {
    let &Chosen { column, weight } = chosen;
    let mut known = HashMap::new();
    for (index, class) in fixed.unwrap_or_default().iter().enumerate() {
        if class.is_empty() {
            return Err(UserError::new("--classes: a class has no name"));
        }
        if known.insert(class.as_str(), index).is_some() {
            return Err(UserError::new(format!(
                "--classes: \"{class}\" is named twice"
            )));
        }
    }
    let mut found = Levels::default();
    let mut data = Vec::new();
    table.for_each(|row| {
        let text = row.text(column)?;
        let weight = weight.map_or(Ok(1.0), |column| row.weight(column))?;
        let index = match (known.get(&*text), fixed) {
            (Some(&index), _) => index,
            (None, Some(classes)) => {
                let names = classes.iter().map(String::as_str);
                return Err(FieldError::new(column, unknown("class", &text, names)));
            }
            (None, None) => found.code(&text),
        };
        data.push((index, weight));
        Ok(())
    })?;
    if let Some(classes) = fixed {
        return Ok((classes.to_vec(), data));
    }
    let (classes, places) = found.sorted();
    for (index, _) in &mut data {
        *index = places[*index];
    }
    Ok((classes, data))
}
