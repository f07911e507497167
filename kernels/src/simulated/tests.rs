//! The simulated backend answers as the interpreter does, whatever fails in between.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::FutureExt;
use futures::executor::block_on;
use futures::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use tidegate_device::{Cost, DeviceError, DeviceId, SimulatedDevice, SimulatedSpec};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, ArithmeticOp, Expr, ExprKind,
    Interpreter, NamedExpr, Pipeline, Step,
};

use super::SimulatedPipelineDevice;
use crate::backend::{FoldReport, PipelineDevice, PipelineRun, RunError, Sample};
use crate::stored::{ColumnDictionary, Promoted, StoredMorsel, StoredRun};
use crate::transfer::referenced_bytes;

fn schema(names: [&str; 2]) -> SchemaRef {
    let field = |name| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(names.map(field).to_vec()))
}

fn column(index: usize) -> Expr {
    Expr::column(index, DataType::Int64).unwrap()
}

fn named(expr: Expr, name: &str) -> NamedExpr {
    NamedExpr {
        expr,
        name: name.to_owned(),
    }
}

fn pipeline(step: Step) -> Arc<Pipeline> {
    Arc::new(Pipeline {
        input: schema(["k", "v"]),
        parameters: vec![],
        steps: vec![step],
        output: schema(["k", "s"]),
    })
}

/// `SELECT k, sum(v) GROUP BY k`, as partial state.
fn sums() -> Arc<Pipeline> {
    let state = vec![Field::new("s", DataType::Int64, true)];
    let sum = AggregateFunction::Sum;
    let call = AggregateCall::new(sum, Some(column(1)), None, DataType::Int64, state, "s").unwrap();
    pipeline(Step::Aggregate(Aggregate {
        keys: vec![named(column(0), "k")],
        calls: vec![call],
        output: AggregateOutput::State,
    }))
}

/// `SELECT k, k / v`, which raises for v = 0.
fn quotients() -> Arc<Pipeline> {
    let divide = ArithmeticOp::Divide;
    let quotient = Expr::arithmetic(divide, column(0), column(1), DataType::Int64).unwrap();
    pipeline(Step::Project(vec![
        named(column(0), "k"),
        named(quotient, "s"),
    ]))
}

fn batch(rows: impl Iterator<Item = (i64, i64)>) -> RecordBatch {
    let (k, v): (Vec<i64>, Vec<i64>) = rows.unzip();
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(k)), Arc::new(Int64Array::from(v))];
    RecordBatch::try_new(schema(["k", "v"]), columns).unwrap()
}

fn batches() -> Vec<RecordBatch> {
    let sizes = [0, 1, 31, 64, 65, 500];
    let rows = |size: i64| (0..size).map(move |i| (i % 7, i + size));
    sizes.map(|size| batch(rows(size))).to_vec()
}

fn interpreted(pipeline: &Arc<Pipeline>, batches: &[RecordBatch]) -> Vec<RecordBatch> {
    let mut interpreter = Interpreter::new(Arc::clone(pipeline)).unwrap();
    for batch in batches {
        interpreter.fold(batch).unwrap();
    }
    interpreter.finish().unwrap()
}

fn device(spec: &str) -> SimulatedPipelineDevice {
    let spec: SimulatedSpec = spec.parse().unwrap();
    SimulatedPipelineDevice::new(SimulatedDevice::new(DeviceId(0), spec).unwrap())
}

type Folding = BoxFuture<'static, Result<FoldReport, RunError>>;

fn fold(
    device: &SimulatedPipelineDevice,
    run: &mut Box<dyn PipelineRun>,
    batch: &RecordBatch,
) -> Result<Folding, DeviceError> {
    let input = device.reserve(referenced_bytes(batch))?;
    Ok(run.fold(vec![batch.clone()], input))
}

/// Folds the batches one after the other and finishes, giving up at the first error.
fn run_all(
    device: &SimulatedPipelineDevice,
    pipeline: &Arc<Pipeline>,
    batches: &[RecordBatch],
) -> Result<Vec<RecordBatch>, RunError> {
    let mut run = device.open(Arc::clone(pipeline))?;
    for batch in batches {
        block_on(fold(device, &mut run, batch)?)?;
    }
    Ok(block_on(run.finish())?.batches)
}

#[test]
fn rows_are_the_interpreters() {
    for pipeline in [sums(), quotients()] {
        let device = device("1GB");
        assert_eq!(device.refusals(&pipeline), Vec::<String>::new());
        let nonzero: Vec<RecordBatch> = batches().into_iter().skip(1).collect();
        let rows = run_all(&device, &pipeline, &nonzero).unwrap();
        assert_eq!(rows, interpreted(&pipeline, &nonzero));
        assert_eq!(device.budget().used(), 0);
    }
}

#[test]
fn a_run_without_folds_finishes() {
    let rows = run_all(&device("1GB"), &sums(), &[]).unwrap();
    assert_eq!(rows, interpreted(&sums(), &[]));
}

#[test]
fn folds_overlap_and_keep_their_order() {
    let device = device("1GB");
    let mut run = device.open(sums()).unwrap();
    let folds: Vec<Folding> = batches()
        .iter()
        .map(|batch| fold(&device, &mut run, batch).unwrap())
        .collect();
    // Finished before anyone looked at a fold.
    let rows = block_on(run.finish()).unwrap().batches;
    assert_eq!(rows, interpreted(&sums(), &batches()));
    for (report, batch) in block_on(join_all(folds)).into_iter().zip(batches()) {
        let report = report.unwrap();
        assert_eq!(report.rows, batch.num_rows() as u64);
        assert_eq!(report.bytes, referenced_bytes(&batch));
    }
}

#[test]
fn a_fold_nobody_waits_for_counts() {
    let device = device("1GB");
    let mut run = device.open(sums()).unwrap();
    for batch in batches() {
        drop(fold(&device, &mut run, &batch).unwrap());
    }
    assert_eq!(
        block_on(run.finish()).unwrap().batches,
        interpreted(&sums(), &batches())
    );
    assert_eq!(device.budget().used(), 0);
}

#[test]
fn the_input_is_released_and_the_state_kept() {
    let device = device("1GB");
    let mut run = device.open(sums()).unwrap();
    let batch = batch((0..100).map(|i| (i, i)));
    let folding = fold(&device, &mut run, &batch).unwrap();
    let report = block_on(folding).unwrap();
    assert!(report.state_bytes > 0);
    assert_eq!(device.budget().used(), report.state_bytes);
    assert!(device.budget().peak() >= referenced_bytes(&batch));
    drop(run);
    assert_eq!(device.budget().used(), 0);
}

#[test]
fn the_report_holds_the_modelled_time() {
    let device = device("1GB,copy=1MB/s,launch=1ms");
    let mut run = device.open(sums()).unwrap();
    let batch = batch((0..1000).map(|i| (i, i)));
    let folding = fold(&device, &mut run, &batch).unwrap();
    let began = Instant::now();
    let report = block_on(folding).unwrap();
    // 16 kB at 1 MB/s and a launch; submitting may have happened a little before `began`.
    assert!(report.device_seconds >= 0.017);
    assert!(began.elapsed() >= Duration::from_millis(8));
    let copied = device.device().counters().copied_bytes;
    assert_eq!(copied, report.bytes);
    block_on(run.finish()).unwrap();
    assert!(device.device().counters().copied_bytes > copied);
}

#[test]
fn a_failed_launch_voids_the_run_but_not_the_device() {
    // Six folds and the finish.
    for k in 1..=7 {
        let device = device(&format!("1GB,faults=launch:{k}=fail"));
        let error = run_all(&device, &sums(), &batches()).unwrap_err();
        assert!(
            matches!(error, RunError::Device(DeviceError::LaunchFailed { launch, .. }) if launch == k)
        );
        assert_eq!(device.budget().used(), 0);
        assert_eq!(
            run_all(&device, &sums(), &batches()).unwrap(),
            interpreted(&sums(), &batches())
        );
    }
}

#[test]
fn a_run_that_misses_rows_gives_none() {
    let device = device("1GB,faults=launch:2=fail");
    let mut run = device.open(sums()).unwrap();
    let folds: Vec<Folding> = batches()
        .iter()
        .map(|batch| fold(&device, &mut run, batch).unwrap())
        .collect();
    let finished = block_on(run.finish());
    assert!(matches!(finished, Err(RunError::Void)), "{finished:?}");
    let folded: Vec<bool> = block_on(join_all(folds))
        .iter()
        .map(Result::is_ok)
        .collect();
    assert_eq!(folded, [true, false, false, false, false, false]);
    assert_eq!(device.budget().used(), 0);
}

#[test]
fn a_lost_device_fails_everything() {
    for k in 1..=7 {
        let device = device(&format!("1GB,faults=launch:{k}=lost"));
        let error = run_all(&device, &sums(), &batches()).unwrap_err();
        assert!(matches!(error, RunError::Device(lost) if lost.is_lost()));
        assert!(device.is_lost());
        assert!(device.reserve(1).unwrap_err().is_lost());
        assert!(matches!(device.open(sums()), Err(RunError::Device(lost)) if lost.is_lost()));
        assert_eq!(device.refusals(&sums()).len(), 1);
        assert_eq!(device.budget().used(), 0);
    }
}

#[test]
fn a_planned_reservation_fails() {
    for k in 1..=6 {
        let device = device(&format!("1GB,faults=alloc:{k}=oom"));
        let error = run_all(&device, &sums(), &batches()).unwrap_err();
        assert!(matches!(
            error,
            RunError::Device(DeviceError::OutOfMemory { .. })
        ));
        assert_eq!(device.budget().used(), 0);
    }
}

#[test]
fn state_beyond_the_memory_asks_to_be_finished() {
    let device = device("20000");
    let mut run = device.open(sums()).unwrap();
    // 16 kB of input fit; the groups of several such batches do not.
    let mut rows = 0;
    for part in 0..20 {
        let batch = batch((0..1000).map(|i| (i + 1000 * part, i)));
        let folded = fold(&device, &mut run, &batch).map_err(RunError::from);
        let Ok(report) = folded.and_then(block_on) else {
            break;
        };
        rows += report.rows;
        if !report.state_fits {
            break;
        }
    }
    let left: usize = block_on(run.finish())
        .unwrap()
        .batches
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    assert_eq!(left as u64, rows);
    assert_eq!(device.budget().used(), 0);
}

#[test]
fn a_row_that_raises_is_an_eval_error() {
    let device = device("1GB");
    let bad = batch([(1, 0)].into_iter());
    let error = run_all(&device, &quotients(), &[bad]).unwrap_err();
    assert!(matches!(error, RunError::Eval(_)), "{error}");
    assert!(!device.is_lost());
    assert_eq!(device.budget().used(), 0);
}

#[test]
fn a_pipeline_that_cannot_run_is_refused_with_a_reason() {
    let mut wrong = Pipeline::clone(&sums());
    wrong.steps = vec![Step::Filter(Expr {
        kind: ExprKind::Column(9),
        data_type: DataType::Boolean,
    })];
    let device = device("1GB");
    assert_eq!(device.refusals(&wrong).len(), 1);
    assert!(matches!(
        device.open(Arc::new(wrong)),
        Err(RunError::Eval(_))
    ));
}

#[test]
fn dropping_a_run_skips_what_is_queued() {
    let device = device("1GB");
    let mut run = device.open(sums()).unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let blocked = device
        .device()
        .submit(Cost::default(), move || gate.recv().is_ok());
    let folding = fold(&device, &mut run, &batches()[5]).unwrap();
    drop(run);
    open.send(()).unwrap();
    assert!(block_on(blocked).unwrap());
    assert!(matches!(block_on(folding), Err(RunError::Void)));
    assert_eq!(device.budget().used(), 0);
}

#[test]
fn dropping_the_device_ends_queued_folds() {
    // Each fold is modelled to take hours: only an interrupted sleep lets this test end.
    let device = device("1GB,slow=1e9");
    let mut run = device.open(sums()).unwrap();
    let folds: Vec<Folding> = batches()
        .iter()
        .map(|batch| fold(&device, &mut run, batch).unwrap())
        .collect();
    drop(run);
    drop(device);
    for folded in block_on(join_all(folds)) {
        assert!(matches!(folded, Err(RunError::Device(lost)) if lost.is_lost()));
    }
}

/// A device whose compiler waits for a test, once for each program.
fn gated() -> (
    SimulatedPipelineDevice,
    mpsc::Receiver<()>,
    mpsc::Sender<()>,
) {
    let device = SimulatedDevice::new(DeviceId(0), "1GB".parse().unwrap()).unwrap();
    let (began, begins) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let ends = Mutex::new((began, gate));
    let compile = move |_: &str| {
        let (began, gate) = &*ends.lock();
        // Whoever tests may be gone.
        let _ = began.send(());
        let _ = gate.recv_timeout(Duration::from_secs(60));
    };
    (
        SimulatedPipelineDevice::with_compiler(device, compile),
        begins,
        open,
    )
}

#[test]
fn while_a_run_waits_for_its_program_the_device_does_others_work() {
    let (device, begins, open) = gated();
    let mut run = device.open(sums()).unwrap();
    // Asked for and not polled: what comes next keeps its order all the same.
    let folds: Vec<Folding> = batches()
        .iter()
        .map(|batch| fold(&device, &mut run, batch).unwrap())
        .collect();
    let waiting = run.waiting().unwrap();
    let finishing = run.finish();
    begins.recv().unwrap();
    assert_eq!(waiting.until(true).now_or_never(), Some(()));
    block_on(device.device().copy(1)).unwrap();
    // A run without rows needs no program.
    let empty = device.open(quotients()).unwrap();
    assert_eq!(block_on(empty.finish()).unwrap().batches, vec![]);
    open.send(()).unwrap();
    let rows = block_on(finishing).unwrap().batches;
    assert_eq!(rows, interpreted(&sums(), &batches()));
    block_on(waiting.until(false));
    let reports = block_on(join_all(folds));
    let reports: Vec<FoldReport> = reports.into_iter().map(Result::unwrap).collect();
    assert!(reports[0].phases.compile > 0.0);
    assert!(reports[1..].iter().all(|it| it.phases.compile == 0.0));
    assert!(reports.iter().all(|it| it.device_seconds < 60.0));
    // The program is there now.
    assert_eq!(
        run_all(&device, &sums(), &batches()).unwrap(),
        interpreted(&sums(), &batches())
    );
    assert_eq!(device.budget().used(), 0);
}

#[test]
fn a_run_that_is_dropped_while_it_waits_gives_its_memory_back() {
    let (device, begins, open) = gated();
    let mut run = device.open(sums()).unwrap();
    let folding = fold(&device, &mut run, &batches()[5]).unwrap();
    begins.recv().unwrap();
    assert!(device.budget().used() > 0);
    drop(run);
    assert_eq!(device.budget().used(), 0);
    assert!(matches!(block_on(folding), Err(RunError::Void)));
    // What was begun is there for the next.
    drop(open);
    let rows = run_all(&device, &sums(), &batches()).unwrap();
    assert_eq!(rows, interpreted(&sums(), &batches()));
}

#[test]
fn compiling_ahead_is_done_once_and_whether_or_not_it_is_waited_for() {
    let (device, begins, open) = gated();
    drop(device.compile(sums(), Sample::Loaded(vec![])));
    begins.recv().unwrap();
    let waited_for = device.compile(sums(), Sample::Loaded(vec![]));
    open.send(()).unwrap();
    block_on(waited_for).unwrap();
    run_all(&device, &sums(), &batches()).unwrap();
    assert!(begins.try_recv().is_err(), "it was compiled twice");
    assert!(device.compiles());
}

#[test]
fn what_moving_took_is_told_without_what_the_device_did_before() {
    let spec: SimulatedSpec = "1GB,copy=8000B/s,launch=1ns".parse().unwrap();
    let device = SimulatedPipelineDevice::new(SimulatedDevice::new(DeviceId(0), spec).unwrap());
    let values: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
    let stored = |array: &ArrayRef| {
        let stored = device.store(vec![Arc::clone(array)], ColumnDictionary::new());
        Arc::new(block_on(stored).unwrap())
    };
    let below = [stored(&values), stored(&values)].map(|column| {
        let pinned = block_on(device.demote(column)).unwrap();
        Arc::new(pinned)
    });
    let alone = below[0].bytes() as f64 / 8000.0;
    // The device is busy when both are asked for.
    let busy = device.device().copy(800);
    let moved = join_all(below.map(|column| device.promote(column)));
    let moved: Vec<Promoted> = block_on(moved).into_iter().map(Result::unwrap).collect();
    block_on(busy).unwrap();
    let (columns, moving): (Vec<_>, Vec<_>) = moved
        .into_iter()
        .map(|it| (Arc::new(it.column), it.moving))
        .unzip();
    let morsel = StoredMorsel {
        num_rows: 4,
        columns,
    };
    let mut run = device.open(sums()).unwrap();
    let report = block_on(run.fold_stored(StoredRun::moved(vec![morsel.clone()], moving)));
    let upload = report.unwrap().phases.upload;
    assert!((upload / (2.0 * alone) - 1.0).abs() < 1e-6, "{upload}");
    // What was there before came for no fold.
    let report = block_on(run.fold_stored(StoredRun::new(vec![morsel])));
    assert_eq!(report.unwrap().phases.upload, 0.0);
}
