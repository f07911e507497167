//! Refuses values that take much memory, each by its type alone, and digests of many points; has patterns of LIKE
//! that may be long checked before they are matched.
//!
//! A NULL of the type `INT[2147483647]` takes as much memory as any value of it, eight gigabytes, and so does
//! every row of a batch; `approx_percentile_cont` takes memory for all of its centroids when it begins. Nothing
//! asks a memory pool for either first.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan};

use super::walk::{any_expression, change_parts};
use crate::error::{Error, ErrorKind};
use crate::functions::like_pattern::{checked, may_be_long};

/// The most bytes of one value of a type of fixed size: 16,384 floats. A batch of 8,192 rows takes half a gigabyte.
const VALUE_BYTES_MAX: u64 = 64 << 10;

/// The most centroids of a digest; 100 are usual.
const CENTROIDS_MAX: u64 = 10_000;

pub(super) fn bound_values(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                check(part)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    let is_long = |expr: &Expr| matches!(expr, Expr::Like(like) if may_be_long(like));
    if !any_expression(&plan, is_long)? {
        return Ok(plan);
    }
    change_parts(plan, |part, _| match part {
        Expr::Like(like) if may_be_long(&like) => Ok(Transformed::yes(Expr::Like(checked(like)))),
        other => Ok(Transformed::no(other)),
    })
}

fn check(expr: &Expr) -> Result<()> {
    match expr {
        Expr::Cast(cast) => check_type(cast.field.data_type()),
        Expr::TryCast(cast) => check_type(cast.field.data_type()),
        Expr::ScalarFunction(call) if call.name().starts_with("arrow_") => {
            let texts = call.args.iter().filter_map(|argument| match argument {
                Expr::Literal(value, _) => value.try_as_str().flatten(),
                _ => None,
            });
            let mut types = texts.filter_map(|text| text.parse::<DataType>().ok());
            types.try_for_each(|data_type| check_type(&data_type))
        }
        Expr::AggregateFunction(call) if call.func.name().starts_with("approx_percentile_cont") => {
            let last = call.params.args.last();
            let centroids = last.and_then(|argument| match argument {
                Expr::Literal(value, _) if value.data_type().is_integer() => Some(value),
                _ => None,
            });
            match centroids.map(|value| value.cast_to(&DataType::UInt64)) {
                Some(Ok(ScalarValue::UInt64(Some(wanted)))) if wanted > CENTROIDS_MAX => {
                    Err(refused(format!(
                        "{} with {wanted} centroids: there may be {CENTROIDS_MAX}",
                        call.func.name()
                    )))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Refuses columns of such types in a table that is made, which an INSERT would fill with NULLs.
///
/// # Errors
/// [`ErrorKind::ResourcesExhausted`] with the type.
pub(crate) fn check_columns(plan: &LogicalPlan) -> Result<()> {
    let schema = match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => create.input.schema(),
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(create)) => &create.schema,
        _ => return Ok(()),
    };
    let mut fields = schema.fields().iter();
    fields.try_for_each(|field| check_type(field.data_type()))
}

/// Refuses a type whose values take too many bytes each, wherever it stands in another.
fn check_type(data_type: &DataType) -> Result<()> {
    let bytes = bytes_of(data_type);
    if bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(refused(format!(
        "a value of the type {data_type} takes {bytes} bytes, also if it is NULL: there may be \
         {VALUE_BYTES_MAX}; lists without a size (INT[]) take what is in them"
    )))
}

/// Returns how many bytes every value of a type takes, whatever it is.
fn bytes_of(data_type: &DataType) -> u64 {
    let positive = |width: i32| u64::try_from(width).unwrap_or(0);
    match data_type {
        DataType::FixedSizeBinary(width) => positive(*width),
        DataType::FixedSizeList(field, width) => {
            positive(*width).saturating_mul(bytes_of(field.data_type()).max(1))
        }
        DataType::Struct(fields) => fields.iter().fold(0, |sum, field| {
            u64::saturating_add(sum, bytes_of(field.data_type()))
        }),
        DataType::List(field) | DataType::LargeList(field) | DataType::Map(field, _) => {
            // Each element is a value, of which a list may have few.
            bytes_of(field.data_type())
        }
        other => other.primitive_width().map_or(16, |width| width as u64),
    }
}

fn refused(message: String) -> datafusion::error::DataFusionError {
    Error::new(ErrorKind::ResourcesExhausted, message).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field};

    use super::{bytes_of, check_type};

    fn list(of: DataType, width: i32) -> DataType {
        DataType::FixedSizeList(Arc::new(Field::new_list_field(of, true)), width)
    }

    #[test]
    fn values_take_what_their_types_say() {
        assert_eq!(bytes_of(&DataType::Int32), 4);
        assert_eq!(bytes_of(&list(DataType::Int32, 1_000)), 4_000);
        let nested = list(list(DataType::Utf8, i32::MAX), i32::MAX);
        assert!(bytes_of(&nested) > 1 << 60);
        assert!(check_type(&nested).is_err());
        assert!(check_type(&list(DataType::Float32, 16_384)).is_ok());
        assert!(check_type(&DataType::FixedSizeBinary(65_537)).is_err());
        let inner = list(DataType::Int64, 1 << 30);
        assert!(
            check_type(&DataType::List(Arc::new(Field::new_list_field(
                inner, true
            ))))
            .is_err()
        );
    }
}
