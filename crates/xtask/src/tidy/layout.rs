//! Rules on what a reader sees before reading code: names, openings, lengths, blanks.

use super::Finding;
use super::tree::{Tree, has_extension};

/// What `ls` may show; dotfiles come on top.
const TOP_LEVEL: [&str; 11] = [
    "Cargo.toml",
    "Cargo.lock",
    "LICENSE",
    "README.md",
    "crates",
    "kernels",
    "sql-tests",
    "benches",
    "docs",
    "python",
    "deploy",
];

/// Words that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = [
    "util", "utils", "helper", "helpers", "common", "misc", "manager",
];

/// Lines at which a Rust file is refused.
const NUM_LINES_MAX: usize = 800;
/// Lines at which to look for the seam.
const NUM_LINES_NOTED: usize = 600;

/// Files whose blanks are data: recorded output and fixtures.
const VERBATIM: [&str; 4] = ["snap", "csv", "tbl", "tsv"];

/// Refuses entries at the top that are not what the project is made of.
pub(super) fn top_level_is_known(tree: &Tree) -> Vec<Finding> {
    let mut entries: Vec<&str> = tree
        .files
        .iter()
        .filter_map(|file| file.path.split('/').next())
        .filter(|entry| !entry.starts_with('.') && !TOP_LEVEL.contains(entry))
        .collect();
    entries.dedup();
    entries
        .into_iter()
        .map(|entry| {
            Finding::new(
                entry,
                1,
                "not an entry of the top level; tool configuration goes into dotfiles",
            )
        })
        .collect()
}

/// Refuses files and folders named for no concept.
pub(super) fn names_say_something(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let words = file.path.split(['/', '_', '-', '.']);
        for word in words.filter(|word| EMPTY_NAMES.contains(word)) {
            let message = format!("`{word}` says nothing; name it for its concept");
            findings.push(Finding::new(&file.path, 1, message));
        }
    }
    findings
}

/// Wants every source file to say first what it is.
pub(super) fn files_open_with_doc(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        let opening = if has_extension(path, &["rs"]) {
            "//!"
        } else if has_extension(path, &["cu", "cuh"]) {
            "//"
        } else {
            continue;
        };
        let says_something = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix(opening))
            .is_some_and(|rest| !rest.trim().is_empty());
        if !says_something {
            let message = format!("the first line must be `{opening}` and what the file is");
            findings.push(Finding::new(path, 1, message));
        }
    }
    findings
}

/// Refuses trailing blanks, tabs in Rust and a missing or doubled last line break.
pub(super) fn whitespace_is_clean(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        if text.is_empty() || has_extension(path, &VERBATIM) {
            continue;
        }
        let is_rust = has_extension(path, &["rs"]);
        for (row_index, line) in text.split('\n').enumerate() {
            if line.ends_with([' ', '\t', '\r']) {
                findings.push(Finding::new(path, row_index + 1, "trailing whitespace"));
            }
            if is_rust && line.contains('\t') {
                findings.push(Finding::new(path, row_index + 1, "tab; indent with spaces"));
            }
        }
        let num_lines = text.lines().count();
        if !text.ends_with('\n') {
            findings.push(Finding::new(path, num_lines, "no line break at the end"));
        } else if text.ends_with("\n\n") {
            findings.push(Finding::new(path, num_lines, "empty line at the end"));
        }
    }
    findings
}

/// Refuses Rust files that hold more than one concept can need.
pub(super) fn files_are_short(tree: &Tree) -> Vec<Finding> {
    rust_lengths(tree)
        .filter(|&(_, num_lines)| num_lines > NUM_LINES_MAX)
        .map(|(path, num_lines)| {
            let message = format!("{num_lines} lines, over {NUM_LINES_MAX}; split it at its seam");
            Finding::new(path, num_lines, message)
        })
        .collect()
}

/// Lists the Rust files that come near the limit. A note, not a breach.
pub(super) fn long_files(tree: &Tree) -> Vec<Finding> {
    rust_lengths(tree)
        .filter(|&(_, num_lines)| (NUM_LINES_NOTED + 1..=NUM_LINES_MAX).contains(&num_lines))
        .map(|(path, num_lines)| {
            let message = format!("{num_lines} lines; the limit is {NUM_LINES_MAX}");
            Finding::new(path, num_lines, message)
        })
        .collect()
}

fn rust_lengths(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    tree.texts()
        .filter(|(path, _)| has_extension(path, &["rs"]))
        .map(|(path, text)| (path, text.lines().count()))
}
