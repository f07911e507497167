//! Facts from footers.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, StringArray, UInt64Array};
use arrow_schema::DataType;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tidegate_pages::facts_of;
use tidegate_pipeline::interval::Interval;
use tidegate_pipeline::program::Facts;

use crate::cells::Cell;
use crate::compare::Opened;
use crate::files::{Nulls, Values, columns, written};

/// Facts hold of every value, and are as narrow as the file's statistics.
#[test]
fn facts_hold_of_every_value() {
    let mut random = StdRng::seed_from_u64(71);
    for nulls in Nulls::ALL {
        for values in [Values::Few, Values::Many, Values::One] {
            let properties = WriterProperties::builder()
                .set_max_row_group_row_count(Some(300))
                .build();
            let file = written(columns(1_000, nulls, values, &mut random), properties);
            let file = Opened::new(&file);
            for (leaf, request) in file.columns.iter().enumerate() {
                check(&file, leaf, &request.data_type);
            }
        }
    }
}

fn check(file: &Opened, leaf: usize, data_type: &DataType) {
    let facts = facts_of(&file.metadata, leaf, data_type);
    let groups = 0..file.metadata.num_row_groups();
    let cells: Vec<_> = groups
        .flat_map(|group| file.expected(group).swap_remove(leaf))
        .collect();
    assert_eq!(facts.nullable, cells.contains(&None), "{data_type}");
    let values = cells.iter().flatten().filter_map(|cell| match cell {
        Cell::Int(value) => Some(*value),
        _ => None,
    });
    let values: Vec<i128> = values.collect();
    if let (Some(low), Some(high)) = (values.iter().min(), values.iter().max())
        && *data_type != DataType::Boolean
    {
        assert_eq!(facts.interval, Interval::new(*low, *high), "{data_type}");
    }
}

#[test]
fn without_statistics_the_type_is_what_is_known() {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int32Array::from(vec![1, 2]))),
        ("u", Arc::new(UInt64Array::from(vec![1, u64::MAX]))),
        ("t", Arc::new(StringArray::from(vec!["a", "b"]))),
    ];
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let file = Opened::new(&written(columns, properties));
    for (leaf, request) in file.columns.iter().enumerate() {
        let facts = facts_of(&file.metadata, leaf, &request.data_type);
        assert_eq!(facts, Facts::declared(&request.data_type));
    }
    // Of a column that there is not.
    assert_eq!(
        facts_of(&file.metadata, 9, &DataType::Int32),
        Facts::declared(&DataType::Int32)
    );
}
