//! What the answers have to be, computed on the host from the rows' numbers.

use std::thread;

use tidegate_kernels::groups::Groups;

use crate::columns::{Column, mix};
use crate::shapes::{Check, Shape};

/// What a shape gave.
pub(crate) enum Answer {
    None,
    Rows(u64),
    Groups(Groups),
}

/// Returns `ok`, or what differs.
pub(crate) fn check(shape: &Shape, answer: &Answer, rows: u64, quantiles: &[u32]) -> String {
    let checked = match (shape.check, answer) {
        (Check::Rows, Answer::Rows(found)) => check_rows(shape, *found, rows),
        (Check::Q6, Answer::Groups(groups)) => check_q6(shape, groups, rows),
        (Check::Q1, Answer::Groups(groups)) => check_q1(shape, groups, rows),
        (Check::IntegerGroups, Answer::Groups(groups)) => {
            check_integers(shape, groups, rows, quantiles)
        }
        (Check::Calls, Answer::Groups(groups)) => check_calls(shape, groups, rows),
        (Check::FloatGroups, Answer::Groups(groups)) => {
            check_floats(shape, groups, rows, quantiles)
        }
        _ => Err("no answer of the kind".into()),
    };
    match checked {
        Ok(()) => "ok".into(),
        Err(why) => format!("WRONG: {why}"),
    }
}

/// Folds all rows, each thread a range of them.
pub(crate) fn over_rows<T: Default + Send>(
    rows: u64,
    fold: impl Fn(&mut T, u64) + Sync,
    join: impl Fn(&mut T, T),
) -> T {
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let per_thread = rows.div_ceil(threads).max(1);
    let parts: Vec<T> = thread::scope(|scope| {
        let fold = &fold;
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut part = T::default();
                    let end = rows.min((thread + 1) * per_thread);
                    for row in thread * per_thread..end {
                        fold(&mut part, row);
                    }
                    part
                })
            })
            .collect();
        workers
            .into_iter()
            .filter_map(|worker| worker.join().ok())
            .collect()
    });
    let mut all = T::default();
    for part in parts {
        join(&mut all, part);
    }
    all
}

fn is_float(shape: &Shape) -> bool {
    shape.columns[3].width == 8
}

/// The values of a lineitem row as hundredths: discount, quantity, price, tax.
fn hundredths(shape: &Shape, row: u64) -> [i64; 4] {
    [1, 2, 3, 4].map(|index| match shape.columns.get(index) {
        None => 0,
        Some(column) if column.width == 8 => (column.float(row, &[]) * 100.0).round() as i64,
        Some(column) => column.integer(row, &[]),
    })
}

fn close(found: f64, expected: f64, sizes: f64) -> bool {
    (found - expected).abs() <= 256.0 * f64::EPSILON * sizes
}

fn check_rows(shape: &Shape, found: u64, rows: u64) -> Result<(), String> {
    let expected = over_rows(
        rows,
        |count: &mut u64, row| *count += u64::from(shape.columns[0].integer(row, &[]) < 500_000),
        |all, part| *all += part,
    );
    if found == expected {
        return Ok(());
    }
    Err(format!("{found} rows, not {expected}"))
}

fn check_q6(shape: &Shape, groups: &Groups, rows: u64) -> Result<(), String> {
    let date = &shape.columns[0];
    let expected = over_rows(
        rows,
        |sum: &mut i128, row| {
            let day = date.integer(row, &[]);
            let [discount, quantity, price, _] = hundredths(shape, row);
            if shape.columns.iter().any(|column| column.is_null(row)) {
                return;
            }
            if (8766..9131).contains(&day) && (5..=7).contains(&discount) && quantity < 2400 {
                *sum += i128::from(price * discount);
            }
        },
        |all, part| *all += part,
    );
    let found = groups.sum_of(0, 0).ok_or("no sum")?;
    let expected = if is_float(shape) {
        expected as f64 / 1e4
    } else {
        expected as f64
    };
    // Hundredths are rounded as doubles before they are multiplied.
    let sizes = if is_float(shape) { expected } else { 0.0 };
    if close(found, expected, sizes) {
        return Ok(());
    }
    Err(format!("{found}, not {expected}"))
}

fn check_q1(shape: &Shape, groups: &Groups, rows: u64) -> Result<(), String> {
    let columns = &shape.columns;
    type Sums = [[i128; 6]; 6];
    let expected: Sums = over_rows(
        rows,
        |sums: &mut Sums, row| {
            if columns[0].integer(row, &[]) > 10_471 {
                return;
            }
            let group = columns[5].integer(row, &[]) * 2 + columns[6].integer(row, &[]);
            let [discount, quantity, price, tax] = hundredths(shape, row);
            let discounted = price * (100 - discount);
            let values = [
                quantity,
                price,
                discounted,
                discounted * (100 + tax),
                discount,
                1,
            ];
            for (sum, value) in sums[group as usize].iter_mut().zip(values) {
                *sum += i128::from(value);
            }
        },
        |all, part| {
            for (all, part) in all.iter_mut().flatten().zip(part.into_iter().flatten()) {
                *all += part;
            }
        },
    );
    if groups.len() != 6 {
        return Err(format!("{} groups, not 6", groups.len()));
    }
    let units = if is_float(shape) {
        [1e2, 1e2, 1e4, 1e6]
    } else {
        [1.0; 4]
    };
    for row in 0..6 {
        let key = |index: usize| groups.key_of(index, row).unwrap_or(0);
        let group = (key(0) * 2 + key(1)) as usize;
        let count = groups.count_of(7, row);
        if i128::from(count) != expected[group][5] {
            return Err(format!("count {count}, not {}", expected[group][5]));
        }
        for (call, unit) in units.iter().enumerate() {
            let found = groups.sum_of(call, row).ok_or("no sum")?;
            let wanted = expected[group][call] as f64 / unit;
            let sizes = if is_float(shape) { wanted } else { 0.0 };
            if !close(found, wanted, sizes) {
                return Err(format!("call {call}: {found}, not {wanted}"));
            }
        }
    }
    Ok(())
}

/// Sums that tell apart which value went to which key, whatever the order.
fn check_integers(
    shape: &Shape,
    groups: &Groups,
    rows: u64,
    quantiles: &[u32],
) -> Result<(), String> {
    let (keys, values) = (&shape.columns[0], &shape.columns[1]);
    let expected = over_rows(
        rows,
        |sums: &mut [u64; 2], row| {
            let key = mix(keys.raw(row, quantiles) ^ 0x5bd1_e995);
            let value = values.raw(row, &[]);
            sums[0] = sums[0].wrapping_add(value);
            sums[1] = sums[1].wrapping_add(value.wrapping_mul(key | 1));
        },
        |all, part| {
            for (all, part) in all.iter_mut().zip(part) {
                *all = all.wrapping_add(part);
            }
        },
    );
    let mut found = [0_u64; 2];
    for row in 0..groups.len() {
        let key = mix(groups.key_of(0, row).unwrap_or(0) as u64 ^ 0x5bd1_e995);
        let sum = groups.integer_of(0, row).unwrap_or(0) as u64;
        found[0] = found[0].wrapping_add(sum);
        found[1] = found[1].wrapping_add(sum.wrapping_mul(key | 1));
    }
    if found == expected {
        return Ok(());
    }
    Err(format!(
        "{found:x?}, not {expected:x?} over {} groups",
        groups.len()
    ))
}

/// What a call has seen in a group.
#[derive(Clone, Copy, Default)]
struct Seen {
    count: u64,
    sum: i128,
}

/// Every count and sum of every group: the shape's first columns are its keys, of few values.
fn check_calls(shape: &Shape, groups: &Groups, rows: u64) -> Result<(), String> {
    let keys = &shape.columns[..shape.num_keys];
    // NULL's index follows the values'.
    let sizes: Vec<usize> = keys.iter().map(|key| key.count() as usize + 1).collect();
    let place = |indices: &mut dyn Iterator<Item = usize>| {
        indices
            .zip(&sizes)
            .fold(0, |place, (index, size)| place * size + index)
    };
    let num_places: usize = sizes.iter().product();
    let num_calls = shape.arguments.len();
    let expected = over_rows(
        rows,
        |seen: &mut Vec<Seen>, row| {
            seen.resize(num_places * num_calls, Seen::default());
            let index = |key: &Column| match key.is_null(row) {
                true => key.count() as usize,
                false => (key.raw(row, &[]) - key.low) as usize,
            };
            let first = place(&mut keys.iter().map(index)) * num_calls;
            for (seen, argument) in seen[first..].iter_mut().zip(&shape.arguments) {
                let column = argument.map(|argument| &shape.columns[argument]);
                if column.is_some_and(|column| column.is_null(row)) {
                    continue;
                }
                seen.count += 1;
                seen.sum += column.map_or(0, |column| column.exact(row));
            }
        },
        |all, part| {
            all.resize(num_places * num_calls, Seen::default());
            for (all, part) in all.iter_mut().zip(part) {
                all.count += part.count;
                all.sum += part.sum;
            }
        },
    );
    let num_groups = expected
        .chunks(num_calls)
        .filter(|calls| calls.last().is_some_and(|rows| rows.count > 0));
    if num_groups.clone().count() != groups.len() {
        return Err(format!(
            "{} groups, not {}",
            groups.len(),
            num_groups.count()
        ));
    }
    for group in 0..groups.len() {
        let index = |(at, key): (usize, &Column)| match groups.key_of(at, group) {
            None => key.count() as usize,
            Some(value) => {
                ((value - i128::from(key.value_of(key.low))) / i128::from(key.factor)) as usize
            }
        };
        let first = place(&mut keys.iter().enumerate().map(index)) * num_calls;
        for (call, argument) in shape.arguments.iter().enumerate() {
            let wanted = expected[first + call];
            let Some(column) = argument.map(|argument| shape.columns[argument]) else {
                if groups.count_of(call, group) != wanted.count {
                    return Err(format!(
                        "call {call}: {} rows, not {}",
                        groups.count_of(call, group),
                        wanted.count
                    ));
                }
                continue;
            };
            let is_right = if column.is_float() {
                let found = groups.sum_of(call, group).ok_or("no sum")?;
                let sum = wanted.sum as f64 * column.unit();
                close(found, sum, sum)
            } else {
                // Sums of integers wrap at their type's width.
                let found = groups.integer_of(call, group).ok_or("no sum")?;
                match column.width {
                    16 => found == wanted.sum,
                    _ => found as i64 == wanted.sum as i64,
                }
            };
            if !is_right {
                return Err(format!("call {call} of group {group}: not {}", wanted.sum));
            }
        }
    }
    Ok(())
}

fn check_floats(
    shape: &Shape,
    groups: &Groups,
    rows: u64,
    quantiles: &[u32],
) -> Result<(), String> {
    const GROUPS: usize = 1000;
    let (keys, values) = (&shape.columns[0], &shape.columns[1]);
    // Exact: every value is a multiple of 2^-53.
    #[derive(Clone)]
    struct Sums(Vec<u128>);
    impl Default for Sums {
        fn default() -> Self {
            Self(vec![0; GROUPS])
        }
    }
    let expected = over_rows(
        rows,
        |sums: &mut Sums, row| {
            let key = keys.raw(row, quantiles) as usize;
            if key < GROUPS {
                sums.0[key] += (values.float(row, &[]) * 9_007_199_254_740_992.0) as u128;
            }
        },
        |all, part| {
            for (all, part) in all.0.iter_mut().zip(part.0) {
                *all += part;
            }
        },
    );
    for row in 0..groups.len() {
        let key = groups.key_of(0, row).unwrap_or(0) as usize;
        let found = groups.sum_of(0, row).ok_or("no sum")?;
        if key < GROUPS {
            let wanted = expected.0[key] as f64 / 9_007_199_254_740_992.0;
            if !close(found, wanted, wanted) {
                return Err(format!("key {key}: {found}, not {wanted}"));
            }
        }
    }
    Ok(())
}
