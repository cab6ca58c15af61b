//! Trainer and predictor: rules, accumulation, names, samples, allocation; and the twin against finite differences.

#![allow(clippy::unwrap_used)]

use cbopt::{AdamWConfig, IvonConfig, SgdConfig, Update, UpperCboConfig};
use engine::twin::{self, DropoutMode};
use engine::{Conv2d, Isa, Network, NetworkBuilder, PredictorConfig, Shape, TrainerConfig, zoo};

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
    let wide = |v: Vec<f32>| v.into_iter().map(f64::from).collect::<Vec<_>>();
    let mut parameters = wide(net.initial_parameters(2));
    parameters
        .iter_mut()
        .zip(noise(10_000, 4))
        .for_each(|(p, z)| *p += 0.1 * f64::from(z));
    let images = wide(noise(batch * net.input_shape().len(), 3));
    let labels = [1, 3, 0];
    let mode = DropoutMode::Train(5);
    let loss = |parameters: &[f64], images: &[f64]| {
        twin::run(&net, parameters, images, &labels, mode)
            .unwrap()
            .loss
    };
    let run = twin::run(&net, &parameters, &images, &labels, mode).unwrap();
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
        assert!(
            (run.gradient[i] - want).abs() < 1e-8,
            "parameter {i}: {} {want}",
            run.gradient[i]
        );
    }
    for i in 0..images.len() {
        let want = slope(&images, i, &|x| loss(&parameters, x));
        assert!((run.input_gradient[i] - want).abs() < 1e-8, "pixel {i}");
    }
}

struct Problem {
    net: Network,
    images: Vec<f32>,
    labels: Vec<u32>,
}

fn problem(batch: usize) -> Problem {
    let net = zoo::lenet(10).unwrap();
    let labels: Vec<u32> = (0..batch).map(|i| (i * 3 % 10) as u32).collect();
    let mut images = noise(batch * 784, 8);
    // Each class has a bright column of its own.
    for (image, &label) in images.chunks_mut(784).zip(&labels) {
        for row in image.chunks_mut(28) {
            row[4 + 2 * label as usize] += 3.0;
        }
    }
    Problem {
        net,
        images,
        labels,
    }
}

fn config(batch: usize, threads: usize) -> TrainerConfig {
    TrainerConfig {
        batch,
        threads,
        ..Default::default()
    }
}

#[test]
fn a_step_is_the_rule_on_the_gradient() {
    let Problem {
        net,
        images,
        labels,
    } = problem(40);
    let rule = UpperCboConfig::default().build().unwrap();
    let start = net.initial_parameters(1);
    let mut trainer = config(40, 2).build(&net, rule, start.clone()).unwrap();
    trainer.gradient(&images, &labels).unwrap();
    assert_eq!(trainer.parameters(), start);
    let gradient = trainer.gradients().to_vec();
    trainer.step(0.01, &images, &labels).unwrap();
    let mut want = start;
    let mut state = rule.state(want.len());
    rule.step(0.01, &mut want, &gradient, &mut state).unwrap();
    assert_eq!(trainer.parameters(), want);
    assert_eq!(trainer.state().steps(), 1);
}

#[test]
fn every_rule_learns_a_batch_and_threads_do_not_matter() {
    let Problem {
        net,
        images,
        labels,
    } = problem(48);
    let rules: Vec<(cbopt::Rule, f64)> = vec![
        (UpperCboConfig::default().build().unwrap().into(), 0.1),
        (
            cbopt::UpperAdaptCboConfig::default()
                .build()
                .unwrap()
                .into(),
            0.002,
        ),
        (
            cbopt::LowerAdaptCboConfig::default()
                .build()
                .unwrap()
                .into(),
            // divided by about 0.002; at four times this rate the few images make it jump about
            0.0005,
        ),
        (SgdConfig::default().build().unwrap().into(), 0.05),
        (AdamWConfig::default().build().unwrap().into(), 0.003),
        (
            IvonConfig {
                hess_init: 0.5,
                ..IvonConfig::new(1e4)
            }
            .build()
            .unwrap()
            .into(),
            0.1,
        ),
        (
            IvonConfig {
                hess_init: 0.5,
                mc_samples: 2,
                ..IvonConfig::new(1e4)
            }
            .build()
            .unwrap()
            .into(),
            0.1,
        ),
    ];
    for (rule, lr) in rules {
        let mut ends = Vec::new();
        for threads in [1, 3] {
            let start = net.initial_parameters(1);
            let mut trainer = config(48, threads).build(&net, rule, start).unwrap();
            let first = trainer.gradient(&images, &labels).unwrap().loss;
            for _ in 0..80 {
                trainer.step(lr, &images, &labels).unwrap();
            }
            let last = trainer.gradient(&images, &labels).unwrap().loss;
            assert!(last < 0.95 * first, "{}: {first} to {last}", rule.id());
            ends.push(trainer.parameters().to_vec());
        }
        assert_eq!(ends[0], ends[1], "{}", rule.id());
    }
}

#[test]
fn ivon_takes_its_gradient_at_perturbed_weights() {
    let Problem {
        net,
        images,
        labels,
    } = problem(16);
    let rule = IvonConfig {
        hess_init: 0.5,
        ..IvonConfig::new(1e3)
    }
    .build()
    .unwrap();
    let start = net.initial_parameters(1);
    let mut trainer = config(16, 1).build(&net, rule, start.clone()).unwrap();
    let executor = cbopt::Executor::single();
    let mut sampled = start.clone();
    let (state, key) = (trainer.state(), rule.noise_key(trainer.state()));
    rule.sample(&executor, &start, state, key, &mut sampled)
        .unwrap();
    assert_ne!(sampled, start);
    let mut other = config(16, 1)
        .build(&net, SgdConfig::default().build().unwrap(), sampled)
        .unwrap();
    other.gradient(&images, &labels).unwrap();
    trainer.step(0.1, &images, &labels).unwrap();
    assert_eq!(trainer.gradients(), other.gradients());
}

#[test]
fn micro_batches_are_one_batch() {
    let Problem {
        net,
        images,
        labels,
    } = problem(48);
    let rule = SgdConfig::default().build().unwrap();
    let start = net.initial_parameters(1);
    let mut whole = config(48, 2).build(&net, rule, start.clone()).unwrap();
    whole.step(0.1, &images, &labels).unwrap();
    let mut parts = config(48, 2).build(&net, rule, start).unwrap();
    assert!(parts.apply(0.1).is_err());
    for range in [0..16, 16..21, 21..48] {
        parts
            .accumulate(&images[range.start * 784..range.end * 784], &labels[range])
            .unwrap();
    }
    assert!(parts.step(0.1, &images, &labels).is_err());
    parts.apply(0.1).unwrap();
    for (a, b) in whole.parameters().iter().zip(parts.parameters()) {
        // sums in another order
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
}

#[test]
fn an_unusable_batch_does_not_stop_a_trainer_of_many_samples() {
    let Problem {
        net,
        images,
        labels,
    } = problem(16);
    let mut broken = images.clone();
    broken[3] = f32::NAN;
    let rule = IvonConfig {
        hess_init: 0.5,
        mc_samples: 3,
        ..IvonConfig::new(1e4)
    }
    .build()
    .unwrap();
    let start = net.initial_parameters(1);
    let build = |non_finite| {
        let config = TrainerConfig {
            non_finite,
            ..config(16, 1)
        };
        config.build(&net, rule, start.clone()).unwrap()
    };
    let mut good = build(cbopt::NonFinite::Refuse);
    good.step(0.1, &images, &labels).unwrap();
    let mut refusing = build(cbopt::NonFinite::Refuse);
    for _ in 0..2 {
        assert!(refusing.step(0.1, &broken, &labels).is_err());
        assert!(refusing.step(f64::NAN, &images, &labels).is_err());
        assert_eq!(refusing.state().steps(), 0);
        assert!(refusing.state().momentum().iter().all(|&m| m == 0.0));
        assert!(refusing.state().curvature().iter().all(|&h| h == 0.5));
        assert!(refusing.parameters() == start);
    }
    refusing.step(0.1, &images, &labels).unwrap();
    assert!(refusing.parameters() == good.parameters());
    let mut skipping = build(cbopt::NonFinite::SkipStep);
    let step = skipping.step(0.1, &broken, &labels).unwrap();
    assert!(step.report.skipped);
    assert_eq!(skipping.state().skipped_steps(), 1);
    skipping.step(0.1, &images, &labels).unwrap();
    assert!(skipping.parameters() == good.parameters());
}

#[test]
fn micro_batches_wait_for_a_good_learning_rate() {
    let Problem {
        net,
        images,
        labels,
    } = problem(16);
    let start = net.initial_parameters(1);
    let ivon = IvonConfig {
        hess_init: 0.5,
        ..IvonConfig::new(1e4)
    };
    let rules: [cbopt::Rule; 2] = [
        SgdConfig::default().build().unwrap().into(),
        ivon.build().unwrap().into(),
    ];
    for rule in rules {
        let mut trainer = config(16, 1).build(&net, rule, start.clone()).unwrap();
        trainer.accumulate(&images, &labels).unwrap();
        assert!(trainer.apply(-1.0).is_err());
        assert!(trainer.parameters() == start);
        trainer.apply(0.1).unwrap();
        assert!(trainer.parameters() != start);
        assert!(trainer.apply(0.1).is_err());
        // an unusable gradient is forgotten
        let mut broken = images.clone();
        broken[3] = f32::NAN;
        let moved = trainer.parameters().to_vec();
        let refused = match trainer.accumulate(&broken, &labels) {
            Ok(_) => trainer.apply(0.1).is_err(),
            Err(_) => true,
        };
        assert!(refused, "{}", rule.id());
        assert!(trainer.parameters() == moved);
        trainer.step(0.1, &images, &labels).unwrap_or_else(|error| {
            // `ivon` with micro-batches has no other way
            assert_eq!(rule.id(), "ivon", "{error}");
            trainer.accumulate(&images, &labels).unwrap();
            let report = trainer.apply(0.1).unwrap();
            engine::TrainStep {
                batch: trainer.gradient(&images, &labels).unwrap(),
                report,
            }
        });
        assert!(trainer.parameters() != moved);
    }
}

#[test]
fn wrong_data_are_refused() {
    let Problem {
        net,
        images,
        labels,
    } = problem(16);
    let rule = SgdConfig::default().build().unwrap();
    let start = net.initial_parameters(1);
    let build = |config: TrainerConfig| config.build(&net, rule, start.clone());
    assert_eq!(
        build(config(0, 1)).unwrap_err().to_string(),
        "batch 0 is not in 1..=4096"
    );
    assert_eq!(
        build(config(4097, 1)).unwrap_err().to_string(),
        "batch 4097 is not in 1..=4096"
    );
    assert_eq!(
        build(config(1, 65)).unwrap_err().to_string(),
        "threads 65 is not in 1..=64"
    );
    let mut trainer = build(config(16, 1)).unwrap();
    let message = trainer
        .step(0.1, &images[1..], &labels)
        .unwrap_err()
        .to_string();
    assert_eq!(message, "images has 12543 entries, expected 12544");
    let mut wrong = labels.clone();
    wrong[5] = 10;
    let message = trainer.step(0.1, &images, &wrong).unwrap_err().to_string();
    assert_eq!(message, "label 10 of image 5 is not in 0..10");
    assert!(trainer.step(0.1, &[], &[]).is_err());
    assert!(trainer.set_parameters(&start[1..]).is_err());
    let mut broken = images.clone();
    broken[3] = f32::NAN;
    let before = trainer.parameters().to_vec();
    assert!(matches!(
        trainer.step(0.1, &broken, &labels),
        Err(engine::Error::Rule(_))
    ));
    assert_eq!(trainer.parameters(), before);
    trainer.step(0.1, &images, &labels).unwrap();
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
    let backwards = parts
        .iter()
        .rev()
        .map(|(name, values)| (name.as_str(), values.as_slice()));
    assert_eq!(net.import(backwards).unwrap(), flat);
    let some = parts[1..]
        .iter()
        .map(|(name, values)| (name.as_str(), values.as_slice()));
    let message = net.import(some).unwrap_err().to_string();
    assert_eq!(message, "parameter \"stem.conv.weight\" is missing");
    let message = net
        .import([("head.weight", &flat[..1])])
        .unwrap_err()
        .to_string();
    assert_eq!(message, "the network has no parameter \"head.weight\"");
    let message = net
        .import([("fc.bias", &flat[..1])])
        .unwrap_err()
        .to_string();
    assert_eq!(message, "parameter \"fc.bias\" has 1 entries, expected 10");
}

#[test]
fn initial_parameters_are_those_of_pytorch() {
    let net = zoo::resnet20(10).unwrap();
    let flat = net.initial_parameters(7);
    assert_eq!(flat, net.initial_parameters(7));
    assert_ne!(flat, net.initial_parameters(8));
    let part = |name: &str| &flat[net.parameter(name).unwrap().range()];
    assert!(part("stem.frn.gamma").iter().all(|&v| v == 1.0));
    assert!(
        part("stem.frn.beta")
            .iter()
            .chain(part("stem.frn.tau"))
            .all(|&v| v == 0.0)
    );
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
        let predictor = |threads, seed| {
            let config = PredictorConfig {
                threads,
                isa,
                seed,
                ..Default::default()
            };
            config.build(&net).unwrap()
        };
        let mut one = predictor(1, 4);
        let logits = one.logits(samples[0], &images).unwrap();
        let probabilities = one.probabilities(samples[0], &images).unwrap();
        for (z, p) in logits.chunks(10).zip(probabilities.chunks(10)) {
            let sum: f32 = z.iter().map(|v| v.exp()).sum();
            for (z, p) in z.iter().zip(p) {
                assert!((z.exp() / sum - p).abs() < 1e-6);
            }
        }
        // the last layer by hand
        let features = one.features(samples[0], &images).unwrap();
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
        let plain = zoo::lenet(10).unwrap();
        let config = PredictorConfig {
            threads: 2,
            isa,
            ..Default::default()
        };
        let mut plain = config.build(&plain).unwrap();
        let mean = plain.mean_probabilities(&samples, &images).unwrap();
        let mut want = vec![0.0f32; mean.len()];
        for sample in &samples {
            let p = plain.probabilities(sample, &images).unwrap();
            want.iter_mut().zip(p).for_each(|(a, b)| *a += b / 5.0);
        }
        assert!(mean.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-6));
        // dropout that stays on: other masks for other samples and seeds, the same for any number of threads
        let many = one.mean_probabilities(&[samples[0]; 8], &images).unwrap();
        assert!(
            many.iter()
                .zip(&probabilities)
                .any(|(a, b)| (a - b).abs() > 1e-4)
        );
        assert_eq!(
            predictor(3, 4)
                .mean_probabilities(&[samples[0]; 8], &images)
                .unwrap(),
            many
        );
        assert_ne!(predictor(1, 5).logits(samples[0], &images).unwrap(), logits);
        assert!(one.mean_probabilities(&[], &images).is_err());
        assert!(one.logits(samples[0], &images[1..]).is_err());
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
        let config = PredictorConfig {
            threads,
            ..Default::default()
        };
        let mut predictor = config.build(&net).unwrap();
        let mut mean = |images: &[f32]| predictor.mean_probabilities(&samples, images).unwrap();
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
        let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let mode = DropoutMode::Predict(0);
        let values = twin::forward(&net, &wide(&parameters), &wide(&images), mode).unwrap();
        let error = |winograd, isa| {
            let config = PredictorConfig {
                threads: 1,
                isa,
                winograd,
                features: Some(y),
                ..Default::default()
            };
            let mut predictor = config.build(&net).unwrap();
            let got = predictor.features(&parameters, &images).unwrap();
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
        let wide = |v: &[f32]| v.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
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
                threads: 1,
                features,
                ..Default::default()
            };
            let mut predictor = config.build(net).unwrap();
            let logits = predictor.logits(&parameters, &images).unwrap();
            close(&logits, values.last().unwrap());
            let features = predictor.features(&parameters, &images).unwrap();
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
    let message = net.output("head").unwrap_err().to_string();
    assert_eq!(
        message,
        "layer \"head\": the network has no layer of this name"
    );
    let features = Some(small().output("fc").unwrap());
    let config = PredictorConfig {
        features,
        ..Default::default()
    };
    let message = config.build(&net).unwrap_err().to_string();
    assert_eq!(message, "features 13 is not in the values of the network");
}

#[test]
fn a_step_allocates_nothing() {
    for net in [
        zoo::lenet_dropout(10, 0.1).unwrap(),
        zoo::resnet20(10).unwrap(),
    ] {
        let batch = 20;
        let images = noise(batch * net.input_shape().len(), 1);
        let labels = vec![1; batch];
        let rule = UpperCboConfig::default().build().unwrap();
        let mut trainer = config(batch, 1)
            .build(&net, rule, net.initial_parameters(1))
            .unwrap();
        trainer.step(0.01, &images, &labels).unwrap();
        let info = allocation_counter::measure(|| {
            trainer.step(0.01, &images, &labels).unwrap();
        });
        assert_eq!(info.count_total, 0, "{}", net.name());
    }
}
