//! Functions that users make, and bounds on what DataFusion's make.
//!
//! [`bounded`] has functions ask for the memory of large values before they make them.
//! [`sql`] has those of `CREATE FUNCTION`, whose calls become the expression that they stand for, so
//! that they run wherever that expression would. [`custom`] has those that a program registers, with
//! a body in Rust and perhaps one for devices. [`zones`] has `timezone`, which `AT TIME ZONE` calls,
//! [`dates`] dates with a time of day, [`or_null`] the value of a subquery without rows,
//! [`intervals`] what comparisons of intervals call, [`multiples`] what `3 * INTERVAL …` calls, [`division`] what `//` is, [`len`] what `len` counts, [`bits`] those
//! of the bits of integers, [`json`] those that read JSON, [`regexes`] those that take strings apart, [`subscripts`] their subscripts, [`formatted`] those that write
//! values by a format, [`lists`] aggregates of lists, [`ordered_lists`] lists and strings of values in an order, [`mode`] the most frequent value, [`percentile`] the value below which a share of the others is, [`product`] the product, [`single`] the value of a subquery, [`times`] and [`strptime`] timestamps by a format, and [`linear`] the aggregates of linear algebra. [`with_arguments`] calls functions of DataFusion's with other arguments. [`forms`] has functions of
//! other systems that are here by another name. Functions that need nothing of a session are [`register`]ed together: [`accents`]
//! strips letters, [`ages`] counts years, months and days, [`bars`] draws, [`clock`] makes times of day, [`digits`] writes bases,
//! [`epochs`] counts since 1970, [`group_references`] replaces by patterns, [`hashes`] hashes, [`likeness`] compares strings,
//! [`nested_text`] writes lists, structs and maps, [`reduce`] makes one value of a list, [`settings`] tells settings, [`spans`] splits differences of times, and [`special`] computes gamma.

mod accents;
mod ages;
mod bars;
pub(crate) mod bits;
pub(crate) mod bounded;
mod clock;
pub(crate) mod counts;
pub(crate) mod custom;
pub(crate) mod dates;
mod digits;
pub(crate) mod division;
pub(crate) mod epochs;
pub(crate) mod folding;
pub(crate) mod formatted;
pub(crate) mod forms;
mod group_references;
mod hashes;
pub(crate) mod intervals;
pub(crate) mod json;
pub(crate) mod len;
pub(crate) mod letters;
pub(crate) mod like_pattern;
mod likeness;
pub(crate) mod linear;
pub(crate) mod lists;
pub(crate) mod macros;
pub(crate) mod moments;
pub(crate) mod multiples;
pub(crate) mod nested_text;
pub(crate) mod or_null;
pub(crate) mod ordered_lists;
pub(crate) mod percentile;
mod plain;
pub(crate) mod product;
mod reduce;
pub(crate) mod regexes;
pub(crate) mod settings;
pub(crate) mod similar_to;
pub(crate) mod single;
pub(crate) mod spans;
mod special;
pub(crate) mod sql;
mod strptime;
pub(crate) mod subscripts;
pub(crate) mod times;
mod with_arguments;
pub(crate) mod zones;

use std::sync::Arc;

use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
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
        bits::function(),
        clock::function(),
        group_references::function(&*registry)?,
        hashes::function(),
        letters::function(&*registry)?,
        nested_text::function(),
        settings::function(),
        similar_to::function(),
        spans::function(),
    ];
    let several = digits::functions().into_iter();
    let several = several.chain(likeness::functions());
    let several = several.chain(special::functions());
    let several = several.chain(epochs::functions());
    let several = several.chain(formatted::functions());
    let several = several.chain(multiples::functions());
    let several = several.chain(regexes::functions());
    for function in single.into_iter().chain(several) {
        registry.register_udf(Arc::new(function))?;
    }
    registry.register_higher_order_function(Arc::new(reduce::function()))?;
    Ok(())
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
