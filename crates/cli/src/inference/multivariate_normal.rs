//! The multivariate normal family: several columns of numbers and a covariance in, a report out.
//!
//! Events are conditions on linear combinations of the coordinates, joined by `and` and `or`: a
//! union of conjunctions. The image of the posterior under the combinations of a conjunction is
//! normal, the conjunction a box; the possibility of a union is the largest of its parts.
//!
//! With `--valid` an event about `k` independent combinations speaks of a mean in `ℝᵏ`: twice minus
//! the log of its relative likelihood is `χ²` with `k` degrees of freedom, whatever the mean is.

use std::path::Path;

use faer::Mat;
use possibility::event::Region;
use possibility::family::conjugate::{Conjugate, MultivariateNormal, NormalNoise, Sample};
use possibility::summary::{Coordinate, Summary};
use possibility::valid::Pivot;
use possibility::{Credence, Interval, Measure, Mode, Normal, RealSet};
use serde_json::json;

use super::report::{Labels, Report};
use super::saved::{self, Saved};
use super::{
    Data, Events, Known, Observations, Questions, Unmeasured, infer, option_error, parameter_name,
    parse_events, scalar, timed,
};
use crate::csv::{FieldError, Table};
use crate::event::{Atom, Event, Variables};
use crate::user_error::UserError;

/// More boxes than this make no event that a person typed.
const MAX_BOXES: usize = 1 << 12;

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
                    let message = crate::user_error::unknown("column", name, known);
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
    let names = observations
        .labels
        .as_ref()
        .map_or(&[][..], |labels| &labels.all);
    let events = parse(names, questions)?;
    let mut report = infer(
        prior,
        observations,
        questions,
        events,
        |posterior, summary, event| {
            let mode = posterior.mode(questions.parameter);
            let (Mode::Point(mode), Some(precision)) = (mode, &summary.precision) else {
                return Err(Unmeasured::Event("nothing is known".to_owned()));
            };
            let normal = Normal::from_precision(mode, precision.clone())?;
            let plain = measure(&normal, event).map_err(Unmeasured::Event)?;
            if !questions.valid {
                return Ok(plain.into());
            }
            let dimension = independent_forms(&normal, event).map_err(Unmeasured::Event)?;
            Ok(Pivot::ChiSquared { dimension }.credence(plain).into())
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
    let covariance = family.covariance();
    let means = summary.mean_statistic.iter().enumerate();
    means
        .map(|(i, &mean)| {
            let noise = NormalNoise::new(covariance[(i, i)])?;
            scalar::valid(noise, mean, summary.weight, &summary.alphas)
        })
        .collect()
}

/// How many of the linear forms in an event are independent of each other; at least 1.
fn independent_forms(normal: &Normal, event: &Event) -> Result<usize, String> {
    let mut forms: Vec<Vec<(usize, f64)>> = Vec::new();
    for negated in [false, true] {
        let parts = event.disjuncts(negated, MAX_BOXES).ok_or_else(too_many)?;
        for atom in parts.into_iter().flatten() {
            if !forms.contains(&atom.linear) {
                forms.push(atom.linear);
            }
        }
    }
    let mut kept: Vec<&[(usize, f64)]> = Vec::new();
    for form in &forms {
        kept.push(form);
        if image(normal, kept.iter().copied()).is_err() {
            kept.pop();
        }
    }
    Ok(kept.len().max(1))
}

/// The image of the normal under linear forms.
fn image<'a>(
    normal: &Normal,
    forms: impl ExactSizeIterator<Item = &'a [(usize, f64)]>,
) -> possibility::Result<Normal> {
    let count = forms.len();
    let mut matrix = Mat::zeros(count, normal.dimension());
    for (row, form) in forms.enumerate() {
        for &(column, coefficient) in form {
            matrix[(row, column)] = coefficient;
        }
    }
    normal.affine_image(matrix.as_ref(), &vec![0.0; count])
}

/// Possibility and necessity of an event under a normal.
fn measure(normal: &Normal, event: &Event) -> Result<Credence, String> {
    let supremum = |negated: bool| {
        let parts = event.disjuncts(negated, MAX_BOXES).ok_or_else(too_many)?;
        let mut best = f64::NEG_INFINITY;
        for atoms in &parts {
            best = best.max(log_supremum(normal, atoms)?);
        }
        Ok::<_, String>(best)
    };
    Ok(Credence::from_logs(supremum(false)?, supremum(true)?))
}

fn too_many() -> String {
    format!("the event has more than {MAX_BOXES} parts")
}

/// `log sup` over the points where every atom holds.
fn log_supremum(normal: &Normal, atoms: &[Atom]) -> Result<f64, String> {
    if atoms.iter().any(|atom| atom.set.is_empty()) {
        return Ok(f64::NEG_INFINITY);
    }
    let joint = image(normal, atoms.iter().map(|atom| &atom.linear[..])).map_err(|_| {
        "the linear combinations depend on each other; only independent ones may be joined"
            .to_owned()
    })?;
    let sets: Vec<&RealSet> = atoms.iter().map(|atom| &atom.set).collect();
    let boxes: usize = sets.iter().map(|set| set.parts().len()).product();
    if boxes > MAX_BOXES {
        return Err(too_many());
    }
    let mut best = f64::NEG_INFINITY;
    for sides in products(&sets) {
        let log = joint.log_possibility_of(&Region::Box(sides));
        best = best.max(log.map_err(|error| error.to_string())?);
    }
    Ok(best)
}

/// Every choice of one interval from each set.
fn products(sets: &[&RealSet]) -> Vec<Vec<Interval>> {
    sets.iter().fold(vec![vec![]], |chosen, set| {
        chosen
            .iter()
            .flat_map(|sides: &Vec<Interval>| {
                set.parts().iter().map(move |part| {
                    let mut sides = sides.clone();
                    sides.push(*part);
                    sides
                })
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(text: &str) -> Result<Credence, String> {
        // variances 1 and 4, correlation 0, modes 1 and -2
        let normal = Normal::diagonal([1.0, -2.0], &[1.0, 0.25]).unwrap();
        let names = ["a".to_owned(), "b".to_owned()];
        let event = Event::parse(text, &Variables::vector(&["mean"], &names)).unwrap();
        measure(&normal, &event)
    }

    #[test]
    fn events_have_the_possibility_of_their_nearest_point() {
        let half = |squared: f64| (-0.5 * squared).exp();
        let cases = [
            ("a > 0", 1.0, 1.0 - half(1.0)),
            ("a > 3", half(4.0), 0.0),
            ("mean[b] >= 0", half(1.0), 0.0),
            // both at distance 1 and 1
            ("a > 2 and b > 0", half(2.0), 0.0),
            ("a < 2 and b < 0", 1.0, 1.0 - half(1.0)),
            ("a > 2 or b > 2", half(1.0), 0.0),
            ("not (a > 2 or b > 2)", 1.0, 1.0 - half(1.0)),
            // a + b has mode -1 and variance 5
            ("a + b > 4", half(5.0), 0.0),
            ("a + b < 4", 1.0, 1.0 - half(5.0)),
            ("2*a - b = 4", 1.0, 0.0),
            // -1 from a + b = -1 and 3 from a - b = 3: both modes
            ("a + b <= -1 and a - b <= 3", 1.0, 0.0),
            ("a < 0 or a > 3", half(1.0), 0.0),
            ("(a < 0 or a > 3) and b = -2", half(1.0), 0.0),
            ("a > 1 and a < 0", 0.0, 0.0),
            // mixed: the nearer of two corners, and the nearest way out
            ("a > 2 and (b > 0 or b < -6)", half(2.0), 0.0),
            ("a > 2 and b > 0 or a + b > 4", half(2.0), 0.0),
            ("a > 0 and (b < 0 or a + b < 4)", 1.0, 1.0 - half(1.0)),
            ("(a > 2 or b > 0) and (a < 0 or b < -4)", half(2.0), 0.0),
            ("not (a > 2 and (b > 0 or b < -6))", 1.0, 1.0 - half(2.0)),
        ];
        for (text, possibility, necessity) in cases {
            let Credence {
                possibility: found,
                necessity: sure,
            } = ask(text).unwrap();
            assert!(
                (found - possibility).abs() < 1e-12,
                "{text}: {found} {possibility}"
            );
            assert!(
                (sure - necessity).abs() < 1e-12,
                "{text}: {sure} {necessity}"
            );
        }
    }

    #[test]
    fn events_beyond_the_rules_are_refused() {
        let many = ["(a < 0 or b < 0 or a > 9 or b > 9)"; 7].join(" and ");
        assert!(ask(&many).unwrap_err().contains("more than 4096 parts"));
        assert!(
            ask("a > 0 and b > 0 and a + b > 1")
                .unwrap_err()
                .contains("independent")
        );
    }
}
