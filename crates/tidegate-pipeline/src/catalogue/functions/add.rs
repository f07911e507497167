//! `a + b`: integers wrap, decimals and times raise where their width does not hold the result, a date or
//! timestamp is moved by an interval.

crate::catalogue::arithmetic::operator!("add", Add, OPERANDS, TIMES);
