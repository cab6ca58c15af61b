//! The twin, and the fast engine, against PyTorch: single layers and whole networks.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use engine::network::Padding;
use engine::twin::{self, Convolution, DropoutMode};
use engine::{Isa, Network, Shape, TrainerConfig, zoo};
use serde_json::Value;

/// Short sums in `f64`: the order of summation moves a few units in the last place.
const LAYER_TOLERANCE: f64 = 1e-12;
/// What `f32` leaves of the logits, as measured with PyTorch in `f32`.
const LOGITS_F32: f64 = 1e-5;
/// Depth multiplies the rounding of a layer.
const NET_TOLERANCE: f64 = 1e-9;

fn cases(path: &str) -> Vec<Value> {
    // a set that lacks the whole part says nothing about it: then the project's own copy is read
    let part = path.split('/').next().unwrap_or(path);
    let root = std::env::var_os("MAXITIVE_GOLDEN")
        .map(PathBuf::from)
        .filter(|root| !root.is_dir() || root.join(part).exists())
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden")));
    let file = root.join(path);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let value: Value = serde_json::from_str(&text).unwrap();
    let cases = value["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{path} has no case");
    cases
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.get("data").unwrap_or(value);
    fn walk(value: &Value, out: &mut Vec<f64>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| walk(item, out)),
            other => out.push(other.as_f64().unwrap()),
        }
    }
    let mut out = Vec::new();
    walk(list, &mut out);
    out
}

fn dims(value: &Value) -> Vec<usize> {
    let list = value["shape"].as_array().unwrap();
    list.iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

fn image_shape(value: &Value) -> (usize, Shape) {
    let d = dims(value);
    (d[0], Shape::new(d[1], d[2], d[3]))
}

fn labels(case: &Value) -> Vec<u32> {
    numbers(&case["labels"]).iter().map(|&v| v as u32).collect()
}

fn size(case: &Value, key: &str) -> usize {
    case[key].as_u64().unwrap() as usize
}

#[track_caller]
fn close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let scale = want.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let scale = if scale == 0.0 { 1.0 } else { scale };
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!(
            (a - b).abs() <= tolerance * scale,
            "{what}[{i}]: {a} instead of {b}"
        );
    }
}

fn check(case: &Value, results: &[(&str, &[f64])]) {
    for (key, got) in results {
        let what = format!("{} {key}", case["name"]);
        close(got, &numbers(&case[*key]), LAYER_TOLERANCE, &what);
    }
}

#[test]
fn golden_conv2d() {
    for case in cases("layers/conv2d.json") {
        let (batch, input) = image_shape(&case["input"]);
        let (_, output) = image_shape(&case["output"]);
        let pad = numbers(&case["padding_left_right_top_bottom"]);
        let pad: Vec<usize> = pad.iter().map(|&p| p as usize).collect();
        let padding = Padding {
            left: pad[0],
            right: pad[1],
            top: pad[2],
            bottom: pad[3],
        };
        let convolution = Convolution {
            batch,
            input,
            output,
            kernel: size(&case, "kernel"),
            stride: size(&case, "stride"),
            padding,
        };
        let (x, w) = (numbers(&case["input"]), numbers(&case["weight"]));
        let bias = case.get("bias").map(numbers);
        let y = convolution.forward(&x, &w, bias.as_deref());
        let (dx, dw, db) = convolution.backward(&x, &w, &numbers(&case["grad_output"]));
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
            let (batch, input) = image_shape(&case["input"]);
            let (_, output) = image_shape(&case["output"]);
            let x = numbers(&case["input"]);
            let grad = numbers(&case["grad_output"]);
            let planes = batch * input.channels;
            let window = (size(&case, "kernel"), size(&case, "stride"));
            let shapes = (input, output);
            let (y, dx) = if max {
                (
                    twin::max_pool(&x, planes, shapes, window),
                    twin::max_pool_backward(&x, planes, shapes, window, &grad),
                )
            } else {
                (
                    twin::avg_pool(&x, planes, shapes, window),
                    twin::avg_pool_backward(planes, shapes, window, &grad),
                )
            };
            check(&case, &[("output", &y), ("grad_input", &dx)]);
        }
    }
    for case in cases("layers/global_avg_pool.json") {
        let (_, shape) = image_shape(&case["input"]);
        let y = twin::global_avg_pool(&numbers(&case["input"]), shape);
        let dx = twin::global_avg_pool_backward(shape, &numbers(&case["grad_output"]));
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
    let x = (stream << 32)
        .wrapping_add(index)
        .wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let x = x ^ (x >> 31);
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
        let network = make(size(&case, "classes")).unwrap();
        let seed = case["seed"].as_u64().unwrap() * 65536;
        assert_eq!(network.parameter_count(), size(&case, "parameters"));
        let tensors = case["tensors"].as_array().unwrap();
        assert_eq!(tensors.len(), network.parameters().len());
        let mut parameters = Vec::new();
        for (tensor, parameter) in tensors.iter().zip(network.parameters()) {
            assert_eq!(tensor["name"], parameter.name.as_str());
            assert_eq!(dims(tensor), parameter.shape, "{}", parameter.name);
            let values: Vec<f64> = (0..parameter.len())
                .map(|i| {
                    let s = splitmix(seed + tensor["index"].as_u64().unwrap(), i as u64);
                    match tensor["kind"].as_str().unwrap() {
                        "weight" => s * (6.0 / tensor["fan_in"].as_f64().unwrap()).sqrt(),
                        "bias" => 0.1 * s,
                        "gamma" => 1.0 + 0.2 * s,
                        _ => 0.2 * s,
                    }
                })
                .collect();
            close(
                &[values[0]],
                &numbers(&tensor["param_first"]),
                1e-15,
                "first",
            );
            parameters.extend(values);
        }
        let count = size(&case, "batch") * network.input_shape().len();
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
        let run = twin::run(
            &net.network,
            &net.parameters,
            &net.images,
            &net.labels,
            DropoutMode::Train(0),
        )
        .unwrap();
        close(&[run.loss], &numbers(&case["loss"]), NET_TOLERANCE, "loss");
        close(
            run.logits(),
            &numbers(&case["logits"]),
            NET_TOLERANCE,
            "logits",
        );
        for (tensor, parameter) in case["tensors"]
            .as_array()
            .unwrap()
            .iter()
            .zip(net.network.parameters())
        {
            let got = &run.gradient[parameter.range()];
            let norm = tensor["grad_l2"].as_f64().unwrap();
            let absolute = tensor["grad_abs_sum"].as_f64().unwrap();
            let near = |got: f64, want: &Value, scale: f64, what: &str| {
                let want = want.as_f64().unwrap();
                let error = (got - want).abs();
                assert!(
                    error <= NET_TOLERANCE * scale,
                    "{} {what}: {got} instead of {want}",
                    parameter.name
                );
            };
            near(got.iter().sum(), &tensor["grad_sum"], absolute, "sum");
            let own: f64 = got.iter().map(|g| g.abs()).sum();
            near(own, &tensor["grad_abs_sum"], absolute, "absolute sum");
            let own = got.iter().map(|g| g * g).sum::<f64>().sqrt();
            near(own, &tensor["grad_l2"], norm, "norm");
            let samples = tensor["sample_grad"].as_array().unwrap();
            for (index, want) in numbers(&tensor["sample_index"]).iter().zip(samples) {
                near(got[*index as usize], want, norm, "sample");
            }
        }
        // The named points: the value of the layer of this name, or the last one of the part of this name.
        let mut found = 0;
        for point in case["activations"].as_array().unwrap() {
            let shape = dims(point);
            let sum = point["sum"].as_f64().unwrap();
            let norm = point["l2"].as_f64().unwrap();
            let matches = run.values.iter().any(|value| {
                value.len() == shape.iter().product::<usize>()
                    && (value.iter().sum::<f64>() - sum).abs()
                        <= NET_TOLERANCE * value.iter().map(|v| v.abs()).sum::<f64>()
                    && (value.iter().map(|v| v * v).sum::<f64>().sqrt() - norm).abs()
                        <= NET_TOLERANCE * norm
            });
            assert!(matches, "no value is {}", point["name"]);
            found += 1;
        }
        assert!(found > 0);
    }
}

/// Loss and gradients of the engine itself. `median` and `worst` bound the relative error of the tensors' gradients: where rounding moves
/// an activation across a kink, single tensors of deep networks are further off.
fn check_engine(file: &str, make: fn(usize) -> engine::Result<Network>, median: f64, worst: f64) {
    for net in net_cases(file, make) {
        let case = &net.case;
        let narrow = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<_>>();
        let (parameters, images) = (narrow(&net.parameters), narrow(&net.images));
        for (isa, winograd) in Isa::available()
            .into_iter()
            .flat_map(|isa| [(isa, true), (isa, false)])
        {
            let config = TrainerConfig {
                threads: 2,
                isa,
                winograd,
                ..Default::default()
            };
            let rule = cbopt::SgdConfig::default().build().unwrap();
            let mut trainer = config
                .build(&net.network, rule, parameters.clone())
                .unwrap();
            let batch = trainer.gradient(&images, &net.labels).unwrap();
            close(&[batch.loss], &numbers(&case["loss"]), LOGITS_F32, "loss");
            let config = engine::PredictorConfig {
                threads: 2,
                isa,
                winograd,
                ..Default::default()
            };
            let mut predictor = config.build(&net.network).unwrap();
            let logits: Vec<f64> = predictor
                .logits(&parameters, &images)
                .unwrap()
                .into_iter()
                .map(f64::from)
                .collect();
            close(&logits, &numbers(&case["logits"]), LOGITS_F32, "logits");
            let tensors = case["tensors"].as_array().unwrap();
            let mut errors: Vec<(f64, &str)> = Vec::new();
            for (tensor, parameter) in tensors.iter().zip(net.network.parameters()) {
                let got = &trainer.gradients()[parameter.range()];
                let scale = tensor["grad_l2"].as_f64().unwrap();
                let mut error = 0.0f64;
                let samples = tensor["sample_grad"].as_array().unwrap();
                for (index, want) in numbers(&tensor["sample_index"]).iter().zip(samples) {
                    let got = f64::from(got[*index as usize]);
                    error = error.max((got - want.as_f64().unwrap()).abs() / scale);
                }
                let norm = got
                    .iter()
                    .map(|&g| f64::from(g).powi(2))
                    .sum::<f64>()
                    .sqrt();
                errors.push((error.max((norm / scale - 1.0).abs()), &parameter.name));
            }
            errors.sort_by(|a, b| a.0.total_cmp(&b.0));
            let middle = errors[errors.len() / 2];
            // One activation that crosses a kink near the end moves all tensors before it, and need not do so in every form:
            // the form used by default is held to the median, the others to ten times as much.
            let default = (isa, winograd) == (Isa::detect(), true);
            let median = if default { median } else { 10.0 * median };
            assert!(
                middle.0 <= median,
                "{} {winograd}: median {middle:?}",
                isa.name()
            );
            let last = errors[errors.len() - 1];
            assert!(last.0 <= worst, "{} {winograd}: worst {last:?}", isa.name());
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

#[test]
fn golden_engine_densenet() {
    check_engine(
        "densenet121_frn",
        |classes| zoo::densenet121(classes, None),
        5e-4,
        2e-2,
    );
    check_engine(
        "densenet101_frn",
        |classes| zoo::densenet101(classes, None),
        5e-4,
        2e-2,
    );
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
