//! A walk along every way to a file, for whoever wants one that was not allowed: none of them ends
//! outside, and none tells what is there.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidegate::{AllowedPaths, Runtime, RuntimeOptions, Session};
use tonic::Code;

use crate::support::{
    Client, Running, answer, failure, options, query, session, start_with, status_of,
};

const SECRET: &str = "xyzzy";

/// A folder that is allowed, one that is not, and ways from the one to the other.
struct Place {
    _folder: TempDir,
    inside: PathBuf,
    outside: PathBuf,
}

impl Place {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (inside, outside) = (root.join("in"), root.join("in-and-out"));
        for path in [&inside, &outside] {
            std::fs::create_dir_all(path.join("k=1")).unwrap();
        }
        let maker = Session::builder()
            .runtime(Arc::new(Runtime::new(&RuntimeOptions::default()).unwrap()))
            .build()
            .unwrap();
        for (path, word) in [(&inside, "plain"), (&outside, SECRET)] {
            for name in ["t.csv", "t.json", "t.parquet", "t.arrow", "k=1/t.parquet"] {
                let to = path.join(name);
                let copy = format!("COPY (SELECT '{word}' AS a) TO '{}'", to.display());
                maker.collect(&copy).await.unwrap();
            }
        }
        symlink(&outside, inside.join("away")).unwrap();
        symlink(outside.join("k=1"), inside.join("k=2")).unwrap();
        symlink(inside.join("away"), inside.join("twice")).unwrap();
        symlink("../in-and-out/t.csv", inside.join("relative.csv")).unwrap();
        symlink("/proc/self/root/etc", inside.join("proc")).unwrap();
        Self {
            _folder: folder,
            inside,
            outside,
        }
    }

    async fn serve(&self) -> Running {
        start_with(session(std::slice::from_ref(&self.inside)), options()).await
    }
}

/// Runs a statement that must not give what is outside, whatever else becomes of it.
async fn kept(client: &mut Client, sql: &str) {
    match query(client, sql).await {
        Ok(rows) => {
            let told = format!("{rows:?}");
            assert!(!told.contains(SECRET), "{sql} tells what is outside");
            assert!(!told.contains("root:"), "{sql} tells what is outside");
        }
        Err(error) => {
            let status = status_of(error);
            assert_ne!(status.code(), Code::Internal, "{sql}: {status}");
            assert!(!status.message().contains(SECRET), "{sql}: {status}");
        }
    }
}

async fn denied(client: &mut Client, sql: &str) {
    let (code, message) = failure(client, sql).await;
    assert_eq!(code, Code::PermissionDenied, "{sql}: {message}");
}

/// Writes a path in many ways; each leads outside if it leads anywhere.
fn spellings(place: &Place, name: &str) -> Vec<String> {
    let (inside, outside) = (place.inside.display(), place.outside.display());
    let encoded = |text: &str| text.replace('/', "%2F").replace('.', "%2e");
    let out = format!("{outside}/{name}");
    vec![
        out.clone(),
        format!("{inside}/../in-and-out/{name}"),
        format!("{inside}/./k=1/../../in-and-out/{name}"),
        format!("{inside}/away/{name}"),
        format!("{inside}/twice/{name}"),
        format!("{inside}-and-out/{name}"),
        format!("{inside}/%2e%2e/in-and-out/{name}"),
        format!("{inside}/..%2Fin-and-out/{name}"),
        format!("{inside}/%252e%252e/in-and-out/{name}"),
        format!("{inside}/..\\in-and-out\\{name}"),
        format!("{inside}//..//in-and-out//{name}"),
        format!("file://{out}"),
        format!("FILE://{out}"),
        format!("file://localhost{out}"),
        format!("file:{out}"),
        format!("file://{inside}/%2e%2e/in-and-out/{name}"),
        format!("file://{}", encoded(&out)),
        format!("file:///proc/self/root{out}"),
        format!("/proc/self/root{out}"),
        format!("{outside}/[t].{}", name.rsplit('.').next().unwrap()),
        format!("{inside}/../in-and-out/*"),
        format!("{inside}/*/{name}"),
        format!("{inside}/**/{name}"),
        format!("{outside}/?.csv"),
        format!("{out}\0"),
        format!(" {out}"),
        format!("{out}?x=1"),
        format!("{out}#x"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_path_leads_outside() {
    let place = Place::new().await;
    let server = place.serve().await;
    let client = &mut server.client().await;
    let mut number = 0;
    for (name, format) in [
        ("t.csv", "CSV"),
        ("t.json", "JSON"),
        ("t.parquet", "PARQUET"),
        ("t.arrow", "ARROW"),
    ] {
        // The way that is allowed, so that the others fail for the right reason.
        let plain = format!("SELECT * FROM '{}'", place.inside.join(name).display());
        assert_eq!(answer(client, &plain).await, ["plain"], "{name}");
        for path in spellings(&place, name) {
            number += 1;
            let path = path.replace('\'', "''");
            kept(client, &format!("SELECT * FROM '{path}'")).await;
            kept(client, &format!("EXPLAIN ANALYZE SELECT * FROM '{path}'")).await;
            kept(client, &format!("SUMMARIZE '{path}'")).await;
            let create =
                format!("CREATE EXTERNAL TABLE g{number} STORED AS {format} LOCATION '{path}'");
            kept(client, &create).await;
            let create = format!(
                "CREATE EXTERNAL TABLE h{number} (a TEXT) STORED AS {format} LOCATION '{path}'"
            );
            kept(client, &create).await;
            for table in ["g", "h"] {
                kept(client, &format!("SELECT * FROM {table}{number}")).await;
                kept(
                    client,
                    &format!("SELECT count(*), max(a) FROM {table}{number}"),
                )
                .await;
                kept(client, &format!("CACHE TABLE {table}{number} ON HOST")).await;
                kept(
                    client,
                    &format!("INSERT INTO {table}{number} VALUES ('new')"),
                )
                .await;
            }
        }
    }
    unchanged(&place);
}

/// Makes sure that nothing outside was written.
fn unchanged(place: &Place) {
    let mut names: Vec<String> = std::fs::read_dir(&place.outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["k=1", "t.arrow", "t.csv", "t.json", "t.parquet"]);
    assert_eq!(
        std::fs::read_dir(place.outside.join("k=1"))
            .unwrap()
            .count(),
        1
    );
    let text = std::fs::read_to_string(place.outside.join("t.csv")).unwrap();
    assert_eq!(text, format!("a\n{SECRET}\n"));
    let around = std::fs::read_dir(place.inside.parent().unwrap()).unwrap();
    assert_eq!(around.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_outside() {
    let place = Place::new().await;
    let server = place.serve().await;
    let client = &mut server.client().await;
    for path in spellings(&place, "new.parquet") {
        for target in [path.clone(), path.replace("new.parquet", "folder/")] {
            kept(
                client,
                &format!("COPY (SELECT 1 AS a) TO '{target}' STORED AS PARQUET"),
            )
            .await;
            let packed = target.replace("new.parquet", "new.csv.gz");
            kept(client, &format!("COPY (SELECT 1 AS a) TO '{packed}'")).await;
            let parted = format!(
                "COPY (SELECT 1 AS a, 'x/../../..' AS k) TO '{target}' STORED AS PARQUET PARTITIONED BY (k)"
            );
            kept(client, &parted).await;
        }
    }
    unchanged(&place);
    // The values of partitions are no way round either.
    let to = place.inside.join("parts/");
    for value in [
        "../../in-and-out",
        "..",
        "/etc",
        "%2e%2e",
        "a/../../../in-and-out",
    ] {
        let parted = format!(
            "COPY (SELECT 1 AS a, '{value}' AS k) TO '{}' STORED AS PARQUET PARTITIONED BY (k)",
            to.display()
        );
        kept(client, &parted).await;
    }
    unchanged(&place);
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_are_links_are_not_followed() {
    let place = Place::new().await;
    let server = place.serve().await;
    let client = &mut server.client().await;
    let create = format!(
        "CREATE EXTERNAL TABLE parts (a TEXT, k INT) STORED AS PARQUET PARTITIONED BY (k) LOCATION '{}/'",
        place.inside.display()
    );
    kept(client, &create).await;
    for sql in [
        "SELECT * FROM parts",
        "SELECT * FROM parts WHERE k = 2",
        "SELECT k, max(a) FROM parts GROUP BY k",
        "INSERT INTO parts VALUES ('new', 2)",
    ] {
        kept(client, sql).await;
    }
    unchanged(&place);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_statement_asks_first() {
    let place = Place::new().await;
    let server = place.serve().await;
    let client = &mut server.client().await;
    let out = place.outside.join("t.csv").display().to_string();
    for sql in [
        format!("SELECT * FROM '{out}'"),
        format!("SELECT (SELECT max(a) FROM '{out}')"),
        format!("SELECT 1 WHERE EXISTS (SELECT * FROM '{out}')"),
        format!("WITH w AS (SELECT * FROM '{out}') SELECT * FROM w"),
        format!("SELECT 1 AS a UNION ALL SELECT length(a) FROM '{out}'"),
        format!("CREATE VIEW v AS SELECT * FROM '{out}'"),
        format!("CREATE TABLE c AS SELECT * FROM '{out}'"),
        format!("PREPARE p AS SELECT * FROM '{out}'"),
        format!("EXPLAIN SELECT * FROM '{out}'"),
        format!("EXPLAIN (FORMAT CUDA) SELECT * FROM '{out}'"),
        format!("DESCRIBE '{out}'"),
        format!(
            "COPY (SELECT * FROM '{out}') TO '{}'",
            place.inside.join("copy.csv").display()
        ),
    ] {
        kept(client, &sql).await;
    }
    // What may have been made of it is no way either.
    for sql in ["SELECT * FROM v", "SELECT * FROM c", "EXECUTE p"] {
        kept(client, sql).await;
    }
    let copied = std::fs::read_to_string(place.inside.join("copy.csv"));
    assert!(copied.is_err() || !copied.unwrap().contains(SECRET));
    let prepared = client.prepare(format!("SELECT * FROM '{out}'"), None).await;
    assert!(prepared.is_err());
    // Functions that read what they are told.
    for function in [
        "read_csv",
        "read_json",
        "read_parquet",
        "read_arrow",
        "read_text",
        "read_blob",
        "read_json_objects",
        "sniff_csv",
        "parquet_schema",
        "parquet_metadata",
        "glob",
    ] {
        let (code, _) = failure(client, &format!("SELECT * FROM {function}('{out}')")).await;
        assert_eq!(code, Code::PermissionDenied, "{function}");
        let (code, _) = failure(client, &format!("SELECT {function}('{out}')")).await;
        assert_eq!(code, Code::InvalidArgument, "{function}");
    }
    // Those of other engines.
    for function in ["pg_read_file", "load_file", "file", "url"] {
        let (code, _) = failure(client, &format!("SELECT * FROM {function}('{out}')")).await;
        assert_eq!(code, Code::InvalidArgument, "{function}");
        let (code, _) = failure(client, &format!("SELECT {function}('{out}')")).await;
        assert_eq!(code, Code::InvalidArgument, "{function}");
    }
    // Nor can the place where statements spill be moved.
    for sql in [
        "SET datafusion.runtime.temp_directory = '/etc'",
        "SET datafusion.catalog.location = '/etc'",
        "SET datafusion.catalog.format = 'csv'",
    ] {
        denied(client, sql).await;
    }
    unchanged(&place);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_becomes_a_link_is_not_followed() {
    let place = Place::new().await;
    let server = place.serve().await;
    let client = &mut server.client().await;
    for name in ["t.parquet", "t.csv"] {
        let path = place.inside.join(name);
        let read = format!("SELECT * FROM '{}'", path.display());
        // Twice: what was read once may be kept.
        for _ in 0..2 {
            assert_eq!(answer(client, &read).await, ["plain"]);
        }
        std::fs::remove_file(&path).unwrap();
        symlink(place.outside.join(name), &path).unwrap();
        kept(client, &read).await;
        kept(client, &read.replace('*', "max(a)")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_of_a_file_is_for_those_who_may_read_it() {
    let place = Place::new().await;
    let runtime = Arc::new(Runtime::new(&RuntimeOptions::default()).unwrap());
    let path = place.outside.join("t.parquet");
    // The operator may read it, and its columns stay in memory.
    let operator = Session::builder()
        .runtime(Arc::clone(&runtime))
        .file_urls()
        .build()
        .unwrap();
    let create = format!(
        "CREATE EXTERNAL TABLE own STORED AS PARQUET LOCATION '{}'",
        path.display()
    );
    for sql in [
        &create,
        "CACHE TABLE own ON HOST",
        "SELECT a || '' FROM own",
    ] {
        operator.collect(sql).await.unwrap();
    }
    let read = format!("SELECT max(a) FROM '{}'", path.display());
    let memory = operator.memory();
    let kept_columns = memory
        .iter()
        .find(|report| report.consumer == "column cache");
    assert!(kept_columns.unwrap().used > 0, "{memory:?}");
    let allowed = AllowedPaths::new(std::slice::from_ref(&place.inside)).unwrap();
    let confined = Session::builder()
        .runtime(runtime)
        .allowed_paths(allowed)
        .file_urls()
        .build()
        .unwrap();
    let server = start_with(confined, options()).await;
    let client = &mut server.client().await;
    denied(client, &read).await;
    let link = place.inside.join("linked.parquet");
    symlink(&path, &link).unwrap();
    kept(client, &format!("SELECT max(a) FROM '{}'", link.display())).await;
    let named = format!(
        "CREATE EXTERNAL TABLE kept (a TEXT) STORED AS PARQUET LOCATION '{}'",
        path.display()
    );
    kept(client, &named).await;
    kept(client, "SELECT max(a) FROM kept").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_file_is_allowed_and_not_its_neighbours() {
    let place = Place::new().await;
    let only: &Path = &place.outside.join("t.csv");
    let server = start_with(session(&[only.to_path_buf()]), options()).await;
    let client = &mut server.client().await;
    let read = format!("SELECT * FROM '{}'", only.display());
    assert_eq!(answer(client, &read).await, [SECRET]);
    denied(client, &read.replace("t.csv", "t.json")).await;
    denied(client, &read.replace("t.csv", "t.csv.bak.csv")).await;
    let (code, _) = failure(client, &read.replace("t.csv", "*.csv")).await;
    assert_ne!(code, Code::Internal);
}
