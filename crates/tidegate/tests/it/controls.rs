//! A session chooses its devices, what they may take, and a placement to run again.

use tidegate::{ErrorKind, Session};

use crate::support::{answer, host_only, rows, sides, write_parquet};

const SQL: &str = "SELECT k, sum(v), count(*) FROM t WHERE v > 7 GROUP BY k";

/// Makes a session with two simulated devices over the table `t` of 9,000 rows in 9 morsels.
async fn with_two_devices(settings: &[&str]) -> (Session, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 3, 9_000, 1_000);
    let session = Session::builder()
        .simulate_device("1GB".parse().unwrap())
        .simulate_device("1GB".parse().unwrap())
        .target_partitions(4)
        .build()
        .unwrap();
    let path = folder.path().to_string_lossy();
    session.register_parquet("t", &path).await.unwrap();
    set(&session, settings).await;
    (session, folder)
}

async fn set(session: &Session, settings: &[&str]) {
    for setting in settings {
        let sql = format!("SET tidegate.{setting}");
        session.collect(&sql).await.unwrap();
    }
}

async fn refused(session: &Session, setting: &str) -> String {
    let sql = format!("SET tidegate.{setting}");
    let error = session.collect(&sql).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Sql, "{error}");
    error.to_string()
}

/// Lists the places that ran something of the last query, in order, with their morsels.
fn places(session: &Session) -> Vec<(String, u64)> {
    let report = session.last_report().unwrap();
    let places = report.regions.into_iter().flat_map(|region| region.places);
    let ran = places.filter(|place| place.morsels > 0);
    let short = |name: String| name.split(" (").next().unwrap_or_default().to_string();
    ran.map(|place| (short(place.place), place.morsels))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_uses_the_devices_that_it_names() {
    let additive = "regions = 'additive'";
    let (session, folder) = with_two_devices(&[additive, "replay_placement = 'D'"]).await;
    let host = host_only();
    let path = folder.path().to_string_lossy();
    host.register_parquet("t", &path).await.unwrap();
    let expected = answer(&host, SQL).await;
    for (list, device) in [("host, device:1", "device 1"), ("device 0", "device 0")] {
        set(&session, &[&format!("devices = '{list}'")]).await;
        assert_eq!(answer(&session, SQL).await, expected);
        assert_eq!(places(&session), [(device.to_string(), 9)], "{list}");
    }
    // A list without the host is as good as asking for a device.
    set(&session, &["replay_placement = ''", "devices = 'device:1'"]).await;
    assert_eq!(answer(&session, SQL).await, expected);
    assert_eq!(places(&session), [("device 1".to_string(), 9)]);
    // And one of the host alone says why no device takes part.
    set(&session, &["devices = 'host'"]).await;
    assert_eq!(answer(&session, SQL).await, expected);
    assert_eq!(sides(&session).1, (0, 0));
    let report = session.last_report().unwrap().to_string();
    assert!(
        report.contains("tidegate.devices = 'host' names no available device"),
        "{report}"
    );
    let cached = session.collect("CACHE TABLE t ON DEVICE").await;
    let error = cached.unwrap_err().to_string();
    assert!(error.contains("tidegate.devices = 'host'"), "{error}");
    set(&session, &["devices = 'host, device:1'"]).await;
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    let on = "SELECT DISTINCT device FROM system.cache WHERE \"table\" = 't' AND tier = 'device'";
    let on = answer(&session, on).await.join("");
    assert!(on.contains("device 1") && !on.contains("device 0"), "{on}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_refused_when_it_is_set() {
    let (session, _folder) = with_two_devices(&[]).await;
    let message = refused(&session, "devices = 'host, device:7'").await;
    assert!(
        message.contains("no device 7: there are device 0, device 1"),
        "{message}"
    );
    let message = refused(&session, "device_memory_limit = 'device:2 = 1GB'").await;
    assert!(message.contains("no device 2"), "{message}");
    let message = refused(&session, "replay_placement = '4711'").await;
    assert!(
        message.contains("query 4711 is not remembered: system.queries"),
        "{message}"
    );
    let none = host_only();
    let message = refused(&none, "devices = 'device:0'").await;
    assert!(message.contains("no device: looked for"), "{message}");
    // Nothing of it was kept.
    answer(&session, SQL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_device_takes_no_more_than_its_limit() {
    let forced = [
        "regions = 'additive'",
        "replay_placement = 'D'",
        "devices = 'host, device:1'",
    ];
    let (session, _folder) = with_two_devices(&forced).await;
    let limits = "SELECT device, memory_limit FROM system.devices ORDER BY device";
    let opened = answer(&session, limits).await;
    set(&session, &["device_memory_limit = 'device:1 = 64'"]).await;
    let limited = answer(&session, limits).await.join("\n");
    assert!(limited.contains("| device 1 | 64 "), "{limited}");
    assert!(limited.contains("| device 0 | 1073741824 "), "{limited}");
    answer(&session, SQL).await;
    assert_eq!(sides(&session), ((9, 9_000), (0, 0)));
    let report = session.last_report().unwrap().to_string();
    assert!(report.contains("device memory limit reached"), "{report}");
    // No limit is larger than what a device was opened with, and an empty one is that.
    for limit in ["100GB", ""] {
        set(&session, &[&format!("device_memory_limit = '{limit}'")]).await;
        assert_eq!(answer(&session, limits).await, opened);
    }
    answer(&session, SQL).await;
    assert_eq!(sides(&session).1, (9, 9_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_placement_is_run_again_morsel_by_morsel() {
    let recorded = |id: u64| {
        format!("SELECT region, place, recorded FROM system.placements WHERE query_id = {id}")
    };
    let forced = ["regions = 'additive'", "replay_placement = 'HDD'"];
    let (session, _folder) = with_two_devices(&forced).await;
    let expected = answer(&session, SQL).await;
    let first = session.last_report().unwrap().id;
    let as_it_ran = answer(&session, &recorded(first)).await;
    assert!(as_it_ran.join("").contains("0:0"), "{as_it_ran:?}");
    // What decides otherwise does not matter.
    for settings in [
        ["regions = 'auto'", "device_slots = 1"],
        ["placement = 'device'", "device_slots = 7"],
    ] {
        set(&session, &[&format!("replay_placement = '{first}'")]).await;
        set(&session, &settings).await;
        assert_eq!(answer(&session, SQL).await, expected);
        let report = session.last_report().unwrap();
        assert_eq!(answer(&session, &recorded(report.id)).await, as_it_ran);
        assert!(
            report.to_string().contains("replayed placement ×"),
            "{report}"
        );
    }
    // A region that it had not is placed anew, and says so.
    answer(&session, "SELECT sum(v) FROM t WHERE v < 5").await;
    let report = session.last_report().unwrap().to_string();
    assert!(
        report.contains("had no such region: placed anew"),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_place_ran_as_a_whole_runs_there_again() {
    let (session, _folder) =
        with_two_devices(&["regions = 'atomic'", "devices = 'device:1'"]).await;
    let expected = answer(&session, SQL).await;
    let report = session.last_report().unwrap();
    assert_eq!(report.regions[0].form, "atomic", "{report}");
    set(&session, &["placement = 'host'", "devices = ''"]).await;
    assert_eq!(answer(&session, SQL).await, expected);
    let on_host = session.last_report().unwrap().id;
    let free = ["placement = 'auto'", "regions = 'auto'"];
    set(&session, &free).await;
    set(&session, &[&format!("replay_placement = '{}'", report.id)]).await;
    assert_eq!(answer(&session, SQL).await, expected);
    let again = session.last_report().unwrap();
    assert_eq!(again.regions[0].form, "atomic", "{again}");
    assert_eq!(places(&session)[0].0, "device 1");
    set(&session, &["placement = 'device'"]).await;
    set(&session, &[&format!("replay_placement = '{on_host}'")]).await;
    assert_eq!(answer(&session, SQL).await, expected);
    assert_eq!(sides(&session).1, (0, 0));
    // An empty table and a query that failed have nothing to be replayed.
    session.register_batch("e", rows(0, 0)).unwrap();
    answer(&session, "SELECT sum(v) FROM e").await;
    let empty = session.last_report().unwrap().id;
    set(&session, &[&format!("replay_placement = '{empty}'")]).await;
    answer(&session, "SELECT sum(v) FROM e").await;
    session
        .collect("SELECT sum(v / (v - v)) FROM t")
        .await
        .unwrap_err();
    let failed = session.last_report().unwrap().id;
    let message = refused(&session, &format!("replay_placement = '{failed}'")).await;
    assert!(message.contains("failed and not finished"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_places_one_statement() {
    let (session, _folder) = with_two_devices(&["placement = 'host'"]).await;
    let expected = answer(&session, SQL).await;
    let hinted = |hints: &str| SQL.replacen("SELECT", &format!("SELECT /*+ {hints} */"), 1);
    for (hints, ran) in [
        ("placement(strict) devices(device:1)", "device 1"),
        (
            "tidegate.placement('device'), DEVICES('device:0')",
            "device 0",
        ),
    ] {
        let sql = hinted(hints);
        for again in 0..3 {
            assert_eq!(answer(&session, &sql).await, expected, "{hints}");
            assert_eq!(places(&session), [(ran.to_string(), 9)], "{hints} {again}");
        }
        // It was for that statement alone.
        assert_eq!(answer(&session, SQL).await, expected);
        assert_eq!(sides(&session).1, (0, 0));
    }
    let device = hinted("placement(device)");
    let explained = answer(&session, &format!("EXPLAIN {device}"))
        .await
        .join("\n");
    assert!(explained.contains("atomic on device"), "{explained}");
    let planned = session.plan(&device).await.unwrap();
    let stream = planned
        .start(&tidegate::CancelHandle::default())
        .await
        .unwrap();
    datafusion::physical_plan::common::collect(stream)
        .await
        .unwrap();
    assert_eq!(sides(&session).0, (0, 0));
}

/// Over a cached table, what is prepared is answered without a plan, and a repeated text with the one
/// that it had.
#[tokio::test(flavor = "multi_thread")]
async fn hints_hold_for_statements_that_are_known() {
    let (session, _folder) =
        with_two_devices(&["placement = 'device'", "devices = 'device:0'"]).await;
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    let expected = answer(&session, SQL).await;
    let hinted = SQL.replacen("SELECT", "SELECT /*+ placement(host) devices(host) */", 1);
    let prepare = |name: &str, sql: &str| format!("PREPARE {name} AS {sql}");
    session.collect(&prepare("plain", SQL)).await.unwrap();
    session.collect(&prepare("hinted", &hinted)).await.unwrap();
    for again in 0..3 {
        for (sql, on_host) in [
            (SQL, false),
            (hinted.as_str(), true),
            ("EXECUTE plain", false),
            ("EXECUTE hinted", true),
            ("EXECUTE /*+ placement(device) */ plain", false),
        ] {
            assert_eq!(answer(&session, sql).await, expected, "{sql}");
            assert_eq!(sides(&session).1.1 == 0, on_host, "{again} {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_that_there_are_not_are_refused() {
    let (session, _folder) = with_two_devices(&[]).await;
    let client = session.for_client(tidegate::ClientOptions {
        user: "somebody".into(),
        is_admin: false,
        locked: vec!["tidegate.placement".into()],
    });
    for (session, hint, kind, told) in [
        (
            &session,
            "placment(device)",
            ErrorKind::Sql,
            "did you mean placement(…)?",
        ),
        (
            &session,
            "broadcast(t)",
            ErrorKind::Sql,
            "unknown hint 'broadcast': there are placement",
        ),
        (
            &session,
            "memory_limit(1GB)",
            ErrorKind::Sql,
            "unknown hint 'memory_limit'",
        ),
        (
            &session,
            "placement",
            ErrorKind::Sql,
            "write placement(value)",
        ),
        (
            &session,
            "placement(gpu)",
            ErrorKind::Sql,
            "expected auto, host, device or strict",
        ),
        (
            &session,
            "devices(device:7)",
            ErrorKind::Sql,
            "there is no device 7",
        ),
        (
            &client,
            "placement(device)",
            ErrorKind::Denied,
            "setting tidegate.placement is locked",
        ),
    ] {
        let sql = format!("SELECT /*+ {hint} */ count(*) FROM t");
        let error = session.collect(&sql).await.unwrap_err();
        assert!(error.to_string().contains(told), "{hint}: {error}");
        assert_eq!(error.kind(), kind, "{hint}: {error}");
        assert!(session.plan(&sql).await.is_err(), "{hint}");
    }
}
