//! The mean response `b'(xᵀw)` at new covariates `x`. It increases with the linear form `xᵀw`, and
//! a possibility function needs no Jacobian: cuts and events of the mean response are those of the
//! exact profile of the form, read through the link.

use possibility::regression::{FormQuestions, Response};
use possibility::{Credence, Interval, RealSet};
use serde_json::{Value, json};

use super::{Fitted, Model, explain, fit};
use crate::csv::Table;
use crate::event::Variables;
use crate::inference::{Answer, Questions, cuts_json, parse_events};
use crate::text::{number, optional};
use crate::user_error::UserError;

/// Rows whose profiles are searched together.
const TOGETHER: usize = 512;

/// The answer for one row of new covariates.
struct Prediction {
    /// The fields of the row, as they stand in the file.
    fields: Vec<String>,
    mode: f64,
    cuts: Vec<Interval>,
    credences: Vec<Credence>,
    /// How far a log possibility may be off; `None` if that is not known.
    gap: Option<f64>,
}

/// The mean response at every row of a file.
pub struct Predictions {
    family: &'static str,
    parameter: &'static str,
    target: String,
    rows: usize,
    dropped: Option<usize>,
    header: Vec<String>,
    alphas: Vec<f64>,
    events: Vec<String>,
    predictions: Vec<Prediction>,
}

/// What the mean response is called.
fn mean_name(response: Response) -> &'static str {
    match response {
        Response::Bernoulli => "p",
        Response::Poisson => "rate",
        Response::Normal => "mean",
    }
}

/// The linear forms whose mean response lies in the set.
fn through_link(response: Response, set: &RealSet) -> possibility::Result<RealSet> {
    let domain = match response {
        Response::Bernoulli => Interval::closed(0.0, 1.0)?,
        Response::Poisson => Interval::at_least(0.0)?,
        Response::Normal => Interval::REAL_LINE,
    };
    let inside = set.parts().iter().filter_map(|p| p.intersection(&domain));
    inside
        .map(|part| {
            (
                response.link(part.lower()),
                response.link(part.upper()),
                part,
            )
        })
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

/// Fits the model to `data` and predicts the mean response at every row of `new`.
///
/// # Errors
/// A mistake in a file, an option or an event.
pub fn predict(
    data: &mut Table,
    new: &mut Table,
    model: &Model,
    questions: &Questions,
) -> Result<Predictions, UserError> {
    let parameter = mean_name(model.response);
    let library = |error: possibility::Error| UserError::new(explain(&error));
    let sets: Vec<RealSet> =
        parse_events(&questions.events, &Variables::scalar(&["x", parameter]))?
            .iter()
            .map(|(_, event)| {
                // every event speaks of the one mean response
                let set = event.as_set().unwrap_or_default();
                through_link(model.response, &set).map_err(library)
            })
            .collect::<Result<_, _>>()?;
    let fitted = fit(data, model)?;
    let places = fitted.columns.find_again(new)?;
    let header = new.header().to_vec();
    let (mut forms, mut fields) = (Vec::new(), Vec::new());
    new.for_each(|row| {
        forms.push(fitted.columns.encode(row, &places)?);
        let row = (0..header.len()).map(|i| row.raw(i));
        fields.push(row.collect::<Result<Vec<_>, _>>()?);
        Ok(())
    })?;
    let fail =
        |error: possibility::Error| UserError::new(format!("{}: {}", new.name(), explain(&error)));
    let mut predictions = Vec::with_capacity(forms.len());
    let mut fields = fields.into_iter();
    for forms in forms.chunks(TOGETHER) {
        let answers = answer(&fitted, forms, &questions.alphas, &sets).map_err(fail)?;
        for (mut prediction, fields) in answers.into_iter().zip(&mut fields) {
            prediction.fields = fields;
            predictions.push(prediction);
        }
    }
    Ok(Predictions {
        family: model.family,
        parameter,
        target: model.target.clone(),
        rows: fitted.design.rows(),
        dropped: new.dropped(),
        header,
        alphas: questions.alphas.clone(),
        events: questions.events.clone(),
        predictions,
    })
}

fn answer(
    fitted: &Fitted,
    covariates: &[Vec<f64>],
    alphas: &[f64],
    sets: &[RealSet],
) -> possibility::Result<Vec<Prediction>> {
    let forms = covariates
        .iter()
        .map(|row| fitted.design.regressors(row))
        .collect::<possibility::Result<Vec<_>>>()?;
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
    let mut answers = fitted.profiles()?.answer(&questions)?.into_iter();
    let response = fitted.design.response();
    let mean = |z: f64| response.mean(z);
    let mut predictions = Vec::with_capacity(forms.len());
    for form in &forms {
        predictions.push(if is_zero(form) {
            // without any covariate and without intercept nothing is left to be unsure of
            Prediction {
                fields: Vec::new(),
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
            Prediction {
                fields: Vec::new(),
                mode: mean(exact.mode),
                cuts: exact
                    .intervals()?
                    .iter()
                    .map(cut)
                    .collect::<Result<_, _>>()?,
                credences: exact.credences,
                gap: exact.gap,
            }
        });
    }
    Ok(predictions)
}

impl Predictions {
    /// The predictions for programs.
    pub fn json(&self) -> Value {
        let one = |prediction: &Prediction| {
            let answers = self.events.iter().zip(&prediction.credences);
            let answers = answers.map(|(event, &credence)| Answer {
                event: event.clone(),
                credence,
                errors: None,
                place: None,
            });
            json!({
                "mode": number(prediction.mode),
                "alpha_cuts": cuts_json(&self.alphas, &prediction.cuts),
                "events": answers.map(|answer| answer.json()).collect::<Value>(),
                "certified_to": optional(prediction.gap),
            })
        };
        let mut value = json!({
            "family": self.family,
            "n": self.rows,
            "parameter": self.parameter,
            "target": self.target,
            "predictions": self.predictions.iter().map(one).collect::<Value>(),
        });
        if let Some(dropped) = self.dropped {
            value["dropped"] = dropped.into();
        }
        value
    }

    /// The columns of the new file, then the mode, the ends of the cuts and the events.
    ///
    /// # Errors
    /// The new file has a column that is called like one of the answers.
    pub fn csv(&self, delimiter: u8) -> anyhow::Result<Vec<u8>> {
        let mut added = vec!["mode".to_owned()];
        for alpha in &self.alphas {
            added.extend([format!("lower_{alpha}"), format!("upper_{alpha}")]);
        }
        for event in &self.events {
            added.extend([
                format!("possibility({event})"),
                format!("necessity({event})"),
            ]);
        }
        if let Some(name) = added.iter().find(|name| self.header.contains(name)) {
            return Err(UserError::new(format!(
                "--new: the column \"{name}\" is called like one of the answers; rename it, or use \
                 --json"
            ))
            .into());
        }
        let mut writer = ::csv::WriterBuilder::new()
            .delimiter(delimiter)
            .from_writer(Vec::new());
        writer.write_record(self.header.iter().chain(&added))?;
        for prediction in &self.predictions {
            let mut numbers = vec![prediction.mode];
            for cut in &prediction.cuts {
                numbers.extend([cut.lower(), cut.upper()]);
            }
            for credence in &prediction.credences {
                numbers.extend([credence.possibility, credence.necessity]);
            }
            let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
            writer.write_record(prediction.fields.iter().chain(&numbers))?;
        }
        Ok(writer.into_inner()?)
    }
}
