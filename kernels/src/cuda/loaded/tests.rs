//! What was used longest ago is forgotten first.

use std::sync::Arc;

use super::{Loaded, LoadedSources, SOURCES_MAX};

#[test]
fn what_was_used_longest_ago_is_forgotten_first() {
    let sources = LoadedSources::default();
    let keep = |text: &str| {
        let loaded = Arc::new(Loaded {
            kernels: Vec::new(),
        });
        sources.keep(text, Arc::clone(&loaded));
        loaded
    };
    let first = keep("first");
    keep("second");
    for number in 0..SOURCES_MAX - 2 {
        keep(&number.to_string());
    }
    assert!(Arc::ptr_eq(&sources.find("first").unwrap(), &first));
    keep("one more");
    assert!(sources.find("second").is_none());
    assert!(Arc::ptr_eq(&sources.find("first").unwrap(), &first));
    let again = keep("first");
    assert!(Arc::ptr_eq(&sources.find("first").unwrap(), &again));
}
