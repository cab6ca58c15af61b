//! Distance from a mode to the cone of logits whose largest entry is that of one class:
//! `min |x|²` subject to `nⱼᵀx ≥ hⱼ`, one constraint for each rival.
//!
//! The dual active-set method of Goldfarb and Idnani: from the unconstrained minimum 0, the
//! constraint that is violated most enters, with those that lose their multiplier leaving on the
//! way. The distance grows with every constraint, so that no set of them returns. Constraints that
//! contradict each other have no solution, and the distance is infinite. Normals have length 1.

use super::ascent::dot;
use crate::error::{Error, Result, not_certified};

/// Violations below this share of the distance are rounding.
pub(super) const SATISFIED: f64 = 1e-13;
/// A normal whose part outside the span of the others is shorter than this depends on them.
const DEPENDENT: f64 = 1e-9;
/// Width of the certified bracket around the squared distance, relative to `1 + distance²`.
const CERTIFIED: f64 = 1e-9;

/// Constraints `normalᵀx ≥ offset` with normals of length 1, row-major.
#[derive(Debug, Default)]
pub(super) struct HalfSpaces {
    dimension: usize,
    normals: Vec<f64>,
    offsets: Vec<f64>,
}

impl HalfSpaces {
    /// None yet, in memory that may have been used before.
    pub(super) fn clear(&mut self, dimension: usize) {
        self.dimension = dimension;
        self.normals.clear();
        self.offsets.clear();
    }

    /// Adds `normalᵀx ≥ offset` for a normal of any length but 0; `None` adds nothing where
    /// `keep` of the squared length says so.
    pub(super) fn push(
        &mut self,
        normal: impl Iterator<Item = f64>,
        offset: f64,
        keep: impl Fn(f64) -> bool,
    ) -> Option<()> {
        let start = self.normals.len();
        self.normals.extend(normal);
        let own = &mut self.normals[start..];
        let squared = dot(own, own);
        if !keep(squared) {
            self.normals.truncate(start);
            return None;
        }
        let length = squared.sqrt();
        own.iter_mut().for_each(|n| *n /= length);
        self.offsets.push(offset / length);
        Some(())
    }

    fn normal(&self, row: usize) -> &[f64] {
        &self.normals[row * self.dimension..(row + 1) * self.dimension]
    }

    /// The constraint that is violated most, and by how much.
    fn worst(&self, x: &[f64]) -> Option<(usize, f64)> {
        let violation = |(row, offset): (usize, &f64)| (row, offset - dot(self.normal(row), x));
        let all = self.offsets.iter().enumerate().map(violation);
        all.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Constraints that hold with equality, their multipliers, and the nearest point for them.
#[derive(Debug, Default)]
pub(super) struct Active {
    rows: Vec<usize>,
    multipliers: Vec<f64>,
    /// Orthonormal basis of the span of the normals, one vector per row.
    basis: Vec<f64>,
    /// Coefficients of the normals in the basis: packed lower triangular, one row per normal.
    triangle: Vec<f64>,
    /// A vector's part outside the span, its coefficients inside, and what they are made of.
    outside: Vec<f64>,
    inside: Vec<f64>,
    price: Vec<f64>,
    /// The nearest point.
    x: Vec<f64>,
}

/// Where a row of a packed triangle starts.
pub(super) fn packed(row: usize) -> usize {
    row * (row + 1) / 2
}

impl Active {
    fn clear(&mut self, dimension: usize) {
        self.truncate(0, dimension);
        self.x.clear();
        self.x.resize(dimension, 0.0);
    }

    fn truncate(&mut self, rows: usize, dimension: usize) {
        self.rows.truncate(rows);
        self.multipliers.truncate(rows);
        self.basis.truncate(rows * dimension);
        self.triangle.truncate(packed(rows));
    }

    /// Finds the part of a vector outside the span, and its coefficients inside.
    fn split(&mut self, vector: &[f64]) {
        self.outside.clear();
        self.outside.extend(vector);
        self.inside.clear();
        self.inside.resize(self.rows.len(), 0.0);
        if self.rows.is_empty() {
            return;
        }
        // twice is enough
        for _ in 0..2 {
            let basis = self.basis.chunks_exact(vector.len());
            for (coefficient, direction) in self.inside.iter_mut().zip(basis) {
                let share = dot(direction, &self.outside);
                *coefficient += share;
                for (entry, d) in self.outside.iter_mut().zip(direction) {
                    *entry -= share * d;
                }
            }
        }
    }

    /// Finds the price `y` with `Σ yᵢ nᵢ = Σ cⱼ basisⱼ` for the coefficients inside: how a vector
    /// of the span is made of the normals.
    fn combine(&mut self) {
        self.price.clear();
        self.price.extend(&self.inside);
        for i in (0..self.price.len()).rev() {
            let line = &self.triangle[packed(i)..packed(i + 1)];
            let (before, own) = self.price.split_at_mut(i);
            own[0] /= line[i];
            for (entry, t) in before.iter_mut().zip(line) {
                *entry -= t * own[0];
            }
        }
    }

    fn push(&mut self, row: usize, multiplier: f64, normal: &[f64]) {
        self.split(normal);
        let length = dot(&self.outside, &self.outside).sqrt();
        self.basis.extend(self.outside.iter().map(|v| v / length));
        self.triangle.extend(&self.inside);
        self.triangle.push(length);
        self.rows.push(row);
        self.multipliers.push(multiplier);
    }

    fn remove(&mut self, position: usize, spaces: &HalfSpaces) {
        // those before it stay as they are
        let later = self.rows.split_off(position);
        let multipliers = self.multipliers.split_off(position);
        self.truncate(position, spaces.dimension);
        for (row, multiplier) in later.into_iter().zip(multipliers).skip(1) {
            self.push(row, multiplier, spaces.normal(row));
        }
    }

    /// Finds the nearest point where all of them hold with equality: `x = Σ yᵢ basisᵢ`, `Ty = h`.
    fn nearest(&mut self, spaces: &HalfSpaces) {
        self.x.fill(0.0);
        // y takes the place of the price
        self.price.clear();
        for (i, &row) in self.rows.iter().enumerate() {
            let line = &self.triangle[packed(i)..packed(i + 1)];
            let known = dot(line, &self.price);
            let next = (spaces.offsets[row] - known) / line[i];
            let direction = &self.basis[i * spaces.dimension..(i + 1) * spaces.dimension];
            for (entry, d) in self.x.iter_mut().zip(direction) {
                *entry += next * d;
            }
            self.price.push(next);
        }
    }

    /// Makes a violated constraint active; false if the others contradict it.
    fn enter(&mut self, spaces: &HalfSpaces, entering: usize) -> bool {
        let (normal, offset) = (spaces.normal(entering), spaces.offsets[entering]);
        let mut own = 0.0;
        loop {
            self.split(normal);
            self.combine();
            let first = self
                .multipliers
                .iter()
                .zip(&self.price)
                .enumerate()
                .filter(|(_, (_, price))| **price > 0.0)
                .map(|(i, (multiplier, price))| (i, multiplier / price))
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let squared = dot(&self.outside, &self.outside);
            let full = if squared > DEPENDENT * DEPENDENT {
                (offset - dot(normal, &self.x)).max(0.0) / squared
            } else {
                f64::INFINITY
            };
            let length = first.map_or(full, |(_, length)| length.min(full));
            if length == f64::INFINITY {
                return false;
            }
            for (multiplier, price) in self.multipliers.iter_mut().zip(&self.price) {
                *multiplier = (*multiplier - length * price).max(0.0);
            }
            own += length;
            if full < f64::INFINITY {
                for (entry, direction) in self.x.iter_mut().zip(&self.outside) {
                    *entry += length * direction;
                }
            }
            match first {
                Some((position, until)) if until < full => self.remove(position, spaces),
                _ => {
                    self.push(entering, own, normal);
                    // without the rounding of the way
                    self.nearest(spaces);
                    return true;
                }
            }
        }
    }

    /// The squared distance if the point of the active constraints is feasible and multipliers
    /// `u ≥ 0` prove it the nearest: `|x|² ≥ 2uᵀh - |Σ uᵢnᵢ|²`.
    fn certified(&mut self, spaces: &HalfSpaces) -> Result<f64> {
        self.nearest(spaces);
        let x = std::mem::take(&mut self.x);
        let upper = dot(&x, &x);
        self.split(&x);
        self.combine();
        let mut sum = x;
        sum.fill(0.0);
        let mut linear = 0.0;
        for (&row, multiplier) in self.rows.iter().zip(&self.price) {
            let multiplier = multiplier.max(0.0);
            linear += multiplier * spaces.offsets[row];
            for (entry, n) in sum.iter_mut().zip(spaces.normal(row)) {
                *entry += multiplier * n;
            }
        }
        let lower = 2.0 * linear - dot(&sum, &sum);
        self.x = sum;
        if (upper - lower).abs() <= CERTIFIED * (1.0 + upper) {
            Ok(upper)
        } else {
            Err(not_certified("projection onto a cone", lower, upper))
        }
    }
}

/// `min |x|²` over the intersection of the half-spaces, which it scales; infinite if it is empty.
///
/// # Errors
/// [`Error::NotCertified`] if a feasible point and the dual problem do not agree.
pub(super) fn squared_distance(spaces: &mut HalfSpaces, active: &mut Active) -> Result<f64> {
    // in units of the farthest half-space, so that rounding is relative and nothing overflows
    let unit = spaces.offsets.iter().fold(0.0f64, |most, h| most.max(*h));
    if unit == 0.0 {
        return Ok(0.0);
    }
    let offsets = spaces.offsets.iter_mut();
    offsets.for_each(|offset| *offset = (*offset / unit).max(f64::MIN));
    Ok(unit * unit * scaled_distance(spaces, active)?)
}

fn scaled_distance(spaces: &HalfSpaces, active: &mut Active) -> Result<f64> {
    active.clear(spaces.dimension);
    let steps = 100 + 10 * spaces.offsets.len();
    for _ in 0..steps {
        let size = dot(&active.x, &active.x).sqrt();
        let Some((entering, violation)) = spaces.worst(&active.x) else {
            return Ok(0.0);
        };
        if violation <= SATISFIED * (1.0 + size) {
            return active.certified(spaces);
        }
        if !active.enter(spaces, entering) {
            return Ok(f64::INFINITY);
        }
    }
    Err(Error::NotConverged {
        what: "the projection onto a cone",
        steps,
        residual: spaces
            .worst(&active.x)
            .map_or(0.0, |(_, violation)| violation),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The squared distance to half-spaces of the plane.
    fn distance(spaces: &[([f64; 2], f64)]) -> f64 {
        let mut all = HalfSpaces::default();
        all.clear(2);
        for (normal, offset) in spaces {
            all.push(normal.iter().copied(), *offset, |_| true).unwrap();
        }
        squared_distance(&mut all, &mut Active::default()).unwrap()
    }

    #[test]
    fn by_hand_in_the_plane() {
        assert_eq!(distance(&[]), 0.0);
        assert_eq!(distance(&[([1.0, 0.0], -1.0)]), 0.0);
        assert_eq!(distance(&[([3.0, 4.0], 10.0)]), 4.0);
        // a corner at (1, 2), and a constraint that it makes idle
        let corner = [([1.0, 0.0], 1.0), ([0.0, 1.0], 2.0), ([1.0, 1.0], 2.5)];
        assert!((distance(&corner) - 5.0).abs() < 1e-14);
        // the first to enter must leave again: only x + y ≥ 4 counts at (2, 2)
        let leaves = [([0.2, 1.0], 2.2), ([1.0, 1.0], 4.0), ([1.0, 0.2], 2.2)];
        assert!((distance(&leaves) - 8.0).abs() < 1e-14);
    }

    #[test]
    fn contradictions_have_no_point() {
        let apart = [([1.0, 0.0], 1.0), ([-1.0, 0.0], 1.0)];
        assert_eq!(distance(&apart), f64::INFINITY);
        // three that contradict each other, any two of which do not
        let star = [([1.0, 0.0], 1.0), ([-1.0, 2.0], 1.0), ([-1.0, -2.0], 1.0)];
        assert_eq!(distance(&star), f64::INFINITY);
    }

    #[test]
    fn dependent_constraints_are_no_obstacle() {
        let twice = [([1.0, 0.0], 1.0), ([2.0, 0.0], 2.0), ([1.0, 0.0], 0.5)];
        assert_eq!(distance(&twice), 1.0);
        // three lines through one point (1, 1) of the plane
        let fan = [([1.0, 0.0], 1.0), ([0.0, 1.0], 1.0), ([1.0, 1.0], 2.0)];
        assert!((distance(&fan) - 2.0).abs() < 1e-14);
    }

    #[test]
    fn memory_that_was_used_before_is_forgotten() {
        let mut all = HalfSpaces::default();
        let mut active = Active::default();
        for (normal, offset, want) in [([3.0, 4.0], 10.0, 4.0), ([0.0, 2.0], 6.0, 9.0)] {
            all.clear(2);
            assert!(all.push([0.0; 2].into_iter(), 1.0, |s| s > 0.0).is_none());
            all.push(normal.into_iter(), offset, |s| s > 0.0).unwrap();
            let found = squared_distance(&mut all, &mut active).unwrap();
            assert!((found - want).abs() < 1e-14);
        }
    }
}
