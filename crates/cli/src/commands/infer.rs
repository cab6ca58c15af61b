//! `maxitive infer FAMILY data.csv`: the posterior possibility function of a parameter given a
//! file.

use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use possibility::coverage::cut_of_coverage;
use possibility::prelude::*;
use possibility::regression::{Dispersion, Response};
use serde_json::Value;

use crate::csv::Table;
use crate::inference::multivariate_normal::Covariance;
use crate::inference::scalar::{NUMBER, ReadField, TRUTH};
use crate::inference::{
    Prior, Questions, Timings, categorical, multivariate_normal, option_error, picture, regression,
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
  maxitive infer normal heights.csv --column height --coverage 0.95
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
    /// Numbers with normal noise of known or unknown variance. The mean parameter is the mean
    #[command(after_long_help = "\
Examples:
  maxitive infer normal heights.csv --column height --variance 40 --event '170 <= mean <= 175'
  maxitive infer normal heights.csv --column height --event 'mean > 170' --event 'variance < 60'

Without --variance the variance is unknown: the mean has the profile (1 + z^2/n)^(-n/2), close to Student's
curve, and the variance a profile of its own. The prior's weight is then in units of 1/variance.")]
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
  maxitive infer logistic patients.csv --target cured --standardize --event 'dose > 0.1' --json
  maxitive infer logistic patients.csv --target cured --event 'dose > age'

Every number is exact: cuts and events are those of the profile of the posterior, each with a
certificate. Beside them three normal possibility functions at the mode: laplace, an approximation,
and two bounds, upper and lower. Without --event the sign of every coefficient is asked for; an event
on the variable `coefficient` is asked of each of them, and an event may compare coefficients.")]
    Logistic(RegressionArgs),
    /// Regression of a number on covariates, with normal noise of known or unknown variance
    #[command(after_long_help = "\
Examples:
  maxitive infer linear houses.csv --target price --covariates area,age
  maxitive infer linear houses.csv --target price --variance 100 --event 'area > 2*age' --json

Without --variance the variance is unknown and profiled out; it is reported too, and events may ask for
`variance`. The prior's precision is then in units of 1/variance.")]
    Linear(LinearArgs),
    /// Regression of the log rate of a count on covariates
    #[command(after_long_help = "\
Examples:
  maxitive infer poisson-regression calls.csv --target calls --covariates hour,rain
  maxitive infer poisson-regression calls.csv --target calls --event 'rain > 0' --alpha 0.1")]
    PoissonRegression(RegressionArgs),
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
    /// The known variance [default: unknown]
    #[arg(long, value_name = "V", value_parser = positive, allow_hyphen_values = true)]
    variance: Option<f64>,
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
struct RegressionArgs {
    /// CSV file with a header, or - for standard input
    file: PathBuf,
    /// Column of the target
    #[arg(long, value_name = "NAME")]
    target: String,
    /// Columns of the covariates, comma separated [default: all but the target]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    covariates: Option<Vec<String>>,
    /// Precision of the normal prior at 0 of every covariate's coefficient; 0 says nothing
    /// [default: 1 for logistic, else 0]
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
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct LinearArgs {
    /// The known variance [default: unknown]
    #[arg(long, value_name = "V", value_parser = positive, allow_hyphen_values = true)]
    variance: Option<f64>,
    #[command(flatten)]
    common: RegressionArgs,
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

fn positive(text: &str) -> Result<f64, String> {
    match finite(text)? {
        value if value > 0.0 => Ok(value),
        _ => Err("not in (0, inf)".to_owned()),
    }
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
        Family::Normal(args) => match args.variance {
            Some(variance) => {
                let family = NormalNoise::new(variance)
                    .map_err(|error| option_error("--variance", &error))?;
                infer_scalar(&family, NUMBER, &args.common)
            }
            None => infer_normal(&args.common),
        },
        Family::Categorical(args) => infer_categorical(&args),
        Family::MultivariateNormal(args) => infer_multivariate_normal(&args),
        Family::Logistic(args) => {
            infer_regression("logistic", Response::Bernoulli, KNOWN, 1.0, &args)
        }
        Family::PoissonRegression(args) => {
            infer_regression("poisson-regression", Response::Poisson, KNOWN, 0.0, &args)
        }
        Family::Linear(args) => {
            let dispersion = args.variance.map_or(Dispersion::Unknown, Dispersion::Known);
            infer_regression("linear", Response::Normal, dispersion, 0.0, &args.common)
        }
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

/// The dispersion of a response without one.
const KNOWN: Dispersion = Dispersion::Known(1.0);

fn infer_regression(
    family: &'static str,
    response: Response,
    dispersion: Dispersion,
    prior_precision: f64,
    args: &RegressionArgs,
) -> anyhow::Result<ExitCode> {
    let model = regression::Model {
        family,
        response,
        dispersion,
        target: args.target.clone(),
        covariates: args.covariates.as_deref().map(trimmed),
        prior_precision: args.prior_precision.unwrap_or(prior_precision),
        intercept: (!args.no_intercept).then_some("intercept"),
        intercept_mode: 0.0,
        intercept_precision: args.intercept_precision,
        standardize: args.standardize,
        threads: args.threads,
    };
    report_regression(&mut Table::open(&args.file)?, &model, &args.output)
}

/// The mean of numbers of unknown variance: a regression on nothing but a constant.
fn infer_normal(args: &ScalarArgs) -> anyhow::Result<ExitCode> {
    if args.parameter == ParameterArg::Natural {
        let message =
            "--parameter natural: needs --variance, the natural parameter is mean/variance";
        return Err(UserError::new(message).into());
    }
    let (mut table, column) = args.column.open()?;
    let (mean, weight) = match args.prior.prior() {
        Some(prior) if prior.mean.len() == 1 => (prior.mean[0], prior.weight),
        Some(_) => return Err(UserError::new("--prior-mean: one number is expected").into()),
        None => (0.0, 0.0),
    };
    let model = regression::Model {
        family: "normal",
        response: Response::Normal,
        dispersion: Dispersion::Unknown,
        target: table.header()[column].clone(),
        covariates: Some(Vec::new()),
        prior_precision: 0.0,
        intercept: Some("mean"),
        intercept_mode: mean,
        intercept_precision: weight,
        standardize: false,
        threads: None,
    };
    report_regression(&mut table, &model, &args.output)
}

fn report_regression(
    table: &mut Table,
    model: &regression::Model,
    output: &OutputArgs,
) -> anyhow::Result<ExitCode> {
    let questions = output.questions(ParameterArg::Mean);
    let report = regression::report(table, model, &questions)?;
    let figure = || picture::regression(&report);
    let (json, text) = (|| report.json(), || report.text());
    output.finish(json, text, figure, report.timings)
}
