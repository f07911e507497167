//! What the server counts, for Prometheus and for the page: calls, waits, and every query that ends.
//!
//! Whatever has a state of its own (memory, sessions, statements that run) is asked when somebody
//! reads the metrics; the rest counts up here.

mod cluster;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use tidegate::{LoggedQuery, PlaceStats, QueryState, QueryWatcher, Session};
use tonic::{Code, Status};

use crate::sessions::Sessions;

/// The content type of what [`Meters::text`] writes.
pub(crate) const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels<const N: usize> = [(&'static str, String); N];

/// The counters of a server.
pub(crate) struct Meters {
    registry: Registry,
    calls: Family<Labels<2>, Counter>,
    queries: Family<Labels<2>, Counter>,
    query_seconds: Histogram,
    rows: Counter,
    morsels: Family<Labels<1>, Counter>,
    morsel_rows: Family<Labels<1>, Counter>,
    morsel_bytes: Family<Labels<1>, Counter>,
    placements: Family<Labels<2>, Counter>,
    retries: Counter,
    waiting: Gauge,
    wait_seconds: Histogram,
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meters").finish_non_exhaustive()
    }
}

impl Meters {
    /// Makes counters at zero, over a server's session and its clients'.
    pub(crate) fn new(session: Session, sessions: Arc<Sessions>) -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_25, 4.0, 11));
        let mut registry = Registry::with_prefix("tidegate");
        let meters = Self {
            calls: Family::default(),
            queries: Family::default(),
            query_seconds: seconds(),
            rows: Counter::default(),
            morsels: Family::default(),
            morsel_rows: Family::default(),
            morsel_bytes: Family::default(),
            placements: Family::default(),
            retries: Counter::default(),
            waiting: Gauge::default(),
            wait_seconds: seconds(),
            registry: Registry::default(),
        };
        let mut add = |name: &str, help: &str, metric: &dyn Register| {
            metric.register(&mut registry, name, help);
        };
        add(
            "calls",
            "Calls of the Flight protocol, by method and gRPC status",
            &meters.calls,
        );
        add(
            "queries",
            "Queries that have ended, by status and by the side that ran their regions",
            &meters.queries,
        );
        add("query_rows", "Rows that queries returned", &meters.rows);
        add("morsels", "Morsels completed, by place", &meters.morsels);
        add(
            "morsel_rows",
            "Rows of morsels as read, by place",
            &meters.morsel_rows,
        );
        add(
            "placements",
            "Decisions on morsels and whole regions, by place and reason",
            &meters.placements,
        );
        add(
            "device_retries",
            "Morsels that a device lost and that ran again elsewhere",
            &meters.retries,
        );
        add(
            "statements_waiting",
            "Statements that wait to run",
            &meters.waiting,
        );
        let seconds = |registry: &mut Registry, name: &str, help: &str, metric: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
        };
        seconds(
            &mut registry,
            "query_duration",
            "Time from a query's first stream to its end",
            &meters.query_seconds,
        );
        seconds(
            &mut registry,
            "statement_wait",
            "Time that statements waited to run",
            &meters.wait_seconds,
        );
        registry.register_with_unit(
            "morsel",
            "Bytes of morsels, by place: copied to a device, or an estimate of what the host read",
            Unit::Bytes,
            meters.morsel_bytes.clone(),
        );
        registry.register_collector(Box::new(Now { session, sessions }));
        Self { registry, ..meters }
    }

    /// Writes all metrics as OpenMetrics text.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Writing to a string does not fail.
            Err(fmt::Error) => String::new(),
        }
    }

    /// Counts a call, and how it was answered.
    pub(crate) fn call<T>(
        &self,
        method: &'static str,
        answer: Result<T, Status>,
    ) -> Result<T, Status> {
        let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
        if code == Code::Internal
            && let Err(status) = &answer
        {
            tracing::error!(
                method,
                error = status.message(),
                "a call hit a bug in the engine"
            );
        }
        let labels = [
            ("method", method.to_string()),
            ("code", format!("{code:?}")),
        ];
        self.calls.get_or_create(&labels).inc();
        answer
    }

    /// Counts a statement that waits for its permit, until this is dropped.
    pub(crate) fn wait(self: &Arc<Self>) -> Waiting {
        self.waiting.inc();
        Waiting {
            meters: Arc::clone(self),
            since: Instant::now(),
        }
    }

    /// Returns how many statements wait.
    pub(crate) fn num_waiting(&self) -> i64 {
        self.waiting.get()
    }

    fn place(&self, stats: &PlaceStats) {
        let place = || stats.place.to_string();
        let at = [("place", place())];
        self.morsels.get_or_create(&at).inc_by(stats.morsels);
        self.morsel_rows.get_or_create(&at).inc_by(stats.rows);
        self.morsel_bytes.get_or_create(&at).inc_by(stats.bytes);
        for (reason, times) in &stats.reasons {
            let labels = [("place", place()), ("reason", (*reason).to_string())];
            self.placements.get_or_create(&labels).inc_by(*times);
            if *reason == "device_fault" {
                self.retries.inc_by(*times);
            }
        }
    }
}

/// A metric that can be put into a registry.
trait Register {
    fn register(&self, registry: &mut Registry, name: &str, help: &str);
}

impl<M: prometheus_client::registry::Metric + Clone> Register for M {
    fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        Registry::register(registry, name, help, self.clone());
    }
}

impl QueryWatcher for Meters {
    fn ended(&self, query: &LoggedQuery) {
        let labels = [
            ("status", query.state.to_string()),
            ("placement", query.placement().to_string()),
        ];
        self.queries.get_or_create(&labels).inc();
        self.query_seconds.observe(query.seconds);
        self.rows.inc_by(query.rows);
        for stats in &query.place_stats {
            self.place(stats);
        }
        tracing::info!(
            query_id = query.id,
            session_id = query.session,
            user = query.user.as_deref(),
            state = %query.state,
            placement = %query.placement(),
            seconds = query.seconds,
            plan_seconds = query.plan_seconds,
            rows = query.rows,
            sql = query.sql.as_deref(),
            error = query.error.as_deref(),
            "query ended"
        );
    }
}

/// A statement that waits for its permit.
#[derive(Debug)]
pub(crate) struct Waiting {
    meters: Arc<Meters>,
    since: Instant,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.meters.waiting.dec();
        let waited = self.since.elapsed().as_secs_f64();
        self.meters.wait_seconds.observe(waited);
    }
}

/// What is looked up when the metrics are read.
struct Now {
    session: Session,
    sessions: Arc<Sessions>,
}

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Now").finish_non_exhaustive()
    }
}

impl Collector for Now {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let running = self.session.visible_reports(0);
        let running = running
            .iter()
            .filter(|report| report.state == QueryState::Running);
        let numbers = [
            ("sessions", "Open sessions", self.sessions.len() as u64),
            (
                "statements_running",
                "Statements that are admitted",
                self.sessions.num_running() as u64,
            ),
            ("queries_running", "Running queries", running.count() as u64),
        ];
        for (name, help, value) in numbers {
            gauge(&mut encoder, name, help, None, &[(Vec::new(), value)])?;
        }
        let (mut used, mut limits) = (Vec::new(), Vec::new());
        for memory in self.session.memory() {
            // Operators come and go by the hundred: `system.memory` and the page tell them.
            let operator = memory.consumer.strip_prefix("statements: ");
            if operator.is_some_and(|operator| operator.contains(['[', '(', '#'])) {
                continue;
            }
            let device = memory.device.clone().unwrap_or_default();
            let labels = vec![
                ("tier", memory.tier().to_string()),
                ("device", device),
                ("consumer", memory.consumer),
            ];
            limits.extend(memory.limit.map(|limit| (labels.clone(), limit)));
            used.push((labels, memory.used));
        }
        let bytes = Some(&Unit::Bytes);
        gauge(
            &mut encoder,
            "memory_used",
            "Memory used, by tier and consumer",
            bytes,
            &used,
        )?;
        gauge(
            &mut encoder,
            "memory_limit",
            "Memory limits",
            bytes,
            &limits,
        )?;
        let cache = self.session.cache_activity();
        let tier = |tier: &str, count| (vec![("tier", tier.to_string())], count);
        let hits = [
            tier("host", cache.host_hits),
            tier("device", cache.device_hits),
            tier("pinned", cache.pinned_hits),
        ];
        counter(
            &mut encoder,
            "cache_hits",
            "Column chunks that queries found in a tier",
            &hits,
        )?;
        let misses = [tier("host", cache.host_misses)];
        counter(
            &mut encoder,
            "cache_misses",
            "Column chunks of files that queries had to read",
            &misses,
        )?;
        let evictions = [tier("host", cache.host_evictions)];
        counter(
            &mut encoder,
            "cache_evictions",
            "Column chunks evicted",
            &evictions,
        )?;
        match self.session.cluster() {
            Some((executors, activity)) => cluster::encode(&mut encoder, &executors, &activity),
            None => Ok(()),
        }
    }
}

type Line<V> = (Vec<(&'static str, String)>, V);

fn gauge<V: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    lines: &[Line<V>],
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    for (labels, value) in lines {
        match labels.is_empty() {
            true => metric.encode_gauge(value)?,
            false => metric.encode_family(labels)?.encode_gauge(value)?,
        }
    }
    Ok(())
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: &[Line<u64>],
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in lines {
        match labels.is_empty() {
            true => metric.encode_counter::<[(&str, &str); 0], _, f64>(value, None)?,
            false => {
                let mut line = metric.encode_family(labels)?;
                line.encode_counter::<[(&str, &str); 0], _, f64>(value, None)?;
            }
        }
    }
    Ok(())
}
