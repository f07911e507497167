//! `a - b`: integers wrap, decimals and times raise where their width does not hold the result, dates give
//! days, and a date or timestamp is moved by an interval.

crate::catalogue::arithmetic::operator!("subtract", Subtract, OPERANDS, TIMES);
