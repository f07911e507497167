//! `tan(a)`, of an angle in radians.

crate::catalogue::floats::libm!(tan, "tan", 6);
