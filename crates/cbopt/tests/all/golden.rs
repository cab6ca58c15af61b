//! Reference trajectories and rates: `golden/optimizers/*.json` and `golden/schedules.json`.

#![allow(clippy::unwrap_used)]

use cbopt::{
    Coordinate, Executor, HessianEstimate, Isa, Ivon, IvonConfig, Rule, RuleConfig, ScheduleConfig,
    State, Update,
};
use golden::{Value, cases, matrix, number, numbers};

/// A dozen elementwise steps in `f64`; only the order of operations differs.
const TWIN: f64 = 1e-12;
/// The same in `f32`.
const FUSED: f64 = 1e-5;
/// Eight roundings of `f32`, of the largest value a buffer has held.
const ROUNDING: f64 = 8.0 * 5.97e-8;
/// With ϑ = δ and h far below δ, `h + δ - ϑ` of the reference is what a cancellation leaves: `f64`
/// is good to 1e-8.
const TWIN_CANCELLED: f64 = 1e-8;
/// Below this ratio of denominator to its terms the reference itself has lost the digits of `f32`.
const CANCELLED: f64 = 1e-3;
/// Rates in units of the base rate.
const RATE: f64 = 1e-12;

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|v| *v as f32).collect()
}

fn field(hyper: &Value, name: &str) -> f64 {
    number(
        hyper
            .get(name)
            .unwrap_or_else(|| panic!("hyper-parameter {name}")),
    )
}

fn optional(hyper: &Value, name: &str) -> Option<f64> {
    hyper.get(name).filter(|v| !v.is_null()).map(number)
}

fn flag(hyper: &Value, name: &str) -> bool {
    hyper
        .get(name)
        .is_some_and(|v| v.as_bool().expect("a truth value"))
}

/// The rule of these hyper-parameters: they have the names of the config files.
fn rule(kind: &str, hyper: &Value) -> Rule {
    let mut config = hyper.clone();
    let table = config.as_object_mut().expect("a table");
    table.retain(|_, value| !value.is_null());
    table.insert("rule".into(), kind.replace('_', "-").into());
    if table.contains_key("eps_policy") {
        table.entry("eps").or_insert(0.0.into());
    }
    let config: RuleConfig = serde_json::from_value(config).unwrap();
    config.build().unwrap()
}

/// Largest magnitude of one quantity up to some step.
///
/// A vector is compared as `max|got - want| / max|want|`. A short vector may pass through zero as a
/// whole; then it holds the rounding of the values it came from, which no `f32` form can avoid, so
/// [`ROUNDING`] of those is always allowed.
#[derive(Default)]
struct Scale {
    largest: f64,
}

impl Scale {
    /// Checks a vector; where all of `want` is zero so far, absolutely.
    fn check(&mut self, what: &str, got: &[f64], want: &[f64], tolerance: f64, rounding: f64) {
        assert_eq!(got.len(), want.len(), "{what}");
        let (mut worst, mut scale) = (0.0f64, 0.0f64);
        for (g, w) in got.iter().zip(want) {
            if w.is_infinite() {
                assert_eq!(g, w, "{what}");
                continue;
            }
            assert!(g.is_finite(), "{what}: got {g}, want {w}");
            worst = worst.max((g - w).abs());
            scale = scale.max(w.abs());
        }
        self.largest = self.largest.max(scale);
        let allowed = if self.largest == 0.0 {
            tolerance
        } else {
            (tolerance * scale).max(rounding * self.largest)
        };
        assert!(
            worst <= allowed,
            "{what}: off by {worst:e}, allowed {allowed:e}"
        );
    }
}

/// The same for one vector alone.
fn close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    Scale::default().check(what, got, want, tolerance, 0.0);
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|v| f64::from(*v)).collect()
}

/// Whether the denominator of the reference is the small remainder of a cancellation at some step.
fn cancelled(kind: &str, hyper: &Value, after: &[Value]) -> bool {
    if kind != "ucbopt" {
        return false;
    }
    let (decay, vartheta) = (field(hyper, "weight_decay"), field(hyper, "vartheta"));
    after
        .iter()
        .flat_map(|state| numbers(&state["h"]))
        .any(|h| h + (decay - vartheta) < CANCELLED * (h + decay))
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
            close(&format!("{name}, {key}"), &got, &numbers(want), tolerance);
        }
    }
}

/// Scales of parameters, momentum, curvature and envelope over one trajectory.
type Scales = [Scale; 4];

fn check_state(name: &str, scales: &mut Scales, params: &[f32], state: &State, want: &Value) {
    let parts = [
        ("theta", params),
        ("m", state.momentum()),
        ("h", state.curvature()),
        ("c", state.envelope()),
    ];
    for ((key, got), scale) in parts.into_iter().zip(scales) {
        if let Some(want) = want.get(key) {
            scale.check(
                &format!("{name}, {key}"),
                &widen(got),
                &numbers(want),
                FUSED,
                ROUNDING,
            );
        }
    }
}

fn trajectories(kind: &str) {
    for case in cases(&format!("optimizers/{kind}.json")) {
        let name = format!("{kind} {}", case["name"]);
        let rule = rule(kind, &case["hyper"]);
        let (lr, grads, theta) = (
            numbers(&case["lr"]),
            matrix(&case["grads"]),
            numbers(&case["theta0"]),
        );
        let after = case["after"].as_array().expect("states");
        assert!(
            !after.is_empty() && after.len() == lr.len() && lr.len() == grads.len(),
            "{name}"
        );
        let cancelled = cancelled(kind, &case["hyper"], after);

        let mut twin: Vec<Coordinate> = theta.iter().map(|t| rule.coordinate(*t)).collect();
        let tolerance = if cancelled { TWIN_CANCELLED } else { TWIN };
        for (t, want) in after.iter().enumerate() {
            for (x, g) in twin.iter_mut().zip(&grads[t]) {
                rule.step_scalar(lr[t], t as u64 + 1, *g, 0.0, x);
            }
            check_coordinates(&format!("{name}, twin, step {t}"), &twin, want, tolerance);
        }

        // The reference is no use for `f32` where its own denominator has lost the digits.
        if cancelled {
            continue;
        }
        for isa in Isa::available() {
            let executor = Executor::single().isa(isa);
            let mut scales = Scales::default();
            let mut params = narrow(&theta);
            let mut state = rule.state(params.len());
            for (t, want) in after.iter().enumerate() {
                rule.step_on(
                    &executor,
                    lr[t],
                    &mut params,
                    &narrow(&grads[t]),
                    &mut state,
                )
                .unwrap();
                let name = format!("{name}, {}, step {t}", isa.name());
                check_state(&name, &mut scales, &params, &state, want);
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

fn ivon(hyper: &Value) -> Ivon {
    let hessian = match hyper["hess_approx"].as_str().expect("a name") {
        "price" => HessianEstimate::Price,
        "gradsq" => HessianEstimate::SquaredGradient,
        other => panic!("unknown Hessian estimate {other}"),
    };
    let config = IvonConfig {
        hess_init: field(hyper, "hess_init"),
        weight_decay: field(hyper, "weight_decay"),
        beta1: field(hyper, "beta1"),
        beta2: field(hyper, "beta2"),
        mc_samples: field(hyper, "mc_samples") as u32,
        hessian,
        clip_radius: optional(hyper, "clip_radius"),
        rescale_lr: flag(hyper, "rescale_lr"),
        debias: flag(hyper, "debias"),
        ..IvonConfig::new(field(hyper, "ess"))
    };
    config.build().unwrap()
}

/// The twin; the update loops take the reference's noise in the tests of the rule itself.
#[test]
fn golden_ivon() {
    for case in cases("optimizers/ivon.json") {
        let name = format!("ivon {}", case["name"]);
        let rule = ivon(&case["hyper"]);
        let samples = rule.config().mc_samples as usize;
        let price = rule.config().hessian == HessianEstimate::Price;
        let (lr, theta) = (numbers(&case["lr"]), numbers(&case["theta0"]));
        let cube = |key: &str| -> Vec<Vec<Vec<f64>>> {
            case[key]
                .as_array()
                .expect("a list")
                .iter()
                .map(matrix)
                .collect()
        };
        let (z, grads) = (cube("z"), cube("grads"));
        let after = case["after"].as_array().expect("states");
        assert!(
            !after.is_empty() && after.len() == lr.len() && lr.len() == grads.len(),
            "{name}"
        );

        let mut twin: Vec<Coordinate> = theta.iter().map(|t| rule.coordinate(*t)).collect();
        for (t, want) in after.iter().enumerate() {
            assert_eq!(grads[t].len(), samples);
            let sampled = matrix(&want["sampled"]);
            for k in 0..samples {
                let got: Vec<f64> = twin
                    .iter()
                    .zip(&z[t][k])
                    .map(|(x, z)| rule.perturb_scalar(*z, x))
                    .collect();
                close(
                    &format!("{name}, twin, sample {k} of step {t}"),
                    &got,
                    &sampled[k],
                    TWIN,
                );
            }
            for (i, x) in twin.iter_mut().enumerate() {
                let mean =
                    |f: &dyn Fn(usize) -> f64| (0..samples).map(f).sum::<f64>() / samples as f64;
                let gradient = mean(&|k| grads[t][k][i]);
                let second =
                    mean(&|k| grads[t][k][i] * if price { z[t][k][i] } else { grads[t][k][i] });
                rule.step_scalar(lr[t], t as u64 + 1, gradient, second, x);
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
