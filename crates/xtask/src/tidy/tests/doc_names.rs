//! Names on a page, in a project with one crate and one type.

use super::{check_files, member, rendered, tree};

/// Checks one line of a page in `docs/`, in a project with one crate and one type.
fn check_page(line: &str, expect: &[&str]) {
    let (manifest, member) = member("tidegate", &[]);
    let page = format!("# Page\n{line}\n");
    let tree = tree(
        &[
            ("crates/tidegate/Cargo.toml", &manifest),
            (
                "crates/tidegate/src/lib.rs",
                "//! PipelineExec, float_sums, TIDEGATE_REQUIRE_DEVICE.\n",
            ),
            ("docs/decisions/0001-one.md", "# One\n"),
            ("docs/PAGE.md", &page),
        ],
        vec![member],
    );
    let expect: Vec<String> = expect
        .iter()
        .map(|reason| format!("docs/PAGE.md:2: {reason}"))
        .collect();
    assert_eq!(rendered(&tree), expect, "{line}");
}

#[test]
fn paths_in_docs_exist() {
    check_page(
        "See `crates/tidegate/src/lib.rs` and `crates/tidegate/`.",
        &[],
    );
    check_page("See `decisions/0001-one.md` and `../docs/PAGE.md`.", &[]);
    check_page("See `crates/gone/`.", &["no path `crates/gone/`"]);
    check_page("See `src/gone.rs`.", &["no path `src/gone.rs`"]);
    check_page("A `host/device` pair, `n/m`, `/`, `a / b`.", &[]);
    check_page("Not in backticks: crates/gone/.", &[]);
}

#[test]
fn crates_and_words_in_docs_exist() {
    check_page("`tidegate`, `tidegate::PipelineExec`, `PipelineExec`.", &[]);
    check_page(
        "`cargo test -p tidegate`, `RoundRobin1`.",
        &["no type `RoundRobin1` in the sources"],
    );
    check_page("`tidegate-gone`", &["no crate `tidegate-gone`"]);
    check_page("`tidegate_gone::Thing`", &["no crate `tidegate-gone`"]);
    check_page("`SET tidegate.float_sums = 'any'`, `tidegate.*`", &[]);
    check_page(
        "`SET tidegate.gone = 1`",
        &["no setting `tidegate.gone` in the sources"],
    );
    check_page("`TIDEGATE_REQUIRE_DEVICE=1`, `TIDEGATE_*`", &[]);
    check_page(
        "`TIDEGATE_GONE=1`",
        &["no variable `TIDEGATE_GONE` in the sources"],
    );
    check_page("`PipelineGone`", &["no type `PipelineGone` in the sources"]);
    check_page("`GROUP BY`, `Int64`, `Sum`", &[]);
}

#[test]
fn fenced_blocks_are_not_read() {
    let page = "# A\n```text\n`docs/gone.md`\n```\n`docs/lost.md`\n";
    check_files(
        &[("docs/A.md", page)],
        &["docs/A.md:5: no path `docs/lost.md`"],
    );
}
