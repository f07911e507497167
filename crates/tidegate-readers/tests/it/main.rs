//! Files as people have them, and what is read of them.

mod errors;
mod names;
mod options;
mod read;
mod syntax;
mod values;
