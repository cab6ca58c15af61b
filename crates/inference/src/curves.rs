//! Possibility functions as curves: what `--plot` draws and `--export` writes.

use std::ops::Range;

use plot::Curve;
pub use plot::curve::scale;
use plot::curve::{levels, shown_range, smallest_shown, steps, with_air};
use possibility::regression::FormAndVariance;

use super::regression::simulate::SimulatedCurve;
use super::regression::{self, Profile, Variance, plain_level};
use super::report::Report;
use super::{Answer, groups};

/// The curves of a report.
pub struct Curves {
    /// What they are.
    pub title: String,
    /// File and columns.
    pub data: String,
    /// One for each parameter.
    pub all: Vec<Curve>,
    /// How many stand in one row, where that has a meaning.
    pub in_a_row: Option<usize>,
    /// Events about several parameters.
    pub others: Vec<Answer>,
    /// The first two parameters together, where that is one function.
    pub region: Option<Region>,
}

/// Values of a parameter, and for each the ends of another.
pub type Band = Vec<(f64, f64, f64)>;

/// α-cuts of two parameters.
pub struct Region {
    /// The levels and their cuts.
    pub cuts: Vec<(f64, Band)>,
    /// The mode.
    pub mode: (f64, f64),
}

impl Region {
    fn new(function: &FormAndVariance, alphas: &[f64], range: &Range<f64>) -> anyhow::Result<Self> {
        let mut cuts = Vec::new();
        for &alpha in alphas {
            let mut band = Band::new();
            for x in steps(range) {
                if let Some(slice) = function.slice(x, alpha)? {
                    band.push((x, slice.lower(), slice.upper()));
                }
            }
            cuts.push((alpha, band));
        }
        Ok(Self {
            cuts,
            mode: function.mode(),
        })
    }
}

impl Curves {
    /// Puts each event on the curve it speaks of.
    fn with_events<'a>(mut self, answers: impl Iterator<Item = &'a Answer>) -> Self {
        for answer in answers {
            match &answer.place {
                Some((index, set)) => {
                    let curve = &mut self.all[*index];
                    curve.events.push((answer.describe(), set.clone()));
                }
                None => self.others.push(answer.clone()),
            }
        }
        self
    }

    /// A table with the columns `name`, `parameter` and `possibility`.
    ///
    /// # Errors
    /// The writer fails, which memory does not.
    pub fn csv(&self) -> anyhow::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["name", "parameter", "possibility"])?;
        for curve in &self.all {
            for (x, y) in curve.exact_points() {
                writer.write_record([&curve.name, &x.to_string(), &y.to_string()])?;
            }
        }
        Ok(writer.into_inner()?)
    }
}

/// The curves of a conjugate posterior.
///
/// # Errors
/// A level that is none.
pub fn posterior(report: &Report) -> anyhow::Result<Curves> {
    let summary = &report.summary;
    let curve = |(coordinate, name): (&possibility::summary::Coordinate, String)| {
        let function = &*coordinate.function;
        let range = shown_range(function, smallest_shown(&summary.alphas))?;
        let (alphas, cuts) = (&summary.alphas, &coordinate.cuts);
        Ok(Curve::over(range, function, name, alphas, cuts))
    };
    let coordinates = summary.coordinates.iter().zip(report.coordinate_names());
    let curves = Curves {
        title: report.title(),
        data: report.origin.clone(),
        all: coordinates.map(curve).collect::<possibility::Result<_>>()?,
        in_a_row: None,
        others: Vec::new(),
        region: None,
    };
    Ok(curves.with_events(report.answers.iter()))
}

/// The curves of every parameter of every group; those of one parameter share their axis.
///
/// # Errors
/// A level that is none.
pub fn of_groups(report: &groups::Report) -> anyhow::Result<Curves> {
    let mut all = Vec::new();
    for (kind, parameter) in report.parameters.iter().enumerate() {
        let mut range = f64::INFINITY..f64::NEG_INFINITY;
        for group in &report.groups {
            let function = &*group.members[kind].function;
            let own = shown_range(function, smallest_shown(&report.alphas))?;
            range = range.start.min(own.start)..range.end.max(own.end);
        }
        all.extend(report.groups.iter().map(|group| {
            let member = &group.members[kind];
            let name = format!("{parameter}[{}]", group.name);
            let cuts = &member.cuts;
            let (range, alphas) = (range.clone(), &report.alphas);
            Curve::over(range, &*member.function, name, alphas, cuts)
        }));
    }
    let curves = Curves {
        title: format!("{} posteriors", report.family),
        data: report.origin(),
        all,
        in_a_row: Some(report.groups.len()),
        others: Vec::new(),
        region: None,
    };
    Ok(curves.with_events(report.answers()))
}

/// The exact profiles of all coefficients and of an unknown variance.
///
/// # Errors
/// A profile that cannot be found.
pub fn of_regression(report: &regression::Report) -> anyhow::Result<Curves> {
    let smallest = smallest_shown(report.alphas());
    let mut all: Vec<Curve> = match report.simulated_curves(smallest)? {
        Some(curves) => {
            let curves = curves.into_iter();
            curves
                .map(|one| simulated_curve(one, report.alphas()))
                .collect()
        }
        None => {
            let profiles = report.profiles(smallest)?;
            let profiles = profiles.iter();
            profiles
                .map(|one| profile_curve(one, report.alphas()))
                .collect()
        }
    };
    if let Some(Variance {
        function,
        cuts,
        pivot,
        ..
    }) = &report.variance
    {
        let range = shown_range(&**function, plain_level(smallest, *pivot)?)?;
        let alphas = report.alphas();
        let mut curve = Curve::over(range, &**function, "variance", alphas, cuts);
        if let Some(pivot) = *pivot {
            curve.make_valid(pivot);
        }
        all.push(curve);
    }
    let region = report.region()?;
    let region = region.map(|function| Region::new(&function, report.alphas(), &all[0].range));
    let curves = Curves {
        title: report.title(),
        data: report.origin(),
        all,
        in_a_row: None,
        others: Vec::new(),
        region: region.transpose()?,
    };
    Ok(curves.with_events(report.asked_answers()))
}

fn profile_curve(profile: &Profile<'_>, alphas: &[f64]) -> Curve {
    let (name, cuts) = (profile.name, profile.cuts);
    let mut curve = Curve::of_profile(&profile.curve, profile.laplace, name, alphas, cuts);
    if let Some(pivot) = profile.pivot {
        curve.make_valid(pivot);
    }
    curve
}

/// A simulated curve is drawn from one value that was looked at to the next.
fn simulated_curve(curve: SimulatedCurve<'_>, alphas: &[f64]) -> Curve {
    let (first, last) = (curve.points[0].0, curve.points[curve.points.len() - 1].0);
    Curve {
        name: curve.name.to_owned(),
        range: with_air(first, last),
        drawn: curve.points,
        exact: None,
        cuts: levels(alphas, curve.cuts),
        mode: Some(curve.mode),
        scale: scale(curve.precision),
        laplace: Vec::new(),
        events: Vec::new(),
    }
}
