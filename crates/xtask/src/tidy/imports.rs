//! What the code of a file names of its own crate: `use` declarations and paths in the code.

/// One name of the crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// What it is called in the file: the last part of its path, or what follows `as`.
    pub(super) name: String,
    /// From the crate's root on.
    pub(super) path: Vec<String>,
    /// Whether others can name it through this file.
    pub(super) is_reexport: bool,
}

/// Returns what a file of this module names; `code` has neither comments nor literals.
pub(super) fn imports(code: &str, module: &[String]) -> Vec<Import> {
    let mut found = Vec::new();
    let words = words(code);
    let mut at = 0;
    while at < words.len() {
        if words[at] == "use" {
            let is_reexport = is_public(&words[..at]);
            let end = end_of(&words, at + 1);
            tree(&words[at + 1..end], &[], &mut |parts, name| {
                found.extend(import(&parts, name, module, is_reexport));
            });
            at = end;
        } else if matches!(words[at], "crate" | "super") && words.get(at + 1) == Some(&"::") {
            let (parts, end) = path(&words, at);
            let name = parts.last().cloned().unwrap_or_default();
            found.extend(import(&parts, name, module, false));
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// Cuts code into identifiers, `::` and single characters.
fn words(code: &str) -> Vec<&str> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
    let bytes = code.as_bytes();
    let mut words = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let from = at;
        while at < bytes.len() && is_part(bytes[at]) {
            at += 1;
        }
        if at == from {
            at += if code[at..].starts_with("::") { 2 } else { 1 };
        }
        let word = &code[from..at];
        if !word.trim().is_empty() {
            words.push(word);
        }
    }
    words
}

/// Tells whether what was read last is `pub` or `pub(…)`.
fn is_public(before: &[&str]) -> bool {
    match before {
        [.., "pub"] => true,
        [.., ")"] => {
            let opened = before.iter().rposition(|word| *word == "(");
            opened.is_some_and(|at| at > 0 && before[at - 1] == "pub")
        }
        _ => false,
    }
}

fn end_of(words: &[&str], from: usize) -> usize {
    let semicolon = words[from..].iter().position(|word| *word == ";");
    semicolon.map_or(words.len(), |offset| from + offset)
}

/// Reads the path that begins at a word; returns also where it ends.
fn path(words: &[&str], from: usize) -> (Vec<String>, usize) {
    let mut parts = vec![words[from].to_owned()];
    let mut at = from + 1;
    while words.get(at) == Some(&"::") {
        let Some(next) = words.get(at + 1) else { break };
        if !next.starts_with(|first: char| first.is_alphabetic() || first == '_') {
            break;
        }
        parts.push((*next).to_owned());
        at += 2;
    }
    (parts, at)
}

/// Calls `found` with path and name of each leaf of a `use` tree.
fn tree(words: &[&str], before: &[String], found: &mut dyn FnMut(Vec<String>, String)) {
    let mut parts = before.to_vec();
    for (at, word) in words.iter().enumerate() {
        match *word {
            "::" => {}
            "{" => {
                for branch in branches(&words[at + 1..]) {
                    tree(branch, &parts, found);
                }
                return;
            }
            "as" => {
                let name = words.get(at + 1).copied().unwrap_or_default();
                return found(parts, name.to_owned());
            }
            "*" => return found(parts, "*".to_owned()),
            "self" if !parts.is_empty() => {}
            _ => parts.push((*word).to_owned()),
        }
    }
    if let Some(name) = parts.last().cloned() {
        found(parts, name);
    }
}

/// Returns the parts between the commas of what follows `{`.
fn branches<'w>(words: &'w [&'w str]) -> Vec<&'w [&'w str]> {
    let mut found = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, word) in words.iter().enumerate() {
        match *word {
            "{" => depth += 1,
            "}" if depth == 0 => {
                found.push(&words[from..at]);
                break;
            }
            "}" => depth -= 1,
            "," if depth == 0 => {
                found.push(&words[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.retain(|branch| !branch.is_empty());
    found
}

/// Makes a path absolute; one that begins with another name is taken as the module's own.
fn import(parts: &[String], name: String, module: &[String], is_reexport: bool) -> Option<Import> {
    let mut path = module.to_vec();
    let mut rest = parts;
    match parts.first()?.as_str() {
        "crate" => {
            path.clear();
            rest = &parts[1..];
        }
        "self" => rest = &parts[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                path.pop()?;
                rest = &rest[1..];
            }
        }
        _ => {}
    }
    path.extend_from_slice(rest);
    Some(Import {
        name,
        path,
        is_reexport,
    })
}
