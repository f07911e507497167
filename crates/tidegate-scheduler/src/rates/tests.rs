//! What the book starts from, learns, and keeps.

use std::fs;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use tidegate_device::{
    DeviceId, DeviceInfo, DeviceKind, DeviceRates, SimulatedDevice, SimulatedSpec,
};
use tidegate_kernels::{PipelineDevice, SimulatedPipelineDevice};
use tidegate_pipeline::{CompareOp, Expr, Pipeline, Scalar, ScalarValue, Step};

use super::calibrate::measure_by;
use super::{HOST_ROWS_PER_SECOND, Rates, ShapeKey, host_seconds_per_row, measure};
use crate::place::RegionForm;

fn info(name: &str) -> DeviceInfo {
    DeviceInfo {
        id: DeviceId(0),
        kind: DeviceKind::Simulated,
        name: name.into(),
        memory_bytes: 1 << 30,
        rates: DeviceRates {
            copy_bytes_per_second: 1e10,
            rows_per_second: 1e9,
            launch_seconds: 1e-5,
        },
    }
}

/// `filter c <op> literal`.
fn filter(op: CompareOp, literal: i64) -> Pipeline {
    let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, true)]));
    let column = Expr::column(0, DataType::Int64).unwrap();
    let parameter = Expr::parameter(0, DataType::Int64).unwrap();
    Pipeline {
        input: Arc::clone(&schema),
        parameters: vec![Scalar {
            data_type: DataType::Int64,
            value: ScalarValue::Int(literal),
        }],
        steps: vec![Step::Filter(Expr::compare(op, column, parameter).unwrap())],
        output: schema,
    }
}

fn shape() -> ShapeKey {
    ShapeKey::of(&filter(CompareOp::Lt, 1))
}

fn near(left: f64, right: f64) -> bool {
    (left / right - 1.0).abs() < 1e-6
}

#[test]
fn a_shape_has_no_literals() {
    assert_eq!(shape(), ShapeKey::of(&filter(CompareOp::Lt, 7)));
    assert_ne!(shape(), ShapeKey::of(&filter(CompareOp::Gt, 1)));
    let text = String::from(shape());
    assert_eq!(ShapeKey::try_from(text).unwrap(), shape());
}

#[test]
fn the_host_is_learned_anew_once_something_else_runs_a_shape() {
    let rates = Rates::default();
    rates.learn_host(shape(), 1000, 1e-3);
    rates.host_runs_on_engine(shape(), false);
    assert!(rates.host_is_measured(shape()));
    rates.host_runs_on_engine(shape(), true);
    assert!(!rates.host_is_measured(shape()));
    rates.learn_host(shape(), 1000, 1e-4);
    rates.host_runs_on_engine(shape(), true);
    assert!(near(rates.host(shape()), 1e-7));
    rates.host_runs_on_engine(shape(), false);
    assert!(!rates.host_is_measured(shape()));
}

#[test]
fn rates_start_from_what_is_declared_and_follow_what_is_measured() {
    let rates = Rates::default();
    assert!(near(rates.host(shape()), 1.0 / HOST_ROWS_PER_SECOND));
    let start = rates.device(shape(), &info("d"));
    assert!(near(start.kernel_seconds_per_row, 1e-9) && start.doubt > 1.0);
    rates.learn_host(shape(), 1000, 1e-3);
    assert!(
        near(rates.host(shape()), 1e-6),
        "the first measurement counts fully"
    );
    for _ in 0..20 {
        rates.learn_host(shape(), 1000, 1e-2);
        rates.learn_fold(shape(), &info("d"), 1000, 0, 1e-3 + 1e-5);
    }
    assert!((rates.host(shape()) / 1e-5 - 1.0).abs() < 0.05);
    let learned = rates.device(shape(), &info("d"));
    assert!(near(learned.kernel_seconds_per_row, 1e-6));
    assert!(near(learned.doubt, 1.0));
    let other = rates.device(ShapeKey::of(&filter(CompareOp::Gt, 1)), &info("d"));
    assert!(
        near(other.kernel_seconds_per_row, 1e-6),
        "from the same device"
    );
    assert!(other.doubt > 1.0 && other.doubt < start.doubt);
}

#[test]
fn a_transfer_is_told_from_a_kernel_once_both_are_seen() {
    let (rates, device) = (Rates::default(), info("d"));
    let (rows, bytes) = (1_000_000, 8_000_000);
    let (row, byte) = (5e-9, 2e-10);
    for _ in 0..100 {
        let kernel = rows as f64 * row;
        rates.learn_fold(shape(), &device, rows, 0, 1e-5 + kernel);
        let moved = bytes as f64 * byte;
        rates.learn_fold(shape(), &device, rows, bytes, 1e-5 + kernel + moved);
    }
    let learned = rates.device(shape(), &device);
    assert!((learned.kernel_seconds_per_row / row - 1.0).abs() < 0.05);
    assert!((learned.transfer_seconds_per_byte / byte - 1.0).abs() < 0.05);
}

#[test]
fn nonsense_is_not_learned() {
    let rates = Rates::default();
    rates.learn_host(shape(), 0, 1.0);
    rates.learn_host(shape(), 10, f64::NAN);
    rates.learn_host(shape(), 10, -1.0);
    rates.learn_fold(shape(), &info("d"), 10, 10, f64::INFINITY);
    rates.learn_load(shape(), 10, 0.0);
    assert!(near(rates.host(shape()), 1.0 / HOST_ROWS_PER_SECOND));
    assert!(rates.device(shape(), &info("d")).doubt > 1.0);
}

#[test]
fn a_book_is_kept_and_one_that_is_not_ours_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Rates::open(Some(folder.path().to_path_buf()));
    let rates = open();
    rates.learn_host(shape(), 1000, 1.0);
    rates.learn_fold(shape(), &info("d"), 1000, 8000, 1.0);
    rates.remember_form(shape(), RegionForm::Atomic);
    let (host, device) = (rates.host(shape()), rates.device(shape(), &info("d")));
    drop(rates);
    let again = open();
    assert!(near(again.host(shape()), host));
    assert_eq!(again.device(shape(), &info("d")), device);
    assert_eq!(again.last_form(shape()), Some(RegionForm::Atomic));
    drop(again);
    let file = fs::read_dir(folder.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let text = fs::read_to_string(&file).unwrap();
    for broken in [
        String::new(),
        text[..text.len() / 2].to_string(),
        text.replacen("\"version\":2", "\"version\":999", 1),
        text.replacen("\"machine\":\"", "\"machine\":\"other ", 1),
        text.replacen("\"value\":", "\"value\":-", 1),
    ] {
        fs::write(&file, broken).unwrap();
        assert!(open().last_form(shape()).is_none());
        fs::write(&file, &text).unwrap();
    }
    assert_eq!(open().last_form(shape()), Some(RegionForm::Atomic));
}

#[test]
fn a_folder_that_cannot_be_written_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let rates = Rates::open(Some(file.join("below")));
    rates.learn_host(shape(), 10, 1.0);
    rates.save();
    assert!(near(rates.host(shape()), 0.1));
}

#[test]
fn calibration_stays_near_the_start_and_is_replaced_by_what_is_measured() {
    let host = host_seconds_per_row();
    let factor = host * HOST_ROWS_PER_SECOND;
    assert!((0.25..=4.0).contains(&factor), "{factor}");
    let rates = Rates::new(host);
    let doubt = rates.device(shape(), &info("d")).doubt;
    assert!(!rates.is_measured(&info("d")));
    let measured = DeviceRates {
        copy_bytes_per_second: 2e10,
        rows_per_second: 5e8,
        launch_seconds: 3e-5,
    };
    rates.calibrate(&info("d"), &measured);
    let calibrated = rates.device(shape(), &info("d"));
    assert!(near(calibrated.kernel_seconds_per_row, 2e-9));
    assert!(near(calibrated.transfer_seconds_per_byte, 5e-11));
    assert!(near(calibrated.launch_seconds, 3e-5));
    assert!(calibrated.doubt < doubt && rates.is_measured(&info("d")));
    rates.learn_fold(shape(), &info("d"), 1000, 0, 1.0 + 3e-5);
    assert!(near(
        rates.device(shape(), &info("d")).kernel_seconds_per_row,
        1e-3
    ));
}

#[tokio::test]
async fn a_device_is_measured_as_it_is() {
    let spec: SimulatedSpec = "1GB,copy=2MB/s,rows=4e5/s,launch=4ms".parse().unwrap();
    let declared = spec.rates();
    let device = SimulatedDevice::new(DeviceId(0), spec).unwrap();
    let device: Arc<dyn PipelineDevice> = Arc::new(SimulatedPipelineDevice::new(device));
    let measured = measure_by(&device, 1 << 14).await.unwrap();
    for (measured, declared) in [
        (
            measured.copy_bytes_per_second,
            declared.copy_bytes_per_second,
        ),
        (measured.rows_per_second, declared.rows_per_second),
        (measured.launch_seconds, declared.launch_seconds),
    ] {
        let factor = measured / declared;
        assert!((0.5..2.0).contains(&factor), "{measured} {declared}");
    }
    assert_eq!(device.budget().used(), 0);
}

#[tokio::test]
async fn a_device_that_has_no_room_or_fails_is_not_measured() {
    for spec in [
        "1MB",
        "1GB,faults=launch:1=fail",
        "1GB,faults=launch:3=lost",
    ] {
        let device = SimulatedDevice::new(DeviceId(0), spec.parse().unwrap()).unwrap();
        let device: Arc<dyn PipelineDevice> = Arc::new(SimulatedPipelineDevice::new(device));
        assert!(measure(&device).await.is_none(), "{spec}");
        assert_eq!(device.budget().used(), 0, "{spec}");
    }
}

#[test]
fn old_shapes_are_forgotten() {
    let rates = Rates::default();
    for literal in 0..2000_u64 {
        let key = ShapeKey::try_from(format!("{literal:x}")).unwrap();
        rates.learn_host(key, 1, 1.0);
    }
    assert_eq!(rates.book.lock().shapes.len(), super::SHAPES_MAX);
}

#[test]
fn what_compiling_takes_is_learned_by_shape_and_guessed_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Rates::open(Some(folder.path().to_owned()));
    let (rates, gpu) = (open(), info("gpu"));
    let other = ShapeKey::of(&filter(CompareOp::Gt, 1));
    let typical = rates.compile_seconds(shape(), &gpu);
    assert!((0.05..2.0).contains(&typical), "{typical}");
    rates.learn_compile(shape(), &gpu, 0.8);
    assert!(near(rates.compile_seconds(shape(), &gpu), 0.8));
    assert!(
        near(rates.compile_seconds(other, &gpu), 0.8),
        "as the one seen"
    );
    assert!(near(
        rates.compile_seconds(other, &info("another")),
        typical
    ));
    // The next process finds this shape's kernels kept, which says nothing of other shapes.
    drop(rates);
    let rates = open();
    for _ in 0..20 {
        rates.learn_compile(shape(), &gpu, 0.01);
    }
    assert!(rates.compile_seconds(shape(), &gpu) < 0.02);
    assert!(near(rates.compile_seconds(other, &gpu), 0.8));
}
