//! The command, run for a test: what it printed where, and how it ended.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: Output) -> Self {
        let ran = Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        let all = format!("{}{}", ran.out, ran.err);
        assert!(
            !all.contains("panicked") && !all.contains("RUST_BACKTRACE"),
            "{all}"
        );
        assert!(!all.contains("internal error"), "{all}");
        ran
    }

    #[track_caller]
    pub(crate) fn prints(self, out: &str) -> Self {
        assert_eq!(
            (self.out.as_str(), self.code),
            (out, Some(0)),
            "{}",
            self.err
        );
        self
    }

    #[track_caller]
    pub(crate) fn fails(self, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(1), "{} {}", self.out, self.err);
        assert!(self.err.contains("error: "), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "no '{word}' in: {}", self.err);
        }
        self
    }
}

pub(crate) fn tidegate<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command
        .args(words)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env_remove("TIDEGATE_MEMORY_LIMIT")
        .stdin(Stdio::null());
    command
}

pub(crate) fn run<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Ran {
    Ran::of(tidegate(words).output().unwrap())
}

pub(crate) fn sql(text: &str) -> Ran {
    run(["--format", "csv", "-c", text])
}

pub(crate) fn piped(words: &[&str], script: &[u8]) -> Ran {
    let mut child = tidegate(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(script).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

pub(crate) fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_string()
}
