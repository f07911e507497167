//! Import circles inside a crate: files that import each other, directly or through others.
//!
//! A file imports another where its code names something that the other defines; a re-export (`pub use`) is
//! no import of its own, and whoever goes through it imports what it leads to. Files that reach each other
//! are one strongly connected component (Tarjan's algorithm), whose size is the size of the circle.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Finding;
use super::code::is_test;
use super::imports::{Import, imports};
use super::tree::Tree;

/// The most files of a circle.
const FILES_MAX: usize = 10;

/// Crates whose largest circle is above the limit, with its size. A number here may only fall.
const ABOVE: [(&str, usize); 3] = [
    ("tidegate-device", 13),
    ("tidegate-kernels", 16),
    ("tidegate-pipeline", 31),
];

/// Refuses circles of more files than are allowed, and allowances that are no longer needed.
pub(super) fn circles_are_small(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &tree.members {
        let Some(folder) = member.manifest.strip_suffix("Cargo.toml") else {
            continue;
        };
        let source = format!("{folder}src/");
        let files = tree.rust().filter(|(path, _)| path.starts_with(&source));
        let files = files.filter(|(path, _)| !is_test(path));
        let files = files.map(|(path, text)| {
            let code = without_inline_tests(&text.code).to_owned();
            (path[source.len()..].to_owned(), code)
        });
        let largest = largest_circle(&files.collect());
        let known = ABOVE.iter().find(|(name, _)| *name == member.name);
        let allowed = known.map_or(FILES_MAX, |(_, size)| *size);
        if largest.len() > allowed {
            let message = format!(
                "a circle of {} files, {allowed} allowed: {}",
                largest.len(),
                largest.join(", ")
            );
            findings.push(Finding::new(&member.manifest, 1, message));
        } else if known.is_some() && !largest.is_empty() && largest.len() < allowed {
            let message = format!(
                "the largest circle has {} files now: lower its number in xtask's table",
                largest.len()
            );
            findings.push(Finding::new(&member.manifest, 1, message));
        }
    }
    findings
}

/// Returns the code before a module of tests in the same file.
fn without_inline_tests(code: &str) -> &str {
    let tests = code.find("\nmod tests {");
    tests.map_or(code, |offset| &code[..offset])
}

/// Returns the files of the largest circle of a crate, sorted; `files` are paths below `src` and code
/// without comments and literals.
fn largest_circle(files: &BTreeMap<String, String>) -> Vec<String> {
    let modules: HashMap<Vec<String>, &str> = files
        .keys()
        .map(|path| (module_of(path), path.as_str()))
        .collect();
    let imports: BTreeMap<&str, Vec<Import>> = files
        .iter()
        .map(|(path, code)| (path.as_str(), imports(code, &module_of(path))))
        .collect();
    let names = Names { modules, imports };
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (path, of_file) in &names.imports {
        let targets = of_file.iter().filter(|import| !import.is_reexport);
        let targets = targets.filter_map(|import| names.file_of(&import.path, 0));
        edges.insert(path, targets.filter(|target| target != path).collect());
    }
    let largest = components(&edges).into_iter().max_by_key(Vec::len);
    let mut largest: Vec<String> = largest.into_iter().flatten().map(str::to_owned).collect();
    largest.sort();
    largest
}

/// Returns the module that a file below `src` is, without `crate`.
fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => Vec::new(),
        _ => path.split('/').map(str::to_owned).collect(),
    }
}

/// Re-exports that lead to each other in a circle end here.
const REEXPORTS_MAX: usize = 8;

/// What the paths of a crate lead to.
struct Names<'a> {
    modules: HashMap<Vec<String>, &'a str>,
    imports: BTreeMap<&'a str, Vec<Import>>,
}

impl<'a> Names<'a> {
    /// Returns the file that defines what an absolute path names; nothing for a path out of the crate.
    fn file_of(&self, path: &[String], depth: usize) -> Option<&'a str> {
        let known = (0..=path.len()).rev();
        let length = known
            .into_iter()
            .find(|length| self.modules.contains_key(&path[..*length]))?;
        let file = self.modules[&path[..length]];
        let Some(name) = path.get(length) else {
            return Some(file);
        };
        let reexports = self.imports.get(file).into_iter().flatten();
        let mut reexports = reexports.filter(|import| import.is_reexport && import.name == *name);
        match reexports.next() {
            Some(import) if depth < REEXPORTS_MAX => {
                let mut target = import.path.clone();
                target.extend_from_slice(&path[length + 1..]);
                self.file_of(&target, depth + 1)
            }
            _ => Some(file),
        }
    }
}

/// Returns the strongly connected components of a graph.
fn components<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let mut search = Search {
        edges,
        numbers: HashMap::new(),
        low: HashMap::new(),
        open: Vec::new(),
        found: Vec::new(),
    };
    for node in edges.keys() {
        search.visit(node);
    }
    search.found
}

/// Tarjan's depth-first search.
struct Search<'a, 'e> {
    edges: &'e BTreeMap<&'a str, BTreeSet<&'a str>>,
    numbers: HashMap<&'a str, usize>,
    low: HashMap<&'a str, usize>,
    open: Vec<&'a str>,
    found: Vec<Vec<&'a str>>,
}

impl<'a> Search<'a, '_> {
    fn visit(&mut self, node: &'a str) {
        if self.numbers.contains_key(node) {
            return;
        }
        let number = self.numbers.len();
        self.numbers.insert(node, number);
        self.low.insert(node, number);
        self.open.push(node);
        let edges = self.edges;
        for next in edges.get(node).into_iter().flatten() {
            let is_new = !self.numbers.contains_key(next);
            if is_new {
                self.visit(next);
            }
            let reached = match (is_new, self.open.contains(next)) {
                (true, _) => self.low[next],
                (false, true) => self.numbers[next],
                (false, false) => continue,
            };
            let low = self.low[node].min(reached);
            self.low.insert(node, low);
        }
        if self.low[node] == number {
            let from = self.open.iter().position(|open| *open == node);
            let component = self.open.split_off(from.unwrap_or_default());
            self.found.push(component);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::largest_circle;

    fn largest(files: &[(&str, &str)]) -> Vec<String> {
        let files = files
            .iter()
            .map(|(path, code)| (path.to_string(), code.to_string()));
        largest_circle(&files.collect())
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::{self, B};"),
            ("b.rs", "fn f() { crate::c::run() }"),
            ("c.rs", "use super::a::A; use std::fmt;"),
        ];
        assert_eq!(largest(&files), ["a.rs", "b.rs", "c.rs"]);
    }

    #[test]
    fn imports_that_go_down_are_none() {
        let files = [
            ("lib.rs", "mod a; pub use a::b::B;"),
            ("a.rs", "pub mod b; use b::B;"),
            ("a/b.rs", "use std::fmt; pub struct B;"),
        ];
        assert_eq!(largest(&files).len(), 1);
    }

    #[test]
    fn a_reexport_leads_to_what_it_names() {
        let files = [
            ("lib.rs", "mod a; pub use a::b::B as C;"),
            ("a.rs", "pub mod b; pub mod d; pub use d::D;"),
            ("a/b.rs", "use super::D; pub struct B;"),
            ("a/d.rs", "use crate::C; pub struct D;"),
        ];
        assert_eq!(largest(&files), ["a/b.rs", "a/d.rs"]);
    }
}
