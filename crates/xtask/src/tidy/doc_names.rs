//! Names in the docs exist: every path, crate, type, setting and variable in backticks.
//!
//! Looks at inline code in `docs/` and in every README, not at fenced blocks, whose text is
//! whatever a terminal shows. What a name must match depends on its shape:
//!
//! - a path (its first component is at the top level, or it ends in a source's extension): a file
//!   or folder, seen from the root or from the page;
//! - `tidegate…`: a workspace member, also in its `tidegate_x::Type` form;
//! - `TIDEGATE_X`, `tidegate.setting` and `CamelCase`: a word in the sources.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::{Tree, file_name, has_extension, is_word_char};

/// Extensions that make a word with a slash a path.
const PATH_EXTENSIONS: [&str; 6] = ["rs", "md", "toml", "slt", "cu", "cuh"];

/// What a name may be checked against.
struct Known<'a> {
    tree: &'a Tree,
    /// All words of the sources, those of xtask left out: its tests make names up.
    words: BTreeSet<&'a str>,
}

/// Refuses names that nothing in the project bears.
pub(super) fn names_exist(tree: &Tree) -> Vec<Finding> {
    let known = Known {
        tree,
        words: source_words(tree),
    };
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        let is_page = path.starts_with("docs/") || file_name(path) == "README.md";
        if !is_page || !has_extension(path, &["md"]) {
            continue;
        }
        for (line, span) in code_spans(text) {
            for word in span.split_whitespace() {
                if let Some(reason) = known.refuse(path, word) {
                    findings.push(Finding::new(path, line, reason));
                }
            }
        }
    }
    findings
}

impl Known<'_> {
    /// Returns why `word`, on the page `page`, names nothing.
    fn refuse(&self, page: &str, word: &str) -> Option<String> {
        let word = word.trim_matches(|c: char| "\"'(),;:".contains(c));
        let word = word.split('=').next().unwrap_or_default();
        if self.looks_like_path(word) {
            return (!self.path_exists(page, word)).then(|| format!("no path `{word}`"));
        }
        if let Some(setting) = word.strip_prefix("tidegate.") {
            return self.refuse_unknown("setting", word, setting);
        }
        if word.starts_with("tidegate") {
            let package = word.split("::").next().unwrap_or_default();
            let package = package.replace('_', "-");
            let exists = self
                .tree
                .members
                .iter()
                .any(|member| member.name == package);
            if !exists {
                return Some(format!("no crate `{package}`"));
            }
        }
        let name = word.rsplit("::").next().unwrap_or_default();
        if name.starts_with("TIDEGATE_") {
            return self.refuse_unknown("variable", name, name);
        }
        if is_camel_case(name) {
            return self.refuse_unknown("type", name, name);
        }
        None
    }

    fn refuse_unknown(&self, what: &str, shown: &str, word: &str) -> Option<String> {
        let is_name = !word.is_empty() && word.chars().all(is_word_char);
        (is_name && !self.words.contains(word))
            .then(|| format!("no {what} `{shown}` in the sources"))
    }

    fn looks_like_path(&self, word: &str) -> bool {
        let is_plain = word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
        let Some((first, _)) = word.split_once('/') else {
            return false;
        };
        is_plain
            && !first.is_empty()
            && (has_extension(word, &PATH_EXTENSIONS) || self.tree.contains(first))
    }

    fn path_exists(&self, page: &str, word: &str) -> bool {
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        self.tree.contains(word) || self.tree.contains(&resolve(folder, word))
    }
}

/// Joins `path` to `folder`, taking `.` and `..` away.
fn resolve(folder: &str, path: &str) -> String {
    let mut components: Vec<&str> = Vec::new();
    for component in folder.split('/').chain(path.split('/')) {
        match component {
            "" | "." => {}
            ".." => {
                components.pop();
            }
            _ => components.push(component),
        }
    }
    components.join("/")
}

fn source_words(tree: &Tree) -> BTreeSet<&str> {
    tree.texts()
        .filter(|(path, _)| has_extension(path, &["rs", "cu", "cuh", "py"]))
        .filter(|(path, _)| !path.starts_with("crates/xtask/"))
        .flat_map(|(_, text)| text.split(|c: char| !is_word_char(c)))
        .collect()
}

/// Tells whether `name` is `TwoWords`: letters and digits, with a small and two capital letters.
fn is_camel_case(name: &str) -> bool {
    let num_capitals = name.chars().filter(char::is_ascii_uppercase).count();
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
        && name.contains(|c: char| c.is_ascii_lowercase())
        && num_capitals >= 2
}

/// Yields the inline code of a Markdown page, outside fenced blocks, with its line.
fn code_spans(text: &str) -> Vec<(usize, &str)> {
    let mut spans = Vec::new();
    let mut in_fence = false;
    for (row_index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        if in_fence {
            continue;
        }
        let inside = line.split('`').skip(1).step_by(2);
        spans.extend(inside.map(|span| (row_index + 1, span)));
    }
    spans
}
