//! Axes with marks in them: what a panel holds, and how it is laid out and drawn.

use std::ops::Range;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::Stroke;
use super::canvas::{Axes, Canvas, Frame};
use super::palette::{GRID, INK};
use super::ticks::{tick_base, ticks};
use crate::error::Result;
use crate::text::printable;

const TITLE: f64 = 15.0;
const LABEL: f64 = 13.0;
const TICK: f64 = 11.5;
const LEGEND_ROW: f64 = 19.0;
const SWATCH: f64 = 24.0;
const PADDING: f64 = 14.0;

/// Something drawn inside the axes, in data coordinates. A point that is not finite interrupts a
/// line.
#[derive(Debug, Clone, PartialEq)]
enum Mark {
    Line(Vec<(f64, f64)>, Stroke),
    /// The area between two curves over the same abscissas.
    Band(Vec<(f64, f64, f64)>, RGBColor, f64),
    /// Vertical lines from 0 with a dot at the end.
    Stems(Vec<(f64, f64)>, RGBColor),
    /// Rectangles from 0: center and height.
    Bars(Vec<(f64, f64)>, f64, RGBColor, f64),
    Dots(Vec<(f64, f64)>, RGBColor, bool),
}

/// Axes with marks in them.
#[derive(Debug, Clone)]
pub struct Panel {
    title: String,
    x_label: String,
    y_label: String,
    x_range: Range<f64>,
    y_range: Range<f64>,
    x_ticks: Option<Vec<(f64, String)>>,
    y_ticks: Option<Vec<(f64, String)>>,
    marks: Vec<(Mark, Option<String>)>,
}

impl Panel {
    /// Empty axes over the given ranges.
    pub fn new(title: impl Into<String>, x_range: Range<f64>, y_range: Range<f64>) -> Self {
        Self {
            title: title.into(),
            x_label: String::new(),
            y_label: String::new(),
            x_range,
            y_range,
            x_ticks: None,
            y_ticks: None,
            marks: Vec::new(),
        }
    }

    /// Names the axes.
    pub fn labels(mut self, x: impl Into<String>, y: impl Into<String>) -> Self {
        self.x_label = printable(&x.into()).into_owned();
        self.y_label = printable(&y.into()).into_owned();
        self
    }

    /// Puts ticks with these texts on the horizontal axis instead of round numbers.
    pub fn x_ticks(mut self, ticks: Vec<(f64, String)>) -> Self {
        self.x_ticks = Some(ticks);
        self
    }

    /// Puts ticks with these texts on the vertical axis instead of round numbers.
    pub fn y_ticks(mut self, ticks: Vec<(f64, String)>) -> Self {
        self.y_ticks = Some(ticks);
        self
    }

    /// Adds a curve through the points.
    pub fn line(&mut self, points: Vec<(f64, f64)>, stroke: Stroke) -> &mut Self {
        self.push(Mark::Line(points, stroke))
    }

    /// Shades the area between two curves, given as `(x, lower, upper)`.
    pub fn band(
        &mut self,
        points: Vec<(f64, f64, f64)>,
        color: RGBColor,
        opacity: f64,
    ) -> &mut Self {
        self.push(Mark::Band(points, color, opacity))
    }

    /// Adds a vertical line with a dot for each point.
    pub fn stems(&mut self, points: Vec<(f64, f64)>, color: RGBColor) -> &mut Self {
        self.push(Mark::Stems(points, color))
    }

    /// Adds bars from 0 to the heights, all of the same width.
    pub fn bars(
        &mut self,
        bars: Vec<(f64, f64)>,
        width: f64,
        color: RGBColor,
        opacity: f64,
    ) -> &mut Self {
        self.push(Mark::Bars(bars, width, color, opacity))
    }

    /// Adds filled dots.
    pub fn dots(&mut self, points: Vec<(f64, f64)>, color: RGBColor) -> &mut Self {
        self.push(Mark::Dots(points, color, true))
    }

    /// Adds hollow dots, for points that do not belong to a curve.
    pub fn circles(&mut self, points: Vec<(f64, f64)>, color: RGBColor) -> &mut Self {
        self.push(Mark::Dots(points, color, false))
    }

    /// Gives the mark added last an entry in the legend.
    pub fn labeled(&mut self, label: impl Into<String>) -> &mut Self {
        if let Some((_, entry)) = self.marks.last_mut() {
            *entry = Some(label.into());
        }
        self
    }

    fn push(&mut self, mark: Mark) -> &mut Self {
        self.marks.push((mark, None));
        self
    }

    fn legend(&self) -> impl Iterator<Item = (&Mark, &str)> {
        self.marks
            .iter()
            .filter_map(|(mark, label)| label.as_deref().map(|label| (mark, label)))
    }
}

impl Panel {
    pub(super) fn draw<B: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, B>,
        frame: &Frame,
    ) -> Result<()> {
        let mut y_ticks = match &self.y_ticks {
            Some(ticks) => ticks.clone(),
            None => ticks(&self.y_range, 5),
        };
        let mut tick_width = 0.0_f64;
        for (_, text) in &mut y_ticks {
            *text = canvas.fitted(text, TICK, 0.4 * frame.width())?;
            tick_width = tick_width.max(canvas.text_width(text, TICK)?);
        }
        let y_label = if self.y_label.is_empty() {
            0.0
        } else {
            LABEL + 9.0
        };
        let x_label = if self.x_label.is_empty() {
            0.0
        } else {
            LABEL + 7.0
        };
        let mut inner = Frame {
            left: frame.left + PADDING + y_label + tick_width + 8.0,
            top: frame.top + PADDING,
            right: frame.right - PADDING - 6.0,
            bottom: frame.bottom - PADDING - x_label - TICK - 8.0,
        };
        if !self.title.is_empty() {
            inner.top += TITLE + 4.0;
            let center = (inner.left + inner.right) / 2.0;
            let title = canvas.fitted(&self.title, TITLE, frame.width() - 2.0 * PADDING)?;
            canvas.text(
                &title,
                (center, inner.top - 3.0),
                TITLE,
                HPos::Center,
                false,
            )?;
            inner.top += 4.0;
        }
        inner.top = self.draw_legend(canvas, &inner)?;
        let axes = Axes {
            frame: inner,
            x: self.x_range.clone(),
            y: self.y_range.clone(),
        };
        self.draw_axes(canvas, &axes, &y_ticks)?;
        if !self.y_label.is_empty() {
            let at = (
                frame.left + PADDING + LABEL - 2.0,
                (inner.top + inner.bottom) / 2.0,
            );
            canvas.text(&self.y_label, at, LABEL, HPos::Center, true)?;
        }
        if !self.x_label.is_empty() {
            let at = ((inner.left + inner.right) / 2.0, frame.bottom - PADDING);
            let base = tick_base(&self.x_range);
            let label = match self.x_ticks {
                None if base > 0.0 => format!("{} − {base}", self.x_label),
                None if base < 0.0 => format!("{} + {}", self.x_label, -base),
                _ => self.x_label.clone(),
            };
            let label = canvas.fitted(&label, LABEL, inner.width())?;
            canvas.text(&label, at, LABEL, HPos::Center, false)?;
        }
        for (mark, _) in &self.marks {
            mark.draw(canvas, &axes)?;
        }
        Ok(())
    }

    fn draw_axes<B: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, B>,
        axes: &Axes,
        y_ticks: &[(f64, String)],
    ) -> Result<()> {
        let frame = axes.frame;
        let grid = Stroke::solid(GRID).width(1.0);
        let axis = Stroke::solid(INK).width(1.2);
        for (value, text) in y_ticks {
            let (_, y) = axes.point((axes.x.start, *value));
            canvas.path(&[(frame.left, y), (frame.right, y)], &grid)?;
            let at = (frame.left - 7.0, y + 0.36 * TICK);
            canvas.text(text, at, TICK, HPos::Right, false)?;
        }
        let wanted = (frame.width() / 75.0).floor().clamp(2.0, 8.0) as usize;
        let x_ticks = match &self.x_ticks {
            Some(ticks) => ticks.clone(),
            None => {
                let base = tick_base(&self.x_range);
                let shifted = self.x_range.start - base..self.x_range.end - base;
                let ticks = ticks(&shifted, wanted).into_iter();
                ticks.map(|(value, text)| (value + base, text)).collect()
            }
        };
        for (value, text) in &x_ticks {
            let (x, _) = axes.point((*value, axes.y.start));
            if self.x_ticks.is_none() {
                canvas.path(&[(x, frame.top), (x, frame.bottom)], &grid)?;
            }
            canvas.path(&[(x, frame.bottom), (x, frame.bottom + 4.0)], &axis)?;
            let at = (x, frame.bottom + 6.0 + TICK);
            canvas.text(text, at, TICK, HPos::Center, false)?;
        }
        let corner = [
            (frame.left, frame.top),
            (frame.left, frame.bottom),
            (frame.right, frame.bottom),
        ];
        canvas.path(&corner, &axis)
    }

    /// Draws the legend from `inner.top` downward, centered, in as many rows as it needs; returns
    /// where it ends.
    fn draw_legend<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>, inner: &Frame) -> Result<f64> {
        const GAP: f64 = 16.0;
        /// A mark, its text and the width of both.
        type Entry<'a> = (&'a Mark, String, f64);
        let mut rows: Vec<(f64, Vec<Entry<'_>>)> = Vec::new();
        for (mark, label) in self.legend() {
            let label = canvas.fitted(label, TICK, inner.width() - SWATCH - 6.0)?;
            let width = SWATCH + 6.0 + canvas.text_width(&label, TICK)?;
            match rows.last_mut() {
                Some((filled, row)) if *filled + GAP + width <= inner.width() => {
                    *filled += GAP + width;
                    row.push((mark, label, width));
                }
                _ => rows.push((width, vec![(mark, label, width)])),
            }
        }
        let mut top = inner.top;
        for (filled, row) in &rows {
            let mut left = (inner.left + inner.right - filled) / 2.0;
            let middle = top + LEGEND_ROW / 2.0;
            for (mark, label, width) in row {
                mark.draw_swatch(canvas, left, middle)?;
                let at = (left + SWATCH + 6.0, middle + 0.36 * TICK);
                canvas.text(label, at, TICK, HPos::Left, false)?;
                left += width + GAP;
            }
            top += LEGEND_ROW;
        }
        Ok(if rows.is_empty() {
            top + 2.0
        } else {
            top + 6.0
        })
    }
}

impl Mark {
    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>, axes: &Axes) -> Result<()> {
        match self {
            Self::Line(points, stroke) => {
                for piece in axes.clip(points) {
                    canvas.path(&piece, stroke)?;
                }
            }
            Self::Band(points, color, opacity) => {
                let inside = |y: f64| y.clamp(axes.y.start, axes.y.end);
                let is_drawn = |p: &&(f64, f64, f64)| {
                    axes.x.start <= p.0 && p.0 <= axes.x.end && !p.1.is_nan() && !p.2.is_nan()
                };
                let points: Vec<_> = points.iter().filter(is_drawn).collect();
                let lower = points.iter().map(|p| (p.0, inside(p.1)));
                let upper = points.iter().rev().map(|p| (p.0, inside(p.2)));
                let outline: Vec<_> = lower.chain(upper).map(|p| axes.point(p)).collect();
                if points.len() > 1 {
                    canvas.polygon(&outline, color.mix(*opacity))?;
                }
            }
            Self::Stems(points, color) => {
                let stroke = Stroke::solid(*color).width(1.8);
                for &(x, y) in points {
                    for piece in axes.clip(&[(x, 0.0), (x, y)]) {
                        canvas.path(&piece, &stroke)?;
                    }
                    if axes.contains((x, y)) {
                        canvas.dot(axes.point((x, y)), 3.6, *color, true)?;
                    }
                }
            }
            Self::Bars(bars, width, color, opacity) => {
                for &(center, height) in bars {
                    let left = (center - width / 2.0).max(axes.x.start);
                    let right = (center + width / 2.0).min(axes.x.end);
                    let (base, height) = (
                        0.0_f64.clamp(axes.y.start, axes.y.end),
                        height.clamp(axes.y.start, axes.y.end),
                    );
                    let (a, b) = (axes.point((left, height)), axes.point((right, base)));
                    if left < right {
                        let frame = Frame {
                            left: a.0,
                            top: a.1.min(b.1),
                            right: b.0,
                            bottom: a.1.max(b.1),
                        };
                        canvas.rectangle(&frame, color.mix(*opacity))?;
                    }
                }
            }
            Self::Dots(points, color, filled) => {
                for &point in points.iter().filter(|p| axes.contains(**p)) {
                    canvas.dot(axes.point(point), 4.4, *color, *filled)?;
                }
            }
        }
        Ok(())
    }

    fn draw_swatch<B: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, B>,
        left: f64,
        middle: f64,
    ) -> Result<()> {
        let right = left + SWATCH;
        let area = Frame {
            left: left + 2.0,
            top: middle - 5.0,
            right: right - 2.0,
            bottom: middle + 5.0,
        };
        match self {
            Self::Line(_, stroke) => canvas.path(&[(left, middle), (right, middle)], stroke),
            Self::Band(_, color, opacity) | Self::Bars(_, _, color, opacity) => {
                canvas.rectangle(&area, color.mix(*opacity))
            }
            Self::Stems(_, color) => {
                let center = (left + right) / 2.0;
                let stem = [(center, middle + 6.0), (center, middle - 4.0)];
                canvas.path(&stem, &Stroke::solid(*color).width(1.8))?;
                canvas.dot((center, middle - 4.0), 3.4, *color, true)
            }
            Self::Dots(_, color, filled) => {
                canvas.dot(((left + right) / 2.0, middle), 4.2, *color, *filled)
            }
        }
    }
}
