//! The `tidegate.*` settings: one definition of each, with its default, its check and its help.

mod devices;
mod spread;

use std::any::Any;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::{Result, config_err};
use tidegate_scheduler::{PlacementMode, PlacementPattern};

pub use devices::{DeviceLimits, DeviceList};
pub use spread::{SpreadMode, SpreadOptions};

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

/// A setting's name and what it does.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    help: &'static str,
}

const SETTINGS: [Setting; 26] = [
    Setting {
        name: "placement",
        help: "where regions run: auto, host, device (the host only where no device can) or \
               strict (an error instead of the host)",
    },
    Setting {
        name: "regions",
        help: "form of regions: auto, additive (host and device share the morsels) or atomic \
               (one device answers the whole region, or the host does)",
    },
    Setting {
        name: "host_engine",
        help: "auto (regions on the host run as row programs over blocks of encoded columns where \
               that is possible; EXPLAIN shows HostFoldExec, or the reasons) or off (DataFusion's \
               operators)",
    },
    Setting {
        name: "replay_placement",
        help: "placement to repeat: the number of a query in system.queries, whose regions \
               run again where they ran, or a pattern of letters for all regions, one per \
               morsel, H for host and D for device; empty for none",
    },
    Setting {
        name: "devices",
        help: "places that regions may use, such as 'host, device:0'; a list without host \
               means placement = 'device'; empty for the host and every device",
    },
    Setting {
        name: "device_slots",
        help: "morsels that a region has in flight on each device, from 1 to 64; with 2 or more, \
               small morsels are added up to 64 MB; at most 2 while other queries use the device, \
               unless these are short",
    },
    Setting {
        name: "device_memory_limit",
        help: "memory limit of each device, for all sessions of the process, such as 2GB or \
               'device:0 = 2GB, device:1 = 1GB'; empty for the limit with which it was \
               opened, which is also the maximum",
    },
    Setting {
        name: "morsel_rows",
        help: "maximum number of rows in a morsel of a memory table or a source that cannot \
               be read again",
    },
    Setting {
        name: "float_sums",
        help: "any, or ordered (the same bits on every run, or an error)",
    },
    Setting {
        name: "memory_limit",
        help: "host memory limit for all statements together, such as 2GB; empty for the \
               session's default",
    },
    Setting {
        name: "query_memory_limit",
        help: "host memory limit for one statement, such as 500MB; empty for the limit of all \
               statements",
    },
    Setting {
        name: "max_running_queries",
        help: "maximum number of statements that run at once in all sessions of the process; \
               empty keeps the current limit, 64 or what the server was started with",
    },
    Setting {
        name: "max_waiting_queries",
        help: "maximum number of statements that wait to run, in all sessions of the process; \
               one more is refused; empty keeps the current limit, 1024 or what the server \
               was started with",
    },
    Setting {
        name: "queue_timeout",
        help: "how long a statement waits to run before it is refused, such as 30s; empty \
               keeps the current limit, 60s or what the server was started with",
    },
    Setting {
        name: "priority",
        help: "priority of waiting statements, from -100 to 100, highest first; 10 s of \
               waiting count as 1",
    },
    Setting {
        name: "statement_timeout",
        help: "maximum run time of a statement, such as 30s or 500ms; 0 for no limit",
    },
    Setting {
        name: "generate_all",
        help: "true: arrays generate every value and filter afterwards; false: they skip \
               values that index filters exclude",
    },
    Setting {
        name: "cache",
        help: "columns kept between statements: auto (what is read from Parquet files, in \
               host memory while there is room; what is read often, on devices), manual \
               (tables of CACHE TABLE) or off",
    },
    Setting {
        name: "host_cache_limit",
        help: "host memory for cached columns, such as 2GB, in all sessions of the process; 0 \
               for none; empty for 30 % of the memory limit",
    },
    Setting {
        name: "pinned_cache_limit",
        help: "page-locked host memory for columns that are evicted from a device or do not \
               fit it, in the device's encoding, such as 2GB, in all sessions of the process; \
               0 for none; empty for 20 % of the memory limit",
    },
    Setting {
        name: "unchecked_constraints",
        help: "PRIMARY KEY, UNIQUE, FOREIGN KEY and CHECK of a new table, which are never \
               checked: refuse (an error, unless NOT ENFORCED) or ignore (dropped)",
    },
    Setting {
        name: "max_page_size",
        help: "maximum uncompressed size of a page of a Parquet file, or of a batch of an \
               Arrow file, such as 512MB; at the start of a session at most a quarter of its \
               memory limit",
    },
    spread::SETTINGS[0],
    spread::SETTINGS[1],
    spread::SETTINGS[2],
    spread::SETTINGS[3],
];

impl TidegateOptions {
    /// Returns the options of a configuration; the defaults where none were registered.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    fn value(&self, name: &str) -> Option<String> {
        let text = match name {
            "placement" => self.placement.to_string(),
            "regions" => match self.regions {
                RegionForms::Auto => "auto".into(),
                RegionForms::Additive => "additive".into(),
                RegionForms::Atomic => "atomic".into(),
            },
            "host_engine" => match self.host_engine {
                HostEngineMode::Auto => "auto".into(),
                HostEngineMode::Off => "off".into(),
            },
            "replay_placement" => self.replay_placement.as_ref()?.to_string(),
            "devices" => self.devices.as_ref()?.to_string(),
            "device_slots" => self.device_slots.to_string(),
            "device_memory_limit" => self.device_memory_limit.as_ref()?.to_string(),
            "morsel_rows" => self.morsel_rows.to_string(),
            "float_sums" => match self.float_sums {
                FloatSums::Any => "any".into(),
                FloatSums::Ordered => "ordered".into(),
            },
            "memory_limit" => self.memory_limit?.to_string(),
            "query_memory_limit" => self.query_memory_limit?.to_string(),
            "max_running_queries" => self.max_running_queries?.to_string(),
            "max_waiting_queries" => self.max_waiting_queries?.to_string(),
            "queue_timeout" => format!("{}ms", self.queue_timeout?.as_millis()),
            "priority" => self.priority.to_string(),
            "generate_all" => self.generate_all.to_string(),
            "statement_timeout" => format!("{}ms", self.statement_timeout?.as_millis()),
            "cache" => match self.cache {
                CacheMode::Auto => "auto".into(),
                CacheMode::Manual => "manual".into(),
                CacheMode::Off => "off".into(),
            },
            "host_cache_limit" => self.host_cache_limit?.to_string(),
            "pinned_cache_limit" => self.pinned_cache_limit?.to_string(),
            "unchecked_constraints" => match self.unchecked_constraints {
                UncheckedConstraints::Refuse => "refuse".into(),
                UncheckedConstraints::Ignore => "ignore".into(),
            },
            "max_page_size" => self.max_page_size.to_string(),
            _ => return self.spread.value(name),
        };
        Some(text)
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
        let wrong = |expected: &str| config_err!("tidegate.{key} = '{value}': expected {expected}");
        match key {
            "placement" => match value.parse() {
                Ok(mode) => self.placement = mode,
                Err(_) => return wrong("auto, host, device or strict"),
            },
            "regions" => {
                self.regions = match value.to_ascii_lowercase().as_str() {
                    "auto" => RegionForms::Auto,
                    "additive" => RegionForms::Additive,
                    "atomic" => RegionForms::Atomic,
                    _ => return wrong("auto, additive or atomic"),
                }
            }
            "host_engine" => {
                self.host_engine = match value.to_ascii_lowercase().as_str() {
                    "auto" => HostEngineMode::Auto,
                    "off" => HostEngineMode::Off,
                    _ => return wrong("auto or off"),
                }
            }
            "replay_placement" if value.is_empty() => self.replay_placement = None,
            "replay_placement" => match value.parse() {
                Ok(pattern) => self.replay_placement = Some(pattern),
                Err(_) => {
                    return wrong("the number of a query, or letters H (host) and D (device)");
                }
            },
            "devices" if value.is_empty() => self.devices = None,
            "devices" => match value.parse() {
                Ok(devices) => self.devices = Some(devices),
                Err(()) => return wrong("a list such as 'host, device:0'"),
            },
            "device_slots" => match value.parse() {
                Ok(slots) if (1..=64).contains(&slots) => self.device_slots = slots,
                _ => return wrong("a number from 1 to 64"),
            },
            "device_memory_limit" if value.is_empty() => self.device_memory_limit = None,
            "device_memory_limit" => match value.parse() {
                Ok(limits) => self.device_memory_limit = Some(limits),
                Err(()) => {
                    return wrong("a size such as 2GB, or one for each: 'device:0 = 2GB, …'");
                }
            },
            "morsel_rows" => match value.parse() {
                Ok(rows) if rows > 0 => self.morsel_rows = rows,
                _ => return wrong("a number of rows of at least 1"),
            },
            "float_sums" => {
                self.float_sums = match value.to_ascii_lowercase().as_str() {
                    "any" => FloatSums::Any,
                    "ordered" => FloatSums::Ordered,
                    _ => return wrong("any or ordered"),
                }
            }
            "memory_limit" if value.is_empty() => self.memory_limit = None,
            "memory_limit" => match parse_bytes(value) {
                Some(bytes) if bytes > 0 => self.memory_limit = Some(bytes),
                _ => return wrong("a size such as 512MB or 2GB"),
            },
            "query_memory_limit" if value.is_empty() => self.query_memory_limit = None,
            "query_memory_limit" => match parse_bytes(value) {
                Some(bytes) if bytes > 0 => self.query_memory_limit = Some(bytes),
                _ => return wrong("a size such as 512MB or 2GB"),
            },
            "max_running_queries" if value.is_empty() => self.max_running_queries = None,
            "max_running_queries" => match value.parse() {
                Ok(queries) if queries > 0 => self.max_running_queries = Some(queries),
                _ => return wrong("a number of at least 1"),
            },
            "max_waiting_queries" if value.is_empty() => self.max_waiting_queries = None,
            "max_waiting_queries" => match value.parse() {
                Ok(queries) => self.max_waiting_queries = Some(queries),
                Err(_) => return wrong("a number"),
            },
            "queue_timeout" if value.is_empty() => self.queue_timeout = None,
            "queue_timeout" => match parse_duration(value) {
                Some(time) => self.queue_timeout = Some(time),
                None => return wrong("a time such as 30s, 500ms or 2min"),
            },
            "priority" => match value.parse() {
                Ok(priority) if (-100..=100).contains(&priority) => self.priority = priority,
                _ => return wrong("a number from -100 to 100"),
            },
            "statement_timeout" => match parse_duration(value) {
                Some(time) => self.statement_timeout = Some(time).filter(|time| !time.is_zero()),
                None => return wrong("a time such as 30s, 500ms or 2min, or 0"),
            },
            "generate_all" => match value.to_ascii_lowercase().parse() {
                Ok(all) => self.generate_all = all,
                Err(_) => return wrong("true or false"),
            },
            "cache" => {
                self.cache = match value.to_ascii_lowercase().as_str() {
                    "auto" => CacheMode::Auto,
                    "manual" => CacheMode::Manual,
                    "off" => CacheMode::Off,
                    _ => return wrong("auto, manual or off"),
                }
            }
            "host_cache_limit" if value.is_empty() => self.host_cache_limit = None,
            "host_cache_limit" => match parse_bytes(value) {
                Some(bytes) => self.host_cache_limit = Some(bytes),
                None => return wrong("a size such as 512MB or 2GB, or 0"),
            },
            "pinned_cache_limit" if value.is_empty() => self.pinned_cache_limit = None,
            "pinned_cache_limit" => match parse_bytes(value) {
                Some(bytes) => self.pinned_cache_limit = Some(bytes),
                None => return wrong("a size such as 512MB or 2GB, or 0"),
            },
            "unchecked_constraints" => {
                self.unchecked_constraints = match value.to_ascii_lowercase().as_str() {
                    "refuse" => UncheckedConstraints::Refuse,
                    "ignore" => UncheckedConstraints::Ignore,
                    _ => return wrong("refuse or ignore"),
                }
            }
            "max_page_size" => match parse_bytes(value) {
                Some(bytes) if bytes > 0 => self.max_page_size = bytes,
                _ => return wrong("a size such as 512MB"),
            },
            _ => match self.spread.set(key, value) {
                Some(Ok(())) => {}
                Some(Err(expected)) => return wrong(expected),
                None => return unknown(key),
            },
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |setting: &Setting| ConfigEntry {
            key: format!("{}.{}", Self::PREFIX, setting.name),
            value: self.value(setting.name),
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
