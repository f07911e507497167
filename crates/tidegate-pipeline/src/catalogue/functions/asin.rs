//! `asin(a)` in radians; NaN outside of −1 to 1.

crate::catalogue::floats::libm!(asin, "asin", 4);
