//! Random arrays by position: the value at an index is a function of (seed, index) alone, with the
//! same bits on every host and every device.
//!
//! Philox4x32-10 turns a counter into 128 bits. One such block serves two doubles or integers: those at
//! the flat indices n and n xor 32, whose counter is the index with bit 5 cleared. It serves four singles:
//! the counter is the index with bits 4 and 5 cleared, and its words (0, 1) give those at the counter
//! and 16 on, its words (2, 3) those 32 and 48 on. So lanes that take consecutive indices, or every
//! second, fourth .. of them, store all values as they come. Only
//! operations that IEEE 754 rounds correctly are used (+, -, *, fused multiply-add, square root), in
//! one written order; no library function is.
//!
//! In reading order: [`philox`] is the generator, `normal` the transformation to normals with all of
//! its numbers, `single` the same in singles, `lanes` what a vector machine has to offer, with `avx2` and
//! `avx512`, `simd` which of them a host has, `fill` goes over indices. `kernels/cuda/random.cuh` and
//! `random_single.cuh` are the same for a device, which is given the numbers of `normal` or `single` with
//! a launch.

pub mod philox;

mod array;
mod fill;
mod lanes;
mod normal;
mod simd;
mod single;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(test)]
mod tests;

pub use array::{Array, ArrayError, Part, Runs, Span, ValueKind};
pub use fill::Values;
pub use normal::{NORMAL_MAX, device_words};
pub use philox::Stream;
pub use simd::Simd;
pub use single::{NORMAL_MAX_SINGLE, device_definitions_single};

pub(crate) use lanes::Lanes;
pub(crate) use simd::Work;
