//! The report on a conjugate posterior: mode, precision, α-cuts, events and log consistency.

use possibility::family::conjugate::Parameter;
use serde_json::{Map, Value, json};

use super::{Answer, Profile, Timings};
use crate::text::{READING, TextTable, interval, number, optional, significant};

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
    /// Family, as on the command line.
    pub family: &'static str,
    /// Which data: file and columns.
    pub origin: String,
    /// Number of observations.
    pub n: usize,
    /// Name of the parameter.
    pub parameter_name: &'static str,
    /// The parameter that is shown.
    pub parameter: Parameter,
    /// `None` for a scalar family.
    pub labels: Option<Labels>,
    /// One sup-marginal for each coordinate of the parameter.
    pub profiles: Vec<Box<dyn Profile>>,
    /// The precision matrix; `None` on the boundary.
    pub precision: Option<Vec<Vec<f64>>>,
    /// `λ`.
    pub lambda: Vec<f64>,
    /// `ν`.
    pub nu: f64,
    /// The levels asked for.
    pub alphas: Vec<f64>,
    /// For each level, the cut of each coordinate.
    pub cuts: Vec<Vec<(f64, f64)>>,
    /// Events.
    pub answers: Vec<Answer>,
    /// `log sup_θ p(x₁…xₙ|θ)π(θ)`.
    pub log_consistency: f64,
    /// Seconds.
    pub timings: Timings,
}

/// For each level, the ends of the cut of each coordinate.
///
/// # Errors
/// A level outside `(0, 1]`.
pub fn cuts(
    profiles: &[Box<dyn Profile>],
    alphas: &[f64],
) -> possibility::Result<Vec<Vec<(f64, f64)>>> {
    let ends = |profile: &dyn Profile, alpha: f64| {
        profile.cut(alpha).map(|cut| (cut.lower(), cut.upper()))
    };
    alphas
        .iter()
        .map(|&alpha| {
            let cuts = profiles.iter().map(|profile| ends(profile.as_ref(), alpha));
            cuts.collect()
        })
        .collect()
}

impl Report {
    /// Labels of the coordinates of the shown parameter.
    pub fn coordinate_names(&self) -> Vec<String> {
        match &self.labels {
            None => vec![self.parameter_name.to_owned()],
            Some(labels) => labels
                .all
                .iter()
                .take(self.profiles.len())
                .map(|label| format!("{}[{label}]", self.parameter_name))
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
        let precision = match (&self.labels, &self.precision) {
            (_, None) => Value::Null,
            (None, Some(matrix)) => number(matrix[0][0]),
            (Some(_), Some(matrix)) => {
                let row = |row: &Vec<f64>| row.iter().copied().map(number).collect::<Value>();
                matrix.iter().map(row).collect()
            }
        };
        let mut report = Map::new();
        report.insert("family".into(), self.family.into());
        report.insert("n".into(), self.n.into());
        report.insert("parameter".into(), self.parameter_name.into());
        if let Some(labels) = &self.labels {
            report.insert(labels.key.into(), labels.all.clone().into());
        }
        let modes = self.profiles.iter().map(|profile| optional(profile.mode()));
        report.insert("mode".into(), shape(modes.collect()));
        report.insert("precision".into(), precision);
        let lambda = self.lambda.iter().copied().map(number);
        report.insert("lambda".into(), shape(lambda.collect()));
        report.insert("nu".into(), number(self.nu));
        let cuts = self.alphas.iter().zip(&self.cuts).map(|(&alpha, cut)| {
            json!({
                "alpha": number(alpha),
                "lower": shape(cut.iter().map(|ends| number(ends.0)).collect()),
                "upper": shape(cut.iter().map(|ends| number(ends.1)).collect()),
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
        let parameter = match self.parameter {
            Parameter::Natural => format!("{} (natural)", self.parameter_name),
            Parameter::Mean => self.parameter_name.to_owned(),
        };
        let plural = if self.n == 1 { "" } else { "s" };
        let mut text = format!(
            "{}: {} observation{plural} from {}\n\n",
            self.family, self.n, self.origin
        );
        let mut table = TextTable::default();
        table.row(["parameter", &parameter]);
        if self.labels.is_none() {
            let profile = &self.profiles[0];
            table.row(["mode", &or_everything(profile.mode())]);
            table.row(["precision", &or_boundary(profile.precision())]);
            table.row(["lambda", &significant(self.lambda[0])]);
        }
        table.row(["nu", &significant(self.nu)]);
        table.row(["log consistency", &significant(self.log_consistency)]);
        text.push_str(&table.render());
        text.push('\n');
        text.push_str(&match &self.labels {
            None => self.scalar_cuts(),
            Some(labels) => self.vector_cuts(labels),
        });
        if !self.answers.is_empty() {
            let mut table = TextTable::new(["event", "possibility", "necessity"]);
            for answer in &self.answers {
                table.row([
                    answer.event.clone(),
                    significant(answer.possibility),
                    significant(answer.necessity),
                ]);
            }
            text.push('\n');
            text.push_str(&table.render());
        }
        text.push('\n');
        text.push_str(READING);
        text.push('\n');
        text
    }

    fn scalar_cuts(&self) -> String {
        let mut table = TextTable::new(["alpha-cut", "lower", "upper"]);
        for (alpha, cut) in self.alphas.iter().zip(&self.cuts) {
            table.row([
                significant(*alpha),
                significant(cut[0].0),
                significant(cut[0].1),
            ]);
        }
        table.render()
    }

    fn vector_cuts(&self, labels: &Labels) -> String {
        let mut header = vec![
            labels.one.to_owned(),
            "mode".to_owned(),
            "precision".to_owned(),
        ];
        header.extend(
            self.alphas
                .iter()
                .map(|alpha| format!("{}-cut", significant(*alpha))),
        );
        let mut table = TextTable::new(header);
        for (i, profile) in self.profiles.iter().enumerate() {
            let mut row = vec![
                labels.all[i].clone(),
                or_everything(profile.mode()),
                or_boundary(profile.precision()),
            ];
            row.extend(self.cuts.iter().map(|cut| interval(cut[i].0, cut[i].1)));
            table.row(row);
        }
        let mut text = table.render();
        text.push_str("(precisions are those of single coordinates; --json has the matrix)\n");
        text
    }
}

fn or_everything(mode: Option<f64>) -> String {
    mode.map_or_else(|| "everything".to_owned(), significant)
}

fn or_boundary(precision: Option<f64>) -> String {
    precision.map_or_else(|| "none (boundary)".to_owned(), significant)
}
