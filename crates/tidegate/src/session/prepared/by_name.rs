//! `EXECUTE p(a := 1)` of `PREPARE p AS SELECT $a`: values by name, put in the order of the parameters.

use datafusion::sql::parser::Statement;
use sqlparser::ast::{self, BinaryOperator, Expr, ObjectNamePart};

use super::super::Session;
use crate::error::{Error, ErrorKind};
use crate::statements::using::folded;

/// Counts the types that `PREPARE p(INT, …) AS …` declares.
pub(in crate::session) fn num_declared(statement: &Statement) -> usize {
    match statement {
        Statement::Statement(inner) => match inner.as_ref() {
            ast::Statement::Prepare { data_types, .. } => data_types.len(),
            _ => 0,
        },
        _ => 0,
    }
}

/// Puts the values of an `EXECUTE` that have names in the order of the parameters.
///
/// # Errors
/// [`ErrorKind::Sql`] unless each parameter has one value, and all of them are by name.
pub(in crate::session) fn order_values(
    session: &Session,
    statement: &mut Statement,
) -> Result<(), Error> {
    let inner = match statement {
        Statement::Statement(inner) => inner.as_mut(),
        Statement::Explain(explain) => return order_values(session, &mut explain.statement),
        _ => return Ok(()),
    };
    let ast::Statement::Execute {
        name: Some(name),
        parameters: values,
        ..
    } = inner
    else {
        return Ok(());
    };
    let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
        return Ok(());
    };
    if !values.iter().any(|value| named(value).is_some()) {
        return Ok(());
    }
    let name = folded(name);
    let wrong = |message: String| Err(Error::new(ErrorKind::Sql, message));
    let known = session.plans.prepared.lock().get(&name).cloned();
    let Some(known) = known else {
        return wrong(format!("Prepared statement '{name}' does not exist"));
    };
    let parameters = &known.source.context.parameters;
    let mut ordered: Vec<Option<Expr>> = vec![None; parameters.len()];
    for value in values.iter() {
        let Some((given, value)) = named(value) else {
            return wrong(format!(
                "EXECUTE {name}: {value} has no name, and others have: write all values by name, or none"
            ));
        };
        let Some(place) = parameters.iter().position(|known| *known == given) else {
            return wrong(match parameters.as_slice() {
                [] => format!("EXECUTE {name}: its parameters have no names: write {name}(1, …)"),
                all => format!(
                    "EXECUTE {name}: there is no parameter {given}: it has {}",
                    all.join(", ")
                ),
            });
        };
        if ordered[place].replace(value.clone()).is_some() {
            return wrong(format!("EXECUTE {name}: {given} is given twice"));
        }
    }
    let missing = ordered.iter().position(Option::is_none);
    if let Some(missing) = missing.and_then(|place| parameters.get(place)) {
        return wrong(format!("EXECUTE {name}: {missing} has no value"));
    }
    *values = ordered.into_iter().flatten().collect();
    Ok(())
}

/// Returns the name, in small letters, and the value of `a := 1`.
fn named(value: &Expr) -> Option<(String, &Expr)> {
    match value {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Assignment,
            right,
        } => match left.as_ref() {
            Expr::Identifier(name) => Some((name.value.to_lowercase(), right.as_ref())),
            _ => None,
        },
        _ => None,
    }
}
