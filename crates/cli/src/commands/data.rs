//! `maxitive data list | fetch NAME | verify DIR`: which datasets there are, where they are, and
//! whether they are right.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use datasets::manifest::{self, Entry};
use datasets::{Check, ENVIRONMENT, Event, Fetcher, Library, Location, Part};
use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::user_error::{UserError, unknown};

/// List, fetch and verify datasets.
///
/// A dataset is looked for in the folder given with --data-dir, in the one that MAXITIVE_DATA
/// names, in the cache folder (`~/.cache/maxitive`) and in the system's packages (Debian's
/// dataset-fashion-mnist), in this order.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive data list
  maxitive data fetch mnist kmnist
  maxitive data verify ~/.cache/maxitive")]
pub struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Debug, Subcommand)]
enum DataCommand {
    List(ListArgs),
    Fetch(FetchArgs),
    Verify(VerifyArgs),
}

/// List the datasets that are known by name: what they are, where they were found, size and
/// license.
///
/// Any command that takes the name of a dataset also takes a path: a folder with `train` and `test`
/// in it and a folder of PNG or JPEG files per class in each, or an NPZ file with the arrays
/// train_images, train_labels, test_images and test_labels.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive data list
  maxitive data list --data-dir datasets --json")]
struct ListArgs {
    /// Folder to search first
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print everything that is known, as JSON
    #[arg(long)]
    json: bool,
}

/// Fetch datasets from their official addresses.
///
/// A download that breaks off is taken up again, also by a later run. Every file is checked against
/// its SHA-256 and put in place only when it is right; archives are unpacked. A file that is there
/// already is fetched again only if it is not the official one. Prints the names of the files.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive data fetch fashion-mnist
  maxitive data fetch svhn --part test --data-dir datasets
  maxitive data fetch cifar-10 --mirror https://mirror.example.org/datasets")]
struct FetchArgs {
    /// Names of the datasets
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Only this part, where the parts are separate files
    #[arg(long)]
    part: Option<PartName>,
    /// Folder to put them into; by default $MAXITIVE_DATA, else the cache folder
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Fetch from URL/NAME/FILE instead of the official addresses
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// No progress, only results and errors
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PartName {
    Train,
    Test,
}

impl From<PartName> for Part {
    fn from(name: PartName) -> Self {
        match name {
            PartName::Train => Self::Train,
            PartName::Test => Self::Test,
        }
    }
}

/// Check every dataset below a folder against the published checksums.
///
/// Exit code 0 if all files are right, 2 if one is not or there is none.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive data verify datasets
  maxitive data verify /usr/share/datasets/fashion-mnist --json")]
struct VerifyArgs {
    /// Folder that holds the folders of datasets, or is one
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A name is unknown, a download fails, a file is wrong, or standard output is closed.
pub fn execute(args: DataArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        DataCommand::List(args) => list(&args),
        DataCommand::Fetch(args) => fetch(&args),
        DataCommand::Verify(args) => verify(&args),
    }
}

const PARTS: [Part; 2] = [Part::Train, Part::Test];

fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let library = Library::new(args.data_dir.clone());
    let mut out = io::stdout();
    if args.json {
        let entries: Vec<Value> = manifest::ENTRIES
            .iter()
            .map(|entry| describe(entry, &library))
            .collect::<Result<_, _>>()?;
        writeln!(out, "{:#}", json!({ "datasets": entries }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for entry in manifest::ENTRIES.iter() {
        let counts: Vec<String> = PARTS
            .iter()
            .filter_map(|&part| {
                Some(format!(
                    "{} {}",
                    thousands(entry.part(part)?.images),
                    part.name()
                ))
            })
            .collect();
        writeln!(out, "{:20}{}", entry.name, entry.title)?;
        writeln!(
            out,
            "{:20}{}, {} classes; license: {}",
            "",
            counts.join(" + "),
            entry.classes,
            entry.license
        )?;
        writeln!(out, "{:20}{}", "", whereabouts(entry, &library)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the parts of a dataset are, in a line.
fn whereabouts(entry: &'static Entry, library: &Library) -> anyhow::Result<String> {
    let mut places: Vec<(String, u64)> = Vec::new();
    let mut missing = Vec::new();
    for part in PARTS.into_iter().filter(|&part| entry.part(part).is_some()) {
        match library.locate(entry.name, part)? {
            None => missing.push(part.name()),
            Some(Location::BuiltIn) => return Ok("built in".into()),
            Some(Location::Folder {
                path,
                origin,
                bytes,
            }) => {
                let place = format!("{} ({origin})", path.display());
                match places.last_mut() {
                    Some((last, total)) if *last == place => *total += bytes,
                    _ => places.push((place, bytes)),
                }
            }
        }
    }
    let places: Vec<String> = places
        .into_iter()
        .map(|(place, bytes)| format!("{place}, {}", DecimalBytes(bytes)))
        .collect();
    let mut text = places.join("; ");
    if missing.is_empty() {
        return Ok(text);
    }
    if text.is_empty() {
        text = "not found".into();
    } else {
        let _ = write!(text, ", without its {} part", missing.join(" and "));
    }
    let bytes = download_bytes(entry);
    if bytes > 0 {
        let _ = write!(
            text,
            "; maxitive data fetch {} ({})",
            entry.name,
            DecimalBytes(bytes)
        );
    }
    Ok(text)
}

fn download_bytes(entry: &Entry) -> u64 {
    entry.downloads.iter().map(|download| download.bytes).sum()
}

fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

fn describe(entry: &'static Entry, library: &Library) -> anyhow::Result<Value> {
    let mut parts = serde_json::Map::new();
    for part in PARTS {
        let Some(files) = entry.part(part) else {
            continue;
        };
        let found = match library.locate(entry.name, part)? {
            None => Value::Null,
            Some(Location::BuiltIn) => json!({ "origin": "built in" }),
            Some(Location::Folder {
                path,
                origin,
                bytes,
            }) => {
                json!({ "origin": origin.to_string(), "folder": path, "bytes": bytes })
            }
        };
        let value = json!({ "images": files.images, "found": found });
        parts.insert(part.name().into(), value);
    }
    Ok(json!({
        "name": entry.name,
        "title": entry.title,
        "homepage": entry.homepage,
        "license": entry.license,
        "citation": entry.citation,
        "shape": [entry.shape.channels, entry.shape.height, entry.shape.width],
        "classes": entry.classes,
        "mean": decimals(&entry.mean),
        "std": decimals(&entry.std),
        "constants_from": entry.constants_from,
        "parts": parts,
        "download_bytes": download_bytes(entry),
    }))
}

/// As they are written in the manifest, not as the nearest `f32`.
fn decimals(values: &[f32]) -> Vec<f64> {
    let decimal = |value: &f32| value.to_string().parse().unwrap_or(f64::from(*value));
    values.iter().map(decimal).collect()
}

fn fetch(args: &FetchArgs) -> anyhow::Result<ExitCode> {
    for name in &args.names {
        if manifest::find(name).is_none() {
            return Err(UserError::new(unknown("dataset", name, manifest::names())).into());
        }
    }
    let from_environment = || {
        let value = std::env::var_os(ENVIRONMENT).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let root = args
        .data_dir
        .clone()
        .or_else(from_environment)
        .or_else(datasets::cache_folder)
        .context("there is no home folder; say where to with --data-dir")?;
    let mut fetcher = Fetcher::new(root);
    if let Some(mirror) = &args.mirror {
        fetcher = fetcher.with_mirror(mirror);
    }
    for name in &args.names {
        let bar = Bar::new(name, args.quiet);
        let mut done: Vec<PathBuf> = Vec::new();
        let result = fetcher.fetch(name, args.part.map(Into::into), &mut |event| {
            if let Event::Done { path } | Event::Present { path } = &event {
                done.push(path.to_path_buf());
            }
            bar.show(&event);
        });
        bar.clear();
        // what did arrive is there to stay
        for path in done {
            writeln!(io::stdout(), "{}", path.display())?;
        }
        result.map_err(|error| match error {
            datasets::Error::NotFetchable { .. } => UserError::new(error.to_string()).into(),
            error => anyhow::Error::from(error),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A bar on a terminal, a line per event elsewhere.
struct Bar {
    bar: Option<ProgressBar>,
    name: String,
    quiet: bool,
}

impl Bar {
    fn new(name: &str, quiet: bool) -> Self {
        let terminal = io::stderr().is_terminal() && !quiet;
        Self {
            bar: terminal.then(ProgressBar::no_length),
            name: name.into(),
            quiet,
        }
    }

    fn show(&self, event: &Event<'_>) {
        match (event, &self.bar) {
            (
                Event::Start {
                    address,
                    done,
                    total,
                },
                Some(bar),
            ) => {
                let template = "{prefix:20} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style);
                }
                bar.set_prefix(self.name.clone());
                bar.reset();
                bar.set_length(*total);
                bar.set_position(*done);
                bar.enable_steady_tick(Duration::from_millis(200));
                bar.println(format!("fetching {address}"));
            }
            (
                Event::Start {
                    address,
                    done,
                    total,
                },
                None,
            ) => {
                let rest = DecimalBytes(total - done);
                self.say(&format!("fetching {address} ({rest})"));
            }
            (Event::Advance { done, .. }, Some(bar)) => bar.set_position(*done),
            (Event::Retry { problem }, _) => self.say(&format!("{problem}; trying again")),
            (Event::Unpack { files }, Some(bar)) => {
                if let Ok(style) = ProgressStyle::with_template("{prefix:20} unpacked {pos} files")
                {
                    bar.set_style(style);
                }
                bar.set_position(*files as u64);
            }
            (Event::Present { path }, _) => {
                self.say(&format!("{} is already there", path.display()));
            }
            _ => {}
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None if self.quiet => {}
            // progress is no reason to fail
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn verify(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    if !args.folder.is_dir() {
        let folder = args.folder.display();
        return Err(UserError::new(format!("{folder} is not a folder")).into());
    }
    let checks = datasets::verify(&args.folder);
    if checks.is_empty() {
        return Err(UserError::new(nothing_in(&args.folder)).into());
    }
    let wrong = checks.iter().filter(|check| check.outcome.is_err()).count();
    let mut out = io::stdout();
    if args.json {
        let files: Vec<Value> = checks.iter().map(verdict).collect();
        writeln!(out, "{:#}", json!({ "ok": wrong == 0, "files": files }))?;
    } else {
        for check in &checks {
            let Check {
                name,
                part,
                path,
                outcome,
                ..
            } = check;
            let (mark, remark) = match outcome {
                Ok(verified) => ("ok", verified.note().unwrap_or("official").to_owned()),
                Err(error) => ("WRONG", reason(error)),
            };
            let path = path.strip_prefix(&args.folder).unwrap_or(path).display();
            writeln!(out, "{mark:6}{name} {}: {path}: {remark}", part.name())?;
        }
    }
    if wrong > 0 {
        let files = checks.len();
        return Err(UserError::new(format!("{wrong} of {files} files are not right")).into());
    }
    Ok(ExitCode::SUCCESS)
}

fn nothing_in(folder: &Path) -> String {
    let folders: Vec<&str> = manifest::ENTRIES
        .iter()
        .filter_map(|entry| entry.folders.first().copied())
        .collect();
    format!(
        "no known dataset in {}; expected one of the folders {}",
        folder.display(),
        folders.join(", ")
    )
}

fn verdict(check: &Check) -> Value {
    let (ok, note) = match &check.outcome {
        Ok(verified) => (true, verified.note().map(ToOwned::to_owned)),
        Err(error) => (false, Some(reason(error))),
    };
    json!({
        "dataset": check.name,
        "part": check.part.name(),
        "file": check.path,
        "ok": ok,
        "note": note,
    })
}

/// An error with its causes.
fn reason(error: &datasets::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        assert_eq!(thousands(7), "7");
        assert_eq!(thousands(2_600), "2,600");
        assert_eq!(thousands(124_800), "124,800");
    }
}
