//! The obvious form of everything: forward and backward pass of a network in `f64`, NCHW, plain
//! loops.
//!
//! The fast kernels are held against this file, and this file against PyTorch and finite
//! differences. Slices hold whole batches, row-major, `[batch, channels, height, width]`. At kinks
//! the subgradients are PyTorch's: ReLU 0 at 0, half to each side of a TLU tie, the first maximum
//! in row-major order for max-pooling. NaN is passed on, never swallowed by a maximum.

use crate::dropout::{DropoutMode, dropout_bits, dropout_key, dropout_threshold};
use images::{check_labels, check_length};

use crate::error::Result;
use crate::network::{Conv, LayerKind, Network, Pool, Shape};

/// ε in `√(mean x² + ε)`.
pub const FRN_EPSILON: f64 = 1e-6;

/// Calls `each(output index, input index, weight index)` for every product of a convolution of
/// `batch` images.
fn products(conv: &Conv, batch: usize, mut each: impl FnMut(usize, usize, usize)) {
    let Conv {
        input,
        output,
        kernel,
        stride,
        padding,
    } = *conv;
    for n in 0..batch {
        for o in 0..output.channels {
            for y in 0..output.height {
                for x in 0..output.width {
                    let at = ((n * output.channels + o) * output.height + y) * output.width + x;
                    for c in 0..input.channels {
                        for ky in 0..kernel {
                            let row = (y * stride + ky).wrapping_sub(padding.top);
                            if row >= input.height {
                                continue;
                            }
                            for kx in 0..kernel {
                                let column = (x * stride + kx).wrapping_sub(padding.left);
                                if column >= input.width {
                                    continue;
                                }
                                let from = ((n * input.channels + c) * input.height + row)
                                    * input.width
                                    + column;
                                let weight = ((o * input.channels + c) * kernel + ky) * kernel + kx;
                                each(at, from, weight);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Output of a convolution.
pub fn conv2d(conv: &Conv, x: &[f64], weight: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
    let batch = x.len() / conv.input.len();
    let plane = conv.output.plane();
    let mut out = vec![0.0; batch * conv.output.len()];
    if let Some(bias) = bias {
        for (i, value) in out.iter_mut().enumerate() {
            *value = bias[i / plane % conv.output.channels];
        }
    }
    products(conv, batch, |o, i, w| out[o] += x[i] * weight[w]);
    out
}

/// Gradients of a convolution: input, weight, bias.
pub fn conv2d_backward(
    conv: &Conv,
    x: &[f64],
    weight: &[f64],
    grad: &[f64],
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let mut dx = vec![0.0; x.len()];
    let mut dw = vec![0.0; weight.len()];
    products(conv, x.len() / conv.input.len(), |o, i, w| {
        dx[i] += grad[o] * weight[w];
        dw[w] += grad[o] * x[i];
    });
    let mut db = vec![0.0; conv.output.channels];
    for (i, g) in grad.iter().enumerate() {
        db[i / conv.output.plane() % conv.output.channels] += g;
    }
    (dx, dw, db)
}

/// The larger of two numbers, NaN if one of them is.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// `max(γ x / √(mean x² + ε) + β, τ)`.
pub fn frn_tlu(x: &[f64], shape: Shape, gamma: &[f64], beta: &[f64], tau: &[f64]) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len());
    for (i, plane) in x.chunks(shape.plane()).enumerate() {
        let c = i % shape.channels;
        let square = plane.iter().map(|v| v * v).sum::<f64>() / plane.len() as f64;
        let scale = 1.0 / (square + FRN_EPSILON).sqrt();
        out.extend(
            plane
                .iter()
                .map(|v| larger(gamma[c] * (v * scale) + beta[c], tau[c])),
        );
    }
    out
}

/// Gradients of FRN and TLU: input, γ, β, τ.
pub fn frn_tlu_backward(
    x: &[f64],
    shape: Shape,
    parameters: (&[f64], &[f64], &[f64]),
    grad: &[f64],
) -> [Vec<f64>; 4] {
    frn_tlu_backward_across(x, shape, parameters, grad, &[])
}

fn frn_tlu_backward_across(
    x: &[f64],
    shape: Shape,
    (gamma, beta, tau): (&[f64], &[f64], &[f64]),
    grad: &[f64],
    crossed: &[usize],
) -> [Vec<f64>; 4] {
    let mut dx = Vec::with_capacity(x.len());
    let [mut dgamma, mut dbeta, mut dtau] = [(); 3].map(|()| vec![0.0; shape.channels]);
    let size = shape.plane();
    for (i, (plane, grad)) in x.chunks(size).zip(grad.chunks(size)).enumerate() {
        let c = i % shape.channels;
        let square = plane.iter().map(|v| v * v).sum::<f64>() / size as f64;
        let root = (square + FRN_EPSILON).sqrt();
        // One operation of the chain at a time: with one pixel the two parts of dx cancel to six
        // digits.
        let mut dscaled = Vec::with_capacity(size);
        let mut droot = 0.0;
        for (p, (v, g)) in plane.iter().zip(grad).enumerate() {
            let y = gamma[c] * (v / root) + beta[c];
            let mut share = if y > tau[c] {
                1.0
            } else if y < tau[c] {
                0.0
            } else {
                0.5
            };
            if crossed.contains(&(i * size + p)) {
                share = 1.0 - share;
            }
            let dy = share * g;
            dgamma[c] += dy * (v / root);
            dbeta[c] += dy;
            dtau[c] += (1.0 - share) * g;
            droot -= gamma[c] * dy * (v / root / root);
            dscaled.push(gamma[c] * dy);
        }
        let dsquare = droot / (2.0 * root) / size as f64;
        dx.extend(
            plane
                .iter()
                .zip(&dscaled)
                .map(|(v, d)| d / root + (dsquare * v + dsquare * v)),
        );
    }
    [dx, dgamma, dbeta, dtau]
}

/// `W x + b` for a batch of flat inputs.
pub fn linear(x: &[f64], inputs: usize, weight: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
    let mut out = Vec::new();
    for x in x.chunks(inputs) {
        for (o, row) in weight.chunks(inputs).enumerate() {
            let sum: f64 = row.iter().zip(x).map(|(w, x)| w * x).sum();
            out.push(sum + bias.map_or(0.0, |b| b[o]));
        }
    }
    out
}

/// Gradients of a linear layer: input, weight, bias.
pub fn linear_backward(
    x: &[f64],
    inputs: usize,
    weight: &[f64],
    grad: &[f64],
) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let outputs = weight.len() / inputs;
    let mut dx = vec![0.0; x.len()];
    let mut dw = vec![0.0; weight.len()];
    let mut db = vec![0.0; outputs];
    for n in 0..x.len() / inputs {
        for o in 0..outputs {
            let g = grad[n * outputs + o];
            db[o] += g;
            for i in 0..inputs {
                dx[n * inputs + i] += g * weight[o * inputs + i];
                dw[o * inputs + i] += g * x[n * inputs + i];
            }
        }
    }
    (dx, dw, db)
}

/// `max(x, 0)`.
pub fn relu(x: &[f64]) -> Vec<f64> {
    x.iter().map(|&v| larger(v, 0.0)).collect()
}

/// Gradient of ReLU, 0 at 0.
pub fn relu_backward(x: &[f64], grad: &[f64]) -> Vec<f64> {
    let pass = |(v, g): (&f64, &f64)| if *v > 0.0 { *g } else { 0.0 };
    x.iter().zip(grad).map(pass).collect()
}

/// Calls `each(output index, input indices of the window)`. `planes` is images times channels.
fn windows(pool: &Pool, planes: usize, mut each: impl FnMut(usize, &[usize])) {
    let Pool {
        input,
        output,
        stride,
        ..
    } = *pool;
    let mut window = Vec::with_capacity(pool.height * pool.width);
    for p in 0..planes {
        for y in 0..output.height {
            for x in 0..output.width {
                window.clear();
                for ky in 0..pool.height {
                    for kx in 0..pool.width {
                        let row = p * input.height + y * stride + ky;
                        window.push(row * input.width + x * stride + kx);
                    }
                }
                each((p * output.height + y) * output.width + x, &window);
            }
        }
    }
}

/// Position of the first maximum, or of a NaN.
fn first_maximum(x: &[f64], window: &[usize]) -> usize {
    let better = |best: usize, &i: &usize| {
        if x[i] > x[best] || x[i].is_nan() {
            i
        } else {
            best
        }
    };
    window.iter().fold(window[0], better)
}

/// Maximum over windows.
pub fn max_pool(pool: &Pool, x: &[f64]) -> Vec<f64> {
    let planes = x.len() / pool.input.plane();
    let mut out = vec![0.0; planes * pool.output.plane()];
    windows(pool, planes, |o, w| out[o] = x[first_maximum(x, w)]);
    out
}

/// Gradient of max-pooling, to the first maximum.
pub fn max_pool_backward(pool: &Pool, x: &[f64], grad: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; x.len()];
    windows(pool, x.len() / pool.input.plane(), |o, w| {
        dx[first_maximum(x, w)] += grad[o];
    });
    dx
}

/// Mean over windows.
pub fn avg_pool(pool: &Pool, x: &[f64]) -> Vec<f64> {
    let planes = x.len() / pool.input.plane();
    let mut out = vec![0.0; planes * pool.output.plane()];
    windows(pool, planes, |o, w| {
        out[o] = w.iter().map(|&i| x[i]).sum::<f64>() / w.len() as f64;
    });
    out
}

/// Gradient of mean-pooling.
pub fn avg_pool_backward(pool: &Pool, grad: &[f64]) -> Vec<f64> {
    let planes = grad.len() / pool.output.plane();
    let mut dx = vec![0.0; planes * pool.input.plane()];
    windows(pool, planes, |o, w| {
        w.iter().for_each(|&i| dx[i] += grad[o] / w.len() as f64);
    });
    dx
}

/// `log softmax` of every row.
pub fn log_softmax(logits: &[f64], classes: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(logits.len());
    for row in logits.chunks(classes) {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log_sum = top + row.iter().map(|z| (z - top).exp()).sum::<f64>().ln();
        out.extend(row.iter().map(|z| z - log_sum));
    }
    out
}

/// Mean cross-entropy and its gradient at the logits.
pub fn cross_entropy(logits: &[f64], classes: usize, labels: &[u32]) -> (f64, Vec<f64>) {
    let log_probability = log_softmax(logits, classes);
    let n = labels.len() as f64;
    let mut grad: Vec<f64> = log_probability.iter().map(|l| l.exp() / n).collect();
    let mut loss = 0.0;
    for (i, &label) in labels.iter().enumerate() {
        loss -= log_probability[i * classes + label as usize] / n;
        grad[i * classes + label as usize] -= 1.0 / n;
    }
    (loss, grad)
}

/// Factors of a dropout layer: 0 or `1/(1 - rate)`.
fn dropout_factors(seed: u64, layer: usize, rate: f64, batch: usize, size: usize) -> Vec<f64> {
    let threshold = dropout_threshold(rate);
    let mut factors = Vec::with_capacity(batch * size);
    for image in 0..batch {
        let key = dropout_key(seed, layer, image);
        for element in 0..size {
            let dropped = dropout_bits(key, element as u32) < threshold;
            factors.push(if dropped { 0.0 } else { 1.0 / (1.0 - rate) });
        }
    }
    factors
}

/// What the twin computed.
#[derive(Debug, Clone)]
pub struct TwinRun {
    /// Every value of the network, `[batch, channels, height, width]`; the first is the input.
    pub values: Vec<Vec<f64>>,
    /// Mean cross-entropy.
    pub loss: f64,
    /// Gradient of the loss, flat as the parameters are.
    pub gradient: Vec<f64>,
    /// Gradient of the loss at the input.
    pub input_gradient: Vec<f64>,
}

impl TwinRun {
    /// `[batch, classes]`.
    pub fn logits(&self) -> &[f64] {
        self.values.last().expect("the input is always there")
    }
}

/// Every value of the network for a batch of images.
///
/// # Errors
/// [`crate::Error::Input`] if a slice does not fit the network.
pub fn forward(
    network: &Network,
    parameters: &[f64],
    images: &[f64],
    mode: DropoutMode,
) -> Result<Vec<Vec<f64>>> {
    check_length("parameters", parameters.len(), network.parameter_count())?;
    let size = network.input_shape().len();
    let batch = images.len() / size;
    check_length("images", images.len(), batch * size)?;
    let part = |index: usize| &parameters[network.parameters[index].range()];
    let mut values = vec![images.to_vec()];
    for (i, layer) in network.layers.iter().enumerate() {
        let input = network.shapes[layer.inputs[0].0];
        let output = network.shapes[i + 1];
        let x = &values[layer.inputs[0].0];
        let value = match layer.kind {
            LayerKind::Conv2d { conv, weight, bias } => {
                conv2d(&conv, x, part(weight), bias.map(part))
            }
            LayerKind::FrnTlu { gamma, beta, tau } => {
                frn_tlu(x, input, part(gamma), part(beta), part(tau))
            }
            LayerKind::Linear { weight, bias } => {
                linear(x, input.len(), part(weight), bias.map(part))
            }
            LayerKind::Relu => relu(x),
            LayerKind::MaxPool(pool) => max_pool(&pool, x),
            LayerKind::AvgPool(pool) => avg_pool(&pool, x),
            LayerKind::Dropout { rate, always_on } => match mode.seed(always_on) {
                None => x.clone(),
                Some(seed) => {
                    let factors = dropout_factors(seed, i, rate, batch, input.len());
                    x.iter().zip(factors).map(|(v, f)| v * f).collect()
                }
            },
            LayerKind::Add => {
                let y = &values[layer.inputs[1].0];
                x.iter().zip(y).map(|(a, b)| a + b).collect()
            }
            LayerKind::Concat => {
                let mut out = Vec::with_capacity(batch * output.len());
                for n in 0..batch {
                    for part in &layer.inputs {
                        let size = network.shapes[part.0].len();
                        out.extend_from_slice(&values[part.0][n * size..(n + 1) * size]);
                    }
                }
                out
            }
            LayerKind::Flatten => x.clone(),
        };
        values.push(value);
    }
    Ok(values)
}

/// Entries of a layer's output, by the layer's position in the network, whose gradient is taken on
/// the other side of the kink.
pub type Crossings = std::collections::BTreeMap<usize, Vec<usize>>;

/// Loss and gradients of a batch.
///
/// # Errors
/// [`crate::Error::Input`] if a slice does not fit the network, or for a
/// label that is not a class.
pub fn run(
    network: &Network,
    parameters: &[f64],
    images: &[f64],
    labels: &[u32],
    mode: DropoutMode,
) -> Result<TwinRun> {
    run_across(network, parameters, images, labels, mode, &Crossings::new())
}

/// The same, where the TLUs and ReLUs listed in `crossings` pass the gradient on if they would not,
/// and the other way round.
///
/// Rounding may move a value that lies next to a kink to its other side, where the gradient is
/// another one; with the list of these values it can be compared all the same.
///
/// # Errors
/// As [`run`].
pub fn run_across(
    network: &Network,
    parameters: &[f64],
    images: &[f64],
    labels: &[u32],
    mode: DropoutMode,
    crossings: &Crossings,
) -> Result<TwinRun> {
    check_length(
        "images",
        images.len(),
        labels.len() * network.input_shape().len(),
    )?;
    check_labels(labels, network.classes())?;
    let values = forward(network, parameters, images, mode)?;
    let logits = &values[network.layers.len()];
    let (loss, grad) = cross_entropy(logits, network.classes(), labels);
    let (gradient, input_gradient) = pull_back(network, parameters, &values, grad, mode, crossings);
    Ok(TwinRun {
        values,
        loss,
        gradient,
        input_gradient,
    })
}

/// Gradients of the logits of one image, `[classes, parameters]`.
///
/// # Errors
/// As [`forward`].
pub fn jacobian(
    network: &Network,
    parameters: &[f64],
    image: &[f64],
    mode: DropoutMode,
) -> Result<Vec<f64>> {
    check_length("images", image.len(), network.input_shape().len())?;
    let values = forward(network, parameters, image, mode)?;
    let mut rows = Vec::with_capacity(network.classes() * parameters.len());
    for class in 0..network.classes() {
        let mut top = vec![0.0; network.classes()];
        top[class] = 1.0;
        let none = Crossings::new();
        rows.extend(pull_back(network, parameters, &values, top, mode, &none).0);
    }
    Ok(rows)
}

/// Gradients at the parameters and at the input, from those at the logits.
///
/// Long because it is one `match` with an arm per kind of layer.
fn pull_back(
    network: &Network,
    parameters: &[f64],
    values: &[Vec<f64>],
    grad: Vec<f64>,
    mode: DropoutMode,
    crossings: &Crossings,
) -> (Vec<f64>, Vec<f64>) {
    let batch = grad.len() / network.classes();
    let part = |index: usize| &parameters[network.parameters[index].range()];
    let mut grads: Vec<Vec<f64>> = values.iter().map(|v| vec![0.0; v.len()]).collect();
    grads[network.layers.len()] = grad;
    let mut gradient = vec![0.0; parameters.len()];
    let mut add_part = |index: usize, values: &[f64]| {
        let range = network.parameters[index].range();
        gradient[range]
            .iter_mut()
            .zip(values)
            .for_each(|(a, b)| *a += b);
    };
    for (i, layer) in network.layers.iter().enumerate().rev() {
        let input = network.shapes[layer.inputs[0].0];
        let output = network.shapes[i + 1];
        let x = &values[layer.inputs[0].0];
        let grad = std::mem::take(&mut grads[i + 1]);
        let crossed = crossings.get(&i).map_or(&[][..], Vec::as_slice);
        let back = match layer.kind {
            LayerKind::Conv2d { conv, weight, bias } => {
                let (dx, dw, db) = conv2d_backward(&conv, x, part(weight), &grad);
                add_part(weight, &dw);
                if let Some(bias) = bias {
                    add_part(bias, &db);
                }
                dx
            }
            LayerKind::FrnTlu { gamma, beta, tau } => {
                let parts = (part(gamma), part(beta), part(tau));
                let [dx, dgamma, dbeta, dtau] =
                    frn_tlu_backward_across(x, input, parts, &grad, crossed);
                add_part(gamma, &dgamma);
                add_part(beta, &dbeta);
                add_part(tau, &dtau);
                dx
            }
            LayerKind::Linear { weight, bias } => {
                let (dx, dw, db) = linear_backward(x, input.len(), part(weight), &grad);
                add_part(weight, &dw);
                if let Some(bias) = bias {
                    add_part(bias, &db);
                }
                dx
            }
            LayerKind::Relu => {
                let mut back = relu_backward(x, &grad);
                for &at in crossed {
                    back[at] = grad[at] - back[at];
                }
                back
            }
            LayerKind::MaxPool(pool) => max_pool_backward(&pool, x, &grad),
            LayerKind::AvgPool(pool) => avg_pool_backward(&pool, &grad),
            LayerKind::Dropout { rate, always_on } => match mode.seed(always_on) {
                None => grad,
                Some(seed) => {
                    let factors = dropout_factors(seed, i, rate, batch, input.len());
                    grad.iter().zip(factors).map(|(g, f)| g * f).collect()
                }
            },
            LayerKind::Add => {
                let other = &mut grads[layer.inputs[1].0];
                other.iter_mut().zip(&grad).for_each(|(a, b)| *a += b);
                grad
            }
            LayerKind::Concat => {
                let mut start = 0;
                for part in &layer.inputs {
                    let size = network.shapes[part.0].len();
                    let target = &mut grads[part.0];
                    for n in 0..batch {
                        let from = &grad[n * output.len() + start..][..size];
                        let to = &mut target[n * size..(n + 1) * size];
                        to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
                    }
                    start += size;
                }
                continue;
            }
            LayerKind::Flatten => grad,
        };
        let target = &mut grads[layer.inputs[0].0];
        target.iter_mut().zip(&back).for_each(|(a, b)| *a += b);
    }
    let input_gradient = std::mem::take(&mut grads[0]);
    (gradient, input_gradient)
}
