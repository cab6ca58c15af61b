//! Valid possibilities by simulation: how many data sets, from which seed, and what the answer says
//! of them.

use plot::text::significant;
use possibility::Credence;
use possibility::simulated::{EstimatedCredence, Simulation};
use random::Stream;
use serde_json::{Value, json};

use crate::user_error::UserError;

/// Data sets to simulate.
#[derive(Debug, Clone, Copy)]
pub struct Simulations {
    /// How many for each value.
    pub draws: usize,
    /// The same seed gives the same answer.
    pub seed: u64,
}

impl Default for Simulations {
    fn default() -> Self {
        Self {
            draws: 999,
            seed: 0,
        }
    }
}

impl Simulations {
    /// Refuses levels that so few data sets cannot resolve: no estimate is below `1/(N + 1)`.
    ///
    /// # Errors
    /// There is such a level.
    pub fn check(&self, alphas: &[f64]) -> Result<(), UserError> {
        let least = (self.draws as f64 + 1.0).recip();
        match alphas.iter().find(|alpha| **alpha <= least) {
            None => Ok(()),
            Some(alpha) => Err(UserError::new(format!(
                "--simulations: {} cannot resolve the level {}; more than {} are needed",
                self.draws,
                significant(*alpha),
                significant(alpha.recip() - 1.0)
            ))),
        }
    }

    /// Works with the numbers of the seed.
    pub fn with<T>(&self, work: impl FnOnce(Simulation<'_>) -> T) -> T {
        let stream = Stream::named(self.seed, "valid");
        let uniform = |draw: usize, index: usize| stream.part(draw as u64).uniform(index as u64);
        work(Simulation {
            draws: self.draws,
            uniform: &uniform,
        })
    }
}

/// What was simulated for a report.
#[derive(Debug, Clone, Copy)]
pub struct Simulated {
    /// The data sets.
    pub simulations: Simulations,
    /// The largest number of them behind one estimate that had to be counted as agreeing no better.
    pub unresolved: usize,
    /// What stands at its most possible value while another number is asked for; `None` if nothing
    /// had to.
    pub held: Option<&'static str>,
}

impl Simulated {
    /// For programs.
    pub fn json(&self) -> Value {
        json!({
            "simulations": self.simulations.draws,
            "seed": self.simulations.seed,
            "unresolved": self.unresolved,
            "approximate": self.held.is_some(),
        })
    }

    /// For the title of a picture.
    pub fn label(&self) -> &'static str {
        match self.held {
            Some(_) => ", simulated, approximate",
            None => ", simulated",
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let Simulations { draws, seed } = self.simulations;
        let mut text = format!(
            "(simulated: {draws} data sets for each value, seed {seed}; after ±, the standard error \
             of the simulation"
        );
        if let Some(held) = self.held {
            text.push_str(&format!(
                ";\napproximate: while one number is asked for, {held} stand at their most possible \
                 values"
            ));
        }
        if self.unresolved > 0 {
            text.push_str(&format!(
                ";\nup to {} data sets could not be resolved and count as agreeing no better",
                self.unresolved
            ));
        }
        text.push_str(")\n");
        text
    }
}

/// The answer to an event: `Π(A)`, `N(A)` and, where they were simulated, their standard errors.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// `Π(A)` and `N(A)`.
    pub credence: Credence,
    /// The errors, in the same order.
    pub errors: Option<[f64; 2]>,
}

impl From<Credence> for Measured {
    fn from(credence: Credence) -> Self {
        Self {
            credence,
            errors: None,
        }
    }
}

impl From<EstimatedCredence> for Measured {
    fn from(estimated: EstimatedCredence) -> Self {
        let EstimatedCredence {
            possibility,
            necessity,
        } = estimated;
        Self {
            credence: Credence {
                possibility: possibility.value,
                necessity: necessity.value,
            },
            errors: Some([possibility.error, necessity.error]),
        }
    }
}
