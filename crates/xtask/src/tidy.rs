//! `cargo xtask tidy`: the rules of the house that no compiler checks.
//!
//! A rule is a function from the [`Tree`] (all files, all crates) to [`Finding`]s. It reads
//! nothing else, so each is tested on a few lines of text. Files that git ignores are no part of
//! the tree.
//!
//! In reading order: `tree` loads the project; `rust_text` parts code from comments; `layout`,
//! `code`, `wording`, `floors`, `circles` (over `imports`) and `doc_names` hold the rules.

mod circles;
mod code;
mod doc_names;
mod floors;
mod imports;
mod layout;
mod rust_text;
mod tree;
mod wording;

use std::fmt;
use std::path::Path;

use crate::failure::Failure;
use tree::Tree;

/// One breach of a rule, at a line of a file. Lines count from 1.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[Rule] = &[
    layout::top_level_is_known,
    layout::names_say_something,
    layout::files_open_with_doc,
    layout::whitespace_is_clean,
    layout::files_are_short,
    code::nothing_unfinished,
    code::no_glob_imports,
    code::unsafe_stays_below,
    code::environment_stays_above,
    wording::stands_alone,
    floors::arrows_go_down,
    circles::circles_are_small,
    floors::datafusion_has_its_place,
    floors::members_share_lints,
    doc_names::names_exist,
];

/// Checks the project in `root` and prints what it finds.
pub(crate) fn run(root: &Path) -> Result<(), Failure> {
    let tree = Tree::load(root)?;
    for note in layout::long_files(&tree) {
        println!("note: {note}");
    }
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        Ok(())
    } else {
        Err(Failure::Untidy(findings.len()))
    }
}

/// Applies every rule; findings come back sorted by path and line.
fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings
}

#[cfg(test)]
mod tests;
