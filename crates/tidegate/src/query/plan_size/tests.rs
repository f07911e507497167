//! A shared node counts wherever it stands.

use std::sync::Arc;

use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cube, lit};

use super::{OPERATORS_MAX, PlanSize};

fn doubled(levels: u32) -> LogicalPlan {
    let mut plan = LogicalPlanBuilder::empty(true).build().unwrap();
    for level in 0..levels {
        let input = Arc::new(plan);
        let one = LogicalPlanBuilder::from(Arc::clone(&input));
        let right = LogicalPlanBuilder::from(input).alias(format!("r{level}"));
        plan = one
            .cross_join(right.unwrap().build().unwrap())
            .unwrap()
            .build()
            .unwrap();
    }
    plan
}

#[test]
fn a_shared_node_counts_wherever_it_stands() {
    let size = PlanSize::of(&doubled(3));
    // 8 leaves, 7 joins, 7 aliases.
    assert_eq!(size.operators, 22);
    size.check().unwrap();
}

#[test]
fn counting_takes_no_longer_than_there_are_nodes() {
    let size = PlanSize::of(&doubled(200));
    assert_eq!(size.operators, u64::MAX);
    let error = size.check().unwrap_err().to_string();
    assert!(
        error.contains(&format!("may have {OPERATORS_MAX}")),
        "{error}"
    );
}

#[test]
fn the_keys_of_all_grouping_sets_count() {
    let cube = |from: i32, keys: i32| cube((from..from + keys).map(lit).collect());
    let size = |group_by: Vec<Expr>| {
        let none: [Expr; 0] = [];
        let plan = LogicalPlanBuilder::empty(true).aggregate(group_by, none);
        PlanSize::of(&plan.unwrap().build().unwrap())
    };
    assert!(size(vec![lit(1), lit(2)]).expressions < 8);
    let of_ten = size(vec![cube(0, 10)]).expressions;
    assert!((10 << 10..11 << 10).contains(&of_ten), "{of_ten}");
    size(vec![cube(0, 10)]).check().unwrap();
    size(vec![cube(0, 20)]).check().unwrap_err();
    size(vec![cube(0, 100)]).check().unwrap_err();
}

#[test]
fn parts_of_expressions_count() {
    let plan = LogicalPlanBuilder::empty(true)
        .project([lit(1) + lit(2) + lit(3)])
        .unwrap();
    assert_eq!(PlanSize::of(&plan.build().unwrap()).expressions, 5);
}
