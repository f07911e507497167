//! The HTTP port: health, metrics, who may see what, and what browsers are kept from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::Action;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::Value;
use tidegate::Session;
use tidegate_flight::{Limits, ServerOptions, Tls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::login::users;
use crate::support::{
    ENDLESS, Running, answer, eventually, failure, num_running, options, query, session, start_with,
};

const JSON: &str = "content-type: application/json";
const INTENT: &str = "x-tidegate-request: 1";

struct Answer {
    status: u16,
    headers: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// Sends a request as it is written, and reads the answer to its end.
async fn send(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Answer {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    // A server may end a TLS connection without taking leave.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    let (headers, body) = text.split_once("\r\n\r\n").unwrap();
    let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
    Answer {
        status,
        headers: headers.to_lowercase(),
        body: body.to_string(),
    }
}

fn written(method: &str, path: &str, headers: &[&str], body: &str) -> String {
    let host = match headers.iter().any(|header| header.starts_with("host:")) {
        true => String::new(),
        false => "host: 127.0.0.1\r\n".to_string(),
    };
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\n{host}{headers}content-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

impl Running {
    async fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let address = self.http.as_ref().unwrap().rsplit('/').next().unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        send(stream, &written(method, path, headers, body)).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    /// Logs in over HTTP; returns the header that carries the token.
    async fn token(&self, name: &str, password: &str) -> String {
        let body = format!("{{\"name\": \"{name}\", \"password\": \"{password}\"}}");
        let answer = self.ask("POST", "/api/login", &[JSON, INTENT], &body).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer = answer.json();
        format!(
            "authorization: Bearer {}",
            answer["token"].as_str().unwrap()
        )
    }

    /// Reads the metrics: names with labels, and values.
    async fn metrics(&self) -> BTreeMap<String, f64> {
        let answer = self.get("/metrics").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert!(answer.headers.contains("openmetrics-text"));
        assert!(answer.body.ends_with("# EOF\n"));
        let lines = answer.body.lines().filter(|line| !line.starts_with('#'));
        let value = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_string(), value.parse().unwrap())
        };
        lines.map(value).collect()
    }
}

fn with_http() -> ServerOptions {
    ServerOptions {
        http: Some("127.0.0.1:0".parse().unwrap()),
        ..options()
    }
}

fn closed() -> ServerOptions {
    ServerOptions {
        users: Some(users()),
        ..with_http()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_happened() {
    let server = start_with(session(&[]), with_http()).await;
    let before = server.metrics().await;
    assert_eq!(before["tidegate_sessions"], 0.0);
    assert_eq!(before["tidegate_query_rows_total"], 0.0);
    let client = &mut server.client().await;
    answer(client, "SELECT value FROM generate_series(1, 1000)").await;
    answer(
        client,
        "SELECT value % 2, count(*) FROM generate_series(1, 1000) GROUP BY 1",
    )
    .await;
    failure(client, "SELECT 1 / (value - 1) FROM generate_series(1, 10)").await;
    failure(client, "SELECT nothing").await;
    let stopped = query(client, ENDLESS);
    let stopped = tokio::time::timeout(Duration::from_millis(300), stopped).await;
    assert!(stopped.is_err());
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
    let after = server.metrics().await;
    let queries = |status: &str| {
        let of =
            |name: &&String| name.starts_with("tidegate_queries_total") && name.contains(status);
        let names = after.keys().filter(of);
        names.map(|name| after[name]).sum::<f64>()
    };
    assert_eq!(queries("status=\"finished\""), 2.0, "{after:?}");
    assert_eq!(queries("status=\"failed\""), 1.0);
    assert_eq!(queries("status=\"cancelled\""), 1.0);
    assert_eq!(after["tidegate_query_rows_total"], 1002.0);
    assert_eq!(after["tidegate_query_duration_seconds_count"], 4.0);
    assert_eq!(after["tidegate_sessions"], 1.0);
    assert_eq!(after["tidegate_statements_running"], 0.0);
    let refused = "tidegate_calls_total{method=\"GetFlightInfo\",code=\"InvalidArgument\"}";
    assert_eq!(after[refused], 1.0, "{after:?}");
    let limit = "tidegate_memory_limit_bytes{tier=\"host\",device=\"\",consumer=\"statements\"}";
    assert_eq!(after[limit], f64::from(256 << 20));
    assert!(after["tidegate_statement_wait_seconds_count"] >= 4.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn morsels_and_memory_of_devices_are_counted() {
    let session = Session::builder()
        .target_partitions(2)
        .simulate_device("64MB".parse().unwrap())
        .build()
        .unwrap();
    session.set("tidegate.placement", "device").await.unwrap();
    session.set("tidegate.morsel_rows", "1000").await.unwrap();
    let server = start_with(session, with_http()).await;
    let client = &mut server.client().await;
    answer(
        client,
        "CREATE TABLE t AS SELECT value AS v FROM generate_series(1, 20000)",
    )
    .await;
    assert_eq!(
        answer(client, "SELECT sum(v) FROM t WHERE v > 0").await,
        ["200010000"]
    );
    let after = server.metrics().await;
    let on_device = "tidegate_morsel_rows_total{place=\"device 0\"}";
    assert_eq!(after.get(on_device), Some(&20000.0), "{after:?}");
    let why = "tidegate_placements_total{place=\"device 0\",reason=\"device_requested\"}";
    assert!(after[why] >= 1.0, "{after:?}");
    assert_eq!(after["tidegate_device_retries_total"], 0.0);
    let limit = "tidegate_memory_limit_bytes{tier=\"device\",device=\"device 0\",consumer=\"all\"}";
    assert_eq!(after[limit], 67_108_864.0);
    // The page's lanes show the device's work within a step or two.
    eventually("the work is on the page", async || {
        let status = server.get("/api/status").await.json();
        let samples = status["timeline"]["samples"].as_array().unwrap().clone();
        let mut work = samples
            .iter()
            .flat_map(|sample| sample["work"].as_array().unwrap());
        work.any(|work| work["lane"] == "device 0" && work["operator"] == "PipelineExec")
    })
    .await;
    let status = server.get("/api/status").await.json();
    let last = status["timeline"]["samples"].as_array().unwrap().last();
    let since = last.unwrap()["time_ms"].as_u64().unwrap();
    let later = server.get(&format!("/api/status?since={since}")).await;
    let later = later.json()["timeline"]["samples"].clone();
    let later = later.as_array().unwrap();
    assert!(
        later
            .iter()
            .all(|sample| sample["time_ms"].as_u64().unwrap() > since)
    );
    check_query(&server, "SELECT sum(v) FROM t WHERE v > 0").await;
}

/// Asks for all that is known of a query that a device ran.
async fn check_query(server: &Running, sql: &str) {
    let status = server.get("/api/status").await.json();
    let queries = status["queries"].as_array().unwrap();
    let line = queries.iter().find(|line| line["sql"] == sql).unwrap();
    let told = server.get(&format!("/api/queries/{}", line["id"])).await;
    let told = told.json();
    assert_eq!(
        (&told["state"], &told["is_live"]),
        (&"finished".into(), &false.into())
    );
    assert!(told["verdict"].as_str().unwrap().contains("device 0"));
    let plan = told["plan"].to_string();
    assert!(plan.contains("\"operator\":\"PipelineExec\""), "{plan}");
    let work = told["work"].as_array().unwrap();
    let on_device = work.iter().filter(|piece| piece["lane"] == "device 0");
    assert!(on_device.count() > 0, "{told}");
    for piece in work.iter().chain(told["claims"].as_array().unwrap()) {
        let (start, end) = (&piece["start"], &piece["end"]);
        assert!(start.as_f64() <= end.as_f64(), "{piece}");
    }
    assert_eq!(server.get("/api/queries/999999").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_fail_are_listed_and_those_of_a_prompt_are_not() {
    let server = start_with(session(&[]), with_http()).await;
    let client = &mut server.client().await;
    let sql = "SELECT nothing FROM nowhere";
    failure(client, sql).await;
    failure(client, "SELEC 1").await;
    failure(client, "SELECT 1 / (value - 1) FROM generate_series(1, 10)").await;
    answer(client, "/* completion */ SELECT 7").await;
    let status = server.get("/api/status").await.json();
    let queries = status["queries"].as_array().unwrap();
    let listed: Vec<_> = queries
        .iter()
        .map(|line| {
            (
                line["sql"].as_str().unwrap(),
                line["state"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        listed,
        [
            (
                "SELECT 1 / (value - 1) FROM generate_series(1, 10)",
                "failed"
            ),
            ("SELEC 1", "failed"),
            (sql, "failed"),
        ]
    );
    let error = queries[2]["error"].as_str().unwrap();
    assert!(error.contains("nowhere"), "{error}");
    let told = server
        .get(&format!("/api/queries/{}", queries[2]["id"]))
        .await;
    let told = told.json();
    assert!(told["plan"].is_null() && told["work"].as_array().unwrap().is_empty());
    assert_eq!(told["error"], queries[2]["error"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_down_is_not_ready() {
    let options = ServerOptions {
        limits: Limits {
            drain: Duration::from_secs(20),
            ..Limits::default()
        },
        ..with_http()
    };
    let mut server = start_with(session(&[]), options).await;
    let health = &mut HealthClient::new(server.channel().await);
    let mut check = async || {
        let request = HealthCheckRequest::default();
        let answer = health.check(request).await.unwrap();
        answer.into_inner().status
    };
    assert_eq!(check().await, ServingStatus::Serving as i32);
    for path in ["/health", "/ready"] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    // Whoever only looks has no session.
    assert_eq!(server.watch.num_sessions(), 0);
    let client = &mut server.client().await;
    let info = client.execute(ENDLESS.into(), None).await.unwrap();
    let mut fetching = client.clone();
    let endless = tokio::spawn(async move { crate::support::fetch(&mut fetching, info).await });
    eventually("the query runs", async || num_running(&server.session) == 1).await;
    server.stop.take().unwrap().send(()).unwrap();
    eventually("it is not ready", async || {
        server.get("/ready").await.status == 503
    })
    .await;
    assert_eq!(server.get("/health").await.status, 200);
    assert_eq!(check().await, ServingStatus::NotServing as i32);
    let status = server.get("/api/status").await.json();
    assert_eq!(status["is_ready"], false);
    // What still runs can be stopped, and then the server ends at once.
    let id = status["queries"][0]["id"].as_u64().unwrap();
    let path = format!("/api/queries/{id}/kill");
    assert_eq!(server.ask("POST", &path, &[INTENT], "").await.status, 200);
    eventually("the server ends", async || server.task.is_finished()).await;
    assert!(endless.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn people_see_and_stop_what_is_theirs() {
    let server = start_with(session(&[]), closed()).await;
    for path in ["/metrics", "/api/status"] {
        let refused = server.get(path).await;
        assert_eq!(refused.status, 401, "{}", refused.body);
        assert!(refused.headers.contains("www-authenticate: bearer"));
    }
    // "ada:one", "ada:two"
    let right = server
        .ask(
            "GET",
            "/metrics",
            &["authorization: Basic YWRhOm9uZQ=="],
            "",
        )
        .await;
    assert_eq!(right.status, 200);
    let wrong = server
        .ask(
            "GET",
            "/metrics",
            &["authorization: Basic YWRhOnR3bw=="],
            "",
        )
        .await;
    assert_eq!(wrong.status, 401);
    let wrong = "{\"name\": \"ada\", \"password\": \"two\"}";
    let wrong = server
        .ask("POST", "/api/login", &[JSON, INTENT], wrong)
        .await;
    assert_eq!(wrong.status, 401, "{}", wrong.body);
    let (ada, bob) = (
        server.token("ada", "one").await,
        server.token("bob", "two").await,
    );
    let client = &mut server.client().await;
    client.handshake("ada", "one").await.unwrap();
    let info = client.execute(ENDLESS.into(), None).await.unwrap();
    let mut fetching = client.clone();
    let task = tokio::spawn(async move { crate::support::fetch(&mut fetching, info).await });
    eventually("the query runs", async || num_running(&server.session) == 1).await;
    let seen = server.ask("GET", "/api/status", &[&bob], "").await.json();
    assert_eq!(seen["queries"].as_array().unwrap().len(), 0, "{seen}");
    assert_eq!(
        (&seen["user"], &seen["is_admin"]),
        (&"bob".into(), &false.into())
    );
    let users: Vec<_> = seen["sessions"].as_array().unwrap().iter().collect();
    assert!(
        users.iter().all(|session| session["user"] == "bob"),
        "{seen}"
    );
    let seen = server.ask("GET", "/api/status", &[&ada], "").await.json();
    let line = &seen["queries"][0];
    assert_eq!(
        (&line["sql"], &line["state"]),
        (&ENDLESS.into(), &"running".into())
    );
    assert!(line["progress"].is_object(), "{line}");
    let own = format!("/api/queries/{}", line["id"]);
    let told = async |token: &str| server.ask("GET", &own, &[token], "").await;
    assert_eq!(told(&bob).await.status, 404);
    let seen = told(&ada).await.json();
    assert_eq!((&seen["id"], &seen["is_live"]), (&line["id"], &true.into()));
    assert!(seen["plan"].is_object(), "{seen}");
    let path = format!("/api/queries/{}/kill", line["id"]);
    let kill = async |headers: &[&str]| server.ask("POST", &path, headers, "").await.status;
    assert_eq!(kill(&[INTENT]).await, 401);
    assert_eq!(kill(&[&ada]).await, 403);
    assert_eq!(
        kill(&[&ada, INTENT, "sec-fetch-site: cross-site"]).await,
        403
    );
    assert_eq!(kill(&[&bob, INTENT]).await, 404);
    assert_eq!(num_running(&server.session), 1);
    assert_eq!(
        kill(&[&ada, INTENT, "sec-fetch-site: same-origin"]).await,
        200
    );
    assert!(task.await.unwrap().is_err());
    eventually("it is gone", async || kill(&[&ada, INTENT]).await == 404).await;
    // A token ends with its session.
    assert_eq!(
        server
            .ask("POST", "/api/logout", &[&bob, INTENT], "")
            .await
            .status,
        204
    );
    assert_eq!(
        server.ask("GET", "/api/status", &[&bob], "").await.status,
        401
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_page_asks_in_vain() {
    let server = start_with(session(&[]), with_http()).await;
    for host in ["host: evil.example", "host: evil.example:80"] {
        for path in ["/metrics", "/api/status"] {
            assert_eq!(
                server.ask("GET", path, &[host], "").await.status,
                403,
                "{path}"
            );
        }
        let kill = server
            .ask("POST", "/api/queries/1/kill", &[host, INTENT], "")
            .await;
        assert_eq!(kill.status, 403);
        assert_eq!(server.ask("GET", "/health", &[host], "").await.status, 200);
    }
    assert_eq!(
        server
            .ask("GET", "/metrics", &["host: localhost:1"], "")
            .await
            .status,
        200
    );
    let page = server.get("/").await;
    assert_eq!(page.status, 200);
    assert!(
        page.headers.contains("script-src 'nonce-"),
        "{}",
        page.headers
    );
    assert!(page.headers.contains("frame-ancestors 'none'"));
    assert!(!page.body.contains("{{nonce}}") && !page.body.contains("https://"));
    assert_ne!(page.body, server.get("/").await.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_refused() {
    let server = start_with(session(&[]), closed()).await;
    let long = "x".repeat(100_000);
    for (method, path, headers, body, status) in [
        ("GET", "/nothing", &[][..], "", 404),
        ("POST", "/metrics", &[], "", 405),
        ("POST", "/api/login", &[JSON], "{}", 403),
        ("POST", "/api/login", &[JSON, INTENT], "{", 400),
        ("POST", "/api/login", &[JSON, INTENT], "{\"name\": 1}", 422),
        ("POST", "/api/login", &[INTENT], "{}", 415),
        ("POST", "/api/login", &[JSON, INTENT], long.as_str(), 413),
        ("GET", "/metrics", &["authorization: Basic !!!"], "", 401),
        ("GET", "/metrics", &["authorization: Bearer 0000"], "", 401),
        ("GET", "/metrics", &["authorization: \u{e9}"], "", 401),
    ] {
        let answer = server.ask(method, path, headers, body).await;
        assert_eq!(
            answer.status, status,
            "{method} {path} {body:.50}: {}",
            answer.body
        );
    }
    let ada = server.token("ada", "one").await;
    for id in ["0", "-1", "99999999999999999999", "x"] {
        let path = format!("/api/queries/{id}/kill");
        let answer = server.ask("POST", &path, &[&ada, INTENT], "").await;
        assert!(
            matches!(answer.status, 400 | 404),
            "{id}: {}",
            answer.status
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_is_that_of_the_flight_port() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_string()]).unwrap();
    let options = ServerOptions {
        tls: Some(Tls {
            certificate: cert.pem().into_bytes(),
            key: signing_key.serialize_pem().into_bytes(),
        }),
        ..with_http()
    };
    let server = start_with(session(&[]), options).await;
    let url = server.http.clone().unwrap();
    let address = url.strip_prefix("https://").unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let stream = connector.connect(name, stream).await.unwrap();
    let answer = send(stream, &written("GET", "/health", &[], "")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
    // In the clear it says nothing.
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream
        .write_all(written("GET", "/health", &[], "").as_bytes())
        .await
        .unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    assert!(!String::from_utf8_lossy(&bytes).contains("ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_and_the_sessions_are_tables() {
    let server = start_with(session(&[]), closed()).await;
    let (ada, bob) = (&mut server.client().await, &mut server.client().await);
    ada.handshake("ada", "one").await.unwrap();
    bob.handshake("bob", "two").await.unwrap();
    answer(bob, "SELECT 7").await;
    failure(bob, "SELECT 1 / (value - 1) FROM generate_series(1, 10)").await;
    answer(ada, "SELECT 8").await;
    let log = "SELECT user, sql, state, placement, rows, error IS NULL FROM system.query_log \
               WHERE sql NOT LIKE '%system%' ORDER BY query_id";
    let own = [
        "bob|SELECT 7|finished|host|1|true",
        "bob|SELECT 1 / (value - 1) FROM generate_series(1, 10)|failed|host|0|false",
    ];
    assert_eq!(answer(bob, log).await, own);
    let all = answer(ada, log).await;
    assert_eq!(all[..2], own);
    assert_eq!(all[2], "ada|SELECT 8|finished|host|1|true");
    let sessions = "SELECT user, is_admin, queries > 0, running, opened <= last_query \
                    FROM system.sessions ORDER BY session_id";
    assert_eq!(answer(bob, sessions).await, ["bob|false|true|0|true"]);
    let all = answer(ada, sessions).await;
    assert_eq!(all, ["ada|true|true|0|true", "bob|false|true|0|true"]);
    let of_session = "SELECT count(*) FROM system.query_log l JOIN system.sessions s \
                      USING (session_id) WHERE s.user = l.user";
    assert_ne!(answer(ada, of_session).await, ["0"]);
    let close = Action::new("CloseSession", vec![]);
    bob.do_action(close).await.unwrap();
    eventually("bob's session has ended", async || {
        answer(ada, "SELECT count(*) FROM system.sessions").await == ["1"]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_cache_does_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().canonicalize().unwrap().join("t.parquet");
    let session = session(&[folder.path().to_path_buf()]);
    // Under a small memory limit nothing is kept that nobody asked for.
    let limit = ("tidegate.host_cache_limit", "64MB");
    session.set(limit.0, limit.1).await.unwrap();
    // The host engine keeps nothing of files of this machine.
    session.set("tidegate.host_engine", "off").await.unwrap();
    let server = start_with(session, with_http()).await;
    let client = &mut server.client().await;
    let copy = format!(
        "COPY (SELECT value AS a, value * 2 AS b FROM range(0, 1000)) TO '{}'",
        file.display()
    );
    answer(client, &copy).await;
    let sum = |column: &str| format!("SELECT sum({column}) FROM '{}'", file.display());
    let counted = async |what: &str| {
        let text = server.get("/metrics").await.body;
        let name = format!("tidegate_cache_{what}_total{{tier=\"host\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!((counted("hits").await, counted("misses").await), (0, 0));
    for (column, expect, hits, misses) in [
        ("a", "499500", 0, 1),
        ("a", "499500", 1, 1),
        ("a + b", "1498500", 1, 3),
        ("a + b", "1498500", 3, 3),
    ] {
        assert_eq!(answer(client, &sum(column)).await, [expect]);
        let now = (counted("hits").await, counted("misses").await);
        assert_eq!(now, (hits, misses), "{column}");
    }
    let seen = server.get("/api/status").await.json();
    assert_eq!(seen["cache"]["host_hits"], 3, "{seen}");
}
