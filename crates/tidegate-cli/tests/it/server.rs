//! A server that a test starts, for as long as the value lives.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

impl Server {
    /// Starts `tidegate serve` on a free port, with these words behind.
    pub(crate) fn start(words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(words)
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap();
        Self {
            url: url.to_string(),
            child,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that failed leaves nothing running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
