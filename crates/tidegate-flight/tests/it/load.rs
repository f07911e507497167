//! Turns, queues, limits, cancelling and going down.

use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow_flight::sql::{ActionCancelQueryRequest, ActionCancelQueryResult, Any, ProstMessageExt};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
};
use futures::TryStreamExt;
use futures::future::{join_all, select_all};
use prost::Message;
use tidegate_flight::{Limits, ServerOptions};
use tonic::Code;

use crate::login::users;
use crate::support::{
    BOTTOMLESS, Client, ENDLESS, Running, answer, eventually, failure, num_running, options, query,
    session, start, start_with, status_of,
};

async fn limited(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = options().limits;
    change(&mut limits);
    start_with(
        session(&[]),
        ServerOptions {
            limits,
            ..options()
        },
    )
    .await
}

/// Starts a query that does not end, and lets it go on by itself.
async fn endless(server: &Running) -> tokio::task::JoinHandle<(Code, String)> {
    let before = num_running(&server.session);
    let mut client = server.client().await;
    let task = tokio::spawn(async move { failure(&mut client, ENDLESS).await });
    eventually("the query runs", async || {
        num_running(&server.session) > before
    })
    .await;
    task
}

#[tokio::test(flavor = "multi_thread")]
async fn more_than_fit_wait_and_more_than_wait_are_refused() {
    let server = limited(|limits| {
        limits.statements = 1;
        limits.queued = 1;
        limits.queue_wait = Duration::from_secs(30);
    })
    .await;
    let busy = endless(&server).await;
    // Of two one finds a place to wait; the other has its answer at once, and that is a refusal.
    let mut asked = Vec::new();
    for _ in 0..2 {
        let mut client = server.client().await;
        asked.push(Box::pin(
            async move { query(&mut client, "SELECT 1").await },
        ));
    }
    let (refused, _, waiting) = select_all(asked).await;
    let waiting = tokio::spawn(join_all(waiting));
    let refused = status_of(refused.unwrap_err());
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("try again"), "{refused}");
    let client = &mut server.client().await;
    // What is asked about the server, and what steers it, has its answer.
    client.get_catalogs().await.unwrap();
    answer(client, "SET tidegate.float_sums = 'any'").await;
    let running = server.session.reports();
    let id = running
        .iter()
        .find(|report| report.state == tidegate::QueryState::Running)
        .unwrap()
        .id;
    answer(client, &format!("KILL QUERY {id}")).await;
    assert_eq!(busy.await.unwrap().0, Code::Cancelled);
    let waited = waiting.await.unwrap().remove(0);
    assert_eq!(waited.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wait_for_a_turn_ends() {
    let server = limited(|limits| {
        limits.statements = 1;
        limits.queue_wait = Duration::from_millis(200);
    })
    .await;
    let busy = endless(&server).await;
    let (code, message) = failure(&mut server.client().await, "SELECT 1").await;
    assert_eq!(code, Code::Unavailable);
    assert!(message.contains("waited 200ms"), "{message}");
    busy.abort();
    let client = &mut server.client().await;
    eventually("the turn is given back", async || {
        query(client, "SELECT 1").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clients_each_get_rows_or_a_retriable_error() {
    let server = limited(|limits| {
        limits.statements = 4;
        limits.queued = 8;
    })
    .await;
    let clients = (0..60).map(|_| async {
        let client = &mut server.client().await;
        let sql = "SELECT sum(value) FROM generate_series(1, 300000)";
        match query(client, sql).await {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(status_of(error).code(), Code::Unavailable);
                false
            }
        }
    });
    let served = join_all(clients).await;
    assert!(served.iter().filter(|served| **served).count() >= 12);
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_has_its_time() {
    let server = limited(|limits| {
        limits.statement_timeout = Some(Duration::from_millis(200));
    })
    .await;
    let (code, message) = failure(&mut server.client().await, ENDLESS).await;
    assert_eq!(code, Code::DeadlineExceeded);
    assert!(
        message.contains("--statement-timeout of 0.2 s"),
        "{message}"
    );
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
    let server = start().await;
    let client = &mut server.client().await;
    answer(client, "SET tidegate.statement_timeout = '200ms'").await;
    let (code, message) = failure(client, ENDLESS).await;
    assert_eq!(code, Code::DeadlineExceeded);
    assert!(message.contains("statement_timeout"), "{message}");
    // Rows that are there whenever they are asked for.
    let (code, message) = failure(client, BOTTOMLESS).await;
    assert_eq!(code, Code::DeadlineExceeded);
    assert!(message.contains("statement_timeout"), "{message}");
    // A client shortens the server's limit, and does not lengthen it.
    let server = limited(|limits| {
        limits.statement_timeout = Some(Duration::from_millis(200));
    })
    .await;
    let client = &mut server.client().await;
    answer(client, "SET tidegate.statement_timeout = '1h'").await;
    let (code, message) = failure(client, ENDLESS).await;
    assert_eq!(code, Code::DeadlineExceeded);
    assert!(message.contains("--statement-timeout"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_reading_is_given_up() {
    let server = limited(|limits| {
        limits.statements = 1;
        limits.stall = Duration::from_millis(400);
    })
    .await;
    let client = &mut server.client().await;
    let info = client.execute(BOTTOMLESS.into(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut rows = client.do_get(ticket).await.unwrap();
    rows.try_next().await.unwrap();
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
    assert_eq!(answer(&mut server.client().await, "SELECT 1").await, ["1"]);
    let error = loop {
        match rows.try_next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("a result that was broken off looks whole"),
            Err(error) => break status_of(error),
        }
    };
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
}

type Rows = arrow_flight::decode::FlightRecordBatchStream;

/// Fetches the first rows of a result that does not end, and reads no more.
async fn unread(server: &Running) -> (Client, Rows) {
    let mut client = server.client().await;
    let info = client.execute(BOTTOMLESS.into(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut rows = client.do_get(ticket).await.unwrap();
    rows.try_next().await.unwrap();
    (client, rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn results_that_nobody_reads_give_their_turns_back() {
    let server = limited(|limits| limits.statements = 2).await;
    let mut left = Vec::new();
    for _ in 0..6 {
        let opened = tokio::time::timeout(Duration::from_secs(5), unread(&server)).await;
        left.push(opened.expect("a turn is given back"));
    }
    let client = &mut server.client().await;
    let asked = tokio::time::timeout(Duration::from_secs(5), query(client, "SELECT 1")).await;
    assert_eq!(asked.unwrap().unwrap().len(), 1);
    // Who reads on gets the rows where it left off.
    let (_, rows) = &mut left[0];
    let mut next = None;
    let read = async {
        for _ in 0..50 {
            let batch = rows.try_next().await.unwrap().unwrap();
            let values = batch.column(0).as_primitive::<Int64Type>();
            if let Some(next) = next {
                assert_eq!(values.value(0), next);
            }
            next = Some(values.value(values.len() - 1) + 1);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), read)
        .await
        .expect("a turn is had again");
    drop(left);
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_too_many_results_that_nobody_reads_the_oldest_ends() {
    let server = limited(|limits| {
        limits.statements = 1;
        limits.queued = 1;
    })
    .await;
    let (_client, mut first) = unread(&server).await;
    let mut left = Vec::new();
    for _ in 0..2 {
        left.push(unread(&server).await);
    }
    let read = async {
        loop {
            match first.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a result that was broken off looks whole"),
                Err(error) => break status_of(error),
            }
        }
    };
    let error = tokio::time::timeout(Duration::from_secs(20), read).await;
    let error = error.expect("the client is told");
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    assert!(error.message().contains("--queue"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_takes_not_all_turns() {
    let server = start_with(
        session(&[]),
        ServerOptions {
            users: Some(users()),
            limits: Limits {
                statements: 4,
                statements_per_user: 1,
                queued_per_user: 0,
                ..options().limits
            },
            ..options()
        },
    )
    .await;
    let ada = &mut server.client().await;
    ada.handshake("ada", "one").await.unwrap();
    let mut busy = ada.clone();
    let busy = tokio::spawn(async move { failure(&mut busy, ENDLESS).await });
    eventually("the query runs", async || num_running(&server.session) == 1).await;
    let (code, message) = failure(ada, "SELECT 1").await;
    assert_eq!(code, Code::ResourceExhausted, "{message}");
    assert!(message.contains("--max-user-queue"), "{message}");
    let bob = &mut server.client().await;
    bob.handshake("bob", "two").await.unwrap();
    assert_eq!(answer(bob, "SELECT 1").await, ["1"]);
    busy.abort();
    eventually("the turn is given back", async || {
        query(ada, "SELECT 1").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_stops_its_query() {
    let server = start().await;
    let task = endless(&server).await;
    task.abort();
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
    let client = &mut server.client().await;
    let info = client.execute(BOTTOMLESS.into(), None).await.unwrap();
    let mut rows = client
        .do_get(info.endpoint[0].ticket.clone().unwrap())
        .await
        .unwrap();
    rows.try_next().await.unwrap();
    drop(rows);
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
}

async fn cancel(client: &mut Client, info: &FlightInfo) -> i32 {
    let body = CancelFlightInfoRequest::new(info.clone()).encode_to_vec();
    let mut answers = client
        .do_action(Action::new("CancelFlightInfo", body))
        .await
        .unwrap();
    let answer = answers.message().await.unwrap().unwrap();
    CancelFlightInfoResult::decode(answer.body).unwrap().status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_is_cancelled_by_its_info() {
    let server = start().await;
    let client = &mut server.client().await;
    let info = client.execute(ENDLESS.into(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut fetching = client.clone();
    let task = tokio::spawn(async move {
        let rows = fetching.do_get(ticket).await;
        match rows {
            Ok(rows) => status_of(rows.try_collect::<Vec<_>>().await.unwrap_err()),
            Err(error) => status_of(error),
        }
    });
    eventually("the query runs", async || num_running(&server.session) == 1).await;
    assert_eq!(cancel(client, &info).await, CancelStatus::Cancelled as i32);
    assert_eq!(task.await.unwrap().code(), Code::Cancelled);
    assert_eq!(
        cancel(client, &info).await,
        CancelStatus::NotCancellable as i32
    );
    // One that was not fetched yet is forgotten.
    let info = client.execute("SELECT 1".into(), None).await.unwrap();
    let body = ActionCancelQueryRequest {
        info: info.encode_to_vec().into(),
    };
    let action = Action::new("CancelQuery", body.as_any().encode_to_vec());
    let mut answers = client.do_action(action).await.unwrap();
    let answer = Any::decode(answers.message().await.unwrap().unwrap().body).unwrap();
    let answer: ActionCancelQueryResult = answer.unpack().unwrap().unwrap();
    assert_eq!(answer.result, CancelStatus::Cancelled as i32);
    let error = crate::support::fetch(client, info).await.unwrap_err();
    assert_eq!(status_of(error).code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_down_finishes_what_runs() {
    let mut server = start().await;
    let client = &mut server.client().await;
    let slow = "SELECT count(*) FROM generate_series(1, 300000000) WHERE value % 7 = 3";
    let info = client.execute(slow.into(), None).await.unwrap();
    let mut fetching = client.clone();
    let task = tokio::spawn(async move { crate::support::fetch(&mut fetching, info).await });
    eventually("the query runs", async || num_running(&server.session) == 1).await;
    server.stop.take().unwrap().send(()).unwrap();
    eventually("new ones are refused", async || {
        let refused = query(client, "SELECT 1").await;
        refused.is_err_and(|error| {
            matches!(error, arrow_flight::error::FlightError::Tonic(status)
                if status.code() == Code::Unavailable)
        })
    })
    .await;
    // The query ends by itself, or is cancelled when the patience is over; either way it is told.
    match task.await.unwrap() {
        Ok(rows) => assert_eq!(rows[0].num_rows(), 1),
        Err(error) => assert_eq!(status_of(error).code(), Code::Cancelled),
    }
    eventually("the server ends", async || server.task.is_finished()).await;
    assert_eq!(server.watch.num_sessions(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_come_and_go_leave_nothing() {
    let server = start().await;
    let pool = std::sync::Arc::clone(&server.session.context().runtime_env().memory_pool);
    for round in 0..4 {
        let clients = (0..12).map(|number| {
            let address = &server;
            async move {
                let client = &mut address.client().await;
                let sql = match (round + number) % 3 {
                    0 => "SELECT value, count(*) FROM generate_series(1, 200000) GROUP BY value",
                    1 => BOTTOMLESS,
                    _ => ENDLESS,
                };
                let patience = Duration::from_millis(30 * (number % 5 + 1));
                // Whether it ends or is left does not matter.
                let _ = tokio::time::timeout(patience, query(client, sql)).await;
            }
        });
        join_all(clients).await;
    }
    eventually("nothing runs", async || num_running(&server.session) == 0).await;
    eventually("the sessions end", async || {
        server.watch.num_sessions() == 0
    })
    .await;
    eventually("the memory is back", async || pool.reserved() == 0).await;
}
