//! Calls that run later: ten that are summed, and some that share a device's slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate::{Error, Query, Session, Task, TaskError, TaskGraph};

use super::{Outcome, Walk, expect, number};

/// Ten delayed calls of a function, and one of their results.
pub(super) async fn delayed(walk: Walk) -> Outcome {
    let session = walk.session().await?;
    let mut graph = TaskGraph::new();
    let names: Vec<String> = (0..10).map(|number| format!("call {number}")).collect();
    for (number, name) in (0_i64..).zip(&names) {
        graph.add(name.as_str(), [""; 0], move |_| {
            Ok::<i64, TaskError>(number + 1)
        });
    }
    let needed = names.clone();
    graph.add("total", names.iter().map(String::as_str), move |inputs| {
        let mut total = 0;
        for name in &needed {
            total += *inputs.get::<i64>(name)?;
        }
        Ok::<i64, Box<dyn std::error::Error + Send + Sync>>(total)
    });
    let handles = session.submit_graph(graph)?;
    let total = handles.get::<i64>("total").ok_or("there is no total")?;
    let total = *total.await.map_err(Error::from)?;
    println!("ten calls and their total: {total}");
    println!("closures run on the host's cores, with a GPU and without");
    expect("the total", total as f64, 55.0, 0.0)?;
    // Calls may be queries as well, and these run on a GPU.
    let size: i32 = if walk.full { 20_000 } else { 100 };
    let sql = format!("SELECT sum(x) FROM ones([{size}, {size}], chunks => 1000)");
    let queries = (0..10).map(|_| session.submit(Query::new(sql.as_str())));
    let queries = queries.collect::<Result<Vec<_>, _>>()?;
    let mut total = 0.0;
    for query in queries {
        total += number(&query.await.map_err(Error::from)?)?;
    }
    println!("ten queries and their total: {total}");
    walk.check_device(&session)?;
    expect("their total", total, 10.0 * f64::from(size).powi(2), 0.0)
}

/// Counts what runs at once.
#[derive(Default)]
struct AtOnce {
    now: AtomicU32,
    most: AtomicU32,
}

impl AtOnce {
    fn around(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tasks that take a device's one slot, beside tasks that take cores.
pub(super) async fn with_slots(walk: Walk) -> Outcome {
    walk.session().await?;
    let session = Session::builder()
        .task_slots("device", 1)
        .task_slots("cpu", 4)
        .build()?;
    let (device, cores) = (Arc::new(AtOnce::default()), Arc::new(AtOnce::default()));
    let mut handles = Vec::new();
    for number in 0..6 {
        let counted = Arc::clone(&device);
        let task = Task::call(move |_| {
            counted.around();
            Ok::<(), TaskError>(())
        });
        let task = task.named(format!("on the device {number}"));
        handles.push(session.submit(task.slots("cpu", 0).slots("device", 1))?);
    }
    for number in 0..24 {
        let counted = Arc::clone(&cores);
        let task = Task::call(move |_| {
            counted.around();
            Ok::<(), TaskError>(())
        });
        handles.push(session.submit(task.named(format!("on a core {number}")))?);
    }
    for handle in handles {
        handle.await.map_err(Error::from)?;
    }
    let (device, cores) = (
        device.most.load(Ordering::SeqCst),
        cores.most.load(Ordering::SeqCst),
    );
    println!("at once: {device} of the tasks that need the device, {cores} of the others");
    if session.runtime().devices().is_empty() {
        println!("no device here: its slot was kept all the same, as it would be with a GPU");
    }
    expect("what held the device's slot", f64::from(device), 1.0, 0.0)?;
    expect("what held cores", f64::from(cores), 2.5, 1.5)
}
