//! Groups of rows of which most are selected: blocks compute all of them then, and those that are not
//! selected must count nowhere, make no group and raise nothing. In few groups, which have copies, in more
//! than have any, and in as many as there are rows.

use arrow_schema::DataType::{Float64, Int32, Int64, Utf8};
use tidegate_pipeline::CompareOp;

use crate::check::Case;
use crate::data::{Shape, batch, column, cut, random};
use crate::plan::{
    Plan, add, avg, compare, count, count_of, divide, filtered, max, min, multiply, sum,
};

const ROWS: usize = 9_000;

/// Returns cases with so many keys each, which leave out one row in so many.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (keys, leaves_out) in [(3, 20), (70, 20), (5_000, 50), (3, 5), (70, 2)] {
        for key_type in [Int32, Utf8] {
            let random = &mut random(keys as u64 * 31 + leaves_out as u64);
            let key = column(random, &key_type, ROWS, Shape::within(0, keys).nulls(3));
            // Where the filter's column is 0 rows are left out, and dividing by it raises.
            let filter = column(random, &Int64, ROWS, Shape::within(0, leaves_out - 1));
            let whole = column(random, &Int64, ROWS, Shape::within(-9, 900));
            let holed = column(random, &Int64, ROWS, Shape::within(-9, 900).nulls(30));
            let floats = column(random, &Float64, ROWS, Shape::within(-9, 900).nulls(30));
            let input = batch(vec![key, filter, whole, holed, floats]);
            let mut plan = Plan::over(&input);
            let zero = plan.int(Int64, 0);
            let selects = compare(CompareOp::NotEq, plan.col(1), zero);
            let (whole, holed, floats) = (plan.col(2), plan.col(3), plan.col(4));
            let divided = divide(whole.clone(), plan.col(1));
            let many = compare(CompareOp::Gt, whole.clone(), plan.col(1));
            let calls = vec![
                sum(whole.clone()),
                sum(multiply(whole.clone(), plan.col(1))),
                count(),
                count_of(holed.clone()),
                sum(holed.clone()),
                sum(floats.clone()),
                avg(holed.clone()),
                min(whole.clone()),
                max(whole.clone()),
                min(holed.clone()),
                max(holed.clone()),
                min(floats.clone()),
                sum(divided),
                filtered(sum(add(whole.clone(), whole)), many),
            ];
            let key = plan.col(0);
            let pipeline = plan.filter(selects).group(vec![key], calls).build();
            let name = format!("{keys} keys of {key_type}, all but 1 in {leaves_out} rows");
            cases.push(Case::new(name, pipeline, cut(&input, &[6_000, 1, 2_900])));
        }
    }
    cases
}
