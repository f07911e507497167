//! `SHOW FUNCTIONS`, with the functions that DataFusion leaves out of it.
//!
//! DataFusion lists a function once for each example of its arguments' types, and one that has none
//! not at all: those of users, which say by their own rules what they take, and a good part of its
//! own. Here they have a line each, whose `syntax_example` tells the arguments.

use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement;
use sqlparser::ast::{self, ShowStatementFilter};

/// Functions without examples, in the columns of `SHOW FUNCTIONS`.
const WITHOUT_EXAMPLES: &str = "
SELECT DISTINCT
    routine_name AS function_name,
    data_type AS return_type,
    arrow_cast(NULL, 'List(Utf8)') AS parameters,
    arrow_cast(NULL, 'List(Utf8)') AS parameter_types,
    function_type,
    description,
    syntax_example
FROM information_schema.routines
WHERE function_type <> 'TABLE'
  AND routine_name NOT IN (SELECT specific_name FROM information_schema.parameters)";

/// Plans the statement with this filter.
pub(super) async fn plan(
    state: &SessionState,
    filter: Option<ShowStatementFilter>,
) -> Result<LogicalPlan> {
    // DataFusion writes the pattern into a query as it is.
    let filter = filter.map(|filter| match filter {
        ShowStatementFilter::Like(pattern) => {
            ShowStatementFilter::Like(pattern.replace('\'', "''"))
        }
        other => other,
    });
    let like = match &filter {
        Some(ShowStatementFilter::Like(pattern)) => format!(" AND routine_name LIKE '{pattern}'"),
        // It refuses every other filter.
        _ => String::new(),
    };
    let statement = ast::Statement::ShowFunctions { filter };
    let statement = Statement::Statement(Box::new(statement));
    let with_examples = state.statement_to_plan(statement).await?;
    let sql = format!("{WITHOUT_EXAMPLES}{like}");
    let without = state.create_logical_plan(&sql).await?;
    let all = LogicalPlanBuilder::from(with_examples)
        .union(without)?
        .build()?;
    // By name, and those of one name by their types, so that the order is the same each time.
    let columns = all.schema().columns();
    let order = columns.into_iter().take(4);
    let order: Vec<_> = order
        .map(|column| Expr::Column(column).sort(true, false))
        .collect();
    LogicalPlanBuilder::from(all).sort(order)?.build()
}
