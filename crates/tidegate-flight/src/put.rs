//! DoPut: updates, parameters of prepared statements, and rows for tables.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow_flight::sql::{
    Any, Command, CommandPreparedStatementQuery, CommandPreparedStatementUpdate,
    CommandStatementIngest, CommandStatementUpdate, DoPutPreparedStatementResult,
    DoPutUpdateResult, TableExistsOption, TableNotExistOption,
};
use arrow_flight::{FlightData, PutResult};
use futures::{StreamExt, stream};
use prost::Message;
use tidegate::{IfExists, IfMissing, IngestTarget};
use tonic::{Status, Streaming};

use crate::door::Door;
use crate::sessions::{ClientSession, Prepared};
use crate::statement::caught;
use crate::status::{invalid, status, unimplemented};
use crate::upload::{Upload, nothing_came};

/// What the first message asks for, and the rows after it.
pub(crate) async fn put(
    door: &Door,
    caller: &Arc<ClientSession>,
    mut messages: Streaming<FlightData>,
) -> Result<PutResult, Status> {
    let patience = door.limits().stall;
    let first = tokio::time::timeout(patience, messages.message()).await;
    let first = first.map_err(|_| nothing_came(patience))?;
    let Some(first) = first? else {
        return Err(Status::invalid_argument("DoPut without a message"));
    };
    let Some(descriptor) = &first.flight_descriptor else {
        return Err(Status::invalid_argument(
            "the first message of DoPut has no descriptor: it names the command",
        ));
    };
    let command = command(&descriptor.cmd)?;
    let all = stream::once(async { Ok(first) }).chain(messages);
    let upload = Upload::new(Pin::from(Box::new(all)), patience);
    let answer = match command {
        Command::CommandStatementUpdate(asked) => update(door, caller, asked).await?,
        Command::CommandPreparedStatementUpdate(asked) => {
            prepared_update(door, caller, asked, upload).await?
        }
        Command::CommandPreparedStatementQuery(asked) => bind(door, caller, asked, upload).await?,
        Command::CommandStatementIngest(asked) => ingest(door, caller, asked, upload).await?,
        other => return Err(unimplemented(&format!("DoPut of {}", name_of(&other)))),
    };
    Ok(PutResult {
        app_metadata: answer.into(),
    })
}

/// Reads a Flight SQL command.
pub(crate) fn command(bytes: &[u8]) -> Result<Command, Status> {
    let any = Any::decode(bytes)
        .map_err(|error| invalid("the command is not a Flight SQL message", &error))?;
    Command::try_from(any).map_err(|error| invalid("the command cannot be read", &error))
}

/// Returns a command's name, for messages.
pub(crate) fn name_of(command: &Command) -> String {
    let url = command.type_url();
    let name: String = url
        .chars()
        .filter(|c| c.is_ascii_graphic())
        .take(100)
        .collect();
    match name.rsplit('.').next() {
        None | Some("") => "an unnamed command".to_string(),
        Some(name) => name.to_string(),
    }
}

/// Refuses a statement inside a transaction: there are none.
pub(crate) fn refuse_transaction(id: Option<&[u8]>) -> Result<(), Status> {
    match id {
        None | Some([]) => Ok(()),
        Some(_) => Err(unimplemented("a transaction")),
    }
}

fn changed(record_count: i64) -> Vec<u8> {
    DoPutUpdateResult { record_count }.encode_to_vec()
}

async fn update(
    door: &Door,
    caller: &Arc<ClientSession>,
    asked: CommandStatementUpdate,
) -> Result<Vec<u8>, Status> {
    refuse_transaction(asked.transaction_id.as_deref())?;
    let job = door.statements.job(caller, &asked.query).await?;
    Ok(changed(door.statements.update(caller, job).await?))
}

async fn prepared_update(
    door: &Door,
    caller: &Arc<ClientSession>,
    asked: CommandPreparedStatementUpdate,
    upload: Upload,
) -> Result<Vec<u8>, Status> {
    let (owner, number) = door
        .sessions
        .find(&asked.prepared_statement_handle, caller)?;
    let mut prepared = owner.prepared(number)?;
    if let Some(rows) = parameters(door, upload).await? {
        prepared = Prepared::new(&owner.session, prepared.planned, rows)?;
    }
    let job = door.statements.prepared_job(&owner, &prepared).await?;
    Ok(changed(door.statements.update(&owner, job).await?))
}

async fn bind(
    door: &Door,
    caller: &Arc<ClientSession>,
    asked: CommandPreparedStatementQuery,
    upload: Upload,
) -> Result<Vec<u8>, Status> {
    let handle = asked.prepared_statement_handle;
    let (owner, number) = door.sessions.find(&handle, caller)?;
    let rows = parameters(door, upload).await?;
    owner.bind(number, rows.unwrap_or_default())?;
    let result = DoPutPreparedStatementResult {
        prepared_statement_handle: Some(handle),
    };
    Ok(result.encode_to_vec())
}

/// Reads rows of parameters; `None` if the client sent no columns.
async fn parameters(door: &Door, mut upload: Upload) -> Result<Option<Vec<RecordBatch>>, Status> {
    let limits = door.limits();
    let Some(schema) = upload.schema().await? else {
        return Ok(None);
    };
    let (mut rows, mut num_rows, mut num_bytes) = (Vec::new(), 0_usize, 0_usize);
    while let Some(batch) = upload.next().await? {
        num_rows = num_rows.saturating_add(batch.num_rows());
        num_bytes = num_bytes.saturating_add(batch.get_array_memory_size());
        if num_rows > limits.parameter_rows || num_bytes > limits.message_bytes {
            return Err(Status::resource_exhausted(format!(
                "more than {} rows or {} bytes of parameters: send rows by ingest",
                limits.parameter_rows, limits.message_bytes
            )));
        }
        rows.push(batch);
    }
    Ok((!schema.fields().is_empty()).then_some(rows))
}

async fn ingest(
    door: &Door,
    caller: &Arc<ClientSession>,
    asked: CommandStatementIngest,
    mut upload: Upload,
) -> Result<Vec<u8>, Status> {
    refuse_transaction(asked.transaction_id.as_deref())?;
    let (if_exists, if_missing) = rules(&asked);
    let target = IngestTarget {
        catalog: asked.catalog,
        schema: asked.schema,
        table: asked.table,
        is_temporary: asked.temporary,
    };
    door.statements.admission.check_open()?;
    let Some(schema) = upload.schema().await? else {
        return Err(Status::invalid_argument(
            "ingest without columns: the rows' schema must come first",
        ));
    };
    let mut taken = caller.session.ingest(schema);
    let _running = caller.running(None);
    loop {
        let batch = tokio::select! {
            batch = upload.next() => batch?,
            () = caller.closed.cancelled() => return Err(Status::cancelled("the session has ended")),
        };
        let Some(batch) = batch else { break };
        taken.push(batch).map_err(status)?;
    }
    let waiting = door.statements.meters.wait();
    let _permit = door.statements.admission.permit(&caller.user).await?;
    drop(waiting);
    let finished = async {
        let finished = taken.finish(&target, if_exists, if_missing).await;
        finished.map_err(status)
    };
    let num_rows = caught(finished).await?;
    Ok(changed(i64::try_from(num_rows).unwrap_or(i64::MAX)))
}

/// Reads what is to happen if the table is there or not; to make it, and to fail, unless said.
fn rules(asked: &CommandStatementIngest) -> (IfExists, IfMissing) {
    let options = asked.table_definition_options.unwrap_or_default();
    let if_exists = match options.if_exists() {
        TableExistsOption::Append => IfExists::Append,
        TableExistsOption::Replace => IfExists::Replace,
        TableExistsOption::Fail | TableExistsOption::Unspecified => IfExists::Fail,
    };
    let if_missing = match options.if_not_exist() {
        TableNotExistOption::Fail => IfMissing::Fail,
        TableNotExistOption::Create | TableNotExistOption::Unspecified => IfMissing::Create,
    };
    (if_exists, if_missing)
}
