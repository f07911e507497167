//! Several values at once: what the generator asks of a vector machine, and one without.
//!
//! Everything is written once over [`Lanes`] and compiled for each machine.

use std::marker::PhantomData;

/// Words of 64 bits and doubles, a lane each; and words of 32 bits and singles, as many lanes.
///
/// # Contract
/// Every operation on floats is IEEE 754's, rounded to nearest even. Types other than [`Portable`]
/// may be used only inside of functions that are compiled for their machine, and run on it.
pub(crate) trait Lanes: Copy {
    /// Two registers, and four, or as many as the machine has room for: a long chain of operations alone
    /// leaves most of a core idle.
    type Two: Lanes;
    /// See [`Lanes::Two`].
    type Four: Lanes;
    /// How many lanes there are: a power of two, at most 32.
    const COUNT: usize;
    /// Words of 64 bits.
    type Word: Copy;
    /// Doubles.
    type Real: Copy;
    /// Words of 32 bits.
    type Half: Copy;
    /// Singles.
    type Single: Copy;

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
    /// Returns the halves in each other's place.
    fn swap_halves(a: Self::Word) -> Self::Word;
    /// Multiplies the low halves to whole words.
    fn multiply_low(a: Self::Word, b: Self::Word) -> Self::Word;
    /// Returns the word of the table at each index, which is below 16.
    fn look_up(table: &[u64; 16], index: Self::Word) -> Self::Real;

    /// Returns the highest 12 bits of each word, a signed integer.
    fn high_integer(a: Self::Word) -> Self::Real;
    fn reals(bits: Self::Word) -> Self::Real;
    fn bits(a: Self::Real) -> Self::Word;
    fn splat_real(value: f64) -> Self::Real;
    fn add_reals(a: Self::Real, b: Self::Real) -> Self::Real;
    fn subtract_reals(a: Self::Real, b: Self::Real) -> Self::Real;
    fn multiply(a: Self::Real, b: Self::Real) -> Self::Real;
    fn divide(a: Self::Real, b: Self::Real) -> Self::Real;
    /// Returns a * b + c, rounded once.
    fn fma(a: Self::Real, b: Self::Real, c: Self::Real) -> Self::Real;
    fn sqrt(a: Self::Real) -> Self::Real;
    /// Returns `b` where the bit of the word is set, else `a`.
    fn select<const BIT: u32>(word: Self::Word, a: Self::Real, b: Self::Real) -> Self::Real;
    /// Reads the lanes from the front of a slice, which has as many.
    fn load(from: &[f64]) -> Self::Real;
    /// Writes the lanes to the front of a slice, which has room for them.
    fn store(a: Self::Real, to: &mut [f64]);

    fn low_half(a: Self::Word) -> Self::Half;
    fn high_half(a: Self::Word) -> Self::Half;
    fn splat_half(value: u32) -> Self::Half;
    fn subtract_halves(a: Self::Half, b: Self::Half) -> Self::Half;
    fn and_halves(a: Self::Half, b: Self::Half) -> Self::Half;
    fn or_halves(a: Self::Half, b: Self::Half) -> Self::Half;
    fn xor_halves(a: Self::Half, b: Self::Half) -> Self::Half;
    fn shift_half_right<const BITS: u32>(a: Self::Half) -> Self::Half;
    fn shift_half_left<const BITS: u32>(a: Self::Half) -> Self::Half;
    /// Returns the singles nearest to signed integers.
    fn convert_halves(a: Self::Half) -> Self::Single;
    fn singles(bits: Self::Half) -> Self::Single;
    fn single_bits(a: Self::Single) -> Self::Half;
    fn splat_single(value: f32) -> Self::Single;
    fn add_singles(a: Self::Single, b: Self::Single) -> Self::Single;
    fn multiply_singles(a: Self::Single, b: Self::Single) -> Self::Single;
    /// Returns a * b + c, rounded once.
    fn fma_singles(a: Self::Single, b: Self::Single, c: Self::Single) -> Self::Single;
    fn sqrt_singles(a: Self::Single) -> Self::Single;
    /// Returns `b` where the bit of the half is set, else `a`.
    fn select_single<const BIT: u32>(
        half: Self::Half,
        a: Self::Single,
        b: Self::Single,
    ) -> Self::Single;
    /// Reads the lanes from the front of a slice, which has as many.
    fn load_singles(from: &[f32]) -> Self::Single;
    /// Writes the lanes to the front of a slice, which has room for them.
    fn store_singles(a: Self::Single, to: &mut [f32]);
}

/// One lane, on any machine.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Lanes for Portable {
    type Two = Self;
    type Four = Self;
    const COUNT: usize = 1;
    type Word = u64;
    type Real = f64;
    type Half = u32;
    type Single = f32;

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
    fn swap_halves(a: u64) -> u64 {
        a.rotate_left(32)
    }
    #[inline(always)]
    fn multiply_low(a: u64, b: u64) -> u64 {
        u64::from(a as u32) * u64::from(b as u32)
    }
    #[inline(always)]
    fn look_up(table: &[u64; 16], index: u64) -> f64 {
        f64::from_bits(table[(index & 15) as usize])
    }
    #[inline(always)]
    fn high_integer(a: u64) -> f64 {
        (a as i64 >> 52) as f64
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
    fn subtract_reals(a: f64, b: f64) -> f64 {
        a - b
    }
    #[inline(always)]
    fn multiply(a: f64, b: f64) -> f64 {
        a * b
    }
    #[inline(always)]
    fn divide(a: f64, b: f64) -> f64 {
        a / b
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
    fn load(from: &[f64]) -> f64 {
        from[0]
    }
    #[inline(always)]
    fn store(a: f64, to: &mut [f64]) {
        to[0] = a;
    }
    #[inline(always)]
    fn low_half(a: u64) -> u32 {
        a as u32
    }
    #[inline(always)]
    fn high_half(a: u64) -> u32 {
        (a >> 32) as u32
    }
    #[inline(always)]
    fn splat_half(value: u32) -> u32 {
        value
    }
    #[inline(always)]
    fn subtract_halves(a: u32, b: u32) -> u32 {
        a.wrapping_sub(b)
    }
    #[inline(always)]
    fn and_halves(a: u32, b: u32) -> u32 {
        a & b
    }
    #[inline(always)]
    fn or_halves(a: u32, b: u32) -> u32 {
        a | b
    }
    #[inline(always)]
    fn xor_halves(a: u32, b: u32) -> u32 {
        a ^ b
    }
    #[inline(always)]
    fn shift_half_right<const BITS: u32>(a: u32) -> u32 {
        a >> BITS
    }
    #[inline(always)]
    fn shift_half_left<const BITS: u32>(a: u32) -> u32 {
        a << BITS
    }
    #[inline(always)]
    fn convert_halves(a: u32) -> f32 {
        a as i32 as f32
    }
    #[inline(always)]
    fn singles(bits: u32) -> f32 {
        f32::from_bits(bits)
    }
    #[inline(always)]
    fn single_bits(a: f32) -> u32 {
        a.to_bits()
    }
    #[inline(always)]
    fn splat_single(value: f32) -> f32 {
        value
    }
    #[inline(always)]
    fn add_singles(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn multiply_singles(a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn fma_singles(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn sqrt_singles(a: f32) -> f32 {
        a.sqrt()
    }
    #[inline(always)]
    fn select_single<const BIT: u32>(half: u32, a: f32, b: f32) -> f32 {
        if (half >> BIT) & 1 == 1 { b } else { a }
    }
    #[inline(always)]
    fn load_singles(from: &[f32]) -> f32 {
        from[0]
    }
    #[inline(always)]
    fn store_singles(a: f32, to: &mut [f32]) {
        to[0] = a;
    }
}

/// Two machine words side by side.
#[derive(Clone, Copy)]
pub(super) struct Twice<L>(PhantomData<L>);

impl<L: Lanes> Lanes for Twice<L> {
    type Two = Self;
    type Four = Self;
    const COUNT: usize = 2 * L::COUNT;
    type Word = [L::Word; 2];
    type Real = [L::Real; 2];
    type Half = [L::Half; 2];
    type Single = [L::Single; 2];

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
    fn swap_halves(a: Self::Word) -> Self::Word {
        [L::swap_halves(a[0]), L::swap_halves(a[1])]
    }
    #[inline(always)]
    fn multiply_low(a: Self::Word, b: Self::Word) -> Self::Word {
        [L::multiply_low(a[0], b[0]), L::multiply_low(a[1], b[1])]
    }
    #[inline(always)]
    fn look_up(table: &[u64; 16], index: Self::Word) -> Self::Real {
        [L::look_up(table, index[0]), L::look_up(table, index[1])]
    }
    #[inline(always)]
    fn high_integer(a: Self::Word) -> Self::Real {
        [L::high_integer(a[0]), L::high_integer(a[1])]
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
    fn subtract_reals(a: Self::Real, b: Self::Real) -> Self::Real {
        [L::subtract_reals(a[0], b[0]), L::subtract_reals(a[1], b[1])]
    }
    #[inline(always)]
    fn multiply(a: Self::Real, b: Self::Real) -> Self::Real {
        [L::multiply(a[0], b[0]), L::multiply(a[1], b[1])]
    }
    #[inline(always)]
    fn divide(a: Self::Real, b: Self::Real) -> Self::Real {
        [L::divide(a[0], b[0]), L::divide(a[1], b[1])]
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
    fn load(from: &[f64]) -> Self::Real {
        [L::load(&from[..L::COUNT]), L::load(&from[L::COUNT..])]
    }
    #[inline(always)]
    fn store(a: Self::Real, to: &mut [f64]) {
        L::store(a[0], &mut to[..L::COUNT]);
        L::store(a[1], &mut to[L::COUNT..]);
    }
    #[inline(always)]
    fn low_half(a: Self::Word) -> Self::Half {
        [L::low_half(a[0]), L::low_half(a[1])]
    }
    #[inline(always)]
    fn high_half(a: Self::Word) -> Self::Half {
        [L::high_half(a[0]), L::high_half(a[1])]
    }
    #[inline(always)]
    fn splat_half(value: u32) -> Self::Half {
        [L::splat_half(value); 2]
    }
    #[inline(always)]
    fn subtract_halves(a: Self::Half, b: Self::Half) -> Self::Half {
        [
            L::subtract_halves(a[0], b[0]),
            L::subtract_halves(a[1], b[1]),
        ]
    }
    #[inline(always)]
    fn and_halves(a: Self::Half, b: Self::Half) -> Self::Half {
        [L::and_halves(a[0], b[0]), L::and_halves(a[1], b[1])]
    }
    #[inline(always)]
    fn or_halves(a: Self::Half, b: Self::Half) -> Self::Half {
        [L::or_halves(a[0], b[0]), L::or_halves(a[1], b[1])]
    }
    #[inline(always)]
    fn xor_halves(a: Self::Half, b: Self::Half) -> Self::Half {
        [L::xor_halves(a[0], b[0]), L::xor_halves(a[1], b[1])]
    }
    #[inline(always)]
    fn shift_half_right<const BITS: u32>(a: Self::Half) -> Self::Half {
        [
            L::shift_half_right::<BITS>(a[0]),
            L::shift_half_right::<BITS>(a[1]),
        ]
    }
    #[inline(always)]
    fn shift_half_left<const BITS: u32>(a: Self::Half) -> Self::Half {
        [
            L::shift_half_left::<BITS>(a[0]),
            L::shift_half_left::<BITS>(a[1]),
        ]
    }
    #[inline(always)]
    fn convert_halves(a: Self::Half) -> Self::Single {
        [L::convert_halves(a[0]), L::convert_halves(a[1])]
    }
    #[inline(always)]
    fn singles(a: Self::Half) -> Self::Single {
        [L::singles(a[0]), L::singles(a[1])]
    }
    #[inline(always)]
    fn single_bits(a: Self::Single) -> Self::Half {
        [L::single_bits(a[0]), L::single_bits(a[1])]
    }
    #[inline(always)]
    fn splat_single(value: f32) -> Self::Single {
        [L::splat_single(value); 2]
    }
    #[inline(always)]
    fn add_singles(a: Self::Single, b: Self::Single) -> Self::Single {
        [L::add_singles(a[0], b[0]), L::add_singles(a[1], b[1])]
    }
    #[inline(always)]
    fn multiply_singles(a: Self::Single, b: Self::Single) -> Self::Single {
        [
            L::multiply_singles(a[0], b[0]),
            L::multiply_singles(a[1], b[1]),
        ]
    }
    #[inline(always)]
    fn fma_singles(a: Self::Single, b: Self::Single, c: Self::Single) -> Self::Single {
        [
            L::fma_singles(a[0], b[0], c[0]),
            L::fma_singles(a[1], b[1], c[1]),
        ]
    }
    #[inline(always)]
    fn sqrt_singles(a: Self::Single) -> Self::Single {
        [L::sqrt_singles(a[0]), L::sqrt_singles(a[1])]
    }
    #[inline(always)]
    fn select_single<const BIT: u32>(
        half: Self::Half,
        a: Self::Single,
        b: Self::Single,
    ) -> Self::Single {
        [
            L::select_single::<BIT>(half[0], a[0], b[0]),
            L::select_single::<BIT>(half[1], a[1], b[1]),
        ]
    }
    #[inline(always)]
    fn load_singles(from: &[f32]) -> Self::Single {
        [
            L::load_singles(&from[..L::COUNT]),
            L::load_singles(&from[L::COUNT..]),
        ]
    }
    #[inline(always)]
    fn store_singles(a: Self::Single, to: &mut [f32]) {
        L::store_singles(a[0], &mut to[..L::COUNT]);
        L::store_singles(a[1], &mut to[L::COUNT..]);
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
