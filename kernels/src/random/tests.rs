//! The generator against its published vectors, lanes against one another, values against the
//! functions that they stand for, and samples against their laws. All seeds are fixed.

use super::lanes::Portable;
use super::normal::{cosine_sine, minus_two_log};
use super::philox::philox4x32;
use super::single;
use super::{NORMAL_MAX, NORMAL_MAX_SINGLE, Simd, Stream, Values, device_words};

const NORMAL: Values = Values::Normal {
    location: 10.0,
    scale: 1.0,
};
const STANDARD: Values = Values::Normal {
    location: 0.0,
    scale: 1.0,
};
const UNIFORM: Values = Values::Uniform {
    low: 0.0,
    width: 1.0,
};
const DICE: Values = Values::Integers { low: 1, count: 6 };

fn values(what: Values, simd: Simd, seed: u64, first: u64, step: u64, len: usize) -> Vec<f64> {
    let mut out = vec![f64::NAN; len];
    what.fill(simd, &Stream::new(seed), first, step, &mut out);
    out
}

fn singles(what: Values, simd: Simd, seed: u64, first: u64, step: u64, len: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; len];
    what.fill_singles(simd, &Stream::new(seed), first, step, &mut out);
    out
}

fn single_bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The known answers that the authors of the generator publish.
#[test]
fn published_vectors() {
    for (counter, key, expected) in [
        (
            [0; 4],
            [0; 2],
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        ),
        (
            [u32::MAX; 4],
            [u32::MAX; 2],
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
        ),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ] {
        assert_eq!(philox4x32(counter, key), expected, "{counter:x?} {key:x?}");
    }
}

/// A value is the one of its index, whatever was asked for around it.
#[test]
fn a_value_depends_on_its_index_alone() {
    let seed = 42;
    for what in [NORMAL, UNIFORM, DICE] {
        let all = values(what, Simd::Portable, seed, 0, 1, 4096);
        for (index, value) in all.iter().enumerate() {
            let alone = values(what, Simd::Portable, seed, index as u64, 1 << 40, 1);
            assert_eq!(alone[0].to_bits(), value.to_bits(), "{what:?} at {index}");
        }
        let all = singles(what, Simd::widest(), seed, 0, 1, 4096);
        for (index, value) in all.iter().enumerate() {
            let alone = singles(what, Simd::widest(), seed, index as u64, 1 << 40, 1);
            assert_eq!(alone[0].to_bits(), value.to_bits(), "{what:?} at {index}");
        }
        for step in [2, 3, 4, 8, 16, 32, 64] {
            for first in [0, 5, 63, 77] {
                let strided = || (first as usize..4096).step_by(step as usize);
                let len = strided().count();
                let found = values(what, Simd::widest(), seed, first, step, len);
                let all = values(what, Simd::Portable, seed, 0, 1, 4096);
                let expected: Vec<f64> = strided().map(|index| all[index]).collect();
                assert_eq!(bits(&found), bits(&expected), "{what:?} {first} {step}");
                let found = singles(what, Simd::widest(), seed, first, step, len);
                let all = singles(what, Simd::Portable, seed, 0, 1, 4096);
                let expected: Vec<f32> = strided().map(|index| all[index]).collect();
                assert_eq!(
                    single_bits(&found),
                    single_bits(&expected),
                    "singles of {what:?} {first} {step}"
                );
            }
        }
        // Both values of a block come from the counter with bit 5 cleared.
        let raw = Values::Integers { low: 0, count: 0 };
        let mut words = [0; 64];
        raw.fill_integers(Simd::Portable, &Stream::new(seed), 64, 1, &mut words);
        let [a, b, c, d] = philox4x32([64 + 3, 0, 0, 0], [42, 0]).map(u64::from);
        assert_eq!(words[3] as u64, a | b << 32);
        assert_eq!(words[3 + 32] as u64, c | d << 32);
        // Those of singles from the one with bit 4 cleared too, a word each.
        let unit = Values::Uniform {
            low: 0.0,
            width: 1.0,
        };
        let found = singles(unit, Simd::widest(), seed, 64, 1, 64);
        for (position, word) in [a, b, c, d].into_iter().enumerate() {
            let expected = (word >> 9) as f32 / 8_388_608.0;
            assert_eq!(found[3 + 16 * position], expected, "{position}");
        }
    }
}

#[test]
fn all_lanes_give_the_same_bits() {
    let firsts = [
        0,
        1,
        31,
        32,
        33,
        63,
        64,
        1_000_003,
        (1 << 32) - 40,
        (1 << 62) + 7,
    ];
    let lengths = [0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65, 127, 1000];
    let here = || {
        let wider = Simd::ALL.into_iter().filter(|simd| *simd != Simd::Portable);
        wider.filter(|simd| simd.is_here())
    };
    println!("compared: {:?}", here().collect::<Vec<_>>());
    for what in [NORMAL, UNIFORM, DICE] {
        for first in firsts {
            for step in [1, 2, 3, 4, 5, 8, 16, 32, 64, 1000] {
                for len in lengths {
                    let expected = values(what, Simd::Portable, 7, first, step, len);
                    let expected_singles = singles(what, Simd::Portable, 7, first, step, len);
                    for simd in here() {
                        let found = values(what, simd, 7, first, step, len);
                        let place = format!("{simd:?} from {first} by {step}, {len}");
                        assert_eq!(bits(&found), bits(&expected), "{what:?} {place}");
                        let found = singles(what, simd, 7, first, step, len);
                        assert_eq!(
                            single_bits(&found),
                            single_bits(&expected_singles),
                            "singles of {what:?} {place}"
                        );
                    }
                }
            }
        }
    }
    let many = 1 << 21;
    let expected = values(STANDARD, Simd::Portable, 1 << 40, 5, 1, many);
    let expected_singles = singles(STANDARD, Simd::Portable, 1 << 40, 5, 1, many);
    for simd in here() {
        assert!(bits(&values(STANDARD, simd, 1 << 40, 5, 1, many)) == bits(&expected));
        let found = singles(STANDARD, simd, 1 << 40, 5, 1, many);
        assert!(single_bits(&found) == single_bits(&expected_singles));
    }
}

#[test]
fn integers_are_whole_and_in_their_range() {
    let stream = Stream::new(3);
    for (low, count) in [(0, 1), (-5, 10), (i64::MIN, 0), (i64::MAX, 1), (7, 1 << 63)] {
        let mut out = vec![0; 3000];
        let what = Values::Integers { low, count };
        what.fill_integers(Simd::widest(), &stream, 9, 3, &mut out);
        let inside = |value: &i64| count == 0 || (value.wrapping_sub(low) as u64) < count;
        assert!(out.iter().all(inside), "{low} {count}");
    }
}

#[test]
fn functions_are_close_to_what_they_stand_for() {
    let mut worst = [0.0_f64; 3];
    let mut draws = values(UNIFORM, Simd::widest(), 11, 0, 1, 1 << 18);
    draws.extend((1..53).flat_map(|power| {
        let tiny = 0.5_f64.powi(power);
        [tiny, 1.0 - tiny, 1.5 * tiny]
    }));
    draws.push(1.0);
    for draw in draws {
        let u = 1.0 - draw * 0.999_999;
        let exact = -2.0 * u.ln();
        let found = minus_two_log::<Portable>(u);
        assert!(found >= 0.0, "{u}");
        if exact > 0.0 {
            worst[0] = worst[0].max(((found - exact) / exact).abs());
        }
        let y = draw - 0.5;
        let (cosine, sine) = cosine_sine::<Portable>(y);
        let angle = std::f64::consts::FRAC_PI_2 * y;
        worst[1] = worst[1].max((cosine - angle.cos()).abs());
        worst[2] = worst[2].max((sine - angle.sin()).abs());
    }
    assert!(worst[0] < 2e-15, "{worst:?}");
    assert!(worst[1] < 5e-16 && worst[2] < 3e-16, "{worst:?}");
    // What is farthest from 0, and nothing.
    let largest = minus_two_log::<Portable>(2.0_f64.powi(-52)).sqrt();
    assert!(largest < NORMAL_MAX, "{largest}");
    assert_eq!(minus_two_log::<Portable>(1.0).to_bits(), 0);
    assert_eq!(device_words().len(), 53);
}

#[test]
fn functions_in_singles_are_close_to_what_they_stand_for() {
    let mut worst = [0.0_f64; 3];
    let mut odds: Vec<u32> = (0..1 << 18).map(|word| word * 16_381).collect();
    odds.extend((0..32).flat_map(|bit| [1 << bit, (1 << bit) - 1, u32::MAX - (1 << bit) + 1]));
    odds.extend([0, u32::MAX, u32::MAX - 127, u32::MAX - 128, u32::MAX - 129]);
    for word in odds {
        let x = single::odd::<Portable>(word);
        assert_eq!(x, (word | 1) as f32, "{word}");
        let exact = -2.0 * (f64::from(x) / 2.0_f64.powi(32)).ln();
        let found = f64::from(single::minus_two_log::<Portable>(x));
        assert!(found >= 0.0, "{word}");
        if exact > 0.0 {
            worst[0] = worst[0].max(((found - exact) / exact).abs());
        }
    }
    for step in 0..=1 << 18 {
        let y = (step as f32 - 131_072.0) / 131_072.0;
        let (cosine, sine) = single::cosine_sine::<Portable>(y);
        let angle = std::f64::consts::FRAC_PI_2 * f64::from(y);
        worst[1] = worst[1].max((f64::from(cosine) - angle.cos()).abs());
        worst[2] = worst[2].max((f64::from(sine) - angle.sin()).abs());
    }
    assert!(worst[0] < 5e-7, "{worst:?}");
    assert!(worst[1] < 1.5e-7 && worst[2] < 1.5e-7, "{worst:?}");
    // What is farthest from 0, and nothing.
    let largest = f64::from(single::minus_two_log::<Portable>(1.0).sqrt());
    assert!(
        (largest - (64.0 * 2.0_f64.ln()).sqrt()).abs() < 1e-6,
        "{largest}"
    );
    assert!(largest < NORMAL_MAX_SINGLE, "{largest}");
    let whole = single::odd::<Portable>(u32::MAX);
    assert_eq!(single::minus_two_log::<Portable>(whole).to_bits(), 0);
}

/// The distribution function of the standard normal, from the series of Marsaglia ("Evaluating the
/// normal distribution", 2004).
fn normal_cdf(x: f64) -> f64 {
    let (mut sum, mut term, mut power) = (x, x, 1.0);
    while term.abs() > 1e-17 {
        power += 2.0;
        term *= x * x / power;
        sum += term;
    }
    (0.5 + sum * (-0.5 * x * x - 0.918_938_533_204_672_8).exp()).clamp(0.0, 1.0)
}

/// Returns Kolmogorov's statistic: sqrt(n) times the greatest distance of the distributions.
fn kolmogorov(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let mut distance = 0.0_f64;
    for (rank, value) in sample.iter().enumerate() {
        let p = cdf(*value);
        distance = distance
            .max((p - rank as f64 / n).abs())
            .max(((rank + 1) as f64 / n - p).abs());
    }
    distance * n.sqrt()
}

/// Beyond it Kolmogorov's statistic is once in a million samples.
const KOLMOGOROV_MAX: f64 = 2.7;

#[test]
fn samples_follow_their_laws() {
    let n = 1 << 18;
    for seed in 0..4 {
        let normals = values(STANDARD, Simd::widest(), seed, 0, 1, n);
        let in_singles = singles(STANDARD, Simd::widest(), seed, 0, 1, n);
        for normals in [normals, in_singles.into_iter().map(f64::from).collect()] {
            let moment = |power: i32| normals.iter().map(|x| x.powi(power)).sum::<f64>() / n as f64;
            // Five standard errors of each moment: 1, 2, 15 - 9 + ..., 96 over n.
            let error = |variance: f64| 5.0 * (variance / n as f64).sqrt();
            assert!(moment(1).abs() < error(1.0));
            assert!((moment(2) - 1.0).abs() < error(2.0));
            assert!(moment(3).abs() < error(15.0));
            assert!((moment(4) - 3.0).abs() < error(96.0));
            let statistic = kolmogorov(normals, normal_cdf);
            assert!(statistic < KOLMOGOROV_MAX, "{statistic}");
        }
        let uniforms = singles(UNIFORM, Simd::widest(), seed, 0, 1, n);
        let uniforms = uniforms.into_iter().map(f64::from).collect();
        let statistic = kolmogorov(uniforms, |x| x.clamp(0.0, 1.0));
        assert!(statistic < KOLMOGOROV_MAX, "{statistic}");
        let uniforms = values(UNIFORM, Simd::widest(), seed, 0, 1, n);
        let statistic = kolmogorov(uniforms, |x| x.clamp(0.0, 1.0));
        assert!(statistic < KOLMOGOROV_MAX, "{statistic}");
        let dice = values(DICE, Simd::widest(), seed, 0, 1, n);
        let expected = n as f64 / 6.0;
        let chi: f64 = (1..=6)
            .map(|face| {
                let count = dice
                    .iter()
                    .filter(|value| **value == f64::from(face))
                    .count();
                (count as f64 - expected).powi(2) / expected
            })
            .sum();
        assert!(chi < 35.0, "{chi}");
    }
}

/// Neighbours, the two values of a block, chunks and seeds have nothing to do with one another.
#[test]
fn values_are_independent() {
    let in_singles = |seed, first, len| {
        let values = singles(STANDARD, Simd::widest(), seed, first, 1, len);
        values.into_iter().map(f64::from).collect()
    };
    check_independence(&|seed, first, len| values(STANDARD, Simd::widest(), seed, first, 1, len));
    check_independence(&in_singles);
}

fn check_independence(values: &dyn Fn(u64, u64, usize) -> Vec<f64>) {
    let n = 1 << 17;
    let base = values(5, 0, 2 * n);
    let correlation = |other: &[f64]| {
        let products: f64 = base.iter().zip(other).take(n).map(|(x, y)| x * y).sum();
        products / (n as f64).sqrt()
    };
    for lag in [1, 2, 8, 15, 16, 17, 31, 32, 33, 48, 64, 1024, 65_536] {
        let found = correlation(&base[lag..]);
        assert!(found.abs() < 5.0, "lag {lag}: {found}");
    }
    for (seed, first) in [
        (5, 1 << 20),
        (5, 1 << 32),
        (5, 1 << 61),
        (6, 0),
        (5 | 1 << 32, 0),
    ] {
        let found = correlation(&values(seed, first, n));
        assert!(found.abs() < 5.0, "seed {seed} from {first}: {found}");
    }
    // The squares too: values of a block share their radius or their words' rounds, and nothing else.
    let squares: Vec<f64> = base.iter().map(|x| x * x - 1.0).collect();
    for lag in [16, 32, 48] {
        let firsts = (0..n).filter(|index| index & 63 < 64 - lag);
        let (mut pairs, mut count) = (0.0, 0.0);
        for index in firsts {
            pairs += squares[index] * squares[index + lag];
            count += 1.0_f64;
        }
        let found = pairs / (2.0 * count.sqrt());
        assert!(found.abs() < 5.0, "lag {lag}: {found}");
    }
}

/// How often normals lie far out is as often as the law says, down to once in 3e4.
#[test]
fn tails_are_those_of_the_law() {
    let n = 1 << 19;
    for in_singles in [false, true] {
        let sample: Vec<f64> = if in_singles {
            let sample = singles(STANDARD, Simd::widest(), 9, 1 << 33, 1, n);
            sample.into_iter().map(f64::from).collect()
        } else {
            values(STANDARD, Simd::widest(), 9, 1 << 33, 1, n)
        };
        for bound in [2.0, 3.0, 4.0] {
            let expected = n as f64 * (1.0 - normal_cdf(bound));
            for sign in [1.0, -1.0] {
                let found = sample.iter().filter(|x| sign * **x > bound).count() as f64;
                let error = 5.0 * expected.sqrt() + 5.0;
                assert!(
                    (found - expected).abs() < error,
                    "{in_singles} {sign} {bound}: {found} of {expected}"
                );
            }
        }
    }
}

/// Each of a block's four singles follows the law by itself, and so does each sum of two.
#[test]
fn the_four_singles_of_a_block_are_normals() {
    let n = 1 << 18;
    let sample = singles(STANDARD, Simd::widest(), 21, 64, 1, n);
    let of_block = |position: usize| {
        let groups = sample.chunks_exact(64);
        groups.flat_map(move |group| &group[16 * position..16 * (position + 1)])
    };
    for first in 0..4 {
        let own: Vec<f64> = of_block(first).map(|x| f64::from(*x)).collect();
        let statistic = kolmogorov(own, normal_cdf);
        assert!(statistic < KOLMOGOROV_MAX, "{first}: {statistic}");
        for second in 0..first {
            for sign in [1.0, -1.0] {
                let sums = of_block(first).zip(of_block(second));
                let sums = sums.map(|(x, y)| f64::from(*x) + sign * f64::from(*y));
                let sums = sums.map(|sum| sum / 2.0_f64.sqrt()).collect();
                let statistic = kolmogorov(sums, normal_cdf);
                assert!(statistic < KOLMOGOROV_MAX, "{first} {second}: {statistic}");
            }
        }
    }
}
