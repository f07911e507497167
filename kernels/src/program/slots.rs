//! What a program reads on the device.
//!
//! A device sees no strings. A column of strings becomes one of codes into a dictionary, and every
//! expression over strings that gives something else (a comparison, LIKE, IN, IS NULL) is evaluated
//! on the host as the chunk is made, by the reference interpreter, once per distinct string where
//! there is one column; its value is then an input like any other. Such an input is a [`Slot`].

use arrow_schema::DataType;
use tidegate_pipeline::types::is_string;
use tidegate_pipeline::{ArithmeticOp, CastFailure, Expr, ExprKind, Interval};

/// One input of a device program, as an expression over the pipeline's input columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// A column, or what the host makes of string columns.
    pub expr: Expr,
    /// How the device holds its values.
    pub kind: SlotKind,
}

/// How the device holds the values of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// Integers, decimals, dates, times and booleans.
    Integer,
    /// `Float32`.
    Float32,
    /// `Float64`.
    Float64,
    /// Codes into a dictionary of strings.
    Code,
}

/// What is known of a slot's values over all chunks that a kernel will read.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotFacts {
    /// Where integers and codes lie.
    pub range: Interval,
    /// No float is farther from zero; infinite if one may be infinite or NaN.
    pub float_bound: f64,
    /// No float is nearer to zero: 0 if one may be.
    pub float_least: f64,
    /// Whether some value may be NULL.
    pub nullable: bool,
    /// The widths in bytes of the chunks' raw values, ascending, 0 for constants.
    pub widths: Vec<u32>,
    /// Whether some chunk's factor is not 1.
    pub scaled: bool,
    /// What divides the distances between integers, the least of the range among them; 0 if there is
    /// but one.
    pub step: u64,
    /// The chunks hold codes, and the slot's value is looked up by them.
    pub lookup: Option<Lookup>,
}

/// What is known of the values that an expression has for each string of a dictionary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lookup {
    /// Where integers and codes lie.
    pub range: Interval,
    /// Whether some value is NULL.
    pub nullable: bool,
}

impl SlotFacts {
    /// Returns what holds for a slot of this type of which no value has been seen.
    pub fn declared(data_type: &DataType, nullable: bool) -> Self {
        let range = match data_type {
            string if is_string(string) => Interval::new(0, i128::from(u32::MAX - 1)),
            // A value may be beyond its precision; then the chunk's own range says so.
            DataType::Decimal128(precision, _) => {
                let most = 10_i128.pow(u32::from(*precision).min(38)) - 1;
                Interval::new(-most, most)
            }
            other => Interval::of_type(other).unwrap_or(Interval::ALL),
        };
        let is_float = data_type.is_floating();
        // Only a chunk with a value beyond 64 bits is 16 bytes wide.
        let wide = matches!(data_type, DataType::Decimal128(_, _))
            && !range.is_within(Interval::signed(64));
        let widths = match (is_float, wide) {
            (true, _) if *data_type == DataType::Float32 => vec![4],
            (true, _) => vec![8],
            (false, true) => vec![0, 1, 2, 4, 8, 16],
            (false, false) => vec![0, 1, 2, 4, 8],
        };
        Self {
            range,
            float_bound: f64::INFINITY,
            float_least: 0.0,
            nullable,
            widths,
            scaled: !is_float,
            step: 1,
            lookup: None,
        }
    }

    /// Returns what holds for the chunks of both.
    pub fn join(&self, other: &Self) -> Self {
        let mut widths = self.widths.clone();
        widths.extend(&other.widths);
        widths.sort_unstable();
        widths.dedup();
        Self {
            range: self.range.hull(other.range),
            float_bound: self.float_bound.max(other.float_bound),
            float_least: self.float_least.min(other.float_least),
            nullable: self.nullable || other.nullable,
            widths,
            scaled: self.scaled || other.scaled,
            step: joint_step(self, other),
            lookup: self.lookup,
        }
    }

    /// Widens the range, so that it has to grow less often; what divides distances is then unknown.
    pub fn round(&mut self, limit: Interval) {
        self.range = self.range.rounded(limit);
        self.step = 1;
    }
}

/// Returns what divides the distances between the values of both.
fn joint_step(one: &SlotFacts, other: &SlotFacts) -> u64 {
    let between = one.range.low.abs_diff(other.range.low);
    let (mut a, mut b) = (between, u128::from(one.step));
    for next in [u128::from(other.step), 0] {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        b = next;
    }
    // More than 64 bits only where both have one value.
    u64::try_from(a).unwrap_or(1)
}

/// Returns how the device holds values of a type.
///
/// # Errors
/// Why it does not.
pub fn slot_kind(data_type: &DataType) -> Result<SlotKind, String> {
    match data_type {
        DataType::Float32 => Ok(SlotKind::Float32),
        DataType::Float64 => Ok(SlotKind::Float64),
        string if is_string(string) => Ok(SlotKind::Code),
        other if Interval::of_type(other).is_some() => Ok(SlotKind::Integer),
        other => Err(format!("a column of {other} has no device form")),
    }
}

/// Returns whether the node is computed from strings directly, so that the host evaluates it.
pub(crate) fn reads_strings(expr: &Expr) -> bool {
    expr.children()
        .iter()
        .any(|child| is_string(&child.data_type))
}

/// The most nodes of an expression that the host evaluates.
const HOST_NODES_MAX: usize = 256;

/// Returns the expression with the columns of a step replaced by what they are over the pipeline's
/// input, or why the host cannot evaluate it.
pub(crate) fn over_input(expr: &Expr, columns: &[Option<Expr>]) -> Result<Expr, String> {
    let mut nodes = 0;
    let replaced = replace(expr, columns, &mut nodes)?;
    Ok(replaced)
}

fn replace(expr: &Expr, columns: &[Option<Expr>], nodes: &mut usize) -> Result<Expr, String> {
    *nodes += 1;
    if *nodes > HOST_NODES_MAX {
        return Err(format!(
            "an expression over strings of more than {HOST_NODES_MAX} nodes"
        ));
    }
    if let ExprKind::Column(index) = expr.kind {
        return match columns.get(index) {
            Some(Some(input)) => {
                *nodes += count_nodes(input);
                Ok(input.clone())
            }
            _ => Err("an expression over strings and a computed column that is too large".into()),
        };
    }
    if may_raise(expr) {
        return Err("an expression over strings that can raise".into());
    }
    let mut copy = expr.clone();
    for child in copy.children_mut() {
        *child = replace(child, columns, nodes)?;
    }
    Ok(copy)
}

pub(crate) fn count_nodes(expr: &Expr) -> usize {
    1 + expr.children().into_iter().map(count_nodes).sum::<usize>()
}

/// Returns whether the node itself can raise for some values of its operands.
pub(crate) fn may_raise(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Arithmetic { op, left, .. } => {
            let divides = matches!(op, ArithmeticOp::Divide | ArithmeticOp::Modulo);
            !left.data_type.is_floating() && (divides || !left.data_type.is_integer())
        }
        ExprKind::Negate(inner) => !inner.data_type.is_floating() && !inner.data_type.is_integer(),
        ExprKind::Cast {
            on_failure,
            expr: from,
        } => {
            // A timestamp's day raises even under TRY_CAST.
            let always = matches!(from.data_type, DataType::Timestamp(_, _))
                && expr.data_type == DataType::Date32;
            (always || *on_failure == CastFailure::Raise) && !is_string(&from.data_type)
        }
        ExprKind::Call { .. } => tidegate_pipeline::program::may_raise(expr),
        // Its host body can; and a body, which may loop, is run for nothing but what it is asked for.
        ExprKind::Custom { .. } => true,
        _ => false,
    }
}
