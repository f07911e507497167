use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Code, unpack};

/// Packs values bit by bit.
fn packed(values: &[u32], width: u32) -> Vec<u8> {
    let mut bytes = vec![0; (values.len() * width as usize).div_ceil(8)];
    for (index, value) in values.iter().enumerate() {
        for bit in 0..width as usize {
            let at = index * width as usize + bit;
            bytes[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
        }
    }
    bytes
}

fn check<T: Code + std::fmt::Debug>(random: &mut StdRng) {
    for width in 1..=T::BITS {
        for length in [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 300] {
            let mask = u32::MAX >> (32 - width);
            let values: Vec<u32> = (0..length).map(|_| random.random::<u32>() & mask).collect();
            let bytes = packed(&values, width);
            for index in [0, 1, 3, 7, 8, 17].into_iter().filter(|at| *at <= length) {
                let mut out = vec![T::default(); length - index];
                unpack(&bytes, width, index, &mut out);
                let out: Vec<u32> = out.iter().map(|value| value.widened()).collect();
                assert_eq!(out, values[index..], "{width} bits from {index} on");
            }
        }
    }
}

#[test]
fn values_of_any_width_are_unpacked_from_any_place() {
    let mut random = StdRng::seed_from_u64(1);
    check::<u8>(&mut random);
    check::<u16>(&mut random);
    check::<u32>(&mut random);
}

#[test]
fn bits_beyond_the_bytes_are_zero() {
    for width in 1..=32 {
        let mut out = [7_u32; 40];
        unpack(&[0xff], width, 0, &mut out);
        let ones: u32 = out.iter().map(|value| value.count_ones()).sum();
        assert_eq!(ones, 8, "{width} bits");
        unpack(&[], width, 3, &mut out);
        assert_eq!(out, [0; 40], "{width} bits");
    }
}
