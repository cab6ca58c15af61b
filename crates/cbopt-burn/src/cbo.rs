//! `ucbopt`, `ucbopt-adapt` and `lcbopt-adapt`: see [`cbopt::cbo`] for the rules.

use burn::optim::{LearningRate, ModuleOptimizer, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};
use cbopt::cbo::fixed::Fixed;
use cbopt::cbo::lower::Lower;
use cbopt::cbo::upper::Upper;
use cbopt::cbo::{CboConfig, Gap};
use cbopt::{EpsPolicy, Result};

use crate::{Descent, Init, average, record};

/// A curvature gap in tensor operations.
pub trait TensorGap: Gap {
    /// The new envelope, if there is one, and the gap `H_s`; `curvature` is renewed already.
    fn gap<const D: usize>(
        config: &CboConfig<Self>,
        curvature: Tensor<D>,
        envelope: Option<Tensor<D>>,
    ) -> (Option<Tensor<D>>, Tensor<D>);
}

impl TensorGap for Fixed {
    fn gap<const D: usize>(
        config: &CboConfig<Self>,
        curvature: Tensor<D>,
        _envelope: Option<Tensor<D>>,
    ) -> (Option<Tensor<D>>, Tensor<D>) {
        // H_s = h + (δ - ϑ), the difference formed in f64
        let residual = config.weight_decay - config.gap.vartheta;
        (None, curvature.add_scalar(residual))
    }
}

impl TensorGap for Upper {
    fn gap<const D: usize>(
        config: &CboConfig<Self>,
        curvature: Tensor<D>,
        envelope: Option<Tensor<D>>,
    ) -> (Option<Tensor<D>>, Tensor<D>) {
        let total = curvature.add_scalar(config.weight_decay);
        // c ← min(β₃ c, h̃), c₀ = +∞
        let c = match envelope {
            Some(c) => c.mul_scalar(config.envelope.beta3).min_pair(total.clone()),
            None => total.clone(),
        };
        // h̃ - γ c = (h̃ - c) + (1-γ) c: nothing cancels
        let gap = (total - c.clone()) + c.clone().mul_scalar(1.0 - config.gap.gamma);
        (Some(c), gap)
    }
}

impl TensorGap for Lower {
    fn gap<const D: usize>(
        config: &CboConfig<Self>,
        curvature: Tensor<D>,
        envelope: Option<Tensor<D>>,
    ) -> (Option<Tensor<D>>, Tensor<D>) {
        let total = curvature.add_scalar(config.weight_decay);
        // c ← max(β₃ c, h̃), c₀ = h₀ + δ
        let c = envelope
            .unwrap_or_else(|| total.full_like(config.hess_init + config.weight_decay))
            .mul_scalar(config.envelope.beta3)
            .max_pair(total.clone());
        // γ c - h̃ = (c - h̃) + (γ-1) c: nothing cancels
        let gap = (c.clone() - total) + c.clone().mul_scalar(config.gap.gamma - 1.0);
        (Some(c), gap)
    }
}

/// A CBOpt rule as a Burn optimizer of one parameter; made of the rule of `cbopt`.
#[derive(Clone, Debug)]
pub struct Cbo<G: TensorGap> {
    rule: cbopt::Cbo<G>,
}

impl<G: TensorGap> From<cbopt::Cbo<G>> for Cbo<G> {
    fn from(rule: cbopt::Cbo<G>) -> Self {
        Self { rule }
    }
}

impl<G: TensorGap> Init for CboConfig<G> {
    type Optimizer = ModuleOptimizer;

    fn try_init(&self) -> Result<ModuleOptimizer> {
        Ok(Cbo::from(self.build()?).into())
    }
}

/// State of a CBOpt rule for one parameter of rank `D`.
#[derive(Clone, Debug)]
pub struct CboState<const D: usize> {
    /// First moment.
    pub momentum: Tensor<D>,
    /// Curvature.
    pub curvature: Tensor<D>,
    /// Candidate curvature envelope of the adaptive rules.
    pub envelope: Option<Tensor<D>>,
    /// Steps made.
    pub step: u64,
}

impl<const D: usize> RecordState for CboState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        let tensors = [
            ("momentum", Some(&self.momentum)),
            ("curvature", Some(&self.curvature)),
            ("envelope", self.envelope.as_ref()),
        ];
        record::flatten(&tensors, &[("step", self.step)], prefix, out);
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        Some(Self {
            momentum: record::tensor("momentum", prefix, src, device)?,
            curvature: record::tensor("curvature", prefix, src, device)?,
            envelope: record::tensor("envelope", prefix, src, device),
            step: record::number("step", prefix, src)?,
        })
    }
}

impl<G: TensorGap> Optimizer for Cbo<G> {
    type State<const D: usize> = CboState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let config = self.rule.config();
        let state = state.unwrap_or_else(|| CboState {
            momentum: grad.zeros_like(),
            curvature: grad.full_like(config.hess_init),
            envelope: None,
            step: 0,
        });
        let step = state.step + 1;
        // m ← β₁ m + (1-β₁) ĝ, h ← β₂ h + (1-β₂) ĝ²
        let momentum = average(config.beta1, state.momentum, grad.clone());
        let curvature = average(config.beta2, state.curvature, grad.square());
        let (envelope, gap) = G::gap(config, curvature.clone(), state.envelope);
        let denominator = match config.eps_policy {
            EpsPolicy::None => gap,
            EpsPolicy::Add => gap.add_scalar(config.eps),
            EpsPolicy::Clamp => gap.clamp_min(config.eps),
            EpsPolicy::AddThenClamp => gap.add_scalar(config.eps).clamp_min(config.eps),
        };
        let descent = Descent {
            correction: 1.0 - config.beta1.powf(step as f64),
            weight_decay: config.weight_decay,
            clip_radius: config.clip_radius,
            lr: config.effective_lr(lr),
        };
        let tensor = descent.step(tensor, momentum.clone(), denominator);
        let state = CboState {
            momentum,
            curvature,
            envelope,
            step,
        };
        (tensor, Some(state))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        CboState {
            momentum: state.momentum.to_device(device),
            curvature: state.curvature.to_device(device),
            envelope: state.envelope.map(|envelope| envelope.to_device(device)),
            step: state.step,
        }
    }
}
