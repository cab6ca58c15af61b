//! Standard normal numbers as a pure function of (seed, step, sample, coordinate): those of
//! [`random::normal`], vectorized for the machine. They are the same on every machine, whatever its
//! vectors.

use machine::{Isa, Work};
pub use random::normal::NoiseKey;
pub(crate) use random::normal::fill as fill_inline;

use crate::kernel::BLOCK;

/// Fills `out` with the standard normal numbers of the coordinates `first, first + 1, …`.
///
/// ```
/// use cbopt::noise::{NoiseKey, fill_normal};
/// let key = NoiseKey { seed: 7, step: 1, sample: 0 };
/// let mut all = [0.0; 100];
/// fill_normal(key, 0, &mut all);
/// let mut tail = [0.0; 30];
/// fill_normal(key, 70, &mut tail);
/// assert_eq!(all[70..], tail);
/// ```
pub fn fill_normal(key: NoiseKey, first: u64, out: &mut [f32]) {
    fill_normal_on(Isa::detect(), key, first, out);
}

pub(crate) fn fill_normal_on(isa: Isa, key: NoiseKey, first: u64, out: &mut [f32]) {
    for (number, block) in out.chunks_mut(BLOCK).enumerate() {
        isa.run(Fill {
            key,
            first: first + (number * BLOCK) as u64,
            block,
        });
    }
}

struct Fill<'a> {
    key: NoiseKey,
    first: u64,
    block: &'a mut [f32],
}

impl Work for Fill<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        fill_inline(self.key, self.first, self.block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn a_coordinate_has_one_number_in_every_cut_and_instruction_set(
            seed: u64, step: u64, sample: u32,
            first in prop_oneof![0u64..10_000, (1u64 << 36) - 500..(1u64 << 36) + 500],
            count in 1usize..600,
        ) {
            let key = NoiseKey { seed, step, sample };
            let mut whole = vec![0.0; count];
            fill_normal_on(Isa::portable(), key, first, &mut whole);
            for isa in Isa::available() {
                let cut = count / 3;
                let mut other = vec![0.0; count];
                fill_normal_on(isa, key, first, &mut other[..cut]);
                fill_normal_on(isa, key, first + cut as u64, &mut other[cut..]);
                prop_assert!(whole.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits()));
            }
        }
    }
}
