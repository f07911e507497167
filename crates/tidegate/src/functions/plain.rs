//! Scalar functions that are no more than their arguments' types, the type that they return and what they compute.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

/// What a function is made of.
pub(crate) struct Parts {
    /// Its name, and further ones.
    pub(crate) names: &'static [&'static str],
    pub(crate) section: DocSection,
    pub(crate) description: &'static str,
    /// A call, with names for its arguments.
    pub(crate) syntax: &'static str,
    /// Returns the types to which arguments of given types are cast, or an error that says what it takes.
    pub(crate) takes: fn(&[DataType]) -> Result<Vec<DataType>>,
    /// Returns the type of its values, given those of its arguments.
    pub(crate) returns: fn(&[DataType]) -> DataType,
    /// Computes its values; all arguments have as many.
    pub(crate) computes: fn(&[ArrayRef]) -> Result<ArrayRef>,
}

/// Makes a function whose values depend on its arguments alone.
pub(super) fn function(parts: Parts) -> ScalarUDF {
    made(parts, false, |args, _| {
        Ok(ExprSimplifyResult::Original(args))
    })
}

/// Makes one whose calls may become other expressions.
pub(crate) fn simplified(parts: Parts, simplify: Simplify) -> ScalarUDF {
    made(parts, false, simplify)
}

/// Makes one whose values are NULL of NULL alone.
pub(crate) fn total(parts: Parts) -> ScalarUDF {
    made(parts, true, |args, _| {
        Ok(ExprSimplifyResult::Original(args))
    })
}

type Simplify = fn(Vec<Expr>, &SimplifyContext) -> Result<ExprSimplifyResult>;

fn made(parts: Parts, is_total: bool, simplify: Simplify) -> ScalarUDF {
    let aliases = parts.names.iter().skip(1);
    ScalarUDF::from(Plain {
        aliases: aliases.map(ToString::to_string).collect(),
        signature: Signature::user_defined(Volatility::Immutable),
        documentation: Documentation::builder(
            parts.section.clone(),
            parts.description,
            parts.syntax,
        )
        .build(),
        parts,
        is_total,
        simplify,
    })
}

struct Plain {
    parts: Parts,
    is_total: bool,
    simplify: Simplify,
    aliases: Vec<String>,
    signature: Signature,
    documentation: Documentation,
}

impl fmt::Debug for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plain").field(&self.parts.names).finish()
    }
}

// There is one function of a name.
impl PartialEq for Plain {
    fn eq(&self, other: &Self) -> bool {
        self.parts.names == other.parts.names
    }
}

impl Eq for Plain {}

impl Hash for Plain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts.names.hash(state);
    }
}

impl ScalarUDFImpl for Plain {
    fn name(&self) -> &str {
        self.parts.names.first().copied().unwrap_or_default()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        (self.parts.takes)(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok((self.parts.returns)(given))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let given = args.arg_fields.iter();
        let given: Vec<DataType> = given.map(|field| field.data_type().clone()).collect();
        let is_nullable = !self.is_total || args.arg_fields.iter().any(|of| of.is_nullable());
        let returned = (self.parts.returns)(&given);
        Ok(Arc::new(Field::new(self.name(), returned, is_nullable)))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        (self.simplify)(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(self.parts.computes, Vec::new())(&args.args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}
