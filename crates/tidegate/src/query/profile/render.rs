//! A plan that has run, as text.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::common::format::ExplainFormat;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use serde::Serialize;
use tidegate_scheduler::PlaceReport;

use super::{OperatorReport, Wanted};
use crate::query::regions;
use crate::region::verdict::verdict;

/// The least time that was measured and not only begun.
const TIME_MIN_NANOS: usize = 1_000;

/// Characters of an operator's line in a tree.
const LINE_CHARS: usize = 72;

/// What there is to tell of a plan.
#[derive(Serialize)]
struct Profile {
    /// Where most of the rows ran.
    verdict: String,
    /// Rows that the query returns.
    rows: u64,
    /// Seconds from beginning to end.
    seconds: f64,
    plan: OperatorReport,
}

/// Writes a plan that has run in a format.
pub(super) fn written(
    plan: &Arc<dyn ExecutionPlan>,
    format: &ExplainFormat,
    wanted: &Wanted,
    rows: u64,
    seconds: f64,
) -> Result<String> {
    let profile = Profile {
        verdict: verdict(&regions(plan)),
        rows,
        seconds,
        plan: OperatorReport::of(plan),
    };
    match format {
        ExplainFormat::PostgresJSON => {
            let json = serde_json::to_string_pretty(&profile);
            json.map_err(|error| DataFusionError::External(Box::new(error)))
        }
        ExplainFormat::Graphviz => Ok(profile.graph()),
        ExplainFormat::Indent => Ok(profile.lines(plan, wanted)),
        _ => Ok(profile.tree()),
    }
}

impl OperatorReport {
    /// Says what it is, and for a region where it ran.
    fn line(&self) -> String {
        let ran: Vec<&PlaceReport> = self.places.iter().filter(|place| place.rows > 0).collect();
        let total: u64 = ran.iter().map(|place| place.rows).sum();
        if total > 0 {
            let share = |place: &&PlaceReport| {
                let percent = place.rows as f64 * 100.0 / total as f64;
                format!("{} {percent:.0} %", place.place)
            };
            let shares: Vec<String> = ran.iter().map(share).collect();
            return format!("region: {}", shares.join(", "));
        }
        match self.details.is_empty() {
            true => self.operator.clone(),
            false => format!("{}: {}", self.operator, self.details),
        }
    }

    /// Says where it ran, for the colour of a graph.
    fn colour(&self) -> &'static str {
        let on = |is_host: bool| {
            let mut places = self.places.iter();
            places.any(|place| place.rows > 0 && (place.place == "host") == is_host)
        };
        match (on(true), on(false)) {
            (_, false) => "#dbe9f6",
            (false, true) => "#c7e9c0",
            (true, true) => "#fdd9a0",
        }
    }
}

impl Profile {
    /// Says where most of the rows ran, how many there are and how long it took.
    fn head(&self) -> String {
        let rows = match self.rows {
            1 => "1 row".to_string(),
            rows => format!("{} rows", grouped(rows)),
        };
        format!("{}\n{rows} in {}\n\n", self.verdict, time(self.seconds))
    }

    fn lines(&self, plan: &Arc<dyn ExecutionPlan>, wanted: &Wanted) -> String {
        let mut text = self.head();
        push_lines(&mut text, plan, wanted, 0);
        text
    }

    fn tree(&self) -> String {
        let mut text = self.head();
        let _ = writeln!(text, "{:>14} {:>11}  operator", "rows", "time");
        push_tree(&mut text, &self.plan, "", "");
        text.trim_end().to_string()
    }

    fn graph(&self) -> String {
        let mut text = String::from("digraph {\n  node [shape=box, style=filled]\n");
        let _ = writeln!(text, "  label=\"{}\"", escaped(&self.verdict));
        push_graph(&mut text, &self.plan, &mut 0);
        text.push('}');
        text
    }
}

/// Writes an operator with its measures, and those below it.
fn push_lines(text: &mut String, plan: &Arc<dyn ExecutionPlan>, wanted: &Wanted, depth: usize) {
    let line = displayable(plan.as_ref()).one_line().to_string();
    let metrics = plan.metrics().unwrap_or_default().aggregate_by_name();
    let metrics = metrics.timestamps_removed().sorted_for_display();
    let mut metrics = metrics.filter_by_metric_types(&wanted.types);
    if let Some(categories) = &wanted.categories {
        metrics = metrics.filter_by_categories(categories);
    }
    let measured = metrics.iter().filter(|metric| tells(metric.value()));
    let measured: Vec<String> = measured.map(ToString::to_string).collect();
    let _ = writeln!(
        text,
        "{:depth$}{}, metrics=[{}]",
        "",
        line.trim_end(),
        measured.join(", "),
        depth = 2 * depth
    );
    for input in plan.children() {
        push_lines(text, input, wanted, depth + 1);
    }
}

/// Tells whether a measure says anything: that nothing was spilled or pruned is what one expects, and each
/// measure of time begins with a nanosecond for each thread.
fn tells(value: &MetricValue) -> bool {
    match value {
        MetricValue::OutputRows(_) => true,
        MetricValue::ElapsedCompute(time) | MetricValue::Time { time, .. } => {
            time.value() >= TIME_MIN_NANOS
        }
        MetricValue::PruningMetrics {
            pruning_metrics, ..
        } => pruning_metrics.pruned() > 0,
        MetricValue::Ratio { ratio_metrics, .. } => ratio_metrics.total() > 0,
        MetricValue::Custom { .. } => true,
        other => other.as_usize() > 0,
    }
}

fn push_tree(text: &mut String, operator: &OperatorReport, before: &str, below: &str) {
    let rows = operator.rows.map_or_else(String::new, grouped);
    let seconds = operator.seconds.map_or_else(String::new, time);
    let line = format!("{before}{}", operator.line());
    let _ = writeln!(text, "{rows:>14} {seconds:>11}  {}", cut(&line));
    for (place, input) in operator.inputs.iter().enumerate() {
        let is_last = place + 1 == operator.inputs.len();
        let (branch, rest) = if is_last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        push_tree(
            text,
            input,
            &format!("{below}{branch}"),
            &format!("{below}{rest}"),
        );
    }
}

/// Writes an operator and those below it; returns its number.
fn push_graph(text: &mut String, operator: &OperatorReport, next: &mut usize) -> usize {
    let number = *next;
    *next += 1;
    let rows = operator
        .rows
        .map(|rows| format!("\\n{} rows", grouped(rows)));
    let seconds = operator
        .seconds
        .map(|seconds| format!("\\n{}", time(seconds)));
    let _ = writeln!(
        text,
        "  n{number} [label=\"{}{}{}\", fillcolor=\"{}\"]",
        escaped(&cut(&operator.line())),
        rows.unwrap_or_default(),
        seconds.unwrap_or_default(),
        operator.colour()
    );
    for input in &operator.inputs {
        let below = push_graph(text, input, next);
        let _ = writeln!(text, "  n{below} -> n{number}");
    }
    number
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_string(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1e-3 => format!("{:.0} µs", seconds * 1e6),
        _ if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
