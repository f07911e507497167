//! Seven walkthroughs, each told in `docs/guide/walkthroughs`.
//!
//! `cargo run --release --example walkthrough -- <name> [full]`; without a name all of them run, small.

#[path = "all.rs"]
mod walkthroughs;

#[tokio::main]
async fn main() -> walkthroughs::Outcome {
    walkthroughs::start(std::env::args().skip(1)).await
}
