//! Rows from clients become tables.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
};
use futures::{StreamExt, stream};
use tonic::Code;

use crate::support::{Client, answer, start, status_of};

fn command(
    table: &str,
    missing: TableNotExistOption,
    exists: TableExistsOption,
) -> CommandStatementIngest {
    CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions {
            if_not_exist: missing as i32,
            if_exists: exists as i32,
        }),
        table: table.into(),
        schema: None,
        catalog: None,
        temporary: false,
        transaction_id: None,
        options: Default::default(),
    }
}

fn rows(from: i64, num_rows: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + num_rows));
    let words = (from..from + num_rows).map(|id| (id % 3 != 0).then(|| format!("w{id}")));
    let words: ArrayRef = Arc::new(words.collect::<StringArray>());
    RecordBatch::try_from_iter_with_nullable([("Id", ids, true), ("word", words, true)]).unwrap()
}

async fn ingest(
    client: &mut Client,
    command: CommandStatementIngest,
    batches: Vec<RecordBatch>,
) -> Result<i64, FlightError> {
    client
        .execute_ingest(command, stream::iter(batches.into_iter().map(Ok)))
        .await
}

const CREATE: TableNotExistOption = TableNotExistOption::Create;
const FAIL: TableExistsOption = TableExistsOption::Fail;

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_created_appended_to_and_replaced() {
    let server = start().await;
    let client = &mut server.client().await;
    let create = || command("T", CREATE, FAIL);
    let batches = vec![rows(0, 1_000), rows(1_000, 500)];
    assert_eq!(ingest(client, create(), batches).await.unwrap(), 1_500);
    let count = "SELECT count(*), count(word), sum(\"Id\") FROM \"T\"";
    assert_eq!(answer(client, count).await, ["1500|1000|1124250"]);
    let error = status_of(
        ingest(client, create(), vec![rows(0, 1)])
            .await
            .unwrap_err(),
    );
    assert_eq!(error.code(), Code::AlreadyExists);
    assert!(error.message().contains("already exists"), "{error}");
    let append = || command("T", TableNotExistOption::Fail, TableExistsOption::Append);
    assert_eq!(
        ingest(client, append(), vec![rows(0, 10)]).await.unwrap(),
        10
    );
    assert_eq!(answer(client, "SELECT count(*) FROM \"T\"").await, ["1510"]);
    let replace = command("T", CREATE, TableExistsOption::Replace);
    assert_eq!(ingest(client, replace, vec![rows(7, 1)]).await.unwrap(), 1);
    assert_eq!(answer(client, "SELECT * FROM \"T\"").await, ["7|w7"]);
    let missing = command(
        "nowhere",
        TableNotExistOption::Fail,
        TableExistsOption::Append,
    );
    let error = status_of(ingest(client, missing, vec![rows(0, 1)]).await.unwrap_err());
    assert!(error.message().contains("does not exist"), "{error}");
    // Statements change it as any table.
    assert_eq!(
        client
            .execute_update("INSERT INTO \"T\" VALUES (8, 'x')".into(), None)
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        client
            .execute_update("DELETE FROM \"T\" WHERE \"Id\" = 7".into(), None)
            .await
            .unwrap(),
        1
    );
    assert_eq!(answer(client, "SELECT * FROM \"T\"").await, ["8|x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_appended_by_the_names_of_their_columns() {
    let server = start().await;
    let client = &mut server.client().await;
    answer(client, "CREATE TABLE a(word TEXT, \"Id\" INT, more DOUBLE)").await;
    let append = || command("a", TableNotExistOption::Fail, TableExistsOption::Append);
    assert_eq!(ingest(client, append(), vec![rows(1, 1)]).await.unwrap(), 1);
    assert_eq!(answer(client, "SELECT * FROM a").await, ["w1|1|"]);
    let other: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let other = RecordBatch::try_from_iter([("other", other)]).unwrap();
    let error = status_of(ingest(client, append(), vec![other]).await.unwrap_err());
    assert!(error.message().contains("no column 'other'"), "{error}");
    assert_eq!(answer(client, "SELECT count(*) FROM a").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_table_is_the_sessions_own() {
    let server = start().await;
    let (client, other) = (&mut server.client().await, &mut server.client().await);
    let temporary = CommandStatementIngest {
        temporary: true,
        ..command("mine", CREATE, FAIL)
    };
    ingest(client, temporary, vec![rows(1, 2)]).await.unwrap();
    assert_eq!(
        answer(client, "SELECT count(*) FROM temp.mine").await,
        ["2"]
    );
    assert!(
        crate::support::query(other, "SELECT * FROM temp.mine")
            .await
            .is_err()
    );
    let elsewhere = CommandStatementIngest {
        schema: Some("nowhere".into()),
        ..command("t", CREATE, FAIL)
    };
    let error = status_of(
        ingest(client, elsewhere, vec![rows(1, 1)])
            .await
            .unwrap_err(),
    );
    assert!(
        error.message().contains("no schema 'datafusion.nowhere'"),
        "{error}"
    );
    let transaction = CommandStatementIngest {
        transaction_id: Some("t".into()),
        ..command("t", CREATE, FAIL)
    };
    let error = status_of(
        ingest(client, transaction, vec![rows(1, 1)])
            .await
            .unwrap_err(),
    );
    assert_eq!(error.code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_off_or_does_not_fit_leaves_nothing() {
    let server = start().await;
    let client = &mut server.client().await;
    let first = stream::iter([Ok(rows(0, 10))]);
    let unfinished = first.chain(stream::pending());
    let create = command("half", CREATE, FAIL);
    let sent = client.execute_ingest(create, unfinished);
    let left = tokio::time::timeout(Duration::from_millis(300), sent).await;
    assert!(left.is_err());
    assert!(
        crate::support::query(client, "SELECT * FROM half")
            .await
            .is_err()
    );
    let pool = Arc::clone(&server.session.context().runtime_env().memory_pool);
    let wide: ArrayRef = Arc::new(Int64Array::from(vec![0; 2 << 20]));
    let wide = RecordBatch::try_from_iter([("a", wide)]).unwrap();
    let create = command("large", CREATE, FAIL);
    let error = ingest(client, create, vec![wide; 40]).await.unwrap_err();
    let error = status_of(error);
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    crate::support::eventually("the memory is back", async || pool.reserved() == 0).await;
    assert!(
        crate::support::query(client, "SELECT * FROM large")
            .await
            .is_err()
    );
}
