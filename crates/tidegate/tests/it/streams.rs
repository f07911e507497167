//! Frames that are mapped with a device's stream and buffers.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::datasource::MemTable;
use tidegate::{
    DeviceBatch, DeviceColumn, DeviceStream, DeviceWorkError, ErrorKind, FrameExt, MapOptions,
    Session, SimulatedSpec, StreamKernel,
};

use crate::support::{host_only, lines, rows, simulated};

fn declared(nullable: bool) -> Arc<Schema> {
    let field = Field::new("w", DataType::Int64, nullable);
    Arc::new(Schema::new(vec![field]))
}

const SOURCE: &str = "struct Arguments { const long long *v; long long *w; unsigned long long n; };
    extern \"C\" __global__ void doubled(Arguments a) {
        unsigned long long first = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
        for (unsigned long long i = first; i < a.n; i += gridDim.x * (unsigned long long)blockDim.x)
            a.w[i] = 2 * a.v[i];
    }";

/// Doubles an Int64 column: on a simulated device byte by byte, on a GPU by a kernel.
fn doubled_on_device(
    stream: &DeviceStream<'_>,
    batch: DeviceBatch,
) -> Result<DeviceBatch, DeviceWorkError> {
    let DeviceBatch { num_rows, columns } = batch;
    let column = columns.into_iter().next().ok_or("no column")?;
    let mut doubled = stream.alloc(8 * num_rows as u64)?;
    match (doubled.simulated_mut(), column.values.simulated()) {
        (Some(to), Some(from)) => {
            let (to, from) = (to.as_chunks_mut::<8>().0, from.as_chunks::<8>().0);
            for (to, from) in to.iter_mut().zip(from) {
                *to = (2 * i64::from_le_bytes(*from)).to_le_bytes();
            }
        }
        _ => {
            let words = [column.values.address(), doubled.address(), num_rows as u64];
            stream.launch(SOURCE, "doubled", (64, 256), &words)?;
        }
    }
    let columns = vec![DeviceColumn {
        values: doubled,
        validity: column.validity,
    }];
    Ok(DeviceBatch { num_rows, columns })
}

fn with_room(memory_bytes: u64) -> MapOptions {
    MapOptions {
        name: Some("doubled".into()),
        memory_bytes,
        concurrency: None,
        kernels: vec![StreamKernel::new(SOURCE, "doubled")],
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_are_mapped_with_a_devices_stream() {
    let spec = |text: &str| text.parse::<SimulatedSpec>().unwrap();
    // The first has more memory free, until it is lost.
    let session = Session::builder()
        .simulate_device(spec("2MB,faults=launch:3=lost"))
        .simulate_device(spec("1MB"))
        .target_partitions(4)
        .build()
        .unwrap();
    let partitions = (0..4)
        .map(|part| vec![rows(part * 100, part * 100 + 100), rows(0, 0)])
        .collect();
    let table = MemTable::try_new(rows(0, 0).schema(), partitions).unwrap();
    session.register_table("t", Arc::new(table)).unwrap();
    // Keys have NULLs; the filter makes batches that begin within others.
    for sql in [
        "SELECT k FROM t",
        "SELECT k FROM t WHERE v >= 250",
        "SELECT v FROM t WHERE v < 0",
        "SELECT v FROM t WHERE v = 7",
    ] {
        let frame = session.sql(sql).await.unwrap();
        let on_host = frame
            .clone()
            .map_partitions(declared(true), MapOptions::default(), |batch| {
                let v = batch.column(0).as_primitive::<Int64Type>();
                let w: Int64Array = v.iter().map(|v| v.map(|v| v * 2)).collect();
                RecordBatch::try_from_iter([("w", Arc::new(w) as _)])
            })
            .unwrap();
        let mapped = frame
            .map_partitions_on_device(
                &session,
                declared(true),
                with_room(1 << 12),
                doubled_on_device,
            )
            .unwrap();
        let (given, wanted) = (
            mapped.collect().await.unwrap(),
            on_host.collect().await.unwrap(),
        );
        assert_eq!(lines(&given), lines(&wanted), "{sql}");
    }
    // One device was lost on the way, and nothing is kept of the other's memory.
    let devices = session.runtime().devices();
    assert!(devices[0].is_lost());
    assert_eq!(devices[1].budget().used(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_with_a_stream_that_fails_says_why() {
    let session = simulated("100kB", &[]).await;
    session.register_batch("t", rows(0, 100)).unwrap();
    type Body = fn(&DeviceStream<'_>, DeviceBatch) -> Result<DeviceBatch, DeviceWorkError>;
    let cases: [(Body, u64, ErrorKind, &str); 7] = [
        (|_, _| Err("no luck".into()), 0, ErrorKind::Sql, "no luck"),
        (
            |_, _| panic!("oh dear"),
            0,
            ErrorKind::Sql,
            "the work panicked: oh dear",
        ),
        (
            doubled_on_device,
            10,
            ErrorKind::ResourcesExhausted,
            "800 bytes were wanted",
        ),
        (
            doubled_on_device,
            1 << 30,
            ErrorKind::ResourcesExhausted,
            "its whole limit is",
        ),
        (
            |_, batch| {
                Ok(DeviceBatch {
                    num_rows: batch.num_rows + 1,
                    ..batch
                })
            },
            0,
            ErrorKind::Sql,
            "too few for 101 rows",
        ),
        (
            |_, batch| {
                Ok(DeviceBatch {
                    columns: vec![],
                    ..batch
                })
            },
            0,
            ErrorKind::Sql,
            "the work gave 0 columns, and 1 were declared",
        ),
        (
            |stream, batch| {
                stream.launch("", "none", (1, 1), &[])?;
                Ok(batch)
            },
            0,
            ErrorKind::Device,
            "a simulated device runs no kernels",
        ),
    ];
    for (body, room, kind, wanted) in cases {
        let frame = session.sql("SELECT v FROM t").await.unwrap();
        let mapped = frame
            .map_partitions_on_device(&session, declared(true), with_room(room), body)
            .unwrap();
        let error = tidegate::Error::from(mapped.collect().await.unwrap_err());
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
        let device = &session.runtime().devices()[0];
        assert_eq!(device.budget().used(), 0, "{wanted}");
    }
    // A NULL where none may be; strings; no device.
    let frame = session.sql("SELECT k FROM t").await.unwrap();
    let mapped = frame
        .map_partitions_on_device(
            &session,
            declared(false),
            with_room(1 << 12),
            doubled_on_device,
        )
        .unwrap();
    let error = mapped.collect().await.unwrap_err().to_string();
    assert!(error.contains("null"), "{error}");
    let frame = session.sql("SELECT s FROM t").await.unwrap();
    let error = frame
        .map_partitions_on_device(&session, declared(true), with_room(0), doubled_on_device)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    assert!(error.to_string().contains("column 's' of type"), "{error}");
    let session = host_only();
    session.register_batch("t", rows(0, 10)).unwrap();
    let frame = session.sql("SELECT v FROM t").await.unwrap();
    let mapped = frame
        .map_partitions_on_device(&session, declared(true), with_room(80), doubled_on_device)
        .unwrap();
    let error = tidegate::Error::from(mapped.collect().await.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Device, "{error}");
}
