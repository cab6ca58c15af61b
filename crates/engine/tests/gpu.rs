//! The CUDA device: networks against the twin and the processor, rules to the bit of the host's,
//! runs that depend on nothing but themselves.
//!
//! Without `MAXITIVE_GPU` in the environment these tests only say that they were left out; with it
//! there has to be a GPU, or the emulated one of `kernels/driver.cpp`.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::sync::Arc;

use cbopt::{IvonConfig, NonFinite, Rule, RuleConfig};
use engine::{
    Conv2d, Device, DropoutMode, GramConfig, Input, Member, Network, NetworkBuilder, Precision,
    Precisions, Predictor, PredictorConfig, Sample, Shape, Step, Stretch, Stretched, Trainer,
    TrainerConfig, gram_matrices, twin, zoo,
};
use golden::wide;
use images::{Images, Normalization, Visit};

/// Relative error of a gradient, in the norm of the whole, that sums in `f32` explain.
const TOLERANCE: f64 = 2e-5;
/// The same for deep networks, where a value may cross a kink.
const DEEP: f64 = 2e-2;
/// And for products whose factors have eleven bits, so that many values cross a kink: a sum or an
/// index that is wrong would show as 1 or more.
const ROUNDED: f64 = 0.3;

/// The GPU, if the tests are to use it.
fn gpu() -> Option<Device> {
    if std::env::var_os("MAXITIVE_GPU").is_none() {
        eprintln!("no GPU: MAXITIVE_GPU is not set, nothing is tested");
        return None;
    }
    Some(Device::by_name("cuda").expect("MAXITIVE_GPU promises a GPU"))
}

/// Whether the GPU is an emulated one, for which large networks take too long.
fn is_emulated() -> bool {
    Device::gpus().unwrap()[0].name.contains("emulated")
}

/// Deterministic numbers on `[-1, 1)`.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let stream = random::Stream::new(seed);
    let uniform = |i| (2.0 * stream.uniform(i as u64) - 1.0) as f32;
    (0..count).map(uniform).collect()
}

/// Weights away from where terms vanish.
fn weights(net: &Network, seed: u64) -> Vec<f32> {
    let more = noise(net.parameter_count(), seed ^ 5);
    let start = net.initial_parameters(seed).into_iter().zip(more);
    start.map(|(w, z)| w + 0.1 * z).collect()
}

/// Every kind of layer, odd sizes, branches and parts of concatenations.
fn odd() -> Network {
    let mut net = NetworkBuilder::new("odd", Shape::new(2, 7, 6));
    let x = net.input();
    let x = net.conv2d("conv", x, Conv2d::new(3, 3).stride(2).same());
    let x = net.frn_tlu("frn", x);
    let y = net.conv2d("again", x, Conv2d::new(3, 3).padding(1).no_bias());
    let y = net.relu("relu", y);
    let y = net.dropout("drop", y, 0.25, false);
    let x = net.add("sum", x, y);
    let x = net.concat("both", &[y, x]);
    let z = net.frn_tlu("frn2", x);
    let z = net.relu("relu2", z);
    let x = net.concat("all", &[z, x, y]);
    let x = net.max_pool("pool", x, 2, 1);
    let y = net.avg_pool("mean", x, 2, 1);
    let x = net.global_avg_pool("x", x);
    let x = net.dropout("drop2", x, 0.5, true);
    let y = net.flatten("y", y);
    let x = net.concat("flat", &[x, y]);
    let x = net.linear("fc", x, 21);
    let x = net.relu("fc.relu", x);
    let x = net.linear("fc2", x, 4);
    net.build(x).unwrap()
}

/// Residual sums whose FRN is done with them, a wide layer, stride 2 and pools with a ReLU before.
fn residual() -> Network {
    let mut net = NetworkBuilder::new("residual", Shape::new(3, 9, 9));
    let x = net.input();
    let x = net.conv2d("stem", x, Conv2d::new(18, 3).same());
    let x = net.frn_tlu("stem.frn", x);
    let y = net.conv2d("conv1", x, Conv2d::new(20, 3).stride(2).same());
    let y = net.frn_tlu("frn1", y);
    let y = net.conv2d("conv2", y, Conv2d::new(20, 3).same());
    let y = net.frn_tlu("frn2", y);
    let x = net.conv2d("short", x, Conv2d::new(20, 1).stride(2).same());
    let x = net.frn_tlu("short.frn", x);
    let x = net.add("sum", x, y);
    let x = net.conv2d("last", x, Conv2d::new(7, 2));
    let x = net.relu("last.relu", x);
    let x = net.max_pool("pool", x, 2, 2);
    let x = net.flatten("flatten", x);
    let x = net.linear("fc", x, 6);
    net.build(x).unwrap()
}

fn small_dense() -> Network {
    zoo::densenet("dense", 5, &[1, 2], Some(0.1)).unwrap()
}

fn trainer(
    net: &Network,
    device: Device,
    batch: usize,
    members: impl IntoIterator<Item = Member>,
) -> Trainer {
    let config = TrainerConfig {
        batch,
        device,
        ..Default::default()
    };
    config.build(net, members).unwrap()
}

fn rule(id: &str) -> Rule {
    let mut config = RuleConfig::by_id(id).unwrap();
    config.fill_examples(5000);
    config.set_seed(77);
    config.build().unwrap()
}

/// Relative error in the norm.
fn error(got: &[f32], want: &[f64]) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let pairs = got.iter().zip(want);
    norm(&mut pairs.map(|(a, b)| f64::from(*a) - b)) / norm(&mut want.iter().copied())
}

/// Error of the gradient, after that of the loss was found small.
fn gradient_error(net: &Network, device: Device, batch: usize, capacity: usize) -> f64 {
    let parameters = weights(net, 3);
    let images = noise(batch * net.input_shape().len(), 8);
    let labels: Vec<u32> = (0..batch).map(|i| (i * 7 % net.classes()) as u32).collect();
    let member = Member::new(rule("sgd"), parameters.clone()).seed(11);
    let mut trainer = trainer(net, device, capacity, [member]);
    let mut got = vec![f32::NAN; net.parameter_count()];
    let loss = trainer.gradient(0, &images, &labels, &mut got).unwrap();
    let masks = random::mix(11 ^ random::mix(0));
    let (parameters, images) = (wide(&parameters), wide(&images));
    let mode = DropoutMode::Train(masks);
    let want = twin::run(net, &parameters, &images, &labels, mode).unwrap();
    let slack = if device.precision() == Precision::F32 {
        1e-5
    } else {
        1e-2
    };
    let off = (loss.loss - want.loss).abs() / want.loss;
    assert!(off < slack, "{}: loss {off:e}", net.name());
    error(&got, &want.gradient)
}

#[test]
fn gradients_are_the_twins() {
    let Some(device) = gpu() else { return };
    let rounded = device.with_precision(Precision::Tf32).unwrap();
    for (net, batches) in [
        (odd(), vec![1, 3, 19]),
        (residual(), vec![1, 5]),
        (small_dense(), vec![2]),
        (zoo::lenet(10).unwrap(), vec![1, 4, 7]),
        (zoo::lenet_dropout(13, 0.2).unwrap(), vec![5]),
    ] {
        for batch in batches {
            for (device, tolerance) in [(device, TOLERANCE), (rounded, ROUNDED)] {
                // short batches too
                let off = gradient_error(&net, device, batch, batch + batch % 3);
                let precision = device.precision().name();
                assert!(
                    off < tolerance,
                    "{} {batch} {precision}: {off:e}",
                    net.name()
                );
            }
        }
    }
}

#[test]
fn gradients_of_the_papers_networks_are_the_twins() {
    let Some(device) = gpu() else { return };
    let rounded = device.with_precision(Precision::Tf32).unwrap();
    let mut nets = vec![
        (zoo::resnet20(10).unwrap(), 2),
        (zoo::resnet20_dropout(7, 0.1).unwrap(), 1),
    ];
    if !is_emulated() {
        nets.push((zoo::lenet(10).unwrap(), 128));
        nets.push((zoo::resnet20(10).unwrap(), 7));
        nets.push((zoo::resnet20_dropout(10, 0.05).unwrap(), 3));
        nets.push((zoo::densenet121(100, None).unwrap(), 2));
    }
    for (net, batch) in nets {
        let off = gradient_error(&net, device, batch, batch);
        eprintln!("{} {batch} f32: {off:e}", net.name());
        assert!(off < DEEP, "{} {batch}: {off:e}", net.name());
        if !is_emulated() {
            let off = gradient_error(&net, rounded, batch, batch);
            eprintln!("{} {batch} tf32: {off:e}", net.name());
            assert!(off < 0.5, "{} {batch}: {off:e}", net.name());
        }
    }
}

/// Byte images of a network's shape.
fn pictures(net: &Network) -> (Arc<Images>, Normalization) {
    let (shape, count) = (net.input_shape(), 9);
    let pixels = noise(count * shape.len(), 4);
    let pixels = pixels.iter().map(|z| (127.0 * (z + 1.0)) as u8).collect();
    let labels = (0..count).map(|i| (i % net.classes()) as u32).collect();
    let images = Images::new(shape, net.classes(), pixels, labels).unwrap();
    let channels = shape.channels;
    let normalization = Normalization::new(vec![0.4; channels], vec![0.3; channels]).unwrap();
    (Arc::new(images), normalization)
}

/// Steps of a run: batches of different sizes, rates that change, visits of its own.
fn plan(run: u64, steps: std::ops::Range<usize>) -> (Vec<Visit>, Vec<Step>) {
    let (mut visits, mut all) = (Vec::new(), Vec::new());
    for step in steps {
        let images = 1 + (step as u32 * 2 + 1) % 4;
        all.push(Step {
            images,
            lr: 0.002 * (1.0 + step as f64),
        });
        for i in 0..images {
            let bits = random::mix(run ^ random::mix((step * 100) as u64 + u64::from(i)));
            let shift = |at: u64| (bits >> at) as i8 % 3;
            let image = (bits >> 32) as u32 % 9;
            visits.push(Visit::new(image, shift(0), shift(8), bits >> 20 & 1 == 1));
        }
    }
    (visits, all)
}

/// Advances every member of a trainer by its own stretch.
fn advance(
    trainer: &mut Trainer,
    seeds: &[u64],
    steps: impl Fn(usize) -> std::ops::Range<usize>,
) -> Vec<Stretched> {
    let (images, normalization) = pictures(trainer.network());
    trainer.hold(images, &normalization).unwrap();
    let plans = seeds.iter().enumerate();
    let plans: Vec<_> = plans.map(|(run, &seed)| plan(seed, steps(run))).collect();
    let stretches: Vec<Stretch<'_>> = plans
        .iter()
        .map(|(visits, steps)| Stretch { visits, steps })
        .collect();
    trainer.advance(&stretches).unwrap()
}

fn member(net: &Network, rule: Rule, seed: u64) -> Member {
    Member::new(rule, weights(net, seed)).seed(seed)
}

/// All rules, with several samples where there are samples.
fn rules() -> Vec<Rule> {
    let mut all: Vec<Rule> = RuleConfig::IDS.into_iter().map(rule).collect();
    for hessian in [
        cbopt::HessianEstimate::Price,
        cbopt::HessianEstimate::SquaredGradient,
    ] {
        let config = IvonConfig {
            mc_samples: 3,
            hessian,
            seed: 5,
            clip_radius: Some(0.5),
            ..IvonConfig::new(5000.0)
        };
        all.push(config.build().unwrap().into());
    }
    all
}

/// A policy that the kernels do not have makes the host do the updates, with the card's gradients.
#[test]
fn updates_on_the_card_have_the_bits_of_the_hosts() {
    let Some(device) = gpu() else { return };
    let net = odd();
    for rule in rules() {
        let run = |non_finite: NonFinite| {
            let config = TrainerConfig {
                batch: 4,
                device,
                non_finite,
            };
            let mut trainer = config.build(&net, [member(&net, rule, 9)]).unwrap();
            let steps = advance(&mut trainer, &[9], |_| 0..5);
            (steps, trainer.snapshot(0))
        };
        let (steps, snapshot) = run(NonFinite::Refuse);
        assert_eq!(steps[0].steps.len(), 5);
        assert_eq!((steps, snapshot), run(NonFinite::SkipStep), "{rule:?}");
    }
}

/// Bits depend neither on the others nor on the place among them.
fn alone_and_among_others(net: &Network, device: Device, others: usize, steps: usize) {
    let all = rules();
    let seeds: Vec<u64> = (0..others as u64 + 1).collect();
    let rule_of = |seed: u64| all[seed as usize % all.len()];
    let members = seeds.iter().map(|&seed| member(net, rule_of(seed), seed));
    let mut together = trainer(net, device, 4, members);
    // the others make fewer steps, some none
    let length = |run: usize| {
        if run.is_multiple_of(3) {
            steps
        } else {
            run % 3
        }
    };
    let stretched = advance(&mut together, &seeds, |run| 0..length(run));
    assert!(device.peak_memory().unwrap() >= together.working_bytes());
    for run in [0, others / 2 / 3 * 3, others / 3 * 3, others] {
        let seed = run as u64;
        let mut alone = trainer(net, device, 4, [member(net, rule_of(seed), seed)]);
        let own = advance(&mut alone, &[seed], |_| 0..length(run));
        assert_eq!(own[0], stretched[run], "{} run {run}", net.name());
        let (own, other) = (alone.snapshot(0), together.snapshot(run));
        assert_eq!(own, other, "{} run {run}", net.name());
    }
}

#[test]
fn a_run_has_the_same_bits_alone_and_among_others() {
    let Some(device) = gpu() else { return };
    let others = if is_emulated() { 8 } else { 29 };
    alone_and_among_others(&odd(), device, others, 5);
    let steps = if is_emulated() { 2 } else { 40 };
    let lenet = zoo::lenet(10).unwrap();
    alone_and_among_others(&lenet, device, others.min(steps * 3), steps);
    if !is_emulated() {
        let rounded = device.with_precision(Precision::Tf32).unwrap();
        for device in [device, rounded] {
            alone_and_among_others(&zoo::resnet20(10).unwrap(), device, 6, 3);
            let densenet = zoo::densenet121(100, Some(0.05)).unwrap();
            alone_and_among_others(&densenet, device, 3, 3);
        }
        alone_and_among_others(&zoo::lenet_dropout(10, 0.05).unwrap(), device, 29, 3);
    }
}

#[test]
fn a_run_that_was_interrupted_goes_on_to_the_same_bits() {
    let Some(device) = gpu() else { return };
    let net = odd();
    // more than a graph, if the card is quick enough
    let steps = if is_emulated() { 39 } else { 70 };
    for rule in rules() {
        let mut whole = trainer(&net, device, 4, [member(&net, rule, 2)]);
        advance(&mut whole, &[2], |_| 0..steps);
        let mut cut = trainer(&net, device, 4, [member(&net, rule, 2)]);
        for part in [0..3, 3..steps - 2, steps - 2..steps] {
            advance(&mut cut, &[2], |_| part.clone());
            let snapshot = cut.snapshot(0);
            let member = Member {
                rule,
                parameters: snapshot.parameters,
                state: Some(snapshot.state),
                seed: 2,
                draws: snapshot.draws,
            };
            cut = trainer(&net, device, 4, [member]);
        }
        assert_eq!(whole.snapshot(0), cut.snapshot(0), "{rule:?}");
    }
}

/// From the processor to the card and back: the same as the processor alone, but for rounding.
#[test]
fn a_run_moves_between_the_devices() {
    let Some(device) = gpu() else { return };
    let net = zoo::lenet(10).unwrap();
    let cpu = Device::cpu().threads(1);
    for rule in [rule("ucbopt-adapt"), rule("ivon")] {
        let mut whole = trainer(&net, cpu, 4, [member(&net, rule, 6)]);
        advance(&mut whole, &[6], |_| 0..6);
        let mut moving = trainer(&net, cpu, 4, [member(&net, rule, 6)]);
        for (part, next) in [(0..2, device), (2..4, cpu), (4..6, cpu)] {
            advance(&mut moving, &[6], |_| part.clone());
            let snapshot = moving.snapshot(0);
            assert_eq!(snapshot.state.steps(), part.end as u64);
            let member = Member {
                rule,
                parameters: snapshot.parameters,
                state: Some(snapshot.state),
                seed: 6,
                draws: snapshot.draws,
            };
            moving = trainer(&net, next, 4, [member]);
        }
        let (a, b) = (whole.snapshot(0), moving.snapshot(0));
        assert_eq!(a.draws, b.draws);
        let off = error(&b.parameters, &wide(&a.parameters));
        assert!(off > 0.0 && off < 1e-4, "{off:e}");
    }
}

#[test]
fn an_unusable_gradient_stops_its_run_alone() {
    let Some(device) = gpu() else { return };
    let net = odd();
    let mut broken = member(&net, rule("adamw"), 1);
    broken.parameters[0] = f32::NAN;
    let before = broken.parameters.clone();
    let members = [
        member(&net, rule("ivon"), 0),
        broken,
        member(&net, rule("sgd"), 2),
    ];
    let mut trainer = trainer(&net, device, 4, members);
    let stretched = advance(&mut trainer, &[0, 1, 2], |_| 0..4);
    let made: Vec<usize> = stretched.iter().map(|s| s.steps.len()).collect();
    assert_eq!(made, [4, 0, 4]);
    let refusal = stretched[1].stopped.as_ref().unwrap();
    assert!(
        matches!(refusal, cbopt::Error::NonFiniteGradient { .. }),
        "{refusal}"
    );
    assert!(stretched[0].stopped.is_none() && stretched[2].stopped.is_none());
    let after = trainer.parameters(1);
    assert!(
        after
            .iter()
            .zip(&before)
            .all(|(a, b)| a.to_bits() == b.to_bits())
    );
    assert_eq!((trainer.draws(1), trainer.draws(0)), (1, 4));
    // a rate that no rule takes ends the stretch where it stands
    let (visits, mut steps) = plan(0, 0..3);
    steps[1].lr = -1.0;
    let (visits, steps) = (&visits[..], &steps[..]);
    let rest = Stretch::default();
    let stretched = trainer
        .advance(&[Stretch { visits, steps }, rest, rest])
        .unwrap();
    assert_eq!(stretched[0].steps.len(), 1);
    let refusal = stretched[0].stopped.as_ref().unwrap().to_string();
    assert_eq!(refusal, "lr -1 is not in [0, inf)");
}

fn predictor(net: &Network, device: Device) -> Predictor {
    let config = PredictorConfig {
        device,
        ..Default::default()
    };
    config.build(net).unwrap()
}

/// Everything that a predictor gives, on the card and on the processor.
fn compare_predictions(net: &Network, device: Device, tolerance: f64) {
    let mut cpu = predictor(net, Device::cpu().threads(1));
    let mut gpu = predictor(net, device);
    let close = |a: Vec<f32>, b: Vec<f32>, what: &str| {
        let off = error(&a, &wide(&b));
        assert!(off < tolerance, "{} {what}: {off:e}", net.name());
    };
    let (images, normalization) = pictures(net);
    let indices = [3, 1, 8, 8, 0, 2, 5];
    let bytes = Input::bytes(&images, &normalization, &indices);
    let floats = noise(3 * net.input_shape().len(), 21);
    let samples: Vec<Vec<f32>> = (0..5).map(|seed| weights(net, seed)).collect();
    let samples: Vec<&[f32]> = samples.iter().map(Vec::as_slice).collect();
    for input in [bytes, Input::Floats(&floats)] {
        let logits = gpu.logits(samples[0], 4, input).unwrap();
        close(logits, cpu.logits(samples[0], 4, input).unwrap(), "logits");
        let features = gpu.features(samples[1], 4, input).unwrap();
        let want = cpu.features(samples[1], 4, input).unwrap();
        close(features, want, "features");
        let mean = gpu.mean_probabilities(&samples, 4, input).unwrap();
        let want = cpu.mean_probabilities(&samples, 4, input).unwrap();
        close(mean, want, "probabilities");
    }
    // with masks of their own, and the same weights among them
    let sample = |(seed, parameters): (u64, &&'_ [f32])| (parameters.to_vec(), seed);
    let all: Vec<(Vec<f32>, u64)> = (7..).zip(&samples[..2]).map(sample).collect();
    let [first, second] = [0, 1].map(|i| Sample {
        parameters: &all[i].0,
        seed: all[i].1,
    });
    let masked = Sample { seed: 9, ..first };
    let chosen = [first, second, masked];
    let labels: Vec<u32> = indices.map(|i| i % net.classes() as u32).to_vec();
    let got = gpu.losses(&chosen, bytes, &labels).unwrap();
    let want = cpu.losses(&chosen, bytes, &labels).unwrap();
    for ((loss, hits), (want, right)) in got.iter().zip(&want) {
        let off = (loss - want).abs() / want;
        assert!(off < tolerance, "{} loss: {off:e}", net.name());
        assert_eq!(hits, right, "{}", net.name());
    }
    // to the bit what each gets alone
    for (sample, loss) in chosen.iter().zip(&got) {
        assert_eq!(gpu.losses(&[*sample], bytes, &labels).unwrap(), [*loss]);
    }
    let (mut sums, mut want) = (Vec::new(), Vec::new());
    gpu.add_probabilities(&chosen, bytes, &mut sums).unwrap();
    cpu.add_probabilities(&chosen, bytes, &mut want).unwrap();
    let sums: Vec<f32> = sums.iter().map(|&sum| sum as f32).collect();
    let off = error(&sums, &want);
    assert!(off < tolerance, "{} sums: {off:e}", net.name());
    let mut twice = Vec::new();
    for part in [&chosen[..1], &chosen[1..]] {
        gpu.add_probabilities(part, bytes, &mut twice).unwrap();
    }
    let twice: Vec<f32> = twice.iter().map(|&sum| sum as f32).collect();
    assert_eq!(sums, twice, "{}: samples apart and together", net.name());
}

#[test]
fn predictions_are_the_processors() {
    let Some(device) = gpu() else { return };
    for net in [
        odd(),
        residual(),
        small_dense(),
        zoo::lenet_dropout(10, 0.3).unwrap(),
    ] {
        compare_predictions(&net, device, TOLERANCE);
    }
}

/// Error of a gradient beside the processor's, of fewer images than there is room for.
fn gradient_beside_the_processors(net: &Network, device: Device, batch: usize) -> f64 {
    let images = noise(batch * net.input_shape().len(), 8);
    let labels: Vec<u32> = (0..batch).map(|i| (i * 7 % net.classes()) as u32).collect();
    let of = |device: Device| {
        let member = Member::new(rule("sgd"), weights(net, 3)).seed(11);
        let mut trainer = trainer(net, device, batch + 3, [member]);
        let mut gradient = vec![f32::NAN; net.parameter_count()];
        let loss = trainer.gradient(0, &images, &labels, &mut gradient);
        (loss.unwrap().loss, gradient)
    };
    let (got, want) = (of(device), of(Device::cpu().threads(1)));
    let off = (got.0 - want.0).abs() / want.0;
    assert!(off < 1e-5, "{}: loss {off:e}", net.name());
    error(&got.1, &wide(&want.1))
}

/// The kernels of DenseNet; the twin of this one takes long.
#[test]
fn gradients_of_densenet_are_the_processors() {
    let Some(device) = gpu() else { return };
    let net = zoo::densenet101(10, Some(0.2)).unwrap();
    let off = gradient_beside_the_processors(&net, device, 2);
    eprintln!("{}: {off:e}", net.name());
    assert!(off < DEEP, "{off:e}");
    if !is_emulated() {
        let net = zoo::densenet121(100, None).unwrap();
        let off = gradient_beside_the_processors(&net, device, 6);
        assert!(off < DEEP, "{off:e}");
    }
}

/// By kernels of their own.
#[test]
fn predictions_of_the_papers_networks_are_the_processors() {
    let Some(device) = gpu() else { return };
    let rounded = device.with_precision(Precision::Tf32).unwrap();
    compare_predictions(&zoo::resnet20_dropout(10, 0.1).unwrap(), device, 1e-4);
    let densenet = zoo::densenet101(10, Some(0.2)).unwrap();
    compare_rounded(&densenet, rounded);
    let off = logits_error(&densenet, device);
    assert!(off < 1e-4, "{off:e}");
    if !is_emulated() {
        let densenet = zoo::densenet121(100, Some(0.1)).unwrap();
        compare_predictions(&densenet, device, 1e-3);
        for net in [zoo::resnet20(10).unwrap(), densenet] {
            compare_rounded(&net, rounded);
        }
        compare_predictions(&zoo::resnet20(10).unwrap(), device, 1e-4);
    }
}

/// Products of eleven bits are near those of `f32`.
fn compare_rounded(net: &Network, device: Device) {
    let off = logits_error(net, device);
    assert!(off > 0.0 && off < 2e-2, "{}: {off:e}", net.name());
}

/// Error of logits beside the processor's.
fn logits_error(net: &Network, device: Device) -> f64 {
    let images = noise(3 * net.input_shape().len(), 21);
    let parameters = weights(net, 0);
    let of = |device| {
        let logits = predictor(net, device).logits(&parameters, 4, &images);
        logits.unwrap()
    };
    error(&of(device), &wide(&of(Device::cpu().threads(1))))
}

/// Batches that the host hands over one by one.
#[test]
fn single_steps_and_micro_batches_work_as_on_the_processor() {
    let Some(device) = gpu() else { return };
    let net = odd();
    let run = |device: Device| {
        let mut trainer = trainer(&net, device, 4, [member(&net, rule("ucbopt"), 3)]);
        advance(&mut trainer, &[3], |_| 0..2);
        let images = noise(4 * net.input_shape().len(), 1);
        let labels = [0, 1, 2, 3];
        let loss = trainer.step(0, 0.01, &images, &labels).unwrap().batch.loss;
        let half = images.len() / 2;
        trainer
            .accumulate(0, &images[..half], &labels[..2])
            .unwrap();
        trainer
            .accumulate(0, &images[half..], &labels[2..])
            .unwrap();
        trainer.apply(0, 0.01).unwrap();
        advance(&mut trainer, &[3], |_| 2..4);
        (loss, trainer.snapshot(0))
    };
    let (gpu, cpu) = (run(device), run(Device::cpu().threads(1)));
    assert!((gpu.0 - cpu.0).abs() < 1e-5);
    assert_eq!(gpu.1.draws, cpu.1.draws);
    let off = error(&gpu.1.parameters, &wide(&cpu.1.parameters));
    assert!(off < 1e-5, "{off:e}");
}

#[test]
fn gram_matrices_are_those_of_the_processor() {
    let Some(device) = gpu() else { return };
    // images, classes and the tolerance in the norm of a matrix
    let mut cases = vec![
        (odd(), 3, 4, TOLERANCE),
        (residual(), 2, 5, TOLERANCE),
        (small_dense(), 2, 3, TOLERANCE),
        (zoo::lenet(10).unwrap(), 2, 10, TOLERANCE),
        (zoo::lenet_dropout(10, 0.2).unwrap(), 2, 3, TOLERANCE),
        (zoo::resnet20(10).unwrap(), 1, 2, DEEP),
    ];
    if !is_emulated() {
        cases.push((zoo::resnet20_dropout(10, 0.1).unwrap(), 300, 10, DEEP));
        cases.push((zoo::densenet121(100, None).unwrap(), 5, 12, DEEP));
    }
    for (net, count, classes, tolerance) in cases {
        let weights = weights(&net, 3);
        let images = noise(count * net.input_shape().len(), 4);
        let each = noise(weights.len(), 5);
        let each: Vec<f32> = each.iter().map(|v| 2.0 + v).collect();
        let ways = [
            (Precisions::Each(&each), false),
            (Precisions::Common(0.7), false),
            (Precisions::Each(&each), true),
        ];
        // what a network's own kernels take long to do where they are emulated
        let long = is_emulated() && net.parameter_count() > 10_000;
        for (precisions, last_layer) in ways.into_iter().take(if long { 1 } else { 3 }) {
            let of = |device: Device, images: &[f32]| {
                let config = GramConfig {
                    classes,
                    last_layer,
                    device,
                };
                gram_matrices(&net, &weights, precisions, 7, images, &config).unwrap()
            };
            let (found, want) = (of(device, &images), of(Device::cpu(), &images));
            assert_eq!(found.classes, want.classes, "{}", net.name());
            let pairs = found.matrices.iter().zip(&want.matrices);
            let error = pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>();
            let norm = want.matrices.iter().map(|b| b * b).sum::<f64>();
            let error = (error / norm).sqrt();
            assert!(error <= tolerance, "{}: {error:e}", net.name());
            // the bits of an image depend on nothing but its place
            if !long {
                let first = of(device, &images[..net.input_shape().len()]);
                assert_eq!(first.matrices, found.matrices[..first.matrices.len()]);
            }
        }
    }
}

/// A card and its driver, but neither compiled kernels nor NVRTC: asked for the fastest device one
/// gets the processor, and hears why. In a process of its own, in whose folder of libraries there
/// is nothing but the driver.
#[test]
fn a_gpu_without_kernels_is_not_taken_and_told_of() {
    const ALONE: &str = "MAXITIVE_TEST_DRIVER_ALONE";
    if gpu().is_none() || !is_emulated() {
        return;
    }
    if std::env::var_os(ALONE).is_some() {
        let device = Device::by_name("auto").unwrap().threads(2);
        assert!(device.is_cpu());
        let problem = device.fallback().unwrap();
        for words in ["no compiled form of rules.cu", "NVRTC cannot be opened"] {
            assert!(problem.contains(words), "{problem}");
        }
        assert_eq!(Device::gpu_problem(0).as_deref(), Some(problem));
        // asked for by its name it is there, and what it cannot do is said when it is to do it
        assert_eq!(Device::by_name("cuda").unwrap().fallback(), None);
        assert_eq!(Device::cpu().fallback(), None);
        return;
    }
    assert_eq!(Device::by_name("auto").unwrap().name(), "cuda");
    assert_eq!(Device::gpu_problem(0), None);
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap();
    let driver = std::env::split_paths(&folders).map(|folder| folder.join("libcuda.so.1"));
    let driver = driver.into_iter().find(|path| path.exists()).unwrap();
    let folder = std::env::temp_dir().join(format!("maxitive-driver-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(driver, folder.join("libcuda.so.1")).unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_gpu_without_kernels_is_not_taken_and_told_of"])
        .env("LD_LIBRARY_PATH", &folder)
        .env("XDG_CACHE_HOME", folder.join("cache"))
        .env_remove("MAXITIVE_NVRTC")
        .env_remove("MAXITIVE_KERNELS")
        .env(ALONE, "1")
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    let child = child.unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}"
    );
}
