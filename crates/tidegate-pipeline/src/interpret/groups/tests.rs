//! Keys are equal exactly when their bytes are, and groups keep their numbers.

use super::{GroupTable, encode};
use crate::interpret::value::Value;

fn key(values: &[Value<'_>]) -> Vec<u8> {
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
        [Value::Float64(-0.0), Value::Float64(0.0)],
        [Value::Float64(f64::NAN), Value::Float64(payload)],
        [Value::Float64(f64::NAN), Value::Float64(-f64::NAN)],
        [Value::Float32(-0.0), Value::Float32(0.0)],
        [Value::Float32(f32::NAN), Value::Float32(-f32::NAN)],
    ];
    for [left, right] in same {
        assert_eq!(key(&[left]), key(&[right]));
    }
    let different = [
        [Value::Null, Value::Int(0)],
        [Value::Null, Value::Utf8("")],
        [Value::Boolean(false), Value::Boolean(true)],
        [Value::Decimal(1), Value::Decimal(-1)],
    ];
    for [left, right] in different {
        assert_ne!(key(&[left]), key(&[right]));
    }
    let split = key(&[Value::Utf8("a"), Value::Utf8("bc")]);
    assert_ne!(split, key(&[Value::Utf8("ab"), Value::Utf8("c")]));
}

#[test]
fn keys_are_read_back() {
    let interval = Value::Interval {
        months: 1,
        days: -2,
        nanoseconds: 3,
    };
    let values = [
        Value::Null,
        Value::Boolean(true),
        Value::Int(-7),
        Value::UInt(u64::MAX),
        Value::Float32(1.5),
        Value::Float64(-1.5),
        Value::Decimal(i128::MIN),
        Value::Utf8("naïve"),
        interval,
        Value::Utf8(""),
    ];
    let mut table = GroupTable::default();
    assert_eq!(table.group(&key(&[Value::Int(1)])).unwrap(), 0);
    assert_eq!(table.group(&key(&values)).unwrap(), 1);
    assert_eq!(table.decode(1, values.len()).unwrap(), values);
    assert_eq!(table.decode(0, 1).unwrap(), [Value::Int(1)]);
    assert!(table.decode(0, 2).is_err());
}

#[test]
fn groups_keep_their_numbers_while_the_table_grows() {
    let mut table = GroupTable::default();
    for round in 0..2 {
        for number in 0..10_000_i64 {
            let key = key(&[Value::Int(number * 1_000_003), Value::Utf8("x")]);
            let group = table.group(&key).unwrap();
            assert_eq!(group as i64, number, "round {round}");
        }
    }
    assert_eq!(table.len(), 10_000);
    assert!(table.memory_bytes() > 10_000 * 19);
}
