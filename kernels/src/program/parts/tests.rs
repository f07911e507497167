//! Each kernel is in one part.

use super::{PARTS, parts_of};

#[test]
fn each_kernel_is_in_one_part() {
    for kernels in [
        &["fold", "aggregate", "aggregate_shared"][..],
        &[
            "fold",
            "absorb",
            "clear",
            "estimate",
            "repartition",
            "aggregate",
        ],
    ] {
        let parts = parts_of("source", kernels);
        assert!(parts.len() > 1 && parts.len() <= PARTS.len());
        let mut all: Vec<_> = parts.iter().flat_map(|part| &part.kernels).collect();
        assert_eq!(parts[0].kernels, ["fold"]);
        for kernel in kernels {
            let position = all.iter().position(|other| *other == kernel);
            all.remove(position.unwrap());
            for part in &parts {
                let left_out = part
                    .text
                    .contains(&format!("#define TG_WITHOUT_{kernel}\n"));
                assert_ne!(left_out, part.kernels.contains(kernel));
            }
        }
        assert!(all.is_empty());
    }
}

#[test]
fn few_kernels_stay_together() {
    for kernels in [&["fold"][..], &["fold", "absorb", "clear"]] {
        let parts = parts_of("source", kernels);
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].text, "source");
        assert_eq!(parts[0].kernels, kernels);
    }
}
