//! Device-independent bitmaps (BMP): palettes of 1, 2, 4 and 8 bits, plain or run-length encoded,
//! and colors of 16, 24 and 32 bits, with masks or without.
//!
//! The crate `image` reads them, too, and brings color profiles and conversions that nothing here
//! needs: with it a cold release build takes a tenth of its processor's time more.

use super::picture::LONGEST_SIDE;
use crate::error::Malformed;

type Result<T> = std::result::Result<T, Malformed>;

/// Red, green and blue.
type Color = [u8; 3];

/// Where the header ends that every file begins with, and the one of the bitmap begins.
const INFO: usize = 14;

/// Width, height and colors, row after row from the top.
pub(super) fn decode(bytes: &[u8]) -> Result<(usize, usize, Vec<u8>)> {
    let header = Header::read(bytes)?;
    let pixels = match header.storage {
        Storage::Runs => header.of_runs(bytes)?,
        Storage::Palette => header.of_palette(bytes)?,
        Storage::Colors(masks) => header.of_colors(bytes, masks)?,
    };
    Ok((header.width, header.height, pixels))
}

fn wrong(at: usize, problem: impl Into<String>) -> Malformed {
    Malformed::new("BMP picture", at as u64, problem)
}

/// The little-endian number of at most four bytes.
fn number(bytes: &[u8]) -> u32 {
    let add = |sum, byte: &u8| sum << 8 | u32::from(*byte);
    bytes.iter().rev().fold(0, add)
}

/// One channel of a color: its bits in a number.
#[derive(Clone, Copy)]
struct Mask {
    shift: u32,
    largest: u32,
}

impl Mask {
    fn new(bits: u32) -> Option<Self> {
        let shift = bits.trailing_zeros() % 32;
        let largest = bits >> shift;
        (largest & largest.wrapping_add(1) == 0).then_some(Self { shift, largest })
    }

    /// The channel as a byte, rounded to nearest.
    fn of(self, value: u32) -> u8 {
        let (own, largest) = (value >> self.shift & self.largest, u64::from(self.largest));
        let scaled = (u64::from(own) * 255 + largest / 2).checked_div(largest);
        scaled.unwrap_or(0) as u8
    }
}

enum Storage {
    /// Numbers in a palette, in runs of 8 or 4 bits.
    Runs,
    /// Numbers in a palette.
    Palette,
    /// Colors, with the places of red, green and blue.
    Colors([Mask; 3]),
}

struct Header {
    width: usize,
    height: usize,
    /// Whether the first row is the one at the top.
    from_top: bool,
    /// Of a pixel.
    bits: usize,
    storage: Storage,
    /// Colors, as many as a pixel can name.
    palette: Vec<Color>,
    /// Where the pixels begin.
    start: usize,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self> {
        let field = |at: usize, size: usize| match bytes.get(at..at + size) {
            Some(field) => Ok(number(field)),
            None => Err(wrong(at, "the header ends here")),
        };
        let long = |at| field(at, 4);
        let short = |at| field(at, 2);
        let start = long(10)? as usize;
        let size = long(INFO)? as usize;
        let (is_old, is_known) = (size == 12, [12, 40, 52, 56, 108, 124].contains(&size));
        if !is_known {
            let known = "expected 12, 40, 52, 56, 108 or 124";
            return Err(wrong(INFO, format!("a header of {size} bytes, {known}")));
        }
        let (width, height, planes) = match is_old {
            true => (short(18)? as i32, short(20)? as i32, 22),
            false => (long(18)? as i32, long(22)? as i32, 26),
        };
        let side = |side: i32| {
            let side = side as usize;
            (1..=LONGEST_SIDE).contains(&side).then_some(side)
        };
        let tall = height.checked_abs().and_then(side);
        let (Some(wide), Some(tall)) = (side(width), tall) else {
            let problem = format!("{width}x{height}, expected 1 to {LONGEST_SIDE} a side");
            return Err(wrong(18, problem));
        };
        let bits = short(planes + 2)? as usize;
        let (compression, used) = match is_old {
            true => (0, 0),
            false => (long(30)?, long(46)? as usize),
        };
        let masks = match (bits, compression) {
            (16, 0) => [0x7c00, 0x03e0, 0x001f],
            (24 | 32, 0) => [0xff_0000, 0xff00, 0xff],
            // red, green and blue lie behind the first forty bytes, as a part of the header or not
            (16 | 32, 3 | 6) => [long(54)?, long(58)?, long(62)?],
            _ => [0; 3],
        };
        let storage = match (bits, compression) {
            (1 | 2 | 4 | 8, 0) => Storage::Palette,
            (8, 1) | (4, 2) if height > 0 => Storage::Runs,
            (16 | 24 | 32, 0) | (16 | 32, 3 | 6) => match masks.map(Mask::new) {
                [Some(red), Some(green), Some(blue)] => Storage::Colors([red, green, blue]),
                _ => return Err(wrong(54, "a mask of bits that lie apart")),
            },
            _ => {
                let problem = format!("{bits} bits a pixel with compression {compression}");
                let known = "expected 1, 2, 4, 8, 16, 24 or 32 without one, or with runs or masks";
                return Err(wrong(planes + 2, format!("{problem}, {known}")));
            }
        };
        let mut palette = Vec::new();
        if bits <= 8 {
            let most = 1 << bits;
            let count = if used == 0 { most } else { used.min(most) };
            let (at, entry) = (INFO + size, if is_old { 3 } else { 4 });
            let colors = bytes.get(at..at + count * entry);
            let colors = colors.ok_or_else(|| wrong(at, "the palette ends too early"))?;
            palette.extend(colors.chunks_exact(entry).map(|c| [c[2], c[1], c[0]]));
            // a number that the palette does not have is black
            palette.resize(most, [0; 3]);
        }
        Ok(Self {
            width: wide,
            height: tall,
            from_top: height < 0,
            bits,
            storage,
            palette,
            start,
        })
    }

    /// Rows as they are stored, each with `width` pixels and what fills it up to four bytes, from
    /// the top of the picture.
    fn rows<'a>(&self, bytes: &'a [u8]) -> Result<Vec<&'a [u8]>> {
        let length = (self.width * self.bits).div_ceil(32) * 4;
        let total = length * self.height;
        // what fills up the last row may be missing
        let used = total - length + (self.width * self.bits).div_ceil(8);
        let stored = bytes.get(self.start..).unwrap_or_default();
        if stored.len() < used {
            let problem = format!(
                "{used} bytes of pixels, the file ends after {}",
                stored.len()
            );
            return Err(wrong(self.start, problem));
        }
        let mut rows: Vec<_> = stored.chunks(length).take(self.height).collect();
        if !self.from_top {
            rows.reverse();
        }
        Ok(rows)
    }

    fn of_palette(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let (bits, mask) = (self.bits, (1 << self.bits) - 1);
        let rows = self.rows(bytes)?;
        let mut pixels = Vec::with_capacity(3 * self.width * self.height);
        for row in rows {
            for column in 0..self.width {
                let bit = column * bits;
                let number = usize::from(row[bit / 8]) >> (8 - bits - bit % 8) & mask;
                pixels.extend_from_slice(&self.palette[number]);
            }
        }
        Ok(pixels)
    }

    fn of_colors(&self, bytes: &[u8], masks: [Mask; 3]) -> Result<Vec<u8>> {
        let size = self.bits / 8;
        // the bytes of the colors themselves, as nearly every file has them
        let is_plain =
            masks.map(|mask| (mask.shift, mask.largest)) == [(16, 255), (8, 255), (0, 255)];
        let rows = self.rows(bytes)?;
        let mut pixels = Vec::with_capacity(3 * self.width * self.height);
        for row in rows {
            for pixel in row[..self.width * size].chunks_exact(size) {
                if is_plain {
                    pixels.extend_from_slice(&[pixel[2], pixel[1], pixel[0]]);
                } else {
                    let value = number(pixel);
                    pixels.extend_from_slice(&masks.map(|mask| mask.of(value)));
                }
            }
        }
        Ok(pixels)
    }

    /// Runs of 8 or 4 bits. A pixel that is passed over has the first color.
    fn of_runs(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let short = |at: usize| wrong(at, "the file ends in a run");
        let pair = |at: usize| match bytes.get(at..at + 2) {
            Some(pair) => Ok((pair[0], pair[1])),
            None => Err(short(at)),
        };
        // two numbers of four bits by turns, or one of eight
        let nth = |byte: u8, index: usize| match (self.bits, index % 2) {
            (4, 0) => byte >> 4,
            (4, _) => byte & 15,
            _ => byte,
        };
        let mut numbers = vec![0; self.width * self.height];
        let (mut row, mut column, mut at) = (0, 0, self.start);
        while row < self.height {
            let (count, value) = pair(at)?;
            at += 2;
            // what lies outside of the picture is passed over
            let place = (self.height - 1 - row) * self.width + column.min(self.width);
            let left = self.width.saturating_sub(column);
            match (usize::from(count), usize::from(value)) {
                (0, 0) => (row, column) = (row + 1, 0),
                (0, 1) => break,
                (0, 2) => {
                    let (right, up) = pair(at)?;
                    (row, column) = (row + usize::from(up), column + usize::from(right));
                    at += 2;
                }
                (0, count) => {
                    let size = (count * self.bits).div_ceil(8);
                    let stored = bytes.get(at..at + size).ok_or_else(|| short(at))?;
                    for index in 0..count.min(left) {
                        numbers[place + index] = nth(stored[index * self.bits / 8], index);
                    }
                    (column, at) = (column + count, at + size.next_multiple_of(2));
                }
                (count, _) => {
                    for index in 0..count.min(left) {
                        numbers[place + index] = nth(value, index);
                    }
                    column += count;
                }
            }
        }
        let mut pixels = Vec::with_capacity(3 * numbers.len());
        for number in numbers {
            pixels.extend_from_slice(&self.palette[usize::from(number)]);
        }
        Ok(pixels)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A file of a header of forty bytes, what follows it, and the pixels.
    fn file(
        (width, height): (i32, i32),
        (bits, compression): (u16, u32),
        behind: &[u8],
        pixels: &[u8],
    ) -> Vec<u8> {
        let start = 54 + behind.len() as u32;
        let mut file = b"BM\0\0\0\0\0\0\0\0".to_vec();
        for number in [start, 40, width as u32, height as u32] {
            file.extend(number.to_le_bytes());
        }
        for number in [1, bits] {
            file.extend(number.to_le_bytes());
        }
        for number in [compression, 0, 0, 0, 0, 0] {
            file.extend(number.to_le_bytes());
        }
        [&file, behind, pixels].concat()
    }

    /// Rows from the bottom, each filled up to four bytes.
    fn stored(rows: &[Vec<u8>]) -> Vec<u8> {
        let full = |row: &Vec<u8>| {
            let mut row = row.clone();
            row.resize(row.len().next_multiple_of(4), 0xee);
            row
        };
        rows.iter().rev().flat_map(full).collect()
    }

    /// Colors, three bytes a pixel, as a file of 24 bits.
    pub(crate) fn write(width: usize, pixels: &[u8]) -> Vec<u8> {
        let turned = |row: &[u8]| {
            row.chunks_exact(3)
                .flat_map(|c| [c[2], c[1], c[0]])
                .collect()
        };
        let rows: Vec<Vec<u8>> = pixels.chunks_exact(3 * width).map(turned).collect();
        file(
            (width as i32, rows.len() as i32),
            (24, 0),
            &[],
            &stored(&rows),
        )
    }

    /// A palette whose color n is (n, n + 1, n + 2), as it is stored.
    fn palette(count: u8) -> Vec<u8> {
        (0..count).flat_map(|n| [n + 2, n + 1, n, 0]).collect()
    }

    /// The first channel of every pixel: its number in that palette.
    fn numbers(file: &[u8]) -> Vec<u8> {
        let (_, _, pixels) = decode(file).unwrap();
        for color in pixels.chunks_exact(3) {
            assert_eq!((color[1], color[2]), (color[0] + 1, color[0] + 2));
        }
        pixels.iter().step_by(3).copied().collect()
    }

    fn problem(file: &[u8]) -> String {
        decode(file).unwrap_err().to_string()
    }

    /// The example of the format's description, each row ended where its text breaks the line.
    #[test]
    fn runs_are_those_of_the_description() {
        let runs = [
            3, 4, 5, 6, 0, 3, 0x45, 0x56, 0x67, 0, 2, 0x78, 0, 2, 5, 1, 2, 0x78, 0, 0, 9, 0x1e, 0,
            1,
        ];
        let rows = [
            [
                0x1e, 0x1e, 0x1e, 0x1e, 0x1e, 0x1e, 0x1e, 0x1e, 0x1e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                0,
            ],
            [
                0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x78, 0x78,
            ],
            [
                4, 4, 4, 6, 6, 6, 6, 6, 0x45, 0x56, 0x67, 0x78, 0x78, 0, 0, 0, 0, 0, 0, 0,
            ],
        ];
        let eight = file((20, 3), (8, 1), &palette(128), &runs);
        let mut eight = eight;
        eight[46] = 128;
        assert_eq!(numbers(&eight), rows.concat());

        let runs = [
            3, 4, 5, 6, 0, 6, 0x45, 0x56, 0x67, 0, 4, 0x78, 0, 2, 5, 1, 4, 0x78, 0, 0, 9, 0x1e, 0,
            1,
        ];
        let lower = [0, 4, 0, 0, 6, 0, 6, 0, 4, 5, 5, 6, 6, 7, 7, 8, 7, 8];
        let four = file((27, 3), (4, 2), &palette(16), &runs);
        let found = numbers(&four);
        assert_eq!(found[..9], [1, 14, 1, 14, 1, 14, 1, 14, 1]);
        assert_eq!(found[27 + 23..54], [7, 8, 7, 8]);
        assert_eq!(found[54..72], lower);
        // what lies beyond the end of a row, or of the picture, is left out
        let short = file((2, 1), (8, 1), &palette(4), &[5, 3, 0, 0, 1, 1]);
        let mut short = short;
        short[46] = 4;
        assert_eq!(numbers(&short), [3, 3]);
    }

    #[test]
    fn masks_and_their_absence_are_colors() {
        // 5, 5 and 5 bits without masks: 31 is 255, 15 of 31 rounded is 123
        let five = file((2, 1), (16, 0), &[], &[0x1f, 0x7c, 0xe0, 0x3d]);
        assert_eq!(
            decode(&five).unwrap(),
            (2, 1, vec![255, 0, 255, 123, 123, 0])
        );
        let masks = |masks: [u32; 3]| masks.map(u32::to_le_bytes).concat();
        let six = file(
            (1, 1),
            (16, 3),
            &masks([0xf800, 0x07e0, 0x1f]),
            &[0xff, 0x07, 0, 0],
        );
        assert_eq!(decode(&six).unwrap().2, [0, 255, 255]);
        let turned = masks([0xff, 0xff00, 0xff_0000]);
        let turned = file((1, 1), (32, 3), &turned, &[1, 2, 3, 99]);
        assert_eq!(decode(&turned).unwrap().2, [1, 2, 3]);
        let plain = file((1, 1), (32, 0), &[], &[1, 2, 3, 99]);
        assert_eq!(decode(&plain).unwrap().2, [3, 2, 1]);
        // ten bits a channel: 512 of 1023 is 127.6 of 255, and a channel without bits is 0
        let ten = file(
            (1, 1),
            (32, 3),
            &masks([0x3ff0_0000, 0, 0x3ff]),
            &[0xff, 3, 0, 0x20],
        );
        assert_eq!(decode(&ten).unwrap().2, [128, 0, 255]);
        let apart = file((1, 1), (32, 3), &masks([0xf0f, 0xf0, 0xf000]), &[0; 4]);
        assert_eq!(
            problem(&apart),
            "BMP picture at byte 54: a mask of bits that lie apart"
        );
    }

    #[test]
    fn old_headers_and_rows_from_the_top_are_read() {
        // twelve bytes: sides of two bytes, colors of three
        let mut old = b"BM\0\0\0\0\0\0\0\0".to_vec();
        old.extend([32, 0, 0, 0, 12, 0, 0, 0, 3, 0, 2, 0, 1, 0, 1, 0]);
        old.extend([9, 8, 7, 3, 2, 1]);
        old.extend([0b1010_0000, 0, 0, 0, 0b0100_0000, 0, 0, 0]);
        let (a, b) = ([7, 8, 9], [1, 2, 3]);
        assert_eq!(decode(&old).unwrap(), (3, 2, [a, b, a, b, a, b].concat()));
        let top = file((1, -2), (24, 0), &[], &[3, 2, 1, 0, 6, 5, 4, 0]);
        assert_eq!(decode(&top).unwrap(), (1, 2, vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let good = file((2, 2), (24, 0), &[], &[0; 16]);
        assert!(decode(&good).is_ok());
        assert!(problem(&good[..30]).ends_with("the header ends here"));
        let short = "14 bytes of pixels, the file ends after 13";
        assert!(
            problem(&good[..67]).ends_with(short),
            "{}",
            problem(&good[..67])
        );
        assert!(
            decode(&good[..68]).is_ok(),
            "what fills up the last row may be missing"
        );
        let message = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            problem(&bad)
        };
        assert!(message(14, 41).contains("a header of 41 bytes, expected 12, 40"));
        assert!(message(18, 0).contains("0x2, expected 1 to 4096 a side"));
        assert!(message(25, 0x80).contains("expected 1 to 4096 a side"));
        assert!(message(28, 5).contains("5 bits a pixel with compression 0, expected 1, 2"));
        assert!(message(30, 4).contains("24 bits a pixel with compression 4"));
        let runs = file((2, 2), (8, 1), &palette(16), &[2, 0]);
        assert!(problem(&runs).ends_with("the palette ends too early"));
        let mut runs = runs;
        runs[46] = 16;
        assert!(problem(&runs).ends_with("the file ends in a run"));
    }

    proptest! {
        #[test]
        fn numbers_of_all_sizes_come_back(
            bits in prop::sample::select(vec![1_usize, 2, 4, 8]),
            (width, height) in (1_usize..40, 1_usize..5),
            seed: u64,
        ) {
            let count = 1 << bits.min(7);
            let number = |at: usize| (((seed >> (at % 53)) % 128) as usize + at) % count;
            let wanted: Vec<u8> = (0..width * height).map(|at| number(at) as u8).collect();
            let rows: Vec<Vec<u8>> = wanted
                .chunks_exact(width)
                .map(|row| {
                    let mut bytes = vec![0; (width * bits).div_ceil(8)];
                    for (column, &number) in row.iter().enumerate() {
                        bytes[column * bits / 8] |= number << (8 - bits - column * bits % 8);
                    }
                    bytes
                })
                .collect();
            let sides = (width as i32, height as i32);
            let mut file = file(sides, (bits as u16, 0), &palette(count as u8), &stored(&rows));
            file[46] = count as u8;
            prop_assert_eq!(numbers(&file), wanted);
        }

        #[test]
        fn colors_come_back(width in 1_usize..9, height in 1_usize..6, seed: u8) {
            let byte = |at: usize| (at * 89) as u8 ^ seed;
            let pixels: Vec<u8> = (0..3 * width * height).map(byte).collect();
            let found = decode(&write(width, &pixels)).unwrap();
            prop_assert_eq!(found, (width, height, pixels));
        }
    }
}
