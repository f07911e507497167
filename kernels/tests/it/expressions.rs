//! Every kind of expression over every family of types, many in one projection.
//!
//! Operands are full of NULLs and of extremes; where an operation raises for some of them, it stands
//! behind a condition that keeps those away. The rows that raise are the topic of `errors`.

use arrow_schema::{DataType, TimeUnit};
use tidegate_pipeline::{ArithmeticOp, CompareOp, Expr, ScalarValue};

use crate::check::{Case, check_all};
use crate::data::{Shape, batch, column, cut, integers, random};
use crate::plan::{Plan, add, arithmetic, cast, compare, count, divide, sum, try_arithmetic};
use crate::reference::interpret;

use ArithmeticOp::{Add, Divide, Modulo, Multiply, Subtract};
use DataType::{
    Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Float32, Float64, Int8, Int16,
    Int32, Int64, UInt8, UInt16, UInt32, UInt64, Utf8,
};

pub(crate) const ROWS: usize = 400;
const INTEGERS: [DataType; 8] = [Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64];

/// Returns a condition that is TRUE where the expression does not raise for the row alone.
///
/// Each row is tried by itself, and the answers become a column.
fn where_it_does_not_raise(
    input: &arrow_array::RecordBatch,
    plan: &Plan,
    expr: &Expr,
) -> Vec<Option<i128>> {
    (0..input.num_rows())
        .map(|row| {
            let one = input.slice(row, 1);
            let pipeline = plan.clone().project(vec![expr.clone()]).build();
            Some(i128::from(interpret(&pipeline, &[one]).is_ok()))
        })
        .collect()
}

/// Makes a case of expressions that may raise: each is evaluated only where it does not.
pub(crate) fn guarded(
    name: String,
    columns: Vec<arrow_array::ArrayRef>,
    exprs: impl Fn(&mut Plan) -> Vec<Expr>,
) -> Case {
    let input = batch(columns.clone());
    let mut plan = Plan::over(&input);
    let wanted = exprs(&mut plan);
    let mut columns = columns;
    let conditions: Vec<Option<usize>> = wanted
        .iter()
        .map(|expr| {
            let safe = where_it_does_not_raise(&input, &plan, expr);
            safe.contains(&Some(0)).then(|| {
                columns.push(integers(&Boolean, &safe));
                columns.len() - 1
            })
        })
        .collect();
    let input = batch(columns);
    let mut plan = Plan::over(&input);
    let outputs = exprs(&mut plan)
        .into_iter()
        .zip(conditions)
        .map(|(expr, condition)| {
            let Some(condition) = condition else {
                return expr;
            };
            let data_type = expr.data_type.clone();
            Expr::case(vec![(plan.col(condition), expr)], None, data_type).unwrap()
        })
        .collect();
    Case::new(
        name,
        plan.project(outputs).build(),
        cut(&input, &[130, 1, 200]),
    )
}

/// `+ - * / %` and negation on integers.
pub(crate) fn on_integers() -> Vec<Case> {
    let mut random = random(21);
    let mut cases = Vec::new();
    for data_type in INTEGERS {
        let columns = vec![
            column(&mut random, &data_type, ROWS, Shape::all()),
            column(&mut random, &data_type, ROWS, Shape::all()),
            column(&mut random, &data_type, ROWS, Shape::within(1, 9)),
        ];
        let exprs = |plan: &mut Plan| {
            let (a, b, c) = (plan.col(0), plan.col(1), plan.col(2));
            let three = plan.int(data_type.clone(), 3);
            let mut exprs: Vec<Expr> = [Add, Subtract, Multiply, Divide, Modulo]
                .into_iter()
                .flat_map(|op| {
                    [
                        arithmetic(op, a.clone(), b.clone()),
                        arithmetic(op, b.clone(), c.clone()),
                        arithmetic(op, a.clone(), three.clone()),
                        arithmetic(op, three.clone(), c.clone()),
                    ]
                })
                .collect();
            if data_type.is_signed_integer() {
                exprs.push(Expr::negate(a.clone()).unwrap());
            }
            exprs.push(arithmetic(
                Multiply,
                add(a.clone(), b),
                arithmetic(Subtract, c, a),
            ));
            exprs
        };
        cases.push(guarded(format!("arithmetic on {data_type}"), columns, exprs).declared());
    }
    cases
}

/// The same on decimals of every width, with scales that differ.
pub(crate) fn on_decimals() -> Vec<Case> {
    let mut random = random(22);
    let mut cases = Vec::new();
    let pairs = [
        (Decimal32(5, 2), Decimal32(4, 0)),
        (Decimal32(9, 0), Decimal32(9, 3)),
        (Decimal64(10, 2), Decimal64(10, 2)),
        (Decimal64(18, 3), Decimal64(6, 5)),
        (Decimal128(15, 2), Decimal128(15, 2)),
        (Decimal128(38, 2), Decimal128(20, 6)),
        (Decimal128(38, 0), Decimal128(38, 0)),
    ];
    for (left, right) in pairs {
        let columns = vec![
            column(&mut random, &left, ROWS, Shape::all()),
            column(&mut random, &right, ROWS, Shape::all()),
            column(&mut random, &left, ROWS, Shape::within(1, 999)),
        ];
        let exprs = |plan: &mut Plan| {
            let (a, b, c) = (plan.col(0), plan.col(1), plan.col(2));
            let mut exprs: Vec<Expr> = [Add, Subtract, Multiply, Divide, Modulo]
                .into_iter()
                .flat_map(|op| {
                    [
                        try_arithmetic(op, a.clone(), b.clone()),
                        try_arithmetic(op, b.clone(), c.clone()),
                        try_arithmetic(op, c.clone(), c.clone()),
                    ]
                })
                .flatten()
                .collect();
            exprs.push(Expr::negate(a).unwrap());
            exprs
        };
        cases.push(guarded(format!("arithmetic on {left} and {right}"), columns, exprs).declared());
    }
    // The least values of the integers beneath, which no precision allows.
    for (data_type, low) in [
        (Decimal32(9, 0), i128::from(i32::MIN)),
        (Decimal64(18, 0), i128::from(i64::MIN)),
        (Decimal128(38, 0), i128::MIN),
    ] {
        let least: Vec<Option<i128>> = (0..64)
            .map(|row| Some(if row % 3 == 0 { low } else { 7 - row }))
            .collect();
        let ones: Vec<Option<i128>> = (0..64)
            .map(|row| Some(if row % 2 == 0 { -1 } else { row % 5 }))
            .collect();
        let columns = vec![integers(&data_type, &least), integers(&data_type, &ones)];
        let exprs = |plan: &mut Plan| {
            let (a, b) = (plan.col(0), plan.col(1));
            let mut exprs: Vec<Expr> = [Add, Subtract, Multiply, Modulo]
                .into_iter()
                .map(|op| arithmetic(op, a.clone(), b.clone()))
                .collect();
            exprs.extend(try_arithmetic(Divide, a.clone(), b));
            exprs.push(Expr::negate(a).unwrap());
            exprs
        };
        cases.push(guarded(format!("the least {data_type}"), columns, exprs));
    }
    cases
}

/// The same on floats, with infinities, NaNs and zeros of both signs.
pub(crate) fn on_floats() -> Vec<Case> {
    let mut random = random(23);
    let mut cases = Vec::new();
    for data_type in [Float32, Float64] {
        let input = batch(vec![
            column(&mut random, &data_type, ROWS, Shape::all()),
            column(&mut random, &data_type, ROWS, Shape::all()),
        ]);
        let mut plan = Plan::over(&input);
        let (a, b, half) = (
            plan.col(0),
            plan.col(1),
            plan.literal(data_type.clone(), ScalarValue::Float(0.5)),
        );
        let mut exprs: Vec<Expr> = [Add, Subtract, Multiply, Divide, Modulo]
            .into_iter()
            .flat_map(|op| {
                [
                    arithmetic(op, a.clone(), b.clone()),
                    arithmetic(op, a.clone(), half.clone()),
                ]
            })
            .collect();
        exprs.push(Expr::negate(a.clone()).unwrap());
        exprs.push(add(arithmetic(Multiply, a.clone(), b.clone()), half));
        cases.push(Case::new(
            format!("arithmetic on {data_type}"),
            plan.project(exprs).build(),
            cut(&input, &[130, 1]),
        ));
    }
    cases
}

/// Comparisons, IN, CASE and IS NULL over every type.
pub(crate) fn comparisons() -> Vec<Case> {
    let mut random = random(24);
    let mut cases = Vec::new();
    let types = [
        Boolean,
        Int8,
        UInt8,
        Int64,
        UInt64,
        Float32,
        Float64,
        Date32,
        Decimal32(5, 2),
        Decimal128(15, 2),
        Decimal128(38, 0),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Time64(TimeUnit::Nanosecond),
        Utf8,
    ];
    for data_type in types {
        let input = batch(vec![
            column(&mut random, &data_type, ROWS, Shape::all()),
            column(&mut random, &data_type, ROWS, Shape::all()),
            column(&mut random, &data_type, ROWS, Shape::within(0, 1)),
        ]);
        let mut plan = Plan::over(&input);
        let (a, b, c) = (plan.col(0), plan.col(1), plan.col(2));
        let literal = match data_type {
            Utf8 => plan.text("ab"),
            _ => plan.int(data_type.clone(), 1),
        };
        let zero = match data_type {
            Utf8 => plan.text(""),
            ref float if float.is_floating() => {
                plan.literal(data_type.clone(), ScalarValue::Float(-0.0))
            }
            _ => plan.int(data_type.clone(), 0),
        };
        let null = plan.null(data_type.clone());
        let mut exprs = Vec::new();
        for op in CompareOp::ALL {
            exprs.push(compare(op, a.clone(), b.clone()));
            exprs.push(compare(op, b.clone(), literal.clone()));
            exprs.push(compare(op, zero.clone(), c.clone()));
            exprs.push(compare(op, a.clone(), null.clone()));
        }
        for negated in [false, true] {
            let within = |list: Vec<Expr>| Expr::in_list(a.clone(), list, negated).unwrap();
            exprs.push(within(vec![literal.clone(), zero.clone()]));
            exprs.push(within(vec![literal.clone(), null.clone()]));
            exprs.push(within(vec![b.clone(), c.clone()]));
            exprs.push(
                Expr::in_list(c.clone(), vec![zero.clone(), literal.clone()], negated).unwrap(),
            );
        }
        exprs.push(Expr::is_null(a.clone()).unwrap());
        exprs.push(Expr::is_not_null(b.clone()).unwrap());
        exprs.push(Expr::is_null(c.clone()).unwrap());
        if data_type != Utf8 {
            let less = compare(CompareOp::Lt, a.clone(), b.clone());
            let same = compare(CompareOp::Eq, b.clone(), c.clone());
            let case = |branches: Vec<(Expr, Expr)>, otherwise: Option<Expr>| {
                Expr::case(branches, otherwise, data_type.clone()).unwrap()
            };
            exprs.push(case(
                vec![(less.clone(), a.clone()), (same.clone(), c.clone())],
                Some(b.clone()),
            ));
            exprs.push(case(vec![(less.clone(), literal.clone())], None));
            exprs.push(case(
                vec![(same, null.clone()), (less, c.clone())],
                Some(zero),
            ));
            exprs.push(case(vec![(Expr::is_null(a.clone()).unwrap(), b)], Some(a)));
        }
        let case = Case::new(
            format!("comparisons of {data_type}"),
            plan.project(exprs).build(),
            cut(&input, &[130, 1]),
        );
        cases.push(if data_type == Utf8 {
            case
        } else {
            case.declared()
        });
    }
    cases
}

/// AND, OR and NOT, as outputs and as filters.
pub(crate) fn three_valued_logic() -> Vec<Case> {
    let values = |step: usize| -> Vec<Option<i128>> {
        (0..81)
            .map(|row| match row / step % 3 {
                0 => Some(0),
                1 => Some(1),
                _ => None,
            })
            .collect()
    };
    let input = batch(vec![
        integers(&Boolean, &values(1)),
        integers(&Boolean, &values(3)),
        integers(&Boolean, &values(9)),
        integers(&Boolean, &vec![Some(1); 81]),
    ]);
    let and = |left: Expr, right: Expr| Expr::and(left, right).unwrap();
    let or = |left: Expr, right: Expr| Expr::or(left, right).unwrap();
    let not = |inner: Expr| Expr::not(inner).unwrap();
    let exprs = |plan: &mut Plan| {
        let (a, b, c, d) = (plan.col(0), plan.col(1), plan.col(2), plan.col(3));
        let (null, yes) = (plan.null(Boolean), plan.int(Boolean, 1));
        vec![
            and(a.clone(), b.clone()),
            or(a.clone(), b.clone()),
            not(a.clone()),
            not(and(a.clone(), not(b.clone()))),
            or(and(a.clone(), b.clone()), not(c.clone())),
            and(or(a.clone(), c.clone()), b.clone()),
            and(d.clone(), a.clone()),
            or(d, b.clone()),
            and(a.clone(), null.clone()),
            or(null.clone(), b),
            and(yes.clone(), c.clone()),
            or(c, yes),
            not(null),
            a,
        ]
    };
    let mut plan = Plan::over(&input);
    let all = exprs(&mut plan);
    let mut cases = vec![
        Case::new(
            "logic",
            plan.project(all.clone()).build(),
            vec![input.clone()],
        )
        .declared(),
    ];
    for index in 0..all.len() {
        let mut plan = Plan::over(&input);
        let predicate = exprs(&mut plan).swap_remove(index);
        let plan = plan.filter(predicate).group(vec![], vec![count()]);
        cases.push(Case::new(
            format!("filter {index}"),
            plan.build(),
            vec![input.clone()],
        ));
    }
    cases
}

/// Differences of dates and times, and durations.
pub(crate) fn on_times() -> Vec<Case> {
    let mut random = random(27);
    let duration = DataType::Duration(TimeUnit::Millisecond);
    let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
    let small = |low: i64, high: i64| Shape::within(low.into(), high.into()).nulls(10);
    let columns = vec![
        column(&mut random, &Date32, ROWS, Shape::all()),
        column(&mut random, &Date32, ROWS, small(8000, 9000)),
        column(&mut random, &Date64, ROWS, small(-1 << 50, 1 << 50)),
        column(&mut random, &Date64, ROWS, small(0, 1 << 40)),
        column(&mut random, &timestamp, ROWS, Shape::all()),
        column(&mut random, &duration, ROWS, Shape::all()),
    ];
    let exprs = |plan: &mut Plan| {
        let cols = plan.cols();
        let of = |op: ArithmeticOp, left: usize, right: usize| {
            arithmetic(op, cols[left].clone(), cols[right].clone())
        };
        vec![
            of(Subtract, 0, 1),
            of(Subtract, 1, 0),
            of(Subtract, 2, 3),
            of(Subtract, 4, 4),
            of(Add, 4, 5),
            of(Subtract, 4, 5),
            of(Add, 5, 4),
            of(Add, 5, 5),
            of(Subtract, 5, 5),
            Expr::negate(cols[5].clone()).unwrap(),
        ]
    };
    vec![guarded("times".to_owned(), columns, exprs)]
}

/// What the host makes of strings.
pub(crate) fn strings() -> Vec<Case> {
    let mut random = random(28);
    let dictionary = DataType::Dictionary(Box::new(Int32), Box::new(Utf8));
    let mut cases = Vec::new();
    for data_type in [Utf8, DataType::LargeUtf8, DataType::Utf8View, dictionary] {
        let input = batch(vec![
            column(&mut random, &data_type, ROWS, Shape::all()),
            column(&mut random, &data_type, ROWS, Shape::all()),
            column(&mut random, &Int64, ROWS, Shape::all()),
        ]);
        let mut plan = Plan::over(&input);
        let (a, b, number) = (plan.col(0), plan.col(1), plan.col(2));
        let pattern = plan.text("%b%");
        let word = plan.text("ab");
        let like = |negated| Expr::like(a.clone(), pattern.clone(), negated, false).unwrap();
        let start = Expr::substring(a.clone(), 1, Some(1), Utf8).unwrap();
        let exprs = vec![
            like(false),
            like(true),
            compare(CompareOp::Lt, a.clone(), b.clone()),
            compare(CompareOp::Eq, start.clone(), word.clone()),
            Expr::in_list(a.clone(), vec![word.clone(), b.clone()], false).unwrap(),
            Expr::is_null(a.clone()).unwrap(),
            Expr::case(vec![(like(false), number.clone())], None, Int64).unwrap(),
            a.clone(),
            start,
            b.clone(),
        ];
        let filter = Expr::or(like(false), compare(CompareOp::NotEq, a, word)).unwrap();
        let project = Plan::project(plan, exprs);
        cases.push(
            Case::new(
                format!("strings of {data_type}"),
                project.build(),
                cut(&input, &[130, 1]),
            )
            .looked_up(),
        );
        let mut plan = Plan::over(&input);
        for text in ["%b%", "ab"] {
            plan.text(text);
        }
        let plan = plan.filter(filter);
        let (key, value) = (plan.col(1), plan.col(2));
        let initial = Expr::substring(plan.col(0), 1, Some(1), Utf8).unwrap();
        let plan = plan.group(vec![initial, key], vec![count(), sum(value)]);
        cases.push(
            Case::new(
                format!("groups by {data_type}"),
                plan.build(),
                cut(&input, &[130, 1]),
            )
            .looked_up(),
        );
    }
    cases
}

/// Projections over projections, and filters between them.
pub(crate) fn several_steps() -> Vec<Case> {
    let mut random = random(29);
    let input = batch(vec![
        column(&mut random, &Int64, ROWS, Shape::within(-50, 50).nulls(10)),
        column(&mut random, &Int32, ROWS, Shape::within(-5, 5).nulls(10)),
        column(&mut random, &Utf8, ROWS, Shape::all()),
    ]);
    let mut plan = Plan::over(&input);
    let (zero, word) = (plan.int(Int64, 0), plan.text("b"));
    let (a, b, text) = (plan.col(0), cast(plan.col(1), Int64), plan.col(2));
    let plan = plan.project(vec![add(a.clone(), b.clone()), b, text, a]);
    let not_zero = compare(CompareOp::NotEq, plan.col(1), zero.clone());
    let plan = plan.filter(not_zero);
    let ratio = divide(plan.col(0), plan.col(1));
    let (text, a) = (plan.col(2), plan.col(3));
    let plan = plan.project(vec![ratio, text, a]);
    let later = Expr::or(
        compare(CompareOp::Gt, plan.col(1), word),
        compare(CompareOp::Lt, plan.col(0), zero),
    )
    .unwrap();
    let plan = plan.filter(later);
    let rows = Case::new(
        "steps to rows",
        plan.clone().build(),
        cut(&input, &[100, 33]),
    );
    let (key, value) = (plan.col(1), plan.col(0));
    let groups = Case::new(
        "steps to groups",
        plan.group(vec![key], vec![sum(value), count()]).build(),
        cut(&input, &[100, 33]),
    );
    vec![rows.declared(), groups]
}

pub(crate) fn cases() -> Vec<Case> {
    [
        on_integers(),
        on_decimals(),
        on_floats(),
        comparisons(),
        three_valued_logic(),
        on_times(),
        strings(),
        several_steps(),
    ]
    .concat()
}

#[test]
fn integer_arithmetic() {
    check_all(on_integers());
}

#[test]
fn decimal_arithmetic() {
    check_all(on_decimals());
}

#[test]
fn float_arithmetic() {
    check_all(on_floats());
}

#[test]
fn comparisons_of_every_type() {
    check_all(comparisons());
}

#[test]
fn logic() {
    check_all(three_valued_logic());
}

#[test]
fn times_and_durations() {
    check_all(on_times());
}

#[test]
fn expressions_over_strings() {
    check_all(strings());
}

#[test]
fn projections_over_projections() {
    check_all(several_steps());
}
