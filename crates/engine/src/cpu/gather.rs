//! Images to `[size][16]`, sixteen side by side; lanes without an image get the first one.
//!
//! So they compute nothing that a lane with an image does not compute, and the gradient 0 that they
//! begin with stays 0. A black image, of which nothing is known, could overflow, and 0 times
//! infinity would spoil the sums over the lanes.

use images::{Images, Table, Visit};

use super::vector::{LANES, Vector, kernel};

/// Images `[n, size]`, row-major, to `[size][16]`.
#[inline(always)]
unsafe fn gather<V: Vector>(images: *const f32, count: usize, size: usize, out: *mut f32) {
    // SAFETY: the caller promises `count` images of `size` numbers and `size` vectors to write.
    unsafe {
        let mut e = 0;
        while count == LANES && e + 16 <= size {
            V::transpose(images.add(e), size, out.add(e * LANES), LANES);
            e += 16;
        }
        while e < size {
            // Short runs per image keep the lines that are written in the first cache.
            let end = (e + 16).min(size);
            for lane in 0..LANES {
                let image = if lane < count { lane } else { 0 };
                for i in e..end {
                    *out.add(i * LANES + lane) = *images.add(image * size + i);
                }
            }
            e = end;
        }
    }
}
kernel!(run_gather = gather(images: *const f32, count: usize, size: usize, out: *mut f32));

/// Up to sixteen visits to byte images, to `[channels][height][width][16]`; the same numbers as
/// [`Visit::write`] gives.
pub(super) fn gather_visits(
    images: &Images,
    tables: &[Table],
    visits: &[Visit],
    out: &mut [[f32; LANES]],
) {
    let shape = images.shape();
    // Row by row for all lanes: the lines that are written stay in the first cache.
    for (row, cells) in out.chunks_exact_mut(shape.width).enumerate() {
        let (channel, y) = (row / shape.height, row % shape.height);
        let table = &tables[channel];
        for lane in 0..LANES {
            let visit = visits.get(lane).unwrap_or(&visits[0]);
            let plane = &images.image(visit.image as usize)[channel * shape.plane()..];
            let Some((row, inside)) = visit.row(shape, y) else {
                cells.iter_mut().for_each(|cell| cell[lane] = table[0]);
                continue;
            };
            let (before, rest) = cells.split_at_mut(inside.start);
            let (seen, after) = rest.split_at_mut(inside.len());
            for cell in before.iter_mut().chain(after) {
                cell[lane] = table[0];
            }
            let ends = [inside.start, inside.end - 1].map(|x| visit.column(shape, x));
            let line = &plane[row * shape.width..][..shape.width];
            if visit.flip {
                let line = line[ends[1]..=ends[0]].iter().rev();
                for (cell, &pixel) in seen.iter_mut().zip(line) {
                    cell[lane] = table[pixel as usize];
                }
            } else {
                for (cell, &pixel) in seen.iter_mut().zip(&line[ends[0]..=ends[1]]) {
                    cell[lane] = table[pixel as usize];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use images::{Normalization, Shape};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn visits_are_gathered_as_they_are_written(
            (channels, height, width) in (1usize..4, 1usize..9, 1usize..9),
            visits in prop::collection::vec((0u32..3, -9i8..=9, -9i8..=9, any::<bool>()), 1..=16),
            bytes in prop::collection::vec(any::<u8>(), 3 * 3 * 8 * 8),
        ) {
            let shape = Shape::new(channels, height, width);
            let pixels = bytes[..3 * shape.len()].to_vec();
            let images = Images::new(shape, 1, pixels, vec![0; 3]).unwrap();
            let std = (1..=channels).map(|c| c as f32 / 5.0).collect();
            let tables = Normalization::new(vec![0.3; channels], std).unwrap().tables();
            let visits: Vec<Visit> =
                visits.into_iter().map(|(i, down, right, flip)| Visit::new(i, down, right, flip)).collect();
            let mut out = vec![[f32::NAN; LANES]; shape.len()];
            gather_visits(&images, &tables, &visits, &mut out);
            for lane in 0..LANES {
                let mut want = vec![f32::NAN; shape.len()];
                visits.get(lane).unwrap_or(&visits[0]).write(&images, &tables, &mut want);
                let got: Vec<f32> = out.iter().map(|cell| cell[lane]).collect();
                prop_assert_eq!(got, want);
            }
        }
    }
}
