//! Tables come and go by name; reports add their chunks up.

use super::{CachedTable, ColumnCache};
use tidegate_device::DeviceId;

#[test]
fn a_table_takes_the_place_of_its_namesake() {
    let cache = ColumnCache::default();
    let table = |columns: &[&str]| {
        let columns = columns.iter().map(|name| (*name).to_string());
        CachedTable::new("t", DeviceId(0), columns)
    };
    cache.insert(table(&["a", "b"]));
    assert_eq!(cache.reports().len(), 2);
    cache.insert(table(&["c"]));
    assert_eq!(cache.names(), ["t"]);
    let reports = cache.reports();
    assert_eq!(reports.len(), 1);
    assert_eq!(
        (reports[0].column.as_str(), reports[0].num_chunks),
        ("c", 0)
    );
    assert!(cache.on_device(DeviceId(1)).is_empty());
    assert_eq!(cache.on_device(DeviceId(0)).len(), 1);
    let removed = cache.remove("t");
    assert!(removed.iter().map(|table| table.name()).eq(["t"]));
    assert!(cache.names().is_empty());
}
