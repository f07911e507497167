//! `map_partitions` with a device's stream: batches become buffers on a device, work of the user makes
//! others of them, and these come back as batches.
//!
//! Columns are of types whose values have one width of whole bytes. A batch runs on the device with the
//! most memory free, once there is room for its columns and for what the work may take besides, and in its
//! turn: the device's time is shared with other queries. A
//! device that is lost before the work began is left for another one; one that is lost meanwhile fails
//! the batch, for the work may be to blame, and would be again.

use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, RecordBatch, RecordBatchOptions, make_array,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::arrow::util::bit_util::ceil;
use parking_lot::Mutex;
use tidegate_device::{Cost, DeviceError, DeviceId, Reservation, panic_text};
use tidegate_kernels::{DeviceMemory, DeviceStream, PipelineDevice, StreamKernel, UnderWay};
use tidegate_scheduler::admission::turns::TURNS_OUT;
use tidegate_scheduler::admission::{QueryId, Turn};
use tidegate_scheduler::{Dispatch, Evict};

use crate::error::{Error, ErrorKind};
use crate::runtime::Runtime;

/// How long a batch waits for device memory that others hold.
const MEMORY_WAIT: Duration = Duration::from_secs(30);

/// How often it looks.
const MEMORY_LOOK: Duration = Duration::from_millis(2);

/// Why work of a user failed.
pub type DeviceWorkError = Box<dyn StdError + Send + Sync>;

/// A column in a device's memory.
#[derive(Debug)]
pub struct DeviceColumn {
    /// Its values one after another, little-endian, as Arrow lays them out.
    pub values: DeviceMemory,
    /// A bit for each row, the lowest first, that is set where there is a value; `None` if all rows have
    /// one.
    pub validity: Option<DeviceMemory>,
}

/// Rows in a device's memory.
#[derive(Debug)]
pub struct DeviceBatch {
    /// How many.
    pub num_rows: usize,
    /// The columns, in the order of the schema.
    pub columns: Vec<DeviceColumn>,
}

type Body =
    dyn Fn(&DeviceStream<'_>, DeviceBatch) -> Result<DeviceBatch, DeviceWorkError> + Send + Sync;

/// What a batch is taken to keep a device busy for until one was seen, in seconds.
const FIRST_SECONDS: f64 = 1e-3;

/// One run of a mapping among the queries that share devices; it leaves them once this is dropped.
#[derive(Debug, Default)]
pub(crate) struct DeviceShare {
    of: Option<(Arc<Dispatch>, QueryId)>,
    devices: Vec<DeviceId>,
    /// What the last batch kept a device busy for.
    seconds: Mutex<Option<f64>>,
}

impl Drop for DeviceShare {
    fn drop(&mut self) {
        let Some((dispatch, query)) = &self.of else {
            return;
        };
        for device in &self.devices {
            dispatch.turns(*device).leave(*query);
        }
    }
}

impl DeviceShare {
    /// Waits for a turn on a device.
    async fn turn(&self, device: DeviceId) -> Option<Turn> {
        let (dispatch, query) = self.of.as_ref()?;
        let seconds = self.seconds.lock().unwrap_or(FIRST_SECONDS);
        Some(
            dispatch
                .turns(device)
                .take(*query, TURNS_OUT, seconds)
                .await,
        )
    }
}

/// Work of a user with a device's stream.
pub(crate) struct DeviceBody {
    runtime: Arc<Runtime>,
    kernels: Vec<StreamKernel>,
    body: Arc<Body>,
}

impl DeviceBody {
    /// Checks the types of what goes in and what is declared to come out.
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        (input, output): (&Schema, &Schema),
        kernels: Vec<StreamKernel>,
        body: impl Fn(&DeviceStream<'_>, DeviceBatch) -> Result<DeviceBatch, DeviceWorkError>
        + Send
        + Sync
        + 'static,
    ) -> Result<Self, Error> {
        for field in input.fields().iter().chain(output.fields()) {
            if width(field.data_type()).is_none() {
                let message = format!(
                    "map_partitions_on_device: column '{}' of type {} has no values of one width in \
                     bytes; leave it out, or cast it to a number, date or timestamp",
                    field.name(),
                    field.data_type()
                );
                return Err(Error::new(ErrorKind::NotSupported, message));
            }
        }
        let body = Arc::new(body);
        Ok(Self {
            runtime,
            kernels,
            body,
        })
    }

    /// Makes what a run of the mapping has of the devices.
    pub(crate) fn share(&self) -> DeviceShare {
        let dispatch = Arc::clone(self.runtime.dispatch());
        let query = dispatch.new_query();
        let devices = self.runtime.devices().iter();
        DeviceShare {
            of: Some((dispatch, query)),
            devices: devices.map(|device| device.info().id).collect(),
            seconds: Mutex::default(),
        }
    }

    /// Maps a batch; the work may take so many bytes besides its columns.
    pub(crate) async fn map(
        &self,
        name: &str,
        batch: &RecordBatch,
        schema: &SchemaRef,
        more_bytes: u64,
        share: &DeviceShare,
    ) -> Result<RecordBatch, Error> {
        let input = HostRows::of(batch);
        let bytes = input.bytes().saturating_add(more_bytes);
        let mut lost = None;
        loop {
            let devices = self.runtime.devices().iter();
            let live = devices.filter(|device| !device.is_lost());
            let Some(device) = live.max_by_key(|device| device.budget().free()) else {
                let why = match lost {
                    Some(error) => format!("{error}"),
                    None => self.runtime.why_no_device().to_string(),
                };
                let message = format!("map_partitions_on_device({name}): {why}");
                return Err(Error::new(ErrorKind::Device, message));
            };
            let of = Task {
                name,
                input: &input,
                schema,
                bytes,
            };
            match self.map_on(device, of, share).await {
                Err(Failure::Device {
                    error,
                    began: false,
                }) if error.is_lost() => {
                    lost = Some(error);
                }
                Err(Failure::Device { error, .. }) => return Err(explained(name, error)),
                Err(Failure::Work(message)) => {
                    let message = format!("map_partitions_on_device({name}): {message}");
                    return Err(Error::new(ErrorKind::Sql, message));
                }
                Ok(batch) => return Ok(batch),
            }
        }
    }

    async fn map_on(
        &self,
        device: &Arc<dyn PipelineDevice>,
        Task {
            name,
            input,
            schema,
            bytes,
        }: Task<'_>,
        share: &DeviceShare,
    ) -> Result<RecordBatch, Failure> {
        let memory = self.reserve(device, bytes).await?;
        let turn = share.turn(device.info().id).await;
        let cost = Cost {
            copy_bytes: input.bytes(),
            rows: input.num_rows as u64,
        };
        let outcome: Arc<Mutex<Option<Result<HostRows, Failure>>>> = Arc::default();
        let began: Arc<Mutex<Option<Instant>>> = Arc::default();
        let (told, begins) = (Arc::clone(&outcome), Arc::clone(&began));
        let (input, types, body) = (input.clone(), Arc::clone(schema), Arc::clone(&self.body));
        let work = Box::new(move |stream: &DeviceStream<'_>| {
            *begins.lock() = Some(Instant::now());
            let run = || run(stream, &input, &types, body.as_ref());
            let done = catch_unwind(AssertUnwindSafe(run));
            *told.lock() = Some(done.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))));
        });
        let UnderWay { done, waiting } =
            device.with_stream(cost, memory, self.kernels.clone(), work);
        let ends = Arc::clone(&began);
        // A task of its own, so that the turn ends with the work and not when it is looked at.
        let worked = tokio::spawn(async move {
            let Some(mut turn) = turn else {
                return (done.await, 0.0);
            };
            let done = turn.work(done, waiting).await;
            let seconds = ends
                .lock()
                .map_or(0.0, |began| began.elapsed().as_secs_f64());
            turn.took(seconds);
            (done, seconds)
        });
        let (worked, seconds) = worked
            .await
            .map_err(|_| Failure::Work("the work was not run".into()))?;
        *share.seconds.lock() = Some(seconds);
        worked.map_err(|error| Failure::Device {
            error,
            began: began.lock().is_some(),
        })?;
        let done = outcome.lock().take();
        let rows = done.unwrap_or_else(|| Err(Failure::Work("the work was not run".into())))?;
        let batch = rows.into_batch(schema);
        batch.map_err(|why| Failure::Work(format!("{name} gave {why}")))
    }

    /// Waits, within bounds, for memory that others hold; what came to the device by itself makes room.
    async fn reserve(
        &self,
        device: &Arc<dyn PipelineDevice>,
        bytes: u64,
    ) -> Result<Reservation, DeviceError> {
        let began = Instant::now();
        loop {
            let shortage = match device.reserve(bytes) {
                Err(error @ DeviceError::OutOfMemory { .. }) if !error.is_impossible() => error,
                other => return other,
            };
            let lacking = match &shortage {
                DeviceError::OutOfMemory { wanted, free, .. } => wanted.saturating_sub(*free),
                _ => 0,
            };
            if self.runtime.cache().evict(device.info().id, lacking.max(1)) > 0 {
                continue;
            }
            if began.elapsed() >= MEMORY_WAIT {
                return Err(shortage);
            }
            tokio::time::sleep(MEMORY_LOOK).await;
        }
    }
}

/// A batch to be mapped.
struct Task<'a> {
    /// What the work is called.
    name: &'a str,
    input: &'a HostRows,
    schema: &'a SchemaRef,
    /// What it may take of the device's memory.
    bytes: u64,
}

/// Why a batch was not mapped.
enum Failure {
    Device {
        error: DeviceError,
        /// The work had begun.
        began: bool,
    },
    /// The work is at fault.
    Work(String),
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::Device {
            error,
            began: false,
        }
    }
}

impl Failure {
    fn meanwhile(error: DeviceError) -> Self {
        Self::Device { error, began: true }
    }
}

fn explained(name: &str, error: DeviceError) -> Error {
    let kind = match &error {
        DeviceError::OutOfMemory { .. } => ErrorKind::ResourcesExhausted,
        _ => ErrorKind::Device,
    };
    let message = format!("map_partitions_on_device({name}): {error}");
    Error::with_source(kind, message, error)
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic_text(panic);
    Failure::Work(format!("the work panicked: {text}"))
}

/// Runs the work on the device's thread, between the copies there and back.
fn run(
    stream: &DeviceStream<'_>,
    input: &HostRows,
    schema: &Schema,
    body: &Body,
) -> Result<HostRows, Failure> {
    let column = |column: &HostColumn| {
        let validity = column.validity.as_ref();
        Ok::<_, DeviceError>(DeviceColumn {
            values: stream.upload(&column.values)?,
            validity: validity.map(|bits| stream.upload(bits)).transpose()?,
        })
    };
    let columns = input.columns.iter().map(column);
    let batch = DeviceBatch {
        num_rows: input.num_rows,
        columns: columns
            .collect::<Result<_, _>>()
            .map_err(Failure::meanwhile)?,
    };
    let given = body(stream, batch).map_err(|error| match error.downcast::<DeviceError>() {
        Ok(error) => Failure::meanwhile(*error),
        Err(error) => Failure::Work(error.to_string()),
    })?;
    let (num_columns, declared) = (given.columns.len(), schema.fields().len());
    if num_columns != declared {
        let why = format!("the work gave {num_columns} columns, and {declared} were declared");
        return Err(Failure::Work(why));
    }
    let mut columns = Vec::with_capacity(declared);
    for (column, field) in given.columns.iter().zip(schema.fields()) {
        let fetch = |memory: &DeviceMemory, what: &str, wanted: Option<usize>| match wanted {
            Some(wanted) if wanted as u64 <= memory.bytes() => {
                stream.download(memory, wanted).map_err(Failure::meanwhile)
            }
            _ => Err(Failure::Work(format!(
                "column '{}' has {} bytes of {what}, too few for {} rows",
                field.name(),
                memory.bytes(),
                given.num_rows
            ))),
        };
        let width = width(field.data_type()).unwrap_or(0);
        let validity = column.validity.as_ref();
        let bits = Some(ceil(given.num_rows, 8));
        columns.push(HostColumn {
            values: fetch(&column.values, "values", given.num_rows.checked_mul(width))?.into(),
            validity: validity
                .map(|validity| fetch(validity, "validity", bits))
                .transpose()?
                .map(Buffer::from),
        });
    }
    Ok(HostRows {
        num_rows: given.num_rows,
        columns,
    })
}

/// Columns as bytes.
#[derive(Clone)]
struct HostRows {
    num_rows: usize,
    columns: Vec<HostColumn>,
}

#[derive(Clone)]
struct HostColumn {
    values: Buffer,
    validity: Option<Buffer>,
}

impl HostRows {
    fn of(batch: &RecordBatch) -> Self {
        let column = |array: &ArrayRef| {
            let data = array.to_data();
            let width = width(data.data_type()).unwrap_or(0);
            let values = data.buffers().first();
            let values = values
                .map(|values| values.slice_with_length(data.offset() * width, data.len() * width));
            let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0);
            HostColumn {
                values: values.unwrap_or_default(),
                validity: nulls.map(|nulls| nulls.inner().sliced()),
            }
        };
        Self {
            num_rows: batch.num_rows(),
            columns: batch.columns().iter().map(column).collect(),
        }
    }

    fn bytes(&self) -> u64 {
        let of = |column: &HostColumn| {
            let validity = column.validity.as_ref().map_or(0, Buffer::len);
            (column.values.len() + validity) as u64
        };
        self.columns.iter().map(of).sum()
    }

    /// Makes arrays of the bytes; says what is wrong with them if that cannot be done.
    fn into_batch(self, schema: &SchemaRef) -> Result<RecordBatch, String> {
        let fields = schema.fields().iter();
        let arrays = self.columns.into_iter().zip(fields).map(|(column, field)| {
            let data = ArrayData::builder(field.data_type().clone())
                .len(self.num_rows)
                .add_buffer(column.values)
                .null_bit_buffer(column.validity)
                .align_buffers(true)
                .build();
            data.map(make_array)
        });
        let arrays: Result<Vec<ArrayRef>, _> = arrays.collect();
        let arrays = arrays.map_err(|error| error.to_string())?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.num_rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
            .map_err(|error| error.to_string())
    }
}

/// Returns the bytes of a value, if all have as many.
fn width(data_type: &DataType) -> Option<usize> {
    data_type.primitive_width()
}

#[cfg(test)]
mod tests;
