//! `ivon`: see [`cbopt::baseline::ivon`] for the rule.
//!
//! The gradient is asked for at a sample of the weights, so a step has two halves:
//! [`IvonOptimizer::sample`] gives a perturbed copy of the module, and [`IvonOptimizer::step`]
//! updates the module itself with the gradient found there. Between the two, the perturbation waits
//! in the state of each parameter, beside its moments, so that a record taken at any moment resumes
//! exactly. The noise is the one of [`cbopt::noise`], with the parameters in the order in which the
//! module is visited.

use std::sync::{Arc, Mutex, PoisonError};

use burn::module::{Module, ModuleVisitor, Param, ParamGroup};
use burn::optim::lr_scheduler::module_lr_scheduler::ModuleLearningRate;
use burn::optim::{
    GradientsParams, LearningRate, ModuleOptimizer, Optimizer, OptimizerRecord, RecordState,
    StateSink, StateSource,
};
use burn::tensor::{Device, Tensor, TensorData};
use cbopt::noise::{NoiseKey, fill_normal};
use cbopt::{HessianEstimate, Ivon, IvonConfig, Result};

use crate::{Descent, Init, average, record};

impl Init for IvonConfig {
    type Optimizer = IvonOptimizer;

    fn try_init(&self) -> Result<IvonOptimizer> {
        let rule = self.build()?;
        let turn = Turn::new();
        let inner = IvonRule {
            rule,
            turn: Arc::clone(&turn),
        };
        Ok(IvonOptimizer {
            inner: inner.into(),
            turn,
        })
    }
}

/// What the visit of the parameters is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Perturb the parameter and remember by how much.
    Sample,
    /// Gather a gradient.
    Gather,
    /// Gather the last gradient and update the parameter.
    Step,
}

/// Shared between the optimizer of the module and the rule, which Burn calls parameter by
/// parameter.
#[derive(Debug)]
struct Turn {
    mode: Mode,
    /// Index of the next coordinate in the noise.
    first: u64,
}

impl Turn {
    fn new() -> Arc<Mutex<Self>> {
        let (mode, first) = (Mode::Step, 0);
        Arc::new(Mutex::new(Self { mode, first }))
    }
}

/// IVON for a whole module.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::GradientsParams;
/// use burn::tensor::{Device, Tensor};
/// use cbopt_burn::{Init, IvonConfig};
///
/// let device = Device::default().autodiff();
/// let mut model = LinearConfig::new(3, 2).init(&device);
/// let mut optimizer = IvonConfig::new(1000.0).init();
/// let sampled = optimizer.sample(&model);
/// let loss = sampled.forward(Tensor::<2>::ones([4, 3], &device)).square().mean();
/// let grads = GradientsParams::from_grads(loss.backward(), &sampled);
/// model = optimizer.step(0.1, model, grads);
/// # let _ = model;
/// ```
pub struct IvonOptimizer {
    inner: ModuleOptimizer,
    turn: Arc<Mutex<Turn>>,
}

impl IvonOptimizer {
    /// A perturbed copy of `module` for the next forward and backward pass. The module itself is
    /// not touched.
    pub fn sample<M: Module>(&mut self, module: &M) -> M {
        let mut zeros = Zeros {
            grads: GradientsParams::new(),
        };
        module.visit(&mut zeros);
        self.visit(Mode::Sample, 0.0, module.clone(), zeros.grads)
    }

    /// Gathers the gradient at a sample that is not the last of its step.
    pub fn add_sample<M: Module>(&mut self, module: &M, grads: GradientsParams) {
        let _ = self.visit(Mode::Gather, 0.0, module.clone(), grads);
    }

    /// Makes a step with the gradient at the last sample.
    ///
    /// # Panics
    /// If a parameter has a gradient without having been sampled, or has seen another number of
    /// samples than the config says.
    pub fn step<M: Module>(
        &mut self,
        lr: impl Into<ModuleLearningRate>,
        module: M,
        grads: GradientsParams,
    ) -> M {
        self.visit(Mode::Step, lr, module, grads)
    }

    /// Other hyper-parameters for a group of parameters.
    ///
    /// # Errors
    /// [`cbopt::Error::OutOfRange`] for the first field outside its range.
    pub fn with_group(self, group: ParamGroup, config: &IvonConfig) -> Result<Self> {
        let rule = IvonRule {
            rule: config.build()?,
            turn: Arc::clone(&self.turn),
        };
        Ok(Self {
            inner: self.inner.with_group(group, rule, None),
            turn: self.turn,
        })
    }

    /// The state as a record of Burn.
    pub fn to_record(&self) -> OptimizerRecord {
        self.inner.to_record()
    }

    /// The state taken from a record of Burn.
    #[must_use]
    pub fn load_record(self, record: OptimizerRecord) -> Self {
        Self {
            inner: self.inner.load_record(record),
            turn: self.turn,
        }
    }

    fn visit<M: Module>(
        &mut self,
        mode: Mode,
        lr: impl Into<ModuleLearningRate>,
        module: M,
        grads: GradientsParams,
    ) -> M {
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Turn { mode, first: 0 };
        self.inner.step(lr, module, grads)
    }
}

/// A zero gradient for every parameter that is trained, so that Burn visits it.
struct Zeros {
    grads: GradientsParams,
}

impl ModuleVisitor for Zeros {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if param.is_require_grad() {
            self.grads
                .register(param.id, param.val().inner().zeros_like());
        }
    }
}

/// The rule for one parameter.
#[derive(Clone, Debug)]
struct IvonRule {
    rule: Ivon,
    turn: Arc<Mutex<Turn>>,
}

/// State of `ivon` for one parameter of rank `D`.
#[derive(Clone, Debug)]
struct IvonState<const D: usize> {
    momentum: Tensor<D>,
    curvature: Tensor<D>,
    /// Standard normal numbers of the sample under way.
    noise: Option<Tensor<D>>,
    gradient_mean: Option<Tensor<D>>,
    second_mean: Option<Tensor<D>>,
    samples: u64,
    step: u64,
}

impl<const D: usize> RecordState for IvonState<D> {
    fn state_flatten(&self, prefix: &str, out: &mut StateSink) {
        let tensors = [
            ("momentum", Some(&self.momentum)),
            ("curvature", Some(&self.curvature)),
            ("noise", self.noise.as_ref()),
            ("gradient_mean", self.gradient_mean.as_ref()),
            ("second_mean", self.second_mean.as_ref()),
        ];
        let numbers = [("samples", self.samples), ("step", self.step)];
        record::flatten(&tensors, &numbers, prefix, out);
    }

    fn state_unflatten(prefix: &str, src: &mut StateSource, device: &Device) -> Option<Self> {
        Some(Self {
            momentum: record::tensor("momentum", prefix, src, device)?,
            curvature: record::tensor("curvature", prefix, src, device)?,
            noise: record::tensor("noise", prefix, src, device),
            gradient_mean: record::tensor("gradient_mean", prefix, src, device),
            second_mean: record::tensor("second_mean", prefix, src, device),
            samples: record::number("samples", prefix, src)?,
            step: record::number("step", prefix, src)?,
        })
    }
}

impl IvonRule {
    /// The state before the first step, for a parameter of this shape.
    fn state<const D: usize>(&self, like: &Tensor<D>) -> IvonState<D> {
        IvonState {
            momentum: like.zeros_like(),
            curvature: like.full_like(self.rule.config().hess_init),
            noise: None,
            gradient_mean: None,
            second_mean: None,
            samples: 0,
            step: 0,
        }
    }

    /// Takes the next coordinates of the noise.
    fn take(&self, count: usize) -> (Mode, u64) {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let first = turn.first;
        turn.first += count as u64;
        (turn.mode, first)
    }

    fn sample<const D: usize>(
        &self,
        tensor: Tensor<D>,
        first: u64,
        state: &mut IvonState<D>,
    ) -> Tensor<D> {
        let shape = tensor.shape();
        let mut z = vec![0.0; shape.num_elements()];
        let sample = u32::try_from(state.samples).unwrap_or(u32::MAX);
        fill_normal(
            NoiseKey {
                seed: self.rule.config().seed,
                step: state.step + 1,
                sample,
            },
            first,
            &mut z,
        );
        let z = Tensor::<D>::from_data(TensorData::new(z, shape), &tensor.device());
        state.noise = Some(z.clone());
        // n = z / √(N (h + δ))
        let decay = self.rule.config().weight_decay;
        let total = state.curvature.clone().add_scalar(decay);
        tensor + z / total.mul_scalar(self.rule.ess()).sqrt()
    }

    fn gather<const D: usize>(&self, grad: Tensor<D>, state: &mut IvonState<D>) {
        let second = match self.rule.config().hessian {
            HessianEstimate::Price => {
                let z = state.noise.take();
                z.expect("a gradient of ivon belongs to a sample: call `sample` first")
                    * grad.clone()
            }
            _ => {
                state.noise = None;
                grad.clone().square()
            }
        };
        state.samples += 1;
        let share = 1.0 / state.samples as f64;
        let mean = |old: Option<Tensor<D>>, new: Tensor<D>| match old {
            Some(old) => old.clone() + (new - old).mul_scalar(share),
            None => new,
        };
        state.gradient_mean = Some(mean(state.gradient_mean.take(), grad));
        state.second_mean = Some(mean(state.second_mean.take(), second));
    }

    fn update<const D: usize>(
        &self,
        lr: f64,
        tensor: Tensor<D>,
        state: &mut IvonState<D>,
    ) -> Tensor<D> {
        let config = self.rule.config();
        assert_eq!(
            state.samples,
            u64::from(config.mc_samples),
            "a step of ivon takes as many samples as its config says"
        );
        let (Some(gradient), Some(second)) = (state.gradient_mean.take(), state.second_mean.take())
        else {
            return tensor;
        };
        state.samples = 0;
        state.step += 1;
        let total = state.curvature.clone().add_scalar(config.weight_decay);
        let estimate = match config.hessian {
            HessianEstimate::Price => total.clone().mul_scalar(self.rule.ess()).sqrt() * second,
            HessianEstimate::SquaredGradient => second.mul_scalar(self.rule.ess()),
            HessianEstimate::SquaredGradientUnscaled => second,
        };
        // m ← β₁ m + (1-β₁) mean g
        state.momentum = average(config.beta1, state.momentum.clone(), gradient);
        // With t = (1-β₂)(h - f): h ← h - t + ½ t²/(h + δ)
        let t = (state.curvature.clone() - estimate).mul_scalar(1.0 - config.beta2);
        state.curvature =
            (state.curvature.clone() - t.clone()) + (t.clone() * (t / total)).mul_scalar(0.5);
        let descent = Descent {
            correction: config.correction(state.step),
            weight_decay: config.weight_decay,
            clip_radius: config.clip_radius,
            lr: config.effective_lr(lr),
        };
        let denominator = state.curvature.clone().add_scalar(config.weight_decay);
        descent.step(tensor, state.momentum.clone(), denominator)
    }
}

impl Optimizer for IvonRule {
    type State<const D: usize> = IvonState<D>;

    fn step<const D: usize>(
        &self,
        lr: LearningRate,
        tensor: Tensor<D>,
        grad: Tensor<D>,
        state: Option<Self::State<D>>,
    ) -> (Tensor<D>, Option<Self::State<D>>) {
        let mut state = state.unwrap_or_else(|| self.state(&grad));
        let (mode, first) = self.take(tensor.shape().num_elements());
        let tensor = match mode {
            Mode::Sample => self.sample(tensor, first, &mut state),
            Mode::Gather => {
                self.gather(grad, &mut state);
                tensor
            }
            Mode::Step => {
                self.gather(grad, &mut state);
                self.update(lr, tensor, &mut state)
            }
        };
        (tensor, Some(state))
    }

    fn to_device<const D: usize>(state: Self::State<D>, device: &Device) -> Self::State<D> {
        let moved = |tensor: Option<Tensor<D>>| tensor.map(|tensor| tensor.to_device(device));
        IvonState {
            momentum: state.momentum.to_device(device),
            curvature: state.curvature.to_device(device),
            noise: moved(state.noise),
            gradient_mean: moved(state.gradient_mean),
            second_mean: moved(state.second_mean),
            samples: state.samples,
            step: state.step,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use golden::Value;
    use golden::optimizers::{Course, hyper_parameters, steps};

    /// A dozen tensor operations per step in `f32`.
    const TOLERANCE: f64 = 2e-5;

    fn tensor(values: &Value) -> Tensor<1> {
        Tensor::from_floats(golden::singles(values).as_slice(), &Device::default())
    }

    #[test]
    fn golden_ivon() {
        for case in golden::cases("optimizers/ivon.json") {
            let config: IvonConfig = serde_json::from_value(hyper_parameters(&case)).unwrap();
            let rule = IvonRule {
                rule: config.build().unwrap(),
                turn: Turn::new(),
            };
            let mut theta = tensor(&case["theta0"]);
            let mut state = rule.state(&theta);
            let mut courses: [Course; 3] = Default::default();
            for (t, lr, want) in steps(&case) {
                for k in 0..config.mc_samples as usize {
                    state.noise = Some(tensor(&case["z"][t][k]));
                    rule.gather(tensor(&case["grads"][t][k]), &mut state);
                }
                theta = rule.update(lr, theta, &mut state);
                let all = [
                    ("theta", &theta),
                    ("m", &state.momentum),
                    ("h", &state.curvature),
                ];
                for ((key, got), course) in all.into_iter().zip(&mut courses) {
                    let what = format!("{}, step {t}, {key}", case["name"]);
                    let got: Vec<f32> = got.to_data().try_to_vec().expect("f32");
                    course.assert_close(&what, &got, &want[key], TOLERANCE);
                }
            }
        }
    }
}
