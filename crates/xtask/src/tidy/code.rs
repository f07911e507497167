//! Rules on code: nothing unfinished, no glob imports, `unsafe` and the environment in their
//! places.

use super::Finding;
use super::tree::{Tree, file_name, find_word, has_extension, is_word_char, line_at};

/// Marks that a comment may not carry into the project.
const UNFINISHED_WORDS: [&str; 2] = ["FIXME", "XXX"];

/// Code that may not be committed, each with what to do instead.
const UNFINISHED_CODE: [(&str, &str); 3] = [
    (
        "#[ignore",
        "assert what holds today, or skip with a printed reason",
    ),
    ("dbg!(", "remove it, or emit an event or a metric"),
    ("todo!(", "return an error that names what is missing"),
];

/// Only these folders may contain unsafe code.
const UNSAFE_FOLDERS: [&str; 2] = ["crates/tidegate-device/", "kernels/"];

/// These folders may read any variable of the environment.
const ENVIRONMENT_FOLDERS: [&str; 3] = [
    "crates/tidegate-cli/",
    "crates/tidegate-needs/",
    "crates/xtask/",
];

/// Refuses marks of unfinished work and ignored tests.
pub(super) fn nothing_unfinished(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        if has_extension(path, &["cu", "cuh", "slt", "toml"]) {
            findings.extend(unfinished_words(path, text));
        }
    }
    for (path, rust) in tree.rust() {
        findings.extend(unfinished_words(path, &rust.comments));
        for (mark, instead) in UNFINISHED_CODE {
            for (offset, _) in rust.code.match_indices(mark) {
                let before = rust.code[..offset].chars().next_back();
                if before.is_some_and(is_word_char) {
                    continue;
                }
                let message = format!("`{mark}`; {instead}");
                findings.push(Finding::new(path, line_at(&rust.code, offset), message));
            }
        }
    }
    findings
}

fn unfinished_words(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for word in UNFINISHED_WORDS {
        for offset in find_word(text, word) {
            let message = format!("`{word}`; finish it or open an issue");
            findings.push(Finding::new(path, line_at(text, offset), message));
        }
    }
    findings
}

/// Refuses imports that hide where a name comes from, `super::*` included.
pub(super) fn no_glob_imports(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, rust) in tree.rust() {
        let code = &rust.code;
        for start in find_word(code, "use") {
            let statement = code[start..].split(';').next().unwrap_or_default();
            let is_capture = statement["use".len()..].trim_start().starts_with('<');
            if is_capture {
                continue;
            }
            for (offset, _) in statement.match_indices('*') {
                let line = line_at(code, start + offset);
                findings.push(Finding::new(path, line, "glob import; name what you use"));
            }
        }
    }
    findings
}

/// Refuses unsafe code outside the two crates that talk to a device.
pub(super) fn unsafe_stays_below(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, rust) in tree.rust() {
        if is_below(path, &UNSAFE_FOLDERS) {
            continue;
        }
        for offset in find_word(&rust.code, "unsafe") {
            let message = format!("`unsafe` outside {}", UNSAFE_FOLDERS.join(" and "));
            findings.push(Finding::new(path, line_at(&rust.code, offset), message));
        }
    }
    findings
}

/// Refuses reads of the environment below the command line; tests may read `TIDEGATE_*`.
pub(super) fn environment_stays_above(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, rust) in tree.rust() {
        if is_below(path, &ENVIRONMENT_FOLDERS) || file_name(path) == "build.rs" {
            continue;
        }
        for (offset, _) in rust.code.match_indices("env::var") {
            let is_allowed = is_test(path) && reads_own_variable(&tree.text_of(path)[offset..]);
            if !is_allowed {
                findings.push(Finding::new(
                    path,
                    line_at(&rust.code, offset),
                    "reads the environment; pass options down (tests may read `TIDEGATE_*`)",
                ));
            }
        }
    }
    findings
}

/// Tells whether the call at the start of `text` names a variable of ours. A name that is not a
/// literal passes: the constant says it elsewhere.
fn reads_own_variable(text: &str) -> bool {
    let Some((function, argument)) = text.split_once('(') else {
        return false;
    };
    let takes_a_name = matches!(function, "env::var" | "env::var_os");
    let argument = argument.trim_start();
    takes_a_name && (!argument.starts_with('"') || argument.starts_with("\"TIDEGATE_"))
}

pub(super) fn is_test(path: &str) -> bool {
    is_below(path, &["sql-tests/", "benches/"])
        || path.contains("/tests/")
        || file_name(path) == "tests.rs"
}

fn is_below(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}
