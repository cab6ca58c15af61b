//! Learning rates over time.
//!
//! With the time `e` in epochs (from 0), `w` epochs of warm-up and `E` epochs in all:
//!
//! ```text
//! warm-up     e < w:  ρ (1/w + (1 - 1/w) e/w)
//! cosine      then    ρ_end + ½ (ρ - ρ_end) (1 + cos(π (e - w)/max(E - w, 1)))
//! SWAG        e < s:  ρ_end + ½ (ρ - ρ_end) (1 + cos(π e/s)),   then ρ_swag
//! step        ρ f^⌊e/k⌋
//! ```
//!
//! The warm-up starts at ρ/w and reaches ρ at epoch w; the cosine reaches ρ_end only after the last
//! epoch. Paper: Section "Experimental Details", hyper-parameters. The rate changes once per epoch,
//! as in the paper, or with every step; then all lengths are counted in steps.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use crate::error::{Result, check_count, check_nonnegative, check_positive};

/// The course of the learning rate, as a table whose key `shape` holds its name; times are in
/// epochs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ScheduleConfig {
    /// The same rate at all times.
    // with braces, so that further keys are refused
    Constant {},
    /// Linear warm-up, then half a cosine down to `lr_final`.
    WarmupCosine {
        /// Epochs of warm-up; 0 for none. Default 5.
        #[serde(default = "default_warmup")]
        warmup: u64,
        /// Rate after the last epoch, ≥ 0. Default 0.
        #[serde(default)]
        lr_final: f64,
        /// Whether the rate changes with every step instead of every epoch. Default no, as in the
        /// paper's experiments.
        #[serde(default)]
        per_step: bool,
    },
    /// SWAG's two phases: half a cosine from the base rate to `lr_final`, then constant.
    Swag {
        /// Epochs of the first phase; at least 1.
        start: u64,
        /// Rate at the end of the first phase, ≥ 0.
        lr_final: f64,
        /// Rate of the second phase, ≥ 0.
        swag_lr: f64,
    },
    /// The rate is multiplied by `factor` every `every` epochs.
    Step {
        /// Epochs between two changes; at least 1.
        every: u64,
        /// Factor > 0.
        factor: f64,
    },
}

fn default_warmup() -> u64 {
    5
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self::WarmupCosine {
            warmup: default_warmup(),
            lr_final: 0.0,
            per_step: false,
        }
    }
}

/// A learning rate as a function of time.
///
/// ```
/// use cbopt::ScheduleConfig;
/// let schedule = ScheduleConfig::default().build(0.01, 100)?;
/// assert_eq!(schedule.rate(0), 0.01 / 5.0);
/// assert_eq!(schedule.rate(5), 0.01);
/// // Step 1234 of 400 steps per epoch is in epoch 3.
/// assert_eq!(schedule.rate_at_step(1234, 400), schedule.rate(3));
/// # Ok::<(), cbopt::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    config: ScheduleConfig,
    /// ρ.
    lr: f64,
    /// Epochs in all.
    epochs: u64,
}

impl ScheduleConfig {
    /// The schedule for a base rate ρ ≥ 0 and this many epochs in all, at least 1.
    ///
    /// # Errors
    /// [`crate::Error::OutOfRange`] for the first field outside its range.
    pub fn build(&self, lr: f64, epochs: u64) -> Result<Schedule> {
        check_nonnegative("lr", lr)?;
        check_count("epochs", epochs)?;
        match *self {
            Self::Constant {} => {}
            Self::WarmupCosine { lr_final, .. } => check_nonnegative("lr_final", lr_final)?,
            Self::Swag {
                start,
                lr_final,
                swag_lr,
            } => {
                check_count("start", start)?;
                check_nonnegative("lr_final", lr_final)?;
                check_nonnegative("swag_lr", swag_lr)?;
            }
            Self::Step { every, factor } => {
                check_count("every", every)?;
                check_positive("factor", factor)?;
            }
        }
        Ok(Schedule {
            config: *self,
            lr,
            epochs,
        })
    }
}

impl Schedule {
    /// The rate during epoch `epoch`, from 0. After the end of a cosine the rate stays at its last
    /// value.
    pub fn rate(&self, epoch: u64) -> f64 {
        self.rate_scaled(epoch, 1)
    }

    /// The rate of step `step`, from 0, when an epoch has `steps_per_epoch` of them.
    ///
    /// # Panics
    /// If `steps_per_epoch` is 0.
    pub fn rate_at_step(&self, step: u64, steps_per_epoch: u64) -> f64 {
        assert!(steps_per_epoch > 0, "an epoch has at least one step");
        match self.config {
            ScheduleConfig::WarmupCosine { per_step: true, .. } => {
                self.rate_scaled(step, steps_per_epoch)
            }
            _ => self.rate_scaled(step / steps_per_epoch, 1),
        }
    }

    /// The rate at `time`, all lengths being `scale` times longer.
    fn rate_scaled(&self, time: u64, scale: u64) -> f64 {
        let lr = self.lr;
        match self.config {
            ScheduleConfig::Constant {} => lr,
            ScheduleConfig::WarmupCosine {
                warmup, lr_final, ..
            } => {
                let warmup = warmup.saturating_mul(scale);
                let total = self.epochs.saturating_mul(scale);
                if time < warmup {
                    let first = 1.0 / warmup as f64;
                    return lr * (first + (1.0 - first) * time as f64 / warmup as f64);
                }
                let length = total.saturating_sub(warmup).max(1);
                cosine(lr, lr_final, time - warmup, length)
            }
            ScheduleConfig::Swag {
                start,
                lr_final,
                swag_lr,
            } => {
                let start = start.saturating_mul(scale);
                if time < start {
                    cosine(lr, lr_final, time, start)
                } else {
                    swag_lr
                }
            }
            ScheduleConfig::Step { every, factor } => {
                lr * factor.powf((time / every.saturating_mul(scale)) as f64)
            }
        }
    }
}

/// Half a cosine from `from` at 0 to `to` at `length` and after.
fn cosine(from: f64, to: f64, time: u64, length: u64) -> f64 {
    if time >= length {
        return to;
    }
    to + 0.5 * (from - to) * (1.0 + (PI * time as f64 / length as f64).cos())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use proptest::prelude::*;

    fn warmup_cosine(warmup: u64, lr_final: f64, per_step: bool) -> ScheduleConfig {
        ScheduleConfig::WarmupCosine {
            warmup,
            lr_final,
            per_step,
        }
    }

    #[test]
    fn warm_up_by_hand() {
        let schedule = warmup_cosine(5, 0.2, false).build(1.0, 25).unwrap();
        let want = [0.2, 0.36, 0.52, 0.68, 0.84, 1.0];
        for (epoch, want) in want.into_iter().enumerate() {
            assert!((schedule.rate(epoch as u64) - want).abs() < 1e-15);
        }
        // Half way down the cosine, and after the end.
        assert!((schedule.rate(15) - 0.6).abs() < 1e-15);
        assert_eq!((schedule.rate(25), schedule.rate(1000)), (0.2, 0.2));
    }

    #[test]
    fn step_swag_and_constant_by_hand() {
        let step = ScheduleConfig::Step {
            every: 3,
            factor: 0.5,
        };
        let step = step.build(0.8, 9).unwrap();
        assert_eq!([2, 3, 5, 6].map(|e| step.rate(e)), [0.8, 0.4, 0.4, 0.2]);
        let swag = ScheduleConfig::Swag {
            start: 4,
            lr_final: 0.01,
            swag_lr: 0.005,
        };
        let swag = swag.build(0.05, 9).unwrap();
        assert!((swag.rate(2) - 0.03).abs() < 1e-17);
        assert_eq!([4, 100].map(|e| swag.rate(e)), [0.005, 0.005]);
        let constant = ScheduleConfig::Constant {}.build(0.3, 9).unwrap();
        assert_eq!(constant.rate_at_step(17, 3), 0.3);
    }

    #[test]
    fn ranges_are_checked() {
        let swag = |start, swag_lr| ScheduleConfig::Swag {
            start,
            lr_final: 0.0,
            swag_lr,
        };
        let step = |every, factor| ScheduleConfig::Step { every, factor };
        for (lr, epochs, config, name) in [
            (f64::NAN, 1, ScheduleConfig::Constant {}, "lr"),
            (-0.1, 1, ScheduleConfig::Constant {}, "lr"),
            (0.1, 0, warmup_cosine(0, 0.0, false), "epochs"),
            (0.1, 1, warmup_cosine(0, -1.0, false), "lr_final"),
            (0.1, 1, swag(0, 0.0), "start"),
            (0.1, 1, swag(1, f64::NAN), "swag_lr"),
            (0.1, 1, step(0, 0.5), "every"),
            (0.1, 1, step(1, 0.0), "factor"),
        ] {
            match config.build(lr, epochs) {
                Err(Error::OutOfRange { field, .. }) => assert_eq!(field, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn rates_stay_between_their_ends_and_steps_agree_with_epochs(
            lr in 0.01f64..1.0, fraction in 0.0f64..1.0, warmup in 0u64..10, rest in 1u64..50,
            steps_per_epoch in 1u64..20, step in 0u64..2000,
        ) {
            let total = warmup + rest;
            let [by_epoch, by_step] = [false, true].map(|per_step| {
                warmup_cosine(warmup, fraction * lr, per_step).build(lr, total).unwrap()
            });
            let rate = by_step.rate_at_step(step, steps_per_epoch);
            let lowest = (fraction * lr)
                .min(if warmup > 0 { lr / (warmup * steps_per_epoch) as f64 } else { lr });
            prop_assert!(rate <= lr * (1.0 + 1e-15) && rate >= lowest * (1.0 - 1e-12));
            prop_assert_eq!(by_step.rate_at_step(step, 1), by_epoch.rate(step));
            prop_assert_eq!(
                by_epoch.rate_at_step(step, steps_per_epoch),
                by_epoch.rate(step / steps_per_epoch)
            );
            // The rate never falls during warm-up and never rises after it.
            let (now, next) = (by_epoch.rate(step % total), by_epoch.rate(step % total + 1));
            if step % total < warmup {
                prop_assert!(next >= now * (1.0 - 1e-15));
            } else {
                prop_assert!(next <= now * (1.0 + 1e-15));
            }
        }
    }
}
