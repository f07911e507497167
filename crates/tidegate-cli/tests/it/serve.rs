//! `tidegate serve` as whoever runs it meets it: what it prints, what it refuses, how it ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};

fn serve(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .arg("serve")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a server that must not start; returns what it says.
fn refused(words: &[&str]) -> String {
    let output = serve(words).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
    said
}

/// Starts a server on a free port; returns it and its address.
fn started(words: &[&str]) -> (Child, String) {
    let mut child = serve(&[&["--listen", "127.0.0.1:0"], words].concat())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = child.stdout.as_mut().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on grpc://");
    (child, address.unwrap().to_string())
}

fn terminated(child: Child) -> Output {
    let id = child.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &id]).status().unwrap();
    assert!(killed.success());
    child.wait_with_output().unwrap()
}

#[test]
fn a_server_says_where_it_listens_and_ends_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let init = folder.path().join("init.sql");
    fs::write(&init, "CREATE TABLE t AS VALUES (1);\nSELECT * FROM t;\n").unwrap();
    let init = init.to_str().unwrap();
    let mut child = serve(&["--listen", "127.0.0.1:0", "--init", init, "--format", "csv"])
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = Vec::new();
    while !lines
        .last()
        .is_some_and(|line: &String| line.starts_with("listening"))
    {
        let mut line = String::new();
        assert!(out.read_line(&mut line).unwrap() > 0, "{lines:?}");
        lines.push(line);
    }
    assert_eq!(lines[..2], ["column1\n", "1\n"]);
    let ended = terminated(child);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(said.contains("shutting down"), "{said}");
}

#[test]
fn a_server_that_is_not_safe_or_not_whole_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let said = refused(&["--listen", "0.0.0.0:0"]);
    assert!(
        said.contains("--tls-cert") && said.contains("--insecure"),
        "{said}"
    );
    let said = refused(&["--users", &at("users.toml", "")]);
    assert!(said.contains("lists no users"), "{said}");
    let said = refused(&["--allow", "/no/such/folder"]);
    assert!(said.contains("/no/such/folder"), "{said}");
    let (cert, key) = (at("cert.pem", "x"), at("key.pem", "x"));
    let said = refused(&[
        "--listen",
        "127.0.0.1:0",
        "--tls-cert",
        &cert,
        "--tls-key",
        &key,
    ]);
    assert!(said.contains("certificate"), "{said}");
    let said = refused(&["--tls-cert", &cert]);
    assert!(said.contains("--tls-key"), "{said}");
    let said = refused(&["--http-port", "0.0.0.0:0"]);
    assert!(said.contains("0.0.0.0:0 can be reached"), "{said}");
    let said = refused(&["--init", &at("init.sql", "SELECT * FROM nowhere")]);
    assert!(said.contains("nowhere"), "{said}");
    let said = refused(&["--set", "tidegate.placement=nowhere"]);
    assert!(said.contains("--set: "), "{said}");
    // Neither does the init file reach what was not allowed.
    let outside = at("t.csv", "a\n1\n");
    let init = format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{outside}'");
    let said = refused(&["--init", &at("outside.sql", &init)]);
    assert!(said.contains("outside the paths"), "{said}");
    let (child, address) = started(&[]);
    let said = refused(&["--listen", &address]);
    assert!(said.contains("cannot listen"), "{said}");
    TcpStream::connect(&address).unwrap();
    assert!(terminated(child).status.success());
}

#[test]
fn health_is_told_over_http_and_the_log_is_json() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("c.toml");
    fs::write(
        &config,
        "[serve]\nlisten = \"127.0.0.1:0\"\nlog_format = \"json\"\n",
    )
    .unwrap();
    let config = config.to_str().unwrap();
    let mut child = serve(&["--config", config, "--http-port", "0"])
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = [String::new(), String::new()];
    for line in &mut lines {
        out.read_line(line).unwrap();
    }
    let [flight, http] = &lines;
    assert!(
        flight.starts_with("listening on grpc://127.0.0.1:"),
        "{flight}"
    );
    let address = http.trim().rsplit_once("http://").unwrap().1;
    for (path, expect) in [
        ("/health", "ok\n"),
        ("/ready", "ready\n"),
        ("/metrics", "# EOF\n"),
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nhost: 127.0.0.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with(expect), "{path}: {answer}");
    }
    let ended = terminated(child);
    let said = String::from_utf8(ended.stderr).unwrap();
    let told = said.lines().filter(|line| line.starts_with('{'));
    let told: Vec<serde_json::Value> = told
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let messages: Vec<_> = told
        .iter()
        .map(|line| line["message"].as_str().unwrap())
        .collect();
    assert_eq!(messages[0], "listening", "{said}");
    assert!(
        messages
            .iter()
            .any(|message| message.starts_with("shutting down")),
        "{said}"
    );
}

#[test]
fn passwords_are_hashed_for_the_users_file() {
    let hash = |password: &str| {
        let mut child = serve(&["hash-password"]).spawn().unwrap();
        let written = child.stdin.take().unwrap().write_all(password.as_bytes());
        written.unwrap();
        child.wait_with_output().unwrap()
    };
    let output = hash("secret\n");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.starts_with("$argon2id$") && text.ends_with('\n'),
        "{text}"
    );
    assert!(!text.contains("secret"));
    assert_eq!(hash("\n").status.code(), Some(1));
}
