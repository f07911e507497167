//! Functions written in SQL: `CREATE FUNCTION f(x DOUBLE) RETURNS DOUBLE RETURN x * 2`.
//!
//! While a plan is simplified, a call is replaced by the function's body with the arguments in their
//! places ([`inline`]), so that a region, a device program or a pruned row group sees an ordinary
//! expression. A call that would not mean the same written out, or would grow too large, stays a
//! call, and evaluates the body over its arguments' values.

mod body;
mod inline;

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{DFSchema, DFSchemaRef, plan_err};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_OTHER;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;

use super::takes;
use crate::error::{Error, ErrorKind};
use inline::Template;

/// An argument of a function.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    /// Its name in the body; `$1`, `$2` … where none was given.
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    /// What stands for it where a call leaves it out.
    pub(crate) default: Option<Expr>,
}

/// What `CREATE FUNCTION` says.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) returns: DataType,
    /// The body as it was planned: arguments are columns, calls of other functions are calls.
    pub(crate) body: Expr,
    /// The body's text.
    pub(crate) text: String,
}

/// A function of a session, made of a [`Definition`] and the functions that it calls.
#[derive(Debug)]
pub(crate) struct SqlFunction {
    /// Tells two functions of one name apart.
    id: u64,
    definition: Definition,
    signature: Signature,
    template: Template,
    /// The same for values.
    evaluator: Evaluator,
    schema: SchemaRef,
    documentation: Documentation,
}

/// What computes a function's values where a call was not written out.
#[derive(Debug)]
struct Evaluator {
    /// Its columns are the arguments; `None` if its value hangs on when the statement began.
    body: Option<Arc<dyn PhysicalExpr>>,
    defaults: Vec<Option<Arc<dyn PhysicalExpr>>>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl SqlFunction {
    /// Makes a function, with the types of its body checked.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Sql`] if the body reads something else than its arguments, has a type that
    /// cannot become the declared one, or becomes too large.
    pub(crate) fn new(definition: Definition, state: &SessionState) -> Result<Self, Error> {
        let fields: Vec<Field> = definition
            .arguments
            .iter()
            .map(|argument| Field::new(&argument.name, argument.data_type.clone(), true))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let columns = Arc::new(DFSchema::try_from(Arc::clone(&schema))?);
        let typed = body::typed(&definition, &columns, state)?;
        let defaults = body::defaults(&definition, state)?;
        let volatility = body::volatility(&typed);
        let template = Template::new(&definition, typed, defaults)?;
        let evaluator = Evaluator::new(&template, volatility, columns, state)?;
        let names = definition.arguments.iter();
        let signature = Signature {
            parameter_names: Some(names.map(|argument| argument.name.clone()).collect()),
            ..Signature::new(TypeSignature::UserDefined, volatility)
        };
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            documentation: documentation(&definition),
            definition,
            signature,
            template,
            evaluator,
            schema,
        })
    }

    /// Returns the function that a call is of, if it was made by `CREATE FUNCTION`.
    pub(crate) fn of(function: &ScalarUDF) -> Option<&Self> {
        function.inner().downcast_ref::<Self>()
    }

    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }

    /// Returns how many arguments a call must give at least.
    fn required(&self) -> usize {
        let defaults = self.template.defaults();
        defaults.iter().filter(|default| default.is_none()).count()
    }
}

impl SqlFunction {
    fn stays_a_call(&self) -> Error {
        let message = format!(
            "this call of {} cannot be written out, which it must be for the time that is in its \
             body: make its arguments simpler",
            self.definition.name
        );
        Error::new(ErrorKind::NotSupported, message)
    }
}

impl Evaluator {
    fn new(
        template: &Template,
        volatility: Volatility,
        columns: DFSchemaRef,
        state: &SessionState,
    ) -> Result<Self> {
        // Some functions can only be called in the form that they are simplified to.
        let physical = |expr: &Expr, columns: &DFSchemaRef| {
            let context = SimplifyContext::builder()
                .with_schema(Arc::clone(columns))
                .with_config_options(Arc::clone(state.config_options()))
                .build();
            let expr = ExprSimplifier::new(context).simplify(expr.clone())?;
            state.create_physical_expr(expr, columns)
        };
        let nothing: DFSchemaRef = Arc::new(DFSchema::empty());
        let is_stable = volatility == Volatility::Stable;
        let default = |default: &Option<Expr>| {
            let default = default.as_ref().filter(|_| !is_stable);
            default
                .map(|default| physical(default, &nothing))
                .transpose()
        };
        Ok(Self {
            body: match is_stable {
                true => None,
                false => Some(physical(template.body(), &columns)?),
            },
            defaults: template
                .defaults()
                .iter()
                .map(default)
                .collect::<Result<_>>()?,
        })
    }
}

/// What `information_schema.routines` tells.
fn documentation(definition: &Definition) -> Documentation {
    let arguments: Vec<String> = definition
        .arguments
        .iter()
        .map(|argument| match argument.name.starts_with('$') {
            true => argument.data_type.to_string(),
            false => format!("{} {}", argument.name, argument.data_type),
        })
        .collect();
    let syntax = format!("{}({})", definition.name, arguments.join(", "));
    let description = format!("RETURNS {} RETURN {}", definition.returns, definition.text);
    Documentation::builder(DOC_SECTION_OTHER, description, syntax).build()
}

impl ScalarUDFImpl for SqlFunction {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.definition.returns.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        // A body that is never NULL makes a column that is never NULL, inlined or not.
        let given = args.arg_fields.iter().map(|field| field.is_nullable());
        let nullable = given.chain(std::iter::repeat(true));
        let fields: Vec<Field> = self
            .schema
            .fields()
            .iter()
            .zip(nullable)
            .map(|(field, nullable)| field.as_ref().clone().with_nullable(nullable))
            .collect();
        let columns = DFSchema::try_from(Schema::new(fields))?;
        let nullable = self.template.body().nullable(&columns)?;
        Ok(Arc::new(Field::new(
            self.name(),
            self.definition.returns.clone(),
            nullable,
        )))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let (least, most) = (self.required(), self.definition.arguments.len());
        if given.len() < least || given.len() > most {
            let wanted = match least == most {
                true => least.to_string(),
                false => format!("{least} to {most}"),
            };
            return plan_err!(
                "function {} takes {wanted} arguments, and {} were given: {}",
                self.name(),
                given.len(),
                self.documentation.syntax_example
            );
        }
        for (argument, given) in self.definition.arguments.iter().zip(given) {
            if !takes(&argument.data_type, given) {
                return plan_err!(
                    "function {}: argument {} is {}, and {given} was given; write CAST where it is \
                     meant",
                    self.name(),
                    argument.name,
                    argument.data_type
                );
            }
        }
        let arguments = self.definition.arguments.iter().take(given.len());
        Ok(arguments
            .map(|argument| argument.data_type.clone())
            .collect())
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match self.template.written_out(&args) {
            Some(expr) => Ok(ExprSimplifyResult::Simplified(expr)),
            None if self.evaluator.body.is_none() => Err(self.stays_a_call().into()),
            None => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let Some(body) = &self.evaluator.body else {
            return Err(self.stays_a_call().into());
        };
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for value in &args.args {
            columns.push(value.to_array(rows)?);
        }
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        for default in self.evaluator.defaults.iter().skip(columns.len()).flatten() {
            columns.push(default.evaluate(&nothing)?.to_array(rows)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        body.evaluate(&batch)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

impl PartialEq for SqlFunction {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for SqlFunction {}

impl Hash for SqlFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}
