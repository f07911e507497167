//! A piece is given out from start to end.

use std::cell::{Cell, RefCell};

use super::{Fault, Ring, Source, has_room};

/// Pieces are numbers; what is sealed is done once it was waited for, or at once.
#[derive(Default)]
struct Fake {
    pinned: Cell<usize>,
    pinned_max: Option<usize>,
    is_fast: bool,
    waited: RefCell<Vec<usize>>,
}

impl Source for Fake {
    type Piece = usize;

    fn pin(&self, _bytes: usize) -> Result<usize, Fault> {
        if Some(self.pinned.get()) == self.pinned_max {
            let call = "cuMemHostAlloc";
            return Err(Fault { call, code: 2 });
        }
        self.pinned.set(self.pinned.get() + 1);
        Ok(self.pinned.get())
    }

    fn seal(&self, _piece: &usize) -> Result<(), Fault> {
        Ok(())
    }

    fn is_done(&self, _piece: &usize) -> Result<bool, Fault> {
        Ok(self.is_fast)
    }

    fn wait(&self, piece: &usize) -> Result<(), Fault> {
        self.waited.borrow_mut().push(*piece);
        Ok(())
    }
}

const PIECE: usize = 4096;

fn claim(ring: &mut Ring<usize>, source: &Fake, wanted: usize) -> (usize, usize, usize) {
    let part = ring.claim(source, wanted).unwrap();
    (*part.piece, part.offset, part.bytes)
}

#[test]
fn a_piece_is_given_out_from_start_to_end() {
    let source = Fake::default();
    let mut ring = Ring::new(PIECE, 4);
    assert_eq!(claim(&mut ring, &source, 1), (1, 0, 1));
    assert_eq!(claim(&mut ring, &source, 256), (1, 256, 256));
    assert_eq!(claim(&mut ring, &source, 3584), (1, 512, 3584));
    assert_eq!(claim(&mut ring, &source, 1), (2, 0, 1));
    assert_eq!(claim(&mut ring, &source, 3841), (3, 0, 3841));
    assert_eq!(claim(&mut ring, &source, 9999), (4, 0, PIECE));
}

#[test]
fn a_piece_is_used_again_when_it_is_done() {
    let source = Fake {
        is_fast: true,
        ..Fake::default()
    };
    let mut ring = Ring::new(PIECE, 4);
    let pieces: Vec<usize> = (0..6).map(|_| claim(&mut ring, &source, PIECE).0).collect();
    assert_eq!(pieces, [1, 1, 1, 1, 1, 1]);
}

#[test]
fn a_full_ring_waits_for_its_oldest_piece() {
    let source = Fake::default();
    let mut ring = Ring::new(PIECE, 3);
    let pieces: Vec<usize> = (0..7).map(|_| claim(&mut ring, &source, PIECE).0).collect();
    assert_eq!(pieces, [1, 2, 3, 1, 2, 3, 1]);
    assert_eq!(*source.waited.borrow(), [1, 2, 3, 1]);
}

#[test]
fn a_host_with_nothing_left_to_pin_ends_the_growth() {
    let source = Fake {
        pinned_max: Some(2),
        ..Fake::default()
    };
    let mut ring = Ring::new(PIECE, 64);
    let pieces: Vec<usize> = (0..5).map(|_| claim(&mut ring, &source, PIECE).0).collect();
    assert_eq!(pieces, [1, 2, 1, 2, 1]);
    let nothing = Fake {
        pinned_max: Some(0),
        ..Fake::default()
    };
    let mut ring = Ring::new(PIECE, 64);
    assert_eq!(ring.claim(&nothing, 1).unwrap_err().code, 2);
}

#[test]
fn little_room_is_left_over() {
    assert!(has_room(1, 1));
    assert!(!has_room(0, 0));
    assert!(!has_room(100, 101));
    assert!(has_room(1 << 20, 16 << 20));
    assert!(!has_room((1 << 20) - 1, 16 << 20));
}
