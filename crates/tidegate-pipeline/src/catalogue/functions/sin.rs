//! `sin(a)`, of an angle in radians.

crate::catalogue::floats::libm!(sin, "sin", 4);
