//! The threads that statements run on, apart from those that serve clients and from each other's.
//!
//! An operator may compute for seconds before it yields: a nested loop join compares a batch with every row
//! of its other side, and an aggregation over wide grouping sets computes as long before its first row. On
//! the threads of the service, as many of these as there are threads would stop the server. So each running
//! statement has an [`Executor`], a runtime that no other statement uses, and the operating system shares
//! the cores among them. Runtimes are started when they are first needed, and kept. A statement that was
//! cut may still compute until it yields; its runtime is not lent before. Beyond [`RUNTIMES_MAX`] statements
//! share the runtimes.

use std::io;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tidegate::CancelHandle;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tonic::Status;

use crate::status::defect;

/// The most runtimes: 64 cores have 512 threads in them.
const RUNTIMES_MAX: usize = 8;

/// Stack of a thread that runs statements; only pages that are touched cost memory.
pub const STATEMENT_STACK_BYTES: usize = 16 << 20;

/// The rows of a statement.
pub(crate) type Rows = BoxStream<'static, Result<RecordBatch, Status>>;

/// All runtimes of a server.
#[derive(Debug)]
pub(crate) struct Executors {
    threads: usize,
    slots: Mutex<Vec<Slot>>,
}

#[derive(Debug)]
struct Slot {
    runtime: Runtime,
    statements: usize,
}

impl Slot {
    /// Returns whether no statement has the runtime, and nothing is left of one there.
    fn is_free(&self) -> bool {
        self.statements == 0 && self.runtime.metrics().num_alive_tasks() == 0
    }
}

impl Executors {
    /// Makes runtimes of so many threads, none of which is started yet.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads: threads.max(1),
            slots: Mutex::default(),
        }
    }

    /// Lends a statement a runtime for as long as it runs.
    ///
    /// # Errors
    /// A runtime cannot be started.
    pub(crate) fn lend(self: &Arc<Self>) -> Result<Executor, Status> {
        let mut slots = self.slots.lock();
        let slot = match slots.iter().position(Slot::is_free) {
            Some(free) => free,
            None if slots.len() < RUNTIMES_MAX => {
                let runtime = self.start();
                let runtime = runtime.map_err(|error| {
                    Status::resource_exhausted(format!("no thread for the statement: {error}"))
                })?;
                slots.push(Slot {
                    runtime,
                    statements: 0,
                });
                slots.len() - 1
            }
            None => {
                let busy = slots.iter().map(|slot| slot.statements);
                busy.enumerate()
                    .min_by_key(|(_, busy)| *busy)
                    .map_or(0, |(slot, _)| slot)
            }
        };
        slots[slot].statements += 1;
        Ok(Executor {
            handle: slots[slot].runtime.handle().clone(),
            slot,
            executors: Arc::clone(self),
        })
    }

    fn start(&self) -> io::Result<Runtime> {
        Builder::new_multi_thread()
            .worker_threads(self.threads)
            .thread_name("tidegate-statement")
            .thread_stack_size(STATEMENT_STACK_BYTES)
            .enable_all()
            .build()
    }
}

impl Drop for Executors {
    fn drop(&mut self) {
        for slot in self.slots.get_mut().drain(..) {
            // The server may end on a thread that must not wait.
            slot.runtime.shutdown_background();
        }
    }
}

/// A runtime that is lent; it is given back on drop.
#[derive(Debug)]
pub(crate) struct Executor {
    handle: Handle,
    slot: usize,
    executors: Arc<Executors>,
}

impl Drop for Executor {
    fn drop(&mut self) {
        if let Some(slot) = self.executors.slots.lock().get_mut(self.slot) {
            slot.statements -= 1;
        }
    }
}

impl Executor {
    /// Runs a statement here; returns its columns when `begin` has them, and rows as they are read: at most
    /// one batch is made ahead. Dropping the future or the rows before their end cancels the statement.
    ///
    /// # Errors
    /// Those of `begin`. A panic is an internal error, of this or at the end of the rows.
    pub(crate) async fn run(
        self,
        cancel: CancelHandle,
        begin: impl Future<Output = Result<(SchemaRef, Rows), Status>> + Send + 'static,
    ) -> Result<(SchemaRef, Rows), Status> {
        let (tell, told) = oneshot::channel();
        let (sender, receiver) = mpsc::channel(1);
        let task = self.handle.spawn(async move {
            let mut rows = match begin.await {
                Ok((schema, rows)) => match tell.send(Ok(schema)) {
                    Ok(()) => rows,
                    Err(_) => return,
                },
                Err(status) => {
                    let _ = tell.send(Err(status));
                    return;
                }
            };
            while let Ok(place) = sender.reserve().await {
                match rows.next().await {
                    Some(batch) => place.send(batch),
                    None => return,
                }
            }
        });
        let running = Running {
            receiver,
            task: Some(task),
            cancel,
            _executor: self,
        };
        match told.await {
            Ok(schema) => {
                let schema = schema?;
                Ok((schema, stream::unfold(running, Running::next).boxed()))
            }
            Err(_) => match running.next().await {
                Some((Err(status), _)) => Err(status),
                _ => Err(Status::cancelled("the server is going down")),
            },
        }
    }
}

/// A statement's end on the side of the service.
struct Running {
    receiver: mpsc::Receiver<Result<RecordBatch, Status>>,
    /// `None` once it was seen to end.
    task: Option<JoinHandle<()>>,
    /// What operators look at that do not yield.
    cancel: CancelHandle,
    _executor: Executor,
}

impl Running {
    async fn next(mut self) -> Option<(Result<RecordBatch, Status>, Self)> {
        if let Some(batch) = self.receiver.recv().await {
            return Some((batch, self));
        }
        let ended = self.task.as_mut()?.await;
        self.task = None;
        // What ends by itself has sent all of its rows.
        let status = match ended {
            Ok(()) => return None,
            Err(error) if error.is_panic() => {
                defect("the statement stopped at a defect of the engine", &error)
            }
            Err(_) => Status::cancelled("the server is going down"),
        };
        Some((Err(status), self))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            self.cancel.cancel();
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
