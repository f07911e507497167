//! Every format reads its own date.

use super::{DATE_FORMATS, TimestampFormat, time, traits_of};
use crate::sniff::Traits;

#[test]
fn every_format_reads_its_own_date() {
    let written = [
        "2024-01-31",
        "2024/01/31",
        "2024.1.31",
        "31.01.2024",
        "31/1/2024",
        "31-01-2024",
        "01/31/2024",
        "1-31-2024",
        "31.01.24",
        "31/01/24",
        "1/31/24",
        "31-Jan-2024",
        "31 January 2024",
        "31/jan/2024",
        "Jan 31, 2024",
    ];
    for (format, text) in DATE_FORMATS.iter().zip(written) {
        assert_eq!(format.days(text), Some(19_753), "{text} as {format:?}");
    }
    for text in [
        "2024-13-01",
        "2024-02-30",
        "1.2.3",
        "24-1-1",
        "2024-01",
        "abc",
        "1/2/3/4",
    ] {
        assert_eq!(traits_of(text), Traits::empty(), "{text}");
    }
}

#[test]
fn timestamps_have_times_and_zones() {
    let format = TimestampFormat::default();
    let micros = |text: &str| format.moment(text).and_then(|moment| moment.micros());
    let base = 19_753 * 86_400_000_000;
    assert_eq!(micros("2024-01-31"), Some(base));
    assert_eq!(micros("2024-01-31 00:00:01"), Some(base + 1_000_000));
    assert_eq!(micros("2024-01-31T01:00:00.5Z"), Some(base + 3_600_500_000));
    assert_eq!(micros("2024-01-31 02:00+02:00"), Some(base));
    assert_eq!(micros("2024-01-30 22:30:00 -0130"), Some(base));
    assert_eq!(micros("2024-01-31 12:05 AM"), Some(base + 300_000_000));
    assert_eq!(micros("2024-01-31 25:00"), None);
    assert_eq!(micros("2024-01-31 10:00:00.0000001"), None);
}

#[test]
fn times_have_two_digits_a_part_to_be_found() {
    for text in ["07:30:00", "23:59:59.123456789"] {
        assert_eq!(traits_of(text), Traits::TIME, "{text}");
    }
    for text in ["7:30:00", "07:30", "24:00:00", "07:30:00Z", "07:30:00,1"] {
        assert_eq!(traits_of(text), Traits::empty(), "{text}");
    }
    assert_eq!(time("7:30 PM"), Some(70_200_000_000_000));
    assert_eq!(time("07:30:00+02:00"), None);
}
