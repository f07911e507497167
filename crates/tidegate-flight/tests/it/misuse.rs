//! Messages that no well-behaved client sends: each has its status, and the server goes on.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    Any, CommandPreparedStatementQuery, CommandStatementIngest, CommandStatementQuery,
    CommandStatementSubstraitPlan, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{Action, Criteria, FlightData, FlightDescriptor, Ticket};
use futures::{TryStreamExt, stream};
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::io::AsyncWriteExt;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::support::{Running, answer, start};

type Raw = FlightServiceClient<Channel>;

async fn raw(server: &Running) -> Raw {
    FlightServiceClient::new(server.channel().await)
}

async fn get(client: &mut Raw, ticket: Vec<u8>) -> Status {
    match client.do_get(Ticket::new(ticket)).await {
        Ok(rows) => rows.into_inner().try_collect::<Vec<_>>().await.unwrap_err(),
        Err(status) => status,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tickets_and_commands_are_named() {
    let server = start().await;
    let client = &mut raw(&server).await;
    assert_eq!(get(client, vec![]).await.code(), Code::Unimplemented);
    assert_eq!(
        get(client, b"\xff\xff\xff".to_vec()).await.code(),
        Code::InvalidArgument
    );
    let handle = |bytes: Vec<u8>| TicketStatementQuery {
        statement_handle: bytes.into(),
    };
    for (bytes, code) in [
        (vec![], Code::InvalidArgument),
        (vec![1; 23], Code::InvalidArgument),
        (vec![1; 24], Code::NotFound),
        (vec![1; 25], Code::InvalidArgument),
    ] {
        let status = get(client, handle(bytes).as_any().encode_to_vec()).await;
        assert_eq!(status.code(), code, "{status}");
    }
    let prepared = CommandPreparedStatementQuery {
        prepared_statement_handle: vec![7; 24].into(),
    };
    assert_eq!(
        get(client, prepared.as_any().encode_to_vec()).await.code(),
        Code::NotFound
    );
    let broken = Any {
        type_url: CommandStatementQuery::type_url().into(),
        value: b"\xff\xff".to_vec().into(),
    };
    let info = client
        .get_flight_info(FlightDescriptor::new_cmd(broken.encode_to_vec()))
        .await;
    assert_eq!(info.unwrap_err().code(), Code::InvalidArgument);
    let path = client
        .get_flight_info(FlightDescriptor::new_path(vec!["a".into()]))
        .await;
    assert_eq!(path.unwrap_err().code(), Code::InvalidArgument);
    let substrait = CommandStatementSubstraitPlan::default()
        .as_any()
        .encode_to_vec();
    let status = client
        .get_flight_info(FlightDescriptor::new_cmd(substrait))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(
        status.message().contains("CommandStatementSubstraitPlan"),
        "{status}"
    );
    answer(&mut server.client().await, "SELECT 1").await;
}

/// What there is to do, in order.
const NAMES: [&str; 8] = [
    "CancelFlightInfo",
    "CancelQuery",
    "ClosePreparedStatement",
    "CloseSession",
    "CreatePreparedStatement",
    "GetSessionOptions",
    "SetSessionOptions",
    "tidegate.Progress",
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_done_is_named() {
    let server = start().await;
    let client = &mut raw(&server).await;
    for name in [
        "BeginTransaction",
        "EndTransaction",
        "BeginSavepoint",
        "EndSavepoint",
        "CreatePreparedSubstraitPlan",
        "RenewFlightEndpoint",
        "Dance",
    ] {
        let status = client
            .do_action(Action::new(name, vec![]))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains(name), "{status}");
    }
    let status = client.list_flights(Criteria::default()).await.unwrap_err();
    assert!(status.message().contains("ListFlights"), "{status}");
    let status = client.do_exchange(stream::empty()).await.unwrap_err();
    assert!(status.message().contains("DoExchange"), "{status}");
    let actions = client
        .list_actions(arrow_flight::Empty {})
        .await
        .unwrap()
        .into_inner();
    let actions: Vec<_> = actions.try_collect().await.unwrap();
    let mut names: Vec<_> = actions.iter().map(|it| it.r#type.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, NAMES);
    for name in [
        "CreatePreparedStatement",
        "CancelFlightInfo",
        "SetSessionOptions",
        "CancelQuery",
    ] {
        let status = client
            .do_action(Action::new(name, b"\xff\xff".to_vec()))
            .await
            .unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{name}: {status}");
    }
}

async fn put(client: &mut Raw, messages: Vec<FlightData>) -> Result<usize, Status> {
    let answers = client.do_put(stream::iter(messages)).await?.into_inner();
    Ok(answers.try_collect::<Vec<_>>().await?.len())
}

/// Writes batches for a table that is to be replaced.
async fn messages(batch: RecordBatch, options: IpcWriteOptions) -> Vec<FlightData> {
    let command = CommandStatementIngest {
        table: "fuzz".into(),
        ..CommandStatementIngest::default()
    };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    FlightDataEncoderBuilder::new()
        .with_options(options)
        .with_flight_descriptor(Some(descriptor))
        .with_schema(batch.schema())
        .build(stream::iter([Ok(batch)]))
        .try_collect()
        .await
        .unwrap()
}

fn rows() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let words: ArrayRef = Arc::new(StringArray::from(vec!["a", "bc", "def"]));
    RecordBatch::try_from_iter([("id", ids), ("word", words)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_are_read_with_distrust() {
    let server = start().await;
    let client = &mut raw(&server).await;
    assert_eq!(
        put(client, vec![]).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    let bare = vec![FlightData::default()];
    assert_eq!(
        put(client, bare).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    let plain = messages(rows(), IpcWriteOptions::default()).await;
    // Rows without their schema.
    let mut headless = plain.clone();
    let descriptor = headless.remove(0).flight_descriptor;
    headless[0].flight_descriptor = descriptor;
    assert_eq!(
        put(client, headless).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    // A body that is cut short.
    let mut short = plain.clone();
    let body = short[1].data_body.clone();
    short[1].data_body = body.slice(..body.len() / 2);
    assert_eq!(
        put(client, short).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    let options = IpcWriteOptions::default()
        .try_with_compression(Some(CompressionType::LZ4_FRAME))
        .unwrap();
    let status = put(client, messages(rows(), options).await)
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("compressed"), "{status}");
    let sql = &mut server.client().await;
    assert!(
        crate::support::query(sql, "SELECT * FROM fuzz")
            .await
            .is_err()
    );
    assert_eq!(put(client, plain).await.unwrap(), 1);
    assert_eq!(answer(sql, "SELECT count(*) FROM fuzz").await, ["3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_uploads_never_end_the_server() {
    let server = start().await;
    let client = &mut raw(&server).await;
    let plain = messages(rows(), IpcWriteOptions::default()).await;
    for seed in 0..400 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut damaged = plain.clone();
        let which = random.random_range(0..damaged.len());
        let in_header = random.random_bool(0.7);
        let message = &mut damaged[which];
        let bytes = match in_header {
            true => &mut message.data_header,
            false => &mut message.data_body,
        };
        let mut changed = bytes.to_vec();
        for _ in 0..random.random_range(1..4) {
            if !changed.is_empty() {
                let place = random.random_range(0..changed.len());
                changed[place] = random.random();
            }
        }
        *bytes = changed.into();
        if let Err(status) = put(client, damaged).await {
            let expected = [
                Code::InvalidArgument,
                Code::ResourceExhausted,
                Code::Unimplemented,
            ];
            assert!(expected.contains(&status.code()), "seed {seed}: {status}");
        } else {
            // What was damaged made sense all the same.
            let drop = "DROP TABLE IF EXISTS fuzz";
            answer(&mut server.client().await, drop).await;
        }
    }
    assert_eq!(answer(&mut server.client().await, "SELECT 1").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_http_do_no_harm() {
    let server = start().await;
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0; 100],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff",
    ] {
        let mut socket = tokio::net::TcpStream::connect(server.address)
            .await
            .unwrap();
        socket.write_all(bytes).await.unwrap();
    }
    assert_eq!(answer(&mut server.client().await, "SELECT 1").await, ["1"]);
    let client = &mut raw(&server).await;
    let huge = vec![FlightData {
        data_body: vec![0; 65 << 20].into(),
        ..FlightData::default()
    }];
    assert!(put(client, huge).await.is_err());
    assert_eq!(answer(&mut server.client().await, "SELECT 1").await, ["1"]);
}
