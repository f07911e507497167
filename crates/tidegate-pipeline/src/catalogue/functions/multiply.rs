//! `a * b`: integers wrap, decimals raise where their width does not hold the result.

crate::catalogue::arithmetic::operator!("multiply", Multiply, OPERANDS);
