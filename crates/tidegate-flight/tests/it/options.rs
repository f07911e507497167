//! Session options, and the end of a session.

use std::collections::HashMap;

use arrow_flight::Action;
use prost::Message;

use crate::support::{Client, answer, failure, start};

// The messages as a client writes them, from Arrow's `Flight.proto`.

#[derive(Clone, PartialEq, prost::Message)]
struct Value {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(sfixed64, optional, tag = "3")]
    integer: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Options {
    #[prost(map = "string, message", tag = "1")]
    options: HashMap<String, Value>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Trouble {
    #[prost(int32, tag = "1")]
    value: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Troubles {
    #[prost(map = "string, message", tag = "1")]
    errors: HashMap<String, Trouble>,
}

async fn act(client: &mut Client, name: &str, body: Vec<u8>) -> bytes::Bytes {
    let mut answers = client.do_action(Action::new(name, body)).await.unwrap();
    answers.message().await.unwrap().unwrap().body
}

async fn set(client: &mut Client, name: &str, text: &str) -> Option<i32> {
    let value = Value {
        text: Some(text.into()),
        integer: None,
    };
    let options = Options {
        options: [(name.to_string(), value)].into(),
    };
    let body = act(client, "SetSessionOptions", options.encode_to_vec()).await;
    let troubles = Troubles::decode(body).unwrap();
    troubles.errors.get(name).map(|trouble| trouble.value)
}

async fn get(client: &mut Client, name: &str) -> Option<String> {
    let body = act(client, "GetSessionOptions", Vec::new()).await;
    Options::decode(body)
        .unwrap()
        .options
        .get(name)?
        .text
        .clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_settings() {
    let server = start().await;
    let client = &mut server.client().await;
    assert_eq!(get(client, "catalog").await.as_deref(), Some("datafusion"));
    assert_eq!(get(client, "schema").await.as_deref(), Some("public"));
    answer(client, "CREATE SCHEMA other").await;
    answer(client, "CREATE TABLE other.t AS VALUES (1)").await;
    assert_eq!(set(client, "schema", "other").await, None);
    assert_eq!(answer(client, "SELECT * FROM t").await, ["1"]);
    assert_eq!(set(client, "schema", "nowhere").await, Some(2));
    assert_eq!(set(client, "tidegate.float_sums", "ordered").await, None);
    assert_eq!(
        get(client, "tidegate.float_sums").await.as_deref(),
        Some("ordered")
    );
    assert_eq!(set(client, "tidegate.float_sums", "perhaps").await, Some(2));
    assert_eq!(set(client, "tidegate.nothing", "1").await, Some(1));
    assert_eq!(set(client, "a; DROP TABLE t", "1").await, Some(1));
    assert_eq!(set(client, "tidegate.memory_limit", "1TB").await, Some(3));
    assert_eq!(
        set(client, "tidegate.float_sums", "any'; DROP TABLE t; --").await,
        Some(2)
    );
    assert_eq!(answer(client, "SELECT * FROM t").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_closed_once() {
    let server = start().await;
    let client = &mut server.client().await;
    client.handshake("any", "one").await.unwrap();
    answer(client, "CREATE TABLE temp.own AS VALUES (1)").await;
    let body = act(client, "CloseSession", Vec::new()).await;
    let closed = Trouble::decode(body).unwrap();
    assert_eq!(closed.value, 1);
    assert_eq!(
        failure(client, "SELECT 1").await.0,
        tonic::Code::Unauthenticated
    );
    assert_eq!(server.watch.num_sessions(), 0);
}
