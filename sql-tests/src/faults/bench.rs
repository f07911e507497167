//! The table, the sessions over it, and what the host answers.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use tempfile::TempDir;
use tidegate::{Session, SessionBuilder};

use super::Failure;
use crate::format;

/// Rows of each of the two files, and of a row group, which is a morsel.
const FILE_ROWS: i64 = 6_000;
const GROUP_ROWS: usize = 2_000;

/// How long a GPU that nobody knows may take to be measured.
const MEASURED_WITHIN: Duration = Duration::from_secs(10);

/// Where the queries run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The first GPU of this machine.
    Gpu,
    /// A simulated device.
    Simulated,
}

/// A table `t` in files, the host's answers, and what opened devices have in common.
#[derive(Debug)]
pub struct Bench {
    device: Device,
    folder: TempDir,
    host: Session,
}

/// Rows as text, in order.
pub(super) type Answer = Arc<Vec<Vec<String>>>;

impl Bench {
    /// Writes the table and opens the device once, to know that it is there.
    ///
    /// # Errors
    /// No GPU; a folder that cannot be written.
    pub async fn new(device: Device) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        for name in ["table", "kernels", "rates"] {
            fs::create_dir(folder.path().join(name))?;
        }
        for file in 0..2 {
            let path = folder.path().join(format!("table/{file}.parquet"));
            write(&path, rows(file * FILE_ROWS, (file + 1) * FILE_ROWS)?)?;
        }
        let bench = Self {
            device,
            host: no_gpu().build()?,
            folder,
        };
        bench.register(&bench.host).await?;
        bench.measure().await?;
        Ok(bench)
    }

    pub(super) fn is_simulated(&self) -> bool {
        self.device == Device::Simulated
    }

    /// Opens the device anew, for a session with these settings.
    pub(super) async fn open(&self, settings: &[&str]) -> Result<Session, Failure> {
        let builder = match self.device {
            Device::Simulated => no_gpu().simulate_device("1GB".parse()?),
            Device::Gpu => Session::builder()
                .visible_devices(Some("0".to_owned()))
                .kernel_folder(Some(self.folder.path().join("kernels")))
                .rates_folder(Some(self.folder.path().join("rates"))),
        };
        let session = builder.target_partitions(4).build()?;
        if session.runtime().devices().is_empty() {
            return Err(session.runtime().why_no_device().into());
        }
        // Nothing comes to the device by itself, so that what it does is the query's.
        session.collect("SET tidegate.cache = 'manual'").await?;
        for setting in settings {
            session.collect(&format!("SET tidegate.{setting}")).await?;
        }
        self.register(&session).await?;
        Ok(session)
    }

    /// Returns what the host answers.
    pub(super) async fn expected(&self, sql: &str) -> Result<Answer, Failure> {
        answer(&self.host, sql).await
    }

    async fn register(&self, session: &Session) -> Result<(), Failure> {
        let table = self.folder.path().join("table");
        session
            .register_parquet("t", &table.to_string_lossy())
            .await?;
        Ok(())
    }

    /// Has a GPU measured, which happens at its first use and beside it: later sessions read what was
    /// found, so that their queries have the device alone.
    async fn measure(&self) -> Result<(), Failure> {
        let session = self.open(&["placement = 'device'"]).await?;
        answer(&session, "SELECT sum(v) FROM t").await?;
        if self.is_simulated() {
            return Ok(());
        }
        let rates = self.folder.path().join("rates");
        let measured = async {
            while fs::read_dir(&rates).is_ok_and(|mut files| files.next().is_none()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        // One that cannot be measured goes on as it is declared.
        let _ = tokio::time::timeout(MEASURED_WITHIN, measured).await;
        Ok(())
    }
}

/// Runs a query; its rows in the order of their text.
pub(super) async fn answer(session: &Session, sql: &str) -> Result<Answer, Failure> {
    let batches = session.collect(sql).await?;
    let mut rows = format::rows(&batches)?;
    rows.sort();
    Ok(Arc::new(rows))
}

fn no_gpu() -> SessionBuilder {
    Session::builder()
        .visible_devices(Some(String::new()))
        .target_partitions(4)
}

/// Makes rows: a key of seven values with NULLs, the row's number, and a string.
fn rows(start: i64, end: i64) -> Result<RecordBatch, Failure> {
    let keys = (start..end).map(|row| (row % 11 != 0).then_some(row % 7));
    let strings = (start..end).map(|row| format!("s{}", row % 3));
    let columns: [(&str, ArrayRef); 3] = [
        ("k", Arc::new(keys.collect::<Int64Array>())),
        ("v", Arc::new(Int64Array::from_iter_values(start..end))),
        ("s", Arc::new(StringArray::from_iter_values(strings))),
    ];
    let columns = columns.map(|(name, column)| (name, column, true));
    Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
}

fn write(path: &Path, batch: RecordBatch) -> Result<(), Failure> {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok(())
}
