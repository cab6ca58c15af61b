//! Confidence intervals by the bootstrap: images are drawn with replacement, as many as there are,
//! and each metric is computed anew; the interval holds the middle of what comes out (percentile
//! interval).
//!
//! In-domain and out-of-domain images are drawn separately (stratified), so that their numbers
//! stay. The order of the scores is found once; a replicate counts how often each image was drawn
//! and goes through the images in that order: O(n) per replicate. Draws are a function of seed,
//! replicate and position, so that the number of threads changes nothing.
//!
//! An interval speaks of the choice of test images alone, not of another training run. The
//! calibration error of a resample is biased upwards, because drawing images twice adds noise to
//! the bins; its interval lies high when there are few images per bin. The averaged FPR depends on
//! which vertices the ROC curve has, and drawing images twice makes ties, so that resamples lie
//! below the estimate, often all of them; it gets no interval.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, available_parallelism};

use super::calibration::{CalibrationConfig, Scheme, equal_mass, equal_width};
use super::detection::numbers;
use super::{Outcomes, Ranking};
use crate::error::{Error, Result};
use crate::metric::{InDomain, OutOfDomain};
use crate::results::ConfidenceInterval;
use random::Stream;

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BootstrapConfig {
    /// Number of resamples, 1 to 1,000,000; by default 1000.
    pub replicates: usize,
    /// Share of the replicates inside the interval, in (0, 1); by default 0.95.
    pub level: f64,
    /// Seed of the draws; by default 0.
    pub seed: u64,
    /// Number of threads, by default what the system offers; it does not change the result.
    pub threads: Option<NonZero<usize>>,
}

impl Default for BootstrapConfig {
    fn default() -> Self {
        Self {
            replicates: 1000,
            level: 0.95,
            seed: 0,
            threads: None,
        }
    }
}

impl BootstrapConfig {
    /// Checks the ranges of the settings.
    ///
    /// # Errors
    /// The number of replicates is not in 1 to 1,000,000, or the level is not in (0, 1).
    pub fn check(&self) -> Result<()> {
        if !(1..=1_000_000).contains(&self.replicates) {
            return Err(Error::Setting {
                field: "number of replicates",
                value: self.replicates as f64,
                range: "1..=1000000",
            });
        }
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Error::Setting {
                field: "level of the intervals",
                value: self.level,
                range: "(0, 1)",
            });
        }
        Ok(())
    }

    /// Calls `replicate` with every number below `replicates` and scratch of its own for each
    /// thread; results in order.
    fn run<R, T: Send>(
        &self,
        scratch: impl Fn() -> R + Sync,
        replicate: impl Fn(&mut R, u64) -> T + Sync,
    ) -> Vec<T> {
        let offered = || available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let threads = self.threads.unwrap_or_else(offered).get();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut scratch = scratch();
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= self.replicates {
                    return done;
                }
                done.push((number, replicate(&mut scratch, number as u64)));
            }
        };
        let mut all = thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(self.replicates))
                .map(|_| scope.spawn(work))
                .collect();
            let mut all = work();
            for other in others {
                match other.join() {
                    Ok(done) => all.extend(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        });
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, value)| value).collect()
    }

    /// The interval of a metric, from its values in the replicates where it is defined; `None` if
    /// it is in none.
    fn interval(&self, values: impl Iterator<Item = Option<f64>>) -> Option<ConfidenceInterval> {
        let mut values: Vec<f64> = values.flatten().collect();
        if values.is_empty() {
            return None;
        }
        values.sort_unstable_by(f64::total_cmp);
        let tail = (1.0 - self.level) / 2.0;
        Some(ConfidenceInterval {
            low: quantile(&values, tail),
            high: quantile(&values, 1.0 - tail),
            level: self.level,
            replicates: values.len(),
            seed: self.seed,
        })
    }
}

/// Quantile of sorted values, with a straight line between neighbors.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let below = (place as usize).min(sorted.len() - 1);
    let above = (below + 1).min(sorted.len() - 1);
    let (low, high, part) = (sorted[below], sorted[above], place - below as f64);
    // infinite neighbors must not make a NaN
    if low == high || part <= 0.0 {
        low
    } else {
        low + part * (high - low)
    }
}

/// Draws as many images as there are, and counts how often each came.
fn draw(stream: Stream, counts: &mut [u32]) {
    counts.fill(0);
    let images = counts.len() as u32;
    for index in 0..images {
        counts[stream.below(u64::from(index), images) as usize] += 1;
    }
}

impl Ranking {
    /// Intervals of all out-of-domain metrics; `None` if a side is empty.
    /// O(n) per replicate, 8 bytes per image and thread and 8 per distinct score.
    ///
    /// ```
    /// use evaluation::{BootstrapConfig, Ranking};
    ///
    /// let ranking = Ranking::new(&[0.9, 0.8, 0.7, 0.4], &[0.5, 0.3, 0.2])?;
    /// let intervals = ranking.bootstrap(&BootstrapConfig::default())?;
    /// let auroc = intervals.auroc.expect("both sides have images");
    /// assert!(0.5 < auroc.low && auroc.high == 1.0);
    /// # Ok::<(), evaluation::Error>(())
    /// ```
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn bootstrap(
        &self,
        config: &BootstrapConfig,
    ) -> Result<OutOfDomain<Option<ConfidenceInterval>>> {
        config.check()?;
        if self.samples.contains(&0) {
            return Ok(OutOfDomain::default());
        }
        let all = config.run(
            || self.scratch(),
            |scratch, number| {
                self.resample(scratch, config.seed, number);
                numbers(&scratch.groups)
            },
        );
        let mut intervals = OutOfDomain::from_fn(|place| {
            config.interval(all.iter().map(|numbers| Some(*numbers.each()[place])))
        });
        // resamples have other ties, and it depends on them; see the top
        intervals.mean_fpr_below_95_tpr = None;
        Ok(intervals)
    }

    fn scratch(&self) -> Resample {
        Resample {
            counts: self.samples.map(|count| vec![0; count]),
            groups: Vec::with_capacity(self.groups.len()),
        }
    }

    /// Draws both sides; scores that were not drawn are no thresholds.
    fn resample(&self, scratch: &mut Resample, seed: u64, number: u64) {
        let [ins, outs] = &mut scratch.counts;
        let stream = |name| Stream::named(seed, name).part(number);
        draw(stream("bootstrap in-domain"), ins);
        draw(stream("bootstrap out-of-domain"), outs);
        scratch.groups.clear();
        let (mut ins, mut outs) = (&ins[..], &outs[..]);
        for &[i, o] in &self.groups {
            let take = |side: &mut &[u32], count: u32| -> u32 {
                let (these, rest) = side.split_at(count as usize);
                *side = rest;
                these.iter().sum()
            };
            let group = [take(&mut ins, i), take(&mut outs, o)];
            if group != [0, 0] {
                scratch.groups.push(group);
            }
        }
    }
}

/// Scratch for one resample of a [`Ranking`].
struct Resample {
    counts: [Vec<u32>; 2],
    groups: Vec<[u32; 2]>,
}

/// An image as the replicates need it.
#[derive(Clone, Copy)]
struct Image {
    confidence: f64,
    /// 0 where it is infinite, which `impossible` says.
    log_loss: f64,
    brier: f64,
    right: bool,
    top5: bool,
    impossible: bool,
    /// The confidence is higher than that of the image before.
    rises: bool,
}

impl Outcomes {
    /// Intervals of all in-domain metrics; `None` where the metric is undefined.
    /// O(n log n) once and O(n) per replicate; 32 bytes per image and 4 per image and thread.
    ///
    /// ```
    /// use evaluation::{BootstrapConfig, CalibrationConfig, Outcomes};
    ///
    /// let outcomes = Outcomes::new(&[0.5, 0.5, 0.75, 0.25, 0.25, 0.75], 2, &[0, 1, 1])?;
    /// let config = BootstrapConfig { replicates: 200, seed: 7, ..BootstrapConfig::default() };
    /// let intervals = outcomes.bootstrap(&CalibrationConfig::default(), &config)?;
    /// let accuracy = intervals.accuracy.expect("accuracy is always defined");
    /// assert_eq!((accuracy.low, accuracy.high, accuracy.seed), (0.0, 1.0, 7));
    /// assert_eq!(intervals.top5, None);
    /// # Ok::<(), evaluation::Error>(())
    /// ```
    ///
    /// # Errors
    /// A setting is out of range.
    pub fn bootstrap(
        &self,
        calibration: &CalibrationConfig,
        config: &BootstrapConfig,
    ) -> Result<InDomain<Option<ConfidenceInterval>>> {
        calibration.check()?;
        config.check()?;
        let images = self.images();
        let scratch = || (vec![0; images.len()], vec![0.0; calibration.bins]);
        let all = config.run(scratch, |(counts, gaps), number| {
            let stream = Stream::named(config.seed, "bootstrap images");
            draw(stream.part(number), counts);
            let drawn = values(&images, counts, calibration, gaps);
            // the images do not know how many classes there are
            InDomain {
                top5: drawn.top5.filter(|_| self.top5().is_some()),
                ..drawn
            }
        });
        Ok(InDomain::from_fn(|place| {
            config.interval(all.iter().map(|values| *values.each()[place]))
        }))
    }

    /// The images in the order of their confidence.
    fn images(&self) -> Vec<Image> {
        let mut order: Vec<u32> = (0..self.samples() as u32).collect();
        let confidence = |image: u32| self.confidence()[image as usize];
        order.sort_by(|&a, &b| confidence(a).total_cmp(&confidence(b)));
        let mut last = f64::NEG_INFINITY;
        let image = |&number: &u32| {
            let i = number as usize;
            let log_loss = self.log_loss()[i];
            let confidence = self.confidence()[i];
            let rises = confidence > last;
            last = confidence;
            Image {
                confidence,
                log_loss: if log_loss.is_finite() { log_loss } else { 0.0 },
                brier: self.brier_scores()[i],
                right: self.rank()[i] == 0,
                top5: self.rank()[i] < 5,
                impossible: log_loss.is_infinite(),
                rises,
            }
        };
        order.iter().map(image).collect()
    }
}

/// Metrics of images, in the order of their confidence, that were drawn `counts` times. `gaps` is
/// scratch for the bins.
fn values(
    images: &[Image],
    counts: &[u32],
    calibration: &CalibrationConfig,
    gaps: &mut [f64],
) -> InDomain {
    gaps.fill(0.0);
    let samples = images.len();
    let (mut right, mut top5, mut impossible) = (0.0, 0.0, 0.0);
    let (mut log_loss, mut brier) = (0.0, 0.0);
    let (mut twice_wins, mut wrong_below) = (0.0, 0.0);
    // of the images of one confidence
    let (mut right_here, mut wrong_here) = (0.0, 0.0);
    let (mut drawn, mut lowest) = (0, 0);
    for (image, &count) in images.iter().zip(counts) {
        let weight = f64::from(count);
        if image.rises {
            twice_wins += right_here * (wrong_below + wrong_below + wrong_here);
            wrong_below += wrong_here;
            (right_here, wrong_here) = (0.0, 0.0);
            lowest = drawn;
        }
        let is_right = f64::from(u8::from(image.right));
        right_here += weight * is_right;
        wrong_here += weight * (1.0 - is_right);
        right += weight * is_right;
        top5 += weight * f64::from(u8::from(image.top5));
        impossible += weight * f64::from(u8::from(image.impossible));
        log_loss += weight * image.log_loss;
        brier += weight * image.brier;
        let bin = match calibration.scheme {
            Scheme::EqualWidth => equal_width(image.confidence, gaps.len()),
            // images that were not drawn at the upper end have rank n, but no weight
            Scheme::EqualMass => equal_mass(lowest, samples, gaps.len()).min(gaps.len() - 1),
        };
        gaps[bin] += weight * (is_right - image.confidence);
        drawn += count as usize;
    }
    twice_wins += right_here * (wrong_below + wrong_below + wrong_here);
    let n = samples as f64;
    let wrong = n - right;
    let ece = gaps.iter().map(|gap| gap.abs()).sum::<f64>() / n;
    let nll = if impossible > 0.0 {
        f64::INFINITY
    } else {
        log_loss / n
    };
    let auroc = (right > 0.0 && wrong > 0.0).then(|| twice_wins / (2.0 * right * wrong));
    InDomain {
        accuracy: Some(right / n),
        top5: Some(top5 / n),
        nll: Some(nll),
        ece: Some(ece),
        brier: Some(brier / n),
        auroc,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metrics::detection::twin;

    /// A few hundred additions.
    const TOLERANCE: f64 = 1e-12;

    fn near(a: Option<f64>, b: Option<f64>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => a == b || (a - b).abs() < TOLERANCE,
            (a, b) => a == b,
        }
    }

    fn pick<T: Copy>(items: &[T], counts: &[u32]) -> Vec<T> {
        let copies = items.iter().zip(counts);
        copies
            .flat_map(|(&item, &count)| (0..count).map(move |_| item))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A replicate is the metrics of the images that were drawn, written out as many times.
        #[test]
        fn a_resample_of_scores_is_what_it_says(
            ins in prop::collection::vec(0u8..30, 1..80), outs in prop::collection::vec(0u8..30, 1..80), seed in any::<u64>()
        ) {
            let sorted = |side: &[u8]| {
                let mut side: Vec<f64> = side.iter().map(|&s| f64::from(s)).collect();
                side.sort_by(|a, b| b.total_cmp(a));
                side
            };
            let (ins, outs) = (sorted(&ins), sorted(&outs));
            let ranking = Ranking::new(&ins, &outs).unwrap();
            let mut scratch = ranking.scratch();
            ranking.resample(&mut scratch, seed, 5);
            let (drawn_in, drawn_out) = (pick(&ins, &scratch.counts[0]), pick(&outs, &scratch.counts[1]));
            prop_assert_eq!(drawn_in.len(), ins.len());
            prop_assert_eq!(drawn_out.len(), outs.len());
            let (found, expected) = (numbers(&scratch.groups), twin::numbers(&drawn_in, &drawn_out));
            prop_assert!((found.auroc - expected.auroc).abs() < TOLERANCE);
            prop_assert!((found.aupr_in - expected.aupr_in).abs() < TOLERANCE);
            prop_assert!((found.aupr_out - expected.aupr_out).abs() < TOLERANCE);
            prop_assert_eq!(found.fpr_at_95_tpr, expected.fpr_at_95_tpr);
            prop_assert!((found.mean_fpr_below_95_tpr - expected.mean_fpr_below_95_tpr).abs() < TOLERANCE);
            prop_assert!((found.detection_error - expected.detection_error).abs() < TOLERANCE);
        }

        #[test]
        fn a_resample_of_predictions_is_what_it_says(
            images in prop::collection::vec((0u8..17, 0u8..6), 1..60), seed in any::<u64>(), mass in any::<bool>(), bins in 1usize..25
        ) {
            let mut images: Vec<(f64, u8)> = images.iter().map(|&(p, label)| (f64::from(p) / 16.0, label)).collect();
            // rows of two classes that share the probability, and four that are impossible
            let row = |p: f64| [p, 1.0 - p, 0.0, 0.0, 0.0, 0.0];
            let confidence = |p: f64| p.max(1.0 - p);
            images.sort_by(|a, b| confidence(a.0).total_cmp(&confidence(b.0)));
            let outcomes = |images: &[(f64, u8)]| {
                let rows: Vec<f64> = images.iter().flat_map(|image| row(image.0)).collect();
                let labels: Vec<u8> = images.iter().map(|image| image.1).collect();
                Outcomes::new(&rows, 6, &labels).unwrap()
            };
            let scheme = if mass { Scheme::EqualMass } else { Scheme::EqualWidth };
            let config = CalibrationConfig { bins, scheme };
            let mut counts = vec![0; images.len()];
            draw(Stream::named(seed, "any").part(0), &mut counts);
            let found = values(&outcomes(&images).images(), &counts, &config, &mut vec![1.0; bins]);
            let (expected, _) = outcomes(&pick(&images, &counts)).in_domain(&config).unwrap();
            for (&a, &b) in found.each().into_iter().zip(expected.values.each()) {
                prop_assert!(near(a, b), "{:?} {:?}", found, expected);
            }
        }
    }

    fn example(n: usize) -> Outcomes {
        let p = |i: usize| 0.5 + (i * 7919 % 5003) as f64 / 10_006.0;
        let rows: Vec<f64> = (0..n).flat_map(|i| [p(i), 1.0 - p(i)]).collect();
        let labels: Vec<u8> = (0..n).map(|i| u8::from(i % 5 == 0)).collect();
        Outcomes::new(&rows, 2, &labels).unwrap()
    }

    #[test]
    fn the_interval_of_a_share_is_that_of_the_binomial() {
        let outcomes = example(2000);
        assert_eq!(outcomes.accuracy(), 0.8);
        let config = BootstrapConfig {
            replicates: 4000,
            ..BootstrapConfig::default()
        };
        let intervals = outcomes
            .bootstrap(&CalibrationConfig::default(), &config)
            .unwrap();
        let ConfidenceInterval { low, high, .. } = intervals.accuracy.unwrap();
        let deviation = (0.8f64 * 0.2 / 2000.0).sqrt();
        for (end, expected) in [
            (low, 0.8 - 1.96 * deviation),
            (high, 0.8 + 1.96 * deviation),
        ] {
            // the 2.5 % quantile of 4000 values has a standard error of 0.04 deviations
            assert!(
                (end - expected).abs() < 0.16 * deviation,
                "{end} {expected}"
            );
        }
    }

    #[test]
    fn the_interval_of_the_auroc_is_that_of_its_asymptotics() {
        // two uniform sides of which one is shifted: P(a > b) = 1 - 0.5 * 0.75² = 0.71875
        let side = |n: usize, shift: f64| -> Vec<f64> {
            (0..n)
                .map(|i| (i as f64 + 0.5) / n as f64 + shift)
                .collect()
        };
        let (ins, outs) = (side(400, 0.25), side(300, 0.0));
        let ranking = Ranking::new(&ins, &outs).unwrap();
        let auroc = ranking.auroc().unwrap();
        // variance by the placements of each image among the other side (DeLong)
        let variance = |side: &[f64], share: &dyn Fn(f64) -> f64| {
            let n = side.len() as f64;
            side.iter()
                .map(|&s| (share(s) - auroc).powi(2))
                .sum::<f64>()
                / n
                / n
        };
        let above = |s: f64| outs.iter().filter(|&&o| s > o).count() as f64 / 300.0;
        let below = |s: f64| ins.iter().filter(|&&i| i > s).count() as f64 / 400.0;
        let deviation = (variance(&ins, &above) + variance(&outs, &below)).sqrt();
        let config = BootstrapConfig {
            replicates: 4000,
            seed: 11,
            ..BootstrapConfig::default()
        };
        let interval = ranking.bootstrap(&config).unwrap().auroc.unwrap();
        assert!((interval.low - (auroc - 1.96 * deviation)).abs() < 0.2 * deviation);
        assert!((interval.high - (auroc + 1.96 * deviation)).abs() < 0.2 * deviation);
    }

    #[test]
    fn the_seed_decides_and_threads_do_not() {
        let outcomes = example(300);
        let ranking = Ranking::new(outcomes.confidence(), &outcomes.log_loss()[..200]).unwrap();
        let config = |seed, threads| BootstrapConfig {
            replicates: 101,
            seed,
            threads: NonZero::new(threads),
            ..BootstrapConfig::default()
        };
        let calibration = CalibrationConfig::default();
        let both = |config: &BootstrapConfig| {
            (
                outcomes.bootstrap(&calibration, config).unwrap(),
                ranking.bootstrap(config).unwrap(),
            )
        };
        let first = both(&config(1, 1));
        assert_eq!(first, both(&config(1, 3)));
        assert_eq!(first, both(&config(1, 0)));
        let other = both(&config(2, 1));
        assert_ne!(first.0.nll.unwrap().low, other.0.nll.unwrap().low);
        assert_ne!(first.1.auroc.unwrap().low, other.1.auroc.unwrap().low);
    }

    #[test]
    fn what_is_undefined_has_no_interval() {
        let config = BootstrapConfig::default();
        let none = Ranking::new(&[1.0], &[])
            .unwrap()
            .bootstrap(&config)
            .unwrap();
        assert_eq!(none, OutOfDomain::default());
        let right = Outcomes::new(&[1.0, 0.0, 0.75, 0.25], 2, &[0, 0]).unwrap();
        let intervals = right
            .bootstrap(&CalibrationConfig::default(), &config)
            .unwrap();
        assert_eq!((intervals.auroc, intervals.top5), (None, None));
        // defined where both kinds were drawn: half of the time
        let mixed = Outcomes::new(&[1.0, 0.0, 0.75, 0.25], 2, &[0, 1]).unwrap();
        let intervals = mixed
            .bootstrap(&CalibrationConfig::default(), &config)
            .unwrap();
        let replicates = intervals.auroc.unwrap().replicates;
        assert!((400..600).contains(&replicates), "{replicates}");
        assert_eq!(intervals.accuracy.unwrap().replicates, 1000);
    }

    #[test]
    fn infinite_losses_make_infinite_ends() {
        let outcomes = Outcomes::new(&[1.0, 0.0, 0.75, 0.25], 2, &[1, 0]).unwrap();
        let config = BootstrapConfig::default();
        let intervals = outcomes
            .bootstrap(&CalibrationConfig::default(), &config)
            .unwrap();
        let nll = intervals.nll.unwrap();
        assert_eq!((nll.low, nll.high), (-(0.75f64.ln()), f64::INFINITY));
        assert_eq!(quantile(&[1.0, f64::INFINITY], 0.0), 1.0);
        assert_eq!(quantile(&[f64::INFINITY; 3], 0.3), f64::INFINITY);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
    }

    #[test]
    fn settings_are_checked() {
        let ranking = Ranking::new(&[1.0], &[0.0]).unwrap();
        let refuse = |replicates, level| {
            let config = BootstrapConfig {
                replicates,
                level,
                ..BootstrapConfig::default()
            };
            ranking.bootstrap(&config).unwrap_err().to_string()
        };
        assert_eq!(
            refuse(0, 0.95),
            "number of replicates 0 is not in 1..=1000000"
        );
        assert_eq!(refuse(10, 1.0), "level of the intervals 1 is not in (0, 1)");
        assert_eq!(
            refuse(10, f64::NAN),
            "level of the intervals NaN is not in (0, 1)"
        );
    }
}
