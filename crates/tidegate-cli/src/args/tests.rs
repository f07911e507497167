//! What can be typed, and what cannot.

use clap::CommandFactory;

use super::{Architecture, Args, ByteSize, Door, ScaleFactor, Source, from_matches};

fn parsed(words: &[&str]) -> Result<Args, clap::Error> {
    let words = std::iter::once("tidegate").chain(words.iter().copied());
    from_matches(&Args::command().try_get_matches_from(words)?)
}

#[test]
fn the_command_line_is_well_formed() {
    Args::command().debug_assert();
}

#[test]
fn sources_keep_their_order() {
    let args = parsed(&["-f", "a.sql", "-c", "x", "-f", "-", "-c", "-- y"]).unwrap();
    let expect = [
        Source::File("a.sql".into()),
        Source::Text("x".into()),
        Source::Stdin,
        Source::Text("-- y".into()),
    ];
    assert_eq!(args.sources, expect);
}

#[test]
fn session_options_may_follow_the_subcommand() {
    let args = parsed(&["demo", "--scale-factor", "0.01", "--memory-limit", "1GB"]).unwrap();
    assert_eq!(args.session.memory_limit, Some(ByteSize(1 << 30)));
    assert!(matches!(
        args.door,
        Some(Door::Demo {
            scale_factor: ScaleFactor(0.01)
        })
    ));
}

#[test]
fn sizes_have_units() {
    let table = [
        ("1", 1),
        ("512MB", 512 << 20),
        ("1.5G", 3 << 29),
        ("2 GiB", 2 << 30),
    ];
    for (text, bytes) in table {
        assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
    }
    for text in [
        "",
        "0",
        "0GB",
        "-1GB",
        "GB",
        "1XB",
        "1 2",
        "1e9999",
        "99999999999TB",
    ] {
        assert!(text.parse::<ByteSize>().is_err(), "{text}");
    }
}

#[test]
fn kernels_have_an_architecture() {
    for (words, expect) in [
        (&["kernel", "SELECT 1"][..], "sm_90"),
        (&["kernel", "--arch", "sm_100a", "SELECT 1"], "sm_100a"),
    ] {
        let Some(Door::Kernel(kernel)) = parsed(words).unwrap().door else {
            unreachable!("{words:?}")
        };
        assert_eq!(kernel.arch, Architecture(expect.into()));
        assert_eq!(kernel.query, "SELECT 1");
    }
}

#[test]
fn serving_is_safe_unless_asked_otherwise() {
    let Some(Door::Serve(serve)) = parsed(&["serve"]).unwrap().door else {
        unreachable!()
    };
    assert!(serve.listen.ip().is_loopback() && !serve.insecure && serve.allow.is_empty());
    let words = [
        "serve",
        "--allow",
        "a",
        "--allow",
        "b",
        "--queue-wait",
        "500ms",
    ];
    let Some(Door::Serve(serve)) = parsed(&words).unwrap().door else {
        unreachable!()
    };
    assert_eq!(serve.allow.len(), 2);
    assert_eq!(serve.queue_wait.0.as_millis(), 500);
}

#[test]
fn mistakes_are_usage_errors() {
    for words in [
        &["--nope"][..],
        &["-c"],
        &["--memory-limit", "lots"],
        &["--threads", "0"],
        &["--format", "xml"],
        &["--maxrows", "-1"],
        &["demo", "--scale-factor", "0"],
        &["-c", "SELECT 1", "demo"],
        &["--simulate-device", "soon"],
        &["file.sql"],
        &["kernel"],
        &["kernel", "--arch", "compute_90", "SELECT 1"],
        &["kernel", "--arch", "sm_", "SELECT 1"],
        &["--connect", "grpc://h", "doctor"],
        &["--user", "me"],
        &["--param"],
        &["serve", "--listen", "here"],
        &["serve", "--max-statements", "0"],
        &["serve", "--statement-timeout", "0"],
    ] {
        assert_eq!(parsed(words).unwrap_err().exit_code(), 2, "{words:?}");
    }
}
