//! The CBOpt rules and IVON as optimizers for any Burn module, on any Burn backend.
//!
//! The configs are those of the crate `cbopt`, with [`Init`] on top:
//! `UpperCboConfig::default().init()` stands where `AdamWConfig::new().init()` stood, with gradient
//! clipping, parameter groups, records and learning-rate schedulers of Burn as they are:
//!
//! ```
//! use burn::nn::LinearConfig;
//! use burn::optim::GradientsParams;
//! use burn::tensor::{Device, Tensor};
//! use cbopt_burn::{Init, UpperCboConfig};
//!
//! let device = Device::default().autodiff();
//! let mut model = LinearConfig::new(3, 2).init(&device);
//! let mut optimizer = UpperCboConfig { weight_decay: 2e-4, ..Default::default() }.init();
//! let loss = model.forward(Tensor::<2>::ones([4, 3], &device)).square().mean();
//! let grads = GradientsParams::from_grads(loss.backward(), &model);
//! model = optimizer.step(0.1, model, grads);
//! # let _ = model;
//! ```
//!
//! The formulas are those of `cbopt`, which also checks the ranges; here they are written with
//! tensor operations, so that the state lives where the parameters live. IVON samples its weights,
//! so it comes with [`IvonOptimizer::sample`], which gives the perturbed copy of a module for the
//! forward pass.
#![forbid(unsafe_code)]

mod cbo;
mod ivon;
mod record;

pub use cbo::{Cbo, CboState, TensorGap};
pub use cbopt::{
    EpsPolicy, HessianEstimate, IvonConfig, LowerAdaptCboConfig, UpperAdaptCboConfig,
    UpperCboConfig,
};
pub use ivon::IvonOptimizer;

use burn::tensor::Tensor;

/// Makes the optimizer of a whole module of a config.
pub trait Init {
    /// The optimizer.
    type Optimizer;

    /// The optimizer.
    ///
    /// # Errors
    /// As `build` of the config: a field is outside its range, or is not given.
    fn try_init(&self) -> cbopt::Result<Self::Optimizer>;

    /// The optimizer, as Burn's own configs give it.
    ///
    /// # Panics
    /// If a field is outside its range; [`Init::try_init`] says so instead.
    fn init(&self) -> Self::Optimizer {
        self.try_init().unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Exponential average `β·old + (1-β)·new`, as a small correction of the nearer end; the weight is
/// formed in `f64`.
pub(crate) fn average<const D: usize>(rate: f64, old: Tensor<D>, new: Tensor<D>) -> Tensor<D> {
    if rate >= 0.5 {
        old.clone() + (new - old).mul_scalar(1.0 - rate)
    } else {
        new.clone() + (old - new).mul_scalar(rate)
    }
}

/// What is common to the three rules once the curvature gap is known:
/// `θ - ρ clip((m̄ + δθ)/denominator)`.
pub(crate) struct Descent {
    pub correction: f64,
    pub weight_decay: f64,
    pub clip_radius: Option<f64>,
    pub lr: f64,
}

impl Descent {
    pub fn step<const D: usize>(
        &self,
        theta: Tensor<D>,
        momentum: Tensor<D>,
        denominator: Tensor<D>,
    ) -> Tensor<D> {
        let numerator = momentum.mul_scalar(1.0 / self.correction)
            + theta.clone().mul_scalar(self.weight_decay);
        let direction = numerator / denominator;
        let direction = match self.clip_radius {
            Some(radius) if radius.is_finite() => direction.clamp(-radius, radius),
            _ => direction,
        };
        theta - direction.mul_scalar(self.lr)
    }
}
