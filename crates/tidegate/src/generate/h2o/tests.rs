//! Tests of db-benchmark's group-by table.

use std::collections::BTreeSet;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute;
use arrow::datatypes::{Float64Type, Int32Type};

use super::super::tests::{all, read_table};
use super::{Column, H2oG1Source, columns, id_view};
use crate::sources::MorselSource;

const ROWS: u64 = 200_000;
const GROUPS: u64 = 100;

fn table(null_percent: u8) -> RecordBatch {
    let source = H2oG1Source::try_new(ROWS, GROUPS, null_percent, 108).unwrap();
    read_table(&source, &all(&source))
}

fn check_error(rows: u64, groups: u64, null_percent: u8, expect: &str) {
    let error = H2oG1Source::try_new(rows, groups, null_percent, 1)
        .unwrap_err()
        .to_string();
    assert!(error.contains(expect), "{error}");
}

/// Returns the distinct texts of a column, without NULL.
fn distinct_texts<'a>(table: &'a RecordBatch, column: &str) -> BTreeSet<&'a str> {
    table[column].as_string_view().iter().flatten().collect()
}

/// Returns the distinct numbers of a column, without NULL.
fn distinct_ints(table: &RecordBatch, column: &str) -> BTreeSet<i32> {
    table[column]
        .as_primitive::<Int32Type>()
        .iter()
        .flatten()
        .collect()
}

#[test]
fn values_are_in_range() {
    let table = table(0);
    for column in ["id1", "id2"] {
        let texts = distinct_texts(&table, column);
        let expect: Vec<String> = (1..=GROUPS)
            .map(|number| format!("id{number:03}"))
            .collect();
        assert!(
            texts.iter().copied().eq(expect.iter().map(String::as_str)),
            "{column}"
        );
    }
    let many = (ROWS / GROUPS) as i32;
    let texts = distinct_texts(&table, "id3");
    let expect: Vec<String> = (1..=many).map(|number| format!("id{number:010}")).collect();
    assert!(texts.iter().copied().eq(expect.iter().map(String::as_str)));

    for (column, max) in [
        ("id4", GROUPS as i32),
        ("id5", GROUPS as i32),
        ("id6", many),
        ("v1", 5),
        ("v2", 15),
    ] {
        assert!(
            distinct_ints(&table, column).into_iter().eq(1..=max),
            "{column}"
        );
    }
    for value in table["v3"].as_primitive::<Float64Type>().values() {
        assert!((0.0..=100.0).contains(value));
        assert_eq!((value * 1e6).round() / 1e6, *value, "six digits");
    }
}

#[test]
fn sums_are_near_three_eight_and_fifty_per_row() {
    let table = table(0);
    let rows = ROWS as f64;
    let sum =
        |column: &str| f64::from(compute::sum(table[column].as_primitive::<Int32Type>()).unwrap());
    // About five standard deviations each.
    assert!((sum("v1") / rows - 3.0).abs() < 0.016);
    assert!((sum("v2") / rows - 8.0).abs() < 0.05);
    let v3 = compute::sum(table["v3"].as_primitive::<Float64Type>()).unwrap();
    assert!((v3 / rows - 50.0).abs() < 0.33, "{v3}");
}

#[test]
fn columns_are_independent() {
    let table = table(0);
    let pairs: BTreeSet<_> = table["id4"]
        .as_primitive::<Int32Type>()
        .values()
        .iter()
        .zip(table["id5"].as_primitive::<Int32Type>().values())
        .collect();
    // 20 rows to each of the 10,000 pairs.
    assert_eq!(pairs.len(), 10_000);
}

#[test]
fn nulls_follow_r() {
    let table = table(5);
    for column in ["id1", "id2"] {
        assert_eq!(distinct_texts(&table, column).len(), 95, "{column}");
    }
    assert_eq!(distinct_texts(&table, "id3").len(), 1_900);
    for (column, distinct) in [("id4", 95), ("id5", 95), ("id6", 1_900)] {
        assert_eq!(distinct_ints(&table, column).len(), distinct, "{column}");
    }
    for column in ["v1", "v2", "v3"] {
        assert_eq!(table[column].null_count(), 10_000, "{column}");
    }
    assert_ne!(table["v1"].nulls(), table["v2"].nulls());
    for (index, column) in ["id1", "id2", "id3", "id4", "id5", "id6"]
        .iter()
        .enumerate()
    {
        let share = table[*column].null_count() as f64 / ROWS as f64;
        assert!((share - 0.05).abs() < 0.005, "{index}: {share}");
    }
}

#[test]
fn nulls_take_nothing_else_away() {
    let (with, without) = (table(5), table(0));
    for column in 0..with.num_columns() {
        let valid = compute::is_not_null(with.column(column)).unwrap();
        assert_eq!(
            &compute::filter(with.column(column), &valid).unwrap(),
            &compute::filter(without.column(column), &valid).unwrap()
        );
    }
}

#[test]
fn nullable_only_with_nulls() {
    for (null_percent, nullable) in [(0, false), (1, true), (100, true)] {
        let source = H2oG1Source::try_new(1_000, 10, null_percent, 1).unwrap();
        assert!(
            source
                .schema()
                .fields()
                .iter()
                .all(|field| field.is_nullable() == nullable)
        );
    }
    let empty = table(100);
    assert!(
        empty
            .columns()
            .iter()
            .all(|column| column.null_count() == ROWS as usize)
    );
}

#[test]
fn few_distinct_values_round_down_to_no_null() {
    let source = H2oG1Source::try_new(1_000, 2, 5, 1).unwrap();
    let table = read_table(&source, &all(&source));
    assert_eq!(table["id1"].null_count(), 0);
    assert_eq!(table["v1"].null_count(), 50);
}

#[test]
fn morsel_size_does_not_matter() {
    let whole = H2oG1Source::cut(10_001, 10, 20, 7, 1 << 40);
    let expect = read_table(&whole, &all(&whole));
    assert_eq!(expect.num_rows(), 10_001);
    for morsel_rows in [1, 31, 32, 33, 1_000, 10_000, 10_001, 10_002] {
        let source = H2oG1Source::cut(10_001, 10, 20, 7, morsel_rows);
        assert_eq!(
            source.morsels().len() as u64,
            10_001_u64.div_ceil(morsel_rows)
        );
        assert_eq!(
            read_table(&source, &all(&source)),
            expect,
            "morsels of {morsel_rows}"
        );
    }
}

#[test]
fn seed_matters() {
    let read = |seed| {
        let source = H2oG1Source::try_new(1_000, 10, 0, seed).unwrap();
        read_table(&source, &all(&source))
    };
    for column in 0..9 {
        assert_ne!(read(1).column(column), read(2).column(column));
    }
}

/// The first cells of the default seed: the data does not change from release to release.
#[test]
fn cells_stay_the_same() {
    let table = table(0);
    let first = |column: &str| {
        compute::cast(&table[column], &arrow::datatypes::DataType::Utf8)
            .unwrap()
            .as_string::<i32>()
            .value(0)
            .to_string()
    };
    let row: Vec<String> = ["id1", "id2", "id3", "id4", "id5", "id6", "v1", "v2", "v3"]
        .map(first)
        .into();
    assert_eq!(
        row.join(" "),
        "id020 id043 id0000001858 88 59 1078 5 15 30.833251"
    );
}

#[test]
fn ids_are_texts_in_their_views() {
    let check = |number: u32, digits, expect: &str| {
        assert_eq!(
            id_view(number, digits),
            arrow::array::make_view(expect.as_bytes(), 0, 0)
        );
    };
    check(1, 3, "id001");
    check(999, 3, "id999");
    check(1_000, 3, "id1000");
    check(1, 10, "id0000000001");
    check(i32::MAX as u32, 3, "id2147483647");
    check(i32::MAX as u32, 10, "id2147483647");
}

#[test]
fn largest_ids_are_text() {
    let largest: Vec<Column> = columns(10_000_000_000, i32::MAX as u64, 50, 1);
    for column in largest {
        assert_eq!(
            column.array(9_999_999_000..10_000_000_000).unwrap().len(),
            1_000
        );
    }
}

#[test]
fn largest_table_is_described() {
    let source = H2oG1Source::try_new(10_000_000_000, 100, 5, 108).unwrap();
    assert_eq!(
        source
            .morsels()
            .iter()
            .map(|size| size.num_rows)
            .sum::<u64>(),
        10_000_000_000
    );
    let last = source.morsels().len() - 1;
    let rows: usize = source
        .read(last, &[2, 8], 8192)
        .unwrap()
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    assert_eq!(rows as u64, source.morsels()[last].num_rows);
    assert_eq!(source.name(), "h2o_g1(10000000000, 100, 5, 108)");
}

#[test]
fn errors() {
    check_error(0, 1, 0, "h2o_g1 rows must be from 1 to 10000000000, got 0");
    check_error(10_000_000_001, 100, 0, "got 10000000001");
    check_error(
        10,
        0,
        0,
        "h2o_g1 groups must be from 1 to the 10 rows, got 0",
    );
    check_error(
        10,
        11,
        0,
        "h2o_g1 groups must be from 1 to the 10 rows, got 11",
    );
    check_error(
        10,
        1,
        101,
        "h2o_g1 null_percent must be from 0 to 100, got 101",
    );
    check_error(
        1 << 32,
        1 << 31,
        0,
        "h2o_g1 groups must be at most 2147483647 to fit Int32",
    );
    check_error(
        1 << 32,
        2,
        0,
        "got 2147483648 with 2 groups; take at least 3 groups",
    );
    assert!(H2oG1Source::try_new(1 << 32, 3, 0, 1).is_ok());
}
