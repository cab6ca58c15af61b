//! Pictures: a [`Figure`] is a grid of [`Panel`]s, a panel is a stack of marks, and each is saved as SVG or PNG.
//!
//! Everything is laid out in points of a page, 1/96 inch. The drawing backend rounds to whole pixels, so
//! both outputs are drawn on a finer grid: an SVG carries it in its `viewBox`, a PNG is averaged down, which
//! also smooths its edges. Legends stand above the axes, where they cover no curve.

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontFamily, FontTransform};

/// Colors that color-blind readers can tell apart (after Okabe and Ito).
pub mod palette {
    use plotters::style::RGBColor;

    /// Blue.
    pub const BLUE: RGBColor = RGBColor(0, 114, 178);
    /// Vermilion.
    pub const VERMILION: RGBColor = RGBColor(213, 94, 0);
    /// Bluish green.
    pub const GREEN: RGBColor = RGBColor(0, 158, 115);
    /// Orange.
    pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
    /// Sky blue.
    pub const SKY: RGBColor = RGBColor(86, 180, 233);
    /// Nearly black, for text and axes.
    pub const INK: RGBColor = RGBColor(34, 34, 34);
    /// Light gray, for grid lines.
    pub const GRID: RGBColor = RGBColor(228, 228, 228);
}

use crate::user_error::UserError;
use palette::{GRID, INK};

static FONT: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");
/// The family a viewer looks for in an SVG; the embedded font is registered under the whole list.
const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";
/// Ascent plus descent of the embedded font, in em.
const FONT_HEIGHT: f64 = 1.164;

const TITLE: f64 = 15.0;
const HEADING: f64 = 18.0;
const LABEL: f64 = 13.0;
const TICK: f64 = 11.5;
const LEGEND_ROW: f64 = 19.0;
const SWATCH: f64 = 24.0;
const PADDING: f64 = 14.0;

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stroke {
    color: RGBColor,
    width: f64,
    dash: Option<(f64, f64)>,
}

impl Stroke {
    /// A solid line of width 2.
    pub fn solid(color: RGBColor) -> Self {
        Self {
            color,
            width: 2.0,
            dash: None,
        }
    }

    /// A dashed line of width 2.
    pub fn dashed(color: RGBColor) -> Self {
        Self {
            dash: Some((7.0, 4.0)),
            ..Self::solid(color)
        }
    }

    /// A dotted line of width 2.
    pub fn dotted(color: RGBColor) -> Self {
        Self {
            dash: Some((2.0, 3.0)),
            ..Self::solid(color)
        }
    }

    /// The same line in another width.
    pub fn width(self, width: f64) -> Self {
        Self { width, ..self }
    }
}

/// Something drawn inside the axes, in data coordinates. A point that is not finite interrupts a line.
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
            marks: Vec::new(),
        }
    }

    /// Names the axes.
    pub fn labels(mut self, x: impl Into<String>, y: impl Into<String>) -> Self {
        self.x_label = x.into();
        self.y_label = y.into();
        self
    }

    /// Puts ticks with these texts on the horizontal axis instead of round numbers.
    pub fn x_ticks(mut self, ticks: Vec<(f64, String)>) -> Self {
        self.x_ticks = Some(ticks);
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

/// A page of panels.
#[derive(Debug, Clone)]
pub struct Figure {
    title: Option<String>,
    columns: usize,
    panel_size: (u32, u32),
    panels: Vec<Panel>,
}

impl Figure {
    /// A single panel.
    pub fn single(panel: Panel) -> Self {
        Self::grid(1, vec![panel]).panel_size(720, 460)
    }

    /// Panels from left to right, then from top to bottom.
    pub fn grid(columns: usize, panels: Vec<Panel>) -> Self {
        Self {
            title: None,
            columns: columns.clamp(1, panels.len().max(1)),
            panel_size: (480, 340),
            panels,
        }
    }

    /// Puts a heading above the panels.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the size of a panel, in points.
    pub fn panel_size(mut self, width: u32, height: u32) -> Self {
        self.panel_size = (width, height);
        self
    }

    fn heading_height(&self) -> u32 {
        if self.title.is_some() { 44 } else { 0 }
    }

    /// Width and height of the page, in points.
    pub fn size(&self) -> (u32, u32) {
        let rows = self.panels.len().div_ceil(self.columns).max(1) as u32;
        let (width, height) = self.panel_size;
        (
            width * self.columns as u32,
            height * rows + self.heading_height(),
        )
    }

    /// The figure as an SVG document; its text stays text.
    ///
    /// # Errors
    /// The drawing backend fails.
    pub fn to_svg(&self) -> anyhow::Result<String> {
        const GRID: u32 = 10;
        let (width, height) = self.size();
        let fine = (width * GRID, height * GRID);
        let mut text = String::new();
        {
            let root = SVGBackend::with_string(&mut text, fine).into_drawing_area();
            // the SVG backend moves the baseline by 0.76 em and takes 1 em for 1.24 units of size
            let canvas = Canvas::new(&root, f64::from(GRID), 1.24, 0.76)?;
            self.draw(&canvas)?;
            root.present().map_err(|error| anyhow!("{error}"))?;
        }
        let fine = format!("width=\"{}\" height=\"{}\"", fine.0, fine.1);
        Ok(text.replacen(&fine, &format!("width=\"{width}\" height=\"{height}\""), 1))
    }

    /// The figure as a PNG image with two pixels per point.
    ///
    /// # Errors
    /// The drawing backend or the encoder fails.
    pub fn to_png(&self) -> anyhow::Result<Vec<u8>> {
        const PIXELS: u32 = 2;
        const SAMPLES: u32 = 3;
        let (width, height) = (self.size().0 * PIXELS, self.size().1 * PIXELS);
        let fine = (width * SAMPLES, height * SAMPLES);
        let mut samples = vec![255; fine.0 as usize * fine.1 as usize * 3];
        {
            let root = BitMapBackend::with_buffer(&mut samples, fine).into_drawing_area();
            // the bitmap backend puts the baseline half a size below the top
            let scale = f64::from(PIXELS * SAMPLES);
            let canvas = Canvas::new(&root, scale, FONT_HEIGHT, 0.5 * FONT_HEIGHT)?;
            self.draw(&canvas)?;
            root.present().map_err(|error| anyhow!("{error}"))?;
        }
        let pixels = average(&samples, fine.0 as usize, SAMPLES as usize);
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        encoder.set_pixel_dims(Some(png::PixelDimensions {
            xppu: PIXELS * 3780, // 96 points per inch
            yppu: PIXELS * 3780,
            unit: png::Unit::Meter,
        }));
        encoder.write_header()?.write_image_data(&pixels)?;
        Ok(bytes)
    }

    /// Writes the figure in the format that the extension of the path names.
    ///
    /// # Errors
    /// The extension is neither `svg` nor `png`, or the file cannot be written.
    pub fn save(&self, path: &Path) -> anyhow::Result<()> {
        let bytes = match Format::of(path)? {
            Format::Svg => self.to_svg()?.into_bytes(),
            Format::Png => self.to_png()?,
        };
        write_atomically(path, &bytes)
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> anyhow::Result<()> {
        let (width, height) = self.size();
        let page = Frame {
            left: 0.0,
            top: 0.0,
            right: f64::from(width),
            bottom: f64::from(height),
        };
        canvas.rectangle(&page, WHITE.mix(1.0))?;
        if let Some(title) = &self.title {
            let center = f64::from(width) / 2.0;
            canvas.text(title, (center, 31.0), HEADING, HPos::Center, false)?;
        }
        let (panel_width, panel_height) = self.panel_size;
        for (i, panel) in self.panels.iter().enumerate() {
            let left = f64::from(panel_width) * (i % self.columns) as f64;
            let top = f64::from(panel_height) * (i / self.columns) as f64
                + f64::from(self.heading_height());
            panel.draw(
                canvas,
                &Frame {
                    left,
                    top,
                    right: left + f64::from(panel_width),
                    bottom: top + f64::from(panel_height),
                },
            )?;
        }
        Ok(())
    }
}

/// Mean of `samples × samples` blocks of an RGB image.
fn average(fine: &[u8], width: usize, samples: usize) -> Vec<u8> {
    let row = width * 3;
    let mut pixels = Vec::with_capacity(fine.len() / (samples * samples));
    let weight = (samples * samples) as u32;
    for rows in fine.chunks_exact(row * samples) {
        for x in (0..row).step_by(3 * samples) {
            for channel in 0..3 {
                let mut sum = weight / 2;
                for y in 0..samples {
                    for step in 0..samples {
                        sum += u32::from(rows[y * row + x + 3 * step + channel]);
                    }
                }
                pixels.push((sum / weight) as u8);
            }
        }
    }
    pixels
}

/// Picture formats, chosen by the extension of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Scalable vector graphics.
    Svg,
    /// Portable network graphics.
    Png,
}

impl Format {
    /// The format for a path.
    ///
    /// # Errors
    /// The extension is neither `svg` nor `png`.
    pub fn of(path: &Path) -> anyhow::Result<Self> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match extension.to_ascii_lowercase().as_str() {
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            _ => Err(UserError::new(format!(
                "{}: a picture must end in .svg or .png",
                path.display()
            ))
            .into()),
        }
    }
}

/// Creates a folder and what leads to it.
///
/// # Errors
/// Something that is no folder has this name, or the folder cannot be created.
pub fn create_folder(path: &Path) -> anyhow::Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(UserError::new(format!("{}: is a file, not a folder", path.display())).into());
    }
    fs::create_dir_all(path).map_err(|error| {
        UserError::new(format!("{}: cannot be created: {error}", path.display())).into()
    })
}

/// Replaces the file by these bytes; see [`experiment::files::write_atomically`].
///
/// # Errors
/// The file cannot be written.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    experiment::files::write_atomically(path, bytes).map_err(|error| {
        let reason = std::error::Error::source(&error).map(|source| format!(": {source}"));
        UserError::new(format!("{error}{}", reason.unwrap_or_default())).into()
    })
}

/// A rectangle of the page, in points.
#[derive(Debug, Clone, Copy)]
struct Frame {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Frame {
    fn width(&self) -> f64 {
        self.right - self.left
    }

    fn height(&self) -> f64 {
        self.bottom - self.top
    }
}

/// A drawing area that is addressed in points.
struct Canvas<'a, B: DrawingBackend> {
    area: &'a DrawingArea<B, Shift>,
    scale: f64,
    /// Size to ask the backend for, in em.
    size: f64,
    /// How far below the given place the backend puts the baseline, in em.
    baseline: f64,
}

impl<'a, B: DrawingBackend> Canvas<'a, B> {
    fn new(
        area: &'a DrawingArea<B, Shift>,
        scale: f64,
        size: f64,
        baseline: f64,
    ) -> anyhow::Result<Self> {
        plotters::style::register_font(FAMILY, FontStyle::Normal, FONT)
            .map_err(|_| anyhow!("the embedded font is damaged"))?;
        Ok(Self {
            area,
            scale,
            size,
            baseline,
        })
    }

    fn pixel(&self, (x, y): (f64, f64)) -> (i32, i32) {
        // an `as` cast saturates, and everything is clipped to the page before
        (
            (x * self.scale).round() as i32,
            (y * self.scale).round() as i32,
        )
    }

    fn element<'b, E>(&self, element: &'b E) -> anyhow::Result<()>
    where
        &'b E: plotters::element::PointCollection<'b, (i32, i32)>,
        E: plotters::element::Drawable<B>,
    {
        self.area.draw(element).map_err(|error| anyhow!("{error}"))
    }

    fn stroke_style(&self, stroke: &Stroke) -> ShapeStyle {
        let width = (stroke.width * self.scale).round().max(1.0) as u32;
        stroke.color.stroke_width(width)
    }

    fn rectangle(&self, frame: &Frame, color: RGBAColor) -> anyhow::Result<()> {
        let corners = [
            self.pixel((frame.left, frame.top)),
            self.pixel((frame.right, frame.bottom)),
        ];
        self.element(&Rectangle::new(corners, color.filled()))
    }

    fn polygon(&self, points: &[(f64, f64)], color: RGBAColor) -> anyhow::Result<()> {
        let points: Vec<_> = points.iter().map(|&p| self.pixel(p)).collect();
        self.element(&Polygon::new(points, color.filled()))
    }

    fn path(&self, points: &[(f64, f64)], stroke: &Stroke) -> anyhow::Result<()> {
        let style = self.stroke_style(stroke);
        let draw = |points: &[(f64, f64)]| -> anyhow::Result<()> {
            let points: Vec<_> = points.iter().map(|&p| self.pixel(p)).collect();
            self.element(&PathElement::new(points, style))
        };
        match stroke.dash {
            None => draw(points),
            Some(dash) => dashes(points, dash).iter().try_for_each(|part| draw(part)),
        }
    }

    fn dot(
        &self,
        center: (f64, f64),
        radius: f64,
        color: RGBColor,
        filled: bool,
    ) -> anyhow::Result<()> {
        let size = (radius * self.scale).round() as i32;
        let center = self.pixel(center);
        if filled {
            return self.element(&Circle::new(center, size, color.filled()));
        }
        let rim = (1.6 * self.scale).round() as i32;
        self.element(&Circle::new(center, size, color.filled()))?;
        self.element(&Circle::new(center, size - rim, WHITE.filled()))
    }

    fn style(&self, em: f64, size: f64) -> TextStyle<'static> {
        TextStyle::from((FontFamily::Name(FAMILY), em * size * self.scale)).color(&INK)
    }

    /// Width of a text, in points.
    fn text_width(&self, text: &str, em: f64) -> anyhow::Result<f64> {
        let style = self.style(em, FONT_HEIGHT);
        let (width, _) = self
            .area
            .estimate_text_size(text, &style)
            .map_err(|error| anyhow!("{error}"))?;
        Ok(f64::from(width) / self.scale)
    }

    /// Draws a text whose baseline goes through the point; `upward` turns it to read from bottom to top.
    fn text(
        &self,
        text: &str,
        at: (f64, f64),
        em: f64,
        h_pos: HPos,
        upward: bool,
    ) -> anyhow::Result<()> {
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
            .map_err(|error| anyhow!("{error}"))
    }

    /// The text, shortened with an ellipsis so that it is not wider than `limit`.
    fn fitted(&self, text: &str, em: f64, limit: f64) -> anyhow::Result<String> {
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

/// The drawn pieces of a dashed line.
fn dashes(points: &[(f64, f64)], (on, off): (f64, f64)) -> Vec<Vec<(f64, f64)>> {
    let mut pieces = Vec::new();
    let Some(&first) = points.first() else {
        return pieces;
    };
    let (mut drawing, mut left) = (true, on);
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
            left = if drawing { on } else { off };
        }
    }
    if drawing && piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

/// Maps data to the page.
struct Axes {
    frame: Frame,
    x: Range<f64>,
    y: Range<f64>,
}

impl Axes {
    fn point(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let horizontal = (x - self.x.start) / (self.x.end - self.x.start);
        let vertical = (y - self.y.start) / (self.y.end - self.y.start);
        (
            self.frame.left + horizontal * self.frame.width(),
            self.frame.bottom - vertical * self.frame.height(),
        )
    }

    fn contains(&self, (x, y): (f64, f64)) -> bool {
        self.x.start <= x && x <= self.x.end && self.y.start <= y && y <= self.y.end
    }

    /// The parts of a line inside the axes, in page coordinates.
    fn clip(&self, points: &[(f64, f64)]) -> Vec<Vec<(f64, f64)>> {
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

    /// Liang and Barsky: the part `a + t(b - a)` with `t` between the entry and the exit of each border.
    fn clip_segment(&self, a: (f64, f64), b: (f64, f64)) -> Option<((f64, f64), (f64, f64))> {
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

impl Panel {
    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>, frame: &Frame) -> anyhow::Result<()> {
        let y_ticks = ticks(&self.y_range, 5);
        let mut tick_width = 0.0_f64;
        for (_, text) in &y_ticks {
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
    ) -> anyhow::Result<()> {
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

    /// Draws the legend from `inner.top` downward, centered, in as many rows as it needs; returns where it ends.
    fn draw_legend<B: DrawingBackend>(
        &self,
        canvas: &Canvas<'_, B>,
        inner: &Frame,
    ) -> anyhow::Result<f64> {
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
    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>, axes: &Axes) -> anyhow::Result<()> {
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
    ) -> anyhow::Result<()> {
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

/// What to subtract from tick values that differ only far behind their first digit: a round number near the
/// range, or 0 where the values can be told apart.
fn tick_base(range: &Range<f64>) -> f64 {
    let span = range.end - range.start;
    let middle = 0.5 * range.start + 0.5 * range.end;
    if span <= 0.0 || span > 1e-4 * middle.abs() {
        return 0.0;
    }
    let unit = 10_f64.powf(span.log10().ceil());
    (middle / unit).round() * unit
}

/// Round values in a range, about `wanted` of them, with their texts.
fn ticks(range: &Range<f64>, wanted: usize) -> Vec<(f64, String)> {
    let span = range.end - range.start;
    if !(span > 0.0 && span.is_finite()) {
        return vec![];
    }
    let rough = span / wanted.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| span / step <= 1.35 * wanted as f64)
        .unwrap_or(10.0 * power);
    let slack = 1e-9 * span;
    let (first, last) = (
        ((range.start - slack) / step).ceil(),
        ((range.end + slack) / step).floor(),
    );
    let largest = range.start.abs().max(range.end.abs());
    let count = (last - first).max(-1.0) as usize + 1;
    (0..count)
        .map(|i| {
            let value = (first + i as f64) * step;
            (value, tick_text(value, step, largest))
        })
        .collect()
}

/// A tick value with the decimals its step needs; powers of ten outside the usual range.
fn tick_text(value: f64, step: f64, largest: f64) -> String {
    if !(1e-4..1e6).contains(&largest) {
        if value == 0.0 {
            return "0".to_owned();
        }
        let decimals = (value.abs().log10().floor() - step.log10().floor()).clamp(0.0, 8.0);
        return format!("{value:.*e}", decimals as usize).replace('-', "−");
    }
    // 2.5 · 10^k needs one more decimal than its power of ten
    let power = step.log10().floor();
    let is_half = (step / 10_f64.powf(power) - 2.5).abs() < 1e-9;
    let decimals = (-power + f64::from(u8::from(is_half))).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text
        .trim_start_matches('-')
        .chars()
        .all(|c| matches!(c, '0' | '.'))
    {
        return text.trim_start_matches('-').to_owned();
    }
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Figure {
        let curve = |shift: f64| -> Vec<(f64, f64)> {
            (0..=200)
                .map(|i| f64::from(i) * 0.04 - 4.0)
                .map(|x| (x, (-0.5 * (x - shift).powi(2)).exp()))
                .collect()
        };
        let mut panel = Panel::new("Two curves", -4.0..4.0, 0.0..1.05).labels("θ", "possibility");
        let band = curve(0.0).into_iter().map(|(x, y)| (x, 0.0, y)).collect();
        panel.band(band, palette::SKY, 0.3).labeled("below");
        panel
            .line(curve(0.0), Stroke::solid(palette::BLUE))
            .labeled("λ = 0");
        panel
            .line(curve(1.0), Stroke::dashed(palette::VERMILION))
            .labeled("λ < 1");
        panel.dots(vec![(0.0, 1.0)], palette::INK);
        Figure::grid(2, vec![panel.clone(), panel.clone(), panel]).title("A & B")
    }

    #[test]
    fn svg_keeps_its_text_and_escapes_it() {
        let svg = example().to_svg().unwrap();
        assert!(
            svg.starts_with("<svg width=\"960\" height=\"724\" viewBox=\"0 0 9600 7240\""),
            "{}",
            &svg[..99]
        );
        assert!(
            svg.contains("possibility") && svg.contains("A &amp; B") && svg.contains("λ &lt; 1")
        );
        assert!(svg.contains("font-family=\"DejaVu Sans, Verdana, sans-serif\""));
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn png_has_two_pixels_per_point_and_more_than_two_colors() {
        let bytes = example().to_png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (1920, 1448));
        let colors: std::collections::HashSet<&[u8]> = pixels.chunks(3).collect();
        assert!(colors.len() > 50, "{} colors", colors.len());
        assert_eq!(&pixels[..3], [255, 255, 255]);
    }

    #[test]
    fn ticks_are_round() {
        let texts = |range: Range<f64>, wanted| -> Vec<String> {
            ticks(&range, wanted)
                .into_iter()
                .map(|(_, text)| text)
                .collect()
        };
        assert_eq!(
            texts(0.0..1.0, 5),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        assert_eq!(texts(-1.0..1.0, 4), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(texts(0.0..1.0, 3), ["0.00", "0.25", "0.50", "0.75", "1.00"]);
        assert_eq!(texts(3.0..47.0, 4), ["10", "20", "30", "40"]);
        assert_eq!(texts(0.0..2e7, 2), ["0", "1e7", "2e7"]);
        assert_eq!(texts(1.0..1.0, 4), [""; 0]);
        assert_eq!(tick_base(&(-1.0..5.0)), 0.0);
        assert_eq!(tick_base(&(123_456_787.0..123_456_793.0)), 123_456_790.0);
        assert_eq!(tick_base(&(-123_456_793.0..-123_456_787.0)), -123_456_790.0);
    }

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
        let pieces = dashes(&[(0.0, 0.0), (4.0, 0.0), (10.0, 0.0)], (3.0, 2.0));
        assert_eq!(
            pieces,
            [vec![(0.0, 0.0), (3.0, 0.0)], vec![(5.0, 0.0), (8.0, 0.0)]]
        );
    }

    #[test]
    fn averaging_halves_an_image() {
        let fine = [0, 0, 0, 100, 100, 100, 200, 0, 0, 100, 0, 0];
        assert_eq!(average(&fine, 2, 2), [100, 25, 25]);
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svg");
        example().save(&path).unwrap();
        assert!(fs::read_to_string(&path).unwrap().ends_with("</svg>\n"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(example().save(&folder.path().join("none/a.svg")).is_err());
        assert!(example().save(&folder.path().join("a.pdf")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
