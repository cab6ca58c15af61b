//! The mean response `b'(xᵀw)` at new covariates `x`. It increases with the linear form `xᵀw`, and
//! a possibility function needs no Jacobian: cuts and events of the mean response are those of the
//! exact profile of the form, read through the link.

use super::profile::{FormQuestions, Profiles};
use super::response::Response;
use crate::error::Result;
use crate::function::Credence;
use crate::set::{Interval, RealSet};

/// Rows whose profiles are searched together.
const TOGETHER: usize = 512;

/// What is said of the mean response at one row of covariates, in the order of the questions.
#[derive(Debug, Clone, PartialEq)]
pub struct MeanResponse {
    /// The mean response of possibility 1.
    pub mode: f64,
    /// The α-cuts.
    pub cuts: Vec<Interval>,
    /// Possibility and necessity of each event.
    pub credences: Vec<Credence>,
    /// How far a log possibility may be off; `None` if that is not known.
    pub gap: Option<f64>,
}

impl Response {
    /// What the mean response is called.
    pub fn mean_name(self) -> &'static str {
        match self {
            Self::Bernoulli => "p",
            Self::Poisson => "rate",
            Self::Normal => "mean",
        }
    }

    /// The linear predictors whose mean response lies in the set.
    ///
    /// # Errors
    /// None for a set of numbers.
    pub fn through_link(self, set: &RealSet) -> Result<RealSet> {
        let domain = match self {
            Self::Bernoulli => Interval::closed(0.0, 1.0)?,
            Self::Poisson => Interval::at_least(0.0)?,
            Self::Normal => Interval::REAL_LINE,
        };
        let inside = set.parts().iter().filter_map(|p| p.intersection(&domain));
        inside
            .map(|part| (self.link(part.lower()), self.link(part.upper()), part))
            // a mean response at the end of its range is approached, never reached
            .filter(|(lower, upper, _)| lower.is_finite() || lower < upper)
            .map(|(lower, upper, part)| {
                let (has_lower, has_upper) = (
                    part.contains_lower() || lower.is_infinite(),
                    part.contains_upper() || upper.is_infinite(),
                );
                Interval::new(lower, upper, has_lower, has_upper)
            })
            .collect()
    }
}

impl Profiles<'_> {
    /// The mean response at rows of new covariates, the intercept left out: cuts at the levels
    /// `alphas`, and possibility and necessity of lying in each of the sets.
    ///
    /// ```
    /// use possibility::RealSet;
    /// use possibility::regression::{Design, Profiles, RegressionConfig, Response};
    /// use possibility::set::Interval;
    /// let mut design = Design::with_intercept(Response::Bernoulli, 1);
    /// for (x, y) in [(-2.0, 0.0), (-1.0, 0.0), (-0.5, 1.0), (0.5, 0.0), (1.0, 1.0), (3.0, 1.0)] {
    ///     design.push(&[x], y)?;
    /// }
    /// let model = RegressionConfig::default().build(design.columns())?;
    /// let posterior = model.fit(&design)?;
    /// let profiles = Profiles::new(&model, &design, &posterior)?;
    /// let likely = RealSet::from(Interval::at_least(0.5)?);
    /// let found = profiles.mean_responses(&[vec![4.0]], &[0.05], &[likely])?;
    /// assert!(found[0].cuts[0].contains(found[0].mode) && found[0].cuts[0].upper() < 1.0);
    /// assert_eq!(found[0].credences[0].possibility, 1.0);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// A row of the wrong size or with a number that is not finite, a level outside `(0, 1]`, or a
    /// search that does not converge.
    pub fn mean_responses(
        &self,
        covariates: &[Vec<f64>],
        alphas: &[f64],
        sets: &[RealSet],
    ) -> Result<Vec<MeanResponse>> {
        let response = self.design().response();
        let sets = sets.iter().map(|set| response.through_link(set));
        let sets = sets.collect::<Result<Vec<_>>>()?;
        let mut found = Vec::with_capacity(covariates.len());
        for rows in covariates.chunks(TOGETHER) {
            found.extend(self.mean_responses_together(rows, alphas, &sets)?);
        }
        Ok(found)
    }

    fn mean_responses_together(
        &self,
        covariates: &[Vec<f64>],
        alphas: &[f64],
        sets: &[RealSet],
    ) -> Result<Vec<MeanResponse>> {
        let design = self.design();
        let forms = covariates
            .iter()
            .map(|row| design.regressors(row))
            .collect::<Result<Vec<_>>>()?;
        let is_zero = |form: &Vec<f64>| form.iter().all(|&x| x == 0.0);
        let questions: Vec<FormQuestions> = forms
            .iter()
            .filter(|form| !is_zero(form))
            .map(|form| FormQuestions {
                form: form.clone(),
                alphas: alphas.to_vec(),
                events: sets.to_vec(),
            })
            .collect();
        let mut answers = self.answer(&questions)?.into_iter();
        let mean = |z: f64| design.response().mean(z);
        let mut found = Vec::with_capacity(forms.len());
        for form in &forms {
            found.push(if is_zero(form) {
                // without any covariate and without intercept nothing is left to be unsure of
                MeanResponse {
                    mode: mean(0.0),
                    cuts: vec![Interval::point(mean(0.0))?; alphas.len()],
                    credences: sets
                        .iter()
                        .map(|set| {
                            let sure = if set.contains(0.0) { 1.0 } else { 0.0 };
                            Credence {
                                possibility: sure,
                                necessity: sure,
                            }
                        })
                        .collect(),
                    gap: Some(0.0),
                }
            } else {
                let exact = answers.next().expect("an answer for each form");
                let cut = |cut: &Interval| Interval::closed(mean(cut.lower()), mean(cut.upper()));
                MeanResponse {
                    mode: mean(exact.mode),
                    cuts: exact.intervals()?.iter().map(cut).collect::<Result<_>>()?,
                    credences: exact.credences,
                    gap: exact.gap,
                }
            });
        }
        Ok(found)
    }
}
