//! Families with one parameter: one column of numbers in, a report out.

use std::mem;

use possibility::family::conjugate::{
    Bernoulli, Conjugate, Evidence, Exponential, Gamma, NormalNoise, Poisson, Sample, ScalarFamily,
};
use possibility::summary::{Coordinate, Summary};
use serde_json::Value;

use super::report::Report;
use super::saved::{self, Saved};
use super::{
    Chosen, Data, Events, Known, Observations, Prior, Questions, groups, infer, option_error,
    parameter_name, parse_events, timed,
};
use questions::event::Variables;
use questions::text::significant;
use questions::user_error::UserError;
use tabular::csv::{FieldError, Row, Table};

/// How a field becomes an observation.
pub(crate) type ReadField = fn(&Row<'_>, usize) -> Result<f64, FieldError>;

/// Any number.
const NUMBER: ReadField = |row, column| row.number(column);

/// 0 or 1.
const TRUTH: ReadField = |row, column| row.truth(column);

/// A family with one parameter, chosen at run time.
#[derive(Debug, Clone)]
pub enum Scalar {
    /// Success or failure.
    Bernoulli,
    /// Counts.
    Poisson,
    /// Waiting times.
    Exponential,
    /// Positive numbers of known shape.
    Gamma(Gamma),
    /// Numbers with normal noise of known variance.
    Normal(NormalNoise),
}

/// The same expression of each family, and how its observations are read.
macro_rules! each {
    ($chosen:expr, |$family:ident, $read:ident| $body:expr) => {
        match $chosen {
            Scalar::Bernoulli => {
                let ($family, $read) = (&Bernoulli, TRUTH);
                $body
            }
            Scalar::Poisson => {
                let ($family, $read) = (&Poisson, NUMBER);
                $body
            }
            Scalar::Exponential => {
                let ($family, $read) = (&Exponential, NUMBER);
                $body
            }
            Scalar::Gamma($family) => {
                let $read = NUMBER;
                $body
            }
            Scalar::Normal($family) => {
                let $read = NUMBER;
                $body
            }
        }
    };
}

impl Scalar {
    /// Positive numbers of this shape.
    ///
    /// # Errors
    /// There is no such shape; the message begins with `source`.
    pub fn gamma(shape: f64, source: &str) -> Result<Self, UserError> {
        let family = Gamma::new(shape).map_err(|error| option_error(source, &error))?;
        Ok(Self::Gamma(family))
    }

    /// Numbers with noise of this variance.
    ///
    /// # Errors
    /// There is no such variance; the message begins with `source`.
    pub fn normal(variance: f64, source: &str) -> Result<Self, UserError> {
        let family = NormalNoise::new(variance).map_err(|error| option_error(source, &error))?;
        Ok(Self::Normal(family))
    }

    /// The family of a saved posterior; none if it has not one parameter.
    ///
    /// # Errors
    /// The file lacks what defines the family.
    pub fn of_saved(file: &Saved) -> Result<Option<Self>, UserError> {
        Ok(Some(match file.family.as_str() {
            "bernoulli" => Self::Bernoulli,
            "poisson" => Self::Poisson,
            "exponential" => Self::Exponential,
            "gamma" => Self::gamma(file.number("shape")?, &file.file)?,
            "normal" => Self::normal(file.number("variance")?, &file.file)?,
            _ => return Ok(None),
        }))
    }

    /// Reads the column and reports the posterior.
    ///
    /// # Errors
    /// A mistake in the file, the prior or an event.
    pub fn report(
        &self,
        table: &mut Table,
        chosen: &Chosen,
        known: &Known<'_>,
        questions: &Questions,
    ) -> Result<Report, UserError> {
        each!(self, |family, read| report(
            family, table, chosen, read, known, questions
        ))
    }

    /// One posterior for each group.
    ///
    /// # Errors
    /// A mistake in the file, the prior or an event.
    pub fn by_groups(
        &self,
        table: &mut Table,
        columns: &groups::Columns,
        prior: Option<&Prior>,
        questions: &Questions,
    ) -> Result<groups::Report, UserError> {
        each!(self, |family, read| groups::scalar(
            family, table, columns, read, prior, questions
        ))
    }

    /// Infers from stored evidence and reports.
    ///
    /// # Errors
    /// Files that do not belong together, or a mistake in an event.
    pub fn merge(&self, files: &[Saved], questions: &Questions) -> Result<Report, UserError> {
        each!(self, |family, _read| {
            let (prior, observations) = saved::merge(family, files, None)?;
            conclude(&prior, observations, questions)
        })
    }
}

/// The error about a value that the family cannot observe.
pub(crate) fn refuse_value(family: &impl ScalarFamily, value: f64, column: usize) -> FieldError {
    let rule = format!(
        "{}: {} is not in {}",
        family.name(),
        significant(value),
        family.observation_rule()
    );
    FieldError::new(column, rule)
}

/// Observations that are held at once; of more, their evidence.
const MOST: usize = 1 << 21;

/// Observations of a file of any length. Up to `most` they are kept as they are; then each block of
/// so many becomes its evidence, which says the same of the parameter up to rounding, and is a few
/// numbers.
struct Gathering<F: ScalarFamily + Clone> {
    most: usize,
    sample: Sample<F>,
    /// Weights of the sample, where a column has them.
    weights: Vec<f64>,
    /// The block before the sample, and its weights.
    before: Option<(Sample<F>, Vec<f64>)>,
    /// Evidence of the blocks before that.
    parts: Vec<Evidence>,
    /// Rows of those.
    rows: usize,
}

impl<F: ScalarFamily + Clone> Gathering<F> {
    fn new(family: &F, most: usize) -> Self {
        Self {
            most,
            sample: Sample::new(family.clone()),
            weights: Vec::new(),
            before: None,
            parts: Vec::new(),
            rows: 0,
        }
    }

    fn push_all(&mut self, values: &[f64]) -> possibility::Result<()> {
        self.sample.push_all(values)?;
        self.settle();
        Ok(())
    }

    fn push_weighted(&mut self, value: f64, weight: f64) -> possibility::Result<()> {
        self.sample.push_weighted(&value, weight)?;
        self.weights.push(weight);
        self.settle();
        Ok(())
    }

    /// Turns the block before a full one into its evidence. A block that leaves no posterior, of
    /// zeros say, has none and grows on.
    fn settle(&mut self) {
        if self.sample.observations().len() < self.most
            || Evidence::of_sample(&self.sample).is_err()
        {
            return;
        }
        let next = Sample::new(self.sample.family().clone());
        let full = (
            mem::replace(&mut self.sample, next),
            mem::take(&mut self.weights),
        );
        if let Some((block, _)) = self.before.replace(full)
            && let Ok(evidence) = Evidence::of_sample(&block)
        {
            self.rows += block.observations().len();
            self.parts.push(evidence);
        }
    }

    fn data(mut self) -> possibility::Result<Data<F>> {
        let Some((mut block, _)) = self.before.take() else {
            return Ok(Data::Sample(self.sample));
        };
        // the rest may have no evidence of its own, and is not much
        for (place, value) in self.sample.observations().iter().enumerate() {
            let weight = self.weights.get(place).copied();
            block.push_weighted(value, weight.unwrap_or(1.0))?;
        }
        if self.parts.is_empty() {
            return Ok(Data::Sample(block));
        }
        self.rows += block.observations().len();
        self.parts.push(Evidence::of_sample(&block)?);
        let whole = Evidence::merged(block.family(), &self.parts)?;
        Ok(Data::Evidence(whole, self.rows))
    }
}

/// Reads the column.
fn read<F: ScalarFamily + Clone>(
    family: &F,
    table: &mut Table,
    chosen: &Chosen,
    read: ReadField,
    settings: Value,
    most: usize,
) -> Result<Observations<F>, UserError> {
    let &Chosen { column, weight } = chosen;
    let mut gathering = Gathering::new(family, most);
    let (result, reading) = timed(|| match weight {
        None => table.for_each_number(
            column,
            |row| read(row, column),
            |values| {
                let refuse = |_| refuse_value(family, values[0], column);
                gathering.push_all(values).map_err(refuse)
            },
        ),
        Some(weight) => table.for_each(|row| {
            let value = read(row, column)?;
            gathering
                .push_weighted(value, row.weight(weight)?)
                .map_err(|_| refuse_value(family, value, column))
        }),
    });
    result?;
    let origin = format!("{}, column \"{}\"", table.name(), table.header()[column]);
    let data = gathering.data();
    let data = data.map_err(|error| option_error(&origin, &error))?;
    Ok(Observations {
        origin,
        data,
        settings,
        labels: None,
        is_weighted: weight.is_some(),
        dropped: table.dropped(),
        reading,
    })
}

fn report<F: ScalarFamily + Clone + 'static>(
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
    let observations = read(family, table, chosen, read_field, settings, MOST)?;
    conclude(&prior, observations, questions)
}

fn parse(family: &impl ScalarFamily, questions: &Questions) -> Result<Events, UserError> {
    let name = parameter_name(questions.parameter, family.mean_name());
    parse_events(&questions.events, &Variables::scalar(&["x", name]))
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
    use possibility::family::conjugate::Parameter;
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
        let mut table = Table::from_bytes("data.csv", format!("x\n{rows}").into_bytes()).unwrap();
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

    /// In blocks of three, of data with zeros at their end, the same as in one.
    #[test]
    fn evidence_of_blocks_is_that_of_all_rows() {
        let values = [
            2.5, 0.25, 1.5, 0.5, 7.0, 0.125, 3.0, 2.0, 0.0, 0.0, 1.0, 0.5, 0.0, 0.0,
        ];
        let rows: String = values
            .iter()
            .map(|x| format!("{x},{}\n", 1.0 + x))
            .collect();
        for (weight, family_rows) in [(None, 14.0), (Some(1), 14.0 + values.iter().sum::<f64>())] {
            let [blocks, whole] = [3, 100].map(|most| {
                let text = format!("x,w\n{rows}");
                let mut table = Table::from_bytes("data.csv", text.into_bytes()).unwrap();
                let chosen = Chosen { column: 0, weight };
                let found = read(
                    &Exponential,
                    &mut table,
                    &chosen,
                    NUMBER,
                    serde_json::json!({}),
                    most,
                );
                found.unwrap().data
            });
            assert!(matches!(blocks, Data::Evidence(..)) && matches!(whole, Data::Sample(_)));
            assert_eq!((blocks.rows(), whole.rows()), (14, 14));
            assert!((blocks.total_weight() - family_rows).abs() < TOLERANCE);
            let prior = Conjugate::new(Exponential, &[0.7], 2.0).unwrap();
            let [(one, a), (other, b)] =
                [&blocks, &whole].map(|data| data.observed_by(&prior).unwrap());
            assert!((a - b).abs() < TOLERANCE, "{a} {b}");
            let [one, other] = [one, other].map(|found| found.mean_statistic().unwrap()[0]);
            assert!((one - other).abs() < TOLERANCE, "{one} {other}");
        }
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
