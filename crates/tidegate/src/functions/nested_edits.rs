//! Lists, maps and structs that are made of others, as DuckDB has them: `list_select(l, places)`, `list_where(l, mask)`,
//! `map_from_entries(l)`, `map_concat(m, …)`, `struct_keys(s)`, `struct_values(s)`, and `struct_with(s, 'name', value, …)`, which
//! is `struct_insert(s, name := value)`; `struct_changed` is `struct_update`.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListArray, ListBuilder, MapArray,
    StringBuilder, StructArray, UInt64Array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{interleave, nullif, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{exec_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::scalar_doc_sections::{
    DOC_SECTION_ARRAY, DOC_SECTION_MAP, DOC_SECTION_STRUCT,
};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::plain::{self, Parts};

pub(super) fn functions() -> Vec<ScalarUDF> {
    let select = Parts {
        names: &["list_select", "array_select"],
        section: DOC_SECTION_ARRAY,
        description: "Returns the values at some places of a list, counted from 1.",
        syntax: "list_select(l, [1, 3])",
        takes: |given| list_and(given, "list_select", DataType::Int64),
        returns: first,
        computes: |given| chosen(given, selected),
    };
    let filter = Parts {
        names: &["list_where", "array_where"],
        section: DOC_SECTION_ARRAY,
        description: "Returns the values of a list at whose places another list is true.",
        syntax: "list_where(l, [true, false])",
        takes: |given| list_and(given, "list_where", DataType::Boolean),
        returns: first,
        computes: |given| chosen(given, masked),
    };
    let entries = Parts {
        names: &["map_from_entries"],
        section: DOC_SECTION_MAP,
        description: "Makes a map of a list of structs of a key and a value.",
        syntax: "map_from_entries([{'k': 'a', 'v': 1}])",
        takes: |given| match given {
            [DataType::List(entry)] if pair(entry.data_type()).is_some() => Ok(given.to_vec()),
            _ => plan_err!("map_from_entries takes a list of structs of a key and a value"),
        },
        returns: |given| match given {
            [DataType::List(entry)] => map_of(entry.data_type()).unwrap_or(DataType::Null),
            _ => DataType::Null,
        },
        computes: from_entries,
    };
    let concat = Parts {
        names: &["map_concat"],
        section: DOC_SECTION_MAP,
        description: "Returns the entries of several maps; of those of one key the last.",
        syntax: "map_concat(m, n)",
        takes: |given| {
            let map = given.iter().find(|of| matches!(of, DataType::Map(..)));
            let all = given
                .iter()
                .all(|of| matches!(of, DataType::Map(..)) || of.is_null());
            match map {
                Some(map) if all => Ok(vec![map.clone(); given.len()]),
                _ => plan_err!("map_concat takes maps"),
            }
        },
        returns: first,
        computes: concatenated,
    };
    let keys = Parts {
        names: &["struct_keys"],
        section: DOC_SECTION_STRUCT,
        description: "Returns the names of the fields of a struct.",
        syntax: "struct_keys(s)",
        takes: |given| match given {
            [DataType::Struct(_)] => Ok(given.to_vec()),
            _ => plan_err!("struct_keys takes a struct"),
        },
        returns: |_| DataType::new_list(DataType::Utf8, true),
        computes: names,
    };
    let values = Parts {
        names: &["struct_values"],
        section: DOC_SECTION_STRUCT,
        description: "Returns the values of a struct as a row, without their names.",
        syntax: "struct_values(s)",
        takes: |given| match given {
            [DataType::Struct(_)] => Ok(given.to_vec()),
            _ => plan_err!("struct_values takes a struct"),
        },
        returns: |given| match given {
            [DataType::Struct(fields)] => DataType::Struct(by_places(fields)),
            _ => DataType::Null,
        },
        computes: |given| match given {
            [rows] => {
                let (fields, columns, nulls) = rows.as_struct().clone().into_parts();
                let rows = StructArray::try_new(by_places(&fields), columns, nulls)?;
                Ok(Arc::new(rows))
            }
            _ => internal_err!("values of {} arguments", given.len()),
        },
    };
    let plain = [select, filter, entries, concat, keys, values].map(plain::function);
    let edits = [false, true].map(|replaces| ScalarUDF::from(StructWith::new(replaces)));
    plain.into_iter().chain(edits).collect()
}

/// Names fields as those of a row are.
fn by_places(fields: &Fields) -> Fields {
    let named = fields.iter().enumerate();
    let named = named.map(|(place, field)| Field::clone(field).with_name(format!("c{place}")));
    named.collect()
}

fn first(given: &[DataType]) -> DataType {
    given.first().cloned().unwrap_or(DataType::Null)
}

/// Takes a list of anything, and one of a type.
fn list_and(given: &[DataType], name: &str, of: DataType) -> Result<Vec<DataType>> {
    let list = |given: &DataType| match given {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(DataType::new_list(field.data_type().clone(), true))
        }
        DataType::Null => Some(DataType::new_list(DataType::Int64, true)),
        _ => None,
    };
    match given {
        [values, others] if list(others).is_some() => match list(values) {
            Some(values) => Ok(vec![values, DataType::new_list(of, true)]),
            None => plan_err!("{name} takes a list first"),
        },
        _ => plan_err!("{name} takes two lists"),
    }
}

/// Chooses elements, by where those of one list begin and end and by the list beside it; `None` stands for NULL.
type Choice = fn(usize, usize, &ArrayRef) -> Result<Vec<Option<u64>>>;

/// Makes a list of each list by a list beside it; NULL if either is.
fn chosen(given: &[ArrayRef], choose: Choice) -> Result<ArrayRef> {
    let [lists, others] = given else {
        return internal_err!("a choice of {} arguments", given.len());
    };
    let (lists, others) = (lists.as_list::<i32>(), others.as_list::<i32>());
    let nulls = NullBuffer::union(lists.nulls(), others.nulls());
    let mut places = Vec::new();
    let mut lengths = Vec::with_capacity(lists.len());
    for row in 0..lists.len() {
        let before = places.len();
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            let (start, length) = bounds(lists, row);
            places.extend(choose(start, length, &others.value(row))?);
        }
        lengths.push(places.len() - before);
    }
    let values = take(lists.values(), &UInt64Array::from(places), None)?;
    let field = Field::new_list_field(values.data_type().clone(), true);
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(
        field.into(),
        offsets,
        values,
        nulls,
    )?))
}

/// Returns where the values of a list begin, and how many there are.
fn bounds(lists: &ListArray, row: usize) -> (usize, usize) {
    let offsets = lists.value_offsets();
    let place = |offset: i32| usize::try_from(offset).unwrap_or_default();
    (place(offsets[row]), place(offsets[row + 1] - offsets[row]))
}

fn selected(start: usize, length: usize, wanted: &ArrayRef) -> Result<Vec<Option<u64>>> {
    let wanted: &Int64Array = wanted.as_primitive::<Int64Type>();
    if wanted.null_count() > 0 {
        return exec_err!("list_select: a place is NULL");
    }
    let place = |wanted: &i64| {
        let place = usize::try_from(*wanted).ok()?.checked_sub(1)?;
        (place < length).then_some((start + place) as u64)
    };
    Ok(wanted.values().iter().map(place).collect())
}

fn masked(start: usize, length: usize, mask: &ArrayRef) -> Result<Vec<Option<u64>>> {
    let mask: &BooleanArray = mask.as_boolean();
    if mask.null_count() > 0 {
        return exec_err!("list_where: a truth is NULL");
    }
    let places = mask.values().set_indices();
    let places = places.map(|place| (place < length).then_some((start + place) as u64));
    Ok(places.collect())
}

/// Returns the types of the fields of a struct of two.
fn pair(entry: &DataType) -> Option<(&DataType, &DataType)> {
    match entry {
        DataType::Struct(fields) => match &fields[..] {
            [key, value] => Some((key.data_type(), value.data_type())),
            _ => None,
        },
        _ => None,
    }
}

fn map_of(entry: &DataType) -> Option<DataType> {
    let (key, value) = pair(entry)?;
    let fields = vec![
        Field::new("key", key.clone(), false),
        Field::new("value", value.clone(), true),
    ];
    let entries = Field::new("entries", DataType::Struct(fields.into()), false);
    Some(DataType::Map(entries.into(), false))
}

fn from_entries(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [lists] = given else {
        return internal_err!("entries of {} arguments", given.len());
    };
    let lists = lists.as_list::<i32>();
    let Some(DataType::Map(field, _)) = map_of(&lists.value_type()) else {
        return internal_err!("entries that are no pairs");
    };
    let entries = lists.values().as_struct();
    let [keys, values] = entries.columns() else {
        return internal_err!("entries that are no pairs");
    };
    if entries.null_count() > 0 || keys.null_count() > 0 {
        return exec_err!("map_from_entries: an entry or a key is NULL");
    }
    map_array(
        &field,
        lists.offsets().clone(),
        vec![Arc::clone(keys), Arc::clone(values)],
        lists.nulls().cloned(),
    )
}

fn map_array(
    field: &FieldRef,
    offsets: OffsetBuffer<i32>,
    columns: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = field.data_type() else {
        return internal_err!("a map of {}", field.data_type());
    };
    let entries = StructArray::try_new(fields.clone(), columns, None)?;
    let map = MapArray::try_new(Arc::clone(field), offsets, entries, nulls, false)?;
    Ok(Arc::new(map))
}

fn concatenated(given: &[ArrayRef]) -> Result<ArrayRef> {
    let maps: Vec<&MapArray> = given.iter().map(|map| map.as_map()).collect();
    let Some(DataType::Map(field, _)) = given.first().map(|map| map.data_type()) else {
        return internal_err!("map_concat of no maps");
    };
    let num_rows = maps.first().map_or(0, |map| map.len());
    let Some(key_type) = maps.first().map(|map| map.keys().data_type().clone()) else {
        return internal_err!("map_concat of no maps");
    };
    let converter = RowConverter::new(vec![SortField::new(key_type)])?;
    let keys = maps
        .iter()
        .map(|map| converter.convert_columns(&[Arc::clone(map.keys())]));
    let keys = keys.collect::<std::result::Result<Vec<_>, _>>()?;
    let mut entries = Vec::new();
    let mut lengths = Vec::with_capacity(num_rows);
    let mut is_valid = Vec::with_capacity(num_rows);
    for row in 0..num_rows {
        let before = entries.len();
        let mut places = HashMap::new();
        for (map, keys) in keys.iter().enumerate() {
            if maps[map].is_null(row) {
                continue;
            }
            let offsets = maps[map].value_offsets();
            let place = |offset: i32| usize::try_from(offset).unwrap_or_default();
            for entry in place(offsets[row])..place(offsets[row + 1]) {
                match places.get(&keys.row(entry)) {
                    Some(known) => entries[*known] = (map, entry),
                    None => {
                        places.insert(keys.row(entry), entries.len());
                        entries.push((map, entry));
                    }
                }
            }
        }
        lengths.push(entries.len() - before);
        is_valid.push(maps.iter().any(|map| map.is_valid(row)));
    }
    let of = |column: fn(&MapArray) -> &ArrayRef| {
        let columns: Vec<&dyn Array> = maps.iter().map(|map| column(map).as_ref()).collect();
        interleave(&columns, &entries)
    };
    let columns = vec![of(MapArray::keys)?, of(MapArray::values)?];
    let offsets = OffsetBuffer::from_lengths(lengths);
    map_array(field, offsets, columns, Some(NullBuffer::from(is_valid)))
}

fn names(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [rows] = given else {
        return internal_err!("names of {} arguments", given.len());
    };
    let rows = rows.as_struct();
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..rows.len() {
        if rows.is_valid(row) {
            for field in rows.fields() {
                lists.values().append_value(field.name());
            }
        }
        lists.append(rows.is_valid(row));
    }
    Ok(Arc::new(lists.finish()))
}

/// Adds fields to a struct, or puts them in the place of those with their names: the names are constants, each before its
/// value.
#[derive(Debug)]
struct StructWith {
    replaces: bool,
    signature: Signature,
}

// There is one function of a name.
impl PartialEq for StructWith {
    fn eq(&self, other: &Self) -> bool {
        self.replaces == other.replaces
    }
}

impl Eq for StructWith {}

impl Hash for StructWith {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl StructWith {
    fn new(replaces: bool) -> Self {
        Self {
            replaces,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }

    /// Returns what SQL calls it.
    fn written(&self) -> &'static str {
        match self.replaces {
            false => "struct_insert",
            true => "struct_update",
        }
    }

    /// Returns the fields of a struct and those that are added.
    fn all_fields(&self, of: &DataType, added: Vec<(String, DataType)>) -> Result<Fields> {
        let DataType::Struct(fields) = of else {
            return plan_err!("{} takes a struct first", self.written());
        };
        let nullable = |field: &FieldRef| Arc::new(Field::clone(field).with_nullable(true));
        let mut all: Vec<FieldRef> = fields.iter().map(nullable).collect();
        for (name, data_type) in added {
            let known = all.iter_mut().find(|field| *field.name() == name);
            let made = Field::new(&name, data_type, true).into();
            match known {
                None => all.push(made),
                Some(field) if self.replaces => *field = made,
                Some(_) => {
                    return plan_err!("struct_insert: the struct has a field {name} already");
                }
            }
        }
        Ok(all.into())
    }
}

impl ScalarUDFImpl for StructWith {
    fn name(&self) -> &str {
        match self.replaces {
            false => "struct_with",
            true => "struct_changed",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given.len() % 2 == 1 && matches!(given.first(), Some(DataType::Struct(_))) {
            true => Ok(given.to_vec()),
            false => {
                let name = self.written();
                plan_err!("{name} takes a struct and named values: {name}(s, a := 1)")
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} depends on its arguments", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(of) = args.arg_fields.first() else {
            return plan_err!("{} takes a struct first", self.written());
        };
        let mut added = Vec::new();
        for (place, field) in args.arg_fields.iter().enumerate().skip(2).step_by(2) {
            let name = args.scalar_arguments.get(place - 1).copied().flatten();
            let Some(name) = name.and_then(|name| name.try_as_str().flatten()) else {
                return plan_err!("{}: the name of a field is a constant", self.written());
            };
            added.push((name.to_string(), field.data_type().clone()));
        }
        let fields = self.all_fields(of.data_type(), added)?;
        Ok(Arc::new(Field::new(
            self.name(),
            DataType::Struct(fields),
            true,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Struct(fields) = args.return_field.data_type() else {
            return internal_err!("{} makes a struct", self.name());
        };
        let names = args.args.iter().skip(1).step_by(2).map(|name| match name {
            ColumnarValue::Scalar(name) => name.try_as_str().flatten(),
            ColumnarValue::Array(_) => None,
        });
        let names: Vec<Option<&str>> = names.collect();
        make_scalar_function(|given| with_fields(given, &names, fields), Vec::new())(&args.args)
    }
}

/// Returns the structs with the values behind them, which come with their names, in fields of these names or further ones.
fn with_fields(given: &[ArrayRef], names: &[Option<&str>], fields: &Fields) -> Result<ArrayRef> {
    let Some((of, added)) = given.split_first() else {
        return internal_err!("no struct to give fields to");
    };
    let rows = of.as_struct();
    // The fields of NULL are NULL.
    let columns = rows.columns().iter().map(|column| match rows.nulls() {
        None => Ok(Arc::clone(column)),
        Some(nulls) => {
            let is_null = BooleanArray::new(!nulls.inner(), None);
            nullif(column, &is_null)
        }
    });
    let mut columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    for (name, value) in names.iter().zip(added.iter().skip(1).step_by(2)) {
        let place = fields
            .iter()
            .position(|field| Some(field.name().as_str()) == *name);
        match place.and_then(|place| columns.get_mut(place)) {
            Some(column) => *column = Arc::clone(value),
            None => columns.push(Arc::clone(value)),
        }
    }
    let made = StructArray::try_new(fields.clone(), columns, None)?;
    Ok(Arc::new(made))
}
