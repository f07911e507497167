//! Row groups of Parquet files, folded page by page.
//!
//! A row group begins with the columns that filters read: where no entry of a dictionary passes, or no
//! block has a row that does, the others are not read at all. The first block with a row that is selected
//! has the others begun.
//!
//! A row group that the host tier has is folded as it lies there ([`super::chunks`]).
//!
//! What is declined, or not read, goes on as batches of the scan's source from the first row of its block
//! on: the engine folds those as any others, and declines again what it must.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use tidegate_kernels::host::{Entries, HostProgram, HostRun};
use tidegate_pages::{Buffers, ReadOptions, RowGroupReader};

use super::block::{Block, Stopped, Times, fold_block, is_ruled_out};
use super::chunks::ChunkRows;
use super::declines::Declines;
use super::fold::TIME_AT_ONCE;
use super::runtime_filter::{RuntimeFilter, RuntimeFilters};
use crate::leaf::parquet::pages::{PageFill, PageScan, RowGroup, Rows, Share};
use crate::options::TidegateOptions;

/// Blocks that are folded before memory is reserved, if the time allows as many.
const BLOCKS_PER_PART: usize = 16;

/// Bytes of a column that are read at once: small enough that they are decompressed out of a cache.
const WINDOW_BYTES: usize = 256 << 10;

/// Why pages are left to the source when memory is refused for them.
const NO_MEMORY: &str = "no memory for pages";

/// What one partition reads as pages, and as batches in between.
pub(super) struct Pages {
    share: Share,
    options: ReadOptions,
    buffers: Buffers,
    reader: RowGroupReader,
    /// The row group that the reader has open.
    row_group: Option<Open>,
    /// A row group of the host tier.
    chunks: Option<ChunkRows>,
    /// A row group that was read, and how long that took: the host tier keeps it.
    read: Option<(Box<PageFill>, Duration)>,
    /// What the scan's source reads instead.
    batches: Option<SendableRecordBatchStream>,
    memory: MemoryReservation,
    /// What is known of rows only now.
    filters: RuntimeFilters,
    counters: Counters,
    /// How long pages were decompressed up to the last part.
    decompressed_in: Duration,
    /// How long it has read, decoded and folded since that was asked last.
    busy: Duration,
}

struct Open {
    row_group: RowGroup,
    begun: Begun,
    /// A block that was selected before all columns were begun, and comes again.
    again: Option<usize>,
    /// The block at hand was folded.
    is_done: bool,
    /// What the host tier keeps of it.
    fill: Option<Box<PageFill>>,
    /// How long it was read and decoded.
    reading: Duration,
}

/// Which columns of a row group were begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// None yet.
    None,
    /// Those that filters read: no row was selected yet.
    Filters,
    /// All of them.
    All,
}

struct Counters {
    row_groups: Count,
    ruled_out: Count,
    filtered_rows: Count,
    bytes: Count,
    read: Time,
    decompress: Time,
    decode: Time,
    fold: Time,
}

/// What comes next.
pub(super) enum Next<'a> {
    /// The open row group is to be folded.
    RowGroup,
    /// Batches are to be read.
    Batches(&'a mut SendableRecordBatchStream),
    /// There is nothing.
    End,
}

/// How a part of a row group was folded.
pub(super) struct Folded {
    /// Rows that were folded.
    pub(super) rows: usize,
    /// Why the next block was not.
    pub(super) stopped: Option<Stopped>,
}

impl Open {
    /// Adds the block at hand to what the host tier keeps.
    fn keep(&mut self, reader: &RowGroupReader, program: &HostProgram, rows: usize) {
        let Some(fill) = &mut self.fill else {
            return;
        };
        for (place, input) in program.inputs().iter().enumerate() {
            fill.push(
                input.column,
                reader.chunk(place),
                reader.entries(place),
                rows,
            );
        }
        if !fill.charge() {
            self.fill = None;
        }
    }
}

impl Pages {
    pub(super) fn new(
        scan: &Arc<PageScan>,
        partition: usize,
        ctx: &Arc<TaskContext>,
        filters: &[Arc<RuntimeFilter>],
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        let settings = TidegateOptions::of(ctx.session_config().options());
        let options = ReadOptions {
            page_bytes_max: settings.max_page_size,
            window_bytes: WINDOW_BYTES,
        };
        let buffers = Buffers::default();
        let consumer = MemoryConsumer::new(format!("HostFoldExec[pages {partition}]"));
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        let time = |name: &'static str| MetricBuilder::new(metrics).subset_time(name, partition);
        Self {
            share: scan.partition(partition, ctx),
            reader: RowGroupReader::new(options.clone(), &buffers),
            options,
            buffers,
            row_group: None,
            chunks: None,
            read: None,
            batches: None,
            memory: consumer.register(ctx.memory_pool()),
            filters: RuntimeFilters::new(filters),
            counters: Counters {
                row_groups: count("row_groups_as_pages"),
                ruled_out: count("row_groups_ruled_out"),
                filtered_rows: count("runtime_filtered_rows"),
                bytes: count("bytes_read"),
                read: time("read_time"),
                decompress: time("decompress_time"),
                decode: time("decode_time"),
                fold: time("fold_time"),
            },
            decompressed_in: Duration::ZERO,
            busy: Duration::ZERO,
        }
    }

    /// Goes on to what is folded next; notes why rows are not read as pages. With `given_up`, the reason why
    /// the run was given up, no further row group is opened as pages.
    pub(super) async fn next(
        &mut self,
        run: &mut HostRun,
        program: &HostProgram,
        declines: &Declines,
        given_up: Option<&str>,
    ) -> Result<Next<'_>> {
        if let Some((fill, reading)) = self.read.take() {
            fill.keep(reading).await;
        }
        loop {
            if let Some(why) = given_up
                && (self.chunks.is_some() || self.row_group.is_some())
            {
                declines.not_as_pages(why);
                self.leave_rest()?;
            }
            if self.batches.is_some() || self.chunks.is_some() {
                break;
            }
            if let Some(open) = &self.row_group {
                if open.begun != Begun::None && open.again.is_none() {
                    break;
                }
                match self.begin_more(run, program).await {
                    Ok(()) => break,
                    Err(why) => {
                        declines.not_as_pages(&why);
                        self.leave_rest()?;
                        continue;
                    }
                }
            }
            match self.share.next(&self.buffers).await? {
                None => {
                    self.memory.free();
                    return Ok(Next::End);
                }
                Some(Rows::Batches(batches, why)) => {
                    declines.not_as_pages(why);
                    self.batches = Some(batches);
                }
                Some(Rows::Chunks(chunks, in_all)) => match ChunkRows::new(chunks, in_all, program)
                {
                    Ok(chunks) => self.chunks = Some(chunks),
                    Err((chunks, why)) => {
                        declines.not_as_pages(&why);
                        self.batches = Some(self.share.rest_of_tier(chunks, 0)?);
                    }
                },
                Some(Rows::Pages(row_group, fill)) => {
                    self.row_group = Some(Open {
                        row_group,
                        begun: Begun::None,
                        again: None,
                        is_done: false,
                        fill,
                        reading: Duration::ZERO,
                    });
                }
            }
        }
        Ok(match &mut self.batches {
            Some(batches) => Next::Batches(batches),
            None => Next::RowGroup,
        })
    }

    /// Says that the batches have ended.
    pub(super) fn end_batches(&mut self) {
        self.batches = None;
    }

    /// Begins the columns of the row group that filters read, or then all others.
    async fn begin_more(
        &mut self,
        run: &mut HostRun,
        program: &HostProgram,
    ) -> std::result::Result<(), String> {
        let Some(open) = &mut self.row_group else {
            return Err("no row group is open".into());
        };
        let inputs = program.inputs();
        let is_first = open.begun == Begun::None;
        if is_first {
            self.filters.begin(program, open.row_group.rows_of_file());
            let columns = inputs.iter().map(|input| input.column);
            let expected = open
                .row_group
                .expected_bytes(columns.clone(), &self.options);
            let expected = expected.max(self.reader.memory_bytes());
            self.memory
                .try_resize(expected)
                .map_err(|_| NO_MEMORY.to_string())?;
            open.row_group.open(&mut self.reader, columns)?;
            self.counters.row_groups.add(1);
        }
        let filters = |column: usize| inputs[column].filters || self.filters.reads(column);
        let filters: Vec<bool> = (0..inputs.len()).map(filters).collect();
        let only_filters = is_first && filters.contains(&true) && filters.contains(&false);
        let begun = |column: usize| !only_filters || filters[column];
        let columns = (0..inputs.len()).filter(|column| begun(*column));
        let in_scan = columns.clone().map(|column| inputs[column].column);
        open.row_group.fetch(in_scan).await?;
        self.account(Duration::ZERO);
        let began = Instant::now();
        for column in columns {
            let loaded = self.reader.load_entries(column);
            loaded.map_err(|error| error.to_string())?;
        }
        let decoded = Instant::now();
        let entries: Vec<Option<&Entries>> = (0..inputs.len())
            .map(|column| self.reader.entries(column).filter(|_| begun(column)))
            .collect();
        run.begin(&entries, self.reader.num_rows())
            .map_err(|declined| declined.to_string())?;
        self.counters.fold.add_duration(decoded.elapsed());
        if let Some(open) = &mut self.row_group {
            open.begun = match only_filters {
                true => Begun::Filters,
                false => Begun::All,
            };
            open.reading += decoded - began;
        }
        self.account(decoded - began);
        self.busy += began.elapsed();
        Ok(())
    }

    /// Folds some blocks of the row group.
    pub(super) fn fold(&mut self, run: &mut HostRun, program: &HostProgram) -> Folded {
        if self.chunks.is_some() {
            return self.fold_chunks(run, program);
        }
        let began = Instant::now();
        let mut times = Times::default();
        let (mut rows, mut stopped) = (0, None);
        self.filters.refresh();
        for _ in 0..BLOCKS_PER_PART {
            match self.fold_next(run, program, &mut times) {
                Ok(0) => break,
                Ok(folded) => rows += folded,
                Err(why) => {
                    stopped = Some(why);
                    break;
                }
            }
            if began.elapsed() > TIME_AT_ONCE {
                break;
            }
        }
        self.counters.fold.add_duration(times.fold);
        self.counters
            .filtered_rows
            .add(self.filters.take_left_out());
        self.account(times.decode);
        self.share.count(rows, 0);
        self.busy += began.elapsed();
        Folded { rows, stopped }
    }

    /// Folds some blocks of a row group of the host tier.
    fn fold_chunks(&mut self, run: &mut HostRun, program: &HostProgram) -> Folded {
        let began = Instant::now();
        let mut folded = Folded {
            rows: 0,
            stopped: None,
        };
        if let Some(chunks) = &mut self.chunks {
            let filters = &mut self.filters;
            (folded.rows, folded.stopped) = chunks.fold(run, program, filters, BLOCKS_PER_PART);
            if chunks.has_ended() {
                self.chunks = None;
                filters.end();
            }
            self.counters.filtered_rows.add(filters.take_left_out());
        }
        self.share.count_of_tier(folded.rows);
        let time = began.elapsed();
        self.counters.fold.add_duration(time);
        self.busy += time;
        folded
    }

    /// Returns whether a row group has ended whose rows raise the bound of a top-k: they should leave before the
    /// next one is chosen.
    pub(super) fn raises_bound(&self) -> bool {
        self.row_group.is_none() && self.chunks.is_none() && self.share.raises_bound()
    }

    /// Returns how long it has read, decoded and folded since the last call.
    pub(super) fn take_busy(&mut self) -> Duration {
        std::mem::take(&mut self.busy)
    }

    /// Folds the next block, or all of the row group if it is ruled out; returns how many rows, 0 if the row
    /// group has ended or needs columns first.
    fn fold_next(
        &mut self,
        run: &mut HostRun,
        program: &HostProgram,
        times: &mut Times,
    ) -> std::result::Result<usize, Stopped> {
        let Some(open) = &mut self.row_group else {
            return Ok(0);
        };
        let is_new = self.reader.block_rows() == 0;
        let is_ruled_out = is_new
            && open.begun != Begun::None
            && (is_ruled_out(run, program, &self.reader) || self.filters.rule_out(&self.reader));
        if is_ruled_out {
            self.counters.ruled_out.add(1);
            let rows = self.reader.num_rows();
            self.close();
            return Ok(rows);
        }
        let rows = match open.again.take() {
            Some(rows) => rows,
            None => self.reader.next_block(),
        };
        open.is_done = false;
        if rows == 0 {
            let read = open.fill.take().map(|fill| (fill, open.reading));
            self.read = read;
            self.close();
            return Ok(0);
        }
        let has_all = open.begun == Begun::All;
        let (reader, filters) = (&mut self.reader, &mut self.filters);
        let before = times.decode;
        match fold_block(reader, run, program, rows, has_all, filters, times)? {
            Block::Done => {
                open.is_done = true;
                open.reading += times.decode - before;
                open.keep(&self.reader, program, rows);
                Ok(rows)
            }
            Block::NeedsColumns => {
                open.again = Some(rows);
                Ok(0)
            }
        }
    }

    /// Writes down what was read and decoded since the last call, of which decoding took `time` with the
    /// reading and decompressing in it.
    fn account(&mut self, time: Duration) {
        let decompressed_in = self.reader.decompressed_in();
        let decompress = decompressed_in.saturating_sub(self.decompressed_in);
        self.decompressed_in = decompressed_in;
        let counts = self
            .row_group
            .as_ref()
            .map(|open| open.row_group.take_counts());
        let (bytes, read) = counts.unwrap_or_default();
        self.counters.bytes.add(bytes);
        self.share.count(0, bytes);
        self.counters.read.add_duration(read);
        self.counters.decompress.add_duration(decompress);
        let decode = time.saturating_sub(decompress).saturating_sub(read);
        self.counters.decode.add_duration(decode);
    }

    /// Reserves memory for what pages take now.
    ///
    /// # Errors
    /// It is refused.
    pub(super) fn reserve(&mut self) -> std::result::Result<(), &'static str> {
        let held = self
            .row_group
            .as_ref()
            .map(|open| open.row_group.held_bytes());
        let bytes = self.reader.memory_bytes() + held.unwrap_or(0);
        if bytes <= self.memory.size() {
            return Ok(());
        }
        self.memory.try_resize(bytes).map_err(|_| NO_MEMORY)
    }

    /// Leaves what is left of the row group, from the first block that was not folded on, to the scan's
    /// source.
    ///
    /// # Errors
    /// What opening the source raises.
    pub(super) fn leave_rest(&mut self) -> Result<()> {
        if let Some(chunks) = self.chunks.take() {
            let (chunks, from) = chunks.into_rest();
            self.batches = Some(self.share.rest_of_tier(chunks, from)?);
            return Ok(());
        }
        let Some(open) = self.row_group.take() else {
            return Ok(());
        };
        if open.is_done {
            self.reader.next_block();
        }
        let rows = match open.begun {
            Begun::None => open.row_group.wanted(),
            Begun::Filters | Begun::All => self.reader.rest(),
        };
        self.reader.close();
        self.filters.end();
        if !rows.is_empty() {
            self.batches = Some(self.share.rest(&open.row_group, &rows)?);
        }
        Ok(())
    }

    /// Ends the row group.
    fn close(&mut self) {
        self.account(Duration::ZERO);
        self.row_group = None;
        self.reader.close();
        self.filters.end();
    }
}
