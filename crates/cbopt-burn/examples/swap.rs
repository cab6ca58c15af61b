//! From AdamW to CBOpt in three lines, on a small perceptron and a small convolution net.
//!
//! ```diff
//! -use burn::optim::AdamWConfig;
//! +use cbopt_burn::{Init, UpperCboConfig};
//! -    let mut optimizer = AdamWConfig::new().with_weight_decay(2e-3).init();
//! +    let mut optimizer = UpperCboConfig { weight_decay: 2e-3, ..Default::default() }.init();
//! -    let lr = 1e-2;
//! +    let lr = 2e-2;
//! ```
//!
//! Run with `cargo run --release -p cbopt-burn --example swap`.
#![allow(clippy::print_stdout)]

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig, Relu};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Int, Shape, Tensor, TensorData};
use cbopt_burn::{Init, IvonConfig, LowerAdaptCboConfig, UpperAdaptCboConfig, UpperCboConfig};

const SIDE: usize = 8;
const EXAMPLES: usize = 256;

/// Something that tells two kinds of pictures apart.
trait Classifier: Module {
    fn forward(&self, pictures: Tensor<4>) -> Tensor<2>;
}

#[derive(Module, Debug)]
struct Perceptron {
    hidden: Linear,
    activation: Relu,
    output: Linear,
}

impl Perceptron {
    fn new(device: &Device) -> Self {
        Self {
            hidden: LinearConfig::new(SIDE * SIDE, 32).init(device),
            activation: Relu::new(),
            output: LinearConfig::new(32, 2).init(device),
        }
    }
}

impl Classifier for Perceptron {
    fn forward(&self, pictures: Tensor<4>) -> Tensor<2> {
        let x = pictures.flatten(1, 3);
        self.output
            .forward(self.activation.forward(self.hidden.forward(x)))
    }
}

#[derive(Module, Debug)]
struct Convolution {
    edges: Conv2d,
    activation: Relu,
    output: Linear,
}

impl Convolution {
    fn new(device: &Device) -> Self {
        Self {
            edges: Conv2dConfig::new([1, 4], [3, 3]).init(device),
            activation: Relu::new(),
            output: LinearConfig::new(4 * (SIDE - 2) * (SIDE - 2), 2).init(device),
        }
    }
}

impl Classifier for Convolution {
    fn forward(&self, pictures: Tensor<4>) -> Tensor<2> {
        let x = self.activation.forward(self.edges.forward(pictures));
        self.output.forward(x.flatten(1, 3))
    }
}

/// Noisy stripes, lying or standing.
fn data(device: &Device) -> (Tensor<4>, Tensor<1, Int>) {
    let mut noise = vec![0.0; EXAMPLES * SIDE * SIDE];
    let key = cbopt::noise::NoiseKey {
        seed: 1,
        step: 0,
        sample: 0,
    };
    cbopt::noise::fill_normal(key, 0, &mut noise);
    let labels: Vec<i64> = (0..EXAMPLES as i64).map(|i| i % 2).collect();
    for (i, value) in noise.iter_mut().enumerate() {
        let (example, row, column) = (i / (SIDE * SIDE), i / SIDE % SIDE, i % SIDE);
        let along = if example % 2 == 0 { row } else { column };
        *value += if (along + example / 2) % 2 == 0 {
            0.5
        } else {
            -0.5
        };
    }
    let shape = Shape::new([EXAMPLES, 1, SIDE, SIDE]);
    (
        Tensor::from_data(TensorData::new(noise, shape), device),
        Tensor::from_data(TensorData::new(labels, Shape::new([EXAMPLES])), device),
    )
}

fn loss<M: Classifier>(model: &M, device: &Device) -> Tensor<1> {
    let (pictures, labels) = data(device);
    CrossEntropyLossConfig::new()
        .init(device)
        .forward(model.forward(pictures), labels)
}

fn number(loss: Tensor<1>) -> f32 {
    loss.into_data().iter::<f32>().next().unwrap_or(f32::NAN)
}

fn train<M: Classifier>(
    mut model: M,
    mut optimizer: ModuleOptimizer,
    lr: f64,
    device: &Device,
) -> f32 {
    for _ in 0..60 {
        let grads = GradientsParams::from_grads(loss(&model, device).backward(), &model);
        model = optimizer.step(lr, model, grads);
    }
    number(loss(&model, device))
}

fn train_ivon<M: Classifier>(mut model: M, config: &IvonConfig, lr: f64, device: &Device) -> f32 {
    let mut optimizer = config.init();
    for _ in 0..60 {
        let sampled = optimizer.sample(&model);
        let grads = GradientsParams::from_grads(loss(&sampled, device).backward(), &sampled);
        model = optimizer.step(lr, model, grads);
    }
    number(loss(&model, device))
}

fn compare<M: Classifier>(name: &str, model: &M, device: &Device) {
    println!(
        "{name}: loss {:.4} before training",
        number(loss(model, device))
    );
    let run = |optimizer, lr| train(model.clone(), optimizer, lr, device);
    println!(
        "  AdamW         {:.4}",
        run(AdamWConfig::new().with_weight_decay(2e-3).init(), 1e-2)
    );
    let upper = UpperCboConfig {
        weight_decay: 2e-3,
        ..Default::default()
    };
    println!("  ucbopt        {:.4}", run(upper.init(), 2e-2));
    println!(
        "  ucbopt-adapt  {:.4}",
        run(UpperAdaptCboConfig::default().init(), 5e-3)
    );
    println!(
        "  lcbopt-adapt  {:.4}",
        run(LowerAdaptCboConfig::default().init(), 1e-3)
    );
    let ivon = IvonConfig {
        hess_init: 0.5,
        ..IvonConfig::new(EXAMPLES as f64)
    };
    println!(
        "  ivon          {:.4}",
        train_ivon(model.clone(), &ivon, 0.2, device)
    );
}

fn main() {
    let device = Device::flex().autodiff();
    compare("perceptron", &Perceptron::new(&device), &device);
    compare("convolution", &Convolution::new(&device), &device);
}
