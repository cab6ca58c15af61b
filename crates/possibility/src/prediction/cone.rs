//! Distance from a mode to the cone of logits whose largest entry is that of one class:
//! `min |x|²` subject to `nⱼᵀx ≥ hⱼ`, one constraint for each rival.
//!
//! The dual active-set method of Goldfarb and Idnani: from the unconstrained minimum 0, the
//! constraint that is violated most enters, with those that lose their multiplier leaving on the
//! way. The distance grows with every constraint, so that no set of them returns. Constraints that
//! contradict each other have no solution, and the distance is infinite. Normals have length 1.

use super::ascent::dot;
use crate::error::{Error, Result};

/// A constraint `normalᵀx ≥ offset` with a normal of length 1.
#[derive(Debug, Clone)]
pub(super) struct HalfSpace {
    pub normal: Vec<f64>,
    pub offset: f64,
}

/// Violations below this share of the distance are rounding.
const SATISFIED: f64 = 1e-13;
/// A normal whose part outside the span of the others is shorter than this depends on them.
const DEPENDENT: f64 = 1e-9;
/// Width of the certified bracket around the squared distance, relative to `1 + distance²`.
const CERTIFIED: f64 = 1e-9;

/// Constraints that hold with equality, their multipliers, and the nearest point for them.
#[derive(Debug, Default)]
struct Active {
    rows: Vec<usize>,
    multipliers: Vec<f64>,
    /// Orthonormal basis of the span of the normals, one vector per row.
    basis: Vec<Vec<f64>>,
    /// Coefficients of the normals in the basis: lower triangular, one row per normal.
    triangle: Vec<Vec<f64>>,
}

impl Active {
    /// The part of a vector outside the span, and its coefficients inside.
    fn split(&self, vector: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut outside = vector.to_vec();
        let mut inside = vec![0.0; self.basis.len()];
        // twice is enough
        for _ in 0..2 {
            for (coefficient, direction) in inside.iter_mut().zip(&self.basis) {
                let share = dot(direction, &outside);
                *coefficient += share;
                for (entry, d) in outside.iter_mut().zip(direction) {
                    *entry -= share * d;
                }
            }
        }
        (outside, inside)
    }

    /// `x` with `Σ xᵢ nᵢ = Σ cⱼ basisⱼ`: how a vector of the span is made of the normals.
    fn combine(&self, coefficients: &[f64]) -> Vec<f64> {
        let mut x = coefficients.to_vec();
        for i in (0..x.len()).rev() {
            let later: f64 = (i + 1..x.len()).map(|j| self.triangle[j][i] * x[j]).sum();
            x[i] = (x[i] - later) / self.triangle[i][i];
        }
        x
    }

    fn push(&mut self, row: usize, multiplier: f64, normal: &[f64]) {
        let (outside, mut inside) = self.split(normal);
        let length = dot(&outside, &outside).sqrt();
        self.basis
            .push(outside.iter().map(|v| v / length).collect());
        inside.push(length);
        self.triangle.push(inside);
        self.rows.push(row);
        self.multipliers.push(multiplier);
    }

    fn remove(&mut self, position: usize, spaces: &[HalfSpace]) {
        let rows = std::mem::take(&mut self.rows);
        let multipliers = std::mem::take(&mut self.multipliers);
        self.basis.clear();
        self.triangle.clear();
        for (at, (row, multiplier)) in rows.into_iter().zip(multipliers).enumerate() {
            if at != position {
                self.push(row, multiplier, &spaces[row].normal);
            }
        }
    }

    /// The nearest point where all of them hold with equality: `x = Σ yᵢ basisᵢ`, `Ty = h`.
    fn nearest(&self, spaces: &[HalfSpace], dimension: usize) -> Vec<f64> {
        let mut x = vec![0.0; dimension];
        let mut y: Vec<f64> = Vec::with_capacity(self.rows.len());
        for ((&row, line), direction) in self.rows.iter().zip(&self.triangle).zip(&self.basis) {
            let known = dot(&line[..y.len()], &y);
            let next = (spaces[row].offset - known) / line[y.len()];
            for (entry, d) in x.iter_mut().zip(direction) {
                *entry += next * d;
            }
            y.push(next);
        }
        x
    }
}

/// `min |x|²` over the intersection of the half-spaces; infinite if it is empty.
///
/// # Errors
/// [`Error::NotCertified`] if a feasible point and the dual problem do not agree.
pub(super) fn squared_distance(spaces: &[HalfSpace], dimension: usize) -> Result<f64> {
    // in units of the farthest half-space, so that rounding is relative and nothing overflows
    let unit = spaces
        .iter()
        .fold(0.0f64, |most, space| most.max(space.offset));
    if unit == 0.0 {
        return Ok(0.0);
    }
    let scaled: Vec<HalfSpace> = spaces
        .iter()
        .map(|space| HalfSpace {
            normal: space.normal.clone(),
            offset: (space.offset / unit).max(f64::MIN),
        })
        .collect();
    Ok(unit * unit * scaled_distance(&scaled, dimension)?)
}

fn scaled_distance(spaces: &[HalfSpace], dimension: usize) -> Result<f64> {
    let mut active = Active::default();
    let mut x = vec![0.0; dimension];
    for _ in 0..100 + 10 * spaces.len() {
        let size = dot(&x, &x).sqrt();
        let Some((entering, violation)) = worst(spaces, &x) else {
            return Ok(0.0);
        };
        if violation <= SATISFIED * (1.0 + size) {
            return certified(spaces, &active, dimension);
        }
        if !enter(&mut active, spaces, entering, &mut x) {
            return Ok(f64::INFINITY);
        }
    }
    Err(Error::NotConverged {
        what: "the projection onto a cone",
        steps: 100 + 10 * spaces.len(),
        residual: worst(spaces, &x).map_or(0.0, |(_, violation)| violation),
    })
}

/// The constraint that is violated most, and by how much.
fn worst(spaces: &[HalfSpace], x: &[f64]) -> Option<(usize, f64)> {
    let violation = |space: &HalfSpace| space.offset - dot(&space.normal, x);
    let all = spaces.iter().map(violation).enumerate();
    all.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Makes a violated constraint active; false if the others contradict it.
fn enter(active: &mut Active, spaces: &[HalfSpace], entering: usize, x: &mut Vec<f64>) -> bool {
    let HalfSpace { normal, offset } = &spaces[entering];
    let mut own = 0.0;
    loop {
        let (outside, inside) = active.split(normal);
        let price = active.combine(&inside);
        let first = active
            .multipliers
            .iter()
            .zip(&price)
            .enumerate()
            .filter(|(_, (_, price))| **price > 0.0)
            .map(|(i, (multiplier, price))| (i, multiplier / price))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let squared = dot(&outside, &outside);
        let full = if squared > DEPENDENT * DEPENDENT {
            (offset - dot(normal, x)).max(0.0) / squared
        } else {
            f64::INFINITY
        };
        let length = first.map_or(full, |(_, length)| length.min(full));
        if length == f64::INFINITY {
            return false;
        }
        for (multiplier, price) in active.multipliers.iter_mut().zip(&price) {
            *multiplier = (*multiplier - length * price).max(0.0);
        }
        own += length;
        if full < f64::INFINITY {
            for (entry, direction) in x.iter_mut().zip(&outside) {
                *entry += length * direction;
            }
        }
        match first {
            Some((position, until)) if until < full => active.remove(position, spaces),
            _ => {
                active.push(entering, own, normal);
                // without the rounding of the way
                *x = active.nearest(spaces, x.len());
                return true;
            }
        }
    }
}

/// The squared distance if the point of the active constraints is feasible and multipliers `u ≥ 0`
/// prove it the nearest: `|x|² ≥ 2uᵀh - |Σ uᵢnᵢ|²`.
fn certified(spaces: &[HalfSpace], active: &Active, dimension: usize) -> Result<f64> {
    let x = active.nearest(spaces, dimension);
    let upper = dot(&x, &x);
    let (_, inside) = active.split(&x);
    let multipliers = active.combine(&inside);
    let mut sum = vec![0.0; dimension];
    let mut linear = 0.0;
    for (&row, multiplier) in active.rows.iter().zip(multipliers) {
        let multiplier = multiplier.max(0.0);
        linear += multiplier * spaces[row].offset;
        for (entry, n) in sum.iter_mut().zip(&spaces[row].normal) {
            *entry += multiplier * n;
        }
    }
    let lower = 2.0 * linear - dot(&sum, &sum);
    if (upper - lower).abs() <= CERTIFIED * (1.0 + upper) {
        Ok(upper)
    } else {
        Err(Error::NotCertified {
            reason: "projection onto a cone",
            lower,
            upper,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(normal: &[f64], offset: f64) -> HalfSpace {
        let length = dot(normal, normal).sqrt();
        HalfSpace {
            normal: normal.iter().map(|n| n / length).collect(),
            offset: offset / length,
        }
    }

    #[test]
    fn by_hand_in_the_plane() {
        assert_eq!(squared_distance(&[], 2).unwrap(), 0.0);
        assert_eq!(
            squared_distance(&[half(&[1.0, 0.0], -1.0)], 2).unwrap(),
            0.0
        );
        assert_eq!(
            squared_distance(&[half(&[3.0, 4.0], 10.0)], 2).unwrap(),
            4.0
        );
        // a corner at (1, 2), and a constraint that it makes idle
        let corner = [
            half(&[1.0, 0.0], 1.0),
            half(&[0.0, 1.0], 2.0),
            half(&[1.0, 1.0], 2.5),
        ];
        assert!((squared_distance(&corner, 2).unwrap() - 5.0).abs() < 1e-14);
        // the first to enter must leave again: only x + y ≥ 4 counts at (2, 2)
        let leaves = [
            half(&[0.2, 1.0], 2.2),
            half(&[1.0, 1.0], 4.0),
            half(&[1.0, 0.2], 2.2),
        ];
        assert!((squared_distance(&leaves, 2).unwrap() - 8.0).abs() < 1e-14);
    }

    #[test]
    fn contradictions_have_no_point() {
        let apart = [half(&[1.0, 0.0], 1.0), half(&[-1.0, 0.0], 1.0)];
        assert_eq!(squared_distance(&apart, 2).unwrap(), f64::INFINITY);
        // three that contradict each other, any two of which do not
        let star = [
            half(&[1.0, 0.0], 1.0),
            half(&[-1.0, 2.0], 1.0),
            half(&[-1.0, -2.0], 1.0),
        ];
        assert_eq!(squared_distance(&star, 2).unwrap(), f64::INFINITY);
    }

    #[test]
    fn dependent_constraints_are_no_obstacle() {
        let twice = [
            half(&[1.0, 0.0], 1.0),
            half(&[2.0, 0.0], 2.0),
            half(&[1.0, 0.0], 0.5),
        ];
        assert_eq!(squared_distance(&twice, 2).unwrap(), 1.0);
        // three lines through one point (1, 1) of the plane
        let fan = [
            half(&[1.0, 0.0], 1.0),
            half(&[0.0, 1.0], 1.0),
            half(&[1.0, 1.0], 2.0),
        ];
        assert!((squared_distance(&fan, 2).unwrap() - 2.0).abs() < 1e-14);
    }
}
