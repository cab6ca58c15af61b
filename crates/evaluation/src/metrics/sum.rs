//! Sums of many numbers: in blocks, so that the rounding error grows with the block and the number
//! of blocks instead of with the length, and always in the same order.

/// Numbers added one after the other.
pub(super) const BLOCK: usize = 1024;

/// Sum of all values; infinite if one is.
pub(super) fn sum(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let mut values = values;
    let mut total = 0.0;
    while values.len() > 0 {
        total += values.by_ref().take(BLOCK).sum::<f64>();
    }
    // an empty sum of floats is -0
    total + 0.0
}

/// Mean of all values, of which there is at least one.
pub(super) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    sum(values) / count
}

/// Sum of some terms, the same to the bit in whatever order they stand: classes may be called
/// otherwise. The terms are sorted.
pub(super) fn in_any_order(terms: &mut [f64]) -> f64 {
    terms.sort_unstable_by(f64::total_cmp);
    terms.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_terms_changes_no_bit() {
        let terms = [0.7f64, 0.2, 0.1].map(|p| p * p.ln());
        let [a, b, c] = terms;
        assert_ne!(a + b + c, a + c + b);
        for mut order in [
            [a, b, c],
            [a, c, b],
            [b, a, c],
            [b, c, a],
            [c, a, b],
            [c, b, a],
        ] {
            assert_eq!(in_any_order(&mut order), in_any_order(&mut [a, b, c]));
            assert!((in_any_order(&mut order) - (a + b + c)).abs() < 1e-15);
        }
    }

    #[test]
    fn blocks_keep_the_sum_exact() {
        // a plain sum of a million tenths is off by 1.3e-11 relatively
        let n = 1_000_000;
        let got = sum((0..n).map(|_| 0.1));
        assert!((got - 1e5).abs() < 1e-13 * 1e5, "{got}");
        assert_eq!(mean([1.0, 2.0, 6.0].into_iter()), 3.0);
        assert_eq!(sum([1.0, f64::INFINITY].into_iter()), f64::INFINITY);
    }
}
