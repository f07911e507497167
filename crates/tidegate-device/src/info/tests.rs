//! A simulated device says that it is not a GPU.

use super::{DeviceId, DeviceInfo, DeviceKind, DeviceRates};

fn info(kind: DeviceKind, name: &str) -> DeviceInfo {
    DeviceInfo {
        id: DeviceId(0),
        kind,
        name: name.to_owned(),
        memory_bytes: 1 << 30,
        rates: DeviceRates::CUDA_START,
    }
}

#[test]
fn a_simulated_device_says_that_it_is_not_a_gpu() {
    let simulated = info(DeviceKind::Simulated, "simulated");
    assert_eq!(
        simulated.to_string(),
        "device 0 (simulated device, not a GPU)"
    );
}

#[test]
fn a_cuda_device_prints_the_name_that_its_driver_gives() {
    let cuda = info(DeviceKind::Cuda, "NVIDIA H200");
    assert_eq!(cuda.to_string(), "device 0 (NVIDIA H200)");
}
