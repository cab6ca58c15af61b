//! The mean response `b'(xᵀw)` at the covariates of every row of another file.

use possibility::RealSet;
use possibility::regression::MeanResponse;
use serde_json::{Value, json};

use super::{Model, explain, fit};
use crate::{Answer, Questions, cuts_json, parse_events};
use questions::event::Variables;
use questions::text::{exact, number, optional};
use questions::user_error::UserError;
use tabular::csv::Table;

/// The answer for one row of new covariates.
struct Prediction {
    /// The fields of the row, as they stand in the file.
    fields: Vec<String>,
    answer: MeanResponse,
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
    let parameter = model.response.mean_name();
    let sets: Vec<RealSet> =
        parse_events(&questions.events, &Variables::scalar(&["x", parameter]))?
            .iter()
            // every event speaks of the one mean response
            .map(|(_, event)| event.as_set().unwrap_or_default())
            .collect();
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
    let fail = |place: &str, error: &possibility::Error| {
        let text = explain(error, &fitted.names, &model.target);
        UserError::new(format!("{}{place}: {text}", new.name()))
    };
    let profiles = fitted.profiles().map_err(|error| fail("", &error))?;
    let answer = |forms: &[Vec<f64>]| profiles.mean_responses(forms, &questions.alphas, &sets);
    let answers = answer(&forms).map_err(|error| {
        // which of them it is was lost in their common search
        let alone = forms.chunks(1).map(answer);
        let failed = alone.enumerate().find_map(|(i, one)| Some((i, one.err()?)));
        match failed {
            Some((i, error)) => fail(&format!(", row {}", i + 1), &error),
            None => fail("", &error),
        }
    })?;
    let pairs = fields.into_iter().zip(answers);
    let predictions = pairs.map(|(fields, answer)| Prediction { fields, answer });
    Ok(Predictions {
        family: model.family,
        parameter,
        target: model.target.clone(),
        rows: fitted.design.rows(),
        dropped: new.dropped(),
        header,
        alphas: questions.alphas.clone(),
        events: questions.events.clone(),
        predictions: predictions.collect(),
    })
}

impl Predictions {
    /// The predictions for programs.
    pub fn json(&self) -> Value {
        let one = |prediction: &Prediction| {
            let answers = self.events.iter().zip(&prediction.answer.credences);
            let answers = answers.map(|(event, &credence)| Answer {
                event: event.clone(),
                credence,
                errors: None,
                place: None,
            });
            json!({
                "mode": number(prediction.answer.mode),
                "alpha_cuts": cuts_json(&self.alphas, &prediction.answer.cuts),
                "events": answers.map(|answer| answer.json()).collect::<Value>(),
                "certified_to": optional(prediction.answer.gap),
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
        let mut writer = csv::WriterBuilder::new()
            .delimiter(delimiter)
            .from_writer(Vec::new());
        writer.write_record(self.header.iter().chain(&added))?;
        for prediction in &self.predictions {
            let mut numbers = vec![prediction.answer.mode];
            for cut in &prediction.answer.cuts {
                numbers.extend([cut.lower(), cut.upper()]);
            }
            for credence in &prediction.answer.credences {
                numbers.extend([credence.possibility, credence.necessity]);
            }
            let numbers: Vec<String> = numbers.into_iter().map(exact).collect();
            writer.write_record(prediction.fields.iter().chain(&numbers))?;
        }
        Ok(writer.into_inner()?)
    }
}
