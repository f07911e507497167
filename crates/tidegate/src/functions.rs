//! Functions that users make, and bounds on what DataFusion's make.
//!
//! Each file says what it is about. In short:
//! - made by users: [`sql`] has the functions of `CREATE FUNCTION`, whose calls become the expression that they stand
//!   for, so that they run wherever that expression would; [`custom`] those that a program registers, with a body in
//!   Rust and perhaps one for devices; [`variables`] the values of `SET VARIABLE`.
//! - bounds: [`bounded`] has functions ask for the memory of large values before they make them.
//! - how they are made: [`plain`] of parts, where the value depends on the arguments alone; [`aggregate`] aggregates of
//!   a state; [`forwarded`] in the place of one of DataFusion's; [`operators`] behind an operator; [`with_arguments`] by
//!   calling one of DataFusion's with other arguments; [`forms`] by another name or as an expression of others.
//! - for frames whose first row moves: [`sliding`].
//! - all others: values of one kind, as dates, lists, JSON or bits, or one function.
//!
//! Functions that need nothing of a session are [`register`]ed together.

mod accents;
mod ages;
mod aggregate;
pub(crate) mod alike;
pub(crate) mod approximate;
pub(crate) mod arg_extremes;
mod bars;
pub(crate) mod beside_texts;
pub(crate) mod bits;
pub(crate) mod bounded;
mod byte_count;
pub(crate) mod cast_texts;
mod clock;
pub(crate) mod concat_values;
pub(crate) mod counts;
pub(crate) mod custom;
pub(crate) mod dates;
mod digits;
pub(crate) mod division;
mod encoded;
pub(crate) mod epochs;
pub(crate) mod folding;
pub(crate) mod formatted;
pub(crate) mod forms;
mod forwarded;
mod group_references;
pub(crate) mod hashes;
pub(crate) mod instant_minutes;
mod instant_series;
pub(crate) mod instants;
pub(crate) mod intervals;
pub(crate) mod json;
pub(crate) mod kept;
pub(crate) mod len;
pub(crate) mod letters;
pub(crate) mod like_pattern;
mod likeness;
pub(crate) mod linear;
mod list_grades;
mod list_lambdas;
pub(crate) mod listed_nulls;
pub(crate) mod lists;
pub(crate) mod macros;
pub(crate) mod map_lookups;
pub(crate) mod moments;
pub(crate) mod multiples;
mod nested_edits;
pub(crate) mod nested_extremes;
pub(crate) mod nested_order;
pub(crate) mod nested_text;
pub(crate) mod operators;
pub(crate) mod ordered_lists;
pub(crate) mod percentile;
pub(crate) mod plain;
pub(crate) mod product;
pub(crate) mod read_texts;
mod reduce;
pub(crate) mod regexes;
pub(crate) mod settings;
pub(crate) mod similar_to;
pub(crate) mod single;
pub(crate) mod sliding;
pub(crate) mod span_texts;
pub(crate) mod spans;
mod special;
mod splits;
pub(crate) mod sql;
pub(crate) mod sql_types;
mod strptime;
pub(crate) mod subscripts;
pub(crate) mod text_instants;
mod time_buckets;
pub(crate) mod time_means;
pub(crate) mod times;
mod uuids;
pub(crate) mod variables;
pub(crate) mod whole_decimals;
mod with_arguments;
pub(crate) mod zones;

use std::sync::Arc;

use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::ScalarUDF;

/// Adds the functions that need nothing of a session, some of which stand in the place of DataFusion's.
///
/// # Errors
/// Those of a registry that has not the functions of DataFusion.
pub(crate) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    let single = [
        accents::function(),
        ages::function(),
        bars::function(),
        beside_texts::coalesce(&*registry)?,
        bits::function(),
        byte_count::function(),
        clock::function(),
        division::function(),
        group_references::function(&*registry)?,
        hashes::function(),
        instant_minutes::function(),
        letters::function(&*registry)?,
        nested_order::function(),
        nested_text::function(),
        settings::function(),
        similar_to::function(),
        span_texts::function(),
        spans::function(),
        list_grades::function(),
        variables::function(),
        time_buckets::function(),
    ];
    let several = digits::functions().into_iter();
    let several = several.chain(likeness::functions());
    let several = several.chain(special::functions());
    let several = several.chain(cast_texts::functions());
    let several = several.chain(read_texts::functions());
    let several = several.chain(epochs::functions());
    let several = several.chain(formatted::functions());
    let several = several.chain(instant_series::functions(&*registry)?);
    let several = several.chain(instants::functions());
    let several = several.chain(text_instants::functions());
    let several = several.chain(whole_decimals::functions(&*registry)?);
    let several = several.chain(multiples::functions());
    let several = several.chain(listed_nulls::functions(&*registry)?);
    let several = several.chain(regexes::functions());
    let several = several.chain(uuids::functions());
    let several = several.chain(encoded::functions());
    let several = several.chain(nested_edits::functions());
    let several = several.chain(map_lookups::functions());
    let several = several.chain(splits::functions());
    for function in single.into_iter().chain(several) {
        registry.register_udf(Arc::new(function))?;
    }
    for function in list_lambdas::functions()
        .into_iter()
        .chain([reduce::function()])
    {
        registry.register_higher_order_function(Arc::new(function))?;
    }
    Ok(())
}

/// Puts table functions in the place of DataFusion's.
pub(crate) fn register_tables(state: &mut SessionState) {
    instant_series::register_tables(state);
}

/// Tells whether a user made a function.
pub(crate) fn is_users(function: &ScalarUDF) -> bool {
    sql::SqlFunction::of(function).is_some()
        || custom::RustFunction::of(function).is_some()
        || macros::Macro::of(function).is_some()
}

/// Tells whether a value of one type may be given for an argument of another without a CAST. A
/// number that the argument's type does not hold raises an error when it comes.
fn takes(argument: &DataType, given: &DataType) -> bool {
    let given = match given {
        DataType::Dictionary(_, values) => values.as_ref(),
        given => given,
    };
    argument == given
        || given.is_null()
        || (argument.is_numeric() && given.is_numeric())
        || (argument.is_string() && given.is_string())
        || (argument.is_temporal() && given.is_string())
        || (argument.is_temporal() && given.is_temporal() && can_cast_types(given, argument))
}
