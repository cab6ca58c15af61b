//! How ε enters a denominator: `none` D, `add` D + ε, `clamp` max(D, ε), `add_then_clamp` max(D +
//! ε, ε).
//!
//! The paper adds ε in the two adaptive rules and has none in `ucbopt`. The authors' released code
//! clamps in `ucbopt` and `ucbopt-adapt` and adds, then clamps, in `lcbopt-adapt`. Paper: Appendix
//! "Algorithms", stability term.

use serde::{Deserialize, Serialize};

/// The use of ε in a denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EpsPolicy {
    /// The denominator as it is.
    None,
    /// ε is added: the paper's form for the adaptive rules.
    Add,
    /// The denominator is raised to ε where it is smaller.
    Clamp,
    /// ε is added, then the sum is raised to ε where it is smaller.
    AddThenClamp,
}

impl EpsPolicy {
    fn adds(self) -> bool {
        matches!(self, Self::Add | Self::AddThenClamp)
    }

    pub(crate) fn clamps(self) -> bool {
        matches!(self, Self::Clamp | Self::AddThenClamp)
    }

    /// The denominator made of the curvature gap.
    pub(crate) fn apply(self, gap: f64, eps: f64) -> f64 {
        let gap = if self.adds() { gap + eps } else { gap };
        if self.clamps() && gap < eps { eps } else { gap }
    }

    /// The same for the update loops: one addition and one comparison for every policy.
    pub(crate) fn stabilizer(self, eps: f64) -> Stabilizer {
        Stabilizer {
            added: if self.adds() { eps as f32 } else { 0.0 },
            floor: if self.clamps() {
                eps as f32
            } else {
                f32::NEG_INFINITY
            },
        }
    }
}

/// `max(gap + added, floor)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stabilizer {
    /// ε if it is added, else 0.
    pub added: f32,
    /// ε if it is a floor, else negative infinity.
    pub floor: f32,
}

impl Stabilizer {
    /// The denominator when there is no floor.
    #[inline(always)]
    pub(crate) fn add(self, gap: f32) -> (f32, bool) {
        (gap + self.added, false)
    }

    /// The denominator, and whether the floor acted.
    #[inline(always)]
    pub(crate) fn apply(self, gap: f32) -> (f32, bool) {
        let sum = gap + self.added;
        let floored = sum < self.floor;
        (if floored { self.floor } else { sum }, floored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_by_hand_in_both_forms() {
        let eps = 0.25;
        let table = [
            (EpsPolicy::None, [-1.0, 0.125, 2.0]),
            (EpsPolicy::Add, [-0.75, 0.375, 2.25]),
            (EpsPolicy::Clamp, [0.25, 0.25, 2.0]),
            (EpsPolicy::AddThenClamp, [0.25, 0.375, 2.25]),
        ];
        for (policy, want) in table {
            for (gap, want) in [-1.0, 0.125, 2.0].into_iter().zip(want) {
                assert_eq!(policy.apply(gap, eps), want, "{policy:?}");
                let (got, floored) = policy.stabilizer(eps).apply(gap as f32);
                assert_eq!(f64::from(got), want, "{policy:?}");
                assert_eq!(floored, policy.clamps() && want == eps && gap != eps);
            }
        }
    }
}
