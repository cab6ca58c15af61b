//! How far the lower Gaussian can be widened: the smallest precision below a posterior in one
//! dimension, `Δ + sup_u ψ(u)`, and the common scaling `c` of the Laplace precision that was found
//! to be needed.
//!
//! In one dimension write `tᵢ` for `-yᵢ xᵢm` and `sᵢ` for `-yᵢ xᵢ`. With the remainder of softplus
//! beyond its tangent, `φᵢ(u) = softplus(tᵢ + sᵢu) - softplus(tᵢ) - σ(tᵢ)sᵢu ≥ 0`, and with
//! `Φ = Σ cᵢφᵢ`,
//!
//! `2(ℓ̂(m+u) - ℓ̂(m))/u² = Δ + ψ(u)`, `ψ(u) = 2Φ(u)/u² = 2∫₀¹ (1-τ) Φ''(τu) dτ`, `ψ(0) = Φ''(0)`.
//!
//! The supremum of `ψ` is found by branch and bound. On a cell of `u` the curvature `Φ''` is at
//! most `M = Σ cᵢsᵢ² max σ'` (each `σ'` falls away from 0, so its maximum is known), and
//!
//! * a cell `[0, b]` has `ψ ≤ M`, and `ψ ≤ ψ(0) + ⅓Φ'''(0)u + Σcᵢsᵢ⁴u²/96` because
//!   `abs(σ''') ≤ 1/8`;
//! * a cell away from 0 with a point `p` inside has `ψ(u) ≤ 2(Φ(p) + Φ'(p)(u-p) + ½M(u-p)²)/u²`, a
//!   parabola in `1/u`, whose maximum over the cell is known exactly;
//! * beyond `u = U`, softplus grows no faster than linearly: `ψ ≤ 2Σcᵢ abs(sᵢ)/U`.

use super::Regression;
use super::design::Design;
use super::kernel::{Demand, majorizer_curvature};
use super::marginal::Bounds;
use super::posterior::RegressionPosterior;
use crate::error::{Result, check_size, not_certified};
use crate::linear::{cholesky, difference, dot, multiply, solve};
use crate::numeric::{sigmoid, softplus};

/// Bracket of the widest lower precision, relative to its size.
const ACCURACY: f64 = 1e-11;

/// Relative rounding error allowed to the sums below: their terms are not negative and summed with
/// compensation, and each is good to a few dozen ulp.
const ROUNDING: f64 = 1e-13;

/// Cells after which the search gives up.
const MOST_CELLS: usize = 200_000;

impl Regression {
    /// The smallest precision of a Gaussian at the mode that lies below the posterior of a
    /// Bernoulli response, in one dimension: `sup_u 2(ℓ̂(m+u) - ℓ̂(m))/u²`, between two ends that
    /// differ by at most 1e-10 of it.
    ///
    /// The upper end is certified: the Gaussian with that precision lies below the posterior, up to
    /// the rounding of the mode itself. It costs a few hundred passes over the data.
    ///
    /// ```
    /// use possibility::regression::{Design, RegressionConfig, Response};
    /// let mut design = Design::new(Response::Bernoulli, 1)?;
    /// for (x, y) in [(0.5, 1.0), (2.0, 0.0), (1.0, 1.0)] {
    ///     design.push(&[x], y)?;
    /// }
    /// let model = RegressionConfig::default().build(1)?;
    /// let posterior = model.fit(&design)?;
    /// let widest = model.widest_lower_precision(&design, &posterior)?;
    /// assert!(posterior.laplace().precision()[(0, 0)] < widest.lower);
    /// let lower = posterior.lower().expect("a Bernoulli response has one");
    /// assert_eq!(widest.upper, lower.precision()[(0, 0)]);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is more than one column, the response is not Bernoulli, or the search needs too many
    /// cells.
    pub fn widest_lower_precision(
        &self,
        design: &Design,
        posterior: &RegressionPosterior,
    ) -> Result<Bounds> {
        check_size("columns", self.columns(), 1)?;
        check_size("columns of the design", design.columns(), 1)?;
        let parabolas = posterior.bernoulli_lower()?.precision()[(0, 0)];
        let remainder = Remainder::new(design, posterior.mode()[0]);
        let prior = self.prior_precision()[(0, 0)];
        let supremum = remainder.supremum(prior)?;
        Ok(Bounds {
            lower: prior + supremum.lower,
            // never worse than the sum of the parabolas
            upper: (prior + supremum.upper).min(parabolas),
        })
    }

    /// The largest `2(ℓ̂(w) - ℓ̂(m)) / (w-m)ᵀH(w-m)` that an ascent finds: no `cH` with a smaller
    /// `c` lies below the posterior, and [`RegressionPosterior::certified_scaling`] is enough.
    ///
    /// The ascent `w ← m + H⁻¹∇ℓ̂(w)/c` never lowers the ratio `c`, because `ℓ̂` lies above its
    /// tangent at `w`, and `w` maximizes tangent minus `½c(w-m)ᵀH(w-m)`. It starts in both
    /// directions of each coefficient and makes at most `steps` passes over the data for each.
    ///
    /// # Errors
    /// The design does not fit, or the response is not Bernoulli.
    pub fn least_scaling_found(
        &self,
        design: &Design,
        posterior: &RegressionPosterior,
        steps: usize,
    ) -> Result<f64> {
        check_size("columns of the design", design.columns(), self.columns())?;
        let mode = posterior.mode();
        let base = posterior.loss();
        let lower = posterior.bernoulli_lower()?;
        let factor = cholesky("Laplace precision", posterior.laplace().precision())?;
        // the limit at the mode itself
        let mut best: f64 = 1.0;
        for start in 0..2 * mode.len() {
            let j = start / 2;
            let deviation = lower.covariance()[(j, j)].sqrt();
            let sign = if start % 2 == 0 { 3.0 } else { -3.0 };
            let mut point = mode.to_vec();
            point[j] += sign * deviation;
            let mut reached: f64 = 0.0;
            for _ in 0..steps {
                let at = self.regularize(design, &point, Demand::Gradient);
                let gap = difference(&point, mode);
                let pull = multiply(posterior.laplace().precision(), &gap);
                let ratio = 2.0 * (at.loss - base) / dot(&gap, &pull);
                let gained = ratio - reached;
                if gained.is_nan() || gained <= f64::EPSILON * reached {
                    break;
                }
                reached = ratio;
                let direction = solve(factor.as_ref(), &at.gradient);
                for (w, (m, p)) in point.iter_mut().zip(mode.iter().zip(&direction)) {
                    *w = m + p / ratio;
                }
            }
            best = best.max(reached);
        }
        Ok(posterior
            .certified_scaling()
            .map_or(best, |certified| best.min(certified)))
    }
}

/// `Φ` with its derivatives.
struct Remainder {
    /// `(tᵢ, sᵢ, cᵢ)`, rows that do not matter left out.
    rows: Vec<(f64, f64, f64)>,
}

/// An interval of `u` on one side of the mode, its ends by size, and a bound of `ψ` over it.
#[derive(Clone, Copy)]
struct Cell {
    near: f64,
    far: f64,
    side: f64,
    bound: f64,
}

impl Remainder {
    fn new(design: &Design, mode: f64) -> Self {
        let rows = (0..design.rows())
            .map(|i| {
                let sign = 1.0 - 2.0 * design.observed(i);
                let s = sign * design.row(i)[0];
                (s * mode, s, design.weight(i))
            })
            .filter(|&(_, s, c)| s != 0.0 && c != 0.0)
            .collect();
        Self { rows }
    }

    fn sum(&self, term: impl Fn(f64, f64) -> f64) -> f64 {
        let (mut sum, mut lost) = (0.0f64, 0.0);
        for &(t, s, c) in &self.rows {
            let term = c * term(t, s);
            let next = sum + term;
            lost += if sum.abs() >= term.abs() {
                (sum - next) + term
            } else {
                (term - next) + sum
            };
            sum = next;
        }
        sum + lost
    }

    /// `ψ(u)`.
    fn ratio(&self, u: f64) -> f64 {
        self.sum(|t, s| 2.0 * s * s * softplus_remainder(t, s * u))
    }

    /// `Φ'(u)/u`.
    fn slope_ratio(&self, u: f64) -> f64 {
        self.sum(|t, s| s * s * sigmoid_quotient(t, s * u))
    }

    /// `M`: an upper bound of `Φ''` between `near` and `far` on one side.
    fn curvature_bound(&self, near: f64, far: f64) -> f64 {
        self.sum(|t, s| {
            let (a, b) = (t + s * near, t + s * far);
            let nearest = if (a > 0.0) == (b > 0.0) {
                a.abs().min(b.abs())
            } else {
                0.0
            };
            s * s * sigmoid_slope(nearest)
        })
    }

    /// Bound of `ψ` over a cell, and `ψ` at a point of it.
    fn bound(&self, near: f64, far: f64, side: f64) -> (f64, f64) {
        let m = self.curvature_bound(side * near, side * far);
        if near == 0.0 {
            let at_mode = self.ratio(0.0);
            let third = side * self.sum(|t, s| s * s * s * sigmoid_second_slope(t));
            let fourth = self.sum(|_, s| s.powi(4)) / 96.0;
            // the bound is convex in u: its maximum is at an end
            let cubic = at_mode + (third / 3.0 * far + fourth * far * far).max(0.0);
            return (m.min(cubic), self.ratio(side * far));
        }
        let p = near + 0.5 * (far - near);
        let ratio = self.ratio(side * p);
        let slope = self.slope_ratio(side * p);
        // in q = p/u: 2Φ/u² ≤ (ψ - 2Φ'/p + M)q² + 2(Φ'/p - M)q + M
        let (square, linear) = (ratio - 2.0 * slope + m, 2.0 * (slope - m));
        let parabola = |q: f64| (square * q + linear) * q + m;
        let (least, most) = (p / far, p / near);
        let mut bound = parabola(least).max(parabola(most));
        if square < 0.0 {
            let vertex = -linear / (2.0 * square);
            if least < vertex && vertex < most {
                bound = bound.max(parabola(vertex));
            }
        }
        (bound, ratio)
    }

    /// The supremum of `ψ`, to [`ACCURACY`] of `prior + sup ψ`.
    fn supremum(&self, prior: f64) -> Result<Bounds> {
        if self.rows.is_empty() {
            return Ok(Bounds {
                lower: 0.0,
                upper: 0.0,
            });
        }
        let parabolas = self.sum(|t, s| s * s * majorizer_curvature(t));
        let mut best = self.ratio(0.0);
        // where the parabolas of some rows touch again
        let stride = self.rows.len().div_ceil(32);
        for &(t, s, _) in self.rows.iter().step_by(stride) {
            let u = -2.0 * t / s;
            if u.is_finite() {
                best = best.max(self.ratio(u));
            }
        }
        let reach = 2.0 * self.sum(|_, s| s.abs()) / best.max(f64::MIN_POSITIVE);
        let accuracy = |best: f64| ACCURACY * (prior + best);
        if parabolas - best <= accuracy(best) {
            return Ok(Bounds {
                lower: best,
                upper: parabolas * (1.0 + ROUNDING),
            });
        }
        if !reach.is_finite() {
            return Err(not_certified(
                "no curvature within reach of f64",
                prior + best,
                prior + parabolas,
            ));
        }
        let mut cells = std::collections::BinaryHeap::new();
        for side in [-1.0, 1.0] {
            cells.push(Cell {
                near: 0.0,
                far: reach,
                side,
                bound: parabolas,
            });
        }
        let mut count = cells.len();
        while let Some(cell) = cells.pop() {
            if cell.bound <= best + accuracy(best) || count > MOST_CELLS {
                let upper = cell.bound.max(best) * (1.0 + ROUNDING);
                if cell.bound <= best + accuracy(best) {
                    return Ok(Bounds { lower: best, upper });
                }
                return Err(not_certified(
                    "too many cells for the widest lower precision",
                    prior + best,
                    prior + upper,
                ));
            }
            // far apart ends are halved on a log scale
            let middle = if cell.near > 0.0 && cell.far > 4.0 * cell.near {
                (cell.near * cell.far).sqrt()
            } else if cell.near == 0.0 {
                0.125 * cell.far
            } else {
                cell.near + 0.5 * (cell.far - cell.near)
            };
            for (near, far) in [(cell.near, middle), (middle, cell.far)] {
                let (bound, value) = self.bound(near, far, cell.side);
                best = best.max(value);
                count += 1;
                cells.push(Cell {
                    near,
                    far,
                    side: cell.side,
                    bound: bound.min(cell.bound),
                });
            }
        }
        Ok(Bounds {
            lower: best,
            upper: best * (1.0 + ROUNDING),
        })
    }
}

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Cell {}

impl PartialOrd for Cell {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cell {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bound.total_cmp(&other.bound)
    }
}

/// `σ'(z) = σ(z)σ(-z)`.
fn sigmoid_slope(z: f64) -> f64 {
    sigmoid(z) * sigmoid(-z)
}

/// `σ''(z) = -σ'(z) tanh(z/2)`.
fn sigmoid_second_slope(z: f64) -> f64 {
    -sigmoid_slope(z) * (0.5 * z).tanh()
}

/// Nodes and weights of the eight-point Gauss-Legendre rule on `[0, 1]`.
const GAUSS: [(f64, f64); 8] = [
    (0.019_855_071_751_231_884, 0.050_614_268_145_188_13),
    (0.101_666_761_293_186_63, 0.111_190_517_226_687_24),
    (0.237_233_795_041_835_5, 0.156_853_322_938_943_65),
    (0.408_282_678_752_175_1, 0.181_341_891_689_181),
    (0.591_717_321_247_825, 0.181_341_891_689_181),
    (0.762_766_204_958_164_5, 0.156_853_322_938_943_65),
    (0.898_333_238_706_813_4, 0.111_190_517_226_687_24),
    (0.980_144_928_248_768_1, 0.050_614_268_145_188_13),
];

/// Up to here the integral forms are used, whose integrand is analytic within `π` of the real axis,
/// so that eight nodes give full precision; beyond, the differences do not cancel.
const NEAR: f64 = 1.0;

/// `(softplus(t+d) - softplus(t) - σ(t)d)/d²`, half of `σ'(t)` at `d = 0`.
pub(super) fn softplus_remainder(t: f64, d: f64) -> f64 {
    // softplus(z) - z/2 is even: turn to the side where softplus is small
    let (t, d) = if t > 0.0 { (-t, -d) } else { (t, d) };
    if d.abs() < NEAR {
        GAUSS
            .iter()
            .map(|&(x, w)| w * (1.0 - x) * sigmoid_slope(t + x * d))
            .sum()
    } else {
        (softplus(t + d) - softplus(t) - sigmoid(t) * d) / d / d
    }
}

/// `(σ(t+d) - σ(t))/d`, `σ'(t)` at `d = 0`.
fn sigmoid_quotient(t: f64, d: f64) -> f64 {
    let (t, d) = if t > 0.0 { (-t, -d) } else { (t, d) };
    if d.abs() < NEAR {
        GAUSS
            .iter()
            .map(|&(x, w)| w * sigmoid_slope(t + x * d))
            .sum()
    } else {
        (sigmoid(t + d) - sigmoid(t)) / d
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regression::tests::{around, build};
    use crate::regression::{PriorPrecision, RegressionConfig, Response};
    use proptest::prelude::*;

    #[test]
    fn the_gauss_rule_integrates_powers() {
        for power in 0..16 {
            let sum: f64 = GAUSS.iter().map(|&(x, w)| w * x.powi(power)).sum();
            let exact = 1.0 / f64::from(power + 1);
            assert!((sum - exact).abs() < 1e-15, "x^{power}: {sum} for {exact}");
        }
    }

    #[test]
    fn both_forms_of_the_quotients_meet() {
        for t in [-40.0, -3.0, -0.2, 0.0, 0.7, 5.0, 40.0] {
            for side in [-1.0, 1.0] {
                let (below, above) = (side * (NEAR - 1e-15), side * NEAR);
                let (a, b) = (softplus_remainder(t, below), softplus_remainder(t, above));
                assert!((a - b).abs() < 2e-14 * b, "remainder at {t}: {a} and {b}");
                let (a, b) = (sigmoid_quotient(t, below), sigmoid_quotient(t, above));
                assert!((a - b).abs() < 2e-14 * b, "quotient at {t}: {a} and {b}");
            }
            assert!((softplus_remainder(t, 0.0) - 0.5 * sigmoid_slope(t)).abs() < 1e-16);
        }
    }

    #[test]
    fn a_symmetric_posterior_is_widest_at_the_mode() {
        // mode 0 and no third derivative: the supremum is the curvature at the mode itself
        let mut design = Design::new(Response::Bernoulli, 1).unwrap();
        design.push(&[1.5], 1.0).unwrap();
        design.push(&[1.5], 0.0).unwrap();
        let model = RegressionConfig::default().build(1).unwrap();
        let posterior = model.fit(&design).unwrap();
        let widest = model.widest_lower_precision(&design, &posterior).unwrap();
        let curvature = 1.0 + 2.0 * 2.25 * 0.25;
        assert!((widest.lower - curvature).abs() < 1e-12);
        assert!((widest.upper - curvature).abs() < 1e-10);
    }

    #[test]
    fn refuses_more_than_one_dimension() {
        let design = Design::with_intercept(Response::Bernoulli, 1);
        let model = RegressionConfig::default().build(2).unwrap();
        let posterior = model.fit(&design).unwrap();
        assert!(model.widest_lower_precision(&design, &posterior).is_err());
    }

    fn designs() -> impl Strategy<Value = Vec<(f64, bool)>> {
        prop::collection::vec((-4.0..4.0f64, any::<bool>()), 1..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn the_bracket_is_narrow_and_no_point_of_a_grid_is_above_it(
            rows in designs(),
            precision in 0.05..4.0f64,
            center in -2.0..2.0f64,
        ) {
            let mut design = Design::new(Response::Bernoulli, 1).unwrap();
            for &(x, y) in &rows {
                design.push(&[x], f64::from(u8::from(y))).unwrap();
            }
            let model = around(&[center], PriorPrecision::Scalar(precision));
            let posterior = model.fit(&design).unwrap();
            let widest = model.widest_lower_precision(&design, &posterior).unwrap();
            prop_assert!(widest.upper - widest.lower <= 1e-10 * widest.upper);
            prop_assert!(widest.upper <= posterior.lower().unwrap().precision()[(0, 0)]);
            prop_assert!(widest.lower >= posterior.laplace().precision()[(0, 0)] * (1.0 - 1e-12));
            let mode = posterior.mode()[0];
            let mut largest: f64 = 0.0;
            for i in 1..400 {
                for u in [0.05 * f64::from(i), -0.05 * f64::from(i)] {
                    let loss = model.regularized_loss(&design, &[mode + u]).unwrap();
                    largest = largest.max(2.0 * (loss + posterior.log_consistency()) / (u * u));
                }
            }
            prop_assert!(largest <= widest.upper * (1.0 + 1e-10), "{} above {}", largest, widest.upper);
            // the ascent works from below
            let found = model.least_scaling_found(&design, &posterior, 200).unwrap()
                * posterior.laplace().precision()[(0, 0)];
            prop_assert!(found <= widest.upper * (1.0 + 1e-10), "{} above {}", found, widest.upper);
        }

        #[test]
        fn the_scaling_found_is_at_most_the_certified_one(rows in designs(), precision in 0.05..4.0f64) {
            let mut design = Design::with_intercept(Response::Bernoulli, 1);
            for &(x, y) in &rows {
                design.push(&[x], f64::from(u8::from(y))).unwrap();
            }
            let model = build(PriorPrecision::Scalar(precision), 2);
            let posterior = model.fit(&design).unwrap();
            let found = model.least_scaling_found(&design, &posterior, 40).unwrap();
            prop_assert!(found >= 1.0 && found <= posterior.certified_scaling().unwrap());
        }
    }
}
