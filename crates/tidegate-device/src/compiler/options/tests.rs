//! Options end with the extra ones.

use super::{QUICKLY, architecture, list};

#[test]
fn options_end_with_the_extra_ones() {
    assert_eq!(
        list((12, 4), "sm_90", "", &["-DN=4"]),
        [
            "--gpu-architecture=sm_90",
            "--std=c++17",
            "--fmad=false",
            "--device-int128",
            "-default-device",
            "--ptxas-options=-v",
            "-DN=4",
        ]
    );
}

#[test]
fn the_compilers_own_cache_is_off_where_there_is_one() {
    let has = |version| list(version, "sm_90", "", &[]).contains(&"--no-cache".to_owned());
    assert!(!has((12, 8)));
    assert!(has((12, 9)));
    assert!(has((13, 0)));
}

#[test]
fn a_source_says_that_it_is_to_be_compiled_sooner() {
    let has = |version, source: &str| {
        list(version, "sm_90", source, &[]).contains(&"--Ofast-compile=mid".to_owned())
    };
    let source = format!("{QUICKLY}int one;");
    assert!(has((13, 0), &source));
    assert!(!has((12, 9), &source));
    assert!(!has((13, 0), "int one;"));
}

#[test]
fn ptx_has_no_assembler_report() {
    let options = list((13, 0), "compute_90", "", &[]);
    assert!(!options.iter().any(|option| option.contains("ptxas")));
}

#[test]
fn a_device_newer_than_the_compiler_gets_ptx() {
    let known = [75, 80, 90, 120];
    assert_eq!(architecture((9, 0), &known), "sm_90");
    assert_eq!(architecture((13, 0), &known), "compute_120");
    assert_eq!(architecture((11, 0), &known), "compute_90");
    assert_eq!(architecture((7, 0), &known), "sm_70");
    assert_eq!(architecture((9, 0), &[]), "sm_90");
}
