//! Reference trajectories and rates: `golden/optimizers/*.json` and `golden/schedules.json`.

#![allow(clippy::unwrap_used)]

use cbopt::{
    Coordinate, Executor, HessianEstimate, Isa, Rule, RuleConfig, ScheduleConfig, State, Update,
};
use golden::optimizers::{Course, hyper_parameters, is_cancelled, steps};
use golden::{Value, assert_close, cases, matrix, number, numbers, singles};

/// A dozen elementwise steps in `f64`; only the order of operations differs.
const TWIN: f64 = 1e-12;
/// The same in `f32`.
const FUSED: f64 = 1e-5;
/// With ϑ = δ and h far below δ, `h + δ - ϑ` of the reference is what a cancellation leaves: `f64`
/// is good to 1e-8.
const TWIN_CANCELLED: f64 = 1e-8;
/// Rates in units of the base rate.
const RATE: f64 = 1e-12;

/// The rule of a case.
fn rule(kind: &str, case: &Value) -> Rule {
    let mut config = hyper_parameters(case);
    config["rule"] = kind.replace('_', "-").into();
    let config: RuleConfig = serde_json::from_value(config).unwrap();
    config.build().unwrap()
}

/// One number of a coordinate.
type Part = fn(&Coordinate) -> f64;

fn check_coordinates(name: &str, got: &[Coordinate], want: &Value, tolerance: f64) {
    let parts: [(&str, Part); 4] = [
        ("theta", |x| x.theta),
        ("m", |x| x.momentum),
        ("h", |x| x.curvature),
        ("c", |x| x.envelope),
    ];
    for (key, part) in parts {
        if let Some(want) = want.get(key) {
            let got: Vec<f64> = got.iter().map(part).collect();
            assert_close(&format!("{name}, {key}"), &got, &numbers(want), tolerance);
        }
    }
}

/// Compares parameters, momentum, curvature and envelope, each with its course so far.
fn check_state(name: &str, courses: &mut [Course; 4], params: &[f32], state: &State, want: &Value) {
    let parts = [
        ("theta", params),
        ("m", state.momentum()),
        ("h", state.curvature()),
        ("c", state.envelope()),
    ];
    for ((key, got), course) in parts.into_iter().zip(courses) {
        if let Some(want) = want.get(key) {
            course.assert_close(&format!("{name}, {key}"), got, want, FUSED);
        }
    }
}

fn trajectories(kind: &str) {
    for case in cases(&format!("optimizers/{kind}.json")) {
        let name = format!("{kind} {}", case["name"]);
        let rule = rule(kind, &case);
        let (grads, cancelled) = (&case["grads"], is_cancelled(&case));

        let theta = numbers(&case["theta0"]).into_iter();
        let mut twin: Vec<Coordinate> = theta.map(|theta| rule.coordinate(theta)).collect();
        let tolerance = if cancelled { TWIN_CANCELLED } else { TWIN };
        for (t, lr, want) in steps(&case) {
            for (x, g) in twin.iter_mut().zip(numbers(&grads[t])) {
                rule.step_scalar(lr, t as u64 + 1, g, 0.0, x);
            }
            check_coordinates(&format!("{name}, twin, step {t}"), &twin, want, tolerance);
        }

        // The reference is no use for `f32` where its own denominator has lost the digits.
        if cancelled {
            continue;
        }
        for isa in Isa::available() {
            let executor = Executor::single().isa(isa);
            let mut courses = Default::default();
            let mut params = singles(&case["theta0"]);
            let mut state = rule.state(params.len());
            for (t, lr, want) in steps(&case) {
                let grads = singles(&grads[t]);
                rule.step_on(&executor, lr, &mut params, &grads, &mut state)
                    .unwrap();
                let name = format!("{name}, {}, step {t}", isa.name());
                check_state(&name, &mut courses, &params, &state, want);
            }
        }
    }
}

#[test]
fn golden_ucbopt() {
    trajectories("ucbopt");
}

#[test]
fn golden_ucbopt_adapt() {
    trajectories("ucbopt_adapt");
}

#[test]
fn golden_lcbopt_adapt() {
    trajectories("lcbopt_adapt");
}

#[test]
fn golden_sgd() {
    trajectories("sgd");
}

#[test]
fn golden_adamw() {
    trajectories("adamw");
}

/// The twin; the update loops take the reference's noise in the tests of the rule itself.
#[test]
fn golden_ivon() {
    for case in cases("optimizers/ivon.json") {
        let name = format!("ivon {}", case["name"]);
        let Rule::Ivon(rule) = rule("ivon", &case) else {
            panic!("the rule is ivon")
        };
        let samples = rule.config().mc_samples as usize;
        let price = rule.config().hessian == HessianEstimate::Price;

        let theta = numbers(&case["theta0"]).into_iter();
        let mut twin: Vec<Coordinate> = theta.map(|theta| rule.coordinate(theta)).collect();
        for (t, lr, want) in steps(&case) {
            let (z, grads) = (matrix(&case["z"][t]), matrix(&case["grads"][t]));
            assert_eq!(grads.len(), samples);
            let sampled = matrix(&want["sampled"]);
            for k in 0..samples {
                let pairs = twin.iter().zip(&z[k]);
                let got: Vec<f64> = pairs.map(|(x, z)| rule.perturb_scalar(*z, x)).collect();
                let what = format!("{name}, twin, sample {k} of step {t}");
                assert_close(&what, &got, &sampled[k], TWIN);
            }
            for (i, x) in twin.iter_mut().enumerate() {
                let mean =
                    |f: &dyn Fn(usize) -> f64| (0..samples).map(f).sum::<f64>() / samples as f64;
                let gradient = mean(&|k| grads[k][i]);
                let second = mean(&|k| grads[k][i] * if price { z[k][i] } else { grads[k][i] });
                rule.step_scalar(lr, t as u64 + 1, gradient, second, x);
            }
            check_coordinates(&format!("{name}, twin, step {t}"), &twin, want, TWIN);
        }
    }
}

#[test]
fn golden_schedules() {
    for case in cases("schedules.json") {
        let epochs = |name: &str| number(&case[name]) as u64;
        let (lr, lr_final) = (number(&case["lr"]), number(&case["lr_final"]));
        let config = match case["kind"].as_str().expect("a kind") {
            "warmup_cosine" => ScheduleConfig::WarmupCosine {
                warmup: epochs("warmup_epochs"),
                lr_final,
                per_step: false,
            },
            "swag_text" => ScheduleConfig::Swag {
                start: epochs("swag_start"),
                lr_final,
                swag_lr: number(&case["swag_lr"]),
            },
            other => panic!("unknown schedule {other}"),
        };
        let schedule = config.build(lr, epochs("epochs")).unwrap();
        let mut want = numbers(&case["lr_per_epoch"]);
        assert_eq!(want.len() as u64, epochs("epochs"), "{}", case["name"]);
        want.extend(case.get("lr_after_last_epoch").map(number));
        for (epoch, want) in want.into_iter().enumerate() {
            let got = schedule.rate(epoch as u64);
            assert!(
                (got - want).abs() <= RATE * lr,
                "{}, epoch {epoch}: {got} {want}",
                case["name"]
            );
        }
    }
}
