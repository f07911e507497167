//! What a user says of a file; what is not said is found.

use arrow::datatypes::DataType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::encoding::Encoding;
use crate::temporal::{DateFormat, TimestampFormat};

/// The options of `read_csv`. `None` is "find it".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// What stands between values.
    pub delimiter: Option<u8>,
    /// What values may be enclosed in; `Some(None)` for nothing.
    #[serde(serialize_with = "write_said", deserialize_with = "read_said")]
    pub quote: Option<Option<u8>>,
    /// What makes a quote part of a quoted value; `Some(None)` for a doubled quote.
    #[serde(serialize_with = "write_said", deserialize_with = "read_said")]
    pub escape: Option<Option<u8>>,
    /// What lines begin with that are no rows; `Some(None)` for nothing.
    #[serde(serialize_with = "write_said", deserialize_with = "read_said")]
    pub comment: Option<Option<u8>>,
    /// Whether the first row has the columns' names.
    pub header: Option<bool>,
    /// Lines before the header or the first row.
    pub skip: Option<usize>,
    /// The encoding.
    pub encoding: Option<Encoding>,
    /// Words that stand for NULL in every column, and no others.
    pub null_words: Option<Vec<String>>,
    /// What stands before a number's fraction.
    pub decimal: Option<u8>,
    /// How dates are written.
    pub date_format: Option<DateFormat>,
    /// How timestamps are written.
    pub timestamp_format: Option<TimestampFormat>,
    /// All columns, by place, with their types.
    pub columns: Option<Vec<(String, DataType)>>,
    /// All columns' names, by place.
    pub names: Option<Vec<String>>,
    /// Whether names of the header become those that need no quotes in SQL.
    pub normalize_names: bool,
    /// Types of some columns, by name.
    pub types: Vec<(String, DataType)>,
    /// Types of the first columns, by place; `None` is "find it".
    pub types_by_place: Vec<Option<DataType>>,
    /// Types that columns may have which are given none, beside text; any if there are none.
    pub candidates: Vec<DataType>,
    /// Whether all columns are text that are given no type.
    pub all_text: bool,
    /// Whether short rows end with NULLs.
    pub null_padding: bool,
    /// Whether rows that contradict are left out.
    pub ignore_errors: bool,
    /// How many rows are looked at; `None` for pieces of the whole file.
    pub sample_rows: Option<usize>,
}

/// Writes a byte that may be said to be none as a list, since JSON has one null.
fn write_said<S: Serializer>(said: &Option<Option<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    let list = said.map(|byte| byte.into_iter().collect::<Vec<u8>>());
    list.serialize(serializer)
}

fn read_said<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<u8>>, D::Error> {
    let list = Option::<Vec<u8>>::deserialize(deserializer)?;
    Ok(list.map(|list| list.first().copied()))
}

#[cfg(test)]
mod tests;
