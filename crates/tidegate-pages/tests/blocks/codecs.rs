//! Every codec that the `parquet` crate is built with.

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::compare::{check_all, check_some, new_reader};
use crate::files::{Nulls, Values, columns, written};

#[test]
fn pages_are_decompressed() {
    let mut random = StdRng::seed_from_u64(21);
    let mut reader = new_reader();
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    for codec in codecs {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for nulls in [Nulls::None, Nulls::Some, Nulls::All] {
                let properties = WriterProperties::builder()
                    .set_writer_version(version)
                    .set_compression(codec)
                    .set_write_batch_size(500)
                    .set_data_page_row_count_limit(500)
                    .build();
                let what = format!("{codec:?} {version:?} {nulls:?}");
                let file = written(columns(3_000, nulls, Values::Few, &mut random), properties);
                check_all(&file, &mut reader, &what);
                check_some(&file, &mut reader, &mut random, &what);
            }
        }
    }
}
