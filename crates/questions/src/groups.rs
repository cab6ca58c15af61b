//! One posterior for each group of observations, and events across groups.
//!
//! The groups are independent, so that their joint possibility function is the product of theirs.
//! An event about two groups (`rate[a] > rate[b]`) is measured by [`Contrast`]; conditions on
//! single groups may be joined by `and` alone or by `or` alone.

use possibility::combine::{Combination, is_concave};
use possibility::compare::{Comparable, Contrast, Student};
use possibility::family::conjugate::{Gamma, Parameter, ScalarPosterior};
use possibility::regression::{Design, Dispersion, PriorPrecision, RegressionConfig};
use possibility::{Credence, Measure};

use crate::event::{Atom, Event, Variables};
use crate::user_error::list;

/// The posteriors of all groups.
pub struct Groups<'a> {
    /// What the parameters of a group are called.
    pub parameters: &'a [&'static str],
    /// What the groups are called.
    pub names: Vec<&'a str>,
    /// The posteriors: the first parameter of all groups, then the second.
    pub functions: Vec<&'a dyn Comparable>,
}

/// Mean and unknown variance of normal numbers, from a design with a constant term alone. The prior
/// is a mode and how many observations it is worth.
///
/// # Errors
/// Too few numbers, or a prior out of its range.
pub fn normal(
    design: &Design,
    prior: Option<(f64, f64)>,
) -> possibility::Result<(Student, ScalarPosterior<Gamma>)> {
    let (mode, precision) = prior.unwrap_or_default();
    let config = RegressionConfig {
        prior_mode: Some(vec![mode]),
        prior_precision: PriorPrecision::Scalar(precision),
        dispersion: Dispersion::Unknown,
        ..RegressionConfig::default()
    };
    let posterior = config.build(1)?.fit(design)?;
    let scale = posterior.laplace().precision()[(0, 0)].sqrt().recip();
    let mean = Student::new(posterior.mode()[0], scale, posterior.weight())?;
    let variance = posterior.dispersion_profile()?;
    Ok((mean, variance.in_parameter(Parameter::Mean)))
}

impl Groups<'_> {
    /// The number of parameters of named groups. Greater coordinates of an event speak of every
    /// group: the first parameter, then the second.
    pub fn every(&self) -> usize {
        self.functions.len()
    }

    /// The names that an event may use.
    pub fn variables(&self) -> Variables {
        let names: Vec<String> = self.names.iter().map(|&name| name.to_owned()).collect();
        let (count, every) = (names.len(), self.every());
        let mut variables = Variables::vector(&["x"], &names).with_name("x", every);
        for (kind, name) in self.parameters.iter().enumerate() {
            variables = variables
                .with_indexed(name, kind * count)
                .with_name(name, every + kind);
        }
        variables
    }

    /// Possibility and necessity of an event about named groups.
    ///
    /// # Errors
    /// An event that names no group, one twice, or more than can be compared.
    pub fn measure(&self, event: &Event) -> Result<Credence, String> {
        if event
            .coordinates()
            .iter()
            .any(|&index| index >= self.every())
        {
            return Err(format!(
                "name the group, as in {}[{}]",
                self.parameters[0], self.names[0]
            ));
        }
        let (inside, outside) = if let Some(atoms) = event.as_conjunction(false) {
            self.log_suprema(&atoms)?
        } else if let Some(atoms) = event.as_conjunction(true) {
            let (outside, inside) = self.log_suprema(&atoms)?;
            (inside, outside)
        } else {
            return Err("conditions may be joined by \"and\" alone or by \"or\" alone".to_owned());
        };
        Ok(Credence::from_logs(inside, outside))
    }

    /// `log sup` where every atom holds, and where one fails.
    fn log_suprema(&self, atoms: &[Atom]) -> Result<(f64, f64), String> {
        let mut used: Vec<usize> = Vec::new();
        let (mut inside, mut outside) = (0.0, f64::NEG_INFINITY);
        for atom in atoms {
            let groups = atom
                .linear
                .iter()
                .map(|(index, _)| index % self.names.len());
            for group in groups {
                if used.contains(&group) {
                    let name = self.names[group];
                    return Err(format!(
                        "group \"{name}\" comes twice; the parts of an event must speak of \
                         different groups"
                    ));
                }
                used.push(group);
            }
            let text = |error: possibility::Error| error.to_string();
            let (holds, fails) = match &atom.linear[..] {
                [(index, _)] => {
                    let function = self.functions[*index];
                    let holds = function.log_possibility_of(&atom.set).map_err(text)?;
                    (
                        holds,
                        function
                            .log_possibility_of_complement(&atom.set)
                            .map_err(text)?,
                    )
                }
                [(one, c), (other, d)] => {
                    let parts = [(self.functions[*one], *c), (self.functions[*other], *d)];
                    let contrast = Contrast::new(parts).map_err(text)?;
                    let holds = contrast.log_possibility_of(&atom.set).map_err(text)?;
                    (
                        holds,
                        contrast
                            .log_possibility_of_complement(&atom.set)
                            .map_err(text)?,
                    )
                }
                several => {
                    let parts: Vec<_> = several
                        .iter()
                        .map(|&(index, factor)| (self.functions[index], factor))
                        .collect();
                    if !parts.iter().all(|(function, _)| is_concave(*function)) {
                        return Err(self.refuse_several(several));
                    }
                    let form = Combination::new(&parts).map_err(text)?;
                    let holds = form.log_possibility_of(&atom.set).map_err(text)?;
                    let fails = form.log_possibility_of_complement(&atom.set);
                    (holds, fails.map_err(text)?)
                }
            };
            inside += holds;
            outside = outside.max(fails);
        }
        Ok((inside, outside))
    }

    /// Why three groups or more cannot be compared.
    fn refuse_several(&self, parts: &[(usize, f64)]) -> String {
        let names = parts.iter().map(|(index, _)| index % self.names.len());
        let names = names.map(|group| self.names[group]);
        format!(
            "the possibility of this parameter is not log-concave, so that only two groups can be \
             compared exactly; this event names {}",
            list(names)
        )
    }
}
