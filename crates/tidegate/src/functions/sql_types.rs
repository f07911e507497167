//! `sql_types(text)`: the name that SQL has for a type, of the one that Arrow has.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::sql_type::sql_type;

/// Returns the function, which statements cannot call.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::from(SqlTypes {
        signature: Signature::exact(vec![DataType::Utf8], Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SqlTypes {
    signature: Signature,
}

impl ScalarUDFImpl for SqlTypes {
    fn name(&self) -> &str {
        "sql_types"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(
            self.name(),
            DataType::Utf8,
            is_nullable,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(written, Vec::new())(&args.args)
    }
}

fn written(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [names] = given else {
        return internal_err!("sql_types of {} arguments", given.len());
    };
    let names = names.as_string::<i32>().iter();
    let written = names.map(|name| name.map(in_sql));
    Ok(Arc::new(written.collect::<StringArray>()))
}

/// Names a type; one that cannot be read keeps its name.
fn in_sql(name: &str) -> String {
    match name.parse::<DataType>() {
        Ok(data_type) => sql_type(&data_type),
        Err(_) => crate::error::in_sql(name),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, TimeUnit};

    use super::in_sql;

    #[test]
    fn types_have_the_names_of_sql() {
        for (data_type, expect) in [
            (DataType::Int32, "INT"),
            (DataType::Utf8View, "VARCHAR"),
            (DataType::Decimal128(10, 2), "DECIMAL(10, 2)"),
            (DataType::Timestamp(TimeUnit::Nanosecond, None), "TIMESTAMP"),
        ] {
            assert_eq!(in_sql(&data_type.to_string()), expect);
        }
        assert_eq!(in_sql("BIGINT[]"), "BIGINT[]");
    }
}
