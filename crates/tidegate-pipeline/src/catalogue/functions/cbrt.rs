//! `cbrt(a)`, the cubic root.

crate::catalogue::floats::libm!(cbrt, "cbrt", 3);
