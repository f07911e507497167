//! Random pipelines over random columns.
//!
//! `TIDEGATE_KERNEL_CASES` says how many there are, `TIDEGATE_KERNEL_SEED` which one is first; a
//! failure names its seed.

use arrow_schema::{DataType, TimeUnit};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tidegate_kernels::encode::Narrowing;
use tidegate_pipeline::check::cast_rule;
use tidegate_pipeline::types::{Decimal, is_float, is_string};
use tidegate_pipeline::{AggregateCall, ArithmeticOp, CastFailure, CompareOp, DatePart, Expr};

use crate::check::{Case, Facts};
use crate::data::{Shape, batch, column, cut, limits, random};
use crate::plan::{Plan, avg, count, count_of, filtered, max, min, sum, try_arithmetic};

use DataType::{
    Boolean, Date32, Decimal32, Decimal64, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64,
    UInt8, UInt32, UInt64, Utf8,
};

const CASES: u64 = 60;

fn number_of(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().unwrap())
}

fn types() -> Vec<DataType> {
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Decimal32(7, 2),
        Decimal64(12, 3),
        Decimal128(15, 2),
        Decimal128(38, 6),
        Date32,
        DataType::Timestamp(TimeUnit::Microsecond, None),
        Utf8,
    ]
}

fn shape(random: &mut StdRng) -> Shape {
    let nulls = *[0, 0, 10, 50].choose(random).unwrap();
    match random.random_range(0..4) {
        0 => Shape::all().nulls(nulls),
        1 => Shape::within(1, 9).nulls(nulls),
        2 => Shape::within(-50, 200).nulls(nulls),
        _ => Shape::within(-(1 << 33), 1 << 40).nulls(nulls),
    }
}

/// Makes random expressions over the columns of a plan.
struct Maker<'a> {
    random: &'a mut StdRng,
    plan: Plan,
}

impl Maker<'_> {
    fn chance(&mut self, one_in: u32) -> bool {
        self.random.random_ratio(1, one_in)
    }

    /// Returns an expression of a type, of at most so many levels.
    fn expr(&mut self, data_type: &DataType, depth: u32) -> Expr {
        if depth == 0 || self.chance(6) {
            return self.leaf(data_type);
        }
        for _ in 0..4 {
            if let Some(expr) = self.node(data_type, depth - 1) {
                return expr;
            }
        }
        self.leaf(data_type)
    }

    fn leaf(&mut self, data_type: &DataType) -> Expr {
        let columns: Vec<Expr> = self
            .plan
            .cols()
            .into_iter()
            .filter(|column| column.data_type == *data_type)
            .collect();
        if let Some(column) = columns.choose(self.random)
            && !self.chance(4)
        {
            return column.clone();
        }
        if !self.chance(3)
            && let Some(column) = self.plan.cols().choose(self.random)
            && !is_string(data_type)
            && let Ok(expr) = Expr::cast(column.clone(), data_type.clone(), CastFailure::Null)
        {
            return expr;
        }
        if self.chance(8) {
            return self.plan.null(data_type.clone());
        }
        if is_string(data_type) {
            let text = *["", "ab", "b", "%a%", "_b%"].choose(self.random).unwrap();
            return self.plan.text(text);
        }
        let limits = limits(data_type);
        let value = *[
            0,
            1,
            -1,
            2,
            7,
            100,
            -128,
            1 << 20,
            1 << 40,
            limits.low,
            limits.high,
        ]
        .choose(self.random)
        .unwrap();
        let value = if is_float(data_type) {
            value.clamp(-(1 << 20), 1 << 20)
        } else {
            value
        };
        self.plan
            .int(data_type.clone(), value.clamp(limits.low, limits.high))
    }

    fn boolean(&mut self, depth: u32) -> Expr {
        self.expr(&Boolean, depth)
    }

    fn any_type(&mut self) -> DataType {
        types().choose(self.random).unwrap().clone()
    }

    fn node(&mut self, data_type: &DataType, depth: u32) -> Option<Expr> {
        if is_string(data_type) {
            return None;
        }
        match self.random.random_range(0..10) {
            0 | 1 => {
                let (when, then) = (self.boolean(depth), self.expr(data_type, depth));
                let otherwise = (!self.chance(3)).then(|| self.expr(data_type, depth));
                Expr::case(vec![(when, then)], otherwise, data_type.clone()).ok()
            }
            2 | 3 => {
                let from = self.any_type();
                let on_failure = *[CastFailure::Null, CastFailure::Null, CastFailure::Raise]
                    .choose(self.random)
                    .unwrap();
                cast_rule(&from, data_type, on_failure).ok()?;
                let inner = self.expr(&from, depth);
                Expr::cast(inner, data_type.clone(), on_failure).ok()
            }
            _ if *data_type == Boolean => Some(self.condition(depth)),
            4 => Expr::negate(self.expr(data_type, depth)).ok(),
            5 if *data_type == Int32 => {
                let part = *[
                    DatePart::Year,
                    DatePart::Month,
                    DatePart::Day,
                    DatePart::Week,
                    DatePart::DayOfYear,
                    DatePart::Hour,
                ]
                .choose(self.random)
                .unwrap();
                let from = [Date32, DataType::Timestamp(TimeUnit::Microsecond, None)];
                let from = from.choose(self.random).unwrap().clone();
                let inner = self.expr(&from, depth);
                Expr::date_part(part, inner).ok()
            }
            _ => self.arithmetic(data_type, depth),
        }
    }

    fn arithmetic(&mut self, data_type: &DataType, depth: u32) -> Option<Expr> {
        use ArithmeticOp::{Add, Divide, Modulo, Multiply, Subtract};

        let op = *[Add, Add, Subtract, Multiply, Multiply, Divide, Modulo]
            .choose(self.random)
            .unwrap();
        let (left, right) = (self.expr(data_type, depth), self.expr(data_type, depth));
        let exact = try_arithmetic(op, left, right).ok()?;
        if exact.data_type == *data_type {
            return Some(exact);
        }
        // A decimal's result has another scale.
        Expr::cast(exact, data_type.clone(), CastFailure::Null).ok()
    }

    fn condition(&mut self, depth: u32) -> Expr {
        match self.random.random_range(0..8) {
            0 => Expr::and(self.boolean(depth), self.boolean(depth)).unwrap(),
            1 => Expr::or(self.boolean(depth), self.boolean(depth)).unwrap(),
            2 => Expr::not(self.boolean(depth)).unwrap(),
            3 => {
                let of = self.any_type();
                let inner = self.expr(&of, depth);
                Expr::is_null(inner).unwrap()
            }
            4 => {
                let of = self.any_type();
                let needle = self.expr(&of, depth);
                let list = (0..self.random.random_range(1..4))
                    .map(|_| self.expr(&of, depth.min(1)))
                    .collect();
                let negated = self.chance(2);
                Expr::in_list(needle, list, negated).unwrap()
            }
            5 => {
                let (text, pattern) = (self.leaf(&Utf8), self.leaf(&Utf8));
                let negated = self.chance(2);
                Expr::like(text, pattern, negated, false).unwrap()
            }
            _ => {
                let of = self.any_type();
                let op = *CompareOp::ALL.choose(self.random).unwrap();
                let (left, right) = (self.expr(&of, depth), self.expr(&of, depth));
                Expr::compare(op, left, right).unwrap()
            }
        }
    }

    fn call(&mut self) -> AggregateCall {
        let of = self.any_type();
        let argument = self.expr(&of, 2);
        let sums = matches!(of, Int64 | UInt64) || Decimal::of(&of).is_some();
        let averages =
            of.is_integer() || matches!(of, Decimal32(..) | Decimal64(..) | Decimal128(15, _));
        let extreme = !is_string(&of) && !matches!(of, Decimal128(..));
        let call = match self.random.random_range(0..6) {
            0 | 1 if sums => sum(argument),
            2 if averages => avg(argument),
            3 if extreme => min(argument),
            4 if extreme => max(argument),
            5 => count(),
            _ => count_of(argument),
        };
        if self.chance(3) {
            let filter = self.boolean(2);
            return filtered(call, filter);
        }
        call
    }
}

/// Makes the case of a seed.
fn case_of(seed: u64) -> Case {
    let mut random = random(seed);
    let rows = *[1, 40, 300, 1100, 2100].choose(&mut random).unwrap();
    let columns = (0..random.random_range(1..7))
        .map(|_| {
            let data_type = types().choose(&mut random).unwrap().clone();
            let shape = shape(&mut random);
            column(&mut random, &data_type, rows, shape)
        })
        .collect();
    let input = batch(columns);
    let sizes: Vec<usize> = (0..random.random_range(0..4))
        .map(|_| random.random_range(0..rows + 1))
        .collect();
    let mut maker = Maker {
        plan: Plan::over(&input),
        random: &mut random,
    };
    if !maker.chance(3) {
        let predicate = maker.boolean(3);
        maker.plan = maker.plan.clone().filter(predicate);
    }
    if maker.chance(2) {
        let exprs = (0..maker.random.random_range(1..4)).map(|_| {
            let of = maker.any_type();
            maker.expr(&of, 3)
        });
        let exprs: Vec<Expr> = exprs.collect();
        let mut all = maker.plan.cols();
        all.extend(exprs);
        maker.plan = maker.plan.clone().project(all);
    }
    let groups = maker.chance(2);
    let mut keys = Vec::new();
    let mut calls = Vec::new();
    if groups {
        for _ in 0..maker.random.random_range(0..3) {
            let of = maker.any_type();
            keys.push(if is_string(&of) {
                maker.leaf(&of)
            } else {
                maker.expr(&of, 1)
            });
        }
        // A literal has no column whose strings it could be a code of.
        keys.retain(|key| {
            !is_string(&key.data_type) || matches!(key.kind, tidegate_pipeline::ExprKind::Column(_))
        });
        for _ in 0..maker.random.random_range(1..5) {
            calls.push(maker.call());
        }
    }
    let kind = maker.random.random_range(0..4);
    let plan = maker.plan;
    let plan = if groups {
        plan.group(keys, calls)
    } else {
        plan
    };
    let mut case = Case::new(format!("seed {seed}"), plan.build(), cut(&input, &sizes));
    case = match kind {
        0 if groups => case.dense(),
        1 if groups => case.hash(4),
        2 if groups => case.shared(),
        _ => case,
    };
    // What is asked for is a hint where there is no key, or one of too many values.
    case.store = None;
    if seed.is_multiple_of(5) {
        case.narrowing = Narrowing::Factor;
    }
    case.facts = match seed % 4 {
        0 => vec![Facts::Declared],
        1 => vec![Facts::Rounded],
        2 => vec![Facts::Seen],
        _ => vec![Facts::LookedUp],
    };
    case
}

/// Returns the cases of the default seeds.
pub(crate) fn cases() -> Vec<Case> {
    (0..CASES).map(case_of).collect()
}

/// Checks every fourth seed, so that the tests below run side by side.
fn check(first: u64) {
    let begin = number_of("TIDEGATE_KERNEL_SEED", 0);
    let end = begin + number_of("TIDEGATE_KERNEL_CASES", CASES);
    for seed in (begin..end).filter(|seed| seed % 4 == first) {
        case_of(seed).check();
    }
}

#[test]
fn from_types() {
    check(0);
}

#[test]
fn from_rounded_ranges() {
    check(1);
}

#[test]
fn from_ranges() {
    check(2);
}

#[test]
fn with_lookups() {
    check(3);
}
