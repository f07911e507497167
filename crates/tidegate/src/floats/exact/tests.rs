//! The functions of exact sums beside those that round.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::groups::{Groups, OneGroup};
use super::{FUNCTIONS, Sums};

/// Pairs with NULLs, of magnitudes that differ much, with a large offset.
fn pairs() -> [ArrayRef; 2] {
    let one = (0..97).map(|at| (at % 7 != 3).then(|| 1e6 + f64::from(at * at % 31) * 0.1));
    let other = (0..97).map(|at| (at % 11 != 5).then(|| f64::from(at * 5 % 13) - 1e-3));
    let one: Float64Array = one.collect();
    let other: Float64Array = other.collect();
    [Arc::new(one), Arc::new(other)]
}

fn arguments(sums: Sums) -> Vec<ArrayRef> {
    pairs()[..sums.arguments()].to_vec()
}

#[test]
fn they_answer_as_the_functions_that_round() {
    for (of, exact) in FUNCTIONS.iter() {
        let sums = sums_of(exact.name());
        let arguments = arguments(sums);
        let mut rounding = super::groups::rounding_accumulator(of, sums.arguments()).unwrap();
        rounding.update_batch(&arguments).unwrap();
        let expected = rounding.evaluate().unwrap();
        let mut one = OneGroup::of(Groups::new(Arc::clone(of), sums));
        one.update_batch(&arguments).unwrap();
        let actual = one.evaluate().unwrap();
        let [expected, actual] = [expected, actual].map(|value| match value {
            datafusion::common::ScalarValue::Float64(Some(value)) => value,
            other => panic!("{}: {other:?}", exact.name()),
        });
        let error = (actual - expected).abs() / expected.abs().max(1e-3);
        assert!(error < 1e-9, "{}: {actual}, not {expected}", exact.name());
    }
}

#[test]
fn of_no_values_they_are_what_the_functions_are() {
    for (of, exact) in FUNCTIONS.iter() {
        let sums = sums_of(exact.name());
        let mut rounding = super::groups::rounding_accumulator(of, sums.arguments()).unwrap();
        let mut one = OneGroup::of(Groups::new(Arc::clone(of), sums));
        assert_eq!(
            one.evaluate().unwrap(),
            rounding.evaluate().unwrap(),
            "{}",
            exact.name()
        );
    }
}

#[test]
fn the_bits_are_the_same_however_rows_are_shared_out() {
    for (of, exact) in FUNCTIONS.iter() {
        let sums = sums_of(exact.name());
        let arguments = arguments(sums);
        let rows = arguments[0].len();
        let mut all = Groups::new(Arc::clone(of), sums);
        all.update_batch(&arguments, &vec![0; rows], None, 1)
            .unwrap();
        let expected = all.evaluate(EmitTo::All).unwrap();
        for share in [1, 13, 50] {
            let mut merged = Groups::new(Arc::clone(of), sums);
            // The last share first.
            for start in (0..rows).step_by(share).rev() {
                let len = share.min(rows - start);
                let slices: Vec<_> = arguments.iter().map(|all| all.slice(start, len)).collect();
                let states = match share {
                    50 => merged.convert_to_state(&slices, None).unwrap(),
                    _ => {
                        let mut part = Groups::new(Arc::clone(of), sums);
                        part.update_batch(&slices, &vec![0; len], None, 1).unwrap();
                        part.state(EmitTo::All).unwrap()
                    }
                };
                let groups = vec![0; states[0].len()];
                merged.merge_batch(&states, &groups, 1).unwrap();
            }
            let actual = merged.evaluate(EmitTo::All).unwrap();
            assert_eq!(actual.to_data(), expected.to_data(), "{}", exact.name());
        }
    }
}

fn sums_of(name: &str) -> Sums {
    match name {
        "exact_sum" => Sums::Sum,
        "exact_avg" => Sums::Average,
        name if name.contains("var_") || name.contains("stddev") || name == "exact_var" => {
            match name.contains("covar") {
                true => Sums::Products,
                false => Sums::Squares,
            }
        }
        _ => Sums::Products,
    }
}
