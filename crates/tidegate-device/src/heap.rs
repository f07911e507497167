//! The host's heap.

/// Has the C library's allocator give the memory that it keeps for later back to the system. Does nothing
/// on systems whose C library is another than GNU's. Blocks for milliseconds.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has no safe interface")]
pub fn trim_heap() {
    // SAFETY: malloc_trim takes no pointer, may be called by any thread at any time, and frees nothing
    // that is allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has the C library's allocator give the memory that it keeps for later back to the system. Does nothing
/// on systems whose C library is another than GNU's.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn trim_heap() {}

/// Has the C library's allocator keep little: at most two arenas, and blocks of 128 KB and more straight from
/// the system, to which they go back when they are freed. That costs time for each such block. Call it
/// before the process has threads; it does nothing on systems whose C library is another than GNU's.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has no safe interface")]
pub fn keep_heap_small() {
    const BLOCK_BYTES: libc::c_int = 128 << 10;
    // SAFETY: mallopt takes numbers only, and changes what later calls of the allocator do, not what is
    // allocated.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
        libc::mallopt(libc::M_MMAP_THRESHOLD, BLOCK_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, BLOCK_BYTES);
    }
}

/// Has the C library's allocator keep little; nothing on systems whose C library is another than GNU's.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_heap_small() {}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_allocated_stays() {
        let kept: Vec<Vec<u8>> = (0..100).map(|byte| vec![byte; 10_000]).collect();
        super::trim_heap();
        let is_whole = |(byte, block): (usize, &Vec<u8>)| block.iter().all(|at| *at == byte as u8);
        assert!(kept.iter().enumerate().all(is_whole));
    }
}
