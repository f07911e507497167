//! One call: who makes it, what it asks for, and who answers.
//!
//! The protocol's own service is implemented, and not the one that `arrow-flight` derives from a list
//! of Flight SQL commands: that one answers neither GetSchema nor PollFlightInfo, and calls a message
//! that it cannot read an error of the server.

use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{
    Command, CommandPreparedStatementQuery, CommandStatementQuery, ProstMessageExt,
    TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use crate::door::Door;
use crate::job::Job;
use crate::put::{command, name_of, refuse_transaction};
use crate::sessions::ClientSession;
use crate::statement::caught;
use crate::status::{defect, unimplemented};
use crate::traces::{in_trace_of, statement_handle};
use crate::wire::schema_bytes;
use crate::{actions, metadata, put};

/// Bytes of rows in one message: clients take 4 MB and more.
const MESSAGE_BYTES: usize = 2 << 20;

type Answer<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send + 'static>>;

impl Door {
    /// Finds out who calls. The future does not hold the request, which need not be `Sync`.
    fn caller<'a, T>(
        &'a self,
        request: &'a Request<T>,
    ) -> impl Future<Output = Result<Arc<ClientSession>, Status>> + Send + use<'a, T> {
        let (headers, extensions) = (request.metadata(), request.extensions());
        self.auth.caller(headers, extensions, &self.sessions)
    }

    /// Plans what a command asks for, and runs it if it is a change; the ticket is for whoever fetches
    /// the rows.
    async fn find(
        &self,
        caller: &Arc<ClientSession>,
        descriptor: &FlightDescriptor,
        keep: Keep,
    ) -> Result<(Option<SchemaRef>, Bytes), Status> {
        if descriptor.cmd.is_empty() {
            return Err(Status::invalid_argument(
                "the descriptor has no command: this server speaks Flight SQL, and has no paths",
            ));
        }
        let command = command(&descriptor.cmd)?;
        if let Some(columns) = metadata::columns(&command, self.limits())? {
            return Ok((Some(columns), descriptor.cmd.clone()));
        }
        let (owner, job) = match command {
            Command::CommandStatementQuery(asked) => {
                (Arc::clone(caller), self.query(caller, &asked).await?)
            }
            Command::CommandPreparedStatementQuery(asked) => self.prepared(caller, &asked).await?,
            other => return Err(unimplemented(&name_of(&other))),
        };
        let cancel = statement_handle();
        let (columns, ticket) = match keep {
            Keep::Nothing => {
                let job = self.statements.ready(job, &cancel).await?;
                (job.schema().cloned(), Bytes::new())
            }
            Keep::Job => {
                let job = self.statements.settle(&owner, job, &cancel).await?;
                let columns = job.schema().cloned();
                let statement_handle = Bytes::copy_from_slice(&owner.keep(job, cancel));
                let ticket = TicketStatementQuery { statement_handle };
                (columns, ticket.as_any().encode_to_vec().into())
            }
        };
        Ok((columns, ticket))
    }

    async fn query(
        &self,
        caller: &ClientSession,
        asked: &CommandStatementQuery,
    ) -> Result<Job, Status> {
        refuse_transaction(asked.transaction_id.as_deref())?;
        self.statements.job(caller, &asked.query).await
    }

    async fn prepared(
        &self,
        caller: &ClientSession,
        asked: &CommandPreparedStatementQuery,
    ) -> Result<(Arc<ClientSession>, Job), Status> {
        let handle = &asked.prepared_statement_handle;
        let (owner, number) = self.sessions.find(handle, caller)?;
        let prepared = owner.prepared(number)?;
        let job = self.statements.prepared_job(&owner, &prepared).await?;
        Ok((owner, job))
    }

    async fn info(
        &self,
        caller: &Arc<ClientSession>,
        descriptor: FlightDescriptor,
    ) -> Result<FlightInfo, Status> {
        let (columns, ticket) = self.find(caller, &descriptor, Keep::Job).await?;
        let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
        let info = FlightInfo::new()
            .with_descriptor(descriptor)
            .with_endpoint(endpoint);
        match columns {
            Some(columns) => Ok(FlightInfo {
                schema: schema_bytes(&columns)?,
                ..info
            }),
            None => Ok(info),
        }
    }

    async fn told(&self, request: Request<FlightDescriptor>) -> Result<FlightInfo, Status> {
        let caller = self.caller(&request).await?;
        self.info(&caller, request.into_inner()).await
    }

    async fn schema(&self, request: &Request<FlightDescriptor>) -> Result<Bytes, Status> {
        let caller = self.caller(request).await?;
        let (columns, _) = self.find(&caller, request.get_ref(), Keep::Nothing).await?;
        let Some(columns) = columns else {
            return Err(Status::failed_precondition(
                "the columns of this statement are known only when it runs",
            ));
        };
        schema_bytes(&columns)
    }

    async fn get(
        &self,
        caller: &Arc<ClientSession>,
        ticket: &Ticket,
    ) -> Result<Answer<FlightData>, Status> {
        let command = command(&ticket.ticket)?;
        let (owner, job, cancel, number) = match command {
            Command::TicketStatementQuery(asked) => {
                let (owner, number) = self.sessions.find(&asked.statement_handle, caller)?;
                let (job, cancel) = owner.take(number)?;
                (owner, job, cancel, Some(number))
            }
            Command::CommandPreparedStatementQuery(asked) => {
                let (owner, job) = self.prepared(caller, &asked).await?;
                (owner, job, statement_handle(), None)
            }
            other => {
                let name = name_of(&other);
                let rows = metadata::rows(other, &caller.session, self.limits());
                let Some(batch) = caught(rows).await? else {
                    return Err(unimplemented(&format!("a ticket for {name}")));
                };
                let schema = batch.schema();
                return Ok(encode(schema, stream::once(async { Ok(batch) })));
            }
        };
        let rows = self.statements.start(&owner, job, cancel, number).await?;
        let schema = SchemaRef::clone(rows.schema());
        Ok(encode(schema, rows))
    }
}

/// What stays of a statement that was planned.
enum Keep {
    /// Its columns were all that was asked for.
    Nothing,
    /// It runs when its rows are fetched.
    Job,
}

/// Writes rows as messages.
fn encode(
    schema: SchemaRef,
    rows: impl Stream<Item = Result<RecordBatch, Status>> + Send + 'static,
) -> Answer<FlightData> {
    let rows = rows.map_err(|status| FlightError::Tonic(Box::new(status)));
    FlightDataEncoderBuilder::new()
        .with_schema(schema)
        .with_max_flight_data_size(MESSAGE_BYTES)
        .build(rows)
        .map_err(|error| match error {
            FlightError::Tonic(status) => *status,
            error => defect("the rows cannot be written", &error),
        })
        .boxed()
}

#[tonic::async_trait]
impl FlightService for Door {
    type HandshakeStream = Answer<HandshakeResponse>;
    type ListFlightsStream = Answer<FlightInfo>;
    type DoGetStream = Answer<FlightData>;
    type DoPutStream = Answer<PutResult>;
    type DoExchangeStream = Answer<FlightData>;
    type DoActionStream = Answer<arrow_flight::Result>;
    type ListActionsStream = Answer<ActionType>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let (headers, extensions) = (request.metadata(), request.extensions());
        let token = self.auth.log_in(headers, extensions, &self.sessions);
        let token = token.await;
        let token = self.meters().call("Handshake", token)?;
        let header = format!("Bearer {token}").parse();
        let header = header.map_err(|error| defect("the token is not a valid header", &error))?;
        let answer = HandshakeResponse {
            protocol_version: 0,
            payload: token.into(),
        };
        let answers = stream::once(async { Ok(answer) }).boxed();
        let mut response = Response::new(answers as Self::HandshakeStream);
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn list_flights(
        &self,
        request: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        self.caller(&request).await?;
        Err(unimplemented("ListFlights"))
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let headers = request.metadata().clone();
        let info = in_trace_of(&headers, self.told(request)).await;
        let info = self.meters().call("GetFlightInfo", info)?;
        Ok(Response::new(info))
    }

    /// Answers at once, as GetFlightInfo does: a query is planned, and runs when its rows are fetched.
    async fn poll_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        let headers = request.metadata().clone();
        let info = in_trace_of(&headers, self.told(request)).await;
        let info = self.meters().call("PollFlightInfo", info)?;
        Ok(Response::new(PollInfo::new().with_info(info)))
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let schema = self.schema(&request).await;
        let schema = self.meters().call("GetSchema", schema)?;
        Ok(Response::new(SchemaResult { schema }))
    }

    async fn do_get(
        &self,
        request: Request<Ticket>,
    ) -> Result<Response<Self::DoGetStream>, Status> {
        let rows = in_trace_of(request.metadata(), async {
            let caller = self.caller(&request).await?;
            self.get(&caller, request.get_ref()).await
        });
        let rows = self.meters().call("DoGet", rows.await)?;
        Ok(Response::new(rows))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let headers = request.metadata().clone();
        let result = in_trace_of(&headers, async {
            let caller = self.caller(&request).await?;
            caught(put::put(self, &caller, request.into_inner())).await
        });
        let result = self.meters().call("DoPut", result.await)?;
        Ok(Response::new(stream::once(async { Ok(result) }).boxed()))
    }

    async fn do_exchange(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        self.caller(&request).await?;
        Err(unimplemented("DoExchange"))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let headers = request.metadata().clone();
        let answer = in_trace_of(&headers, async {
            let caller = self.caller(&request).await?;
            caught(actions::act(self, &caller, request.into_inner())).await
        });
        let answer = self.meters().call("DoAction", answer.await)?;
        let answers = answer.map(|body| Ok(arrow_flight::Result { body }));
        Ok(Response::new(stream::iter(answers).boxed()))
    }

    async fn list_actions(
        &self,
        request: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        self.caller(&request).await?;
        let all = actions::list().into_iter().map(Ok);
        Ok(Response::new(stream::iter(all).boxed()))
    }
}
