//! Every way in which no device comes out says why.

use super::driver::{DriverCalls, DriverVersion};
use super::nvrtc::Nvrtc;
use super::{
    Discovery, DiscoveryOptions, Outcome, conclude, describe_absence, discover, list_devices,
    open_driver,
};
use crate::library::CallError;

/// A driver whose start ends with `init`, and whose devices are of these names.
struct FakeDriver {
    init: Result<(), CallError>,
    names: Vec<&'static str>,
}

impl DriverCalls for FakeDriver {
    fn init(&self) -> Result<(), CallError> {
        self.init
    }

    fn version(&self) -> Result<DriverVersion, CallError> {
        Ok(DriverVersion {
            major: 13,
            minor: 0,
        })
    }

    fn count(&self) -> Result<u32, CallError> {
        Ok(self.names.len() as u32)
    }

    fn name(&self, ordinal: u32) -> Result<String, CallError> {
        match self.names[ordinal as usize] {
            "broken" => Err(CallError::Failed {
                function: "cuDeviceGetName",
                code: 101,
            }),
            name => Ok(name.to_owned()),
        }
    }

    fn memory_bytes(&self, _ordinal: u32) -> Result<u64, CallError> {
        Ok(80 << 30)
    }

    fn compute_capability(&self, _ordinal: u32) -> Result<(u32, u32), CallError> {
        Ok((9, 0))
    }

    fn uuid(&self, ordinal: u32) -> Result<String, CallError> {
        Ok(format!("GPU-{ordinal:08x}"))
    }
}

fn find(init: Result<(), CallError>, names: &[&'static str], visible: Option<&str>) -> Discovery {
    let driver = FakeDriver {
        init,
        names: names.to_vec(),
    };
    find_with(&driver, visible, Some(13))
}

fn find_with(driver: &FakeDriver, visible: Option<&str>, nvrtc: Option<u32>) -> Discovery {
    let nvrtc = nvrtc.map(|major| Nvrtc {
        place: "libnvrtc.so.13".into(),
        major,
        minor: 0,
    });
    let mut findings = Vec::new();
    let devices = list_devices(driver, visible, nvrtc.as_ref(), &mut findings);
    conclude(devices, nvrtc, findings)
}

fn names(discovery: &Discovery) -> Vec<String> {
    discovery.devices.iter().map(ToString::to_string).collect()
}

#[test]
fn found_devices_can_be_used() {
    let discovery = find(Ok(()), &["A", "B"], None);
    assert_eq!(names(&discovery), ["device 0 (A)", "device 1 (B)"]);
    assert_eq!(
        discovery.findings[0].to_string(),
        "device 0 (A): found, 80.0 GiB, compute capability 9.0, can be used"
    );
    assert_eq!(
        discovery.why_none(),
        "no device: found device 0 (A), device 1 (B), not opened"
    );
    assert_eq!(discovery.nvrtc, Some("libnvrtc.so.13".into()));
}

#[test]
fn a_device_without_a_compiler_says_what_installs_one() {
    let driver = FakeDriver {
        init: Ok(()),
        names: vec!["A"],
    };
    let discovery = find_with(&driver, None, None);
    let why = "there is no NVRTC; install it: pip install nvidia-cuda-nvrtc";
    assert_eq!(
        discovery.findings[0].to_string(),
        format!("device 0 (A): found, 80.0 GiB, compute capability 9.0, cannot be used: {why}")
    );
    assert_eq!(
        discovery.why_none(),
        format!("no device: found device 0 (A) but cannot use it: {why}")
    );
    assert_eq!(discovery.cuda[0].why_not.as_deref(), Some(why));
}

#[test]
fn visible_devices_select_and_order() {
    let discovery = find(Ok(()), &["A", "B", "C"], Some("2,GPU-00000000"));
    assert_eq!(names(&discovery), ["device 0 (C)", "device 1 (A)"]);
    let ordinals: Vec<u32> = discovery.cuda.iter().map(|found| found.ordinal).collect();
    assert_eq!(ordinals, [2, 0]);
    assert_eq!(discovery.cuda[0].capability, (9, 0));
}

#[test]
fn hiding_every_device_is_a_reason() {
    let discovery = find(Ok(()), &["A", "B"], Some(""));
    assert_eq!(
        discovery.why_none(),
        "no device: found driver 13.0 with 2 devices, but visible devices '' leaves none"
    );
}

#[test]
fn a_driver_that_does_not_start_is_a_reason() {
    let code = |code| CallError::Failed {
        function: "cuInit",
        code,
    };
    let discovery = find(Err(code(100)), &[], None);
    assert_eq!(
        discovery.why_none(),
        "no device: found driver 13.0 but cuInit failed with 100 (no CUDA-capable device)"
    );
    assert_eq!(discovery.findings.len(), 1);
    let discovery = find(Err(CallError::Missing("cuInit")), &["A"], None);
    assert_eq!(
        discovery.why_none(),
        "no device: found driver 13.0 but the symbol cuInit is missing"
    );
}

#[test]
fn a_driver_without_devices_is_a_reason() {
    assert_eq!(
        find(Ok(()), &[], None).why_none(),
        "no device: found driver 13.0 but it has no devices"
    );
}

#[test]
fn a_device_that_cannot_be_described_hides_no_other() {
    let discovery = find(Ok(()), &["broken", "B"], None);
    assert_eq!(names(&discovery), ["device 1 (B)"]);
    assert_eq!(
        discovery.findings[0].to_string(),
        "device 0: cuDeviceGetName failed with 101 (invalid device)"
    );
}

#[test]
fn every_library_looked_for_is_recorded() {
    let mut findings = Vec::new();
    let driver = open_driver(&["libtidegate-no.so.1", "libtidegate-no.so"], &mut findings);
    assert!(driver.is_none());
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "libtidegate-no.so.1: not found",
            "libtidegate-no.so: not found"
        ]
    );
    assert_eq!(
        describe_absence(&findings),
        "looked for the NVIDIA driver (libtidegate-no.so.1, libtidegate-no.so): not found"
    );
    findings[0].outcome = Outcome::Failed("cannot be opened: bad".to_owned());
    assert_eq!(
        describe_absence(&findings),
        "looked for the NVIDIA driver: libtidegate-no.so.1: cannot be opened: bad; \
         libtidegate-no.so: not found"
    );
}

#[test]
fn this_machine_is_described_one_way_or_the_other() {
    let discovery = discover(&DiscoveryOptions::default());
    let why = discovery.why_none();
    for finding in &discovery.findings {
        println!("{finding}");
    }
    println!("{why}");
    assert!(why.starts_with("no device: "), "{why}");
    assert!(!discovery.findings.is_empty());
    if discovery.devices.is_empty() && !why.contains("found driver") {
        assert_eq!(
            why,
            "no device: looked for the NVIDIA driver (libcuda.so.1, libcuda.so): not found"
        );
    }
    for device in &discovery.devices {
        assert!(device.memory_bytes > 0 && !device.name.is_empty());
    }
    if discovery.devices.len() == 1 {
        let by_uuid = discover(&DiscoveryOptions {
            visible_devices: Some("GPU-".to_owned()),
            ..DiscoveryOptions::default()
        });
        assert_eq!(by_uuid.devices, discovery.devices);
    }
}
