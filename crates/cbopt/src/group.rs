//! Parameter groups: neighboring ranges of one flat vector, each with its own rule, or frozen. Nothing is copied.

use std::ops::Range;

use crate::baseline::ivon::Noise;
use crate::error::{Error, Result, check_length, check_nonnegative};
use crate::executor::{Executor, NonFinite, StepReport};
use crate::rule::Rule;
use crate::state::State;
use crate::update::{SQUARE_LIMIT, Update, check_step, sealed::Advance};

/// One group of parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// The parameters of the group.
    pub range: Range<usize>,
    /// The rule of the group; none if the group is frozen.
    pub rule: Option<Rule>,
    /// Factor of the learning rate in this group, ≥ 0.
    pub lr_scale: f64,
}

/// Groups that tile a flat vector of parameters.
///
/// ```
/// use cbopt::{Executor, Groups, UpperCboConfig};
/// let weights = UpperCboConfig::default().build()?;
/// let biases = UpperCboConfig { weight_decay: 1e-5, ..Default::default() }.build()?;
/// let groups = Groups::new().rule(0..6, weights).frozen(6..8).rule(8..10, biases).build()?;
/// let mut params = vec![0.5_f32; 10];
/// let mut state = groups.state();
/// groups.step(&Executor::single(), 0.01, &mut params, &[0.1; 10], &mut state)?;
/// assert_eq!(params[6..8], [0.5, 0.5]);
/// # Ok::<(), cbopt::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Groups {
    groups: Vec<Group>,
}

/// States of all groups; a frozen group has none.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupsState {
    pub(crate) states: Vec<Option<State>>,
}

impl GroupsState {
    /// State of group `index`; none if it is frozen or does not exist.
    pub fn group(&self, index: usize) -> Option<&State> {
        self.states.get(index)?.as_ref()
    }

    /// Steps made so far.
    pub fn steps(&self) -> u64 {
        self.states
            .iter()
            .flatten()
            .map(State::steps)
            .max()
            .unwrap_or(0)
    }
}

impl Groups {
    /// No group yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a group.
    #[must_use]
    pub fn rule(self, range: Range<usize>, rule: impl Into<Rule>) -> Self {
        self.group(Group {
            range,
            rule: Some(rule.into()),
            lr_scale: 1.0,
        })
    }

    /// Adds a group whose parameters never change.
    #[must_use]
    pub fn frozen(self, range: Range<usize>) -> Self {
        self.group(Group {
            range,
            rule: None,
            lr_scale: 1.0,
        })
    }

    /// Adds a group.
    #[must_use]
    pub fn group(mut self, group: Group) -> Self {
        self.groups.push(group);
        self
    }

    /// Checks that the groups follow one another from 0 without gap or overlap.
    ///
    /// # Errors
    /// [`Error::GroupRange`] for the first group that does not start where the last one ended;
    /// [`Error::OutOfRange`] for a learning-rate factor outside `[0, inf)`.
    pub fn build(self) -> Result<Self> {
        let mut expected = 0;
        for (number, group) in self.groups.iter().enumerate() {
            let Range { start, end } = group.range;
            if start != expected || end < start {
                return Err(Error::GroupRange {
                    group: number,
                    start,
                    end,
                    expected,
                });
            }
            check_nonnegative("lr_scale", group.lr_scale)?;
            expected = end;
        }
        Ok(self)
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Number of parameters, frozen ones included.
    pub fn len(&self) -> usize {
        self.groups.last().map_or(0, |group| group.range.end)
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The states before the first step.
    pub fn state(&self) -> GroupsState {
        let state = |group: &Group| {
            group
                .rule
                .as_ref()
                .map(|rule| rule.state_at(group.range.len(), group.range.start))
        };
        GroupsState {
            states: self.groups.iter().map(state).collect(),
        }
    }

    /// One step of all groups in place.
    ///
    /// # Errors
    /// As [`crate::Update::step_on`], before anything is changed in any group; the index of an unusable gradient counts
    /// from the first parameter of the first group. [`Error::GroupCount`] for a state of other groups.
    pub fn step(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        state: &mut GroupsState,
    ) -> Result<StepReport> {
        check_nonnegative("lr", lr)?;
        check_length("params", params.len(), self.len())?;
        check_length("grads", grads.len(), self.len())?;
        check_count(self, state)?;
        for (group, state) in self.groups.iter().zip(&state.states) {
            if let Some((rule, state)) = pair(group, state.as_ref())? {
                let len = group.range.len();
                check_step(rule, lr * group.lr_scale, len, len, state)?;
            }
        }
        if executor.policy() != NonFinite::SkipCoordinates {
            for group in &self.groups {
                let Some(rule) = &group.rule else { continue };
                if !self.admit(executor, group, grads, rule.limit())? {
                    for state in state.states.iter_mut().flatten() {
                        state.skipped_steps += 1;
                    }
                    let step = state.steps();
                    return Ok(StepReport {
                        step,
                        skipped: true,
                        ..StepReport::default()
                    });
                }
            }
        }
        let mut report = StepReport::default();
        for (group, state) in self.groups.iter().zip(&mut state.states) {
            if let (Some(rule), Some(state)) = (&group.rule, state) {
                let range = group.range.clone();
                report.add(rule.advance(
                    executor,
                    lr * group.lr_scale,
                    &mut params[range.clone()],
                    &grads[range],
                    state,
                ));
            }
        }
        Ok(report)
    }

    /// [`Executor::admit`] with the index counted over all groups.
    fn admit(&self, executor: &Executor, group: &Group, grads: &[f32], limit: f32) -> Result<bool> {
        match executor.admit(&grads[group.range.clone()], limit) {
            Err(Error::NonFiniteGradient {
                index,
                value,
                limit,
            }) => {
                let index = index + group.range.start;
                Err(Error::NonFiniteGradient {
                    index,
                    value,
                    limit,
                })
            }
            other => other,
        }
    }

    /// Writes the weights of a forward pass: perturbed in the groups of `ivon`, copied in the others.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::GroupCount`] or [`Error::WrongRule`] if the arguments do not belong together.
    pub fn perturb(
        &self,
        executor: &Executor,
        params: &[f32],
        state: &GroupsState,
        noise: Noise<'_>,
        out: &mut [f32],
    ) -> Result<()> {
        check_length("params", params.len(), self.len())?;
        check_length("out", out.len(), self.len())?;
        check_count(self, state)?;
        for (group, state) in self.groups.iter().zip(&state.states) {
            let (params, out) = (&params[group.range.clone()], &mut out[group.range.clone()]);
            match (&group.rule, state) {
                (Some(Rule::Ivon(rule)), Some(state)) => {
                    rule.perturb(executor, params, state, self.part(noise, group)?, out)?;
                }
                _ => out.copy_from_slice(params),
            }
        }
        Ok(())
    }

    /// Adds the gradient of one sample that is not the last of its step; the last one goes to [`Groups::step`].
    ///
    /// Returns `false` if the sample was left out because of an unusable gradient.
    ///
    /// # Errors
    /// As [`crate::Ivon::add_sample`], before anything is changed in any group; [`Error::WrongRule`] unless every group is
    /// of `ivon` or frozen.
    pub fn add_sample(
        &self,
        executor: &Executor,
        grads: &[f32],
        noise: Noise<'_>,
        state: &mut GroupsState,
    ) -> Result<bool> {
        check_length("grads", grads.len(), self.len())?;
        check_count(self, state)?;
        for (group, state) in self.groups.iter().zip(&state.states) {
            match pair(group, state.as_ref())? {
                None => {}
                Some((Rule::Ivon(rule), state)) => {
                    rule.check_sample(group.range.len(), self.part(noise, group)?, state)?;
                }
                Some((rule, _)) => {
                    return Err(Error::WrongRule {
                        found: rule.id().into(),
                        expected: "ivon",
                    });
                }
            }
        }
        for group in self.groups.iter().filter(|group| group.rule.is_some()) {
            if !self.admit(executor, group, grads, SQUARE_LIMIT)? {
                for state in state.states.iter_mut().flatten() {
                    state.skipped_steps += 1;
                }
                return Ok(false);
            }
        }
        for (group, state) in self.groups.iter().zip(&mut state.states) {
            if let (Some(Rule::Ivon(rule)), Some(state)) = (&group.rule, state) {
                let noise = self.part(noise, group)?;
                rule.take_sample(executor, &grads[group.range.clone()], noise, state)?;
            }
        }
        Ok(true)
    }

    /// The part of given noise that belongs to a group.
    fn part<'n>(&self, noise: Noise<'n>, group: &Group) -> Result<Noise<'n>> {
        Ok(match noise {
            Noise::Given(z) => {
                check_length("noise", z.len(), self.len())?;
                Noise::Given(&z[group.range.clone()])
            }
            other => other,
        })
    }
}

fn check_count(groups: &Groups, state: &GroupsState) -> Result<()> {
    let (found, expected) = (state.states.len(), groups.groups.len());
    if found == expected {
        Ok(())
    } else {
        Err(Error::GroupCount { found, expected })
    }
}

/// Rule and state of a group; none if it is frozen.
fn pair<'a>(group: &'a Group, state: Option<&'a State>) -> Result<Option<(&'a Rule, &'a State)>> {
    match (&group.rule, state) {
        (None, None) => Ok(None),
        (Some(rule), Some(state)) => Ok(Some((rule, state))),
        (Some(rule), None) => Err(Error::WrongRule {
            found: FROZEN.into(),
            expected: rule.id(),
        }),
        (None, Some(state)) => Err(Error::WrongRule {
            found: state.rule.into(),
            expected: FROZEN,
        }),
    }
}

/// What stands in the place of a rule's identifier for a frozen group.
pub(crate) const FROZEN: &str = "frozen";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdamWConfig, IvonConfig, SgdConfig, UpperCboConfig};

    fn grouped() -> Groups {
        Groups::new()
            .rule(0..100, UpperCboConfig::default().build().unwrap())
            .frozen(100..150)
            .group(Group {
                range: 150..277,
                rule: Some(AdamWConfig::default().build().unwrap().into()),
                lr_scale: 0.5,
            })
            .rule(277..300, IvonConfig::new(100.0).build().unwrap())
            .build()
            .unwrap()
    }

    fn data(step: usize) -> Vec<f32> {
        (0..300)
            .map(|i| ((i * 31 + step * 17) % 23) as f32 / 23.0 - 0.4)
            .collect()
    }

    #[test]
    fn groups_are_their_parts() {
        let groups = grouped();
        let executor = Executor::single();
        let mut params = data(99);
        let mut state = groups.state();
        let mut alone = params.clone();
        let rules = [
            (
                0..100,
                UpperCboConfig::default().build().unwrap().into(),
                1.0,
            ),
            (
                150..277,
                Rule::from(AdamWConfig::default().build().unwrap()),
                0.5,
            ),
            (
                277..300,
                Rule::from(IvonConfig::new(100.0).build().unwrap()),
                1.0,
            ),
        ];
        let mut states: Vec<State> = rules
            .iter()
            .map(|(range, rule, _)| rule.state_at(range.len(), range.start))
            .collect();
        for step in 0..5 {
            let grads = data(step);
            let report = groups
                .step(&executor, 0.01, &mut params, &grads, &mut state)
                .unwrap();
            assert_eq!((report.step, report.coordinates), (step as u64 + 1, 250));
            for ((range, rule, scale), state) in rules.iter().zip(&mut states) {
                let lr = 0.01 * scale;
                rule.step(lr, &mut alone[range.clone()], &grads[range.clone()], state)
                    .unwrap();
            }
        }
        assert_eq!(params, alone);
        assert_eq!(params[100..150], data(99)[100..150]);
        assert!(state.group(1).is_none());
        assert_eq!(state.group(2), Some(&states[1]));
    }

    #[test]
    fn noise_does_not_depend_on_the_grouping() {
        let ivon = IvonConfig::new(100.0).build().unwrap();
        let executor = Executor::single();
        let params = data(0);
        let (mut whole, mut parts) = (vec![0.0; 300], vec![0.0; 300]);
        let one = Groups::new().rule(0..300, ivon.clone()).build().unwrap();
        let two = Groups::new()
            .rule(0..77, ivon.clone())
            .rule(77..300, ivon)
            .build()
            .unwrap();
        one.perturb(&executor, &params, &one.state(), Noise::Current, &mut whole)
            .unwrap();
        two.perturb(&executor, &params, &two.state(), Noise::Current, &mut parts)
            .unwrap();
        assert_eq!(whole, parts);
        assert_ne!(whole, params);
    }

    #[test]
    fn samples_of_groups_are_samples_of_the_whole() {
        let ivon = IvonConfig {
            mc_samples: 2,
            ..IvonConfig::new(100.0)
        }
        .build()
        .unwrap();
        let executor = Executor::single();
        let one = Groups::new().rule(0..300, ivon.clone()).build().unwrap();
        let two = Groups::new()
            .rule(0..77, ivon.clone())
            .rule(77..300, ivon)
            .build()
            .unwrap();
        let mut ends = Vec::new();
        for groups in [&one, &two] {
            let (mut params, mut state) = (data(0), groups.state());
            for step in 0..3 {
                let grads = data(2 * step + 1);
                assert_eq!(
                    groups.add_sample(&executor, &grads, Noise::Current, &mut state),
                    Ok(true)
                );
                groups
                    .step(&executor, 0.1, &mut params, &data(2 * step + 2), &mut state)
                    .unwrap();
            }
            let mut bad = data(0);
            bad[290] = f32::NAN;
            let before = state.clone();
            let refused = groups
                .add_sample(&executor, &bad, Noise::Current, &mut state)
                .unwrap_err();
            assert!(matches!(
                refused,
                Error::NonFiniteGradient { index: 290, .. }
            ));
            assert_eq!(state, before);
            ends.push(params);
        }
        assert_eq!(ends[0], ends[1]);
        let mixed = grouped();
        let refused = mixed.add_sample(&executor, &data(0), Noise::Current, &mut mixed.state());
        assert!(matches!(refused, Err(Error::WrongRule { .. })));
    }

    #[test]
    fn an_unusable_gradient_stops_all_groups_but_not_in_frozen_ones() {
        let groups = grouped();
        let mut state = groups.state();
        let mut params = data(7);
        let before = (params.clone(), state.clone());
        let mut grads = data(1);
        grads[200] = f32::NAN;
        let executor = Executor::single();
        let error = groups
            .step(&executor, 0.01, &mut params, &grads, &mut state)
            .unwrap_err();
        assert!(
            matches!(error, Error::NonFiniteGradient { index: 200, .. }),
            "{error}"
        );
        assert_eq!((&params, &state), (&before.0, &before.1));
        let skipping = Executor::single().non_finite(NonFinite::SkipStep);
        let report = groups
            .step(&skipping, 0.01, &mut params, &grads, &mut state)
            .unwrap();
        assert!(report.skipped);
        assert_eq!(params, before.0);
        assert_eq!(state.group(0).map(State::skipped_steps), Some(1));
        grads[200] = 0.0;
        grads[120] = f32::NAN;
        assert!(
            groups
                .step(&executor, 0.01, &mut params, &grads, &mut state)
                .is_ok()
        );
    }

    #[test]
    fn gaps_overlaps_and_foreign_states_are_refused() {
        let rule = || SgdConfig::default().build().unwrap();
        let gap = Groups::new()
            .rule(0..5, rule())
            .rule(6..9, rule())
            .build()
            .unwrap_err();
        assert_eq!(
            gap,
            Error::GroupRange {
                group: 1,
                start: 6,
                end: 9,
                expected: 5
            }
        );
        assert!(
            Groups::new()
                .rule(0..5, rule())
                .rule(4..9, rule())
                .build()
                .is_err()
        );
        assert!(Groups::new().rule(1..5, rule()).build().is_err());
        let groups = Groups::new().rule(0..5, rule()).build().unwrap();
        let frozen = Groups::new().frozen(0..5).build().unwrap();
        let two = Groups::new()
            .rule(0..2, rule())
            .rule(2..5, rule())
            .build()
            .unwrap();
        let executor = Executor::single();
        for mut state in [frozen.state(), two.state()] {
            assert!(
                groups
                    .step(&executor, 0.1, &mut [0.0; 5], &[0.0; 5], &mut state)
                    .is_err()
            );
        }
        assert!(
            frozen
                .step(
                    &executor,
                    0.1,
                    &mut [0.0; 5],
                    &[0.0; 5],
                    &mut groups.state()
                )
                .is_err()
        );
    }
}
