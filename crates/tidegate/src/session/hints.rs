//! Settings that a statement has by hints of its own: `SELECT /*+ placement(device) */ …`.

use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{LogicalPlan, SetVariable, Statement as PlanStatement};

use super::rights::check_rights;
use super::{Session, settings};
use crate::error::{Error, ErrorKind};
use crate::statements::Hint;
use crate::suggest::nearest;

/// The settings that make sense for one statement: those that decide where it runs.
const SETTINGS: [&str; 8] = [
    "placement",
    "regions",
    "host_engine",
    "devices",
    "device_slots",
    "replay_placement",
    "morsel_rows",
    "float_sums",
];

/// Gives the state of one statement the settings of its hints.
///
/// # Errors
/// [`ErrorKind::Sql`] for a hint or a value that there is not, [`ErrorKind::Denied`] for a setting that
/// the session's client may not change.
pub(super) fn apply(
    session: &Session,
    state: &mut SessionState,
    hints: &[Hint],
) -> Result<(), Error> {
    for hint in hints {
        let name = hint.name.to_ascii_lowercase();
        let name = name.strip_prefix("tidegate.").unwrap_or(&name);
        if !SETTINGS.contains(&name) {
            return Err(unknown(&hint.name));
        }
        let set = SetVariable {
            variable: format!("tidegate.{name}"),
            value: hint.value.clone(),
        };
        settings::check_setting(session, &set)?;
        let SetVariable { variable, value } = set.clone();
        let plan = LogicalPlan::Statement(PlanStatement::SetVariable(set));
        check_rights(state, &plan)?;
        state.config_mut().options_mut().set(&variable, &value)?;
    }
    Ok(())
}

fn unknown(name: &str) -> Error {
    let known = SETTINGS.map(str::to_owned);
    let meant = match nearest(&known, name) {
        Some(meant) => format!("did you mean {meant}(…)?"),
        None => format!("there are {}", known.join(", ")),
    };
    let message = format!("unknown hint '{name}': {meant}");
    Error::new(ErrorKind::Sql, message)
}
