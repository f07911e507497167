//! Aggregates over frames whose first row moves, where what leaves cannot be subtracted.
//!
//! DataFusion takes values that leave a frame off an aggregate's state again. Of floats that leaves what was rounded away,
//! and NaN and infinity for good; and many aggregates know no such thing. Here a frame is a queue of two stacks: of older
//! rows, states of a row and all behind it are known, and newer ones are one growing state, so that the oldest row can
//! leave, and a value is that of two states merged. When the older rows are gone the newer ones take their place, so
//! that a row costs a few states however long its frame is. Older rows before newer ones, as order may matter.
//!
//! States may be large, as lists of all values are. Those of older rows are kept for rows of the oldest block alone
//! ([`BLOCK_ROWS`]), and one for all blocks behind each.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, ReversedUDAF, SetMonotonicity,
    Signature,
};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};

use crate::floats::exact::replacement;

/// The rows of a block: of so many is each state kept.
const BLOCK_ROWS: usize = 1024;

/// Returns the aggregate with such frames.
pub(crate) fn sliding(of: &AggregateUDF) -> AggregateUDF {
    AggregateUDF::from(Sliding {
        of: Arc::new(of.clone()),
    })
}

/// Returns whether an aggregate has such frames.
pub(crate) fn is_sliding(function: &AggregateUDF) -> bool {
    function.inner().is::<Sliding>()
}

/// Returns whether a call's own accumulator takes exactly off what was added.
pub(crate) fn is_exact(call: &AggregateFunctionExpr) -> bool {
    let rounds = replacement(call.fun()).is_some() && call.field().data_type().is_floating();
    // DataFusion's does not know when no value is left: it is 0 then.
    let forgets_none = call.fun().name() == "bit_xor";
    !rounds && !forgets_none && call.create_sliding_accumulator().is_ok()
}

/// An aggregate that merges states where its own accumulators are not exact, over frames alone.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sliding {
    of: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Sliding {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn aliases(&self) -> &[String] {
        self.of.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.of.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.of.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.of.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.of.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.of.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.of.return_type(arguments)
    }

    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        self.of.return_field(arguments)
    }

    fn is_nullable(&self) -> bool {
        self.of.is_nullable()
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.of.default_value(data_type)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.of.coerce_types(arguments)
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.of.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.of.accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        let call = AggregateExprBuilder::new(Arc::clone(&self.of), args.exprs.to_vec())
            .schema(Arc::new(args.schema.clone()))
            .alias(args.name)
            .order_by(args.order_bys.to_vec())
            .with_ignore_nulls(args.ignore_nulls)
            .with_distinct(args.is_distinct)
            .with_reversed(args.is_reversed)
            .build()?;
        match is_exact(&call) {
            true => call.create_sliding_accumulator(),
            false => Ok(Box::new(TwoStacks::new(call))),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.of.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.of.reverse_udf() {
            ReversedUDAF::Reversed(of) => ReversedUDAF::Reversed(Arc::new(sliding(&of))),
            other => other,
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.of.is_descending()
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.of.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.of.supports_within_group_clause()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.of.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of.documentation()
    }
}

/// The columns of an aggregate's state, of a row each.
type State = Vec<ArrayRef>;

/// What is added up to a state.
enum Part<'a> {
    State(&'a State),
    /// Columns of the arguments.
    Rows(&'a [ArrayRef]),
}

/// Some rows, and the state of all older rows behind them.
#[derive(Debug)]
struct Block {
    rows: Vec<ArrayRef>,
    behind: Option<State>,
}

/// The rows of a frame as older and newer ones.
#[derive(Debug)]
struct TwoStacks {
    call: AggregateFunctionExpr,
    /// The older rows, the oldest last.
    older: Vec<Block>,
    /// How many rows of the oldest block have left.
    left: usize,
    /// The states of each row of the oldest block that is there and those behind it in the block, that of the oldest row
    /// last; none until they are asked for.
    suffixes: Vec<State>,
    /// The newer rows, in blocks.
    newer: Vec<Vec<ArrayRef>>,
    /// The newest rows, fewer than a block has.
    newest: Vec<Vec<ArrayRef>>,
    newest_rows: usize,
    /// The state of all newer rows.
    newer_state: Option<State>,
    /// The value, since it was last asked for.
    value: Option<ScalarValue>,
}

impl TwoStacks {
    fn new(call: AggregateFunctionExpr) -> Self {
        Self {
            call,
            older: Vec::new(),
            left: 0,
            suffixes: Vec::new(),
            newer: Vec::new(),
            newest: Vec::new(),
            newest_rows: 0,
            newer_state: None,
            value: None,
        }
    }

    /// Adds parts up, in their order.
    fn accumulated<'a>(
        &self,
        parts: impl IntoIterator<Item = Part<'a>>,
    ) -> Result<Box<dyn Accumulator>> {
        let mut accumulator = self.call.create_accumulator()?;
        for part in parts {
            match part {
                Part::State(state) => accumulator.merge_batch(state)?,
                Part::Rows(rows) => accumulator.update_batch(rows)?,
            }
        }
        Ok(accumulator)
    }

    fn state_of<'a>(&self, parts: impl IntoIterator<Item = Part<'a>>) -> Result<State> {
        let state = self.accumulated(parts)?.state()?;
        state.iter().map(ScalarValue::to_array).collect()
    }

    /// Makes a block of the newest rows.
    fn seal(&mut self) -> Result<()> {
        let newest = std::mem::take(&mut self.newest);
        self.newest_rows = 0;
        match newest.as_slice() {
            [] => {}
            [rows] => self.newer.push(rows.clone()),
            [first, ..] => {
                let columns = (0..first.len()).map(|column| {
                    let pieces = newest.iter().filter_map(|rows| rows.get(column));
                    let pieces: Vec<&dyn Array> = pieces.map(|piece| piece.as_ref()).collect();
                    Ok(concat(&pieces)?)
                });
                let block = columns.collect::<Result<Vec<_>>>()?;
                self.newer.push(block);
            }
        }
        Ok(())
    }

    /// Makes the newer rows the older ones, of which there are none.
    fn turn(&mut self) -> Result<()> {
        self.seal()?;
        let mut behind: Option<State> = None;
        while let Some(rows) = self.newer.pop() {
            // The state of the oldest block is that of its first row.
            let with_rows = match self.newer.is_empty() {
                true => None,
                false => {
                    let after = behind.iter().map(Part::State);
                    Some(self.state_of([Part::Rows(&rows)].into_iter().chain(after))?)
                }
            };
            self.older.push(Block { rows, behind });
            behind = with_rows;
        }
        self.left = 0;
        self.suffixes.clear();
        self.newer_state = None;
        Ok(())
    }

    /// Makes the states of the oldest block's rows, if they are not there.
    fn make_suffixes(&mut self) -> Result<()> {
        let Some(block) = self.older.last() else {
            return Ok(());
        };
        if !self.suffixes.is_empty() {
            return Ok(());
        }
        let mut suffixes: Vec<State> = Vec::new();
        for row in (self.left..num_rows(&block.rows)).rev() {
            let row: Vec<ArrayRef> = block.rows.iter().map(|rows| rows.slice(row, 1)).collect();
            let after = suffixes.last().map(Part::State);
            let state = self.state_of([Part::Rows(&row)].into_iter().chain(after))?;
            suffixes.push(state);
        }
        self.suffixes = suffixes;
        Ok(())
    }

    /// Adds all rows up.
    fn whole(&mut self) -> Result<Box<dyn Accumulator>> {
        self.make_suffixes()?;
        let oldest = self.suffixes.last();
        let behind = self.older.last().and_then(|block| block.behind.as_ref());
        let parts = [oldest, behind, self.newer_state.as_ref()];
        self.accumulated(parts.into_iter().flatten().map(Part::State))
    }
}

impl Accumulator for TwoStacks {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = num_rows(values);
        if rows == 0 {
            return Ok(());
        }
        self.value = None;
        let before = self.newer_state.iter().map(Part::State);
        let state = self.state_of(before.chain([Part::Rows(values)]))?;
        self.newer_state = Some(state);
        for at in (0..rows).step_by(BLOCK_ROWS) {
            let piece = BLOCK_ROWS.min(rows - at);
            let columns = values.iter().map(|column| column.slice(at, piece));
            self.newest.push(columns.collect());
            self.newest_rows += piece;
            if self.newest_rows >= BLOCK_ROWS {
                self.seal()?;
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut leaving = num_rows(values);
        if leaving > 0 {
            self.value = None;
        }
        while leaving > 0 {
            if self.older.is_empty() {
                self.turn()?;
            }
            let Some(block) = self.older.last() else {
                return internal_err!("more rows leave a frame than it has");
            };
            let there = num_rows(&block.rows) - self.left;
            let taken = leaving.min(there);
            leaving -= taken;
            if taken < there {
                self.left += taken;
                let kept = self.suffixes.len().saturating_sub(taken);
                self.suffixes.truncate(kept);
            } else {
                self.older.pop();
                self.left = 0;
                self.suffixes.clear();
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if let Some(value) = &self.value {
            return Ok(value.clone());
        }
        let value = self.whole()?.evaluate()?;
        self.value = Some(value.clone());
        Ok(value)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.whole()?.state()
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a frame has rows, and no states of others")
    }

    fn size(&self) -> usize {
        let older = self.older.iter();
        let older = older.flat_map(|block| block.rows.iter().chain(block.behind.iter().flatten()));
        let newer = self.newer.iter().chain(&self.newest).flatten();
        let states = self.suffixes.iter().chain(&self.newer_state).flatten();
        let arrays = older.chain(newer).chain(states);
        size_of_val(self)
            + arrays
                .map(|array| array.get_array_memory_size())
                .sum::<usize>()
    }
}

fn num_rows(columns: &[ArrayRef]) -> usize {
    columns.first().map_or(0, |column| column.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::ScalarValue;
    use datafusion::functions_aggregate::array_agg::array_agg_udaf;
    use datafusion::logical_expr::Accumulator as _;
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::aggregate::AggregateExprBuilder;
    use datafusion::physical_expr::expressions::Column;

    use super::{BLOCK_ROWS, TwoStacks};

    fn lists() -> TwoStacks {
        let schema = Schema::new(vec![Field::new("x", DataType::Int64, true)]);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("x", 0));
        let call = AggregateExprBuilder::new(array_agg_udaf(), vec![column])
            .schema(Arc::new(schema))
            .alias("l")
            .build();
        TwoStacks::new(call.unwrap())
    }

    fn rows(range: std::ops::Range<usize>) -> Vec<ArrayRef> {
        let values = range.map(|value| value as i64);
        vec![Arc::new(Int64Array::from_iter_values(values))]
    }

    fn check(frame: &mut TwoStacks, range: std::ops::Range<usize>) {
        let ScalarValue::List(list) = frame.evaluate().unwrap() else {
            panic!("no list");
        };
        let expected: ArrayRef = Arc::new(Int64Array::from_iter_values(
            range.map(|value| value as i64),
        ));
        assert_eq!(list.value(0).as_ref(), expected.as_ref());
    }

    #[test]
    fn a_frame_has_its_rows_in_their_order() {
        for frame_rows in [1, 2, 3, 31, 1023, 1024, 1025, 2500] {
            let mut frame = lists();
            let last = 2 * BLOCK_ROWS + 1500;
            for end in 1..=last {
                frame.update_batch(&rows(end - 1..end)).unwrap();
                let start = end.saturating_sub(frame_rows);
                if start > 0 {
                    frame.retract_batch(&rows(start - 1..start)).unwrap();
                }
                if end % 97 == 0 || end == last {
                    check(&mut frame, start..end);
                }
            }
        }
    }

    #[test]
    fn rows_come_and_leave_in_any_number() {
        let mut frame = lists();
        let all = 5 * BLOCK_ROWS + 7;
        frame.update_batch(&rows(0..all)).unwrap();
        check(&mut frame, 0..all);
        let mut start = 0;
        for leaving in [1, 0, 1022, 2, 1500, 1, 2000] {
            frame.retract_batch(&rows(start..start + leaving)).unwrap();
            start += leaving;
            check(&mut frame, start..all);
        }
        frame.update_batch(&rows(all..all + 3)).unwrap();
        check(&mut frame, start..all + 3);
        frame.retract_batch(&rows(start..all + 1)).unwrap();
        check(&mut frame, all + 1..all + 3);
        frame.retract_batch(&rows(all + 1..all + 3)).unwrap();
        assert!(frame.evaluate().unwrap().is_null());
        assert!(frame.retract_batch(&rows(0..1)).is_err());
        frame.update_batch(&rows(0..2)).unwrap();
        check(&mut frame, 0..2);
    }
}
