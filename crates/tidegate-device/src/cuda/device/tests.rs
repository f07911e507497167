//! A thread is waited for but not for ever.

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::join_within;

#[test]
fn a_thread_is_waited_for_but_not_for_ever() {
    let (go, wait) = mpsc::channel::<()>();
    let stuck = thread::spawn(move || {
        let _ = wait.recv();
    });
    assert!(!join_within(stuck, Duration::from_millis(5)));
    drop(go);
    let quick = thread::spawn(|| thread::sleep(Duration::from_millis(5)));
    assert!(join_within(quick, Duration::from_secs(60)));
}

#[test]
fn a_thread_does_not_wait_for_itself() {
    let own: Arc<Mutex<Option<JoinHandle<()>>>> = Arc::default();
    let (told, hear) = mpsc::channel();
    let held = Arc::clone(&own);
    let (go, wait) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        let _ = wait.recv();
        let own = held.lock().unwrap().take().unwrap();
        told.send(join_within(own, Duration::from_secs(60)))
            .unwrap();
    });
    *own.lock().unwrap() = Some(thread);
    go.send(()).unwrap();
    assert!(!hear.recv_timeout(Duration::from_secs(30)).unwrap());
}
