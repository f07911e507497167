//! Tests of arrays as tables: their morsels make up the array, and narrowing leaves exactly the rows
//! for which a filter holds.

use std::collections::BTreeMap;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Float64Type, Int64Type};
use datafusion::logical_expr::{Expr, col, lit};
use tidegate_kernels::random::{Array, Simd, Values};

use super::ArraySource;
use crate::sources::MorselSource;

const NORMAL: Values = Values::Normal {
    location: 0.0,
    scale: 2.0,
};

fn source(shape: &[u64], chunks: &[u64]) -> ArraySource {
    let array = Array::try_new(shape.to_vec(), NORMAL, 9).unwrap();
    ArraySource::try_new("an array".into(), array, chunks.to_vec(), false).unwrap()
}

/// Returns the values by their indices, each of which occurs once.
fn cells(source: &dyn MorselSource) -> BTreeMap<Vec<i64>, u64> {
    let width = source.schema().fields().len();
    let projection: Vec<usize> = (0..width).collect();
    let mut cells = BTreeMap::new();
    for (morsel, size) in source.morsels().iter().enumerate() {
        let mut num_rows = 0;
        for batch in source.read(morsel, &projection, 1000).unwrap() {
            num_rows += batch.num_rows() as u64;
            let values = batch.column(width - 1).as_primitive::<Float64Type>();
            for row in 0..batch.num_rows() {
                let index =
                    |column: usize| batch.column(column).as_primitive::<Int64Type>().value(row);
                let at: Vec<i64> = (0..width - 1).map(index).collect();
                let twice = cells.insert(at.clone(), values.value(row).to_bits());
                assert!(twice.is_none(), "{at:?} twice");
            }
        }
        assert_eq!(num_rows, size.num_rows);
    }
    cells
}

#[test]
fn morsels_make_up_the_array() {
    for (shape, chunks) in [
        (vec![1000], vec![300]),
        (vec![70, 110], vec![32, 64]),
        (vec![70, 110], vec![70, 110]),
        (vec![7, 11, 13], vec![2, 11, 5]),
        (vec![400_000], vec![400_000]),
        (vec![3, 200_000], vec![3, 200_000]),
    ] {
        let source = source(&shape, &chunks);
        let found = cells(&source);
        let array = Array::try_new(shape.clone(), NORMAL, 9).unwrap();
        let mut expected = vec![0.0; array.num_values() as usize];
        array.read(Simd::Portable, &array.whole(), 0, &mut expected);
        // In the order of indices the cells are those of the flat array.
        let found: Vec<u64> = found.into_values().collect();
        let expected: Vec<u64> = expected.iter().map(|value| value.to_bits()).collect();
        assert!(found == expected, "{shape:?} in {chunks:?}");
    }
}

#[test]
fn filters_leave_exactly_their_rows() {
    let whole = source(&[40, 90], &[16, 50]);
    let all = cells(&whole);
    type Holds = fn(i64, i64) -> bool;
    let cases: [(Vec<Expr>, Holds); 9] = [
        (vec![(col("i") % lit(2_i64)).eq(lit(0_i64))], |i, _| {
            i % 2 == 0
        }),
        (
            vec![
                (col("j") % lit(3_i64)).eq(lit(1_i64)),
                (col("j") % lit(4_i64)).eq(lit(2_i64)),
            ],
            |_, j| j % 12 == 10,
        ),
        (
            vec![
                (col("j") % lit(6_i64)).eq(lit(1_i64)),
                (col("j") % lit(4_i64)).eq(lit(2_i64)),
            ],
            |_, _| false,
        ),
        (
            vec![col("i").lt(lit(7_i64)).and(col("j").gt_eq(lit(60_i64)))],
            |i, j| i < 7 && j >= 60,
        ),
        (vec![col("i").between(lit(3_i64), lit(20_i64))], |i, _| {
            (3..=20).contains(&i)
        }),
        (
            vec![
                lit(30_i64).lt(col("i")),
                (col("i") % lit(5_i64)).eq(lit(2_i64)),
            ],
            |i, _| i > 30 && i % 5 == 2,
        ),
        (vec![col("j").eq(lit(89_i64))], |_, j| j == 89),
        (
            vec![col("j").gt(lit(-5_i64)).and(col("i").lt_eq(lit(-1_i64)))],
            |_, _| false,
        ),
        (vec![(col("i") % lit(7_i64)).eq(lit(-3_i64))], |_, _| false),
    ];
    for (filters, holds) in cases {
        let mut narrowed: std::sync::Arc<dyn MorselSource> = std::sync::Arc::new(whole.clone());
        for filter in &filters {
            narrowed = narrowed.narrowed(filter).unwrap();
        }
        let found = cells(narrowed.as_ref());
        let mut expected = all.clone();
        expected.retain(|at, _| holds(at[0], at[1]));
        assert_eq!(found, expected, "{filters:?}");
    }
    for filter in [
        col("x").gt(lit(0.0)),
        col("i").not_eq(lit(3_i64)),
        col("i").lt(col("j")),
        (col("i") % lit(0_i64)).eq(lit(0_i64)),
        col("i").eq(lit(1_i64)).or(col("j").eq(lit(1_i64))),
    ] {
        assert!(whole.narrowed(&filter).is_none(), "{filter}");
    }
}

#[test]
fn large_arrays_have_few_morsels() {
    let large = source(&[500_000, 500_000], &[10_000, 10_000]);
    assert!((2_500..200_000).contains(&large.morsels().len()));
    let rows: u64 = large.morsels().iter().map(|size| size.num_rows).sum();
    assert_eq!(rows, 250_000_000_000);
}
