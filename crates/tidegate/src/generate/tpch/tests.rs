//! Tests of the TPC-H tables.

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};

use super::super::tests::{all, read_table};
use super::{Table, TpchSource};
use crate::sources::MorselSource;

fn check_error(table: &str, scale_factor: f64, expect: &str) {
    let error = TpchSource::try_new(table, scale_factor)
        .unwrap_err()
        .to_string();
    assert!(error.contains(expect), "{error}");
}

#[test]
fn row_counts() {
    for (table, rows) in [
        ("customer", 1_500),
        ("lineitem", 60_175),
        ("nation", 25),
        ("orders", 15_000),
        ("part", 2_000),
        ("partsupp", 8_000),
        ("region", 5),
        ("supplier", 100),
    ] {
        let source = TpchSource::try_new(table, 0.01).unwrap();
        assert_eq!(read_table(&source, &[0]).num_rows(), rows, "{table}");
        assert_eq!(source.exact_rows(), table != "lineitem");
        assert_eq!(source.name(), format!("tpch({table}, 0.01)"));
    }
}

#[test]
fn parts_make_the_whole_table() {
    for table in Table::ALL {
        let whole = TpchSource::cut(table, 0.01, u64::MAX);
        assert_eq!(whole.morsels().len(), 1);
        let expect = read_table(&whole, &all(&whole));
        for morsel_rows in [997, 1_000, 1_024] {
            let source = TpchSource::cut(table, 0.01, morsel_rows);
            assert_eq!(
                read_table(&source, &all(&source)),
                expect,
                "{table:?} by {morsel_rows}"
            );
        }
    }
}

#[test]
fn morsels_have_about_the_same_rows() {
    for table in Table::ALL {
        for scale_factor in [0.0001, 0.5, 1.0, 10.0, 123.4, 1000.0] {
            let source = TpchSource::cut(table, scale_factor, 131_072);
            let (last, rest) = source.morsels().split_last().unwrap();
            assert!(
                rest.iter()
                    .all(|size| (65_000..=131_072).contains(&size.num_rows))
            );
            assert!(
                last.num_rows < 3 * 131_072,
                "{table:?} {scale_factor} {last:?}"
            );
        }
    }
    let lineitem = TpchSource::try_new("lineitem", 1000.0).unwrap();
    assert_eq!(lineitem.morsels().len(), 45_777);
    let rows: u64 = lineitem.morsels().iter().map(|size| size.num_rows).sum();
    assert_eq!(rows, 6_000_000_000);
}

/// The first line of dbgen's lineitem at scale factor 1 has part 155190, and costs 21168.23.
#[test]
fn rows_are_dbgen_rows() {
    let source = TpchSource::try_new("LineItem", 1.0).unwrap();
    let batches = source.read(0, &[1, 5, 15], 10).unwrap();
    let batch = &batches[0];
    assert_eq!(
        batch.column(0).as_primitive::<Int64Type>().value(0),
        155_190
    );
    assert_eq!(
        batch.column(1).as_primitive::<Decimal128Type>().value(0),
        2_116_823
    );
    assert_eq!(
        batch.column(2).as_string_view().value(0),
        "egular courts above the"
    );
    assert_eq!(
        source.schema().field(5).data_type(),
        &DataType::Decimal128(15, 2)
    );
}

#[test]
fn least_scale_factor_reads() {
    for table in Table::ALL {
        let source = TpchSource::try_new(table.name(), 0.0001).unwrap();
        assert!(
            read_table(&source, &all(&source)).num_rows() > 0,
            "{table:?}"
        );
    }
}

#[test]
fn errors() {
    check_error(
        "line_item",
        1.0,
        "tpch has no table 'line_item', did you mean 'lineitem'?",
    );
    check_error(
        "sales",
        1.0,
        "tpch has no table 'sales'; its tables are customer, lineitem, nation, orders, part, \
         partsupp, region, supplier",
    );
    for scale_factor in [0.0, -1.0, 0.00009, 1000.5, f64::INFINITY, f64::NAN] {
        check_error(
            "nation",
            scale_factor,
            &format!("tpch scale factor must be from 0.0001 to 1000, got {scale_factor}"),
        );
    }
}
