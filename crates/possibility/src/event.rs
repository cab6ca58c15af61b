//! Events of ℝᵈ and their possibility under a normal, `sup_A N̄(·; μ, Σ) = exp(-½ dist²(μ, A))` with the
//! Mahalanobis distance `dist²(μ, A) = inf_{θ ∈ A} (θ-μ)ᵀΣ⁻¹(θ-μ)`. Paper: Section 2.
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

use crate::error::{Error, Result, check, check_finite, check_size};
use crate::function::{Measure, Possibility};
use crate::linear;
use crate::normal::{Ellipsoid, Normal};
use crate::set::{Interval, RealSet};

/// Width of the certified bracket around a log possibility, relative to `max(1, |log|)`: a tenth of what a
/// possibility known to nine digits allows, far above the rounding of well-posed problems.
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
            match point.iter().position(|x| x.is_nan()) {
                None => Ok(()),
                Some(index) => Err(Error::EntryOutOfRange {
                    name,
                    index,
                    value: point[index],
                    allowed: "numbers",
                }),
            }
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
                        name: "length of the half-space's normal",
                        value: 0.0,
                        allowed: "(0, inf)",
                    });
                }
                check("offset of the half-space", *offset, "a number", |_| true)?;
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
    /// The region has another dimension or is malformed; [`Error::NotCertified`] if the nearest point of a
    /// box or of another normal's α-cut cannot be certified, with bounds for the log possibility.
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
        Ok(event
            .parts()
            .iter()
            .map(|part| self.log_possibility(&[part.clamp(mode)]))
            .fold(f64::NEG_INFINITY, f64::max))
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
        Err(Error::NotCertified {
            reason,
            lower,
            upper,
        })
    }
}

/// `log sup` over a box: `min ½(x-μ)ᵀΣ⁻¹(x-μ)` subject to `l ≤ x ≤ u`.
///
/// Primal active-set method. With the coordinates `W` held at their bounds the others minimize out: from the
/// covariance, `g_W = Σ_WW⁻¹(x_W-μ_W)` and `x_F = μ_F + Σ_FW g_W`; from the precision,
/// `x_F = μ_F - P_FF⁻¹P_FW(x_W-μ_W)` and `g = P(x-μ)`. A blocking bound enters `W`, the bound with the worst
/// multiplier `g` leaves it. Each complete step strictly decreases the distance, so that no `W` returns.
///
/// Certificate: a feasible `x` bounds the minimum from above; every `g` whose signs fit the bounds (`≥ 0` at a
/// lower end, `≤ 0` at an upper end, 0 elsewhere) bounds it from below by `gᵀ(x-μ) - ½gᵀΣg`.
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
        let mut step = 1.0;
        let mut blocking = None;
        for i in (0..n).filter(|&i| !held[i]) {
            let bound = if target[i] < sides[i].lower() {
                sides[i].lower()
            } else if target[i] > sides[i].upper() {
                sides[i].upper()
            } else {
                continue;
            };
            let reach = ((bound - x[i]) / (target[i] - x[i])).max(0.0);
            if blocking.is_none() || reach < step {
                (step, blocking) = (reach, Some((i, bound)));
            }
        }
        for i in (0..n).filter(|&i| !held[i]) {
            let moved = if blocking.is_none() {
                target[i]
            } else {
                x[i] + step * (target[i] - x[i])
            };
            x[i] = sides[i].clamp(moved);
        }
        if let Some((i, bound)) = blocking {
            x[i] = bound;
            held[i] = true;
            continue;
        }
        gradient = multipliers;
        let distance = f.squared_distance(&x).sqrt();
        // a multiplier this small moves the distance by less than its rounding
        let negligible = 1e-14 * (1.0 + distance);
        let worst = (0..n)
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
            .max_by(|a, b| a.1.total_cmp(&b.1));
        match worst {
            Some((i, _)) => held[i] = false,
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
    let offset: Vec<f64> = x.iter().zip(mode).map(|(a, b)| a - b).collect();
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

/// A normal in the coordinates `y` in which an ellipsoid is the ball `|y| ≤ r` and the squared distance is
/// `Σ λᵢ(yᵢ-mᵢ)²`.
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
        let offset: Vec<f64> = f
            .mode()
            .iter()
            .zip(ellipsoid.center())
            .map(|(a, b)| a - b)
            .collect();
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
    Error::NotCertified {
        reason: PENCIL,
        lower: f64::NEG_INFINITY,
        upper: 0.0,
    }
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

/// `log sup` over an ellipsoid. Outside it, the nearest point is `yᵢ = λᵢmᵢ/(λᵢ+ν)` with `|y| = r`; every
/// `ν ≥ 0` bounds the squared distance from below by `Σ λᵢν/(λᵢ+ν) mᵢ² - νr²`.
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

/// `log sup` outside an ellipsoid. Inside it, the nearest outer point is `yᵢ = λᵢmᵢ/(λᵢ-ν)` with `|y| = r` and
/// `0 ≤ ν ≤ λ_min`; in the hard case `ν = λ_min` the smallest coordinate makes up the length. Every such
/// `ν` bounds the squared distance from below by `νr² - Σ λᵢν/(λᵢ-ν) mᵢ²`.
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
