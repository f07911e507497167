//! `acos(a)` in radians; NaN outside of −1 to 1.

crate::catalogue::floats::libm!(acos, "acos", 4);
