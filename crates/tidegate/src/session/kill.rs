//! `KILL QUERY id`: stops a running query of the session's user, or anyone's for an admin.

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::dataframe::DataFrame;

use super::Session;
use crate::clients::Client;
use crate::error::Error;
use crate::query::History;

/// Returns the columns of the answer.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("query_id", DataType::UInt64, true),
        Field::new("state", DataType::Utf8, true),
    ]))
}

/// Tells a query to stop; it does so at its next batch.
pub(super) fn run(session: &Session, id: u64) -> Result<DataFrame, Error> {
    let config = session.ctx.copied_config();
    History::of(&session.runtime).kill(id, Client::of(&config).as_deref())?;
    let row = RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(UInt64Array::from(vec![id])),
            Arc::new(StringArray::from(vec!["stopping"])),
        ],
    )
    .map_err(datafusion::error::DataFusionError::from)?;
    Ok(session.ctx.read_batch(row)?)
}
