//! Kernels compiled by NVRTC, and what its assembler says of them.

use std::time::Instant;

use tidegate_device::Discovery;
use tidegate_device::compiler::Compiler;

use super::KernelSource;
use crate::error::{Error, ErrorKind};

/// The command that installs NVRTC.
const INSTALLATION: &str = "pip install nvidia-cuda-nvrtc";

/// The NVRTC that was found. Compiling with it needs neither a driver nor a device.
#[derive(Clone, Debug)]
pub struct KernelCompiler(Compiler);

/// A kernel, compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledKernel {
    /// What can be launched in it, in the order of the compiler's log.
    pub entry_points: Vec<EntryPoint>,
    /// Bytes of the cubin.
    pub image_bytes: usize,
    /// Milliseconds that the compiler took.
    pub milliseconds: f64,
    /// All that the compiler said.
    pub log: String,
}

/// A function of a kernel that can be launched, and what each thread of it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryPoint {
    /// Its name.
    pub name: String,
    /// Registers.
    pub registers: u32,
    /// Bytes stored and loaded again for want of registers.
    pub spill_bytes: u32,
    /// Bytes of the stack frame.
    pub stack_bytes: u32,
}

impl KernelCompiler {
    /// Opens the NVRTC that was found.
    pub(in crate::session) fn of(discovery: &Discovery) -> Result<Self, Error> {
        let Some(place) = &discovery.nvrtc else {
            return Err(Error::new(ErrorKind::Device, why_none(discovery)));
        };
        let opened = Compiler::open(place);
        opened
            .map(Self)
            .map_err(|error| Error::with_source(ErrorKind::Device, error.to_string(), error))
    }

    /// Compiles a kernel for an architecture such as `sm_90`. Blocks for some hundred milliseconds.
    ///
    /// # Errors
    /// [`ErrorKind::Device`] with the compiler's log if it does not take the kernel, or does not know
    /// the architecture.
    pub fn compile(
        &self,
        kernel: &KernelSource,
        architecture: &str,
    ) -> Result<CompiledKernel, Error> {
        let start = Instant::now();
        let compiled = self
            .0
            .compile("pipeline.cu", &kernel.text, architecture, &[]);
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        let compiled = compiled
            .map_err(|error| Error::with_source(ErrorKind::Device, error.to_string(), error))?;
        Ok(CompiledKernel {
            entry_points: entry_points(&compiled.log),
            image_bytes: compiled.image.len(),
            milliseconds,
            log: compiled.log,
        })
    }
}

/// Says where NVRTC was looked for, and how to get it.
fn why_none(discovery: &Discovery) -> String {
    let places = discovery.findings.iter();
    let places = places.filter(|finding| finding.place.contains("libnvrtc"));
    let places: Vec<String> = places.map(ToString::to_string).collect();
    let looked = places.join("; ");
    // One that the driver is too old for comes with the command that installs another.
    let help = match looked.contains("pip install") {
        true => String::new(),
        false => format!("{INSTALLATION} installs it; "),
    };
    format!("no NVRTC, which compiles kernels: {help}looked at {looked}")
}

/// Reads the assembler's report of each function that can be launched.
fn entry_points(log: &str) -> Vec<EntryPoint> {
    let mut entry_points: Vec<EntryPoint> = Vec::new();
    for line in log.lines() {
        if let Some((_, named)) = line.split_once("Compiling entry function '") {
            entry_points.push(EntryPoint {
                name: named.split('\'').next().unwrap_or_default().to_string(),
                ..EntryPoint::default()
            });
        }
        let Some(last) = entry_points.last_mut() else {
            continue;
        };
        if let Some(bytes) = number_before(line, " bytes stack frame") {
            last.stack_bytes = bytes;
        }
        let spills = [" bytes spill stores", " bytes spill loads"];
        let spills = spills.iter().filter_map(|what| number_before(line, what));
        last.spill_bytes += spills.sum::<u32>();
        if let Some((_, used)) = line.split_once("Used ")
            && let Some(registers) = number_before(used, " registers")
        {
            last.registers = registers;
        }
    }
    entry_points
}

/// Returns the number that stands before these words.
fn number_before(line: &str, words: &str) -> Option<u32> {
    let (before, _) = line.split_once(words)?;
    before.rsplit([' ', ',']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{EntryPoint, entry_points};

    const LOG: &str = "\
ptxas info    : 24 bytes gmem
ptxas info    : Compiling entry function 'fold' for 'sm_90'
ptxas info    : Function properties for fold
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem
ptxas info    : Compile time = 12.345 ms
ptxas info    : Compiling entry function 'clear' for 'sm_90'
ptxas info    : Function properties for clear
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers
";

    #[test]
    fn each_entry_point_has_its_report() {
        let fold = EntryPoint {
            name: "fold".into(),
            registers: 40,
            ..EntryPoint::default()
        };
        let clear = EntryPoint {
            name: "clear".into(),
            registers: 255,
            spill_bytes: 20,
            stack_bytes: 16,
        };
        assert_eq!(entry_points(LOG), [fold, clear]);
    }

    #[test]
    fn a_log_without_a_report_has_none() {
        assert_eq!(entry_points("0 bytes stack frame\nwarning"), []);
    }
}
