//! Files that statements read with `read_csv` and its kin: from disk, from servers, within what is allowed.

use tidegate::{AllowedPaths, ErrorKind, Session};

use crate::servers::Http;
use crate::support::{answer, write_parquet};

fn session() -> Session {
    Session::builder()
        .target_partitions(2)
        .file_urls()
        .build()
        .unwrap()
}

async fn refused(session: &Session, sql: &str) -> (ErrorKind, String) {
    match session.collect(sql).await {
        Ok(_) => panic!("{sql} is answered"),
        Err(error) => (error.kind(), error.to_string()),
    }
}

/// Rows that are longer than what is looked at of a file first.
#[tokio::test(flavor = "multi_thread")]
async fn long_first_rows_are_looked_at_whole() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let session = session();
    let quoted = |lines: usize| format!("\"{}\",1", "Hallo, Welt\n".repeat(lines));
    let long = format!("text,nr\n{}\nkurz,2\n", quoted(6_000));
    let longer = format!(
        "text,nr\n{}\nkurz,2\n{}",
        quoted(40_000),
        "x,3\n".repeat(200_000)
    );
    let wide = |row: &dyn Fn(usize) -> String| (0..800).map(row).collect::<Vec<_>>().join(",");
    let names = wide(&|column| format!("c{column}{}", "x".repeat(80)));
    let header = format!("{names}\n{}\n", wide(&|_| "1".into()));
    let object = format!("{{\"a\":\"{}\",\"b\":2}}\n", "x".repeat(700_000));
    let array = format!("[{object},{object}]");
    for (path, sql, wanted) in [
        (write("long.csv", long), "count(*), max(nr)", "2, 2"),
        (
            write("longer.csv", longer),
            "count(*), max(nr)",
            "200002, 3",
        ),
        (write("header.csv", header), "count(*), 1", "1, 1"),
        (
            write("m.json", object),
            "max(length(a)), max(b)",
            "700000, 2",
        ),
        (
            write("n.json", array),
            "sum(length(a)), sum(b)",
            "1400000, 4",
        ),
    ] {
        let sql = format!("SELECT concat_ws(', ', {sql}) FROM '{path}'");
        let given = answer(&session, &sql).await.join("\n");
        assert!(given.contains(wanted), "{path}: {given}");
    }
}

/// A batch of long rows has few of them.
#[tokio::test(flavor = "multi_thread")]
async fn batches_have_a_limit_of_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let value = "y".repeat(1 << 20);
    let csv = folder.path().join("rows.csv");
    let lines: Vec<String> = (0..40).map(|row| format!("{row},{value}\n")).collect();
    std::fs::write(&csv, format!("id,s\n{}", lines.concat())).unwrap();
    let json = folder.path().join("rows.json");
    let lines = (0..40).map(|row| format!("{{\"id\":{row},\"s\":\"{{{value}}}\"}}\n"));
    let lines: Vec<String> = lines.collect();
    std::fs::write(&json, lines.concat()).unwrap();
    let session = session();
    for (from, bytes) in [
        (format!("read_csv('{}')", csv.display()), 1 << 20),
        (format!("read_json('{}')", json.display()), (1 << 20) + 2),
        (
            format!("read_json('{}', ignore_errors => true)", json.display()),
            (1 << 20) + 2,
        ),
    ] {
        let batches = session
            .collect(&format!("SELECT * FROM {from}"))
            .await
            .unwrap();
        let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(rows, 40, "{from}");
        assert!(batches.iter().all(|batch| batch.num_rows() <= 9), "{from}");
        let sql =
            format!("SELECT concat_ws(' ', sum(id), min(length(s)), max(length(s))) FROM {from}");
        let given = answer(&session, &sql).await.join("\n");
        assert!(
            given.contains(&format!("780 {bytes} {bytes}")),
            "{from}: {given}"
        );
    }
    let long = folder.path().join("long.json");
    std::fs::write(
        &long,
        format!("{{\"a\":1}}\n{{\"a\":[{}1]}}", "1,".repeat(15 << 20)),
    )
    .unwrap();
    let sql = format!(
        "SELECT count(*) FROM read_json('{}', columns => {{a: 'BIGINT[]'}})",
        long.display()
    );
    let (kind, message) = refused(&session, &sql).await;
    assert_eq!(kind, ErrorKind::Io);
    assert!(
        message.contains("an object has more than 16777216 bytes"),
        "{message}"
    );
}

/// A field that none of the looked-at parts has is no silent loss.
#[tokio::test(flavor = "multi_thread")]
async fn late_fields_of_objects_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let lines = |late: &str| {
        let row = |row: usize| match row {
            30_000 => format!("{{\"i\":-1,\"o\":{{\"k\":1{late}}}}}"),
            _ => format!("{{\"i\":{row},\"o\":{{\"k\":2}}}}"),
        };
        (0..60_000).map(row).collect::<Vec<_>>()
    };
    let (lines, array) = (
        lines(",\"late\":5").join("\n"),
        format!("[{}]", lines(",\"late\":5").join(",")),
    );
    let session = session();
    for (name, text) in [("l.json", lines), ("a.json", array)] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let path = path.display();
        for columns in ["count(*)", "sum(i)", "*"] {
            let (kind, message) =
                refused(&session, &format!("SELECT {columns} FROM '{path}'")).await;
            assert_eq!(kind, ErrorKind::Io);
            assert!(message.contains("the field 'late'"), "{message}");
        }
        let sql =
            format!("SELECT min(i) AS least FROM read_json('{path}', columns => {{i: 'BIGINT'}})");
        assert!(answer(&session, &sql).await.join("\n").contains("-1"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_a_file_looks_at_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("de.csv");
    std::fs::write(
        &path,
        "d;v;z\n31.01.2024;1.234,5;007\n01.02.2024;-7,25;008\n",
    )
    .unwrap();
    let path = path.display();
    let session = session();
    let expect = answer(
        &session,
        "SELECT DATE '2024-01-31' AS d, 1234.5::DOUBLE AS v, '007' AS z UNION ALL \
         SELECT DATE '2024-02-01', -7.25::DOUBLE, '008' ORDER BY d",
    )
    .await;
    session
        .collect(&format!(
            "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{path}'"
        ))
        .await
        .unwrap();
    session
        .collect(&format!(
            "CREATE VIEW w AS SELECT * FROM read_csv('{path}')"
        ))
        .await
        .unwrap();
    for from in [
        format!("'{path}'"),
        format!("read_csv('{path}')"),
        format!("read_csv('{path}', delim => ';', decimal_separator = ',')"),
        format!("READ_CSV_AUTO(['{path}'], sep := ';')"),
        "t".into(),
        "w".into(),
    ] {
        let sql = format!("SELECT * FROM {from} ORDER BY d");
        assert_eq!(answer(&session, &sql).await, expect, "{from}");
    }
    let joined = format!(
        "SELECT count(*) AS n FROM read_csv('{path}') a JOIN read_csv('{path}') b USING (d)"
    );
    assert_eq!(
        answer(&session, &joined).await,
        answer(&session, "SELECT 2 AS n").await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn files_with_other_columns_are_put_together_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("1.csv"), "a,b\n1,x\n").unwrap();
    std::fs::write(at("2.csv"), "a,c\n2.5,y\n").unwrap();
    let session = session();
    let all = at("*.csv");
    let (kind, message) = refused(&session, &format!("SELECT * FROM read_csv('{all}')")).await;
    assert_eq!(kind, ErrorKind::Sql);
    assert!(message.contains("union_by_name => true"), "{message}");
    let sql = format!("SELECT a, b, c FROM read_csv('{all}', union_by_name => true) ORDER BY a");
    let expect = "SELECT 1.0::DOUBLE AS a, 'x' AS b, NULL AS c UNION ALL \
                  SELECT 2.5::DOUBLE, NULL, 'y' ORDER BY a";
    assert_eq!(answer(&session, &sql).await, answer(&session, expect).await);
    for (name, sql) in [
        ("1", "SELECT 1 AS a"),
        ("2", "SELECT 2.5::DOUBLE AS a, 'y' AS c"),
    ] {
        let copy = format!("COPY ({sql}) TO '{}'", at(&format!("{name}.parquet")));
        session.collect(&copy).await.unwrap();
    }
    let all = at("*.parquet");
    for from in [format!("'{all}'"), format!("read_parquet('{all}')")] {
        let (_, message) = refused(&session, &format!("SELECT * FROM {from}")).await;
        for part in [
            "the column \"a\" is BIGINT in ",
            "1.parquet and DOUBLE in ",
            "2.parquet: put them together",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
    let sql = format!("SELECT a, c FROM read_parquet('{all}', union_by_name => true) ORDER BY a");
    let expect = "SELECT 1.0::DOUBLE AS a, NULL AS c UNION ALL SELECT 2.5::DOUBLE, 'y' ORDER BY a";
    assert_eq!(answer(&session, &sql).await, answer(&session, expect).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_value_is_an_error_that_names_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.csv").display().to_string();
    let mut text = String::from("id,v\n");
    for row in 0..200_000 {
        // It stands between the pieces that are looked at.
        let value = if row == 42_000 { "x" } else { "1" };
        text.push_str(&format!("{row},{value}\n"));
    }
    std::fs::write(&path, text).unwrap();
    let session = session();
    let sum = format!("SELECT sum(v) AS s FROM read_csv('{path}'");
    let (kind, message) = refused(&session, &format!("{sum})")).await;
    assert_eq!(kind, ErrorKind::Io);
    assert!(
        message.contains("late.csv: line 42002, column \"v\": 'x' is not a BIGINT"),
        "{message}"
    );
    let sum = format!("{sum}, ignore_errors => true)");
    let expect = answer(&session, "SELECT 199999 AS s").await;
    assert_eq!(answer(&session, &sum).await, expect);
    let plan = answer(&session, &format!("EXPLAIN ANALYZE {sum}"))
        .await
        .join("\n");
    assert!(plan.contains("rows_left_out=1"), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_outside_of_what_is_allowed_are_refused() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&inside, &outside] {
        std::fs::write(folder.path().join("t.csv"), "a\n1\n").unwrap();
    }
    let session = Session::builder()
        .file_urls()
        .allowed_paths(AllowedPaths::new(&[inside.path().into()]).unwrap())
        .build()
        .unwrap();
    let read = |folder: &tempfile::TempDir, name: &str| {
        format!(
            "SELECT * FROM read_csv('{}/{name}')",
            folder.path().display()
        )
    };
    let one = answer(&session, "SELECT 1 AS a").await;
    assert_eq!(answer(&session, &read(&inside, "t.csv")).await, one);
    for name in ["t.csv", "*.csv", ""] {
        let (kind, message) = refused(&session, &read(&outside, name)).await;
        assert_eq!(kind, ErrorKind::Denied, "{name}: {message}");
    }
    let closed = Session::builder().build().unwrap();
    let (kind, _) = refused(&closed, &read(&inside, "t.csv")).await;
    assert_eq!(kind, ErrorKind::Denied);
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_without_ranges_are_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 1_000, 100);
    std::fs::write(folder.path().join("t.csv"), "a;b\n1;x\n2;y\n").unwrap();
    let server = Http::start(folder.path()).await;
    let session = session();
    let count = "SELECT count(*) AS n FROM";
    let thousand = answer(&session, "SELECT 1000 AS n").await;
    for from in ["read_parquet('", "'"] {
        let end = if from == "'" { "'" } else { "')" };
        let sql = format!(
            "{count} {from}{}/whole/0.parquet{end} WHERE v IS NOT NULL OR TRUE",
            server.url
        );
        assert_eq!(answer(&session, &sql).await, thousand, "{sql}");
    }
    let sql = format!(
        "SELECT sum(a) AS s FROM read_csv('{}/whole/t.csv')",
        server.url
    );
    assert_eq!(
        answer(&session, &sql).await,
        answer(&session, "SELECT 3 AS s").await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_say_what_there_is() {
    let session = session();
    for (call, expect) in [
        ("read_csv()", "is a path or a list of paths"),
        (
            "read_csv('x', delimm => ';')",
            "there is no argument delimm: did you mean delim?",
        ),
        (
            "read_csv('x', header => 'maybe')",
            "header takes true or false, and was given 'maybe'",
        ),
        (
            "read_csv('x', delim => ',', sep => ';')",
            "the argument delim is given twice",
        ),
        (
            "read_csv('x', encoding => 'klingon')",
            "encoding takes an encoding",
        ),
        (
            "read_csv('x', delim => '||')",
            "delim takes a single character of ASCII",
        ),
        (
            "read_csv('x', types => {'a': 'BIGGINT'})",
            "'BIGGINT' is not a type",
        ),
        ("read_csv('x', skip => 1 + 1)", "is not a literal"),
        (
            "read_parquet('x', delim => ',')",
            "there is no argument delim",
        ),
        (
            "read_csv('/nowhere/x.csv')",
            "'/nowhere/x.csv': no such file",
        ),
        ("read_csv('/nowhere/*.csv')", "no file matches the pattern"),
    ] {
        let (_, message) = refused(&session, &format!("SELECT * FROM {call}")).await;
        assert!(message.contains(expect), "{call}: {message}");
    }
}

/// A session that reads files of any size in parts.
async fn in_parts(partitions: usize) -> Session {
    let session = Session::builder()
        .target_partitions(partitions)
        .file_urls()
        .build()
        .unwrap();
    let set = "SET datafusion.optimizer.repartition_file_min_size = 1";
    session.collect(set).await.unwrap();
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_read_in_parts_by_several_readers() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let mut csv = String::from("# of a test\nid,t,v\r\n");
    let mut json = String::new();
    for row in 0..5_000 {
        let text = match row {
            4_100 => "\"two\nlines, \"\"quoted\"\"\n\"",
            row if row % 7 == 0 => "\"a, b\"",
            _ => "x",
        };
        csv.push_str(&format!("{row},{text},{}.5\r\n", row % 13));
        json.push_str(&format!(
            "{{\"id\": {row}, \"t\": \"}}\\\"{{\", \"v\": {}.5}}\n",
            row % 13
        ));
    }
    csv.pop();
    csv.pop();
    std::fs::write(at("t.csv"), csv).unwrap();
    std::fs::write(at("t.json"), json).unwrap();
    for (call, name) in [("read_csv", "t.csv"), ("read_json", "t.json")] {
        let from = format!("{call}('{}')", at(name));
        let sums = format!(
            "SELECT t, count(*) AS n, sum(id) AS i, sum(v) AS v FROM {from} GROUP BY t ORDER BY t"
        );
        let expect = answer(&session_of_one(), &sums).await;
        for partitions in [2, 3, 16] {
            let session = in_parts(partitions).await;
            assert_eq!(
                answer(&session, &sums).await,
                expect,
                "{from}, {partitions}"
            );
            let plan = answer(&session, &format!("EXPLAIN {sums}"))
                .await
                .join("\n");
            assert!(plan.contains(&format!("{name}:0..")), "{plan}");
        }
    }
}

fn session_of_one() -> Session {
    let builder = Session::builder().target_partitions(1).file_urls();
    builder.build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_parts_name_the_lines_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.csv").display().to_string();
    let mut text = String::from("id,v\n");
    for row in 0..200_000 {
        let value = if row == 142_000 { "x" } else { "1" };
        text.push_str(&format!("{row},{value}\n"));
    }
    std::fs::write(&path, &text).unwrap();
    let session = in_parts(7).await;
    let (_, message) = refused(&session, &format!("SELECT sum(v) FROM read_csv('{path}')")).await;
    assert!(
        message.contains("late.csv: line 142002, column \"v\": 'x'"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_files_and_arrays_stay_whole() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let session = in_parts(4).await;
    let copy = format!(
        "COPY (SELECT value AS a FROM range(0, 3000)) TO '{}'",
        at("t.csv.gz")
    );
    session.collect(&copy).await.unwrap();
    let objects: Vec<String> = (0..3_000).map(|a| format!("{{\"a\": {a}}}")).collect();
    std::fs::write(at("t.json"), format!("[\n{}\n]", objects.join(",\n"))).unwrap();
    let expect = answer(&session, "SELECT 4498500 AS s").await;
    for name in ["t.csv.gz", "t.json"] {
        let sql = format!("SELECT sum(a) AS s FROM '{}'", at(name));
        assert_eq!(answer(&session, &sql).await, expect, "{name}");
        let plan = answer(&session, &format!("EXPLAIN {sql}")).await.join("\n");
        assert!(!plan.contains(&format!("{name}:0..")), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_left_out_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(at("t.csv"), "a,b\n1,2\n3\n4,5\n6\n").unwrap();
    std::fs::write(at("t.json"), "{\"a\": 1}\n{\"a\": \n{\"a\": 4}\nnone\n").unwrap();
    for (call, line) in [("read_csv", "line 3: "), ("read_json", "line 2: ")] {
        let name = if call == "read_csv" {
            "t.csv"
        } else {
            "t.json"
        };
        for partitions in [1, 4] {
            let session = in_parts(partitions).await;
            let sql = format!(
                "SELECT sum(a) AS s FROM {call}('{}', ignore_errors => true)",
                at(name)
            );
            let expect = answer(&session, "SELECT 5 AS s").await;
            assert_eq!(answer(&session, &sql).await, expect, "{sql}");
            let report = session.last_report().unwrap();
            assert_eq!(report.rows_left_out, 2, "{report:?}");
            let note = report.note.unwrap();
            assert!(
                note.starts_with("ignore_errors left out 2 rows, one of them: "),
                "{note}"
            );
            assert!(partitions > 1 || note.contains(line), "{note}");
            session.collect("SELECT 1").await.unwrap();
            assert_eq!(session.last_report().unwrap().rows_left_out, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_objects_may_be_given() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(
        at("t.json"),
        "{\"n\": 7, \"d\": \"2024-01-31\", \"x\": {}}\n{\"d\": null, \"x\": 1}\n",
    )
    .unwrap();
    std::fs::write(at("a.json"), "[{\"n\": 7, \"d\": \"2024-01-31\"}, {}]").unwrap();
    let session = session();
    let expect = "SELECT '7' AS n, DATE '2024-01-31' AS d UNION ALL SELECT NULL, NULL ORDER BY n";
    let expect = answer(&session, expect).await;
    for name in ["t.json", "a.json"] {
        let columns = "columns => {'n': 'VARCHAR', 'd': 'DATE'}";
        let sql = format!(
            "SELECT * FROM read_json('{}', {columns}) ORDER BY n",
            at(name)
        );
        assert_eq!(answer(&session, &sql).await, expect, "{name}");
    }
    let sql = format!(
        "SELECT * FROM read_json('{}', ignore_errors => true)",
        at("a.json")
    );
    let (_, message) = refused(&session, &sql).await;
    assert!(message.contains("the file is an array"), "{message}");
}
