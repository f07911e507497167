//! A list of processors is read as Linux writes it.

use super::{Nearness, keep_near, processors};

#[test]
fn a_list_of_processors_is_read_as_linux_writes_it() {
    assert_eq!(
        processors("0-3,8,10-11\n"),
        Some(vec![0, 1, 2, 3, 8, 10, 11])
    );
    assert_eq!(processors("\n"), Some(vec![]));
    assert_eq!(processors("0-x"), None);
    assert_eq!(processors("-1"), None);
}

#[test]
fn what_is_not_known_or_not_there_is_told_and_harms_nothing() {
    assert_eq!(keep_near(None), Nearness::NoNodes);
    let Nearness::Anywhere(why) = keep_near(Some(u32::MAX)) else {
        panic!("there is no such node");
    };
    assert!(why.contains("node4294967295/cpulist"), "{why}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_stays_on_what_it_may_use_of_a_list() {
    use super::keep_on;

    let allowed = || {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("Cpus_allowed_list"));
        processors(line.unwrap().split_once(':').unwrap().1).unwrap()
    };
    let thread = std::thread::spawn(move || {
        let may = allowed();
        let (first, far) = (may[0], 1023);
        assert_eq!(keep_on(&[first, far]), Ok(1));
        assert_eq!(allowed(), [first]);
        // What is forbidden is not taken by the back door.
        let none: Vec<usize> = may
            .iter()
            .copied()
            .filter(|&other| other != first)
            .collect();
        assert!(
            keep_on(&none)
                .unwrap_err()
                .contains("none of its processors")
        );
        assert_eq!(allowed(), [first]);
    });
    thread.join().unwrap();
}
