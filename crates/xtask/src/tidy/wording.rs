//! The project stands alone: no path of somebody's machine, no host of a package registry.

use super::Finding;
use super::tree::{Tree, line_at};

/// First components of paths that exist on one machine only.
const MACHINE_ROOTS: [&str; 5] = ["root", "home", "Users", "work", "farm"];

/// Hosts of package registries, in two parts so that this file does not name them.
const REGISTRIES: [(&str, &str); 5] = [
    ("crates", "io"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "com"),
    ("npmjs", "org"),
];

/// The one file in which a registry must be named.
const LOCK_FILE: &str = "Cargo.lock";

/// Refuses absolute machine paths and the hosts of package registries.
pub(super) fn stands_alone(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        if path == LOCK_FILE {
            continue;
        }
        for offset in machine_paths(text) {
            let message = "path of one machine; write it relative to the project";
            findings.push(Finding::new(path, line_at(text, offset), message));
        }
        let text = text.to_ascii_lowercase();
        for (name, domain) in REGISTRIES {
            let host = format!("{name}.{domain}");
            for (offset, _) in text.match_indices(&host) {
                let message = "host of a package registry; name the package alone";
                findings.push(Finding::new(path, line_at(&text, offset), message));
            }
        }
    }
    findings
}

/// Finds the machine roots where their slash begins a path.
fn machine_paths(text: &str) -> Vec<usize> {
    let mut offsets = Vec::new();
    for root in MACHINE_ROOTS {
        for (offset, _) in text.match_indices(&format!("/{root}/")) {
            let before = text[..offset].chars().next_back();
            let continues_a_path =
                before.is_some_and(|c| c.is_alphanumeric() || "._-~})".contains(c));
            if !continues_a_path {
                offsets.push(offset);
            }
        }
    }
    offsets
}
