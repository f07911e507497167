//! Several values at once: what the generator asks of a vector machine, and one without.
//!
//! Everything is written once over [`Lanes`] and compiled for each machine.

use std::marker::PhantomData;

/// Defines [`Lanes`], with what each operation is on one lane. On two machine words side by side it is done
/// on each of them.
macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        fn $name:ident $(<const $bits:ident>)? ($($argument:ident: $of:ident),*) -> $gives:ident = $body:expr;
    )*) => {
        /// Words of 64 bits and doubles, a lane each; and words of 32 bits and singles, as many lanes.
        ///
        /// # Contract
        /// Every operation on floats is IEEE 754's, rounded to nearest even. Types other than [`Portable`]
        /// may be used only inside of functions that are compiled for their machine, and run on it.
        pub(crate) trait Lanes: Copy {
            /// Two registers, and four, or as many as the machine has room for: a long chain of operations
            /// alone leaves most of a core idle.
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
            fn splat_real(value: f64) -> Self::Real;
            fn splat_half(value: u32) -> Self::Half;
            fn splat_single(value: f32) -> Self::Single;
            /// Returns `first`, `first + step`, .. modulo 2^64.
            fn series(first: u64, step: u64) -> Self::Word;
            /// Returns the word of the table at each index, which is below 16.
            fn look_up(table: &[u64; 16], index: Self::Word) -> Self::Real;
            /// Reads the lanes from the front of a slice, which has as many.
            fn load(from: &[f64]) -> Self::Real;
            /// Reads the lanes from the front of a slice, which has as many.
            fn load_singles(from: &[f32]) -> Self::Single;
            /// Writes the lanes to the front of a slice, which has room for them.
            fn store(a: Self::Real, to: &mut [f64]);
            /// Writes the lanes to the front of a slice, which has room for them.
            fn store_singles(a: Self::Single, to: &mut [f32]);
            $(
                $(#[$doc])*
                fn $name $(<const $bits: u32>)? ($($argument: Self::$of),*) -> Self::$gives;
            )*
        }

        impl Lanes for Portable {
            type Two = Self;
            type Four = Self;
            const COUNT: usize = 1;
            type Word = u64;
            type Real = f64;
            type Half = u32;
            type Single = f32;

            one_lane! {
                fn splat(value: u64) -> u64 = value;
                fn splat_real(value: f64) -> f64 = value;
                fn splat_half(value: u32) -> u32 = value;
                fn splat_single(value: f32) -> f32 = value;
                fn series(first: u64, _step: u64) -> u64 = first;
                fn look_up(table: &[u64; 16], index: u64) -> f64 =
                    f64::from_bits(table[(index & 15) as usize]);
                fn load(from: &[f64]) -> f64 = from[0];
                fn load_singles(from: &[f32]) -> f32 = from[0];
                fn store(a: f64, to: &mut [f64]) -> () = to[0] = a;
                fn store_singles(a: f32, to: &mut [f32]) -> () = to[0] = a;
                $(
                    fn $name $(<const $bits>)? ($($argument: Self::$of),*) -> Self::$gives = $body;
                )*
            }
        }

        impl<L: Lanes> Lanes for Twice<L> {
            type Two = Self;
            type Four = Self;
            const COUNT: usize = 2 * L::COUNT;
            type Word = [L::Word; 2];
            type Real = [L::Real; 2];
            type Half = [L::Half; 2];
            type Single = [L::Single; 2];

            one_lane! {
                fn splat(value: u64) -> Self::Word = [L::splat(value); 2];
                fn splat_real(value: f64) -> Self::Real = [L::splat_real(value); 2];
                fn splat_half(value: u32) -> Self::Half = [L::splat_half(value); 2];
                fn splat_single(value: f32) -> Self::Single = [L::splat_single(value); 2];
                fn series(first: u64, step: u64) -> Self::Word = {
                    let second = first.wrapping_add(step.wrapping_mul(L::COUNT as u64));
                    [L::series(first, step), L::series(second, step)]
                };
                fn look_up(table: &[u64; 16], index: Self::Word) -> Self::Real =
                    index.map(|index| L::look_up(table, index));
                fn load(from: &[f64]) -> Self::Real =
                    [L::load(&from[..L::COUNT]), L::load(&from[L::COUNT..])];
                fn load_singles(from: &[f32]) -> Self::Single =
                    [L::load_singles(&from[..L::COUNT]), L::load_singles(&from[L::COUNT..])];
                fn store(a: Self::Real, to: &mut [f64]) -> () = {
                    L::store(a[0], &mut to[..L::COUNT]);
                    L::store(a[1], &mut to[L::COUNT..]);
                };
                fn store_singles(a: Self::Single, to: &mut [f32]) -> () = {
                    L::store_singles(a[0], &mut to[..L::COUNT]);
                    L::store_singles(a[1], &mut to[L::COUNT..]);
                };
                $(
                    fn $name $(<const $bits>)? ($($argument: Self::$of),*) -> Self::$gives =
                        [L::$name $(::<$bits>)? ($($argument[0]),*), L::$name $(::<$bits>)? ($($argument[1]),*)];
                )*
            }
        }
    };
}

/// Writes methods as expressions.
macro_rules! one_lane {
    ($(fn $name:ident $(<const $bits:ident>)? ($($argument:ident: $of:ty),*) -> $gives:ty = $body:expr;)*) => {$(
        #[inline(always)]
        fn $name $(<const $bits: u32>)? ($($argument: $of),*) -> $gives {
            $body
        }
    )*};
}

operations! {
    fn add(a: Word, b: Word) -> Word = a.wrapping_add(b);
    fn subtract(a: Word, b: Word) -> Word = a.wrapping_sub(b);
    fn and(a: Word, b: Word) -> Word = a & b;
    fn or(a: Word, b: Word) -> Word = a | b;
    fn xor(a: Word, b: Word) -> Word = a ^ b;
    fn xor3(a: Word, b: Word, c: Word) -> Word = a ^ b ^ c;
    fn shift_right<const BITS>(a: Word) -> Word = a >> BITS;
    fn shift_left<const BITS>(a: Word) -> Word = a << BITS;
    /// Returns the halves in each other's place.
    fn swap_halves(a: Word) -> Word = a.rotate_left(32);
    /// Multiplies the low halves to whole words.
    fn multiply_low(a: Word, b: Word) -> Word = u64::from(a as u32) * u64::from(b as u32);
    /// Returns the highest 12 bits of each word, a signed integer.
    fn high_integer(a: Word) -> Real = (a as i64 >> 52) as f64;
    fn reals(bits: Word) -> Real = f64::from_bits(bits);
    fn bits(a: Real) -> Word = a.to_bits();
    fn add_reals(a: Real, b: Real) -> Real = a + b;
    fn subtract_reals(a: Real, b: Real) -> Real = a - b;
    fn multiply(a: Real, b: Real) -> Real = a * b;
    fn divide(a: Real, b: Real) -> Real = a / b;
    /// Returns a * b + c, rounded once.
    fn fma(a: Real, b: Real, c: Real) -> Real = a.mul_add(b, c);
    fn sqrt(a: Real) -> Real = a.sqrt();
    /// Returns `b` where the bit of the word is set, else `a`.
    fn select<const BIT>(word: Word, a: Real, b: Real) -> Real =
        if (word >> BIT) & 1 == 1 { b } else { a };

    fn low_half(a: Word) -> Half = a as u32;
    fn high_half(a: Word) -> Half = (a >> 32) as u32;
    fn subtract_halves(a: Half, b: Half) -> Half = a.wrapping_sub(b);
    fn and_halves(a: Half, b: Half) -> Half = a & b;
    fn or_halves(a: Half, b: Half) -> Half = a | b;
    fn xor_halves(a: Half, b: Half) -> Half = a ^ b;
    fn shift_half_right<const BITS>(a: Half) -> Half = a >> BITS;
    fn shift_half_left<const BITS>(a: Half) -> Half = a << BITS;
    /// Returns the singles nearest to signed integers.
    fn convert_halves(a: Half) -> Single = a as i32 as f32;
    fn singles(bits: Half) -> Single = f32::from_bits(bits);
    fn single_bits(a: Single) -> Half = a.to_bits();
    fn add_singles(a: Single, b: Single) -> Single = a + b;
    fn multiply_singles(a: Single, b: Single) -> Single = a * b;
    /// Returns a * b + c, rounded once.
    fn fma_singles(a: Single, b: Single, c: Single) -> Single = a.mul_add(b, c);
    fn sqrt_singles(a: Single) -> Single = a.sqrt();
    /// Returns `b` where the bit of the half is set, else `a`.
    fn select_single<const BIT>(half: Half, a: Single, b: Single) -> Single =
        if (half >> BIT) & 1 == 1 { b } else { a };
}

/// One lane, on any machine.
#[derive(Clone, Copy)]
pub(super) struct Portable;

/// Two machine words side by side.
#[derive(Clone, Copy)]
pub(super) struct Twice<L>(PhantomData<L>);

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
