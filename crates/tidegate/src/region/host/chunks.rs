//! A row group of the host tier, folded as it lies there.
//!
//! A chunk keeps a column batch by batch: strings of few values as codes, integers as differences from the
//! least. Neither is restored. Rows up to the next end of a column's batch are a *span*, one group of rows for
//! the run; blocks are cut out of it.

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use tidegate_kernels::host::arrow::BatchColumn;
use tidegate_kernels::host::{
    BLOCK, Chunk, Declined, Entries, HostProgram, HostRun, Raw, Selected, Values,
};
use tidegate_scheduler::cache::host::{DifferencesView, HostChunk, Segment, SegmentValues};

use super::fold::TIME_AT_ONCE;

/// Differences of a segment all of whose values are one.
static NO_DIFFERENCES: [u8; BLOCK] = [0; BLOCK];

/// A row group of the host tier.
pub(super) struct ChunkRows {
    /// The columns of the scan.
    chunks: Vec<Arc<HostChunk>>,
    num_rows: usize,
    /// The columns that the program reads.
    columns: Vec<Column>,
    /// Rows that were folded.
    num_done: usize,
    /// Rows of the span at hand that were not folded.
    span_left: usize,
}

struct Column {
    chunk: Arc<HostChunk>,
    segment: usize,
    /// Rows of the segment that were folded.
    at: usize,
    /// The dictionary of the segment, if it has one.
    entries: Option<Entries>,
    /// The segment, if it is an array.
    plain: Option<BatchColumn>,
    /// A byte for each row of a block, whether it has a value.
    validity: Vec<u8>,
}

impl ChunkRows {
    /// Begins a row group.
    ///
    /// # Errors
    /// Why it cannot be folded as it lies.
    pub(super) fn new(
        chunks: Vec<Arc<HostChunk>>,
        program: &HostProgram,
    ) -> Result<Self, (Vec<Arc<HostChunk>>, String)> {
        let column = |chunk: &Arc<HostChunk>| Column {
            chunk: Arc::clone(chunk),
            segment: 0,
            at: 0,
            entries: None,
            plain: None,
            validity: vec![0; BLOCK],
        };
        let inputs = program.inputs().iter();
        let columns = inputs.map(|input| chunks.get(input.column).map(column));
        let columns: Option<Vec<Column>> = columns.collect();
        let rows = chunks.first().map(|chunk| chunk.num_rows());
        let num_rows = rows.and_then(|rows| usize::try_from(rows).ok());
        match (columns, num_rows) {
            (Some(columns), Some(num_rows)) => Ok(Self {
                chunks,
                num_rows,
                columns,
                num_done: 0,
                span_left: 0,
            }),
            _ => Err((chunks, "a column that the host tier does not have".into())),
        }
    }

    /// Returns the columns, and how many rows were folded.
    pub(super) fn into_rest(self) -> (Vec<Arc<HostChunk>>, usize) {
        (self.chunks, self.num_done)
    }

    /// Returns whether all rows were folded.
    pub(super) fn has_ended(&self) -> bool {
        self.num_done >= self.num_rows
    }

    /// Folds blocks for a while; returns how many rows, and why the next block was declined if it was.
    pub(super) fn fold(
        &mut self,
        run: &mut HostRun,
        program: &HostProgram,
        blocks: usize,
    ) -> (usize, Option<Declined>) {
        let (began, before) = (Instant::now(), self.num_done);
        for _ in 0..blocks {
            if self.has_ended() || began.elapsed() > TIME_AT_ONCE {
                break;
            }
            if let Err(declined) = self.fold_next(run, program) {
                return (self.num_done - before, Some(declined));
            }
        }
        (self.num_done - before, None)
    }

    fn fold_next(&mut self, run: &mut HostRun, program: &HostProgram) -> Result<(), Declined> {
        if self.span_left == 0 {
            self.span_left = self.begin_span(run, program)?;
            if run.is_ruled_out() {
                self.pass(self.span_left);
                return Ok(());
            }
        }
        let rows = self.span_left.min(BLOCK);
        let columns = self.columns.iter_mut();
        let chunks = columns.map(|column| column.block(rows).map(Some));
        let chunks = chunks.collect::<Result<Vec<_>, _>>()?;
        if run.select(rows, &chunks)? != Selected::None {
            run.fold(rows, &chunks)?;
        }
        drop(chunks);
        self.pass(rows);
        Ok(())
    }

    /// Begins the rows up to the next end of a segment; returns how many.
    fn begin_span(&mut self, run: &mut HostRun, program: &HostProgram) -> Result<usize, Declined> {
        let mut rows = self.num_rows - self.num_done;
        for (column, input) in self.columns.iter_mut().zip(program.inputs()) {
            rows = rows.min(column.begin(&input.data_type)?);
        }
        let entries: Vec<Option<&Entries>> = self
            .columns
            .iter()
            .map(|column| column.entries.as_ref())
            .collect();
        run.begin(&entries, rows)?;
        Ok(rows)
    }

    fn pass(&mut self, rows: usize) {
        self.num_done += rows;
        self.span_left -= rows;
        self.columns.iter_mut().for_each(|column| column.at += rows);
    }
}

impl Column {
    fn segment(&self) -> Result<&Segment, Declined> {
        let segment = self.chunk.segments().get(self.segment);
        segment.ok_or_else(|| unsupported("a column of the host tier that ends early"))
    }

    /// Goes on to the next segment if this one has ended; returns how many rows are left of it.
    fn begin(&mut self, data_type: &DataType) -> Result<usize, Declined> {
        let is_new = self.at == 0;
        let has_ended = self.at >= self.segment()?.num_rows();
        if has_ended {
            self.segment += 1;
            self.at = 0;
        }
        if is_new || has_ended {
            let segment = self.segment()?;
            let (entries, plain) = match segment.values() {
                SegmentValues::Codes { of, .. } => {
                    let texts = of.as_string_view_opt();
                    let texts = texts.ok_or_else(|| unsupported("codes of other than strings"))?;
                    (Some(Entries::Text(texts.clone())), None)
                }
                SegmentValues::Plain(array) if array.data_type() == data_type => {
                    (None, Some(BatchColumn::new(array.as_ref())?))
                }
                SegmentValues::Plain(_) => return Err(unsupported("a column of another type")),
                SegmentValues::Narrowed { .. } => (None, None),
            };
            if entries.is_none()
                && plain
                    .as_ref()
                    .is_some_and(|plain| plain.entries().is_some())
            {
                return Err(unsupported("a dictionary in the host tier"));
            }
            (self.entries, self.plain) = (entries, plain);
        }
        Ok(self.segment()?.num_rows() - self.at)
    }

    /// Returns the next rows.
    fn block(&mut self, rows: usize) -> Result<Chunk<'_>, Declined> {
        let Self {
            chunk,
            segment,
            at,
            plain,
            validity,
            ..
        } = self;
        let at = *at;
        if let Some(plain) = plain {
            return Ok(plain.chunk(at, rows));
        }
        let Some(segment) = chunk.segments().get(*segment) else {
            return Err(unsupported("a column of the host tier that ends early"));
        };
        let validity = segment
            .nulls()
            .map(|nulls| spread(nulls, at, rows, validity));
        let range = at..at + rows;
        let values = match segment.values() {
            SegmentValues::Codes { codes, .. } => Values::Codes8(&codes[range]),
            SegmentValues::Narrowed { base, differences } => Values::Offset {
                base,
                factor: 1,
                raw: match differences {
                    DifferencesView::None => Raw::U8(&NO_DIFFERENCES[..rows]),
                    DifferencesView::One(by) => Raw::U8(&by[range]),
                    DifferencesView::Two(by) => Raw::U16(&by[range]),
                    DifferencesView::Four(by) => Raw::U32(&by[range]),
                },
            },
            SegmentValues::Plain(_) => return Err(unsupported("an array that was not begun")),
        };
        Ok(Chunk { values, validity })
    }
}

/// Writes which rows have a value as a byte for each.
fn spread<'a>(nulls: &NullBuffer, at: usize, rows: usize, to: &'a mut [u8]) -> &'a [u8] {
    let valid = nulls.inner().slice(at, rows);
    for (to, is_valid) in to.iter_mut().zip(valid.iter()) {
        *to = is_valid.into();
    }
    &to[..rows]
}

fn unsupported(what: &str) -> Declined {
    Declined::Unsupported(what.to_owned())
}
