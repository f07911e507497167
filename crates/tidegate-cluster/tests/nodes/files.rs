//! Files other than Parquet are read once too, each row by one executor.

use std::fmt::Write as _;
use std::path::Path;

use tidegate::Session;

use crate::nodes::{Nodes, builder, rows};

/// Writes files of one table, of uneven sizes.
async fn copies(session: &Session, folder: &Path, format: &str) {
    for (file, rows_of_it) in [30_000, 1, 2_000, 9_000].into_iter().enumerate() {
        let sql = format!(
            "COPY (SELECT value AS id, value % 100 AS k, value * 0.5 AS v, 'n' || (value % 7) AS name \
             FROM range({file}00000, {file}00000 + {rows_of_it})) TO '{}/{file}.{format}'",
            folder.display()
        );
        rows(session, &sql).await;
    }
}

/// Writes a file of values with newlines and quotes, of lines of many lengths.
fn quoted(folder: &Path) -> String {
    let mut text = String::from("id,name\n");
    for id in 0..20_000 {
        let name = match id % 5 {
            0 => "\"a\nb\"".to_string(),
            1 => format!("\"said \"\"{id}\"\",\n\n{id}\""),
            2 => "x".repeat(id % 300),
            3 => String::new(),
            _ => "\"\n1,2\n3,4\n\"".into(),
        };
        writeln!(text, "{id},{name}").unwrap();
    }
    let path = folder.join("quoted.csv");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Asserts that both executors read of a table, each row once.
async fn is_shared(nodes: &Nodes, alone: &Session, table: &str) {
    for select in ["count(*), sum(id), min(name), max(name)", "id, name"] {
        let sql = format!("SELECT {select} FROM {table}");
        nodes.same(alone, &sql).await;
    }
    let tasks = "SELECT DISTINCT executor, state FROM system.tasks ORDER BY executor, state";
    assert_eq!(nodes.rows(tasks).await, ["e1|done", "e2|done"], "{table}");
    let explained = nodes
        .explained(&format!("SELECT sum(id) FROM {table}"))
        .await;
    assert!(explained.contains("DistributedLeafExec"), "{explained}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_and_arrow_are_read_once() {
    let alone = builder().file_urls().build().unwrap();
    for format in ["csv", "ndjson", "arrow", "csv.gz", "parquet"] {
        let folder = tempfile::tempdir().unwrap();
        copies(&alone, folder.path(), format).await;
        let nodes = Nodes::start(2).await;
        let table = format!("'{}/*.{format}'", folder.path().display());
        is_shared(&nodes, &alone, &table).await;
        for sql in [
            format!("SELECT k, count(*), sum(id) FROM {table} GROUP BY k"),
            format!("SELECT name, count(DISTINCT k) FROM {table} WHERE v > 100 GROUP BY name"),
            format!(
                "SELECT a.k, count(*) FROM {table} a JOIN {table} b ON a.id = b.id + 1 GROUP BY a.k"
            ),
            format!("SELECT * FROM {table} ORDER BY v DESC, id LIMIT 7"),
        ] {
            nodes.same(&alone, &sql).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_file_is_cut_between_rows() {
    let folder = tempfile::tempdir().unwrap();
    let alone = builder().file_urls().build().unwrap();
    let file = quoted(folder.path());
    let nodes = Nodes::start(2).await;
    let small = "SET datafusion.optimizer.repartition_file_min_size = 1000";
    nodes.rows(small).await;
    is_shared(&nodes, &alone, &format!("'{file}'")).await;
    is_shared(
        &nodes,
        &alone,
        &format!("read_csv('{file}', all_varchar => false, header => true)"),
    )
    .await;
    let mut more = Nodes::start(3).await;
    more.add("e4", builder()).await;
    more.ready(4).await;
    more.rows(small).await;
    more.same(&alone, &format!("SELECT id, name FROM '{file}'"))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declared_tables_are_read_as_they_were_declared() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = Nodes::start(2).await;
    let alone = builder().file_urls().build().unwrap();
    copies(&alone, folder.path(), "csv").await;
    copies(&alone, folder.path(), "csv.gz").await;
    copies(&alone, folder.path(), "ndjson").await;
    let folder = folder.path().display();
    for session in [&nodes.session, &alone] {
        for (name, format, ending, options) in [
            ("plain", "CSV", "csv", "'format.has_header' 'true'"),
            (
                "packed",
                "CSV",
                "csv.gz",
                "'format.has_header' 'true', 'format.compression' 'gzip'",
            ),
            (
                "objects",
                "NDJSON",
                "ndjson",
                "'format.newline_delimited' 'true'",
            ),
        ] {
            let sql = format!(
                "CREATE EXTERNAL TABLE {name} (id BIGINT, k BIGINT, v DOUBLE, name VARCHAR) \
                 STORED AS {format} LOCATION '{folder}/*.{ending}' OPTIONS ({options})"
            );
            rows(session, &sql).await;
        }
    }
    is_shared(&nodes, &alone, "plain").await;
    for table in ["packed", "objects"] {
        let sql = format!("SELECT count(*), sum(id), max(name) FROM {table}");
        let explained = nodes.explained(&sql).await;
        assert!(explained.contains("Not spread: "), "{explained}");
        assert_eq!(nodes.rows(&sql).await, rows(&alone, &sql).await, "{table}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_left_out_are_told_by_the_scheduler() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.csv");
    std::fs::write(&file, "a,b\n1,2\nx\n3,4\n").unwrap();
    let nodes = Nodes::start(2).await;
    let sql = format!(
        "SELECT count(*), sum(b) FROM read_csv('{}', ignore_errors => true, types => {{'a': 'BIGINT', 'b': 'BIGINT'}})",
        file.display()
    );
    let explained = nodes.explained(&sql).await;
    assert!(explained.contains("Not spread: "), "{explained}");
    assert_eq!(nodes.rows(&sql).await, ["2|6"]);
}
