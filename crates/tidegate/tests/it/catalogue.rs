//! Every function and aggregate of the catalogue that stands for one of DataFusion's gives what DataFusion's
//! gives: random arguments of each signature, NULLs, edges, and errors.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use datafusion::arrow::datatypes::{IntervalDayTime, IntervalMonthDayNano, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::logical_expr::{AggregateUDF, EmitTo, ScalarUDF};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use tidegate::{PlacementExt, Session};
use tidegate_pipeline::catalogue::{
    self, Accuracy, AggregateEntry, Function, Options, ScalarEntry, Signature,
};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateOutput, Expr, Interpreter, NamedExpr, Pipeline, Scalar,
    ScalarValue as IrValue, Step, interpret,
};

use crate::support::simulated;

const ROWS: usize = 150;

/// Numbers that look random (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn of<T: Clone>(&mut self, items: &[T]) -> T {
        items[(self.next() % items.len() as u64) as usize].clone()
    }

    /// Returns an integer of up to so many bits, often a small one or an edge.
    fn int(&mut self, bits: u32) -> i64 {
        let most = i64::MAX >> (64 - bits);
        match self.next() % 4 {
            0 => self.of(&[most, -most - 1, 0, 1, -1, 2, most - 1]),
            1 => (self.next() % 200) as i64 - 100,
            _ => self.next() as i64 >> (64 - bits) >> (self.next() % u64::from(bits)),
        }
    }

    /// Returns a decimal of so many digits.
    fn decimal(&mut self, digits: u8, tame: bool) -> i128 {
        let digits = if tame { digits.min(4) } else { digits };
        let most = 10_i128.pow(digits.into()) - 1;
        match self.next() % 3 {
            0 => self
                .of(&[most, -most, 0, 50, -50, 49, 150, -150])
                .clamp(-most, most),
            _ => i128::from(self.next() as i64) % (most + 1),
        }
    }

    fn float(&mut self, tame: bool) -> f64 {
        let tame_value = (self.next() % 4_000) as f64 / 16.0 - 100.0;
        if tame || self.next().is_multiple_of(2) {
            return tame_value;
        }
        self.of(&[
            0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.5,
            -0.5,
            1.0,
            -1.5,
            2.5,
            1e15,
            1e300,
            -3e38,
            5e-324,
            0.1,
        ])
    }

    fn text(&mut self) -> String {
        let texts = [
            "",
            "a",
            "abc",
            "  padded ",
            "a,b,,c",
            ",",
            ",,,",
            "ÉTÉ été",
            "ΑΣ Σ",
            "straße",
            "🌏 and a longer text than a view holds",
            "b",
            " ",
        ];
        self.of(&texts).to_owned()
    }

    fn value(&mut self, of: &DataType, tame: bool) -> ScalarValue {
        let instant = |random: &mut Self| random.next() as i64 >> (4 + random.next() % 56);
        match of {
            DataType::Boolean => ScalarValue::Boolean(Some(self.next().is_multiple_of(2))),
            DataType::Int8 => ScalarValue::Int8(Some(self.int(8) as i8)),
            DataType::Int16 => ScalarValue::Int16(Some(self.int(16) as i16)),
            DataType::Int32 => ScalarValue::Int32(Some(self.int(32) as i32)),
            DataType::Int64 => ScalarValue::Int64(Some(self.int(64))),
            DataType::UInt8 => ScalarValue::UInt8(Some(self.int(9) as u8)),
            DataType::UInt16 => ScalarValue::UInt16(Some(self.int(17) as u16)),
            DataType::UInt32 => ScalarValue::UInt32(Some(self.int(33) as u32)),
            DataType::UInt64 => ScalarValue::UInt64(Some(self.int(64) as u64)),
            DataType::Float32 => ScalarValue::Float32(Some(self.float(tame) as f32)),
            DataType::Float64 => ScalarValue::Float64(Some(self.float(tame))),
            DataType::Decimal32(p, s) => {
                ScalarValue::Decimal32(Some(self.decimal(*p, tame) as i32), *p, *s)
            }
            DataType::Decimal64(p, s) => {
                ScalarValue::Decimal64(Some(self.decimal(*p, tame) as i64), *p, *s)
            }
            DataType::Decimal128(p, s) => {
                ScalarValue::Decimal128(Some(self.decimal(*p, tame)), *p, *s)
            }
            DataType::Date32 => ScalarValue::Date32(Some((self.int(32) >> 10) as i32)),
            DataType::Date64 => ScalarValue::Date64(Some(instant(self) >> 8)),
            DataType::Timestamp(unit, zone) => {
                let value = Some(instant(self));
                let zone = zone.clone();
                match unit {
                    TimeUnit::Second => ScalarValue::TimestampSecond(value, zone),
                    TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(value, zone),
                    TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(value, zone),
                    TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(value, zone),
                }
            }
            DataType::Time32(TimeUnit::Second) => {
                ScalarValue::Time32Second(Some((self.next() % 86_400) as i32))
            }
            DataType::Time32(_) => {
                ScalarValue::Time32Millisecond(Some((self.next() % 86_400_000) as i32))
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                ScalarValue::Time64Microsecond(Some((self.next() % 86_400_000_000) as i64))
            }
            DataType::Time64(_) => {
                ScalarValue::Time64Nanosecond(Some((self.next() % 86_400_000_000_000) as i64))
            }
            DataType::Duration(TimeUnit::Second) => ScalarValue::DurationSecond(Some(self.int(40))),
            DataType::Duration(_) => ScalarValue::DurationNanosecond(Some(self.int(64))),
            DataType::Interval(IntervalUnit::YearMonth) => {
                // arrow negates months that it subtracts: the least number panics in a debug build.
                ScalarValue::IntervalYearMonth(Some(self.int(31) as i32))
            }
            DataType::Interval(IntervalUnit::DayTime) => {
                let value = IntervalDayTime::new(self.int(8) as i32, self.int(32) as i32);
                ScalarValue::IntervalDayTime(Some(value))
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let (months, days) = (self.int(8) as i32, self.int(8) as i32);
                let value = IntervalMonthDayNano::new(months, days, self.int(50));
                ScalarValue::IntervalMonthDayNano(Some(value))
            }
            DataType::Utf8 => ScalarValue::Utf8(Some(self.text())),
            DataType::LargeUtf8 => ScalarValue::LargeUtf8(Some(self.text())),
            DataType::Utf8View => ScalarValue::Utf8View(Some(self.text())),
            other => panic!("a value of {other}"),
        }
    }

    fn column(&mut self, of: &DataType, tame: bool) -> ArrayRef {
        let value = |random: &mut Self| match random.next() % 8 {
            0 => ScalarValue::try_new_null(of).unwrap(),
            _ => random.value(of, tame),
        };
        let values: Vec<ScalarValue> = (0..ROWS).map(|_| value(self)).collect();
        ScalarValue::iter_to_array(values).unwrap()
    }

    pub(crate) fn batch(&mut self, types: &[DataType], tame: bool) -> RecordBatch {
        let fields = types.iter().enumerate();
        let fields = fields.map(|(at, of)| Field::new(format!("c{at}"), of.clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = types.iter().map(|of| self.column(of, tame)).collect();
        RecordBatch::try_new(schema, columns).unwrap()
    }
}

/// Returns how far two floats are apart, in units of the last place.
fn ulps(one: f64, other: f64, is_single: bool) -> u64 {
    if one == other || one.is_nan() && other.is_nan() {
        return 0;
    }
    let place = |value: f64| match is_single {
        true => i64::from((value as f32).to_bits() as i32 & i32::MAX),
        false => value.to_bits() as i64 & i64::MAX,
    };
    match one.is_sign_negative() == other.is_sign_negative() {
        true => place(one).abs_diff(place(other)),
        false => u64::MAX,
    }
}

/// Returns whether two values are the same, floats as far as it is said.
fn same(one: &ScalarValue, other: &ScalarValue, accuracy: Accuracy, rounds: bool) -> bool {
    let near = |one: f64, other: f64, is_single: bool| {
        let apart = ulps(one, other, is_single);
        let is_near = rounds && (one - other).abs() <= one.abs().max(1.0) * 1e-9;
        let same_zero = one != 0.0 || one.is_sign_negative() == other.is_sign_negative();
        match accuracy {
            Accuracy::Exact => apart == 0 && same_zero || is_near,
            Accuracy::Ulps(most) => apart <= most.into() || is_near,
        }
    };
    match (one, other) {
        (ScalarValue::Float64(Some(one)), ScalarValue::Float64(Some(other))) => {
            near(*one, *other, false)
        }
        (ScalarValue::Float32(Some(one)), ScalarValue::Float32(Some(other))) => {
            near((*one).into(), (*other).into(), true)
        }
        (one, other) => one == other,
    }
}

fn datafusion_scalar(constant: &Scalar, function: &str) -> ScalarValue {
    match (&constant.value, &constant.data_type) {
        // The planner has cast the places of `round`.
        (IrValue::Int(value), DataType::Int64) if function == "round" => {
            ScalarValue::Int32(Some(*value as i32))
        }
        (IrValue::Int(value), DataType::Int64) => ScalarValue::Int64(Some(*value)),
        (IrValue::Int(value), _) => ScalarValue::TimestampNanosecond(Some(*value), None),
        (IrValue::Utf8(text), _) => ScalarValue::Utf8(Some(text.to_string())),
        (
            IrValue::Interval {
                months,
                days,
                nanoseconds,
            },
            _,
        ) => {
            let value = IntervalMonthDayNano::new(*months, *days, *nanoseconds);
            ScalarValue::IntervalMonthDayNano(Some(value))
        }
        (value, of) => panic!("{value:?} of {of}"),
    }
}

/// A call on both sides.
pub(crate) struct Call {
    pub(crate) ours: Expr,
    pub(crate) theirs: Arc<dyn PhysicalExpr>,
}

impl Call {
    fn of(
        entry: &'static ScalarEntry,
        signature: &Signature,
        udf: &Arc<ScalarUDF>,
        schema: &SchemaRef,
    ) -> Self {
        let columns = signature.arguments.iter().enumerate();
        let ours: Vec<Expr> = columns
            .map(|(at, of)| Expr::column(at, of.clone()).unwrap())
            .collect();
        let (mut args, mut constants): (Vec<Arc<dyn PhysicalExpr>>, _) = (Vec::new(), Vec::new());
        let mut left = (0..ours.len()).map(|at| Column::new(&format!("c{at}"), at));
        let mut given = signature.constants().iter();
        let part = match &signature.options {
            Options::Part(part) => Some(ScalarValue::Utf8(Some(part.to_string()))),
            _ => None,
        };
        if let Some(part) = &part {
            args.push(Arc::new(Literal::new(part.clone())));
        }
        for place in 0.. {
            let constant = match entry.constants.contains(&place) {
                true => given.next(),
                false => None,
            };
            match (constant, entry.constants.contains(&place)) {
                (Some(constant), _) => {
                    args.push(Arc::new(Literal::new(datafusion_scalar(
                        constant, entry.name,
                    ))));
                    constants.push(constant.clone());
                }
                (None, true) => {}
                (None, false) => match left.next() {
                    Some(column) => args.push(Arc::new(column)),
                    None => break,
                },
            }
        }
        let config = Arc::new(ConfigOptions::default());
        let theirs = ScalarFunctionExpr::try_new(Arc::clone(udf), args, schema, config);
        let theirs = theirs.unwrap_or_else(|error| panic!("{} {signature:?}: {error}", entry.name));
        assert_eq!(
            theirs.return_type(),
            &signature.result,
            "{} {signature:?}",
            entry.name
        );
        let ours = match &signature.options {
            Options::Part(part) => Expr::date_part(*part, ours[0].clone()),
            _ => {
                let function = Function::named(entry.name).unwrap();
                Expr::call(function, constants, ours, signature.result.clone())
            }
        };
        Self {
            ours: ours.unwrap(),
            theirs: Arc::new(theirs),
        }
    }

    pub(crate) fn hold(&self, batch: &RecordBatch, accuracy: Accuracy) {
        let ours = interpret::evaluate(&self.ours, &[], batch);
        let theirs = self.theirs.evaluate(batch);
        let theirs = theirs.and_then(|value| value.into_array(batch.num_rows()));
        let shown = || format!("{} over {:?}", self.theirs, batch.columns());
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => {
                for row in 0..batch.num_rows() {
                    let value = |array: &ArrayRef| ScalarValue::try_from_array(array, row).unwrap();
                    let (ours, theirs) = (value(&ours), value(&theirs));
                    let is_same = same(&theirs, &ours, accuracy, false);
                    let args: Vec<_> = batch.columns().iter().map(value).collect();
                    assert!(
                        is_same,
                        "{} of {args:?}: {ours:?} instead of {theirs:?}",
                        self.theirs
                    );
                }
            }
            (Err(_), Err(_)) if batch.num_rows() == 1 => {}
            (Ok(_), Err(theirs)) if batch.num_rows() == 1 => {
                panic!("{}: no error instead of {theirs}", shown());
            }
            (Err(ours), Ok(_)) if batch.num_rows() == 1 => {
                panic!("{}: {ours}, and DataFusion has none", shown());
            }
            _ => {
                for row in 0..batch.num_rows() {
                    self.hold(&batch.slice(row, 1), accuracy);
                }
            }
        }
    }
}

fn udfs() -> HashMap<String, Arc<ScalarUDF>> {
    let functions = datafusion::functions::all_default_functions().into_iter();
    functions.map(|udf| (udf.name().to_owned(), udf)).collect()
}

#[test]
fn functions_give_what_datafusion_gives() {
    let udfs = udfs();
    let mut checked = 0;
    for entry in catalogue::functions() {
        let names = match entry.name {
            "date_part" => &["date_part"],
            _ => entry.datafusion,
        };
        for name in names {
            // DataFusion has no body for it: its planner makes a CASE.
            if *name == "coalesce" {
                continue;
            }
            let udf = udfs
                .get(*name)
                .unwrap_or_else(|| panic!("no function {name}"));
            for (index, signature) in (entry.signatures)().iter().enumerate() {
                // DataFusion compares floats by their bits, and is given canonical ones.
                let mut random = Random(index as u64);
                for _ in 0..3 {
                    let batch = random.batch(&signature.arguments, false);
                    let call = Call::of(entry, signature, udf, &batch.schema());
                    call.hold(&batch, entry.accuracy);
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 300, "{checked}");
}

#[test]
fn aggregates_give_what_datafusion_gives() {
    let functions = all_default_aggregate_functions().into_iter();
    let mut udafs: HashMap<String, Arc<AggregateUDF>> = functions
        .map(|udaf| (udaf.name().to_owned(), udaf))
        .collect();
    // DataFusion's has other states for groups, which cancel.
    let session = Session::builder().build().unwrap();
    let corr = session.context().state().aggregate_functions()["corr"].clone();
    udafs.insert("corr".into(), corr);
    for entry in catalogue::aggregates() {
        for name in entry.datafusion {
            let udaf = udafs
                .get(*name)
                .unwrap_or_else(|| panic!("no aggregate {name}"));
            for (index, types) in (entry.arguments)().iter().enumerate() {
                let is_coded = |of: &DataType| matches!(of, DataType::Dictionary(..));
                if !types.is_empty() && !types.iter().any(is_coded) {
                    hold_aggregate(entry, udaf, types, &mut Random(index as u64));
                    hold_groups(entry, udaf, types, &mut Random(index as u64));
                }
            }
        }
    }
}

/// Holds value and state over a batch, over one row, and over no rows; and DataFusion's merging of the state.
fn hold_aggregate(
    entry: &'static AggregateEntry,
    udaf: &Arc<AggregateUDF>,
    types: &[DataType],
    random: &mut Random,
) {
    let whole = random.batch(types, true);
    for batch in [whole.clone(), whole.slice(3, 1), whole.slice(0, 0)] {
        let theirs = aggregate_of(udaf, types, &batch.schema());
        let mut accumulator = theirs.create_accumulator().unwrap();
        accumulator.update_batch(batch.columns()).unwrap();
        let state = accumulator.state().unwrap();
        let mut accumulator = theirs.create_accumulator().unwrap();
        accumulator.update_batch(batch.columns()).unwrap();
        let value = accumulator.evaluate().unwrap();
        let call = call_of(entry, types, &theirs);
        let fields = call.state.clone();
        let rounds = (entry.rounds)(&call.data_type);
        let ours = |output: AggregateOutput, schema: Vec<Field>| {
            run(&batch, vec![], call.clone(), output, schema)
        };
        let nullable = |field: &Field| Field::new("s", field.data_type().clone(), true);
        let found = ours(
            AggregateOutput::State,
            fields.iter().map(nullable).collect(),
        );
        let shown = format!("{} of {types:?} over {} rows", entry.name, batch.num_rows());
        for (at, expected) in state.iter().enumerate() {
            let found = ScalarValue::try_from_array(found.column(at), 0).unwrap();
            // A group without a value may also have no count.
            let is_empty = batch.num_rows() < 2 && found.is_null();
            assert!(
                is_empty || same(expected, &found, Accuracy::Exact, true),
                "state {at} of {shown}: {found:?} instead of {expected:?}"
            );
        }
        let mut merged = theirs.create_accumulator().unwrap();
        merged.merge_batch(found.columns()).unwrap();
        let merged = merged.evaluate().unwrap();
        assert!(
            same(&value, &merged, Accuracy::Exact, rounds),
            "{shown}: {merged:?} instead of {value:?}"
        );
        let field = Field::new("v", call.data_type.clone(), true);
        let found = ours(AggregateOutput::Value, vec![field]);
        let found = ScalarValue::try_from_array(found.column(0), 0).unwrap();
        assert!(
            same(&value, &found, Accuracy::Exact, rounds),
            "{shown}: {found:?} instead of {value:?}"
        );
    }
}

fn aggregate_of(
    udaf: &Arc<AggregateUDF>,
    types: &[DataType],
    schema: &SchemaRef,
) -> AggregateFunctionExpr {
    let columns = (0..types.len()).map(|at| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(&format!("c{at}"), at));
        column
    });
    AggregateExprBuilder::new(Arc::clone(udaf), columns.collect())
        .schema(Arc::clone(schema))
        .alias("v")
        .build()
        .unwrap()
}

fn call_of(
    entry: &'static AggregateEntry,
    types: &[DataType],
    theirs: &AggregateFunctionExpr,
) -> AggregateCall {
    let fields = theirs.state_fields().unwrap();
    let fields = fields.iter().map(|field| field.as_ref().clone());
    let arguments = types.iter().enumerate();
    let arguments = arguments.map(|(at, of)| Expr::column(at, of.clone()).unwrap());
    let call = AggregateCall::with_arguments(
        entry.function,
        arguments.collect(),
        None,
        theirs.field().data_type().clone(),
        fields.collect(),
        "v",
    );
    call.unwrap_or_else(|error| panic!("{}: {error}", entry.name))
}

fn run(
    batch: &RecordBatch,
    keys: Vec<NamedExpr>,
    call: AggregateCall,
    output: AggregateOutput,
    schema: Vec<Field>,
) -> RecordBatch {
    let aggregate = Aggregate {
        keys,
        calls: vec![call],
        output,
    };
    let pipeline = Pipeline {
        input: batch.schema(),
        parameters: vec![],
        steps: vec![Step::Aggregate(aggregate)],
        output: Arc::new(Schema::new(schema)),
    };
    let mut interpreter = Interpreter::new(Arc::new(pipeline)).unwrap();
    interpreter.fold(batch).unwrap();
    interpreter.finish().unwrap().remove(0)
}

/// Holds value and state of groups, where DataFusion has its own way for them.
fn hold_groups(
    entry: &'static AggregateEntry,
    udaf: &Arc<AggregateUDF>,
    types: &[DataType],
    random: &mut Random,
) {
    const GROUPS: usize = 7;
    let mut columns = types.to_vec();
    columns.push(DataType::Int64);
    let random = random.batch(&columns, true);
    let keys: Vec<i64> = (0..ROWS).map(|row| (row % GROUPS) as i64).collect();
    let mut arrays = random.columns().to_vec();
    arrays[types.len()] = Arc::new(Int64Array::from(keys));
    let batch = RecordBatch::try_new(random.schema(), arrays).unwrap();
    let theirs = aggregate_of(udaf, types, &batch.schema());
    if !theirs.groups_accumulator_supported() {
        return;
    }
    let groups: Vec<usize> = (0..ROWS).map(|row| row % GROUPS).collect();
    let arguments = &batch.columns()[..types.len()];
    let updated = || {
        let mut accumulator = theirs.create_groups_accumulator().unwrap();
        let updated = accumulator.update_batch(arguments, &groups, None, GROUPS);
        updated.unwrap();
        accumulator
    };
    let state = updated().state(EmitTo::All).unwrap();
    let value = updated().evaluate(EmitTo::All).unwrap();
    let call = call_of(entry, types, &theirs);
    let key = NamedExpr {
        expr: Expr::column(types.len(), DataType::Int64).unwrap(),
        name: "k".into(),
    };
    let rounds = (entry.rounds)(&call.data_type);
    let field = |of: &DataType| Field::new("c", of.clone(), true);
    for (output, expected) in [
        (AggregateOutput::State, state),
        (AggregateOutput::Value, vec![value]),
    ] {
        let types = match output {
            AggregateOutput::State => call.state.iter().map(|of| field(of.data_type())).collect(),
            AggregateOutput::Value => vec![field(&call.data_type)],
        };
        let fields = [vec![field(&DataType::Int64)], types].concat();
        let found = run(&batch, vec![key.clone()], call.clone(), output, fields);
        for (at, expected) in expected.iter().enumerate() {
            for group in 0..GROUPS {
                let value = |array: &ArrayRef| ScalarValue::try_from_array(array, group).unwrap();
                let (expected, found) = (value(expected), value(found.column(at + 1)));
                // A group of the state of floats may have been summed in another order.
                assert!(
                    same(&expected, &found, Accuracy::Exact, rounds || at > 0),
                    "{output:?} {at} of {}: {found:?} instead of {expected:?}",
                    entry.name
                );
            }
        }
    }
}

/// Writes a constant of a call in SQL.
fn sql_of(constant: &Scalar) -> String {
    match &constant.value {
        IrValue::Int(value) => value.to_string(),
        IrValue::Utf8(text) => format!("'{text}'"),
        IrValue::Interval {
            days, nanoseconds, ..
        } => format!(
            "INTERVAL '{days} days {} seconds'",
            nanoseconds / 1_000_000_000
        ),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_are_found_by_their_names_in_sql() {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    for entry in catalogue::functions() {
        let Some(name) = entry.datafusion.first() else {
            continue;
        };
        let signature = (entry.signatures)().remove(0);
        let batch = Random(7).batch(&signature.arguments, true);
        session.context().deregister_table("t").unwrap();
        session.register_batch("t", batch).unwrap();
        let mut columns = (0..signature.arguments.len()).map(|at| format!("c{at}"));
        let mut constants = signature.constants().iter().map(sql_of);
        let num = signature.arguments.len() + signature.constants().len();
        let args = (0..num).map(|place| match entry.constants.contains(&place) {
            true => constants.next().unwrap(),
            false => columns.next().unwrap(),
        });
        let args: Vec<String> = args.collect();
        let sql = format!("SELECT count({name}({})) FROM t", args.join(", "));
        let frame = session.sql(&sql).await.unwrap();
        let regions = frame.placement().await.unwrap();
        let reasons: Vec<&String> = regions.iter().flat_map(|region| &region.reasons).collect();
        assert!(
            reasons.is_empty() && !regions.is_empty(),
            "{sql}: {reasons:?}"
        );
    }
}
