//! Files of S3 and HTTP servers: read, written, cached, confined, and refused in words.

use std::path::Path;
use std::time::{Duration, Instant};

use tidegate::{AllowedPaths, ErrorKind, Session, SessionBuilder, StoreOptions};

use crate::servers::{Http, KEY, S3, SECRET, closed_address, options};
use crate::support::{answer, lines, rows, write_parquet};

fn builder(options: StoreOptions) -> SessionBuilder {
    Session::builder()
        .target_partitions(2)
        .file_urls()
        .stores(options)
}

async fn refused(session: &Session, sql: &str) -> String {
    match session.collect(sql).await {
        Ok(rows) => panic!("{sql}: {:?}", lines(&rows)),
        Err(error) => error.to_string(),
    }
}

/// Puts rows `start..end` into a file of three row groups.
fn put(folder: &Path, name: &str, start: i64, end: i64) {
    let scratch = tempfile::tempdir().unwrap();
    write_parquet(scratch.path(), 1, end - start, 100);
    let mut content = std::fs::read(scratch.path().join("0.parquet")).unwrap();
    if start > 0 {
        use datafusion::parquet::arrow::ArrowWriter;
        let batch = rows(start, end);
        content.clear();
        let mut writer = ArrowWriter::try_new(&mut content, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
    let target = folder.join(name);
    std::fs::create_dir_all(target.parent().unwrap()).unwrap();
    std::fs::write(target, content).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_read_and_written() {
    let server = S3::start().await;
    let session = builder(server.options()).build().unwrap();
    let copied = answer(
        &session,
        "COPY (SELECT value AS v, value % 3 AS k FROM range(0, 1000)) TO 's3://data/out/t.parquet'",
    );
    assert!(copied.await[0].contains("1000"));
    let expect = answer(&session, "SELECT 999 * 500 AS s, 1000 AS n").await;
    for from in [
        "'s3://data/out/t.parquet'",
        "'s3://data/out/'",
        "'s3://data/out/*.parquet'",
        "'s3a://data/out/t.parquet'",
    ] {
        let sql = format!("SELECT sum(v) AS s, count(*) AS n FROM {from}");
        assert_eq!(answer(&session, &sql).await, expect, "{from}");
    }
    let frame = session
        .read_parquet("s3://data/out/t.parquet")
        .await
        .unwrap();
    assert_eq!(frame.count().await.unwrap(), 1000);
    // A folder for each value, and back.
    session
        .collect(
            "COPY (SELECT value AS v, value % 3 AS k FROM range(0, 30)) TO 's3://data/parts/' \
             STORED AS PARQUET PARTITIONED BY (k)",
        )
        .await
        .unwrap();
    session
        .collect("CREATE EXTERNAL TABLE parts STORED AS PARQUET LOCATION 's3://data/parts/'")
        .await
        .unwrap();
    let sum = "SELECT sum(v) AS s FROM";
    let expect = answer(&session, "SELECT 145 AS s").await;
    for from in ["parts", "'s3://data/parts/'"] {
        let sql = format!("{sum} {from} WHERE k = '1'");
        assert_eq!(answer(&session, &sql).await, expect, "{from}");
    }
    // Other formats, compressed and not, and rows that are added.
    session
        .collect("COPY (VALUES (1, 'a'), (2, NULL)) TO 's3://data/x.csv.gz' STORED AS CSV OPTIONS ('format.compression' 'gzip')")
        .await
        .unwrap();
    let found = answer(&session, "SELECT count(*) AS n FROM 's3://data/x.csv.gz'").await;
    assert_eq!(found, answer(&session, "SELECT 2 AS n").await);
    session
        .collect("CREATE EXTERNAL TABLE t (a BIGINT) STORED AS PARQUET LOCATION 's3://data/added/'")
        .await
        .unwrap();
    for value in [1, 2] {
        let sql = format!("INSERT INTO t VALUES ({value})");
        session.collect(&sql).await.unwrap();
    }
    let found = answer(&session, "SELECT sum(a) AS s FROM t").await;
    assert_eq!(found, answer(&session, "SELECT 3 AS s").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_a_statement_hold_for_its_bucket_and_are_shown_nowhere() {
    let server = S3::start().await;
    put(&server.bucket(), "t.parquet", 0, 10);
    let session = builder(StoreOptions::default()).build().unwrap();
    let given = format!(
        "OPTIONS ('aws.access_key_id' '{KEY}', 'aws.secret_access_key' '{SECRET}', \
         'aws.endpoint' '{}')",
        server.endpoint
    );
    let create =
        format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://data/t.parquet' {given}");
    session.collect(&create).await.unwrap();
    assert_eq!(answer(&session, "SELECT * FROM t").await.len(), 11);
    assert_eq!(
        answer(&session, "SELECT * FROM 's3://data/t.parquet'")
            .await
            .len(),
        11
    );
    let copy = format!("COPY t TO 's3://data/u.parquet' {given}");
    session.collect(&copy).await.unwrap();
    let mut told = String::new();
    for sql in [
        &format!("EXPLAIN VERBOSE {copy}"),
        &format!("EXPLAIN ANALYZE {copy}"),
        &format!("EXPLAIN {create}x").replace("TABLE t ", "TABLE t2 "),
        "SHOW CREATE TABLE t",
        "SELECT sql FROM system.queries",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM information_schema.df_settings",
    ] {
        match session.collect(sql).await {
            Ok(rows) => told.extend(lines(&rows)),
            Err(error) => told.push_str(&format!("{error}{error:?}")),
        }
    }
    told.push_str(&format!("{session:?}{:?}", session.reports()));
    told.push_str(&format!("{:?}", session.context().runtime_env()));
    assert!(told.contains("COPY t TO"), "{told}");
    assert!(!told.contains(SECRET) && !told.contains(KEY), "{told}");
    for (sql, expect) in [
        (
            "CREATE EXTERNAL TABLE u STORED AS PARQUET LOCATION 's3://data/t.parquet' OPTIONS ('aws.regoin' 'x')",
            "did you mean aws.region?",
        ),
        (
            "CREATE EXTERNAL TABLE u STORED AS PARQUET LOCATION '/tmp/x.parquet' OPTIONS ('aws.region' 'x')",
            "the option aws.region is none of the store of '/tmp/x.parquet'",
        ),
        (
            "COPY t TO 'gs://b/x.parquet' OPTIONS ('aws.region' 'x')",
            "the option aws.region is none of the store of 'gs://b/x.parquet'",
        ),
    ] {
        let message = refused(&session, sql).await;
        assert!(message.contains(expect), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_object_is_noticed_under_a_cached_table() {
    let server = S3::start().await;
    let bucket = server.bucket();
    put(&bucket, "t.parquet", 1000, 1300);
    let session = builder(server.options())
        .simulate_device("1GB".parse().unwrap())
        .build()
        .unwrap();
    session
        .collect("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 's3://data/t.parquet'")
        .await
        .unwrap();
    let sql = "SELECT count(*) AS n, sum(v) AS s FROM t WHERE v >= 0";
    let expect = |from: i64| {
        let (session, sum) = (session.clone(), (from..from + 300).sum::<i64>());
        async move { answer(&session, &format!("SELECT 300 AS n, {sum} AS s")).await }
    };
    assert_eq!(answer(&session, sql).await, expect(1000).await);
    assert_eq!(answer(&session, sql).await, expect(1000).await);
    for place in ["HOST", "DEVICE"] {
        // The new object has the old one's size and, mostly, the second of its time.
        for from in [2000, 3000] {
            session
                .collect(&format!("CACHE TABLE t ON {place}"))
                .await
                .unwrap();
            answer(&session, sql).await;
            put(&bucket, "t.parquet", from, from + 300);
            assert_eq!(
                answer(&session, sql).await,
                expect(from).await,
                "{place} {from}"
            );
            session.collect("UNCACHE TABLE t").await.unwrap();
        }
    }
    // The same path of another bucket is another object.
    put(&bucket.with_file_name("other"), "t.parquet", 4000, 4300);
    let other = sql.replace("FROM t", "FROM 's3://other/t.parquet'");
    assert_eq!(answer(&session, &other).await, expect(4000).await);
    let first = sql.replace("FROM t", "FROM 's3://data/t.parquet'");
    assert_eq!(answer(&session, &first).await, expect(3000).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_is_told_in_words_and_in_time() {
    let server = S3::start().await;
    put(&server.bucket(), "t.parquet", 0, 10);
    std::fs::write(server.bucket().join("t.txt"), "x").unwrap();
    std::fs::write(server.bucket().join("bad.parquet"), "x").unwrap();
    let session = builder(server.options()).build().unwrap();
    let create =
        |location: &str| format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}'");
    for (sql, expect) in [
        (
            "SELECT * FROM 's3://data/none.parquet'",
            "'s3://data/none.parquet' is not there",
        ),
        (
            "SELECT * FROM 's3://data/none/'",
            "'s3://data/none/' is not there",
        ),
        (
            "SELECT * FROM 's3://nobucket/t.parquet'",
            "'s3://nobucket/t.parquet",
        ),
        (
            "SELECT * FROM 's3://data/t.txt'",
            "'s3://data/t.txt' is of no known format",
        ),
        (
            "SELECT * FROM 's3://data/bad.parquet'",
            "s3://data/bad.parquet",
        ),
        (
            "SELECT * FROM 'ftp://data/t.parquet'",
            "'ftp://' is not known",
        ),
        (
            "SELECT * FROM 's3://u:hidden@data/t.parquet'",
            "a URL with a user or password is refused",
        ),
        (&create("ftp://data/t.parquet"), "'ftp://' is not known"),
    ] {
        let message = refused(&session, sql).await;
        assert!(message.contains(expect), "{sql}: {message}");
    }
    let wrong = builder(options(&server.endpoint, "wrong-secret"))
        .build()
        .unwrap();
    for sql in [
        "SELECT * FROM 's3://data/t.parquet'",
        "SELECT * FROM 's3://data/'",
        &create("s3://data/t.parquet"),
        "COPY (SELECT 1) TO 's3://data/u.parquet'",
    ] {
        let message = refused(&wrong, sql).await;
        let is_clear =
            message.contains("access was denied") && message.contains("aws.access_key_id");
        assert!(
            is_clear && message.contains("s3://data"),
            "{sql}: {message}"
        );
        assert!(
            !message.contains("wrong-secret") && !message.contains(KEY),
            "{message}"
        );
    }
    let closed = format!("http://{}", closed_address());
    let unreachable = builder(options(&closed, SECRET)).build().unwrap();
    for sql in [
        "SELECT * FROM 's3://data/t.parquet'",
        &format!("SELECT * FROM '{closed}/t.parquet'"),
    ] {
        let began = Instant::now();
        let message = refused(&unreachable, sql).await;
        assert!(message.contains("cannot be reached: "), "{message}");
        assert!(message.to_lowercase().contains("refused"), "{message}");
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    // One that takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut slow = options(&format!("http://{}", silent.local_addr().unwrap()), SECRET);
    slow.set("s3://data", "aws.timeout", "200ms").unwrap();
    let began = Instant::now();
    let session = builder(slow).build().unwrap();
    let message = refused(&session, "SELECT * FROM 's3://data/t.parquet'").await;
    assert!(message.contains("timed out"), "{message}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_http_servers_are_read_in_ranges() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "deep/t.parquet", 0, 300);
    std::fs::write(folder.path().join("t.csv"), "a,b\n1,x\n2,y\n").unwrap();
    std::fs::write(folder.path().join("locked.csv"), "a\n1\n").unwrap();
    let server = Http::start(folder.path()).await;
    let session = builder(StoreOptions::default()).build().unwrap();
    let sql = format!(
        "SELECT count(*) AS n, sum(v) AS s FROM '{}/deep/t.parquet'",
        server.url
    );
    let expect = answer(&session, "SELECT 300 AS n, 44850 AS s").await;
    assert_eq!(answer(&session, &sql).await, expect);
    assert!(server.ranges() > 0);
    let sql = format!("SELECT sum(a) AS s FROM '{}/t.csv'", server.url);
    assert_eq!(
        answer(&session, &sql).await,
        answer(&session, "SELECT 3 AS s").await
    );
    for path in ["signed/t.csv", "chunked/t.csv"] {
        let sql = format!("SELECT sum(a) AS s FROM '{}/{path}'", server.url);
        let expect = answer(&session, "SELECT 3 AS s").await;
        assert_eq!(answer(&session, &sql).await, expect, "{path}");
    }
    // A query is sent, and shown nowhere.
    let asking = format!("{}/asks/t.csv?token=a%20b", server.url);
    let sql = format!(
        "SELECT sum(a) AS s, filename FROM read_csv('{asking}', filename => true) GROUP BY ALL"
    );
    let shown = format!("SELECT 3 AS s, '{}/asks/t.csv?…' AS filename", server.url);
    assert_eq!(answer(&session, &sql).await, answer(&session, &shown).await);
    let sql = format!("CREATE EXTERNAL TABLE asking STORED AS CSV LOCATION '{asking}'");
    session.collect(&sql).await.unwrap();
    assert_eq!(
        answer(&session, "SELECT sum(a) AS s FROM asking").await,
        answer(&session, "SELECT 3 AS s").await
    );
    let sql = format!("SELECT sum(a) AS s FROM '{asking}'");
    assert_eq!(
        answer(&session, &sql).await,
        answer(&session, "SELECT 3 AS s").await
    );
    for path in ["signed/deep/t.parquet", "chunked/deep/t.parquet"] {
        let sql = format!(
            "SELECT count(*) AS n, sum(v) AS s FROM '{}/{path}'",
            server.url
        );
        assert_eq!(answer(&session, &sql).await, expect, "{path}");
    }
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{}/t.csv' OPTIONS ('format.has_header' 'true', 'http.timeout' '5s')",
        server.url
    );
    session.collect(&sql).await.unwrap();
    assert_eq!(answer(&session, "SELECT b FROM t").await.len(), 3);
    for (path, expect) in [
        ("none.csv", "none.csv"),
        ("deep/", "an http server does not list: name a file"),
        ("locked.csv", "access was denied"),
        ("none.csv?token=hidden", "none.csv"),
        ("asks/t.csv?token=hidden", "access was denied"),
        ("unsized/t.csv", "does not say how long the file is"),
    ] {
        let message = refused(&session, &format!("SELECT * FROM '{}/{path}'", server.url)).await;
        assert!(message.contains(expect), "{message}");
        assert!(!message.contains("hidden"), "{message}");
    }
    let message = refused(&session, &format!("COPY t TO '{}/u.csv'", server.url)).await;
    assert!(message.contains("only read"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_session_reaches_what_is_allowed_alone() {
    let server = S3::start().await;
    let files = tempfile::tempdir().unwrap();
    std::fs::write(files.path().join("t.csv"), "a\n1\n").unwrap();
    let http = Http::start(files.path()).await;
    put(&server.bucket(), "open/t.parquet", 0, 10);
    put(&server.bucket(), "closed/t.parquet", 0, 10);
    put(&server.bucket().with_file_name("other"), "t.parquet", 0, 10);
    let allowed = AllowedPaths::new(&["s3://data/open".into()]).unwrap();
    let session = builder(server.options())
        .allowed_paths(allowed)
        .build()
        .unwrap();
    let client = session.for_client(tidegate::ClientOptions::default());
    for session in [&session, &client] {
        assert_eq!(
            answer(session, "SELECT * FROM 's3://data/open/t.parquet'")
                .await
                .len(),
            11
        );
        session
            .collect("COPY (SELECT 1 AS a) TO 's3://data/open/u/u.parquet'")
            .await
            .unwrap();
        let web = format!("'{}/t.csv'", http.url);
        for from in [
            "'s3://data/closed/t.parquet'",
            "'s3://data/open/../closed/t.parquet'",
            "'s3://data/'",
            "'s3://data/*/t.parquet'",
            "'s3://data/openly/t.parquet'",
            "'s3://other/t.parquet'",
            "'gs://data/open/t.parquet'",
            &web,
        ] {
            for sql in [
                format!("SELECT * FROM {from}"),
                format!("CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION {from}"),
                format!("COPY (SELECT 1 AS a) TO {from} STORED AS PARQUET"),
            ] {
                let message = refused(session, &sql).await;
                assert!(message.contains("outside the paths"), "{sql}: {message}");
            }
        }
        let message = refused(
            session,
            "COPY (SELECT 1 AS a) TO 's3://data/open/x.parquet' OPTIONS ('aws.endpoint' 'http://169.254.169.254')",
        );
        let message = message.await;
        assert!(
            message.contains("operator configures object stores"),
            "{message}"
        );
    }
    let found = session.read_parquet("s3://data/closed/t.parquet").await;
    assert!(found.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_redirects_leads_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("open")).unwrap();
    for name in ["t.csv", "open/t.csv"] {
        std::fs::write(folder.path().join(name), "a\n7\n").unwrap();
    }
    let open = Http::start(folder.path()).await;
    let half = Http::start(folder.path()).await;
    let closed = Http::start(folder.path()).await;
    let allowed = [open.url.clone(), format!("{}/open", half.url)];
    let allowed = AllowedPaths::new(&allowed.map(Into::into)).unwrap();
    let session = builder(StoreOptions::default())
        .allowed_paths(allowed)
        .build()
        .unwrap();
    let seven = answer(&session, "SELECT 7 AS a").await;
    for url in [
        open.redirect(&open, "t.csv"),
        open.redirect(&half, "open/t.csv"),
    ] {
        let sql = format!("SELECT a FROM '{url}'");
        assert_eq!(answer(&session, &sql).await, seven, "{url}");
    }
    for url in [
        open.redirect(&closed, "t.csv"),
        open.redirect(&half, "t.csv"),
        open.redirect(&half, "open/../t.csv"),
        // One that is allowed, and leads on to one that is not.
        format!(
            "{}/to/{}",
            open.url,
            open.redirect(&closed, "t.csv")
                .trim_start_matches("http://")
        ),
        // The address of a cloud's secrets.
        format!("{}/to/169.254.169.254/t.csv", open.url),
    ] {
        let before = half.requests().0;
        let error = session.collect(&format!("SELECT a FROM '{url}'")).await;
        let error = error.expect_err(&url);
        assert_eq!(error.kind(), ErrorKind::Denied, "{url}: {error}");
        let message = error.to_string();
        assert!(message.contains("redirects"), "{message}");
        assert!(message.contains("outside the paths"), "{message}");
        assert_eq!(half.requests().0, before, "{url}");
    }
    assert_eq!(closed.requests(), (0, 0));
    assert!(open.requests().1 >= 7);
    // Who is not confined goes where a server sends them.
    let free = builder(StoreOptions::default()).build().unwrap();
    let sql = format!("SELECT a FROM '{}'", open.redirect(&closed, "t.csv"));
    assert_eq!(answer(&free, &sql).await, seven);
    // For ever is too long.
    let session = builder(StoreOptions::default())
        .allowed_paths(AllowedPaths::new(&[open.url.clone().into()]).unwrap())
        .build()
        .unwrap();
    let mut path = "t.csv".to_string();
    for _ in 0..12 {
        path = format!("to/{}/{path}", open.url.trim_start_matches("http://"));
    }
    let message = refused(&session, &format!("SELECT a FROM '{}/{path}'", open.url)).await;
    assert!(message.contains("more than 10 times"), "{message}");
}
