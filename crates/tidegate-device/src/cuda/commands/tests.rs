//! Commands come in order.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{CommandQueue, Next};

#[test]
fn commands_come_in_order() {
    let commands = CommandQueue::new();
    for command in 0..3 {
        commands.post(command).unwrap();
    }
    assert_eq!(commands.next_if(|&command| command == 1), None);
    assert_eq!(commands.next_if(|&command| command == 0), Some(0));
    assert_eq!(commands.next(None), Next::Command(1));
    assert_eq!(commands.next(None), Next::Command(2));
    let timeout = Some(Duration::from_millis(1));
    assert_eq!(commands.next(timeout), Next::Idle);
}

#[test]
fn a_closed_queue_is_read_to_its_end() {
    let commands = CommandQueue::new();
    commands.post('a').unwrap();
    commands.close();
    commands.post('b').unwrap();
    assert_eq!(commands.next(None), Next::Command('a'));
    assert_eq!(commands.next(None), Next::Command('b'));
    assert_eq!(commands.next(None), Next::End);
}

#[test]
fn after_the_end_commands_come_back() {
    let commands = CommandQueue::new();
    commands.post(1).unwrap();
    assert_eq!(commands.end(), [1]);
    assert_eq!(commands.post(2), Err(2));
    assert_eq!(commands.next(None), Next::End);
}

#[test]
fn closing_wakes_the_reader() {
    let commands = Arc::new(CommandQueue::<u8>::new());
    let reader = Arc::clone(&commands);
    let thread = thread::spawn(move || reader.next(None));
    commands.close();
    assert_eq!(thread.join().unwrap(), Next::End);
}
