//! The predictive methods: SWAG and Laplace against reference numbers, and all of them on a small
//! trained LeNet.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, OnceLock};

use cbopt::noise::NoiseKey;
use cbopt::{Executor, IvonConfig, Rule, SgdConfig, State};
use engine::{Device, Input, Member, Network, PredictorConfig, TrainerConfig, zoo};
use experiment::predictive::{
    Allowed, Criterion, Factor, IvonSamples, Labeled, Laplace, LaplaceConfig, LaplaceFit,
    LaplaceMethod, LastLayer, Material, McDropout, Method, Point, Possibilistic, Predictive, Swag,
    SwagForm, SwagSamples, Trained,
};
use golden::{Value, cases, matrix, number, numbers, size};

/// Running moments in `f64`, the same operations in the same order.
const SWAG_MOMENTS: f64 = 1e-12;
/// One more sum.
const SWAG_SAMPLES: f64 = 1e-10;
/// Eigenvalues, and a hundred steps of Adam.
const LAPLACE: f64 = 1e-9;

/// Within `tolerance` of the largest entry; zeros must be zeros.
#[track_caller]
fn close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    golden::assert_within(what, got, want, tolerance * golden::largest(want));
}

#[test]
fn golden_swag() {
    for case in cases("swag/swag.json") {
        let name = &case["name"];
        let (dim, max_rank) = (size(&case["dim"]), size(&case["max_rank"]));
        let snapshots = matrix(&case["snapshots"]);
        let mut swag = Swag::new(dim, max_rank).unwrap();
        for snapshot in &snapshots {
            swag.collect(snapshot).unwrap();
        }
        assert_eq!(swag.rank(), size(&case["rank"]), "{name}");
        let floor = number(&case["variance_floor"]);
        assert_eq!(f64::from(f32::MIN_POSITIVE), floor, "{name}");
        let check = |got: &[f64], key: &str| {
            let what = format!("{name} {key}");
            close(got, &numbers(&case[key]), SWAG_MOMENTS, &what);
        };
        check(swag.mean(), "mean");
        check(swag.second_moment(), "second_moment");
        check(&swag.variance(), "variance");
        let deviations: Vec<f64> = swag.deviations().flatten().copied().collect();
        check(&deviations, "deviations");
        let given = Swag::from_moments(
            max_rank,
            snapshots.len() as u64,
            numbers(&case["mean"]),
            numbers(&case["second_moment"]),
            matrix(&case["deviations"]),
        )
        .unwrap();
        let samples = case["samples"].as_array().unwrap();
        assert!(!samples.is_empty(), "{name}");
        for (sample, swag) in samples.iter().flat_map(|s| [(s, &swag), (s, &given)]) {
            let (z1, z2) = (numbers(&sample["z1"]), numbers(&sample["z2"]));
            for (form, key) in [
                (SwagForm::LowRank, "weights"),
                (SwagForm::Diagonal, "weights_diagonal_only"),
            ] {
                let got = swag.sample(form, &z1, &z2).unwrap();
                let what = format!("{name} {key}");
                close(&got, &numbers(&sample[key]), SWAG_SAMPLES, &what);
            }
        }
    }
}

#[test]
fn golden_laplace() {
    for case in cases("laplace/last_layer_kfac.json") {
        let name = case["name"].as_str().unwrap();
        let check = |got: &[f64], want: &Value, what: &str| {
            close(got, &numbers(want), LAPLACE, &format!("{name} {what}"));
        };
        let (width, classes) = (size(&case["D"]), size(&case["C"]));
        let features = numbers(&case["features"]);
        let labels: Vec<u32> = numbers(&case["labels"]).iter().map(|&l| l as u32).collect();
        assert_eq!(labels.len(), size(&case["N"]), "{name}");
        let bias = numbers(&case["bias"]);
        let layer = LastLayer::new(width, &numbers(&case["weight"]), Some(&bias)).unwrap();
        assert_eq!(layer.classes(), classes, "{name}");

        let mut fit = LaplaceFit::new(layer);
        let batch = size(&case["batch_size_of_fit"]);
        for (x, y) in features.chunks(batch * width).zip(labels.chunks(batch)) {
            fit.add(x, y).unwrap();
        }
        let kfac = &case["kfac"];
        check(&fit.feature_factor(), &kfac["A"], "A");
        check(&fit.class_factor(), &kfac["B"], "B");
        check(&fit.class_factor(), &kfac["B_bias"], "B of the bias");

        let prior = &case["prior_precision"];
        let config = LaplaceConfig {
            prior_precision: number(&prior["init"]),
            steps: size(&prior["steps"]),
            lr: number(&prior["adam_lr"]),
        };
        let laplace = fit.finish(&config).unwrap();
        let (likelihood, precision) = (laplace.log_likelihood(), laplace.prior_precision());
        check(&[likelihood], &case["log_likelihood"], "log likelihood");
        check(&[precision], &prior["optimised"], "prior precision");
        let path = laplace.prior_precision_path(&config).unwrap();
        let steps = prior["after_step"].as_object().unwrap();
        assert!(!steps.is_empty(), "{name}");
        for (step, want) in steps {
            let got = path[step.parse::<usize>().unwrap() - 1];
            check(&[got], want, &format!("prior precision after step {step}"));
        }

        let evidence = &case["log_marginal_likelihood"];
        let at = |delta: f64| [laplace.log_marginal_likelihood(delta).unwrap()];
        check(&at(1.0), &evidence["delta_1"], "log evidence at 1");
        check(&at(precision), &evidence["optimised"], "log evidence");
        for pair in evidence["grid"].as_array().unwrap() {
            let delta = number(&pair[0]);
            check(&at(delta), &pair[1], &format!("log evidence at {delta}"));
        }

        let test = numbers(&case["test_features"]);
        let covariances = laplace.covariances(&test).unwrap();
        check(&covariances, &case["test_logit_covariance"], "covariance");
        let diagonal: Vec<f64> = covariances
            .chunks(classes * classes)
            .flat_map(|m| m.iter().step_by(classes + 1).copied())
            .collect();
        let variances = laplace.variances(&test).unwrap();
        close(&variances, &diagonal, LAPLACE, &format!("{name} variance"));
        let p = laplace.probabilities(&test).unwrap();
        check(&p, &case["test_probit_probabilities"], "probabilities");
        // without the variance it is the plain softmax
        let certain = fit.finish(&LaplaceConfig::fixed(1e15)).unwrap();
        let p = certain.probabilities(&test).unwrap();
        check(&p, &case["test_softmax_probabilities"], "softmax");
    }
}

/// A network with weights from a few steps on striped images, and the state of the rule.
struct Run {
    network: Network,
    rule: Rule,
    state: State,
    parameters: Vec<f32>,
    images: Vec<f32>,
    labels: Vec<u32>,
    /// Weights along the way.
    path: Vec<Vec<f32>>,
}

const PIXELS: usize = 784;

/// Ten kinds of stripes with some noise.
fn striped(count: usize) -> (Vec<f32>, Vec<u32>) {
    let labels: Vec<u32> = (0..count).map(|n| (n * 7 % 10) as u32).collect();
    let pixel = |n: usize, i: usize| {
        let (row, column) = (i / 28, i % 28);
        let along = (labels[n] as usize * row + 3 * column + n % 3) as f32;
        let noise = ((n * PIXELS + i) * 7919 % 1013) as f32 / 1013.0 - 0.5;
        (along * 0.35).sin() + 1.5 * noise
    };
    let images = (0..count)
        .flat_map(|n| (0..PIXELS).map(move |i| (n, i)))
        .map(|(n, i)| pixel(n, i))
        .collect();
    (images, labels)
}

fn train(network: Network, rule: Rule, lr: f64) -> Run {
    let (images, labels) = striped(64);
    let config = TrainerConfig {
        batch: 64,
        device: Device::cpu().threads(1),
        ..Default::default()
    };
    let mut trainer = config
        .build(&network, [Member::new(rule, network.initial_parameters(3))])
        .unwrap();
    let mut path = Vec::new();
    for step in 0..150 {
        trainer.step(0, lr, &images, &labels).unwrap();
        if step >= 50 && step % 10 == 0 {
            path.push(trainer.parameters(0).to_vec());
        }
    }
    Run {
        state: trainer.state(0).clone(),
        parameters: trainer.parameters(0).to_vec(),
        network,
        rule,
        images,
        labels,
        path,
    }
}

fn sgd() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| {
        let rule = SgdConfig {
            momentum: 0.9,
            ..Default::default()
        };
        train(zoo::lenet(10).unwrap(), rule.build().unwrap().into(), 0.02)
    })
}

fn ivon_rule(ess: f64) -> Rule {
    let config = IvonConfig {
        hess_init: 0.5,
        ..IvonConfig::new(ess)
    };
    config.build().unwrap().into()
}

fn ivon() -> &'static Run {
    static RUN: OnceLock<Run> = OnceLock::new();
    RUN.get_or_init(|| train(zoo::lenet(10).unwrap(), ivon_rule(200.0), 0.1))
}

fn threads(threads: usize) -> PredictorConfig {
    PredictorConfig {
        device: Device::cpu().threads(threads),
        ..Default::default()
    }
}

fn predictive(network: &Network) -> Predictive {
    Predictive::new(network, threads(1)).unwrap()
}

fn point(network: &Network, parameters: &[f32], images: &[f32]) -> Vec<f32> {
    let mut engine = threads(1).build(network).unwrap();
    engine.probabilities(parameters, 0, images).unwrap()
}

const POINT: Method = Method::Point(Point {});
const BY_LAPLACE: Method = Method::Laplace(LaplaceMethod {
    prior_precision: None,
    initial_precision: None,
    augmented: false,
});

fn ivon_samples(samples: usize) -> Method {
    Method::Ivon(IvonSamples { samples })
}

fn mc_dropout(samples: usize) -> Method {
    Method::McDropout(McDropout { samples })
}

fn swag_samples(samples: usize, form: SwagForm) -> Method {
    Method::Swag(SwagSamples { samples, form })
}

fn plain(run: &Run) -> Trained {
    Trained::new(run.parameters.clone())
}

fn with_rule(run: &Run) -> Trained {
    Trained {
        optimizer: Some((run.rule, run.state.clone())),
        ..plain(run)
    }
}

fn with_swag(run: &Run, swag: &Swag) -> Trained {
    Trained {
        swag: Some(Arc::new(swag.clone())),
        ..plain(run)
    }
}

fn training(run: &Run) -> Labeled<'_> {
    Labeled {
        images: Input::Floats(&run.images),
        labels: &run.labels,
    }
}

/// Fits to the training images of `run` and predicts.
fn predict(
    predictive: &mut Predictive,
    method: &Method,
    (run, trained): (&Run, &Trained),
    seed: u64,
    images: &[f32],
) -> experiment::predictive::Result<Vec<f32>> {
    let fitted = predictive.fit(method, trained, training(run))?;
    predictive.predict(&*fitted, seed, images)
}

fn collected(run: &Run) -> Swag {
    let mut swag = Swag::new(run.parameters.len(), 4).unwrap();
    for weights in &run.path {
        swag.collect(weights).unwrap();
    }
    swag
}

fn fitted(run: &Run, config: &LaplaceConfig) -> Laplace {
    predictive(&run.network)
        .fit_laplace(config, &run.parameters, training(run))
        .unwrap()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let differences = a.iter().zip(b).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, f32::max)
}

/// Mean over predictions, in `f64`.
fn mean(predictions: &[Vec<f32>]) -> Vec<f32> {
    let at = |i: usize| predictions.iter().map(|p| f64::from(p[i])).sum::<f64>();
    let count = predictions.len() as f64;
    (0..predictions[0].len())
        .map(|i| (at(i) / count) as f32)
        .collect()
}

/// Every method with what it needs.
fn all_methods() -> Vec<(Method, &'static Run, Trained)> {
    static DROPOUT: OnceLock<Run> = OnceLock::new();
    let dropout = DROPOUT.get_or_init(|| {
        let rule = SgdConfig::default().build().unwrap();
        train(zoo::lenet_dropout(10, 0.2).unwrap(), rule.into(), 0.05)
    });
    let swag = collected(sgd());
    vec![
        (POINT, sgd(), plain(sgd())),
        (POINT, dropout, plain(dropout)),
        (ivon_samples(5), ivon(), with_rule(ivon())),
        (mc_dropout(5), dropout, plain(dropout)),
        (
            swag_samples(5, SwagForm::LowRank),
            sgd(),
            with_swag(sgd(), &swag),
        ),
        // samples of the weights in a network that is random besides
        (
            swag_samples(3, SwagForm::Diagonal),
            dropout,
            with_swag(dropout, &swag),
        ),
        (BY_LAPLACE, sgd(), plain(sgd())),
    ]
}

#[test]
fn every_method_gives_probabilities_that_depend_on_the_seed_alone() {
    for (method, run, trained) in all_methods() {
        let trained = (run, &trained);
        let images = &run.images[..37 * PIXELS];
        let mut one = Predictive::new(&run.network, threads(1)).unwrap();
        let p = predict(&mut one, &method, trained, 11, images).unwrap();
        assert_eq!(p.len(), 370);
        for row in p.chunks(10) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 2e-6, "{method:?}");
            assert!(row.iter().all(|p| (0.0..=1.0).contains(p)), "{method:?}");
        }
        let mut two = Predictive::new(&run.network, threads(2)).unwrap();
        let again = predict(&mut two, &method, trained, 11, images).unwrap();
        assert_eq!(again, p, "{method:?}");
        let other = predict(&mut one, &method, trained, 12, images).unwrap();
        let random = method.passes() > 1 || run.network.name() == "lenet-dropout";
        assert_eq!(other != p, random, "{method:?}");
        let again = predict(&mut one, &method, trained, 11, images).unwrap();
        assert_eq!(again, p, "{method:?}");
        let none = predict(&mut one, &method, trained, 11, &[]).unwrap();
        assert!(none.is_empty());
    }
}

/// A probability is rounded to `f32`, and so are the logits under it.
const LOG_LOSS: f64 = 1e-4;

#[test]
fn log_losses_are_those_of_the_probabilities_and_go_on_where_these_are_0() {
    for (method, run, trained) in all_methods() {
        let images = &run.images[..37 * PIXELS];
        let mut predictive = Predictive::new(&run.network, threads(1)).unwrap();
        let fitted = predictive.fit(&method, &trained, training(run)).unwrap();
        let p = predictive.predict(&*fitted, 11, images).unwrap();
        let (places, labels) = ([30, 2, 17, 36], [4, 0, 9, 6]);
        let found = predictive
            .log_losses(&*fitted, 11, images, &places, &labels)
            .unwrap();
        for ((loss, place), label) in found.iter().zip(places).zip(labels) {
            let want = -f64::from(p[10 * place + label as usize]).ln();
            assert!(
                (loss - want).abs() <= LOG_LOSS * want.max(1.0),
                "{method:?}: {loss} {want}"
            );
        }
    }
    // weights of the last layer that are so large that most labels have the probability 0
    let run = sgd();
    let mut parameters = run.parameters.clone();
    let last = run.network.parameters().last().unwrap();
    let classes = last.range().len();
    let first = run.network.parameters()[run.network.parameters().len() - 2]
        .range()
        .start;
    assert_eq!(classes, 10);
    parameters[first..].iter_mut().for_each(|w| *w *= 1000.0);
    let trained = Trained::new(parameters.clone());
    let mut predictive = predictive(&run.network);
    let fitted = predictive.fit(&POINT, &trained, training(run)).unwrap();
    let p = predictive.predict(&*fitted, 0, &run.images).unwrap();
    let wrong: Vec<u32> = run.labels.iter().map(|label| (label + 1) % 10).collect();
    let impossible: Vec<usize> = (0..64)
        .filter(|&image| p[10 * image + wrong[image] as usize] == 0.0)
        .collect();
    assert!(impossible.len() > 32, "{}", impossible.len());
    let labels: Vec<u32> = impossible.iter().map(|&image| wrong[image]).collect();
    let found = predictive
        .log_losses(&*fitted, 0, &run.images, &impossible, &labels)
        .unwrap();
    let mut engine = threads(1).build(&run.network).unwrap();
    let logits = engine.logits(&parameters, 0, &run.images).unwrap();
    for ((&image, &label), loss) in impossible.iter().zip(&labels).zip(&found) {
        let row: Vec<f64> = logits[10 * image..][..10]
            .iter()
            .map(|&z| z.into())
            .collect();
        // all others are as improbable, so that nothing is added to the largest
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let want = largest - row[label as usize];
        assert!(
            want > 87.0 && (loss - want).abs() <= LOG_LOSS * want,
            "{loss} {want}"
        );
    }
}

#[test]
fn point_is_the_engine() {
    let run = sgd();
    let want = point(&run.network, &run.parameters, &run.images);
    let mut predictive = predictive(&run.network);
    let trained = plain(run);
    let got = predict(&mut predictive, &POINT, (run, &trained), 5, &run.images).unwrap();
    assert_eq!(got, want);
    let correct = want.chunks(10).zip(&run.labels).filter(|(row, label)| {
        let top = row.iter().copied().fold(0.0, f32::max);
        row[**label as usize] == top
    });
    let count = correct.count();
    assert!(count > 40, "the weights are trained: {count} of 64");
}

#[test]
fn ivon_is_the_mean_over_perturbed_weights_and_leaves_the_state_alone() {
    let run = ivon();
    let Rule::Ivon(rule) = &run.rule else {
        panic!("the rule is ivon")
    };
    let before = run.state.clone();
    let single: Vec<Vec<f32>> = (0..6)
        .map(|sample| {
            let key = NoiseKey {
                seed: 9,
                step: 0,
                sample,
            };
            let mut weights = vec![0.0; run.parameters.len()];
            let (from, state) = (&run.parameters, &run.state);
            rule.sample(&Executor::single(), from, state, key, &mut weights)
                .unwrap();
            // the formula itself, for some coordinates
            let mut z = vec![0.0; weights.len()];
            cbopt::noise::fill_normal(key, 0, &mut z);
            let config = rule.config();
            for i in (0..z.len()).step_by(997) {
                let h = f64::from(run.state.curvature()[i]);
                let n = f64::from(z[i]) / (config.ess.unwrap() * (h + config.weight_decay)).sqrt();
                let want = f64::from(run.parameters[i]) + n;
                assert!((f64::from(weights[i]) - want).abs() < 1e-6);
            }
            point(&run.network, &weights, &run.images)
        })
        .collect();
    let (method, trained) = (ivon_samples(6), with_rule(run));
    let mut predictive = predictive(&run.network);
    let mut predicted = |method: &Method, trained: &Trained| {
        predict(&mut predictive, method, (run, trained), 9, &run.images).unwrap()
    };
    let got = predicted(&method, &trained);
    assert!(largest_difference(&got, &mean(&single)) <= 1e-7);
    assert_eq!(run.state, before);
    let at_mean = predicted(&POINT, &trained);
    assert_eq!(at_mean, point(&run.network, &run.parameters, &run.images));
    assert!(largest_difference(&got, &at_mean) > 1e-3);
    // with a huge effective sample size there is nothing but the mean
    let certain = Trained {
        optimizer: Some((ivon_rule(1e16), run.state.clone())),
        ..plain(run)
    };
    let got = predicted(&method, &certain);
    assert!(largest_difference(&got, &at_mean) < 1e-5);
}

#[test]
fn swag_is_the_mean_over_sampled_weights() {
    let run = sgd();
    let swag = collected(run);
    let mut predictive = predictive(&run.network);
    for form in [
        SwagForm::LowRank,
        SwagForm::Diagonal,
        SwagForm::SwaGaussian { scale: 0.3 },
    ] {
        let single: Vec<Vec<f32>> = (0..6)
            .map(|sample| {
                let mut weights = vec![0.0; run.parameters.len()];
                swag.sample_into(form, 4, sample, &mut weights).unwrap();
                point(&run.network, &weights, &run.images)
            })
            .collect();
        let (method, trained) = (swag_samples(6, form), with_swag(run, &swag));
        let trained = (run, &trained);
        let got = predict(&mut predictive, &method, trained, 4, &run.images).unwrap();
        assert!(largest_difference(&got, &mean(&single)) <= 1e-7);
        assert!(largest_difference(&single[0], &single[1]) > 1e-4);
    }
    // one snapshot over and over is a point
    let mut still = Swag::new(run.parameters.len(), 20).unwrap();
    for _ in 0..7 {
        still.collect(&run.parameters).unwrap();
    }
    let method = swag_samples(3, SwagForm::LowRank);
    let trained = with_swag(run, &still);
    let trained = (run, &trained);
    let got = predict(&mut predictive, &method, trained, 4, &run.images).unwrap();
    let want = point(&run.network, &run.parameters, &run.images);
    assert!(largest_difference(&got, &want) < 1e-5);
}

#[test]
fn mc_dropout_is_the_mean_over_masks() {
    let net = zoo::lenet_dropout(10, 0.3).unwrap();
    let parameters = &sgd().parameters;
    let images = &sgd().images[..20 * PIXELS];
    let trained = (sgd(), &plain(sgd()));
    let predicted = |passes: usize, seed: u64| {
        let mut predictive = predictive(&net);
        predict(&mut predictive, &mc_dropout(passes), trained, seed, images).unwrap()
    };
    // one pass is one mask: the single prediction of the engine with this seed
    let one = |seed: u64| {
        let mut engine = threads(1).build(&net).unwrap();
        engine.probabilities(parameters, seed, images).unwrap()
    };
    assert_eq!(predicted(1, 5), one(5));
    assert_ne!(predicted(1, 6), one(5));
    // more passes are the mean over the masks of seeds that the engine makes of this one
    let other = |number: u64| one(random::mix(5 ^ random::mix(number)));
    let single: Vec<Vec<f32>> = std::iter::once(one(5)).chain((1..9).map(other)).collect();
    assert!(largest_difference(&single[2], &single[3]) > 1e-3);
    assert!(largest_difference(&predicted(9, 5), &mean(&single)) < 1e-6);
    // without dropping anything all passes are the plain prediction
    let off = zoo::lenet_dropout(10, 0.0).unwrap();
    let mut predictive = predictive(&off);
    let got = predict(&mut predictive, &mc_dropout(3), trained, 1, images).unwrap();
    let want = point(&sgd().network, parameters, images);
    assert!(largest_difference(&got, &want) < 1e-6);
}

#[test]
fn samples_of_the_weights_have_masks_of_their_own() {
    // the weights never change, so that all that differs between samples is the mask
    let net = zoo::lenet_dropout(10, 0.3).unwrap();
    let run = sgd();
    let mut still = Swag::new(run.parameters.len(), 2).unwrap();
    still.collect(&run.parameters).unwrap();
    let trained = with_swag(run, &still);
    let predicted = |samples: usize| {
        let method = swag_samples(samples, SwagForm::LowRank);
        let mut predictive = predictive(&net);
        predict(&mut predictive, &method, (run, &trained), 8, &run.images).unwrap()
    };
    assert!(largest_difference(&predicted(1), &predicted(2)) > 1e-3);
}

#[test]
fn laplace_on_a_network() {
    let run = sgd();
    let mut predictive = predictive(&run.network);
    let want = point(&run.network, &run.parameters, &run.images);
    let mut predicted = |laplace: &Laplace| {
        let fitted = laplace.clone().at(&run.parameters);
        predictive.predict(&*fitted, 0, &run.images).unwrap()
    };
    // a huge prior precision leaves the point prediction, to the engine's f32
    let certain = fitted(run, &LaplaceConfig::fixed(1e12));
    assert!(largest_difference(&predicted(&certain), &want) < 1e-5);
    // the one found leaves the classes nearly alone and the confidence lower
    let found = fitted(run, &LaplaceConfig::default());
    let got = predicted(&found);
    let confidence = |p: &[f32]| -> f32 {
        let tops = p
            .chunks(10)
            .map(|row| row.iter().copied().fold(0.0, f32::max));
        tops.sum()
    };
    assert!(confidence(&got) < confidence(&want));
    // the slow way: features and last layer by hand, with the covariance written out
    let mut engine = threads(1).build(&run.network).unwrap();
    let features = engine.features(&run.parameters, 0, &run.images).unwrap();
    let logits = engine.logits(&run.parameters, 0, &run.images).unwrap();
    let covariances = found.covariances(&features).unwrap();
    for (n, row) in got.chunks(10).enumerate() {
        let tempered = |c: usize| {
            let variance = covariances[n * 100 + c * 11];
            let scale = (1.0 + std::f64::consts::FRAC_PI_8 * variance).sqrt();
            (f64::from(logits[n * 10 + c]) / scale).exp()
        };
        let sum: f64 = (0..10).map(tempered).sum();
        for (c, p) in row.iter().enumerate() {
            assert!((f64::from(*p) - tempered(c) / sum).abs() < 1e-5);
        }
    }
    // parts of the training set make the same factors
    let layer = LastLayer::of(&run.network, &run.parameters).unwrap();
    let mut fit = LaplaceFit::new(layer);
    for (images, labels) in run.images.chunks(11 * PIXELS).zip(run.labels.chunks(11)) {
        let features = engine.features(&run.parameters, 0, images).unwrap();
        fit.add(&features, labels).unwrap();
    }
    let again = fit.finish(&LaplaceConfig::default()).unwrap();
    let ratio = again.prior_precision() / found.prior_precision();
    assert!((ratio - 1.0).abs() < 1e-9);
}

#[test]
fn what_a_method_lacks_is_said() {
    let run = sgd();
    let dropout = zoo::lenet_dropout(10, 0.1).unwrap();
    let refused = |network: &Network, method: Method, trained: &Trained| {
        let mut predictive = predictive(network);
        let images = &run.images[..PIXELS];
        let refused = predict(&mut predictive, &method, (run, trained), 0, images);
        refused.unwrap_err().to_string()
    };
    let (plain, with_rule) = (plain(run), with_rule(run));
    let net = &run.network;
    let three = swag_samples(3, SwagForm::LowRank);
    let other = with_swag(run, &Swag::new(7, 20).unwrap());
    let short = Trained::new(run.parameters[1..].to_vec());
    for (net, method, trained, want) in [
        (
            net,
            ivon_samples(3),
            &plain,
            "predictive method 'ivon' needs the rule ivon and its state",
        ),
        (
            net,
            ivon_samples(3),
            &with_rule,
            "predictive method 'ivon' needs weights trained with ivon, not with sgd",
        ),
        (
            net,
            ivon_samples(0),
            &with_rule,
            "samples 0 is not in 1..=100000",
        ),
        (net, mc_dropout(0), &plain, "samples 0 is not in 1..=100000"),
        (
            net,
            mc_dropout(4),
            &plain,
            "predictive method 'mc-dropout' needs a network with dropout that stays on, such as \
             lenet-dropout, but 'lenet' has none",
        ),
        (
            net,
            three,
            &plain,
            "predictive method 'swag' needs a SWAG collector",
        ),
        (
            net,
            three,
            &other,
            "SWAG collector has 7 entries, expected 44426",
        ),
        (
            &dropout,
            BY_LAPLACE,
            &plain,
            "predictive method 'laplace' needs features that stay the same, but 'lenet-dropout' \
             has dropout that stays on",
        ),
        (
            net,
            POINT,
            &short,
            "parameters has 44425 entries, expected 44426",
        ),
    ] {
        assert_eq!(refused(net, method, trained), want);
    }
    let nothing = predictive(net).fit(&BY_LAPLACE, &plain, Labeled::NONE);
    assert_eq!(
        nothing.err().unwrap().to_string(),
        "predictive method 'laplace' needs the features of at least one training image"
    );
    let moved: Vec<f32> = run.parameters.iter().map(|w| w + 0.1).collect();
    let elsewhere = fitted(run, &LaplaceConfig::fixed(1.0)).at(&moved);
    let refusal = predictive(net).predict(&*elsewhere, 0, &run.images[..PIXELS]);
    assert_eq!(
        refusal.unwrap_err().to_string(),
        "predictive method 'laplace' was fitted at other weights than these"
    );
}

/// The rule of a run, and its images to validate on.
fn material(run: &Run) -> Material<'_> {
    Material {
        validation: training(run),
        rule: Some((run.rule, run.labels.len())),
        ..training(run).into()
    }
}

fn allowed(run: &Run, method: Possibilistic, threads_used: usize) -> (Allowed, f64) {
    let mut predictive = Predictive::new(&run.network, threads(threads_used)).unwrap();
    let (method, trained) = (Method::Possibilistic(method), with_rule(run));
    let fitted = predictive.fit(&method, &trained, material(run)).unwrap();
    let p = predictive.predict(&*fitted, 4, &run.images).unwrap();
    assert_eq!(p, point(&run.network, &run.parameters, &run.images));
    let factor = fitted.details()["factor"].as_f64().unwrap();
    let found = predictive.allowed(&*fitted, 4, &run.images[..8 * PIXELS]);
    (found.unwrap().unwrap(), factor)
}

/// The same bounds with the factor put elsewhere: into the covariance, not into the precisions.
#[test]
fn bounds_are_those_of_the_logits_with_the_rules_precisions() {
    for (run, factor) in [(sgd(), 300.0), (ivon(), 3.0)] {
        let method = Possibilistic {
            factor: Factor::Given(factor),
            ..Default::default()
        };
        let (found, _) = allowed(run, method, 1);
        assert_eq!(found.places, [0, 1, 2, 3, 4, 5, 6, 7]);
        let each = match run.rule.precision(64, Some(&run.state)).unwrap() {
            cbopt::Precision::Common(value) => vec![value as f32; run.parameters.len()],
            cbopt::Precision::Each(values) => values,
        };
        let grams = engine::gram_matrices(
            &run.network,
            &run.parameters,
            engine::Precisions::Each(&each),
            4,
            &run.images[..8 * PIXELS],
            &engine::GramConfig::default(),
        )
        .unwrap();
        for (number, image) in found.images.iter().enumerate() {
            let z = &grams.logits[number * 10..(number + 1) * 10];
            let z: Vec<f64> = z.iter().map(|&z| z.into()).collect();
            let c = &grams.matrices[number * 100..(number + 1) * 100];
            let c: Vec<f64> = c.iter().map(|c| c / factor).collect();
            let want = possibility::prediction::Logits::new(&z, &c).unwrap();
            let want = want.predict().unwrap();
            let answer = want.answer;
            assert_eq!(image.answer, answer);
            // products of f32 in another order
            for (got, want) in [
                (image.lower, want.lower[answer]),
                (image.upper, want.upper[answer]),
                (image.scores.necessity, -want.log_rival()),
                (image.scores.width, -want.width()),
                (image.probability(), want.probabilities[answer]),
            ] {
                let error = (got - want).abs() / (1.0 + want.abs());
                assert!(error < 1e-4, "{}: {got} {want}", run.network.name());
            }
            let p = image.probability();
            assert!(image.lower <= p && p <= image.upper);
            assert!(image.lower < image.upper && !image.is_vacuous);
        }
    }
}

#[test]
fn threads_change_no_bound_and_fewer_images_are_spread() {
    let method = Possibilistic {
        factor: Factor::Given(100.0),
        images: Some(3),
        last_layer: true,
        ..Default::default()
    };
    let (one, _) = allowed(sgd(), method, 1);
    assert_eq!(
        (one.places.as_slice(), one.images.len()),
        (&[0, 2, 5][..], 3)
    );
    assert_eq!(allowed(sgd(), method, 2).0, one);
    let whole = Possibilistic {
        last_layer: false,
        ..method
    };
    // more weights may move
    let (whole, _) = allowed(sgd(), whole, 2);
    for (all, last) in whole.images.iter().zip(&one.images) {
        assert!(all.scores.necessity < last.scores.necessity);
        assert!(all.lower <= last.lower && last.upper <= all.upper);
    }
}

#[test]
fn a_factor_is_chosen_on_validation_images() {
    for criterion in [Criterion::Nll, Criterion::RightWrong] {
        let method = Possibilistic {
            factor: Factor::Chosen(criterion),
            classes: 3,
            ..Default::default()
        };
        let (_, factor) = allowed(sgd(), method, 2);
        let exponent = 2.0 * factor.log10();
        assert!((exponent - exponent.round()).abs() < 1e-9, "{factor}");
        assert!((-8.0..=12.0).contains(&exponent), "{factor}");
    }
}

#[test]
fn what_bounds_lack_is_named() {
    let run = ivon();
    let method = Method::Possibilistic(Possibilistic::default());
    let refused = |method: Method, trained: &Trained, material: Material<'_>| {
        let mut predictive = predictive(&run.network);
        let fitted = predictive.fit(&method, trained, material);
        fitted.err().unwrap().to_string()
    };
    assert_eq!(
        refused(method, &with_rule(run), training(run).into()),
        "predictive method 'possibilistic' needs the rule that trained the weights"
    );
    assert_eq!(
        refused(method, &plain(run), material(run)),
        "the state of the rule at these weights is not given"
    );
    let chosen = Method::Possibilistic(Possibilistic {
        factor: Factor::Chosen(Criterion::Nll),
        ..Default::default()
    });
    let unvalidated = Material {
        validation: Labeled::NONE,
        ..material(run)
    };
    assert_eq!(
        refused(chosen, &with_rule(run), unvalidated),
        "predictive method 'possibilistic' needs validation images to choose the factor"
    );
    let [mut factor, mut classes, mut images] = [Possibilistic::default(); 3];
    factor.factor = Factor::Given(0.0);
    classes.classes = 1001;
    images.images = Some(0);
    for (bad, want) in [
        (factor, "factor 0 is not in (0, inf)"),
        (classes, "classes 1001 is not in 2..=1000"),
        (images, "images 0 is not in 1.."),
    ] {
        let bad = Method::Possibilistic(bad);
        assert_eq!(refused(bad, &with_rule(run), material(run)), want);
    }
}
