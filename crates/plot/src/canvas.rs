//! A drawing area addressed in points: lines, areas and text, and the map from data to the page.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontFamily, FontTransform};

use super::palette::INK;
use crate::error::{Error, Result, drawn};

pub(crate) static FONT: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");
/// The family a viewer looks for in an SVG; the embedded font is registered under the whole list.
const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";
/// Ascent plus descent of the embedded font, in em.
pub(super) const FONT_HEIGHT: f64 = 1.164;

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    color: RGBColor,
    width: f64,
    /// Lengths drawn and left out by turns; empty for a solid line.
    dashes: &'static [f64],
}

impl Stroke {
    /// A solid line of width 2.
    pub fn solid(color: RGBColor) -> Self {
        Self {
            color,
            width: 2.0,
            dashes: &[],
        }
    }

    /// A dashed line of width 2.
    pub fn dashed(color: RGBColor) -> Self {
        Self::solid(color).dashes(&[7.0, 4.0])
    }

    /// A dotted line of width 2.
    pub fn dotted(color: RGBColor) -> Self {
        Self::solid(color).dashes(&[2.0, 3.0])
    }

    /// The same line with these lengths drawn and left out by turns.
    pub fn dashes(self, dashes: &'static [f64]) -> Self {
        Self { dashes, ..self }
    }

    /// The same line in another width.
    pub fn width(self, width: f64) -> Self {
        Self { width, ..self }
    }
}

/// A rectangle of the page, in points.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Frame {
    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom - self.top
    }
}

/// A drawing area that is addressed in points.
pub(super) struct Canvas<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    scale: f64,
    /// Size to ask the backend for, in em.
    size: f64,
    /// How far below the given place the backend puts the baseline, in em.
    baseline: f64,
}

impl<'a, B: DrawingBackend> Canvas<'a, B> {
    pub(super) fn new(
        area: &'a DrawingArea<B, Shift>,
        scale: f64,
        size: f64,
        baseline: f64,
    ) -> Result<Self> {
        plotters::style::register_font(FAMILY, FontStyle::Normal, FONT).map_err(|_| Error::Font)?;
        Ok(Self {
            area,
            scale,
            size,
            baseline,
        })
    }

    pub(super) fn pixel(&self, (x, y): (f64, f64)) -> (i32, i32) {
        // an `as` cast saturates, and everything is clipped to the page before
        (
            (x * self.scale).round() as i32,
            (y * self.scale).round() as i32,
        )
    }

    pub(super) fn element<'b, E>(&self, element: &'b E) -> Result<()>
    where
        &'b E: plotters::element::PointCollection<'b, (i32, i32)>,
        E: plotters::element::Drawable<B>,
    {
        self.area.draw(element).map_err(drawn)
    }

    pub(super) fn stroke_style(&self, stroke: &Stroke) -> ShapeStyle {
        let width = (stroke.width * self.scale).round().max(1.0) as u32;
        stroke.color.stroke_width(width)
    }

    pub(super) fn rectangle(&self, frame: &Frame, color: RGBAColor) -> Result<()> {
        let corners = [
            self.pixel((frame.left, frame.top)),
            self.pixel((frame.right, frame.bottom)),
        ];
        self.element(&Rectangle::new(corners, color.filled()))
    }

    pub(super) fn polygon(&self, points: &[(f64, f64)], color: RGBAColor) -> Result<()> {
        let points: Vec<_> = points.iter().map(|&p| self.pixel(p)).collect();
        self.element(&Polygon::new(points, color.filled()))
    }

    pub(super) fn path(&self, points: &[(f64, f64)], stroke: &Stroke) -> Result<()> {
        let style = self.stroke_style(stroke);
        let draw = |points: &[(f64, f64)]| -> Result<()> {
            let points: Vec<_> = points.iter().map(|&p| self.pixel(p)).collect();
            self.element(&PathElement::new(points, style))
        };
        match stroke.dashes {
            [] => draw(points),
            lengths => pieces(points, lengths)
                .iter()
                .try_for_each(|part| draw(part)),
        }
    }

    pub(super) fn dot(
        &self,
        center: (f64, f64),
        radius: f64,
        color: RGBColor,
        filled: bool,
    ) -> Result<()> {
        let size = (radius * self.scale).round() as i32;
        let center = self.pixel(center);
        if filled {
            return self.element(&Circle::new(center, size, color.filled()));
        }
        let rim = (1.6 * self.scale).round() as i32;
        self.element(&Circle::new(center, size, color.filled()))?;
        self.element(&Circle::new(center, size - rim, WHITE.filled()))
    }

    pub(super) fn style(&self, em: f64, size: f64) -> TextStyle<'static> {
        TextStyle::from((FontFamily::Name(FAMILY), em * size * self.scale)).color(&INK)
    }

    /// Width of a text, in points.
    pub(super) fn text_width(&self, text: &str, em: f64) -> Result<f64> {
        let style = self.style(em, FONT_HEIGHT);
        let (width, _) = self.area.estimate_text_size(text, &style).map_err(drawn)?;
        Ok(f64::from(width) / self.scale)
    }

    /// Draws a text whose baseline goes through the point; `upward` turns it to read from bottom to
    /// top.
    pub(super) fn text(
        &self,
        text: &str,
        at: (f64, f64),
        em: f64,
        h_pos: HPos,
        upward: bool,
    ) -> Result<()> {
        let mut style = self.style(em, self.size).pos(Pos::new(h_pos, VPos::Top));
        let lift = em * self.baseline;
        let at = if upward {
            style = style.transform(FontTransform::Rotate270);
            (at.0 - lift, at.1)
        } else {
            (at.0, at.1 - lift)
        };
        self.area
            .draw_text(text, &style, self.pixel(at))
            .map_err(drawn)
    }

    /// The text, shortened with an ellipsis so that it is not wider than `limit`.
    pub(super) fn fitted(&self, text: &str, em: f64, limit: f64) -> Result<String> {
        if self.text_width(text, em)? <= limit {
            return Ok(text.to_owned());
        }
        let mut letters: Vec<char> = text.chars().collect();
        while letters.pop().is_some() {
            let shorter: String = letters.iter().chain(&['…']).collect();
            if self.text_width(&shorter, em)? <= limit {
                return Ok(shorter);
            }
        }
        Ok(String::new())
    }
}

/// The drawn pieces of a dashed line; `lengths` are drawn and left out by turns.
fn pieces(points: &[(f64, f64)], lengths: &[f64]) -> Vec<Vec<(f64, f64)>> {
    let mut pieces = Vec::new();
    let Some(&first) = points.first() else {
        return pieces;
    };
    let mut turns = lengths.iter().copied().cycle();
    let (mut drawing, mut left) = (true, turns.next().unwrap_or(f64::INFINITY));
    let mut piece = vec![first];
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            let (dx, dy) = (to.0 - from.0, to.1 - from.1);
            let length = dx.hypot(dy);
            if length <= left {
                left -= length;
                if drawing {
                    piece.push(to);
                }
                break;
            }
            let share = left / length;
            from = (from.0 + share * dx, from.1 + share * dy);
            if drawing {
                piece.push(from);
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece = vec![from];
            }
            drawing = !drawing;
            left = turns.next().unwrap_or(f64::INFINITY);
        }
    }
    if drawing && piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

/// Maps data to the page.
pub(super) struct Axes {
    pub(super) frame: Frame,
    pub(super) x: Range<f64>,
    pub(super) y: Range<f64>,
}

impl Axes {
    pub(super) fn point(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let horizontal = (x - self.x.start) / (self.x.end - self.x.start);
        let vertical = (y - self.y.start) / (self.y.end - self.y.start);
        (
            self.frame.left + horizontal * self.frame.width(),
            self.frame.bottom - vertical * self.frame.height(),
        )
    }

    pub(super) fn contains(&self, (x, y): (f64, f64)) -> bool {
        self.x.start <= x && x <= self.x.end && self.y.start <= y && y <= self.y.end
    }

    /// The parts of a line inside the axes, in page coordinates.
    pub(super) fn clip(&self, points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
        let mut pieces: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut last: Option<(f64, f64)> = None;
        for pair in points.windows(2) {
            let finite = pair.iter().all(|p| p.0.is_finite() && p.1.is_finite());
            let Some((a, b)) = finite
                .then(|| self.clip_segment(pair[0], pair[1]))
                .flatten()
            else {
                last = None;
                continue;
            };
            match pieces.last_mut() {
                Some(piece) if last == Some(a) => piece.push(self.point(b)),
                _ => pieces.push(vec![self.point(a), self.point(b)]),
            }
            last = Some(b);
        }
        pieces
    }

    /// Liang and Barsky: the part `a + t(b - a)` with `t` between the entry and the exit of each
    /// border.
    pub(super) fn clip_segment(
        &self,
        a: (f64, f64),
        b: (f64, f64),
    ) -> Option<((f64, f64), (f64, f64))> {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        let borders = [
            (-dx, a.0 - self.x.start),
            (dx, self.x.end - a.0),
            (-dy, a.1 - self.y.start),
            (dy, self.y.end - a.1),
        ];
        for (toward, distance) in borders {
            if toward == 0.0 {
                if distance < 0.0 {
                    return None;
                }
            } else if toward < 0.0 {
                enter = enter.max(distance / toward);
            } else {
                leave = leave.min(distance / toward);
            }
        }
        if enter > leave {
            return None;
        }
        let at = |t: f64| match t {
            0.0 => a,
            1.0 => b,
            t => (a.0 + t * dx, a.1 + t * dy),
        };
        Some((at(enter), at(leave)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_clipped_at_the_axes_and_cut_at_gaps() {
        let axes = Axes {
            frame: Frame {
                left: 0.0,
                top: 0.0,
                right: 10.0,
                bottom: 10.0,
            },
            x: 0.0..1.0,
            y: 0.0..1.0,
        };
        let pieces = axes.clip(&[(-1.0, 0.5), (0.5, 0.5), (0.5, 3.0)]);
        assert_eq!(pieces, [vec![(0.0, 5.0), (5.0, 5.0), (5.0, 0.0)]]);
        let pieces = axes.clip(&[(0.0, 0.0), (0.5, f64::NAN), (0.5, 0.5), (1.0, 0.5)]);
        assert_eq!(pieces, [vec![(5.0, 5.0), (10.0, 5.0)]]);
        assert!(axes.clip(&[(2.0, 0.0), (2.0, 1.0)]).is_empty());
    }

    #[test]
    fn dashes_have_the_asked_length() {
        let line = [(0.0, 0.0), (4.0, 0.0), (10.0, 0.0)];
        assert_eq!(
            pieces(&line, &[3.0, 2.0]),
            [vec![(0.0, 0.0), (3.0, 0.0)], vec![(5.0, 0.0), (8.0, 0.0)]]
        );
        assert_eq!(
            pieces(&line, &[3.0, 2.0, 0.5, 2.0]),
            [
                vec![(0.0, 0.0), (3.0, 0.0)],
                vec![(5.0, 0.0), (5.5, 0.0)],
                vec![(7.5, 0.0), (10.0, 0.0)]
            ]
        );
    }
}
