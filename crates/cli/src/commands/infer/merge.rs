//! `maxitive infer merge a.json b.json ...`: posteriors of parts of the data as one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use possibility::prelude::*;

use super::args::AnswerArgs;
use crate::inference::saved::{Saved, unify};
use crate::inference::{categorical, multivariate_normal, option_error, scalar};
use crate::user_error::UserError;

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Files that --save has written
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    answer: AnswerArgs,
}

/// Runs the command.
///
/// # Errors
/// Files that cannot be read or do not belong together, or an output that cannot be written.
pub fn execute(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let files = args.files.iter().map(|path| Saved::read(path));
    let files = unify(files.collect::<Result<_, _>>()?)?;
    let questions = args.answer.questions();
    let (files, questions) = (&files[..], &questions);
    let fail = |error: possibility::Error| option_error(&files[0].file, &error);
    let report = match files[0].family.as_str() {
        "bernoulli" => scalar::merge(&Bernoulli, files, questions),
        "poisson" => scalar::merge(&Poisson, files, questions),
        "exponential" => scalar::merge(&Exponential, files, questions),
        "gamma" => {
            let family = Gamma::new(files[0].number("shape")?).map_err(fail)?;
            scalar::merge(&family, files, questions)
        }
        "normal" => {
            let family = NormalNoise::new(files[0].number("variance")?).map_err(fail)?;
            scalar::merge(&family, files, questions)
        }
        "categorical" => categorical::merge(files, questions),
        "multivariate-normal" => multivariate_normal::merge(files, questions),
        other => Err(UserError::new(format!(
            "{}: there is no family \"{other}\"",
            files[0].file
        ))),
    };
    args.answer.finish(&report?)
}
