//! Which losses cost a statement nothing.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::datatypes::Schema;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_distributed::{MaybeEncoded, ProducerHead, SetPlanRequest, TaskKey};
use tidegate::{ErrorKind, UnaryExec};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tonic::codegen::http::HeaderMap;
use url::Url;

use super::{Arrival, Movable, Watch, place_of};
use crate::channels::Channels;
use crate::links::Links;
use crate::members::Usable;
use crate::secret::Secret;
use crate::share::Share;
use crate::told::Told;

/// Where nobody listens.
fn url(executor: usize) -> Url {
    Url::parse(&format!("http://127.0.0.1:{}", executor + 1)).unwrap()
}

fn watch(executors: usize, retries: usize) -> Arc<Watch> {
    let executor = |number| Usable {
        name: format!("e{number}"),
        url: url(number),
        cores: 1,
        memory_limit: 1 << 30,
        gone: CancellationToken::new(),
    };
    let links = Links {
        secret: Secret::try_new(&[7; 32]).unwrap(),
        tls: None,
        insecure: false,
    };
    Arc::new(Watch::new(
        (1, 1),
        (0..executors).map(executor).collect(),
        Arc::new(crate::tasks::Tasks::new("test")),
        Arc::default(),
        Channels::new(Arc::new(links), Handle::current()),
        retries,
    ))
}

fn key(stage: usize, task: usize) -> TaskKey {
    TaskKey {
        query_id: Default::default(),
        stage_id: stage,
        task_number: task,
    }
}

fn leaf() -> Arc<dyn ExecutionPlan> {
    Arc::new(EmptyExec::new(Arc::new(Schema::empty())))
}

fn share() -> Arc<dyn ExecutionPlan> {
    Arc::new(UnaryExec(Share {
        inner: leaf(),
        number: 1,
        what: String::new(),
    }))
}

/// Sends a task to an executor.
fn begin(watch: &Watch, key: TaskKey, executor: usize, plan: Arc<dyn ExecutionPlan>) {
    let request = SetPlanRequest {
        task_key: key,
        task_count: 2,
        plan: MaybeEncoded::Decoded(plan),
        work_unit_feed_declarations: Vec::new(),
        target_worker_url: url(executor),
        query_start_time_ns: 0,
    };
    let ctx = Arc::new(TaskContext::default());
    watch.begin(&url(executor), &HeaderMap::new(), &request, &ctx);
}

fn read(watch: &Arc<Watch>, key: TaskKey, executor: usize) -> Option<Movable> {
    watch.read(key, &url(executor), ProducerHead::None, 2)
}

fn place(watch: &Watch, key: TaskKey) -> Url {
    watch.placed.lock().by_key[&place_of(key)].url.clone()
}

#[tokio::test]
async fn a_leaf_that_sent_nothing_moves() {
    let watch = watch(3, 1);
    for task in 0..3 {
        begin(&watch, key(1, task), task, share());
    }
    let movable = read(&watch, key(1, 0), 0).unwrap();
    assert!(read(&watch, key(1, 0), 0).is_none(), "it is read once");
    assert!(matches!(movable.arrive(false), Arrival::Taken));
    let movable = read(&watch, key(1, 1), 1).unwrap();
    assert!(!movable.has_moved());
    assert!(watch.mend("e1", "a test") && watch.mend(url(1).as_str(), "again"));
    assert!(movable.has_moved() && watch.is_mended("e1"));
    assert_eq!(place(&watch, key(1, 1)), url(0));
    // What still comes of it from the lost executor is nobody's.
    assert!(matches!(movable.arrive(true), Arrival::Moved));
    // Of the other something has arrived, and one loss was all.
    assert!(!watch.mend("e0", "a test") && !watch.is_mended("e0"));
}

#[tokio::test]
async fn first_rows_wait_for_every_task_to_be_accepted() {
    let watch = watch(2, 1);
    watch.accept();
    let mut both = std::pin::pin!(watch.all_accepted(2));
    assert!(futures::poll!(both.as_mut()).is_pending());
    watch.accept();
    both.await;
}

#[tokio::test]
async fn what_others_read_does_not_move() {
    let watch = watch(3, 3);
    begin(&watch, key(1, 0), 0, share());
    begin(&watch, key(2, 0), 2, leaf());
    let _ = read(&watch, key(2, 0), 2);
    for executor in ["e0", "e2", "e7"] {
        assert!(!watch.mend(executor, "a test"), "{executor}");
    }
}

#[tokio::test]
async fn an_executor_that_is_done_may_go() {
    let watch = watch(2, 1);
    begin(&watch, key(1, 1), 1, share());
    // It must not be sent other tasks then.
    let _ = read(&watch, key(1, 1), 1).map(|task| (task.arrive(true), task.arrive(true)));
    assert!(watch.mend("e1", "a test"));
    assert_eq!(watch.lost_already(), None);
    begin(&watch, key(3, 0), 1, share());
    assert!(!watch.is_mended("e1"));
    assert!(watch.lost_already().unwrap().is_lost());
}

#[tokio::test]
async fn tasks_do_not_move_without_end() {
    let watch = watch(3, 9);
    begin(&watch, key(1, 0), 0, share());
    let movable = read(&watch, key(1, 0), 0).unwrap();
    watch.note(&Told::new(ErrorKind::Lost, url(0).as_str(), "a test"));
    // Nobody listens: each that it is sent to is lost too, until none is left.
    let lost = tokio::time::timeout(Duration::from_secs(60), watch.lost());
    assert!(lost.await.unwrap().is_lost());
    let mut rows = movable.follow(0, None);
    let first = futures::StreamExt::next(&mut rows).await.unwrap();
    assert!(Told::find(&first.unwrap_err()).unwrap().is_lost());
    assert!(futures::StreamExt::next(&mut rows).await.is_none());
}
