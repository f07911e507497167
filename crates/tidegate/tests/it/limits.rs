//! No function takes more memory than a statement may have, whatever its arguments are.
//!
//! Every function that there is runs with huge arguments in a process of its own, whose address space is
//! limited: what allocates past the limit aborts it. Each statement answers or fails, and the process's
//! peak of resident memory stays below one and a half times the limit of statements.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate::Session;

const LIMIT_BYTES: u64 = 512 << 20;

/// Kilobytes of address space: the limit, what the process takes by itself, and stacks and allocators'
/// arenas, of which most is never touched.
const ADDRESS_SPACE_KB: u64 = 4 << 20;

const CHILD: &str = "TIDEGATE_TEST_LIMITS_CHILD";

/// Values that make functions large: a long string, a large number, a long list, and something small.
const STRING: &str = "repeat('ab', 500000)";
const NUMBER: &str = "2000000000";
const LIST: &str = "range(0, 1000000)";
const SMALL: &str = "'b'";

#[test]
fn functions_of_huge_arguments_stay_within_the_limit() {
    if env::var_os(CHILD).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(call_everything());
        return;
    }
    let own = env::current_exe().unwrap();
    let test = "limits::functions_of_huge_arguments_stay_within_the_limit";
    let run = Command::new("bash")
        .arg("-c")
        .arg(format!(
            "ulimit -v {ADDRESS_SPACE_KB} && exec \"$0\" --exact {test} --nocapture"
        ))
        .arg(own)
        .env(CHILD, "1")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&run.stdout);
    let last = told.lines().rfind(|line| line.starts_with("SELECT"));
    let errors = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success(),
        "{}; {errors}\nlast statement: {}",
        run.status,
        last.unwrap_or("none")
    );
}

async fn call_everything() {
    let session = Session::builder()
        .memory_limit(LIMIT_BYTES)
        .build()
        .unwrap();
    session
        .set("tidegate.statement_timeout", "10000")
        .await
        .unwrap();
    let mut told = std::io::stdout();
    let mut broken = Vec::new();
    for sql in statements(&session) {
        // Whatever the process dies of, the last line says where.
        told.write_all(format!("{sql}\n").as_bytes()).unwrap();
        let before = forget_peak();
        let began = Instant::now();
        let answer = tokio::time::timeout(Duration::from_secs(120), session.collect(&sql)).await;
        let peak = peak_bytes().saturating_sub(before);
        if peak > LIMIT_BYTES / 2 {
            told.write_all(format!("  {} MB in {:?}\n", peak >> 20, began.elapsed()).as_bytes())
                .unwrap();
        }
        match answer {
            Err(_) => broken.push(format!("not done after {:?}: {sql}", began.elapsed())),
            Ok(Err(error)) if says_it_is_ours(&error) => broken.push(format!("{error}: {sql}")),
            Ok(_) => {}
        }
        if peak > LIMIT_BYTES + LIMIT_BYTES / 2 {
            // Memory that was freed goes back later on a busy machine: what a statement needs, it needs again.
            let before = forget_peak();
            let _ = tokio::time::timeout(Duration::from_secs(120), session.collect(&sql)).await;
            let again = peak_bytes().saturating_sub(before);
            if again > LIMIT_BYTES + LIMIT_BYTES / 2 {
                broken.push(format!("took {} and {} MB: {sql}", peak >> 20, again >> 20));
            }
        }
    }
    assert!(
        broken.is_empty(),
        "{} statements:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

/// Tells whether an error says that the engine is broken, and not the statement.
fn says_it_is_ours(error: &tidegate::Error) -> bool {
    let text = error.to_string();
    error.kind() == tidegate::ErrorKind::Internal || text.contains("panicked")
}

fn statements(session: &Session) -> Vec<String> {
    let state = session.context().state();
    let scalar: BTreeSet<String> = state
        .scalar_functions()
        .values()
        .map(|function| function.name().to_string())
        .collect();
    assert!(scalar.len() > 150, "{} scalar functions", scalar.len());
    let mut all = Vec::new();
    let arguments = [STRING, NUMBER, LIST, SMALL];
    for name in &scalar {
        // Where this process is not asked to be: what sleeps or ends it would go here.
        for one in arguments {
            all.push(format!("SELECT {name}({one})"));
            for two in arguments {
                all.push(format!("SELECT {name}({one}, {two})"));
                if one == SMALL {
                    continue;
                }
                for three in [STRING, NUMBER] {
                    all.push(format!("SELECT {name}({one}, {two}, {three})"));
                }
            }
        }
    }
    all.extend([
        format!("SELECT regexp_replace({STRING}, 'a', {STRING}, 'g')"),
        "SELECT array_repeat(array_repeat(repeat('x', 1000), 1000), 1000)".to_string(),
        "SELECT generate_series(TIMESTAMP '0001-01-01', TIMESTAMP '2200-01-01', INTERVAL '1 second')".to_string(),
        "SELECT range(DATE '0001-01-01', DATE '9999-01-01', INTERVAL '1 day') FROM range(5000)".to_string(),
        format!("SELECT {STRING} || {STRING} || value FROM range(5000)"),
    ]);
    let doubled =
        (1..16).map(|level| format!("w{level} AS (SELECT a || a AS a FROM w{})", level - 1));
    let doubled: Vec<String> = doubled.collect();
    all.push(format!(
        "WITH w0 AS (SELECT repeat('x', 60000 + value) AS a FROM range(1)), {} SELECT length(a) FROM w15",
        doubled.join(", ")
    ));
    // Strings of 10 KB, a gigabyte in all.
    let rows = "(SELECT repeat('x', 10000 + value % 2) AS x, value AS n FROM range(100000))";
    for call in [
        "length(string_agg(x, ','))",
        "cardinality(array_agg(x))",
        "count(DISTINCT x || n)",
        "max(x || n)",
        "cardinality(array_agg(DISTINCT x || n))",
        "first_value(x ORDER BY n)",
    ] {
        all.push(format!("SELECT {call} FROM {rows}"));
    }
    all
}

/// Has the system begin anew with the peak; returns what is resident now.
fn forget_peak() -> u64 {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    peak_bytes()
}

fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap();
    kilobytes << 10
}
