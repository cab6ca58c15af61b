//! Per image the Gram matrix `C = JΛ⁻¹Jᵀ` of the logits' weight gradients: what a normal
//! possibility function of the weights with precisions `Λ` becomes at the logits, linearized.
//!
//! One forward pass and a backward pass for each class. No gradient of a weight is kept: a dense
//! layer gives `Σ_o δ_ko δ_lo (Σ_i a_i²/Λ_oi + 1/Λ_o)`, a convolution the inner products of one
//! weight's gradients after another. γ, β and τ of FRN and TLU are weights like all others.

use images::check_length;

use crate::device::Device;
use crate::error::{Result, check_range};
use crate::network::Network;

/// Most classes side by side. A thread keeps the gradients of all values for each of them.
pub const GRAM_CLASSES: usize = 1000;

/// Precisions `Λ` of the weights.
#[derive(Debug, Clone, Copy)]
pub enum Precisions<'a> {
    /// The same for all of them.
    Common(f64),
    /// One for each; infinite for weights that cannot move.
    Each(&'a [f32]),
}

/// Which Gram matrices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GramConfig {
    /// The most probable classes of each image, at most [`GRAM_CLASSES`]; no more than there are.
    /// Default 16.
    pub classes: usize,
    /// Only the weights of the last layer.
    pub last_layer: bool,
    /// Where; a GPU computes them in `f32`. Default: one thread of the processor.
    pub device: Device,
}

impl Default for GramConfig {
    fn default() -> Self {
        Self {
            classes: 16,
            last_layer: false,
            device: Device::cpu().threads(1),
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
    check_range("classes", config.classes, GRAM_CLASSES, "1..=1000")?;
    let size = network.input_shape().len();
    let count = images.len() / size;
    check_length("images", images.len(), count * size)?;
    let inverse = inverse(precisions, parameters.len())?;
    let (all, m) = (network.classes(), config.classes.min(network.classes()));
    let mut found = Grams {
        logits: vec![0.0; count * all],
        classes: vec![0; count * m],
        matrices: vec![0.0; count * m * m],
    };
    let request = Request {
        parameters,
        inverse: &inverse,
        seed,
        images,
        classes: m,
        last_layer: config.last_layer,
    };
    let mut answers = Answers {
        logits: &mut found.logits,
        classes: &mut found.classes,
        matrices: &mut found.matrices,
    };
    config.device.gram(network, &request, &mut answers)?;
    Ok(found)
}

/// What is asked for, and `1/Λ`, one for each weight or one for all.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub parameters: &'a [f32],
    pub inverse: &'a [f32],
    pub seed: u64,
    pub images: &'a [f32],
    /// Most probable classes of each image.
    pub classes: usize,
    pub last_layer: bool,
}

impl Request<'_> {
    /// `1/Λ` of a parameter.
    pub fn inverse(&self, position: usize) -> f32 {
        self.inverse[if self.inverse.len() == 1 { 0 } else { position }]
    }
}

/// Where the answers go: all logits, the classes in increasing order, and the matrices.
pub(crate) struct Answers<'a> {
    pub logits: &'a mut [f32],
    pub classes: &'a mut [u32],
    pub matrices: &'a mut [f64],
}

/// Writes as many of the most probable classes as there is room for, in increasing order.
pub(crate) fn most_probable(logits: &[f32], classes: &mut [u32]) {
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
    classes.copy_from_slice(&order[..classes.len()]);
    classes.sort_unstable();
}

/// `1/Λ`, checked.
fn inverse(precisions: Precisions<'_>, parameters: usize) -> Result<Vec<f32>> {
    let one = |value: f64| -> Result<f32> {
        images::check("precision", value, "(0, inf]", value > 0.0)?;
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
