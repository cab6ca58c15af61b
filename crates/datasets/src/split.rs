//! Split of a training set into the part that is trained on and the part that chooses the weights.

use crate::error::Result;
use crate::random::Purpose;

/// Which images are held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitOrder {
    /// The last ones, the same for every seed: what the paper's runs did.
    Index,
    /// A random choice that depends on the seed alone.
    Shuffled {
        /// Seed of the choice.
        seed: u64,
    },
}

/// Indices of `n` images, to train on and to validate with, each in increasing order.
///
/// Validation gets `n · validation_share` images, rounded to the nearest whole number; training the
/// rest.
///
/// ```
/// use datasets::{SplitOrder, split};
///
/// let (train, validation) = split(60_000, 0.1, SplitOrder::Index)?;
/// assert_eq!((train.len(), validation.len()), (54_000, 6_000));
/// assert_eq!((train[53_999], validation[0]), (53_999, 54_000));
/// # Ok::<(), datasets::Error>(())
/// ```
///
/// # Errors
/// The share is not in `[0, 1)`, or `n` does not fit into 32 bits.
pub fn split(n: usize, validation_share: f64, order: SplitOrder) -> Result<(Vec<u32>, Vec<u32>)> {
    let allowed = (0.0..1.0).contains(&validation_share);
    images::check("validation share", validation_share, "[0, 1)", allowed)?;
    let count = u32::try_from(n)
        .map_err(|_| images::Error::out_of_range("images to split", n as f64, "0..=4294967295"))?;
    let held_back = (n as f64 * validation_share).round() as usize;
    let mut train: Vec<u32> = (0..count).collect();
    if let SplitOrder::Shuffled { seed } = order {
        Purpose::Split.stream(seed, 0).shuffle(&mut train);
    }
    let mut validation = train.split_off(n - held_back);
    train.sort_unstable();
    validation.sort_unstable();
    Ok((train, validation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_image_is_on_one_side(n in 0_usize..500, share in 0.0..1.0, seed: u64) {
            for order in [SplitOrder::Index, SplitOrder::Shuffled { seed }] {
                let (train, validation) = split(n, share, order).unwrap();
                prop_assert!((validation.len() as f64 - n as f64 * share).abs() <= 0.5);
                let mut all = [train, validation].concat();
                all.sort_unstable();
                prop_assert_eq!(all, (0..n as u32).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_seed_decides_the_shuffled_split() {
        let of = |seed| split(1000, 0.1, SplitOrder::Shuffled { seed }).unwrap().1;
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
        // a tenth of the chosen images lies in every tenth of the set, roughly
        let low = of(3).iter().filter(|&&index| index < 500).count();
        assert!((25..=75).contains(&low), "{low}");
    }

    #[test]
    fn a_senseless_share_is_refused() {
        for share in [-0.1, 1.0, f64::NAN] {
            assert!(split(10, share, SplitOrder::Index).is_err());
        }
    }
}
