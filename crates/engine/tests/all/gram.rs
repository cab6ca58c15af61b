//! Gram matrices of the logits' weight gradients, against the dense Jacobian of the twin, which is
//! itself held against finite differences.

use engine::{
    Conv2d, Device, DropoutMode, GRAM_CLASSES, GramConfig, Network, NetworkBuilder, Precisions,
    Shape, gram_matrices, twin, zoo,
};
use golden::wide;

/// Sums of a few thousand products in `f32`, relative to the largest entry.
const SINGLE: f64 = 2e-5;

/// Every kind of layer: a strided convolution with an odd padding, FRN, both pools, a skip, a
/// concatenation, dense layers.
fn everything(classes: usize) -> Network {
    let mut net = NetworkBuilder::new("everything", Shape::new(2, 9, 8));
    let image = net.input();
    let conv = |channels, kernel| Conv2d::new(channels, kernel).padding(kernel / 2);
    let a = net.conv2d("a", image, conv(5, 3));
    let a = net.frn_tlu("n", a);
    let b = net.conv2d("b", a, conv(5, 1));
    let sum = net.add("sum", a, b);
    let pooled = net.max_pool("p", sum, 2, 2);
    let c = net.conv2d("c", sum, Conv2d::new(3, 3).stride(2).same());
    let c = net.avg_pool("q", c, 2, 1);
    let joined = net.concat("j", &[pooled, pooled]);
    let d = net.global_avg_pool("g", joined);
    let e = net.flatten("f", c);
    let d = net.flatten("h", d);
    let all = net.concat("k", &[d, e]);
    let all = net.linear("l", all, 7);
    let all = net.relu("r", all);
    let out = net.linear("o", all, classes);
    net.build(out).expect("the layers fit")
}

/// FRN over more channels than the convolution before it has, as in a DenseNet: both begin at the
/// same place.
fn joined(classes: usize) -> Network {
    let mut net = NetworkBuilder::new("joined", Shape::new(2, 7, 6));
    let mut at = net.input();
    for (name, channels) in [("a", 5), ("b", 4), ("c", 3)] {
        let new = net.conv2d(name, at, Conv2d::new(channels, 3).padding(1));
        at = net.concat(&format!("{name}j"), &[new, at]);
        at = net.frn_tlu(&format!("{name}n"), at);
    }
    let at = net.global_avg_pool("g", at);
    let at = net.flatten("f", at);
    let out = net.linear("o", at, classes);
    net.build(out).expect("the layers fit")
}

/// Convolutions in Winograd's form, with tiles of either size: planes of one tile, of some, and of
/// more than a strip; odd numbers of rows, columns and channels; paddings 0, 1 and 2.
fn tiled(classes: usize) -> Network {
    let mut net = NetworkBuilder::new("tiled", Shape::new(9, 26, 27));
    let mut at = net.input();
    for (name, channels, padding) in [("a", 11, 1), ("b", 10, 0), ("c", 9, 2), ("d", 13, 1)] {
        at = net.conv2d(name, at, Conv2d::new(channels, 3).padding(padding));
        at = net.frn_tlu(&format!("{name}n"), at);
        at = net.avg_pool(&format!("{name}p"), at, 2, 2);
    }
    let at = net.flatten("f", at);
    let out = net.linear("o", at, classes);
    net.build(out).expect("the layers fit")
}

/// Numbers that look random, the same everywhere.
fn noise(seed: u64, count: usize, scale: f64) -> Vec<f32> {
    let stream = random::Stream::named(seed, "gram test");
    let one = |i: usize| (scale * (2.0 * stream.uniform(i as u64) - 1.0)) as f32;
    (0..count).map(one).collect()
}

/// `JΛ⁻¹Jᵀ` of the twin for some classes; only the parameters from `first` on.
fn dense(
    net: &Network,
    weights: &[f32],
    inverse: impl Fn(usize) -> f64,
    image: &[f32],
    classes: &[u32],
    first: usize,
) -> Vec<f64> {
    let jacobian = twin::jacobian(net, &wide(weights), &wide(image), DropoutMode::Predict(3))
        .expect("the slices fit the network");
    let row = |class: u32| &jacobian[class as usize * weights.len()..][..weights.len()];
    let mut all = Vec::new();
    for &k in classes {
        for &l in classes {
            let products = (first..weights.len()).map(|i| row(k)[i] * row(l)[i] * inverse(i));
            all.push(products.sum());
        }
    }
    all
}

#[test]
fn the_jacobian_is_that_of_finite_differences() {
    let net = everything(4);
    let weights = wide(&noise(1, net.parameter_count(), 0.5));
    let image = wide(&noise(2, net.input_shape().len(), 1.0));
    let mode = DropoutMode::Predict(3);
    let jacobian = twin::jacobian(&net, &weights, &image, mode).unwrap();
    let logits = |weights: &[f64]| {
        twin::forward(&net, weights, &image, mode)
            .unwrap()
            .pop()
            .unwrap()
    };
    let step = 1e-6;
    for i in (0..weights.len()).step_by(7) {
        let (mut up, mut down) = (weights.clone(), weights.clone());
        up[i] += step;
        down[i] -= step;
        let (up, down) = (logits(&up), logits(&down));
        for class in 0..net.classes() {
            let want = (up[class] - down[class]) / (2.0 * step);
            let found = jacobian[class * weights.len() + i];
            assert!(
                (found - want).abs() < 1e-7,
                "weight {i}, class {class}: {found} {want}"
            );
        }
    }
}

#[test]
fn matrices_are_those_of_the_dense_jacobian() {
    for (net, scale) in [
        (everything(4), 0.5),
        (everything(37), 0.5),
        (joined(4), 0.5),
        (tiled(5), 0.3),
        (tiled(35), 0.3),
        (zoo::lenet(10).unwrap(), 0.15),
        (zoo::lenet_dropout(10, 0.05).unwrap(), 0.15),
    ] {
        let count = net.parameter_count();
        let weights = noise(4, count, scale);
        let size = net.input_shape().len();
        let images = noise(5, 3 * size, 1.0);
        let each: Vec<f32> = noise(6, count, 1.0).iter().map(|v| 2.0 + v).collect();
        let last = net.parameters()[net.parameters().len() - 2].offset;
        for (precisions, inverse) in [
            (
                Precisions::Common(0.7),
                &(|_| 1.0 / 0.7) as &dyn Fn(usize) -> f64,
            ),
            (Precisions::Each(&each), &|i: usize| {
                1.0 / f64::from(each[i])
            }),
        ] {
            for (classes, last_layer) in [(GRAM_CLASSES, false), (3, false), (16, true)] {
                let config = GramConfig {
                    classes,
                    last_layer,
                    ..GramConfig::default()
                };
                // masks of dropout belong to the place of an image: the first is compared
                let found = gram_matrices(&net, &weights, precisions, 3, &images, &config).unwrap();
                let m = classes.min(net.classes());
                assert_eq!(found.matrices.len(), 3 * m * m);
                let first = if last_layer { last } else { 0 };
                let want = dense(
                    &net,
                    &weights,
                    inverse,
                    &images[..size],
                    &found.classes[..m],
                    first,
                );
                golden::assert_close(net.name(), &found.matrices[..m * m], &want, SINGLE);
                let (weights, image) = (wide(&weights), wide(&images[..size]));
                let values = twin::forward(&net, &weights, &image, DropoutMode::Predict(3));
                let logits = values.unwrap().pop().unwrap();
                let got = wide(&found.logits[..net.classes()]);
                golden::assert_close("logits", &got, &logits, SINGLE);
                let chosen = |k: usize| found.classes[..m].contains(&(k as u32));
                let least = (0..logits.len()).filter(|&k| chosen(k)).map(|k| logits[k]);
                let least = least.fold(f64::INFINITY, f64::min);
                assert!((0..logits.len()).all(|k| chosen(k) || logits[k] <= least + 1e-4));
            }
        }
    }
}

#[test]
fn threads_change_no_bit_and_bad_input_is_refused() {
    let net = zoo::lenet(10).unwrap();
    let weights = noise(4, net.parameter_count(), 0.15);
    let images = noise(5, 5 * 784, 1.0);
    let with = |threads: usize, precision: f64, classes: usize| {
        let config = GramConfig {
            classes,
            device: Device::cpu().threads(threads),
            ..GramConfig::default()
        };
        let precisions = Precisions::Common(precision);
        gram_matrices(&net, &weights, precisions, 0, &images, &config)
    };
    assert_eq!(with(1, 1.0, 16).unwrap(), with(3, 1.0, 16).unwrap());
    for precision in [0.0, -1.0, f64::NAN] {
        let error = with(1, precision, 16).unwrap_err().to_string();
        let is_named = error.contains("precision") && error.contains("(0, inf]");
        assert!(is_named, "{error}");
    }
    assert!(with(1, 1.0, 0).is_err() && with(1, 1.0, GRAM_CLASSES + 1).is_err());
    let config = GramConfig::default();
    let common = Precisions::Common(1.0);
    assert!(gram_matrices(&net, &weights[1..], common, 0, &images, &config).is_err());
    assert!(gram_matrices(&net, &weights, common, 0, &images[1..], &config).is_err());
    let short = Precisions::Each(&[1.0]);
    assert!(gram_matrices(&net, &weights, short, 0, &images, &config).is_err());
}

#[test]
fn weights_of_infinite_precision_do_not_move() {
    let net = zoo::lenet(10).unwrap();
    let weights = net.initial_parameters(3);
    let images = noise(8, 2 * net.input_shape().len(), 1.0);
    let last = net.parameters()[net.parameters().len() - 2].offset;
    let held = |i: usize| if i < last { f32::INFINITY } else { 0.7 };
    let each: Vec<f32> = (0..net.parameter_count()).map(held).collect();
    let gram = |precisions, last_layer| {
        let config = GramConfig {
            last_layer,
            ..GramConfig::default()
        };
        gram_matrices(&net, &weights, precisions, 0, &images, &config).unwrap()
    };
    let (found, want) = (
        gram(Precisions::Each(&each), false),
        gram(Precisions::Each(&vec![0.7; each.len()]), true),
    );
    golden::assert_close("held", &found.matrices, &want.matrices, SINGLE);
}
