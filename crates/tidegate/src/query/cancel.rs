//! A way to stop a statement from elsewhere.

use std::fmt;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// Stops one statement: it ends with an error of the kind [`crate::ErrorKind::Cancelled`], wherever
/// it is. Clones stop the same statement.
#[derive(Clone, Default)]
pub struct CancelHandle {
    token: CancellationToken,
    shared: Arc<Shared>,
}

/// What all clones of a handle have.
#[derive(Default)]
struct Shared {
    trace_parent: Option<Arc<str>>,
}

impl CancelHandle {
    /// Makes a handle for a statement that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a handle for a statement that has not started and is part of a trace: `parent` is what a caller's
    /// `traceparent` says (W3C Trace Context). [`crate::LoggedQuery::trace_parent`] tells of it.
    pub fn in_trace(parent: impl Into<Arc<str>>) -> Self {
        let trace_parent = Some(parent.into());
        Self {
            token: CancellationToken::new(),
            shared: Arc::new(Shared { trace_parent }),
        }
    }

    /// Returns the trace that the statement is part of.
    pub(crate) fn trace_parent(&self) -> Option<&Arc<str>> {
        self.shared.trace_parent.as_ref()
    }

    /// Stops the statement, at once if it has not started.
    pub fn cancel(&self) {
        self.token.cancel();
    }

    /// Returns whether the statement was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns whether both stop the same statement.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Waits until the statement is cancelled.
    pub async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl fmt::Debug for CancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelHandle")
            .field("is_cancelled", &self.is_cancelled())
            .finish()
    }
}
