//! The runtime on a real device. Without one the tests end at once, unless they must run.

use std::sync::{Arc, mpsc};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::executor::block_on;
use tidegate_needs::Need;

use super::{
    Block, CudaDevice, CudaOptions, DeviceBuffer, Kernel, Lane, LaunchShape, Mark, Module,
    SLOT_BYTES,
};
use crate::compiler::Compiler;
use crate::discovery::{DiscoveryOptions, discover};
use crate::error::DeviceError;
use crate::faults::FaultPlan;
use crate::pending::Pending;

const PIECE: usize = 16 << 20;
const SMALL: usize = 64 << 10;

/// Opens the first device of this machine.
fn device() -> Option<CudaDevice> {
    let discovery = discover(&DiscoveryOptions::default());
    let Some(found) = discovery.cuda.first() else {
        tidegate_needs::skip(Need::Device, &discovery.why_none());
        return None;
    };
    let options = CudaOptions {
        memory_limit_bytes: Some(1 << 30),
        staging_bytes: Some(64 << 20),
    };
    let device = CudaDevice::open(found.ordinal, found.info.clone(), &options).unwrap();
    assert_eq!(device.facts().capability, found.capability);
    Some(device)
}

/// Opens NVRTC where a variable says, or where the loader finds it.
fn compiler() -> Option<Compiler> {
    let named = std::env::var_os("TIDEGATE_NVRTC");
    let place = named.unwrap_or_else(|| "libnvrtc.so.13".into());
    match Compiler::open(place.as_ref()) {
        Ok(compiler) => Some(compiler),
        Err(error) => {
            tidegate_needs::skip(Need::Nvrtc, &error);
            None
        }
    }
}

fn on<T: Send + 'static>(
    device: &CudaDevice,
    work: impl FnOnce(&Lane<'_>) -> Result<T, DeviceError> + Send + 'static,
) -> Result<T, DeviceError> {
    block_on(device.submit(work)).and_then(|result| result)
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 31 % 251) as u8).collect()
}

#[test]
fn handles_go_to_any_thread() {
    fn go<T: Send + Sync>() {}
    go::<(CudaDevice, DeviceBuffer, Block, Module, Kernel, Mark)>();
    go::<Pending<u8>>();
}

#[test]
fn a_device_that_is_not_there_is_a_reason() {
    let info = crate::info::DeviceInfo {
        id: crate::info::DeviceId(3),
        kind: crate::info::DeviceKind::Cuda,
        name: "none".to_owned(),
        memory_bytes: 0,
        rates: crate::info::DeviceRates::CUDA_START,
    };
    let error = CudaDevice::open(u32::MAX, info, &CudaOptions::default()).unwrap_err();
    println!("{error}");
    assert!(error.is_lost());
}

/// A block outlives the buffer that it was made of, and several buffers are filled from it.
#[test]
fn blocks_keep_what_lay_on_the_device() {
    let Some(device) = device() else { return };
    for bytes in [1, 4096, PIECE + 13] {
        let sent = pattern(bytes);
        let filled = sent.clone();
        let buffer = on(&device, move |lane| {
            let buffer = lane.alloc(filled.len() as u64)?;
            lane.upload(&buffer, 0, &filled)?;
            Ok(buffer)
        });
        let block = block_on(Block::of(&device, Arc::new(buffer.unwrap()), Arc::new(()))).unwrap();
        assert_eq!(block.bytes(), bytes as u64);
        let block = Arc::new(block);
        for _ in 0..2 {
            let block = Arc::clone(&block);
            let come = on(&device, move |lane| {
                let buffer = lane.alloc(block.bytes())?;
                lane.fill(&buffer, 0, block.bytes(), 0xab)?;
                let mut come = vec![0; bytes];
                lane.upload_block(&buffer, block)?;
                lane.download(&buffer, 0, &mut come)?;
                Ok(come)
            });
            assert!(come.unwrap() == sent, "{bytes} bytes");
        }
    }
    let small = on(&device, |lane| lane.alloc(1)).unwrap();
    let large = on(&device, |lane| lane.alloc(2)).unwrap();
    let block = block_on(Block::of(&device, Arc::new(large), Arc::new(()))).unwrap();
    let error = on(&device, move |lane| {
        lane.upload_block(&small, Arc::new(block))
    });
    assert!(
        matches!(error, Err(DeviceError::Refused { .. })),
        "{error:?}"
    );
    on(&device, |lane| lane.synchronize()).unwrap();
    assert_eq!(device.memory().live_bytes, 0);
}

#[test]
fn bytes_come_back_as_they_went() {
    let Some(device) = device() else { return };
    println!("{device:?}");
    for bytes in [
        0,
        1,
        SMALL - 1,
        SMALL,
        SMALL + 1,
        PIECE,
        PIECE + 1,
        3 * PIECE + 7,
    ] {
        let sent = pattern(bytes);
        let (same, copied) = on(&device, move |lane| {
            let first = lane.alloc(bytes as u64 + 3)?;
            let second = lane.alloc(bytes as u64)?;
            lane.fill(&first, 0, first.bytes(), 0xee)?;
            lane.upload(&first, 3, &sent)?;
            lane.copy(&first, 3, &second, 0, bytes as u64)?;
            let mut head = [0; 3];
            lane.download(&first, 0, &mut head)?;
            let mut back = vec![0; bytes];
            lane.download(&second, 0, &mut back)?;
            Ok((back == sent, head))
        })
        .unwrap();
        assert!(same, "{bytes} bytes");
        assert_eq!(copied, [0xee; 3]);
    }
    let memory = device.memory();
    assert_eq!((memory.live_bytes, memory.live_buffers), (0, 0));
    assert!(memory.peak_bytes >= 6 * PIECE as u64);
}

/// Memory is used, filled from slots by several threads, read, freed, and taken again.
#[test]
fn slots_are_copied_behind_what_came_before_and_before_what_comes_later() {
    const NUM_THREADS: usize = 4;
    let Some(device) = device() else { return };
    let bytes = (NUM_THREADS * SLOT_BYTES) as u64;
    for round in 0..20 {
        let buffer = on(&device, move |lane| {
            let buffer = lane.alloc(bytes)?;
            lane.fill(&buffer, 0, bytes, 0xee)?;
            Ok(buffer)
        });
        let buffer = Arc::new(buffer.unwrap());
        let value = |thread: usize| (round * NUM_THREADS + thread) as u8;
        std::thread::scope(|scope| {
            for thread in 0..NUM_THREADS {
                let (device, buffer) = (&device, Arc::clone(&buffer));
                scope.spawn(move || {
                    let mut slot = device.slot().unwrap();
                    slot.fill(value(thread));
                    let slot = slot.filled();
                    let offset = (thread * SLOT_BYTES) as u64;
                    let copied = on(device, move |lane| {
                        lane.upload_slot(&buffer, offset, slot, SLOT_BYTES)
                    });
                    copied.unwrap();
                });
            }
        });
        let come = on(&device, move |lane| {
            let other = lane.alloc(bytes)?;
            lane.copy(&buffer, 0, &other, 0, bytes)?;
            let mut come = vec![0; bytes as usize];
            lane.download(&other, 0, &mut come)?;
            Ok(come)
        });
        let come = come.unwrap();
        for (thread, part) in come.chunks(SLOT_BYTES).enumerate() {
            let is_right = part.iter().all(|byte| *byte == value(thread));
            assert!(is_right, "round {round}, slot {thread}");
        }
    }
    on(&device, |lane| lane.synchronize()).unwrap();
    assert_eq!(device.memory().live_buffers, 0);
}

#[test]
fn a_task_leaves_the_thread_to_others_while_it_waits() {
    let Some(device) = device() else { return };
    let (sender, receiver) = oneshot::channel();
    let task = device.spawn(|lane| {
        async move {
            let buffer = lane.alloc(16)?;
            lane.fill(&buffer, 0, 16, 7)?;
            let offset = receiver.await.unwrap_or(99);
            let mut come = [0];
            lane.download(&buffer, offset, &mut come)?;
            Ok::<_, DeviceError>(come[0])
        }
        .boxed_local()
    });
    on(&device, |lane| lane.synchronize()).unwrap();
    sender.send(3).unwrap();
    assert_eq!(block_on(task).unwrap(), Ok(7));
    let panics = device.spawn(|_| async { panic!("a test") }.boxed_local());
    let error = block_on::<Pending<()>>(panics).unwrap_err();
    assert!(
        error.to_string().contains("its work panicked: a test"),
        "{error}"
    );
    assert_eq!(device.memory().live_buffers, 0);
}

#[test]
fn many_small_uploads_keep_their_order() {
    let Some(device) = device() else { return };
    let back = on(&device, |lane| {
        let buffer = lane.alloc(4)?;
        for i in 0..5000u32 {
            lane.upload(&buffer, 0, &i.to_le_bytes())?;
        }
        let mut back = [0; 4];
        lane.download(&buffer, 0, &mut back)?;
        Ok(u32::from_le_bytes(back))
    });
    assert_eq!(back, Ok(4999));
}

#[test]
fn ranges_outside_of_a_buffer_are_refused() {
    let Some(device) = device() else { return };
    on(&device, |lane| {
        let buffer = lane.alloc(16)?;
        let refused = |outcome: Result<(), DeviceError>| {
            assert!(
                matches!(outcome, Err(DeviceError::Refused { .. })),
                "{outcome:?}"
            );
        };
        refused(lane.upload(&buffer, 1, &[0; 16]));
        refused(lane.fill(&buffer, u64::MAX, 2, 0));
        refused(lane.download(&buffer, 17, &mut []));
        refused(lane.copy(&buffer, 0, &buffer, 8, 9));
        refused(lane.copy(&buffer, 0, &buffer, 4, 8));
        refused(lane.load(b"no image").map(drop));
        lane.copy(&buffer, 0, &buffer, 8, 8)
    })
    .unwrap();
    assert!(!device.is_lost());
}

#[test]
fn too_much_memory_is_not_there_and_the_device_goes_on() {
    let Some(device) = device() else { return };
    let wanted = 2 * device.info().memory_bytes;
    let error = on(&device, move |lane| lane.alloc(wanted).map(drop)).unwrap_err();
    assert!(
        matches!(error, DeviceError::OutOfMemory { limit, .. } if limit == 1 << 30),
        "{error}"
    );
    on(&device, |lane| lane.alloc(1 << 20).map(drop)).unwrap();
    assert!(device.reserve(1 << 30).is_ok());
    assert!(device.reserve((1 << 30) + 1).is_err());
}

#[test]
fn work_that_panics_is_a_failed_launch() {
    let Some(device) = device() else { return };
    let error = block_on(device.submit(|_| assert_eq!(1, 2, "on purpose"))).unwrap_err();
    assert!(error.to_string().contains("on purpose"), "{error}");
    assert_eq!(block_on(device.submit(|_| 7)), Ok(7));
}

#[test]
fn buffers_may_outlive_the_device() {
    let Some(device) = device() else { return };
    let buffer = on(&device, |lane| lane.alloc(1 << 20)).unwrap();
    let (mark, pending) = (
        on(&device, |lane| lane.mark()).unwrap(),
        device.submit(|lane| lane.synchronize()),
    );
    drop(device);
    assert_eq!(block_on(pending), Ok(Ok(())));
    std::thread::sleep(std::time::Duration::from_millis(200));
    drop((buffer, mark));
}

const SOURCE: &str = r#"
struct Input { unsigned *values; unsigned long long num_rows; };
extern "C" __global__ void add_one(Input input) {
    unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long row = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; row < input.num_rows; row += step) input.values[row] += 1;
}
extern "C" __global__ void shared(Input input) {
    extern __shared__ unsigned block[];
    block[threadIdx.x] = threadIdx.x;
    __syncthreads();
    input.values[threadIdx.x] = block[blockDim.x - 1 - threadIdx.x];
}
"#;

fn parameters(address: u64, num_rows: u64) -> Vec<u8> {
    [address.to_le_bytes(), num_rows.to_le_bytes()].concat()
}

fn kernel(lane: &Lane<'_>, compiler: &Compiler, name: &str) -> Result<Kernel, DeviceError> {
    let architecture = compiler.architecture(lane.facts().capability);
    let compiled = compiler
        .compile("test.cu", SOURCE, &architecture, &[])
        .unwrap();
    let module = lane.load(&compiled.image)?;
    lane.kernel(&module, name)
}

#[test]
fn kernels_run_in_order_with_copies() {
    let (Some(device), Some(compiler)) = (device(), compiler()) else {
        return;
    };
    let num_rows = 3_000_001usize;
    let (sum, seconds) = on(&device, move |lane| {
        let add_one = kernel(lane, &compiler, "add_one")?;
        let facts = lane.kernel_facts(&add_one)?;
        println!(
            "{facts:?}, {} blocks",
            lane.resident_blocks(&add_one, 256, 0)?
        );
        let buffer = lane.alloc(4 * num_rows as u64)?;
        let shape = LaunchShape {
            blocks: 2 * lane.facts().multiprocessors,
            threads: 256,
            shared_bytes: 0,
        };
        let bytes = 4 * num_rows as u64;
        lane.upload(&buffer, 0, &vec![7; 4 * num_rows])?;
        lane.fill(&buffer, 0, bytes, 0)?;
        let from = lane.mark()?;
        for _ in 0..10 {
            lane.launch(
                &add_one,
                shape,
                &parameters(buffer.address(), num_rows as u64),
            )?;
        }
        let to = lane.mark()?;
        let mut back = vec![0; 4 * num_rows];
        lane.download(&buffer, 0, &mut back)?;
        let values = back.chunks_exact(4).map(|value| u64::from(value[0]));
        Ok((values.sum::<u64>(), lane.elapsed_seconds(&from, &to)?))
    })
    .unwrap();
    assert_eq!(sum, 10 * num_rows as u64);
    println!("ten launches: {:.1} us", seconds * 1e6);
    assert!((0.0..10.0).contains(&seconds));
}

#[test]
fn a_kernel_may_have_all_shared_memory() {
    let (Some(device), Some(compiler)) = (device(), compiler()) else {
        return;
    };
    let first = on(&device, move |lane| {
        let kernel = kernel(lane, &compiler, "shared")?;
        let most = lane.facts().shared_bytes_per_block;
        assert_eq!(lane.resident_blocks(&kernel, 256, most)?, 1);
        let buffer = lane.alloc(4 * 256)?;
        let shape = |shared_bytes, threads| LaunchShape {
            blocks: 1,
            threads,
            shared_bytes,
        };
        let input = parameters(buffer.address(), 256);
        assert!(lane.launch(&kernel, shape(0, 4096), &input).is_err());
        assert!(lane.launch(&kernel, shape(0, 256), &[0; 40_000]).is_err());
        lane.launch(&kernel, shape(most, 256), &input)?;
        let mut back = [0; 4];
        lane.download(&buffer, 0, &mut back)?;
        Ok(u32::from_le_bytes(back))
    });
    assert_eq!(first, Ok(255));
}

/// The device's context breaks with its kernel, so this runs in a process of its own.
#[test]
fn a_kernel_that_leaves_its_memory_loses_the_device() {
    const VARIABLE: &str = "TIDEGATE_TEST_CRASH";
    if std::env::var_os(VARIABLE).is_some() {
        return crash();
    }
    let (Some(_), Some(_)) = (device(), compiler()) else {
        return;
    };
    let name = "cuda::tests::a_kernel_that_leaves_its_memory_loses_the_device";
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(VARIABLE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("is lost"),
        "{errors}"
    );
}

fn crash() {
    let (device, compiler) = (device().unwrap(), compiler().unwrap());
    let buffer = on(&device, |lane| lane.alloc(1 << 20)).unwrap();
    let crashing = device.submit(move |lane| {
        let add_one = kernel(lane, &compiler, "add_one")?;
        let shape = LaunchShape {
            blocks: 1,
            threads: 1,
            shared_bytes: 0,
        };
        lane.launch(&add_one, shape, &parameters(16, 1))?;
        lane.synchronize()
    });
    let waiting = device.submit(|_| 1);
    let error = block_on(crashing).unwrap_err();
    println!("{error}");
    assert!(
        error.is_lost() && error.to_string().contains("(add_one)"),
        "{error}"
    );
    assert_eq!(block_on(waiting).as_ref(), Err(&error));
    assert_eq!(block_on(device.submit(|_| 1)).as_ref(), Err(&error));
    assert_eq!(device.check_alive().as_ref(), Err(&error));
    assert!(device.reserve(1).is_err());
    drop(buffer);
}

/// Asks for each kind of call at least once; what comes back is what was sent.
fn every_call(device: &CudaDevice) -> Result<(), DeviceError> {
    let sent = pattern(2 * PIECE + 7);
    let mut slot = device.slot()?;
    slot[..SMALL].copy_from_slice(&sent[..SMALL]);
    on(device, move |lane| {
        let bytes = sent.len() as u64;
        let (first, second) = (lane.alloc(bytes)?, lane.alloc(bytes)?);
        lane.upload(&first, 0, &sent)?;
        lane.fill(&second, 0, bytes, 0)?;
        lane.copy(
            &first,
            SMALL as u64,
            &second,
            SMALL as u64,
            bytes - SMALL as u64,
        )?;
        lane.upload_slot(&second, 0, slot, SMALL)?;
        lane.upload(&first, 0, &sent[..16])?;
        let (from, to) = (lane.mark()?, lane.mark()?);
        lane.elapsed_seconds(&from, &to)?;
        let (told, later) = mpsc::channel();
        lane.read_later(&first, 0, 16, Some(from), move |read| {
            // Whoever asked may have met a fault.
            let _ = told.send(read);
        })?;
        lane.settle_readings()?;
        assert_eq!(later.recv().unwrap()?.bytes, sent[..16]);
        let mut back = vec![0; sent.len()];
        lane.download(&second, 0, &mut back)?;
        assert!(back == sent);
        lane.synchronize()
    })
}

#[test]
fn a_fault_at_every_call_leaves_the_device_whole() {
    let Some(device) = device() else { return };
    every_call(&device).unwrap();
    for (kind, effect) in [("alloc", "oom"), ("copy", "fail"), ("event", "fail")] {
        for count in 1.. {
            let before = device.planned_faults_met();
            // Memory is asked for a second time.
            let next = count + u64::from(kind == "alloc");
            let plan = format!("{kind}:{count}={effect}|{kind}:{next}={effect}");
            device.plan_faults(plan.parse().unwrap());
            let outcome = every_call(&device);
            device.plan_faults(FaultPlan::default());
            let has_met = device.planned_faults_met() > before;
            assert!(outcome.is_ok() || has_met, "{plan}: {outcome:?}");
            assert!(!device.is_lost(), "{plan}");
            every_call(&device).unwrap();
            assert_eq!(device.memory().live_buffers, 0, "{plan}");
            if !has_met {
                assert!(count > 2, "{plan}: no fault was met");
                break;
            }
        }
    }
}
