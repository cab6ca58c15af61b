//! What became of each class: right predictions, what its images were taken for, and the surest
//! mistakes.

use super::probability;
use crate::error::{Error, Result};
use crate::results::{ByClass, Mistake};

/// Most pairs of [`ByClass::confused`]; all there can be up to twenty classes.
const PAIRS: usize = 380;
/// Most mistakes that are kept.
const MISTAKES: usize = 6;

/// Sorts probabilities `[n, classes]` by class. Of equal probabilities the lowest class is
/// predicted, as everywhere here. O(n · classes).
///
/// ```
/// // [3, 2]: the last of class 1 is taken for class 0
/// let found = evaluation::by_class(&[0.9f32, 0.1, 0.2, 0.8, 0.75, 0.25], 2, &[0, 1, 1])?;
/// assert_eq!((found.images, found.right), (vec![1, 2], vec![1, 1]));
/// assert_eq!(found.confused, [(1, 0, 1)]);
/// assert_eq!((found.mistakes[0].image, found.mistakes[0].probability), (2, 0.75));
/// # Ok::<(), evaluation::Error>(())
/// ```
///
/// # Errors
/// The matrix is malformed, there are not as many labels as rows, or a label names no class.
pub fn by_class<P: Copy + Into<f64>>(
    probabilities: &[P],
    classes: usize,
    labels: &[u32],
) -> Result<ByClass> {
    let rows = probability::rows(probabilities, classes)?;
    if labels.len() != rows {
        let labels = labels.len();
        return Err(Error::Labels { labels, rows });
    }
    let mut counts = vec![vec![0; classes]; classes];
    let mut mistakes = Vec::new();
    for (image, (row, &label)) in probabilities.chunks_exact(classes).zip(labels).enumerate() {
        let class = label as usize;
        if class >= classes {
            return Err(Error::Label {
                row: image,
                value: label.to_string(),
                classes,
            });
        }
        let (mut predicted, mut probability) = (0, row[0].into());
        for (other, &p) in row.iter().enumerate() {
            if p.into() > probability {
                (predicted, probability) = (other, p.into());
            }
        }
        counts[class][predicted] += 1;
        if predicted != class {
            mistakes.push(Mistake {
                image,
                class,
                predicted,
                probability,
                picture: None,
            });
        }
    }
    // of equally sure ones the first images
    let order = |a: &Mistake, b: &Mistake| {
        let surer = b.probability.total_cmp(&a.probability);
        surer.then(a.image.cmp(&b.image))
    };
    if mistakes.len() > MISTAKES {
        mistakes.select_nth_unstable_by(MISTAKES, order);
        mistakes.truncate(MISTAKES);
        // a record is kept long after the room for all mistakes was needed
        mistakes.shrink_to_fit();
    }
    mistakes.sort_by(order);
    let mut confused: Vec<(usize, usize, usize)> = Vec::new();
    for (class, row) in counts.iter().enumerate() {
        let others = row
            .iter()
            .enumerate()
            .filter(|&(p, &n)| p != class && n > 0);
        confused.extend(others.map(|(predicted, &images)| (class, predicted, images)));
    }
    // stable: of as many images the lowest classes first
    confused.sort_by_key(|&(_, _, images)| std::cmp::Reverse(images));
    confused.truncate(PAIRS);
    confused.shrink_to_fit();
    Ok(ByClass {
        names: Vec::new(),
        images: counts.iter().map(|row| row.iter().sum()).collect(),
        right: (0..classes).map(|class| counts[class][class]).collect(),
        confused,
        mistakes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_surest_mistakes_and_the_most_frequent_confusions_come_first() {
        let rows: [([f64; 3], u32); 6] = [
            ([0.5, 0.3, 0.2], 1),
            ([0.1, 0.8, 0.1], 2),
            ([0.6, 0.2, 0.2], 1),
            ([0.4, 0.4, 0.2], 1),
            ([0.2, 0.2, 0.6], 2),
            ([1.0, 0.0, 0.0], 0),
        ];
        let probabilities: Vec<f64> = rows.iter().flat_map(|row| row.0).collect();
        let labels = rows.map(|row| row.1);
        let found = by_class(&probabilities, 3, &labels).unwrap();
        assert_eq!(found.images, [1, 3, 2]);
        assert_eq!(found.right, [1, 0, 1]);
        // the tie of the fourth is won by class 0
        assert_eq!(found.confused, [(1, 0, 3), (2, 1, 1)]);
        let order: Vec<usize> = found.mistakes.iter().map(|m| m.image).collect();
        assert_eq!(order, [1, 2, 0, 3]);
        // more than are kept, and ties: the surest, and of those the first
        let sure: Vec<f64> = (0..40)
            .map(|i| 0.6 + 0.01 * f64::from(i * 7 % 20))
            .collect();
        let many: Vec<f64> = sure.iter().flat_map(|&p| [p, 1.0 - p]).collect();
        let found = by_class(&many, 2, &[1; 40]).unwrap();
        let mut sorted: Vec<usize> = (0..40).collect();
        sorted.sort_by(|&a, &b| sure[b].total_cmp(&sure[a]));
        let order: Vec<usize> = found.mistakes.iter().map(|m| m.image).collect();
        assert_eq!(order, sorted[..MISTAKES]);
        assert!(by_class(&probabilities, 3, &labels[1..]).is_err());
        assert!(by_class(&probabilities, 3, &[3; 6]).is_err());
    }
}
