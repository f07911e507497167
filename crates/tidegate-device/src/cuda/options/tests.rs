//! Nine tenths of a large device are taken.

use super::CudaOptions;

const GIB: u64 = 1 << 30;

fn limit(bytes: u64) -> CudaOptions {
    CudaOptions {
        memory_limit_bytes: Some(bytes),
        staging_bytes: None,
    }
}

#[test]
fn nine_tenths_of_a_large_device_are_taken() {
    let all = CudaOptions::default();
    assert_eq!(all.budget_bytes(100 * GIB), 100 * GIB / 10 * 9);
    assert_eq!(all.budget_bytes(4 * GIB), 4 * GIB - (640 << 20));
    assert_eq!(all.budget_bytes(GIB / 2), 0);
}

#[test]
fn a_limit_leaves_something_to_cuda() {
    assert_eq!(limit(GIB).budget_bytes(100 * GIB), GIB);
    assert_eq!(
        limit(100 * GIB).budget_bytes(8 * GIB),
        8 * GIB - (640 << 20)
    );
}

#[test]
fn there_are_at_least_two_slots() {
    assert_eq!(CudaOptions::default().num_slots(), 256);
    let small = CudaOptions {
        memory_limit_bytes: None,
        staging_bytes: Some(1),
    };
    assert_eq!(small.num_slots(), 2);
}
