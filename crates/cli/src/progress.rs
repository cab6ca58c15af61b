//! What is shown of runs at work: bars on a terminal, lines elsewhere, JSON for machines, or
//! nothing.

use std::collections::{HashMap, HashSet};
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use evaluation::record::{Checkpoint, EpochPoint, RunRecord};
use experiment::{Event, Observer};
use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::text::{count, printable, printable_lines};

/// Time between lines about epochs where many runs are at work.
const PAUSE: Duration = Duration::from_secs(10);

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Bars on standard error if it is a terminal, else a line per epoch; with many runs at most
    /// one every ten seconds.
    Human,
    /// A JSON object per event on standard output.
    Json,
    /// Nothing.
    Quiet,
}

/// Shows the events of one or many runs.
pub struct Progress {
    mode: Mode,
    terminal: bool,
    bars: MultiProgress,
    all: Option<ProgressBar>,
    runs: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The bar of a run, and its steps per epoch.
    bars: HashMap<String, (ProgressBar, usize)>,
    /// Runs that have ended, for now or for good.
    ended: HashSet<String>,
    /// Why runs have failed, each reason with the first such run.
    failures: HashMap<String, String>,
    /// What was remarked; runs of a sweep share most of it.
    notes: HashSet<String>,
    /// Epochs of a run in all.
    epochs: HashMap<String, usize>,
    /// When the last line about an epoch was written.
    last_epoch: Option<Instant>,
}

impl State {
    /// How a run ended, in words; a reason that was told before is not told again.
    fn ending(&mut self, run: &str, event: &Event<'_>) -> String {
        if let Event::Failed(error) = event {
            let first = self
                .failures
                .entry(error.with_causes())
                .or_insert(run.into());
            if first != run {
                return format!("failed like {first}");
            }
        }
        ending(event)
    }
}

impl Progress {
    /// Progress of this many runs.
    pub fn new(mode: Mode, runs: usize) -> Self {
        let terminal = io::stderr().is_terminal();
        let bars = MultiProgress::new();
        let all = (mode == Mode::Human && terminal && runs > 1).then(|| {
            let bar = bars.add(ProgressBar::new(runs as u64));
            bar.set_style(style("{prefix:24} {wide_bar} {pos}/{len} runs {elapsed}"));
            bar.set_prefix("all");
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self {
            mode,
            terminal,
            bars,
            all,
            runs,
            state: Mutex::default(),
        }
    }

    /// Takes the bars away, so that results can be printed.
    pub fn clear(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, (bar, _)) in state.bars.drain() {
            bar.finish_and_clear();
        }
        if let Some(bar) = &self.all {
            bar.finish_and_clear();
        }
    }

    /// Whether the command itself will tell: it ends with the error of its only run.
    fn is_told_later(&self, event: &Event<'_>) -> bool {
        self.runs == 1 && matches!(event, Event::Failed(_) | Event::Taken(_))
    }

    fn human(&self, run: &str, event: &Event<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Finished(_)
            | Event::Skipped(_)
            | Event::Stopped
            | Event::Dropped { .. }
            | Event::Taken(_)
            | Event::Failed(_) => self.end(&mut state, run, event),
            Event::Paused => {
                if let Some((bar, _)) = state.bars.remove(run) {
                    bar.finish_and_clear();
                }
            }
            Event::Note(note) if !state.notes.insert((*note).to_owned()) => {}
            Event::Note(note) => self.line(&format!("note: {note}")),
            _ if self.terminal => self.advance(&mut state, run, event),
            Event::Started {
                epochs,
                epochs_done,
                steps_per_epoch,
            } => {
                let from = match epochs_done {
                    0 => String::new(),
                    done => format!(", continued after {done}"),
                };
                state.epochs.insert(run.to_owned(), *epochs);
                let (epochs, steps) = (count(*epochs, "epoch"), count(*steps_per_epoch, "step"));
                self.line(&format!("{run}: {epochs} of {steps}{from}"));
            }
            Event::Epoch(point) => {
                let recent = |last: Instant| last.elapsed() < PAUSE;
                if self.runs > 1 && state.last_epoch.is_some_and(recent) {
                    return;
                }
                state.last_epoch = Some(Instant::now());
                let of = state.epochs.get(run).copied().unwrap_or_default();
                self.line(&format!("{run}: {}", epoch(point, Some(of))));
            }
            _ => {}
        }
    }

    /// Removes the bar of a run that has ended and says how it ended.
    fn end(&self, state: &mut State, run: &str, event: &Event<'_>) {
        state.ended.insert(run.to_owned());
        if let Some((bar, _)) = state.bars.remove(run) {
            bar.finish_and_clear();
        }
        if let Some(bar) = &self.all {
            bar.set_position(state.ended.len() as u64);
        }
        if self.is_told_later(event) {
            return;
        }
        let place = if self.runs > 1 {
            format!("[{}/{}] ", state.ended.len(), self.runs)
        } else {
            String::new()
        };
        self.line(&format!("{place}{run}: {}", state.ending(run, event)));
    }

    /// Adds or moves the bar of a run.
    fn advance(&self, state: &mut State, run: &str, event: &Event<'_>) {
        if let Event::Started {
            epochs,
            epochs_done,
            steps_per_epoch,
        } = event
        {
            let bar = ProgressBar::new((epochs * steps_per_epoch) as u64);
            let bar = match &self.all {
                Some(all) => self.bars.insert_before(all, bar),
                None => self.bars.add(bar),
            };
            bar.set_style(style("{prefix:24} {wide_bar} {msg} {eta}"));
            bar.set_prefix(run.to_owned());
            bar.set_position((epochs_done * steps_per_epoch) as u64);
            state.bars.insert(run.to_owned(), (bar, *steps_per_epoch));
            return;
        }
        let Some((bar, steps)) = state.bars.get(run) else {
            return;
        };
        match event {
            Event::Step { epoch, step, loss } => {
                bar.set_position((epoch * steps + step) as u64);
                bar.set_message(format!("epoch {} loss {loss:.3}", epoch + 1));
            }
            Event::Epoch(point) => {
                bar.set_position(((point.epoch + 1) * steps) as u64);
                bar.set_message(epoch(point, None));
            }
            Event::Evaluating { row, checkpoint } => {
                let message = format!("evaluating {row}, {}", name(*checkpoint));
                bar.set_message(printable(&message).into_owned());
                bar.tick();
            }
            _ => {}
        }
    }

    fn line(&self, text: &str) {
        // nothing is left to do if even standard error is closed
        let text = printable_lines(text);
        let _ = self.bars.suspend(|| writeln!(io::stderr(), "{text}"));
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the template is well formed")
        .progress_chars("━╸ ")
}

/// An epoch in a few words: its number, of how many where that is not shown elsewhere, and the
/// losses.
pub fn epoch(point: &EpochPoint, of: Option<usize>) -> String {
    let of = of.map_or(String::new(), |epochs| format!("/{epochs}"));
    let validation = point
        .validation_loss
        .map_or(String::new(), |loss| format!(", validation {loss:.3}"));
    let (number, loss) = (point.epoch + 1, point.train_loss);
    format!("epoch {number}{of} loss {loss:.3}{validation}")
}

fn name(checkpoint: Checkpoint) -> &'static str {
    match checkpoint {
        Checkpoint::Best => "best",
        Checkpoint::Final => "final",
    }
}

/// How a run ended, in words.
fn ending(event: &Event<'_>) -> String {
    match event {
        Event::Finished(record) => {
            let t = &record.timings;
            let time =
                Duration::from_secs_f64((t.train_s + t.validation_s + t.evaluation_s).max(0.0));
            format!("{} after {}", result(record), HumanDuration(time))
        }
        Event::Skipped(record) => format!("{}, was finished before", result(record)),
        Event::Stopped => "stopped, its state is saved".into(),
        Event::Dropped { reason } => format!("dropped: {reason}"),
        Event::Taken(Some(holder)) => format!("taken by {holder}"),
        Event::Taken(None) => "taken by another process".into(),
        Event::Failed(error) => format!("failed: {}", error.with_causes()),
        _ => String::new(),
    }
}

/// Accuracy and loss of a run in a few words: the first row at the best weights.
fn result(record: &RunRecord) -> String {
    match record.evaluations.first() {
        Some(evaluation) => {
            let values = &evaluation.in_domain.values;
            let number =
                |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
            let (accuracy, nll) = (number(values.accuracy), number(values.nll));
            format!("accuracy {accuracy}, NLL {nll}")
        }
        None => "trained".into(),
    }
}

/// An event as a JSON object.
fn object(run: &str, event: &Event<'_>) -> Option<Value> {
    let mut value = match event {
        Event::Started {
            epochs,
            epochs_done,
            steps_per_epoch,
        } => json!({
            "event": "started", "run": run, "epochs": epochs,
            "epochs_done": epochs_done, "steps_per_epoch": steps_per_epoch,
        }),
        Event::Epoch(point) => epoch_object(run, point),
        Event::Note(note) => json!({"event": "note", "run": run, "note": note}),
        Event::Evaluating { row, checkpoint } => json!({
            "event": "evaluating", "run": run, "row": row, "checkpoint": name(*checkpoint),
        }),
        Event::Finished(_) => json!({"event": "finished", "run": run}),
        Event::Skipped(_) => json!({"event": "skipped", "run": run}),
        Event::Stopped => json!({"event": "stopped", "run": run}),
        Event::Paused => json!({"event": "paused", "run": run}),
        Event::Dropped { reason } => {
            json!({"event": "dropped", "run": run, "reason": reason})
        }
        Event::Taken(holder) => json!({"event": "taken", "run": run, "by": holder}),
        Event::Failed(error) => {
            json!({"event": "failed", "run": run, "error": error.with_causes()})
        }
        _ => return None,
    };
    if let Event::Finished(record) | Event::Skipped(record) = event {
        let rows: Vec<Value> = record
            .evaluations
            .iter()
            .map(|evaluation| {
                let mut row = json!({
                    "row": evaluation.row, "checkpoint": name(evaluation.checkpoint),
                    "in_domain": evaluation.in_domain,
                });
                let ood: serde_json::Map<String, Value> = evaluation
                    .out_of_domain
                    .iter()
                    .map(|ood| (ood.dataset.clone(), json!(ood.metrics)))
                    .collect();
                merge(&mut row, json!({"out_of_domain": ood}));
                row
            })
            .collect();
        merge(
            &mut value,
            json!({"evaluations": rows, "timings": record.timings}),
        );
    }
    Some(value)
}

/// An epoch as a JSON object.
pub fn epoch_object(run: &str, point: &EpochPoint) -> Value {
    let mut value = json!({"event": "epoch", "run": run});
    merge(&mut value, json!(point));
    value
}

/// Adds the entries of one object to another.
pub fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

impl Observer for Progress {
    fn event(&self, run: &str, event: Event<'_>) {
        match self.mode {
            Mode::Quiet => {
                if matches!(event, Event::Failed(_)) && !self.is_told_later(&event) {
                    let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                    self.line(&format!("{run}: {}", state.ending(run, &event)));
                }
            }
            Mode::Human => self.human(run, &event),
            Mode::Json => {
                if let Some(value) = object(run, &event) {
                    // a run goes on when nobody listens any more
                    let _ = writeln!(io::stdout(), "{value}");
                }
            }
        }
    }
}
