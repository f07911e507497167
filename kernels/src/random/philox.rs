//! Philox4x32-10: a counter of 128 bits and a key of 64 give 128 random bits (Salmon, Moraes, Dror
//! and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).

use super::lanes::Lanes;

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
const KEY_STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// The random bits of one seed: the keys of the generator's rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Each in a word of its own, as vector machines broadcast them.
    keys: [[u64; 2]; ROUNDS],
}

impl Stream {
    /// Makes the stream of a seed, which is the generator's key.
    pub fn new(seed: u64) -> Self {
        let mut keys = [[0; 2]; ROUNDS];
        let mut key = [seed as u32, (seed >> 32) as u32];
        for round in &mut keys {
            *round = key.map(u64::from);
            key[0] = key[0].wrapping_add(KEY_STEPS[0]);
            key[1] = key[1].wrapping_add(KEY_STEPS[1]);
        }
        Self { keys }
    }

    /// Returns the keys of the rounds as words of 64 bits, the first key in the low half: what a
    /// device is given.
    pub fn words(&self) -> [u64; ROUNDS] {
        self.keys.map(|[low, high]| low | high << 32)
    }

    /// Returns the four words of the generator for a counter, each in the low half of its lane, as two words
    /// of 64 bits; what is in the high halves of the counter's is of no effect.
    #[inline(always)]
    fn rounds<L: Lanes>(&self, c: [L::Word; 4]) -> (L::Word, L::Word) {
        // One by one: as a loop of many lanes they stay one, whose words are moved in each turn.
        let c = self.round::<L>(0, c);
        let c = self.round::<L>(1, c);
        let c = self.round::<L>(2, c);
        let c = self.round::<L>(3, c);
        let c = self.round::<L>(4, c);
        let c = self.round::<L>(5, c);
        let c = self.round::<L>(6, c);
        let c = self.round::<L>(7, c);
        let c = self.round::<L>(8, c);
        let [low, high] = self.keys[9];
        let (first, second) = Self::multiply::<L>(c);
        // What is multiplied last is in its place when its halves are swapped.
        let half = L::splat(u64::from(u32::MAX));
        (
            L::xor3(L::swap_halves(second), L::and(c[1], half), L::splat(low)),
            L::xor3(L::swap_halves(first), L::and(c[3], half), L::splat(high)),
        )
    }

    #[inline(always)]
    fn round<L: Lanes>(&self, round: usize, c: [L::Word; 4]) -> [L::Word; 4] {
        let [low, high] = self.keys[round];
        let (first, second) = Self::multiply::<L>(c);
        [
            L::xor3(L::swap_halves(second), c[1], L::splat(low)),
            second,
            L::xor3(L::swap_halves(first), c[3], L::splat(high)),
            first,
        ]
    }

    #[inline(always)]
    fn multiply<L: Lanes>(c: [L::Word; 4]) -> (L::Word, L::Word) {
        (
            L::multiply_low(c[0], L::splat(u64::from(MULTIPLIERS[0]))),
            L::multiply_low(c[2], L::splat(u64::from(MULTIPLIERS[1]))),
        )
    }

    /// Returns the block of a counter of 64 bits as two words of 64.
    #[inline(always)]
    pub(super) fn block<L: Lanes>(&self, counter: L::Word) -> (L::Word, L::Word) {
        let zero = L::splat(0);
        self.rounds::<L>([counter, L::swap_halves(counter), zero, zero])
    }
}

/// Returns the generator's output for a counter and a key, as the paper has them.
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let stream = Stream::new(u64::from(key[0]) | u64::from(key[1]) << 32);
    let (a, b) = stream.rounds::<super::lanes::Portable>(counter.map(u64::from));
    [a as u32, (a >> 32) as u32, b as u32, (b >> 32) as u32]
}
