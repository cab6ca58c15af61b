//! `maxitive report DIR... -o report.html`: run records in, one self-contained page and tables out.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::report::{Options, files};
use clap::Args;
use serde_json::json;

use crate::files::{check_page, create_folder, write_atomically};
use crate::paper_layout;
use crate::user_error::UserError;

/// Compare runs on one page: tables, calibration, out-of-domain detection, training curves,
/// hyper-parameters, settings.
///
/// Reads the records of runs and writes one HTML file that holds everything it shows and loads
/// nothing. Runs of different seeds are averaged, and the paper's figures stand beside ours where
/// there are any. What a search dropped is shown from its search.json. Prints the names of the
/// files.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive report runs -o report.html
  maxitive report runs/sgd-seed0 runs/ucbopt-seed0 --title 'SGD and uCBOpt'
  maxitive report runs --csv tables.csv --markdown tables.md --latex tables.tex
  maxitive report runs --paper-layout paper")]
pub struct ReportArgs {
    /// Folders searched for record.json at any depth, or record files
    #[arg(required = true, value_name = "DIR")]
    places: Vec<PathBuf>,
    /// The page
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Also write every number as CSV, in full precision
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also write the tables as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Also write the tables as LaTeX
    #[arg(long, value_name = "FILE")]
    latex: Option<PathBuf>,
    /// Also write the paper's own tables into this folder, as LaTeX and Markdown with its numbers
    /// below ours, and its figures as SVG and PDF
    #[arg(long, value_name = "DIR")]
    paper_layout: Option<PathBuf>,
    /// Title of the page; by default made from the records
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Print one JSON object instead of the names of the files
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// No record is found, one cannot be read, or a file cannot be written.
pub fn execute(args: ReportArgs) -> anyhow::Result<ExitCode> {
    if !args.output.is_dir() {
        check_page(&args.output)?;
    }
    let refuse = |error: files::Error| UserError::new(evaluation::reason(&error));
    let records = files::read(&args.places).map_err(refuse)?;
    let options = Options {
        title: args.title,
        note: None,
        searches: files::searches(&args.places).map_err(refuse)?,
        ..Options::default()
    };
    // everything is made before the first file is written
    let page = ::report::html(&records, &options);
    let layout = args.paper_layout.as_deref();
    let layout = layout.map(|_| paper_layout::draw(&records)).transpose()?;
    let mut written = vec![("html", args.output, page)];
    for (kind, path, make) in [
        ("csv", args.csv, ::report::csv as fn(&[_]) -> String),
        ("markdown", args.markdown, ::report::markdown),
        ("latex", args.latex, ::report::latex),
    ] {
        if let Some(path) = path {
            written.push((kind, path, make(&records)));
        }
    }
    for (i, (_, path, _)) in written.iter().enumerate() {
        if written[..i].iter().any(|(_, other, _)| other == path) {
            let message = format!("{}: named for two files", path.display());
            return Err(UserError::new(message).into());
        }
    }
    for (_, path, text) in &written {
        prepare(path)?;
        write_atomically(path, text.as_bytes())?;
    }
    let layout = args.paper_layout.zip(layout);
    if let Some((folder, files)) = &layout {
        paper_layout::write(files, folder)?;
    }
    let mut out = io::stdout();
    if args.json {
        let mut object = json!({ "records": records.len() });
        for (kind, path, _) in &written {
            object[*kind] = json!(path);
        }
        if let Some((folder, _)) = &layout {
            object["paper_layout"] = json!(folder);
        }
        writeln!(out, "{object}")?;
    } else {
        for (_, path, _) in &written {
            writeln!(out, "{}", path.display())?;
        }
        if let Some((folder, files)) = &layout {
            for (name, _) in files {
                writeln!(out, "{}", folder.join(name).display())?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the folder of a file; refuses a folder in its place.
fn prepare(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        return Err(UserError::new(format!("{}: is a folder, not a file", path.display())).into());
    }
    let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    else {
        return Ok(());
    };
    create_folder(parent)
}
