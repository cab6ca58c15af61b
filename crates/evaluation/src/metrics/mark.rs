//! Confidence of a prediction, and whether it was right, as one number: the bits of the confidence,
//! which has no sign, and after them whether it was right. Marks are in the order of the
//! confidence; among equally sure predictions the wrong come first.

use super::sort;

/// The mark of a confidence in `[0, 1]`.
pub(super) fn of(confidence: f64, right: bool) -> u64 {
    // the sign of -0 is lost
    confidence.to_bits() << 1 | u64::from(right)
}

/// Confidence, and whether it was right.
pub(super) fn read(mark: u64) -> (f64, bool) {
    (f64::from_bits(mark >> 1), mark & 1 == 1)
}

/// AUROC of right against wrong predictions by confidence, right positive: the chance that a right
/// one was surer than a wrong one, a tie counting half. Undefined if all are right or all are
/// wrong. O(n) per round of buckets.
pub(super) fn auroc(mut marks: Vec<u64>) -> Option<f64> {
    sort::sort(&mut marks);
    let (mut right, mut wrong, mut twice_wins) = (0u64, 0u64, 0u64);
    // wrong ones of this confidence
    let (mut tied, mut last) = (0, 0);
    for &mark in &marks {
        let (is_right, is_wrong) = (mark & 1, !mark & 1);
        tied = if mark >> 1 == last { tied } else { 0 };
        last = mark >> 1;
        tied += is_wrong;
        wrong += is_wrong;
        right += is_right;
        // no more images than 32 bits can count: the sum has room
        twice_wins += is_right * (2 * wrong - tied);
    }
    let pairs = right as f64 * wrong as f64;
    (pairs > 0.0).then(|| twice_wins as f64 / (2.0 * pairs))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Ranking;

    #[test]
    fn marks_keep_confidence_and_answer() {
        for confidence in [0.0, 5e-324, 0.1, 0.5, 1.0] {
            for right in [false, true] {
                assert_eq!(read(of(confidence, right)), (confidence, right));
            }
            assert!(of(confidence, false) < of(confidence, true));
        }
        assert!(of(0.5, true) < of(0.5f64.next_up(), false));
    }

    #[test]
    fn ties_count_half() {
        // 0.9 beats both, 0.8 beats one and ties with one
        let marks = [(0.9, true), (0.8, true), (0.8, false), (0.1, false)];
        let marks = marks.map(|(confidence, right)| of(confidence, right));
        assert_eq!(auroc(marks.to_vec()), Some(3.5 / 4.0));
        for right in [false, true] {
            assert_eq!(auroc(vec![of(0.5, right), of(0.75, right)]), None);
        }
    }

    proptest! {
        /// Sorted as two sides and merged, whose own twin compares all pairs.
        #[test]
        fn the_area_is_that_of_a_ranking(
            images in prop::collection::vec(
                (prop_oneof![(0u8..9).prop_map(|k| f64::from(k) / 8.0), 0.0..=1.0f64], any::<bool>()),
                1..3000,
            )
        ) {
            let side = |wanted: bool| -> Vec<f64> {
                let chosen = images.iter().filter(|(_, right)| *right == wanted);
                chosen.map(|(confidence, _)| *confidence).collect()
            };
            let expected = Ranking::new(&side(true), &side(false)).unwrap().auroc();
            let marks = images.iter().map(|&(confidence, right)| of(confidence, right));
            prop_assert_eq!(auroc(marks.collect()), expected);
        }
    }
}
