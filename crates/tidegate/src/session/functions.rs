//! `CREATE FUNCTION`, `DROP FUNCTION`, and functions that a program registers.
//!
//! A function's body names other functions, and means them as they are now: replacing one remakes
//! those that call it, and fails as a whole if one of these would no longer have types. None is
//! dropped while others call it, and none calls itself, through however many others.
//!
//! `CREATE MACRO` registers a function too, which only its name is used of ([`macros`]).

mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::dataframe::DataFrame;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    CreateFunction, CreateFunctionBody, DdlStatement, DropFunction, Expr, LogicalPlan,
    LogicalPlanBuilder, ScalarUDF, ScalarUDFImpl as _, lit,
};
use datafusion::sql::parser::Statement;
use sqlparser::ast::{self, Ident, ObjectName, ObjectNamePart};

use super::Session;
use crate::error::{Error, ErrorKind, Mistake};
use crate::functions::custom::compare::compare;
use crate::functions::custom::{RustFunction, ScalarFunction};
use crate::functions::is_users;
use crate::functions::macros::{self, Macro};
use crate::functions::sql::{Argument, Definition, SqlFunction};
use crate::statements::visits::change_expressions;

/// The most functions that `CREATE FUNCTION` makes in a session.
const FUNCTIONS_MAX: usize = 10_000;

/// Plans a statement as DataFusion does, but for the names of functions and of their arguments, which
/// it does not fold to lower case where they are made.
pub(super) async fn plan(
    state: &SessionState,
    mut statement: Statement,
) -> datafusion::error::Result<LogicalPlan> {
    let mut made = None;
    if let Statement::Statement(inner) = &mut statement {
        match inner.as_mut() {
            ast::Statement::CreateFunction(create) => {
                fold_created(create)?;
                made = Some(create.name.to_string());
            }
            ast::Statement::DropFunction(drop) => {
                for function in &mut drop.func_desc {
                    fold_name(&mut function.name);
                }
            }
            ast::Statement::CreateMacro {
                or_replace,
                name,
                args,
                ..
            } => {
                let name = name.to_string();
                let or_replace = *or_replace;
                // Without arguments, the parser writes no parentheses.
                args.get_or_insert_default();
                return Ok(macro_plan(name, or_replace, inner.to_string()));
            }
            ast::Statement::ShowFunctions { filter } => {
                return shown::plan(state, filter.take()).await;
            }
            _ => {}
        }
    }
    let planned = state.statement_to_plan(statement).await;
    match (planned, made) {
        (Err(error), Some(name)) => Err(match Mistake::of(&error) {
            Some(Mistake::Function { name: missing }) if missing == name => recursion(&name).into(),
            _ => error,
        }),
        (planned, _) => planned,
    }
}

/// Plans a statement that makes a macro of tables. Its query is kept as it is: it is rewritten where it is read.
pub(super) fn table_macro(statement: &mut Statement) -> Option<LogicalPlan> {
    let Statement::Statement(inner) = statement else {
        return None;
    };
    let ast::Statement::CreateMacro {
        or_replace,
        name,
        args,
        definition: ast::MacroDefinition::Table(_),
        ..
    } = inner.as_mut()
    else {
        return None;
    };
    let (name, or_replace) = (name.to_string(), *or_replace);
    args.get_or_insert_default();
    Some(macro_plan(name, or_replace, inner.to_string()))
}

/// Returns the plan that makes a macro, whose body is the statement's text.
fn macro_plan(name: String, or_replace: bool, text: String) -> LogicalPlan {
    let create = CreateFunction {
        or_replace,
        temporary: false,
        name,
        args: None,
        return_type: None,
        params: CreateFunctionBody {
            language: Some(Ident::new(macros::LANGUAGE)),
            behavior: None,
            function_body: Some(lit(text)),
        },
        schema: Arc::new(DFSchema::empty()),
    };
    LogicalPlan::Ddl(DdlStatement::CreateFunction(Box::new(create)))
}

fn fold_created(create: &mut ast::CreateFunction) -> Result<(), Error> {
    fold_name(&mut create.name);
    let name = &create.name;
    let refuse = |what: &str| {
        let message = format!("function {name}: {what}");
        Err(Error::new(ErrorKind::NotSupported, message))
    };
    match &create.function_body {
        Some(ast::CreateFunctionBody::Return(_)) => {}
        _ => return refuse("write its body as RETURN expression"),
    }
    if let Some(language) = &create.language
        && !language.value.eq_ignore_ascii_case("sql")
    {
        return refuse("the language of CREATE FUNCTION is SQL; register others from a program");
    }
    if create.called_on_null == Some(ast::FunctionCalledOnNull::Strict)
        || create.called_on_null == Some(ast::FunctionCalledOnNull::ReturnsNullOnNullInput)
    {
        return refuse("STRICT is not there: write CASE WHEN x IS NULL THEN NULL ELSE … END");
    }
    for argument in create.args.iter_mut().flatten() {
        if argument
            .mode
            .as_ref()
            .is_some_and(|mode| *mode != ast::ArgMode::In)
        {
            return refuse("arguments are IN arguments");
        }
        // The parser keeps the quotes of an argument's name as part of it.
        if let Some(name) = &mut argument.name {
            let quoted = name
                .value
                .strip_prefix('"')
                .and_then(|name| name.strip_suffix('"'));
            *name = Ident::new(match quoted {
                Some(quoted) => quoted.replace("\"\"", "\""),
                None => name.value.to_lowercase(),
            });
        }
    }
    let names: Vec<String> = create
        .args
        .iter()
        .flatten()
        .map(|argument| {
            argument
                .name
                .as_ref()
                .map_or(String::new(), |name| name.value.clone())
        })
        .collect();
    match &mut create.function_body {
        Some(ast::CreateFunctionBody::Return(body)) => {
            number_arguments(body, &names).map_err(|why| {
                let message = format!("function {}: {why}", create.name);
                Error::new(ErrorKind::Sql, message)
            })
        }
        _ => Ok(()),
    }
}

/// Writes a body's arguments as `$1`, `$2` …: DataFusion takes a name for that of a column.
fn number_arguments(body: &mut ast::Expr, names: &[String]) -> Result<(), String> {
    let known: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !name.is_empty())
        .collect();
    let visited = change_expressions(body, |expr| {
        let ident = match expr {
            ast::Expr::Identifier(ident) if !ident.value.starts_with('@') => ident.clone(),
            ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => {
                return ControlFlow::Break(
                    "its body cannot hold a query: make the query's value an argument".to_string(),
                );
            }
            _ => return ControlFlow::Continue(()),
        };
        let name = match ident.quote_style {
            Some(_) => ident.value.clone(),
            None => ident.value.to_lowercase(),
        };
        let Some(place) = names.iter().position(|known| *known == name) else {
            return ControlFlow::Break(match known.as_slice() {
                [] => format!("{name} is not an argument, and the function has none by name"),
                known => format!(
                    "{name} is not an argument; its arguments are {}",
                    known.join(", ")
                ),
            });
        };
        let placeholder = ast::Value::Placeholder(format!("${}", place + 1));
        *expr = ast::Expr::Value(placeholder.with_span(ident.span));
        ControlFlow::Continue(())
    });
    match visited {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(why) => Err(why),
    }
}

fn fold_name(name: &mut ObjectName) {
    for part in &mut name.0 {
        if let ObjectNamePart::Identifier(ident) = part {
            *ident = match ident.quote_style {
                Some(_) => Ident::new(&ident.value),
                None => Ident::new(ident.value.to_lowercase()),
            };
        }
    }
}

/// Runs `CREATE [OR REPLACE] FUNCTION`; `body` is the text of its body.
pub(super) fn create(
    session: &Session,
    body: Option<String>,
    create: CreateFunction,
) -> Result<DataFrame, Error> {
    let state = session.ctx.state();
    if let Some(text) = macro_text(&create) {
        let made = Macro::parse(text)?;
        check_name(&state, made.name(), create.or_replace)?;
        let state = session.ctx.state_ref();
        let made = Arc::new(ScalarUDF::new_from_impl(made));
        state.write().register_udf(made)?;
        return empty(session);
    }
    let name = create.name.clone();
    check_name(&state, &name, create.or_replace)?;
    let mut definitions = definitions(&state);
    definitions.insert(name.clone(), definition(create, body.unwrap_or_default())?);
    let callers = callers(&name, &definitions)?;
    let mut made: Vec<Arc<ScalarUDF>> = Vec::with_capacity(callers.len() + 1);
    for each in std::iter::once(&name).chain(&callers) {
        let Some(definition) = definitions.get(each) else {
            continue;
        };
        let definition = rebound(definition, &made)?;
        let function = SqlFunction::new(definition, &state).map_err(|error| {
            if *each == name {
                return error;
            }
            let message =
                format!("function {name} cannot be replaced, because {each} calls it: {error}");
            Error::with_source(ErrorKind::Sql, message, error)
        })?;
        made.push(Arc::new(ScalarUDF::new_from_impl(function)));
    }
    let state = session.ctx.state_ref();
    for function in made {
        state.write().register_udf(function)?;
    }
    empty(session)
}

/// Returns the text of the statement that makes a macro.
fn macro_text(create: &CreateFunction) -> Option<&str> {
    let language = create.params.language.as_ref()?;
    match &create.params.function_body {
        Some(Expr::Literal(text, _)) if language.value == macros::LANGUAGE => {
            text.try_as_str().flatten()
        }
        _ => None,
    }
}

/// Lists who calls a function, directly or through others, each after those of them that it calls.
fn callers(name: &str, all: &BTreeMap<String, Definition>) -> Result<Vec<String>, Error> {
    let calls: BTreeMap<&String, BTreeSet<String>> = all
        .iter()
        .map(|(name, definition)| (name, called(&definition.body)))
        .collect();
    let mut stale = BTreeSet::from([name.to_string()]);
    loop {
        let calls_stale =
            |(_, callees): &(&&String, &BTreeSet<String>)| !callees.is_disjoint(&stale);
        let found: Vec<String> = calls
            .iter()
            .filter(calls_stale)
            .map(|(caller, _)| (*caller).clone())
            .collect();
        if found.iter().any(|caller| caller == name) {
            return Err(recursion(name));
        }
        let known = stale.len();
        stale.extend(found);
        if stale.len() == known {
            break;
        }
    }
    stale.remove(name);
    let mut ordered = Vec::with_capacity(stale.len());
    while let Some(next) = stale
        .iter()
        .find(|caller| {
            calls
                .get(caller)
                .is_some_and(|callees| callees.is_disjoint(&stale))
        })
        .cloned()
    {
        stale.remove(&next);
        ordered.push(next);
    }
    Ok(ordered)
}

fn recursion(name: &str) -> Error {
    let message = format!("function {name} would call itself: there is no recursion");
    Error::new(ErrorKind::Sql, message)
}

/// Lists the functions of users that an expression calls.
fn called(body: &Expr) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let walked = body.apply(|expr| {
        if let Expr::ScalarFunction(call) = expr
            && is_users(&call.func)
        {
            names.insert(call.func.name().to_string());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    debug_assert!(walked.is_ok(), "nothing in the walk fails");
    names
}

/// Returns a definition that calls these functions where it calls others of their names.
fn rebound(definition: &Definition, made: &[Arc<ScalarUDF>]) -> Result<Definition, Error> {
    let body = definition.body.clone().transform_up(|mut expr| {
        if let Expr::ScalarFunction(call) = &mut expr
            && is_users(&call.func)
            && let Some(now) = made.iter().find(|made| made.name() == call.func.name())
        {
            call.func = Arc::clone(now);
            return Ok(Transformed::yes(expr));
        }
        Ok(Transformed::no(expr))
    })?;
    Ok(Definition {
        body: body.data,
        ..definition.clone()
    })
}

/// Reads what a planned statement says.
fn definition(create: CreateFunction, text: String) -> Result<Definition, Error> {
    let CreateFunction {
        name,
        args,
        return_type,
        params,
        ..
    } = create;
    let Some(returns) = return_type else {
        let message = format!("function {name}: say what it returns, as in RETURNS DOUBLE");
        return Err(Error::new(ErrorKind::Sql, message));
    };
    let Some(body) = params.function_body else {
        let message = format!("function {name}: write its body as RETURN expression");
        return Err(Error::new(ErrorKind::Sql, message));
    };
    let mut arguments: Vec<Argument> = Vec::new();
    for (number, argument) in args.into_iter().flatten().enumerate() {
        let argument_name = match argument.name {
            Some(given) => given.value,
            None => format!("${}", number + 1),
        };
        if arguments.iter().any(|before| before.name == argument_name) {
            let message = format!("function {name}: two arguments are called {argument_name}");
            return Err(Error::new(ErrorKind::Sql, message));
        }
        arguments.push(Argument {
            name: argument_name,
            data_type: argument.data_type,
            default: argument.default_expr,
        });
    }
    let body = body.transform_up(|expr| {
        let Expr::Placeholder(placeholder) = &expr else {
            return Ok(Transformed::no(expr));
        };
        let number = placeholder
            .id
            .get(1..)
            .and_then(|id| id.parse::<usize>().ok());
        let place = number.and_then(|number| number.checked_sub(1));
        Ok(match place.and_then(|place| arguments.get(place)) {
            Some(argument) => {
                let column = Column::new_unqualified(&argument.name);
                Transformed::yes(Expr::Column(column))
            }
            None => Transformed::no(expr),
        })
    })?;
    Ok(Definition {
        name,
        arguments,
        returns,
        body: body.data,
        text,
    })
}

/// Returns the text of the body in a statement that creates a function.
pub(super) fn body_text(statement: &Statement) -> Option<String> {
    if let Statement::Statement(inner) = statement
        && let ast::Statement::CreateFunction(create) = inner.as_ref()
        && let Some(ast::CreateFunctionBody::Return(body)) = &create.function_body
    {
        return Some(body.to_string());
    }
    None
}

/// Adds a function that the program made, after its bodies were compared.
pub(super) async fn register(
    session: &Session,
    function: ScalarFunction,
) -> Result<Arc<ScalarUDF>, Error> {
    check_name(&session.ctx.state(), function.name(), false)?;
    let of_device = function.of_device()?;
    if let Some(of_device) = &of_device {
        compare(&function, of_device, &session.runtime).await?;
    }
    let function = Arc::new(ScalarUDF::new_from_impl(RustFunction::new(
        function, of_device,
    )));
    let state = session.ctx.state_ref();
    state.write().register_udf(Arc::clone(&function))?;
    Ok(function)
}

/// Runs `DROP FUNCTION`.
pub(super) fn drop(session: &Session, drop: &DropFunction) -> Result<DataFrame, Error> {
    let name = &drop.name;
    let state = session.ctx.state();
    let own = definitions(&state);
    let Some(function) = state.scalar_functions().get(name) else {
        if is_built_in(&state, name) {
            return Err(built_in(name));
        }
        if drop.if_exists {
            return empty(session);
        }
        let mut known: Vec<String> = own.into_keys().collect();
        known.sort_unstable();
        let hint = match crate::suggest::nearest(&known, name) {
            Some(near) => format!("did you mean {near}?"),
            None if known.is_empty() => "none was made".into(),
            None => format!("there are {}", known.join(", ")),
        };
        let message = format!("function {name} not found: {hint}");
        return Err(Error::new(ErrorKind::Sql, message));
    };
    if !is_users(function) {
        return Err(built_in(name));
    }
    let calls_it =
        |(_, definition): &(&String, &Definition)| called(&definition.body).contains(name);
    let callers: Vec<&str> = own
        .iter()
        .filter(calls_it)
        .map(|(name, _)| name.as_str())
        .collect();
    if !callers.is_empty() {
        let message = format!(
            "function {name} cannot be dropped, because {} calls it: drop that first",
            callers.join(" and ")
        );
        return Err(Error::new(ErrorKind::Sql, message));
    }
    session.ctx.state_ref().write().deregister_udf(name)?;
    empty(session)
}

fn empty(session: &Session) -> Result<DataFrame, Error> {
    let plan = LogicalPlanBuilder::empty(false).build()?;
    Ok(DataFrame::new(session.ctx.state(), plan))
}

/// Refuses a name that cannot be given.
fn check_name(state: &SessionState, name: &str, or_replace: bool) -> Result<(), Error> {
    match state.scalar_functions().get(name) {
        Some(function) if !is_users(function) => return Err(built_in(name)),
        Some(_) if or_replace => return Ok(()),
        Some(_) => {
            let message = format!(
                "function {name} is there already: write CREATE OR REPLACE FUNCTION to change it, or \
                 DROP FUNCTION first"
            );
            return Err(Error::new(ErrorKind::Sql, message));
        }
        None if is_built_in(state, name) => return Err(built_in(name)),
        None => {}
    }
    if definitions(state).len() >= FUNCTIONS_MAX {
        let message = format!("a session has at most {FUNCTIONS_MAX} functions: drop some");
        return Err(Error::new(ErrorKind::ResourcesExhausted, message));
    }
    Ok(())
}

fn is_built_in(state: &SessionState, name: &str) -> bool {
    state.aggregate_functions().contains_key(name)
        || state.window_functions().contains_key(name)
        || state.table_functions().contains_key(name)
        || state.higher_order_functions().contains_key(name)
}

fn built_in(name: &str) -> Error {
    let message = format!("function {name} is built in: choose another name");
    Error::new(ErrorKind::Sql, message)
}

/// Returns what `CREATE FUNCTION` said of each function that it made.
fn definitions(state: &SessionState) -> BTreeMap<String, Definition> {
    let all = state.scalar_functions().values();
    all.filter_map(|function| {
        let definition = SqlFunction::of(function)?.definition();
        Some((definition.name.clone(), definition.clone()))
    })
    .collect()
}
