//! The options that every program is compiled with.

/// Since this version NVRTC keeps a cache of its own.
const OWN_CACHE_SINCE: (u32, u32) = (12, 9);

/// Since this version, or one before it, NVRTC can leave out what no kernel here uses, such as
/// textures: 5 ms of each compilation.
const MINIMAL_SINCE: (u32, u32) = (13, 0);

/// Since this version, or one before it, NVRTC can leave out the slower part of its optimisations.
const QUICK_SINCE: (u32, u32) = (13, 0);

/// Begins a source that is to be compiled sooner rather than better: one without loops to unroll.
pub const QUICKLY: &str = "// Compiled with fewer optimisations.\n";

/// Lists NVRTC's options for a source: the architecture, the project's, then `extra` ones.
///
/// Products and sums are rounded one by one (`--fmad=false`), so that a device's arithmetic is the
/// host's. The assembler's report goes to the log.
pub(super) fn list(
    version: (u32, u32),
    architecture: &str,
    source: &str,
    extra: &[&str],
) -> Vec<String> {
    let mut options = vec![
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".to_owned(),
        "--fmad=false".to_owned(),
        "--device-int128".to_owned(),
        "-default-device".to_owned(),
    ];
    if !is_virtual(architecture) {
        options.push("--ptxas-options=-v".to_owned());
    }
    if version >= OWN_CACHE_SINCE {
        options.push("--no-cache".to_owned());
    }
    if version >= MINIMAL_SINCE {
        options.push("--minimal".to_owned());
    }
    if version >= QUICK_SINCE && source.starts_with(QUICKLY) {
        options.push("--Ofast-compile=mid".to_owned());
    }
    options.extend(extra.iter().map(|&option| option.to_owned()));
    options
}

/// Tells whether code for this architecture is PTX, which has no registers yet.
pub(super) fn is_virtual(architecture: &str) -> bool {
    architecture.starts_with("compute_")
}

/// Names the architecture for a compute capability among those that NVRTC knows (`90` for 9.0): the
/// device's own, or else the newest one before it, as PTX.
pub(super) fn architecture((major, minor): (u32, u32), known: &[u32]) -> String {
    let wanted = major * 10 + minor;
    let before = known.iter().copied().filter(|&arch| arch < wanted).max();
    match before {
        Some(before) if !known.contains(&wanted) => format!("compute_{before}"),
        _ => format!("sm_{wanted}"),
    }
}

#[cfg(test)]
mod tests;
