//! `cos(a)`, of an angle in radians.

crate::catalogue::floats::libm!(cos, "cos", 4);
