//! Instruction sets, found at run time.

/// An instruction set that this machine has.
///
/// Values can only be obtained from [`Isa::detect`], [`Isa::available`] and [`Isa::portable`], so holding one
/// proves that the machine has it. All instruction sets give the same bits: the update loops use only
/// correctly rounded operations, one at a time (no fused multiply-add, no reciprocal estimate).
///
/// ```
/// use cbopt::Isa;
/// assert!(Isa::available().contains(&Isa::detect()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(pub(super) Kind);

/// The sets with a loop of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// What the target guarantees (SSE2 on x86-64).
    Portable,
    /// 256-bit vectors.
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
        Self(Kind::Portable)
    }

    /// The widest instruction set of this machine.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if has_avx512() {
                return Self(Kind::Avx512);
            }
            if has_avx2() {
                return Self(Kind::Avx2);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            return Self(Kind::Neon);
        }
        Self(Kind::Portable)
    }

    /// Every instruction set of this machine, narrowest first.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut all = vec![Self(Kind::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            if has_avx2() {
                all.push(Self(Kind::Avx2));
            }
            if has_avx512() {
                all.push(Self(Kind::Avx512));
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            all.push(Self(Kind::Neon));
        }
        all
    }

    /// Lower-case name: `portable`, `avx2`, `avx512` or `neon`.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "neon",
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
