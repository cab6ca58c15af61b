//! `maxitive infer predict MODEL data.csv --new new.csv`: the mean response at new covariates.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::args::{AskArgs, ModelArgs, ParameterArg, positive};
use super::{linear, logistic, poisson_regression};
use crate::csv::Table;
use crate::user_error::UserError;
use inference::regression::{self, predict};

#[derive(Debug, Args)]
pub struct PredictArgs {
    #[command(subcommand)]
    model: PredictModel,
}

#[derive(Debug, Subcommand)]
enum PredictModel {
    /// Probability p of a yes
    Logistic(NewArgs),
    /// Mean of a number
    Linear(NewLinearArgs),
    /// Rate of a count
    PoissonRegression(NewArgs),
}

#[derive(Debug, Args)]
struct NewArgs {
    /// CSV or Parquet file of new covariates, with the columns that the model is fitted to
    #[arg(long, value_name = "FILE")]
    new: PathBuf,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, Args)]
struct NewLinearArgs {
    /// The known variance [default: unknown]
    #[arg(long, value_name = "V", value_parser = positive, allow_hyphen_values = true)]
    variance: Option<f64>,
    #[command(flatten)]
    common: NewArgs,
}

/// Runs the command.
///
/// # Errors
/// A mistake in the arguments or the data, or an output that cannot be written.
pub fn execute(args: PredictArgs) -> anyhow::Result<ExitCode> {
    match args.model {
        PredictModel::Logistic(args) => run(&logistic(&args.model, false), &args),
        PredictModel::PoissonRegression(args) => run(&poisson_regression(&args.model), &args),
        PredictModel::Linear(args) => run(&linear(&args.common.model, args.variance), &args.common),
    }
}

fn run(model: &regression::Model, args: &NewArgs) -> anyhow::Result<ExitCode> {
    let reading = args.model.read.reading();
    let stdin = Path::new("-");
    if (&*args.model.file, &*args.new) == (stdin, stdin) {
        let message = "--new: standard input has the data already; name a file";
        return Err(UserError::new(message).into());
    }
    let mut data = Table::open(&args.model.file, reading)?;
    let mut new = Table::open(&args.new, reading)?;
    let questions = args.ask.questions(ParameterArg::Mean);
    let predictions = predict::predict(&mut data, &mut new, model, &questions)?;
    let output = if args.ask.json {
        serde_json::to_vec_pretty(&predictions.json())?
    } else {
        predictions.csv(reading.delimiter)?
    };
    let mut stdout = io::stdout().lock();
    stdout.write_all(&output)?;
    if args.ask.json {
        stdout.write_all(b"\n")?;
    }
    Ok(ExitCode::SUCCESS)
}
