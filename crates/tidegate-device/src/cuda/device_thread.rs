//! The device's thread: does work in order, goes on with tasks that were woken, gives back what was dropped, and trims when idle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::commands::Next;
use super::engine::Engine;
use super::lane::Lane;
use super::options::CudaOptions;
use super::shared::{Command, Shared};
use super::tasks::Tasks;
use crate::info::DeviceInfo;

/// How often the device is asked whether it has copied what is in a slot, while nothing else comes.
const COPYING: Duration = Duration::from_micros(30);
/// Memory that is free in the pool for so long goes back to the system.
const IDLE: Duration = Duration::from_secs(3);

/// Opens the device, tells how that went, and serves it until nobody holds a handle.
pub(super) fn run(
    ordinal: u32,
    info: DeviceInfo,
    options: &CudaOptions,
    opened: &Sender<Result<Arc<Shared>, String>>,
) {
    // The bindings panic where a library is not what it seems.
    let engine = catch_unwind(AssertUnwindSafe(|| Engine::open(ordinal, info, options)))
        .unwrap_or_else(|_| Err("its driver does not answer as a driver does".to_owned()));
    let engine = match engine {
        Ok(engine) => engine,
        Err(why) => {
            // Whoever opens the device waits for this, or is gone.
            let _ = opened.send(Err(why));
            return;
        }
    };
    // However the thread ends, nobody is left waiting.
    let _end = End(&engine);
    if opened.send(Ok(Arc::clone(engine.shared()))).is_ok() {
        serve(&engine);
    }
}

fn serve(engine: &Engine) {
    let shared = engine.shared();
    let mut tasks = Tasks::new(shared);
    // Waiting has an end only while there may be something to trim.
    let mut timeout = None;
    loop {
        match shared.commands.next(timeout) {
            Next::End => return,
            Next::Idle => {
                let is_copying = timeout == Some(COPYING);
                timeout = match engine.recycle() {
                    true => Some(COPYING),
                    false if is_copying => Some(IDLE),
                    false => (!engine.rest()).then_some(IDLE),
                };
                continue;
            }
            Next::Command(Command::Garbage(garbage)) => engine.give_back(garbage),
            Next::Command(Command::Work(job)) => match shared.check_alive() {
                Err(lost) => job.fail(lost),
                Ok(()) => job.run(&Lane::new(engine)),
            },
            Next::Command(Command::Task(task)) => match shared.check_alive() {
                Err(lost) => task.fail(lost),
                Ok(()) => tasks.begin(task.start(Lane::new(engine))),
            },
            Next::Command(Command::Wake(number)) => tasks.wake(number),
        }
        engine.collect();
        timeout = Some(if engine.recycle() { COPYING } else { IDLE });
    }
}

/// Ends the queue when it is dropped.
struct End<'a>(&'a Engine);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let shared = self.0.shared();
        for command in shared.commands.end() {
            match command {
                Command::Garbage(garbage) => self.0.give_back(garbage),
                Command::Work(job) => job.fail(shared.lose("its thread ended".to_owned())),
                Command::Task(task) => task.fail(shared.lose("its thread ended".to_owned())),
                Command::Wake(_) => {}
            }
        }
        self.0.collect();
    }
}
