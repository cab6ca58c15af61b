//! `maxitive completions SHELL`: a completion script on standard output.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive completions bash > ~/.local/share/bash-completion/completions/maxitive
  maxitive completions zsh > ~/.zfunc/_maxitive
  maxitive completions fish > ~/.config/fish/completions/maxitive.fish")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Runs the command.
///
/// # Errors
/// Standard output is closed.
pub fn execute(args: CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut command = crate::Cli::command();
    // the generator expects writes to succeed, so it gets memory
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "maxitive", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}
