//! Functions of users: the host's body in the interpreter against the device's in the kernel.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int32Array, UInt64Array};
use arrow_schema::DataType;
use tidegate_kernels::program::probe;
use tidegate_pipeline::{CompareOp, CustomFunction, Expr, Host, HostBody};

use crate::check::{Case, check_all};
use crate::data::{Shape, batch, column, cut, random};
use crate::expressions::ROWS;
use crate::plan::{Plan, cast, compare, count, max, sum};

use DataType::{Boolean, Float32, Float64, Int8, Int32, Int64, UInt64};

fn function(
    name: &str,
    arguments: &[(&str, DataType)],
    returns: DataType,
    cuda: &str,
    host: impl Fn(&[ArrayRef]) -> ArrayRef + Send + Sync + 'static,
) -> Arc<CustomFunction> {
    let body: Arc<HostBody> = Arc::new(move |args| Ok(host(args)));
    Arc::new(CustomFunction {
        name: name.into(),
        arguments: arguments
            .iter()
            .map(|(name, data_type)| ((*name).into(), data_type.clone()))
            .collect(),
        returns,
        cuda: cuda.into(),
        host: Host(Some(body)),
    })
}

fn call(function: &Arc<CustomFunction>, args: Vec<Expr>) -> Expr {
    Expr::custom(Arc::clone(function), args).unwrap()
}

/// `x * x + y`, which a multiply-add would round once instead of twice.
fn squared_plus() -> Arc<CustomFunction> {
    let arguments = [("x", Float64), ("y", Float64)];
    function("squared_plus", &arguments, Float64, "x * x + y", |args| {
        let (x, y) = (
            args[0].as_primitive::<Float64Type>(),
            args[1].as_primitive::<Float64Type>(),
        );
        let sums = x.values().iter().zip(y.values()).map(|(x, y)| x * x + y);
        Arc::new(Float64Array::from_iter_values(sums))
    })
}

/// Steps of Collatz's walk, at most 40, in statements with a loop that no zero may enter.
fn steps() -> Arc<CustomFunction> {
    let body = "i32 steps = 0;\nwhile (n != 1 && steps < 40) {\n    n = n % 2 == 0 ? n / 2 : 3 * n + 1;\n\
                \x20   steps++;\n}\nreturn steps;";
    function("steps", &[("n", UInt64)], Int32, body, |args| {
        let walk = |mut n: u64| {
            let mut steps = 0;
            while n != 1 && steps < 40 {
                n = match n % 2 {
                    0 => n / 2,
                    _ => n.wrapping_mul(3).wrapping_add(1),
                };
                steps += 1;
            }
            steps
        };
        let walks = args[0].as_primitive::<UInt64Type>().values().iter();
        Arc::new(Int32Array::from_iter_values(walks.map(|n| walk(*n))))
    })
}

/// Whether an even small number comes with a flag.
fn is_even() -> Arc<CustomFunction> {
    let arguments = [("n", Int8), ("flag", Boolean)];
    function(
        "is_even",
        &arguments,
        Boolean,
        "flag && n % 2 == 0",
        |args| {
            let n = args[0].as_primitive::<arrow_array::types::Int8Type>();
            let flag = args[1].as_boolean();
            let rows = (0..n.len()).map(|row| Some(flag.value(row) && n.value(row) % 2 == 0));
            Arc::new(rows.collect::<BooleanArray>())
        },
    )
}

/// The high half of a product of 64 bits.
fn high_half() -> Arc<CustomFunction> {
    let arguments = [("a", Int64), ("b", Int64)];
    function(
        "high_half",
        &arguments,
        UInt64,
        "(u64)(((i128)a * b) >> 64)",
        |args| {
            let (a, b) = (
                args[0].as_primitive::<Int64Type>(),
                args[1].as_primitive::<Int64Type>(),
            );
            let halves = a.values().iter().zip(b.values());
            let halves = halves.map(|(a, b)| ((i128::from(*a) * i128::from(*b)) >> 64) as u64);
            Arc::new(UInt64Array::from_iter_values(halves))
        },
    )
}

/// A number that must not be divided by zero, nor asked for where it is.
fn reciprocal() -> Arc<CustomFunction> {
    function("reciprocal", &[("n", Int32)], Int32, "1000 / n", |args| {
        let n = args[0].as_primitive::<Int32Type>();
        let quotient = |row| match n.is_null(row) {
            true => 0,
            false => 1000 / n.value(row),
        };
        Arc::new(Int32Array::from_iter_values((0..n.len()).map(quotient)))
    })
}

pub(crate) fn cases() -> Vec<Case> {
    let mut random = random(77);
    let input = batch(vec![
        column(&mut random, &Float64, ROWS, Shape::all()),
        column(&mut random, &Float64, ROWS, Shape::all().nulls(3)),
        column(&mut random, &UInt64, ROWS, Shape::within(1, 1000)),
        column(&mut random, &Int8, ROWS, Shape::all()),
        column(&mut random, &Boolean, ROWS, Shape::all()),
        column(&mut random, &Int64, ROWS, Shape::all()),
        column(&mut random, &Int32, ROWS, Shape::within(-2, 2)),
        column(&mut random, &Float32, ROWS, Shape::all()),
    ]);
    let parts = cut(&input, &[130, 1, 200]);
    let (squared_plus, steps, is_even, high_half, reciprocal) = (
        squared_plus(),
        steps(),
        is_even(),
        high_half(),
        reciprocal(),
    );
    let mut rows = Plan::over(&input);
    let zero = rows.int(Int32, 0);
    let col: Vec<Expr> = rows.cols();
    let safe = compare(CompareOp::NotEq, col[6].clone(), zero);
    let nested = call(&squared_plus, vec![col[1].clone(), col[0].clone()]);
    let columns = vec![
        call(&squared_plus, vec![col[0].clone(), col[1].clone()]),
        call(&squared_plus, vec![nested, col[0].clone()]),
        call(&steps, vec![col[2].clone()]),
        call(&is_even, vec![col[3].clone(), col[4].clone()]),
        call(&high_half, vec![col[5].clone(), col[5].clone()]),
        Expr::case(
            vec![(safe.clone(), call(&reciprocal, vec![col[6].clone()]))],
            None,
            Int32,
        )
        .unwrap(),
    ];
    let even = call(&is_even, vec![col[3].clone(), col[4].clone()]);
    let kept = rows.clone().filter(even).project(columns.clone());
    let grouped = rows.clone().filter(safe).group(
        vec![call(&reciprocal, vec![col[6].clone()])],
        vec![
            count(),
            sum(cast(call(&steps, vec![col[2].clone()]), Int64)),
            max(call(&high_half, vec![col[5].clone(), col[5].clone()])),
        ],
    );
    vec![
        Case::new(
            "functions of users",
            rows.project(columns).build(),
            parts.clone(),
        )
        .declared(),
        Case::new(
            "functions of users behind a filter",
            kept.build(),
            parts.clone(),
        )
        .declared(),
        Case::new("groups of functions of users", grouped.build(), parts),
    ]
}

#[test]
fn both_bodies_give_the_same() {
    check_all(cases());
}

#[test]
fn a_probe_holds_the_body_under_its_name() {
    let text = probe(&squared_plus()).unwrap();
    assert!(
        text.contains("#line 1 \"squared_plus\"\nx * x + y\n"),
        "{text}"
    );
    let mut odd = CustomFunction::clone(&squared_plus());
    odd.arguments[0].1 = DataType::Utf8;
    assert!(probe(&odd).is_err());
    let refused = Expr::custom(Arc::new(odd), Vec::new()).unwrap_err();
    assert!(refused.what.contains("has no Utf8"), "{refused}");
}
