//! Statements, prepared statements and updates.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt};
use arrow_flight::{FlightDescriptor, IpcMessage};
use prost::Message;
use tonic::Code;

use crate::support::{
    BOTTOMLESS, answer, eventually, failure, fetch, lines, query, start, status_of,
};

fn row(columns: Vec<ArrayRef>) -> RecordBatch {
    let named = columns.into_iter().enumerate();
    RecordBatch::try_from_iter(named.map(|(index, column)| (index.to_string(), column))).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_gives_rows_under_the_columns_it_told() {
    let server = start().await;
    let client = &mut server.client().await;
    assert_eq!(answer(client, "SELECT 1 AS a, 'x' AS b").await, ["1|x"]);
    // Logical and physical plans differ in nullability here.
    let sql = "SELECT count(*) AS n, sum(value) AS s FROM generate_series(1, 10)";
    assert_eq!(answer(client, sql).await, ["10|55"]);
    assert_eq!(
        answer(client, "SELECT arrow_cast('v', 'Utf8View') AS v").await,
        ["v"]
    );
    // Nor do they have one type before types are coerced.
    let coerced = "SELECT CASE WHEN value > 1 THEN value ELSE 0.5 END FROM generate_series(1, 2)";
    assert_eq!(answer(client, coerced).await, ["0.5", "2.0"]);
    let dictionary = "SELECT arrow_cast('d', 'Dictionary(Int32, Utf8)') AS d";
    assert_eq!(answer(client, dictionary).await, ["d"]);
    assert_eq!(
        answer(client, "SELECT make_array(1, 2) AS l").await,
        ["[1, 2]"]
    );
    assert!(answer(client, "SELECT 1 AS a WHERE false").await.is_empty());
    let many = query(client, "SELECT value FROM generate_series(1, 1000000)")
        .await
        .unwrap();
    assert_eq!(
        many.iter().map(RecordBatch::num_rows).sum::<usize>(),
        1_000_000
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_done_when_their_info_comes() {
    let server = start().await;
    let client = &mut server.client().await;
    let info = client
        .execute("CREATE TABLE t AS VALUES (1), (2)".into(), None)
        .await
        .unwrap();
    assert_eq!(answer(client, "SELECT count(*) FROM t").await, ["2"]);
    assert!(fetch(client, info).await.unwrap().is_empty());
    assert_eq!(answer(client, "SELECT count(*) FROM t").await, ["2"]);
    assert_eq!(answer(client, "INSERT INTO t VALUES (3)").await, ["1"]);
    // The rows that it returns are there when its info comes, and once.
    let returned = "INSERT INTO t VALUES (4) RETURNING column1 + 1 AS more";
    assert_eq!(answer(client, returned).await, ["5"]);
    let deleted = "DELETE FROM t WHERE column1 = 4 RETURNING column1";
    assert_eq!(answer(client, deleted).await, ["4"]);
    assert!(
        answer(client, "SET datafusion.execution.time_zone = '+02:00'")
            .await
            .is_empty()
    );
    assert!(
        answer(client, "SHOW TABLES")
            .await
            .iter()
            .any(|line| line.contains("|t|"))
    );
    assert!(!answer(client, "EXPLAIN SELECT * FROM t").await.is_empty());
    // Another client sees the table, and has settings of its own.
    let other = &mut server.client().await;
    assert_eq!(answer(other, "SELECT count(*) FROM t").await, ["3"]);
    let zone = "SELECT value FROM system.settings WHERE name = 'datafusion.execution.time_zone'";
    assert_eq!(answer(client, zone).await, ["+02:00"]);
    assert_ne!(answer(other, zone).await, ["+02:00"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_tell_how_many_rows_changed() {
    let server = start().await;
    let client = &mut server.client().await;
    let update = async |sql: &str| server.client().await.execute_update(sql.into(), None).await;
    // What is no change of rows does not count them.
    for sql in [
        "CREATE TABLE u(a BIGINT, b TEXT)",
        "SET tidegate.float_sums = 'any'",
    ] {
        assert_eq!(update(sql).await.unwrap(), -1, "{sql}");
    }
    assert_eq!(
        update("INSERT INTO u VALUES (1, 'x'), (2, 'y')")
            .await
            .unwrap(),
        2
    );
    assert_eq!(update("DELETE FROM u WHERE a = 1").await.unwrap(), 1);
    assert_eq!(answer(client, "SELECT * FROM u").await, ["2|y"]);
    assert_eq!(update("SELECT 1").await.unwrap(), -1);
    assert_eq!(update("DELETE FROM u WHERE a = 1").await.unwrap(), 0);
    assert_eq!(update("DROP TABLE u").await.unwrap(), -1);
    let error = status_of(update("INSERT INTO nowhere VALUES (1)").await.unwrap_err());
    assert_eq!(error.code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_bound_by_their_place() {
    let server = start().await;
    let client = &mut server.client().await;
    for sql in [
        "SELECT value FROM generate_series(1, 10) WHERE value > $1 AND value < $2 ORDER BY value",
        "SELECT value FROM generate_series(1, 10) WHERE value > ? AND value < ? ORDER BY value",
    ] {
        let mut prepared = client.prepare(sql.into(), None).await.unwrap();
        let parameters = prepared.parameter_schema().unwrap();
        let kinds: Vec<_> = parameters
            .fields()
            .iter()
            .map(|field| field.data_type())
            .collect();
        assert_eq!(kinds, [&DataType::Int64, &DataType::Int64]);
        assert_eq!(prepared.dataset_schema().unwrap().fields().len(), 1);
        // An unbound parameter is an error, and no answer.
        let info = prepared.execute().await.unwrap();
        let error = status_of(fetch(client, info).await.unwrap_err());
        assert!(error.message().contains("$1 has no value"), "{error}");
        for (above, below, expect) in [(3, 6, vec!["4", "5"]), (8, 20, vec!["9", "10"])] {
            let values: [ArrayRef; 2] = [
                Arc::new(Int64Array::from(vec![above])),
                // A value of another type is cast.
                Arc::new(StringArray::from(vec![below.to_string()])),
            ];
            prepared.set_parameters(row(values.to_vec())).unwrap();
            let info = prepared.execute().await.unwrap();
            assert_eq!(lines(&fetch(client, info).await.unwrap()), expect);
        }
        // Each row of parameters gives its rows.
        let low: ArrayRef = Arc::new(Int64Array::from(vec![0, 4, 9]));
        let high: ArrayRef = Arc::new(Int64Array::from(vec![2, 6, 9]));
        prepared.set_parameters(row(vec![low, high])).unwrap();
        let info = prepared.execute().await.unwrap();
        assert_eq!(lines(&fetch(client, info).await.unwrap()), ["1", "5"]);
        // One that the parameter's type does not have is an error, and not NULL.
        let high: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let low: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        prepared.set_parameters(row(vec![low, high])).unwrap();
        let info = prepared.execute().await;
        let error = match info {
            Ok(info) => status_of(fetch(client, info).await.unwrap_err()),
            Err(error) => status_of(error),
        };
        assert!(error.message().contains("$2 must be Int64"), "{error}");
        let one: ArrayRef = Arc::new(Int64Array::from(vec![0]));
        prepared.set_parameters(row(vec![one])).unwrap();
        let error = status_of(prepared.execute().await.unwrap_err());
        assert!(
            error.message().contains("2 parameters, and 1 values"),
            "{error}"
        );
        prepared.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_without_a_type_take_that_of_the_value() {
    let server = start().await;
    let client = &mut server.client().await;
    let mut prepared = client
        .prepare("SELECT $1 AS v, $2 AS w".into(), None)
        .await
        .unwrap();
    assert_eq!(
        prepared.parameter_schema().unwrap().field(0).data_type(),
        &DataType::Null
    );
    let number: ArrayRef = Arc::new(Float64Array::from(vec![1.5]));
    let nothing: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    prepared.set_parameters(row(vec![number, nothing])).unwrap();
    let info = prepared.execute().await.unwrap();
    let batches = fetch(client, info).await.unwrap();
    assert_eq!(lines(&batches), ["1.5|"]);
    assert_eq!(batches[0].schema().field(0).data_type(), &DataType::Float64);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_runs_once_for_each_row_of_parameters() {
    let server = start().await;
    let client = &mut server.client().await;
    answer(client, "CREATE TABLE p(a BIGINT, b TEXT)").await;
    let mut insert = client
        .prepare("INSERT INTO p VALUES (?, ?)".into(), None)
        .await
        .unwrap();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    let words: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), Some("y"), None]));
    insert.set_parameters(row(vec![numbers, words])).unwrap();
    assert_eq!(insert.execute_update().await.unwrap(), 3);
    assert_eq!(
        answer(client, "SELECT * FROM p ORDER BY a").await,
        ["1|x", "3|", "|y"]
    );
    // The statement is planned again when the table is another one.
    answer(client, "DROP TABLE p").await;
    assert!(insert.execute_update().await.is_err());
    answer(client, "CREATE TABLE p(a BIGINT, b TEXT)").await;
    assert_eq!(insert.execute_update().await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_can_be_asked_for_alone() {
    let server = start().await;
    let command = CommandStatementQuery {
        query: "SELECT 1 AS a".into(),
        transaction_id: None,
    };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let client = &mut server.client().await;
    let result = client
        .inner_mut()
        .get_schema(descriptor.clone())
        .await
        .unwrap();
    let schema =
        arrow::datatypes::Schema::try_from(IpcMessage(result.into_inner().schema)).unwrap();
    assert_eq!(schema.field(0).name(), "a");
    let polled = client
        .inner_mut()
        .poll_flight_info(descriptor)
        .await
        .unwrap()
        .into_inner();
    let rows = fetch(client, polled.info.unwrap()).await.unwrap();
    assert_eq!(lines(&rows), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_who_must_act() {
    let server = start().await;
    let client = &mut server.client().await;
    for (sql, code, words) in [
        ("SELEC 1", Code::InvalidArgument, "syntax error"),
        (
            "SELECT nmae FROM (SELECT 1 AS name)",
            Code::InvalidArgument,
            "column 'nmae' not found\n  1 | SELECT nmae FROM (SELECT 1 AS name)\n    |        ^^^^\nhelp: did \
             you mean name?",
        ),
        ("SELECT * FROM nowhere", Code::NotFound, "nowhere"),
        ("DROP TABLE nowhere", Code::NotFound, "nowhere"),
        (
            "CREATE TABLE system.settings (a INT)",
            Code::AlreadyExists,
            "settings",
        ),
        ("SELECT 1 / 0", Code::InvalidArgument, "zero"),
        (
            "CACHE TABLE system.settings ON HOST",
            Code::Unimplemented,
            "cannot be cached",
        ),
        ("KILL QUERY 4711", Code::InvalidArgument, "4711"),
        ("SELECT $1", Code::InvalidArgument, "no value"),
        ("SELECT ?, $1", Code::InvalidArgument, "not both"),
    ] {
        let (found, message) = failure(client, sql).await;
        assert_eq!(found, code, "{sql}: {message}");
        assert!(message.contains(words), "{sql}: {message}");
    }
    let deep = format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(failure(client, &deep).await.0, Code::InvalidArgument);
    let long = format!("SELECT '{}'", "x".repeat(2 << 20));
    let (code, message) = failure(client, &long).await;
    assert_eq!(code, Code::ResourceExhausted);
    assert!(message.contains("the limit is"), "{message}");
    let error = client
        .execute("SELECT 1".into(), Some("t".into()))
        .await
        .unwrap_err();
    assert_eq!(status_of(error).code(), Code::Unimplemented);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_made_as_they_are_read() {
    let server = start().await;
    let client = &mut server.client().await;
    let info = client.execute(BOTTOMLESS.into(), None).await.unwrap();
    let mut rows = client
        .do_get(info.endpoint[0].ticket.clone().unwrap())
        .await
        .unwrap();
    let first = futures::TryStreamExt::try_next(&mut rows)
        .await
        .unwrap()
        .unwrap();
    assert!(first.num_rows() > 0);
    // More of them are made than were read, and no more after a while, though they have no end.
    let made = || server.session.reports().last().unwrap().rows;
    let (mut last, mut num_equal) = (0, 0);
    eventually("no more rows are made", async || {
        let now = made();
        num_equal = if now == last { num_equal + 1 } else { 0 };
        last = now;
        num_equal == 10
    })
    .await;
    assert!(
        last < 50_000_000,
        "{last} rows were made for one batch that was read"
    );
    // They go on with their reader.
    while made() == last {
        let next = futures::TryStreamExt::try_next(&mut rows).await;
        assert!(next.unwrap().unwrap().num_rows() > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_follows_its_tables_and_settings() {
    let server = start().await;
    let client = &mut server.client().await;
    answer(client, "CREATE TABLE t AS VALUES (1)").await;
    answer(client, "CREATE VIEW v AS SELECT column1 AS a FROM t").await;
    let of_table = "SELECT * FROM t ORDER BY 1".to_string();
    let mut of_table = client.prepare(of_table, None).await.unwrap();
    let of_view = "SELECT a FROM v ORDER BY 1".to_string();
    let mut of_view = client.prepare(of_view, None).await.unwrap();
    // Whoever changes a table may be somebody else.
    let other = &mut server.client().await;
    for (change, expect) in [
        ("SELECT 1", ["1", "1"]),
        ("INSERT INTO t VALUES (2)", ["1 2", "1 2"]),
        (
            "CREATE OR REPLACE TABLE t AS VALUES ('x', 'y')",
            ["x|y", "x"],
        ),
        ("CREATE OR REPLACE VIEW v AS SELECT 7 AS a", ["x|y", "7"]),
    ] {
        answer(other, change).await;
        for (prepared, expect) in [&mut of_table, &mut of_view].into_iter().zip(expect) {
            for _ in 0..2 {
                let info = prepared.execute().await.unwrap();
                let rows = fetch(client, info).await.unwrap();
                assert_eq!(lines(&rows).join(" "), expect, "{change}");
            }
        }
    }
    // A client's own table stands before everyone's.
    answer(client, "CREATE TEMP TABLE t AS VALUES ('own')").await;
    let info = of_table.execute().await.unwrap();
    assert_eq!(lines(&fetch(client, info).await.unwrap()), ["own"]);
    assert_eq!(answer(other, "SELECT * FROM t").await, ["x|y"]);
    answer(client, "DROP TABLE t").await;
    let info = of_table.execute().await.unwrap();
    assert_eq!(lines(&fetch(client, info).await.unwrap()), ["x|y"]);
    answer(client, "CREATE TABLE temp.t AS VALUES ('own')").await;
    answer(client, "SET datafusion.catalog.default_schema = 'temp'").await;
    let info = of_table.execute().await.unwrap();
    assert_eq!(lines(&fetch(client, info).await.unwrap()), ["own"]);
    answer(client, "DROP TABLE temp.t").await;
    answer(client, "RESET datafusion.catalog.default_schema").await;
    answer(other, "DROP TABLE t").await;
    let error = of_table.execute().await.unwrap_err().to_string();
    assert!(error.contains("t' not found"), "{error}");
}
