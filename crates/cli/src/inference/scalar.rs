//! Families with one parameter: one column of numbers in, a report out.

use possibility::family::conjugate::{Conjugate, ScalarFamily};

use super::posterior::{Report, cuts};
use super::{
    Answer, Origin, Prior, Profile, Questions, Timings, option_error, parameter_name, timed,
};
use crate::data::{FieldError, Row, Table};
use crate::event::{Event, Variables};
use crate::text::significant;
use crate::user_error::UserError;

/// How a field becomes an observation.
pub type ReadField = fn(&Row<'_>, usize) -> Result<f64, FieldError>;

/// A number.
///
/// # Errors
/// The field holds no finite number.
pub fn read_number(row: &Row<'_>, column: usize) -> Result<f64, FieldError> {
    row.number(column)
}

/// 0 or 1, also written `false`, `true`, `no`, `yes`.
///
/// # Errors
/// The field holds anything else.
pub fn read_truth(row: &Row<'_>, column: usize) -> Result<f64, FieldError> {
    let text = row.text(column)?;
    let is_one_of = |words: [&str; 3]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_one_of(["1", "true", "yes"]) {
        return Ok(1.0);
    }
    if is_one_of(["0", "false", "no"]) {
        return Ok(0.0);
    }
    match text.parse::<f64>() {
        Ok(value) if value == 0.0 || value == 1.0 => Ok(value),
        _ => Err(FieldError::new(
            column,
            format!("{text} is not allowed; allowed: 0 or 1, also false/true and no/yes"),
        )),
    }
}

/// Reads the column and reports the posterior.
///
/// # Errors
/// A mistake in the file, the prior or an event.
pub fn infer<F: ScalarFamily + Clone + 'static>(
    family: F,
    table: &mut Table,
    column: usize,
    read: ReadField,
    prior: Option<&Prior>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let prior = match prior {
        None => Conjugate::uninformative(family.clone()),
        Some(prior) => {
            if prior.mean.len() != 1 {
                let found = prior.mean.len();
                return Err(UserError::new(format!(
                    "--prior-mean: one number is expected, found {found}"
                )));
            }
            Conjugate::new(family.clone(), &prior.mean, prior.weight)
                .map_err(|error| option_error("--prior-mean, --prior-weight", &error))?
        }
    };
    let name = parameter_name(questions.parameter, family.mean_name());
    let variables = Variables::scalar(&["x", name]);
    let events = parse_events(&questions.events, &variables)?;

    let mut data: Vec<f64> = Vec::new();
    let (result, reading) = timed(|| {
        table.for_each(|row| {
            let value = read(row, column)?;
            if !family.accepts(value) {
                let rule = format!(
                    "{} is not allowed for {}; allowed: {}",
                    significant(value),
                    family.name(),
                    family.observation_rule()
                );
                return Err(FieldError::new(column, rule));
            }
            data.push(value);
            Ok(())
        })
    });
    result?;
    let origin = Origin {
        name: format!("{}, column \"{}\"", table.name(), table.header()[column]),
    };
    let fail = |error: possibility::Error| origin.error(&error);
    let (result, fitting) = timed(|| {
        let posterior = prior.update(&data)?;
        Ok((posterior, prior.log_consistency(&data)?))
    });
    let (posterior, log_consistency) = result.map_err(fail)?;
    let profile = posterior.in_parameter(questions.parameter);
    let precision = Profile::precision(&profile).map(|precision| vec![vec![precision]]);
    let profiles: Vec<Box<dyn Profile>> = vec![Box::new(profile)];
    let answers = events
        .into_iter()
        .map(|(event, parsed)| {
            // every event of a scalar family speaks of one coordinate
            let set = parsed.as_set().unwrap_or_default();
            let (possibility, necessity) = profiles[0].measure(&set)?;
            Ok(Answer {
                event,
                possibility,
                necessity,
            })
        })
        .collect::<Result<_, _>>()
        .map_err(fail)?;
    Ok(Report {
        family: family.name(),
        origin: origin.name.clone(),
        n: data.len(),
        parameter_name: name,
        parameter: questions.parameter,
        labels: None,
        precision,
        lambda: posterior.mean_statistic().unwrap_or_default().to_vec(),
        nu: posterior.weight(),
        alphas: questions.alphas.clone(),
        cuts: cuts(&profiles, &questions.alphas).map_err(fail)?,
        profiles,
        answers,
        log_consistency,
        timings: Timings { reading, fitting },
    })
}

/// Reads every event before any work is done.
///
/// # Errors
/// A mistake in an event.
pub fn parse_events(
    events: &[String],
    variables: &Variables,
) -> Result<Vec<(String, Event)>, UserError> {
    events
        .iter()
        .map(|text| Ok((text.clone(), Event::parse(text, variables)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use possibility::family::conjugate::{
        Bernoulli, Exponential, Gamma, Normal, Parameter, Poisson,
    };
    use proptest::prelude::*;

    /// Two parameters are related by a few operations, and cuts by a search to full precision.
    const TOLERANCE: f64 = 1e-9;

    fn report<F: ScalarFamily + Clone + 'static>(
        family: F,
        data: &[f64],
        parameter: Parameter,
        ends: (f64, f64),
    ) -> Report {
        let rows: String = data.iter().map(|x| format!("{x}\n")).collect();
        let mut table = Table::from_text("data.csv", format!("x\n{rows}").as_bytes()).unwrap();
        let (a, b) = ends;
        let questions = Questions {
            alphas: vec![0.03, 0.4, 1.0],
            events: vec![
                format!("x > {a:e}"),
                format!("{a:e} <= x < {b:e}"),
                format!("x < {a:e} or not x <= {b:e}"),
                format!("x in {{{a:e}, {b:e}}}"),
            ],
            parameter,
        };
        let prior = Prior {
            mean: vec![0.45],
            weight: 1.5,
        };
        infer(family, &mut table, 0, read_number, Some(&prior), &questions).unwrap()
    }

    /// A possibility function needs no Jacobian.
    fn parameters_agree<F: ScalarFamily + Clone + 'static>(
        family: F,
        data: &[f64],
        (a, b): (f64, f64),
    ) -> Result<(), TestCaseError> {
        let link = |x: f64| family.natural_of(x);
        let mean = report(family.clone(), data, Parameter::Mean, (a, b));
        let natural = report(family.clone(), data, Parameter::Natural, (link(a), link(b)));
        let close = |x: f64, y: f64| x == y || (x - y).abs() <= TOLERANCE * x.abs().max(1.0);
        for (one, other) in mean.answers.iter().zip(&natural.answers) {
            prop_assert!(
                close(one.possibility, other.possibility),
                "{one:?} {other:?}"
            );
            prop_assert!(close(one.necessity, other.necessity), "{one:?} {other:?}");
            prop_assert!(one.necessity == 0.0 || one.possibility == 1.0, "{one:?}");
        }
        for (one, other) in mean.cuts.iter().zip(&natural.cuts) {
            prop_assert!(close(link(one[0].0), other[0].0), "{one:?} {other:?}");
            prop_assert!(close(link(one[0].1), other[0].1), "{one:?} {other:?}");
        }
        prop_assert_eq!(mean.log_consistency, natural.log_consistency);
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn events_and_cuts_agree_in_both_parameters(
            truths in prop::collection::vec(0..2u8, 1..12),
            counts in prop::collection::vec(0..9u8, 1..12),
            times in prop::collection::vec(0.01..5.0f64, 1..12),
            shape in 0.3..6.0f64,
            variance in 0.1..9.0f64,
            a in 0.05..0.6f64,
            gap in 0.01..0.3f64,
        ) {
            let ends = (a, a + gap);
            let numbers = |list: &[u8]| list.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
            parameters_agree(Bernoulli, &numbers(&truths), ends)?;
            parameters_agree(Poisson, &numbers(&counts), ends)?;
            parameters_agree(Exponential, &times, ends)?;
            parameters_agree(Gamma::new(shape).unwrap(), &times, ends)?;
            parameters_agree(Normal::new(variance).unwrap(), &times, ends)?;
        }
    }
}
