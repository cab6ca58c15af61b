//! The precisions `Λ` of what a rule learned, around the weights it found:
//! `g(θ) = exp(-½ Σ Λᵢ (θᵢ-mᵢ)²)`.
//!
//! Rules work on the mean loss of `N` examples, so that all of these have the factor `N` (for
//! `ivon` its effective sample size):
//!
//! | rule | `Λ/N` | from the state |
//! |---|---|---|
//! | `ucbopt` | ϑ, the candidate's curvature; `h + δ` where ϑ is 0 | `h`, where ϑ is 0 |
//! | `ucbopt-adapt`, `lcbopt-adapt` | `γ c`, the candidate's curvature | `c` |
//! | `ivon` | `h + δ`, the precision of its samples | `h` |
//! | `adamw` | `h/(1-β₂ᵗ) + δ`, its second moment and its decay | `h` |
//! | `sgd` | δ, its decay | |
//!
//! Only the first three rows are a candidate of consistency bound optimization; the others stand
//! in for one.

use crate::error::{Error, Result};
use crate::rule::Rule;
use crate::state::State;
use crate::update::{bias_correction, check_state};

/// Precisions of the weights.
#[derive(Debug, Clone, PartialEq)]
pub enum Precision {
    /// The same for all of them.
    Common(f64),
    /// One for each.
    Each(Vec<f32>),
}

impl Precision {
    /// All of them times a number.
    pub fn scaled(self, factor: f64) -> Self {
        match self {
            Self::Common(value) => Self::Common(value * factor),
            Self::Each(mut values) => {
                let scale = |value: &mut f32| *value = (f64::from(*value) * factor) as f32;
                values.iter_mut().for_each(scale);
                Self::Each(values)
            }
        }
    }
}

impl Rule {
    /// Whether the [precision](Rule::precision) takes the state.
    pub fn precision_needs_state(&self) -> bool {
        match self {
            Self::UpperCbo(rule) => rule.config().gap.vartheta == 0.0,
            Self::Sgd(_) => false,
            _ => true,
        }
    }

    /// The precisions of what was learned from so many examples, with the state at these weights
    /// where it is needed.
    ///
    /// ```
    /// use cbopt::precision::Precision;
    /// use cbopt::{Rule, UpperCboConfig};
    /// let rule: Rule = UpperCboConfig::default().build()?.into();
    /// assert_eq!(rule.precision(54_000, None)?, Precision::Common(54_000.0 * 8e-6));
    /// # Ok::<(), cbopt::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Missing`] without a state that is needed, [`Error::WrongRule`] for that of another
    /// rule.
    pub fn precision(&self, examples: usize, state: Option<&State>) -> Result<Precision> {
        let count = examples as f64;
        let state = match state {
            Some(state) => {
                check_state(self, state)?;
                Some(state)
            }
            None if self.precision_needs_state() => {
                let field = "the state of the rule at these weights";
                return Err(Error::Missing { field });
            }
            None => None,
        };
        let each = |read: fn(&State) -> &[f32], of: &dyn Fn(f64) -> f64| {
            let values = state.map(read).unwrap_or_default();
            Precision::Each(values.iter().map(|&v| of(f64::from(v)) as f32).collect())
        };
        Ok(match self {
            Self::UpperCbo(rule) => {
                let config = rule.config();
                if config.gap.vartheta > 0.0 {
                    return Ok(Precision::Common(count * config.gap.vartheta));
                }
                each(State::curvature, &|h| count * (h + config.weight_decay))
            }
            Self::UpperAdaptCbo(rule) => {
                let gamma = rule.config().gap.gamma;
                each(State::envelope, &|c| count * gamma * c)
            }
            Self::LowerAdaptCbo(rule) => {
                let gamma = rule.config().gap.gamma;
                each(State::envelope, &|c| count * gamma * c)
            }
            Self::Ivon(rule) => {
                let (ess, decay) = (rule.ess(), rule.config().weight_decay);
                each(State::curvature, &|h| ess * (h + decay))
            }
            Self::AdamW(rule) => {
                let config = rule.config();
                let steps = state.map_or(0, State::steps).max(1);
                let correction = bias_correction(config.beta2, steps);
                each(State::curvature, &|h| {
                    count * (h / correction + config.weight_decay)
                })
            }
            Self::Sgd(rule) => Precision::Common(count * rule.config().weight_decay),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RuleConfig, Update};

    /// Every rule after steps with the gradients 0.3, -0.2 on one weight; the state is told by the
    /// twin, the formula by hand.
    #[test]
    fn precisions_by_hand() {
        for id in RuleConfig::IDS {
            let mut config = RuleConfig::by_id(id).unwrap();
            config.fill_examples(500);
            let rule = config.build().unwrap();
            let mut state = rule.state(1);
            let (mut theta, mut twin) = ([0.7f32], rule.coordinate(0.7));
            for (t, g) in [0.3, -0.2].into_iter().enumerate() {
                if id == "ivon" {
                    break; // draws its own points; its state begins with h₀ = 1
                }
                rule.step(0.01, &mut theta, &[g as f32], &mut state)
                    .unwrap();
                rule.step_scalar(0.01, t as u64 + 1, g, 0.0, &mut twin);
            }
            let want = match id {
                "ucbopt" => 500.0 * 8e-6,
                "ucbopt-adapt" => 500.0 * 0.9 * twin.envelope,
                "lcbopt-adapt" => 500.0 * 1.02 * twin.envelope,
                "sgd" => 500.0 * 2e-4,
                // (0.999·0.001·0.09 + 0.001·0.04) / (1 - 0.999²) is the mean square
                "adamw" => {
                    let h = (0.999 * 0.09 + 0.04) * 1e-3 / (1.0 - 0.999f64.powi(2));
                    500.0 * (h + 2e-4)
                }
                _ => 500.0 * (1.0 + 1e-4),
            };
            let found = match rule.precision(500, Some(&state)).unwrap() {
                Precision::Common(value) => value,
                Precision::Each(values) => f64::from(values[0]),
            };
            assert!((found / want - 1.0).abs() < 1e-5, "{id}: {found} {want}");
            let without = rule.precision(500, None);
            assert_eq!(without.is_err(), rule.precision_needs_state(), "{id}");
        }
    }

    #[test]
    fn without_a_candidate_the_curvature_stands_in() {
        let mut config = crate::UpperCboConfig::default();
        config.gap.vartheta = 0.0;
        let rule: Rule = config.build().unwrap().into();
        let found = rule.precision(100, Some(&rule.state(2))).unwrap();
        let want = (100.0 * (f64::from(0.05f32) + 2e-3)) as f32;
        assert_eq!(found.scaled(2.0), Precision::Each(vec![2.0 * want; 2]));
        let other: Rule = crate::SgdConfig::default().build().unwrap().into();
        let refused = rule.precision(100, Some(&other.state(2))).unwrap_err();
        assert!(refused.to_string().contains("sgd"), "{refused}");
    }
}
