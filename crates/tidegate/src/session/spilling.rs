//! DataFusion's settings of memory and disk, as settings of Tidegate: DataFusion would replace the pool
//! and the folder of a session by its own.

use std::path::PathBuf;

use datafusion::dataframe::DataFrame;
use datafusion::logical_expr::SetVariable;

use super::Session;
use super::builder::SPILL_BYTES_MAX;
use crate::error::{Error, ErrorKind};
use crate::options::parse_bytes;

const MEMORY_LIMIT: &str = "datafusion.runtime.memory_limit";
const TEMP_LIMIT: &str = "datafusion.runtime.max_temp_directory_size";
const TEMP_DIR: &str = "datafusion.runtime.temp_directory";

/// Returns what RESET sets, for these settings.
pub(super) fn default_of(variable: &str) -> Option<String> {
    match variable {
        MEMORY_LIMIT => Some(String::new()),
        TEMP_LIMIT => Some(SPILL_BYTES_MAX.to_string()),
        TEMP_DIR => Some(std::env::temp_dir().display().to_string()),
        _ => None,
    }
}

/// Returns what a SET means that names DataFusion's memory limit.
pub(super) fn of_tidegate(set: SetVariable) -> Result<SetVariable, Error> {
    if set.variable != MEMORY_LIMIT {
        return Ok(set);
    }
    Ok(SetVariable {
        variable: "tidegate.memory_limit".into(),
        value: match set.value.as_str() {
            "" => String::new(),
            _ => bytes(&set)?.to_string(),
        },
    })
}

/// Sets where and how much statements of the session spill; `None` if the setting is another one.
pub(super) fn set(session: &Session, set: &SetVariable) -> Result<Option<DataFrame>, Error> {
    match set.variable.as_str() {
        TEMP_LIMIT => {
            let limit = bytes(set)?;
            session.spill.set_limit(limit);
            let disk = &session.ctx.runtime_env().disk_manager;
            disk.set_max_temp_directory_size(limit)?;
        }
        TEMP_DIR => session.spill.set_root(PathBuf::from(&set.value)),
        _ => return Ok(None),
    }
    Ok(Some(session.ctx.read_empty()?))
}

fn bytes(set: &SetVariable) -> Result<u64, Error> {
    parse_bytes(&set.value).ok_or_else(|| {
        let (name, value) = (&set.variable, &set.value);
        let message = format!("{name} is '{value}': it is a size such as 512MB or 10GB");
        Error::new(ErrorKind::Sql, message)
    })
}
