//! The widest instructions that the machine has, for loops that are written once.

#![expect(
    unsafe_code,
    reason = "instructions of a machine that was found at run time"
)]

use std::sync::OnceLock;

/// Which instructions loops are run with; all give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simd {
    /// Those that every machine has.
    Portable,
    /// AVX2.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Simd {
    /// Every kind, the narrowest first.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];

    /// Returns whether this machine has the instructions.
    pub fn is_here(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Returns the widest that this machine has.
    #[inline]
    pub fn widest() -> Self {
        static WIDEST: OnceLock<Simd> = OnceLock::new();
        *WIDEST.get_or_init(|| {
            let here = Self::ALL.into_iter().rev().find(|simd| simd.is_here());
            here.unwrap_or(Self::Portable)
        })
    }
}

/// Does work, whose loops the compiler turns into the widest instructions of the machine. What the work
/// calls has to be inlined.
#[inline]
pub(super) fn widest<R>(work: impl FnOnce() -> R) -> R {
    match Simd::widest() {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => {
            // SAFETY: `Simd::widest` is what the machine has.
            unsafe { on_avx512(work) }
        }
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => {
            // SAFETY: `Simd::widest` is what the machine has.
            unsafe { on_avx2(work) }
        }
        _ => work(),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2")]
fn on_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn on_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
