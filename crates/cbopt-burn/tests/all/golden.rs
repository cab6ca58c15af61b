//! Reference trajectories: the tensor forms against `golden/optimizers`.
#![allow(clippy::unwrap_used)]

use burn::optim::Optimizer;
use burn::tensor::{Device, Shape, Tensor, TensorData};
use cbopt::cbo::{CboConfig, fixed::Fixed, lower::Lower, upper::Upper};
use cbopt_burn::{Cbo, TensorGap};
use golden::{Value, cases, numbers};

/// A dozen tensor operations per step in `f32`.
const TOLERANCE: f64 = 2e-5;
/// Eight roundings of `f32`, of the largest value a buffer has held.
const ROUNDING: f64 = 8.0 * 5.97e-8;
/// Below this ratio of denominator to its terms the reference itself has lost the digits of `f32`.
const CANCELLED: f64 = 1e-3;

fn tensor(values: &[f64]) -> Tensor<1> {
    let data: Vec<f32> = values.iter().map(|v| *v as f32).collect();
    Tensor::from_data(
        TensorData::new(data, Shape::new([values.len()])),
        &Device::default(),
    )
}

fn close(what: &str, got: &Tensor<1>, want: &Value, largest: &mut f64) {
    let got: Vec<f32> = got.clone().into_data().try_to_vec::<f32>().unwrap();
    let want = numbers(want);
    assert_eq!(got.len(), want.len());
    let scale = want.iter().fold(0.0f64, |m, w| m.max(w.abs()));
    let worst = got
        .iter()
        .zip(&want)
        .fold(0.0f64, |m, (g, w)| m.max((f64::from(*g) - w).abs()));
    *largest = largest.max(scale);
    let allowed = (TOLERANCE * scale).max(ROUNDING * *largest);
    assert!(
        worst <= allowed,
        "{what}: off by {worst:e}, allowed {allowed:e}"
    );
}

/// The rule of these hyper-parameters: they have the names of the config files.
fn rule<G: TensorGap>(hyper: &Value) -> Cbo<G> {
    let mut config = hyper.clone();
    let table = config.as_object_mut().unwrap();
    table.retain(|_, value| !value.is_null());
    table.entry("eps").or_insert(0.0.into());
    let config: CboConfig<G> = serde_json::from_value(config).unwrap();
    config.build().unwrap().into()
}

fn trajectory<G: TensorGap>(case: &Value) {
    let rule = rule::<G>(&case["hyper"]);
    let (lr, after) = (numbers(&case["lr"]), case["after"].as_array().unwrap());
    assert!(!after.is_empty() && after.len() == lr.len());
    let mut theta = tensor(&numbers(&case["theta0"]));
    let mut state = None;
    let mut largest = [0.0; 4];
    for (t, want) in after.iter().enumerate() {
        let grad = tensor(&numbers(&case["grads"][t]));
        (theta, state) = rule.step(lr[t], theta, grad, state);
        let state = state.as_ref().unwrap();
        let mut all = vec![
            ("theta", &theta),
            ("m", &state.momentum),
            ("h", &state.curvature),
        ];
        all.extend(state.envelope.as_ref().map(|envelope| ("c", envelope)));
        assert_eq!(all.len() == 4, want.get("c").is_some());
        for ((key, got), largest) in all.into_iter().zip(&mut largest) {
            let what = format!("{}, step {t}, {key}", case["name"]);
            close(&what, got, &want[key], largest);
        }
    }
}

#[test]
fn golden_ucbopt() {
    for case in cases("optimizers/ucbopt.json") {
        let hyper = &case["hyper"];
        let field = |name: &str| hyper[name].as_f64().unwrap();
        let (decay, vartheta) = (field("weight_decay"), field("vartheta"));
        let cancelled = case["after"].as_array().unwrap().iter().any(|state| {
            numbers(&state["h"])
                .iter()
                .any(|h| h + (decay - vartheta) < CANCELLED * (h + decay))
        });
        if cancelled {
            continue;
        }
        trajectory::<Fixed>(&case);
    }
}

#[test]
fn golden_ucbopt_adapt() {
    for case in cases("optimizers/ucbopt_adapt.json") {
        trajectory::<Upper>(&case);
    }
}

#[test]
fn golden_lcbopt_adapt() {
    for case in cases("optimizers/lcbopt_adapt.json") {
        trajectory::<Lower>(&case);
    }
}
