//! The two bodies of a function, held against each other.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema};
use datafusion::arrow::util::display::array_value_to_string;
use tidegate_device::DeviceKind;
use tidegate_device::compiler::{CompileError, Compiler};
use tidegate_kernels::program::probe;
use tidegate_kernels::{PipelineDevice, RunError};
use tidegate_pipeline::{CustomFunction, Expr, NamedExpr, Pipeline, Step};

use super::ScalarFunction;
use crate::error::{Error, ErrorKind};
use crate::runtime::Runtime;

/// What is compiled for where there is no GPU to compile for.
const CAPABILITY: (u32, u32) = (9, 0);

/// Compiles the body for devices where there is a compiler, and compares it with the body for the
/// host on every GPU. A simulated device runs the host's body, and shows nothing.
///
/// # Errors
/// [`ErrorKind::Sql`] with the compiler's words and the line, or with the first row that differs.
pub(crate) async fn compare(
    function: &ScalarFunction,
    of_device: &Arc<CustomFunction>,
    runtime: &Runtime,
) -> Result<(), Error> {
    let name = function.name();
    if let Some(place) = &runtime.discovery().nvrtc {
        let source = probe(of_device).map_err(|why| Error::new(ErrorKind::Sql, why.what))?;
        let place = place.clone();
        let compiled = tokio::task::spawn_blocking(move || {
            let compiler = Compiler::open(&place)?;
            let architecture = compiler.architecture(CAPABILITY);
            compiler.compile("function.cu", &source, &architecture, &[])
        });
        match compiled.await {
            Ok(Err(CompileError::Rejected { log, why, .. })) => {
                let message = format!(
                    "function {name}: its CUDA body does not compile: {}",
                    complaints(name, &log).unwrap_or(why)
                );
                return Err(Error::new(ErrorKind::Sql, message));
            }
            // Without a compiler no device would run it either, which discovery tells.
            Ok(_) => {}
            Err(error) => return Err(Error::new(ErrorKind::Internal, error.to_string())),
        }
    }
    let is_gpu = |device: &&Arc<dyn PipelineDevice>| device.info().kind == DeviceKind::Cuda;
    for device in runtime.devices().iter().filter(is_gpu) {
        let rows = function.samples()?;
        let wanted = of_device
            .call(rows.columns())
            .map_err(|error| Error::new(ErrorKind::Sql, error.to_string()))?;
        let given = on_device(of_device, &rows, device).await?;
        if let Some(row) = first_difference(&wanted, &given, function.ulps()) {
            return Err(differs(of_device, &rows, row, (&wanted, &given), device));
        }
    }
    Ok(())
}

/// Returns what the compiler complains of in the body, with the lines of the body.
fn complaints(name: &str, log: &str) -> Option<String> {
    let lines = log.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| line.contains("error")).collect();
    let own: Vec<&str> = lines
        .iter()
        .filter(|line| line.starts_with(name))
        .copied()
        .collect();
    let told = if own.is_empty() { lines } else { own };
    (!told.is_empty()).then(|| told.join("; "))
}

/// Runs the device's body over rows.
async fn on_device(
    function: &Arc<CustomFunction>,
    rows: &RecordBatch,
    device: &Arc<dyn PipelineDevice>,
) -> Result<ArrayRef, Error> {
    let failed = |error: RunError| {
        let message = format!(
            "function {}: its CUDA body could not be run on {}: {error}",
            function.name,
            device.info()
        );
        Error::with_source(ErrorKind::Device, message, error)
    };
    let pipeline = pipeline(function, rows)?;
    let mut run = device.open(Arc::new(pipeline)).map_err(failed)?;
    let bytes = rows.get_array_memory_size() as u64;
    let input = device
        .reserve(bytes)
        .map_err(|error| failed(error.into()))?;
    run.fold(vec![rows.clone()], input).await.map_err(failed)?;
    let finished = run.finish().await.map_err(failed)?;
    let columns: Vec<&dyn Array> = finished
        .batches
        .iter()
        .map(|batch| batch.column(0).as_ref())
        .collect();
    concat(&columns)
        .map_err(|error| Error::with_source(ErrorKind::Internal, error.to_string(), error))
}

/// Makes the pipeline that computes nothing but the function.
fn pipeline(function: &Arc<CustomFunction>, rows: &RecordBatch) -> Result<Pipeline, Error> {
    let args = function.arguments.iter().enumerate();
    let args = args.map(|(index, (_, data_type))| Expr::column(index, data_type.clone()));
    let expr = args
        .collect::<Result<Vec<_>, _>>()
        .and_then(|args| Expr::custom(Arc::clone(function), args))
        .map_err(|unsupported| Error::new(ErrorKind::Sql, unsupported.what))?;
    let output = Field::new("value", function.returns.clone(), true);
    Ok(Pipeline {
        input: rows.schema(),
        parameters: Vec::new(),
        steps: vec![Step::Project(vec![NamedExpr {
            expr,
            name: "value".into(),
        }])],
        output: Arc::new(Schema::new(vec![output])),
    })
}

/// Returns the first row in which two arrays of one type differ. NaN is NaN, whatever its bits.
fn first_difference(left: &ArrayRef, right: &ArrayRef, ulps: u64) -> Option<usize> {
    if left.len() != right.len() {
        return Some(left.len().min(right.len()));
    }
    (0..left.len()).find(|&row| match (left.is_null(row), right.is_null(row)) {
        (true, true) => false,
        (false, false) => !same(left, right, row, ulps),
        _ => true,
    })
}

fn same(left: &ArrayRef, right: &ArrayRef, row: usize, ulps: u64) -> bool {
    match left.data_type() {
        DataType::Float64 => {
            let left = left.as_primitive::<Float64Type>().value(row);
            let right = right.as_primitive::<Float64Type>().value(row);
            let near =
                || place(left.to_bits() as i64).abs_diff(place(right.to_bits() as i64)) <= ulps;
            left.is_nan() && right.is_nan() || !left.is_nan() && !right.is_nan() && near()
        }
        DataType::Float32 => {
            let left = left.as_primitive::<Float32Type>().value(row);
            let right = right.as_primitive::<Float32Type>().value(row);
            let bits = |value: f32| i64::from(value.to_bits() as i32) << 32;
            let near = || (place(bits(left)) >> 32).abs_diff(place(bits(right)) >> 32) <= ulps;
            left.is_nan() && right.is_nan() || !left.is_nan() && !right.is_nan() && near()
        }
        _ => left.slice(row, 1) == right.slice(row, 1),
    }
}

/// Returns a float's place among the floats, of which neighbours are 1 apart; −0.0 comes before 0.0.
fn place(bits: i64) -> i64 {
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

fn differs(
    function: &CustomFunction,
    rows: &RecordBatch,
    row: usize,
    (wanted, given): (&ArrayRef, &ArrayRef),
    device: &Arc<dyn PipelineDevice>,
) -> Error {
    let show = |array: &ArrayRef| match array.is_null(row.min(array.len().saturating_sub(1))) {
        true => "NULL".to_string(),
        false => array_value_to_string(array, row).unwrap_or_else(|error| error.to_string()),
    };
    let args: Vec<String> = rows
        .columns()
        .iter()
        .zip(&function.arguments)
        .map(|(column, (name, _))| format!("{name} = {}", show(column)))
        .collect();
    let message = format!(
        "function {}: its bodies differ, first in row {row}: for {} the Rust body gives {} and the \
         CUDA body {} on {}",
        function.name,
        args.join(", "),
        show(wanted),
        show(given),
        device.info()
    );
    Error::new(ErrorKind::Sql, message)
}

#[cfg(test)]
mod tests;
