//! The host's threads that encode for a device.
//!
//! They begin when there is work, and then wait for more: what begins a thread for each morsel spends the
//! time there that several threads gain. Two of the cores are left to the device's own thread and to whoever
//! reads the next rows; as many threads as there are cores encode no faster. Each device has its own, for
//! they wait for its slots.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};

/// Cores that are left to others.
const CORES_LEFT: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that do what they are given, in its order.
pub(crate) struct Threads(Arc<Office>);

struct Office {
    num_threads_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    num_threads: usize,
    /// Threads that wait for a job.
    num_idle: usize,
    /// Nobody is left who could give them any.
    is_closed: bool,
}

impl Threads {
    /// Makes as many as this host has cores to spare.
    pub(crate) fn of_host() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self::new(cores.saturating_sub(CORES_LEFT))
    }

    /// Makes so many at the most.
    pub(crate) fn new(num_threads_max: usize) -> Self {
        Self(Arc::new(Office {
            num_threads_max: num_threads_max.max(1),
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Has a job done, after those that were given before. Does not block, unless the system gives no
    /// thread: then it is done here.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let office = &self.0;
        let mut state = office.state.lock();
        state.jobs.push_back(Box::new(job));
        if state.num_idle >= state.jobs.len() || state.num_threads == office.num_threads_max {
            drop(state);
            office.changed.notify_one();
            return;
        }
        state.num_threads += 1;
        drop(state);
        let own = Arc::clone(office);
        let thread = thread::Builder::new().name("tidegate-encode".to_owned());
        if thread.spawn(move || own.work()).is_err() {
            let mut state = office.state.lock();
            state.num_threads -= 1;
            let is_alone = state.num_threads == 0;
            drop(state);
            if is_alone {
                while let Some(job) = office.next_at_once() {
                    do_it(job);
                }
            }
        }
    }
}

#[cfg(test)]
impl Threads {
    /// Returns whether all that was given is done.
    pub(crate) fn are_idle(&self) -> bool {
        let state = self.0.state.lock();
        state.jobs.is_empty() && state.num_idle == state.num_threads
    }
}

impl Office {
    fn work(&self) {
        while let Some(job) = self.next() {
            do_it(job);
        }
    }

    fn next_at_once(&self) -> Option<Job> {
        self.state.lock().jobs.pop_front()
    }

    /// Waits for the next job; `None` if none will come.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.num_idle += 1;
            self.changed.wait(&mut state);
            state.num_idle -= 1;
        }
    }
}

/// A job that panics has told so to whoever waits for it, by what it dropped.
fn do_it(job: Job) {
    let _ = catch_unwind(AssertUnwindSafe(job));
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc;
    use std::thread;

    use super::Threads;

    #[test]
    fn jobs_share_a_few_threads_that_stay() {
        let threads = Threads::new(3);
        let (sender, done) = mpsc::channel();
        let mut seen = HashSet::new();
        for round in 0..20 {
            for job in 0..8 {
                let sender = sender.clone();
                threads.run(move || {
                    if job == 5 {
                        panic!("one of them fails");
                    }
                    sender.send((round, thread::current().id())).unwrap();
                });
            }
            for _ in 0..7 {
                let (of_round, thread) = done.recv().unwrap();
                assert_eq!(of_round, round);
                seen.insert(thread);
            }
        }
        assert!((1..=3).contains(&seen.len()), "{}", seen.len());
        assert!(!seen.contains(&thread::current().id()));
    }

    #[test]
    fn what_was_given_is_done_also_after_the_last_handle_is_gone() {
        let (sender, done) = mpsc::channel();
        let threads = Threads::new(1);
        for job in 0..5 {
            let sender = sender.clone();
            threads.run(move || sender.send(job).unwrap());
        }
        drop((threads, sender));
        assert_eq!(done.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
