//! Per image the Gram matrix `C = JΛ⁻¹Jᵀ` of the logits' weight gradients: what a normal
//! possibility function of the weights with precisions `Λ` becomes at the logits, linearized.
//!
//! One forward pass and one backward pass for up to sixteen classes side by side, a class per lane.
//! No gradient is kept: a dense layer gives `Σ_o δ_ko δ_lo (Σ_i a_i²/Λ_oi + 1/Λ_o)`, and a
//! convolution either the inner products of one weight's gradients after another, or, where `Λ` is
//! one number and it is cheaper, those of its patches, `Σ_pq (patch_p·patch_q + 1)(δ_kp·δ_lq)/Λ`.
//! γ, β and τ of FRN and TLU are weights like all others. Values lie `[pixel, channel]` here.

use std::num::NonZero;
use std::ops::Range;

use images::check_length;
use machine::Isa;

use crate::cpu::FRN_EPSILON;
use crate::dropout::{DropoutMode, dropout_bits, dropout_key, dropout_threshold};
use crate::error::{Result, check_range};
use crate::network::{Conv, LayerKind, Network, Pool, Shape};

/// Classes side by side.
pub const GRAM_CLASSES: usize = 16;

/// One number per class.
type Lanes = [f32; GRAM_CLASSES];
/// Inner products of lanes.
type Square = [Lanes; GRAM_CLASSES];

/// Precisions `Λ` of the weights.
#[derive(Debug, Clone, Copy)]
pub enum Precisions<'a> {
    /// The same for all of them.
    Common(f64),
    /// One for each.
    Each(&'a [f32]),
}

/// Which Gram matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GramConfig {
    /// The most probable classes of each image, at most [`GRAM_CLASSES`]; no more than there are.
    pub classes: usize,
    /// Only the weights of the last layer.
    pub last_layer: bool,
    /// Threads; images are shared between them.
    pub threads: NonZero<usize>,
}

impl Default for GramConfig {
    fn default() -> Self {
        Self {
            classes: GRAM_CLASSES,
            last_layer: false,
            threads: NonZero::<usize>::MIN,
        }
    }
}

/// Gram matrices of some images.
#[derive(Debug, Clone, PartialEq)]
pub struct Grams {
    /// All logits, `[n, classes]`.
    pub logits: Vec<f32>,
    /// The classes that the matrices are about, `[n, m]`, in increasing order.
    pub classes: Vec<u32>,
    /// `C`, `[n, m, m]`, exactly symmetric.
    pub matrices: Vec<f64>,
}

/// A layer's weights in the order in which they are needed.
struct Prepared {
    /// `[tap, in, out]` of a convolution, `[in, out]` of a dense layer.
    forward: Vec<f32>,
    /// `[tap, out, in]`, `[out, in]`.
    backward: Vec<f32>,
}

/// All that one image needs.
struct Pass<'a> {
    network: &'a Network,
    parameters: &'a [f32],
    prepared: Vec<Option<Prepared>>,
    /// `1/Λ`, one for each weight or one for all.
    inverse: Vec<f32>,
    isa: Isa,
    seed: u64,
    classes: usize,
    last_layer: bool,
}

/// `C` for every image `[channels, height, width]` of `images`; `seed` chooses the masks of dropout
/// that stays on.
///
/// ```
/// use engine::{GramConfig, Precisions, gram_matrices, zoo};
/// let net = zoo::lenet(10)?;
/// let weights = net.initial_parameters(1);
/// let (precision, config) = (Precisions::Common(2.0), GramConfig::default());
/// let found = gram_matrices(&net, &weights, precision, 0, &[0.5; 784], &config)?;
/// assert_eq!((found.classes.len(), found.matrices.len()), (10, 100));
/// assert!(found.matrices[0] > 0.0 && found.matrices[1] == found.matrices[10]);
/// # Ok::<(), engine::Error>(())
/// ```
///
/// # Errors
/// [`Error::Input`](crate::Error::Input) for parameters, precisions or images that do not fit the
/// network, precisions that are not positive, or a number of classes outside its range.
pub fn gram_matrices(
    network: &Network,
    parameters: &[f32],
    precisions: Precisions<'_>,
    seed: u64,
    images: &[f32],
    config: &GramConfig,
) -> Result<Grams> {
    check_length("parameters", parameters.len(), network.parameter_count())?;
    check_range("classes", config.classes, GRAM_CLASSES, "1..=16")?;
    let size = network.input_shape().len();
    let count = images.len() / size;
    check_length("images", images.len(), count * size)?;
    let pass = Pass {
        network,
        parameters,
        prepared: network
            .layers
            .iter()
            .map(|layer| prepare(network, &layer.kind, parameters))
            .collect(),
        inverse: inverse(precisions, parameters.len())?,
        isa: Isa::detect(),
        seed,
        classes: config.classes.min(network.classes()),
        last_layer: config.last_layer,
    };
    let (all, m) = (network.classes(), pass.classes);
    let mut found = Grams {
        logits: vec![0.0; count * all],
        classes: vec![0; count * m],
        matrices: vec![0.0; count * m * m],
    };
    let share = count.div_ceil(config.threads.get()).max(1);
    std::thread::scope(|scope| {
        let parts = images
            .chunks(share * size)
            .zip(found.logits.chunks_mut(share * all))
            .zip(found.classes.chunks_mut(share * m))
            .zip(found.matrices.chunks_mut(share * m * m));
        for (part, (((images, logits), classes), matrices)) in parts.enumerate() {
            let pass = &pass;
            scope.spawn(move || {
                for (i, image) in images.chunks_exact(size).enumerate() {
                    pass.image(
                        part * share + i,
                        image,
                        &mut logits[i * all..(i + 1) * all],
                        &mut classes[i * m..(i + 1) * m],
                        &mut matrices[i * m * m..(i + 1) * m * m],
                    );
                }
            });
        }
    });
    Ok(found)
}

/// `1/Λ`, checked.
fn inverse(precisions: Precisions<'_>, parameters: usize) -> Result<Vec<f32>> {
    let one = |value: f64| -> Result<f32> {
        images::check(
            "precision",
            value,
            "(0, inf)",
            value > 0.0 && value.is_finite(),
        )?;
        Ok((1.0 / value) as f32)
    };
    match precisions {
        Precisions::Common(value) => Ok(vec![one(value)?]),
        Precisions::Each(values) => {
            check_length("precisions", values.len(), parameters)?;
            values.iter().map(|&value| one(f64::from(value))).collect()
        }
    }
}

fn prepare(network: &Network, kind: &LayerKind, parameters: &[f32]) -> Option<Prepared> {
    let (index, taps) = match *kind {
        LayerKind::Conv2d { conv, weight, .. } => (weight, conv.kernel * conv.kernel),
        LayerKind::Linear { weight, .. } => (weight, 1),
        _ => return None,
    };
    let part = &network.parameters[index];
    let (outputs, inputs) = (part.shape[0], part.shape[1]);
    let values = &parameters[part.range()];
    let mut forward = vec![0.0; values.len()];
    let mut backward = vec![0.0; values.len()];
    for (at, &value) in values.iter().enumerate() {
        let (tap, c, o) = (at % taps, at / taps % inputs, at / taps / inputs);
        forward[(tap * inputs + c) * outputs + o] = value;
        backward[(tap * outputs + o) * inputs + c] = value;
    }
    Some(Prepared { forward, backward })
}

/// Rows (or columns) of the output that see the input through the tap `k`.
fn seen(k: usize, stride: usize, padding: usize, input: usize, output: usize) -> Range<usize> {
    let first = padding.saturating_sub(k).div_ceil(stride);
    let last = (input + padding)
        .saturating_sub(k)
        .div_ceil(stride)
        .min(output);
    first..last.max(first)
}

/// Calls `each(tap, output pixel, input pixel)` for every pair that a convolution joins, tap by
/// tap.
#[inline(always)]
fn joined(conv: &Conv, tap: usize, mut each: impl FnMut(usize, usize)) {
    let (ky, kx) = (tap / conv.kernel, tap % conv.kernel);
    let (input, output, stride) = (conv.input, conv.output, conv.stride);
    let rows = seen(ky, stride, conv.padding.top, input.height, output.height);
    let columns = seen(kx, stride, conv.padding.left, input.width, output.width);
    for y in rows {
        let from = (y * stride + ky - conv.padding.top) * input.width;
        for x in columns.clone() {
            each(
                y * output.width + x,
                from + x * stride + kx - conv.padding.left,
            );
        }
    }
}

#[inline(always)]
fn add_scaled(to: &mut Lanes, scale: f32, from: &Lanes) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += scale * from;
    }
}

/// `G += a ⊗ b`.
#[inline(always)]
fn add_outer(gram: &mut Square, a: &Lanes, b: &Lanes) {
    for (row, a) in gram.iter_mut().zip(a) {
        add_scaled(row, *a, b);
    }
}

machine::dispatch! {
    /// `out[q, o] += Σ_{tap, c} w[tap, c, o] x[p, c]`.
    fn conv_forward(isa: Isa, conv: &Conv, weight: &[f32], x: &[f32], out: &mut [f32]) {
        let (inputs, outputs) = (conv.input.channels, conv.output.channels);
        for tap in 0..conv.kernel * conv.kernel {
            let weight = &weight[tap * inputs * outputs..(tap + 1) * inputs * outputs];
            joined(conv, tap, |q, p| {
                let to = &mut out[q * outputs..(q + 1) * outputs];
                for (x, row) in x[p * inputs..(p + 1) * inputs].iter().zip(weight.chunks_exact(outputs)) {
                    for (to, w) in to.iter_mut().zip(row) {
                        *to += x * w;
                    }
                }
            });
        }
    }
}

machine::dispatch! {
    /// `dx[p, c] += Σ_{tap, o} w[tap, o, c] δ[q, o]`.
    fn conv_backward(isa: Isa, conv: &Conv, weight: &[f32], delta: &[Lanes], dx: &mut [Lanes]) {
        let (inputs, outputs) = (conv.input.channels, conv.output.channels);
        for tap in 0..conv.kernel * conv.kernel {
            let weight = &weight[tap * inputs * outputs..(tap + 1) * inputs * outputs];
            joined(conv, tap, |q, p| {
                let delta = &delta[q * outputs..(q + 1) * outputs];
                let to = &mut dx[p * inputs..(p + 1) * inputs];
                let mut blocks = to.chunks_exact_mut(4);
                let mut c = 0;
                for block in &mut blocks {
                    let mut sums: [Lanes; 4] = [block[0], block[1], block[2], block[3]];
                    for (delta, row) in delta.iter().zip(weight.chunks_exact(inputs)) {
                        let row = &row[c..c + 4];
                        for (sum, w) in sums.iter_mut().zip(row) {
                            add_scaled(sum, *w, delta);
                        }
                    }
                    block.copy_from_slice(&sums);
                    c += 4;
                }
                for to in blocks.into_remainder() {
                    for (delta, row) in delta.iter().zip(weight.chunks_exact(inputs)) {
                        add_scaled(to, row[c], delta);
                    }
                    c += 1;
                }
            });
        }
    }
}

/// Gradients of `O × I` weights of one tap, from the output channel `o` and the input channel `c`
/// on.
#[inline(always)]
fn correlate<const O: usize, const I: usize>(
    conv: &Conv,
    tap: usize,
    (o, c): (usize, usize),
    x: &[f32],
    delta: &[Lanes],
) -> [[Lanes; I]; O] {
    let (inputs, outputs) = (conv.input.channels, conv.output.channels);
    let mut sums = [[[0.0; GRAM_CLASSES]; I]; O];
    joined(conv, tap, |q, p| {
        let delta = &delta[q * outputs + o..q * outputs + o + O];
        let x = &x[p * inputs + c..p * inputs + c + I];
        for (sums, delta) in sums.iter_mut().zip(delta) {
            for (sum, x) in sums.iter_mut().zip(x) {
                add_scaled(sum, *x, delta);
            }
        }
    });
    sums
}

machine::dispatch! {
    /// Adds the inner products of the weights' gradients, one weight after another. `inverse` has
    /// the order of the parameters, `[out, in, tap]`, or one entry.
    fn gram_by_weights(isa: Isa, conv: &Conv, inverse: &[f32], x: &[f32], delta: &[Lanes], gram: &mut Square) {
        let (inputs, outputs) = (conv.input.channels, conv.output.channels);
        let taps = conv.kernel * conv.kernel;
        let mut take = |o: usize, c: usize, tap: usize, gradient: &Lanes| {
            let at = if inverse.len() == 1 { 0 } else { (o * inputs + c) * taps + tap };
            let scaled = gradient.map(|g| g * inverse[at]);
            add_outer(gram, &scaled, gradient);
        };
        for tap in 0..taps {
            let mut o = 0;
            while o < outputs {
                let mut c = 0;
                while c < inputs {
                    if o + 4 <= outputs && c + 2 <= inputs {
                        let sums = correlate::<4, 2>(conv, tap, (o, c), x, delta);
                        for (i, row) in sums.iter().enumerate() {
                            take(o + i, c, tap, &row[0]);
                            take(o + i, c + 1, tap, &row[1]);
                        }
                        c += 2;
                    } else {
                        for i in o..outputs.min(o + 4) {
                            let [[sum]] = correlate::<1, 1>(conv, tap, (i, c), x, delta);
                            take(i, c, tap, &sum);
                        }
                        c += 1;
                    }
                }
                o += 4;
            }
        }
    }
}

machine::dispatch! {
    /// Adds the same by inner products of patches, for one precision: `rows` are patches with a 1
    /// for the bias.
    fn gram_by_patches(isa: Isa, rows: &[f32], length: usize, inverse: f32, delta: &[Lanes], gram: &mut Square) {
        let pixels = rows.len() / length;
        let outputs = delta.len() / pixels;
        let mut pulled: Vec<Lanes> = vec![[0.0; GRAM_CLASSES]; outputs];
        for (p, own) in rows.chunks_exact(length).enumerate() {
            pulled.fill([0.0; GRAM_CLASSES]);
            for (q, other) in rows.chunks_exact(length).enumerate() {
                let mut sums = [0.0f32; GRAM_CLASSES];
                let (own_parts, own_rest) = own.as_chunks::<GRAM_CLASSES>();
                let (other_parts, other_rest) = other.as_chunks::<GRAM_CLASSES>();
                for (a, b) in own_parts.iter().zip(other_parts) {
                    for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                        *sum += a * b;
                    }
                }
                let rest: f32 = own_rest.iter().zip(other_rest).map(|(a, b)| a * b).sum();
                let product = inverse * (sums.iter().sum::<f32>() + rest);
                for (to, from) in pulled.iter_mut().zip(&delta[q * outputs..(q + 1) * outputs]) {
                    add_scaled(to, product, from);
                }
            }
            for (from, to) in delta[p * outputs..(p + 1) * outputs].iter().zip(&pulled) {
                add_outer(gram, from, to);
            }
        }
    }
}

impl Pass<'_> {
    fn part(&self, index: usize) -> &[f32] {
        &self.parameters[self.network.parameters[index].range()]
    }

    /// `1/Λ` of a parameter, or of all.
    fn inverse(&self, index: usize) -> &[f32] {
        match self.inverse.len() {
            1 => &self.inverse,
            _ => &self.inverse[self.network.parameters[index].range()],
        }
    }

    /// Logits, classes and matrix of one image.
    fn image(
        &self,
        number: usize,
        image: &[f32],
        logits: &mut [f32],
        classes: &mut [u32],
        matrix: &mut [f64],
    ) {
        let values = self.forward(number, image);
        logits.copy_from_slice(&values[self.network.layers.len()]);
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
        classes.copy_from_slice(&order[..classes.len()]);
        classes.sort_unstable();
        let gram = self.backward(number, &values, classes);
        let m = classes.len();
        for k in 0..m {
            for l in 0..m {
                // both triangles are the same sum in another order
                matrix[k * m + l] = 0.5 * (gram[k][l] + gram[l][k]);
            }
        }
    }

    /// Every value of the network, `[pixel, channel]`.
    fn forward(&self, number: usize, image: &[f32]) -> Vec<Vec<f32>> {
        let network = self.network;
        let mut values = vec![pixels_first(image, network.shapes[0])];
        for (i, layer) in network.layers.iter().enumerate() {
            let input = network.shapes[layer.inputs[0].0];
            let output = network.shapes[i + 1];
            let x = &values[layer.inputs[0].0];
            let value = match layer.kind {
                LayerKind::Conv2d { bias, .. } | LayerKind::Linear { bias, .. } => {
                    let mut out = match bias {
                        Some(bias) => self.part(bias).repeat(output.plane()),
                        None => vec![0.0; output.len()],
                    };
                    let conv = as_conv(&layer.kind, input, output);
                    let prepared = self.prepared[i].as_ref().expect("it has weights");
                    conv_forward(self.isa, &conv, &prepared.forward, x, &mut out);
                    out
                }
                LayerKind::FrnTlu { gamma, beta, tau } => {
                    let channels = input.channels;
                    let scale = frn_scale(x, channels);
                    let (gamma, beta, tau) = (self.part(gamma), self.part(beta), self.part(tau));
                    let one = |(at, v): (usize, &f32)| {
                        let c = at % channels;
                        larger(gamma[c] * (v * scale[c]) + beta[c], tau[c])
                    };
                    x.iter().enumerate().map(one).collect()
                }
                LayerKind::Relu => x.iter().map(|&v| larger(v, 0.0)).collect(),
                LayerKind::MaxPool(pool) => {
                    let mut out = vec![0.0; output.len()];
                    windows(&pool, |to, window| out[to] = x[first_maximum(x, window)]);
                    out
                }
                LayerKind::AvgPool(pool) => {
                    let mut out = vec![0.0; output.len()];
                    windows(&pool, |to, window| {
                        let sum: f32 = window.iter().map(|&from| x[from]).sum();
                        out[to] = sum / window.len() as f32;
                    });
                    out
                }
                LayerKind::Dropout { rate, always_on } => {
                    let factor = self.dropout(number, i, rate, always_on, input);
                    x.iter().enumerate().map(|(at, v)| v * factor(at)).collect()
                }
                LayerKind::Add => {
                    let y = &values[layer.inputs[1].0];
                    x.iter().zip(y).map(|(a, b)| a + b).collect()
                }
                LayerKind::Concat => {
                    let mut out = Vec::with_capacity(output.len());
                    for pixel in 0..output.plane() {
                        for part in &layer.inputs {
                            let channels = network.shapes[part.0].channels;
                            out.extend(&values[part.0][pixel * channels..(pixel + 1) * channels]);
                        }
                    }
                    out
                }
                LayerKind::Flatten => channels_first(x, input),
            };
            values.push(value);
        }
        values
    }

    /// Factor of an entry `[pixel, channel]` of a dropout layer.
    fn dropout(
        &self,
        image: usize,
        layer: usize,
        rate: f64,
        always_on: bool,
        shape: Shape,
    ) -> impl Fn(usize) -> f32 + use<> {
        let key = DropoutMode::Predict(self.seed)
            .seed(always_on)
            .map(|seed| dropout_key(seed, layer, image));
        let threshold = dropout_threshold(rate);
        let kept = (1.0 / (1.0 - rate)) as f32;
        move |at| match key {
            None => 1.0,
            Some(key) => {
                let element = at % shape.channels * shape.plane() + at / shape.channels;
                let dropped = dropout_bits(key, element as u32) < threshold;
                if dropped { 0.0 } else { kept }
            }
        }
    }

    /// `JΛ⁻¹Jᵀ` for these classes, from the values of the forward pass.
    ///
    /// Long because it is one `match` with an arm per kind of layer.
    fn backward(
        &self,
        number: usize,
        values: &[Vec<f32>],
        classes: &[u32],
    ) -> [[f64; GRAM_CLASSES]; GRAM_CLASSES] {
        let network = self.network;
        let mut total = [[0.0f64; GRAM_CLASSES]; GRAM_CLASSES];
        let mut grads: Vec<Vec<Lanes>> = vec![Vec::new(); values.len()];
        let mut top = vec![[0.0; GRAM_CLASSES]; network.classes()];
        for (lane, &class) in classes.iter().enumerate() {
            top[class as usize][lane] = 1.0;
        }
        grads[network.layers.len()] = top;
        for (i, layer) in network.layers.iter().enumerate().rev() {
            let delta = std::mem::take(&mut grads[i + 1]);
            if delta.is_empty() {
                continue;
            }
            let from = layer.inputs[0].0;
            let x = &values[from];
            let mut gram: Square = [[0.0; GRAM_CLASSES]; GRAM_CLASSES];
            self.layer_gram(i, x, &delta, &mut gram);
            for (total, gram) in total.iter_mut().flatten().zip(gram.iter().flatten()) {
                *total += f64::from(*gram);
            }
            let weighted = !layer.kind.parameters().is_empty();
            if self.last_layer && weighted {
                break;
            }
            match layer.kind {
                LayerKind::Concat => {
                    let all = network.shapes[i + 1].channels;
                    let mut start = 0;
                    for part in &layer.inputs {
                        let channels = network.shapes[part.0].channels;
                        let share = delta
                            .chunks_exact(all)
                            .flat_map(|pixel| &pixel[start..start + channels]);
                        add_to(&mut grads[part.0], share.copied().collect());
                        start += channels;
                    }
                }
                LayerKind::Add => {
                    add_to(&mut grads[layer.inputs[1].0], delta.clone());
                    add_to(&mut grads[from], delta);
                }
                // nothing below the image has weights
                _ if from == 0 => {}
                _ => {
                    let back = self.pull_back(number, i, x, delta);
                    add_to(&mut grads[from], back);
                }
            }
        }
        total
    }

    /// The layer's own share of the matrix.
    fn layer_gram(&self, i: usize, x: &[f32], delta: &[Lanes], gram: &mut Square) {
        let network = self.network;
        let layer = &network.layers[i];
        let (input, output) = (network.shapes[layer.inputs[0].0], network.shapes[i + 1]);
        match layer.kind {
            LayerKind::Linear { weight, bias } => {
                let inverse = self.inverse(weight);
                for (o, delta) in delta.iter().enumerate() {
                    let mut size: f32 = if inverse.len() == 1 {
                        inverse[0] * x.iter().map(|v| v * v).sum::<f32>()
                    } else {
                        let row = &inverse[o * x.len()..(o + 1) * x.len()];
                        x.iter().zip(row).map(|(v, inverse)| v * v * inverse).sum()
                    };
                    if let Some(bias) = bias {
                        size += at(self.inverse(bias), o);
                    }
                    add_outer(gram, &delta.map(|d| d * size), delta);
                }
            }
            LayerKind::Conv2d { conv, weight, bias } => {
                let length = conv.input.channels * conv.kernel * conv.kernel;
                let (pixels, outputs) = (output.plane(), output.channels);
                let by_weights = length * outputs * (pixels + GRAM_CLASSES);
                let by_patches = pixels * pixels * (length / GRAM_CLASSES + outputs)
                    + pixels * outputs * GRAM_CLASSES;
                if self.inverse.len() == 1 && by_patches < by_weights {
                    let (rows, length) = patches(&conv, x, bias.is_some());
                    gram_by_patches(self.isa, &rows, length, self.inverse[0], delta, gram);
                    return;
                }
                gram_by_weights(self.isa, &conv, self.inverse(weight), x, delta, gram);
                if let Some(bias) = bias {
                    for o in 0..outputs {
                        let mut sum = [0.0; GRAM_CLASSES];
                        delta
                            .iter()
                            .skip(o)
                            .step_by(outputs)
                            .for_each(|d| add_scaled(&mut sum, 1.0, d));
                        let inverse = at(self.inverse(bias), o);
                        add_outer(gram, &sum.map(|s| s * inverse), &sum);
                    }
                }
            }
            LayerKind::FrnTlu { gamma, beta, tau } => {
                let back = self.frn_back(i, x, input, delta);
                for c in 0..input.channels {
                    for (index, sums) in
                        [(gamma, &back.gamma), (beta, &back.beta), (tau, &back.tau)]
                    {
                        let inverse = at(self.inverse(index), c);
                        add_outer(gram, &sums[c].map(|s| s * inverse), &sums[c]);
                    }
                }
            }
            _ => {}
        }
    }

    /// Gradients of the input of a layer that has one.
    fn pull_back(&self, number: usize, i: usize, x: &[f32], mut delta: Vec<Lanes>) -> Vec<Lanes> {
        let network = self.network;
        let layer = &network.layers[i];
        let (input, output) = (network.shapes[layer.inputs[0].0], network.shapes[i + 1]);
        let mut dx = vec![[0.0; GRAM_CLASSES]; input.len()];
        match layer.kind {
            LayerKind::Conv2d { .. } | LayerKind::Linear { .. } => {
                let conv = as_conv(&layer.kind, input, output);
                let prepared = self.prepared[i].as_ref().expect("it has weights");
                conv_backward(self.isa, &conv, &prepared.backward, &delta, &mut dx);
                return dx;
            }
            LayerKind::FrnTlu { .. } => return self.frn_back(i, x, input, &delta).input,
            LayerKind::Relu => {
                for (delta, v) in delta.iter_mut().zip(x) {
                    if *v <= 0.0 {
                        *delta = [0.0; GRAM_CLASSES];
                    }
                }
            }
            LayerKind::MaxPool(pool) => {
                windows(&pool, |to, window| {
                    add_scaled(&mut dx[first_maximum(x, window)], 1.0, &delta[to]);
                });
                return dx;
            }
            LayerKind::AvgPool(pool) => {
                windows(&pool, |to, window| {
                    let share = 1.0 / window.len() as f32;
                    window
                        .iter()
                        .for_each(|&from| add_scaled(&mut dx[from], share, &delta[to]));
                });
                return dx;
            }
            LayerKind::Dropout { rate, always_on } => {
                let factor = self.dropout(number, i, rate, always_on, input);
                for (at, delta) in delta.iter_mut().enumerate() {
                    let factor = factor(at);
                    delta.iter_mut().for_each(|d| *d *= factor);
                }
            }
            LayerKind::Flatten => return pixels_first(&delta, input),
            LayerKind::Add | LayerKind::Concat => {}
        }
        delta
    }

    /// Gradients of FRN and TLU.
    fn frn_back(&self, i: usize, x: &[f32], shape: Shape, delta: &[Lanes]) -> FrnBack {
        let LayerKind::FrnTlu { gamma, beta, tau } = self.network.layers[i].kind else {
            unreachable!("asked of FRN only");
        };
        let (gamma, beta, tau) = (self.part(gamma), self.part(beta), self.part(tau));
        let channels = shape.channels;
        let scale = frn_scale(x, channels);
        let zeros = || vec![[0.0; GRAM_CLASSES]; channels];
        let mut back = FrnBack {
            input: delta.to_vec(),
            gamma: zeros(),
            beta: zeros(),
            tau: zeros(),
        };
        for (at, (delta, v)) in back.input.iter_mut().zip(x).enumerate() {
            let c = at % channels;
            let y = gamma[c] * (v * scale[c]) + beta[c];
            let share = if y > tau[c] {
                1.0
            } else if y < tau[c] {
                0.0
            } else {
                0.5
            };
            add_scaled(&mut back.tau[c], 1.0 - share, delta);
            delta.iter_mut().for_each(|d| *d *= share);
            add_scaled(&mut back.beta[c], 1.0, delta);
            add_scaled(&mut back.gamma[c], v * scale[c], delta);
        }
        let pixels = shape.plane() as f32;
        for (at, (delta, v)) in back.input.iter_mut().zip(x).enumerate() {
            let c = at % channels;
            add_scaled(delta, -(v * scale[c]) / pixels, &back.gamma[c]);
            let factor = gamma[c] * scale[c];
            delta.iter_mut().for_each(|d| *d *= factor);
        }
        back
    }
}

/// What FRN and TLU give back.
struct FrnBack {
    input: Vec<Lanes>,
    gamma: Vec<Lanes>,
    beta: Vec<Lanes>,
    tau: Vec<Lanes>,
}

/// `values[i]`, or the only one.
fn at(values: &[f32], i: usize) -> f32 {
    values[if values.len() == 1 { 0 } else { i }]
}

/// A dense layer is a convolution of one pixel.
fn as_conv(kind: &LayerKind, input: Shape, output: Shape) -> Conv {
    match kind {
        LayerKind::Conv2d { conv, .. } => *conv,
        _ => Conv {
            input: Shape::new(input.len(), 1, 1),
            output,
            kernel: 1,
            stride: 1,
            padding: crate::network::Padding::default(),
        },
    }
}

/// `1/√(mean x² + ε)` of every channel.
fn frn_scale(x: &[f32], channels: usize) -> Vec<f32> {
    let pixels = (x.len() / channels) as f32;
    let mut squares = vec![0.0f32; channels];
    for pixel in x.chunks_exact(channels) {
        squares
            .iter_mut()
            .zip(pixel)
            .for_each(|(sum, v)| *sum += v * v);
    }
    let scale = |sum: f32| 1.0 / (sum / pixels + FRN_EPSILON).sqrt();
    squares.into_iter().map(scale).collect()
}

/// The patches `[pixel, tap, in]` that a convolution sees, each followed by a 1 if there is a bias,
/// and the length of one.
fn patches(conv: &Conv, x: &[f32], bias: bool) -> (Vec<f32>, usize) {
    let inputs = conv.input.channels;
    let taps = conv.kernel * conv.kernel;
    let length = inputs * taps + usize::from(bias);
    let mut rows = vec![0.0; conv.output.plane() * length];
    if bias {
        rows.iter_mut()
            .skip(length - 1)
            .step_by(length)
            .for_each(|one| *one = 1.0);
    }
    for tap in 0..taps {
        joined(conv, tap, |q, p| {
            let start = q * length + tap * inputs;
            rows[start..start + inputs].copy_from_slice(&x[p * inputs..(p + 1) * inputs]);
        });
    }
    (rows, length)
}

fn add_to(to: &mut Vec<Lanes>, from: Vec<Lanes>) {
    if to.is_empty() {
        *to = from;
    } else {
        to.iter_mut()
            .zip(&from)
            .for_each(|(to, from)| add_scaled(to, 1.0, from));
    }
}

/// `[channel, pixel]` to `[pixel, channel]`.
fn pixels_first<T: Copy>(x: &[T], shape: Shape) -> Vec<T> {
    let (plane, channels) = (shape.plane(), shape.channels);
    (0..x.len())
        .map(|at| x[at % channels * plane + at / channels])
        .collect()
}

/// `[pixel, channel]` to `[channel, pixel]`.
fn channels_first<T: Copy>(x: &[T], shape: Shape) -> Vec<T> {
    let (plane, channels) = (shape.plane(), shape.channels);
    (0..x.len())
        .map(|at| x[at % plane * channels + at / plane])
        .collect()
}

/// The larger of two numbers, NaN if one of them is.
fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || a > b { a } else { b }
}

/// Calls `each(output entry, input entries of the window)`.
fn windows(pool: &Pool, mut each: impl FnMut(usize, &[usize])) {
    let channels = pool.input.channels;
    let mut window = Vec::with_capacity(pool.height * pool.width);
    for y in 0..pool.output.height {
        for x in 0..pool.output.width {
            for c in 0..channels {
                window.clear();
                for ky in 0..pool.height {
                    for kx in 0..pool.width {
                        let pixel =
                            (y * pool.stride + ky) * pool.input.width + x * pool.stride + kx;
                        window.push(pixel * channels + c);
                    }
                }
                each((y * pool.output.width + x) * channels + c, &window);
            }
        }
    }
}

/// Position of the first maximum, or of a NaN.
fn first_maximum(x: &[f32], window: &[usize]) -> usize {
    let better = |best: usize, &i: &usize| {
        if x[i] > x[best] || x[i].is_nan() {
            i
        } else {
            best
        }
    };
    window.iter().fold(window[0], better)
}
