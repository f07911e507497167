//! `var_pop`, `var_samp`, `stddev_pop`, `stddev_samp`: the squared distances from the mean over the count,
//! or over one less; NULL without a divisor. The state is the count, the mean and the squares, zeros for a
//! group without a value.

use arrow_schema::DataType;

use crate::catalogue::{AggregateEntry, CallTypes, Finish, Update, count_of, floats};
use crate::check::Unsupported;
use crate::pipeline::AggregateFunction;
use crate::program::{
    Accumulator, Builder, Class, Comparison, FloatOp, IntegerOp, Nullable, Reduce,
};

const fn variance(
    name: &'static str,
    datafusion: &'static [&'static str],
    function: AggregateFunction,
    types: fn(&[DataType], &DataType) -> Result<CallTypes, Unsupported>,
) -> AggregateEntry {
    AggregateEntry {
        name,
        datafusion,
        arity: 1,
        rounds: |_| true,
        function,
        types,
        accumulate,
        columns,
        arguments: || vec![vec![DataType::Float64]],
    }
}

pub(super) static ENTRIES: [AggregateEntry; 4] = [
    variance(
        "var_pop",
        &["var_pop"],
        AggregateFunction::VarPop,
        |arguments, _| types(AggregateFunction::VarPop, arguments),
    ),
    variance(
        "var_samp",
        &["var"],
        AggregateFunction::VarSamp,
        |arguments, _| types(AggregateFunction::VarSamp, arguments),
    ),
    variance(
        "stddev_pop",
        &["stddev_pop"],
        AggregateFunction::StddevPop,
        |arguments, _| types(AggregateFunction::StddevPop, arguments),
    ),
    variance(
        "stddev_samp",
        &["stddev"],
        AggregateFunction::StddevSamp,
        |arguments, _| types(AggregateFunction::StddevSamp, arguments),
    ),
];

fn types(function: AggregateFunction, arguments: &[DataType]) -> Result<CallTypes, Unsupported> {
    let argument = &arguments[0];
    if *argument != DataType::Float64 {
        return Err(Unsupported::new(format!("{function} of {argument}")));
    }
    Ok(CallTypes {
        value: DataType::Float64,
        state: vec![DataType::UInt64, DataType::Float64, DataType::Float64],
    })
}

fn accumulate(builder: &mut Builder, update: &Update) -> Result<Vec<Accumulator>, Unsupported> {
    let (value, rows) = update.value(builder)?;
    let moments = Accumulator {
        reduce: Reduce::Moments,
        value: Some(value),
        rows,
    };
    Ok(vec![count_of(rows), moments])
}

fn columns(
    builder: &mut Builder,
    finish: &Finish<'_>,
    results: &[Nullable],
) -> Result<Vec<Nullable>, Unsupported> {
    let [count, mean, squares] = *results else {
        return Err(Unsupported::new("a variance without its moments"));
    };
    if finish.gives_state() {
        return Ok(vec![count, mean, squares]);
    }
    let Update {
        function, grouped, ..
    } = finish.update;
    let (zero, one) = (builder.int(0), builder.int(1));
    let divisor = match function.is_of_sample() {
        true => builder.exact(IntegerOp::Subtract, count.value, one),
        false => count.value,
    };
    let has_divisor = builder.compare(Comparison::Greater, divisor, zero);
    let double = builder.convert(divisor, Class::F64);
    let mut value = builder.float2(FloatOp::Divide, squares.value, double);
    if !grouped {
        // Without keys DataFusion does not divide for a single value, so an infinity has variance 0.
        let is_single = builder.compare(Comparison::Equal, count.value, one);
        let nothing = builder.float(0.0);
        value = builder.select(is_single, nothing, value);
    }
    if function.is_root() {
        value = builder.call(&floats::SQRT, vec![value]);
    }
    Ok(vec![Nullable {
        value,
        valid: has_divisor,
    }])
}
