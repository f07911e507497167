//! Macros of tables: `FROM t(3)` becomes the query of `CREATE MACRO t(x) AS TABLE SELECT …`.

use datafusion::execution::context::SessionState;
use sqlparser::ast::{ObjectNamePart, TableAlias, TableFactor};

use super::using::folded;
use crate::error::{Error, ErrorKind};
use crate::functions::macros::Macro;

/// The most calls in a statement, those within others included: two macros may call each other.
const CALLS_MAX: usize = 50;

/// Writes out the calls of one statement.
#[derive(Debug, Default)]
pub(super) struct TableMacros {
    num_calls: usize,
}

impl TableMacros {
    /// Replaces a call of a macro by its query.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] for other arguments than the macro has, and for too many calls.
    pub(super) fn write_out(
        &mut self,
        functions: &SessionState,
        table: &mut TableFactor,
    ) -> Result<(), Error> {
        let TableFactor::Table {
            name,
            alias,
            args: Some(args),
            sample,
            ..
        } = table
        else {
            return Ok(());
        };
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
            return Ok(());
        };
        let Some(function) = functions.scalar_functions().get(&folded(name)) else {
            return Ok(());
        };
        let Some(made) = Macro::of(function) else {
            return Ok(());
        };
        let subquery = made.table(&args.args)?;
        self.num_calls += 1;
        if self.num_calls > CALLS_MAX {
            let message = format!(
                "macros of tables are called more than {CALLS_MAX} times in a statement: does {name} call itself?"
            );
            return Err(Error::new(ErrorKind::Sql, message));
        }
        let alias = alias.take().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: name.clone(),
            columns: Vec::new(),
            at: None,
        });
        *table = TableFactor::Derived {
            lateral: false,
            subquery,
            alias: Some(alias),
            sample: sample.take(),
        };
        Ok(())
    }
}
