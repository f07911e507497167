//! A scheduler and executors in one process, over loopback.

mod answers;
mod nodes;
mod trust;
