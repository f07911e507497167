//! What every call stands on: who may call, what callers have, and how statements run.

use std::sync::Arc;

use crate::auth::Auth;
use crate::meters::Meters;
use crate::options::Limits;
use crate::sessions::Sessions;
use crate::statement::Statements;

/// The parts of a server that answer calls.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) auth: Arc<Auth>,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) statements: Arc<Statements>,
}

impl Door {
    /// Returns how much the server does at a time.
    pub(crate) fn limits(&self) -> &Limits {
        &self.statements.limits
    }

    /// Returns what counts calls.
    pub(crate) fn meters(&self) -> &Meters {
        &self.statements.meters
    }
}
