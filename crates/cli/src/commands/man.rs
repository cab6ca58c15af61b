//! `maxitive man [OUTDIR]`: manual pages in roff.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory};

use crate::files::{create_folder, write_atomically};

/// Print the manual page, or write the pages of all commands into a folder.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive man | man -l -
  maxitive man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Folder for the pages `maxitive.1`, `maxitive-infer.1` and so on; without it the main page is
    /// printed
    outdir: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The folder or standard output cannot be written.
pub fn execute(args: ManArgs) -> anyhow::Result<ExitCode> {
    let mut command = crate::Cli::command();
    command.build();
    let Some(outdir) = args.outdir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        io::stdout().write_all(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    create_folder(&outdir)?;
    write_pages(command, &outdir)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a built command and those of its subcommands.
fn write_pages(command: clap::Command, outdir: &Path) -> anyhow::Result<()> {
    for inner in command.get_subcommands().filter(|c| c.get_name() != "help") {
        write_pages(inner.clone(), outdir)?;
    }
    let man = clap_mangen::Man::new(command);
    let mut page = Vec::new();
    man.render(&mut page)?;
    write_atomically(&outdir.join(man.get_filename()), &page)
}
