//! What a region is and what it did, for EXPLAIN, system tables and the command line.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::stats::Precision;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Count, Metric, MetricValue, MetricsSet, Time};
use serde::{Deserialize, Serialize};
use tidegate_kernels::Phases;
use tidegate_scheduler::{ClaimStats, Place, PlaceReport, PlaceStats, RecordedRegion, Setbacks};

use super::{Form, Region};

/// What a region is, and what it has done so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionReport {
    /// `host`, `additive` or `atomic`.
    pub form: String,
    /// The program in one line, if the region has one.
    pub program: Option<String>,
    /// The program as JSON, if the region has one.
    #[serde(skip)]
    pub program_json: Option<String>,
    /// Why it has no program, or why the host runs it; all reasons.
    pub reasons: Vec<String>,
    /// Why DataFusion's operators run the host's half, and no row program; empty if one does, or none was
    /// asked for.
    pub host_engine_refusals: Vec<String>,
    /// The devices that may take part.
    pub devices: Vec<String>,
    /// `ordered` if float sums have the same bits on every run, `unordered` if they may differ in their
    /// last ones; `None` if there are none.
    #[serde(skip_deserializing)]
    pub float_sums: Option<&'static str>,
    /// Seconds that finding and lowering the region took.
    pub plan_seconds: f64,
    /// What ran where.
    pub places: Vec<PlaceReport>,
    /// How it ran, to be replayed; `None` if that is not known to the end.
    #[serde(skip)]
    pub recorded: Option<RecordedRegion>,
    /// The same as `places` in numbers that can be added up.
    #[serde(skip)]
    pub place_stats: Vec<PlaceStats>,
}

impl RegionReport {
    /// Describes a region; `host` is its half that tells what it did if there is no other.
    pub(crate) fn of(region: &Region, host: Option<&Arc<dyn ExecutionPlan>>) -> Self {
        let pipeline = region.program.as_ref().map(|program| &program.pipeline);
        let mut places = region.counters.report(|place| region.place_name(place));
        let mut stats = region.counters.place_stats();
        if places.is_empty() && region.form == Form::Host {
            places.extend(host.and_then(|host| host_report(region, host)));
            let kinds = region.reasons.iter().map(|reason| (reason.kind(), 1));
            stats.extend(places.iter().map(|place| PlaceStats {
                place: Place::Host,
                morsels: place.morsels,
                rows: place.rows,
                bytes: place.bytes,
                reasons: kinds.clone().collect(),
            }));
        }
        let rounds = pipeline.is_some_and(|pipeline| crate::lower::rounds(pipeline));
        Self {
            form: region.form.to_string(),
            program: pipeline.map(ToString::to_string),
            program_json: pipeline.and_then(|pipeline| serde_json::to_string(pipeline).ok()),
            reasons: region.reasons.iter().map(ToString::to_string).collect(),
            host_engine_refusals: region.host_engine.refusals().to_vec(),
            devices: region
                .devices
                .iter()
                .map(|device| device.info().to_string())
                .collect(),
            float_sums: rounds.then_some(if region.ordered {
                "ordered"
            } else {
                "unordered"
            }),
            plan_seconds: region.planned_in.as_secs_f64(),
            places,
            recorded: region.recorded(),
            place_stats: stats,
        }
    }

    /// Lists the morsels that a place ran, as `piece:first-last`, or says that it ran all; `None` if
    /// that is not known.
    pub(crate) fn morsels_at(&self, number: usize) -> Option<String> {
        let place = self.place_stats.get(number)?.place;
        match self.recorded.as_ref()? {
            RecordedRegion::Shared(recorded) => Some(recorded.morsels_at(place)),
            RecordedRegion::Whole(whole) => (*whole == place).then(|| "all".into()),
        }
    }

    /// Sums up where the devices' seconds went.
    pub fn phases(&self) -> Phases {
        let mut sum = Phases::default();
        for place in &self.places {
            sum += place.phases;
        }
        sum
    }

    /// Describes the region in one line, as EXPLAIN prints it.
    pub(crate) fn summary(&self) -> String {
        let mut parts = Vec::new();
        parts.push(match self.form.as_str() {
            "additive" => format!("additive on host, {}", self.devices.join(", ")),
            "atomic" => format!("atomic on {}", self.devices.join(", ")),
            form => form.to_string(),
        });
        match &self.program {
            Some(program) => parts.push(format!("program=[{program}]")),
            None => parts.push("no program".into()),
        }
        parts.extend(self.float_sums.map(|level| format!("float_sums={level}")));
        if !self.reasons.is_empty() {
            parts.push(format!("reasons=[{}]", self.reasons.join("; ")));
        }
        if !self.host_engine_refusals.is_empty() {
            let refusals = self.host_engine_refusals.join("; ");
            parts.push(format!("no_host_engine=[{refusals}]"));
        }
        if self.form != "host" && !self.places.is_empty() {
            let ran: Vec<String> = self
                .places
                .iter()
                .map(|place| match claims_line(place) {
                    Some(claims) => format!("{}, {claims}", place_line(place)),
                    None => place_line(place),
                })
                .collect();
            parts.push(format!("ran=[{}]", ran.join("; ")));
        }
        parts.join(", ")
    }
}

impl fmt::Display for RegionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Some(program) => writeln!(f, "{} region: {program}", self.form)?,
            None => writeln!(f, "{} region without a program", self.form)?,
        }
        for reason in &self.reasons {
            writeln!(f, "  reason: {reason}")?;
        }
        for refusal in &self.host_engine_refusals {
            writeln!(f, "  not on the host engine: {refusal}")?;
        }
        for place in &self.places {
            write!(f, "  {}, {:.1} ms", place_line(place), place.seconds * 1e3)?;
            let claims = claims_line(place).map(|claims| format!("; {claims}"));
            writeln!(f, "{}", claims.unwrap_or_default())?;
        }
        Ok(())
    }
}

fn place_line(place: &PlaceReport) -> String {
    let reasons: Vec<String> = place
        .reasons
        .iter()
        .map(|(why, times)| format!("{why} ×{times}"))
        .collect();
    let because = if reasons.is_empty() {
        String::new()
    } else {
        format!(" ({})", reasons.join(", "))
    };
    format!(
        "{}: {} morsels, {} rows, {} bytes{because}",
        place.place, place.morsels, place.rows, place.bytes
    )
}

/// Says how well a place's claims were estimated, and what went otherwise than planned; `None` if
/// nothing was claimed.
fn claims_line(place: &PlaceReport) -> Option<String> {
    let ClaimStats {
        claims,
        estimated_seconds,
        seconds,
        ..
    } = place.claim_stats;
    let mut parts = Vec::new();
    if claims > 0 {
        let claims = match claims {
            1 => "1 claim".to_string(),
            _ => format!("{claims} claims"),
        };
        parts.push(format!(
            "{claims} took {:.1} ms with reading and waiting, estimated {:.1} ms",
            seconds * 1e3,
            estimated_seconds * 1e3
        ));
    }
    parts.extend(
        named_setbacks(&place.setbacks)
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| format!("{} {count}", name.replace('_', " "))),
    );
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Names what may go otherwise than planned.
pub(crate) fn named_setbacks(setbacks: &Setbacks) -> [(&'static str, u64); 5] {
    [
        ("retries", setbacks.retries),
        ("splits", setbacks.splits),
        ("flushes", setbacks.flushes),
        ("waits", setbacks.waits),
        ("evicted_bytes", setbacks.evicted_bytes),
    ]
}

/// Reads what the host did from the metrics of a chain that ran as planned: each of its leaf's
/// partitions that gave rows counts as a morsel.
fn host_report(region: &Region, host: &Arc<dyn ExecutionPlan>) -> Option<PlaceReport> {
    let mut leaf = host;
    while let [input] = leaf.children().as_slice() {
        leaf = input;
    }
    let metrics = leaf.metrics().unwrap_or_default();
    let (rows, morsels) = match metrics.output_rows() {
        Some(rows) => {
            let partitions = metrics.iter().filter(
                |metric| matches!(metric.value(), MetricValue::OutputRows(rows) if rows.value() > 0),
            );
            (rows as u64, partitions.count() as u64)
        }
        None => (rows_of_unmetered(leaf, host)?, 1),
    };
    let busy = host
        .metrics()
        .and_then(|metrics| metrics.elapsed_compute())
        .unwrap_or(0);
    let bytes = metrics
        .sum_by_name("bytes_scanned")
        .map_or(0, |bytes| bytes.as_usize() as u64);
    let seconds = Duration::from_nanos(busy as u64).as_secs_f64();
    let reasons = region.reasons.iter();
    Some(PlaceReport {
        reasons: reasons.map(|reason| (reason.to_string(), 1)).collect(),
        ..PlaceReport::new(Place::Host.to_string(), morsels, rows, bytes, seconds)
    })
}

/// Returns the rows of a leaf that keeps no metrics, such as a memory table, once its chain has run.
fn rows_of_unmetered(leaf: &Arc<dyn ExecutionPlan>, chain: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    chain.metrics()?.output_rows()?;
    let scan = leaf.downcast_ref::<DataSourceExec>()?;
    let statistics = scan.data_source().partition_statistics(None).ok()?;
    match statistics.num_rows {
        Precision::Exact(rows) => Some(rows as u64),
        _ => None,
    }
}

/// Makes EXPLAIN ANALYZE's metrics of a report: the same names whatever ran where.
pub(super) fn metrics(report: &RegionReport) -> MetricsSet {
    let mut metrics = MetricsSet::new();
    let mut count = |name: String, value: u64| {
        let count = Count::new();
        count.add(value as usize);
        let value = MetricValue::Count {
            name: name.into(),
            count,
        };
        metrics.push(Arc::new(Metric::new(value, None)));
    };
    let is_host = |place: &&PlaceReport| place.place == "host";
    let sides = [
        (
            "host",
            report.places.iter().filter(is_host).collect::<Vec<_>>(),
        ),
        (
            "device",
            report
                .places
                .iter()
                .filter(|place| !is_host(place))
                .collect(),
        ),
    ];
    for (side, places) in &sides {
        count(
            format!("{side}_morsels"),
            places.iter().map(|place| place.morsels).sum(),
        );
        count(
            format!("{side}_rows"),
            places.iter().map(|place| place.rows).sum(),
        );
        count(
            format!("{side}_bytes"),
            places.iter().map(|place| place.bytes).sum(),
        );
    }
    let mut setbacks = Setbacks::default();
    report
        .places
        .iter()
        .for_each(|place| setbacks += place.setbacks);
    for (name, times) in named_setbacks(&setbacks) {
        count(name.into(), times);
    }
    let mut time = |name: String, seconds: f64| {
        let time = Time::new();
        time.add_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        let name = name.into();
        metrics.push(Arc::new(Metric::new(
            MetricValue::Time { name, time },
            None,
        )));
    };
    for (side, places) in &sides {
        let seconds = places.iter().map(|place| place.seconds).sum();
        time(format!("{side}_time"), seconds);
        let claimed = places.iter().map(|place| place.claim_stats.seconds).sum();
        time(format!("{side}_claimed_time"), claimed);
        let estimated = places
            .iter()
            .map(|place| place.claim_stats.estimated_seconds);
        time(format!("{side}_estimated_time"), estimated.sum());
    }
    time("plan_time".into(), report.plan_seconds);
    for (phase, seconds) in named(&report.phases()) {
        time(format!("{phase}_time"), seconds);
    }
    metrics
}

/// Names the phases of a device's work in their order.
pub(crate) fn named(phases: &Phases) -> [(&'static str, f64); 5] {
    [
        ("compile", phases.compile),
        ("upload", phases.upload),
        ("queue", phases.queue),
        ("kernel", phases.kernel),
        ("download", phases.download),
    ]
}
