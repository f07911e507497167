//! Keys are equal exactly when their bytes are, and groups keep their numbers.

use super::{GroupTable, encode};
use crate::catalogue::span::Span;
use crate::program::cell::Cell;

fn int<'a>(value: i128) -> Option<Cell<'a>> {
    Some(Cell::Int(value))
}

fn float<'a>(value: f64) -> Option<Cell<'a>> {
    Some(Cell::Float(value))
}

fn text(text: &str) -> Option<Cell<'_>> {
    Some(Cell::Text(text))
}

fn key(values: &[Option<Cell<'_>>]) -> Vec<u8> {
    let mut key = Vec::new();
    for value in values {
        encode(*value, &mut key);
    }
    key
}

#[test]
fn equal_keys_are_equal_bytes() {
    let payload = f64::from_bits(f64::NAN.to_bits() | 1);
    let same = [
        [float(-0.0), float(0.0)],
        [float(f64::NAN), float(payload)],
        [float(f64::NAN), float(-f64::NAN)],
        [float(-0.0), float(0.0)],
        [float((f32::NAN).into()), float((-f32::NAN).into())],
    ];
    for [left, right] in same {
        assert_eq!(key(&[left]), key(&[right]));
    }
    let different = [
        [None, int(0)],
        [None, text("")],
        [int(i128::from(false)), int(i128::from(true))],
        [int(1), int(-1)],
    ];
    for [left, right] in different {
        assert_ne!(key(&[left]), key(&[right]));
    }
    let split = key(&[text("a"), text("bc")]);
    assert_ne!(split, key(&[text("ab"), text("c")]));
}

#[test]
fn keys_are_read_back() {
    let interval = int(Span::new(1, -2, 3).packed());
    let values = [
        None,
        int(i128::from(true)),
        int(-7),
        int(u64::MAX.into()),
        float(1.5),
        float(-1.5),
        int(i128::MIN),
        text("naïve"),
        interval,
        text(""),
    ];
    let mut table = GroupTable::default();
    assert_eq!(table.group(&key(&[int(1)])).unwrap(), 0);
    assert_eq!(table.group(&key(&values)).unwrap(), 1);
    assert_eq!(table.decode(1, values.len()).unwrap(), values);
    assert_eq!(table.decode(0, 1).unwrap(), [int(1)]);
    assert!(table.decode(0, 2).is_err());
}

#[test]
fn groups_keep_their_numbers_while_the_table_grows() {
    let mut table = GroupTable::default();
    for round in 0..2 {
        for number in 0..10_000 {
            let key = key(&[int(number * 1_000_003), text("x")]);
            let group = table.group(&key).unwrap();
            assert_eq!(group as i128, number, "round {round}");
        }
    }
    assert_eq!(table.len(), 10_000);
    assert!(table.memory_bytes() > 10_000 * 19);
}
