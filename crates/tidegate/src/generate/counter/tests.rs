//! Tests of the random numbers by position.

use super::{Shuffle, Stream};

/// The outputs that Vigna's `splitmix64.c` gives from the state 1234567.
#[test]
fn stream_is_splitmix64() {
    let stream = Stream { key: 1_234_567 };
    let numbers: Vec<u64> = (0..5).map(|index| stream.at(index)).collect();
    assert_eq!(
        numbers,
        [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ]
    );
}

#[test]
fn channels_and_seeds_differ() {
    let first = Stream::new(108, 0).at(0);
    assert_ne!(first, Stream::new(108, 1).at(0));
    assert_ne!(first, Stream::new(109, 0).at(0));
    assert_eq!(first, Stream::new(108, 0).at(0));
}

#[test]
fn below_is_uniform() {
    let stream = Stream::new(7, 0);
    let mut counts = [0_u32; 10];
    for index in 0..100_000 {
        counts[stream.below(10, index) as usize] += 1;
    }
    // Ten standard deviations of a binomial count with mean 10,000.
    assert!(
        counts.iter().all(|count| count.abs_diff(10_000) < 950),
        "{counts:?}"
    );
    assert_eq!(stream.below(1, 3), 0);
    assert_eq!(stream.below(0, 3), 0);
}

#[test]
fn unit_is_in_range() {
    let stream = Stream::new(7, 1);
    let units: Vec<f64> = (0..10_000).map(|index| stream.unit(index)).collect();
    assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
    let mean = units.iter().sum::<f64>() / 10_000.0;
    assert!((mean - 0.5).abs() < 0.03, "{mean}");
}

#[test]
fn shuffle_is_a_permutation() {
    for len in [
        1, 2, 3, 4, 5, 10, 31, 32, 33, 63, 64, 65, 100, 9_999, 10_000, 10_001,
    ] {
        let shuffle = Shuffle::new(108, 3, len);
        let mut places: Vec<u64> = (0..len).map(|index| shuffle.place(index)).collect();
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..len), "len {len}");
    }
}

#[test]
fn shuffle_has_no_favourite() {
    // Each of 20 indices comes among the first 5 in a quarter of the orders.
    let mut counts = [0_u32; 20];
    for seed in 0..4_000 {
        let shuffle = Shuffle::new(seed, 0, 20);
        for index in 0..20 {
            counts[index as usize] += u32::from(shuffle.place(index) < 5);
        }
    }
    assert!(
        counts.iter().all(|count| count.abs_diff(1_000) < 200),
        "{counts:?}"
    );
}

#[test]
fn shuffle_takes_long_ranges() {
    let shuffle = Shuffle::new(1, 0, 10_000_000_000);
    assert!((0..1_000).all(|index| shuffle.place(9_999_999_999 - index) < 10_000_000_000));
}
