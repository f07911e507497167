//! What frames can do here beside what DataFusion's do: be mapped by a closure, and choose where their
//! regions run.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::{Extension, LogicalPlan};

use tidegate_kernels::DeviceStream;

use crate::error::{Error, ErrorKind};
use crate::mapping::{
    Body, DeviceBatch, DeviceBody, DeviceWorkError, MapOptions, MapPartitions, Mapping,
};
use crate::session::Session;

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

    /// As [`FrameExt::map_partitions`], with a device of the session: each batch is copied there, and the
    /// closure gets the device's stream and the columns' buffers, from which it makes those of a batch of
    /// `schema`. It may take memory of the device as [`MapOptions::memory_bytes`] says, for what it makes
    /// and meanwhile. It is called once for each batch, on the device's thread, in turn with other queries;
    /// the thread does nothing else meanwhile. Kernels that it launches are named in
    /// [`MapOptions::kernels`], and compiled before.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] for columns of a type whose values have no width of whole bytes; else as
    /// [`FrameExt::map_partitions`]. Without a device the query fails.
    fn map_partitions_on_device(
        self,
        session: &Session,
        schema: SchemaRef,
        options: MapOptions,
        body: impl Fn(&DeviceStream<'_>, DeviceBatch) -> Result<DeviceBatch, DeviceWorkError>
        + Send
        + Sync
        + 'static,
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
        mapped(
            self,
            schema,
            Mapping::new(options, Body::Host(Box::new(body))),
        )
    }

    fn map_partitions_on_device(
        self,
        session: &Session,
        schema: SchemaRef,
        options: MapOptions,
        body: impl Fn(&DeviceStream<'_>, DeviceBatch) -> Result<DeviceBatch, DeviceWorkError>
        + Send
        + Sync
        + 'static,
    ) -> Result<DataFrame, Error> {
        let runtime = Arc::clone(session.runtime());
        let input = self.schema().as_arrow();
        let kernels = options.kernels.clone();
        let body = DeviceBody::new(runtime, (input, &schema), kernels, body)?;
        mapped(self, schema, Mapping::new(options, Body::Device(body)))
    }

    fn to_backend(self, backend: Backend) -> Result<DataFrame, Error> {
        let (mut state, plan) = self.into_parts();
        let options = state.config_mut().options_mut();
        options.set("tidegate.placement", &backend.to_string())?;
        Ok(DataFrame::new(state, plan))
    }
}

fn mapped(frame: DataFrame, schema: SchemaRef, mapping: Mapping) -> Result<DataFrame, Error> {
    let (state, input) = frame.into_parts();
    let node = MapPartitions::new(input, schema, mapping)?;
    let plan = LogicalPlan::Extension(Extension {
        node: Arc::new(node),
    });
    Ok(DataFrame::new(state, plan))
}
