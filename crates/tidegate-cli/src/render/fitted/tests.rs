//! Types stand below names and numbers to the right.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use unicode_width::UnicodeWidthStr;

use super::{Cells, plan};

fn cells(columns: Vec<(String, ArrayRef)>) -> Cells {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    Cells::new(&batch.schema(), &[batch]).unwrap()
}

fn text(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[test]
fn types_stand_below_names_and_numbers_to_the_right() {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None]));
    let cells = cells(vec![
        ("n".into(), numbers),
        ("t".into(), text(&["é", "two\nlines"])),
    ]);
    let expect = "\
+--------+---------+
|      n | t       |
| BIGINT | VARCHAR |
+--------+---------+
|      7 | é       |
|   NULL | two     |
|        | lines   |
+--------+---------+
";
    let frame = cells.frame(80);
    assert_eq!((frame.text.as_str(), frame.hidden), (expect, 0));
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    let long = "x".repeat(100);
    for num_columns in [1, 2, 3, 7, 40] {
        let columns = (0..num_columns).map(|c| (format!("column{c}"), text(&[&long])));
        let cells = cells(columns.collect());
        for width in [30, 80, 200] {
            let frame = cells.frame(width);
            let widest = frame.text.lines().map(UnicodeWidthStr::width).max();
            assert!(
                widest <= Some(width),
                "{num_columns} {width}\n{}",
                frame.text
            );
            assert!(frame.text.contains("column0"), "{}", frame.text);
            assert_eq!(
                frame.hidden > 0,
                num_columns * 27 + 1 > width && num_columns > 1
            );
        }
    }
}

#[test]
fn columns_in_the_middle_are_left_out() {
    let columns = (0..20).map(|c| (format!("c{c}"), text(&["value"])));
    let frame = cells(columns.collect()).frame(50);
    let expect = "\
+---------+---------+---+---------+---------+
| c0      | c1      | … | c18     | c19     |
| VARCHAR | VARCHAR | … | VARCHAR | VARCHAR |
+---------+---------+---+---------+---------+
| value   | value   | … | value   | value   |
+---------+---------+---+---------+---------+
";
    assert_eq!((frame.text.as_str(), frame.hidden), (expect, 16));
}

#[test]
fn lines_of_plans_are_broken() {
    let lines = format!("Sort\n  Scan: {}", "column, ".repeat(20));
    let cells = cells(vec![
        ("plan_type".into(), text(&["physical_plan"])),
        ("plan".into(), text(&[&lines])),
    ]);
    let text = plan(&cells, 60);
    assert!(text.starts_with("-- physical_plan --\nSort\n  Scan: column, "));
    assert!(text.lines().all(|line| line.len() <= 60), "{text}");
    assert_eq!(text.matches("column,").count(), 20);
}

#[test]
fn names_of_tables_stay_longest() {
    let tables = cells(vec![
        ("table_schema".into(), text(&["public"])),
        ("table_name".into(), text(&["orders_of_last_year"])),
        ("table_type".into(), text(&["BASE TABLE"])),
    ]);
    for width in [20, 30, 40, 45, 60, 80] {
        let frame = tables.frame(width);
        let widest = frame.text.lines().map(|line| line.width()).max();
        assert!(widest <= Some(width), "{width}\n{}", frame.text);
        assert!(
            width < 40 || frame.text.contains("| orders_of_last_year |"),
            "{}",
            frame.text
        );
    }
    assert!(tables.frame(20).text.contains("| orders_… |"));
    assert_eq!(tables.frame(40).hidden, 1);
    assert_eq!(tables.frame(80).hidden, 0);
}

#[test]
fn headings_of_plans_are_no_wider_than_the_terminal() {
    let part = "logical_plan after join_dependent_subqueries and many others";
    let plans = cells(vec![
        ("plan_type".into(), text(&[part])),
        ("plan".into(), text(&["SAME TEXT AS ABOVE"])),
    ]);
    let text = plan(&plans, 30);
    assert!(text.lines().all(|line| line.width() <= 30), "{text}");
}
