//! The list gives the order.

use super::select;

fn check(list: &str, ordinals: &[u32], ended_by: Option<&str>) {
    let uuids = ["GPU-aa01", "GPU-aa02", "GPU-bb03"].map(|uuid| Some(uuid.to_owned()));
    let selection = select(list, &uuids);
    assert_eq!(selection.ordinals, ordinals, "{list}");
    assert_eq!(
        selection
            .ended_by
            .as_deref()
            .map(|why| why.split('\'').nth(1).unwrap()),
        ended_by,
        "{list}"
    );
}

#[test]
fn the_list_gives_the_order() {
    check("2,0", &[2, 0], None);
    check(" 1 , 2 ", &[1, 2], None);
    check("GPU-bb,1", &[2, 1], None);
}

#[test]
fn an_empty_list_is_none() {
    check("", &[], None);
    check("  ", &[], None);
}

#[test]
fn what_names_no_device_ends_the_list() {
    check("1,9,0", &[1], Some("9"));
    check("-1", &[], Some("-1"));
    check("0,-1,1", &[0], Some("-1"));
    check("none", &[], Some("none"));
    check("0,,1", &[0], Some(""));
    check("GPU-aa", &[], Some("GPU-aa"));
    check("0,GPU-aa01", &[0], Some("GPU-aa01"));
}

#[test]
fn a_device_without_a_uuid_has_an_index_only() {
    let selection = select("0,GPU-", &[None]);
    assert_eq!(selection.ordinals, [0]);
    assert!(selection.ended_by.is_some());
}
