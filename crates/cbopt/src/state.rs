//! State of a rule: the step counter and up to three buffers of one `f32` per parameter.
//!
//! | rule | buffers | bytes per parameter |
//! |---|---|---|
//! | `ucbopt` | momentum, curvature | 8 |
//! | `ucbopt-adapt`, `lcbopt-adapt` | momentum, curvature, envelope | 12 |
//! | `sgd` | momentum, or nothing when the momentum is 0 | 4 or 0 |
//! | `adamw` | momentum, curvature (second moment) | 8 |
//! | `ivon` | momentum, curvature | 8 |
//! | `ivon`, more than one sample | … and gradient mean, second mean | 16 |
//!
//! Between two steps that is all. While the gradients of a step are gathered, the gradient of the
//! current sample is part of the state, too: 4 bytes more.

use crate::kernel::filled;
use crate::noise::NoiseKey;
use crate::update::sealed::Start;

/// State of one rule over one slice of parameters. Part of it is the step counter, so a saved state
/// resumes exactly.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    pub(crate) rule: &'static str,
    pub(crate) len: usize,
    pub(crate) step: u64,
    pub(crate) skipped_steps: u64,
    pub(crate) skipped_coordinates: u64,
    pub(crate) momentum: Vec<f32>,
    pub(crate) curvature: Vec<f32>,
    pub(crate) envelope: Vec<f32>,
    /// Seed of the noise, for `ivon`.
    pub(crate) seed: Option<u64>,
    pub(crate) gathered: Gathered,
}

/// Means over the micro-batches and samples of a step under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gathered {
    /// Complete samples since the last step.
    pub samples: u32,
    /// Examples of the current sample.
    pub weight: f64,
    /// Mean gradient of the current sample, if it has a weight; else a place for it, or nothing.
    pub gradient: Vec<f32>,
    /// Mean gradient of the samples, for rules that take several.
    pub gradient_mean: Vec<f32>,
    /// Mean of `z g` or `g²` over the samples, likewise.
    pub second_mean: Vec<f32>,
}

impl Gathered {
    /// Nothing is gathered any more.
    pub fn forget(&mut self) {
        self.samples = 0;
        self.weight = 0.0;
    }

    /// The gradient of the current sample; empty if there is none.
    fn pending(&self) -> &[f32] {
        if self.weight > 0.0 {
            &self.gradient
        } else {
            &[]
        }
    }
}

impl PartialEq for Gathered {
    fn eq(&self, other: &Self) -> bool {
        (self.samples, self.weight) == (other.samples, other.weight)
            && self.pending() == other.pending()
            && self.gradient_mean == other.gradient_mean
            && self.second_mean == other.second_mean
    }
}

impl State {
    pub(crate) fn new(rule: &'static str, len: usize, start: &Start) -> Self {
        let fill = |value: Option<f64>| value.map_or(Vec::new(), |value| filled(len, value as f32));
        let [momentum, curvature, envelope, gradient_mean, second_mean] = start.buffers().map(fill);
        Self {
            rule,
            len,
            step: 0,
            skipped_steps: 0,
            skipped_coordinates: 0,
            momentum,
            curvature,
            envelope,
            seed: start.seed,
            gathered: Gathered {
                gradient_mean,
                second_mean,
                ..Gathered::default()
            },
        }
    }

    /// Key of the noise that the next gradient belongs to.
    pub(crate) fn noise_key(&self) -> NoiseKey {
        NoiseKey {
            seed: self.seed.unwrap_or(0),
            step: self.step + 1,
            sample: self.gathered.samples,
        }
    }

    /// Identifier of the rule this state belongs to, such as `ucbopt`.
    pub fn rule(&self) -> &'static str {
        self.rule
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Steps made so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Steps that were skipped because of an unusable gradient.
    pub fn skipped_steps(&self) -> u64 {
        self.skipped_steps
    }

    /// Coordinate updates that were skipped because of an unusable gradient, over all steps.
    pub fn skipped_coordinates(&self) -> u64 {
        self.skipped_coordinates
    }

    /// Seed of the noise, for `ivon`.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// First moment of the gradients, or the momentum buffer of `sgd`; empty if the rule has none.
    pub fn momentum(&self) -> &[f32] {
        &self.momentum
    }

    /// Curvature estimate `h`, or the second moment of `adamw`; empty if the rule has none.
    pub fn curvature(&self) -> &[f32] {
        &self.curvature
    }

    /// Candidate curvature envelope `c` of the adaptive rules; empty for the others.
    pub fn envelope(&self) -> &[f32] {
        &self.envelope
    }

    /// Bytes of the buffers, all parameters together.
    pub fn buffer_bytes(&self) -> usize {
        self.buffers()
            .iter()
            .map(|(_, buffer)| std::mem::size_of_val(*buffer))
            .sum()
    }

    /// The buffers with their names, in the order of the saved form; buffers that do not exist are
    /// left out.
    pub fn buffers(&self) -> Vec<(&'static str, &[f32])> {
        let mut all = self.all_buffers().to_vec();
        all.push((SAMPLE_GRADIENT, self.gathered.pending()));
        all.retain(|(_, buffer)| !buffer.is_empty());
        all
    }

    /// The buffers that a rule can have between two steps, used or not.
    pub(crate) fn all_buffers(&self) -> [(&'static str, &[f32]); 5] {
        [
            ("momentum", &self.momentum),
            ("curvature", &self.curvature),
            ("envelope", &self.envelope),
            ("gradient_mean", &self.gathered.gradient_mean),
            ("second_mean", &self.gathered.second_mean),
        ]
    }

    /// The buffers that the state of a rule always has, as [`State::buffers`] names them.
    pub(crate) fn buffers_mut(&mut self) -> Vec<(&'static str, &mut Vec<f32>)> {
        let mut all = vec![
            ("momentum", &mut self.momentum),
            ("curvature", &mut self.curvature),
            ("envelope", &mut self.envelope),
            ("gradient_mean", &mut self.gathered.gradient_mean),
            ("second_mean", &mut self.gathered.second_mean),
        ];
        all.retain(|(_, buffer)| !buffer.is_empty());
        all
    }
}

/// Name of the buffer that exists only while gradients are gathered.
pub(crate) const SAMPLE_GRADIENT: &str = "sample_gradient";
