//! The options that the families of `maxitive infer` share: what is read, what is known beforehand,
//! what is asked, and what is shown.

use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use plot::{Figure, Format};
use possibility::coverage::cut_of_coverage;
use possibility::prelude::*;
use possibility::regression::{Dispersion, Response};
use serde_json::Value;

use crate::csv::{Missing, Reading, Table, split_names};
use crate::files::write_atomically;
use crate::text::printable_lines;
use crate::user_error::UserError;
use inference::curves::{self, Curves};
use inference::report::Report;
use inference::saved::Saved;
use inference::{Chosen, Prior, Questions, Timings, groups, picture, regression};
use questions::simulation::Simulations;

/// Levels of the α-cuts that are shown when none is asked for.
const ALPHAS: [f64; 3] = [0.05, 0.1, 0.5];

/// Names in a comma list.
#[derive(Debug, Clone)]
pub struct Names(pub Vec<String>);

/// Reads a comma list of names.
///
/// # Errors
/// A malformed quote.
pub fn names(text: &str) -> Result<Names, String> {
    split_names(text).map(Names)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MissingArg {
    /// Refuse the file
    Refuse,
    /// Leave the row out; the answer says how many were
    Drop,
}

/// How a file is read.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// What to do with a row that lacks a value in a column in use
    #[arg(long, value_enum, default_value = "refuse")]
    missing: MissingArg,
    /// What separates the fields: , ; | : tab or space
    #[arg(long, value_name = "CHAR", default_value = ",", value_parser = delimiter)]
    delimiter: u8,
    /// Column of weights or counts: a row counts that often
    #[arg(long, value_name = "NAME")]
    pub weight: Option<String>,
}

impl ReadArgs {
    /// How the file is read.
    pub fn reading(&self) -> Reading {
        Reading {
            delimiter: self.delimiter,
            missing: match self.missing {
                MissingArg::Refuse => Missing::Refuse,
                MissingArg::Drop => Missing::Drop,
            },
        }
    }
}

/// A column of a file.
#[derive(Debug, Args)]
pub struct ColumnArgs {
    /// CSV file with a header or Parquet file, or - for standard input
    file: PathBuf,
    /// Column of the observations; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
    #[command(flatten)]
    pub read: ReadArgs,
}

impl ColumnArgs {
    /// The table and the positions of its columns.
    ///
    /// # Errors
    /// A file that cannot be read, or a column that is not in it.
    pub fn open(&self) -> Result<(Table, Chosen), UserError> {
        let table = Table::open(&self.file, self.read.reading())?;
        let weight = self.read.weight.as_ref().map(|name| table.column(name));
        let weight = weight.transpose()?;
        let column = match (&self.column, weight) {
            (Some(name), _) => table.column(name)?,
            // the one that is not the weight
            (None, Some(weight)) if table.header().len() == 2 => 1 - weight,
            (None, _) => table.only_column("--column")?,
        };
        if weight == Some(column) {
            let name = &table.header()[column];
            return Err(UserError::new(format!(
                "--weight: \"{name}\" is the column of the observations"
            )));
        }
        Ok((table, Chosen { column, weight }))
    }
}

/// A conjugate prior.
#[derive(Debug, Args)]
pub struct PriorArgs {
    /// Mean statistic of the prior (comma separated for a vector); without it the prior is
    /// uninformative
    #[arg(
        long,
        value_name = "V",
        value_delimiter = ',',
        value_parser = finite,
        allow_hyphen_values = true,
        requires = "prior_weight"
    )]
    prior_mean: Option<Vec<f64>>,
    /// Number of observations that the prior is worth
    #[arg(long, value_name = "NU", value_parser = not_negative, allow_hyphen_values = true, requires = "prior_mean")]
    prior_weight: Option<f64>,
    /// A posterior that was saved before, of the same family, is the prior
    #[arg(long, value_name = "FILE", conflicts_with = "prior_mean")]
    pub prior_from: Option<PathBuf>,
}

impl PriorArgs {
    /// The saved posterior, where one is named.
    ///
    /// # Errors
    /// The file holds none.
    pub fn saved(&self) -> Result<Option<Saved>, UserError> {
        self.prior_from.as_deref().map(Saved::read).transpose()
    }

    /// The prior, where one is given.
    pub fn prior(&self) -> Option<Prior> {
        let (mean, weight) = (self.prior_mean.clone()?, self.prior_weight?);
        Some(Prior { mean, weight })
    }
}

/// The parameter that cuts and events speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ParameterArg {
    /// p, rate or mean
    Mean,
    /// theta
    Natural,
}

/// What is asked.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Level of an alpha-cut, in (0, 1]; may be repeated [default: 0.05, 0.1, 0.5]
    #[arg(long, value_name = "A", value_parser = level, allow_hyphen_values = true)]
    alpha: Vec<f64>,
    /// Show the alpha-cut that covers the truth in this share of large samples, in (0, 1); may be
    /// repeated
    #[arg(
        long = "coverage",
        value_name = "C",
        value_parser = level_of_coverage,
        allow_hyphen_values = true
    )]
    coverage_alpha: Vec<f64>,
    /// Event to measure, like "x > 0.5"; may be repeated
    #[arg(long, value_name = "EVENT", allow_hyphen_values = true)]
    event: Vec<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

impl AskArgs {
    /// The questions about a parameter.
    pub fn questions(&self, parameter: ParameterArg) -> Questions {
        Questions {
            alphas: if self.alpha.is_empty() && self.coverage_alpha.is_empty() {
                ALPHAS.to_vec()
            } else {
                [&self.alpha[..], &self.coverage_alpha].concat()
            },
            events: self.event.clone(),
            parameter: match parameter {
                ParameterArg::Mean => Parameter::Mean,
                ParameterArg::Natural => Parameter::Natural,
            },
            save: false,
            valid: false,
            simulations: Simulations::default(),
        }
    }
}

/// What to show of the posterior, and how.
#[derive(Debug, Args)]
pub struct OutputArgs {
    #[command(flatten)]
    pub ask: AskArgs,
    /// Draw the posterior into this file, .svg, .pdf or .png
    #[arg(long, value_name = "FILE", value_parser = picture_path)]
    plot: Option<PathBuf>,
    /// Draw modes and alpha-cuts of all coefficients, classes or groups below each other into this
    /// file, .svg, .pdf or .png
    #[arg(long, value_name = "FILE", value_parser = picture_path)]
    forest: Option<PathBuf>,
    /// Write the possibility functions into this CSV file, with the columns name, parameter and
    /// possibility
    #[arg(long, value_name = "FILE", value_parser = csv_path)]
    export: Option<PathBuf>,
    /// Print the seconds spent on reading and on fitting to standard error
    #[arg(long)]
    timings: bool,
}

impl OutputArgs {
    /// Writes the files, then the report: whoever sees the report has the files.
    ///
    /// # Errors
    /// Something that cannot be drawn or written.
    pub fn finish(&self, report: &impl Presented) -> anyhow::Result<ExitCode> {
        self.finish_with(report, None)
    }

    /// The same with the bytes of one more file.
    ///
    /// # Errors
    /// Something that cannot be drawn or written.
    pub fn finish_with(
        &self,
        report: &impl Presented,
        file: Option<(&Path, Vec<u8>)>,
    ) -> anyhow::Result<ExitCode> {
        // everything is made before anything is written
        let curves = (self.plot.is_some() || self.export.is_some()).then(|| report.curves());
        let curves = curves.transpose()?;
        let mut files: Vec<(&Path, Vec<u8>)> = file.into_iter().collect();
        if let Some(curves) = &curves {
            if let Some(path) = &self.plot {
                files.push((path, picture::curves(curves)?.bytes(path)?));
            }
            if let Some(path) = &self.export {
                files.push((path, curves.csv()?));
            }
        }
        if let Some(path) = &self.forest {
            files.push((path, report.forest()?.bytes(path)?));
        }
        for (path, bytes) in files {
            write_atomically(path, &bytes)?;
        }
        let mut output = if self.ask.json {
            serde_json::to_string_pretty(&report.json())? + "\n"
        } else {
            printable_lines(&report.text()).into_owned()
        };
        if !output.ends_with('\n') {
            output.push('\n');
        }
        io::stdout().write_all(output.as_bytes())?;
        if self.timings {
            let Timings { reading, fitting } = report.timings();
            writeln!(
                io::stderr(),
                "reading {reading:.3} s, fitting {fitting:.3} s"
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Where to keep the posterior.
#[derive(Debug, Args)]
pub struct SaveArgs {
    /// Keep the posterior in this file, for --prior-from and `infer merge`
    #[arg(long, value_name = "FILE", value_parser = output_path)]
    pub save: Option<PathBuf>,
}

/// The parameter that is asked about, and where answers and posterior go.
#[derive(Debug, Args)]
pub struct AnswerArgs {
    /// The parameter that alpha-cuts and events speak of
    #[arg(long, value_enum, default_value = "mean")]
    pub parameter: ParameterArg,
    #[command(flatten)]
    pub save: SaveArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

impl AnswerArgs {
    /// What is asked of the posterior.
    pub fn questions(&self) -> Questions {
        Questions {
            save: self.save.save.is_some(),
            ..self.output.ask.questions(self.parameter)
        }
    }

    /// Writes the report of a posterior, and the posterior itself where that is asked for.
    ///
    /// # Errors
    /// Something that cannot be drawn or written.
    pub fn finish(&self, report: &Report) -> anyhow::Result<ExitCode> {
        let path = self.save.save.as_deref();
        let file = path.zip(report.saved.as_ref());
        self.output
            .finish_with(report, file.map(|(path, saved)| (path, saved.bytes())))
    }
}

/// A report, in every form in which it can be shown.
pub trait Presented {
    /// For programs.
    fn json(&self) -> Value;
    /// For people.
    fn text(&self) -> String;
    /// The possibility functions.
    ///
    /// # Errors
    /// One that cannot be found.
    fn curves(&self) -> anyhow::Result<Curves>;
    /// Modes and α-cuts below each other.
    ///
    /// # Errors
    /// Too many of them.
    fn forest(&self) -> anyhow::Result<Figure>;
    /// Seconds.
    fn timings(&self) -> Timings;
}

/// The forms of a report are functions of the report, of [`curves`] and of [`picture`].
macro_rules! presented {
    ($report:ty, $curves:path, $forest:path) => {
        impl Presented for $report {
            fn json(&self) -> Value {
                self.json()
            }
            fn text(&self) -> String {
                self.text()
            }
            fn curves(&self) -> anyhow::Result<Curves> {
                $curves(self)
            }
            fn forest(&self) -> anyhow::Result<Figure> {
                $forest(self)
            }
            fn timings(&self) -> Timings {
                self.timings
            }
        }
    };
}
presented!(Report, curves::posterior, picture::posterior_forest);
presented!(
    regression::Report,
    curves::of_regression,
    picture::regression_forest
);
presented!(groups::Report, curves::of_groups, picture::groups_forest);

/// A regression: its data and its prior.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// CSV file with a header or Parquet file, or - for standard input
    pub file: PathBuf,
    /// Column of the target
    #[arg(long, value_name = "NAME")]
    target: String,
    /// Columns of the covariates, comma separated, a name with a comma in double quotes
    /// [default: all but the target and the weight]
    #[arg(long, value_name = "A,B,...", value_parser = names)]
    covariates: Option<Names>,
    /// Covariates that are words or codes, comma separated: each level but the reference gets a
    /// coefficient, named by the column with the level in brackets
    #[arg(long, value_name = "A,B,...", value_parser = names)]
    categorical: Option<Names>,
    /// Reference level of a categorical covariate; may be repeated [default: the first, sorted]
    #[arg(long, value_name = "COLUMN=LEVEL", value_parser = reference, requires = "categorical")]
    reference: Vec<(String, String)>,
    #[command(flatten)]
    pub read: ReadArgs,
    /// Precision of the normal prior at 0 of every covariate's coefficient; 0 says nothing
    /// [default: 1 for logistic without --valid, else 0]
    #[arg(long, value_name = "D", value_parser = not_negative, allow_hyphen_values = true)]
    prior_precision: Option<f64>,
    /// Precision of the normal prior at 0 of the constant term; 0 says nothing
    #[arg(
        long,
        value_name = "D",
        default_value_t = 0.0,
        value_parser = not_negative,
        allow_hyphen_values = true,
        conflicts_with = "no_intercept"
    )]
    intercept_precision: f64,
    /// Let the priors be those of covariates of mean 0 and standard deviation 1; coefficients are
    /// reported as ever
    #[arg(long)]
    standardize: bool,
    /// Leave the constant term out
    #[arg(long)]
    no_intercept: bool,
    /// Number of threads [default: what the system offers]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

impl ModelArgs {
    /// The model of a family; `precision` is that of the prior where none is given.
    pub fn model(
        &self,
        family: &'static str,
        response: Response,
        dispersion: Dispersion,
        precision: f64,
    ) -> regression::Model {
        let list = |names: &Option<Names>| names.as_ref().map(|names| names.0.clone());
        regression::Model {
            family,
            response,
            dispersion,
            target: self.target.clone(),
            weight: self.read.weight.clone(),
            covariates: list(&self.covariates),
            categorical: list(&self.categorical).unwrap_or_default(),
            references: self.reference.clone(),
            prior_precision: self.prior_precision.unwrap_or(precision),
            intercept: (!self.no_intercept).then_some("intercept"),
            intercept_mode: 0.0,
            intercept_precision: self.intercept_precision,
            standardize: self.standardize,
            threads: self.threads,
        }
    }
}

fn reference(text: &str) -> Result<(String, String), String> {
    let (column, level) = text
        .split_once('=')
        .ok_or("COLUMN=LEVEL is expected".to_owned())?;
    Ok((column.trim().to_owned(), level.trim().to_owned()))
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\t" | "\\t" => Ok(b'\t'),
        "space" | " " => Ok(b' '),
        "," | ";" | "|" | ":" => Ok(text.as_bytes()[0]),
        _ => Err("not one of , ; | : tab space".to_owned()),
    }
}

/// Reads a finite number.
///
/// # Errors
/// Anything else.
pub fn finite(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("not a finite number".to_owned()),
    }
}

fn not_negative(text: &str) -> Result<f64, String> {
    match finite(text)? {
        value if value >= 0.0 => Ok(value),
        _ => Err("not in [0, inf)".to_owned()),
    }
}

/// Reads a positive number.
///
/// # Errors
/// Anything else.
pub fn positive(text: &str) -> Result<f64, String> {
    match finite(text)? {
        value if value > 0.0 => Ok(value),
        _ => Err("not in (0, inf)".to_owned()),
    }
}

/// Reads a number of simulations.
///
/// # Errors
/// Anything else.
pub fn simulations(text: &str) -> Result<usize, String> {
    const MOST: usize = 1_000_000;
    match text.trim().parse::<usize>() {
        Ok(count) if (1..=MOST).contains(&count) => Ok(count),
        _ => Err(format!("not a whole number from 1 to {MOST}")),
    }
}

/// Reads a seed.
///
/// # Errors
/// Anything else.
pub fn seed(text: &str) -> Result<u64, String> {
    let seed = text.trim().parse::<u64>();
    seed.map_err(|_| format!("not a whole number from 0 to {}", u64::MAX))
}

fn level(text: &str) -> Result<f64, String> {
    match finite(text)? {
        value if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err("not in (0, 1]".to_owned()),
    }
}

/// The level of the cut with this asymptotic coverage.
fn level_of_coverage(text: &str) -> Result<f64, String> {
    cut_of_coverage(finite(text)?).map_err(|error| error.to_string())
}

fn picture_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if Format::of(&path).is_err() {
        return Err(Format::EXPECTED.to_owned());
    }
    in_a_folder(path)
}

fn csv_path(text: &str) -> Result<PathBuf, String> {
    let path = output_path(text)?;
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("csv") => Ok(path),
        _ => Err("a table must end in .csv".to_owned()),
    }
}

fn output_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() {
        return Err("is a folder".to_owned());
    }
    in_a_folder(path)
}

fn in_a_folder(path: PathBuf) -> Result<PathBuf, String> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(format!("there is no folder {}", folder.display()))
        }
        _ => Ok(path),
    }
}
