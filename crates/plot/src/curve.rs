//! Possibility functions as curves: over which part of the line, through which points, and how they
//! stand on a panel, with their α-cuts shaded and their mode and events marked.

use std::ops::Range;

use plotters::style::RGBColor;
use possibility::regression::{Marginal, ProfileCurve};
use possibility::valid::Pivot;
use possibility::{Interval, RealSet, Univariate};

use crate::text::{significant, significant_on};
use crate::{Panel, Stroke, palette};

/// Where a possibility function is too small to be seen.
const INVISIBLE: f64 = 0.01;
/// Where it is nearly 1.
const NEARLY_ONE: f64 = 0.98;
/// Points of a curve.
const POINTS: u32 = 600;
/// Top of the vertical axis.
const TOP: f64 = 1.06;
/// Height of the bar of an event, below the axis.
const EVENT_ROW: f64 = 0.05;
/// Colors of the events, in their order.
const EVENT_COLORS: [RGBColor; 3] = [palette::GREEN, palette::SKY, palette::INK];

/// The possibility function of one parameter over the part of the line that is worth looking at.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The parameter.
    pub name: String,
    /// The horizontal axis.
    pub range: Range<f64>,
    /// Values and their possibilities, by increasing value, as they are drawn.
    pub drawn: Vec<(f64, f64)>,
    /// Those of them that are exact, where others lie between solved points.
    pub exact: Option<Vec<(f64, f64)>>,
    /// Levels and their α-cuts.
    pub cuts: Vec<(f64, Interval)>,
    /// The mode.
    pub mode: Option<f64>,
    /// One over the square root of the precision at the mode.
    pub scale: Option<f64>,
    /// The Laplace approximation, where it is another curve.
    pub laplace: Vec<(f64, f64)>,
    /// Events about this parameter: what is said of them, and where they hold.
    pub events: Vec<(String, RealSet)>,
}

impl Curve {
    /// The function with its cuts at these levels, as far as it can be seen.
    ///
    /// # Errors
    /// A level outside `(0, 1]`.
    pub fn of(
        function: &(impl Univariate + ?Sized),
        name: impl Into<String>,
        alphas: &[f64],
    ) -> possibility::Result<Self> {
        let cuts = alphas.iter().map(|&alpha| function.cut(alpha));
        let cuts = cuts.collect::<possibility::Result<Vec<_>>>()?;
        let range = shown_range(function, smallest_shown(alphas))?;
        Ok(Self::over(range, function, name, alphas, &cuts))
    }

    /// The function over the range, inside the domain, with the ends of the cuts and the mode among
    /// the points.
    pub fn over(
        range: Range<f64>,
        function: &(impl Univariate + ?Sized),
        name: impl Into<String>,
        alphas: &[f64],
        cuts: &[Interval],
    ) -> Self {
        let special = cuts.iter().flat_map(|cut| [cut.lower(), cut.upper()]);
        Self {
            name: name.into(),
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

    /// The exact profile of a linear form with its Laplace approximation.
    pub fn of_profile(
        profile: &ProfileCurve,
        laplace: &Marginal,
        name: impl Into<String>,
        alphas: &[f64],
        cuts: &[Interval],
    ) -> Self {
        let solved = profile.points();
        let (first, last) = (solved[0].value, solved[solved.len() - 1].value);
        let range = with_air(first, last);
        let ends = cuts.iter().flat_map(|cut| [cut.lower(), cut.upper()]);
        let places = places(&range, solved.iter().map(|point| point.value).chain(ends));
        let exact = solved.iter().map(|p| (p.value, p.log_possibility.exp()));
        Self {
            name: name.into(),
            drawn: places
                .into_iter()
                .map(|x| (x, profile.possibility(x)))
                .collect(),
            exact: Some(exact.collect()),
            cuts: levels(alphas, cuts),
            mode: Some(laplace.mode()),
            scale: scale(laplace.precision()),
            laplace: points(laplace, &range, Some(laplace.mode())),
            events: Vec::new(),
            range,
        }
    }

    /// The points that are exact.
    pub fn exact_points(&self) -> &[(f64, f64)] {
        self.exact.as_ref().unwrap_or(&self.drawn)
    }

    /// Reads a plain curve as a valid one.
    pub fn make_valid(&mut self, pivot: Pivot) {
        let all = self.drawn.iter_mut().chain(self.exact.iter_mut().flatten());
        for (_, possibility) in all {
            *possibility = pivot.possibility(possibility.ln());
        }
        self.laplace.clear();
    }

    /// The curve with its cuts, its mode and its events.
    pub fn panel(&self) -> Panel {
        let range = self.range.clone();
        let bottom = -EVENT_ROW * self.events.len() as f64;
        let mut panel =
            Panel::new("", range.clone(), bottom..TOP).labels(&self.name, "possibility");
        if bottom < 0.0 {
            let ticks = (0..=5).map(|i| 0.2 * f64::from(i));
            panel = panel.y_ticks(ticks.map(|y| (y, significant(y))).collect());
            let axis = vec![(range.start, 0.0), (range.end, 0.0)];
            panel.line(axis, Stroke::solid(palette::INK).width(1.2));
        }
        self.shade_cuts(&mut panel);
        panel.line(self.drawn.clone(), Stroke::solid(palette::BLUE));
        if !self.laplace.is_empty() {
            panel.labeled("exact");
            panel
                .line(self.laplace.clone(), Stroke::dashed(palette::ORANGE))
                .labeled("Laplace (approximation)");
        }
        if let Some(mode) = self.mode {
            let label = format!("mode {}", significant_on(mode, self.scale))
                .replace('-', "−")
                .replace("inf", "∞");
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
        for (row, (label, set)) in self.events.iter().enumerate() {
            self.mark_event(&mut panel, row, label, set);
        }
        panel
    }

    /// Shades the area below the curve inside each cut, the smallest level first.
    fn shade_cuts(&self, panel: &mut Panel) {
        let mut ordered: Vec<_> = self.cuts.iter().collect();
        ordered.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (i, (alpha, cut)) in ordered.iter().enumerate() {
            let color = cut_color(i, ordered.len());
            let drawn = self.drawn.iter();
            let inside = drawn.filter(|p| cut.lower() <= p.0 && p.0 <= cut.upper());
            let band = inside.map(|&(x, y)| (x, 0.0, y)).collect();
            panel
                .band(band, color, 1.0)
                .labeled(format!("{}-cut", significant(*alpha)));
        }
    }

    /// A bar below the axis where the event holds; a single value is a dot.
    fn mark_event(&self, panel: &mut Panel, row: usize, label: &str, set: &RealSet) {
        let color = EVENT_COLORS[row % EVENT_COLORS.len()];
        let height = -EVENT_ROW * (row as f64 + 0.5);
        let (mut bars, mut points) = (Vec::new(), Vec::new());
        for part in set.parts() {
            let lower = part.lower().max(self.range.start);
            let upper = part.upper().min(self.range.end);
            if lower < upper {
                bars.extend([(lower, height), (upper, height), (f64::NAN, f64::NAN)]);
            } else if lower == upper {
                points.push((lower, height));
            }
        }
        panel.dots(points, color);
        panel
            .line(bars, Stroke::solid(color).width(6.0))
            .labeled(label);
    }
}

/// A color mixed with white.
pub fn tint(color: RGBColor, share: f64) -> RGBColor {
    let mix = |channel: u8| (255.0 - share * (255.0 - f64::from(channel))).round() as u8;
    RGBColor(mix(color.0), mix(color.1), mix(color.2))
}

/// The color of a cut, by its rank among so many; tints instead of transparency: the legend then
/// shows the color of the picture.
pub fn cut_color(rank: usize, count: usize) -> RGBColor {
    let share = (rank + 1) as f64 / (count + 1) as f64;
    tint(palette::BLUE, 0.1 + 0.5 * share)
}

/// Levels with their cuts.
pub fn levels(alphas: &[f64], cuts: &[Interval]) -> Vec<(f64, Interval)> {
    alphas.iter().copied().zip(cuts.iter().copied()).collect()
}

/// One over the square root of the precision.
pub fn scale(precision: Option<f64>) -> Option<f64> {
    precision.map(|precision| precision.sqrt().recip())
}

/// The level down to which a function with cuts at these levels is shown.
pub fn smallest_shown(alphas: &[f64]) -> f64 {
    let halves = alphas.iter().map(|alpha| 0.5 * alpha);
    halves.fold(INVISIBLE, f64::min)
}

/// From the first to the last value that is drawn, with a little air around them.
pub fn with_air(first: f64, last: f64) -> Range<f64> {
    let air = 0.04 * (last - first);
    first - air..last + air
}

/// The part of the line where the possibility is at least `smallest`, with a little air around it.
///
/// # Errors
/// A level outside `(0, 1]`.
pub fn shown_range(
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
    if lower < upper {
        return Ok(with_air(lower, upper));
    }
    let air = 0.5 * lower.abs().max(1.0);
    Ok(lower - air..upper + air)
}

/// How many steps of equal length a range has.
pub fn steps(range: &Range<f64>) -> impl Iterator<Item = f64> + use<> {
    let (start, step) = (range.start, (range.end - range.start) / f64::from(POINTS));
    (0..=POINTS).map(move |i| start + step * f64::from(i))
}

/// Evenly spaced places in the range, and the special ones among them.
fn places(range: &Range<f64>, special: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut places: Vec<f64> = steps(range)
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

#[cfg(test)]
mod tests {
    use possibility::prelude::*;

    use super::*;

    #[test]
    fn a_curve_goes_through_its_mode_and_the_ends_of_its_cuts() {
        let coin = Bernoulli.observe(&[true, true, false, true, true]).unwrap();
        let curve = Curve::of(&coin, "p", &[0.05, 0.5]).unwrap();
        let at = |x: f64| curve.drawn.iter().find(|point| point.0 == x).unwrap().1;
        assert_eq!(at(0.8), 1.0);
        for (alpha, cut) in &curve.cuts {
            assert!((at(cut.lower()) - alpha).abs() < 1e-9);
            assert!((at(cut.upper()) - alpha).abs() < 1e-9);
        }
        // never outside of where a probability lives, though the axis has air around it
        assert!(
            curve
                .drawn
                .iter()
                .all(|point| (0.0..=1.0).contains(&point.0))
        );
        assert!(curve.drawn.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn an_axis_has_width_even_for_one_value() {
        let certain = Bernoulli.prior(0.5, 1e300).unwrap();
        let range = shown_range(&certain, 0.01).unwrap();
        assert!(range.start < 0.5 && 0.5 < range.end);
        // toward an infinite end the axis ends where the function is nearly 1
        let waits = Exponential.observe(&[1.0]).unwrap();
        let range = shown_range(&waits, 0.01).unwrap();
        assert!(range.end.is_finite() && range.start.is_finite());
    }
}
