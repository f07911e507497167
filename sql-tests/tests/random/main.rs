//! What no file of SQL says: random queries, and devices that fail.

mod differential;
mod faults;
