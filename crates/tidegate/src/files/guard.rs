//! A guard around the source of every scan of files.
//!
//! [`GuardedSource`] wraps any DataFusion [`FileSource`] and hands everything on. What decodes (the
//! planning of a file, its reads, its stream of batches) runs inside `catch_unwind`: a panic, or an
//! "internal error", becomes an error of the file by its name. It is put in place when all rules of
//! DataFusion's have run, since those look for sources of known types; below the host tier and the
//! gate, so that these and a device's loader read through it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::stats::Precision;
use datafusion::datasource::physical_plan::{CsvSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use datafusion_datasource_parquet::{ParquetAccessPlan, ParquetRowSelection};
use futures::future::ready;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};

use super::ipc::IpcSource;
use super::layer::{Layer, Layered, Opening};
use super::parquet::CheckedReaders;
use super::text::DeclaredSource;
use super::{blame, damaged, name_in, panic_text};
use crate::files::file_scan;

/// The rows of the row groups that a file's access plan names, carried as an extension of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedRows(pub(crate) u64);

/// A source whose decoder may panic.
pub(crate) type GuardedSource = Layered<Guard>;

/// The guard, which knows where the files are.
#[derive(Clone)]
pub(crate) struct Guard {
    url: ObjectStoreUrl,
}

/// Returns the source behind the guard, if there is one.
pub(crate) fn unguarded(source: &Arc<dyn FileSource>) -> &Arc<dyn FileSource> {
    match source.downcast_ref::<GuardedSource>() {
        Some(guarded) => &guarded.inner,
        None => source,
    }
}

/// Puts the guard in front of a source, which has its limits already.
pub(crate) fn guarded(source: Arc<dyn FileSource>, url: &ObjectStoreUrl) -> Arc<dyn FileSource> {
    if source.is::<GuardedSource>() {
        return source;
    }
    let layer = Guard { url: url.clone() };
    Arc::new(GuardedSource {
        inner: source,
        layer,
    })
}

/// Puts the guard in front of a scan of files, unless it is there; what is stored compressed may have so
/// many bytes a page or batch. `None` for any other node.
pub(crate) fn guarded_scan(
    plan: &Arc<dyn ExecutionPlan>,
    page_bytes_max: u64,
) -> Option<Arc<dyn ExecutionPlan>> {
    let config = file_scan(plan)?;
    let source = config.file_source();
    if source.is::<GuardedSource>() {
        return None;
    }
    let limited = if let Some(parquet) = source.downcast_ref::<ParquetSource>() {
        match parquet.parquet_file_reader_factory() {
            Some(readers) => {
                let readers = CheckedReaders::new(
                    Arc::clone(readers),
                    config.object_store_url.clone(),
                    page_bytes_max,
                );
                let parquet = parquet.clone();
                Arc::new(parquet.with_parquet_file_reader_factory(Arc::new(readers))) as _
            }
            None => Arc::clone(source),
        }
    } else if let Some(ipc) = source.downcast_ref::<IpcSource>() {
        Arc::new(ipc.with_batch_bytes_max(page_bytes_max)) as _
    } else if let Some(csv) = source.downcast_ref::<CsvSource>() {
        Arc::new(DeclaredSource::new(csv.clone())) as _
    } else {
        Arc::clone(source)
    };
    let mut config = config.clone();
    config.file_source = guarded(limited, &config.object_store_url);
    Some(DataSourceExec::from_data_source(config))
}

impl Layer for Guard {
    fn morselizer(&self, inner: Box<dyn Morselizer>, opening: Opening<'_>) -> Box<dyn Morselizer> {
        let is_whole = opening.source.is::<ParquetSource>()
            && opening.source.filter().is_none()
            && opening.config.limit.is_none();
        Box::new(GuardedMorselizer {
            inner,
            url: self.url.clone(),
            is_whole,
        })
    }

    fn opener(&self, inner: Arc<dyn FileOpener>) -> Arc<dyn FileOpener> {
        Arc::new(GuardedOpener {
            inner,
            url: self.url.clone(),
        })
    }
}

/// Runs a step of a decoder.
fn caught<T>(file: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(done) => done.map_err(|error| blame(file, error)),
        Err(panic) => Err(damaged(file, panic_text(&*panic)).into()),
    }
}

/// Waits for a step of a decoder.
pub(crate) async fn caught_async<T>(
    file: &str,
    step: impl Future<Output = Result<T>>,
) -> Result<T> {
    match AssertUnwindSafe(step).catch_unwind().await {
        Ok(done) => done.map_err(|error| blame(file, error)),
        Err(panic) => Err(damaged(file, panic_text(&*panic)).into()),
    }
}

/// Passes a decoder's batches on.
fn caught_stream(
    file: Arc<str>,
    batches: BoxStream<'static, Result<RecordBatch>>,
) -> BoxStream<'static, Result<RecordBatch>> {
    AssertUnwindSafe(batches)
        .catch_unwind()
        .map(move |next| match next {
            Ok(batch) => batch.map_err(|error| blame(&file, error)),
            Err(panic) => Err(damaged(&file, panic_text(&*panic)).into()),
        })
        .boxed()
}

struct GuardedOpener {
    inner: Arc<dyn FileOpener>,
    url: ObjectStoreUrl,
}

impl FileOpener for GuardedOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let name: Arc<str> = name_in(&self.url, &file.object_meta.location).into();
        let opening = caught(&name, || self.inner.open(file))?;
        Ok(async move {
            let batches = caught_async(&name, opening).await?;
            Ok(caught_stream(name, batches))
        }
        .boxed())
    }
}

/// Fails a file's stream at its end if other rows came than its footer promises: a decoder that finds
/// nothing in a column says that there are no rows.
fn counted_stream(
    file: Arc<str>,
    expected: u64,
    batches: BoxStream<'static, Result<RecordBatch>>,
) -> BoxStream<'static, Result<RecordBatch>> {
    let rows = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&rows);
    let counted = batches.inspect(move |batch| {
        if let Ok(batch) = batch {
            seen.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        }
    });
    let check = stream::once(async move {
        let rows = rows.load(Ordering::Relaxed);
        let why =
            || format!("its footer says that there are {expected} rows, and {rows} were read");
        (rows != expected).then(|| Err(damaged(&file, why()).into()))
    });
    counted.chain(check.filter_map(ready)).boxed()
}

/// Returns how many rows reading a file must give; `None` if that is not known.
fn expected_rows(file: &PartitionedFile) -> Option<u64> {
    if let Some(ExpectedRows(rows)) = file.extension::<ExpectedRows>() {
        return Some(*rows);
    }
    let is_part = file.range.is_some()
        || file.extension::<ParquetAccessPlan>().is_some()
        || file.extension::<ParquetRowSelection>().is_some();
    match file.statistics.as_ref()?.num_rows {
        Precision::Exact(rows) if !is_part => Some(rows as u64),
        _ => None,
    }
}

#[derive(Debug)]
struct GuardedMorselizer {
    inner: Box<dyn Morselizer>,
    url: ObjectStoreUrl,
    /// Whether all rows are read that a file, or its access plan, has.
    is_whole: bool,
}

impl Morselizer for GuardedMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let name: Arc<str> = name_in(&self.url, &file.object_meta.location).into();
        let expected = expected_rows(&file).filter(|_| self.is_whole);
        let inner = caught(&name, || self.inner.plan_file(file))?;
        Ok(Box::new(GuardedPlanner {
            inner,
            file: name,
            expected,
        }))
    }
}

#[derive(Debug)]
struct GuardedPlanner {
    inner: Box<dyn MorselPlanner>,
    file: Arc<str>,
    expected: Option<u64>,
}

impl MorselPlanner for GuardedPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self {
            inner,
            file,
            expected,
        } = *self;
        let Some(mut plan) = caught(&file, || inner.plan())? else {
            return Ok(None);
        };
        let (morsels, planners) = (plan.take_morsels(), plan.take_ready_planners());
        let pending = plan.take_pending_planner();
        // The rows of several streams are not added up.
        let streams = morsels.len() + planners.len() + usize::from(pending.is_some());
        let expected = expected.filter(|_| streams == 1);
        let morsel = |inner| {
            let file = Arc::clone(&file);
            Box::new(GuardedMorsel {
                inner,
                file,
                expected,
            }) as Box<dyn Morsel>
        };
        let planner = |inner| {
            let file = Arc::clone(&file);
            Box::new(Self {
                inner,
                file,
                expected,
            }) as Box<dyn MorselPlanner>
        };
        let next = MorselPlan::new()
            .with_morsels(morsels.into_iter().map(morsel).collect())
            .with_planners(planners.into_iter().map(planner).collect());
        Ok(Some(match pending {
            None => next,
            Some(pending) => next.with_pending_planner(async move {
                let inner = caught_async(&file, pending).await?;
                Ok(Box::new(Self {
                    inner,
                    file,
                    expected,
                }) as Box<dyn MorselPlanner>)
            }),
        }))
    }
}

#[derive(Debug)]
struct GuardedMorsel {
    inner: Box<dyn Morsel>,
    file: Arc<str>,
    expected: Option<u64>,
}

impl Morsel for GuardedMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let Self {
            inner,
            file,
            expected,
        } = *self;
        let batches = match catch_unwind(AssertUnwindSafe(|| inner.into_stream())) {
            Ok(batches) => caught_stream(Arc::clone(&file), batches),
            Err(panic) => {
                let error = damaged(&file, panic_text(&*panic));
                return stream::once(async move { Err(error.into()) }).boxed();
            }
        };
        match expected {
            Some(expected) => counted_stream(file, expected, batches),
            None => batches,
        }
    }
}
