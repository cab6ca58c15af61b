//! Families with one parameter: one column of numbers in, a report out.

use possibility::family::conjugate::{Conjugate, Sample, ScalarFamily};
use possibility::summary::{Coordinate, Summary};
use serde_json::Value;

use super::report::Report;
use super::saved::{self, Saved};
use super::{
    Chosen, Data, Events, Known, Observations, Prior, Questions, infer, option_error,
    parameter_name, parse_events, timed,
};
use crate::csv::{FieldError, Row, Table};
use crate::event::Variables;
use crate::text::significant;
use crate::user_error::UserError;

/// How a field becomes an observation.
pub type ReadField = fn(&Row<'_>, usize) -> Result<f64, FieldError>;

/// Any number.
pub const NUMBER: ReadField = |row, column| row.number(column);

/// 0 or 1.
pub const TRUTH: ReadField = |row, column| row.truth(column);

/// The error about a value that the family cannot observe.
pub fn refuse_value(family: &impl ScalarFamily, value: f64, column: usize) -> FieldError {
    let rule = format!(
        "{}: {} is not in {}",
        family.name(),
        significant(value),
        family.observation_rule()
    );
    FieldError::new(column, rule)
}

/// Reads the column.
fn read<F: ScalarFamily + Clone>(
    family: &F,
    table: &mut Table,
    chosen: &Chosen,
    read: ReadField,
    settings: Value,
) -> Result<Observations<F>, UserError> {
    let &Chosen { column, weight } = chosen;
    let mut sample = Sample::new(family.clone());
    let (result, reading) = timed(|| match weight {
        None => table.for_each_number(
            column,
            |row| read(row, column),
            |values| {
                let refuse = |_| refuse_value(family, values[0], column);
                sample.push_all(values).map_err(refuse)
            },
        ),
        Some(weight) => table.for_each(|row| {
            let value = read(row, column)?;
            sample
                .push_weighted(&value, row.weight(weight)?)
                .map_err(|_| refuse_value(family, value, column))
        }),
    });
    result?;
    Ok(Observations {
        origin: format!("{}, column \"{}\"", table.name(), table.header()[column]),
        data: Data::Sample(sample),
        settings,
        labels: None,
        is_weighted: weight.is_some(),
        dropped: table.dropped(),
        reading,
    })
}

/// Reads the column and reports the posterior.
///
/// # Errors
/// A mistake in the file, the prior or an event.
pub fn report<F: ScalarFamily + Clone + 'static>(
    family: &F,
    table: &mut Table,
    chosen: &Chosen,
    read_field: ReadField,
    known: &Known<'_>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let settings = saved::settings(family);
    Prior::single(known.prior)?;
    let prior = known.build(family, &settings)?;
    parse(family, questions)?;
    let observations = read(family, table, chosen, read_field, settings)?;
    conclude(&prior, observations, questions)
}

fn parse(family: &impl ScalarFamily, questions: &Questions) -> Result<Events, UserError> {
    let name = parameter_name(questions.parameter, family.mean_name());
    parse_events(&questions.events, &Variables::scalar(&["x", name]))
}

/// Infers from stored evidence and reports.
///
/// # Errors
/// Files that do not belong together, or a mistake in an event.
pub fn merge<F: ScalarFamily + Clone + 'static>(
    family: &F,
    files: &[Saved],
    questions: &Questions,
) -> Result<Report, UserError> {
    let (prior, observations) = saved::merge(family, files, None)?;
    conclude(&prior, observations, questions)
}

fn conclude<F: ScalarFamily + Clone + 'static>(
    prior: &Conjugate<F>,
    observations: Observations<F>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let events = parse(prior.family(), questions)?;
    let valid = |summary: &Summary| {
        let family = prior.family().clone();
        let mean = summary.mean_statistic[0];
        valid(family, mean, summary.weight, &summary.alphas)
    };
    let mut report = infer(
        prior,
        observations,
        questions,
        events,
        |_, summary, event| {
            // every event of a scalar family speaks of one coordinate
            let set = event.as_set().unwrap_or_default();
            if questions.valid {
                return Ok(valid(summary)?.function.credence_of(&set)?.into());
            }
            Ok(summary.coordinates[0].function.credence_of(&set)?.into())
        },
    )?;
    if questions.valid {
        let coordinate = valid(&report.summary).map_err(|error| option_error("--valid", &error))?;
        report.summary.coordinates = vec![coordinate];
    }
    Ok(report)
}

/// The valid possibility function of a mean, from data of this mean and number.
///
/// # Errors
/// As [`Valid::new`], or a level outside `(0, 1]`.
fn valid<F: ScalarFamily + Clone + 'static>(
    family: F,
    mean: f64,
    number: f64,
    alphas: &[f64],
) -> possibility::Result<Coordinate> {
    Coordinate::new(questions::valid(family, mean, number)?, alphas)
}

#[cfg(test)]
mod tests {
    use super::*;
    use possibility::family::conjugate::{
        Bernoulli, Exponential, Gamma, NormalNoise, Parameter, Poisson,
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
            save: false,
            valid: false,
            simulations: Default::default(),
        };
        let prior = Prior {
            mean: vec![0.45],
            weight: 1.5,
        };
        let chosen = Chosen {
            column: 0,
            weight: None,
        };
        let known = Known {
            prior: Some(&prior),
            from: None,
        };
        super::report(&family, &mut table, &chosen, NUMBER, &known, &questions).unwrap()
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
            let (one, other) = (one.credence, other.credence);
            prop_assert!(
                close(one.possibility, other.possibility),
                "{one:?} {other:?}"
            );
            prop_assert!(close(one.necessity, other.necessity), "{one:?} {other:?}");
            prop_assert!(one.necessity == 0.0 || one.possibility == 1.0, "{one:?}");
        }
        let cuts = |report: &Report| report.summary.coordinates[0].cuts.clone();
        for (one, other) in cuts(&mean).into_iter().zip(cuts(&natural)) {
            prop_assert!(close(link(one.lower()), other.lower()), "{one} {other}");
            prop_assert!(close(link(one.upper()), other.upper()), "{one} {other}");
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
            parameters_agree(NormalNoise::new(variance).unwrap(), &times, ends)?;
        }
    }
}
