//! A cubin must be whole.

use super::{KernelFacts, LaunchShape, check_shape, is_ptx, is_whole_elf};

/// An ELF file of one section of so many bytes, behind its header and its table.
fn elf(section_bytes: u64) -> Vec<u8> {
    let mut image = vec![0; 64 + 64 + section_bytes as usize];
    image[..6].copy_from_slice(b"\x7fELF\x02\x01");
    image[0x28..0x30].copy_from_slice(&64u64.to_le_bytes());
    image[0x3c] = 1;
    image[64 + 4] = 1;
    image[64 + 0x18..64 + 0x20].copy_from_slice(&128u64.to_le_bytes());
    image[64 + 0x20..64 + 0x28].copy_from_slice(&section_bytes.to_le_bytes());
    image
}

#[test]
fn a_cubin_must_be_whole() {
    let whole = elf(100);
    assert!(is_whole_elf(&whole));
    for length in 0..whole.len() {
        assert!(!is_whole_elf(&whole[..length]), "cut to {length}");
    }
    let mut far = whole;
    far[64 + 0x1f] = 0xff;
    assert!(!is_whole_elf(&far));
}

#[test]
fn ptx_is_text_with_a_version() {
    assert!(is_ptx(b"//\n.version 9.0\n.target sm_90\n"));
    assert!(is_ptx(b".version 9.0\n\0"));
    assert!(!is_ptx(b".version 9.0\0\x01"));
    assert!(!is_ptx(b""));
    assert!(!is_ptx(b"\0\0"));
}

#[test]
fn a_launch_has_a_shape_that_the_kernel_takes() {
    let facts = KernelFacts {
        registers: 32,
        local_bytes: 0,
        static_shared_bytes: 0,
        max_threads_per_block: 512,
    };
    let check = |blocks, threads| {
        let shape = LaunchShape {
            blocks,
            threads,
            shared_bytes: 0,
        };
        check_shape(shape, facts)
    };
    assert_eq!(check(1, 512), Ok(()));
    assert_eq!(check(0, 32).unwrap_err(), "0 blocks of 32 threads are none");
    assert!(check(1, 0).is_err());
    assert_eq!(
        check(1, 513).unwrap_err(),
        "a block of 513 threads is larger than the kernel's limit of 512"
    );
}
