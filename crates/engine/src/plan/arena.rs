//! Places buffers in one arena so that those alive at the same time do not overlap.

/// Offsets of the buffers, with `gap` entries after each, and the length of the arena. `lives` are
/// first and last use, `None` for buffers without use.
pub(super) fn place(
    sizes: &[usize],
    lives: &[Option<(usize, usize)>],
    gap: usize,
) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..sizes.len()).filter(|&i| lives[i].is_some()).collect();
    // The largest first: the small ones then fill the gaps.
    order.sort_by_key(|&i| (std::cmp::Reverse(sizes[i]), lives[i]));
    let mut offsets = vec![0; sizes.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut total = 0;
    for i in order {
        let (start, end) = lives[i].unwrap_or_default();
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&j| lives[j].is_some_and(|(s, e)| s <= end && start <= e))
            .map(|&j| (offsets[j], offsets[j] + sizes[j] + gap))
            .collect();
        taken.sort_unstable();
        let mut at = 0;
        for (from, to) in taken {
            if at + sizes[i] + gap <= from {
                break;
            }
            at = at.max(to);
        }
        offsets[i] = at;
        total = total.max(at + sizes[i] + gap);
        placed.push(i);
    }
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn buffers_that_live_together_do_not_overlap(
            buffers in prop::collection::vec((1usize..50, 0usize..20, 0usize..20), 1..30),
            gap in 0usize..4,
        ) {
            let sizes: Vec<usize> = buffers.iter().map(|b| b.0).collect();
            let lives: Vec<_> = buffers.iter().map(|b| Some((b.1.min(b.2), b.1.max(b.2)))).collect();
            let (offsets, total) = place(&sizes, &lives, gap);
            for i in 0..sizes.len() {
                prop_assert!(offsets[i] + sizes[i] <= total);
                for j in 0..i {
                    let (a, b) = (lives[i].unwrap(), lives[j].unwrap());
                    if a.0 <= b.1 && b.0 <= a.1 {
                        let apart = offsets[i] + sizes[i] <= offsets[j]
                            || offsets[j] + sizes[j] <= offsets[i];
                        prop_assert!(apart, "{} and {}", i, j);
                    }
                }
            }
        }
    }
}
