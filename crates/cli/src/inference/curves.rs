//! Possibility functions as curves: what `--plot` draws and `--export` writes.

use std::ops::Range;

use possibility::regression::FormAndVariance;
use possibility::valid::Pivot;
use possibility::{Interval, RealSet, Univariate};

use super::regression::simulate::SimulatedCurve;
use super::regression::{self, Profile, Variance, plain_level};
use super::report::Report;
use super::{Answer, groups};

/// Where a possibility function is too small to be seen.
const INVISIBLE: f64 = 0.01;
/// Where it is nearly 1.
const NEARLY_ONE: f64 = 0.98;
/// Points of a curve.
const POINTS: u32 = 600;

/// The possibility function of one parameter over the part of the line that is worth looking at.
pub struct Curve {
    /// The parameter.
    pub name: String,
    /// The horizontal axis.
    pub range: Range<f64>,
    /// Values and their possibilities, by increasing value, as they are drawn.
    pub drawn: Vec<(f64, f64)>,
    /// Those of them that are exact, where others lie between solved points.
    exact: Option<Vec<(f64, f64)>>,
    /// Levels and their α-cuts.
    pub cuts: Vec<(f64, Interval)>,
    /// The mode.
    pub mode: Option<f64>,
    /// One over the square root of the precision at the mode.
    pub scale: Option<f64>,
    /// The Laplace approximation, where it is another curve.
    pub laplace: Vec<(f64, f64)>,
    /// Events about this parameter, and where they hold.
    pub events: Vec<(Answer, RealSet)>,
}

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
            for i in 0..=POINTS {
                let share = f64::from(i) / f64::from(POINTS);
                let x = range.start + share * (range.end - range.start);
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
                Some((index, set)) => self.all[*index].events.push((answer.clone(), set.clone())),
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
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        writer.write_record(["name", "parameter", "possibility"])?;
        for curve in &self.all {
            for (x, y) in curve.exact.as_ref().unwrap_or(&curve.drawn) {
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
        Ok(Curve::of(
            function,
            name,
            &summary.alphas,
            &coordinate.cuts,
            range,
        ))
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
            Curve::of(&*member.function, name, &report.alphas, cuts, range.clone())
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
        let mut curve = Curve::of(&**function, "variance".into(), alphas, cuts, range);
        curve.make_valid(*pivot);
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

fn levels(alphas: &[f64], cuts: &[Interval]) -> Vec<(f64, Interval)> {
    alphas.iter().copied().zip(cuts.iter().copied()).collect()
}

/// One over the square root of the precision.
pub fn scale(precision: Option<f64>) -> Option<f64> {
    precision.map(|precision| precision.sqrt().recip())
}

impl Curve {
    /// The function over the range, inside the domain, with the ends of the cuts and the mode among
    /// the points.
    fn of(
        function: &(impl Univariate + ?Sized),
        name: String,
        alphas: &[f64],
        cuts: &[Interval],
        range: Range<f64>,
    ) -> Self {
        let special = cuts.iter().flat_map(|cut| [cut.lower(), cut.upper()]);
        Self {
            name,
            drawn: points(function, &range, special.chain(function.mode())),
            exact: None,
            cuts: levels(alphas, cuts),
            mode: function.mode(),
            scale: scale(function.precision()),
            laplace: Vec::new(),
            events: Vec::new(),
            range,
        }
    }

    /// Reads a plain curve as a valid one.
    fn make_valid(&mut self, pivot: Option<Pivot>) {
        let Some(pivot) = pivot else { return };
        let all = self.drawn.iter_mut().chain(self.exact.iter_mut().flatten());
        for (_, possibility) in all {
            *possibility = pivot.possibility(possibility.ln());
        }
        self.laplace.clear();
    }
}

fn profile_curve(profile: &Profile<'_>, alphas: &[f64]) -> Curve {
    let solved = profile.curve.points();
    let (first, last) = (solved[0].value, solved[solved.len() - 1].value);
    let air = 0.04 * (last - first);
    let range = first - air..last + air;
    let ends = profile.cuts.iter().flat_map(|c| [c.lower(), c.upper()]);
    let places = places(&range, solved.iter().map(|point| point.value).chain(ends));
    let exact = solved.iter().map(|p| (p.value, p.log_possibility.exp()));
    let mut curve = Curve {
        name: profile.name.to_owned(),
        drawn: places
            .into_iter()
            .map(|x| (x, profile.curve.possibility(x)))
            .collect(),
        exact: Some(exact.collect()),
        cuts: levels(alphas, profile.cuts),
        mode: Some(profile.mode),
        scale: scale(profile.laplace.precision()),
        laplace: points(profile.laplace, &range, Some(profile.mode)),
        events: Vec::new(),
        range,
    };
    curve.make_valid(profile.pivot);
    curve
}

/// A simulated curve is drawn from one value that was looked at to the next.
fn simulated_curve(curve: SimulatedCurve<'_>, alphas: &[f64]) -> Curve {
    let (first, last) = (curve.points[0].0, curve.points[curve.points.len() - 1].0);
    let air = 0.04 * (last - first);
    Curve {
        name: curve.name.to_owned(),
        range: first - air..last + air,
        drawn: curve.points,
        exact: None,
        cuts: levels(alphas, curve.cuts),
        mode: Some(curve.mode),
        scale: scale(curve.precision),
        laplace: Vec::new(),
        events: Vec::new(),
    }
}

/// The level down to which a function is shown.
fn smallest_shown(alphas: &[f64]) -> f64 {
    let halves = alphas.iter().map(|alpha| 0.5 * alpha);
    halves.fold(INVISIBLE, f64::min)
}

/// The part of the line where the possibility is at least `smallest`, with a little air around it.
fn shown_range(
    function: &(impl Univariate + ?Sized),
    smallest: f64,
) -> possibility::Result<Range<f64>> {
    let (outer, inner) = (function.cut(smallest)?, function.cut(NEARLY_ONE)?);
    let (mut lower, mut upper) = (outer.lower(), outer.upper());
    // toward an infinite end the function rises to 1: go a bit beyond the place where it nearly is
    if upper.is_infinite() {
        upper = inner.lower() + 0.3 * (inner.lower() - lower).max(1e-9);
    }
    if lower.is_infinite() {
        lower = inner.upper() - 0.3 * (upper - inner.upper()).max(1e-9);
    }
    let air = 0.04 * (upper - lower);
    let air = if air > 0.0 {
        air
    } else {
        0.5 * lower.abs().max(1.0)
    };
    Ok(lower - air..upper + air)
}

/// Evenly spaced places in the range, and the special ones among them.
fn places(range: &Range<f64>, special: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let step = (range.end - range.start) / f64::from(POINTS);
    let mut places: Vec<f64> = (0..=POINTS)
        .map(|i| range.start + step * f64::from(i))
        .chain(special)
        .filter(|x| range.start <= *x && *x <= range.end)
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// The function over the range, inside the domain, with the special places and the ends of the
/// domain on it.
fn points(
    function: &(impl Univariate + ?Sized),
    range: &Range<f64>,
    special: impl IntoIterator<Item = f64>,
) -> Vec<(f64, f64)> {
    let domain = function.domain();
    let ends = [domain.lower(), domain.upper()];
    places(range, special.into_iter().chain(ends))
        .into_iter()
        .filter(|x| x.is_finite() && domain.contains(*x))
        .map(|x| (x, function.possibility(&x)))
        .collect()
}
