use tidegate_kernels::host::BLOCK;

use super::{Selection, Stretch};

fn stretch(gap: usize, rows: usize) -> Stretch {
    Stretch { gap, rows }
}

#[test]
fn blocks_are_full_across_gaps() {
    let ranges = [2..4, 4..5, 5..5, 9..10 + BLOCK];
    let mut selection = Selection::new(2 * BLOCK, Some(&ranges)).unwrap();
    assert_eq!(selection.num_rows(), BLOCK + 4);
    let mut block = Vec::new();
    assert_eq!(selection.next_block(&mut block), BLOCK);
    assert_eq!(block, [stretch(2, 3), stretch(4, BLOCK - 3)]);
    let left = BLOCK + 6..BLOCK + 10;
    assert_eq!(selection.left(), std::slice::from_ref(&left));
    assert_eq!(selection.next_block(&mut block), 4);
    assert_eq!(block, [stretch(0, 4)]);
    assert_eq!(selection.next_block(&mut block), 0);
    assert!(block.is_empty() && selection.left().is_empty());
}
