//! No statement reaches a file outside the allowed folders.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tonic::Code;

use crate::support::{Client, Running, answer, options, query, session, start_with, status_of};

struct Folders {
    _folder: TempDir,
    inside: PathBuf,
    outside: PathBuf,
}

fn folders() -> Folders {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (inside, outside) = (root.join("in"), root.join("out"));
    for path in [&inside, &outside] {
        std::fs::create_dir_all(path).unwrap();
        std::fs::write(path.join("t.csv"), "a\nsecret\n").unwrap();
    }
    symlink(&outside, inside.join("away")).unwrap();
    symlink(outside.join("t.csv"), inside.join("link.csv")).unwrap();
    std::fs::create_dir(inside.join("mixed")).unwrap();
    std::fs::write(inside.join("mixed/a.csv"), "a\nx\n").unwrap();
    symlink(outside.join("t.csv"), inside.join("mixed/b.csv")).unwrap();
    Folders {
        _folder: folder,
        inside,
        outside,
    }
}

async fn serve(folders: &Folders) -> Running {
    start_with(session(std::slice::from_ref(&folders.inside)), options()).await
}

async fn refused(client: &mut Client, sql: &str) {
    let error = match query(client, sql).await {
        Ok(rows) => panic!("{sql} gives {rows:?}"),
        Err(error) => status_of(error),
    };
    assert_eq!(error.code(), Code::PermissionDenied, "{sql}: {error}");
    assert!(!error.message().contains("secret"), "{sql}: {error}");
}

fn at(path: &Path, rest: &str) -> String {
    format!("{}/{rest}", path.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_files_are_read_and_written() {
    let folders = folders();
    let server = serve(&folders).await;
    let client = &mut server.client().await;
    let inside = |rest| at(&folders.inside, rest);
    let table = inside("t.csv");
    assert_eq!(
        answer(client, &format!("SELECT * FROM '{table}'")).await,
        ["secret"]
    );
    let create = format!(
        "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{table}' OPTIONS ('format.has_header' 'true')"
    );
    answer(client, &create).await;
    assert_eq!(answer(client, "SELECT * FROM e").await, ["secret"]);
    let copy = format!("COPY (SELECT 1 AS n) TO '{}'", inside("new/deep.parquet"));
    assert_eq!(answer(client, &copy).await, ["1"]);
    let read = format!("SELECT * FROM '{}'", inside("new/deep.parquet"));
    assert_eq!(answer(client, &read).await, ["1"]);
    let dotted = format!("SELECT * FROM '{}'", inside("new/../t.csv"));
    assert_eq!(answer(client, &dotted).await, ["secret"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_reaches_another_file() {
    let folders = folders();
    let server = serve(&folders).await;
    let client = &mut server.client().await;
    let inside = |rest: &str| at(&folders.inside, rest);
    let outside = |rest: &str| at(&folders.outside, rest);
    let paths = [
        outside("t.csv"),
        outside(""),
        outside("*.csv"),
        inside("../out/t.csv"),
        inside("away/t.csv"),
        inside("away/"),
        inside("link.csv"),
        inside("mixed/"),
        inside("mixed/*.csv"),
        format!("file://{}", outside("t.csv")),
        "/etc/passwd".to_string(),
        "/".to_string(),
    ];
    for (number, path) in paths.iter().enumerate() {
        let create = format!(
            "CREATE EXTERNAL TABLE x{number} STORED AS CSV LOCATION '{path}' OPTIONS ('format.has_header' 'true')"
        );
        refused(client, &create).await;
        let typed =
            format!("CREATE EXTERNAL TABLE y{number}(a TEXT) STORED AS CSV LOCATION '{path}'");
        // Columns that are given are not looked up: the scan is refused.
        if query(client, &typed).await.is_ok() {
            refused(client, &format!("SELECT * FROM y{number}")).await;
            if !path.ends_with(['/', 'v']) {
                continue;
            }
        }
    }
    for path in [
        outside("t.csv"),
        inside("away/t.csv"),
        inside("link.csv"),
        "/etc/x.csv".into(),
    ] {
        refused(client, &format!("SELECT * FROM '{path}'")).await;
    }
    for path in [
        outside("new.csv"),
        outside("new/"),
        inside("away/new.csv"),
        inside("../new.csv"),
    ] {
        refused(
            client,
            &format!("COPY (SELECT 1) TO '{path}' STORED AS CSV"),
        )
        .await;
    }
    let insert = format!(
        "CREATE EXTERNAL TABLE w(a TEXT) STORED AS CSV LOCATION '{}'",
        outside("")
    );
    if query(client, &insert).await.is_ok() {
        refused(client, "INSERT INTO w VALUES ('x')").await;
    }
    assert_eq!(std::fs::read_dir(&folders.outside).unwrap().count(), 1);
    assert!(!folders.inside.parent().unwrap().join("new.csv").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn unbounded_tables_and_urls_are_no_way_round() {
    let folders = folders();
    let server = serve(&folders).await;
    let client = &mut server.client().await;
    let outside = at(&folders.outside, "t.csv");
    for sql in [
        format!("CREATE UNBOUNDED EXTERNAL TABLE s(a TEXT) STORED AS CSV LOCATION '{outside}'"),
        format!(
            "CREATE EXTERNAL TABLE s(a TEXT) STORED AS CSV LOCATION '{outside}' OPTIONS ('unbounded' 'true')"
        ),
    ] {
        if query(client, &sql).await.is_ok() {
            refused(client, "SELECT * FROM s").await;
            assert!(query(client, "INSERT INTO s VALUES ('x')").await.is_err());
            answer(client, "DROP TABLE s").await;
        }
    }
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "a\nsecret\n");
    for url in ["http://127.0.0.1:1/a.csv", "s3://bucket/a.csv"] {
        let create = format!(
            "CREATE EXTERNAL TABLE u STORED AS CSV LOCATION '{url}' OPTIONS ('format.has_header' 'true')"
        );
        refused(client, &create).await;
        refused(client, &format!("COPY (SELECT 1) TO '{url}'")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_allowed_path_there_are_no_files() {
    let folders = folders();
    let server = start_with(session(&[]), options()).await;
    let client = &mut server.client().await;
    let path = at(&folders.inside, "t.csv");
    assert!(
        query(client, &format!("SELECT * FROM '{path}'"))
            .await
            .is_err()
    );
    refused(client, &format!("COPY (SELECT 1) TO '{path}'")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_settings_stay() {
    let server = start_with(session(&[]), options()).await;
    let client = &mut server.client().await;
    for name in [
        "tidegate.memory_limit = '100GB'",
        "tidegate.placement = 'strict'",
        "datafusion.runtime.memory_limit = '100G'",
        "datafusion.runtime.temp_directory = '/etc'",
        "datafusion.sql_parser.recursion_limit = 1000000",
        "datafusion.execution.target_partitions = 100000",
        // By their names in DuckDB.
        "memory_limit = '100GB'",
        "max_memory = '100GB'",
        "threads = 100000",
    ] {
        refused(client, &format!("SET {name}")).await;
    }
    refused(client, "RESET datafusion.sql_parser.recursion_limit").await;
    refused(client, "RESET threads").await;
    refused(client, "PRAGMA threads = 100000").await;
    answer(client, "SET tidegate.float_sums = 'ordered'").await;
    // Nor is a prepared statement a way round.
    answer(client, "SET tidegate.statement_timeout = '5s'").await;
    assert!(query(client, "DROP SCHEMA temp CASCADE").await.is_err());
    assert!(query(client, "DROP SCHEMA system CASCADE").await.is_err());
    assert!(
        !answer(client, "SELECT * FROM system.queries")
            .await
            .is_empty()
    );
}
