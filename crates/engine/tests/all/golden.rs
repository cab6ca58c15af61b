//! The twin, and the fast engine, against PyTorch: single layers and whole networks.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use engine::network::{Conv, LayerKind, Padding, Pool};
use engine::twin::{self, Crossings};
use engine::{
    Device, DropoutMode, Isa, Member, Network, PredictorConfig, Shape, TrainerConfig, zoo,
};
use golden::{Value, assert_close, assert_number, cases, list, number, numbers, size, wide};

/// Short sums in `f64`: the order of summation moves a few units in the last place.
const LAYER_TOLERANCE: f64 = 1e-12;
/// What `f32` leaves of the logits, as measured with PyTorch in `f32`.
const LOGITS_F32: f64 = 1e-5;
/// What `f32` leaves of the gradients where no kink is in the way: 100 layers of sums of some
/// hundred terms.
const ACROSS_F32: f64 = 1e-5;
/// Depth multiplies the rounding of a layer.
const NET_TOLERANCE: f64 = 1e-9;

fn dims(value: &Value) -> Vec<usize> {
    list(&value["shape"]).iter().map(size).collect()
}

fn image_shape(value: &Value) -> (usize, Shape) {
    let d = dims(value);
    (d[0], Shape::new(d[1], d[2], d[3]))
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

fn labels(case: &Value) -> Vec<u32> {
    numbers(&case["labels"]).iter().map(|&v| v as u32).collect()
}

fn check(case: &Value, results: &[(&str, &[f64])]) {
    for (key, got) in results {
        let what = format!("{} {key}", case["name"]);
        assert_close(&what, got, &numbers(&case[*key]), LAYER_TOLERANCE);
    }
}

#[test]
fn golden_conv2d() {
    for case in cases("layers/conv2d.json") {
        let (_, input) = image_shape(&case["input"]);
        let (_, output) = image_shape(&case["output"]);
        let pad = numbers(&case["padding_left_right_top_bottom"]);
        let pad: Vec<usize> = pad.iter().map(|&p| p as usize).collect();
        let padding = Padding {
            left: pad[0],
            right: pad[1],
            top: pad[2],
            bottom: pad[3],
        };
        let conv = Conv {
            input,
            output,
            kernel: size(&case["kernel"]),
            stride: size(&case["stride"]),
            padding,
        };
        let (x, w) = (numbers(&case["input"]), numbers(&case["weight"]));
        let bias = case.get("bias").map(numbers);
        let y = twin::conv2d(&conv, &x, &w, bias.as_deref());
        let (dx, dw, db) = twin::conv2d_backward(&conv, &x, &w, &numbers(&case["grad_output"]));
        check(
            &case,
            &[("output", &y), ("grad_input", &dx), ("grad_weight", &dw)],
        );
        if bias.is_some() {
            check(&case, &[("grad_bias", &db)]);
        }
    }
}

#[test]
fn golden_frn_tlu() {
    for case in cases("layers/frn_tlu.json") {
        assert_eq!(case["eps"].as_f64().unwrap(), twin::FRN_EPSILON);
        let (_, shape) = image_shape(&case["input"]);
        let [x, gamma, beta, tau, grad] =
            ["input", "gamma", "beta", "tau", "grad_output"].map(|key| numbers(&case[key]));
        let y = twin::frn_tlu(&x, shape, &gamma, &beta, &tau);
        let [dx, dgamma, dbeta, dtau] =
            twin::frn_tlu_backward(&x, shape, (&gamma, &beta, &tau), &grad);
        check(
            &case,
            &[
                ("output", &y),
                ("grad_input", &dx),
                ("grad_gamma", &dgamma),
                ("grad_beta", &dbeta),
                ("grad_tau", &dtau),
            ],
        );
    }
}

#[test]
fn golden_linear() {
    for case in cases("layers/linear.json") {
        let inputs = dims(&case["input"])[1];
        let [x, w, b, grad] =
            ["input", "weight", "bias", "grad_output"].map(|key| numbers(&case[key]));
        let y = twin::linear(&x, inputs, &w, Some(&b));
        let (dx, dw, db) = twin::linear_backward(&x, inputs, &w, &grad);
        check(
            &case,
            &[
                ("output", &y),
                ("grad_input", &dx),
                ("grad_weight", &dw),
                ("grad_bias", &db),
            ],
        );
    }
}

#[test]
fn golden_relu() {
    for case in cases("layers/relu.json") {
        let x = numbers(&case["input"]);
        let dx = twin::relu_backward(&x, &numbers(&case["grad_output"]));
        check(&case, &[("output", &twin::relu(&x)), ("grad_input", &dx)]);
    }
}

#[test]
fn golden_pooling() {
    for (file, max) in [("max_pool2d", true), ("avg_pool2d", false)] {
        for case in cases(&format!("layers/{file}.json")) {
            let (_, input) = image_shape(&case["input"]);
            let pool = Pool::square(input, size(&case["kernel"]), size(&case["stride"]));
            assert_eq!(pool.output, image_shape(&case["output"]).1);
            let x = numbers(&case["input"]);
            let grad = numbers(&case["grad_output"]);
            let [y, dx] = match max {
                true => [
                    twin::max_pool(&pool, &x),
                    twin::max_pool_backward(&pool, &x, &grad),
                ],
                false => [
                    twin::avg_pool(&pool, &x),
                    twin::avg_pool_backward(&pool, &grad),
                ],
            };
            check(&case, &[("output", &y), ("grad_input", &dx)]);
        }
    }
    for case in cases("layers/global_avg_pool.json") {
        let (_, shape) = image_shape(&case["input"]);
        let pool = Pool::global(shape);
        let y = twin::avg_pool(&pool, &numbers(&case["input"]));
        let dx = twin::avg_pool_backward(&pool, &numbers(&case["grad_output"]));
        check(&case, &[("output", &y), ("grad_input", &dx)]);
    }
}

#[test]
fn golden_cross_entropy() {
    for case in cases("layers/cross_entropy.json") {
        let classes = dims(&case["logits"])[1];
        let logits = numbers(&case["logits"]);
        let labels = labels(&case);
        let (loss, grad) = twin::cross_entropy(&logits, classes, &labels);
        let log_softmax = twin::log_softmax(&logits, classes);
        let per_sample: Vec<f64> = labels
            .iter()
            .enumerate()
            .map(|(i, &label)| -log_softmax[i * classes + label as usize])
            .collect();
        check(
            &case,
            &[
                ("output", &[loss]),
                ("grad_logits", &grad),
                ("log_softmax", &log_softmax),
                ("per_sample", &per_sample),
            ],
        );
    }
}

/// The numbers of `generate/common.py`.
fn splitmix(stream: u64, index: u64) -> f64 {
    let x = random::mix((stream << 32).wrapping_add(index));
    2.0 * ((x >> 11) as f64 / (1u64 << 53) as f64) - 1.0
}

struct NetCase {
    case: Value,
    network: Network,
    parameters: Vec<f64>,
    images: Vec<f64>,
    labels: Vec<u32>,
}

fn net_cases(file: &str, make: fn(usize) -> engine::Result<Network>) -> Vec<NetCase> {
    let mut out = Vec::new();
    for case in cases(&format!("nets/{file}.json")) {
        let network = make(size(&case["classes"])).unwrap();
        let seed = case["seed"].as_u64().unwrap() * 65536;
        assert_eq!(network.parameter_count(), size(&case["parameters"]));
        let tensors = list(&case["tensors"]);
        assert_eq!(tensors.len(), network.parameters().len());
        let mut parameters = Vec::new();
        for (tensor, parameter) in tensors.iter().zip(network.parameters()) {
            assert_eq!(tensor["name"], parameter.name.as_str());
            assert_eq!(dims(tensor), parameter.shape, "{}", parameter.name);
            let values: Vec<f64> = (0..parameter.len())
                .map(|i| {
                    let s = splitmix(seed + tensor["index"].as_u64().unwrap(), i as u64);
                    match tensor["kind"].as_str().unwrap() {
                        "weight" => s * (6.0 / number(&tensor["fan_in"])).sqrt(),
                        "bias" => 0.1 * s,
                        "gamma" => 1.0 + 0.2 * s,
                        _ => 0.2 * s,
                    }
                })
                .collect();
            assert_number("first", values[0], &tensor["param_first"], 1e-15);
            parameters.extend(values);
        }
        let count = size(&case["batch"]) * network.input_shape().len();
        let images: Vec<f64> = (0..count)
            .map(|i| 1.5 * splitmix(seed + 60000, i as u64))
            .collect();
        let labels = labels(&case);
        out.push(NetCase {
            case,
            network,
            parameters,
            images,
            labels,
        });
    }
    out
}

fn check_net(file: &str, make: fn(usize) -> engine::Result<Network>) {
    for net in net_cases(file, make) {
        let case = &net.case;
        let (parameters, images, labels) = (&net.parameters, &net.images, &net.labels);
        let run = twin::run(
            &net.network,
            parameters,
            images,
            labels,
            DropoutMode::Train(0),
        );
        let run = run.unwrap();
        assert_number("loss", run.loss, &case["loss"], NET_TOLERANCE);
        let logits = numbers(&case["logits"]);
        assert_close("logits", run.logits(), &logits, NET_TOLERANCE);
        for (tensor, parameter) in list(&case["tensors"]).iter().zip(net.network.parameters()) {
            let got = &run.gradient[parameter.range()];
            let norm = number(&tensor["grad_l2"]);
            let absolute = number(&tensor["grad_abs_sum"]);
            let near = |got: f64, want: &Value, scale: f64, what: &str| {
                let (name, want) = (&parameter.name, number(want));
                let is_near = (got - want).abs() <= NET_TOLERANCE * scale;
                assert!(is_near, "{name} {what}: {got} instead of {want}");
            };
            near(got.iter().sum(), &tensor["grad_sum"], absolute, "sum");
            let own: f64 = got.iter().map(|g| g.abs()).sum();
            near(own, &tensor["grad_abs_sum"], absolute, "absolute sum");
            let own = got.iter().map(|g| g * g).sum::<f64>().sqrt();
            near(own, &tensor["grad_l2"], norm, "norm");
            let samples = list(&tensor["sample_grad"]);
            for (index, want) in numbers(&tensor["sample_index"]).iter().zip(samples) {
                near(got[*index as usize], want, norm, "sample");
            }
        }
        // The named points: the value of the layer of this name, or the last one of the part of
        // this name.
        assert!(!list(&case["activations"]).is_empty());
        for point in list(&case["activations"]) {
            let shape = dims(point);
            let sum = number(&point["sum"]);
            let norm = number(&point["l2"]);
            let matches = run.values.iter().any(|value| {
                value.len() == shape.iter().product::<usize>()
                    && (value.iter().sum::<f64>() - sum).abs()
                        <= NET_TOLERANCE * value.iter().map(|v| v.abs()).sum::<f64>()
                    && (value.iter().map(|v| v * v).sum::<f64>().sqrt() - norm).abs()
                        <= NET_TOLERANCE * norm
            });
            assert!(matches, "no value is {}", point["name"]);
        }
    }
}

/// Values nearer than this to a kink may fall on its other side in `f32`. Nearly all that do are
/// within the first distance, and each layer looked at costs a prediction: the others are looked at
/// only where these do not explain a gradient.
const KINKS: [f64; 2] = [1e-6, 1e-5];

/// Values by layer: position in the output, and distance above the kink.
type Close = BTreeMap<usize, Vec<(usize, f64)>>;

impl NetCase {
    /// Relative errors of the tensors' gradients against the file, smallest first: of the samples
    /// and of the norm.
    fn errors(&self, gradient: &[f32]) -> Vec<f64> {
        let tensors = list(&self.case["tensors"]);
        let parts = tensors.iter().zip(self.network.parameters());
        sorted(parts.map(|(tensor, parameter)| {
            let got = &gradient[parameter.range()];
            let scale = number(&tensor["grad_l2"]);
            let mut error = (norm(got.iter().map(|&g| f64::from(g))) / scale - 1.0).abs();
            let samples = list(&tensor["sample_grad"]);
            for (index, want) in numbers(&tensor["sample_index"]).iter().zip(samples) {
                let got = f64::from(got[*index as usize]);
                error = error.max((got - want.as_f64().unwrap()).abs() / scale);
            }
            error
        }))
    }

    /// Values before a threshold that lie next to it, within the larger of [`KINKS`], in the exact
    /// run.
    fn close_to_kinks(&self) -> Close {
        let mode = DropoutMode::Predict(0);
        let values = twin::forward(&self.network, &self.parameters, &self.images, mode).unwrap();
        let part = |p: usize| &self.parameters[self.network.parameters()[p].range()];
        let mut close = Close::new();
        for (i, layer) in self.network.layers().iter().enumerate() {
            let input = layer.inputs[0].index();
            let shape = self.network.shapes()[input];
            let above = match layer.kind {
                LayerKind::Relu => values[input].clone(),
                LayerKind::FrnTlu { gamma, beta, tau } => {
                    let open = vec![f64::NEG_INFINITY; shape.channels];
                    let y = twin::frn_tlu(&values[input], shape, part(gamma), part(beta), &open);
                    let threshold = |at: usize| part(tau)[at / shape.plane() % shape.channels];
                    let each = y.iter().enumerate();
                    each.map(|(at, y)| y - threshold(at)).collect()
                }
                _ => continue,
            };
            let near = above.iter().copied().enumerate();
            let near: Vec<_> = near.filter(|(_, d)| d.abs() < KINKS[1]).collect();
            if !near.is_empty() {
                close.insert(i, near);
            }
        }
        close
    }

    /// Those of them, nearer than `reach`, that a form of the engine has on the other side: its
    /// output is above the threshold, or is not.
    fn crossings(&self, close: &Close, reach: f64, config: PredictorConfig) -> Crossings {
        let (parameters, images) = (narrow(&self.parameters), narrow(&self.images));
        let mut crossings = Crossings::new();
        for (&i, near) in close {
            let within = |(_, above): &&(usize, f64)| above.abs() < reach;
            let near: Vec<_> = near.iter().filter(within).collect();
            if near.is_empty() {
                continue;
            }
            let layer = &self.network.layers()[i];
            let config = PredictorConfig {
                features: Some(self.network.output(&layer.name).unwrap()),
                ..config
            };
            let mut predictor = config.build(&self.network).unwrap();
            let out = predictor.features(&parameters, 0, &images).unwrap();
            let shape = self.network.shapes()[i + 1];
            let threshold = |at: usize| match layer.kind {
                LayerKind::FrnTlu { tau, .. } => {
                    let tau = self.network.parameters()[tau].offset;
                    parameters[tau + at / shape.plane() % shape.channels]
                }
                _ => 0.0,
            };
            let crossed =
                |&&&(at, above): &&&(usize, f64)| (out[at] > threshold(at)) != (above > 0.0);
            let list: Vec<usize> = near.iter().filter(crossed).map(|(at, _)| *at).collect();
            if !list.is_empty() {
                crossings.insert(i, list);
            }
        }
        crossings
    }

    /// The exact gradient beyond these kinks.
    fn gradient_across(&self, crossings: &Crossings) -> Vec<f64> {
        let mode = DropoutMode::Train(0);
        let (parameters, images, labels) = (&self.parameters, &self.images, &self.labels);
        let run = twin::run_across(&self.network, parameters, images, labels, mode, crossings);
        run.unwrap().gradient
    }

    /// Relative errors of the tensors' gradients, in their norm, against the exact gradient.
    fn errors_against(&self, exact: &[f64], gradient: &[f32]) -> Vec<f64> {
        sorted(self.network.parameters().iter().map(|parameter| {
            let (got, want) = (&gradient[parameter.range()], &exact[parameter.range()]);
            let difference = got.iter().zip(want).map(|(&a, b)| f64::from(a) - b);
            norm(difference) / norm(want.iter().copied())
        }))
    }
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}

fn sorted(errors: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut errors: Vec<f64> = errors.collect();
    errors.sort_by(f64::total_cmp);
    errors
}

/// Loss, logits and gradients of the engine in all its forms. `median` and `worst` bound the
/// relative error of the tensors' gradients.
///
/// Among the millions of values before a threshold some lie nearer to it than rounding in `f32` can
/// tell (1.2e-7 in the DenseNet-121 of the project's own copy). Beyond such a kink all tensors
/// before it have another gradient, and on which side a form falls depends on the order of its
/// sums. A form that is not near the file must be nearer still to the exact gradient on its own
/// side of the kinks.
fn check_engine(file: &str, make: fn(usize) -> engine::Result<Network>, median: f64, worst: f64) {
    for net in net_cases(file, make) {
        let case = &net.case;
        let (parameters, images) = (narrow(&net.parameters), narrow(&net.images));
        let mut close_to_kinks = None;
        // forms that fall on the same sides share it
        let mut exact = BTreeMap::new();
        let forms = Isa::available()
            .into_iter()
            .flat_map(|isa| [(isa, true), (isa, false)]);
        for (isa, winograd) in forms {
            let device = Device::cpu().threads(2).isa(isa).winograd(winograd);
            let config = TrainerConfig {
                device,
                ..Default::default()
            };
            let rule = cbopt::SgdConfig::default().build().unwrap();
            let member = Member::new(rule, parameters.clone());
            let mut trainer = config.build(&net.network, [member]).unwrap();
            let mut gradient = vec![0.0; parameters.len()];
            let batch = trainer.gradient(0, &images, &net.labels, &mut gradient);
            assert_number("loss", batch.unwrap().loss, &case["loss"], LOGITS_F32);
            let config = PredictorConfig {
                device,
                ..Default::default()
            };
            let mut predictor = config.build(&net.network).unwrap();
            let logits = wide(&predictor.logits(&parameters, 0, &images).unwrap());
            assert_close("logits", &logits, &numbers(&case["logits"]), LOGITS_F32);
            let errors = net.errors(&gradient);
            let middle = |errors: &[f64]| errors[errors.len() / 2];
            let last = |errors: &[f64]| errors[errors.len() - 1];
            if middle(&errors) <= median && last(&errors) <= worst {
                continue;
            }
            let near = close_to_kinks.get_or_insert_with(|| net.close_to_kinks());
            let mut beyond = Vec::new();
            let explained = KINKS.iter().any(|&reach| {
                let crossings = net.crossings(near, reach, config);
                if crossings.is_empty() {
                    return false;
                }
                let exact = exact
                    .entry(crossings.clone())
                    .or_insert_with(|| net.gradient_across(&crossings));
                let across = net.errors_against(exact, &gradient);
                let (middle, last) = (middle(&across), last(&across));
                beyond.push(format!("{crossings:?} median {middle:e}, worst {last:e}"));
                middle <= ACROSS_F32 && last <= 10.0 * ACROSS_F32
            });
            assert!(
                explained,
                "{file} {} {} winograd {winograd}: median {:e}, worst {:e}; beyond {beyond:?}",
                case["name"],
                isa.name(),
                middle(&errors),
                last(&errors),
            );
        }
    }
}

#[test]
fn golden_engine_lenet() {
    check_engine("lenet", zoo::lenet, 1e-4, 1e-4);
}

#[test]
fn golden_engine_resnet20() {
    check_engine("resnet20_frn", zoo::resnet20, 1e-4, 2e-2);
}

// two tests, because each waits for the twin on one core
#[test]
fn golden_engine_densenet121() {
    let make = |classes| zoo::densenet121(classes, None);
    check_engine("densenet121_frn", make, 5e-4, 2e-2);
}

#[test]
fn golden_engine_densenet101() {
    let make = |classes| zoo::densenet101(classes, None);
    check_engine("densenet101_frn", make, 5e-4, 2e-2);
}

#[test]
fn golden_lenet() {
    check_net("lenet", zoo::lenet);
}

#[test]
fn golden_resnet20() {
    check_net("resnet20_frn", zoo::resnet20);
}

#[test]
fn golden_densenet121() {
    check_net("densenet121_frn", |classes| zoo::densenet121(classes, None));
}

#[test]
fn golden_densenet101() {
    check_net("densenet101_frn", |classes| zoo::densenet101(classes, None));
}
