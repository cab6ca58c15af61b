//! A page of panels, and its two file formats.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::Panel;
use super::canvas::{Canvas, FONT_HEIGHT, Frame};
use crate::error::{Error, Result, drawn};
use crate::pdf::PdfPage;
use crate::text::printable;

const HEADING: f64 = 18.0;
const CAPTION: f64 = 13.0;
const CAPTION_ROW: u32 = 18;

/// A page of panels.
#[derive(Debug, Clone)]
pub struct Figure {
    title: Option<String>,
    captions: Vec<String>,
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
            captions: Vec::new(),
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

    /// Puts smaller lines below the heading.
    pub fn captions(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        let lines = lines.into_iter();
        self.captions
            .extend(lines.map(|line| printable(&line).into_owned()));
        self
    }

    /// Sets the size of a panel, in points.
    pub fn panel_size(mut self, width: u32, height: u32) -> Self {
        self.panel_size = (width, height);
        self
    }

    fn heading_height(&self) -> u32 {
        let title = if self.title.is_some() { 44 } else { 0 };
        title + CAPTION_ROW * self.captions.len() as u32
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
    pub fn to_svg(&self) -> Result<String> {
        const GRID: u32 = 10;
        let (width, height) = self.size();
        let fine = (width * GRID, height * GRID);
        let mut text = String::new();
        {
            let root = SVGBackend::with_string(&mut text, fine).into_drawing_area();
            // the SVG backend moves the baseline by 0.76 em and takes 1 em for 1.24 units of size
            let canvas = Canvas::new(&root, f64::from(GRID), 1.24, 0.76)?;
            self.draw(&canvas)?;
            root.present().map_err(drawn)?;
        }
        let fine = format!("width=\"{}\" height=\"{}\"", fine.0, fine.1);
        Ok(text.replacen(&fine, &format!("width=\"{width}\" height=\"{height}\""), 1))
    }

    /// The figure as a PNG image with two pixels per point.
    ///
    /// # Errors
    /// The drawing backend or the encoder fails.
    pub fn to_png(&self) -> Result<Vec<u8>> {
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
            root.present().map_err(drawn)?;
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

    /// The figure as a PDF document of one page; its text stays text, in the embedded font.
    ///
    /// # Errors
    /// The drawing backend fails.
    pub fn to_pdf(&self) -> Result<Vec<u8>> {
        const GRID: u32 = 10;
        let mut page = PdfPage::new(self.size(), GRID)?;
        {
            let root = page.pen().into_drawing_area();
            let canvas = Canvas::new(&root, f64::from(GRID), 1.0, 0.0)?;
            self.draw(&canvas)?;
            root.present().map_err(drawn)?;
        }
        page.finish()
    }

    /// The figure in the format that the extension of the path names.
    ///
    /// # Errors
    /// The extension is none of `svg`, `pdf` and `png`, or the figure cannot be drawn.
    pub fn bytes(&self, path: &Path) -> Result<Vec<u8>> {
        match Format::of(path)? {
            Format::Svg => Ok(self.to_svg()?.into_bytes()),
            Format::Pdf => self.to_pdf(),
            Format::Png => self.to_png(),
        }
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<'_, B>) -> Result<()> {
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
        let mut bottom = f64::from(self.heading_height()) - 4.0;
        for line in self.captions.iter().rev() {
            let line = canvas.fitted(line, CAPTION, f64::from(width) - 20.0)?;
            let at = (f64::from(width) / 2.0, bottom);
            canvas.text(&line, at, CAPTION, HPos::Center, false)?;
            bottom -= f64::from(CAPTION_ROW);
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
    /// Portable document format.
    Pdf,
    /// Portable network graphics.
    Png,
}

impl Format {
    /// What is said of a path with another extension.
    pub const EXPECTED: &'static str = "a picture must end in .svg, .pdf or .png";

    /// The format for a path.
    ///
    /// # Errors
    /// The extension is none of `svg`, `pdf` and `png`.
    pub fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match extension.to_ascii_lowercase().as_str() {
            "svg" => Ok(Self::Svg),
            "pdf" => Ok(Self::Pdf),
            "png" => Ok(Self::Png),
            _ => Err(Error::Format {
                path: path.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Stroke, palette};

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
    fn averaging_halves_an_image() {
        let fine = [0, 0, 0, 100, 100, 100, 200, 0, 0, 100, 0, 0];
        assert_eq!(average(&fine, 2, 2), [100, 25, 25]);
    }

    #[test]
    fn the_ending_of_a_path_is_the_format() {
        let bytes = example().bytes(Path::new("a.SVG")).unwrap();
        assert!(bytes.starts_with(b"<svg") && bytes.ends_with(b"</svg>\n"));
        let error = example().bytes(Path::new("a.gif")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.gif: a picture must end in .svg, .pdf or .png"
        );
    }
}
