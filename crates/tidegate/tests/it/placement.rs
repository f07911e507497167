//! What ran where, and why, can be seen.

use crate::support::{answer, host_only, rows, sides, simulated, write_parquet};

const SQL: &str = "SELECT k, sum(v), count(*) FROM t WHERE v > 7 GROUP BY k";

#[tokio::test(flavor = "multi_thread")]
async fn one_query_runs_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 10_000, 1_000);
    let host = host_only();
    let session = simulated("1GB", &["replay_placement = 'HD'"]).await;
    for session in [&host, &session] {
        session
            .register_parquet("t", &folder.path().to_string_lossy())
            .await
            .unwrap();
    }
    assert_eq!(answer(&session, SQL).await, answer(&host, SQL).await);
    assert_eq!(sides(&session), ((5, 5_000), (5, 5_000)));
    let report = session.last_report().unwrap().to_string();
    for part in [
        "additive region: filter v > 7",
        "simulated device, not a GPU",
        "replayed placement ×5",
    ] {
        assert!(report.contains(part), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_leaf_is_shared() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().to_string();
    let host = host_only();
    let settings = ["replay_placement = 'HD'", "morsel_rows = 500"];
    let session = simulated("1GB", &settings).await;
    for session in [&host, &session] {
        session.register_batch("m", rows(0, 6_000)).unwrap();
    }
    host.collect(&format!("COPY m TO '{}' STORED AS CSV", path("t.csv")))
        .await
        .unwrap();
    host.collect(&format!(
        "COPY m TO '{}' STORED AS PARQUET",
        path("t.parquet")
    ))
    .await
    .unwrap();
    for session in [&host, &session] {
        let csv = session.read_csv(&path("t.csv")).await.unwrap();
        session.register_table("c", csv.into_view()).unwrap();
        session
            .register_parquet("p", &path("t.parquet"))
            .await
            .unwrap();
    }
    for (source, morsels) in [
        ("m", true),
        ("c", true),
        ("p", false),
        ("h2o_g1(300000, 10)", false),
        (
            "(SELECT value AS k, value AS v FROM generate_series(1, 5000))",
            true,
        ),
    ] {
        let value = if source.starts_with("h2o") { "v1" } else { "v" };
        let sql = format!(
            "SELECT count(*), sum({value}), min({value}) FROM {source} AS t WHERE {value} <> 3"
        );
        assert_eq!(
            answer(&session, &sql).await,
            answer(&host, &sql).await,
            "{sql}"
        );
        let (on_host, on_device) = sides(&session);
        assert!(
            on_host.0 + on_device.0 > 0,
            "{sql}: {on_host:?} {on_device:?}"
        );
        if morsels {
            assert!(
                on_host.0 > 0 && on_device.0 > 0,
                "{sql}: {on_host:?} {on_device:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_device_every_region_says_what_was_looked_for() {
    let session = host_only();
    session.register_batch("t", rows(0, 100)).unwrap();
    answer(&session, SQL).await;
    let report = session.last_report().unwrap();
    assert_eq!(report.regions.len(), 1, "{report}");
    assert_eq!(sides(&session).0.1, 100, "{report}");
    let reason = &report.regions[0].reasons[0];
    assert!(reason.starts_with("no device: looked for"), "{reason}");
    let explained = answer(&session, &format!("EXPLAIN {SQL}")).await.join("\n");
    assert!(
        explained.contains("PipelineExec: host, program=[filter v > 7"),
        "{explained}"
    );
    assert!(explained.contains("no device: looked for"), "{explained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_read_on_the_host_are_counted_for_every_source() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 10_000, 1_000);
    let session = host_only();
    session
        .register_parquet("p", &folder.path().to_string_lossy())
        .await
        .unwrap();
    session.register_batch("m", rows(0, 300)).unwrap();
    for (source, expected) in [("p", 10_000), ("m", 300), ("tpch('orders', 0.01)", 15_000)] {
        let sql = format!("SELECT count(*) FROM {source} AS t GROUP BY 1 = 2");
        answer(&session, &sql).await;
        let ((_, on_host), on_device) = sides(&session);
        assert_eq!((on_host, on_device), (expected, (0, 0)), "{source}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_reasons_are_told_not_the_first() {
    let session = host_only();
    session.register_batch("t", rows(0, 100)).unwrap();
    let sql = "SELECT k, median(v), count(DISTINCT s) FILTER (WHERE k > 0), round(sum(v), 1) FROM t WHERE initcap(s) = 'x' GROUP BY k";
    let explained = answer(&session, &format!("EXPLAIN {sql}")).await.join("\n");
    for reason in ["function median", "count(DISTINCT)", "function initcap"] {
        assert!(explained.contains(reason), "{reason}: {explained}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_choose_the_place() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 10_000, 1_000);
    for (settings, host, device) in [
        (&["placement = 'host'"][..], 10_000, 0),
        (&["placement = 'device'"], 0, 10_000),
        (&["placement = 'strict'"], 0, 10_000),
        (&["placement = 'device'", "regions = 'additive'"], 0, 10_000),
    ] {
        let session = simulated("1GB", settings).await;
        session
            .register_parquet("t", &folder.path().to_string_lossy())
            .await
            .unwrap();
        answer(&session, SQL).await;
        let (on_host, on_device) = sides(&session);
        assert_eq!((on_host.1, on_device.1), (host, device), "{settings:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_refuses_a_region_without_a_program() {
    let session = simulated("1GB", &["placement = 'strict'"]).await;
    session.register_batch("t", rows(0, 100)).unwrap();
    let error = session
        .collect("SELECT median(v) FROM t")
        .await
        .unwrap_err();
    assert!(error.to_string().contains("function median"), "{error}");
    assert!(
        error.to_string().contains("tidegate.placement = 'device'"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn system_tables_tell_the_same() {
    let session = simulated("1GB", &["replay_placement = 'HD'", "morsel_rows = 10"]).await;
    session.register_batch("t", rows(0, 100)).unwrap();
    answer(&session, SQL).await;
    let told = answer(
        &session,
        "SELECT place, form, reason, morsels, rows FROM system.placements \
         WHERE query_id = (SELECT max(query_id) FROM system.placements)",
    )
    .await
    .join("\n");
    assert!(told.contains("simulated device, not a GPU"), "{told}");
    let queries = answer(&session, "SELECT sql, state, rows FROM system.queries")
        .await
        .join("\n");
    assert!(
        queries.contains(SQL) && queries.contains("finished"),
        "{queries}"
    );
    let settings = answer(
        &session,
        "SELECT value FROM system.settings WHERE name = 'tidegate.replay_placement'",
    )
    .await;
    assert!(settings.join("\n").contains("HD"), "{settings:?}");
    let devices = answer(&session, "SELECT kind, memory_used FROM system.devices")
        .await
        .join("\n");
    assert!(
        devices.contains("simulated") && devices.contains("| 0 "),
        "{devices}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_claim_is_in_the_books_with_its_estimate() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 10_000, 1_000);
    let session = simulated("1GB", &["replay_placement = 'HD'"]).await;
    let path = folder.path().to_string_lossy().to_string();
    session.register_parquet("t", &path).await.unwrap();
    answer(&session, SQL).await;
    let report = session.last_report().unwrap();
    for place in &report.regions[0].places {
        let claims = place.decisions.iter();
        assert_eq!(
            claims.map(|claim| claim.morsels).sum::<u64>(),
            5,
            "{place:?}"
        );
        assert_eq!(place.claim_stats.claims, place.decisions.len() as u64);
        // One that was heard of together with the one after it may have taken nothing by itself.
        let seconds = place.decisions.iter().map(|claim| claim.seconds);
        assert!(seconds.sum::<f64>() > 0.0, "{place:?}");
        for claim in &place.decisions {
            assert!(
                claim.seconds >= 0.0 && claim.estimated_seconds > 0.0,
                "{claim:?}"
            );
        }
        let moves = place.place != "host";
        assert_eq!(place.claim_stats.estimated_bytes > 0, moves, "{place:?}");
    }
    // Each claim of either side is one line; the sums are those of the placements.
    let sql = "SELECT d.place = 'host' AS h, count(*) > 0 AS c, sum(d.morsels) AS m, \
               abs(sum(d.seconds) / max(p.claimed_seconds) - 1) < 1e-6 AS s, \
               abs(sum(d.estimated_seconds) / max(p.estimated_seconds) - 1) < 1e-6 AS e \
               FROM system.decisions d JOIN system.placements p \
               ON d.query_id = p.query_id AND d.place = p.place GROUP BY d.place";
    let told = answer(&session, sql).await.join("\n");
    for side in ["true ", "false"] {
        let line = format!("| {side} | true | 5 | true | true |");
        assert!(told.contains(&line), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_device_gave_back_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 10_000, 1_000);
    let settings = ["replay_placement = 'HD'"];
    let session = simulated("1GB,faults=launch:2=fail", &settings).await;
    let path = folder.path().to_string_lossy().to_string();
    session.register_parquet("t", &path).await.unwrap();
    answer(&session, SQL).await;
    let sql = "SELECT sum(retries) > 0, min(splits), min(evicted_bytes) FROM system.placements \
               WHERE place <> 'host'";
    let told = answer(&session, sql).await.join("\n");
    assert!(told.contains("| true "), "{told}");
    let analyzed = answer(&session, &format!("EXPLAIN ANALYZE {SQL}"))
        .await
        .join("\n");
    for part in ["device_estimated_time=", "host_claimed_time=", "estimated"] {
        assert!(analyzed.contains(part), "{part}: {analyzed}");
    }
    // A counter of nothing is left out.
    assert!(!analyzed.contains("retries="), "{analyzed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_sorted_are_shared_where_an_aggregate_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder
        .path()
        .join("t.parquet")
        .to_string_lossy()
        .to_string();
    let host = host_only();
    let series = "SELECT value AS v, value % 3 AS k FROM range(0, 10000)";
    host.collect(&format!("COPY ({series}) TO '{path}'"))
        .await
        .unwrap();
    let session = simulated("1GB", &["placement = 'strict'"]).await;
    for session in [&host, &session] {
        session.register_parquet("t", &path).await.unwrap();
    }
    // COPY says in the file that it is sorted, and the rows of a projection keep that order.
    let sorted = answer(&host, "EXPLAIN SELECT v FROM t ORDER BY v").await;
    let sorted = sorted.join("\n");
    assert!(sorted.contains("output_ordering=[v@0 ASC"), "{sorted}");
    assert!(!sorted.contains("SortExec"), "{sorted}");
    for regions in ["additive", "atomic"] {
        session.set("tidegate.regions", regions).await.unwrap();
        assert_eq!(answer(&session, SQL).await, answer(&host, SQL).await);
        assert_eq!(sides(&session).0.1, 0, "{regions}");
        assert_eq!(sides(&session).1.1, 10_000, "{regions}");
    }
    // Cached, it is answered from the device.
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    assert_eq!(answer(&session, SQL).await, answer(&host, SQL).await);
    let report = session.last_report().unwrap().to_string();
    assert!(report.contains("10000 rows, 0 bytes"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_does_not_wait_for_kernels_that_a_later_one_has() {
    let spec = "1GB,compile=1500ms,rows=1e12/s,copy=1TB/s,launch=1us";
    // The device is the faster one only of DataFusion's operators; with few morsels, also where handing one over takes
    // long because other tests run.
    let settings = [
        "placement = 'auto'",
        "cache = 'off'",
        "morsel_rows = 20000",
        "host_engine = 'off'",
    ];
    let session = simulated(spec, &settings).await;
    let host = host_only();
    for session in [&host, &session] {
        session.register_batch("t", rows(0, 1_000_000)).unwrap();
    }
    let expected = answer(&host, SQL).await;
    assert_eq!(answer(&session, SQL).await, expected);
    assert_eq!(sides(&session), ((50, 1_000_000), (0, 0)));
    // The device compiles on without a query, and once it has the kernels no query does without them.
    let mut num_on_device = 0;
    for _ in 0..100 {
        assert_eq!(answer(&session, SQL).await, expected);
        let report = session.last_report().unwrap();
        let compiling: f64 = report.regions.iter().map(|r| r.phases().compile).sum();
        assert_eq!(compiling, 0.0, "{report}");
        let is_on_device = sides(&session).1.1 > 0;
        assert!(is_on_device || num_on_device == 0, "{report}");
        num_on_device += u32::from(is_on_device);
        if num_on_device == 4 {
            return;
        }
        if num_on_device == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }
    panic!("{}", session.last_report().unwrap());
}
