//! What a collector of OpenTelemetry gets to see.

use opentelemetry_proto::tonic::trace::v1::Span;
use tidegate_flight::{Server, ServerOptions};

use crate::collector::{Collector, attribute};
use crate::support::{answer, failure, options, session, start_with};

#[tokio::test(flavor = "multi_thread")]
async fn each_query_is_a_span_of_its_callers_trace() {
    let collector = Collector::default();
    let options = ServerOptions {
        otlp_endpoint: Some(collector.start()),
        ..options()
    };
    let mut server = start_with(session(&[]), options).await;
    let client = &mut server.client().await;
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    client.set_header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01"));
    answer(client, "SELECT value FROM generate_series(1, 1000)").await;
    client.set_header("traceparent", "nothing of the kind");
    failure(client, "SELECT 1 / (value - 1) FROM generate_series(1, 10)").await;
    server.stop.take().unwrap().send(()).unwrap();
    (&mut server.task).await.unwrap();
    let spans = collector.spans();
    let queries: Vec<&Span> = spans.iter().filter(|span| span.name == "SELECT").collect();
    let [right, wrong] = queries[..] else {
        panic!("{spans:?}");
    };
    assert_eq!(hex(&right.trace_id), trace);
    assert_eq!(hex(&right.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(attribute(right, "db.response.returned_rows"), "1000");
    assert_eq!(
        attribute(right, "db.query.text"),
        "SELECT value FROM generate_series(1, 1000)"
    );
    assert_eq!(attribute(right, "user.name"), "anonymous");
    assert_eq!(attribute(right, "tidegate.state"), "finished");
    assert!(right.status.as_ref().is_none_or(|status| status.code == 0));
    // What says nothing of a trace begins one.
    assert_ne!(hex(&wrong.trace_id), trace);
    assert_eq!(hex(&wrong.parent_span_id), "");
    let status = wrong.status.as_ref().unwrap();
    assert_eq!(status.code, 2);
    assert!(
        status.message.contains("division by zero"),
        "{}",
        status.message
    );
    for query in [right, wrong] {
        let mut below = spans
            .iter()
            .filter(|span| span.parent_span_id == query.span_id);
        let plan = below.find(|span| span.name == "plan").unwrap();
        assert_eq!(plan.trace_id, query.trace_id);
        assert_eq!(plan.start_time_unix_nano, query.start_time_unix_nano);
        assert!(plan.start_time_unix_nano < plan.end_time_unix_nano);
        assert!(plan.end_time_unix_nano <= query.end_time_unix_nano);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_costs_no_query() {
    let options = ServerOptions {
        otlp_endpoint: Some("http://127.0.0.1:9".into()),
        ..options()
    };
    let mut server = start_with(session(&[]), options).await;
    let client = &mut server.client().await;
    assert_eq!(answer(client, "SELECT 1").await, ["1"]);
    server.stop.take().unwrap().send(()).unwrap();
    (&mut server.task).await.unwrap();
    let options = ServerOptions {
        otlp_endpoint: Some("not a url".into()),
        ..crate::support::options()
    };
    let error = Server::bind(session(&[]), options).await.unwrap_err();
    assert!(error.to_string().contains("not a url"), "{error}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
