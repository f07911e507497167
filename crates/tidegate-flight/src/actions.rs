//! DoAction: prepared statements, cancelling, session options, and what is refused by name.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::Schema;
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any,
    ProstMessageExt,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
};
use bytes::Bytes;
use futures::TryStreamExt;
use prost::Message;
use tidegate::{CancelHandle, Error, ErrorKind};
use tonic::Status;

use crate::door::Door;
use crate::messages::{
    CloseSessionResult, CloseStatus, GetSessionOptionsResult, OptionError, OptionErrorValue,
    OptionValue, SessionOptionValue, SetSessionOptionsRequest, SetSessionOptionsResult,
};
use crate::put::{command, refuse_transaction};
use crate::sessions::{ClientSession, Prepared};
use crate::status::{defect, invalid, status, unimplemented};
use crate::wire::{schema_bytes, wire_schema};

/// The action that tells how far a query has come; the only one that is not of the protocol.
pub(crate) const PROGRESS: &str = "tidegate.Progress";

/// What there is to do: name, and what it takes and gives.
const DONE: [(&str, &str); 8] = [
    (
        "CreatePreparedStatement",
        "Prepares a statement. Takes ActionCreatePreparedStatementRequest, gives \
         ActionCreatePreparedStatementResult.",
    ),
    (
        "ClosePreparedStatement",
        "Closes a prepared statement. Takes ActionClosePreparedStatementRequest.",
    ),
    (
        "CancelFlightInfo",
        "Stops a query. Takes CancelFlightInfoRequest, gives CancelFlightInfoResult.",
    ),
    (
        "CancelQuery",
        "Stops a query, for older clients. Takes ActionCancelQueryRequest, gives \
         ActionCancelQueryResult.",
    ),
    (
        "SetSessionOptions",
        "Sets settings, and the options catalog and schema. Takes SetSessionOptionsRequest, gives \
         SetSessionOptionsResult.",
    ),
    (
        "GetSessionOptions",
        "Returns settings, and the options catalog and schema. Gives GetSessionOptionsResult.",
    ),
    (
        "CloseSession",
        "Ends the session and what runs in it. Gives CloseSessionResult.",
    ),
    (
        PROGRESS,
        "Returns the progress of the session's running query as a JSON object, or nothing if \
         none runs.",
    ),
];

/// Actions of the protocol that are not done here.
const REFUSED: [&str; 6] = [
    "BeginTransaction",
    "EndTransaction",
    "BeginSavepoint",
    "EndSavepoint",
    "CreatePreparedSubstraitPlan",
    "RenewFlightEndpoint",
];

/// Lists what there is to do.
pub(crate) fn list() -> Vec<ActionType> {
    let action = |(name, description): &(&str, &str)| ActionType {
        r#type: (*name).into(),
        description: (*description).into(),
    };
    DONE.iter().map(action).collect()
}

/// Does an action; most give one message, some none.
pub(crate) async fn act(
    door: &Door,
    caller: &Arc<ClientSession>,
    action: Action,
) -> Result<Option<Bytes>, Status> {
    let body = &action.body;
    let answer = match action.r#type.as_str() {
        "CreatePreparedStatement" => prepare(door, caller, packed(body)?).await?,
        "ClosePreparedStatement" => {
            close_prepared(door, caller, &packed(body)?)?;
            return Ok(None);
        }
        "CancelFlightInfo" => {
            let asked: CancelFlightInfoRequest = message(body)?;
            let status = cancel(door, caller, asked.info.as_ref())?;
            CancelFlightInfoResult::new(status).encode_to_vec()
        }
        "CancelQuery" => {
            let asked: ActionCancelQueryRequest = packed(body)?;
            let info: FlightInfo = message(&asked.info)?;
            // The numbers of its results are those of CancelStatus.
            let result = cancel(door, caller, Some(&info))? as i32;
            ActionCancelQueryResult { result }.as_any().encode_to_vec()
        }
        "SetSessionOptions" => set_options(caller, message(body)?).await.encode_to_vec(),
        "GetSessionOptions" => get_options(caller).await?.encode_to_vec(),
        "CloseSession" => {
            door.sessions.close(caller);
            let status = CloseStatus::Closed as i32;
            CloseSessionResult { status }.encode_to_vec()
        }
        PROGRESS => match caller.session.progress() {
            Some(progress) => serde_json::to_vec(&progress)
                .map_err(|error| defect("the progress cannot be written", &error))?,
            None => return Ok(None),
        },
        refused if REFUSED.contains(&refused) => return Err(unimplemented(refused)),
        other => {
            let name: String = other
                .chars()
                .filter(char::is_ascii_graphic)
                .take(100)
                .collect();
            return Err(unimplemented(&format!("the action '{name}'")));
        }
    };
    Ok(Some(answer.into()))
}

fn message<M: Message + Default>(bytes: &[u8]) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| invalid("the action's message cannot be read", &error))
}

fn packed<M: ProstMessageExt>(bytes: &[u8]) -> Result<M, Status> {
    let any: Any = message(bytes)?;
    let unpacked = any.unpack::<M>();
    let unpacked =
        unpacked.map_err(|error| invalid("the action's message cannot be read", &error))?;
    unpacked.ok_or_else(|| {
        Status::invalid_argument(format!("the action takes a message {}", M::type_url()))
    })
}

async fn prepare(
    door: &Door,
    caller: &Arc<ClientSession>,
    asked: ActionCreatePreparedStatementRequest,
) -> Result<Vec<u8>, Status> {
    refuse_transaction(asked.transaction_id.as_deref())?;
    let planned = door.statements.plan_cacheable(caller, &asked.query).await?;
    let dataset_schema = match planned.schema() {
        Some(columns) => schema_bytes(&wire_schema(&columns))?,
        None => Bytes::new(),
    };
    let parameters = planned.parameters().map_err(status)?;
    let parameter_schema = schema_bytes(&wire_schema(&Schema::new(parameters)))?;
    let handle = caller.prepare(Prepared::new(&caller.session, planned, Vec::new())?)?;
    let result = ActionCreatePreparedStatementResult {
        prepared_statement_handle: Bytes::copy_from_slice(&handle),
        dataset_schema,
        parameter_schema,
    };
    Ok(result.as_any().encode_to_vec())
}

fn close_prepared(
    door: &Door,
    caller: &Arc<ClientSession>,
    asked: &ActionClosePreparedStatementRequest,
) -> Result<(), Status> {
    let (owner, number) = door
        .sessions
        .find(&asked.prepared_statement_handle, caller)?;
    owner.unprepare(number);
    Ok(())
}

fn cancel(
    door: &Door,
    caller: &Arc<ClientSession>,
    info: Option<&FlightInfo>,
) -> Result<CancelStatus, Status> {
    let endpoints = info.map_or(&[][..], |info| &info.endpoint);
    let tickets = endpoints
        .iter()
        .filter_map(|endpoint| endpoint.ticket.as_ref());
    let mut status = CancelStatus::NotCancellable;
    for ticket in tickets {
        let arrow_flight::sql::Command::TicketStatementQuery(asked) = command(&ticket.ticket)?
        else {
            continue;
        };
        let (owner, number) = door.sessions.find(&asked.statement_handle, caller)?;
        if owner.cancel(number) {
            status = CancelStatus::Cancelled;
        }
    }
    Ok(status)
}

/// The options that the protocol names, and the settings that they stand for.
const ALIASES: [(&str, &str); 2] = [
    ("catalog", "datafusion.catalog.default_catalog"),
    ("schema", "datafusion.catalog.default_schema"),
];

async fn set_options(
    caller: &ClientSession,
    asked: SetSessionOptionsRequest,
) -> SetSessionOptionsResult {
    let mut errors = HashMap::new();
    for (name, value) in asked.session_options {
        if let Err(error) = set_option(caller, &name, value.option_value).await {
            let value = error as i32;
            errors.insert(name, OptionError { value });
        }
    }
    SetSessionOptionsResult { errors }
}

async fn set_option(
    caller: &ClientSession,
    name: &str,
    value: Option<OptionValue>,
) -> Result<(), OptionErrorValue> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let setting = alias.map_or(name, |(_, setting)| setting);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    if setting.is_empty() || !setting.chars().all(is_name) {
        return Err(OptionErrorValue::InvalidName);
    }
    let text = match value {
        Some(OptionValue::Text(text)) => Some(text),
        Some(OptionValue::Truth(truth)) => Some(truth.to_string()),
        Some(OptionValue::Integer(number)) => Some(number.to_string()),
        Some(OptionValue::Number(number)) => Some(number.to_string()),
        Some(OptionValue::Texts(_)) => return Err(OptionErrorValue::InvalidValue),
        None => None,
    };
    if let (Some((alias, _)), Some(text)) = (alias, &text) {
        let schemas = caller.session.schemas();
        let is_there = schemas.iter().any(|(catalog, schema)| match *alias {
            "catalog" => catalog == text,
            _ => schema == text,
        });
        if !is_there {
            return Err(OptionErrorValue::InvalidValue);
        }
    }
    let sql = match text {
        Some(text) => format!("SET {setting} = '{}'", text.replace('\'', "''")),
        None => format!("RESET {setting}"),
    };
    run(caller, &sql)
        .await
        .map(|_| ())
        .map_err(|error| match error.kind() {
            ErrorKind::Denied => OptionErrorValue::Error,
            _ if is_setting(caller, setting) => OptionErrorValue::InvalidValue,
            _ => OptionErrorValue::InvalidName,
        })
}

/// Tells whether there is a setting of this name.
fn is_setting(caller: &ClientSession, name: &str) -> bool {
    let config = caller.session.context().copied_config();
    let settings = config.options().entries();
    let mut names = settings.iter().map(|setting| &setting.key);
    names.any(|setting| setting.eq_ignore_ascii_case(name))
}

async fn get_options(caller: &ClientSession) -> Result<GetSessionOptionsResult, Status> {
    let settings = "SELECT name, value FROM system.settings WHERE value IS NOT NULL";
    let batches = run(caller, settings).await.map_err(status)?;
    let mut session_options = HashMap::new();
    for batch in &batches {
        let (names, values) = (
            batch.column(0).as_string::<i32>(),
            batch.column(1).as_string::<i32>(),
        );
        for (name, value) in names.iter().zip(values.iter()) {
            let (Some(name), Some(value)) = (name, value) else {
                continue;
            };
            let value = SessionOptionValue {
                option_value: Some(OptionValue::Text(value.into())),
            };
            let alias = ALIASES.iter().find(|(_, setting)| *setting == name);
            if let Some((alias, _)) = alias {
                session_options.insert((*alias).to_string(), value.clone());
            }
            session_options.insert(name.to_string(), value);
        }
    }
    Ok(GetSessionOptionsResult { session_options })
}

async fn run(caller: &ClientSession, sql: &str) -> Result<Vec<arrow::array::RecordBatch>, Error> {
    let planned = caller.session.plan(sql).await?;
    let rows = planned.start(&CancelHandle::new()).await?;
    Ok(rows.try_collect().await?)
}
