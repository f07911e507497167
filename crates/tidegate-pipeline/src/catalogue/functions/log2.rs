//! `log2(a)`; NaN below 0.

crate::catalogue::floats::libm!(log2, "log2", 3);
