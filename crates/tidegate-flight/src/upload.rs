//! Rows from clients, read with distrust.
//!
//! What a message claims is compared with its body, as it is for files, and Arrow's reader checks every
//! buffer against its column. Beside that: a message that makes it panic
//! is a message that is wrong; compressed buffers are refused, since their writer chooses how much
//! memory reading them takes; and a client that sends nothing for too long is given up.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::error::FlightError;
use futures::{FutureExt, Stream, StreamExt, future};
use tidegate::files::ipc::{Compressed, Flaw, check_message};
use tonic::Status;

use crate::status::invalid;

/// A client's batches, in the order in which they come.
pub(crate) struct Upload {
    decoder: FlightDataDecoder,
    schema: Option<SchemaRef>,
    patience: Duration,
}

impl Upload {
    /// Reads batches from messages.
    pub(crate) fn new(
        messages: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
        patience: Duration,
    ) -> Self {
        // Some clients send their command alone, in a message without rows.
        let with_rows = messages.filter(|message| {
            let is_blank = matches!(message, Ok(data) if data.data_header.is_empty());
            future::ready(!is_blank)
        });
        let checked = with_rows.map(|message| {
            let message = message.and_then(|data| check(&data).map(|()| data));
            message.map_err(|status| FlightError::Tonic(Box::new(status)))
        });
        Self {
            decoder: FlightDataDecoder::new(checked),
            schema: None,
            patience,
        }
    }

    /// Returns the columns; `None` if the client sent none.
    pub(crate) async fn schema(&mut self) -> Result<Option<SchemaRef>, Status> {
        match self.next_payload().await? {
            None => Ok(None),
            Some(DecodedPayload::Schema(schema)) => {
                self.schema = Some(SchemaRef::clone(&schema));
                Ok(Some(schema))
            }
            Some(_) => Err(Status::invalid_argument(
                "the first message has rows: their schema must come first",
            )),
        }
    }

    /// Returns the next batch.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Status> {
        loop {
            match self.next_payload().await? {
                None => return Ok(None),
                Some(DecodedPayload::None) => {}
                Some(DecodedPayload::RecordBatch(batch)) => return Ok(Some(batch)),
                Some(DecodedPayload::Schema(schema)) if Some(&schema) == self.schema.as_ref() => {}
                Some(DecodedPayload::Schema(_)) => {
                    return Err(Status::invalid_argument(
                        "the columns change in the middle of the rows",
                    ));
                }
            }
        }
    }

    async fn next_payload(&mut self) -> Result<Option<DecodedPayload>, Status> {
        let next = AssertUnwindSafe(self.decoder.next()).catch_unwind();
        let Ok(caught) = tokio::time::timeout(self.patience, next).await else {
            return Err(nothing_came(self.patience));
        };
        match caught {
            Err(_) => Err(Status::invalid_argument(
                "the rows are not Arrow IPC: a buffer does not fit its column",
            )),
            Ok(None) => {
                // A client that broke off reads like one that has finished. The transport drops its
                // call as soon as it has a moment: give it one before anything is made of the rows.
                tokio::task::yield_now().await;
                Ok(None)
            }
            Ok(Some(Ok(data))) => Ok(Some(data.payload)),
            Ok(Some(Err(FlightError::Tonic(status)))) => Err(*status),
            Ok(Some(Err(error))) => Err(invalid("the rows are not Arrow IPC", &error)),
        }
    }
}

/// Says that a client has sent nothing for too long.
pub(crate) fn nothing_came(patience: Duration) -> Status {
    Status::deadline_exceeded(format!(
        "nothing was sent for {} s: send sooner, or raise --unread-timeout",
        patience.as_secs_f64()
    ))
}

/// Refuses what reading would trust too much.
fn check(data: &FlightData) -> Result<(), Status> {
    let checked = check_message(&data.data_header, &data.data_body, Compressed::Refused);
    match checked {
        Ok(_) => Ok(()),
        Err(Flaw::Damaged(why)) => Err(Status::invalid_argument(why)),
        Err(Flaw::Compressed | Flaw::Expands(_)) => Err(Status::unimplemented(
            "compressed rows are not supported by this server: send them as they are",
        )),
    }
}
