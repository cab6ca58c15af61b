//! Events about the probabilities of classes.
//!
//! For valid possibilities the number of a class is binomial, and so is that of several classes
//! with one factor: a probability, or a sum of them, is answered exactly. For any other linear form
//! numbers of all classes are simulated.

use possibility::family::conjugate::{Bernoulli, Categorical, Conjugate, ShareForm};
use possibility::simulated::{self, SimulatedShares};
use possibility::valid::Valid;
use possibility::{Interval, Measure, RealSet};

use crate::Unmeasured;
use crate::event::Event;
use crate::simulation::{Measured, Simulated, Simulations};

/// The valid possibility function of a probability, from its share of `n` observations.
///
/// # Errors
/// As [`Valid::new`].
pub fn valid(share: f64, n: f64) -> possibility::Result<Valid<Bernoulli>> {
    crate::valid(Bernoulli, counted(share, n), n)
}

/// A share of `n` observations without rounding.
fn counted(share: f64, n: f64) -> f64 {
    (share * n).round() / n
}

/// The valid possibility and necessity of a linear form, and what was simulated for it.
///
/// # Errors
/// An event of numbers that are none, or a simulation that cannot be made.
pub fn valid_form(
    form: &ShareForm,
    set: &RealSet,
    simulations: Simulations,
) -> possibility::Result<(Measured, Option<Simulated>)> {
    let form = form.joined();
    match *form.classes() {
        [_] => Ok((form.credence_of(set)?.into(), None)),
        [(low, _), (high, share)] => {
            // low + (high - low) p, with the probability p of the classes of the greater factor
            let back = |x: f64| (x - low) / (high - low);
            let part = |p: &Interval| {
                let (lower, upper) = (back(p.lower()), back(p.upper()));
                Interval::new(lower, upper, p.contains_lower(), p.contains_upper())
            };
            let set: RealSet = set.parts().iter().map(part).collect::<Result<_, _>>()?;
            let n = form.weight();
            Ok((valid(share, n)?.credence_of(&set)?.into(), None))
        }
        _ => {
            let credence = simulations.with(|simulation| {
                let source = SimulatedShares::new(form, simulation)?;
                simulated::Simulated::new(source).credence_of(set)
            })?;
            let used = Simulated {
                simulations,
                unresolved: 0,
                held: Some("all others"),
            };
            Ok((credence.into(), Some(used)))
        }
    }
}

/// The linear form that an event about several classes speaks of, and where it must lie.
///
/// # Errors
/// An event about more than one form.
pub fn form(
    posterior: &Conjugate<Categorical>,
    event: &Event,
) -> Result<(ShareForm, RealSet), Unmeasured> {
    let refuse = |rule: &str| Err(Unmeasured::Event(rule.to_owned()));
    let atoms = event.as_conjunction(false).unwrap_or_default();
    let [atom] = &atoms[..] else {
        return refuse("an event about several classes is about one linear form of them");
    };
    let mut factors = vec![0.0; posterior.family().classes()];
    for &(index, factor) in &atom.linear {
        factors[index] = factor;
    }
    Ok((ShareForm::new(posterior, &factors)?, atom.set.clone()))
}
