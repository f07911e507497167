//! The floors of the house: which crate may depend on which. Arrows go down.

use super::Finding;
use super::tree::{Member, Tree, line_at};

/// One workspace member and the members it may depend on.
struct Floor {
    member: &'static str,
    may_use: &'static [&'static str],
}

/// The whole table, from the vocabulary up. A new member needs a row.
const FLOORS: [Floor; 18] = [
    Floor {
        // For tests alone.
        member: "tidegate-needs",
        may_use: &[],
    },
    Floor {
        member: "tidegate-pipeline",
        may_use: &[],
    },
    Floor {
        member: "tidegate-device",
        may_use: &["tidegate-needs"],
    },
    Floor {
        member: "tidegate-kernels",
        may_use: &["tidegate-pipeline", "tidegate-device", "tidegate-needs"],
    },
    Floor {
        member: "tidegate-device-benches",
        may_use: &["tidegate-kernels", "tidegate-pipeline", "tidegate-device"],
    },
    Floor {
        member: "tidegate-pages",
        may_use: &["tidegate-kernels", "tidegate-pipeline"],
    },
    Floor {
        member: "tidegate-readers",
        may_use: &[],
    },
    Floor {
        member: "tidegate-linalg",
        may_use: &[],
    },
    Floor {
        member: "tidegate-scheduler",
        may_use: &["tidegate-kernels", "tidegate-pipeline", "tidegate-device"],
    },
    Floor {
        member: "tidegate",
        may_use: &[
            "tidegate-scheduler",
            "tidegate-pages",
            "tidegate-readers",
            "tidegate-linalg",
            "tidegate-kernels",
            "tidegate-pipeline",
            "tidegate-device",
            "tidegate-needs",
        ],
    },
    Floor {
        member: "tidegate-flight",
        may_use: &["tidegate"],
    },
    Floor {
        member: "tidegate-cluster",
        may_use: &["tidegate"],
    },
    Floor {
        member: "tidegate-cli",
        may_use: &[
            "tidegate",
            "tidegate-flight",
            "tidegate-cluster",
            "tidegate-needs",
        ],
    },
    Floor {
        // What `pip install` brings: the library, the client of servers, and the command.
        member: "tidegate-python",
        may_use: &["tidegate", "tidegate-flight", "tidegate-cli"],
    },
    Floor {
        member: "tidegate-sql-tests",
        may_use: &[
            "tidegate",
            "tidegate-flight",
            "tidegate-cluster",
            "tidegate-needs",
        ],
    },
    Floor {
        // Benchmarks measure each floor by itself.
        member: "tidegate-benches",
        may_use: &["tidegate", "tidegate-scheduler", "tidegate-device"],
    },
    Floor {
        // Several doors in one binary.
        member: "tidegate-bundle",
        may_use: &[
            "tidegate-cli",
            "tidegate-sql-tests",
            "tidegate-device-benches",
            "tidegate-benches",
        ],
    },
    Floor {
        member: "xtask",
        may_use: &[],
    },
];

/// The members that may name DataFusion. Python's frames are its plans.
const DATAFUSION_USERS: [&str; 5] = [
    "tidegate",
    "tidegate-cluster",
    "tidegate-python",
    "tidegate-sql-tests",
    "tidegate-benches",
];

/// Refuses dependencies between members that the table does not list.
pub(super) fn arrows_go_down(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &tree.members {
        let Some(floor) = FLOORS.iter().find(|floor| floor.member == member.name) else {
            let message = format!("`{}` has no floor; add a row to xtask's table", member.name);
            findings.push(Finding::new(&member.manifest, 1, message));
            continue;
        };
        for dependency in &member.dependencies {
            let is_member = tree.members.iter().any(|other| other.name == *dependency);
            if is_member && !floor.may_use.contains(&dependency.as_str()) {
                let message = format!("`{}` may not depend on `{dependency}`", member.name);
                findings.push(at_dependency(tree, member, dependency, message));
            }
        }
    }
    findings
}

/// Keeps DataFusion, and with it plan types, in the façade and in what tests it.
pub(super) fn datafusion_has_its_place(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &tree.members {
        if DATAFUSION_USERS.contains(&member.name.as_str()) {
            continue;
        }
        for dependency in &member.dependencies {
            if dependency.starts_with("datafusion") {
                let message = format!("`{dependency}` is for {} only", DATAFUSION_USERS.join(", "));
                findings.push(at_dependency(tree, member, dependency, message));
            }
        }
    }
    findings
}

/// Wants every member under the lints of the workspace.
pub(super) fn members_share_lints(tree: &Tree) -> Vec<Finding> {
    tree.members
        .iter()
        .filter(|member| !has_workspace_lints(tree.text_of(&member.manifest)))
        .map(|member| {
            let message = "no `workspace = true` under `[lints]`";
            Finding::new(&member.manifest, 1, message)
        })
        .collect()
}

fn has_workspace_lints(manifest: &str) -> bool {
    manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[lints]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .any(|line| line == "workspace = true")
}

/// Points at the line of the manifest that asks for `dependency`.
fn at_dependency(tree: &Tree, member: &Member, dependency: &str, message: String) -> Finding {
    let manifest = tree.text_of(&member.manifest);
    let line = ["\n{}.", "\n{} "]
        .iter()
        .find_map(|form| manifest.find(&form.replace("{}", dependency)))
        .map_or(1, |offset| line_at(manifest, offset + 1));
    Finding::new(&member.manifest, line, message)
}
