//! Work of a user on a device's thread, with the device's stream.
//!
//! Which kernels it launches is known once it does. The first time it comes to one that is not compiled it
//! is put aside, as the steps of runs are, and begins again when the kernel is there.

use std::sync::Arc;

use futures::FutureExt;
use futures::channel::oneshot;
use tidegate_device::cuda::{Lane, LaunchShape};
use tidegate_device::{DeviceError, DeviceId, Reservation};

use super::steps::{Images, Step, Steps, post};
use super::{LaneMachine, Shared};
use crate::engine::{Machine, bytes_of_words};
use crate::program::Part;
use crate::stream::{DeviceStream, StreamWork, UnderWay};

/// Work with the memory that it may take.
struct UserWork {
    work: StreamWork,
    memory: Reservation,
    images: Images,
    /// `None` once it was told how the work has ended.
    sender: Option<oneshot::Sender<Result<(), DeviceError>>>,
}

impl Step for UserWork {
    fn attempt(&mut self, shared: &Shared, lane: &Lane<'_>) -> Vec<Arc<str>> {
        let machine = LaneMachine::not_waiting(shared, lane, &self.images);
        (self.work)(&DeviceStream::cuda(&machine, self.memory.bytes()));
        // What it has launched may still use the memory.
        let done = lane.synchronize();
        if done.is_ok() && machine.lacks_kernels() {
            return machine.into_lacking();
        }
        if let Some(sender) = self.sender.take() {
            // Nobody waiting is no failure: the work was to be done all the same.
            let _ = sender.send(done);
        }
        Vec::new()
    }

    fn hear(&mut self, images: Images) {
        self.images.extend(images);
    }
}

/// Runs work on the device's thread; its memory is held until it has ended.
pub(super) fn run(shared: &Arc<Shared>, memory: Reservation, work: StreamWork) -> UnderWay {
    let (sender, receiver) = oneshot::channel();
    let steps = Arc::new(Steps::default());
    steps.push(Box::new(UserWork {
        work,
        memory,
        images: Images::new(),
        sender: Some(sender),
    }));
    let waiting = Some(Arc::clone(steps.waiting()));
    let (posted, shared) = (post(shared, &steps), Arc::clone(shared));
    let done = async move {
        if let Ok(done) = receiver.await {
            return done;
        }
        posted.await?;
        shared.device.check_alive()?;
        Err(DeviceError::LaunchFailed {
            device: shared.device.info().id,
            launch: 0,
            why: "the work did not come to its end".into(),
        })
    };
    UnderWay {
        done: done.boxed(),
        waiting,
    }
}

impl LaneMachine<'_, '_> {
    /// Returns the device.
    pub(crate) fn device(&self) -> DeviceId {
        self.shared.device.info().id
    }

    /// Returns the device's thread.
    pub(crate) fn lane(&self) -> &Lane<'_> {
        self.lane
    }

    /// Launches a kernel that a user wrote.
    pub(crate) fn launch_of_user(
        &self,
        source: &str,
        kernel: &str,
        (blocks, threads): (u32, u32),
        words: &[u64],
    ) -> Result<(), DeviceError> {
        // What is loaded is known by its text, and has the kernels that were asked for first.
        let text = format!("{source}\n// {kernel}\n");
        let loaded = match self.shared.loaded(&text) {
            Some(loaded) => loaded,
            None => {
                let part = Part {
                    text: text.clone(),
                    kernels: vec![kernel],
                };
                self.load_parts(&text, &[part])?
            }
        };
        let shape = LaunchShape {
            blocks,
            threads,
            shared_bytes: 0,
        };
        match loaded.kernels.first() {
            Some(kernel) => self.lane.launch(kernel, shape, &bytes_of_words(words)),
            None => Ok(()),
        }
    }
}
