//! Arguments by name in the calls of array functions, `chunks => [1000, 1000]`: put in their places
//! before the planner, which knows places only, sees the call.

use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, TableFactor, TableFunctionArgs, Value,
};

use super::functions::SIGNATURES;

/// Puts named arguments of the array functions in their places.
#[derive(Debug)]
pub(crate) struct NamedArguments;

impl RelationPlanner for NamedArguments {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        _: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let TableFactor::Table {
            name,
            args: Some(args),
            ..
        } = &mut relation
        {
            let called = name.to_string().to_ascii_lowercase();
            let known = SIGNATURES.iter().find(|(name, _)| *name == called);
            if let Some((name, parameters)) = known {
                put_in_place(name, parameters, args)?;
            }
        }
        Ok(RelationPlanning::Original(Box::new(relation)))
    }
}

fn put_in_place(name: &str, parameters: &[&str], args: &mut TableFunctionArgs) -> Result<()> {
    let mut places: Vec<Option<FunctionArgExpr>> = vec![None; parameters.len()];
    let mut any = false;
    for (position, arg) in args.args.iter().enumerate() {
        let (called, value) = match arg {
            FunctionArg::Unnamed(_) if any => {
                return plan_err!("{name}: an argument without a name after one with a name");
            }
            // Too many are told where they are counted.
            FunctionArg::Unnamed(value) => {
                if let Some(place) = places.get_mut(position) {
                    *place = Some(value.clone());
                }
                continue;
            }
            FunctionArg::Named { name, arg, .. } => (name.value.clone(), arg),
            FunctionArg::ExprNamed { name, arg, .. } => (name.to_string(), arg),
        };
        any = true;
        let called = called.to_ascii_lowercase();
        let Some(place) = parameters.iter().position(|known| *known == called) else {
            return plan_err!(
                "{name}: there is not an argument {called}; there are {}",
                parameters.join(", ")
            );
        };
        if places[place].is_some() {
            return plan_err!("{name}: the argument {called} is given twice");
        }
        places[place] = Some(value.clone());
    }
    if any {
        let null = || FunctionArgExpr::Expr(Expr::Value(Value::Null.with_empty_span()));
        args.args = places
            .into_iter()
            .map(|place| FunctionArg::Unnamed(place.unwrap_or_else(null)))
            .collect();
    }
    Ok(())
}
