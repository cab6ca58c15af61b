//! `maxitive infer FAMILY data.csv`: the posterior possibility function of a parameter given a
//! file.

mod args;
mod merge;
mod predict;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use possibility::regression::{Dispersion, Response};

use self::args::{
    AnswerArgs, ColumnArgs, ModelArgs, Names, OutputArgs, ParameterArg, PriorArgs, ReadArgs,
    finite, names, positive, seed, simulations,
};
use self::merge::MergeArgs;
use self::predict::PredictArgs;
use crate::csv::Table;
use crate::user_error::UserError;
use inference::multivariate_normal::Covariance;
use inference::scalar::Scalar;
use inference::{Known, Questions, categorical, groups, multivariate_normal, regression};
use questions::simulation::Simulations;

/// Infer a parameter from a CSV or Parquet file.
///
/// A CSV file has a header, and lines that start with # are comments; a Parquet file is known by
/// its first bytes or its name. A missing value is refused unless --missing drop says otherwise.
/// The result is the posterior possibility function: its mode, its precision, its alpha-cuts (all
/// values of possibility at least alpha), the possibility and necessity of events, and the log
/// consistency of data and prior.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive infer bernoulli trials.csv --column success --event 'p > 0.5'
  maxitive infer poisson calls.csv --column calls --prior-mean 3 --prior-weight 2 --json
  maxitive infer normal heights.csv --column height --variance 40 --plot height.svg
  maxitive infer normal heights.csv --column height --coverage 0.95
  maxitive infer normal heights.csv --column height --valid --alpha 0.05
  maxitive infer logistic patients.csv --target cured --covariates age,dose
  maxitive infer predict logistic patients.csv --target cured --new ward.csv

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
  maxitive infer bernoulli trials.csv --column success --prior-mean 0.5 --prior-weight 2 --json
  maxitive infer bernoulli trials.csv --column success --by ward --event 'p[a] > p[b]'
  maxitive infer bernoulli trials.csv --column success --valid --alpha 0.05")]
    Bernoulli(ScalarArgs),
    /// One of several classes, words or numbers. The mean parameter is p, one share for each class
    #[command(after_long_help = "\
Examples:
  maxitive infer categorical balls.csv --column color --event 'p[red] > 0.3'
  maxitive infer categorical balls.csv --column color --event 'red > green' --event 'red + green > 0.6'
  maxitive infer categorical balls.csv --column color --classes red,green,blue \\
      --prior-mean 0.4,0.3,0.3 --prior-weight 5
  maxitive infer categorical balls.csv --column color --valid --event 'red > green'

--valid is exact for one class and for a sum of classes. Other linear forms, as red - green, are
simulated at the most possible probabilities of the classes, an approximation, and printed with their
standard errors.

The last class is the reference of the natural parameter, theta[k] = log(p[k] / p[last]). The precision
matrix is that of the free coordinates, all classes but the last.")]
    Categorical(CategoricalArgs),
    /// Counts 0, 1, 2, ... The mean parameter is the rate
    #[command(after_long_help = "\
Examples:
  maxitive infer poisson calls.csv --column calls --event 'rate <= 3' --plot rate.svg \\
      --export rate.csv
  maxitive infer poisson calls.csv --column calls --by day --event 'rate[mon] > 2*rate[sun]'")]
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
  maxitive infer normal heights.csv --column height --by town --event 'mean[a] - mean[b] > 0.5' \\
      --event 'variance[a] > variance[b]' --forest towns.svg

Without --variance the variance is unknown: the mean has the profile (1 + z^2/n)^(-n/2), close to Student's
curve, and the variance a profile of its own. The prior's weight is then in units of 1/variance.")]
    Normal(NormalArgs),
    /// Vectors with normal noise of known covariance. The mean parameter is the mean vector
    #[command(after_long_help = "\
Examples:
  maxitive infer multivariate-normal body.csv --columns height,weight --covariance cov.csv \\
      --event 'height > 170 and (weight < 80 or weight > 90)' --event '2*height - weight > 250'
  maxitive infer multivariate-normal body.csv --covariance cov.csv --valid --alpha 0.05

The covariance file has a header with the column names and one row for each of them, in the same order; without
a header its rows and columns are those of --columns.")]
    MultivariateNormal(MultivariateNormalArgs),
    /// Regression of a yes-or-no target on covariates, with a normal prior for the coefficients
    #[command(after_long_help = "\
Examples:
  maxitive infer logistic patients.csv --target cured --covariates age,dose --prior-precision 0.5
  maxitive infer logistic patients.csv --target cured --standardize --event 'dose > 0.1' --json
  maxitive infer logistic patients.csv --target cured --event 'dose > age'
  maxitive infer logistic patients.csv --target cured --valid --simulations 1999 --seed 7

Every number is exact: cuts and events are those of the profile of the posterior, each with a
certificate. Beside them three normal possibility functions at the mode: laplace, an approximation,
and two bounds, upper and lower. Without --event the sign of every coefficient is asked for; an event
on the variable `coefficient` is asked of each of them, and an event may compare coefficients.

With --valid there is no prior. Cuts and events are found by simulation at the most possible values
of the other coefficients, an approximation, and each is printed with its standard error.")]
    Logistic(SimulatedRegressionArgs),
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
  maxitive infer poisson-regression calls.csv --target calls --event 'rain > 0' --alpha 0.1
  maxitive infer poisson-regression calls.csv --target calls --valid --alpha 0.05

--valid is found by simulation, as for `infer logistic`.")]
    PoissonRegression(SimulatedRegressionArgs),
    /// The mean response of a regression at new covariates: its mode and its alpha-cuts
    #[command(after_long_help = "\
Examples:
  maxitive infer predict logistic patients.csv --target cured --new ward.csv > predicted.csv
  maxitive infer predict linear houses.csv --target price --new listed.csv --coverage 0.95 --json
  maxitive infer predict poisson-regression calls.csv --target calls --new days.csv --event 'rate > 3'

The model is fitted to the first file as `infer logistic`, `infer linear` and `infer poisson-regression`
fit it. For every row of --new the answer has the mode of the mean response (p, rate or mean), the ends
of its alpha-cuts, and the possibility and necessity of each event, all from the exact profile. They speak
of the mean response, not of a single new observation. The CSV answer repeats the columns of --new.")]
    Predict(PredictArgs),
    /// Posteriors of parts of the data, saved with --save, as one
    #[command(after_long_help = "\
Examples:
  maxitive infer poisson part-1.csv --column calls --save part-1.json
  maxitive infer poisson part-2.csv --column calls --save part-2.json
  maxitive infer merge part-1.json part-2.json --event 'rate > 3' --save all.json
  maxitive infer poisson today.csv --column calls --prior-from all.json

The answer is that of one file with all rows, in any order of the parts. The parts must have the same family,
the same known numbers (shape, variance, covariance) and the same prior, which is counted once. Classes that
some parts have not seen are added.")]
    Merge(MergeArgs),
}

#[derive(Debug, Args)]
struct ScalarArgs {
    #[command(flatten)]
    common: CommonArgs,
    // not a comment of the documentation, where brackets are links
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["save", "prior_from", "valid"],
        help = "Column of groups: one posterior for each, and events across them, like \
                \"mean[a] - mean[b] > 0.5\""
    )]
    by: Option<String>,
    #[command(flatten)]
    valid: ValidArgs,
}

/// Plain or valid possibilities.
#[derive(Debug, Args)]
struct ValidArgs {
    /// Let the alpha-cut cover the truth with probability at least 1 - alpha at every sample size,
    /// not only in large samples
    #[arg(long, conflicts_with = "weight")]
    valid: bool,
}

/// Plain or valid possibilities, where some of the latter have to be simulated.
#[derive(Debug, Args)]
struct SimulatedArgs {
    #[command(flatten)]
    valid: ValidArgs,
    /// Data sets to simulate for each value, where no law is known [default: 999]
    #[arg(
        long,
        value_name = "N",
        requires = "valid",
        value_parser = simulations,
        allow_hyphen_values = true
    )]
    simulations: Option<usize>,
    /// Seed of the simulation: the same one gives the same answer [default: 0]
    #[arg(
        long,
        value_name = "S",
        requires = "valid",
        value_parser = seed,
        allow_hyphen_values = true
    )]
    seed: Option<u64>,
}

impl SimulatedArgs {
    /// Adds what is to be valid, and how, to the questions.
    fn questions(&self, plain: Questions) -> Questions {
        let default = Simulations::default();
        let simulations = Simulations {
            draws: self.simulations.unwrap_or(default.draws),
            seed: self.seed.unwrap_or(default.seed),
        };
        Questions {
            valid: self.valid.valid,
            simulations,
            ..plain
        }
    }
}

#[derive(Debug, Args)]
struct CommonArgs {
    #[command(flatten)]
    column: ColumnArgs,
    #[command(flatten)]
    prior: PriorArgs,
    #[command(flatten)]
    answer: AnswerArgs,
}

#[derive(Debug, Args)]
struct CategoricalArgs {
    /// The classes and their order, comma separated [default: those in the column, sorted]
    #[arg(long, value_name = "A,B,...", value_parser = names)]
    classes: Option<Names>,
    #[command(flatten)]
    simulated: SimulatedArgs,
    #[command(flatten)]
    common: CommonArgs,
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
    /// CSV file with a header or Parquet file, or - for standard input
    file: PathBuf,
    /// Columns of the observations, comma separated [default: those of the covariance]
    #[arg(long, value_name = "A,B,...", value_parser = names)]
    columns: Option<Names>,
    /// CSV file of the known covariance
    #[arg(long, value_name = "FILE")]
    covariance: PathBuf,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    prior: PriorArgs,
    #[command(flatten)]
    valid: ValidArgs,
    #[command(flatten)]
    answer: AnswerArgs,
}

#[derive(Debug, Args)]
struct RegressionArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct SimulatedRegressionArgs {
    #[command(flatten)]
    simulated: SimulatedArgs,
    #[command(flatten)]
    common: RegressionArgs,
}

#[derive(Debug, Args)]
struct LinearArgs {
    /// The known variance [default: unknown]
    #[arg(long, value_name = "V", value_parser = positive, allow_hyphen_values = true)]
    variance: Option<f64>,
    #[command(flatten)]
    valid: ValidArgs,
    #[command(flatten)]
    common: RegressionArgs,
}

/// Runs the command.
///
/// # Errors
/// A mistake in the arguments or the data, or an output that cannot be written.
pub fn execute(args: InferArgs) -> anyhow::Result<ExitCode> {
    match args.family {
        Family::Bernoulli(args) => infer_scalar(&Scalar::Bernoulli, &args),
        Family::Poisson(args) => infer_scalar(&Scalar::Poisson, &args),
        Family::Exponential(args) => infer_scalar(&Scalar::Exponential, &args),
        Family::Gamma(args) => infer_scalar(&Scalar::gamma(args.shape, "--shape")?, &args.common),
        Family::Normal(args) => match args.variance {
            Some(variance) => infer_scalar(&Scalar::normal(variance, "--variance")?, &args.common),
            None => infer_normal(&args.common),
        },
        Family::Categorical(args) => infer_categorical(&args),
        Family::MultivariateNormal(args) => infer_multivariate_normal(&args),
        Family::Logistic(args) => {
            let model = logistic(&args.common.model, args.simulated.valid.valid);
            infer_simulated_regression(&model, &args)
        }
        Family::PoissonRegression(args) => {
            infer_simulated_regression(&poisson_regression(&args.common.model), &args)
        }
        Family::Linear(args) => {
            let model = linear(&args.common.model, args.variance);
            let questions = Questions {
                valid: args.valid.valid,
                ..args.common.output.ask.questions(ParameterArg::Mean)
            };
            infer_regression(&model, &args.common, &questions)
        }
        Family::Predict(args) => predict::execute(args),
        Family::Merge(args) => merge::execute(&args),
    }
}

/// Refuses valid possibilities of what has none.
fn check_valid(valid: bool, prior: &PriorArgs, answer: &AnswerArgs) -> Result<(), UserError> {
    let has_prior = prior.prior().is_some() || prior.prior_from.is_some();
    let rule = match () {
        () if !valid => return Ok(()),
        () if has_prior => "a prior; a valid possibility is one of the data alone",
        () if answer.parameter == ParameterArg::Natural => "--parameter natural",
        () => return Ok(()),
    };
    Err(UserError::new(format!(
        "--valid: cannot be used with {rule}"
    )))
}

fn infer_scalar(family: &Scalar, args: &ScalarArgs) -> anyhow::Result<ExitCode> {
    let (by, valid, args) = (&args.by, args.valid.valid, &args.common);
    check_valid(valid, &args.prior, &args.answer)?;
    let (mut table, chosen) = args.column.open()?;
    let prior = args.prior.prior();
    let questions = Questions {
        valid,
        ..args.answer.questions()
    };
    if let Some(by) = by {
        let columns = groups::Columns::find(&table, chosen, by)?;
        let prior = prior.as_ref();
        let report = family.by_groups(&mut table, &columns, prior, &questions)?;
        return args.answer.output.finish(&report);
    }
    let saved = args.prior.saved()?;
    let known = Known {
        prior: prior.as_ref(),
        from: saved.as_ref(),
    };
    let report = family.report(&mut table, &chosen, &known, &questions)?;
    args.answer.finish(&report)
}

fn infer_categorical(args: &CategoricalArgs) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    check_valid(args.simulated.valid.valid, &common.prior, &common.answer)?;
    let (mut table, chosen) = common.column.open()?;
    let prior = common.prior.prior();
    let questions = args.simulated.questions(common.answer.questions());
    let classes = args.classes.as_ref().map(|names| &names.0[..]);
    let saved = common.prior.saved()?;
    let known = Known {
        prior: prior.as_ref(),
        from: saved.as_ref(),
    };
    let report = categorical::report(&mut table, &chosen, classes, &known, &questions)?;
    common.answer.finish(&report)
}

fn infer_multivariate_normal(args: &MultivariateNormalArgs) -> anyhow::Result<ExitCode> {
    check_valid(args.valid.valid, &args.prior, &args.answer)?;
    let covariance = Covariance::read(Path::new(&args.covariance))?;
    let mut table = Table::open(&args.file, args.read.reading())?;
    let names = match &args.columns {
        Some(names) => names.0.clone(),
        None => covariance.columns()?.to_vec(),
    };
    let (prior, saved) = (args.prior.prior(), args.prior.saved()?);
    let known = Known {
        prior: prior.as_ref(),
        from: saved.as_ref(),
    };
    let questions = Questions {
        valid: args.valid.valid,
        ..args.answer.questions()
    };
    let weight = args.read.weight.as_ref().map(|name| table.column(name));
    let columns = multivariate_normal::Columns {
        names: &names,
        weight: weight.transpose()?,
    };
    let report =
        multivariate_normal::report(&mut table, &columns, &covariance, &known, &questions)?;
    args.answer.finish(&report)
}

/// The dispersion of a response without one.
const KNOWN: Dispersion = Dispersion::Known(1.0);

fn logistic(args: &ModelArgs, valid: bool) -> regression::Model {
    // a valid possibility is one of the data alone
    let usual = Response::Bernoulli.usual_prior_precision();
    let precision = if valid { 0.0 } else { usual };
    args.model("logistic", Response::Bernoulli, KNOWN, precision)
}

fn poisson_regression(args: &ModelArgs) -> regression::Model {
    let precision = Response::Poisson.usual_prior_precision();
    args.model("poisson-regression", Response::Poisson, KNOWN, precision)
}

fn linear(args: &ModelArgs, variance: Option<f64>) -> regression::Model {
    let dispersion = variance.map_or(Dispersion::Unknown, Dispersion::Known);
    let precision = Response::Normal.usual_prior_precision();
    args.model("linear", Response::Normal, dispersion, precision)
}

fn infer_simulated_regression(
    model: &regression::Model,
    args: &SimulatedRegressionArgs,
) -> anyhow::Result<ExitCode> {
    let SimulatedRegressionArgs { simulated, common } = args;
    let questions = simulated.questions(common.output.ask.questions(ParameterArg::Mean));
    if questions.valid {
        questions.simulations.check(&questions.alphas)?;
    }
    infer_regression(model, common, &questions)
}

fn infer_regression(
    model: &regression::Model,
    args: &RegressionArgs,
    questions: &Questions,
) -> anyhow::Result<ExitCode> {
    let mut table = Table::open(&args.model.file, args.model.read.reading())?;
    let report = regression::report(&mut table, model, questions)?;
    args.output.finish(&report)
}

/// The mean of numbers of unknown variance: a regression on nothing but a constant.
fn infer_normal(args: &ScalarArgs) -> anyhow::Result<ExitCode> {
    let (by, valid, args) = (&args.by, args.valid.valid, &args.common);
    check_valid(valid, &args.prior, &args.answer)?;
    if args.answer.parameter == ParameterArg::Natural {
        let message =
            "--parameter natural: needs --variance, the natural parameter is mean/variance";
        return Err(UserError::new(message).into());
    }
    if args.answer.save.save.is_some() || args.prior.prior_from.is_some() {
        let message = "--save, --prior-from: need --variance; without it the posterior is no sum";
        return Err(UserError::new(message).into());
    }
    let (mut table, chosen) = args.column.open()?;
    if let Some(by) = by {
        let columns = groups::Columns::find(&table, chosen, by)?;
        let questions = args.answer.output.ask.questions(ParameterArg::Mean);
        let prior = args.prior.prior();
        let report = groups::normal(&mut table, &columns, prior.as_ref(), &questions)?;
        return args.answer.output.finish(&report);
    }
    let (mean, weight) = match args.prior.prior() {
        Some(prior) if prior.mean.len() == 1 => (prior.mean[0], prior.weight),
        Some(_) => return Err(UserError::new("--prior-mean: one number is expected").into()),
        None => (0.0, 0.0),
    };
    let model = regression::Model {
        family: "normal",
        response: Response::Normal,
        dispersion: Dispersion::Unknown,
        target: table.header()[chosen.column].clone(),
        weight: args.column.read.weight.clone(),
        covariates: Some(Vec::new()),
        categorical: Vec::new(),
        references: Vec::new(),
        prior_precision: 0.0,
        intercept: Some("mean"),
        intercept_mode: mean,
        intercept_precision: weight,
        standardize: false,
        threads: None,
    };
    let output = &args.answer.output;
    let questions = Questions {
        valid,
        ..output.ask.questions(ParameterArg::Mean)
    };
    output.finish(&regression::report(&mut table, &model, &questions)?)
}
