//! `log10(a)`; NaN below 0.

crate::catalogue::floats::libm!(log10, "log10", 4);
