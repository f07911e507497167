//! Tasks by themselves: order, slots, memory, failure, cancelling, graphs, and many of them.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{
    BodyError, Executor, ExecutorOptions, GraphError, Phase, Task, TaskError, TaskGraph, TaskMemory,
};

const LONG: Duration = Duration::from_secs(20);

/// Memory that also others take.
#[derive(Default)]
struct Bytes {
    limit: u64,
    used: Arc<AtomicU64>,
}

struct Taken(u64, Arc<AtomicU64>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0, Ordering::SeqCst);
    }
}

impl TaskMemory for Bytes {
    fn limit_bytes(&self) -> u64 {
        self.limit
    }

    fn try_reserve(&self, _: &str, bytes: u64) -> Option<Box<dyn Any + Send>> {
        let fits = |used| (used + bytes <= self.limit).then_some(used + bytes);
        let used = self
            .used
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits);
        used.is_ok()
            .then(|| Box::new(Taken(bytes, Arc::clone(&self.used))) as Box<dyn Any + Send>)
    }
}

fn executor(slots: &[(&str, u32)]) -> Executor {
    with_memory(
        slots,
        Bytes {
            limit: 1000,
            used: Arc::default(),
        },
        LONG,
    )
}

fn with_memory(slots: &[(&str, u32)], memory: Bytes, memory_wait: Duration) -> Executor {
    Executor::new(ExecutorOptions {
        slots: slots
            .iter()
            .map(|(name, count)| ((*name).into(), *count))
            .collect(),
        memory: Arc::new(memory),
        memory_wait,
    })
}

fn value<T: Send + Sync + Clone + 'static>(value: T) -> Task<T> {
    Task::call(move |_| Ok::<T, BodyError>(value.clone()))
}

async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(LONG, future).await.unwrap()
}

/// A task that holds what it takes until it is let go.
fn holding(name: &str) -> (Task<()>, std::sync::mpsc::Sender<()>) {
    let (let_go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let task = Task::call(move |_| {
        wait.lock().recv_timeout(LONG)?;
        Ok::<(), BodyError>(())
    });
    (task.named(name), let_go)
}

#[tokio::test(flavor = "multi_thread")]
async fn values_go_on_to_later_tasks() {
    let executor = executor(&[("cpu", 2)]);
    let one = executor.submit(value(20_i64)).unwrap();
    let two = executor
        .submit(Task::future(|_| async { Ok::<i64, BodyError>(22) }))
        .unwrap();
    let (left, right) = (one.clone(), two.clone());
    let sum = Task::call(move |_| {
        let (left, right) = (left.result().unwrap()?, right.result().unwrap()?);
        Ok::<i64, TaskError>(*left + *right)
    });
    let sum = executor
        .submit(sum.after([one.task(), two.task()]))
        .unwrap();
    assert_eq!(*within(sum.clone()).await.unwrap(), 42);
    assert_eq!(*within(sum.clone()).await.unwrap(), 42);
    assert_eq!(sum.progress().phase, Phase::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_highest_priority_goes_first_then_the_oldest() {
    let executor = executor(&[("cpu", 1)]);
    let (first, let_go) = holding("first");
    let first = executor.submit(first).unwrap();
    let order: Arc<Mutex<Vec<u32>>> = Arc::default();
    let mut handles = Vec::new();
    for (number, priority) in [(1, 0), (2, 5), (3, 0), (4, -1), (5, 5)] {
        let order = Arc::clone(&order);
        let note = Task::call(move |_| {
            order.lock().push(number);
            Ok::<(), BodyError>(())
        });
        handles.push(executor.submit(note.priority(priority)).unwrap());
    }
    let_go.send(()).unwrap();
    within(first).await.unwrap();
    for handle in handles {
        within(handle).await.unwrap();
    }
    assert_eq!(*order.lock(), [2, 5, 1, 3, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_bound_what_runs_at_once_and_leave_the_rest_busy() {
    let executor = executor(&[("cpu", 2), ("device", 1)]);
    let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut handles = Vec::new();
    for _ in 0..20 {
        let (running, most) = (Arc::clone(&running), Arc::clone(&most));
        let task = Task::call(move |_| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
            running.fetch_sub(1, Ordering::SeqCst);
            Ok::<(), BodyError>(())
        });
        handles.push(
            executor
                .submit(task.slots("cpu", 0).slots("device", 1))
                .unwrap(),
        );
    }
    // The one slot of the device is taken for a while; tasks of the cores do not wait for it.
    let other = executor.submit(value(1_u8)).unwrap();
    within(other).await.unwrap();
    for handle in handles {
        within(handle).await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_task_waits_for_is_kept_for_it() {
    let executor = executor(&[("cpu", 4), ("device", 2)]);
    let device = |task: Task<()>, count| task.slots("device", count);
    let (one, let_one_go) = holding("one");
    let one = executor.submit(device(one, 1)).unwrap();
    while one.progress().phase != Phase::Running {
        tokio::task::yield_now().await;
    }
    let both = executor.submit(device(value(()), 2)).unwrap();
    let later = executor.submit(device(value(()), 1)).unwrap();
    let elsewhere = executor.submit(value(())).unwrap();
    within(elsewhere).await.unwrap();
    assert_eq!(both.progress().phase, Phase::Ready);
    assert_eq!(later.progress().phase, Phase::Ready);
    let_one_go.send(()).unwrap();
    within(both).await.unwrap();
    within(later).await.unwrap();
    within(one).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_reserved_before_a_task_runs() {
    let used: Arc<AtomicU64> = Arc::default();
    let memory = Bytes {
        limit: 1000,
        used: Arc::clone(&used),
    };
    let executor = with_memory(&[("cpu", 4)], memory, LONG);
    let most: Arc<AtomicU64> = Arc::default();
    let mut handles = Vec::new();
    for _ in 0..10 {
        let (used, most) = (Arc::clone(&used), Arc::clone(&most));
        let task = Task::call(move |_| {
            most.fetch_max(used.load(Ordering::SeqCst), Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(2));
            Ok::<(), BodyError>(())
        });
        handles.push(executor.submit(task.memory(400)).unwrap());
    }
    for handle in handles {
        within(handle).await.unwrap();
    }
    let most = most.load(Ordering::SeqCst);
    assert!((400..=1000).contains(&most), "{most}");
    let error = executor
        .submit(value(()).memory(1001).named("huge"))
        .unwrap_err();
    assert!(
        error.to_string().starts_with("task huge needs 1001 bytes"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_others_hold_is_waited_for_and_not_for_ever() {
    let used: Arc<AtomicU64> = Arc::new(AtomicU64::new(900));
    let memory = || Bytes {
        limit: 1000,
        used: Arc::clone(&used),
    };
    let patient = with_memory(&[("cpu", 2)], memory(), LONG);
    let waiting = patient.submit(value(7).memory(200)).unwrap();
    let small = patient.submit(value(1)).unwrap();
    within(small).await.unwrap();
    assert_eq!(waiting.progress().phase, Phase::Ready);
    let hasty = with_memory(&[("cpu", 2)], memory(), Duration::from_millis(30));
    let refused = hasty.submit(value(7).memory(200).named("late")).unwrap();
    let error = within(refused).await.unwrap_err();
    assert!(matches!(error, TaskError::NoRoom { .. }), "{error}");
    used.fetch_sub(900, Ordering::SeqCst);
    assert_eq!(*within(waiting).await.unwrap(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_more_than_there_is_is_refused_at_once() {
    let executor = executor(&[("cpu", 2)]);
    let many = executor
        .submit(value(()).slots("cpu", 3).named("wide"))
        .unwrap_err();
    assert_eq!(
        many.to_string(),
        "task wide needs 3 slots of cpu, and there are 2 in all"
    );
    let other = executor.submit(value(()).slots("licence", 1)).unwrap_err();
    assert!(
        other.to_string().contains("none of that name, but of cpu"),
        "{other}"
    );
    let outside = std::thread::spawn(move || executor.submit(value(())).unwrap_err());
    assert!(matches!(
        outside.join().unwrap(),
        TaskError::NoRuntime { .. }
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_and_panics_are_tried_again_as_often_as_allowed() {
    let executor = executor(&[("cpu", 2)]);
    let flaky = |fails: u32| {
        Task::call(move |context| match context.attempt() {
            1 if fails > 0 => panic!("the first time"),
            attempt if attempt <= fails => Err(BodyError::from(format!("time {attempt}"))),
            attempt => Ok(attempt),
        })
        .named("flaky")
        .retries(2)
    };
    let third = executor.submit(flaky(2)).unwrap();
    assert_eq!(*within(third.clone()).await.unwrap(), 3);
    assert_eq!(third.progress().attempts, 3);
    let delayed = flaky(1).retry_delay(Duration::from_millis(5));
    assert_eq!(*within(executor.submit(delayed).unwrap()).await.unwrap(), 2);
    let error = within(executor.submit(flaky(3)).unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "task flaky failed: time 3");
    let mut tries = 0;
    let future = Task::future(move |_| {
        tries += 1;
        let tries = tries;
        async move {
            match tries {
                1 => panic!("in a future"),
                tries => Ok::<i32, BodyError>(tries),
            }
        }
    });
    assert_eq!(
        *within(executor.submit(future.retries(1)).unwrap())
            .await
            .unwrap(),
        2
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_its_handle_and_what_needs_it_and_nothing_else() {
    let executor = executor(&[("cpu", 2)]);
    let bad = Task::call(|_| -> Result<i32, BodyError> { panic!("no {}", "luck") });
    let bad = executor.submit(bad.named("bad")).unwrap();
    let next = executor
        .submit(value(1).named("next").after([bad.task()]))
        .unwrap();
    let last = executor
        .submit(value(1).named("last").after([next.task()]))
        .unwrap();
    let other = executor.submit(value(1)).unwrap();
    let error = within(bad.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "task bad panicked: no luck");
    let error = within(last).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "task last was not run: task bad panicked: no luck"
    );
    assert_eq!(*within(other).await.unwrap(), 1);
    // One that comes later than the failure.
    let late = executor.submit(value(1).after([bad.task()])).unwrap();
    assert!(matches!(within(late).await, Err(TaskError::NotRun { .. })));
    assert_eq!(next.progress().phase, Phase::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_stops_what_waits_a_future_and_a_closure_that_asks() {
    let executor = executor(&[("cpu", 1), ("other", 2)]);
    let apart = |task: Task<()>| task.slots("cpu", 0).slots("other", 1);
    let (first, let_go) = holding("first");
    let first = executor.submit(first).unwrap();
    let waiting = executor.submit(value(())).unwrap();
    waiting.cancel();
    assert!(matches!(
        within(waiting).await,
        Err(TaskError::Cancelled { .. })
    ));
    let sleeping = Task::future(|_| async {
        tokio::time::sleep(LONG * 10).await;
        Ok::<(), BodyError>(())
    });
    let sleeping = executor.submit(apart(sleeping)).unwrap();
    let asking = Task::call(|context| {
        let mut turns = 0;
        while !context.is_cancelled() {
            turns += 1;
            context.report(turns, 0);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok::<(), BodyError>(())
    });
    let asking = executor.submit(apart(asking)).unwrap();
    let after = executor.submit(value(()).after([sleeping.task()])).unwrap();
    while asking.progress().done < 3 || sleeping.progress().phase != Phase::Running {
        tokio::task::yield_now().await;
    }
    sleeping.cancel();
    asking.cancel();
    assert!(matches!(
        within(sleeping).await,
        Err(TaskError::Cancelled { .. })
    ));
    assert!(matches!(
        within(asking).await,
        Err(TaskError::Cancelled { .. })
    ));
    assert!(matches!(within(after).await, Err(TaskError::NotRun { .. })));
    let_go.send(()).unwrap();
    within(first.clone()).await.unwrap();
    // It has ended: nothing changes.
    first.cancel();
    within(first).await.unwrap();
    // What was held is free again.
    within(executor.submit(apart(value(())).slots("other", 2)).unwrap())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_run_in_the_order_of_their_needs() {
    let executor = executor(&[("cpu", 2)]);
    let mut graph = TaskGraph::new();
    graph
        .add("total", ["left", "right"], |inputs| {
            Ok::<i64, BodyError>(*inputs.get::<i64>("left")? + *inputs.get::<i64>("right")?)
        })
        .add("left", ["base"], |inputs| {
            Ok::<i64, BodyError>(*inputs.get::<i64>("base")? + 1)
        })
        .add("right", ["base"], |inputs| {
            Ok::<i64, BodyError>(*inputs.get::<i64>("base")? * 2)
        })
        .add("base", [""; 0], |_| Ok::<i64, BodyError>(10))
        .add("nosy", ["base"], |inputs| {
            inputs.get::<i64>("left").map(|value| *value)
        })
        .add("wrong", ["base"], |inputs| {
            inputs.get::<String>("base").map(|text| text.len())
        });
    let handles = graph.submit(&executor).unwrap();
    let total = handles.get::<i64>("total").unwrap();
    assert_eq!(*within(total).await.unwrap(), 31);
    let nosy = within(handles.get::<i64>("nosy").unwrap())
        .await
        .unwrap_err();
    assert!(
        nosy.to_string().contains("does not say that it needs left"),
        "{nosy}"
    );
    assert!(
        within(handles.get::<usize>("wrong").unwrap())
            .await
            .is_err()
    );
    assert!(
        within(handles.get::<String>("total").unwrap())
            .await
            .is_err()
    );
    assert_eq!(handles.names().count(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn graphs_that_cannot_run_say_why_and_run_nothing() {
    let executor = executor(&[("cpu", 2)]);
    let ran = Arc::new(AtomicU32::new(0));
    let graph = |edges: &[(&'static str, &[&'static str])]| {
        let mut graph = TaskGraph::new();
        for (name, needs) in edges {
            let ran = Arc::clone(&ran);
            graph.add(*name, needs.iter().copied(), move |_| {
                ran.fetch_add(1, Ordering::SeqCst);
                Ok::<(), BodyError>(())
            });
        }
        graph
    };
    let circle = graph(&[
        ("free", &[]),
        ("a", &["b"]),
        ("b", &["c", "free"]),
        ("c", &["a"]),
        ("d", &["a"]),
    ]);
    let error = circle.submit(&executor).unwrap_err();
    assert!(matches!(error, GraphError::Cycle { .. }));
    assert!(error.to_string().ends_with("a → b → c → a"), "{error}");
    let own = graph(&[("a", &["a"])]).submit(&executor).unwrap_err();
    assert!(own.to_string().ends_with("a → a"), "{own}");
    let unknown = graph(&[("a", &["z"])]).submit(&executor).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "task a needs z, which is no task of the graph"
    );
    let twice = graph(&[("a", &[]), ("a", &[])])
        .submit(&executor)
        .unwrap_err();
    assert_eq!(twice.to_string(), "two tasks are called a");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(graph(&[]).submit(&executor).unwrap().names().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_chain_and_its_failure_overflow_no_stack() {
    let executor = executor(&[("cpu", 2)]);
    for fails in [false, true] {
        let (first, let_go) = holding("first");
        let mut last = executor.submit(first).unwrap();
        for _ in 0..50_000 {
            last = executor.submit(value(()).after([last.task()])).unwrap();
        }
        if fails {
            drop(let_go);
            assert!(matches!(within(last).await, Err(TaskError::NotRun { .. })));
        } else {
            let_go.send(()).unwrap();
            within(last).await.unwrap();
        }
    }
}

/// In a release build a million take the time that the issue asks for; this machine's tests are not
/// built for speed.
#[tokio::test(flavor = "multi_thread")]
async fn many_small_tasks_cost_little() {
    let number: u32 = std::env::var("TIDEGATE_TASKS")
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(100_000);
    let executor = executor(&[("cpu", 2), ("device", 1)]);
    let sum = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut handles = Vec::with_capacity(number as usize);
    for task in 0..u64::from(number) {
        let sum = Arc::clone(&sum);
        let add = Task::call(move |_| {
            sum.fetch_add(task, Ordering::Relaxed);
            Ok::<(), BodyError>(())
        });
        handles.push(executor.submit(add).unwrap());
    }
    for handle in handles {
        tokio::time::timeout(LONG * 5, handle)
            .await
            .unwrap()
            .unwrap();
    }
    println!("{number} tasks in {:?}", began.elapsed());
    let number = u64::from(number);
    assert_eq!(sum.load(Ordering::Relaxed), number * (number - 1) / 2);
}
