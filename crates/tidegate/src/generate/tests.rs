//! Tests of the contract of a morsel source, on both kinds of generated table.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;

use super::{H2oG1Source, TpchSource, source_of};
use crate::sources::{MorselSource, Share, SourceDescription};

/// Reads the whole table, morsel by morsel, as one batch.
pub(super) fn read_table(source: &dyn MorselSource, projection: &[usize]) -> RecordBatch {
    let batches: Vec<_> = (0..source.morsels().len())
        .flat_map(|index| source.read(index, projection, 8192).unwrap())
        .collect();
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

/// Returns all columns of `source`.
pub(super) fn all(source: &dyn MorselSource) -> Vec<usize> {
    (0..source.schema().fields().len()).collect()
}

/// Returns the bytes of an array's rows; a text beyond 12 bytes lies outside its view.
fn num_bytes(array: &ArrayRef) -> usize {
    let outside = array
        .as_string_view_opt()
        .map_or(0, |texts| texts.total_buffer_bytes_used());
    array.to_data().get_slice_memory_size().unwrap() + outside
}

fn check_contract(source: &dyn MorselSource) {
    let name = source.name();
    let schema = source.schema();
    let all = all(source);
    let table = read_table(source, &all);
    assert_eq!(table.schema(), schema, "{name}");
    assert_eq!(table, read_table(source, &all), "{name}: a second read");

    let mut start = 0;
    for (index, size) in source.morsels().iter().enumerate() {
        let batches = source.read(index, &all, 1000).unwrap();
        assert!(
            batches
                .iter()
                .all(|batch| (1..=1000).contains(&batch.num_rows())),
            "{name}"
        );
        let morsel = concat_batches(&schema, &batches).unwrap();
        assert_eq!(
            morsel,
            table.slice(start, morsel.num_rows()),
            "{name}: morsel {index}"
        );
        start += morsel.num_rows();
        if source.exact_rows() {
            assert_eq!(
                size.num_rows,
                morsel.num_rows() as u64,
                "{name}: morsel {index}"
            );
        }
        let bytes: usize = morsel.columns().iter().map(num_bytes).sum();
        let ratio = size.num_bytes as f64 / bytes as f64;
        assert!(
            (0.9..1.1).contains(&ratio),
            "{name}: {bytes} bytes, {} rows",
            morsel.num_rows()
        );
    }
    assert_eq!(start, table.num_rows(), "{name}");

    let last = schema.fields().len() - 1;
    for projection in [vec![last, 0], vec![1], vec![0, 0], vec![]] {
        let projected = read_table(source, &projection);
        assert_eq!(
            projected,
            table.project(&projection).unwrap(),
            "{name}: {projection:?}"
        );
    }
    assert!(
        source.read(source.morsels().len(), &all, 1000).is_err(),
        "{name}"
    );
    assert!(source.read(0, &[last + 1], 1000).is_err(), "{name}");
}

#[test]
fn tpch_keeps_the_contract() {
    for table in [
        "customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier",
    ] {
        check_contract(&TpchSource::try_new(table, 0.01).unwrap());
    }
}

#[test]
fn tpch_in_several_morsels_keeps_the_contract() {
    let source = TpchSource::try_new("partsupp", 0.2).unwrap();
    assert_eq!(source.morsels().len(), 2);
    check_contract(&source);
}

#[test]
fn h2o_keeps_the_contract() {
    for null_percent in [0, 5, 100] {
        check_contract(&H2oG1Source::try_new(150_001, 100, null_percent, 108).unwrap());
    }
    check_contract(&H2oG1Source::try_new(1, 1, 0, 108).unwrap());
}

#[test]
fn a_share_has_the_morsels_of_its_runs() {
    let h2o = SourceDescription::H2oG1 {
        rows: 1_000_000,
        groups: 10,
        null_percent: 0,
        seed: 1,
    };
    let whole = source_of(&h2o).unwrap();
    let count = whole.morsels().len();
    assert!(count > 4, "{count}");
    let share = Share::try_new(Arc::clone(&whole), vec![0..1, 3..4]).unwrap();
    assert_eq!(share.morsels(), [whole.morsels()[0], whole.morsels()[3]]);
    let (first, second) = (whole.read(3, &[0], 8_192), share.read(1, &[0], 8_192));
    assert_eq!(first.unwrap(), second.unwrap());
    assert!(share.read(2, &[0], 8_192).is_err());
    let (origin, numbers) = share.origin().unwrap();
    assert_eq!(
        (origin.identity(), numbers),
        (whole.identity(), &[0, 3][..])
    );
    let again = source_of(&share.description().unwrap()).unwrap();
    assert_eq!(again.identity(), share.identity());
    for wrong in [vec![0..1, 5..count + 1], vec![1..2, 0..1], vec![0..2, 1..3]] {
        assert!(Share::try_new(Arc::clone(&whole), wrong).is_err());
    }
}
