//! Signals that ask the process to stop what it does.

use std::future;

/// What asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The default of `kill`, and what a service manager sends.
    Terminate,
}

impl Signal {
    /// Returns the exit status by which a shell knows that the signal ended the process.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Waits for Ctrl-C.
pub(crate) async fn interrupt() -> Signal {
    if tokio::signal::ctrl_c().await.is_err() {
        // No handler could be set: the signal ends the process, as without this program's help.
        future::pending::<()>().await;
    }
    Signal::Interrupt
}

/// Waits for Ctrl-C or a request to terminate. From the first call on, such a request ends the
/// process only where something waits here.
pub(crate) async fn interrupt_or_terminate() -> Signal {
    tokio::select! {
        signal = interrupt() => signal,
        () = terminate() => Signal::Terminate,
    }
}

#[cfg(unix)]
async fn terminate() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut requests) => {
            requests.recv().await;
        }
        Err(_) => future::pending().await,
    }
}

#[cfg(not(unix))]
async fn terminate() {
    future::pending().await
}
