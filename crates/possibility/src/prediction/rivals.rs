//! What the rivals of a class reach one at a time ([`Pair`](super::pair::Pair), all of them at
//! once), and what is certain of them together.

use super::climb::Field;
use super::lanes::{
    Eight, LANES, Task, dot, exponentials, largest, largest_of, logistic, map_four, map_two, one,
    three, two, widest,
};
use crate::numeric::{exp_negative, log_1p_unit, x_log_x};

/// A step of Newton's method after which a root is exact to rounding: the next would be half its
/// square.
const LAST_STEP: f64 = 1e-8;

/// All classes but one, whose place, like the padding, holds a rival that reaches nothing.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// `m_j`: how far the rival is ahead; minus infinity for none.
    pub margin: Vec<f64>,
    /// `v_j`: of the difference of the two logits.
    pub variance: Vec<f64>,
    /// The share `s` of each [`Pair`](super::pair::Pair), and the log of its supremum.
    pub share: Vec<f64>,
    pub log_supremum: Vec<f64>,
    /// Variances of the logits.
    diagonal: Vec<f64>,
    weights: Vec<f64>,
}

/// `log x` to a tenth, for a positive number.
#[inline(always)]
fn about_log(x: f64) -> f64 {
    /// The bits of 1, and how many there are from one power of two to the next.
    const ONE: i64 = 0x3ff0_0000_0000_0000;
    const POWER: f64 = 4_503_599_627_370_496.0;
    (x.to_bits() as i64 - ONE) as f64 * (std::f64::consts::LN_2 / POWER)
}

impl Rivals {
    /// Takes margins and variances of the rivals of a class.
    fn fill(&mut self, field: &Field<'_>, class: usize) {
        let stride = field.mode.len();
        self.resize(stride);
        self.diagonal.clear();
        let diagonal = (0..field.classes).map(|j| field.row(j)[j]);
        self.diagonal.extend(diagonal);
        self.diagonal.resize(stride, 0.0);
        let (row, own) = (field.row(class), self.diagonal[class]);
        let (mode, at) = (field.mode, field.mode[class]);
        map_two(&mut self.margin, mode, mode, |z, _| z - at);
        map_two(&mut self.variance, &self.diagonal, row, |other, cross| {
            let between = other + own - 2.0 * cross;
            if between > 0.0 { between } else { 0.0 }
        });
        self.margin[class] = f64::NEG_INFINITY;
        self.variance[class] = 0.0;
        self.variance[field.classes..].fill(0.0);
    }

    fn resize(&mut self, stride: usize) {
        for vector in [
            &mut self.margin,
            &mut self.variance,
            &mut self.share,
            &mut self.log_supremum,
            &mut self.weights,
        ] {
            vector.resize(stride, 0.0);
        }
    }

    /// Solves the pairs of a class with all its rivals.
    pub(super) fn solve(&mut self, field: &Field<'_>, class: usize) {
        self.fill(field, class);
        widest(Solve(self));
    }

    /// Certified upper end of `log P̄(not y)`, and `log P(not y)` at the mode.
    pub(super) fn log_ends(&mut self, strongest: usize) -> (f64, f64) {
        widest(Ends(self, strongest))
    }

    /// What rival `j` reaches where it leads all rivals and no farther than `distance` from the
    /// mode: an upper end of all values there. The rivals together are worth
    /// `Σ_i min(1, exp(m_i - m_j + distance √v_ij))` of it.
    pub(super) fn log_reach(&mut self, field: &Field<'_>, j: usize, distance: f64) -> f64 {
        widest(Reach(self, field, j, distance))
    }

    #[inline(always)]
    fn solve_pairs<const FUSED: bool>(&mut self) {
        let inputs = (self.margin.as_chunks().0.iter()).zip(self.variance.as_chunks().0);
        let outputs = self.share.as_chunks_mut().0.iter_mut();
        let outputs = outputs.zip(self.log_supremum.as_chunks_mut().0);
        for ((margin, variance), (share, log_supremum)) in inputs.zip(outputs) {
            (*share, *log_supremum) = pairs::<FUSED>(*margin, *variance);
        }
    }

    /// A certified upper end of `log P̄(not y)`, from the rivals' own problems: the sum of what
    /// they reach, or `min_s s log Σ_j exp(m_j + ½ s v_j) - h(s)`.
    #[inline(always)]
    fn log_ceiling<const FUSED: bool>(&mut self, strongest: usize) -> f64 {
        let most = self.log_supremum[strongest];
        self.weights.copy_from_slice(&self.log_supremum);
        let sum = most + exponentials::<FUSED>(&mut self.weights, most).ln();
        // convex in the share, and every share gives a bound: where the derivative in the share,
        // L + ½ s E[v] + t for the logit t of the share, changes its sign; for the strongest rival
        // alone that is where its own problem has its share
        let (mut low, mut high) = (-745.0f64, 40.0f64);
        let share = self.share[strongest];
        let mut t = (share.ln() - (-share).ln_1p()).clamp(low + 1.0, high - 1.0);
        let mut best = 0.0f64;
        for _ in 0..120 {
            let [share, rest, ..] = logistic::<FUSED>(t);
            let (log_sum, mean, spread) = self.tilted::<FUSED>(share);
            let entropy = -x_log_x(share) - x_log_x(rest);
            best = best.min(share * log_sum - entropy);
            let slope = log_sum + 0.5 * share * mean + t;
            if slope > 0.0 {
                high = t;
            } else {
                low = t;
            }
            let bend = 1.0 + share * rest * (mean + 0.25 * share * spread);
            let newton = t - slope / bend;
            let next = if newton > low && newton < high {
                newton
            } else {
                0.5 * (low + high)
            };
            if (next - t).abs() <= 1e-6 * (1.0 + t.abs()) {
                break;
            }
            t = next;
        }
        best.min(self.tilted::<FUSED>(1.0).0).min(sum)
    }

    /// `log P(not y)` at the mode.
    #[inline(always)]
    fn log_at_mode<const FUSED: bool>(&mut self) -> f64 {
        let ahead = self.tilted::<FUSED>(0.0).0;
        logistic::<FUSED>(ahead)[2]
    }

    /// `L = log Σ_j exp(m_j + ½ s v_j)`, and mean and variance of the `v_j` with the weights in it.
    #[inline(always)]
    fn tilted<const FUSED: bool>(&mut self, share: f64) -> (f64, f64, f64) {
        map_two(&mut self.weights, &self.margin, &self.variance, |m, v| {
            m + 0.5 * share * v
        });
        let most = largest(&self.weights);
        let sum = exponentials::<FUSED>(&mut self.weights, most);
        let mean = dot::<FUSED>(&self.weights, &self.variance) / sum;
        let mut squares = [0.0; LANES];
        let pairs = (self.weights.as_chunks::<LANES>().0.iter()).zip(self.variance.as_chunks().0);
        for (w, v) in pairs {
            squares = three(squares, *w, *v, |sum, w, v| {
                sum + w * (v - mean) * (v - mean)
            });
        }
        let spread = squares.iter().sum::<f64>() / sum;
        (most + sum.ln(), mean, spread)
    }

    #[inline(always)]
    fn reach<const FUSED: bool>(&mut self, field: &Field<'_>, j: usize, distance: f64) -> f64 {
        let (margin, variance) = (self.margin[j], self.variance[j]);
        let (row, own) = (field.row(j), self.diagonal[j]);
        let from = [row, &self.diagonal, &self.margin, row];
        map_four(&mut self.weights, from, |[cross, other, m, _]| {
            let between = own + other - 2.0 * cross;
            let between = if between > 0.0 { between } else { 0.0 };
            let ahead = m - margin + distance * between.sqrt();
            if ahead < 0.0 { ahead } else { 0.0 }
        });
        let crowd = exponentials::<FUSED>(&mut self.weights, 0.0).ln();
        pairs::<FUSED>([margin + crowd; LANES], [variance; LANES]).1[0]
    }
}

struct Solve<'a>(&'a mut Rivals);

impl Task for Solve<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        self.0.solve_pairs::<FUSED>();
    }
}

struct Ends<'a>(&'a mut Rivals, usize);

impl Task for Ends<'_> {
    type Output = (f64, f64);

    #[inline(always)]
    fn run<const FUSED: bool>(self) -> (f64, f64) {
        let Self(rivals, strongest) = self;
        (
            rivals.log_ceiling::<FUSED>(strongest),
            rivals.log_at_mode::<FUSED>(),
        )
    }
}

struct Reach<'a>(&'a mut Rivals, &'a Field<'a>, usize, f64);

impl Task for Reach<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<const FUSED: bool>(self) -> f64 {
        let Self(rivals, field, j, distance) = self;
        rivals.reach::<FUSED>(field, j, distance)
    }
}

/// Eight pairs, as [`Pair::new`](super::pair::Pair::new) solves one: the shares, and the logs of
/// the suprema.
#[inline(always)]
fn pairs<const FUSED: bool>(margin: Eight, variance: Eight) -> (Eight, Eight) {
    // a rival that there is not is far behind
    let missing = |m: f64| m < -1e300;
    let at = one(margin, |m| if missing(m) { -1.0 } else { m });
    let (mut low, mut high) = (at, two(at, variance, |m, v| m + v));
    // near the root: v e^-x = x - m where the root is positive
    let mut x = two(at, variance, |m, v| {
        let log = about_log(if v > 1.0 { v } else { 1.0 });
        let rest = if log - m > 1.0 { log - m } else { 1.0 };
        let near = if v > 1.0 { log - about_log(rest) } else { m };
        let near = if near > m { near } else { m };
        if near < m + v { near } else { m + v }
    });
    for _ in 0..200 {
        let small = one(x, |x| exp_negative::<FUSED>(x.abs()).0);
        let more = one(small, |e| 1.0 / (1.0 + e));
        let less = two(small, more, |e, more| e * more);
        let own = three(
            x,
            more,
            less,
            |x, more, less| if x >= 0.0 { less } else { more },
        );
        let rest = three(
            x,
            more,
            less,
            |x, more, less| if x >= 0.0 { more } else { less },
        );
        let pull = two(variance, own, |v, own| v * own);
        let excess = three(x, at, pull, |x, m, pull| x - m - pull);
        high = three(excess, x, high, |e, x, high| if e > 0.0 { x } else { high });
        low = three(excess, x, low, |e, x, low| if e > 0.0 { low } else { x });
        let bend = two(pull, rest, |pull, rest| 1.0 + pull * rest);
        let newton = three(x, excess, bend, |x, excess, bend| x - excess / bend);
        // 1 where it stays inside
        let inside = three(newton, low, high, |to, low, high| {
            let above = if to >= low { 1.0 } else { 0.0 };
            if to <= high { above } else { 0.0 }
        });
        let middle = two(low, high, |low, high| 0.5 * low + 0.5 * high);
        let next = three(inside, newton, middle, |is, newton, middle| {
            if is > 0.0 { newton } else { middle }
        });
        let over = three(next, x, inside, |next, x, inside| {
            (next - x).abs() - 4.0 * f64::EPSILON * x.abs() - LAST_STEP * inside
        });
        x = next;
        if largest_of(over) <= 0.0 {
            break;
        }
    }
    let small = one(x, |x| exp_negative::<FUSED>(x.abs()).0);
    let log = one(small, log_1p_unit::<FUSED>);
    let share = two(x, small, |x, e| {
        let more = 1.0 / (1.0 + e);
        if x < 0.0 { more } else { e * more }
    });
    let log_own = two(x, log, |x, log| if x < 0.0 { x - log } else { -log });
    let price = two(share, variance, |s, v| 0.5 * s * (s * v));
    let log_supremum = three(margin, log_own, price, |m, log, price| {
        if missing(m) {
            f64::NEG_INFINITY
        } else {
            log - price
        }
    });
    (share, log_supremum)
}

#[cfg(test)]
mod tests {
    use super::super::pair::Pair;
    use super::*;
    use crate::numeric::log_sum_exp;

    fn rivals(margin: &[f64], variance: &[f64]) -> Rivals {
        let mut rivals = Rivals::default();
        rivals.resize(margin.len().next_multiple_of(LANES));
        rivals.margin.fill(f64::NEG_INFINITY);
        rivals.margin[..margin.len()].copy_from_slice(margin);
        rivals.variance[..margin.len()].copy_from_slice(variance);
        rivals
    }

    #[test]
    fn all_pairs_at_once_are_those_one_at_a_time() {
        let margins = [
            -1e100, -1e8, -1e3, -30.0, -5.5, -1.0, -1e-3, 0.0, 0.4, 3.0, 40.0, 1e3, 1e100,
        ];
        for variance in [0.0, 1e-300, 1e-8, 0.1, 1.0, 7.0, 300.0, 1e6, 1e12, 1e100] {
            let mut found = rivals(&margins, &[variance; 13]);
            for scalar in [false, true] {
                match scalar {
                    true => Solve(&mut found).run::<false>(),
                    false => widest(Solve(&mut found)),
                }
                for (l, &margin) in margins.iter().enumerate() {
                    let want = Pair::new(margin, variance);
                    let size = 1.0 + want.log_supremum.abs();
                    let off = (found.log_supremum[l] - want.log_supremum).abs();
                    assert!(off <= 1e-14 * size, "{margin} {variance}: {off}");
                    let off = (found.share[l] - want.share).abs();
                    assert!(off <= 1e-14, "{margin} {variance}: {off}");
                }
                assert_eq!(found.log_supremum[13], f64::NEG_INFINITY);
            }
        }
    }

    #[test]
    fn the_ceiling_is_the_least_over_all_shares() {
        let margin = [-1.0, -1.5, -3.0, 0.2, -8.0];
        let variance = [2.0, 4.0, 0.5, 0.1, 30.0];
        let mut found = rivals(&margin, &variance);
        found.solve_pairs::<false>();
        let strongest = (0..5).max_by(|&a, &b| {
            let log = &found.log_supremum;
            log[a].total_cmp(&log[b])
        });
        let ceiling = found.log_ceiling::<false>(strongest.unwrap());
        let sum = log_sum_exp(found.log_supremum[..5].iter().copied());
        let least = (1..=100_000).map(|i| {
            let s = f64::from(i) * 1e-5;
            let terms = margin.iter().zip(&variance);
            let log_sum = log_sum_exp(terms.map(|(m, v)| m + 0.5 * s * v));
            s * log_sum + x_log_x(s) + x_log_x(1.0 - s)
        });
        let least = least.fold(sum.min(0.0), f64::min);
        assert!(
            ceiling <= least + 1e-12 && ceiling >= least - 1e-9,
            "{ceiling} {least}"
        );
        // no rival reaches more
        assert!(found.log_supremum.iter().all(|q| *q <= ceiling));
    }

    #[test]
    fn where_it_leads_a_rival_is_worth_all_that_are_near() {
        // three rivals of the last class: the second can catch up with the first, the third cannot
        let mut mode = [f64::NEG_INFINITY; 8];
        mode[..4].copy_from_slice(&[-1.0, -1.0, -9.0, 0.0]);
        let mut covariance = [0.0; 32];
        for (class, variance) in [0.5, 0.5, 3.5, 1.5].into_iter().enumerate() {
            covariance[9 * class] = variance;
        }
        let field = Field {
            mode: &mode,
            covariance: &covariance,
            classes: 4,
            rank: 4,
        };
        let mut found = Rivals::default();
        found.fill(&field, 3);
        assert_eq!(found.margin[..4], [-1.0, -1.0, -9.0, f64::NEG_INFINITY]);
        assert_eq!(found.variance[..5], [2.0, 2.0, 5.0, 0.0, 0.0]);
        let reach = found.reach::<false>(&field, 0, 0.5);
        let crowd = (2.0 + (-7.0f64).exp()).ln();
        let want = Pair::new(-1.0 + crowd, 2.0).log_supremum;
        assert!((reach - want).abs() < 1e-14);
    }
}
