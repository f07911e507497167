//! Standard input and inherited pipes as tables.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn tidegate(words: &[&str]) -> Command {
    printing("csv", words)
}

fn printing(format: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(["--format", format])
        .args(words)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command with these bytes on its standard input; the command may end before it has read them.
fn sent(mut command: Command, bytes: Vec<u8>) -> Output {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || drop(stdin.write_all(&bytes)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

#[track_caller]
fn gives(sql: &str, bytes: &[u8], out: &str) {
    let output = sent(tidegate(&["-c", sql]), bytes.to_vec());
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), out, "{err}");
    assert_eq!(output.status.code(), Some(0), "{err}");
}

#[track_caller]
fn fails(words: &[&str], bytes: &[u8], message: &str) {
    let output = sent(tidegate(words), bytes.to_vec());
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains(message), "{err}");
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(output.stdout, b"", "{err}");
}

const ROWS: &str = "SELECT value AS a, 'x' || value AS b FROM generate_series(1, 3)";
const SHOWN: &str = "a,b\n1,x1\n2,x2\n3,x3\n";

/// Returns the rows as a file of a format.
fn file(format: &str) -> Vec<u8> {
    let output = printing(format, &["-c", ROWS]).output().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[test]
fn formats_are_found_from_the_first_bytes() {
    let all = "SELECT * FROM '/dev/stdin' ORDER BY a";
    for format in ["csv", "ndjson", "parquet", "arrow"] {
        gives(all, &file(format), SHOWN);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.arrow");
    let copy = format!("COPY ({ROWS}) TO '{}'", path.display());
    assert!(tidegate(&["-c", &copy]).status().unwrap().success());
    let ipc_file = fs::read(path).unwrap();
    assert!(ipc_file.starts_with(b"ARROW1") && !file("arrow").starts_with(b"ARROW1"));
    gives(all, &ipc_file, SHOWN);
    gives(
        all,
        b"[{\"a\": 1, \"b\": \"x1\"}, {\"a\": 2}]",
        "a,b\n1,x1\n2,\n",
    );
    gives(all, b"a;b\n1;x,y\n", "a,b\n1,\"x,y\"\n");
    gives(all, b"a\tb\n1\tx\n", "a,b\n1,x\n");
    gives(all, b"\xef\xbb\xbfa,b\r\n1,x\r\n", "a,b\n1,x\n");
}

#[test]
fn an_input_is_read_once_and_may_be_used_often() {
    let twice = "SELECT count(*) AS n FROM '/dev/stdin' l JOIN '-' r USING (a); \
                 SELECT max(a) AS m FROM '/dev/fd/0'";
    gives(twice, &file("csv"), "n\n3\nm\n3\n");
    let mut many = b"a\n".to_vec();
    for number in 0..200_000 {
        writeln!(many, "{number}").unwrap();
    }
    gives(
        "SELECT count(*) AS n, sum(a) AS s FROM '-'",
        &many,
        "n,s\n200000,19999900000\n",
    );
}

#[test]
fn an_external_table_says_how_to_read_it() {
    let create = "CREATE EXTERNAL TABLE t(k INT, v VARCHAR) STORED AS CSV LOCATION '/dev/stdin' \
                  OPTIONS ('format.has_header' 'false', 'format.delimiter' ':'); SELECT * FROM t ORDER BY k";
    gives(create, b"2:b\n1:01\n", "k,v\n1,01\n2,b\n");
}

#[test]
fn what_is_no_table_is_an_error() {
    let all = ["-c", "SELECT * FROM '/dev/stdin'"];
    fails(&all, b"", "'/dev/stdin' is empty");
    fails(
        &all,
        b"\x1f\x8b\x08\0\0",
        "compressed with gzip: decompress it first",
    );
    fails(&all, &[0; 1000], "neither CSV, JSON, Parquet nor Arrow");
    fails(&all, b"PAR1 and no more", "arquet");
    let limited = ["--temp-limit", "1MB", "-c", "SELECT * FROM '/dev/stdin'"];
    fails(&limited, &b"a,b\n".repeat(1_000_000), "(--temp-limit)");
    // The script is standard input.
    fails(&[], b"SELECT * FROM '/dev/stdin'", "'/dev/stdin' is empty");
}

#[test]
fn nothing_is_left_in_the_folder_of_temporary_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let words = ["--temp-dir", path, "-c", "SELECT count(*) AS n FROM '-'"];
    let output = sent(tidegate(&words), file("csv"));
    assert_eq!(output.stdout, b"n\n3\n");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_pipe_of_the_shell_is_a_table() {
    let binary = env!("CARGO_BIN_EXE_tidegate");
    let script = format!(
        "{binary} --format csv -c \"SELECT sum(a) AS s FROM '\"<(printf 'a\\n1\\n2\\n')\"'\""
    );
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.stdout, b"s\n3\n", "{script} {err}");
}

#[test]
fn other_pipes_and_devices_are_errors_and_block_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.csv");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let began = Instant::now();
    for path in [
        pipe.as_path(),
        Path::new("/dev/zero"),
        Path::new("/dev/null"),
    ] {
        let select = format!("SELECT * FROM '{}'", path.display());
        fails(&["-c", &select], b"", "not a file");
        let create = format!(
            "CREATE EXTERNAL TABLE t(a INT) STORED AS CSV LOCATION '{}'; SELECT * FROM t",
            path.display()
        );
        fails(&["-c", &create], b"", "not a file");
    }
    assert!(began.elapsed() < Duration::from_secs(60));
}
