//! From the columns of a file to the rows of a regression: the target, the weight, the covariates
//! as they are, and categorical covariates as one indicator for each level but the reference.

use possibility::regression::{Design, Response};

use super::Model;
use crate::option_error;
use questions::coefficients;
use questions::levels::Levels;
use questions::user_error::{UserError, list, unknown};
use tabular::csv::{FieldError, Row, Table};

/// What a covariate holds.
enum Kind {
    Number,
    /// The level of a row; the reference comes first.
    Categorical(Vec<String>),
}

/// A covariate: the name of its column, and what it holds.
pub struct Covariate {
    name: String,
    column: usize,
    kind: Kind,
}

impl Covariate {
    /// Number of coefficients.
    fn width(&self) -> usize {
        match &self.kind {
            Kind::Number => 1,
            Kind::Categorical(levels) => levels.len() - 1,
        }
    }

    fn is_categorical(&self) -> bool {
        matches!(self.kind, Kind::Categorical(_))
    }

    /// The categorical covariate and its reference.
    pub fn reference(&self) -> Option<(&str, &str)> {
        match &self.kind {
            Kind::Number => None,
            Kind::Categorical(levels) => Some((&self.name, &levels[0])),
        }
    }

    /// What its coefficients are called.
    fn coefficients(&self) -> Vec<String> {
        match &self.kind {
            Kind::Number => vec![self.name.clone()],
            Kind::Categorical(levels) => levels[1..]
                .iter()
                .map(|level| format!("{}[{level}]", self.name))
                .collect(),
        }
    }

    /// Appends the numbers of a row, whose field of this covariate is in `column`.
    fn encode(
        &self,
        row: &Row<'_>,
        column: usize,
        values: &mut Vec<f64>,
    ) -> Result<(), FieldError> {
        match &self.kind {
            Kind::Number => values.push(row.number(column)?),
            Kind::Categorical(levels) => {
                let word = row.text(column)?;
                let known = levels.iter().map(String::as_str);
                let level = levels.iter().position(|level| *level == word);
                let level =
                    level.ok_or_else(|| FieldError::new(column, unknown("level", &word, known)))?;
                push_indicators(level, levels.len(), values);
            }
        }
        Ok(())
    }
}

fn push_indicators(level: usize, levels: usize, values: &mut Vec<f64>) {
    values.extend((1..levels).map(|other| if other == level { 1.0 } else { 0.0 }));
}

/// The columns in use.
pub struct Columns {
    target: usize,
    weight: Option<usize>,
    covariates: Vec<Covariate>,
}

impl Columns {
    /// Finds the columns of a model; the levels of categorical covariates are found by
    /// [`Self::read`].
    ///
    /// # Errors
    /// A name that is unknown, given twice, or used for two things.
    pub fn find(table: &Table, model: &Model) -> Result<Self, UserError> {
        let target = table.column(&model.target)?;
        let weight = model.weight.as_ref().map(|name| table.column(name));
        let weight = weight.transpose()?;
        let categorical = table.columns(&model.categorical)?;
        let covariates = match &model.covariates {
            Some(names) => {
                let mut columns = table.columns(names)?;
                let others = categorical.iter().filter(|i| !columns.contains(i));
                let others: Vec<usize> = others.copied().collect();
                columns.extend(others);
                columns
            }
            None => (0..table.header().len())
                .filter(|&i| i != target && Some(i) != weight)
                .collect(),
        };
        let taken = |option: &str, column: usize, what: &str| {
            let name = &table.header()[column];
            Err(UserError::new(format!(
                "{option}: \"{name}\" is the {what}"
            )))
        };
        if weight == Some(target) {
            return taken("--weight", target, "target");
        }
        for (option, columns) in [
            ("--covariates", &covariates),
            ("--categorical", &categorical),
        ] {
            if columns.contains(&target) {
                return taken(option, target, "target");
            }
            if let Some(weight) = weight.filter(|weight| columns.contains(weight)) {
                return taken(option, weight, "weight");
            }
        }
        let covariate = |column: usize| Covariate {
            name: table.header()[column].clone(),
            column,
            kind: if categorical.contains(&column) {
                Kind::Categorical(Vec::new())
            } else {
                Kind::Number
            },
        };
        let columns = Self {
            target,
            weight,
            covariates: covariates.into_iter().map(covariate).collect(),
        };
        columns.check_references(model)?;
        Ok(columns)
    }

    fn check_references(&self, model: &Model) -> Result<(), UserError> {
        for (i, (name, _)) in model.references.iter().enumerate() {
            if !model.categorical.contains(name) {
                let known = model.categorical.iter().map(String::as_str);
                let message = unknown("categorical covariate", name, known);
                return Err(UserError::new(format!("--reference: {message}")));
            }
            if model.references[..i].iter().any(|(other, _)| other == name) {
                return Err(UserError::new(format!(
                    "--reference: \"{name}\" has two references"
                )));
            }
        }
        Ok(())
    }

    /// Whether the names of the coefficients depend on the rows.
    pub fn has_levels(&self) -> bool {
        self.covariates.iter().any(Covariate::is_categorical)
    }

    /// The categorical covariates, each with its reference.
    pub fn references(&self) -> impl Iterator<Item = (&str, &str)> {
        self.covariates.iter().filter_map(Covariate::reference)
    }

    /// What the coefficients are called, the intercept first.
    pub fn coefficient_names(&self, intercept: Option<&str>) -> Vec<String> {
        let covariates = self.covariates.iter().flat_map(Covariate::coefficients);
        let mut names: Vec<String> = covariates.collect();
        if let Some(name) = intercept {
            names.insert(0, coefficients::free_name(name, &names));
        }
        names
    }

    /// Reads all rows; where there are categorical covariates, their levels first.
    ///
    /// # Errors
    /// A mistake in the file.
    pub fn read(&mut self, table: &mut Table, model: &Model) -> Result<Design, UserError> {
        if self.has_levels() {
            return self.read_levels(table, model);
        }
        let mut design = self.design(model)?;
        let mut values = Vec::with_capacity(self.covariates.len());
        table.for_each(|row| {
            let (y, weight) = self.observed(row, model)?;
            values.clear();
            for covariate in &self.covariates {
                covariate.encode(row, covariate.column, &mut values)?;
            }
            design
                .push_weighted(&values, y, weight)
                .map_err(|error| FieldError::new(self.target, format!("{}: {error}", model.family)))
        })?;
        self.check_weights(table, &design)?;
        Ok(design)
    }

    /// The rows are kept with numbers for words until all words are known.
    fn read_levels(&mut self, table: &mut Table, model: &Model) -> Result<Design, UserError> {
        let mut found: Vec<Levels> = self.covariates.iter().map(|_| Levels::default()).collect();
        let (mut rows, mut observed) = (Vec::new(), Vec::new());
        let mut values = vec![0.0; self.covariates.len()];
        table.for_each(|row| {
            let (y, weight) = self.observed(row, model)?;
            // a word counts only if nothing else in its row is missing
            for covariate in &self.covariates {
                row.text(covariate.column)?;
            }
            let covariates = self.covariates.iter().zip(&mut found);
            for (value, (covariate, levels)) in values.iter_mut().zip(covariates) {
                *value = if covariate.is_categorical() {
                    levels.code(&row.text(covariate.column)?) as f64
                } else {
                    row.number(covariate.column)?
                };
            }
            rows.extend_from_slice(&values);
            observed.push((y, weight));
            Ok(())
        })?;
        let places: Vec<Vec<usize>> = self
            .covariates
            .iter_mut()
            .zip(found)
            .filter(|(covariate, _)| covariate.is_categorical())
            .map(|(covariate, levels)| settle(covariate, levels, table.name(), model))
            .collect::<Result<_, _>>()?;
        let mut design = self.design(model)?;
        for (raw, (y, weight)) in rows.chunks(self.covariates.len()).zip(observed) {
            let mut expanded = Vec::with_capacity(design.covariates());
            let mut places = places.iter();
            for (covariate, &value) in self.covariates.iter().zip(raw) {
                match &covariate.kind {
                    Kind::Number => expanded.push(value),
                    Kind::Categorical(levels) => {
                        let places = places.next().expect("places for each categorical one");
                        push_indicators(places[value as usize], levels.len(), &mut expanded);
                    }
                }
            }
            design
                .push_weighted(&expanded, y, weight)
                .map_err(|error| option_error(table.name(), &error))?;
        }
        self.check_weights(table, &design)?;
        Ok(design)
    }

    fn design(&self, model: &Model) -> Result<Design, UserError> {
        let count = self.covariates.iter().map(Covariate::width).sum();
        if model.intercept.is_some() {
            return Ok(Design::with_intercept(model.response, count));
        }
        Design::new(model.response, count).map_err(|error| option_error("--no-intercept", &error))
    }

    /// The response of a row, and how often it counts.
    fn observed(&self, row: &Row<'_>, model: &Model) -> Result<(f64, f64), FieldError> {
        let y = match model.response {
            Response::Bernoulli => row.truth(self.target)?,
            Response::Poisson | Response::Normal => row.number(self.target)?,
        };
        if !model.response.accepts(y) {
            let range = model.response.range();
            let rule = format!("{}: response {y} is not in {range}", model.family);
            return Err(FieldError::new(self.target, rule));
        }
        let weight = self.weight.map_or(Ok(1.0), |column| row.weight(column))?;
        Ok((y, weight))
    }

    fn check_weights(&self, table: &Table, design: &Design) -> Result<(), UserError> {
        match self.weight {
            Some(column) if design.total_weight() <= 0.0 => {
                let (file, name) = (table.name(), &table.header()[column]);
                Err(UserError::new(format!(
                    "{file}: the weights in column \"{name}\" add up to 0"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Where the covariates stand in another file.
    ///
    /// # Errors
    /// The file lacks one of them.
    pub fn find_again(&self, table: &Table) -> Result<Vec<usize>, UserError> {
        let find = |covariate: &Covariate| table.column(&covariate.name);
        self.covariates.iter().map(find).collect()
    }

    /// The numbers of a row of another file, whose columns are at `places`.
    ///
    /// # Errors
    /// A field that is no number, or a level that the model has not seen.
    pub fn encode(&self, row: &Row<'_>, places: &[usize]) -> Result<Vec<f64>, FieldError> {
        let mut values = Vec::new();
        for (covariate, &place) in self.covariates.iter().zip(places) {
            covariate.encode(row, place, &mut values)?;
        }
        Ok(values)
    }
}

/// Fixes the levels of a categorical covariate, the reference first; the place of each word.
fn settle(
    covariate: &mut Covariate,
    found: Levels,
    file: &str,
    model: &Model,
) -> Result<Vec<usize>, UserError> {
    let (mut levels, mut places) = found.sorted();
    let name = &covariate.name;
    if levels.len() < 2 {
        return Err(UserError::new(format!(
            "{file}, column \"{name}\": the only level is {}; a categorical covariate needs two",
            list(levels.iter().map(String::as_str))
        )));
    }
    if let Some((_, wanted)) = model.references.iter().find(|(other, _)| other == name) {
        let first = levels.iter().position(|level| level == wanted);
        let first = first.ok_or_else(|| {
            let message = unknown("level", wanted, levels.iter().map(String::as_str));
            UserError::new(format!("--reference: column \"{name}\": {message}"))
        })?;
        let reference = levels.remove(first);
        levels.insert(0, reference);
        for place in &mut places {
            *place = match *place {
                place if place == first => 0,
                place if place < first => place + 1,
                place => place,
            };
        }
    }
    covariate.kind = Kind::Categorical(levels);
    Ok(places)
}
