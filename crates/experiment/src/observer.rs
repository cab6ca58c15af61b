//! What a run tells while it works, and how it is asked to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evaluation::record::{Checkpoint, EpochPoint, RunRecord};

use crate::error::Error;

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
    /// Something to know about the data or the config of a run, told before it begins.
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

/// Raised from elsewhere, a signal handler say, to stop runs after their current step.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks everything that holds a clone to stop.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
