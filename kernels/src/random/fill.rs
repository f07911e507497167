//! Values at indices: slices of an array, filled by the widest lanes that the machine has.
//!
//! The indices of a slice are `first`, `first + step`, .. . Where the step is a power of two that leaves
//! a group of 64 indices at least as many blocks as there are lanes, all values of a block are used:
//! group by group, the first and last of them in part. Else each index has a block of its own, of
//! which one value is taken.

#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
use super::lanes::{Lanes, Portable, Twice};
use super::normal::{normals, one_to_two};
use super::philox::Stream;
use super::single;

/// Which instructions the host generates with; all give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simd {
    /// Those that every machine has. Without a fused multiply-add it is slow.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F and DQ.
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
                is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq")
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }

    /// Returns the widest that this machine has.
    pub fn widest() -> Self {
        let [_, avx2, avx512] = Self::ALL;
        if avx512.is_here() {
            avx512
        } else if avx2.is_here() {
            avx2
        } else {
            Self::Portable
        }
    }

    /// Returns the name that is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        }
    }
}

/// What the values of an array are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values {
    /// Normals.
    Normal {
        /// The mean.
        location: f64,
        /// The standard deviation.
        scale: f64,
    },
    /// The same chance for all of `low + width * u`, where u is a multiple of 2^-52 from 0 to below 1,
    /// for singles of 2^-23.
    /// Rounding can give `low + width` itself.
    Uniform {
        /// The least value.
        low: f64,
        /// How far the values reach.
        width: f64,
    },
    /// Random integers from `low` on, `count` of them, 2^64 if that is 0: `low` + the high half of bits *
    /// count (Lemire, "Fast random integer generation in an interval", 2019, without the rejection:
    /// no integer's chance is off by more than 2^-64).
    Integers {
        /// The least value.
        low: i64,
        /// How many values there are.
        count: u64,
    },
    /// `start + step * n` at the flat index n, modulo 2^64.
    Series {
        /// The first value.
        start: i64,
        /// How far neighbours are apart.
        step: i64,
    },
    /// One value everywhere.
    Constant(f64),
}

impl Values {
    /// Returns whether the values are 64-bit integers; else they are doubles.
    pub fn are_integers(&self) -> bool {
        matches!(self, Self::Integers { .. } | Self::Series { .. })
    }

    /// Returns whether the values depend on a seed.
    pub fn are_random(&self) -> bool {
        !matches!(self, Self::Series { .. } | Self::Constant(_))
    }

    /// Writes the doubles at the flat indices `first`, `first + step`, .. ; integers as the doubles
    /// nearest to them.
    pub fn fill(&self, simd: Simd, stream: &Stream, first: u64, step: u64, out: &mut [f64]) {
        match *self {
            Self::Normal { location, scale } => {
                fill_drawn(simd, Normal { location, scale }, stream, first, step, out);
            }
            Self::Uniform { low, width } => {
                fill_drawn(simd, Uniform { low, width }, stream, first, step, out);
            }
            Self::Constant(value) => out.fill(value),
            Self::Integers { .. } | Self::Series { .. } => {
                let mut integers = [0; BUFFER];
                for (position, out) in out.chunks_mut(BUFFER).enumerate() {
                    let integers = &mut integers[..out.len()];
                    let first = first.wrapping_add(step.wrapping_mul((position * BUFFER) as u64));
                    self.fill_integers(simd, stream, first, step, integers);
                    for (out, integer) in out.iter_mut().zip(integers) {
                        *out = *integer as f64;
                    }
                }
            }
        }
    }

    /// Writes the singles at the flat indices `first`, `first + step`, ..: they are no rounded doubles
    /// but of a transformation of their own. Integers as the singles nearest to them.
    pub fn fill_singles(
        &self,
        simd: Simd,
        stream: &Stream,
        first: u64,
        step: u64,
        out: &mut [f32],
    ) {
        match *self {
            Self::Normal { location, scale } => {
                let draw = SingleNormal {
                    location: location as f32,
                    scale: scale as f32,
                };
                fill_drawn(simd, draw, stream, first, step, out);
            }
            Self::Uniform { low, width } => {
                let draw = SingleUniform {
                    low: low as f32,
                    width: width as f32,
                };
                fill_drawn(simd, draw, stream, first, step, out);
            }
            Self::Constant(value) => out.fill(value as f32),
            Self::Integers { .. } | Self::Series { .. } => {
                let mut integers = [0; BUFFER];
                for (position, out) in out.chunks_mut(BUFFER).enumerate() {
                    let integers = &mut integers[..out.len()];
                    let first = first.wrapping_add(step.wrapping_mul((position * BUFFER) as u64));
                    self.fill_integers(simd, stream, first, step, integers);
                    for (out, integer) in out.iter_mut().zip(integers) {
                        *out = *integer as f32;
                    }
                }
            }
        }
    }

    /// Writes the integers at the flat indices `first`, `first + step`, .. ; doubles are rounded toward
    /// zero.
    pub fn fill_integers(
        &self,
        simd: Simd,
        stream: &Stream,
        first: u64,
        step: u64,
        out: &mut [i64],
    ) {
        match *self {
            Self::Series { start, step: by } => {
                let by_index = by.wrapping_mul(step as i64);
                let mut value = start.wrapping_add(by.wrapping_mul(first as i64));
                for out in out {
                    *out = value;
                    value = value.wrapping_add(by_index);
                }
            }
            Self::Integers { low, count } => {
                let mut bits = [0; BUFFER];
                for (position, out) in out.chunks_mut(BUFFER).enumerate() {
                    let bits = &mut bits[..out.len()];
                    let first = first.wrapping_add(step.wrapping_mul((position * BUFFER) as u64));
                    fill_bits(simd, stream, first, step, bits);
                    for (out, bits) in out.iter_mut().zip(bits) {
                        *out = integer(low, count, *bits);
                    }
                }
            }
            Self::Normal { .. } | Self::Uniform { .. } | Self::Constant(_) => {
                let mut reals = [0.0; BUFFER];
                for (position, out) in out.chunks_mut(BUFFER).enumerate() {
                    let reals = &mut reals[..out.len()];
                    let first = first.wrapping_add(step.wrapping_mul((position * BUFFER) as u64));
                    self.fill(simd, stream, first, step, reals);
                    for (out, real) in out.iter_mut().zip(reals) {
                        *out = *real as i64;
                    }
                }
            }
        }
    }
}

/// Values that are made of others in pieces of so many.
const BUFFER: usize = 1024;

/// Takes random bits to one of `count` integers from `low` on.
#[inline(always)]
fn integer(low: i64, count: u64, bits: u64) -> i64 {
    let above = match count {
        0 => bits,
        _ => ((u128::from(bits) * u128::from(count)) >> 64) as u64,
    };
    low.wrapping_add(above as i64)
}

/// Makes the values of a block.
trait Draw: Copy {
    type Value: Copy + Default;
    type Lane<L: Lanes>: Copy;
    /// How far apart the indices are whose values are of one block: a group has so many blocks.
    const SPREAD: u64;

    /// Makes the values of blocks and writes them to their group, those of the first block at `at` and
    /// what is [`Draw::SPREAD`] indices on.
    fn draw<L: Lanes>(self, a: L::Word, b: L::Word, at: usize, group: &mut [Self::Value]);
    /// Makes the value of each index from its block.
    fn draw_one<L: Lanes>(self, a: L::Word, b: L::Word, index: L::Word) -> Self::Lane<L>;
    fn store<L: Lanes>(lane: Self::Lane<L>, to: &mut [Self::Value]);
}

/// Writes what all draws of doubles, or of singles, have in common: `pair` makes the two doubles of two
/// words of 64 bits, or of 32 the two singles.
macro_rules! drawn {
    (doubles) => {
        type Value = f64;
        type Lane<L: Lanes> = L::Real;
        const SPREAD: u64 = 32;

        #[inline(always)]
        fn draw<L: Lanes>(self, a: L::Word, b: L::Word, at: usize, group: &mut [f64]) {
            let (first, second) = self.pair::<L>(a, b);
            let (firsts, seconds) = group.split_at_mut(group.len() / 2);
            let place = at..at + L::COUNT;
            L::store(first, &mut firsts[place.clone()]);
            L::store(second, &mut seconds[place]);
        }
        #[inline(always)]
        fn draw_one<L: Lanes>(self, a: L::Word, b: L::Word, index: L::Word) -> L::Real {
            let (first, second) = self.pair::<L>(a, b);
            L::select::<5>(index, first, second)
        }
        #[inline(always)]
        fn store<L: Lanes>(lane: L::Real, to: &mut [f64]) {
            L::store(lane, to);
        }
    };
    (singles) => {
        type Value = f32;
        type Lane<L: Lanes> = L::Single;
        const SPREAD: u64 = 16;

        #[inline(always)]
        fn draw<L: Lanes>(self, a: L::Word, b: L::Word, at: usize, group: &mut [f32]) {
            let spread = group.len() / 4;
            let (before, after) = group.split_at_mut(2 * spread);
            for (word, half) in [(a, before), (b, after)] {
                let (first, second) = self.pair::<L>(L::low_half(word), L::high_half(word));
                let (firsts, seconds) = half.split_at_mut(spread);
                let place = at..at + L::COUNT;
                L::store_singles(first, &mut firsts[place.clone()]);
                L::store_singles(second, &mut seconds[place]);
            }
        }
        #[inline(always)]
        fn draw_one<L: Lanes>(self, a: L::Word, b: L::Word, index: L::Word) -> L::Single {
            let index = L::low_half(index);
            let low = select_half::<L, 5>(index, L::low_half(a), L::low_half(b));
            let high = select_half::<L, 5>(index, L::high_half(a), L::high_half(b));
            let (first, second) = self.pair::<L>(low, high);
            L::select_single::<4>(index, first, second)
        }
        #[inline(always)]
        fn store<L: Lanes>(lane: L::Single, to: &mut [f32]) {
            L::store_singles(lane, to);
        }
    };
}

/// Returns `b` where the bit of the half is set, else `a`.
#[inline(always)]
fn select_half<L: Lanes, const BIT: u32>(half: L::Half, a: L::Half, b: L::Half) -> L::Half {
    let selected = L::select_single::<BIT>(half, L::singles(a), L::singles(b));
    L::single_bits(selected)
}

#[derive(Clone, Copy)]
struct Normal {
    location: f64,
    scale: f64,
}

impl Normal {
    #[inline(always)]
    fn pair<L: Lanes>(self, a: L::Word, b: L::Word) -> (L::Real, L::Real) {
        normals::<L>(a, b, self.location, self.scale)
    }
}

impl Draw for Normal {
    drawn!(doubles);
}

#[derive(Clone, Copy)]
struct Uniform {
    low: f64,
    width: f64,
}

impl Uniform {
    #[inline(always)]
    fn pair<L: Lanes>(self, a: L::Word, b: L::Word) -> (L::Real, L::Real) {
        let (low, width) = (L::splat_real(self.low), L::splat_real(self.width));
        let minus_one = L::splat_real(-1.0);
        let first = L::add_reals(one_to_two::<L>(a), minus_one);
        let second = L::add_reals(one_to_two::<L>(b), minus_one);
        (L::fma(first, width, low), L::fma(second, width, low))
    }
}

impl Draw for Uniform {
    drawn!(doubles);
}

#[derive(Clone, Copy)]
struct SingleNormal {
    location: f32,
    scale: f32,
}

impl SingleNormal {
    #[inline(always)]
    fn pair<L: Lanes>(self, a: L::Half, b: L::Half) -> (L::Single, L::Single) {
        single::normals::<L>(a, b, self.location, self.scale)
    }
}

impl Draw for SingleNormal {
    drawn!(singles);
}

#[derive(Clone, Copy)]
struct SingleUniform {
    low: f32,
    width: f32,
}

impl SingleUniform {
    #[inline(always)]
    fn pair<L: Lanes>(self, a: L::Half, b: L::Half) -> (L::Single, L::Single) {
        let uniform = |word| single::uniform::<L>(word, self.low, self.width);
        (uniform(a), uniform(b))
    }
}

impl Draw for SingleUniform {
    drawn!(singles);
}

/// The bits as they are, in doubles' clothes.
#[derive(Clone, Copy)]
struct Bits;

impl Bits {
    #[inline(always)]
    fn pair<L: Lanes>(self, a: L::Word, b: L::Word) -> (L::Real, L::Real) {
        (L::reals(a), L::reals(b))
    }
}

impl Draw for Bits {
    drawn!(doubles);
}

fn fill_bits(simd: Simd, stream: &Stream, first: u64, step: u64, out: &mut [u64]) {
    let mut reals = [0.0; BUFFER];
    for (position, out) in out.chunks_mut(BUFFER).enumerate() {
        let reals = &mut reals[..out.len()];
        let first = first.wrapping_add(step.wrapping_mul((position * BUFFER) as u64));
        fill_drawn(simd, Bits, stream, first, step, reals);
        for (out, real) in out.iter_mut().zip(reals) {
            *out = real.to_bits();
        }
    }
}

#[expect(
    unsafe_code,
    reason = "functions for machines that are found at run time"
)]
fn fill_drawn<D: Draw>(
    simd: Simd,
    draw: D,
    stream: &Stream,
    first: u64,
    step: u64,
    out: &mut [D::Value],
) {
    match simd {
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 if simd.is_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { fill_avx512(draw, stream, first, step, out) }
        }
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 if simd.is_here() => {
            // SAFETY: the machine has the instructions, as was asked just now.
            unsafe { fill_avx2(draw, stream, first, step, out) }
        }
        _ => fill::<Portable, Portable, Portable, D, false>(draw, stream, first, step, out),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx2,fma")]
fn fill_avx512<D: Draw>(draw: D, stream: &Stream, first: u64, step: u64, out: &mut [D::Value]) {
    fill::<Avx512, Avx512, Twice<Avx512>, D, true>(draw, stream, first, step, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn fill_avx2<D: Draw>(draw: D, stream: &Stream, first: u64, step: u64, out: &mut [D::Value]) {
    fill::<Twice<Avx2>, Avx2, Twice<Avx2>, D, false>(draw, stream, first, step, out);
}

/// Indices that share blocks: [`Draw::SPREAD`] blocks.
const GROUP: u64 = 64;
/// No machine has more lanes.
const LANES_MAX: usize = 32;

/// Fills groups with lanes `G`, those of too few blocks for them with the fewer lanes `N`, and what is not
/// of whole groups with lanes `S`. `AT_ONCE` where a machine has the registers for the random bits of a
/// whole group: they are made first, chains of rounds side by side, and then the values one after the
/// other. A normal takes 1.0 in place of 2.0 ns on a Zen 5, where one chain alone waits for itself.
#[inline(always)]
fn fill<G: Lanes, N: Lanes, S: Lanes, D: Draw, const AT_ONCE: bool>(
    draw: D,
    stream: &Stream,
    first: u64,
    step: u64,
    out: &mut [D::Value],
) {
    let num_blocks = match step.is_power_of_two() {
        true => D::SPREAD / step,
        false => 0,
    };
    if num_blocks >= G::COUNT as u64 {
        fill_groups::<G, D, AT_ONCE>(draw, stream, first, step, out);
    } else if num_blocks >= N::COUNT as u64 {
        fill_groups::<N, D, false>(draw, stream, first, step, out);
    } else {
        fill_single::<S, D>(draw, stream, first, step, out);
    }
}

#[inline(always)]
fn fill_groups<L: Lanes, D: Draw, const AT_ONCE: bool>(
    draw: D,
    stream: &Stream,
    first: u64,
    step: u64,
    out: &mut [D::Value],
) {
    let per_group = (GROUP / step) as usize;
    // The least index of the first group that is of the series.
    let mut start = (first & !(GROUP - 1)) + (first & (step - 1));
    let mut skipped = ((first - start) / step) as usize;
    let mut rest = out;
    while !rest.is_empty() {
        if skipped == 0 && rest.len() >= per_group {
            let (group, after) = rest.split_at_mut(per_group);
            one_group::<L, D, AT_ONCE>(draw, stream, start, step, group);
            rest = after;
        } else {
            let mut group = [D::Value::default(); GROUP as usize];
            one_group::<L, D, AT_ONCE>(draw, stream, start, step, &mut group[..per_group]);
            let taken = rest.len().min(per_group - skipped);
            let (part, after) = rest.split_at_mut(taken);
            part.copy_from_slice(&group[skipped..skipped + taken]);
            rest = after;
            skipped = 0;
        }
        start = start.wrapping_add(GROUP);
    }
}

/// Fills the values of a group.
#[inline(always)]
fn one_group<L: Lanes, D: Draw, const AT_ONCE: bool>(
    draw: D,
    stream: &Stream,
    start: u64,
    step: u64,
    group: &mut [D::Value],
) {
    let num_blocks = (D::SPREAD / step) as usize;
    if AT_ONCE && num_blocks == 4 * L::COUNT {
        let counters = Twice::<Twice<L>>::series(start, step);
        let (a, b) = stream.block::<Twice<Twice<L>>>(counters);
        // One by one, so that this stays no loop, whose words would have to lie in memory.
        draw.draw::<L>(a[0][0], b[0][0], 0, group);
        draw.draw::<L>(a[0][1], b[0][1], L::COUNT, group);
        draw.draw::<L>(a[1][0], b[1][0], 2 * L::COUNT, group);
        draw.draw::<L>(a[1][1], b[1][1], 3 * L::COUNT, group);
        return;
    }
    if AT_ONCE && num_blocks == 2 * L::COUNT {
        let counters = Twice::<L>::series(start, step);
        let (a, b) = stream.block::<Twice<L>>(counters);
        draw.draw::<L>(a[0], b[0], 0, group);
        draw.draw::<L>(a[1], b[1], L::COUNT, group);
        return;
    }
    let mut counter = L::series(start, step);
    let stride = L::splat(step * L::COUNT as u64);
    for at in (0..num_blocks).step_by(L::COUNT) {
        let (a, b) = stream.block::<L>(counter);
        draw.draw::<L>(a, b, at, group);
        counter = L::add(counter, stride);
    }
}

#[inline(always)]
fn fill_single<L: Lanes, D: Draw>(
    draw: D,
    stream: &Stream,
    first: u64,
    step: u64,
    out: &mut [D::Value],
) {
    let mut index = L::series(first, step);
    let stride = L::splat(step.wrapping_mul(L::COUNT as u64));
    let mut pieces = out.chunks_exact_mut(L::COUNT);
    for piece in &mut pieces {
        D::store::<L>(single::<L, D>(draw, stream, index), piece);
        index = L::add(index, stride);
    }
    let tail = pieces.into_remainder();
    if !tail.is_empty() {
        let mut whole = [D::Value::default(); LANES_MAX];
        D::store::<L>(single::<L, D>(draw, stream, index), &mut whole);
        tail.copy_from_slice(&whole[..tail.len()]);
    }
}

#[inline(always)]
fn single<L: Lanes, D: Draw>(draw: D, stream: &Stream, index: L::Word) -> D::Lane<L> {
    let (a, b) = stream.block::<L>(L::and(index, L::splat(!(GROUP - D::SPREAD))));
    draw.draw_one::<L>(a, b, index)
}
