//! One table of rules, one suite: every row passes every test.

#![allow(clippy::unwrap_used)]

use cbopt::cbo::fixed::Fixed;
use cbopt::cbo::lower::{Decay, Lower};
use cbopt::cbo::upper::{Growth, Upper};
use cbopt::cbo::{CboConfig, Gap};
use cbopt::noise::{NoiseKey, fill_normal};
use cbopt::{
    AdamWConfig, Coordinate, EpsPolicy, Error, Executor, HessianEstimate, Isa, IvonConfig,
    LowerAdaptCboConfig, NonFinite, Optimizer, Rule, RuleConfig, SgdConfig, State, StepReport,
    Update, UpperAdaptCboConfig, UpperCboConfig,
};
use proptest::prelude::*;

/// A dozen elementwise operations per step in `f32`, a few steps.
const FUSED: f64 = 1e-5;

/// A row: a name, the rule, and learning rates that suit it on the parabola and on Rosenbrock's
/// function.
struct Row {
    name: &'static str,
    rule: Rule,
    parabola: f64,
    rosenbrock: f64,
}

/// Hyper-parameters where every term shows.
fn table() -> Vec<Row> {
    use RuleConfig::{AdamW, Ivon, LowerAdaptCbo, Sgd, UpperAdaptCbo, UpperCbo};
    let row = |name, config: RuleConfig, parabola, rosenbrock| Row {
        name,
        rule: config.build().unwrap(),
        parabola,
        rosenbrock,
    };
    let upper = UpperCboConfig {
        beta1: 0.8,
        beta2: 0.97,
        weight_decay: 0.01,
        hess_init: 0.3,
        gap: Fixed { vartheta: 0.004 },
        ..Default::default()
    };
    let upper_adapt = UpperAdaptCboConfig {
        beta1: 0.8,
        beta2: 0.97,
        envelope: Growth { beta3: 1.02 },
        weight_decay: 0.01,
        hess_init: 0.3,
        gap: Upper { gamma: 0.6 },
        ..Default::default()
    };
    let lower_adapt = LowerAdaptCboConfig {
        beta1: 0.8,
        beta2: 0.97,
        envelope: Decay { beta3: 0.98 },
        weight_decay: 0.01,
        hess_init: 0.3,
        gap: Lower { gamma: 1.4 },
        ..Default::default()
    };
    let no_candidate = with(upper, |c| c.gap.vartheta = 0.0);
    let released = with(upper, |c| {
        c.eps_policy = EpsPolicy::Clamp;
        c.clip_radius = Some(2.0);
        c.rescale_lr = true;
    });
    let sgd = SgdConfig {
        momentum: 0.8,
        weight_decay: 0.001,
        nesterov: false,
    };
    let nesterov = with(sgd, |c| c.nesterov = true);
    let no_momentum = with(sgd, |c| c.momentum = 0.0);
    let ivon = IvonConfig {
        beta1: 0.8,
        beta2: 0.9999,
        weight_decay: 0.01,
        hess_init: 0.5,
        seed: 11,
        ..IvonConfig::new(1e4)
    };
    let squared = with(ivon, |c| {
        c.hessian = HessianEstimate::SquaredGradientUnscaled;
        c.clip_radius = Some(3.0);
    });
    let adapt_released = UpperAdaptCbo(upper_adapt.as_released());
    vec![
        row("ucbopt", UpperCbo(upper), 0.05, 0.02),
        row("ucbopt, vartheta 0", UpperCbo(no_candidate), 0.05, 0.02),
        row("ucbopt, released", UpperCbo(released), 0.1, 0.05),
        row("ucbopt-adapt", UpperAdaptCbo(upper_adapt), 0.02, 0.01),
        row("ucbopt-adapt, released", adapt_released, 0.02, 0.01),
        row("lcbopt-adapt", LowerAdaptCbo(lower_adapt), 0.02, 0.01),
        row("sgd", Sgd(sgd), 0.05, 2e-4),
        row("sgd, nesterov", Sgd(nesterov), 0.05, 2e-4),
        row("sgd, no momentum", Sgd(no_momentum), 0.1, 1e-3),
        row("adamw", AdamW(AdamWConfig::default()), 0.05, 0.02),
        row("ivon", Ivon(ivon), 0.1, 0.03),
        row("ivon, squared gradient", Ivon(squared), 0.1, 0.02),
    ]
}

fn with<C>(mut config: C, change: impl FnOnce(&mut C)) -> C {
    change(&mut config);
    config
}

fn minimize(
    rule: &Rule,
    lr: f64,
    steps: usize,
    mut params: Vec<f32>,
    gradient: impl Fn(&[f32]) -> Vec<f32>,
) -> Vec<f32> {
    let mut optimizer = Optimizer::new(*rule, params.len(), Executor::single());
    for _ in 0..steps {
        let (at, place) = optimizer.point(&params).unwrap();
        place.copy_from_slice(&gradient(at));
        optimizer.gather(1).unwrap();
        optimizer.step(lr, &mut params).unwrap();
    }
    assert_eq!(optimizer.state().steps(), steps as u64);
    params
}

fn pseudo(seed: usize, count: usize) -> Vec<f32> {
    let mut out = vec![0.0; count];
    let key = NoiseKey {
        seed: seed as u64,
        step: 77,
        sample: 3,
    };
    fill_normal(key, 0, &mut out);
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn descends_a_parabola() {
    let curvature = [0.3f32, 1.0, 2.0, 0.7, 1.5];
    let center = [1.0f32, -2.0, 0.5, 3.0, -0.7];
    let loss = |x: &[f32]| -> f32 {
        (0..5)
            .map(|i| 0.5 * curvature[i] * (x[i] - center[i]).powi(2))
            .sum()
    };
    for row in table() {
        let end = minimize(&row.rule, row.parabola, 400, vec![0.0; 5], |x| {
            (0..5).map(|i| curvature[i] * (x[i] - center[i])).collect()
        });
        // Weight decay alone moves the optimum by a few percent, which costs about 1e-3 of the
        // loss.
        let (name, end_loss) = (row.name, loss(&end));
        assert!(
            end_loss < 5e-3 * loss(&[0.0; 5]),
            "{name}: {end_loss} at {end:?}"
        );
    }
}

#[test]
fn descends_rosenbrock() {
    let loss = |x: &[f32]| (1.0 - x[0]).powi(2) + 100.0 * (x[1] - x[0] * x[0]).powi(2);
    for row in table() {
        let end = minimize(&row.rule, row.rosenbrock, 20_000, vec![-1.2, 1.0], |x| {
            let valley = x[1] - x[0] * x[0];
            vec![-2.0 * (1.0 - x[0]) - 400.0 * x[0] * valley, 200.0 * valley]
        });
        // From 24.2, through the bend of the valley (4 at the origin side), to its floor.
        assert!(loss(&end) < 0.5, "{}: {} at {end:?}", row.name, loss(&end));
    }
}

#[test]
fn stays_finite_and_does_not_grow_at_zero_gradient() {
    for row in table() {
        let (name, rule, parabola) = (row.name, row.rule, row.parabola);
        let start = vec![1.0, -0.5, 0.0, 2.0];
        let mut params = start.clone();
        let mut state = rule.state(4);
        for _ in 0..500 {
            let report = rule.step(parabola, &mut params, &[0.0; 4], &mut state);
            let report = report.unwrap();
            assert_eq!(
                (report.overflowed, report.gap_not_positive),
                (0, 0),
                "{name}"
            );
        }
        for (end, start) in params.iter().zip(&start) {
            let grew = end.abs() > start.abs() || end * start < 0.0;
            assert!(!grew, "{name}: {end} {start}");
        }
        assert!(state.momentum().iter().all(|m| m.is_finite()), "{name}");
    }
}

#[test]
fn huge_and_tiny_gradients_stay_finite() {
    for row in table() {
        let (name, rule, parabola) = (row.name, row.rule, row.parabola);
        // The correction term of `ivon` squares the squared gradient: 1e18 is then beyond `f32`,
        // see below.
        let fourth_power = name == "ivon, squared gradient";
        for scale in [1e18f32, 1e10, 1e-10, 1e-30, 1e-44] {
            if fourth_power && scale == 1e18 {
                continue;
            }
            let mut params = vec![0.5; 8];
            let mut state = rule.state(8);
            for t in 0..20 {
                let grads: Vec<f32> = pseudo(t, 8).iter().map(|g| g * scale).collect();
                let report = rule.step(parabola, &mut params, &grads, &mut state);
                let overflowed = report.unwrap().overflowed;
                assert_eq!(overflowed, 0, "{name}, scale {scale:e}");
            }
            let buffers = state.buffers().into_iter().map(|(_, buffer)| buffer);
            let mut all = buffers.chain([&params[..]]).flatten();
            assert!(all.all(|v| v.is_finite()), "{name}, scale {scale:e}");
        }
    }
}

/// The loops without floor and clip are the loops with them, where these do not act.
#[test]
fn plain_loops_give_the_bits_of_the_general_ones() {
    use RuleConfig::{LowerAdaptCbo, UpperAdaptCbo, UpperCbo};
    fn pair<G: Gap>(variant: fn(CboConfig<G>) -> RuleConfig) -> [RuleConfig; 2] {
        let plain = CboConfig::default();
        [plain, with(plain, |c| c.clip_radius = Some(f64::INFINITY))].map(variant)
    }
    for configs in [pair(UpperCbo), pair(UpperAdaptCbo), pair(LowerAdaptCbo)] {
        let [plain, general] =
            configs.map(|config| run(&config.build().unwrap(), &Executor::single(), 1001, 3, 5));
        let id = configs[0].id();
        assert_eq!(bits(&plain.0), bits(&general.0), "{id}");
        assert_eq!(plain.1.to_bytes(), general.1.to_bytes(), "{id}");
    }
}

#[test]
fn what_leaves_the_range_is_reported() {
    let config = IvonConfig {
        hessian: HessianEstimate::SquaredGradient,
        ..IvonConfig::new(1e4)
    };
    let rule = config.build().unwrap();
    let report = rule
        .step(0.1, &mut [0.5; 3], &[1.0, 1e18, 1.0], &mut rule.state(3))
        .unwrap();
    assert_eq!(report.overflowed, 1);
}

#[test]
fn unusable_gradients_are_refused_or_skipped() {
    const LEN: usize = 5003;
    for row in table() {
        let (name, rule) = (row.name, row.rule);
        let squares = !matches!(rule, Rule::Sgd(_));
        for (place, bad) in [
            (0, f32::NAN),
            (17, f32::INFINITY),
            (LEN - 1, f32::NEG_INFINITY),
            (4096, 2e19),
        ] {
            if bad == 2e19 && !squares {
                continue;
            }
            let mut params = pseudo(1, LEN);
            let mut state = rule.state(LEN);
            rule.step(0.01, &mut params, &pseudo(2, LEN), &mut state)
                .unwrap();
            let (before, saved) = (params.clone(), state.to_bytes());
            let mut grads = pseudo(3, LEN);
            grads[place] = bad;
            if place < LEN - 5 {
                grads[LEN - 3] = f32::NAN;
            }
            for threads in [1, 3] {
                let executor = Executor::with_threads(threads).unwrap().parallel_from(1);
                let refused = rule.step_on(&executor, 0.01, &mut params, &grads, &mut state);
                match refused {
                    Err(Error::NonFiniteGradient { index, value, .. }) => {
                        let want = (place, bad.to_bits());
                        assert_eq!((index, value.to_bits()), want, "{name}");
                    }
                    other => panic!("{name}: {other:?}"),
                }
                assert_eq!(bits(&params), bits(&before), "{name}");
                assert_eq!(state.to_bytes(), saved, "{name}");
            }

            let skipping = Executor::single().non_finite(NonFinite::SkipStep);
            let report = rule.step_on(&skipping, 0.01, &mut params, &grads, &mut state);
            let report = report.unwrap();
            assert!(report.skipped && state.steps() == 1 && state.skipped_steps() == 1);
            assert_eq!(bits(&params), bits(&before), "{name}");

            let around = Executor::single().non_finite(NonFinite::SkipCoordinates);
            let momentum = state.momentum().to_vec();
            let report = rule.step_on(&around, 0.01, &mut params, &grads, &mut state);
            let report = report.unwrap();
            let unusable = if place < LEN - 5 { 2 } else { 1 };
            assert_eq!(report.skipped_coordinates, unusable, "{name}");
            assert_eq!(state.skipped_coordinates(), unusable);
            for i in 0..LEN {
                let kept = params[i].to_bits() == before[i].to_bits();
                let limit = if squares { 1.844_674_3e19 } else { f32::MAX };
                let usable = grads[i].abs() <= limit;
                assert!(usable || kept, "{name}: {i}");
                if !usable && !momentum.is_empty() {
                    assert_eq!(state.momentum()[i].to_bits(), momentum[i].to_bits());
                }
            }
            let moved = params.iter().zip(&before).filter(|(a, b)| a != b).count();
            assert!(moved > LEN - 50, "{name}: only {moved} moved");
            assert!(params.iter().all(|p| p.is_finite()), "{name}");
        }
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    for (i, row) in table().iter().enumerate() {
        let (name, rule) = (row.name, row.rule);
        let mut state = rule.state(4);
        for lr in [f64::NAN, -0.1, f64::INFINITY] {
            let refused = rule.step(lr, &mut [0.0; 4], &[0.0; 4], &mut state);
            let is_named = matches!(refused, Err(Error::OutOfRange { field: "lr", .. }));
            assert!(is_named, "{name}");
        }
        for (params, grads) in [(3, 4), (4, 5)] {
            let refused = rule.step(0.1, &mut vec![0.0; params], &vec![0.0; grads], &mut state);
            assert!(refused.is_err(), "{name}");
        }
        let others = table().into_iter().skip(i + 1).map(|other| other.rule);
        for other in others.filter(|other| other.id() != rule.id()) {
            let refused = other.step(0.1, &mut [0.0; 4], &[0.0; 4], &mut state);
            assert!(matches!(refused, Err(Error::WrongRule { .. })), "{name}");
            assert!(other.state_from_bytes(4, &state.to_bytes()).is_err());
        }
        assert_eq!(state, rule.state(4));
        // Nothing to do is no error.
        let report = rule.step(0.1, &mut [], &[], &mut rule.state(0));
        assert_eq!(report.unwrap().coordinates, 0);
    }
}

#[test]
fn a_step_allocates_nothing() {
    const LEN: usize = 10_000;
    for row in table() {
        let (name, rule) = (row.name, row.rule);
        for threads in [1, 2] {
            let executor = Executor::with_threads(threads).unwrap().parallel_from(1);
            let mut params = pseudo(1, LEN);
            let grads = pseudo(2, LEN);
            let mut state = rule.state(LEN);
            let mut last = StepReport::default();
            let info = allocation_counter::measure(|| {
                for _ in 0..3 {
                    let report = rule.step_on(&executor, 0.01, &mut params, &grads, &mut state);
                    last = report.unwrap();
                }
            });
            assert_eq!(
                (info.count_total, last.step),
                (0, 3),
                "{name}, {threads} threads"
            );
        }
    }
}

/// Runs a few steps and gives back parameters and saved state.
fn run(
    rule: &Rule,
    executor: &Executor,
    len: usize,
    seed: usize,
    steps: usize,
) -> (Vec<f32>, State) {
    let mut params = pseudo(seed, len);
    let mut state = rule.state(len);
    for t in 0..steps {
        let mut grads = pseudo(seed + 1 + t, len);
        // Several orders of magnitude, and zeros.
        for (i, g) in grads.iter_mut().enumerate() {
            *g *= [1.0, 0.1, 0.0, 3.0, 1e-3][i % 5];
        }
        let lr = 0.01 / (1 + t) as f64;
        rule.step_on(executor, lr, &mut params, &grads, &mut state)
            .unwrap();
    }
    (params, state)
}

/// One number of a coordinate.
type Part = fn(&Coordinate) -> f64;

fn relative(got: &[f32], want: impl Iterator<Item = f64>) -> f64 {
    let (mut worst, mut scale) = (0.0f64, 0.0f64);
    for (g, w) in got.iter().zip(want) {
        worst = worst.max((f64::from(*g) - w).abs());
        scale = scale.max(w.abs());
    }
    if scale == 0.0 { worst } else { worst / scale }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_instruction_set_and_thread_count_gives_the_same_bits(
        which in 0usize..12, len in 1usize..=4099, threads in 2usize..=5, seed in 0usize..1000,
    ) {
        let row = &table()[which];
        let one = run(&row.rule, &Executor::single().isa(Isa::portable()), len, seed, 4);
        for isa in Isa::available() {
            for threads in [1, threads] {
                let executor = Executor::with_threads(threads).unwrap().isa(isa).parallel_from(1);
                let other = run(&row.rule, &executor, len, seed, 4);
                prop_assert_eq!(bits(&one.0), bits(&other.0), "{}, {}", row.name, isa.name());
                prop_assert_eq!(one.1.to_bytes(), other.1.to_bytes(), "{}, {}", row.name, isa.name());
            }
        }
    }

    /// Loops that count nothing and look again where there is cause report what the counting loops
    /// report.
    #[test]
    fn loops_that_do_not_count_miss_nothing(
        which in 0usize..3, len in 1usize..=9001, seed in 0usize..1000, rare in 1usize..5000, policy in 0usize..3,
    ) {
        // The clip at infinity changes nothing, but chooses the loop that counts.
        let rules = [None, Some(f64::INFINITY)].map(|clip_radius| -> Rule {
            match which {
                0 => UpperCboConfig {
                    gap: Fixed { vartheta: 2e-3 }, hess_init: 1e-46, beta2: 0.5, clip_radius, ..Default::default()
                }.build().unwrap().into(),
                1 => UpperAdaptCboConfig {
                    gap: Upper { gamma: 0.0 }, envelope: Growth { beta3: 1e30 }, beta2: 0.5, clip_radius, ..Default::default()
                }.build().unwrap().into(),
                _ => LowerAdaptCboConfig {
                    gap: Lower { gamma: 1e30 }, beta2: 0.5, clip_radius, ..Default::default()
                }.build().unwrap().into(),
            }
        });
        let policy = [NonFinite::Refuse, NonFinite::SkipStep, NonFinite::SkipCoordinates][policy];
        let ends = rules.map(|rule| {
            let executor = Executor::single().non_finite(policy);
            let mut params = pseudo(seed, len);
            let mut state = rule.state(len);
            let mut reports = Vec::new();
            for t in 0..6 {
                let mut grads = pseudo(seed + 1 + t, len);
                for (i, g) in grads.iter_mut().enumerate() {
                    let odd = (i + seed) % rare == 0;
                    *g *= if odd { [1e19, 0.0, 1e-30, 1e18][(i / rare + t) % 4] } else { 1.0 };
                    if odd && t == 3 && seed % 2 == 0 {
                        *g = [f32::NAN, f32::INFINITY, 1e20][i % 3];
                    }
                }
                if t == 4 {
                    params[len / 2] = f32::MAX;
                }
                let step = rule.step_on(&executor, 1e3, &mut params, &grads, &mut state);
                reports.push(step.map_err(|error| error.to_string()));
            }
            let plain = |values: &[f32]| -> Vec<u32> {
                values.iter().map(|v| if v.is_nan() { 1 } else { v.to_bits() }).collect()
            };
            let buffers = [state.momentum(), state.curvature(), state.envelope()].map(plain);
            (reports, plain(&params), buffers, state.skipped_coordinates(), state.steps())
        });
        prop_assert_eq!(&ends[0], &ends[1]);
    }

    #[test]
    fn fused_agrees_with_the_twin(which in 0usize..12, len in 1usize..=4099, seed in 0usize..1000) {
        let row = &table()[which];
        let rule = &row.rule;
        for isa in Isa::available() {
            let executor = Executor::single().isa(isa);
            let mut params = pseudo(seed, len);
            let mut state = rule.state(len);
            let mut twin: Vec<Coordinate> =
                params.iter().map(|p| rule.coordinate(f64::from(*p))).collect();
            for t in 0..4 {
                let grads = pseudo(seed + 1 + t, len);
                let mut second = grads.clone();
                if let Rule::Ivon(ivon) = rule && ivon.config().hessian == HessianEstimate::Price {
                    fill_normal(ivon.noise_key(&state), 0, &mut second);
                }
                let lr = 0.01 / (1 + t) as f64;
                rule.step_on(&executor, lr, &mut params, &grads, &mut state).unwrap();
                for ((x, g), s) in twin.iter_mut().zip(&grads).zip(&second) {
                    let (g, s) = (f64::from(*g), f64::from(*s));
                    rule.step_scalar(lr, t as u64 + 1, g, s * g, x);
                }
                let pairs: [(&[f32], Part); 4] = [
                    (&params, |x| x.theta),
                    (state.momentum(), |x| x.momentum),
                    (state.curvature(), |x| x.curvature),
                    (state.envelope(), |x| x.envelope),
                ];
                for (got, part) in pairs {
                    let error = relative(got, twin.iter().map(part));
                    prop_assert!(error <= FUSED, "{}, {}, step {t}: {error:e}", row.name, isa.name());
                }
            }
        }
    }

    #[test]
    fn resumes_to_the_same_bits(
        which in 0usize..12, len in 1usize..300, steps in 1usize..12, seed in 0usize..1000,
    ) {
        let row = &table()[which];
        let gradient = |t: usize| pseudo(seed + t, len);
        let mut params = pseudo(seed, len);
        let mut state = row.rule.state(len);
        let mut saved = vec![(params.clone(), state.to_bytes())];
        for t in 0..steps {
            row.rule.step(0.01, &mut params, &gradient(t), &mut state).unwrap();
            saved.push((params.clone(), state.to_bytes()));
        }
        for k in 0..=steps {
            let (mut again, bytes) = saved[k].clone();
            let mut state = row.rule.state_from_bytes(len, &bytes).unwrap();
            prop_assert_eq!(state.steps(), k as u64);
            for t in k..steps {
                row.rule.step(0.01, &mut again, &gradient(t), &mut state).unwrap();
            }
            prop_assert_eq!(bits(&again), bits(&params), "{}, from step {}", row.name, k);
            prop_assert_eq!(state.to_bytes(), saved[steps].1.clone(), "{}, from step {}", row.name, k);
        }
    }

    /// A state that is saved in the middle of a step goes on to the same bits: between
    /// micro-batches for every rule, between samples for `ivon`.
    #[test]
    fn resumes_between_samples_and_micro_batches(
        which in 0usize..14, len in 1usize..200, seed in 0usize..1000, stop in 0usize..24, threads in 1usize..4,
    ) {
        // Three gradients each, eight steps: saved and loaded once, after `stop` gradients.
        let samples = IvonConfig { mc_samples: 3, beta2: 0.9, ..IvonConfig::new(50.0) };
        let squared = IvonConfig { hessian: HessianEstimate::SquaredGradient, ..samples };
        let mut rules: Vec<Rule> = table().into_iter().map(|row| row.rule).collect();
        rules.extend([samples, squared].map(|config| Rule::from(config.build().unwrap())));
        let rule = rules[which];
        let optimizer = || {
            let executor = Executor::with_threads(threads).unwrap().parallel_from(1);
            Optimizer::new(rule, len, executor)
        };
        let go = |break_at: usize| {
            let mut params = pseudo(seed, len);
            let mut running = optimizer();
            for batch in 0..24 {
                if batch == break_at {
                    let state = rule.state_from_bytes(len, &running.state().to_bytes()).unwrap();
                    assert_eq!(&state, running.state());
                    running = optimizer();
                    running.set_state(state).unwrap();
                }
                let (at, place) = running.point(&params).unwrap();
                for ((g, w), e) in place.iter_mut().zip(at).zip(pseudo(seed + batch, len)) {
                    *g = w - 1.0 + 0.1 * e;
                }
                running.gather(1 + batch % 3).unwrap();
                if batch % 3 == 2 {
                    running.step(0.01, &mut params).unwrap();
                }
            }
            (bits(&params), running.state().to_bytes())
        };
        prop_assert_eq!(go(stop), go(usize::MAX));
    }

    #[test]
    fn adaptive_rules_contain_the_fixed_one(
        theta in -2.0f64..2.0, decay in 0.001f64..0.5, hess in 0.01f64..1.0, beta1 in 0.0f64..0.95,
        beta2 in 0.1f64..0.999, gamma in 1.05f64..3.0, grads in prop::collection::vec(-2.0f64..2.0, 1..12),
    ) {
        // γ = 0 takes nothing from the curvature; β₃ = 0 makes the gap (γ - 1) h̃, a change of the
        // learning rate.
        let base = UpperCboConfig {
            beta1, beta2, weight_decay: decay, hess_init: hess, gap: Fixed { vartheta: 0.0 }, ..Default::default()
        };
        let none = UpperAdaptCboConfig {
            beta1, beta2, weight_decay: decay, hess_init: hess, gap: Upper { gamma: 0.0 },
            eps_policy: EpsPolicy::None, ..Default::default()
        };
        let short = LowerAdaptCboConfig {
            beta1, beta2, envelope: Decay { beta3: 0.0 }, weight_decay: decay, hess_init: hess, gap: Lower { gamma },
            eps_policy: EpsPolicy::None, ..Default::default()
        };
        let (base, none, short) = (base.build().unwrap(), none.build().unwrap(), short.build().unwrap());
        let (mut x, mut y, mut z) =
            (base.coordinate(theta), none.coordinate(theta), short.coordinate(theta));
        for (t, g) in grads.iter().enumerate() {
            let t = t as u64 + 1;
            base.step_scalar(0.05 * hess, t, *g, 0.0, &mut x);
            none.step_scalar(0.05 * hess, t, *g, 0.0, &mut y);
            short.step_scalar(0.05 * hess * (gamma - 1.0), t, *g, 0.0, &mut z);
        }
        let scale = x.theta.abs().max(1.0);
        prop_assert!((x.theta - y.theta).abs() <= 1e-12 * scale);
        prop_assert!((x.theta - z.theta).abs() <= 1e-9 * scale);
    }

    #[test]
    fn a_step_is_newton_on_the_decayed_loss(
        theta in -2.0f64..2.0, center in -2.0f64..2.0, decay in 0.001f64..0.5, hess in 0.05f64..1.0,
        vartheta in 0.0f64..1.0,
    ) {
        // Without averaging, the numerator is the derivative of ℓ(θ) + δθ²/2: compare with a
        // central difference.
        let vartheta = vartheta * decay;
        let config = UpperCboConfig {
            beta1: 0.0, beta2: 0.5, weight_decay: decay, hess_init: hess, gap: Fixed { vartheta }, ..Default::default()
        };
        let rule = config.build().unwrap();
        let loss = |w: f64| (w - center).cosh().ln() + 0.5 * decay * w * w;
        let gradient = (theta - center).tanh();
        let mut x = rule.coordinate(theta);
        rule.step_scalar(1e-3, 1, gradient, 0.0, &mut x);
        let slope = (loss(theta + 1e-5) - loss(theta - 1e-5)) / 2e-5;
        let gap = 0.5 * hess + 0.5 * gradient * gradient + decay - vartheta;
        prop_assert!((x.theta - (theta - 1e-3 * slope / gap)).abs() <= 1e-9 / gap);
    }
}
