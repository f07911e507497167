//! The rows of a statement that runs elsewhere.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_flight::FlightInfo;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tidegate::Error;

use super::{Client, Failure};

/// The rows of one statement, as they come. Dropping them stops the statement.
pub struct RemoteRows {
    schema: SchemaRef,
    batches: BoxStream<'static, Result<RecordBatch, Failure>>,
}

impl fmt::Debug for RemoteRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRows")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

impl RemoteRows {
    /// Fetches a result's parts one after the other; they lie where the statement was asked for.
    pub(super) async fn fetch(
        client: Client,
        schema: Option<Schema>,
        info: FlightInfo,
    ) -> Result<Self, Failure> {
        let mut tickets = info.endpoint.into_iter().map(|part| part.ticket);
        let mut first = client.clone();
        let (schema, first) = match (schema, tickets.next()) {
            (Some(schema), None) => (Arc::new(schema), stream::empty().boxed()),
            (None, None) => (Arc::new(Schema::empty()), stream::empty().boxed()),
            (_, Some(None)) => {
                return Err(Failure::unreadable(
                    "an endpoint of the result has no ticket",
                ));
            }
            (Some(schema), Some(Some(ticket))) => {
                let rows = async move { first.do_get(ticket).await };
                (Arc::new(schema), stream::once(rows).try_flatten().boxed())
            }
            // The columns come with the first message.
            (None, Some(Some(ticket))) => {
                let mut rows = first.do_get(ticket).await.map_err(Failure::from)?;
                let batch = rows.try_next().await.map_err(Failure::from)?;
                let schema = rows.schema().cloned();
                let schema = schema.unwrap_or_else(|| Arc::new(Schema::empty()));
                let batch = stream::iter(batch.map(Ok));
                (schema, batch.chain(rows).boxed())
            }
        };
        let others = stream::iter(tickets).then(move |ticket| {
            let mut client = client.clone();
            async move {
                match ticket {
                    Some(ticket) => client.do_get(ticket).await.map_err(Failure::from),
                    None => Err(Failure::unreadable(
                        "an endpoint of the result has no ticket",
                    )),
                }
            }
        });
        let others = others
            .map_ok(|rows| rows.map_err(Failure::from))
            .try_flatten();
        Ok(Self {
            schema,
            batches: first.map_err(Failure::from).chain(others).boxed(),
        })
    }

    /// Has other rows, of the same columns, take the place of these if the connection is lost before the
    /// first batch.
    pub(super) fn or_again<F>(self, again: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Self, Failure>> + Send + 'static,
    {
        let Self {
            schema,
            mut batches,
        } = self;
        let same = Arc::clone(&schema);
        let rows = async move {
            match batches.next().await {
                Some(Err(Failure::Gone(_))) => {}
                first => return Ok(stream::iter(first).chain(batches).boxed()),
            }
            let again = again().await?;
            match again.schema == same {
                true => Ok(again.batches),
                false => Err(Failure::unreadable(
                    "after the connection was lost, the statement has other columns on the next server",
                )),
            }
        };
        Self {
            schema,
            batches: stream::once(rows).try_flatten().boxed(),
        }
    }

    /// Does something when the last row is there.
    pub(super) fn followed_by(self, work: impl Future<Output = ()> + Send + 'static) -> Self {
        let end = stream::once(work).filter_map(|()| async { None });
        Self {
            batches: self.batches.chain(end).boxed(),
            ..self
        }
    }

    /// Returns the columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Stream for RemoteRows {
    type Item = Result<RecordBatch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = self.batches.as_mut().poll_next(ctx);
        batch.map_err(Error::from)
    }
}

/// Runs a statement whose rows nobody wants.
pub(super) async fn run_to_end(mut client: Client, sql: &str) -> Result<(), Error> {
    let info = client.execute(sql.to_string(), None).await;
    let info = info.map_err(Failure::from)?;
    let rows = RemoteRows::fetch(client, None, info).await?;
    rows.try_for_each(|_| async { Ok(()) }).await
}
