//! Lines keep their order whatever is held, and texts are compiled once at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures::FutureExt;
use futures::executor::block_on;
use parking_lot::Mutex;
use tidegate_device::Threads;

use super::{CompileQueue, Line};

const THREADS_MAX: usize = 4;
const LONG: Duration = Duration::from_secs(60);

#[test]
fn a_held_line_keeps_its_order() {
    let line = Line::default();
    for step in 1..=3 {
        line.push(step);
    }
    assert!(line.hold());
    line.drain(|step| panic!("{step} ran while the line was held"));
    assert_eq!(line.waiting().until(true).now_or_never(), Some(()));
    assert_eq!(line.waiting().until(false).now_or_never(), None);
    line.push(4);
    assert!(!line.hold());
    assert_eq!(line.release(), 4);
    let mut all = Vec::new();
    line.drain(|step| all.push(step));
    assert_eq!(all, [1, 2, 3, 4]);
    assert!(line.hold());
    line.push(5);
    line.clear();
    assert_eq!(line.release(), 0);
}

#[test]
fn who_listens_hears_of_both_changes() {
    let line: Arc<Line<u8>> = Arc::default();
    let (told, heard) = mpsc::channel();
    let waiting = Arc::clone(line.waiting());
    let listener = std::thread::spawn(move || {
        for waits in [true, false] {
            block_on(waiting.until(waits));
            told.send(waits).unwrap();
        }
    });
    line.hold();
    assert!(heard.recv_timeout(LONG).unwrap());
    line.release();
    assert!(!heard.recv_timeout(LONG).unwrap());
    listener.join().unwrap();
}

#[test]
fn a_text_is_compiled_once_for_all_who_ask() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let compiled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&compiled);
    let threads = CompileQueue::new(
        Threads::new("test", THREADS_MAX),
        move |text: &str| {
            gate.lock().recv_timeout(LONG).unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            text.len()
        },
        LONG,
    );
    let (told, heard) = mpsc::channel();
    let text: Arc<str> = "kernel".into();
    for asker in 0..5 {
        let told = told.clone();
        threads.ask(
            &text,
            Box::new(move |length| told.send((asker, length.copied())).unwrap()),
        );
    }
    open.send(()).unwrap();
    let answers: Vec<_> = (0..5).map(|_| heard.recv_timeout(LONG).unwrap()).collect();
    assert_eq!(answers, [0, 1, 2, 3, 4].map(|asker| (asker, Some(6))));
    assert_eq!(compiled.load(Ordering::SeqCst), 1);
}

#[test]
fn more_texts_than_threads_are_all_compiled_and_a_panic_is_heard_of() {
    let threads = CompileQueue::new(
        Threads::new("test", THREADS_MAX),
        |text: &str| {
            assert_ne!(text, "7", "a test");
            text.to_owned()
        },
        LONG,
    );
    let (told, heard) = mpsc::channel();
    for number in 0..3 * THREADS_MAX {
        let told = told.clone();
        let text: Arc<str> = number.to_string().into();
        let then = move |compiled: Option<&String>| told.send((number, compiled.cloned())).unwrap();
        threads.ask(&text, Box::new(then));
    }
    let answers = (0..3 * THREADS_MAX).map(|_| heard.recv_timeout(LONG).unwrap());
    let mut answers: Vec<_> = answers.collect();
    answers.sort_unstable();
    let expected = |number: usize| (number, (number != 7).then(|| number.to_string()));
    let expected: Vec<_> = (0..3 * THREADS_MAX).map(expected).collect();
    assert_eq!(answers, expected);
}

#[test]
fn who_ends_waits_for_the_compiler() {
    let (began, begins) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let ends = Mutex::new((began, gate));
    let compiled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&compiled);
    let threads = CompileQueue::new(
        Threads::new("test", THREADS_MAX),
        move |_: &str| {
            let ends = ends.lock();
            ends.0.send(()).unwrap();
            ends.1.recv_timeout(LONG).unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
        },
        LONG,
    );
    threads.ask(&"kernel".into(), Box::new(|_| {}));
    begins.recv_timeout(LONG).unwrap();
    let ending = std::thread::spawn(move || drop(threads));
    open.send(()).unwrap();
    ending.join().unwrap();
    assert_eq!(compiled.load(Ordering::SeqCst), 1);
}

#[test]
fn who_ends_waits_neither_for_ever_nor_for_what_was_not_begun() {
    let (began, begins) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let (began, gate) = (Mutex::new(began), Mutex::new(gate));
    let threads = CompileQueue::new(
        Threads::new("test", THREADS_MAX),
        move |_: &str| {
            began.lock().send(()).unwrap();
            // Whoever opens drops the other end.
            let _ = gate.lock().recv();
        },
        Duration::from_millis(1),
    );
    for number in 0..3 * THREADS_MAX {
        threads.ask(&number.to_string().into(), Box::new(|_| {}));
    }
    begins.recv_timeout(LONG).unwrap();
    drop(threads);
    drop(open);
    // The last thread that ends drops the other end.
    let begun = 1 + begins.iter().count();
    assert!(begun <= THREADS_MAX, "{begun}");
}
