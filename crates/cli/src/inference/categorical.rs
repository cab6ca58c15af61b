//! The categorical family: one column of classes in, a report out.

use std::collections::HashMap;

use possibility::family::conjugate::{Categorical, Conjugate, Parameter, Sample};

use super::report::{Labels, Report};
use super::{
    Observations, Prior, Questions, Unmeasured, infer, option_error, parameter_name, parse_events,
    timed,
};
use crate::csv::{FieldError, Table};
use crate::event::Variables;
use crate::user_error::{UserError, list, unknown};

/// How far the prior's class shares may miss 1: they are typed in decimal.
const SHARES: f64 = 1e-9;

/// Reads the column and reports the posterior.
///
/// # Errors
/// A mistake in the file, the classes, the prior or an event.
pub fn report(
    table: &mut Table,
    column: usize,
    classes: Option<&[String]>,
    prior: Option<&Prior>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let (columns, reading) = timed(|| read(table, column, classes));
    let (classes, data) = columns?;
    let origin = format!("{}, column \"{}\"", table.name(), table.header()[column]);
    if classes.len() < 2 {
        return Err(UserError::new(format!(
            "{origin}: the only class is {}; name all possible classes with --classes",
            list(classes.iter().map(String::as_str))
        )));
    }
    let fail = |error: possibility::Error| option_error(&origin, &error);
    let family = Categorical::new(classes.len()).map_err(fail)?;
    let prior = build_prior(family, &classes, prior)?;
    let shown = match questions.parameter {
        Parameter::Natural => &classes[..classes.len() - 1],
        Parameter::Mean => &classes[..],
    };
    let name = parameter_name(questions.parameter, "p");
    let events = parse_events(&questions.events, &Variables::vector(&[name, "x"], shown))?;
    let shown = shown.to_vec();
    let mut sample = Sample::new(family);
    for class in &data {
        sample.push(class).map_err(fail)?;
    }
    let observations = Observations {
        origin,
        sample,
        labels: Some(Labels {
            key: "classes",
            one: "class",
            all: classes,
        }),
        reading,
    };
    infer(
        &prior,
        observations,
        questions,
        events,
        |_, summary, event| {
            let coordinates = event.coordinates();
            let (Some(set), &[index]) = (event.as_set(), &coordinates[..]) else {
                let named = coordinates.iter().map(|&i| shown[i].as_str());
                return Err(Unmeasured::Event(format!(
                    "an event of the categorical family is about one class, this one names {}",
                    list(named)
                )));
            };
            Ok(summary.coordinates[index].function.credence_of(&set)?)
        },
    )
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
    let sum: f64 = prior.mean.iter().sum();
    if (sum - 1.0).abs() > SHARES {
        return Err(UserError::new(format!(
            "--prior-mean: the shares of the classes add up to {sum}, expected 1"
        )));
    }
    // the last share is what the others leave; the check of it is ours, since the library does not
    // see it
    if let Some(share) = prior.mean.iter().find(|share| **share < 0.0) {
        return Err(UserError::new(format!(
            "--prior-mean: the share {share} is not in [0, 1]"
        )));
    }
    let free = Prior {
        mean: prior.mean[..expected - 1].to_vec(),
        weight: prior.weight,
    };
    Prior::build(Some(&free), family)
}

/// The classes and, for each row, the index of its class. The classes are those given, in their
/// order, or those found: sorted, as numbers if all are numbers.
fn read(
    table: &mut Table,
    column: usize,
    fixed: Option<&[String]>,
) -> Result<(Vec<String>, Vec<usize>), UserError> {
    let mut known: HashMap<String, usize> = HashMap::new();
    for class in fixed.unwrap_or_default() {
        if class.is_empty() {
            return Err(UserError::new("--classes: a class has no name"));
        }
        let next = known.len();
        if known.insert(class.clone(), next).is_some() {
            return Err(UserError::new(format!(
                "--classes: \"{class}\" is named twice"
            )));
        }
    }
    let mut data = Vec::new();
    table.for_each(|row| {
        let text = row.text(column)?;
        let index = match (known.get(text), fixed) {
            (Some(&index), _) => index,
            (None, Some(classes)) => {
                let names = classes.iter().map(String::as_str);
                return Err(FieldError::new(column, unknown("class", text, names)));
            }
            (None, None) => {
                let next = known.len();
                known.insert(text.to_owned(), next);
                next
            }
        };
        data.push(index);
        Ok(())
    })?;
    if let Some(classes) = fixed {
        return Ok((classes.to_vec(), data));
    }
    let mut found: Vec<(String, usize)> = known.into_iter().collect();
    let as_number = |class: &str| class.parse::<f64>().ok().filter(|x| x.is_finite());
    if found.iter().all(|(class, _)| as_number(class).is_some()) {
        found.sort_by(|a, b| {
            let order = as_number(&a.0).partial_cmp(&as_number(&b.0));
            order
                .unwrap_or(std::cmp::Ordering::Equal)
                .then(a.0.cmp(&b.0))
        });
    } else {
        found.sort();
    }
    let mut place = vec![0; found.len()];
    for (new, (_, old)) in found.iter().enumerate() {
        place[*old] = new;
    }
    for index in &mut data {
        *index = place[*index];
    }
    Ok((found.into_iter().map(|(class, _)| class).collect(), data))
}
