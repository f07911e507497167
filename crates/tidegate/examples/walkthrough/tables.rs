//! A table of two columns in ten partitions, grouped and summed.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::datasource::MemTable;

use super::{Outcome, Walk, expect, number};

/// Makes the partition of this number: a thousand rows of a key `A` and a value `B`, or a million.
pub(super) fn partition(
    walk: Walk,
    number: i64,
) -> Result<RecordBatch, Box<dyn std::error::Error>> {
    let rows = rows_of(walk, number);
    let keys = rows.clone().map(|row| ["x", "y", "z"][(row % 3) as usize]);
    let columns: [(&str, ArrayRef); 2] = [
        ("A", Arc::new(StringArray::from_iter_values(keys))),
        ("B", Arc::new(Int64Array::from_iter_values(rows))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

fn rows_of(walk: Walk, number: i64) -> Range<i64> {
    let each = if walk.full { 1_000_000 } else { 1000 };
    number * each..(number + 1) * each
}

/// Groups by `A` and sums `B`.
pub(super) async fn grouped(walk: Walk) -> Outcome {
    let session = walk.session().await?;
    let partitions = (0..10).map(|number| Ok(vec![partition(walk, number)?]));
    let partitions = partitions.collect::<Result<Vec<_>, Box<dyn std::error::Error>>>()?;
    let table = MemTable::try_new(partitions[0][0].schema(), partitions)?;
    session.register_table("t", Arc::new(table))?;
    let sql = "SELECT \"A\", sum(\"B\") AS total FROM t GROUP BY \"A\" ORDER BY \"A\"";
    walk.tell(&session, sql).await?;
    let all = session.collect("SELECT sum(\"B\") FROM t").await?;
    let rows = rows_of(walk, 9).end;
    let wanted = rows * (rows - 1) / 2;
    expect("the sum of B", number(&all)?, wanted as f64, 0.0)
}
