//! Reference trajectories: the tensor forms against `golden/optimizers`.
#![allow(clippy::unwrap_used)]

use burn::optim::Optimizer;
use burn::tensor::{Device, Tensor};
use cbopt::cbo::{CboConfig, fixed::Fixed, lower::Lower, upper::Upper};
use cbopt_burn::{Cbo, TensorGap};
use golden::optimizers::{Course, hyper_parameters, is_cancelled, steps};
use golden::{Value, cases, singles};

/// A dozen tensor operations per step in `f32`.
const TOLERANCE: f64 = 2e-5;

fn tensor(values: &Value) -> Tensor<1> {
    Tensor::from_floats(singles(values).as_slice(), &Device::default())
}

fn trajectory<G: TensorGap>(case: &Value) {
    let config: CboConfig<G> = serde_json::from_value(hyper_parameters(case)).unwrap();
    let rule = Cbo::from(config.build().unwrap());
    let mut theta = tensor(&case["theta0"]);
    let mut state = None;
    let mut courses: [Course; 4] = Default::default();
    for (t, lr, want) in steps(case) {
        (theta, state) = rule.step(lr, theta, tensor(&case["grads"][t]), state);
        let state = state.as_ref().unwrap();
        let mut all = vec![
            ("theta", &theta),
            ("m", &state.momentum),
            ("h", &state.curvature),
        ];
        all.extend(state.envelope.as_ref().map(|envelope| ("c", envelope)));
        assert_eq!(all.len() == 4, want.get("c").is_some());
        for ((key, got), course) in all.into_iter().zip(&mut courses) {
            let what = format!("{}, step {t}, {key}", case["name"]);
            let got: Vec<f32> = got.to_data().try_to_vec().unwrap();
            course.assert_close(&what, &got, &want[key], TOLERANCE);
        }
    }
}

#[test]
fn golden_ucbopt() {
    for case in cases("optimizers/ucbopt.json") {
        if !is_cancelled(&case) {
            trajectory::<Fixed>(&case);
        }
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
