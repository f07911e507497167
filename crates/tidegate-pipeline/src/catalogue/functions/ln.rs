//! `ln(a)`; NaN below 0.

crate::catalogue::floats::libm!(ln, "log", 3);
