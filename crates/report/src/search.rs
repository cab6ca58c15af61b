//! What a search by successive halving left behind: `search.json` in the folder of a sweep.

use std::cmp::Ordering;

use evaluation::record::RunRecord;
use serde::Deserialize;

pub use evaluation::record::SEARCH;

/// The rounds of a search.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Search {
    /// Version of the format.
    pub schema: String,
    /// Name of the sweep.
    pub name: String,
    /// How it was made.
    pub halving: Halving,
    /// Its rounds so far.
    pub rounds: Vec<Round>,
    /// Runs that could not be made.
    #[serde(default)]
    pub failed: Vec<Failed>,
}

/// How a search chooses.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Halving {
    /// One run in so many goes on.
    pub eta: usize,
    /// What runs are compared by, its best value so far: `validation_loss` or
    /// `validation_accuracy`.
    pub metric: String,
}

/// A comparison.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Round {
    /// Epochs behind each run.
    pub epochs: usize,
    /// How many go on.
    pub kept: usize,
    /// All of them, the best first.
    pub runs: Vec<Ranked>,
}

/// A run in a round.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Ranked {
    /// Name of the run.
    pub run: String,
    /// Its best value so far; absent if it is not finite.
    pub value: Option<f64>,
    /// Whether it goes on.
    pub kept: bool,
}

/// A run that could not be made.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Failed {
    /// Name of the run.
    pub run: String,
    /// What happened.
    pub reason: String,
}

impl Search {
    /// Whether a lower value is better.
    fn is_loss(&self) -> bool {
        self.halving.metric != "validation_accuracy"
    }

    /// The best value of a finished run.
    pub(crate) fn best(&self, run: &RunRecord) -> Option<f64> {
        let values = run.curves.iter().filter_map(|point| match self.is_loss() {
            true => point.validation_loss,
            false => point.validation_accuracy,
        });
        values.min_by(|a, b| self.compare(*a, *b))
    }

    /// The better value first.
    pub(crate) fn compare(&self, a: f64, b: f64) -> Ordering {
        match self.is_loss() {
            true => a.total_cmp(&b),
            false => b.total_cmp(&a),
        }
    }

    /// All runs that were compared, those that came furthest and then the best of them first.
    pub(crate) fn runs(&self) -> Vec<&str> {
        let mut runs: Vec<&str> = Vec::new();
        for ranked in self.rounds.iter().rev().flat_map(|round| &round.runs) {
            if !runs.contains(&ranked.run.as_str()) {
                runs.push(&ranked.run);
            }
        }
        runs
    }

    /// A run's place in each round, from 0, with its value; `None` once it was dropped.
    pub(crate) fn places<'a>(&'a self, run: &str) -> Vec<Option<(usize, &'a Ranked)>> {
        let place = |round: &'a Round| {
            let mut runs = round.runs.iter().enumerate();
            runs.find(|(_, ranked)| ranked.run == run)
        };
        self.rounds.iter().map(place).collect()
    }
}
