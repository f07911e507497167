//! Values of groups in the order of their keys.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, StructArray, UInt64Array, new_empty_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{
    and, filter, interleave, is_not_null, prep_null_mask_filter, take,
};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::physical_expr::LexOrdering;
use datafusion_functions_aggregate_common::utils::ordering_fields;

/// Bytes of a row's group, and of its places while groups are sorted.
const ROW_BYTES: usize = size_of::<u32>() + size_of::<Place>() + size_of::<(usize, usize)>();

/// A row: the number of its part, and its number there.
type Place = (u32, u32);

/// Rows that came together.
struct Part {
    values: ArrayRef,
    keys: Rows,
    groups: Vec<u32>,
}

/// Values of groups, and their keys.
pub(super) struct OrderedLists {
    value_type: DataType,
    /// Columns before those of the keys.
    num_arguments: usize,
    key_fields: Fields,
    converter: RowConverter,
    without_nulls: bool,
    num_groups: usize,
    parts: Vec<Part>,
}

impl OrderedLists {
    /// Makes it for the arguments and the order of a call; `None` if the keys have no bytes that sort like them.
    pub(super) fn new(args: &AccumulatorArgs<'_>, of_text: bool) -> Result<Option<Self>> {
        let Some(ordering) = LexOrdering::new(args.order_bys.to_vec()) else {
            return Ok(None);
        };
        let types = ordering
            .iter()
            .map(|key| key.expr.data_type(args.schema))
            .collect::<Result<Vec<_>>>()?;
        let sorted = types.iter().zip(ordering.iter());
        let sorted =
            sorted.map(|(kind, key)| SortField::new_with_options(kind.clone(), key.options));
        let sorted: Vec<SortField> = sorted.collect();
        if !RowConverter::supports_fields(&sorted) {
            return Ok(None);
        }
        Ok(Some(Self {
            value_type: args.expr_fields[0].data_type().clone(),
            num_arguments: args.exprs.len(),
            key_fields: Fields::from(ordering_fields(&ordering, &types)),
            converter: RowConverter::new(sorted)?,
            // A NULL is no part of a string.
            without_nulls: of_text || args.ignore_nulls,
            num_groups: 0,
            parts: Vec::new(),
        }))
    }

    /// Adds the rows that a filter lets through.
    pub(super) fn add(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        kept: Option<&BooleanArray>,
        num_groups: usize,
    ) -> Result<()> {
        self.num_groups = self.num_groups.max(num_groups);
        let (values, keys) = self.values_and_keys(columns)?;
        let groups = groups.iter().map(|group| *group as u32);
        let Some(kept) = self.kept(values, kept)? else {
            return self.push(values, keys, groups.collect());
        };
        let groups = groups.zip(kept.values());
        let groups = groups.filter_map(|(group, kept)| kept.then_some(group));
        let groups = groups.collect();
        let values = filter(values, &kept)?;
        let keys = keys.iter().map(|key| filter(key, &kept));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        self.push(&values, &keys, groups)
    }

    fn values_and_keys<'a>(
        &self,
        columns: &'a [ArrayRef],
    ) -> Result<(&'a ArrayRef, &'a [ArrayRef])> {
        match (columns.first(), columns.get(self.num_arguments..)) {
            (Some(values), Some(keys)) if keys.len() == self.key_fields.len() => Ok((values, keys)),
            _ => internal_err!("an ordered aggregate got {} columns", columns.len()),
        }
    }

    /// Returns which rows count; `None` for all.
    fn kept(&self, values: &ArrayRef, kept: Option<&BooleanArray>) -> Result<Option<BooleanArray>> {
        let kept = kept.map(|kept| match kept.null_count() {
            0 => kept.clone(),
            _ => prep_null_mask_filter(kept),
        });
        if !self.without_nulls || values.logical_null_count() == 0 {
            return Ok(kept);
        }
        let valid = is_not_null(values)?;
        Ok(Some(match kept {
            Some(kept) => and(&kept, &valid)?,
            None => valid,
        }))
    }

    fn push(&mut self, values: &ArrayRef, keys: &[ArrayRef], groups: Vec<u32>) -> Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        self.parts.push(Part {
            values: compact(values)?,
            keys: self.converter.convert_columns(keys)?,
            groups,
        });
        Ok(())
    }

    /// Adds lists and their keys, as [`Self::state`] returns them.
    pub(super) fn merge(
        &mut self,
        state: &[ArrayRef],
        groups: &[usize],
        num_groups: usize,
    ) -> Result<()> {
        self.num_groups = self.num_groups.max(num_groups);
        let [lists, keys] = state else {
            return internal_err!(
                "the state of an ordered aggregate has {} columns",
                state.len()
            );
        };
        let (lists, keys) = (lists.as_list::<i32>(), keys.as_list::<i32>());
        let mut of_rows = Vec::with_capacity(keys.values().len());
        for (group, ends) in groups.iter().zip(keys.value_offsets().windows(2)) {
            let rows = (ends[1] - ends[0]) as usize;
            of_rows.extend(std::iter::repeat_n(*group as u32, rows));
        }
        let values = elements(lists);
        let keys = elements(keys);
        if values.len() != of_rows.len() || keys.len() != of_rows.len() {
            return internal_err!(
                "an ordered aggregate got {} values of {} keys",
                values.len(),
                keys.len()
            );
        }
        self.push(&values, keys.as_struct().columns(), of_rows)
    }

    /// Returns each row as the state of a group.
    pub(super) fn of_rows(
        &self,
        columns: &[ArrayRef],
        kept: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let (values, keys) = self.values_and_keys(columns)?;
        let rows = values.len();
        let (lengths, values, keys) = match self.kept(values, kept)? {
            None => (vec![1; rows], Arc::clone(values), keys.to_vec()),
            Some(kept) => {
                let lengths = kept.values().iter().map(usize::from).collect();
                let keys = keys.iter().map(|key| filter(key, &kept));
                let keys = keys.collect::<Result<Vec<_>, _>>()?;
                (lengths, filter(values, &kept)?, keys)
            }
        };
        let keys = self.listed_keys(&lengths, keys)?;
        let lists = self.listed_values(&lengths, values)?;
        Ok(vec![Arc::new(lists), Arc::new(keys)])
    }

    /// Returns the lists and the keys of groups.
    pub(super) fn state(&self, groups: EmitTo) -> Result<Vec<ArrayRef>> {
        let (lists, keys) = self.lists(groups, true)?;
        let mut state: Vec<ArrayRef> = vec![Arc::new(lists)];
        state.extend(keys.map(|keys| Arc::new(keys) as ArrayRef));
        Ok(state)
    }

    /// Returns the values of groups in the order of their keys, NULL for a group without any, and the keys if they
    /// are asked for.
    pub(super) fn lists(
        &self,
        groups: EmitTo,
        with_keys: bool,
    ) -> Result<(ListArray, Option<ListArray>)> {
        let num_groups = self.number(groups);
        let mut lengths = vec![0_usize; num_groups];
        let each_row = |see: &mut dyn FnMut(usize, Place)| {
            for (part_number, part) in self.parts.iter().enumerate() {
                for (row, group) in part.groups.iter().enumerate() {
                    if (*group as usize) < num_groups {
                        see(*group as usize, (part_number as u32, row as u32));
                    }
                }
            }
        };
        each_row(&mut |group, _| lengths[group] += 1);
        let mut next = Vec::with_capacity(num_groups);
        let mut total = 0;
        for length in &lengths {
            next.push(total);
            total += length;
        }
        let mut places: Vec<Place> = vec![(0, 0); total];
        each_row(&mut |group, place| {
            places[next[group]] = place;
            next[group] += 1;
        });
        let key = |(part, row): &Place| self.parts[*part as usize].keys.row(*row as usize);
        for (end, length) in next.iter().zip(&lengths) {
            // Places come in the order of rows, which equal keys keep.
            places[end - length..*end].sort_by(|a, b| key(a).cmp(&key(b)));
        }
        let keys = with_keys
            .then(|| {
                let columns = self.converter.convert_rows(places.iter().map(key))?;
                self.listed_keys(&lengths, columns)
            })
            .transpose()?;
        let places = places
            .iter()
            .map(|(part, row)| (*part as usize, *row as usize));
        let places: Vec<(usize, usize)> = places.collect();
        let values: Vec<&dyn Array> = self.parts.iter().map(|part| part.values.as_ref()).collect();
        let values = match values.is_empty() {
            true => new_empty_array(&self.value_type),
            false => interleave(&values, &places)?,
        };
        Ok((self.listed_values(&lengths, values)?, keys))
    }

    /// Drops groups; those that stay are counted from 0 on again.
    pub(super) fn forget(&mut self, groups: EmitTo) -> Result<()> {
        let num_groups = self.number(groups);
        self.num_groups -= num_groups;
        if self.num_groups == 0 {
            self.parts = Vec::new();
            return Ok(());
        }
        let parts = std::mem::take(&mut self.parts);
        for part in parts {
            let stays = |group: &u32| *group as usize >= num_groups;
            let rows: Vec<usize> = (0..part.groups.len())
                .filter(|row| stays(&part.groups[*row]))
                .collect();
            if rows.is_empty() {
                continue;
            }
            let places = UInt64Array::from_iter_values(rows.iter().map(|row| *row as u64));
            let mut keys = self.converter.empty_rows(rows.len(), 0);
            for row in &rows {
                keys.push(part.keys.row(*row));
            }
            let groups = rows.iter().map(|row| part.groups[*row] - num_groups as u32);
            let groups = groups.collect();
            self.parts.push(Part {
                values: take(&part.values, &places, None)?,
                keys,
                groups,
            });
        }
        Ok(())
    }

    fn number(&self, groups: EmitTo) -> usize {
        match groups {
            EmitTo::All => self.num_groups,
            EmitTo::First(number) => number,
        }
    }

    /// Returns the bytes that are held, and those of the lists that are made of them.
    pub(super) fn size(&self) -> usize {
        // Values and keys leave as copies.
        let of_parts = self.parts.iter().map(|part| {
            let kept = part.values.get_array_memory_size() + part.keys.size();
            2 * kept + part.groups.len() * ROW_BYTES
        });
        size_of_val(self) + of_parts.sum::<usize>()
    }

    fn listed_values(&self, lengths: &[usize], values: ArrayRef) -> Result<ListArray> {
        let nulls = NullBuffer::from_iter(lengths.iter().map(|length| *length > 0));
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        let field = Arc::new(Field::new_list_field(self.value_type.clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        Ok(ListArray::try_new(field, offsets, values, nulls)?)
    }

    fn listed_keys(&self, lengths: &[usize], keys: Vec<ArrayRef>) -> Result<ListArray> {
        let kind = DataType::Struct(self.key_fields.clone());
        let field = Arc::new(Field::new_list_field(kind, true));
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        let keys = StructArray::try_new(self.key_fields.clone(), keys, None)?;
        Ok(ListArray::try_new(field, offsets, Arc::new(keys), None)?)
    }
}

/// Returns the elements of all lists, which are beside each other: a NULL has none.
fn elements(lists: &ListArray) -> ArrayRef {
    let offsets = lists.value_offsets();
    let begin = offsets.first().map_or(0, |end| *end as usize);
    let end = offsets.last().map_or(0, |end| *end as usize);
    lists.values().slice(begin, end - begin)
}

/// Copies values that are a small part of what they keep in memory.
fn compact(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Utf8View => return Ok(Arc::new(values.as_string_view().gc())),
        DataType::BinaryView => return Ok(Arc::new(values.as_binary_view().gc())),
        _ => {}
    }
    let own = values.to_data().get_slice_memory_size()?;
    if own * 2 >= values.get_array_memory_size() {
        return Ok(Arc::clone(values));
    }
    let all = UInt64Array::from_iter_values(0..values.len() as u64);
    Ok(take(values, &all, None)?)
}
