//! The trajectories of `optimizers/`: what their hyper-parameters are, and how close arithmetic in
//! `f32` comes to them.

use crate::{Value, assert_within, largest, number, numbers, wide};

/// Eight roundings of `f32`, of the largest value a vector has held.
const ROUNDING: f64 = 8.0 * 5.97e-8;
/// Below this ratio of denominator to its terms the reference itself has lost the digits of `f32`.
const CANCELLED: f64 = 1e-3;

/// The hyper-parameters of a case, as config files name them.
///
/// # Panics
/// If they are no table.
pub fn hyper_parameters(case: &Value) -> Value {
    let mut config = case["hyper"].clone();
    let table = config.as_object_mut().expect("a table");
    table.retain(|_, value| !value.is_null());
    if table.contains_key("eps_policy") {
        table.entry("eps").or_insert(0.0.into());
    }
    if let Some(estimate) = table.remove("hess_approx") {
        let is_squared = estimate == "gradsq";
        let id = if is_squared {
            "squared-gradient".into()
        } else {
            estimate
        };
        table.insert("hessian".into(), id);
    }
    config
}

/// Learning rates and the states after each step, of which there is at least one.
///
/// # Panics
/// If there are not as many of one as of the other.
pub fn steps(case: &Value) -> impl Iterator<Item = (usize, f64, &Value)> {
    let (lr, after) = (numbers(&case["lr"]), crate::list(&case["after"]));
    assert!(!after.is_empty() && after.len() == lr.len());
    let steps = lr.into_iter().zip(after).enumerate();
    steps.map(|(step, (lr, after))| (step, lr, after))
}

/// Whether the denominator `h + δ - ϑ` of the reference is the small remainder of a cancellation at
/// some step, so that it is no use for `f32`; only that of `ucbopt` can be one.
pub fn is_cancelled(case: &Value) -> bool {
    let hyper = &case["hyper"];
    let Some(vartheta) = hyper.get("vartheta") else {
        return false;
    };
    let (decay, vartheta) = (number(&hyper["weight_decay"]), number(vartheta));
    steps(case)
        .flat_map(|(_, _, state)| numbers(&state["h"]))
        .any(|h| h + (decay - vartheta) < CANCELLED * (h + decay))
}

/// One vector over the steps of a trajectory, in `f32`: the largest magnitude it has held.
///
/// A vector is compared as `max|got - want| / max|want|`. A short vector may pass through zero as a
/// whole; then it holds the rounding of the values it came from, which no `f32` form can avoid, so
/// eight roundings of those are always allowed.
#[derive(Debug, Default)]
pub struct Course(f64);

impl Course {
    /// Fails if the vector is further off at the next step.
    ///
    /// # Panics
    /// As [`assert_within`].
    #[track_caller]
    pub fn assert_close(&mut self, what: &str, got: &[f32], want: &Value, tolerance: f64) {
        let (got, want) = (wide(got), numbers(want));
        let scale = largest(&want);
        self.0 = self.0.max(scale);
        assert_within(
            what,
            &got,
            &want,
            (tolerance * scale).max(ROUNDING * self.0),
        );
    }
}
