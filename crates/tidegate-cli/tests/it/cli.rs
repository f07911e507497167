//! The `tidegate` command as its users meet it: what it prints where, and how it exits.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use tidegate_needs::Need;

use crate::command::{Ran, path, piped, run, sql, tidegate};

#[test]
fn a_table_is_the_default() {
    let ran = run(["-c", "SELECT 1 AS a, NULL AS b"]);
    let ran = ran.prints("+---+------+\n| a | b    |\n+---+------+\n| 1 | NULL |\n+---+------+\n");
    assert_eq!(ran.err, "");
}

#[test]
fn formats_are_exact() {
    let query = "SELECT * FROM (VALUES (1, 'a,b', 1.5), (2, NULL, NULL)) AS t(x, y, z) ORDER BY x";
    let run = |format| run(["--format", format, "-c", query]);
    run("csv").prints("x,y,z\n1,\"a,b\",1.5\n2,,\n");
    let rows = [
        r#"{"x":1,"y":"a,b","z":1.5}"#,
        r#"{"x":2,"y":null,"z":null}"#,
    ];
    run("json").prints(&format!("[{},\n{}]\n", rows[0], rows[1]));
    run("ndjson").prints(&format!("{}\n{}\n", rows[0], rows[1]));
}

#[test]
fn an_empty_result_has_its_frame() {
    let run = |format| run(["--format", format, "-c", "SELECT 1 AS x WHERE false"]);
    run("csv").prints("x\n");
    run("json").prints("[]\n");
    run("ndjson").prints("");
    run("table").prints("+---+\n| x |\n+---+\n+---+\n");
}

#[test]
fn statements_without_rows_print_nothing() {
    for format in ["table", "csv", "json", "ndjson"] {
        let script = "SET tidegate.placement = 'host'; CREATE TABLE t AS VALUES (1); ; -- end";
        let ran = run(["--format", format, "-c", script]).prints("");
        assert_eq!(ran.err, "");
    }
}

#[test]
fn several_options_run_in_order_in_one_session() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "two.sql");
    fs::write(&file, "INSERT INTO t VALUES (2);\n").unwrap();
    let create = "CREATE TABLE t AS VALUES (1)";
    let words = [
        "--format",
        "csv",
        "-c",
        create,
        "-f",
        &file,
        "-c",
        "SELECT sum(column1) s FROM t",
    ];
    run(words).prints("count\n1\ns\n3\n");
}

#[test]
fn a_failing_statement_ends_the_script() {
    let ran = sql("SELECT 1 AS a; SELECT nonsense FROM nowhere; SELECT 3 AS c");
    assert_eq!(ran.out, "a\n1\n");
    ran.fails(&[
        "error: table 'nowhere' not found\n  1 | SELECT nonsense FROM nowhere\n    |                      ^^^^^^^\n\
         help: ",
    ]);
}

#[test]
fn keep_going_goes_on_and_exits_with_one() {
    let words = [
        "--keep-going",
        "--format",
        "csv",
        "-c",
        "SELECT 1/0; SELECT 2 AS b",
    ];
    let ran = run(words
        .into_iter()
        .chain(["-f", "missing.sql", "-c", "SELECT 3 AS c"]));
    assert_eq!(ran.out, "b\n2\nc\n3\n");
    ran.fails(&["in: SELECT 1/0", "missing.sql"]);
}

#[test]
fn a_script_comes_through_a_pipe() {
    piped(&["--format", "csv"], b"SELECT 1 AS a;\nSELECT\n 2 AS b").prints("a\n1\nb\n2\n");
    piped(&["--format", "csv", "-f", "-"], b"SELECT ';' AS a;").prints("a\n;\n");
    piped(&[], b"").prints("");
    piped(
        &["--format", "csv"],
        b"SELECT 1 AS a;\nexit\nSELECT 2 AS b;\n",
    )
    .prints("a\n1\n");
    piped(&[], b"SELECT '\xff'").fails(&["UTF-8"]);
    piped(&[], b"SELECT 1;\n\nSELECT x;\n").fails(&["line 3: SELECT x"]);
}

#[test]
fn bad_names_are_answered_with_the_nearest() {
    sql("CREATE TABLE orders AS VALUES (1); SELECT * FROM order_s").fails(&["orders"]);
    sql("SET tidegate.placemnt = 'host'").fails(&["tidegate.placement"]);
}

#[test]
fn bad_data_is_an_error() {
    sql("SELECT 1 / 0").fails(&["division by zero"]);
    sql("SELECT 'unclosed").fails(&["nterminated"]);
    sql("SELECT * FROM 'no-such-file.parquet'").fails(&["no-such-file", "not found"]);
    sql("SELECT CAST('x' AS INT)").fails(&["'x'"]);
}

#[test]
fn a_script_that_is_not_there_is_an_error() {
    run(["-f", "missing.sql"]).fails(&["missing.sql"]);
}

#[test]
fn long_chains_are_refused() {
    for bytes in [5 << 10, 1 << 20] {
        let chain = format!("SELECT 1{}", "+1".repeat(bytes / 2));
        let ran = piped(&["--format", "csv"], chain.as_bytes());
        ran.fails(&["operators", "limit"]);
    }
}

#[test]
fn deep_nesting_is_refused() {
    let nested = format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    sql(&nested).fails(&["nesting"]);
}

#[test]
fn files_go_there_and_back() {
    let folder = tempfile::tempdir().unwrap();
    for form in ["parquet", "csv"] {
        let file = path(&folder, &format!("t.{form}"));
        let copy = format!("COPY (SELECT * FROM (VALUES (1, 'a'), (2, 'b')) t(x, y)) TO '{file}'");
        let copy = if form == "csv" {
            copy + " OPTIONS ('format.has_header' 'true')"
        } else {
            copy
        };
        sql(&copy).prints("count\n2\n");
        sql(&format!("SELECT * FROM '{file}' ORDER BY x")).prints("x,y\n1,a\n2,b\n");
    }
}

#[test]
fn a_truncated_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "t.parquet");
    sql(&format!(
        "COPY (SELECT value FROM generate_series(1, 10000)) TO '{file}'"
    ))
    .prints("count\n10000\n");
    let bytes = fs::read(&file).unwrap();
    for length in [0, 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&file, &bytes[..length]).unwrap();
        let ran = sql(&format!("SELECT count(value) FROM '{file}'"));
        assert_eq!(ran.code, Some(1), "{length}: {} {}", ran.out, ran.err);
        ran.fails(&[]);
    }
}

#[test]
fn a_csv_with_a_broken_row_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "t.csv");
    fs::write(&file, "a,b\n1,2\n3\n").unwrap();
    sql(&format!("SELECT * FROM '{file}'")).fails(&[]);
}

#[test]
fn usage_errors_exit_with_two() {
    for words in [
        &["--nonsense"][..],
        &["--memory-limit", "lots"],
        &["-c", "SELECT 1", "demo"],
    ] {
        let ran = run(words);
        assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""), "{words:?}");
    }
    assert!(run(["--memory-limit", "lots"]).err.contains("512MB"));
    assert!(run(["--simulate-device", "soon"]).err.contains("2GB"));
}

#[test]
fn the_environment_limits_memory() {
    let mut command = tidegate(["doctor"]);
    let ran = Ran::of(
        command
            .env("TIDEGATE_MEMORY_LIMIT", "256MB")
            .output()
            .unwrap(),
    );
    assert!(ran.out.contains("256 MB"), "{}", ran.out);
    let ran = Ran::of(command.args(["--memory-limit", "512MB"]).output().unwrap());
    assert!(ran.out.contains("512 MB"), "{}", ran.out);
}

#[test]
fn tables_are_cut_on_request() {
    let series = "SELECT value AS v FROM generate_series(1, 50)";
    let ran = run(["--maxrows", "2", "-c", series]);
    assert_eq!(ran.out.lines().count(), 6);
    assert!(ran.err.starts_with("… 48 more rows"), "{}", ran.err);
    assert_eq!(run(["-c", series]).out.lines().count(), 54);
    assert_eq!(run(["-q", "--maxrows", "2", "-c", series]).err, "");
}

#[test]
fn timing_goes_to_standard_error() {
    let ran = run(["--timing", "--format", "csv", "-c", "SELECT 1 AS a"]).prints("a\n1\n");
    assert!(
        ran.err.starts_with("1 row in ") && ran.err.ends_with(" s\n"),
        "{}",
        ran.err
    );
}

#[test]
fn the_demo_answers() {
    let ran = run(["demo", "--scale-factor", "0.01", "--format", "csv"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 5, "{}", ran.out);
    assert!(
        ran.out
            .starts_with("l_returnflag,l_linestatus,sum_quantity"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("SELECT l_returnflag") && ran.err.contains("placement of region 1"));
}

#[test]
fn the_demo_on_a_simulated_device_has_the_same_answer_and_says_so() {
    let words = ["demo", "--scale-factor", "0.01", "--format", "csv"];
    let host = run(words);
    let ran = run(words.into_iter().chain(["--simulate-device", "2GB"]));
    let ran = ran.prints(&host.out);
    assert!(
        ran.err.contains("simulated device, not a GPU"),
        "{}",
        ran.err
    );
}

#[test]
fn the_doctor_reports() {
    let ran = run(["doctor", "--memory-limit", "1GB", "--threads", "3"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    for words in [env!("CARGO_PKG_VERSION"), "1024 MB", "partitions  3"] {
        assert!(ran.out.contains(words), "{words}: {}", ran.out);
    }
}

#[test]
fn kernels_are_compiled_where_there_is_a_compiler() {
    let query = "SELECT sum(value) FROM generate_series(1, 9) WHERE value > 3";
    let mut command = tidegate(["kernel", "--source", query]);
    let nvrtc = std::env::var_os("TIDEGATE_NVRTC");
    if let Some(folder) = nvrtc.as_deref().and_then(|nvrtc| Path::new(nvrtc).parent()) {
        command.env("LD_LIBRARY_PATH", folder);
    }
    let ran = Ran::of(command.output().unwrap());
    assert!(
        ran.out.starts_with("region 1: filter value > 3"),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("__global__"), "{}", ran.out);
    if ran.code == Some(0) {
        assert!(ran.out.contains("registers"), "{}", ran.out);
        return;
    }
    assert_eq!(nvrtc, None, "the compiler is not used: {}", ran.err);
    let ran = ran.fails(&[
        "no NVRTC",
        "libnvrtc.so.13: not found",
        "pip install nvidia-cuda-nvrtc",
    ]);
    tidegate_needs::skip(Need::Nvrtc, &ran.err);
}

#[test]
fn a_query_without_kernels_needs_no_compiler() {
    let ran = run(["kernel", "SELECT 1"]).prints("");
    assert!(ran.err.contains("there is no kernel"), "{}", ran.err);
    let ran = run(["kernel", "SELECT median(value) FROM generate_series(1, 9)"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.contains("no kernel: not lowered: function median"),
        "{}",
        ran.out
    );
    run(["kernel", "SET tidegate.placement = 'host'"]).fails(&["only a query has kernels"]);
    assert_eq!(run(["kernel"]).code, Some(2));
}

#[test]
fn a_closed_output_ends_quietly() {
    for format in ["table", "csv", "json", "ndjson"] {
        let mut child = tidegate(["--format", format, "-c"])
            .arg("SELECT * FROM generate_series(1, 3000000); SELECT 1/0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = Vec::new();
        let mut out = BufReader::with_capacity(64, child.stdout.take().unwrap());
        if format == "json" {
            out.fill_buf().unwrap();
        } else {
            out.read_until(b'\n', &mut line).unwrap();
        }
        drop(out);
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{format}");
    }
}

#[test]
fn a_memory_limit_ends_a_query_with_a_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let query = "SELECT array_length(array_agg(value)) FROM generate_series(1, 5000000)";
    let ran = run([
        "--memory-limit",
        "8MB",
        "--temp-dir",
        &path(&folder, "spill"),
        "-c",
        query,
    ]);
    ran.fails(&["memory_limit"]);
    let spilled = |folder: &Path| fs::read_dir(folder).map_or(0, Iterator::count);
    assert_eq!(spilled(&folder.path().join("spill")), 0);
}

#[test]
fn scripts_hold_commands() {
    let folder = tempfile::tempdir().unwrap();
    let (inner, out) = (path(&folder, "inner.sql"), path(&folder, "out.csv"));
    fs::write(&inner, "SELECT 3 AS n;\n\\q\nSELECT 4;").unwrap();
    let script =
        format!(".mode csv\nSELECT 1 AS n;\n\\o {out}\nSELECT 2 AS n;\n\\o\n\\x on\n\\i {inner}\n");
    piped(&["--quiet"], script.as_bytes()).prints("n\n1\n-- row 1 --\nn | 3\n");
    assert_eq!(fs::read_to_string(&out).unwrap(), "n\n2\n");
    piped(&[], b"SELECT 1;\n\\nope\n").fails(&["no command", "line 2"]);
    piped(&[], b"\\i /nope.sql\n").fails(&["cannot read", "/nope.sql"]);
    piped(&[], b"\\o /nope/out\n").fails(&["cannot write", "/nope/out"]);
    fs::write(&inner, format!("\\i {inner}\n")).unwrap();
    piped(&[], format!("\\i {inner}\n").as_bytes()).fails(&["files read each other"]);
}

#[test]
fn results_go_to_files_for_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "t.parquet");
    let script = format!(
        "\\format parquet\n\\o {file}\nSELECT 1 AS n;\n\\o\n\\format csv\nSELECT n + 1 AS m FROM '{file}';"
    );
    piped(&["--quiet"], script.as_bytes()).prints("m\n2\n");
    let twice = tidegate(["--format", "arrow", "-c", "SELECT 1; SELECT 2"])
        .output()
        .unwrap();
    assert_eq!(twice.status.code(), Some(1));
    let told = String::from_utf8(twice.stderr).unwrap();
    assert!(told.contains("holds one result"), "{told}");
}

#[test]
fn an_interrupt_between_two_steps_stops_the_script() {
    // The first step hears the signal too late to be stopped by it: it is a command.
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("steps.sql");
    let steps =
        "SELECT 1 AS a;\n".to_string() + &"\\timing off\n".repeat(200_000) + "SELECT 2 AS b;\n";
    fs::write(&script, steps).unwrap();
    let words = ["--format", "csv", "--quiet", "-f", script.to_str().unwrap()];
    let mut child = tidegate(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "a\n1\n");
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let status = child.wait().unwrap();
    line.clear();
    out.read_line(&mut line).unwrap();
    assert_eq!((status.code(), line.as_str()), (Some(130), ""));
}

#[test]
fn shells_and_man_are_told_what_there_is() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = run(["completions", shell]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.out.contains("simulate-device"), "{}", ran.out);
    }
    let page = run(["man"]);
    assert!(
        page.out.starts_with(".ie") && page.out.contains(".TH"),
        "{}",
        page.out
    );
    assert!(run(["man", "serve"]).out.contains("max\\-statements"));
    run(["man", "sail"]).fails(&["there is no subcommand sail; there are "]);
}

#[test]
fn a_report_is_one_page() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "report.html");
    let query = "SELECT v1, count(*) AS n FROM h2o_g1(1e5, 10) WHERE v3 < 50 GROUP BY v1;";
    let words = ["report", query, "-o", &file, "--simulate-device", "2GB"];
    let ran = run(words);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let page = fs::read_to_string(&file).unwrap();
    for part in [
        "<!doctype html>",
        "function showWork",
        "ran on ",
        "v3 \\u003c 50",
        "\"operator\":\"PipelineExec\"",
        "\"lane\":\"host 0\"",
    ] {
        assert!(page.contains(part), "no '{part}' in {page}");
    }
    for part in ["src=", "href=", "https:", "@import", "url(http"] {
        assert!(!page.contains(part), "'{part}' in {page}");
    }
    let wrong = run(["report", "SELECT nope", "-o", &file]);
    wrong.fails(&["nope"]);
}

#[test]
fn rows_left_out_are_told_after_the_statement() {
    let folder = tempfile::tempdir().unwrap();
    let file = path(&folder, "t.csv");
    fs::write(&file, "a,b\n1,2\n3\n4,5\n").unwrap();
    let query = format!("SELECT sum(a) AS s FROM read_csv('{file}', ignore_errors => true)");
    let ran = run(["--format", "csv", "-c", &query]).prints("s\n5\n");
    assert!(
        ran.err.contains("ignore_errors left out 1 row: line 3"),
        "{}",
        ran.err
    );
    let ran = run(["--quiet", "--format", "csv", "-c", &query]).prints("s\n5\n");
    assert_eq!(ran.err, "");
}

#[test]
fn a_file_in_the_place_of_a_subcommand_gets_a_way_out() {
    let ran = run(["my.db"]);
    assert_eq!(ran.code, Some(2));
    for part in ["there are no database files", "FROM 'my.db'", "-f my.db"] {
        assert!(ran.err.contains(part), "{}", ran.err);
    }
}

#[test]
fn exit_and_quit_end_a_script() {
    for word in ["exit", "QUIT;", "\\q"] {
        let script = format!("SELECT 1 AS a;\n{word}\n;SELECT 2 AS b;");
        assert_eq!(sql(&script).out, "a\n1\n", "{word}");
    }
}

#[test]
fn copy_writes_to_standard_output() {
    let query = "(SELECT * FROM (VALUES (1, 'a;b'), (2, NULL)) AS t(x, y) ORDER BY x)";
    let copy = |rest: &str| run(["-c", &format!("COPY {query} TO {rest}")]);
    copy("'/dev/stdout'").prints("x,y\n1,a;b\n2,\n");
    copy("STDOUT (FORMAT csv, DELIMITER ';', NULL '-')").prints("x;y\n1;\"a;b\"\n2;-\n");
    copy("'-' (FORMAT json)").prints("{\"x\":1,\"y\":\"a;b\"}\n{\"x\":2,\"y\":null}\n");
    let parquet = tidegate(["-c", &format!("COPY {query} TO STDOUT (FORMAT parquet)")]).output();
    assert!(parquet.unwrap().stdout.starts_with(b"PAR1"));
    copy("STDOUT (FORMAT nothing)").fails(&["nothing"]);
}

#[test]
fn help_of_the_server_has_what_has_an_effect_there() {
    for words in [["serve", "--help"], ["serve", "-h"], ["man", "serve"]] {
        let ran = run(words);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let text = ran.out.replace("\\-", "-");
        assert!(
            text.contains("--http-port") && text.contains("--log-format"),
            "{text}"
        );
        for word in ["--maxrows", "--timing", "--quiet", "TIDEGATE_FORMAT"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
    let page = run(["man", "serve"]).out;
    let version = concat!("\"tidegate ", env!("CARGO_PKG_VERSION"), "\"");
    assert!(page.contains(version), "{page}");
}
