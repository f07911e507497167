//! Chunks come back as they went in, and what saves most stays.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array,
    Int64Array, NullArray, StringArray, StringViewArray, TimestampMicrosecondArray, UInt64Array,
};

use arrow_schema::DataType;
use tidegate_kernels::host::{BLOCK, Chunk, Entries, Raw, Values};

use super::{
    Bid, BlocksBuilder, ChunkBuilder, ChunkLabel, ChunkReader, Found, HostMemory, HostTier, Offer,
    ScanNumber,
};
use crate::cache::ChunkKey;

const EACH: u64 = 1 << 20;

fn tier(limit: u64) -> HostTier {
    let tier = HostTier::default();
    tier.set_limit(limit);
    tier
}

fn chunk_of(tier: &HostTier, arrays: &[ArrayRef]) -> super::HostChunk {
    let mut builder = ChunkBuilder::default();
    for array in arrays {
        builder.push(array);
    }
    let bytes = builder.host_bytes();
    let mut charge = tier
        .charge(
            bytes,
            Bid {
                uses: 1.0,
                pace: 1.0,
            },
        )
        .unwrap();
    builder.finish(&mut charge)
}

fn check(arrays: &[ArrayRef], encoding: &str) {
    let tier = tier(1 << 30);
    let chunk = Arc::new(chunk_of(&tier, arrays));
    assert_eq!(chunk.encoding(), encoding, "{:?}", arrays[0].data_type());
    for batch_rows in [1, 3, 100_000] {
        let read = ChunkReader::new(vec![Arc::clone(&chunk)], batch_rows);
        let read: Vec<ArrayRef> = read.map(|columns| columns.unwrap().remove(0)).collect();
        let read: Vec<&dyn Array> = read.iter().map(AsRef::as_ref).collect();
        let want: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        let (read, want) = (
            arrow_select::concat::concat(&read).unwrap(),
            arrow_select::concat::concat(&want).unwrap(),
        );
        assert_eq!(&read, &want);
    }
    drop(chunk);
    assert_eq!(tier.used(), 0);
}

#[test]
fn values_come_back_as_they_went_in() {
    let some = |rows: i64, by: i64| (0..rows).map(move |row| (row % 7 != 3).then_some(row * by));
    for rows in [1, 7, 8, 63, 64, 65, 8192] {
        let ints = |by| Arc::new(some(rows, by).collect::<Int64Array>()) as ArrayRef;
        check(
            &[ints(1), ints(1).slice(rows as usize / 2, 1)],
            if rows == 1 { "constant" } else { "narrowed" },
        );
        let decimals: Decimal128Array = some(rows, 1_000).map(|v| v.map(i128::from)).collect();
        let decimals = decimals.with_precision_and_scale(15, 2).unwrap();
        check(
            &[Arc::new(decimals)],
            if rows == 1 { "constant" } else { "narrowed" },
        );
        let views: StringViewArray = some(rows, 1)
            .map(|v| v.map(|v| format!("a value that is not inlined {}", v % 5)))
            .collect();
        check(
            &[Arc::new(views)],
            if rows > 256 { "plain" } else { "dictionary" },
        );
    }
    let wide = Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]);
    check(&[Arc::new(wide)], "plain");
    let wide = Decimal128Array::from(vec![i128::MAX / 4, 1]);
    check(&[Arc::new(wide)], "plain");
    let days = Date32Array::from(vec![9_000, 9_001, 11_000]);
    check(&[Arc::new(days)], "narrowed");
    let times = TimestampMicrosecondArray::from(vec![1_700_000_000_000_000, 1_700_000_000_000_001]);
    check(&[Arc::new(times.with_timezone("UTC"))], "narrowed");
    check(&[Arc::new(Float64Array::from(vec![0.5, -0.0]))], "plain");
    check(
        &[Arc::new(BooleanArray::from(vec![Some(true), None]))],
        "plain",
    );
    check(&[Arc::new(UInt64Array::from(vec![u64::MAX]))], "plain");
    check(&[Arc::new(NullArray::new(3))], "plain");
    check(&[Arc::new(StringArray::from(vec!["a", "b"]))], "plain");
    let codes: DictionaryArray<Int32Type> = vec!["x", "y", "x"].into_iter().collect();
    check(&[Arc::new(codes)], "plain");
}

/// Blocks of one column, with what their codes are of.
fn check_blocks(
    data_type: &DataType,
    entries: Option<&Entries>,
    blocks: &[(Values<'_>, Option<&[u8]>, usize)],
    want: ArrayRef,
    encoding: &str,
) {
    let tier = tier(1 << 30);
    let num_rows: usize = blocks.iter().map(|(_, _, rows)| rows).sum();
    let mut builder = BlocksBuilder::new(data_type, num_rows).unwrap();
    for (values, validity, rows) in blocks {
        let (values, validity) = (*values, *validity);
        let bytes = builder.push(&Chunk { values, validity }, entries, *rows);
        assert!(bytes.unwrap() > 0);
    }
    assert_eq!(builder.num_rows(), num_rows as u64);
    let chunk = builder.finish().unwrap();
    let bid = Bid {
        uses: 1.0,
        pace: 1.0,
    };
    let mut charge = tier.charge(chunk.host_bytes(), bid).unwrap();
    let chunk = Arc::new(chunk.finish(&mut charge));
    assert_eq!(chunk.encoding(), encoding, "{data_type}");
    for batch_rows in [1, 3, 100_000] {
        let read = ChunkReader::new(vec![Arc::clone(&chunk)], batch_rows);
        let read: Vec<ArrayRef> = read.map(|columns| columns.unwrap().remove(0)).collect();
        let read: Vec<&dyn Array> = read.iter().map(AsRef::as_ref).collect();
        assert_eq!(&arrow_select::concat::concat(&read).unwrap(), &want);
    }
}

#[test]
fn blocks_come_back_as_they_went_in() {
    // Codes of each width, one value for a block, NULLs in the second block alone, then values.
    for (num_entries, rows) in [(200, 9_000), (300, 9_000), (70_000, 700_000_usize)] {
        let step = 1_i64 << 40;
        let entries = Entries::I64((0..num_entries).map(|value| value * step).collect());
        let code = |row: usize| (row * 7 % num_entries as usize) as u32;
        let codes: Vec<u32> = (0..rows).map(code).collect();
        let (one, two): (Vec<u8>, Vec<u16>) = (
            codes.iter().map(|code| *code as u8).collect(),
            codes.iter().map(|code| *code as u16).collect(),
        );
        let coded = match num_entries {
            200 => Values::Codes8(&one),
            300 => Values::Codes16(&two),
            _ => Values::Codes32(&codes),
        };
        let valid: Vec<u8> = (0..rows).map(|row| u8::from(row % 5 != 2)).collect();
        let plain: Vec<i64> = (0..10).map(|value| value - 5).collect();
        let blocks = [
            (Values::Constant(7), None, 4),
            (coded, Some(valid.as_slice()), rows),
            (Values::I64(&plain), None, 10),
        ];
        let first = (0..4).map(|_| Some(7 * step));
        let second = codes.iter().zip(&valid);
        let second = second.map(|(code, valid)| (*valid != 0).then_some(i64::from(*code) * step));
        let all = first.chain(second).chain(plain.iter().copied().map(Some));
        let all: Vec<Option<i64>> = all.collect();
        let want = Arc::new(Int64Array::from(all.clone()));
        check_blocks(
            &DataType::Int64,
            Some(&entries),
            &blocks,
            want,
            "dictionary",
        );
        let wide = all.iter().map(|value| value.map(i128::from));
        let wide = wide.collect::<Decimal128Array>();
        let wide = Arc::new(wide.with_precision_and_scale(38, 2).unwrap());
        let data_type = DataType::Decimal128(38, 2);
        check_blocks(&data_type, Some(&entries), &blocks, wide, "dictionary");
    }
    // Where values take less than codes and entries, they are kept.
    let narrow = Entries::I64((0..300).map(|value| 1_000 + value % 200).collect());
    let blocks = [
        (Values::Codes16(&[299, 0, 7]), None, 3),
        (Values::Constant(1), None, 2),
    ];
    let want = Arc::new(Int64Array::from(vec![1_099, 1_000, 1_007, 1_001, 1_001]));
    check_blocks(&DataType::Int64, Some(&narrow), &blocks, want, "narrowed");
    let wide = Entries::I32((0..300).map(|value| 100_000 - value * 300).collect());
    let want = Arc::new(Date32Array::from(vec![
        10_300, 100_000, 97_900, 99_700, 99_700,
    ]));
    check_blocks(&DataType::Date32, Some(&wide), &blocks, want, "narrowed");
    let halves = Entries::F64((0..300).map(|value| f64::from(value) / 2.0).collect());
    let want = Arc::new(Float64Array::from(vec![149.5, 0.0, 3.5, 0.5, 0.5]));
    check_blocks(&DataType::Float64, Some(&halves), &blocks, want, "plain");
    let texts = StringViewArray::from(vec!["", "short", "one that is not inlined at all"]);
    let views = Entries::Text(texts.clone());
    let blocks = [
        (Values::Codes8(&[2, 0, 1]), Some([1_u8, 0, 1].as_slice()), 3),
        (
            Values::Text {
                array: &texts,
                at: 1,
            },
            None,
            2,
        ),
    ];
    let long = "one that is not inlined at all";
    let want = [Some(long), None, Some("short"), Some("short"), Some(long)];
    let as_views = Arc::new(StringViewArray::from(want.to_vec()));
    check_blocks(
        &DataType::Utf8View,
        Some(&views),
        &blocks,
        as_views,
        "dictionary",
    );
    let as_strings = Arc::new(StringArray::from(want.to_vec()));
    check_blocks(
        &DataType::Utf8,
        Some(&views),
        &blocks,
        as_strings,
        "dictionary",
    );
    let offset = Values::Offset {
        base: -9,
        factor: 10,
        raw: Raw::U16(&[0, 900, 3]),
    };
    let want = Arc::new(Int64Array::from(vec![-9, 8_991, 21]));
    check_blocks(
        &DataType::Int64,
        None,
        &[(offset, None, 3)],
        want,
        "narrowed",
    );
    let floats = Values::F64(&[f64::NAN, -0.0, 1.5]);
    let want = Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 1.5]));
    check_blocks(
        &DataType::Float64,
        None,
        &[(floats, None, 3)],
        want,
        "plain",
    );
    let bits = (Values::Bool(&[1, 0, 1]), Some([1_u8, 1, 0].as_slice()), 3);
    let want = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]));
    check_blocks(&DataType::Boolean, None, &[bits], want, "plain");
    let unsigned = Values::I128(&[0, i128::from(u64::MAX)]);
    let want = Arc::new(UInt64Array::from(vec![0, u64::MAX]));
    check_blocks(
        &DataType::UInt64,
        None,
        &[(unsigned, None, 2)],
        want,
        "plain",
    );
}

/// Strings that repeat are kept as codes, also behind codes of the pages' own; others as they are.
#[test]
fn strings_that_repeat_become_codes() {
    const ROWS: usize = 20_000;
    let entries: Vec<String> = (0..300).map(|at| format!("string number {at}")).collect();
    let codes: Vec<u16> = (0..1_000).map(|row| (row % 300) as u16).collect();
    let first = codes
        .iter()
        .map(|code| Some(entries[usize::from(*code)].clone()));
    let first: Vec<Option<String>> = first.collect();
    let entries = Entries::Text(entries.iter().map(Some).collect());
    let valid: Vec<u8> = (0..ROWS).map(|row| u8::from(row % 7 != 2)).collect();
    for (distinct, encoding) in [(700, "dictionary"), (5_000, "dictionary"), (ROWS, "plain")] {
        // Half of them are long; behind a NULL is a string of its own.
        let text = |row: usize| match row % distinct % 2 {
            0 => format!("{}", row % distinct),
            _ => format!("a string that is not inlined, {}", row % distinct),
        };
        let array: StringViewArray = (0..ROWS)
            .map(|row| {
                Some(if valid[row] == 0 {
                    format!("hidden {row}")
                } else {
                    text(row)
                })
            })
            .collect();
        let block = |at: usize, rows: usize| {
            let array = &array;
            (
                Values::Text { array, at },
                Some(&valid[at..at + rows]),
                rows,
            )
        };
        let starts = (0..ROWS).step_by(BLOCK);
        let texts = starts.map(|at| block(at, BLOCK.min(ROWS - at)));
        let behind_codes = std::iter::once((Values::Codes16(&codes), None, codes.len()));
        let blocks: Vec<_> = behind_codes.chain(texts).collect();
        let second = (0..ROWS).map(|row| (valid[row] != 0).then(|| text(row)));
        let want: Vec<Option<String>> = first.iter().cloned().chain(second).collect();
        let want: StringViewArray = want.iter().collect();
        check_blocks(
            &DataType::Utf8View,
            Some(&entries),
            &blocks,
            Arc::new(want),
            encoding,
        );
        let want: Vec<Option<String>> = (0..ROWS)
            .map(|row| (valid[row] != 0).then(|| text(row)))
            .collect();
        let want: StringArray = want.iter().collect();
        check_blocks(
            &DataType::Utf8,
            None,
            &blocks[1..],
            Arc::new(want),
            encoding,
        );
    }
}

/// What cannot come back is not kept.
#[test]
fn blocks_that_are_not_kept() {
    let list = DataType::new_list(DataType::Int64, true);
    assert!(BlocksBuilder::new(&list, 1).is_none());
    let mut builder = BlocksBuilder::new(&DataType::Int64, 1).unwrap();
    let nulls = Chunk {
        values: Values::Constant(0),
        validity: Some(&[0]),
    };
    assert!(builder.push(&nulls, None, 1).is_none());
    let none = Entries::I64(Vec::new());
    assert!(builder.push(&nulls, Some(&none), 1).is_none());
}

#[test]
fn views_of_few_values_let_go_of_their_pages() {
    let few: StringViewArray = (0..8192)
        .map(|row| Some(["R", "A", "N"][row % 3]))
        .collect();
    let tier = tier(1 << 30);
    let chunk = chunk_of(&tier, &[Arc::new(few)]);
    assert_eq!(chunk.encoding(), "dictionary");
    assert!(chunk.host_bytes() < 10_000, "{}", chunk.host_bytes());
}

/// Offers part `part` of a table as chunks of one megabyte; returns whether it came in.
fn offer(tier: &HostTier, scan: ScanNumber, table: &str, part: u64) -> bool {
    let (source, column): (Arc<str>, Arc<str>) = (table.into(), "c".into());
    let columns = [Arc::clone(&column)];
    match tier.look(scan, &source, &columns, part) {
        Found::All(_) => return true,
        Found::Some(there) => assert_eq!(there, [false]),
    }
    let uses = tier.uses(&source, &columns, part);
    let pace = 1e-8;
    let Some(mut charge) = tier.charge(EACH, Bid { uses, pace }) else {
        return false;
    };
    let builder = ChunkBuilder::of_size(EACH);
    tier.keep(Offer {
        key: ChunkKey {
            source: Arc::clone(&source),
            column: Arc::clone(&column),
            part,
        },
        label: ChunkLabel { source, column },
        uses,
        chunk: builder.finish(&mut charge),
        seconds: pace * EACH as f64,
    });
    true
}

fn scan(tier: &HostTier, table: &str, parts: u64) -> usize {
    let number = tier.begin_scan();
    (0..parts)
        .filter(|part| offer(tier, number, table, *part))
        .count()
}

#[test]
fn one_pass_over_a_large_table_flushes_nothing_that_is_hot() {
    let tier = tier(10 * EACH);
    assert_eq!(scan(&tier, "hot", 6), 6);
    assert_eq!(scan(&tier, "hot", 6), 6);
    // The first pass fills what is free, and no pass evicts its own head for its tail.
    assert_eq!(scan(&tier, "large", 1_000), 4);
    assert_eq!(scan(&tier, "hot", 6), 6);
    assert_eq!(tier.used(), 10 * EACH);
}

#[test]
fn what_is_read_again_displaces_what_was_read_once() {
    let tier = tier(4 * EACH);
    assert_eq!(scan(&tier, "once", 4), 4);
    assert_eq!(scan(&tier, "often", 4), 0);
    assert_eq!(scan(&tier, "often", 4), 4);
    assert!(!tier.holds("once"));
    // What was hot fades while others are read.
    for _ in 0..200 {
        tier.begin_scan();
    }
    assert_eq!(scan(&tier, "new", 4), 4);
}

#[test]
fn tables_stay_and_statements_come_first() {
    struct Pool(std::sync::atomic::AtomicU64);
    impl HostMemory for Pool {
        fn left_by_statements(&self) -> u64 {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }
    }
    let tier = tier(8 * EACH);
    let pool = Arc::new(Pool((4 * EACH).into()));
    let watched: Arc<dyn HostMemory> = pool.clone();
    tier.watch(Arc::downgrade(&watched));
    assert_eq!(scan(&tier, "t", 6), 4);
    pool.0
        .store(100 * EACH, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(scan(&tier, "u", 6), 4);

    let mut charge = tier.charge_table(2 * EACH).unwrap();
    assert_eq!(tier.used(), 8 * EACH);
    let builder = ChunkBuilder::of_size(2 * EACH);
    let (source, column): (Arc<str>, Arc<str>) = ("v".into(), "c".into());
    let kept = Offer {
        key: ChunkKey {
            source: Arc::clone(&source),
            column: Arc::clone(&column),
            part: 0,
        },
        label: ChunkLabel { source, column },
        uses: 1.0,
        chunk: builder.finish(&mut charge),
        seconds: 1.0,
    };
    tier.keep_table("trips", vec![kept]);
    assert_eq!(tier.table_bytes(), 2 * EACH);
    assert!(tier.charge_table(7 * EACH).is_none());
    assert_eq!(tier.give_back(100 * EACH), 6 * EACH);
    assert_eq!(tier.used(), 2 * EACH);
    assert_eq!(tier.reports()[0].table, "trips");
    assert_eq!(tier.remove_table("trip"), None);
    assert_eq!(tier.remove_table("trips"), Some(2 * EACH));
    assert_eq!(tier.used(), 0);
}

#[test]
fn a_source_that_changed_is_forgotten_and_readers_keep_what_they_read() {
    let tier = tier(8 * EACH);
    scan(&tier, "t", 2);
    let key = ChunkKey {
        source: "t".into(),
        column: "c".into(),
        part: 1,
    };
    let read = tier.peek(&key).unwrap();
    // A chunk that is read does not go for another.
    assert_eq!(tier.give_back(8 * EACH), EACH);
    tier.forget("t");
    assert!(tier.peek(&key).is_none());
    assert_eq!(tier.used(), EACH);
    drop(read);
    assert_eq!(tier.used(), 0);
}
