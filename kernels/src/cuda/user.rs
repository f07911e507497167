//! Work of a user on a device's thread, with the device's stream.
//!
//! The kernels that it launches are known and compiled before it begins, so that it is called once.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::try_join_all;
use tidegate_device::cuda::{Kernel, Lane, LaunchShape};
use tidegate_device::{DeviceError, Reservation};

use super::{LaneMachine, Shared};
use crate::compiling::Waiting;
use crate::engine::bytes_of_words;
use crate::program::Part;
use crate::stream::{DeviceStream, StreamKernel, StreamWork, UnderWay};

/// Runs work on the device's thread, once its kernels are compiled; its memory is held until it has ended.
pub(super) fn run(
    shared: &Arc<Shared>,
    memory: Reservation,
    kernels: Vec<StreamKernel>,
    work: StreamWork,
) -> UnderWay {
    let waiting: Arc<Waiting> = Arc::default();
    let (of_task, of_machine) = (Arc::clone(shared), Arc::clone(&waiting));
    let done = shared.device.spawn(move |lane| {
        async move {
            let machine = LaneMachine::new(&of_task, lane, of_machine);
            let loading = kernels.iter().map(|kernel| machine.load_of_user(kernel));
            let loaded = try_join_all(loading).await?;
            let user = UserLane {
                lane,
                kernels: kernels.into_iter().zip(loaded).collect(),
            };
            work(&DeviceStream::cuda(&user, memory.bytes()));
            // What it has launched may still use the memory.
            lane.synchronize()
        }
        .boxed_local()
    });
    UnderWay {
        done: async move { done.await? }.boxed(),
        waiting: Some(waiting),
    }
}

/// The device's thread, with the kernels that a user's work may launch.
pub(crate) struct UserLane<'l> {
    pub(crate) lane: Lane<'l>,
    kernels: Vec<(StreamKernel, Kernel)>,
}

impl UserLane<'_> {
    /// Launches a kernel that a user wrote; `None` if it was not asked for.
    pub(crate) fn launch(
        &self,
        (source, name): (&str, &str),
        (blocks, threads): (u32, u32),
        words: &[u64],
    ) -> Option<Result<(), DeviceError>> {
        let is_it = |(known, _): &&(StreamKernel, Kernel)| known.is(source, name);
        let (_, kernel) = self.kernels.iter().find(is_it)?;
        let shape = LaunchShape {
            blocks,
            threads,
            shared_bytes: 0,
        };
        Some(self.lane.launch(kernel, shape, &bytes_of_words(words)))
    }
}

impl LaneMachine<'_> {
    /// Returns a kernel that a user wrote.
    async fn load_of_user(&self, kernel: &StreamKernel) -> Result<Kernel, DeviceError> {
        let (source, name) = (kernel.source(), kernel.name());
        // What is loaded is known by its text, and has the kernels that were asked for first.
        let text = format!("{source}\n// {name}\n");
        let loaded = match self.shared.loaded(&text) {
            Some(loaded) => loaded,
            None => {
                let part = Part {
                    text: text.clone(),
                    kernels: vec![name],
                };
                self.load_parts(&text, &[part]).await?
            }
        };
        let kernel = loaded.kernels.first().cloned();
        kernel.ok_or_else(|| DeviceError::Refused {
            device: self.shared.device.info().id,
            what: format!("find kernel {name}"),
            why: "its source has none of this name".into(),
        })
    }
}
