//! The CBOpt rules and IVON as optimizers for any Burn module, on any Burn backend.
//!
//! A config is used as Burn's own: `UpperCboConfig::new().init()` stands where `AdamWConfig::new().init()` stood, with
//! gradient clipping, parameter groups, records and learning-rate schedulers of Burn as they are:
//!
//! ```
//! use burn::nn::LinearConfig;
//! use burn::optim::GradientsParams;
//! use burn::tensor::{Device, Tensor};
//! use cbopt_burn::UpperCboConfig;
//!
//! let device = Device::default().autodiff();
//! let mut model = LinearConfig::new(3, 2).init(&device);
//! let mut optimizer = UpperCboConfig::new().with_weight_decay(2e-4).with_vartheta(5e-5).init();
//! let loss = model.forward(Tensor::<2>::ones([4, 3], &device)).square().mean();
//! let grads = GradientsParams::from_grads(loss.backward(), &model);
//! model = optimizer.step(0.1, model, grads);
//! # let _ = model;
//! ```
//!
//! The formulas, ranges and defaults are those of the crate `cbopt`, which also checks the ranges; here they are written with
//! tensor operations, so that the state lives where the parameters live. IVON samples its weights, so it comes with
//! [`IvonOptimizer::sample`], which gives the perturbed copy of a module for the forward pass.
#![forbid(unsafe_code)]

mod adaptive;
mod ivon;
mod record;
mod upper;

pub use adaptive::{
    AdaptiveState, LowerAdaptCbo, LowerAdaptCboConfig, UpperAdaptCbo, UpperAdaptCboConfig,
};
pub use ivon::{HessianEstimate, IvonConfig, IvonOptimizer};
pub use upper::{EpsPolicy, UpperCbo, UpperCboConfig, UpperState};

use burn::tensor::Tensor;

/// Exponential average `β·old + (1-β)·new`, as a small correction of the nearer end; the weight is formed in `f64`.
pub(crate) fn average<const D: usize>(rate: f64, old: Tensor<D>, new: Tensor<D>) -> Tensor<D> {
    if rate >= 0.5 {
        old.clone() + (new - old).mul_scalar(1.0 - rate)
    } else {
        new.clone() + (old - new).mul_scalar(rate)
    }
}

/// What is common to the three rules once the curvature gap is known: `θ - ρ clip((m̄ + δθ)/denominator)`.
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
