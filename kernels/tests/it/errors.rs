//! What raises: for a row that is selected and a value that is wanted, and never otherwise.
//!
//! One program is run with many parameters. Each selects some rows; the device has to raise exactly
//! if the interpreter does.

use arrow_schema::{DataType, TimeUnit};
use tidegate_pipeline::{ArithmeticOp, CompareOp, Expr, Pipeline, ScalarValue};

use crate::check::{Case, Facts};
use crate::data::{batch, cut, floats_as, integers};
use crate::plan::{
    Plan, add, arithmetic, avg, cast, compare, count, divide, filtered, max, min, sum, try_cast,
};
use crate::reference::interpret;

use ArithmeticOp::{Divide, Modulo, Multiply, Subtract};
use DataType::{
    Boolean, Date32, Decimal32, Decimal64, Decimal128, Float64, Int8, Int32, Int64, UInt8, UInt64,
};

const ROWS: i128 = 200;

/// Returns a column that holds `bad` in a few rows, NULL in some and `good` in all others.
fn mostly(data_type: &DataType, good: i128, bad: i128) -> arrow_array::ArrayRef {
    let value = |row: i128| match row {
        37 | 99 | 150 => Some(bad),
        row if row % 10 == 5 => None,
        _ => Some(good),
    };
    integers(data_type, &(0..ROWS).map(value).collect::<Vec<_>>())
}

/// What may raise: its name, the columns after the row's number, and the expression over them.
struct Raising {
    name: &'static str,
    columns: Vec<arrow_array::ArrayRef>,
    expr: fn(&mut Plan) -> Expr,
}

fn raising() -> Vec<Raising> {
    let money = Decimal128(38, 2);
    let huge = 10_i128.pow(37);
    let floats: Vec<Option<f64>> = (0..ROWS)
        .map(|row| match row {
            37 | 99 => Some(1e30),
            150 => Some(f64::NAN),
            row if row % 10 == 5 => None,
            row => Some(row as f64),
        })
        .collect();
    let timestamp = DataType::Timestamp(TimeUnit::Millisecond, None);
    let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let duration = DataType::Duration(TimeUnit::Millisecond);
    let raising = |name, columns, expr| Raising {
        name,
        columns,
        expr,
    };
    vec![
        raising("int64 by zero", vec![mostly(&Int64, 3, 0)], |plan| {
            let seven = plan.int(Int64, 7);
            divide(seven, plan.col(1))
        }),
        raising(
            "uint8 remainder by zero",
            vec![mostly(&UInt8, 3, 0)],
            |plan| arithmetic(Modulo, plan.col(1), plan.col(1)),
        ),
        raising(
            "the least int8 by -1",
            vec![mostly(&Int8, 5, -128)],
            |plan| {
                let minus = plan.int(Int8, -1);
                divide(plan.col(1), minus)
            },
        ),
        raising(
            "the least int64 by -1",
            vec![mostly(&Int64, 5, i64::MIN.into())],
            |plan| {
                let minus = plan.int(Int64, -1);
                divide(plan.col(1), minus)
            },
        ),
        raising(
            "decimal by zero",
            vec![mostly(&Decimal128(15, 2), 250, 0)],
            |plan| divide(plan.col(1), plan.col(1)),
        ),
        raising(
            "decimal remainder by zero",
            vec![mostly(&Decimal64(9, 2), 250, 0)],
            |plan| arithmetic(Modulo, plan.col(1), plan.col(1)),
        ),
        raising(
            "decimal32 product",
            vec![mostly(&Decimal32(9, 0), 250, 99_999)],
            |plan| arithmetic(Multiply, plan.col(1), plan.col(1)),
        ),
        raising(
            "decimal64 sum",
            vec![mostly(&Decimal64(18, 0), 250, i64::MAX.into())],
            |plan| add(plan.col(1), plan.col(1)),
        ),
        raising(
            "decimal128 sum",
            vec![mostly(&money, 250, 10 * huge - 1)],
            |plan| add(plan.col(1), plan.col(1)),
        ),
        raising(
            "decimal128 product",
            vec![mostly(&money, 250, huge)],
            |plan| arithmetic(Multiply, plan.col(1), plan.col(1)),
        ),
        raising(
            "decimal128 difference",
            vec![mostly(&money, 250, i128::MIN)],
            |plan| {
                let one = plan.literal(Decimal128(38, 2), ScalarValue::Decimal(1));
                arithmetic(Subtract, plan.col(1), one)
            },
        ),
        raising(
            "decimal128 scaled",
            vec![mostly(&money, 250, huge), mostly(&Decimal128(38, 8), 1, 1)],
            |plan| add(plan.col(1), plan.col(2)),
        ),
        raising(
            "negated decimal",
            vec![mostly(&Decimal32(9, 0), 250, i32::MIN.into())],
            |plan| Expr::negate(plan.col(1)).unwrap(),
        ),
        raising(
            "timestamp sum",
            vec![
                mostly(&timestamp, 250, i64::MAX.into()),
                mostly(&duration, 5, 5),
            ],
            |plan| add(plan.col(1), plan.col(2)),
        ),
        raising(
            "date and a month",
            vec![mostly(&Date32, 250, 95_026_236)],
            |plan| {
                let month = plan.interval(1, 0, 0);
                add(plan.col(1), month)
            },
        ),
        raising(
            "a date before the calendar",
            vec![mostly(&Date32, 250, i32::MIN.into())],
            |plan| {
                let day = plan.interval(0, 1, 0);
                arithmetic(Subtract, plan.col(1), day)
            },
        ),
        raising(
            "nanoseconds and a day",
            vec![mostly(&nanoseconds, 250, i64::MAX.into())],
            |plan| {
                let day = plan.interval(0, 1, 0);
                add(plan.col(1), day)
            },
        ),
        raising("narrowing cast", vec![mostly(&Int64, 127, 128)], |plan| {
            cast(plan.col(1), Int8)
        }),
        raising("sign-losing cast", vec![mostly(&Int32, 127, -1)], |plan| {
            cast(plan.col(1), UInt64)
        }),
        raising(
            "float to int cast",
            vec![floats_as(&Float64, &floats)],
            |plan| cast(plan.col(1), Int32),
        ),
        raising(
            "float to decimal cast",
            vec![floats_as(&Float64, &floats)],
            |plan| cast(plan.col(1), Decimal64(12, 2)),
        ),
        raising(
            "decimal precision cast",
            vec![mostly(&Decimal128(20, 2), 250, 123_456)],
            |plan| cast(plan.col(1), Decimal128(5, 2)),
        ),
        raising(
            "decimal rounding cast",
            vec![mostly(&Decimal128(20, 2), 250, 99_950)],
            |plan| cast(plan.col(1), Decimal32(3, 0)),
        ),
        raising(
            "int to decimal cast",
            vec![mostly(&Int64, 250, 100_000)],
            |plan| cast(plan.col(1), Decimal64(7, 2)),
        ),
        raising(
            "day of a timestamp",
            vec![mostly(&timestamp, 250, i64::MAX.into())],
            |plan| cast(plan.col(1), Date32),
        ),
        raising(
            "tried day of a timestamp",
            vec![mostly(&timestamp, 250, i64::MAX.into())],
            |plan| try_cast(plan.col(1), Date32),
        ),
        raising(
            "date to nanoseconds",
            vec![mostly(&Date32, 250, 1 << 30)],
            |plan| cast(plan.col(1), DataType::Timestamp(TimeUnit::Nanosecond, None)),
        ),
    ]
}

/// Where what raises stands in the pipeline.
type Place = fn(Plan, Expr, Expr) -> Plan;

/// Whether the row is selected or wanted is the second expression.
const PLACES: [(&str, Place); 7] = [
    ("projected", |plan, expr, selected| {
        plan.filter(selected).project(vec![expr])
    }),
    ("in a branch", |plan, expr, selected| {
        let data_type = expr.data_type.clone();
        let case = Expr::case(vec![(selected, expr)], None, data_type).unwrap();
        plan.project(vec![case])
    }),
    ("behind AND", |plan, expr, selected| {
        let there = Expr::is_not_null(expr).unwrap();
        plan.filter(Expr::and(selected, there).unwrap())
    }),
    ("behind OR", |plan, expr, selected| {
        let there = Expr::is_not_null(expr).unwrap();
        plan.filter(Expr::or(Expr::not(selected).unwrap(), there).unwrap())
    }),
    ("counted", |plan, expr, selected| {
        let plan = plan.filter(selected);
        let key = plan.col(0);
        let bounded = arithmetic(Modulo, key.clone(), key);
        plan.group(vec![bounded], vec![crate::plan::count_of(expr)])
    }),
    ("in a filtered call", |plan, expr, selected| {
        plan.group(
            vec![],
            vec![count(), filtered(crate::plan::count_of(expr), selected)],
        )
    }),
    ("a key", |plan, expr, selected| {
        let there = Expr::is_null(expr).unwrap();
        plan.filter(selected).group(vec![there], vec![count()])
    }),
];

/// Builds the pipeline for rows from `from` to `to`.
fn pipeline(
    raising: &Raising,
    place: Place,
    from: i128,
    to: i128,
) -> (Pipeline, arrow_array::RecordBatch) {
    let rows: Vec<Option<i128>> = (1..=ROWS).map(Some).collect();
    let input = batch([vec![integers(&Int64, &rows)], raising.columns.clone()].concat());
    let mut plan = Plan::over(&input);
    let (from, to) = (plan.int(Int64, from), plan.int(Int64, to));
    let above = compare(CompareOp::GtEq, plan.col(0), from);
    let below = compare(CompareOp::LtEq, plan.col(0), to);
    let expr = (raising.expr)(&mut plan);
    let selected = Expr::and(above, below).unwrap();
    (place(plan, expr, selected).build(), input)
}

/// Rows 38, 100 and 151 raise.
const SELECTIONS: [(i128, i128, bool); 6] = [
    (1, 200, true),
    (1, 37, false),
    (38, 38, true),
    (39, 99, false),
    (151, 160, true),
    (152, 200, false),
];

/// Returns every second pair of what raises and where, or all with `TIDEGATE_KERNEL_CASES`.
fn cases_at(places: std::ops::Range<usize>) -> Vec<Case> {
    let all = std::env::var_os("TIDEGATE_KERNEL_CASES").is_some();
    let mut cases = Vec::new();
    for (number, raising) in raising().into_iter().enumerate() {
        for (name, place) in PLACES[places.clone()]
            .iter()
            .enumerate()
            .filter(|(place, _)| all || (number + place).is_multiple_of(2))
            .map(|(_, place)| place)
        {
            for (from, to, raises) in SELECTIONS {
                let (pipeline, input) = pipeline(&raising, *place, from, to);
                let expected = interpret(&pipeline, std::slice::from_ref(&input));
                assert_eq!(
                    expected.is_err(),
                    raises,
                    "{} {name} of {from}..={to}",
                    raising.name
                );
                let name = format!("{} {name} of rows {from} to {to}", raising.name);
                cases.push(Case::new(name, pipeline, cut(&input, &[50, 64])));
            }
        }
    }
    cases
}

/// Means that their types do not hold.
pub(crate) fn means() -> Vec<Case> {
    let most = 10_i128.pow(25) - 1;
    let of = |values: Vec<Option<i128>>, data_type: &DataType| {
        let input = batch(vec![integers(data_type, &values)]);
        let plan = Plan::over(&input);
        let mean = avg(plan.col(0));
        Case::new(
            format!("a mean of {data_type}"),
            plan.group(vec![], vec![mean]).build(),
            vec![input],
        )
    };
    vec![
        of(vec![Some(i128::from(i32::MAX)); 70], &Decimal32(9, 0)),
        of(vec![Some(most); 70], &Decimal128(25, 0)),
        of(vec![Some(i128::MAX / 3); 70], &Decimal128(25, 4)),
    ]
}

/// Nothing is raised by what is not there.
pub(crate) fn never() -> Vec<Case> {
    let none = vec![None; 100];
    let input = batch(vec![integers(&Int64, &none), integers(&Boolean, &none)]);
    let mut plan = Plan::over(&input);
    let zero = plan.int(Int64, 0);
    let (a, flag) = (plan.col(0), plan.col(1));
    let ratio = divide(a.clone(), zero.clone());
    let by_null = divide(zero, a);
    let null = plan.null(Int64);
    let with_null = arithmetic(Divide, null, plan.col(0));
    let exprs = vec![ratio.clone(), by_null, with_null, cast(plan.col(0), Int8)];
    let rows = plan.clone().project(exprs).build();
    let groups = plan
        .group(
            vec![flag],
            vec![min(ratio.clone()), max(ratio.clone()), sum(ratio)],
        )
        .build();
    vec![
        Case::new("NULLs", rows, vec![input.clone()]).declared(),
        Case::new("groups of NULLs", groups, vec![input]),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases_at(0..PLACES.len());
    // The programs of one place differ by their parameters alone.
    cases.retain(|case| case.name.ends_with("rows 1 to 200"));
    [cases, means(), never()].concat()
}

fn check(cases: Vec<Case>) {
    for mut case in cases {
        case.facts = vec![Facts::Seen];
        case.check();
    }
}

#[test]
fn in_projections_and_branches() {
    check(cases_at(0..2));
}

#[test]
fn behind_connectives() {
    check(cases_at(2..4));
}

#[test]
fn in_groups() {
    check(cases_at(4..PLACES.len()));
}

#[test]
fn means_that_overflow() {
    check(means());
}

#[test]
fn nulls_raise_nothing() {
    check(never());
}
