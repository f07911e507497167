//! Damaged messages, made from the corpus beside this file: each is answered by a status that blames
//! its sender, and the server goes on as if it had not come.
//!
//! Each file of the corpus is what a client sends: `.ticket`, `.command` and `.upload` (length-delimited
//! `FlightData`), or `NAME.action`, in hexadecimal digits. `TIDEGATE_FUZZ_ROUNDS` says how many damaged copies of each are
//! sent, `TIDEGATE_FUZZ_SEED` which; a failure names both. `TIDEGATE_FUZZ_UPDATE=1` writes the files
//! that are made here anew; others were found and stay.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, BinaryArray, DictionaryArray, Float64Array, Int64Array, ListArray, RecordBatch,
    StringArray, StringViewArray,
};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, CommandGetDbSchemas,
    CommandGetSqlInfo, CommandGetTables, CommandPreparedStatementQuery, CommandStatementIngest,
    CommandStatementQuery, CommandStatementUpdate, ProstMessageExt, TicketStatementQuery,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, FlightData, FlightDescriptor, FlightInfo, Ticket,
};
use futures::{TryStreamExt, stream};
use prost::Message;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::support::{Running, answer, eventually, start};

/// How long any one message may be worked on.
const PATIENCE: Duration = Duration::from_secs(30);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Writes bytes as lines of digits.
fn digits(bytes: &[u8]) -> String {
    let line = |line: &[u8]| {
        line.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    bytes.chunks(48).map(|chunk| line(chunk) + "\n").collect()
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// Makes the messages of well-behaved clients.
async fn well_behaved() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut add = |name: &str, bytes: Vec<u8>| files.insert(name.to_string(), bytes);
    let handle = || vec![7_u8; 24].into();
    let ticket = TicketStatementQuery {
        statement_handle: handle(),
    };
    add("statement.ticket", ticket.as_any().encode_to_vec());
    let prepared = CommandPreparedStatementQuery {
        prepared_statement_handle: handle(),
    };
    add("prepared.ticket", prepared.as_any().encode_to_vec());
    let tables = CommandGetTables {
        catalog: None,
        db_schema_filter_pattern: Some("%".into()),
        table_name_filter_pattern: Some("q_eries".into()),
        table_types: vec!["SYSTEM TABLE".into()],
        include_schema: true,
    };
    add("tables.ticket", tables.as_any().encode_to_vec());
    let schemas = CommandGetDbSchemas {
        catalog: Some("datafusion".into()),
        db_schema_filter_pattern: None,
    };
    add("schemas.ticket", schemas.as_any().encode_to_vec());
    let info = CommandGetSqlInfo {
        info: vec![0, 1, 500, 517],
    };
    add("sql_info.ticket", info.as_any().encode_to_vec());
    let query = CommandStatementQuery {
        query: "SELECT sum(value), '\u{e9}' FROM generate_series(1, 9) WHERE value > 3".into(),
        transaction_id: None,
    };
    add("query.command", query.as_any().encode_to_vec());
    add("tables.command", tables.as_any().encode_to_vec());
    add("prepared.command", prepared.as_any().encode_to_vec());
    let prepare = ActionCreatePreparedStatementRequest {
        query: "SELECT $1 + 1, $2 || 'x'".into(),
        transaction_id: None,
    };
    add(
        "CreatePreparedStatement.action",
        prepare.as_any().encode_to_vec(),
    );
    let close = ActionClosePreparedStatementRequest {
        prepared_statement_handle: handle(),
    };
    add(
        "ClosePreparedStatement.action",
        close.as_any().encode_to_vec(),
    );
    let cancel = CancelFlightInfoRequest::new(
        FlightInfo::new().with_endpoint(
            arrow_flight::FlightEndpoint::new()
                .with_ticket(Ticket::new(ticket.as_any().encode_to_vec())),
        ),
    );
    add("CancelFlightInfo.action", cancel.encode_to_vec());
    let update = CommandStatementUpdate {
        query: "SET tidegate.float_sums = 'any'".into(),
        transaction_id: None,
    };
    let alone = FlightData {
        flight_descriptor: Some(FlightDescriptor::new_cmd(update.as_any().encode_to_vec())),
        ..FlightData::default()
    };
    add("update.upload", alone.encode_length_delimited_to_vec());
    let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
    let lists = [Some(vec![Some(1), None]), None, Some(vec![])];
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
    let columns: [(&str, ArrayRef); 7] = [
        (
            "id",
            Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MIN)])),
        ),
        (
            "x",
            Arc::new(Float64Array::from(vec![-0.0, f64::NAN, f64::INFINITY])),
        ),
        ("word", Arc::new(StringArray::from(vec!["a", "", "def"]))),
        (
            "bytes",
            Arc::new(BinaryArray::from(vec![&b"\0\xff"[..], b"", b"x"])),
        ),
        (
            "view",
            Arc::new(StringViewArray::from(vec![
                "short",
                "longer than twelve bytes",
                "",
            ])),
        ),
        ("coded", Arc::new(words)),
        ("list", Arc::new(lists)),
    ];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    add("ingest.upload", upload(rows.clone()).await);
    add("empty.upload", upload(rows.slice(0, 0)).await);
    files
}

async fn upload(rows: RecordBatch) -> Vec<u8> {
    let command = CommandStatementIngest {
        table: "fuzzed".into(),
        ..CommandStatementIngest::default()
    };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let messages: Vec<FlightData> = FlightDataEncoderBuilder::new()
        .with_flight_descriptor(Some(descriptor))
        .with_schema(rows.schema())
        .build(stream::iter([Ok(rows)]))
        .try_collect()
        .await
        .unwrap();
    let written = messages
        .iter()
        .flat_map(Message::encode_length_delimited_to_vec);
    written.collect()
}

/// Damages bytes a little, in one of the ways in which bytes are damaged.
fn damage(bytes: &mut Vec<u8>, random: &mut StdRng) {
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            bytes.push(random.random());
        }
        let place = random.random_range(0..bytes.len());
        match random.random_range(0..7) {
            0 => bytes[place] = random.random(),
            1 => bytes[place] ^= 1 << random.random_range(0..8),
            2 => bytes.truncate(place),
            3 => bytes.insert(place, random.random()),
            4 => {
                bytes.remove(place);
            }
            5 => {
                let end = random.random_range(place..bytes.len().min(place + 64));
                let again = bytes[place..=end].to_vec();
                bytes.splice(place..place, again);
            }
            _ => {
                // A length that is far too large, or negative.
                let large = [0x7f_ff_ff_ff_u32, 0xff_ff_ff_ff, 0x80_00_00_00, 0, 1 << 20];
                let large = large[random.random_range(0..large.len())].to_le_bytes();
                for (byte, new) in bytes[place..].iter_mut().zip(large) {
                    *byte = new;
                }
            }
        }
    }
}

type Raw = FlightServiceClient<Channel>;

async fn send(client: &mut Raw, kind: &str, name: &str, bytes: &[u8]) -> Result<(), Status> {
    match kind {
        "ticket" => {
            let rows = client.do_get(Ticket::new(bytes.to_vec())).await?;
            rows.into_inner().try_collect::<Vec<_>>().await?;
        }
        "command" => {
            let descriptor = FlightDescriptor::new_cmd(bytes.to_vec());
            client.get_schema(descriptor.clone()).await?;
            client.get_flight_info(descriptor).await?;
        }
        "action" => {
            let action = Action::new(name, bytes.to_vec());
            let answers = client.do_action(action).await?.into_inner();
            answers.try_collect::<Vec<_>>().await?;
        }
        "upload" => {
            let mut messages = Vec::new();
            let mut rest = bytes;
            // What is no message at all ends the upload, as a client that breaks off does.
            while let Ok(message) = FlightData::decode_length_delimited(&mut rest) {
                messages.push(message);
                if rest.is_empty() {
                    break;
                }
            }
            let answers = client.do_put(stream::iter(messages)).await?.into_inner();
            answers.try_collect::<Vec<_>>().await?;
        }
        other => panic!("the corpus has a file of an unknown kind: {other}"),
    }
    Ok(())
}

/// Sends a message; the sender is to blame for whatever is wrong.
async fn blamed(client: &mut Raw, file: &str, what: &str, bytes: &[u8]) -> bool {
    let (name, kind) = file.rsplit_once('.').unwrap();
    let sent = tokio::time::timeout(PATIENCE, send(client, kind, name, bytes)).await;
    let Ok(sent) = sent else {
        panic!("{what} of {file} was not answered in {PATIENCE:?}: {bytes:02x?}");
    };
    let Err(status) = sent else { return false };
    let is_fault_of_sender = matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::Unimplemented
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::ResourceExhausted
    );
    assert!(
        is_fault_of_sender,
        "{what} of {file}: {status}; the bytes are {bytes:02x?}"
    );
    true
}

async fn files() -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(corpus()).unwrap().map(Result::unwrap);
    let read = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (
            name,
            bytes_of(&std::fs::read_to_string(entry.path()).unwrap()),
        )
    };
    entries.map(read).collect()
}

async fn unharmed(server: &Running) {
    let client = &mut server.client().await;
    assert_eq!(answer(client, "SELECT 1").await, ["1"]);
    for table in server.session.tables().await.unwrap() {
        if table.schema == "public" {
            let name = table.name.replace('"', "\"\"");
            answer(client, &format!("DROP TABLE \"{name}\"")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_corpus_holds_what_clients_send() {
    let made = well_behaved().await;
    if std::env::var_os("TIDEGATE_FUZZ_UPDATE").is_some() {
        std::fs::create_dir_all(corpus()).unwrap();
        for (name, bytes) in &made {
            std::fs::write(corpus().join(name), digits(bytes)).unwrap();
        }
    }
    let kept = files().await;
    for (name, bytes) in &made {
        assert!(
            kept.get(name) == Some(bytes),
            "{name}: run with TIDEGATE_FUZZ_UPDATE=1"
        );
    }
    let server = start().await;
    let client = &mut Raw::new(server.channel().await);
    for name in [
        "query.command",
        "tables.ticket",
        "ingest.upload",
        "update.upload",
    ] {
        assert!(
            !blamed(client, name, "the original", &kept[name]).await,
            "{name} is refused"
        );
    }
    let rows = answer(
        &mut server.client().await,
        "SELECT id, word, coded FROM fuzzed",
    )
    .await;
    assert_eq!(rows, ["1|a|a", "||b", "-9223372036854775808|def|a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_messages_are_their_senders_fault() {
    let (rounds, seed) = (
        number("TIDEGATE_FUZZ_ROUNDS", 60),
        number("TIDEGATE_FUZZ_SEED", 1),
    );
    let server = start().await;
    let memory = Arc::clone(&server.session.context().runtime_env().memory_pool);
    let client = &mut Raw::new(server.channel().await);
    let mut num_blamed = 0;
    for (file, bytes) in files().await {
        blamed(client, &file, "the original", &bytes).await;
        for round in 0..rounds {
            let mut random =
                StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(round));
            let mut damaged = bytes.clone();
            damage(&mut damaged, &mut random);
            let what = format!("seed {seed}, round {round}");
            num_blamed += u64::from(blamed(client, &file, &what, &damaged).await);
        }
        unharmed(&server).await;
    }
    assert!(num_blamed > rounds, "only {num_blamed} messages were wrong");
    drop(std::mem::replace(client, Raw::new(server.channel().await)));
    eventually("the sessions end", async || {
        server.watch.num_sessions() == 0
    })
    .await;
    eventually("the memory is back", async || memory.reserved() == 0).await;
}
