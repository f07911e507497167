//! What frames can do here beside what DataFusion's do: be mapped by a closure, and choose where their
//! regions run.

mod map;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::{Extension, LogicalPlan};

use crate::error::{Error, ErrorKind};

pub(crate) use map::planner;
use map::{MapPartitions, Mapping};

/// Where the regions of one frame run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// On the host.
    Host,
    /// On devices as far as they can be.
    Device,
    /// On devices, or the frame fails.
    Strict,
    /// Wherever they are done first, morsel by morsel.
    Auto,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Device => "device",
            Self::Strict => "strict",
            Self::Auto => "auto",
        })
    }
}

impl FromStr for Backend {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let all = [Self::Host, Self::Device, Self::Strict, Self::Auto];
        let found = all.into_iter().find(|backend| backend.to_string() == text);
        found.ok_or_else(|| {
            let message = format!("backend '{text}': it is 'host', 'device', 'strict' or 'auto'");
            Error::new(ErrorKind::Sql, message)
        })
    }
}

/// What a mapping takes while it runs.
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    /// What plans and messages call it.
    pub name: Option<String>,
    /// Bytes that the closure may need for one batch, reserved from the memory of statements for as
    /// long as it runs.
    pub memory_bytes: u64,
    /// The most batches that are mapped at once; `None` for one in each partition.
    pub concurrency: Option<usize>,
}

/// What frames can do here beside what DataFusion's do.
pub trait FrameExt: Sized {
    /// Gives each batch to a closure, which makes of it a batch of `schema`: the partitions stay as
    /// they are, and are mapped beside each other. An error or a panic of the closure fails the query
    /// that runs the frame. Nothing is known of what the closure does with its rows, so filters are
    /// not moved below it.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] for a schema with two columns of one name.
    fn map_partitions(
        self,
        schema: SchemaRef,
        options: MapOptions,
        body: impl Fn(RecordBatch) -> Result<RecordBatch, ArrowError> + Send + Sync + 'static,
    ) -> Result<DataFrame, Error>;

    /// Runs the regions of this frame there, whatever the session's `tidegate.placement` is.
    fn to_backend(self, backend: Backend) -> Result<DataFrame, Error>;
}

impl FrameExt for DataFrame {
    fn map_partitions(
        self,
        schema: SchemaRef,
        options: MapOptions,
        body: impl Fn(RecordBatch) -> Result<RecordBatch, ArrowError> + Send + Sync + 'static,
    ) -> Result<DataFrame, Error> {
        let (state, input) = self.into_parts();
        let node = MapPartitions::new(input, schema, Mapping::new(options, body))?;
        let plan = LogicalPlan::Extension(Extension {
            node: Arc::new(node),
        });
        Ok(DataFrame::new(state, plan))
    }

    fn to_backend(self, backend: Backend) -> Result<DataFrame, Error> {
        let (mut state, plan) = self.into_parts();
        let options = state.config_mut().options_mut();
        options.set("tidegate.placement", &backend.to_string())?;
        Ok(DataFrame::new(state, plan))
    }
}
