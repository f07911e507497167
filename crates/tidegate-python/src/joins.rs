//! Joins of two frames, with the columns that Polars gives them.

use std::collections::HashSet;

use datafusion::common::{Column, JoinType};
use datafusion::dataframe::DataFrame;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use pyo3::PyResult;
use tidegate::{Error, ErrorKind};

use crate::error::raise;

/// What the sides are called in the plan.
const SIDES: [&str; 2] = ["left", "right"];

/// How two frames are joined.
pub(crate) struct Join {
    /// The columns by which rows belong together, left and right.
    pub(crate) keys: (Vec<String>, Vec<String>),
    pub(crate) how: String,
    /// What is added to the name of a column on the right that the left has, too.
    pub(crate) suffix: String,
    /// Whether both sides' keys become one column; `None` for what the kind of join does.
    pub(crate) coalesce: Option<bool>,
}

impl Join {
    fn kind(&self) -> PyResult<JoinType> {
        Ok(match self.how.as_str() {
            "inner" | "cross" => JoinType::Inner,
            "left" => JoinType::Left,
            "right" => JoinType::Right,
            "full" => JoinType::Full,
            "semi" => JoinType::LeftSemi,
            "anti" => JoinType::LeftAnti,
            other => {
                let message = format!(
                    "how='{other}': a join is 'inner', 'left', 'right', 'full', 'semi', 'anti' or 'cross'"
                );
                return Err(raise(&Error::new(ErrorKind::Sql, message)));
            }
        })
    }

    /// Joins the frames.
    pub(crate) fn of(&self, left: DataFrame, right: DataFrame) -> PyResult<DataFrame> {
        let failed = |error| raise(&Error::from(error));
        let kind = self.kind()?;
        let columns = self.columns(kind, &names(&left), &names(&right));
        let (state, left) = left.alias(SIDES[0]).map_err(failed)?.into_parts();
        let (_, right) = right.alias(SIDES[1]).map_err(failed)?.into_parts();
        let builder = LogicalPlanBuilder::from(left);
        let joined = match self.how == "cross" {
            true => builder.cross_join(right),
            false => {
                let keys = |side: usize, names: &[String]| -> Vec<Expr> {
                    names.iter().map(|name| column(side, name)).collect()
                };
                let keys = (keys(0, &self.keys.0), keys(1, &self.keys.1));
                builder.join_with_expr_keys(right, kind, keys, None)
            }
        };
        let plan = joined.and_then(LogicalPlanBuilder::build).map_err(failed)?;
        DataFrame::new(state, plan).select(columns).map_err(failed)
    }

    /// Lists the columns of the result.
    fn columns(&self, kind: JoinType, left: &[String], right: &[String]) -> Vec<Expr> {
        let of_left = |name: &String| column(0, name).alias(name);
        if matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti) {
            return left.iter().map(of_left).collect();
        }
        let is_one = self.how != "cross" && self.coalesce.unwrap_or(kind != JoinType::Full);
        let partner = |name: &String| {
            let found = self.keys.0.iter().position(|key| key == name);
            found.map(|index| &self.keys.1[index])
        };
        let is_right_key = |name: &String| self.keys.1.contains(name);
        let mut columns = Vec::new();
        let mut taken: HashSet<String> = HashSet::new();
        for name in left {
            let value = match (partner(name).filter(|_| is_one), kind) {
                // The right side's keys stand for both, among its columns.
                (Some(_), JoinType::Right) => continue,
                (Some(right), JoinType::Full) => coalesce(vec![column(0, name), column(1, right)]),
                _ => column(0, name),
            };
            taken.insert(name.clone());
            columns.push(value.alias(name));
        }
        for name in right {
            if is_one && kind != JoinType::Right && is_right_key(name) {
                continue;
            }
            let shown = match taken.contains(name) {
                true => format!("{name}{}", self.suffix),
                false => name.clone(),
            };
            taken.insert(shown.clone());
            columns.push(column(1, name).alias(shown));
        }
        columns
    }
}

fn column(side: usize, name: &str) -> Expr {
    Expr::Column(Column::new(Some(SIDES[side]), name))
}

fn names(frame: &DataFrame) -> Vec<String> {
    let fields = frame.schema().fields().iter();
    fields.map(|field| field.name().clone()).collect()
}
