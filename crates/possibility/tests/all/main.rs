//! The crate from the outside: golden numbers computed with 40 digits, and the laws of the
//! families.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod families;
mod family_laws;
mod finite_bounds;
mod functions;
mod logistic_1d;
mod newton_1d;
mod prediction;

use golden::{Value, assert_within, number};

/// Both sides are closed forms: a few roundings apart.
const CLOSED_FORM: f64 = 1e-12;
/// One side is a root or an extremum.
const NUMERICAL: f64 = 1e-9;

/// The cases of `possibility/<name>.json`.
fn cases(name: &str) -> Vec<Value> {
    golden::cases(&format!("possibility/{name}.json"))
}

/// Within `tolerance · max(|want|, 1)`: for values that may be zero up to rounding.
#[track_caller]
fn assert_absolute(what: &str, got: f64, want: &Value, tolerance: f64) {
    let want = number(want);
    assert_within(what, &[got], &[want], tolerance * want.abs().max(1.0));
}
