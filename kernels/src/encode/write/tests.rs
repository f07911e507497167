//! What does not fit is seen.

use super::super::lines::settle;
use super::{Divisor, FloatBits, Reader, Scale, Seen, Simd, copy, narrow};

fn scale(base: i64, factor: u64) -> Scale {
    Scale {
        base: base as u64,
        divisor: Divisor::new(factor),
    }
}

/// Writes with all instructions of this machine and for both readers, from several places of a cache
/// line on. All must agree, and write nothing else; returns what was written and seen.
fn agreed(num_bytes: usize, write: impl Fn(Simd, &mut [u8], Reader) -> Seen) -> (Vec<u8>, Seen) {
    let mut told: Option<(Vec<u8>, Seen)> = None;
    for instructions in Simd::ALL {
        for reader in [Reader::Host, Reader::Device] {
            for shift in [0, 4, 8, 3, 56] {
                let mut room = vec![0xa5; num_bytes + 256];
                let start = room.as_ptr().align_offset(64) + shift;
                let seen = write(instructions, &mut room[start..start + num_bytes], reader);
                settle();
                let others = room[..start].iter().chain(&room[start + num_bytes..]);
                assert!(others.into_iter().all(|byte| *byte == 0xa5));
                let here = (room[start..start + num_bytes].to_vec(), seen);
                let what = format!("{instructions:?} {reader:?} {shift}");
                assert_eq!(*told.get_or_insert_with(|| here.clone()), here, "{what}");
            }
        }
    }
    told.unwrap()
}

fn narrowed(values: &[i128], width: u32, scale: Scale) -> (Vec<u8>, Seen) {
    agreed(
        values.len() * width as usize,
        |instructions, into, reader| {
            let mut seen = Seen::NOTHING;
            narrow(
                instructions,
                values,
                width,
                scale,
                (into, reader),
                &mut seen,
            );
            seen
        },
    )
}

fn copied<T: FloatBits<WIDTH>, const WIDTH: usize, const LANES: usize>(
    values: &[T],
) -> (Vec<u8>, Seen) {
    agreed(values.len() * WIDTH, |instructions, into, reader| {
        let mut seen = Seen::NOTHING;
        copy::<T, WIDTH, LANES>(instructions, values, (into, reader), &mut seen);
        seen
    })
}

#[test]
fn what_does_not_fit_is_seen() {
    for len in [1, 7, 8, 63, 64, 65, 2048] {
        for (width, greatest) in [(1, 0xff), (2, 0xffff), (4, 0xffff_ffff)] {
            let mut values = vec![5_i128; len];
            values[len / 2] = greatest + 3;
            let (bytes, seen) = narrowed(&values, width, scale(3, 1));
            assert_eq!((seen.beyond, seen.greatest), (0, greatest as u64), "{len}");
            assert_eq!(bytes[0], if len == 1 { 0xff } else { 2 });
            for bad in [greatest + 4, 2, -1, i128::MAX, i128::MIN, 1 << 64] {
                values[len / 2] = bad;
                let (_, seen) = narrowed(&values, width, scale(3, 1));
                assert_ne!(seen.beyond, 0, "{bad} in {width} bytes");
            }
        }
    }
}

#[test]
fn what_is_no_multiple_is_beyond_the_limit() {
    let values = [100, 400, 2500];
    let (bytes, seen) = narrowed(&values, 1, scale(100, 100));
    assert_eq!(bytes, [0, 3, 24]);
    assert_eq!((seen.beyond, seen.least, seen.greatest), (0, 0, 24));
    let (_, seen) = narrowed(&[100, 450], 1, scale(100, 100));
    assert_ne!(seen.beyond, 0);
    let (_, seen) = narrowed(&[100, 450], 8, scale(100, 100));
    assert!(seen.greatest > Divisor::new(100).limit);
}

#[test]
fn a_constant_is_one() {
    assert_eq!(narrowed(&[7; 40], 0, scale(7, 1)).1.beyond, 0);
    assert_ne!(narrowed(&[7, 7, 8], 0, scale(7, 1)).1.beyond, 0);
    assert_ne!(narrowed(&[7, 6], 0, scale(7, 1)).1.beyond, 0);
    assert_eq!(narrowed(&[], 0, scale(7, 1)).1, Seen::NOTHING);
}

#[test]
fn words_are_written_whole_wherever_they_begin() {
    for len in [0, 1, 7, 8, 9, 15, 16, 17, 64, 2047, 2048] {
        let least = i128::from(i64::MIN);
        let mut values: Vec<i128> = (0..len as i128)
            .map(|row| least + 3 + (row * 7) % 5)
            .collect();
        for place in 0..len {
            values[place] = i128::from(i64::MAX) - 1;
            if place > 40 && place + 40 < len {
                continue;
            }
            let (bytes, seen) = narrowed(&values, 8, scale(i64::MIN, 1));
            let (words, _) = bytes.as_chunks::<8>();
            for (word, value) in words.iter().zip(&values) {
                assert_eq!(i128::from(u64::from_le_bytes(*word)), value - least);
            }
            let low = values.iter().min().unwrap() - least;
            assert_eq!((seen.beyond, i128::from(seen.least)), (0, low));
            assert_eq!(seen.greatest, u64::MAX - 1);
            values[place] = i128::from(i64::MAX) + 1;
            let (_, seen) = narrowed(&values, 8, scale(i64::MIN, 1));
            assert_ne!(seen.beyond, 0, "{place} of {len}");
            values[place] = least;
        }
        let (_, seen) = narrowed(&[], 8, scale(i64::MIN, 1));
        assert_eq!(seen, Seen::NOTHING);
    }
}

#[test]
fn special_floats_are_seen() {
    let seen_of = |values: &[f64]| {
        let (bytes, seen) = copied::<f64, 8, 8>(values);
        let (words, _) = bytes.as_chunks::<8>();
        for (word, value) in words.iter().zip(values) {
            assert_eq!(f64::from_le_bytes(*word).to_bits(), value.to_bits());
        }
        let singles: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        let (bytes, of_singles) = copied::<f32, 4, 16>(&singles);
        let (words, _) = bytes.as_chunks::<4>();
        for (word, value) in words.iter().zip(&singles) {
            assert_eq!(f32::from_le_bytes(*word).to_bits(), value.to_bits());
        }
        let sizes = (
            f32::of_size(of_singles.greatest),
            f64::of_size(seen.greatest),
        );
        assert!(sizes.0 == sizes.1 || sizes.0.is_nan() && sizes.1.is_nan());
        seen
    };
    assert_eq!(seen_of(&[]).greatest, 0);
    assert_eq!(seen_of(&[-0.0]).greatest, 0);
    for place in 0..40 {
        let mut values = vec![1.5; 40];
        values[place] = -3.0;
        assert_eq!(seen_of(&values).greatest, 3.0_f64.to_bits(), "{place}");
    }
    let mut values = vec![1.5; 100];
    values[70] = -2.5;
    assert_eq!(f64::from_bits(seen_of(&values).greatest), 2.5);
    values[3] = f64::NEG_INFINITY;
    assert_eq!(f64::from_bits(seen_of(&values).greatest), f64::INFINITY);
    values[4] = -f64::NAN;
    assert!(f64::from_bits(seen_of(&values).greatest).is_nan());
}
