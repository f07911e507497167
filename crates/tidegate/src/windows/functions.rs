//! The supported window functions: recognised in DataFusion's expressions, and started for a partition of the plan.

use std::cmp::Ordering;
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

use super::deferred::{
    AtEnd, Column, Deferred, Group, Later, Lead, cume_dist, ntile, percent_rank,
};
use super::running::{
    Bounds, Count as RunningCount, CurrentRow, Earlier, Extreme, First, Lag, Rank, RowNumber,
    Running, SlidingExtreme, SlidingFirst, Sums,
};
use crate::floats::extremes::is_greatest;

/// The largest number of rows before or after the current row that a function may refer to.
const AWAY_MAX: u64 = 1 << 16;

/// The largest number of rows after the current one at which a frame may end: as many rows stand in behind each
/// partition, and a batch may have as many partitions as rows.
const AHEAD_MAX: i64 = 64;

/// The largest precision of a decimal whose mean DataFusion computes from a 128-bit sum.
const MEAN_PRECISION_MAX: u8 = 25;

/// How an aggregate over a window without FILTER ends where it is shown: DataFusion has no public accessor for the filter.
pub(super) const NO_FILTER: &str = "filter: None }";

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
    Ntile(u64),
    PercentRank,
    CumeDist,
    Lag(usize, ScalarValue),
    Lead(usize, ScalarValue),
    First(Frame),
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
    /// From the partition's start to the end of the row's peer group or partition.
    ToEnd(Group),
    /// Rows that end a number of rows after the current one, before it if that is negative.
    Rows {
        /// How many; `None` if they begin with the partition.
        count: Option<usize>,
        end: i64,
    },
}

/// The state of a function over the rows so far.
pub(super) enum FunctionState {
    AtRow(Box<dyn Running>),
    Deferred(Box<dyn Deferred>),
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
            Some((aggregate, shown)) if shown.ends_with(NO_FILTER) => {
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
        let at_row = |running: Box<dyn Running>| FunctionState::AtRow(running);
        let deferred = |deferred: Box<dyn Deferred>| FunctionState::Deferred(deferred);
        Ok(match &self.kind {
            Kind::RowNumber => at_row(Box::<RowNumber>::default()),
            Kind::Rank => at_row(Box::new(Rank::new(false))),
            Kind::DenseRank => at_row(Box::new(Rank::new(true))),
            Kind::Ntile(buckets) => deferred(Box::new(ntile(*buckets))),
            Kind::PercentRank => deferred(Box::new(percent_rank())),
            Kind::CumeDist => deferred(Box::new(cume_dist())),
            Kind::Lag(back, default) => at_row(Box::new(Lag::new(*back, default.to_array()?))),
            Kind::Lead(ahead, default) => {
                deferred(Box::new(Lead::new(*ahead, default.to_array()?)))
            }
            // It does not depend on where such a frame ends.
            Kind::First(Frame::ToEnd(_)) => at_row(Box::<First>::default()),
            Kind::First(frame) => self.over(
                *frame,
                match frame.count() {
                    Some(count) => Box::new(SlidingFirst::new(count - 1)),
                    None => Box::new(First::default()),
                },
            )?,
            Kind::Last(frame) => self.over(*frame, Box::new(CurrentRow))?,
            Kind::Count(frame) => self.over(*frame, Box::new(RunningCount::new(frame.count())))?,
            Kind::Extreme { is_greatest, frame } => self.over(
                *frame,
                match frame.count() {
                    Some(count) => Box::new(SlidingExtreme::new(*is_greatest, count - 1)),
                    None => Box::new(Extreme::new(*is_greatest)),
                },
            )?,
            Kind::Sum(frame) => self.over(*frame, self.sum(frame.count()))?,
            Kind::Avg(of, frame) => self.over(*frame, self.mean(of, frame.count())?)?,
        })
    }

    /// Returns the state of a function over a frame, given that over a frame that ends with the current row.
    fn over(&self, frame: Frame, running: Box<dyn Running>) -> Result<FunctionState> {
        let end = match frame {
            Frame::ToEnd(group) => {
                return Ok(FunctionState::Deferred(Box::new(AtEnd::new(
                    running, group,
                ))));
            }
            Frame::Rows { end, .. } => end,
        };
        let rows = end.unsigned_abs() as usize;
        Ok(match end.cmp(&0) {
            Ordering::Equal => FunctionState::AtRow(running),
            Ordering::Greater => FunctionState::Deferred(Box::new(Later::new(running, rows))),
            Ordering::Less => {
                let of_nothing = match self.kind {
                    Kind::Count(_) => ScalarValue::Int64(Some(0)),
                    _ => ScalarValue::try_new_null(&self.data_type)?,
                };
                let of_nothing = of_nothing.to_array()?;
                FunctionState::AtRow(Box::new(Earlier::new(running, rows, of_nothing)))
            }
        })
    }

    fn sum(&self, rows: Option<usize>) -> Box<dyn Running> {
        fn of<T: ArrowPrimitiveType>(kind: &DataType, rows: Option<usize>) -> Box<dyn Running> {
            Box::new(Sums::<T>::new(
                kind.clone(),
                rows,
                Box::new(|sum, _| Ok(sum)),
            ))
        }
        match &self.data_type {
            kind @ DataType::Int64 => of::<Int64Type>(kind, rows),
            kind @ DataType::UInt64 => of::<UInt64Type>(kind, rows),
            kind @ DataType::Float64 => of::<Float64Type>(kind, rows),
            kind => of::<Decimal128Type>(kind, rows),
        }
    }

    fn mean(&self, of: &DataType, rows: Option<usize>) -> Result<Box<dyn Running>> {
        let data_type = self.data_type.clone();
        Ok(match (of, &data_type) {
            (DataType::Decimal128(_, scale), DataType::Decimal128(precision, of_mean)) => {
                let averager =
                    DecimalAverager::<Decimal128Type>::try_new(*scale, *precision, *of_mean)?;
                let finish = move |sum, count| averager.avg(sum, i128::from(count));
                Box::new(Sums::<Decimal128Type>::new(
                    data_type,
                    rows,
                    Box::new(finish),
                ))
            }
            _ => {
                let finish = |sum: f64, count| Ok(sum / count as f64);
                Box::new(Sums::<Float64Type>::new(data_type, rows, Box::new(finish)))
            }
        })
    }
}

impl Frame {
    /// Returns the number of rows in a sliding frame; `None` for frames that begin with the partition.
    fn count(self) -> Option<usize> {
        match self {
            Self::Rows { count, .. } => count,
            Self::ToEnd(_) => None,
        }
    }

    /// Returns whether the frame may end after the current row, but not with a group.
    fn ends_later(self) -> bool {
        matches!(self, Self::Rows { end: 1.., .. })
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
        mut before: impl Iterator<Item = &'a mut Column>,
    ) -> Result<Column> {
        match self {
            Self::AtRow(running) => Ok(Column::all(running.next(values, bounds)?)),
            Self::Deferred(deferred) => deferred.next(values, bounds, &mut before),
        }
    }

    /// Completes the columns of earlier batches at the end of the input.
    ///
    /// # Errors
    /// Those of Arrow's kernels.
    pub(super) fn end<'a>(
        &mut self,
        mut before: impl Iterator<Item = &'a mut Column>,
    ) -> Result<()> {
        match self {
            Self::AtRow(_) => Ok(()),
            Self::Deferred(deferred) => deferred.end(&mut before),
        }
    }
}

/// Returns the frame of a window expression; `None` if it is not supported.
fn frame_of(expr: &Arc<dyn WindowExpr>) -> Option<Frame> {
    let frame = expr.get_window_frame();
    let is_of_rows = frame.units == WindowFrameUnits::Rows;
    let is_of_all = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(rows) | WindowFrameBound::Following(rows) => rows.is_null(),
        WindowFrameBound::CurrentRow => false,
    };
    let begins = is_of_all(&frame.start_bound);
    match &frame.end_bound {
        end if is_of_all(end) => begins.then_some(Frame::ToEnd(Group::Partition)),
        end if is_of_rows => {
            let end = distance(end).filter(|end| *end <= AHEAD_MAX)?;
            let count = match begins {
                true => None,
                false => Some(end - distance(&frame.start_bound)? + 1),
            };
            let is_empty = count.is_some_and(|count| count < 1);
            (!is_empty).then_some(Frame::Rows {
                count: count.map(|count| count.unsigned_abs() as usize),
                end,
            })
        }
        WindowFrameBound::CurrentRow if begins => Some(Frame::ToEnd(match expr.order_by() {
            [] => Group::Partition,
            _ => Group::Peers,
        })),
        _ => None,
    }
}

/// Returns how many rows after the current one a bound is; `None` if these are too many.
fn distance(bound: &WindowFrameBound) -> Option<i64> {
    let rows = |rows: &ScalarValue| match rows {
        ScalarValue::UInt64(Some(rows)) if *rows <= AWAY_MAX => i64::try_from(*rows).ok(),
        _ => None,
    };
    match bound {
        WindowFrameBound::Preceding(before) => rows(before).map(|rows| -rows),
        WindowFrameBound::CurrentRow => Some(0),
        WindowFrameBound::Following(after) => rows(after),
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
            DataType::Float64 => true,
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
        "ntile" => Kind::Ntile(buckets(arguments)?),
        "percent_rank" => Kind::PercentRank,
        "cume_dist" => Kind::CumeDist,
        "first_value" => Kind::First(frame_of(expr)?),
        "last_value" => Kind::Last(Some(frame_of(expr)?).filter(|frame| !frame.ends_later())?),
        "lag" => shifted(arguments, data_type, true)?,
        "lead" => shifted(arguments, data_type, false)?,
        _ => return None,
    })
}

/// Recognises the number of buckets of `ntile`.
fn buckets(arguments: &[Arc<dyn PhysicalExpr>]) -> Option<u64> {
    let literal = arguments.first()?.downcast_ref::<Literal>()?.value();
    let ScalarValue::Int64(Some(buckets)) = literal.cast_to(&DataType::Int64).ok()? else {
        return None;
    };
    u64::try_from(buckets).ok().filter(|buckets| *buckets > 0)
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
