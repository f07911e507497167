//! Random numbers by position: the value at an index is a function of (seed, channel, index)
//! alone, so rows can be made in any order, in pieces of any size, on any thread.
//!
//! A [`Stream`] is SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number
//! Generators", OOPSLA 2014) with the constants of Vigna's public-domain `splitmix64.c`. Its
//! state is a counter, so its n-th output needs none of those before it.
//!
//! A [`Shuffle`] is a keyed permutation of `0..len`: a Feistel network on the two digits of an
//! index in mixed radix, with cycle walking for what lies past the end (Black and Rogaway,
//! "Ciphers with Arbitrary Finite Domains", CT-RSA 2002). It picks an exact number of the
//! indices at random without a list of them.

/// The counter's step: 2^64 over the golden ratio, made odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// An endless sequence of random 64-bit numbers, read by index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    key: u64,
}

impl Stream {
    /// Makes the stream number `channel` of `seed`.
    pub(super) fn new(seed: u64, channel: u64) -> Self {
        let seeded = Stream { key: mix(seed) };
        Self {
            key: seeded.at(channel),
        }
    }

    /// Returns the number at `index`.
    pub(super) fn at(self, index: u64) -> u64 {
        mix(self
            .key
            .wrapping_add(index.wrapping_add(1).wrapping_mul(GAMMA)))
    }

    /// Returns a number of `0..bound` for `index`, zero if `bound` is zero.
    ///
    /// The high half of the product (Lemire, "Fast Random Integer Generation in an Interval",
    /// TOMACS 2019), without rejection: one draw per index leaves a bias of `bound` / 2^64.
    pub(super) fn below(self, bound: u64, index: u64) -> u64 {
        ((u128::from(self.at(index)) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number of [0, 1) for `index`, a multiple of 2^-53.
    pub(super) fn unit(self, index: u64) -> f64 {
        (self.at(index) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Scrambles 64 bits, one to one: the finalizer of SplitMix64.
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A random order of `0..len`, read by index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shuffle {
    len: u64,
    /// The radices of the two digits: `high * low >= len`, by less than `high`.
    high: u64,
    low: u64,
    rounds: [Stream; 4],
}

impl Shuffle {
    /// Makes the order of `0..len` that belongs to `channel` of `seed`; `len` is at least one.
    pub(super) fn new(seed: u64, channel: u64, len: u64) -> Self {
        let len = len.max(1);
        let high = len.isqrt();
        let stream = Stream::new(seed, channel);
        let rounds = [0, 1, 2, 3].map(|round| Stream {
            key: stream.at(round),
        });
        Self {
            len,
            high,
            low: len.div_ceil(high),
            rounds,
        }
    }

    /// Returns the place of `index`, which is below `len`, in the order.
    pub(super) fn place(&self, index: u64) -> u64 {
        // The walk stays on one cycle of the permutation, so it comes back below `len` at the
        // latest at `index` itself.
        let mut place = self.permute(index);
        while place >= self.len {
            place = self.permute(place);
        }
        place
    }

    fn permute(&self, index: u64) -> u64 {
        let (mut high, mut low) = (index / self.low, index % self.low);
        for pair in self.rounds.chunks_exact(2) {
            high = add_modulo(high, pair[0].below(self.high, low), self.high);
            low = add_modulo(low, pair[1].below(self.low, high), self.low);
        }
        high * self.low + low
    }
}

/// Adds two numbers that are below `modulus`.
fn add_modulo(left: u64, right: u64, modulus: u64) -> u64 {
    let sum = left + right;
    if sum >= modulus { sum - modulus } else { sum }
}

#[cfg(test)]
mod tests;
