//! Rules as the kernels of `rules.cu` want them: a number, and the constants of a step in the order
//! of its `enum`.

use cbopt::cbo::GapConstants;
use cbopt::update::Average;
use cbopt::{Constants, Rule, Update};

use super::table::CONSTANTS;

/// Number of a rule in the kernels, if they have it.
pub(super) fn number(rule: &Rule) -> Option<u32> {
    match rule {
        Rule::UpperCbo(_) => Some(0),
        Rule::UpperAdaptCbo(_) => Some(1),
        Rule::LowerAdaptCbo(_) => Some(2),
        Rule::Sgd(_) => Some(3),
        Rule::AdamW(_) => Some(4),
        Rule::Ivon(_) => Some(5),
        _ => None,
    }
}

/// Constants of gradient `sample` of step `step` (from 1); none for a rule that the kernels do not
/// have.
pub(super) fn constants(rule: &Rule, lr: f64, step: u64, sample: u32) -> Option<[f32; CONSTANTS]> {
    let average = |average: Average| [average.weight, f32::from(average.from_old)];
    let mut all = [0.0; CONSTANTS];
    let mut set = |from: usize, values: &[f32]| {
        all[from..from + values.len()].copy_from_slice(values);
    };
    match rule.constants(lr, step) {
        Constants::Cbo(k) => {
            set(0, &average(k.momentum));
            set(2, &average(k.curvature));
            let (added, floor) = (k.stabilizer.added, k.stabilizer.floor);
            set(4, &[k.push, k.pull, added, floor, k.radius]);
            match k.gap {
                GapConstants::Fixed(gap) => set(9, &[gap.residual]),
                GapConstants::Upper(gap) => set(9, &[gap.decay, gap.growth, gap.complement]),
                GapConstants::Lower(gap) => set(9, &[gap.decay, gap.decline, gap.complement]),
            }
        }
        Constants::Sgd(k) => {
            let buffer = f32::from(k.momentum > 0.0);
            set(
                0,
                &[k.momentum, k.decay, k.lr, f32::from(k.nesterov), buffer],
            );
        }
        Constants::AdamW(k) => {
            set(0, &average(k.momentum));
            set(2, &average(k.curvature));
            set(4, &[k.shrink, k.scale, k.eps, k.lr]);
        }
        Constants::Ivon(k) => {
            set(0, &average(k.momentum));
            set(2, &[k.rate, k.correction, k.decay, k.ess]);
            let scale = k.fixed_scale.unwrap_or(0.0);
            let squared = f32::from(k.fixed_scale.is_some());
            set(6, &[scale, k.radius, k.lr, squared]);
            let share = (1.0 / f64::from(sample + 1)) as f32;
            set(10, &[k.samples as f32, share]);
        }
        _ => return None,
    }
    Some(all)
}
