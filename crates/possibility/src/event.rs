//! Events of ℝᵈ and their possibility under a normal, `sup_A N̄(·; μ, Σ) = exp(-½ dist²(μ, A))`
//! with the Mahalanobis distance `dist²(μ, A) = inf_{θ ∈ A} (θ-μ)ᵀΣ⁻¹(θ-μ)`. Paper: Section 2.
//!
//! | event `A` | `dist²(μ, A)` if `μ ∉ A` | of the complement if `μ ∈ A` |
//! |---|---|---|
//! | point, finite set | smallest distance to a point | 0 |
//! | half-space `aᵀθ ≥ b` | `(b - aᵀμ)² / aᵀΣa` | the same |
//! | box | strictly convex program with bounds, active-set method and duality certificate | nearest face, `(bᵢ - μᵢ)² / Σᵢᵢ` |
//! | α-cut of the normal itself | (contains `μ`) | `-2 log α` |
//! | α-cut of another normal | secular equation, duality certificate | the same, with its hard case |
//!
//! A normal is continuous, so that an event and its closure have the same possibility.

use faer::Mat;

use crate::error::{Error, Result, check, check_finite, check_numbers, check_size, not_certified};
use crate::function::{Measure, Possibility};
use crate::linear;
use crate::normal::{Ellipsoid, Normal};
use crate::set::{Interval, RealSet};

/// Width of the certified bracket around a log possibility, relative to `max(1, |log|)`: a tenth of
/// what a possibility known to nine digits allows, far above the rounding of well-posed problems.
const CERTIFIED: f64 = 1e-10;

/// A subset of ℝᵈ.
///
/// ```
/// use possibility::event::Region;
/// use possibility::set::Interval;
/// use possibility::{Measure, Normal};
///
/// let f = Normal::isotropic([0.0, 0.0], 1.0)?;
/// let quadrant = Region::Box(vec![Interval::at_least(1.0)?, Interval::at_least(-1.0)?]);
/// assert_eq!(f.log_possibility_of(&quadrant)?, -0.5);
/// assert_eq!(f.necessity_of(&quadrant)?, 0.0);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Region {
    /// No point.
    Empty,
    /// Every point.
    Everything,
    /// One point.
    Point(Vec<f64>),
    /// Finitely many points, possibly none.
    Finite(Vec<Vec<f64>>),
    /// The product of one interval per coordinate.
    Box(Vec<Interval>),
    /// `{θ : aᵀθ ≥ b}` with `a ≠ 0`; `b` may be infinite.
    HalfSpace {
        /// `a`.
        normal: Vec<f64>,
        /// `b`.
        offset: f64,
    },
    /// An α-cut of this or another normal.
    Ellipsoid(Ellipsoid),
    /// The points outside another region.
    Complement(Box<Region>),
}

impl Region {
    /// The points outside, with `¬¬A = A`.
    pub fn complement(self) -> Self {
        match self {
            Self::Empty => Self::Everything,
            Self::Everything => Self::Empty,
            Self::Complement(inner) => *inner,
            other => Self::Complement(Box::new(other)),
        }
    }

    /// Whether a point, of the dimension of the region, belongs to it.
    ///
    /// # Errors
    /// The dimensions differ, or the region is malformed.
    pub fn contains(&self, point: &[f64]) -> Result<bool> {
        self.check(point.len())?;
        Ok(match self {
            Self::Empty => false,
            Self::Everything => true,
            Self::Point(p) => p == point,
            Self::Finite(points) => points.iter().any(|p| p == point),
            Self::Box(sides) => sides.iter().zip(point).all(|(side, &x)| side.contains(x)),
            Self::HalfSpace { normal, offset } => linear::dot(normal, point) >= *offset,
            Self::Ellipsoid(ellipsoid) => ellipsoid.contains(point),
            Self::Complement(inner) => !inner.contains(point)?,
        })
    }

    /// `Ok(())` if the region lies in a space of this dimension.
    fn check(&self, dimension: usize) -> Result<()> {
        let check_point = |name, point: &[f64]| {
            check_size(name, point.len(), dimension)?;
            check_numbers(name, point)
        };
        match self {
            Self::Empty | Self::Everything => Ok(()),
            Self::Point(point) => check_point("point", point),
            Self::Finite(points) => points.iter().try_for_each(|p| check_point("point", p)),
            Self::Box(sides) => check_size("sides of the box", sides.len(), dimension),
            Self::HalfSpace { normal, offset } => {
                check_size("normal of the half-space", normal.len(), dimension)?;
                check_finite("normal of the half-space", normal)?;
                if normal.iter().all(|&a| a == 0.0) {
                    return Err(Error::OutOfRange {
                        field: "length of the half-space's normal",
                        value: 0.0,
                        range: "(0, inf)",
                    });
                }
                check("offset of the half-space", *offset, "[-inf, inf]", |_| true)?;
                Ok(())
            }
            Self::Ellipsoid(ellipsoid) => check_size(
                "dimension of the ellipsoid",
                ellipsoid.normal().dimension(),
                dimension,
            ),
            Self::Complement(inner) => inner.check(dimension),
        }
    }
}

impl From<Ellipsoid> for Region {
    fn from(ellipsoid: Ellipsoid) -> Self {
        Self::Ellipsoid(ellipsoid)
    }
}

impl From<Vec<Interval>> for Region {
    fn from(sides: Vec<Interval>) -> Self {
        Self::Box(sides)
    }
}

impl Measure<Region> for Normal {
    /// # Errors
    /// The region has another dimension or is malformed; [`Error::NotCertified`] if the nearest
    /// point of a box or of another normal's α-cut cannot be certified, with bounds for the log
    /// possibility.
    fn log_possibility_of(&self, event: &Region) -> Result<f64> {
        event.check(self.dimension())?;
        log_sup(self, event)
    }

    fn log_possibility_of_complement(&self, event: &Region) -> Result<f64> {
        event.check(self.dimension())?;
        log_sup_outside(self, event)
    }
}

impl Measure<RealSet> for Normal {
    /// # Errors
    /// The normal has more than one coordinate.
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        check_size("dimension", self.dimension(), 1)?;
        let mode = self.mode()[0];
        Ok(event.supremum(mode, |x| self.log_possibility(&[x])))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

/// `log sup_A f`.
fn log_sup(f: &Normal, event: &Region) -> Result<f64> {
    match event {
        Region::Empty => Ok(f64::NEG_INFINITY),
        Region::Everything => Ok(0.0),
        Region::Point(point) => Ok(f.log_possibility(point)),
        Region::Finite(points) => Ok(points
            .iter()
            .map(|point| f.log_possibility(point))
            .fold(f64::NEG_INFINITY, f64::max)),
        Region::Box(sides) => log_sup_box(f, sides),
        Region::HalfSpace { normal, offset } => Ok(half_space(
            f,
            normal,
            offset - linear::dot(normal, f.mode()),
        )),
        Region::Ellipsoid(ellipsoid) => log_sup_ellipsoid(f, ellipsoid),
        Region::Complement(inner) => log_sup_outside(f, inner),
    }
}

/// `log sup_{Aᶜ} f`.
fn log_sup_outside(f: &Normal, event: &Region) -> Result<f64> {
    match event {
        Region::Empty => Ok(0.0),
        Region::Everything => Ok(f64::NEG_INFINITY),
        // points removed from a continuum leave the supremum as it is
        Region::Point(_) | Region::Finite(_) => Ok(0.0),
        Region::Box(sides) => Ok(sides
            .iter()
            .enumerate()
            .map(|(i, side)| {
                let mode = f.mode()[i];
                let variance = f.covariance()[(i, i)];
                let beyond = |depth: f64| {
                    if depth > 0.0 {
                        -0.5 * depth * (depth / variance)
                    } else {
                        0.0
                    }
                };
                beyond(mode - side.lower()).max(beyond(side.upper() - mode))
            })
            .fold(f64::NEG_INFINITY, f64::max)),
        Region::HalfSpace { normal, offset } => Ok(half_space(
            f,
            normal,
            linear::dot(normal, f.mode()) - offset,
        )),
        Region::Ellipsoid(ellipsoid) => log_sup_outside_ellipsoid(f, ellipsoid),
        Region::Complement(inner) => log_sup(f, inner),
    }
}

/// Log possibility of a half-space that the mode misses by `depth`, measured by its normal `a`.
fn half_space(f: &Normal, a: &[f64], depth: f64) -> f64 {
    if depth <= 0.0 {
        0.0
    } else {
        -0.5 * depth * (depth / f.variance_along(a))
    }
}

/// The log possibility if the bracket is narrow, otherwise the error that carries it.
fn certified(reason: &'static str, value: f64, lower: f64, upper: f64) -> Result<f64> {
    let (lower, upper) = (lower.min(upper), lower.max(upper).min(0.0));
    if upper - lower <= CERTIFIED * lower.abs().max(1.0) {
        Ok(value.clamp(lower, upper))
    } else {
        Err(not_certified(reason, lower, upper))
    }
}

/// `log sup` over a box: `min ½(x-μ)ᵀΣ⁻¹(x-μ)` subject to `l ≤ x ≤ u`.
///
/// Primal active-set method. With the coordinates `W` held at their bounds the others minimize out:
/// from the covariance, `g_W = Σ_WW⁻¹(x_W-μ_W)` and `x_F = μ_F + Σ_FW g_W`; from the precision,
/// `x_F = μ_F - P_FF⁻¹P_FW(x_W-μ_W)` and `g = P(x-μ)`. A blocking bound enters `W`, the bound with
/// the worst multiplier `g` leaves it. Each complete step strictly decreases the distance, so that
/// no `W` returns.
///
/// Certificate: a feasible `x` bounds the minimum from above; every `g` whose signs fit the bounds
/// (`≥ 0` at a lower end, `≤ 0` at an upper end, 0 elsewhere) bounds it from below by
/// `gᵀ(x-μ) - ½gᵀΣg`.
fn log_sup_box(f: &Normal, sides: &[Interval]) -> Result<f64> {
    let n = f.dimension();
    if sides
        .iter()
        .any(|side| side.lower() == f64::INFINITY || side.upper() == f64::NEG_INFINITY)
    {
        return Ok(f64::NEG_INFINITY);
    }
    let mode = f.mode();
    let mut x: Vec<f64> = sides.iter().zip(mode).map(|(s, &m)| s.clamp(m)).collect();
    let mut held: Vec<bool> = (0..n)
        .map(|i| x[i] != mode[i] || sides[i].width() == 0.0)
        .collect();
    if !held.contains(&true) || x == mode {
        return Ok(0.0);
    }
    let mut gradient = vec![0.0; n];
    for _ in 0..100 + 50 * n {
        let (target, multipliers) = minimize_free(f, &x, &held)?;
        let blocking = first_blocking(sides, &x, &target, &held);
        for i in (0..n).filter(|&i| !held[i]) {
            let moved = match blocking {
                None => target[i],
                Some((step, ..)) => x[i] + step * (target[i] - x[i]),
            };
            x[i] = sides[i].clamp(moved);
        }
        if let Some((_, i, bound)) = blocking {
            x[i] = bound;
            held[i] = true;
            continue;
        }
        gradient = multipliers;
        match worst_multiplier(f, sides, &x, &held, &gradient) {
            Some(i) => held[i] = false,
            None => break,
        }
    }
    for i in 0..n {
        let side = &sides[i];
        let fits = side.width() == 0.0
            || (x[i] == side.lower() && gradient[i] > 0.0)
            || (x[i] == side.upper() && gradient[i] < 0.0);
        if !(held[i] && fits) {
            gradient[i] = 0.0;
        }
    }
    let offset = linear::difference(&x, mode);
    let from_above = -(linear::dot(&gradient, &offset) - 0.5 * f.variance_along(&gradient));
    let from_below = -0.5 * f.squared_distance(&x);
    // the side that does not pass through an inverse
    let value = if f.is_given_by_precision() {
        from_below
    } else {
        from_above
    };
    certified("nearest point of a box", value, from_below, from_above)
}

/// The first bound of a free coordinate on the way from `x` to `target`: how far along it lies,
/// whose it is, and its value.
fn first_blocking(
    sides: &[Interval],
    x: &[f64],
    target: &[f64],
    held: &[bool],
) -> Option<(f64, usize, f64)> {
    let mut first: Option<(f64, usize, f64)> = None;
    for i in (0..x.len()).filter(|&i| !held[i]) {
        let bound = if target[i] < sides[i].lower() {
            sides[i].lower()
        } else if target[i] > sides[i].upper() {
            sides[i].upper()
        } else {
            continue;
        };
        let reach = ((bound - x[i]) / (target[i] - x[i])).max(0.0);
        if first.is_none_or(|(step, ..)| reach < step) {
            first = Some((reach, i, bound));
        }
    }
    first
}

/// The held coordinate that gains most by leaving its bound; `None` at the minimum.
fn worst_multiplier(
    f: &Normal,
    sides: &[Interval],
    x: &[f64],
    held: &[bool],
    gradient: &[f64],
) -> Option<usize> {
    let distance = f.squared_distance(x).sqrt();
    // a multiplier this small moves the distance by less than its rounding
    let negligible = 1e-14 * (1.0 + distance);
    (0..x.len())
        .filter(|&i| held[i] && sides[i].width() > 0.0)
        .map(|i| {
            let inward = if x[i] == sides[i].lower() {
                -gradient[i]
            } else {
                gradient[i]
            };
            (i, inward * f.covariance()[(i, i)].sqrt())
        })
        .filter(|(_, inward)| *inward > negligible)
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .map(|(i, _)| i)
}

/// The minimizer with the held coordinates of `x` fixed, and the gradient there.
fn minimize_free(f: &Normal, x: &[f64], held: &[bool]) -> Result<(Vec<f64>, Vec<f64>)> {
    let n = x.len();
    let fixed: Vec<usize> = (0..n).filter(|&i| held[i]).collect();
    let free: Vec<usize> = (0..n).filter(|&i| !held[i]).collect();
    let shift: Vec<f64> = fixed.iter().map(|&i| x[i] - f.mode()[i]).collect();
    let mut target = x.to_vec();
    let mut gradient = vec![0.0; n];
    if f.is_given_by_precision() {
        let p = f.precision();
        let pull = linear::multiply(linear::block(p, &free, &fixed).as_ref(), &shift);
        let mut offset = vec![0.0; n];
        for (&i, s) in fixed.iter().zip(&shift) {
            offset[i] = *s;
        }
        if !free.is_empty() {
            let factor = linear::cholesky("precision", linear::block(p, &free, &free).as_ref())?;
            for (&i, move_by) in free.iter().zip(linear::solve(factor.as_ref(), &pull)) {
                offset[i] = -move_by;
                target[i] = f.mode()[i] - move_by;
            }
        }
        for &i in &fixed {
            gradient[i] = (0..n).map(|j| p[(i, j)] * offset[j]).sum();
        }
    } else {
        let covariance = f.covariance();
        if fixed.is_empty() {
            return Ok((f.mode().to_vec(), gradient));
        }
        let block = linear::block(covariance, &fixed, &fixed);
        let factor = linear::cholesky("covariance", block.as_ref())?;
        let multipliers = linear::solve(factor.as_ref(), &shift);
        let moves = linear::multiply(
            linear::block(covariance, &free, &fixed).as_ref(),
            &multipliers,
        );
        for (&i, move_by) in free.iter().zip(moves) {
            target[i] = f.mode()[i] + move_by;
        }
        for (&i, g) in fixed.iter().zip(multipliers) {
            gradient[i] = g;
        }
    }
    Ok((target, gradient))
}

/// A normal in the coordinates `y` in which an ellipsoid is the ball `|y| ≤ r` and the squared
/// distance is `Σ λᵢ(yᵢ-mᵢ)²`.
struct InBall {
    eigenvalues: Vec<f64>,
    center: Vec<f64>,
    squared_radius: f64,
    /// `θ - c = map · y`.
    map: Mat<f64>,
}

impl InBall {
    fn new(f: &Normal, ellipsoid: &Ellipsoid) -> Option<Self> {
        let shape = ellipsoid.normal();
        let n = f.dimension();
        let mut unwhiten = Mat::zeros(n, n);
        let mut root = Mat::zeros(n, n);
        for j in 0..n {
            let mut unit = vec![0.0; n];
            unit[j] = 1.0;
            let column = shape.unwhiten(&unit);
            for (i, value) in f.whiten(&column).into_iter().enumerate() {
                root[(i, j)] = value;
                unwhiten[(i, j)] = column[i];
            }
        }
        let (eigenvalues, vectors) = linear::eigen(linear::gram(root.as_ref()).as_ref())?;
        if eigenvalues[0] <= 0.0 {
            return None;
        }
        let offset = linear::difference(f.mode(), ellipsoid.center());
        Some(Self {
            center: linear::multiply(vectors.transpose(), &shape.whiten(&offset)),
            eigenvalues,
            squared_radius: ellipsoid.squared_radius(),
            map: &unwhiten * &vectors,
        })
    }

    fn terms(&self) -> impl Iterator<Item = (f64, f64)> {
        self.eigenvalues
            .iter()
            .copied()
            .zip(self.center.iter().copied())
    }

    /// The log possibility at `y`, brought to the sphere `|y| = r` first.
    fn log_possibility_on_sphere(&self, f: &Normal, ellipsoid: &Ellipsoid, y: &[f64]) -> f64 {
        let scale = (self.squared_radius / linear::dot(y, y)).sqrt();
        let onto: Vec<f64> = y.iter().map(|v| v * scale).collect();
        let point: Vec<f64> = linear::multiply(self.map.as_ref(), &onto)
            .iter()
            .zip(ellipsoid.center())
            .map(|(a, b)| a + b)
            .collect();
        f.log_possibility(&point)
    }
}

/// Why the decomposition of a pair of normals failed.
const PENCIL: &str = "the two normals are too far apart in scale";

fn pencil_failure() -> Error {
    not_certified(PENCIL, f64::NEG_INFINITY, 0.0)
}

/// The point where a decreasing function changes sign from positive to not, on a positive bracket.
fn bisect(mut lower: f64, mut upper: f64, positive: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..2200 {
        let middle = if upper > 4.0 * lower && lower > 0.0 {
            lower.sqrt() * upper.sqrt()
        } else {
            lower + 0.5 * (upper - lower)
        };
        if middle <= lower || middle >= upper {
            break;
        }
        if positive(middle) {
            lower = middle;
        } else {
            upper = middle;
        }
    }
    lower
}

/// `log sup` over an ellipsoid. Outside it, the nearest point is `yᵢ = λᵢmᵢ/(λᵢ+ν)` with `|y| = r`;
/// every `ν ≥ 0` bounds the squared distance from below by `Σ λᵢν/(λᵢ+ν) mᵢ² - νr²`.
fn log_sup_ellipsoid(f: &Normal, ellipsoid: &Ellipsoid) -> Result<f64> {
    if ellipsoid.contains(f.mode()) {
        return Ok(0.0);
    }
    if ellipsoid.squared_radius() == 0.0 {
        return Ok(f.log_possibility(ellipsoid.center()));
    }
    let ball = InBall::new(f, ellipsoid).ok_or_else(pencil_failure)?;
    let radius = ball.squared_radius.sqrt();
    let norm = linear::dot(&ball.center, &ball.center).sqrt();
    let y = |nu: f64| -> Vec<f64> { ball.terms().map(|(l, m)| l * m / (l + nu)).collect() };
    let lower = (ball.eigenvalues[0] * (norm / radius - 1.0)).max(0.0);
    let weighted: Vec<f64> = ball.terms().map(|(l, m)| l * m).collect();
    let upper = linear::dot(&weighted, &weighted).sqrt() / radius;
    let nu = bisect(lower, upper.max(lower), |nu| {
        let y = y(nu);
        linear::dot(&y, &y) > ball.squared_radius
    });
    let dual: f64 = ball.terms().map(|(l, m)| l * nu / (l + nu) * m * m).sum();
    let from_above = -0.5 * (dual - nu * ball.squared_radius);
    let from_below = ball.log_possibility_on_sphere(f, ellipsoid, &y(nu));
    certified(
        "nearest point of an ellipsoid",
        from_below,
        from_below,
        from_above,
    )
}

/// `log sup` outside an ellipsoid. Inside it, the nearest outer point is `yᵢ = λᵢmᵢ/(λᵢ-ν)` with
/// `|y| = r` and `0 ≤ ν ≤ λ_min`; in the hard case `ν = λ_min` the smallest coordinate makes up the
/// length. Every such `ν` bounds the squared distance from below by `νr² - Σ λᵢν/(λᵢ-ν) mᵢ²`.
fn log_sup_outside_ellipsoid(f: &Normal, ellipsoid: &Ellipsoid) -> Result<f64> {
    if ellipsoid.normal() == f {
        return Ok(ellipsoid.log_level());
    }
    if !ellipsoid.contains(f.mode()) || ellipsoid.squared_radius() == 0.0 {
        return Ok(0.0);
    }
    let ball = InBall::new(f, ellipsoid).ok_or_else(pencil_failure)?;
    let smallest = ball.eigenvalues[0];
    // in terms of δ = λ_min - ν, so that λᵢ - ν = (λᵢ - λ_min) + δ does not cancel
    let y = |delta: f64| -> Vec<f64> {
        ball.terms()
            .map(|(l, m)| {
                if m == 0.0 {
                    0.0
                } else {
                    l * m / (l - smallest + delta)
                }
            })
            .collect()
    };
    let is_long = |delta: f64| {
        let y = y(delta);
        linear::dot(&y, &y) > ball.squared_radius
    };
    let (delta, mut nearest) = if is_long(0.0) {
        let least = smallest * ball.center[0].abs() / ball.squared_radius.sqrt();
        let delta = bisect(least.min(smallest), smallest, is_long);
        (delta, y(delta))
    } else {
        (0.0, y(0.0))
    };
    // up to rounding this is 0 outside the hard case
    let missing = ball.squared_radius - linear::dot(&nearest, &nearest);
    if missing > 0.0 {
        let sign = if nearest[0] < 0.0 { -1.0 } else { 1.0 };
        nearest[0] = sign * (nearest[0] * nearest[0] + missing).sqrt();
    }
    let nu = smallest - delta;
    let pull: f64 = ball
        .terms()
        .map(|(l, m)| {
            if m == 0.0 {
                0.0
            } else {
                l * nu / (l - smallest + delta) * m * m
            }
        })
        .sum();
    let from_above = -0.5 * (nu * ball.squared_radius - pull);
    let from_below = ball.log_possibility_on_sphere(f, ellipsoid, &nearest);
    certified(
        "nearest point outside an ellipsoid",
        from_below,
        from_below,
        from_above,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normal::testing::{close, in_other_form, maximize, normals, points};
    use faer::mat;
    use proptest::prelude::*;

    /// One side is a search over values, or both pass through a certificate of width [`CERTIFIED`].
    const SEARCHED: f64 = 1e-9;

    fn interval(lower: f64, upper: f64) -> Interval {
        Interval::closed(lower, upper).unwrap()
    }

    #[test]
    fn hand_values_of_each_region() {
        // Σ = [[4, 2], [2, 3]], P = [[3, -2], [-2, 4]] / 8
        let f = Normal::new([0.0, 0.0], mat![[4.0, 2.0], [2.0, 3.0]]).unwrap();
        let log = |region: &Region| f.log_possibility_of(region).unwrap();
        let log_outside = |region: &Region| f.log_possibility_of_complement(region).unwrap();
        assert_eq!(log(&Region::Empty), f64::NEG_INFINITY);
        assert_eq!(log_outside(&Region::Empty), 0.0);
        assert_eq!(log(&Region::Everything), 0.0);
        assert_eq!(log_outside(&Region::Everything), f64::NEG_INFINITY);
        let point = Region::Point(vec![1.0, 2.0]);
        assert!(close(log(&point), -11.0 / 16.0, 1e-15));
        assert_eq!(log_outside(&point), 0.0);
        let points = Region::Finite(vec![vec![1.0, 2.0], vec![0.0, 2.0]]);
        assert!(close(log(&points), -11.0 / 16.0, 1e-15));
        assert_eq!(log(&Region::Finite(vec![])), f64::NEG_INFINITY);
        // aᵀΣa = 4 + 4 + 3 = 11 for a = (1, 1)
        let half_space = |offset| Region::HalfSpace {
            normal: vec![1.0, 1.0],
            offset,
        };
        assert!(close(log(&half_space(2.0)), -2.0 / 11.0, 1e-15));
        assert_eq!(log_outside(&half_space(2.0)), 0.0);
        assert_eq!(log(&half_space(-2.0)), 0.0);
        assert!(close(log_outside(&half_space(-2.0)), -2.0 / 11.0, 1e-15));
        assert_eq!(log(&half_space(f64::INFINITY)), f64::NEG_INFINITY);
        assert_eq!(
            log_outside(&half_space(f64::NEG_INFINITY)),
            f64::NEG_INFINITY
        );
        // x₁ ≥ 2 alone moves x₂ to 1, inside: distance² = 4/4
        let side = Region::Box(vec![interval(2.0, 9.0), interval(0.0, 9.0)]);
        assert!(close(log(&side), -0.5, 1e-15));
        // with x₂ ≥ 2 both bounds hold, with x₂ ≤ 0 too: (3·4 - 2·2·4 + 4·4) / 8 and 12 / 8
        let corner = Region::Box(vec![interval(2.0, 9.0), interval(2.0, 9.0)]);
        assert!(close(log(&corner), -0.5 * 12.0 / 8.0, 1e-15));
        let below = Region::Box(vec![interval(2.0, 9.0), interval(-9.0, 0.0)]);
        assert!(close(log(&below), -0.5 * 12.0 / 8.0, 1e-15));
        // out of [-2, 3] × [-9, 3]: nearest face x₁ = -2 at 4/4, then 9/3
        let around = Region::Box(vec![interval(-2.0, 3.0), interval(-9.0, 3.0)]);
        assert_eq!(log_outside(&around), -0.5);
        assert!(close(
            f.necessity_of(&around).unwrap(),
            1.0 - (-0.5f64).exp(),
            1e-15
        ));
        let cut = Region::from(f.alpha_cut(0.25).unwrap());
        assert_eq!(log(&cut), 0.0);
        assert_eq!(log_outside(&cut), 0.25f64.ln());
        // ¬¬A = A
        assert_eq!(log(&around.clone().complement()), log_outside(&around));
        assert_eq!(around.clone().complement().complement(), around);
    }

    #[test]
    fn boxes_with_infinite_ends_and_without_finite_points() {
        for f in [
            Normal::new([0.0, 1.0], mat![[1.0, 0.5], [0.5, 1.0]]).unwrap(),
            Normal::diagonal([0.0, 1.0], &[1.0, 4.0]).unwrap(),
        ] {
            let log =
                |sides: [Interval; 2]| f.log_possibility_of(&Region::Box(sides.to_vec())).unwrap();
            let all = Interval::REAL_LINE;
            assert_eq!(log([all, all]), 0.0);
            assert_eq!(log([Interval::at_least(1.0).unwrap(), all]), -0.5);
            assert_eq!(log([Interval::below(-2.0).unwrap(), all]), -2.0);
            let nowhere = Interval::point(f64::INFINITY).unwrap();
            assert_eq!(log([all, nowhere]), f64::NEG_INFINITY);
            let strip = Region::Box(vec![all, nowhere]);
            assert_eq!(f.log_possibility_of_complement(&strip).unwrap(), 0.0);
            let everything = Region::Box(vec![all, all]);
            let outside = f.log_possibility_of_complement(&everything).unwrap();
            assert_eq!(outside, f64::NEG_INFINITY);
            // a side that is a single point is conditioned on, whatever the sign of its multiplier
            let slice = [Interval::point(0.5).unwrap(), all];
            let want = f.marginal(&[0]).unwrap().log_possibility(&[0.5]);
            assert!(close(log(slice), want, 1e-14));
        }
    }

    #[test]
    fn malformed_events_are_typed_errors() {
        let f = Normal::isotropic([0.0, 0.0], 1.0).unwrap();
        let line = Normal::univariate(0.0, 1.0).unwrap();
        let half_space = |normal: &[f64], offset| Region::HalfSpace {
            normal: normal.to_vec(),
            offset,
        };
        for region in [
            Region::Point(vec![0.0]),
            Region::Point(vec![0.0, f64::NAN]),
            Region::Finite(vec![vec![0.0, 0.0], vec![0.0]]),
            Region::Box(vec![Interval::REAL_LINE]),
            half_space(&[1.0], 0.0),
            half_space(&[0.0, 0.0], 0.0),
            half_space(&[f64::INFINITY, 0.0], 0.0),
            half_space(&[1.0, 0.0], f64::NAN),
            Region::Ellipsoid(line.alpha_cut(0.5).unwrap()),
            Region::Point(vec![0.0]).complement(),
        ] {
            assert!(f.log_possibility_of(&region).is_err(), "{region:?}");
            assert!(
                f.log_possibility_of_complement(&region).is_err(),
                "{region:?}"
            );
            assert!(region.contains(&[0.0, 0.0]).is_err(), "{region:?}");
        }
        assert!(f.log_possibility_of(&RealSet::everything()).is_err());
        assert!(
            f.log_possibility_of_complement(&RealSet::everything())
                .is_err()
        );
    }

    #[test]
    fn outside_a_concentric_ellipsoid_the_way_leads_along_the_flattest_axis() {
        // the hard case of the secular equation: the multiplier is the smallest eigenvalue
        let f = Normal::diagonal([1.0, -2.0, 0.5], &[4.0, 1.0, 9.0]).unwrap();
        let ball = Normal::isotropic([1.0, -2.0, 0.5], 1.0).unwrap();
        let cut = Region::from(ball.alpha_cut((-2.0f64).exp()).unwrap());
        // radius 2 along the second axis
        let outside = f.log_possibility_of_complement(&cut).unwrap();
        assert!(close(outside, -2.0, 1e-14), "{outside}");
        // off center along a steep axis only: still hard, y₁ = 4·0.3/(4-1) there
        let shifted = Normal::diagonal([1.3, -2.0, 0.5], &[4.0, 1.0, 9.0]).unwrap();
        let outside = shifted.log_possibility_of_complement(&cut).unwrap();
        // 1·r² - 4·1/(4-1)·0.3²
        assert!(
            close(outside, -0.5 * (4.0 - 4.0 / 3.0 * 0.09), 1e-14),
            "{outside}"
        );
        // a cut that is a single point, and a cut around the mode of the same function in other
        // form
        let point = Region::from(ball.alpha_cut(1.0).unwrap());
        assert_eq!(f.log_possibility_of_complement(&point).unwrap(), 0.0);
        let want = shifted.log_possibility(&[1.0, -2.0, 0.5]);
        assert_eq!(shifted.log_possibility_of(&point).unwrap(), want);
        let same = Region::from(in_other_form(&f).alpha_cut(0.1).unwrap());
        let outside = f.log_possibility_of_complement(&same).unwrap();
        assert!(close(outside, 0.1f64.ln(), 1e-14));
    }

    #[test]
    fn nearly_singular_normals_are_certified_or_refused() {
        for exponent in [10, 20, 30, 40, 45] {
            let small = 2f64.powi(-exponent);
            let matrix = mat![[1.0, 1.0 - small], [1.0 - small, 1.0]];
            let region = Region::Box(vec![interval(1.0, 2.0), interval(-9.0, 9.0)]);
            // from the covariance, only the first coordinate is held: distance² = 1, at any
            // conditioning
            let f = Normal::new([0.0, 0.0], matrix.clone()).unwrap();
            assert!(close(f.log_possibility_of(&region).unwrap(), -0.5, 1e-14));
            // from the precision, the same event has variance 1 / (1 - (1 - small)²)
            let f = Normal::from_precision([0.0, 0.0], matrix).unwrap();
            let want = -0.5 * small * (2.0 - small);
            match f.log_possibility_of(&region) {
                Ok(log) => assert!((log - want).abs() <= CERTIFIED, "{log} {want}"),
                Err(error) => assert!(matches!(error, Error::NotCertified { .. }), "{error}"),
            }
        }
    }

    #[test]
    fn a_box_of_many_sides_is_certified() {
        // an autoregressive chain: neighbors are correlated, bounds alternate
        let d = 120;
        let covariance = Mat::from_fn(d, d, |i, j| 0.8f64.powi(i.abs_diff(j) as i32));
        let f = Normal::new(vec![0.0; d], covariance).unwrap();
        let sides: Vec<Interval> = (0..d)
            .map(|i| match i % 3 {
                0 => interval(0.5, 1.0),
                1 => interval(-1.0, -0.25),
                _ => Interval::REAL_LINE,
            })
            .collect();
        let start = sides.iter().map(|s| s.clamp(0.0)).collect();
        let want = maximize(|x| f.log_possibility(x), start, Some(&sides));
        let region = Region::Box(sides);
        for f in [&f, &in_other_form(&f)] {
            let got = f.log_possibility_of(&region).unwrap();
            assert!(close(got, want, SEARCHED), "{got} {want}");
        }
    }

    #[test]
    fn intervals_on_the_line_are_boxes_of_one_side() {
        let f = Normal::univariate(1.0, 4.0).unwrap();
        let set = RealSet::from(interval(3.0, 4.0));
        assert_eq!(f.log_possibility_of(&set).unwrap(), -0.5);
        assert_eq!(f.log_possibility_of_complement(&set).unwrap(), 0.0);
        assert_eq!(
            f.log_possibility_of(&RealSet::empty()).unwrap(),
            f64::NEG_INFINITY
        );
        let infinite = RealSet::points(&[f64::INFINITY]).unwrap();
        assert_eq!(f.log_possibility_of(&infinite).unwrap(), f64::NEG_INFINITY);
        let two = RealSet::points(&[-1.0, 5.0]).unwrap();
        assert_eq!(f.log_possibility_of(&two).unwrap(), -0.5);
    }

    /// Sides of every kind: bounded, half-infinite, whole, a single point; open or closed.
    fn sides(d: usize) -> impl Strategy<Value = Vec<Interval>> {
        prop::collection::vec((0u8..8, -4.0f64..4.0, 0.0f64..3.0), d).prop_map(|sides| {
            sides
                .into_iter()
                .map(|(kind, lower, width)| match kind {
                    0 => Interval::REAL_LINE,
                    1 => Interval::above(lower).unwrap(),
                    2 => Interval::at_most(lower).unwrap(),
                    3 => Interval::point(lower).unwrap(),
                    4 => Interval::open(lower, lower + width + 0.1).unwrap(),
                    _ => interval(lower, lower + width),
                })
                .collect()
        })
    }

    fn regions(d: usize) -> impl Strategy<Value = Region> {
        let region = prop_oneof![
            points(d).prop_map(Region::Point),
            prop::collection::vec(points(d), 0..3).prop_map(Region::Finite),
            sides(d).prop_map(Region::Box),
            (points(d), -3.0f64..3.0).prop_map(|(mut normal, offset)| {
                normal[0] += 4.0;
                Region::HalfSpace { normal, offset }
            }),
            (normals(d), 1e-4f64..1.0)
                .prop_map(|(g, alpha)| Region::from(g.alpha_cut(alpha).unwrap())),
        ];
        (region, any::<bool>())
            .prop_map(|(region, flip)| if flip { region.complement() } else { region })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn possibility_and_necessity_laws(
            (f, region, x) in (1usize..5).prop_flat_map(|d| (normals(d), regions(d), points(d))),
        ) {
            let inside = f.log_possibility_of(&region).unwrap();
            let outside = f.log_possibility_of_complement(&region).unwrap();
            prop_assert_eq!(inside.max(outside), 0.0);
            prop_assert!(f.necessity_of(&region).unwrap() <= f.possibility_of(&region).unwrap());
            // a supremum is an upper bound of the values on its side
            let side = if region.contains(&x).unwrap() { inside } else { outside };
            prop_assert!(f.log_possibility(&x) <= side + 1e-10 * side.abs().max(1.0));
            let flipped = region.complement();
            prop_assert_eq!(f.log_possibility_of(&flipped).unwrap(), outside);
        }

        #[test]
        fn box_agrees_with_projected_coordinate_search(
            (f, sides) in (1usize..6).prop_flat_map(|d| (normals(d), sides(d))),
        ) {
            let start = f.mode().iter().zip(&sides).map(|(&m, s)| s.clamp(m)).collect();
            let want = maximize(|x| f.log_possibility(x), start, Some(&sides));
            let region = Region::Box(sides);
            for f in [&f, &in_other_form(&f)] {
                let got = f.log_possibility_of(&region).unwrap();
                prop_assert!(close(got, want, SEARCHED), "{} {}", got, want);
            }
        }

        #[test]
        fn half_space_agrees_with_the_image_of_its_linear_form(
            (f, a, b) in (1usize..5).prop_flat_map(|d| (normals(d), points(d), -9.0f64..9.0)),
        ) {
            let mut a = a;
            a[0] += 4.0;
            let image = f.affine_image(Mat::from_fn(1, a.len(), |_, j| a[j]).as_ref(), &[0.0]).unwrap();
            let region = Region::HalfSpace { normal: a, offset: b };
            let set = RealSet::from(Interval::at_least(b).unwrap());
            let pairs = [
                (f.log_possibility_of(&region), image.log_possibility_of(&set)),
                (f.log_possibility_of_complement(&region), image.log_possibility_of_complement(&set)),
            ];
            for (got, want) in pairs {
                prop_assert!(close(got.unwrap(), want.unwrap(), 1e-12));
            }
        }

        #[test]
        fn line_events_agree_between_interval_sets_and_boxes(
            f in normals(1),
            side in sides(1),
            g in normals(1),
            alpha in 1e-4f64..1.0,
        ) {
            let set = RealSet::from(side[0]);
            let region = Region::Box(side);
            prop_assert!(close(
                f.log_possibility_of(&set).unwrap(),
                f.log_possibility_of(&region).unwrap(),
                1e-14,
            ));
            prop_assert!(close(
                f.log_possibility_of_complement(&set).unwrap(),
                f.log_possibility_of_complement(&region).unwrap(),
                1e-14,
            ));
            let set = RealSet::from(g.alpha_interval(alpha).unwrap());
            let region = Region::from(g.alpha_cut(alpha).unwrap());
            prop_assert!(close(
                f.log_possibility_of(&set).unwrap(),
                f.log_possibility_of(&region).unwrap(),
                SEARCHED,
            ));
            prop_assert!(close(
                f.log_possibility_of_complement(&set).unwrap(),
                f.log_possibility_of_complement(&region).unwrap(),
                SEARCHED,
            ));
        }

        #[test]
        fn ellipses_agree_with_a_walk_along_the_boundary(
            f in normals(2),
            g in normals(2),
            alpha in 1e-4f64..0.99,
        ) {
            let cut = g.alpha_cut(alpha).unwrap();
            let radius = cut.squared_radius().sqrt();
            let log_at = |angle: f64| {
                let offset = g.unwhiten(&[radius * angle.cos(), radius * angle.sin()]);
                f.log_possibility(&[g.mode()[0] + offset[0], g.mode()[1] + offset[1]])
            };
            let steps = 2000;
            let width = std::f64::consts::TAU / f64::from(steps);
            let start = (0..steps)
                .map(|k| f64::from(k) * width)
                .max_by(|a, b| log_at(*a).total_cmp(&log_at(*b)))
                .unwrap();
            // golden section around the best of the walk
            let (mut a, mut b) = (start - width, start + width);
            for _ in 0..60 {
                let (c, d) = (b - 0.618_034 * (b - a), a + 0.618_034 * (b - a));
                if log_at(c) > log_at(d) { b = d } else { a = c }
            }
            let boundary = log_at(0.5 * (a + b));
            let region = Region::from(cut.clone());
            let (inside, outside) = if cut.contains(f.mode()) { (0.0, boundary) } else { (boundary, 0.0) };
            prop_assert!(close(f.log_possibility_of(&region).unwrap(), inside, SEARCHED));
            prop_assert!(close(f.log_possibility_of_complement(&region).unwrap(), outside, SEARCHED));
        }
    }
}
