//! `tidegate report`: how one query ran, as one page that needs nothing else.

mod page;
mod stream;

use std::path::Path;

use arrow::array::AsArray;
use arrow::record_batch::RecordBatch;
use futures::TryStreamExt;
use serde_json::Value;
use tidegate::{Error, Session};
use tokio::runtime::Handle;

use crate::args::ReportArgs;
use crate::console;
use crate::exit::{DONE, FAILED};
use crate::failure::Failure;
use crate::signals::{Heard, Signals};
use page::Page;

/// Runs a query and writes the page; returns the exit status.
pub(crate) async fn run(session: &Session, workers: &Handle, asked: &ReportArgs) -> u8 {
    let mut signals = Signals::new(Heard::InterruptOrTerminate);
    let (session, query) = (session.clone(), asked.query.clone());
    let mut task = workers.spawn(async move { page_of(&session, &query).await });
    let page = tokio::select! {
        done = &mut task => done.unwrap_or_else(|error| Err(Failure::join(&error))),
        signal = signals.next() => {
            task.abort();
            Err(Failure::Stopped(signal))
        }
    };
    match page.and_then(|page| written(&page, &asked.output)) {
        Ok(()) => {
            console::note(format_args!("the report is in {}", asked.output.display()));
            DONE
        }
        Err(Failure::Stopped(signal)) => {
            console::error(Failure::Stopped(signal), None);
            signal.status()
        }
        Err(failure) => {
            console::error(failure, None);
            FAILED
        }
    }
}

fn written(page: &str, file: &Path) -> Result<(), Failure> {
    std::fs::write(file, page)
        .map_err(|error| Failure::Format(format!("cannot write {}: {error}", file.display())))
}

/// Runs the query once, and makes the page of what is known of it then.
async fn page_of(session: &Session, query: &str) -> Result<String, Failure> {
    let query = query.trim().trim_end_matches(';');
    let profile = format!("EXPLAIN ANALYZE FORMAT JSON {query}");
    let rows = session.execute(&profile).await?;
    let batches: Vec<RecordBatch> = rows.try_collect().await.map_err(Error::from)?;
    let plan = batches.first().and_then(|batch| batch.columns().get(1));
    let text = plan.and_then(|plan| Some(plan.as_string_opt::<i32>()?.value(0)));
    let profile: Value = serde_json::from_str(text.unwrap_or_default())
        .map_err(|error| Failure::Format(format!("the profile cannot be read: {error}")))?;
    let report = session.last_report();
    let page = Page {
        query,
        profile: &profile,
        report: report.as_ref(),
    };
    Ok(page.to_string())
}
