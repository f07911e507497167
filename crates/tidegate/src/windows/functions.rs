//! The supported window functions: recognised in DataFusion's expressions, and started for a partition of the plan.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ArrowPrimitiveType};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int64Type, Schema, UInt64Type,
};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_plan::windows::WindowUDFExpr;
use datafusion_functions_aggregate_common::utils::DecimalAverager;

use super::deferred::{AtEnd, Column, Group, Lead};
use super::running::{
    Bounds, Count as RunningCount, CurrentRow, Extreme, First, Lag, Rank, RowNumber, Running,
    SlidingExtreme, Sums,
};
use crate::floats::extremes::is_greatest;

/// The largest number of rows before or after the current row that a function may refer to.
const AWAY_MAX: u64 = 1 << 16;

/// The longest sliding frame of floats, which is summed up again for each row: subtracting would leave rounding
/// errors, and a NaN behind.
const FLOATS_MAX: usize = 64;

/// The largest precision of a decimal whose mean DataFusion computes from a 128-bit sum.
const MEAN_PRECISION_MAX: u8 = 25;

/// A window function and its argument.
#[derive(Clone, Debug)]
pub(super) struct Function {
    kind: Kind,
    argument: Option<Arc<dyn PhysicalExpr>>,
    data_type: DataType,
}

#[derive(Clone, Debug)]
enum Kind {
    RowNumber,
    Rank,
    DenseRank,
    Lag(usize, ScalarValue),
    Lead(usize, ScalarValue),
    First,
    Last(Frame),
    Count(Frame),
    Sum(Frame),
    /// The mean of a type.
    Avg(DataType, Frame),
    Extreme {
        is_greatest: bool,
        frame: Frame,
    },
}

/// The rows of the partition that a row's value is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// From the partition's start to the current row.
    ToRow,
    /// The current row and this many before it.
    Last(usize),
    /// From the partition's start to the end of the row's peer group or partition.
    ToEnd(Group),
}

/// The state of a function over the rows so far.
pub(super) enum FunctionState {
    AtRow(Box<dyn Running>),
    AtEnd(AtEnd),
    Lead(Lead),
}

impl Function {
    /// Recognises a window function; `None` if it is not supported.
    pub(super) fn of(expr: &Arc<dyn WindowExpr>, input: &Schema) -> Option<Self> {
        let data_type = expr.field().ok()?.data_type().clone();
        let any = expr.as_any();
        let aggregate = if let Some(plain) = any.downcast_ref::<PlainAggregateWindowExpr>() {
            Some((plain.get_aggregate_expr(), format!("{plain:?}")))
        } else {
            let sliding = any.downcast_ref::<SlidingAggregateWindowExpr>();
            sliding.map(|sliding| (sliding.get_aggregate_expr(), format!("{sliding:?}")))
        };
        let kind = match aggregate {
            // DataFusion has no public accessor for the filter.
            Some((aggregate, shown)) if shown.ends_with("filter: None }") => {
                aggregate_kind(aggregate, frame_of(expr)?, input)?
            }
            Some(_) => return None,
            None => standard_kind(expr, &data_type)?,
        };
        Some(Self {
            kind,
            argument: expr.expressions().into_iter().next(),
            data_type,
        })
    }

    pub(super) fn argument(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        self.argument.as_ref()
    }

    /// Returns the state before the first row.
    ///
    /// # Errors
    /// Never for a function that was read from a plan.
    pub(super) fn start(&self) -> Result<FunctionState> {
        let running = |running: Box<dyn Running>, frame: Frame| match frame {
            Frame::ToEnd(group) => FunctionState::AtEnd(AtEnd::new(running, group)),
            Frame::ToRow | Frame::Last(_) => FunctionState::AtRow(running),
        };
        Ok(match &self.kind {
            Kind::RowNumber => FunctionState::AtRow(Box::new(RowNumber::default())),
            Kind::Rank => FunctionState::AtRow(Box::new(Rank::new(false))),
            Kind::DenseRank => FunctionState::AtRow(Box::new(Rank::new(true))),
            Kind::Lag(back, default) => {
                FunctionState::AtRow(Box::new(Lag::new(*back, default.to_array()?)))
            }
            Kind::Lead(ahead, default) => {
                FunctionState::Lead(Lead::new(*ahead, default.to_array()?))
            }
            Kind::First => FunctionState::AtRow(Box::new(First::default())),
            Kind::Last(frame) => running(Box::new(CurrentRow), *frame),
            Kind::Count(frame) => running(Box::new(RunningCount::new(frame.back())), *frame),
            Kind::Extreme { is_greatest, frame } => match frame {
                Frame::Last(back) => {
                    FunctionState::AtRow(Box::new(SlidingExtreme::new(*is_greatest, *back)))
                }
                _ => running(Box::new(Extreme::new(*is_greatest)), *frame),
            },
            Kind::Sum(frame) => running(self.sum(frame.back()), *frame),
            Kind::Avg(of, frame) => running(self.mean(of, frame.back())?, *frame),
        })
    }

    fn sum(&self, back: Option<usize>) -> Box<dyn Running> {
        fn of<T: ArrowPrimitiveType>(kind: &DataType, back: Option<usize>) -> Box<dyn Running> {
            Box::new(Sums::<T>::new(
                kind.clone(),
                back,
                Box::new(|sum, _| Ok(sum)),
            ))
        }
        match &self.data_type {
            kind @ DataType::Int64 => of::<Int64Type>(kind, back),
            kind @ DataType::UInt64 => of::<UInt64Type>(kind, back),
            kind @ DataType::Float64 => of::<Float64Type>(kind, back),
            kind => of::<Decimal128Type>(kind, back),
        }
    }

    fn mean(&self, of: &DataType, back: Option<usize>) -> Result<Box<dyn Running>> {
        let data_type = self.data_type.clone();
        Ok(match (of, &data_type) {
            (DataType::Decimal128(_, scale), DataType::Decimal128(precision, of_mean)) => {
                let averager =
                    DecimalAverager::<Decimal128Type>::try_new(*scale, *precision, *of_mean)?;
                let finish = move |sum, count| averager.avg(sum, i128::from(count));
                Box::new(Sums::<Decimal128Type>::new(
                    data_type,
                    back,
                    Box::new(finish),
                ))
            }
            _ => {
                let finish = |sum: f64, count| Ok(sum / count as f64);
                Box::new(Sums::<Float64Type>::new(data_type, back, Box::new(finish)))
            }
        })
    }
}

impl Frame {
    /// Returns the number of rows before the current one in a sliding frame; `None` for other frames.
    fn back(self) -> Option<usize> {
        match self {
            Self::Last(back) => Some(back),
            Self::ToRow | Self::ToEnd(_) => None,
        }
    }
}

impl FunctionState {
    /// Returns the values for the next batch, given those of the argument, and completes the columns of earlier
    /// batches.
    ///
    /// # Errors
    /// Those of Arrow's kernels.
    pub(super) fn next<'a>(
        &mut self,
        values: &ArrayRef,
        bounds: &Bounds,
        before: impl Iterator<Item = &'a mut Column>,
    ) -> Result<Column> {
        match self {
            Self::AtRow(running) => Ok(Column::all(running.next(values, bounds)?)),
            Self::AtEnd(at_end) => at_end.next(values, bounds, before),
            Self::Lead(lead) => lead.next(values, bounds, before),
        }
    }

    /// Completes the columns of earlier batches at the end of the input.
    ///
    /// # Errors
    /// Those of Arrow's kernels.
    pub(super) fn end<'a>(&mut self, before: impl Iterator<Item = &'a mut Column>) -> Result<()> {
        match self {
            Self::AtRow(_) => Ok(()),
            Self::AtEnd(at_end) => at_end.end(before),
            Self::Lead(lead) => lead.end(before),
        }
    }
}

/// Returns the frame of a window expression; `None` if it is not supported.
fn frame_of(expr: &Arc<dyn WindowExpr>) -> Option<Frame> {
    let frame = expr.get_window_frame();
    let is_of_rows = frame.units == WindowFrameUnits::Rows;
    let ends_with_row = is_of_rows && frame.end_bound == WindowFrameBound::CurrentRow;
    match &frame.start_bound {
        WindowFrameBound::Preceding(rows) if rows.is_null() => {}
        WindowFrameBound::Preceding(ScalarValue::UInt64(Some(rows))) if ends_with_row => {
            let rows = Some(*rows).filter(|rows| *rows <= AWAY_MAX)?;
            return usize::try_from(rows).ok().map(Frame::Last);
        }
        _ => return None,
    }
    match &frame.end_bound {
        WindowFrameBound::Following(rows) if rows.is_null() => Some(Frame::ToEnd(Group::Partition)),
        WindowFrameBound::CurrentRow if is_of_rows => Some(Frame::ToRow),
        WindowFrameBound::CurrentRow if expr.order_by().is_empty() => {
            Some(Frame::ToEnd(Group::Partition))
        }
        WindowFrameBound::CurrentRow => Some(Frame::ToEnd(Group::Peers)),
        _ => None,
    }
}

/// Recognises an aggregate without a filter.
fn aggregate_kind(aggregate: &AggregateFunctionExpr, frame: Frame, input: &Schema) -> Option<Kind> {
    let is_plain =
        !aggregate.is_distinct() && !aggregate.ignore_nulls() && aggregate.order_bys().is_empty();
    let arguments = aggregate.expressions();
    let [argument] = arguments.as_slice() else {
        return None;
    };
    let of = argument.data_type(input).ok().filter(|_| is_plain)?;
    let inner = aggregate.fun().inner();
    if inner.is::<Count>() {
        return Some(Kind::Count(frame));
    }
    if inner.is::<Sum>() || inner.is::<Avg>() {
        let is_sum = inner.is::<Sum>();
        let is_summed = match of {
            DataType::Float64 => frame.back().is_none_or(|back| back <= FLOATS_MAX),
            DataType::Decimal128(precision, _) => is_sum || precision <= MEAN_PRECISION_MAX,
            DataType::Int64 | DataType::UInt64 => is_sum,
            _ => false,
        };
        return is_summed.then_some(match is_sum {
            true => Kind::Sum(frame),
            false => Kind::Avg(of, frame),
        });
    }
    let is_greatest = match () {
        () if inner.is::<Min>() => false,
        () if inner.is::<Max>() => true,
        () => is_greatest(aggregate.fun())?,
    };
    // Intervals are compared by their fields in Arrow, and by their length in SQL.
    let is_compared = of.is_numeric()
        || (of.is_temporal() && !matches!(of, DataType::Interval(_)))
        || of.is_string()
        || of == DataType::Boolean;
    is_compared.then_some(Kind::Extreme { is_greatest, frame })
}

/// Recognises a function that is not an aggregate.
fn standard_kind(expr: &Arc<dyn WindowExpr>, data_type: &DataType) -> Option<Kind> {
    let standard = expr.as_any().downcast_ref::<StandardWindowExpr>()?;
    let call = standard.get_standard_func_expr();
    let call = call.as_any().downcast_ref::<WindowUDFExpr>()?;
    // DataFusion has no public accessors for these two.
    if !format!("{call:?}").ends_with("is_reversed: false, ignore_nulls: false }") {
        return None;
    }
    let arguments = call.args();
    Some(match call.fun().name() {
        "row_number" => Kind::RowNumber,
        "rank" => Kind::Rank,
        "dense_rank" => Kind::DenseRank,
        "first_value" if frame_of(expr)?.back().is_none() => Kind::First,
        "last_value" => Kind::Last(frame_of(expr)?),
        "lag" => shifted(arguments, data_type, true)?,
        "lead" => shifted(arguments, data_type, false)?,
        _ => return None,
    })
}

/// Recognises the offset and the default of `lag` or `lead`; both have to be literals.
fn shifted(
    arguments: &[Arc<dyn PhysicalExpr>],
    data_type: &DataType,
    is_back: bool,
) -> Option<Kind> {
    let literal = |place: usize, otherwise: ScalarValue| match arguments.get(place) {
        None => Some(otherwise),
        Some(argument) => Some(argument.downcast_ref::<Literal>()?.value().clone()),
    };
    let rows = literal(1, ScalarValue::Int64(Some(1)))?;
    let ScalarValue::Int64(Some(rows)) = rows.cast_to(&DataType::Int64).ok()? else {
        return None;
    };
    let default = literal(2, ScalarValue::Null)?.cast_to(data_type).ok()?;
    let away = Some(rows.unsigned_abs()).filter(|away| *away <= AWAY_MAX)?;
    let away = usize::try_from(away).ok()?;
    Some(match is_back == (rows >= 0) {
        true => Kind::Lag(away, default),
        false => Kind::Lead(away, default),
    })
}
