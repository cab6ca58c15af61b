//! The projection of [`cone`](super::cone) in the space of the classes, by inner products of the
//! normals alone: `(r_y - r_i)ᵀ(r_y - r_j) = C_yy - C_yi - C_yj + C_ij`.
//!
//! The same active sets, with a Cholesky factor of the active normals' inner products in place of a
//! basis, so that a step costs the number of classes times that of active constraints. Inner
//! products lose half the digits of what is nearly dependent: there the answer is `None`, and the
//! basis has to find it.

use std::ops::Range;

use super::climb::Field;
use super::cone::{SATISFIED, packed};
use super::lanes::{Task, add_scaled};

/// A normal whose squared part outside the span of the others is less than this is too close to it.
const APART: f64 = 1e-4;
/// Constraints that may be active at a time.
const MOST: usize = 400;

/// Memory for one class after another.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    /// `h_j` in units of the farthest half-space, and `1/|r_y - r_j|`; vectors with padding.
    offsets: Vec<f64>,
    inverse: Vec<f64>,
    /// Variances of the logits.
    diagonal: Vec<f64>,
    /// `(r_y - r_j)ᵀx`.
    moved: Vec<f64>,
    rows: Vec<usize>,
    multipliers: Vec<f64>,
    /// Packed lower triangle of the factor `T` of the active normals' inner products.
    triangle: Vec<f64>,
    /// `T⁻¹` of the inner products with the entering normal, and what makes it of the others.
    inside: Vec<f64>,
    price: Vec<f64>,
}

impl Nearest {
    /// `min |x|²` over the half-spaces `(r_y - r_j)ᵀx ≥ z_j - z_y`; `None` where there is no point
    /// in all of them, or rounding could hide it.
    #[inline(always)]
    pub(super) fn squared_distance<const FUSED: bool>(
        &mut self,
        field: &Field<'_>,
        class: usize,
    ) -> Option<f64> {
        let unit = self.constrain(field, class)?;
        if unit == 0.0 {
            return Some(0.0);
        }
        self.rows.clear();
        self.multipliers.clear();
        self.triangle.clear();
        self.moved.fill(0.0);
        let mut squared = 0.0f64;
        for _ in 0..100 + 10 * field.classes {
            let (entering, violation) = self.worst();
            if violation <= SATISFIED * (1.0 + squared.sqrt()) {
                return Some(unit * unit * squared);
            }
            self.enter(field, class, entering, violation)?;
            squared = self.solve();
            self.move_all::<FUSED>(field, class);
        }
        None
    }

    /// Fills in the constraints, and says their unit; `None` where two logits hardly move apart.
    #[inline(always)]
    fn constrain(&mut self, field: &Field<'_>, class: usize) -> Option<f64> {
        let (n, stride) = (field.classes, field.mode.len());
        for vector in [&mut self.offsets, &mut self.inverse, &mut self.moved] {
            vector.clear();
            vector.resize(stride, 0.0);
        }
        let (row, own) = (field.row(class), field.row(class)[class]);
        let least = 1e3 * n as f64 * f64::EPSILON;
        let mut unit = 0.0f64;
        let vectors = self.offsets.iter_mut().zip(&mut self.inverse);
        let given = (row.iter().zip(field.mode)).zip(&self.diagonal);
        for (j, ((offset, inverse), ((cross, z), other))) in vectors.zip(given).enumerate() {
            let size = other + own;
            let variance = size - 2.0 * cross;
            let behind = z - field.mode[class];
            // idle for now and for ever: it does not move, and is not ahead
            if j == class || (variance <= least * size && behind <= 0.0) {
                *offset = f64::NEG_INFINITY;
                continue;
            }
            if variance <= least * size {
                return None;
            }
            *inverse = 1.0 / variance.sqrt();
            *offset = behind * *inverse;
            unit = unit.max(*offset);
        }
        self.offsets[n..].fill(f64::NEG_INFINITY);
        if unit > 0.0 {
            let scale = 1.0 / unit;
            self.offsets.iter_mut().for_each(|h| *h *= scale);
        }
        unit.is_finite().then_some(unit)
    }

    /// The constraint that is violated most, and by how much.
    #[inline(always)]
    fn worst(&self) -> (usize, f64) {
        let (mut at, mut most) = (0, f64::NEG_INFINITY);
        let all = self.offsets.iter().zip(&self.inverse).zip(&self.moved);
        for (j, ((offset, inverse), moved)) in all.enumerate() {
            let violation = offset - inverse * moved;
            if violation > most {
                (at, most) = (j, violation);
            }
        }
        (at, most)
    }

    /// Inner product of two normals of length 1.
    #[inline(always)]
    fn product(&self, field: &Field<'_>, class: usize, i: usize, j: usize) -> f64 {
        let row = field.row(class);
        let product = row[class] - row[i] - row[j] + field.row(i)[j];
        product * self.inverse[i] * self.inverse[j]
    }

    /// Finds `T⁻¹` of a normal's inner products with the first `count` active ones, and its squared
    /// part outside their span.
    #[inline(always)]
    fn split(&mut self, field: &Field<'_>, class: usize, normal: usize, count: usize) -> f64 {
        self.inside.clear();
        let mut left = 1.0;
        for i in 0..count {
            let line = &self.triangle[packed(i)..packed(i + 1)];
            let known: f64 = line.iter().zip(&self.inside).map(|(t, y)| t * y).sum();
            let next = (self.product(field, class, self.rows[i], normal) - known) / line[i];
            left -= next * next;
            self.inside.push(next);
        }
        left
    }

    /// Makes a violated constraint active; `None` if it nearly depends on the others, as it does
    /// where they contradict it.
    #[inline(always)]
    fn enter(
        &mut self,
        field: &Field<'_>,
        class: usize,
        entering: usize,
        mut violation: f64,
    ) -> Option<()> {
        let mut own = 0.0;
        loop {
            let left = self.split(field, class, entering, self.rows.len());
            if left < APART || self.rows.len() == MOST {
                return None;
            }
            // how the part inside is made of the active normals
            self.price.clear();
            self.price.extend(&self.inside);
            back(&self.triangle, &mut self.price);
            let mut first: Option<(usize, f64)> = None;
            for (i, (multiplier, price)) in self.multipliers.iter().zip(&self.price).enumerate() {
                let until = multiplier / price;
                if *price > 0.0 && first.is_none_or(|(_, least)| until < least) {
                    first = Some((i, until));
                }
            }
            let full = violation.max(0.0) / left;
            let length = first.map_or(full, |(_, until)| until.min(full));
            for (multiplier, price) in self.multipliers.iter_mut().zip(&self.price) {
                *multiplier = (*multiplier - length * price).max(0.0);
            }
            own += length;
            violation -= length * left;
            match first {
                Some((position, until)) if until < full => self.remove(field, class, position)?,
                _ => {
                    self.triangle.extend(&self.inside);
                    self.triangle.push(left.sqrt());
                    self.rows.push(entering);
                    self.multipliers.push(own);
                    return Some(());
                }
            }
        }
    }

    /// Takes a constraint out; those before it stay as they are.
    #[inline(always)]
    fn remove(&mut self, field: &Field<'_>, class: usize, position: usize) -> Option<()> {
        self.rows.remove(position);
        self.multipliers.remove(position);
        self.triangle.truncate(packed(position));
        for i in position..self.rows.len() {
            let left = self.split(field, class, self.rows[i], i);
            if left < APART {
                return None;
            }
            self.triangle.extend(&self.inside);
            self.triangle.push(left.sqrt());
        }
        Some(())
    }

    /// The multipliers with which all active constraints hold with equality, without the rounding
    /// of the way, and the squared distance.
    #[inline(always)]
    fn solve(&mut self) -> f64 {
        let price = &mut self.price;
        price.clear();
        for (i, &row) in self.rows.iter().enumerate() {
            let line = &self.triangle[packed(i)..packed(i + 1)];
            let known: f64 = line.iter().zip(&*price).map(|(t, y)| t * y).sum();
            price.push((self.offsets[row] - known) / line[i]);
        }
        let squared = price.iter().map(|y| y * y).sum();
        back(&self.triangle, price);
        self.multipliers.clear();
        self.multipliers.extend(price.iter().map(|u| u.max(0.0)));
        squared
    }

    /// `(r_y - r_j)ᵀx` for `x = Σ u_i (r_y - r_i)/|r_y - r_i|`.
    #[inline(always)]
    fn move_all<const FUSED: bool>(&mut self, field: &Field<'_>, class: usize) {
        let row = field.row(class);
        let (mut weight, mut level) = (0.0, 0.0);
        self.moved.fill(0.0);
        for (&i, multiplier) in self.rows.iter().zip(&self.multipliers) {
            let share = multiplier * self.inverse[i];
            weight += share;
            level += share * (row[class] - row[i]);
            add_scaled::<FUSED>(&mut self.moved, share, field.row(i));
        }
        for (moved, own) in self.moved.iter_mut().zip(row) {
            *moved += level - weight * own;
        }
    }
}

/// Solves `Tᵀy = x` in the place of `x`.
#[inline(always)]
fn back(triangle: &[f64], x: &mut [f64]) {
    for i in (0..x.len()).rev() {
        let line = &triangle[packed(i)..packed(i + 1)];
        let (before, own) = x.split_at_mut(i);
        own[0] /= line[i];
        for (entry, t) in before.iter_mut().zip(line) {
            *entry -= t * own[0];
        }
    }
}

/// The squared distances of some classes, 0 for those that are ahead already.
pub(super) struct Distances<'a> {
    pub field: Field<'a>,
    pub classes: Range<usize>,
}

impl Task for Distances<'_> {
    type Output = Vec<Option<f64>>;

    #[inline(always)]
    fn run<const FUSED: bool>(self) -> Self::Output {
        let mut nearest = Nearest::default();
        let field = &self.field;
        let diagonal = (0..field.classes).map(|j| field.row(j)[j]);
        nearest.diagonal = diagonal.collect();
        let mut all = Vec::with_capacity(self.classes.len());
        for class in self.classes {
            // the largest entry is 0 exactly
            all.push(match field.mode[class] == 0.0 {
                true => Some(0.0),
                false => nearest.squared_distance::<FUSED>(field, class),
            });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::cone::{Active, HalfSpaces};
    use super::super::lanes::widest;
    use super::super::twin::drawn;
    use super::*;

    #[test]
    fn inner_products_and_a_basis_find_one_point() {
        let mut found = 0;
        for (classes, weights) in [(2, 1), (3, 3), (10, 12), (10, 4), (40, 60), (100, 120)] {
            for apart in [0.1, 3.0, 50.0] {
                let logits = drawn(classes, weights, apart, 2.0);
                let (field, classes) = (logits.field(), 0..classes);
                let all = widest(Distances {
                    field,
                    classes: classes.clone(),
                });
                let (mut spaces, mut active) = (HalfSpaces::default(), Active::default());
                for (class, squared) in classes.zip(all) {
                    let Some(squared) = squared else { continue };
                    let want = logits.log_possibility_in(class, &mut spaces, &mut active);
                    let want = -2.0 * want.unwrap();
                    assert!((squared - want).abs() <= 1e-12 * (1.0 + want));
                    found += 1;
                }
            }
        }
        // of 165 classes each
        assert!(found > 400, "{found}");
    }

    #[test]
    fn what_is_nearly_dependent_is_left_to_the_basis() {
        // three classes that one weight moves: the normals are parallel
        let logits = drawn(3, 1, 1.0, 1.0);
        let all = widest(Distances {
            field: logits.field(),
            classes: 0..3,
        });
        let want: Vec<f64> = logits.log_possibilities().unwrap();
        for (squared, log) in all.into_iter().zip(want) {
            assert!(squared.is_none_or(|squared| (squared + 2.0 * log).abs() < 1e-12));
        }
    }
}
