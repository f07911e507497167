//! The bar tells what is known.

use std::time::Duration;

use indicatif::ProgressStyle;
use tidegate::QueryProgress;

use super::message;

#[test]
fn the_bar_tells_what_is_known() {
    let mut progress = QueryProgress {
        rows_read: 1_500,
        ..QueryProgress::default()
    };
    let shown = |progress: &QueryProgress| message(progress, Duration::from_secs(3));
    assert_eq!(shown(&progress), "1,500 rows, 3 s");
    progress.rows_total = Some(6_000);
    progress.seconds = 3.0;
    progress.bytes_read = 1 << 20;
    progress.device_rows = 500;
    progress.device_morsels = 1;
    progress.host_morsels = 2;
    assert_eq!(
        shown(&progress),
        "25 %, 1,500 of 6,000 rows, 1.00 MiB, 33 % on device, 1 of 3 morsels, 3 s, about 9 s left"
    );
    for template in ["{bar:24} {wide_msg}", "{spinner} {wide_msg}"] {
        assert!(ProgressStyle::with_template(template).is_ok());
    }
}
