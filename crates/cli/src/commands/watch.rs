//! `maxitive watch`: the curves of runs at work, from what they save.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use console::Term;
use evaluation::record::EpochPoint;
use experiment::run::{self, CONFIG};
use experiment::search;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::json;

use crate::progress;
use crate::text::printable;
use crate::training;
use crate::user_error::UserError;

/// Watch runs at work: their epochs, losses and curves.
///
/// Looks at what the runs below a folder save, every few seconds as they do, and disturbs nobody.
/// On a terminal a line per run with the curve of its validation loss, elsewhere a line per new
/// epoch. Ends when all runs are finished, have failed or were dropped by a search.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive watch runs
  maxitive watch runs --once
  maxitive watch runs/ucbopt --json | jq .validation_loss")]
pub struct WatchArgs {
    /// Folder of a run, or of many
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print how things are and stop
    #[arg(long)]
    once: bool,
    /// A JSON object per new epoch; with --once, one per run
    #[arg(long)]
    json: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "S", default_value_t = 2.0, value_parser = training::seconds)]
    every: f64,
}

const FINISHED: &str = "finished";
const UNFINISHED: &str = "unfinished";

/// How a run is.
struct Watched {
    epochs: usize,
    curve: Vec<EpochPoint>,
    state: &'static str,
}

impl Watched {
    fn is_over(&self) -> bool {
        self.state != UNFINISHED
    }

    /// Epoch, losses and state.
    fn text(&self) -> String {
        let last = self.curve.last();
        let epoch = last.map_or("no epoch yet".into(), |point| {
            progress::epoch(point, Some(self.epochs))
        });
        match self.is_over() {
            true => format!("{epoch} {}", self.state),
            false => epoch,
        }
    }
}

/// A line per run: name, curve, then how it is. The curves get what the rest leaves of `width`
/// columns, so that no number is cut off.
fn lines(runs: &BTreeMap<String, Watched>, width: usize) -> Vec<String> {
    let texts: Vec<String> = runs.values().map(Watched::text).collect();
    let longest = |width: usize, text: &String| width.max(text.chars().count());
    let name_width = runs.keys().fold(0, longest);
    let rest = name_width + texts.iter().fold(0, longest) + 2;
    let columns = match width.saturating_sub(rest) {
        few if few < FEWEST => 0,
        columns => columns.min(COLUMNS),
    };
    let line = |((name, run), text): ((&String, &Watched), String)| match columns {
        0 => format!("{name:name_width$} {text}"),
        _ => format!("{name:name_width$} {} {text}", picture(&run.curve, columns)),
    };
    runs.iter().zip(texts).map(line).collect()
}

/// Runs the command.
///
/// # Errors
/// The folder is not there, holds no run, or holds one that cannot be read.
pub fn execute(args: WatchArgs) -> anyhow::Result<ExitCode> {
    let mut runs = BTreeMap::new();
    look(&args.folder, &mut runs)?;
    if args.once {
        print(&runs, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut shown = Shown::new(args.json);
    let mut over = false;
    loop {
        shown.show(&runs)?;
        let all = runs.values().all(Watched::is_over);
        // a sweep may be about to begin its next run
        if all && over {
            break;
        }
        over = all;
        std::thread::sleep(Duration::from_secs_f64(args.every.min(3600.0)));
        look(&args.folder, &mut runs)?;
    }
    shown.end(&runs, args.json)
}

/// All runs in the folder and below it, by name.
fn look(folder: &Path, runs: &mut BTreeMap<String, Watched>) -> anyhow::Result<()> {
    if !folder.is_dir() {
        let problem = format!("{}: there is no such folder", folder.display());
        return Err(UserError::new(problem).into());
    }
    find(folder, folder, &[], runs)?;
    if runs.is_empty() {
        let problem = format!("{}: holds no run (no {CONFIG})", folder.display());
        return Err(UserError::new(problem).into());
    }
    Ok(())
}

fn find(
    root: &Path,
    folder: &Path,
    dropped: &[(String, String)],
    runs: &mut BTreeMap<String, Watched>,
) -> anyhow::Result<()> {
    if folder.join(CONFIG).is_file() {
        let name = folder.strip_prefix(root).unwrap_or(folder);
        let name = match name.as_os_str().is_empty() {
            true => folder.file_name().map_or(folder.into(), PathBuf::from),
            false => name.to_owned(),
        };
        let name = name.display().to_string();
        if runs.get(&name).is_some_and(|run| run.state == FINISHED) {
            return Ok(());
        }
        let run = run::glance(folder).map_err(training::error)?;
        let state = match run.finished {
            true => FINISHED,
            false if run.holder.is_some() => UNFINISHED,
            false if dropped.iter().any(|(name, _)| *name == run.name) => "dropped",
            false if run.failed.is_some() => "failed",
            false => UNFINISHED,
        };
        let watched = Watched {
            epochs: run.epochs,
            curve: run.curve,
            state,
        };
        runs.insert(name, watched);
        return Ok(());
    }
    let dropped = search::dropped(folder);
    let unreadable =
        |error: io::Error| UserError::new(format!("{}: cannot be read: {error}", folder.display()));
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        // links are not followed, which could lead around
        if entry.file_type().map_err(unreadable)?.is_dir() {
            find(root, &entry.path(), &dropped, runs)?;
        }
    }
    Ok(())
}

/// Most epochs side by side in a picture.
const COLUMNS: usize = 24;
/// Fewer are no curve.
const FEWEST: usize = 4;

/// The losses of the last epochs as bars: on the validation images, where there are some.
fn picture(curve: &[EpochPoint], columns: usize) -> String {
    let loss = |point: &EpochPoint| point.validation_loss.unwrap_or(point.train_loss);
    let losses: Vec<f64> = curve.iter().map(loss).collect();
    let losses = &losses[losses.len().saturating_sub(columns)..];
    let low = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let high = losses.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let bars = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |loss: &f64| {
        let share = if high > low {
            (loss - low) / (high - low)
        } else {
            0.0
        };
        bars[((share * 8.0) as usize).min(7)]
    };
    let drawn: String = losses.iter().map(bar).collect();
    format!("{drawn:columns$}")
}

/// Prints how all runs are.
fn print(runs: &BTreeMap<String, Watched>, json: bool) -> io::Result<()> {
    let mut out = io::stdout();
    if !json {
        let mut lines = lines(runs, usize::MAX).into_iter();
        return lines.try_for_each(|line| writeln!(out, "{}", printable(&line)));
    }
    for (name, run) in runs {
        let state = run.state;
        let object = json!({
            "run": name, "state": state, "epochs": run.epochs, "curve": run.curve,
        });
        writeln!(out, "{object}")?;
    }
    Ok(())
}

/// What was shown already.
struct Shown {
    /// Bars on a terminal.
    bars: Option<MultiProgress>,
    lines: HashMap<String, ProgressBar>,
    /// Epochs that were told.
    told: HashMap<String, usize>,
    json: bool,
}

impl Shown {
    fn new(json: bool) -> Self {
        let terminal = !json && io::stdout().is_terminal() && io::stderr().is_terminal();
        Self {
            bars: terminal.then(MultiProgress::new),
            lines: HashMap::new(),
            told: HashMap::new(),
            json,
        }
    }

    /// Shows what is new.
    fn show(&mut self, runs: &BTreeMap<String, Watched>) -> io::Result<()> {
        if let Some(bars) = &self.bars {
            let (_, width) = Term::stderr().size();
            for (name, text) in runs.keys().zip(lines(runs, width.into())) {
                let line = self.lines.entry(name.clone()).or_insert_with(|| {
                    let style = ProgressStyle::with_template("{wide_msg}");
                    let line = bars.add(ProgressBar::new(1));
                    line.with_style(style.expect("the template is well formed"))
                });
                line.set_message(printable(&text).into_owned());
                line.tick();
            }
            return Ok(());
        }
        let mut out = io::stdout();
        for (name, run) in runs {
            let told = self.told.entry(name.clone()).or_default();
            for point in run.curve.iter().skip(*told) {
                if self.json {
                    writeln!(out, "{}", progress::epoch_object(name, point))?;
                } else {
                    let epoch = progress::epoch(point, Some(run.epochs));
                    writeln!(out, "{}: {epoch}", printable(name))?;
                }
            }
            *told = run.curve.len();
        }
        Ok(())
    }

    /// Leaves the last state behind.
    fn end(&self, runs: &BTreeMap<String, Watched>, json: bool) -> anyhow::Result<ExitCode> {
        if self.bars.is_some() {
            self.lines.values().for_each(ProgressBar::finish_and_clear);
            print(runs, json)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(epoch: usize, loss: f64) -> EpochPoint {
        EpochPoint {
            epoch,
            lr: 0.1,
            train_loss: 0.5,
            train_accuracy: 0.5,
            validation_loss: Some(loss),
            validation_accuracy: Some(0.5),
            seconds: 1.0,
            updates: None,
        }
    }

    #[test]
    fn curves_get_the_columns_that_numbers_leave() {
        let run = |losses: &[f64], state| Watched {
            epochs: 12,
            curve: (0..).zip(losses).map(|(e, &l)| point(e, l)).collect(),
            state,
        };
        let falling: Vec<f64> = (0..12).map(|epoch| 12.0 - f64::from(epoch)).collect();
        let runs = BTreeMap::from([
            ("a".to_owned(), run(&falling, FINISHED)),
            ("long".to_owned(), run(&[2.0, 1.0], UNFINISHED)),
        ]);
        // 4 for names, 2 between, 49 for the longest text
        let text = "epoch 12/12 loss 0.500, validation 1.000 finished";
        assert_eq!(text.len(), 49);
        let other = "epoch 2/12 loss 0.500, validation 1.000";
        assert_eq!(
            lines(&runs, 80),
            [
                format!("a    {:24} {text}", "██▇▆▆▅▄▃▃▂▁▁"),
                format!("long {:24} {other}", "█▁")
            ]
        );
        // the last epochs are those that stay
        assert_eq!(
            lines(&runs, 60),
            [format!("a    █▇▅▃▁ {text}"), format!("long █▁    {other}")]
        );
        assert_eq!(
            lines(&runs, 58),
            [format!("a    {text}"), format!("long {other}")]
        );
    }
}
