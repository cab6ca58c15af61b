//! The drawn letters: capital A to Z written with a round pen, 28x28 gray, light on dark.
//!
//! Every image is a pure function of (seed, index). The letter is `index mod 26`. Its outline is a
//! few straight and curved strokes whose points are moved a little, then the whole is stretched,
//! slanted, turned and shifted at random and drawn with a pen of random width and brightness. A
//! pixel is `clamp(w/2 + ½ - d, 0, 1)` for a pen of width `w` whose path passes at distance `d`
//! from its center.
//!
//! Only `+ - * /` and the square root are used, which every machine rounds alike: the set is the
//! same bytes everywhere. It serves as data that a classifier of clothing has never seen.

use crate::error::Result;
use crate::image_set::{ImageSet, Shape};
use crate::random::Purpose;
use random::Words;

/// Side of an image.
const SIDE: usize = 28;

/// Straight pieces per curve.
const PIECES: usize = 8;

/// Seed and number of the images of the set that the library calls `letters`.
pub(crate) const DEFAULT: (u64, usize) = (0, 2600);

/// The letters in a box from (0, 0), top left, to (100, 100): `M` lifts the pen and moves it, `L`
/// draws a line, `Q` a curve that leaves towards its first point and ends in its second.
const GLYPHS: [&str; 26] = [
    "M0 100 L50 0 L100 100 M19 64 L81 64",
    "M10 0 L10 100 M10 0 L50 0 Q86 0 86 24 Q86 48 50 48 L10 48 M50 48 Q95 48 95 74 Q95 100 50 100 L10 100",
    "M92 20 Q78 0 52 0 Q8 0 8 50 Q8 100 52 100 Q78 100 92 80",
    "M10 0 L10 100 M10 0 L40 0 Q92 0 92 50 Q92 100 40 100 L10 100",
    "M90 0 L12 0 L12 100 L90 100 M12 48 L75 48",
    "M90 0 L12 0 L12 100 M12 48 L75 48",
    "M90 18 Q78 0 50 0 Q6 0 6 50 Q6 100 50 100 Q92 100 92 56 L56 56",
    "M10 0 L10 100 M90 0 L90 100 M10 50 L90 50",
    "M50 0 L50 100 M24 0 L76 0 M24 100 L76 100",
    "M70 0 L70 68 Q70 100 40 100 Q12 100 12 72 M42 0 L95 0",
    "M12 0 L12 100 M88 0 L12 56 M36 40 L90 100",
    "M15 0 L15 100 L88 100",
    "M5 100 L5 0 L50 60 L95 0 L95 100",
    "M10 100 L10 0 L90 100 L90 0",
    "M50 0 Q95 0 95 50 Q95 100 50 100 Q5 100 5 50 Q5 0 50 0",
    "M12 100 L12 0 L50 0 Q90 0 90 27 Q90 54 50 54 L12 54",
    "M50 0 Q95 0 95 50 Q95 100 50 100 Q5 100 5 50 Q5 0 50 0 M60 68 L98 106",
    "M12 100 L12 0 L50 0 Q90 0 90 27 Q90 54 50 54 L12 54 M46 54 L90 100",
    "M88 17 Q74 0 50 0 Q12 0 12 25 Q12 45 50 50 Q90 55 90 77 Q90 100 50 100 Q22 100 8 83",
    "M5 0 L95 0 M50 0 L50 100",
    "M10 0 L10 58 Q10 100 50 100 Q90 100 90 58 L90 0",
    "M5 0 L50 100 L95 0",
    "M0 0 L24 100 L50 34 L76 100 L100 0",
    "M8 0 L92 100 M92 0 L8 100",
    "M5 0 L50 50 L95 0 M50 50 L50 100",
    "M10 0 L90 0 L10 100 L90 100",
];

/// Draws `images` letters, A to Z over and over.
///
/// Cost: some ten microseconds an image.
///
/// ```
/// let letters = datasets::letters(7, 52)?;
/// assert_eq!(letters.len(), 52);
/// assert_eq!(letters.labels()[27], 1); // a second B
/// assert_eq!(letters.class_names().map(|names| &names[1][..]), Some("B"));
/// # Ok::<(), datasets::Error>(())
/// ```
///
/// # Errors
/// There are more than 2³² images.
pub fn letters(seed: u64, images: usize) -> Result<ImageSet> {
    let shape = Shape::new(1, SIDE, SIDE);
    let mut pixels = Vec::with_capacity(images * shape.len());
    let mut distances = [0.0; SIDE * SIDE];
    for index in 0..images {
        let mut draw = Draw(Purpose::Letters.stream(seed, index as u64));
        let half_width = draw.between(0.75, 1.75);
        let brightness = draw.between(190.0, 255.0);
        let place = Place::random(&mut draw);
        distances.fill(f64::INFINITY);
        for stroke in strokes(GLYPHS[index % 26], &mut draw, &place) {
            for ends in stroke.windows(2) {
                mark(&mut distances, ends[0], ends[1], half_width + 0.5);
            }
        }
        pixels.extend(distances.iter().map(|square| {
            let cover = (half_width + 0.5 - square.sqrt()).clamp(0.0, 1.0);
            (brightness * cover).round() as u8
        }));
    }
    let labels = (0..images).map(|index| (index % 26) as u32).collect();
    let names = ('A'..='Z').map(String::from).collect();
    ImageSet::new("letters", shape, 26, Some(names), pixels, labels)
}

/// Random numbers of one image.
struct Draw(Words);

impl Draw {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * f64::from(self.0.word()) / 4_294_967_296.0
    }
}

type Point = (f64, f64);

/// From the glyph's box to pixels: a linear map about the center of the box, then a shift.
struct Place {
    linear: [[f64; 2]; 2],
    center: Point,
}

impl Place {
    fn random(draw: &mut Draw) -> Self {
        let height = draw.between(14.0, 19.0);
        let width = height * draw.between(0.62, 0.92);
        let slant = draw.between(-0.22, 0.22);
        // cosine and sine of an angle of up to 14 degrees, by the tangent of its half
        let tangent = draw.between(-0.12, 0.12);
        let square = tangent * tangent;
        let (cos, sin) = (
            (1.0 - square) / (1.0 + square),
            2.0 * tangent / (1.0 + square),
        );
        // turn · slant · stretch, written out
        let linear = [
            [cos * width, (cos * slant - sin) * height],
            [sin * width, (sin * slant + cos) * height],
        ];
        let middle = SIDE as f64 / 2.0;
        let center = (
            middle + draw.between(-1.5, 1.5),
            middle + draw.between(-1.5, 1.5),
        );
        Self { linear, center }
    }

    fn apply(&self, (x, y): Point) -> Point {
        let (x, y) = (x - 0.5, y - 0.5);
        let [[a, b], [c, d]] = self.linear;
        (self.center.0 + a * x + b * y, self.center.1 + c * x + d * y)
    }
}

/// The strokes of a glyph as chains of points in pixels.
fn strokes(glyph: &str, draw: &mut Draw, place: &Place) -> Vec<Vec<Point>> {
    let starts = glyph.match_indices(['M', 'L', 'Q']).map(|(start, _)| start);
    let starts: Vec<usize> = starts.chain([glyph.len()]).collect();
    let mut strokes: Vec<Vec<Point>> = Vec::new();
    for ends in starts.windows(2) {
        let (command, numbers) = glyph[ends[0]..ends[1]].split_at(1);
        let mut numbers = numbers.split_whitespace().map(|number| {
            let number: f64 = number.parse().expect("glyphs consist of whole numbers");
            number / 100.0 + draw.between(-0.035, 0.035)
        });
        let mut points = Vec::with_capacity(2);
        while let (Some(x), Some(y)) = (numbers.next(), numbers.next()) {
            points.push(place.apply((x, y)));
        }
        match (command, &points[..], strokes.last_mut()) {
            ("M", &[start], _) => strokes.push(vec![start]),
            ("L", &[end], Some(stroke)) => stroke.push(end),
            ("Q", &[control, end], Some(stroke)) => curve(stroke, control, end),
            _ => unreachable!("a glyph is M x y, then L x y or Q x y x y"),
        }
    }
    strokes
}

/// Continues a stroke by the curve `(1-t)² a + 2t(1-t) b + t² c`, `a` the end of the stroke so far.
fn curve(stroke: &mut Vec<Point>, b: Point, c: Point) {
    let Some(&a) = stroke.last() else { return };
    stroke.extend((1..=PIECES).map(|piece| {
        let t = piece as f64 / PIECES as f64;
        let (u, v, w) = ((1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t);
        (u * a.0 + v * b.0 + w * c.0, u * a.1 + v * b.1 + w * c.1)
    }));
}

/// Lowers the squared distances of all pixel centers within `reach` of the piece from `a` to `b`.
fn mark(squares: &mut [f64; SIDE * SIDE], a: Point, b: Point, reach: f64) {
    let range = |p: f64, q: f64| {
        let low = (p.min(q) - reach - 0.5).clamp(0.0, SIDE as f64);
        let high = (p.max(q) + reach + 0.5).clamp(0.0, SIDE as f64);
        low as usize..high as usize
    };
    let (along_x, along_y) = (b.0 - a.0, b.1 - a.1);
    let length = along_x * along_x + along_y * along_y;
    for row in range(a.1, b.1) {
        for column in range(a.0, b.0) {
            let (x, y) = (column as f64 + 0.5 - a.0, row as f64 + 0.5 - a.1);
            // the nearest point of the piece; its beginning if it has no length
            let share = (x * along_x + y * along_y) / length;
            let share = if share > 0.0 { share.min(1.0) } else { 0.0 };
            let (dx, dy) = (x - share * along_x, y - share * along_y);
            let square = &mut squares[row * SIDE + column];
            *square = square.min(dx * dx + dy * dy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::sha256;
    use images::Normalization;

    #[test]
    fn the_set_is_the_same_bytes_everywhere() {
        let (seed, images) = DEFAULT;
        let set = letters(seed, images).unwrap();
        let sum = "50cbfb3001ce5ebfa6dd49a54118072f5905bda9309a7acae3c678a3a1b25ad2";
        assert_eq!(sha256(set.pixels()), sum);
        // the constants of the manifest, to the four digits they have
        let (found, listed) = (
            Normalization::measured(set.images()),
            crate::manifest::normalization("letters").unwrap(),
        );
        assert!(
            (found.mean()[0] - listed.mean()[0]).abs() < 5e-5,
            "{found:?}"
        );
        assert!((found.std()[0] - listed.std()[0]).abs() < 5e-5, "{found:?}");
    }

    #[test]
    fn an_image_depends_on_seed_and_index_alone() {
        let long = letters(3, 60).unwrap();
        let short = letters(3, 30).unwrap();
        assert_eq!(long.image(29), short.image(29));
        assert_ne!(long.image(3), long.image(29), "two Ds");
        assert_ne!(long.image(3), letters(4, 30).unwrap().image(3));
    }

    #[test]
    fn letters_are_well_inside_and_bright() {
        let set = letters(1, 26 * 40).unwrap();
        for index in 0..set.len() {
            let image = set.image(index);
            let name = &set.class_names().unwrap()[set.labels()[index] as usize];
            let ink: f64 = image.iter().map(|&pixel| f64::from(pixel) / 255.0).sum();
            assert!((15.0..350.0).contains(&ink), "{name} {index}: {ink}");
            let border = (0..28).flat_map(|i| [i, 27 * 28 + i, 28 * i, 28 * i + 27]);
            let border: u32 = border.map(|place| u32::from(image[place])).sum();
            assert!(
                border < 4 * 255,
                "{name} {index} touches the border: {border}"
            );
            assert!(*image.iter().max().unwrap() >= 150, "{name} {index}");
        }
    }

    /// The obvious way to the distance from a piece: the nearest of many points on it.
    #[test]
    fn the_distance_is_that_of_the_nearest_point() {
        let (a, b) = ((3.2, 20.0), (21.7, 9.4));
        let mut squares = [f64::INFINITY; SIDE * SIDE];
        mark(&mut squares, a, b, 3.0);
        for (place, &square) in squares.iter().enumerate() {
            let (x, y) = ((place % SIDE) as f64 + 0.5, (place / SIDE) as f64 + 0.5);
            let nearest = (0..=10_000)
                .map(|step| {
                    let t = f64::from(step) / 10_000.0;
                    let (dx, dy) = (a.0 + t * (b.0 - a.0) - x, a.1 + t * (b.1 - a.1) - y);
                    (dx * dx + dy * dy).sqrt()
                })
                .fold(f64::INFINITY, f64::min);
            if square.is_finite() {
                assert!((square.sqrt() - nearest).abs() < 2e-3, "{place}");
            } else {
                assert!(nearest > 3.0, "{place}");
            }
        }
        // a piece without length is its point
        let mut squares = [f64::INFINITY; SIDE * SIDE];
        mark(&mut squares, (5.5, 5.5), (5.5, 5.5), 1.0);
        assert_eq!(squares[5 * SIDE + 6], 1.0);
    }
}
