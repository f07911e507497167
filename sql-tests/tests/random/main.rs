//! What no file of SQL says: random queries, damaged files, and devices that fail.

mod damaged;
mod differential;
mod faults;
