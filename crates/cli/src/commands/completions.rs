//! `maxitive completions SHELL`: a completion script on standard output.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use datasets::manifest;
use engine::zoo;
use experiment::preset;

use crate::commands::reproduce::experiments;

/// Print a completion script for a shell.
///
/// It knows the names of configs, experiments, datasets and networks.
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
    for (path, argument, names) in named() {
        command = with_names(command, path, argument, &names);
    }
    // the generator expects writes to succeed, so it gets memory
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "maxitive", &mut script);
    let mut script = String::from_utf8(script)?;
    match args.shell {
        Shell::Zsh => script = with_files(script),
        Shell::Fish => script.push_str(&names_for_fish()),
        _ => {}
    }
    io::stdout().write_all(script.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Where names are given: the command, the argument, and the names.
fn named() -> [(&'static [&'static str], &'static str, Vec<&'static str>); 5] {
    [
        (&["train"], CONFIG, preset::runs().collect()),
        (&["reproduce"], "experiment", experiments().collect()),
        (&["data", "fetch"], "names", manifest::names().collect()),
        (&["net"], NETWORK, zoo::NAMES.to_vec()),
        (&["bench"], "net", zoo::NAMES.to_vec()),
    ]
}

/// The arguments that may be files, too.
const CONFIG: &str = "config";
const NETWORK: &str = "name";

/// The command with these names for an argument of a subcommand; for its completions only, since
/// its parser takes more.
fn with_names(command: Command, path: &[&str], argument: &str, names: &[&'static str]) -> Command {
    match path {
        [first, rest @ ..] => {
            command.mut_subcommand(first, |command| with_names(command, rest, argument, names))
        }
        [] => command.mut_arg(argument, |found| {
            found.value_parser(PossibleValuesParser::new(names))
        }),
    }
}

/// The script for zsh, which takes a list of names for all there is, with files beside the names.
fn with_files(script: String) -> String {
    let mut functions = String::new();
    let mut script = script;
    for (_, argument, names) in named() {
        let list = names.join(" ");
        if [CONFIG, NETWORK].contains(&argument) {
            let function = format!("_maxitive_{argument}_or_file");
            functions.push_str(&format!(
                "{function}() {{ _alternative 'names:name:({list})' 'files:file:_files'; }}\n"
            ));
            script = script.replacen(&format!(":({list})"), &format!(":{function}"), 1);
        }
    }
    // the first line says what is completed
    script.replacen('\n', &format!("\n{functions}"), 1)
}

/// Lines for fish, whose script leaves out what is no option.
fn names_for_fish() -> String {
    let positional = named().into_iter().filter(|(path, ..)| *path != ["bench"]);
    let lines = positional.map(|(path, argument, names)| {
        let mut seen = format!("__fish_maxitive_using_subcommand {}", path[0]);
        for word in &path[1..] {
            seen.push_str(&format!("; and __fish_seen_subcommand_from {word}"));
        }
        let files = if [CONFIG, NETWORK].contains(&argument) {
            ""
        } else {
            " -f"
        };
        let names = names.join(" ");
        format!("complete -c maxitive -n \"{seen}\"{files} -a \"{names}\"\n")
    });
    lines.collect()
}
