//! A page of a PDF document: lines, areas, and text in the embedded font, which stays text.
//!
//! Nine objects and a table of their places (ISO 32000-1, sections 7.5, 8.5 and 9.7). The first
//! matrix of the page turns the grid of the drawing, whose y runs downward, into the document's
//! units of 1/72 inch.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::Write as _;

use ab_glyph::{Font, FontRef};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use plotters_backend::text_anchor::HPos;
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontTransform,
};

use crate::canvas::FONT;
use crate::error::{Error, Result, drawn};

/// Units of the document in a point of the page, which is 1/96 inch.
const UNITS: f64 = 0.75;
/// Name of the font, with the tag that marks a part of a font.
const NAME: &str = "MAXITI+DejaVuSans";
/// Box around all glyphs of the embedded font, and height of its capitals, in 1/1000 em.
const BOX: &str = "[-1021 -463 1793 1232]";
const CAPITALS: u32 = 729;

/// A page that is drawn on through a [`Pen`].
pub(crate) struct PdfPage {
    size: (u32, u32),
    grid: u32,
    font: FontRef<'static>,
    content: String,
    /// Opacities that were used, in thousandths.
    opacities: BTreeSet<u32>,
    opacity: u32,
    /// Glyphs that were used, and their characters.
    glyphs: BTreeMap<u16, char>,
}

impl PdfPage {
    /// An empty page of this size in points, drawn on with `grid` units a point.
    ///
    /// # Errors
    /// The embedded font is damaged.
    pub(crate) fn new(size: (u32, u32), grid: u32) -> Result<Self> {
        let font = FontRef::try_from_slice(FONT).map_err(|_| Error::Font)?;
        let scale = UNITS / f64::from(grid);
        let height = UNITS * f64::from(size.1);
        Ok(Self {
            size,
            grid,
            font,
            // lines meet in round corners
            content: format!("{scale} 0 0 -{scale} 0 {height} cm\n1 j\n"),
            opacities: BTreeSet::new(),
            opacity: 1000,
            glyphs: BTreeMap::new(),
        })
    }

    /// The pen that draws on the page.
    pub(crate) fn pen(&mut self) -> Pen<'_> {
        Pen(self)
    }

    /// Thousandths of an em.
    fn thousandths(&self, units: f32) -> f64 {
        let em = self.font.units_per_em().unwrap_or(1000.0);
        (1000.0 * f64::from(units) / f64::from(em)).round()
    }

    /// The document.
    ///
    /// # Errors
    /// Compressing fails, which it does not in memory.
    pub(crate) fn finish(self) -> Result<Vec<u8>> {
        let (width, height) = self.size;
        let (width, height) = (UNITS * f64::from(width), UNITS * f64::from(height));
        let states = self.opacities.iter().map(|&opacity| {
            let share = f64::from(opacity) / 1000.0;
            format!("/O{opacity} << /ca {share} /CA {share} >> ")
        });
        let states: String = states.collect();
        let widths = self.glyphs.keys().map(|&glyph| {
            let advance = self.font.h_advance_unscaled(ab_glyph::GlyphId(glyph));
            format!("{glyph} [{}] ", self.thousandths(advance))
        });
        let widths: String = widths.collect();
        let (ascent, descent) = (self.font.ascent_unscaled(), self.font.descent_unscaled());
        let objects = [
            plain("<< /Type /Catalog /Pages 2 0 R >>"),
            plain("<< /Type /Pages /Kids [3 0 R] /Count 1 >>"),
            plain(&format!(
                "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] /Contents 4 0 R \
                 /Resources << /Font << /F 5 0 R >> /ExtGState << {states}>> >> >>"
            )),
            stream("", self.content.as_bytes())?,
            plain(&format!(
                "<< /Type /Font /Subtype /Type0 /BaseFont /{NAME} /Encoding /Identity-H \
                 /DescendantFonts [6 0 R] /ToUnicode 9 0 R >>"
            )),
            plain(&format!(
                "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /{NAME} /CIDSystemInfo \
                 << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> \
                 /FontDescriptor 7 0 R /CIDToGIDMap /Identity /W [{widths}] >>"
            )),
            plain(&format!(
                "<< /Type /FontDescriptor /FontName /{NAME} /Flags 4 /FontBBox {BOX} \
                 /ItalicAngle 0 /Ascent {} /Descent {} /CapHeight {CAPITALS} /StemV 80 \
                 /FontFile2 8 0 R >>",
                self.thousandths(ascent),
                self.thousandths(descent)
            )),
            stream(&format!("/Length1 {} ", FONT.len()), FONT)?,
            stream("", characters(&self.glyphs).as_bytes())?,
        ];
        Ok(assemble(&objects))
    }
}

/// Which characters the glyphs stand for, so that text can be searched and copied.
fn characters(glyphs: &BTreeMap<u16, char>) -> String {
    let mut text = String::from(
        "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n\
         /CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def\n\
         /CMapName /Adobe-Identity-UCS def\n/CMapType 2 def\n\
         1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n",
    );
    let pairs: Vec<(&u16, &char)> = glyphs.iter().collect();
    // at most a hundred in a section
    for section in pairs.chunks(100) {
        let _ = writeln!(text, "{} beginbfchar", section.len());
        for (glyph, character) in section {
            let mut units = [0; 2];
            let units = character.encode_utf16(&mut units).iter();
            let units: String = units.map(|unit| format!("{unit:04X}")).collect();
            let _ = writeln!(text, "<{glyph:04X}> <{units}>");
        }
        text.push_str("endbfchar\n");
    }
    text.push_str("endcmap\nCMapName currentdict /CMap defineresource pop\nend\nend\n");
    text
}

fn plain(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

/// A compressed stream with further entries in its dictionary.
fn stream(entries: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).map_err(drawn)?;
    let packed = encoder.finish().map_err(drawn)?;
    let mut object = format!(
        "<< {entries}/Length {} /Filter /FlateDecode >>\nstream\n",
        packed.len()
    )
    .into_bytes();
    object.extend(packed);
    object.extend(b"\nendstream");
    Ok(object)
}

/// A file of these objects, the first of which is its catalog.
fn assemble(objects: &[Vec<u8>]) -> Vec<u8> {
    // four bytes beyond ASCII tell programs that the file is binary
    let mut file = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
    let mut places = Vec::new();
    for (i, object) in objects.iter().enumerate() {
        places.push(file.len());
        file.extend(format!("{} 0 obj\n", i + 1).bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let table = file.len();
    let count = objects.len() + 1;
    let mut tail = format!("xref\n0 {count}\n0000000000 65535 f \n");
    for place in places {
        let _ = writeln!(tail, "{place:010} 00000 n ");
    }
    let _ = write!(
        tail,
        "trailer\n<< /Size {count} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n"
    );
    file.extend(tail.bytes());
    file
}

/// Draws on a [`PdfPage`].
pub(crate) struct Pen<'a>(&'a mut PdfPage);

type Drawn = std::result::Result<(), DrawingErrorKind<Infallible>>;

impl Pen<'_> {
    fn write(&mut self, text: &str) {
        self.0.content.push_str(text);
        self.0.content.push('\n');
    }

    /// Sets color and opacity; whether anything is to be seen.
    fn color(&mut self, color: BackendColor, operator: &str) -> bool {
        let opacity = (1000.0 * color.alpha.clamp(0.0, 1.0)).round() as u32;
        if opacity == 0 {
            return false;
        }
        if opacity != self.0.opacity {
            self.0.opacity = opacity;
            self.0.opacities.insert(opacity);
            self.write(&format!("/O{opacity} gs"));
        }
        let share = |part: u8| f64::from(part) / 255.0;
        let (red, green, blue) = color.rgb;
        let [red, green, blue] = [red, green, blue].map(share);
        self.write(&format!("{red:.3} {green:.3} {blue:.3} {operator}"));
        true
    }

    /// Fills the path, or draws along it.
    fn paint<S: BackendStyle>(&mut self, path: &str, style: &S, fill: bool) {
        let operator = if fill { "rg" } else { "RG" };
        if !self.color(style.color(), operator) {
            return;
        }
        if fill {
            self.write(&format!("{path} f"));
        } else {
            self.write(&format!("{} w {path} S", style.stroke_width()));
        }
    }
}

fn path(points: impl IntoIterator<Item = BackendCoord>) -> String {
    let points = points.into_iter().enumerate();
    let points = points.map(|(i, (x, y))| {
        let operator = if i == 0 { "m" } else { "l" };
        format!("{x} {y} {operator}")
    });
    points.collect::<Vec<_>>().join(" ")
}

/// Four curves that are a circle to 0.03 % of its radius.
fn circle((x, y): BackendCoord, radius: u32) -> String {
    const HANDLE: f64 = 0.552_284_75;
    let (x, y, r) = (f64::from(x), f64::from(y), f64::from(radius));
    let quarters = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0), (1.0, 0.0)];
    let mut text = format!("{} {y} m", x + r);
    for pair in quarters.windows(2) {
        let ((ax, ay), (bx, by)) = (pair[0], pair[1]);
        let _ = write!(
            text,
            " {:.2} {:.2} {:.2} {:.2} {:.2} {:.2} c",
            x + r * (ax + HANDLE * bx),
            y + r * (ay + HANDLE * by),
            x + r * (bx + HANDLE * ax),
            y + r * (by + HANDLE * ay),
            x + r * bx,
            y + r * by
        );
    }
    text
}

impl DrawingBackend for Pen<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        let (width, height) = self.0.size;
        (width * self.0.grid, height * self.0.grid)
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Drawn {
        self.paint(&format!("{x} {y} 1 1 re"), &color, true);
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.paint(&path([from, to]), style, false);
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let (width, height) = (to.0 - from.0, to.1 - from.1);
        let rectangle = format!("{} {} {width} {height} re", from.0, from.1);
        self.paint(&rectangle, style, fill);
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Drawn {
        self.paint(&path(points), style, false);
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Drawn {
        self.paint(&circle(center, radius), style, fill);
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        points: I,
        style: &S,
    ) -> Drawn {
        self.paint(&path(points), style, true);
        Ok(())
    }

    /// The baseline goes through the point.
    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Drawn {
        if text.is_empty() || !self.color(style.color(), "rg") {
            return Ok(());
        }
        let (mut hex, mut width) = (String::new(), 0.0);
        for character in text.chars() {
            let glyph = self.0.font.glyph_id(character);
            self.0.glyphs.entry(glyph.0).or_insert(character);
            let _ = write!(hex, "{:04X}", glyph.0);
            width += self.0.thousandths(self.0.font.h_advance_unscaled(glyph));
        }
        let size = style.size();
        let back = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => width * size / 2000.0,
            HPos::Right => width * size / 1000.0,
        };
        // where the text runs to and where its upper side is; y of the page runs downward
        let ((ax, ay), (ux, uy)) = match style.transform() {
            FontTransform::None => ((1.0, 0.0), (0.0, -1.0)),
            FontTransform::Rotate90 => ((0.0, 1.0), (1.0, 0.0)),
            FontTransform::Rotate180 => ((-1.0, 0.0), (0.0, 1.0)),
            FontTransform::Rotate270 => ((0.0, -1.0), (-1.0, 0.0)),
        };
        let (x, y) = (f64::from(x) - back * ax, f64::from(y) - back * ay);
        self.write(&format!(
            "BT /F {size:.2} Tf {ax} {ay} {ux} {uy} {x:.1} {y:.1} Tm <{hex}> Tj ET"
        ));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::ZlibDecoder;

    use super::*;
    use crate::{Figure, Panel, Stroke, palette};

    fn figure() -> Figure {
        let mut panel = Panel::new("ϑ → 0 & (more)", 0.0..1.0, 0.0..1.0).labels("epoch", "loss");
        let band = vec![(0.0, 0.1, 0.3), (1.0, 0.2, 0.4)];
        panel.band(band, palette::SKY, 0.25);
        let line = vec![(0.0, 0.2), (1.0, 0.3)];
        panel
            .line(line, Stroke::dashed(palette::BLUE))
            .labeled("β₃");
        panel.dots(vec![(0.5, 0.5)], palette::VERMILION);
        Figure::single(panel).panel_size(200, 100)
    }

    fn find(bytes: &[u8], text: &str) -> usize {
        let mut windows = bytes.windows(text.len());
        windows.position(|part| part == text.as_bytes()).unwrap()
    }

    /// What a stream holds.
    fn unpacked(file: &[u8], object: &str) -> Vec<u8> {
        let object = &file[find(file, object)..];
        let from = find(object, "stream\n") + 7;
        let to = find(object, "\nendstream");
        let mut bytes = Vec::new();
        let mut decoder = ZlibDecoder::new(&object[from..to]);
        decoder.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn every_object_is_where_the_table_says() {
        let file = figure().to_pdf().unwrap();
        assert!(file.starts_with(b"%PDF-1.7\n") && file.ends_with(b"%%EOF\n"));
        let table = find(&file, "xref\n0 10\n");
        let tail = String::from_utf8(file[table..].to_vec()).unwrap();
        assert!(tail.contains(&format!("startxref\n{table}\n")));
        let entries = tail.lines().skip(3).take(9);
        for (i, entry) in entries.enumerate() {
            assert_eq!(entry.len() + 1, 20, "{entry}");
            let place: usize = entry[..10].parse().unwrap();
            let head = format!("{} 0 obj\n", i + 1);
            assert_eq!(&file[place..place + head.len()], head.as_bytes());
        }
        // 200 by 100 points of 1/96 inch
        find(&file, "/MediaBox [0 0 150 75]");
        assert_eq!(unpacked(&file, "8 0 obj"), FONT);
        assert_eq!(file, figure().to_pdf().unwrap());
    }

    #[test]
    fn text_stays_text() {
        let file = figure().to_pdf().unwrap();
        let table = String::from_utf8(unpacked(&file, "9 0 obj")).unwrap();
        // one section, after the range of all codes
        let section = table.split("beginbfchar").nth(1).unwrap();
        let pairs = section.lines().filter_map(|line| {
            let (glyph, character) = line.strip_prefix('<')?.split_once("> <")?;
            let code = u32::from_str_radix(character.strip_suffix('>')?, 16).ok()?;
            Some((glyph.to_owned(), char::from_u32(code)?))
        });
        let pairs: BTreeMap<String, char> = pairs.collect();
        let content = String::from_utf8(unpacked(&file, "4 0 obj")).unwrap();
        let texts = content.lines().filter_map(|line| {
            let hex = line.strip_suffix("> Tj ET")?.rsplit_once('<')?.1;
            let glyphs = hex.as_bytes().chunks(4);
            let glyphs = glyphs.map(|glyph| std::str::from_utf8(glyph).unwrap());
            Some(glyphs.map(|glyph| pairs[glyph]).collect::<String>())
        });
        let texts: Vec<String> = texts.collect();
        for expected in ["ϑ → 0 & (more)", "epoch", "loss", "β₃", "0.5"] {
            assert!(texts.iter().any(|text| text == expected), "{texts:?}");
        }
        // every glyph is in the font, and the vertical label runs upward
        assert!(!pairs.contains_key("0000"));
        assert!(content.contains(" Tf 0 -1 -1 0 "), "{content}");
    }

    #[test]
    fn colors_and_opacities_are_set() {
        let file = figure().to_pdf().unwrap();
        find(&file, "/ExtGState << /O250 << /ca 0.25 /CA 0.25 >> /O1000 ");
        let content = String::from_utf8(unpacked(&file, "4 0 obj")).unwrap();
        let band = content.find("/O250 gs\n0.337 0.706 0.914 rg").unwrap();
        assert!(content[band..].contains("/O1000 gs"));
        assert!(content.contains("0.000 0.447 0.698 RG\n20 w "));
        assert!(!content.contains("NaN"));
    }

    #[test]
    fn a_circle_is_round() {
        let text = circle((0, 0), 1000);
        let numbers: Vec<f64> = text
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        let (start, curves) = numbers.split_at(2);
        let mut from = (start[0], start[1]);
        for curve in curves.chunks(6) {
            let [a, b, to] = [0, 2, 4].map(|i| (curve[i], curve[i + 1]));
            let middle =
                |k: fn((f64, f64)) -> f64| (k(from) + 3.0 * k(a) + 3.0 * k(b) + k(to)) / 8.0;
            let radius = middle(|p| p.0).hypot(middle(|p| p.1));
            assert!((radius - 1000.0).abs() < 0.3, "{radius}");
            from = to;
        }
        assert_eq!(from, (1000.0, 0.0));
    }
}
