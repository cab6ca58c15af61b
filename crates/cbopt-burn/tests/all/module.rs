//! The optimizers on whole modules: descent, resume through records, groups, and the sampler of
//! IVON.
#![allow(clippy::unwrap_used)]

use burn::module::{Module, ParamGroup};
use burn::nn::{Linear, LinearConfig, Relu};
use burn::optim::{GradientsParams, ModuleOptimizer, OptimizerRecord};
use burn::tensor::{Device, Shape, Tensor, TensorData};
use cbopt::cbo::{fixed::Fixed, lower::Lower, upper::Upper};
use cbopt_burn::{Cbo, Init, IvonConfig, LowerAdaptCboConfig, UpperAdaptCboConfig, UpperCboConfig};

#[derive(Module, Debug)]
struct Mlp {
    hidden: Linear,
    activation: Relu,
    output: Linear,
}

impl Mlp {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.output
            .forward(self.activation.forward(self.hidden.forward(x)))
    }
}

fn device() -> Device {
    Device::default().autodiff()
}

fn wave(count: usize, shift: f32) -> Vec<f32> {
    (0..count)
        .map(|i| (i as f32 * 0.7 + shift).sin() * 0.4)
        .collect()
}

fn linear(inputs: usize, outputs: usize, shift: f32) -> Linear {
    let mut layer = LinearConfig::new(inputs, outputs).init(&device());
    let data = TensorData::new(wave(inputs * outputs, shift), Shape::new([inputs, outputs]));
    layer.weight = layer
        .weight
        .map(|_| Tensor::from_data(data, &device()).require_grad());
    layer
}

fn model() -> Mlp {
    Mlp {
        hidden: linear(3, 8, 0.1),
        activation: Relu::new(),
        output: linear(8, 1, 0.5),
    }
}

fn loss(model: &Mlp) -> Tensor<1> {
    let x = TensorData::new(wave(48, 2.0), Shape::new([16, 3]));
    let x = Tensor::<2>::from_data(x, &device());
    let y = x.clone().square().sum_dim(1);
    (model.forward(x) - y).square().mean()
}

fn value(loss: Tensor<1>) -> f32 {
    loss.into_data().try_to_vec::<f32>().unwrap()[0]
}

fn gradients(model: &Mlp) -> GradientsParams {
    GradientsParams::from_grads(loss(model).backward(), model)
}

fn weights(model: &Mlp) -> Vec<u32> {
    let mut all = Vec::new();
    for layer in [&model.hidden, &model.output] {
        let tensors = [
            layer.weight.val().into_data().try_to_vec::<f32>().unwrap(),
            layer
                .bias
                .as_ref()
                .unwrap()
                .val()
                .into_data()
                .try_to_vec::<f32>()
                .unwrap(),
        ];
        all.extend(tensors.concat().iter().map(|v| v.to_bits()));
    }
    all
}

/// Name, optimizer and learning rate.
type Row = (&'static str, fn() -> ModuleOptimizer, f64);

fn table() -> Vec<Row> {
    vec![
        ("ucbopt", || UpperCboConfig::default().init(), 0.02),
        (
            "ucbopt-adapt",
            || UpperAdaptCboConfig::default().init(),
            0.005,
        ),
        (
            "lcbopt-adapt",
            || LowerAdaptCboConfig::default().init(),
            0.001,
        ),
    ]
}

#[test]
fn losses_fall() {
    for (name, optimizer, lr) in table() {
        let (mut model, mut optimizer) = (model(), optimizer());
        let start = value(loss(&model));
        for _ in 0..200 {
            let grads = gradients(&model);
            model = optimizer.step(lr, model, grads);
        }
        let end = value(loss(&model));
        assert!(end < 0.3 * start, "{name}: {start} to {end}");
    }
}

#[test]
fn records_resume_to_the_same_bits() {
    for (name, create, lr) in table() {
        let (mut model, mut optimizer) = (model(), create());
        for _ in 0..3 {
            let grads = gradients(&model);
            model = optimizer.step(lr, model, grads);
        }
        let mut restored = create()
            .from_bytes(optimizer.into_bytes().unwrap())
            .unwrap();
        let mut again = model.clone();
        for _ in 0..4 {
            let grads = gradients(&model);
            model = optimizer.step(lr, model, grads);
            let grads = gradients(&again);
            again = restored.step(lr, again, grads);
        }
        assert_eq!(weights(&model), weights(&again), "{name}");
    }
}

#[test]
fn groups_have_their_own_rule() {
    let with_group = || {
        UpperCboConfig::default().init().with_group(
            ParamGroup::from_predicate("output"),
            Cbo::from(UpperAdaptCboConfig::default().build().unwrap()),
            None,
        )
    };
    let (mut both, mut upper, mut adapt) = (
        with_group(),
        UpperCboConfig::default().init(),
        UpperAdaptCboConfig::default().init(),
    );
    let start = model();
    let step =
        |optimizer: &mut ModuleOptimizer| optimizer.step(0.005, start.clone(), gradients(&start));
    let (both, upper, adapt) = (step(&mut both), step(&mut upper), step(&mut adapt));
    let bits = |layer: &Linear| layer.weight.val().into_data().try_to_vec::<f32>().unwrap();
    assert_eq!(bits(&both.hidden), bits(&upper.hidden));
    assert_eq!(bits(&both.output), bits(&adapt.output));
    assert_ne!(bits(&upper.output), bits(&adapt.output));
}

#[test]
fn ranges_are_checked() {
    let wrong = UpperCboConfig {
        gap: Fixed { vartheta: 1.0 },
        ..Default::default()
    };
    let error = wrong.try_init().err().unwrap();
    assert_eq!(error.to_string(), "vartheta 1 is not in [0, weight_decay]");
    let upper = UpperAdaptCboConfig {
        gap: Upper { gamma: 1.0 },
        ..Default::default()
    };
    assert!(upper.try_init().is_err());
    let lower = LowerAdaptCboConfig {
        gap: Lower { gamma: f64::NAN },
        ..Default::default()
    };
    assert!(lower.try_init().is_err());
    assert!(IvonConfig::new(0.0).try_init().is_err());
}

#[test]
fn ivon_samples_copies_and_descends() {
    for samples in [1, 3] {
        let config = IvonConfig {
            hess_init: 0.5,
            mc_samples: samples,
            ..IvonConfig::new(1e4)
        };
        let mut optimizer = config.init();
        let mut model = model();
        let start = value(loss(&model));
        for _ in 0..200 {
            for k in 0..samples {
                let before = weights(&model);
                let sampled = optimizer.sample(&model);
                assert_eq!(weights(&model), before);
                assert_ne!(weights(&sampled), before);
                let grads = gradients(&sampled);
                if k + 1 < samples {
                    optimizer.add_sample(&model, grads);
                } else {
                    model = optimizer.step(0.1, model, grads);
                }
            }
        }
        let end = value(loss(&model));
        assert!(end < 0.3 * start, "{samples} samples: {start} to {end}");
    }
}

#[test]
fn ivon_resumes_between_sample_and_step() {
    let config = IvonConfig {
        hess_init: 0.5,
        mc_samples: 2,
        seed: 5,
        ..IvonConfig::new(1e3)
    };
    // Biases start at random, so all runs begin with one module.
    let start = model();
    let run = |stop: usize| {
        let (mut optimizer, mut model) = (config.init(), start.clone());
        for k in 0..8 {
            let sampled = optimizer.sample(&model);
            if k == stop {
                let bytes = optimizer.to_record().into_bytes().unwrap();
                optimizer = config
                    .init()
                    .load_record(OptimizerRecord::from_bytes(bytes).unwrap());
            }
            let grads = gradients(&sampled);
            if k % 2 == 0 {
                optimizer.add_sample(&model, grads);
            } else {
                model = optimizer.step(0.1, model, grads);
            }
        }
        weights(&model)
    };
    let whole = run(usize::MAX);
    for stop in 0..8 {
        assert_eq!(run(stop), whole, "stopped in sample {stop}");
    }
}

/// The whole module is one flat vector to the noise, as in the crate `cbopt`.
#[test]
fn ivon_noise_is_that_of_the_flat_rule() {
    use cbopt::{Executor, Update};
    let config = IvonConfig {
        hess_init: 0.5,
        seed: 9,
        ..IvonConfig::new(100.0)
    };
    let rule = config.build().unwrap();
    let model = model();
    let sampled = config.init().sample(&model);
    let flat: Vec<f32> = weights(&model).into_iter().map(f32::from_bits).collect();
    let mut want = flat.clone();
    let state = rule.state(flat.len());
    let (executor, key) = (Executor::single(), rule.noise_key(&state));
    rule.sample(&executor, &flat, &state, key, &mut want)
        .unwrap();
    for (got, want) in weights(&sampled).into_iter().map(f32::from_bits).zip(want) {
        assert!((got - want).abs() < 1e-6, "{got} {want}");
    }
}
