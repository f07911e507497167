//! A DataFrame program: generated rows, a group-by, and where each part of it ran.

#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::functions_aggregate::expr_fn::{avg, sum};
use datafusion::prelude::{col, lit};
use tidegate::{PlacementExt, Session};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let session = Session::new()?;
    let table = session
        .sql("SELECT id1, v1, v3 FROM h2o_g1(100000, 10)")
        .await?;
    let frame = table
        .filter(col("v3").gt(lit(50.0)))?
        .aggregate(vec![col("id1")], vec![sum(col("v1")), avg(col("v3"))])?
        .sort(vec![col("id1").sort(true, false)])?;

    // What would run where, before anything runs.
    for region in frame.placement().await? {
        print!("{region}");
    }
    let rows = frame.collect().await?;
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 10);
    println!("{}", pretty_format_batches(&rows)?);
    if let Some(report) = session.last_report() {
        println!("{report}");
    }
    Ok(())
}
