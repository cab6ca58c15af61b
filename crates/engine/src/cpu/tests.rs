//! The backend against the twin: odd sizes, every instruction set, any number of threads,
//! Winograd's form against the direct one.

use golden::wide;
use proptest::prelude::*;

use machine::Isa;
use random::Stream;

use super::lower::{Program, Step, Winograd};
use super::{Choices, Cpu, gram};
use crate::backend::{Backend, Job, Sample, Source, Task, Wanted};
use crate::dropout::DropoutMode;
use crate::network::{Conv2d, LayerKind, Network, NetworkBuilder, PaddingRule, Shape};
use crate::plan::Op;
use crate::{twin, zoo};

/// Relative error, in the norm of a tensor, that rounding in `f32` explains: some hundred sums of
/// some hundred terms.
const TOLERANCE: f64 = 2e-5;
/// The same for Winograd's form, whose larger tiles round two and a half times as much.
const WINOGRAD: f64 = 2.5 * TOLERANCE;
/// Relative rounding of a sum of some hundred terms in `f32`.
const ROUNDING: f64 = 1e-6;
/// Such sums on the way from the input to the gradient of its weights, roughly: two layers there
/// and back.
const STEPS: f64 = 4.0;
/// Values nearer than this to a kink may fall on its other side in `f32`.
const KINK: f64 = 1e-5;
/// Mean square below which FRN multiplies what rounding leaves of its input by more than one.
const FAINT: f64 = 1e-4;
/// What rounding a probability near 1 to `f32` leaves in its difference to the label, however small
/// that difference is.
const PROBABILITY: f64 = f32::EPSILON as f64 / 2.0;
const SEED: u64 = 77;

const USUAL: Choices = Choices {
    winograd: Winograd::WherePaying,
    fuse_pooling: true,
};

fn job(network: &Network, training: bool, batch: usize) -> Job<'_> {
    let task = if training {
        Task::Train {
            batch,
            runs: 1,
            refuses: true,
        }
    } else {
        Task::Predict { features: None }
    };
    Job { network, task }
}

fn program(network: &Network, training: bool, choices: Choices) -> Program {
    Program::new(job(network, training, 1).plan(), choices)
}

struct Data {
    parameters: Vec<f32>,
    images: Vec<f32>,
    labels: Vec<u32>,
}

fn data(network: &Network, batch: usize, seed: u64) -> Data {
    let mut parameters = network.initial_parameters(seed);
    // γ, β and τ away from 1, 0, 0, where terms would vanish
    for (i, p) in parameters.iter_mut().enumerate() {
        *p += (0.3 * Stream::new(seed ^ 5).uniform(i as u64) - 0.15) as f32;
    }
    let size = network.input_shape().len();
    Data {
        parameters,
        images: (0..batch * size)
            .map(|i| (2.0 * Stream::new(seed ^ 9).uniform(i as u64) - 1.0) as f32)
            .collect(),
        labels: (0..batch)
            .map(|i| ((i * 7 + 1) % network.classes()) as u32)
            .collect(),
    }
}

fn gradient(
    network: &Network,
    data: &Data,
    choices: Choices,
    threads: usize,
    isa: Isa,
) -> (f64, Vec<f32>) {
    let batch = data.labels.len();
    let mut cpu = Cpu::new(&job(network, true, batch), threads, isa, choices);
    let mut out = vec![f32::NAN; network.parameter_count()];
    let source = Source::Floats(&data.images);
    // Twice: memory that was used before must not matter.
    let mut run = || cpu.gradient(&data.parameters, source, &data.labels, SEED, &mut out);
    run().unwrap();
    let result = run().unwrap();
    (result.loss / batch as f64, out)
}

fn logits(network: &Network, data: &Data, choices: Choices, threads: usize, isa: Isa) -> Vec<f32> {
    let mut cpu = Cpu::new(&job(network, false, 1), threads, isa, choices);
    let mut out = vec![f32::NAN; data.labels.len() * network.classes()];
    let sample = Sample {
        parameters: &data.parameters,
        seed: SEED,
    };
    let source = Source::Floats(&data.images);
    cpu.forward(&[sample], source, Wanted::Logits, &mut out)
        .unwrap();
    out
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}

fn error(got: &[f32], want: &[f64]) -> f64 {
    norm(got.iter().zip(want).map(|(a, b)| f64::from(*a) - b))
}

/// Whether a value lies so near to a kink that rounding could move it to the other side, or
/// rounding is blown up.
fn near_kink(network: &Network, parameters: &[f64], values: &[Vec<f64>]) -> bool {
    network.layers.iter().any(|layer| {
        let input = network.shapes[layer.inputs[0].0];
        let x = &values[layer.inputs[0].0];
        let part = |p: usize| &parameters[network.parameters[p].range()];
        match layer.kind {
            LayerKind::Relu => x.iter().any(|v| v.abs() < KINK),
            LayerKind::FrnTlu { gamma, beta, tau } => {
                // A plane of next to nothing is blown up, rounding included.
                let square = |plane: &[f64]| plane.iter().map(|v| v * v).sum::<f64>();
                let faint = |plane: &[f64]| square(plane) < FAINT * plane.len() as f64;
                if x.chunks(input.plane()).any(faint) {
                    return true;
                }
                let low = vec![f64::NEG_INFINITY; input.channels];
                let y = twin::frn_tlu(x, input, part(gamma), part(beta), &low);
                let mut planes = y.chunks(input.plane()).enumerate();
                planes.any(|(i, plane)| {
                    let tau = part(tau)[i % input.channels];
                    plane.iter().any(|v| (v - tau).abs() < KINK)
                })
            }
            LayerKind::MaxPool(pool) => x.chunks(input.plane()).any(|plane| {
                let (kernel, stride, columns) = (pool.height, pool.stride, pool.output.width);
                (0..pool.output.plane()).any(|w| {
                    let (r, c) = (w / columns * stride, w % columns * stride);
                    let mut window: Vec<f64> = (0..kernel * kernel)
                        .map(|k| plane[(r + k / kernel) * input.width + c + k % kernel])
                        .collect();
                    window.sort_by(f64::total_cmp);
                    let n = window.len();
                    // equal zeros come out of a ReLU and carry no gradient
                    n > 1 && window[n - 1] - window[n - 2] < KINK && window[n - 1] != 0.0
                })
            }),
            _ => false,
        }
    })
}

/// Compares loss, gradient and logits on these instruction sets with the twin; `false` if a kink is
/// too near for that.
fn agrees(
    network: &Network,
    batch: usize,
    seed: u64,
    choices: Choices,
    isas: &[Isa],
    tolerance: f64,
) -> bool {
    let data = data(network, batch, seed);
    let (parameters, images) = (wide(&data.parameters), wide(&data.images));
    let mode = DropoutMode::Train(SEED);
    // the way back is longer, and of no use here
    let values = twin::forward(network, &parameters, &images, mode).unwrap();
    if near_kink(network, &parameters, &values) {
        return false;
    }
    let run = twin::run(network, &parameters, &images, &data.labels, mode).unwrap();
    let values = twin::forward(network, &parameters, &images, DropoutMode::Predict(SEED)).unwrap();
    let logits_of_twin = &values[network.layers.len()];
    let mut neighbors = None;
    for &isa in isas {
        let (loss, got) = gradient(network, &data, choices, 2, isa);
        assert!(
            (loss - run.loss).abs() <= tolerance * run.loss.max(1.0),
            "loss {loss}, not {}",
            run.loss
        );
        let whole = norm(run.gradient.iter().copied());
        for parameter in &network.parameters {
            let want = &run.gradient[parameter.range()];
            let error = error(&got[parameter.range()], want);
            // A gradient that is small beside the others is a difference of terms as large as they
            // are.
            let scale = norm(want.iter().copied()).max(1e-2 * whole);
            if error <= tolerance * scale + PROBABILITY {
                continue;
            }
            // Or the network is ill-conditioned: then the exact gradient is as far off for inputs
            // that differ by rounding.
            let others = neighbors.get_or_insert_with(|| {
                [1, 2, 3].map(|number| {
                    let moved = |values: &[f64], stream: u64| -> Vec<f64> {
                        let noise = |i: usize| {
                            ROUNDING * (2.0 * Stream::new(stream).uniform(i as u64) - 1.0)
                        };
                        let values = values.iter().enumerate();
                        values.map(|(i, v)| v * (1.0 + noise(i))).collect()
                    };
                    let (parameters, images) =
                        (moved(&parameters, number), moved(&images, 9 + number));
                    let mode = DropoutMode::Train(SEED);
                    let run = twin::run(network, &parameters, &images, &data.labels, mode);
                    run.unwrap().gradient
                })
            });
            let distance = |other: &Vec<f64>| {
                let other = &other[parameter.range()];
                norm(want.iter().zip(other).map(|(a, b)| a - b))
            };
            let condition = others.iter().map(distance).fold(0.0, f64::max);
            assert!(
                error <= tolerance / TOLERANCE * STEPS * condition + PROBABILITY,
                "{} {}: {error:e} of {scale:e}, condition {condition:e}",
                isa.name(),
                parameter.name
            );
        }
        let want = logits_of_twin;
        let got = logits(network, &data, choices, 2, isa);
        let scale = norm(want.iter().copied());
        let name = isa.name();
        assert!(error(&got, want) <= tolerance * scale, "{name} logits");
    }
    true
}

fn isa_by_index(index: usize) -> Isa {
    let all = Isa::available();
    all[index % all.len()]
}

#[derive(Debug, Clone)]
struct ConvCase {
    input: Shape,
    conv: Conv2d,
    relu: bool,
}

fn conv_case() -> impl Strategy<Value = ConvCase> {
    let shape = (1usize..20, 1usize..14, 1usize..14);
    (
        shape,
        1usize..20,
        1usize..6,
        1usize..4,
        0usize..5,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |((c, h, w), channels, kernel, stride, padding, bias, relu)| {
                let kernel = kernel.min(h).min(w);
                let padding = match padding {
                    4 => PaddingRule::Same,
                    zeros => PaddingRule::Symmetric(zeros.min(kernel)),
                };
                let conv = Conv2d {
                    channels,
                    kernel,
                    stride,
                    padding,
                    bias,
                };
                ConvCase {
                    input: Shape::new(c, h, w),
                    conv,
                    relu,
                }
            },
        )
}

/// A 1×1 convolution, so that there is a gradient to pass on, then the one of the case, then a 2×2
/// max-pool if it is `pooled`, then a dense layer.
fn net_of(case: &ConvCase, pooled: bool) -> crate::Result<Network> {
    let mut net = NetworkBuilder::new("conv", Shape::new(2, case.input.height, case.input.width));
    let x = net.input();
    let x = net.conv2d("before", x, Conv2d::new(case.input.channels, 1));
    let mut x = net.conv2d("conv", x, case.conv);
    if case.relu {
        x = net.relu("relu", x);
    }
    if pooled {
        x = net.max_pool("pool", x, 2, 2);
    }
    let x = net.flatten("flatten", x);
    let x = net.linear("fc", x, 3);
    net.build(x)
}

fn conv_net(case: &ConvCase) -> Network {
    net_of(case, false).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(golden::short(256, 64) as u32))]

    #[test]
    fn convolutions_of_any_size(case in conv_case(), batch in 1usize..41, isa in 0usize..4, seed in 0u64..1000) {
        prop_assume!(agrees(&conv_net(&case), batch, seed, USUAL, &[isa_by_index(isa)], TOLERANCE));
    }

    #[test]
    fn winograd_of_any_size(case in conv_case(), batch in 1usize..34, isa in 0usize..4, seed in 0u64..1000) {
        let mut case = case;
        case.input.height = case.input.height.max(3);
        case.input.width = case.input.width.max(3);
        let zeros = match case.conv.padding {
            PaddingRule::Symmetric(zeros) => PaddingRule::Symmetric(zeros.min(2)),
            same => same,
        };
        case.conv = Conv2d { kernel: 3, stride: 1, padding: zeros, ..case.conv };
        let choices = Choices { winograd: Winograd::Everywhere, ..USUAL };
        let network = conv_net(&case);
        prop_assert_eq!(program(&network, true, choices).winograd.iter().flatten().count(), 1);
        prop_assume!(agrees(&network, batch, seed, choices, &[isa_by_index(isa)], WINOGRAD));
    }

    #[test]
    fn pooling_inside_a_convolution_changes_nothing(
        case in conv_case(), batch in 1usize..34, isa in 0usize..4, winograd: bool, seed in 0u64..1000,
    ) {
        let mut case = case;
        if winograd {
            case.conv = Conv2d { kernel: 3, stride: 1, padding: PaddingRule::Same, ..case.conv };
        }
        // if the convolution gives two rows and columns
        let network = net_of(&case, true);
        prop_assume!(network.is_ok());
        let network = network.unwrap();
        let form = if winograd { Winograd::Everywhere } else { Winograd::WherePaying };
        let fused = Choices { winograd: form, ..USUAL };
        let separate = Choices { fuse_pooling: false, ..fused };
        let count = |choices| {
            let steps = program(&network, true, choices).plan.ops;
            steps.iter().filter(|step| matches!(step, Step::ConvPool { .. })).count()
        };
        prop_assert_eq!((count(fused), count(separate)), (1, 0));
        let data = data(&network, batch, seed);
        let isa = isa_by_index(isa);
        // Equal but for the sign of zeros: no tolerance.
        prop_assert_eq!(gradient(&network, &data, fused, 2, isa), gradient(&network, &data, separate, 2, isa));
        prop_assert_eq!(logits(&network, &data, fused, 2, isa), logits(&network, &data, separate, 2, isa));
        let tolerance = if winograd { WINOGRAD } else { TOLERANCE };
        prop_assume!(agrees(&network, batch, seed, fused, &[isa], tolerance));
    }

    #[test]
    fn other_layers_of_any_size(
        (c, h, w) in (1usize..20, 1usize..14, 1usize..14),
        choice in 0usize..8,
        (kernel, stride) in (1usize..4, 1usize..4),
        batch in 1usize..41,
        isa in 0usize..4,
        seed in 0u64..1000,
    ) {
        let mut net = NetworkBuilder::new("layers", Shape::new(3, h, w));
        let kernel = kernel.min(h).min(w);
        let x = net.input();
        let x = net.conv2d("before", x, Conv2d::new(c, 1));
        let y = match choice {
            0 => net.frn_tlu("frn", x),
            1 => {
                let y = net.frn_tlu("frn", x);
                net.relu("relu", y)
            }
            2 => net.max_pool("pool", x, kernel, stride),
            3 => {
                let y = net.relu("relu", x);
                net.max_pool("pool", y, kernel, stride)
            }
            4 => net.avg_pool("pool", x, kernel, stride),
            5 => {
                let y = net.frn_tlu("frn", x);
                net.add("sum", x, y)
            }
            6 => {
                let y = net.frn_tlu("frn", x);
                let y = net.dropout("drop", y, 0.3, seed % 2 == 0);
                net.add("sum", y, x)
            }
            _ => {
                let y = net.conv2d("conv", x, Conv2d::new(2, 1));
                let z = net.concat("first", &[y, x]);
                let z = net.frn_tlu("frn", z);
                net.concat("second", &[z, x, y, z])
            }
        };
        let y = if seed % 3 == 0 { net.global_avg_pool("mean", y) } else { net.flatten("flatten", y) };
        let y = net.linear("fc1", y, 1 + seed as usize % 37);
        let y = net.relu("fc1.relu", y);
        let y = net.linear("fc2", y, 5);
        let network = net.build(y).unwrap();
        prop_assume!(agrees(&network, batch, seed, USUAL, &[isa_by_index(isa)], TOLERANCE));
    }
}

/// Fails unless the network agrees for a seed that is not near a kink.
fn assert_agrees(network: &Network, batch: usize, isas: &[Isa]) {
    let fits = (0..20).any(|seed| agrees(network, batch, seed, USUAL, isas, TOLERANCE));
    assert!(fits, "every seed is near a kink");
}

#[test]
fn lenet_agrees_on_every_instruction_set() {
    for (name, batch) in [("lenet", 35), ("lenet-dropout", 5)] {
        let network = zoo::by_name(name, None).unwrap();
        assert_agrees(&network, batch, &Isa::available());
    }
}

#[test]
fn dropout_inside_dense_blocks_agrees() {
    let network = zoo::densenet_inner_dropout("dense", 5, &[2], 0.2).unwrap();
    assert_agrees(&network, 1, &[Isa::detect()]);
}

/// Two blocks and the transition between them; those of full size are among the golden numbers.
#[test]
fn a_small_densenet_agrees() {
    let network = zoo::densenet("dense", 5, &[2, 1], None).unwrap();
    // of several images hardly any seed is far from all kinks
    assert_agrees(&network, 1, &Isa::available());
}

#[test]
fn normalization_of_a_single_pixel_keeps_its_digits() {
    let mut net = NetworkBuilder::new("pixel", Shape::new(3, 1, 1));
    let x = net.input();
    let x = net.conv2d("before", x, Conv2d::new(14, 1));
    let y = net.frn_tlu("frn", x);
    let x = net.add("sum", x, y);
    let x = net.linear("fc", x, 5);
    let network = net.build(x).unwrap();
    let isas = Isa::available();
    let agrees = |seed: &u64| agrees(&network, 3, *seed, USUAL, &isas, TOLERANCE);
    let count = (0..60).filter(agrees).count();
    assert!(count > 20, "{count}");
}

#[test]
fn threads_do_not_change_a_bit() {
    // Four blocks and the transitions between them: every layer of a DenseNet at every size of its
    // planes, and no second time.
    let dense = zoo::densenet("dense", 100, &[2, 1, 1, 1], None);
    for (network, batch) in [
        (zoo::lenet(10), golden::short(77, 37)),
        (
            zoo::by_name("resnet20-dropout", None),
            golden::short(50, 18),
        ),
        (dense, 17),
    ] {
        let network = network.unwrap();
        let name = network.name();
        let data = data(&network, batch, 3);
        let isa = Isa::detect();
        let (loss, want) = gradient(&network, &data, USUAL, 1, isa);
        let z = logits(&network, &data, USUAL, 1, isa);
        assert!(want.iter().all(|g| g.is_finite()));
        for threads in 2..=4 {
            let (other, got) = gradient(&network, &data, USUAL, threads, isa);
            assert_eq!(loss.to_bits(), other.to_bits(), "{name}");
            let mut pairs = got.iter().zip(&want);
            assert!(pairs.all(|(a, b)| a.to_bits() == b.to_bits()), "{name}");
            assert_eq!(logits(&network, &data, USUAL, threads, isa), z, "{name}");
        }
    }
}

#[test]
fn winograd_agrees_with_the_direct_form() {
    let network = zoo::resnet20(10).unwrap();
    let data = data(&network, 19, 4);
    for isa in Isa::available() {
        let direct = Choices {
            winograd: Winograd::Never,
            ..USUAL
        };
        let count = |choices| {
            let program = program(&network, true, choices);
            program.winograd.iter().flatten().count()
        };
        assert_eq!((count(direct), count(USUAL)), (0, 16));
        let want = wide(&logits(&network, &data, direct, 2, isa));
        let got = logits(&network, &data, USUAL, 2, isa);
        assert!(error(&got, &want) <= 1e-5 * norm(want.iter().copied()));
        let (_, want) = gradient(&network, &data, direct, 2, isa);
        let (_, got) = gradient(&network, &data, USUAL, 2, isa);
        let want = wide(&want);
        // Single activations cross the threshold of a TLU, so that the whole is compared, not every
        // tensor.
        assert!(error(&got, &want) <= 1e-3 * norm(want.iter().copied()));
    }
}

/// The largest batch of one block, and what the machine says of it when `spoil` has changed
/// parameters and images.
fn outcome(
    network: &Network,
    isa: Isa,
    batch: usize,
    spoil: impl Fn(&mut Data),
) -> (f64, Vec<f32>, Vec<f32>) {
    let mut data = data(network, batch, 6);
    spoil(&mut data);
    let (loss, gradient) = gradient(network, &data, USUAL, 1, isa);
    (loss, gradient, logits(network, &data, USUAL, 1, isa))
}

#[test]
fn nothing_hides_a_nan() {
    // ReLU, pooling inside the convolution and outside, FRN+TLU with and without a sum.
    let mut net = NetworkBuilder::new("nan", Shape::new(1, 9, 9));
    let x = net.input();
    let x = net.conv2d("conv1", x, Conv2d::new(3, 2));
    let x = net.relu("relu1", x);
    let x = net.max_pool("pool1", x, 2, 2);
    let x = net.conv2d("conv2", x, Conv2d::new(3, 1));
    let x = net.frn_tlu("frn", x);
    let x = net.max_pool("pool2", x, 2, 1);
    let y = net.conv2d("conv3", x, Conv2d::new(3, 1));
    let y = net.frn_tlu("frn2", y);
    let x = net.add("sum", x, y);
    let x = net.relu("relu2", x);
    let x = net.flatten("flatten", x);
    let x = net.linear("fc1", x, 4);
    let x = net.relu("relu3", x);
    let x = net.linear("fc2", x, 3);
    let network = net.build(x).unwrap();
    for isa in Isa::available() {
        // Every parameter: NaN in one entry must reach the loss.
        for parameter in &network.parameters {
            let (loss, gradient, logits) = outcome(&network, isa, 16, |data| {
                data.parameters[parameter.offset] = f32::NAN;
            });
            let what = format!("{} {}", isa.name(), parameter.name);
            assert!(loss.is_nan(), "{what}");
            assert!(gradient.iter().any(|g| g.is_nan()), "{what}");
            assert!(logits.iter().any(|z| z.is_nan()), "{what}");
            let data = data(&network, 2, 6);
            let mut parameters = wide(&data.parameters);
            parameters[parameter.offset] = f64::NAN;
            let mode = DropoutMode::Predict(0);
            let values = twin::forward(&network, &parameters, &wide(&data.images), mode).unwrap();
            let last = values.last().unwrap();
            assert!(last.iter().any(|z| z.is_nan()), "{what}");
        }
        // One pixel of one image, wherever it lies in the windows: this image is lost and no other.
        for pixel in [0, 1, 9, 10, 40, 60] {
            let (loss, _, logits) = outcome(&network, isa, 7, |data| {
                data.images[2 * 81 + pixel] = f32::NAN;
            });
            assert!(loss.is_nan(), "{} {pixel}", isa.name());
            for (image, row) in logits.chunks(3).enumerate() {
                assert_eq!(row.iter().all(|z| z.is_nan()), image == 2, "{pixel}");
                assert_eq!(row.iter().any(|z| z.is_nan()), image == 2, "{pixel}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(golden::short(24, 8) as u32))]

    /// Without kinks, so that nothing but rounding is between them.
    #[test]
    fn gram_matrices_are_those_of_the_twin(
        (height, width, padding) in (3..22usize, 3..22usize, 0..=2usize),
        (inputs, middle, outputs, classes) in (1..7usize, 1..7usize, 1..4usize, 2..7usize),
        seed in any::<u64>(),
    ) {
        let mut net = NetworkBuilder::new("tiles", Shape::new(inputs, height, width));
        let x = net.input();
        let x = net.conv2d("a", x, Conv2d::new(middle, 3).padding(padding));
        let x = net.conv2d("b", x, Conv2d::new(outputs, 3).padding(1));
        let x = net.flatten("f", x);
        let x = net.linear("o", x, classes);
        let network = net.build(x).unwrap();
        let data = data(&network, 2, seed);
        let inverse: Vec<f32> = (0..data.parameters.len())
            .map(|i| 0.5 + Stream::named(seed, "inverse").uniform(i as u64) as f32)
            .collect();
        let size = network.input_shape().len();
        let mut want = Vec::new();
        for image in data.images.chunks_exact(size) {
            let (weights, image) = (wide(&data.parameters), wide(image));
            let mode = DropoutMode::Predict(SEED);
            let rows = twin::jacobian(&network, &weights, &image, mode).unwrap();
            for k in rows.chunks_exact(weights.len()) {
                for l in rows.chunks_exact(weights.len()) {
                    let terms = k.iter().zip(l).zip(&inverse);
                    want.push(terms.map(|((k, l), i)| k * l * f64::from(*i)).sum::<f64>());
                }
            }
        }
        for isa in Isa::available() {
            for winograd in [Winograd::Never, Winograd::Everywhere] {
                let request = crate::gram::Request {
                    parameters: &data.parameters,
                    inverse: &inverse,
                    seed: SEED,
                    images: &data.images,
                    classes,
                    last_layer: false,
                };
                let mut logits = vec![0.0; 2 * classes];
                let mut chosen = vec![0; 2 * classes];
                let mut matrices = vec![0.0; 2 * classes * classes];
                let mut answers = crate::gram::Answers {
                    logits: &mut logits,
                    classes: &mut chosen,
                    matrices: &mut matrices,
                };
                let choices = Choices { winograd, ..USUAL };
                gram::run(&network, &request, (choices, 1, isa), &mut answers);
                let found: Vec<f32> = matrices.iter().map(|&c| c as f32).collect();
                let allowed = WINOGRAD * norm(want.iter().copied());
                prop_assert!(error(&found, &want) <= allowed, "{} {winograd:?}", isa.name());
            }
        }
    }
}

#[test]
fn lanes_without_an_image_do_not_matter() {
    // An image that keeps in range what a black one would not: the bias times a weight overflows
    // unless the pixels cancel it.
    let mut net = NetworkBuilder::new("huge", Shape::new(1, 4, 4));
    let x = net.input();
    let x = net.conv2d("conv1", x, Conv2d::new(2, 1));
    let x = net.conv2d("conv2", x, Conv2d::new(2, 3).padding(1));
    let x = net.frn_tlu("frn", x);
    let x = net.dropout("drop", x, 0.5, true);
    let x = net.flatten("flatten", x);
    let x = net.linear("fc", x, 3);
    let network = net.build(x).unwrap();
    let position = |name: &str| network.parameter(name).unwrap().offset;
    for isa in Isa::available() {
        for winograd in [Winograd::WherePaying, Winograd::Everywhere] {
            let mut data = data(&network, 3, 8);
            data.parameters[position("conv1.weight")] = -1e30;
            data.parameters[position("conv1.bias")] = 1e30;
            data.parameters[position("conv2.weight")..][..9].fill(1e20);
            data.images.fill(1.0);
            let choices = Choices { winograd, ..USUAL };
            let (loss, gradient) = gradient(&network, &data, choices, 1, isa);
            assert!(loss.is_finite(), "{}", isa.name());
            assert!(gradient.iter().all(|g| g.is_finite()), "{}", isa.name());
            let logits = logits(&network, &data, choices, 1, isa);
            assert!(logits.iter().all(|z| z.is_finite()), "{}", isa.name());
        }
    }
}

#[test]
fn memory_is_given_back() {
    // DenseNet's values of one image, without sharing: all layers' outputs and their gradients.
    let network = zoo::densenet121(100, None).unwrap();
    let all: usize = network.shapes.iter().map(|s| 2 * s.len()).sum();
    let train = program(&network, true, USUAL).arena;
    assert!(train < all / 2, "{train} of {all}");
    let predict = program(&network, false, USUAL).arena;
    assert!(predict < all / 30, "{predict} of {all}");
}

#[test]
fn the_scale_of_a_channel_is_computed_once() {
    // Every layer of a dense block normalizes all channels before it: only those of the layer
    // before are new.
    let network = zoo::densenet("dense", 10, &[4], None).unwrap();
    let program = program(&network, true, USUAL);
    let fresh = |step: &Step| match step {
        Step::Op(Op::Frn { frn, fresh, .. }) => Some((frn.shape.channels, fresh.clone())),
        _ => None,
    };
    let all: Vec<_> = program.plan.ops.iter().filter_map(fresh).collect();
    let within = all.iter().filter(|(channels, _)| *channels != 48);
    let within: Vec<_> = within
        .map(|(channels, fresh)| (*channels, fresh.clone()))
        .collect();
    assert_eq!(within, [(24, 0..24), (36, 0..12), (60, 0..12), (72, 0..12)]);
    assert_eq!(all.len(), 9);
}
