//! What runs statements: a session of this process, or one of a server.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryStreamExt};
use tidegate::{Error, Names, QueryProgress, Session, TableNames};
use tidegate_flight::RemoteSession;
use tidegate_flight::client::COMPLETION;

use crate::render::HasSchema;

/// The schema whose tables need no name before theirs, on a server.
const DEFAULT_SCHEMA: &str = "public";

/// The option of readers that leaves rows out.
const IGNORES: &str = "ignore_errors";

/// What runs statements.
pub(crate) trait Engine: fmt::Debug + Send + Sync {
    /// Runs one statement; dropping the future or the rows stops it.
    fn execute<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Rows, Error>>;

    /// Lists the names that statements can use; what cannot be looked up is left out.
    fn names(&self) -> BoxFuture<'_, Names>;

    /// Returns the number of the query that ended last; `None` if that is not known here.
    fn last_query(&self) -> Option<u64>;

    /// Tells of the query that ended last; `None` if that is not known here.
    fn last_told(&self) -> Option<Told>;

    /// Tells of rows that a statement left out of files, if only another statement can tell.
    fn left_out<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Option<String>>;

    /// Tells how far the query has come that runs; `None` if that is not known.
    fn progress(&self) -> BoxFuture<'_, Option<QueryProgress>>;

    /// Tells whether statements write files of this machine.
    fn writes_here(&self) -> bool;

    /// Ends what the engine has elsewhere.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What there is to tell of a query beside its rows.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// Its number.
    pub(crate) id: u64,
    /// Where it ran, and why.
    pub(crate) placement: String,
    /// Rows that it left out of files, and what was wrong with one of them.
    pub(crate) left_out: Option<String>,
}

/// The rows of a statement as they come.
pub(crate) struct Rows {
    schema: SchemaRef,
    batches: BoxStream<'static, Result<RecordBatch, Error>>,
}

impl HasSchema for Rows {
    fn schema_ref(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }
}

impl Stream for Rows {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.as_mut().poll_next(ctx)
    }
}

impl Engine for Session {
    fn execute<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Rows, Error>> {
        async move {
            let stream = Session::execute(self, sql).await?;
            Ok(Rows {
                schema: stream.schema(),
                batches: stream.map_err(Error::from).boxed(),
            })
        }
        .boxed()
    }

    fn names(&self) -> BoxFuture<'_, Names> {
        Session::names(self).boxed()
    }

    fn last_query(&self) -> Option<u64> {
        self.last_report().map(|report| report.id)
    }

    fn last_told(&self) -> Option<Told> {
        let report = self.last_report()?;
        Some(Told {
            id: report.id,
            placement: report.to_string(),
            left_out: report.note.filter(|_| report.rows_left_out > 0),
        })
    }

    fn left_out<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<String>> {
        futures::future::ready(None).boxed()
    }

    fn progress(&self) -> BoxFuture<'_, Option<QueryProgress>> {
        futures::future::ready(Session::progress(self)).boxed()
    }

    fn writes_here(&self) -> bool {
        true
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        futures::future::ready(()).boxed()
    }
}

impl Engine for RemoteSession {
    fn execute<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Result<Rows, Error>> {
        async move {
            let rows = RemoteSession::execute(self, sql).await?;
            Ok(Rows {
                schema: rows.schema(),
                batches: rows.boxed(),
            })
        }
        .boxed()
    }

    fn names(&self) -> BoxFuture<'_, Names> {
        async move {
            let mut names = Names::default();
            let columns = "SELECT table_schema, table_name, column_name FROM \
                           information_schema.columns ORDER BY 1, 2, ordinal_position";
            for [schema, table, column] in texts(self, columns).await {
                let schema = match schema.as_str() {
                    DEFAULT_SCHEMA => String::new(),
                    _ => schema,
                };
                match names.tables.last_mut() {
                    Some(last) if last.schema == schema && last.table == table => {
                        last.columns.push(column);
                    }
                    _ => names.tables.push(TableNames {
                        schema,
                        table,
                        columns: vec![column],
                    }),
                }
            }
            let functions =
                "SELECT DISTINCT routine_name FROM information_schema.routines ORDER BY 1";
            let functions = texts(self, functions).await;
            names.functions = functions.into_iter().map(|[name]| name).collect();
            let settings = "SELECT name FROM information_schema.df_settings ORDER BY 1";
            let settings = texts(self, settings).await;
            names.settings = settings.into_iter().map(|[name]| name).collect();
            names
        }
        .boxed()
    }

    fn last_query(&self) -> Option<u64> {
        None
    }

    /// A server tells it in `system.placements` and `system.queries`.
    fn last_told(&self) -> Option<Told> {
        None
    }

    /// Only a statement that names the option can have left rows out; others need no second trip.
    fn left_out<'a>(&'a self, sql: &'a str) -> BoxFuture<'a, Option<String>> {
        async move {
            if !sql.to_lowercase().contains(IGNORES) {
                return None;
            }
            let note = format!(
                "SELECT note FROM system.queries WHERE sql = '{}' AND note LIKE '%{IGNORES} left out%' \
                 ORDER BY query_id DESC LIMIT 1",
                sql.replace('\'', "''")
            );
            let notes = texts(self, &note).await;
            notes.into_iter().next().map(|[note]| note)
        }
        .boxed()
    }

    fn progress(&self) -> BoxFuture<'_, Option<QueryProgress>> {
        RemoteSession::progress(self).boxed()
    }

    fn writes_here(&self) -> bool {
        false
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        RemoteSession::close(self).boxed()
    }
}

/// Returns the rows of a query whose columns are texts; none if it fails.
async fn texts<const N: usize>(session: &RemoteSession, sql: &str) -> Vec<[String; N]> {
    let Ok(rows) = session.execute(&format!("{COMPLETION}{sql}")).await else {
        return Vec::new();
    };
    let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap_or_default();
    let mut texts = Vec::new();
    for batch in &batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .filter_map(|column| column.as_string_opt::<i32>())
            .collect();
        let Ok(columns) = <[_; N]>::try_from(columns) else {
            return Vec::new();
        };
        let row = |row| columns.map(|column| column.value(row).to_string());
        texts.extend((0..batch.num_rows()).map(row));
    }
    texts
}
