//! `lag` and `lead` that leave NULLs out (`IGNORE NULLS`).
//!
//! DataFusion's `lead` loses rows where it goes through them batch by batch and looks more than one row ahead, and so
//! does its `lag` where it is reversed to keep the order of its input; over a whole partition both are right. A LIMIT
//! above says how many rows they need, without those of NULLs. [`PastNulls`] goes through batches where it looks back or
//! one row ahead alone, and does not say what it needs. It has the name of DataFusion's function, as which it travels
//! to executors: the operator that is chosen here travels along.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_window::lead_lag::{lag_udwf, lead_udwf};
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::{
    PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;

/// Returns `lag` that leaves NULLs out.
pub(crate) fn lag_past_nulls() -> Arc<WindowUDF> {
    past_nulls(false)
}

/// Returns `lead` that leaves NULLs out.
pub(crate) fn lead_past_nulls() -> Arc<WindowUDF> {
    past_nulls(true)
}

/// Tells whether a function is one of these.
pub(crate) fn is_past_nulls(function: &WindowUDF) -> bool {
    function.inner().is::<PastNulls>()
}

fn past_nulls(is_lead: bool) -> Arc<WindowUDF> {
    let function = match is_lead {
        true => lead_udwf(),
        false => lag_udwf(),
    };
    Arc::new(WindowUDF::new_from_impl(PastNulls { function, is_lead }))
}

/// DataFusion's `lag` or `lead`, over batches only where that is right.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PastNulls {
    function: Arc<WindowUDF>,
    is_lead: bool,
}

impl WindowUDFImpl for PastNulls {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.function.expressions(args)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs<'_>,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let (exprs, fields) = (args.input_exprs(), args.input_fields());
        // What is reversed is the other function.
        let forward = PartitionEvaluatorArgs::new(exprs, fields, false, args.ignore_nulls());
        let evaluator = self.function.partition_evaluator_factory(forward)?;
        Ok(match evaluator.is_causal() || is_one_away(exprs.get(1)) {
            true => evaluator,
            false => Box::new(Whole(evaluator)),
        })
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        self.function.field(args)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        ReversedUDWF::Reversed(past_nulls(!self.is_lead))
    }
}

/// Tells whether a number of rows, 1 if it is not given, is one row.
fn is_one_away(rows: Option<&Arc<dyn PhysicalExpr>>) -> bool {
    let Some(rows) = rows else {
        return true;
    };
    let literal = rows.downcast_ref::<Literal>().map(Literal::value);
    let rows = literal.and_then(|value| value.cast_to(&DataType::Int64).ok());
    matches!(rows, Some(ScalarValue::Int64(Some(1 | -1))))
}

/// Evaluates whole partitions alone.
#[derive(Debug)]
struct Whole(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for Whole {
    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> Result<ArrayRef> {
        self.0.evaluate_all(values, num_rows)
    }

    fn supports_bounded_execution(&self) -> bool {
        false
    }
}
