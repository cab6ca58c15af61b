//! `ucbopt-adapt` and `lcbopt-adapt`: see [`cbopt::upper_adapt`] and [`cbopt::lower_adapt`] for the rules.

use burn::config::Config;
use burn::grad_clipping::GradientClippingConfig;
use burn::optim::{LearningRate, ModuleOptimizer, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};
use cbopt::Result as Checked;

use crate::upper::{EpsPolicy, clipped};
use crate::{Descent, average, record};

/// State of an adaptive rule for one parameter of rank `D`.
#[derive(Clone, Debug)]
pub struct AdaptiveState<const D: usize> {
    /// First moment.
    pub momentum: Tensor<D>,
    /// Curvature.
    pub curvature: Tensor<D>,
    /// Candidate curvature envelope.
    pub envelope: Tensor<D>,
    /// Steps made.
    pub step: u64,
}

impl<const D: usize> RecordState for AdaptiveState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        let tensors = [
            ("momentum", Some(&self.momentum)),
            ("curvature", Some(&self.curvature)),
            ("envelope", Some(&self.envelope)),
        ];
        record::flatten(&tensors, &[("step", self.step)], prefix, out);
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        Some(Self {
            momentum: record::tensor("momentum", prefix, src, device)?,
            curvature: record::tensor("curvature", prefix, src, device)?,
            envelope: record::tensor("envelope", prefix, src, device)?,
            step: record::number("step", prefix, src)?,
        })
    }
}

impl<const D: usize> AdaptiveState<D> {
    fn moved_to(self, device: &Device) -> Self {
        Self {
            momentum: self.momentum.to_device(device),
            curvature: self.curvature.to_device(device),
            envelope: self.envelope.to_device(device),
            step: self.step,
        }
    }
}

macro_rules! adaptive {
    (
        $(#[$doc:meta])* $config:ident, $(#[$rule_doc:meta])* $rule:ident,
        beta3: $beta3:literal, $beta3_doc:literal,
        gamma: $gamma:literal, $gamma_doc:literal,
        hess_init: $hess_init:literal,
        envelope: |$c:ident| $envelope:expr,
        next: |$grown:ident, $total:ident| $next:expr,
        gap: |$gap_config:ident, $gap_total:ident, $gap_envelope:ident| $gap:expr,
    ) => {
        $(#[$doc])*
        #[derive(Config, Debug)]
        pub struct $config {
            /// β₁ in `[0, 1)`.
            #[config(default = 0.9)]
            pub beta1: f64,
            /// β₂ in `[0, 1)`.
            #[config(default = 0.99999)]
            pub beta2: f64,
            #[doc = $beta3_doc]
            #[config(default = $beta3)]
            pub beta3: f64,
            /// Weight decay δ > 0.
            #[config(default = 2e-3)]
            pub weight_decay: f64,
            /// Initial curvature h₀ > 0.
            #[config(default = $hess_init)]
            pub hess_init: f64,
            #[doc = $gamma_doc]
            #[config(default = $gamma)]
            pub gamma: f64,
            /// Stability constant ε ≥ 0.
            #[config(default = 1e-8)]
            pub eps: f64,
            /// How ε is used; the paper adds it.
            #[config(default = "EpsPolicy::Add")]
            pub eps_policy: EpsPolicy,
            /// Multiplies the learning rate by `h₀ + δ`.
            #[config(default = false)]
            pub rescale_lr: bool,
            /// Clips the preconditioned step to `[-r, r]`.
            pub clip_radius: Option<f64>,
            /// Gradient clipping of Burn, before the rule.
            pub grad_clipping: Option<GradientClippingConfig>,
        }

        impl $config {
            /// The bare optimizer, for one parameter group.
            ///
            /// # Errors
            /// [`cbopt::Error::OutOfRange`] for the first field outside its range.
            pub fn build(&self) -> Checked<$rule> {
                let checked = cbopt::$config {
                    beta1: self.beta1,
                    beta2: self.beta2,
                    beta3: self.beta3,
                    weight_decay: self.weight_decay,
                    hess_init: self.hess_init,
                    gamma: self.gamma,
                    eps: self.eps,
                    eps_policy: self.eps_policy.into(),
                    rescale_lr: self.rescale_lr,
                    clip_radius: self.clip_radius,
                };
                checked.build()?;
                Ok($rule { config: self.clone() })
            }

            /// The optimizer of a whole module.
            ///
            /// # Errors
            /// [`cbopt::Error::OutOfRange`] for the first field outside its range.
            pub fn try_init(&self) -> Checked<ModuleOptimizer> {
                Ok(clipped(self.build()?.into(), self.grad_clipping.as_ref()))
            }

            /// The optimizer of a whole module, as Burn's own configs give it.
            ///
            /// # Panics
            /// If a field is outside its range; `try_init` says so instead.
            pub fn init(&self) -> ModuleOptimizer {
                self.try_init().unwrap_or_else(|error| panic!("{error}"))
            }
        }

        $(#[$rule_doc])*
        #[derive(Clone, Debug)]
        pub struct $rule {
            config: $config,
        }

        impl Optimizer for $rule {
            type State<const D: usize> = AdaptiveState<D>;

            fn step<const D: usize>(
                &self,
                lr: LearningRate,
                tensor: Tensor<D>,
                grad: Tensor<D>,
                state: Option<Self::State<D>>,
            ) -> (Tensor<D>, Option<Self::State<D>>) {
                let config = &self.config;
                let state = state.unwrap_or_else(|| {
                    let $c = config;
                    AdaptiveState {
                        momentum: grad.zeros_like(),
                        curvature: grad.full_like(config.hess_init),
                        envelope: grad.full_like($envelope),
                        step: 0,
                    }
                });
                let step = state.step + 1;
                // m ← β₁ m + (1-β₁) ĝ, h ← β₂ h + (1-β₂) ĝ², h̃ = h + δ
                let momentum = average(config.beta1, state.momentum, grad.clone());
                let curvature = average(config.beta2, state.curvature, grad.square());
                let total = curvature.clone().add_scalar(config.weight_decay);
                let envelope = {
                    let ($grown, $total) =
                        (state.envelope.mul_scalar(config.beta3), total.clone());
                    $next
                };
                let gap = {
                    let ($gap_config, $gap_total, $gap_envelope) =
                        (config, total, envelope.clone());
                    $gap
                };
                let total_init = config.hess_init + config.weight_decay;
                let descent = Descent {
                    correction: 1.0 - config.beta1.powf(step as f64),
                    weight_decay: config.weight_decay,
                    clip_radius: config.clip_radius,
                    lr: if config.rescale_lr { lr * total_init } else { lr },
                };
                let denominator = config.eps_policy.apply(gap, config.eps);
                let tensor = descent.step(tensor, momentum.clone(), denominator);
                (tensor, Some(AdaptiveState { momentum, curvature, envelope, step }))
            }

            fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
                state.moved_to(device)
            }
        }
    };
}

adaptive!(
    /// Hyper-parameters of `ucbopt-adapt`; ranges and meaning as in [`cbopt::UpperAdaptCboConfig`].
    UpperAdaptCboConfig,
    /// The optimizer `ucbopt-adapt` of one parameter.
    UpperAdaptCbo,
    beta3: 1.001, "Growth of the envelope per step, β₃ > 1.",
    gamma: 0.9, "Strength of the correction, γ in `[0, 1)`.",
    hess_init: 0.05,
    envelope: |_config| f64::INFINITY,
    // c ← min(β₃ c, h̃)
    next: |grown, total| grown.min_pair(total),
    // h̃ - γ c = (h̃ - c) + (1-γ) c: nothing cancels
    gap: |config, total, c| (total - c.clone()) + c.mul_scalar(1.0 - config.gamma),
);

adaptive!(
    /// Hyper-parameters of `lcbopt-adapt`; ranges and meaning as in [`cbopt::LowerAdaptCboConfig`].
    LowerAdaptCboConfig,
    /// The optimizer `lcbopt-adapt` of one parameter.
    LowerAdaptCbo,
    beta3: 0.999, "Decay of the envelope per step, β₃ in `[0, 1)`.",
    gamma: 1.02, "Strength of the correction, γ > 1.",
    hess_init: 0.1,
    envelope: |config| config.hess_init + config.weight_decay,
    // c ← max(β₃ c, h̃)
    next: |grown, total| grown.max_pair(total),
    // γ c - h̃ = (c - h̃) + (γ-1) c: nothing cancels
    gap: |config, total, c| (c.clone() - total) + c.mul_scalar(config.gamma - 1.0),
);
