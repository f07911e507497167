//! A table of two columns in ten partitions, grouped and summed.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::datasource::MemTable;
use tidegate::Session;

use crate::{Outcome, expect, number, tell};

/// Makes the partition of this number: a thousand rows of a key `A` and a value `B`.
pub(crate) fn partition(number: i64) -> Result<RecordBatch, Box<dyn std::error::Error>> {
    let rows = number * 1000..(number + 1) * 1000;
    let keys = rows.clone().map(|row| ["x", "y", "z"][(row % 3) as usize]);
    let columns: [(&str, ArrayRef); 2] = [
        ("A", Arc::new(StringArray::from_iter_values(keys))),
        ("B", Arc::new(Int64Array::from_iter_values(rows))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// Groups by `A` and sums `B`.
pub(crate) async fn grouped() -> Outcome {
    let session = Session::new()?;
    let partitions = (0..10).map(|number| Ok(vec![partition(number)?]));
    let partitions = partitions.collect::<Result<Vec<_>, Box<dyn std::error::Error>>>()?;
    let table = MemTable::try_new(partitions[0][0].schema(), partitions)?;
    session.register_table("t", Arc::new(table))?;
    tell(
        &session,
        "SELECT \"A\", sum(\"B\") AS total FROM t GROUP BY \"A\" ORDER BY \"A\"",
    )
    .await?;
    let all = session.collect("SELECT sum(\"B\") FROM t").await?;
    expect("the sum of B", number(&all)?, 49_995_000.0, 0.0)
}
