//! `--by COLUMN`: one posterior for each group of rows, and events across groups.
//!
//! Events across groups are measured by [`Groups`].

use possibility::compare::Comparable;
use possibility::family::conjugate::{Conjugate, Sample, ScalarFamily};
use possibility::regression::{Design, Response};
use possibility::{Credence, Interval};
use questions::groups::Groups;
use questions::levels::Levels;
use serde_json::{Value, json};

use super::report::{closed, counted, cut_names};
use super::scalar::{ReadField, refuse_value};
use super::{
    Answer, Chosen, Prior, Questions, Timings, curves, cuts_json, option_error, parameter_name,
    parse_events, timed,
};
use questions::text::{TextTable, count, number, optional, reading, significant, significant_on};
use questions::user_error::UserError;
use tabular::csv::Table;

/// A parameter of one group.
pub struct Member {
    /// The posterior.
    pub function: Box<dyn Comparable>,
    /// Its α-cuts.
    pub cuts: Vec<Interval>,
    answers: Vec<Answer>,
}

/// One group of rows.
pub struct Group {
    /// What the column of groups says.
    pub name: String,
    n: usize,
    total_weight: f64,
    /// The parameter and, where it is unknown, the variance.
    pub members: Vec<Member>,
}

/// Everything about the posteriors of the groups.
pub struct Report {
    /// Name of the family.
    pub family: &'static str,
    origin: String,
    by: String,
    is_weighted: bool,
    dropped: Option<usize>,
    /// What the parameters of a group are called.
    pub parameters: Vec<&'static str>,
    /// Levels of the α-cuts.
    pub alphas: Vec<f64>,
    /// The groups, sorted by name.
    pub groups: Vec<Group>,
    answers: Vec<Answer>,
    /// Seconds.
    pub timings: Timings,
}

/// The posteriors of one group.
struct Posterior {
    n: usize,
    total_weight: f64,
    functions: Vec<Box<dyn Comparable>>,
}

/// The columns of a report by groups.
pub struct Columns {
    /// Observations and weights.
    pub chosen: Chosen,
    /// The groups.
    pub by: usize,
}

impl Columns {
    /// Finds the column of the groups.
    ///
    /// # Errors
    /// There is none of this name, or it is used for something else.
    pub fn find(table: &Table, chosen: Chosen, by: &str) -> Result<Self, UserError> {
        let column = table.column(by)?;
        if column == chosen.column || Some(column) == chosen.weight {
            return Err(UserError::new(format!(
                "--by: \"{by}\" is the column of the observations or of the weights"
            )));
        }
        Ok(Self { chosen, by: column })
    }
}

/// One posterior of a family with one parameter for each group.
///
/// # Errors
/// A mistake in the file, the prior or an event.
pub(crate) fn scalar<F: ScalarFamily + Clone + 'static>(
    family: &F,
    table: &mut Table,
    columns: &Columns,
    read: ReadField,
    prior: Option<&Prior>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let prior = Prior::single(prior)?;
    let prior: Conjugate<F> = Prior::build(prior, family.clone())?;
    let Chosen { column, weight } = columns.chosen;
    let mut levels = Levels::default();
    let mut samples: Vec<Sample<F>> = Vec::new();
    let (result, reading) = timed(|| {
        table.for_each(|row| {
            let value = read(row, column)?;
            let weight = weight.map_or(Ok(1.0), |column| row.weight(column))?;
            let group = row.text(columns.by)?;
            if !family.accepts(value) {
                return Err(refuse_value(family, value, column));
            }
            let code = levels.code(&group);
            if code == samples.len() {
                samples.push(Sample::new(family.clone()));
            }
            samples[code]
                .push_weighted(&value, weight)
                .map_err(|_| refuse_value(family, value, column))
        })
    });
    result?;
    let infer = |sample: &Sample<F>| {
        let (posterior, _) = prior.observe_sample(sample)?;
        Ok(Posterior {
            n: sample.observations().len(),
            total_weight: sample.total_weight(),
            functions: vec![Box::new(posterior.in_parameter(questions.parameter))],
        })
    };
    let (posteriors, fitting) = timed(|| samples.iter().map(infer).collect::<Vec<_>>());
    let name = parameter_name(questions.parameter, family.mean_name());
    let head = Head {
        family: family.name(),
        parameters: vec![name],
        timings: Timings { reading, fitting },
    };
    head.report(table, columns, levels, posteriors, questions)
}

/// The mean and the unknown variance of normal numbers, for each group.
///
/// # Errors
/// A mistake in the file, the prior or an event.
pub fn normal(
    table: &mut Table,
    columns: &Columns,
    prior: Option<&Prior>,
    questions: &Questions,
) -> Result<Report, UserError> {
    let prior = Prior::single(prior)?;
    let Chosen { column, weight } = columns.chosen;
    let mut levels = Levels::default();
    let mut designs: Vec<Design> = Vec::new();
    let (result, reading) = timed(|| {
        table.for_each(|row| {
            let value = row.number(column)?;
            let weight = weight.map_or(Ok(1.0), |column| row.weight(column))?;
            let code = levels.code(&row.text(columns.by)?);
            if code == designs.len() {
                designs.push(Design::with_intercept(Response::Normal, 0));
            }
            let pushed = designs[code].push_weighted(&[], value, weight);
            pushed.map_err(|error| tabular::csv::FieldError::new(column, error.to_string()))
        })
    });
    result?;
    let infer = |design: &Design| -> possibility::Result<Posterior> {
        let prior = prior.map(|prior| (prior.mean[0], prior.weight));
        let (mean, variance) = questions::groups::normal(design, prior)?;
        Ok(Posterior {
            n: design.rows(),
            total_weight: design.total_weight(),
            functions: vec![Box::new(mean), Box::new(variance)],
        })
    };
    let (posteriors, fitting) = timed(|| designs.iter().map(infer).collect::<Vec<_>>());
    let head = Head {
        family: "normal",
        parameters: vec!["mean", "variance"],
        timings: Timings { reading, fitting },
    };
    head.report(table, columns, levels, posteriors, questions)
}

/// What is known of a report before its groups are.
struct Head {
    family: &'static str,
    parameters: Vec<&'static str>,
    timings: Timings,
}

impl Head {
    fn report(
        self,
        table: &Table,
        columns: &Columns,
        levels: Levels,
        posteriors: Vec<possibility::Result<Posterior>>,
        questions: &Questions,
    ) -> Result<Report, UserError> {
        let by = table.header()[columns.by].clone();
        let (file, column) = (table.name(), &table.header()[columns.chosen.column]);
        let origin = format!("{file}, column \"{column}\"");
        let (names, places) = levels.sorted();
        let mut groups: Vec<Option<Group>> = names.iter().map(|_| None).collect();
        for (posterior, place) in posteriors.into_iter().zip(places) {
            let name = names[place].clone();
            let fail = |error: possibility::Error| {
                option_error(&format!("{origin}, group \"{name}\""), &error)
            };
            let posterior = posterior.map_err(fail)?;
            if posterior.total_weight <= 0.0 {
                return Err(UserError::new(format!(
                    "{origin}, group \"{name}\": the weights add up to 0"
                )));
            }
            let member = |function: Box<dyn Comparable>| {
                let cuts = questions.alphas.iter().map(|&alpha| function.cut(alpha));
                Ok(Member {
                    cuts: cuts.collect::<possibility::Result<_>>()?,
                    function,
                    answers: Vec::new(),
                })
            };
            let members = posterior.functions.into_iter().map(member);
            groups[place] = Some(Group {
                members: members.collect::<possibility::Result<_>>().map_err(fail)?,
                name,
                n: posterior.n,
                total_weight: posterior.total_weight,
            });
        }
        let mut report = Report {
            family: self.family,
            origin,
            by,
            is_weighted: columns.chosen.weight.is_some(),
            dropped: table.dropped(),
            parameters: self.parameters,
            alphas: questions.alphas.clone(),
            groups: groups.into_iter().flatten().collect(),
            answers: Vec::new(),
            timings: self.timings,
        };
        report.answer(&questions.events)?;
        Ok(report)
    }
}

impl Report {
    /// The posteriors of all groups together.
    fn joint(&self) -> Groups<'_> {
        let kinds = 0..self.parameters.len();
        let functions = kinds.flat_map(|kind| {
            let functions = self.groups.iter();
            functions.map(move |group| &*group.members[kind].function)
        });
        Groups {
            parameters: &self.parameters,
            names: self.groups.iter().map(|group| &*group.name).collect(),
            functions: functions.collect(),
        }
    }

    /// Measures every event.
    fn answer(&mut self, events: &[String]) -> Result<(), UserError> {
        let joint = self.joint();
        let (count, every) = (self.groups.len(), joint.every());
        let events = parse_events(events, &joint.variables())?;
        for (text, event) in events {
            let fail = |problem: String| UserError::new(format!("event \"{text}\": {problem}"));
            match event.coordinates()[..] {
                [index] if index >= every => {
                    let set = event.as_set().unwrap_or_default();
                    let kind = index - every;
                    for (place, group) in self.groups.iter_mut().enumerate() {
                        let member = &mut group.members[kind];
                        let credence = member.function.credence_of(&set);
                        member.answers.push(Answer {
                            event: text.clone(),
                            credence: credence.map_err(|error| fail(error.to_string()))?,
                            errors: None,
                            place: Some((kind * count + place, set.clone())),
                        });
                    }
                }
                _ => {
                    let credence = self.joint().measure(&event).map_err(fail)?;
                    self.answers.push(Answer {
                        place: event.place(),
                        event: text,
                        credence,
                        errors: None,
                    });
                }
            }
        }
        Ok(())
    }

    /// File and columns.
    pub fn origin(&self) -> String {
        format!("{} by \"{}\"", self.origin, self.by)
    }

    /// The answers about single groups, then those about several.
    pub fn answers(&self) -> impl Iterator<Item = &Answer> {
        let members = self.groups.iter().flat_map(|group| &group.members);
        let single = members.flat_map(|member| &member.answers);
        single.chain(&self.answers)
    }

    fn total(&self) -> usize {
        self.groups.iter().map(|group| group.n).sum()
    }

    fn total_weight(&self) -> Option<f64> {
        let sum = || self.groups.iter().map(|group| group.total_weight).sum();
        self.is_weighted.then(sum)
    }

    /// The report for programs.
    pub fn json(&self) -> Value {
        let member = |member: &Member| {
            json!({
                "mode": optional(member.function.mode()),
                "precision": optional(member.function.precision()),
                "alpha_cuts": cuts_json(&self.alphas, &member.cuts),
                "events": member.answers.iter().map(Answer::json).collect::<Value>(),
            })
        };
        let group = |group: &Group| {
            let mut value = member(&group.members[0]);
            value["group"] = group.name.as_str().into();
            value["n"] = group.n.into();
            if self.is_weighted {
                value["total_weight"] = number(group.total_weight);
            }
            for (name, other) in self.parameters.iter().zip(&group.members).skip(1) {
                value[*name] = member(other);
            }
            value
        };
        let mut value = json!({
            "family": self.family,
            "n": self.total(),
            "parameter": self.parameters[0],
            "by": self.by,
            "groups": self.groups.iter().map(group).collect::<Value>(),
            "events": self.answers.iter().map(Answer::json).collect::<Value>(),
        });
        if let Some(weight) = self.total_weight() {
            value["total_weight"] = number(weight);
        }
        if let Some(dropped) = self.dropped {
            value["dropped"] = dropped.into();
        }
        value
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let counted = counted(self.total(), self.total_weight(), self.dropped);
        let mut text = format!(
            "{}: {} from {} in {} by \"{}\"{}\n",
            self.family,
            counted.observations,
            self.origin,
            count(self.groups.len(), "group"),
            self.by,
            counted.dropped
        );
        for (kind, name) in self.parameters.iter().enumerate() {
            let mut header = [*name, "n", "mode"].map(str::to_owned).to_vec();
            header.extend(cut_names(&self.alphas));
            let mut table = TextTable::new(header);
            for group in &self.groups {
                let member = &group.members[kind];
                let scale = curves::scale(member.function.precision());
                let mode = member.function.mode();
                let mode = mode.map_or_else(String::new, |mode| significant_on(mode, scale));
                let mut row = vec![group.name.clone(), group.n.to_string(), mode];
                row.extend(member.cuts.iter().map(closed));
                table.row(row);
            }
            text.push('\n');
            text.push_str(&table.render());
        }
        let mut table = TextTable::new(["event", "possibility", "necessity"]);
        let mut row = |event: String, credence: &Credence| {
            table.row([
                event,
                significant(credence.possibility),
                significant(credence.necessity),
            ]);
        };
        let mut is_empty = self.answers.is_empty();
        for group in &self.groups {
            for answer in group.members.iter().flat_map(|member| &member.answers) {
                row(
                    format!("{}: {}", group.name, answer.event),
                    &answer.credence,
                );
                is_empty = false;
            }
        }
        for answer in &self.answers {
            row(answer.event.clone(), &answer.credence);
        }
        if !is_empty {
            text.push('\n');
            text.push_str(&table.render());
        }
        text.push('\n');
        text.push_str(&reading(&self.alphas));
        text.push('\n');
        text
    }
}
