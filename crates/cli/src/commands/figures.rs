//! `maxitive figures OUTDIR`: the pictures of the theory, each as SVG and PNG.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use plot::Figure;

use crate::figures;
use crate::files::{create_folder, save_picture};

/// Draw the pictures of the theory.
///
/// Writes `intuition.svg` and `intuition.png`, four panels on consistency bounds and how they
/// enclose a posterior, `families.svg` and `families.png`, the examples of possibilistic
/// exponential families, and `twin.svg` and `twin.png`, evidence and consistency bounds side by
/// side. Prints the names of the files.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive figures pictures")]
pub struct FiguresArgs {
    /// Folder for the pictures; it is created if need be
    outdir: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// The folder or a picture cannot be written.
pub fn execute(args: FiguresArgs) -> anyhow::Result<ExitCode> {
    create_folder(&args.outdir)?;
    // every picture is drawn before the first is written; a new picture is a new row
    let pictures: [(&str, Figure); 3] = [
        ("intuition", figures::intuition::draw()?),
        ("families", figures::families::draw()?),
        ("twin", figures::twin::draw()?),
    ];
    for (name, figure) in &pictures {
        for extension in ["svg", "png"] {
            let path = args.outdir.join(format!("{name}.{extension}"));
            save_picture(figure, &path)?;
            writeln!(io::stdout(), "{}", path.display())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
