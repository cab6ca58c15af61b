//! `maxitive infer merge a.json b.json ...`: posteriors of parts of the data as one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::args::AnswerArgs;
use crate::user_error::UserError;
use inference::saved::{Saved, unify};
use inference::scalar::Scalar;
use inference::{categorical, multivariate_normal};

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
    let report = match Scalar::of_saved(&files[0])? {
        Some(family) => family.merge(files, questions),
        None => match files[0].family.as_str() {
            "categorical" => categorical::merge(files, questions),
            "multivariate-normal" => multivariate_normal::merge(files, questions),
            other => Err(UserError::new(format!(
                "{}: there is no family \"{other}\"",
                files[0].file
            ))),
        },
    };
    args.answer.finish(&report?)
}
