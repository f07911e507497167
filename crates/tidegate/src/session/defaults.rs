//! `DEFAULT` as a value of INSERT and UPDATE, and `INSERT INTO t DEFAULT VALUES`.
//!
//! The planner takes the word for a column. It becomes NULL, and once the statement is planned, the default of its
//! column stands in that place.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    DmlStatement, ExprSchemable, LogicalPlan, Projection, Statement as PlanStatement,
};
use datafusion::sql::parser::{DFParser, Statement};
use sqlparser::ast::{
    self, Assignment, AssignmentTarget, Expr, Insert, ObjectName, ObjectNamePart, SetExpr,
    TableObject, Update,
};

use super::rows_by_position::target;
use crate::statements::using::folded;

/// Where a statement says DEFAULT.
#[derive(Debug)]
pub(super) enum Defaults {
    None,
    /// In the values of an INSERT.
    Inserted {
        /// The columns that it names; none for all.
        columns: Vec<String>,
        /// Rows, and places in them.
        places: Vec<(usize, usize)>,
    },
    /// For these columns of an UPDATE.
    Updated(HashSet<String>),
}

impl Defaults {
    /// Takes DEFAULT out of a statement.
    ///
    /// # Errors
    /// Those of looking up the table.
    pub(super) async fn take(state: &SessionState, statement: &mut Statement) -> Result<Self> {
        let Statement::Statement(inner) = statement else {
            return Ok(Self::None);
        };
        let inner = match inner.as_mut() {
            ast::Statement::Prepare { statement, .. } => statement.as_mut(),
            inner => inner,
        };
        match inner {
            ast::Statement::Insert(insert) => {
                if insert.source.is_none() && insert.assignments.is_empty() {
                    give_values(state, insert).await?;
                }
                Ok(of_insert(insert))
            }
            ast::Statement::Update(update) => Ok(of_update(update)),
            _ => Ok(Self::None),
        }
    }

    /// Puts the defaults of the table's columns in their places.
    ///
    /// # Errors
    /// Those of casting a default to its column's type.
    pub(super) fn put(&self, plan: &mut LogicalPlan) -> Result<()> {
        let plan = match plan {
            LogicalPlan::Statement(PlanStatement::Prepare(prepare)) => {
                Arc::make_mut(&mut prepare.input)
            }
            plan => plan,
        };
        match (self, plan) {
            (Self::Inserted { columns, places }, LogicalPlan::Dml(dml)) => {
                put_rows(dml, columns, places)
            }
            (Self::Updated(columns), LogicalPlan::Dml(dml)) => put_columns(dml, columns),
            _ => Ok(()),
        }
    }
}

fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(name)
        if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("DEFAULT"))
}

fn column_of(name: &ObjectName) -> Option<String> {
    let name = name.0.last().and_then(ObjectNamePart::as_ident);
    name.map(folded)
}

/// Gives `INSERT INTO t DEFAULT VALUES` a row.
async fn give_values(state: &SessionState, insert: &mut Insert) -> Result<()> {
    let TableObject::TableName(name) = &insert.table else {
        return Ok(());
    };
    let Some(table) = target(state, name).await? else {
        return Ok(());
    };
    let values = vec!["DEFAULT"; table.schema().fields().len()];
    let mut parsed = DFParser::parse_sql(&format!("VALUES ({})", values.join(", ")))?;
    if let Some(Statement::Statement(row)) = parsed.pop_front()
        && let ast::Statement::Query(row) = *row
    {
        insert.source = Some(row);
    }
    Ok(())
}

fn of_insert(insert: &mut Insert) -> Defaults {
    let Some(source) = &mut insert.source else {
        return Defaults::None;
    };
    let SetExpr::Values(values) = source.body.as_mut() else {
        return Defaults::None;
    };
    let mut places = Vec::new();
    for (row, values) in values.rows.iter_mut().enumerate() {
        for (place, value) in values.iter_mut().enumerate() {
            if is_default(value) {
                *value = Expr::value(ast::Value::Null);
                places.push((row, place));
            }
        }
    }
    if places.is_empty() {
        return Defaults::None;
    }
    let columns = insert.columns.iter();
    Defaults::Inserted {
        columns: columns
            .map(|name| column_of(name).unwrap_or_default())
            .collect(),
        places,
    }
}

fn of_update(update: &mut Update) -> Defaults {
    let mut columns = HashSet::new();
    for Assignment { target, value } in &mut update.assignments {
        let pairs: Vec<(&ObjectName, &mut Expr)> = match (&*target, value) {
            (AssignmentTarget::ColumnName(name), value) => vec![(name, value)],
            (AssignmentTarget::Tuple(names), Expr::Tuple(values)) => {
                names.iter().zip(values).collect()
            }
            (AssignmentTarget::Tuple(_), _) => Vec::new(),
        };
        for (name, value) in pairs {
            if is_default(value) {
                *value = Expr::value(ast::Value::Null);
                columns.extend(column_of(name));
            }
        }
    }
    match columns.is_empty() {
        true => Defaults::None,
        false => Defaults::Updated(columns),
    }
}

fn put_rows(dml: &mut DmlStatement, columns: &[String], places: &[(usize, usize)]) -> Result<()> {
    let schema = dml.target.schema();
    let all = schema.fields().iter().map(|field| field.name().clone());
    let names: Vec<String> = match columns.is_empty() {
        true => all.collect(),
        false => columns.to_vec(),
    };
    let mut is_done = false;
    let input = dml.input.as_ref().clone();
    let input = input.transform_down(|node| match node {
        LogicalPlan::Values(mut values) if !is_done => {
            is_done = true;
            for (row, place) in places {
                let name = names.get(*place);
                let default = name.and_then(|name| dml.target.get_column_default(name));
                let value = values.values.get_mut(*row);
                let value = value.and_then(|row| row.get_mut(*place));
                if let (Some(default), Some(value)) = (default, value) {
                    let data_type = values.schema.field(*place).data_type();
                    *value = default.clone().cast_to(data_type, &DFSchema::empty())?;
                }
            }
            Ok(Transformed::yes(LogicalPlan::Values(values)))
        }
        node => Ok(Transformed::no(node)),
    })?;
    dml.input = Arc::new(input.data);
    Ok(())
}

fn put_columns(dml: &mut DmlStatement, columns: &HashSet<String>) -> Result<()> {
    let LogicalPlan::Projection(new) = dml.input.as_ref() else {
        return Ok(());
    };
    let schema = dml.target.schema();
    let mut values = Vec::with_capacity(new.expr.len());
    for value in &new.expr {
        let (_, name) = value.qualified_name();
        let default = match columns.contains(&name) {
            true => dml.target.get_column_default(&name),
            false => None,
        };
        values.push(match default {
            Some(default) => {
                let data_type = schema.field_with_name(&name)?.data_type();
                let default = default.clone().cast_to(data_type, &DFSchema::empty())?;
                default.alias(name)
            }
            None => value.clone(),
        });
    }
    let input = Projection::try_new(values, Arc::clone(&new.input))?;
    dml.input = Arc::new(LogicalPlan::Projection(input));
    Ok(())
}
