//! Pictures of posteriors: the possibility function, its α-cuts shaded, its mode and the events
//! marked.

use plot::curve::{cut_color, tint};
use plot::{Curve, Figure, Panel, Stroke, palette};
use possibility::Interval;

use super::Answer;
use super::curves::{Curves, Region};
use super::groups;
use super::regression;
use super::report::Report;
use questions::text::{printable, significant};
use questions::user_error::UserError;

/// Groups that stand in one row.
const SIDE_BY_SIDE: usize = 5;
/// More panels than this cannot be read.
const MAX_PANELS: usize = 36;
/// More rows than this cannot be read.
const MAX_ROWS: usize = 200;
/// More events than this cannot be read.
const MAX_EVENTS: usize = 24;
/// What an event adds to the height of a panel, in points.
const EVENT_POINTS: usize = 24;
/// One panel for each curve.
///
/// # Errors
/// Too many curves or events.
pub fn curves(curves: &Curves) -> anyhow::Result<Figure> {
    let count = curves.all.len() + usize::from(curves.region.is_some());
    if count > MAX_PANELS {
        return Err(UserError::new(format!(
            "--plot: {count} parameters do not fit on a page, at most {MAX_PANELS} do; --forest has \
             room for {MAX_ROWS}, --export for all"
        ))
        .into());
    }
    let events = curves.all.iter().map(|curve| curve.events.len()).max();
    let events = events.unwrap_or(0);
    let most = events.max(curves.others.len());
    if most > MAX_EVENTS {
        return Err(UserError::new(format!(
            "--plot: {most} events do not fit on a page, at most {MAX_EVENTS} do"
        ))
        .into());
    }
    let region = curves.region.as_ref();
    let region = region.map(|region| region_panel(region, [&curves.all[0], &curves.all[1]]));
    let panels = curves.all.iter().map(Curve::panel).chain(region).collect();
    let columns = match curves.in_a_row {
        Some(groups) if groups <= SIDE_BY_SIDE => groups,
        _ if curves.region.is_some() => count,
        _ => (count as f64).sqrt().ceil() as usize,
    };
    let (width, height) = if count == 1 { (720, 460) } else { (480, 340) };
    let height = height + u32::try_from(EVENT_POINTS * events)?;
    let lines = [curves.data.clone()].into_iter();
    Ok(Figure::grid(columns, panels)
        .panel_size(width, height)
        .title(&curves.title)
        .captions(lines.chain(curves.others.iter().map(Answer::describe))))
}

/// α-cuts of two parameters, the smallest level first.
fn region_panel(region: &Region, [first, second]: [&Curve; 2]) -> Panel {
    let mut panel =
        Panel::new("", first.range.clone(), second.range.clone()).labels(&first.name, &second.name);
    let mut ordered: Vec<_> = region.cuts.iter().collect();
    ordered.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (i, (alpha, band)) in ordered.iter().enumerate() {
        let inside = band.iter().map(|&(x, low, high)| {
            let clip = |y: f64| y.clamp(second.range.start, second.range.end);
            (x, clip(low), clip(high))
        });
        panel
            .band(inside.collect(), cut_color(i, ordered.len()), 1.0)
            .labeled(format!("{}-cut", significant(*alpha)));
    }
    panel
        .dots(vec![region.mode], palette::VERMILION)
        .labeled("mode");
    panel
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
    data: String,
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
    let figure = Figure::single(panel).title(title).captions([data]);
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
    let data = report.origin.clone();
    forest(&branches, &summary.alphas, "parameter", title, data)
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
    let title = report.title();
    forest(
        &branches,
        report.alphas(),
        "coefficient",
        title,
        report.origin(),
    )
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
    let axis = report.parameters[0];
    forest(&branches, &report.alphas, axis, title, report.origin())
}
