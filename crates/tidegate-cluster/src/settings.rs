//! The settings of a statement's session, as a header that executors set theirs from.
//!
//! `datafusion-distributed` sends settings of its own alone, and plans are decoded with the executor's:
//! every setting of a session that differs from its default travels, but for those that belong to a
//! process and its machine.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use datafusion::common::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use parking_lot::Mutex;
use tidegate::TidegateOptions;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue};

/// The header with the settings: base64 over a JSON object.
const SETTINGS: HeaderName = HeaderName::from_static("x-tidegate-settings");

/// The header with the statement's number, in its scheduler's words.
const STATEMENT: HeaderName = HeaderName::from_static("x-tidegate-statement");

/// A setting that sets several others.
const SETS_OTHERS: &str = "datafusion.optimizer.enable_dynamic_filter_pushdown";

/// Bytes of the header at the most.
const BYTES_MAX: usize = 32 << 10;

/// Settings of a process and its machine, by name or, with a star, by how they begin.
const OF_A_PROCESS: [&str; 14] = [
    "datafusion.runtime.*",
    "datafusion.catalog.*",
    "distributed.*",
    "tidegate.devices",
    "tidegate.device_memory_limit",
    "tidegate.memory_limit",
    "tidegate.max_running_queries",
    "tidegate.max_waiting_queries",
    "tidegate.queue_timeout",
    "tidegate.host_cache_limit",
    "tidegate.pinned_cache_limit",
    "tidegate.replay_placement",
    "tidegate.spread*",
    "tidegate.executors",
];

fn travels(name: &str) -> bool {
    !OF_A_PROCESS
        .iter()
        .any(|local| match local.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *local,
        })
}

/// What the settings that travel are by default.
static DEFAULTS: LazyLock<BTreeMap<String, Option<String>>> =
    LazyLock::new(|| entries(&defaults()));

fn defaults() -> ConfigOptions {
    let mut options = ConfigOptions::new();
    options.extensions.insert(TidegateOptions::default());
    options
}

fn entries(options: &ConfigOptions) -> BTreeMap<String, Option<String>> {
    let entries = options.entries().into_iter();
    let entries = entries.filter(|entry| travels(&entry.key));
    entries.map(|entry| (entry.key, entry.value)).collect()
}

/// Writes what differs from the defaults as a header.
///
/// # Errors
/// If it is longer than a header may be.
pub(crate) fn to_headers(options: &ConfigOptions) -> Result<HeaderMap> {
    let differing: BTreeMap<String, Option<String>> = entries(options)
        .into_iter()
        .filter(|(name, value)| DEFAULTS.get(name) != Some(value))
        .collect();
    let json = serde_json::to_vec(&differing).map_err(external)?;
    let text = STANDARD.encode(json);
    if text.len() > BYTES_MAX {
        let message = format!(
            "the session's settings take {} bytes, of at most {BYTES_MAX}",
            text.len()
        );
        return Err(DataFusionError::Configuration(message));
    }
    let mut headers = HeaderMap::new();
    headers.insert(SETTINGS, HeaderValue::try_from(text).map_err(external)?);
    Ok(headers)
}

/// Adds a statement's number to its headers.
///
/// # Errors
/// If it is no text for a header.
pub(crate) fn with_statement(mut headers: HeaderMap, statement: &str) -> Result<HeaderMap> {
    headers.insert(
        STATEMENT,
        HeaderValue::try_from(statement).map_err(external)?,
    );
    Ok(headers)
}

/// Reads a statement's number from a stage's headers.
pub(crate) fn statement_of(headers: &HeaderMap) -> Option<String> {
    let statement = headers.get(STATEMENT)?.to_str().ok()?;
    Some(statement.to_string())
}

/// The settings that a stage was run with last: a session sends the same ones with each of its statements.
#[derive(Debug, Default)]
pub(crate) struct LastSettings(Mutex<Option<(HeaderValue, ConfigOptions)>>);

impl LastSettings {
    /// Makes the settings of a stage, as [`from_headers`] does; `own` is always the same.
    ///
    /// # Errors
    /// Those of [`from_headers`].
    pub(crate) fn read(&self, headers: &HeaderMap, own: &ConfigOptions) -> Result<ConfigOptions> {
        let sent = headers.get(SETTINGS);
        let mut last = self.0.lock();
        if let (Some((before, options)), Some(sent)) = (&*last, sent)
            && before == sent
        {
            return Ok(options.clone());
        }
        let options = from_headers(headers, own)?;
        *last = sent.map(|sent| (sent.clone(), options.clone()));
        Ok(options)
    }
}

/// Makes the settings of a stage: those of the header, and those of this process, whose session has
/// `own`.
///
/// # Errors
/// For headers that `to_headers` did not make, and for settings that this version does not have.
fn from_headers(headers: &HeaderMap, own: &ConfigOptions) -> Result<ConfigOptions> {
    let Some(text) = headers.get(SETTINGS) else {
        let message = "a stage came without the settings of its session";
        return Err(DataFusionError::Execution(message.into()));
    };
    let json = STANDARD.decode(text.as_bytes()).map_err(external)?;
    let sent: BTreeMap<String, Option<String>> = serde_json::from_slice(&json).map_err(external)?;
    let mut options = defaults();
    for entry in own.entries() {
        if let (false, Some(value)) = (travels(&entry.key), entry.value)
            && entry.key.starts_with("tidegate.")
        {
            options.set(&entry.key, &value)?;
        }
    }
    // This one sets others too, which come after it.
    let first = sent.get_key_value(SETS_OTHERS);
    let rest = sent.iter().filter(|(name, _)| *name != SETS_OTHERS);
    for (name, value) in first.into_iter().chain(rest) {
        if !travels(name) {
            let message = format!("the setting {name} does not travel");
            return Err(DataFusionError::Execution(message));
        }
        // One that is unset has been by default too, or is set to nothing.
        options.set(name, value.as_deref().unwrap_or(""))?;
    }
    Ok(options)
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::{defaults, entries, from_headers, to_headers};

    #[test]
    fn every_setting_that_travels_arrives() {
        let mut session = defaults();
        for (name, value) in [
            ("datafusion.execution.batch_size", "1234"),
            ("datafusion.execution.time_zone", "Europe/Berlin"),
            ("datafusion.optimizer.prefer_hash_join", "false"),
            ("tidegate.placement", "host"),
            ("tidegate.host_engine", "off"),
            ("tidegate.retries", "2"),
            ("tidegate.max_page_size", "10240"),
        ] {
            session.set(name, value).unwrap();
        }
        let mut own = defaults();
        own.set("tidegate.memory_limit", "1GB").unwrap();
        own.set("tidegate.cache", "off").unwrap();
        let arrived = from_headers(&to_headers(&session).unwrap(), &own).unwrap();
        assert_eq!(entries(&arrived), entries(&session));
        let options = tidegate::TidegateOptions::of(&arrived);
        assert_eq!(options.memory_limit, Some(1 << 30));
    }

    #[test]
    fn any_value_of_any_setting_arrives() {
        let mut differing = 0;
        for (name, value) in entries(&defaults()) {
            let mut session = defaults();
            let other = match value.as_deref() {
                Some("true") => "false",
                Some("false") => "true",
                Some(value) if value.parse::<u64>().is_ok() => "3",
                _ => continue,
            };
            if session.set(&name, other).is_err() {
                continue;
            }
            let headers = to_headers(&session).unwrap();
            let arrived = from_headers(&headers, &defaults()).unwrap();
            assert_eq!(entries(&arrived), entries(&session), "{name} = {other}");
            differing += 1;
        }
        assert!(differing > 60, "{differing}");
    }
}
