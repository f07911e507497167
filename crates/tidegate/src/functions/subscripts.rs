//! `'abc'[1]` and `'abc'[1:2]`: characters of a string, as in DuckDB; negative places count from the end. A key, `j['a']`, is
//! one of JSON, which is a string here; a place in the call of a function that gives JSON, `(j -> 'a')[0]`, is one in an array.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, lit, when};
use datafusion::prelude::{character_length, substring};

use super::json;

/// Plans subscripts of strings, before those of lists are.
#[derive(Debug)]
pub(crate) struct StringSubscripts;

impl ExprPlanner for StringSubscripts {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        // What has no type yet is no string.
        let is_string = match access.expr.get_type(schema) {
            Ok(DataType::Dictionary(_, of)) => of.is_string(),
            Ok(of) => of.is_string(),
            Err(_) => false,
        };
        if !is_string {
            return Ok(PlannerResult::Original(access));
        }
        let text = &access.expr;
        let planned = match &access.field_access {
            GetFieldAccess::ListIndex { key } if json::is_call(text) => {
                Some(json::extract(vec![text.clone(), Expr::clone(key)]))
            }
            GetFieldAccess::ListIndex { key } => {
                Some(substring(text.clone(), place(text, key)?, lit(1_i64)))
            }
            GetFieldAccess::ListRange {
                start,
                stop,
                stride,
            } if is_one(stride) => {
                let (start, stop) = (place(text, start)?, place(text, stop)?);
                let length = stop - start.clone() + lit(1_i64);
                // Nothing is between a place and one before it.
                let length = when(length.clone().lt(lit(0_i64)), lit(0_i64)).otherwise(length)?;
                Some(substring(text.clone(), start, length))
            }
            GetFieldAccess::NamedStructField { name } => {
                let key = Expr::Literal(name.clone(), None);
                Some(json::extract(vec![text.clone(), key]))
            }
            _ => None,
        };
        Ok(match planned {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(access),
        })
    }
}

fn is_one(stride: &Expr) -> bool {
    matches!(stride, Expr::Literal(ScalarValue::Int64(Some(1)), _))
}

/// Returns a place from the beginning.
fn place(text: &Expr, place: &Expr) -> Result<Expr> {
    match place {
        Expr::Literal(ScalarValue::Int64(Some(given)), _) if *given >= 0 => Ok(place.clone()),
        _ => {
            let from_end = character_length(text.clone()) + lit(1_i64) + place.clone();
            when(place.clone().lt(lit(0_i64)), from_end).otherwise(place.clone())
        }
    }
}
