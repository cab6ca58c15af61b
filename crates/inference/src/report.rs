//! The report on a conjugate posterior: mode, precision, α-cuts, events and log consistency.

use possibility::family::conjugate::Parameter;
use possibility::summary::{Coordinate, Summary};
use possibility::{Interval, Univariate};
use serde_json::{Map, Value, json};

use super::saved::Saved;
use super::{Answer, Timings, curves, parameter_name};
use questions::simulation::Simulated;
use questions::text::{
    TextTable, interval, number, optional, reading_of, significant, significant_on,
};

/// What the coordinates of a vector are called.
#[derive(Debug, Clone)]
pub struct Labels {
    /// Key in the JSON report: `classes` or `columns`.
    pub key: &'static str,
    /// What one of them is: `class` or `column`.
    pub one: &'static str,
    /// All labels, also of a coordinate that the shown parameter does not have.
    pub all: Vec<String>,
}

/// Everything about a conjugate posterior.
pub struct Report {
    /// Which data: file and columns.
    pub origin: String,
    /// Number of observations.
    pub n: usize,
    /// How often they count together, where a column says so.
    pub total_weight: Option<f64>,
    /// Rows left out for a missing value, where that is allowed.
    pub dropped: Option<usize>,
    /// Whether the possibilities are valid ones.
    pub valid: bool,
    /// What was simulated for events, where no law is known.
    pub simulated: Option<Simulated>,
    /// What is to be stored, where that is asked for.
    pub saved: Option<Saved>,
    /// `None` for a scalar family.
    pub labels: Option<Labels>,
    /// Mode, precision and α-cuts.
    pub summary: Summary,
    /// Events.
    pub answers: Vec<Answer>,
    /// `log sup_θ p(x₁…xₙ|θ)π(θ)`.
    pub log_consistency: f64,
    /// Seconds.
    pub timings: Timings,
}

impl Report {
    fn parameter_name(&self) -> &'static str {
        parameter_name(self.summary.parameter, self.summary.mean_name)
    }

    /// Title of a picture; its cuts are exact, only events may be simulated.
    pub fn title(&self) -> String {
        let label = self
            .simulated
            .as_ref()
            .map_or("", |_| "; events after ± are approximate");
        format!("{} posterior{label}", self.summary.family)
    }

    /// Labels of the coordinates of the shown parameter.
    pub fn coordinate_names(&self) -> Vec<String> {
        match &self.labels {
            None => vec![self.parameter_name().to_owned()],
            Some(labels) => labels
                .all
                .iter()
                .take(self.summary.coordinates.len())
                .map(|label| format!("{}[{label}]", self.parameter_name()))
                .collect(),
        }
    }

    /// The report for programs.
    pub fn json(&self) -> Value {
        let shape = |values: Vec<Value>| match (&self.labels, <[Value; 1]>::try_from(values)) {
            (None, Ok([value])) => value,
            (_, Ok([value])) => json!([value]),
            (_, Err(values)) => Value::from(values),
        };
        let summary = &self.summary;
        let precision = match (&self.labels, &summary.precision) {
            (_, None) => Value::Null,
            (None, Some(matrix)) => number(matrix[(0, 0)]),
            (Some(_), Some(matrix)) => matrix
                .row_iter()
                .map(|row| row.iter().copied().map(number).collect::<Value>())
                .collect(),
        };
        let each = |value: &dyn Fn(&Coordinate) -> Value| {
            shape(summary.coordinates.iter().map(value).collect())
        };
        let mut report = Map::new();
        report.insert("family".into(), summary.family.into());
        report.insert("n".into(), self.n.into());
        if self.valid {
            report.insert("valid".into(), true.into());
        }
        if let Some(simulated) = &self.simulated {
            report.insert("simulation".into(), simulated.json());
        }
        if let Some(weight) = self.total_weight {
            report.insert("total_weight".into(), number(weight));
        }
        if let Some(dropped) = self.dropped {
            report.insert("dropped".into(), dropped.into());
        }
        report.insert("parameter".into(), self.parameter_name().into());
        if let Some(labels) = &self.labels {
            report.insert(labels.key.into(), labels.all.clone().into());
        }
        report.insert("mode".into(), each(&|one| optional(one.function.mode())));
        report.insert("precision".into(), precision);
        let lambda = summary.mean_statistic.iter().copied().map(number);
        report.insert("lambda".into(), shape(lambda.collect()));
        report.insert("nu".into(), number(summary.weight));
        let cuts = summary.alphas.iter().enumerate().map(|(i, &alpha)| {
            json!({
                "alpha": number(alpha),
                "lower": each(&|one| number(one.cuts[i].lower())),
                "upper": each(&|one| number(one.cuts[i].upper())),
            })
        });
        report.insert("alpha_cuts".into(), cuts.collect());
        report.insert(
            "events".into(),
            self.answers.iter().map(Answer::json).collect(),
        );
        report.insert("log_consistency".into(), number(self.log_consistency));
        report.into()
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let summary = &self.summary;
        let parameter = match summary.parameter {
            Parameter::Natural => format!("{} (natural)", self.parameter_name()),
            Parameter::Mean => self.parameter_name().to_owned(),
        };
        let counted = counted(self.n, self.total_weight, self.dropped);
        let mut text = format!(
            "{}: {} from {}{}\n\n",
            summary.family, counted.observations, self.origin, counted.dropped
        );
        let mut table = TextTable::default();
        table.row(["parameter", &parameter]);
        if self.labels.is_none() {
            let function = &*summary.coordinates[0].function;
            table.row(["mode", &or_everything(function)]);
            table.row(["precision", &or_boundary(function)]);
            let lambda = significant_on(summary.mean_statistic[0], self.mean_scale());
            table.row(["lambda", &lambda]);
        }
        table.row(["nu", &significant(summary.weight)]);
        table.row(["log consistency", &significant(self.log_consistency)]);
        text.push_str(&table.render());
        text.push_str(match &self.labels {
            None => {
                "(lambda: mean statistic of data and prior; nu: observations they are worth)\n\n"
            }
            Some(_) => "(nu: observations that data and prior are worth)\n\n",
        });
        text.push_str(&match &self.labels {
            None => self.scalar_cuts(),
            Some(labels) => self.vector_cuts(labels),
        });
        if !self.answers.is_empty() {
            let mut table = TextTable::new(["event", "possibility", "necessity"]);
            for answer in &self.answers {
                let [possibility, necessity] = answer.numbers();
                table.row([answer.event.clone(), possibility, necessity]);
            }
            text.push('\n');
            text.push_str(&table.render());
            if let Some(simulated) = &self.simulated {
                text.push_str(&simulated.text());
            }
        }
        text.push('\n');
        text.push_str(&reading_of(&summary.alphas, self.valid));
        text.push('\n');
        text
    }

    /// How far the mean parameter of a scalar family may lie from its mode.
    fn mean_scale(&self) -> Option<f64> {
        let precision = self.summary.coordinates[0].function.precision();
        match self.summary.parameter {
            Parameter::Mean => curves::scale(precision),
            // the precisions of the two are nu times and nu over the variance of an observation
            Parameter::Natural => precision.map(|natural| natural.sqrt() / self.summary.weight),
        }
    }

    fn scalar_cuts(&self) -> String {
        let mut table = TextTable::new(["alpha-cut", "lower", "upper"]);
        let cuts = &self.summary.coordinates[0].cuts;
        for (alpha, cut) in self.summary.alphas.iter().zip(cuts) {
            table.row([*alpha, cut.lower(), cut.upper()].map(significant));
        }
        table.render()
    }

    fn vector_cuts(&self, labels: &Labels) -> String {
        let mut header = [labels.one, "mode", "precision"]
            .map(str::to_owned)
            .to_vec();
        header.extend(cut_names(&self.summary.alphas));
        let mut table = TextTable::new(header);
        for (label, coordinate) in labels.all.iter().zip(&self.summary.coordinates) {
            let function = &*coordinate.function;
            let mut row = vec![
                label.clone(),
                or_everything(function),
                or_boundary(function),
            ];
            row.extend(coordinate.cuts.iter().map(closed));
            table.row(row);
        }
        let mut text = table.render();
        text.push_str("(precisions are those of single coordinates; --json has the matrix)\n");
        text
    }
}

/// How many rows were read, in words.
pub struct Counted {
    /// "3 observations".
    pub observations: String,
    /// "; 1 row with a missing value dropped", or nothing.
    pub dropped: String,
}

/// Says how many rows were read, how often they count, and how many were left out.
pub fn counted(n: usize, weight: Option<f64>, dropped: Option<usize>) -> Counted {
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    let mut observations = format!("{n} observation{}", plural(n));
    if let Some(weight) = weight {
        observations.push_str(&format!(" of total weight {}", significant(weight)));
    }
    let dropped = dropped.map_or_else(String::new, |dropped| {
        format!(
            "; {dropped} row{} with a missing value dropped",
            plural(dropped)
        )
    });
    Counted {
        observations,
        dropped,
    }
}

/// Headers of columns of α-cuts.
pub fn cut_names(alphas: &[f64]) -> impl Iterator<Item = String> {
    alphas
        .iter()
        .map(|alpha| format!("{}-cut", significant(*alpha)))
}

/// The ends of a cut.
pub fn closed(cut: &Interval) -> String {
    interval(cut.lower(), cut.upper())
}

fn or_everything(function: &dyn Univariate) -> String {
    let scale = curves::scale(function.precision());
    let mode = function.mode().map(|mode| significant_on(mode, scale));
    mode.unwrap_or_else(|| "everything".to_owned())
}

fn or_boundary(function: &dyn Univariate) -> String {
    let precision = function.precision();
    precision.map_or_else(|| "none (boundary)".to_owned(), significant)
}
