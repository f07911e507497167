use bytes::Bytes;

use super::{Runs, Uniform};
use crate::error::PageError;

fn runs(bytes: &[u8], width: u32) -> Runs {
    Runs::new(Bytes::copy_from_slice(bytes), width)
}

fn read(runs: &mut Runs, limit: u32, len: usize) -> Result<(Vec<u8>, Uniform), PageError> {
    let (mut out, mut uniform) = (vec![0; len], Uniform::Empty);
    runs.read(limit, &mut out, &mut uniform)?;
    Ok((out, uniform))
}

#[test]
fn runs_and_packed_values_follow_each_other() {
    // 3 times 5, eight packed values of 3 bits, 2 times 7.
    let bytes = [3 << 1, 5, 1 << 1 | 1, 0x88, 0xc6, 0xfa, 2 << 1, 7];
    let (out, uniform) = read(&mut runs(&bytes, 3), 8, 13).unwrap();
    assert_eq!(out, [5, 5, 5, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7]);
    assert_eq!(uniform, Uniform::No);
    // In parts, of which some are passed over.
    let mut parts = runs(&bytes, 3);
    assert_eq!(
        read(&mut parts, 8, 2).unwrap(),
        (vec![5, 5], Uniform::Value(5))
    );
    parts.pass(3).unwrap();
    assert_eq!(read(&mut parts, 8, 4).unwrap().0, [2, 3, 4, 5]);
    parts.pass(3).unwrap();
    assert_eq!(
        read(&mut parts, 8, 1).unwrap(),
        (vec![7], Uniform::Value(7))
    );
    assert!(read(&mut parts, 8, 1).is_err(), "the end");
}

#[test]
fn runs_of_one_value_are_uniform() {
    let bytes = [3 << 1, 5, 0, 9, 2 << 1, 5, 1 << 1, 4];
    assert_eq!(
        read(&mut runs(&bytes, 4), 8, 5).unwrap().1,
        Uniform::Value(5)
    );
    assert_eq!(read(&mut runs(&bytes, 4), 8, 6).unwrap().1, Uniform::No);
}

#[test]
fn repetition_is_seen_ahead() {
    let mut runs = runs(&[20 << 1, 1, 1 << 1 | 1, 0xff], 1);
    assert_eq!(runs.repeats(20).unwrap(), Some(1));
    assert_eq!(runs.repeats(21).unwrap(), None);
    assert_eq!(runs.pass(20).unwrap(), 20);
    assert_eq!(runs.repeats(8).unwrap(), None, "packed");
    assert_eq!(runs.pass(8).unwrap(), 8);
    assert!(runs.repeats(1).is_err());
}

#[test]
fn values_of_no_bits_are_zero() {
    let mut runs = runs(&[1 << 1 | 1, 5 << 1], 0);
    assert_eq!(
        read(&mut runs, 1, 13).unwrap(),
        (vec![0; 13], Uniform::Value(0))
    );
    assert!(read(&mut runs, 1, 1).is_err());
}

#[test]
fn values_are_below_the_limit() {
    assert!(read(&mut runs(&[3 << 1, 5], 3), 5, 1).is_err(), "repeated");
    assert!(
        read(&mut runs(&[1 << 1 | 1, 0x88, 0xc6, 0xfa], 3), 7, 8).is_err(),
        "packed"
    );
    assert!(
        read(&mut runs(&[1 << 1 | 1, 0x88, 0xc6, 0xfa], 3), 7, 7).is_ok(),
        "7 is not read"
    );
    // Packed wider than the limit asks for.
    let wide = [1 << 1 | 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    assert!(read(&mut runs(&wide, 16), 2, 7).is_ok());
    assert!(read(&mut runs(&wide, 16), 2, 8).is_err());
}

#[test]
fn what_is_not_there_is_an_error() {
    for bytes in [
        &[][..],
        &[0x80],
        &[3 << 1],
        &[1 << 1 | 1],
        &[0, 0, 0, 0],
        &[0xff; 12],
    ] {
        assert!(read(&mut runs(bytes, 5), 32, 1).is_err(), "{bytes:?}");
        assert!(runs(bytes, 5).pass(1).is_err(), "{bytes:?}");
    }
    assert!(Runs::with_width(Bytes::from_static(&[33, 2])).is_err());
    // Some writers cut the last packed run.
    let cut = [2 << 1 | 1, 0x88, 0xc6, 0xfa];
    assert_eq!(
        read(&mut runs(&cut, 3), 8, 8).unwrap().0,
        [0, 1, 2, 3, 4, 5, 6, 7]
    );
    assert!(read(&mut runs(&cut, 3), 8, 9).is_err());
    // A run without end takes no memory.
    let endless = [
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 1,
    ];
    assert_eq!(read(&mut runs(&endless, 1), 2, 9).unwrap().0, [1; 9]);
}
