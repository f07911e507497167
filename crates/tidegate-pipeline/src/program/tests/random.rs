//! Random pipelines over random columns. `TIDEGATE_PROGRAM_CASES` says how many there are; a failure shows
//! the pipeline and its programs.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::catalogue::arithmetic_type;
use crate::check::cast_rule;
use crate::expr::{ArithmeticOp, CastFailure, CompareOp, DatePart, Expr};
use crate::pipeline::{
    AggregateCall, AggregateFunction, AggregateOutput, Pipeline, Sort, SortKey, Step,
};
use crate::scalar::Scalar;
use crate::tests::building::{call, col, group_by, named, pipeline};
use crate::tests::random::{Random, Shape, hold_rows, random_batch, scalar, value};
use crate::types::{Decimal, is_string};

use DataType::{
    Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Float32, Float64, Int8, Int16,
    Int32, Int64, UInt8, UInt32, UInt64, Utf8,
};

const CASES: u64 = 400;

const MICROSECONDS: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

fn types() -> Vec<DataType> {
    let dictionary = DataType::Dictionary(Box::new(Int32), Box::new(Utf8));
    vec![
        Boolean,
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
        Date64,
        MICROSECONDS,
        DataType::Duration(TimeUnit::Second),
        SPAN,
        Utf8,
        dictionary,
    ]
}

/// Makes random expressions over columns.
struct Maker<'a> {
    random: &'a mut Random,
    columns: Vec<DataType>,
    parameters: Vec<Scalar>,
    shape: Shape,
}

impl Maker<'_> {
    fn any_type(&mut self) -> DataType {
        self.random.of(&types()).clone()
    }

    fn any_column(&mut self) -> Expr {
        let index = self.random.below(self.columns.len() as u64) as usize;
        col(index, &self.columns[index])
    }

    /// Returns an expression of a type, of at most so many levels.
    fn expr(&mut self, data_type: &DataType, depth: u32) -> Expr {
        if depth > 0 && !self.random.one_in(6) {
            for _ in 0..3 {
                if let Some(expr) = self.node(data_type, depth - 1) {
                    return expr;
                }
            }
        }
        self.leaf(data_type)
    }

    fn leaf(&mut self, data_type: &DataType) -> Expr {
        let matching = self.columns.iter().enumerate();
        let matching = matching.filter(|(_, of)| *of == data_type);
        let places: Vec<usize> = matching.map(|(index, _)| index).collect();
        if !places.is_empty() && !self.random.one_in(4) {
            return col(*self.random.of(&places), data_type);
        }
        let column = self.any_column();
        let cast = Expr::cast(column, data_type.clone(), CastFailure::Null);
        if let Ok(cast) = cast
            && !self.random.one_in(3)
        {
            return cast;
        }
        let is_there = !self.random.one_in(8);
        let literal = is_there.then(|| value(self.random, data_type, self.shape));
        self.parameters.push(scalar(literal, data_type));
        Expr::parameter(self.parameters.len() - 1, data_type.clone()).unwrap()
    }

    fn node(&mut self, data_type: &DataType, depth: u32) -> Option<Expr> {
        match self.random.below(11) {
            0 | 1 => {
                let branches = (0..1 + self.random.below(2)).map(|_| {
                    let when = self.expr(&Boolean, depth);
                    (when, self.expr(data_type, depth))
                });
                let branches = branches.collect();
                let otherwise = (!self.random.one_in(3)).then(|| self.expr(data_type, depth));
                Expr::case(branches, otherwise, data_type.clone()).ok()
            }
            2 | 3 => {
                let from = self.any_type();
                let kinds = [CastFailure::Null, CastFailure::Null, CastFailure::Raise];
                let on_failure = *self.random.of(&kinds);
                cast_rule(&from, data_type, on_failure).ok()?;
                let inner = self.expr(&from, depth);
                Expr::cast(inner, data_type.clone(), on_failure).ok()
            }
            4 if is_string(data_type) => {
                let text = self.expr(&Utf8, depth);
                let (start, length) = (self.random.below(5) as i64 - 1, self.random.below(4));
                let length = (length < 3).then_some(length as i64);
                Expr::substring(text, start, length, data_type.clone()).ok()
            }
            _ if *data_type == Boolean => Some(self.condition(depth)),
            4 | 5 => Expr::negate(self.expr(data_type, depth)).ok(),
            6 if matches!(data_type, Int32 | Float64) => {
                let parts = [
                    DatePart::Year,
                    DatePart::Quarter,
                    DatePart::Month,
                    DatePart::Week,
                    DatePart::DayOfYear,
                    DatePart::Hour,
                    DatePart::Second,
                ];
                let part = match data_type {
                    Float64 => DatePart::Epoch,
                    _ => *self.random.of(&parts),
                };
                let from = self.random.of(&[Date32, Date64, MICROSECONDS]).clone();
                Expr::date_part(part, self.expr(&from, depth)).ok()
            }
            7 if matches!(data_type, Date32 | Date64 | DataType::Timestamp(..)) => {
                let (moved, by) = (self.expr(data_type, depth), self.expr(&SPAN, depth));
                let op = *self.random.of(&[ArithmeticOp::Add, ArithmeticOp::Subtract]);
                Expr::arithmetic(op, moved, by, data_type.clone()).ok()
            }
            _ => self.arithmetic(data_type, depth),
        }
    }

    fn arithmetic(&mut self, data_type: &DataType, depth: u32) -> Option<Expr> {
        use ArithmeticOp::{Add, Divide, Modulo, Multiply, Subtract};

        let op = *self
            .random
            .of(&[Add, Add, Subtract, Multiply, Multiply, Divide, Modulo]);
        let result = arithmetic_type(op, data_type, data_type).ok()?;
        let (left, right) = (self.expr(data_type, depth), self.expr(data_type, depth));
        let exact = Expr::arithmetic(op, left, right, result.clone()).ok()?;
        match result == *data_type {
            true => Some(exact),
            // A decimal's result has another scale.
            false => Expr::cast(exact, data_type.clone(), CastFailure::Null).ok(),
        }
    }

    fn condition(&mut self, depth: u32) -> Expr {
        let of = self.any_type();
        match self.random.below(9) {
            0 => Expr::and(self.expr(&Boolean, depth), self.expr(&Boolean, depth)),
            1 => Expr::or(self.expr(&Boolean, depth), self.expr(&Boolean, depth)),
            2 => Expr::not(self.expr(&Boolean, depth)),
            3 => Expr::is_null(self.expr(&of, depth)),
            4 => Expr::is_not_null(self.expr(&of, depth)),
            5 => {
                let needle = self.expr(&of, depth);
                let items = 1 + self.random.below(3);
                let list = (0..items).map(|_| self.expr(&of, depth.min(1))).collect();
                Expr::in_list(needle, list, self.random.one_in(2))
            }
            6 => {
                let (text, pattern) = (self.expr(&Utf8, depth), self.expr(&Utf8, depth.min(1)));
                Expr::like(text, pattern, self.random.one_in(2), self.random.one_in(2))
            }
            _ => {
                let op = *self.random.of(&CompareOp::ALL);
                let (left, right) = (self.expr(&of, depth), self.expr(&of, depth));
                Expr::compare(op, left, right)
            }
        }
        .unwrap()
    }

    fn call(&mut self) -> AggregateCall {
        use AggregateFunction::{Count, Max, Min, StddevSamp, Sum, VarPop};

        let of = self.any_type();
        let argument = self.expr(&of, 2);
        let function = *self
            .random
            .of(&[Count, Count, Min, Max, Sum, VarPop, StddevSamp]);
        let plain = match (function, Decimal::of(&of)) {
            (Min | Max, _) => {
                let value = if is_string(&of) { Utf8 } else { of };
                call(function, Some(argument), value.clone(), &[value])
            }
            (Sum, Some(decimal)) => {
                let most = decimal.width.max_precision();
                let sum = Decimal {
                    precision: (decimal.precision + 10).min(most),
                    ..decimal
                };
                let sum = sum.data_type();
                call(Sum, Some(argument), sum.clone(), &[sum])
            }
            (Sum, None) if matches!(of, Int64 | UInt64 | DataType::Duration(_)) => {
                call(Sum, Some(argument), of.clone(), &[of])
            }
            (VarPop | StddevSamp, _) if of == Float64 => {
                let state = [UInt64, Float64, Float64];
                call(function, Some(argument), Float64, &state)
            }
            _ if self.random.one_in(3) => call(Count, None, Int64, &[Int64]),
            _ => call(Count, Some(argument), Int64, &[Int64]),
        };
        let filter = self.random.one_in(3).then(|| self.expr(&Boolean, 2));
        AggregateCall {
            filter,
            ..plain.unwrap()
        }
    }
}

fn steps(maker: &mut Maker<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    if !maker.random.one_in(3) {
        steps.push(Step::Filter(maker.expr(&Boolean, 3)));
    }
    if maker.random.one_in(2) {
        let kept = maker.columns.clone();
        let mut columns: Vec<Expr> = kept
            .iter()
            .enumerate()
            .map(|(at, of)| col(at, of))
            .collect();
        for _ in 0..1 + maker.random.below(3) {
            let of = maker.any_type();
            columns.push(maker.expr(&of, 3));
        }
        maker.columns = columns.iter().map(|expr| expr.data_type.clone()).collect();
        let columns = columns.into_iter().enumerate();
        let named = columns.map(|(at, expr)| named(expr, &format!("p{at}")));
        steps.push(Step::Project(named.collect()));
        if maker.random.one_in(3) {
            steps.push(Step::Filter(maker.expr(&Boolean, 2)));
        }
    }
    match maker.random.below(4) {
        0 | 1 => {
            let keys = (0..maker.random.below(3)).map(|at| {
                let of = maker.any_type();
                named(maker.expr(&of, 1), &format!("k{at}"))
            });
            let keys = keys.collect();
            let calls = (0..1 + maker.random.below(4))
                .map(|_| maker.call())
                .collect();
            let outputs = [AggregateOutput::Value, AggregateOutput::State];
            steps.push(group_by(keys, calls, *maker.random.of(&outputs)));
        }
        2 => {
            let keys = (0..1 + maker.random.below(2)).map(|_| {
                let of = maker.any_type();
                SortKey {
                    expr: maker.expr(&of, 2),
                    descending: maker.random.one_in(2),
                    nulls_first: maker.random.one_in(2),
                }
            });
            let keys = keys.collect();
            let fetch = maker.random.one_in(2).then_some(20);
            steps.push(Step::Sort(Sort { keys, fetch }));
        }
        // Rows leave as they are.
        _ => return steps,
    }
    steps
}

/// Holds the pipeline of a seed against the reference.
fn check(seed: u64) {
    let random = &mut Random(seed);
    let rows = *random.of(&[1, 40, 120]);
    let shape = *random.of(&[Shape::ALL, Shape::SMALL, Shape::AROUND]);
    let columns: Vec<DataType> = (0..1 + random.below(6))
        .map(|_| random.of(&types()).clone())
        .collect();
    let batch = random_batch(random, &columns, rows, shape);
    let mut maker = Maker {
        random,
        columns,
        parameters: Vec::new(),
        shape,
    };
    let steps = steps(&mut maker);
    let pipeline: Pipeline = pipeline(&batch.schema(), maker.parameters, steps);
    pipeline.validate().unwrap();
    hold_rows(&pipeline, &batch);
}

#[test]
fn programs_of_random_pipelines() {
    let cases = std::env::var("TIDEGATE_PROGRAM_CASES");
    let cases = cases.map_or(CASES, |cases| cases.parse().unwrap());
    for seed in 0..cases {
        check(seed);
    }
}
