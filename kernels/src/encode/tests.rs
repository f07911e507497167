//! Chunks tell the values that they were made from, whatever a sample of these says.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{
    Array, ArrayRef, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int8Array,
    Int32Array, Int64Array, LargeStringArray, StringArray, StringViewArray, UInt64Array,
};
use parking_lot::RwLock;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{EncodedColumn, Encoder, Narrowing, Reader, Seen, padded, written};
use crate::program::{Interval, SlotKind};
use crate::strings::Dictionary;

fn encoder(kind: SlotKind, arrays: &[ArrayRef], narrowing: Narrowing) -> Encoder {
    let dictionary = RwLock::new(Dictionary::default());
    Encoder::new(kind, arrays, &dictionary, narrowing).unwrap()
}

/// Encodes integers as decimals, and checks what is told of them.
fn check(values: &[Option<i128>], narrowing: Narrowing) -> EncodedColumn {
    // In arrays of several lengths, of which one begins inside of its buffer.
    let whole: ArrayRef = Arc::new(Decimal128Array::from(values.to_vec()));
    let cuts = [0, values.len() / 3, values.len() / 2, values.len()];
    let arrays: Vec<ArrayRef> = cuts
        .windows(2)
        .map(|ends| whole.slice(ends[0], ends[1] - ends[0]))
        .collect();
    let column = written(encoder(SlotKind::Integer, &arrays, narrowing));
    assert_eq!(column.num_rows, values.len());
    assert_eq!(
        column.values.len(),
        padded(values.len()) * column.width as usize
    );
    let known: Vec<i128> = values.iter().flatten().copied().collect();
    let low = known.iter().min().copied().unwrap_or(0);
    let high = known.iter().max().copied().unwrap_or(0);
    assert_eq!(column.facts.range, Interval::new(low, high));
    assert_eq!(
        column.facts.nullable,
        values.iter().any(|value| value.is_none())
    );
    assert_eq!(column.facts.widths, [column.width]);
    let is_word = |value: i128| i64::try_from(value).is_ok();
    if is_word(low) && is_word(high) {
        for (row, (word, value)) in column.words().into_iter().zip(values).enumerate() {
            assert_eq!(column.is_valid(row), value.is_some(), "row {row}");
            let word = i128::from(word);
            assert!(value.is_none_or(|value| value == word), "row {row}");
            assert!((low..=high).contains(&word), "row {row} is out of range");
        }
    } else {
        assert_eq!(column.width, 16);
        for (bytes, value) in column.values.as_chunks::<16>().0.iter().zip(values) {
            let told = i128::from_le_bytes(*bytes);
            assert!(value.is_none_or(|value| value == told));
            assert!((low..=high).contains(&told));
        }
    }
    column
}

fn some(values: impl IntoIterator<Item = i128>) -> Vec<Option<i128>> {
    values.into_iter().map(Some).collect()
}

#[test]
fn every_size_and_width_is_told() {
    let mut random = StdRng::seed_from_u64(11);
    for rows in [0, 1, 31, 32, 33, 64, 2047, 2049, 9_000] {
        for (low, high, width) in [
            (7, 7, 0),
            (-100, 155, 1),
            (0, 40_000, 2),
            (-5_000_000, 5_000_000, 4),
            (i128::from(i64::MIN), i128::from(i64::MAX), 8),
            (-(1 << 90), 1 << 90, 16),
        ] {
            for nulls in [0.0, 0.3, 1.0] {
                let mut values: Vec<Option<i128>> = (0..rows)
                    .map(|_| (!random.random_bool(nulls)).then(|| random.random_range(low..=high)))
                    .collect();
                if rows > 64 && nulls < 1.0 {
                    // Where no sample looks.
                    (values[65], values[66]) = (Some(low), Some(high));
                }
                for narrowing in [Narrowing::Width, Narrowing::Factor] {
                    let column = check(&values, narrowing);
                    if rows > 64 && nulls < 1.0 {
                        assert_eq!(column.width, width, "{low} to {high}");
                    }
                }
            }
        }
    }
}

#[test]
fn what_a_sample_misses_is_found() {
    let rows = 100_000;
    // In the middle between two of the stretches that are looked at.
    let hidden = rows / 62;
    for (usual, odd) in [
        (5, 6),
        (5, i128::from(i64::MAX)),
        (5, i128::from(i64::MIN)),
        (5, 1 << 70),
        (5, -(1 << 70)),
    ] {
        let mut values = vec![Some(usual); rows];
        values[hidden] = Some(odd);
        check(&values, Narrowing::Factor);
        // The same behind NULLs.
        for value in values.iter_mut().step_by(3) {
            *value = None;
        }
        values[hidden] = Some(odd);
        check(&values, Narrowing::Factor);
    }
    let mut values: Vec<Option<i128>> = vec![None; rows];
    values[hidden] = Some(-9);
    check(&values, Narrowing::Width);
    let mut values = some((0..rows as i128).map(|row| row % 50 * 100));
    assert_eq!(check(&values, Narrowing::Factor).factor, 100);
    values[hidden] = Some(150);
    assert_eq!(check(&values, Narrowing::Factor).factor, 50);
    values[hidden] = Some(-700);
    let column = check(&values, Narrowing::Factor);
    assert_eq!((column.factor, column.width), (100, 1));
    let ascending = some((0..rows as i128).map(|row| row - 50_000));
    assert_eq!(check(&ascending, Narrowing::Factor).width, 4);
}

#[test]
fn words_without_a_sign_stay_themselves() {
    for odd in [0, 300, u64::MAX, 1 << 63] {
        let mut values: Vec<u64> = (0..50_000_u64).map(|row| row % 200).collect();
        values[700] = odd;
        let array: ArrayRef = Arc::new(UInt64Array::from(values));
        let arrays = [Arc::clone(&array)];
        let column = written(encoder(SlotKind::Integer, &arrays, Narrowing::Factor));
        let told: Vec<u64> = column.words().iter().map(|word| *word as u64).collect();
        assert_eq!(told, array.as_primitive::<UInt64Type>().values()[..]);
        let high = i128::from(odd.max(199));
        assert_eq!(column.facts.range, Interval::new(0, high));
        let width = match odd {
            0 => 1,
            300 => 2,
            _ => 8,
        };
        assert_eq!(column.width, width);
    }
}

#[test]
fn pieces_make_the_same_chunk_as_the_whole() {
    let values: Vec<Option<i64>> = (0..9_973_i64)
        .map(|row| (row % 7 != 3).then_some(row * 12 - 4_000))
        .collect();
    let arrays: [ArrayRef; 1] = [Arc::new(Int64Array::from(values))];
    let whole = written(encoder(SlotKind::Integer, &arrays, Narrowing::Factor));
    let encoder = encoder(SlotKind::Integer, &arrays, Narrowing::Factor);
    let (width, mut seen) = (encoder.width(), Seen::NOTHING);
    let mut bytes = vec![0; padded(whole.num_rows) * width];
    // The last piece first.
    for start in [8_000, 4_000, 0] {
        let end = (start + 4_000).min(whole.num_rows);
        let place = &mut bytes[start * width..end * width];
        seen.add(encoder.write(start..end, place, Reader::Device));
    }
    assert!(encoder.fits(&seen));
    assert_eq!(bytes, whole.values);
    assert_eq!(encoder.facts(&seen), whole.facts);
    assert_eq!(encoder.validity(), whole.validity.as_deref());
}

/// Rows of several arrays, with NULLs and without, begin anywhere in a line.
#[test]
fn what_a_device_reads_is_what_the_host_does() {
    let mut random = StdRng::seed_from_u64(23);
    for lens in [
        vec![1],
        vec![0, 5, 4_099],
        vec![3_000, 7, 2_049],
        vec![8_192],
    ] {
        for has_nulls in [false, true] {
            let is_valid: Vec<bool> = (0..lens.iter().sum())
                .map(|_| !has_nulls || random.random_bool(0.9))
                .collect();
            let whole: Vec<Option<i64>> = is_valid
                .iter()
                .map(|is_valid| is_valid.then(|| random.random()))
                .collect();
            let doubles = whole.iter().map(|word| word.map(|word| word as f64 / 3.0));
            let singles = whole.iter().map(|word| word.map(|word| word as f32 / 3.0));
            let columns: [(SlotKind, ArrayRef); 3] = [
                (SlotKind::Integer, Arc::new(Int64Array::from(whole.clone()))),
                (
                    SlotKind::Float64,
                    Arc::new(doubles.collect::<Float64Array>()),
                ),
                (
                    SlotKind::Float32,
                    Arc::new(singles.collect::<Float32Array>()),
                ),
            ];
            for (kind, whole) in columns {
                let mut start = 0;
                let arrays: Vec<ArrayRef> = lens
                    .iter()
                    .map(|len| {
                        start += len;
                        whole.slice(start - len, *len)
                    })
                    .collect();
                let host = written(encoder(kind, &arrays, Narrowing::Factor));
                let encoder = encoder(kind, &arrays, Narrowing::Factor);
                let mut bytes = vec![0; host.num_rows * encoder.width()];
                let seen = encoder.write(0..host.num_rows, &mut bytes, Reader::Device);
                assert!(encoder.fits(&seen));
                assert_eq!(bytes, host.values[..bytes.len()], "{kind:?} {lens:?}");
                assert_eq!(encoder.facts(&seen), host.facts);
                assert_eq!(encoder.validity(), host.validity.as_deref());
            }
        }
    }
}

#[test]
fn floats_without_a_bound_are_told_unless_null() {
    let of = |values: Vec<Option<f64>>| {
        let array: ArrayRef = Arc::new(Float64Array::from(values));
        let encoder = encoder(SlotKind::Float64, &[array], Narrowing::Factor);
        let mut bytes = vec![0; encoder.num_rows() * encoder.width()];
        let seen = encoder.write(0..encoder.num_rows(), &mut bytes, Reader::Device);
        (encoder.facts(&seen).float_bound, bytes)
    };
    let usual: Vec<Option<f64>> = (0..5_000).map(|row| Some(f64::from(row) - 70.0)).collect();
    let (bound, bytes) = of(usual.clone());
    assert_eq!(bound, 4_929.0);
    assert_eq!(bytes[..8], (-70.0_f64).to_le_bytes());
    for special in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0] {
        let mut values = usual.clone();
        values[4_321] = Some(special);
        let (bound, _) = of(values);
        assert_eq!(bound.is_infinite(), special != 0.0, "{special}");
    }
    // What lies where a value is NULL is not looked at.
    let array = Float32Array::new(
        vec![1.5, f32::NAN, -0.0, f32::INFINITY, -2.5].into(),
        Some(vec![true, false, false, false, true].into()),
    );
    let encoder = encoder(SlotKind::Float32, &[Arc::new(array)], Narrowing::Width);
    let mut bytes = vec![1; 20];
    let seen = encoder.write(0..5, &mut bytes, Reader::Device);
    assert_eq!(encoder.facts(&seen).float_bound, 2.5);
    assert_eq!(bytes[4..16], [0; 12]);
}

#[test]
fn codes_are_places_in_the_order_of_appearance() {
    let long = "a string of more than eight bytes";
    let names = ["", "a", "ab", "12345678", "123456789", long, "a\0", "\0"];
    let rows: Vec<Option<&str>> = (0..3_000)
        .map(|row| (row % 11 != 4).then(|| names[(row * row + row / 7) % names.len()]))
        .collect();
    let keys = Int32Array::from_iter(rows.iter().map(|name| {
        let place = |name| names.iter().position(|known| *known == name);
        name.and_then(place).map(|place| place as i32)
    }));
    let values = Arc::new(StringArray::from(names.to_vec()));
    let arrays: [ArrayRef; 4] = [
        Arc::new(StringArray::from(rows.clone())),
        Arc::new(LargeStringArray::from(rows.clone())),
        Arc::new(StringViewArray::from(rows.clone())),
        Arc::new(DictionaryArray::new(keys, values)),
    ];
    for array in arrays {
        let mut known = Dictionary::default();
        // One chunk is not the first of its column.
        for (start, len) in [(1_500, 1_500), (0, 3_000), (2_999, 1), (10, 0)] {
            let strings = RwLock::new(std::mem::take(&mut known));
            let chunk = [array.slice(start, len)];
            let encoder = Encoder::new(SlotKind::Code, &chunk, &strings, Narrowing::Factor);
            let column = written(encoder.unwrap());
            known = strings.into_inner();
            for (row, word) in column.words().into_iter().enumerate() {
                let told = column.is_valid(row).then(|| known.get(word as usize));
                assert_eq!(told, rows[start + row], "{} row {row}", array.data_type());
            }
        }
        assert_eq!(known.len(), names.len());
    }
}

#[test]
fn small_types_and_booleans_are_told() {
    let array: ArrayRef = Arc::new(Int8Array::from_iter_values((0..9_000).map(|row| row as i8)));
    let column = written(encoder(SlotKind::Integer, &[array], Narrowing::Factor));
    assert_eq!(column.facts.range, Interval::new(-128, 127));
    assert_eq!(column.words()[130], -126);
    let array = arrow_array::BooleanArray::from_iter((0..9_000).map(|row| match row % 3 {
        0 => None,
        other => Some(other == 1),
    }));
    let column = written(encoder(
        SlotKind::Integer,
        &[Arc::new(array)],
        Narrowing::Width,
    ));
    assert_eq!(column.words()[4..6], [1, 0]);
    assert!(!column.is_valid(6));
    assert_eq!(column.width, 1);
}
