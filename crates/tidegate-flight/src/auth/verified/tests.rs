//! An outcome is that of its own credential.

use super::{KEPT_MAX, VerifiedCredentials};
use crate::users::Person;

fn person(name: &str) -> Person {
    Person {
        name: name.into(),
        is_admin: false,
    }
}

#[test]
fn an_outcome_is_that_of_its_own_credential() {
    let kept = VerifiedCredentials::new().unwrap();
    let right = kept.credential("ada", "one").unwrap();
    let wrong = kept.credential("ada", "two").unwrap();
    assert_eq!(kept.find(&right), None);
    kept.keep(right, Some(person("ada")));
    kept.keep(wrong, None);
    let again = kept.credential("ada", "one").unwrap();
    assert_eq!(kept.find(&again), Some(Some(person("ada"))));
    assert_eq!(kept.find(&wrong), Some(None));
    for (name, password) in [("ad", "aone"), ("adao", "ne"), ("ada", "onE"), ("", "")] {
        let other = kept.credential(name, password).unwrap();
        assert_eq!(kept.find(&other), None, "{name} {password}");
    }
    // Another process has another key.
    let other = VerifiedCredentials::new().unwrap();
    assert!(other.credential("ada", "one").unwrap() != right);
}

#[test]
fn wrong_ones_do_not_take_the_place_of_right_ones() {
    let kept = VerifiedCredentials::new().unwrap();
    let right = kept.credential("ada", "one").unwrap();
    kept.keep(right, Some(person("ada")));
    let first = kept.credential("eve", "0").unwrap();
    for guess in 0..=KEPT_MAX {
        let credential = kept.credential("eve", &guess.to_string()).unwrap();
        kept.keep(credential, None);
    }
    assert_eq!(kept.find(&right), Some(Some(person("ada"))));
    assert_eq!(kept.find(&first), None, "the oldest made room");
    assert_eq!(kept.wrong.lock().values.len(), KEPT_MAX);
}
