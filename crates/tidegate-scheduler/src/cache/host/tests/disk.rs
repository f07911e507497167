//! What finds no room in memory lies on disk, comes back as it was, and keeps to its limit.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int32Array,
    Int64Array, NullArray, StringArray, StringViewArray,
};

use super::super::{
    Bid, ChunkBuilder, ChunkLabel, ChunkReader, Found, Held, HostChunk, HostTier, Offer,
};
use super::{EACH, tier};
use crate::cache::ChunkKey;

fn key(part: u64) -> ChunkKey {
    ChunkKey {
        source: "t".into(),
        column: "c".into(),
        part,
    }
}

fn bid(uses: f64) -> Bid {
    Bid { uses, pace: 1e-8 }
}

/// Waits until nothing is being written.
fn settle(tier: &HostTier) {
    for _ in 0..2000 {
        if tier.spilling_bytes() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{} bytes are still written", tier.spilling_bytes());
}

/// Has these arrays written as a chunk that was read so often.
fn spill(tier: &HostTier, part: u64, uses: f64, arrays: &[ArrayRef]) {
    let mut builder = ChunkBuilder::default();
    for array in arrays {
        builder.push(array);
    }
    let mut charge = tier.charge_to_spill(builder.host_bytes()).unwrap();
    let key = key(part);
    tier.spill(Offer {
        label: ChunkLabel {
            source: "/t.parquet".into(),
            column: "c".into(),
        },
        key,
        uses,
        chunk: builder.finish(&mut charge),
        seconds: 1.0,
    });
    drop(charge);
    settle(tier);
}

fn found(tier: &HostTier, part: u64) -> Option<Held> {
    let of = key(part);
    match tier.look(tier.begin_scan(), &of.source, &[of.column], part) {
        Found::OnDisk(mut held) => held.pop(),
        Found::All(mut chunks) => chunks.pop().map(Held::Memory),
        Found::Some(_) => None,
    }
}

fn fetched(tier: &HostTier, part: u64) -> std::io::Result<Arc<HostChunk>> {
    match found(tier, part) {
        Some(Held::Disk(key, chunk)) => tier.fetch(&key, &chunk),
        other => panic!("not on disk: {other:?}"),
    }
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let folders = std::fs::read_dir(folder).unwrap();
    let files = folders.flat_map(|entry| std::fs::read_dir(entry.unwrap().path()).unwrap());
    files.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn values_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(0);
    tier.set_disk(folder.path(), 1 << 30).unwrap();
    let some = |rows: i64, by: i64| {
        (0..rows).map(move |row| (row % 7 != 3).then_some(row.wrapping_mul(by)))
    };
    let mut columns: Vec<Vec<ArrayRef>> = Vec::new();
    for rows in [1, 7, 8, 63, 64, 65, 8192] {
        for by in [0, 1, 100, 1 << 20, 1 << 60] {
            let ints: ArrayRef = Arc::new(some(rows, by).collect::<Int64Array>());
            let rest = ints.slice(rows as usize / 2, rows as usize - rows as usize / 2);
            columns.push(vec![ints, rest]);
        }
        let short: Int32Array = (0..rows as i32).collect();
        let decimals: Decimal128Array = some(rows, 1_000).map(|v| v.map(i128::from)).collect();
        let views: StringViewArray = some(rows, 1)
            .map(|v| v.map(|v| format!("a value that is not inlined {v}")))
            .collect();
        let few: StringViewArray = (0..rows)
            .map(|row| Some(["R", "A"][row as usize % 2]))
            .collect();
        let bools: BooleanArray = (0..rows)
            .map(|row| (row % 5 != 2).then_some(row % 3 == 0))
            .collect();
        let floats: Float64Array = (0..rows)
            .map(|row| match row % 4 {
                0 => Some(-0.0),
                1 => Some(f64::NAN),
                2 => None,
                _ => Some(row as f64),
            })
            .collect();
        let texts: StringArray = some(rows, 1).map(|v| v.map(|v| v.to_string())).collect();
        let plain: [ArrayRef; 7] = [
            Arc::new(short),
            Arc::new(decimals),
            Arc::new(views),
            Arc::new(few),
            Arc::new(bools),
            Arc::new(floats),
            Arc::new(texts),
        ];
        for array in plain {
            let middle = array.slice(rows as usize / 3, rows as usize / 2);
            columns.push(vec![array, middle]);
        }
        columns.push(vec![Arc::new(NullArray::new(rows as usize))]);
    }
    let mut failed: Vec<String> = Vec::new();
    for (part, arrays) in columns.iter().enumerate() {
        spill(&tier, part as u64, 2.0, arrays);
        let chunk = match fetched(&tier, part as u64) {
            Ok(chunk) => chunk,
            Err(error) => {
                let (of, rows) = (arrays[0].data_type(), arrays[0].len());
                failed.push(format!("{of} of {rows} rows: {error}"));
                continue;
            }
        };
        let read: Vec<ArrayRef> = ChunkReader::new(vec![chunk], 100)
            .map(|columns| columns.unwrap().remove(0))
            .collect();
        let read: Vec<&dyn Array> = read.iter().map(AsRef::as_ref).collect();
        let want: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        let (read, want) = (
            arrow_select::concat::concat(&read).unwrap(),
            arrow_select::concat::concat(&want).unwrap(),
        );
        // NaN is no NaN, but its bits are.
        assert_eq!(format!("{read:?}"), format!("{want:?}"));
    }
    assert_eq!(failed, Vec::<String>::new());
    assert_eq!(tier.used(), 0);
    let activity = tier.activity();
    assert_eq!(activity.disk_hits, columns.len() as u64);
    let [report] = tier.disk_reports().try_into().unwrap();
    assert_eq!(
        (report.table.as_str(), report.hits),
        ("/t.parquet", activity.disk_hits)
    );
    assert_eq!(report.disk_bytes, tier.disk_used());
    // A chunk with children is let go.
    let codes: DictionaryArray<Int32Type> = vec!["x", "y", "x"].into_iter().collect();
    spill(&tier, 1 << 20, 2.0, &[Arc::new(codes)]);
    assert!(found(&tier, 1 << 20).is_none());
}

#[test]
fn a_file_that_is_not_what_was_written_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(0);
    tier.set_disk(folder.path(), 1 << 30).unwrap();
    let values: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
    let damages: [&dyn Fn(&Path); 3] = [
        &|file| std::fs::remove_file(file).unwrap(),
        &|file| std::fs::write(file, [0; 24]).unwrap(),
        &|file| std::fs::write(file, [0; 7]).unwrap(),
    ];
    for (part, damage) in damages.iter().enumerate() {
        spill(&tier, part as u64, 2.0, &[Arc::clone(&values)]);
        damage(&files(folder.path())[0]);
        assert!(fetched(&tier, part as u64).is_err());
        assert!(found(&tier, part as u64).is_none());
        assert_eq!((tier.disk_used(), tier.used()), (0, 0));
    }
    assert_eq!(files(folder.path()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn files_keep_to_the_limit_and_what_is_read_most_stays() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(0);
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..1024).map(|row| f64::from(row).sqrt()),
    ));
    let each = 8 * 1024;
    tier.set_disk(folder.path(), 4 * each + each / 2).unwrap();
    for part in 0..6 {
        spill(&tier, part, 2.0, &[Arc::clone(&values)]);
        assert!(tier.disk_used() <= 4 * each + each / 2);
    }
    // What was read as often displaces nothing; what was read twice as often does.
    let there = |tier: &HostTier| (0..8).filter(|part| found(tier, *part).is_some()).count();
    assert_eq!(there(&tier), 4);
    assert!(!tier.would_spill(each, bid(1.0)));
    assert!(tier.would_spill(each, bid(100.0)));
    spill(&tier, 6, 100.0, &[Arc::clone(&values)]);
    assert!(found(&tier, 6).is_some());
    assert_eq!((there(&tier), files(folder.path()).len()), (4, 4));
    tier.set_disk(folder.path(), 2 * each).unwrap();
    assert_eq!(tier.disk_used(), 2 * each);
    assert!(tier.holds("t"));
    tier.forget("t");
    assert!(!tier.holds("t") && tier.disk_used() == 0);
    spill(&tier, 7, 2.0, &[values]);
    assert!(tier.disk_used() > 0);
    tier.set_disk(folder.path(), 0).unwrap();
    assert!(!tier.would_spill(1, bid(100.0)) && tier.disk_used() == 0);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_gives_way_in_memory_lies_on_disk_and_comes_back_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let tier = tier(4 * EACH);
    tier.set_disk(folder.path(), 1 << 30).unwrap();
    assert_eq!(super::scan(&tier, "warm", 4), 4);
    assert_eq!(super::scan(&tier, "warm", 4), 4);
    for _ in 0..4 {
        super::scan(&tier, "hot", 4);
    }
    settle(&tier);
    assert_eq!(tier.used(), 4 * EACH);
    // What gave way at once was more than may wait to be written; the rest is let go.
    let on_disk = tier.disk_reports();
    assert_eq!(on_disk[0].table, "warm");
    assert!((1..=4).contains(&on_disk[0].num_chunks), "{on_disk:?}");
    let look = || {
        (0..4).find_map(|part| {
            match tier.look(tier.begin_scan(), &"warm".into(), &["c".into()], part) {
                Found::OnDisk(mut held) => held.pop(),
                _ => None,
            }
        })
    };
    let Some(Held::Disk(key, chunk)) = look() else {
        panic!("what gave way is not on disk");
    };
    // With room it stays once it was read.
    tier.forget("hot");
    drop(tier.fetch(&key, &chunk).unwrap());
    assert!(tier.peek(&key).is_some());
    // Whoever needs memory does not wait for files.
    tier.give_back(EACH);
    assert_eq!(tier.spilling_bytes(), 0);
}
