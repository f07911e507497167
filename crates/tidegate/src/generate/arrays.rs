//! Arrays by position, such as `random_normal([500000, 500000], 10, 1)`: a column for each index,
//! called i, j, k, l, m, n, o and p, and the values, called x.
//!
//! A morsel is a chunk of the array, cut further where it has very many values; nothing is stored, and
//! a value is a function of its position and the seed. Comparisons of an index with a literal, and of
//! what an index leaves when it is divided, narrow the source to the indices that they let through.

mod functions;
mod named;
mod narrow;

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use tidegate_kernels::generated::column_of;
use tidegate_kernels::program::{GeneratedColumn, value_type};
use tidegate_kernels::random::{Array, Part, Span, ValueKind};

use super::MORSEL_ROWS;
use super::described::values_described;
use crate::sources::{
    ArrayDescription, ArrayParts, Batches, MorselSize, MorselSource, SourceDescription,
};

pub(super) use functions::functions;
pub(crate) use named::NamedArguments;

/// What the indices of the dimensions are called.
pub(crate) const INDEX_NAMES: [&str; Array::DIMENSIONS_MAX] =
    ["i", "j", "k", "l", "m", "n", "o", "p"];

/// The most morsels of an array, about; larger arrays have larger morsels.
const MORSELS_MAX: u64 = 8_192;
/// The most chunks of an array.
const CHUNKS_MAX: u64 = 10_000_000;

/// An array as a table, or the part of it that filters have left.
#[derive(Clone, Debug)]
pub struct ArraySource {
    name: String,
    array: Array,
    /// The chunks' length in each dimension.
    chunks: Vec<u64>,
    /// Which indices of each dimension there are.
    spans: Vec<Span>,
    /// Everything is generated, whatever the filters are.
    generate_all: bool,
    parts: Arc<[Part]>,
    sizes: Arc<[MorselSize]>,
    schema: SchemaRef,
}

impl ArraySource {
    /// Describes the table of an array; `name` is what EXPLAIN calls it, and tells all of its values.
    /// Chunks at the far end of a dimension are smaller if its length is no multiple of theirs.
    ///
    /// # Errors
    /// A plan error if a chunk's length is missing or 0, or if there are more than ten million chunks.
    pub fn try_new(
        name: String,
        array: Array,
        chunks: Vec<u64>,
        generate_all: bool,
    ) -> Result<Self> {
        let shape = array.shape();
        if chunks.len() != shape.len() {
            return plan_err!(
                "{name}: the chunks must have the {} dimensions of the shape, got {}",
                shape.len(),
                chunks.len()
            );
        }
        if chunks.contains(&0) {
            return plan_err!("{name}: a chunk must have a length of at least 1 in each dimension");
        }
        let count = shape
            .iter()
            .zip(&chunks)
            .fold(1_u64, |count, (len, chunk)| {
                count.saturating_mul(len.div_ceil(*chunk))
            });
        if count > CHUNKS_MAX {
            return plan_err!(
                "{name}: {count} chunks are more than {CHUNKS_MAX}; make the chunks larger"
            );
        }
        let mut fields: Vec<Field> = INDEX_NAMES[..shape.len()]
            .iter()
            .map(|index| Field::new(*index, DataType::Int64, false))
            .collect();
        fields.push(Field::new("x", value_type(&array), false));
        let spans = shape.iter().map(|len| Span::all(*len)).collect();
        Ok(Self {
            name,
            array,
            chunks,
            spans,
            generate_all,
            parts: Arc::new([]),
            sizes: Arc::new([]),
            schema: Arc::new(Schema::new(fields)),
        }
        .cut())
    }

    /// Makes the source that a description is of.
    ///
    /// # Errors
    /// For a description that no source has.
    pub(super) fn of(array: Array, described: &ArrayDescription) -> Result<Self> {
        let ArrayDescription {
            name,
            chunks,
            spans,
            generate_all,
            ..
        } = described;
        let whole = Self::try_new(name.clone(), array, chunks.clone(), *generate_all)?;
        if spans.len() != whole.spans.len() {
            return plan_err!("{name}: {} spans", spans.len());
        }
        let span = |&(start, step, count): &(u64, u64, u64)| Span { start, step, count };
        let spans: Vec<Span> = spans.iter().map(span).collect();
        let fits = |(span, len): (&Span, &u64)| {
            let last = span.count.checked_sub(1);
            let last = last.map(|last| span.step.checked_mul(last)?.checked_add(span.start));
            last.is_none_or(|last| last.is_some_and(|last| last < *len))
        };
        if !spans.iter().zip(whole.array.shape()).all(fits) {
            return plan_err!("{name}: spans beyond its shape");
        }
        Ok(Self { spans, ..whole }.cut())
    }

    /// Cuts what the spans have left into morsels.
    fn cut(mut self) -> Self {
        let whole = Part {
            spans: self.spans.clone(),
        };
        let target = (whole.num_values() / MORSELS_MAX).max(MORSEL_ROWS);
        let mut parts = Vec::new();
        let mut spans = Vec::with_capacity(self.spans.len());
        self.cut_chunks(&mut spans, target, &mut parts);
        let value_bytes = match self.array.kind() {
            ValueKind::Single => 4,
            ValueKind::Double | ValueKind::Integer => 8,
        };
        let row_bytes = 8 * self.spans.len() as u64 + value_bytes;
        self.sizes = parts
            .iter()
            .map(|part| MorselSize {
                num_rows: part.num_values(),
                num_bytes: part.num_values() * row_bytes,
            })
            .collect();
        self.parts = parts.into();
        self
    }

    /// Adds the pieces of all chunks that begin with these spans.
    fn cut_chunks(&self, spans: &mut Vec<Span>, target: u64, parts: &mut Vec<Part>) {
        let dimension = spans.len();
        let Some(len) = self.array.shape().get(dimension) else {
            let part = Part {
                spans: spans.clone(),
            };
            return part.cut(target, parts);
        };
        let chunk = self.chunks[dimension];
        for number in 0..len.div_ceil(chunk) {
            let range = number * chunk..(*len).min((number + 1) * chunk);
            let span = self.spans[dimension].within(range);
            if span.count > 0 {
                spans.push(span);
                self.cut_chunks(spans, target, parts);
                spans.pop();
            }
        }
    }
}

impl MorselSource for ArraySource {
    fn name(&self) -> String {
        let whole = |(span, len): (&Span, &u64)| *span == Span::all(*len);
        if self.spans.iter().zip(self.array.shape()).all(whole) {
            return self.name.clone();
        }
        let slices: Vec<String> = self
            .spans
            .iter()
            .zip(INDEX_NAMES)
            .map(|(span, index)| match span.count {
                0 => format!("no {index}"),
                count => format!(
                    "{index} {}..={} by {}",
                    span.start,
                    span.at(count - 1),
                    span.step
                ),
            })
            .collect();
        format!("{}, {}", self.name, slices.join(", "))
    }

    fn identity(&self) -> Option<String> {
        Some(format!("{} in {} parts", self.name(), self.parts.len()))
    }

    fn description(&self) -> Option<SourceDescription> {
        let of = |span: &Span| (span.start, span.step, span.count);
        Some(SourceDescription::Array(ArrayDescription {
            name: self.name.clone(),
            shape: self.array.shape().to_vec(),
            values: values_described(self.array.values()),
            in_singles: self.array.kind() == ValueKind::Single,
            seed: self.array.seed(),
            chunks: self.chunks.clone(),
            spans: self.spans.iter().map(of).collect(),
            generate_all: self.generate_all,
        }))
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn morsels(&self) -> &[MorselSize] {
        &self.sizes
    }

    fn exact_rows(&self) -> bool {
        true
    }

    fn narrowed(&self, filter: &Expr) -> Option<Arc<dyn MorselSource>> {
        if self.generate_all {
            return None;
        }
        let mut spans = self.spans.clone();
        narrow::narrow(&mut spans, filter)?;
        let narrowed = Self {
            spans,
            ..self.clone()
        };
        Some(Arc::new(narrowed.cut()))
    }

    fn array(&self) -> Option<ArrayParts> {
        Some(ArrayParts {
            array: self.array.clone(),
            step: self.spans.last()?.step,
            parts: Arc::clone(&self.parts),
        })
    }

    fn batches(&self, index: usize, projection: &[usize], batch_size: usize) -> Result<Batches> {
        let Some(part) = self.parts.get(index).cloned() else {
            return exec_err!(
                "{} has {} morsels, no morsel {index}",
                self.name,
                self.parts.len()
            );
        };
        let array = self.array.clone();
        let schema = Arc::new(self.schema.project(projection)?);
        let generated = |column: &usize| GeneratedColumn::of(&array, *column);
        let columns: Vec<GeneratedColumn> = projection.iter().map(generated).collect();
        let (num_rows, batch_size) = (part.num_values(), batch_size.max(1) as u64);
        let starts = (0..num_rows.div_ceil(batch_size)).map(move |batch| batch * batch_size);
        Ok(Box::new(starts.map(move |from| {
            let len = batch_size.min(num_rows - from) as usize;
            let columns = columns
                .iter()
                .map(|column| column_of(&array, &part, *column, from, len))
                .collect();
            let options = RecordBatchOptions::new().with_row_count(Some(len));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
            Ok(batch)
        })))
    }
}

#[cfg(test)]
mod tests;
