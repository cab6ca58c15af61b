//! `maxitive infer FAMILY data.csv`: the posterior possibility function of a parameter given a
//! file.

use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use possibility::prelude::*;
use serde_json::Value;

use crate::csv::Table;
use crate::inference::multivariate_normal::Covariance;
use crate::inference::scalar::{NUMBER, ReadField, TRUTH};
use crate::inference::{
    Prior, Questions, Timings, categorical, logistic, multivariate_normal, option_error, picture,
    scalar,
};
use crate::plot::{Figure, Format};
use crate::user_error::UserError;

/// Levels of the α-cuts that are shown when none is asked for.
const ALPHAS: [f64; 3] = [0.05, 0.1, 0.5];

/// Infer a parameter from a CSV file.
///
/// The file has a header; lines that start with # are comments; no value may be missing. The result
/// is the posterior possibility function: its mode, its precision, its alpha-cuts (all values of
/// possibility at least alpha), the possibility and necessity of events, and the log consistency of
/// data and prior.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive infer bernoulli trials.csv --column success --event 'p > 0.5'
  maxitive infer poisson calls.csv --column calls --prior-mean 3 --prior-weight 2 --json
  maxitive infer normal heights.csv --column height --variance 40 --plot height.svg
  maxitive infer logistic patients.csv --target cured --covariates age,dose

Events:
  x > 0.5    0.2 <= x <= 0.4    x != 0    x in [1, 2)    x in {1, 2}    not (...)    and    or
  The variable is x or the parameter's own name (p, rate, mean, theta). With several coordinates it is the
  name of a class or column, plain, quoted, or in brackets: red > 0.1, \"dark red\" > 0.1, p[red] > 0.1.")]
pub struct InferArgs {
    #[command(subcommand)]
    family: Family,
}

#[derive(Debug, Subcommand)]
enum Family {
    /// Success or failure: 0/1, false/true, no/yes. The mean parameter is p
    #[command(after_long_help = "\
Examples:
  maxitive infer bernoulli trials.csv --column success --event 'p > 0.5' --alpha 0.05
  maxitive infer bernoulli trials.csv --column success --prior-mean 0.5 --prior-weight 2 --json")]
    Bernoulli(ScalarArgs),
    /// One of several classes, words or numbers. The mean parameter is p, one share for each class
    #[command(after_long_help = "\
Examples:
  maxitive infer categorical balls.csv --column color --event 'p[red] > 0.3'
  maxitive infer categorical balls.csv --column color --classes red,green,blue \\
      --prior-mean 0.4,0.3,0.3 --prior-weight 5

The last class is the reference of the natural parameter, theta[k] = log(p[k] / p[last]). The precision
matrix is that of the free coordinates, all classes but the last.")]
    Categorical(CategoricalArgs),
    /// Counts 0, 1, 2, ... The mean parameter is the rate
    #[command(after_long_help = "\
Examples:
  maxitive infer poisson calls.csv --column calls --event 'rate <= 3' --plot rate.svg")]
    Poisson(ScalarArgs),
    /// Waiting times. The mean parameter is the mean
    #[command(after_long_help = "\
Examples:
  maxitive infer exponential waits.csv --column minutes --event 'mean > 10'")]
    Exponential(ScalarArgs),
    /// Positive numbers of known shape. The mean parameter is the mean
    #[command(after_long_help = "\
Examples:
  maxitive infer gamma rain.csv --column millimeters --shape 2.5 --json")]
    Gamma(GammaArgs),
    /// Numbers with normal noise of known variance. The mean parameter is the mean
    #[command(after_long_help = "\
Examples:
  maxitive infer normal heights.csv --column height --variance 40 --event '170 <= mean <= 175'")]
    Normal(NormalArgs),
    /// Vectors with normal noise of known covariance. The mean parameter is the mean vector
    #[command(after_long_help = "\
Examples:
  maxitive infer multivariate-normal body.csv --columns height,weight --covariance cov.csv \\
      --event 'height > 170 and weight < 80' --event '2*height - weight > 250'

The covariance file has a header with the column names and one row for each of them, in the same order; without
a header its rows and columns are those of --columns.")]
    MultivariateNormal(MultivariateNormalArgs),
    /// Regression of a yes-or-no target on covariates, with a normal prior for the coefficients
    #[command(after_long_help = "\
Examples:
  maxitive infer logistic patients.csv --target cured --covariates age,dose --prior-precision 0.5
  maxitive infer logistic patients.csv --target cured --event 'dose > 0.1' --json

Three normal possibility functions at the mode are reported: Laplace, which has the curvature of the
posterior, and two that bound it for certain, upper and lower. Without --event the sign of every
coefficient is asked for; an event on the variable `coefficient` is asked of each of them.")]
    Logistic(LogisticArgs),
}

/// A column of a file.
#[derive(Debug, Args)]
struct ColumnArgs {
    /// CSV file with a header, or - for standard input
    file: PathBuf,
    /// Column of the observations; may be left out if there is only one
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
}

impl ColumnArgs {
    fn open(&self) -> Result<(Table, usize), UserError> {
        let table = Table::open(&self.file)?;
        let column = match &self.column {
            Some(name) => table.column(name)?,
            None => table.only_column("--column")?,
        };
        Ok((table, column))
    }
}

/// A conjugate prior.
#[derive(Debug, Args)]
struct PriorArgs {
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
}

impl PriorArgs {
    fn prior(&self) -> Option<Prior> {
        let (mean, weight) = (self.prior_mean.clone()?, self.prior_weight?);
        Some(Prior { mean, weight })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ParameterArg {
    /// p, rate or mean
    Mean,
    /// theta
    Natural,
}

/// What to show of the posterior, and how.
#[derive(Debug, Args)]
struct OutputArgs {
    /// Level of an alpha-cut, in (0, 1]; may be repeated [default: 0.05, 0.1, 0.5]
    #[arg(long, value_name = "A", value_parser = level, allow_hyphen_values = true)]
    alpha: Vec<f64>,
    /// Event to measure, like "x > 0.5"; may be repeated
    #[arg(long, value_name = "EVENT", allow_hyphen_values = true)]
    event: Vec<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Draw the posterior into this file, .svg or .png
    #[arg(long, value_name = "FILE", value_parser = picture_path)]
    plot: Option<PathBuf>,
    /// Print the seconds spent on reading and on fitting to standard error
    #[arg(long)]
    timings: bool,
}

impl OutputArgs {
    fn questions(&self, parameter: ParameterArg) -> Questions {
        Questions {
            alphas: if self.alpha.is_empty() {
                ALPHAS.to_vec()
            } else {
                self.alpha.clone()
            },
            events: self.event.clone(),
            parameter: match parameter {
                ParameterArg::Mean => Parameter::Mean,
                ParameterArg::Natural => Parameter::Natural,
            },
        }
    }

    /// Writes the picture, then the report: whoever sees the report has the picture.
    fn finish(
        &self,
        json: impl FnOnce() -> Value,
        text: impl FnOnce() -> String,
        figure: impl FnOnce() -> anyhow::Result<Figure>,
        timings: Timings,
    ) -> anyhow::Result<ExitCode> {
        if let Some(path) = &self.plot {
            figure()?.save(path)?;
        }
        let mut output = if self.json {
            serde_json::to_string_pretty(&json())? + "\n"
        } else {
            text()
        };
        if !output.ends_with('\n') {
            output.push('\n');
        }
        io::stdout().write_all(output.as_bytes())?;
        if self.timings {
            let Timings { reading, fitting } = timings;
            writeln!(
                io::stderr(),
                "reading {reading:.3} s, fitting {fitting:.3} s"
            )?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, Args)]
struct ScalarArgs {
    #[command(flatten)]
    column: ColumnArgs,
    #[command(flatten)]
    prior: PriorArgs,
    /// The parameter that alpha-cuts and events speak of
    #[arg(long, value_enum, default_value = "mean")]
    parameter: ParameterArg,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct CategoricalArgs {
    /// The classes and their order, comma separated [default: those in the column, sorted]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    classes: Option<Vec<String>>,
    #[command(flatten)]
    common: ScalarArgs,
}

#[derive(Debug, Args)]
struct GammaArgs {
    /// The known shape
    #[arg(long, value_name = "K", value_parser = finite, allow_hyphen_values = true)]
    shape: f64,
    #[command(flatten)]
    common: ScalarArgs,
}

#[derive(Debug, Args)]
struct NormalArgs {
    /// The known variance
    #[arg(long, value_name = "V", value_parser = finite, allow_hyphen_values = true)]
    variance: f64,
    #[command(flatten)]
    common: ScalarArgs,
}

#[derive(Debug, Args)]
struct MultivariateNormalArgs {
    /// CSV file with a header, or - for standard input
    file: PathBuf,
    /// Columns of the observations, comma separated [default: those of the covariance]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// CSV file of the known covariance
    #[arg(long, value_name = "FILE")]
    covariance: PathBuf,
    #[command(flatten)]
    prior: PriorArgs,
    /// The parameter that alpha-cuts and events speak of
    #[arg(long, value_enum, default_value = "mean")]
    parameter: ParameterArg,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct LogisticArgs {
    /// CSV file with a header, or - for standard input
    file: PathBuf,
    /// Column of the labels: 0/1, false/true, no/yes
    #[arg(long, value_name = "NAME")]
    target: String,
    /// Columns of the covariates, comma separated [default: all but the target]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    covariates: Option<Vec<String>>,
    /// Precision of the normal prior at 0 of every coefficient
    #[arg(long, value_name = "D", default_value_t = 1.0, value_parser = finite, allow_hyphen_values = true)]
    prior_precision: f64,
    /// Leave the constant term out
    #[arg(long)]
    no_intercept: bool,
    /// Number of threads [default: what the system offers]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    #[command(flatten)]
    output: OutputArgs,
}

fn finite(text: &str) -> Result<f64, String> {
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

fn level(text: &str) -> Result<f64, String> {
    match finite(text)? {
        value if value > 0.0 && value <= 1.0 => Ok(value),
        _ => Err("not in (0, 1]".to_owned()),
    }
}

fn picture_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if Format::of(&path).is_err() {
        return Err("a picture must end in .svg or .png".to_owned());
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(format!("there is no folder {}", folder.display()))
        }
        _ => Ok(path),
    }
}

/// Names in a comma list, without the blanks around them.
fn trimmed(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.trim().to_owned()).collect()
}

/// Runs the command.
///
/// # Errors
/// A mistake in the arguments or the data, or an output that cannot be written.
pub fn execute(args: InferArgs) -> anyhow::Result<ExitCode> {
    match args.family {
        Family::Bernoulli(args) => infer_scalar(&Bernoulli, TRUTH, &args),
        Family::Poisson(args) => infer_scalar(&Poisson, NUMBER, &args),
        Family::Exponential(args) => infer_scalar(&Exponential, NUMBER, &args),
        Family::Gamma(args) => {
            let family = Gamma::new(args.shape).map_err(|error| option_error("--shape", &error))?;
            infer_scalar(&family, NUMBER, &args.common)
        }
        Family::Normal(args) => {
            let family = NormalNoise::new(args.variance)
                .map_err(|error| option_error("--variance", &error))?;
            infer_scalar(&family, NUMBER, &args.common)
        }
        Family::Categorical(args) => infer_categorical(&args),
        Family::MultivariateNormal(args) => infer_multivariate_normal(&args),
        Family::Logistic(args) => infer_logistic(&args),
    }
}

fn infer_scalar<F>(family: &F, read: ReadField, args: &ScalarArgs) -> anyhow::Result<ExitCode>
where
    F: ScalarFamily + Clone + 'static,
{
    let (mut table, column) = args.column.open()?;
    let prior = args.prior.prior();
    let questions = args.output.questions(args.parameter);
    let report = scalar::report(family, &mut table, column, read, prior.as_ref(), &questions)?;
    let figure = || picture::posterior(&report);
    let (json, text) = (|| report.json(), || report.text());
    args.output.finish(json, text, figure, report.timings)
}

fn infer_categorical(args: &CategoricalArgs) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let (mut table, column) = common.column.open()?;
    let prior = common.prior.prior();
    let questions = common.output.questions(common.parameter);
    let classes = args.classes.as_deref().map(trimmed);
    let report = categorical::report(
        &mut table,
        column,
        classes.as_deref(),
        prior.as_ref(),
        &questions,
    )?;
    let figure = || picture::posterior(&report);
    let (json, text) = (|| report.json(), || report.text());
    common.output.finish(json, text, figure, report.timings)
}

fn infer_multivariate_normal(args: &MultivariateNormalArgs) -> anyhow::Result<ExitCode> {
    let covariance = Covariance::read(Path::new(&args.covariance))?;
    let mut table = Table::open(&args.file)?;
    let names = match &args.columns {
        Some(names) => trimmed(names),
        None => covariance.columns()?.to_vec(),
    };
    let prior = args.prior.prior();
    let questions = args.output.questions(args.parameter);
    let report =
        multivariate_normal::report(&mut table, &names, &covariance, prior.as_ref(), &questions)?;
    let figure = || picture::posterior(&report);
    let (json, text) = (|| report.json(), || report.text());
    args.output.finish(json, text, figure, report.timings)
}

fn infer_logistic(args: &LogisticArgs) -> anyhow::Result<ExitCode> {
    let mut table = Table::open(&args.file)?;
    let model = logistic::Model {
        target: args.target.clone(),
        covariates: args.covariates.as_deref().map(trimmed),
        prior_precision: args.prior_precision,
        intercept: !args.no_intercept,
        threads: args.threads,
    };
    let questions = args.output.questions(ParameterArg::Mean);
    let report = logistic::report(&mut table, &model, &questions)?;
    let figure = || picture::logistic(&report);
    let (json, text) = (|| report.json(), || report.text());
    args.output.finish(json, text, figure, report.timings)
}
