//! Where values come from: the configuration file, the environment, the command line and its parameters.

use std::fs;
use std::path::Path;

use crate::command::{Ran, path, run, tidegate};

#[test]
fn values_come_from_the_file_the_environment_and_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "c.toml");
    fs::write(
        &file,
        "format = \"csv\"\nthreads = 3\n[tidegate]\nplacement = \"host\"\nmorsel_rows = 7\n",
    )
    .unwrap();
    let query = "SELECT value FROM information_schema.df_settings WHERE name IN \
                 ('tidegate.placement', 'tidegate.morsel_rows', \
                 'datafusion.execution.target_partitions') ORDER BY name";
    let words = ["--config", &file, "-c", query];
    run(words).prints("value\n3\n7\nhost\n");
    let mut with_variables = tidegate(words);
    with_variables
        .env("TIDEGATE_PLACEMENT", "device")
        .env("TIDEGATE_THREADS", "2");
    Ran::of(with_variables.output().unwrap()).prints("value\n2\n7\ndevice\n");
    let mut with_all = tidegate(words);
    with_all
        .env("TIDEGATE_PLACEMENT", "device")
        .args(["--set", "tidegate.placement=auto"]);
    with_all.args(["--threads", "1", "--format", "tsv"]);
    Ran::of(with_all.output().unwrap()).prints("value\n1\n7\nauto\n");
    let told = run([
        "config",
        "--config",
        &file,
        "--set",
        "datafusion.catalog.location=/x",
    ]);
    for words in [
        "threads,3,",
        "tidegate.morsel_rows,7,",
        "datafusion.catalog.location,/x,--set",
    ] {
        assert!(told.out.contains(words), "{words}: {}", told.out);
    }
    assert_eq!(told.out.matches(&file).count(), 4, "{}", told.out);
}

#[test]
fn mistakes_in_the_configuration_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "c.toml");
    let with = |text: &str| {
        fs::write(&file, text).unwrap();
        run(["--config", &file, "-c", "SELECT 1"])
    };
    for (text, words) in [
        ("thread = 1", "did you mean threads?"),
        ("threads = 0", "threads = '0'"),
        (
            "[tidegate]\nplacemnt = 1",
            "did you mean tidegate.placement?",
        ),
        (
            "[tidegate]\nplacement = 1",
            "expected auto, host, device or strict",
        ),
        ("[datafusion]\nnope = 1", "nope"),
    ] {
        let ran = with(text);
        assert!(matches!(ran.code, Some(1 | 2)), "{}", ran.err);
        assert!(
            ran.err.contains(words) && ran.err.contains(&file),
            "{words}: {}",
            ran.err
        );
    }
    let missing = run(["--config", "/nope.toml", "-c", "SELECT 1"]);
    assert_eq!(missing.code, Some(2));
    let mut wrong = tidegate(["-c", "SELECT 1"]);
    let wrong = Ran::of(wrong.env("TIDEGATE_PLACEMNT", "x").output().unwrap());
    assert!(
        wrong.err.contains("did you mean TIDEGATE_PLACEMENT?"),
        "{}",
        wrong.err
    );
    assert_eq!(run(["--set", "x", "-c", "SELECT 1"]).code, Some(2));
}

#[test]
fn the_reference_page_is_what_the_code_says() {
    let page = run(["config", "--reference"]).out;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIGURATION.md");
    if std::env::var_os("TIDEGATE_UPDATE_DOCS").is_some() {
        fs::write(&file, &page).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == page,
        "docs/CONFIGURATION.md is not what `tidegate config --reference` prints; \
         TIDEGATE_UPDATE_DOCS=1 writes it anew"
    );
}

#[test]
fn values_stand_in_for_their_names() {
    let words = |more: &[&'static str]| {
        let first = ["--format", "csv", "--param", "k=3", "--param", "s=O'Hara"];
        run(first.into_iter().chain(more.iter().copied()))
    };
    words(&["-c", "SELECT $k + 1 AS n, $s AS s, '$k' AS t"]).prints("n,s,t\n4,O'Hara,$k\n");
    words(&[
        "-c",
        "SELECT $k AS a;\n\\set k DATE '2024-01-31'\nSELECT $k AS b",
    ])
    .prints("a\n3\nb\n2024-01-31\n");
    words(&["-c", "\\unset k\n\\unset k"]).fails(&["there is no value of the name k"]);
    words(&["-c", "SELECT $other"]).fails(&["$other"]);
    let wrong = run(["--param", "1=2", "-c", "SELECT 1"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("not a parameter name"), "{}", wrong.err);
}
