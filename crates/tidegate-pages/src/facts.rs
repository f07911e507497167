//! What a file's statistics say of a column.

use arrow_schema::DataType;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::statistics::Statistics;
use tidegate_pipeline::interval::Interval;
use tidegate_pipeline::program::Facts;

use crate::kind::{Kind, Narrow};

/// Returns what the statistics of all row groups say of a column of an Arrow type; what the type alone says
/// where they are missing. Statistics may lie: whoever uses this compares each value with it.
pub fn facts_of(metadata: &ParquetMetaData, leaf: usize, data_type: &DataType) -> Facts {
    let mut facts = Facts::declared(data_type);
    let chunks = metadata
        .row_groups()
        .iter()
        .map(|group| group.columns().get(leaf));
    let Some(chunks) = chunks.collect::<Option<Vec<_>>>() else {
        return facts;
    };
    let Some(first) = chunks.first() else {
        return facts;
    };
    let Ok(kind) = Kind::new(first.column_descr(), data_type) else {
        return facts;
    };
    let is_required = first.column_descr().max_def_level() == 0;
    facts.nullable = !is_required && chunks.iter().any(|chunk| null_count(chunk) != Some(0));
    let mut known: Option<Interval> = None;
    for chunk in chunks {
        let is_empty = null_count(chunk) == u64::try_from(chunk.num_values()).ok();
        if is_empty {
            continue;
        }
        let Some(interval) = chunk.statistics().and_then(|values| interval(kind, values)) else {
            return facts;
        };
        known = Some(known.map_or(interval, |known| known.hull(interval)));
    }
    if let Some(known) = known
        && known.is_within(facts.interval)
    {
        facts.interval = known;
    }
    facts
}

fn null_count(chunk: &ColumnChunkMetaData) -> Option<u64> {
    match chunk.num_values() {
        0 => Some(0),
        _ => chunk.statistics().and_then(Statistics::null_count_opt),
    }
}

/// Returns where the integers of a column chunk lie.
fn interval(kind: Kind, statistics: &Statistics) -> Option<Interval> {
    let (low, high) = match (kind, statistics) {
        (Kind::Int32(Narrow::None) | Kind::Widened32, Statistics::Int32(values)) => (
            i128::from(*values.min_opt()?),
            i128::from(*values.max_opt()?),
        ),
        (Kind::Int64, Statistics::Int64(values)) => (
            i128::from(*values.min_opt()?),
            i128::from(*values.max_opt()?),
        ),
        // Old writers compared integers without a sign, and bytes, in other ways.
        (_, statistics) if statistics.is_min_max_deprecated() => return None,
        (Kind::Int32(_), Statistics::Int32(values)) => (
            i128::from(*values.min_opt()?),
            i128::from(*values.max_opt()?),
        ),
        (Kind::Unsigned32, Statistics::Int32(values)) => (
            i128::from(*values.min_opt()? as u32),
            i128::from(*values.max_opt()? as u32),
        ),
        (Kind::Unsigned64, Statistics::Int64(values)) => (
            i128::from(*values.min_opt()? as u64),
            i128::from(*values.max_opt()? as u64),
        ),
        (Kind::FixedDecimal { .. } | Kind::BytesDecimal { .. }, statistics)
            if statistics.min_is_exact() && statistics.max_is_exact() =>
        {
            (
                decimal(statistics.min_bytes_opt()?)?,
                decimal(statistics.max_bytes_opt()?)?,
            )
        }
        _ => return None,
    };
    (low <= high).then(|| Interval::new(low, high))
}

fn decimal(bytes: &[u8]) -> Option<i128> {
    if !(1..=16).contains(&bytes.len()) {
        return None;
    }
    let mut wide = [if bytes[0] < 0x80 { 0 } else { 0xff }; 16];
    wide[16 - bytes.len()..].copy_from_slice(bytes);
    Some(i128::from_be_bytes(wide))
}
