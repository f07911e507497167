//! Every setting takes its values, prints them back, and says what is wrong with others.

use std::time::Duration;

use datafusion::common::config::ExtensionOptions;

use super::{SETTINGS, TidegateOptions, parse_bytes};

fn value(options: &TidegateOptions, name: &str) -> Option<String> {
    let setting = SETTINGS.iter().find(|setting| setting.name == name);
    setting.and_then(|setting| (setting.text)(options))
}

#[test]
fn settings_round_trip() {
    let table = [
        ("placement", "strict", "strict"),
        ("regions", "Atomic", "atomic"),
        ("host_engine", "AUTO", "auto"),
        ("replay_placement", "hdd", "HDD"),
        ("devices", "Device:1,host", "host, device:1"),
        ("device_slots", "4", "4"),
        (
            "device_memory_limit",
            "device 1 = 2KB, device:0=1KB",
            "device:0=1024, device:1=2048",
        ),
        ("morsel_rows", "3", "3"),
        ("float_sums", "ordered", "ordered"),
        ("memory_limit", "2KB", "2048"),
        ("query_memory_limit", "3KB", "3072"),
        ("max_running_queries", "7", "7"),
        ("max_waiting_queries", "0", "0"),
        ("queue_timeout", "2s", "2000ms"),
        ("priority", "-3", "-3"),
        ("statement_timeout", "1.5s", "1500ms"),
        ("generate_all", "TRUE", "true"),
        ("cache", "Manual", "manual"),
        ("host_cache_limit", "0", "0"),
        ("pinned_cache_limit", "2MB", "2097152"),
        ("unchecked_constraints", "Ignore", "ignore"),
        ("max_page_size", "512MB", "536870912"),
        ("spread", "Always", "always"),
        ("spread_above", "1MB", "1048576"),
        ("executors", "b,a", "b, a"),
        ("retries", "2", "2"),
        ("exchange_compression", "ZSTD", "zstd"),
    ];
    assert_eq!(table.len(), SETTINGS.len());
    let mut options = TidegateOptions::default();
    for (name, given, shown) in table {
        options.set(name, given).unwrap();
        assert_eq!(value(&options, name).as_deref(), Some(shown), "{name}");
    }
    for (name, given, shown) in [
        ("replay_placement", "17", "17"),
        ("devices", "host", "host"),
        ("device_memory_limit", "3KB", "3072"),
    ] {
        options.set(name, given).unwrap();
        assert_eq!(value(&options, name).as_deref(), Some(shown), "{name}");
    }
    options.set("replay_placement", "").unwrap();
    options.set("statement_timeout", "0").unwrap();
    assert_eq!(
        (options.replay_placement, options.statement_timeout),
        (None, None)
    );
}

#[test]
fn wrong_values_and_names_say_what_is_expected() {
    let mut options = TidegateOptions::default();
    let mut message = |key: &str, value: &str| options.set(key, value).unwrap_err().to_string();
    assert!(message("placement", "gpu").contains("expected auto, host, device or strict"));
    assert!(message("morsel_rows", "0").contains("at least 1"));
    assert!(message("devices", "host, gpu").contains("such as 'host, device:0'"));
    assert!(message("devices", "host,").contains("such as 'host, device:0'"));
    assert!(message("device_slots", "0").contains("from 1 to 64"));
    assert!(message("device_memory_limit", "device:0").contains("such as 2GB"));
    assert!(message("device_memory_limit", "device:0=0").contains("such as 2GB"));
    assert!(message("replay_placement", "-1").contains("the number of a query"));
    assert!(message("memory_limit", "lots").contains("such as 512MB"));
    assert!(message("placment", "host").contains("did you mean tidegate.placement?"));
    assert!(message("zzz", "1").contains("there are placement, regions"));
}

#[test]
fn sizes_and_times_parse() {
    assert_eq!(parse_bytes("1.5G"), Some(1_610_612_736));
    assert_eq!(parse_bytes("77"), Some(77));
    assert_eq!(parse_bytes("GB"), None);
    assert_eq!(
        super::parse_duration("2min"),
        Some(Duration::from_secs(120))
    );
    assert_eq!(super::parse_duration("-1s"), None);
}
