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
    /// A random choice of the same share of every class.
    Stratified {
        /// Seed of the choice.
        seed: u64,
    },
}

/// Indices of the images with these labels, to train on and to validate with, each in increasing
/// order.
///
/// Validation gets `n · validation_share` of the `n` images, rounded to the nearest whole number;
/// training the rest.
///
/// ```
/// use datasets::{SplitOrder, split};
///
/// let labels = vec![0; 60_000];
/// let (train, validation) = split(&labels, 0.1, SplitOrder::Index)?;
/// assert_eq!((train.len(), validation.len()), (54_000, 6_000));
/// assert_eq!((train[53_999], validation[0]), (53_999, 54_000));
/// // a fifth of each class
/// let labels = [[0; 20], [1; 20], [2; 20]].concat();
/// let (_, validation) = split(&labels, 0.2, SplitOrder::Stratified { seed: 0 })?;
/// let of = |class| validation.iter().filter(|&&i| labels[i as usize] == class).count();
/// assert_eq!([of(0), of(1), of(2)], [4, 4, 4]);
/// # Ok::<(), datasets::Error>(())
/// ```
///
/// # Errors
/// The share is not in `[0, 1)`, or `n` does not fit into 32 bits.
pub fn split(
    labels: &[u32],
    validation_share: f64,
    order: SplitOrder,
) -> Result<(Vec<u32>, Vec<u32>)> {
    let allowed = (0.0..1.0).contains(&validation_share);
    images::check("validation share", validation_share, "[0, 1)", allowed)?;
    let n = labels.len();
    let count = u32::try_from(n)
        .map_err(|_| images::Error::out_of_range("images to split", n as f64, "0..=4294967295"))?;
    let held_back = (n as f64 * validation_share).round() as usize;
    let mut train: Vec<u32> = (0..count).collect();
    let mut validation = match order {
        SplitOrder::Index => train.split_off(n - held_back),
        SplitOrder::Shuffled { seed } => {
            Purpose::Split.stream(seed, 0).shuffle(&mut train);
            train.split_off(n - held_back)
        }
        SplitOrder::Stratified { seed } => {
            let mut classes = by_class(labels);
            let shares = apportion(&classes, held_back);
            train.clear();
            let mut validation = Vec::with_capacity(held_back);
            for (number, (class, share)) in (1..).zip(classes.iter_mut().zip(shares)) {
                Purpose::Split.stream(seed, number).shuffle(class);
                validation.extend(class.split_off(class.len() - share));
                train.append(class);
            }
            validation
        }
    };
    train.sort_unstable();
    validation.sort_unstable();
    Ok((train, validation))
}

/// Indices of `count` of the images with these labels, the first ones of every class, so that the
/// classes keep their shares; in increasing order. All if there are no more.
///
/// ```
/// let labels = [0, 0, 0, 0, 0, 0, 1, 1, 1];
/// assert_eq!(datasets::stratified_part(&labels, 3), [0, 1, 6]);
/// ```
pub fn stratified_part(labels: &[u32], count: usize) -> Vec<u32> {
    let classes = by_class(labels);
    let shares = apportion(&classes, count.min(labels.len()));
    let firsts = classes.iter().zip(shares);
    let mut part: Vec<u32> = firsts
        .flat_map(|(class, share)| class[..share].iter().copied())
        .collect();
    part.sort_unstable();
    part
}

/// The images of every class up to the largest label, in increasing order.
fn by_class(labels: &[u32]) -> Vec<Vec<u32>> {
    let classes = labels.iter().max().map_or(0, |&last| last as usize + 1);
    let mut images = vec![Vec::new(); classes];
    for (image, &label) in (0..).zip(labels) {
        images[label as usize].push(image);
    }
    images
}

/// How many of `total` fall to each class in proportion to its size: whole shares first, what is
/// left to those with the largest remainders, of equal ones to the first.
fn apportion(classes: &[Vec<u32>], total: usize) -> Vec<usize> {
    let images: usize = classes.iter().map(Vec::len).sum();
    if images == 0 {
        return vec![0; classes.len()];
    }
    // in 128 bits nothing overflows
    let product = |class: &Vec<u32>| class.len() as u128 * total as u128;
    let whole = |class: &Vec<u32>| (product(class) / images as u128) as usize;
    let mut shares: Vec<usize> = classes.iter().map(whole).collect();
    let mut order: Vec<usize> = (0..classes.len()).collect();
    order.sort_by_key(|&class| std::cmp::Reverse(product(&classes[class]) % images as u128));
    let left = total - shares.iter().sum::<usize>();
    for &class in order.iter().take(left) {
        shares[class] += 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_image_is_on_one_side(
            labels in prop::collection::vec(0_u32..9, 0..500), share in 0.0..1.0, seed: u64,
        ) {
            let n = labels.len();
            let (shuffled, stratified) = (SplitOrder::Shuffled { seed }, SplitOrder::Stratified { seed });
            for order in [SplitOrder::Index, shuffled, stratified] {
                let (train, validation) = split(&labels, share, order).unwrap();
                prop_assert!((validation.len() as f64 - n as f64 * share).abs() <= 0.5);
                let mut all = [train, validation].concat();
                all.sort_unstable();
                prop_assert_eq!(all, (0..n as u32).collect::<Vec<_>>());
            }
        }

        #[test]
        fn every_class_keeps_its_share(
            labels in prop::collection::vec(0_u32..9, 1..500), share in 0.0..1.0, seed: u64,
        ) {
            let n = labels.len() as f64;
            let (_, validation) = split(&labels, share, SplitOrder::Stratified { seed }).unwrap();
            let part = stratified_part(&labels, validation.len());
            prop_assert_eq!(part.len(), validation.len());
            for class in 0..9 {
                let is = |label: u32| label == class;
                let all = labels.iter().filter(|&&label| is(label)).count() as f64;
                let fair = all * validation.len() as f64 / n;
                for chosen in [&validation, &part] {
                    let count = chosen.iter().filter(|&&i| is(labels[i as usize])).count() as f64;
                    prop_assert!((count - fair).abs() < 1.0, "{count} of {all}, fair is {fair}");
                }
            }
        }
    }

    #[test]
    fn the_seed_decides_the_shuffled_split() {
        let labels = [0; 1000];
        let of = |order| split(&labels, 0.1, order).unwrap().1;
        let shuffled = |seed| of(SplitOrder::Shuffled { seed });
        let stratified = |seed| of(SplitOrder::Stratified { seed });
        assert_eq!(shuffled(3), shuffled(3));
        assert_ne!(shuffled(3), shuffled(4));
        // a tenth of the chosen images lies in every tenth of the set, roughly
        let low = shuffled(3).iter().filter(|&&index| index < 500).count();
        assert!((25..=75).contains(&low), "{low}");
        assert_eq!(stratified(3), stratified(3));
        assert_ne!(stratified(3), stratified(4));
    }

    #[test]
    fn a_senseless_share_is_refused() {
        for share in [-0.1, 1.0, f64::NAN] {
            assert!(split(&[0; 10], share, SplitOrder::Index).is_err());
        }
    }
}
