//! Nobody waits for a log that is stuck.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use parking_lot::Mutex;

use super::{LINES_MAX, Lines, Log, LogFormat, Told};

/// Takes nothing until it is let go.
struct Stuck {
    until: Receiver<()>,
    written: Arc<Mutex<String>>,
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Once the other end is gone, it is let go for good.
        let _ = self.until.recv();
        let text = std::str::from_utf8(bytes).unwrap();
        self.written.lock().push_str(text);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn stuck(format: LogFormat) -> (Lines, Sender<()>, Arc<Mutex<String>>) {
    let (go, until) = channel();
    let written = Arc::new(Mutex::new(String::new()));
    let out = Stuck {
        until,
        written: Arc::clone(&written),
    };
    (Lines::start(out, format).unwrap(), go, written)
}

#[test]
fn nobody_waits_for_a_log_that_is_stuck() {
    let (mut lines, go, written) = stuck(LogFormat::Json);
    let num_lines = 3 * LINES_MAX;
    for number in 0..num_lines {
        let line = format!("{{\"line\":{number}}}\n");
        assert_eq!(lines.write(line.as_bytes()).unwrap(), line.len());
    }
    drop(go);
    let (ended, has_ended) = sync_channel(1);
    lines.queue.send(Told::End(ended)).unwrap();
    has_ended.recv().unwrap();
    let written = written.lock();
    let read = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let read: Vec<_> = written.lines().map(read).collect();
    let kept = read.iter().filter_map(|line| line["line"].as_u64());
    let missing: u64 = read.iter().filter_map(|line| line["lines"].as_u64()).sum();
    let kept: Vec<u64> = kept.collect();
    assert!(
        kept.is_sorted() && kept.len() >= LINES_MAX,
        "{}",
        kept.len()
    );
    assert!(missing > 0);
    assert_eq!(kept.len() as u64 + missing, num_lines as u64);
}

#[test]
fn a_stuck_log_does_not_keep_the_process() {
    let (mut lines, _go, written) = stuck(LogFormat::Text);
    lines.write_all(b"last words\n").unwrap();
    drop(Log(lines));
    assert_eq!(*written.lock(), "");
}
