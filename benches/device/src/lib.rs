//! Times kernels over resident columns on a GPU, with their answers checked.
//!
//! The columns are filled on the device from the rows' numbers; the host computes the answer from
//! the same formula. What is timed is the device's time from before the group table is made to after
//! the last launch, zeroing and growing included.
//!
//! [`start`] is given the words of a command line and returns how the process ends. In reading
//! order: `shapes` and `variants` (the queries), `columns` (what they read), `timing` (the runs),
//! `answer` (what they have to give), `finish` (what is done with many groups), `load` (how columns come to the device), `feed` (how rows do that are not kept). `arrays` is apart:
//! [`start_arrays`] measures random arrays.

mod answer;
mod arrays;
mod columns;
mod feed;
mod finish;
mod load;
mod shapes;
mod timing;
mod variants;

pub use arrays::start_arrays;
pub use timing::start;
