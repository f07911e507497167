//! One NaN and one zero: how floats are compared, ordered and grouped.
//!
//! Every NaN, whatever its sign and payload, is one value that equals itself and is greater than all
//! others; −0.0 equals 0.0. This is the rule of PostgreSQL and DuckDB. DataFusion and Arrow compare
//! floats by IEEE 754 totalOrder instead, in which −NaN, which x86 makes by arithmetic, lies below
//! −infinity.
//!
//! [`canonical`] is a function that maps equal floats to equal bits. [`CanonicalFloats`], an analyzer
//! rule, wraps with it exactly the operands whose equality or order decides something, and
//! [`extremes`] replaces `min` and `max` of floats and of nested values; [`bounds`] distrusts the bounds that files
//! know. What is only selected keeps its bits. [`exact`] has sums that do not depend on the order of rows, [`spreads`] has
//! variances and correlations that do not cancel. Devices follow the same rule by themselves, so lowering sees through
//! `canonical` where it can.

pub(crate) mod bounds;
pub(crate) mod canonical;
mod correlated;
pub(crate) mod exact;
mod expressions;
pub(crate) mod extremes;
mod predicates;
mod rule;
pub(crate) mod spreads;

pub use rule::CanonicalFloats;
