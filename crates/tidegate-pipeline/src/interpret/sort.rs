//! Ordering rows and keeping the first of them.
//!
//! Rows are gathered with their sort keys as further columns, and an order is a list of places.
//! With a fetch, the rows beyond it are dropped whenever enough have gathered. Rows of equal keys
//! keep the order in which they came.

use std::cmp::Ordering;

use arrow_schema::DataType;

use super::EvalError;
use super::block::{BATCH_ROWS, Block, BlockBuilder};
use super::column::Column;
use super::compare::order;
use super::evaluate::{Node, Row};
use super::value::Value;
use crate::pipeline::Sort;
use crate::scalar::Scalar;

/// The rows met so far.
pub(crate) struct Sorter {
    keys: Vec<Key>,
    fetch: Option<usize>,
    /// How many columns a row has, before those of its keys.
    width: usize,
    gathered: BlockBuilder,
    /// How many rows may gather before those beyond the fetch are dropped.
    enough: usize,
}

struct Key {
    node: Node,
    descending: bool,
    nulls_first: bool,
}

impl Sorter {
    /// Prepares to sort rows of these types.
    pub(crate) fn new(
        sort: &Sort,
        input: &[DataType],
        parameters: &[Scalar],
    ) -> Result<Self, EvalError> {
        let keys = sort.keys.iter().map(|key| {
            Ok(Key {
                node: Node::new(&key.expr, parameters)?,
                descending: key.descending,
                nulls_first: key.nulls_first,
            })
        });
        let key_types = sort.keys.iter().map(|key| &key.expr.data_type);
        let enough = |fetch: usize| fetch.saturating_mul(2).max(8 * BATCH_ROWS);
        Ok(Self {
            keys: keys.collect::<Result<_, EvalError>>()?,
            fetch: sort.fetch,
            width: input.len(),
            gathered: BlockBuilder::new(input.iter().chain(key_types))?,
            enough: sort.fetch.map_or(usize::MAX, enough),
        })
    }

    /// Takes a row.
    pub(crate) fn push<'v>(&'v mut self, row: Row<'_, 'v>) -> Result<(), EvalError> {
        let mut values = Vec::with_capacity(self.width + self.keys.len());
        values.extend((0..self.width).map(|column| row.get(column)));
        for key in &self.keys {
            values.push(key.node.evaluate(row)?);
        }
        self.gathered.push(values)
    }

    /// Drops the rows beyond the fetch if enough have gathered.
    pub(crate) fn compact(&mut self) -> Result<(), EvalError> {
        if self.gathered.rows() < self.enough {
            return Ok(());
        }
        let blocks = self.gathered.finish()?;
        self.write_in_order(&blocks)
    }

    /// Returns the rows in order, without their keys.
    pub(crate) fn finish(mut self) -> Result<Vec<Block>, EvalError> {
        let blocks = self.gathered.finish()?;
        self.write_in_order(&blocks)?;
        let mut ordered = self.gathered.finish()?;
        for block in &mut ordered {
            block.columns.truncate(self.width);
        }
        Ok(ordered)
    }

    /// Returns the memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.gathered.memory_bytes()
    }

    /// Gathers the first rows of the blocks, in order.
    fn write_in_order(&mut self, blocks: &[Block]) -> Result<(), EvalError> {
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
        let key = |place: (usize, usize), key: usize| columns[place.0][width + key].get(place.1);
        places.sort_by(|left, right| {
            let orders = keys.iter().enumerate();
            orders
                .map(|(index, rule)| rule.order(key(*left, index), key(*right, index)))
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

impl Key {
    fn order(&self, left: Value<'_>, right: Value<'_>) -> Ordering {
        let nulls = if self.nulls_first {
            Ordering::Less
        } else {
            Ordering::Greater
        };
        match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => nulls,
            (false, true) => nulls.reverse(),
            (false, false) if self.descending => order(right, left),
            (false, false) => order(left, right),
        }
    }
}

#[cfg(test)]
mod tests;
