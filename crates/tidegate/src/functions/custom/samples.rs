//! Rows over which the two bodies of a function are compared.
//!
//! The values that go wrong first (0, −0.0, ±1, the extremes, NaN, infinities) in all combinations as
//! far as there is room, then random ones of every size, with NULLs among them. They are the same
//! each time.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use datafusion::arrow::array::{BooleanArray, Float64Array, Int64Array, UInt64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Schema};

use crate::error::{Error, ErrorKind};

const ROWS: usize = 4096;

/// One value in so many is NULL.
const ROWS_PER_NULL: u64 = 16;

/// Makes rows of these columns.
pub(super) fn random(arguments: &[(String, DataType)]) -> Result<RecordBatch, Error> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(arguments.len());
    let mut combinations = 1_usize;
    for (place, (_, data_type)) in arguments.iter().enumerate() {
        let bits = Bits(0x7469_6465_6761_7465 ^ (place as u64) << 32);
        let column = column(data_type, bits, combinations)?;
        combinations = combinations.saturating_mul(num_edges(data_type));
        columns.push(column);
    }
    batch(arguments, columns)
}

/// Makes sure that rows a user gave have these columns.
pub(super) fn checked(
    name: &str,
    arguments: &[(String, DataType)],
    rows: &RecordBatch,
) -> Result<RecordBatch, Error> {
    let types = rows.columns().iter().map(|column| column.data_type());
    if !types.eq(arguments.iter().map(|(_, data_type)| data_type)) {
        let message = format!(
            "function {name}: the rows to compare over have the columns ({}), which are not its \
             arguments",
            rows.schema()
                .fields()
                .iter()
                .map(|field| field.data_type().to_string())
                .collect::<Vec<_>>()
                .join(", ")
        );
        return Err(Error::new(ErrorKind::Sql, message));
    }
    batch(arguments, rows.columns().to_vec())
}

fn batch(arguments: &[(String, DataType)], columns: Vec<ArrayRef>) -> Result<RecordBatch, Error> {
    let fields: Vec<Field> = arguments
        .iter()
        .map(|(name, data_type)| Field::new(name, data_type.clone(), true))
        .collect();
    let rows = columns.first().map_or(ROWS, |column| column.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = Arc::new(Schema::new(fields));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| Error::with_source(ErrorKind::Internal, error.to_string(), error))
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Bits(u64);

impl Bits {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number of any magnitude.
    fn sized(&mut self) -> u64 {
        let shift = self.next() % 64;
        self.next() >> shift
    }
}

const FLOATS: [f64; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-300,
    1e300,
    f64::MAX,
    f64::MIN_POSITIVE,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
];

fn num_edges(data_type: &DataType) -> usize {
    match data_type {
        DataType::Boolean => 2,
        float if float.is_floating() => FLOATS.len(),
        _ => 6,
    }
}

/// Makes a column. Its edges change every `repeat` rows, so that those of several columns meet.
fn column(data_type: &DataType, mut bits: Bits, repeat: usize) -> Result<ArrayRef, Error> {
    let edge = |row: usize, edges: usize| {
        let place = row / repeat.max(1);
        (place < edges && row < ROWS / 2).then_some(place)
    };
    let is_null = |bits: &mut Bits| bits.next().is_multiple_of(ROWS_PER_NULL);
    let edges = num_edges(data_type);
    let edge = |row: usize| {
        edge(row % (repeat.saturating_mul(edges)).max(1), edges).filter(|_| row < ROWS / 2)
    };
    let array: ArrayRef = match data_type {
        DataType::Boolean => {
            let value = |row: usize| {
                let random = bits.next() & 1 == 1;
                (!is_null(&mut bits)).then_some(edge(row).map_or(random, |edge| edge == 1))
            };
            Arc::new((0..ROWS).map(value).collect::<BooleanArray>())
        }
        float if float.is_floating() => {
            let value = |row: usize| {
                let random = match bits.next() % 3 {
                    0 => f64::from_bits(bits.next()),
                    1 => (bits.next() as i64 as f64) / (1_u64 << 53) as f64,
                    _ => (bits.sized() as i64 % 1_000_000) as f64 / 8.0,
                };
                (!is_null(&mut bits)).then_some(edge(row).map_or(random, |edge| FLOATS[edge]))
            };
            Arc::new((0..ROWS).map(value).collect::<Float64Array>())
        }
        other => return integers(other, bits, &edge),
    };
    to_type(&array, data_type)
}

/// Makes a column of integers, or of what is counted in integers.
fn integers(
    data_type: &DataType,
    mut bits: Bits,
    edge: &dyn Fn(usize) -> Option<usize>,
) -> Result<ArrayRef, Error> {
    let width = new_empty_array(data_type)
        .data_type()
        .primitive_width()
        .unwrap_or(8);
    let unused = 64 - 8 * width.min(8) as u32;
    let is_null = |bits: &mut Bits| bits.next().is_multiple_of(ROWS_PER_NULL);
    if data_type.is_unsigned_integer() {
        let most = u64::MAX >> unused;
        let edges = [0, 1, 2, most, most - 1, most / 2];
        let value = |row: usize| {
            let random = bits.sized() & most;
            (!is_null(&mut bits)).then_some(edge(row).map_or(random, |edge| edges[edge]))
        };
        let array: ArrayRef = Arc::new((0..ROWS).map(value).collect::<UInt64Array>());
        return to_type(&array, data_type);
    }
    let (least, most) = (i64::MIN >> unused, i64::MAX >> unused);
    let edges = [0, 1, -1, least, most, 2];
    let value = |row: usize| {
        let sign = if bits.next() & 1 == 1 { -1 } else { 1 };
        let random = (bits.sized() as i64 & most).wrapping_mul(sign);
        (!is_null(&mut bits)).then_some(edge(row).map_or(random, |edge| edges[edge]))
    };
    let array: ArrayRef = Arc::new((0..ROWS).map(value).collect::<Int64Array>());
    match data_type {
        DataType::Date32 => to_type(&to_type(&array, &DataType::Int32)?, data_type),
        _ => to_type(&array, data_type),
    }
}

fn to_type(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, Error> {
    cast(array, data_type).map_err(|error| {
        let message = format!("no random values of {data_type}: {error}");
        Error::with_source(ErrorKind::Internal, message, error)
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, AsArray};
    use datafusion::arrow::datatypes::{DataType, Float64Type, Int8Type, TimeUnit};

    use super::{ROWS, random};

    #[test]
    fn edges_of_several_columns_meet() {
        let arguments = [
            ("x".into(), DataType::Float64),
            ("n".into(), DataType::Int8),
        ];
        let rows = random(&arguments).unwrap();
        assert_eq!(rows.num_rows(), ROWS);
        let (x, n) = (
            rows.column(0).as_primitive::<Float64Type>(),
            rows.column(1).as_primitive::<Int8Type>(),
        );
        let meets = |float: f64, integer: i8| {
            (0..ROWS).any(|row| {
                x.is_valid(row)
                    && n.is_valid(row)
                    && x.value(row).to_bits() == float.to_bits()
                    && n.value(row) == integer
            })
        };
        assert!(meets(-0.0, i8::MIN) && meets(f64::NAN, 0) && meets(f64::INFINITY, i8::MAX));
        assert!(x.null_count() > 0 && n.null_count() > 0);
    }

    #[test]
    fn every_type_of_a_device_body_has_values() {
        for data_type in [
            DataType::Boolean,
            DataType::UInt8,
            DataType::Int64,
            DataType::Float32,
            DataType::Date32,
            DataType::Timestamp(TimeUnit::Second, None),
        ] {
            let rows = random(&[("x".into(), data_type.clone())]).unwrap();
            assert_eq!(rows.column(0).data_type(), &data_type);
            assert!(rows.column(0).null_count() < ROWS / 4, "{data_type}");
        }
    }
}
