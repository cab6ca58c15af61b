//! The multivariate normal family: several columns of numbers and a covariance in, a report out.
//! Events are answered by [`questions::means`].

use std::path::Path;

use faer::Mat;
use possibility::family::conjugate::{Conjugate, MultivariateNormal, Sample};
use possibility::summary::{Coordinate, Summary};
use questions::means;
use serde_json::json;

use super::report::{Labels, Report};
use super::saved::{self, Saved};
use super::{
    Data, Events, Known, Observations, Questions, Unmeasured, infer, option_error, parameter_name,
    parse_events, timed,
};
use questions::event::Variables;
use questions::user_error::UserError;
use tabular::csv::{FieldError, Table};

/// A covariance file: a header with the column names and one row for each of them, in the same
/// order; or the rows alone, in the order of the columns that are asked for.
pub struct Covariance {
    name: String,
    /// `None` without a header.
    columns: Option<Vec<String>>,
    entries: Vec<Vec<f64>>,
}

impl Covariance {
    /// Reads the file.
    ///
    /// # Errors
    /// The file is malformed or the matrix is not square.
    pub fn read(path: &Path) -> Result<Self, UserError> {
        let mut table = Table::open_matrix(path)?;
        let unnamed = table.is_unnamed();
        let columns = table.header().to_vec();
        let mut entries = Vec::new();
        table.for_each(|row| {
            let numbers = (0..columns.len()).map(|column| row.number(column));
            entries.push(numbers.collect::<Result<Vec<f64>, _>>()?);
            Ok(())
        })?;
        let name = table.name().to_owned();
        if entries.len() != columns.len() {
            return Err(UserError::new(format!(
                "{name}: a covariance has as many rows as columns, found {} and {}",
                entries.len(),
                columns.len()
            )));
        }
        Ok(Self {
            name,
            columns: (!unnamed).then_some(columns),
            entries,
        })
    }

    /// Names in the header.
    ///
    /// # Errors
    /// There is no header.
    pub fn columns(&self) -> Result<&[String], UserError> {
        self.columns.as_deref().ok_or_else(|| {
            UserError::new(format!(
                "{}: there is no header; name the columns with --columns",
                self.name
            ))
        })
    }

    /// The family for the named columns.
    ///
    /// # Errors
    /// A name is not in the header, or the matrix is no covariance.
    fn family(&self, names: &[String]) -> Result<MultivariateNormal, UserError> {
        let places = match &self.columns {
            Some(columns) => self.places(columns, names)?,
            None if names.len() == self.entries.len() => (0..names.len()).collect(),
            None => {
                return Err(UserError::new(format!(
                    "{}: the covariance has {} columns, but {} are asked for",
                    self.name,
                    self.entries.len(),
                    names.len()
                )));
            }
        };
        let size = places.len();
        let matrix = Mat::from_fn(size, size, |i, j| self.entries[places[i]][places[j]]);
        MultivariateNormal::new(matrix)
            .map_err(|error| UserError::new(format!("{}: {error}", self.name)))
    }

    /// Where the names stand in the header.
    fn places(&self, columns: &[String], names: &[String]) -> Result<Vec<usize>, UserError> {
        names
            .iter()
            .map(|name| {
                let place = columns.iter().position(|column| column == name);
                place.ok_or_else(|| {
                    let known = columns.iter().map(String::as_str);
                    let message = questions::user_error::unknown("column", name, known);
                    UserError::new(format!("{}: {message}", self.name))
                })
            })
            .collect()
    }
}

/// What is read: columns of observations, and how often each row counts.
pub struct Columns<'a> {
    /// Names of the observations.
    pub names: &'a [String],
    /// Position of the weights.
    pub weight: Option<usize>,
}

/// Reads the columns and reports the posterior.
///
/// # Errors
/// A mistake in a file, the prior or an event.
pub fn report(
    table: &mut Table,
    columns: &Columns<'_>,
    covariance: &Covariance,
    known: &Known<'_>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let &Columns { names, weight } = columns;
    let columns = table.columns(names)?;
    let family = covariance.family(names)?;
    let matrix = family.covariance();
    let rows = matrix.row_iter().map(|row| row.iter().copied().collect());
    let settings = json!({ "columns": names, "covariance": rows.collect::<Vec<Vec<f64>>>() });
    let prior = known.build(&family, &settings)?;
    parse(names, questions)?;
    let mut sample = Sample::new(family);
    let (result, reading) = timed(|| {
        let mut values = vec![0.0; columns.len()];
        table.for_each(|row| {
            for (value, &column) in values.iter_mut().zip(&columns) {
                *value = row.number(column)?;
            }
            let weight = weight.map_or(Ok(1.0), |column| row.weight(column))?;
            sample
                .push_weighted(&values, weight)
                .map_err(|error| FieldError::new(columns[0], error.to_string()))
        })
    });
    result?;
    let observations = Observations {
        origin: format!("{}, columns {}", table.name(), names.join(", ")),
        data: Data::Sample(sample),
        settings,
        labels: Some(labels(names)),
        is_weighted: weight.is_some(),
        dropped: table.dropped(),
        reading,
    };
    conclude(&prior, observations, questions)
}

fn labels(names: &[String]) -> Labels {
    Labels {
        key: "columns",
        one: "column",
        all: names.to_vec(),
    }
}

fn parse(names: &[String], questions: &Questions) -> Result<Events, UserError> {
    let name = parameter_name(questions.parameter, "mean");
    parse_events(&questions.events, &Variables::vector(&[name, "x"], names))
}

/// Infers from stored evidence and reports.
///
/// # Errors
/// Numbers in the files that cannot be, or a mistake in an event.
pub fn merge(files: &[Saved], questions: &Questions) -> Result<Report, UserError> {
    let names = files[0].strings("columns")?;
    let entries = files[0].matrix("covariance")?;
    let covariance = Covariance {
        name: files[0].file.clone(),
        columns: Some(names.clone()),
        entries,
    };
    let family = covariance.family(&names)?;
    let (prior, observations) = saved::merge(&family, files, Some(labels(&names)))?;
    conclude(&prior, observations, questions)
}

fn conclude(
    prior: &Conjugate<MultivariateNormal>,
    observations: Observations<MultivariateNormal>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let events = parse(observations.names(), questions)?;
    let mut report = infer(
        prior,
        observations,
        questions,
        events,
        |posterior, _, event| {
            let Some(normal) = posterior.normal(questions.parameter)? else {
                return Err(Unmeasured::Event("nothing is known".to_owned()));
            };
            let credence = means::credence(&normal, event, questions.valid);
            Ok(credence.map_err(Unmeasured::Event)?.into())
        },
    )?;
    if questions.valid {
        let coordinates = valid_coordinates(&report.summary, prior.family());
        report.summary.coordinates =
            coordinates.map_err(|error| option_error("--valid", &error))?;
    }
    Ok(report)
}

/// Each coordinate is a mean of known variance.
fn valid_coordinates(
    summary: &Summary,
    family: &MultivariateNormal,
) -> possibility::Result<Vec<Coordinate>> {
    let means = summary.mean_statistic.iter().enumerate();
    means
        .map(|(i, &mean)| {
            let one = means::valid(family, i, mean, summary.weight)?;
            Coordinate::new(one, &summary.alphas)
        })
        .collect()
}
