//! The prompt as its users meet it, through a pseudo-terminal.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::server::Server;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

const LINES: u16 = 24;

struct Terminal {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    /// What came and was not looked for yet.
    seen: String,
    folder: tempfile::TempDir,
}

impl Terminal {
    fn open(variables: &[(&str, &str)]) -> Self {
        let size = Winsize {
            ws_row: LINES,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pair = openpty(Some(&size), None).unwrap();
        let end = |fd: &OwnedFd| fd.try_clone().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env("XDG_STATE_HOME", folder.path())
            .env("XDG_CONFIG_HOME", folder.path())
            .envs(variables.iter().copied())
            .stdin(end(&pair.slave))
            .stdout(end(&pair.slave))
            .stderr(pair.slave)
            .spawn()
            .unwrap();
        let mut screen = File::from(end(&pair.master));
        let (send, receive) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if send.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut terminal = Self {
            child,
            keys: File::from(pair.master),
            screen: receive,
            seen: String::new(),
            folder,
        };
        terminal.sees("tidegate> ");
        terminal
    }

    fn types(&mut self, keys: &str) -> &mut Self {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self
    }

    /// Waits for words on the screen; what comes behind them is looked at by the next call.
    #[track_caller]
    fn sees(&mut self, words: &str) -> &mut Self {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(place) = self.seen.find(words) {
                self.seen.drain(..place + words.len());
                return self;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("no '{words}' in: {}", self.seen)
                }
            }
        }
    }

    /// Interrupts what runs, as Ctrl-C does.
    fn interrupts(&mut self) -> &mut Self {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        self
    }

    /// Starts a statement that writes rows for ever, and waits until it writes them.
    fn writes_for_ever(&mut self) -> &mut Self {
        let rows = self.folder.path().join("rows");
        fs::create_dir(&rows).unwrap();
        self.types(&format!(
            "COPY (SELECT value FROM generate_series(1, 100000000000)) TO '{}/rows.csv';\n",
            rows.display()
        ));
        let deadline = Instant::now() + PATIENCE;
        while fs::read_dir(&rows).unwrap().next().is_none() {
            assert!(Instant::now() < deadline, "no file: {}", self.seen);
            thread::sleep(Duration::from_millis(5));
        }
        self
    }

    /// Leaves the prompt; returns the exit status.
    fn leaves(&mut self) -> i32 {
        self.types("\\q\n");
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A test that failed leaves nothing running.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn statements_and_commands_are_answered() {
    let mut terminal = Terminal::open(&[]);
    terminal
        .types("SELECT 40 +\n2 AS n;\n")
        .sees(" 42 |")
        .sees("1 row in");
    terminal.types("\\x\n").sees("format is expanded");
    terminal
        .types("SELECT 1 AS a;\n")
        .sees("-- row 1 --")
        .sees("a | 1");
    terminal.types(".mode table\n").sees("format is table");
    terminal
        .types("SELECT nope;\n")
        .sees("error:")
        .sees("tidegate> ");
    terminal.types("\\df date_tr\n").sees("date_trunc");
    let out = terminal.folder.path().join("out.csv");
    terminal
        .types(&format!("\\o {}\n", out.display()))
        .sees("results go to");
    terminal.types("\\format csv\n").sees("format is csv");
    terminal.types("SELECT 7 AS n;\n").sees("1 row in");
    assert_eq!(fs::read_to_string(out).unwrap(), "n\n7\n");
    let history = terminal.folder.path().join("tidegate").join("history");
    assert_eq!(terminal.leaves(), 0);
    assert!(
        fs::read_to_string(history)
            .unwrap()
            .contains("SELECT nope;")
    );
}

#[test]
fn tab_completes() {
    let mut terminal = Terminal::open(&[]);
    terminal
        .types("CREATE TABLE pieces (quantity INT) AS VALUES (5);\n")
        .sees("done in");
    terminal
        .types("SELECT max(quan")
        .types("tity) FROM pie\t")
        .sees("pieces");
    terminal.types(" WHERE pieces.qu\t").sees("pieces.quantity");
    terminal.types(" > 1;\n").sees(" 5 |");
    terminal
        .types("\\tim\t")
        .sees("\\timing")
        .types(" off\n")
        .sees("timing is off");
    assert_eq!(terminal.leaves(), 0);
}

#[test]
fn what_is_taller_than_the_screen_is_paged() {
    let folder = tempfile::tempdir().unwrap();
    let paged = folder.path().join("paged");
    let pager = format!("tee {}", paged.display());
    let mut terminal = Terminal::open(&[("TIDEGATE_PAGER", &pager)]);
    terminal
        .types("SELECT 1 AS n;\n")
        .sees(" 1 |")
        .sees("1 row in");
    assert!(!paged.exists());
    terminal
        .types("SELECT value FROM generate_series(1, 30);\n")
        .sees(" 30 |")
        .sees("30 rows in");
    assert_eq!(fs::read_to_string(&paged).unwrap().lines().count(), 35);
    fs::remove_file(&paged).unwrap();
    terminal.types("\\pager off\n").sees("pager is off");
    terminal
        .types("SELECT value FROM generate_series(1, 30);\n")
        .sees("30 rows in");
    assert!(!paged.exists());
    assert_eq!(terminal.leaves(), 0);
}

#[test]
fn tables_fit_the_screen() {
    let mut terminal = Terminal::open(&[("TIDEGATE_PAGER", "cat")]);
    let columns: Vec<String> = (0..40).map(|c| format!("{c} AS column{c}")).collect();
    let wide = format!("SELECT {};\n", columns.join(", "));
    terminal
        .types(&wide)
        .sees("| column0 |")
        .sees(" … ")
        .sees("| column39 |")
        .sees("|   BIGINT |")
        .sees("… 31 of 40 columns are not shown");
    terminal.types("\\x auto\n").sees("wider than the terminal");
    terminal
        .types(&wide)
        .sees("-- row 1 --")
        .sees("column39 | 39");
    terminal.types("SELECT 7 AS n;\n").sees(" 7 |");
    terminal
        .types("EXPLAIN FORMAT INDENT SELECT 1 AS n;\n")
        .sees("-- logical_plan --");
    assert_eq!(terminal.leaves(), 0);
}

#[test]
fn ctrl_c_cancels_the_statement_alone() {
    // What shows how far it has come has begun.
    let mut terminal = Terminal::open(&[("NO_COLOR", "")]);
    let long = "SELECT count(*) FROM generate_series(1, 1000) a, generate_series(1, 2000000000) b \
                WHERE a.value + b.value = 3;\n";
    terminal.types(long).sees(" rows, ");
    terminal.interrupts().sees("cancelled").sees("tidegate> ");
    terminal.types("SELECT 3 AS n;\n").sees(" 3 |");
    terminal.types("\\watch 0.1\n").sees(" 3 |").sees(" 3 |");
    terminal.interrupts().sees("tidegate> ");
    assert_eq!(terminal.leaves(), 0);
}

#[test]
fn long_queries_show_how_far_they_have_come() {
    let long = "SELECT count(*) FROM generate_series(1, 100000000000) WHERE value % 7 = 3;\n";
    let mut terminal = Terminal::open(&[("NO_COLOR", "")]);
    terminal.types(long).sees(" rows, 1 s").sees(" rows, 2 s");
    terminal.interrupts().sees("cancelled").sees("tidegate> ");
    terminal.types("\\progress off\n").sees("progress is off");
    terminal.writes_for_ever().interrupts().sees("cancelled");
    assert_eq!(terminal.leaves(), 0);
}

#[test]
fn secrets_are_kept_out_of_the_history() {
    let mut terminal = Terminal::open(&[]);
    terminal
        .types("COPY (SELECT 1) TO 'x.csv' OPTIONS ('aws.secret_access_key' 'hush');\n")
        .sees("is none of the store of 'x.csv'")
        .sees("tidegate> ");
    terminal.types("\\set k 41\n").sees("41").sees("tidegate> ");
    terminal.types("\\set\n").sees("k = 41");
    terminal.types("SELECT $k + 1 AS n;\n").sees(" 42 |");
    let history = terminal.folder.path().join("tidegate").join("history");
    assert_eq!(terminal.leaves(), 0);
    let history = fs::read_to_string(history).unwrap();
    assert!(history.contains("aws.secret_access_key") && !history.contains("hush"));
}

#[test]
fn a_server_tells_how_far_its_queries_have_come() {
    let server = Server::start(&[]);
    let url = server.url.as_str();
    let mut terminal = Terminal::open(&[("NO_COLOR", ""), ("TIDEGATE_CONNECT", url)]);
    let long = "SELECT count(*) FROM generate_series(1, 100000000000) WHERE value % 7 = 3;\n";
    terminal.types(long).sees(" rows, ").sees(" rows, ");
    terminal.interrupts().sees("cancelled").sees("tidegate> ");
    terminal.types("SELECT 40 + 2 AS n;\n").sees("42");
    assert_eq!(terminal.leaves(), 0);
}

/// Waits until a process has ended; returns its exit status.
fn ends(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(Instant::now() < deadline, "it goes on");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_hangup_ends_the_statement_and_the_prompt() {
    let mut terminal = Terminal::open(&[]);
    terminal.writes_for_ever();
    kill(Pid::from_raw(terminal.child.id() as i32), Signal::SIGHUP).unwrap();
    assert_eq!(ends(&mut terminal.child), Some(129));
}

#[test]
fn a_terminal_that_is_closed_ends_the_statement_and_the_prompt() {
    let pair = openpty(None, None).unwrap();
    let end = |fd: &OwnedFd| fd.try_clone().unwrap();
    // Not the process's own: a child would have it too, and the terminal would stay.
    let mut keys = File::from(end(&pair.master));
    drop(pair.master);
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["--quiet"])
        .env("TERM", "dumb")
        .env("XDG_STATE_HOME", folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        .stdin(end(&pair.slave))
        .stdout(end(&pair.slave))
        .stderr(pair.slave)
        .spawn()
        .unwrap();
    let rows = folder.path().join("rows");
    fs::create_dir(&rows).unwrap();
    let statement = format!(
        "COPY (SELECT value FROM generate_series(1, 100000000000)) TO '{}/rows.csv';\n",
        rows.display()
    );
    keys.write_all(statement.as_bytes()).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while fs::read_dir(&rows).unwrap().next().is_none() {
        assert!(Instant::now() < deadline, "no file");
        thread::sleep(Duration::from_millis(5));
    }
    drop(keys);
    assert_eq!(ends(&mut child), Some(129));
}
