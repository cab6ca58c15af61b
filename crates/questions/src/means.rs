//! Events about a mean in several dimensions.
//!
//! Events are conditions on linear combinations of the coordinates, joined by `and` and `or`: a
//! union of conjunctions. The image of the posterior under the combinations of a conjunction is
//! normal, the conjunction a box; the possibility of a union is the largest of its parts.
//!
//! For a valid possibility an event about `k` independent combinations speaks of a mean in `ℝᵏ`:
//! twice minus the log of its relative likelihood is `χ²` with `k` degrees of freedom, whatever the
//! mean is.

use faer::Mat;
use possibility::event::Region;
use possibility::family::conjugate::{MultivariateNormal, NormalNoise};
use possibility::valid::{Pivot, Valid};
use possibility::{Credence, Interval, Measure, Normal, RealSet};

use crate::event::{Atom, Event};

/// More boxes than this make no event that a person typed.
const MAX_BOXES: usize = 1 << 12;

/// Possibility and necessity of an event, plain or valid.
///
/// # Errors
/// Combinations that depend on each other, or too many parts.
pub fn credence(normal: &Normal, event: &Event, valid: bool) -> Result<Credence, String> {
    let plain = measure(normal, event)?;
    if !valid {
        return Ok(plain);
    }
    let dimension = independent_forms(normal, event)?;
    Ok(Pivot::ChiSquared { dimension }.credence(plain))
}

/// The valid possibility function of one coordinate, a mean of known variance, from data of this
/// mean and number.
///
/// # Errors
/// As [`Valid::new`].
pub fn valid(
    family: &MultivariateNormal,
    coordinate: usize,
    mean: f64,
    number: f64,
) -> possibility::Result<Valid<NormalNoise>> {
    let variance = family.covariance()[(coordinate, coordinate)];
    crate::valid(NormalNoise::new(variance)?, mean, number)
}

/// How many of the linear forms in an event are independent of each other; at least 1.
fn independent_forms(normal: &Normal, event: &Event) -> Result<usize, String> {
    let mut forms: Vec<Vec<(usize, f64)>> = Vec::new();
    for negated in [false, true] {
        let parts = event.disjuncts(negated, MAX_BOXES).ok_or_else(too_many)?;
        for atom in parts.into_iter().flatten() {
            if !forms.contains(&atom.linear) {
                forms.push(atom.linear);
            }
        }
    }
    let mut kept: Vec<&[(usize, f64)]> = Vec::new();
    for form in &forms {
        kept.push(form);
        if image(normal, kept.iter().copied()).is_err() {
            kept.pop();
        }
    }
    Ok(kept.len().max(1))
}

/// The image of the normal under linear forms.
fn image<'a>(
    normal: &Normal,
    forms: impl ExactSizeIterator<Item = &'a [(usize, f64)]>,
) -> possibility::Result<Normal> {
    let count = forms.len();
    let mut matrix = Mat::zeros(count, normal.dimension());
    for (row, form) in forms.enumerate() {
        for &(column, coefficient) in form {
            matrix[(row, column)] = coefficient;
        }
    }
    normal.affine_image(matrix.as_ref(), &vec![0.0; count])
}

/// Possibility and necessity of an event under a normal.
fn measure(normal: &Normal, event: &Event) -> Result<Credence, String> {
    let supremum = |negated: bool| {
        let parts = event.disjuncts(negated, MAX_BOXES).ok_or_else(too_many)?;
        let mut best = f64::NEG_INFINITY;
        for atoms in &parts {
            best = best.max(log_supremum(normal, atoms)?);
        }
        Ok::<_, String>(best)
    };
    Ok(Credence::from_logs(supremum(false)?, supremum(true)?))
}

fn too_many() -> String {
    format!("the event has more than {MAX_BOXES} parts")
}

/// `log sup` over the points where every atom holds.
fn log_supremum(normal: &Normal, atoms: &[Atom]) -> Result<f64, String> {
    if atoms.iter().any(|atom| atom.set.is_empty()) {
        return Ok(f64::NEG_INFINITY);
    }
    let joint = image(normal, atoms.iter().map(|atom| &atom.linear[..])).map_err(|_| {
        "the linear combinations depend on each other; only independent ones may be joined"
            .to_owned()
    })?;
    let sets: Vec<&RealSet> = atoms.iter().map(|atom| &atom.set).collect();
    let boxes: usize = sets.iter().map(|set| set.parts().len()).product();
    if boxes > MAX_BOXES {
        return Err(too_many());
    }
    let mut best = f64::NEG_INFINITY;
    for sides in products(&sets) {
        let log = joint.log_possibility_of(&Region::Box(sides));
        best = best.max(log.map_err(|error| error.to_string())?);
    }
    Ok(best)
}

/// Every choice of one interval from each set.
fn products(sets: &[&RealSet]) -> Vec<Vec<Interval>> {
    sets.iter().fold(vec![vec![]], |chosen, set| {
        chosen
            .iter()
            .flat_map(|sides: &Vec<Interval>| {
                set.parts().iter().map(move |part| {
                    let mut sides = sides.clone();
                    sides.push(*part);
                    sides
                })
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Variables;

    fn ask(text: &str) -> Result<Credence, String> {
        // variances 1 and 4, correlation 0, modes 1 and -2
        let normal = Normal::diagonal([1.0, -2.0], &[1.0, 0.25]).unwrap();
        let names = ["a".to_owned(), "b".to_owned()];
        let event = Event::parse(text, &Variables::vector(&["mean"], &names)).unwrap();
        measure(&normal, &event)
    }

    #[test]
    fn events_have_the_possibility_of_their_nearest_point() {
        let half = |squared: f64| (-0.5 * squared).exp();
        let cases = [
            ("a > 0", 1.0, 1.0 - half(1.0)),
            ("a > 3", half(4.0), 0.0),
            ("mean[b] >= 0", half(1.0), 0.0),
            // both at distance 1 and 1
            ("a > 2 and b > 0", half(2.0), 0.0),
            ("a < 2 and b < 0", 1.0, 1.0 - half(1.0)),
            ("a > 2 or b > 2", half(1.0), 0.0),
            ("not (a > 2 or b > 2)", 1.0, 1.0 - half(1.0)),
            // a + b has mode -1 and variance 5
            ("a + b > 4", half(5.0), 0.0),
            ("a + b < 4", 1.0, 1.0 - half(5.0)),
            ("2*a - b = 4", 1.0, 0.0),
            // -1 from a + b = -1 and 3 from a - b = 3: both modes
            ("a + b <= -1 and a - b <= 3", 1.0, 0.0),
            ("a < 0 or a > 3", half(1.0), 0.0),
            ("(a < 0 or a > 3) and b = -2", half(1.0), 0.0),
            ("a > 1 and a < 0", 0.0, 0.0),
            // mixed: the nearer of two corners, and the nearest way out
            ("a > 2 and (b > 0 or b < -6)", half(2.0), 0.0),
            ("a > 2 and b > 0 or a + b > 4", half(2.0), 0.0),
            ("a > 0 and (b < 0 or a + b < 4)", 1.0, 1.0 - half(1.0)),
            ("(a > 2 or b > 0) and (a < 0 or b < -4)", half(2.0), 0.0),
            ("not (a > 2 and (b > 0 or b < -6))", 1.0, 1.0 - half(2.0)),
        ];
        for (text, possibility, necessity) in cases {
            let Credence {
                possibility: found,
                necessity: sure,
            } = ask(text).unwrap();
            assert!(
                (found - possibility).abs() < 1e-12,
                "{text}: {found} {possibility}"
            );
            assert!(
                (sure - necessity).abs() < 1e-12,
                "{text}: {sure} {necessity}"
            );
        }
    }

    #[test]
    fn events_beyond_the_rules_are_refused() {
        let many = ["(a < 0 or b < 0 or a > 9 or b > 9)"; 7].join(" and ");
        assert!(ask(&many).unwrap_err().contains("more than 4096 parts"));
        assert!(
            ask("a > 0 and b > 0 and a + b > 1")
                .unwrap_err()
                .contains("independent")
        );
    }
}
