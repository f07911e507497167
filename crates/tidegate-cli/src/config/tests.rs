//! What a configuration file and the environment may say.

use std::path::Path;

use clap::{CommandFactory, FromArgMatches};

use super::{File, from_environment};
use crate::args::{Args, Door};

fn read(text: &str) -> Result<File, String> {
    File::read(Path::new("c.toml"), text)
}

#[test]
fn a_file_holds_options_and_settings() {
    let file = read(
        "memory_limit = \"1GB\"\nthreads = 2\nquiet = true\nsimulate_device = [\"1GB\"]\n\
         [tidegate]\nplacement = \"host\"\n[datafusion.execution]\nbatch_size = 100\n",
    )
    .unwrap();
    let options: Vec<(&str, &str)> = file
        .options
        .iter()
        .map(|(key, values)| (key.as_str(), values[0].as_str()))
        .collect();
    let expect = [
        ("memory_limit", "1GB"),
        ("quiet", "true"),
        ("simulate_device", "1GB"),
        ("threads", "2"),
    ];
    let mut sorted = options;
    sorted.sort_unstable();
    assert_eq!(sorted, expect);
    let mut settings: Vec<String> = file
        .settings
        .iter()
        .map(|setting| format!("{}={}", setting.name, setting.value))
        .collect();
    settings.sort();
    assert_eq!(
        settings,
        [
            "datafusion.execution.batch_size=100",
            "tidegate.placement=host"
        ]
    );
}

#[test]
fn a_file_holds_what_serve_is_asked_for() {
    let file = read(
        "[serve]\nlisten = \"127.0.0.1:7\"\nallow = [\"/a\", \"/b\"]\ninsecure = true\n\
         queue_wait = \"3s\"\ntls_cert = \"c.pem\"\n",
    )
    .unwrap();
    let serve = |words: &[&str]| {
        let command = file.apply(Args::command());
        let matches = command.try_get_matches_from(words).unwrap();
        match Args::from_arg_matches(&matches).unwrap().door {
            Some(Door::Serve(serve)) => serve,
            door => unreachable!("{door:?}"),
        }
    };
    let asked = serve(&["tidegate", "serve"]);
    assert_eq!(asked.listen.port(), 7);
    assert_eq!(asked.allow.len(), 2);
    assert!(asked.insecure && asked.tls_key.is_none());
    // The command line comes before the file.
    let asked = serve(&["tidegate", "serve", "--listen", "127.0.0.1:8"]);
    assert_eq!(asked.listen.port(), 8);
    assert_eq!(asked.queue_wait.0.as_secs(), 3);
    let matches = Args::command().try_get_matches_from(["tidegate", "config"]);
    let reports = file.options(&matches.unwrap());
    let report = |name: &str| reports.iter().find(|report| report.name == name).unwrap();
    let (listen, drain) = (report("serve.listen"), report("serve.drain"));
    assert_eq!(listen.value.as_deref(), Some("127.0.0.1:7"));
    assert_eq!(
        (listen.origin.as_str(), drain.origin.as_str()),
        ("c.toml", "default")
    );
    assert_eq!(report("serve.allow").value.as_deref(), Some("/a, /b"));
}

#[test]
fn mistakes_in_a_file_name_the_place_and_a_way_out() {
    for (text, expect) in [
        (
            "memory_limt = 1",
            "unknown key memory_limt: did you mean memory_limit?",
        ),
        (
            "memory_limit = \"lots\"",
            "memory_limit = 'lots': expected a size",
        ),
        ("quiet = 3", "quiet is true or false"),
        ("format = \"xml\"", "format = 'xml'"),
        ("tidegate = 3", "tidegate is a table"),
        ("serve = 3", "serve is a table"),
        ("[serve]\nlisten = \"here\"", "serve.listen = 'here'"),
        (
            "[serve]\nlisen = \"127.0.0.1:1\"",
            "unknown key serve.lisen: did you mean serve.listen?",
        ),
        ("[serve]\ninsecure = 1", "serve.insecure is true or false"),
        ("[serve]\nhash-password = 1", "unknown key"),
        ("stores = 3", "stores is a table"),
        (
            "[stores.\"s3://b\"]\naws.regoin = \"x\"",
            "did you mean aws.region?",
        ),
        ("= 3", "is not TOML"),
        (
            "threads = { a = 1 }",
            "threads is a string, a number, true or false",
        ),
    ] {
        let message = read(text).unwrap_err();
        assert!(
            message.contains("c.toml") && message.contains(expect),
            "{message}"
        );
    }
}

#[test]
fn a_file_holds_options_of_object_stores() {
    let file = read("[stores]\naws.region = \"x\"\n[stores.\"s3://b\".aws]\nallow_http = true");
    let shown = format!("{:?}", file.unwrap().stores);
    assert_eq!(
        shown,
        "[(\"\", \"aws_region\"), (\"s3://b\", \"aws_allow_http\")]"
    );
}

#[test]
fn variables_are_settings() {
    let read = |name: &str| from_environment(vec![(name.to_string(), "host".to_string())]);
    let settings = read("TIDEGATE_PLACEMENT").unwrap();
    assert_eq!(settings[0].name, "tidegate.placement");
    assert!(read("TIDEGATE_REQUIRE").unwrap().is_empty());
    assert!(read("TIDEGATE_REQUIRE_DEVICE").unwrap().is_empty());
    assert!(read("TIDEGATE_MEMORY_LIMIT").unwrap().is_empty());
    let message = read("TIDEGATE_PLACEMNT").unwrap_err();
    assert!(
        message.ends_with("did you mean TIDEGATE_PLACEMENT?"),
        "{message}"
    );
}
