//! `a / b`: integers and decimals are rounded towards zero, and raise for 0 and where MIN / −1 does not fit.

crate::catalogue::arithmetic::operator!("divide", Divide, OPERANDS);
