//! The `tidegate.*` settings: one definition of each, with its default, its check and its help.

mod devices;
mod settings;
mod spread;

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, config_err};
use tidegate_scheduler::{PlacementMode, PlacementPattern};

use settings::{SETTINGS, Setting};

pub use devices::{DeviceLimits, DeviceList};
pub use spread::{ExchangeCompression, SpreadMode, SpreadOptions};

/// Settings of a session, changed by `SET tidegate.<name> = <value>`.
#[derive(Clone, Debug, PartialEq)]
pub struct TidegateOptions {
    /// Where regions run.
    pub placement: PlacementMode,
    /// Which form regions take.
    pub regions: RegionForms,
    /// Whether the host runs row programs itself.
    pub host_engine: HostEngineMode,
    /// A placement to replay; overrides `placement` where it knows the region.
    pub replay_placement: Option<ReplayedPlacement>,
    /// The places that regions may use; `None` for the host and every device.
    pub devices: Option<DeviceList>,
    /// Morsels, or runs of resident ones, that a region has under way on each device.
    pub device_slots: usize,
    /// Bytes that devices may take, in all sessions of the process; `None` for as many as they were
    /// opened with.
    pub device_memory_limit: Option<DeviceLimits>,
    /// The most rows of a morsel of a memory table or pulled source.
    pub morsel_rows: usize,
    /// What float sums must promise.
    pub float_sums: FloatSums,
    /// Host bytes that statements may hold; `None` keeps the session's limit.
    pub memory_limit: Option<u64>,
    /// Host bytes that one statement may hold; `None` for as many as all of them.
    pub query_memory_limit: Option<u64>,
    /// Statements that run at once, in all sessions of the process; `None` keeps the limit.
    pub max_running_queries: Option<usize>,
    /// Statements that wait at once, in all sessions of the process; `None` keeps the limit.
    pub max_waiting_queries: Option<usize>,
    /// How long a statement waits to be let in, in all sessions of the process; `None` keeps it.
    pub queue_timeout: Option<Duration>,
    /// How much sooner than others a statement that waits is let in.
    pub priority: i32,
    /// How long a statement may run; `None` is for ever.
    pub statement_timeout: Option<Duration>,
    /// Arrays generate all of their values, those too that filters on indices leave out.
    pub generate_all: bool,
    /// What is kept in host memory and on devices between queries.
    pub cache: CacheMode,
    /// Host bytes of the column cache, shared by the sessions of a process; `None` for 30 % of the
    /// memory limit.
    pub host_cache_limit: Option<u64>,
    /// Page-locked host bytes for columns that leave devices, shared by the sessions of a process; `None`
    /// for 20 % of the memory limit.
    pub pinned_cache_limit: Option<u64>,
    /// What becomes of constraints that nobody checks.
    pub unchecked_constraints: UncheckedConstraints,
    /// Bytes that a page of a Parquet file, or a batch of an Arrow file, may have uncompressed.
    pub max_page_size: u64,
    /// What runs over several executors, where there are some.
    pub spread: SpreadOptions,
}

/// A placement to replay: `tidegate.replay_placement`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayedPlacement {
    /// Letters, over and over, for every additive region.
    Pattern(PlacementPattern),
    /// What this query of the process did, region by region.
    Query(u64),
}

impl FromStr for ReplayedPlacement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(query) => Ok(Self::Query(query)),
            Err(_) => text.parse().map(Self::Pattern),
        }
    }
}

impl fmt::Display for ReplayedPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pattern(pattern) => write!(f, "{pattern}"),
            Self::Query(query) => write!(f, "{query}"),
        }
    }
}

/// What is kept in host memory and on devices between queries: `tidegate.cache`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheMode {
    /// What is read, if it finds room, and what is read again, in place of what is not; on a device
    /// what is read often.
    #[default]
    Auto,
    /// What `CACHE TABLE` names.
    Manual,
    /// Nothing; what is kept already is not read.
    Off,
}

/// Which form regions take: `tidegate.regions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegionForms {
    /// Atomic if a device was asked for, else additive.
    #[default]
    Auto,
    /// Host and device share the morsels.
    Additive,
    /// A device answers all of a region or nothing.
    Atomic,
}

/// Whether the host runs the row programs of regions itself: `tidegate.host_engine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostEngineMode {
    /// Where the engine has the program, and DataFusion's operators elsewhere.
    Auto,
    /// DataFusion's operators everywhere.
    #[default]
    Off,
}

/// What becomes of PRIMARY KEY, UNIQUE, FOREIGN KEY and CHECK where a table is created:
/// `tidegate.unchecked_constraints`. Nobody checks them, and no plan relies on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UncheckedConstraints {
    /// They are errors, unless they are NOT ENFORCED.
    #[default]
    Refuse,
    /// They are left out.
    Ignore,
}

/// What float sums must promise: `tidegate.float_sums`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FloatSums {
    /// Last bits may vary from run to run.
    #[default]
    Any,
    /// The same bits on every run, or an error.
    Ordered,
}

impl Default for TidegateOptions {
    fn default() -> Self {
        Self {
            placement: PlacementMode::Auto,
            regions: RegionForms::Auto,
            host_engine: HostEngineMode::Auto,
            replay_placement: None,
            devices: None,
            device_slots: 2,
            device_memory_limit: None,
            morsel_rows: 1 << 20,
            float_sums: FloatSums::Any,
            memory_limit: None,
            query_memory_limit: None,
            max_running_queries: None,
            max_waiting_queries: None,
            queue_timeout: None,
            priority: 0,
            statement_timeout: None,
            generate_all: false,
            cache: CacheMode::Auto,
            host_cache_limit: None,
            pinned_cache_limit: None,
            unchecked_constraints: UncheckedConstraints::Refuse,
            max_page_size: 1 << 30,
            spread: SpreadOptions::default(),
        }
    }
}

impl TidegateOptions {
    /// Returns the options of a configuration; the defaults where none were registered.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }
}

impl ConfigExtension for TidegateOptions {
    const PREFIX: &'static str = "tidegate";
}

impl ExtensionOptions for TidegateOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        let value = value.trim();
        let Some(setting) = SETTINGS.iter().find(|setting| setting.name == key) else {
            return unknown(key);
        };
        match (setting.set)(self, value) {
            Some(()) => Ok(()),
            None => config_err!("tidegate.{key} = '{value}': expected {}", setting.expected),
        }
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |setting: &Setting| ConfigEntry {
            key: format!("{}.{}", Self::PREFIX, setting.name),
            value: (setting.text)(self),
            description: setting.help,
        };
        SETTINGS.iter().map(entry).collect()
    }
}

impl TidegateOptions {
    /// Tells whether a setting is, or would be, one of these.
    pub(crate) fn has(name: &str) -> bool {
        let dot = name.strip_prefix(Self::PREFIX);
        dot.is_some_and(|rest| rest.starts_with('.'))
    }

    /// Returns what a setting is set to for its default; an unknown one's is empty.
    pub(crate) fn default_text(name: &str) -> String {
        let entries = Self::default().entries();
        let entry = entries.into_iter().find(|entry| entry.key == name);
        entry.and_then(|entry| entry.value).unwrap_or_default()
    }
}

fn unknown(key: &str) -> Result<()> {
    let nearest = SETTINGS
        .iter()
        .map(|setting| (strsim::jaro_winkler(setting.name, key), setting.name))
        .max_by(|left, right| left.0.total_cmp(&right.0));
    match nearest {
        Some((likeness, name)) if likeness > 0.7 => {
            config_err!("unknown setting tidegate.{key}: did you mean tidegate.{name}?")
        }
        _ => {
            let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
            config_err!(
                "unknown setting tidegate.{key}: there are {}",
                names.join(", ")
            )
        }
    }
}

/// Returns the names of the settings, without their prefix.
pub fn names() -> Vec<&'static str> {
    SETTINGS.iter().map(|setting| setting.name).collect()
}

/// A setting with its default, as reference pages list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingDefault {
    /// Its whole name.
    pub name: String,
    /// `None` if it has none.
    pub value: Option<String>,
    /// What it does.
    pub help: &'static str,
}

/// Returns every setting with its default.
pub fn defaults() -> Vec<SettingDefault> {
    let default = |entry: ConfigEntry| SettingDefault {
        name: entry.key,
        value: entry.value,
        help: entry.description,
    };
    let entries = TidegateOptions::default().entries();
    entries.into_iter().map(default).collect()
}

/// Reads a size such as `512MB`, `2GiB`, `1.5G` or a number of bytes. Units of both families are
/// powers of 1024, as DataFusion reads them.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1024.0 * 1024.0,
        "g" | "gb" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tb" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number * unit) as u64)
}

/// Reads a time such as `30s`, `500ms`, `2min`, `1h` or a number of seconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "ms" => 1e-3,
        "" | "s" | "sec" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number * unit).ok()
}

#[cfg(test)]
mod tests;
