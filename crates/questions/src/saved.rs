//! Posteriors that travel: a file with a family, what was known before, and the evidence of the
//! data. Files of shards add up to that of the whole; a file of yesterday is a prior of today.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use possibility::family::conjugate::{Conjugate, ConjugateFamily, Evidence, ScalarFamily};
use serde_json::{Value, json};

use crate::levels::Levels;
use crate::user_error::{UserError, describe, list};
use crate::{Prior, option_error};

/// Names the format, for those who read it.
const FORMAT: &str = "maxitive-posterior/1";

/// Bytes of the longest file that is read: one has a few numbers for each parameter.
const LONGEST: u64 = 64 << 20;

/// What defines a family of one parameter beside its name.
pub fn settings(family: &impl ScalarFamily) -> Value {
    match family.setting() {
        None => json!({}),
        Some((name, value)) => json!({ name: value }),
    }
}

/// A posterior as it is stored.
#[derive(Debug, Clone)]
pub struct Saved {
    /// Where it was read from; empty for a new one.
    pub file: String,
    /// Name of the family.
    pub family: String,
    /// What else defines it: shape, variance, classes, columns and covariance.
    pub settings: Value,
    prior: Option<Prior>,
    /// Number of rows.
    pub rows: usize,
    count: f64,
    mean: Vec<f64>,
    /// What is to be added to the mean, which is rounded; none for files that do not say.
    rest: Vec<f64>,
    log_likelihood: f64,
}

impl Saved {
    /// A posterior to be stored.
    pub fn new<F: ConjugateFamily>(
        prior: &Conjugate<F>,
        settings: Value,
        rows: usize,
        evidence: &Evidence,
    ) -> Self {
        Self {
            file: String::new(),
            family: prior.family().family_name().to_owned(),
            settings,
            prior: prior.mean_statistic().map(|mean| Prior {
                mean: mean.to_vec(),
                weight: prior.weight(),
            }),
            rows,
            count: evidence.count(),
            mean: evidence.mean().to_vec(),
            rest: evidence.rest().to_vec(),
            log_likelihood: evidence.log_likelihood(),
        }
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let prior = self.prior.as_ref();
        let mut value = json!({
            "format": FORMAT,
            "family": self.family,
            "settings": self.settings,
            "prior": prior.map(|prior| json!({"mean": prior.mean, "weight": prior.weight})),
            "data": {
                "rows": self.rows,
                "count": self.count,
                "mean": self.mean,
                "log_likelihood": self.log_likelihood,
            },
        });
        if self.rest.iter().any(|&rest| rest != 0.0) {
            value["data"]["rest_of_mean"] = json!(self.rest);
        }
        format!("{value:#}\n").into_bytes()
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read or holds no posterior.
    pub fn read(path: &Path) -> Result<Self, UserError> {
        let fail = |rule: &str| UserError::new(format!("{}: {rule}", path.display()));
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
            .map_err(|error| fail(&describe(&error)))?;
        if bytes.len() as u64 > LONGEST {
            return Err(fail(&format!("is longer than {LONGEST} bytes")));
        }
        Self::parse(path, &bytes)
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// It holds no posterior.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, UserError> {
        let file = path.display().to_string();
        let fail = |rule: &str| UserError::new(format!("{file}: {rule}"));
        let wrong = |problem: &dyn std::fmt::Display| {
            fail(&format!("not the JSON of a posterior: {problem}"))
        };
        let text = std::str::from_utf8(bytes).map_err(|error| wrong(&error))?;
        let value = evaluation::json::parse(text).map_err(|error| wrong(&error))?;
        if value["format"] != FORMAT {
            return Err(fail(&format!(
                "\"format\" is {}, expected \"{FORMAT}\"",
                value["format"]
            )));
        }
        let number = |value: &Value, name: &str| {
            let found = value.as_f64().filter(|x| x.is_finite());
            found.ok_or_else(|| fail(&format!("\"{name}\" is {value}, expected a number")))
        };
        let numbers = |value: &Value, name: &str| -> Result<Vec<f64>, UserError> {
            let list = value.as_array();
            let list =
                list.ok_or_else(|| fail(&format!("\"{name}\" is {value}, expected a list")))?;
            list.iter().map(|one| number(one, name)).collect()
        };
        let data = &value["data"];
        let prior = match &value["prior"] {
            Value::Null => None,
            prior => Some(Prior {
                mean: numbers(&prior["mean"], "prior.mean")?,
                weight: number(&prior["weight"], "prior.weight")?,
            }),
        };
        let family = value["family"].as_str();
        let rows = data["rows"].as_u64().and_then(|n| usize::try_from(n).ok());
        Ok(Self {
            family: family
                .ok_or_else(|| fail("\"family\" is missing"))?
                .to_owned(),
            settings: value["settings"].clone(),
            prior,
            rows: rows.ok_or_else(|| fail("\"data.rows\" is not a count"))?,
            count: number(&data["count"], "data.count")?,
            mean: numbers(&data["mean"], "data.mean")?,
            rest: match &data["rest_of_mean"] {
                Value::Null => Vec::new(),
                rest => numbers(rest, "data.rest_of_mean")?,
            },
            log_likelihood: number(&data["log_likelihood"], "data.log_likelihood")?,
            file,
        })
    }

    /// What was known before, and the evidence, checked against the family.
    ///
    /// # Errors
    /// Numbers that the family cannot have.
    pub fn parts<F: ConjugateFamily>(
        &self,
        family: &F,
    ) -> Result<(Conjugate<F>, Evidence), UserError> {
        let fail = |error: possibility::Error| option_error(&self.file, &error);
        let prior = match &self.prior {
            None => Conjugate::uninformative(family.clone()),
            Some(prior) => {
                Conjugate::new(family.clone(), &prior.mean, prior.weight).map_err(fail)?
            }
        };
        let evidence = Evidence::new(family, self.count, self.mean.clone(), self.log_likelihood);
        let mut evidence = evidence.map_err(fail)?;
        if !self.rest.is_empty() {
            evidence = evidence.with_rest(self.rest.clone()).map_err(fail)?;
        }
        Ok((prior, evidence))
    }

    /// The posterior as a prior for more data.
    ///
    /// # Errors
    /// It is of another family or parametrization, or holds numbers that the family cannot have.
    pub fn as_prior<F: ConjugateFamily>(
        &self,
        family: &F,
        settings: &Value,
    ) -> Result<Conjugate<F>, UserError> {
        self.check_same(family.family_name(), settings, "--prior-from", "asked for")?;
        let (prior, evidence) = self.parts(family)?;
        let posterior = prior.observe_evidence(&evidence);
        posterior
            .map(|(posterior, _)| posterior)
            .map_err(|error| option_error(&self.file, &error))
    }

    fn check_same(
        &self,
        family: &str,
        settings: &Value,
        what: &str,
        other: &str,
    ) -> Result<(), UserError> {
        let file = &self.file;
        if self.family != family {
            return Err(UserError::new(format!(
                "{what}: {file} holds a posterior of the family {}, {other} is {family}",
                self.family
            )));
        }
        if self.settings != *settings {
            return Err(UserError::new(format!(
                "{what}: {file} has the settings {}, {other} is {settings}",
                self.settings
            )));
        }
        Ok(())
    }

    /// The classes of a categorical posterior.
    ///
    /// # Errors
    /// The file holds none.
    pub fn classes(&self) -> Result<Vec<String>, UserError> {
        self.strings("classes")
    }

    /// A list of names among the settings.
    ///
    /// # Errors
    /// The file holds none.
    pub fn strings(&self, key: &str) -> Result<Vec<String>, UserError> {
        let list = self.settings[key].as_array();
        let strings = list.and_then(|list| {
            let strings = list.iter().map(|one| one.as_str().map(str::to_owned));
            strings.collect::<Option<Vec<String>>>()
        });
        strings.ok_or_else(|| {
            let file = &self.file;
            UserError::new(format!("{file}: \"settings.{key}\" is no list of names"))
        })
    }

    /// A square matrix among the settings, row by row.
    ///
    /// # Errors
    /// The file holds none.
    pub fn matrix(&self, key: &str) -> Result<Vec<Vec<f64>>, UserError> {
        let row = |row: &Value| row.as_array()?.iter().map(Value::as_f64).collect();
        let rows = self.settings[key].as_array();
        let rows = rows.and_then(|rows| rows.iter().map(row).collect::<Option<Vec<Vec<f64>>>>());
        rows.filter(|rows| rows.iter().all(|row| row.len() == rows.len()))
            .ok_or_else(|| {
                let file = &self.file;
                UserError::new(format!("{file}: \"settings.{key}\" is no square matrix"))
            })
    }

    /// A number among the settings.
    ///
    /// # Errors
    /// The file holds none.
    pub fn number(&self, key: &str) -> Result<f64, UserError> {
        self.settings[key].as_f64().ok_or_else(|| {
            let file = &self.file;
            UserError::new(format!("{file}: \"settings.{key}\" is no number"))
        })
    }

    /// The same posterior with these classes, in this order; a class it lacks has never been seen.
    fn with_classes(&mut self, classes: &[String]) -> Result<(), UserError> {
        let own = self.classes()?;
        if own == classes {
            return Ok(());
        }
        if own.len() != self.mean.len() + 1 {
            let file = &self.file;
            return Err(UserError::new(format!(
                "{file}: \"data.mean\" has {} shares for {} classes, expected one less",
                self.mean.len(),
                own.len()
            )));
        }
        let last = (1.0 - self.mean.iter().sum::<f64>()).max(0.0);
        let share = |class: &String| {
            let place = own.iter().position(|known| known == class);
            place.map_or(0.0, |place| *self.mean.get(place).unwrap_or(&last))
        };
        self.mean = classes[..classes.len() - 1].iter().map(share).collect();
        // beside shares, which lie around their scale, it does not count
        self.rest = Vec::new();
        self.settings = json!({ "classes": classes });
        Ok(())
    }
}

/// Files that belong together, made alike: same family, settings and prior. Classes that some files
/// have not seen are added, where nothing was known before.
///
/// # Errors
/// Files that do not belong together.
pub fn unify(mut all: Vec<Saved>) -> Result<Vec<Saved>, UserError> {
    if all.is_empty() {
        return Err(UserError::new("no file to merge"));
    }
    if all
        .iter()
        .all(|one| one.family == "categorical" && one.prior.is_none())
    {
        let mut levels = Levels::default();
        let classes = all
            .iter()
            .map(Saved::classes)
            .collect::<Result<Vec<_>, _>>()?;
        // the order that all of them have, if they have one; else sorted
        let union = if classes.windows(2).all(|pair| pair[0] == pair[1]) {
            classes[0].clone()
        } else {
            classes.iter().flatten().for_each(|class| {
                levels.code(class);
            });
            levels.sorted().0
        };
        for one in &mut all {
            one.with_classes(&union)?;
        }
    }
    let first = &all[0];
    for other in &all[1..] {
        let name = &first.file;
        other.check_same(&first.family, &first.settings, "merge", name)?;
        if other.prior != first.prior {
            return Err(UserError::new(format!(
                "merge: {} and {name} were inferred with different priors; the prior is counted \
                 once, so that all files must have the same",
                other.file
            )));
        }
    }
    let mut names: Vec<&str> = all.iter().map(|one| one.file.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        let message = format!("merge: {} is given twice", list([pair[0]]));
        return Err(UserError::new(message));
    }
    Ok(all)
}

/// What files that belong together say.
pub struct Merged<F> {
    /// What was known before all of them.
    pub prior: Conjugate<F>,
    /// The evidence of all data.
    pub evidence: Evidence,
    /// Number of rows.
    pub rows: usize,
    /// Where they come from, for messages.
    pub origin: String,
}

/// The prior of the files and all their evidence.
///
/// # Errors
/// Numbers that the family cannot have.
pub fn merge<F: ConjugateFamily>(family: &F, files: &[Saved]) -> Result<Merged<F>, UserError> {
    let parts = files.iter().map(|file| file.parts(family));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let (priors, evidence): (Vec<_>, Vec<Evidence>) = parts.into_iter().unzip();
    let origin = match files {
        [only] => only.file.clone(),
        _ => format!("{} files", files.len()),
    };
    let evidence = Evidence::merged(family, &evidence);
    let evidence = evidence.map_err(|error| option_error(&origin, &error))?;
    let prior = priors.into_iter().next();
    Ok(Merged {
        prior: prior.unwrap_or_else(|| Conjugate::uninformative(family.clone())),
        evidence,
        rows: files.iter().map(|file| file.rows).sum(),
        origin,
    })
}
