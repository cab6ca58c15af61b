//! Valid possibilities of the coefficients of a regression, and of linear forms of them, by
//! simulation. The search for the ends of cuts starts from those of large samples.

use possibility::regression::SimulatedForm;
use possibility::simulated::{self, Simulation};
use possibility::valid::Pivot;
use possibility::{Interval, RealSet, Univariate};

use super::{Coefficient, Contrast, Fitted, Questioned, Report, unit};
use crate::Answer;
use questions::simulation::{Measured, Simulated, Simulations};

type Form<'a> = simulated::Simulated<SimulatedForm<'a>>;

/// Values between the ends of a drawn curve.
const DRAWN: u32 = 24;

/// Fewer simulated sets than this beyond the end of a drawn curve say too little of where it is.
const BEYOND: f64 = 5.0;

/// The simulated possibility function of a coefficient, at the values that were looked at.
pub struct SimulatedCurve<'a> {
    /// Name of the coefficient.
    pub name: &'a str,
    /// The mode.
    pub mode: f64,
    /// Precision at the mode, in large samples.
    pub precision: Option<f64>,
    /// The α-cuts.
    pub cuts: &'a [Interval],
    /// Values and their possibilities, by increasing value.
    pub points: Vec<(f64, f64)>,
}

impl Fitted {
    fn form<'a>(
        &self,
        factors: &[f64],
        simulation: Simulation<'a>,
    ) -> possibility::Result<Form<'a>> {
        let (model, design, posterior) = (&self.regression, &self.design, &self.posterior);
        let form = SimulatedForm::new(model, design, posterior, factors, simulation)?;
        Ok(simulated::Simulated::new(form))
    }

    /// Puts simulated answers in the place of those of large samples.
    pub(super) fn simulate(
        &self,
        simulations: Simulations,
        alphas: &[f64],
        asked: &Questioned,
        coefficients: &mut [Coefficient],
        contrasts: &mut [Contrast],
    ) -> possibility::Result<Simulated> {
        let mut unresolved = 0;
        simulations.with(|simulation| {
            for (index, (coefficient, asked)) in
                coefficients.iter_mut().zip(&asked.single).enumerate()
            {
                let mut form = self.form(&unit(self.names.len(), index), simulation)?;
                let mut errors = vec![[0.0; 2]; alphas.len()];
                // the widest first: what it looked at serves the others
                let mut order: Vec<usize> = (0..alphas.len()).collect();
                order.sort_by(|&i, &j| alphas[i].total_cmp(&alphas[j]));
                for i in order {
                    let [lower, upper] = form.cut(alphas[i], &coefficient.cuts[i])?;
                    coefficient.cuts[i] = Interval::closed(lower.value, upper.value)?;
                    errors[i] = [lower.error, upper.error];
                }
                coefficient.cut_errors = Some(errors);
                for (answer, asked) in coefficient.answers.iter_mut().zip(asked) {
                    replace(answer, &mut form, &asked.set)?;
                }
                unresolved = unresolved.max(form.unresolved());
            }
            for (contrast, asked) in contrasts.iter_mut().zip(&asked.several) {
                let mut form = self.form(&asked.form, simulation)?;
                replace(&mut contrast.answer, &mut form, &asked.set)?;
                unresolved = unresolved.max(form.unresolved());
            }
            Ok(Simulated {
                simulations,
                unresolved,
                held: (self.names.len() > 1).then_some("the other coefficients"),
            })
        })
    }
}

fn replace(answer: &mut Answer, form: &mut Form<'_>, set: &RealSet) -> possibility::Result<()> {
    let Measured { credence, errors } = form.credence_of(set)?.into();
    (answer.credence, answer.errors) = (credence, errors);
    Ok(())
}

impl Report {
    /// The curves down to the possibility `smallest`, or as far as the simulation reaches; `None`
    /// where nothing was simulated.
    ///
    /// # Errors
    /// A value that cannot be simulated.
    pub fn simulated_curves(
        &self,
        smallest: f64,
    ) -> possibility::Result<Option<Vec<SimulatedCurve<'_>>>> {
        let Some(Simulated { simulations, .. }) = self.simulated else {
            return Ok(None);
        };
        let count = self.coefficients.len();
        let lowest = smallest
            .max(BEYOND / (simulations.draws as f64 + 1.0))
            .min(1.0);
        let level = Pivot::Normal.plain_level(lowest)?;
        let profiles = self.fitted.profiles()?;
        let curve = |(index, coefficient): (usize, &'_ Coefficient)| {
            let factors = unit(count, index);
            let guess = profiles.cut(&factors, level)?;
            simulations.with(|simulation| {
                let mut form = self.fitted.form(&factors, simulation)?;
                let [lower, upper] = form.cut(lowest, &guess)?;
                for end in coefficient.cuts.iter().flat_map(|c| [c.lower(), c.upper()]) {
                    if end.is_finite() {
                        form.possibility(end)?;
                    }
                }
                let mode = coefficient.exact.mode;
                for end in [lower.value, upper.value] {
                    // toward an infinite end, what is drawn ends where it would in large samples
                    let end = if end.is_finite() {
                        end
                    } else {
                        guess.clamp(end)
                    };
                    for k in 1..=DRAWN / 2 {
                        let share = f64::from(k) / f64::from(DRAWN / 2);
                        form.possibility(mode + share * (end - mode))?;
                    }
                }
                let points = form.points().into_iter();
                let mut points: Vec<_> = points
                    .map(|(x, possibility)| (x, possibility.value))
                    .collect();
                let place = points.partition_point(|(x, _)| *x < mode);
                points.insert(place, (mode, 1.0));
                Ok(points)
            })
        };
        let mut curves = Vec::with_capacity(count);
        for (index, coefficient) in self.coefficients.iter().enumerate() {
            curves.push(SimulatedCurve {
                name: &coefficient.name,
                mode: coefficient.exact.mode,
                precision: coefficient.views[0].marginal.precision(),
                cuts: &coefficient.cuts,
                points: curve((index, coefficient))?,
            });
        }
        Ok(Some(curves))
    }
}
