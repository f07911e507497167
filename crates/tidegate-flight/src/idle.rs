//! Gives memory back to the system once nothing runs.
//!
//! The allocator keeps what statements free, for the next ones. A server that has been quiet for a moment
//! has it give that back; `docs/decisions/0009-allocator.md` says why it is not done earlier.

use std::time::Duration;

use tidegate::Session;

use crate::sessions::Sessions;

/// How often it is looked.
const STEP: Duration = Duration::from_millis(500);

/// Looks in a row that find nothing running.
const QUIET_STEPS: u32 = 4;

/// Gives memory back after each burst of statements, for ever.
pub(crate) async fn release_memory(session: &Session, sessions: &Sessions) {
    let mut released_after = None;
    let mut last_seen = None;
    let mut quiet = 0;
    loop {
        tokio::time::sleep(STEP).await;
        let last = session.last_report().map(|report| report.id);
        if sessions.num_running() > 0 || last != last_seen {
            last_seen = last;
            quiet = 0;
            continue;
        }
        quiet += 1;
        if quiet < QUIET_STEPS || last == released_after {
            continue;
        }
        released_after = last;
        let session = session.clone();
        // It blocks for milliseconds. There is nothing to do for one that failed.
        let _ = tokio::task::spawn_blocking(move || session.release_memory()).await;
    }
}
