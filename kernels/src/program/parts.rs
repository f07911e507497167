//! Parts of a source that are compiled side by side.
//!
//! Reading a source takes the compiler a twentieth of its time; the rest goes into its kernels, one by
//! one. A source of several large ones is compiled in parts, each of which leaves the others' kernels out.

use std::fmt::Write;

/// Kernels that are compiled together: on a machine with cores enough the first decides how long all
/// take. Of a million groups by a sparse key (NVRTC 13.0, CPU time of an EPYC core) they take about 265,
/// 175 and 200 ms, and in one 590; by a dense key about 235 and 140, and in one 400.
const PARTS: [&[&str]; 3] = [
    &["fold"],
    &["aggregate", "aggregate_shared"],
    &["estimate", "repartition", "absorb", "clear"],
];

/// A source with a part of the kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// CUDA C++.
    pub text: String,
    /// The names of its kernels.
    pub kernels: Vec<&'a str>,
}

/// Takes a source with these kernels apart; into one if that is done as soon.
pub fn parts_of<'a>(text: &str, kernels: &[&'a str]) -> Vec<Part<'a>> {
    if !kernels.contains(&"aggregate") {
        return vec![Part {
            text: text.to_owned(),
            kernels: kernels.to_vec(),
        }];
    }
    let part = |of_part: &&[&str]| {
        let is_own = |kernel: &&&str| of_part.contains(*kernel);
        let own: Vec<_> = kernels.iter().filter(is_own).copied().collect();
        if own.is_empty() {
            return None;
        }
        let mut head = String::new();
        for left_out in kernels.iter().filter(|kernel| !is_own(kernel)) {
            let _ = writeln!(head, "#define TG_WITHOUT_{left_out}");
        }
        Some(Part {
            text: format!("{head}#line 1\n{text}"),
            kernels: own,
        })
    };
    PARTS.iter().filter_map(part).collect()
}

/// Writes a kernel that parts may leave out.
pub(super) fn write(text: &mut String, kernel: &str, write: impl FnOnce(&mut String)) {
    write_begin(text, kernel);
    write(text);
    write_end(text);
}

/// Begins what is left out with a kernel.
pub(super) fn write_begin(text: &mut String, kernel: &str) {
    let _ = write!(text, "\n#ifndef TG_WITHOUT_{kernel}\n");
}

/// Ends it.
pub(super) fn write_end(text: &mut String) {
    text.push_str("#endif\n");
}

#[cfg(test)]
mod tests;
