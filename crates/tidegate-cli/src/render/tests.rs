//! Each format, to the byte.

use std::io::{self, Write};
use std::pin::Pin;
use std::slice;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::{
    ArrayRef, Decimal128Array, DurationSecondArray, Float64Array, Int64Array, Int64Builder,
    ListArray, MapBuilder, RecordBatch, StringArray, StringBuilder,
};
use arrow::datatypes::{Int64Type, Schema, SchemaRef};
use clap::ValueEnum;
use futures::Stream;
use futures::executor::block_on;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::{HasSchema, Shown, Style, render, table};
use crate::args::Format;
use crate::failure::Failure;

/// The batches of a result.
struct Batches(SchemaRef, std::vec::IntoIter<RecordBatch>);

impl Stream for Batches {
    type Item = Result<RecordBatch, tidegate::Error>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.1.next().map(Ok))
    }
}

impl HasSchema for Batches {
    fn schema_ref(&self) -> SchemaRef {
        self.0.clone()
    }
}

fn shown(batches: &[RecordBatch], format: Format, maxrows: Option<usize>) -> (String, Shown) {
    let stream = Batches(batches[0].schema(), Vec::from(batches).into_iter());
    let mut text = Vec::new();
    let style = Style {
        format,
        maxrows,
        expands: false,
    };
    let shown = block_on(render(stream, style, None, &mut text)).unwrap();
    (String::from_utf8(text).unwrap(), shown)
}

fn check(batches: &[RecordBatch], format: Format, expect: &str) {
    assert_eq!(shown(batches, format, None).0, expect);
}

fn numbers(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("n", values)]).unwrap()
}

/// Text that needs quotes, nulls, a list and a float without a JSON form.
fn awkward() -> RecordBatch {
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a,\"b\"\nc"), None]));
    let lists = [Some(vec![Some(1), None]), None];
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
    let float: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 0.5]));
    let price = Decimal128Array::from(vec![1250, -1])
        .with_precision_and_scale(15, 2)
        .unwrap();
    let columns = [
        ("t", text),
        ("l", list),
        ("f", float),
        ("p", Arc::new(price) as ArrayRef),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .unwrap()
}

#[test]
fn csv_quotes_what_must_be_quoted() {
    let expect = "t,l,f,p\n\"a,\"\"b\"\"\nc\",\"[1, NULL]\",NaN,12.50\n,,0.5,-0.01\n";
    check(&[awkward()], Format::Csv, expect);
    check(
        &[numbers([1]), numbers([]), numbers([2, 3])],
        Format::Csv,
        "n\n1\n2\n3\n",
    );
}

#[test]
fn intervals_are_words_and_a_time() {
    let spans = DurationSecondArray::from(vec![Some(90_000), None]);
    let batch = RecordBatch::try_from_iter([("d", Arc::new(spans) as ArrayRef)]).unwrap();
    let batches = [batch];
    check(&batches, Format::Csv, "d\n1 day 01:00:00\n\"\"\n");
    let lines = "{\"d\":\"1 day 01:00:00\"}\n{\"d\":null}\n";
    check(&batches, Format::Ndjson, lines);
}

#[test]
fn json_is_an_array_or_lines() {
    let objects = [
        r#"{"t":"a,\"b\"\nc","l":[1,null],"f":null,"p":12.50}"#,
        r#"{"t":null,"l":null,"f":0.5,"p":-0.01}"#,
    ];
    check(
        &[awkward()],
        Format::Ndjson,
        &format!("{}\n{}\n", objects[0], objects[1]),
    );
    check(
        &[awkward()],
        Format::Json,
        &format!("[{},\n{}]\n", objects[0], objects[1]),
    );
    let batches = [numbers([]), numbers([1]), numbers([2])];
    check(&batches, Format::Json, "[{\"n\":1},\n{\"n\":2}]\n");
    let (text, _) = shown(&[awkward()], Format::Json, None);
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
}

#[test]
fn keys_of_maps_are_text_in_json() {
    let mut maps = MapBuilder::new(None, Int64Builder::new(), StringBuilder::new());
    maps.keys().append_value(1);
    maps.values().append_value("a");
    maps.append(true).unwrap();
    let maps: ArrayRef = Arc::new(maps.finish());
    let batches = [RecordBatch::try_from_iter([("m", maps)]).unwrap()];
    check(&batches, Format::Ndjson, "{\"m\":{\"1\":\"a\"}}\n");
}

#[test]
fn a_row_of_tsv_is_a_line() {
    let expect = "t\tl\tf\tp\na,\"b\"\\nc\t[1, NULL]\tNaN\t12.50\n\\N\t\\N\t0.5\t-0.01\n";
    check(&[awkward()], Format::Tsv, expect);
}

#[test]
fn markdown_escapes_what_ends_a_cell() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("a|b\nc"), None]));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("t", text), ("n", number)]).unwrap();
    let expect = "| t | n |\n| --- | ---: |\n| a\\|b<br>c | 1 |\n| NULL | 2 |\n";
    check(&[batch], Format::Markdown, expect);
}

#[test]
fn expanded_rows_stand_below_each_other() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    let number: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("text", text), ("n", number)]).unwrap();
    let rows = [
        "-- row 1 --\ntext | x\nn    | 1\n",
        "-- row 2 --\ntext | NULL\nn    | 2\n",
    ];
    check(slice::from_ref(&batch), Format::Expanded, &rows.concat());
    let (text, shown) = shown(&[batch], Format::Expanded, Some(1));
    assert_eq!((text.as_str(), shown.hidden), (rows[0], 1));
    check(&[numbers([])], Format::Expanded, "(no rows)\n");
}

fn bytes(batches: &[RecordBatch], format: Format) -> Vec<u8> {
    let stream = Batches(batches[0].schema(), Vec::from(batches).into_iter());
    let style = Style {
        format,
        maxrows: None,
        expands: false,
    };
    let mut bytes = Vec::new();
    block_on(render(stream, style, None, &mut bytes)).unwrap();
    bytes
}

#[test]
fn arrow_and_parquet_come_back_as_they_were() {
    for batches in [
        vec![awkward()],
        vec![numbers(0..3), numbers([]), numbers(3..5)],
    ] {
        let whole = arrow::compute::concat_batches(&batches[0].schema(), &batches).unwrap();
        let stream = bytes(&batches, Format::Arrow);
        let read = arrow::ipc::reader::StreamReader::try_new(stream.as_slice(), None).unwrap();
        let read: Vec<RecordBatch> = read.map(Result::unwrap).collect();
        let read = arrow::compute::concat_batches(&batches[0].schema(), &read).unwrap();
        assert_eq!(read, whole);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        std::fs::write(&path, bytes(&batches, Format::Parquet)).unwrap();
        let file = std::fs::File::open(path).unwrap();
        let read = ParquetRecordBatchReader::try_new(file, 1024);
        let read: Vec<RecordBatch> = read.unwrap().map(Result::unwrap).collect();
        assert_eq!(read[0].columns(), whole.columns());
    }
}

#[test]
fn no_rows_still_have_a_form() {
    check(
        &[numbers([])],
        Format::Table,
        "+---+\n| n |\n+---+\n+---+\n",
    );
    check(&[numbers([])], Format::Csv, "n\n");
    check(&[numbers([])], Format::Json, "[]\n");
    check(&[numbers([])], Format::Ndjson, "");
    check(&[numbers([])], Format::Tsv, "n\n");
    check(&[numbers([])], Format::Markdown, "| n |\n| ---: |\n");
}

#[test]
fn no_columns_are_no_result() {
    let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
    for format in Format::value_variants().iter().copied() {
        check(slice::from_ref(&nothing), format, "");
    }
}

#[test]
fn tables_tell_null_from_empty() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None]));
    let batch = RecordBatch::try_from_iter([("t", text)]).unwrap();
    check(
        &[batch],
        Format::Table,
        "+------+\n| t    |\n+------+\n|      |\n| NULL |\n+------+\n",
    );
}

#[test]
fn tables_stop_at_maxrows() {
    let batches = [numbers(0..3), numbers(3..5)];
    for (maxrows, num_shown) in [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5), (9, 5)] {
        let (text, shown) = shown(&batches, Format::Table, Some(maxrows));
        assert_eq!(text.lines().count(), 4 + num_shown);
        assert_eq!(
            shown,
            Shown {
                columns: 1,
                rows: 5,
                hidden: 5 - num_shown,
                hidden_columns: 0,
            }
        );
    }
    assert_eq!(shown(&batches, Format::Csv, Some(1)).1.hidden, 0);
}

#[test]
fn long_tables_are_several_frames() {
    let block = table::BLOCK_ROWS as i64;
    for (num_rows, num_frames) in [(block - 1, 1), (block, 1), (block + 1, 2), (2 * block, 2)] {
        let (text, shown) = shown(&[numbers(0..num_rows)], Format::Table, None);
        assert_eq!(shown.rows as i64, num_rows);
        assert_eq!(text.lines().count() as i64, num_rows + 4 * num_frames);
    }
}

#[test]
fn a_closed_output_says_so() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let batch = numbers([1]);
    let stream = Batches(batch.schema(), vec![batch].into_iter());
    let style = Style {
        format: Format::Csv,
        maxrows: None,
        expands: false,
    };
    let failure = block_on(render(stream, style, None, &mut Closed)).unwrap_err();
    assert!(matches!(failure, Failure::OutputClosed));
}
