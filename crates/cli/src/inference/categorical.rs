//! The categorical family: one column of classes in, a report out.

use std::collections::HashMap;

use possibility::family::conjugate::{Categorical, Conjugate, Parameter};

use super::posterior::{Labels, Report, cuts};
use super::scalar::parse_events;
use super::{
    Answer, Origin, Prior, Profile, Questions, Timings, option_error, parameter_name, timed,
};
use crate::data::{FieldError, Table};
use crate::event::Variables;
use crate::user_error::{UserError, list, unknown};

/// How far the prior's class shares may miss 1: they are typed in decimal.
const SHARES: f64 = 1e-9;

/// Classes and, for each row, the index of its class.
struct Observations {
    classes: Vec<String>,
    data: Vec<usize>,
}

/// Reads the column and reports the posterior.
///
/// # Errors
/// A mistake in the file, the classes, the prior or an event.
pub fn infer(
    table: &mut Table,
    column: usize,
    classes: Option<&[String]>,
    prior: Option<&Prior>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let (observations, reading) = timed(|| read(table, column, classes));
    let Observations { classes, data } = observations?;
    let origin = Origin {
        name: format!("{}, column \"{}\"", table.name(), table.header()[column]),
    };
    if classes.len() < 2 {
        return Err(UserError::new(format!(
            "{}: the only class is {}; name all possible classes with --classes",
            origin.name,
            list(classes.iter().map(String::as_str))
        )));
    }
    let fail = |error: possibility::Error| origin.error(&error);
    let family = Categorical::new(classes.len()).map_err(fail)?;
    let prior = match prior {
        None => Conjugate::uninformative(family),
        Some(prior) => build_prior(family, &classes, prior)?,
    };
    let name = parameter_name(questions.parameter, "p");
    let shown = match questions.parameter {
        Parameter::Natural => &classes[..classes.len() - 1],
        Parameter::Mean => &classes[..],
    };
    let variables = Variables::vector(&[name, "x"], shown);
    let events = parse_events(&questions.events, &variables)?;

    let (result, fitting) = timed(|| {
        let posterior = prior.update(&data)?;
        Ok((posterior, prior.log_consistency(&data)?))
    });
    let (posterior, log_consistency) = result.map_err(fail)?;
    let mut profiles: Vec<Box<dyn Profile>> = Vec::with_capacity(shown.len());
    for index in 0..shown.len() {
        let profile = posterior.coordinate(index, questions.parameter);
        profiles.push(Box::new(profile.map_err(fail)?));
    }
    // all classes, also the one that the minimal parameter leaves out
    let lambda = (0..classes.len())
        .map(|index| {
            let share = posterior.coordinate(index, Parameter::Mean)?;
            Ok(share.mean_statistic().unwrap_or(f64::NAN))
        })
        .collect::<Result<Vec<f64>, possibility::Error>>()
        .map_err(fail)?;
    let mut answers = Vec::with_capacity(events.len());
    for (event, parsed) in events {
        let coordinates = parsed.coordinates();
        let (Some(set), &[index]) = (parsed.as_set(), &coordinates[..]) else {
            let named = coordinates.iter().map(|&i| shown[i].as_str());
            return Err(UserError::new(format!(
                "event \"{event}\": an event of the categorical family is about one class, this one \
                 names {}",
                list(named)
            )));
        };
        let (possibility, necessity) = profiles[index].measure(&set).map_err(fail)?;
        answers.push(Answer {
            event,
            possibility,
            necessity,
        });
    }
    Ok(Report {
        family: "categorical",
        origin: origin.name.clone(),
        n: data.len(),
        parameter_name: name,
        parameter: questions.parameter,
        labels: Some(Labels {
            key: "classes",
            one: "class",
            all: classes,
        }),
        precision: posterior
            .precision(questions.parameter)
            .map(|matrix| super::multivariate_normal::rows(&matrix)),
        lambda,
        nu: posterior.weight(),
        alphas: questions.alphas.clone(),
        cuts: cuts(&profiles, &questions.alphas).map_err(fail)?,
        profiles,
        answers,
        log_consistency,
        timings: Timings { reading, fitting },
    })
}

fn build_prior(
    family: Categorical,
    classes: &[String],
    prior: &Prior,
) -> Result<Conjugate<Categorical>, UserError> {
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
    // the last share is what the others leave; the check of it is ours, since the library does not see it
    if let Some(share) = prior.mean.iter().find(|share| **share < 0.0) {
        return Err(UserError::new(format!(
            "--prior-mean: the share {share} is not in [0, 1]"
        )));
    }
    Conjugate::new(family, &prior.mean[..expected - 1], prior.weight)
        .map_err(|error| option_error("--prior-mean, --prior-weight", &error))
}

/// The classes are those given, in their order, or those found: sorted, as numbers if all are numbers.
fn read(
    table: &mut Table,
    column: usize,
    fixed: Option<&[String]>,
) -> Result<Observations, UserError> {
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
        return Ok(Observations {
            classes: classes.to_vec(),
            data,
        });
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
    Ok(Observations {
        classes: found.into_iter().map(|(class, _)| class).collect(),
        data,
    })
}
