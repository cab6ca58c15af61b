//! What a run tells while it works, and how it is asked to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evaluation::record::{Checkpoint, EpochPoint, RunRecord};

use crate::error::Error;
use crate::lock::Holder;

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A run begins, or goes on after `epochs_done`.
    Started {
        /// Epochs in all.
        epochs: usize,
        /// Epochs behind it.
        epochs_done: usize,
        /// Steps per epoch.
        steps_per_epoch: usize,
    },
    /// Something to know about the data or the config of a run, told before it begins, or about its
    /// weights, told before they are evaluated.
    Note(&'a str),
    /// Steps were made within an epoch.
    Step {
        /// Epoch, from 0.
        epoch: usize,
        /// Steps of the epoch that are done.
        step: usize,
        /// Loss of the step.
        loss: f64,
    },
    /// An epoch is over.
    Epoch(&'a EpochPoint),
    /// Training is over, a row is being evaluated.
    Evaluating {
        /// Row of the table.
        row: &'a str,
        /// Weights.
        checkpoint: Checkpoint,
    },
    /// The run is over; its record is written.
    Finished(&'a RunRecord),
    /// The run was there already and is left as it is.
    Skipped(&'a RunRecord),
    /// The run was asked to stop; its state is saved.
    Stopped,
    /// The run rests until it is decided whether it goes on; its state is saved.
    Paused,
    /// The run does not go on, in a search that others lead; its state is saved.
    Dropped {
        /// Why.
        reason: &'a str,
    },
    /// Another process is at work on the run, which is named where it is known.
    Taken(Option<&'a Holder>),
    /// The run failed.
    Failed(&'a Error),
}

/// Hears of every event of every run; called from the threads that run them.
pub trait Observer: Sync {
    /// `run` is the name of the run.
    fn event(&self, run: &str, event: Event<'_>);
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _: &str, _: Event<'_>) {}
}

/// Raised from elsewhere, a signal handler say, to stop runs after their current step; or by a
/// clock.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    raised: Arc<AtomicBool>,
    limit: Option<Limit>,
    /// Epochs after which a run rests.
    epochs: Option<usize>,
    /// Something was done that need not be done again.
    worked: Arc<AtomicBool>,
}

/// All the time there is, and when it ends.
#[derive(Debug, Clone, Copy)]
struct Limit {
    seconds: f64,
    end: Instant,
}

impl Stop {
    /// The same with so much time from now on: what is at work is saved before it is over.
    #[must_use]
    pub fn within(self, time: Duration) -> Self {
        let end = Instant::now().checked_add(time);
        let limit = end.map(|end| Limit {
            seconds: time.as_secs_f64(),
            end,
        });
        Self { limit, ..self }
    }

    /// The same, and every run rests when so many epochs are behind it.
    #[must_use]
    pub fn after_epochs(self, epochs: usize) -> Self {
        Self {
            epochs: Some(epochs),
            ..self
        }
    }

    /// Whether a run with so many epochs behind it rests.
    pub(crate) fn is_after(&self, epochs: usize) -> bool {
        self.epochs.is_some_and(|most| epochs >= most)
    }

    /// Asks everything that holds a clone to stop.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Whether someone raised it.
    pub fn is_asked(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Whether it was raised, or time is over.
    pub fn is_raised(&self) -> bool {
        self.is_asked() || !self.leaves(0.0)
    }

    /// All the time there was, in seconds, if it is limited.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.limit.map(|limit| limit.seconds)
    }

    /// Takes in that something was done that need not be done again.
    pub(crate) fn did_work(&self) {
        self.worked.store(true, Ordering::Relaxed);
    }

    /// Whether something was done under this stop that need not be done again.
    pub(crate) fn has_worked(&self) -> bool {
        self.worked.load(Ordering::Relaxed)
    }

    /// What is left of the time, if it is limited.
    pub fn left(&self) -> Option<Duration> {
        let end = self.limit?.end;
        Some(end.saturating_duration_since(Instant::now()))
    }

    /// Whether more than so many seconds are left.
    pub(crate) fn leaves(&self, seconds: f64) -> bool {
        self.left().is_none_or(|left| left.as_secs_f64() > seconds)
    }

    /// Whether work of so many seconds may begin: it could end in time, or would not even have all
    /// of the time suffice, so that it has to be done in parts.
    pub(crate) fn could_end(&self, seconds: f64) -> bool {
        let whole = self.limit.map(|limit| limit.seconds);
        self.leaves(seconds) || whole.is_some_and(|whole| seconds > whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_stops_too_and_lets_begin_what_could_end() {
        let unlimited = Stop::default();
        assert!(!unlimited.is_raised() && unlimited.could_end(1e9));
        let limited = Stop::default().within(Duration::from_secs(100));
        assert!(!limited.is_raised() && limited.leaves(90.0) && !limited.leaves(100.0));
        assert!(limited.could_end(90.0) && !limited.could_end(100.0));
        // in parts or never
        assert!(limited.could_end(101.0));
        let over = Stop::default().within(Duration::ZERO);
        assert!(over.is_raised() && !over.is_asked());
        over.raise();
        assert!(over.is_asked());
    }
}
