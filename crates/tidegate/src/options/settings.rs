//! The table of the settings: what each does, what its values are, how they are read and written.

use std::str::FromStr;
use std::time::Duration;

use super::{
    CacheMode, ExchangeCompression, FloatSums, HostEngineMode, RegionForms, SpreadMode,
    TidegateOptions, UncheckedConstraints, parse_bytes, parse_duration,
};

/// A setting.
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    /// What its values are, for whoever gave it another.
    pub(super) expected: &'static str,
    /// Returns its value as text; `None` if it has none.
    pub(super) text: fn(&TidegateOptions) -> Option<String>,
    /// Gives it the value that a text says; `None` if the text says none.
    pub(super) set: fn(&mut TidegateOptions, &str) -> Option<()>,
}

/// The values of a setting that are words.
type Words<T, const N: usize> = [(&'static str, T); N];

const REGIONS: Words<RegionForms, 3> = [
    ("auto", RegionForms::Auto),
    ("additive", RegionForms::Additive),
    ("atomic", RegionForms::Atomic),
];

const HOST_ENGINE: Words<HostEngineMode, 2> =
    [("auto", HostEngineMode::Auto), ("off", HostEngineMode::Off)];

const FLOAT_SUMS: Words<FloatSums, 2> = [("any", FloatSums::Any), ("ordered", FloatSums::Ordered)];

const CACHE: Words<CacheMode, 3> = [
    ("auto", CacheMode::Auto),
    ("manual", CacheMode::Manual),
    ("off", CacheMode::Off),
];

const UNCHECKED_CONSTRAINTS: Words<UncheckedConstraints, 2> = [
    ("refuse", UncheckedConstraints::Refuse),
    ("ignore", UncheckedConstraints::Ignore),
];

const SPREAD: Words<SpreadMode, 3> = [
    ("auto", SpreadMode::Auto),
    ("never", SpreadMode::Never),
    ("always", SpreadMode::Always),
];

const COMPRESSION: Words<ExchangeCompression, 4> = [
    ("auto", ExchangeCompression::Auto),
    ("none", ExchangeCompression::None),
    ("lz4", ExchangeCompression::Lz4),
    ("zstd", ExchangeCompression::Zstd),
];

pub(super) static SETTINGS: [Setting; 27] = [
    Setting {
        name: "placement",
        help: "where regions run: auto, host, device (the host only where no device can) or \
               strict (an error instead of the host)",
        expected: "auto, host, device or strict",
        text: |o| Some(o.placement.to_string()),
        set: |o, text| put(&mut o.placement, parsed(text)),
    },
    Setting {
        name: "regions",
        help: "form of regions: auto, additive (host and device share the morsels) or atomic \
               (one device answers the whole region, or the host does)",
        expected: "auto, additive or atomic",
        text: |o| word_of(&REGIONS, o.regions),
        set: |o, text| put(&mut o.regions, word(&REGIONS, text)),
    },
    Setting {
        name: "host_engine",
        help: "auto (regions on the host run as row programs over blocks of encoded columns where \
               that is possible; EXPLAIN shows HostFoldExec, or the reasons) or off (DataFusion's \
               operators)",
        expected: "auto or off",
        text: |o| word_of(&HOST_ENGINE, o.host_engine),
        set: |o, text| put(&mut o.host_engine, word(&HOST_ENGINE, text)),
    },
    Setting {
        name: "replay_placement",
        help: "placement to repeat: the number of a query in system.queries, whose regions \
               run again where they ran, or a pattern of letters for all regions, one per \
               morsel, H for host and D for device; empty for none",
        expected: "the number of a query, or letters H (host) and D (device)",
        text: |o| o.replay_placement.as_ref().map(ToString::to_string),
        set: |o, text| put(&mut o.replay_placement, optional(text, parsed)),
    },
    Setting {
        name: "devices",
        help: "places that regions may use, such as 'host, device:0'; a list without host \
               means placement = 'device'; empty for the host and every device",
        expected: "a list such as 'host, device:0'",
        text: |o| o.devices.as_ref().map(ToString::to_string),
        set: |o, text| put(&mut o.devices, optional(text, parsed)),
    },
    Setting {
        name: "device_slots",
        help: "morsels that a region has in flight on each device, from 1 to 64; with 2 or more, \
               small morsels are added up to 64 MB; at most 2 while other queries use the device, \
               unless these are short",
        expected: "a number from 1 to 64",
        text: |o| Some(o.device_slots.to_string()),
        set: |o, text| put(&mut o.device_slots, within(text, 1, 64)),
    },
    Setting {
        name: "device_memory_limit",
        help: "memory limit of each device, for all sessions of the process, such as 2GB or \
               'device:0 = 2GB, device:1 = 1GB'; empty for the limit with which it was \
               opened, which is also the maximum",
        expected: "a size such as 2GB, or one for each: 'device:0 = 2GB, …'",
        text: |o| o.device_memory_limit.as_ref().map(ToString::to_string),
        set: |o, text| put(&mut o.device_memory_limit, optional(text, parsed)),
    },
    Setting {
        name: "morsel_rows",
        help: "maximum number of rows in a morsel of a memory table or a source that cannot \
               be read again",
        expected: "a number of rows of at least 1",
        text: |o| Some(o.morsel_rows.to_string()),
        set: |o, text| put(&mut o.morsel_rows, within(text, 1, usize::MAX)),
    },
    Setting {
        name: "float_sums",
        help: "any, or ordered (the same bits on every run, or an error)",
        expected: "any or ordered",
        text: |o| word_of(&FLOAT_SUMS, o.float_sums),
        set: |o, text| put(&mut o.float_sums, word(&FLOAT_SUMS, text)),
    },
    Setting {
        name: "memory_limit",
        help: "host memory limit for all statements together, such as 2GB; empty for the \
               session's default",
        expected: "a size such as 512MB or 2GB",
        text: |o| o.memory_limit.map(|bytes| bytes.to_string()),
        set: |o, text| put(&mut o.memory_limit, optional(text, some_bytes)),
    },
    Setting {
        name: "query_memory_limit",
        help: "host memory limit for one statement, such as 500MB; empty for the limit of all \
               statements",
        expected: "a size such as 512MB or 2GB",
        text: |o| o.query_memory_limit.map(|bytes| bytes.to_string()),
        set: |o, text| put(&mut o.query_memory_limit, optional(text, some_bytes)),
    },
    Setting {
        name: "max_running_queries",
        help: "maximum number of statements that run at once in all sessions of the process; \
               empty keeps the current limit, 64 or what the server was started with",
        expected: "a number of at least 1",
        text: |o| o.max_running_queries.map(|queries| queries.to_string()),
        set: |o, text| {
            put(
                &mut o.max_running_queries,
                optional(text, |text| within(text, 1, usize::MAX)),
            )
        },
    },
    Setting {
        name: "max_waiting_queries",
        help: "maximum number of statements that wait to run, in all sessions of the process; \
               one more is refused; empty keeps the current limit, 1024 or what the server \
               was started with",
        expected: "a number",
        text: |o| o.max_waiting_queries.map(|queries| queries.to_string()),
        set: |o, text| put(&mut o.max_waiting_queries, optional(text, parsed)),
    },
    Setting {
        name: "queue_timeout",
        help: "how long a statement waits to run before it is refused, such as 30s; empty \
               keeps the current limit, 60s or what the server was started with",
        expected: "a time such as 30s, 500ms or 2min",
        text: |o| o.queue_timeout.map(milliseconds),
        set: |o, text| put(&mut o.queue_timeout, optional(text, parse_duration)),
    },
    Setting {
        name: "priority",
        help: "priority of waiting statements, from -100 to 100, highest first; 10 s of \
               waiting count as 1",
        expected: "a number from -100 to 100",
        text: |o| Some(o.priority.to_string()),
        set: |o, text| put(&mut o.priority, within(text, -100, 100)),
    },
    Setting {
        name: "statement_timeout",
        help: "maximum run time of a statement, such as 30s or 500ms; 0 for no limit",
        expected: "a time such as 30s, 500ms or 2min, or 0",
        text: |o| o.statement_timeout.map(milliseconds),
        set: |o, text| {
            let limit = |time| Some(time).filter(|time: &Duration| !time.is_zero());
            put(&mut o.statement_timeout, parse_duration(text).map(limit))
        },
    },
    Setting {
        name: "generate_all",
        help: "true: arrays generate every value and filter afterwards; false: they skip \
               values that index filters exclude",
        expected: "true or false",
        text: |o| Some(o.generate_all.to_string()),
        set: |o, text| put(&mut o.generate_all, parsed(&text.to_ascii_lowercase())),
    },
    Setting {
        name: "cache",
        help: "columns kept between statements: auto (what is read from Parquet files, in \
               host memory while there is room; what is read often, on devices), manual \
               (tables of CACHE TABLE) or off",
        expected: "auto, manual or off",
        text: |o| word_of(&CACHE, o.cache),
        set: |o, text| put(&mut o.cache, word(&CACHE, text)),
    },
    Setting {
        name: "host_cache_limit",
        help: "host memory for cached columns, such as 2GB, in all sessions of the process; 0 \
               for none; empty for 30 % of the memory limit",
        expected: "a size such as 512MB or 2GB, or 0",
        text: |o| o.host_cache_limit.map(|bytes| bytes.to_string()),
        set: |o, text| put(&mut o.host_cache_limit, optional(text, parse_bytes)),
    },
    Setting {
        name: "pinned_cache_limit",
        help: "page-locked host memory for columns that are evicted from a device or do not \
               fit it, in the device's encoding, such as 2GB, in all sessions of the process; \
               0 for none; empty for 20 % of the memory limit",
        expected: "a size such as 512MB or 2GB, or 0",
        text: |o| o.pinned_cache_limit.map(|bytes| bytes.to_string()),
        set: |o, text| put(&mut o.pinned_cache_limit, optional(text, parse_bytes)),
    },
    Setting {
        name: "unchecked_constraints",
        help: "PRIMARY KEY, UNIQUE, FOREIGN KEY and CHECK of a new table, which are never \
               checked: refuse (an error, unless NOT ENFORCED) or ignore (dropped)",
        expected: "refuse or ignore",
        text: |o| word_of(&UNCHECKED_CONSTRAINTS, o.unchecked_constraints),
        set: |o, text| {
            put(
                &mut o.unchecked_constraints,
                word(&UNCHECKED_CONSTRAINTS, text),
            )
        },
    },
    Setting {
        name: "max_page_size",
        help: "maximum uncompressed size of a page of a Parquet file, or of a batch of an \
               Arrow file, such as 512MB; at the start of a session at most a quarter of its \
               memory limit",
        expected: "a size such as 512MB",
        text: |o| Some(o.max_page_size.to_string()),
        set: |o, text| put(&mut o.max_page_size, some_bytes(text)),
    },
    Setting {
        name: "spread",
        help: "statements that run over the executors of a cluster: auto (those that read more \
               than tidegate.spread_above), never or always (each that can); EXPLAIN shows the \
               stages, or why a statement stays on the scheduler",
        expected: "auto, never or always",
        text: |o| word_of(&SPREAD, o.spread.mode),
        set: |o, text| put(&mut o.spread.mode, word(&SPREAD, text)),
    },
    Setting {
        name: "spread_above",
        help: "bytes that a statement must read to run over several executors, such as 64MB",
        expected: "a size such as 64MB, or 0",
        text: |o| Some(o.spread.above.to_string()),
        set: |o, text| put(&mut o.spread.above, parse_bytes(text)),
    },
    Setting {
        name: "executors",
        help: "names of the executors to use, such as 'e1, e2'; empty for all",
        expected: "names such as 'e1, e2'",
        text: |o| Some(o.spread.executors.join(", ")).filter(|names| !names.is_empty()),
        set: |o, text| {
            let names = text.split(',').map(str::trim);
            let names = names.filter(|name| !name.is_empty()).map(str::to_string);
            put(&mut o.spread.executors, Some(names.collect()))
        },
    },
    Setting {
        name: "retries",
        help: "how many times a statement runs again that lost an executor before any of its rows \
               had left, from 0 to 10",
        expected: "a number from 0 to 10",
        text: |o| Some(o.spread.retries.to_string()),
        set: |o, text| put(&mut o.spread.retries, within(text, 0, 10)),
    },
    Setting {
        name: "exchange_compression",
        help: "compression of rows between the processes of a cluster: auto (none within one \
               machine, else lz4), none, lz4 or zstd",
        expected: "auto, none, lz4 or zstd",
        text: |o| word_of(&COMPRESSION, o.spread.compression),
        set: |o, text| put(&mut o.spread.compression, word(&COMPRESSION, text)),
    },
];

fn put<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Reads a number within bounds, both of which it may be.
fn within<T: FromStr + PartialOrd>(text: &str, least: T, most: T) -> Option<T> {
    parsed(text).filter(|number| (least..=most).contains(number))
}

/// Reads a value that the empty text takes away.
fn optional<T>(text: &str, read: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    match text.is_empty() {
        true => Some(None),
        false => read(text).map(Some),
    }
}

fn some_bytes(text: &str) -> Option<u64> {
    parse_bytes(text).filter(|bytes| *bytes > 0)
}

fn word<T: Copy>(words: &[(&str, T)], text: &str) -> Option<T> {
    let found = words
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text));
    found.map(|(_, value)| *value)
}

fn word_of<T: PartialEq>(words: &[(&str, T)], value: T) -> Option<String> {
    let found = words.iter().find(|(_, known)| *known == value);
    found.map(|(word, _)| (*word).to_string())
}

fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}
