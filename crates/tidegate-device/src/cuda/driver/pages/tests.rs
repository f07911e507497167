//! Pages are whole and zero.

use std::slice;

use super::{LARGE_PAGE, Pages, SMALL_PAGE};

#[test]
fn pages_are_whole_and_zero() {
    for (bytes, whole) in [
        (0, SMALL_PAGE),
        (1, SMALL_PAGE),
        (SMALL_PAGE + 1, 2 * SMALL_PAGE),
        (LARGE_PAGE, LARGE_PAGE),
        (LARGE_PAGE * 7 + 5, LARGE_PAGE * 8),
    ] {
        for num_threads in [1, 2, 3, 8, 64] {
            let pages = Pages::touched_by(bytes, num_threads).unwrap();
            assert_eq!(pages.len(), whole);
            assert_eq!(pages.start().as_ptr().addr() % pages.layout.align(), 0);
            // SAFETY: the memory is this value's, was written, and nobody writes to it.
            let seen = unsafe { slice::from_raw_parts(pages.start().as_ptr(), pages.len()) };
            assert!(seen.iter().all(|byte| *byte == 0), "{bytes} {num_threads}");
        }
        assert_eq!(Pages::shared(bytes).unwrap().len(), whole);
    }
}

#[test]
fn more_than_there_can_be_is_none() {
    assert!(Pages::shared(usize::MAX).is_none());
    assert!(Pages::shared(usize::MAX / 2).is_none());
}
