//! Numbers are told from identifiers.

use super::{NumberFormat, traits_of};
use crate::sniff::Traits;

#[test]
fn numbers_are_told_from_identifiers() {
    let has = |value: &str, traits: Traits| traits_of(value.as_bytes()).contains(traits);
    for number in ["0", "-1", "9223372036854775807"] {
        assert!(has(number, Traits::INTEGER), "{number}");
    }
    for number in [
        "0.5",
        ".5",
        "5.",
        "1e5",
        "1E-3",
        "1,234.5",
        "-1,234,567",
        "nan",
        "-inf",
    ] {
        assert!(has(number, Traits::POINT_NUMBER), "{number}");
    }
    for number in ["0,5", "1.234,50", "1.234.567", "1,5e3"] {
        assert!(has(number, Traits::COMMA_NUMBER), "{number}");
    }
    for text in [
        "",
        "-",
        "007",
        "+49123",
        "1_000",
        "1.2.3",
        "192.168.100.200",
        "12,34,567.0",
        "1e",
        "0x10",
        "1 000",
        "00.5",
        "--1",
        "infinit",
        "0,123,456",
    ] {
        assert_eq!(traits_of(text.as_bytes()), Traits::empty(), "{text}");
    }
    assert_eq!(traits_of(b"12345678901234567890"), Traits::WIDE);
    assert!(!has("1,5", Traits::POINT_NUMBER));
    assert!(has("1,234", Traits::POINT_INTEGER | Traits::COMMA_NUMBER));
}

#[test]
fn numbers_are_read_as_they_are_written() {
    let of = |decimal, is_grouped, is_strict| NumberFormat {
        decimal,
        is_grouped,
        is_strict,
    };
    assert_eq!(of(b'.', false, true).double("1234.5"), Some(1234.5));
    assert_eq!(of(b'.', false, true).double("1,234.5"), None);
    assert_eq!(of(b'.', true, true).double("1,234.5"), Some(1234.5));
    assert_eq!(of(b',', true, true).double("-1.234,5"), Some(-1234.5));
    assert_eq!(of(b',', false, true).double("1.5"), None);
    assert_eq!(of(b',', true, true).integer("1.234"), Some(1234));
    assert_eq!(of(b'.', false, true).integer::<i64>("007"), None);
    assert_eq!(of(b'.', false, false).integer("007"), Some(7));
    assert_eq!(of(b'.', false, false).integer("7.00"), Some(7));
    assert_eq!(of(b'.', false, false).integer::<i64>("7.5"), None);
    assert_eq!(
        of(b'.', false, false).integer("18446744073709551615"),
        Some(u64::MAX)
    );
    assert_eq!(of(b'.', false, false).integer::<u64>("-1"), None);
}
