//! Pictures of posteriors: the possibility function, its α-cuts shaded, its mode marked.

use std::ops::Range;

use plotters::style::RGBColor;
use possibility::summary::Coordinate;
use possibility::{Interval, Univariate};

use super::groups;
use super::regression::{self, Drawn};
use super::report::Report;
use crate::plot::{Figure, Panel, Stroke, palette};
use crate::text::{printable, significant};
use crate::user_error::UserError;

/// Where a possibility function is too small to be seen.
const INVISIBLE: f64 = 0.01;
/// Where it is nearly 1.
const NEARLY_ONE: f64 = 0.98;
/// Groups that stand in one row.
const SIDE_BY_SIDE: usize = 5;
/// Points of a curve.
const POINTS: u32 = 600;
/// More panels than this cannot be read.
const MAX_PANELS: usize = 36;
/// More rows than this cannot be read.
const MAX_ROWS: usize = 200;
/// Top of the vertical axis.
const TOP: f64 = 1.06;

fn check_count(count: usize, what: &str) -> Result<(), UserError> {
    if count > MAX_PANELS {
        return Err(UserError::new(format!(
            "--plot: {count} {what} do not fit on a page, at most {MAX_PANELS} do; --forest has room \
             for {MAX_ROWS}"
        )));
    }
    Ok(())
}

/// One panel for each coordinate.
///
/// # Errors
/// Too many coordinates.
pub fn posterior(report: &Report) -> anyhow::Result<Figure> {
    let summary = &report.summary;
    check_count(summary.coordinates.len(), "coordinates")?;
    let panels = summary
        .coordinates
        .iter()
        .zip(&report.coordinate_names())
        .map(|(coordinate, name)| coordinate_panel(coordinate, name, &summary.alphas))
        .collect::<possibility::Result<_>>()?;
    Ok(arrange(panels, format!("{} posterior", summary.family)))
}

fn arrange(mut panels: Vec<Panel>, title: String) -> Figure {
    if panels.len() == 1 {
        return Figure::single(panels.remove(0)).title(title);
    }
    let columns = (panels.len() as f64).sqrt().ceil() as usize;
    Figure::grid(columns, panels).title(title)
}

/// The part of the line worth looking at, with a little air around it.
fn shown_range(
    function: &(impl Univariate + ?Sized),
    smallest: f64,
) -> possibility::Result<Range<f64>> {
    let (outer, inner) = (
        function.cut(INVISIBLE.min(0.5 * smallest))?,
        function.cut(NEARLY_ONE)?,
    );
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

/// The curve over the range, inside the domain, with the special points on it.
fn curve(
    function: &(impl Univariate + ?Sized),
    range: &Range<f64>,
    special: impl IntoIterator<Item = f64>,
) -> Vec<(f64, f64)> {
    let step = (range.end - range.start) / f64::from(POINTS);
    let domain = function.domain();
    let mut places: Vec<f64> = (0..=POINTS)
        .map(|i| range.start + step * f64::from(i))
        .chain(special)
        .chain([domain.lower(), domain.upper()])
        .filter(|x| x.is_finite() && domain.contains(*x) && range.start <= *x && *x <= range.end)
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
        .into_iter()
        .map(|x| (x, function.possibility(&x)))
        .collect()
}

fn mode_label(mode: f64) -> String {
    format!("mode {}", significant(mode))
        .replace('-', "−")
        .replace("inf", "∞")
}

/// A color mixed with white.
fn tint(color: RGBColor, share: f64) -> RGBColor {
    let mix = |channel: u8| (255.0 - share * (255.0 - f64::from(channel))).round() as u8;
    RGBColor(mix(color.0), mix(color.1), mix(color.2))
}

fn coordinate_panel(
    coordinate: &Coordinate,
    name: &str,
    alphas: &[f64],
) -> possibility::Result<Panel> {
    let function = &*coordinate.function;
    let smallest = alphas.iter().copied().fold(1.0, f64::min);
    let range = shown_range(function, smallest)?;
    Ok(function_panel(
        function,
        &coordinate.cuts,
        name,
        alphas,
        range,
    ))
}

/// The curve over the range with its cuts and its mode.
fn function_panel(
    function: &(impl Univariate + ?Sized),
    cuts: &[Interval],
    name: &str,
    alphas: &[f64],
    range: Range<f64>,
) -> Panel {
    let mut panel = Panel::new("", range.clone(), 0.0..TOP).labels(name, "possibility");
    let mode = function.mode();
    let ends = cuts.iter().flat_map(|cut| [cut.lower(), cut.upper()]);
    let points = curve(function, &range, ends.chain(mode));
    let levels: Vec<(f64, Interval)> = alphas.iter().copied().zip(cuts.iter().copied()).collect();
    shade_cuts(&mut panel, &points, &levels);
    panel.line(points, Stroke::solid(palette::BLUE));
    if let Some(mode) = mode {
        let label = mode_label(mode);
        if range.start <= mode && mode <= range.end {
            let drop = vec![(mode, 0.0), (mode, 1.0)];
            panel.line(drop, Stroke::dashed(palette::VERMILION).width(1.4));
            panel
                .dots(vec![(mode, 1.0)], palette::VERMILION)
                .labeled(label);
        } else {
            // an infinite mode has no place on the axis, only a name
            panel.dots(vec![], palette::VERMILION).labeled(label);
        }
    }
    panel
}

/// One panel for each parameter of each group; those of one parameter share their axis.
///
/// # Errors
/// Too many groups.
pub fn groups(report: &groups::Report) -> anyhow::Result<Figure> {
    let count = report.groups.len() * report.parameters.len();
    check_count(count, "parameters of groups")?;
    let smallest = report.alphas.iter().copied().fold(1.0, f64::min);
    let mut panels = Vec::with_capacity(count);
    for (kind, parameter) in report.parameters.iter().enumerate() {
        let mut range = f64::INFINITY..f64::NEG_INFINITY;
        for group in &report.groups {
            let own = shown_range(&*group.members[kind].function, smallest)?;
            range = range.start.min(own.start)..range.end.max(own.end);
        }
        panels.extend(report.groups.iter().map(|group| {
            let member = &group.members[kind];
            let name = format!("{parameter}[{}]", group.name);
            let (function, cuts) = (&*member.function, &member.cuts);
            function_panel(function, cuts, &name, &report.alphas, range.clone())
        }));
    }
    let title = format!("{} posteriors", report.family);
    if report.groups.len() <= SIDE_BY_SIDE && count > 1 {
        return Ok(Figure::grid(report.groups.len(), panels).title(title));
    }
    Ok(arrange(panels, title))
}

/// A row of a forest plot.
struct Branch {
    name: String,
    mode: Option<f64>,
    cuts: Vec<Interval>,
}

/// Modes and α-cuts below each other, on one axis.
fn forest(
    branches: &[Branch],
    alphas: &[f64],
    axis: &str,
    title: String,
) -> anyhow::Result<Figure> {
    if branches.len() > MAX_ROWS {
        return Err(UserError::new(format!(
            "--forest: {} rows do not fit on a page, at most {MAX_ROWS} do",
            branches.len()
        ))
        .into());
    }
    let ends = branches.iter().flat_map(|branch| {
        let cuts = branch
            .cuts
            .iter()
            .flat_map(|cut| [cut.lower(), cut.upper()]);
        cuts.chain(branch.mode)
    });
    let (lower, upper) = ends
        .filter(|x| x.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| {
            (a.min(x), b.max(x))
        });
    let air = (0.04 * (upper - lower)).max(1e-9 * upper.abs()).max(1e-300);
    let (lower, upper) = if lower <= upper {
        (lower, upper)
    } else {
        (0.0, 1.0)
    };
    let range = lower - air..upper + air;
    let count = branches.len() as f64;
    // the first row is the topmost
    let height = |row: usize| count - row as f64 - 0.5;
    let ticks = branches.iter().enumerate();
    let ticks = ticks.map(|(row, branch)| (height(row), printable(&branch.name).into_owned()));
    let mut panel = Panel::new("", range.clone(), 0.0..count)
        .labels(axis, "")
        .y_ticks(ticks.collect());
    let mut order: Vec<usize> = (0..alphas.len()).collect();
    order.sort_by(|&a, &b| alphas[a].total_cmp(&alphas[b]));
    for (rank, &i) in order.iter().enumerate() {
        let share = (rank + 1) as f64 / (order.len() + 1) as f64;
        let stroke = Stroke::solid(tint(palette::BLUE, 0.2 + 0.8 * share));
        let stroke = stroke.width(2.0 + 2.0 * rank as f64);
        let mut points = Vec::new();
        for (row, branch) in branches.iter().enumerate() {
            let cut = &branch.cuts[i];
            let (a, b) = (cut.lower().max(range.start), cut.upper().min(range.end));
            points.extend([(a, height(row)), (b, height(row)), (f64::NAN, f64::NAN)]);
        }
        panel
            .line(points, stroke)
            .labeled(format!("{}-cut", significant(alphas[i])));
    }
    let modes = branches.iter().enumerate();
    let modes = modes.filter_map(|(row, branch)| Some((branch.mode?, height(row))));
    let modes = modes.filter(|(mode, _)| mode.is_finite()).collect();
    panel.dots(modes, palette::VERMILION).labeled("mode");
    let rows = u32::try_from(branches.len()).unwrap_or(u32::MAX);
    let figure = Figure::single(panel).title(title);
    Ok(figure.panel_size(720, 150 + 22 * rows.max(6)))
}

/// All coordinates below each other.
///
/// # Errors
/// Too many coordinates.
pub fn posterior_forest(report: &Report) -> anyhow::Result<Figure> {
    let summary = &report.summary;
    let names = report.coordinate_names();
    let branches: Vec<Branch> = names
        .into_iter()
        .zip(&summary.coordinates)
        .map(|(name, coordinate)| Branch {
            name,
            mode: coordinate.function.mode(),
            cuts: coordinate.cuts.clone(),
        })
        .collect();
    let title = format!("{} posterior", summary.family);
    forest(&branches, &summary.alphas, "parameter", title)
}

/// All coefficients below each other.
///
/// # Errors
/// Too many coefficients.
pub fn regression_forest(report: &regression::Report) -> anyhow::Result<Figure> {
    let branches: Vec<Branch> = report
        .coefficients()
        .map(|(name, mode, cuts)| Branch {
            name: name.to_owned(),
            mode: Some(mode),
            cuts: cuts.to_vec(),
        })
        .collect();
    let title = format!("{} posterior", report.family());
    forest(&branches, report.alphas(), "coefficient", title)
}

/// The parameter of all groups below each other.
///
/// # Errors
/// Too many groups.
pub fn groups_forest(report: &groups::Report) -> anyhow::Result<Figure> {
    let branches: Vec<Branch> = report
        .groups
        .iter()
        .map(|group| Branch {
            name: group.name.clone(),
            mode: group.members[0].function.mode(),
            cuts: group.members[0].cuts.clone(),
        })
        .collect();
    let title = format!("{} posteriors", report.family);
    forest(&branches, &report.alphas, report.parameters[0], title)
}

/// One panel for each coefficient: the exact profile with its α-cuts, and the Laplace
/// approximation.
///
/// # Errors
/// Too many coefficients, or a profile that cannot be found.
pub fn regression(report: &regression::Report) -> anyhow::Result<Figure> {
    if report.valid {
        let message = "--plot: draws plain profiles; leave --valid out, or use --forest";
        return Err(UserError::new(message).into());
    }
    check_count(report.len(), "coefficients")?;
    let panels = report.drawn(INVISIBLE)?.iter().map(profile_panel).collect();
    Ok(arrange(panels, format!("{} posterior", report.family())))
}

fn profile_panel(drawn: &Drawn<'_>) -> Panel {
    let points = drawn.curve.points();
    let (first, last) = (points[0].value, points[points.len() - 1].value);
    let air = 0.04 * (last - first);
    let range = first - air..last + air;
    let mut panel = Panel::new("", range.clone(), 0.0..TOP).labels(drawn.name, "possibility");
    let step = (range.end - range.start) / f64::from(POINTS);
    let mut places: Vec<f64> = (0..=POINTS)
        .map(|i| range.start + step * f64::from(i))
        .chain(points.iter().map(|point| point.value))
        .chain(
            drawn
                .cuts
                .iter()
                .flat_map(|(_, cut)| [cut.lower(), cut.upper()]),
        )
        .collect();
    places.sort_by(f64::total_cmp);
    let exact: Vec<(f64, f64)> = places
        .iter()
        .map(|&x| (x, drawn.curve.possibility(x)))
        .collect();
    shade_cuts(&mut panel, &exact, &drawn.cuts);
    panel
        .line(exact, Stroke::solid(palette::BLUE))
        .labeled("exact");
    let laplace = curve(drawn.laplace, &range, Some(drawn.mode));
    panel
        .line(laplace, Stroke::dashed(palette::ORANGE))
        .labeled("Laplace (approximation)");
    panel
        .dots(vec![(drawn.mode, 1.0)], palette::VERMILION)
        .labeled(mode_label(drawn.mode));
    panel
}

/// Shades the area below the curve inside each cut, the smallest level first.
fn shade_cuts(panel: &mut Panel, points: &[(f64, f64)], cuts: &[(f64, Interval)]) {
    let mut ordered: Vec<_> = cuts.iter().collect();
    ordered.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (i, (alpha, cut)) in ordered.iter().enumerate() {
        // tints instead of transparency: the legend then shows the color of the picture
        let share = (i + 1) as f64 / (ordered.len() + 1) as f64;
        let color = tint(palette::BLUE, 0.1 + 0.5 * share);
        let inside = points
            .iter()
            .filter(|p| cut.lower() <= p.0 && p.0 <= cut.upper());
        let band = inside.map(|&(x, y)| (x, 0.0, y)).collect();
        panel
            .band(band, color, 1.0)
            .labeled(format!("{}-cut", significant(*alpha)));
    }
}
