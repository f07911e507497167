//! Several values at once: what the generator asks of a vector machine, and one without.
//!
//! Everything is written once over [`Lanes`] and compiled for each machine.

use std::marker::PhantomData;

/// Words of 64 bits and doubles, a lane each.
///
/// # Contract
/// Every operation on doubles is IEEE 754's, rounded to nearest even. Types other than [`Portable`]
/// may be used only inside of functions that are compiled for their machine, and run on it.
pub(super) trait Lanes: Copy {
    /// How many lanes there are: a power of two, at most 32.
    const COUNT: usize;
    /// Words of 64 bits.
    type Word: Copy;
    /// Doubles.
    type Real: Copy;

    fn splat(value: u64) -> Self::Word;
    /// Returns `first`, `first + step`, .. modulo 2^64.
    fn series(first: u64, step: u64) -> Self::Word;
    fn add(a: Self::Word, b: Self::Word) -> Self::Word;
    fn subtract(a: Self::Word, b: Self::Word) -> Self::Word;
    fn and(a: Self::Word, b: Self::Word) -> Self::Word;
    fn or(a: Self::Word, b: Self::Word) -> Self::Word;
    fn xor(a: Self::Word, b: Self::Word) -> Self::Word;
    fn xor3(a: Self::Word, b: Self::Word, c: Self::Word) -> Self::Word;
    fn shift_right<const BITS: u32>(a: Self::Word) -> Self::Word;
    fn shift_left<const BITS: u32>(a: Self::Word) -> Self::Word;
    /// Multiplies the low halves to whole words.
    fn multiply_low(a: Self::Word, b: Self::Word) -> Self::Word;
    /// Returns the low half of one word under the low half of the other.
    fn join_halves(low: Self::Word, high: Self::Word) -> Self::Word;
    /// Returns the word of the table at each index, which is below 16.
    fn look_up(table: &[u64; 16], index: Self::Word) -> Self::Real;

    fn reals(bits: Self::Word) -> Self::Real;
    fn bits(a: Self::Real) -> Self::Word;
    fn splat_real(value: f64) -> Self::Real;
    fn add_reals(a: Self::Real, b: Self::Real) -> Self::Real;
    fn multiply(a: Self::Real, b: Self::Real) -> Self::Real;
    /// Returns a * b + c, rounded once.
    fn fma(a: Self::Real, b: Self::Real, c: Self::Real) -> Self::Real;
    fn sqrt(a: Self::Real) -> Self::Real;
    /// Returns `b` where the bit of the word is set, else `a`.
    fn select<const BIT: u32>(word: Self::Word, a: Self::Real, b: Self::Real) -> Self::Real;
    /// Writes the lanes to the front of a slice, which has room for them.
    fn store(a: Self::Real, to: &mut [f64]);
}

/// One lane, on any machine.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Lanes for Portable {
    const COUNT: usize = 1;
    type Word = u64;
    type Real = f64;

    #[inline(always)]
    fn splat(value: u64) -> u64 {
        value
    }
    #[inline(always)]
    fn series(first: u64, _: u64) -> u64 {
        first
    }
    #[inline(always)]
    fn add(a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn subtract(a: u64, b: u64) -> u64 {
        a.wrapping_sub(b)
    }
    #[inline(always)]
    fn and(a: u64, b: u64) -> u64 {
        a & b
    }
    #[inline(always)]
    fn or(a: u64, b: u64) -> u64 {
        a | b
    }
    #[inline(always)]
    fn xor(a: u64, b: u64) -> u64 {
        a ^ b
    }
    #[inline(always)]
    fn xor3(a: u64, b: u64, c: u64) -> u64 {
        a ^ b ^ c
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(a: u64) -> u64 {
        a >> BITS
    }
    #[inline(always)]
    fn shift_left<const BITS: u32>(a: u64) -> u64 {
        a << BITS
    }
    #[inline(always)]
    fn multiply_low(a: u64, b: u64) -> u64 {
        u64::from(a as u32) * u64::from(b as u32)
    }
    #[inline(always)]
    fn join_halves(low: u64, high: u64) -> u64 {
        u64::from(low as u32) | high << 32
    }
    #[inline(always)]
    fn look_up(table: &[u64; 16], index: u64) -> f64 {
        f64::from_bits(table[(index & 15) as usize])
    }
    #[inline(always)]
    fn reals(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
    #[inline(always)]
    fn bits(a: f64) -> u64 {
        a.to_bits()
    }
    #[inline(always)]
    fn splat_real(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    fn add_reals(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn multiply(a: f64, b: f64) -> f64 {
        a * b
    }
    #[inline(always)]
    fn fma(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn sqrt(a: f64) -> f64 {
        a.sqrt()
    }
    #[inline(always)]
    fn select<const BIT: u32>(word: u64, a: f64, b: f64) -> f64 {
        if (word >> BIT) & 1 == 1 { b } else { a }
    }
    #[inline(always)]
    fn store(a: f64, to: &mut [f64]) {
        to[0] = a;
    }
}

/// Two machine words side by side, so that a long chain of operations has company: one of them alone
/// leaves most of a core idle.
#[derive(Clone, Copy)]
pub(super) struct Twice<L>(PhantomData<L>);

impl<L: Lanes> Lanes for Twice<L> {
    const COUNT: usize = 2 * L::COUNT;
    type Word = [L::Word; 2];
    type Real = [L::Real; 2];

    #[inline(always)]
    fn splat(value: u64) -> Self::Word {
        [L::splat(value); 2]
    }
    #[inline(always)]
    fn series(first: u64, step: u64) -> Self::Word {
        let second = first.wrapping_add(step.wrapping_mul(L::COUNT as u64));
        [L::series(first, step), L::series(second, step)]
    }
    #[inline(always)]
    fn add(a: Self::Word, b: Self::Word) -> Self::Word {
        [L::add(a[0], b[0]), L::add(a[1], b[1])]
    }
    #[inline(always)]
    fn subtract(a: Self::Word, b: Self::Word) -> Self::Word {
        [L::subtract(a[0], b[0]), L::subtract(a[1], b[1])]
    }
    #[inline(always)]
    fn and(a: Self::Word, b: Self::Word) -> Self::Word {
        [L::and(a[0], b[0]), L::and(a[1], b[1])]
    }
    #[inline(always)]
    fn or(a: Self::Word, b: Self::Word) -> Self::Word {
        [L::or(a[0], b[0]), L::or(a[1], b[1])]
    }
    #[inline(always)]
    fn xor(a: Self::Word, b: Self::Word) -> Self::Word {
        [L::xor(a[0], b[0]), L::xor(a[1], b[1])]
    }
    #[inline(always)]
    fn xor3(a: Self::Word, b: Self::Word, c: Self::Word) -> Self::Word {
        [L::xor3(a[0], b[0], c[0]), L::xor3(a[1], b[1], c[1])]
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(a: Self::Word) -> Self::Word {
        [L::shift_right::<BITS>(a[0]), L::shift_right::<BITS>(a[1])]
    }
    #[inline(always)]
    fn shift_left<const BITS: u32>(a: Self::Word) -> Self::Word {
        [L::shift_left::<BITS>(a[0]), L::shift_left::<BITS>(a[1])]
    }
    #[inline(always)]
    fn multiply_low(a: Self::Word, b: Self::Word) -> Self::Word {
        [L::multiply_low(a[0], b[0]), L::multiply_low(a[1], b[1])]
    }
    #[inline(always)]
    fn join_halves(low: Self::Word, high: Self::Word) -> Self::Word {
        [
            L::join_halves(low[0], high[0]),
            L::join_halves(low[1], high[1]),
        ]
    }
    #[inline(always)]
    fn look_up(table: &[u64; 16], index: Self::Word) -> Self::Real {
        [L::look_up(table, index[0]), L::look_up(table, index[1])]
    }
    #[inline(always)]
    fn reals(bits: Self::Word) -> Self::Real {
        [L::reals(bits[0]), L::reals(bits[1])]
    }
    #[inline(always)]
    fn bits(a: Self::Real) -> Self::Word {
        [L::bits(a[0]), L::bits(a[1])]
    }
    #[inline(always)]
    fn splat_real(value: f64) -> Self::Real {
        [L::splat_real(value); 2]
    }
    #[inline(always)]
    fn add_reals(a: Self::Real, b: Self::Real) -> Self::Real {
        [L::add_reals(a[0], b[0]), L::add_reals(a[1], b[1])]
    }
    #[inline(always)]
    fn multiply(a: Self::Real, b: Self::Real) -> Self::Real {
        [L::multiply(a[0], b[0]), L::multiply(a[1], b[1])]
    }
    #[inline(always)]
    fn fma(a: Self::Real, b: Self::Real, c: Self::Real) -> Self::Real {
        [L::fma(a[0], b[0], c[0]), L::fma(a[1], b[1], c[1])]
    }
    #[inline(always)]
    fn sqrt(a: Self::Real) -> Self::Real {
        [L::sqrt(a[0]), L::sqrt(a[1])]
    }
    #[inline(always)]
    fn select<const BIT: u32>(word: Self::Word, a: Self::Real, b: Self::Real) -> Self::Real {
        [
            L::select::<BIT>(word[0], a[0], b[0]),
            L::select::<BIT>(word[1], a[1], b[1]),
        ]
    }
    #[inline(always)]
    fn store(a: Self::Real, to: &mut [f64]) {
        L::store(a[0], &mut to[..L::COUNT]);
        L::store(a[1], &mut to[L::COUNT..]);
    }
}

/// Writes the methods of [`Lanes`] as expressions over a machine's instructions.
#[cfg(target_arch = "x86_64")]
macro_rules! by_instructions {
    ($(fn $name:ident $(<const $parameter:ident>)? ($($argument:ident: $type:ty),*) $(-> $result:ty)? = $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name $(<const $parameter: u32>)? ($($argument: $type),*) $(-> $result)? {
                // SAFETY: by the contract of `Lanes` this runs on a machine that has the
                // instructions; slices are checked before they are written.
                unsafe { $body }
            }
        )*
    };
}

#[cfg(target_arch = "x86_64")]
pub(super) use by_instructions;
