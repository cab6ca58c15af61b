//! Trainer and predictor: rules, accumulation, names, samples, allocation; and the twin against
//! finite differences.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use cbopt::{Ivon, IvonConfig, Rule, RuleConfig, SgdConfig, Update, UpperCboConfig};
use engine::{
    BatchLoss, Conv2d, Device, DropoutMode, Input, Isa, Member, Network, NetworkBuilder, Predictor,
    PredictorConfig, Shape, Snapshot, Step, Stretch, TrainStep, Trainer, TrainerConfig, twin, zoo,
};
use golden::wide;
use images::{Images, Normalization, Visit};

/// Deterministic numbers on `[-1, 1)`.
fn noise(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn small() -> Network {
    let mut net = NetworkBuilder::new("small", Shape::new(2, 7, 6));
    let x = net.input();
    let x = net.conv2d("conv", x, Conv2d::new(3, 3).stride(2).same());
    let x = net.frn_tlu("frn", x);
    let y = net.conv2d("again", x, Conv2d::new(3, 3).padding(1).no_bias());
    let y = net.relu("relu", y);
    let y = net.dropout("drop", y, 0.25, false);
    let x = net.add("sum", x, y);
    let x = net.concat("both", &[y, x]);
    let x = net.max_pool("pool", x, 2, 1);
    let y = net.avg_pool("mean", x, 2, 1);
    let x = net.global_avg_pool("x", x);
    let y = net.flatten("y", y);
    let x = net.concat("flat", &[x, y]);
    let x = net.linear("fc", x, 4);
    net.build(x).unwrap()
}

#[test]
fn the_twin_has_the_slope_of_its_loss() {
    let net = small();
    let batch = 3;
    let mut parameters = wide(&net.initial_parameters(2));
    for (p, z) in parameters.iter_mut().zip(noise(10_000, 4)) {
        *p += 0.1 * f64::from(z);
    }
    let images = wide(&noise(batch * net.input_shape().len(), 3));
    let labels = [1, 3, 0];
    let mode = DropoutMode::Train(5);
    let run = |parameters: &[f64], images: &[f64]| {
        twin::run(&net, parameters, images, &labels, mode).unwrap()
    };
    let loss = |parameters: &[f64], images: &[f64]| run(parameters, images).loss;
    let run = run(&parameters, &images);
    // Central differences: error h² times the third derivative, plus rounding 1e-16 / h.
    let h = 1e-5;
    let slope = |values: &[f64], i: usize, f: &dyn Fn(&[f64]) -> f64| {
        let mut moved = values.to_vec();
        moved[i] = values[i] + h;
        let above = f(&moved);
        moved[i] = values[i] - h;
        (above - f(&moved)) / (2.0 * h)
    };
    for i in 0..parameters.len() {
        let want = slope(&parameters, i, &|p| loss(p, &images));
        let got = run.gradient[i];
        assert!((got - want).abs() < 1e-8, "parameter {i}: {got} {want}");
    }
    for i in 0..images.len() {
        let want = slope(&images, i, &|x| loss(&parameters, x));
        assert!((run.input_gradient[i] - want).abs() < 1e-8, "pixel {i}");
    }
}

/// A network, images and their labels.
fn problem(batch: usize) -> (Network, Vec<f32>, Vec<u32>) {
    let net = zoo::lenet(10).unwrap();
    let labels: Vec<u32> = (0..batch).map(|i| (i * 3 % 10) as u32).collect();
    let mut images = noise(batch * 784, 8);
    // Each class has a bright column of its own.
    for (image, &label) in images.chunks_mut(784).zip(&labels) {
        for row in image.chunks_mut(28) {
            row[4 + 2 * label as usize] += 3.0;
        }
    }
    (net, images, labels)
}

fn config(batch: usize, threads: usize) -> TrainerConfig {
    TrainerConfig {
        batch,
        device: Device::cpu().threads(threads),
        ..Default::default()
    }
}

/// A trainer of one run.
fn trainer(
    net: &Network,
    batch: usize,
    threads: usize,
    rule: impl Into<Rule>,
    parameters: &[f32],
) -> Trainer {
    let member = Member::new(rule, parameters.to_vec());
    config(batch, threads).build(net, [member]).unwrap()
}

fn predictor(net: &Network, device: Device) -> Predictor {
    let config = PredictorConfig {
        device,
        ..Default::default()
    };
    config.build(net).unwrap()
}

fn sgd() -> Rule {
    SgdConfig::default().build().unwrap().into()
}

/// IVON with so many samples.
fn ivon(mc_samples: u32) -> Ivon {
    let config = IvonConfig {
        hess_init: 0.5,
        mc_samples,
        ..IvonConfig::new(1e4)
    };
    config.build().unwrap()
}

/// What a refusal says.
fn refusal<T>(result: engine::Result<T>) -> String {
    result.err().unwrap().to_string()
}

/// The gradient at the weights of the first run.
fn gradient(trainer: &mut Trainer, images: &[f32], labels: &[u32]) -> (BatchLoss, Vec<f32>) {
    let mut out = vec![f32::NAN; trainer.network().parameter_count()];
    let batch = trainer.gradient(0, images, labels, &mut out).unwrap();
    (batch, out)
}

#[test]
fn a_step_is_the_rule_on_the_gradient() {
    let (net, images, labels) = problem(40);
    let rule = UpperCboConfig::default().build().unwrap();
    let start = net.initial_parameters(1);
    let mut trainer = trainer(&net, 40, 2, rule, &start);
    let (_, gradient) = gradient(&mut trainer, &images, &labels);
    assert_eq!(trainer.parameters(0), start);
    trainer.step(0, 0.01, &images, &labels).unwrap();
    let mut want = start;
    let mut state = rule.state(want.len());
    rule.step(0.01, &mut want, &gradient, &mut state).unwrap();
    assert_eq!(trainer.parameters(0), want);
    assert_eq!(trainer.state(0).steps(), 1);
}

#[test]
fn every_rule_learns_a_batch_and_threads_do_not_matter() {
    let (net, images, labels) = problem(48);
    let by_id = |id| RuleConfig::by_id(id).unwrap().build().unwrap();
    let rules: [(Rule, f64); 7] = [
        (by_id("ucbopt"), 0.1),
        (by_id("ucbopt-adapt"), 0.002),
        // divided by about 0.002; at four times this rate the few images make it jump about
        (by_id("lcbopt-adapt"), 0.0005),
        (by_id("sgd"), 0.05),
        (by_id("adamw"), 0.003),
        (ivon(1).into(), 0.1),
        (ivon(2).into(), 0.1),
    ];
    let steps = golden::short(80, 4);
    for (rule, lr) in rules {
        let mut ends = Vec::new();
        for threads in [1, 3] {
            let mut trainer = trainer(&net, 48, threads, rule, &net.initial_parameters(1));
            let first = gradient(&mut trainer, &images, &labels).0.loss;
            for _ in 0..steps {
                trainer.step(0, lr, &images, &labels).unwrap();
            }
            let last = gradient(&mut trainer, &images, &labels).0.loss;
            let id = rule.id();
            assert!(steps < 80 || last < 0.95 * first, "{id}: {first} to {last}");
            ends.push(trainer.parameters(0).to_vec());
        }
        assert_eq!(ends[0], ends[1], "{}", rule.id());
    }
}

#[test]
fn ivon_takes_its_gradient_at_perturbed_weights() {
    let (net, images, labels) = problem(16);
    let rule = IvonConfig {
        hess_init: 0.5,
        ..IvonConfig::new(1e3)
    }
    .build()
    .unwrap();
    let start = net.initial_parameters(1);
    let mut trainer = trainer(&net, 16, 1, rule, &start);
    let executor = cbopt::Executor::single();
    let mut sampled = start.clone();
    let (state, key) = (trainer.state(0), rule.noise_key(trainer.state(0)));
    rule.sample(&executor, &start, state, key, &mut sampled)
        .unwrap();
    assert_ne!(sampled, start);
    let mut other = self::trainer(&net, 16, 1, sgd(), &sampled);
    let (_, want) = gradient(&mut other, &images, &labels);
    trainer.step(0, 0.1, &images, &labels).unwrap();
    assert_eq!(trainer.last_gradient(0), want);
}

#[test]
fn micro_batches_are_one_batch() {
    let (net, images, labels) = problem(48);
    let start = net.initial_parameters(1);
    let [mut whole, mut parts] = [(), ()].map(|()| trainer(&net, 48, 2, sgd(), &start));
    whole.step(0, 0.1, &images, &labels).unwrap();
    assert!(parts.apply(0, 0.1).is_err());
    for range in [0..16, 16..21, 21..48] {
        let part = &images[range.start * 784..range.end * 784];
        parts.accumulate(0, part, &labels[range]).unwrap();
    }
    assert!(parts.step(0, 0.1, &images, &labels).is_err());
    parts.apply(0, 0.1).unwrap();
    for (a, b) in whole.parameters(0).iter().zip(parts.parameters(0)) {
        // sums in another order
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
}

#[test]
fn an_unusable_batch_does_not_stop_a_trainer_of_many_samples() {
    let (net, images, labels) = problem(16);
    let mut broken = images.clone();
    broken[3] = f32::NAN;
    let start = net.initial_parameters(1);
    let build = |non_finite| {
        let config = TrainerConfig {
            non_finite,
            ..config(16, 1)
        };
        let member = Member::new(ivon(3), start.clone());
        config.build(&net, [member]).unwrap()
    };
    let mut good = build(cbopt::NonFinite::Refuse);
    good.step(0, 0.1, &images, &labels).unwrap();
    let mut refusing = build(cbopt::NonFinite::Refuse);
    for _ in 0..2 {
        assert!(refusing.step(0, 0.1, &broken, &labels).is_err());
        assert!(refusing.step(0, f64::NAN, &images, &labels).is_err());
        assert_eq!(refusing.state(0).steps(), 0);
        assert!(refusing.state(0).momentum().iter().all(|&m| m == 0.0));
        assert!(refusing.state(0).curvature().iter().all(|&h| h == 0.5));
        assert!(refusing.parameters(0) == start);
    }
    refusing.step(0, 0.1, &images, &labels).unwrap();
    assert!(refusing.parameters(0) == good.parameters(0));
    let mut skipping = build(cbopt::NonFinite::SkipStep);
    let step = skipping.step(0, 0.1, &broken, &labels).unwrap();
    assert!(step.report.skipped);
    assert_eq!(skipping.state(0).skipped_steps(), 1);
    skipping.step(0, 0.1, &images, &labels).unwrap();
    assert!(skipping.parameters(0) == good.parameters(0));
}

#[test]
fn micro_batches_wait_for_a_good_learning_rate() {
    let (net, images, labels) = problem(16);
    let start = net.initial_parameters(1);
    for rule in [sgd(), ivon(1).into()] {
        let mut trainer = trainer(&net, 16, 1, rule, &start);
        trainer.accumulate(0, &images, &labels).unwrap();
        assert!(trainer.apply(0, -1.0).is_err());
        assert!(trainer.parameters(0) == start);
        trainer.apply(0, 0.1).unwrap();
        assert!(trainer.parameters(0) != start);
        assert!(trainer.apply(0, 0.1).is_err());
        // an unusable gradient is forgotten
        let mut broken = images.clone();
        broken[3] = f32::NAN;
        let moved = trainer.parameters(0).to_vec();
        let refused = match trainer.accumulate(0, &broken, &labels) {
            Ok(_) => trainer.apply(0, 0.1).is_err(),
            Err(_) => true,
        };
        assert!(refused, "{}", rule.id());
        assert!(trainer.parameters(0) == moved);
        trainer
            .step(0, 0.1, &images, &labels)
            .unwrap_or_else(|error| {
                // `ivon` with micro-batches has no other way
                assert_eq!(rule.id(), "ivon", "{error}");
                trainer.accumulate(0, &images, &labels).unwrap();
                let report = trainer.apply(0, 0.1).unwrap();
                TrainStep {
                    batch: gradient(&mut trainer, &images, &labels).0,
                    report,
                }
            });
        assert!(trainer.parameters(0) != moved);
    }
}

#[test]
fn wrong_data_are_refused() {
    let (net, images, labels) = problem(16);
    let start = net.initial_parameters(1);
    let build = |config: TrainerConfig| config.build(&net, [Member::new(sgd(), start.clone())]);
    for (config, said) in [
        (config(0, 1), "batch 0 is not in 1..=4096"),
        (config(4097, 1), "batch 4097 is not in 1..=4096"),
        (config(1, 65), "threads 65 is not in 1..=64"),
    ] {
        assert_eq!(refusal(build(config)), said);
    }
    let mut trainer = build(config(16, 1)).unwrap();
    let mut wrong = labels.clone();
    wrong[5] = 10;
    let short = "images has 12543 entries, expected 12544";
    let label = "label 10 of image 5 is not in 0..10";
    for (images, labels, said) in [(&images[1..], &labels, short), (&images, &wrong, label)] {
        assert_eq!(refusal(trainer.step(0, 0.1, images, labels)), said);
    }
    assert!(trainer.step(0, 0.1, &[], &[]).is_err());
    let short = Member::new(sgd(), start[1..].to_vec());
    assert!(config(16, 1).build(&net, [short]).is_err());
    let mut broken = images.clone();
    broken[3] = f32::NAN;
    let before = trainer.parameters(0).to_vec();
    let refused = trainer.step(0, 0.1, &broken, &labels);
    assert!(matches!(refused, Err(engine::Error::Rule(_))));
    assert_eq!(trainer.parameters(0), before);
    trainer.step(0, 0.1, &images, &labels).unwrap();
}

#[test]
fn parameters_go_out_and_in_by_name() {
    let net = zoo::resnet20(10).unwrap();
    let flat = net.initial_parameters(3);
    let parts: Vec<(String, Vec<f32>)> = net
        .export(&flat)
        .unwrap()
        .map(|(name, shape, values)| {
            assert_eq!(shape.iter().product::<usize>(), values.len());
            (name.to_owned(), values.to_vec())
        })
        .collect();
    assert_eq!(parts[0].0, "stem.conv.weight");
    let parts = parts.iter();
    let mut parts = parts.map(|(name, values)| (name.as_str(), values.as_slice()));
    assert_eq!(net.import(parts.clone().rev()).unwrap(), flat);
    parts.next();
    let missing = "parameter \"stem.conv.weight\" is missing";
    assert_eq!(refusal(net.import(parts)), missing);
    for (name, said) in [
        (
            "head.weight",
            "the network has no parameter \"head.weight\"",
        ),
        (
            "fc.bias",
            "parameter \"fc.bias\" has 1 entries, expected 10",
        ),
    ] {
        assert_eq!(refusal(net.import([(name, &flat[..1])])), said);
    }
}

#[test]
fn initial_parameters_are_those_of_pytorch() {
    let net = zoo::resnet20(10).unwrap();
    let flat = net.initial_parameters(7);
    assert_eq!(flat, net.initial_parameters(7));
    assert_ne!(flat, net.initial_parameters(8));
    let part = |name: &str| &flat[net.parameter(name).unwrap().range()];
    assert!(part("stem.frn.gamma").iter().all(|&v| v == 1.0));
    for zeros in ["stem.frn.beta", "stem.frn.tau"] {
        assert!(part(zeros).iter().all(|&v| v == 0.0));
    }
    let weight = part("stage3.block2.conv1.weight");
    let bound = 1.0 / (64.0f32 * 9.0).sqrt();
    let largest = weight.iter().fold(0.0f32, |a, b| a.max(b.abs()));
    assert!(largest <= bound && largest > 0.999 * bound);
    let variance = weight.iter().map(|v| v * v).sum::<f32>() / weight.len() as f32;
    assert!((variance / (bound * bound / 3.0) - 1.0).abs() < 0.05);
    // the stream belongs to the name, not to the position
    let other = zoo::densenet121(100, None).unwrap();
    let stem = &other.initial_parameters(7)[other.parameter("stem.conv.weight").unwrap().range()];
    assert_eq!(stem[..100], part("stem.conv.weight")[..100]);
}

#[test]
fn predictions_agree_with_each_other() {
    let net = zoo::lenet_dropout(10, 0.3).unwrap();
    let images = noise(37 * 784, 5);
    let samples: Vec<Vec<f32>> = (0..5).map(|s| net.initial_parameters(s)).collect();
    let samples: Vec<&[f32]> = samples.iter().map(Vec::as_slice).collect();
    for isa in Isa::available() {
        let predictor =
            |net: &Network, threads| predictor(net, Device::cpu().threads(threads).isa(isa));
        let mut one = predictor(&net, 1);
        let logits = one.logits(samples[0], 4, &images).unwrap();
        let probabilities = one.probabilities(samples[0], 4, &images).unwrap();
        for (z, p) in logits.chunks(10).zip(probabilities.chunks(10)) {
            let sum: f32 = z.iter().map(|v| v.exp()).sum();
            for (z, p) in z.iter().zip(p) {
                assert!((z.exp() / sum - p).abs() < 1e-6);
            }
        }
        // the last layer by hand
        let features = one.features(samples[0], 4, &images).unwrap();
        assert_eq!(features.len(), 37 * 84);
        let weight = &samples[0][net.parameter("fc3.weight").unwrap().range()];
        let bias = &samples[0][net.parameter("fc3.bias").unwrap().range()];
        for (x, z) in features.chunks(84).zip(logits.chunks(10)) {
            for (k, z) in z.iter().enumerate() {
                let own: f32 = x.iter().zip(&weight[84 * k..]).map(|(x, w)| x * w).sum();
                assert!((own + bias[k] - z).abs() < 1e-5);
            }
        }
        // the mean over samples is the mean of single predictions, here without dropout
        let mut plain = predictor(&zoo::lenet(10).unwrap(), 2);
        let mean = plain.mean_probabilities(&samples, 0, &images).unwrap();
        let mut want = vec![0.0f32; mean.len()];
        for sample in &samples {
            let p = plain.probabilities(sample, 0, &images).unwrap();
            want.iter_mut().zip(p).for_each(|(a, b)| *a += b / 5.0);
        }
        assert!(mean.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-6));
        // dropout that stays on: other masks for other samples and seeds, the same for any number
        // of threads
        let masked = [samples[0]; 8];
        let many = one.mean_probabilities(&masked, 4, &images).unwrap();
        let mut pairs = many.iter().zip(&probabilities);
        assert!(pairs.any(|(a, b)| (a - b).abs() > 1e-4));
        let threaded = predictor(&net, 3).mean_probabilities(&masked, 4, &images);
        assert_eq!(threaded.unwrap(), many);
        assert_ne!(one.logits(samples[0], 5, &images).unwrap(), logits);
        assert!(one.mean_probabilities(&[], 0, &images).is_err());
        assert!(one.logits(samples[0], 0, &images[1..]).is_err());
    }
}

#[test]
fn many_samples_of_many_images_are_the_samples_of_each() {
    let mut net = NetworkBuilder::new("tiny", Shape::new(1, 4, 4));
    let x = net.input();
    let x = net.conv2d("conv", x, Conv2d::new(8, 3).padding(1));
    let x = net.relu("relu", x);
    let x = net.flatten("flatten", x);
    let x = net.linear("fc", x, 3);
    let net = net.build(x).unwrap();
    let samples: Vec<Vec<f32>> = (0..3).map(|s| net.initial_parameters(s)).collect();
    let samples: Vec<&[f32]> = samples.iter().map(Vec::as_slice).collect();
    let images = noise((16 * 75 + 5) * 16, 8);
    for threads in [1, 3] {
        let mut predictor = predictor(&net, Device::cpu().threads(threads));
        let mut mean = |images: &[f32]| predictor.mean_probabilities(&samples, 0, images).unwrap();
        let together = mean(&images);
        let apart: Vec<f32> = images.chunks(16 * 16).flat_map(&mut mean).collect();
        assert!(together.iter().all(|p| *p > 0.0 && *p < 1.0));
        assert_eq!(together, apart);
    }
}

#[test]
fn the_large_tiles_of_winograd_round_little_more_than_the_direct_form() {
    for (channels, size) in [(16, 32), (64, 8)] {
        let mut net = NetworkBuilder::new("one", Shape::new(channels, size, size));
        let x = net.input();
        let y = net.conv2d("conv", x, Conv2d::new(channels, 3).padding(1));
        let x = net.flatten("flatten", y);
        let x = net.linear("fc", x, 2);
        let net = net.build(x).unwrap();
        let parameters = net.initial_parameters(1);
        // What a ReLU lets through, as in a network.
        let mut images = noise(8 * net.input_shape().len(), 2);
        images.iter_mut().for_each(|v| *v = v.max(0.0));
        let mode = DropoutMode::Predict(0);
        let values = twin::forward(&net, &wide(&parameters), &wide(&images), mode).unwrap();
        let error = |winograd, isa| {
            let config = PredictorConfig {
                device: Device::cpu().threads(1).isa(isa).winograd(winograd),
                features: Some(y),
            };
            let mut predictor = config.build(&net).unwrap();
            let got = predictor.features(&parameters, 0, &images).unwrap();
            let squares = got.iter().zip(&values[y.index()]);
            let squares = squares.map(|(&a, b)| (f64::from(a) - b).powi(2));
            squares.sum::<f64>().sqrt()
        };
        for isa in Isa::available() {
            let (tiles, direct) = (error(true, isa), error(false, isa));
            assert!(direct > 0.0 && tiles > 0.0 && tiles != direct);
            assert!(tiles < 4.0 * direct, "{}: {}", isa.name(), tiles / direct);
        }
    }
}

#[test]
fn features_are_the_input_of_the_last_layer() {
    let images = noise(3 * 16, 5);
    let predict = |net: &Network| {
        let parameters = net.initial_parameters(4);
        let mode = DropoutMode::Predict(0);
        let values = twin::forward(net, &wide(&parameters), &wide(&images), mode).unwrap();
        let close = |got: &[f32], want: &[f64]| {
            assert_eq!(got.len(), want.len());
            for (got, want) in got.iter().zip(want) {
                assert!((f64::from(*got) - want).abs() < 1e-5, "{}", net.name());
            }
        };
        let features = |features| {
            let config = PredictorConfig {
                device: Device::cpu().threads(1),
                features,
            };
            let mut predictor = config.build(net).unwrap();
            let logits = predictor.logits(&parameters, 0, &images).unwrap();
            close(&logits, values.last().unwrap());
            let features = predictor.features(&parameters, 0, &images).unwrap();
            assert_eq!(features.len(), 3 * predictor.feature_count());
            features
        };
        let last = net.layers().last().unwrap();
        close(&features(None), &values[last.inputs[0].index()]);
        // any other value, also of layers that are done by the one before or after them
        for layer in net.layers() {
            let value = net.output(&layer.name).unwrap();
            close(&features(Some(value)), &values[value.index()]);
        }
    };
    // A layer that would otherwise be done by the one before it: ReLU, max-pool, sum with FRN.
    let mut net = NetworkBuilder::new("relu", Shape::new(1, 4, 4));
    let x = net.input();
    let x = net.flatten("flatten", x);
    let x = net.linear("fc", x, 5);
    let x = net.relu("relu", x);
    predict(&net.build(x).unwrap());
    let mut net = NetworkBuilder::new("pool", Shape::new(1, 4, 4));
    let x = net.input();
    let x = net.conv2d("conv", x, Conv2d::new(5, 3));
    let x = net.relu("relu", x);
    let x = net.max_pool("pool", x, 2, 2);
    predict(&net.build(x).unwrap());
    let mut net = NetworkBuilder::new("sum", Shape::new(1, 4, 4));
    let x = net.input();
    let x = net.conv2d("conv", x, Conv2d::new(5, 4));
    let y = net.frn_tlu("frn", x);
    let x = net.add("sum", y, x);
    let net = net.build(x).unwrap();
    predict(&net);
    let unknown = "layer \"head\": the network has no layer of this name";
    assert_eq!(refusal(net.output("head")), unknown);
    let features = Some(small().output("fc").unwrap());
    let config = PredictorConfig {
        features,
        ..Default::default()
    };
    let outside = "features 13 is not in the values of the network";
    assert_eq!(refusal(config.build(&net)), outside);
}

#[test]
fn a_step_allocates_nothing() {
    for net in [
        zoo::lenet_dropout(10, 0.1).unwrap(),
        zoo::resnet20(10).unwrap(),
    ] {
        let batch = golden::short(20, 3);
        let images = noise(batch * net.input_shape().len(), 1);
        let labels = vec![1; batch];
        let rule = UpperCboConfig::default().build().unwrap();
        let mut trainer = trainer(&net, batch, 1, rule, &net.initial_parameters(1));
        trainer.step(0, 0.01, &images, &labels).unwrap();
        let info = allocation_counter::measure(|| {
            trainer.step(0, 0.01, &images, &labels).unwrap();
        });
        assert_eq!(info.count_total, 0, "{}", net.name());
    }
}

/// Byte images, their normalization, and the visits of some steps, shifted and mirrored.
struct Bytes {
    images: Arc<Images>,
    normalization: Normalization,
    visits: Vec<Visit>,
    steps: Vec<Step>,
}

fn bytes(shape: Shape, classes: usize, sizes: &[u32], lr: f64) -> Bytes {
    let count = 40;
    let pixels = (0..count * shape.len()).map(|i| (i * 37 + i / 5 * 11) as u8);
    let labels = (0..count).map(|i| (i * 7 % classes) as u32).collect();
    let images = Images::new(shape, classes, pixels.collect(), labels).unwrap();
    let total: u32 = sizes.iter().sum();
    let visit = |i: u32| {
        let shift = |by: u32| (i * by % 9) as i8 - 4;
        Visit::new(i * 13 % count as u32, shift(5), shift(7), i % 3 == 1)
    };
    let std = (0..shape.channels).map(|c| 0.3 + 0.1 * c as f32).collect();
    Bytes {
        images: Arc::new(images),
        normalization: Normalization::new(vec![0.4; shape.channels], std).unwrap(),
        visits: (0..total).map(visit).collect(),
        steps: sizes.iter().map(|&images| Step { images, lr }).collect(),
    }
}

impl Bytes {
    /// Lets a trainer hold the images.
    fn hold(&self, trainer: &mut Trainer) {
        let images = Arc::clone(&self.images);
        trainer.hold(images, &self.normalization).unwrap();
    }

    /// Every batch in `f32`, with its labels.
    fn batches(&self) -> Vec<(Vec<f32>, Vec<u32>)> {
        let tables = self.normalization.tables();
        let size = self.images.shape().len();
        let mut visits = self.visits.as_slice();
        let mut out = Vec::new();
        for step in &self.steps {
            let (batch, later) = visits.split_at(step.images as usize);
            visits = later;
            let mut images = vec![0.0; batch.len() * size];
            for (visit, image) in batch.iter().zip(images.chunks_mut(size)) {
                visit.write(&self.images, &tables, image);
            }
            let label = |visit: &Visit| self.images.labels()[visit.image as usize];
            out.push((images, batch.iter().map(label).collect()));
        }
        out
    }

    /// The stretch of these steps.
    fn stretch(&self, steps: std::ops::Range<usize>) -> Stretch<'_> {
        let images = |steps: &[Step]| steps.iter().map(|s| s.images as usize).sum::<usize>();
        let first = images(&self.steps[..steps.start]);
        Stretch {
            visits: &self.visits[first..first + images(&self.steps[steps.clone()])],
            steps: &self.steps[steps],
        }
    }
}

/// Members that differ in everything they may.
fn crowd(net: &Network) -> Vec<Member> {
    let upper = UpperCboConfig::default().build().unwrap();
    vec![
        Member::new(sgd(), net.initial_parameters(1)).seed(5),
        Member::new(ivon(2), net.initial_parameters(2)).seed(6),
        Member::new(upper, net.initial_parameters(1)).seed(7),
    ]
}

#[test]
fn stretches_of_bytes_are_single_steps_from_host_images() {
    let net = zoo::lenet_dropout(10, 0.2).unwrap();
    let data = bytes(net.input_shape(), 10, &[16, 21, 3, 32, 16, 16, 7], 0.01);
    let mut alone = Vec::new();
    for member in crowd(&net) {
        let mut trainer = config(32, 1).build(&net, [member]).unwrap();
        let steps: Vec<TrainStep> = data
            .batches()
            .iter()
            .map(|(images, labels)| trainer.step(0, 0.01, images, labels).unwrap())
            .collect();
        alone.push((steps, trainer.snapshot(0)));
    }
    for members in [1, 3] {
        for stretch in [1, 2, 7] {
            // The first alone, and all of them in another order.
            let order: Vec<usize> = (0..members).rev().collect();
            let crowd = crowd(&net);
            let chosen = order.iter().map(|&i| crowd[i].clone());
            let mut trainer = config(32, 2).build(&net, chosen).unwrap();
            data.hold(&mut trainer);
            let mut steps = vec![Vec::new(); members];
            for first in (0..7).step_by(stretch) {
                let part = data.stretch(first..7.min(first + stretch));
                let results = trainer.advance(&vec![part; members]).unwrap();
                for (all, result) in steps.iter_mut().zip(results) {
                    assert_eq!(result.stopped, None);
                    all.extend(result.steps);
                }
            }
            for (place, &i) in order.iter().enumerate() {
                let what = format!("member {i} of {members}, stretch {stretch}");
                assert_eq!(steps[place], alone[i].0, "{what}");
                assert!(trainer.snapshot(place) == alone[i].1, "{what}");
            }
        }
    }
}

#[test]
fn a_run_goes_on_from_its_snapshot() {
    let net = zoo::lenet_dropout(10, 0.2).unwrap();
    let data = bytes(net.input_shape(), 10, &[16; 6], 0.01);
    for member in crowd(&net) {
        let build = |member: Member| {
            let mut trainer = config(16, 1).build(&net, [member]).unwrap();
            data.hold(&mut trainer);
            trainer
        };
        let mut whole = build(member.clone());
        whole.advance(&[data.stretch(0..6)]).unwrap();
        let mut first = build(member.clone());
        first.advance(&[data.stretch(0..3)]).unwrap();
        let Snapshot {
            parameters,
            state,
            draws,
        } = first.snapshot(0);
        let mut second = build(Member {
            parameters,
            state: Some(state),
            draws,
            ..member
        });
        second.advance(&[data.stretch(3..6)]).unwrap();
        assert!(second.snapshot(0) == whole.snapshot(0));
    }
}

#[test]
fn an_unusable_gradient_stops_one_run_alone() {
    let net = zoo::lenet(10).unwrap();
    let data = bytes(net.input_shape(), 10, &[16; 5], 0.01);
    let start = net.initial_parameters(1);
    let mut broken = start.clone();
    broken[0] = f32::INFINITY;
    let run = |members: &[&Vec<f32>], stretch: usize| {
        let members = members.iter();
        let members = members.map(|parameters| Member::new(sgd(), parameters.to_vec()));
        let mut trainer = config(16, 1).build(&net, members).unwrap();
        data.hold(&mut trainer);
        let mut stopped = vec![None; trainer.members()];
        for first in (0..5).step_by(stretch) {
            let part = data.stretch(first..5.min(first + stretch));
            let resting = |stop: &Option<cbopt::Error>| match stop {
                None => part,
                Some(_) => Stretch::default(),
            };
            let stretches: Vec<_> = stopped.iter().map(resting).collect();
            let results = trainer.advance(&stretches).unwrap();
            for (stop, result) in stopped.iter_mut().zip(results) {
                *stop = stop.take().or(result.stopped);
            }
        }
        let ends = (0..trainer.members()).map(|i| trainer.snapshot(i));
        (stopped, ends.collect::<Vec<_>>())
    };
    let (_, alone) = run(&[&start], 1);
    for stretch in [1, 2, 5] {
        let (stopped, ends) = run(&[&start, &broken, &start], stretch);
        let refused = stopped[1].as_ref();
        assert!(matches!(
            refused,
            Some(cbopt::Error::NonFiniteGradient { .. })
        ));
        assert!(stopped[0].is_none() && stopped[2].is_none());
        // before the update: weights and state are those before the step
        assert!(ends[1].parameters == broken);
        assert_eq!(ends[1].state.steps(), 0);
        assert!(ends[0] == alone[0] && ends[2] == alone[0]);
    }
}

#[test]
fn bytes_are_predicted_as_their_floats_are() {
    for net in [
        zoo::lenet_dropout(10, 0.2).unwrap(),
        zoo::resnet20(10).unwrap(),
    ] {
        let data = bytes(net.input_shape(), 10, &[1], 0.0);
        let indices: Vec<u32> = (0..37).map(|i| i * 11 % 40).collect();
        let input = Input::bytes(&data.images, &data.normalization, &indices);
        let floats = data.images.normalized_at(&indices, &data.normalization);
        let weights = net.initial_parameters(3);
        let mut predictor = PredictorConfig::default().build(&net).unwrap();
        let mut both = |predict: fn(&mut Predictor, &[f32], Input<'_>) -> Vec<f32>| {
            let want = predict(&mut predictor, &weights, Input::Floats(&floats));
            assert!(predict(&mut predictor, &weights, input) == want);
        };
        both(|predictor, weights, input| predictor.logits(weights, 3, input).unwrap());
        both(|predictor, weights, input| predictor.features(weights, 3, input).unwrap());
        both(|predictor, weights, input| {
            let samples = [weights; 3];
            predictor.mean_probabilities(&samples, 3, input).unwrap()
        });
        let label = |&i: &u32| data.images.labels()[i as usize];
        let labels: Vec<u32> = indices.iter().map(label).collect();
        let want = predictor.loss(&weights, 3, &floats, &labels).unwrap();
        assert_eq!(predictor.loss(&weights, 3, input, &labels).unwrap(), want);
        assert!(want.0.is_finite() && want.1 <= 37);
    }
}

#[test]
fn visits_that_do_not_fit_are_refused() {
    let net = zoo::lenet(10).unwrap();
    let data = bytes(net.input_shape(), 10, &[16, 16], 0.01);
    let mut trainer = trainer(&net, 16, 1, sgd(), &net.initial_parameters(1));
    let all = data.stretch(0..2);
    let not_held = "no images are held: call hold first";
    assert_eq!(refusal(trainer.advance(&[all])), not_held);
    let mut hold = |shape, classes, channels| {
        let images = bytes(shape, classes, &[1], 0.0).images;
        refusal(trainer.hold(images, &Normalization::identity(channels)))
    };
    let gray = net.input_shape();
    let narrow = hold(Shape::new(1, 28, 27), 10, 1);
    assert_eq!(narrow, "the images are 1x28x27, the network takes 1x28x28");
    let color = hold(gray, 10, 3);
    assert_eq!(color, "normalization has 3 entries, expected 1");
    assert!(hold(gray, 11, 1).ends_with("is not in 0..10"));
    data.hold(&mut trainer);
    let short = Stretch {
        visits: &data.visits[1..],
        ..all
    };
    let large = [Step {
        images: 32,
        lr: 0.01,
    }];
    let large = Stretch {
        steps: &large,
        ..all
    };
    let mut visits = data.visits.clone();
    visits[20].image = 40;
    let outside = Stretch {
        visits: &visits,
        ..all
    };
    for (stretches, said) in [
        (vec![all, all], "stretches has 2 entries, expected 1"),
        (vec![short], "visits has 31 entries, expected 32"),
        (vec![large], "images of a batch 32 is not in 1..=batch"),
        (
            vec![outside],
            "index of an image 40 is not in the images of the set",
        ),
    ] {
        assert_eq!(refusal(trainer.advance(&stretches)), said);
    }
    assert_eq!(trainer.state(0).steps(), 0);
    let none = config(16, 1).build(&net, []);
    assert_eq!(refusal(none), "members 0 is not in 1..");
}
