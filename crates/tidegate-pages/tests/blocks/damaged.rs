//! Files with flipped bits, cut or moved bytes and other lengths: an error or some values, never a panic,
//! and never more memory than the limits allow.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{WriterProperties, WriterVersion};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_kernels::host::{Chunk, Entries, Values};
use tidegate_pages::{Buffers, ChunkBytes, ColumnRequest, PageError, ReadOptions, RowGroupReader};

use crate::compare::Opened;
use crate::files::{Nulls, Values as Distribution, columns, written};

const PAGE_BYTES_MAX: u64 = 1 << 20;
const MUTATIONS: usize = 24_000;

fn files(random: &mut StdRng) -> Vec<Bytes> {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::ZSTD(ZstdLevel::default()),
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4_RAW,
    ];
    let encodings = [
        None,
        Some(Encoding::PLAIN),
        Some(Encoding::DELTA_BINARY_PACKED),
        Some(Encoding::DELTA_BYTE_ARRAY),
        Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        Some(Encoding::BYTE_STREAM_SPLIT),
        Some(Encoding::RLE),
    ];
    let mut files = Vec::new();
    for (index, encoding) in encodings.into_iter().cycle().take(21).enumerate() {
        let takes = |name: &str| match encoding {
            None | Some(Encoding::PLAIN) => true,
            Some(Encoding::RLE) => name == "bool",
            Some(Encoding::DELTA_BINARY_PACKED) => ["i32", "i64", "u64", "date32"].contains(&name),
            Some(Encoding::DELTA_LENGTH_BYTE_ARRAY) => name.contains("text"),
            Some(Encoding::DELTA_BYTE_ARRAY) => name.contains("text") || name == "decimal38",
            _ => ["i32", "i64", "f64", "decimal22"].contains(&name),
        };
        let mut properties = WriterProperties::builder()
            .set_writer_version(match index % 2 {
                0 => WriterVersion::PARQUET_1_0,
                _ => WriterVersion::PARQUET_2_0,
            })
            .set_compression(codecs[index % codecs.len()])
            .set_dictionary_enabled(encoding.is_none())
            .set_dictionary_page_size_limit(2_000)
            .set_write_batch_size(100)
            .set_data_page_row_count_limit(300);
        if let Some(encoding) = encoding {
            properties = properties.set_encoding(encoding);
        }
        let (nulls, values) = match index % 3 {
            0 => (Nulls::None, Distribution::Many),
            1 => (Nulls::Some, Distribution::Few),
            _ => (Nulls::Runs, Distribution::Many),
        };
        let columns = columns(900, nulls, values, random);
        let columns = columns
            .into_iter()
            .filter(|(name, _)| takes(name))
            .collect();
        files.push(written(columns, properties.build()));
    }
    files
}

/// Changes bytes before the footer, most often near the beginning of a column chunk, where headers are.
fn mutate(bytes: &mut Vec<u8>, starts: &[usize], end: usize, random: &mut StdRng) {
    for _ in 0..random.random_range(1..4) {
        let place = match random.random_bool(0.6) {
            true => starts[random.random_range(0..starts.len())] + random.random_range(0..60),
            false => random.random_range(4..end),
        };
        let place = place.min(end - 1);
        match random.random_range(0..5) {
            0 => bytes[place] ^= 1 << random.random_range(0..8),
            1 => bytes[place] = random.random(),
            2 => bytes[place] = [0, 0x7f, 0x80, 0xff][random.random_range(0..4)],
            3 => {
                // What lies behind moves, and the end is what was at the beginning.
                let to = random.random_range(place..end);
                bytes[place..=to].rotate_left(1);
            }
            _ => {
                let length = random.random_range(1..9).min(end - place);
                let filler = random.random();
                bytes[place..place + length].fill(filler);
            }
        }
    }
}

/// Reads everything; returns whether nothing was found to be wrong.
fn read(
    reader: &mut RowGroupReader,
    metadata: &ParquetMetaData,
    columns: &[ColumnRequest],
    source: &Arc<dyn ChunkBytes>,
    random: &mut StdRng,
) -> bool {
    let mut is_whole = true;
    // One column after the other, since an error ends a row group.
    for column in columns {
        if reader
            .open(metadata, 0, std::slice::from_ref(column), None, source)
            .is_err()
        {
            is_whole = false;
            continue;
        }
        let skips = random.random_bool(0.3);
        loop {
            let rows = reader.next_block();
            if rows == 0 {
                break;
            }
            if skips && random.random_bool(0.5) {
                continue;
            }
            match reader.decode(0) {
                Ok(()) => touch(&reader.chunk(0).unwrap(), rows, reader.entries(0)),
                Err(error) => {
                    assert!(
                        !matches!(error.error, PageError::Read(_))
                            || error.to_string().contains("bytes")
                    );
                    is_whole = false;
                    break;
                }
            }
        }
    }
    is_whole
}

/// Whatever was read must be as a block has to be.
fn touch(chunk: &Chunk<'_>, rows: usize, entries: Option<&Entries>) {
    let cells = crate::cells::of_chunk(chunk, rows, entries);
    assert_eq!(cells.len(), rows);
    if let Values::Codes32(codes) = chunk.values {
        assert_eq!(codes.len(), rows);
    }
}

#[test]
fn no_mutation_is_fatal() {
    let mut random = StdRng::seed_from_u64(81);
    let options = ReadOptions {
        page_bytes_max: PAGE_BYTES_MAX,
        window_bytes: 4_096,
    };
    let (mut whole, mut broken) = (0, 0);
    for file in files(&mut random) {
        let opened = Opened::new(&file);
        let group = opened.metadata.row_group(0);
        let starts = group
            .columns()
            .iter()
            .map(|chunk| chunk.byte_range().0 as usize);
        let starts: Vec<usize> = starts.collect();
        let ends = group.columns().iter().map(|chunk| {
            let (start, length) = chunk.byte_range();
            (start + length) as usize
        });
        let end = ends.max().unwrap();
        let mut reader = RowGroupReader::new(options.clone(), &Buffers::default());
        for _ in 0..MUTATIONS / 21 + 1 {
            let mut bytes = file.to_vec();
            mutate(&mut bytes, &starts, end, &mut random);
            if random.random_bool(0.05) {
                bytes.truncate(random.random_range(4..end));
            }
            let source: Arc<dyn ChunkBytes> = Arc::new(Bytes::from(bytes));
            match read(
                &mut reader,
                &opened.metadata,
                &opened.columns,
                &source,
                &mut random,
            ) {
                true => whole += 1,
                false => broken += 1,
            }
        }
    }
    if let Some(peak) = peak_bytes() {
        // The test's own files and both readers' code are within this too.
        assert!(peak < 1 << 30, "{peak} bytes were in memory at once");
    }
    println!("{whole} files were read to the end, {broken} were refused");
    assert!(whole + broken >= 20_000);
    assert!(
        broken > whole / 4,
        "{whole} of {broken}: the mutations are too timid"
    );
}

/// Returns the most bytes that this process had in memory, where the system says.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes << 10)
}
