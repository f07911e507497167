//! Lazy AND and OR: three-valued, and silent where the left side decides.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray, Int32Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::PhysicalExpr;

use super::{LazyLogic, lazy};

const VALUES: [Option<bool>; 3] = [Some(true), Some(false), None];

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("p", DataType::Boolean, true),
        Field::new("q", DataType::Boolean, true),
        Field::new("b", DataType::Int32, true),
    ])
}

/// Gives each pair of three-valued sides once.
fn pairs() -> RecordBatch {
    let left = VALUES.into_iter().flat_map(|left| [left; 3]);
    let right = VALUES.into_iter().cycle().take(9);
    RecordBatch::try_new(
        Arc::new(schema()),
        vec![
            Arc::new(left.collect::<BooleanArray>()),
            Arc::new(right.collect::<BooleanArray>()),
            Arc::new(Int32Array::from(vec![1; 9])),
        ],
    )
    .unwrap()
}

#[test]
fn three_values_are_those_of_sql() {
    let (batch, schema) = (pairs(), schema());
    for op in [Operator::And, Operator::Or] {
        let (left, right) = (col("p", &schema).unwrap(), col("q", &schema).unwrap());
        let eager = binary(Arc::clone(&left), op, Arc::clone(&right), &schema).unwrap();
        let lazy = LazyLogic { op, left, right };
        let all = batch.num_rows();
        let given = lazy.evaluate(&batch).unwrap().into_array(all).unwrap();
        let expected = eager.evaluate(&batch).unwrap().into_array(all).unwrap();
        assert_eq!(given.as_boolean(), expected.as_boolean(), "{op}");
        assert_eq!(lazy.to_string(), eager.to_string());
    }
}

#[test]
fn rows_that_the_left_side_decides_do_not_raise() {
    let schema = schema();
    let over = |op: Operator, test: Operator| {
        let b = col("b", &schema).unwrap();
        let left = binary(Arc::clone(&b), test, lit(0_i32), &schema).unwrap();
        let quotient = binary(lit(10_i32), Operator::Divide, b, &schema).unwrap();
        let right = binary(quotient, Operator::Gt, lit(4_i32), &schema).unwrap();
        let eager = binary(left, op, right, &schema).unwrap();
        lazy(&eager, &schema).unwrap()
    };
    let (and, or) = (
        over(Operator::And, Operator::NotEq),
        over(Operator::Or, Operator::Eq),
    );
    assert!(and.transformed && or.transformed);
    let nothing = BooleanArray::from(vec![None; 4]);
    let b = Int32Array::from(vec![Some(0), Some(2), Some(5), None]);
    let batch = RecordBatch::try_new(
        Arc::new(schema),
        vec![Arc::new(nothing.clone()), Arc::new(nothing), Arc::new(b)],
    )
    .unwrap();
    let rows = |expr: &Arc<dyn PhysicalExpr>| {
        let values = expr.evaluate(&batch).unwrap().into_array(4).unwrap();
        values.as_boolean().iter().collect::<Vec<_>>()
    };
    assert_eq!(
        rows(&and.data),
        [Some(false), Some(true), Some(false), None]
    );
    assert_eq!(rows(&or.data), [Some(true), Some(true), Some(false), None]);
}

#[test]
fn what_cannot_raise_stays_as_it_is() {
    let schema = schema();
    let sides = (col("p", &schema).unwrap(), col("q", &schema).unwrap());
    let eager = binary(sides.0, Operator::And, sides.1, &schema).unwrap();
    assert!(!lazy(&eager, &schema).unwrap().transformed);
}
