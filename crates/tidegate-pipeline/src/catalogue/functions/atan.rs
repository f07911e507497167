//! `atan(a)` in radians.

crate::catalogue::floats::libm!(atan, "atan", 4);
