//! `ucbopt` with a fixed curvature parameter ϑ: see [`cbopt::upper`] for the rule.

use burn::config::Config;
use burn::grad_clipping::GradientClippingConfig;
use burn::optim::{LearningRate, ModuleOptimizer, Optimizer, RecordState, StateSink, StateSource};
use burn::tensor::{Device, Tensor};
use cbopt::Result as Checked;

use crate::{Descent, average, record};

/// The use of ε in a denominator D.
#[derive(Config, Debug, Copy, PartialEq, Eq)]
pub enum EpsPolicy {
    /// D.
    None,
    /// D + ε.
    Add,
    /// max(D, ε).
    Clamp,
    /// max(D + ε, ε).
    AddThenClamp,
}

impl From<EpsPolicy> for cbopt::EpsPolicy {
    fn from(policy: EpsPolicy) -> Self {
        match policy {
            EpsPolicy::None => Self::None,
            EpsPolicy::Add => Self::Add,
            EpsPolicy::Clamp => Self::Clamp,
            EpsPolicy::AddThenClamp => Self::AddThenClamp,
        }
    }
}

impl EpsPolicy {
    /// The denominator made of the curvature gap.
    pub(crate) fn apply<const D: usize>(self, gap: Tensor<D>, eps: f64) -> Tensor<D> {
        match self {
            Self::None => gap,
            Self::Add => gap.add_scalar(eps),
            Self::Clamp => gap.clamp_min(eps),
            Self::AddThenClamp => gap.add_scalar(eps).clamp_min(eps),
        }
    }
}

/// Hyper-parameters of `ucbopt`; ranges and meaning as in [`cbopt::UpperCboConfig`].
#[derive(Config, Debug)]
pub struct UpperCboConfig {
    /// β₁ in `[0, 1)`.
    #[config(default = 0.9)]
    pub beta1: f64,
    /// β₂ in `[0, 1)`.
    #[config(default = 0.99999)]
    pub beta2: f64,
    /// Weight decay δ > 0.
    #[config(default = 2e-3)]
    pub weight_decay: f64,
    /// Initial curvature h₀ > 0.
    #[config(default = 0.05)]
    pub hess_init: f64,
    /// Candidate curvature ϑ in `[0, δ]`.
    #[config(default = 8e-6)]
    pub vartheta: f64,
    /// Stability constant ε ≥ 0.
    #[config(default = 1e-8)]
    pub eps: f64,
    /// How ε is used; the paper has none here.
    #[config(default = "EpsPolicy::None")]
    pub eps_policy: EpsPolicy,
    /// Multiplies the learning rate by `h₀ + δ`.
    #[config(default = false)]
    pub rescale_lr: bool,
    /// Clips the preconditioned step to `[-r, r]`.
    pub clip_radius: Option<f64>,
    /// Gradient clipping of Burn, before the rule.
    pub grad_clipping: Option<GradientClippingConfig>,
}

impl UpperCboConfig {
    /// The bare optimizer, for one parameter group.
    ///
    /// # Errors
    /// [`cbopt::Error::OutOfRange`] for the first field outside its range.
    pub fn build(&self) -> Checked<UpperCbo> {
        let checked = cbopt::UpperCboConfig {
            beta1: self.beta1,
            beta2: self.beta2,
            weight_decay: self.weight_decay,
            hess_init: self.hess_init,
            vartheta: self.vartheta,
            eps: self.eps,
            eps_policy: self.eps_policy.into(),
            rescale_lr: self.rescale_lr,
            clip_radius: self.clip_radius,
        };
        checked.build()?;
        Ok(UpperCbo {
            config: self.clone(),
        })
    }

    /// The optimizer of a whole module.
    ///
    /// # Errors
    /// As [`UpperCboConfig::build`].
    pub fn try_init(&self) -> Checked<ModuleOptimizer> {
        Ok(clipped(self.build()?.into(), self.grad_clipping.as_ref()))
    }

    /// The optimizer of a whole module, as Burn's own configs give it.
    ///
    /// # Panics
    /// If a field is outside its range; [`UpperCboConfig::try_init`] says so instead.
    pub fn init(&self) -> ModuleOptimizer {
        self.try_init().unwrap_or_else(|error| panic!("{error}"))
    }
}

/// With gradient clipping, if there is any.
pub(crate) fn clipped(
    optimizer: ModuleOptimizer,
    clipping: Option<&GradientClippingConfig>,
) -> ModuleOptimizer {
    match clipping {
        Some(config) => optimizer.with_grad_clipping(config.init()),
        None => optimizer,
    }
}

/// The optimizer `ucbopt` of one parameter.
#[derive(Clone, Debug)]
pub struct UpperCbo {
    config: UpperCboConfig,
}

/// State of `ucbopt` for one parameter of rank `D`.
#[derive(Clone, Debug)]
pub struct UpperState<const D: usize> {
    /// First moment.
    pub momentum: Tensor<D>,
    /// Curvature.
    pub curvature: Tensor<D>,
    /// Steps made.
    pub step: u64,
}

impl<const D: usize> RecordState for UpperState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        let tensors = [
            ("momentum", Some(&self.momentum)),
            ("curvature", Some(&self.curvature)),
        ];
        record::flatten(&tensors, &[("step", self.step)], prefix, out);
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        Some(Self {
            momentum: record::tensor("momentum", prefix, src, device)?,
            curvature: record::tensor("curvature", prefix, src, device)?,
            step: record::number("step", prefix, src)?,
        })
    }
}

impl Optimizer for UpperCbo {
    type State<const D: usize> = UpperState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let config = &self.config;
        let state = state.unwrap_or_else(|| UpperState {
            momentum: grad.zeros_like(),
            curvature: grad.full_like(config.hess_init),
            step: 0,
        });
        let step = state.step + 1;
        // m ← β₁ m + (1-β₁) ĝ, h ← β₂ h + (1-β₂) ĝ²
        let momentum = average(config.beta1, state.momentum, grad.clone());
        let curvature = average(config.beta2, state.curvature, grad.square());
        // H_s = h + (δ - ϑ), the difference formed in f64
        let gap = curvature
            .clone()
            .add_scalar(config.weight_decay - config.vartheta);
        let descent = Descent {
            correction: 1.0 - config.beta1.powf(step as f64),
            weight_decay: config.weight_decay,
            clip_radius: config.clip_radius,
            lr: if config.rescale_lr {
                lr * (config.hess_init + config.weight_decay)
            } else {
                lr
            },
        };
        let denominator = config.eps_policy.apply(gap, config.eps);
        let tensor = descent.step(tensor, momentum.clone(), denominator);
        (
            tensor,
            Some(UpperState {
                momentum,
                curvature,
                step,
            }),
        )
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        UpperState {
            momentum: state.momentum.to_device(device),
            curvature: state.curvature.to_device(device),
            step: state.step,
        }
    }
}
