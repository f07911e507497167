//! Traces for OpenTelemetry: a span for each query that ends, with its planning, its wait for admission and
//! its tasks on executors below it, sent by OTLP over gRPC.
//!
//! A call that carries `traceparent` (W3C Trace Context) makes its queries part of that trace. Tasks are
//! known to the scheduler, so that executors send nothing. Spans are made from what is remembered of a query
//! anyway, when it has ended; a collector that does not answer costs no query anything. The attributes follow
//! OpenTelemetry's conventions for databases where there are some.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{
    Span, SpanBuilder, SpanKind, Status as SpanStatus, TraceContextExt, Tracer, TracerProvider,
};
use opentelemetry::{Context, Key, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tidegate::spread::TaskReport;
use tidegate::{CancelHandle, LoggedQuery, QueryState, QueryWatcher, Session};
use tonic::metadata::MetadataMap;

/// The header that names the trace of a call.
const TRACE_PARENT: &str = "traceparent";
/// Its bytes: a version, a trace, a span and flags, in hexadecimal digits.
const TRACE_PARENT_BYTES_MAX: usize = 64;
/// How long the last spans of a server are sent for.
const SHUTDOWN_MAX: Duration = Duration::from_secs(3);

tokio::task_local! {
    /// What a call says of the trace that it belongs to.
    static PARENT: Option<String>;
}

/// Does a call's work in the trace that its headers name.
pub(crate) async fn in_trace_of<T>(headers: &MetadataMap, work: impl Future<Output = T>) -> T {
    let parent = headers
        .get(TRACE_PARENT)
        .and_then(|value| value.to_str().ok());
    let parent = parent.filter(|parent| parent.len() <= TRACE_PARENT_BYTES_MAX);
    PARENT.scope(parent.map(str::to_string), work).await
}

/// Makes a handle for a statement of the call that is answered.
pub(crate) fn statement_handle() -> CancelHandle {
    match PARENT.try_with(Clone::clone) {
        Ok(Some(parent)) => CancelHandle::in_trace(parent),
        _ => CancelHandle::new(),
    }
}

/// Sends a span for each query that ends.
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    session: Session,
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").finish_non_exhaustive()
    }
}

impl Traces {
    /// Makes what sends the spans of a server's queries to a collector; needs a runtime of tokio.
    ///
    /// # Errors
    /// Why the URL cannot be used.
    pub(crate) fn to(endpoint: &str, session: Session) -> Result<Self, String> {
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint)
            .build()
            .map_err(|error| error.to_string())?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource())
            .build();
        Ok(Self {
            tracer: provider.tracer("tidegate"),
            provider,
            session,
        })
    }

    /// Sends what is left.
    pub(crate) async fn shut_down(&self) {
        let provider = self.provider.clone();
        let sent =
            tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(SHUTDOWN_MAX));
        match sent.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last spans were not sent"),
            Err(error) => tracing::warn!(%error, "the last spans were not sent"),
        }
    }

    /// Makes a span below another one.
    fn child(
        &self,
        name: String,
        above: &Context,
        (from, to): (SystemTime, SystemTime),
    ) -> Child<'_> {
        let builder = SpanBuilder::from_name(name).with_kind(SpanKind::Internal);
        Child {
            traces: self,
            builder: builder.with_start_time(from),
            above: above.clone(),
            to,
        }
    }

    fn task(&self, task: &TaskReport, above: &Context, end: SystemTime) {
        let name = format!("stage {} task {}", task.stage, task.task);
        let attributes = [
            KeyValue::new("tidegate.executor", task.executor.clone()),
            KeyValue::new("tidegate.attempt", int(task.attempt)),
            KeyValue::new("tidegate.task.state", task.state.clone()),
        ];
        let times = (task.started, task.ended.unwrap_or(end));
        let mut child = self.child(name, above, times);
        child.builder = child.builder.with_attributes(attributes);
        let status = match task.state.as_str() {
            "lost" | "failed" => SpanStatus::error(format!("the task was {}", task.state)),
            _ => SpanStatus::Unset,
        };
        child.send(status);
    }
}

/// Describes this process: by OpenTelemetry's variables, which its SDK reads, or as `tidegate`.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let told = Resource::builder().with_attribute(version.clone()).build();
    let name = told.get(&Key::from_static_str("service.name"));
    let is_named = name.is_some_and(|name| !name.as_str().starts_with("unknown_service"));
    match is_named {
        true => told,
        false => Resource::builder()
            .with_attribute(version)
            .with_service_name("tidegate")
            .build(),
    }
}

/// A span that is not sent yet.
struct Child<'a> {
    traces: &'a Traces,
    builder: SpanBuilder,
    above: Context,
    to: SystemTime,
}

impl Child<'_> {
    fn send(self, status: SpanStatus) {
        let mut span = self
            .traces
            .tracer
            .build_with_context(self.builder, &self.above);
        span.set_status(status);
        span.end_with_timestamp(self.to);
    }
}

impl QueryWatcher for Traces {
    fn ended(&self, query: &LoggedQuery) {
        let end = SystemTime::now();
        let planning = Duration::try_from_secs_f64(query.plan_seconds).unwrap_or_default();
        let began = query.started.checked_sub(planning).unwrap_or(query.started);
        let above = match &query.trace_parent {
            Some(parent) => {
                let headers = HashMap::from([(TRACE_PARENT.to_string(), parent.to_string())]);
                TraceContextPropagator::new().extract_with_context(&Context::new(), &headers)
            }
            None => Context::new(),
        };
        let sql = query.sql.as_deref().unwrap_or_default();
        let operation = operation(sql);
        let mut attributes = vec![
            KeyValue::new("db.system.name", "tidegate"),
            KeyValue::new("db.operation.name", operation.clone()),
            KeyValue::new("db.query.text", sql.to_string()),
            KeyValue::new("db.response.returned_rows", int(query.rows)),
            KeyValue::new("tidegate.query_id", int(query.id)),
            KeyValue::new("tidegate.state", query.state.to_string()),
            KeyValue::new("tidegate.placement", query.placement().to_string()),
            KeyValue::new("tidegate.rows.host", int(query.work(true).rows)),
            KeyValue::new("tidegate.rows.device", int(query.work(false).rows)),
        ];
        if let Some(user) = query.user.as_deref() {
            attributes.push(KeyValue::new("user.name", user.to_string()));
        }
        let builder = SpanBuilder::from_name(operation)
            .with_kind(SpanKind::Server)
            .with_start_time(began)
            .with_attributes(attributes);
        let mut span = self.tracer.build_with_context(builder, &above);
        if query.state == QueryState::Failed {
            let why = query.error.clone().unwrap_or_default();
            span.set_status(SpanStatus::error(why));
        }
        let within = Context::new().with_span(span);
        let plan = (began, query.started);
        self.child("plan".into(), &within, plan)
            .send(SpanStatus::Unset);
        let waited = Duration::try_from_secs_f64(query.admission_seconds).unwrap_or_default();
        if !waited.is_zero() {
            let wait = (query.started, query.started + waited);
            self.child("wait for admission".into(), &within, wait)
                .send(SpanStatus::Unset);
        }
        if let Some(statement) = query.statement {
            let tasks = self.session.cluster_tasks().into_iter();
            for task in tasks.filter(|task| task.statement == statement) {
                self.task(&task, &within, end);
            }
        }
        within.span().end_with_timestamp(end);
    }
}

/// Returns what a statement does, as its first word says.
fn operation(sql: &str) -> String {
    let word = sql
        .trim_start()
        .split(|letter: char| !letter.is_ascii_alphabetic());
    let word = word.into_iter().next().unwrap_or_default();
    match word.is_empty() {
        true => "query".into(),
        false => word
            .chars()
            .take(20)
            .collect::<String>()
            .to_ascii_uppercase(),
    }
}

/// OpenTelemetry has no integers without a sign.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::operation;

    #[test]
    fn a_statement_is_called_by_its_first_word() {
        for (sql, expected) in [
            ("select 1", "SELECT"),
            ("\n  WITH t AS (SELECT 1) FROM t", "WITH"),
            ("(SELECT 1)", "query"),
            ("", "query"),
        ] {
            assert_eq!(operation(sql), expected);
        }
    }
}
