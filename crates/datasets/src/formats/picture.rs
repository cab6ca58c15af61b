//! Pictures: files of five kinds and JPEG to bytes, and the resampling of the Python Imaging
//! Library.
//!
//! A picture of any kind becomes 8 bits a channel, gray or color; transparency is dropped, as
//! `convert("RGB")` does, and of a file with several images the first one counts. A JPEG decoder
//! has some freedom in rounding. Against libjpeg-turbo 3.2, on the 10,000 validation images of Tiny
//! ImageNet, the one used here (zune-jpeg) differs by 0.27 gray levels on average and 5 at most;
//! after resizing to 32x32, by 0.25 and 3.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use super::decoders;
use super::guard::{self, guarded};
use crate::error::{Error, Malformed, Result};
use crate::image_set::Shape;

/// Longest side that is decoded; a header that promises more is refused before memory is taken.
pub const LONGEST_SIDE: usize = 4096;
/// Longest file that is read: the largest picture, and as much again.
const LONGEST_FILE: u64 = 2 * decoders::MOST as u64;
/// The files that can be decoded, in words.
pub const KINDS: &str = "PNG, JPEG, BMP, GIF, TIFF or WebP";
const ENDINGS: [&str; 8] = ["png", "jpg", "jpeg", "bmp", "gif", "tif", "tiff", "webp"];

/// One decoded picture, `[height, width, channels]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    shape: Shape,
    pixels: Vec<u8>,
}

impl Picture {
    /// A picture of these pixels, channels of a pixel side by side.
    ///
    /// # Panics
    /// If the number of pixels does not fit, or there are neither 1 nor 3 channels.
    pub fn new(shape: Shape, pixels: Vec<u8>) -> Self {
        assert!([1, 3].contains(&shape.channels), "gray or color");
        assert_eq!(pixels.len(), shape.len(), "pixels of a picture");
        Self { shape, pixels }
    }

    /// A picture of these pixels, plane by plane.
    ///
    /// # Panics
    /// As [`Picture::new`].
    pub fn from_planes(shape: Shape, planes: &[u8]) -> Self {
        let size = shape.plane();
        let pixels = (0..size).flat_map(|at| planes.iter().skip(at).step_by(size));
        Self::new(shape, pixels.copied().collect())
    }

    /// Decodes a picture, its kind told by its first bytes.
    ///
    /// # Errors
    /// The bytes are none of the [`KINDS`], are damaged, or a side is longer than
    /// [`LONGEST_SIDE`].
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, Malformed> {
        guarded(|| Self::decode_unguarded(bytes))
            .unwrap_or_else(|| Err(Malformed::new("picture", 0, guard::PROBLEM)))
    }

    fn decode_unguarded(bytes: &[u8]) -> std::result::Result<Self, Malformed> {
        if bytes.starts_with(&[0xff, 0xd8]) {
            decoders::jpeg(bytes)
        } else if bytes.starts_with(b"\x89PNG") {
            decoders::png(bytes)
        } else if bytes.starts_with(b"BM") {
            decoders::bmp(bytes)
        } else if bytes.starts_with(b"GIF8") {
            decoders::gif(bytes)
        } else if bytes.starts_with(b"II*\0") || bytes.starts_with(b"MM\0*") {
            decoders::tiff(bytes)
        } else if bytes.starts_with(b"RIFF") {
            decoders::webp(bytes)
        } else {
            let head = bytes[..bytes.len().min(4)].escape_ascii();
            let problem = format!("\"{head}\", expected a {KINDS} file");
            Err(Malformed::new("picture", 0, problem))
        }
    }

    /// Reads and decodes a file.
    ///
    /// # Errors
    /// It cannot be read, is no plain file (a pipe, a device, a folder) or too long, or as
    /// [`Picture::decode`].
    pub fn open(path: &Path) -> Result<Self> {
        let about = std::fs::metadata(path).map_err(Error::io("read", path))?;
        let refuse = |problem: &str| Error::malformed(path)(Malformed::new("picture", 0, problem));
        if !about.is_file() {
            return Err(refuse("is no plain file"));
        }
        let file = File::open(path).map_err(Error::io("read", path))?;
        Self::read(file)
            .map_err(Error::io("read", path))?
            .map_err(Error::malformed(path))
    }

    /// Reads a source to its end and decodes it.
    ///
    /// # Errors
    /// Outside: it cannot be read. Inside: it is too long, or as [`Picture::decode`].
    pub fn read(source: impl Read) -> std::io::Result<std::result::Result<Self, Malformed>> {
        let mut bytes = Vec::new();
        source.take(LONGEST_FILE + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LONGEST_FILE {
            let problem = format!("is longer than {} MB", LONGEST_FILE / 1_000_000);
            return Ok(Err(Malformed::new("picture", 0, problem)));
        }
        Ok(Self::decode(&bytes))
    }

    /// Size.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The bytes, channels of a pixel side by side.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// The picture as a `data:` address of a PNG file, scaled down until no side is longer than
    /// `longest`.
    ///
    /// # Panics
    /// If `longest` is 0.
    pub fn data_address(&self, longest: usize) -> String {
        assert!(longest > 0, "a picture has pixels");
        let Shape { height, width, .. } = self.shape;
        let long = height.max(width);
        let small = if long > longest {
            let scaled = |side: usize| (side * longest / long).max(1);
            self.resized(scaled(height), scaled(width))
        } else {
            self.clone()
        };
        format!("data:image/png;base64,{}", base64(&small.to_png()))
    }

    /// The picture as a PNG file.
    fn to_png(&self) -> Vec<u8> {
        const MEMORY: &str = "writing to memory does not fail";
        let Shape { height, width, .. } = self.shape;
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width as u32, height as u32);
        encoder.set_color(match self.shape.channels {
            1 => png::ColorType::Grayscale,
            _ => png::ColorType::Rgb,
        });
        encoder.set_compression(png::Compression::High);
        let mut writer = encoder.write_header().expect(MEMORY);
        writer.write_image_data(&self.pixels).expect(MEMORY);
        writer.finish().expect(MEMORY);
        bytes
    }

    /// Whether a file has the ending of a picture that can be decoded.
    pub fn has_ending(path: &Path) -> bool {
        let end = path.extension().map(|end| end.to_ascii_lowercase());
        end.is_some_and(|end| ENDINGS.iter().any(|known| end == *known))
    }

    /// The bytes plane by plane, `[channels, height, width]`: a gray picture is repeated where
    /// color is asked for, a colored one becomes gray by its luma, as `convert("L")` does.
    ///
    /// # Panics
    /// If neither 1 nor 3 channels are asked for.
    pub fn planes(&self, channels: usize) -> Vec<u8> {
        assert!([1, 3].contains(&channels), "gray or color");
        let own = self.shape.channels;
        if (own, channels) == (3, 1) {
            let luma = |p: &[u8]| {
                let [r, g, b] = [p[0], p[1], p[2]].map(u32::from);
                ((19_595 * r + 38_470 * g + 7_471 * b + 32_768) >> 16) as u8
            };
            return self.pixels.chunks_exact(3).map(luma).collect();
        }
        let plane = |channel: usize| self.pixels.iter().skip(channel % own).step_by(own);
        (0..channels).flat_map(plane).copied().collect()
    }

    /// Scaled so that it just covers `height` times `width`, then cropped to its middle: for a
    /// square torchvision's `Resize(side)` and `CenterCrop(side)` on a picture of the Python
    /// Imaging Library, bilinear, antialiased.
    ///
    /// # Panics
    /// If a side is 0.
    pub fn resized_to(&self, height: usize, width: usize) -> Self {
        assert!(height > 0 && width > 0, "a picture has pixels");
        let own = self.shape;
        if (own.height, own.width) == (height, width) {
            return self.clone();
        }
        let (tall, wide) = if height * own.width >= width * own.height {
            (height, height * own.width / own.height)
        } else {
            (width * own.height / own.width, width)
        };
        // half of an odd margin is rounded to the even number, as Python rounds
        let start = |margin: usize| margin / 4 * 2 + [0, 0, 1, 2][margin % 4];
        let (top, left) = (start(tall - height), start(wide - width));
        self.resized_part((tall, top..top + height), (wide, left..left + width))
    }

    /// Resized by the bilinear filter, widened when shrinking so that every pixel counts.
    fn resized(&self, height: usize, width: usize) -> Self {
        self.resized_part((height, 0..height), (width, 0..width))
    }

    /// The same, and of its rows and columns only these: a picture of one row that is to become a
    /// square would be thousands of squares long.
    fn resized_part(&self, rows: (usize, Range<usize>), columns: (usize, Range<usize>)) -> Self {
        let wide = self.resample_columns(columns);
        let height = self.shape.height;
        if rows == (height, 0..height) {
            return wide;
        }
        wide.turned().resample_columns(rows).turned()
    }

    /// Rows and columns exchanged.
    fn turned(&self) -> Self {
        let Shape {
            channels,
            height,
            width,
        } = self.shape;
        let mut pixels = Vec::with_capacity(self.pixels.len());
        for column in 0..width {
            for row in 0..height {
                let at = (row * width + column) * channels;
                pixels.extend_from_slice(&self.pixels[at..at + channels]);
            }
        }
        Self::new(Shape::new(channels, width, height), pixels)
    }

    /// Every row resized to a width, in fixed-point numbers with 22 bits after the point, rounded
    /// to bytes; of that, these columns.
    fn resample_columns(&self, (width, columns): (usize, Range<usize>)) -> Self {
        const BITS: i32 = 22;
        let Shape {
            channels,
            height,
            width: own,
        } = self.shape;
        let shape = Shape::new(channels, height, columns.len());
        let mut pixels = Vec::with_capacity(shape.len());
        if width == own {
            for row in self.pixels.chunks_exact(own * channels) {
                pixels.extend_from_slice(&row[columns.start * channels..columns.end * channels]);
            }
            return Self::new(shape, pixels);
        }
        let weights = weights((own, width), columns);
        for row in self.pixels.chunks_exact(self.shape.width * channels) {
            for (start, weights) in &weights {
                for channel in 0..channels {
                    let values = row[start * channels + channel..].iter().step_by(channels);
                    let sum: i32 = values
                        .zip(weights)
                        .map(|(&pixel, &weight)| i32::from(pixel) * weight)
                        .sum();
                    let rounded = (sum + (1 << (BITS - 1))) >> BITS;
                    pixels.push(rounded.clamp(0, 255) as u8);
                }
            }
        }
        Self::new(shape, pixels)
    }
}

/// For each of these output pixels, the first input pixel that counts and the weights from there
/// on, times 2²².
fn weights((input, output): (usize, usize), pixels: Range<usize>) -> Vec<(usize, Vec<i32>)> {
    let scale = input as f64 / output as f64;
    let reach = scale.max(1.0);
    pixels
        .map(|pixel| {
            let center = (pixel as f64 + 0.5) * scale;
            let start = (center - reach + 0.5).max(0.0) as usize;
            let end = ((center + reach + 0.5) as usize).min(input);
            let raw: Vec<f64> = (start..end)
                .map(|place| (1.0 - ((place as f64 - center + 0.5) / reach).abs()).max(0.0))
                .collect();
            let total: f64 = raw.iter().sum();
            let fixed = |weight: f64| (weight / total * f64::from(1 << 22) + 0.5) as i32;
            (start, raw.into_iter().map(fixed).collect())
        })
        .collect()
}

/// The letters of RFC 4648 for these bytes, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for letter in 0..4 {
            if letter > three.len() {
                text.push('=');
            } else {
                text.push(LETTERS[(bits >> (18 - 6 * letter)) as usize & 63] as char);
            }
        }
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn color_becomes_gray_by_its_luma_and_gray_is_repeated() {
        // red, green, blue, white: 0.299, 0.587, 0.114 and 1 of 255
        let colors = vec![255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255];
        let picture = Picture::new(Shape::new(3, 2, 2), colors);
        assert_eq!(picture.planes(1), [76, 150, 29, 255]);
        assert_eq!(picture.planes(3)[..4], [255, 0, 0, 255]);
        let gray = Picture::new(Shape::new(1, 1, 2), vec![7, 9]);
        assert_eq!(gray.planes(3), [7, 9, 7, 9, 7, 9]);
    }

    pub(crate) fn write_png(
        color: png::ColorType,
        width: u32,
        height: u32,
        data: &[u8],
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, width, height);
        encoder.set_color(color);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(data).unwrap();
        writer.finish().unwrap();
        out
    }

    #[test]
    fn every_kind_of_png_is_read() {
        let gray = Picture::decode(&write_png(png::ColorType::Grayscale, 2, 1, &[7, 9])).unwrap();
        assert_eq!(gray, Picture::new(Shape::new(1, 1, 2), vec![7, 9]));
        assert_eq!(gray.planes(3), [7, 9, 7, 9, 7, 9]);
        let rgba = write_png(png::ColorType::Rgba, 1, 2, &[1, 2, 3, 0, 4, 5, 6, 255]);
        let rgba = Picture::decode(&rgba).unwrap();
        assert_eq!(
            rgba,
            Picture::new(Shape::new(3, 2, 1), vec![1, 2, 3, 4, 5, 6])
        );
        assert_eq!(rgba.planes(3), [1, 4, 2, 5, 3, 6]);
        let alpha = write_png(png::ColorType::GrayscaleAlpha, 1, 1, &[8, 3]);
        assert_eq!(Picture::decode(&alpha).unwrap().pixels(), [8]);
    }

    #[test]
    fn planes_and_pixels_are_the_same_picture() {
        let picture = Picture::new(Shape::new(3, 1, 2), vec![1, 2, 3, 4, 5, 6]);
        assert_eq!(
            Picture::from_planes(picture.shape(), &picture.planes(3)),
            picture
        );
    }

    #[test]
    fn a_picture_covers_what_is_asked_for() {
        // columns 0..6, rows of equal value: 3x6 to 3x2 is the middle two columns
        let picture = Picture::new(Shape::new(1, 3, 6), (0..18).map(|i| i % 6 * 10).collect());
        assert_eq!(picture.resized_to(3, 2).pixels(), [20, 30, 20, 30, 20, 30]);
        assert_eq!(picture.resized_to(1, 6).pixels(), [0, 10, 20, 30, 40, 50]);
    }

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_that_of_the_standard() {
        let vectors = [
            "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy",
        ];
        for (length, expected) in vectors.into_iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..length]), expected);
        }
    }

    #[test]
    fn a_small_picture_is_written_as_it_is_and_a_large_one_scaled() {
        let picture = Picture::new(Shape::new(3, 1, 2), vec![1, 2, 3, 4, 5, 6]);
        assert_eq!(Picture::decode(&picture.to_png()).unwrap(), picture);
        assert!(
            picture
                .data_address(2)
                .starts_with("data:image/png;base64,iVBORw0KGgo")
        );
        let wide = Picture::new(Shape::new(1, 2, 8), vec![9; 16]);
        let small = Picture::new(Shape::new(1, 1, 4), vec![9; 4]);
        assert_eq!(wide.data_address(4), small.data_address(4));
    }

    #[test]
    fn only_plain_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.png");
        std::fs::create_dir(&path).unwrap();
        let error = Picture::open(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("x.png: picture at byte 0: is no plain file"),
            "{error}"
        );
        #[cfg(unix)]
        {
            let zero = folder.path().join("zero.png");
            std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
            let pipe = folder.path().join("pipe.png");
            let made = std::process::Command::new("mkfifo").arg(&pipe).status();
            assert!(made.unwrap().success());
            for path in [zero, pipe] {
                let error = Picture::open(&path).unwrap_err().to_string();
                assert!(error.ends_with("is no plain file"), "{error}");
            }
        }
        let endless = Picture::read(std::io::repeat(0)).unwrap().unwrap_err();
        assert!(
            endless.to_string().ends_with("is longer than 268 MB"),
            "{endless}"
        );
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        let message = |bytes: &[u8]| Picture::decode(bytes).unwrap_err().to_string();
        assert_eq!(
            message(b"%PDF-1"),
            "picture at byte 0: \"%PDF\", expected a PNG, JPEG, BMP, GIF, TIFF or WebP file"
        );
        assert!(message(b"GIF89a").starts_with("GIF picture at byte 0: "));
        assert!(message(&[0xff, 0xd8, 0xff]).starts_with("JPEG picture"));
        let png = write_png(png::ColorType::Rgb, 9, 9, &[5; 243]);
        assert!(message(&png[..png.len() - 30]).starts_with("PNG picture"));
        let mut wide = write_png(png::ColorType::Grayscale, 5000, 1, &[5; 5000]);
        assert!(message(&wide).contains("5000x1, expected at most 4096"));
        wide[16] = 0x7f;
        assert!(message(&wide).starts_with("PNG picture"));
    }

    /// Found by damaging size and sampling of small JPEG files at random: zune-jpeg 0.5.15 panics
    /// in its code for AVX2.
    #[test]
    fn jpeg_files_at_which_the_decoder_panics_are_refused() {
        let files: [&[u8]; 2] = [
            include_bytes!("../../tests/fixtures/panics-idct.jpeg"),
            include_bytes!("../../tests/fixtures/panics-upsampler.jpeg"),
        ];
        for bytes in files {
            let decoded = Picture::decode(bytes);
            #[cfg(target_arch = "x86_64")]
            if std::is_x86_feature_detected!("avx2") {
                let error = decoded.unwrap_err().to_string();
                assert!(error.ends_with(guard::PROBLEM), "{error}");
                continue;
            }
            // elsewhere the decoder may cope with it
            drop(decoded);
        }
    }

    const PILLOW_2X3: [u8; 6] = [93, 131, 122, 139, 149, 142];
    const PILLOW_3X5: [u8; 15] = [
        31, 140, 121, 100, 149, 79, 160, 140, 120, 100, 127, 180, 159, 139, 191,
    ];
    const PILLOW_7X6: [u8; 42] = [
        0, 91, 182, 17, 108, 199, 13, 109, 205, 44, 140, 144, 34, 137, 241, 88, 191, 56, 56, 166,
        149, 131, 114, 96, 77, 195, 56, 174, 36, 154, 98, 223, 92, 218, 87, 213, 111, 241, 115,
        245, 119, 249,
    ];

    /// Values of Pillow 13.0: `Image.fromarray(a).resize(size, Image.BILINEAR)`.
    #[test]
    fn shrinking_gives_pillows_bytes() {
        // a[y, x] = (37 y + 91 x + 13 x y) mod 256, 4 rows of 6
        let pixels = (0..24).map(|i| (37 * (i / 6) + 91 * (i % 6) + 13 * (i % 6) * (i / 6)) as u8);
        let picture = Picture::new(Shape::new(1, 4, 6), pixels.collect());
        let small = picture.resized(2, 3);
        assert_eq!(small.pixels(), PILLOW_2X3);
        assert_eq!(picture.resized(3, 5).pixels(), PILLOW_3X5);
        assert_eq!(picture.resized(7, 6).pixels(), PILLOW_7X6);
    }

    #[test]
    fn the_middle_is_cut_out_as_python_rounds() {
        let picture = |height, width| {
            let pixels = (0..height * width).map(|i| (i % width) as u8).collect();
            Picture::new(Shape::new(1, height, width), pixels)
        };
        // (width - side) / 2 = 0.5, 1, 1.5, 2.5 are rounded to 0, 1, 2, 2
        let left = |width| picture(2, width).resized_to(2, 2).pixels()[0];
        assert_eq!([left(3), left(4), left(5), left(7)], [0, 1, 2, 2]);
        let square = picture(10, 15).resized_to(5, 5);
        assert_eq!(square.shape(), Shape::new(1, 5, 5));
    }

    proptest! {
        #[test]
        fn a_part_has_the_pixels_of_the_whole(
            (height, width) in (1_usize..9, 1_usize..9),
            (tall, wide) in (1_usize..12, 1_usize..12),
            (top, left) in (0_usize..12, 0_usize..12),
            seed: u8,
        ) {
            let pixels = (0..3 * height * width).map(|i| (i * 89) as u8 ^ seed).collect();
            let picture = Picture::new(Shape::new(3, height, width), pixels);
            let whole = picture.resized(tall, wide);
            let (rows, columns) = (top.min(tall - 1)..tall, left.min(wide - 1)..wide);
            let part = picture.resized_part((tall, rows.clone()), (wide, columns.clone()));
            for (y, row) in part.pixels().chunks_exact(3 * columns.len()).enumerate() {
                let begin = 3 * ((rows.start + y) * wide + columns.start);
                prop_assert_eq!(row, &whole.pixels()[begin..begin + row.len()]);
            }
            prop_assert_eq!(part.shape(), Shape::new(3, rows.len(), columns.len()));
        }

        #[test]
        fn a_flat_picture_stays_flat(
            (height, width) in (1_usize..20, 1_usize..20),
            side in 1_usize..12,
            value: u8,
        ) {
            let picture = Picture::new(Shape::new(3, height, width), vec![value; 3 * height * width]);
            let small = picture.resized_to(side, side);
            prop_assert_eq!(small.shape(), Shape::new(3, side, side));
            prop_assert!(small.pixels().iter().all(|&pixel| pixel == value));
        }
    }
}
