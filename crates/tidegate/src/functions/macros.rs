//! `CREATE MACRO f(a, b := 1) AS a + b`: a call is replaced by the expression before it is planned, as DuckDB has it.
//! That of a macro `AS TABLE SELECT …` is replaced by the query, in FROM.
//!
//! Arguments have no types, and may stand for anything that the expression takes, columns of a query in it too. The
//! function that is registered keeps the name and the expression alone.

use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, MacroArg,
    MacroDefinition, ObjectNamePart, Query, TableFactor, Visit, VisitMut, Visitor,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::forms;
use crate::error::{Error, ErrorKind};
use crate::statements::visits::{self, change_expressions, count_expressions};

/// The most expressions of a macro, arguments included.
const PARTS_MAX: usize = 10_000;

/// The language by which a plan that makes a macro is told from one that makes a function.
pub(crate) const LANGUAGE: &str = "macro";

/// A macro of a session.
#[derive(Debug)]
pub(crate) struct Macro {
    name: String,
    parameters: Vec<Parameter>,
    /// Where a parameter stands, `$0`, `$1`, …, which nobody can write without quotes.
    body: Body,
    /// The whole statement.
    text: String,
    signature: Signature,
}

/// What a call stands for.
#[derive(Debug)]
enum Body {
    Value(Box<Expr>),
    Table(Box<Query>),
}

#[derive(Debug)]
struct Parameter {
    name: String,
    default: Option<Expr>,
}

impl Macro {
    /// Reads a `CREATE MACRO` statement.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] for two parameters of one name and for a macro that calls itself,
    /// [`ErrorKind::NotSupported`] for one in a schema.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let parsed = Parser::parse_sql(&GenericDialect {}, text);
        let statement = parsed.ok().and_then(|mut statements| statements.pop());
        let Some(ast::Statement::CreateMacro {
            name,
            args,
            definition,
            ..
        }) = statement
        else {
            return Err(Error::new(ErrorKind::Sql, "CREATE MACRO cannot be read"));
        };
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
            let message = format!("macro {name}: it belongs to no schema: leave that out");
            return Err(Error::new(ErrorKind::NotSupported, message));
        };
        let name = folded(name);
        let failed = |why: &str| {
            let message = format!("macro {name}: {why}");
            Err(Error::new(ErrorKind::Sql, message))
        };
        let mut parameters: Vec<Parameter> = Vec::new();
        for MacroArg {
            name: parameter,
            default_expr: default,
        } in args.into_iter().flatten()
        {
            let parameter = folded(&parameter);
            if parameters.iter().any(|known| known.name == parameter) {
                return failed(&format!("two parameters are called {parameter}"));
            }
            parameters.push(Parameter {
                name: parameter,
                default,
            });
        }
        let (body, calls_itself) = match definition {
            MacroDefinition::Expr(mut body) => {
                let calls_itself = number(&mut body, &name, &parameters).is_break();
                (Body::Value(Box::new(body)), calls_itself)
            }
            MacroDefinition::Table(mut query) => {
                let calls_itself =
                    reads(&query, &name) || number(query.as_mut(), &name, &parameters).is_break();
                (Body::Table(query), calls_itself)
            }
        };
        if calls_itself {
            return failed("it would call itself: there is no recursion");
        }
        Ok(Self {
            name,
            parameters,
            body,
            text: text.to_string(),
            signature: Signature::new(TypeSignature::UserDefined, Volatility::Volatile),
        })
    }

    /// Returns the macro that a registered function is.
    pub(crate) fn of(function: &ScalarUDF) -> Option<&Self> {
        function.inner().downcast_ref::<Self>()
    }

    /// Returns the expression that a call stands for; `None` if its arguments are not those of the macro, or all
    /// together is too large.
    pub(crate) fn expand(&self, call: &Function) -> Option<Expr> {
        let Body::Value(body) = &self.body else {
            return None;
        };
        let mut body = body.clone();
        let given = self.arguments(call)?;
        written_out(&mut body, &given).then_some(Expr::Nested(body))
    }

    /// Returns the query that a call in FROM stands for.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] if the macro is none of tables, its arguments are others, or all together is too large.
    pub(crate) fn table(&self, args: &[FunctionArg]) -> Result<Box<Query>, Error> {
        if let Body::Table(query) = &self.body
            && let Some(given) = self.given(args)
        {
            let mut query = query.clone();
            if written_out(query.as_mut(), &given) {
                return Ok(query);
            }
        }
        Err(Error::new(ErrorKind::Sql, self.refused()))
    }

    /// Returns what a call gives for each parameter.
    fn arguments(&self, call: &Function) -> Option<Vec<Expr>> {
        let FunctionArguments::List(list) = &call.args else {
            return None;
        };
        let is_plain = call.filter.is_none()
            && call.over.is_none()
            && call.null_treatment.is_none()
            && call.within_group.is_empty()
            && list.duplicate_treatment.is_none()
            && list.clauses.is_empty();
        match is_plain {
            true => self.given(&list.args),
            false => None,
        }
    }

    /// Returns what arguments give for each parameter.
    fn given(&self, args: &[FunctionArg]) -> Option<Vec<Expr>> {
        if args.len() > self.parameters.len() {
            return None;
        }
        let mut given: Vec<Option<Expr>> = vec![None; self.parameters.len()];
        for (place, argument) in args.iter().enumerate() {
            let (place, value) = match argument {
                FunctionArg::Unnamed(value) => (place, value),
                FunctionArg::Named { name, arg, .. }
                | FunctionArg::ExprNamed {
                    name: Expr::Identifier(name),
                    arg,
                    ..
                } => {
                    let name = folded(name);
                    let known = self.parameters.iter().position(|known| known.name == name);
                    (known?, arg)
                }
                FunctionArg::ExprNamed { .. } => return None,
            };
            let FunctionArgExpr::Expr(value) = value else {
                return None;
            };
            if given[place].replace(value.clone()).is_some() {
                return None;
            }
        }
        let with_defaults = given.into_iter().zip(&self.parameters);
        with_defaults
            .map(|(given, parameter)| given.or_else(|| parameter.default.clone()))
            .collect()
    }

    /// Says why a call was not replaced.
    fn refused(&self) -> String {
        let parameters = self
            .parameters
            .iter()
            .map(|parameter| match &parameter.default {
                Some(default) => format!("{} := {default}", parameter.name),
                None => parameter.name.clone(),
            });
        let parameters: Vec<String> = parameters.collect();
        let from = match self.body {
            Body::Value(_) => "",
            Body::Table(_) => "FROM ",
        };
        format!(
            "macro {}: a call is {from}{}({}), and has at most {PARTS_MAX} parts when it is written out",
            self.name,
            self.name,
            parameters.join(", ")
        )
    }
}

/// Writes parameters as `$0`, `$1`, …; breaks off at a call of the macro itself.
fn number<N: VisitMut + ?Sized>(
    body: &mut N,
    name: &str,
    parameters: &[Parameter],
) -> ControlFlow<()> {
    change_expressions(body, |expr| {
        match expr {
            Expr::Function(call) if forms::name_of(call).as_deref() == Some(name) => {
                return ControlFlow::Break(());
            }
            Expr::Identifier(ident) => {
                let of = folded(ident);
                if let Some(place) = parameters.iter().position(|known| known.name == of) {
                    *ident = ast::Ident::new(format!("${place}"));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })
}

/// Tells whether a query reads what a call of this name gives.
fn reads(query: &Query, name: &str) -> bool {
    struct Calls<'a>(&'a str);
    impl Visitor for Calls<'_> {
        type Break = ();

        fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
            let TableFactor::Table {
                name,
                args: Some(_),
                ..
            } = table
            else {
                return ControlFlow::Continue(());
            };
            match name.0.as_slice() {
                [ObjectNamePart::Identifier(ident)] if folded(ident) == self.0 => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    visits::read(query, &mut Calls(name)).is_break()
}

/// Puts arguments in the places of parameters; false if all together is too large.
fn written_out<N: Visit + VisitMut>(body: &mut N, given: &[Expr]) -> bool {
    let mut parts = count_expressions(&*body);
    let walked = change_expressions(body, |expr| {
        if let Some(argument) = forms::place_of(expr).and_then(|place| given.get(place)) {
            parts += count_expressions(argument);
            if parts > PARTS_MAX {
                return ControlFlow::Break(());
            }
            *expr = Expr::Nested(Box::new(argument.clone()));
        }
        ControlFlow::Continue(())
    });
    walked.is_continue()
}

fn folded(name: &ast::Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

impl PartialEq for Macro {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Macro {}

impl Hash for Macro {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl ScalarUDFImpl for Macro {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, _: &[DataType]) -> Result<Vec<DataType>> {
        plan_err!("{}", self.refused())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("{}", self.refused())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{}", self.refused())
    }
}
