//! Which instructions a host computes with, found at run time.

use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
use super::lanes::{Lanes, Portable};

/// Which instructions the host computes with; all give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simd {
    /// Those that every machine has. Without a fused multiply-add random numbers are slow.
    Portable,
    /// AVX2 and FMA.
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
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
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

    /// Returns the name that is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        }
    }

    /// Does work with the instructions, or with those that every machine has if this one lacks them.
    #[expect(
        unsafe_code,
        reason = "functions for machines that are found at run time"
    )]
    #[inline]
    pub(crate) fn run<W: Work>(self, work: W) -> W::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 if self.is_here() => {
                // SAFETY: the machine has the instructions, as was asked just now.
                unsafe { on_avx512(work) }
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 if self.is_here() => {
                // SAFETY: the machine has the instructions, as was asked just now.
                unsafe { on_avx2(work) }
            }
            _ => work.run::<Portable>(),
        }
    }
}

/// What is compiled for each machine. Implementations have to be inlined, with all that they call.
pub(crate) trait Work {
    /// What comes of it.
    type Output;

    /// Does it on a machine with such lanes.
    fn run<L: Lanes>(self) -> Self::Output;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
fn on_avx512<W: Work>(work: W) -> W::Output {
    work.run::<Avx512>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn on_avx2<W: Work>(work: W) -> W::Output {
    work.run::<Avx2>()
}
