//! Events about the coefficients of a regression, and about its unknown variance.

use possibility::RealSet;
use possibility::regression::{Design, Dispersion};
use possibility::valid::Pivot;

use crate::event::{Atom, Event, Variables};

/// What an event of a regression is about, and where that must lie.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Every coefficient.
    Every(RealSet),
    /// The coefficient in this place.
    One(usize, RealSet),
    /// A linear form: a factor for each coefficient.
    Form(Vec<f64>, RealSet),
    /// The unknown variance.
    Variance(RealSet),
    /// A linear form, and the unknown variance in the second set.
    Together(Vec<f64>, RealSet, RealSet),
}

/// The name, in as many parentheses as it takes to be none of those that are taken.
///
/// ```
/// let taken = ["mean".to_owned(), "(mean)".to_owned()];
/// assert_eq!(questions::coefficients::free_name("mean", &taken), "((mean))");
/// assert_eq!(questions::coefficients::free_name("intercept", &taken), "intercept");
/// ```
pub fn free_name(name: &str, taken: &[String]) -> String {
    let mut name = name.to_owned();
    while taken.contains(&name) {
        name = format!("({name})");
    }
    name
}

/// What an unknown variance is called beside coefficients of these names.
pub fn variance_name(names: &[String]) -> String {
    free_name("variance", names)
}

/// The names that an event may use; one that is no column stands for every coefficient.
pub fn variables(names: &[String], dispersion: Dispersion) -> Variables {
    let (any, variance) = (names.len(), names.len() + 1);
    let variables = Variables::vector(&["coefficient", "x"], names)
        .with_name("coefficient", any)
        .with_name("x", any);
    match dispersion {
        Dispersion::Unknown => variables.with_name(&variance_name(names), variance),
        Dispersion::Known(_) => variables,
    }
}

/// What an event is about, of so many coefficients.
///
/// # Errors
/// It is about more than can be asked, with the rule.
pub fn question(event: &Event, coefficients: usize) -> Result<Question, String> {
    let (any, variance) = (coefficients, coefficients + 1);
    let form = |atom: &Atom| {
        let mut form = vec![0.0; coefficients];
        for &(index, factor) in &atom.linear {
            form[index] = factor;
        }
        form
    };
    let atoms = event.as_conjunction(false).unwrap_or_default();
    let atom = match &atoms[..] {
        [atom] => atom,
        [one, other] | [other, one] if other.linear == [(variance, 1.0)] && one.is_within(any) => {
            let (set, variances) = (one.set.clone(), other.set.clone());
            return Ok(Question::Together(form(one), set, variances));
        }
        _ => {
            return Err(
                "an event of a regression is about one linear form of the coefficients, \
                 and beside it about an unknown variance"
                    .to_owned(),
            );
        }
    };
    let set = atom.set.clone();
    match event.coordinates()[..] {
        [index] if index == any => Ok(Question::Every(set)),
        [index] if index == variance => Ok(Question::Variance(set)),
        [index] => Ok(Question::One(index, set)),
        ref several if several.iter().any(|&index| index >= any) => {
            Err("\"coefficient\" and \"variance\" cannot be part of a linear form".to_owned())
        }
        _ => Ok(Question::Form(form(atom), set)),
    }
}

/// The laws of the coefficients and of an unknown variance, for valid possibilities; where a
/// simulation is to find them, those of large samples.
///
/// # Errors
/// There is a prior, or there are not more observations than coefficients.
pub fn pivots(
    has_prior: bool,
    dispersion: Dispersion,
    design: &Design,
) -> Result<(Pivot, Option<Pivot>), String> {
    if has_prior {
        let rule = "cannot be used with a prior; a valid possibility is one of the data alone";
        return Err(rule.to_owned());
    }
    if dispersion != Dispersion::Unknown {
        return Ok((Pivot::Normal, None));
    }
    let (n, columns) = (design.total_weight(), design.columns());
    let text = |error: possibility::Error| error.to_string();
    let variance = Pivot::variance(n, columns).map_err(text)?;
    Ok((Pivot::student(n, columns).map_err(text)?, Some(variance)))
}
