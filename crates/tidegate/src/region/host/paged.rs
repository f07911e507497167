//! Row groups of Parquet files, folded page by page.
//!
//! What is declined, or not read, goes on as batches of the scan's source from the first row of its block
//! on: the engine folds those as any others, and declines again what it must.

use std::sync::Arc;
use std::time::Instant;

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use tidegate_kernels::host::{Declined, Entries, HostProgram, HostRun, Selected};
use tidegate_pages::{Buffers, ColumnError, ReadOptions, RowGroupReader};

use super::fold::Declines;
use crate::leaf::parquet::pages::{PageScan, RowGroup, Rows, Share};
use crate::options::TidegateOptions;

/// Blocks that are folded before memory is reserved and the time is looked at.
const BLOCKS_PER_PART: usize = 16;

/// What one partition reads as pages, and as batches in between.
pub(super) struct Pages {
    share: Share,
    reader: RowGroupReader,
    /// The row group that the reader has open.
    row_group: Option<RowGroup>,
    /// What the scan's source reads instead.
    batches: Option<SendableRecordBatchStream>,
    counters: Counters,
}

struct Counters {
    row_groups: Count,
    ruled_out: Count,
    read: Time,
    decode: Time,
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

/// Why a block was not folded.
enum Stop {
    /// The run declined it.
    Declined(Declined),
    /// It was not read.
    Unread(String),
}

impl From<Declined> for Stop {
    fn from(declined: Declined) -> Self {
        Self::Declined(declined)
    }
}

impl From<ColumnError> for Stop {
    fn from(error: ColumnError) -> Self {
        Self::Unread(error.to_string())
    }
}

/// How far a row group was folded.
pub(super) enum Folded {
    /// So many rows, and there are more.
    Some(usize),
    /// So many rows, which were the last.
    All(usize),
    /// So many rows; the next block was declined, and nothing was changed for it.
    Declined(usize, Declined),
    /// So many rows; the next block was not read.
    Unread(usize, String),
}

impl Pages {
    pub(super) fn new(
        scan: &Arc<PageScan>,
        partition: usize,
        ctx: &Arc<TaskContext>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        let options = TidegateOptions::of(ctx.session_config().options());
        let options = ReadOptions {
            page_bytes_max: options.max_page_size,
            ..ReadOptions::default()
        };
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        let time = |name: &'static str| MetricBuilder::new(metrics).subset_time(name, partition);
        Self {
            share: scan.partition(partition, ctx),
            reader: RowGroupReader::new(options, &Buffers::default()),
            row_group: None,
            batches: None,
            counters: Counters {
                row_groups: count("row_groups_as_pages"),
                ruled_out: count("row_groups_ruled_out"),
                read: time("read_time"),
                decode: time("decode_time"),
            },
        }
    }

    /// Goes on to what is folded next; notes why rows are not read as pages.
    pub(super) async fn next(
        &mut self,
        run: &mut HostRun,
        program: &HostProgram,
        declines: &Declines,
    ) -> Result<Next<'_>> {
        while self.row_group.is_none() && self.batches.is_none() {
            match self.share.next().await? {
                None => return Ok(Next::End),
                Some(Rows::Batches(batches, why)) => {
                    declines.not_as_pages(why);
                    self.batches = Some(batches);
                }
                Some(Rows::Pages(row_group)) => {
                    self.counters.read.add_duration(row_group.read_in);
                    self.row_group = Some(row_group);
                    if let Err(why) = self.begin(run, program) {
                        declines.not_as_pages(&why);
                        self.leave_rest()?;
                    }
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

    /// Opens the row group for a run; another run may begin again with the block at hand.
    pub(super) fn begin(
        &mut self,
        run: &mut HostRun,
        program: &HostProgram,
    ) -> std::result::Result<(), String> {
        let Some(row_group) = &self.row_group else {
            return Err("no row group is open".into());
        };
        let inputs = program.inputs();
        let columns = inputs.iter().map(|input| input.column);
        row_group.open(&mut self.reader, columns)?;
        self.counters.row_groups.add(1);
        let timer = self.counters.decode.timer();
        for column in 0..inputs.len() {
            let loaded = self.reader.load_entries(column);
            loaded.map_err(|error| error.to_string())?;
        }
        timer.done();
        begin_run(run, &self.reader, inputs.len()).map_err(|declined| declined.to_string())
    }

    /// Folds some blocks of the row group.
    pub(super) fn fold(&mut self, run: &mut HostRun, program: &HostProgram) -> Folded {
        let inputs = program.inputs();
        let has_all_codes =
            |column| self.reader.entries(column).is_none() || self.reader.is_all_codes(column);
        if run.is_ruled_out() && (0..inputs.len()).all(has_all_codes) {
            self.counters.ruled_out.add(1);
            let rows = self.reader.num_rows();
            self.share.count(rows);
            self.close();
            return Folded::All(rows);
        }
        let mut done = 0;
        for _ in 0..BLOCKS_PER_PART {
            let rows = self.reader.next_block();
            if rows == 0 {
                self.share.count(done);
                self.close();
                return Folded::All(done);
            }
            if let Err(stop) = self.fold_block(run, program, rows) {
                self.share.count(done);
                return match stop {
                    Stop::Declined(declined) => Folded::Declined(done, declined),
                    Stop::Unread(why) => Folded::Unread(done, why),
                };
            }
            done += rows;
        }
        self.share.count(done);
        Folded::Some(done)
    }

    /// Folds the block at hand: the columns of its filters are decoded first, the others if rows are left.
    fn fold_block(
        &mut self,
        run: &mut HostRun,
        program: &HostProgram,
        rows: usize,
    ) -> std::result::Result<(), Stop> {
        let inputs = program.inputs();
        let began = Instant::now();
        for (column, input) in inputs.iter().enumerate() {
            if input.filters {
                self.reader.decode(column)?;
            }
        }
        self.counters.decode.add_duration(began.elapsed());
        if run.select(rows, &self.reader.chunks())? == Selected::None {
            return Ok(());
        }
        let began = Instant::now();
        for column in 0..inputs.len() {
            self.reader.decode(column)?;
        }
        self.counters.decode.add_duration(began.elapsed());
        run.fold(rows, &self.reader.chunks())?;
        Ok(())
    }

    /// Leaves what is left of the row group, from the block at hand on, to the scan's source.
    pub(super) fn leave_rest(&mut self) -> Result<()> {
        let Some(row_group) = self.row_group.take() else {
            return Ok(());
        };
        let rows = match self.reader.num_rows() {
            0 => row_group.wanted(),
            _ => self.reader.rest(),
        };
        self.batches = Some(self.share.rest(&row_group, &rows)?);
        self.reader.close();
        Ok(())
    }

    fn close(&mut self) {
        self.row_group = None;
        self.reader.close();
    }
}

fn begin_run(
    run: &mut HostRun,
    reader: &RowGroupReader,
    num_inputs: usize,
) -> std::result::Result<(), Declined> {
    let entries: Vec<Option<&Entries>> = (0..num_inputs)
        .map(|column| reader.entries(column))
        .collect();
    run.begin(&entries, reader.num_rows())
}
