//! `exp(a)`.

crate::catalogue::floats::libm!(exp, "exp", 4);
