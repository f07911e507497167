//! `tidegate report`: how one query ran, as one page that needs nothing else.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::TryStreamExt;
use parking_lot::Mutex;
use tidegate::{Error, Session};
use tidegate_flight::{MemoryByTier, report_page};
use tokio::runtime::Handle;

use crate::args::ReportArgs;
use crate::console;
use crate::exit::{DONE, FAILED};
use crate::failure::Failure;
use crate::signals::{Heard, Signals};

/// Time between two looks at what the query does.
const STEP: Duration = Duration::from_millis(5);

/// Looks at the memory that are kept; of more, every second one goes.
const LOOKS_MAX: usize = 1_024;

/// Memory by time.
type Looks = Vec<(SystemTime, MemoryByTier)>;

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

/// Runs the query once, and makes the page of what was seen of it meanwhile.
async fn page_of(session: &Session, query: &str) -> Result<String, Failure> {
    session.watch_work();
    let before = session.last_report().map(|report| report.id);
    let looks = Arc::new(Mutex::new(Looks::new()));
    let watching = tokio::spawn(look(session.clone(), Arc::clone(&looks)));
    let ran = drained(session, query).await;
    watching.abort();
    ran?;
    let last = session.last_report().map(|report| report.id);
    let ran = last.filter(|last| Some(*last) != before);
    let told = ran.and_then(|id| session.profile(id));
    let Some((report, profile)) = told else {
        let message = "the statement ran no query: there is nothing to report";
        return Err(Failure::Format(message.into()));
    };
    let began = profile.began.unwrap_or(report.started);
    let looks = std::mem::take(&mut *looks.lock());
    let looks: Vec<_> = looks
        .into_iter()
        .filter_map(|(at, memory)| Some((at.duration_since(began).ok()?.as_secs_f64(), memory)))
        .filter(|(at, _)| *at <= report.seconds)
        .collect();
    Ok(report_page(&report, &profile, &looks))
}

/// Runs a statement to its last row.
async fn drained(session: &Session, query: &str) -> Result<(), Error> {
    let mut rows = session.execute(query).await?;
    while rows.try_next().await?.is_some() {}
    Ok(())
}

/// Looks at what runs and at the memory, for ever.
async fn look(session: Session, looks: Arc<Mutex<Looks>>) {
    loop {
        session.work();
        let memory = MemoryByTier::of(&session.memory());
        {
            let mut looks = looks.lock();
            if looks.len() == LOOKS_MAX {
                let mut place = 0;
                looks.retain(|_| {
                    place += 1;
                    place % 2 == 0
                });
            }
            looks.push((SystemTime::now(), memory));
        }
        tokio::time::sleep(STEP).await;
    }
}
