//! Rows in an order, of which the first may be all that is kept.
//!
//! Rows are gathered with their sort keys as further columns, and an order is a list of places. With a fetch,
//! the rows beyond it are dropped whenever enough have gathered. Rows of equal keys keep the order in which
//! they came.

use std::cmp::Ordering;

use arrow_schema::DataType;

use super::super::cell::Cell;
use super::super::{Order, RowProgram, Sorted, Type};
use super::evaluate::Block;
use crate::interpret::EvalError;
use crate::interpret::block::{BATCH_ROWS, Block as Rows, BlockBuilder};
use crate::interpret::column::Column;

/// The rows met so far.
pub(super) struct Sorter {
    keys: Vec<Order>,
    fetch: Option<usize>,
    /// How many columns a row has, before those of its keys.
    width: usize,
    gathered: BlockBuilder,
    /// How many rows may gather before those beyond the fetch are dropped.
    enough: usize,
}

impl Sorter {
    /// Starts over no rows.
    pub(super) fn new(program: &RowProgram, sorted: &Sorted) -> Result<Self, EvalError> {
        let keys = sorted.keys.iter();
        let key_types: Vec<DataType> = keys
            .map(|key| held_as(program.data(key.value.value)))
            .collect();
        let outputs = sorted.outputs.iter().map(|output| &output.data_type);
        let enough = |fetch: usize| fetch.saturating_mul(2).max(8 * BATCH_ROWS);
        Ok(Self {
            keys: sorted.keys.clone(),
            fetch: sorted.fetch,
            width: sorted.outputs.len(),
            gathered: BlockBuilder::new(outputs.chain(&key_types))?,
            enough: sorted.fetch.map_or(usize::MAX, enough),
        })
    }

    /// Takes a row.
    pub(super) fn take(
        &mut self,
        sorted: &Sorted,
        block: &Block<'_>,
        row: usize,
    ) -> Result<(), EvalError> {
        let outputs = sorted.outputs.iter();
        let outputs = outputs.map(|output| block.get(output.value, row));
        let keys = self.keys.iter().map(|key| block.get(key.value, row));
        self.gathered.push(outputs.chain(keys))
    }

    /// Drops the rows beyond the fetch if enough have gathered.
    pub(super) fn compact(&mut self) -> Result<(), EvalError> {
        if self.gathered.rows() < self.enough {
            return Ok(());
        }
        let rows = self.gathered.finish()?;
        self.write_in_order(&rows)
    }

    /// Returns the rows in order, without their keys.
    pub(super) fn finish(mut self) -> Result<Vec<Rows>, EvalError> {
        let rows = self.gathered.finish()?;
        self.write_in_order(&rows)?;
        let mut ordered = self.gathered.finish()?;
        for rows in &mut ordered {
            rows.columns.truncate(self.width);
        }
        Ok(ordered)
    }

    /// Returns the memory held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.gathered.memory_bytes()
    }

    /// Gathers the first rows of the blocks, in order.
    fn write_in_order(&mut self, blocks: &[Rows]) -> Result<(), EvalError> {
        let columns: Vec<Vec<Column<'_>>> = blocks
            .iter()
            .map(|block| {
                let arrays = block.columns.iter();
                arrays.map(|array| Column::new(array.as_ref())).collect()
            })
            .collect::<Result<_, EvalError>>()?;
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (block, held) in blocks.iter().enumerate() {
            places.extend((0..held.rows).map(|row| (block, row)));
        }
        let (keys, width) = (&self.keys, self.width);
        let cell = |(block, row): (usize, usize), key: usize| columns[block][width + key].get(row);
        places.sort_by(|left, right| {
            let orders = keys.iter().enumerate();
            orders
                .map(|(index, key)| order(key, cell(*left, index), cell(*right, index)))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        });
        places.truncate(self.fetch.unwrap_or(usize::MAX));
        for (block, row) in places {
            let cells = columns[block].iter().map(|column| column.get(row));
            self.gathered.push(cells)?;
        }
        Ok(())
    }
}

/// Returns a type of arrays that holds every value of a type of programs.
fn held_as(data: Type) -> DataType {
    match data {
        Type::Bool => DataType::Boolean,
        Type::Int(_) => DataType::Decimal128(38, 0),
        Type::Float32(_) | Type::Float64(_) => DataType::Float64,
        Type::Text => DataType::Utf8,
    }
}

fn order(key: &Order, left: Option<Cell<'_>>, right: Option<Cell<'_>>) -> Ordering {
    let nulls = if key.nulls_first {
        Ordering::Less
    } else {
        Ordering::Greater
    };
    match (left, right) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => nulls,
        (Some(_), None) => nulls.reverse(),
        (Some(left), Some(right)) if key.descending => right.order(left),
        (Some(left), Some(right)) => left.order(right),
    }
}
