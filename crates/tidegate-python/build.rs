//! Links the module that is handed to people with functions of equal code put together, which makes it 4 % smaller.
//!
//! Only the profile `dist` is linked so, for the one target whose linker is known to have the option: rustc brings LLD
//! along for Linux on x86-64.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|of| of == value);
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let is_dist = Path::new(&out).iter().any(|part| part == "dist");
    let has_lld = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ARCH", "x86_64");
    if is_dist && has_lld {
        println!("cargo:rustc-link-arg-cdylib=-Wl,--icf=all");
    }
}
