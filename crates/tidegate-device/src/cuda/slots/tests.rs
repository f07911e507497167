//! Slots are pinned together when they are needed.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{NUM_FILLED, RawSlot, Slots};
use crate::error::DeviceError;
use crate::info::DeviceId;

const AT_ONCE: usize = 16;

fn raw(index: usize) -> RawSlot {
    let start = NonNull::dangling();
    RawSlot { index, start }
}

fn lost() -> DeviceError {
    DeviceError::Lost {
        device: DeviceId(0),
        why: "a test".into(),
    }
}

/// Pins at once what is asked for, and counts how often.
fn take(slots: &Slots, num_pinned: &Cell<usize>) -> RawSlot {
    let pin = |num_slots| {
        num_pinned.set(num_pinned.get() + 1);
        let first = slots.num_slots();
        slots.put_new((first..first + num_slots).map(raw).collect());
    };
    slots.take(|| Ok(()), pin).unwrap()
}

#[test]
fn slots_are_pinned_together_when_they_are_needed() {
    let slots = Slots::new(AT_ONCE + 3, AT_ONCE);
    let num_pinned = Cell::new(0);
    let mut taken: Vec<RawSlot> = (0..AT_ONCE).map(|_| take(&slots, &num_pinned)).collect();
    assert_eq!(num_pinned.get(), 1);
    // One that comes back is enough.
    slots.put(taken.remove(0), false);
    taken.push(take(&slots, &num_pinned));
    assert_eq!(num_pinned.get(), 1);
    // All are held by threads that fill them: the device waits, so there are more.
    taken.push(take(&slots, &num_pinned));
    assert_eq!(num_pinned.get(), 2);
    assert_eq!(slots.num_slots(), AT_ONCE + 3);
    taken.sort_by_key(|slot| slot.index);
    taken.dedup_by_key(|slot| slot.index);
    assert_eq!(taken.len(), AT_ONCE + 1);
}

#[test]
fn nothing_is_pinned_while_the_link_has_enough_to_do() {
    let slots = Arc::new(Slots::new(2 * AT_ONCE, AT_ONCE));
    let num_pinned = Cell::new(0);
    let taken: Vec<RawSlot> = (0..AT_ONCE).map(|_| take(&slots, &num_pinned)).collect();
    (0..NUM_FILLED).for_each(|_| slots.fill());
    let waiting = Arc::clone(&slots);
    let thread = thread::spawn(move || {
        let pin = |_| panic!("enough are on their way");
        waiting.take(|| Ok(()), pin).unwrap().index
    });
    thread::sleep(Duration::from_millis(20));
    slots.put(taken[5], true);
    assert_eq!(thread.join().unwrap(), taken[5].index);
    // One less is on its way than the link needs.
    take(&slots, &num_pinned);
    assert_eq!(num_pinned.get(), 2);
}

#[test]
fn a_slot_that_is_never_free_again_makes_room_for_another() {
    let slots = Slots::new(1, AT_ONCE);
    let num_pinned = Cell::new(0);
    let only = take(&slots, &num_pinned);
    slots.fill();
    slots.forget(only);
    take(&slots, &num_pinned);
    assert_eq!((slots.num_slots(), num_pinned.get()), (1, 2));
}

#[test]
fn whoever_waits_gets_the_slot_that_comes_back() {
    let slots = Arc::new(Slots::new(1, AT_ONCE));
    let first = slots.take(|| Ok(()), |_| slots.put_new(vec![raw(7)]));
    let waiting = Arc::clone(&slots);
    let thread = thread::spawn(move || {
        let taken = waiting.take(|| Ok(()), |_| panic!("there is a slot already"));
        taken.unwrap().index
    });
    thread::sleep(Duration::from_millis(10));
    slots.put(first.unwrap(), false);
    assert_eq!(thread.join().unwrap(), 7);
}

#[test]
fn a_host_with_nothing_to_pin_is_an_error_unless_there_are_slots() {
    let slots = Slots::new(4, AT_ONCE);
    let error = slots.take(|| Ok(()), |_| slots.cannot_pin(lost()));
    assert_eq!(error.unwrap_err(), lost());
    let first = slots.take(|| Ok(()), |_| slots.put_new(vec![raw(1)]));
    let first = first.unwrap();
    let pin = |_| {
        slots.cannot_pin(lost());
        // The one that there is comes back.
        slots.put(first, false);
    };
    assert_eq!(slots.take(|| Ok(()), pin).unwrap().index, 1);
    assert_eq!(slots.num_slots(), 1);
}

#[test]
fn a_lost_device_is_not_waited_for() {
    let slots = Slots::new(1, AT_ONCE);
    let error = slots.take(|| Err(lost()), |_| ());
    assert_eq!(error.unwrap_err(), lost());
}
