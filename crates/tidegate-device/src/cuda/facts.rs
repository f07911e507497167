//! What a kernel's shape depends on: the numbers of a device.

use std::fs;

use cudarc::driver::sys::CUdevice_attribute;

use super::driver::Context;
use super::fault::Fault;

/// A device's numbers, as its driver gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaFacts {
    /// The compute capability, major and minor.
    pub capability: (u32, u32),
    /// How many multiprocessors there are.
    pub multiprocessors: u32,
    /// The most shared memory of one block, for kernels that ask for it.
    pub shared_bytes_per_block: u32,
    /// The shared memory of a multiprocessor.
    pub shared_bytes_per_multiprocessor: u32,
    /// The second-level cache.
    pub l2_bytes: u64,
    /// The most threads that are resident on a multiprocessor.
    pub max_threads_per_multiprocessor: u32,
    /// Where it is on the PCI bus, written as in `0000:1b:00.0`.
    pub pci_address: String,
    /// The NUMA node of the host that is near it, where the system tells one.
    pub numa_node: Option<u32>,
}

impl CudaFacts {
    pub(super) fn of(context: &Context) -> Result<Self, Fault> {
        use CUdevice_attribute as A;
        let major = context.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = context.attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let domain = context.attribute(A::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?;
        let bus = context.attribute(A::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?;
        let slot = context.attribute(A::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?;
        let pci_address = format_pci(domain, bus, slot);
        let shared_per_block = A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let shared_per_multiprocessor = A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR;
        let threads = A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
        Ok(Self {
            capability: (major, minor),
            multiprocessors: context.attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            shared_bytes_per_block: context.attribute(shared_per_block)?,
            shared_bytes_per_multiprocessor: context.attribute(shared_per_multiprocessor)?,
            l2_bytes: u64::from(context.attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
            max_threads_per_multiprocessor: context.attribute(threads)?,
            numa_node: numa_node(&pci_address),
            pci_address,
        })
    }
}

fn format_pci(domain: u32, bus: u32, slot: u32) -> String {
    format!("{domain:04x}:{bus:02x}:{slot:02x}.0")
}

/// Asks Linux, which writes -1 where there is but one node.
fn numa_node(pci_address: &str) -> Option<u32> {
    let file = format!("/sys/bus/pci/devices/{pci_address}/numa_node");
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{format_pci, numa_node};

    #[test]
    fn a_pci_address_is_written_as_linux_does() {
        assert_eq!(format_pci(0, 0x1b, 0), "0000:1b:00.0");
        assert_eq!(format_pci(0x10000, 2, 0x1f), "10000:02:1f.0");
        assert_eq!(numa_node("no such device"), None);
    }
}
