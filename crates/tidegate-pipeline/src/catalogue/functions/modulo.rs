//! `a % b`, of the dividend's sign: integers and decimals raise for 0; MIN % −1 is 0 for integers, and
//! raises for decimals.

crate::catalogue::arithmetic::operator!("modulo", Modulo, OPERANDS);
