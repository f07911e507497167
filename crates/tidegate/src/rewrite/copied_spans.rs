//! Has COPY write intervals and differences of times into files of text as the shell writes them, not as Arrow does.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use crate::functions::span_texts;

/// The endings of files whose values are text.
const TEXTS: [&str; 5] = ["csv", "tsv", "json", "ndjson", "jsonl"];

/// Writes text in the place of such columns.
pub(super) fn write_copied_spans(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    plan.transform_up(|node| match node {
        LogicalPlan::Copy(copy) if holds_spans(&copy) => {
            let input = with_texts(&copy)?;
            let copy = CopyTo::new(
                input.into(),
                copy.output_url,
                copy.partition_by,
                copy.file_type,
                copy.options,
            );
            Ok(Transformed::yes(LogicalPlan::Copy(copy)))
        }
        node => Ok(Transformed::no(node)),
    })
    .data()
}

fn holds_spans(copy: &CopyTo) -> bool {
    let ending = copy.file_type.get_ext();
    let mut fields = copy.input.schema().fields().iter();
    TEXTS.contains(&ending.trim_start_matches('.'))
        && fields.any(|field| span_texts::holds(field.data_type()))
}

fn with_texts(copy: &CopyTo) -> Result<LogicalPlan> {
    let columns = copy.input.schema().iter().map(|(table, field)| {
        let column = Expr::from((table, field));
        match span_texts::holds(field.data_type()) {
            true => {
                let text = span_texts::function().call(vec![column]);
                text.alias_qualified(table.cloned(), field.name())
            }
            false => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(LogicalPlan::clone(&copy.input))
        .project(columns)?
        .build()
}
