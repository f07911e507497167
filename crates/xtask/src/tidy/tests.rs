//! Each rule on a project of a few lines.

mod doc_names;

use super::check;
use super::tree::{Member, SourceFile, Tree, parse_members};

/// Checks a project made of these files; findings are written `path:line: message`.
fn findings(files: &[(&str, &str)]) -> Vec<String> {
    rendered(&tree(files, Vec::new()))
}

fn rendered(tree: &Tree) -> Vec<String> {
    check(tree).iter().map(ToString::to_string).collect()
}

fn tree(files: &[(&str, &str)], members: Vec<Member>) -> Tree {
    let mut files: Vec<SourceFile> = files
        .iter()
        .map(|(path, text)| SourceFile {
            path: (*path).to_owned(),
            text: Some((*text).to_owned()),
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Tree { files, members }
}

/// Checks one Rust file that has the opening every file needs; the body starts on line 2.
fn check_body(path: &str, body: &str, expect: &[&str]) {
    let text = format!("//! A test.\n{body}\n");
    assert_eq!(findings(&[(path, &text)]), expect, "{path}: {body}");
}

fn check_files(files: &[(&str, &str)], expect: &[&str]) {
    assert_eq!(findings(files), expect, "{files:?}");
}

#[test]
fn an_empty_project_is_tidy() {
    check_files(&[], &[]);
}

#[test]
fn top_level_is_limited() {
    check_files(
        &[
            (".ci/run", "#!/bin/sh\n"),
            ("Cargo.toml", "[workspace]\n"),
            ("docs/A.md", "# A\n"),
            ("scripts/a.sh", "\n#\n"),
            ("scripts/b.sh", "\n#\n"),
        ],
        &["scripts:1: not an entry of the top level; tool configuration goes into dotfiles"],
    );
}

#[test]
fn names_must_say_something() {
    let says_nothing = |word: &str| format!("`{word}` says nothing; name it for its concept");
    for (path, word) in [
        ("crates/a/src/utils.rs", "utils"),
        ("crates/a/src/hash_helpers.rs", "helpers"),
        ("crates/a/tests/common/mod.rs", "common"),
        ("docs/misc.md", "misc"),
        ("crates/memory-manager/src/lib.rs", "manager"),
    ] {
        let expect = format!("{path}:1: {}", says_nothing(word));
        check_files(&[(path, "//! A.\n")], &[&expect]);
    }
    check_files(&[("crates/a/src/commonality.rs", "//! A.\n")], &[]);
}

#[test]
fn sources_open_with_doc() {
    let rust = "crates/a/src/lib.rs:1: the first line must be `//!` and what the file is";
    check_files(&[("crates/a/src/lib.rs", "use std::fmt;\n")], &[rust]);
    check_files(&[("crates/a/src/lib.rs", "\n//! A.\n")], &[rust]);
    check_files(&[("crates/a/src/lib.rs", "//!\n//! A.\n")], &[rust]);
    check_files(&[("crates/a/src/lib.rs", "")], &[rust]);
    check_files(&[("crates/a/src/lib.rs", "//! A.\n")], &[]);
    let cuda = "kernels/src/sum.cu:1: the first line must be `//` and what the file is";
    check_files(&[("kernels/src/sum.cu", "#pragma once\n")], &[cuda]);
    check_files(&[("kernels/src/sum.cu", "// Sums.\n")], &[]);
    check_files(&[("docs/notes.sql", "SELECT 1\n")], &[]);
}

#[test]
fn whitespace_must_be_clean() {
    let check_text = |path: &str, text: &str, expect: &[&str]| check_files(&[(path, text)], expect);
    let trailing = "docs/a.md:2: trailing whitespace";
    check_text("docs/a.md", "# A\nb \nc\n", &[trailing]);
    check_text("docs/a.md", "# A\nb\t\nc\n", &[trailing]);
    check_text("docs/a.md", "# A\nb\r\nc\n", &[trailing]);
    check_text(
        "docs/a.md",
        "# A\nb",
        &["docs/a.md:2: no line break at the end"],
    );
    check_text(
        "docs/a.md",
        "# A\n\n",
        &["docs/a.md:2: empty line at the end"],
    );
    check_text("docs/a.csv", "a,b \n1,2", &[]);
    check_text("docs/a.sh", "if x\n\ty\n", &[]);
    check_body(
        "crates/a/src/lib.rs",
        "\tfn f() {}",
        &["crates/a/src/lib.rs:2: tab; indent with spaces"],
    );
}

#[test]
fn long_files_are_refused_and_near_ones_noted() {
    let file_of = |num_lines: usize| "//! A.\n".repeat(num_lines);
    for (num_lines, num_notes, num_findings) in [(600, 0, 0), (601, 1, 0), (800, 1, 0), (801, 0, 1)]
    {
        let text = file_of(num_lines);
        let tree = tree(&[("crates/a/src/lib.rs", &text)], Vec::new());
        assert_eq!(super::layout::long_files(&tree).len(), num_notes);
        assert_eq!(check(&tree).len(), num_findings, "{num_lines} lines");
    }
}

#[test]
fn unfinished_work_is_refused() {
    let path = "crates/a/src/lib.rs";
    let word = |word: &str| format!("{path}:2: `{word}`; finish it or open an issue");
    check_body(path, "// FIXME: later", &[&word("FIXME")]);
    check_body(path, "/* XXX */ fn f() {}", &[&word("XXX")]);
    check_body(path, "fn f() -> &'static str { \"XXX FIXME\" }", &[]);
    check_body(path, "// XXXL is a size.", &[]);
    check_body(
        path,
        "fn f() { todo!() }",
        &["crates/a/src/lib.rs:2: `todo!(`; return an error that names what is missing"],
    );
    check_body(
        path,
        "fn f() { dbg!(1); }",
        &["crates/a/src/lib.rs:2: `dbg!(`; remove it, or emit an event or a metric"],
    );
    check_body(
        path,
        "#[test]\n#[ignore = \"slow\"]\nfn f() {}",
        &[
            "crates/a/src/lib.rs:3: `#[ignore`; assert what holds today, or skip with a printed reason",
        ],
    );
    check_body(path, "// A `todo!()` in prose is harmless.", &[]);
    check_files(
        &[("sql-tests/slt/a.slt", "# a\n# FIXME\n")],
        &["sql-tests/slt/a.slt:2: `FIXME`; finish it or open an issue"],
    );
}

#[test]
fn glob_imports_are_refused() {
    let path = "crates/a/src/lib.rs";
    let at = |line: usize| format!("{path}:{line}: glob import; name what you use");
    check_body(path, "use super::*;", &[&at(2)]);
    check_body(path, "pub use a::b::*;", &[&at(2)]);
    check_body(path, "use a::{\n    b,\n    c::*,\n};", &[&at(4)]);
    check_body(path, "fn f() {\n    use Kind::*;\n}", &[&at(3)]);
    check_body(path, "use a::b;\nconst C: usize = 2 * 3;", &[]);
    check_body(path, "fn f<'a>() -> impl A + use<'a> { *g() }", &[]);
    check_body(path, "// Do not use a::*;", &[]);
}

#[test]
fn unsafe_code_stays_in_two_crates() {
    let code = "fn f() { unsafe { g() } }";
    check_body(
        "crates/a/src/lib.rs",
        code,
        &["crates/a/src/lib.rs:2: `unsafe` outside crates/tidegate-device/ and kernels/"],
    );
    check_body("crates/tidegate-device/src/lib.rs", code, &[]);
    check_body("kernels/src/lib.rs", code, &[]);
    check_body("crates/a/src/lib.rs", "#![deny(unsafe_code)]", &[]);
    check_body("crates/a/src/lib.rs", "// unsafe", &[]);
}

#[test]
fn the_environment_is_read_above() {
    let message = "reads the environment; pass options down (tests may read `TIDEGATE_*`)";
    let refused = |path: &str| format!("{path}:2: {message}");
    let foreign = "fn f() { std::env::var(\"HOME\"); }";
    let own = "fn f() { std::env::var_os(\"TIDEGATE_REQUIRE_DEVICE\"); }";
    let path = "crates/tidegate/src/lib.rs";
    check_body(path, foreign, &[&refused(path)]);
    check_body(path, own, &[&refused(path)]);
    for path in ["crates/tidegate-cli/src/main.rs", "kernels/build.rs"] {
        check_body(path, foreign, &[]);
    }
    for path in [
        "kernels/src/tests.rs",
        "crates/tidegate/tests/it/main.rs",
        "sql-tests/src/lib.rs",
    ] {
        check_body(path, own, &[]);
        check_body(path, foreign, &[&refused(path)]);
        check_body(path, "fn f() { env::vars(); }", &[&refused(path)]);
        check_body(path, "fn f() { env::var(SEED); }", &[]);
    }
}

#[test]
fn machine_paths_are_refused() {
    let message = "docs/a.md:1: path of one machine; write it relative to the project";
    for root in ["root", "home", "Users", "work", "farm"] {
        let check_text = |text: &str, expect: &[&str]| {
            check_files(&[("docs/a.md", &text.replace("ROOT", root))], expect);
        };
        check_text("See /ROOT/a.\n", &[message]);
        check_text("See \"/ROOT/a\".\n", &[message]);
        check_text("See a/ROOT/b and ~/ROOT/c.\n", &[]);
        check_text("See /ROOT.\n", &[]);
    }
}

#[test]
fn registry_hosts_are_refused_but_in_the_lock_file() {
    let message = "docs/a.md:1: host of a package registry; name the package alone";
    for (name, domain) in [("crates", "io"), ("PyPI", "org"), ("www.npmjs", "com")] {
        let text = format!("From https://{name}.{domain}/a.\n");
        check_files(&[("docs/a.md", &text)], &[message]);
        check_files(&[("Cargo.lock", &text)], &[]);
    }
    check_files(&[("docs/a.md", "The PyPI package a; many crates.\n")], &[]);
}

/// The manifest of a member with these dependencies, and cargo's view of it.
fn member(name: &str, dependencies: &[&str]) -> (String, Member) {
    let mut manifest = format!("[package]\nname = \"{name}\"\n\n[lints]\nworkspace = true\n");
    manifest.push_str("\n[dependencies]\n");
    for dependency in dependencies {
        manifest.push_str(&format!("{dependency}.workspace = true\n"));
    }
    let member = Member {
        name: name.to_owned(),
        manifest: format!("crates/{name}/Cargo.toml"),
        dependencies: dependencies.iter().map(|&name| name.to_owned()).collect(),
    };
    (manifest, member)
}

fn check_members(members: &[(&str, &[&str])], expect: &[&str]) {
    let (manifests, members): (Vec<String>, Vec<Member>) = members
        .iter()
        .map(|(name, dependencies)| member(name, dependencies))
        .unzip();
    let files: Vec<(&str, &str)> = members
        .iter()
        .zip(&manifests)
        .map(|(member, manifest)| (member.manifest.as_str(), manifest.as_str()))
        .collect();
    let files = tree(&files, Vec::new()).files;
    assert_eq!(rendered(&Tree { files, members }), expect);
}

#[test]
fn dependencies_go_down() {
    check_members(
        &[
            ("tidegate-pipeline", &[]),
            ("tidegate-device", &["libloading"]),
            (
                "tidegate-kernels",
                &["tidegate-pipeline", "tidegate-device"],
            ),
            ("tidegate-scheduler", &["tidegate-kernels"]),
            ("tidegate", &["datafusion", "tidegate-scheduler"]),
            ("tidegate-sql-tests", &["tidegate", "datafusion"]),
        ],
        &[],
    );
    check_members(
        &[
            ("tidegate-device", &["libloading", "tidegate-pipeline"]),
            ("tidegate-pipeline", &[]),
        ],
        &[
            "crates/tidegate-device/Cargo.toml:9: `tidegate-device` may not depend on `tidegate-pipeline`",
        ],
    );
    check_members(
        &[("tidegate-joins", &[])],
        &[
            "crates/tidegate-joins/Cargo.toml:1: `tidegate-joins` has no floor; add a row to xtask's table",
        ],
    );
}

#[test]
fn datafusion_stays_in_the_facade() {
    check_members(
        &[("tidegate-scheduler", &["datafusion-datasource"])],
        &[
            "crates/tidegate-scheduler/Cargo.toml:8: `datafusion-datasource` is for tidegate, tidegate-cluster, tidegate-python, tidegate-sql-tests, tidegate-benches only",
        ],
    );
}

#[test]
fn members_inherit_the_lints() {
    let message = "crates/xtask/Cargo.toml:1: no `workspace = true` under `[lints]`";
    let check_manifest = |manifest: &str, expect: &[&str]| {
        let (_, member) = member("xtask", &[]);
        let tree = tree(&[("crates/xtask/Cargo.toml", manifest)], vec![member]);
        assert_eq!(rendered(&tree), expect, "{manifest}");
    };
    check_manifest("[lints]\nworkspace = true\n", &[]);
    check_manifest("[package]\nname = \"xtask\"\n", &[message]);
    check_manifest("[lints]\n[other]\nworkspace = true\n", &[message]);
}

#[test]
fn metadata_is_read() {
    let members = parse_members(
        r#"{
            "workspace_root": "/tmp/a",
            "packages": [{
                "name": "b",
                "manifest_path": "/tmp/a/crates/b/Cargo.toml",
                "dependencies": [{"name": "c", "kind": null}, {"name": "d", "kind": "dev"}]
            }]
        }"#,
    )
    .unwrap();
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].name, "b");
    assert_eq!(members[0].manifest, "crates/b/Cargo.toml");
    assert_eq!(members[0].dependencies, ["c", "d"]);
    assert!(parse_members("{").is_err());
}
