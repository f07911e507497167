//! Which processes may work together: those that mean the same by a plan.

use std::collections::BTreeSet;

use ring::digest;
use tidegate::Session;

use crate::secret::hex;

/// Grows with each change of what travels.
const WIRE: u32 = 4;

/// Describes what a process means by a plan: its version and DataFusion's, and a hash of the names of its
/// settings and functions.
pub(crate) fn version_of(session: &Session) -> String {
    let state = session.context().state();
    let settings = state.config_options().entries();
    let names: BTreeSet<String> = settings
        .into_iter()
        .map(|entry| entry.key)
        .chain(state.scalar_functions().keys().cloned())
        .chain(state.aggregate_functions().keys().cloned())
        .chain(state.window_functions().keys().cloned())
        .collect();
    let mut hash = digest::Context::new(&digest::SHA256);
    for name in names {
        hash.update(name.as_bytes());
        hash.update(b"\n");
    }
    let hash = hash.finish();
    format!(
        "{} datafusion {} wire {WIRE} {}",
        env!("CARGO_PKG_VERSION"),
        datafusion::DATAFUSION_VERSION,
        hex(&hash.as_ref()[..8])
    )
}
