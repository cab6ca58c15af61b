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

/// Sum of some terms, given by their bits, the same to the bit in whatever order they stand. They
/// are sorted.
pub(super) fn in_any_order(bits: &mut [u64]) -> f64 {
    bits.sort_unstable();
    bits.iter().map(|&bits| f64::from_bits(bits)).sum()
}

/// Sum of terms between 0 and 1, so many of them, the same to the bit in whatever order they stand:
/// as whole numbers, which add up without rounding. What is left out of a term is less than 1e-31
/// for up to a thousand of them, and less than 1e-19 for up to a billion.
pub(super) fn of_shares(count: usize, terms: impl Iterator<Item = f64>) -> f64 {
    // less than 2^62 in all
    let scale = 2f64.powi((count as u64).leading_zeros() as i32 - 2);
    let (mut whole, mut rest) = (0i64, 0i64);
    for term in terms {
        let scaled = term * scale;
        let part = scaled as i64;
        whole += part;
        rest += ((scaled - part as f64) * scale) as i64;
    }
    whole as f64 / scale + rest as f64 / (scale * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_terms_changes_no_bit() {
        let [a, b, c] = [0.7f64, 0.2, 0.1].map(|p| p * p.ln());
        assert_ne!(a + b + c, a + c + b);
        let orders = [
            [a, b, c],
            [a, c, b],
            [b, a, c],
            [b, c, a],
            [c, a, b],
            [c, b, a],
        ];
        let sums = orders.map(|order| in_any_order(&mut order.map(f64::to_bits)));
        assert_eq!(sums, [sums[0]; 6]);
        assert!((sums[0] - (a + b + c)).abs() < 1e-15);
        let shares = orders.map(|order| of_shares(3, order.into_iter().map(|term| -term)));
        assert_eq!(shares, [shares[0]; 6]);
        assert!((shares[0] + (a + b + c)).abs() < 1e-15);
    }

    #[test]
    fn sums_of_shares_are_exact() {
        assert_eq!(of_shares(0, [].into_iter()), 0.0);
        for count in [1, 2, 3, 10, 1000, 100_000] {
            let ones = of_shares(count, std::iter::repeat_n(1.0, count));
            assert_eq!(ones, count as f64);
            let first = std::iter::once(1.0);
            let small = 2f64.powi(-70);
            let rest = std::iter::repeat_n(small, count - 1);
            let found = of_shares(count, first.chain(rest.clone()));
            assert_eq!(found, 1.0 + small * (count - 1) as f64);
            let found = of_shares(count, rest);
            let want = small * (count - 1) as f64;
            assert!(
                (found - want).abs() <= 1e-6 * want,
                "{count}: {found} {want}"
            );
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
