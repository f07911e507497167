//! Benchmarks that check their answers.
//!
//! `cargo run --release -p tidegate-benches --bin tpch_ratio` prints our time over stock
//! DataFusion's, query by query, over interleaved pairs; `--bin host_tier` prints first and second
//! runs with and without the host tier; [`places`] has host and device share queries. Nothing here is
//! part of the product.

use std::process::ExitCode;

pub mod answers;
mod lineitem;
pub mod places;
pub mod statements;
pub mod tpch;

/// Why a benchmark ended: it could not run, or an answer was wrong.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

// One program with two doors: an example of the library, and the bundle.
#[path = "../../crates/tidegate/examples/walkthrough/all.rs"]
mod walkthroughs;

/// Runs a program to its end and tells how it ended; why it failed is printed.
fn ended(program: impl Future<Output = Result<(), Failure>>) -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().map_err(Failure::from);
    match runtime.and_then(|runtime| runtime.block_on(program)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "whoever started it has to know")]
            {
                eprintln!("error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Runs the walkthroughs of the guide that are named, or all. Other words are `full`, for as much data as
/// is worth a GPU, and `require-device`, to fail where no GPU does its part.
///
/// # Errors
/// Fails with the first walkthrough that does, or for a word that is none of these.
pub async fn walk(words: impl Iterator<Item = String>) -> Result<(), Box<dyn std::error::Error>> {
    walkthroughs::start(words).await
}
