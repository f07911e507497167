//! The GPUs of this machine, opened once for all sessions of a process, which share their kernels.

use std::sync::Arc;

use tidegate::{Runtime, Session, SessionBuilder};

/// The GPUs that the lanes which need one run on, or why there is none.
#[derive(Debug, Clone)]
pub struct Gpus(Result<Arc<Runtime>, NoGpu>);

/// Says why no GPU can be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{why}")]
pub struct NoGpu {
    why: String,
}

impl Gpus {
    /// Opens every GPU that the environment shows and that can be used.
    ///
    /// # Errors
    /// Fails if no session can be made; a machine without a GPU is not an error.
    pub fn open() -> Result<Self, tidegate::Error> {
        let runtime = Arc::clone(Session::builder().build()?.runtime());
        Ok(Self(match runtime.devices().is_empty() {
            false => Ok(runtime),
            true => Err(NoGpu {
                why: runtime.why_no_device().to_owned(),
            }),
        }))
    }

    /// Opens nothing: for a process whose lanes need no GPU.
    pub fn unopened() -> Self {
        Self(Err(NoGpu {
            why: "no lane of this process needs one".to_owned(),
        }))
    }

    /// Says why no GPU can be used, if that is so.
    pub fn why_none(&self) -> Option<&NoGpu> {
        self.0.as_ref().err()
    }

    /// Starts a session that shares the GPUs.
    ///
    /// # Errors
    /// Fails if there is none.
    pub(crate) fn builder(&self) -> Result<SessionBuilder, NoGpu> {
        let runtime = self.0.as_ref().map_err(NoGpu::clone)?;
        Ok(Session::builder().runtime(Arc::clone(runtime)).file_urls())
    }
}
