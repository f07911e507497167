//! Cases of every kind of call.

use arrow_array::ArrayRef;
use arrow_schema::DataType::{Boolean, Int64};

use crate::check::Case;
use crate::data::{Shape, batch, column, cut, random};
use crate::plan::{Plan, avg, count, count_of, filtered, max, min, sum};

/// Every kind of call over a value and a flag, by these keys; the input comes in pieces of these sizes.
pub(crate) fn every_call(name: impl Into<String>, keys: Vec<ArrayRef>, sizes: &[usize]) -> Case {
    let rows = keys[0].len();
    let mut random = random(rows as u64);
    let num_keys = keys.len();
    let columns = vec![
        column(&mut random, &Int64, rows, Shape::within(-9000, 90).nulls(9)),
        column(&mut random, &Boolean, rows, Shape::all()),
    ];
    let input = batch([keys, columns].concat());
    let plan = Plan::over(&input);
    let keys = plan.cols()[..num_keys].to_vec();
    let (value, flag) = (plan.col(num_keys), plan.col(num_keys + 1));
    let calls = vec![
        count(),
        count_of(value.clone()),
        filtered(sum(value.clone()), flag.clone()),
        max(value.clone()),
        filtered(min(value.clone()), flag),
        avg(value),
    ];
    let pipeline = plan.group(keys, calls).build();
    Case::new(name, pipeline, cut(&input, sizes))
}
