//! `sql_types(text)`: the name that SQL has for a type, of the one that Arrow has.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;

use super::plain::{self, Parts};
use crate::sql_type::sql_type;

/// Returns the function, which statements cannot call.
pub(crate) fn function() -> ScalarUDF {
    plain::total(Parts {
        names: &["sql_types"],
        section: DOC_SECTION_OTHER,
        description: "Returns the name that SQL has for a type of Arrow.",
        syntax: "sql_types(text)",
        takes: |_| Ok(vec![DataType::Utf8]),
        returns: |_| DataType::Utf8,
        computes: written,
    })
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
