//! Values of maps by their keys, as DuckDB has them: `map_extract_value(m, k)`, which `m[k]` is, is NULL of a key that is
//! not there, and `map_extract(m, k)` an empty list.
//!
//! Key and keys are compared in the type that they have in common. DataFusion's functions take a key of the very type that
//! the map has, `m[k]` a constant, and `map_extract` has a NULL for what is not there.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array, make_comparator};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{
    CastOptions, SortOptions, can_cast_types, cast_with_options, take,
};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, exec_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_MAP;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{ExprSchemable, GetFieldAccess, ScalarUDF, lit};

use super::plain::{self, Parts};
use crate::floats::canonical::canonical_array;

/// Returns the functions: the value of a key, and the list of it.
pub(super) fn functions() -> [ScalarUDF; 2] {
    let list = Parts {
        names: &["map_extract", "element_at"],
        section: DOC_SECTION_MAP,
        description: "Returns a list of the value of a key of a map, which is empty if the key is not there.",
        syntax: "map_extract(m, k)",
        takes: |given| takes("map_extract", given),
        returns: |given| DataType::new_list(of_values(given), true),
        computes: lists,
    };
    [value(), plain::function(list)]
}

fn value() -> ScalarUDF {
    plain::function(Parts {
        names: &["map_extract_value"],
        section: DOC_SECTION_MAP,
        description: "Returns the value of a key of a map, which is NULL if the key is not there.",
        syntax: "map_extract_value(m, k)",
        takes: |given| takes("map_extract_value", given),
        returns: of_values,
        computes: values,
    })
}

/// Plans subscripts of maps, before those of lists and structs are.
#[derive(Debug)]
pub(crate) struct MapSubscripts;

impl ExprPlanner for MapSubscripts {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        // What has no type yet is no map.
        let of = access.expr.get_type(schema);
        if !matches!(of, Ok(DataType::Map(..))) {
            return Ok(PlannerResult::Original(access));
        }
        let key = match &access.field_access {
            GetFieldAccess::NamedStructField { name } => lit(name.clone()),
            GetFieldAccess::ListIndex { key } => key.as_ref().clone(),
            GetFieldAccess::ListRange { .. } => return Ok(PlannerResult::Original(access)),
        };
        let call = value().call(vec![access.expr, key]);
        Ok(PlannerResult::Planned(call))
    }
}

/// Returns the types of the keys and of the values of a map.
fn entry(map: &DataType) -> Option<(&DataType, &DataType)> {
    let DataType::Map(entries, _) = map else {
        return None;
    };
    match entries.data_type() {
        DataType::Struct(fields) => match &fields[..] {
            [key, value] => Some((key.data_type(), value.data_type())),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the type in which a key is compared with those of a map; those that are text stay text.
fn in_common(key: &DataType, wanted: &DataType) -> Option<DataType> {
    match key.is_string() && can_cast_types(wanted, key) {
        true => Some(key.clone()),
        false => comparison_coercion(key, wanted),
    }
}

fn takes(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [DataType::Null, _] => Ok(given.to_vec()),
        [map, wanted] => match entry(map) {
            Some((key, _)) if in_common(key, wanted).is_some() => Ok(given.to_vec()),
            Some((key, _)) => plan_err!("{name}: the keys of the map are {key}, and not {wanted}"),
            None => plan_err!("{name} takes a map first"),
        },
        _ => plan_err!("{name} takes a map and a key"),
    }
}

fn of_values(given: &[DataType]) -> DataType {
    let values = given.first().and_then(entry);
    values.map_or(DataType::Null, |(_, value)| value.clone())
}

fn values(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [maps, wanted] = given else {
        return internal_err!("map_extract_value of {} arguments", given.len());
    };
    let Some(map) = maps.as_map_opt() else {
        return Ok(Arc::clone(maps));
    };
    let places = UInt64Array::from(places(maps, wanted)?);
    Ok(take(map.values(), &places, None)?)
}

fn lists(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [maps, wanted] = given else {
        return internal_err!("map_extract of {} arguments", given.len());
    };
    let values = match maps.as_map_opt() {
        Some(map) => Arc::clone(map.values()),
        None => Arc::clone(maps),
    };
    let places = places(maps, wanted)?;
    let lengths =
        OffsetBuffer::from_lengths(places.iter().map(|place| usize::from(place.is_some())));
    let found: Vec<u64> = places.into_iter().flatten().collect();
    let values = take(&values, &UInt64Array::from(found), None)?;
    let field = Field::new_list_field(values.data_type().clone(), true);
    let lists = ListArray::try_new(field.into(), lengths, values, maps.logical_nulls())?;
    Ok(Arc::new(lists))
}

/// Returns where among the values of all maps that of each row is.
fn places(maps: &ArrayRef, wanted: &ArrayRef) -> Result<Vec<Option<u64>>> {
    let Some(map) = maps.as_map_opt() else {
        return Ok(vec![None; maps.len()]);
    };
    let Some(common) = in_common(map.key_type(), wanted.data_type()) else {
        return exec_err!("a map has no keys of {}", wanted.data_type());
    };
    let as_common = |array: &ArrayRef| {
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        canonical_array(&cast_with_options(array, &common, &strict)?)
    };
    let (keys, wanted) = (as_common(map.keys())?, as_common(wanted)?);
    let order = make_comparator(keys.as_ref(), wanted.as_ref(), SortOptions::default())?;
    let nulls = wanted.logical_nulls();
    let place = |offset: i32| usize::try_from(offset).unwrap_or_default();
    let ends = map.value_offsets().windows(2).enumerate();
    let places = ends.map(|(row, ends)| {
        let is_null = map.is_null(row) || nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let mut entries = place(ends[0])..place(ends[1]);
        let found = entries.find(|entry| order(*entry, row).is_eq());
        found.filter(|_| !is_null).map(|entry| entry as u64)
    });
    Ok(places.collect())
}
