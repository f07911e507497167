//! `INT96` timestamps of Parquet, which older writers use: dates that nanoseconds do not hold.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::parquet::data_type::{Int96, Int96Type};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::parquet::file::writer::SerializedFileWriter;
use datafusion::parquet::schema::parser::parse_message_type;
use tidegate::Session;

use crate::support::{answer, host_only, simulated};

/// The Julian day of 1970-01-01.
const JULIAN_EPOCH: i64 = 2_440_588;

/// Writes a file of one column; each value is days since 1970 and nanoseconds of the day.
fn write(path: &Path, values: &[(i64, u64)]) {
    let schema = Arc::new(parse_message_type("message m { required int96 t; }").unwrap());
    let properties = Arc::new(WriterProperties::builder().build());
    let file = File::create(path).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let mut rows = writer.next_row_group().unwrap();
    let mut column = rows.next_column().unwrap().unwrap();
    let values: Vec<Int96> = values
        .iter()
        .map(|(days, nanoseconds)| {
            let mut value = Int96::new();
            let day = u32::try_from(days + JULIAN_EPOCH).unwrap();
            value.set_data(*nanoseconds as u32, (nanoseconds >> 32) as u32, day);
            value
        })
        .collect();
    column
        .typed::<Int96Type>()
        .write_batch(&values, None, None)
        .unwrap();
    column.close().unwrap();
    rows.close().unwrap();
    writer.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn years_beyond_2262_and_before_1678_are_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let noon = 12 * 3_600 * 1_000_000_000;
    let values = [
        (2_932_896, 0),
        (-719_162, noon),
        (0, 1_000),
        (19_723, noon + 123_456_789),
    ];
    write(&path, &values);
    let device = simulated("1GB", &["placement = 'device'"]).await;
    for session in [host_only(), device] {
        session
            .register_parquet("t", path.to_str().unwrap())
            .await
            .unwrap();
        let all = "SELECT t FROM t ORDER BY t";
        let shown = [
            "0001-01-01T12:00:00",
            "1970-01-01T00:00:00.000001",
            "2024-01-01T12:00:00.123456",
            "9999-12-31T00:00:00",
        ];
        assert_eq!(cells(&session, all).await, shown);
        let late = "SELECT count(*) FROM t WHERE t > TIMESTAMP '2200-01-01'";
        assert_eq!(cells(&session, late).await, ["1"]);
        let ends = "SELECT min(t) AS t FROM t UNION ALL SELECT max(t) FROM t";
        assert_eq!(cells(&session, ends).await, [shown[0], shown[3]]);
    }
}

/// Returns the values of a query's only column, sorted as text.
async fn cells(session: &Session, sql: &str) -> Vec<String> {
    let lines = answer(session, sql).await;
    let cells = lines.iter().map(|line| line.trim_matches(['|', ' ']));
    // The name of the column is a line too.
    let is_value = |cell: &&str| cell.starts_with(|c: char| c.is_ascii_digit());
    cells.filter(is_value).map(str::to_string).collect()
}
