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
mod climb;
mod cone;
mod each;
mod lanes;
mod near;
mod pair;
mod rivals;
mod sets;
#[cfg(test)]
mod twin;

pub use each::predict_each;
pub use sets::Calibrated;

use std::ops::Range;

use faer::linalg::solvers::Llt;
use faer::{Mat, Side};

use crate::error::{Error, Result, check, check_entries, check_size, not_certified};
use crate::linear;
use crate::numeric::log_sum_exp;
use ascent::{Climber, Event, Top, dot, to_softmax};
use climb::{Alone, End, Field, Start, ascend_each};
use cone::{Active, HalfSpaces};
use lanes::{padded, widest};
use near::Distances;
use pair::Pair;
use rivals::Rivals;

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
const CLOSED: f64 = 1e-13;
/// Pivots of a matrix with a unit diagonal from which on it is far from singular.
const REGULAR: f64 = 1e-8;
/// Rivals, by what each can reach alone, from which an ascent to `P̄(not y)` starts.
const STARTS: usize = 16;

/// A normal possibility function of the logits of one image: `exp(-½(z-z₀)ᵀC⁺(z-z₀))` on `z₀` plus
/// the range of `C`.
#[derive(Debug, Clone)]
pub struct Logits {
    classes: usize,
    /// `z₀` less its largest entry, padded with minus infinity.
    mode: Vec<f64>,
    /// `C`, row-major, its rows padded with zeros.
    covariance: Vec<f64>,
    /// The largest variance of a difference of two logits.
    widest: f64,
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
        check_magnitudes("logits", logits)?;
        check_magnitudes("covariance", covariance)?;
        let mut covariance = symmetric(covariance, n)?;
        let Root {
            mut rows,
            rank,
            projected,
        } = root(&covariance, n)?;
        let stride = padded(n);
        if projected {
            let row = |i: usize| &rows[i * rank..(i + 1) * rank];
            for i in 0..n {
                for j in 0..=i {
                    covariance[i * stride + j] = dot(row(i), row(j));
                    covariance[j * stride + i] = covariance[i * stride + j];
                }
            }
        }
        center(&mut rows, rank);
        let top = logits
            .iter()
            .fold(f64::NEG_INFINITY, |most, z| most.max(*z));
        let mut mode: Vec<f64> = logits.iter().map(|z| z - top).collect();
        mode.resize(stride, f64::NEG_INFINITY);
        let mut found = Self {
            classes: n,
            mode,
            covariance,
            widest: 0.0,
            root: rows,
            rank,
        };
        let variances = (0..n).flat_map(|k| (0..k).map(move |j| (j, k)));
        let widest = variances.map(|(j, k)| found.variance_between(j, k));
        found.widest = widest.fold(0.0, f64::max);
        Ok(found)
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
        check_magnitudes("Jacobian", jacobian)?;
        check_entries("precision", precisions, "(0, inf)", |value| {
            value > 0.0 && value.is_finite()
        })?;
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
        self.classes
    }

    /// The class with the largest logit; of equal ones the first.
    pub fn answer(&self) -> usize {
        // the largest entry is 0 exactly
        self.mode.iter().position(|z| *z == 0.0).unwrap_or(0)
    }

    /// Probabilities at the mode.
    pub fn probabilities(&self) -> Vec<f64> {
        let mut probabilities = self.mode[..self.classes].to_vec();
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
        Ok(self.tops(class..class + 1)?[0].log_value.exp())
    }

    /// The maxima of the concave problems, and how far the dual problems are above.
    fn tops(&self, classes: Range<usize>) -> Result<Vec<Top>> {
        let answer = self.answer();
        let start = |class: usize| {
            // a class moves against the answer first; the answer is where it is
            let share = self.against(class, answer).share;
            let pair = (class != answer).then_some((class, answer, share));
            (Event::Class(class), pair.map(Start::from))
        };
        let starts: Vec<_> = classes.clone().map(start).collect();
        let ends = ascend_each(&self.field(), &starts);
        let mut climber = None;
        let top = |(class, end): (usize, End)| match end.settled {
            true => Ok(end.top),
            false => self.top(class, climber.get_or_insert_with(|| Climber::new(self))),
        };
        classes.zip(ends).map(top).collect()
    }

    /// One of them by an ascent that has the root of `C`, and rounds less.
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
        certified(best)
    }

    /// `P̲(class) = 1 - P̄(not class)`.
    ///
    /// With `q_j = sup g(z) σ(z_j - z_class)`, what one rival alone can reach, `max_j q_j ≤ P̄(not
    /// class) ≤ min(1, Σ_j q_j)`; a second upper end is `min_s s log Σ_j exp(m_j + ½ s v_j) -
    /// h(s)`, from the convexity of the variance in the weights that a mixture of rivals has
    /// (`m_j`, `v_j`: margin and variance of rival `j`; `h`: the entropy of a coin). The value is
    /// the highest end of ascents from the mode and from the solution of each `q_j` (the 16 largest
    /// of them). What is higher than a point found lies no farther from the mode than the price
    /// allows, and where rival `j` leads there, the rivals are together not worth more than `c_j`
    /// times it, each of them at most once and no more than that distance lets it: no value there
    /// exceeds `sup g(z) σ(z_j - z_class + log c_j)`, and rivals that could not pass what was found
    /// are no starts. That nothing is higher is not proved: for 26,389 random problems of 3 to 10
    /// classes, ascents from 60 random points each found nothing higher than those from all starts.
    ///
    /// For a class that is improbable enough, given how far the logits can move, there is but one
    /// maximum, and what is certain is the value itself.
    ///
    /// # Panics
    /// There is no such class.
    pub fn lower(&self, class: usize) -> Lower {
        let mut alone = Alone::new(&self.field());
        if let Some(only) = self.only_maximum(class, self.probabilities()[class]) {
            let end = ascend_each(&self.field(), &[(Event::Not(class), None)])[0];
            if let Some(lower) = only.lower(end) {
                return lower;
            }
        }
        self.lower_below(class, f64::INFINITY, &mut alone, &mut Rivals::default())
    }

    /// The same, where `log P̄(not class)` is known not to exceed a bound.
    fn lower_below(
        &self,
        class: usize,
        log_bound: f64,
        alone: &mut Alone,
        rivals: &mut Rivals,
    ) -> Lower {
        let field = self.field();
        rivals.solve(&field, class);
        let mut order: Vec<usize> = (0..field.classes).filter(|&j| j != class).collect();
        let sooner = |a: &usize, b: &usize| {
            let log = &rivals.log_supremum;
            log[*b].total_cmp(&log[*a])
        };
        if order.len() > STARTS {
            order.select_nth_unstable_by(STARTS - 1, sooner);
            order.truncate(STARTS);
        }
        order.sort_by(sooner);
        let (log_ceiling, at_mode) = rivals.log_ends(order[0]);
        let log_ceiling = log_ceiling.min(log_bound);
        let mut log_floor = rivals.log_supremum[order[0]].max(at_mode);
        let mut climber = None;
        for rival in std::iter::once(None).chain(order.into_iter().map(Some)) {
            if log_ceiling - log_floor <= CLOSED {
                break;
            }
            // what is higher is not farther than this
            let distance = (-2.0 * log_floor).sqrt();
            if rival.is_some_and(|j| rivals.log_reach(&field, j, distance) <= log_floor) {
                continue;
            }
            let start = rival.map(|j| (j, class, rivals.share[j]));
            let event = Event::Not(class);
            let end = alone.ascend(&field, event, start.map(Start::from));
            log_floor = log_floor.max(end.top.log_value);
            if !end.settled {
                let climber = climber.get_or_insert_with(|| Climber::new(self));
                log_floor = log_floor.max(climber.ascend(event, start).log_value);
            }
        }
        let log_floor = log_floor.min(0.0);
        Lower {
            value: -log_floor.exp_m1(),
            at_least: -log_ceiling.max(log_floor).exp_m1(),
        }
    }

    /// Where `P̄(not class)` can have one maximum alone, for a class of probability `p`.
    ///
    /// At the highest point `x = -qu`, and `q` is at most what it is at the mode, because the price
    /// of the way has to be paid. So `|x| ≤ pD` for the largest distance `D` of a rival, and up to
    /// there `q ≤ p exp(pD²)`, because the slope of `log q` is at most `D`. The function is concave
    /// where `q` times the variance of any mixture of rivals is less than 1, and that variance is
    /// at most a quarter of the largest squared distance between two classes.
    fn only_maximum(&self, class: usize, p: f64) -> Option<OnlyMaximum> {
        let farthest = (0..self.classes).map(|j| self.variance_between(class, j));
        let farthest = farthest.fold(0.0, f64::max);
        let curvature = 1.0 - 0.25 * self.widest * p * (p * farthest).exp();
        (curvature >= 0.5).then_some(OnlyMaximum {
            squared_radius: p * p * farthest,
            curvature,
        })
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
        Ok(self.log_possibilities_of(class..class + 1)?[0])
    }

    /// `log Π` of all classes.
    ///
    /// # Errors
    /// As [`log_possibility`](Self::log_possibility).
    pub fn log_possibilities(&self) -> Result<Vec<f64>> {
        self.log_possibilities_of(0..self.classes)
    }

    fn log_possibilities_of(&self, classes: Range<usize>) -> Result<Vec<f64>> {
        let found = widest(Distances {
            field: self.field(),
            classes: classes.clone(),
        });
        let (mut spaces, mut active) = (HalfSpaces::default(), Active::default());
        classes
            .zip(found)
            .map(|(class, squared)| match squared {
                Some(squared) => Ok(-0.5 * squared),
                None => self.log_possibility_in(class, &mut spaces, &mut active),
            })
            .collect()
    }

    /// `log Π_class` by the root of `C`, which rounds less, in memory that is used again.
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
        let tops = self.tops(0..self.classes)?;
        let lower = self.lowers(&tops);
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

    /// The lower probabilities of all classes, whose upper ones are known.
    fn lowers(&self, tops: &[Top]) -> Vec<Lower> {
        let p = self.probabilities();
        let easy: Vec<_> = (0..self.classes)
            .filter_map(|class| Some((class, self.only_maximum(class, p[class])?)))
            .collect();
        let starts: Vec<_> = (easy.iter().map(|(class, _)| (Event::Not(*class), None))).collect();
        let ends = ascend_each(&self.field(), &starts);
        let mut found = vec![None; self.classes];
        for ((class, only), end) in easy.into_iter().zip(ends) {
            found[class] = only.lower(end);
        }
        let (mut alone, mut rivals) = (Alone::new(&self.field()), Rivals::default());
        let general = |(class, found): (usize, Option<Lower>)| {
            found.unwrap_or_else(|| {
                let others = tops.iter().enumerate().filter(|(k, _)| *k != class);
                let log_bound = log_sum_exp(others.map(|(_, top)| top.log_value + top.gap));
                self.lower_below(class, log_bound, &mut alone, &mut rivals)
            })
        };
        found.into_iter().enumerate().map(general).collect()
    }

    /// What class `j` reaches against `k` alone.
    fn against(&self, j: usize, k: usize) -> Pair {
        Pair::new(self.mode[j] - self.mode[k], self.variance_between(j, k))
    }

    fn field(&self) -> Field<'_> {
        Field {
            mode: &self.mode,
            covariance: &self.covariance,
            classes: self.classes,
            rank: self.rank,
        }
    }

    fn covariance(&self, j: usize, k: usize) -> f64 {
        self.covariance[j * self.mode.len() + k]
    }

    /// A row of `R`.
    fn row(&self, class: usize) -> &[f64] {
        &self.root[class * self.rank..(class + 1) * self.rank]
    }
}

/// Of two bounds of the log of an upper probability, whether they are close enough.
fn certified(top: Top) -> Result<Top> {
    let Top { log_value, gap } = top;
    let above = (log_value + gap).min(0.0);
    let relative = gap <= CERTIFIED * (1.0 + log_value.abs());
    if relative || above.exp() - log_value.exp() <= NOTHING {
        Ok(top)
    } else {
        Err(not_certified(
            "log of an upper probability",
            log_value,
            above,
        ))
    }
}

/// A ball around the mode with the highest point in it, where a function is concave.
#[derive(Debug, Clone, Copy)]
struct OnlyMaximum {
    squared_radius: f64,
    /// The Hessian is at most minus this.
    curvature: f64,
}

impl OnlyMaximum {
    /// From the end of an ascent; `None` if that is not in the ball.
    fn lower(&self, end: End) -> Option<Lower> {
        let Top { log_value, gap } = end.top;
        let inside = end.squared <= self.squared_radius * (1.0 + 1e-9);
        (inside && end.settled).then(|| Lower {
            value: -log_value.min(0.0).exp_m1(),
            at_least: -(log_value + gap / self.curvature).min(0.0).exp_m1(),
        })
    }
}

fn check_magnitudes(name: &'static str, values: &[f64]) -> Result<()> {
    check_entries(name, values, "[-1e150, 1e150]", |v| v.abs() <= LARGEST)
}

/// The matrix, exactly symmetric and its rows padded, or the first pair of entries that differ.
fn symmetric(matrix: &[f64], n: usize) -> Result<Vec<f64>> {
    let stride = padded(n);
    let mut result = vec![0.0; n * stride];
    let size: Vec<f64> = (0..n).map(|i| matrix[i * n + i].abs().sqrt()).collect();
    for row in 0..n {
        result[row * stride + row] = matrix[row * n + row];
        for column in 0..row {
            let (below, above) = (matrix[row * n + column], matrix[column * n + row]);
            if (below - above).abs() > ROUNDING * (size[row] * size[column]) {
                return Err(Error::NotSymmetric {
                    name: "covariance",
                    row,
                    column,
                });
            }
            let middle = 0.5 * below + 0.5 * above;
            result[row * stride + column] = middle;
            result[column * stride + row] = middle;
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
    let stride = padded(n);
    let variances = (0..n).map(|i| covariance[i * stride + i]);
    let scale: Vec<f64> = variances.map(|c| c.max(0.0).sqrt()).collect();
    let inverse = |scale: &f64| if *scale == 0.0 { 0.0 } else { 1.0 / scale };
    let inverse: Vec<f64> = scale.iter().map(inverse).collect();
    for (row, i) in covariance.chunks_exact(stride).zip(0..n) {
        // what has no variance has no covariance, and no variance is negative
        let none = |j: usize| scale[i] == 0.0 || scale[j] == 0.0;
        if (0..n).any(|j| none(j) && row[j] != 0.0) {
            return Err(refuse(f64::NEG_INFINITY));
        }
    }
    let scaled = |i: usize, j: usize| covariance[i * stride + j] * inverse[i] * inverse[j];
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

/// Classes from which on a matrix is factored in blocks.
const BLOCKS: usize = 32;

/// `L` with `M = LLᵀ`, row-major, for a matrix with a unit diagonal that is far from singular.
fn cholesky(n: usize, entry: impl Fn(usize, usize) -> f64) -> Option<Vec<f64>> {
    let mut rows = vec![0.0; n * n];
    if n >= BLOCKS {
        let matrix = Mat::from_fn(n, n, |i, j| if j <= i { entry(i, j) } else { 0.0 });
        let factor = Llt::new(matrix.as_ref(), Side::Lower).ok()?;
        let factor = factor.L();
        for (i, row) in rows.chunks_exact_mut(n).enumerate() {
            let pivot = factor[(i, i)] * factor[(i, i)];
            if pivot.is_nan() || pivot < REGULAR {
                return None;
            }
            (row.iter_mut().take(i + 1).enumerate()).for_each(|(j, r)| *r = factor[(i, j)]);
        }
        return Some(rows);
    }
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

/// Takes their mean from all rows.
fn center(rows: &mut [f64], rank: usize) {
    if rank == 0 {
        return;
    }
    let count = (rows.len() / rank) as f64;
    let mut mean = vec![0.0; rank];
    for row in rows.chunks_exact(rank) {
        mean.iter_mut().zip(row).for_each(|(sum, r)| *sum += r);
    }
    mean.iter_mut().for_each(|sum| *sum /= count);
    for row in rows.chunks_exact_mut(rank) {
        row.iter_mut().zip(&mean).for_each(|(r, mean)| *r -= mean);
    }
}
