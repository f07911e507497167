//! A UUID has the usual form.

use super::{Driver, DriverCalls, format_uuid};
use crate::discovery::Outcome;
use crate::library::CallError;

#[test]
fn a_uuid_has_the_usual_form() {
    let bytes = std::array::from_fn(|i| i as u8);
    assert_eq!(
        format_uuid(bytes),
        "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    );
}

#[test]
fn a_library_that_is_not_there_is_not_found() {
    let outcome = Driver::open("libtidegate-has-no-such.so.1").err();
    assert_eq!(outcome, Some(Outcome::NotFound));
}

#[test]
#[cfg(target_os = "linux")]
fn a_library_without_the_symbols_is_no_driver() {
    let driver = Driver::open("libc.so.6").unwrap();
    assert_eq!(driver.init(), Err(CallError::Missing("cuInit")));
    assert_eq!(
        driver.version(),
        Err(CallError::Missing("cuDriverGetVersion"))
    );
    assert_eq!(driver.name(0), Err(CallError::Missing("cuDeviceGet")));
}
