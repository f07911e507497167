//! Sessions, files and row comparison for the tests.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use tidegate::{Runtime, RuntimeOptions, Session, SimulatedSpec};
use tidegate_kernels::PipelineDevice;

/// Makes a session with one simulated device, after these settings.
pub(crate) async fn simulated(spec: &str, settings: &[&str]) -> Session {
    let spec: SimulatedSpec = spec.parse().unwrap();
    let session = Session::builder()
        .simulate_device(spec)
        .target_partitions(4)
        .build()
        .unwrap();
    for setting in settings {
        session
            .collect(&format!("SET tidegate.{setting}"))
            .await
            .unwrap();
    }
    session
}

/// Makes a runtime whose one device is this.
pub(crate) fn runtime_of(device: impl PipelineDevice + 'static) -> Arc<Runtime> {
    let mut options = RuntimeOptions::default();
    options.discovery.visible_devices = Some(String::new());
    let runtime = Runtime::new(&options).unwrap();
    Arc::new(runtime.with_device(Arc::new(device)))
}

/// Returns the rows that devices folded for the last query, and the bytes that moved for it.
pub(crate) fn on_device(session: &Session) -> (u64, u64) {
    let report = session.last_report().unwrap();
    let places = report.regions.iter().flat_map(|region| &region.places);
    let devices = places.filter(|place| place.place != "host");
    devices.fold((0, 0), |(rows, bytes), place| {
        (rows + place.rows, bytes + place.bytes)
    })
}

/// Makes a session without a device.
pub(crate) fn host_only() -> Session {
    Session::builder().target_partitions(4).build().unwrap()
}

/// Makes rows `start..end`: a key of seven values with NULLs, the row's number, and a string.
pub(crate) fn rows(start: i64, end: i64) -> RecordBatch {
    let keys = (start..end).map(|row| (row % 11 != 0).then_some(row % 7));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(keys.collect::<Int64Array>())),
        ("v", Arc::new(Int64Array::from_iter_values(start..end))),
        (
            "s",
            Arc::new(StringArray::from_iter_values(
                (start..end).map(|row| format!("s{}", row % 3)),
            )),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns
            .into_iter()
            .map(|(name, column)| (name, column, true)),
    )
    .unwrap()
}

/// Writes `num_rows` rows into files of this folder, in row groups of so many rows.
pub(crate) fn write_parquet(folder: &Path, num_files: i64, num_rows: i64, row_group: usize) {
    for file in 0..num_files {
        let batch = rows(
            file * num_rows / num_files,
            (file + 1) * num_rows / num_files,
        );
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(row_group))
            .build();
        let target = std::fs::File::create(folder.join(format!("{file}.parquet"))).unwrap();
        let mut writer = ArrowWriter::try_new(target, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
}

/// Formats rows as sorted lines, so that two multisets can be compared.
pub(crate) fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let table = pretty_format_batches(batches).unwrap().to_string();
    let mut lines: Vec<String> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(str::to_string)
        .collect();
    lines.sort();
    lines
}

/// Runs a query and returns its rows as sorted lines.
pub(crate) async fn answer(session: &Session, sql: &str) -> Vec<String> {
    lines(
        &session
            .collect(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}")),
    )
}

/// Sums morsels and rows of the last query by side: (host, device).
pub(crate) fn sides(session: &Session) -> ((u64, u64), (u64, u64)) {
    let report = session.last_report().unwrap();
    let mut sides = ((0, 0), (0, 0));
    for place in report.regions.iter().flat_map(|region| &region.places) {
        let side = if place.place == "host" {
            &mut sides.0
        } else {
            &mut sides.1
        };
        side.0 += place.morsels;
        side.1 += place.rows;
    }
    sides
}
