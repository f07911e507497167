//! `current_setting(name)`: the value of a setting, as text.
//!
//! A setting is named as in `SET`, or by the last part of its name where only one has that: `current_setting('batch_size')`.
//! NULL of a setting that has no value, and of NULL. A setting that there is not is an error, or NULL with
//! `current_setting(name, true)`, as in PostgreSQL.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::zones::ZONE_SETTING;

/// Settings by their names in DuckDB and PostgreSQL, and their names here.
pub(crate) const OTHER_NAMES: [(&str, &str); 4] = [
    ("max_memory", "tidegate.memory_limit"),
    ("memory_limit", "tidegate.memory_limit"),
    ("threads", "datafusion.execution.target_partitions"),
    ("worker_threads", "datafusion.execution.target_partitions"),
];

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    let description = "Returns the value of a setting.";
    let syntax = "current_setting(name[, missing_ok])";
    ScalarUDF::from(CurrentSetting {
        signature: Signature::user_defined(Volatility::Stable),
        documentation: Documentation::builder(DOC_SECTION_OTHER, description, syntax).build(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CurrentSetting {
    signature: Signature,
    documentation: Documentation,
}

impl ScalarUDFImpl for CurrentSetting {
    fn name(&self) -> &str {
        "current_setting"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        match given {
            [name] if is_text(name) => Ok(vec![DataType::Utf8]),
            [name, DataType::Boolean] if is_text(name) => {
                Ok(vec![DataType::Utf8, DataType::Boolean])
            }
            _ => {
                plan_err!("current_setting takes the name of a setting: current_setting('threads')")
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let options = &args.config_options;
        make_scalar_function(|given| values(options, given), Vec::new())(&args.args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

fn values(options: &ConfigOptions, given: &[ArrayRef]) -> Result<ArrayRef> {
    let [names, rest @ ..] = given else {
        return exec_err!("current_setting takes the name of a setting");
    };
    let names = names.as_string::<i32>();
    let is_optional = |row: usize| {
        let optional = rest.first().map(|optional| optional.as_boolean());
        optional.is_some_and(|optional| optional.is_valid(row) && optional.value(row))
    };
    let entries = options.entries();
    let of = |name: &str| -> Option<Option<String>> {
        let name = name.to_lowercase();
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == name);
        let name = match other {
            Some((_, own)) => *own,
            None if name == "timezone" => ZONE_SETTING,
            None => name.as_str(),
        };
        let mut ends = entries
            .iter()
            .filter(|entry| entry.key.rsplit('.').next() == Some(name));
        let (end, further) = (ends.next(), ends.next());
        let found = entries.iter().find(|entry| entry.key == name);
        let found = found.or(end.filter(|_| further.is_none()));
        found.map(|entry| entry.value.clone())
    };
    let values = names.iter().enumerate().map(|(row, name)| {
        let Some(name) = name else {
            return Ok(None);
        };
        match of(name) {
            Some(value) => Ok(value),
            None if is_optional(row) => Ok(None),
            None => exec_err!("setting '{name}' not found: SHOW ALL lists all"),
        }
    });
    Ok(Arc::new(values.collect::<Result<StringArray>>()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, StringArray};
    use datafusion::common::config::ConfigOptions;

    use super::values;

    fn value(name: &str, is_optional: bool) -> Result<String, String> {
        let mut options = ConfigOptions::new();
        for (name, value) in [("batch_size", "77"), ("target_partitions", "3")] {
            let name = format!("datafusion.execution.{name}");
            options.set(&name, value).unwrap();
        }
        let name: ArrayRef = Arc::new(StringArray::from(vec![name]));
        let optional: ArrayRef = Arc::new(BooleanArray::from(vec![is_optional]));
        let values = values(&options, &[name, optional]).map_err(|error| error.to_string())?;
        let value = values.as_string::<i32>().iter().next().flatten();
        Ok(value.unwrap_or("NULL").to_string())
    }

    #[test]
    fn settings_are_found_by_their_names() {
        for name in ["datafusion.execution.batch_size", "BATCH_SIZE"] {
            assert_eq!(value(name, false).as_deref(), Ok("77"));
        }
        assert_eq!(value("threads", false).as_deref(), Ok("3"));
        assert_eq!(value("none", true).as_deref(), Ok("NULL"));
        assert!(value("none", false).is_err());
    }
}
