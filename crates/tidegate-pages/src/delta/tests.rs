use bytes::Bytes;

use super::Delta;

/// A block of 32 values in one part: 7, then differences of 2 and up in `width` bits.
fn block(count: u8, width: u8, packed: &[u8]) -> Vec<u8> {
    let mut bytes = vec![32, 1, count, 7 << 1, 2 << 1, width];
    bytes.extend(packed);
    bytes
}

#[test]
fn differences_are_summed() {
    let bytes = block(9, 1, &[0b1010_0101, 0, 0, 0]);
    let mut delta = Delta::new(bytes.into(), 32).unwrap();
    let mut out = [0; 9];
    delta.read(&mut out[..4]).unwrap();
    delta.read(&mut out[4..]).unwrap();
    assert_eq!(out, [7, 10, 12, 15, 17, 19, 22, 24, 27]);
    assert_eq!(delta.left(), 0);
    assert!(delta.rest().is_empty());
    assert!(delta.read(&mut [0]).is_err());
}

#[test]
fn what_lies_behind_begins_at_a_whole_part() {
    let mut bytes = block(3, 0, &[]);
    bytes.extend(b"rest");
    let mut delta = Delta::new(bytes.into(), 32).unwrap();
    delta.pass(2).unwrap();
    let mut out = [0];
    delta.read(&mut out).unwrap();
    assert_eq!(out, [11]);
    assert_eq!(delta.rest(), Bytes::from_static(b"rest"));
}

#[test]
fn wide_differences_wrap() {
    let packed = [0xff; 32 * 8];
    let mut delta = Delta::new(block(4, 64, &packed).into(), 64).unwrap();
    let mut out = [0; 4];
    delta.read(&mut out).unwrap();
    // Each difference is 2 - 1.
    assert_eq!(out, [7, 8, 9, 10]);
    assert!(
        Delta::new(block(4, 64, &packed).into(), 32)
            .unwrap()
            .pass(2)
            .is_err()
    );
}

#[test]
fn what_is_not_there_is_an_error() {
    for bytes in [
        &[][..],
        &[32, 1, 3],
        &[0, 1, 3, 0],
        &[32, 0, 3, 0],
        &[33, 1, 3, 0],
        &[12, 1, 3, 0],
        &[0xff, 0xff, 0xff, 0xff, 0x0f, 1, 3, 0],
    ] {
        assert!(
            Delta::new(Bytes::copy_from_slice(bytes), 32).is_err(),
            "{bytes:?}"
        );
    }
    let mut cut = Delta::new(block(9, 8, &[1, 2, 3]).into(), 32).unwrap();
    let mut out = [0; 9];
    assert!(cut.read(&mut out).is_err());
    let mut cut = Delta::new(block(9, 8, &[1, 2, 3]).into(), 32).unwrap();
    cut.read(&mut out[..4]).unwrap();
    assert_eq!(out[..4], [7, 10, 14, 19]);
}
