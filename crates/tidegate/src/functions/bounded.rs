//! Functions whose values may be far larger than their arguments, and which ask for memory first.
//!
//! `repeat('x', 5e8)` allocates all of its value in one step, so no pool that is asked afterwards can stop
//! it. A [`Bounded`] function knows from its arguments how many bytes its value will have (`sizes`) and
//! reserves them before it runs. As a constant it is not folded if its value is large: the value would be
//! made while the statement is planned, and kept in the plan.
//!
//! Functions of lists write a constant out for each row of a batch. Where that would be much, they compute the
//! rows in parts.

mod operator;
mod sizes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{ExprSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, StructFieldMapping,
};
use parking_lot::RwLock;

use super::folding::is_folding;
use crate::error::{Error, ErrorKind};
pub(crate) use operator::bounded_concat;
use sizes::{BOUNDED, Estimate, bytes_of, constant_bytes, longest_pattern, takes_lists};

/// Constants with larger values are not folded: each row of a batch may hold a copy.
const FOLDED_BYTES_MAX: u64 = 4 << 10;

/// Values of fewer bytes are made without asking.
const UNASKED_BYTES_MAX: u64 = 1 << 20;

/// How often a value may be in memory while it is made and handed on: as the function builds it, as the
/// array that it becomes, and as a copy in the operator that reads it.
const COPIES: u64 = 3;

/// The most bytes of the strings of one array, whose offsets have 32 bits.
const ARRAY_BYTES_MAX: u64 = i32::MAX as u64;

/// The most pairs that a function compares in one call, which cannot be stopped: a second or two.
const PAIRS_MAX: u64 = 1_000_000_000;

/// The most bytes of a regular expression, which takes some hundred times as many when it is compiled.
const PATTERN_BYTES_MAX: u64 = 64 << 10;

/// Rows whose values may have more bytes than this are computed in parts, where only a bound is known, and rows for
/// which constants of more bytes would be repeated.
const PART_BYTES: u64 = 64 << 20;

/// The memory from which functions take, which changes with `tidegate.memory_limit`.
#[derive(Clone)]
pub(crate) struct FunctionMemory(Arc<RwLock<Arc<dyn MemoryPool>>>);

impl fmt::Debug for FunctionMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FunctionMemory").finish()
    }
}

impl FunctionMemory {
    pub(crate) fn new(pool: Arc<dyn MemoryPool>) -> Self {
        Self(Arc::new(RwLock::new(pool)))
    }

    /// Takes from another pool from now on.
    pub(crate) fn set(&self, pool: Arc<dyn MemoryPool>) {
        *self.0.write() = pool;
    }

    /// Takes the memory of values of so many bytes.
    fn reserve(&self, name: &str, bytes: u64) -> Result<MemoryReservation> {
        let wanted = bytes.saturating_mul(COPIES);
        let what = format!("would make {bytes} bytes at once, and take {wanted} meanwhile");
        self.take(name, wanted, &what)
    }

    fn take(&self, name: &str, wanted: u64, what: &str) -> Result<MemoryReservation> {
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let consumer = MemoryConsumer::new(format!("{name}()"));
        let reservation = consumer.register(&self.0.read());
        reservation.try_grow(wanted).map_err(|error| {
            let message = format!("{name}() {what}: {}", Error::from_ref(&error));
            Error::with_source(ErrorKind::ResourcesExhausted, message, error)
        })?;
        Ok(reservation)
    }
}

/// Has the functions of a state ask for memory whose values may be large.
///
/// # Errors
/// DataFusion's, if it refuses a function.
pub(crate) fn bound(state: &mut SessionState, memory: &FunctionMemory) -> Result<()> {
    let lists = state.scalar_functions().values();
    let lists = lists.map(|function| function.name().to_owned());
    let lists: BTreeSet<String> = lists.filter(|name| takes_lists(name)).collect();
    let lists = lists.iter().map(|name| (name.as_str(), Estimate::Small));
    // What is told of a function replaces what holds of all that take lists.
    let estimates: BTreeMap<&str, Estimate> = lists.chain(BOUNDED).collect();
    for (name, estimate) in estimates {
        let Some(inner) = state.scalar_functions().get(name).cloned() else {
            continue;
        };
        let function = Bounded {
            inner,
            estimate,
            memory: memory.clone(),
        };
        state.register_udf(Arc::new(ScalarUDF::new_from_impl(function)))?;
    }
    Ok(())
}

/// A function of DataFusion's that asks for the memory of its value before it is called.
#[derive(Debug)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    estimate: Estimate,
    memory: FunctionMemory,
}

/// Returns the function that a bounded one calls; any other one itself.
pub(crate) fn within(function: &ScalarUDF) -> &ScalarUDF {
    let bounded = function.inner().downcast_ref::<Bounded>();
    bounded.map_or(function, |bounded| bounded.inner.as_ref())
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Bounded {
    fn invoke(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = self.inner.name();
        let repeated = constant_bytes(&args.args).saturating_mul(args.number_rows as u64);
        if repeated > PART_BYTES && args.number_rows > 1 && has_arrays(&args) {
            return self.invoke_in_parts(args);
        }
        let _repeated = match repeated > UNASKED_BYTES_MAX && has_arrays(&args) {
            true => {
                let what = format!("would repeat constants of {repeated} bytes");
                Some(self.memory.take(name, repeated, &what)?)
            }
            false => None,
        };
        if name == "regexp_replace" {
            check_pattern(name, &args)?;
        }
        let (bytes, is_exact) = match self.estimate {
            Estimate::Exact(bytes) => (bytes(&args.args, args.number_rows), true),
            Estimate::AtMost(bytes) => (bytes(&args.args, args.number_rows), false),
            Estimate::Pattern => {
                check_pattern(name, &args)?;
                return self.inner.invoke_with_args(args);
            }
            Estimate::Meanwhile(bytes) => {
                let wanted = bytes(&args.args, args.number_rows);
                let what = format!("would take {wanted} bytes at once");
                let _held = match wanted > UNASKED_BYTES_MAX {
                    true => Some(self.memory.take(name, wanted, &what)?),
                    false => None,
                };
                return self.inner.invoke_with_args(args);
            }
            Estimate::Small => return self.inner.invoke_with_args(args),
            Estimate::Pairs(pairs) => {
                check_pairs(name, pairs(&args.args, args.number_rows))?;
                return self.inner.invoke_with_args(args);
            }
        };
        if is_folding() && bytes > FOLDED_BYTES_MAX {
            let message = format!("{name}() would make {bytes} bytes: it is not folded");
            return Err(Error::new(ErrorKind::ResourcesExhausted, message).into());
        }
        if bytes <= UNASKED_BYTES_MAX {
            return self.inner.invoke_with_args(args).map_err(of_negative_size);
        }
        if !is_exact && bytes > PART_BYTES && args.number_rows > 1 && has_arrays(&args) {
            return self.invoke_in_parts(args);
        }
        if bytes > ARRAY_BYTES_MAX {
            let message = format!(
                "{name}() would make {bytes} bytes for {} rows at once, and an array holds {ARRAY_BYTES_MAX}; \
                 ask for shorter values, or lower datafusion.execution.batch_size",
                args.number_rows
            );
            return Err(Error::new(ErrorKind::ResourcesExhausted, message).into());
        }
        let _held = self.memory.reserve(name, bytes)?;
        self.inner.invoke_with_args(args)
    }

    /// Computes the rows in two halves, each of which asks for itself.
    fn invoke_in_parts(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let half = args.number_rows / 2;
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(2);
        let mut bytes = 0;
        for (start, rows) in [(0, half), (half, args.number_rows - half)] {
            let part = |value: &ColumnarValue| match value {
                ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(start, rows)),
                scalar => scalar.clone(),
            };
            let part = ScalarFunctionArgs {
                args: args.args.iter().map(part).collect(),
                arg_fields: args.arg_fields.clone(),
                number_rows: rows,
                return_field: Arc::clone(&args.return_field),
                config_options: Arc::clone(&args.config_options),
            };
            let array = self.invoke(part)?.into_array(rows)?;
            bytes += bytes_of(&array);
            arrays.push(array);
        }
        let _held = match bytes > UNASKED_BYTES_MAX {
            true => Some(self.memory.reserve(self.inner.name(), bytes)?),
            false => None,
        };
        let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
        Ok(ColumnarValue::Array(concat(&arrays)?))
    }
}

/// Refuses a pattern whose program would take much memory.
fn check_pattern(name: &str, args: &ScalarFunctionArgs) -> Result<()> {
    let bytes = longest_pattern(&args.args, args.number_rows);
    if bytes <= PATTERN_BYTES_MAX {
        return Ok(());
    }
    let message =
        format!("{name}(): the pattern has {bytes} bytes, and may have {PATTERN_BYTES_MAX}");
    Err(Error::new(ErrorKind::ResourcesExhausted, message).into())
}

/// DataFusion calls a negative size of `array_resize` a bug of its own.
fn of_negative_size(error: DataFusionError) -> DataFusionError {
    match &error {
        DataFusionError::Internal(text) if text.contains("failed to convert size to usize") => {
            let message = "array_resize() takes a size that is not negative";
            Error::new(ErrorKind::Sql, message).into()
        }
        _ => error,
    }
}

/// Refuses a call that would take too long; in a rule, where nobody waits for rows yet, much earlier.
pub(super) fn check_pairs(name: &str, pairs: u64) -> Result<()> {
    let limit = if is_folding() {
        PAIRS_MAX / 1000
    } else {
        PAIRS_MAX
    };
    if pairs <= limit {
        return Ok(());
    }
    let message = format!(
        "{name}() would compare {pairs} pairs at once, and may compare {limit}; shorten its arguments, or \
         lower datafusion.execution.batch_size"
    );
    Err(Error::new(ErrorKind::ResourcesExhausted, message).into())
}

fn has_arrays(args: &ScalarFunctionArgs) -> bool {
    let is_array = |value: &ColumnarValue| matches!(value, ColumnarValue::Array(_));
    args.args.iter().any(is_array)
}

// It delegates, so it should implement every method.
#[warn(clippy::missing_trait_methods)]
impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        #[expect(deprecated)]
        self.inner.inner().display_name(args)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = self.inner.inner().with_updated_config(config)?;
        Some(ScalarUDF::new_from_impl(Self {
            inner: Arc::new(inner),
            estimate: self.estimate,
            memory: self.memory.clone(),
        }))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_nullable(&self, args: &[Expr], schema: &dyn ExprSchema) -> bool {
        #[expect(deprecated)]
        self.inner.inner().is_nullable(args, schema)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.invoke(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn preimage(
        &self,
        args: &[Expr],
        literal: &Expr,
        info: &SimplifyContext,
    ) -> Result<PreimageResult> {
        self.inner.preimage(args, literal, info)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.inner.propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn struct_field_mapping(&self, literals: &[Option<ScalarValue>]) -> Option<StructFieldMapping> {
        self.inner.struct_field_mapping(literals)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.placement(args)
    }
}

#[cfg(test)]
mod tests;
