//! Decoders of others, and what they give as 8 bits a channel, gray or color. Transparency is
//! dropped. A header that promises more than [`LONGEST_SIDE`] is refused before memory is taken.

use std::io::Cursor;

use tiff::ColorType;
use tiff::decoder::{DecodingResult, Limits};
use tiff::tags::{SampleFormat, Tag};
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

use super::picture::{LONGEST_SIDE, Picture};
use crate::error::Malformed;
use crate::image_set::Shape;

type Result<T> = std::result::Result<T, Malformed>;

/// Most bytes that a decoder may hold: four channels of two bytes.
pub(super) const MOST: usize = 8 * LONGEST_SIDE * LONGEST_SIDE;

pub(super) fn jpeg(bytes: &[u8]) -> Result<Picture> {
    let wrong = |error: zune_jpeg::errors::DecodeErrors| {
        Malformed::new("JPEG picture", 0, format!("{error:?}").trim_end())
    };
    let options = DecoderOptions::default()
        .set_max_width(LONGEST_SIDE)
        .set_max_height(LONGEST_SIDE);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(wrong)?;
    let (channels, out) = match decoder.input_colorspace() {
        Some(ColorSpace::Luma) => (1, ColorSpace::Luma),
        _ => (3, ColorSpace::RGB),
    };
    decoder.set_options(options.jpeg_set_out_colorspace(out));
    let pixels = decoder.decode().map_err(wrong)?;
    let (width, height) = decoder.dimensions().unwrap_or_default();
    picture(channels, height, width, pixels)
}

pub(super) fn png(bytes: &[u8]) -> Result<Picture> {
    const FIELD: &str = "PNG picture";
    let wrong = |error: png::DecodingError| Malformed::new(FIELD, 0, error.to_string());
    let limits = png::Limits {
        bytes: 4 * LONGEST_SIDE * LONGEST_SIDE,
    };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(wrong)?;
    let size = sides(FIELD, reader.info().size())?;
    let stored = reader.output_buffer_size().unwrap_or(usize::MAX);
    if stored > 4 * LONGEST_SIDE * LONGEST_SIDE {
        return Err(Malformed::new(FIELD, 16, "it is too large"));
    }
    let mut pixels = vec![0; stored];
    let info = reader.next_frame(&mut pixels).map_err(wrong)?;
    pixels.truncate(info.buffer_size());
    let stored = match info.color_type {
        png::ColorType::Grayscale => 1,
        png::ColorType::GrayscaleAlpha => 2,
        png::ColorType::Rgb => 3,
        png::ColorType::Rgba => 4,
        png::ColorType::Indexed => return Err(Malformed::new(FIELD, 0, "the palette is missing")),
    };
    opaque(stored, size, pixels)
}

pub(super) fn bmp(bytes: &[u8]) -> Result<Picture> {
    let (width, height, pixels) = super::bmp::decode(bytes)?;
    picture(3, height, width, pixels)
}

/// The first image of a GIF file, on the black canvas of the whole.
pub(super) fn gif(bytes: &[u8]) -> Result<Picture> {
    const FIELD: &str = "GIF picture";
    let wrong = |error: gif::DecodingError| Malformed::new(FIELD, 0, error.to_string());
    let mut options = gif::DecodeOptions::new();
    options.set_color_output(gif::ColorOutput::Indexed);
    let mut decoder = options.read_info(Cursor::new(bytes)).map_err(wrong)?;
    let (width, height) = sides(FIELD, (decoder.width().into(), decoder.height().into()))?;
    let missing = || Malformed::new(FIELD, 0, "it has no image");
    let frame = decoder
        .next_frame_info()
        .map_err(wrong)?
        .ok_or_else(missing)?;
    let (left, top) = (usize::from(frame.left), usize::from(frame.top));
    let (wide, tall) = sides(FIELD, (frame.width.into(), frame.height.into()))?;
    let mut numbers = vec![0; wide * tall];
    decoder.read_into_buffer(&mut numbers).map_err(wrong)?;
    let palette = decoder.palette().map_err(wrong)?;
    let mut pixels = vec![0; 3 * width * height];
    let rows = pixels.chunks_exact_mut(3 * width).skip(top);
    for (row, numbers) in rows.zip(numbers.chunks_exact(wide)) {
        for (pixel, &number) in row.chunks_exact_mut(3).skip(left).zip(numbers) {
            let at = 3 * usize::from(number);
            // a number that the palette does not have is black
            pixel.copy_from_slice(palette.get(at..at + 3).unwrap_or(&[0; 3]));
        }
    }
    picture(3, height, width, pixels)
}

pub(super) fn webp(bytes: &[u8]) -> Result<Picture> {
    const FIELD: &str = "WebP picture";
    let wrong = |error: image_webp::DecodingError| Malformed::new(FIELD, 0, error.to_string());
    let mut decoder = image_webp::WebPDecoder::new(Cursor::new(bytes)).map_err(wrong)?;
    let size = sides(FIELD, decoder.dimensions())?;
    decoder.set_memory_limit(MOST);
    let stored = if decoder.has_alpha() { 4 } else { 3 };
    let mut pixels = vec![0; stored * size.0 * size.1];
    decoder.read_image(&mut pixels).map_err(wrong)?;
    opaque(stored, size, pixels)
}

pub(super) fn tiff(bytes: &[u8]) -> Result<Picture> {
    const FIELD: &str = "TIFF picture";
    let wrong = |error: tiff::TiffError| Malformed::new(FIELD, 0, error.to_string());
    check_tags(bytes)?;
    let mut decoder = tiff::decoder::Decoder::new(Cursor::new(bytes)).map_err(wrong)?;
    let size = sides(FIELD, decoder.dimensions().map_err(wrong)?)?;
    let color = decoder.colortype().map_err(wrong)?;
    let formats = decoder
        .find_tag_unsigned_vec::<u16>(Tag::SampleFormat)
        .map_err(wrong)?;
    let (channels, bits) = match color {
        ColorType::Gray(bits) => (1, bits),
        ColorType::GrayA(bits) => (2, bits),
        ColorType::RGB(bits) => (3, bits),
        ColorType::RGBA(bits) | ColorType::CMYK(bits) => (4, bits),
        _ => (0, 0),
    };
    let is_known = match (channels, bits) {
        (1, 1) | (1..=4, 8 | 16) => Some(SampleFormat::Uint),
        (3 | 4, 32) if !matches!(color, ColorType::CMYK(_)) => Some(SampleFormat::IEEEFP),
        _ => None,
    };
    let formats = formats.unwrap_or_else(|| vec![SampleFormat::Uint.to_u16()]);
    let same = |known: SampleFormat| formats.iter().all(|&format| format == known.to_u16());
    if !is_known.is_some_and(same) {
        let problem = format!("{color:?} with samples of the kinds {formats:?} cannot be read");
        return Err(Malformed::new(FIELD, 0, problem));
    }
    let plane = size.0 * size.1;
    let mut limits = Limits::default();
    limits.decoding_buffer_size = plane * channels * usize::from(bits).div_ceil(8);
    limits.intermediate_buffer_size = MOST.saturating_sub(limits.decoding_buffer_size);
    let mut decoder = decoder.with_limits(limits);
    let mut stored = DecodingResult::U8(Vec::new());
    let layout = decoder.read_image_to_buffer(&mut stored).map_err(wrong)?;
    if stored.as_buffer(0).as_bytes().len() < layout.complete_len {
        return Err(Malformed::new(FIELD, 0, "it is too large"));
    }
    let mut samples = match stored {
        DecodingResult::U8(samples) if bits == 1 => expand(&samples, size),
        DecodingResult::U8(samples) => samples,
        DecodingResult::U16(samples) => {
            narrow(&samples, |sample| ((u32::from(sample) + 128) / 257) as u8)
        }
        DecodingResult::F32(samples) => narrow(&samples, |sample| {
            (sample.clamp(0.0, 1.0) * 255.0).round() as u8
        }),
        _ => return Err(Malformed::new(FIELD, 0, "its samples cannot be read")),
    };
    if layout.planes > 1 {
        if samples.len() != plane * channels {
            return Err(Malformed::new(
                FIELD,
                0,
                "its planes are of different sizes",
            ));
        }
        let by_planes = (0..plane).flat_map(|at| samples.iter().skip(at).step_by(plane));
        samples = by_planes.copied().collect();
    }
    if let ColorType::CMYK(_) = color {
        let colors = samples.chunks_exact(4).flat_map(|pixel| {
            let light = 255 - u32::from(pixel[3]);
            let color = |ink: u8| (light - (u32::from(ink) * light + 127) / 255) as u8;
            [color(pixel[0]), color(pixel[1]), color(pixel[2])]
        });
        return opaque(3, size, colors.collect());
    }
    opaque(channels, size, samples)
}

/// Rows of bits, each in whole bytes, as black and white.
fn expand(rows: &[u8], (width, _): (usize, usize)) -> Vec<u8> {
    let rows = rows.chunks_exact(width.div_ceil(8));
    let bit = |row: &[u8], column: usize| row[column / 8] >> (7 - column % 8) & 1;
    rows.flat_map(|row| (0..width).map(move |column| 255 * bit(row, column)))
        .collect()
}

fn narrow<T: Copy>(samples: &[T], one: impl Fn(T) -> u8) -> Vec<u8> {
    samples.iter().map(|&sample| one(sample)).collect()
}

/// Width and height, none of them too long.
fn sides(field: &'static str, (width, height): (u32, u32)) -> Result<(usize, usize)> {
    if width.min(height) == 0 {
        return Err(Malformed::new(field, 0, format!("{width}x{height} pixels")));
    }
    if width.max(height) as usize > LONGEST_SIDE {
        let problem = format!("{width}x{height}, expected at most {LONGEST_SIDE} a side");
        return Err(Malformed::new(field, 0, problem));
    }
    Ok((width as usize, height as usize))
}

/// A picture of pixels that have so many channels, of which a second or fourth is transparency.
fn opaque(stored: usize, (width, height): (usize, usize), pixels: Vec<u8>) -> Result<Picture> {
    let channels = if stored < 3 { 1 } else { 3 };
    if stored == channels {
        return picture(channels, height, width, pixels);
    }
    let colors = pixels
        .chunks_exact(stored)
        .flat_map(|pixel| &pixel[..channels]);
    picture(channels, height, width, colors.copied().collect())
}

fn picture(channels: usize, height: usize, width: usize, pixels: Vec<u8>) -> Result<Picture> {
    let shape = Shape::new(channels, height, width);
    if shape.is_empty() || pixels.len() != shape.len() {
        let problem = format!("{} bytes for a picture of {shape}", pixels.len());
        return Err(Malformed::new("picture", 0, problem));
    }
    Ok(Picture::new(shape, pixels))
}

/// Refuses a TIFF file with a tag of more entries than the file has bytes: the decoder takes 32
/// bytes for each before it looks. What cannot be read here is left to the decoder.
fn check_tags(bytes: &[u8]) -> Result<()> {
    let is_little = bytes.starts_with(b"II");
    let number = |at: usize, size: usize| -> Option<usize> {
        let part = bytes.get(at..at.checked_add(size)?)?;
        let add = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
        Some(match is_little {
            true => part.iter().rev().fold(0, add),
            false => part.iter().fold(0, add),
        })
    };
    let Some(directory) = number(4, 4) else {
        return Ok(());
    };
    for tag in 0..number(directory, 2).unwrap_or(0) {
        // two bytes each for the tag and its kind, four for the entries, four for their place
        let at = directory + 2 + 12 * tag + 4;
        match number(at, 4) {
            Some(entries) if entries > bytes.len() => {
                let problem = format!("a tag of {entries} entries in {} bytes", bytes.len());
                return Err(Malformed::new("TIFF picture", at as u64, problem));
            }
            Some(_) => {}
            None => break,
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What writes a picture as a file of one kind.
    pub(crate) type Writer = fn(&Picture) -> Vec<u8>;

    /// The kinds that no official dataset comes in.
    pub(crate) const WRITERS: [(&str, Writer); 4] = [
        ("bmp", write_bmp),
        ("gif", write_gif),
        ("tiff", write_tiff),
        ("webp", write_webp),
    ];

    fn sides(picture: &Picture) -> (u32, u32) {
        let Shape { height, width, .. } = picture.shape();
        (width as u32, height as u32)
    }

    fn write_bmp(picture: &Picture) -> Vec<u8> {
        crate::formats::bmp::tests::write(picture.shape().width, picture.pixels())
    }

    /// A file with a palette of its own colors, at most 256.
    fn write_gif(picture: &Picture) -> Vec<u8> {
        let mut colors: Vec<&[u8]> = picture.pixels().chunks_exact(3).collect();
        colors.sort();
        colors.dedup();
        let number = |color| colors.binary_search(&color).unwrap() as u8;
        let numbers: Vec<u8> = picture.pixels().chunks_exact(3).map(number).collect();
        gif_on(
            (picture.shape().width, picture.shape().height),
            (0, 0),
            picture,
            &numbers,
            &colors.concat(),
        )
    }

    fn gif_on(
        (width, height): (usize, usize),
        (left, top): (u16, u16),
        picture: &Picture,
        numbers: &[u8],
        palette: &[u8],
    ) -> Vec<u8> {
        let (wide, tall) = sides(picture);
        let mut file = Vec::new();
        let mut encoder =
            gif::Encoder::new(&mut file, width as u16, height as u16, palette).unwrap();
        let mut frame =
            gif::Frame::from_indexed_pixels(wide as u16, tall as u16, numbers.to_vec(), None);
        (frame.left, frame.top) = (left, top);
        encoder.write_frame(&frame).unwrap();
        drop(encoder);
        file
    }

    fn write_tiff(picture: &Picture) -> Vec<u8> {
        use tiff::encoder::{TiffEncoder, colortype};
        let (width, height) = sides(picture);
        let mut file = Cursor::new(Vec::new());
        let mut encoder = TiffEncoder::new(&mut file).unwrap();
        match picture.shape().channels {
            1 => encoder.write_image::<colortype::Gray8>(width, height, picture.pixels()),
            _ => encoder.write_image::<colortype::RGB8>(width, height, picture.pixels()),
        }
        .unwrap();
        file.into_inner()
    }

    fn write_webp(picture: &Picture) -> Vec<u8> {
        let (width, height) = sides(picture);
        let mut file = Vec::new();
        let encoder = image_webp::WebPEncoder::new(&mut file);
        encoder
            .encode(picture.pixels(), width, height, image_webp::ColorType::Rgb8)
            .unwrap();
        file
    }

    #[test]
    fn pictures_of_every_kind_are_read() {
        let colors = vec![
            9, 80, 200, 0, 0, 0, 255, 255, 255, 30, 20, 10, 5, 5, 250, 7, 8, 9,
        ];
        let color = Picture::new(Shape::new(3, 2, 3), colors);
        for (kind, write) in WRITERS {
            assert_eq!(Picture::decode(&write(&color)).unwrap(), color, "{kind}");
        }
        let gray = Picture::new(Shape::new(1, 2, 2), vec![0, 9, 254, 77]);
        assert_eq!(Picture::decode(&write_tiff(&gray)).unwrap(), gray);
    }

    /// An image of a GIF file may be smaller than the canvas, or reach beyond it.
    #[test]
    fn images_lie_on_their_canvas() {
        let image = Picture::new(Shape::new(3, 2, 2), vec![5; 12]);
        let palette = [1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0];
        let red = |canvas, place| {
            let file = gif_on(canvas, place, &image, &[0, 1, 1, 0], &palette);
            let picture = Picture::decode(&file).unwrap();
            picture.planes(3)[..canvas.0 * canvas.1].to_vec()
        };
        assert_eq!(red((3, 3), (1, 0)), [0, 1, 4, 0, 4, 1, 0, 0, 0]);
        assert_eq!(red((2, 2), (1, 1)), [0, 0, 0, 1]);
        assert_eq!(red((2, 1), (9, 9)), [0, 0]);
    }

    /// Samples of all kinds that are read, by the encoder of the same crate.
    #[test]
    fn samples_of_tiff_become_bytes() {
        use tiff::encoder::{TiffEncoder, TiffValue, colortype::*};
        fn read<C: ColorType>(samples: &[C::Inner]) -> Vec<u8>
        where
            [C::Inner]: TiffValue,
        {
            let mut file = Cursor::new(Vec::new());
            let mut encoder = TiffEncoder::new(&mut file).unwrap();
            encoder.write_image::<C>(1, 1, samples).unwrap();
            Picture::decode(&file.into_inner())
                .unwrap()
                .pixels()
                .to_vec()
        }
        // 16 bits are divided by 257 and rounded
        assert_eq!(read::<Gray16>(&[1000]), [4]);
        assert_eq!(read::<RGB16>(&[65_535, 128, 129]), [255, 0, 1]);
        assert_eq!(read::<RGBA16>(&[65_535, 257, 514, 0]), [255, 1, 2]);
        assert_eq!(read::<RGBA8>(&[1, 2, 3, 0]), [1, 2, 3]);
        assert_eq!(read::<RGB32Float>(&[-1.0, 0.5, 7.0]), [0, 128, 255]);
        // of each ink what the black lets through: 255 - 55 times 200 / 255 and so on
        assert_eq!(read::<CMYK8>(&[55, 0, 255, 55]), [157, 200, 0]);
        let refused = |file: Vec<u8>| Picture::decode(&file).unwrap_err().to_string();
        let mut file = Cursor::new(Vec::new());
        let mut encoder = TiffEncoder::new(&mut file).unwrap();
        encoder.write_image::<Gray32>(1, 1, &[7]).unwrap();
        let message = refused(file.into_inner());
        assert!(
            message.contains("Gray(32) with samples of the kinds [1] cannot be read"),
            "{message}"
        );
    }

    /// Rows of bits, the last byte of each filled up.
    #[test]
    fn bits_are_black_and_white() {
        let rows = [0b1000_0000, 0b0100_0000, 0b0111_1111, 0b1011_1111];
        let expanded = expand(&rows, (10, 2));
        assert_eq!(
            expanded.iter().filter(|&&pixel| pixel == 255).count(),
            1 + 1 + 7 + 1
        );
        assert_eq!(
            [expanded[0], expanded[9], expanded[10], expanded[18]],
            [255, 255, 0, 255]
        );
    }
}
