use super::{big_endian, big_endian_64, spread};

#[test]
fn values_move_to_the_rows_that_have_one() {
    let check = |present: &[i32], validity: &[u8], expect: &[i32]| {
        let mut values = present.to_vec();
        values.resize(validity.len(), 99);
        spread(&mut values, validity, present.len());
        assert_eq!(values, expect, "{present:?} {validity:?}");
    };
    check(&[1, 2, 3], &[1, 1, 1], &[1, 2, 3]);
    check(&[1, 2], &[0, 1, 0, 0, 1, 0], &[1, 1, 1, 1, 2, 2]);
    check(&[4], &[0, 0, 1], &[4, 4, 4]);
    check(&[4], &[1, 0, 0], &[4, 4, 4]);
    check(&[], &[0, 0], &[0, 0]);
    check(&[], &[], &[]);
}

#[test]
fn signs_reach_to_the_highest_byte() {
    assert_eq!(big_endian([0x7f]), 127);
    assert_eq!(big_endian([0xff, 0xfe]), -2);
    assert_eq!(big_endian(i128::MIN.to_be_bytes()), i128::MIN);
    assert_eq!(big_endian_64([0x80]), -128);
    assert_eq!(big_endian_64([0x01, 0x00, 0x02]), 0x1_0002);
    assert_eq!(big_endian_64((-5_i64).to_be_bytes()), -5);
}
