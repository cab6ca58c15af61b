//! One function, compiled once per instruction set and chosen at run time.

/// Makes a function whose first argument, an [`Isa`](crate::Isa), chooses the instruction set that
/// the rest is compiled for.
///
/// What the body calls must be `#[inline(always)]` to be compiled for that set, too. With one body
/// the compiler vectorizes it for each set; where the body itself differs, one is given per set,
/// all four of them.
///
/// A function with one body is safe: an [`Isa`](crate::Isa) proves that the machine has the set. An
/// `unsafe fn` hands the promises of its caller on to its bodies.
///
/// ```
/// use machine::Isa;
///
/// machine::dispatch! {
///     /// Adds `b` to `a`.
///     fn add(isa: Isa, a: &mut [f32], b: &[f32]) {
///         a.iter_mut().zip(b).for_each(|(a, b)| *a += b)
///     }
/// }
/// let mut sum = [1.0, 2.0];
/// add(Isa::detect(), &mut sum, &[3.0, 4.0]);
/// assert_eq!(sum, [4.0, 6.0]);
/// ```
#[macro_export]
macro_rules! dispatch {
    // The functions, each with its body, and the choice between them.
    (@choose [$($safety:tt)?] [$($generic:tt)*] $isa:ident ($($argument:ident: $type:ty),*) [$($output:tt)*]
        $portable:tt $avx2:tt $avx512:tt $neon:tt
    ) => {{
        #[inline(never)]
        #[allow(clippy::too_many_arguments)]
        $($safety)? fn portable<$($generic)*>($($argument: $type),*) $($output)* $portable
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        #[allow(clippy::too_many_arguments)]
        $($safety)? fn avx2<$($generic)*>($($argument: $type),*) $($output)* $avx2
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,avx512f,avx512vl,avx512bw,avx512dq")]
        #[allow(clippy::too_many_arguments)]
        $($safety)? fn avx512<$($generic)*>($($argument: $type),*) $($output)* $avx512
        #[cfg(target_arch = "aarch64")]
        #[target_feature(enable = "neon")]
        #[allow(clippy::too_many_arguments)]
        $($safety)? fn neon<$($generic)*>($($argument: $type),*) $($output)* $neon

        // SAFETY: an `Isa` of a kind exists only after its features were detected on this machine;
        // what an unsafe body asks for is the promise of the caller.
        #[allow(unused_unsafe)]
        unsafe {
            match $isa.kind() {
                $crate::IsaKind::Portable => portable($($argument),*),
                #[cfg(target_arch = "x86_64")]
                $crate::IsaKind::Avx2 => avx2($($argument),*),
                #[cfg(target_arch = "x86_64")]
                $crate::IsaKind::Avx512 => avx512($($argument),*),
                #[cfg(target_arch = "aarch64")]
                $crate::IsaKind::Neon => neon($($argument),*),
            }
        }
    }};
    // One body for all.
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident $(<$generic:ident: $bound:path>)?
            ($isa:ident: Isa, $($argument:ident: $type:ty),+ $(,)?) $(-> $output:ty)? $body:block
    ) => {
        $(#[$attribute])*
        #[allow(clippy::too_many_arguments)]
        $visibility fn $name $(<$generic: $bound>)? ($isa: $crate::Isa, $($argument: $type),+) $(-> $output)? {
            $crate::dispatch!(@choose [] [$($generic: $bound)?] $isa ($($argument: $type),+) [$(-> $output)?]
                $body $body $body $body)
        }
    };
    // One body each.
    (
        $(#[$attribute:meta])*
        $visibility:vis unsafe fn $name:ident ($isa:ident: Isa, $($argument:ident: $type:ty),+ $(,)?) {
            portable: $portable:block,
            avx2: $avx2:block,
            avx512: $avx512:block,
            neon: $neon:block $(,)?
        }
    ) => {
        $(#[$attribute])*
        #[allow(clippy::too_many_arguments)]
        $visibility unsafe fn $name($isa: $crate::Isa, $($argument: $type),+) {
            $crate::dispatch!(@choose [unsafe] [] $isa ($($argument: $type),+) [] $portable $avx2 $avx512 $neon)
        }
    };
}

/// Work that is compiled once per instruction set; see [`Isa::run`](crate::Isa::run).
pub trait Work {
    /// What the work gives back.
    type Output;
    /// Does the work. Must be `#[inline(always)]`, else it is compiled for what the target
    /// guarantees.
    fn run(self) -> Self::Output;
}

dispatch! {
    fn run<W: Work>(isa: Isa, work: W) -> W::Output {
        work.run()
    }
}

impl crate::Isa {
    /// Does `work` with this instruction set.
    #[inline]
    pub fn run<W: Work>(self, work: W) -> W::Output {
        run(self, work)
    }
}

#[cfg(test)]
mod tests {
    use crate::Isa;

    dispatch! {
        fn sum<I: IntoIterator<Item = u32>>(isa: Isa, numbers: I) -> u32 {
            numbers.into_iter().sum()
        }
    }
    dispatch! {
        unsafe fn name(isa: Isa, to: *mut &'static str) {
            portable: {
                // SAFETY: the test passes a valid pointer.
                unsafe { *to = "portable" }
            },
            avx2: {
                // SAFETY: the test passes a valid pointer.
                unsafe { *to = "avx2" }
            },
            avx512: {
                // SAFETY: the test passes a valid pointer.
                unsafe { *to = "avx512" }
            },
            neon: {
                // SAFETY: the test passes a valid pointer.
                unsafe { *to = "neon" }
            },
        }
    }

    #[test]
    fn every_instruction_set_runs_its_own_form() {
        for isa in Isa::available() {
            assert_eq!(sum(isa, [1, 2, 3]), 6);
            let mut got = "";
            // SAFETY: the pointer is valid.
            unsafe { name(isa, &raw mut got) };
            assert_eq!(got, isa.name());
        }
    }
}
