//! What tests of several modules are made with.

mod simulation;
