//! What a classifier may still say: upper and lower probability of every class, the possibility
//! that a class has the largest logit, and the necessity of the answer, without sampling.
//!
//! Training leaves a mode `m` of the weights and a normal possibility function
//! `g(θ) = exp(-½ Σ Λᵢ(θᵢ-mᵢ)²)` around it. For an image `x` and a set `A` of classes,
//!
//! ```text
//! P̄(A) = sup_θ g(θ) P(A | x, θ)          P̲(A) = 1 - P̄(not A)
//! ```
//!
//! and `P̲(A) ≤ P(A | x, m) ≤ P̄(A)`, because `g(m) = 1`. With logits that are linear in the
//! weights, `z(θ) = z₀ + J(θ-m)`, the supremum passes through the network: the image of `g` is the
//! normal function with mode `z₀` and covariance `C = JΛ⁻¹Jᵀ` ([`Logits`]), which may be singular,
//! and
//!
//! | quantity | problem | solved by |
//! |---|---|---|
//! | [`upper`](Logits::upper) of class `y` | `max_a -½aᵀCa + log softmax_y(z₀+Ca)`, concave | Newton, certified by its dual |
//! | [`lower`](Logits::lower) of class `y` | one minus `P̄(not y)`, not concave | ascent from several points, in a certified bracket |
//! | [`possibility`](Logits::possibility) of class `k` | `sup {g(z) : z_k ≥ z_j for all j}`, a projection onto a cone | active sets, certified by its dual |
//! | [`necessity`](Logits::necessity) of the answer `ŷ` | `1 - max_{k≠ŷ} Π_k` | |
//!
//! All of them depend on differences of logits alone. [`Calibrated`] makes sets with a guaranteed
//! coverage of any of these contours.
//!
//! ```
//! use possibility::prediction::Logits;
//!
//! // three classes, the last two of which the weights leave open
//! let logits = Logits::new(&[2.0, 1.0, -1.0], &[0.1, 0.0, 0.0, 0.0, 0.9, 0.3, 0.0, 0.3, 0.9])?;
//! assert_eq!(logits.answer(), 0);
//! let p = logits.probabilities()[0];
//! let (lower, upper) = (logits.lower(0).value, logits.upper(0)?);
//! assert!(lower < p && p < upper);
//! // against one rival it is closed: exp(-½ 1² / (0.1 + 0.9))
//! assert!((logits.possibility(1)? - (-0.5f64).exp()).abs() < 1e-12);
//! assert!((logits.necessity()? - (1.0 - (-0.5f64).exp())).abs() < 1e-12);
//! # Ok::<(), possibility::Error>(())
//! ```

mod ascent;
mod cone;
mod pair;
mod sets;

pub use sets::Calibrated;

use faer::Mat;

use crate::error::{Error, Result, check, check_size};
use crate::linear;
use crate::numeric::{sigmoid, softplus, x_log_x};
use ascent::{Event, Top, ascend, dot, softmax};
use cone::HalfSpace;
use pair::Pair;

/// Asymmetry and negative eigenvalues up to this share of the matrix are the rounding of inner
/// products in single precision, and are removed.
const ROUNDING: f64 = 1e-5;
/// Larger entries would overflow once they are squared.
const LARGEST: f64 = 1e150;
/// Distance to the certificate, relative to `1 + |log P̄|`, beyond which an upper probability is
/// refused.
const CERTIFIED: f64 = 1e-9;
/// A probability that is known to this much is known, however small its logarithm.
const NOTHING: f64 = 1e-12;
/// A bracket of `log P̄(not y)` this narrow needs no further ascent.
const CLOSED: f64 = 1e-11;
/// Rivals, by what each can reach alone, from which an ascent to `P̄(not y)` starts.
const STARTS: usize = 16;

/// A normal possibility function of the logits of one image: `exp(-½(z-z₀)ᵀC⁺(z-z₀))` on `z₀` plus
/// the range of `C`.
#[derive(Debug, Clone)]
pub struct Logits {
    /// `z₀` less its largest entry.
    mode: Vec<f64>,
    /// `C`, row-major.
    covariance: Vec<f64>,
    /// Rows of `R` with `C = RRᵀ`, less their mean: what moves all logits alike changes nothing.
    root: Vec<Vec<f64>>,
}

/// A lower probability, and what is certain of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lower {
    /// `1 - P̄(not y)` where the highest point that was found is the highest there is.
    pub value: f64,
    /// Certified: the lower probability is at least this.
    pub at_least: f64,
}

/// All that the weights still allow to be said about an image; vectors have an entry per class.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The class with the largest logit; of equal ones the first.
    pub answer: usize,
    /// Probabilities at the mode.
    pub probabilities: Vec<f64>,
    /// Upper probabilities.
    pub upper: Vec<f64>,
    /// Lower probabilities.
    pub lower: Vec<f64>,
    /// Certified: the lower probabilities are at least these.
    pub lower_at_least: Vec<f64>,
    /// Log of the possibility that the class has the largest logit.
    pub log_possibility: Vec<f64>,
}

impl Prediction {
    /// `Π_k`, the possibility that a class has the largest logit.
    pub fn possibility(&self) -> Vec<f64> {
        self.log_possibility.iter().map(|log| log.exp()).collect()
    }

    /// `1 - max_{k≠ŷ} Π_k`.
    pub fn necessity(&self) -> f64 {
        -self.log_rival().exp_m1()
    }

    /// `log max_{k≠ŷ} Π_k`: ranks images as the necessity does, the other way round, also where
    /// that is 1 to rounding.
    pub fn log_rival(&self) -> f64 {
        let rivals = self.log_possibility.iter().enumerate();
        rivals
            .filter(|(class, _)| *class != self.answer)
            .fold(f64::NEG_INFINITY, |most, (_, log)| most.max(*log))
    }

    /// `P̄(ŷ) - P̲(ŷ)`: how much of the doubt comes from the weights rather than from the image.
    pub fn width(&self) -> f64 {
        self.upper[self.answer] - self.lower[self.answer]
    }
}

impl Logits {
    /// From the logits at the mode and their covariance `C`, row-major `[classes, classes]`.
    ///
    /// # Errors
    /// Fewer than two classes, another size of `C`, entries that are not finite or beyond 1e150, or
    /// a `C` that is not symmetric or not positive semidefinite by more than the rounding of single
    /// precision (a hundred-thousandth of the deviations).
    pub fn new(logits: &[f64], covariance: &[f64]) -> Result<Self> {
        let n = logits.len();
        check("number of classes", n as f64, "[2, inf)", |n| n >= 2.0)?;
        check_size("covariance", covariance.len(), n * n)?;
        check_entries("logits", logits)?;
        check_entries("covariance", covariance)?;
        let covariance = symmetric(covariance, n)?;
        let (mut root, projected) = root(&covariance, n)?;
        let covariance = if projected {
            let entries = root.iter().flat_map(|x| root.iter().map(|y| dot(x, y)));
            entries.collect()
        } else {
            covariance
        };
        let mean = mixture(&root, &vec![1.0 / n as f64; n]);
        for row in &mut root {
            row.iter_mut().zip(&mean).for_each(|(r, m)| *r -= m);
        }
        let top = logits
            .iter()
            .fold(f64::NEG_INFINITY, |most, z| most.max(*z));
        Ok(Self {
            mode: logits.iter().map(|z| z - top).collect(),
            covariance,
            root,
        })
    }

    /// The sup-image of a normal with independent weights under `θ ↦ z₀ + J(θ-m)`: `C = JΛ⁻¹Jᵀ`,
    /// for the row-major Jacobian `[classes, weights]` and the precisions `Λ` of the weights.
    ///
    /// # Errors
    /// A Jacobian of another size, a precision that is not positive and finite, or as
    /// [`new`](Self::new).
    ///
    /// ```
    /// use possibility::prediction::Logits;
    /// // one weight of precision 2 pushes the first logit up and the second one down
    /// let logits = Logits::image(&[0.0, 0.0], &[1.0, -1.0], &[2.0])?;
    /// assert_eq!(logits.variance_between(0, 1), 2.0);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn image(logits: &[f64], jacobian: &[f64], precisions: &[f64]) -> Result<Self> {
        let (n, weights) = (logits.len(), precisions.len());
        check_size("Jacobian", jacobian.len(), n * weights)?;
        check_entries("Jacobian", jacobian)?;
        for (index, &value) in precisions.iter().enumerate() {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::EntryOutOfRange {
                    field: "precision",
                    index,
                    value,
                    range: "(0, inf)",
                });
            }
        }
        let row = |k: usize| &jacobian[k * weights..(k + 1) * weights];
        let entry = |k: usize, l: usize| -> f64 {
            let products = row(k).iter().zip(row(l)).zip(precisions);
            products.map(|((a, b), precision)| a / precision * b).sum()
        };
        let mut covariance = vec![0.0; n * n];
        for k in 0..n {
            for l in 0..=k {
                covariance[k * n + l] = entry(k, l);
                covariance[l * n + k] = covariance[k * n + l];
            }
        }
        Self::new(logits, &covariance)
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.mode.len()
    }

    /// The class with the largest logit; of equal ones the first.
    pub fn answer(&self) -> usize {
        // the largest entry is 0 exactly
        self.mode.iter().position(|z| *z == 0.0).unwrap_or(0)
    }

    /// Probabilities at the mode.
    pub fn probabilities(&self) -> Vec<f64> {
        softmax(&self.mode, None).1
    }

    /// Variance `C_jj + C_kk - 2C_jk` of the difference of two logits.
    ///
    /// # Panics
    /// There is no such class.
    pub fn variance_between(&self, j: usize, k: usize) -> f64 {
        let (own, cross) = (
            self.covariance(j, j) + self.covariance(k, k),
            self.covariance(j, k) + self.covariance(k, j),
        );
        (own - cross).max(0.0)
    }

    /// `P̄(class)`, certified by the dual problem.
    ///
    /// # Errors
    /// [`Error::NotCertified`] with the bracket, if rounding keeps the two apart.
    ///
    /// # Panics
    /// There is no such class.
    pub fn upper(&self, class: usize) -> Result<f64> {
        Ok(self.top(class)?.log_value.exp())
    }

    /// The maximum of the concave problem, and how far the dual problem is above.
    fn top(&self, class: usize) -> Result<Top> {
        // where the class moves against its strongest rival alone, the others rarely matter
        let rival = (0..self.classes())
            .filter(|&j| j != class)
            .map(|j| (j, self.against(class, j)))
            .min_by(|a, b| a.1.log_supremum.total_cmp(&b.1.log_supremum));
        let nothing = vec![0.0; self.root[class].len()];
        let start = rival.map_or_else(
            || nothing.clone(),
            |(j, pair)| self.towards(class, j, pair.share),
        );
        let event = Event::Class(class);
        let mut best = ascend(self, event, start);
        if best.gap > CERTIFIED * (1.0 + best.log_value.abs()) {
            let other = ascend(self, event, nothing);
            best = if other.gap < best.gap { other } else { best };
        }
        let Top { log_value, gap } = best;
        let above = (log_value + gap).min(0.0);
        let relative = gap <= CERTIFIED * (1.0 + log_value.abs());
        if relative || above.exp() - log_value.exp() <= NOTHING {
            Ok(best)
        } else {
            Err(Error::NotCertified {
                reason: "log of an upper probability",
                lower: log_value,
                upper: above,
            })
        }
    }

    /// `P̲(class) = 1 - P̄(not class)`.
    ///
    /// With `q_j = sup g(z) σ(z_j - z_class)`, what one rival alone can reach, `max_j q_j ≤ P̄(not
    /// class) ≤ min(1, Σ_j q_j)`; a second upper end is `min_s s log Σ_j exp(m_j + ½ s v_j) -
    /// h(s)`, from the convexity of the variance in the weights that a mixture of rivals has
    /// (`m_j`, `v_j`: margin and variance of rival `j`; `h`: the entropy of a coin). The value is
    /// the highest end of ascents from the mode and from the solution of each `q_j` (the 16 largest
    /// of them). That nothing is higher is not proved: for 26,389 random problems of 3 to 10
    /// classes, ascents from 60 random points each found nothing higher.
    ///
    /// # Panics
    /// There is no such class.
    pub fn lower(&self, class: usize) -> Lower {
        self.lower_below(class, f64::INFINITY)
    }

    /// The same, where `log P̄(not class)` is known not to exceed a bound.
    fn lower_below(&self, class: usize, log_bound: f64) -> Lower {
        let mut rivals: Vec<(usize, Pair)> = (0..self.classes())
            .filter(|&j| j != class)
            .map(|j| (j, self.against(j, class)))
            .collect();
        rivals.sort_by(|a, b| b.1.log_supremum.total_cmp(&a.1.log_supremum));
        let log_ceiling = self.log_ceiling(class, &rivals).min(log_bound);
        let event = Event::Not(class);
        let at_mode = -softplus(self.mode[class] - softmax(&self.mode, Some(class)).0);
        let mut log_floor = rivals[0].1.log_supremum.max(at_mode);
        let mode = std::iter::once(vec![0.0; self.root[class].len()]);
        let starts = rivals
            .iter()
            .take(STARTS)
            .map(|(j, pair)| self.towards(*j, class, pair.share));
        for start in mode.chain(starts) {
            if log_ceiling - log_floor <= CLOSED {
                break;
            }
            log_floor = log_floor.max(ascend(self, event, start).log_value);
        }
        let log_floor = log_floor.min(0.0);
        Lower {
            value: -log_floor.exp_m1(),
            at_least: -log_ceiling.max(log_floor).exp_m1(),
        }
    }

    /// A certified upper end of `log P̄(not class)`, from the rivals' own problems.
    fn log_ceiling(&self, class: usize, rivals: &[(usize, Pair)]) -> f64 {
        let alone: Vec<f64> = rivals.iter().map(|(_, pair)| pair.log_supremum).collect();
        let sum = softmax(&alone, None).0;
        let facts: Vec<(f64, f64)> = rivals
            .iter()
            .map(|&(j, _)| {
                let margin = self.mode[j] - self.mode[class];
                (margin, self.variance_between(j, class))
            })
            .collect();
        let at = |share: f64| {
            let terms: Vec<f64> = facts.iter().map(|(m, v)| m + 0.5 * share * v).collect();
            share * softmax(&terms, None).0 - coin_entropy(share)
        };
        // convex in the share, and every share gives a bound; thirds of its logit, where the
        // minimum may be near either end
        let (mut low, mut high) = (-745.0f64, 40.0f64);
        for _ in 0..120 {
            let (a, b) = ((2.0 * low + high) / 3.0, (low + 2.0 * high) / 3.0);
            if at(sigmoid(a)) <= at(sigmoid(b)) {
                high = b;
            } else {
                low = a;
            }
        }
        let best = at(sigmoid(0.5 * low + 0.5 * high)).min(at(1.0));
        best.min(sum).min(0.0)
    }

    /// `Π_class = sup {g(z) : z_class ≥ z_j for all j}`, the possibility that the class has the
    /// largest logit.
    ///
    /// # Errors
    /// As [`log_possibility`](Self::log_possibility).
    ///
    /// # Panics
    /// There is no such class.
    pub fn possibility(&self, class: usize) -> Result<f64> {
        Ok(self.log_possibility(class)?.exp())
    }

    /// `log Π_class`; minus infinity where the weights cannot make the logit the largest.
    ///
    /// # Errors
    /// [`Error::NotCertified`] or [`Error::NotConverged`] if rounding hides the nearest point.
    ///
    /// # Panics
    /// There is no such class.
    pub fn log_possibility(&self, class: usize) -> Result<f64> {
        let dimension = self.root[class].len();
        let mut spaces = Vec::with_capacity(self.classes() - 1);
        for j in (0..self.classes()).filter(|&j| j != class) {
            let behind = self.mode[j] - self.mode[class];
            let size = self.covariance(j, j) + self.covariance(class, class);
            let difference = self.root[class].iter().zip(&self.root[j]);
            let normal: Vec<f64> = difference.map(|(own, other)| own - other).collect();
            let variance = dot(&normal, &normal);
            if variance <= 8.0 * self.classes() as f64 * f64::EPSILON * size {
                // the two logits move together
                if behind > 0.0 {
                    return Ok(f64::NEG_INFINITY);
                }
                continue;
            }
            let deviation = variance.sqrt();
            spaces.push(HalfSpace {
                normal: normal.into_iter().map(|n| n / deviation).collect(),
                offset: behind / deviation,
            });
        }
        Ok(-0.5 * cone::squared_distance(&spaces, dimension)?)
    }

    /// The necessity of the answer, `1 - max_{k≠ŷ} Π_k`.
    ///
    /// # Errors
    /// As [`log_possibility`](Self::log_possibility).
    pub fn necessity(&self) -> Result<f64> {
        let answer = self.answer();
        let mut most = f64::NEG_INFINITY;
        for class in (0..self.classes()).filter(|&k| k != answer) {
            most = most.max(self.log_possibility(class)?);
        }
        Ok(-most.exp_m1())
    }

    /// All quantities for all classes. Here `Σ_{j≠y} P̄(j)`, which is never above `Σ_j q_j`,
    /// sharpens what is certain of the lower probabilities.
    ///
    /// # Errors
    /// As [`upper`](Self::upper) and [`log_possibility`](Self::log_possibility).
    pub fn predict(&self) -> Result<Prediction> {
        let classes = 0..self.classes();
        let tops: Result<Vec<Top>> = classes.clone().map(|k| self.top(k)).collect();
        let tops = tops?;
        let lower = classes.clone().map(|class| {
            let others = tops.iter().enumerate().filter(|(k, _)| *k != class);
            let ends: Vec<f64> = others.map(|(_, top)| top.log_value + top.gap).collect();
            self.lower_below(class, softmax(&ends, None).0)
        });
        let lower: Vec<Lower> = lower.collect();
        let log_possibility: Result<Vec<f64>> = classes.map(|k| self.log_possibility(k)).collect();
        Ok(Prediction {
            answer: self.answer(),
            probabilities: self.probabilities(),
            upper: tops
                .iter()
                .map(|top| top.log_value.exp().min(1.0))
                .collect(),
            lower: lower.iter().map(|lower| lower.value).collect(),
            lower_at_least: lower.iter().map(|lower| lower.at_least).collect(),
            log_possibility: log_possibility?,
        })
    }

    /// What class `j` reaches against `k` alone.
    fn against(&self, j: usize, k: usize) -> Pair {
        Pair::new(self.mode[j] - self.mode[k], self.variance_between(j, k))
    }

    /// `x` that moves logit `j` up against logit `k`.
    fn towards(&self, j: usize, k: usize, share: f64) -> Vec<f64> {
        let rows = self.root[j].iter().zip(&self.root[k]);
        rows.map(|(up, down)| share * (up - down)).collect()
    }

    fn covariance(&self, j: usize, k: usize) -> f64 {
        self.covariance[j * self.classes() + k]
    }

    /// `z₀ + Rx`.
    fn moved(&self, x: &[f64]) -> Vec<f64> {
        let rows = self.mode.iter().zip(&self.root);
        rows.map(|(z, row)| z + dot(row, x)).collect()
    }

    /// `Rᵀa`.
    fn mixture(&self, a: &[f64]) -> Vec<f64> {
        mixture(&self.root, a)
    }
}

/// `Σ aᵢ rowᵢ`.
fn mixture(rows: &[Vec<f64>], a: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; rows[0].len()];
    for (row, &share) in rows.iter().zip(a).filter(|(_, share)| **share != 0.0) {
        for (entry, r) in sum.iter_mut().zip(row) {
            *entry += share * r;
        }
    }
    sum
}

/// `-s log s - (1-s) log(1-s)`.
fn coin_entropy(share: f64) -> f64 {
    -x_log_x(share) - x_log_x(1.0 - share)
}

fn check_entries(name: &'static str, values: &[f64]) -> Result<()> {
    let bad = |v: &f64| v.is_nan() || v.abs() > LARGEST;
    match values.iter().position(bad) {
        None => Ok(()),
        Some(index) => Err(Error::EntryOutOfRange {
            field: name,
            index,
            value: values[index],
            range: "[-1e150, 1e150]",
        }),
    }
}

/// The matrix, exactly symmetric, or the first pair of entries that differ.
fn symmetric(matrix: &[f64], n: usize) -> Result<Vec<f64>> {
    let mut result = matrix.to_vec();
    for row in 0..n {
        for column in 0..row {
            let (below, above) = (matrix[row * n + column], matrix[column * n + row]);
            let scale =
                matrix[row * n + row].abs().sqrt() * matrix[column * n + column].abs().sqrt();
            if (below - above).abs() > ROUNDING * scale {
                return Err(Error::NotSymmetric {
                    name: "covariance",
                    row,
                    column,
                });
            }
            result[row * n + column] = 0.5 * below + 0.5 * above;
            result[column * n + row] = result[row * n + column];
        }
    }
    Ok(result)
}

/// Rows of `R` with `RRᵀ = C`, and whether negative eigenvalues were removed.
///
/// The eigenvalues are those of the matrix scaled to a unit diagonal, so that classes of very
/// different variance do not drown each other.
fn root(covariance: &[f64], n: usize) -> Result<(Vec<Vec<f64>>, bool)> {
    let refuse = |smallest: f64| Error::NotPositiveDefinite {
        name: "covariance, scaled to a unit diagonal,",
        smallest,
    };
    let variances = (0..n).map(|i| covariance[i * n + i]);
    let scale: Vec<f64> = variances.map(|c| c.max(0.0).sqrt()).collect();
    for (at, &entry) in covariance.iter().enumerate() {
        let (i, j) = (at / n, at % n);
        // what has no variance has no covariance, and no variance is negative
        if (scale[i] == 0.0 || scale[j] == 0.0) && entry != 0.0 {
            return Err(refuse(f64::NEG_INFINITY));
        }
    }
    let scaled = Mat::from_fn(n, n, |i, j| {
        if scale[i] == 0.0 || scale[j] == 0.0 {
            0.0
        } else {
            covariance[i * n + j] / scale[i] / scale[j]
        }
    });
    let (values, vectors) = linear::eigen(scaled.as_ref()).ok_or_else(|| refuse(f64::NAN))?;
    let largest = values[n - 1].max(0.0);
    if values[0] < -ROUNDING * largest {
        return Err(refuse(values[0]));
    }
    let negligible = n as f64 * f64::EPSILON * largest;
    let rank: Vec<usize> = (0..n).filter(|&k| values[k] > negligible).collect();
    let row = |i: usize| {
        let entries = rank.iter();
        entries
            .map(|&k| scale[i] * (vectors[(i, k)] * values[k].sqrt()))
            .collect()
    };
    Ok(((0..n).map(row).collect(), values[0] < -negligible))
}
