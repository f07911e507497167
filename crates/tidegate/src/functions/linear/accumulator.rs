//! The state of one group.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StructArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use tidegate_linalg::{Gram, Triangle, packed_len};

use super::Kind;
use crate::functions::aggregate::Kind as _;

/// What is kept of rows.
#[derive(Debug)]
enum Kept {
    Gram(Gram),
    /// R of the columns; of a regression, R of a column of ones, the columns and what is fitted.
    Triangle(Triangle),
}

/// Keeps what one group needs of its rows. The state is a packed triangle and the number of rows.
#[derive(Debug)]
pub(super) struct LinearAccumulator {
    kind: Kind,
    /// Columns of the triangle.
    columns: usize,
    kept: Kept,
    rows: i64,
}

impl LinearAccumulator {
    pub(super) fn new(kind: Kind, arguments: usize) -> Self {
        let columns = match kind {
            Kind::Gram | Kind::Svd => arguments,
            Kind::Regression => arguments + 1,
        };
        let kept = match kind {
            Kind::Gram => Kept::Gram(Gram::new(columns)),
            Kind::Svd | Kind::Regression => Kept::Triangle(Triangle::new(columns)),
        };
        Self {
            kind,
            columns,
            kept,
            rows: 0,
        }
    }

    fn add(&mut self, columns: &[&[f64]]) {
        let rows = columns.first().map_or(0, |column| column.len());
        match &mut self.kept {
            Kept::Gram(gram) => gram.add(columns),
            Kept::Triangle(triangle) => {
                let (ones, fitted, others) = match (self.kind, columns) {
                    (Kind::Regression, [fitted, others @ ..]) => (Some(1.0), Some(fitted), others),
                    _ => (None, None, columns),
                };
                for row in 0..rows {
                    let others = others.iter().chain(fitted).map(|column| column[row]);
                    triangle.push(ones.into_iter().chain(others));
                }
                triangle.settle();
            }
        }
        self.rows += i64::try_from(rows).unwrap_or(i64::MAX);
    }
}

impl Accumulator for LinearAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = without_nulls(values)?;
        let columns = values.iter();
        let columns: Vec<&[f64]> = columns
            .map(|column| column.as_primitive::<Float64Type>().values().as_ref())
            .collect();
        self.add(&columns);
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let packed = match &mut self.kept {
            Kept::Gram(gram) => gram.packed().to_vec(),
            Kept::Triangle(triangle) => triangle.packed(),
        };
        let packed = list(packed.into_iter().map(Some));
        Ok(vec![packed, ScalarValue::Int64(Some(self.rows))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [triangles, rows] = states else {
            return exec_err!(
                "a state of {} has {} columns",
                self.kind.name(),
                states.len()
            );
        };
        let triangles = triangles.as_list::<i32>().iter();
        let rows = rows.as_primitive::<Int64Type>().iter();
        for (triangle, rows) in triangles.zip(rows) {
            let (Some(triangle), Some(rows)) = (triangle, rows) else {
                continue;
            };
            let triangle = triangle.as_primitive::<Float64Type>();
            if triangle.len() != packed_len(self.columns) {
                return exec_err!("a state of {} has other columns", self.kind.name());
            }
            // A triangle without rows is one of zeros.
            if rows > 0 {
                match &mut self.kept {
                    Kept::Gram(gram) => gram.merge(triangle.values()),
                    Kept::Triangle(kept) => kept.merge(triangle.values()),
                }
                self.rows += rows;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let returns = self.kind.returned();
        let rows_min = match self.kind {
            Kind::Gram | Kind::Svd => 1,
            // The intercept and a coefficient for each column.
            Kind::Regression => self.columns - 1,
        };
        if usize::try_from(self.rows).unwrap_or_default() < rows_min {
            return ScalarValue::try_from(&returns);
        }
        match (&mut self.kept, self.kind) {
            (Kept::Gram(gram), _) => Ok(lists(&gram.rows())),
            (Kept::Triangle(triangle), Kind::Regression) => {
                let fit = triangle.regression();
                let fields = [
                    list(fit.coefficients.into_iter()),
                    ScalarValue::Float64(Some(fit.intercept)),
                    ScalarValue::Float64(fit.r2),
                    ScalarValue::Int64(Some(self.rows)),
                ];
                structure(&returns, &fields)
            }
            (Kept::Triangle(triangle), _) => {
                let found = triangle.svd();
                let values = list(found.values.into_iter().map(Some));
                structure(&returns, &[values, lists(&found.vectors)])
            }
        }
    }

    fn size(&self) -> usize {
        let held = match &self.kept {
            Kept::Gram(gram) => size_of_val(gram.packed()),
            Kept::Triangle(triangle) => triangle.size(),
        };
        size_of_val(self) + held
    }
}

/// Returns the rows of columns in which no value is NULL.
fn without_nulls(columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let nulls = columns.iter().map(|column| column.logical_nulls());
    let nulls = nulls.fold(None, |all, own| {
        NullBuffer::union(all.as_ref(), own.as_ref())
    });
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        return Ok(columns.to_vec());
    };
    let is_kept = BooleanArray::new(nulls.into_inner(), None);
    let columns = columns.iter();
    let kept: Result<_, _> = columns.map(|column| filter(column, &is_kept)).collect();
    Ok(kept?)
}

fn list(values: impl Iterator<Item = Option<f64>>) -> ScalarValue {
    let values = ListArray::from_iter_primitive::<Float64Type, _, _>([Some(values)]);
    ScalarValue::List(Arc::new(values))
}

fn lists(rows: &[Vec<f64>]) -> ScalarValue {
    let rows: Vec<ScalarValue> = rows
        .iter()
        .map(|row| list(row.iter().copied().map(Some)))
        .collect();
    let of = super::list(DataType::Float64);
    ScalarValue::List(ScalarValue::new_list_nullable(&rows, &of))
}

fn structure(returns: &DataType, values: &[ScalarValue]) -> Result<ScalarValue> {
    let DataType::Struct(fields) = returns else {
        return exec_err!("{returns} has no fields");
    };
    let values: Result<Vec<ArrayRef>> = values.iter().map(ScalarValue::to_array).collect();
    let structure = StructArray::try_new(fields.clone(), values?, None)?;
    Ok(ScalarValue::Struct(Arc::new(structure)))
}
