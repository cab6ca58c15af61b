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
//! | `ivon`, micro-batches | … and sample gradient | 12 (one sample) or 20 |

/// State of one rule over one slice of parameters. Part of it is the step counter, so a saved state resumes exactly.
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
    pub(crate) sampler: Option<Sampler>,
}

/// What IVON keeps besides: where the noise is, and the means over samples and micro-batches of a step under way.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sampler {
    pub seed: u64,
    /// Index of the first coordinate in the noise vector.
    pub first: u64,
    /// Samples gathered since the last step.
    pub samples: u32,
    /// Weight of the micro-batches gathered since the last sample.
    pub weight: f64,
    /// Mean of the gradients of the samples.
    pub gradient_mean: Vec<f32>,
    /// Mean of `z g` or `g²` over the samples.
    pub second_mean: Vec<f32>,
    /// Weighted mean of the micro-batches of the current sample.
    pub sample_gradient: Vec<f32>,
}

impl State {
    pub(crate) fn new(rule: &'static str, len: usize) -> Self {
        Self {
            rule,
            len,
            step: 0,
            skipped_steps: 0,
            skipped_coordinates: 0,
            momentum: Vec::new(),
            curvature: Vec::new(),
            envelope: Vec::new(),
            sampler: None,
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

    /// The buffers with their names, in the order of the saved form; buffers that do not exist are left out.
    pub(crate) fn buffers(&self) -> Vec<(&'static str, &[f32])> {
        let mut all: Vec<(&'static str, &[f32])> = vec![
            ("momentum", &self.momentum),
            ("curvature", &self.curvature),
            ("envelope", &self.envelope),
        ];
        if let Some(sampler) = &self.sampler {
            all.push(("gradient_mean", &sampler.gradient_mean));
            all.push(("second_mean", &sampler.second_mean));
            all.push(("sample_gradient", &sampler.sample_gradient));
        }
        all.retain(|(_, buffer)| !buffer.is_empty());
        all
    }

    /// The same, to be written.
    pub(crate) fn buffers_mut(&mut self) -> Vec<(&'static str, &mut Vec<f32>)> {
        let mut all = vec![
            ("momentum", &mut self.momentum),
            ("curvature", &mut self.curvature),
            ("envelope", &mut self.envelope),
        ];
        if let Some(sampler) = &mut self.sampler {
            all.push(("gradient_mean", &mut sampler.gradient_mean));
            all.push(("second_mean", &mut sampler.second_mean));
            all.push(("sample_gradient", &mut sampler.sample_gradient));
        }
        all.retain(|(_, buffer)| !buffer.is_empty());
        all
    }
}
