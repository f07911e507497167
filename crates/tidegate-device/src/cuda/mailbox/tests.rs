//! Letters come in order.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Mailbox, Next};

#[test]
fn letters_come_in_order() {
    let mailbox = Mailbox::new();
    for letter in 0..3 {
        mailbox.post(letter).unwrap();
    }
    assert_eq!(mailbox.next_if(|&letter| letter == 1), None);
    assert_eq!(mailbox.next_if(|&letter| letter == 0), Some(0));
    assert_eq!(mailbox.next(None), Next::Letter(1));
    assert_eq!(mailbox.next(None), Next::Letter(2));
    let patience = Some(Duration::from_millis(1));
    assert_eq!(mailbox.next(patience), Next::Idle);
}

#[test]
fn a_closed_queue_is_read_to_its_end() {
    let mailbox = Mailbox::new();
    mailbox.post('a').unwrap();
    mailbox.close();
    mailbox.post('b').unwrap();
    assert_eq!(mailbox.next(None), Next::Letter('a'));
    assert_eq!(mailbox.next(None), Next::Letter('b'));
    assert_eq!(mailbox.next(None), Next::End);
}

#[test]
fn after_the_end_letters_come_back() {
    let mailbox = Mailbox::new();
    mailbox.post(1).unwrap();
    assert_eq!(mailbox.end(), [1]);
    assert_eq!(mailbox.post(2), Err(2));
    assert_eq!(mailbox.next(None), Next::End);
}

#[test]
fn closing_wakes_the_reader() {
    let mailbox = Arc::new(Mailbox::<u8>::new());
    let reader = Arc::clone(&mailbox);
    let thread = thread::spawn(move || reader.next(None));
    mailbox.close();
    assert_eq!(thread.join().unwrap(), Next::End);
}
