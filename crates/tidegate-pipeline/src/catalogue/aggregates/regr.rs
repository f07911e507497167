//! `regr_slope(y, x)` and its kin, of pairs: least squares. The state is the count, both means, the squared
//! distances of both, and the products of the distances; zeros for a group without a pair.

use arrow_schema::DataType;

use crate::catalogue::pairs::{self, Pairs, check};
use crate::catalogue::{AggregateEntry, CallTypes, Columns, Finish, NamedAggregate};
use crate::check::Unsupported;
use crate::pipeline::AggregateFunction;
use crate::program::{Builder, Comparison, FloatOp, Nullable, ValueId};

const fn regression(
    name: &'static str,
    datafusion: &'static [&'static str],
    entry: &'static AggregateEntry,
    columns: Columns,
) -> AggregateEntry {
    AggregateEntry {
        name,
        datafusion,
        arity: 2,
        rounds: |value| value.is_floating(),
        function: AggregateFunction::Named(NamedAggregate::new(entry)),
        types,
        // The second argument is x, which comes first in the state.
        accumulate: |builder, update| pairs::accumulate(builder, update, true),
        columns,
        arguments: pairs::arguments,
    }
}

pub(super) static ENTRIES: &[&AggregateEntry] = &[
    &SLOPE, &INTERCEPT, &COUNT, &R2, &AVG_X, &AVG_Y, &SXX, &SYY, &SXY,
];

static SLOPE: AggregateEntry = regression(
    "regr_slope",
    &["regr_slope"],
    &SLOPE,
    |builder, finish, results| columns(builder, finish, results, slope),
);
static INTERCEPT: AggregateEntry = regression(
    "regr_intercept",
    &["regr_intercept"],
    &INTERCEPT,
    |builder, finish, results| columns(builder, finish, results, intercept),
);
static COUNT: AggregateEntry = regression(
    "regr_count",
    &["regr_count"],
    &COUNT,
    |builder, finish, results| columns(builder, finish, results, |_, pairs| pairs.count),
);
static R2: AggregateEntry = regression("regr_r2", &["regr_r2"], &R2, |builder, finish, results| {
    columns(builder, finish, results, r2)
});
static AVG_X: AggregateEntry = regression(
    "regr_avgx",
    &["regr_avgx"],
    &AVG_X,
    |builder, finish, results| {
        columns(builder, finish, results, |builder, pairs| {
            if_any(builder, pairs, pairs.mean)
        })
    },
);
static AVG_Y: AggregateEntry = regression(
    "regr_avgy",
    &["regr_avgy"],
    &AVG_Y,
    |builder, finish, results| {
        columns(builder, finish, results, |builder, pairs| {
            if_any(builder, pairs, pairs.other_mean)
        })
    },
);
static SXX: AggregateEntry = regression(
    "regr_sxx",
    &["regr_sxx"],
    &SXX,
    |builder, finish, results| {
        columns(builder, finish, results, |builder, pairs| {
            if_any(builder, pairs, pairs.squares)
        })
    },
);
static SYY: AggregateEntry = regression(
    "regr_syy",
    &["regr_syy"],
    &SYY,
    |builder, finish, results| {
        columns(builder, finish, results, |builder, pairs| {
            if_any(builder, pairs, pairs.other_squares)
        })
    },
);
static SXY: AggregateEntry = regression(
    "regr_sxy",
    &["regr_sxy"],
    &SXY,
    |builder, finish, results| {
        columns(builder, finish, results, |builder, pairs| {
            if_any(builder, pairs, pairs.products)
        })
    },
);

fn types(arguments: &[DataType], declared: &DataType) -> Result<CallTypes, Unsupported> {
    check("regression", arguments)?;
    let mut state = vec![DataType::Float64; 6];
    state[0] = DataType::UInt64;
    let value = match declared {
        // Of the count.
        DataType::UInt64 => DataType::UInt64,
        _ => DataType::Float64,
    };
    Ok(CallTypes { value, state })
}

fn columns(
    builder: &mut Builder,
    finish: &Finish<'_>,
    results: &[Nullable],
    value: fn(&mut Builder, &Pairs) -> Nullable,
) -> Result<Vec<Nullable>, Unsupported> {
    let pairs = Pairs::of(results)?;
    if finish.gives_state() {
        return Ok(vec![
            pairs.count,
            pairs.mean,
            pairs.other_mean,
            pairs.squares,
            pairs.other_squares,
            pairs.products,
        ]);
    }
    Ok(vec![value(builder, &pairs)])
}

/// Lets a value through if there is a pair.
fn if_any(builder: &mut Builder, pairs: &Pairs, of: Nullable) -> Nullable {
    Nullable {
        value: of.value,
        valid: pairs.are_more_than(builder, 0),
    }
}

/// Returns whether a float is not 0.
fn is_not_zero(builder: &mut Builder, value: ValueId) -> ValueId {
    let zero = builder.float(0.0);
    builder.compare(Comparison::NotEqual, value, zero)
}

fn slope(builder: &mut Builder, pairs: &Pairs) -> Nullable {
    let covariance = pairs.per_pair(builder, pairs.products.value);
    let variance = pairs.per_pair(builder, pairs.squares.value);
    let are_several = pairs.are_more_than(builder, 1);
    let varies = is_not_zero(builder, variance);
    Nullable {
        value: builder.float2(FloatOp::Divide, covariance, variance),
        valid: builder.and(are_several, varies),
    }
}

fn intercept(builder: &mut Builder, pairs: &Pairs) -> Nullable {
    let slope = slope(builder, pairs);
    let rise = builder.float2(FloatOp::Multiply, slope.value, pairs.mean.value);
    Nullable {
        value: builder.float2(FloatOp::Subtract, pairs.other_mean.value, rise),
        ..slope
    }
}

fn r2(builder: &mut Builder, pairs: &Pairs) -> Nullable {
    let covariance = pairs.per_pair(builder, pairs.products.value);
    let variance = pairs.per_pair(builder, pairs.squares.value);
    let other = pairs.per_pair(builder, pairs.other_squares.value);
    let are_several = pairs.are_more_than(builder, 1);
    let varies = is_not_zero(builder, variance);
    let other_varies = is_not_zero(builder, other);
    let both_vary = builder.and(varies, other_varies);
    let explained = builder.float2(FloatOp::Multiply, covariance, covariance);
    let all = builder.float2(FloatOp::Multiply, variance, other);
    Nullable {
        value: builder.float2(FloatOp::Divide, explained, all),
        valid: builder.and(are_several, both_vary),
    }
}
