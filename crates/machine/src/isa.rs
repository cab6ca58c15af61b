//! Instruction sets, found at run time.

/// An instruction set that this machine has.
///
/// Values come only from [`Isa::detect`], [`Isa::available`], [`Isa::by_name`] and
/// [`Isa::portable`], so holding one proves that the machine has it.
///
/// Whether all sets give the same bits is up to the user: they do where each operation is rounded
/// on its own, as in the update rules of `cbopt`; they do not where a set with fused multiply-add
/// uses it, as the kernels of `engine` do.
///
/// ```
/// use machine::Isa;
/// assert!(Isa::available().contains(&Isa::detect()));
/// assert_eq!(Isa::by_name("portable"), Some(Isa::portable()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(IsaKind);

/// The sets with loops of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsaKind {
    /// What the target guarantees (SSE2 on x86-64).
    Portable,
    /// 256-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 512-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// 128-bit vectors of AArch64.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Isa {
    /// The form without run-time detection.
    pub const fn portable() -> Self {
        Self(IsaKind::Portable)
    }

    /// The widest instruction set of this machine.
    pub fn detect() -> Self {
        *Self::available()
            .last()
            .expect("the portable form is always there")
    }

    /// Which one it is.
    #[inline]
    pub const fn kind(self) -> IsaKind {
        self.0
    }

    /// The set of this name, if the machine has it.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::available().into_iter().find(|isa| isa.name() == name)
    }

    /// Every instruction set of this machine, narrowest first.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut all = vec![Self(IsaKind::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            if has_avx2() {
                all.push(Self(IsaKind::Avx2));
            }
            if has_avx512() {
                all.push(Self(IsaKind::Avx512));
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            all.push(Self(IsaKind::Neon));
        }
        all
    }

    /// Lower-case name: `portable`, `avx2`, `avx512` or `neon`.
    pub const fn name(self) -> &'static str {
        match self.0 {
            IsaKind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            IsaKind::Neon => "neon",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
}
