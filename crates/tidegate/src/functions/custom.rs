//! Functions with a body in Rust, and optionally one in CUDA C++ that joins fused kernels.
//!
//! The host runs the Rust body over Arrow arrays. A region whose expressions call a function that has
//! a CUDA body can run on a device; one without keeps its region on the host, with that reason. Where
//! there are two bodies, [`compare`] holds them against each other before the function exists.

pub(crate) mod compare;
mod samples;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use tidegate_device::panic_text;
use tidegate_pipeline::{BodyFailed, CustomFunction, Host, HostBody};

use super::takes;
use crate::error::{Error, ErrorKind};

/// A scalar function with a body in Rust, and optionally one for GPUs. [`crate::Session::register_function`]
/// gives it to a session.
///
/// ```
/// use datafusion::arrow::array::AsArray;
/// use datafusion::arrow::compute::unary;
/// use datafusion::arrow::datatypes::{DataType, Float64Type};
/// # #[tokio::main(flavor = "multi_thread")]
/// # async fn main() -> Result<(), tidegate::Error> {
/// let session = tidegate::Session::new()?;
/// let squared = tidegate::ScalarFunction::new(
///     "squared",
///     [("x", DataType::Float64)],
///     DataType::Float64,
///     |args| Ok(std::sync::Arc::new(unary::<_, _, Float64Type>(args[0].as_primitive::<Float64Type>(), |x| x * x))),
/// );
/// session.register_function(squared.cuda("x * x")).await?;
/// let rows = session.collect("SELECT squared(3)").await?;
/// assert_eq!(rows[0].column(0).as_primitive::<Float64Type>().value(0), 9.0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ScalarFunction {
    name: String,
    arguments: Vec<(String, DataType)>,
    returns: DataType,
    host: Arc<HostBody>,
    cuda: Option<String>,
    volatility: Volatility,
    ulps: u64,
    samples: Option<RecordBatch>,
}

impl fmt::Debug for ScalarFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScalarFunction")
            .field("name", &self.name)
            .field("arguments", &self.arguments)
            .field("returns", &self.returns)
            .field("cuda", &self.cuda)
            .finish_non_exhaustive()
    }
}

impl ScalarFunction {
    /// Makes a function of named arguments. The body takes an array for each argument, all of one
    /// length, and gives one of that length; without arguments it gives one value. It sees NULLs and
    /// decides what becomes of them, unless the function also has a CUDA body. The same arguments
    /// must give the same value, or say [`ScalarFunction::volatile`].
    ///
    /// A body that panics fails the statement, with the function's name.
    pub fn new<N: Into<String>>(
        name: impl Into<String>,
        arguments: impl IntoIterator<Item = (N, DataType)>,
        returns: DataType,
        body: impl Fn(&[ArrayRef]) -> std::result::Result<ArrayRef, ArrowError> + Send + Sync + 'static,
    ) -> Self {
        let host = move |args: &[ArrayRef]| {
            let ended = catch_unwind(AssertUnwindSafe(|| body(args)));
            match ended {
                Ok(result) => result.map_err(|error| BodyFailed(error.to_string())),
                Err(panic) => {
                    let why = panic_text(panic.as_ref());
                    Err(BodyFailed(format!("its body panicked: {why}")))
                }
            }
        };
        Self {
            name: name.into(),
            arguments: arguments
                .into_iter()
                .map(|(name, data_type)| (name.into(), data_type))
                .collect(),
            returns,
            host: Arc::new(host),
            cuda: None,
            volatility: Volatility::Immutable,
            ulps: 0,
            samples: None,
        }
    }

    /// Gives the function a body for GPUs: a C++ expression over the arguments' names, or statements
    /// that `return` one. Products and sums are rounded one by one. It includes nothing, and has the
    /// functions of CUDA's device library.
    ///
    /// | Arrow | C++ |
    /// |---|---|
    /// | Boolean | `bool` |
    /// | Int8 … Int64, UInt8 … UInt64 | `signed char`, `short`, `int`, `long long`, … |
    /// | Float32, Float64 | `float`, `double` |
    /// | Date32, Timestamp | `int` in days, `long long` in its unit |
    ///
    /// A row in which an argument is NULL has the value NULL, on both sides, whatever the Rust body
    /// makes of it.
    pub fn cuda(mut self, body: impl Into<String>) -> Self {
        self.cuda = Some(body.into());
        self
    }

    /// Lets floats of the two bodies differ by so many units in the last place, as those of `exp` and
    /// `sin` do. Then the last bits of an answer say where it was computed.
    pub fn within_ulps(mut self, ulps: u64) -> Self {
        self.ulps = ulps;
        self
    }

    /// Compares the two bodies over these rows, whose columns are the arguments, instead of random
    /// ones: for a function that is not defined everywhere.
    pub fn compared_over(mut self, rows: RecordBatch) -> Self {
        self.samples = Some(rows);
        self
    }

    /// Says that the same arguments may give another value each time. Such a call runs on the host.
    pub fn volatile(mut self) -> Self {
        self.volatility = Volatility::Volatile;
        self
    }

    /// Returns what queries call the function.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the function as the IR has it, if it has a body for devices.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] if a type or a name is none that a CUDA body can have.
    pub(crate) fn of_device(&self) -> Result<Option<Arc<CustomFunction>>, Error> {
        let Some(cuda) = &self.cuda else {
            return Ok(None);
        };
        let function = CustomFunction {
            name: self.name.clone(),
            arguments: self.arguments.clone(),
            returns: self.returns.clone(),
            cuda: cuda.clone(),
            host: Host(Some(Arc::clone(&self.host))),
        };
        function
            .check()
            .map_err(|unsupported| Error::new(ErrorKind::Sql, unsupported.what))?;
        Ok(Some(Arc::new(function)))
    }

    /// Returns the rows over which two bodies are compared.
    pub(crate) fn samples(&self) -> Result<RecordBatch, Error> {
        match &self.samples {
            Some(rows) => samples::checked(&self.name, &self.arguments, rows),
            None => samples::random(&self.arguments),
        }
    }

    pub(crate) fn ulps(&self) -> u64 {
        self.ulps
    }
}

/// A [`ScalarFunction`] as DataFusion calls it.
#[derive(Debug)]
pub(crate) struct RustFunction {
    /// Tells two functions of one name apart.
    id: u64,
    function: ScalarFunction,
    of_device: Option<Arc<CustomFunction>>,
    signature: Signature,
    documentation: Documentation,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl RustFunction {
    pub(crate) fn new(function: ScalarFunction, of_device: Option<Arc<CustomFunction>>) -> Self {
        let arguments = function.arguments.iter();
        let names: Vec<String> = arguments.map(|(name, _)| name.clone()).collect();
        let signature = Signature {
            parameter_names: Some(names),
            ..Signature::new(TypeSignature::UserDefined, function.volatility)
        };
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            documentation: documentation(&function),
            of_device,
            signature,
            function,
        }
    }

    /// Returns the function that a call is of, if a program registered it.
    pub(crate) fn of(function: &ScalarUDF) -> Option<&Self> {
        function.inner().downcast_ref::<Self>()
    }

    /// Returns the function as the IR has it, or why there is none.
    pub(crate) fn of_device(&self) -> std::result::Result<&Arc<CustomFunction>, String> {
        match &self.of_device {
            Some(_) if self.function.volatility == Volatility::Volatile => {
                Err(format!("function {} is volatile", self.function.name))
            }
            Some(function) => Ok(function),
            None => Err(format!("function {} has no CUDA body", self.function.name)),
        }
    }
}

fn documentation(function: &ScalarFunction) -> Documentation {
    let arguments = function.arguments.iter();
    let arguments: Vec<String> = arguments
        .map(|(name, data_type)| format!("{name} {data_type}"))
        .collect();
    let syntax = format!("{}({})", function.name, arguments.join(", "));
    let bodies = match &function.cuda {
        Some(cuda) => format!("in Rust and CUDA: {cuda}"),
        None => "in Rust".into(),
    };
    let description = format!("RETURNS {}, {bodies}", function.returns);
    Documentation::builder(DOC_SECTION_OTHER, description, syntax).build()
}

impl ScalarUDFImpl for RustFunction {
    fn name(&self) -> &str {
        &self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.function.returns.clone())
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let wanted = &self.function.arguments;
        if given.len() != wanted.len() {
            return plan_err!(
                "function {} takes {} arguments, and {} were given: {}",
                self.name(),
                wanted.len(),
                given.len(),
                self.documentation.syntax_example
            );
        }
        let coerce = |((name, wanted), given): (&(String, DataType), &DataType)| {
            if takes(wanted, given) {
                return Ok(wanted.clone());
            }
            plan_err!(
                "function {}: argument {name} is {wanted}, and {given} was given; write CAST where it \
                 is meant",
                self.name()
            )
        };
        wanted.iter().zip(given).map(coerce).collect()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(|arrays| Ok(self.call(arrays)?), Vec::new())(&args.args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

impl RustFunction {
    fn call(&self, args: &[ArrayRef]) -> Result<ArrayRef, Error> {
        let rows = args.first().map_or(1, |values| values.len());
        let failed = |why: String| {
            let message = format!("function {}: {why}", self.function.name);
            Error::new(ErrorKind::Sql, message)
        };
        let result = match &self.of_device {
            Some(function) => function
                .call(args)
                .map_err(|error| Error::new(ErrorKind::Sql, error.to_string()))?,
            None => (self.function.host)(args).map_err(|BodyFailed(why)| failed(why))?,
        };
        let returns = &self.function.returns;
        if result.data_type() != returns || result.len() != rows {
            return Err(failed(format!(
                "its body gave {} values of {} for {rows} rows, and not {returns}",
                result.len(),
                result.data_type()
            )));
        }
        Ok(result)
    }
}

impl PartialEq for RustFunction {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for RustFunction {}

impl Hash for RustFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}
