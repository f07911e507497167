//! `tidegate --connect` beside `tidegate` alone: the same statements, formats, commands and values.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::server::Server;

fn tidegate(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(words)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stdin(Stdio::null());
    command
}

fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn a_server_answers_as_this_process_does() {
    let server = Server::start(&[]);
    let script = "\\timing off\nCREATE TABLE t AS SELECT value AS v FROM range(0, 5);\n\
                  \\d t\nSELECT $k AS k, sum(v) AS s, $name AS n, DATE '2024-01-31' AS d, NULL AS z \
                  FROM t WHERE v < $k;\n\\set k 2\n\\set\nSELECT $k;\nINSERT INTO t VALUES (9);\n\
                  SELECT count(*) FROM t WHERE false GROUP BY v;\nSET tidegate.cache = 'off';\n\
                  SHOW tidegate.cache;\n";
    for format in [
        "csv", "tsv", "json", "ndjson", "markdown", "table", "expanded",
    ] {
        let words = [
            "--format",
            format,
            "--param",
            "k=4",
            "--param",
            "name=it's",
            "-c",
            script,
        ];
        let here = told(&tidegate(&words).output().unwrap());
        let there = [&["--connect", &server.url], &words[..]].concat();
        let drop = "DROP TABLE IF EXISTS t";
        let there = told(&tidegate(&there).output().unwrap());
        assert_eq!(here.0, Some(0), "{}", here.2);
        assert_eq!(there, here, "{format}");
        assert!(here.1.contains("it's"), "{}", here.1);
        let words = ["--connect", &server.url, "-c", drop];
        assert!(tidegate(&words).status().unwrap().success());
    }
    let words = [
        "--connect",
        &server.url,
        "-c",
        "SELECT 1;\nSELECT * FROM nope",
    ];
    let (status, out, err) = told(&tidegate(&words).output().unwrap());
    assert_eq!(status, Some(1));
    assert!(
        out.contains("| 1")
            && err.contains(
                "table 'nope' not found\n  1 | SELECT * FROM nope\n    |               ^^^^\n"
            ),
        "{err}"
    );
    // Arrow as it came.
    let words = [
        "--connect",
        &server.url,
        "--format",
        "arrow",
        "-c",
        "SELECT 1 AS a",
    ];
    let output = tidegate(&words).output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(&[0xff; 4]));
    // Statements by standard input.
    let mut child = tidegate(&["--connect", &server.url, "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"SELECT 3 AS x;")
        .unwrap();
    assert_eq!(told(&child.wait_with_output().unwrap()).1, "x\n3\n");
}

#[test]
fn secrets_come_by_file_or_variable() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", "hash-password"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"open sesame\n")
        .unwrap();
    let hash = told(&child.wait_with_output().unwrap()).1;
    let users = format!(
        "[[users]]\nname = \"ada\"\npassword = \"{}\"\n",
        hash.trim()
    );
    let server = Server::start(&["--users", &file("users.toml", &users)]);
    let query = |words: &[&str]| {
        let all = [
            &[
                "--connect",
                &server.url,
                "--format",
                "csv",
                "-c",
                "SELECT 1 AS a",
            ],
            words,
        ];
        tidegate(&all.concat())
    };
    let password = file("password", "open sesame\n");
    let told_of = |mut command: Command| told(&command.output().unwrap());
    let answered = (Some(0), "a\n1\n".to_string(), String::new());
    let by_file = query(&["--user", "ada", "--password-file", &password]);
    assert_eq!(told_of(by_file), answered);
    let mut by_variable = query(&["--user", "ada"]);
    by_variable.env("TIDEGATE_PASSWORD", "open sesame");
    assert_eq!(told_of(by_variable), answered);
    for (words, variable, expect) in [
        (&[][..], "", "--user"),
        (&["--user", "ada"], "guess", "wrong, for the user ada"),
        (&["--user", "ada"], "", "wrong, for the user ada"),
        (
            &["--user", "ada", "--password-file", "/no/such"],
            "",
            "cannot read /no/such",
        ),
        (&["--token-file", &password], "", "token"),
    ] {
        let mut command = query(words);
        if !variable.is_empty() {
            command.env("TIDEGATE_PASSWORD", variable);
        }
        let (status, out, err) = told_of(command);
        assert_eq!((status, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains(expect) && !err.contains("sesame"), "{err}");
    }
    let mut unknown = tidegate(&["--connect", "https://x", "-c", "SELECT 1"]);
    let (status, _, err) = told(&unknown.output().unwrap());
    assert!(
        status == Some(1) && err.contains("expected grpc+tls://"),
        "{err}"
    );
}

#[test]
fn rows_left_out_are_told_by_a_server_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().canonicalize().unwrap().join("t.csv");
    fs::write(&file, "a,b\n1,2\n3\n4,5\n").unwrap();
    let allow = folder.path().canonicalize().unwrap().display().to_string();
    let server = Server::start(&["--allow", &allow]);
    let file = file.display();
    let query = format!("SELECT sum(a) AS s FROM read_csv('{file}', ignore_errors => true)");
    let words = ["--connect", &server.url, "--format", "csv", "-c", &query];
    let (status, out, err) = told(&tidegate(&words).output().unwrap());
    assert_eq!((status, out.as_str()), (Some(0), "s\n5\n"), "{err}");
    assert!(
        err.contains("ignore_errors left out 1 row: line 3"),
        "{err}"
    );
}
