//! Programs that write rows out: every type, in the order of the input.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, TimeUnit};
use tidegate_pipeline::{CompareOp, Expr};

use crate::check::{Case, check_all};
use crate::data::{Shape, batch, column, cut, integers, random};
use crate::plan::{Plan, add, compare};

use DataType::{
    Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Float32, Float64, Int8, Int16,
    Int32, Int64, LargeUtf8, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
};

fn all_types() -> Vec<DataType> {
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Decimal32(9, 2),
        Decimal64(18, 2),
        Decimal128(38, 2),
        Decimal128(15, 2),
        Date32,
        Date64,
        DataType::Time32(TimeUnit::Second),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::Duration(TimeUnit::Millisecond),
        Utf8,
        LargeUtf8,
        Utf8View,
        DataType::Dictionary(Box::new(Int32), Box::new(Utf8)),
    ]
}

/// Keeps the rows whose first column is below a limit and adds to it.
fn below(name: String, columns: Vec<ArrayRef>, limit: i128, sizes: &[usize]) -> Case {
    let input = batch(columns);
    let mut plan = Plan::over(&input);
    let (limit, one) = (plan.int(Int32, limit), plan.int(Int32, 1));
    let first = plan.col(0);
    let plan = plan.filter(compare(CompareOp::Lt, first, limit));
    let mut outputs = plan.cols();
    outputs.push(add(plan.col(0), one));
    Case::new(name, plan.project(outputs).build(), cut(&input, sizes))
}

/// Each type with no, some and nothing but NULLs.
pub(crate) fn types() -> Vec<Case> {
    let mut random = random(31);
    let mut cases = Vec::new();
    for types in all_types().chunks(5) {
        for nulls in [0, 20, 100] {
            let selector = column(&mut random, &Int32, 900, Shape::within(0, 99));
            let shape = Shape::all().nulls(nulls);
            let columns = types
                .iter()
                .map(|data_type| column(&mut random, data_type, 900, shape));
            let columns: Vec<ArrayRef> = std::iter::once(selector).chain(columns).collect();
            cases.push(below(
                format!("{types:?} with {nulls} % nulls"),
                columns,
                60,
                &[1, 500, 33],
            ));
        }
    }
    cases
}

/// Every number of rows around a boundary, of which none, some or all are kept.
pub(crate) fn sizes() -> Vec<Case> {
    let mut cases = Vec::new();
    for rows in [
        0, 1, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 2047, 2048, 2049, 6145,
    ] {
        for limit in [-1, 50, 100] {
            let mut random = random(rows as u64);
            let columns = vec![
                column(&mut random, &Int32, rows, Shape::within(0, 99)),
                column(
                    &mut random,
                    &Int64,
                    rows,
                    Shape::within(-1 << 40, 1 << 40).nulls(30),
                ),
            ];
            cases.push(
                below(format!("{rows} rows below {limit}"), columns, limit, &[]).of_types_only(),
            );
        }
    }
    // Chunks so uneven that most tiles of the small ones are empty.
    let columns = vec![column(
        &mut random(32),
        &Int32,
        7000,
        Shape::within(0, 99).nulls(3),
    )];
    cases.push(below(
        "uneven chunks".to_owned(),
        columns,
        70,
        &[1, 4100, 2, 0, 1025, 31],
    ));
    cases
}

/// Runs of rows that are kept, and of rows that are not.
pub(crate) fn runs() -> Vec<Case> {
    let clustered: Vec<Option<i128>> = (0..5000)
        .map(|row| Some(i128::from(row / 700 % 2)))
        .collect();
    let single: Vec<Option<i128>> = (0..5000).map(|row| Some(i128::from(row != 3210))).collect();
    let mut cases = Vec::new();
    for (name, values) in [("clustered", clustered), ("a single row", single)] {
        cases.push(below(
            name.to_owned(),
            vec![integers(&Int32, &values)],
            1,
            &[1024, 2000],
        ));
    }
    cases
}

/// Outputs that are constants, or the same twice, or none.
pub(crate) fn shapes() -> Vec<Case> {
    let input = batch(vec![
        column(&mut random(33), &Int32, 300, Shape::all()),
        column(&mut random(34), &Utf8, 300, Shape::all()),
    ]);
    let mut plan = Plan::over(&input);
    let (five, none, yes) = (
        plan.int(Int64, 5),
        plan.null(Decimal128(10, 2)),
        plan.int(Boolean, 1),
    );
    let float = plan.float(-0.5);
    let (number, text) = (plan.col(0), plan.col(1));
    let no_null = Expr::is_null(text.clone()).unwrap();
    let outputs = vec![
        text.clone(),
        five,
        none,
        yes,
        float,
        number.clone(),
        number,
        text,
        no_null,
    ];
    let as_they_are = Plan::over(&input).build();
    let nothing = Plan::over(&input).project(vec![]).build();
    vec![
        Case::new(
            "constants and copies",
            plan.project(outputs).build(),
            cut(&input, &[100]),
        )
        .declared(),
        Case::new("as they are", as_they_are, cut(&input, &[100])),
        Case::new("no columns", nothing, cut(&input, &[100])),
    ]
}

pub(crate) fn cases() -> Vec<Case> {
    [types(), sizes(), runs(), shapes()].concat()
}

#[test]
fn every_type() {
    check_all(types());
}

#[test]
fn every_size() {
    check_all(sizes());
}

#[test]
fn runs_of_rows() {
    check_all(runs());
}

#[test]
fn constants_copies_and_nothing() {
    check_all(shapes());
}
