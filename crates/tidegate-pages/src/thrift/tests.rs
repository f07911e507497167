//! Numbers come with their fields.

use super::walk;

#[test]
fn numbers_come_with_their_fields() {
    // {1: i32 5, 2: {1: i64 -1}, 3: [i32 1, 2], 4: true}
    let bytes = [
        0x15, 0x0a, 0x1c, 0x16, 0x01, 0x00, 0x19, 0x25, 0x02, 0x04, 0x11, 0x00, 0xff,
    ];
    let mut seen = Vec::new();
    let length = walk(&bytes, |path, value| seen.push((path.to_vec(), value)));
    assert_eq!(length, Ok(12));
    let expect = [
        (vec![1], 5),
        (vec![2, 1], -1),
        (vec![3], 1),
        (vec![3], 2),
        (vec![4], 1),
    ];
    assert_eq!(seen, expect);
}

#[test]
fn lengths_are_compared_with_what_is_left() {
    let check = |bytes: &[u8], expect: &str| {
        let refused = walk(bytes, |_, _| ()).unwrap_err();
        assert!(refused.contains(expect), "{refused}");
    };
    check(&[], "the end");
    check(
        &[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07],
        "a list's length",
    );
    check(
        &[0x18, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00],
        "a value's length",
    );
    check(&[0x1b, 0xff, 0x7f, 0x55, 0x00], "a map's length");
    check(&[0x1c; 64], "nest more than");
    check(&[0x19; 64], "nesting");
    check(
        &[
            0x16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ],
        "a number",
    );
}
