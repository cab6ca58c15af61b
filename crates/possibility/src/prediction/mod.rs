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
mod each;
mod pair;
mod sets;

pub use each::predict_each;
pub use sets::Calibrated;

use faer::Mat;

use crate::error::{Error, Result, check, check_size};
use crate::linear;
use crate::numeric::{log_sum_exp, sigmoid, softplus, x_log_x};
use ascent::{Climber, Event, Top, dot, to_softmax};
use cone::{Active, HalfSpaces};
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
/// Pivots of a matrix with a unit diagonal from which on it is far from singular.
const REGULAR: f64 = 1e-8;
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
    root: Vec<f64>,
    /// Entries of a row.
    rank: usize,
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
        let Root {
            mut rows,
            rank,
            projected,
        } = root(&covariance, n)?;
        let covariance = if projected {
            let row = |i: usize| &rows[i * rank..(i + 1) * rank];
            let entries = (0..n * n).map(|at| dot(row(at / n), row(at % n)));
            entries.collect()
        } else {
            covariance
        };
        for column in 0..rank {
            let entries = rows.iter_mut().skip(column).step_by(rank);
            let mean = entries.map(|r| *r).sum::<f64>() / n as f64;
            let entries = rows.iter_mut().skip(column).step_by(rank);
            entries.for_each(|r| *r -= mean);
        }
        let top = logits
            .iter()
            .fold(f64::NEG_INFINITY, |most, z| most.max(*z));
        Ok(Self {
            mode: logits.iter().map(|z| z - top).collect(),
            covariance,
            root: rows,
            rank,
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
        let mut probabilities = self.mode.clone();
        to_softmax(&mut probabilities);
        probabilities
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
        let top = self.top(class, &mut Climber::new(self))?;
        Ok(top.log_value.exp())
    }

    /// The maximum of the concave problem, and how far the dual problem is above.
    fn top(&self, class: usize, climber: &mut Climber<'_>) -> Result<Top> {
        // where the class moves against its strongest rival alone, the others rarely matter
        let rival = (0..self.classes())
            .filter(|&j| j != class)
            .map(|j| (j, self.against(class, j)))
            .min_by(|a, b| a.1.log_supremum.total_cmp(&b.1.log_supremum));
        let start = rival.map(|(j, pair)| (class, j, pair.share));
        let event = Event::Class(class);
        let mut best = climber.ascend(event, start);
        if best.gap > CERTIFIED * (1.0 + best.log_value.abs()) {
            let other = climber.ascend(event, None);
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
    /// of them). Where rival `j` has the largest logit of all rivals, they are together not worth
    /// more than as many times it, so that no value there exceeds `sup g(z) σ(z_j - z_class +
    /// log(classes - 1))`: rivals that could not pass what was found are no starts. That nothing
    /// is higher is not proved: for 26,389 random problems of 3 to 10 classes, ascents from 60
    /// random points each found nothing higher.
    ///
    /// # Panics
    /// There is no such class.
    pub fn lower(&self, class: usize) -> Lower {
        self.lower_below(class, f64::INFINITY, &mut Climber::new(self))
    }

    /// The same, where `log P̄(not class)` is known not to exceed a bound.
    fn lower_below(&self, class: usize, log_bound: f64, climber: &mut Climber<'_>) -> Lower {
        let mut rivals: Vec<Rival> = (0..self.classes())
            .filter(|&j| j != class)
            .map(|j| self.rival(j, class))
            .collect();
        rivals.sort_by(|a, b| b.pair.log_supremum.total_cmp(&a.pair.log_supremum));
        let log_ceiling = log_ceiling(&rivals).min(log_bound);
        let event = Event::Not(class);
        let at_mode = -softplus(-log_sum_exp(rivals.iter().map(|rival| rival.margin)));
        let mut log_floor = rivals[0].pair.log_supremum.max(at_mode);
        let crowd = ((self.classes() - 1) as f64).ln();
        for rival in std::iter::once(None).chain(rivals.iter().take(STARTS).map(Some)) {
            if log_ceiling - log_floor <= CLOSED {
                break;
            }
            // where the rival leads, all of them together are not worth more than so many of it
            if rival.is_some_and(|rival| rival.log_reach(crowd) <= log_floor) {
                continue;
            }
            let start = rival.map(|rival| (rival.class, class, rival.pair.share));
            log_floor = log_floor.max(climber.ascend(event, start).log_value);
        }
        let log_floor = log_floor.min(0.0);
        Lower {
            value: -log_floor.exp_m1(),
            at_least: -log_ceiling.max(log_floor).exp_m1(),
        }
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
        self.log_possibility_in(class, &mut HalfSpaces::default(), &mut Active::default())
    }

    /// `log Π` of all classes.
    ///
    /// # Errors
    /// As [`log_possibility`](Self::log_possibility).
    pub fn log_possibilities(&self) -> Result<Vec<f64>> {
        let (mut spaces, mut active) = (HalfSpaces::default(), Active::default());
        (0..self.classes())
            .map(|class| self.log_possibility_in(class, &mut spaces, &mut active))
            .collect()
    }

    /// `log Π_class`, in memory that is used again.
    fn log_possibility_in(
        &self,
        class: usize,
        spaces: &mut HalfSpaces,
        active: &mut Active,
    ) -> Result<f64> {
        // the largest entry is 0 exactly
        if self.mode[class] == 0.0 {
            return Ok(0.0);
        }
        spaces.clear(self.rank);
        for j in (0..self.classes()).filter(|&j| j != class) {
            let behind = self.mode[j] - self.mode[class];
            let size = self.covariance(j, j) + self.covariance(class, class);
            let difference = self.row(class).iter().zip(self.row(j));
            let normal = difference.map(|(own, other)| own - other);
            let moves =
                |variance: f64| variance > 8.0 * self.classes() as f64 * f64::EPSILON * size;
            // two logits that move together keep their order
            if spaces.push(normal, behind, moves).is_none() && behind > 0.0 {
                return Ok(f64::NEG_INFINITY);
            }
        }
        Ok(-0.5 * cone::squared_distance(spaces, active)?)
    }

    /// The necessity of the answer, `1 - max_{k≠ŷ} Π_k`.
    ///
    /// # Errors
    /// As [`log_possibility`](Self::log_possibility).
    pub fn necessity(&self) -> Result<f64> {
        let answer = self.answer();
        let rivals = self.log_possibilities()?.into_iter().enumerate();
        let most = rivals
            .filter(|(class, _)| *class != answer)
            .fold(f64::NEG_INFINITY, |most, (_, log)| most.max(log));
        Ok(-most.exp_m1())
    }

    /// All quantities for all classes. Here `Σ_{j≠y} P̄(j)`, which is never above `Σ_j q_j`,
    /// sharpens what is certain of the lower probabilities.
    ///
    /// # Errors
    /// As [`upper`](Self::upper) and [`log_possibility`](Self::log_possibility).
    pub fn predict(&self) -> Result<Prediction> {
        let classes = 0..self.classes();
        let mut climber = Climber::new(self);
        let tops: Result<Vec<Top>> = classes.clone().map(|k| self.top(k, &mut climber)).collect();
        let tops = tops?;
        let lower = classes.map(|class| {
            let others = tops.iter().enumerate().filter(|(k, _)| *k != class);
            let log_bound = log_sum_exp(others.map(|(_, top)| top.log_value + top.gap));
            self.lower_below(class, log_bound, &mut climber)
        });
        let lower: Vec<Lower> = lower.collect();
        Ok(Prediction {
            answer: self.answer(),
            probabilities: self.probabilities(),
            upper: tops
                .iter()
                .map(|top| top.log_value.exp().min(1.0))
                .collect(),
            lower: lower.iter().map(|lower| lower.value).collect(),
            lower_at_least: lower.iter().map(|lower| lower.at_least).collect(),
            log_possibility: self.log_possibilities()?,
        })
    }

    /// What class `j` reaches against `k` alone.
    fn against(&self, j: usize, k: usize) -> Pair {
        Pair::new(self.mode[j] - self.mode[k], self.variance_between(j, k))
    }

    /// Class `j` against `k` alone.
    fn rival(&self, j: usize, k: usize) -> Rival {
        Rival {
            class: j,
            margin: self.mode[j] - self.mode[k],
            variance: self.variance_between(j, k),
            pair: self.against(j, k),
        }
    }

    fn covariance(&self, j: usize, k: usize) -> f64 {
        self.covariance[j * self.classes() + k]
    }

    /// A row of `R`.
    fn row(&self, class: usize) -> &[f64] {
        &self.root[class * self.rank..(class + 1) * self.rank]
    }
}

/// A class, and what it can reach alone against another one.
#[derive(Debug, Clone, Copy)]
struct Rival {
    class: usize,
    /// `m`: how far it is ahead.
    margin: f64,
    /// `v`: of the difference of the two logits.
    variance: f64,
    pair: Pair,
}

impl Rival {
    /// What it reaches with this much added to its logit.
    fn log_reach(&self, ahead: f64) -> f64 {
        Pair::new(self.margin + ahead, self.variance).log_supremum
    }
}

/// A certified upper end of `log P̄(not y)`, from the rivals' own problems: the sum of what they
/// reach, or `min_s s log Σ_j exp(m_j + ½ s v_j) - h(s)`.
fn log_ceiling(rivals: &[Rival]) -> f64 {
    let sum = log_sum_exp(rivals.iter().map(|rival| rival.pair.log_supremum));
    let mut weights = vec![0.0; rivals.len()];
    // convex in the share, and every share gives a bound: where the derivative in the share,
    // L + ½ s E[v] + t for the logit t of the share, changes its sign
    let (mut low, mut high) = (-745.0f64, 40.0f64);
    let (mut t, mut best) = (0.0f64, 0.0f64);
    for _ in 0..120 {
        let share = sigmoid(t);
        let log_sum = tilted(rivals, share, &mut weights);
        best = best.min(share * log_sum - coin_entropy(share));
        let all = || weights.iter().zip(rivals);
        let mean: f64 = all().map(|(w, rival)| w * rival.variance).sum();
        let spread: f64 = all()
            .map(|(w, rival)| w * (rival.variance - mean).powi(2))
            .sum();
        let slope = log_sum + 0.5 * share * mean + t;
        if slope > 0.0 {
            high = t;
        } else {
            low = t;
        }
        let bend = 1.0 + share * sigmoid(-t) * (mean + 0.25 * share * spread);
        let newton = t - slope / bend;
        let next = if newton > low && newton < high {
            newton
        } else {
            0.5 * (low + high)
        };
        if (next - t).abs() <= 1e-9 * (1.0 + t.abs()) {
            break;
        }
        t = next;
    }
    best.min(tilted(rivals, 1.0, &mut weights)).min(sum)
}

/// `L = log Σ_j exp(m_j + ½ s v_j)`, and the weights of the rivals in it.
fn tilted(rivals: &[Rival], share: f64, weights: &mut [f64]) -> f64 {
    for (to, rival) in weights.iter_mut().zip(rivals) {
        *to = rival.margin + 0.5 * share * rival.variance;
    }
    to_softmax(weights)
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

/// `R` with `RRᵀ = C`.
struct Root {
    /// Row-major.
    rows: Vec<f64>,
    /// Entries of a row.
    rank: usize,
    /// Negative eigenvalues were removed.
    projected: bool,
}

/// A root of the matrix: of the one scaled to a unit diagonal, so that classes of very different
/// variance do not drown each other. Cholesky's factor where that is far from singular, else
/// scaled eigenvectors.
fn root(covariance: &[f64], n: usize) -> Result<Root> {
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
    let scaled = |i: usize, j: usize| {
        if scale[i] == 0.0 || scale[j] == 0.0 {
            0.0
        } else {
            covariance[i * n + j] / scale[i] / scale[j]
        }
    };
    if let Some(mut rows) = cholesky(n, scaled) {
        for (row, scale) in rows.chunks_exact_mut(n).zip(&scale) {
            row.iter_mut().for_each(|r| *r *= scale);
        }
        return Ok(Root {
            rows,
            rank: n,
            projected: false,
        });
    }
    let scaled = Mat::from_fn(n, n, scaled);
    let (values, vectors) = linear::eigen(scaled.as_ref()).ok_or_else(|| refuse(f64::NAN))?;
    let largest = values[n - 1].max(0.0);
    if values[0] < -ROUNDING * largest {
        return Err(refuse(values[0]));
    }
    let negligible = n as f64 * f64::EPSILON * largest;
    let kept: Vec<usize> = (0..n).filter(|&k| values[k] > negligible).collect();
    let (vectors, values, scale) = (&vectors, &values, &scale);
    let row = |i: usize| {
        let entries = kept.iter();
        entries.map(move |&k| scale[i] * (vectors[(i, k)] * values[k].sqrt()))
    };
    Ok(Root {
        rows: (0..n).flat_map(row).collect(),
        rank: kept.len(),
        projected: values[0] < -negligible,
    })
}

/// `L` with `M = LLᵀ`, row-major, for a matrix with a unit diagonal that is far from singular.
fn cholesky(n: usize, entry: impl Fn(usize, usize) -> f64) -> Option<Vec<f64>> {
    let mut rows = vec![0.0; n * n];
    for i in 0..n {
        let (above, row) = rows.split_at_mut(i * n);
        for j in 0..i {
            let other = &above[j * n..=j * n + j];
            row[j] = (entry(i, j) - dot(&row[..j], &other[..j])) / other[j];
        }
        let pivot = entry(i, i) - dot(&row[..i], &row[..i]);
        if pivot.is_nan() || pivot < REGULAR {
            return None;
        }
        row[i] = pivot.sqrt();
    }
    Some(rows)
}
