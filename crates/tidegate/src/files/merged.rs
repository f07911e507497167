//! The columns of the files of one table together.
//!
//! Types that hold the values of others without loss take their place: BIGINT that of INT, a struct with the fields of
//! both that of each. Other types are put together only where the statement asks for it: then a column may become a
//! DOUBLE or text.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use crate::error::{Error, ErrorKind};
use crate::sql_type::sql_type;

/// The most digits of a decimal.
const DIGITS_MAX: i16 = 38;

/// Which types are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Union {
    /// Those that another holds without loss.
    Exact,
    /// All: as numbers or moments, if they are, and else as text.
    Any,
}

/// Returns the columns of files. What a file lacks is NULL.
///
/// # Errors
/// Names two files that have a column of one name with types that are not put together.
pub(super) fn together(files: &[(String, SchemaRef)]) -> Result<Schema, Error> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    // Each with the first file that has it, and the number of those that do.
    let mut columns: Vec<(&str, FieldRef, usize)> = Vec::new();
    for (file, schema) in files {
        for field in schema.fields() {
            let place = *places.entry(field.name()).or_insert(columns.len());
            let Some((first, known, count)) = columns.get_mut(place) else {
                columns.push((file.as_str(), Arc::clone(field), 1));
                continue;
            };
            *count += 1;
            if *known == *field {
                continue;
            }
            let Some(data_type) = common(known.data_type(), field.data_type(), Union::Exact) else {
                return Err(unlike(first, known, file, field));
            };
            let is_nullable = known.is_nullable() || field.is_nullable();
            let merged = Field::clone(known).with_data_type(data_type);
            *known = Arc::new(merged.with_nullable(is_nullable));
        }
    }
    let fields = columns.into_iter().map(|(_, field, count)| {
        match count < files.len() && !field.is_nullable() {
            true => Arc::new(field.as_ref().clone().with_nullable(true)),
            false => field,
        }
    });
    let metadata = files.first().map(|(_, schema)| schema.metadata().clone());
    let fields: Vec<FieldRef> = fields.collect();
    Ok(Schema::new_with_metadata(
        fields,
        metadata.unwrap_or_default(),
    ))
}

fn unlike(first: &str, known: &Field, file: &str, field: &Field) -> Error {
    let message = format!(
        "the column \"{}\" is {} in {first} and {} in {file}: put them together with \
         union_by_name => true, as in {}('…', union_by_name => true)",
        field.name(),
        sql_type(known.data_type()),
        sql_type(field.data_type()),
        reader_of(file).unwrap_or("read_parquet")
    );
    Error::new(ErrorKind::Sql, message)
}

/// Returns the function that reads files like one, if its ending says so.
pub(crate) fn reader_of(file: &str) -> Option<&'static str> {
    let name = file.to_ascii_lowercase();
    let packed = [".gz", ".zst", ".bz2", ".xz"];
    let name = packed
        .iter()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(&name);
    let (_, ending) = name.rsplit_once('.')?;
    match ending {
        "csv" | "tsv" | "tab" | "psv" | "txt" => Some("read_csv"),
        "json" | "ndjson" | "jsonl" => Some("read_json"),
        "arrow" | "arrows" | "ipc" | "feather" => Some("read_arrow"),
        "parquet" => Some("read_parquet"),
        _ => None,
    }
}

/// Returns a column of files whose columns have types of their own: one type that holds both.
pub(super) fn merged(left: &Field, right: &Field) -> Field {
    let data_type = common(left.data_type(), right.data_type(), Union::Any);
    let data_type = data_type.unwrap_or(DataType::Utf8);
    left.clone().with_data_type(data_type).with_nullable(true)
}

/// Returns a type that holds the values of both; `None` if there is none, or none but text.
fn common(left: &DataType, right: &DataType, union: Union) -> Option<DataType> {
    use DataType::{
        Date32, Dictionary, Float16, Float32, Float64, LargeList, List, Null, Struct, Timestamp,
    };
    if left == right {
        return Some(left.clone());
    }
    Some(match (left, right) {
        (Null, other) | (other, Null) => other.clone(),
        (Dictionary(_, values), other) | (other, Dictionary(_, values)) => {
            return common(values, other, union);
        }
        (Struct(left), Struct(right)) => Struct(fields(left, right, union)?),
        (List(left), List(right)) => List(field(left, right, union)?),
        (LargeList(left), LargeList(right)) => LargeList(field(left, right, union)?),
        (left, right) if left.is_string() && right.is_string() => DataType::Utf8,
        (left, right) if left.is_integer() && right.is_integer() => integer(left, right),
        (Float16 | Float32, Float16 | Float32) => Float32,
        (left, right) if left.is_floating() && right.is_floating() => Float64,
        (left, right) if left.is_numeric() && right.is_numeric() => {
            match (decimal(left, right), left, right) {
                (Some(decimal), ..) => decimal,
                (None, ..) if union == Union::Exact => return None,
                (None, Float32, other) | (None, other, Float32)
                    if other.primitive_width() < Some(4) =>
                {
                    Float32
                }
                _ => Float64,
            }
        }
        _ if union == Union::Exact => return None,
        (Date32, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32) => {
            Timestamp(*unit, zone.clone())
        }
        (Timestamp(left, zone), Timestamp(right, other)) if zone == other => {
            Timestamp((*left).max(*right), zone.clone())
        }
        _ => return None,
    })
}

/// Returns the fields of both structs.
fn fields(left: &Fields, right: &Fields, union: Union) -> Option<Fields> {
    let mut all: Vec<FieldRef> = Vec::with_capacity(left.len());
    for new in left.iter().chain(right.iter()) {
        match all.iter_mut().find(|known| known.name() == new.name()) {
            Some(known) => *known = field(known, new, union)?,
            None => all.push(Arc::new(new.as_ref().clone().with_nullable(true))),
        }
    }
    Some(all.into())
}

fn field(left: &FieldRef, right: &FieldRef, union: Union) -> Option<FieldRef> {
    let found = common(left.data_type(), right.data_type(), union);
    let data_type = match found {
        None if union == Union::Any => DataType::Utf8,
        found => found?,
    };
    let merged = left.as_ref().clone().with_data_type(data_type);
    Some(Arc::new(merged.with_nullable(true)))
}

/// Returns a type for the values of two types of integers.
fn integer(left: &DataType, right: &DataType) -> DataType {
    let width = |kind: &DataType| kind.primitive_width().unwrap_or(8);
    if left.is_signed_integer() == right.is_signed_integer() {
        return match width(left) < width(right) {
            true => right.clone(),
            false => left.clone(),
        };
    }
    let (signed, unsigned) = match left.is_signed_integer() {
        true => (left, right),
        false => (right, left),
    };
    match width(unsigned) {
        of_unsigned if of_unsigned < width(signed) => signed.clone(),
        1 => DataType::Int16,
        2 => DataType::Int32,
        4 => DataType::Int64,
        _ => DataType::Decimal128(20, 0),
    }
}

/// Returns a decimal for the values of two types of decimals and integers.
fn decimal(left: &DataType, right: &DataType) -> Option<DataType> {
    let ((left, left_scale), (right, right_scale)) = (digits(left)?, digits(right)?);
    let scale = left_scale.max(right_scale);
    let all = left.max(right) + i16::from(scale);
    let precision = u8::try_from(all).ok().filter(|_| all <= DIGITS_MAX)?;
    Some(DataType::Decimal128(precision, scale))
}

/// Returns how many digits stand before a number's point, and behind it.
fn digits(kind: &DataType) -> Option<(i16, i8)> {
    use DataType::{
        Decimal32, Decimal64, Decimal128, Decimal256, Int8, Int16, Int32, Int64, UInt8, UInt16,
        UInt32, UInt64,
    };
    match kind {
        Decimal32(precision, scale)
        | Decimal64(precision, scale)
        | Decimal128(precision, scale)
        | Decimal256(precision, scale)
            if *scale >= 0 =>
        {
            Some((i16::from(*precision) - i16::from(*scale), *scale))
        }
        Int8 | UInt8 => Some((3, 0)),
        Int16 | UInt16 => Some((5, 0)),
        Int32 | UInt32 => Some((10, 0)),
        Int64 => Some((19, 0)),
        UInt64 => Some((20, 0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field, Schema};

    use super::{Union, common, together};

    #[test]
    fn types_that_hold_others() {
        use DataType::{
            Decimal128, Float32, Float64, Int8, Int32, Int64, UInt8, UInt32, UInt64, Utf8,
        };
        for (left, right, exact, any) in [
            (Int32, Int64, Some(Int64), Some(Int64)),
            (UInt8, UInt32, Some(UInt32), Some(UInt32)),
            (UInt8, Int8, Some(DataType::Int16), Some(DataType::Int16)),
            (UInt8, Int32, Some(Int32), Some(Int32)),
            (
                UInt64,
                Int8,
                Some(Decimal128(20, 0)),
                Some(Decimal128(20, 0)),
            ),
            (Float32, Float64, Some(Float64), Some(Float64)),
            (
                Decimal128(5, 2),
                Int32,
                Some(Decimal128(12, 2)),
                Some(Decimal128(12, 2)),
            ),
            (
                Decimal128(38, 9),
                Int64,
                Some(Decimal128(38, 9)),
                Some(Decimal128(38, 9)),
            ),
            (Decimal128(38, 30), Int64, None, Some(Float64)),
            (Int64, Float64, None, Some(Float64)),
            (Int8, Float32, None, Some(Float32)),
            (Int64, Utf8, None, None),
        ] {
            let both = [(&left, &right), (&right, &left)];
            for (left, right) in both {
                assert_eq!(common(left, right, Union::Exact), exact, "{left} {right}");
                assert_eq!(common(left, right, Union::Any), any, "{left} {right}");
            }
        }
    }

    #[test]
    fn columns_that_a_file_lacks_may_be_null() {
        let file = |name: &str, fields: Vec<Field>| (name.into(), Arc::new(Schema::new(fields)));
        let a = |kind| Field::new("a", kind, false);
        let schema = together(&[
            file("1", vec![a(DataType::Int32)]),
            file(
                "2",
                vec![a(DataType::Int64), Field::new("b", DataType::Utf8, false)],
            ),
        ]);
        let fields = vec![a(DataType::Int64), Field::new("b", DataType::Utf8, true)];
        assert_eq!(schema.unwrap(), Schema::new(fields));
    }
}
