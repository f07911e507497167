//! The guide and the README are true: their SQL and shell blocks run, and print what the page shows.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A fenced block of a page.
#[derive(Debug)]
struct Block {
    kind: String,
    text: String,
    line: usize,
}

/// Begins a line that is typed, in a block that shows a screen.
const TYPED: &str = "$ ";

/// Stands for lines of a screen that a page leaves out.
const LEFT_OUT: &str = "…\n";

/// Runs the command of a screen, and compares what it prints with what is shown of it.
fn shows_a_screen(screen: &str, place: &str, folder: &Path) {
    let (typed, shown) = screen.split_once('\n').unwrap();
    let command = format!("{} 2>&1", typed.strip_prefix(TYPED).unwrap());
    let output = run("bash", &["-euo", "pipefail", "-c", &command], folder);
    let out = text(&output.stdout);
    assert!(output.status.success(), "{place}: {out}");
    let mut rest = out.as_str();
    for part in shown.split(LEFT_OUT) {
        let found = rest.find(part);
        let found = found.unwrap_or_else(|| panic!("{place}: not shown:\n{part}\nin:\n{out}"));
        rest = &rest[found + part.len()..];
    }
}

/// Cuts the fenced blocks out of a page; one within a list is as far indented as its fence.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let Some(kind) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let inner = lines.by_ref().map(|(line, _)| line);
        let inner = inner.take_while(|line| !line.trim_start().starts_with("```"));
        let text: Vec<&str> = inner.map(|line| line.get(indent..).unwrap_or("")).collect();
        blocks.push(Block {
            kind: kind.trim().to_string(),
            text: text.join("\n") + "\n",
            line: number,
        });
    }
    blocks
}

fn run(program: &str, words: &[&str], folder: &Path) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_tidegate"));
    let paths = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{paths}", binary.parent().unwrap().display());
    Command::new(program)
        .args(words)
        .current_dir(folder)
        .env("PATH", path)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Runs a page's blocks in a folder; returns for each block that ran what it printed.
fn run_page(name: &str, blocks: &[Block], folder: &Path) -> Vec<(usize, String)> {
    let mut printed = Vec::new();
    // The SQL of a page is one session, each block of which prints into a file of its own.
    let mut script = String::new();
    let mut statements = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        match block.kind.as_str() {
            "sql" => {
                script.push_str(&format!("\\o {index}.out\n{}", block.text));
                statements.push(index);
            }
            "sh" => {
                let words = ["-euo", "pipefail", "-c", &block.text];
                let output = run("bash", &words, folder);
                let (out, err) = (text(&output.stdout), text(&output.stderr));
                let place = format!("{name}, line {}", block.line);
                assert!(output.status.success(), "{place}: {out}{err}");
                printed.push((index, out));
            }
            "text" if block.text.starts_with(TYPED) => {
                let place = format!("{name}, line {}", block.line);
                shows_a_screen(&block.text, &place, folder);
            }
            // Text is compared; building and Python are what continuous integration does. An example is
            // over tables of the reader's.
            "text" | "sql example" | "toml" | "yaml" | "promql" | "rust" | "sh build"
            | "python" => {}
            other => panic!("{name}, line {}: a block of the kind '{other}'", block.line),
        }
    }
    if !statements.is_empty() {
        fs::write(folder.join("page.sql"), script).unwrap();
        let words = ["--quiet", "-f", "page.sql"];
        let output = run(env!("CARGO_BIN_EXE_tidegate"), &words, folder);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    }
    for index in statements {
        let out = fs::read_to_string(folder.join(format!("{index}.out"))).unwrap();
        printed.push((index, out));
    }
    printed
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a page, and compares what its blocks print with what it shows; returns how many ran, and how many were
/// compared.
fn check_page(path: &Path) -> (usize, usize) {
    let (mut num_run, mut num_shown) = (0, 0);
    let page = fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let blocks = blocks(&page);
    for (index, out) in run_page(name, &blocks, folder.path()) {
        num_run += 1;
        let next = blocks.get(index + 1).filter(|next| next.kind == "text");
        if let Some(shown) = next.filter(|next| !next.text.starts_with(TYPED)) {
            let place = format!("{name}, line {}", blocks[index].line);
            assert_eq!(out.trim_end(), shown.text.trim_end(), "{place}\n{out}");
            num_shown += 1;
        }
    }
    (num_run, num_shown)
}

#[test]
fn every_block_runs_and_prints_what_is_shown() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
    let (mut num_run, mut num_shown) = (0, 0);
    for entry in fs::read_dir(guide).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "md") {
            let (run, shown) = check_page(&path);
            num_run += run;
            num_shown += shown;
        }
    }
    assert!(num_run > 20 && num_shown > 8, "{num_run} {num_shown}");
}

#[test]
fn the_readme_runs_as_it_stands() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let (num_run, _) = check_page(&readme);
    assert_eq!(num_run, 2);
}
