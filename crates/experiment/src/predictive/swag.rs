//! SWAG: a normal distribution over the weights from the path of the optimizer, diagonal plus low
//! rank.
//!
//! ```text
//! after n snapshots, the next one w:   m ← n/(n+1) m + w/(n+1)       s ← n/(n+1) s + w²/(n+1)
//! deviation                            d = w - m   (m after its update; the last K are kept, as rows of D)
//! variance                             v = max(s - m², 2⁻¹²⁶)
//! sample, r = rows of D > 1            m + √(v/2) z₁ + z₂D / √(2(r-1))
//! sample, r ≤ 1, or diagonal only      m + √v z₁
//! ```
//!
//! with `z₁`, `z₂` standard normal, one `z₂` for the whole network. Paper: Section 6 and Appendix H
//! (one snapshot per epoch, "low-rank", 64 samples); rank 20 and the form of the sample are those
//! of the authors' code.
//!
//! Everything is kept in `f64`: `s - m²` cancels, and weights of size 0.1 that moved by 1e-4 leave
//! nothing of it in `f32`. That costs `16 + 8K` bytes per parameter, 176 at rank 20: 8 MB for
//! LeNet, 48 MB for ResNet-20, 185 MB for DenseNet-121. A snapshot costs one pass over three
//! vectors, a sample one pass over `r + 2`.

use std::collections::VecDeque;

use cbopt::Executor;
use cbopt::noise::{NoiseKey, fill_normal};
use engine::{Input, Network};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use images::{check, check_length};

use super::error::{Error, Result, check_finite};
use super::saved::{Kind, Tensor};
use super::{Approach, Fitted, Material, PREDICTION_STEP, Predictive, Trained, default_samples};
use crate::config::RunConfig;

/// Rank of the authors' code; the paper does not name one.
pub const DEFAULT_RANK: usize = 20;
/// Most deviations.
const MAX_RANK: usize = 4096;
/// Floor of the variance: the smallest normal `f32`.
pub const VARIANCE_FLOOR: f64 = f32::MIN_POSITIVE as f64;
/// Floor of the variance in [`SwagForm::SwaGaussian`].
const SWA_GAUSSIAN_FLOOR: f64 = 1e-30;
/// Coordinates of a sample that are made together.
const BLOCK: usize = 1024;
/// The saved form.
const KIND: Kind = Kind {
    what: "SWAG",
    entry: "maxitive-swag",
    version: 1,
};

/// The method `swag`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwagSamples {
    /// Samples of the weights, `1..=100000`. Default 64.
    #[serde(default = "default_samples")]
    pub samples: usize,
    /// How they are made; configs have the paper's form.
    #[serde(skip)]
    pub form: SwagForm,
}

impl Default for SwagSamples {
    fn default() -> Self {
        Self {
            samples: default_samples(),
            form: SwagForm::default(),
        }
    }
}

impl Approach for SwagSamples {
    fn id(&self) -> &'static str {
        "swag"
    }

    fn passes(&self) -> usize {
        self.samples
    }

    fn needs(&self, run: &RunConfig, _: &Network) -> Option<&'static str> {
        run.swag.is_none().then_some("the section [swag]")
    }

    fn fit<'a>(
        &self,
        predictive: &mut Predictive,
        trained: &'a Trained,
        _: Material<'_>,
    ) -> Result<Box<dyn Fitted + 'a>> {
        let swag = trained.swag.as_deref().ok_or(Error::Missing {
            method: self.id(),
            needs: "a SWAG collector",
        })?;
        let expected = predictive.network.parameter_count();
        check_length("SWAG collector", swag.parameters(), expected)?;
        let method = *self;
        Ok(Box::new(Samples { swag, method }))
    }
}

struct Samples<'a> {
    swag: &'a Swag,
    method: SwagSamples,
}

impl Fitted for Samples<'_> {
    fn predict(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
    ) -> Result<Vec<f32>> {
        let SwagSamples { samples, form } = self.method;
        predictive.mean_of_samples(samples, seed, images, |_, sample, out| {
            self.swag.sample_into(form, seed, sample, out)
        })
    }

    fn logits(
        &self,
        predictive: &mut Predictive,
        seed: u64,
        images: Input<'_>,
        take: &mut dyn FnMut(&[f64]),
    ) -> Result<()> {
        let SwagSamples { samples, form } = self.method;
        let make =
            |_: &Executor, sample, out: &mut [f32]| self.swag.sample_into(form, seed, sample, out);
        predictive.logits_of_samples((samples, seed), images, make, take)
    }

    fn details(&self) -> Map<String, Value> {
        Map::from_iter([
            ("rank".into(), json!(self.swag.rank())),
            ("snapshots".into(), json!(self.swag.snapshots())),
            ("evaluated".into(), json!("once, from all snapshots")),
        ])
    }
}

/// How a sample is made from the moments.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum SwagForm {
    /// Half of the covariance from the diagonal, half from the deviations, as in the paper.
    #[default]
    LowRank,
    /// `m + √v z₁`, whatever deviations there are.
    Diagonal,
    /// `m + √scale (√v z₁ + z₂D/√(K-1))` with the floor 1e-30 and `K` the rank asked for, even
    /// while fewer deviations are there: the form of the `swa_gaussian` code. With scale ½ and all
    /// `K` deviations it is [`SwagForm::LowRank`].
    SwaGaussian {
        /// Scale of the covariance, ≥ 0.
        scale: f64,
    },
}

/// Collects snapshots of the weights and samples from what they say.
///
/// ```
/// use experiment::predictive::{Swag, SwagForm};
/// let mut swag = Swag::new(3, 20)?;
/// for snapshot in [[1.0_f32, 2.0, 3.0], [1.5, 2.0, 2.0], [0.5, 2.0, 4.0]] {
///     swag.collect(&snapshot)?;
/// }
/// assert!((swag.mean()[0] - 1.0).abs() < 1e-12);
/// let mut weights = [0.0_f32; 3];
/// swag.sample_into(SwagForm::LowRank, 7, 0, &mut weights)?;
/// assert!((weights[1] - 2.0).abs() < 1e-6, "a weight that never moved stays");
/// # Ok::<(), experiment::predictive::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Swag {
    max_rank: usize,
    snapshots: u64,
    mean: Vec<f64>,
    second_moment: Vec<f64>,
    /// Oldest first.
    deviations: VecDeque<Vec<f64>>,
}

impl Swag {
    /// Before the first snapshot of so many parameters. Rank 0 keeps no deviations.
    ///
    /// # Errors
    /// [`Error::Input`] for a rank above 4096.
    pub fn new(parameters: usize, max_rank: usize) -> Result<Self> {
        check_rank(max_rank)?;
        Ok(Self {
            max_rank,
            snapshots: 0,
            mean: vec![0.0; parameters],
            second_moment: vec![0.0; parameters],
            deviations: VecDeque::with_capacity(max_rank),
        })
    }

    /// From moments that were found elsewhere: the mean, the mean of the squares, and deviations,
    /// the oldest first.
    ///
    /// More snapshots may be collected on top; `snapshots` says how many the moments stand for.
    ///
    /// # Errors
    /// [`Error::Input`] for 0 snapshots, more deviations than `max_rank` or a negative second
    /// moment, the same or [`Error::NotFinite`] for vectors that do not fit or hold no
    /// numbers.
    pub fn from_moments(
        max_rank: usize,
        snapshots: u64,
        mean: Vec<f64>,
        second_moment: Vec<f64>,
        deviations: Vec<Vec<f64>>,
    ) -> Result<Self> {
        check_rank(max_rank)?;
        check("snapshots", snapshots as f64, "1..", snapshots >= 1)?;
        let rank = deviations.len();
        check("deviations", rank as f64, "0..=max_rank", rank <= max_rank)?;
        check_length("second moment", second_moment.len(), mean.len())?;
        check_finite("mean", &mean)?;
        check_finite("second moment", &second_moment)?;
        if let Some(&value) = second_moment.iter().find(|&&v| v < 0.0) {
            check("second moment", value, "[0, inf)", false)?;
        }
        for deviation in &deviations {
            check_length("deviation", deviation.len(), mean.len())?;
            check_finite("deviation", deviation)?;
        }
        Ok(Self {
            max_rank,
            snapshots,
            mean,
            second_moment,
            deviations: deviations.into(),
        })
    }

    /// Takes in one snapshot of the weights.
    ///
    /// # Errors
    /// [`Error::Input`] or [`Error::NotFinite`]; then nothing changed.
    pub fn collect<T: Copy + Into<f64>>(&mut self, weights: &[T]) -> Result<()> {
        check_length("snapshot", weights.len(), self.mean.len())?;
        check_finite("snapshot", weights)?;
        let n = self.snapshots as f64;
        let (keep, total) = (n / (n + 1.0), n + 1.0);
        let mut deviation = if self.deviations.len() == self.max_rank {
            self.deviations.pop_front().unwrap_or_default()
        } else {
            Vec::new()
        };
        deviation.clear();
        let moments = self.mean.iter_mut().zip(&mut self.second_moment);
        for (&weight, (mean, second)) in weights.iter().zip(moments) {
            let w: f64 = weight.into();
            *mean = *mean * keep + w / total;
            *second = *second * keep + w * w / total;
            if self.max_rank > 0 {
                deviation.push(w - *mean);
            }
        }
        if self.max_rank > 0 {
            self.deviations.push_back(deviation);
        }
        self.snapshots += 1;
        Ok(())
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        self.mean.len()
    }

    /// Snapshots so far.
    pub fn snapshots(&self) -> u64 {
        self.snapshots
    }

    /// Deviations that are kept at most.
    pub fn max_rank(&self) -> usize {
        self.max_rank
    }

    /// Deviations that are there.
    pub fn rank(&self) -> usize {
        self.deviations.len()
    }

    /// Mean of the snapshots.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Mean of the squares of the snapshots.
    pub fn second_moment(&self) -> &[f64] {
        &self.second_moment
    }

    /// `max(s - m², 2⁻¹²⁶)`, one entry per parameter.
    pub fn variance(&self) -> Vec<f64> {
        let pairs = self.second_moment.iter().zip(&self.mean);
        pairs
            .map(|(s, m)| (s - m * m).max(VARIANCE_FLOOR))
            .collect()
    }

    /// Deviations, the oldest first.
    pub fn deviations(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.deviations.iter().map(Vec::as_slice)
    }

    /// Bytes of the moments and deviations.
    pub fn bytes(&self) -> usize {
        8 * self.mean.len() * (2 + self.deviations.len())
    }

    /// One sample of the weights from given standard normal numbers: `z1` per parameter, `z2` per
    /// deviation that is there.
    ///
    /// This is the formula of the module, coordinate by coordinate; [`Swag::sample_into`] gives the
    /// same numbers, rounded.
    ///
    /// # Errors
    /// [`Error::Missing`] before the first snapshot, [`Error::Input`] or
    /// [`Error::Unsuited`] for noise or a form that does not fit.
    pub fn sample(&self, form: SwagForm, z1: &[f64], z2: &[f64]) -> Result<Vec<f64>> {
        check_length("z1", z1.len(), self.mean.len())?;
        check_length("z2", z2.len(), self.deviations.len())?;
        let scales = self.scales(form)?;
        let one = |i: usize| {
            let moved = match scales.low_rank {
                None => 0.0,
                Some(scale) => {
                    let product: f64 = z2.iter().zip(&self.deviations).map(|(z, d)| z * d[i]).sum();
                    scale * product
                }
            };
            self.mean[i] + scales.deviation(self.mean[i], self.second_moment[i]) * z1[i] + moved
        };
        Ok((0..self.mean.len()).map(one).collect())
    }

    /// Sample number `sample` under `seed`, rounded to `f32`.
    ///
    /// Its noise is the vector (seed, step 0, sample) of [`cbopt::noise`]: first `z₁`, then `z₂`.
    /// So a sample depends on nothing else.
    ///
    /// # Errors
    /// As [`Swag::sample`].
    pub fn sample_into(
        &self,
        form: SwagForm,
        seed: u64,
        sample: u32,
        out: &mut [f32],
    ) -> Result<()> {
        check_length("out", out.len(), self.mean.len())?;
        let scales = self.scales(form)?;
        let key = NoiseKey {
            seed,
            step: PREDICTION_STEP,
            sample,
        };
        let mut z2 = vec![0.0; self.deviations.len()];
        fill_normal(key, self.mean.len() as u64, &mut z2);
        let mut z1 = [0.0f32; BLOCK];
        let mut sums = [0.0f64; BLOCK];
        for (number, out) in out.chunks_mut(BLOCK).enumerate() {
            let first = number * BLOCK;
            let range = first..first + out.len();
            let (z1, sums) = (&mut z1[..out.len()], &mut sums[..out.len()]);
            fill_normal(key, first as u64, z1);
            sums.fill(0.0);
            if let Some(scale) = scales.low_rank {
                for (&z, deviation) in z2.iter().zip(&self.deviations) {
                    let z = f64::from(z);
                    for (sum, d) in sums.iter_mut().zip(&deviation[range.clone()]) {
                        *sum += z * d;
                    }
                }
                sums.iter_mut().for_each(|sum| *sum *= scale);
            }
            let moments = self.mean[range.clone()]
                .iter()
                .zip(&self.second_moment[range]);
            for (((value, z), sum), (&mean, &second)) in
                out.iter_mut().zip(z1).zip(sums).zip(moments)
            {
                *value = (mean + scales.deviation(mean, second) * f64::from(*z) + *sum) as f32;
            }
        }
        Ok(())
    }

    fn scales(&self, form: SwagForm) -> Result<Scales> {
        if self.snapshots == 0 {
            return Err(Error::Missing {
                method: "swag",
                needs: "at least one snapshot of the weights",
            });
        }
        let rank = self.deviations.len();
        Ok(match form {
            SwagForm::LowRank if rank > 1 => Scales {
                floor: VARIANCE_FLOOR,
                variance: 0.5,
                low_rank: Some(1.0 / (2.0 * (rank as f64 - 1.0)).sqrt()),
            },
            SwagForm::LowRank | SwagForm::Diagonal => Scales {
                floor: VARIANCE_FLOOR,
                variance: 1.0,
                low_rank: None,
            },
            SwagForm::SwaGaussian { scale } => {
                let allowed = scale >= 0.0 && scale.is_finite();
                check("scale", scale, "[0, inf)", allowed)?;
                if self.max_rank < 2 {
                    return Err(Error::Unsuited {
                        method: "swag",
                        problem: format!(
                            "in this form needs rank 2 or more, not {}",
                            self.max_rank
                        ),
                    });
                }
                Scales {
                    floor: SWA_GAUSSIAN_FLOOR,
                    variance: scale,
                    low_rank: Some((scale / (self.max_rank as f64 - 1.0)).sqrt()),
                }
            }
        })
    }

    /// The whole collector as a safetensors file: one header entry, `F64` vectors `mean`,
    /// `second_moment` and `deviation.0`, `deviation.1`, …, the oldest first. [`Swag::from_bytes`]
    /// gives the same bits back.
    pub fn to_bytes(&self) -> Vec<u8> {
        let header = Header {
            version: KIND.version,
            parameters: self.mean.len(),
            snapshots: self.snapshots,
            max_rank: self.max_rank,
            rank: self.deviations.len(),
        };
        let vector = |name: &str, values| {
            let shape = vec![self.mean.len()];
            (name.to_owned(), Tensor { shape, values })
        };
        let mut vectors = vec![
            vector("mean", &self.mean),
            vector("second_moment", &self.second_moment),
        ];
        for (k, deviation) in self.deviations.iter().enumerate() {
            vectors.push(vector(&deviation_name(k), deviation));
        }
        KIND.to_bytes(&header, vectors)
    }

    /// The collector that [`Swag::to_bytes`] wrote, for a network of so many parameters.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`Error::Version`] or [`Error::Input`] for bytes that are no such
    /// state; the others as [`Swag::from_moments`].
    pub fn from_bytes(parameters: usize, bytes: &[u8]) -> Result<Self> {
        let (header, file): (Header, _) = KIND.open(bytes)?;
        check_length("saved SWAG mean", header.parameters, parameters)?;
        if file.len() != 2 + header.rank {
            let (found, rank) = (file.len(), header.rank);
            return Err(KIND.malformed(format!("{found} vectors for rank {rank}")));
        }
        let vector = |name: &str| file.tensor(name, |shape| shape == [parameters]);
        let (mean, second_moment) = (vector("mean")?, vector("second_moment")?);
        let deviations = (0..header.rank)
            .map(|k| vector(&deviation_name(k)))
            .collect::<Result<Vec<_>>>()?;
        if header.snapshots == 0 {
            // A collector that was saved before its first snapshot.
            return Self::new(parameters, header.max_rank);
        }
        Self::from_moments(
            header.max_rank,
            header.snapshots,
            mean,
            second_moment,
            deviations,
        )
    }
}

/// Factors of the two parts of a sample.
struct Scales {
    floor: f64,
    variance: f64,
    low_rank: Option<f64>,
}

impl Scales {
    /// Standard deviation of the diagonal part.
    #[inline(always)]
    fn deviation(&self, mean: f64, second: f64) -> f64 {
        (self.variance * (second - mean * mean).max(self.floor)).sqrt()
    }
}

fn check_rank(max_rank: usize) -> images::Result<()> {
    check(
        "max_rank",
        max_rank as f64,
        "0..=4096",
        max_rank <= MAX_RANK,
    )
}

fn deviation_name(k: usize) -> String {
    format!("deviation.{k}")
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u64,
    parameters: usize,
    snapshots: u64,
    max_rank: usize,
    rank: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snapshots(count: usize, len: usize) -> Vec<Vec<f32>> {
        let value = |t: usize, i: usize| ((t * 31 + i * 17) % 23) as f32 / 23.0 - 0.4;
        let one = |t: usize| (0..len).map(|i| value(t, i)).collect();
        (0..count).map(one).collect()
    }

    fn collected(count: usize, len: usize, max_rank: usize) -> Swag {
        let mut swag = Swag::new(len, max_rank).unwrap();
        for snapshot in snapshots(count, len) {
            swag.collect(&snapshot).unwrap();
        }
        swag
    }

    const FORMS: [SwagForm; 3] = [
        SwagForm::LowRank,
        SwagForm::Diagonal,
        SwagForm::SwaGaussian { scale: 0.7 },
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_running_moments_are_the_moments(count in 1usize..50, len in 1usize..9, rank in 0usize..7) {
            let swag = collected(count, len, rank);
            let all = snapshots(count, len);
            let n = count as f64;
            for (i, running) in swag.mean().iter().enumerate() {
                let at = |t: usize| f64::from(all[t][i]);
                let mean = (0..count).map(at).sum::<f64>() / n;
                let square = (0..count).map(|t| at(t) * at(t)).sum::<f64>() / n;
                prop_assert!((running - mean).abs() < 1e-14);
                prop_assert!((swag.second_moment()[i] - square).abs() < 1e-14);
                let spread = (0..count).map(|t| (at(t) - mean).powi(2)).sum::<f64>() / n;
                prop_assert!((swag.variance()[i] - spread).abs() < 1e-14);
            }
            prop_assert_eq!(swag.rank(), rank.min(count));
            for (k, deviation) in swag.deviations().enumerate() {
                let t = count - swag.rank() + k;
                for (i, d) in deviation.iter().enumerate() {
                    let mean = (0..=t).map(|s| f64::from(all[s][i])).sum::<f64>() / (t + 1) as f64;
                    prop_assert!((d - (f64::from(all[t][i]) - mean)).abs() < 1e-14);
                }
            }
        }

        #[test]
        fn the_blocked_sample_is_the_sample(
            count in 1usize..8, len in 1usize..2500, rank in 2usize..6, seed: u64, sample: u32,
        ) {
            let swag = collected(count, len, rank);
            let key = NoiseKey { seed, step: PREDICTION_STEP, sample };
            let mut z = vec![0.0f32; len + swag.rank()];
            fill_normal(key, 0, &mut z);
            let z: Vec<f64> = z.into_iter().map(f64::from).collect();
            for form in FORMS {
                let want = swag.sample(form, &z[..len], &z[len..]).unwrap();
                let mut got = vec![0.0; len];
                swag.sample_into(form, seed, sample, &mut got).unwrap();
                prop_assert!(got.iter().zip(want).all(|(&g, w)| g == w as f32));
            }
        }

        #[test]
        fn bytes_come_back_bit_for_bit(count in 0usize..9, len in 0usize..40, rank in 0usize..5) {
            let swag = collected(count, len, rank);
            let bytes = swag.to_bytes();
            let back = Swag::from_bytes(len, &bytes).unwrap();
            prop_assert_eq!(&back, &swag);
            prop_assert_eq!(back.to_bytes(), bytes);
        }
    }

    #[test]
    fn a_run_that_was_saved_in_the_middle_goes_on_to_the_same_bits() {
        let all = snapshots(30, 51);
        let whole = collected(30, 51, 4);
        for cut in [0, 1, 3, 4, 5, 17, 30] {
            let mut swag = Swag::new(51, 4).unwrap();
            all[..cut].iter().for_each(|s| swag.collect(s).unwrap());
            let mut swag = Swag::from_bytes(51, &swag.to_bytes()).unwrap();
            all[cut..].iter().for_each(|s| swag.collect(s).unwrap());
            assert_eq!(swag, whole);
        }
    }

    #[test]
    fn samples_have_the_moments_they_are_made_for() {
        // covariance of the paper's form: half the variances on the diagonal, half of DᵀD/(r-1)
        let swag = collected(12, 3, 6);
        let mut want = [[0.0; 3]; 3];
        for (i, row) in want.iter_mut().enumerate() {
            for (j, value) in row.iter_mut().enumerate() {
                let product: f64 = swag.deviations().map(|d| d[i] * d[j]).sum();
                let own = if i == j { swag.variance()[i] } else { 0.0 };
                *value = 0.5 * (own + product / 5.0);
            }
        }
        let count = 40_000;
        let (mut sum, mut products) = ([0.0; 3], [[0.0; 3]; 3]);
        let mut weights = [0.0f32; 3];
        for sample in 0..count {
            swag.sample_into(SwagForm::LowRank, 5, sample, &mut weights)
                .unwrap();
            let moved: Vec<f64> = (0..3)
                .map(|i| f64::from(weights[i]) - swag.mean()[i])
                .collect();
            for i in 0..3 {
                sum[i] += moved[i];
                for j in 0..3 {
                    products[i][j] += moved[i] * moved[j];
                }
            }
        }
        let n = f64::from(count);
        for i in 0..3 {
            // five standard errors: √(variance/n) of the mean, √((vᵢvⱼ + cᵢⱼ²)/n) of a covariance
            assert!((sum[i] / n).abs() < 5.0 * (want[i][i] / n).sqrt());
            for j in 0..3 {
                let error = ((want[i][i] * want[j][j] + want[i][j].powi(2)) / n).sqrt();
                assert!(
                    (products[i][j] / n - want[i][j]).abs() < 5.0 * error,
                    "{i} {j}"
                );
            }
        }
    }

    #[test]
    fn half_the_scale_and_all_deviations_are_the_paper_s_form() {
        let swag = collected(9, 7, 4);
        let z1: Vec<f64> = (0..7).map(|i| f64::from(i) * 0.3 - 1.0).collect();
        let z2 = [0.4, -1.1, 0.2, 0.9];
        let paper = swag.sample(SwagForm::LowRank, &z1, &z2).unwrap();
        let half = SwagForm::SwaGaussian { scale: 0.5 };
        for (a, b) in paper.iter().zip(swag.sample(half, &z1, &z2).unwrap()) {
            assert!((a - b).abs() < 1e-14);
        }
        // with fewer deviations than the rank asked for, that form divides by the rank all the same
        let early = collected(3, 7, 11);
        let early_z = [0.4, -1.1, 0.2];
        let zeros = [0.0; 7];
        let moved = early.sample(half, &zeros, &early_z).unwrap();
        let paper = early.sample(SwagForm::LowRank, &zeros, &early_z).unwrap();
        for ((m, p), mean) in moved.iter().zip(&paper).zip(early.mean()) {
            assert!(((m - mean) * 10f64.sqrt() - (p - mean) * 2f64.sqrt()).abs() < 1e-14);
        }
    }

    #[test]
    fn one_weight_vector_over_and_over_is_itself() {
        let mut swag = Swag::new(100, 20).unwrap();
        let weights = &snapshots(1, 100)[0];
        for _ in 0..50 {
            swag.collect(weights).unwrap();
        }
        let mut sample = vec![0.0; 100];
        swag.sample_into(SwagForm::LowRank, 1, 2, &mut sample)
            .unwrap();
        for (a, b) in sample.iter().zip(weights) {
            // what rounding leaves of s - m², about 1e-16, has the root 1e-8
            assert!((a - b).abs() < 2e-7, "{a} {b}");
        }
    }

    #[test]
    fn small_moves_of_large_weights_are_seen() {
        // in f32 both moments would round to 1 and the variance to nothing
        let mut swag = Swag::new(1, 20).unwrap();
        for step in 0..40 {
            swag.collect(&[1.0 + 1e-5 * (step % 2) as f64]).unwrap();
        }
        assert!((swag.variance()[0] / 0.25e-10 - 1.0).abs() < 1e-4);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        fn said<T>(result: Result<T>) -> String {
            result.err().unwrap().to_string()
        }
        let mut swag = Swag::new(3, 20).unwrap();
        assert_eq!(
            said(swag.sample_into(SwagForm::LowRank, 0, 0, &mut [0.0; 3])),
            "predictive method 'swag' needs at least one snapshot of the weights"
        );
        for (snapshot, want) in [
            (&[1.0f32, 2.0][..], "snapshot has 2 entries, expected 3"),
            (
                &[1.0, f32::INFINITY, 0.0],
                "snapshot[1] is inf, which is not finite",
            ),
        ] {
            assert_eq!(said(swag.collect(snapshot)), want);
        }
        assert_eq!(swag, Swag::new(3, 20).unwrap());
        let high = said(Swag::new(3, 5000));
        assert_eq!(high, "max_rank 5000 is not in 0..=4096");
        swag.collect(&[1.0f32, 2.0, 3.0]).unwrap();
        for (swag, scale, want) in [
            (swag, -1.0, "scale -1 is not in [0, inf)"),
            (
                collected(2, 3, 1),
                1.0,
                "predictive method 'swag' in this form needs rank 2 or more, not 1",
            ),
        ] {
            let form = SwagForm::SwaGaussian { scale };
            assert_eq!(said(swag.sample(form, &[0.0; 3], &[0.0])), want);
        }
        let moments = |snapshots, second: f64, deviations: usize| {
            let rows = vec![vec![0.0; 2]; deviations];
            Swag::from_moments(2, snapshots, vec![1.0, 2.0], vec![second, 4.0], rows)
        };
        assert!(moments(3, 1.0, 2).is_ok());
        for (refused, want) in [
            (moments(0, 1.0, 2), "snapshots 0 is not in 1.."),
            (moments(3, -1.0, 2), "second moment -1 is not in [0, inf)"),
            (moments(3, 1.0, 3), "deviations 3 is not in 0..=max_rank"),
        ] {
            assert_eq!(said(refused), want);
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let swag = collected(3, 5, 2);
        let bytes = swag.to_bytes();
        for cut in 0..bytes.len() {
            assert!(Swag::from_bytes(5, &bytes[..cut]).is_err(), "cut at {cut}");
        }
        let error = Swag::from_bytes(6, &bytes).unwrap_err().to_string();
        assert_eq!(error, "saved SWAG mean has 5 entries, expected 6");
        let changed = |from: &str, to: &str| {
            let at = bytes
                .windows(from.len())
                .position(|w| w == from.as_bytes())
                .unwrap();
            let mut other = bytes.clone();
            other[at..at + to.len()].copy_from_slice(to.as_bytes());
            Swag::from_bytes(5, &other).unwrap_err().to_string()
        };
        assert_eq!(
            changed("version\\\":1", "version\\\":2"),
            "the saved SWAG state has version 2, expected 1"
        );
        assert_eq!(
            changed("maxitive-swag", "maxitive-swab"),
            "not a saved SWAG state: the entry 'maxitive-swag' is missing"
        );
        assert_eq!(
            changed("\\\"rank\\\":2", "\\\"rank\\\":1"),
            "not a saved SWAG state: 4 vectors for rank 1"
        );
    }
}
