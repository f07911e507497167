//! Threads that answer calls and compute nothing, so that a busy process is not taken for a lost one.

use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::ClusterError;

/// A runtime of its own; it ends without waiting for anybody.
#[derive(Debug)]
pub(crate) struct ServiceThreads(Option<Runtime>);

impl ServiceThreads {
    pub(crate) fn start() -> Result<Self, ClusterError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tidegate-cluster")
            .enable_all()
            .build()
            .map_err(ClusterError::Threads)?;
        Ok(Self(Some(runtime)))
    }

    /// Returns the runtime's handle; `None` when it has ended.
    pub(crate) fn handle(&self) -> Option<&Handle> {
        self.0.as_ref().map(Runtime::handle)
    }
}

impl Drop for ServiceThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
