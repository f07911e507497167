//! Signals that ask the process to stop what it does.

use std::future;
use std::io::{self, IsTerminal};
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Interval, interval};

/// How often a prompt looks whether its terminal is still there.
const TERMINAL_LOOK: Duration = Duration::from_secs(1);

/// What asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The default of `kill`, and what a service manager sends.
    Terminate,
    /// The terminal has gone.
    Hangup,
}

impl Signal {
    /// Returns the exit status by which a shell knows that the signal ended the process.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::Hangup => 129,
        }
    }
}

/// Which signals are heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Ctrl-C; a request to terminate ends the process.
    Interrupt,
    /// Ctrl-C, and that the terminal has gone.
    OfPrompt,
    /// Either, so that the process ends in good order.
    InterruptOrTerminate,
}

/// Signals that are heard from here on: one that comes between two waits is not lost.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupts: Source,
    terminations: Source,
    hangups: Source,
    /// When the terminal is looked at, if it is: one that is not the process's own sends no signal.
    looks: Option<Interval>,
}

impl Signals {
    /// Begins to hear. From now on what is heard does not end the process.
    pub(crate) fn new(heard: Heard) -> Self {
        let is_prompt = heard == Heard::OfPrompt;
        Self {
            interrupts: Source::interrupts(),
            terminations: match heard {
                Heard::InterruptOrTerminate => Source::terminations(),
                Heard::Interrupt | Heard::OfPrompt => Source::none(),
            },
            hangups: match is_prompt {
                true => Source::hangups(),
                false => Source::none(),
            },
            looks: (is_prompt && io::stdin().is_terminal()).then(|| interval(TERMINAL_LOOK)),
        }
    }

    /// Waits for a signal; one that came since the last is told at once.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            () = self.interrupts.next() => Signal::Interrupt,
            () = self.terminations.next() => Signal::Terminate,
            () = self.hangups.next() => Signal::Hangup,
            () = terminal_has_gone(&mut self.looks) => Signal::Hangup,
        }
    }

    /// Returns the signal that came since the last, if one did.
    pub(crate) fn pending(&mut self) -> Option<Signal> {
        self.next().now_or_never()
    }
}

/// Waits until the terminal has gone, for ever where none is looked at. What waits may be dropped and begun again
/// more often than the terminal is looked at.
async fn terminal_has_gone(looks: &mut Option<Interval>) {
    let Some(looks) = looks else {
        return future::pending().await;
    };
    loop {
        looks.tick().await;
        // Of a terminal that was closed at its other end nothing can be asked.
        if !io::stdin().is_terminal() {
            return;
        }
    }
}

#[cfg(unix)]
use unix::Source;

#[cfg(unix)]
mod unix {
    use std::future;

    use tokio::signal::unix::{Signal, SignalKind, signal};

    /// Signals of one kind; none where the system gives none, so that they end the process.
    #[derive(Debug)]
    pub(super) struct Source(Option<Signal>);

    impl Source {
        pub(super) fn interrupts() -> Self {
            Self(signal(SignalKind::interrupt()).ok())
        }

        pub(super) fn terminations() -> Self {
            Self(signal(SignalKind::terminate()).ok())
        }

        pub(super) fn hangups() -> Self {
            Self(signal(SignalKind::hangup()).ok())
        }

        pub(super) fn none() -> Self {
            Self(None)
        }

        pub(super) async fn next(&mut self) {
            match &mut self.0 {
                Some(signals) => {
                    signals.recv().await;
                }
                None => future::pending().await,
            }
        }
    }
}

#[cfg(not(unix))]
use elsewhere::Source;

#[cfg(not(unix))]
mod elsewhere {
    use std::future;

    /// Ctrl-C, heard while something waits for it.
    #[derive(Debug)]
    pub(super) struct Source(bool);

    impl Source {
        pub(super) fn interrupts() -> Self {
            Self(true)
        }

        pub(super) fn terminations() -> Self {
            Self(false)
        }

        pub(super) fn hangups() -> Self {
            Self(false)
        }

        pub(super) fn none() -> Self {
            Self(false)
        }

        pub(super) async fn next(&mut self) {
            if !self.0 || tokio::signal::ctrl_c().await.is_err() {
                future::pending::<()>().await;
            }
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
