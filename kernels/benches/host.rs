//! How fast one core folds blocks on the host, in rows a second. Every answer is compared with one that was
//! computed row by row first.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run stops")]

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int64Type};
use arrow_array::{RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_kernels::host::{BLOCK, Chunk, Entries, HostProgram, HostRun, Selected, Values};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, ArithmeticOp, CompareOp, Expr,
    Facts, Interval, NamedExpr, Pipeline, Scalar, ScalarValue, Step,
};

/// Rows of a group.
const ROWS: usize = 1 << 20;

const DECIMAL: DataType = DataType::Decimal128(15, 2);

/// A column: codes of entries, or doubles.
enum Column {
    Codes8(Vec<u8>, Entries),
    Codes32(Vec<u32>, Entries),
    Doubles(Vec<f64>),
    Longs(Vec<i64>),
}

impl Column {
    fn entries(&self) -> Option<&Entries> {
        match self {
            Self::Codes8(_, entries) | Self::Codes32(_, entries) => Some(entries),
            Self::Doubles(_) | Self::Longs(_) => None,
        }
    }

    fn chunk(&self, at: usize) -> Chunk<'_> {
        let rows = at..ROWS.min(at + BLOCK);
        let values = match self {
            Self::Codes8(codes, _) => Values::Codes8(&codes[rows]),
            Self::Codes32(codes, _) => Values::Codes32(&codes[rows]),
            Self::Doubles(values) => Values::F64(&values[rows]),
            Self::Longs(values) => Values::I64(&values[rows]),
        };
        Chunk {
            values,
            validity: None,
        }
    }
}

fn col(index: usize, data_type: &DataType) -> Expr {
    Expr::column(index, data_type.clone()).unwrap()
}

fn named(expr: Expr, name: &str) -> NamedExpr {
    NamedExpr {
        expr,
        name: name.to_owned(),
    }
}

fn call(function: AggregateFunction, argument: Option<Expr>, data_type: DataType) -> AggregateCall {
    let state = vec![Field::new("s", data_type.clone(), true)];
    AggregateCall::new(function, argument, None, data_type, state, "v").unwrap()
}

fn sum(argument: Expr) -> AggregateCall {
    let data_type = match argument.data_type {
        DataType::Decimal128(precision, scale) => {
            DataType::Decimal128((precision + 10).min(38), scale)
        }
        ref other => other.clone(),
    };
    call(AggregateFunction::Sum, Some(argument), data_type)
}

fn count() -> AggregateCall {
    call(AggregateFunction::Count, None, DataType::Int64)
}

/// Multiplies decimals as DataFusion types them.
fn multiply(left: Expr, right: Expr) -> Expr {
    let (DataType::Decimal128(p, s), DataType::Decimal128(q, t)) =
        (&left.data_type, &right.data_type)
    else {
        return Expr::arithmetic(ArithmeticOp::Multiply, left.clone(), right, left.data_type)
            .unwrap();
    };
    let data_type = DataType::Decimal128((p + q + 1).min(38), s + t);
    Expr::arithmetic(ArithmeticOp::Multiply, left, right, data_type).unwrap()
}

/// Holds a query's rows against what they must be.
type Check = Box<dyn Fn(&[RecordBatch])>;

/// A query over columns.
struct Query {
    name: &'static str,
    columns: Vec<Column>,
    program: Arc<HostProgram>,
    check: Check,
}

fn program(
    types: &[DataType],
    ranges: &[(i128, i128)],
    parameters: Vec<Scalar>,
    filter: Option<Expr>,
    (keys, calls): (Vec<NamedExpr>, Vec<AggregateCall>),
) -> Arc<HostProgram> {
    let fields = types.iter().enumerate();
    let fields: Vec<Field> = fields
        .map(|(index, data_type)| Field::new(format!("c{index}"), data_type.clone(), false))
        .collect();
    let outputs = keys
        .iter()
        .map(|key| (key.name.clone(), key.expr.data_type.clone()));
    let outputs: Vec<Field> = outputs
        .chain(
            calls
                .iter()
                .map(|call| (call.name.clone(), call.data_type.clone())),
        )
        .map(|(name, data_type)| Field::new(name, data_type, true))
        .collect();
    let aggregate = Step::Aggregate(Aggregate {
        keys,
        calls,
        output: AggregateOutput::Value,
    });
    let pipeline = Pipeline {
        input: Arc::new(Schema::new(fields)),
        parameters,
        steps: filter
            .map(Step::Filter)
            .into_iter()
            .chain([aggregate])
            .collect(),
        output: Arc::new(Schema::new(outputs)),
    };
    let facts = |column: usize| Facts {
        interval: Interval::new(ranges[column].0, ranges[column].1),
        nullable: false,
        ..Facts::declared(&types[column])
    };
    Arc::new(HostProgram::new(&pipeline, &facts).unwrap())
}

fn texts(values: &[String]) -> Entries {
    Entries::Text(StringViewArray::from_iter_values(values))
}

fn codes8(random: &mut StdRng, most: u32) -> Vec<u8> {
    (0..ROWS)
        .map(|_| random.random_range(0..most) as u8)
        .collect()
}

fn codes32(random: &mut StdRng, most: u32) -> Vec<u32> {
    (0..ROWS).map(|_| random.random_range(0..most)).collect()
}

/// TPC-H Q1 without its averages.
fn pricing(random: &mut StdRng) -> Query {
    let date = codes32(random, 2_526);
    let (flag, status) = (codes8(random, 3), codes8(random, 2));
    let (quantity, discount, tax) = (codes8(random, 50), codes8(random, 11), codes8(random, 9));
    let price = codes32(random, 100_000);
    let prices: Vec<i64> = (0..100_000).map(|code| 90_000 + code * 104).collect();
    let types = [
        DataType::Date32,
        DataType::Utf8View,
        DataType::Utf8View,
        DECIMAL,
        DECIMAL,
        DECIMAL,
        DECIMAL,
    ];
    let ranges = [
        (8_036, 10_561),
        (0, 0),
        (0, 0),
        (100, 5_000),
        (90_000, 10_500_000),
        (0, 10),
        (0, 8),
    ];
    let decimal = |value: i128| Scalar {
        data_type: DECIMAL,
        value: ScalarValue::Decimal(value),
    };
    let last = 10_471;
    let parameters = vec![
        Scalar {
            data_type: DataType::Date32,
            value: ScalarValue::Int(last),
        },
        decimal(100),
    ];
    let parameter =
        |index, data_type: &DataType| Expr::parameter(index, data_type.clone()).unwrap();
    let shipped = Expr::compare(
        CompareOp::LtEq,
        col(0, &DataType::Date32),
        parameter(0, &DataType::Date32),
    );
    let one = || parameter(1, &DECIMAL);
    let plus =
        |op, right: Expr| Expr::arithmetic(op, one(), right, DataType::Decimal128(16, 2)).unwrap();
    let net = || {
        multiply(
            col(4, &DECIMAL),
            plus(ArithmeticOp::Subtract, col(5, &DECIMAL)),
        )
    };
    let charge = multiply(net(), plus(ArithmeticOp::Add, col(6, &DECIMAL)));
    let text = DataType::Utf8View;
    let keys = vec![named(col(1, &text), "flag"), named(col(2, &text), "status")];
    let calls = vec![
        sum(col(3, &DECIMAL)),
        sum(col(4, &DECIMAL)),
        sum(net()),
        sum(charge),
        count(),
    ];
    let program = program(
        &types,
        &ranges,
        parameters,
        Some(shipped.unwrap()),
        (keys, calls),
    );
    let mut expected: HashMap<(u8, u8), [i128; 5]> = HashMap::new();
    for row in 0..ROWS {
        if 8_036 + i64::from(date[row]) > last {
            continue;
        }
        let sums = expected.entry((flag[row], status[row])).or_default();
        let price = i128::from(prices[price[row] as usize]);
        let net = price * (100 - i128::from(discount[row]));
        let terms = [
            100 * (1 + i128::from(quantity[row])),
            price,
            net,
            net * (100 + i128::from(tax[row])),
            1,
        ];
        sums.iter_mut()
            .zip(terms)
            .for_each(|(sum, term)| *sum += term);
    }
    let check = move |found: &[RecordBatch]| {
        assert_eq!(
            found.iter().map(RecordBatch::num_rows).sum::<usize>(),
            expected.len()
        );
        for batch in found {
            for row in 0..batch.num_rows() {
                let letter =
                    |column: usize| batch.column(column).as_string_view().value(row).as_bytes()[0];
                let sums = expected[&(letter(0) - b'A', letter(1) - b'O')];
                for (index, sum) in sums[..4].iter().enumerate() {
                    assert_eq!(
                        batch
                            .column(2 + index)
                            .as_primitive::<Decimal128Type>()
                            .value(row),
                        *sum
                    );
                }
                assert_eq!(
                    i128::from(batch.column(6).as_primitive::<Int64Type>().value(row)),
                    sums[4]
                );
            }
        }
    };
    let letters = |from: u8, count: u8| {
        texts(
            &(from..from + count)
                .map(|byte| char::from(byte).to_string())
                .collect::<Vec<_>>(),
        )
    };
    Query {
        name: "pricing",
        columns: vec![
            Column::Codes32(date, Entries::I32((8_036..10_562).collect())),
            Column::Codes8(flag, letters(b'A', 3)),
            Column::Codes8(status, letters(b'O', 2)),
            Column::Codes8(
                quantity,
                Entries::I64((1..=50).map(|value| value * 100).collect()),
            ),
            Column::Codes32(price, Entries::I64(prices)),
            Column::Codes8(discount, Entries::I64((0..11).collect())),
            Column::Codes8(tax, Entries::I64((0..9).collect())),
        ],
        program,
        check: Box::new(check),
    }
}

/// Sums of doubles by a key of so many strings, or of integers that have no dictionary.
fn sums_by(random: &mut StdRng, name: &'static str, num_keys: u32, is_text: bool) -> Query {
    let key = codes32(random, num_keys);
    let values: Vec<f64> = (0..ROWS)
        .map(|_| f64::from(random.random_range(0_u32..1_000)) / 4.0)
        .collect();
    let key_type = if is_text {
        DataType::Utf8View
    } else {
        DataType::Int64
    };
    let types = [key_type.clone(), DataType::Float64];
    let ranges = [(0, 1 << 40), (0, 0)];
    let keys = vec![named(col(0, &key_type), "k")];
    let calls = vec![sum(col(1, &DataType::Float64)), count()];
    let program = program(&types, &ranges, Vec::new(), None, (keys, calls));
    let spread = |key: u32| i64::from(key) * 1_000_003;
    let mut expected: HashMap<String, (f64, i64)> = HashMap::new();
    for (key, value) in key.iter().zip(&values) {
        let name = if is_text {
            format!("id{key:010}")
        } else {
            spread(*key).to_string()
        };
        let entry = expected.entry(name).or_default();
        *entry = (entry.0 + value, entry.1 + 1);
    }
    let check = move |found: &[RecordBatch]| {
        assert_eq!(
            found.iter().map(RecordBatch::num_rows).sum::<usize>(),
            expected.len()
        );
        for batch in found {
            for row in 0..batch.num_rows() {
                let name = match is_text {
                    true => batch.column(0).as_string_view().value(row).to_owned(),
                    false => batch
                        .column(0)
                        .as_primitive::<Int64Type>()
                        .value(row)
                        .to_string(),
                };
                // Quarters add up without rounding.
                let sum = batch.column(1).as_primitive::<Float64Type>().value(row);
                let count = batch.column(2).as_primitive::<Int64Type>().value(row);
                assert_eq!((sum, count), expected[&name], "{name}");
            }
        }
    };
    let column = match is_text {
        true => {
            let names: Vec<String> = (0..num_keys).map(|key| format!("id{key:010}")).collect();
            Column::Codes32(key, texts(&names))
        }
        false => Column::Longs(key.into_iter().map(spread).collect()),
    };
    Query {
        name,
        columns: vec![column, Column::Doubles(values)],
        program,
        check: Box::new(check),
    }
}

fn fold(run: &mut HostRun, query: &Query) {
    let entries: Vec<_> = query.columns.iter().map(Column::entries).collect();
    run.begin(&entries, ROWS).unwrap();
    let mut chunks: Vec<Option<Chunk<'_>>> = Vec::new();
    for at in (0..ROWS).step_by(BLOCK) {
        chunks.clear();
        chunks.extend(query.columns.iter().map(|column| Some(column.chunk(at))));
        let rows = BLOCK.min(ROWS - at);
        if run.select(rows, &chunks).unwrap() != Selected::None {
            run.fold(rows, &chunks).unwrap();
        }
    }
}

fn host(criterion: &mut Criterion) {
    let random = &mut StdRng::seed_from_u64(11);
    let queries = [
        pricing(random),
        sums_by(random, "by 100 strings", 100, true),
        sums_by(random, "by 1e5 strings", 100_000, true),
        sums_by(random, "by 100 integers", 100, false),
        sums_by(random, "by 1e5 integers", 100_000, false),
    ];
    let mut group = criterion.benchmark_group("host");
    group
        .throughput(Throughput::Elements(ROWS as u64))
        .sample_size(20);
    for query in &queries {
        let mut run = query.program.run();
        fold(&mut run, query);
        (query.check)(&run.take(8_192).unwrap());
        group.bench_function(query.name, |bencher| bencher.iter(|| fold(&mut run, query)));
    }
    group.finish();
}

criterion_group!(benches, host);
criterion_main!(benches);
